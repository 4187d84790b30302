//! How a large scenario is divided among several worlds that run beside one another, each with some of the nodes.
//!
//! What passes from one part to another passes over a link between them, and takes at least that link's delay. So each
//! part may do all events of a time as long as the shortest such delay without hearing of the others (conservative
//! synchronisation: Chandy and Misra 1979; its windows: Nicol 1993). The longer that time, the less often parts wait for one another.
//!
//! 1. What has no time on its way stays together: the ends of links without delay or with jitter, which may cut a delay to nothing; all
//!    that bonds, reliable flows, rings and media join; the ends of flows whose application knows both at once.
//! 2. Of the delays that are left, one is taken, and the ends of all links that are shorter stay together as well: long windows let
//!    threads meet rarely, and short ones leave groups that are small enough to be shared. What both cost is reckoned.
//! 3. Parts grow one after the other, each by the group that has most to do with it and least with others, until it has its share of the
//!    packets; then single groups change sides where that saves crossings.
//!
//! Nothing here is random, and nothing depends on the machine: the division belongs to the scenario.

use crate::model::{Flow, Hop, Link, MOST_PARTITIONS, Scenario, Transport};
use crate::traffic::Config;
use fairspan_core::link::Capacity;
use fairspan_core::units::Span;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a flow weighs at each place that it passes; its paths share it.
const FLOW: u64 = 64;
/// Bits of a packet, and what a link carries of which that is not said: no more than an order of magnitude depends on them.
const PACKET: f64 = 10_000.0;
const UNKNOWN: f64 = 1e8;
/// What it costs threads to meet, in events.
const MEETING: f64 = 10.0;
/// Of how many delays the best one is taken.
const CANDIDATES: usize = 64;
/// A part may have so many hundredths of its share.
const SLACK: u64 = 110;
/// What a group pulls that has to do with nobody else.
const PULL: u64 = 1 << 20;
/// How often single groups may change sides.
const ROUNDS: usize = 8;

/// Which part each node belongs to.
#[derive(Debug)]
pub struct Division {
    parts: Vec<u32>,
    count: u32,
    lookahead: Span,
}

impl Division {
    /// Divides a scenario into as many parts as it asks for, or as many as there can be.
    pub fn new(scenario: &Scenario) -> Division {
        let nodes = scenario.nodes.len();
        let asked = scenario.partitions.clamp(1, MOST_PARTITIONS) as usize;
        let known = |link: &Link| (link.from.max(link.to) as usize) < nodes;
        if asked < 2 || !scenario.links.iter().all(known) {
            return Division::whole();
        }
        let mut fixed = Groups::new(nodes);
        join_fixed(scenario, &mut fixed);
        let load = Load::of(scenario);
        let delays: Vec<Span> = scenario.links.iter().map(least_delay).collect::<BTreeSet<_>>().into_iter().collect();
        let step = delays.len().div_ceil(CANDIDATES).max(1);
        let cost = |delay: &Span| load.cost(&mut fixed.with_links_below(scenario, *delay), asked, *delay);
        let costs = delays.iter().rev().step_by(step).map(|delay| (cost(delay), *delay));
        // Of several that are as good, the longest.
        let Some((_, shortest)) = costs.min_by(|a, b| a.0.total_cmp(&b.0)) else { return Division::whole() };
        let mut groups = fixed.with_links_below(scenario, shortest);
        let parts = Growth::new(&load, &mut groups).divide(asked);
        Division::of(scenario, (0..nodes).map(|node| parts[&groups.find(node)]).collect())
    }

    fn whole() -> Division {
        Division { parts: Vec::new(), count: 1, lookahead: Span::ZERO }
    }

