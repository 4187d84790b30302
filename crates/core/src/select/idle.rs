//! The link that was idle longest, and the links' weights.
//!
//! What it is: of the usable links the one whose last packet was queued longest ago; one that never had a packet comes first,
//! of several the lowest number. Source: burst-round-robin paper, 5.3 ("the interface device that has the earliest time
//! since the last packet is queued").
//!
//! Departures: packets of one instant are told apart by their order, each standing for a nanosecond; else a burst of
//! new flows within one tick of the clock would all go to one link. With unlike weights the idle time counts times the
//! weight: a link of weight w waits until its idle time reaches c/w, with one c for all, so that it begins w/sum(w) of
//! the bursts. With equal weights that is the paper's rule, link for link.
//!
//! Cost: O(links) for each new burst, one store for each packet.

use super::{LinkSet, Links};
use crate::rng::Rng;
use crate::units::{ChannelId, Time};

/// Each link's share of the traffic, in relation to the others'.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    each: [u64; ChannelId::LIMIT],
}

impl Weights {
    /// All the same.
    pub(super) const EQUAL: Weights = Weights { each: [1; ChannelId::LIMIT] };

    /// The usable links' rates; their configured weights where one's rate is not known.
    pub(super) fn of(links: &Links) -> Weights {
        let rate = |state: &super::LinkState| state.rate.map_or(0, |rate| rate.as_bits_per_sec());
        let known = links.each_usable().all(|(_, state)| rate(state) > 0);
        let mut weights = Weights::EQUAL;
        for (link, state) in links.each_usable() {
            weights.each[link.index()] = if known { rate(state) } else { u64::from(state.weight.max(1)) };
        }
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

/// When each link last had a packet queued.
#[derive(Clone, Debug)]
pub(super) struct LongestIdle {
    /// The instant and the number of its last packet; number 0 where it never had one.
    last: [(Time, u64); ChannelId::LIMIT],
    packets: u64,
}

impl LongestIdle {
    pub(super) const fn new() -> LongestIdle {
        LongestIdle { last: [(Time::ZERO, 0); ChannelId::LIMIT], packets: 0 }
    }

    /// A packet is queued on `link`.
    #[inline]
    pub(super) fn queued(&mut self, now: Time, link: ChannelId) {
        self.packets += 1;
        self.last[link.index() % ChannelId::LIMIT] = (now, self.packets);
    }

    /// The one of `links` that was idle longest.
    #[inline]
    pub(super) fn pick(&self, now: Time, links: LinkSet, weights: &Weights) -> Option<ChannelId> {
        let mut best: Option<(ChannelId, u128)> = None;
        for link in links.iter() {
            let (at, number) = self.last[link.index() % ChannelId::LIMIT];
            if number == 0 {
                return Some(link);
            }
            let idle = u128::from(now.since(at).as_nanos()) + u128::from(self.packets + 1 - number);
            let score = idle * u128::from(weights.get(link));
            if best.is_none_or(|(_, most)| score > most) {
                best = Some((link, score));
            }
        }
        best.map(|(link, _)| link)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChannelId, LinkSet, Links, LongestIdle, Rng, Time, Weights};
    use crate::select::LinkState;
    use crate::units::Rate;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn shares(links: &[LinkState], bursts: u64, gap: u64) -> Vec<u64> {
        let (links, mut idle) = (Links::new(links.iter().copied()), LongestIdle::new());
        let (weights, mut counts) = (Weights::of(&links), alloc::vec![0; links.len()]);
        for n in 0..bursts {
            let now = Time::from_nanos(n * gap);
            let link = idle.pick(now, links.usable(), &weights).unwrap();
            idle.queued(now, link);
            counts[link.index()] += 1;
        }
        counts
    }

    #[test]
    fn bursts_are_shared_as_the_rates_are_whatever_their_distance() {
        let rate = |mbit| LinkState { rate: Some(Rate::from_mbit(mbit)), ..LinkState::default() };
        for gap in [0, 1, 1_000, 5_000_000] {
            let counts = shares(&[rate(10), rate(20), rate(70)], 10_000, gap);
            // Whole bursts against shares: within one in a round of ten.
            for (count, share) in counts.iter().zip([1_000, 2_000, 7_000]) {
                assert!(count.abs_diff(share) <= 1_000, "{counts:?} at {gap} ns");
            }
            assert!(counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
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
            queued in proptest::collection::vec((0u8..6, 0u64..3), 0..60), usable in 1u64..64, weight in 1u64..1000,
        ) {
            let (mut idle, mut order, mut now) = (LongestIdle::new(), Vec::new(), Time::ZERO);
            for (link, gap) in queued {
                now += crate::units::Span::from_nanos(gap);
                idle.queued(now, ChannelId(link));
                order.retain(|l| *l != link);
                order.push(link);
            }
            let usable = LinkSet::from_bits(usable);
            let weights = Weights { each: [weight; ChannelId::LIMIT] };
            let never = usable.iter().find(|link| !order.contains(&link.0));
            let oldest = order.iter().map(|link| ChannelId(*link)).find(|link| usable.contains(*link));
            prop_assert_eq!(idle.pick(now, usable, &weights), never.or(oldest));
        }
    }
}
