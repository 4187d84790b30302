//! `least_queue`: the link with the shortest queue; of equals the fastest.
//!
//! Source: burst round robin §7, "Least-Queue" (Andersen and Hanenkamp, its reference 12): a packet goes to the device whose queue
//! is shortest, and to the faster one where queues are equal.
//!
//! | here | what |
//! |---|---|
//! | queue | [`LinkState::backlog`]: bytes given to the link that have not left yet |
//! | faster | by rate where all usable links' rates are known, else by weight; of equals the lowest number |
//!
//! **Where the backlog is not known** it counts as empty, as an idle link's does: such a link is always preferred, and
//! links that are all of that kind leave everything to the fastest. A bond knows what waits in its own queues, and those
//! fill only where a channel has a `rate` (or its device pushes back); on a capture the links' rates make the queues.
//!
//! Departures: bytes are counted, not packets, because a queue of small packets is gone sooner. The length of the queue
//! decides, not the time that it takes to drain: that is [`fastest_transmit`](super::fastest_transmit).
//!
//! Cost: O(n) a packet, one comparison for each link. Invariant: no usable link has fewer bytes queued than the chosen one.
//!
//! [`LinkState::backlog`]: super::LinkState::backlog

use super::PolicyConfig;
use super::speeds::Speeds;
use super::{Frame, Links, Select};
use crate::options::Table;
use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Time};

/// The settings: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config;

impl PolicyConfig for Config {
    const NAME: &'static str = "least_queue";
    const HELP: &'static str = "the link with the shortest queue; of equals the fastest";
    const OPTIONS: Table<Config> = Table(&[]);
    type Selector = LeastQueue;

    fn selector(&self, _seed: u64) -> LeastQueue {
        LeastQueue::new()
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct LeastQueue {
    speeds: Speeds,
}

impl LeastQueue {
    /// The selector.
    pub fn new() -> LeastQueue {
        LeastQueue { speeds: Speeds::new() }
    }

    #[inline]
    pub(super) fn shortest(speeds: &Speeds, links: &Links) -> Option<ChannelId> {
        let backlog = |link| links.get(link).map_or(Bytes::ZERO, |state| state.backlog);
        // The first of equals is kept, and the fastest comes first.
        speeds.fastest_first().iter().map(|one| one.link).min_by_key(|link| backlog(*link))
    }
}

impl Default for LeastQueue {
    fn default() -> LeastQueue {
        LeastQueue::new()
    }
}

impl Select for LeastQueue {
    #[inline]
    fn select(&mut self, now: Time, _frame: &Frame<'_>, links: &Links) -> LinkSet {
        if self.speeds.stale(links) {
            self.on_links(now, links);
        }
        LeastQueue::shortest(&self.speeds, links).map_or(LinkSet::EMPTY, LinkSet::only)
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.speeds.renew(links);
    }
}

#[cfg(test)]
mod tests {
    use super::super::speeds::tests::{packet, put, rated, weighted};
    use super::*;
    use crate::rng::Rng;
    use alloc::vec::Vec;

    fn chosen(selector: &mut LeastQueue, links: &Links) -> Option<u8> {
        selector.select(Time::ZERO, &packet(1500), links).first().map(|link| link.0)
    }

    #[test]
    fn the_shortest_queue_is_taken_and_of_equal_ones_the_fastest() {
        let mut links = rated(&[100, 1000, 1000]);
        let mut selector = LeastQueue::new();
        assert_eq!(chosen(&mut selector, &links), Some(1));
        for (link, bytes, expected) in [(1, 1, 2), (2, 1, 0), (0, 1, 1), (0, 2, 1), (1, 2, 2)] {
            links.set_backlog(ChannelId(link), Bytes::new(bytes), Time::ZERO);
            assert_eq!(chosen(&mut selector, &links), Some(expected), "{bytes} bytes on link {link}");
        }
        put(&mut links, 2, false);
        assert_eq!(chosen(&mut selector, &links), Some(1));
        put(&mut links, 1, false);
        assert_eq!(chosen(&mut selector, &links), Some(0));
        put(&mut links, 0, false);
        assert_eq!(chosen(&mut selector, &links), None);
    }

    #[test]
    fn without_rates_weights_say_which_of_equal_queues_is_the_fastest() {
        assert_eq!(chosen(&mut LeastQueue::new(), &weighted(&[1, 3, 3])), Some(1));
        assert_eq!(chosen(&mut LeastQueue::new(), &weighted(&[1, 1])), Some(0));
    }

    #[test]
    fn it_chooses_as_a_search_of_all_links_does() {
        let mut rng = Rng::new(4);
        for round in 0..2_000 {
            let count = 1 + rng.below(64) as usize;
            let rates: Vec<u64> = (0..count).map(|_| 1 + rng.below(3)).collect();
            let mut links = rated(&rates);
            let mut selector = LeastQueue::new();
            for _ in 0..8 {
                let link = rng.below(count as u64) as u8;
                links.set_backlog(ChannelId(link), Bytes::new(rng.below(3)), Time::ZERO);
                let (other, usable) = (rng.below(count as u64) as u8, rng.below(4) > 0);
                put(&mut links, other, usable);
                let key = |n: u8| {
                    let state = links.get(ChannelId(n)).unwrap();
                    (state.backlog, core::cmp::Reverse(state.rate), n)
                };
                let expected =
                    (0..count as u8).filter(|n| links.usable().contains(ChannelId(*n))).min_by_key(|n| key(*n));
                assert_eq!(chosen(&mut selector, &links), expected, "round {round}");
            }
        }
    }
}
