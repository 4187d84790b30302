//! The station's queues for one ringlet: what its own packets wait in until they may enter the ring.
//!
//! What it is: virtual output queues (`output_queue.rs`), one for each egress, so that a packet that must wait holds up no
//! packet for another egress. Each has a limiter at the rate that the fairness algorithm sets. A packet that its limiter has
//! let pass is *released*: it has come to the multiplexer of the outgoing link, is counted there, and enters when the
//! multiplexer takes it; among egresses with released packets surplus round robin (`causal/surplus.rs`) decides by bytes.
//! Limiters go by the clock alone and never wait for the multiplexer, so that demand is seen also where transit leaves no
//! room.
//!
//! Packets with a reservation wait in queues of their own: class A until its bucket lets it pass (what comes faster than
//! the reserved rate fills the queue and is dropped at its tail); class B passes by its bucket unshared, or else by the
//! egress's limiter, shared, in turn with class C.
//!
//! Source: rings §II (rate controllers, Figure 3), IEEE 802.17 clause 7 (shapers); surplus round robin: Adiseshu,
//! Parulkar and Varghese.
//!
//! Departure: when a limit changes, released packets that still wait beyond [`KEPT`] are taken back and wait for the limiter
//! again, uncounted: else what was released in a time of congestion would enter above the limit later.
//!
//! Cost: constant per packet besides a heap of the queues that wait for a limiter; linear in nodes per change of limits.
//! Invariants: charges of a queue are within its limit; a queue of which something waits for a limiter that is not zero is
//! in the heap, once, no later than it may go; an egress is in the round if and only if something of it is released.

use super::control::Reservation;
use super::fairness::Station as Counts;
use super::limiter::Limiter;
use super::output_queue::{Held, OutputQueue};
use super::{Class, NodeId};
use crate::buffer::{Limit, PolicyConfig, Reason};
use crate::causal::Turns;
use crate::packet::Packet;
use crate::queue::{Config, ConfigError, DisciplineConfig};
use crate::units::{Bytes, Rate, Time};
use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Released packets of an egress that a change of its limit leaves released: what may stand between limiter and link at any
/// time, since transmissions are not interrupted.
const KEPT: usize = 2;
/// Bytes that an egress may send in its turn.
const QUANTUM: u32 = 1500;

/// Queues of an egress for which the node has reserved something, with the numbers of their buckets.
#[derive(Debug)]
struct Reserved<P> {
    a: OutputQueue<P>,
    a_bucket: Option<usize>,
    b: OutputQueue<P>,
    b_bucket: Option<usize>,
}

#[derive(Debug)]
struct Egress<P> {
    shared: OutputQueue<P>,
    reserved: Option<Box<Reserved<P>>>,
    limiter: Limiter,
    /// The limit that the algorithm set last; an idle limiter takes it when it is needed.
    limit: Option<Rate>,
    /// By [`Service`]: whether the queue is in the heap.
    listed: [bool; 3],
    /// Whether class B passed the limiter last, so that class C is next.
    b_last: bool,
}

/// The queue to which a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Service {
    A,
    B,
    Shared,
}

impl Service {
    const ALL: [Service; 3] = [Service::A, Service::B, Service::Shared];
}

/// What packets for an egress wait in that share fairly, as settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) discipline: DisciplineConfig,
    pub(super) policy: PolicyConfig,
    pub(super) room: Bytes,
    /// Keys the hash of a stochastic discipline.
    pub(super) seed: u64,
}

/// All of a ringlet.
#[derive(Debug)]
pub(super) struct Station<P> {
    egress: Vec<Egress<P>>,
    buckets: Vec<Limiter>,
    counts: Vec<Counts>,
    /// When the next packet of which queue may be released, at the earliest.
    due: BinaryHeap<Reverse<(Time, u8, Service)>>,
    /// Egresses with released packets of class B and C, in surplus round robin.
    turns: Turns,
    /// Egresses with released packets of class A, once for each.
    urgent: VecDeque<u8>,
    /// Room of each queue.
    limit: u64,
    packets: usize,
    dropped: Dropped,
}

