//! A channel's delay beyond what the bond itself has sent ahead: what a selector is told of the path.
//!
//! What it is: of each answered echo request the transit, which is the peer's clock at its arrival less ours when it went
//! (RFC 3550 section 6.4.1, as `bond/equalize.rs` has it for the other direction), and the round trip, both less what the channel
//! had still to transmit when the request went: the channel's own packets are accounted for by their own transmission times.
//! The smallest of the last 10 to 20 s leaves out other people's queues. The clocks' unknown offset is the same in every
//! channel's transit, so channels are compared exactly, however unlike their ways there and back: the channel of the smallest
//! transit is taken to need half its round trip (NTP's assumption, which shifts all channels alike), or less where another's
//! delay, which is that and the difference of transits, would exceed its own round trip. The jitter is how much longer transits lately were,
//! smoothed (by a quarter each, as RFC 6298's RTTVAR).
//!
//! Windows turn at the same instants on all channels, so that clocks that drift apart move all transits alike. Cost: O(1) an
//! echo, O(channels) when delays are asked for. Invariant: a delay is at most every round trip of its window. When a clock is set, at either end,
//! or a peer says what cannot be, all transits before count no more.

use super::transit::Transit;
use crate::units::{Span, Time};

/// Length of a window; the smallest of the current and the one before it counts.
const WINDOW: Span = Span::from_secs(10);

/// What is told of a frame's departure and arrival is that exact: a clock that is so far off was not set, but drifts.
const INEXACT: Span = Span::from_millis(20);

/// How many requests are remembered: a channel that comes up sends as many, at shorter distances than its round trip may be.
pub(super) const ASKED: usize = 32;

/// The smallest of the last 10 to 20 s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Smallest<T> {
    /// Which window the first of the two is of.
    window: u64,
    of: [Option<T>; 2],
}

impl<T: Copy + Ord> Smallest<T> {
    /// `value` was measured.
    pub(crate) fn add(&mut self, now: Time, value: T) {
        self.turn(now);
        self.of[0] = Some(self.of[0].map_or(value, |least| least.min(value)));
    }

    /// The smallest; `None` before the first and long after the last.
    pub(crate) fn value(&self) -> Option<T> {
        self.of.into_iter().flatten().min()
    }

    /// What was measured counts no more.
    pub(crate) fn clear(&mut self) {
        self.of = [None; 2];
    }

    fn turn(&mut self, now: Time) {
        let window = now.as_nanos() / WINDOW.as_nanos();
        if window != self.window {
            let next = window == self.window + 1;
            self.of = [None, self.of[0].filter(|_| next)];
            self.window = window;
        }
    }
}

/// The measurements of one channel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// When the last requests went that were not answered, and what was still to be transmitted before each.
    asked: [Option<(Time, Span)>; ASKED],
    trips: Smallest<Span>,
    /// In nanoseconds of two clocks' difference.
    transits: Smallest<i64>,
    excess: Span,
    /// The same transits, for what is usual of them, and the window that their samples are of: of one in each row of requests that
    /// overlap, and of every one.
    varied: Transit,
    each: Transit,
    window: u64,
    /// The transit of the last request that was answered, and how long it was under way and waiting at most.
    last: Option<(i64, Span)>,
}

impl Delay {
    /// An echo request goes at `now`, behind frames that take `ahead` to leave.
    pub(crate) fn asked(&mut self, now: Time, ahead: Span) {
        self.asked.rotate_right(1);
        self.asked[0] = Some((now, ahead));
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.iter().any(Option::is_some)
    }

    /// The request of `sent` was answered at `now`; the peer's clock was `arrived` when it came there. `false`: there was none, or it has been
    /// answered before, or a later one.
    pub(crate) fn answered(&mut self, now: Time, sent: Time, arrived: u64) -> bool {
        let Some((place, (_, ahead))) =
            self.asked.iter().enumerate().find_map(|(n, asked)| Some((n, asked.filter(|(at, _)| *at == sent)?)))
        else {
            return false;
        };
        self.asked[place..].fill(None);
        let trip = now.since(sent) - ahead;
        self.trips.add(now, trip);
        let left = sent.as_nanos().wrapping_add(ahead.as_nanos());
        let transit = arrived.wrapping_sub(left) as i64;
        // What was ahead may be reckoned by a rate that the path has no more.
        let most = now.since(sent) + ahead;
        if self.last.replace((transit, most)).is_some_and(|last| has_leapt(last, (transit, most))) {
            self.forget_clock();
        }
        self.transits.add(now, transit);
        let window = now.as_nanos() / WINDOW.as_nanos();
        if core::mem::replace(&mut self.window, window) != window {
            self.varied.turn();
            self.each.turn();
        }
        self.each.add(now, transit);
        if !self.is_asked() {
            self.varied.add(now, transit);
        }
        // Whatever clock the peer claims to have: more than the round trip it cannot be.
        let more = transit.wrapping_sub(self.transit().unwrap_or(transit)).max(0);
        self.vary(Span::from_nanos(more as u64).min(trip));
        true
    }

