//! A channel's delay beyond what the bond itself has sent ahead: what a selector is told of the path.
//!
//! What it is: of each answered echo request the round trip less what the channel had still to transmit when the request
//! went, its own packets being accounted for by their own transmission times. The delay is half the smallest of the last
//! 10 to 20 s; the jitter is how much longer round trips lately were, smoothed (by a quarter each, as RFC 6298's RTTVAR), and
//! counts as if all of it were on the way there.
//!
//! Source: half a round trip for one way is RFC 3550's and NTP's assumption of like ways; the smallest within a window
//! leaves out other people's queues, as in `equalize.rs`, whose windows these are. Cost: O(1) an echo. Invariant: the delay is
//! at most half of every round trip that it was told in its window.

use crate::units::{Span, Time};

/// Length of a window; the smallest of the current and the one before it counts.
const WINDOW: Span = Span::from_secs(10);

/// The measurements of one channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    /// The request that went last, and what was still to be transmitted before it.
    asked: Option<(Time, Span)>,
    /// Smallest round trips of this window and the one before it.
    least: [Option<Span>; 2],
    began: Time,
    excess: Span,
}

impl Path {
    /// An echo request goes at `now`, behind frames that take `ahead` to leave.
    pub(super) fn asked(&mut self, now: Time, ahead: Span) {
        self.asked = Some((now, ahead));
    }

    /// The request of `sent` was answered at `now`.
    pub(super) fn answered(&mut self, now: Time, sent: Time) {
        if let Some((_, ahead)) = self.asked.take_if(|(at, _)| *at == sent) {
            self.measured(now, now.since(sent) - ahead);
        }
    }

    /// A round trip was measured.
    pub(super) fn measured(&mut self, now: Time, trip: Span) {
        if now.since(self.began) >= WINDOW {
            let old = self.least[0].filter(|_| now.since(self.began) < WINDOW.times(2));
            (self.least, self.began) = ([None, old], now);
        }
        self.least[0] = Some(self.least[0].map_or(trip, |least| least.min(trip)));
        let excess = trip - self.smallest().unwrap_or(trip);
        let nanos = self.excess.as_nanos();
        self.excess = Span::from_nanos(nanos - nanos / 4 + excess.as_nanos() / 4);
    }

    fn smallest(&self) -> Option<Span> {
        self.least.into_iter().flatten().min()
    }

    /// One way, without queues; `None` before the first answer.
    pub(super) fn delay(&self) -> Option<Span> {
        self.smallest().map(|trip| Span::from_nanos(trip.as_nanos() / 2))
    }

    /// By how much it varies.
    pub(super) fn jitter(&self) -> Span {
        self.excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    const SPAN: fn(u64) -> Span = Span::from_millis;

    #[test]
    fn what_the_channel_had_to_send_itself_is_no_part_of_the_path() {
        let mut path = Path::default();
        assert_eq!((path.delay(), path.jitter()), (None, Span::ZERO));
        for (n, ahead) in [0, 7, 3, 12].into_iter().enumerate() {
            let sent = MS(1000 * n as u64);
            path.asked(sent, SPAN(ahead));
            path.answered(sent + SPAN(20 + ahead), sent);
        }
        assert_eq!((path.delay(), path.jitter()), (Some(SPAN(10)), Span::ZERO));
        path.asked(MS(5000), SPAN(5));
        path.answered(MS(5001), MS(4000));
        assert_eq!(path.delay(), Some(SPAN(10)), "an answer to another request tells nothing");
    }

    #[test]
    fn longer_round_trips_are_jitter_and_become_the_delay_when_none_is_shorter_for_a_window() {
        let mut path = Path::default();
        let mut at = |ms, trip| {
            path.measured(MS(ms), SPAN(trip));
            (path.delay().unwrap(), path.jitter())
        };
        assert_eq!(at(0, 20), (SPAN(10), Span::ZERO));
        assert_eq!(at(1000, 28), (SPAN(10), SPAN(2)));
        for s in 2..20 {
            assert_eq!(at(s * 1000, 28).0, SPAN(10), "at {s} s");
        }
        assert!(at(20_000, 28).1 <= SPAN(8));
        // Two windows without a shorter one.
        assert_eq!(at(31_000, 28).0, SPAN(14));
        for s in 32..70 {
            at(s * 1000, 28);
        }
        assert!(at(70_000, 28).1 < Span::from_micros(1));
    }
}
