//! Congestion control: how much may be under way.
//!
//! What it is: the congestion window and the slow-start threshold, in bytes, and the rules that move them. Slow start is
//! the same for all (RFC 5681, 3.1; RFC 3465; left early by [`hystart`]); what follows is a law of growth and of
//! reduction, the trait [`Law`]: [`reno`] (RFC 5681) or [`cubic`] (RFC 9438). What is lost, and what goes out again during
//! recovery, is the sender's business: it tells the events, and may move the window inside a recovery by itself
//! ([`Congestion::set_window`]: inflation by duplicate ACKs, proportional rate reduction).
//!
//! | RFC | here |
//! |---|---|
//! | cwnd, ssthresh | [`Congestion::window`], [`Congestion::threshold`] |
//! | FlightSize | `in_flight` of the events |
//! | SMSS | [`Settings::segment`] |
//! | RW, LW, IW | restart, loss and initial window |
//! | L (RFC 3465) | [`Counting::Bytes`] |
//!
//! Departures: the window is a 64-bit float of bytes, so that a fraction of a byte is not lost between ACKs; only the
//! four operations that IEEE 754 rounds exactly, and `libm`'s cube root, touch it, so that every platform gives the same.
//! Cost: a few float operations an ACK. Invariants: the window is never below one segment, the threshold never below two.

pub mod cubic;
pub mod hystart;
pub mod reno;

use cubic::Cubic;
use fairspan_core::units::{Span, Time};
use hystart::{HyStart, HyStartPlusPlus};
use reno::Reno;

/// What to use, and its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// The law of growth and reduction.
    pub algorithm: Algorithm,
    /// SMSS in bytes: the largest payload of a segment.
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
    /// CUBIC's constants.
    pub cubic: cubic::Settings,
}

impl Settings {
    /// RFC 5681 with RFC 3465's byte counting (L = 2) and RFC 6928's initial window, for segments of `segment` bytes.
    pub fn new(algorithm: Algorithm, segment: u32) -> Settings {
        Settings {
            algorithm,
            segment,
            initial_window: initial_window(InitialWindow::Rfc6928, segment),
            initial_threshold: u64::MAX,
            counting: Counting::Bytes { limit: 2 },
            basis: Basis::InFlight,
            slow_start: SlowStart::Standard,
            grow_only_when_limited: false,
            cubic: cubic::Settings::default(),
        }
    }
}

/// A law of growth and reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681: one segment a round trip, half at a loss. Reno, NewReno and SACK differ in recovery, not in this.
    Reno,
    /// RFC 9438.
    Cubic,
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

/// An acknowledgment of new data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ack {
    /// When it came.
    pub now: Time,
    /// Bytes that it acknowledges for the first time; the SYN and the FIN are none.
    pub acknowledged: u64,
    /// Bytes that were under way before it (FlightSize).
    pub in_flight: u64,
    /// The round trip that it measures, if it does.
    pub rtt: Option<Span>,
    /// The smoothed round trip, this sample included; zero before the first.
    pub smoothed_rtt: Span,
    /// Stream position up to which all is acknowledged now (SND.UNA).
    pub una: u64,
    /// Stream position of the next new byte to send (SND.NXT).
    pub next: u64,
    /// Whether the window, and neither the application nor the peer, limited the sender before this ACK.
    pub limited: bool,
}

/// What a reduction starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congested {
    /// When it was found.
    pub now: Time,
    /// Bytes under way (FlightSize); what limited transmit sent is not counted (RFC 5681, 3.2, step 2).
    pub in_flight: u64,
    /// The most that the peer's window, or a setting, allows to be under way.
    pub limit: u64,
}