    /// A round trip was measured by others.
    pub(crate) fn measured(&mut self, now: Time, trip: Span) {
        self.trips.add(now, trip);
        self.transits.turn(now);
        self.vary(trip - self.trip().unwrap_or(trip));
    }

    /// The channel is used again after it was not.
    pub(crate) fn doubt(&mut self) {
        self.varied.doubt();
        self.each.doubt();
    }

    /// The peer's clock is another one.
    pub(crate) fn forget_clock(&mut self) {
        self.transits.clear();
        (self.varied, self.each) = (Transit::default(), Transit::default());
    }

    fn vary(&mut self, more: Span) {
        let nanos = self.excess.as_nanos();
        self.excess = Span::from_nanos(nanos - nanos / 4 + more.as_nanos() / 4);
    }

    pub(crate) fn trip(&self) -> Option<Span> {
        self.trips.value()
    }

    /// How much longer than the least of late a transit is, in nanoseconds.
    pub(crate) fn beyond_least(&self, took: i64) -> i64 {
        self.transit().map_or(0, |least| took.saturating_sub(least))
    }

    fn transit(&self) -> Option<i64> {
        self.transits.value()
    }

    /// By how much packets usually take longer than the least, at most.
    pub(crate) fn variation(&self) -> Span {
        usually_beyond(&self.varied)
    }

    /// The same by all that is known: soon, and more.
    pub(crate) fn full_variation(&self) -> Span {
        usually_beyond(&self.each)
    }

    /// By how much the delay varies.
    pub(crate) fn jitter(&self) -> Span {
        self.excess
    }
}

/// The smallest transit of any channel and the delay that it stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    transit: i64,
    delay: Span,
}

impl Reference {
    /// Of these channels; `None` before the first answer.
    pub(crate) fn of<'a>(paths: impl Iterator<Item = &'a Delay> + Clone) -> Option<Reference> {
        let each = paths.filter_map(|path| Some((path.transit()?, path.trip()?)));
        let (transit, trip) = each.clone().min()?;
        let room = each.map(|(other, trip)| trip - beyond(other, transit)).min();
        Some(Reference { transit, delay: half(trip).min(room.unwrap_or(trip)) })
    }
}

impl Delay {
    /// One way, without queues, given the reference of all channels; half the round trip where there was no transit;
    /// `None` before the first answer.
    pub(crate) fn delay(&self, reference: Option<Reference>) -> Option<Span> {
        let trip = self.trip()?;
        let (Some(transit), Some(reference)) = (self.transit(), reference) else { return Some(half(trip)) };
        Some((reference.delay + beyond(transit, reference.transit)).min(trip))
    }
}

/// Whether a clock was set between two answers, of which a way there took so long at most. Transits differ by no more than both.
fn has_leapt((before, most_before): (i64, Span), (transit, most): (i64, Span)) -> bool {
    let most = most_before + most + INEXACT;
    Span::from_nanos(transit.wrapping_sub(before).unsigned_abs()) > most
}

/// By how much the usual transit is longer than the least.
fn usually_beyond(transits: &Transit) -> Span {
    let beyond = transits.usual().zip(transits.least()).map_or(0, |(usual, least)| usual - least);
    Span::from_nanos(beyond.max(0) as u64)
}

/// By how much `transit` is longer than `least`.
fn beyond(transit: i64, least: i64) -> Span {
    Span::from_nanos(transit.saturating_sub(least).max(0) as u64)
}

