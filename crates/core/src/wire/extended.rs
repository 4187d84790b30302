//! Messages of kind 15, which is for all that came after the other kinds were used up: a third byte says which message it is, by its low four
//! bits, the *sub-kind*; the high four are the message's own.
//!
//! | sub-kind | bytes | layout after the first two bytes and the sub-kind |
//! |---|---|---|
//! | 1 compressed | 16 + rest | [`Form`] in the high four bits of the sub-kind; number on its channel u24, number in its flow bucket u24, bond-wide sequence u24, stamp u16, number of a reference u16 |
//! | 1 unknown | 5 | 15 in the high four bits; number of a reference u16 |
//! | 3 fragment | 6 + bytes | in the high four bits 8: the first of its packet, 4: the last, 2: a null fragment, which is both and has no bytes, 1: zero; sequence number u24 |
//!
//! A compressed frame is a kept one whose packet is written as [`crate::compress`] says: what follows the envelope stands in place of
//! the packet's first bytes. *Unknown* says that such a frame came and the reference that it needs is not there.
//!
//! A fragment is a part of a packet, or all of it; a null fragment only says that its channel has passed its sequence number
//! ([`crate::stripe::fragment`]). What stands behind that one is padding: a card fills a short frame up to Ethernet's least length.

use super::head::Head;
use super::short;
use super::stamp::Stamp;
use crate::compress::Form;

/// Bytes before what stands for the packet in a compressed frame of mode `reliable`.
pub const COMPRESSED_LEN: usize = 16;
/// Bytes of the word that a reference is unknown.
const UNKNOWN_LEN: usize = 5;
/// Bytes before what a fragment has of its packet.
pub const FRAGMENT_LEN: usize = 6;
/// Bytes that tell the messages apart.
const LEAST: usize = 3;

/// Sub-kind of compressed frames, and of the word that one was of no use.
const COMPRESSED: u8 = 1;
/// Sub-kind of fragments, and their flags.
const FRAGMENT: u8 = 3;
const BEGIN: u8 = 0x80;
const END: u8 = 0x40;
const NULL: u8 = 0x20;
/// In the four bits of the form: the word.
const UNKNOWN: u8 = 15;

/// What a compressed frame says before its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Its number on its channel; 24 bits.
    pub number: u32,
    /// Its number in its flow bucket, which is the reference's; 24 bits.
    pub sequence: u32,
    /// Its number in the bond; 24 bits.
    pub bond: u32,
    /// When it left.
    pub stamp: Stamp,
    /// How it is written.
    pub form: Form,
    /// The reference that it needs, or becomes.
    pub reference: u16,
}

/// What stands before a part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// It is the first of its packet.
    pub begin: bool,
    /// It is the last.
    pub end: bool,
    /// It has nothing of any packet; it is first and last then.
    pub null: bool,
    /// Its place among all fragments of its sender; 24 bits.
    pub sequence: u32,
}

/// A message of kind 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// A packet of mode `reliable` whose headers are compressed.
    Compressed(Compressed),
    /// A compressed frame was of no use: this reference is not here.
    Unknown {
        /// Its number.
        reference: u16,
    },
    /// A part of a packet follows, where a bond cuts packets.
    Fragment(Fragment),
}

/// Why bytes are no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Fewer bytes than this.
    Truncated(usize),
    /// Nobody knows what this byte says.
    Sub(u8),
}

impl Extended {
    /// How many bytes the message takes, the first two included.
    pub(super) const fn len(&self) -> usize {
        match self {
            Extended::Compressed(_) => COMPRESSED_LEN,
            Extended::Unknown { .. } => UNKNOWN_LEN,
            Extended::Fragment(_) => FRAGMENT_LEN,
        }
    }

    /// Writes the message behind the first two bytes.
    #[inline]
    pub(super) fn put(&self, head: &mut Head) {
        head.len = self.len() as u8;
        let b = &mut head.bytes;
        match *self {
            Extended::Compressed(Compressed { number, sequence, bond, stamp, form, reference }) => {
                b[2] = form.to_bits() << 4 | COMPRESSED;
                b[3..6].copy_from_slice(&short::to_bytes(number));
                b[6..9].copy_from_slice(&short::to_bytes(sequence));
                b[9..12].copy_from_slice(&short::to_bytes(bond));
                b[12..14].copy_from_slice(&stamp.0.to_be_bytes());
                b[14..16].copy_from_slice(&reference.to_be_bytes());
            }
            Extended::Unknown { reference } => {
                b[2] = UNKNOWN << 4 | COMPRESSED;
                b[3..5].copy_from_slice(&reference.to_be_bytes());
            }
            Extended::Fragment(Fragment { begin, end, null, sequence }) => {
                let flag = |set, flag| if set { flag } else { 0 };
                b[2] = FRAGMENT | flag(begin, BEGIN) | flag(end, END) | flag(null, NULL);
                b[3..6].copy_from_slice(&short::to_bytes(sequence));
            }
        }
    }

    /// Reads the message of a frame.
    #[inline]
    pub(super) fn read(frame: &[u8]) -> Result<Extended, Wrong> {
        let [.., sub] = *frame.first_chunk::<LEAST>().ok_or(Wrong::Truncated(LEAST))?;
        match (sub & 15, sub >> 4) {
            (COMPRESSED, UNKNOWN) => {
                let [.., high, low] = *frame.first_chunk::<UNKNOWN_LEN>().ok_or(Wrong::Truncated(UNKNOWN_LEN))?;
                Ok(Extended::Unknown { reference: u16::from_be_bytes([high, low]) })
            }
            (COMPRESSED, form) => {
                let form = Form::from_bits(form).ok_or(Wrong::Sub(sub))?;
                let bytes = frame.first_chunk().ok_or(Wrong::Truncated(COMPRESSED_LEN))?;
                Ok(Extended::Compressed(compressed(bytes, form)))
            }
            (FRAGMENT, _) if sub & !(BEGIN | END) == FRAGMENT || sub == FRAGMENT | BEGIN | END | NULL => {
                let [.., s0, s1, s2] = *frame.first_chunk::<FRAGMENT_LEN>().ok_or(Wrong::Truncated(FRAGMENT_LEN))?;
                let (begin, end, null) = (sub & BEGIN != 0, sub & END != 0, sub & NULL != 0);
                Ok(Extended::Fragment(Fragment { begin, end, null, sequence: short::from_bytes([s0, s1, s2]) }))
            }
            _ => Err(Wrong::Sub(sub)),
        }
    }
}

#[inline]
const fn compressed(bytes: &[u8; COMPRESSED_LEN], form: Form) -> Compressed {
    let [_, _, _, c0, c1, c2, s0, s1, s2, n0, n1, n2, t0, t1, r0, r1] = *bytes;
    Compressed {
        number: short::from_bytes([c0, c1, c2]),
        sequence: short::from_bytes([s0, s1, s2]),
        bond: short::from_bytes([n0, n1, n2]),
        stamp: Stamp(u16::from_be_bytes([t0, t1])),
        form,
        reference: u16::from_be_bytes([r0, r1]),
    }
}
