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
//! | p_k, the part of packets over the first k that hold up those behind them | [`held_up`] |
//! | time for L bytes: L / R_k, and T_k for each doubling of [`FIRST_WINDOW`] up to R_k T_k (slow start); where 1 / p_k packets are less, slow start ends there, and CUBIC goes on | [`duration`] |
//! | how many are used at once | the k of the least time, of those where the others add R_k and a quarter at most, without those that add and gain little; as before, unless that gains a tenth or other channels are there |
//!
//! **What is lost.** A packet that a channel loses holds up those behind it for a round trip, and slow start ends. Where other channels are in use that have time to spare it comes by one
//! of them as well (`spare.rs`), and since all packets take as long as the slowest channel, it is in time. So a channel that loses packets is not used alone where another one has time for
//! their copies.
//!
//! **What is not needed.** A sender that waits for round trips and not for the links gets less the longer they are: one with a small window, and BBR, whose window is twice what
//! its rate fills in the *least* round trip. So where what is sent for three seconds does not grow, next to nothing of it waits, and it would fit the faster channels with a quarter to spare, and the
//! others make the way longer by [`LONGER`] and a quarter of the round trip, these are in reserve as well ([`Demand`]), until next to nothing is sent. That they are called is the same for both.
//!
//! What follows from it stands in `backlog.rs`. Cost: O(n^2) for n channels. Invariants: where a channel's rate or round trip is not
//! known, none is held back; the fastest never is.

use super::ramp::Ramp;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::vec::Vec;

/// A transfer of this size is to gain.
pub(super) const TYPICAL: Bytes = Bytes::new(20_000_000);
/// What all those that are held back add is no more than what the others have, and one part in so many of it: rates are measured.
const TOLERANCE: u64 = 4;
/// Channels that add no more than one part in so many to what the others carry, and gain less than one part in so many of the time, are in reserve.
const LITTLE: u64 = 12;
const WORTH: u64 = 32;
/// Bytes of a packet of TCP.
const PACKET: u64 = 1_448;
/// What TCP begins with (RFC 6928).
const FIRST_WINDOW: Bytes = Bytes::new(14_600);

/// What the channels that are not needed make the way longer by, at least, and by one part in so many of the round trip.
const LONGER: Span = Span::from_millis(10);
const OF_TRIP: u64 = 4;
/// What is sent grows where it is more than the most of lately and one part in so many; that fades by the other in each second.
const VARIES: u64 = 8;
const FADES: u64 = 16;
/// Less than so much in the host queue is next to nothing. What goes first (`prompt.rs`, `sparse.rs`) does not count: it takes the fastest channel anyway.
const NOTHING: Rate = Rate::from_bits_per_sec(500_000);
/// Looks in a row, one a second, at which the faster channels would do.
const LOOKS: u8 = 3;

/// Which channels are not needed for what is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// They.
    pub(super) unneeded: u64,
    /// Bytes that were taken from the host queue since the last look.
    pub(super) taken: u64,
    /// The most bits that were sent in a second lately, and looks in a row at which fewer channels would do.
    most: u64,
    looks: u8,
}

impl Demand {
    /// So much was sent `since` the last look over `candidates`, of which the first `used` are in use, and so much waits. How many of them are
    /// enough from now on, if fewer are.
    pub(super) fn look(
        &mut self,
        since: Span,
        sent: Bytes,
        waits: Bytes,
        candidates: &[Candidate],
        used: usize,
    ) -> Option<usize> {
        if over(core::mem::take(&mut self.taken), since) < NOTHING {
            *self = Demand::default();
            return None;
        }
        let sent = over(sent.as_u64(), since);
        let bits = sent.as_bits_per_sec();
        let grows = bits > self.most.saturating_add(self.most / VARIES);
        self.most = bits.max(self.most - self.most / FADES);
        let enough = enough(sent, candidates);
        let fits = !grows && waits <= sent.bytes_in(LONGER) && delays(candidates, enough, used);
        self.looks = if fits { (self.looks + 1) % LOOKS } else { 0 };
        (fits && self.looks == 0).then_some(enough)
    }
}

/// So many bytes in that time.
pub(super) fn over(bytes: u64, time: Span) -> Rate {
    Rate::from_bits_per_sec(bytes.saturating_mul(8_000_000_000) / time.as_nanos().max(1))
}

/// Whether the way over the first `used` candidates is so much longer than over the first `enough` that it matters.
fn delays(candidates: &[Candidate], enough: usize, used: usize) -> bool {
    let (Some(first), true) = (candidates.first(), enough < used) else { return false };
    let longer = candidates[used - 1].delay - candidates[enough - 1].delay;
    longer >= LONGER && longer.as_nanos() >= first.trip.as_nanos() / OF_TRIP
}

/// How many of the candidates carry so much, with a quarter to spare; all where they do not.
fn enough(sent: Rate, candidates: &[Candidate]) -> usize {
    let mut bits = 0u64;
    let fits = |c: &Candidate| {
        bits = bits.saturating_add(c.rate.as_bits_per_sec());
        sent.as_bits_per_sec() < bits - bits / 4
    };
    candidates.iter().position(fits).map_or(candidates.len(), |k| k + 1)
}

