//! The threshold that adapts: a flow moves where its packets keep their order, as the links' rates, queues and delays say.
//!
//! What it is: for each packet and link the earliest and the latest instant of arrival. A flow may take another link when the
//! packet cannot arrive there before the flow's last packet has:
//!
//! ```text
//! latest(last)   = leaves(a) + delay(a) + jitter(a)             noted when the last packet was queued on a
//! earliest(b)    = max(now, free(b)) + length/rate(b) + delay(b)
//! may move to b  = earliest(b) >= latest(last)
//! ```
//!
//! Source: burst-round-robin paper, 4.1: order holds where T > BSZ rho / B, the gap against the time that the queue ahead
//! takes to drain. Here the queue is the one there is, not its largest, and the links' delays count as well (section 8
//! asks for a threshold that adjusts itself).
//!
//! | paper | here |
//! |---|---|
//! | T_i | `now` less the last packet's instant |
//! | BSZ rho / B | [`LinkState::free`] when the last packet was queued, less that instant |
//! | (no skew) | delay and jitter of both links |
//!
//! What is chosen among the links that are allowed:
//! - **within a burst** the link where the packet arrives first. On like links that is striping packet by packet, in order:
//!   each packet arrives with or after the one before it. On unlike ones a flow spreads to a slower link when its queue on
//!   the faster ones has grown to the difference in delay. Where nothing is gained it stays.
//! - **a new flow, or a new burst** (one that could take every link even if its last packet had gone by the slowest: the links
//!   that it may choose do not depend on the one it was on) takes the link of the least arrival plus load. The load of
//!   a link is what it carried lately by its weight, relative to all links' mean, times [`BALANCE`]: that long may a
//!   packet be late for each mean load that a link is ahead.
//!
//! **What is not known.** A link without a rate hides its queue, one without a delay its skew: a packet on it counts as
//! arrived [`UNKNOWN`] later, and a packet for it as arriving at once. So a flow rests that long before it moves from or to it.
//!
//! Cost: O(links) for each packet, twice. Invariants: no packet overtakes another one of its flow where each packet leaves
//! and arrives as [`LinkState`] tells; a link that goes down releases its flows at once.

use super::fading::Fading;
use super::idle::Weights;
use super::{LinkState, Links};
use crate::units::{Bytes, ChannelId, Span, Time};

/// How much longer a packet may take on a link of which the rate or the delay is not known.
pub const UNKNOWN: Span = Span::from_millis(100);
/// How much later than elsewhere a packet may arrive for each mean load that a link is behind the others.
pub const BALANCE: Span = Span::from_secs(1);

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) link: ChannelId,
    /// When it arrives at the latest.
    pub(super) arrives: Time,
    /// It begins a burst.
    pub(super) burst: bool,
}

/// Chooses links by arrival.
#[derive(Clone, Debug)]
pub(super) struct Adaptive {
    loads: [Fading; ChannelId::LIMIT],
    /// What a byte counts on each link: inverse to its weight.
    scale: [u64; ChannelId::LIMIT],
}

/// When a packet queued now arrives at the earliest.
fn earliest(now: Time, len: Bytes, state: &LinkState) -> Time {
    now.max(state.free) + transmission(len, state) + state.delay.unwrap_or(Span::ZERO)
}

fn transmission(len: Bytes, state: &LinkState) -> Span {
    state.rate.filter(|rate| rate.as_bits_per_sec() > 0).map_or(Span::ZERO, |rate| rate.transmit_time(len))
}

/// By how much a packet may be later than the earliest.
fn spread(state: &LinkState) -> Span {
    let known = state.delay.is_some() && state.rate.is_some_and(|rate| rate.as_bits_per_sec() > 0);
    if known { state.jitter } else { state.jitter + UNKNOWN }
}

impl Adaptive {
    pub(super) fn new() -> Adaptive {
        Adaptive { loads: [Fading::default(); ChannelId::LIMIT], scale: [1 << 16; ChannelId::LIMIT] }
    }

