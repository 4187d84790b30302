//! `balance-tlb`: each destination to the link with the most room.
//!
//! What it is: Linux bonding mode 5. Unicast IP packets are dealt by the lowest eight bits of their hash into 256 groups.
//! A group stays on its link until the loads are weighed anew, every 10 s and when a link comes up; then each takes the
//! link with the most room when its next packet comes. The room is the link's rate less the load of the groups put on it since,
//! and a group's load is 1 byte/s more than what it sent per second in the 10 s before: so that in the first round, where
//! none has a load, all groups take the first of the fastest links. With `tlb_dynamic_lb` off the hash alone chooses, as in
//! balance-xor. All else (broadcast, multicast, neighbour discovery, no IP) goes out on the link in use ([`Current`]), whose load it counts
//! into. Source: `bonding.rst`, and the 6.1 driver for what it leaves open.
//!
//! Departures: a rate is weighed in full, where the driver's 32-bit arithmetic takes 10 Gbit/s for 1.8; a link of unknown
//! rate counts as 1 Gbit/s times its weight, where the driver does not use it; loads are weighed anew at once when a link comes
//! up, not at the next tenth of a second; a group whose link is found dead moves, where the driver drops the packet that
//! found it. Frames without an Ethernet header have no destination address and are taken for unicast.
//!
//! Symbols: `history` a group's load in the round before, in bytes per second; `sent` its bytes in this round.
//!
//! Cost: O(1) a packet, O(links) for a group's first one in a round; 256 groups a round. No allocation after construction.
//! Invariant: a group's packets stay in order between rounds.

use super::PolicyConfig;
use super::active_backup::{Current, PrimaryReselect};
use super::active_backup::{PRIMARY, PRIMARY_RESELECT};
use super::hash::HashPolicy;
use super::xor::XMIT_HASH_POLICY;
use super::{Frame, Layer, LinkState, Links, Select, hash};
use crate::options::{Kind, LinkRef, OptionSpec, Table, option};
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use alloc::boxed::Box;

/// The settings of `balance-tlb`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Whether flows move as loads change; off: the hash alone chooses. Default true.
    pub tlb_dynamic_lb: bool,
    /// Which headers choose the link where flows do not move, and the group where they do. Default layer 2.
    pub xmit_hash_policy: HashPolicy,
    /// The link that carries what is not balanced, whenever it can. Default none.
    pub primary: Option<LinkRef>,
    /// When it is used again after it came back. Default always.
    pub primary_reselect: PrimaryReselect,
    /// How often learning packets tell the switch where addresses are. Default 1 s.
    pub lp_interval: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            tlb_dynamic_lb: true,
            xmit_hash_policy: HashPolicy::Layer2,
            primary: None,
            primary_reselect: PrimaryReselect::Always,
            lp_interval: Span::from_secs(1),
        }
    }
}

/// The option, of every policy that has it.
pub(super) const LP_INTERVAL: OptionSpec = OptionSpec::new(
    "lp_interval",
    Kind::Span(Span::from_secs(1), Span::from_secs(86_400), None),
    "how often learning packets tell the switch where addresses are",
);

impl PolicyConfig for Config {
    const NAME: &'static str = "balance-tlb";
    const MODE: Option<u8> = Some(5);
    const MAIN: Option<&'static str> = Some("tlb_dynamic_lb");
    const HELP: &'static str = "each destination to the link with the most room, moved as loads change";
    const OPTIONS: Table<Config> = Table(&[
        option!(PRIMARY => primary),
        option!(PRIMARY_RESELECT => primary_reselect),
        option!(XMIT_HASH_POLICY => xmit_hash_policy),
        option!(tlb_dynamic_lb: Kind::Flag, "whether flows move as loads change; off: the hash alone chooses"),
        option!(LP_INTERVAL => lp_interval),
    ]);
    type Selector = Box<BalanceTlb>;

    fn selector(&self, _seed: u64) -> Box<BalanceTlb> {
        Box::new(BalanceTlb::new(self.clone()))
    }
}

/// How often loads are weighed.
const ROUND: Span = Span::from_secs(10);
const ROUND_SECONDS: u64 = 10;

/// A link's rate where it is not known, in the driver's unit.
const UNKNOWN: u128 = 1000;
const MEGABIT: u128 = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    link: Option<ChannelId>,
    history: u64,
    sent: u64,
}

/// Groups of packets on links by load, and the link in use for all else: what balance-tlb and balance-alb share.
#[derive(Clone, Debug)]
pub struct Balance {
    current: Current,
    groups: [Group; 256],
    /// Of each link, what was put on it in this round.
    loads: [u64; ChannelId::LIMIT],
    /// Bytes outside all groups in this round.
    unbalanced: u64,
    usable: LinkSet,
    due: Option<Time>,
}

