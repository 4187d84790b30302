//! What laws of a window have in common: slow start, the threshold, and taking back.
//!
//! What it is: the congestion window and the slow-start threshold, in bytes, and the rules that move them. Slow start is
//! the same for all (RFC 5681, 3.1; RFC 3465; left early by [`hystart`](super::hystart)); what follows is a [`Curve`] of growth
//! and of reduction: [`reno`](super::reno) (RFC 5681) or [`cubic`](super::cubic) (RFC 9438). Where the sender's recovery moves the
//! window by itself (inflation by duplicate ACKs, proportional rate reduction), it is followed.
//!
//! | RFC | here |
//! |---|---|
//! | cwnd, ssthresh | [`Law::window`], [`Law::threshold`] |
//! | FlightSize | `in_flight` of the events |
//! | SMSS | [`Config::segment`] |
//! | RW, LW, IW | restart, loss and initial window |
//! | L (RFC 3465) | [`Counting::Bytes`] |
//!
//! The pacing rate is Linux's (`tcp_update_pacing_rate`): twice the window a smoothed round trip while the window is below half
//! the threshold, 1.2 windows from there on, so that the window and not the pacer limits a sender in the long run. A curve may
//! have other shares ([`prague`](super::prague)).
//!
//! Departures: the window is a 64-bit float of bytes, so that a fraction of a byte is not lost between ACKs; only the
//! four operations that IEEE 754 rounds exactly, and `libm`'s cube root, touch it, so that every platform gives the same.
//! A mark of congestion reduces as a loss does (RFC 3168, 6.1.2), and is never taken back. Linux's pacing rate counts what is
//! under way where that is more than the window; ours counts the window.
//! Cost: a few float operations an ACK. Invariants: the window is never below one segment, the threshold never below two.

use super::hystart::{HyStart, HyStartPlusPlus};
use super::law::{Acked, Congested, Law, Sent};
use crate::units::{Bytes, Rate, Span, Time};

/// The constants.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// SMSS in bytes: what a full packet counts for.
    pub segment: u32,
    /// Initial window in bytes; [`initial_window`] tells what the RFCs allow.
    pub initial_window: u64,
    /// Slow-start threshold at the start, in bytes. RFC 5681 wants it arbitrarily high: `u64::MAX`.
    pub initial_threshold: u64,
    /// What an ACK counts for.
    pub counting: Counting,
    /// What is reduced at a loss.
    pub basis: Basis,
    /// When slow start ends before a loss.
    pub slow_start: SlowStart,
    /// Whether the window grows only while it is what limits the sender (RFC 9438, 5.8; Linux). RFC 5681 and ns-2 let it
    /// grow with every ACK.
    pub grow_only_when_limited: bool,
    /// Whether the sender follows the pacing rate: HyStart then allows for it.
    pub paced: bool,
}

impl Config {
    /// RFC 5681 with RFC 3465's byte counting (L = 2) and RFC 6928's initial window, for segments of `segment` bytes.
    pub fn new(segment: u32) -> Config {
        Config {
            segment,
            initial_window: initial_window(InitialWindow::Rfc6928, segment),
            initial_threshold: u64::MAX,
            counting: Counting::Bytes { limit: 2 },
            basis: Basis::InFlight,
            slow_start: SlowStart::Standard,
            grow_only_when_limited: false,
            paced: false,
        }
    }
}

/// What an ACK counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Each ACK of new data counts one segment, whatever it acknowledges: ns-2, and TCPs before RFC 3465.
    Acks,
    /// The bytes it acknowledges (RFC 3465), in slow start at most `limit` segments (L; 1 after a timeout, until slow
    /// start is over). RFC 5681 allows 1, RFC 3465 up to 2, Linux has no limit (`u32::MAX`).
    Bytes {
        /// L, in segments.
        limit: u32,
    },
}

/// What is reduced at a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The bytes under way: RFC 5681, equation 4.
    InFlight,
    /// The window, as far as the peer's window lets it be used, and the threshold in whole segments: ns-2.
    Window,
}