/// A law of growth and reduction. Times and windows in; the law keeps what is its own.
pub trait Law {
    /// What the window is after `ack` in congestion avoidance; `bytes` of it count.
    fn grow(&mut self, window: f64, ack: &Ack, bytes: u64) -> f64;
    /// The threshold after a congestion event, before the bound of two segments, from `basis` bytes; `window` is what the
    /// window was.
    fn reduce(&mut self, window: f64, basis: f64) -> f64;
    /// A timeout began the loss window; [`Law::reduce`] has been called for it.
    fn on_timeout(&mut self);
    /// Slow start ended without a loss, at `window`.
    fn on_slow_start_exit(&mut self, window: f64);
    /// The sender had nothing to send, or could not, for `idle`: that time does not count.
    fn on_idle(&mut self, idle: Span);
}

#[derive(Clone, Debug)]
enum AnyLaw {
    Reno(Reno),
    Cubic(Cubic),
}

impl AnyLaw {
    fn as_law(&mut self) -> &mut dyn Law {
        match self {
            AnyLaw::Reno(law) => law,
            AnyLaw::Cubic(law) => law,
        }
    }
}

#[derive(Clone, Debug)]
enum Exit {
    Standard,
    HyStart(HyStart),
    PlusPlus(HyStartPlusPlus),
}

/// What the last reduction changed, so that it can be taken back.
#[derive(Clone, Debug)]
struct Saved {
    window: f64,
    threshold: u64,
    law: AnyLaw,
}

/// The congestion state of one direction of a connection.
#[derive(Clone, Debug)]
pub struct Congestion {
    segment: f64,
    window: f64,
    threshold: u64,
    counting: Counting,
    basis: Basis,
    grow_only_when_limited: bool,
    initial_window: u64,
    /// Slow start that follows a timeout: L is one segment there (RFC 3465, 2.3).
    after_timeout: bool,
    law: AnyLaw,
    exit: Exit,
    saved: Option<Saved>,
    /// Since when the window has not been what limits.
    unlimited_since: Option<Time>,
}

impl Congestion {
    /// A fresh connection's state.
    pub fn new(settings: &Settings) -> Congestion {
        let segment = f64::from(settings.segment.max(1));
        Congestion {
            segment,
            window: (settings.initial_window as f64).max(segment),
            threshold: settings.initial_threshold.max(2 * u64::from(settings.segment)),
            counting: settings.counting,
            basis: settings.basis,
            grow_only_when_limited: settings.grow_only_when_limited,
            initial_window: settings.initial_window,
            after_timeout: false,
            law: match settings.algorithm {
                Algorithm::Reno => AnyLaw::Reno(Reno::new(segment, settings.counting)),
                Algorithm::Cubic => AnyLaw::Cubic(Cubic::new(segment, settings.cubic)),
            },
            exit: match settings.slow_start {
                SlowStart::Standard => Exit::Standard,
                SlowStart::HyStart => Exit::HyStart(HyStart::new(settings.segment)),
                SlowStart::HyStartPlusPlus => Exit::PlusPlus(HyStartPlusPlus::new(settings.segment)),
            },
            saved: None,
            unlimited_since: None,
        }
    }

