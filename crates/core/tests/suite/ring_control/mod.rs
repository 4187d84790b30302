//! Discovery at every node of a ring over links with delays, faults and an enemy, each node with a clock of its own.
#![allow(dead_code)] // each test file uses its part

use crate::network::{Network, Weather};
use fairspan_core::ring::discovery::{Config, Discovery, Event, Refused};
use fairspan_core::ring::{NodeId, Ringlet, Side};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span, Time};

/// What happens to a frame on its way, in a hundred.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) late: u64,
    pub(crate) corrupted: u64,
}

/// A ring. Nodes count from 0 here, link n joins n and n + 1.
pub(crate) struct Net {
    pub(crate) now: Time,
    /// `None`: killed.
    pub(crate) nodes: Vec<Option<Discovery>>,
    pub(crate) delay: Span,
    /// By the sending node's index and side: nothing passes.
    pub(crate) broken: Vec<[bool; 2]>,
    pub(crate) faults: Faults,
    /// By node: what its clock shows at time 0, and how much faster it runs, in millionths.
    pub(crate) clocks: Vec<(u64, u64)>,
    pub(crate) rng: Rng,
    pub(crate) events: Vec<(Time, usize, Event)>,
    pub(crate) refused: Vec<(usize, Refused)>,
    pub(crate) frames: u64,
    /// The latest frames, for an enemy to choose from.
    pub(crate) seen: Vec<Vec<u8>>,
    /// Until when a node's process does not run; what comes meanwhile waits for it.
    pub(crate) asleep: Vec<Time>,
    /// When each node has something to do.
    due: Vec<Time>,
    under_way: Network<(usize, Side, Vec<u8>)>,
}

pub(crate) fn node(index: usize) -> NodeId {
    NodeId::at(index)
}

pub(crate) fn config(index: usize, nodes: usize) -> Config {
    let mut config = Config::new(node(index), nodes, Rate::from_mbit(100));
    config.announcement = format!("station {index}").into_bytes();
    config
}

impl Net {
    pub(crate) fn new(nodes: usize, delay: Span, seed: u64) -> Net {
        Net::of((0..nodes).map(|index| config(index, nodes)).collect(), delay, seed)
    }

    /// Links come up at time 0.
    pub(crate) fn of(configs: Vec<Config>, delay: Span, seed: u64) -> Net {
        let clocks = vec![(0, 0); configs.len()];
        Net::with_clocks(configs, clocks, delay, seed)
    }

    pub(crate) fn with_clocks(configs: Vec<Config>, clocks: Vec<(u64, u64)>, delay: Span, seed: u64) -> Net {
        let mut net = Net {
            now: Time::ZERO,
            due: vec![Time::MAX; configs.len()],
            asleep: vec![Time::ZERO; configs.len()],
            broken: vec![[false; 2]; configs.len()],
            nodes: configs.iter().map(|_| None).collect(),
            delay,
            faults: Faults::default(),
            clocks,
            rng: Rng::new(seed),
            events: vec![],
            refused: vec![],
            frames: 0,
            seen: vec![],
            under_way: Network::new(),
        };
        for (index, config) in configs.into_iter().enumerate() {
            net.start(index, config);
        }
        net
    }

    /// What the node's clock shows now.
    fn clock(&self, index: usize) -> Time {
        let (begin, fast) = self.clocks[index];
        let now = self.now.as_nanos();
        Time::from_nanos(begin + now + (u128::from(now) * u128::from(fast) / 1_000_000) as u64)
    }

    /// The instant at which the node's clock shows `due`, or soon after.
    fn instant(&self, index: usize, due: Time) -> Time {
        let (begin, fast) = self.clocks[index];
        let shown = u128::from(due.as_nanos().saturating_sub(begin));
        let real = (shown * 1_000_000).div_ceil(1_000_000 + u128::from(fast)) as u64;
        // Both roundings are below a nanosecond each.
        Time::from_nanos(real + 2 * u64::from(fast > 0))
    }

    /// A process starts at this place, with its links up.
    pub(crate) fn start(&mut self, index: usize, config: Config) {
        let seed = self.rng.next_u64();
        let mut discovery = Discovery::new(config, self.clock(index), seed).unwrap();
        for side in Side::BOTH {
            discovery.set_link(self.clock(index), side, true);
        }
        self.nodes[index] = Some(discovery);
        self.drain(index);
    }

    pub(crate) fn at(&self, index: usize) -> &Discovery {
        self.nodes[index].as_ref().unwrap()
    }

    pub(crate) fn with<T>(&mut self, index: usize, act: impl FnOnce(&mut Discovery, Time) -> T) -> T {
        let now = self.clock(index);
        let result = act(self.nodes[index].as_mut().unwrap(), now);
        self.drain(index);
        result
    }

    /// Cuts link `link`, or mends it: nothing passes, and nobody is told.
    pub(crate) fn set_broken(&mut self, link: usize, broken: bool) {
        let next = (link + 1) % self.nodes.len();
        self.broken[link][Side::East.index()] = broken;
        self.broken[next][Side::West.index()] = broken;
    }