    /// Parts that have nodes are numbered anew, in the order of their first nodes.
    fn of(scenario: &Scenario, mut parts: Vec<u32>) -> Division {
        let mut numbers = BTreeMap::new();
        for part in &mut parts {
            let next = numbers.len() as u32;
            *part = *numbers.entry(*part).or_insert(next);
        }
        let cut = |link: &&Link| parts[link.from as usize] != parts[link.to as usize];
        let lookahead = scenario.links.iter().filter(cut).map(least_delay).min().unwrap_or(scenario.duration);
        Division { count: numbers.len() as u32, parts, lookahead }
    }

    /// How many parts there are; one where the scenario cannot be divided.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The least time from one part to another.
    pub fn lookahead(&self) -> Span {
        self.lookahead
    }

    /// The part of a node.
    #[inline]
    pub fn part(&self, node: u32) -> u32 {
        self.parts.get(node as usize).copied().unwrap_or(0)
    }
}

/// Which part of a divided scenario a world is.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) division: Arc<Division>,
    pub(crate) number: u32,
}

impl Member {
    /// Whether a node is in it.
    #[inline]
    pub(crate) fn has(&self, node: u32) -> bool {
        self.division.part(node) == self.number
    }
}

/// What a link carries in bit/s, as far as that is said.
fn rate(link: &Link) -> f64 {
    match link.profile.capacity {
        Capacity::Constant(rate) => rate.as_bits_per_sec() as f64,
        _ => UNKNOWN,
    }
}

/// The least time that a packet takes over a link, where it is sure to take any.
fn least_delay(link: &Link) -> Span {
    if link.profile.jitter > Span::ZERO { Span::ZERO } else { link.profile.delay }
}

/// Whether the two ends of a flow can be apart: each of them goes by its own packets alone.
fn can_be_apart(flow: &Flow) -> bool {
    match (&flow.transport, &flow.traffic) {
        (Transport::Tcp(_), Config::Ftp { .. }) => true,
        (Transport::Tcp(_), _) => false,
        (Transport::Datagram { .. }, traffic) => matches!(
            traffic,
            Config::Constant { .. }
                | Config::Poisson { .. }
                | Config::ParetoOnOff { .. }
                | Config::Replay { .. }
                | Config::Own(_)
        ),
    }
}

/// Joins what has to be in one part whatever the delays.
fn join_fixed(scenario: &Scenario, groups: &mut Groups) {
    let ends = |link: &u32| scenario.links.get(*link as usize).map(|link| [link.from, link.to]);
    for bond in &scenario.bonds {
        let links = bond.channels.iter().flatten().flatten().filter_map(ends).flatten();
        groups.join(bond.ends.into_iter().chain(links));
    }
    for flow in &scenario.reliable {
        let links = flow.paths.iter().flatten().flatten().filter_map(ends).flatten();
        groups.join(flow.ends.into_iter().chain(links));
    }
    for ring in &scenario.rings {
        groups.join(ring.nodes.iter().copied());
    }
    let mut first = BTreeMap::new();
    for link in &scenario.links {
        if let Some(medium) = link.medium {
            groups.join([*first.entry(medium).or_insert(link.from), link.from]);
        }
    }
    for flow in scenario.flows.iter().filter(|flow| !can_be_apart(flow)) {
        groups.join([flow.from, flow.to]);
    }
    for link in scenario.links.iter().filter(|link| least_delay(link) == Span::ZERO) {
        groups.join([link.from, link.to]);
    }
}

/// Nodes that stay together: a forest, each tree's root being its least number.
#[derive(Clone)]
struct Groups(Vec<usize>);

impl Groups {
    fn new(nodes: usize) -> Groups {
        Groups((0..nodes).collect())
    }

    fn find(&mut self, node: usize) -> usize {
        let mut at = node;
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, nodes: impl IntoIterator<Item = u32>) {
        let mut nodes =
            nodes.into_iter().filter(|node| (*node as usize) < self.0.len()).collect::<Vec<_>>().into_iter();
        let Some(first) = nodes.next() else { return };
        for other in nodes {
            let [a, b] = [first, other].map(|node| self.find(node as usize));
            self.0[a.max(b)] = a.min(b);
        }
    }

