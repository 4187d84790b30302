//! CUBIC's law: the window is a cubic function of the time since the last congestion event.
//!
//! Source: RFC 9438, section 4 (numbers beside the lines).
//!
//! | RFC 9438 | here |
//! |---|---|
//! | C, beta_cubic | [`Settings::c`], [`Settings::beta`] |
//! | W_max | `w_max`, in segments |
//! | K | `k`, in seconds |
//! | cwnd_prior, cwnd_epoch | `prior`, `epoch_window`, in segments |
//! | t_current - t_epoch | since `epoch` |
//! | W_est, alpha_cubic | `estimate`, `alpha` |
//!
//! Departures: growth counts what an ACK acknowledges, where 4.4 counts ACKs, so that delayed ACKs do not slow it. With
//! [`Settings::linux`] the window grows at least 5 % a round trip while no loss has told where the limit
//! is, and W_est keeps its alpha, as Linux does. Cost: a few multiplications an ACK, a cube root an epoch. Invariant: an
//! ACK of b bytes never grows the window by more than b/2 (target at most 1.5 cwnd) beyond what the Reno-friendly
//! region asks for.

use super::{Ack, Law};
use fairspan_core::units::{Span, Time};

/// CUBIC's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
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

impl Default for Settings {
    fn default() -> Settings {
        Settings { c: 0.4, beta: 0.7, fast_convergence: true, reno_friendly: true, linux: false }
    }
}

/// CUBIC's state.
#[derive(Clone, Debug)]
pub struct Cubic {
    pub(super) segment: f64,
    settings: Settings,
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
    pub fn new(segment: f64, settings: Settings) -> Cubic {
        Cubic {
            segment,
            settings,
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

    /// W_max, in segments.
    pub fn w_max(&self) -> f64 {
        self.w_max
    }

    /// K, in seconds.
    pub fn k(&self) -> f64 {
        self.k
    }

    fn begin(&mut self, now: Time, window: f64) {
        self.epoch = Some(now);
        if self.flat || self.w_max <= window {
            // 4.8, 4.10: K = 0, and W_max is the window at the beginning of this stage.
            self.k = 0.0;
            self.w_max = window;
        } else {
            // Equation 2.
            self.k = libm::cbrt((self.w_max - window) / self.settings.c);
        }
        self.flat = false;
        self.estimate = window;
        let beta = self.settings.beta;
        // 4.3: alpha_cubic, figure 2's equation.
        self.alpha = 3.0 * (1.0 - beta) / (1.0 + beta);
    }

    /// Equation 1: the window `seconds` into the epoch, in segments.
    fn cubic(&self, seconds: f64) -> f64 {
        let x = seconds - self.k;
        self.settings.c * x * x * x + self.w_max
    }
}

impl Law for Cubic {
    fn grow(&mut self, window: f64, ack: &Ack, bytes: u64) -> f64 {
        let cwnd = window / self.segment;
        let acked = bytes as f64 / self.segment;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin(ack.now, cwnd);
                ack.now
            }
        };
        let t = ack.now.since(epoch).as_secs_f64();
        // 4.3, equation 4.
        if self.settings.reno_friendly {
            if !self.settings.linux && self.estimate >= self.prior {
                self.alpha = 1.0;
            }
            self.estimate += self.alpha * acked / cwnd;
            if self.cubic(t) < self.estimate && self.estimate > cwnd {
                return self.estimate * self.segment;
            }
        }
        // 4.2: the target a round trip ahead, between the window and half as much again; 4.4 and 4.5: approached.
        let target = self.cubic(t + ack.smoothed_rtt.as_secs_f64()).clamp(cwnd, 1.5 * cwnd);
        let mut step = (target - cwnd) / cwnd * acked;
        if self.settings.linux && self.fresh {
            step = step.max(acked / 20.0);
        }
        window + step * self.segment
    }

    fn reduce(&mut self, window: f64, basis: f64) -> f64 {
        let cwnd = window / self.segment;
        // 4.7.
        self.w_max = if self.settings.fast_convergence && cwnd < self.w_max {
            cwnd * (1.0 + self.settings.beta) / 2.0
        } else {
            cwnd
        };
        self.prior = cwnd;
        self.epoch = None;
        self.flat = false;
        self.fresh = false;
        // 4.6.
        basis * self.settings.beta
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
