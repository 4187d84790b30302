//! `potent`: the few heavy flows moved on purpose, the rest by burst.
//!
//! What it is: most of the bytes of most traffic belong to few flows, and those are the ones without gaps, so that bursts
//! alone leave the links uneven. Flows are metered in their entries; those that carry at least 1/[`SHARE`] of all, at most
//! [`Config::heavy`] of them, are heavy. A heavy flow stays on its link whatever its gaps; every [`INTERVAL`] the one whose
//! move evens the most loaded and the least loaded link best is marked to move, if they differ by more than [`UNEVEN`]
//! of the mean and the move does not merely turn the difference around (three quarters of it at most). It moves with its first packet that keeps its order
//! (the burst threshold, or the condition of [`super::adaptive`]); at the latest with the first one after another
//! interval: then what it has on the old link may be overtaken, once. All other flows go by burst as in `brr`.
//!
//! Source: burst-round-robin paper, 4.2, after Shi, MacGregor and Gburzynski, "Load balancing for parallel forwarding" (2005): to
//! schedule both potent flows and bursts within flows. Neither says how often and at which imbalance; the constants are ours.
//!
//! Departures: loads are by the links' weights. A move carries the flow's past load from one link's meter to the other's,
//! or the meters, which look back a second, would ask for the same move again.
//!
//! Cost: O(1) for each packet within a burst and of heavy flows, O(links + heavy) each interval and when a flow becomes heavy. Nothing
//! is allocated after construction. Invariants: at most one move of a heavy flow an interval, except from a link that
//! went down; at most `heavy` heavy flows.

use super::adaptive::{self, Adaptive};
use super::brr::{EXPIRY, FLOWS, THRESHOLD};
use super::fading::Fading;
use super::idle::{LongestIdle, Weights};
use super::{BurstStats, PolicyConfig};
use super::{Frame, Links, Select};
use crate::flow::Flows;
use crate::flow::table::Entry;
use crate::options::{Kind, Table, option};
use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Span, Time};
use alloc::boxed::Box;

/// How often one heavy flow may move.
pub const INTERVAL: Span = Span::from_millis(100);
/// A heavy flow carries at least this part of all bytes: one of so many.
pub const SHARE: u64 = 64;
/// Links that differ by less than the mean load divided by this are even.
pub const UNEVEN: u64 = 10;
const SLOTS: usize = 64;

/// The settings of `potent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The burst threshold of the flows that are not heavy; `None`: adaptive. Default 12 ms.
    pub threshold: Option<Span>,
    /// Most flows that are remembered. Default 65,536.
    pub flows: u32,
    /// A flow without packets for this long is forgotten. Default 60 s.
    pub expiry: Span,
    /// How many flows at most count as heavy. Default 16.
    pub heavy: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: Some(Span::from_millis(12)), flows: 65_536, expiry: Span::from_secs(60), heavy: 16 }
    }
}

impl PolicyConfig for Config {
    const NAME: &'static str = "potent";
    const MAIN: Option<&'static str> = Some("threshold");
    const HELP: &'static str = "the few heavy flows moved on purpose, the rest by burst";
    const OPTIONS: Table<Config> = Table(&[
        option!(THRESHOLD => threshold),
        option!(FLOWS => flows),
        option!(EXPIRY => expiry),
        option!(heavy: Kind::Count(1, 64, None), "how many flows at most count as heavy and are moved on purpose"),
    ]);
    type Selector = Box<Potent>;

    fn selector(&self, seed: u64) -> Box<Potent> {
        Box::new(Potent::new(*self, seed))
    }
}

/// What is metered of each flow.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    bytes: Fading,
    /// The number under which it lies in its slot; 0: it never was heavy.
    number: u32,
    slot: u8,
}

/// A heavy flow, seen from the links. Number 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: u32,
    bytes: Fading,
    link: ChannelId,
    /// Where it is to move, and since when.
    target: Option<(ChannelId, Time)>,
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Potent {
    config: Config,
    flows: Flows<Meter>,
    idle: LongestIdle,
    adaptive: Adaptive,
    weights: Weights,
    heavy: Heavy,
    stats: BurstStats,
}

/// The heavy flows and the links' loads.
#[derive(Clone, Debug)]
struct Heavy {
    slots: [Slot; SLOTS],
    most: usize,
    numbers: u32,
    loads: [Fading; ChannelId::LIMIT],
    total: Fading,
    next: Time,
    moves: u64,
}

