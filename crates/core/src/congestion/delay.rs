//! A law that goes by delay, and probes for bandwidth.
//!
//! What it is: a window that grows while packets find nearly empty queues and shrinks as soon as they wait. A loss says nothing.
//! It settles within some ten round trips, keeps the queue at a bottleneck near a target that all who meet there share, and finds
//! bandwidth that has become free by growing faster from round to round.
//! Source: EFL-MP names such a law (3.3) and does not give it; this is ours. It owes the target that depends on the flow's own
//! rate, and the decrease in proportion to the excess, to Swift (Kumar et al. 2020, 3.1 and 3.5), and the growth that becomes
//! faster to TIMELY (Mittal et al. 2015, algorithm 1, hyperactive increase).
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | W | window, in bytes | `window` |
//! | S | bytes of a full packet | `segment` |
//! | b | least round trip of the last 10 to 20 s | `base` |
//! | r | round trip of a sample; r - b is the queue's delay q | `handle_delay` |
//! | T = b/16 + S r/W | target of q: a share of the path, and a packet at the own rate | `Delay::target` |
//! | a | growth a round trip: a0 = 2 S at first | `step` |
//! | n | rounds in a row in which q stayed below T/2 | `calm` |
//! | beta = 0.8 | | `BETA` |
//!
//! A round lasts until a packet is acknowledged that was sent after it began.
//!
//! | when | what |
//! |---|---|
//! | start: each ACK of x bytes | W += x |
//! | start: q > T | W *= (b + T)/(b + q), which leaves a queue of T; the start is over |
//! | q <= T: each ACK of x bytes | W += a x/W |
//! | a round ends with n >= 5 | a = min(2 a, W/32), but not less than a0 |
//! | q > T/2 | a = a0, n = 0 |
//! | q > T, once a round | W *= max(1 - beta (q - T)/(b + q), 1/2) |
//! | 128 rounds without q < T/4 | W is halved for a round, and then what it was: the queue drains, and b is seen |
//! | a mark (ECN), once an episode | W *= 0.85 (RFC 8511); a = a0, n = 0 |
//! | a second timeout in a row | W /= 2: silence is no random loss |
//!
//! The pacing rate is W/r (twice that at the start), r smoothed by an eighth, so that a sender that follows it spreads what
//! its window allows. Of two flows both grow by a and both lose the same share, so they approach one another as flows of AIMD
//! do. T is longer for the slower one, which then gives way later: that holds where a window is a few packets. Who comes late finds
//! a queue and takes it for a part of b; the pauses of those who came before show it the truth (as BBR's do), within some
//! hundred round trips.
//!
//! Departures from Swift: no delay of hosts, no scaling by hops, windows not below one packet; a loss and a first timeout
//! change nothing. The constants are for paths whose delay jitters by less than b/16.
//! Cost: some ten operations on floats an ACK; only the four that IEEE 754 rounds exactly. Invariants: S <= W; W does not grow
//! where it did not limit the sender, nor while q > T.

use super::law::{Acked, Congested, Law, Sent};
use super::least::Least;
use super::window;
use crate::units::{Bytes, Rate, Span, Time};

/// Share of the excess that is taken back in a round.
const BETA: f64 = 0.8;
/// What of a window is left after a mark.
const MARKED: f64 = 0.85;
/// Rounds without a queue after which growth becomes faster.
const CALM: u32 = 5;
/// Rounds with a queue after which it is let drain for a round.
const FULL: u32 = 128;

/// The state of one sender.
#[derive(Clone, Debug)]
pub struct Delay {
    window: f64,
    segment: f64,
    initial: f64,
    starting: bool,
    step: f64,
    calm: u32,
    base: Least,
    /// Smoothed, in nanoseconds; zero before the first sample.
    round_trip: f64,
    /// A round ends when this position is acknowledged.
    round_end: u64,
    /// Whether this round has seen a queue, and whether it was answered.
    queued: bool,
    answered: bool,
    /// Rounds since the queue was nearly empty.
    full: u32,
    /// What the window was before the queue was let drain, in this round.
    paused: Option<f64>,
    /// A timeout came, and nothing was acknowledged since.
    silent: bool,
}

