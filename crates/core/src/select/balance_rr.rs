//! `balance-rr`: each link in turn.
//!
//! What it is: Linux bonding mode 0. Packets are counted; the count divided by `packets_per_slave`, modulo the number of
//! links, names the link, whether usable or not: where it is not, the next usable one in turn has the packet.
//! Source: `bonding.rst`, and the 6.1 driver where that is silent:
//!
//! - The counter goes up before it is used, so that a fresh bond's first packet takes link 1, and with `packets_per_slave`
//!   2 or more link 0 has one packet less in the first round.
//! - IGMP over IPv4 is not counted and goes out on the link in use, which every bond has, so that a querier sees one port: the
//!   first link that was usable, until it fails, then the first one that is usable. In a frame with VLAN tags, IGMP is not looked for.
//! - A packet that comes while no link is usable is not counted.
//! - `packets_per_slave` 0 takes a link at random for each packet.
//!
//! Departure: one counter; the driver has one on each processor.
//!
//! Cost: O(links). Invariants: with all links usable and `packets_per_slave` n, any n × links packets in a row that are no
//! IGMP put n packets on each link.

use super::PolicyConfig;
use super::active_backup::Current;
use super::{Frame, Links, Select};
use crate::flow::ethernet;
use crate::options::{Kind, Table, option};
use crate::packet::at;
use crate::rng::Rng;
use crate::set::LinkSet;
use crate::units::Time;

/// The settings of `balance-rr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Packets on a link before the next one's turn; 0: a random link for each. Default 1.
    pub packets_per_slave: u16,
}

impl Default for Config {
    fn default() -> Config {
        Config { packets_per_slave: 1 }
    }
}

impl PolicyConfig for Config {
    const NAME: &'static str = "balance-rr";
    const MODE: Option<u8> = Some(0);
    const MAIN: Option<&'static str> = Some("packets_per_slave");
    const HELP: &'static str = "each link in turn, packet by packet";
    const OPTIONS: Table<Config> = Table(&[
        option!(packets_per_slave: Kind::Count(0, 65_535, None), "packets on a link before the next one's turn; 0: a random link for each packet"),
    ]);
    const LOOKS_AT_QUEUES: bool = false;
    type Selector = BalanceRr;

    fn selector(&self, seed: u64) -> BalanceRr {
        BalanceRr::new(*self, seed)
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct BalanceRr {
    packets_per_slave: u16,
    count: u32,
    rng: Rng,
    /// Carries IGMP.
    current: Current,
}

impl BalanceRr {
    /// With these settings; `seed` for random links.
    pub fn new(config: Config, seed: u64) -> BalanceRr {
        BalanceRr {
            packets_per_slave: config.packets_per_slave,
            count: 0,
            rng: Rng::new(seed),
            current: Current::default(),
        }
    }

    fn turn(&mut self) -> u32 {
        match self.packets_per_slave {
            0 => self.rng.next_u64() as u32,
            n => {
                self.count = self.count.wrapping_add(1);
                self.count / u32::from(n)
            }
        }
    }
}

impl Select for BalanceRr {
    fn select(&mut self, _now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        let usable = links.usable();
        if usable.is_empty() {
            return LinkSet::EMPTY;
        }
        if is_igmp(frame) {
            self.current.update(links);
            return LinkSet::of(self.current.link());
        }
        let turn = self.turn();
        let members = links.members();
        let Some(n) = turn.checked_rem(members.len() as u32) else { return LinkSet::EMPTY };
        let Some(at) = members.nth(n as usize) else { return LinkSet::EMPTY };
        // The next usable one from there on, round the end.
        let from = usable - LinkSet::below(at.index());
        LinkSet::of(from.first().or_else(|| usable.first()))
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.current.update(links);
    }
}

fn is_igmp(frame: &Frame<'_>) -> bool {
    const IGMP: u8 = 2;
    frame.ether_type() == ethernet::IPV4 && at::<20>(frame.behind_ethernet(), 0).is_some_and(|header| header[9] == IGMP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Layer;
    use crate::ip::testing;
    use crate::select::LinkState;
    use crate::units::ChannelId;
    use alloc::vec::Vec;

    fn state(usable: bool) -> LinkState {
        LinkState { usable, ..LinkState::default() }
    }

    fn run(packets_per_slave: u16, usable: &[bool], packets: usize) -> Vec<usize> {
        let links = Links::new(usable.iter().map(|usable| state(*usable)));
        let mut rr = BalanceRr::new(Config { packets_per_slave }, 1);
        let bytes = testing::udp4(1, 2, 3, 4, &[]);
        let frame = Frame { bytes: &bytes, len: bytes.len(), layer: Layer::Ip };
        (0..packets).filter_map(|_| rr.select(Time::ZERO, &frame, &links).first()).map(ChannelId::index).collect()
    }

    #[test]
    fn a_fresh_bond_begins_with_link_1_and_each_link_has_its_packets_in_turn() {
        assert_eq!(run(1, &[true; 3], 7), [1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(run(2, &[true; 2], 7), [0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(run(5, &[true; 1], 3), [0, 0, 0]);
    }

    #[test]
    fn the_turn_of_a_link_that_failed_goes_to_the_next_one() {
        assert_eq!(run(1, &[true, false, true], 6), [2, 2, 0, 2, 2, 0]);
        assert_eq!(run(1, &[true, true, false], 6), [1, 0, 0, 1, 0, 0]);
        assert_eq!(run(1, &[false; 3], 6), [0; 0]);
    }

    #[test]
    fn igmp_takes_no_turn_and_stays_on_one_link_until_that_fails() {
        let mut links = Links::new([state(true); 3]);
        let mut rr = BalanceRr::new(Config::default(), 1);
        rr.on_links(Time::ZERO, &links);
        let packet = testing::udp4(1, 2, 3, 4, &[]);
        let mut igmp = packet.clone();
        igmp[9] = 2;
        let mut link = |bytes: &[u8], links: &Links| {
            let frame = Frame { bytes, len: bytes.len(), layer: Layer::Ip };
            rr.select(Time::ZERO, &frame, links).first().map(ChannelId::index)
        };
        let took: Vec<_> =
            [&packet, &igmp, &igmp, &packet, &igmp].iter().filter_map(|bytes| link(bytes, &links)).collect();
        assert_eq!(took, [1, 0, 0, 2, 0]);
        links.set(ChannelId(0), state(false));
        assert_eq!(link(&igmp, &links), Some(1));
        links.set(ChannelId(0), state(true));
        assert_eq!(link(&igmp, &links), Some(1), "it stays where it went");
    }

    #[test]
    fn at_random_all_links_have_their_share_and_the_seed_decides() {
        let took = run(0, &[true; 4], 4000);
        for link in 0..4 {
            let share = took.iter().filter(|&&n| n == link).count();
            // 1000 expected, standard deviation 27.
            assert!((850..1150).contains(&share), "{share} on link {link}");
        }
        assert_eq!(took, run(0, &[true; 4], 4000));
    }
}
