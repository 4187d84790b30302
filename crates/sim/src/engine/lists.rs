//! Many short lists in one memory: what waits at the ends of flows.
//!
//! A hundred thousand flows, of which few have anything that waits, cost two numbers each; a queue of its own would keep the
//! room of its longest moment with each. Cost: O(1). Invariant: a slot is in one list, or free.

/// No slot.
const NONE: u32 = u32::MAX;

/// The slots of all lists. It grows to the most that there ever were at once.
#[derive(Clone, Debug)]
pub struct Lists<T> {
    /// A value, and the slot behind it in its list or among the free.
    slots: Vec<(T, u32)>,
    free: u32,
}

impl<T> Default for Lists<T> {
    fn default() -> Lists<T> {
        Lists { slots: Vec::new(), free: NONE }
    }
}

/// One list, first in, first out: its first and its last slot.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, last: NONE }
    }
}

impl<T: Copy> Lists<T> {
    /// Puts a value at the end of a list.
    #[inline]
    pub fn push(&mut self, list: &mut List, value: T) {
        let slot = self.free;
        let slot = match self.slots.get_mut(slot as usize) {
            Some(free) => {
                self.free = free.1;
                *free = (value, NONE);
                slot
            }
            None => {
                self.slots.push((value, NONE));
                self.slots.len() as u32 - 1
            }
        };
        match self.slots.get_mut(list.last as usize) {
            Some(last) => last.1 = slot,
            None => list.first = slot,
        }
        list.last = slot;
    }

    /// Takes the first value of a list.
    #[inline]
    pub fn pop(&mut self, list: &mut List) -> Option<T> {
        let slot = list.first;
        let (value, next) = self.slots.get_mut(slot as usize)?;
        let value = *value;
        list.first = std::mem::replace(next, self.free);
        self.free = slot;
        if list.first == NONE {
            list.last = NONE;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn each_list_is_a_queue_and_all_take_no_more_slots_than_they_had_values_at_once(
            steps in proptest::collection::vec((0usize..5, proptest::option::of(any::<u32>())), 0..300),
        ) {
            let (mut lists, mut own) = (Lists::default(), [List::default(); 5]);
            let mut model: [VecDeque<u32>; 5] = Default::default();
            let mut most = 0;
            for (which, value) in steps {
                match value {
                    Some(value) => {
                        lists.push(&mut own[which], value);
                        model[which].push_back(value);
                    }
                    None => prop_assert_eq!(lists.pop(&mut own[which]), model[which].pop_front()),
                }
                most = most.max(model.iter().map(VecDeque::len).sum());
                prop_assert_eq!(lists.slots.len(), most);
            }
            for (own, model) in own.iter_mut().zip(&mut model) {
                while let Some(value) = model.pop_front() {
                    prop_assert_eq!(lists.pop(own), Some(value));
                }
                prop_assert_eq!(lists.pop(own), None);
            }
        }
    }
}
