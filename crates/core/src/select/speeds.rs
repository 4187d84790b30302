//! How fast links are beside each other, for the policies that give unlike links unlike shares.
//!
//! A link's speed is its rate where every usable link's rate is known, else its weight: a rate and a weight are not
//! compared with each other. A rate of zero is a rate that is not known. Kept from one change of the links to the next, so
//! that a packet costs no look at rates. Cost: O(n log n) a change, no allocation after construction.

use super::Links;
use crate::set::LinkSet;
use crate::units::{ChannelId, Rate};
use alloc::vec::Vec;

/// The usable links and their speeds.
#[derive(Clone, Debug)]
pub(super) struct Speeds {
    usable: LinkSet,
    rated: bool,
    each: Vec<Speed>,
    ordered: Vec<Speed>,
}

/// One link's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Speed {
    pub(super) link: ChannelId,
    /// Bits per second, or a weight; at least 1.
    pub(super) speed: u64,
}

impl Speeds {
    /// Of no links yet.
    pub(super) fn new() -> Speeds {
        let room = || Vec::with_capacity(ChannelId::LIMIT);
        Speeds { usable: LinkSet::EMPTY, rated: false, each: room(), ordered: room() }
    }

    /// Takes the links as they are now. Whether anything is not as it was.
    pub(super) fn renew(&mut self, links: &Links) -> bool {
        let rate = |rate: Option<Rate>| rate.map_or(0, Rate::as_bits_per_sec);
        let rated = links.each_usable().all(|(_, state)| rate(state.rate) > 0);
        let speeds = links.each_usable().map(|(link, state)| {
            let speed = if rated { rate(state.rate) } else { u64::from(state.weight).max(1) };
            Speed { link, speed }
        });
        if self.usable == links.usable() && self.rated == rated && self.each.iter().copied().eq(speeds.clone()) {
            return false;
        }
        (self.usable, self.rated) = (links.usable(), rated);
        self.each.clear();
        self.each.extend(speeds);
        self.ordered.clone_from(&self.each);
        self.ordered.sort_unstable_by_key(|one| (u64::MAX - one.speed, one.link));
        true
    }

    /// Whether they are of other links than these: [`Speeds::renew`] was not called since a link came or went.
    #[inline]
    pub(super) fn stale(&self, links: &Links) -> bool {
        self.usable != links.usable()
    }

    /// The links they are of.
    pub(super) fn usable(&self) -> LinkSet {
        self.usable
    }

    /// Whether speeds are rates and not weights.
    pub(super) fn rated(&self) -> bool {
        self.rated
    }

    /// The usable links, lowest number first.
    pub(super) fn each(&self) -> &[Speed] {
        &self.each
    }

    /// The usable links, fastest first; of equals the lowest number first.
    #[inline]
    pub(super) fn fastest_first(&self) -> &[Speed] {
        &self.ordered
    }

    /// `primary` if it is usable, else the fastest link; of equals the lowest number.
    #[inline]
    pub(super) fn primary(&self, primary: Option<ChannelId>) -> Option<ChannelId> {
        primary.filter(|link| self.usable.contains(*link)).or(self.ordered.first().map(|one| one.link))
    }

    /// Of the usable links, how many are as fast as the fastest.
    pub(super) fn fast(&self) -> usize {
        self.ordered.iter().take_while(|one| Some(one.speed) == self.ordered.first().map(|one| one.speed)).count()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::select::{Frame, Layer, LinkState};
    use alloc::vec;
    use alloc::vec::Vec;

    /// Usable links of these rates in Mbit/s.
    pub(crate) fn rated(rates: &[u64]) -> Links {
        let state = |rate: &u64| LinkState { rate: Some(Rate::from_mbit(*rate)), ..LinkState::default() };
        Links::new(rates.iter().map(state))
    }

    /// Usable links of these weights, rates unknown.
    pub(crate) fn weighted(weights: &[u32]) -> Links {
        Links::new(weights.iter().map(|weight| LinkState { weight: *weight, ..LinkState::default() }))
    }

    /// `links` with `link` usable or not.
    pub(crate) fn put(links: &mut Links, link: u8, usable: bool) {
        let state = *links.get(ChannelId(link)).unwrap();
        links.set(ChannelId(link), LinkState { usable, ..state });
    }

    /// A packet of `len` bytes.
    pub(crate) fn packet(len: usize) -> Frame<'static> {
        Frame { bytes: &[], len, layer: Layer::Ethernet }
    }

    #[test]
    fn rates_count_only_where_all_usable_links_have_one() {
        let mut links = rated(&[10, 100, 100]);
        let mut speeds = Speeds::new();
        assert!(speeds.renew(&links) && !speeds.renew(&links));
        let order = |speeds: &Speeds| speeds.fastest_first().iter().map(|one| one.link.0).collect::<Vec<_>>();
        assert_eq!((order(&speeds), speeds.fast(), speeds.rated()), (vec![1, 2, 0], 2, true));
        for unknown in [None, Some(Rate::default())] {
            links.set(ChannelId(1), LinkState { rate: unknown, weight: 3, ..LinkState::default() });
            speeds.renew(&links);
            assert_eq!((order(&speeds), speeds.fast(), speeds.rated()), (vec![1, 0, 2], 1, false));
        }
        // The one whose rate is not known is down: rates count again.
        put(&mut links, 1, false);
        assert!(speeds.stale(&links) && speeds.renew(&links) && !speeds.stale(&links));
        assert_eq!((order(&speeds), speeds.rated()), (vec![2, 0], true));
        assert_eq!(speeds.primary(Some(ChannelId(0))), Some(ChannelId(0)));
        assert_eq!(speeds.primary(Some(ChannelId(1))), Some(ChannelId(2)));
        assert_eq!(speeds.primary(Some(ChannelId(63))), Some(ChannelId(2)));
    }

    #[test]
    fn no_links_and_weights_of_zero_are_borne() {
        let mut speeds = Speeds::new();
        assert!(!speeds.renew(&Links::default()) || speeds.each().is_empty());
        assert_eq!((speeds.primary(None), speeds.fast()), (None, 0));
        speeds.renew(&weighted(&[0, 0]));
        assert!(speeds.each().iter().all(|one| one.speed == 1));
    }
    #[test]
    fn another_speed_or_another_meaning_of_the_same_number_is_noticed_and_the_fastest_comes_first_by_a_bit() {
        let bits = |bits| LinkState { rate: Some(Rate::from_bits_per_sec(bits)), ..LinkState::default() };
        let mut speeds = Speeds::new();
        let mut renew = |states: &[LinkState]| {
            let renewed = speeds.renew(&Links::new(states.iter().copied()));
            (renewed, speeds.fastest_first().iter().map(|one| one.link.0).collect::<Vec<_>>())
        };
        assert_eq!(renew(&[bits(1), bits(1)]), (true, [0, 1].to_vec()));
        assert_eq!(renew(&[bits(1), bits(1)]), (false, [0, 1].to_vec()));
        assert_eq!(renew(&[LinkState::default(); 2]), (true, [0, 1].to_vec()), "weights");
        assert_eq!(renew(&[bits(10_000_000_000), bits(10_000_000_001)]), (true, [1, 0].to_vec()));
    }
}
