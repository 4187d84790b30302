//! Messages of parity over the packets of mode `reliable`: kind 15 of the [envelope](super::envelope), sub-kind 2.
//!
//! | message | bytes | layout after the first three bytes (the third is the sub-kind) |
//! |---|---|---|
//! | row | 11 + row | row and packets u8 (0, row in 3 bits, packets less one in 4), number on its channel u24, flow bucket u16, first u16 |
//! | mended | 11 | 0x80 u8, tag of the epoch told of u8, flow bucket u16, first u16, places u16 |
//!
//! A block is a run of packets of one flow bucket; `first` has the low 16 bits of its first packet's number there. What is coded of a packet is
//! its number in the bond u24, then the packet itself; [`parity`](crate::parity) puts its length before it. So a row of the longest packet
//! is as long as a frame that carries that packet again.
//!
//! A row has a number on its channel like a data frame, and feedback tells of it. "Mended" tells that packets of a block need not
//! be sent again: bit n of the places is the block's packet n.

use super::short;

/// The byte behind a tag, of messages of this file.
pub const SUB_KIND: u8 = 2;
/// Bytes of each of them, before a row's octets.
pub const LEN: usize = 11;
/// Most packets of a block on the wire.
pub const MOST_PACKETS: usize = 16;
/// Most rows of a block on the wire.
pub const MOST_ROWS: usize = 8;

const MENDED: u8 = 0x80;

/// What stands before the octets of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number on its channel; 24 bits.
    pub number: u32,
    /// Which of its block's rows; below [`MOST_ROWS`].
    pub row: u8,
    /// How many packets the block has: 1 to [`MOST_PACKETS`].
    pub packets: u8,
    /// Which group of flows.
    pub bucket: u16,
    /// The low 16 bits of its first packet's number in the group.
    pub first: u16,
}

/// Which packets of a block were rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mended {
    /// The low eight bits of the epoch that they are of.
    pub of: u8,
    /// Which group of flows.
    pub bucket: u16,
    /// The low 16 bits of the block's first number in the group.
    pub first: u16,
    /// Bit n: packet n of the block.
    pub places: u16,
}

/// One of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// A row follows.
    Row(Row),
    /// Packets were rebuilt.
    Mended(Mended),
}

impl Parity {
    /// Writes what stands behind the tag.
    pub(super) fn put(&self, bytes: &mut [u8; LEN - 2]) {
        bytes[0] = SUB_KIND;
        let (bucket, first) = match *self {
            Parity::Row(Row { number, row, packets, bucket, first }) => {
                bytes[1] = (row & 7) << 4 | packets.wrapping_sub(1) & 15;
                bytes[2..5].copy_from_slice(&short::to_bytes(number));
                (bucket, first)
            }
            Parity::Mended(Mended { of, bucket, first, places }) => {
                (bytes[1], bytes[2]) = (MENDED, of);
                bytes[3..5].copy_from_slice(&bucket.to_be_bytes());
                (first, places)
            }
        };
        bytes[5..7].copy_from_slice(&bucket.to_be_bytes());
        bytes[7..9].copy_from_slice(&first.to_be_bytes());
    }

    /// Reads it; `None`: no such message.
    pub(super) fn read(bytes: &[u8; LEN - 2]) -> Option<Parity> {
        let [_, what, n0, n1, n2, a0, a1, b0, b1] = *bytes;
        let (a, b) = (u16::from_be_bytes([a0, a1]), u16::from_be_bytes([b0, b1]));
        match what {
            MENDED => {
                let bucket = u16::from_be_bytes([n1, n2]);
                Some(Parity::Mended(Mended { of: n0, bucket, first: a, places: b }))
            }
            0..MENDED => {
                let (row, packets) = (what >> 4, (what & 15) + 1);
                Some(Parity::Row(Row { number: short::from_bytes([n0, n1, n2]), row, packets, bucket: a, first: b }))
            }
            _ => None,
        }
    }
}