/// Packets that the buffer policy dropped: because there was no room, and because they stood too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) full: u64,
    pub(super) standing: u64,
}

impl<P: Packet> Station<P> {
    /// `queue`: what waits for each egress and has no reservation, with the room of each queue.
    pub(super) fn new(
        nodes: usize,
        queue: &Waiting,
        burst: Bytes,
        reservations: &[Reservation],
    ) -> Result<Station<P>, ConfigError> {
        let mut buckets: Vec<Limiter> = Vec::new();
        let mut found: Vec<(Option<NodeId>, Class, usize)> = Vec::new();
        for one in reservations {
            let same = found.iter().find(|(to, class, _)| (*to, *class) == (one.to, one.class));
            if let Some(&(.., bucket)) = same {
                let sum = buckets[bucket].rate().unwrap_or_default().as_bits_per_sec() + one.rate.as_bits_per_sec();
                buckets[bucket] = Limiter::new(Some(Rate::from_bits_per_sec(sum)), burst);
            } else {
                found.push((one.to, one.class, buckets.len()));
                buckets.push(Limiter::new(Some(one.rate), burst));
            }
        }
        let bucket = |to: NodeId, class: Class| {
            let of = |wanted: Option<NodeId>| found.iter().find(|(to, c, _)| (*to, *c) == (wanted, class));
            of(Some(to)).or_else(|| of(None)).map(|&(.., bucket)| bucket)
        };
        let mut config = Config::default();
        (config.discipline, config.buffer) = (queue.discipline, queue.policy);
        config.limit = Limit::Bytes(queue.room.as_u64());
        let egress = |index: usize| {
            let (a_bucket, b_bucket) = (bucket(NodeId::at(index), Class::A), bucket(NodeId::at(index), Class::B));
            let reserved = (a_bucket.is_some() || b_bucket.is_some())
                .then(|| Box::new(Reserved { a: OutputQueue::FIFO, a_bucket, b: OutputQueue::FIFO, b_bucket }));
            Ok(Egress {
                shared: OutputQueue::new(&config, queue.seed)?,
                reserved,
                limiter: Limiter::new(None, burst),
                limit: None,
                listed: [false; 3],
                b_last: false,
            })
        };
        Ok(Station {
            egress: (0..nodes).map(egress).collect::<Result<_, ConfigError>>()?,
            buckets,
            counts: alloc::vec![Counts::default(); nodes],
            due: BinaryHeap::with_capacity(nodes * Service::ALL.len()),
            turns: Turns::new(QUANTUM, nodes),
            urgent: VecDeque::new(),
            limit: queue.room.as_u64(),
            packets: 0,
            dropped: Dropped::default(),
        })
    }

    /// Counters by egress, for the algorithm.
    pub(super) fn counts(&self) -> &[Counts] {
        &self.counts
    }

    /// Packets in all queues.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// Whether packets for `to` wait here.
    pub(super) fn has(&self, to: NodeId) -> bool {
        !self.egress[to.index()].is_empty()
    }

    /// The limit of an egress.
    pub(super) fn limit(&self, to: NodeId) -> Option<Rate> {
        self.egress[to.index()].limit
    }

    /// What the policy dropped, and how many packets it marked.
    pub(super) fn policy(&self) -> (Dropped, u64) {
        (self.dropped, self.egress.iter().map(|egress| egress.shared.marked()).sum())
    }

