//! Packets for which delay counts more than anything else: which they are, and where they wait.
//!
//! What it is: a short queue before the host queue, in mode `reliable` (`prompt.rs` says how they go). Such are packets of DSCP EF,
//! VOICE-ADMIT, CS4 to CS7 (RFC 4594: telephony, real-time interactive, signalling, control), and ICMP. TCP acknowledgements without
//! data have a queue of the same kind ([`ack_line`](super::ack_line)). At most [`ROOM`] bytes wait. Cost: O(1) a packet. Memory: two bytes for each flow bucket.

use super::ledger::Ledger;
use super::queue::Queued;
use crate::ip::{Header, ICMP, ICMPV6};
use crate::packet::Packet;
use crate::units::{Bytes, ChannelId, Time};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of packets that may wait.
const ROOM: usize = 64 * 1024;

/// What the receiver does with a packet that went before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Haste {
    /// It gives it the delay that is usual on its channel, and no other: its sender's TCP measures the time.
    Steady,
    /// It delays it by nothing.
    Urgent,
}

/// The packets that wait.
#[derive(Debug)]
pub(super) struct Prompt<P> {
    pub(super) waiting: VecDeque<Queued<P, Haste>>,
    /// How many wait of each flow bucket: at most [`ROOM`] over the shortest packet's 20 bytes.
    of_bucket: Vec<u16>,
    /// Which was the last one of each flow bucket, as the packets are counted that ever waited.
    newest: Vec<u32>,
    /// How many have left.
    left: u32,
    bytes: usize,
    /// When the first of them may go, if it may not yet.
    pub(super) at: Option<Time>,
    /// The channel by which the last one went.
    pub(super) by: Option<ChannelId>,
}

impl<P: Packet> Prompt<P> {
    /// None wait, of so many flow buckets.
    pub(super) fn new(buckets: usize) -> Prompt<P> {
        Prompt {
            waiting: VecDeque::new(),
            of_bucket: vec![0; buckets],
            newest: vec![0; buckets],
            left: 0,
            bytes: 0,
            at: None,
            by: None,
        }
    }

    /// Whether none waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How much waits, where each packet has so many bytes more.
    pub(super) fn waits(&self, overhead: usize) -> Bytes {
        Bytes::new((self.bytes + self.waiting.len() * overhead) as u64)
    }

    /// Whether a packet of this flow bucket waits.
    #[inline]
    pub(super) fn has(&self, bucket: u16) -> bool {
        self.of_bucket.get(usize::from(bucket)).is_some_and(|count| *count > 0)
    }

    /// Whether there is room for another one of `size` bytes.
    #[inline]
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.bytes + size <= ROOM
    }

    /// Another one; `false` where there is no room for it.
    pub(super) fn push(&mut self, queued: Queued<P, Haste>) -> bool {
        let size = queued.packet.size().as_u64() as usize;
        if !self.has_room(size) {
            return false;
        }
        self.bytes += size;
        if let Some(count) = self.of_bucket.get_mut(usize::from(queued.bucket)) {
            *count += 1;
        }
        if let Some(newest) = self.newest.get_mut(usize::from(queued.bucket)) {
            *newest = self.left.wrapping_add(self.waiting.len() as u32);
        }
        self.waiting.push_back(queued);
        true
    }

    /// Shows the packet of `bucket` that came last, if one waits, to `with`, which may put another one in its place. Whether it did.
    pub(super) fn replace_last(&mut self, bucket: u16, with: impl FnOnce(&mut Queued<P, Haste>) -> bool) -> bool {
        if !self.has(bucket) {
            return false;
        }
        let newest = self.newest.get(usize::from(bucket)).copied().unwrap_or(0);
        let Some(queued) = self.waiting.get_mut(newest.wrapping_sub(self.left) as usize) else { return false };
        let before = queued.packet.size().as_u64() as usize;
        if !with(queued) {
            return false;
        }
        self.bytes = self.bytes - before + queued.packet.size().as_u64() as usize;
        true
    }

    pub(super) fn pop(&mut self) -> Option<Queued<P, Haste>> {
        let queued = self.waiting.pop_front()?;
        self.left = self.left.wrapping_add(1);
        self.bytes -= queued.packet.size().as_u64() as usize;
        if let Some(count) = self.of_bucket.get_mut(usize::from(queued.bucket)) {
            *count -= 1;
        }
        Some(queued)
    }

    /// Drops what came before `oldest`; how many that were.
    pub(super) fn drop_before(&mut self, oldest: Time, ledger: &mut Ledger) -> u64 {
        let mut dropped = 0;
        while self.waiting.front().is_some_and(|queued| queued.since < oldest) {
            self.pop().inspect(|queued| ledger.on_dropped(queued.account));
            dropped += 1;
        }
        dropped
    }
}

/// Whether a packet is of a class whose traffic is meant to be delayed as little as can be.
pub(super) fn is_urgent(header: &Header) -> bool {
    matches!(header.tos >> 2, 32 | 40 | 44 | 46 | 48 | 56) || matches!(header.protocol, ICMP | ICMPV6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::accounts::AccountId;

    /// An IPv4 packet of this protocol and type of service, with `payload` behind its header.
    fn packet(protocol: u8, tos: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes =
            vec![0x45, tos, 0, 20 + payload.len() as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn calls_control_and_icmp_are_urgent_and_nothing_else_is() {
        let urgent = |bytes: &[u8]| is_urgent(&Header::parse(bytes, bytes.len()).unwrap());
        for dscp in 0..64 {
            let expected = [32, 40, 44, 46, 48, 56].contains(&dscp);
            assert_eq!(urgent(&packet(17, dscp << 2 | 1, &[0; 8])), expected, "{dscp}");
        }
        assert!(urgent(&packet(ICMP, 0, &[8, 0, 0, 0])) && urgent(&packet(ICMPV6, 0, &[128, 0, 0, 0])));
    }

    #[test]
    fn what_waits_is_bounded_by_bytes_and_by_age() {
        let ledger = &mut Ledger::new(&crate::bond::Config::default());
        let queued = |ms: u64, bucket| {
            Queued::new(Time::from_millis(ms), vec![0u8; 1000], bucket, 0, AccountId::default()).noted(Haste::Urgent)
        };
        let mut prompt = Prompt::new(16);
        assert_eq!((0..100).filter(|n| prompt.push(queued(*n, 7))).count(), ROOM / 1000);
        assert!(prompt.has(7) && !prompt.has(8));
        assert_eq!(prompt.drop_before(Time::from_millis(60), ledger), 60);
        assert!(prompt.push(queued(200, 8)) && prompt.has(8));
        while prompt.pop().is_some() {}
        assert!(prompt.is_empty() && prompt.bytes == 0 && !prompt.has(7) && !prompt.has(8));
    }
}
