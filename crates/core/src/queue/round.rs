//! A round of deficit round robin: who may send next, of those that always have something to send.
//!
//! What it is: the part of [`Drr`](super::Drr) that a discipline of two levels has twice, once for its groups and once for
//! the flows of each. Source, symbols and invariants are told there. Members are slots, and lie in a table
//! that several rounds may share ([`Places`]). What a packet is charged, and what a visit gives, the owner says.
//!
//! A round in which nobody can send is not walked again and again but counted: the rounds until one can are credited at
//! once. Cost: O(1) a packet with a quantum of the largest packet or more, else O(members). Memory: 16 bytes a slot.

use crate::causal::{Links, Ring};
use alloc::vec::Vec;

/// Where the members of rounds lie: their links, and DC_i of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    links: Links,
    deficits: Vec<u64>,
}

impl Places {
    /// What `slot` still has of its visits.
    #[inline]
    fn deficit(&mut self, slot: u32) -> &mut u64 {
        &mut self.deficits[slot as usize]
    }
}

/// A round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// ActiveList.
    active: Ring,
    /// The first has had its quantum of this visit.
    visiting: bool,
}

impl Round {
    pub(super) const EMPTY: Round = Round { active: Ring::EMPTY, visiting: false };

    /// How many take part.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.active.len()
    }

    /// Whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.active.first()
    }

    /// `slot` has something to send, and had nothing.
    #[inline]
    pub(super) fn join(&mut self, places: &mut Places, slot: u32) {
        if places.deficits.len() <= slot as usize {
            places.deficits.resize(slot as usize + 1, 0);
        }
        *places.deficit(slot) = 0;
        self.active.push(&mut places.links, slot);
    }

    /// `slot` has nothing to send any more.
    #[inline]
    pub(super) fn leave(&mut self, places: &mut Places, slot: u32) {
        if self.active.first() == Some(slot) {
            self.visiting = false;
        }
        self.active.remove(&mut places.links, slot);
    }

    /// Who sends next, and what that is charged. Asked again without a [`charge`](Round::charge), it says the same.
    #[inline]
    pub(super) fn select(
        &mut self,
        places: &mut Places,
        mut cost: impl FnMut(u32) -> u64,
        quantum: impl Fn(u32) -> u64,
    ) -> Option<(u32, u64)> {
        let mut passed = 0;
        loop {
            let slot = self.active.first()?;
            let cost_of_head = cost(slot);
            let deficit = places.deficit(slot);
            if !self.visiting {
                *deficit += quantum(slot);
                self.visiting = true;
            }
            if cost_of_head <= *deficit {
                return Some((slot, cost_of_head));
            }
            self.active.rotate(&places.links);
            self.visiting = false;
            passed += 1;
            if passed == self.active.len() {
                self.skip(places, &mut cost, &quantum);
            }
        }
    }

    /// Who was selected has sent something that is charged so much.
    #[inline]
    pub(super) fn charge(&self, places: &mut Places, slot: u32, cost: u64) {
        *places.deficit(slot) -= cost;
    }

    /// Nobody could send in this round: credits the rounds before the first in which somebody can.
    #[cold]
    fn skip(&self, places: &mut Places, cost: &mut impl FnMut(u32) -> u64, quantum: &impl Fn(u32) -> u64) {
        let mut missing = |slot: u32| cost(slot).saturating_sub(places.deficits[slot as usize]).div_ceil(quantum(slot));
        let least = self.active.iter(&places.links).map(&mut missing).min().unwrap_or(0);
        let rounds = least.saturating_sub(1);
        let Places { links, deficits } = places;
        for slot in self.active.iter(links) {
            deficits[slot as usize] += rounds * quantum(slot);
        }
    }

    /// What [`select`](Round::select) would give: the first of those that need the fewest visits more; the visit that is under
    /// way is the last of them.
    pub(super) fn peek(&self, places: &Places, cost: impl Fn(u32) -> u64, quantum: impl Fn(u32) -> u64) -> Option<u32> {
        let visits = |(place, slot): &(usize, u32)| {
            let missing = cost(*slot).saturating_sub(places.deficits[*slot as usize]).div_ceil(quantum(*slot));
            let under_way = *place == 0 && self.visiting;
            if under_way && missing == 0 {
                (0, 0)
            } else {
                (missing.max(1), if under_way { usize::MAX } else { *place })
            }
        };
        self.active.iter(&places.links).enumerate().min_by_key(visits).map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_in_which_nobody_can_send_give_each_its_quanta() {
        let (mut round, mut places) = (Round::EMPTY, Places::default());
        assert_eq!(round.first(), None);
        for slot in [0, 1] {
            round.join(&mut places, slot);
        }
        let (cost, quantum) = (|slot| [100, 600][slot as usize], |slot| [1, 3][slot as usize]);
        assert_eq!(round.select(&mut places, cost, quantum), Some((0, 100)));
        // The visit that is under way is the hundredth of slot 0; slot 1 had 99.
        assert_eq!((places.deficits[0], places.deficits[1]), (100, 297));
        assert_eq!(round.first(), Some(0));
        round.leave(&mut places, 0);
        assert_eq!(round.first(), Some(1));
        round.join(&mut places, 7);
        round.leave(&mut places, 1);
        assert_eq!(round.first(), Some(7));
    }
}