impl Potent {
    /// With these settings; `seed` keys the flow table's hash.
    pub fn new(config: Config, seed: u64) -> Potent {
        Potent {
            config,
            flows: Flows::new(config.flows, config.expiry, seed),
            idle: LongestIdle::new(),
            adaptive: Adaptive::new(),
            weights: Weights::EQUAL,
            heavy: Heavy {
                slots: [Slot::default(); SLOTS],
                most: (config.heavy as usize).clamp(1, SLOTS),
                numbers: 0,
                loads: [Fading::default(); ChannelId::LIMIT],
                total: Fading::default(),
                next: Time::ZERO,
                moves: 0,
            },
            stats: BurstStats::default(),
        }
    }

    /// How many flows are heavy.
    pub fn heavy(&self) -> usize {
        self.heavy.slots.iter().filter(|slot| slot.number != 0).count()
    }

    /// How often a heavy flow was moved on purpose.
    pub fn moves(&self) -> u64 {
        self.heavy.moves
    }
}

impl Select for Potent {
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        let (usable, len) = (links.usable(), Bytes::from(frame.len));
        if usable.is_empty() {
            return LinkSet::EMPTY;
        }
        if now >= self.heavy.next {
            self.heavy.even_out(now, usable, &self.weights);
        }
        let threshold = self.config.threshold;
        let mut entry = self.flows.entry(now, frame);
        let before = entry.link().filter(|link| usable.contains(*link));
        let rests = |link: ChannelId, to: ChannelId| match threshold {
            Some(threshold) => now.since(entry.at()) >= threshold,
            None => link == to || adaptive::may_move(now, len, links, to, entry.at()),
        };
        let heavy = self.heavy.slot_of(*entry.value);
        let (link, burst) = match (before, heavy) {
            (Some(link), Some(slot)) => match self.heavy.slots[slot].target {
                Some((to, since)) if usable.contains(to) && (rests(link, to) || now.since(since) >= INTERVAL) => {
                    (to, true)
                }
                _ => (link, false),
            },
            (Some(link), None) if threshold.is_some() && !rests(link, link) => (link, false),
            (before, _) if threshold.is_none() => {
                let last = before.map(|link| (link, entry.at()));
                let Some(chosen) = self.adaptive.choose(now, frame.len, links, last, false) else {
                    return LinkSet::EMPTY;
                };
                (chosen.link, chosen.burst)
            }
            _ => {
                let Some(link) = self.idle.pick(usable, &self.weights) else { return LinkSet::EMPTY };
                (link, true)
            }
        };
        self.stats.bursts += u64::from(burst);
        self.stats.moves += u64::from(entry.link().is_some_and(|before| before != link));
        self.heavy.count(now, &mut entry, link, len);
        let at = match (threshold, links.get(link)) {
            (None, Some(state)) => adaptive::latest(now, len, state),
            _ => now,
        };
        let at = if before == Some(link) { at.max(entry.at()) } else { at };
        entry.set(at, link);
        self.idle.queued(link);
        LinkSet::only(link)
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.weights = Weights::of(links);
        self.idle.on_links();
        self.adaptive.on_links(links, &self.weights);
    }

    fn stats(&self) -> BurstStats {
        let table = self.flows.stats();
        BurstStats { flows: table.new, evicted: table.evicted, ..self.stats }
    }
}

impl Heavy {
    fn slot_of(&self, meter: Meter) -> Option<usize> {
        let slot = self.slots.get(usize::from(meter.slot))?;
        (meter.number != 0 && slot.number == meter.number).then_some(usize::from(meter.slot))
    }

    /// A packet of the flow takes `link`.
    fn count(&mut self, now: Time, entry: &mut Entry<'_, Meter>, link: ChannelId, len: Bytes) {
        entry.value.bytes.add(now, len.as_u64());
        self.total.add(now, len.as_u64());
        let bytes = entry.value.bytes;
        let slot = match self.slot_of(*entry.value) {
            Some(slot) => slot,
            None => match self.room(now, bytes.at(now)) {
                Some(slot) => {
                    self.numbers = self.numbers.checked_add(1).unwrap_or(1);
                    (entry.value.number, entry.value.slot) = (self.numbers, slot as u8);
                    self.slots[slot] = Slot { number: self.numbers, bytes, link, target: None };
                    slot
                }
                None => {
                    self.loads[link.index() % ChannelId::LIMIT].add(now, len.as_u64());
                    return;
                }
            },
        };
        let flow = &mut self.slots[slot];
        if flow.link != link {
            let past = flow.bytes.at(now);
            self.loads[flow.link.index() % ChannelId::LIMIT].take(now, past);
            self.loads[link.index() % ChannelId::LIMIT].add(now, past);
            self.moves += 1;
            (flow.link, flow.target) = (link, None);
        }
        flow.bytes = bytes;
        self.loads[link.index() % ChannelId::LIMIT].add(now, len.as_u64());
    }

