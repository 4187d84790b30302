//! What a format's decoder makes of the bytes at hand.

use super::captured::{CaptureError, LinkType};
use fairspan_core::packet::at;

/// Longest record that is taken for one: captures of networks have none that is longer.
pub(super) const LONGEST: usize = 16 << 20;

/// A packet, within the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Nanoseconds.
    pub(super) time: i64,
    /// On the wire.
    pub(super) length: u32,
    /// Its bytes.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) link_type: LinkType,
}

/// One step. The numbers say how many bytes it takes from the front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A packet.
    Packet(usize, Record),
    /// Something that cannot be read.
    Error(usize, CaptureError),
    /// Something that is no packet. Not all of it needs to be at hand.
    Pass(u64),
    /// Nothing yet: so many bytes are needed at hand.
    More(usize),
}

/// The record that begins at `offset` needs `length` bytes and there are less: more of them, or the end.
pub(super) fn wait(have: usize, length: usize, offset: u64, last: bool, packet: bool) -> Step {
    if last { Step::Error(have, CaptureError::Cut { offset, packet }) } else { Step::More(length) }
}

/// Numbers in one byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) big: bool,
}

impl Order {
    /// The number at `place`; zero where the bytes end before.
    #[inline]
    pub(super) fn short(self, bytes: &[u8], place: usize) -> u16 {
        let bytes = *at(bytes, place).unwrap_or(&[0; 2]);
        if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// The number at `place`; zero where the bytes end before.
    #[inline]
    pub(super) fn word(self, bytes: &[u8], place: usize) -> u32 {
        let bytes = *at(bytes, place).unwrap_or(&[0; 4]);
        if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// The number at `place`; zero where the bytes end before.
    pub(super) fn long(self, bytes: &[u8], place: usize) -> u64 {
        let bytes = *at(bytes, place).unwrap_or(&[0; 8]);
        if self.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }
}
