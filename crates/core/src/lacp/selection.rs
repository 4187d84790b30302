//! Selection logic: which ports belong together, and which aggregator the bond uses.
//!
//! Source: IEEE 802.1AX-2014, 6.4.14; Linux's bonding driver for the choice of the one aggregator (`ad_select`): of two, that
//! which is not individual; then that with a partner; then by `count` that with more ports; then that of the higher sum
//! of rates; then the one in use, or the one of the lower number. Only ports whose links are up count. `stable` keeps the
//! one in use while it has a port, unless it has no partner and another one has.
//!
//! Departures:
//! - A port that comes to another aggregator leaves the old one first (its mux machine passes detached).
//! - A partner that aggregates nothing makes its port individual.
//! - Two systems may each use an aggregator that the other one does not, and would wait for ever. So where the partner of the
//!   aggregator in use stays out of synchronization while that of another one is ready, the choice follows the partner:
//!   after 5 s at the system of lower rank, after 15 s at the other one.
//! - Rates that Linux has no number for get one of their own, as long as there are some (14).
//!
//! Cost: ports times aggregators when a port changes aggregator; nothing per packet.

use super::pdu::State;
use super::port::{Port, PortLink};
use crate::select::ieee8023ad::AdSelect;
use crate::set::LinkSet;
use crate::units::{ChannelId, Rate, Span, Time};
use crate::wire::mac::Mac;
use alloc::vec::Vec;

/// How long the system of lower rank waits for its partner before it uses the aggregator that the partner is ready for.
const FOLLOW_LOWER: Span = Span::from_secs(5);
/// The same for the system of higher rank.
const FOLLOW_HIGHER: Span = Span::from_secs(15);

/// Ports that go together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregator {
    pub(super) ports: LinkSet,
    pub(super) individual: bool,
    pub(super) key: u16,
    pub(super) partner_system: Mac,
    pub(super) partner_priority: u16,
    pub(super) partner_key: u16,
}

impl Aggregator {
    pub(super) fn has_partner(&self) -> bool {
        self.partner_system != Mac::ZERO
    }

    /// Whether `port` may join its ports.
    fn suits(&self, port: &Port) -> bool {
        !self.ports.is_empty()
            && self.has_partner()
            && !self.individual
            && !port.individual()
            && (self.key, self.partner_system, self.partner_priority, self.partner_key)
                == (port.actor.key, port.partner.system, port.partner.system_priority, port.partner.key)
    }
}

/// Numbers of rates, for keys: Linux's where it has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Speeds {
    others: Vec<Rate>,
}

impl Speeds {
    /// In megabits per second; the first one has number 1.
    const LINUX: [u64; 17] = [
        1, 10, 100, 1_000, 2_500, 5_000, 10_000, 14_000, 20_000, 25_000, 40_000, 50_000, 56_000, 100_000, 200_000,
        400_000, 800_000,
    ];
    const LAST: usize = 31;

    /// The key of a port with this link: duplex in bit 0, the rate in bits 1 to 5, the user's part above.
    pub(super) fn key(&mut self, link: &PortLink, user: u16) -> u16 {
        (user & 0x3ff) << 6 | (self.number(link.rate) as u16) << 1 | u16::from(link.full_duplex)
    }

    fn number(&mut self, rate: Option<Rate>) -> usize {
        let Some(rate) = rate else { return 0 };
        if let Some(place) = Speeds::LINUX.iter().position(|mbit| Rate::from_mbit(*mbit) == rate) {
            return place + 1;
        }
        let room = Speeds::LAST - Speeds::LINUX.len();
        match self.others.iter().position(|other| *other == rate) {
            Some(place) => Speeds::LAST - place,
            None if self.others.len() < room => {
                self.others.push(rate);
                Speeds::LAST + 1 - self.others.len()
            }
            None => 0,
        }
    }
}

/// All aggregators of a system: as many as there are ports.
#[derive(Clone, Debug)]
pub(super) struct Aggregators {
    all: Vec<Aggregator>,
    /// The place of the one in use.
    active: Option<usize>,
    /// Since when the partner of the one in use could have come into synchronization.
    waits: Option<Time>,
    /// Whether the one in use is the partner's choice.
    followed: bool,
    policy: AdSelect,
}

/// What the choice goes by.
#[derive(Clone, Copy)]
struct Candidate {
    place: usize,
    individual: bool,
    partner: bool,
    count: usize,
    rate: u64,
    /// Whether the partner is ready to use it.
    synchronized: bool,
}

impl Aggregators {
    pub(super) fn new(policy: AdSelect) -> Aggregators {
        Aggregators { all: Vec::new(), active: None, waits: None, followed: false, policy }
    }

    pub(super) fn get(&self, place: usize) -> Option<&Aggregator> {
        self.all.get(place)
    }

    /// Those with ports, and their places.
    pub(super) fn used(&self) -> impl Iterator<Item = (usize, &Aggregator)> {
        self.all.iter().enumerate().filter(|(_, aggregator)| !aggregator.ports.is_empty())
    }

