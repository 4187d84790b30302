//! The kinds of nodes: which there are, where each stands among the places of events, and how paths lead through them.
//!
//! A new kind of node is listed here, in `model.rs` (what a scenario says of it, and its [`Hop`]), and has a key in
//! `scenario/`. All else is its own: ports and timers are its own numbers.
//!
//! | kind | timers | in the log |
//! |---|---|---|
//! | link | 2 | its number |
//! | flow | 3 | [`ENDS`], the record has its number |
//! | bond | 2, for each end one | [`BONDS`] |
//! | reliable flow | 2, for each end one | [`RELIABLE`] |
//! | ring | for each node three, and one | [`RINGS`], with the way in the lowest bits |
//! | splitting gateway | 1 | [`SPLITS`] |
//! | processor | 1 | [`NODES`], with the number of its node |
//!
//! Places count from the first timer of the first link to the last timer of the last processor, so a place says which
//! node and which of its timers, and the place of timer 0 says which node. Each node has as many places as its kind may
//! need, rounded up to a power of two. The world's own events come behind.

use super::division::Member;
use crate::bond::joined::Joined;
use crate::engine::Engine;
use crate::engine::event::Event;
use crate::error::WorldError;
use crate::model::{self, Card, Hop, Room, Scenario};
use crate::node::flow::Flow;
use crate::node::link::{self, Link};
use crate::node::medium::Medium;
use crate::node::processor::{Port, Processor};
use crate::node::{Here, Node};
use crate::reliable::joined::Joined as Reliable;
use crate::ring::circle::{self, Circle};
use crate::split::Split;
use fairspan_core::queue::MOST_ROOM;
use std::collections::BTreeMap;

/// Most nodes of a kind, and most rings.
const MOST: usize = 1 << 23;
const MOST_RINGS: usize = 1 << 14;

/// Places in the log beyond the links.
const NODES: u32 = 1 << 30;
const ENDS: u32 = 1 << 31;
const BONDS: u32 = 3 << 30;
const RELIABLE: u32 = 7 << 29;
const RINGS: u32 = 5 << 29;
const SPLITS: u32 = 3 << 29;

const _: () = assert!(
    (MOST << Link::TIMER_BITS)
        + (MOST << Flow::TIMER_BITS)
        + (MOST << Joined::TIMER_BITS)
        + (MOST << Reliable::TIMER_BITS)
        + (MOST_RINGS << Circle::TIMER_BITS)
        + (MOST << Split::TIMER_BITS)
        + (MOST << Processor::TIMER_BITS)
        + Layout::OWN
        < Event::PLACES as usize,
    "an event has no room for the places"
);

/// A kind of nodes.
pub(super) trait Kind: Node + Sized {
    /// Its timers, in bits.
    const TIMER_BITS: u32;

    /// All of this kind.
    fn arena(nodes: &mut Nodes) -> &mut Arena<Self>;

    /// Where it is in the log.
    fn mark(&self, number: u32) -> u32;

    /// What the scenario calls it.
    fn name<'a>(&self, scenario: &'a Scenario, number: usize) -> &'a str;
}

impl Kind for Link {
    const TIMER_BITS: u32 = 1;

    fn arena(nodes: &mut Nodes) -> &mut Arena<Link> {
        &mut nodes.links
    }

    #[inline]
    fn mark(&self, number: u32) -> u32 {
        number
    }

    fn name<'a>(&self, scenario: &'a Scenario, number: usize) -> &'a str {
        &scenario.links[number].name
    }
}

impl Kind for Flow {
    const TIMER_BITS: u32 = 2;

    fn arena(nodes: &mut Nodes) -> &mut Arena<Flow> {
        &mut nodes.flows
    }

    #[inline]
    fn mark(&self, _: u32) -> u32 {
        ENDS
    }

    fn name<'a>(&self, scenario: &'a Scenario, number: usize) -> &'a str {
        &scenario.flows[number].name
    }
}

impl Kind for Joined {
    const TIMER_BITS: u32 = 1;

    fn arena(nodes: &mut Nodes) -> &mut Arena<Joined> {
        &mut nodes.bonds
    }

    fn mark(&self, number: u32) -> u32 {
        BONDS | number
    }

    fn name<'a>(&self, scenario: &'a Scenario, number: usize) -> &'a str {
        &scenario.bonds[number].name
    }
}

impl Kind for Reliable {
    const TIMER_BITS: u32 = 1;

