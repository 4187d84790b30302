//! A channel that delays a download by more than it adds is held in reserve.
//!
//! What it is: order within a flow makes every bulk transfer wait for the slowest channel that it uses. Beside a fibre of 300 Mbit/s and
//! 8 ms a channel of 30 Mbit/s and 40 ms adds a tenth, and makes the round trip three times as long: a page, and a download of some megabytes, are
//! slower with it than without. So is a download of 20 MB over 50 Mbit/s and 20 ms where a satellite's 50 Mbit/s and 320 ms are added: TCP's slow start then takes
//! longer than all the rest. So where a channel adds no more than the others have, and a transfer of [`TYPICAL`] bytes would end later with it, it carries
//! no data until so much waits in the host queue, for a tenth of a second, that it would leave later than the channel's longer way takes. The wait then moves from
//! the queue into the way, and the round trip that TCP sees stays what it was. The channel is in reserve again when the others
//! could carry all for two seconds.
//!
//! How long that takes: after slow start CUBIC, as Linux has it, grows by a twentieth of what is delivered. So a queue as long as a way that is
//! longer by D is there after 20 D, whatever the rate: 6 s for a satellite. A channel that adds more than the others have is worth
//! its delay at once, since long transfers would have less than half for that time.
//!
//! Source: ours. The order in which channels are called is that of "earliest completion first" (Lim et al., CoNEXT 2017), which schedules
//! single packets by the same comparison.
//!
//! | symbol | here |
//! |---|---|
//! | channels by what they usually take one way, d_1 <= d_2 <= ... | the order of [`Candidate`]s |
//! | R_k, the rates of the first k together | `rate` |
//! | T_k, round trip over the first k: that of the first, and d_k - d_1 | `trip` |
//! | time for L bytes: L / R_k, and T_k for each doubling of [`FIRST_WINDOW`] up to R_k T_k (slow start) | [`duration`] |
//! | how many are used at once | the k of the least time, of those where the others add R_k and a quarter at most; as before, unless that gains a tenth |
//!
//! What follows from it stands in `backlog.rs`. Cost: O(n) for n channels. Invariants: where a channel's rate or round trip is not
//! known, none is held back; the fastest never is.

use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::vec::Vec;

/// A transfer of this size is to gain.
pub(super) const TYPICAL: Bytes = Bytes::new(20_000_000);
/// What all those that are held back add is no more than what the others have, and one part in so many of it: rates are measured.
const TOLERANCE: u64 = 4;
/// What TCP begins with (RFC 6928).
const FIRST_WINDOW: Bytes = Bytes::new(14_600);

/// What a plan depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) channel: ChannelId,
    pub(super) rate: Rate,
    /// Whether it carries no more than that.
    pub(super) sure: bool,
    pub(super) delay: Span,
    pub(super) trip: Span,
}

/// The channels that are held back, and which of them are called.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserve {
    /// The channels that carry data only when they are called.
    pub(super) planned: u64,
    /// Those of them that are never called, because all together they add next to nothing.
    pub(super) slight: u64,
    pub(super) called: u64,
    /// What was held back when the peer was told last.
    pub(super) announced: u64,
    /// Bytes in the host queue at which the next one is called; meaningless where all are.
    pub(super) call_at: usize,
    /// Since when so much has waited.
    pub(super) waits: Option<Time>,
    /// What the channels carry that are not held back.
    pub(super) base: Option<Rate>,
    /// When it was last looked, and what had been sent by then.
    pub(super) looked: Time,
    pub(super) sent: u64,
    /// Since when the reserve was not needed.
    pub(super) quiet: Option<Time>,
}

impl Reserve {
    /// The channels that carry no data for now.
    #[inline]
    pub(super) fn held(&self) -> u64 {
        self.planned & !self.called
    }

    /// Those of them that are called when too much waits.
    #[inline]
    pub(super) fn waiting(&self) -> u64 {
        self.held() & !self.slight
    }
}

/// How long a typical transfer takes from its beginning over paths of `rate` together and this round trip.
pub(super) fn duration(rate: Rate, trip: Span) -> Span {
    let doublings = doublings(rate.bytes_in(trip).as_u64(), FIRST_WINDOW.as_u64());
    let start = u128::from(trip.as_nanos()) * u128::from(doublings) / 256;
    rate.transmit_time(TYPICAL) + Span::from_nanos(u64::try_from(start).unwrap_or(u64::MAX))
}

/// The logarithm to the base of two of `window / first`, in 256ths, straight between whole numbers.
fn doublings(window: u64, first: u64) -> u64 {
    let ratio = window.saturating_mul(256) / first;
    if ratio <= 256 {
        return 0;
    }
    let whole = u64::from(ratio.ilog2());
    (whole - 8) * 256 + (ratio - (1 << whole)).saturating_mul(256) / (1 << whole)
}

