//! First in, first out, over all flows.
//!
//! Cost: O(1), but for a packet that is drawn from all: what lies between it and the nearer end moves. Invariant: order is
//! that of arrival. Victims are known without an index: the head is the oldest packet, and the tail is the newest one of
//! the only queue.

use super::discipline::{Discipline, Entry, Taken};
use crate::buffer::Victim;
use crate::rng::Rng;
use crate::units::Time;
use alloc::collections::VecDeque;

/// One queue for all.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    queue: VecDeque<Entry<P>>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Fifo<P> {
        Fifo { queue: VecDeque::new(), bytes: 0 }
    }
}

impl<P> Fifo<P> {
    /// Puts a packet in front of the first one that does not go before it, in a queue that is in such an order.
    pub fn insert(&mut self, entry: Entry<P>, goes_first: impl Fn(&P) -> bool) {
        self.bytes += u64::from(entry.size);
        let place = self.queue.partition_point(|other| goes_first(&other.packet));
        self.queue.insert(place, entry);
    }

    /// How many wait.
    #[inline]
    pub(super) fn packets(&self) -> usize {
        self.queue.len()
    }

    /// Their bytes.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first one.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry<P>> {
        self.queue.front()
    }

    /// Where the victim is.
    fn place(&self, victim: Victim) -> Option<usize> {
        let last = self.queue.len().checked_sub(1)?;
        Some(match victim {
            Victim::Oldest | Victim::LongestHead | Victim::Suspect | Victim::AboveShare(_) => 0,
            Victim::Longest | Victim::LargestFinish => last,
            Victim::Any(draw) => Rng::new(draw).below(last as u64 + 1) as usize,
        })
    }

    fn count(&mut self, entry: Option<Entry<P>>) -> Option<Entry<P>> {
        self.bytes -= entry.as_ref().map_or(0, |entry| u64::from(entry.size));
        entry
    }
}

impl<P> Discipline<P> for Fifo<P> {
    #[inline]
    fn enqueue(&mut self, entry: Entry<P>) {
        self.bytes += u64::from(entry.size);
        self.queue.push_back(entry);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let size = self.queue.front()?.size;
        self.bytes -= u64::from(size);
        let entry = self.queue.pop_front()?;
        Some(Taken { entry, queue: 0, key: 0, behind: self.bytes })
    }

    #[inline]
    fn peek(&self) -> Option<&Entry<P>> {
        self.queue.front()
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let place = self.place(victim)?;
        let entry = self.queue.remove(place);
        self.count(entry)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        let place = self.place(victim)?;
        self.queue.get_mut(place)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        self.queue.front().filter(|entry| entry.since < oldest)?;
        let entry = self.queue.pop_front();
        self.count(entry)
    }

    fn active_flows(&self) -> usize {
        usize::from(!self.queue.is_empty())
    }

    fn by_flow(&self) -> bool {
        false
    }
}