fn half(trip: Span) -> Span {
    Span::from_nanos(trip.as_nanos() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const MS: fn(u64) -> Time = Time::from_millis;
    const SPAN: fn(u64) -> Span = Span::from_millis;

    /// A request at `at` milliseconds behind `ahead`, that takes `there` and `back`; the peer's clock is a minute behind
    /// and wraps around.
    fn echo(path: &mut Delay, at: u64, [ahead, there, back]: [u64; 3]) {
        let sent = MS(at);
        path.asked(sent, SPAN(ahead));
        let arrived = (sent + SPAN(ahead + there)).as_nanos().wrapping_sub(60_000_000_000);
        path.answered(sent + SPAN(ahead + there + back), sent, arrived);
    }

    fn delays(paths: &[Delay]) -> Vec<u64> {
        let reference = Reference::of(paths.iter());
        paths.iter().map(|path| path.delay(reference).unwrap().as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn what_the_channel_had_to_send_itself_is_no_part_of_the_path() {
        let mut path = Delay::default();
        assert_eq!((path.delay(None), path.jitter()), (None, Span::ZERO));
        for (n, ahead) in [0, 7, 3, 12].into_iter().enumerate() {
            echo(&mut path, 1000 * n as u64, [ahead, 10, 10]);
        }
        assert_eq!((delays(&[path]), path.jitter()), (vec![10], Span::ZERO));
        path.asked(MS(5000), SPAN(5));
        path.answered(MS(5001), MS(4000), 0);
        assert_eq!(delays(&[path]), [10], "an answer to another request tells nothing");
    }

    #[test]
    fn each_request_is_answered_once_although_others_went_since() {
        let mut path = Delay::default();
        for at in [0, 20, 40, 60] {
            path.asked(MS(at), Span::ZERO);
        }
        assert!(path.answered(MS(90), MS(20), 0), "30 ms after the next two");
        assert_eq!(delays(&[path]), [35]);
        for (sent, counts) in [(20, false), (0, false), (50, false), (60, true), (40, false)] {
            assert_eq!(path.answered(MS(120), MS(sent), 0), counts, "{sent} ms");
        }
        assert!(!path.is_asked() && delays(&[path]) == [30]);
        // The first are forgotten.
        (0..40).for_each(|n| path.asked(MS(1000 + n), Span::ZERO));
        assert!(!path.answered(MS(1050), MS(1007), 0) && path.answered(MS(1050), MS(1008), 0));
    }

    #[test]
    fn channels_are_compared_by_the_way_there_whatever_the_way_back() {
        let mut paths = [Delay::default(); 3];
        for at in [0, 1000, 2000] {
            echo(&mut paths[0], at, [0, 10, 50]);
            echo(&mut paths[1], at + 3, [4, 35, 5]);
            echo(&mut paths[2], at + 7, [0, 12, 12]);
        }
        assert_eq!(delays(&paths), [15, 40, 17], "25 and 2 more than the first, and none above its round trip");
        let mut paths = [Delay::default(); 2];
        echo(&mut paths[0], 0, [0, 10, 12]);
        echo(&mut paths[1], 0, [0, 40, 10]);
        assert_eq!(delays(&paths), [11, 41]);
        paths[1].forget_clock();
        assert_eq!(delays(&paths), [11, 25], "half the round trip until the new clock is known");
    }

    #[test]
    fn no_clock_makes_a_delay_longer_than_the_round_trip() {
        for arrived in [0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX] {
            let mut paths = [Delay::default(); 2];
            for (path, arrived) in paths.iter_mut().zip([arrived, 1 << 63]) {
                for at in [0, 1000] {
                    path.asked(MS(at), Span::ZERO);
                    path.answered(MS(at + 20), MS(at), arrived);
                }
            }
            let reference = Reference::of(paths.iter());
            assert!(paths.iter().all(|path| path.delay(reference).unwrap() <= SPAN(20) && path.jitter() <= SPAN(20)));
        }
    }

    #[test]
    fn when_a_clock_is_set_what_was_told_before_counts_no_more_and_jitter_sets_no_clock() {
        for leap in [-500_000_i64, -1_000, 1_000, 500_000] {
            let mut paths = [Delay::default(); 2];
            // The second channel takes up to its round trip more, now and then.
            let mut round = |at: u64, ahead: i64| {
                for (path, there) in paths.iter_mut().zip([10, if at.is_multiple_of(3_000) { 90 } else { 30 }]) {
                    let (sent, back) = (MS(at), 10);
                    path.asked(sent, Span::ZERO);
                    let arrived = (sent + SPAN(there)).as_nanos().wrapping_add_signed(ahead * 1_000_000);
                    assert!(path.answered(sent + SPAN(there + back), sent, arrived));
                }
                (delays(&paths), paths.map(|path| path.variation()))
            };
            let (before, varied) = (0..30).map(|n| round(n * 1_000, 0)).last().unwrap();
            assert_eq!(before, [10, 30]);
            assert!(varied[1] > SPAN(50), "jitter of 60 ms is no leap: {varied:?}");
            let (after, varied) = round(31_000, leap);
            assert!(after == [10, 30] && varied[0] < SPAN(1), "a leap of {leap} ms: {after:?}, {varied:?}");
        }
    }

    #[test]
    fn longer_transits_are_jitter_and_become_the_delay_when_none_is_shorter_for_a_window() {
        let mut path = Delay::default();
        let mut at = |s: u64, there| {
            echo(&mut path, s * 1000, [0, there, 10]);
            (delays(&[path])[0], path.jitter())
        };
        assert_eq!(at(0, 10), (10, Span::ZERO));
        assert_eq!(at(1, 18), (10, SPAN(2)));
        for s in 2..20 {
            assert_eq!(at(s, 18).0, 10, "at {s} s");
        }
        assert!(at(20, 18).1 <= SPAN(8));
        for s in 21..70 {
            assert_eq!(at(s, 18).0, 14, "two windows without a shorter one, at {s} s");
        }
        assert!(at(70, 18).1 < Span::from_micros(1));
    }
}
