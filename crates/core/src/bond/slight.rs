//! A channel that adds next to nothing, and on which each frame takes long.
//!
//! What it is: beside 20 Mbit/s one of 0.5 Mbit/s adds a fortieth at best, and each of its frames takes 24 ms, for which all that follow wait. TCP had 61 to
//! 92 % of what the fast channel alone gives it. So a slight channel carries no bulk traffic at all while others do, and is a part of the [reserve](super::reserve)
//! that is never called. What is small still goes by it where that is faster, and copies do.
//!
//! Source: ours. Cost: O(n log n) for n channels when a delay or a rate is measured. Invariants: not all channels are slight; one whose rate may be much more than
//! what was found, because no more was sent, is not.

use super::channel::bit;
use super::reserve::Candidate;
use crate::units::{Bytes, Span};
use alloc::vec::Vec;

/// What adds at most one part in so many of what the others have is left out where a full frame takes so long.
const SLIGHT: (u128, Span) = (16, Span::from_millis(8));
/// It is taken in again where it adds more than one part in so many, or a frame takes less.
const NOT_SLIGHT: (u128, Span) = (12, Span::from_millis(6));
/// A full frame.
pub(super) const FRAME: Bytes = Bytes::new(1500);

/// Those of the candidates, as a set, on which each frame surely takes long, and which together carry at most one part in [`SLIGHT`] of what the others
/// do. `before`: which were.
pub(super) fn slight(candidates: &[Candidate], before: u64) -> u64 {
    let bits = |c: &Candidate| u128::from(c.rate.as_bits_per_sec());
    let all: u128 = candidates.iter().map(bits).sum();
    let mut least: Vec<&Candidate> = candidates.iter().collect();
    least.sort_by_key(|c| (c.rate, c.channel));
    let (mut sum, mut set) = (0, 0);
    for c in least {
        sum += bits(c);
        let (parts, long) = if before & bit(c.channel) != 0 { NOT_SLIGHT } else { SLIGHT };
        if sum * parts > all - sum || c.rate.transmit_time(FRAME) < long {
            break;
        }
        if c.sure {
            set |= bit(c.channel);
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{ChannelId, Rate};

    /// Channels by kbit/s.
    fn candidates(all: &[u64]) -> Vec<Candidate> {
        let candidate = |(n, rate): (usize, &u64)| Candidate {
            channel: ChannelId(n as u8),
            rate: Rate::from_bits_per_sec(1000 * rate),
            sure: true,
            loss: 0,
            delay: Span::from_millis(10),
            trip: Span::from_millis(20),
        };
        all.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn a_channel_is_slight_that_is_slow_and_adds_next_to_nothing() {
        let kbit = |all: &[u64], before| slight(&candidates(all), before);
        // One part in sixteen of the others, inside and outside.
        assert_eq!((kbit(&[16_000, 1000], 0), kbit(&[15_999, 1000], 0)), (0b10, 0));
        assert_eq!((kbit(&[12_000, 1000], 0b10), kbit(&[11_999, 1000], 0b10)), (0b10, 0));
        // A frame of 1500 bytes takes 8 ms, and 6.
        assert_eq!((kbit(&[100_000, 1500], 0), kbit(&[100_000, 1501], 0)), (0b10, 0));
        assert_eq!((kbit(&[100_000, 2000], 0b10), kbit(&[100_000, 2001], 0b10)), (0b10, 0));
        // All together, those that carry least first.
        assert_eq!(kbit(&[500, 16_000, 500], 0), 0b101);
        assert_eq!(kbit(&[600, 16_000, 500], 0), 0b100);
        // What carried little so far, as no more was sent, may carry more.
        let mut found = candidates(&[20_000, 1000]);
        found[1].sure = false;
        assert_eq!(slight(&found, 0), 0);
        // Slow channels alone are not slight, and neither is what is alone.
        assert_eq!((kbit(&[500, 500, 500], 0), kbit(&[500], 0), kbit(&[], 0)), (0, 0, 0));
    }
}
