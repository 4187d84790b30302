//! FlowQueue's scheduler: deficit round robin in which flows that begin go first.
//!
//! Source: RFC 8290 (Hoeiland-Joergensen et al.), sections 3.2, 4.1.1 and 4.2; with the policy `codel` it is FQ-CoDel, but
//! for the hash. Its idea is that of DRR++ (MacGregor and Shi, "Deficits for Bursty Latency-critical Flows", ICON 2000).
//!
//! | RFC 8290 | here |
//! |---|---|
//! | new queues, old queues | `new`, `old` |
//! | credits | `credits` |
//! | quantum | `quantum`, times the flow's weight |
//!
//! A queue of which a packet comes while it is in neither list joins the new ones, with a quantum of credits. It goes to
//! the end of the old ones when its credits are used up or when it is found empty, so that a flow cannot begin anew
//! again and again; an old one that is found empty is forgotten. A flow that sends less than a quantum in the time of a
//! round so never waits for those that always have more.
//!
//! Departures: a queue for each flow, not a bucket; rounds in which no queue has credits are not walked again and again
//! but counted. Cost: O(1) a packet with a quantum of the largest packet or more, else O(flows). Memory: 24 bytes a
//! queue. Invariants: credits of a queue are at most its quantum and more than minus a packet; over any interval in which
//! two flows are backlogged and old their bytes differ by at most Quantum + 2 Max.

use super::discipline::{Discipline, Entry, Index, Taken};
use super::store::{Removed, Store};
use crate::buffer::Victim;
use crate::causal::Cycle;
use crate::units::{Bytes, FlowNumber, Time};
use alloc::vec::Vec;

/// Deficit round robin with new flows first, over a queue for each flow.
#[derive(Clone, Debug)]
pub struct FlowQueue<P> {
    store: Store<P>,
    new: Cycle,
    old: Cycle,
    /// By queue.
    credits: Vec<i64>,
    quantum: i64,
    /// Queues in either list that have packets.
    active: usize,
}

impl<P> FlowQueue<P> {
    /// An empty one that gives each flow `quantum` bytes a visit (1 to 2^30).
    pub fn new(quantum: Bytes, index: Index) -> FlowQueue<P> {
        let quantum = i64::try_from(quantum.as_u64()).unwrap_or(i64::MAX).clamp(1, 1 << 30);
        FlowQueue {
            store: Store::new(index),
            new: Cycle::EMPTY,
            old: Cycle::EMPTY,
            credits: Vec::new(),
            quantum,
            active: 0,
        }
    }

    #[inline]
    fn quantum(&self, queue: u32) -> i64 {
        self.quantum * i64::from(self.store.weight(queue))
    }

    /// The quanta that it needs before it may send.
    fn missing(&self, queue: u32) -> i64 {
        let credits = self.credits[queue as usize];
        if credits > 0 { 0 } else { 1 + -credits / self.quantum(queue) }
    }

    /// No queue could send in this round: gives the quanta of all rounds up to the first after which one can.
    #[cold]
    fn skip_rounds(&mut self) {
        let least = self.old.iter().map(|queue| self.missing(queue)).min().unwrap_or(0);
        for queue in self.old.iter() {
            let quantum = self.quantum * i64::from(self.store.weight(queue));
            self.credits[queue as usize] += least * quantum;
        }
    }

    fn on_dropped(&mut self, removed: &Removed<P>) {
        self.active -= usize::from(removed.emptied);
    }
}

