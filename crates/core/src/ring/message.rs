//! The control message that circles: one rate for each node's link.
//!
//! Source: rings paper, V-B3. The paper's message is the N bytes alone; ours says who sent it, for how many nodes, and
//! which one it is, so that what is foreign, old or doubled is told apart.
//!
//! Eight bytes, then a rate for each node, in order, big-endian:
//!
//! | byte | content |
//! |---|---|
//! | 0 | version (4 bits, 1), bytes of a rate (4 bits, 1 or 2) |
//! | 1 | algorithm: 1 DVSR, 2 DBA, 3 explicit |
//! | 2 | originator |
//! | 3 | nodes |
//! | 4-7 | sequence |
//!
//! A rate is a share of the nominal rate for the lightest ingress: all ones is the whole. None is zero, since every
//! ingress has a share of every link.

use super::fairness::Refused;
use super::{MOST_NODES, NodeId};
use crate::options::words;
use alloc::vec::Vec;

/// Size of a fair rate in control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bits {
    /// One byte, as in the testbed.
    Eight,
    /// Two bytes.
    #[default]
    Sixteen,
}

words!(Bits { Eight = "8", Sixteen = "16" });

const VERSION: u8 = 1;
const HEAD: usize = 8;
/// Length of the longest message.
pub const LONGEST: usize = HEAD + 2 * MOST_NODES;

/// Length of a message for `nodes` nodes.
pub const fn length(bits: Bits, nodes: usize) -> usize {
    HEAD + bits.width() * nodes
}

/// Whose rates a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Distributed virtual-time scheduling.
    Dvsr = 1,
    /// Distributed bandwidth allocation.
    Dba = 2,
    /// Max-min with explicit rates.
    Explicit = 3,
}

impl Bits {
    /// Bytes of a rate.
    pub const fn width(self) -> usize {
        match self {
            Bits::Eight => 1,
            Bits::Sixteen => 2,
        }
    }

    /// The code of the whole nominal rate.
    pub const fn whole(self) -> u16 {
        match self {
            Bits::Eight => 0xFF,
            Bits::Sixteen => 0xFFFF,
        }
    }

    /// The code of `share`, rounded down so that shares sum to no more than the whole; at least 1. One byte is so coarse
    /// that what lies within a quarter of the next code takes that.
    pub fn encode(self, share: f64) -> u16 {
        // The smallest part of a code is added, since 1/3 of 65,535 is 21,845 but for the last bit of the division.
        let up = match self {
            Bits::Eight => 0.25,
            Bits::Sixteen => 1e-6,
        };
        let code = share * f64::from(self.whole()) + up;
        (code.clamp(1.0, f64::from(self.whole())) as u16).max(1)
    }

    /// The share that `code` stands for.
    pub fn decode(self, code: u16) -> f64 {
        f64::from(code) / f64::from(self.whole())
    }
}

/// What a message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose rates follow.
    pub kind: Kind,
    /// Size of a rate.
    pub bits: Bits,
    /// Who made it.
    pub originator: NodeId,
    /// Its number among those that the originator made.
    pub sequence: u32,
}

/// Writes a message with the `codes` of all nodes over `out`.
pub fn encode(head: Head, codes: &[u16], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[VERSION << 4 | head.bits.width() as u8, head.kind as u8]);
    out.extend_from_slice(&[head.originator.number(), codes.len() as u8]);
    out.extend_from_slice(&head.sequence.to_be_bytes());
    for code in codes {
        match head.bits {
            Bits::Eight => out.push(*code as u8),
            Bits::Sixteen => out.extend_from_slice(&code.to_be_bytes()),
        }
    }
}

/// The codes of a message that was taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes<'a> {
    bytes: &'a [u8],
    bits: Bits,
}

impl Codes<'_> {
    /// By node.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let wide = self.bits == Bits::Sixteen;
        self.bytes.chunks_exact(self.bits.width()).map(move |code| match (wide, code) {
            (true, [high, low]) => u16::from_be_bytes([*high, *low]),
            _ => u16::from(code[0]),
        })
    }

    /// Writes them over `known`, by node.
    pub(crate) fn copy_to(&self, known: &mut [u16]) {
        match self.bits {
            Bits::Eight => known.iter_mut().zip(self.bytes).for_each(|(known, code)| *known = u16::from(*code)),
            Bits::Sixteen => {
                for (known, code) in known.iter_mut().zip(self.bytes.as_chunks::<2>().0) {
                    *known = u16::from_be_bytes(*code);
                }
            }
        }
    }

    fn has_zero(&self) -> bool {
        // Without leaving early: so that many are compared at once.
        match self.bits {
            Bits::Eight => self.bytes.iter().fold(false, |zero, code| zero | (*code == 0)),
            Bits::Sixteen => self.bytes.as_chunks::<2>().0.iter().fold(false, |zero, code| zero | (*code == [0, 0])),
        }
    }
}

