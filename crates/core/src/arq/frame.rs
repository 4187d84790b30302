//! The EFL header: what goes before each packet, and what an acknowledgment is.
//!
//! Source: efl-mp Table 3 ("EFL header"), which names the fields and gives neither their sizes nor their order.
//!
//! | Table 3 | octets | here |
//! |---|---|---|
//! | EFL TYPE | 0 | [`Header::kind`] |
//! | (ours) | 1 | [`Header::restart`]: how often go-back-N has begun anew, modulo 256 |
//! | EA, entry address | 2 | [`Header::path`]: the path by which the packet entered |
//! | (ours) | 3 | bit 0: [`Header::opening`]; the others: [`Header::covers`], zero without parity |
//! | SEQ | 4 to 7 | [`Header::seq`]; of an acknowledgment the last number that was delivered, of parity the first of its block |
//! | TXTS | 8 to 15 | [`Header::sent`], in nanoseconds by the sender's clock; an acknowledgment returns it |
//! | dT | 16 to 19 | [`Header::held`], in nanoseconds; more than 4 s is told as that |
//! | RXTS | 20 to 27 | [`Header::received`]: when the sender got the last acknowledgment of this path |
//! | RTT | 28 to 31 | [`Header::rtt`], in nanoseconds: RXTS - TXTS - dT of that acknowledgment |
//! | (ours) | 32 to 35 | [`Header::stream`] |
//! | (ours) | 36 to 43 | of [`Kind::Request`] alone: the first missing number, how many are missing in a row (none: all from there on), zero |
//! | (ours) | 36 to 39 | of [`Kind::Parity`] alone: [`Header::row`], zero. What the row is follows (`core/parity`) |
//!
//! All numbers are big-endian. Departures: the receiver must know that go-back-N has restarted, since it empties its buffers
//! then (errata); octet 1 tells it. Cost: constant. Invariant: what [`Header::encode`] writes [`Header::decode`] reads alike,
//! and nothing else is read at all.

use super::Seq;
use crate::packet::at;
use crate::units::{ChannelId, Span, Time};
use thiserror::Error;

/// EFL TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet.
    Data,
    /// A packet that is sent again by itself: it goes past its path's reorder buffer.
    Repeat,
    /// An acknowledgment.
    Ack,
    /// An acknowledgment that asks for a retransmission: Figure 7's immediate ACK.
    Request,
    /// A row of parity for a block of packets.
    Parity,
}

/// A header as its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// EFL TYPE.
    pub kind: Kind,
    /// How often go-back-N has begun anew, modulo 256.
    pub restart: u8,
    /// EA: the path by which the packet that this is about entered.
    pub path: ChannelId,
    /// SEQ.
    pub seq: Seq,
    /// TXTS.
    pub sent: Time,
    /// dT.
    pub held: Span,
    /// RXTS.
    pub received: Time,
    /// RTT.
    pub rtt: Span,
    /// Which start of the sender this belongs to. Numbers begin again with each, and must not be taken for another's.
    pub stream: u32,
    /// Of a packet: no acknowledgment has come yet. Who begins to receive with one that does not say so has missed the beginning.
    pub opening: bool,
    /// Of a request: the first missing number, and how many are missing in a row; none: all from there on are to come again.
    pub missing: (Seq, u16),
    /// Of a packet: how many before it are of a block whose parity has not all left. Of parity: how many packets its block has.
    pub covers: u8,
    /// Of parity: which of its block's rows.
    pub row: u8,
}

/// Why octets are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// It ends too early.
    #[error("an EFL header of {length} octets; its kind has {expected}")]
    Short {
        /// What there is.
        length: usize,
        /// What its kind has.
        expected: usize,
    },
    /// No such kind.
    #[error("EFL TYPE {kind}; there are 1 to 5")]
    Kind {
        /// What was found.
        kind: u8,
    },
    /// No such path.
    #[error("EFL path {path}; paths are numbered 0 to 63")]
    Path {
        /// What was found.
        path: u8,
    },
}

impl Header {
    /// Octets of the header of a packet, and of an acknowledgment.
    pub const LENGTH: usize = 36;
    /// Octets of the header of parity.
    pub const PARITY_LENGTH: usize = 40;
    /// Octets of a request.
    pub const REQUEST_LENGTH: usize = 44;

