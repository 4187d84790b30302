//! A limiter: own packets enter the ring no faster than a rate that changes often.
//!
//! What it is: a pacer ([`Pacer`]) whose rate may be none, zero or anything between. A new rate acts at once, on what is
//! owed as well: what was let in ahead of the old rate is paid at the new one, and a pause earns nothing but the burst.
//! Cost: one multiplication per packet, a division per change.

use crate::link::pacing::Pacer;
use crate::units::{Bytes, Rate, Time};

/// The limiter of one egress.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    rate: Option<Rate>,
    burst: Bytes,
    pacer: Pacer,
}

impl Limiter {
    /// One that lets everything in, until told otherwise. `burst`: how far it may be ahead of its rate.
    pub(super) fn new(rate: Option<Rate>, burst: Bytes) -> Limiter {
        Limiter { rate, burst, pacer: Pacer::new(rate.unwrap_or(Rate::from_mbit(1)), burst) }
    }

    /// The rate.
    #[inline]
    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Takes another rate from now on.
    pub(super) fn set(&mut self, now: Time, rate: Option<Rate>) {
        match (self.rate, rate) {
            (Some(_), Some(new)) => self.pacer.rescale(now, new, self.burst),
            (None, Some(new)) => self.pacer = Pacer::new(new, self.burst),
            (_, None) => {}
        }
        self.rate = rate;
    }

    /// From when on a packet may enter; [`Time::MAX`] at rate zero.
    #[inline]
    pub(super) fn ready_at(&self) -> Time {
        match self.rate {
            None => Time::ZERO,
            Some(rate) if rate.as_bits_per_sec() == 0 => Time::MAX,
            Some(_) => self.pacer.ready_at(),
        }
    }

    /// A packet of so many bytes enters.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time, bytes: u32) {
        if self.rate.is_some() {
            self.pacer.on_sent(now, bytes as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;
    use proptest::prelude::*;

    proptest! {
        /// However the rate changes, what enters in any time from one packet to another is what the rates allow, the burst
        /// and one packet; and a limiter that is kept busy loses nothing of its rates.
        #[test]
        fn bytes_that_enter_are_those_that_the_rates_allow(
            steps in proptest::collection::vec((1_000u64..1_000_000, 1u64..3_000_000), 2..40),
            burst in 0u64..10_000, size in 64u32..9_000,
        ) {
            let mut now = Time::from_millis(1);
            let mut limiter = Limiter::new(Some(Rate::from_bits_per_sec(steps[0].0 * 1000)), Bytes::new(burst));
            let (mut allowed, mut entered, mut most) = (0u128, 0u128, 0i128);
            let mut least = 0i128;
            for (kbit, ns) in steps {
                let rate = Rate::from_bits_per_sec(kbit * 1000);
                limiter.set(now, Some(rate));
                let end = now + Span::from_nanos(ns);
                while limiter.ready_at() <= end {
                    let at = limiter.ready_at().max(now);
                    allowed += u128::from(rate.as_bits_per_sec()) * u128::from(at.since(now).as_nanos());
                    now = at;
                    limiter.on_sent(now, size);
                    entered += u128::from(size) * 8_000_000_000;
                    let ahead = entered as i128 - allowed as i128;
                    most = most.max(ahead);
                }
                allowed += u128::from(rate.as_bits_per_sec()) * u128::from(end.since(now).as_nanos());
                now = end;
                least = least.min(entered as i128 - allowed as i128);
            }
            // Each change and each packet rounds by a nanosecond at most at 1 Gbit/s: an eighth of a byte.
            let rounding = 100 + entered as i128 / 8_000_000_000 / 5_000;
            prop_assert!(most / 8_000_000_000 <= i128::from(burst) + i128::from(size) + rounding, "{most} ahead");
            prop_assert!(-least / 8_000_000_000 <= rounding, "{least} lost");
        }
    }

    #[test]
    fn none_lets_everything_in_and_zero_nothing() {
        let now = Time::from_millis(5);
        let mut limiter = Limiter::new(None, Bytes::ZERO);
        limiter.on_sent(now, 1500);
        assert!(limiter.ready_at() <= now);
        limiter.set(now, Some(Rate::default()));
        assert_eq!(limiter.ready_at(), Time::MAX);
        limiter.set(now, Some(Rate::from_mbit(8)));
        assert!(limiter.ready_at() <= now, "nothing is owed: nothing entered at a rate");
        limiter.on_sent(now, 1000);
        assert_eq!(limiter.ready_at().since(now), Span::from_millis(1));
    }
}
