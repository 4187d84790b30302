//! `balance-alb`: what is sent goes to the link with the most room, and what is received is balanced too.
//!
//! What it is: Linux mode 6. What is sent is weighed as in `balance-tlb` ([`Balance`]), in groups by the destination's IP
//! address alone; ARP, neighbour discovery, IGMP and broadcasts leave on the link in use. What is received is balanced by the
//! Ethernet bond ([`crate::lan`]), which tells each client another link's address for ours; a bond with a peer has no such
//! clients. Source: `bonding.rst`, and the 6.1 driver for what it leaves open.
//!
//! Cost and invariant: those of `balance-tlb`.

use super::PolicyConfig;
use super::active_backup::PrimaryReselect;
use super::active_backup::{PRIMARY, PRIMARY_RESELECT};
use super::tlb::Balance;
use super::tlb::LP_INTERVAL;
use super::{Frame, Layer, Links, Select};
use crate::ip;
use crate::options::{LinkRef, Table, option};
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use alloc::boxed::Box;
use core::net::IpAddr;

/// The settings of `balance-alb`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The link that carries what is not balanced, whenever it can. Default none.
    pub primary: Option<LinkRef>,
    /// When it is used again after it came back. Default always.
    pub primary_reselect: PrimaryReselect,
    /// How often learning packets tell the switch where addresses are. Default 1 s.
    pub lp_interval: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config { primary: None, primary_reselect: PrimaryReselect::Always, lp_interval: Span::from_secs(1) }
    }
}

impl PolicyConfig for Config {
    const NAME: &'static str = "balance-alb";
    const MODE: Option<u8> = Some(6);
    const HELP: &'static str = "as balance-tlb, and what is received is balanced by ARP and neighbour discovery";
    const OPTIONS: Table<Config> = Table(&[
        option!(PRIMARY => primary),
        option!(PRIMARY_RESELECT => primary_reselect),
        option!(LP_INTERVAL => lp_interval),
    ]);
    type Selector = Box<BalanceAlb>;

    fn selector(&self, _seed: u64) -> Box<BalanceAlb> {
        Box::new(BalanceAlb::new(self.clone()))
    }
}

/// The selector of what is sent.
#[derive(Clone, Debug)]
pub struct BalanceAlb {
    balance: Balance,
}

impl BalanceAlb {
    /// With these settings. A primary link that is still a name ([`super::Settings::resolve`]) is none.
    pub fn new(config: Config) -> BalanceAlb {
        BalanceAlb { balance: Balance::new(config.primary.as_ref(), config.primary_reselect) }
    }
}

const IGMP: u8 = 2;
/// Neighbour solicitation and advertisement.
const NEIGHBOUR: [u8; 2] = [135, 136];

/// The group of a packet by its destination; `None`: it is not balanced.
fn group(frame: &Frame<'_>) -> Option<u8> {
    // To all stations, or to all IPv6 nodes.
    let to_all = |frame: &[u8]| frame.starts_with(&[0xff; 6]) || frame.starts_with(&[0x33, 0x33, 0, 0, 0, 1]);
    if frame.layer == Layer::Ethernet && to_all(frame.bytes) {
        return None;
    }
    let packet = frame.ip()?;
    let fold = |address: &[u8]| address.iter().fold(0, |hash, byte| hash ^ byte);
    match ip::destination(packet)? {
        IpAddr::V4(address) => (packet[9] != IGMP && !address.is_broadcast()).then(|| fold(&address.octets())),
        IpAddr::V6(address) => {
            let neighbour = packet[6] == ip::ICMPV6 && packet.get(40).is_none_or(|kind| NEIGHBOUR.contains(kind));
            (!neighbour).then(|| fold(&address.octets()))
        }
    }
}

