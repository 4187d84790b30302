//! Pacing: a link sends, and a limiter lets in, no faster than its rate.
//!
//! What it is: a token bucket in its virtual-scheduling form (the generic cell rate algorithm, ITU-T I.371): `free`
//! is when the link will have sent everything at the rate; a packet may go while that is no further ahead than the
//! burst. A change of the rate rescales what is owed (`rescale`), so that it acts at once; or leaves it (`set`). Cost: one
//! multiplication per packet. Invariant: over any interval, bytes sent are at most rate x interval + burst + one packet.

use crate::units::{Bytes, Rate, Span, Time};

/// Binary places of the nanoseconds per byte.
const PLACES: u32 = 20;

/// The pacer of one link or limiter.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// Nanoseconds per byte, times 2^20, rounded up.
    per_byte: u64,
    burst: Span,
    free: Time,
    /// What is below a nanosecond, times 2^20.
    fraction: u64,
}

impl Pacer {
    /// A pacer that has its burst in hand. `rate` is above zero.
    pub(crate) fn new(rate: Rate, burst: Bytes) -> Pacer {
        let per_byte = (8_000_000_000u64 << PLACES).div_ceil(rate.as_bits_per_sec().max(1_000));
        Pacer { per_byte, burst: rate.transmit_time(burst), free: Time::ZERO, fraction: 0 }
    }

    /// Takes another rate from now on.
    pub(crate) fn set(&mut self, rate: Rate, burst: Bytes) {
        let Pacer { free, fraction, .. } = *self;
        *self = Pacer { free, fraction, ..Pacer::new(rate, burst) };
    }

    /// Takes another rate from now on, for what is owed as well: bytes that were sent ahead of the old rate are paid at the
    /// new one.
    pub(crate) fn rescale(&mut self, now: Time, rate: Rate, burst: Bytes) {
        let owed = u128::from(self.free.since(now).as_nanos());
        let before = self.per_byte;
        self.set(rate, burst);
        if owed > 0 {
            let owed = owed * u128::from(self.per_byte) / u128::from(before.max(1));
            self.free = now + Span::from_nanos(u64::try_from(owed).unwrap_or(u64::MAX));
            self.fraction = 0;
        }
    }

    /// From when on a packet may go.
    #[inline]
    pub(crate) fn ready_at(&self) -> Time {
        Time::from_nanos(self.free.as_nanos().saturating_sub(self.burst.as_nanos()))
    }

    /// When the link will have sent all that was given to it.
    #[inline]
    pub(crate) fn free(&self) -> Time {
        self.free
    }

    /// How long the link takes for `len` wire bytes.
    #[inline]
    pub(crate) fn time_for(&self, len: usize) -> Span {
        Span::from_nanos((len as u64).saturating_mul(self.per_byte) >> PLACES)
    }

    /// Accounts for a frame of `len` wire bytes.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Time, len: usize) {
        let cost = (len as u64).saturating_mul(self.per_byte).saturating_add(self.fraction);
        self.fraction = cost & ((1 << PLACES) - 1);
        self.free = self.free.max(now) + Span::from_nanos(cost >> PLACES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sends_at_the_rate_and_never_more_than_the_burst_ahead(
            kbit in 8u64..20_000_000, sizes in proptest::collection::vec(40usize..9000, 50..200), burst in 9_000u64..100_000,
        ) {
            let rate = Rate::from_bits_per_sec(kbit * 1000);
            let mut pacer = Pacer::new(rate, Bytes::new(burst));
            let start = Time::from_millis(5);
            let (mut now, mut sent) = (start, 0u64);
            for size in &sizes {
                now = now.max(pacer.ready_at());
                pacer.on_sent(now, *size);
                sent += *size as u64;
                // Two nanoseconds of rounding: one in the burst, one in the instant.
                let rounding = rate.bytes_in(Span::from_nanos(2)).as_u64() + 1;
                let allowed = rate.bytes_in(now.since(start)).as_u64() + burst + *size as u64 + rounding;
                prop_assert!(sent <= allowed, "{sent} bytes sent where {allowed} are allowed");
            }
            // Two-sided: kept busy, it sends at the rate, to one part in 10^4 and the burst.
            let least = rate.bytes_in(now.since(start)).as_u64();
            prop_assert!(sent + sent / 10_000 + 2 >= least, "{sent} bytes sent where {least} fit");
        }
    }

    #[test]
    fn a_change_of_the_rate_acts_at_once_on_what_is_owed() {
        let now = Time::from_millis(10);
        let mut pacer = Pacer::new(Rate::from_bits_per_sec(8_000), Bytes::ZERO);
        pacer.on_sent(now, 1000);
        assert_eq!(pacer.ready_at().since(now), Span::from_secs(1), "1000 bytes at 1000 bytes a second");
        let half = now + Span::from_millis(500);
        pacer.rescale(half, Rate::from_mbit(8), Bytes::ZERO);
        assert_eq!(pacer.ready_at().since(half), Span::from_micros(500), "500 bytes are owed, at 1 byte a microsecond");
        pacer.rescale(half, Rate::from_bits_per_sec(8_000), Bytes::ZERO);
        assert_eq!(pacer.ready_at().since(half), Span::from_millis(500));
        let idle = Time::from_millis(60_000);
        pacer.rescale(idle, Rate::from_mbit(8), Bytes::ZERO);
        assert!(pacer.ready_at() < idle, "nothing is owed after a pause");
    }

    #[test]
    fn an_idle_channel_saves_up_no_more_than_its_burst() {
        let mut pacer = Pacer::new(Rate::from_mbit(8), Bytes::new(3000));
        let now = Time::from_millis(60_000);
        let mut sent = 0;
        while pacer.ready_at() <= now {
            pacer.on_sent(now, 1000);
            sent += 1;
        }
        assert_eq!(sent, 4, "3000 bytes of burst let packets of 1000 start at 0, 1000, 2000 and 3000");
        assert_eq!(pacer.ready_at().since(now), Span::from_millis(1));
    }
}
