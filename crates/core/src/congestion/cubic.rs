//! CUBIC's curve: the window is a cubic function of the time since the last congestion event.
//!
//! Source: RFC 9438, section 4 (numbers beside the lines).
//!
//! | RFC 9438 | here |
//! |---|---|
//! | C, beta_cubic | [`Config::c`], [`Config::beta`] |
//! | W_max | `w_max`, in segments |
//! | K | `k`, in seconds |
//! | cwnd_prior, cwnd_epoch | `prior`, `epoch_window`, in segments |
//! | t_current - t_epoch | since `epoch` |
//! | W_est, alpha_cubic | `estimate`, `alpha` |
//!
//! Departures: growth counts what an ACK acknowledges, where 4.4 counts ACKs, so that delayed ACKs do not slow it. With
//! [`Config::linux`] the window grows at least 5 % a round trip while no loss has told where the limit
//! is, and W_est keeps its alpha, as Linux does. Cost: a few multiplications an ACK, a cube root an epoch. Invariant: an
//! ACK of b bytes never grows the window by more than b/2 (target at most 1.5 cwnd) beyond what the Reno-friendly
//! region asks for.

use super::law::Acked;
use super::window::Curve;
use crate::units::{Span, Time};

/// CUBIC's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// C, in segments/s^3. Default 0.4 (RFC 9438, 5.1).
    pub c: f64,
    /// beta_cubic: what a congestion event leaves. Default 0.7 (RFC 9438, 4.6).
    pub beta: f64,
    /// Whether W_max comes down further when it was not reached again (RFC 9438, 4.7). Default yes.
    pub fast_convergence: bool,
    /// Whether the window is at least Reno's (RFC 9438, 4.3). Default yes.
    pub reno_friendly: bool,
    /// Linux's departures from the RFC, see the module. Default no.
    pub linux: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { c: 0.4, beta: 0.7, fast_convergence: true, reno_friendly: true, linux: false }
    }
}

/// CUBIC's state.
#[derive(Clone, Debug)]
pub struct Cubic {
    segment: f64,
    config: Config,
    w_max: f64,
    k: f64,
    prior: f64,
    epoch: Option<Time>,
    estimate: f64,
    alpha: f64,
    /// The next epoch begins without a W_max of its own: after a timeout or an early end of slow start.
    flat: bool,
    /// No congestion event so far.
    fresh: bool,
}

impl Cubic {
    /// For segments of `segment` bytes.
    pub fn new(segment: u32, config: Config) -> Cubic {
        Cubic {
            segment: f64::from(segment.max(1)),
            config,
            w_max: 0.0,
            k: 0.0,
            prior: 0.0,
            epoch: None,
            estimate: 0.0,
            alpha: 0.0,
            flat: true,
            fresh: true,
        }
    }

    fn begin(&mut self, now: Time, window: f64) {
        self.epoch = Some(now);
        if self.flat || self.w_max <= window {
            // 4.8, 4.10: K = 0, and W_max is the window at the beginning of this stage.
            self.k = 0.0;
            self.w_max = window;
        } else {
            // Equation 2.
            self.k = libm::cbrt((self.w_max - window) / self.config.c);
        }
        self.flat = false;
        self.estimate = window;
        let beta = self.config.beta;
        // 4.3: alpha_cubic, figure 2's equation.
        self.alpha = 3.0 * (1.0 - beta) / (1.0 + beta);
    }

    /// Equation 1: the window `seconds` into the epoch, in segments.
    fn cubic(&self, seconds: f64) -> f64 {
        let x = seconds - self.k;
        self.config.c * x * x * x + self.w_max
    }
}