    /// Takes a packet in, or gives it back where its queue is full: whether it was made class C. `arrived` is told of bytes that come to the multiplexer
    /// and share fairly.
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        mut held: Held<P>,
        mut arrived: impl FnMut(u32),
    ) -> Result<bool, Held<P>> {
        let at = held.head.path.egress.index();
        self.counts[at].offered += u64::from(held.wire);
        let egress = &mut self.egress[at];
        let service = match (held.head.class, egress.reserved.as_deref()) {
            (Class::A, Some(Reserved { a_bucket: Some(_), .. })) => Service::A,
            (Class::B, Some(Reserved { b_bucket: Some(_), .. })) => Service::B,
            _ => Service::Shared,
        };
        let demoted = held.head.class == Class::A && service != Service::A;
        if demoted {
            held.head.class = Class::C;
        }
        held.head.shares = service != Service::A;
        let idle = !egress.waits();
        if idle && egress.limit != egress.limiter.rate() {
            egress.limiter.set(now, egress.limit);
        }
        let Some(queue) = egress.queue(service) else { return Err(held) };
        let wire = held.wire;
        if let Err(held) = queue.offer(now, held, self.limit) {
            // Were there room, its limiter would let it pass: it is demand at the multiplexer.
            if service == Service::Shared && !queue.waits() && egress.limiter.ready_at() <= now {
                egress.limiter.on_sent(now, wire);
                arrived(wire);
            }
            return Err(held);
        }
        self.counts[at].waiting += u64::from(wire);
        self.packets += 1;
        if queue.may_drop() {
            self.forget_dropped(at);
        }
        if !*self.egress[at].listed(service) {
            self.release(now, at, service, &mut arrived);
        }
        Ok(demoted)
    }

    /// Releases what is due.
    pub(super) fn release_due(&mut self, now: Time, mut arrived: impl FnMut(u32)) {
        while let Some(&Reverse((time, at, service))) = self.due.peek() {
            if time > now {
                break;
            }
            self.due.pop();
            *self.egress[usize::from(at)].listed(service) = false;
            self.release(now, usize::from(at), service, &mut arrived);
        }
    }

    /// When the next packet may be released, at the earliest.
    #[inline]
    pub(super) fn due(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((time, ..))| *time)
    }

    /// Releases what may be of one queue, and lists the rest.
    fn release(&mut self, now: Time, at: usize, service: Service, arrived: &mut impl FnMut(u32)) {
        let Station { egress, buckets, due, turns, urgent, .. } = self;
        let egress = &mut egress[at];
        while let Some(time) = egress.ready_at(service, buckets) {
            if time > now {
                if time < Time::MAX && !core::mem::replace(egress.listed(service), true) {
                    due.push(Reverse((time, at as u8, service)));
                }
                return;
            }
            if let (Service::A, Some(reserved)) = (service, egress.reserved.as_deref_mut()) {
                let (Some((wire, _)), Some(bucket)) = (reserved.a.release(false), reserved.a_bucket) else { return };
                buckets[bucket].on_sent(now, wire);
                urgent.push_back(at as u8);
                continue;
            }
            // Who passes the limiter: B and C in turn.
            let mut service = service;
            let mut committed = None;
            if let Some(Reserved { b, b_bucket: Some(bucket), .. }) = egress.reserved.as_deref_mut() {
                let bucket = &mut buckets[*bucket];
                if service == Service::B && bucket.ready_at() <= now {
                    committed = Some(bucket);
                } else if b.waits() && egress.shared.waits() {
                    service = if egress.b_last { Service::Shared } else { Service::B };
                }
            }
            let Some(queue) = egress.queue(service) else { return };
            let Some((wire, fresh)) = queue.release(committed.is_none()) else { return };
            match committed {
                Some(bucket) => bucket.on_sent(now, wire),
                None => {
                    egress.limiter.on_sent(now, wire);
                    egress.b_last = service == Service::B;
                    if fresh {
                        arrived(wire);
                    }
                }
            }
            if !turns.contains(at as u32) {
                turns.join(at as u32);
            }
        }
    }

    /// Whether [`Station::take`] has something.
    #[inline]
    pub(super) fn has_released(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether [`Station::take_urgent`] has something.
    #[inline]
    pub(super) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Class A whose time has come.
    #[inline]
    pub(super) fn take_urgent(&mut self, now: Time) -> Option<Held<P>> {
        let at = usize::from(self.urgent.pop_front()?);
        let held = self.egress[at].queue(Service::A)?.pop(now)?;
        self.counts[at].waiting -= u64::from(held.wire);
        self.packets -= 1;
        Some(held)
    }

    /// The released packet whose turn it is, of class B or C.
    pub(super) fn take(&mut self, now: Time) -> Option<Held<P>> {
        loop {
            let at = self.turns.select()? as usize;
            let egress = &mut self.egress[at];
            let service = match egress.reserved.as_deref() {
                Some(reserved) if reserved.b.has_released() => Service::B,
                _ => Service::Shared,
            };
            let queue = egress.queue(service)?;
            let held = queue.pop(now);
            if queue.may_drop() {
                self.forget_dropped(at);
            }
            let wire = held.as_ref().map_or(0, |held| held.wire);
            self.turns.update(wire, self.egress[at].has_released());
            let Some(held) = held else { continue };
            self.counts[at].waiting -= u64::from(wire);
            self.packets -= 1;
            return Some(held);
        }
    }

    /// Counts what the policy of an egress dropped since.
    #[inline(never)]
    fn forget_dropped(&mut self, at: usize) {
        while let Some((wire, reason)) = self.egress[at].shared.poll_dropped() {
            self.counts[at].waiting -= u64::from(wire);
            self.packets -= 1;
            match reason {
                Reason::Standing => self.dropped.standing += 1,
                _ => self.dropped.full += 1,
            }
        }
    }

    /// Asks for all limits again: whether any changed.
    pub(super) fn set_limits(
        &mut self,
        now: Time,
        limit: impl Fn(NodeId) -> Option<Rate>,
        mut arrived: impl FnMut(u32),
    ) -> bool {
        let mut changed = false;
        let mut relist = false;
        for (at, egress) in self.egress.iter_mut().enumerate() {
            let rate = limit(NodeId::at(at));
            if rate == egress.limit {
                continue;
            }
            changed = true;
            egress.limit = rate;
            if egress.is_empty() {
                continue;
            }
            relist = true;
            egress.limiter.set(now, rate);
            egress.shared.take_back(KEPT);
        }
        if relist {
            self.due.clear();
            for at in 0..self.egress.len() {
                for service in Service::ALL {
                    *self.egress[at].listed(service) = false;
                    self.release(now, at, service, &mut arrived);
                }
            }
        }
        changed
    }

    /// Takes all packets for `to` out, in their order within each class.
    pub(super) fn drain(&mut self, now: Time, to: NodeId) -> impl Iterator<Item = Held<P>> + use<P> {
        let at = to.index();
        let mut all: Vec<Held<P>> = Vec::new();
        let egress = &mut self.egress[at];
        self.urgent.retain(|&one| usize::from(one) != at);
        for service in Service::ALL {
            *egress.listed(service) = false;
            let Some(queue) = egress.queue(service) else { continue };
            while let Some(held) = queue.withdraw(now) {
                self.counts[at].waiting -= u64::from(held.wire);
                self.packets -= 1;
                all.push(held);
            }
        }
        if self.turns.contains(at as u32) {
            self.turns.leave(at as u32);
        }
        self.due.retain(|Reverse((_, one, _))| usize::from(*one) != at);
        all.into_iter()
    }
}

