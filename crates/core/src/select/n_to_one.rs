//! `n_to_one` and `n_to_one_primary`: N packets on the fast link for each on a slow one.
//!
//! Source: burst round robin §7, "N:1" and "N:1/Primary" (Andersen and Hanenkamp, its reference 12): round robin over two
//! interfaces where the one that is N times as fast gets N packets for each of the other's; with a primary link, only for
//! packets below a size, while the larger ones go to that link.
//!
//! **Generalised** to any number of links: link i has a whole share w(i) ([`Config::n`]), and of every W = Σ w(i) packets
//! it gets w(i), spread as evenly as is possible at all: after any number t of packets it has had t w(i)/W of them to within
//! 1 - 1/(2k-2), k being the number of links. No order does better for all shares (Tijdeman, "The chairman assignment
//! problem", Discrete Mathematics 32, 1980), and that paper's rule is the one here: the j-th packet of link i, from 0, may
//! be sent from the moment that keeps the link below the bound, and must be by the moment that keeps it above; of those
//! that may be sent, the one goes first that must be soonest; of equals the fastest link, then the lowest number. After W
//! packets it begins again, so the order repeats.
//!
//! | symbol | here |
//! |---|---|
//! | w(i), W | `Lane::share`, `NToOne::total` |
//! | t | `NToOne::step`, from 1 |
//! | moments of the next packet of i | `Lane::release`, `Lane::deadline` |
//!
//! **Shares.** Without `n`: the rates in their smallest whole ratio (weights where not all usable links' rates are known);
//! a ratio whose largest term would be above 2^20 is rounded to that. With `n`: n for each link that is as fast as the
//! fastest, 1 for the others; and where nothing tells the links apart the first one counts as the fast one.
//!
//! Departures: packets are mixed, not N in a row, which loads the links alike at every moment and halves queues and
//! reordering. The paper says "below this threshold" for N:1/Primary: a packet of exactly that size is large here, while it
//! is small for [`cut_off_least_queue`](super::cut_off_least_queue), as there. A change of the usable links or their speeds
//! begins the order anew.
//!
//! Cost: O(k) a packet, two comparisons for each link and one division; no allocation after construction.

use super::PolicyConfig;
use super::active_backup::PRIMARY;
use super::speeds::Speeds;
use super::{Frame, Links, Select};
use crate::options::{Kind, LinkRef, OptionSpec, Table, option};
use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Time};
use alloc::vec::Vec;

/// The settings of `n_to_one`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Packets on the fastest link for each on a slow one; `None` (the default): the ratio of rates or weights.
    pub n: Option<u32>,
}

/// The settings of `n_to_one_primary`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrimaryConfig {
    /// As [`Config::n`].
    pub n: Option<u32>,
    /// Packets of this size and above go to the primary link. Default 512.
    pub size: Bytes,
    /// The primary link. Default the fastest.
    pub primary: Option<LinkRef>,
}

impl Default for PrimaryConfig {
    fn default() -> PrimaryConfig {
        PrimaryConfig { n: None, size: Bytes::new(512), primary: None }
    }
}

/// The option, of every policy that has it.
const N: OptionSpec = OptionSpec::new(
    "n",
    Kind::Count(1, 65_535, Some("auto")),
    "packets on the fastest link for each on a slow one; auto: the ratio of their rates or weights",
);

/// The option, of every policy that has it.
pub(super) const SIZE: OptionSpec = OptionSpec::new(
    "size",
    Kind::Bytes(1, 65_535, None),
    "packets above this size are large; n_to_one_primary: of this size and above",
);

impl PolicyConfig for Config {
    const NAME: &'static str = "n_to_one";
    const MAIN: Option<&'static str> = Some("n");
    const HELP: &'static str = "N packets on the fast link for each on a slow one";
    const OPTIONS: Table<Config> = Table(&[option!(N => n)]);
    type Selector = NToOne;

    fn selector(&self, _seed: u64) -> NToOne {
        NToOne::new(*self)
    }
}

