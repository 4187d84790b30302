//! Leaving slow start before it overflows the bottleneck's queue.
//!
//! What it is: [`HyStartPlusPlus`] (RFC 9406) compares the smallest round trip of a round with that of the round before;
//! a rise begins conservative slow start, which takes five rounds to be sure. [`HyStart`] is the older one as Linux has
//! it: a rise against the smallest round trip ever, or ACKs in a train that lasts half of it.
//!
//! Source: RFC 9406, 4.2 and 4.3. Ha and Rhee, "Hybrid Slow Start for High-Bandwidth and Long-Distance Networks", with
//! the constants of Linux 6.x: delay eta clamped to 4..16 ms (an eighth of the smallest round trip), eight samples, trains
//! with gaps of at most 2 ms, not below 16 segments, and a train's threshold
//! of half a round trip, or a whole one where the sender paces.
//!
//! | RFC 9406 | here |
//! |---|---|
//! | windowEnd | `round_end` |
//! | lastRoundMinRTT, currentRoundMinRTT | `last`, `current` |
//! | cssBaselineMinRtt | `baseline` |
//! | rttSampleCount | `samples` |
//!
//! Cost: a few comparisons an ACK. Invariant: neither moves the window; they tell when slow start is over.

use super::law::Acked;
use crate::units::{Span, Time};

/// RFC 9406, 4.3: MIN_RTT_THRESH, MAX_RTT_THRESH; Linux has the same bounds.
const RISE_BOUNDS: (Span, Span) = (Span::from_millis(4), Span::from_millis(16));
/// RFC 9406: MIN_RTT_DIVISOR; Linux: `delay_min >> 3`.
const RISE_DIVISOR: u64 = 8;
/// RFC 9406: N_RTT_SAMPLE; Linux: HYSTART_MIN_SAMPLES.
const SAMPLES: u32 = 8;
/// RFC 9406: CSS_GROWTH_DIVISOR.
const GROWTH_DIVISOR: f64 = 4.0;
/// RFC 9406: CSS_ROUNDS.
const CONSERVATIVE_ROUNDS: u32 = 5;
/// RFC 9406: L, in segments, of a sender that does not pace.
const BURST_LIMIT: f64 = 8.0;
/// Linux: `hystart_ack_delta_us`.
const TRAIN_GAP: Span = Span::from_millis(2);
/// Linux: `hystart_low_window`, in segments.
const LOW_WINDOW: u64 = 16;

fn rise(base: Span) -> Span {
    Span::from_nanos(base.as_nanos() / RISE_DIVISOR).clamp(RISE_BOUNDS.0, RISE_BOUNDS.1)
}

/// HyStart++'s state.
#[derive(Clone, Debug)]
pub struct HyStartPlusPlus {
    /// L, in bytes.
    most: f64,
    round_end: u64,
    last: Span,
    current: Span,
    samples: u32,
    /// In conservative slow start: the round trip that began it, and rounds so far.
    conservative: Option<(Span, u32)>,
}

impl HyStartPlusPlus {
    /// For segments of `segment` bytes; `paced`: the sender follows a pacing rate.
    pub fn new(segment: u32, paced: bool) -> HyStartPlusPlus {
        HyStartPlusPlus {
            most: if paced { f64::INFINITY } else { BURST_LIMIT * f64::from(segment) },
            round_end: 0,
            last: Span::MAX,
            current: Span::MAX,
            samples: 0,
            conservative: None,
        }
    }

    /// Takes an ACK in slow start; true when slow start is over.
    pub fn on_ack(&mut self, acked: &Acked) -> bool {
        // The samples of an ACK belong to the round that it ends.
        if let Some(rtt) = acked.rtt {
            self.current = self.current.min(rtt);
            self.samples += 1;
        }
        let mut over = false;
        if self.samples >= SAMPLES {
            match self.conservative {
                None => {
                    if self.last != Span::MAX && self.current >= self.last + rise(self.last) {
                        self.conservative = Some((self.current, 0));
                    }
                }
                // The rise was a passing one: slow start goes on.
                Some((baseline, _)) if self.current < baseline => self.conservative = None,
                Some(_) => {}
            }
        }
        if acked.up_to >= self.round_end {
            // RFC 9406, 4.2: a round ends when the byte that was the next to send at its start is acknowledged.
            if self.round_end > 0 {
                if let Some((_, rounds)) = &mut self.conservative {
                    *rounds += 1;
                    over = *rounds >= CONSERVATIVE_ROUNDS;
                }
                self.last = self.current;
            }
            self.current = Span::MAX;
            self.samples = 0;
            self.round_end = acked.next.max(acked.up_to + 1);
        }
        over
    }

