//! How many bytes may wait for channels whose rate is known: as many as pass in a time, also of late.
//!
//! What it is: the bytes that pass in a time at the sum of the channels' rates. A channel's rate is what it is now, or four fifths of the highest that
//! it had in the last one or two spans of [`MEMORY`], where that is more: a law's probe is a quarter above what it found. It is never more than passes now in
//! [`LONGEST`] times the time of the host queue. So a link whose rate falls costs a sender little of what waits already, and a window that fitted the
//! rate of a second ago still fits. A channel that carries nothing any more does not count. With rates that stay it is the time at the rate.
//!
//! Source: ours. Cost: O(channels) when a rate changes. Invariant: there is room for [`LEAST_QUEUE`] of the largest frames.

use crate::units::{Rate, Span, Time};

/// A queue holds at least this many of the largest packets, however slow the channels are.
pub(super) const LEAST_QUEUE: usize = 32;
/// How long a rate is remembered at least.
const MEMORY: Span = Span::from_secs(5);
/// How many times as long what waits may take, where the rate was higher of late.
const LONGEST: u64 = 3;

/// The highest rate of a channel of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lately {
    /// Since `since`, and in the span before.
    most: [Option<Rate>; 2],
    since: Time,
}

impl Lately {
    /// It is `rate` at `now`; that, or what is remembered less a probe. Nothing where it is not known.
    pub(super) fn highest(&mut self, now: Time, rate: Option<Rate>) -> Option<Rate> {
        let age = now.since(self.since);
        if age > MEMORY {
            self.most = [None, self.most[0].filter(|_| age <= MEMORY.times(2))];
            self.since = now;
        }
        self.most[0] = self.most[0].max(rate);
        let remembered = self.most[0].max(self.most[1])?.as_bits_per_sec();
        Some(rate?.max(Rate::from_bits_per_sec(remembered / 5 * 4)))
    }
}

/// For what time there is room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// How long a packet waits at most where rates stay.
    pub(super) queue: Span,
    /// How long a loss may hold up a flow.
    pub(super) repair: Span,
    /// The largest frame, in bytes.
    pub(super) largest: usize,
}

impl Waits {
    /// How many bytes may wait where the rates are together `present`, and `highest` with each as it was lately.
    pub(super) fn room(&self, present: Rate, highest: Rate) -> usize {
        let bytes = |rate: Rate, queue: Span| rate.bytes_in(queue + self.repair).as_u64();
        let room = bytes(highest, self.queue).min(bytes(present, self.queue.times(LONGEST)));
        (room as usize).max(LEAST_QUEUE * self.largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits { queue: Span::from_millis(100), repair: Span::from_millis(50), largest: 1500 };

    fn highest(lately: &mut Lately, second: u64, mbit: u64) -> u64 {
        let found = lately.highest(Time::ZERO + Span::from_secs(second), Some(Rate::from_mbit(mbit)));
        found.map_or(0, |rate| rate.as_bits_per_sec() / 1_000_000)
    }

    #[test]
    fn where_the_rate_stays_there_is_room_for_the_time_and_for_some_frames_in_any_case() {
        let mut lately = Lately::default();
        assert!((0..30).all(|second| highest(&mut lately, second, 80) == 80));
        // A law's probe, and the rate that it had found.
        assert_eq!([(30, 100), (31, 80)].map(|(second, mbit)| highest(&mut lately, second, mbit)), [100, 80]);
        assert_eq!(WAITS.room(Rate::from_mbit(80), Rate::from_mbit(80)), 1_500_000);
        assert_eq!(WAITS.room(Rate::from_mbit(0), Rate::from_mbit(0)), LEAST_QUEUE * 1500);
    }

    #[test]
    fn where_the_rate_falls_there_is_room_for_what_waits_but_not_for_longer_than_three_times_the_time() {
        assert_eq!(WAITS.room(Rate::from_mbit(40), Rate::from_mbit(80)), 1_500_000);
        // 350 ms of 8 Mbit/s.
        assert_eq!(WAITS.room(Rate::from_mbit(8), Rate::from_mbit(80)), 350_000);
    }

    #[test]
    fn what_the_rate_was_is_forgotten_in_five_to_ten_seconds_and_nothing_is_where_it_is_not_known() {
        let mut lately = Lately::default();
        let found = [(0, 80), (4, 40), (6, 40), (12, 40), (20, 160), (31, 40)]
            .map(|(second, mbit)| highest(&mut lately, second, mbit));
        assert_eq!(found, [80, 64, 64, 40, 160, 40]);
        assert_eq!(lately.highest(Time::ZERO + Span::from_secs(32), None), None);
    }
}
