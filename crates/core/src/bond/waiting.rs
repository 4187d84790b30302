//! The flow buckets that wait behind a gap, by the bond-wide number of the first packet behind it.
//!
//! What it is: a binary heap in which each bucket knows its place, so that its key can change. Cost: O(log n) per
//! change, and no allocation.

use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

/// A min-heap of buckets with one key each.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    heap: Vec<(u64, u32)>,
    place: Vec<u32>,
}

impl Waiting {
    /// An empty heap, for no bucket yet.
    pub(super) fn new() -> Waiting {
        Waiting { heap: Vec::new(), place: Vec::new() }
    }

    /// Makes room for buckets below `buckets`.
    pub(super) fn extend(&mut self, buckets: usize) {
        self.place.resize(buckets, ABSENT);
        self.heap.reserve(buckets - self.heap.len());
    }

    /// The bucket with the smallest key, and its key.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// Whether `bucket` has a key.
    pub(super) fn holds(&self, bucket: u32) -> bool {
        self.place[bucket as usize] != ABSENT
    }

    /// Gives `bucket` the key `key`, whether it had one or not.
    pub(super) fn set(&mut self, bucket: u32, key: u64) {
        let place = self.place[bucket as usize];
        if place == ABSENT {
            self.heap.push((key, bucket));
            self.up(self.heap.len() - 1);
        } else {
            let at = place as usize;
            let old = core::mem::replace(&mut self.heap[at].0, key);
            if key < old { self.up(at) } else { self.down(at) }
        }
    }

    /// Takes `bucket` out, if it is in.
    pub(super) fn remove(&mut self, bucket: u32) {
        let place = core::mem::replace(&mut self.place[bucket as usize], ABSENT);
        if place == ABSENT {
            return;
        }
        let at = place as usize;
        let last = self.heap.len() - 1;
        self.heap.swap(at, last);
        let (removed, _) = self.heap.pop().unwrap_or_default();
        if at < self.heap.len() {
            self.place[self.heap[at].1 as usize] = at as u32;
            if self.heap[at].0 < removed { self.up(at) } else { self.down(at) }
        }
    }

    fn up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].0 <= self.heap[at].0 {
                break;
            }
            self.exchange(at, parent);
            at = parent;
        }
        self.place[self.heap[at].1 as usize] = at as u32;
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.heap.len() && self.heap[child].0 < self.heap[least].0 {
                    least = child;
                }
            }
            if least == at {
                break;
            }
            self.exchange(at, least);
            at = least;
        }
        self.place[self.heap[at].1 as usize] = at as u32;
    }

    fn exchange(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].1 as usize] = a as u32;
        self.place[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_is_always_the_smallest_key(steps in proptest::collection::vec((0u32..20, proptest::option::of(0u64..50)), 1..300)) {
            let mut heap = Waiting::new();
            heap.extend(20);
            let mut model = BTreeMap::new();
            for (bucket, key) in steps {
                match key {
                    Some(key) => { heap.set(bucket, key); model.insert(bucket, key); }
                    None => { heap.remove(bucket); model.remove(&bucket); }
                }
                prop_assert_eq!(heap.first().map(|f| f.0), model.values().min().copied());
                if let Some((key, bucket)) = heap.first() { prop_assert_eq!(model[&bucket], key); }
                prop_assert_eq!(heap.heap.len(), model.len());
            }
        }
    }
}
