//! A link policy of one's own.
//!
//! What it is: a [`Select`] from a crate outside this project, behind [`Policy::Own`](super::Policy::Own). It is given each packet
//! and what is known of the links, as this project's own policies are.
//! Cost: one indirect call a packet more.

use super::{BurstStats, Frame, Links, PolicyConfig, Select};
use crate::options::Table;
use crate::own::own;
use crate::set::LinkSet;
use crate::units::{ChannelId, Time};
use alloc::boxed::Box;

own! {
    /// Makes a link policy of one's own from the seed of its bond's end.
    SelectMaker(u64) -> OwnSelect: Select
}

/// The settings of a link policy of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Makes it.
    pub make: SelectMaker,
}

/// The first usable link.
#[derive(Clone, Debug)]
struct First;

impl Select for First {
    fn select(&mut self, _: Time, _: &Frame<'_>, links: &Links) -> LinkSet {
        links.usable().iter().next().into_iter().collect()
    }
}

impl Default for Config {
    /// The first usable link.
    fn default() -> Config {
        Config { make: SelectMaker(|_| Box::new(First)) }
    }
}

impl PolicyConfig for Config {
    const NAME: &'static str = "own";
    const HELP: &'static str = "from a crate outside";
    const OPTIONS: Table<Config> = Table(&[]);
    type Selector = Own;

    fn selector(&self, seed: u64) -> Own {
        Own((self.make.0)(seed))
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Own(Box<dyn OwnSelect>);

impl Select for Own {
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        self.0.select(now, frame, links)
    }

    fn select_held(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> (LinkSet, Time) {
        self.0.select_held(now, frame, links)
    }

    fn on_links(&mut self, now: Time, links: &Links) {
        self.0.on_links(now, links);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time, links: &Links) {
        self.0.handle_timeout(now, links);
    }

    fn current(&self) -> Option<ChannelId> {
        self.0.current()
    }

    fn stats(&self) -> BurstStats {
        self.0.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::super::speeds::tests::{packet, put, rated};
    use super::*;

    /// A policy with an answer of its own to each question.
    #[derive(Clone, Debug, Default)]
    struct Answers {
        told: u64,
    }

    impl Select for Answers {
        fn select(&mut self, _: Time, _: &Frame<'_>, _: &Links) -> LinkSet {
            LinkSet::only(ChannelId(5))
        }

        fn select_held(&mut self, _: Time, _: &Frame<'_>, _: &Links) -> (LinkSet, Time) {
            (LinkSet::only(ChannelId(6)), Time::from_millis(6))
        }

        fn on_links(&mut self, _: Time, _: &Links) {
            self.told += 1;
        }

        fn poll_timeout(&self) -> Option<Time> {
            Some(Time::from_millis(7))
        }

        fn handle_timeout(&mut self, _: Time, _: &Links) {
            self.told += 10;
        }

        fn current(&self) -> Option<ChannelId> {
            Some(ChannelId(8))
        }

        fn stats(&self) -> BurstStats {
            BurstStats { moves: self.told, ..BurstStats::default() }
        }
    }

    #[test]
    fn a_policy_of_one_s_own_is_asked_and_told_all() {
        let (now, links) = (Time::ZERO, rated(&[100]));
        let mut own = Config { make: SelectMaker(|_| Box::<Answers>::default()) }.selector(1);
        assert_eq!(own.select(now, &packet(100), &links), LinkSet::only(ChannelId(5)));
        assert_eq!(own.select_held(now, &packet(100), &links), (LinkSet::only(ChannelId(6)), Time::from_millis(6)));
        own.on_links(now, &links);
        own.handle_timeout(now, &links);
        assert_eq!((own.poll_timeout(), own.current()), (Some(Time::from_millis(7)), Some(ChannelId(8))));
        assert_eq!(own.stats().moves, 11);
    }

    #[test]
    fn where_none_is_given_the_first_usable_link_is_taken() {
        let (now, mut links) = (Time::ZERO, rated(&[100, 100, 100]));
        let mut own = Config::default().selector(1);
        put(&mut links, 0, false);
        assert_eq!(own.select(now, &packet(100), &links), LinkSet::only(ChannelId(1)));
        assert_eq!((own.poll_timeout(), own.current(), own.stats()), (None, None, BurstStats::default()));
    }
}
