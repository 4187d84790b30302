//! The rate at which each source sends, from byte counts: exact when it is steady, of one interval when it changes.
//!
//! Source: the counts l_i of the rings paper (V-B2), which are of one interval T. One T holds few packets (78 of 1 kB
//! at 622 Mbit/s and 1 ms, 5 of 1.5 kB at 100 Mbit/s and 0.6 ms), so that such a count is off by up to a packet: by 1.3 and 20 %.
//!
//! Departures, and why:
//! - Between its packets a steady source owes part of the next one: what its rate makes since the last arrival, at
//!   most a packet, is added to the count. A constant rate is then measured without the error of the packet.
//! - The count is taken over a window that grows while the source is steady. An interval that is off by more than two
//!   packets is another rate: the window begins again with it, and nothing of the old rate is left. What sums to more than
//!   the source's own noise since the window last doubled is a small change: what was before that counts no more. At each
//!   doubling the older half is left out, since it may hold the end of another rate. There is no low-pass filter.
//!   A source whose packets wander about their places is given so much room, up to three packets, as it was seen to need.
//! - Whoever knows that a source is about to change by less than shows says so ([`Meter::expect`]).
//!
//! Cost: per packet an addition and two stores; per interval and source some twenty operations and one division.
//!
//! Invariant: the estimate of a constant rate is off by at most the tolerance.

use crate::units::Time;
use alloc::vec::Vec;

/// How far, in packets, a steady source may be from a constant rate.
const STEADY: f64 = 2.0;

/// What a source was seen to send, counted by packets.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    bytes: u64,
    last_at: u64,
    largest: u32,
}

/// A window over a source's count.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// The count with what is owed, at the last boundary.
    count: f64,
    /// The whole count there.
    bytes: u64,
    /// Where the window began.
    from: Mark,
    /// Where it will begin when it has reached its full length.
    middle: Mark,
    /// The rate when it last doubled, and where.
    reference: f64,
    doubled: Mark,
    /// Its length in intervals; 0: nothing was ever sent.
    intervals: u32,
    /// Its length there.
    doubled_at: u32,
    rate: f64,
    /// How far a count was off what a constant rate makes, while it was steady.
    noise: f64,
    /// Whether the rate is known to change.
    doubtful: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    count: f64,
    at: u64,
}

/// A source's rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Bytes per nanosecond.
    pub rate: f64,
    /// How far the rate may be off: what a packet more or less in the window makes.
    pub tolerance: f64,
    /// Whether it is of the newest interval alone, since that was unlike those before.
    pub fresh: bool,
}

/// Rates of several sources, measured at the same instants.
#[derive(Clone, Debug)]
pub struct Meter {
    counters: Vec<Counter>,
    windows: Vec<Window>,
    estimates: Vec<Estimate>,
    total: f64,
    measured_at: u64,
    longest: u32,
}

impl Meter {
    /// For `sources` sources, over windows of at most `longest` intervals; with 1, the last interval's counts as they are.
    pub fn new(sources: usize, longest: u32, now: Time) -> Meter {
        Meter {
            counters: alloc::vec![Counter::default(); sources],
            windows: alloc::vec![Window::default(); sources],
            estimates: alloc::vec![Estimate::default(); sources],
            total: 0.0,
            measured_at: now.as_nanos(),
            longest: longest.max(1),
        }
    }

    /// `source` sent a packet.
    #[inline]
    pub fn count(&mut self, now: Time, source: usize, bytes: u32) {
        if let Some(counter) = self.counters.get_mut(source) {
            counter.bytes += u64::from(bytes);
            counter.last_at = now.as_nanos();
            counter.largest = counter.largest.max(bytes);
        }
    }

    /// `source` has sent `bytes` in all, in packets of at most `largest`.
    pub(crate) fn set_total(&mut self, source: usize, bytes: u64, largest: u32) {
        if let Some(counter) = self.counters.get_mut(source) {
            // When it sent them is not known: nothing is owed.
            *counter = Counter { bytes, last_at: u64::MAX, largest };
        }
    }

