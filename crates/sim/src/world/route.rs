//! Paths, compiled: every flow and direction is a run of steps in one table, and a packet carries its place in it.
//! There is no routing: a scenario gives each path, and nodes that cost nothing leave no step.

use super::division::Member;
use super::nodes::{Layout, Step, check_node};
use crate::bond::joined::Joined;
use crate::error::WorldError;
use crate::model::{Card, Hop, Scenario, Transport};
use crate::node::flow::Flow;
use crate::node::processor::{Port, Work};
use crate::reliable::joined::Joined as Reliable;
use crate::split::Split;
use fairspan_core::link::Capacity;
use fairspan_core::units::{Span, Time};

/// The table of steps while it is made.
pub(super) struct Routes<'a> {
    pub(super) layout: Layout<'a>,
    pub(super) steps: Vec<Step>,
    /// The splitting gateways, which learn the flows' paths through them.
    pub(super) splits: Vec<Split>,
    /// When the first measured outage begins.
    outage: Option<Time>,
    /// The part of the world that it is for, where it is divided.
    member: Option<&'a Member>,
}

/// What a path is of.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// This flow, one way or the other: splitting gateways see its packets.
    Flow(usize, bool),
    /// Frames.
    Other,
}

impl<'a> Routes<'a> {
    /// No paths yet.
    pub(super) fn new(scenario: &'a Scenario, member: Option<&'a Member>) -> Result<Routes<'a>, WorldError> {
        let layout = Layout::new(scenario)?;
        let splits = (0..scenario.splits.len()).map(|number| Split::new(scenario, number));
        let (splits, outage) = (splits.collect::<Result<_, WorldError>>()?, scenario.first_outage());
        Ok(Routes { layout, steps: Vec::new(), splits, outage, member })
    }

    /// The flow `number` of the scenario with its paths.
    pub(super) fn flow(&mut self, number: usize) -> Result<Flow, WorldError> {
        let scenario = self.layout.scenario;
        let model = &scenario.flows[number];
        let deliver = self.layout.deliver(number);
        let there = || format!("flow `{}`", model.name);
        let back = || format!("flow `{}`, back", model.name);
        let first = self.add(&there, Of::Flow(number, false), [model.from, model.to], &model.path, deliver)?;
        let answers = !model.back.is_empty();
        let second = if answers {
            self.add(&back, Of::Flow(number, true), [model.to, model.from], &model.back, deliver)?
        } else {
            u32::MAX
        };
        let mut entries = vec![[first, second]];
        // A gateway that splits knows one path of a flow.
        let others = if self.splits.is_empty() { &model.others[..] } else { &[] };
        for [path, way_back] in others {
            let first = self.add(&there, Of::Flow(number, false), [model.from, model.to], path, deliver)?;
            let second = if answers && !way_back.is_empty() {
                self.add(&back, Of::Flow(number, true), [model.to, model.from], way_back, deliver)?
            } else {
                second
            };
            entries.push([first, second]);
        }
        let processors = [model.from, model.to].map(|node| self.layout.processor(node));
        let here = [model.from, model.to].map(|node| self.member.is_none_or(|member| member.has(node)));
        Flow::new(scenario, number, &entries, processors, here, self.outage)
    }

    /// The bond `number` of the scenario with the paths of its channels.
    pub(super) fn bond(&mut self, number: usize) -> Result<Joined, WorldError> {
        let scenario = self.layout.scenario;
        let model = &scenario.bonds[number];
        let mut bond = Joined::new(scenario, number)?;
        for (channel, paths) in model.channels.iter().enumerate() {
            let mut first = [0; 2];
            for (end, path) in paths.iter().enumerate() {
                let what = || format!("bond `{}`, channel {channel} from end {end}", model.name);
                let hops: Vec<Hop> = path.iter().map(|link| Hop::Link(*link)).collect();
                let last = self.layout.deliver_frame(number, 1 - end, channel);
                first[end] = self.add(&what, Of::Other, [model.ends[end], model.ends[1 - end]], &hops, last)?;
            }
            bond.connect(first);
        }
        Ok(bond)
    }

    /// The reliable flow `number` of the scenario with its paths.
    pub(super) fn reliable(&mut self, number: usize) -> Result<Reliable, WorldError> {
        let scenario = self.layout.scenario;
        let model = &scenario.reliable[number];
        let mut flow = Reliable::new(scenario, number)?;
        for (path, links) in model.paths.iter().enumerate() {
            let mut first = [0; 2];
            for (end, links) in links.iter().enumerate() {
                let what = || format!("reliable flow `{}`, path {path} from end {end}", model.name);
                let hops: Vec<Hop> = links.iter().map(|link| Hop::Link(*link)).collect();
                let last = self.layout.deliver_reliable(number, 1 - end, path);
                first[end] = self.add(&what, Of::Other, [model.ends[end], model.ends[1 - end]], &hops, last)?;
            }
            flow.connect(first);
        }
        Ok(flow)
    }

    /// Compiles the path from node `from` over `hops` to node `to`, with `last` at its end; gives the first step's
    /// number. `what` names it in errors.
    fn add(
        &mut self,
        what: &dyn Fn() -> String,
        of: Of,
        [from, to]: [u32; 2],
        hops: &[Hop],
        last: Step,
    ) -> Result<u32, WorldError> {
        check_node(self.layout.scenario, from, what)?;
        check_node(self.layout.scenario, to, what)?;
        if hops.is_empty() {
            return Err(WorldError::NoPath { what: what() });
        }
        let begin = self.steps.len() as u32;
        // Where the packet is, and by which interface and card it came there.
        let (mut at, mut interface, mut came) = (from, 0, Card::default());
        for (number, hop) in hops.iter().enumerate() {
            let crossed = self.layout.cross(what, *hop)?;
            if crossed.near != at {
                return Err(self.misplaced(what(), number, crossed.near, at));
            }
            self.process(at, interface, crossed.sends, [came, crossed.card]);
            if number > 0
                && let Of::Flow(flow, reverse) = of
            {
                self.split(at, flow, reverse, hops, number)?;
            }
            self.steps.push(crossed.step);
            (at, interface, came) = (crossed.far, crossed.interface, crossed.card);
        }
        if at != to {
            return Err(self.misplaced(what(), hops.len(), to, at));
        }
        self.process(at, interface, false, [came, Card::default()]);
        self.steps.push(last);
        Ok(begin)
    }

    /// A flow's packets pass a node before this hop of their path, and its splitting gateway if it has one.
    fn split(&mut self, node: u32, flow: usize, reverse: bool, hops: &[Hop], number: usize) -> Result<(), WorldError> {
        let Some((split, step)) = self.layout.split(node) else { return Ok(()) };
        let scenario = self.layout.scenario;
        let model = &scenario.flows[flow];
        // What the gateway's ends and others answer one another needs something on its way that takes time.
        let takes_time = |hop: &Hop| match hop {
            Hop::Link(link) => {
                let profile = &scenario.links[*link as usize].profile;
                profile.delay > Span::ZERO || profile.capacity != Capacity::Unlimited
            }
            Hop::Bond(..) | Hop::Ring(..) => true,
        };
        let beside = hops.get(number.wrapping_sub(1)).into_iter().chain(hops.get(number));
        if matches!(model.transport, Transport::Tcp(_)) && !beside.copied().all(|hop| takes_time(&hop)) {
            return Err(WorldError::Instant { flow: model.name.clone() });
        }
        self.steps.push(step);
        let behind = self.steps.len() as u32;
        let gateway = &mut self.splits[split as usize];
        gateway.connect(&scenario.splits[split as usize], flow as u32, model, reverse, behind, hops[number]);
        Ok(())
    }

    /// A packet has come to a node by an interface, 0 if it begins there, and is sent on or not.
    fn process(&mut self, node: u32, interface: u32, send: bool, cards: [Card; 2]) {
        let work = Work { receive: interface > 0, send };
        if !(work.receive || work.send) {
            return;
        }
        let [a, b] = cards;
        let card = Card { packet: a.packet + b.packet, per_byte_ps: a.per_byte_ps.saturating_add(b.per_byte_ps) };
        let step = self.layout.process(node, Port { interface, work, card });
        self.steps.extend(step);
    }

    fn misplaced(&self, what: String, hop: usize, found: u32, expected: u32) -> WorldError {
        let name = |node: u32| self.layout.scenario.nodes[node as usize].name.clone();
        WorldError::Path { what, hop, found: name(found), expected: name(expected) }
    }
}
