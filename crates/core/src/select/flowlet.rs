//! `flowlet`: each flowlet to a link drawn anew.
//!
//! What it is: packets of a flow that follow each other within the timeout are one flowlet and take one link; a new one draws
//! its link at random, in proportion to the links' rates (weights where a rate is not known).
//!
//! Source: the flowlet is Sinha, Kandula and Katabi's ("Harnessing TCP's burstiness with flowlet switching", HotNets 2004; FLARE,
//! 2007), which gives it to the path that is furthest behind its share. Drawing instead, with no state of the links, is
//! LetFlow (Vanini, Pan, Alizadeh, Taheri and Edsall, NSDI 2017): a flow on a crowded link is slowed, so its gaps are
//! longer, so it draws again sooner; flowlets gather where there is room though nobody measures it. That is what differs from
//! `brr`, and why it is LetFlow's choice that is taken here.
//!
//! Departures: LetFlow draws evenly; links here may be unlike. LetFlow's table is of hashes without keys and ages by a bit; here
//! it is [`Flows`], where two flows never share an entry by accident. `adaptive` in place of the timeout: a flowlet ends
//! when the next packet would keep its order on every link ([`super::adaptive`]).
//!
//! Cost: O(1) for each packet within a flowlet, O(links) for a new one, and for each where adaptive. Invariants: within a
//! flowlet one link, as long as it is usable and the flow is in the table; the same seed draws the same links.

use super::adaptive;
use super::brr::Stats;
use super::flows::Flows;
use super::idle::Weights;
use super::{Frame, LinkSet, Links, Select};
use crate::rng::Rng;
use crate::units::{Bytes, Span, Time};

/// The settings of `flowlet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// A packet that comes this long after the one before it starts a new flowlet; `None`: adaptive. Default 50 ms.
    pub timeout: Option<Span>,
    /// Most flows that are remembered. Default 65,536.
    pub flows: u32,
    /// A flow without packets for this long is forgotten. Default 60 s.
    pub expiry: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config { timeout: Some(Span::from_millis(50)), flows: 65_536, expiry: Span::from_secs(60) }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Flowlet {
    config: Config,
    flows: Flows<()>,
    weights: Weights,
    rng: Rng,
    stats: Stats,
}

impl Flowlet {
    /// With these settings; `seed` keys the flow table's hash and draws links.
    pub fn new(config: Config, seed: u64) -> Flowlet {
        let mut rng = Rng::new(seed);
        let flows = Flows::new(config.flows, config.expiry, rng.next_u64());
        Flowlet { config, flows, weights: Weights::EQUAL, rng, stats: Stats::default() }
    }

    /// What it did so far; a flowlet counts as a burst.
    pub fn stats(&self) -> Stats {
        let table = self.flows.stats();
        Stats { flows: table.new, evicted: table.evicted, ..self.stats }
    }
}

impl Select for Flowlet {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        let len = Bytes::from(frame.len);
        let entry = self.flows.entry(now, frame);
        let stays = entry.link().filter(|link| {
            links.usable().contains(*link)
                && match self.config.timeout {
                    Some(timeout) => now.since(entry.at()) < timeout,
                    None => !adaptive::at_rest(now, len, links, *link, entry.at()),
                }
        });
        let Some(link) = stays.or_else(|| self.weights.draw(links.usable(), &mut self.rng)) else {
            return LinkSet::EMPTY;
        };
        self.stats.bursts += u64::from(stays.is_none());
        self.stats.moves += u64::from(entry.link().is_some_and(|before| before != link));
        let at = match (self.config.timeout, links.get(link)) {
            (None, Some(state)) => adaptive::latest(now, len, state),
            _ => now,
        };
        // What a link that failed was to bring does not hold up the flow on another one.
        let at = if entry.link() == Some(link) { at.max(entry.at()) } else { at };
        entry.set(at, link);
        LinkSet::only(link)
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.weights = Weights::of(links);
    }
}
