//! `fastest_transmit`: the link that will have transmitted the packet first.
//!
//! Source: burst round robin §2.1, multilink frame relay as US patent 7184402 distributes it: a fragment goes to the link
//! with the fastest transmit time, which is reckoned from the link's speed and the transmit time of what was allocated to
//! it before; the pattern of distribution comes from the total speed and the lowest speed that a link may have.
//!
//! | paper | here |
//! |---|---|
//! | link speed | `Lane::cost`: transmit time of one byte |
//! | transmit time of the fragment allocated previously | `FastestTransmit::ends`: when all that was allocated will have left |
//! | fastest transmit time | the least of max(now, end) + length x cost; of equals the faster link, then the lowest number |
//! | distribution pattern | [`pattern`]: (total speed / lowest speed) turns, a link of r times the lowest speed has r |
//!
//! **The pattern and the clock.** Fragments of one size on busy links fall into a pattern that repeats: [`pattern`] tells
//! it. Packets of other sizes, and links that fall idle, need the clock: what was allocated drains at the link's rate, and
//! where the bond knows better when a link will be free ([`LinkState::free`](super::LinkState::free)) the later of the two
//! counts. So an idle bond sends all over its fastest link until a slower one would be done sooner.
//!
//! With [`Config::pattern`] allocations do not drain: the patent's way to the letter, as far as the paper tells it. Each
//! link gets bytes in proportion to its speed, in the order of the pattern, however idle the links are.
//!
//! **Where rates are not known** there is no transmit time: weights are speeds then, and the pattern alone decides. A link
//! that joins while it does begins where the least loaded of the others stands.
//!
//! Departures: packets, not fragments (a bond over IP does not cut packets). Delays of the links are not looked at: the
//! patent's links are of one kind; for links of unlike delay see `brr` with `threshold=adaptive`.
//!
//! Cost: O(n) a packet, one multiplication for each link. Invariants: with equal delays and exact rates, packets that are
//! not smaller than those before them arrive in order; allocations of busy links differ by at most one packet's time.

use super::PolicyConfig;
use super::speeds::Speeds;
use super::{Frame, Links, Select};
use crate::options::{Kind, Table, option};
use crate::set::LinkSet;
use crate::units::{ChannelId, Time};
use alloc::vec::Vec;

/// The settings of `fastest_transmit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The distribution pattern alone: what was allocated to a link does not drain while it is idle. Default false.
    pub pattern: bool,
}

impl PolicyConfig for Config {
    const NAME: &'static str = "fastest_transmit";
    const HELP: &'static str = "the link that will have transmitted the packet first (multilink frame relay)";
    const OPTIONS: Table<Config> = Table(&[
        option!(pattern: Kind::Flag, "whether the distribution pattern alone decides: what a link was given does not drain while it is idle"),
    ]);
    type Selector = FastestTransmit;