/// When slow start ends before a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStart {
    /// It does not: RFC 5681.
    Standard,
    /// HyStart as in Linux: delay and ACK trains.
    HyStart,
    /// HyStart++, RFC 9406.
    HyStartPlusPlus,
}

/// Initial windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// RFC 2581: as many segments as given, 1 or 2.
    Segments(u32),
    /// RFC 3390 and RFC 5681, 3.1: 2 to 4 segments by their size.
    Rfc3390,
    /// RFC 6928: 10 segments, at most max(2 segments, 14,600 bytes).
    Rfc6928,
}

/// The initial window in bytes for segments of `segment` bytes.
pub fn initial_window(which: InitialWindow, segment: u32) -> u64 {
    let segment = u64::from(segment);
    match which {
        InitialWindow::Segments(count) => segment * u64::from(count.max(1)),
        // RFC 5681, 3.1: by the size of the segment.
        InitialWindow::Rfc3390 => match segment {
            0..=1095 => 4 * segment,
            1096..=2190 => 3 * segment,
            _ => 2 * segment,
        },
        // RFC 6928, 2: min (10*MSS, max (2*MSS, 14600)).
        InitialWindow::Rfc6928 => (10 * segment).min((2 * segment).max(14_600)),
    }
}

/// A curve of growth and reduction. Times and windows in; the curve keeps what is its own.
pub trait Curve {
    /// What the window is after `acked` in congestion avoidance; `bytes` of it count.
    fn grow(&mut self, window: f64, acked: &Acked, bytes: u64) -> f64;
    /// The threshold after a congestion event, before the bound of two segments, from `basis` bytes; `window` is what the
    /// window was.
    fn reduce(&mut self, window: f64, basis: f64) -> f64;
    /// The threshold after a mark of congestion: as after a loss (RFC 3168, 6.1.2), where the curve says nothing else.
    fn reduce_for_mark(&mut self, window: f64, basis: f64) -> f64 {
        self.reduce(window, basis)
    }
    /// An acknowledgment came, in whichever state the sender is.
    fn on_delivered(&mut self, _acked: &Acked) {}
    /// Packets were marked.
    fn on_marked(&mut self, _marked: &Congested) {}
    /// The pacing rate, in percent of a window a round trip: in slow start, below half the threshold, and later.
    fn pacing(&self) -> (u64, u64) {
        PACING
    }
    /// A timeout began the loss window; [`Curve::reduce`] has been called for it.
    fn on_timeout(&mut self);
    /// An ACK came in slow start: the window at which slow start is over, where the curve finds that by itself.
    fn leave_slow_start(&mut self, _window: f64, _acked: &Acked) -> Option<f64> {
        None
    }
    /// Whether the window grows in this round of slow start.
    fn grows_in_slow_start(&self) -> bool {
        true
    }
    /// Slow start ended without a loss, at `window`.
    fn on_slow_start_exit(&mut self, window: f64);
    /// The sender had nothing to send, or could not, for `idle`: that time does not count.
    fn on_idle(&mut self, idle: Span);
}

#[derive(Clone, Debug)]
enum Exit {
    Standard,
    HyStart(HyStart),
    PlusPlus(HyStartPlusPlus),
}

/// What the last reduction changed, so that it can be taken back.
#[derive(Clone, Debug)]
struct Saved<C> {
    window: f64,
    threshold: u64,
    curve: C,
}

/// A law of a window that follows the curve `C` beyond slow start.
#[derive(Clone, Debug)]
pub struct Windowed<C> {
    segment: f64,
    window: f64,
    /// The window in whole bytes: senders ask for it more often than it changes.
    whole: u64,
    threshold: u64,
    counting: Counting,
    basis: Basis,
    grow_only_when_limited: bool,
    initial_window: u64,
    /// Slow start that follows a timeout: L is one segment there (RFC 3465, 2.3).
    after_timeout: bool,
    curve: C,
    exit: Exit,
    saved: Option<Saved<C>>,
    /// Since when the window has not been what limits.
    unlimited_since: Option<Time>,
    smoothed_rtt: Span,
}