    /// The same with the ends of all links joined that are shorter than this.
    fn with_links_below(&self, scenario: &Scenario, delay: Span) -> Groups {
        let mut groups = self.clone();
        for link in scenario.links.iter().filter(|link| least_delay(link) < delay) {
            groups.join([link.from, link.to]);
        }
        groups
    }
}

/// How many packets nodes handle, and links carry, in proportion.
struct Load {
    nodes: Vec<u64>,
    /// From a node to another.
    links: BTreeMap<(u32, u32), u64>,
    /// Events a second, if links that packets pass are full.
    events: f64,
}

impl Load {
    fn of(scenario: &Scenario) -> Load {
        let mut load = Load { nodes: vec![0; scenario.nodes.len()], links: BTreeMap::new(), events: 0.0 };
        for flow in &scenario.flows {
            let others = flow.others.iter().flat_map(|[there, back]| [there, back]);
            let weight = FLOW / (1 + flow.others.len() as u64);
            for hop in [&flow.path, &flow.back].into_iter().chain(others).flatten() {
                load.pass(scenario, *hop, weight);
            }
            load.handle(&[flow.from, flow.to], FLOW);
        }
        for flow in &scenario.reliable {
            let weight = FLOW / flow.paths.len().max(1) as u64;
            for link in flow.paths.iter().flatten().flatten() {
                load.pass(scenario, Hop::Link(*link), weight);
            }
            load.handle(&flow.ends, FLOW);
        }
        let used = scenario.links.iter().filter(|link| load.links.contains_key(&(link.from, link.to)));
        load.events = used.map(|link| rate(link) / PACKET).sum();
        // Where nothing goes, nodes are all there is to share.
        if load.total() == 0 {
            load.nodes.fill(1);
        }
        load
    }

    /// Packets pass a hop.
    fn pass(&mut self, scenario: &Scenario, hop: Hop, weight: u64) {
        match hop {
            Hop::Link(link) => {
                let Some(link) = scenario.links.get(link as usize) else { return };
                self.handle(&[link.from], weight);
                *self.links.entry((link.from, link.to)).or_default() += weight;
            }
            Hop::Bond(bond, side) => {
                let Some(bond) = scenario.bonds.get(bond as usize) else { return };
                self.handle(&bond.ends, weight);
                let each = weight / bond.channels.len().max(1) as u64;
                for link in bond.channels.iter().filter_map(|paths| paths.get(usize::from(side))).flatten() {
                    self.pass(scenario, Hop::Link(*link), each);
                }
            }
            Hop::Ring(ring, way) => {
                let Some(ring) = scenario.rings.get(ring as usize) else { return };
                let ends = [way.from, way.to].map(|place| ring.nodes.get(usize::from(place)).copied());
                ends.into_iter().flatten().for_each(|node| self.handle(&[node], weight));
            }
        }
    }

    /// Packets are handled at these nodes.
    fn handle(&mut self, nodes: &[u32], weight: u64) {
        for node in nodes {
            if let Some(node) = self.nodes.get_mut(*node as usize) {
                *node += weight;
            }
        }
    }

    fn total(&self) -> u64 {
        self.nodes.iter().sum()
    }

    /// How long it takes, in shares of the whole, if windows are that long: the part that has most works, and all meet after each window.
    fn cost(&self, groups: &mut Groups, parts: usize, window: Span) -> f64 {
        let total = self.total().max(1) as f64;
        let most = (self.heaviest(groups) as f64 / total).max(1.0 / parts as f64);
        most * (1.0 + MEETING / (self.events * window.as_secs_f64()).max(1e-9))
    }

    /// What the heaviest group has.
    fn heaviest(&self, groups: &mut Groups) -> u64 {
        let mut loads = vec![0; self.nodes.len()];
        for (node, load) in self.nodes.iter().enumerate() {
            loads[groups.find(node)] += load;
        }
        loads.into_iter().max().unwrap_or(0)
    }
}