    /// The largest packet of `source`.
    pub fn largest(&self, source: usize) -> u32 {
        self.counters.get(source).map_or(0, |counter| counter.largest)
    }

    /// When it measured last.
    pub(crate) fn measured_at(&self) -> Time {
        Time::from_nanos(self.measured_at)
    }

    /// The rates that it measured last, by source.
    pub fn estimates(&self) -> &[Estimate] {
        &self.estimates
    }

    /// Whoever holds sources at a rate `was` holds them at `rate` from now on. A source that was held so will change by less
    /// than shows at once: its window begins again.
    pub fn expect(&mut self, source: usize, was: f64, rate: f64) {
        let (Some(window), Some(estimate)) = (self.windows.get_mut(source), self.estimates.get_mut(source)) else {
            return;
        };
        if estimate.rate + estimate.tolerance >= was && (rate - was).abs() > estimate.tolerance {
            window.doubtful = true;
        }
    }

    /// Their sum.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// An interval ends. One without length is none.
    pub fn measure(&mut self, now: Time) {
        let now = now.as_nanos();
        let length = now.saturating_sub(self.measured_at);
        if length == 0 {
            return;
        }
        let step = Step { now, before: self.measured_at, length: length as f64, longest: self.longest };
        self.total = 0.0;
        let counters = self.counters.iter().zip(&mut self.windows);
        for ((counter, window), estimate) in counters.zip(&mut self.estimates) {
            if window.intervals == 0 && counter.bytes == window.bytes {
                continue;
            }
            *estimate = window.measure(&step, counter);
            self.total += estimate.rate;
        }
        self.measured_at = now;
    }
}

/// The interval that ends.
struct Step {
    now: u64,
    before: u64,
    length: f64,
    longest: u32,
}

impl Step {
    fn since(&self, mark: Mark) -> f64 {
        self.now.saturating_sub(mark.at) as f64
    }
}

impl Window {
    fn measure(&mut self, step: &Step, counter: &Counter) -> Estimate {
        let largest = f64::from(counter.largest);
        if step.longest == 1 {
            let rate = (counter.bytes - self.bytes) as f64 / step.length;
            (self.bytes, self.intervals) = (counter.bytes, 1);
            return Estimate { rate, tolerance: 0.0, fresh: false };
        }
        let since = step.now.saturating_sub(counter.last_at) as f64;
        let owed = |rate: f64| (rate * since).min(largest);
        let total = counter.bytes as f64;
        let count = total + owed(self.rate);
        // Where nothing is owed, a steady source is off by a packet.
        let floor = if counter.last_at == u64::MAX { largest } else { 0.25 * largest };
        let in_interval = (count - self.count - self.rate * step.length).abs();
        let since_doubled = count - self.doubled.count - self.reference * step.since(self.doubled);
        let off = in_interval.max(since_doubled.abs());
        let before = Mark { count: self.count, at: step.before };
        self.count = count;
        let here = Mark { count, at: step.now };
        let fresh = self.intervals == 0 || in_interval > STEADY * largest;
        if fresh || self.doubtful {
            // Another rate: nothing before the newest interval counts.
            let rate = (counter.bytes - self.bytes) as f64 / step.length;
            self.count = total + owed(rate);
            let owed_before = (before.count - self.bytes as f64).max(0.0);
            let goes_on = rate * step.length > owed_before;
            let from = Mark { count: self.bytes as f64 + if goes_on { owed_before } else { 0.0 }, at: step.before };
            let here = Mark { count: self.count, at: step.now };
            (self.from, self.middle, self.intervals, self.doubtful) = (from, here, 1, false);
            self.settle(here);
        } else if off > STEADY * (self.noise + floor).min(1.5 * largest) {
            // It has moved since it doubled: what was before counts no more.
            self.noise = (self.noise + 0.125 * largest).min(1.25 * largest);
            (self.from, self.middle) = (self.doubled, here);
            self.intervals = (self.intervals - self.doubled_at + 1).max(1);
            self.settle(here);
        } else {
            self.noise = (0.998 * self.noise).max(0.5 * off);
            self.intervals += 1;
            if self.intervals >= 2 * self.doubled_at || self.intervals >= step.longest {
                // What was before the middle may have been another rate's end.
                (self.from, self.middle) = (self.middle, here);
                self.intervals = self.intervals.min(step.longest / 2).max(1);
                self.settle(here);
            }
        }
        self.bytes = counter.bytes;
        let per_age = 1.0 / step.since(self.from).max(1.0);
        self.rate = ((self.count - self.from.count) * per_age).max(0.0);
        // A rate that moves less than shows is behind by what it may move.
        let packets = if self.intervals < 4 { 1.0 } else { STEADY };
        Estimate { rate: self.rate, tolerance: packets * largest * per_age, fresh }
    }