impl Balance {
    /// Nothing sent yet. `primary` as in active-backup.
    pub fn new(primary: Option<&LinkRef>, reselect: PrimaryReselect) -> Balance {
        Balance {
            current: Current::new(primary.and_then(LinkRef::number), reselect),
            groups: [Group::default(); 256],
            loads: [0; ChannelId::LIMIT],
            unbalanced: 0,
            usable: LinkSet::EMPTY,
            due: None,
        }
    }

    /// The link in use, which carries what is not balanced; `None` while none is usable.
    pub fn current(&self) -> Option<ChannelId> {
        self.current.link()
    }

    /// The link of a packet of `len` bytes in `group`.
    #[inline]
    pub(crate) fn grouped(&mut self, now: Time, group: u8, len: usize, links: &Links) -> LinkSet {
        self.catch_up(now, links);
        let found = self.groups[usize::from(group)].link.filter(|link| links.usable().contains(*link));
        let link = found.or_else(|| self.assign(group, links));
        if link.is_some() {
            let group = &mut self.groups[usize::from(group)];
            group.sent = group.sent.saturating_add(len as u64);
        }
        LinkSet::of(link)
    }

    /// The link of a packet of `len` bytes that is in no group.
    #[inline]
    pub(crate) fn ungrouped(&mut self, now: Time, len: usize, links: &Links) -> LinkSet {
        self.catch_up(now, links);
        self.unbalanced = self.unbalanced.saturating_add(len as u64);
        LinkSet::of(self.current.link())
    }

    /// Links came or went.
    pub fn on_links(&mut self, now: Time, links: &Links) {
        let (before, usable) = (self.usable, links.usable());
        self.usable = usable;
        for link in before.iter().filter(|link| !usable.contains(*link)) {
            self.clear(link, false);
        }
        let old = self.current.link();
        if self.current.update(links) {
            for link in [old, self.current.link()].into_iter().flatten() {
                self.clear(link, true);
            }
        }
        if !(usable - before).is_empty() {
            self.weigh(now);
        }
    }

    /// When the loads are to be weighed again.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Weighs the loads where that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.weigh(now);
        }
    }

    /// What the caller should have told before a packet comes.
    #[inline]
    fn catch_up(&mut self, now: Time, links: &Links) {
        if links.usable() != self.usable {
            self.on_links(now, links);
        }
        self.handle_timeout(now);
    }

    #[cold]
    fn assign(&mut self, group: u8, links: &Links) -> Option<ChannelId> {
        let mut best = None;
        for (link, state) in links.each_usable() {
            let room = room(state, self.loads.get(link.index()).copied().unwrap_or(0));
            // Of equals the first.
            if best.is_none_or(|(_, most)| most < room) {
                best = Some((link, room));
            }
        }
        let (link, _) = best?;
        let group = &mut self.groups[usize::from(group)];
        group.link = Some(link);
        if let Some(load) = self.loads.get_mut(link.index()) {
            *load = load.saturating_add(group.history);
        }
        Some(link)
    }

    fn weigh(&mut self, now: Time) {
        for group in &mut self.groups {
            group.take_off(true);
        }
        self.loads = [0; ChannelId::LIMIT];
        if let Some(load) = self.current.link().and_then(|link| self.loads.get_mut(link.index())) {
            *load = self.unbalanced / ROUND_SECONDS;
            self.unbalanced = 0;
        }
        self.due = Some(now + ROUND);
    }

    /// Takes the groups off `link`; with `weighed`, what they sent becomes their history.
    fn clear(&mut self, link: ChannelId, weighed: bool) {
        for group in self.groups.iter_mut().filter(|group| group.link == Some(link)) {
            group.take_off(weighed);
        }
        if let Some(load) = self.loads.get_mut(link.index()) {
            *load = 0;
        }
    }
}

impl Group {
    fn take_off(&mut self, weighed: bool) {
        // A group without a link sent nothing, and its history stays.
        if self.link.take().is_some() && weighed {
            self.history = 1 + self.sent / ROUND_SECONDS;
            self.sent = 0;
        }
    }
}

/// Bits per second that `link` has left.
fn room(state: &LinkState, load: u64) -> i128 {
    let rate = match state.rate {
        Some(rate) => u128::from(rate.as_bits_per_sec()) * MEGABIT / 1_000_000,
        None => UNKNOWN * MEGABIT * u128::from(state.weight),
    };
    rate.cast_signed() - i128::from(load) * 8
}

