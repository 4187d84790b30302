//! Which slot holds which number of a flow bucket.
//!
//! What it is: a circular table with one place for each number of a window, and beside it a bit for each place, so that the next
//! number held is found a word at a time: a peer that leaves wide gaps costs little. Cost: O(1); the search reads one
//! word for 64 numbers. Invariant: a bit is set where a place is taken.

use alloc::vec;
use alloc::vec::Vec;

/// No slot.
pub(super) const NIL: u32 = u32::MAX;
/// The first length of a table that is not empty.
const SMALLEST: usize = 64;

/// A table, empty or a power of two long. A number's place is its remainder.
#[derive(Debug)]
pub(super) struct Slots {
    places: Vec<u32>,
    taken: Vec<u64>,
}

impl Slots {
    pub(super) const EMPTY: Slots = Slots { places: Vec::new(), taken: Vec::new() };

    /// A table of `length` places, as [`Slots::length_for`] gives it.
    pub(super) fn new(length: usize) -> Slots {
        Slots { places: vec![NIL; length], taken: vec![0; length / 64] }
    }

    /// The length of a table for numbers up to `ahead` ahead of the lowest.
    pub(super) fn length_for(ahead: u32) -> usize {
        (ahead as usize + 1).next_power_of_two().max(SMALLEST)
    }

    /// Memory of a table of `length` places.
    pub(super) const fn bytes_of(length: usize) -> usize {
        length * size_of::<u32>() + length / 8
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        Slots::bytes_of(self.len())
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        number as usize & self.len().wrapping_sub(1)
    }

    /// The slot that holds `number`, if one does; it must lie in the window.
    #[inline]
    pub(super) fn slot(&self, number: u32) -> Option<u32> {
        self.places.get(self.place(number)).copied().filter(|slot| *slot != NIL)
    }

    /// Says that `slot` holds `number`. The table is not empty.
    #[inline]
    pub(super) fn put(&mut self, number: u32, slot: u32) {
        let at = self.place(number);
        self.places[at] = slot;
        self.taken[at / 64] |= 1 << (at % 64);
    }

    /// Forgets `number`, and gives the slot that held it.
    #[inline]
    pub(super) fn take(&mut self, number: u32) -> Option<u32> {
        let at = self.place(number);
        let slot = core::mem::replace(self.places.get_mut(at)?, NIL);
        self.taken[at / 64] &= !(1 << (at % 64));
        (slot != NIL).then_some(slot)
    }

    /// The slots in use, in no order.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().copied().filter(|slot| *slot != NIL)
    }

    /// The first number held from `number` on, going on from the start at the end; `None` when none is held.
    #[inline]
    pub(super) fn next(&self, number: u32) -> Option<u32> {
        let at = self.place(number);
        let words = self.taken.len();
        let mut word = at / 64;
        let mut bits = *self.taken.get(word)? & (u64::MAX << (at % 64));
        for _ in 0..=words {
            if bits != 0 {
                let found = word * 64 + bits.trailing_zeros() as usize;
                return Some(number.wrapping_add((found.wrapping_sub(at) & (self.len() - 1)) as u32));
            }
            word = (word + 1) % words;
            bits = self.taken[word];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_map(
            base: u32, ahead in 0u32..1000, steps in proptest::collection::vec((0u32..2048, any::<bool>()), 1..200),
        ) {
            let mut slots = Slots::new(Slots::length_for(ahead));
            let length = slots.len() as u32;
            prop_assert!(length > ahead && length.is_power_of_two());
            let mut model = BTreeMap::new();
            for (n, (step, put)) in steps.into_iter().enumerate() {
                let (at, n) = (step % length, n as u32);
                let number = base.wrapping_add(at);
                prop_assert_eq!(slots.slot(number), model.get(&at).copied());
                if put {
                    slots.put(number, n);
                    model.insert(at, n);
                } else {
                    prop_assert_eq!(slots.take(number), model.remove(&at));
                }
                // From anywhere: what is held at or after it, else the lowest, a round on.
                let after = model.range(at..).next().or_else(|| model.iter().next()).map(|(k, _)| *k);
                let expected = after.map(|k| base.wrapping_add(if k < at { k + length } else { k }));
                prop_assert_eq!(slots.next(number), expected);
                prop_assert_eq!(slots.slots().count(), model.len());
            }
        }
    }

    #[test]
    fn an_empty_table_holds_nothing() {
        let mut slots = Slots::EMPTY;
        assert_eq!((slots.slot(5), slots.next(5), slots.take(5), slots.bytes()), (None, None, None, 0));
    }
}
