//! `brr`: burst round robin, the paper's mode 7.
//!
//! What it is: packets of a flow that follow each other within the threshold are one burst and take one link; a new flow or
//! burst takes the link that was idle longest (`idle.rs`). Source: burst-round-robin paper, 5.3.
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
//! proportion to rates; `adaptive`: no constant threshold, [`super::adaptive`]. Time is exact; the paper's jiffies are the option
//! `tick`.
//!
//! Cost: O(1) for each packet within a burst, O(links) for a new one; O(links) for each packet where adaptive. One
//! cache line of the table and one of the links' turns for each packet. Nothing is allocated after construction.
//! Invariants: within a burst one link, as long as it is usable and the flow is in the table.

use super::adaptive::Adaptive;
use super::idle::{LongestIdle, Weights};
use super::{BurstStats, PolicyConfig};
use super::{Frame, Links, Select};
use crate::flow::Flows;
use crate::options::{Kind, OptionSpec, Table, option};
use crate::set::LinkSet;
use crate::units::{Span, Time};
use alloc::boxed::Box;

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
    /// Gaps are told by a clock that goes on once in this time, as the paper's kernel does; `None`: to the nanosecond. Default `None`.
    pub tick: Option<Span>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            threshold: Some(Span::from_millis(12)),
            flows: 65_536,
            expiry: Span::from_secs(60),
            weighted: true,
            tick: None,
        }
    }
}

impl Config {
    /// From one packet to the next by the policy's clock.
    #[inline]
    fn gap(&self, now: Time, before: Time) -> Span {
        match self.tick {
            None => now.since(before),
            Some(tick) => {
                let tick = tick.as_nanos().max(1);
                let passed = (now.as_nanos() / tick).saturating_sub(before.as_nanos() / tick);
                Span::from_nanos(passed.saturating_mul(tick))
            }
        }
    }
}

/// The option, of every policy that has it.
pub(super) const THRESHOLD: OptionSpec = OptionSpec::new(
    "threshold",
    Kind::Span(Span::from_micros(1), Span::from_secs(86_400), Some("adaptive")),
    "a packet that comes this long after the one before it in its flow starts a new burst; adaptive: where the measured delays and queues of the links allow it",
);

/// The option, of every policy that has it.
pub(super) const FLOWS: OptionSpec =
    OptionSpec::new("flows", Kind::Count(16, 1 << 26, None), "most flows that are remembered");

/// The option, of every policy that has it.
pub(super) const EXPIRY: OptionSpec = OptionSpec::new(
    "expiry",
    Kind::Span(Span::from_millis(1), Span::from_secs(86_400), None),
    "a flow without packets for this long is forgotten",
);

impl PolicyConfig for Config {
    const NAME: &'static str = "brr";
    const MODE: Option<u8> = Some(7);
    const MAIN: Option<&'static str> = Some("threshold");
    const HELP: &'static str = "burst round robin: each burst of a flow to the link that was idle longest";
    const OPTIONS: Table<Config> = Table(&[
        option!(THRESHOLD => threshold),
        option!(FLOWS => flows),
        option!(EXPIRY => expiry),
        option!(weighted: Kind::Flag, "whether links of higher rate or weight get bursts in proportion"),
        option!(tick: Kind::Span(Span::from_micros(1), Span::from_secs(1), Some("off")), "gaps between packets are told by a clock that goes on once in this time, as the paper's kernel did each 4 ms: a gap of 4 ms then means up to 4; off: to the nanosecond"),
    ]);
    type Selector = Box<Brr>;

    fn selector(&self, seed: u64) -> Box<Brr> {
        Box::new(Brr::new(*self, seed))
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Brr {
    config: Config,
    flows: Flows<()>,
    idle: LongestIdle,
    weights: Weights,
    adaptive: Adaptive,
    stats: BurstStats,
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
            stats: BurstStats::default(),
        }
    }
}

impl Brr {
    #[inline]
    fn choose(&mut self, now: Time, frame: &Frame<'_>, links: &Links, holds: bool) -> (LinkSet, Time) {
        let mut entry = self.flows.entry(now, frame);
        let before = entry.link().filter(|link| links.usable().contains(*link));
        let (link, burst, at, start) = match (self.config.threshold, before) {
            (Some(threshold), Some(link)) if self.config.gap(now, entry.at()) < threshold => {
                (link, false, now.max(entry.at()), Time::ZERO)
            }
            (Some(_), _) => {
                let Some(link) = self.idle.pick(links.usable(), &self.weights) else { return NOWHERE };
                (link, true, now.max(entry.at()), Time::ZERO)
            }
            (None, _) => {
                let last = before.map(|link| (link, entry.at()));
                let Some(chosen) = self.adaptive.choose(now, frame.len, links, last, holds) else { return NOWHERE };
                (chosen.link, chosen.burst, chosen.arrives, chosen.start)
            }
        };
        self.stats.bursts += u64::from(burst);
        self.stats.moves += u64::from(entry.link().is_some_and(|before| before != link));
        entry.set(at, link);
        self.idle.queued(link);
        (LinkSet::only(link), start)
    }
}

