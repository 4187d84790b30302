//! `802.3ad`: a hash chooses among the links of the active aggregator.
//!
//! What it is: Linux bonding mode 4. Source: IEEE 802.1AX-2014, section 6, and the driver's documented behaviour. Where LACP is
//! spoken, [`Lacp`](crate::lacp::Lacp) decides which links distribute and
//! [`set_distributing`](Ieee8023ad::set_distributing) tells. Where it is not (datagram channels, captures, the simulator) the
//! partner is taken to agree with everything: links of the same rate are an aggregator, a half duplex link is one
//! of its own, and links of unknown rates count as links of one rate. The one that is used:
//!
//! | `ad_select` | of those that have usable links |
//! |---|---|
//! | any | not that of a half duplex link, where there is another |
//! | `stable` | that of the highest sum of rates; it stays until none of its links is usable |
//! | `bandwidth` | that of the highest sum of rates, whenever links change |
//! | `count` | that of the most links, then of the highest sum of rates, whenever links change |
//!
//! Of equals the one in use stays; else that with the lowest link. With fewer usable links than `min_links` it carries nothing.
//!
//! Cost: the hash; O(n²) when links change. Invariant: the link is usable, and in the aggregator in use.

use super::PolicyConfig;
use super::hash::HashPolicy;
use super::xor::XMIT_HASH_POLICY;
use super::{Frame, LinkState, Links, Select, hash};
use crate::options::{Kind, Table, Words, option, words};
use crate::set::LinkSet;
use crate::units::{ChannelId, Rate, Time};
use crate::wire::mac::Mac;

/// How often the partner is asked to send LACPDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LacpRate {
    /// Every 30 s.
    #[default]
    Slow,
    /// Every second.
    Fast,
}

words!(LacpRate { Slow = "slow", Fast = "fast" });

/// Which aggregator is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdSelect {
    /// The best one, until it has no link left.
    #[default]
    Stable,
    /// That of the highest rate.
    Bandwidth,
    /// That of the most links.
    Count,
}

words!(AdSelect { Stable = "stable", Bandwidth = "bandwidth", Count = "count" });

/// The settings of `802.3ad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Which headers choose the link. Default layer 2.
    pub xmit_hash_policy: HashPolicy,
    /// How often the partner is asked to send LACPDUs. Default slow.
    pub lacp_rate: LacpRate,
    /// Whether LACPDUs are sent to a partner that sends none. Default true.
    pub lacp_active: bool,
    /// Which aggregator is used. Default stable.
    pub ad_select: AdSelect,
    /// Fewer links than this in the aggregator: none is used. Default 0.
    pub min_links: u16,
    /// The system priority in LACPDUs. Default 65535.
    pub ad_actor_sys_prio: u16,
    /// The upper ten bits of the ports' key. Default 0.
    pub ad_user_port_key: u16,
    /// The system's address in LACPDUs. Default `None`: the bond's own address.
    pub ad_actor_system: Option<Mac>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            xmit_hash_policy: HashPolicy::Layer2,
            lacp_rate: LacpRate::Slow,
            lacp_active: true,
            ad_select: AdSelect::Stable,
            min_links: 0,
            ad_actor_sys_prio: 65_535,
            ad_user_port_key: 0,
            ad_actor_system: None,
        }
    }
}

impl PolicyConfig for Config {
    const NAME: &'static str = "802.3ad";
    const MODE: Option<u8> = Some(4);
    const MAIN: Option<&'static str> = Some("xmit_hash_policy");
    const HELP: &'static str = "a hash chooses among the links of the active aggregator (IEEE 802.1AX)";
    const OPTIONS: Table<Config> = Table(&[
        option!(XMIT_HASH_POLICY => xmit_hash_policy),
        option!(lacp_rate: Kind::Choice(LacpRate::WORDS), "how often the partner is asked to send LACPDUs: every 30 s or every second"),
        option!(lacp_active: Kind::Flag, "whether LACPDUs are sent to a partner that sends none"),
        option!(ad_select: Kind::Choice(AdSelect::WORDS), "which aggregator is used: the best one until it has no link left, the one of the highest rate, or the one of most links"),
        option!(min_links: Kind::Count(0, 64, None), "fewer links than this in the aggregator: none is used"),
        option!(ad_actor_sys_prio: Kind::Count(1, 65_535, None), "the system priority in LACPDUs; the lower one decides"),
        option!(ad_user_port_key: Kind::Count(0, 1_023, None), "the upper ten bits of the ports' key"),
        option!(ad_actor_system: Kind::Mac, "the system's address in LACPDUs; none: the bond's own address"),
    ]);
    const LOOKS_AT_QUEUES: bool = false;
    type Selector = Ieee8023ad;

