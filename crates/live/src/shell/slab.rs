//! A slab: values in slots that are used again, under keys that are not.
//!
//! A key holds the slot and how often that was filled, so that a key of what is gone finds nothing, though another value
//! lies there now. After 2^32 fillings of one slot a key would come again; events do not live that long.
//!
//! Cost: constant for each call; memory for as many values as were ever there at once.

/// Names one value, and no other that lies in its slot later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    slot: u32,
    filling: u32,
}

impl Key {
    /// The slot: small numbers, so that others may keep tables by it.
    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }

    /// The key as the kernel carries it along.
    pub(super) fn to_u64(self) -> u64 {
        u64::from(self.filling) << 32 | u64::from(self.slot)
    }

    /// The key that [`to_u64`](Self::to_u64) gave.
    pub(super) fn from_u64(bits: u64) -> Key {
        Key { slot: bits as u32, filling: (bits >> 32) as u32 }
    }
}

#[derive(Debug)]
struct Slot<T> {
    filling: u32,
    value: Option<T>,
}

/// Values by key.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Empty slots; the one emptied last is filled first.
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { filling: 0, value: None });
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        place.filling = place.filling.wrapping_add(1);
        place.value = Some(value);
        Key { slot, filling: place.filling }
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.slot()).filter(|slot| slot.filling == key.filling)?;
        slot.value.as_ref()
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot()).filter(|slot| slot.filling == key.filling)?;
        let value = slot.value.take()?;
        self.free.push(key.slot);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_hundred_thousand_values_are_found_and_their_slots_used_again() {
        const VALUES: usize = 100_000;
        let mut slab = Slab::new();
        let first: Vec<Key> = (0..VALUES).map(|n| slab.insert(n)).collect();
        assert!(first.iter().enumerate().all(|(n, key)| slab.get(*key) == Some(&n)));
        assert!(first.iter().enumerate().all(|(n, key)| slab.remove(*key) == Some(n)));
        let second: Vec<Key> = (0..VALUES).map(|n| slab.insert(n + 1)).collect();
        assert_eq!(slab.slots.len(), VALUES, "no slot more than values at once");
        assert!(first.iter().all(|key| slab.get(*key).is_none()), "the old keys find nothing");
        assert!(second.iter().all(|key| slab.get(*key).is_some()));
    }

    proptest! {
        #[test]
        fn it_is_a_map_whose_keys_never_come_again(steps in prop::collection::vec((any::<bool>(), any::<u16>()), 0..300)) {
            let mut slab = Slab::new();
            let mut model = HashMap::new();
            let mut keys = Vec::new();
            for (insert, number) in steps {
                if insert || keys.is_empty() {
                    let key = slab.insert(number);
                    prop_assert_eq!(Key::from_u64(key.to_u64()), key);
                    prop_assert!(!keys.contains(&key));
                    keys.push(key);
                    model.insert(key, number);
                } else {
                    let key = keys[usize::from(number) % keys.len()];
                    prop_assert_eq!(slab.remove(key), model.remove(&key));
                }
                prop_assert!(keys.iter().all(|key| slab.get(*key) == model.get(key)));
            }
        }
    }
}
