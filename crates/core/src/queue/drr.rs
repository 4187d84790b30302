//! Deficit round robin (DRR), and plain round robin by packets.
//!
//! Source: Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995, section 3.
//!
//! | paper | here |
//! |---|---|
//! | ActiveList | `first`, and the ring through `next` and `prev` |
//! | DC_i | `deficit` |
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

use super::store::{NIL, Store, Taken};
use super::{Admit, Buffer, Dropped, FlowId, Limit, QueueDiscipline};
use crate::units::{Bytes, Time};
use alloc::vec::Vec;

/// Deficit round robin over a queue for each flow.
#[derive(Clone, Debug)]
pub struct Drr<P> {
    store: Store<P>,
    turns: Vec<Turn>,
    quantum: u64,
    /// Whether every packet counts as one.
    by_packets: bool,
    first: u32,
    active: usize,
    /// The first has had its quantum of this visit.
    visiting: bool,
}

/// A queue's place in the ring of active ones.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    deficit: u64,
    next: u32,
    prev: u32,
}

impl<P> Drr<P> {
    /// An empty one that gives each flow `quantum` bytes a visit (at least 1).
    pub fn new(quantum: Bytes, limit: Limit, buffer: &Buffer) -> Drr<P> {
        Drr {
            store: Store::new(limit, buffer),
            turns: Vec::new(),
            quantum: quantum.as_u64().max(1),
            by_packets: false,
            first: NIL,
            active: 0,
            visiting: false,
        }
    }

    /// Round robin: one packet of each flow in turn, whatever its length.
    pub fn by_packets(limit: Limit, buffer: &Buffer) -> Drr<P> {
        Drr { by_packets: true, ..Drr::new(Bytes::new(1), limit, buffer) }
    }

    /// As `enqueue`, into the queue of `key`.
    #[inline]
    pub(super) fn enqueue_as(&mut self, key: u32, flow: FlowId, packet: P, size: u32) -> Admit<P> {
        if let Some(reason) = self.store.refuses(size) {
            return Admit::Refused(packet, reason);
        }
        let queue = self.store.open(key);
        if self.store.push(queue, flow, packet, size) {
            self.join(queue);
        }
        Admit::Queued
    }

    fn join(&mut self, queue: u32) {
        if self.turns.len() <= queue as usize {
            self.turns.resize(queue as usize + 1, Turn::default());
        }
        self.active += 1;
        if self.first == NIL {
            self.turns[queue as usize] = Turn { deficit: 0, next: queue, prev: queue };
            self.first = queue;
            return;
        }
        let last = self.turns[self.first as usize].prev;
        self.turns[queue as usize] = Turn { deficit: 0, next: self.first, prev: last };
        self.turns[last as usize].next = queue;
        self.turns[self.first as usize].prev = queue;
    }

    fn leave(&mut self, queue: u32) {
        let Turn { next, prev, .. } = self.turns[queue as usize];
        self.turns[prev as usize].next = next;
        self.turns[next as usize].prev = prev;
        if self.first == queue {
            self.first = if next == queue { NIL } else { next };
            self.visiting = false;
        }
        self.active -= 1;
        self.store.close(queue);
    }

    /// What the head of `queue` is charged.
    #[inline]
    fn cost(&self, queue: u32) -> u64 {
        if self.by_packets { 1 } else { u64::from(self.store.head_size(queue)) }
    }

    /// No flow can send in this round: credits the rounds before the first in which one can.
    #[cold]
    fn skip_rounds(&mut self) {
        let each = |queue: u32| self.turns[queue as usize];
        let mut least = u64::MAX;
        let mut at = self.first;
        for _ in 0..self.active {
            let missing = self.cost(at).saturating_sub(each(at).deficit);
            least = least.min(missing.div_ceil(self.quantum));
            at = each(at).next;
        }
        let credit = least.saturating_sub(1) * self.quantum;
        for _ in 0..self.active {
            self.turns[at as usize].deficit += credit;
            at = self.turns[at as usize].next;
        }
    }
}

impl<P> QueueDiscipline<P> for Drr<P> {
    #[inline]
    fn enqueue(&mut self, _now: Time, flow: FlowId, packet: P, size: u32) -> Admit<P> {
        self.enqueue_as(flow.0, flow, packet, size)
    }

    fn dequeue(&mut self, _now: Time) -> Option<(FlowId, P)> {
        let mut passed = 0;
        while self.first != NIL {
            let queue = self.first;
            let cost = self.cost(queue);
            let turn = &mut self.turns[queue as usize];
            if !self.visiting {
                turn.deficit += self.quantum;
                self.visiting = true;
            }
            if cost <= turn.deficit {
                turn.deficit -= cost;
                let Taken { flow, packet, emptied, .. } = self.store.pop(queue)?;
                if emptied {
                    self.leave(queue);
                }
                return Some((flow, packet));
            }
            self.first = turn.next;
            self.visiting = false;
            passed += 1;
            if passed == self.active {
                self.skip_rounds();
            }
        }
        None
    }

    #[inline]
    fn poll_dropped(&mut self, _now: Time) -> Option<Dropped<P>> {
        let (Taken { flow, packet, queue, emptied, .. }, reason) = self.store.cut()?;
        if emptied {
            self.leave(queue);
        }
        Some(Dropped { flow, packet, reason })
    }

    fn packets(&self) -> usize {
        self.store.packets()
    }

    fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    fn active_flows(&self) -> usize {
        self.active
    }
}
