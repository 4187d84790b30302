//! A heap of slots by key, in which a slot's key can change: the longest queue.
//!
//! What it is: a heap in which each place has four below it, with the place of each slot noted beside it. Four places are
//! sixty-four bytes: a level costs a cache line or two, and there are half as many as with two. Source: Knuth, The Art of
//! Computer Programming 3, section 5.2.3; Johnson, "Priority queues with update and finding minimum spanning trees", 1975.
//! Cost: O(log n) an operation. Equal keys go by their second part, then by slot number, so the order is a function of
//! keys and slots alone.

use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;
/// How many places are below each.
pub(super) const BELOW: usize = 4;

/// What a slot is compared by; the second part decides among equals.
pub(super) type Key = (u64, u32);

/// Both parts of a key and the slot, in one number: so items are compared without a branch, which nobody could predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item(u128);

impl Item {
    /// Behind all others: none has this slot.
    pub(super) const NONE: Item = Item(u128::MAX);

    #[inline]
    pub(super) fn new((key, then): Key, slot: u32) -> Item {
        Item(u128::from(key) << 64 | u128::from(then) << 32 | u128::from(slot))
    }

    #[inline]
    pub(super) fn key(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Both parts of the key.
    #[inline]
    pub(super) fn whole_key(self) -> Key {
        (self.key(), (self.0 >> 32) as u32)
    }

    #[inline]
    pub(super) fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// Slots with keys; the least key first.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    heap: Vec<Item>,
    place: Vec<u32>,
}

impl Heap {
    /// The slot with the least key.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.at(0)
    }

    /// The key of `slot`, if it is there.
    #[inline]
    pub(super) fn key(&self, slot: u32) -> Option<u64> {
        self.heap.get(*self.place.get(slot as usize)? as usize).map(|item| item.key())
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The slot at this place of the heap, and its key. The first place is 0; those below one are at [`BELOW`] times it and
    /// one to [`BELOW`].
    #[inline]
    pub(super) fn at(&self, place: usize) -> Option<(u64, u32)> {
        self.heap.get(place).map(|item| (item.key(), item.slot()))
    }

    /// Gives `slot` this key, whether it is there or not.
    pub(super) fn set(&mut self, slot: u32, key: Key) {
        if self.place.len() <= slot as usize {
            self.place.resize(slot as usize + 1, ABSENT);
        }
        let item = Item::new(key, slot);
        let at = self.place[slot as usize];
        if at == ABSENT {
            self.heap.push(item);
            self.rise(self.heap.len() - 1, item);
        } else {
            let at = self.rise(at as usize, item);
            self.sink(at, item);
        }
    }

    /// Takes `slot` out, if it is there.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(place) = self.place.get_mut(slot as usize).filter(|at| **at != ABSENT) else { return };
        let at = core::mem::replace(place, ABSENT) as usize;
        self.heap.swap_remove(at);
        if let Some(item) = self.heap.get(at).copied() {
            let at = self.rise(at, item);
            self.sink(at, item);
        }
    }

    /// Puts `item` at this place or above.
    fn rise(&mut self, mut at: usize, item: Item) -> usize {
        while at > 0 {
            let parent = (at - 1) / BELOW;
            if self.heap[parent] <= item {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, item);
        at
    }

    /// Puts `item`, which is at this place, there or below.
    fn sink(&mut self, mut at: usize, item: Item) {
        loop {
            let first = BELOW * at + 1;
            let Some((place, least)) = self.least_from(first) else { break };
            if item <= least {
                break;
            }
            self.put(at, least);
            at = place;
        }
        self.put(at, item);
    }

    /// The place with the least of the [`BELOW`] items from `first` on, or of as many as there are.
    #[inline]
    fn least_from(&self, first: usize) -> Option<(usize, Item)> {
        let below = self.heap.get(first..)?;
        let Some([a, b, c, d]) = below.first_chunk() else {
            let (place, least) = below.iter().copied().enumerate().min_by_key(|(_, item)| *item)?;
            return Some((first + place, least));
        };
        let (left, right) = (usize::from(b < a), 2 + usize::from(d < c));
        let (of_left, of_right) = (*a.min(b), *c.min(d));
        let place = if of_right < of_left { right } else { left };
        Some((first + place, of_left.min(of_right)))
    }

    #[inline]
    fn put(&mut self, at: usize, item: Item) {
        self.heap[at] = item;
        self.place[item.slot() as usize] = at as u32;
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
            operations in proptest::collection::vec((0u32..24, proptest::option::weighted(0.7, (0u64..20, 0u32..3))), 1..300)
        ) {
            let (mut heap, mut model) = (Heap::default(), BTreeMap::new());
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
                prop_assert_eq!((heap.len(), heap.key(slot)), (model.len(), key.map(|(key, _)| key)));
                prop_assert_eq!(heap.first(), model.iter().map(|(s, k)| (*k, *s)).min().map(|((key, _), slot)| (key, slot)));
            }
        }
    }
}