impl Delay {
    /// A fresh sender's.
    pub fn new(config: &window::Config) -> Delay {
        let segment = f64::from(config.segment.max(1));
        let initial = (config.initial_window as f64).max(segment);
        Delay {
            window: initial,
            segment,
            initial,
            starting: true,
            step: 2.0 * segment,
            calm: 0,
            base: Least::default(),
            round_trip: 0.0,
            round_end: 0,
            queued: false,
            answered: false,
            full: 0,
            paused: None,
            silent: false,
        }
    }

    /// T for a least round trip of `base` and this round trip, in nanoseconds.
    fn target(&self, base: f64, round_trip: f64) -> f64 {
        base / 16.0 + self.segment * round_trip / self.window
    }

    fn shrink(&mut self, share: f64) {
        let window = self.paused.take().unwrap_or(self.window);
        self.window = (window * share).max(self.segment);
        self.starting = false;
        self.restart_growth();
    }

    fn restart_growth(&mut self) {
        self.step = 2.0 * self.segment;
        self.calm = 0;
    }

    /// A round trip was measured: whether packets wait.
    fn handle_delay(&mut self, now: Time, sample: Span) {
        let sample = sample.as_nanos().max(1);
        let base = self.base.add(now, sample) as f64;
        let sample = sample as f64;
        let first = self.round_trip == 0.0;
        self.round_trip = if first { sample } else { self.round_trip + (sample - self.round_trip) / 8.0 };
        let (queue, target) = (sample - base, self.target(base, sample));
        if queue < target / 4.0 {
            self.full = 0;
        }
        if queue > target / 2.0 {
            self.restart_growth();
        }
        self.queued = queue > target;
        if !self.queued || self.answered || self.paused.is_some() {
            return;
        }
        self.answered = true;
        let share = if self.starting { (base + target) / sample } else { 1.0 - BETA * (queue - target) / sample };
        self.shrink(share.max(0.5));
    }

    fn end_round(&mut self, next: u64) {
        self.round_end = next;
        if let Some(window) = self.paused.take() {
            self.window = window;
        }
        self.full += 1;
        if self.full >= FULL {
            self.full = 0;
            self.paused = Some(self.window);
            self.window = (self.window / 2.0).max(self.segment);
        }
        if self.answered {
            self.answered = false;
            return;
        }
        self.calm += 1;
        if self.calm >= CALM && !self.starting {
            self.step = (2.0 * self.step).min(self.window / 32.0).max(2.0 * self.segment);
        }
    }
}

impl Law for Delay {
    fn on_sent(&mut self, _: &Sent) {}

    fn on_acked(&mut self, acked: &Acked) {
        self.silent = false;
        if acked.up_to >= self.round_end {
            self.end_round(acked.next);
        }
        if let Some(sample) = acked.rtt {
            let answered = self.answered;
            self.handle_delay(acked.now, sample);
            if self.answered && !answered {
                // What is under way was sent before the answer.
                self.round_end = acked.next;
            }
        }
        if acked.limited && !self.queued && self.paused.is_none() {
            let bytes = acked.bytes.as_u64() as f64;
            self.window += if self.starting { bytes } else { self.step * bytes / self.window };
        }
    }

    fn on_lost(&mut self, _: &Congested) {}

    fn on_ecn(&mut self, marked: &Congested) {
        if marked.begins {
            self.shrink(MARKED);
        }
    }

    fn on_timeout(&mut self, _: &Congested) {
        if core::mem::replace(&mut self.silent, true) {
            self.shrink(0.5);
        }
    }

