//! What committed traffic really uses of a link, so that the rest can be shared.
//!
//! What it is: bytes over windows of a few control intervals. Cost: constant. Invariant: the rate is that of the last whole
//! window, so that committed traffic that stops is reclaimed within two windows.

use crate::units::{Rate, Span, Time};

#[derive(Clone, Debug)]
pub(super) struct Meter {
    window: Span,
    since: Time,
    bytes: u64,
    rate: Rate,
}

impl Meter {
    /// Over windows of this length, which is not zero.
    pub(super) fn new(window: Span, now: Time) -> Meter {
        Meter { window, since: now, bytes: 0, rate: Rate::default() }
    }

    #[inline]
    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
    }

    /// The rate of the last whole window.
    pub(super) fn rate(&mut self, now: Time) -> Rate {
        let span = now.since(self.since);
        if span >= self.window {
            let bits = u128::from(self.bytes) * 8_000_000_000 / u128::from(span.as_nanos());
            self.rate = Rate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX));
            self.bytes = 0;
            self.since = now;
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_window_and_gone_when_nothing_is_sent() {
        let at = |ms| Time::from_millis(ms);
        let mut meter = Meter::new(Span::from_millis(4), at(0));
        meter.on_sent(5_000);
        assert_eq!(meter.rate(at(3)), Rate::default(), "no window is over");
        assert_eq!(meter.rate(at(4)), Rate::from_mbit(10));
        assert_eq!(meter.rate(at(7)), Rate::from_mbit(10));
        assert_eq!(meter.rate(at(8)), Rate::default());
    }
}
