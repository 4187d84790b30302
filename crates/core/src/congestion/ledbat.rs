//! LEDBAT++: for what has time, behind everything else.
//!
//! What it is: a sender of the background, which keeps what it adds to queues below 60 ms and gives way to senders that fill them. It
//! measures round trips, and not one-way delays as LEDBAT, so the receiver has nothing to do.
//! Source: LEDBAT++, draft-irtf-iccrg-ledbat-plus-plus, section 4 (after RFC 6817).
//!
//! | draft | meaning | here |
//! |---|---|---|
//! | TARGET = 60 ms | what may wait in queues | `TARGET` |
//! | base delay | least round trip of the last ten minutes, in bins of one minute | `base` |
//! | delay | least of the last four samples, less the base | `queue` |
//! | GAIN = 1/min(16, ceil(2 TARGET/base)) | growth, in packets a round trip | `gain` |
//! | Constant = 1 | of the multiplicative decrease | |
//!
//! | when | what |
//! |---|---|
//! | slow start: each ACK of x bytes | W += GAIN x, up to the threshold; the first slow start also ends where delay > 3/4 TARGET |
//! | delay < TARGET: each ACK of x bytes | W += GAIN S x/W |
//! | otherwise | W += max(GAIN S - Constant W (delay/TARGET - 1), -W/2) x/W |
//! | slowdown: two round trips after the first slow start; then, nine times as long after each as it took | threshold = W; W = 2 S for two round trips, then slow start to the threshold. The queue drains, and the base is seen |
//! | a loss, once an episode | W/2; in a slowdown half of the threshold to which it leads back |
//! | a timeout | W = S, slow start to half of what was under way |
//!
//! Departures: the initial window is the sender's setting, and by default larger than the two packets of RFC 6817. RFC 6817's halving
//! for a mark of congestion is taken for LEDBAT++ too. Pacing is as of laws of a window: twice the window a round trip in slow
//! start, and 1.2 windows otherwise.
//! Worked example: base 40 ms: GAIN = 1/3. W = 30,000, S = 1000, delay 90 ms: a round of ACKs moves W by max(333 - 15,000, -15,000) =
//! -14,667.
//! Cost: some ten operations on floats an ACK; only the four that IEEE 754 rounds exactly. Invariants: S <= W, outside timeouts 2 S <= W; W does not grow
//! where it did not limit the sender.

use super::law::{Acked, Congested, Law, Sent};
use super::window;
use crate::units::{Bytes, Rate, Span, Time};

/// What may wait in queues, in nanoseconds.
const TARGET: f64 = 60e6;
/// Share of the target beyond which the first slow start ends.
const EARLY: f64 = 0.75;
/// The least gain is one over this.
const LEAST_GAIN: f64 = 16.0;
/// Bins of the history of base delays, and how long one is.
const BINS: usize = 10;
const BIN: Span = Span::from_secs(60);
/// Samples of which the least is the delay of now.
const FILTER: usize = 4;
/// Round trips that a slowdown holds the window down.
const FROZEN: u32 = 2;
/// How much longer than a slowdown the time to the next one is.
const BETWEEN: u64 = 9;

/// What the window does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first slow start, or that after a timeout or a pause.
    SlowStart,
    /// By the delay; the next slowdown begins then.
    Steady(Time),
    /// Two packets, for so many round trips more; since when.
    Frozen(u32, Time),
    /// Slow start up to what was before; since when the slowdown lasts.
    Ramp(Time),
}

/// The state of one sender.
#[derive(Clone, Debug)]
pub struct Ledbat {
    window: f64,
    threshold: f64,
    segment: f64,
    initial: f64,
    phase: Phase,
    /// Whether the first slow start goes on, which the delay may end.
    first: bool,
    bins: [u64; BINS],
    bin: usize,
    bin_end: Time,
    recent: [u64; FILTER],
    place: usize,
    smoothed_rtt: Span,
    /// A round ends when this position is acknowledged.
    round_end: u64,
    /// What the last loss changed: window, threshold and phase before it.
    saved: Option<(f64, f64, Phase)>,
}