const NOWHERE: (LinkSet, Time) = (LinkSet::EMPTY, Time::ZERO);

impl Select for Brr {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        self.choose(now, frame, links, false).0
    }

    #[inline]
    fn select_held(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> (LinkSet, Time) {
        self.choose(now, frame, links, true)
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.weights = if self.config.weighted { Weights::of(links) } else { Weights::EQUAL };
        self.idle.on_links();
        self.adaptive.on_links(links, &self.weights);
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
    use crate::rng::Rng;
    use crate::select::{Layer, LinkState};
    use crate::units::ChannelId;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn four() -> Links {
        Links::new([LinkState::default(); 4])
    }

    fn take(brr: &mut Brr, ms: u64, flow: u16, links: &Links) -> Option<u8> {
        let packet = testing::udp4(1, 2, flow, 80, &[]);
        let frame = Frame { bytes: &packet, len: 1000, layer: Layer::Ip };
        brr.select(Time::from_millis(ms), &frame, links).first().map(|link| link.0)
    }

    #[test]
    fn bursts_take_the_link_idle_longest_and_every_packet_renews_the_flows_time() {
        let (links, mut brr) = (four(), Brr::new(Config::default(), 1));
        let mut link = |ms, flow| take(&mut brr, ms, flow, &links).unwrap();
        assert_eq!([link(0, 1), link(1, 2), link(2, 3)], [0, 1, 2], "links never used, in order");
        assert_eq!(link(11, 1), 0);
        assert_eq!(link(22, 1), 0, "11 ms after its last packet, 22 after the burst began");
        assert_eq!(link(33, 1), 0);
        assert_eq!(link(34, 4), 3);
        assert_eq!(link(45, 1), 1, "12 ms are a new burst, and link 1 rests since 1 ms");
        assert_eq!(link(46, 2), 2, "a burst that ends leaves its link");
        assert_eq!(link(47, 1), 1);
        assert_eq!(link(48, 5), 0);
        assert_eq!(brr.stats(), BurstStats { flows: 5, bursts: 7, moves: 2, evicted: 0 });
    }

    #[test]
    fn a_clock_that_ticks_takes_any_two_sides_of_a_tick_for_a_gap_of_one() {
        let config =
            Config { threshold: Some(Span::from_millis(4)), tick: Some(Span::from_millis(4)), ..Config::default() };
        let (links, mut ticking) = (four(), Brr::new(config, 1));
        let mut exact = Brr::new(Config { tick: None, ..config }, 1);
        let links_at = |brr: &mut Brr| [0, 3, 4, 7, 15].map(|ms| take(brr, ms, 1, &links).unwrap());
        assert_eq!(links_at(&mut exact), [0, 0, 0, 0, 1], "8 ms are a gap");
        assert_eq!(links_at(&mut ticking), [0, 0, 1, 1, 2], "from 3 to 4 ms the clock has gone on");
        // The greatest times there are.
        let far = Config { tick: Some(Span::from_micros(1)), ..config };
        assert_eq!(far.gap(Time::MAX, Time::ZERO).as_nanos(), u64::MAX / 1000 * 1000);
        assert_eq!(far.gap(Time::ZERO, Time::MAX), Span::ZERO);
    }

    #[test]
    fn a_flow_whose_link_goes_down_takes_another_one_at_once() {
        let (mut links, mut brr) = (four(), Brr::new(Config::default(), 1));
        assert_eq!(take(&mut brr, 0, 1, &links), Some(0));
        links.set(ChannelId(0), LinkState { usable: false, ..LinkState::default() });
        brr.on_links(Time::ZERO, &links);
        assert_eq!([1, 2].map(|ms| take(&mut brr, ms, 1, &links)), [Some(1), Some(1)]);
        for n in 1..4 {
            links.set(ChannelId(n), LinkState { usable: false, ..LinkState::default() });
        }
        assert_eq!(take(&mut brr, 3, 1, &links), None);
        links.set(ChannelId(0), LinkState::default());
        assert_eq!(take(&mut brr, 4, 1, &links), Some(0));
    }

    #[test]
    fn unlike_links_get_bursts_by_their_weights_unless_that_is_off() {
        for (weighted, shares) in [(true, [1_000u64, 3_000]), (false, [2_000, 2_000])] {
            let links = Links::new([1, 3].map(|weight| LinkState { weight, ..LinkState::default() }));
            let mut brr = Brr::new(Config { weighted, ..Config::default() }, 1);
            brr.on_links(Time::ZERO, &links);
            let mut counts = [0u64; 2];
            for n in 0..4_000 {
                counts[usize::from(take(&mut brr, n, n as u16, &links).unwrap())] += 1;
            }
            assert!(counts.iter().zip(shares).all(|(n, share)| n.abs_diff(share) <= 2), "{counts:?}");
        }
    }

    #[test]
    fn a_flood_of_new_flows_leaves_the_bursts_of_established_ones_on_their_links() {
        let (links, mut brr) = (four(), Brr::new(Config::default(), 5));
        let mut rng = Rng::new(9);
        let mut at = [0u8; 1000];
        let mut packet = testing::udp4(1, 2, 0, 80, &[]);
        let mut send = |brr: &mut Brr, ns: u64, from: [u8; 4], port: u16| {
            packet[12..16].copy_from_slice(&from);
            packet[20..22].copy_from_slice(&port.to_be_bytes());
            let frame = Frame { bytes: &packet, len: 60, layer: Layer::Ip };
            brr.select(Time::from_nanos(ns), &frame, &links).first().unwrap().0
        };
        // Packets of 1000 flows each 4 ms, two rounds before the flood of a million new flows a second and two seconds of it.
        let mut moved = 0;
        for n in 0..502_000u64 {
            let (ns, flow) = (n * 4_000, (n % 1000) as usize);
            let link = send(&mut brr, ns, [10, 0, 0, 1], flow as u16);
            moved += u64::from(n >= 1000 && link != at[flow]);
            at[flow] = link;
            for k in 1..if n < 2_000 { 0 } else { 5 } {
                send(&mut brr, ns + k * 900, (rng.next_u64() as u32 | 1 << 31).to_be_bytes(), rng.next_u64() as u16);
            }
        }
        assert_eq!((moved, brr.flows.capacity()), (0, 65_536));
        assert!(brr.stats().flows > 1_990_000);
    }

    /// The paper's pseudo code with lists, and a table that forgets nothing.
    #[derive(Default)]
    struct Model {
        flows: BTreeMap<u16, (u64, u8)>,
        /// Links in the order of their last packets.
        order: Vec<u8>,
    }

    impl Model {
        fn select(&mut self, now: u64, flow: u16, usable: &[u8], threshold: u64) -> Option<u8> {
            let known = self.flows.get(&flow).filter(|(at, link)| now - at < threshold && usable.contains(link));
            let link = match known {
                Some((_, link)) => *link,
                None => {
                    let never = usable.iter().find(|link| !self.order.contains(link));
                    *never.or_else(|| self.order.iter().find(|link| usable.contains(link)))?
                }
            };
            self.flows.insert(flow, (now, link));
            self.order.retain(|other| *other != link);
            self.order.push(link);
            Some(link)
        }
    }

    proptest! {
        #[test]
        fn it_is_the_papers_pseudo_code(
            packets in proptest::collection::vec((0u16..9, 0u64..15, 0u8..20), 1..300), threshold in 1u64..30,
        ) {
            let (mut links, mut model, mut now) = (four(), Model::default(), 0);
            let mut brr = Brr::new(Config { threshold: Some(Span::from_millis(threshold)), ..Config::default() }, 3);
            for (flow, gap, toggled) in packets {
                now += gap;
                if let Some(state) = links.get(ChannelId(toggled)) {
                    links.set(ChannelId(toggled), LinkState { usable: !state.usable, ..*state });
                    brr.on_links(Time::from_millis(now), &links);
                }
                let usable: Vec<u8> = links.usable().iter().map(|link| link.0).collect();
                prop_assert_eq!(take(&mut brr, now, flow, &links), model.select(now, flow, &usable, threshold));
            }
        }
    }
    #[test]
    fn flows_that_are_forgotten_for_others_are_counted() {
        let (links, mut brr) = (four(), Brr::new(Config { flows: 16, ..Config::default() }, 1));
        (0..1000).for_each(|flow| assert!(take(&mut brr, 1, flow, &links).is_some()));
        assert!(brr.stats().evicted > 900, "{:?}", brr.stats());
    }
}
