//! What all acknowledgements together have of a channel.
//!
//! | | they have |
//! |---|---|
//! | others wait, or a queue stands on the channel | half |
//! | otherwise, with a configured rate | four fifths |
//! | otherwise, with one that is measured | four fifths; 5/4 for [`LOOK`] in each [`PERIOD`]; at least [`LEAST`]; all for [`GROWS`] after it was found to be more |
//!
//! Source: ours. Cost: O(1) an acknowledgement. Invariant: what goes is within the share and [`BURST`] of it.

use crate::units::{Bytes, Rate, Span, Time};

/// What may go at once beyond their share of a channel.
const BURST: Span = Span::from_millis(10);
/// Acknowledgements alone never show that a channel carries more than was found. So they have a little more than that for [`LOOK`] in each [`PERIOD`],
/// and so much at least; and for [`GROWS`] after more was found, by an eighth, they have no bound.
const PERIOD: Span = Span::from_millis(1024);
const LOOK: Span = Span::from_millis(128);
const GROWS: Span = Span::from_secs(1);
const LEAST: Rate = Rate::from_bits_per_sec(500_000);

/// The acknowledgements of one channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// When those that went will have left, at what they have of the rate.
    until: Time,
    /// What the channel was found to carry, and when that grew last.
    found: Rate,
    grew: Time,
}

impl Share {
    /// From when on one has room.
    pub(super) fn at(&self) -> Time {
        Time::from_nanos(self.until.as_nanos().saturating_sub(BURST.as_nanos()))
    }

    /// One of `size` bytes went on a channel that carries `rate`. `crowded`: others wait, or a queue stands. `sure`: it carries no more than that.
    pub(super) fn on_sent(&mut self, now: Time, size: Bytes, rate: Rate, crowded: bool, sure: bool) {
        let bits = rate.as_bits_per_sec();
        let found = self.found.as_bits_per_sec();
        if bits > found / 8 * 9 {
            (self.found, self.grew) = (rate, now);
        } else if bits < found / 2 {
            self.found = rate;
        }
        let looks = now.as_nanos() % PERIOD.as_nanos() < LOOK.as_nanos();
        let share = match (crowded, sure) {
            (true, _) => bits / 2,
            (false, true) => bits / 5 * 4,
            (false, false) if now.since(self.grew) < GROWS => return,
            (false, false) if looks => (bits / 4 * 5).max(LEAST.as_bits_per_sec()),
            (false, false) => (bits / 5 * 4).max(LEAST.as_bits_per_sec()),
        };
        self.until = self.until.max(now) + Rate::from_bits_per_sec(share.max(1_000)).transmit_time(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits a second that acknowledgements of 100 bytes have in the given seconds, where one always waits.
    fn goes(carries: impl Fn(u64) -> u64, crowded: bool, sure: bool, [from, to]: [u64; 2]) -> u64 {
        let (mut share, mut sent) = (Share::default(), 0);
        for us in (0..to * 1_000_000).step_by(50) {
            let now = Time::from_nanos(us * 1000);
            if share.at() <= now {
                share.on_sent(now, Bytes::new(100), Rate::from_bits_per_sec(carries(us / 1_000_000)), crowded, sure);
                sent += if us >= from * 1_000_000 { 800 } else { 0 };
            }
        }
        sent / (to - from)
    }

    #[test]
    fn they_leave_half_where_others_wait_and_a_fifth_otherwise() {
        let mbit = |_| 4_000_000;
        assert!((1_990_000..=2_010_000).contains(&goes(mbit, true, true, [2, 12])));
        assert!((3_190_000..=3_210_000).contains(&goes(mbit, false, true, [2, 12])));
        // One eighth of the time 5 Mbit/s, else 3.2.
        assert!((3_350_000..=3_480_000).contains(&goes(mbit, false, false, [2, 12])));
    }

    #[test]
    fn where_the_rate_is_only_what_was_found_so_far_more_is_looked_for() {
        // They have no bound in the second after it grew: 16 Mbit/s is one each 50 us.
        assert!(goes(|second| if second < 5 { 1_000_000 } else { 2_000_000 }, false, false, [5, 6]) > 15_000_000);
        assert!(goes(|_| 10_000, false, false, [2, 12]) > 490_000, "so much at least");
        assert!(goes(|_| 10_000, true, false, [2, 12]) < 10_000, "but not where a queue stands");
    }
}