impl Ledbat {
    /// A fresh sender's.
    pub fn new(config: &window::Config) -> Ledbat {
        let segment = f64::from(config.segment.max(1));
        let initial = (config.initial_window as f64).max(segment);
        Ledbat {
            window: initial,
            threshold: config.initial_threshold as f64,
            segment,
            initial,
            phase: Phase::SlowStart,
            first: true,
            bins: [u64::MAX; BINS],
            bin: 0,
            bin_end: Time::ZERO,
            recent: [u64::MAX; FILTER],
            place: 0,
            smoothed_rtt: Span::ZERO,
            round_end: 0,
            saved: None,
        }
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        let rtt = rtt.as_nanos().max(1);
        if now >= self.bin_end {
            if self.bin_end > Time::ZERO {
                self.bin = (self.bin + 1) % BINS;
                self.bins[self.bin] = u64::MAX;
            }
            self.bin_end = now + BIN;
        }
        self.bins[self.bin] = self.bins[self.bin].min(rtt);
        self.recent[self.place] = rtt;
        self.place = (self.place + 1) % FILTER;
    }

    /// Base delay and delay of queues, in nanoseconds; `None` before a sample.
    fn delays(&self) -> Option<(f64, f64)> {
        let base = self.bins.iter().copied().min().filter(|base| *base != u64::MAX)?;
        let now = self.recent.iter().copied().min()?;
        Some((base as f64, now.saturating_sub(base) as f64))
    }

    /// GAIN, for a least round trip of `base` nanoseconds.
    fn gain(base: f64) -> f64 {
        1.0 / libm::ceil(2.0 * TARGET / base.max(1.0)).clamp(1.0, LEAST_GAIN)
    }

    /// A round trip later, or twice.
    fn trips(&self, count: u64) -> Span {
        self.smoothed_rtt.times(count)
    }

    fn freeze(&mut self, now: Time) {
        self.threshold = self.window.max(2.0 * self.segment);
        self.window = 2.0 * self.segment;
        self.phase = Phase::Frozen(FROZEN, now);
    }

    /// The window is where it is to be: what the queue says counts from here on.
    fn settle(&mut self, next: Time) {
        self.phase = Phase::Steady(next);
        self.first = false;
    }

    fn grow(&mut self, acked: &Acked, base: f64, queue: f64) {
        let (gain, bytes) = (Ledbat::gain(base), acked.bytes.as_u64() as f64);
        match self.phase {
            Phase::Frozen(..) => {}
            Phase::SlowStart | Phase::Ramp(_) => {
                self.window = (self.window + gain * bytes).min(self.threshold);
                let full = self.first && queue > EARLY * TARGET;
                if self.window < self.threshold && !full {
                    return;
                }
                let next = match self.phase {
                    Phase::Ramp(since) => acked.now + acked.now.since(since).times(BETWEEN),
                    _ => acked.now + self.trips(2),
                };
                self.settle(next);
            }
            Phase::Steady(_) => {
                let step = gain * self.segment;
                let step = if queue < TARGET {
                    step
                } else {
                    (step - self.window * (queue / TARGET - 1.0)).max(-self.window / 2.0)
                };
                self.window = (self.window + step * (bytes / self.window).min(1.0)).max(2.0 * self.segment);
            }
        }
    }

    fn halve(&mut self, now: Time, lost: bool) {
        self.saved = lost.then_some((self.window, self.threshold, self.phase));
        let half = |window: f64, segment: f64| (window / 2.0).max(2.0 * segment);
        if matches!(self.phase, Phase::Frozen(..) | Phase::Ramp(_)) {
            // What was lost was sent before the slowdown, or shows that its end is too far.
            self.threshold = half(self.threshold, self.segment);
            self.window = self.window.min(self.threshold);
            return;
        }
        self.window = half(self.window, self.segment);
        self.threshold = self.window;
        self.settle(match self.phase {
            Phase::Steady(next) => next,
            _ => now + self.trips(2),
        });
    }
}

impl Law for Ledbat {
    fn on_sent(&mut self, _: &Sent) {}

    fn on_acked(&mut self, acked: &Acked) {
        self.smoothed_rtt = acked.smoothed_rtt;
        if let Some(rtt) = acked.rtt {
            self.sample(acked.now, rtt);
        }
        let ends = acked.up_to >= self.round_end;
        if ends {
            self.round_end = acked.next;
        }
        match self.phase {
            Phase::Frozen(trips, since) if ends => {
                self.phase = if trips > 1 { Phase::Frozen(trips - 1, since) } else { Phase::Ramp(since) };
            }
            Phase::Steady(next) if acked.now >= next && !acked.recovering => {
                self.freeze(acked.now);
                return;
            }
            _ => {}
        }
        if !acked.recovering
            && acked.limited
            && let Some((base, queue)) = self.delays()
        {
            self.grow(acked, base, queue);
        }
    }

