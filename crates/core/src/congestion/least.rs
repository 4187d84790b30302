//! The least round trip of late.
//!
//! What it is: the smallest sample of the last one or two spans of [`MEMORY`]. What is forgotten in whole spans needs two numbers
//! instead of a list, as BBR's and LEDBAT's (RFC 6817, 4.2) filters do. Cost: O(1).

use crate::units::{Span, Time};

/// How long a sample is remembered at least.
const MEMORY: Span = Span::from_secs(10);

/// The least of the samples, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    least: [u64; 2],
    since: Time,
}

impl Default for Least {
    fn default() -> Least {
        Least { least: [u64::MAX; 2], since: Time::ZERO }
    }
}

impl Least {
    /// Adds a sample; the least of all that are remembered.
    pub(super) fn add(&mut self, now: Time, sample: u64) -> u64 {
        if now.since(self.since) > MEMORY {
            self.least = [u64::MAX, self.least[0]];
            self.since = now;
        }
        self.least[0] = self.least[0].min(sample);
        self.least[0].min(self.least[1])
    }
}
