//! Activity: how many flows are active, under several timeouts at once, exactly.
//!
//! What it is: a table of the flows of one definition. A flow is active under a timeout from its first packet until the
//! timeout has passed since its last one; the packet that comes then, or later, creates it anew. Flows expire on time, not only
//! when their next packet comes. Source: hybrid-gateways paper, 2.6.1, Tables 2.2 and 2.3.
//!
//! How: all flows lie in one list by the time of their last packets. Under each timeout the active ones are the newer end of
//! that list, so each timeout needs a mark only, at its oldest active flow, and one list serves all. A packet moves its flow to the
//! newest end; a mark moves on when its flow expires or is moved away. So each flow that expires is looked at once.
//!
//! | symbol | field |
//! |---|---|
//! | flow timeout | [`Counts`] number n belongs to timeout number n |
//! | flow operations | `created` and `expired` |
//! | max flows | `most` |
//! | collisions | `collisions`: packets whose chain of the hash table had another active flow in it |
//! | hash function efficiency | `1 - collisions / packets` |
//!
//! Packets take no time ([`Activity::handle_packet`]), or they are inside of something for a while
//! ([`Activity::handle_arrival`], [`Activity::handle_departure`]). Then a flow is active while it has a packet inside and until the timeout has
//! passed since the last one left, which may be at once. While it has one inside it is not in the list.
//!
//! Departures: the paper does not say when packets collide. Here one does if its flow shares the chain with another active
//! flow, whichever of them came first. Bounded memory: where more flows than `limit` would be held, the one that was quiet
//! longest is forgotten early, and counted in [`Activity::forgotten`].
//!
//! Cost: O(1) for a packet and each timeout; no allocation but where the table grows. Memory: 32 bytes of state, and 16 to 32 of
//! index, for each flow that is active under the longest timeout, and 4 for each chain and timeout. Invariants: the
//! list is in the order of time; a mark is the oldest flow that is active; only flows that are active under some
//! timeout are held.

use crate::units::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;
const LEAST: usize = 1 << 10;

/// What happened under one timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Flows that began.
    pub created: u64,
    /// Flows that ended, by the timeout or because they were forgotten early.
    pub expired: u64,
    /// Flows that are active.
    pub active: u32,
    /// Most flows that were active at once.
    pub most: u32,
    /// Packets whose chain had another active flow in it.
    pub collisions: u64,
}

/// A timeout and its mark in the list.
#[derive(Clone, Copy, Debug)]
struct Line {
    timeout: u64,
    /// The oldest active flow; [`NONE`] where there is none.
    oldest: u32,
    /// When it expires.
    next: u64,
    counts: Counts,
}

/// A flow, or a place for one.
#[derive(Clone, Copy, Debug)]
struct Flow {
    hash: u64,
    last: u64,
    newer: u32,
    older: u32,
    chain: u32,
    /// Packets that are inside. While there are any the flow is not in the list.
    inside: u32,
}

/// The flows of one definition.
#[derive(Clone, Debug)]
pub struct Activity {
    lines: Vec<Line>,
    /// The shortest timeout, and when the next flow expires under any.
    shortest: u64,
    soonest: u64,
    flows: Vec<Flow>,
    newest: u32,
    oldest: u32,
    /// Places that are free, linked by `older`.
    free: u32,
    held: usize,
    limit: usize,
    forgotten: u64,
    /// The high half of a hash and a place, or [`NEVER`].
    index: Vec<u64>,
    shift: u32,
    /// Active flows of each chain under each timeout.
    chains: Vec<u32>,
}