/// Linux's `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`, in percent.
const PACING: (u64, u64) = (200, 120);

impl<C: Curve + Clone> Windowed<C> {
    /// A fresh sender's.
    pub fn new(config: &Config, curve: C) -> Windowed<C> {
        let segment = f64::from(config.segment.max(1));
        let window = (config.initial_window as f64).max(segment);
        Windowed {
            segment,
            window,
            whole: window as u64,
            threshold: config.initial_threshold.max(2 * u64::from(config.segment)),
            counting: config.counting,
            basis: config.basis,
            grow_only_when_limited: config.grow_only_when_limited,
            initial_window: config.initial_window,
            after_timeout: false,
            curve,
            exit: match config.slow_start {
                SlowStart::Standard => Exit::Standard,
                SlowStart::HyStart => Exit::HyStart(HyStart::new(config.segment, config.paced)),
                SlowStart::HyStartPlusPlus => Exit::PlusPlus(HyStartPlusPlus::new(config.segment, config.paced)),
            },
            saved: None,
            unlimited_since: None,
            smoothed_rtt: Span::ZERO,
        }
    }

    #[inline]
    fn set_window(&mut self, window: f64) {
        self.window = window;
        self.whole = window as u64;
    }

    #[inline]
    fn in_slow_start(&self) -> bool {
        self.window < self.threshold as f64
    }

    /// RFC 5681, 3.1, equation 2, with RFC 3465's limit; gives how many bytes are left for congestion avoidance.
    fn slow_start(&mut self, bytes: u64) -> u64 {
        let mut increase = match self.counting {
            Counting::Acks => self.segment,
            Counting::Bytes { limit } => {
                let limit = if self.after_timeout && limit != u32::MAX { 1 } else { limit };
                (bytes as f64).min(f64::from(limit) * self.segment)
            }
        };
        if let Exit::PlusPlus(exit) = &self.exit {
            increase = exit.increase(bytes, increase);
        }
        let room = self.threshold as f64 - self.window;
        match self.counting {
            // What goes past the threshold is congestion avoidance's.
            Counting::Bytes { limit: u32::MAX } if increase > room => {
                self.set_window(self.threshold as f64);
                (increase - room) as u64
            }
            _ => {
                self.set_window(self.window + increase);
                0
            }
        }
    }

    fn watch_delay(&mut self, acked: &Acked) {
        let slow_start = self.window < self.threshold as f64;
        if slow_start && let Some(window) = self.curve.leave_slow_start(self.window, acked) {
            self.set_window(window.max(self.segment));
            self.threshold = self.whole.max(2 * self.segment as u64);
            self.curve.on_slow_start_exit(self.window);
            return;
        }
        let leave = match &mut self.exit {
            Exit::Standard => false,
            Exit::HyStart(exit) => exit.on_ack(acked, slow_start, self.whole),
            // RFC 9406, 4.3: only in the initial slow start, which no loss has set a threshold for.
            Exit::PlusPlus(exit) => slow_start && self.threshold == u64::MAX && exit.on_ack(acked),
        };
        if leave {
            self.threshold = self.whole.max(2 * self.segment as u64);
            self.curve.on_slow_start_exit(self.window);
        }
    }

    fn save(&mut self) {
        self.saved = Some(Saved { window: self.window, threshold: self.threshold, curve: self.curve.clone() });
    }

    fn reduce(&mut self, event: &Congested, marked: bool) {
        let basis = match self.basis {
            Basis::InFlight => event.in_flight.as_u64() as f64,
            Basis::Window => self.window.min(event.limit.as_u64() as f64),
        };
        let mut threshold =
            if marked { self.curve.reduce_for_mark(self.window, basis) } else { self.curve.reduce(self.window, basis) };
        if self.basis == Basis::Window {
            threshold = libm::floor(threshold / self.segment) * self.segment;
        }
        // RFC 5681, equation 4: at least two segments.
        self.threshold = threshold.max(2.0 * self.segment) as u64;
        self.after_timeout = false;
        self.unlimited_since = None;
    }
}