/// What a plan depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) channel: ChannelId,
    pub(super) rate: Rate,
    /// Whether it carries no more than that.
    pub(super) sure: bool,
    /// Frames of a million that it loses by itself.
    pub(super) loss: u32,
    pub(super) delay: Span,
    pub(super) trip: Span,
}

/// The channels that are held back, and which of them are called.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserve {
    /// The channels that were chosen among.
    pub(super) among: u64,
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
    pub(super) demand: Demand,
    /// By which a sender that keeps no queue is led to the next one.
    pub(super) ramp: Ramp,
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

/// How long a typical transfer takes from its beginning over paths of `rate` together and this round trip, which hold up all behind so many of a million packets.
pub(super) fn duration(rate: Rate, trip: Span, held_up: u64) -> Span {
    let window = rate.bytes_in(trip).as_u64();
    let full = rate.transmit_time(TYPICAL) + start(trip, window);
    // Nothing is held up before slow start is over.
    let smooth = (PACKET * 1_000_000).checked_div(held_up).unwrap_or(u64::MAX);
    if smooth >= window {
        return full;
    }
    full.max(start(trip, smooth) + congested(trip, smooth))
}

/// How long slow start takes up to this window.
fn start(trip: Span, window: u64) -> Span {
    let start = u128::from(trip.as_nanos()) * u128::from(doublings(window, FIRST_WINDOW.as_u64())) / 256;
    Span::from_nanos(u64::try_from(start).unwrap_or(u64::MAX))
}

/// How long a typical transfer takes at least that begins with this window, which grows as CUBIC's does after slow start: W(t) = W(0) + 0.4 t^3 packets. Half of
/// that, because a packet that is mended soon does not always end slow start, and short round trips let a window grow faster.
fn congested(trip: Span, window: u64) -> Span {
    let packets = u128::from(TYPICAL.as_u64() / PACKET);
    // Packets times seconds, in millionths: W(0) t, or 0.1 t^4.
    let work = packets * u128::from(trip.as_nanos() / 1_000);
    let constant = work * u128::from(PACKET) / u128::from(window.max(1));
    let growing = (work * 10 * 1_000_000_000_000_000_000).isqrt().isqrt();
    Span::from_micros(u64::try_from(constant.min(growing) / 2).unwrap_or(u64::MAX))
}

