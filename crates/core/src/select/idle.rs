//! The link that was idle longest, and the links' weights.
//!
//! What it is: of the usable links the one whose last packet was queued longest ago; one that never had a packet comes first,
//! of several the lowest number. Source: burst-round-robin paper, 5.3 ("the interface device that has the earliest time
//! since the last packet is queued").
//!
//! Departures: packets of one instant are told apart by their order; else a burst of new flows within one tick of the clock
//! would all go to one link. With unlike weights only links that had no more than their share of the last bursts are
//! looked at, and of those the one idle longest; shares thus come out within a burst or so. With equal weights that would still
//! count bursts, where the paper looks at packets only, so then nothing is counted: it is the paper's rule, link for link.
//!
//! Cost: O(links) for each new burst, one store for each packet. Invariant: of several usable links one always has no more than
//! its share, so that there is a choice.

use super::Links;
use crate::rng::Rng;
use crate::set::LinkSet;
use crate::units::ChannelId;

/// No weight is more, so that products of all 64 and a random number do not overflow: 144 Pbit/s.
const MOST_WEIGHT: u64 = 1 << 57;

/// Each link's share of the traffic, in relation to the others'.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    each: [u64; ChannelId::LIMIT],
    equal: bool,
}

impl Weights {
    /// All the same.
    pub(super) const EQUAL: Weights = Weights { each: [1; ChannelId::LIMIT], equal: true };

    /// The usable links' rates; their configured weights where one's rate is not known.
    pub(super) fn of(links: &Links) -> Weights {
        let rate = |state: &super::LinkState| state.rate.map_or(0, |rate| rate.as_bits_per_sec());
        let known = links.each_usable().all(|(_, state)| rate(state) > 0);
        let mut weights = Weights::EQUAL;
        for (link, state) in links.each_usable() {
            let weight = if known { rate(state) } else { u64::from(state.weight.max(1)) };
            weights.each[link.index()] = weight.min(MOST_WEIGHT);
        }
        let mut each = links.usable().iter().map(|link| weights.get(link));
        let first = each.next();
        weights.equal = each.all(|weight| Some(weight) == first);
        weights
    }

    #[inline]
    pub(super) fn get(&self, link: ChannelId) -> u64 {
        self.each[link.index() % ChannelId::LIMIT]
    }

    /// One of `links`, at random in proportion to the weights.
    pub(super) fn draw(&self, links: LinkSet, rng: &mut Rng) -> Option<ChannelId> {
        let sum = links.iter().map(|link| u128::from(self.get(link))).sum::<u128>();
        let mut left = (u128::from(rng.next_u64()) * sum) >> 64;
        links.iter().find(|link| {
            let weight = u128::from(self.get(*link));
            let found = left < weight;
            left = left.saturating_sub(weight);
            found
        })
    }
}

/// Bursts that are looked back on, at least half so many.
const BURSTS: u64 = 4096;

/// In which order the links last had a packet queued.
#[derive(Clone, Debug)]
pub(super) struct LongestIdle {
    /// The number of each link's last packet; 0 where it never had one.
    last: [u64; ChannelId::LIMIT],
    packets: u64,
    /// The last bursts of each link, counted where weights are unlike.
    bursts: [u64; ChannelId::LIMIT],
}

impl LongestIdle {
    pub(super) const fn new() -> LongestIdle {
        LongestIdle { last: [0; ChannelId::LIMIT], packets: 0, bursts: [0; ChannelId::LIMIT] }
    }

    /// A packet is queued on `link`.
    #[inline]
    pub(super) fn queued(&mut self, link: ChannelId) {
        self.packets += 1;
        self.last[link.index() % ChannelId::LIMIT] = self.packets;
    }

    /// Links came, went, or have other weights: the bursts of before say nothing any more.
    pub(super) fn on_links(&mut self) {
        self.bursts = [0; ChannelId::LIMIT];
    }

    /// The one of `links` that was idle longest, for a new burst.
    #[inline]
    pub(super) fn pick(&mut self, links: LinkSet, weights: &Weights) -> Option<ChannelId> {
        if weights.equal {
            return links.iter().min_by_key(|link| self.last[link.index() % ChannelId::LIMIT]);
        }
        self.pick_weighted(links, weights)
    }

