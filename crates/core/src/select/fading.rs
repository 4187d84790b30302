//! A sum whose past fades: it is worth half after a second.
//!
//! Between two halvings it falls along a straight line, so that no exponential is computed: at most 6.1 % above the curve.
//! Cost: a division by a constant. Invariant: without additions it never grows.

use crate::units::{Span, Time};

/// After this long what was added counts half.
pub(super) const HALF_LIFE: Span = Span::from_secs(1);

/// The sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fading {
    sum: u64,
    at: Time,
}

impl Fading {
    /// What it is worth at `now`.
    #[inline]
    pub(super) fn at(&self, now: Time) -> u64 {
        let (age, half) = (now.since(self.at).as_nanos(), HALF_LIFE.as_nanos());
        let sum = self.sum.checked_shr((age / half).min(64) as u32).unwrap_or(0);
        sum - (u128::from(sum) * u128::from(age % half) / u128::from(2 * half)) as u64
    }

    /// Adds `n` at `now`.
    #[inline]
    pub(super) fn add(&mut self, now: Time, n: u64) {
        *self = Fading { sum: self.at(now).saturating_add(n), at: now.max(self.at) };
    }

    /// Takes `n` away at `now`, as far as there is something.
    pub(super) fn take(&mut self, now: Time, n: u64) {
        *self = Fading { sum: self.at(now).saturating_sub(n), at: now.max(self.at) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_halves_each_second_and_never_grows_by_itself() {
        let mut sum = Fading::default();
        sum.add(Time::ZERO, 1 << 20);
        let mut last = u64::MAX;
        for ms in (0..70_000).step_by(10) {
            let (value, exact) = (sum.at(Time::from_millis(ms)), 1_048_576.0 * libm::exp2(-(ms as f64) / 1000.0));
            assert!(value <= last);
            // The chord of an exponential over one halving lies above it, by 6.15 % at most; and whole numbers.
            assert!((exact - 2.0..=exact * 1.0616 + 1.0).contains(&(value as f64)), "{value} for {exact} at {ms} ms");
            last = value;
        }
        assert_eq!(last, 0);
        sum.add(Time::from_millis(5), u64::MAX);
        assert_eq!(sum.at(Time::from_millis(5)), u64::MAX);
        sum.take(Time::from_millis(5), u64::MAX);
        assert_eq!(sum.at(Time::ZERO), 0);
    }
}
