//! The host queue: packets that wait for their channel.
//!
//! What it is: a [`Queue`] whose bounds are a time (as bytes at the sum of the rates) and memory, and whose flows are the
//! flow buckets. By default first in, first out with drop-tail; any discipline and any policy otherwise. The queue of a
//! channel in mode `flow` is first in, first out: there a policy has chosen before, and packets carry numbers in their
//! order. Cost: those of discipline and policy.

use super::event::Stats;
use super::ledger::Ledger;
use crate::buffer::{Bounds, Limit, PolicyConfig};
use crate::flow::accounts::AccountId;
use crate::ip::{Version, ecn};
use crate::packet::Packet;
use crate::queue::{
    self, Admit, AnyDiscipline, Config, ConfigError, Discipline, DisciplineConfig, End, Entry, Fifo, Parcel, Queue,
};
use crate::units::{Bytes, FlowNumber, Time};
use alloc::vec;
use alloc::vec::Vec;

/// A packet in the queue and what is known of it. `N`: what a mode needs to know beside that.
#[derive(Debug)]
pub(super) struct Queued<P, N = ()> {
    pub(super) packet: P,
    pub(super) bucket: u16,
    pub(super) tos: u8,
    /// Whether the policy has marked it.
    pub(super) marked: bool,
    pub(super) account: AccountId,
    pub(super) since: Time,
    pub(super) note: N,
}

impl<P> Queued<P> {
    /// A packet that comes now.
    #[inline]
    pub(super) fn new(now: Time, packet: P, bucket: u16, tos: u8, account: AccountId) -> Self {
        Queued { packet, bucket, tos, marked: false, account, since: now, note: () }
    }
}

impl<P, N> Queued<P, N> {
    /// The same with another note.
    #[inline]
    pub(super) fn noted<M>(self, note: M) -> Queued<P, M> {
        let Queued { packet, bucket, tos, marked, account, since, .. } = self;
        Queued { packet, bucket, tos, marked, account, since, note }
    }
}

impl<P: Packet, N> Queued<P, N> {
    /// It goes by a channel.
    #[inline]
    pub(super) fn on_sent(&self, now: Time, ledger: &mut Ledger) {
        ledger.on_sent(now, self.account, self.packet.size(), self.since, self.marked);
    }
}

impl<P: Packet, N> Parcel for Queued<P, N> {
    #[inline]
    fn size(&self) -> u32 {
        self.packet.size().as_u64() as u32
    }

    #[inline]
    fn memory(&self) -> u64 {
        cost::<P, N>(&self.packet) as u64
    }

    fn mark(&mut self) -> bool {
        if self.tos & 3 == ecn::NOT_ECT {
            return false;
        }
        let bytes = self.packet.bytes_mut();
        let version = if bytes.first().is_some_and(|first| first >> 4 == 6) { Version::V6 } else { Version::V4 };
        ecn::set(bytes, version, ecn::CE);
        self.tos |= ecn::CE;
        self.marked = true;
        true
    }

    fn host(&self, end: End) -> u128 {
        match self.packet.hosts() {
            Some([source, destination]) => u128::from(if end == End::Source { source } else { destination }),
            None => queue::host_of(self.packet.bytes(), end),
        }
    }

    fn class(&self) -> u8 {
        queue::class_of(self.packet.bytes())
    }

    fn is_scalable(&self) -> bool {
        self.tos & 1 == 1
    }
}

/// The queue of the bond, in the order of `D`.
#[derive(Debug)]
pub(super) struct HostQueue<P, N = (), D = AnyDiscipline<Queued<P, N>>> {
    queue: Queue<Queued<P, N>, D>,
    /// Packets that the policy dropped since though there was room, and marks that have been counted.
    early: u64,
    marks: u64,
    /// How many wait of each flow bucket, where that is counted.
    of_bucket: Vec<u32>,
}

/// The queue of one channel: first in, first out.
pub(super) type ChannelQueue<P, N> = HostQueue<P, N, Fifo<Queued<P, N>>>;

impl<P: Packet, N> HostQueue<P, N> {
    /// An empty queue, without bounds so far; `seed` keys the hash of a stochastic discipline.
    pub(super) fn new(discipline: DisciplineConfig, buffer: PolicyConfig, seed: u64) -> Result<Self, ConfigError> {
        let mut config = Config::default();
        (config.discipline, config.buffer, config.limit) = (discipline, buffer, Limit::Bytes(Config::MOST_BYTES));
        let mut queue = Queue::new(&config, seed)?;
        queue.set_bounds(Bounds::NONE);
        Ok(HostQueue { queue, early: 0, marks: 0, of_bucket: Vec::new() })
    }