impl Select for BalanceAlb {
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        match group(frame) {
            Some(group) => self.balance.grouped(now, group, frame.len, links),
            None => self.balance.ungrouped(now, frame.len, links),
        }
    }

    fn on_links(&mut self, now: Time, links: &Links) {
        self.balance.on_links(now, links);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.balance.due()
    }

    fn handle_timeout(&mut self, now: Time, _links: &Links) {
        self.balance.handle_timeout(now);
    }

    fn current(&self) -> Option<ChannelId> {
        self.balance.current()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::LinkState;
    use alloc::vec;
    use alloc::vec::Vec;

    fn v4(to: [u8; 4], protocol: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, 0x45];
        frame.resize(34, 0);
        frame[23] = protocol;
        frame[30..].copy_from_slice(&to);
        frame
    }

    fn links() -> Links {
        Links::new([LinkState::default(); 4])
    }

    #[test]
    fn a_destination_keeps_its_link_and_two_destinations_of_one_round_may_share_it_only_by_load() {
        let links = links();
        let mut alb = BalanceAlb::new(Config::default());
        let mut choose = |ms, to: [u8; 4]| {
            let bytes = v4(to, 6);
            let frame = Frame { bytes: &bytes, len: 1500, layer: Layer::Ethernet };
            alb.select(Time::from_millis(ms), &frame, &links).first().map(ChannelId::index)
        };
        // Until loads are known all groups take the first; 10 s later they spread by what they sent.
        for n in 0..100 {
            (0..4).for_each(|host| assert_eq!(choose(n, [10, 0, 0, host]), Some(0)));
        }
        let mut spread: Vec<_> = (0..4).filter_map(|host| choose(10_001, [10, 0, 0, host])).collect();
        assert_eq!(choose(10_002, [10, 0, 0, 2]), Some(spread[2]));
        spread.sort_unstable();
        assert_eq!(spread, [0, 1, 2, 3]);
    }

    #[test]
    fn what_must_come_from_the_bonds_address_leaves_on_the_link_in_use() {
        let mut links = links();
        let mut alb = BalanceAlb::new(Config::default());
        links.set(ChannelId(0), LinkState { usable: false, ..LinkState::default() });
        alb.on_links(Time::ZERO, &links);
        assert_eq!(alb.current(), Some(ChannelId(1)));
        let mut discovery = vec![0x33, 0x33, 0xff, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60];
        discovery.resize(80, 7);
        (discovery[20], discovery[54]) = (58, 135);
        let mut arp = v4([0; 4], 0);
        arp[12..14].copy_from_slice(&[8, 6]);
        for bytes in [v4([10, 0, 0, 1], IGMP), v4([0xff; 4], 17), discovery, arp, vec![1; 13], vec![]] {
            assert_eq!(group(&Frame { bytes: &bytes, len: bytes.len(), layer: Layer::Ethernet }), None, "{bytes:?}");
        }
        let bytes = v4([1, 2, 4, 8], 6);
        assert_eq!(group(&Frame { bytes: &bytes, len: 34, layer: Layer::Ethernet }), Some(15));
        assert_eq!(group(&Frame { bytes: &bytes[14..], len: 20, layer: Layer::Ip }), Some(15));
        assert_eq!(group(&Frame { bytes: &bytes[..33], len: 34, layer: Layer::Ethernet }), None, "cut short");
    }
    #[test]
    fn what_goes_to_all_stations_is_not_balanced_and_of_ipv6_all_but_neighbour_discovery_is() {
        let of = |bytes: &[u8]| group(&Frame { bytes, len: bytes.len(), layer: Layer::Ethernet });
        let mut to_all = v4([1, 2, 4, 8], 6);
        assert_eq!(of(&to_all), Some(15));
        to_all[..6].fill(0xff);
        assert_eq!(of(&to_all), None);
        let mut v6 = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60];
        v6.resize(80, 0);
        v6[53] = 9;
        for (protocol, kind, expected) in [(58, 135, None), (58, 136, None), (58, 128, Some(9)), (6, 135, Some(9))] {
            (v6[20], v6[54]) = (protocol, kind);
            assert_eq!(of(&v6), expected, "{protocol} {kind}");
        }
        v6[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(of(&v6), None);
    }

    #[test]
    fn loads_are_weighed_when_it_is_time() {
        let (links, bytes) = (links(), v4([10, 0, 0, 1], 6));
        let mut alb = BalanceAlb::new(Config::default());
        let frame = Frame { bytes: &bytes, len: 1500, layer: Layer::Ethernet };
        alb.select(Time::ZERO, &frame, &links);
        let due = alb.poll_timeout().unwrap();
        assert!(due > Time::ZERO);
        alb.handle_timeout(due, &links);
        assert!(alb.poll_timeout().is_some_and(|next| next > due));
    }
}