    /// Writes it; gives its length.
    pub fn encode(&self, out: &mut [u8; Header::REQUEST_LENGTH]) -> usize {
        let nanos = |span: Span| u32::try_from(span.as_nanos()).unwrap_or(u32::MAX).to_be_bytes();
        *out = [0; Header::REQUEST_LENGTH];
        out[0] = match self.kind {
            Kind::Data => 1,
            Kind::Repeat => 2,
            Kind::Ack => 3,
            Kind::Request => 4,
            Kind::Parity => 5,
        };
        (out[1], out[2], out[3]) = (self.restart, self.path.0, u8::from(self.opening) | self.covers << 1);
        out[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        out[8..16].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        out[16..20].copy_from_slice(&nanos(self.held));
        out[20..28].copy_from_slice(&self.received.as_nanos().to_be_bytes());
        out[28..32].copy_from_slice(&nanos(self.rtt));
        out[32..36].copy_from_slice(&self.stream.to_be_bytes());
        match self.kind {
            Kind::Data | Kind::Repeat | Kind::Ack => Header::LENGTH,
            Kind::Parity => {
                out[36] = self.row;
                Header::PARITY_LENGTH
            }
            Kind::Request => {
                let (first, count) = self.missing;
                out[36..40].copy_from_slice(&first.0.to_be_bytes());
                out[40..42].copy_from_slice(&count.to_be_bytes());
                Header::REQUEST_LENGTH
            }
        }
    }

    /// Reads one; what follows it is the packet.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn decode(bytes: &[u8]) -> Result<Header, FrameError> {
        let short = |expected| FrameError::Short { length: bytes.len(), expected };
        let head: &[u8; Header::LENGTH] = at(bytes, 0).ok_or_else(|| short(Header::LENGTH))?;
        let kind = match head[0] {
            1 => Kind::Data,
            2 => Kind::Repeat,
            3 => Kind::Ack,
            4 => Kind::Request,
            5 => Kind::Parity,
            kind => return Err(FrameError::Kind { kind }),
        };
        if usize::from(head[2]) >= ChannelId::LIMIT {
            return Err(FrameError::Path { path: head[2] });
        }
        let four = |place: usize| at(head, place).map_or(0, |octets| u32::from_be_bytes(*octets));
        let eight = |place: usize| at(head, place).map_or(0, |octets| u64::from_be_bytes(*octets));
        let (mut missing, mut row) = ((Seq(0), 0), 0);
        if kind == Kind::Parity {
            let tail: &[u8; 4] = at(bytes, Header::LENGTH).ok_or_else(|| short(Header::PARITY_LENGTH))?;
            row = tail[0];
        }
        if kind == Kind::Request {
            let tail: &[u8; 8] = at(bytes, Header::LENGTH).ok_or_else(|| short(Header::REQUEST_LENGTH))?;
            let [a, b, c, d, e, f, ..] = *tail;
            missing = (Seq(u32::from_be_bytes([a, b, c, d])), u16::from_be_bytes([e, f]));
        }
        Ok(Header {
            kind,
            restart: head[1],
            path: ChannelId(head[2]),
            seq: Seq(four(4)),
            sent: Time::from_nanos(eight(8)),
            held: Span::from_nanos(four(16).into()),
            received: Time::from_nanos(eight(20)),
            rtt: Span::from_nanos(four(28).into()),
            stream: four(32),
            opening: head[3] & 1 == 1,
            missing,
            covers: head[3] >> 1,
            row,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(kind: Kind) -> Header {
        Header {
            kind,
            restart: 7,
            path: ChannelId(3),
            seq: Seq(0x0102_0304),
            sent: Time::from_nanos(0x1112_1314_1516_1718),
            held: Span::from_nanos(0x2122_2324),
            received: Time::from_nanos(0x3132_3334_3536_3738),
            rtt: Span::from_nanos(0x4142_4344),
            stream: 0x7172_7374,
            opening: true,
            missing: if kind == Kind::Request { (Seq(0x5152_5354), 0x6162) } else { (Seq(0), 0) },
            covers: 0,
            row: if kind == Kind::Parity { 9 } else { 0 },
        }
    }

    #[test]
    fn the_vectors_stay() {
        let common = [
            7, 3, 1, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32,
            0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x71, 0x72, 0x73, 0x74,
        ];
        for (kind, octet) in [(Kind::Data, 1), (Kind::Repeat, 2), (Kind::Ack, 3), (Kind::Request, 4), (Kind::Parity, 5)]
        {
            let mut bytes = [0xff; Header::REQUEST_LENGTH];
            let length = header(kind).encode(&mut bytes);
            assert_eq!((bytes[0], &bytes[1..36]), (octet, &common[..]), "{kind:?}");
            let tail: &[u8] = match kind {
                Kind::Request => &[0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0, 0],
                Kind::Parity => &[9, 0, 0, 0],
                _ => &[],
            };
            assert_eq!(&bytes[36..length], tail, "{kind:?}");
            let covered = Header { covers: 64, opening: false, ..header(kind) };
            covered.encode(&mut bytes);
            assert_eq!(bytes[3], 128, "{kind:?} of a block of 64");
        }
    }

    #[test]
    fn what_is_longer_than_four_seconds_is_told_as_that() {
        let mut bytes = [0; Header::REQUEST_LENGTH];
        Header { held: Span::from_secs(5), ..header(Kind::Ack) }.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes).map(|h| h.held), Ok(Span::from_nanos(u64::from(u32::MAX))));
    }

    #[test]
    fn what_is_no_header_is_named() {
        assert_eq!(Header::decode(&[]), Err(FrameError::Short { length: 0, expected: 36 }));
        let mut bytes = [0; Header::REQUEST_LENGTH];
        assert_eq!(Header::decode(&bytes), Err(FrameError::Kind { kind: 0 }));
        header(Kind::Request).encode(&mut bytes);
        assert_eq!(Header::decode(&bytes[..43]), Err(FrameError::Short { length: 43, expected: 44 }));
        header(Kind::Parity).encode(&mut bytes);
        assert_eq!(Header::decode(&bytes[..39]), Err(FrameError::Short { length: 39, expected: 40 }));
        bytes[2] = 64;
        assert_eq!(Header::decode(&bytes), Err(FrameError::Path { path: 64 }));
    }

    proptest! {
        #[test]
        fn every_header_that_is_read_is_written_alike(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first %= 7;
            }
            if let Some(third) = bytes.get_mut(2) {
                *third %= 70;
            }
            if let Ok(header) = Header::decode(&bytes) {
                let mut again = [0; Header::REQUEST_LENGTH];
                let length = header.encode(&mut again);
                prop_assert_eq!(Header::decode(&again[..length]), Ok(header));
                prop_assert_eq!(&again[..36], &bytes[..36]);
            }
        }
    }
}
