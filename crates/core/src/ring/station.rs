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
use crate::buffer::{Limit, PolicyConfig};
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
        // They differ only where there was no packet: others have a new limit at once.
        if egress.limit != egress.limiter.rate() {
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
            if reason.is_early() {
                self.dropped.standing += 1;
            } else {
                self.dropped.full += 1;
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
mod tests;