    fn arena(nodes: &mut Nodes) -> &mut Arena<Reliable> {
        &mut nodes.reliable
    }

    fn mark(&self, number: u32) -> u32 {
        RELIABLE | number
    }

    fn name<'a>(&self, scenario: &'a Scenario, number: usize) -> &'a str {
        &scenario.reliable[number].name
    }
}

impl Kind for Circle {
    const TIMER_BITS: u32 = circle::TIMER_BITS;

    fn arena(nodes: &mut Nodes) -> &mut Arena<Circle> {
        &mut nodes.rings
    }

    #[inline]
    fn mark(&self, number: u32) -> u32 {
        RINGS | number << circle::WAY_BITS
    }

    fn name<'a>(&self, scenario: &'a Scenario, number: usize) -> &'a str {
        &scenario.rings[number].name
    }
}

impl Kind for Split {
    const TIMER_BITS: u32 = 0;

    fn arena(nodes: &mut Nodes) -> &mut Arena<Split> {
        &mut nodes.splits
    }

    fn mark(&self, number: u32) -> u32 {
        SPLITS | number
    }

    fn name<'a>(&self, scenario: &'a Scenario, number: usize) -> &'a str {
        &scenario.splits[number].name
    }
}

impl Kind for Processor {
    const TIMER_BITS: u32 = 0;

    fn arena(nodes: &mut Nodes) -> &mut Arena<Processor> {
        &mut nodes.processors
    }

    fn mark(&self, _: u32) -> u32 {
        NODES | self.node()
    }

    fn name<'a>(&self, scenario: &'a Scenario, _: usize) -> &'a str {
        &scenario.nodes[self.node() as usize].name
    }
}

/// Does something with `N` for the kind of the node that a place belongs to; `$own` where it is the world's.
macro_rules! of_kind {
    ($nodes:expr, $place:expr, $N:ident => $do:expr, $own:expr) => {{
        let (nodes, place) = (&$nodes, $place);
        if place < nodes.flows.first {
            type $N = $crate::node::link::Link;
            $do
        } else if place < nodes.bonds.first {
            type $N = $crate::node::flow::Flow;
            $do
        } else if place < nodes.reliable.first {
            type $N = $crate::bond::joined::Joined;
            $do
        } else if place < nodes.rings.first {
            type $N = $crate::reliable::joined::Joined;
            $do
        } else if place < nodes.splits.first {
            type $N = $crate::ring::circle::Circle;
            $do
        } else if place < nodes.processors.first {
            type $N = $crate::split::Split;
            $do
        } else if place < nodes.own {
            type $N = $crate::node::processor::Processor;
            $do
        } else {
            $own
        }
    }};
}
pub(super) use of_kind;

/// All nodes of one kind.
#[derive(Debug)]
pub(super) struct Arena<N> {
    pub(super) nodes: Vec<N>,
    /// The place of the first one's timer 0.
    pub(super) first: u32,
    /// Which of them are in this part of the world; empty: all.
    pub(super) here: Box<[bool]>,
}

impl<N: Kind> Arena<N> {
    /// The node and the timer of a place.
    #[inline]
    pub(super) fn find(&self, place: u32) -> (u32, u32) {
        let offset = place - self.first;
        (offset >> N::TIMER_BITS, offset & ((1 << N::TIMER_BITS) - 1))
    }

    /// Gives a node, and the engine as it sees it.
    #[inline]
    pub(super) fn here<'a>(&'a mut self, engine: &'a mut Engine, number: u32) -> (&'a mut N, Here<'a>) {
        let node = &mut self.nodes[number as usize];
        let (first, mark) = (self.first + (number << N::TIMER_BITS), node.mark(number));
        (node, Here { engine, number, first, mark })
    }

    /// Of which those are in this part of the world that stand at one of these nodes.
    fn new<'a>(nodes: Vec<N>, first: u32, member: Option<&Member>, at: impl Iterator<Item = &'a [u32]>) -> Arena<N> {
        let here = member.map(|member| at.map(|nodes| nodes.iter().any(|node| member.has(*node))).collect());
        Arena { nodes, first, here: here.unwrap_or_default() }
    }

    /// Whether a node is in this part of the world.
    fn has(&self, number: usize) -> bool {
        self.here.get(number).is_none_or(|here| *here)
    }

    /// Takes over the nodes that are in another part of the world.
    pub(super) fn absorb(&mut self, other: &mut Arena<N>) {
        for number in 0..self.nodes.len() {
            if other.has(number) {
                std::mem::swap(&mut self.nodes[number], &mut other.nodes[number]);
            }
        }
        self.here = Box::default();
    }

    fn each(&self, scenario: &Scenario, visit: &mut dyn FnMut(&dyn Node, &str)) {
        for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| self.has(*number)) {
            visit(node, node.name(scenario, number));
        }
    }

    fn each_here(&mut self, engine: &mut Engine, scenario: &Scenario, visit: Visit<'_>) {
        for number in 0..self.nodes.len() {
            if !self.has(number) {
                continue;
            }
            let (node, here) = self.here(engine, number as u32);
            let name = node.name(scenario, number);
            visit(node, here, name);
        }
    }

    /// The same for the last time: the nodes are gone after that.
    fn each_last(&mut self, engine: &mut Engine, scenario: &Scenario, visit: Visit<'_>) {
        self.each_here(engine, scenario, visit);
        self.nodes = Vec::new();
    }
}

