//! The host queue: packets that wait for their channel.
//!
//! What it is: one FIFO, bounded in time (as bytes at the sum of the rates) and in memory. Packets that find it full
//! are dropped; with CoDel (RFC 8289), packets at the head are marked, or dropped where they cannot be, once the
//! queue has stood for longer than `interval` above `target`.
//!
//! | RFC 8289 section 5.1 | field |
//! |---|---|
//! | TARGET, INTERVAL | `target`, `interval` |
//! | first_above_time_ | `above_since` + interval |
//! | drop_next_, count_, lastcount_, dropping_ | `next`, `count`, `last_count`, `dropping` |
//!
//! Departure: a queue of less than two packets of data is never "above". Cost: O(1), an integer square root per drop.

use super::config::Aqm;
use crate::ip::ecn;
use crate::packet::Packet;
use crate::units::{Bytes, Span, Time};
use alloc::collections::VecDeque;

/// A packet in the queue and what is known of it. `N`: what a mode needs to know beside that.
#[derive(Debug)]
pub(super) struct Queued<P, N = ()> {
    pub(super) packet: P,
    pub(super) bucket: u16,
    pub(super) tos: u8,
    pub(super) six: bool,
    pub(super) since: Time,
    pub(super) note: N,
}

/// What CoDel did on the way to the packet it gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Actions {
    pub(super) dropped: u64,
    pub(super) marked: u64,
}

/// The queue.
#[derive(Debug)]
pub(super) struct HostQueue<P, N = ()> {
    packets: VecDeque<Queued<P, N>>,
    bytes: usize,
    memory: usize,
    codel: Option<CoDel>,
}

impl<P: Packet, N> HostQueue<P, N> {
    pub(super) fn new(aqm: Aqm) -> HostQueue<P, N> {
        let codel = match aqm {
            Aqm::DropTail => None,
            Aqm::CoDel { target, interval } => Some(CoDel::new(target, interval)),
        };
        HostQueue { packets: VecDeque::with_capacity(64), bytes: 0, memory: 0, codel }
    }

    /// How many packets.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes of the packets.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What they cost in memory.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    #[inline]
    pub(super) fn push(&mut self, queued: Queued<P, N>) {
        self.bytes += queued.packet.size().as_u64() as usize;
        self.memory += cost::<P, N>(&queued.packet);
        self.packets.push_back(queued);
    }

    /// Puts `queued` in front of the first packet that it is to go before, in a queue that is in such an order.
    pub(super) fn insert(&mut self, queued: Queued<P, N>, goes_first: impl Fn(&Queued<P, N>) -> bool) {
        self.bytes += queued.packet.size().as_u64() as usize;
        self.memory += cost::<P, N>(&queued.packet);
        let place = self.packets.partition_point(goes_first);
        self.packets.insert(place, queued);
    }

    /// The packet at the head.
    #[inline]
    pub(super) fn first(&self) -> Option<&Queued<P, N>> {
        self.packets.front()
    }

    /// The size of the packet at the head.
    #[inline]
    pub(super) fn next_size(&self) -> Option<Bytes> {
        self.packets.front().map(|queued| queued.packet.size())
    }

    /// Drops the packet at the head.
    pub(super) fn drop_first(&mut self) {
        self.take();
    }

    /// Takes the packet at the head, once CoDel has had its say.
    #[inline]
    pub(super) fn pop(&mut self, now: Time) -> (Option<Queued<P, N>>, Actions) {
        if self.codel.is_none() {
            return (self.take(), Actions::default());
        }
        self.pop_codel(now)
    }

    /// Drops what came before `oldest`, and says how many that were.
    pub(super) fn drop_before(&mut self, oldest: Time) -> u64 {
        let mut dropped = 0;
        while self.packets.front().is_some_and(|queued| queued.since < oldest) {
            self.take();
            dropped += 1;
        }
        dropped
    }

    /// Takes the packet at the head, whatever CoDel may say.
    pub(super) fn take(&mut self) -> Option<Queued<P, N>> {
        let queued = self.packets.pop_front()?;
        self.bytes -= queued.packet.size().as_u64() as usize;
        self.memory -= cost::<P, N>(&queued.packet);
        Some(queued)
    }

    fn pop_codel(&mut self, now: Time) -> (Option<Queued<P, N>>, Actions) {
        let mut actions = Actions::default();
        loop {
            let Some(mut queued) = self.take() else {
                if let Some(codel) = &mut self.codel {
                    codel.on_empty();
                }
                return (None, actions);
            };
            let hit = match &mut self.codel {
                Some(codel) => codel.hits(now, now.since(queued.since), self.bytes),
                None => false,
            };
            if !hit {
                return (Some(queued), actions);
            }
            if queued.tos & 3 == ecn::NOT_ECT {
                actions.dropped += 1;
                continue;
            }
            let version = if queued.six { crate::ip::Version::V6 } else { crate::ip::Version::V4 };
            ecn::set(queued.packet.bytes_mut(), version, ecn::CE);
            queued.tos |= ecn::CE;
            actions.marked += 1;
            return (Some(queued), actions);
        }
    }
}

/// What a place in the queue is taken to cost, twice its size because the queue may have doubled just now. The same for
/// every type of packet, so that a recording replays.
const PLACE_COST: usize = 192;