    pub(super) fn active(&self) -> Option<usize> {
        self.active
    }

    /// Room for a port of that number.
    pub(super) fn grow(&mut self, port: ChannelId) {
        if self.all.len() <= port.index() {
            self.all.resize(port.index() + 1, Aggregator::default());
        }
    }

    /// Takes `port` out of its aggregator.
    pub(super) fn leave(&mut self, port: &mut Port) {
        if let Some(aggregator) = port.aggregator.take().and_then(|place| self.all.get_mut(place)) {
            aggregator.ports = aggregator.ports.without(port.id);
            if aggregator.ports.is_empty() {
                *aggregator = Aggregator::default();
            }
        }
    }

    /// Finds the aggregator of a port that is selected for none.
    pub(super) fn join(&mut self, port: &mut Port) {
        self.leave(port);
        let found = self.all.iter().position(|aggregator| aggregator.suits(port));
        let free = || self.all.iter().position(|aggregator| aggregator.ports.is_empty());
        // There are as many aggregators as ports, so that one is free for a port that has none.
        let Some(place) = found.or_else(free) else { return };
        if found.is_none() {
            self.all[place] = Aggregator {
                ports: LinkSet::EMPTY,
                individual: port.individual(),
                key: port.actor.key,
                partner_system: port.partner.system,
                partner_priority: port.partner.system_priority,
                partner_key: port.partner.key,
            };
        }
        self.all[place].ports = self.all[place].ports.with(port.id);
        port.aggregator = Some(place);
        port.selected = true;
    }

    /// Chooses the aggregator in use. `rank`: this system's priority and address. Says whether another one is used now.
    pub(super) fn choose(&mut self, ports: &[Option<Port>], rank: (u16, Mac), now: Time) -> bool {
        let candidate = |(place, aggregator): (usize, &Aggregator)| candidate(place, aggregator, ports);
        let all: Vec<Candidate> = self.used().map(candidate).filter(|c| c.count > 0).collect();
        let current = all.iter().copied().find(|c| Some(c.place) == self.active);
        let best = all.iter().copied().fold(current, |best, c| Some(best.map_or(c, |best| self.better(best, c))));
        let stable = |current: &Candidate| {
            self.policy == AdSelect::Stable && (current.partner || best.is_none_or(|best| !best.partner))
        };
        let followed =
            |current: &Candidate| self.followed && current.synchronized && best.is_some_and(|best| !best.synchronized);
        let kept = current.filter(|current| stable(current) || followed(current));
        let chosen = kept.or(best);
        self.followed &= chosen.map(|c| c.place) == self.active;
        let elsewhere = all.iter().find(|c| c.synchronized && Some(c.place) != chosen.map(|c| c.place));
        let next = match (chosen, elsewhere) {
            (Some(chosen), Some(other)) if chosen.partner && !chosen.synchronized => {
                let since = *self.waits.get_or_insert(now);
                if now >= since + self.patience(chosen.place, rank) {
                    (self.waits, self.followed) = (None, true);
                    Some(other.place)
                } else {
                    Some(chosen.place)
                }
            }
            _ => {
                self.waits = None;
                chosen.map(|c| c.place)
            }
        };
        core::mem::replace(&mut self.active, next) != next
    }

    /// When the choice is to be looked at again.
    pub(super) fn due(&self, rank: (u16, Mac)) -> Option<Time> {
        self.waits.map(|since| since + self.active.map_or(Span::ZERO, |place| self.patience(place, rank)))
    }

    fn better(&self, best: Candidate, other: Candidate) -> Candidate {
        let by_count = |c: &Candidate| if self.policy == AdSelect::Count { c.count } else { 0 };
        let rank = |c: &Candidate| (!c.individual, c.partner, by_count(c), c.rate);
        if rank(&other) > rank(&best) { other } else { best }
    }

    fn patience(&self, place: usize, rank: (u16, Mac)) -> Span {
        let partner = self.get(place).map(|a| (a.partner_priority, a.partner_system));
        if partner.is_some_and(|partner| rank < partner) { FOLLOW_HIGHER } else { FOLLOW_LOWER }
    }
}

/// The ports of `set`.
pub(super) fn each(ports: &[Option<Port>], set: LinkSet) -> impl Iterator<Item = &Port> {
    set.iter().filter_map(|id| ports.get(id.index())?.as_ref())
}

fn candidate(place: usize, aggregator: &Aggregator, ports: &[Option<Port>]) -> Candidate {
    let enabled = || each(ports, aggregator.ports).filter(|port| port.enabled());
    let rate = |port: &Port| port.link.rate.map_or(0, Rate::as_bits_per_sec);
    Candidate {
        place,
        individual: aggregator.individual,
        partner: aggregator.has_partner(),
        count: enabled().count(),
        rate: enabled().map(rate).fold(0, u64::saturating_add),
        synchronized: enabled().any(|port| port.partner.state.has(State::SYNCHRONIZATION)),
    }
}
