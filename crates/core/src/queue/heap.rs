//! A heap of slots by key, in which a slot's key can change: the least start tag, or the longest queue.
//!
//! What it is: a binary heap with the place of each slot noted beside it. Source: Knuth, The Art of Computer
//! Programming 3, section 5.2.3. Cost: O(log n) an operation. Equal keys go by slot number, so the order is a function
//! of keys and slots alone.

use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

/// Slots with keys; the least key first.
#[derive(Clone, Debug)]
pub(super) struct Heap<K> {
    heap: Vec<(K, u32)>,
    place: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    pub(super) fn new() -> Heap<K> {
        Heap { heap: Vec::new(), place: Vec::new() }
    }

    /// The slot with the least key.
    #[inline]
    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// Gives `slot` this key, whether it is there or not.
    pub(super) fn set(&mut self, slot: u32, key: K) {
        if self.place.len() <= slot as usize {
            self.place.resize(slot as usize + 1, ABSENT);
        }
        let at = self.place[slot as usize];
        if at == ABSENT {
            self.heap.push((key, slot));
            self.rise(self.heap.len() - 1);
        } else {
            self.heap[at as usize].0 = key;
            let at = self.rise(at as usize);
            self.sink(at);
        }
    }

    /// Takes `slot` out, if it is there.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(place) = self.place.get_mut(slot as usize).filter(|at| **at != ABSENT) else { return };
        let at = core::mem::replace(place, ABSENT) as usize;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            let at = self.rise(at);
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) -> usize {
        let item = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent] <= item {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, item);
        at
    }

    fn sink(&mut self, mut at: usize) {
        let item = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if child >= self.heap.len() || item <= self.heap[child] {
                break;
            }
            self.put(at, self.heap[child]);
            at = child;
        }
        self.put(at, item);
    }

    #[inline]
    fn put(&mut self, at: usize, item: (K, u32)) {
        self.heap[at] = item;
        self.place[item.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_is_the_least_of_a_sorted_list(
            operations in proptest::collection::vec((0u32..24, proptest::option::weighted(0.7, 0u64..20)), 1..300)
        ) {
            let (mut heap, mut model) = (Heap::new(), BTreeMap::new());
            for (slot, key) in operations {
                match key {
                    Some(key) => {
                        heap.set(slot, key);
                        model.insert(slot, key);
                    }
                    None => {
                        heap.remove(slot);
                        model.remove(&slot);
                    }
                }
                prop_assert_eq!(heap.first(), model.iter().map(|(s, k)| (*k, *s)).min());
            }
        }
    }
}
