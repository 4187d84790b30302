//! When the peer took something, as it told: whether it ran at some time of late.
//!
//! What it is: the latest instants of the peer's clock at which it took a frame of ours, on any channel, at least [`APART`] from each other.
//! Cost: O(1) to note one, O([`KEPT`]) to ask. Invariant: instants rise; after one that is not newer than the last all begin anew only when it is
//! older by more than a minute, which is another clock's.

/// Between two instants that are kept, in nanoseconds.
const APART: i64 = 50_000_000;
/// How many are kept: for more than the excess of delay that is asked for first.
const KEPT: usize = 32;
/// What is further back is of a clock that was set.
const SET: i64 = 60_000_000_000;

/// The instants.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    at: [u64; KEPT],
    newest: usize,
    count: usize,
}

impl Taken {
    /// The peer took a frame at this time of its clock.
    pub(super) fn note(&mut self, at: u64) {
        if let Some(newest) = self.at.get(self.newest).filter(|_| self.count > 0) {
            match at.wrapping_sub(*newest) as i64 {
                after if after >= APART => {}
                after if after < -SET => self.count = 0,
                _ => return,
            }
        }
        self.newest = (self.newest + 1) % KEPT;
        self.at[self.newest] = at;
        self.count = (self.count + 1).min(KEPT);
    }

    /// Whether it ran while the frame that it took at `at` was under way for `beyond` longer than others, which is more than `bound`. Where
    /// that is too short for two instants nothing tells that it did not.
    pub(super) fn any_within(&self, at: u64, beyond: i64, bound: i64) -> bool {
        bound < 4 * APART || self.any(at, beyond.saturating_sub(bound / 2))
    }

    /// Whether it took any before `at`, by so many nanoseconds at most, and [`APART`] at least.
    fn any(&self, at: u64, most: i64) -> bool {
        let kept = (0..self.count).map(|back| self.at[(self.newest + KEPT - back) % KEPT]);
        kept.map(|taken| at.wrapping_sub(taken) as i64).any(|before| (APART..=most).contains(&before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_peer_that_took_something_within_the_time_ran_and_one_that_stood_still_did_not() {
        let mut taken = Taken::default();
        assert!(!taken.any(0, i64::MAX));
        (0..1_000u64).step_by(10).for_each(|ms| taken.note(ms * MS));
        assert!(taken.any(1_000 * MS, 400 * MS as i64));
        // It stands still for two seconds.
        taken.note(3_000 * MS);
        assert!(!taken.any(3_000 * MS, 1_900 * MS as i64) && taken.any(3_000 * MS, 2_100 * MS as i64));
        assert!(!taken.any(3_030 * MS, 1_900 * MS as i64), "what came at the same time says nothing");
        assert!(taken.any(3_060 * MS, 1_900 * MS as i64));
    }

    #[test]
    fn a_bound_that_is_shorter_than_two_instants_is_held_whoever_stood_still() {
        let mut taken = Taken::default();
        taken.note(1_000 * MS);
        let within = |beyond, bound| taken.any_within(1_000 * MS, beyond * MS as i64, bound * MS as i64);
        assert!(within(30, 20) && within(190, 150) && !within(600, 400));
    }

    #[test]
    fn whatever_a_peer_tells_is_taken_and_a_clock_that_was_set_begins_anew() {
        let mut taken = Taken::default();
        for at in [u64::MAX, 0, 1 << 63, 5, u64::MAX - 7, 1 << 40] {
            taken.note(at);
            let _ = taken.any(at, i64::MAX) || taken.any(0, -1) || taken.any(u64::MAX, 0);
        }
        let mut taken = Taken::default();
        taken.note(1 << 50);
        taken.note(1000 * MS);
        taken.note(1100 * MS);
        assert!(taken.any(1200 * MS, 150 * MS as i64));
    }
}