    /// From here on, the rate is held against what it is now.
    fn settle(&mut self, here: Mark) {
        let age = here.at.saturating_sub(self.from.at).max(1) as f64;
        self.reference = ((here.count - self.from.count) / age).max(0.0);
        (self.doubled, self.doubled_at) = (here, self.intervals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Packets of 1000 bytes at a constant distance, measured every millisecond: the estimates, in packets a millisecond.
    fn constant(distances: &[(u64, u64)], longest: u32) -> Vec<Estimate> {
        let mut meter = Meter::new(1, longest, Time::ZERO);
        let (mut next, mut estimates) = (0, Vec::new());
        let mut now = 0;
        for (distance, intervals) in distances {
            for _ in 0..*intervals {
                now += 1_000_000;
                while next < now {
                    meter.count(Time::from_nanos(next), 0, 1000);
                    next += distance;
                }
                meter.measure(Time::from_nanos(now));
                let Estimate { rate, tolerance, fresh } = meter.estimates()[0];
                estimates.push(Estimate { rate: rate * 1e3, tolerance: tolerance * 1e3, fresh });
            }
        }
        estimates
    }

    #[test]
    fn a_constant_rate_is_exact_though_intervals_hold_no_whole_number_of_packets() {
        // 4.7 packets an interval: counts would be 4 and 5.
        let estimates = constant(&[(212_766, 40)], 64);
        let right = 1e6 / 212_766.0;
        for (n, estimate) in estimates.iter().enumerate().skip(3) {
            assert!((estimate.rate - right).abs() < 0.02 * right, "interval {n}: {estimate:?}");
            assert!((estimate.rate - right).abs() <= estimate.tolerance);
        }
        assert!((estimates[39].rate - right).abs() < 0.002 * right, "{:?}", estimates[39]);
        assert!(estimates[39].tolerance < 0.13);
    }

    #[test]
    fn a_change_acts_in_its_own_interval_and_nothing_of_the_old_rate_is_left_in_the_next() {
        let estimates = constant(&[(12_861, 100), (51_444, 20)], 256);
        let (before, after) = (1e6 / 12_861.0, 1e6 / 51_444.0);
        assert!((estimates[99].rate - before).abs() < 0.001 * before);
        assert!(estimates[100].fresh && (estimates[100].rate - after).abs() <= 1.1, "{:?}", estimates[100]);
        assert!((estimates[101].rate - after).abs() <= 0.55, "{:?}", estimates[101]);
        let silent = constant(&[(12_861, 50), (u64::MAX / 2, 6)], 256);
        assert!(silent[51].rate < 0.01 && silent[55].rate == 0.0, "{:?}", &silent[49..]);
    }

    #[test]
    fn a_small_change_is_found_by_what_it_sums_to() {
        // One packet in two hundred, far below what an interval shows.
        let estimates = constant(&[(12_861, 200), (12_925, 200)], 256);
        let after = 1e6 / 12_925.0;
        assert!((estimates[399].rate - after).abs() < 0.0005 * after, "{:?}", estimates[399]);
    }

    #[test]
    fn totals_without_their_times_are_measured_as_well_as_packets() {
        // 4.7 packets an interval, of which whole ones are told.
        let mut meter = Meter::new(1, 64, Time::ZERO);
        for n in 1..=40 {
            meter.set_total(0, n * 4700 / 1000 * 1000, 1000);
            meter.measure(Time::from_millis(n));
        }
        let Estimate { rate, tolerance, fresh } = meter.estimates()[0];
        assert!((rate * 1e3 - 4.7).abs() <= 0.05 && tolerance * 1e3 < 0.13 && !fresh, "{rate} {tolerance}");
        assert_eq!(meter.largest(0), 1000);
    }

    #[test]
    fn a_rate_that_changes_is_measured_without_the_part_of_a_packet_that_was_owed_before() {
        let after = 1e6 / 51_444.0;
        let off = |n: u64| constant(&[(12_861, 100 + n), (51_444, 1)], 256)[100 + n as usize].rate - after;
        let mean = (0..40).map(off).sum::<f64>() / 40.0;
        // The first packet of the new rate still comes at the old distance.
        assert!(mean.abs() < 0.5, "{mean} packets too many");
    }

    #[test]
    fn a_rate_may_be_off_by_a_packet_in_a_window_of_three_intervals_and_by_two_in_a_longer_one() {
        let tolerances: Vec<f64> = constant(&[(212_766, 9)], 64).iter().map(|estimate| estimate.tolerance).collect();
        // Its first interval was off; from then on it is steady, and each time that the window has doubled its older half is left out.
        for (tolerance, expected) in tolerances.iter().zip([1.0, 1.0, 1.0, 0.5, 1.0, 2.0 / 3.0, 0.5, 0.4, 0.5]) {
            assert!((tolerance - expected).abs() < 1e-9, "{tolerances:?}");
        }
    }

    #[test]
    fn a_change_of_one_packet_in_an_interval_is_found_in_the_next_or_the_fifth_where_it_is_the_second() {
        let estimates = constant(&[(12_861, 200), (13_028, 8)], 256);
        let off: Vec<f64> = estimates[200..].iter().map(|estimate| estimate.rate - 1e6 / 13_028.0).collect();
        assert!(off[1].abs() < 0.1, "{off:?}");
        // A source that was seen to move is given more room, and not at once all of it.
        let estimates = constant(&[(12_861, 200), (13_028, 40), (13_200, 8)], 256);
        let off: Vec<f64> = estimates[240..].iter().map(|estimate| estimate.rate - 1e6 / 13_200.0).collect();
        assert!(off[3] > 0.5 && off[4].abs() < 0.1, "{off:?}");
    }

    #[test]
    fn a_source_whose_packets_wander_is_given_room_and_measured_over_long_windows_all_the_same() {
        let mut rng = crate::rng::Rng::new(1);
        let mut meter = Meter::new(1, 256, Time::ZERO);
        let (mut due, mut estimates) = (Vec::new(), Vec::new());
        for interval in 1..=600u64 {
            // Twenty packets an interval, each up to two places late.
            let begin = (interval - 1) * 1_000_000;
            due.extend((0..20).map(|n| begin + n * 50_000 + rng.below(100_000)));
            due.sort_unstable();
            let now = interval * 1_000_000;
            for at in due.extract_if(.., |at| *at < now) {
                meter.count(Time::from_nanos(at), 0, 1000);
            }
            meter.measure(Time::from_nanos(now));
            estimates.push(meter.estimates()[0]);
        }
        let worst = estimates[300..].iter().map(|estimate| (estimate.rate * 1e3 - 20.0).abs()).fold(0.0, f64::max);
        let widest = estimates[300..].iter().map(|estimate| estimate.tolerance * 1e3).fold(0.0, f64::max);
        assert!(worst < 0.05 && widest < 0.05, "{worst} {widest}");
    }

    /// Intervals of a millisecond at whose ends so many bytes are sent, in packets of at most 1000, so that nothing is owed: the estimates in
    /// bytes an interval.
    fn told(intervals: &[u32]) -> Vec<Estimate> {
        let mut meter = Meter::new(1, 256, Time::ZERO);
        let mut estimates = Vec::new();
        for (n, bytes) in intervals.iter().enumerate() {
            let now = Time::from_millis(n as u64 + 1);
            for sent in (0..*bytes).step_by(1000) {
                meter.count(now, 0, 1000.min(bytes - sent));
            }
            meter.measure(now);
            let Estimate { rate, tolerance, fresh } = meter.estimates()[0];
            estimates.push(Estimate { rate: rate * 1e6, tolerance: tolerance * 1e6, fresh });
        }
        estimates
    }

    #[test]
    fn what_a_source_sends_that_stops_counts_though_it_is_less_than_what_was_owed() {
        let mut meter = Meter::new(1, 64, Time::ZERO);
        // The next packet of 1000 bytes was nearly due.
        for packet in 0..100 {
            meter.count(Time::from_nanos(10_000 + packet * 100_000), 0, 1000);
            if packet % 10 == 9 {
                meter.measure(Time::from_millis(packet / 10 + 1));
            }
        }
        meter.count(Time::from_nanos(10_500_000), 0, 100);
        meter.measure(Time::from_millis(11));
        let Estimate { rate, fresh, .. } = meter.estimates()[0];
        // With what it owes half an interval later.
        assert!(fresh && (rate * 1e6 - 150.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn a_source_that_was_seen_to_move_is_measured_since_its_window_last_doubled() {
        let mut intervals = [20_000; 20];
        intervals[19] += 600;
        let estimates = told(&intervals);
        assert!((estimates[17].tolerance - 200.0).abs() < 1e-6, "its window has doubled at 16, and began at 8");
        // Four intervals, in which it may be off by two packets, as in any window of as many.
        let moved = estimates[19];
        assert!((moved.rate - 20_150.0).abs() < 1e-6 && (moved.tolerance - 500.0).abs() < 1e-6, "{moved:?}");
    }

    #[test]
    fn a_source_that_was_seen_to_move_is_given_an_eighth_of_a_packet_more_room() {
        let mut intervals = vec![20_000; 16];
        // It wanders off by more and more, for each time it has been given more room, until it goes too far.
        intervals.extend([450, 400, 450, 400, 300, 600].map(|more| 20_000 + more));
        let moved = told(&intervals)[21].rate;
        assert!((moved - (20_000.0 + 2600.0 / 6.0)).abs() < 1e-6, "{moved}");
        // What is two and a half packets off would have been too far before, and is not any more.
        intervals.extend([moved as u32 + 1300; 2]);
        let rate = told(&intervals)[23].rate;
        assert!((rate - (20_000.0 + (2600.0 + 2.0 * 1733.0) / 8.0)).abs() < 1.0, "{rate}");
    }

    #[test]
    fn with_a_window_of_one_interval_the_counts_are_what_they_are() {
        let rates: Vec<f64> = constant(&[(212_766, 5)], 1).iter().map(|estimate| estimate.rate).collect();
        assert_eq!(rates.iter().map(|rate| *rate as u64).collect::<Vec<_>>(), vec![5, 5, 5, 4, 5]);
    }

    #[test]
    fn unknown_sources_and_intervals_without_length_change_nothing() {
        let mut meter = Meter::new(2, 8, Time::ZERO);
        meter.count(Time::ZERO, 7, 1000);
        meter.measure(Time::ZERO);
        assert_eq!(meter.estimates(), [Estimate::default(); 2]);
        meter.count(Time::ZERO, 1, u32::MAX);
        meter.measure(Time::from_nanos(1));
        assert!(meter.estimates()[1].rate.is_finite());
        meter.measure(Time::MAX);
        assert!(meter.estimates()[1].rate.is_finite() && meter.estimates()[1].rate >= 0.0);
    }
}