    /// From now on in the order of `discipline`, and let in by `buffer`; what waits stays, each flow in its order, and `rename` may
    /// say that a packet is of another flow bucket.
    pub(super) fn reorder(
        &mut self,
        now: Time,
        (discipline, buffer, seed): (DisciplineConfig, PolicyConfig, u64),
        stats: &mut Stats,
        rename: impl Fn(&Queued<P, N>) -> u16,
    ) -> Result<(), ConfigError> {
        let bounds = self.queue.bounds();
        let mut before = core::mem::replace(&mut self.queue, HostQueue::new(discipline, buffer, seed)?.queue);
        // What the policy did since a packet was taken last.
        stats.early_dropped += core::mem::take(&mut self.early);
        stats.early_marked += before.marked() - core::mem::take(&mut self.marks);
        self.queue.set_bounds(bounds);
        while let Some(Entry { mut packet, .. }) = before.take(now) {
            self.left(FlowNumber(packet.bucket.into()));
            packet.bucket = rename(&packet);
            self.push(packet);
        }
        Ok(())
    }

    /// From the next packet on, at most so many bytes may wait, and so much memory be taken.
    pub(super) fn set_bounds(&mut self, bytes: Option<usize>, memory: usize) {
        let bytes = bytes.map_or(u64::MAX, |bytes| bytes as u64);
        self.queue.set_bounds(Bounds { bytes, memory: memory as u64, ..Bounds::NONE });
    }

    /// A packet from the host. Says how many packets that cost because there was no room.
    #[inline]
    pub(super) fn offer(&mut self, queued: Queued<P, N>, ledger: &mut Ledger) -> u64 {
        if self.queue.lets_in(&queued) {
            self.push(queued);
            return 0;
        }
        self.offer_judged(queued, ledger)
    }

    #[inline(never)]
    fn offer_judged(&mut self, queued: Queued<P, N>, ledger: &mut Ledger) -> u64 {
        let (since, flow) = (queued.since, FlowNumber(queued.bucket.into()));
        let full = match self.queue.enqueue(since, flow, queued) {
            Admit::Queued => {
                self.came(flow);
                0
            }
            Admit::Refused(queued, reason) => {
                ledger.on_dropped(queued.account);
                self.early += u64::from(reason.is_early());
                u64::from(!reason.is_early())
            }
        };
        full + self.forget_dropped(ledger)
    }
}

impl<P: Packet, N> ChannelQueue<P, N> {
    /// An empty queue; `seed` determines what the policy draws.
    pub(super) fn fifo(buffer: PolicyConfig, seed: u64) -> Self {
        HostQueue { queue: Queue::fifo(buffer, Bounds::NONE, seed), early: 0, marks: 0, of_bucket: Vec::new() }
    }

    /// Puts `queued` in front of the first packet that it is to go before, in a queue that is in such an order.
    pub(super) fn insert(&mut self, queued: Queued<P, N>, goes_first: impl Fn(&Queued<P, N>) -> bool) {
        self.queue.insert(queued.since, queued, goes_first);
    }
}

impl<P: Packet, N, D: Discipline<Queued<P, N>>> HostQueue<P, N, D> {
    /// The same, which counts how many wait of each of so many flow buckets.
    pub(super) fn counted(self, buckets: usize) -> Self {
        HostQueue { of_bucket: vec![0; buckets], ..self }
    }

    /// Whether a packet of this flow bucket waits, where that is counted.
    #[inline]
    pub(super) fn has(&self, bucket: u16) -> bool {
        self.of_bucket.get(usize::from(bucket)).is_some_and(|count| *count > 0)
    }

