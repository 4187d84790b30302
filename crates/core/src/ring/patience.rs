//! How long a neighbour may be silent until its link has failed.
//!
//! What it is: silence means something only while both processes run. What this one missed is nobody's silence: it is taken
//! off, as a bond does (`bond/failure.rs`). What the neighbour's missed shows afterwards: its keepalives have numbers, which
//! go on only while it runs, so that a gap in which few numbers went by was a stall of it, and one in which many did was
//! a loss of the link. The neighbour of a busy host is then given that much time for a while.
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | k, S | the settings `keepalive` and `silence` | |
//! | heard | when the neighbour was heard, later by what this process missed since | `Patience::heard` |
//! | g | the longest stall of the neighbour in the last [`REMEMBERED`] to twice that | `Patience::longest` |
//!
//! A neighbour has failed at heard + max(S, min([`STALLS`] g, [`MOST`] S)): stalls of a busy host are of all lengths, and the next one
//! may be longer. A process that was not asked for more than 3k/2 missed what is
//! beyond k. When it wakes, the neighbour has k at least to be heard, but for a process that is late so often that 2 S of its own time
//! are over. A gap of more than S/2 in which at most half of the numbers went by that belong to it was a stall.
//!
//! Source: ours; IEEE 802.17 has no such rule, as its stations do not share a processor. Cost: constant. Invariants: a silent
//! neighbour fails after 2 S / k times that this process wakes, however late it is, and after [`MOST`] S of its own time.

use super::discovery::config::Config;
use crate::units::{Span, Time};

/// How often `silence` a neighbour may be silent at most.
const MOST: u64 = 8;
/// How often its longest stall.
const STALLS: u64 = 3;
/// For so long a stall is remembered at least.
const REMEMBERED: Span = Span::from_secs(30);

/// What is known of a neighbour's life.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    /// Which process it is, and the number of its latest keepalive.
    instance: u32,
    number: u32,
    heard: Time,
    /// The link had no carrier since: what was not heard meanwhile tells nothing of the neighbour.
    cut: bool,
    /// The longest stalls in the period that began at `since`, and in the one before.
    longest: [Span; 2],
    since: Time,
    /// When it has failed.
    deadline: Time,
}

impl Patience {
    /// The keepalive `number` of process `instance` came.
    pub(super) fn on_heard(&mut self, now: Time, config: &Config, instance: u32, number: u32) {
        if now.since(self.since) >= REMEMBERED {
            let before = if now.since(self.since) < REMEMBERED.times(2) { self.longest[0] } else { Span::ZERO };
            (self.longest, self.since) = ([Span::ZERO, before], now);
        }
        let cut = core::mem::take(&mut self.cut);
        if instance != self.instance {
            self.longest = [Span::ZERO; 2];
        } else if let Some(interval) = config.keepalive.filter(|_| !cut) {
            let gap = now.since(self.heard);
            let numbers = interval.times(u64::from(number.wrapping_sub(self.number).saturating_sub(1)));
            if gap.times(2) > config.silence && numbers.times(2) <= gap {
                self.longest[0] = self.longest[0].max(gap);
            }
        }
        (self.instance, self.number, self.heard) = (instance, number, now);
        self.deadline = now + self.allowed(config);
    }

    /// The link has lost its carrier.
    pub(super) fn on_cut(&mut self) {
        self.cut = true;
    }

    /// When the neighbour has failed, if it is not heard before.
    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// This process was asked for nothing for `slept`, until now.
    pub(super) fn on_sleep(&mut self, now: Time, config: &Config, slept: Span) {
        let Some(interval) = config.keepalive else { return };
        self.heard += slept - interval;
        let last = (now + interval).min(self.heard + config.silence.times(2));
        self.deadline = last.max(self.heard + self.allowed(config));
    }

