//! Quantities as types: instants, spans, byte counts, rates and channel numbers.
//!
//! A number without a unit cannot be passed where a quantity is meant. All of them are plain integers inside, so
//! they cost nothing and behave the same on every machine.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// An instant: nanoseconds since an origin that the driver chooses (process start, simulation start).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// Later than every instant that occurs.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// The instant `ms` milliseconds after the origin.
    pub const fn from_millis(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin, for people.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than every span that occurs.
    pub const MAX: Span = Span(u64::MAX);

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Span {
        Span(ns)
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Span {
        Span(us * 1_000)
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span(s * 1_000_000_000)
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds, for people.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self` times `n`, or [`Span::MAX`].
    pub const fn times(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }

    /// The number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<usize> for Bytes {
    fn from(n: usize) -> Bytes {
        Bytes(n as u64)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        *self = *self - other;
    }
}

/// A rate in bits per second. 1 Mbit/s is 10^6 bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// `n` bits per second.
    pub const fn from_bits_per_sec(n: u64) -> Rate {
        Rate(n)
    }

    /// `n` megabits per second.
    pub const fn from_mbit(n: u64) -> Rate {
        Rate(n * 1_000_000)
    }

    /// Bits per second.
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate, rounded up to the nanosecond; [`Span::MAX`] at rate zero.
    pub const fn transmit_time(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let ns = (bytes.0 as u128 * 8 * 1_000_000_000).div_ceil(self.0 as u128);
        if ns > u64::MAX as u128 { Span::MAX } else { Span(ns as u64) }
    }

    /// How many whole bytes pass in `span`.
    pub const fn bytes_in(self, span: Span) -> Bytes {
        let n = self.0 as u128 * span.0 as u128 / 8_000_000_000;
        if n > u64::MAX as u128 { Bytes(u64::MAX) } else { Bytes(n as u64) }
    }
}

/// Of none it is zero.
impl Sum for Rate {
    fn sum<I: Iterator<Item = Rate>>(rates: I) -> Rate {
        Rate(rates.fold(0, |sum, rate| sum.saturating_add(rate.0)))
    }
}

/// Whose packet it is, for a queue. The driver numbers flows as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowNumber(pub u32);

/// The number of a channel in its bond, from 0; at most [`ChannelId::LIMIT`] channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u8);

impl ChannelId {
    /// Most channels that one bond may have; sets of channels are 64-bit masks.
    pub const LIMIT: usize = 64;

    /// As an index into a table of channels.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_time_rounds_up_and_bytes_in_rounds_down() {
        let rate = Rate::from_mbit(3);
        assert_eq!(rate.transmit_time(Bytes::new(1)), Span::from_nanos(2667));
        assert_eq!(rate.bytes_in(Span::from_nanos(2666)), Bytes::ZERO);
        assert_eq!(rate.bytes_in(Span::from_nanos(2667)), Bytes::new(1));
        assert_eq!(Rate::default().transmit_time(Bytes::new(1)), Span::MAX);
    }

    #[test]
    fn instants_and_spans_saturate_instead_of_wrapping() {
        assert_eq!(Time::MAX + Span::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO.since(Time::from_millis(1)), Span::ZERO);
        assert_eq!(Span::MAX.times(2), Span::MAX);
    }
}