    fn selector(&self, _seed: u64) -> Ieee8023ad {
        Ieee8023ad::new(*self)
    }
}

/// What the links of an aggregator have in common where no LACP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Shared(Option<Rate>),
    Individual(ChannelId),
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Ieee8023ad {
    config: Config,
    /// The usable links when the aggregator was chosen last.
    seen: LinkSet,
    /// The one in use.
    group: Option<Group>,
    /// Its links that carry traffic.
    carries: LinkSet,
    /// What LACP decided, where it is spoken.
    distributing: Option<LinkSet>,
}

impl Ieee8023ad {
    /// With these settings.
    pub fn new(config: Config) -> Ieee8023ad {
        Ieee8023ad { config, seen: LinkSet::EMPTY, group: None, carries: LinkSet::EMPTY, distributing: None }
    }

    /// From now on `links` distribute, as far as they are usable: what a [`Lacp`](crate::lacp::Lacp) decided, `min_links`
    /// included.
    pub fn set_distributing(&mut self, links: LinkSet) {
        self.distributing = Some(links);
    }

    fn choose(&mut self, links: &Links) {
        self.seen = links.usable();
        let in_use = self.group.filter(|group| !members(*group, links).is_empty());
        let keep = in_use.filter(|_| self.config.ad_select == AdSelect::Stable);
        self.group = keep.or_else(|| {
            let candidates = links.each_usable().map(|(link, state)| group_of(link, state));
            let better = |best: Option<Group>, group: Group| {
                Some(best.filter(|best| self.rank(*best, links) >= self.rank(group, links)).unwrap_or(group))
            };
            candidates.fold(in_use, better)
        });
        let all = self.group.map_or(LinkSet::EMPTY, |group| members(group, links));
        self.carries = if all.len() < usize::from(self.config.min_links) { LinkSet::EMPTY } else { all };
    }

    fn rank(&self, group: Group, links: &Links) -> (bool, usize, u64) {
        let all = members(group, links);
        let rate = |link| links.get(link).and_then(|state| state.rate).map_or(0, Rate::as_bits_per_sec);
        let count = if self.config.ad_select == AdSelect::Count { all.len() } else { 0 };
        (matches!(group, Group::Shared(_)), count, all.iter().map(rate).fold(0, u64::saturating_add))
    }
}

fn group_of(link: ChannelId, state: &LinkState) -> Group {
    if state.full_duplex { Group::Shared(state.rate) } else { Group::Individual(link) }
}

fn members(group: Group, links: &Links) -> LinkSet {
    let of = links.each_usable().filter(|(link, state)| group_of(*link, state) == group);
    of.fold(LinkSet::EMPTY, |set, (link, _)| set.with(link))
}