    /// The congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.window as u64
    }

    /// The slow-start threshold in bytes; `u64::MAX` before the first reduction, if the settings set none.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Whether the window grows exponentially.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold as f64
    }

    /// Sets the window inside a recovery, or as a setting wants it; at least one segment.
    pub fn set_window(&mut self, bytes: u64) {
        self.window = (bytes as f64).max(self.segment);
    }

    /// New data is acknowledged, outside of a recovery.
    pub fn on_ack(&mut self, ack: &Ack) {
        self.watch_delay(ack);
        if self.grow_only_when_limited {
            if !ack.limited {
                // RFC 9438, 5.8: time without the window as the limit does not count.
                self.unlimited_since.get_or_insert(ack.now);
                return;
            }
            if let Some(since) = self.unlimited_since.take() {
                self.law.as_law().on_idle(ack.now.since(since));
            }
        }
        let mut bytes = ack.acknowledged;
        if self.in_slow_start() {
            bytes = self.slow_start(bytes);
            if bytes == 0 {
                return;
            }
        }
        self.window = self.law.as_law().grow(self.window, ack, bytes).max(self.segment);
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
        self.window += increase;
        match self.counting {
            // What goes past the threshold is congestion avoidance's.
            Counting::Bytes { limit: u32::MAX } if increase > room => {
                self.window = self.threshold as f64;
                (increase - room) as u64
            }
            _ => 0,
        }
    }

    fn watch_delay(&mut self, ack: &Ack) {
        let slow_start = self.window < self.threshold as f64;
        let leave = match &mut self.exit {
            Exit::Standard => false,
            Exit::HyStart(exit) => exit.on_ack(ack, slow_start, self.window as u64),
            // RFC 9406, 4.3: only in the initial slow start, which no loss has set a threshold for.
            Exit::PlusPlus(exit) => slow_start && self.threshold == u64::MAX && exit.on_ack(ack),
        };
        if leave {
            self.threshold = (self.window as u64).max(2 * self.segment as u64);
            self.law.as_law().on_slow_start_exit(self.window);
        }
    }

    /// Loss was found by duplicate ACKs, SACK or RACK (or an ECN echo came): threshold and window come down. Once a
    /// window of data (RFC 5681, 3.2; the caller sees to it).
    pub fn on_loss(&mut self, event: &Congested) {
        self.save();
        self.reduce(event);
        self.window = self.threshold as f64;
    }

    /// The retransmission timer expired; `first` unless the segment was already sent again by a timeout (RFC 5681, 3.1:
    /// the threshold is then left alone).
    pub fn on_timeout(&mut self, event: &Congested, first: bool) {
        if first {
            self.save();
            self.reduce(event);
        }
        // RFC 5681, 3.1, LW: one segment.
        self.window = self.segment;
        self.after_timeout = true;
        self.law.as_law().on_timeout();
        if let Exit::HyStart(exit) = &mut self.exit {
            exit.reset();
        }
    }

    fn save(&mut self) {
        self.saved = Some(Saved { window: self.window, threshold: self.threshold, law: self.law.clone() });
    }

    fn reduce(&mut self, event: &Congested) {
        let basis = match self.basis {
            Basis::InFlight => event.in_flight as f64,
            Basis::Window => self.window.min(event.limit as f64),
        };
        let mut threshold = self.law.as_law().reduce(self.window, basis);
        if self.basis == Basis::Window {
            threshold = (threshold / self.segment).floor() * self.segment;
        }
        // RFC 5681, equation 4: at least two segments.
        self.threshold = threshold.max(2.0 * self.segment) as u64;
        self.after_timeout = false;
        self.unlimited_since = None;
    }

    /// Recovery is over; the window is `window` from here on, as the kind of recovery has it (RFC 6582, 3.2, step 3;
    /// RFC 6675: the threshold).
    pub fn on_recovery_exit(&mut self, window: u64) {
        self.set_window(window);
    }

    /// Nothing was sent for more than a retransmission timeout (RFC 5681, 4.1): the restart window.
    pub fn on_idle(&mut self, idle: Span) {
        // RW = min(IW, cwnd).
        self.window = self.window.min(self.initial_window as f64).max(self.segment);
        self.law.as_law().on_idle(idle);
        self.unlimited_since = None;
    }

    /// The last reduction was for nothing (RFC 9438, 4.9; RFC 4015): window and threshold are at least what they were.
    /// Nothing happens when there is none to take back.
    pub fn undo(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.window = self.window.max(saved.window);
            self.threshold = self.threshold.max(saved.threshold);
            self.law = saved.law;
            self.after_timeout = false;
        }
    }

    /// The path's segment size changed.
    pub fn set_segment(&mut self, segment: u32) {
        self.segment = f64::from(segment.max(1));
        match &mut self.law {
            AnyLaw::Reno(law) => law.segment = self.segment,
            AnyLaw::Cubic(law) => law.segment = self.segment,
        }
        self.window = self.window.max(self.segment);
    }
}