/// The selector.
#[derive(Clone, Debug)]
pub struct BalanceTlb {
    dynamic: bool,
    policy: HashPolicy,
    balance: Balance,
}

impl BalanceTlb {
    /// With these settings. A primary link that is still a name ([`super::Settings::resolve`]) is none.
    pub fn new(config: Config) -> BalanceTlb {
        BalanceTlb {
            dynamic: config.tlb_dynamic_lb,
            policy: config.xmit_hash_policy,
            balance: Balance::new(config.primary.as_ref(), config.primary_reselect),
        }
    }

    /// The link in use, which carries what is not balanced; `None` while none is usable.
    pub fn current(&self) -> Option<ChannelId> {
        self.balance.current()
    }
}

/// Whether the modes by load deal `frame` out: an IPv4 or IPv6 packet for one station, which is no neighbour solicitation
/// or advertisement and, of IPv6, not cut short before that is known.
pub(super) fn is_balanced(frame: &Frame<'_>) -> bool {
    const ICMPV6: u8 = 58;
    let (is_ipv6, packet) = match (frame.layer, frame.bytes) {
        (Layer::Ip, [first, ..]) if matches!(first >> 4, 4 | 6) => (first >> 4 == 6, frame.bytes),
        (Layer::Ethernet, [to, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, packet @ ..]) if to & 1 == 0 => {
            (false, packet)
        }
        (Layer::Ethernet, [to, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, packet @ ..]) if to & 1 == 0 => {
            (true, packet)
        }
        _ => return false,
    };
    let Some((header, payload)) = packet.split_first_chunk::<40>().filter(|_| is_ipv6) else { return !is_ipv6 };
    header[6] != ICMPV6 || payload.first_chunk::<8>().is_some_and(|message| !matches!(message[0], 135 | 136))
}