/// Of a million packets over these channels so many hold up those behind: they are lost, and the other channels have no time for their copies.
fn held_up(used: &[Candidate]) -> u64 {
    let all = sum(used).as_bits_per_sec();
    let lost = |c: &Candidate| {
        let rate = c.rate.as_bits_per_sec();
        u128::from(c.loss) * u128::from(rate.saturating_sub(all - rate))
    };
    let lost: u128 = used.iter().map(lost).sum();
    u64::try_from(lost / u128::from(all.max(1))).unwrap_or(u64::MAX)
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

/// How long a typical transfer takes over these, which are in the order of their delays.
pub(super) fn time_over(used: &[Candidate]) -> Span {
    let (Some(first), Some(last)) = (used.first(), used.last()) else { return Span::ZERO };
    duration(sum(used), first.trip + (last.delay - first.delay), held_up(used))
}

/// What they carry together.
pub(super) fn sum(candidates: &[Candidate]) -> Rate {
    Rate::from_bits_per_sec(candidates.iter().map(|c| c.rate.as_bits_per_sec()).fold(0, u64::saturating_add))
}

/// How many of the candidates, which are in the order of their delays, are used at once. `before`: how many were, if that was
/// decided before.
pub(super) fn used_at_once(candidates: &[Candidate], before: Option<usize>) -> usize {
    let of_first = |k: usize| sum(&candidates[..k]).as_bits_per_sec();
    let all = of_first(candidates.len());
    let time_of = |k: usize| {
        let bits = of_first(k);
        ((all - bits) <= bits.saturating_add(bits / TOLERANCE)).then(|| time_over(&candidates[..k]))
    };
    let times: Vec<Option<Span>> = (1..=candidates.len()).map(time_of).collect();
    let possible = times.iter().enumerate().filter_map(|(k, time)| Some(((*time)?, core::cmp::Reverse(k))));
    let Some((least, core::cmp::Reverse(best))) = possible.min() else { return candidates.len() };
    // Those that add little are worth no risk.
    let good = least + Span::from_nanos(least.as_nanos() / WORTH);
    let enough = |k: &usize| {
        let bits = of_first(*k + 1);
        times[*k].is_some_and(|time| time <= good) && of_first(best + 1) - bits <= bits / LITTLE
    };
    let best = (0..best).find(enough).unwrap_or(best);
    let kept = before.map(|n| n.clamp(1, candidates.len()) - 1);
    match kept.and_then(|kept| times[kept].zip(Some(kept))) {
        Some((time, kept)) if (time - least).as_nanos() < time.as_nanos() / 10 => kept + 1,
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
            loss: 0,
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
        let time = duration(Rate::from_mbit(100), Span::from_millis(40), 0);
        assert!((1.800..1.808).contains(&time.as_secs_f64()), "{time:?}");
        assert_eq!(duration(Rate::from_mbit(8), Span::from_millis(10), 0), Span::from_secs(20), "one window is enough");
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
    fn a_channel_that_adds_and_gains_little_is_in_reserve() {
        // A fortieth and 4 ms more: 2.20 and 2.21 s.
        assert_eq!(used(&[(85, 30), (2, 34)]), 1);
        // A tenth, which gains as much.
        assert_eq!(used(&[(100, 20), (10, 20)]), 2);
        // What it joins adds little, and gains as little.
        assert_eq!(used(&[(50, 10), (50, 10), (3, 12)]), 2);
        assert_eq!(used(&[(3, 10), (100, 10)]), 2, "the fastest alone would be too little");
    }

    #[test]
    fn what_holds_up_those_behind_it_takes_slow_start_and_cubic() {
        let time = |ppm| duration(Rate::from_mbit(263), Span::from_millis(150), ppm).as_secs_f64();
        assert_eq!(time(0), time(293), "a window of 3405 packets");
        // Slow start to 57 packets, and half of (10 n T)^(1/4) for 13,812 packets.
        assert!((6.3..6.5).contains(&time(17_590)), "{}", time(17_590));
        // Few are as long as the windows that they leave take: 500 packets.
        assert!((2.9..3.0).contains(&time(2_000)), "{}", time(2_000));
        let short = |ppm| duration(Rate::from_mbit(8), Span::from_millis(10), ppm);
        assert_eq!((short(0), short(100_000)), (Span::from_secs(20), Span::from_secs(20)), "seven packets");
        assert!(duration(Rate::from_bits_per_sec(u64::MAX), Span::from_secs(60), 1_000_000) > Span::from_secs(20));
    }

    #[test]
    fn a_channel_that_loses_is_not_used_alone_where_another_one_has_time_for_copies() {
        // The rates and delays, and what the first loses.
        let used = |all: &[(u64, u64)], loss: u32| {
            let mut all = candidates(all);
            all[0].loss = loss;
            used_at_once(&all, Some(1))
        };
        let near_and_far = [(263, 76), (268, 138)];
        assert_eq!((used(&near_and_far, 0), used(&near_and_far, 17_590)), (1, 2));
        // One that has no time for most copies is no help.
        assert_eq!(used(&[(263, 76), (20, 138)], 17_590), 1);
        // A short way, on which a window is too small to be held up.
        assert_eq!(used(&[(48, 3), (32, 205)], 1_760), 1);
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

    /// Which of these channels, of which all are in use, are not needed after so many Mbit/s in one second after the other.
    fn unneeded(all: &[(u64, u64)], seconds: &[u64]) -> u64 {
        let mut demand = Demand::default();
        for rate in seconds {
            demand.taken = rate * 125_000;
            let sent = Bytes::new(rate * 125_000);
            let enough = demand.look(Span::from_secs(1), sent, Bytes::ZERO, &candidates(all), all.len());
            demand.unneeded |= (enough.unwrap_or(all.len())..all.len()).fold(0, |set, n| set | 1 << n);
        }
        demand.unneeded
    }

    #[test]
    fn slow_channels_are_not_needed_for_what_fits_the_fast_ones_for_three_seconds() {
        let near_and_far = [(50, 20), (50, 120)];
        // The first second grows from nothing.
        assert_eq!(unneeded(&near_and_far, &[9, 9, 9]), 0);
        assert_eq!(unneeded(&near_and_far, &[9, 9, 9, 9]), 0b10);
        assert_eq!(unneeded(&near_and_far, &[37, 37, 37, 37]), 0b10);
        assert_eq!(unneeded(&near_and_far, &[38, 38, 38, 38, 38, 38]), 0, "a quarter is to spare");
        assert_eq!(unneeded(&near_and_far, &[9, 9, 9, 40, 9, 9]), 0, "three in a row");
        // What varies does not grow by that; what began does.
        assert_eq!(unneeded(&near_and_far, &[20, 12, 20, 15]), 0b10);
        assert_eq!(unneeded(&near_and_far, &[2, 4, 8, 16, 32]), 0);
        // Two of three, and next to nothing, by which it begins anew.
        assert_eq!(unneeded(&[(50, 20), (50, 60), (50, 120)], &[9; 4]), 0b110);
        assert_eq!(unneeded(&[(50, 20), (50, 22), (50, 120)], &[60; 4]), 0b100);
        assert_eq!(unneeded(&near_and_far, &[9, 9, 9, 9, 0]), 0);
    }

    #[test]
    fn channels_that_make_the_way_little_longer_stay_in_use_whatever_is_sent() {
        for all in [[(50, 20), (50, 20)], [(50, 20), (50, 29)], [(50, 100), (50, 149)]] {
            assert_eq!(unneeded(&all, &[9; 10]), 0, "{all:?}");
        }
        for all in [[(50, 20), (50, 30)], [(50, 100), (50, 150)]] {
            assert_eq!(unneeded(&all, &[9; 10]), 0b10, "{all:?}");
        }
    }
}