    /// How many packets.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.queue.packets()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.packets() == 0
    }

    /// Bytes of the packets.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.queue.bytes() as usize
    }

    /// What they cost in memory.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.queue.memory() as usize
    }

    /// Puts a packet in for which there is room, or which was here before.
    #[inline]
    pub(super) fn push(&mut self, queued: Queued<P, N>) {
        let flow = FlowNumber(queued.bucket.into());
        self.came(flow);
        self.queue.readmit(queued.since, flow, queued);
    }

    /// The packet that goes next.
    #[inline]
    pub(super) fn first(&self) -> Option<&Queued<P, N>> {
        self.queue.peek().map(|entry| &entry.packet)
    }

    /// The size of the packet that goes next.
    #[inline]
    pub(super) fn next_size(&self) -> Option<Bytes> {
        self.first().map(|queued| queued.packet.size())
    }

    /// Takes the packet that goes next, once the policy has had its say, which `stats` counts.
    #[inline]
    pub(super) fn pop(&mut self, now: Time, stats: &mut Stats, ledger: &mut Ledger) -> Option<Queued<P, N>> {
        if self.queue.is_passive() { self.take(now) } else { self.pop_judged(now, stats, ledger) }
    }

    #[inline(never)]
    fn pop_judged(&mut self, now: Time, stats: &mut Stats, ledger: &mut Ledger) -> Option<Queued<P, N>> {
        let entry = self.queue.dequeue(now);
        // A policy drops nothing for want of room when one leaves.
        self.forget_dropped(ledger);
        stats.early_dropped += core::mem::take(&mut self.early);
        let marked = self.queue.marked();
        stats.early_marked += marked - core::mem::replace(&mut self.marks, marked);
        self.went(entry)
    }

    /// Drops what came before `oldest`, and says how many that were.
    pub(super) fn drop_before(&mut self, oldest: Time, ledger: &mut Ledger) -> u64 {
        let mut dropped = 0;
        while let Some(entry) = self.queue.expire(oldest) {
            ledger.on_dropped(entry.packet.account);
            self.went(Some(entry));
            dropped += 1;
        }
        dropped
    }

    /// Takes the packet that goes next, whatever the policy may say.
    #[inline]
    pub(super) fn take(&mut self, now: Time) -> Option<Queued<P, N>> {
        let entry = self.queue.take(now);
        self.went(entry)
    }

    /// One more waits of that flow bucket.
    #[inline]
    fn came(&mut self, flow: FlowNumber) {
        if let Some(count) = self.of_bucket.get_mut(flow.0 as usize) {
            *count = count.saturating_add(1);
        }
    }

    /// One waits no more.
    #[inline]
    fn went(&mut self, entry: Option<Entry<Queued<P, N>>>) -> Option<Queued<P, N>> {
        let queued = entry?.packet;
        self.left(FlowNumber(queued.bucket.into()));
        Some(queued)
    }

    #[inline]
    fn left(&mut self, flow: FlowNumber) {
        if let Some(count) = self.of_bucket.get_mut(flow.0 as usize) {
            *count = count.saturating_sub(1);
        }
    }

    /// How many packets the policy dropped since because there was no room.
    #[inline]
    fn forget_dropped(&mut self, ledger: &mut Ledger) -> u64 {
        let mut full = 0;
        while let Some(dropped) = self.queue.poll_dropped() {
            self.left(dropped.flow);
            ledger.on_dropped(dropped.packet.account);
            if dropped.reason.is_early() {
                self.early += 1;
            } else {
                full += 1;
            }
        }
        full
    }
}

/// What a place in the queue is taken to cost, twice its size because the queue may have doubled just now. The same for
/// every type of packet, so that a recording replays.
const PLACE_COST: usize = 192;