/// The groups, while parts grow.
struct Growth {
    loads: BTreeMap<usize, u64>,
    /// What goes between a group and each of its neighbours.
    near: BTreeMap<usize, BTreeMap<usize, u64>>,
    part: BTreeMap<usize, u32>,
}

impl Growth {
    fn new(load: &Load, groups: &mut Groups) -> Growth {
        let mut growth = Growth { loads: BTreeMap::new(), near: BTreeMap::new(), part: BTreeMap::new() };
        for (node, load) in load.nodes.iter().enumerate() {
            let group = groups.find(node);
            *growth.loads.entry(group).or_default() += load;
            growth.near.entry(group).or_default();
        }
        for (&(from, to), &load) in &load.links {
            let [from, to] = [from, to].map(|node| groups.find(node as usize));
            if from != to {
                for (a, b) in [(from, to), (to, from)] {
                    *growth.near.entry(a).or_default().entry(b).or_default() += load;
                }
            }
        }
        growth
    }

    fn divide(mut self, parts: usize) -> BTreeMap<usize, u32> {
        let total: u64 = self.loads.values().sum();
        let mut left = total;
        for part in 0..parts as u32 {
            let share = left / (parts as u64 - u64::from(part));
            left -= self.grow(part, share);
        }
        for _ in 0..ROUNDS {
            if !self.settle(total * SLACK / 100 / parts as u64, parts) {
                break;
            }
        }
        self.part
    }

    /// A part takes groups until it has its share, and the last one all that are left: what it has then.
    fn grow(&mut self, part: u32, share: u64) -> u64 {
        let mut has = 0;
        // How much of what a free group has to do with others goes between it and the part, the most first, then the least number.
        let mut pull: BTreeMap<usize, u64> = BTreeMap::new();
        let mut order: BTreeSet<(Reverse<u64>, usize)> = BTreeSet::new();
        let mut all: BTreeMap<usize, u64> = BTreeMap::new();
        let mut free =
            self.loads.keys().copied().filter(|group| !self.part.contains_key(group)).collect::<BTreeSet<_>>();
        while let Some(group) = order.first().map(|(_, group)| *group).or_else(|| free.first().copied()) {
            let load = self.loads[&group];
            // Half of a group too much is better than half of it too little.
            if has + load / 2 > share && has > 0 {
                break;
            }
            if let Some(pulled) = pull.remove(&group) {
                order.remove(&(Reverse(pulled), group));
            }
            free.remove(&group);
            self.part.insert(group, part);
            has += load;
            for (&other, &weight) in &self.near[&group] {
                if free.contains(&other) {
                    let all = *all.entry(other).or_insert_with(|| self.near[&other].values().sum());
                    let now = pull.entry(other).or_default();
                    order.remove(&(Reverse(*now), other));
                    *now += weight * PULL / all.max(1);
                    order.insert((Reverse(*now), other));
                }
            }
        }
        has
    }

    /// Each group goes to the part that most of its packets go to or come from, if there is room: whether any did.
    fn settle(&mut self, most: u64, parts: usize) -> bool {
        let mut has = vec![0; parts];
        for (group, load) in &self.loads {
            has[self.part[group] as usize] += load;
        }
        let mut moved = false;
        for (group, near) in &self.near {
            let mut pull = vec![0; parts];
            near.iter().for_each(|(other, weight)| pull[self.part[other] as usize] += weight);
            let (load, now) = (self.loads[group], self.part[group] as usize);
            let best =
                (0..parts).filter(|part| has[*part] + load <= most).max_by_key(|part| (pull[*part], usize::MAX - part));
            if let Some(best) = best.filter(|best| pull[*best] > pull[now]) {
                self.part.insert(*group, best as u32);
                (has[now], has[best], moved) = (has[now] - load, has[best] + load, true);
            }
        }
        moved
    }
}
