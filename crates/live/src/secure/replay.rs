//! The sliding replay window.
//!
//! Source: RFC 6479 (a ring of words instead of a shifted bitmap). A counter is accepted once, and only if it is less
//! than [`WINDOW`] behind the newest one. The check comes after authentication, so that a forger moves nothing.
//!
//! | RFC 6479 | here |
//! |---|---|
//! | bitmap | `words`, a ring of 256 x 64 bits |
//! | W_T, top of the window | `newest` |
//! | W_B | `newest - WINDOW` |
//!
//! Cost: one word read and written; a jump forward clears at most 256 words. Invariant: the word after the one that
//! `newest` lies in, going round the ring, holds only counters that are out of the window.

/// Words in the ring; a power of two.
const WORDS: u64 = 256;

/// How far behind the newest counter one may lie and still be accepted: 16,320.
pub const WINDOW: u64 = (WORDS - 1) * 64;

/// What the window says of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Seen for the first time, and newer than all before.
    Newest,
    /// Seen for the first time, behind the newest.
    Late,
    /// Seen before.
    Replayed,
    /// Too far behind to tell.
    TooOld,
}

/// Which counters of one session were seen.
#[derive(Clone, Debug)]
pub struct Replay {
    words: [u64; WORDS as usize],
    newest: u64,
    any: bool,
}

impl Default for Replay {
    fn default() -> Replay {
        Replay { words: [0; WORDS as usize], newest: 0, any: false }
    }
}

impl Replay {
    /// An empty window.
    pub fn new() -> Replay {
        Replay::default()
    }

    /// Notes that `counter` was authenticated, and says whether it may be accepted.
    pub fn accept(&mut self, counter: u64) -> Verdict {
        let word = counter / 64;
        let bit = 1u64 << (counter % 64);
        let index = (word % WORDS) as usize;
        if !self.any || counter > self.newest {
            let ahead = if self.any { word - self.newest / 64 } else { 0 };
            for step in 1..=ahead.min(WORDS) {
                self.words[((self.newest / 64).wrapping_add(step) % WORDS) as usize] = 0;
            }
            self.newest = counter;
            self.any = true;
            self.words[index] |= bit;
            return Verdict::Newest;
        }
        if self.newest - counter >= WINDOW {
            return Verdict::TooOld;
        }
        if self.words[index] & bit != 0 {
            return Verdict::Replayed;
        }
        self.words[index] |= bit;
        Verdict::Late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The obvious model: remember every counter.
    #[derive(Default)]
    struct Model(BTreeSet<u64>);

    impl Model {
        fn accept(&mut self, counter: u64) -> Verdict {
            let newest = self.0.last().copied();
            match newest {
                Some(newest) if counter <= newest && newest - counter >= WINDOW => Verdict::TooOld,
                _ if self.0.contains(&counter) => Verdict::Replayed,
                Some(newest) if counter < newest => {
                    self.0.insert(counter);
                    Verdict::Late
                }
                _ => {
                    self.0.insert(counter);
                    Verdict::Newest
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_window_agrees_with_a_set_of_all_counters(
            start in prop_oneof![Just(0u64), Just(u64::MAX / 2), Just(u64::MAX - 400_000)],
            moves in prop::collection::vec(prop_oneof![
                8 => -40i64..40,
                2 => -17_000i64..200,
                1 => 0i64..40_000,
            ], 1..300),
        ) {
            let mut window = Replay::new();
            let mut model = Model::default();
            let mut at = start;
            for step in moves {
                at = at.saturating_add_signed(step);
                prop_assert_eq!(window.accept(at), model.accept(at), "counter {}", at);
            }
        }
    }

    #[test]
    fn every_counter_of_the_window_is_accepted_once_in_any_order() {
        let mut window = Replay::new();
        assert_eq!(window.accept(WINDOW - 1), Verdict::Newest);
        for counter in (0..WINDOW - 1).rev() {
            assert_eq!(window.accept(counter), Verdict::Late, "{counter}");
        }
        for counter in 0..WINDOW {
            assert_eq!(window.accept(counter), Verdict::Replayed, "{counter}");
        }
        assert_eq!(window.accept(WINDOW), Verdict::Newest);
        assert_eq!(window.accept(0), Verdict::TooOld);
    }

    #[test]
    fn the_last_counter_of_all_is_accepted_once() {
        let mut window = Replay::new();
        assert_eq!(window.accept(0), Verdict::Newest);
        assert_eq!(window.accept(u64::MAX), Verdict::Newest);
        assert_eq!(window.accept(u64::MAX), Verdict::Replayed);
        assert_eq!(window.accept(u64::MAX - 1), Verdict::Late);
    }
}
