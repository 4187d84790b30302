//! Which places of a window are taken: a bit for each, so that the first one is found by words and not by places.
//!
//! Source: none. A place is a sequence number modulo the size, which is a power of two.
//! Cost: O(1) to set and to clear; size / 64 words at most to find the first.

use alloc::vec::Vec;

/// A bit for each place.
#[derive(Clone, Debug)]
pub(super) struct Held {
    words: Vec<u64>,
}

impl Held {
    /// At least so many places, none of them taken.
    pub(super) fn new(places: u32) -> Held {
        Held { words: alloc::vec![0; places.next_power_of_two().div_ceil(64) as usize] }
    }

    /// The word of number `n`, and its bit there.
    fn place(&self, n: u32) -> (usize, u32) {
        ((n as usize / 64) & (self.words.len() - 1), n % 64)
    }

    /// The place of number `n` is taken or not.
    pub(super) fn set(&mut self, n: u32, taken: bool) {
        let (at, bit) = self.place(n);
        if let Some(word) = self.words.get_mut(at) {
            *word = *word & !(1 << bit) | u64::from(taken) << bit;
        }
    }

    /// How far the first place that is taken is from that of number `head`.
    pub(super) fn first(&self, head: u32) -> Option<usize> {
        let (start, bit) = self.place(head);
        let (before, after) = self.words.split_at_checked(start)?;
        let below = (1u64 << bit) - 1;
        let around = after.iter().chain(before).chain(after.first());
        around.enumerate().find_map(|(n, word)| {
            // When it comes around to this word again, what is not below is known to be free.
            let word = if n == 0 { word & !below } else { *word };
            (word != 0).then(|| n * 64 + word.trailing_zeros() as usize - bit as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_is_found_around_the_end() {
        for places in [1u32, 64, 100, 4096] {
            let size = places.next_power_of_two().max(64);
            for head in [0, 1, 63, 64, 0xff_ffff] {
                let mut held = Held::new(places);
                assert_eq!(held.first(head), None);
                for far in (0..size).rev() {
                    held.set(head.wrapping_add(far) & 0xff_ffff, true);
                    assert_eq!(held.first(head), Some(far as usize), "{places} {head}");
                }
                held.set(head, false);
                assert_eq!(held.first(head), Some(1));
            }
        }
    }
}
