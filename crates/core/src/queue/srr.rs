//! Surplus round robin as a queue discipline: the causal discipline in reverse (striping Figure 2), over flows.
//!
//! Source: striping §3.5; the turns and their counters are [`causal`](crate::causal)'s. A flow may overdraw its turn by
//! less than a packet, and has as much less in the next; deficit round robin saves up instead.
//!
//! Departure: a flow that fell empty is forgotten with what it owed. Cost and memory: those of [`Drr`](super::Drr).
//! Invariant: over any interval in which two flows are backlogged their bytes differ by at most Quantum + 2 Max.

use super::discipline::{Discipline, Entry, Index, Taken};
use super::store::{Removed, Store};
use crate::buffer::Victim;
use crate::causal::Turns;
use crate::units::{Bytes, FlowNumber, Time};

/// Surplus round robin over a queue for each flow.
#[derive(Clone, Debug)]
pub struct Srr<P> {
    store: Store<P>,
    turns: Turns,
}

impl<P> Srr<P> {
    /// An empty one that gives each flow `quantum` bytes a turn (1 to 2^30).
    pub fn new(quantum: Bytes, index: Index) -> Srr<P> {
        let quantum = u32::try_from(quantum.as_u64()).unwrap_or(u32::MAX);
        Srr { store: Store::new(index), turns: Turns::new(quantum, 0) }
    }

    fn close(&mut self, queue: u32) {
        self.turns.forget(queue);
        self.store.close(queue);
    }

    fn on_dropped(&mut self, removed: &Removed<P>) {
        if removed.emptied {
            self.turns.leave(removed.queue);
            self.close(removed.queue);
        }
    }
}

impl<P> Discipline<P> for Srr<P> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let queue = self.store.open(entry.flow.0);
        if self.store.push(queue, entry, ()) {
            self.turns.join(queue);
        }
    }

    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let queue = self.turns.select()?;
        let removed = self.store.pop(queue)?;
        self.turns.update(removed.entry.size, !removed.emptied);
        if removed.emptied {
            self.close(queue);
        }
        Some(removed.into())
    }

    fn peek(&self) -> Option<&Entry<P>> {
        self.store.head(self.turns.peek()?)
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

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.store.set_room(flow.0, room);
    }

    fn active_flows(&self) -> usize {
        self.turns.len()
    }
}