    fn allowed(&self, config: &Config) -> Span {
        let stall = self.longest[0].max(self.longest[1]);
        config.silence.max(stall.times(STALLS).min(config.silence.times(MOST)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeId;
    use super::*;
    use crate::units::Rate;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// A keepalive every 3 ms, silence after 12.
    fn config() -> Config {
        Config::new(NodeId::at(0), 3, Rate::from_mbit(100))
    }

    fn heard(times: &[(u64, u32)]) -> Patience {
        let mut patience = Patience::default();
        times.iter().for_each(|(ms, number)| patience.on_heard(at(*ms), &config(), 7, *number));
        patience
    }

    #[test]
    fn a_cable_that_was_pulled_is_no_stall_of_the_neighbour() {
        for (cut, deadline) in [(true, 6012), (false, 6096)] {
            let mut patience = heard(&[(1000, 1), (1003, 2)]);
            if cut {
                patience.on_cut();
            }
            patience.on_heard(at(6000), &config(), 7, 3);
            assert_eq!(patience.deadline(), at(deadline));
        }
    }

    #[test]
    fn what_this_process_missed_is_no_silence_of_the_neighbour() {
        let mut patience = heard(&[(1000, 1)]);
        assert_eq!(patience.deadline(), at(1012));
        patience.on_sleep(at(1205), &config(), Span::from_millis(200));
        assert_eq!(patience.deadline(), at(1012 + 197), "but for the interval in which it might have been asked");
        // It was heard 11 ms before: it has an interval to be heard all the same.
        let mut patience = heard(&[(1000, 1)]);
        patience.on_sleep(at(1211), &config(), Span::from_millis(200));
        assert_eq!(patience.deadline(), at(1214));
    }

    #[test]
    fn a_process_that_is_always_late_finds_a_silent_neighbour_all_the_same() {
        for late in [5, 30, 300] {
            let mut patience = heard(&[(1000, 1)]);
            let (mut now, mut wakes) = (at(1000), 0);
            while now < patience.deadline() {
                now += Span::from_millis(late);
                patience.on_sleep(now, &config(), Span::from_millis(late));
                wakes += 1;
            }
            assert!(wakes <= 9, "late by {late} ms: {wakes} wakes");
        }
    }

    #[test]
    fn a_neighbour_that_stood_still_is_given_that_much_time_and_one_whose_link_was_cut_is_not() {
        // 20 ms in which no number went by, and 20 ms in which six did.
        assert_eq!(heard(&[(1000, 5), (1020, 6)]).deadline(), at(1020 + 60));
        assert_eq!(heard(&[(1000, 5), (1020, 12)]).deadline(), at(1020 + 12));
        // What came back after it had failed counts as well, and no stall for more than eight times the silence.
        assert_eq!(heard(&[(1000, 5), (1030, 6)]).deadline(), at(1030 + 90));
        assert_eq!(heard(&[(1000, 5), (9000, 6)]).deadline(), at(9000 + 96));
        // A gap of six is none; nor is that between two processes.
        assert_eq!(heard(&[(1000, 5), (1006, 6)]).deadline(), at(1006 + 12));
        let mut patience = heard(&[(1000, 5)]);
        patience.on_heard(at(1040), &config(), 8, 6);
        assert_eq!(patience.deadline(), at(1052));
    }

    #[test]
    fn a_stall_counts_in_the_half_minute_after_its_own_and_no_longer() {
        for (later, allowed) in [(30_000, 60), (59_999, 60), (60_000, 12)] {
            let mut patience = Patience::default();
            for (ms, number) in [(100_000, 1), (100_020, 2)] {
                patience.on_heard(at(ms), &config(), 7, number);
            }
            // The period began with the first one. Numbers went by as they should.
            let now = at(100_000 + later);
            patience.on_heard(now, &config(), 7, 2 + (later as u32 - 20) / 3);
            assert_eq!(patience.deadline(), now + Span::from_millis(allowed), "{later} ms later");
        }
    }

    #[test]
    fn a_stall_is_forgotten_after_a_minute_and_not_before_half_of_one() {
        let mut patience = heard(&[(1000, 5), (1020, 6)]);
        let mut forgotten = None;
        for n in 1..=25_000u32 {
            let now = at(1020 + 3 * u64::from(n));
            patience.on_heard(now, &config(), 7, 6 + n);
            if patience.deadline() == now + config().silence {
                forgotten.get_or_insert(now);
            }
        }
        let forgotten = forgotten.expect("in 75 s");
        assert!(forgotten >= at(31_000) && forgotten <= at(61_100), "{forgotten:?}");
    }
}
