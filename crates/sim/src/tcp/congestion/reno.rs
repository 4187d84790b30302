//! Reno's law: additive increase, multiplicative decrease.
//!
//! What it is: one segment more each round trip, half at a loss. Source: RFC 5681, 3.1 (equations 3 and 4); RFC 3465,
//! 2.1 (byte counting in congestion avoidance).
//!
//! | RFC | here |
//! |---|---|
//! | bytes_acked (RFC 3465) | `counted` |
//! | SMSS | `segment` |
//!
//! Cost: a division an ACK when ACKs count, none when bytes do. Invariant: with byte counting a full window
//! acknowledged adds one segment, however many ACKs did it.

use super::{Ack, Counting, Law};
use fairspan_core::units::Span;

/// Reno's state.
#[derive(Clone, Debug)]
pub struct Reno {
    pub(super) segment: f64,
    by_bytes: bool,
    /// Bytes acknowledged since the window last grew.
    counted: f64,
}

impl Reno {
    /// For segments of `segment` bytes.
    pub fn new(segment: f64, counting: Counting) -> Reno {
        Reno { segment, by_bytes: matches!(counting, Counting::Bytes { .. }), counted: 0.0 }
    }
}

impl Law for Reno {
    fn grow(&mut self, window: f64, _: &Ack, bytes: u64) -> f64 {
        if !self.by_bytes {
            // RFC 5681, equation 3: cwnd += SMSS*SMSS/cwnd.
            return window + self.segment * self.segment / window;
        }
        // RFC 3465, 2.1.
        self.counted += bytes as f64;
        if self.counted < window {
            return window;
        }
        self.counted -= window;
        // An ACK of several windows adds one segment only: RFC 5681, 3.1 allows no more than one a round trip.
        self.counted = self.counted.min(window);
        window + self.segment
    }

    fn reduce(&mut self, _: f64, basis: f64) -> f64 {
        self.counted = 0.0;
        basis / 2.0
    }

    fn on_timeout(&mut self) {
        self.counted = 0.0;
    }

    fn on_slow_start_exit(&mut self, _: f64) {}

    fn on_idle(&mut self, _: Span) {
        self.counted = 0.0;
    }
}