/// What a packet costs in the queue.
pub(super) fn cost<P: Packet, N>(packet: &P) -> usize {
    const { assert!(2 * size_of::<Queued<P, N>>() <= PLACE_COST, "the packet type is too large: box it") };
    packet.footprint() + PLACE_COST
}

#[derive(Clone, Debug)]
struct CoDel {
    target: Span,
    interval: Span,
    above_since: Option<Time>,
    dropping: bool,
    next: Time,
    count: u64,
    last_count: u64,
}

impl CoDel {
    fn new(target: Span, interval: Span) -> CoDel {
        CoDel { target, interval, above_since: None, dropping: false, next: Time::ZERO, count: 0, last_count: 0 }
    }

    fn on_empty(&mut self) {
        self.above_since = None;
        self.dropping = false;
    }

    /// Whether the packet that waited `wait`, with `behind` bytes behind it, is to be marked or dropped.
    fn hits(&mut self, now: Time, wait: Span, behind: usize) -> bool {
        let above = if wait < self.target || behind <= 3000 {
            self.above_since = None;
            false
        } else {
            let since = *self.above_since.get_or_insert(now);
            now.since(since) >= self.interval
        };
        if !above {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            if now < self.next {
                return false;
            }
            self.count += 1;
            self.next += self.spacing();
            return true;
        }
        self.dropping = true;
        // RFC 8289 section 5.4: resume near the rate that worked, if that was not long ago.
        let delta = self.count - self.last_count;
        let recent = now.since(self.next) < self.interval.times(16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.next = now + self.spacing();
        true
    }

    /// interval / sqrt(count).
    fn spacing(&self) -> Span {
        let root = (self.count << 20).isqrt().max(1);
        Span::from_nanos(((u128::from(self.interval.as_nanos()) << 10) / u128::from(root)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{Header, testing};
    use alloc::vec::Vec;

    fn queued(at: Time, tos: u8) -> Queued<Vec<u8>> {
        let mut packet = testing::udp4(1, 2, 3, 4, &[0; 1472]);
        packet[1] = tos;
        testing::seal4(&mut packet);
        Queued { packet, bucket: 0, tos, six: false, since: at, note: () }
    }

    /// 12 Mbit/s in, 10 Mbit/s out, for `seconds`; returns the longest wait of the last half and what CoDel did.
    fn overload(tos: u8, aqm: Aqm, ms: u64) -> (Span, Actions, u64) {
        let mut queue = HostQueue::<_, ()>::new(aqm);
        let (mut worst, mut sum, mut sent) = (Span::ZERO, Actions::default(), 0);
        let (mut next_in, mut next_out) = (0, 0);
        for us in 0..ms * 1000 {
            let now = Time::from_nanos(us * 1000);
            if us == next_in {
                queue.push(queued(now, tos));
                next_in += 1000;
            }
            if us >= next_out && !queue.is_empty() {
                let (packet, actions) = queue.pop(now);
                sum.dropped += actions.dropped;
                sum.marked += actions.marked;
                if let Some(packet) = packet {
                    sent += 1;
                    next_out = us + 1200;
                    if us > ms * 500 {
                        worst = worst.max(now.since(packet.since));
                    }
                    if packet.tos & 3 == ecn::CE {
                        assert_eq!(crate::ip::checksum::of(&packet.packet[..20]), 0);
                        assert_eq!(Header::parse(&packet.packet, packet.packet.len()).unwrap().tos & 3, ecn::CE);
                    }
                }
            }
        }
        (worst, sum, sent)
    }

    #[test]
    fn codel_bounds_the_wait_where_drop_tail_lets_it_grow() {
        let aqm = Aqm::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) };
        let (tail, none, _) = overload(0, Aqm::DropTail, 20_000);
        let (codel, actions, sent) = overload(0, aqm, 20_000);
        assert_eq!(none, Actions::default());
        assert!(tail > Span::from_millis(3000), "20 s of 20 % too much make a queue of seconds: {tail:?}");
        assert!(codel < Span::from_millis(1500), "CoDel's drop rate catches up with the overload: {codel:?}");
        assert!(actions.dropped > 1000 && actions.marked == 0, "{actions:?}");
        assert!(sent > 16_500, "and the line stays busy: {sent}");
    }

    #[test]
    fn codel_marks_what_can_be_marked() {
        let aqm = Aqm::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) };
        let (_, actions, _) = overload(ecn::ECT_0, aqm, 3000);
        assert!(actions.marked > 10 && actions.dropped == 0, "{actions:?}");
    }

    #[test]
    fn codel_leaves_a_queue_below_target_alone() {
        let mut queue = HostQueue::new(Aqm::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) });
        for ms in 0..2000 {
            queue.push(queued(Time::from_millis(ms), 0));
            if ms > 3 {
                let (packet, actions) = queue.pop(Time::from_millis(ms));
                assert!(packet.is_some() && actions == Actions::default());
            }
        }
    }

    #[test]
    fn bytes_and_memory_return_to_zero() {
        let mut queue = HostQueue::new(Aqm::DropTail);
        for _ in 0..10 {
            queue.push(queued(Time::ZERO, 0));
        }
        assert_eq!(queue.bytes(), 15_000);
        assert!(queue.memory() > 15_000);
        while queue.pop(Time::ZERO).0.is_some() {}
        assert_eq!((queue.bytes(), queue.memory()), (0, 0));
    }
}
