//! Vegas' curve: as many packets in the queue as two to four.
//!
//! What it is: once a round trip, the window is compared with what the path would carry without a queue. A sender that has fewer
//! than alpha packets waiting grows by a segment, one that has more than beta shrinks by one.
//! Source: Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", JSAC 13(8), 1995, sections III.B
//! and III.C; Linux's `tcp_vegas.c` where it says more.
//!
//! | paper, Linux | meaning | here |
//! |---|---|---|
//! | WindowSize | window in bytes | `window` |
//! | BaseRTT | least round trip of the connection | `base` |
//! | minRTT | least round trip of this round | `least` |
//! | Diff = W (RTT - BaseRTT)/RTT | bytes that wait in queues | `waiting` |
//! | alpha = 2, beta = 4 | segments that may wait | `ALPHA`, `BETA` |
//! | gamma = 1 | segments that wait where slow start ends | `GAMMA` |
//!
//! | when a round ends | what |
//! |---|---|
//! | fewer than three samples | as Reno: one segment more (Linux) |
//! | slow start and Diff > gamma | slow start ends, at W BaseRTT/RTT and a segment |
//! | Diff < alpha | W + S |
//! | Diff > beta | W - S, and slow start never comes back for that |
//! | otherwise | W |
//!
//! In slow start the window doubles in every second round and stands still in the others, so that what is measured is what it does.
//!
//! Departures from the paper, both as Linux: RTT is the least sample of a round, so that delayed ACKs and ACKs that waited count for
//! little; a loss halves what is under way, and it is found and repaired by TCP's own means and not by Vegas' finer clock.
//! Worked example: S = 1000 bytes, W = 10,000, BaseRTT = 100 ms. At 110 ms 909 bytes wait: W + S. At 150 ms 3,333 bytes: W. At 200 ms
//! 5,000: W - S.
//! Known of it, and not mended: who comes while a queue stands takes it for a part of BaseRTT, and has more than its share from then on;
//! beside Reno it gives way.
//! Cost: a few comparisons an ACK, a division a round. Invariant: in congestion avoidance the window moves by a segment a round at most.

use super::law::Acked;
use super::window::Curve;
use crate::units::Span;

/// Fewer segments than these wait: grow.
const ALPHA: f64 = 2.0;
/// More wait: shrink.
const BETA: f64 = 4.0;
/// More wait: slow start is over.
const GAMMA: f64 = 1.0;
/// Samples that a round needs to be believed.
const SAMPLES: u32 = 3;

/// Vegas' state.
#[derive(Clone, Debug)]
pub struct Vegas {
    segment: f64,
    /// Least round trips in nanoseconds: of the connection, and of this round.
    base: u64,
    least: u64,
    samples: u32,
    /// A round ends when this position is acknowledged.
    round_end: u64,
    /// Whether the window stands still in this round of slow start, so that a round trip shows what it does to the queue. The first
    /// ACK begins a round, in which it grows.
    still: bool,
}

/// What a round told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Round {
    /// It goes on.
    Unfinished,
    /// It had too few samples.
    Unknown,
    /// Its least round trip, and that of the connection.
    Measured(f64, f64),
}

impl Vegas {
    /// For segments of `segment` bytes.
    pub fn new(segment: u32) -> Vegas {
        Vegas {
            segment: f64::from(segment.max(1)),
            base: u64::MAX,
            least: u64::MAX,
            samples: 0,
            round_end: 0,
            still: true,
        }
    }

    fn observe(&mut self, acked: &Acked) -> Round {
        if let Some(sample) = acked.rtt {
            let sample = sample.as_nanos().max(1);
            self.base = self.base.min(sample);
            self.least = self.least.min(sample);
            self.samples += 1;
        }
        if acked.up_to < self.round_end {
            return Round::Unfinished;
        }
        let told =
            if self.samples < SAMPLES { Round::Unknown } else { Round::Measured(self.least as f64, self.base as f64) };
        self.restart(acked.next);
        told
    }

    fn restart(&mut self, end: u64) {
        self.round_end = end;
        self.least = u64::MAX;
        self.samples = 0;
    }
}

/// Diff: the bytes of `window` that wait in queues.
fn waiting(window: f64, least: f64, base: f64) -> f64 {
    window * (least - base) / least
}

impl Curve for Vegas {
    fn grow(&mut self, window: f64, acked: &Acked, _: u64) -> f64 {
        match self.observe(acked) {
            Round::Unfinished => window,
            Round::Unknown => window + self.segment,
            Round::Measured(least, base) => {
                let waiting = waiting(window, least, base);
                if waiting < ALPHA * self.segment {
                    window + self.segment
                } else if waiting > BETA * self.segment {
                    (window - self.segment).max(2.0 * self.segment)
                } else {
                    window
                }
            }
        }
    }

    fn leave_slow_start(&mut self, window: f64, acked: &Acked) -> Option<f64> {
        let round = self.observe(acked);
        if round != Round::Unfinished {
            self.still = !self.still;
        }
        let Round::Measured(least, base) = round else { return None };
        let over = waiting(window, least, base) > GAMMA * self.segment;
        over.then(|| (window * base / least + self.segment).min(window))
    }