impl Activity {
    /// Nothing yet, for these timeouts (`None` never ends a flow), a hash table of `chains` chains (0 counts
    /// as 1), and at most `limit` flows (between 1 and 2^31).
    pub fn new(timeouts: &[Option<Span>], chains: u32, limit: usize) -> Activity {
        let line = |timeout: &Option<Span>| {
            let timeout = timeout.map_or(NEVER, Span::as_nanos);
            Line { timeout, oldest: NONE, next: NEVER, counts: Counts::default() }
        };
        let lines: Vec<Line> = timeouts.iter().map(line).collect();
        Activity {
            shortest: lines.iter().map(|line| line.timeout).min().unwrap_or(NEVER),
            soonest: NEVER,
            flows: Vec::new(),
            newest: NONE,
            oldest: NONE,
            free: NONE,
            held: 0,
            limit: limit.clamp(1, 1 << 31),
            forgotten: 0,
            index: vec![NEVER; LEAST],
            shift: u64::BITS - LEAST.trailing_zeros(),
            chains: vec![0; chains.max(1) as usize * lines.len()],
            lines,
        }
    }

    /// What happened under timeout number `line`.
    ///
    /// # Panics
    /// There are not so many timeouts.
    pub fn counts(&self, line: usize) -> Counts {
        self.lines[line].counts
    }

    /// When the next flow expires under any timeout.
    pub fn next_expiry(&self) -> Option<Time> {
        (self.soonest != NEVER).then_some(Time::from_nanos(self.soonest))
    }

    /// Flows that were forgotten early because there were too many.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Lets flows expire whose time has come.
    #[inline]
    pub fn handle_timeout(&mut self, now: Time) {
        if now.as_nanos() >= self.soonest {
            self.expire(now.as_nanos());
        }
    }

    /// Counts a packet of the time `now`, which is not before the last one's, of the flow `hash`; `chain` says which of the
    /// chains that flow belongs to (its remainder counts) and is asked for new flows only.
    #[inline]
    pub fn handle_packet(&mut self, now: Time, hash: u64, chain: impl FnOnce() -> u32) {
        self.handle_timeout(now);
        let now = now.as_nanos();
        let place = self.find(hash);
        let slot = self.index[place] as u32;
        let slot = if self.index[place] == NEVER {
            self.create(now, hash, chain())
        } else {
            self.renew(now, slot);
            slot
        };
        self.collide(slot);
    }

    /// A packet of the flow `hash` comes in at `now`; otherwise as [`Activity::handle_packet`]. Gives the flow's number, for when the
    /// packet leaves.
    pub fn handle_arrival(&mut self, now: Time, hash: u64, chain: impl FnOnce() -> u32) -> u32 {
        self.handle_timeout(now);
        let now = now.as_nanos();
        let entry = self.index[self.find(hash)];
        let slot = if entry == NEVER { self.insert(now, hash, chain()) } else { entry as u32 };
        let Flow { last, newer, inside, .. } = self.flows[slot as usize];
        if entry != NEVER && inside == 0 {
            self.leave_marks(slot, newer);
            self.unlink(slot);
        }
        if entry == NEVER || inside == 0 {
            for line in 0..self.lines.len() {
                if entry == NEVER || now - last >= self.lines[line].timeout {
                    self.count(line, slot);
                }
            }
        }
        self.flows[slot as usize].inside += 1;
        self.collide(slot);
        slot
    }

    /// A packet of the flow with this number leaves at `now`.
    pub fn handle_departure(&mut self, now: Time, slot: u32) {
        self.handle_timeout(now);
        let flow = &mut self.flows[slot as usize];
        flow.inside -= 1;
        flow.last = now.as_nanos();
        if flow.inside == 0 {
            self.push_newest(slot);
            for line in 0..self.lines.len() {
                self.mark(line, slot, now.as_nanos());
            }
            self.handle_timeout(now);
        }
    }

    /// How many flows that are active under timeout number `line` belong to the chain of the flow with this number, itself
    /// among them.
    ///
    /// # Panics
    /// There are not so many timeouts, or no such flow.
    pub fn chained(&self, slot: u32, line: usize) -> u32 {
        self.chains[self.flows[slot as usize].chain as usize * self.lines.len() + line]
    }

