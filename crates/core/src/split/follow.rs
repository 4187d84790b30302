//! How fast datagrams go beside connections whose rates find themselves.
//!
//! What it is: datagrams tell nothing of the link that they leave by. A split connection does: where its congestion window alone keeps it from
//! sending, and it has lost segments, the link gives it no more. So each flow that is not split goes at most as fast as the
//! fastest connection that is held back so: a fair share of a link that nobody has configured, as the connection rises until the link
//! is full. Where none is held back any more, the bound doubles every eight round trips, and is none after eight doublings. Where none ever was, there is none:
//! then datagrams go as they come. Source: hybrid-gateways 4.2 and 4.4.5 (datagrams pass the same fair queueing; the rate there is
//! a configured one); the rule is ours.
//!
//! | symbol | here |
//! |---|---|
//! | d, the drain of a connection that is held back | `rate`, at least a segment a round trip |
//! | the bound on a flow of datagrams | [`Follow::rate`]: the most of all d, or what it has become since |
//!
//! A connection counts for two round trips after it was last seen held back, one second at least.
//!
//! It is a guard of connections and no measure of the link. Where the fastest connection is kept slow by something else too, such as noise on the
//! link or a receiver with little room, datagrams have what it has, and the link is not full. A bound that rose while round trips show no queue
//! was tried and overshot: datagrams rise faster than a connection can. So this is a setting, and not the default.
//!
//! Cost: O(log n) in the connections that are held back. Invariant: nothing is kept of a connection that is closed.

use crate::units::{FlowNumber, Span, Time};
use alloc::collections::{BTreeMap, BTreeSet};

/// A connection counts for so long after it was seen held back, at least.
const LEAST: Span = Span::from_secs(1);
/// Round trips in which the bound doubles where nobody is held back.
const DOUBLING: u64 = 8;
/// After so many doublings there is none.
const DOUBLINGS: u64 = 8;
/// Where the round trip is not known.
const ROUND_TRIP: Span = Span::from_millis(200);

/// What is known of a connection that the link holds back.
#[derive(Clone, Copy, Debug)]
struct Held {
    rate: u64,
    until: Time,
    round_trip: Span,
}

/// The bound on each flow of datagrams.
#[derive(Clone, Debug, Default)]
pub(super) struct Follow {
    held: BTreeMap<FlowNumber, Held>,
    rates: BTreeSet<(u64, FlowNumber)>,
    /// The last bound by a connection: bytes a second, since when there was none, and a round trip.
    last: Option<(u64, Time, Span)>,
}

impl Follow {
    /// The link holds back the connection of `flow`, which drains at so many bytes a second in segments of `segment` bytes.
    pub(super) fn on_held_back(&mut self, now: Time, flow: FlowNumber, drain: u64, segment: u64, round_trip: Span) {
        let round_trip = if round_trip == Span::ZERO { ROUND_TRIP } else { round_trip };
        let least = u128::from(segment.max(1)) * 1_000_000_000 / u128::from(round_trip.as_nanos().max(1));
        let rate = drain.max(u64::try_from(least).unwrap_or(u64::MAX)).max(1);
        self.close(flow);
        self.held.insert(flow, Held { rate, until: now + round_trip.times(2).max(LEAST), round_trip });
        self.rates.insert((rate, flow));
    }

    /// The connection is over.
    pub(super) fn close(&mut self, flow: FlowNumber) {
        if let Some(held) = self.held.remove(&flow) {
            self.rates.remove(&(held.rate, flow));
        }
    }

    /// Bytes a second that a flow of datagrams may have now; `None`: no bound.
    pub(super) fn rate(&mut self, now: Time) -> Option<u64> {
        while let Some((rate, flow)) = self.rates.last().copied() {
            match self.held.get(&flow) {
                Some(held) if held.until > now => {
                    self.last = Some((rate, now, held.round_trip));
                    return Some(rate);
                }
                _ => {
                    self.held.remove(&flow);
                    self.rates.remove(&(rate, flow));
                }
            }
        }
        let (rate, since, round_trip) = self.last?;
        let step = round_trip.as_nanos().saturating_mul(DOUBLING).max(1);
        let passed = now.since(since).as_nanos();
        let doublings = passed / step;
        if doublings >= DOUBLINGS {
            self.last = None;
            return None;
        }
        let whole = u128::from(rate) << doublings;
        let part = whole * u128::from(passed % step) / u128::from(step);
        Some(u64::try_from(whole + part).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Span = Span::from_millis(500);

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn datagrams_have_no_bound_until_a_connection_is_held_back_and_then_that_of_the_fastest() {
        let mut follow = Follow::default();
        assert_eq!(follow.rate(at(0)), None);
        follow.on_held_back(at(0), FlowNumber(1), 50_000, 1460, TRIP);
        follow.on_held_back(at(0), FlowNumber(2), 90_000, 1460, TRIP);
        assert_eq!(follow.rate(at(10)), Some(90_000));
        follow.on_held_back(at(20), FlowNumber(2), 40_000, 1460, TRIP);
        assert_eq!(follow.rate(at(30)), Some(50_000));
        follow.close(FlowNumber(1));
        assert_eq!(follow.rate(at(40)), Some(40_000));
    }

    #[test]
    fn a_connection_that_gets_nothing_leaves_a_segment_a_round_trip() {
        let mut follow = Follow::default();
        follow.on_held_back(at(0), FlowNumber(1), 0, 1460, TRIP);
        assert_eq!(follow.rate(at(0)), Some(2920));
    }

    #[test]
    fn the_bound_doubles_every_eight_round_trips_once_nobody_is_held_back_and_ends() {
        let mut follow = Follow::default();
        follow.on_held_back(at(0), FlowNumber(1), 10_000, 1460, TRIP);
        assert_eq!(follow.rate(at(999)), Some(10_000));
        // The last look that saw it was at 999 ms.
        for (millis, rate) in [(2999, 15_000), (4999, 20_000), (6999, 30_000), (8999, 40_000)] {
            assert_eq!(follow.rate(at(millis)), Some(rate), "{millis} ms");
        }
        assert!(follow.rate(at(32_998)).is_some());
        assert_eq!(follow.rate(at(32_999)), None);
        assert_eq!(follow.rate(at(5)), None, "and stays away");
    }

    #[test]
    fn nothing_is_kept_of_connections_that_are_over_or_long_quiet() {
        let mut follow = Follow::default();
        for n in 0..1000 {
            follow.on_held_back(at(n), FlowNumber(n as u32), n, 1460, TRIP);
            follow.on_held_back(at(n), FlowNumber(n as u32), n + 1, 1460, TRIP);
        }
        assert_eq!((follow.held.len(), follow.rates.len()), (1000, 1000));
        (0..500).for_each(|n| follow.close(FlowNumber(n)));
        follow.rate(at(10_000));
        assert_eq!((follow.held.len(), follow.rates.len()), (0, 0));
    }
}