/// Takes a message of this kind and size apart, for a ring of `nodes` nodes.
///
/// # Errors
/// [`Refused::Malformed`], [`Refused::Nodes`], or [`Refused::Sender`] for an originator that does not exist.
pub fn decode(kind: Kind, bits: Bits, nodes: usize, message: &[u8]) -> Result<(Head, Codes<'_>), Refused> {
    let Some((head, bytes)) = message.split_first_chunk::<HEAD>() else { return Err(Refused::Malformed) };
    let [shape, algorithm, originator, count, sequence @ ..] = *head;
    if shape != VERSION << 4 | bits.width() as u8 || algorithm != kind as u8 {
        return Err(Refused::Malformed);
    }
    if bytes.len() != usize::from(count) * bits.width() {
        return Err(Refused::Malformed);
    }
    if usize::from(count) != nodes {
        return Err(Refused::Nodes);
    }
    let originator = NodeId::new(originator).filter(|node| node.index() < nodes).ok_or(Refused::Sender)?;
    let codes = Codes { bytes, bits };
    if codes.has_zero() {
        return Err(Refused::Malformed);
    }
    Ok((Head { kind, bits, originator, sequence: u32::from_be_bytes(sequence) }, codes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_these_bytes() {
        let head = Head { kind: Kind::Dvsr, bits: Bits::Sixteen, originator: NodeId::at(0), sequence: 0x0102_0304 };
        let mut out = Vec::new();
        encode(head, &[0xFFFF, 0x4000, 1], &mut out);
        assert_eq!(out, [0x12, 1, 1, 3, 1, 2, 3, 4, 0xFF, 0xFF, 0x40, 0, 0, 1]);
        let (back, codes) = decode(Kind::Dvsr, Bits::Sixteen, 3, &out).unwrap();
        assert_eq!((back, codes.iter().collect::<Vec<_>>()), (head, alloc::vec![0xFFFF, 0x4000, 1]));
        encode(Head { bits: Bits::Eight, kind: Kind::Dba, ..head }, &[0x7F, 0x55], &mut out);
        assert_eq!(out, [0x11, 2, 1, 2, 1, 2, 3, 4, 0x7F, 0x55]);
        assert!(decode(Kind::Dba, Bits::Eight, 2, &out).is_ok());
        let longest = LONGEST;
        assert_eq!((length(Bits::Eight, 2), longest), (10, length(Bits::Sixteen, 255)));
    }

    #[test]
    fn what_is_foreign_is_refused_by_its_reason_and_every_truncation_is() {
        let head = Head { kind: Kind::Dvsr, bits: Bits::Sixteen, originator: NodeId::at(1), sequence: 7 };
        let mut good = Vec::new();
        encode(head, &[5; 4], &mut good);
        let refused = |message: &[u8]| decode(Kind::Dvsr, Bits::Sixteen, 4, message).err();
        assert_eq!(refused(&good), None);
        for length in 0..good.len() {
            assert_eq!(refused(&good[..length]), Some(Refused::Malformed), "{length} bytes");
        }
        let with = |at: usize, byte: u8| {
            let mut changed = good.clone();
            changed[at] = byte;
            refused(&changed)
        };
        assert_eq!(with(0, 0x22), Some(Refused::Malformed), "another version");
        assert_eq!(with(0, 0x11), Some(Refused::Malformed), "another width");
        assert_eq!(with(1, 2), Some(Refused::Malformed), "another algorithm");
        assert_eq!(with(2, 0), Some(Refused::Sender), "node 0");
        assert_eq!(with(2, 5), Some(Refused::Sender), "node 5 of 4");
        assert_eq!(with(3, 5), Some(Refused::Malformed), "more nodes than rates");
        assert_eq!(with(9, 0), Some(Refused::Malformed), "a rate of zero");
        for bits in [Bits::Eight, Bits::Sixteen] {
            for (codes, reason) in
                [([1, 1], None), ([1, 0], Some(Refused::Malformed)), ([0; 2], Some(Refused::Malformed))]
            {
                let mut message = Vec::new();
                encode(Head { bits, ..head }, &codes, &mut message);
                assert_eq!(decode(Kind::Dvsr, bits, 2, &message).err(), reason, "{codes:?} of {bits:?}");
            }
        }
        let mut foreign = Vec::new();
        encode(head, &[5; 5], &mut foreign);
        assert_eq!(refused(&foreign), Some(Refused::Nodes));
        good.push(0);
        assert_eq!(refused(&good), Some(Refused::Malformed), "one byte too many");
    }

    #[test]
    fn codes_round_down_and_are_never_zero() {
        assert_eq!(Bits::Eight.encode(0.5), 0x7F);
        assert_eq!(Bits::Eight.encode(1.0 / 3.0), 0x55);
        assert_eq!(Bits::Eight.encode(0.58), 0x94);
        assert_eq!(Bits::Sixteen.encode(1.0 / 3.0), 21_845);
        assert_eq!(Bits::Sixteen.encode(0.58), 38_010);
        for bits in [Bits::Eight, Bits::Sixteen] {
            for share in [0.0, -1.0, f64::NAN, 1e-12] {
                assert_eq!(bits.encode(share), 1, "{share}");
            }
            for share in [1.0, 2.0, f64::INFINITY] {
                assert_eq!(bits.encode(share), bits.whole(), "{share}");
            }
            for code in 1..=bits.whole() {
                assert_eq!(bits.encode(bits.decode(code)), code);
            }
        }
    }
}