    /// Notes whether a packet of the flow shares its chain with another flow.
    #[inline]
    fn collide(&mut self, slot: u32) {
        let chain = self.flows[slot as usize].chain as usize * self.lines.len();
        for (line, active) in self.lines.iter_mut().zip(&self.chains[chain..]) {
            line.counts.collisions += u64::from(*active > 1);
        }
    }

    /// Where the flow stands in the index, or the free place where it would.
    #[inline]
    fn find(&self, hash: u64) -> usize {
        let mask = self.index.len() - 1;
        let mut place = (hash >> self.shift) as usize & mask;
        loop {
            let entry = self.index[place];
            if entry == NEVER || (entry ^ hash) >> 32 == 0 && self.flows[entry as u32 as usize].hash == hash {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    fn create(&mut self, now: u64, hash: u64, chain: u32) -> u32 {
        let slot = self.insert(now, hash, chain);
        self.push_newest(slot);
        for line in 0..self.lines.len() {
            self.begin(line, slot, now);
        }
        slot
    }

    /// Takes up a flow, which is not in the list yet.
    fn insert(&mut self, now: u64, hash: u64, chain: u32) -> u32 {
        // Flows with packets inside are not forgotten: their number is bounded by what holds the packets.
        if self.held >= self.limit && self.oldest != NONE {
            self.forget();
        }
        if 2 * (self.held + 1) > self.index.len() {
            self.grow();
        }
        let width = self.lines.len().max(1);
        let chain = chain % (self.chains.len() / width) as u32;
        let flow = Flow { hash, last: now, newer: NONE, older: NONE, chain, inside: 0 };
        let slot = if self.free == NONE {
            self.flows.push(flow);
            self.flows.len() as u32 - 1
        } else {
            let slot = self.free;
            self.free = self.flows[slot as usize].older;
            self.flows[slot as usize] = flow;
            slot
        };
        let place = self.find(hash);
        self.index[place] = hash >> 32 << 32 | u64::from(slot);
        self.held += 1;
        slot
    }

    /// Another packet of a flow that is held.
    #[inline]
    fn renew(&mut self, now: u64, slot: u32) {
        let Flow { last, newer, .. } = self.flows[slot as usize];
        let gap = now - last;
        self.flows[slot as usize].last = now;
        if newer == NONE {
            // It stays where it is; the marks that are at it tell another time.
            for line in &mut self.lines {
                if line.oldest == slot {
                    line.next = now.saturating_add(line.timeout);
                }
            }
        } else {
            self.leave_marks(slot, newer);
            self.unlink(slot);
            self.push_newest(slot);
        }
        if gap >= self.shortest {
            for line in 0..self.lines.len() {
                if gap >= self.lines[line].timeout {
                    self.begin(line, slot, now);
                }
            }
        }
    }

    /// Moves the marks that are at the flow to the one after it.
    #[inline]
    fn leave_marks(&mut self, slot: u32, newer: u32) {
        let next = self.flows.get(newer as usize).map(|flow| flow.last);
        for line in self.lines.iter_mut().filter(|line| line.oldest == slot) {
            (line.oldest, line.next) = (newer, next.map_or(NEVER, |next| next.saturating_add(line.timeout)));
        }
    }

    /// The flow, which is the newest, becomes active.
    fn begin(&mut self, line: usize, slot: u32, now: u64) {
        self.mark(line, slot, now);
        self.count(line, slot);
    }

    /// Puts a mark at the flow, which is the newest, if it is the only one that is active.
    fn mark(&mut self, line: usize, slot: u32, now: u64) {
        let line = &mut self.lines[line];
        if line.oldest == NONE {
            (line.oldest, line.next) = (slot, now.saturating_add(line.timeout));
            self.soonest = self.soonest.min(line.next);
        }
    }

    /// Counts the flow as one that begins.
    fn count(&mut self, line: usize, slot: u32) {
        self.chains[self.flows[slot as usize].chain as usize * self.lines.len() + line] += 1;
        let line = &mut self.lines[line];
        line.counts.created += 1;
        line.counts.active += 1;
        line.counts.most = line.counts.most.max(line.counts.active);
    }

    #[cold]
    fn expire(&mut self, now: u64) {
        self.soonest = NEVER;
        for line in 0..self.lines.len() {
            while self.lines[line].next <= now {
                self.end_oldest(line);
            }
            self.soonest = self.soonest.min(self.lines[line].next);
        }
        // What is behind every mark is active under no timeout.
        while self.oldest != NONE && self.flows[self.oldest as usize].last.saturating_add(self.longest()) <= now {
            self.release(self.oldest);
        }
    }

    fn longest(&self) -> u64 {
        self.lines.iter().map(|line| line.timeout).max().unwrap_or(0)
    }

    /// The oldest active flow ends.
    fn end_oldest(&mut self, line: usize) {
        let width = self.lines.len();
        let Line { oldest, timeout, .. } = self.lines[line];
        let Flow { newer, chain, .. } = self.flows[oldest as usize];
        self.chains[chain as usize * width + line] -= 1;
        let next = if newer == NONE { NEVER } else { self.flows[newer as usize].last.saturating_add(timeout) };
        let line = &mut self.lines[line];
        (line.oldest, line.next) = (newer, next);
        line.counts.active -= 1;
        line.counts.expired += 1;
    }

    /// Makes room: the flow that was quiet longest goes.
    #[cold]
    fn forget(&mut self) {
        let oldest = self.oldest;
        for line in 0..self.lines.len() {
            if self.lines[line].oldest == oldest {
                self.end_oldest(line);
            }
        }
        self.release(oldest);
        self.forgotten += 1;
    }

    /// A flow that is active under no timeout gives its place back.
    fn release(&mut self, slot: u32) {
        let mask = self.index.len() - 1;
        let mut hole = self.find(self.flows[slot as usize].hash);
        let mut place = hole;
        self.index[hole] = NEVER;
        loop {
            place = (place + 1) & mask;
            let entry = self.index[place];
            if entry == NEVER {
                break;
            }
            // It may move back to the hole unless its home lies behind the hole, cyclically.
            let home = (self.flows[entry as u32 as usize].hash >> self.shift) as usize & mask;
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.index[hole] = entry;
                self.index[place] = NEVER;
                hole = place;
            }
        }
        self.unlink(slot);
        self.flows[slot as usize].older = self.free;
        self.free = slot;
        self.held -= 1;
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        let Flow { newer, older, .. } = self.flows[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.flows[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.flows[older as usize].newer = newer,
        }
    }

    #[inline]
    fn push_newest(&mut self, slot: u32) {
        let before = core::mem::replace(&mut self.newest, slot);
        let flow = &mut self.flows[slot as usize];
        (flow.newer, flow.older) = (NONE, before);
        match before {
            NONE => self.oldest = slot,
            before => self.flows[before as usize].newer = slot,
        }
    }

    #[cold]
    fn grow(&mut self) {
        let entries = core::mem::take(&mut self.index);
        self.index = vec![NEVER; 2 * entries.len()];
        self.shift -= 1;
        let mask = self.index.len() - 1;
        for entry in entries.into_iter().filter(|entry| *entry != NEVER) {
            let mut place = (self.flows[entry as u32 as usize].hash >> self.shift) as usize & mask;
            while self.index[place] != NEVER {
                place = (place + 1) & mask;
            }
            self.index[place] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    const CHAINS: u32 = 4;

    fn span(timeout: Option<u64>) -> Option<Span> {
        timeout.map(Span::from_nanos)
    }

    /// One timeout, said plainly: how many packets each active flow has inside, when the last one left, and what each instant
    /// does to them.
    #[derive(Default)]
    struct Model {
        flows: BTreeMap<u64, (u32, u64)>,
        counts: Counts,
    }

    impl Model {
        fn advance(&mut self, now: u64, timeout: Option<u64>) {
            let before = self.flows.len();
            self.flows.retain(|_, (inside, last)| *inside > 0 || timeout.is_none_or(|timeout| *last + timeout > now));
            self.counts.expired += (before - self.flows.len()) as u64;
            self.counts.active = self.flows.len() as u32;
        }

        fn arrive(&mut self, now: u64, flow: u64, timeout: Option<u64>) {
            self.advance(now, timeout);
            self.counts.created += u64::from(!self.flows.contains_key(&flow));
            self.flows.entry(flow).or_default().0 += 1;
            self.counts.active = self.flows.len() as u32;
            self.counts.most = self.counts.most.max(self.counts.active);
            let chain = |flow: &u64| *flow as u32 % CHAINS;
            let together = self.flows.keys().filter(|other| chain(other) == chain(&flow)).count();
            self.counts.collisions += u64::from(together > 1);
        }

        fn depart(&mut self, now: u64, flow: u64, timeout: Option<u64>) {
            let (inside, last) = self.flows.entry(flow).or_default();
            (*inside, *last) = (*inside - 1, now);
            self.advance(now, timeout);
        }
    }

    /// Spread over the index, some of them beside each other.
    fn hash(flow: u64) -> u64 {
        (flow % 3) << 62 | flow
    }

    #[test]
    fn a_flow_is_active_until_its_timeout_has_passed_and_not_a_moment_longer() {
        let mut activity = Activity::new(&[span(Some(10)), span(None)], CHAINS, 100);
        let at = Time::from_nanos;
        activity.handle_packet(at(5), 1, || 1);
        activity.handle_packet(at(14), 1, || 1);
        assert_eq!(activity.next_expiry(), Some(at(15)), "a mark that is early costs one look");
        activity.handle_timeout(at(23));
        assert_eq!((activity.counts(0).active, activity.next_expiry()), (1, Some(at(24))));
        activity.handle_timeout(at(24));
        assert_eq!((activity.counts(0).active, activity.counts(1).active), (0, 1));
        assert_eq!(activity.next_expiry(), None);
        activity.handle_packet(at(25), 1, || 1);
        assert_eq!(activity.counts(0), Counts { created: 2, expired: 1, active: 1, most: 1, collisions: 0 });
        assert_eq!(activity.counts(1), Counts { created: 1, expired: 0, active: 1, most: 1, collisions: 0 });
    }

    #[test]
    fn flows_beyond_the_limit_push_out_those_that_were_quiet_longest() {
        let mut activity = Activity::new(&[span(Some(5)), span(None)], 1, 3);
        for n in 0..10 {
            activity.handle_packet(Time::from_nanos(n), hash(n), || 0);
        }
        assert_eq!((activity.counts(1).active, activity.counts(1).created, activity.forgotten()), (3, 10, 7));
        assert_eq!((activity.counts(0).active, activity.counts(0).expired), (3, 7));
        assert_eq!(activity.flows.len(), 3);
        activity.handle_packet(Time::from_nanos(10), hash(7), || 0);
        assert_eq!(activity.forgotten(), 7, "the three newest are known");
    }

    #[test]
    fn what_expired_everywhere_gives_its_memory_back() {
        let mut activity = Activity::new(&[span(Some(5)), span(Some(50))], 1, 1000);
        for n in 0..100_000 {
            activity.handle_packet(Time::from_nanos(n), hash(n), || 0);
        }
        assert!(activity.flows.len() <= 51, "{}", activity.flows.len());
        assert_eq!(activity.index.len(), LEAST);
    }

    #[test]
    fn without_a_timeout_a_flow_is_active_while_it_has_a_packet_inside_and_no_longer() {
        let mut activity = Activity::new(&[span(Some(0)), span(Some(10))], 1, 1);
        let at = Time::from_nanos;
        let one = activity.handle_arrival(at(0), 1, || 0);
        let other = activity.handle_arrival(at(1), 2, || 0);
        assert_eq!((activity.counts(0).active, activity.forgotten()), (2, 0), "with packets inside none is forgotten");
        assert_eq!(activity.handle_arrival(at(2), 1, || 0), one);
        activity.handle_departure(at(3), one);
        activity.handle_departure(at(4), other);
        assert_eq!((activity.counts(0).active, activity.counts(1).active), (1, 2));
        activity.handle_timeout(at(1000));
        assert_eq!(activity.counts(1).active, 1, "however long the packet stays");
        activity.handle_departure(at(1000), one);
        assert_eq!((activity.counts(0).active, activity.next_expiry()), (0, Some(at(1010))));
        activity.handle_timeout(at(1010));
        assert_eq!(
            (activity.counts(1).active, activity.counts(0)),
            (0, Counts { created: 2, expired: 2, active: 0, most: 2, collisions: 2 },)
        );
        assert_eq!(activity.held, 0);
    }

    proptest! {
        #[test]
        fn one_pass_counts_each_timeout_as_a_plain_model_of_it_does(
            packets in proptest::collection::vec((0_u64..40, 0_u64..12), 1..300),
            timeouts in proptest::collection::vec(proptest::option::weighted(0.8, 1_u64..60), 1..5),
        ) {
            let spans: Vec<_> = timeouts.iter().copied().map(span).collect();
            let mut activity = Activity::new(&spans, CHAINS, 1000);
            let mut models: Vec<Model> = timeouts.iter().map(|_| Model::default()).collect();
            let mut now = 0;
            for (flow, gap) in packets {
                // Some instants without a packet, and many packets at one instant.
                now += gap / 3;
                if gap == 11 {
                    now += 40;
                    activity.handle_timeout(Time::from_nanos(now));
                } else {
                    activity.handle_packet(Time::from_nanos(now), hash(flow), || flow as u32);
                }
                for (line, (model, timeout)) in models.iter_mut().zip(&timeouts).enumerate() {
                    if gap == 11 {
                        model.advance(now, *timeout);
                    } else {
                        model.arrive(now, flow, *timeout);
                        model.depart(now, flow, *timeout);
                    }
                    prop_assert_eq!(activity.counts(line), model.counts, "timeout {:?} at {}", timeout, now);
                }
                prop_assert!(activity.next_expiry().is_none_or(|next| next > Time::from_nanos(now)));
            }
        }

        #[test]
        fn packets_that_stay_inside_are_counted_as_a_plain_model_does(
            steps in proptest::collection::vec((0_u64..12, 0_u64..9, any::<bool>()), 1..300),
            timeouts in proptest::collection::vec(proptest::option::weighted(0.8, 0_u64..30), 1..5),
        ) {
            let spans: Vec<_> = timeouts.iter().copied().map(span).collect();
            let mut activity = Activity::new(&spans, CHAINS, 1000);
            let mut models: Vec<Model> = timeouts.iter().map(|_| Model::default()).collect();
            let mut inside: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (flow, gap, arrives) in steps {
                now += gap / 3;
                let at = Time::from_nanos(now);
                let arrives = arrives || inside.is_empty();
                let flow = if arrives {
                    inside.push((flow, activity.handle_arrival(at, hash(flow), || flow as u32)));
                    flow
                } else {
                    let (flow, slot) = inside.remove(flow as usize % inside.len());
                    activity.handle_departure(at, slot);
                    flow
                };
                for (line, (model, timeout)) in models.iter_mut().zip(&timeouts).enumerate() {
                    if arrives { model.arrive(now, flow, *timeout) } else { model.depart(now, flow, *timeout) }
                    prop_assert_eq!(activity.counts(line), model.counts, "timeout {:?} at {}", timeout, now);
                }
            }
        }
    }
}