impl<C: Curve + Clone> Law for Windowed<C> {
    #[inline]
    fn on_sent(&mut self, _: &Sent) {}

    #[inline]
    fn on_acked(&mut self, acked: &Acked) {
        self.smoothed_rtt = acked.smoothed_rtt;
        self.curve.on_delivered(acked);
        if acked.recovering || acked.bytes == Bytes::ZERO {
            return;
        }
        // In slow start a window half used counts as what limits, so that delayed ACKs do not stop growth (as in Linux).
        let grows = !self.grow_only_when_limited
            || acked.limited
            || (self.in_slow_start() && 2 * acked.in_flight.as_u64() >= self.whole);
        self.watch_delay(acked);
        if !grows {
            // RFC 9438, 5.8: time without the window as the limit does not count.
            self.unlimited_since.get_or_insert(acked.now);
            return;
        }
        if let Some(since) = self.unlimited_since.take() {
            self.curve.on_idle(acked.now.since(since));
        }
        let mut bytes = acked.bytes.as_u64();
        if self.in_slow_start() {
            if !self.curve.grows_in_slow_start() {
                return;
            }
            bytes = self.slow_start(bytes);
            if bytes == 0 {
                return;
            }
        }
        let window = self.curve.grow(self.window, acked, bytes).max(self.segment);
        if window < self.window {
            // A curve that shrinks does not come back by slow start.
            self.threshold = self.threshold.min((window as u64).max(2 * self.segment as u64));
        }
        self.set_window(window);
    }

    fn on_lost(&mut self, lost: &Congested) {
        if lost.begins {
            self.save();
            self.reduce(lost, false);
            self.set_window(self.threshold as f64);
        }
    }

    fn on_ecn(&mut self, marked: &Congested) {
        self.curve.on_marked(marked);
        if marked.begins {
            self.saved = None;
            self.reduce(marked, true);
            self.set_window(self.threshold as f64);
        }
    }

    fn on_timeout(&mut self, timeout: &Congested) {
        if timeout.begins {
            self.save();
            self.reduce(timeout, false);
        }
        // RFC 5681, 3.1, LW: one segment.
        self.set_window(self.segment);
        self.after_timeout = true;
        self.curve.on_timeout();
        if let Exit::HyStart(exit) = &mut self.exit {
            exit.reset();
        }
    }

    fn on_idle(&mut self, idle: Span) {
        // RFC 5681, 4.1: RW = min(IW, cwnd).
        self.set_window(self.window.min(self.initial_window as f64).max(self.segment));
        self.curve.on_idle(idle);
        self.unlimited_since = None;
    }

    #[inline]
    fn on_recovery(&mut self, window: Bytes) {
        self.set_window((window.as_u64() as f64).max(self.segment));
    }

    fn on_undo(&mut self) {
        // RFC 9438, 4.9; RFC 4015.
        if let Some(saved) = self.saved.take() {
            self.set_window(self.window.max(saved.window));
            self.threshold = self.threshold.max(saved.threshold);
            self.curve = saved.curve;
            self.after_timeout = false;
        }
    }

    #[inline]
    fn window(&self) -> Bytes {
        Bytes::new(self.whole)
    }

    #[inline]
    fn threshold(&self) -> Bytes {
        Bytes::new(self.threshold)
    }

    fn wants_delivery_rate(&self) -> bool {
        false
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if self.smoothed_rtt == Span::ZERO {
            return None;
        }
        let (begins, later) = self.curve.pacing();
        let percent = if self.whole < self.threshold / 2 { begins } else { later };
        let bits = u128::from(self.whole) * 8 * u128::from(percent) * 10_000_000;
        let rate = bits / u128::from(self.smoothed_rtt.as_nanos());
        Some(Rate::from_bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX)))
    }
}
