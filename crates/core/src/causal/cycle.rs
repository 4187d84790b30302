//! Queues that take turns and come and go: rings of slots, one of which is the first.
//!
//! What it is: doubly linked rings in a table, which several [`Ring`]s may share, since a slot is in one of them at most; a
//! [`Cycle`] is one ring with a table of its own. Cost: O(1) an operation. Memory: 8 bytes a slot. It allocates while the
//! largest slot grows, and never after.

use alloc::vec::Vec;

/// No slot.
const NIL: u32 = u32::MAX;

/// The slots after and before each; [`NIL`] for those that are in no ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Vec<(u32, u32)>);

impl Links {
    const EMPTY: Links = Links(Vec::new());

    #[inline]
    fn holds(&self, slot: u32) -> bool {
        self.0.get(slot as usize).is_some_and(|link| link.0 != NIL)
    }
}

/// Slots in a ring of these links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    first: u32,
    len: u32,
}

impl Ring {
    pub(crate) const EMPTY: Ring = Ring { first: NIL, len: 0 };

    /// The slot whose turn it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The slots from the first on.
    pub(crate) fn iter(&self, links: &Links) -> impl Iterator<Item = u32> {
        let mut at = self.first;
        (0..self.len).map(move |_| {
            let slot = at;
            at = links.0[slot as usize].0;
            slot
        })
    }

    /// Puts `slot`, which is in none, behind all others.
    #[inline]
    pub(crate) fn push(&mut self, links: &mut Links, slot: u32) {
        let links = &mut links.0;
        if links.len() <= slot as usize {
            links.resize(slot as usize + 1, (NIL, NIL));
        }
        self.len += 1;
        if self.first == NIL {
            links[slot as usize] = (slot, slot);
            self.first = slot;
            return;
        }
        let last = links[self.first as usize].1;
        links[slot as usize] = (self.first, last);
        links[last as usize].0 = slot;
        links[self.first as usize].1 = slot;
    }

    /// The turn passes on to the next slot.
    #[inline]
    pub(crate) fn rotate(&mut self, links: &Links) {
        if let Some(link) = links.0.get(self.first as usize) {
            self.first = link.0;
        }
    }

    /// Takes `slot` out, which is in it.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut Links, slot: u32) {
        let links = &mut links.0;
        let (next, prev) = core::mem::replace(&mut links[slot as usize], (NIL, NIL));
        if next == slot {
            self.first = NIL;
        } else {
            links[prev as usize].0 = next;
            links[next as usize].1 = prev;
            if self.first == slot {
                self.first = next;
            }
        }
        self.len -= 1;
    }
}

/// Slots in a cycle.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    links: Links,
    ring: Ring,
}

impl Cycle {
    pub(crate) const EMPTY: Cycle = Cycle { links: Links::EMPTY, ring: Ring::EMPTY };

    /// An empty one with room for the slots below `slots`.
    pub(crate) fn with_slots(slots: usize) -> Cycle {
        Cycle { links: Links(alloc::vec![(NIL, NIL); slots]), ..Cycle::EMPTY }
    }

    /// The slot whose turn it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        self.ring.first()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    #[inline]
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.links.holds(slot)
    }

    /// The slots from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.ring.iter(&self.links)
    }

    /// Puts `slot`, which is not in it, behind all others.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32) {
        self.ring.push(&mut self.links, slot);
    }

    /// The turn passes on to the next slot.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        self.ring.rotate(&self.links);
    }

    /// Takes `slot` out, which is in it.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        self.ring.remove(&mut self.links, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::VecDeque;

    /// Whether a ring is the slots of the model, from the first on.
    fn check(ring: &Ring, links: &Links, model: &VecDeque<u32>, seed: u64) {
        assert_eq!(ring.first(), model.front().copied(), "seed {seed}");
        assert_eq!(ring.len(), model.len(), "seed {seed}");
        assert!(ring.iter(links).eq(model.iter().copied()), "seed {seed}: {:?}", ring.iter(links).collect::<Vec<_>>());
    }

    #[test]
    fn rings_that_share_a_table_are_queues_whose_first_goes_behind_all_others_and_any_of_which_leaves() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let slots = 1 + rng.below(9) as u32;
            let (mut links, mut rings, mut models) = (Links::EMPTY, [Ring::EMPTY; 2], [const { VecDeque::new() }; 2]);
            for _ in 0..300 {
                let (slot, n) = (rng.below(u64::from(slots)) as u32, rng.below(2) as usize);
                let owner = models.iter().position(|model| model.contains(&slot));
                assert_eq!(links.holds(slot), owner.is_some(), "seed {seed}");
                match owner {
                    None => {
                        rings[n].push(&mut links, slot);
                        models[n].push_back(slot);
                    }
                    Some(owner) if rng.below(3) == 0 => {
                        rings[owner].remove(&mut links, slot);
                        models[owner].retain(|other| *other != slot);
                    }
                    Some(_) => {
                        rings[n].rotate(&links);
                        if let Some(first) = models[n].pop_front() {
                            models[n].push_back(first);
                        }
                    }
                }
                rings.iter().zip(&models).for_each(|(ring, model)| check(ring, &links, model, seed));
            }
        }
    }

    #[test]
    fn a_cycle_is_one_ring_with_a_table_of_its_own_and_has_room_for_the_slots_it_was_made_for() {
        let mut cycle = Cycle::with_slots(4);
        assert_eq!((cycle.links.0.len(), cycle.first(), cycle.len(), cycle.contains(3)), (4, None, 0, false));
        for slot in [3, 1, 7] {
            cycle.push(slot);
        }
        assert!(cycle.contains(7) && !cycle.contains(0) && !cycle.contains(8));
        cycle.rotate();
        assert_eq!((cycle.first(), cycle.len(), cycle.iter().collect::<Vec<_>>()), (Some(1), 3, alloc::vec![1, 7, 3]));
        cycle.remove(7);
        assert_eq!((cycle.contains(7), cycle.iter().collect::<Vec<_>>()), (false, alloc::vec![1, 3]));
    }
}