impl PolicyConfig for PrimaryConfig {
    const NAME: &'static str = "n_to_one_primary";
    const MAIN: Option<&'static str> = Some("size");
    const HELP: &'static str = "large packets on the fastest link, small ones N to one";
    const OPTIONS: Table<PrimaryConfig> = Table(&[option!(PRIMARY => primary), option!(N => n), option!(SIZE => size)]);
    type Selector = NToOne;

    fn selector(&self, _seed: u64) -> NToOne {
        NToOne::primary(self.clone())
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct NToOne {
    n: Option<u32>,
    /// From this size on packets go to the primary link.
    large: Option<Bytes>,
    primary: Option<ChannelId>,
    speeds: Speeds,
    lanes: Vec<Lane>,
    total: u64,
    step: u64,
}

/// A usable link and its next packet.
#[derive(Clone, Copy, Debug)]
struct Lane {
    link: ChannelId,
    share: u64,
    sent: u64,
    /// The first step in which its next packet may be sent.
    release: u64,
    /// The last one.
    deadline: u64,
}

/// The largest share. Keeps `Lane::after`'s products below 2^54.
const MOST: u64 = 1 << 20;

impl Lane {
    /// Its next packet is number `sent`. It may be sent from the first step t with t w/W >= sent + 1/rounds, and must be by
    /// the first with t w/W > sent + 1 - 1/rounds.
    fn after(&mut self, sent: u64, total: u64, links: usize) {
        let rounds = 2 * (links as u64).saturating_sub(1).max(1);
        self.sent = sent;
        self.release = ((sent * rounds + 1) * total).div_ceil(rounds * self.share);
        self.deadline = ((sent + 1) * rounds - 1) * total / (rounds * self.share) + 1;
    }
}

impl NToOne {
    /// `n_to_one`.
    pub fn new(config: Config) -> NToOne {
        let lanes = Vec::with_capacity(ChannelId::LIMIT);
        NToOne { n: config.n, large: None, primary: None, speeds: Speeds::new(), lanes, total: 0, step: 1 }
    }

    /// `n_to_one_primary`; a primary link that is not resolved to a number counts as none.
    pub fn primary(config: PrimaryConfig) -> NToOne {
        let primary = config.primary.and_then(|link| link.number());
        NToOne { large: Some(config.size), primary, ..NToOne::new(Config { n: config.n }) }
    }

    fn shares(&mut self) {
        let (fast, order) = (self.speeds.fast(), self.speeds.fastest_first());
        let top = order.first().map_or(1, |one| one.speed);
        let divisor = order.iter().fold(0, |divisor, one| greatest_common_divisor(divisor, one.speed)).max(1);
        let auto = |speed: u64| match top / divisor {
            0..=MOST => speed / divisor,
            _ => ((u128::from(speed) * u128::from(MOST) + u128::from(top) / 2) / u128::from(top)).max(1) as u64,
        };
        let fast = if fast == order.len() { 1 } else { fast };
        self.lanes.clear();
        self.lanes.extend(order.iter().enumerate().map(|(place, one)| {
            let share = match self.n {
                None => auto(one.speed),
                Some(n) if place < fast => u64::from(n.max(1)),
                Some(_) => 1,
            };
            Lane { link: one.link, share, sent: 0, release: 0, deadline: 0 }
        }));
        self.total = self.lanes.iter().map(|lane| lane.share).sum();
        self.begin();
    }

    fn begin(&mut self) {
        self.step = 1;
        let links = self.lanes.len();
        self.lanes.iter_mut().for_each(|lane| lane.after(0, self.total, links));
    }

    #[inline]
    fn next(&mut self) -> Option<ChannelId> {
        if self.step > self.total {
            self.begin();
        }
        let due = |lane: &&mut Lane| lane.release <= self.step;
        let links = self.lanes.len();
        let lane = self.lanes.iter_mut().filter(due).min_by_key(|lane| lane.deadline)?;
        lane.after(lane.sent + 1, self.total, links);
        self.step += 1;
        Some(lane.link)
    }
}

impl Select for NToOne {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        if self.speeds.stale(links) {
            self.on_links(now, links);
        }
        let large = self.large.is_some_and(|size| Bytes::from(frame.len) >= size);
        let link = if large { self.speeds.primary(self.primary) } else { self.next() };
        link.map_or(LinkSet::EMPTY, LinkSet::only)
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        if self.speeds.renew(links) {
            self.shares();
        }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::LinkState;
    use super::super::speeds::tests::{packet, put, rated, weighted};
    use super::*;
    use crate::rng::Rng;
    use crate::units::Rate;
    use alloc::vec;
    use proptest::prelude::*;

    fn order(selector: &mut NToOne, links: &Links, len: usize, count: usize) -> Vec<u8> {
        let mut next = || selector.select(Time::ZERO, &packet(len), links).first().unwrap().0;
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_link_ten_times_as_fast_gets_ten_packets_for_each_of_the_other() {
        // The paper's example: gigabit beside fast Ethernet. The slow link's packet lies in the middle of the eleven.
        let links = rated(&[1000, 100]);
        let once = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        for n in [None, Some(10)] {
            let mut selector = NToOne::new(Config { n });
            assert_eq!(order(&mut selector, &links, 1500, 11), once);
            assert_eq!(order(&mut selector, &links, 1500, 11), once);
        }
    }

    #[test]
    fn equal_links_take_turns_and_weights_stand_for_rates_that_are_not_known() {
        assert_eq!(order(&mut NToOne::new(Config::default()), &rated(&[7; 3]), 60, 6), [0, 1, 2, 0, 1, 2]);
        assert_eq!(order(&mut NToOne::new(Config::default()), &weighted(&[1, 2]), 60, 6), [1, 0, 1, 1, 0, 1]);
        assert_eq!(order(&mut NToOne::new(Config::default()), &rated(&[5]), 60, 3), [0, 0, 0]);
    }

    #[test]
    fn a_given_n_holds_for_every_fast_link_and_for_the_first_of_equal_ones() {
        let count = |links: &Links, n: u32, link: u8| {
            let mut selector = NToOne::new(Config { n: Some(n) });
            order(&mut selector, links, 60, 1200).iter().filter(|one| **one == link).count()
        };
        // 5 + 1 + 5 + 1 of twelve, whatever the slow ones' rates are.
        let links = rated(&[100, 10, 100, 40]);
        assert_eq!([0, 1, 2, 3].map(|link| count(&links, 5, link)), [500, 100, 500, 100]);
        assert_eq!([0, 1].map(|link| count(&weighted(&[1, 1]), 3, link)), [900, 300]);
        assert_eq!([0, 1].map(|link| count(&weighted(&[1, 1]), 1, link)), [600, 600]);
    }

    #[test]
    fn packets_of_the_size_and_above_go_to_the_primary_link() {
        let mut links = rated(&[100, 200, 50]);
        let mut selector = NToOne::primary(PrimaryConfig::default());
        assert_eq!(order(&mut selector, &links, 512, 4), [1; 4]);
        // 2 + 4 + 1: the large ones take no turn.
        let mut small = order(&mut selector, &links, 511, 7);
        small.sort_unstable();
        assert_eq!(small, [0, 0, 1, 1, 1, 1, 2]);
        let primary = Some(LinkRef::Number(ChannelId(2)));
        let mut selector = NToOne::primary(PrimaryConfig { primary, ..PrimaryConfig::default() });
        assert_eq!(order(&mut selector, &links, usize::MAX, 2), [2; 2]);
        put(&mut links, 2, false);
        assert_eq!(order(&mut selector, &links, 1500, 2), [1; 2]);
        put(&mut links, 0, false);
        put(&mut links, 1, false);
        assert!(selector.select(Time::ZERO, &packet(60), &links).is_empty());
        assert!(selector.select(Time::ZERO, &packet(1500), &links).is_empty());
    }

    #[test]
    fn absurd_ratios_are_borne_and_the_slowest_link_is_not_forgotten() {
        let state = |rate| LinkState { rate: Some(Rate::from_bits_per_sec(rate)), ..LinkState::default() };
        let links = Links::new([state(u64::MAX), state(1), state(u64::MAX / 3)]);
        let mut selector = NToOne::new(Config::default());
        selector.on_links(Time::ZERO, &links);
        let shares: Vec<u64> = selector.lanes.iter().map(|lane| lane.share).collect();
        assert_eq!(shares, [MOST, MOST / 3, 1]);
        let total = selector.total as usize;
        let all = order(&mut selector, &links, 60, total);
        assert_eq!(all.iter().filter(|link| **link == 1).count(), 1);
        let links = Links::new((0..64).map(|n| state(1_000_003 + n)));
        order(&mut selector, &links, 60, 10_000);
    }

    #[test]
    fn a_link_that_goes_and_comes_back_leaves_no_credit_behind() {
        let mut links = rated(&[10, 10]);
        let mut selector = NToOne::new(Config::default());
        put(&mut links, 1, false);
        assert_eq!(order(&mut selector, &links, 60, 100), [0; 100]);
        put(&mut links, 1, true);
        assert_eq!(order(&mut selector, &links, 60, 4), [0, 1, 0, 1]);
    }

    /// The chairman's rule with fractions as it is written, without precomputed moments.
    fn by_the_rule(shares: &[u64], steps: u64) -> Vec<usize> {
        let (total, rounds) = (shares.iter().sum::<u64>() as i128, 2 * (shares.len() as i128 - 1));
        let mut sent = vec![0i128; shares.len()];
        let next = |t: u64, sent: &mut Vec<i128>| {
            let owed = |i: usize| shares[i] as i128 * i128::from(t) - sent[i] * total;
            let due = (0..shares.len()).filter(|i| owed(*i) * rounds >= total);
            let chosen =
                due.min_by_key(|i| ((sent[*i] + 1) * rounds - 1) * total / (rounds * shares[*i] as i128)).unwrap();
            sent[chosen] += 1;
            chosen
        };
        (1..=steps).map(|t| next(t, &mut sent)).collect()
    }

    proptest! {
        #[test]
        fn every_link_has_its_share_at_every_moment_to_within_less_than_a_packet(
            shares in prop::collection::vec(1u32..200, 2..12), seed: u64,
        ) {
            let mut rng = Rng::new(seed);
            let weights: Vec<u32> = if rng.below(2) == 0 { shares } else { vec![shares[0]; shares.len()] };
            let links = weighted(&weights);
            let mut selector = NToOne::new(Config::default());
            selector.on_links(Time::ZERO, &links);
            let (total, rounds) = (selector.total as i128, 2 * (weights.len() as i128 - 1));
            let lanes = selector.lanes.clone();
            let model = by_the_rule(&lanes.iter().map(|lane| lane.share).collect::<Vec<_>>(), selector.total);
            let mut sent = vec![0i128; lanes.len()];
            for t in 1..=3 * total {
                let link = selector.select(Time::ZERO, &packet(60), &links).first().unwrap();
                let place = lanes.iter().position(|lane| lane.link == link).unwrap();
                prop_assert_eq!(place, model[((t - 1) % total) as usize]);
                sent[place] += 1;
                for (lane, sent) in lanes.iter().zip(&sent) {
                    let off = (i128::from(lane.share) * t - sent * total).abs();
                    prop_assert!(off * rounds <= total * (rounds - 1), "link {} after {t} packets", lane.link);
                }
            }
        }
    }
    #[test]
    fn shares_are_whole_numbers_as_small_as_can_be_and_rounded_where_they_would_be_large() {
        let shares = |bits: &[u64]| -> Vec<u64> {
            let state = |bits: &u64| LinkState { rate: Some(Rate::from_bits_per_sec(*bits)), ..LinkState::default() };
            let mut selector = NToOne::new(Config { n: None });
            selector.on_links(Time::ZERO, &Links::new(bits.iter().map(state)));
            selector.lanes.iter().map(|lane| lane.share).collect()
        };
        assert_eq!(shares(&[30_000_000, 10_000_000, 20_000_000]), [3, 2, 1]);
        assert_eq!(shares(&[7, 5]), [7, 5]);
        assert_eq!(shares(&[100]), [1]);
        // 2^22 + 1 and 4,000,003: of 2^20, 1,000,000.5.
        assert_eq!(shares(&[4_194_305, 4_000_003]), [MOST, 1_000_001]);
    }
}
