//! What the core needs to know of a packet, and nothing more.
//!
//! The core never copies payload: it holds packets by value and hands them on. The live driver's packet is a slot of
//! a pool, the simulator's may be a length with a few header bytes; tests use [`Vec<u8>`](alloc::vec::Vec).

use crate::units::Bytes;
use alloc::vec::Vec;

/// `N` of `bytes` from `offset` on; `None` where they are not all there.
#[inline]
pub fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}

/// A packet that the core can hold, look into, and hand on.
pub trait Packet {
    /// The bytes, from the first header on. A simulated packet may give only its headers here.
    fn bytes(&self) -> &[u8];

    /// The bytes, to change header fields in place.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// The length that counts: on a simulated packet it may exceed `bytes().len()`.
    fn size(&self) -> Bytes;

    /// The memory that holding this packet costs, for the bounds on what is held. A packet in a slot of a pool gives
    /// the slot's size here.
    fn footprint(&self) -> usize {
        self.bytes().len()
    }

    /// The numbers of the hosts that it comes from and goes to, where something else than its addresses tells them: in a simulation,
    /// whose addresses tell flows.
    fn hosts(&self) -> Option<[u64; 2]> {
        None
    }

    /// Finishes a transport checksum that was left to the device, before the packet's payload is changed or split.
    /// Nothing to do where packets always come complete.
    fn complete_checksum(&mut self) {}

    /// Removes the first `n` bytes (an envelope that was read). `n` is at most `bytes().len()`.
    fn strip(&mut self, n: usize);

    /// Puts `bytes` in front (headers that were rebuilt). `false`, and no change, where memory for them is refused, as it always is
    /// for packets that no peer bond receives.
    #[must_use]
    fn prepend(&mut self, bytes: &[u8]) -> bool {
        let _ = bytes;
        false
    }

    /// Cuts the packet to its first `n` bytes (padding that was recognised). `n` is at most `bytes().len()`.
    fn truncate(&mut self, n: usize);

    /// A second packet with the same bytes, or `None` where memory for it is refused.
    fn duplicate(&self) -> Option<Self>
    where
        Self: Sized;

    /// A packet made of `bytes` (an ICMP error to the host, a reassembled packet), or `None` where memory is refused.
    fn from_bytes(bytes: &[u8]) -> Option<Self>
    where
        Self: Sized;
}

impl Packet for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn size(&self) -> Bytes {
        Bytes::from(self.len())
    }

    fn strip(&mut self, n: usize) {
        self.drain(..n);
    }

    fn prepend(&mut self, bytes: &[u8]) -> bool {
        self.splice(..0, bytes.iter().copied());
        true
    }

    fn truncate(&mut self, n: usize) {
        Vec::truncate(self, n);
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}
