//! Deficit round robin (DRR), round robin by packets, and weighted round robin (WRR) by the mean length of packets.
//!
//! Source: Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995, section 3. WRR:
//! Katevenis, Sidiropoulos and Courcoubetis, "Weighted Round-Robin Cell Multiplexing in a General-Purpose ATM Switch Chip",
//! IEEE JSAC 9(8), 1991; with packets of different lengths: hybrid-gateways 2.2.
//!
//! | paper | here |
//! |---|---|
//! | ActiveList, DC_i | `round`, in `places` |
//! | Q_i, Quantum | `quantum`, times the flow's weight |
//! | Send of a visit | what `dequeue` gives while the round is `visiting` |
//!
//! Round robin is the same with every packet counted as one and a quantum of one. WRR is the same with every packet counted
//! as the mean length of its flow ([`means`](super::means)): a flow sends its quantum over that mean in packets, whatever the
//! length of each. What is left of a division is kept for the next visit, where the paper's weights are scaled to whole numbers.
//!
//! Departures: a quantum below the largest packet is allowed; a round in which no flow can send is not walked again and
//! again but counted: the rounds until one can are credited at once. A flow whose last packet is dropped leaves as if it
//! had been served. Cost: O(1) a packet with a quantum of the largest packet or more, else O(flows). Memory: 16 bytes a
//! queue, 20 with means. Invariants: `deficit` of a flow is below the size of its head when its visit ends, and 0 when it becomes
//! active; over any interval in which two flows are backlogged their bytes differ by at most Quantum + 2 Max (their
//! lemma 2 and theorem 3: 3 Max where Quantum = Max).

use super::discipline::{Discipline, Entry, Index, Taken};
use super::means::Means;
use super::round::{Places, Round};
use super::store::{Removed, Store};
use crate::buffer::Victim;
use crate::units::{Bytes, FlowNumber, Time};

/// What a packet is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    /// Its bytes.
    Bytes,
    /// One.
    One,
    /// The mean of its flow's packets.
    Mean,
}

/// Deficit round robin over a queue for each flow.
#[derive(Clone, Debug)]
pub struct Drr<P> {
    store: Store<P>,
    round: Round,
    places: Places,
    /// Empty where nobody asks.
    means: Means,
    quantum: u64,
    charge: Charge,
}

impl<P> Drr<P> {
    /// An empty one that gives each flow `quantum` bytes a visit (at least 1).
    pub fn new(quantum: Bytes, index: Index) -> Drr<P> {
        Drr {
            store: Store::new(index),
            round: Round::EMPTY,
            places: Places::default(),
            means: Means::default(),
            quantum: quantum.as_u64().max(1),
            charge: Charge::Bytes,
        }
    }

    /// Round robin: one packet of each flow in turn, whatever its length.
    pub fn by_packets(index: Index) -> Drr<P> {
        Drr { charge: Charge::One, ..Drr::new(Bytes::new(1), index) }
    }

    /// Weighted round robin: as many packets of each flow in turn as have `quantum` bytes (at least 1) by their mean length.
    pub fn by_mean(quantum: Bytes, index: Index) -> Drr<P> {
        Drr { charge: Charge::Mean, ..Drr::new(quantum, index) }
    }

    /// As `enqueue`, into the queue of `key`.
    #[inline]
    pub(super) fn enqueue_as(&mut self, key: u32, entry: Entry<P>) {
        let queue = self.store.open(key);
        let size = entry.size;
        let first = self.store.push(queue, entry, ());
        if self.charge == Charge::Mean {
            self.means.note(queue, size, first);
        }
        if first {
            self.round.join(&mut self.places, queue);
        }
    }

    /// The queue may be empty now.
    fn on_removed(&mut self, removed: &Removed<P>) {
        if removed.emptied {
            self.round.leave(&mut self.places, removed.queue);
            self.store.close(removed.queue);
        }
    }

    /// Who sends next, and what that is charged.
    #[inline]
    fn select(&mut self) -> Option<(u32, u64)> {
        let Drr { store, round, places, means, charge, quantum } = self;
        round.select(places, |queue| cost(store, means, *charge, queue), |queue| visit(store, *quantum, queue))
    }
}

/// What the head of `queue` is charged.
#[inline]
fn cost<P>(store: &Store<P>, means: &Means, charge: Charge, queue: u32) -> u64 {
    match charge {
        Charge::Bytes => store.head(queue).map_or(0, |head| u64::from(head.size)),
        Charge::One => 1,
        Charge::Mean => means.of(queue),
    }
}

/// What a visit gives `queue`.
#[inline]
fn visit<P>(store: &Store<P>, quantum: u64, queue: u32) -> u64 {
    quantum * u64::from(store.weight(queue))
}

impl<P> Discipline<P> for Drr<P> {
    #[inline]
    fn enqueue(&mut self, entry: Entry<P>) {
        self.enqueue_as(entry.flow.0, entry);
    }

    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let (queue, cost) = self.select()?;
        self.round.charge(&mut self.places, queue, cost);
        let removed = self.store.pop(queue)?;
        self.on_removed(&removed);
        Some(removed.into())
    }

    fn peek(&self) -> Option<&Entry<P>> {
        let Drr { store, means, charge, quantum, .. } = self;
        let cost = |queue| cost(store, means, *charge, queue);
        store.head(self.round.peek(&self.places, cost, |queue| visit(store, *quantum, queue))?)
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let removed = self.store.evict(victim)?;
        self.on_removed(&removed);
        Some(removed.entry)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        self.store.find(victim)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        let removed = self.store.expire(oldest)?;
        self.on_removed(&removed);
        Some(removed.entry)
    }

    fn set_weight(&mut self, flow: FlowNumber, weight: u32) {
        self.store.set_weight(flow.0, weight);
    }

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.store.set_room(flow.0, room);
    }

    fn active_flows(&self) -> usize {
        self.round.len()
    }

    fn forgets(&self) -> bool {
        true
    }
}