impl<P: Packet> Egress<P> {
    #[inline]
    fn queue(&mut self, service: Service) -> Option<&mut OutputQueue<P>> {
        match service {
            Service::Shared => Some(&mut self.shared),
            Service::A => self.reserved.as_deref_mut().map(|reserved| &mut reserved.a),
            Service::B => self.reserved.as_deref_mut().map(|reserved| &mut reserved.b),
        }
    }

    fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.reserved.as_deref().is_none_or(|r| r.a.is_empty() && r.b.is_empty())
    }

    /// Whether something waits for a limiter or bucket.
    fn waits(&self) -> bool {
        self.shared.waits() || self.reserved.as_deref().is_some_and(|r| r.a.waits() || r.b.waits())
    }

    fn has_released(&self) -> bool {
        self.shared.has_released() || self.reserved.as_deref().is_some_and(|r| r.b.has_released())
    }

    /// Whether this queue is in the heap.
    fn listed(&mut self, service: Service) -> &mut bool {
        &mut self.listed[service as usize]
    }

    /// When the next packet of this queue may be released; `None`: none waits.
    fn ready_at(&self, service: Service, buckets: &[Limiter]) -> Option<Time> {
        let bucket = |bucket: Option<usize>| bucket.map_or(Time::MAX, |at| buckets[at].ready_at());
        match (service, self.reserved.as_deref()) {
            (Service::Shared, _) => self.shared.waits().then(|| self.limiter.ready_at()),
            (Service::A, Some(reserved)) => reserved.a.waits().then(|| bucket(reserved.a_bucket)),
            (Service::B, Some(reserved)) => {
                reserved.b.waits().then(|| bucket(reserved.b_bucket).min(self.limiter.ready_at()))
            }
            (_, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Ringlet;
    use crate::ring::frame::Head;
    use crate::ring::protection::Path;
    use crate::units::{FlowNumber, Span};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Waiting {
        /// As without settings.
        pub(in crate::ring) fn fifo(room: Bytes) -> Waiting {
            Waiting { discipline: DisciplineConfig::Fifo, policy: PolicyConfig::DropTail, room, seed: 1 }
        }
    }

    /// A packet that is its number.
    impl Packet for u32 {
        fn bytes(&self) -> &[u8] {
            &[]
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut []
        }

        fn size(&self) -> Bytes {
            Bytes::ZERO
        }

        fn strip(&mut self, _: usize) {}

        fn truncate(&mut self, _: usize) {}

        fn duplicate(&self) -> Option<u32> {
            Some(*self)
        }

        fn from_bytes(_: &[u8]) -> Option<u32> {
            None
        }
    }

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    fn held(to: u8, class: Class, wire: u32, packet: u32) -> Held<u32> {
        let path = Path { ingress: node(1), egress: node(to), ringlet: Ringlet::Zero, wrapped: false, ttl: 8 };
        Held { head: Head { path, class, shares: class != Class::A }, wire, flow: FlowNumber(0), packet }
    }

    fn station(reservations: &[Reservation]) -> Station<u32> {
        Station::new(8, &Waiting::fifo(Bytes::new(20_000)), Bytes::ZERO, reservations).unwrap()
    }

    fn mbit(rate: u64) -> Option<Rate> {
        Some(Rate::from_mbit(rate))
    }

    /// Where first in goes first out, nothing depends on when.
    const NOW: Time = Time::ZERO;
    const US: fn(u64) -> Time = |us| Time::from_nanos(us * 1000);

    #[test]
    fn packets_pass_their_limiter_one_by_one_and_wait_for_no_other_egress() {
        let mut station = station(&[]);
        let mut arrived = 0;
        // 1000 bytes take 1 ms at 8 Mbit/s.
        station.set_limits(US(0), |to| if to == node(3) { mbit(8) } else { None }, |_| {});
        for number in 0..3 {
            station.enqueue(US(0), held(3, Class::C, 1000, number), |bytes| arrived += bytes).unwrap();
        }
        station.enqueue(US(0), held(4, Class::C, 1000, 10), |bytes| arrived += bytes).unwrap();
        assert_eq!(arrived, 2000);
        assert_eq!(station.take(NOW).map(|held| held.packet), Some(0));
        assert_eq!(station.take(NOW).map(|held| held.packet), Some(10));
        assert!(station.take(NOW).is_none());
        assert_eq!(station.counts()[2], Counts { offered: 3000, waiting: 2000 });
        assert_eq!(station.due(), Some(US(1000)));
        station.release_due(US(999), |_| panic!("early"));
        station.release_due(US(1000), |bytes| arrived += bytes);
        assert_eq!(station.take(NOW).map(|held| held.packet), Some(1));
        assert_eq!((arrived, station.due()), (3000, Some(US(2000))));
        station.set_limits(US(1500), |_| mbit(80), |_| {});
        assert_eq!(station.due(), Some(US(1550)), "half of what is owed is left, at ten times the rate");
        station.set_limits(US(1500), |_| Some(Rate::default()), |_| {});
        assert_eq!(station.due(), None, "nothing passes at zero");
        station.set_limits(US(1600), |_| None, |bytes| arrived += bytes);
        assert_eq!((station.take(NOW).map(|held| held.packet), arrived, station.packets()), (Some(2), 4000, 0));
    }

    #[test]
    fn demand_is_counted_while_the_multiplexer_takes_nothing_and_what_was_released_is_held_again_by_a_new_limit() {
        let mut station = station(&[]);
        let mut arrived = 0;
        for number in 0..20 {
            station.enqueue(US(0), held(3, Class::C, 1000, number), |bytes| arrived += bytes).unwrap();
        }
        assert_eq!(arrived, 20_000);
        assert!(station.enqueue(US(0), held(3, Class::C, 1000, 20), |bytes| arrived += bytes).is_err());
        assert_eq!(arrived, 21_000, "its limiter would have let it pass: it is demand");
        assert!(station.set_limits(US(0), |_| mbit(8), |_| panic!("counted already")));
        let passed: Vec<u32> = core::iter::from_fn(|| station.take(NOW)).map(|held| held.packet).collect();
        assert_eq!(passed, [0, 1, 2], "two that were released, and the first that the limiter lets pass");
        station.enqueue(US(0), held(3, Class::C, 1000, 21), |_| panic!("18 are before it")).unwrap();
        for ms in 1..=18 {
            station.release_due(US(ms * 1000), |bytes| arrived += bytes);
            assert!(station.take(NOW).is_some() && station.take(NOW).is_none());
        }
        assert_eq!(arrived, 22_000, "nothing is counted twice, and the new one once");
        assert!(!station.set_limits(US(20_000), |_| mbit(8), |_| {}), "the same limits");
    }

    #[test]
    fn egresses_share_the_multiplexer_by_bytes() {
        let mut station = station(&[]);
        let mut sent = BTreeMap::new();
        for number in 0..40_000 {
            for (to, wire) in [(2, 100), (3, 1500), (4, 700)] {
                let _ = station.enqueue(US(0), held(to, Class::C, wire, number), |_| {});
            }
            if number % 2 == 0
                && let Some(held) = station.take(NOW)
            {
                *sent.entry(held.head.path.egress).or_insert(0u64) += u64::from(held.wire);
            }
        }
        let (least, most) = (sent.values().min().unwrap(), sent.values().max().unwrap());
        assert!(sent.len() == 3 && most - least <= 3_000, "{sent:?}");
    }

    #[test]
    fn class_a_has_its_bucket_and_class_b_its_bucket_or_else_the_limiter_in_turn_with_class_c() {
        let reserve = |to, class, rate| Reservation { to, class, rate: Rate::from_mbit(rate) };
        let mut station = station(&[
            reserve(Some(node(3)), Class::A, 4),
            reserve(Some(node(3)), Class::A, 4),
            reserve(None, Class::B, 8),
        ]);
        station.set_limits(US(0), |_| mbit(16), |_| {});
        let mut shared = 0u64;
        let mut demoted = 0;
        let mut sent: BTreeMap<(u8, Class, bool), u32> = BTreeMap::new();
        for us in (0..1_000_000).step_by(250) {
            station.release_due(US(us), |bytes| shared += u64::from(bytes));
            for (to, class) in [(3, Class::A), (3, Class::B), (3, Class::C), (4, Class::A)] {
                // 32 Mbit/s each.
                let result = station.enqueue(US(us), held(to, class, 1000, 0), |bytes| shared += u64::from(bytes));
                demoted += u64::from(result.is_ok_and(|demoted| demoted));
            }
            let urgent: Vec<_> = core::iter::from_fn(|| station.take_urgent(NOW)).collect();
            for held in urgent.into_iter().chain(core::iter::from_fn(|| station.take(NOW))) {
                let Head { path, class, shares } = held.head;
                *sent.entry((path.egress.number(), class, shares)).or_insert(0) += held.wire;
            }
        }
        // 1 MB is 8 Mbit/s for this second; a burst of one packet and the last millisecond are the tolerance.
        let near = |to, class, shares, bytes: u32| {
            let found = sent.get(&(to, class, shares)).copied().unwrap_or(0);
            assert!(found.abs_diff(bytes) <= 2_000, "{class:?} to {to}, shares {shares}: {found}, not {bytes}");
        };
        near(3, Class::A, false, 1_000_000);
        near(3, Class::B, false, 1_000_000);
        near(3, Class::B, true, 1_000_000);
        near(3, Class::C, true, 1_000_000);
        near(4, Class::C, true, 2_000_000);
        assert_eq!(sent.len(), 5, "class A without a reservation is class C: {sent:?}");
        assert!(shared.abs_diff(4_000_000) <= 25_000 && demoted > 1900, "{shared} {demoted}");
    }

    proptest! {
        /// Against an obvious model: queues as lists, each limiter an instant, everything looked at in every step.
        #[test]
        fn packets_leave_in_order_at_their_limit_and_none_is_lost(
            steps in proptest::collection::vec((0u8..8, 2u8..6, 64u32..2000, 0u64..2000), 1..300),
        ) {
            let mut station = station(&[]);
            let mut model: BTreeMap<u8, Vec<(u32, u32)>> = BTreeMap::new();
            let mut limits: BTreeMap<u8, (Rate, Time, u64)> = BTreeMap::new();
            let mut now = Time::ZERO;
            let mut number = 0;
            for (what, to, wire, ns) in steps {
                now += Span::from_nanos(ns * 1000);
                station.release_due(now, |_| {});
                match what {
                    0..=4 => {
                        let queue = model.entry(to).or_default();
                        let room = queue.iter().map(|(_, wire)| wire).sum::<u32>() + wire <= 20_000;
                        let taken = station.enqueue(now, held(to, Class::C, wire, number), |_| {}).is_ok();
                        prop_assert_eq!(taken, room);
                        if taken {
                            queue.push((number, wire));
                        }
                        number += 1;
                    }
                    5 => {
                        station.set_limits(now, |_| None, |_| {});
                        limits.clear();
                    }
                    6 => {
                        station.set_limits(now, |one| if one == node(to) { mbit(u64::from(wire)) } else { None }, |_| {});
                        limits.clear();
                        limits.insert(to, (Rate::from_mbit(u64::from(wire)), now, 0));
                    }
                    _ => {
                        // All that may go goes. A limited egress: no faster than its rate since the limit was set.
                        while let Some(held) = station.take(NOW) {
                            let to = held.head.path.egress.number();
                            let queue = model.get_mut(&to).unwrap();
                            prop_assert_eq!(queue.remove(0), (held.packet, held.wire));
                            if let Some((rate, since, left)) = limits.get_mut(&to) {
                                *left += u64::from(held.wire);
                                // What was released before, and the packet with which the time begins.
                                let most = rate.bytes_in(now.since(*since)).as_u64() + (KEPT as u64 + 1) * 2000;
                                prop_assert!(*left <= most, "{} left where {} may", left, most);
                            }
                        }
                        for (to, queue) in &model {
                            prop_assert!(limits.contains_key(to) || queue.is_empty(), "{} waits without a limit", to);
                        }
                    }
                }
                let waiting: usize = model.values().map(Vec::len).sum();
                prop_assert_eq!(station.packets(), waiting);
                for (to, queue) in &model {
                    let bytes: u64 = queue.iter().map(|(_, wire)| u64::from(*wire)).sum();
                    prop_assert_eq!(station.counts()[node(*to).index()].waiting, bytes);
                }
                let limited: usize = model.iter().filter(|(to, _)| limits.contains_key(to)).map(|(_, q)| q.len()).sum();
                prop_assert!(station.due().is_none() || limited > 0);
            }
            let mut left: Vec<u32> = (2..6).flat_map(|to| station.drain(NOW, node(to)).map(|held| held.packet).collect::<Vec<_>>()).collect();
            let mut expected: Vec<u32> = model.values().flatten().map(|(number, _)| *number).collect();
            left.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
            prop_assert!(station.packets() == 0 && station.due().is_none() && !station.has_released());
        }
    }
}
