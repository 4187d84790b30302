//! The bytes that stand before a packet in one frame.

use super::short;

/// The bytes that stand before a packet in one frame: an envelope, or nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub(super) len: u8,
    pub(super) bytes: [u8; Head::CAPACITY],
}

impl Head {
    /// The most bytes that a head can have.
    pub const CAPACITY: usize = 63;
    /// No bytes: the frame is the packet.
    pub const EMPTY: Head = Head { len: 0, bytes: [0; Head::CAPACITY] };

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// How many bytes.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a flow bucket, a number in it and a number in the bond at `at`.
    #[inline]
    pub(super) fn put_place(&mut self, at: usize, bucket: u16, sequence: u32, bond: u32) {
        self.bytes[at..at + 2].copy_from_slice(&bucket.to_be_bytes());
        self.bytes[at + 2..at + 5].copy_from_slice(&short::to_bytes(sequence));
        self.bytes[at + 5..at + 8].copy_from_slice(&short::to_bytes(bond));
    }

    /// Appends `bytes`; `false`, and no change, when they do not fit.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let start = usize::from(self.len);
        let Some(room) = self.bytes.get_mut(start..start + bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        self.len += bytes.len() as u8;
        true
    }
}

impl core::fmt::Debug for Head {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Head({:02x?})", self.as_slice())
    }
}
