//! From the number of an active flow to the slot that its owner keeps its state in.
//!
//! What it is: open addressing with linear probing and deletion by backward shift, so that no tombstones remain and a
//! flow that is gone costs nothing. Source: Knuth, The Art of Computer Programming 3, section 6.4, algorithms L and R;
//! multiplicative hashing by the golden ratio. Cost: O(1) expected, at most half full; it grows by doubling and never
//! shrinks. Memory: 16 bytes for each of the most flows that were active at once. Order of iteration does not exist.
//!
//! It forgets nothing by itself, unlike [`table`](super::table): what a queue holds must not be lost. Whoever numbers the
//! flows can make them collide; numbers that come from outside are to be hashed with a key first.

use alloc::vec;
use alloc::vec::Vec;

const EMPTY: u32 = u32::MAX;
const LEAST: usize = 16;

/// A map from 32-bit numbers to slots.
#[derive(Clone, Debug)]
pub struct Slots {
    /// Key and slot; [`EMPTY`] as the slot where there is none.
    places: Vec<(u32, u32)>,
    used: usize,
    shift: u32,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::new()
    }
}

impl Slots {
    /// An empty table.
    pub fn new() -> Slots {
        Slots { places: vec![(0, EMPTY); LEAST], used: 0, shift: 64 - LEAST.trailing_zeros() }
    }

    /// How many flows it holds.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    #[inline]
    fn home(&self, key: u32) -> usize {
        (u64::from(key).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Where `key` is, or the empty place where it would go. There always is one: the table is never full.
    #[inline]
    fn find(&self, key: u32) -> usize {
        let mask = self.places.len() - 1;
        let mut at = self.home(key);
        while self.places[at].1 != EMPTY && self.places[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }

    /// The slot of `key`.
    #[inline]
    pub fn slot(&self, key: u32) -> Option<u32> {
        let (_, slot) = self.places[self.find(key)];
        (slot != EMPTY).then_some(slot)
    }

    /// Notes that `key` lies in `slot` (below 2^32 - 1), in place of what it was noted with before.
    pub fn insert(&mut self, key: u32, slot: u32) {
        debug_assert!(slot != EMPTY, "this slot number means none");
        if 2 * (self.used + 1) > self.places.len() {
            self.grow();
        }
        let at = self.find(key);
        self.used += usize::from(self.places[at].1 == EMPTY);
        self.places[at] = (key, slot);
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: u32) {
        let mask = self.places.len() - 1;
        let mut hole = self.find(key);
        if self.places[hole].1 == EMPTY {
            return;
        }
        self.used -= 1;
        self.places[hole].1 = EMPTY;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let (key, slot) = self.places[at];
            if slot == EMPTY {
                return;
            }
            // It may move back to the hole unless its home lies behind the hole, cyclically.
            let home = self.home(key);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = (key, slot);
                self.places[at].1 = EMPTY;
                hole = at;
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let doubled = vec![(0, EMPTY); self.places.len() * 2];
        let old = core::mem::replace(&mut self.places, doubled);
        self.shift -= 1;
        for (key, slot) in old {
            if slot != EMPTY {
                let at = self.find(key);
                self.places[at] = (key, slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn memory_follows_the_flows_that_are_active_not_those_that_ever_were() {
        let mut table = Slots::new();
        for n in 0..1_000_000u32 {
            table.insert(n.wrapping_mul(2_654_435_761), n % 7);
            if n >= 7 {
                table.remove((n - 7).wrapping_mul(2_654_435_761));
            }
        }
        assert_eq!((table.len(), table.places.len()), (7, 16));
    }

    proptest! {
        #[test]
        fn it_is_a_map(operations in proptest::collection::vec((0u32..3, 0u32..40, any::<bool>()), 1..400)) {
            let (mut table, mut model) = (Slots::new(), BTreeMap::new());
            for (n, (what, key, far)) in operations.into_iter().enumerate() {
                let key = if far { u32::MAX - key } else { key };
                match what {
                    0 | 1 => {
                        table.insert(key, n as u32);
                        model.insert(key, n as u32);
                    }
                    _ => {
                        table.remove(key);
                        model.remove(&key);
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                for key in (0..40).chain(u32::MAX - 39..=u32::MAX) {
                    prop_assert_eq!(table.slot(key), model.get(&key).copied());
                }
            }
        }
    }
}