    fn grows_in_slow_start(&self) -> bool {
        !self.still
    }

    fn reduce(&mut self, _: f64, basis: f64) -> f64 {
        self.restart(self.round_end);
        basis / 2.0
    }

    fn on_timeout(&mut self) {
        self.restart(self.round_end);
    }

    fn on_slow_start_exit(&mut self, _: f64) {}

    fn on_idle(&mut self, _: Span) {
        self.restart(self.round_end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::law::{Congested, Law};
    use super::super::window::{Config, Windowed};
    use super::*;
    use std::vec::Vec;

    const SEGMENT: u64 = 1000;

    fn law(window: u64, threshold: u64) -> Windowed<Vegas> {
        let config = Config { initial_window: window, initial_threshold: threshold, ..Config::new(SEGMENT as u32) };
        Windowed::new(&config, Vegas::new(SEGMENT as u32))
    }

    /// A round in which each segment of the window is acknowledged with this round trip. Gives the window after it.
    fn round(law: &mut Windowed<Vegas>, position: &mut u64, trip: u64) -> u64 {
        let window = law.window().as_u64();
        let end = *position + window;
        while *position < end {
            *position += SEGMENT;
            law.on_acked(&Acked {
                rtt: Some(Span::from_millis(trip)),
                up_to: *position,
                next: *position + window,
                ..Acked::new(0, SEGMENT)
            });
        }
        law.window().as_u64()
    }

    // The card's worked example.
    #[test]
    fn two_to_four_segments_wait_or_the_window_moves_by_one() {
        for (trip, expected) in [(110, 11_000.0), (150, 10_000.0), (200, 9_000.0)] {
            let mut vegas = Vegas { base: 100_000_000, round_end: 10_000, ..Vegas::new(SEGMENT as u32) };
            let acked =
                |up_to| Acked { rtt: Some(Span::from_millis(trip)), up_to, next: 20_000, ..Acked::new(0, SEGMENT) };
            for up_to in (1..10).map(|n| n * SEGMENT) {
                assert_eq!(vegas.grow(10_000.0, &acked(up_to), SEGMENT), 10_000.0, "within a round");
            }
            assert_eq!(vegas.grow(10_000.0, &acked(10_000), SEGMENT), expected, "{trip} ms");
        }
    }

    #[test]
    fn a_round_with_too_few_samples_is_reno_s() {
        let mut vegas = Vegas { base: 100_000_000, round_end: 2_000, ..Vegas::new(SEGMENT as u32) };
        let acked = |up_to| Acked { rtt: Some(Span::from_millis(500)), up_to, next: 20_000, ..Acked::new(0, SEGMENT) };
        assert_eq!(vegas.grow(10_000.0, &acked(1_000), SEGMENT), 10_000.0);
        assert_eq!(vegas.grow(10_000.0, &acked(2_000), SEGMENT), 11_000.0);
    }

    #[test]
    fn slow_start_ends_where_more_than_a_segment_waits() {
        let mut sender = law(4_000, u64::MAX);
        let mut position = 0;
        let mut windows = Vec::new();
        // 40 segments a round trip of 100 ms; what is beyond waits.
        for _ in 0..60 {
            let window = sender.window().as_u64();
            let trip = 100 * window.max(40_000) / 40_000;
            windows.push(round(&mut sender, &mut position, trip));
        }
        let grown = windows.windows(3).take(3).all(|three| three[2] > three[0] * 3 / 2);
        assert!(grown && windows[0] <= 8_000, "it doubles every second round: {windows:?}");
        let last = *windows.last().expect("sixty");
        assert!((42_000..=45_000).contains(&last), "two to four segments wait: {windows:?}");
        assert!(windows.iter().all(|window| *window <= 80_000), "it overshoots once by half at most: {windows:?}");
        assert!(sender.threshold().as_u64() <= 82_000, "slow start is over: {}", sender.threshold().as_u64());
    }

    #[test]
    fn a_window_that_shrinks_does_not_come_back_by_slow_start() {
        let mut sender = law(60_000, 60_000);
        let mut position = 0;
        round(&mut sender, &mut position, 100);
        // The first ACK of this one ends the round before.
        let mut before = round(&mut sender, &mut position, 300);
        for _ in 0..10 {
            let after = round(&mut sender, &mut position, 300);
            assert!(after <= before && before - after <= SEGMENT, "{before} {after}");
            before = after;
        }
        assert!(before < 55_000, "{before}");
        // The queue is gone: a segment a round, and no doubling.
        round(&mut sender, &mut position, 100);
        let before = sender.window().as_u64();
        let after = round(&mut sender, &mut position, 100);
        assert_eq!(after, before + SEGMENT);
    }

    #[test]
    fn a_loss_halves_what_is_under_way() {
        let mut sender = law(10_000, 2_000);
        sender.on_lost(&Congested::new(10_000));
        assert_eq!(sender.window().as_u64(), 5_000);
    }
}