    fn selector(&self, _seed: u64) -> FastestTransmit {
        FastestTransmit::new(*self)
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct FastestTransmit {
    pattern: bool,
    speeds: Speeds,
    lanes: Vec<Lane>,
    /// Ends of the links' allocations by their numbers: what a link has is not forgotten while it is down.
    ends: Vec<u128>,
    /// What is allocated drains: speeds are rates.
    timed: bool,
}

/// A usable link. Times are nanoseconds times 2^32, or bytes over weight in that unit where rates are not known.
#[derive(Clone, Copy, Debug)]
struct Lane {
    link: ChannelId,
    cost: u128,
}

/// Ends that differ by less than this, a thousandth of a nanosecond, are the same: costs are rounded.
const SAME: u128 = 1 << 22;

const fn fine(ns: u64) -> u128 {
    (ns as u128) << 32
}

impl FastestTransmit {
    /// With these settings.
    pub fn new(config: Config) -> FastestTransmit {
        FastestTransmit {
            pattern: config.pattern,
            speeds: Speeds::new(),
            lanes: Vec::with_capacity(ChannelId::LIMIT),
            ends: alloc::vec![0; ChannelId::LIMIT],
            timed: false,
        }
    }
}

impl Select for FastestTransmit {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        if self.speeds.stale(links) {
            self.on_links(now, links);
        }
        // Longer than any packet is; keeps the products below 2^128.
        let len = frame.len.min(1 << 30) as u128;
        let now = fine(now.as_nanos());
        let mut best: Option<(u128, ChannelId)> = None;
        for lane in &self.lanes {
            let mut start = self.ends.get(lane.link.index()).copied().unwrap_or(0);
            if self.timed {
                let free = links.get(lane.link).map_or(0, |state| fine(state.free.as_nanos()));
                start = start.max(now).max(free);
            }
            let end = (start + len * lane.cost).min(u128::MAX >> 1);
            if best.is_none_or(|(least, _)| end + SAME < least) {
                best = Some((end, lane.link));
            }
        }
        let Some((end, link)) = best else { return LinkSet::EMPTY };
        if let Some(of_link) = self.ends.get_mut(link.index()) {
            *of_link = end;
        }
        LinkSet::only(link)
    }

    fn on_links(&mut self, now: Time, links: &Links) {
        let (before, were_timed) = (self.speeds.usable(), self.timed);
        if !self.speeds.renew(links) {
            return;
        }
        self.timed = self.speeds.rated() && !self.pattern;
        let lane = |speed: u64| fine(8_000_000_000).div_ceil(u128::from(speed));
        self.lanes.clear();
        self.lanes.extend(self.speeds.fastest_first().iter().map(|one| Lane { link: one.link, cost: lane(one.speed) }));
        if self.timed != were_timed {
            self.ends.fill(if self.timed { fine(now.as_nanos()) } else { 0 });
        } else if !self.timed {
            let stayed = self.lanes.iter().filter(|lane| before.contains(lane.link));
            let least = stayed.map(|lane| self.ends[lane.link.index()]).min().unwrap_or(0);
            for lane in self.lanes.iter().filter(|lane| !before.contains(lane.link)) {
                self.ends[lane.link.index()] = least;
            }
        }
    }
}

/// The distribution pattern for fragments of one size on links that are never idle: after as many turns as the total speed
/// holds the lowest speed, every allocation ends at one moment, and the pattern begins again. `lowest`: the lowest speed
/// that a link may have, in the unit of `speeds`; a speed counts as a whole number of it, rounded down, at least one.
///
/// The links by their places in `speeds`, `None` where the pattern would be longer than 2^20 turns or `lowest` is zero.
pub fn pattern(speeds: &[u64], lowest: u64) -> Option<Vec<usize>> {
    let turns: Vec<u64> =
        speeds.iter().map(|speed| speed.checked_div(lowest).map(|turns| turns.max(1))).collect::<Option<_>>()?;
    let total = turns.iter().try_fold(0u64, |sum, turns| sum.checked_add(*turns)).filter(|total| *total <= 1 << 20)?;
    let mut given = alloc::vec![0u64; turns.len()];
    let mut order = Vec::with_capacity(total as usize);
    for _ in 0..total {
        // Ends at (given + 1) / turns: compared crosswise, so that nothing is rounded.
        let ends_sooner = |a: &usize, b: &usize| {
            let (a, b) = (*a, *b);
            ((given[a] + 1) * turns[b]).cmp(&((given[b] + 1) * turns[a])).then(turns[b].cmp(&turns[a])).then(a.cmp(&b))
        };
        let next = (0..turns.len()).min_by(ends_sooner)?;
        given[next] += 1;
        order.push(next);
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::super::LinkState;
    use super::super::speeds::tests::{packet, put, rated, weighted};
    use super::*;
    use crate::rng::Rng;
    use crate::units::{Bytes, Rate, Span};
    use alloc::vec;

    fn next(selector: &mut FastestTransmit, now: Time, links: &Links, len: usize) -> u8 {
        selector.select(now, &packet(len), links).first().unwrap().0
    }

    #[test]
    fn fragments_of_one_size_on_busy_links_follow_the_distribution_pattern() {
        // Frame relay's fractional lines: 64 kbit/s is the lowest speed.
        assert_eq!(pattern(&[128, 64], 64).unwrap(), [0, 0, 1]);
        for speeds in [vec![64, 64, 64], vec![1536, 128, 64, 512], vec![192, 128], vec![64; 64]] {
            let pattern = pattern(&speeds, 64).unwrap();
            assert_eq!(pattern.len() as u64, speeds.iter().sum::<u64>() / 64);
            let state =
                |speed: &u64| LinkState { rate: Some(Rate::from_bits_per_sec(speed * 1000)), ..LinkState::default() };
            let clocked = Links::new(speeds.iter().map(state));
            let weights = weighted(&speeds.iter().map(|speed| *speed as u32).collect::<Vec<_>>());
            for (links, pattern_alone) in [(&clocked, false), (&clocked, true), (&weights, false)] {
                let mut selector = FastestTransmit::new(Config { pattern: pattern_alone });
                // 8000 bytes a second are 64 kbit/s: no transmit time is rounded.
                let order: Vec<_> =
                    (0..pattern.len()).map(|_| usize::from(next(&mut selector, Time::ZERO, links, 1536))).collect();
                assert_eq!(order, pattern, "{speeds:?}");
            }
        }
        assert_eq!(pattern(&[u64::MAX, u64::MAX], 1), None);
        assert_eq!(pattern(&[5], 0), None);
        assert_eq!(pattern(&[], 5).unwrap(), []);
    }

    #[test]
    fn an_idle_bond_uses_its_fastest_link_until_a_slower_one_is_done_sooner() {
        let links = rated(&[10, 100]);
        let mut selector = FastestTransmit::new(Config::default());
        // 1250 bytes: 1 ms and 0.1 ms. A packet each millisecond never needs the slow link.
        for ms in 0..20 {
            assert_eq!(next(&mut selector, Time::from_millis(ms), &links, 1250), 1);
        }
        // Eleven at once: the tenth would end at 1 ms on either, and the faster one wins that.
        let burst: Vec<_> = (0..12).map(|_| next(&mut selector, Time::from_millis(100), &links, 1250)).collect();
        assert_eq!(burst, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1]);
    }

    #[test]
    fn the_pattern_alone_shares_by_speed_however_idle_the_links_are() {
        let links = rated(&[10, 30]);
        let mut selector = FastestTransmit::new(Config { pattern: true });
        let order: Vec<_> = (0..8).map(|s| next(&mut selector, Time::from_millis(1000 * s), &links, 1500)).collect();
        assert_eq!(order, [1, 1, 1, 0, 1, 1, 1, 0]);
    }

    #[test]
    fn what_the_bond_knows_of_a_link_counts_where_it_is_later() {
        let mut links = rated(&[100, 100]);
        let mut selector = FastestTransmit::new(Config::default());
        links.set_backlog(ChannelId(0), Bytes::new(100_000), Time::from_millis(8));
        let order: Vec<_> = (0..40).map(|_| next(&mut selector, Time::ZERO, &links, 12_500)).collect();
        // 1 ms each: link 1 until 8 ms, then both.
        assert_eq!(order[..9], [1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(order.iter().filter(|link| **link == 0).count(), 16);
    }

    #[test]
    fn packets_of_one_size_arrive_in_order_over_links_of_unlike_rates() {
        let mut rng = Rng::new(9);
        for round in 0..50 {
            let rates: Vec<u64> = (0..1 + rng.below(64)).map(|_| 1 + rng.below(1000)).collect();
            let links = rated(&rates);
            let (mut selector, mut now, mut last) = (FastestTransmit::new(Config::default()), Time::ZERO, Time::ZERO);
            let mut free = vec![Time::ZERO; rates.len()];
            for _ in 0..500 {
                now += Span::from_micros(rng.below(20));
                let link = usize::from(next(&mut selector, now, &links, 1500));
                let end = |n: usize| free[n].max(now) + Rate::from_mbit(rates[n]).transmit_time(Bytes::new(1500));
                // No other link would have it there sooner. The model rounds up each packet of a queue to a nanosecond.
                let soonest = (0..rates.len()).map(end).min().unwrap();
                assert!(end(link) <= soonest + Span::from_micros(1), "round {round}");
                free[link] = end(link);
                assert!(free[link] + Span::from_micros(1) >= last, "round {round}: {:?} before {last:?}", free[link]);
                last = last.max(free[link]);
            }
        }
    }

    #[test]
    fn without_rates_bytes_go_with_the_weights_and_a_link_that_joins_gets_no_flood() {
        let mut links = weighted(&[1, 3]);
        let mut selector = FastestTransmit::new(Config::default());
        let mut rng = Rng::new(3);
        let mut bytes = [0u64; 2];
        for _ in 0..10_000 {
            let len = 40 + rng.below(1460);
            bytes[usize::from(next(&mut selector, Time::ZERO, &links, len as usize))] += len;
        }
        // Their ends differ by less than the largest packet.
        assert!(bytes[0].abs_diff(bytes[1] / 3) <= 1500, "{bytes:?}");
        put(&mut links, 0, false);
        (0..1000).for_each(|_| assert_eq!(next(&mut selector, Time::ZERO, &links, 1500), 1));
        put(&mut links, 0, true);
        let after: Vec<_> = (0..8).map(|_| next(&mut selector, Time::ZERO, &links, 1500)).collect();
        assert_eq!(after.iter().filter(|link| **link == 0).count(), 2, "{after:?}");
    }

    #[test]
    fn absurd_sizes_rates_and_times_are_borne() {
        let state = |rate| LinkState { rate: Some(Rate::from_bits_per_sec(rate)), ..LinkState::default() };
        let links = Links::new([state(1), state(u64::MAX)]);
        let mut selector = FastestTransmit::new(Config::default());
        for now in [Time::ZERO, Time::MAX] {
            for len in [0, usize::MAX, 1] {
                assert_eq!(next(&mut selector, now, &links, len), 1);
            }
        }
        // Time that goes back is the caller's error, and no reason to stop.
        assert!(next(&mut selector, Time::ZERO, &links, 1) < 2);
        assert!(selector.select(Time::ZERO, &packet(1), &Links::default()).is_empty());
    }
    #[test]
    fn what_the_links_have_to_do_is_remembered_when_another_one_comes_or_goes() {
        let mut links = rated(&[10, 100, 1]);
        let mut selector = FastestTransmit::new(Config::default());
        let now = Time::from_millis(100);
        assert_eq!([0; 10].map(|_| next(&mut selector, now, &links, 1250)), [1; 10]);
        put(&mut links, 2, false);
        assert_eq!([0; 2].map(|_| next(&mut selector, now, &links, 1250)), [0, 1]);
    }
}
