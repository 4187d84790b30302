//! When a packet left, in two bytes of its envelope.

use crate::units::Time;

/// When a packet left first, and what it is held to: fifteen bits of its sender's clock in units of 2^17 ns (131 us), so modulo
/// 4.3 s, then a bit that says whether its own channel's delay counts alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u16);

/// By how much a packet may be earlier than any before it, in units of 2^16 ns.
const EARLY: u16 = 4096;

impl Stamp {
    /// Of a packet that is to wait for nothing but its order.
    pub const NONE: Stamp = Stamp(0);

    /// Of a packet that leaves at `now`, and is to take as long as those of all channels.
    #[inline]
    pub const fn of(now: Time) -> Stamp {
        let units = (now.as_nanos() >> 16) as u16 & !1;
        Stamp(if units == 0 { 2 } else { units })
    }

    /// Of a packet that leaves at `now`, and is to take as long as the others of its channel.
    #[inline]
    pub const fn alone(now: Time) -> Stamp {
        Stamp(Stamp::of(now).0 | 1)
    }

    /// Whether it is to take as long as the others of its channel, and no longer.
    pub const fn is_alone(self) -> bool {
        self.0 & 1 != 0
    }

    /// How much later `clock` shows than when the packet left, in nanoseconds, where `least` is what packets take at least: from 0.27 s less
    /// than that to 4 s more. A packet waits for seconds where its link stands still, but none comes long before its time.
    #[inline]
    pub const fn until(self, clock: u64, least: i64) -> i64 {
        let units = (clock.wrapping_sub(least as u64) >> 16) as u16;
        let beyond = (units & !1).wrapping_sub(self.0 & !1).wrapping_add(EARLY);
        least.wrapping_add((beyond as i64 - EARLY as i64) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stamp_tells_a_transit_that_is_at_most_four_seconds_above_the_least(
            left: u64, offset: u64, least in 0i64..2_000_000_000, beyond in -260_000_000i64..4_000_000_000,
        ) {
            let transit = (least + beyond).max(0);
            let arrival = left.wrapping_add(offset).wrapping_add(transit as u64);
            let got = Stamp::of(Time::from_nanos(left)).until(arrival.wrapping_sub(offset), least);
            prop_assert!((got - transit).abs() <= 5 << 16, "{} where {} passed", got, transit);
        }
    }
}
