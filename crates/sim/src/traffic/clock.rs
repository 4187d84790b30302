//! A source's clock: real instants out of the source's own spans.
//!
//! A span of the source's clock is (1 + drift) of real time. Spans are added in units of 2^-64 ns, so that a rate holds
//! over any number of packets: a gap of 12.8617 ns is not 12 or 13. The error of one gap is below 2^-32 ns a second of
//! gap from the drift (a 64-bit fraction) and below 2^-64 ns a byte from the rate.

use fairspan_core::units::{Rate, Span, Time};

/// A span in nanoseconds with 64 bits behind the point. Aligned as a word: a source must not grow by the gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(8))]
pub struct FineSpan(u128);

impl FineSpan {
    /// `ns` nanoseconds, above zero and below 2^63.
    pub fn from_nanos_f64(ns: f64) -> FineSpan {
        let ns = ns.clamp(0.0, 9.2e18);
        let whole = ns as u64;
        let fraction = ((ns - whole as f64) * 18_446_744_073_709_551_616.0) as u64;
        FineSpan((u128::from(whole) << 64) | u128::from(fraction))
    }

    /// The whole nanoseconds.
    pub fn as_nanos(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// `self` times `n`, which must not reach 2^64 ns.
    pub fn times(self, n: u32) -> FineSpan {
        FineSpan(self.0.saturating_mul(u128::from(n)))
    }

    /// Both, one after the other.
    pub fn and(self, other: FineSpan) -> FineSpan {
        FineSpan(self.0.saturating_add(other.0))
    }

    /// What is left after `other`; nothing, if that is longer.
    pub fn less(self, other: FineSpan) -> FineSpan {
        FineSpan(self.0.saturating_sub(other.0))
    }
}

impl From<Span> for FineSpan {
    fn from(span: Span) -> FineSpan {
        FineSpan(u128::from(span.as_nanos()) << 64)
    }
}

/// How fast a source's clock runs against real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// Size of the drift, times 2^64.
    fraction: u64,
    slow: bool,
}

impl Drift {
    /// Clocks that agree.
    pub const NONE: Drift = Drift { fraction: 0, slow: false };

    /// A clock whose spans are `ppm` millionths longer than real ones (shorter, if negative): such a source sends that
    /// much less. Limited to 50 %.
    pub fn from_ppm(ppm: f64) -> Drift {
        let size = (ppm.abs() / 1e6).min(0.5);
        Drift { fraction: (size * 18_446_744_073_709_551_616.0) as u64, slow: ppm > 0.0 }
    }

    /// What `span` of the source's clock is in real time.
    pub fn stretch(self, span: FineSpan) -> FineSpan {
        let (whole, rest) = (span.0 >> 64, span.0 & u128::from(u64::MAX));
        let fraction = u128::from(self.fraction);
        let change = whole * fraction + ((rest * fraction) >> 64);
        FineSpan(if self.slow { span.0.saturating_add(change) } else { span.0 - change })
    }

    /// How long a byte takes at `rate` by the source's clock.
    pub fn byte_time(self, rate: Rate) -> FineSpan {
        let rate = u128::from(rate.as_bits_per_sec().max(1));
        let (whole, rest) = (8_000_000_000 / rate, 8_000_000_000 % rate);
        // Rounded up: a sum that should be whole then is, and an instant is never early.
        self.stretch(FineSpan((whole << 64) + (rest << 64).div_ceil(rate)))
    }
}

/// An instant with 64 bits behind the nanosecond's point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FineTime {
    ns: u64,
    fraction: u64,
}

impl FineTime {
    /// That instant.
    pub fn new(time: Time) -> FineTime {
        FineTime { ns: time.as_nanos(), fraction: 0 }
    }

    /// The instant, in whole nanoseconds.
    pub fn time(self) -> Time {
        Time::from_nanos(self.ns)
    }

    /// Moves on.
    pub fn advance(&mut self, span: FineSpan) {
        let (fraction, carry) = self.fraction.overflowing_add(span.0 as u64);
        self.fraction = fraction;
        self.ns = self.ns.saturating_add((span.0 >> 64) as u64).saturating_add(u64::from(carry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_over_a_thousand_million_gaps_to_the_nanosecond() {
        // 1000 bytes at 622 Mbit/s: 12,861.736... ns.
        let gap = Drift::NONE.byte_time(Rate::from_mbit(622)).times(1000);
        let mut now = FineTime::new(Time::ZERO);
        now.advance(FineSpan(gap.0 * 1_000_000_000));
        let exact = 1_000_000_000_u128 * 8_000 * 1_000 / 622;
        assert_eq!(u128::from(now.time().as_nanos()), exact);
    }

    #[test]
    fn drift_stretches_by_its_millionths_in_both_directions() {
        let hour = FineSpan::from(Span::from_secs(3600));
        for (ppm, ns) in [(1000.0, 3_603_600_000_000), (-1000.0, 3_596_400_000_000), (0.0, 3_600_000_000_000_u64)] {
            let stretched = Drift::from_ppm(ppm).stretch(hour).as_nanos();
            assert!(stretched.abs_diff(ns) <= 1, "{ppm} ppm: {stretched}");
        }
    }

    #[test]
    fn fractions_add_up() {
        let mut now = FineTime::new(Time::from_nanos(5));
        for _ in 0..8 {
            now.advance(FineSpan::from_nanos_f64(0.125));
        }
        assert_eq!(now.time(), Time::from_nanos(6));
    }
}
