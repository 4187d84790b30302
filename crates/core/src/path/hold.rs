//! How long a path that fails again and again stays out of use after it returned.
//!
//! What it is: a path that comes and goes costs those who use it something each time. So the first return is to use at once, and from
//! the second failure within [`FORGIVEN`] of use on the path is held back when it returns: [`FIRST`], then twice as long each
//! time, up to the longest that the settings allow. After [`FORGIVEN`] of use without a failure all is forgotten.
//!
//! Only what was the path's own fault counts, and only what lasted: where the peer said nothing on any other path meanwhile it
//! was not running, or all paths were gone ([`Hold::on_elsewhere`]); and what was over within [`BRIEF`] is a stall, as radio links have
//! them, which held-back paths would make worse.
//!
//! Source: the idea is route flap damping (RFC 2439) and the hold-down of RFC 2281; the doubling is ours. Cost: O(1).
//! Invariant: a path is held for the longest time of the settings at most.

use crate::units::{Span, Time};

/// How long a path is held back after its second failure.
const FIRST: Span = Span::from_secs(1);
/// Use for so long without a failure makes all failures forgotten.
const FORGIVEN: Span = Span::from_secs(30);
/// Being out of use for less than this is no failure.
const BRIEF: Span = Span::from_millis(400);
/// How much later than another path this one may bring what the peer sends on both, beyond what they differ by.
const AFTER: Span = Span::from_millis(100);

/// The failures of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    failures: u32,
    /// It could be used when it was last looked at.
    well: bool,
    /// Since when it is out of use; `None` before it was ever in use, and while it is.
    failed: Option<Time>,
    /// The peer was heard on another path meanwhile: when this path would have brought the same at the latest.
    elsewhere: Option<Time>,
    /// When it returned last, or was to be used again.
    returned: Time,
    /// It is held until then.
    until: Option<Time>,
}

impl Hold {
    /// Whether the path could be used is looked at. How long it is held back from now on, which is at most `most`, and for how many
    /// failures.
    pub(crate) fn follow(&mut self, now: Time, well: bool, most: Span) -> Option<(Span, u32)> {
        match (core::mem::replace(&mut self.well, well), well) {
            (true, false) => self.on_failed(now),
            (false, true) => return self.on_returned(now, most),
            _ => {}
        }
        None
    }

    fn on_failed(&mut self, now: Time) {
        if self.until.is_none() && now.since(self.returned) >= FORGIVEN {
            self.failures = 0;
        }
        (self.failed, self.elsewhere) = (Some(now), None);
    }

    /// The peer was heard on a path that takes `way`, where this one takes `own`.
    pub(crate) fn on_elsewhere(&mut self, now: Time, way: Span, own: Span) {
        // What left before this path failed shows nothing.
        if self.elsewhere.is_none() && self.failed.is_some_and(|failed| now.since(failed) > way) {
            self.elsewhere = Some(now + (own - way));
        }
    }

    fn on_returned(&mut self, now: Time, most: Span) -> Option<(Span, u32)> {
        let failed = self.failed.take()?;
        let lasted = now.since(failed) >= BRIEF;
        let own = self.elsewhere.take().is_some_and(|at| at + AFTER < now);
        if !(lasted && own) {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        (self.returned, self.until) = (now, None);
        let doublings = self.failures.checked_sub(2)?;
        let span = FIRST.times(1 << doublings.min(20)).min(most);
        if span == Span::ZERO {
            return None;
        }
        (self.returned, self.until) = (now + span, Some(now + span));
        Some((span, self.failures))
    }

    /// Since when it is out of use, if it was in use before.
    pub(crate) fn failed(&self) -> Option<Time> {
        self.failed
    }

    /// Until when it is held.
    #[inline]
    pub(crate) fn until(&self) -> Option<Time> {
        self.until
    }

    /// Whether the time is over for which it was held.
    pub(crate) fn poll_over(&mut self, now: Time) -> bool {
        self.until.take_if(|until| *until <= now).is_some()
    }

    /// How often it failed lately.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MS: fn(u64) -> Time = Time::from_millis;
    const MOST: Span = Span::from_secs(60);

    /// A path that came up for the first time, which is no return.
    fn up() -> Hold {
        let mut hold = Hold::default();
        assert_eq!(hold.follow(MS(0), true, MOST), None);
        hold
    }

    /// Fails at `at` for `for_ms` while another path brings something every 10 ms.
    fn fails(hold: &mut Hold, at: u64, for_ms: u64) -> u64 {
        hold.follow(MS(at), false, MOST);
        for ms in (at..at + for_ms).step_by(10) {
            hold.on_elsewhere(MS(ms), Span::from_millis(20), Span::from_millis(20));
        }
        hold.follow(MS(at + for_ms), true, MOST).map_or(0, |(span, _)| span.as_nanos() / 1_000_000)
    }

    #[test]
    fn the_first_failure_costs_nothing_and_each_later_one_twice_the_one_before() {
        let (mut hold, mut at) = (up(), 1000);
        let held: Vec<u64> = (0..9)
            .map(|_| {
                let held = fails(&mut hold, at, 1000);
                assert!(!hold.poll_over(MS(at + 999 + held)) || held == 0);
                assert_eq!(hold.poll_over(MS(at + 1000 + held)), held > 0);
                at += 1000 + held + 5000;
                held
            })
            .collect();
        assert_eq!(held, [0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(fails(&mut hold, at + 24_000, 1000), 60_000, "29 s of use");
        assert!(hold.poll_over(MS(at + 24_000 + 1000 + 60_000)));
        assert_eq!(fails(&mut hold, at + 24_000 + 1000 + 60_000 + 30_000, 1000), 0, "30 s");
        assert_eq!(hold.failures(), 1);
    }

    #[test]
    fn a_stall_is_no_failure_nor_is_the_silence_of_all_paths() {
        let mut hold = up();
        for n in 1..10 {
            assert_eq!(fails(&mut hold, 1000 * n, 290), 0);
            // Nobody was heard.
            hold.follow(MS(1000 * n + 500), false, MOST);
            assert_eq!(hold.follow(MS(1000 * n + 900), true, MOST), None);
            // What another path of 300 ms brought had left before, and then the peer runs again: 20 ms behind the slower path.
            hold.follow(MS(1000 * n + 900), false, MOST);
            hold.on_elsewhere(MS(1000 * n + 1190), Span::from_millis(300), Span::from_millis(10));
            hold.on_elsewhere(MS(1000 * n + 1210), Span::from_millis(300), Span::from_millis(320));
            assert_eq!(hold.follow(MS(1000 * n + 1250), true, MOST), None);
        }
        assert_eq!(hold.failures(), 0);
    }

    #[test]
    fn a_path_that_is_never_to_be_held_is_not() {
        let mut hold = up();
        for n in 1..5 {
            hold.follow(MS(2000 * n), false, Span::ZERO);
            hold.on_elsewhere(MS(2000 * n + 500), Span::ZERO, Span::ZERO);
            assert_eq!((hold.follow(MS(2000 * n + 1000), true, Span::ZERO), hold.until()), (None, None));
        }
    }
}