    fn pick_weighted(&mut self, links: LinkSet, weights: &Weights) -> Option<ChannelId> {
        let bursts = |link: ChannelId| self.bursts[link.index() % ChannelId::LIMIT];
        let (all, sum) = links
            .iter()
            .fold((0u64, 0u128), |(all, sum), link| (all + bursts(link), sum + u128::from(weights.get(link))));
        let within =
            |link: &ChannelId| u128::from(bursts(*link)) * sum <= u128::from(weights.get(*link)) * u128::from(all);
        let found = links.iter().filter(within).min_by_key(|link| self.last[link.index() % ChannelId::LIMIT])?;
        self.bursts[found.index() % ChannelId::LIMIT] += 1;
        if all >= BURSTS {
            self.bursts.iter_mut().for_each(|bursts| *bursts /= 2);
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChannelId, Links, LongestIdle, Rng, Weights};
    use crate::select::LinkState;
    use crate::set::LinkSet;
    use crate::units::Rate;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn bursts_are_shared_as_the_rates_are() {
        let rate = |mbit: &u64| LinkState { rate: Some(Rate::from_mbit(*mbit)), ..LinkState::default() };
        for rates in [&[10, 20, 70][..], &[1, 3], &[3, 2], &[1, 100], &[5, 4, 3, 2, 1], &[999, 1000]] {
            let (links, mut idle) = (Links::new(rates.iter().map(rate)), LongestIdle::new());
            let (weights, mut counts) = (Weights::of(&links), alloc::vec![0u64; rates.len()]);
            let rounds = 20_000 / rates.iter().sum::<u64>();
            for n in 0..rounds * rates.iter().sum::<u64>() {
                let link = idle.pick(links.usable(), &weights).unwrap();
                // Bursts of unlike lengths.
                (0..=n % 7).for_each(|_| idle.queued(link));
                counts[link.index()] += 1;
            }
            // Half a burst of each link is forgotten each time that the counts are halved, ten times here.
            let near = |(count, rate): (&u64, &u64)| count.abs_diff(rate * rounds) <= 12;
            assert!(counts.iter().zip(rates).all(near), "{counts:?} for {rates:?}");
        }
    }

    #[test]
    fn without_all_rates_the_weights_count() {
        let weight = |weight, rate| LinkState { weight, rate, ..LinkState::default() };
        let links = Links::new([weight(3, None), weight(1, Some(Rate::from_mbit(100)))]);
        let weights = Weights::of(&links);
        assert_eq!((weights.get(ChannelId(0)), weights.get(ChannelId(1))), (3, 1));
        let mut rng = Rng::new(1);
        let drawn = (0..10_000).filter(|_| weights.draw(links.usable(), &mut rng) == Some(ChannelId(0))).count();
        // 7500 expected, standard deviation 43: six deviations either way.
        assert!((7_240..7_760).contains(&drawn), "{drawn}");
        assert_eq!(weights.draw(LinkSet::EMPTY, &mut rng), None);
    }

    proptest! {
        #[test]
        fn with_equal_weights_it_is_the_link_queued_longest_ago(
            queued in proptest::collection::vec(0u8..6, 0..60), usable in 1u64..64, weight in 1u64..1000,
        ) {
            let (mut idle, mut order) = (LongestIdle::new(), Vec::new());
            for link in queued {
                idle.queued(ChannelId(link));
                order.retain(|l| *l != link);
                order.push(link);
            }
            let usable = LinkSet::from_bits(usable);
            let state = LinkState { rate: Some(Rate::from_mbit(weight)), ..LinkState::default() };
            let weights = Weights::of(&Links::new([state; 6]));
            let never = usable.iter().find(|link| !order.contains(&link.0));
            let oldest = order.iter().map(|link| ChannelId(*link)).find(|link| usable.contains(*link));
            prop_assert_eq!(idle.pick(usable, &weights), never.or(oldest));
        }
    }
    #[test]
    fn bursts_of_before_the_links_changed_say_nothing_any_more() {
        let rate = |mbit: &u64| LinkState { rate: Some(Rate::from_mbit(*mbit)), ..LinkState::default() };
        let (links, mut idle) = (Links::new([10, 30].iter().map(rate)), LongestIdle::new());
        let weights = Weights::of(&links);
        let mut picks = |from: LinkSet, count| {
            let picked = |_: &u32| idle.pick(from, &weights) == Some(ChannelId(0));
            let first = (0..count).filter(picked).count();
            idle.on_links();
            first
        };
        picks(LinkSet::only(ChannelId(1)), 1000);
        assert_eq!(picks(links.usable(), 40), 10);
    }
    #[test]
    fn of_those_below_their_share_the_one_that_was_idle_longest_is_taken_and_half_of_the_bursts_are_kept_in_mind() {
        let rate = |mbit: &u64| LinkState { rate: Some(Rate::from_mbit(*mbit)), ..LinkState::default() };
        let (links, mut idle) = (Links::new([10, 10, 30].iter().map(rate)), LongestIdle::new());
        let weights = Weights::of(&links);
        idle.queued(ChannelId(0));
        assert_eq!(idle.pick(links.usable(), &weights), Some(ChannelId(1)));
        for n in 1..10_000u64 {
            idle.pick(links.usable(), &weights);
            let bursts: u64 = idle.bursts.iter().sum();
            assert!(bursts > n || (2040..4100).contains(&bursts), "{bursts} of {n}");
        }
    }
}