impl Curve for Cubic {
    fn grow(&mut self, window: f64, acked: &Acked, bytes: u64) -> f64 {
        let cwnd = window / self.segment;
        let segments = bytes as f64 / self.segment;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin(acked.now, cwnd);
                acked.now
            }
        };
        let t = acked.now.since(epoch).as_secs_f64();
        let least = if self.config.linux && self.fresh { segments / 20.0 } else { 0.0 };
        // 4.3, equation 4.
        if self.config.reno_friendly {
            if !self.config.linux && self.estimate >= self.prior {
                self.alpha = 1.0;
            }
            self.estimate += self.alpha * segments / cwnd;
            if self.cubic(t) < self.estimate && self.estimate > cwnd {
                return self.estimate.max(cwnd + least) * self.segment;
            }
        }
        // 4.2: the target a round trip ahead, between the window and half as much again; 4.4 and 4.5: approached.
        let target = self.cubic(t + acked.smoothed_rtt.as_secs_f64()).clamp(cwnd, 1.5 * cwnd);
        let step = ((target - cwnd) / cwnd * segments).max(least);
        window + step * self.segment
    }

    fn reduce(&mut self, window: f64, basis: f64) -> f64 {
        let cwnd = window / self.segment;
        // 4.7.
        self.w_max = if self.config.fast_convergence && cwnd < self.w_max {
            cwnd * (1.0 + self.config.beta) / 2.0
        } else {
            cwnd
        };
        self.prior = cwnd;
        self.epoch = None;
        self.flat = false;
        self.fresh = false;
        // 4.6.
        basis * self.config.beta
    }

    fn on_timeout(&mut self) {
        self.epoch = None;
        self.flat = true;
    }

    fn on_slow_start_exit(&mut self, window: f64) {
        // 4.10.
        self.prior = window / self.segment;
        self.epoch = None;
        self.flat = true;
    }

    fn on_idle(&mut self, idle: Span) {
        if let Some(epoch) = &mut self.epoch {
            *epoch += idle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENT: f64 = 1000.0;

    fn acked(ms: u64, bytes: u64, rtt_ms: u64) -> Acked {
        Acked { smoothed_rtt: Span::from_millis(rtt_ms), ..Acked::new(ms, bytes) }
    }

    fn cubic() -> Cubic {
        Cubic::new(SEGMENT as u32, Config { reno_friendly: false, ..Config::default() })
    }

    // 4.2, equation 2, and 4.6: W_max = 100, cwnd_epoch = 70: K = cbrt(30/0.4) = 4.21716 s.
    #[test]
    fn k_is_the_cube_root_of_the_lost_window_over_c() {
        let mut law = cubic();
        let left = law.reduce(100.0 * SEGMENT, 100.0 * SEGMENT);
        assert_eq!(left, 70.0 * SEGMENT);
        law.grow(left, &acked(0, 1000, 100), 1000);
        assert!((law.k - 4.217_163_326_508_746).abs() < 1e-12, "{}", law.k);
        assert_eq!(law.w_max, 100.0);
    }

    // 4.4: target = W_cubic(0 + 0.1 s) = 0.4 (0.1 - 4.21716)^3 + 100 = 72.0835; one segment acknowledged of 70 adds a
    // seventieth of the way.
    #[test]
    fn an_ack_goes_its_share_of_the_way_to_the_target() {
        let mut law = cubic();
        law.reduce(100.0 * SEGMENT, 100.0 * SEGMENT);
        let grown = law.grow(70.0 * SEGMENT, &acked(0, 1000, 100), 1000);
        let target = 100.0 + 0.4 * (0.1_f64 - 4.217_163_326_508_746).powi(3);
        assert!((grown / SEGMENT - (70.0 + (target - 70.0) / 70.0)).abs() < 1e-9, "{grown}");
    }

    // 4.2: the target is at most half as much again as the window.
    #[test]
    fn a_target_far_ahead_is_cut_to_one_and_a_half_windows() {
        let mut law = cubic();
        law.reduce(100.0 * SEGMENT, 100.0 * SEGMENT);
        law.grow(70.0 * SEGMENT, &acked(0, 1000, 100), 1000);
        let grown = law.grow(70.0 * SEGMENT, &acked(60_000, 1000, 100), 1000);
        assert!((grown / SEGMENT - 70.5).abs() < 1e-9, "{grown}");
    }

    // 4.7: below the last W_max it gives way: 80 (1 + 0.7)/2 = 68.
    #[test]
    fn fast_convergence_lowers_the_maximum_when_it_was_not_reached() {
        let mut law = cubic();
        law.reduce(100.0 * SEGMENT, 100.0 * SEGMENT);
        law.reduce(80.0 * SEGMENT, 80.0 * SEGMENT);
        assert_eq!(law.w_max, 68.0);
        law.reduce(90.0 * SEGMENT, 90.0 * SEGMENT);
        assert_eq!(law.w_max, 90.0);
        let mut law = Cubic::new(SEGMENT as u32, Config { fast_convergence: false, ..Config::default() });
        law.reduce(100.0 * SEGMENT, 100.0 * SEGMENT);
        law.reduce(80.0 * SEGMENT, 80.0 * SEGMENT);
        assert_eq!(law.w_max, 80.0);
    }

    // 4.8: after a timeout K = 0 and W_max is the window where congestion avoidance begins.
    #[test]
    fn after_a_timeout_the_curve_starts_flat() {
        let mut law = cubic();
        law.reduce(100.0 * SEGMENT, 100.0 * SEGMENT);
        law.on_timeout();
        law.grow(70.0 * SEGMENT, &acked(5_000, 1000, 100), 1000);
        assert_eq!((law.k, law.w_max), (0.0, 70.0));
    }

    // 4.10: the same where slow start ended by itself.
    #[test]
    fn after_slow_start_without_a_loss_the_curve_starts_flat() {
        let mut law = cubic();
        law.on_slow_start_exit(50.0 * SEGMENT);
        law.grow(50.0 * SEGMENT, &acked(0, 1000, 100), 1000);
        assert_eq!((law.k, law.w_max), (0.0, 50.0));
    }

    // 4.3: alpha = 3 (1 - 0.7)/(1 + 0.7) = 9/17 a window, until W_est has reached cwnd_prior; then 1.
    #[test]
    fn the_reno_friendly_window_grows_by_alpha_and_then_by_one() {
        let mut law = Cubic::new(SEGMENT as u32, Config::default());
        let mut window = law.reduce(10.0 * SEGMENT, 10.0 * SEGMENT);
        assert_eq!(window, 7.0 * SEGMENT);
        // So short a round trip that the cubic part stands still.
        window = law.grow(window, &acked(0, 7000, 0), 7000);
        assert!((window / SEGMENT - (7.0 + 9.0 / 17.0)).abs() < 1e-9, "{window}");
        while window < 10.0 * SEGMENT {
            window = law.grow(window, &acked(0, window as u64, 0), window as u64);
        }
        let before = window;
        window = law.grow(window, &acked(0, window as u64, 0), window as u64);
        assert!((window - before - SEGMENT).abs() < 2.0, "{before} {window}");
    }

    // 5.8: idle time does not move the curve.
    #[test]
    fn time_in_which_nothing_was_to_send_does_not_count() {
        let mut busy = cubic();
        busy.reduce(100.0 * SEGMENT, 100.0 * SEGMENT);
        let mut idle = busy.clone();
        busy.grow(70.0 * SEGMENT, &acked(0, 1000, 100), 1000);
        idle.grow(70.0 * SEGMENT, &acked(0, 1000, 100), 1000);
        idle.on_idle(Span::from_secs(30));
        let one = busy.grow(70.0 * SEGMENT, &acked(1_000, 1000, 100), 1000);
        let other = idle.grow(70.0 * SEGMENT, &acked(31_000, 1000, 100), 1000);
        assert_eq!(one, other);
    }

    // Linux: 5 % a round trip while no loss has told the limit.
    #[test]
    fn linux_grows_by_a_twentieth_before_the_first_loss() {
        let mut law = Cubic::new(SEGMENT as u32, Config { linux: true, ..Config::default() });
        law.on_slow_start_exit(100.0 * SEGMENT);
        let grown = law.grow(100.0 * SEGMENT, &acked(0, 100_000, 10), 100_000);
        assert!((grown / SEGMENT - 105.0).abs() < 1e-9, "{grown}");
    }

    proptest! {
        /// The obvious model: with many small ACKs the window follows equation 1, a round trip behind its lead.
        #[test]
        fn the_window_follows_the_curve(w_max in 50.0..2000.0_f64, rtt_ms in 5u64..100, seconds in 1u64..12) {
            let mut law = cubic();
            let mut window = law.reduce(w_max * SEGMENT, w_max * SEGMENT);
            let mut at = 0;
            while at < seconds * 1000 {
                let bytes = window as u64 / 20;
                for _ in 0..20 {
                    window = law.grow(window, &acked(at, bytes, rtt_ms), bytes);
                }
                at += rtt_ms;
            }
            let k = (w_max * 0.3 / 0.4).powf(1.0 / 3.0);
            let curve = |t: f64| w_max + 0.4 * (t - k).powi(3);
            let (now, rtt) = (at as f64 / 1e3, rtt_ms as f64 / 1e3);
            // An exponential approach lags by about a round trip behind a target one round trip ahead.
            let slack = (curve(now + rtt) - curve(now - 2.0 * rtt)).abs() + 0.01 * w_max;
            prop_assert!((window / SEGMENT - curve(now)).abs() <= slack, "{} of {}", window / SEGMENT, curve(now));
        }
    }
}
