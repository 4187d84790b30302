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
use super::brr::{EXPIRY, FLOWS};
use super::idle::Weights;
use super::{BurstStats, PolicyConfig};
use super::{Frame, Links, Select};
use crate::flow::Flows;
use crate::options::{Kind, Table, option};
use crate::rng::Rng;
use crate::set::LinkSet;
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;

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

impl PolicyConfig for Config {
    const NAME: &'static str = "flowlet";
    const MAIN: Option<&'static str> = Some("timeout");
    const HELP: &'static str = "each flowlet to a link chosen anew";
    const OPTIONS: Table<Config> = Table(&[
        option!(timeout: Kind::Span(Span::from_micros(1), Span::from_secs(86_400), Some("adaptive")), "a packet that comes this long after the one before it in its flow starts a new flowlet"),
        option!(FLOWS => flows),
        option!(EXPIRY => expiry),
    ]);
    type Selector = Box<Flowlet>;

    fn selector(&self, seed: u64) -> Box<Flowlet> {
        Box::new(Flowlet::new(*self, seed))
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Flowlet {
    config: Config,
    flows: Flows<()>,
    weights: Weights,
    rng: Rng,
    stats: BurstStats,
}

impl Flowlet {
    /// With these settings; `seed` keys the flow table's hash and draws links.
    pub fn new(config: Config, seed: u64) -> Flowlet {
        let mut rng = Rng::new(seed);
        let flows = Flows::new(config.flows, config.expiry, rng.next_u64());
        Flowlet { config, flows, weights: Weights::EQUAL, rng, stats: BurstStats::default() }
    }
}

impl Select for Flowlet {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        let len = Bytes::from(frame.len);
        let mut entry = self.flows.entry(now, frame);
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

    fn stats(&self) -> BurstStats {
        let table = self.flows.stats();
        BurstStats { flows: table.new, evicted: table.evicted, ..self.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use crate::select::{Layer, LinkState};
    use crate::units::{ChannelId, Rate};
    use alloc::vec::Vec;

    fn take(flowlet: &mut Flowlet, us: u64, flow: u16, links: &Links) -> Option<ChannelId> {
        let packet = testing::udp4(1, 2, flow, 80, &[]);
        let frame = Frame { bytes: &packet, len: 1000, layer: Layer::Ip };
        flowlet.select(Time::from_nanos(us * 1000), &frame, links).first()
    }

    #[test]
    fn a_flowlet_keeps_its_link_and_new_ones_draw_by_rate() {
        let links =
            Links::new([10, 30].map(|mbit| LinkState { rate: Some(Rate::from_mbit(mbit)), ..LinkState::default() }));
        let mut flowlet = Flowlet::new(Config::default(), 7);
        flowlet.on_links(Time::ZERO, &links);
        let mut counts = [0; 2];
        for n in 0..10_000 {
            let at = n * 89_999;
            let first = take(&mut flowlet, at, 1, &links).unwrap();
            assert_eq!(take(&mut flowlet, at + 39_999, 1, &links), Some(first), "within the timeout");
            counts[first.index()] += 1;
        }
        assert_eq!((flowlet.stats().bursts, flowlet.stats().flows), (10_000, 1));
        // 2500 expected, standard deviation 43: six deviations either way.
        assert!((2_240..2_760).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same_links() {
        let links = Links::new([LinkState::default(); 4]);
        let drawn = |seed| {
            let mut flowlet = Flowlet::new(Config::default(), seed);
            (0..200).map(|flow| take(&mut flowlet, 0, flow, &links).unwrap().0).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn an_adaptive_flowlet_ends_when_all_links_keep_its_order() {
        let state = |ms| LinkState {
            rate: Some(Rate::from_mbit(8)),
            delay: Some(Span::from_millis(ms)),
            ..LinkState::default()
        };
        let links = Links::new([state(1), state(21)]);
        let mut flowlet = Flowlet::new(Config { timeout: None, ..Config::default() }, 1);
        // 20 ms of skew; the packets' own millisecond counts on both sides.
        for (gap, flowlets) in [(19_999, 1), (20_000, 100)] {
            let before = flowlet.stats().bursts;
            for n in 0..100 {
                take(&mut flowlet, n * gap, gap as u16, &links);
            }
            assert_eq!(flowlet.stats().bursts - before, flowlets, "{gap} us apart");
        }
        let mut down = links.clone();
        let link = take(&mut flowlet, 3_000_000, 5, &links).unwrap();
        down.set(link, LinkState { usable: false, ..state(1) });
        assert_ne!(take(&mut flowlet, 3_000_001, 5, &down), Some(link));
        assert_eq!(take(&mut flowlet, 3_000_002, 5, &Links::default()), None);
    }
    #[test]
    fn a_flow_that_moves_is_counted_and_so_is_one_that_is_forgotten_for_others() {
        let links = Links::new([LinkState::default(); 4]);
        let mut flowlet = Flowlet::new(Config { flows: 16, ..Config::default() }, 3);
        let drawn: Vec<_> = (0..100).map(|n| take(&mut flowlet, n * 1_000_000, 1, &links).unwrap()).collect();
        let moves = drawn.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
        assert_eq!((flowlet.stats().moves, flowlet.stats().evicted), (moves, 0));
        (0..1000).for_each(|flow| assert!(take(&mut flowlet, 100_000_000, flow, &links).is_some()));
        assert!(flowlet.stats().evicted > 900, "{:?}", flowlet.stats());
    }

    #[test]
    fn what_a_link_that_failed_was_to_bring_does_not_hold_up_its_flow_elsewhere() {
        let state = |ms| LinkState {
            rate: Some(Rate::from_mbit(8)),
            delay: Some(Span::from_millis(ms)),
            ..LinkState::default()
        };
        let links = Links::new([state(500), state(1)]);
        let mut slow = links.clone();
        slow.set(ChannelId(0), LinkState { usable: false, ..state(500) });
        let mut flowlet = Flowlet::new(Config { timeout: None, ..Config::default() }, 1);
        let mut fast = links.clone();
        fast.set(ChannelId(1), LinkState { usable: false, ..state(1) });
        assert_eq!(take(&mut flowlet, 0, 1, &fast), Some(ChannelId(0)));
        assert_eq!(take(&mut flowlet, 10_000, 1, &slow), Some(ChannelId(1)));
        let before = flowlet.stats().bursts;
        take(&mut flowlet, 20_000, 1, &slow);
        assert_eq!(flowlet.stats().bursts, before + 1);
    }
}