    /// How much an ACK of `bytes` adds in slow start, where the sender's own rule says `increase`.
    pub fn increase(&self, bytes: u64, increase: f64) -> f64 {
        let limited = (bytes as f64).min(self.most);
        match self.conservative {
            None => limited.max(increase),
            Some(_) => limited / GROWTH_DIVISOR,
        }
    }
}

/// HyStart's state.
#[derive(Clone, Debug)]
pub struct HyStart {
    segment: u64,
    paced: bool,
    /// Smallest round trip ever.
    least: Span,
    round_end: u64,
    round_start: Time,
    last_ack: Time,
    current: Span,
    samples: u32,
    in_round: bool,
    found: bool,
}

impl HyStart {
    /// For segments of `segment` bytes; `paced`: the sender follows a pacing rate.
    pub fn new(segment: u32, paced: bool) -> HyStart {
        HyStart {
            segment: u64::from(segment),
            paced,
            least: Span::MAX,
            round_end: 0,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            current: Span::MAX,
            samples: 0,
            in_round: false,
            found: false,
        }
    }

    /// A timeout: slow start begins anew.
    pub fn reset(&mut self) {
        self.in_round = false;
        self.found = false;
    }

    /// Takes an ACK; true when slow start is over.
    pub fn on_ack(&mut self, acked: &Acked, slow_start: bool, window: u64) -> bool {
        let Some(rtt) = acked.rtt else { return false };
        self.least = self.least.min(rtt);
        if self.found || !slow_start {
            return false;
        }
        // Rounds begin below the low window too: one that began in their middle would have two rounds' smallest.
        if !self.in_round || acked.up_to > self.round_end {
            self.in_round = true;
            self.round_start = acked.now;
            self.last_ack = acked.now;
            self.round_end = acked.next;
            self.current = Span::MAX;
            self.samples = 0;
        }
        if window < LOW_WINDOW * self.segment {
            return false;
        }
        if acked.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = acked.now;
            // Linux allows for a burst of four largest offload units at twice the window a round trip, at most 1 ms.
            let slack = (u128::from(acked.smoothed_rtt.as_nanos()) * 4 * 65_536 / (2 * u128::from(window.max(1))))
                .min(1_000_000) as u64;
            // Linux: pacing spreads what is sent, and so the ACKs, over half a round trip by itself.
            let parts = if self.paced { 1 } else { 2 };
            if acked.now.since(self.round_start).as_nanos() > self.least.as_nanos().saturating_add(slack) / parts {
                self.found = true;
            }
        }
        self.current = self.current.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else if self.current > self.least + rise(self.least) {
            self.found = true;
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    /// Rounds of `acks` ACKs, a millisecond apart, each measuring `rtt` ms.
    struct Rounds {
        now: u64,
        una: u64,
        window: u64,
    }

    impl Rounds {
        fn new(window: u64) -> Rounds {
            Rounds { now: 0, una: 0, window }
        }

        fn round(&mut self, acks: u64, rtt: u64, gap: u64, mut take: impl FnMut(&Acked) -> bool) -> bool {
            let mut over = false;
            for _ in 0..acks {
                self.now += gap;
                self.una += self.window / acks;
                over |= take(&Acked {
                    in_flight: Bytes::new(self.window),
                    rtt: Some(Span::from_millis(rtt)),
                    smoothed_rtt: Span::from_millis(rtt),
                    up_to: self.una,
                    next: self.una + self.window,
                    ..Acked::new(self.now, self.window / acks)
                });
            }
            self.now += rtt;
            over
        }
    }

    // RFC 9406, 4.2: RttThresh = clamp(lastRoundMinRTT/8, 4 ms, 16 ms).
    #[test]
    fn the_rise_is_an_eighth_between_4_and_16_milliseconds() {
        let ms = Span::from_millis;
        assert_eq!(rise(ms(8)), ms(4));
        assert_eq!(rise(ms(80)), ms(10));
        assert_eq!(rise(ms(500)), ms(16));
    }

    // RFC 9406, 4.2: conservative slow start at a quarter, over after five rounds.
    #[test]
    fn a_rise_quarters_the_growth_and_ends_slow_start_after_five_rounds() {
        let mut exit = HyStartPlusPlus::new(1000, false);
        let mut rounds = Rounds::new(20_000);
        for _ in 0..3 {
            assert!(!rounds.round(20, 100, 1, |ack| exit.on_ack(ack)));
        }
        assert_eq!(exit.increase(1000, 1000.0), 1000.0);
        assert_eq!(exit.increase(20_000, 2000.0), 8000.0, "L = 8 without pacing");
        rounds.round(20, 113, 1, |ack| exit.on_ack(ack));
        assert_eq!(exit.increase(1000, 1000.0), 250.0);
        let mut more = 0;
        while !rounds.round(20, 113, 1, |ack| exit.on_ack(ack)) {
            more += 1;
            assert!(more < 10);
        }
        assert!((4..=5).contains(&more), "{more}");
    }

    // RFC 9406, 4.2: the rise was a passing one.
    #[test]
    fn a_rise_that_passes_resumes_slow_start() {
        let mut exit = HyStartPlusPlus::new(1000, false);
        let mut rounds = Rounds::new(20_000);
        rounds.round(20, 100, 1, |ack| exit.on_ack(ack));
        rounds.round(20, 100, 1, |ack| exit.on_ack(ack));
        rounds.round(20, 120, 1, |ack| exit.on_ack(ack));
        assert_eq!(exit.increase(1000, 1000.0), 250.0);
        rounds.round(20, 100, 1, |ack| exit.on_ack(ack));
        assert_eq!(exit.increase(1000, 1000.0), 1000.0);
    }

    // RFC 9406, 4.2: fewer than eight samples tell nothing.
    #[test]
    fn a_round_of_seven_samples_decides_nothing() {
        let mut exit = HyStartPlusPlus::new(1000, false);
        let mut rounds = Rounds::new(7_000);
        for rtt in [100, 100, 200, 300, 400] {
            assert!(!rounds.round(7, rtt, 1, |ack| exit.on_ack(ack)));
            assert_eq!(exit.increase(1000, 1000.0), 1000.0);
        }
    }

    #[test]
    fn linuxs_delay_rule_needs_more_than_eight_samples_above_an_eighth() {
        let mut exit = HyStart::new(1000, false);
        let mut rounds = Rounds::new(20_000);
        // Gaps of 3 ms: no train.
        assert!(!rounds.round(20, 100, 3, |ack| exit.on_ack(ack, true, 20_000)));
        assert!(!rounds.round(20, 112, 3, |ack| exit.on_ack(ack, true, 20_000)));
        assert!(rounds.round(20, 113, 3, |ack| exit.on_ack(ack, true, 20_000)));
    }

    #[test]
    fn linuxs_train_rule_ends_slow_start_when_acks_last_half_a_round_trip() {
        let mut exit = HyStart::new(1000, false);
        let mut rounds = Rounds::new(60_000);
        assert!(!rounds.round(45, 100, 1, |ack| exit.on_ack(ack, true, 60_000)));
        assert!(rounds.round(60, 100, 1, |ack| exit.on_ack(ack, true, 60_000)));
    }

    // Linux: a paced sender's own spacing is no sign; RFC 9406, 4.2: L is infinite where segments are paced.
    #[test]
    fn of_a_sender_that_paces_a_train_lasts_a_whole_round_trip_and_an_ack_counts_in_full() {
        let mut exit = HyStart::new(1000, true);
        let mut rounds = Rounds::new(90_000);
        assert!(!rounds.round(90, 100, 1, |ack| exit.on_ack(ack, true, 90_000)));
        let mut exit = HyStart::new(1000, true);
        let mut rounds = Rounds::new(120_000);
        assert!(rounds.round(120, 100, 1, |ack| exit.on_ack(ack, true, 120_000)));
        assert_eq!(HyStartPlusPlus::new(1000, true).increase(20_000, 2000.0), 20_000.0);
    }

    #[test]
    fn linux_lets_small_windows_alone() {
        let mut exit = HyStart::new(1000, false);
        let mut rounds = Rounds::new(15_000);
        for rtt in [100, 200, 300] {
            assert!(!rounds.round(15, rtt, 3, |ack| exit.on_ack(ack, true, 15_000)));
        }
    }

    // As a Linux 6.18 does over links of unlike delay: a fetch whose second window goes by a slower link ends slow start at
    // about 30 segments.
    #[test]
    fn the_round_in_which_the_window_reaches_16_segments_ends_with_its_last_segment() {
        let mut exit = HyStart::new(1000, false);
        let over = (1..40).find(|&n: &u64| {
            let rtt = Span::from_millis(if n <= 10 { 80 } else { 120 });
            let acked = Acked {
                in_flight: Bytes::new(10_000),
                rtt: Some(rtt),
                smoothed_rtt: rtt,
                up_to: 1000 * n,
                next: 10_000 + 2000 * n,
                ..Acked::new(80 + 3 * n, 1000)
            };
            exit.on_ack(&acked, true, 10_000 + 1000 * n)
        });
        // The first round ends with what was sent by its first ACK, 12 segments; the second one has eight samples by the 20th.
        assert_eq!(over, Some(21));
    }
}