impl Select for Ieee8023ad {
    #[inline]
    fn select(&mut self, _now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        let carries = match self.distributing {
            Some(distributing) => distributing & links.usable(),
            None => {
                if self.seen != links.usable() {
                    self.choose(links);
                }
                self.carries
            }
        };
        hash::choose(carries, hash::hash(self.config.xmit_hash_policy, frame))
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.choose(links);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Layer;

    const MBIT: fn(u64) -> Option<Rate> = |n| Some(Rate::from_mbit(n));

    fn links(rates: &[u64]) -> Links {
        Links::new(rates.iter().map(|rate| LinkState { rate: MBIT(*rate), ..LinkState::default() }))
    }

    fn down(links: &mut Links, link: u8) {
        let state = *links.get(ChannelId(link)).expect("a link");
        links.set(ChannelId(link), LinkState { usable: false, ..state });
    }

    /// The links that frames of all hashes take.
    fn used(selector: &mut Ieee8023ad, links: &Links) -> u64 {
        let mut set = LinkSet::EMPTY;
        for n in 0..=255 {
            let mut bytes = [0; 60];
            bytes[5] = n;
            let frame = Frame { bytes: &bytes, len: 60, layer: Layer::Ethernet };
            set = selector.select(Time::ZERO, &frame, links).iter().fold(set, LinkSet::with);
        }
        set.bits()
    }

    fn selector(ad_select: AdSelect, min_links: u16) -> Ieee8023ad {
        Ieee8023ad::new(Config { ad_select, min_links, ..Config::default() })
    }

    #[test]
    fn stable_keeps_its_aggregator_until_the_last_link_is_gone() {
        let mut links = links(&[1000, 100, 1000, 100, 100]);
        let mut stable = selector(AdSelect::Stable, 0);
        assert_eq!(used(&mut stable, &links), 0b00101);
        down(&mut links, 0);
        down(&mut links, 2);
        assert_eq!(used(&mut stable, &links), 0b11010);
        links.set(ChannelId(0), LinkState { rate: MBIT(1000), ..LinkState::default() });
        assert_eq!(used(&mut stable, &links), 0b11010, "it is not left for a better one");
    }

    #[test]
    fn bandwidth_and_count_choose_anew_whenever_links_change() {
        let mut links = links(&[1000, 400, 400, 400]);
        let [mut bandwidth, mut count] = [AdSelect::Bandwidth, AdSelect::Count].map(|select| selector(select, 0));
        assert_eq!((used(&mut bandwidth, &links), used(&mut count, &links)), (0b1110, 0b1110));
        down(&mut links, 3);
        assert_eq!((used(&mut bandwidth, &links), used(&mut count, &links)), (0b0001, 0b0110));
        down(&mut links, 2);
        assert_eq!(
            (used(&mut bandwidth, &links), used(&mut count, &links)),
            (0b0001, 0b0001),
            "of equal counts, the faster"
        );
        down(&mut links, 0);
        assert_eq!((used(&mut bandwidth, &links), used(&mut count, &links)), (0b0010, 0b0010));
    }

    #[test]
    fn a_half_duplex_link_is_alone_and_the_last_choice() {
        let mut links = links(&[1000, 1000, 10]);
        for link in [0, 1] {
            let half = LinkState { full_duplex: false, ..*links.get(ChannelId(link)).expect("a link") };
            links.set(ChannelId(link), half);
        }
        let mut count = selector(AdSelect::Count, 0);
        assert_eq!(used(&mut count, &links), 0b100);
        down(&mut links, 2);
        assert_eq!(used(&mut count, &links), 0b001);
    }

    #[test]
    fn fewer_links_than_min_links_carry_nothing() {
        let mut links = links(&[100, 100, 100]);
        let mut selector = selector(AdSelect::Stable, 2);
        down(&mut links, 1);
        assert_eq!(used(&mut selector, &links), 0b101);
        down(&mut links, 0);
        assert_eq!(used(&mut selector, &links), 0);
    }

    #[test]
    fn what_lacp_decided_replaces_the_own_choice() {
        let mut links = links(&[1000, 1000, 10]);
        let mut selector = selector(AdSelect::Stable, 0);
        selector.set_distributing(LinkSet::from_bits(0b110));
        assert_eq!(used(&mut selector, &links), 0b110);
        down(&mut links, 1);
        assert_eq!(used(&mut selector, &links), 0b100, "a link that is down carries nothing even before LACP knows");
        selector.set_distributing(LinkSet::EMPTY);
        assert_eq!(used(&mut selector, &links), 0);
    }

    #[test]
    fn links_of_unknown_rates_are_one_aggregator() {
        let links = Links::new([LinkState::default(); 4]);
        assert_eq!(used(&mut selector(AdSelect::Stable, 0), &links), 0b1111);
    }
    #[test]
    fn another_rate_of_the_same_links_chooses_anew() {
        let mut links = links(&[1000, 400, 400]);
        let mut bandwidth = selector(AdSelect::Bandwidth, 0);
        assert_eq!(used(&mut bandwidth, &links), 0b001);
        links.set(ChannelId(0), LinkState { rate: MBIT(700), ..LinkState::default() });
        bandwidth.on_links(Time::ZERO, &links);
        assert_eq!(used(&mut bandwidth, &links), 0b110);
    }
}
