//! Which packet that waits has the largest finish number.
//!
//! What it is: finish numbers grow within a queue, so that it is the last packet of some queue; those play a tournament. Kept only where
//! a policy discards by finish numbers ([`LargestFinish`](crate::buffer::LargestFinish)).
//!
//! A packet that is dropped is not charged for: what its queue has behind it comes so much earlier. Cost: O(log n) in the
//! queues for a packet that comes, nothing for one that goes. Memory: 22 bytes a queue.

use super::discipline::{Entry, Index};
use super::stamp::Stamp;
use super::store::{Own, Removed, Store};
use super::tournament::Tournament;
use crate::buffer::Victim;

/// The finish number of the last packet of each queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Finishes(Tournament);

impl Finishes {
    /// Those of a discipline that finds its victims by `index`, and the index that is left for its store.
    pub(super) fn of(index: Index) -> (Option<Finishes>, Index) {
        if index == Index::Finish { (Some(Finishes::default()), Index::None) } else { (None, index) }
    }

    /// That of the last packet of `queue`, if it has one.
    #[inline]
    pub(super) fn last(&self, queue: u32) -> Option<Stamp> {
        self.0.key(queue).map(|(tags, parts)| Stamp::of_key((!tags, !parts)))
    }

    /// A packet with this finish number came to `queue`.
    #[inline]
    pub(super) fn on_arrival(&mut self, queue: u32, finish: Stamp) {
        let (tags, parts) = finish.key();
        self.0.set(queue, (!tags, !parts));
    }

    /// A packet of `queue` is dropped that took so much.
    pub(super) fn on_dropped(&mut self, queue: u32, cost: Stamp, emptied: bool) {
        match self.last(queue) {
            Some(last) if !emptied => self.on_arrival(queue, last.saturating_sub(cost)),
            _ => self.0.remove(queue),
        }
    }

    /// `queue` has fallen empty.
    #[inline]
    pub(super) fn on_emptied(&mut self, queue: u32) {
        self.0.remove(queue);
    }

    /// The queue whose last packet has the largest.
    fn largest(&self) -> Option<u32> {
        self.0.first().map(|(_, queue)| queue)
    }
}

/// Takes a victim out of `store`, which has an index for all but the largest finish number.
pub(super) fn evict<P, N: Copy, Q: Own>(
    finishes: Option<&Finishes>,
    store: &mut Store<P, N, Q>,
    victim: Victim,
) -> Option<Removed<P>> {
    match finishes {
        Some(finishes) if victim == Victim::LargestFinish => store.pop_tail(finishes.largest()?),
        _ => store.evict(victim),
    }
}

/// What [`evict`] would take out.
pub(super) fn find<'a, P, N: Copy, Q: Own>(
    finishes: Option<&Finishes>,
    store: &'a mut Store<P, N, Q>,
    victim: Victim,
) -> Option<&'a mut Entry<P>> {
    match finishes {
        Some(finishes) if victim == Victim::LargestFinish => store.tail_mut(finishes.largest()?),
        _ => store.find(victim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Discipline, Sfq};
    use crate::units::{FlowNumber, Time};
    use alloc::collections::BTreeSet;

    #[test]
    fn what_is_dropped_is_not_charged_for() {
        let mut finishes = Finishes::default();
        assert_eq!(finishes.last(3), None);
        finishes.on_arrival(3, Stamp::of(500));
        finishes.on_arrival(4, Stamp::of(400));
        assert_eq!((finishes.last(3), finishes.largest()), (Some(Stamp::of(500)), Some(3)));
        finishes.on_dropped(3, Stamp::of(200), false);
        assert_eq!((finishes.last(3), finishes.largest()), (Some(Stamp::of(300)), Some(4)));
        finishes.on_dropped(4, Stamp::of(400), true);
        assert_eq!((finishes.last(4), finishes.largest()), (None, Some(3)));
    }

    #[test]
    fn the_largest_finish_is_found_and_a_packet_is_drawn_all_the_same() {
        let mut sfq = Sfq::new(Index::Finish);
        for (packet, flow, size) in [(0, 1, 100), (1, 1, 100), (2, 2, 1500)] {
            sfq.enqueue(Entry { packet, flow: FlowNumber(flow), size, since: Time::ZERO });
        }
        assert_eq!(sfq.find(Victim::LargestFinish).map(|entry| entry.packet), Some(2));
        let (mut found, mut evicted) = (BTreeSet::new(), BTreeSet::new());
        for draw in 0..100 {
            let victim = Victim::Any(draw << 57);
            found.extend(sfq.find(victim).map(|entry| entry.packet));
            evicted.extend(sfq.clone().evict(victim).map(|entry| entry.packet));
        }
        assert_eq!((&found, found.len()), (&evicted, 3));
        assert_eq!(sfq.evict(Victim::LargestFinish).map(|entry| entry.packet), Some(2));
    }
}
