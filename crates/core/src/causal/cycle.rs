//! Queues that take turns and come and go: a cycle of slots, one of which is the first.
//!
//! What it is: a doubly linked ring in a table. Cost: O(1) an operation. Memory: 8 bytes a slot. It allocates while the
//! largest slot grows, and never after.

use alloc::vec::Vec;

/// No slot.
const NIL: u32 = u32::MAX;

/// Slots in a cycle.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    /// The slots after and before each; [`NIL`] for those that are not in it.
    links: Vec<(u32, u32)>,
    first: u32,
    len: usize,
}

impl Cycle {
    pub(crate) const EMPTY: Cycle = Cycle { links: Vec::new(), first: NIL, len: 0 };

    /// An empty one with room for the slots below `slots`.
    pub(crate) fn with_slots(slots: usize) -> Cycle {
        Cycle { links: alloc::vec![(NIL, NIL); slots], ..Cycle::EMPTY }
    }

    /// The slot whose turn it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.links.get(slot as usize).is_some_and(|link| link.0 != NIL)
    }

    /// The slots from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let mut at = self.first;
        (0..self.len).map(move |_| {
            let slot = at;
            at = self.links[slot as usize].0;
            slot
        })
    }

    /// Puts `slot`, which is not in it, behind all others.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, (NIL, NIL));
        }
        self.len += 1;
        if self.first == NIL {
            self.links[slot as usize] = (slot, slot);
            self.first = slot;
            return;
        }
        let last = self.links[self.first as usize].1;
        self.links[slot as usize] = (self.first, last);
        self.links[last as usize].0 = slot;
        self.links[self.first as usize].1 = slot;
    }

    /// The turn passes on to the next slot.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        if let Some(link) = self.links.get(self.first as usize) {
            self.first = link.0;
        }
    }

    /// Takes `slot` out, which is in it.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let (next, prev) = core::mem::replace(&mut self.links[slot as usize], (NIL, NIL));
        if next == slot {
            self.first = NIL;
        } else {
            self.links[prev as usize].0 = next;
            self.links[next as usize].1 = prev;
            if self.first == slot {
                self.first = next;
            }
        }
        self.len -= 1;
    }
}