/// What is done with each node.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&mut dyn Node, Here<'_>, &str);

/// All nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) links: Arena<Link>,
    pub(super) flows: Arena<Flow>,
    pub(super) bonds: Arena<Joined>,
    pub(super) reliable: Arena<Reliable>,
    pub(super) rings: Arena<Circle>,
    pub(super) splits: Arena<Split>,
    pub(super) processors: Arena<Processor>,
    /// What links share.
    pub(super) media: Vec<Medium>,
    /// The first of the world's own places.
    pub(super) own: u32,
}

impl Nodes {
    /// One node after the other, in the order of results.
    pub(super) fn each(&self, scenario: &Scenario, visit: &mut dyn FnMut(&dyn Node, &str)) {
        self.flows.each(scenario, visit);
        self.reliable.each(scenario, visit);
        self.links.each(scenario, visit);
        self.bonds.each(scenario, visit);
        self.rings.each(scenario, visit);
        self.splits.each(scenario, visit);
        self.processors.each(scenario, visit);
    }

    /// The same, to be handled.
    pub(super) fn each_here(&mut self, engine: &mut Engine, scenario: &Scenario, visit: Visit<'_>) {
        self.flows.each_here(engine, scenario, visit);
        self.reliable.each_here(engine, scenario, visit);
        self.links.each_here(engine, scenario, visit);
        self.bonds.each_here(engine, scenario, visit);
        self.rings.each_here(engine, scenario, visit);
        self.splits.each_here(engine, scenario, visit);
        self.processors.each_here(engine, scenario, visit);
    }

    /// The same, kind by kind, and each kind is gone after that: what it took is free for what is told of the next.
    pub(super) fn each_last(&mut self, engine: &mut Engine, scenario: &Scenario, visit: Visit<'_>) {
        self.flows.each_last(engine, scenario, visit);
        self.reliable.each_last(engine, scenario, visit);
        self.links.each_last(engine, scenario, visit);
        self.bonds.each_last(engine, scenario, visit);
        self.rings.each_last(engine, scenario, visit);
        self.splits.each_last(engine, scenario, visit);
        self.processors.each_last(engine, scenario, visit);
    }

    /// The place of the node that makes the packets of a flow: bonds' frames have numbers behind the flows', and those of
    /// reliable flows behind these.
    #[inline]
    pub(super) fn maker(&self, flow: u32) -> u32 {
        let Some(bond) = flow.checked_sub(self.flows.nodes.len() as u32) else {
            return self.flows.first + (flow << Flow::TIMER_BITS);
        };
        match bond.checked_sub(self.bonds.nodes.len() as u32) {
            None => self.bonds.first + (bond << Joined::TIMER_BITS),
            Some(reliable) => self.reliable.first + (reliable << Reliable::TIMER_BITS),
        }
    }
}

/// Where a packet goes next: the place of a node's timer 0, and one of the node's own ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) place: u32,
    pub(super) port: u32,
}

/// How a path crosses a link, a bond or a ring.
pub(super) struct Crossed {
    /// The scenario's nodes where it begins and where it ends.
    pub(super) near: u32,
    pub(super) far: u32,
    pub(super) step: Step,
    /// By which interface of the far node packets arrive; 0: by none, the node has nothing to do for their reception.
    pub(super) interface: u32,
    /// Whether the near node sends them.
    pub(super) sends: bool,
    /// What the cards at both ends ask for.
    pub(super) card: Card,
}