    /// A slot for a flow that carried so much: a free one, or that of a flow which carried less.
    fn room(&self, now: Time, bytes: u64) -> Option<usize> {
        if bytes < self.total.at(now) / SHARE {
            return None;
        }
        let least = (0..self.most).min_by_key(|slot| match self.slots[*slot] {
            Slot { number: 0, .. } => (false, 0),
            slot => (true, slot.bytes.at(now)),
        })?;
        let slot = self.slots[least];
        (slot.number == 0 || slot.bytes.at(now) < bytes).then_some(least)
    }

    /// Releases the flows that are heavy no longer, and marks one to move, if the links are uneven and that helps.
    fn even_out(&mut self, now: Time, usable: LinkSet, weights: &Weights) {
        self.next = now + INTERVAL;
        let least = self.total.at(now) / SHARE;
        for slot in &mut self.slots {
            if slot.number != 0 && slot.bytes.at(now) < least.max(1) {
                *slot = Slot::default();
            }
        }
        let waits = |slot: &Slot| slot.target.is_some_and(|(_, since)| now.since(since) <= INTERVAL.times(2));
        if self.slots.iter().any(waits) {
            return;
        }
        // Scaled, so that bytes by a weight in bits a second keep their digits.
        let by_weight = |bytes: u64, link: ChannelId| (u128::from(bytes) << 40) / u128::from(weights.get(link));
        let load = |link: ChannelId| by_weight(self.loads[link.index() % ChannelId::LIMIT].at(now), link);
        let (Some(high), Some(low)) =
            (usable.iter().max_by_key(|link| load(*link)), usable.iter().min_by_key(|link| load(*link)))
        else {
            return;
        };
        let gap = load(high) - load(low);
        let mean = usable.iter().map(load).sum::<u128>() / usable.len() as u128;
        if gap <= mean / u128::from(UNEVEN) {
            return;
        }
        let moved = |slot: &Slot| {
            let bytes = slot.bytes.at(now);
            by_weight(bytes, high) + by_weight(bytes, low)
        };
        let on_it = self.slots.iter_mut().filter(|slot| slot.number != 0 && slot.link == high);
        if let Some(slot) = on_it.min_by_key(|slot| gap.abs_diff(moved(slot)))
            && moved(slot) <= gap / 4 * 7
        {
            slot.target = Some((low, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use crate::rng::Rng;
    use crate::select::{Layer, LinkState};
    use alloc::vec::Vec;

    struct Run {
        potent: Potent,
        links: Links,
        bytes: Vec<u64>,
    }

    impl Run {
        fn new(links: &[LinkState], config: Config) -> Run {
            let links = Links::new(links.iter().copied());
            let mut potent = Potent::new(config, 1);
            potent.on_links(Time::ZERO, &links);
            Run { potent, bytes: alloc::vec![0; links.len()], links }
        }

        fn send(&mut self, us: u64, flow: u16, len: usize) -> ChannelId {
            let packet = testing::udp4(1, 2, flow, 80, &[]);
            let frame = Frame { bytes: &packet, len, layer: Layer::Ip };
            let link = self.potent.select(Time::from_nanos(us * 1000), &frame, &self.links).first().unwrap();
            self.bytes[link.index()] += len as u64;
            link
        }

        /// `flows` flows without gaps, one packet a millisecond each, for so many seconds; largest less smallest share by weight.
        fn heavy(&mut self, flows: u16, seconds: core::ops::Range<u64>) -> f64 {
            self.bytes.iter_mut().for_each(|bytes| *bytes = 0);
            for ms in seconds.start * 1000..seconds.end * 1000 {
                for flow in 1..=flows {
                    self.send(ms * 1000, flow, 1000);
                }
            }
            let weight = |n: usize| f64::from(self.links.get(ChannelId(n as u8)).unwrap().weight);
            let shares: Vec<f64> = self.bytes.iter().enumerate().map(|(n, bytes)| *bytes as f64 / weight(n)).collect();
            let (most, least) =
                shares.iter().fold((0.0f64, f64::MAX), |(most, least), s| (most.max(*s), least.min(*s)));
            (most - least) / shares.iter().sum::<f64>()
        }
    }

    #[test]
    fn heavy_flows_without_gaps_are_moved_until_links_are_even_and_then_left_alone() {
        for (weights, flows, moves) in [([1, 1, 1], 6, 2), ([1, 1, 5], 14, 10)] {
            let state = |weight| LinkState { weight, ..LinkState::default() };
            let mut run = Run::new(&weights.map(state), Config::default());
            let last = ChannelId(2);
            run.links.set(last, LinkState { usable: false, ..state(weights[2]) });
            let links = run.links.clone();
            run.potent.on_links(Time::ZERO, &links);
            run.heavy(flows, 0..2);
            assert_eq!(run.bytes[2], 0);
            run.links.set(last, state(weights[2]));
            let links = run.links.clone();
            run.potent.on_links(Time::from_millis(2000), &links);
            run.heavy(flows, 2..6);
            assert_eq!((run.potent.moves(), run.potent.heavy()), (moves, usize::from(flows)));
            let (flows_, bursts) = (u64::from(flows), u64::from(flows) + moves);
            assert_eq!(run.potent.stats(), BurstStats { flows: flows_, bursts, moves, evicted: 0 });
            let after = run.heavy(flows, 6..12);
            assert_eq!((run.potent.moves(), after), (moves, 0.0), "{:?}", run.bytes);
        }
    }

    #[test]
    fn one_heavy_flow_stays_where_it_is_and_small_ones_go_around_it() {
        let mut run = Run::new(&[LinkState::default(); 2], Config::default());
        let (mut rng, mut small) = (Rng::new(2), [0u64; 2]);
        let heavy: Vec<ChannelId> = (0..5_000u64)
            .map(|ms| {
                if ms % 20 == 0 {
                    small[run.send(ms * 1000, 100 + rng.below(500) as u16, 500).index()] += 1;
                }
                run.send(ms * 1000, 1, 1500)
            })
            .collect();
        assert!(heavy.iter().all(|link| *link == heavy[0]), "nothing is gained by moving it");
        assert_eq!(run.potent.heavy(), 1);
        assert!(small[1 - heavy[0].index()] > 4 * small[heavy[0].index()], "{small:?}");
    }

    #[test]
    fn a_heavy_flow_moves_within_a_gap_if_one_comes_soon_and_slots_are_bounded() {
        let mut run = Run::new(&[LinkState::default(); 2], Config { heavy: 3, ..Config::default() });
        // Two pairs of flows, each pair on its link; the second pair stops.
        let mut last = None;
        for ms in 0..6_000u64 {
            let flows: &[u16] = if ms < 2_000 { &[1, 2, 3, 4] } else { &[1, 3] };
            for flow in flows {
                // Flow 1 pauses for 20 ms each 80.
                if *flow == 1 && ms % 80 < 20 {
                    continue;
                }
                let link = run.send(ms * 1000 + u64::from(*flow), *flow, 1000);
                if *flow == 1 {
                    if last.is_some_and(|(before, at)| before != link && ms - at < 12) {
                        panic!("moved at {ms} ms, though a gap was coming");
                    }
                    last = Some((link, ms));
                }
            }
            assert!(run.potent.heavy() <= 3);
        }
    }

    #[test]
    fn a_link_that_goes_down_releases_its_heavy_flows_at_once() {
        let mut run = Run::new(&[LinkState::default(); 3], Config::default());
        run.heavy(6, 0..1);
        let link = run.send(1_000_000, 6, 1000);
        run.links.set(link, LinkState { usable: false, ..LinkState::default() });
        let links = run.links.clone();
        run.potent.on_links(Time::from_millis(1000), &links);
        run.bytes[link.index()] = 0;
        for flow in 1..=6 {
            run.send(1_001_000, flow, 1000);
        }
        assert_eq!(run.bytes[link.index()], 0);
        run.links = Links::default();
        let packet = testing::udp4(1, 2, 1, 80, &[]);
        let frame = Frame { bytes: &packet, len: 60, layer: Layer::Ip };
        assert!(run.potent.select(Time::from_millis(1002), &frame, &run.links).is_empty());
    }
    #[test]
    fn flows_that_are_not_heavy_go_by_burst_and_those_that_are_forgotten_for_others_are_counted() {
        let mut run = Run::new(&[LinkState::default(); 4], Config { heavy: 1, flows: 16, ..Config::default() });
        run.send(0, 1, 1_000_000);
        // Within 12 ms they stay, whichever link was idle longest; then they take that one.
        let at = |run: &mut Run, ms: u64| [2, 3, 4].map(|flow| run.send(ms * 1000 + u64::from(flow), flow, 100).0);
        assert_eq!([1, 11, 22].map(|ms| at(&mut run, ms)), [[1, 2, 3]; 3]);
        let load = |n: usize| run.potent.heavy.loads[n].at(Time::from_millis(22));
        assert!(load(0) > 900_000 && [1, 2, 3].iter().all(|n| (290..=300).contains(&load(*n))));
        assert_eq!(at(&mut run, 34), [0, 1, 2]);
        assert_eq!((run.potent.stats().bursts, run.potent.stats().moves), (7, 3));
        (0..1000).for_each(|flow| assert!(run.send(40_000, flow, 100).index() < 4));
        assert!(run.potent.stats().evicted > 900, "{:?}", run.potent.stats());
    }
    fn adding(bytes: u64) -> Fading {
        let mut sum = Fading::default();
        sum.add(Time::ZERO, bytes);
        sum
    }

    fn slot(number: u32, bytes: u64) -> Slot {
        Slot { number, bytes: adding(bytes), link: ChannelId(0), target: None }
    }

    #[test]
    fn a_flow_with_a_64th_of_all_takes_a_free_place_or_that_of_one_with_less() {
        let mut heavy = Potent::new(Config { heavy: 2, ..Config::default() }, 1).heavy;
        (heavy.slots[0], heavy.total) = (slot(1, 1000), adding(64 * 400));
        assert_eq!([399, 400].map(|bytes| heavy.room(Time::ZERO, bytes)), [None, Some(1)]);
        heavy.slots[1] = slot(2, 500);
        assert_eq!([500, 501, 2000].map(|bytes| heavy.room(Time::ZERO, bytes)), [None, Some(1), Some(1)]);
        // It keeps it as long as it has as much.
        (heavy.slots[0], heavy.total) = (slot(1, 501), adding(64 * 501));
        heavy.even_out(Time::ZERO, LinkSet::only(ChannelId(0)), &Weights::EQUAL);
        assert_eq!([heavy.slots[0].number, heavy.slots[1].number], [1, 0]);
    }

    #[test]
    fn links_that_differ_by_a_tenth_of_the_mean_are_even() {
        for (loads, target) in [([105, 95], None), ([106, 95], Some(ChannelId(1)))] {
            let mut heavy = Potent::new(Config::default(), 1).heavy;
            (heavy.slots[0], heavy.total) = (slot(1, 5), adding(200));
            (heavy.loads[0], heavy.loads[1]) = (adding(loads[0]), adding(loads[1]));
            heavy.even_out(Time::ZERO, LinkSet::below(2), &Weights::EQUAL);
            assert_eq!(heavy.slots[0].target.map(|(link, _)| link), target, "{loads:?}");
        }
    }

    #[test]
    fn a_heavy_flow_that_is_to_move_waits_for_a_gap_for_an_interval_and_for_its_link() {
        for (target, moves_at) in [(1, Some(100)), (2, None)] {
            let mut run = Run::new(&[LinkState::default(); 2], Config::default());
            assert_eq!(run.send(0, 1, 1000), ChannelId(0));
            run.potent.heavy.next = Time::MAX;
            run.potent.heavy.slots[0].target = Some((ChannelId(target), Time::ZERO));
            let moved = (1..=150).find(|ms| run.send(ms * 1000, 1, 1000) == ChannelId(target));
            assert_eq!(moved, moves_at, "{target}");
        }
    }

    #[test]
    fn without_a_threshold_flows_go_where_they_arrive_first_and_move_where_they_stay_in_order() {
        // 1000 bytes take 1 ms.
        let link = |ms| LinkState {
            rate: Some(crate::units::Rate::from_mbit(8)),
            delay: Some(Span::from_millis(ms)),
            ..LinkState::default()
        };
        let config = Config { threshold: None, ..Config::default() };
        let mut run = Run::new(&[link(20), link(1)], config);
        assert_eq!(run.send(0, 7, 1000), ChannelId(1));
        // The last packet on the slow link arrives after 21 ms, the next one on the fast link 2 ms from now. That the slow one has
        // become fast since does not bring the last one sooner.
        for (now, then, slow) in [(18_999, 0, 20), (19_000, 1, 20), (18_999, 0, 2), (19_000, 1, 2)] {
            let mut run = Run::new(&[link(20), LinkState { usable: false, ..link(1) }], config);
            assert_eq!(run.send(0, 1, 1000), ChannelId(0));
            run.potent.heavy.next = Time::MAX;
            run.links = Links::new([link(slow), link(1)]);
            if slow == 2 {
                assert_eq!(run.send(1000, 1, 1000), ChannelId(0));
            }
            run.potent.heavy.slots[0].target = Some((ChannelId(1), Time::ZERO));
            assert_eq!(run.send(now, 1, 1000), ChannelId(then), "{now} {slow}");
        }
    }
}
