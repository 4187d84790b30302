//! Randomised fair queueing (RFQ) as a queue discipline: the next flow is drawn.
//!
//! Source: striping §3.7. A queue is drawn with a probability in proportion to its weight; where the mean sizes of packets
//! differ, weights are in inverse proportion to them, so that expected bytes are alike.
//!
//! | paper | here |
//! |---|---|
//! | weight of queue i | its flow's weight over the mean length of its packets, in 2^-24 |
//! | pseudorandom sequence | `rng`, of the queue's seed |
//! | the queue that is served next | `next`, drawn ahead |
//!
//! Departures: only queues that have packets are drawn. The mean is an estimate of what came ([`Means`]); the paper takes it as
//! known. Who becomes active takes part from the draw after the next packet on, since that one is drawn already.
//!
//! Cost: O(log n) in the number of queues, a packet. Memory: 8 bytes a queue for the sums of weights, 8 for means. Invariants:
//! the sum of all weights is that of the queues that have packets; over n packets of backlogged flows the shares of bytes are
//! those of the weights, with a standard deviation that falls as 1 over the root of n.

use super::discipline::{Discipline, Entry, Index, Taken};
use super::means::Means;
use super::store::{Removed, Store};
use crate::buffer::Victim;
use crate::rng::Rng;
use crate::units::{FlowNumber, Time};
use alloc::vec::Vec;

/// A flow's weight of one over a mean of one byte.
const ONE: u64 = 1 << 24;

/// Randomised fair queueing over a queue for each flow.
#[derive(Clone, Debug)]
pub struct Rfq<P> {
    store: Store<P>,
    means: Means,
    sums: Sums,
    rng: Rng,
    next: Option<u32>,
    active: usize,
}

impl<P> Rfq<P> {
    /// An empty one that draws by `seed`.
    pub fn new(index: Index, seed: u64) -> Rfq<P> {
        let (means, sums) = (Means::default(), Sums::default());
        Rfq { store: Store::new(index), means, sums, rng: Rng::new(seed), next: None, active: 0 }
    }

    /// The weight of `queue` follows what came.
    fn weigh(&mut self, queue: u32) {
        let weight = ONE * u64::from(self.store.weight(queue)) / self.means.of(queue);
        self.sums.set(queue, weight.max(1));
    }

    fn draw(&mut self) {
        let total = self.sums.total();
        self.next = (total > 0).then(|| self.sums.find(self.rng.below(total)));
    }

    /// The queue of a packet that went without its turn may be empty now.
    fn on_dropped(&mut self, removed: &Removed<P>) {
        if removed.emptied {
            self.close(removed.queue);
            if self.next == Some(removed.queue) {
                self.draw();
            }
        }
    }

    fn close(&mut self, queue: u32) {
        self.active -= 1;
        self.sums.set(queue, 0);
        self.store.close(queue);
    }
}

impl<P> Discipline<P> for Rfq<P> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let queue = self.store.open(entry.flow.0);
        let size = entry.size;
        let first = self.store.push(queue, entry, ());
        self.means.note(queue, size, first);
        self.weigh(queue);
        self.active += usize::from(first);
        if self.next.is_none() {
            self.draw();
        }
    }

    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let removed = self.store.pop(self.next?)?;
        if removed.emptied {
            self.close(removed.queue);
        }
        self.draw();
        Some(removed.into())
    }

    fn peek(&self) -> Option<&Entry<P>> {
        self.store.head(self.next?)
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
        if let Some(queue) = self.store.queue(flow.0).filter(|queue| self.store.head(*queue).is_some()) {
            self.weigh(queue);
        }
    }

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.store.set_room(flow.0, room);
    }

    fn active_flows(&self) -> usize {
        self.active
    }
}

/// Weights by queue, and their running sums: a binary indexed tree (Fenwick 1994).
#[derive(Clone, Debug, Default)]
struct Sums {
    weights: Vec<u64>,
    /// At i - 1, counted from 1: the weights of the queues from i less its lowest bit, up to i.
    tree: Vec<u64>,
    total: u64,
}

impl Sums {
    fn total(&self) -> u64 {
        self.total
    }

    fn set(&mut self, queue: u32, weight: u64) {
        let place = queue as usize;
        while self.tree.len() <= place {
            let at = self.tree.len() + 1;
            let below = at - (at & at.wrapping_neg());
            // The weights of the queues between, which are in the tree already; its own is none yet.
            self.tree.push(self.weights.get(below..).map_or(0, |weights| weights.iter().sum()));
            self.weights.push(0);
        }
        let before = core::mem::replace(&mut self.weights[place], weight);
        if before == weight {
            return;
        }
        self.total = self.total - before + weight;
        let mut at = place + 1;
        while at <= self.tree.len() {
            self.tree[at - 1] = self.tree[at - 1] - before + weight;
            at += at & at.wrapping_neg();
        }
    }

    /// The queue in whose part of all weights `point` lies, which is below the total.
    fn find(&self, point: u64) -> u32 {
        let (mut place, mut left) = (0, point);
        let mut step = self.tree.len().checked_ilog2().map_or(0, |bits| 1usize << bits);
        while step > 0 {
            if let Some(sum) = self.tree.get(place + step - 1).filter(|sum| **sum <= left) {
                left -= sum;
                place += step;
            }
            step /= 2;
        }
        place as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Unit;

    #[test]
    fn a_flow_that_lost_its_last_packet_is_drawn_no_more() {
        for seed in 0..20 {
            let mut rfq = Rfq::new(Index::Longest(Unit::Bytes), seed);
            let put = |rfq: &mut Rfq<()>, flow, size| {
                rfq.enqueue(Entry { packet: (), flow: FlowNumber(flow), size, since: Time::ZERO });
            };
            put(&mut rfq, 1, 1500);
            put(&mut rfq, 2, 100);
            assert_eq!(rfq.evict(Victim::Longest).map(|entry| entry.flow.0), Some(1));
            assert_eq!((rfq.active_flows(), rfq.store.queue(1)), (1, None));
            assert_eq!(rfq.peek().map(|entry| entry.flow.0), Some(2), "seed {seed}");
            assert_eq!(rfq.dequeue(Time::ZERO).map(|taken| taken.entry.flow.0), Some(2), "seed {seed}");
            assert_eq!((rfq.sums.total(), rfq.next), (0, None));
        }
    }

    /// Beside sums that are made anew each time.
    #[test]
    fn a_point_is_found_where_the_running_sum_says() {
        let mut rng = Rng::new(5);
        let (mut sums, mut model) = (Sums::default(), Vec::new());
        for _ in 0..2000 {
            let (queue, weight) = (rng.below(70) as usize, rng.below(4) * rng.below(1000));
            sums.set(queue as u32, weight);
            model.resize(model.len().max(queue + 1), 0);
            model[queue] = weight;
            let total: u64 = model.iter().sum();
            assert_eq!(sums.total(), total);
            if total > 0 {
                let point = rng.below(total);
                let mut end = 0;
                let found = model.iter().position(|weight| {
                    end += weight;
                    point < end
                });
                assert_eq!(Some(sums.find(point) as usize), found);
            }
        }
    }
}
