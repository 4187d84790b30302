//! A tournament of slots by key, in which a slot's key can change: the least start tag, or the least finish.
//!
//! What it is: a tree of which each slot is a leaf, and each place above has the least of the four below it, with its key and slot. A
//! slot's number says which places are its own on every level, so that nothing has to be searched or moved, and memory is asked for
//! all levels at once; in a heap each level says where the next one is to be looked for, and whoever moves has its new place noted
//! elsewhere. Four are a line of the cache. Source: Knuth, The Art of Computer Programming 3, section 5.4.1 (tree selection).
//!
//! Cost: O(log n) an operation, n being the most slots that there ever were; at most a line of the cache a level. Memory: 22 bytes a
//! slot. Equal keys go by their second part, then by slot number, so the order is a function of keys and slots alone.

use super::heap::{Item, Key};
use alloc::vec::Vec;

/// How many places are below each.
const BELOW: usize = 4;

/// The four below a place.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([Item; BELOW]);

impl Group {
    const EMPTY: Group = Group([Item::NONE; BELOW]);

    /// The least of the three beside `place`.
    #[inline]
    fn beside(&self, place: usize) -> Item {
        let other = |n: usize| self.0[(place ^ n) % BELOW];
        other(1).min(other(2)).min(other(3))
    }
}

/// Slots with keys; the least key first.
#[derive(Clone, Debug)]
pub(super) struct Tournament {
    /// From the leaves up; the last one is a single group.
    levels: Vec<Vec<Group>>,
    first: Item,
}

impl Default for Tournament {
    fn default() -> Tournament {
        Tournament { levels: Vec::new(), first: Item::NONE }
    }
}

impl Tournament {
    /// The slot with the least key, and its key.
    #[inline]
    pub(super) fn first(&self) -> Option<(Key, u32)> {
        (self.first != Item::NONE).then(|| (self.first.whole_key(), self.first.slot()))
    }

    /// The key of `slot`, if it is there.
    #[inline]
    pub(super) fn key(&self, slot: u32) -> Option<Key> {
        let group = self.levels.first()?.get(slot as usize / BELOW)?;
        let item = group.0[slot as usize % BELOW];
        (item != Item::NONE).then(|| item.whole_key())
    }

    /// Gives `slot` (below 2^32 - 1) this key, whether it is there or not.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, key: Key) {
        if self.levels.first().is_none_or(|leaves| leaves.len() <= slot as usize / BELOW) {
            self.grow(slot as usize);
        }
        self.play(slot, Item::new(key, slot));
    }

    /// Takes `slot` out, if it is there.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        if self.key(slot).is_some() {
            self.play(slot, Item::NONE);
        }
    }

    /// Puts `item` to the leaf of `slot`, and says so to all above whom it concerns.
    fn play(&mut self, slot: u32, item: Item) {
        let (mut at, mut least) = (slot as usize, item);
        for level in &mut self.levels {
            let (place, group) = (at % BELOW, &mut level[at / BELOW]);
            let beside = group.beside(place);
            let before = core::mem::replace(&mut group.0[place], least).min(beside);
            least = least.min(beside);
            if least == before {
                return;
            }
            at /= BELOW;
        }
        self.first = least;
    }

    /// Makes room for `slot`.
    #[cold]
    fn grow(&mut self, slot: usize) {
        let mut groups = slot / BELOW + 1;
        let mut level = 0;
        loop {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
                // Who has won so far comes first on a level that is new.
                self.levels[level].push(Group::EMPTY);
                self.levels[level][0].0[0] = self.first;
            }
            if self.levels[level].len() < groups {
                self.levels[level].resize(groups, Group::EMPTY);
            }
            if groups == 1 {
                return;
            }
            groups = groups.div_ceil(BELOW);
            level += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A slot and what becomes of it; most numbers are small, and some make the tree grow by levels at once.
    fn operation() -> impl Strategy<Value = (u32, Option<Key>)> {
        let slot = prop_oneof![8 => 0u32..12, 2 => 0u32..70, 1 => 0u32..1100];
        (slot, proptest::option::weighted(0.7, (prop_oneof![0u64..20, Just(u64::MAX)], 0u32..3)))
    }

    #[test]
    fn there_is_room_for_the_slots_that_there_were_and_for_no_more() {
        let mut tournament = Tournament::default();
        for (slot, levels) in [(0, &[1][..]), (3, &[1]), (4, &[2, 1]), (103, &[26, 7, 2, 1]), (5, &[26, 7, 2, 1])] {
            tournament.set(slot, (1, 0));
            assert_eq!(tournament.levels.iter().map(Vec::len).collect::<Vec<_>>(), levels, "{slot}");
        }
    }

    proptest! {
        #[test]
        fn the_least_is_that_of_a_sorted_set_however_the_tree_grows(operations in proptest::collection::vec(operation(), 1..300)) {
            let (mut tournament, mut model) = (Tournament::default(), BTreeSet::new());
            for (slot, key) in operations {
                model.retain(|(_, of)| *of != slot);
                match key {
                    Some(key) => {
                        tournament.set(slot, key);
                        model.insert((key, slot));
                    }
                    None => tournament.remove(slot),
                }
                prop_assert_eq!(tournament.first(), model.first().copied());
                prop_assert_eq!(tournament.key(slot), key);
            }
            while let Some((key, slot)) = model.pop_first() {
                prop_assert_eq!(tournament.first(), Some((key, slot)));
                tournament.remove(slot);
            }
            prop_assert_eq!(tournament.first(), None);
        }
    }
}
