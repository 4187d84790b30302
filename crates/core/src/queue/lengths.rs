//! Which queue is the longest, exactly or by guess, and which are longer than their share.
//!
//! What it is: exactly, a heap of the queues by *upper bounds* of their lengths. A queue that grows beyond its bound moves
//! up; one that shrinks keeps its bound until it is empty. Who asks for the longest brings the first bound down to the
//! length that it stands for, until the first one is true. A queue that goes up and down beneath its bound, as most do all
//! the time, costs nothing.
//!
//! By guess (quasi-pushout: Lin and Shung 1991, hybrid-gateways 3.5): the queue of which the greatest length was seen;
//! every queue that changes is compared with what is remembered of that one.
//!
//! Cost: amortised O(log n) by heap, since each bound that is brought down was left behind by a packet that went; O(1) by
//! guess. Invariant: no queue that has packets is longer than its bound.

use super::discipline::Unit;
use super::heap::{BELOW, Heap};
use crate::rng::Rng;
use alloc::vec::Vec;

/// Draws before those above their share are listed.
const MOST_DRAWS: u32 = 32;

/// Which queue is the longest.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    pub(super) unit: Unit,
    by: By,
}

#[derive(Clone, Debug)]
enum By {
    /// By bounds, turned over: the greatest first; and a list for [`Lengths::above`].
    Bounds(Heap, Vec<u32>),
    /// The queue and its length as it was seen last.
    Guess(u32, u64),
}

impl Lengths {
    pub(super) fn exact(unit: Unit) -> Lengths {
        Lengths { unit, by: By::Bounds(Heap::default(), Vec::new()) }
    }

    pub(super) fn guessed(unit: Unit) -> Lengths {
        Lengths { unit, by: By::Guess(0, 0) }
    }

    /// `queue` has grown to `length`.
    #[inline]
    pub(super) fn on_grown(&mut self, queue: u32, length: u64) {
        match &mut self.by {
            By::Bounds(heap, _) => {
                if heap.key(queue).is_none_or(|bound| length > !bound) {
                    heap.set(queue, (!length, 0));
                }
            }
            By::Guess(..) => self.guess(queue, length),
        }
    }

    /// `queue` has shrunk to `length`.
    #[inline]
    pub(super) fn on_shrunk(&mut self, queue: u32, length: u64) {
        match &mut self.by {
            By::Bounds(heap, _) if length == 0 => heap.remove(queue),
            By::Bounds(..) => {}
            By::Guess(..) => self.guess(queue, length),
        }
    }

    /// Lengths of `queue` are counted otherwise from now on.
    pub(super) fn on_changed(&mut self, queue: u32, length: u64) {
        self.on_shrunk(queue, length);
        if length > 0 {
            self.on_grown(queue, length);
        }
    }

    #[inline]
    fn guess(&mut self, queue: u32, length: u64) {
        if let By::Guess(of, seen) = &mut self.by
            && (*of == queue || length > *seen)
        {
            (*of, *seen) = (queue, length);
        }
    }

    /// The longest queue, or the one that is guessed to be; `length` says how long each is.
    pub(super) fn longest(&mut self, length: impl Fn(u32) -> u64) -> Option<u32> {
        match &mut self.by {
            By::Bounds(heap, _) => loop {
                let (bound, queue) = heap.first()?;
                let true_one = !length(queue);
                if bound == true_one {
                    return Some(queue);
                }
                heap.set(queue, (true_one, 0));
            },
            By::Guess(queue, _) => Some(*queue),
        }
    }

    /// A queue that `is_above`, which `draw` draws from them all; any, if none is. `share`: no shorter one is above.
    pub(super) fn above(&mut self, draw: u64, share: u64, is_above: impl Fn(u32) -> bool) -> Option<u32> {
        let By::Bounds(heap, list) = &mut self.by else { return None };
        let mut rng = Rng::new(draw);
        let count = heap.len() as u64;
        for _ in 0..MOST_DRAWS.min(heap.len() as u32) {
            let (_, queue) = heap.at(rng.below(count) as usize)?;
            if is_above(queue) {
                return Some(queue);
            }
        }
        list.clear();
        list.extend(heap.first().map(|_| 0));
        let mut next = 0;
        while let Some(at) = list.get(next).copied() {
            next += 1;
            let may_be = |at: &u32| heap.at(*at as usize).is_some_and(|(bound, _)| !bound >= share);
            list.extend((1..=BELOW as u32).map(|n| BELOW as u32 * at + n).filter(may_be));
        }
        list.retain(|at| heap.at(*at as usize).is_some_and(|(_, queue)| is_above(queue)));
        match list.len() as u64 {
            0 => heap.at(rng.below(count) as usize),
            above => heap.at(*list.get(rng.below(above) as usize)? as usize),
        }
        .map(|(_, queue)| queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_counts_otherwise_is_found_by_what_it_counts_now_and_not_at_all_if_that_is_nothing() {
        let mut lengths = Lengths::exact(Unit::Bytes);
        lengths.on_changed(3, 0);
        assert_eq!(lengths.longest(|_| 0), None);
        lengths.on_grown(1, 500);
        lengths.on_grown(2, 300);
        let now = [0, 500, 900, 0];
        lengths.on_changed(2, 900);
        assert_eq!(lengths.longest(|queue| now[queue as usize]), Some(2));
        lengths.on_changed(2, 0);
        let now = [0, 500, 0, 0];
        assert_eq!(lengths.longest(|queue| now[queue as usize]), Some(1));
    }
}
