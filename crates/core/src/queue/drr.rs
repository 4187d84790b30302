//! Deficit round robin (DRR), and plain round robin by packets.
//!
//! Source: Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995, section 3.
//!
//! | paper | here |
//! |---|---|
//! | ActiveList | `active` |
//! | DC_i | `deficits` |
//! | Q_i, Quantum | `quantum`, the same for all |
//! | Send of a visit | what `dequeue` gives while `visiting` |
//!
//! Round robin is the same with every packet counted as one and a quantum of one.
//!
//! Departures: a quantum below the largest packet is allowed; a round in which no flow can send is not walked again and
//! again but counted: the rounds until one can are credited at once. A flow whose last packet is dropped leaves as if it
//! had been served. Cost: O(1) a packet with a quantum of the largest packet or more, else O(flows). Memory: 16 bytes a
//! queue. Invariants: `deficit` of a flow is below the size of its head when its visit ends, and 0 when it becomes
//! active; over any interval in which two flows are backlogged their bytes differ by at most Quantum + 2 Max (their
//! lemma 2 and theorem 3: 3 Max where Quantum = Max).

use super::discipline::{Discipline, Entry, Index, Taken};
use super::store::{Removed, Store};
use crate::buffer::Victim;
use crate::causal::Cycle;
use crate::units::{Bytes, Time};
use alloc::vec::Vec;

/// Deficit round robin over a queue for each flow.
#[derive(Clone, Debug)]
pub struct Drr<P> {
    store: Store<P>,
    active: Cycle,
    /// By queue.
    deficits: Vec<u64>,
    quantum: u64,
    /// Whether every packet counts as one.
    by_packets: bool,
    /// The first has had its quantum of this visit.
    visiting: bool,
}

impl<P> Drr<P> {
    /// An empty one that gives each flow `quantum` bytes a visit (at least 1).
    pub fn new(quantum: Bytes, index: Index) -> Drr<P> {
        Drr {
            store: Store::new(index),
            active: Cycle::EMPTY,
            deficits: Vec::new(),
            quantum: quantum.as_u64().max(1),
            by_packets: false,
            visiting: false,
        }
    }

    /// Round robin: one packet of each flow in turn, whatever its length.
    pub fn by_packets(index: Index) -> Drr<P> {
        Drr { by_packets: true, ..Drr::new(Bytes::new(1), index) }
    }

    /// As `enqueue`, into the queue of `key`.
    #[inline]
    pub(super) fn enqueue_as(&mut self, key: u32, entry: Entry<P>) {
        let queue = self.store.open(key);
        if self.store.push(queue, entry) {
            if self.deficits.len() <= queue as usize {
                self.deficits.resize(queue as usize + 1, 0);
            }
            self.deficits[queue as usize] = 0;
            self.active.push(queue);
        }
    }

    /// The queue may be empty now.
    fn on_removed(&mut self, removed: &Removed<P>) {
        if removed.emptied {
            if self.active.first() == Some(removed.queue) {
                self.visiting = false;
            }
            self.active.remove(removed.queue);
            self.store.close(removed.queue);
        }
    }

    /// What the head of `queue` is charged.
    #[inline]
    fn cost(&self, queue: u32) -> u64 {
        if self.by_packets { 1 } else { self.store.head(queue).map_or(0, |head| u64::from(head.size)) }
    }

    /// No flow can send in this round: credits the rounds before the first in which one can.
    #[cold]
    fn skip_rounds(&mut self) {
        let missing = |queue: u32| self.cost(queue).saturating_sub(self.deficits[queue as usize]);
        let least = self.active.iter().map(|queue| missing(queue).div_ceil(self.quantum)).min().unwrap_or(0);
        let credit = least.saturating_sub(1) * self.quantum;
        for queue in self.active.iter() {
            self.deficits[queue as usize] += credit;
        }
    }
}

impl<P> Discipline<P> for Drr<P> {
    #[inline]
    fn enqueue(&mut self, entry: Entry<P>) {
        self.enqueue_as(entry.flow.0, entry);
    }

    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let mut passed = 0;
        while let Some(queue) = self.active.first() {
            let cost = self.cost(queue);
            let deficit = &mut self.deficits[queue as usize];
            if !self.visiting {
                *deficit += self.quantum;
                self.visiting = true;
            }
            if cost <= *deficit {
                *deficit -= cost;
                let removed = self.store.pop(queue)?;
                self.on_removed(&removed);
                return Some(removed.into());
            }
            self.active.rotate();
            self.visiting = false;
            passed += 1;
            if passed == self.active.len() {
                self.skip_rounds();
            }
        }
        None
    }

    /// The first queue of those that need the fewest visits more; the visit that is under way is the last of them.
    fn peek(&self) -> Option<&Entry<P>> {
        let visits = |(place, queue): &(usize, u32)| {
            let missing = self.cost(*queue).saturating_sub(self.deficits[*queue as usize]).div_ceil(self.quantum);
            let under_way = *place == 0 && self.visiting;
            if under_way && missing == 0 {
                (0, 0)
            } else {
                (missing.max(1), if under_way { usize::MAX } else { *place })
            }
        };
        let (_, queue) = self.active.iter().enumerate().min_by_key(visits)?;
        self.store.head(queue)
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let removed = self.store.evict(victim)?;
        self.on_removed(&removed);
        Some(removed.entry)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        let removed = self.store.expire(oldest)?;
        self.on_removed(&removed);
        Some(removed.entry)
    }

    fn active_flows(&self) -> usize {
        self.active.len()
    }
}