/// How many of the candidates, which are in the order of their delays, are used at once. `before`: how many were.
pub(super) fn used_at_once(candidates: &[Candidate], before: Option<usize>) -> usize {
    let Some(first) = candidates.first() else { return 0 };
    let all = candidates.iter().map(|c| c.rate.as_bits_per_sec()).fold(0, u64::saturating_add);
    let mut bits = 0u64;
    let times: Vec<Option<Span>> = candidates
        .iter()
        .map(|c| {
            bits = bits.saturating_add(c.rate.as_bits_per_sec());
            let time = duration(Rate::from_bits_per_sec(bits), first.trip + (c.delay - first.delay));
            ((all - bits) <= bits.saturating_add(bits / TOLERANCE)).then_some(time)
        })
        .collect();
    let kept = before.map_or(candidates.len(), |n| n.min(candidates.len())) - 1;
    let possible = times.iter().enumerate().filter_map(|(k, time)| Some(((*time)?, core::cmp::Reverse(k))));
    let Some((least, core::cmp::Reverse(best))) = possible.min() else { return candidates.len() };
    match times[kept] {
        Some(time) if (time - least).as_nanos() < time.as_nanos() / 10 => kept + 1,
        _ => best + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Channels by Mbit/s and ms one way, in the order of their delays.
    fn candidates(all: &[(u64, u64)]) -> Vec<Candidate> {
        let candidate = |(n, (rate, delay)): (usize, &(u64, u64))| Candidate {
            channel: ChannelId(n as u8),
            rate: Rate::from_mbit(*rate),
            sure: true,
            delay: Span::from_millis(*delay),
            trip: Span::from_millis(2 * delay),
        };
        all.iter().enumerate().map(candidate).collect()
    }

    fn used(all: &[(u64, u64)]) -> usize {
        used_at_once(&candidates(all), None)
    }

    #[test]
    fn what_a_transfer_takes_is_its_bytes_and_slow_start() {
        // 1.6 s of bytes, and from 14.6 kB to 500 kB in 5.1 doublings of 40 ms.
        let time = duration(Rate::from_mbit(100), Span::from_millis(40));
        assert!((1.800..1.808).contains(&time.as_secs_f64()), "{time:?}");
        assert_eq!(duration(Rate::from_mbit(8), Span::from_millis(10)), Span::from_secs(20), "one window is enough");
        for (window, first, expected) in [(1, 1, 0), (2, 1, 256), (3, 1, 384), (4, 1, 512), (64, 1, 1536), (1, 2, 0)] {
            assert_eq!(doublings(window, first), expected, "{window}/{first}");
        }
    }

    #[test]
    fn a_channel_is_held_back_that_delays_a_download_by_more_than_it_adds() {
        assert_eq!(used(&[(300, 8), (30, 40)]), 1, "LTE beside fibre");
        assert_eq!(used(&[(100, 5), (100, 8), (10, 300)]), 2, "a satellite beside two fibres");
        assert_eq!(used(&[(1000, 2), (50, 30)]), 1);
        // A satellite beside what is as fast; the rates are measured, so that it may seem a little faster.
        for all in [[(50, 20), (50, 320)], [(50, 20), (60, 320)], [(40, 35), (20, 320)], [(300, 8), (61, 400)]] {
            assert_eq!(used(&all), 1, "{all:?}");
        }
        assert_eq!(used(&[(50, 20), (70, 320)]), 2, "long transfers would have less than half for some seconds");
        // A channel of which much is to be had is worth its delay, and so is one that delays by little.
        for all in [[(50, 20), (50, 20)], [(50, 20), (50, 70)], [(50, 20), (50, 120)], [(40, 35), (100, 50)]] {
            assert_eq!(used(&all), 2, "{all:?}");
        }
        for all in [[(100, 20), (10, 20)], [(100, 20), (10, 22)], [(2, 5), (100, 40)], [(50, 20), (12, 20)]] {
            assert_eq!(used(&all), 2, "{all:?}");
        }
        assert_eq!((used(&[(7, 3)]), used(&[])), (1, 0));
    }

    #[test]
    fn a_plan_changes_only_for_a_tenth() {
        for delay in 10..200 {
            let all = candidates(&[(100, 10), (20, delay)]);
            let (with, without) = (used_at_once(&all, Some(2)), used_at_once(&all, Some(1)));
            assert!(with >= without, "{delay} ms: {with} and {without}");
        }
        let all = candidates(&[(100, 10), (20, 60)]);
        assert_eq!((used_at_once(&all, Some(2)), used_at_once(&all, Some(1))), (2, 1));
        assert_eq!(used_at_once(&candidates(&[(100, 10), (1, 200)]), Some(2)), 1);
        assert_eq!(used_at_once(&candidates(&[(100, 10), (100, 12)]), Some(1)), 2);
    }
}