    /// Loads are counted by these weights from now on.
    pub(super) fn on_links(&mut self, links: &Links, weights: &Weights) {
        let most = links.usable().iter().map(|link| weights.get(link)).max().unwrap_or(1);
        for link in links.usable().iter() {
            let scale = (u128::from(most) << 16) / u128::from(weights.get(link).max(1));
            self.scale[link.index()] = scale.min(1 << 32) as u64;
        }
    }

    /// The link for a packet of `len` bytes; `last`: the flow's link, which is usable, and when its last packet arrives at
    /// the latest. `None`: no link is usable.
    #[inline]
    pub(super) fn choose(
        &mut self,
        now: Time,
        len: usize,
        links: &Links,
        last: Option<(ChannelId, Time)>,
    ) -> Option<Chosen> {
        let len = Bytes::from(len);
        let within = last.filter(|(link, latest)| !at_rest(now, len, links, *link, *latest));
        let link = match within {
            Some((link, latest)) => soonest(now, len, links, link, latest),
            None => self.balanced(now, len, links)?,
        };
        let state = links.get(link)?;
        self.charge(now, link, len);
        let arrives = latest(now, len, state);
        // A packet behind another one on its link arrives behind it, whatever became of the estimates since.
        let arrives = last.filter(|(before, _)| *before == link).map_or(arrives, |(_, until)| arrives.max(until));
        Some(Chosen { link, arrives, burst: within.is_none() })
    }

    /// The link of the least arrival and load.
    fn balanced(&self, now: Time, len: Bytes, links: &Links) -> Option<ChannelId> {
        let load = |link: ChannelId| self.loads[link.index() % ChannelId::LIMIT].at(now);
        let sum = links.usable().iter().fold(0u64, |sum, link| sum.saturating_add(load(link)));
        let mean = (sum / links.usable().len().max(1) as u64).max(1);
        let cost = |(link, state): &(ChannelId, &LinkState)| {
            let load = u128::from(load(*link)) * u128::from(BALANCE.as_nanos()) / u128::from(mean);
            u128::from(earliest(now, len, state).as_nanos()) + load
        };
        links.each_usable().min_by_key(cost).map(|(link, _)| link)
    }

    fn charge(&mut self, now: Time, link: ChannelId, len: Bytes) {
        let n = link.index() % ChannelId::LIMIT;
        self.loads[n].add(now, len.as_u64().saturating_mul(self.scale[n]));
    }
}

/// When a packet that is queued on a link now arrives at the latest.
pub(super) fn latest(now: Time, len: Bytes, state: &LinkState) -> Time {
    earliest(now, len, state) + spread(state)
}

/// Whether a packet that takes `link` now cannot arrive before one of which that is the latest instant.
pub(super) fn may_move(now: Time, len: Bytes, links: &Links, link: ChannelId, latest: Time) -> bool {
    links.get(link).is_some_and(|state| earliest(now, len, state) >= latest)
}

/// Whether a flow's next packet keeps its order on every link, even if the last one had gone by the slowest. That one went
/// by `own`, to arrive at `latest`.
pub(super) fn at_rest(now: Time, len: Bytes, links: &Links, own: ChannelId, until: Time) -> bool {
    let (mut first, mut slowest) = (Time::MAX, Span::ZERO);
    for (_, state) in links.each_usable() {
        first = first.min(earliest(now, len, state));
        slowest = slowest.max(state.delay.unwrap_or(Span::ZERO) + spread(state));
    }
    let own = links.get(own).map_or(Span::ZERO, |state| state.delay.unwrap_or(Span::ZERO) + spread(state));
    first >= until + (slowest - own)
}

/// The link where the flow's next packet arrives first and in order; its own unless another one is better.
fn soonest(now: Time, len: Bytes, links: &Links, own: ChannelId, latest: Time) -> ChannelId {
    let mut best = (own, links.get(own).map_or(Time::MAX, |state| earliest(now, len, state).max(latest)));
    for (link, state) in links.each_usable() {
        let arrives = earliest(now, len, state);
        if link != own && arrives >= latest && arrives < best.1 {
            best = (link, arrives);
        }
    }
    best.0
}