    fn drain(&mut self, index: usize) {
        let (mut out, now) = (vec![], self.clock(index));
        while let Some(side) = self.nodes[index].as_mut().and_then(|node| node.poll_control(now, &mut out)) {
            self.send(index, side, out.clone());
        }
        while let Some(event) = self.nodes[index].as_mut().and_then(Discovery::poll_event) {
            self.events.push((self.now, index, event));
        }
        let due = self.nodes[index].as_ref().and_then(Discovery::poll_timeout);
        self.due[index] = due.map_or(Time::MAX, |due| self.instant(index, due));
    }

    /// The node at `index` sends this by `side`.
    pub(crate) fn send(&mut self, index: usize, side: Side, frame: Vec<u8>) {
        self.frames += 1;
        if self.broken[index][side.index()] {
            return;
        }
        if self.seen.len() == 256 {
            self.seen.remove(0);
        }
        self.seen.push(frame.clone());
        let Faults { lost, doubled, late, corrupted } = self.faults;
        let [loss, twice, late, corrupted] = [lost, doubled, late, corrupted].map(|of| of as f64 / 100.0);
        let (loss, twice, jitter) = (Some(loss), Some(twice), Span::from_millis(8));
        let weather = Weather { jitter, late, reorders: true, loss, twice, ..Weather::fine(self.delay) };
        let damage = |(_, _, frame): &mut (usize, Side, Vec<u8>), rng: &mut Rng| {
            if rng.unit() < corrupted {
                let bit = rng.below(frame.len() as u64 * 8) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        };
        let count = self.nodes.len();
        let to = if side == Side::East { (index + 1) % count } else { (index + count - 1) % count };
        let lane = 2 * index + side.index();
        self.under_way.send(self.now, lane, &weather, &mut self.rng, (to, side.other(), frame), damage);
    }

    /// This arrives at the node at `index` from `side`, `delay` from now.
    pub(crate) fn deliver(&mut self, index: usize, side: Side, delay: Span, frame: Vec<u8>) {
        self.under_way.put(self.now + delay, (index, side, frame));
    }

    pub(crate) fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    pub(crate) fn run_until(&mut self, until: Time) {
        loop {
            let frame = self.under_way.next().unwrap_or(Time::MAX);
            let (mut timer, mut index) = (Time::MAX, 0);
            for (at, due) in self.due.iter().enumerate() {
                let due = (*due).max(self.asleep[at]);
                if due < timer && self.nodes[at].is_some() {
                    (timer, index) = (due, at);
                }
            }
            timer = timer.max(self.now);
            if frame.min(timer) > until {
                break;
            }
            self.now = frame.min(timer);
            if frame <= timer {
                let (index, side, bytes) = self.under_way.take().unwrap();
                if self.now < self.asleep[index] {
                    self.under_way.put(self.asleep[index], (index, side, bytes));
                    continue;
                }
                let now = self.clock(index);
                let Some(node) = &mut self.nodes[index] else { continue };
                if let Err(reason) = node.handle_frame(now, side, &bytes) {
                    self.refused.push((index, reason));
                }
                self.drain(index);
            } else {
                self.with(index, |node, now| node.handle_timeout(now));
                let now = self.clock(index);
                assert!(self.at(index).poll_timeout().is_none_or(|due| due > now), "what is due was done");
            }
        }
        self.now = until;
    }

    /// Whether all living nodes know the links to be what they are, both ways; of what they cannot reach, nothing is asked.
    pub(crate) fn agrees(&self) -> bool {
        let count = self.nodes.len();
        let alive = |index: usize| self.nodes[index % count].is_some();
        let whole = |link: usize| {
            let (east, west) = (self.broken[link % count][0], self.broken[(link + 1) % count][1]);
            alive(link) && alive(link + 1) && !east && !west
        };
        let whole: Vec<bool> = (0..count).map(whole).collect();
        (0..count).filter(|&index| alive(index)).all(|index| {
            let topology = self.at(index).topology();
            let right = |link: usize| {
                let next = node((link + 1) % count);
                topology.way(node(link), Ringlet::Zero).up == whole[link]
                    && topology.way(next, Ringlet::One).up == whole[link]
            };
            // As far as the first gap on either side, the gap itself too.
            let mut eastward = (0..count).map(|n| (index + n) % count);
            let mut westward = (1..=count).map(|n| (index + count - n) % count);
            let east = eastward.find(|&link| !right(link) || !whole[link]);
            let west = westward.find(|&link| !right(link) || !whole[link]);
            east.is_none_or(right) && west.is_none_or(right)
        })
    }

    /// Runs until all agree: how long that took.
    ///
    /// # Panics
    /// If it takes longer than `most`.
    pub(crate) fn settle(&mut self, most: Span) -> Span {
        let begin = self.now;
        let step = Span::from_micros(50);
        while !self.agrees() {
            assert!(self.now.since(begin) <= most, "not settled after {most:?}");
            self.run_for(step);
        }
        self.now.since(begin)
    }
}