impl Select for BalanceTlb {
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        if !is_balanced(frame) {
            return self.balance.ungrouped(now, frame.len, links);
        }
        let hash = hash::hash(self.policy, frame);
        if self.dynamic {
            self.balance.grouped(now, hash as u8, frame.len, links)
        } else {
            hash::choose(links.usable(), hash)
        }
    }

    fn on_links(&mut self, now: Time, links: &Links) {
        self.balance.on_links(now, links);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.balance.due().filter(|_| self.dynamic)
    }

    fn handle_timeout(&mut self, now: Time, _links: &Links) {
        self.balance.handle_timeout(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use crate::units::Rate;
    use alloc::vec::Vec;

    fn link(mbit: u64) -> LinkState {
        LinkState { rate: Some(Rate::from_mbit(mbit)), ..LinkState::default() }
    }

    fn frame(bytes: &[u8], len: usize) -> Frame<'_> {
        Frame { bytes, len, layer: Layer::Ip }
    }

    /// Packets of flows whose hashes fall into groups of their own.
    fn flows() -> Vec<Vec<u8>> {
        let mut groups = [false; 256];
        let hash = |bytes: &Vec<u8>| hash::hash(HashPolicy::Layer34, &frame(bytes, bytes.len())) as u8;
        let all = (0..2000).map(|port| testing::udp4(1, 2, port, 443, &[]));
        all.filter(|bytes| !core::mem::replace(&mut groups[usize::from(hash(bytes))], true)).take(40).collect()
    }

    fn tlb() -> BalanceTlb {
        BalanceTlb::new(config())
    }

    fn config() -> Config {
        Config { xmit_hash_policy: HashPolicy::Layer34, ..Config::default() }
    }

    #[test]
    fn after_one_round_each_link_carries_what_its_rate_is_worth() {
        let links = Links::new([link(10), link(30)]);
        let mut tlb = tlb();
        tlb.on_links(Time::ZERO, &links);
        let flows = flows();
        // 40 flows of 1 Mbit/s each: 1250 bytes, a hundred times a second.
        let mut round = |from: u64| {
            let mut packets = [0u32; 2];
            for n in 0..10_000u64 {
                let now = Time::from_millis(from + n);
                for bytes in flows.iter().skip((n % 10) as usize).step_by(10) {
                    packets[tlb.select(now, &frame(bytes, 1250), &links).first().expect("a link").index()] += 1;
                }
            }
            packets
        };
        assert_eq!(round(0), [0, 40_000], "no loads are known yet: all take the link with the most room");
        let [slow, fast] = round(10_000);
        // One flow more or less on either.
        assert!((9_000..=11_000).contains(&slow), "{slow} and {fast} packets for rates of 1 to 3");
    }

    #[test]
    fn a_group_keeps_its_link_within_a_round_and_leaves_one_that_fails() {
        let mut links = Links::new([link(10), link(100)]);
        let mut tlb = tlb();
        tlb.on_links(Time::ZERO, &links);
        let bytes = testing::udp4(1, 2, 3, 4, &[]);
        for ms in (0..10_000).step_by(100) {
            assert_eq!(tlb.select(Time::from_millis(ms), &frame(&bytes, 1500), &links), LinkSet::only(ChannelId(1)));
        }
        links.set(ChannelId(1), LinkState { usable: false, ..link(100) });
        assert_eq!(tlb.select(Time::from_millis(9_999), &frame(&bytes, 1500), &links), LinkSet::only(ChannelId(0)));
        links.set(ChannelId(1), link(100));
        tlb.on_links(Time::from_millis(10_000), &links);
        assert_eq!(tlb.poll_timeout(), Some(Time::from_millis(20_000)), "a link that comes up begins a round");
        assert_eq!(tlb.select(Time::from_millis(10_001), &frame(&bytes, 1500), &links), LinkSet::only(ChannelId(1)));
    }

    #[test]
    fn broadcasts_neighbour_discovery_and_other_protocols_go_out_on_the_link_in_use() {
        let links = Links::new([link(10), link(100)]);
        let balanced = |bytes: &[u8]| {
            let mut tlb = tlb();
            tlb.on_links(Time::ZERO, &links);
            let frame = Frame { bytes, len: 1500, layer: Layer::Ethernet };
            let link = tlb.select(Time::ZERO, &frame, &links);
            assert_eq!(tlb.current(), Some(ChannelId(0)));
            link == LinkSet::only(ChannelId(1))
        };
        let ethernet = |to: u8, kind: [u8; 2], packet: &[u8]| {
            [[to, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, kind[0], kind[1]].as_slice(), packet].concat()
        };
        let (ipv4, ipv6) = (testing::udp4(1, 2, 3, 4, &[]), testing::udp6(1, 2, 3, 4, &[]));
        assert!(balanced(&ethernet(2, [0x08, 0], &ipv4)));
        assert!(balanced(&ethernet(2, [0x86, 0xdd], &ipv6)));
        assert!(!balanced(&ethernet(3, [0x08, 0], &ipv4)), "multicast");
        assert!(!balanced(&ethernet(2, [0x08, 6], &ipv4)), "ARP");
        assert!(!balanced(&ethernet(2, [0x86, 0xdd], &ipv6[..39])), "cut short");
        let mut message = ipv6;
        message[6] = 58;
        for (kind, is) in [(135, false), (136, false), (134, true), (128, true)] {
            message[40] = kind;
            assert_eq!(balanced(&ethernet(2, [0x86, 0xdd], &message)), is, "type {kind}");
        }
        assert!(!balanced(&[]));
    }

    #[test]
    fn without_dynamic_balancing_the_hash_decides_and_nothing_is_due() {
        let links = Links::new([link(10), link(100)]);
        let mut tlb = BalanceTlb::new(Config { tlb_dynamic_lb: false, ..config() });
        tlb.on_links(Time::ZERO, &links);
        for bytes in flows() {
            let frame = frame(&bytes, 1500);
            let expected = hash::choose(links.usable(), hash::hash(HashPolicy::Layer34, &frame));
            assert_eq!(tlb.select(Time::ZERO, &frame, &links), expected);
        }
        assert_eq!(tlb.poll_timeout(), None);
    }
    #[test]
    fn a_rate_that_is_not_known_is_a_gigabit_a_second_times_the_weight() {
        let of = |weight| room(&LinkState { rate: None, weight, ..LinkState::default() }, 0);
        assert_eq!([1, 3].map(of), [1000 << 20, 3000 << 20]);
        assert_eq!(room(&link(1000), 0), 1000 << 20);
    }

    #[test]
    fn without_ethernet_what_is_no_ip_is_not_balanced_and_neighbour_discovery_is_not_either() {
        let of = |bytes: &[u8]| is_balanced(&Frame { bytes, len: bytes.len(), layer: Layer::Ip });
        assert_eq!([of(&[0x45; 60]), of(&[0x55; 60]), of(&[0x05; 60]), of(&[])], [true, false, false, false]);
        let mut v6 = [0x60; 60];
        for (protocol, kind, expected) in [(58, 135, false), (58, 136, false), (58, 128, true), (6, 135, true)] {
            (v6[6], v6[40]) = (protocol, kind);
            assert_eq!(of(&v6), expected, "{protocol} {kind}");
        }
    }
}