    fn on_idle(&mut self, _: Span) {
        self.window = self.window.min(self.initial);
        self.starting = true;
        self.restart_growth();
    }

    fn on_recovery(&mut self, _: Bytes) {}

    fn on_undo(&mut self) {}

    fn window(&self) -> Bytes {
        Bytes::new(self.window as u64)
    }

    /// Losses bring the window down to where it is.
    fn threshold(&self) -> Bytes {
        self.window()
    }

    fn wants_delivery_rate(&self) -> bool {
        false
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if self.round_trip == 0.0 {
            return None;
        }
        let gain = if self.starting { 2.0 } else { 1.0 };
        Some(Rate::from_bits_per_sec((gain * self.window * 8e9 / self.round_trip) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    const PACKET: u64 = 192;
    const NANO: fn(u64) -> Time = Time::from_nanos;

    struct Flow {
        law: Delay,
        in_flight: u64,
        sent: u64,
        paced: f64,
        from: u64,
        until: u64,
        delivered: u64,
    }

    /// Flows over one link: `(rate in Gbit/s, from nanosecond)` steps, a round trip, every `loses`th packet lost. Gives each
    /// flow's deliveries in bytes and the mean queue in nanoseconds, in slices of `slice`.
    fn run(
        rates: &[(f64, u64)],
        trip: u64,
        loses: u64,
        times: &[(u64, u64)],
        slice: u64,
        end: u64,
    ) -> Vec<(Vec<u64>, u64)> {
        let mut flows: Vec<Flow> = times
            .iter()
            .map(|&(from, until)| {
                let law = Delay::new(&window::Config::new(PACKET as u32));
                Flow { law, in_flight: 0, sent: 0, paced: 0.0, from, until, delivered: 0 }
            })
            .collect();
        let mut events: VecDeque<(u64, usize, u64, u64, bool)> = VecDeque::new();
        let (mut free, mut count, mut out) = (0.0_f64, 0_u64, Vec::new());
        let (mut queues, mut samples) = (0.0_f64, 0_u64);
        for now in (0..end).step_by(20) {
            let rate = rates.iter().rev().find(|(_, from)| *from <= now).map_or(1.0, |(rate, _)| *rate);
            while let Some(&(at, flow, sent, position, lost)) = events.front()
                && at <= now
            {
                events.pop_front();
                let flow = &mut flows[flow];
                flow.in_flight -= PACKET;
                flow.delivered += if lost { 0 } else { PACKET };
                flow.law.on_acked(&Acked {
                    now: NANO(now),
                    bytes: Bytes::new(PACKET),
                    in_flight: Bytes::new(flow.in_flight),
                    rtt: (!lost).then(|| Span::from_nanos(at - sent)),
                    waited: None,
                    smoothed_rtt: Span::ZERO,
                    up_to: position + 1,
                    next: flow.sent,
                    limited: true,
                    recovering: false,
                    delivery: None,
                });
            }
            let number = flows.len();
            for turn in 0..number {
                let index = (turn + (now / 20) as usize) % number;
                let flow = &mut flows[index];
                while now >= flow.from
                    && now < flow.until
                    && (flow.in_flight + PACKET) as f64 <= flow.law.window
                    && flow.paced <= now as f64
                {
                    let rate_of = flow.law.pacing_rate().map_or(f64::INFINITY, |rate| rate.as_bits_per_sec() as f64);
                    flow.paced = flow.paced.max(now as f64 - 20.0) + PACKET as f64 * 8e9 / rate_of;
                    free = free.max(now as f64) + PACKET as f64 * 8.0 / rate;
                    queues += free - now as f64;
                    (samples, count) = (samples + 1, count + 1);
                    let lost = loses > 0 && count.is_multiple_of(loses);
                    events.push_back((free as u64 + trip, index, now, flow.sent, lost));
                    flow.sent += 1;
                    flow.in_flight += PACKET;
                }
            }
            if (now + 20) % slice == 0 {
                let delivered = flows.iter_mut().map(|flow| core::mem::take(&mut flow.delivered)).collect();
                out.push((delivered, queues as u64 / samples.max(1)));
                (queues, samples) = (0.0, 0);
            }
        }
        out
    }

    fn gbit(bytes: u64, slice: u64) -> f64 {
        bytes as f64 * 8.0 / slice as f64
    }

    #[test]
    fn one_flow_fills_a_lan_path_within_two_milliseconds_and_keeps_the_queue_short() {
        let out = run(&[(10.0, 0)], 30_000, 0, &[(0, u64::MAX)], 1_000_000, 6_000_000);
        for (delivered, queue) in &out[2..] {
            let rate = gbit(delivered[0], 1_000_000);
            assert!((9.8..10.01).contains(&rate), "{rate} of 10 Gbit/s");
            // T is 1.9 us and a packet of 154 ns.
            assert!(*queue < 3_500, "{queue} ns of queue");
        }
    }

    #[test]
    fn a_random_loss_is_not_congestion() {
        let clean = run(&[(10.0, 0)], 30_000, 0, &[(0, u64::MAX)], 1_000_000, 5_000_000);
        let lossy = run(&[(10.0, 0)], 30_000, 100, &[(0, u64::MAX)], 1_000_000, 5_000_000);
        for (clean, lossy) in clean[2..].iter().zip(&lossy[2..]) {
            let share = lossy.0[0] as f64 / clean.0[0] as f64;
            assert!((0.98..1.005).contains(&share), "{share}: a hundredth is lost");
        }
    }

    #[test]
    fn freed_bandwidth_is_taken_and_lost_bandwidth_given_back_within_two_milliseconds() {
        let rates = [(10.0, 0), (4.0, 4_000_000), (9.0, 8_000_000)];
        let out = run(&rates, 30_000, 0, &[(0, u64::MAX)], 1_000_000, 12_000_000);
        for (slice, expected) in [(6, 4.0), (7, 4.0), (10, 9.0), (11, 9.0)] {
            let rate = gbit(out[slice].0[0], 1_000_000);
            assert!((0.97 * expected..1.005 * expected).contains(&rate), "slice {slice}: {rate}, of {expected}");
            assert!(out[slice].1 < 8_000, "slice {slice}: {} ns of queue", out[slice].1);
        }
    }

    #[test]
    fn flows_that_meet_share_fairly_whoever_came_first() {
        for count in [2_u64, 4] {
            let times: Vec<(u64, u64)> = (0..count).map(|n| (n * 3_000_000, u64::MAX)).collect();
            let out = run(&[(10.0, 0)], 30_000, 0, &times, 5_000_000, 40_000_000);
            let (last, queue) = &out[7];
            let fair = 10.0 / count as f64;
            let rates: Vec<f64> = last.iter().map(|bytes| gbit(*bytes, 5_000_000)).collect();
            assert!(rates.iter().all(|rate| (0.8 * fair..1.2 * fair).contains(rate)), "{rates:?}, fair is {fair}");
            assert!(rates.iter().sum::<f64>() > 9.8, "{rates:?}");
            assert!(*queue < 8_000, "{queue} ns of queue");
        }
    }

    #[test]
    fn silence_halves_the_window_the_second_time_and_a_mark_takes_a_share() {
        let mut law = Delay::new(&window::Config::new(1000));
        let before = law.window().as_u64();
        law.on_timeout(&Congested::new(10_000));
        assert_eq!(law.window().as_u64(), before, "one loss, found by the timer");
        law.on_timeout(&Congested::new(10_000));
        assert_eq!(law.window().as_u64(), before / 2);
        law.on_ecn(&Congested::new(10_000));
        assert_eq!(law.window().as_u64(), 4250);
        (0..100).for_each(|_| law.on_ecn(&Congested::new(10_000)));
        assert_eq!(law.window().as_u64(), 1000);
    }
}
