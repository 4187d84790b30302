//! `cut_off_least_queue`: large packets on the fastest link, small ones to the shortest queue.
//!
//! Source: burst round robin §7, "Cut-off-Least-Queue" (Andersen and Hanenkamp): packets that exceed a size go to the
//! primary interface, smaller ones as [`least_queue`](super::least_queue) says. Meant for many small packets beside few
//! large ones.
//!
//! | paper | here |
//! |---|---|
//! | size threshold | [`Config::size`]; a packet of exactly that size is small |
//! | primary interface | [`Config::primary`], else the fastest usable link |
//!
//! The size is that of the frame as the selector gets it: with its Ethernet header on an Ethernet bond and on captures of
//! Ethernet, from the IP header on otherwise. Departures: a primary link that cannot be used is replaced by the fastest
//! usable one until it comes back. Small packets may use the primary link too, when its queue is the shortest.
//!
//! Cost: O(1) a large packet, O(n) a small one.

use super::PolicyConfig;
use super::active_backup::PRIMARY;
use super::least_queue::LeastQueue;
use super::n_to_one::SIZE;
use super::speeds::Speeds;
use super::{Frame, Links, Select};
use crate::options::{LinkRef, Table, option};
use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Time};

/// The settings of `cut_off_least_queue`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Packets above this size go to the primary link. Default 512.
    pub size: Bytes,
    /// The primary link. Default the fastest.
    pub primary: Option<LinkRef>,
}

impl Default for Config {
    fn default() -> Config {
        Config { size: Bytes::new(512), primary: None }
    }
}

impl PolicyConfig for Config {
    const NAME: &'static str = "cut_off_least_queue";
    const MAIN: Option<&'static str> = Some("size");
    const HELP: &'static str = "large packets on the fastest link, small ones to the shortest queue";
    const OPTIONS: Table<Config> = Table(&[option!(PRIMARY => primary), option!(SIZE => size)]);
    type Selector = CutOffLeastQueue;

    fn selector(&self, _seed: u64) -> CutOffLeastQueue {
        CutOffLeastQueue::new(self.clone())
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct CutOffLeastQueue {
    size: Bytes,
    primary: Option<ChannelId>,
    speeds: Speeds,
}

impl CutOffLeastQueue {
    /// With these settings; a primary link that is not resolved to a number counts as none.
    pub fn new(config: Config) -> CutOffLeastQueue {
        let primary = config.primary.and_then(|link| link.number());
        CutOffLeastQueue { size: config.size, primary, speeds: Speeds::new() }
    }
}

impl Select for CutOffLeastQueue {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        if self.speeds.stale(links) {
            self.on_links(now, links);
        }
        let large = Bytes::from(frame.len) > self.size;
        let link = if large { self.speeds.primary(self.primary) } else { LeastQueue::shortest(&self.speeds, links) };
        link.map_or(LinkSet::EMPTY, LinkSet::only)
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.speeds.renew(links);
    }
}

#[cfg(test)]
mod tests {
    use super::super::speeds::tests::{packet, put, rated};
    use super::*;

    fn chosen(selector: &mut CutOffLeastQueue, links: &Links, len: usize) -> Option<u8> {
        selector.select(Time::ZERO, &packet(len), links).first().map(|link| link.0)
    }

    #[test]
    fn packets_above_the_size_take_the_fastest_link_however_long_its_queue() {
        let mut links = rated(&[100, 1000, 10]);
        links.set_backlog(ChannelId(1), Bytes::new(1_000_000), Time::ZERO);
        let mut selector = CutOffLeastQueue::new(Config::default());
        let both = [512, 513].map(|len| chosen(&mut selector, &links, len));
        assert_eq!(both, [Some(0), Some(1)]);
        // The small ones follow the queues, on to the primary link as well.
        links.set_backlog(ChannelId(0), Bytes::new(2_000_000), Time::ZERO);
        assert_eq!(chosen(&mut selector, &links, 60), Some(2));
        links.set_backlog(ChannelId(2), Bytes::new(2_000_000), Time::ZERO);
        assert_eq!(chosen(&mut selector, &links, 0), Some(1));
        assert_eq!(chosen(&mut selector, &links, usize::MAX), Some(1));
    }

    #[test]
    fn a_primary_link_is_replaced_by_the_fastest_while_it_is_down() {
        let mut links = rated(&[100, 1000, 10]);
        let primary = Some(LinkRef::Number(ChannelId(2)));
        let mut selector = CutOffLeastQueue::new(Config { primary, size: Bytes::new(100) });
        let mut large = |links: &Links| chosen(&mut selector, links, 1500);
        assert_eq!(large(&links), Some(2));
        put(&mut links, 2, false);
        assert_eq!(large(&links), Some(1));
        put(&mut links, 2, true);
        assert_eq!(large(&links), Some(2));
        for link in 0..3 {
            put(&mut links, link, false);
        }
        assert_eq!(large(&links), None);
    }
}