impl<P> Discipline<P> for FlowQueue<P> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let queue = self.store.open(entry.flow.0);
        self.active += usize::from(self.store.push(queue, entry, ()));
        if self.new.contains(queue) || self.old.contains(queue) {
            return;
        }
        if self.credits.len() <= queue as usize {
            self.credits.resize(queue as usize + 1, 0);
        }
        self.credits[queue as usize] = self.quantum(queue);
        self.new.push(queue);
    }

    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let mut passed = 0;
        loop {
            let (queue, is_new) = match self.new.first() {
                Some(queue) => (queue, true),
                None => (self.old.first()?, false),
            };
            let spent = self.credits[queue as usize] <= 0;
            if spent {
                self.credits[queue as usize] += self.quantum(queue);
            } else if let Some(removed) = self.store.pop(queue) {
                self.credits[queue as usize] -= i64::from(removed.entry.size);
                self.active -= usize::from(removed.emptied);
                return Some(removed.into());
            }
            if is_new {
                self.new.remove(queue);
                self.old.push(queue);
            } else if spent {
                self.old.rotate();
                passed += 1;
                if passed >= self.old.len() {
                    self.skip_rounds();
                    passed = 0;
                }
            } else {
                self.old.remove(queue);
                self.store.close(queue);
            }
        }
    }

    /// A new queue that may send; or, of the old ones and of those that are to join them, the first of those that need
    /// the fewest rounds.
    fn peek(&self) -> Option<&Entry<P>> {
        let waits = |queue: &u32| self.store.head(*queue).is_some();
        if let Some(queue) = self.new.iter().filter(waits).find(|queue| self.missing(*queue) == 0) {
            return self.store.head(queue);
        }
        let joining = self.new.iter().filter(waits).map(|queue| (self.missing(queue) - 1, queue));
        let rounds = self.old.iter().filter(waits).map(|queue| (self.missing(queue), queue)).chain(joining);
        self.store.head(rounds.min_by_key(|(rounds, _)| *rounds)?.1)
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let removed = self.store.evict(victim)?;
        self.on_dropped(&removed);
        Some(removed.entry)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        self.store.find(victim)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        let removed = self.store.expire(oldest)?;
        self.on_dropped(&removed);
        Some(removed.entry)
    }

    fn set_weight(&mut self, flow: FlowNumber, weight: u32) {
        self.store.set_weight(flow.0, weight);
    }

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.store.set_room(flow.0, room);
    }

    fn active_flows(&self) -> usize {
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Unit;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    fn entry(flow: u32, size: u32) -> Entry<()> {
        Entry { packet: (), flow: FlowNumber(flow), size, since: Time::ZERO }
    }

    /// RFC 8290, 4.1 and 4.2, round by round.
    #[derive(Default)]
    struct Model {
        flows: [(VecDeque<u32>, i64); 4],
        new: VecDeque<usize>,
        old: VecDeque<usize>,
    }

    impl Model {
        fn enqueue(&mut self, flow: usize, size: u32, quantum: i64) {
            self.flows[flow].0.push_back(size);
            if !self.new.contains(&flow) && !self.old.contains(&flow) {
                self.flows[flow].1 = quantum;
                self.new.push_back(flow);
            }
        }

        fn dequeue(&mut self, quantum: impl Fn(usize) -> i64) -> Option<(u32, u32)> {
            loop {
                let is_new = !self.new.is_empty();
                let list = if is_new { &mut self.new } else { &mut self.old };
                let flow = list.pop_front()?;
                let (sizes, credits) = &mut self.flows[flow];
                if *credits <= 0 {
                    *credits += quantum(flow);
                } else if let Some(size) = sizes.pop_front() {
                    *credits -= i64::from(size);
                    list.push_front(flow);
                    return Some((flow as u32, size));
                } else if !is_new {
                    continue;
                }
                self.old.push_back(flow);
            }
        }
    }

    proptest! {
        #[test]
        fn rounds_that_are_counted_end_as_rounds_that_are_walked(
            quantum in 1i64..400,
            steps in proptest::collection::vec(proptest::option::weighted(0.6, (0u32..4, 1u32..1500)), 1..200),
        ) {
            let mut queue = FlowQueue::new(Bytes::new(quantum as u64), Index::None);
            let mut model = Model::default();
            (0..4).for_each(|flow| queue.set_weight(FlowNumber(flow), flow + 1));
            let quantum = |flow: usize| quantum * (flow as i64 + 1);
            let rest = core::iter::repeat_n(None, 200);
            for step in steps.into_iter().chain(rest) {
                if let Some((flow, size)) = step {
                    queue.enqueue(entry(flow, size));
                    model.enqueue(flow as usize, size, quantum(flow as usize));
                } else {
                    let taken = queue.dequeue(Time::ZERO).map(|taken| (taken.entry.flow.0, taken.entry.size));
                    prop_assert_eq!(taken, model.dequeue(quantum));
                }
            }
        }
    }

    #[test]
    fn a_flow_whose_last_packet_is_dropped_is_counted_no_more() {
        let mut queue = FlowQueue::new(Bytes::new(1500), Index::Longest(Unit::Packets));
        [1, 1, 2].iter().for_each(|flow| queue.enqueue(entry(*flow, 100)));
        let evicted = |queue: &mut FlowQueue<()>| queue.evict(Victim::Longest).map(|entry| entry.flow.0);
        assert_eq!((evicted(&mut queue), queue.active_flows()), (Some(1), 2));
        assert!(evicted(&mut queue).is_some());
        assert_eq!(queue.active_flows(), 1);
        assert!(evicted(&mut queue).is_some());
        assert_eq!(queue.active_flows(), 0);
    }
}
