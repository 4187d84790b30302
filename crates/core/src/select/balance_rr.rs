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

use super::active_backup::Current;
use super::{Frame, Layer, LinkSet, Links, Select};
use crate::rng::Rng;
use crate::units::{ChannelId, Time};

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
        let Some(ChannelId(at)) = members.nth(n as usize) else { return LinkSet::EMPTY };
        // The next usable one from there on, round the end.
        let from = LinkSet::from_bits(usable.bits() & (u64::MAX << (at & 63)));
        LinkSet::of(from.first().or_else(|| usable.first()))
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.current.update(links);
    }
}

fn is_igmp(frame: &Frame<'_>) -> bool {
    const IGMP: u8 = 2;
    let packet = match frame.layer {
        Layer::Ip if frame.bytes.first().is_some_and(|byte| byte >> 4 == 4) => frame.bytes,
        Layer::Ethernet if frame.bytes.get(12..14) == Some(&[8, 0]) => &frame.bytes[14..],
        _ => return false,
    };
    packet.first_chunk::<20>().is_some_and(|header| header[9] == IGMP)
}
