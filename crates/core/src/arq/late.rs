//! When what is missing at the receiver is lost by time alone.
//!
//! What it is: RACK (RFC 8985) at the receiver. Numbers are given out in the order of sending. So what is missing before a packet
//! that was sent at s was sent at s at the latest, by whichever path, and is here by s and the transit of the slowest path, unless
//! it is lost. RACK's reordering window comes on top: a quarter of the least round trip, more after repeats that were not needed.
//! Published EFL-MP waits until every path has brought something, which a path that is dead or idle never does.
//!
//! | symbol | here |
//! |---|---|
//! | s | TXTS ([`Header::sent`](super::Header::sent)) of what waits in a reorder buffer |
//! | transit of a path: arrival - TXTS, the clocks' difference in it | `transit` |
//! | reordering window (RFC 8985, 6.2, step 4) | `rack` ([`Rack::window`]) |
//!
//! Cost: O(1) an arrival, O(N) for N paths a question. Invariant: times that lie move deadlines and nothing else.

use crate::loss::rack::{Progress, Rack};
use crate::units::{Span, Time};
use alloc::vec::Vec;

/// The clock of what waits.
#[derive(Debug)]
pub(super) struct Late {
    /// Of each path its last arrival's, in nanoseconds; the sender's clock may be ahead.
    transit: Vec<Option<i64>>,
    rack: Rack,
    smoothed: Span,
    /// When what is missing was last asked for, and how long it is not asked for again at least.
    asked: Option<Time>,
    pause: Span,
}

impl Late {
    pub(super) fn new(paths: usize, pause: Span) -> Late {
        Late { transit: alloc::vec![None; paths], rack: Rack::new(), smoothed: Span::ZERO, asked: None, pause }
    }

    /// A packet has come that was sent at `sent`; its header tells the path's round trip, zero where it is not known yet.
    pub(super) fn on_arrival(&mut self, path: usize, now: Time, sent: Time, rtt: Span) {
        if let Some(transit) = self.transit.get_mut(path) {
            *transit = Some(now.as_nanos().wrapping_sub(sent.as_nanos()) as i64);
        }
        if rtt > Span::ZERO {
            self.rack.on_rtt(rtt);
            self.smoothed = rtt;
        }
    }

    /// All before position `una` was delivered, and `next` comes next from the sender; `duplicate`: what came was here before.
    pub(super) fn on_progress(&mut self, una: u64, next: u64, duplicate: bool) {
        let smoothed_rtt = self.smoothed;
        self.rack.on_ack(&Progress {
            una,
            next,
            duplicate,
            recovering: false,
            recovered: self.asked.is_some(),
            sacked: 0,
            smoothed_rtt,
        });
        self.asked = None;
    }

    /// By when all is here that was sent up to `sent`.
    pub(super) fn deadline(&self, sent: Time) -> Time {
        let slowest = self.transit.iter().flatten().max().copied().unwrap_or(0);
        Time::from_nanos(sent.as_nanos().wrapping_add(slowest as u64)) + self.rack.window()
    }

    /// When to ask, if the first of what waits was sent at `sent`. The same is asked for once in two windows at most.
    pub(super) fn due(&self, sent: Time) -> Time {
        let again = self.asked.map_or(Time::ZERO, |asked| asked + self.rack.window().times(2).max(self.pause));
        self.deadline(sent).max(again)
    }

    /// What is missing was asked for.
    pub(super) fn on_asked(&mut self, now: Time) {
        self.asked = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_the_slowest_transit_and_a_quarter_of_the_least_round_trip_whatever_the_clocks() {
        let mut late = Late::new(2, Span::from_micros(1));
        // The sender's clock is 100 us ahead.
        let at = |micros: u64| Time::from_nanos(micros * 1000);
        late.on_arrival(0, at(1010), at(1100), Span::from_micros(40));
        late.on_arrival(1, at(1030), at(1100), Span::from_micros(60));
        late.on_progress(0, 10, false);
        assert_eq!(late.deadline(at(1200)), at(1200 - 100 + 30 + 10));
        late.on_asked(at(1200));
        assert_eq!(late.due(at(1200)), at(1220), "two windows later");
        // A repeat that was not needed widens the window by a quarter, once a round.
        late.on_progress(0, 10, true);
        assert_eq!(late.deadline(at(1200)), at(1150));
        late.on_progress(5, 10, true);
        assert_eq!(late.deadline(at(1200)), at(1150));
    }

    #[test]
    fn times_from_nowhere_do_no_harm_once_honest_ones_come() {
        let mut late = Late::new(1, Span::from_micros(1));
        let at = |micros: u64| Time::from_nanos(micros * 1000);
        late.on_arrival(0, Time::from_nanos(5), Time::from_nanos(u64::MAX), Span::from_secs(4));
        late.on_arrival(7, Time::ZERO, Time::ZERO, Span::ZERO);
        late.on_progress(0, 1, false);
        late.on_arrival(0, at(1100), at(1000), Span::from_micros(40));
        late.on_progress(1, 2, false);
        assert_eq!(late.due(at(1200)), at(1200 + 100 + 10));
    }
}
