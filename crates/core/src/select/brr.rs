//! `brr`: burst round robin, the paper's mode 7.
//!
//! What it is: packets of a flow that follow each other within the threshold are one burst and take one link; a new flow or
//! burst takes the link that was idle longest ([`super::idle`]). Source: burst-round-robin paper, 5.3.
//!
//! | paper | here |
//! |---|---|
//! | flow table, an entry with time and device | [`Flows`] |
//! | interburst_threshold | [`Config::threshold`] |
//! | last time a packet is queued, of a device | `LongestIdle` |
//!
//! Departures: every packet renews its flow's time, as a burst is told by neighbouring packets (the paper's words renew it
//! only with a new burst). The table is bounded, and forgets. A packet exactly the threshold after the one before it begins
//! a burst; the paper leaves that open. A flow whose link goes down takes another one at once. `weighted`: bursts in
//! proportion to rates; `adaptive`: no constant threshold, [`super::adaptive`].
//!
//! Cost: O(1) for each packet within a burst, O(links) for a new one; O(links) for each packet where adaptive. Two or three
//! cache lines of the table, one of the links' times for each packet. Nothing is allocated after construction.
//! Invariants: within a burst one link, as long as it is usable and the flow is in the table.

use super::adaptive::Adaptive;
use super::flows::Flows;
use super::idle::{LongestIdle, Weights};
use super::{Frame, LinkSet, Links, Select};
use crate::units::{Span, Time};

/// The settings of `brr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// A packet that comes this long after the one before it starts a new burst; `None`: adaptive. Default 12 ms.
    pub threshold: Option<Span>,
    /// Most flows that are remembered. Default 65,536.
    pub flows: u32,
    /// A flow without packets for this long is forgotten. Default 60 s.
    pub expiry: Span,
    /// Whether links of higher rate or weight get bursts in proportion. Default true.
    pub weighted: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: Some(Span::from_millis(12)), flows: 65_536, expiry: Span::from_secs(60), weighted: true }
    }
}

/// What a policy that goes by bursts did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Flows that were new, or had been forgotten.
    pub flows: u64,
    /// Bursts, each flow's first included.
    pub bursts: u64,
    /// Packets that took another link than the one before them in their flow.
    pub moves: u64,
    /// Flows that lost their place in the table to others before they expired.
    pub evicted: u64,
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Brr {
    config: Config,
    flows: Flows<()>,
    idle: LongestIdle,
    weights: Weights,
    adaptive: Adaptive,
    stats: Stats,
}

impl Brr {
    /// With these settings; `seed` keys the flow table's hash.
    pub fn new(config: Config, seed: u64) -> Brr {
        Brr {
            config,
            flows: Flows::new(config.flows, config.expiry, seed),
            idle: LongestIdle::new(),
            weights: Weights::EQUAL,
            adaptive: Adaptive::new(),
            stats: Stats::default(),
        }
    }

    /// What it did so far.
    pub fn stats(&self) -> Stats {
        let table = self.flows.stats();
        Stats { flows: table.new, evicted: table.evicted, ..self.stats }
    }
}

impl Select for Brr {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        let entry = self.flows.entry(now, frame);
        let before = entry.link().filter(|link| links.usable().contains(*link));
        let (link, burst, at) = match (self.config.threshold, before) {
            (Some(threshold), Some(link)) if now.since(entry.at()) < threshold => (link, false, now.max(entry.at())),
            (Some(_), _) => {
                let Some(link) = self.idle.pick(now, links.usable(), &self.weights) else { return LinkSet::EMPTY };
                (link, true, now.max(entry.at()))
            }
            (None, _) => {
                let last = before.map(|link| (link, entry.at()));
                let Some(chosen) = self.adaptive.choose(now, frame.len, links, last) else { return LinkSet::EMPTY };
                (chosen.link, chosen.burst, chosen.arrives)
            }
        };
        self.stats.bursts += u64::from(burst);
        self.stats.moves += u64::from(entry.link().is_some_and(|before| before != link));
        entry.set(at, link);
        self.idle.queued(now, link);
        LinkSet::only(link)
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.weights = if self.config.weighted { Weights::of(links) } else { Weights::EQUAL };
        self.adaptive.on_links(links, &self.weights);
    }
}