/// Where the nodes of a scenario stand, and how they join, before there are any.
pub(super) struct Layout<'a> {
    pub(super) scenario: &'a Scenario,
    /// The first places: flows', bonds', reliable flows', rings', splitting gateways', processors', the world's own. Links are
    /// first.
    firsts: [u32; 7],
    /// For each link the interface of the node where it ends.
    interfaces: Vec<u32>,
    /// For each ring the interface of each of its nodes.
    ring_interfaces: Vec<Vec<u32>>,
    /// For each node the number of interfaces, its own sending among them.
    counts: Vec<usize>,
    /// For each node the number of its processor, if handling packets costs it anything.
    processors: Vec<Option<u32>>,
    /// For each node the number of its splitting gateway.
    splits: Vec<Option<u32>>,
    /// For each processor its ports.
    ports: Vec<BTreeMap<Port, u32>>,
}

impl<'a> Layout<'a> {
    /// The world's own places: the warm-up is over, the series' next point is due.
    const OWN: usize = 2;

    /// Checks how many there are of each, and the numbers that links, bonds and rings have for nodes.
    pub(super) fn new(scenario: &'a Scenario) -> Result<Layout<'a>, WorldError> {
        for (what, count, most) in [
            ("nodes", scenario.nodes.len(), MOST),
            ("links", scenario.links.len(), MOST),
            ("flows", scenario.flows.len(), MOST),
            ("bonds", scenario.bonds.len(), MOST),
            ("reliable flows", scenario.reliable.len(), MOST),
            ("rings", scenario.rings.len(), MOST_RINGS),
            ("splitting gateways", scenario.splits.len(), MOST),
        ] {
            if count > most {
                return Err(WorldError::TooMany { what, count, most });
            }
        }
        let mut counts = vec![1; scenario.nodes.len()];
        let mut interfaces = Vec::with_capacity(scenario.links.len());
        for link in &scenario.links {
            let what = || format!("link `{}`", link.name);
            check_node(scenario, link.from, &what)?;
            check_node(scenario, link.to, &what)?;
            let count = &mut counts[link.to as usize];
            interfaces.push(*count as u32);
            *count += 1;
        }
        for bond in &scenario.bonds {
            for end in bond.ends {
                check_node(scenario, end, &|| format!("bond `{}`", bond.name))?;
            }
        }
        for flow in &scenario.reliable {
            for end in flow.ends {
                check_node(scenario, end, &|| format!("reliable flow `{}`", flow.name))?;
            }
        }
        let mut ring_interfaces = Vec::with_capacity(scenario.rings.len());
        for ring in &scenario.rings {
            let mut its = Vec::with_capacity(ring.nodes.len());
            for &number in &ring.nodes {
                check_node(scenario, number, &|| format!("ring `{}`", ring.name))?;
                its.push(counts[number as usize] as u32);
                counts[number as usize] += 1;
            }
            ring_interfaces.push(its);
        }
        let mut number = 0;
        let processors = scenario.nodes.iter().map(|node| {
            node.cost.any().then(|| {
                number += 1;
                number - 1
            })
        });
        let processors = processors.collect();
        let mut splits = vec![None; scenario.nodes.len()];
        for (number, split) in scenario.splits.iter().enumerate() {
            let what = || format!("split `{}`", split.name);
            check_node(scenario, split.node, &what)?;
            splits[split.node as usize] = Some(number as u32);
        }
        let mut firsts = [0; 7];
        let mut end = 0;
        for (first, count, bits) in [
            (0, scenario.links.len(), Link::TIMER_BITS),
            (1, scenario.flows.len(), Flow::TIMER_BITS),
            (2, scenario.bonds.len(), Joined::TIMER_BITS),
            (3, scenario.reliable.len(), Reliable::TIMER_BITS),
            (4, scenario.rings.len(), Circle::TIMER_BITS),
            (5, scenario.splits.len(), Split::TIMER_BITS),
            (6, number as usize, Processor::TIMER_BITS),
        ] {
            end += (count as u32) << bits;
            firsts[first] = end;
        }
        let ports = vec![BTreeMap::new(); number as usize];
        Ok(Layout { scenario, firsts, interfaces, ring_interfaces, counts, processors, splits, ports })
    }

    /// How a path crosses a hop; `what` names the path in errors.
    pub(super) fn cross(&self, what: &dyn Fn() -> String, hop: Hop) -> Result<Crossed, WorldError> {
        let scenario = self.scenario;
        match hop {
            Hop::Link(link) => {
                let model = known(&scenario.links, link, "link", what)?;
                let step = Step { place: link << Link::TIMER_BITS, port: 0 };
                let (interface, card) = (self.interfaces[link as usize], model.card);
                Ok(Crossed { near: model.from, far: model.to, step, interface, sends: true, card })
            }
            Hop::Bond(bond, side) => {
                let model = known(&scenario.bonds, bond, "bond", what)?;
                let Some(&near) = model.ends.get(usize::from(side)) else {
                    return Err(WorldError::Unknown { what: what(), kind: "end", number: side.into(), count: 2 });
                };
                // Its frames pay for the sending here and for the reception at the far end.
                let far = model.ends[1 - usize::from(side)];
                let step = Step { place: self.firsts[1] + (bond << Joined::TIMER_BITS), port: side.into() };
                Ok(Crossed { near, far, step, interface: 0, sends: false, card: Card::default() })
            }
            Hop::Ring(ring, way) => {
                let model = known(&scenario.rings, ring, "ring", what)?;
                let place = |place: u8| {
                    let (number, count) = (u32::from(place), model.nodes.len());
                    let unknown = || WorldError::Unknown { what: what(), kind: "place of a ring", number, count };
                    model.nodes.get(usize::from(place)).copied().ok_or_else(unknown)
                };
                let (near, far) = (place(way.from)?, place(way.to)?);
                let interface = self.ring_interfaces[ring as usize][usize::from(way.to)];
                let place = self.firsts[3] + (ring << Circle::TIMER_BITS);
                let step = Step { place, port: Circle::port(way) };
                Ok(Crossed { near, far, step, interface, sends: true, card: Card::default() })
            }
        }
    }

    /// A path's last step: it has come to the receiver of a flow.
    pub(super) fn deliver(&self, flow: usize) -> Step {
        Step { place: self.firsts[0] + ((flow as u32) << Flow::TIMER_BITS), port: 0 }
    }

    /// A path's last step: a frame has come to an end of a bond.
    pub(super) fn deliver_frame(&self, bond: usize, end: usize, channel: usize) -> Step {
        let place = self.firsts[1] + ((bond as u32) << Joined::TIMER_BITS);
        Step { place, port: Joined::frame_port(end, channel) }
    }

    /// A path's last step: a frame has come to an end of a reliable flow.
    pub(super) fn deliver_reliable(&self, flow: usize, end: usize, path: usize) -> Step {
        let place = self.firsts[2] + ((flow as u32) << Reliable::TIMER_BITS);
        Step { place, port: Reliable::frame_port(end, path) }
    }

    /// The splitting gateway of a node, if it has one, and the step into it.
    pub(super) fn split(&self, node: u32) -> Option<(u32, Step)> {
        let number = self.splits.get(node as usize).copied().flatten()?;
        Some((number, Step { place: self.firsts[4] + (number << Split::TIMER_BITS), port: 0 }))
    }

    /// The processor of a node, if it has one.
    pub(super) fn processor(&self, node: u32) -> Option<u32> {
        self.processors.get(node as usize).copied().flatten()
    }

    /// The step through a node's processor, if it has one.
    pub(super) fn process(&mut self, node: u32, port: Port) -> Option<Step> {
        let number = self.processor(node)?;
        let ports = &mut self.ports[number as usize];
        let next = ports.len() as u32;
        let port = *ports.entry(port).or_insert(next);
        Some(Step { place: self.firsts[5] + (number << Processor::TIMER_BITS), port })
    }

    /// Links and processors, and with them all nodes. Those that make packets have been made with their paths.
    pub(super) fn build(
        self,
        flows: Vec<Flow>,
        bonds: Vec<Joined>,
        reliable: Vec<Reliable>,
        splits: Vec<Split>,
        member: Option<&Member>,
    ) -> Result<Nodes, WorldError> {
        let scenario = self.scenario;
        let rings = (0..scenario.rings.len()).map(|number| Circle::new(scenario, number));
        let rings = rings.collect::<Result<Vec<Circle>, WorldError>>()?;
        let mut capture = vec![false; scenario.links.len()];
        let ways = scenario.first_captured_way(scenario.rings.len());
        for &link in &scenario.metrics.capture {
            match capture.get_mut(link as usize) {
                Some(capture) => *capture = true,
                // Rings find theirs.
                None if link < ways => {}
                None => {
                    known(&scenario.links, link, "link", &|| "the capture".to_owned())?;
                }
            }
        }
        let periodic = link::periodic(scenario);
        let links = scenario.links.iter().enumerate();
        let links = links.map(|(n, link)| Link::new(link, n, scenario, capture[n], periodic[n]));
        let mut links = links.collect::<Result<Vec<Link>, WorldError>>()?;
        share(scenario, &mut links);
        if let Some(member) = member {
            let away = |link: &model::Link| member.has(link.from) && !member.has(link.to);
            let leave = links.iter_mut().zip(&scenario.links).filter(|(_, model)| away(model));
            leave.for_each(|(link, _)| link.cross());
        }
        let mut processors = Vec::with_capacity(self.ports.len());
        for (node, number) in self.processors.iter().enumerate() {
            let Some(number) = number else { continue };
            let mut ports: Vec<(Port, u32)> = self.ports[*number as usize].iter().map(|(p, n)| (*p, *n)).collect();
            ports.sort_unstable_by_key(|(_, number)| *number);
            let ports = ports.into_iter().map(|(port, _)| port).collect();
            let model = &scenario.nodes[node];
            processors.push(Processor::new(&model.cost, self.counts[node], ports, scenario.seed, node as u32));
        }
        let hosts: Vec<u32> = processors.iter().map(Processor::node).collect();
        let ends: Vec<[u32; 2]> = scenario.links.iter().map(|link| [link.from, link.to]).collect();
        let [first_flow, first_bond, first_reliable, first_ring, first_split, first_processor, own] = self.firsts;
        Ok(Nodes {
            links: Arena::new(links, 0, member, ends.iter().map(|ends| &ends[..])),
            // Each part counts the losses of all.
            flows: Arena { nodes: flows, first: first_flow, here: Box::default() },
            bonds: Arena::new(bonds, first_bond, member, scenario.bonds.iter().map(|bond| &bond.ends[..])),
            reliable: Arena::new(reliable, first_reliable, member, scenario.reliable.iter().map(|flow| &flow.ends[..])),
            rings: Arena::new(rings, first_ring, member, scenario.rings.iter().map(|ring| &ring.nodes[..])),
            splits: Arena::new(
                splits,
                first_split,
                member,
                scenario.splits.iter().map(|s| std::slice::from_ref(&s.node)),
            ),
            processors: Arena::new(processors, first_processor, member, hosts.iter().map(std::slice::from_ref)),
            media: Medium::all(scenario),
            own,
        })
    }
}

/// Tells links the ends of flows, and the weights, rooms and deadlines of those that pass them.
fn share(scenario: &Scenario, links: &mut [Link]) {
    fn links_of(hops: &[Hop]) -> impl Iterator<Item = usize> {
        hops.iter().filter_map(|hop| if let Hop::Link(link) = *hop { Some(link as usize) } else { None })
    }
    let ends = scenario.ends();
    links.iter_mut().for_each(|link| link.set_ends(&ends));
    for (number, flow) in scenario.flows.iter().enumerate() {
        let room = match flow.room {
            Room::Parts(parts) => parts,
            Room::RoundTrip(waiting) => {
                let delay = |link: usize| scenario.links[link].profile.delay;
                let trip =
                    links_of(&flow.path).chain(links_of(&flow.back)).map(delay).fold(waiting, |sum, delay| sum + delay);
                ((trip.as_nanos() + 500_000) / 1_000_000).clamp(1, u64::from(MOST_ROOM)) as u32
            }
        };
        if (flow.weight, room, flow.deadline) == (1, 1, None) {
            continue;
        }
        let others = flow.others.iter().flat_map(|[there, back]| [(there, false), (back, true)]);
        for (hops, reverse) in [(&flow.path, false), (&flow.back, true)].into_iter().chain(others) {
            for link in links_of(hops) {
                links[link].set_share(number as u32, reverse, flow.weight, room, flow.deadline);
            }
        }
    }
}

/// Checks the number of a node of the scenario.
pub(super) fn check_node(scenario: &Scenario, number: u32, what: &dyn Fn() -> String) -> Result<(), WorldError> {
    known::<model::Node>(&scenario.nodes, number, "node", what).map(drop)
}

fn known<'a, T>(
    list: &'a [T],
    number: u32,
    kind: &'static str,
    what: &dyn Fn() -> String,
) -> Result<&'a T, WorldError> {
    let unknown = || WorldError::Unknown { what: what(), kind, number, count: list.len() };
    list.get(number as usize).ok_or_else(unknown)
}
