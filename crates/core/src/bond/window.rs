//! The receiver of mode `duplicate`: which bond numbers have been delivered.
//!
//! What it is: a sliding bitmap over the last 65536 numbers, as the replay windows of RFC 6479 are. Cost: O(1), a jump
//! ahead clears at most the whole map (8 kB). Invariant: a number is accepted at most once; what is behind the window
//! is refused.

use alloc::boxed::Box;
use alloc::vec;

const WORDS: u32 = 1024;
/// How many numbers behind the newest are remembered.
pub(super) const WINDOW: u32 = WORDS * 64;

/// What the window says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The first copy.
    New,
    /// A later one.
    Seen,
    /// Too old to tell.
    Beyond,
}

/// The numbers seen.
#[derive(Debug)]
pub(super) struct Window {
    top: u32,
    started: bool,
    words: Box<[u64]>,
}

impl Window {
    /// No number seen.
    pub(super) fn new() -> Window {
        Window { top: 0, started: false, words: vec![0; WORDS as usize].into_boxed_slice() }
    }

    /// Forgets every number: the peer started anew.
    pub(super) fn reset(&mut self) {
        self.started = false;
        self.words.fill(0);
    }

    /// Looks `number` up and remembers it.
    pub(super) fn accept(&mut self, number: u32) -> Verdict {
        if !self.started {
            (self.started, self.top) = (true, number);
        }
        let ahead = number.wrapping_sub(self.top) as i32;
        if ahead > 0 {
            self.advance(number);
        } else if self.top.wrapping_sub(number) >= WINDOW {
            return Verdict::Beyond;
        }
        let word = &mut self.words[(number / 64 % WORDS) as usize];
        let bit = 1u64 << (number % 64);
        if *word & bit != 0 {
            return Verdict::Seen;
        }
        *word |= bit;
        Verdict::New
    }

    fn advance(&mut self, number: u32) {
        if number.wrapping_sub(self.top) >= WINDOW {
            self.words.fill(0);
        } else {
            // Clear the numbers between, whole words at a time.
            let mut at = self.top.wrapping_add(1);
            while at != number.wrapping_add(1) {
                let left = number.wrapping_sub(at).wrapping_add(1);
                let in_word = 64 - at % 64;
                let take = in_word.min(left);
                let mask = if take == 64 { u64::MAX } else { ((1u64 << take) - 1) << (at % 64) };
                self.words[(at / 64 % WORDS) as usize] &= !mask;
                at = at.wrapping_add(take);
            }
        }
        self.top = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_all_numbers(start: u32, steps in proptest::collection::vec((-70_000i64..70_000, any::<bool>()), 1..400)) {
            let mut window = Window::new();
            let mut model = BTreeSet::new();
            let (mut at, mut top) = (i64::from(start), i64::from(start));
            for (n, (step, small)) in steps.into_iter().enumerate() {
                if n > 0 { at = top + if small { step % 100 } else { step }; }
                let expected = if top - at >= i64::from(WINDOW) { Verdict::Beyond }
                    else if model.insert(at) { Verdict::New } else { Verdict::Seen };
                top = top.max(at);
                prop_assert_eq!(window.accept(at as u32), expected, "number {} with top {}", at, top);
            }
        }
    }

    #[test]
    fn a_reset_forgets() {
        let mut window = Window::new();
        assert_eq!([window.accept(9), window.accept(9)], [Verdict::New, Verdict::Seen]);
        window.reset();
        assert_eq!(window.accept(9), Verdict::New);
    }
}