    fn on_lost(&mut self, lost: &Congested) {
        if lost.begins {
            self.halve(lost.now, true);
        }
    }

    fn on_ecn(&mut self, marked: &Congested) {
        if marked.begins {
            self.halve(marked.now, false);
        }
    }

    fn on_timeout(&mut self, timeout: &Congested) {
        if timeout.begins {
            self.saved = Some((self.window, self.threshold, self.phase));
            self.threshold = (timeout.in_flight.as_u64() as f64 / 2.0).max(2.0 * self.segment);
        }
        self.window = self.segment;
        self.phase = Phase::SlowStart;
        self.first = false;
    }

    fn on_idle(&mut self, _: Span) {
        self.window = self.window.min(self.initial);
        self.phase = Phase::SlowStart;
    }

    fn on_recovery(&mut self, window: Bytes) {
        self.window = (window.as_u64() as f64).max(self.segment);
    }

    fn on_undo(&mut self) {
        if let Some((window, threshold, phase)) = self.saved.take() {
            (self.window, self.threshold) = (self.window.max(window), self.threshold.max(threshold));
            self.phase = phase;
        }
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.window as u64)
    }

    fn threshold(&self) -> Bytes {
        Bytes::new(self.threshold as u64)
    }

    fn wants_delivery_rate(&self) -> bool {
        false
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if self.smoothed_rtt == Span::ZERO {
            return None;
        }
        let gain = if matches!(self.phase, Phase::SlowStart | Phase::Ramp(_)) { 2.0 } else { 1.2 };
        Some(Rate::from_bits_per_sec((gain * self.window * 8e9 / self.smoothed_rtt.as_nanos() as f64) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    const SEGMENT: u64 = 1000;

    struct Sender {
        law: Ledbat,
        position: u64,
        ms: u64,
    }

    impl Sender {
        fn new() -> Sender {
            let config = window::Config { initial_window: 2 * SEGMENT, ..window::Config::new(SEGMENT as u32) };
            Sender { law: Ledbat::new(&config), position: 0, ms: 0 }
        }

        fn window(&self) -> f64 {
            self.law.window
        }

        /// A round trip of this length, in which the whole window is acknowledged.
        fn round(&mut self, trip: u64) {
            let window = self.law.window().as_u64();
            let end = self.position + window;
            self.ms += trip;
            while self.position < end {
                self.position += SEGMENT;
                self.law.on_acked(&Acked {
                    rtt: Some(Span::from_millis(trip)),
                    smoothed_rtt: Span::from_millis(trip),
                    up_to: self.position,
                    next: self.position + window,
                    ..Acked::new(self.ms, SEGMENT)
                });
            }
        }

        /// Past the first slow start, with a window of `bytes` and no slowdown for an hour.
        fn steady(bytes: f64, base: u64) -> Sender {
            let mut sender = Sender::new();
            sender.law.sample(Time::from_millis(1), Span::from_millis(base));
            sender.law.window = bytes;
            sender.law.settle(Time::from_millis(3_600_000));
            sender
        }
    }

    #[test]
    fn the_gain_follows_the_base_delay_within_its_bounds() {
        // 2 * 60 / base, rounded up.
        for (base, whole) in [(40e6, 3.0), (60e6, 2.0), (120e6, 1.0), (500e6, 1.0), (1e6, 16.0), (41e6, 3.0)] {
            assert_eq!(Ledbat::gain(base), 1.0 / whole, "{base}");
        }
    }

    // The card's worked example: -14,667 of 30,000 in a round, ACK by ACK.
    #[test]
    fn a_queue_beyond_the_target_shrinks_the_window_by_the_excess_and_by_half_at_most() {
        let mut sender = Sender::steady(30_000.0, 40);
        sender.law.recent = [130_000_000; FILTER];
        let first = sender.window();
        sender.law.grow(&Acked::new(100, SEGMENT), 40e6, 90e6);
        let step = (sender.window() - first) * 30.0;
        assert!((step + 14_667.0).abs() < 1.0, "{step}");
        // However long the queue.
        let mut sender = Sender::steady(30_000.0, 40);
        sender.law.grow(&Acked::new(100, 30_000), 40e6, 900e6);
        assert_eq!(sender.window(), 15_000.0);
        // Below the target a third of a segment a round.
        let mut sender = Sender::steady(30_000.0, 40);
        sender.law.grow(&Acked::new(100, 30_000), 40e6, 30e6);
        assert!((sender.window() - 30_333.3).abs() < 0.1, "{}", sender.window());
    }

    #[test]
    fn the_first_slow_start_ends_at_three_quarters_of_the_target_and_a_slowdown_follows() {
        let mut sender = Sender::new();
        // Without a queue it grows by 1/3 of what is acknowledged.
        sender.round(40);
        assert!((sender.window() - 2_666.0).abs() < 1.0, "{}", sender.window());
        let mut windows = vec![sender.window()];
        // A link of 40 kB a round trip of 40 ms: what is beyond waits.
        while sender.ms < 20_000 {
            let trip = (40.0 * sender.window().max(40_000.0) / 40_000.0) as u64;
            sender.round(trip);
            windows.push(sender.window());
        }
        // The window stands at two packets, then at 2 again, and climbs back.
        let slow = windows.iter().position(|window| *window == 2_000.0).expect("a slowdown");
        let top = windows[..slow].iter().fold(0.0_f64, |most, window| most.max(*window));
        assert!((80_000.0..110_000.0).contains(&top), "45 ms of queue: {top}");
        let after = windows[slow..].iter().position(|window| *window > 0.9 * top).expect("it comes back");
        assert!((5..40).contains(&after), "{after} rounds");
        let again = windows[slow + after..].iter().position(|window| *window == 2_000.0).expect("another slowdown");
        assert!(again > 3 * after, "{after} rounds of a slowdown, {again} between");
        // It holds the queue near the target meanwhile: 60 ms of 40 kB in 40 ms.
        let between = &windows[slow + after..slow + after + again];
        let mean = between.iter().sum::<f64>() / between.len() as f64;
        assert!((70_000.0..110_000.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_loss_halves_the_window_and_can_be_undone_and_a_timeout_begins_anew() {
        let mut sender = Sender::steady(30_000.0, 40);
        sender.law.on_lost(&Congested::new(30_000));
        assert_eq!(sender.window(), 15_000.0);
        sender.law.on_lost(&Congested { begins: false, ..Congested::new(30_000) });
        assert_eq!(sender.window(), 15_000.0);
        sender.law.on_undo();
        assert_eq!(sender.window(), 30_000.0);
        sender.law.on_timeout(&Congested::new(30_000));
        assert_eq!((sender.window(), sender.law.threshold), (1_000.0, 15_000.0));
        (0..20).for_each(|_| sender.law.on_lost(&Congested::new(3_000)));
        assert_eq!(sender.window(), 2_000.0);
    }

    #[test]
    fn a_loss_takes_neither_the_first_slowdown_away_nor_the_window_that_a_slowdown_leads_back_to() {
        let mut sender = Sender::new();
        sender.round(40);
        sender.law.on_lost(&Congested { now: Time::from_millis(sender.ms), ..Congested::new(2_000) });
        assert_eq!(sender.law.phase, Phase::Steady(Time::from_millis(40 + 80)), "two round trips after slow start");
        let mut sender = Sender::steady(30_000.0, 40);
        sender.law.freeze(Time::from_millis(10));
        sender.law.on_lost(&Congested::new(2_000));
        assert_eq!((sender.window(), sender.law.threshold), (2_000.0, 15_000.0));
        assert_eq!(sender.law.phase, Phase::Frozen(FROZEN, Time::from_millis(10)));
    }

    #[test]
    fn a_timeout_that_was_none_leaves_the_phase_as_it_was() {
        let mut sender = Sender::steady(30_000.0, 40);
        let phase = sender.law.phase;
        sender.law.threshold = 20_000.0;
        sender.law.on_timeout(&Congested::new(30_000));
        sender.law.on_undo();
        assert_eq!((sender.window(), sender.law.phase), (30_000.0, phase));
        sender.law.grow(&Acked::new(100, SEGMENT), 40e6, 0.0);
        assert!(sender.window() > 30_000.0, "no slow start clips it: {}", sender.window());
    }

    #[test]
    fn the_base_delay_is_forgotten_after_ten_minutes() {
        let mut law = Sender::new().law;
        law.sample(Time::from_millis(1000), Span::from_millis(20));
        for minute in 0..9 {
            law.sample(Time::from_millis(62_000 + minute * 61_000), Span::from_millis(50));
        }
        assert_eq!(law.delays().map(|delays| delays.0), Some(20e6));
        law.sample(Time::from_millis(700_000), Span::from_millis(50));
        assert_eq!(law.delays().map(|delays| delays.0), Some(50e6));
    }
}