/// What a packet costs in the queue.
pub(super) fn cost<P: Packet, N>(packet: &P) -> usize {
    const { assert!(2 * size_of::<Entry<Queued<P, N>>>() <= PLACE_COST, "the packet type is too large: box it") };
    packet.footprint() + PLACE_COST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{Header, testing};
    use crate::units::Span;
    use alloc::vec::Vec;

    fn queued(at: Time, tos: u8) -> Queued<Vec<u8>> {
        let mut packet = testing::udp4(1, 2, 3, 4, &[0; 1472]);
        packet[1] = tos;
        testing::seal4(&mut packet);
        Queued::new(at, packet, 0, tos, AccountId::default())
    }

    /// None.
    fn ledger() -> Ledger {
        Ledger::new(&crate::bond::Config::default())
    }

    /// 12 Mbit/s in, 10 Mbit/s out, for `seconds`; returns the longest wait of the last half and what CoDel did.
    fn overload(tos: u8, buffer: PolicyConfig, ms: u64) -> (Span, Stats, u64) {
        let mut queue = HostQueue::<_, ()>::new(DisciplineConfig::Fifo, buffer, 1).unwrap();
        let (mut worst, mut stats, mut sent) = (Span::ZERO, Stats::default(), 0);
        let (mut next_in, mut next_out) = (0, 0);
        for us in 0..ms * 1000 {
            let now = Time::from_nanos(us * 1000);
            if us == next_in {
                queue.push(queued(now, tos));
                next_in += 1000;
            }
            if us >= next_out
                && let Some(packet) = queue.pop(now, &mut stats, &mut ledger())
            {
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
        (worst, stats, sent)
    }

    #[test]
    fn codel_bounds_the_wait_where_drop_tail_lets_it_grow() {
        let codel = PolicyConfig::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) };
        let (tail, none, _) = overload(0, PolicyConfig::DropTail, 20_000);
        let (codel, stats, sent) = overload(0, codel, 20_000);
        assert_eq!((none.early_dropped, none.early_marked), (0, 0));
        assert!(tail > Span::from_millis(3000), "20 s of 20 % too much make a queue of seconds: {tail:?}");
        assert!(codel < Span::from_millis(1500), "CoDel's drop rate catches up with the overload: {codel:?}");
        assert!(stats.early_dropped > 1000 && stats.early_marked == 0, "{stats:?}");
        assert!(sent > 16_500, "and the line stays busy: {sent}");
    }

    #[test]
    fn codel_marks_what_can_be_marked() {
        let codel = PolicyConfig::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) };
        let (_, stats, _) = overload(ecn::ECT_0, codel, 3000);
        assert!(stats.early_marked > 10 && stats.early_dropped == 0, "{stats:?}");
    }

    #[test]
    fn codel_leaves_a_queue_below_target_alone() {
        let mut queue = ChannelQueue::<_, ()>::fifo(
            PolicyConfig::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) },
            1,
        );
        let mut stats = Stats::default();
        for ms in 0..2000 {
            queue.push(queued(Time::from_millis(ms), 0));
            if ms > 3 {
                assert!(queue.pop(Time::from_millis(ms), &mut stats, &mut ledger()).is_some());
            }
        }
        assert_eq!((stats.early_dropped, stats.early_marked), (0, 0));
    }

    #[test]
    fn bytes_and_memory_return_to_zero() {
        let mut queue = ChannelQueue::<_, ()>::fifo(PolicyConfig::DropTail, 1);
        for _ in 0..10 {
            queue.push(queued(Time::ZERO, 0));
        }
        assert_eq!(queue.bytes(), 15_000);
        assert!(queue.memory() > 15_000);
        while queue.take(Time::ZERO).is_some() {}
        assert_eq!((queue.bytes(), queue.memory()), (0, 0));
    }

    #[test]
    fn a_fair_queue_spares_the_modest_flow_and_gives_all_memory_back() {
        let discipline = "drr".parse().unwrap();
        let mut queue = HostQueue::<_, ()>::new(discipline, PolicyConfig::LongestQueue, 1).unwrap();
        queue.set_bounds(Some(15_000), 1 << 20);
        let mut dropped = 0;
        for n in 0..20 {
            let bucket = if n % 10 == 9 { 7 } else { 1 };
            let at = Time::from_millis(n);
            dropped += queue.offer(Queued { bucket, ..queued(at, 0) }, &mut ledger());
        }
        assert_eq!((dropped, queue.len(), queue.bytes()), (10, 10, 15_000));
        assert_eq!(queue.next_size(), Some(Bytes::new(1500)));
        let now = Time::from_millis(20);
        let buckets: Vec<u16> = core::iter::from_fn(|| queue.take(now)).take(4).map(|queued| queued.bucket).collect();
        assert_eq!(buckets, [1, 7, 1, 7], "in turn, and nothing of the modest one is lost");
        assert_eq!(queue.drop_before(now, &mut ledger()), 6);
        assert_eq!((queue.bytes(), queue.memory(), queue.is_empty()), (0, 0, true));
    }

    #[test]
    fn memory_is_bounded_whatever_the_policy() {
        for policy in ["drop-tail", "drop-front", "longest-queue", "random-drop", "codel"] {
            let mut queue = HostQueue::<_, ()>::new("sfq".parse().unwrap(), policy.parse().unwrap(), 1).unwrap();
            queue.set_bounds(None, 16_920);
            let mut dropped = 0;
            for n in 0..100 {
                dropped += queue.offer(Queued { bucket: n, ..queued(Time::ZERO, 0) }, &mut ledger());
                assert!(queue.memory() <= 16_920);
            }
            assert_eq!((dropped, queue.len()), (90, 10), "{policy}: 1500 bytes and 192 for the place");
        }
    }
}
