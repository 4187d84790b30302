//! A ring in the world: core's [`Node`], unchanged, at each of its nodes, and the ways
//! between them.
//!
//! A packet that enters becomes a [`Ticket`] with its length; the node puts its head in front and decides when it is sent.
//! Control frames are real bytes. They are counted apart from packets, and as exactly.
//!
//! | the live ring | here |
//! |---|---|
//! | sockets towards the neighbours | [`way`]: rate, propagation, cuts, faults of control frames |
//! | UDP and encryption | `overhead` bytes of each frame |
//! | the interface that goes down | `carrier`: whether nodes see a cut at once; else they find out by silence |
//! | a killed process | the node's state is gone with all packets in it; a new node begins when it comes back |
//!
//! Departures: the nodes' clocks agree.

pub(crate) mod circle;
mod life;
mod report;
mod ticket;
mod watch;
mod way;

use crate::engine::event::Event;
use crate::engine::pool::Handle;
use crate::engine::streams::{self, Purpose};
use crate::model::{self, Crossing, Scenario};
use crate::node::Here;
use crate::results::Refusals;
use fairspan_core::ring::algorithm::Algorithm;
use fairspan_core::ring::node::{self, Node};
use fairspan_core::ring::topology::{Topology, Way as Known};
use fairspan_core::ring::{MOST_NODES, NodeId, Ringlet, Side};
use fairspan_core::units::{FlowNumber, Rate, Time};
use life::{Change, changes};
use report::limits;
use std::collections::VecDeque;
use std::sync::Arc;
use ticket::{Ledger, Ticket};
use watch::{Failures, Limits, Window, effect};
use way::{Fate, Load, Way};

/// How many reasons a node has to drop a packet.
const REASONS: usize = 13;
/// Why a packet is dropped outside of a node that lives.
const FAILED: &str = "node failed";
const CUT: &str = "link cut";
/// Why a control frame is refused, where the node told of another for the same reason before.
const UNTOLD: &str = "as before";

/// What is to be done next for a ring.
#[derive(Debug)]
pub(crate) enum Output {
    /// A packet goes on from this ring.
    Deliver(Handle),
    /// A packet was dropped here.
    Dropped(Handle),
}

impl Output {
    fn is_drop_of(&self, handle: Handle) -> bool {
        matches!(self, Output::Dropped(dropped) if *dropped == handle)
    }
}

/// What a way has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// A packet.
    Packet(Handle),
    /// A control frame with this hash of its bytes.
    Control(u64),
}

/// A ring while it runs.
#[derive(Debug)]
pub(crate) struct Ring {
    model: model::Ring,
    /// What the scenario calls its nodes.
    names: Vec<String>,
    /// The rate of the fastest link.
    nominal: Rate,
    /// Of this ring's nodes.
    seed: u64,
    window: Window,
    stations: Vec<Station>,
    /// By twice the place of the node where it begins, plus the ringlet.
    ways: Vec<Way>,
    /// The ring as it is.
    truth: Topology,
    ledger: Arc<Ledger>,
    buffers: Vec<Vec<u8>>,
    /// Packets in nodes and on ways.
    inside: u64,
    outputs: VecDeque<Output>,
    changes: Vec<Change>,
    control: Control,
    limits: Limits,
    failures: Failures,
}

/// A node, or the place of one that is dead.
#[derive(Debug)]
struct Station {
    node: Option<Node<Ticket>>,
    /// Failures that hold at present.
    failures: u32,
    /// How often it was made.
    lives: u64,
    /// What the node's counters of drops were when a drop was last explained.
    explained: [u64; REASONS],
    /// Packets dropped here in all, by the node's reasons, and because there was none.
    dropped: [u64; REASONS],
    failed: u64,
    transit_max: [u64; 2],
    /// Its outputs are being taken: by whoever took the first.
    busy: bool,
    /// It was given something since its outputs were last asked for.
    fresh: bool,
    /// When it wants its timeout handled.
    wanted: Option<Time>,
}

/// Control frames of the whole run.
#[derive(Clone, Debug, Default)]
struct Control {
    sent: u64,
    copies: u64,
    taken: u64,
    corrupted: u64,
    lost: u64,
    unheard: u64,
    refused: Vec<Refusals>,
    /// By nodes that are dead.
    refused_before: u64,
}

impl Ring {
    /// The ring number `number` of a scenario, all nodes alive and all links that there are well.
    pub(crate) fn new(scenario: &Scenario, number: usize) -> Result<Ring, String> {
        let model = scenario.rings[number].clone();
        check(&model)?;
        let count = model.nodes.len();
        let rates = model.links.iter().filter(|link| link.present).flat_map(|link| link.rate);
        let nominal = rates.max().unwrap_or_default();
        let mut truth = Topology::ring(count, nominal);
        let mut ways = Vec::with_capacity(2 * count);
        // What clocks a drop-tail queue must not stand still (see `way`); elsewhere nothing in transit is dropped.
        let wander = scenario.drift_ppm > 0 && model.algorithm == Algorithm::Fifo;
        for place in 0..count {
            truth.set_weight(NodeId::at(place), model.weights[place]);
            for ringlet in Ringlet::BOTH {
                let link = &model.links[link_of(place, ringlet, count)];
                let rate = link.rate[ringlet.index()];
                let rng = streams::stream(scenario.seed, Purpose::Ring, ((number << 10) + ways.len()) as u64);
                let way = Way::new(rate, link.delay, model.overhead, link.present, link.faults, rng, wander);
                truth.set_way(NodeId::at(place), ringlet, Known { up: link.present, capacity: rate });
                ways.push(way);
            }
        }
        let end = Time::ZERO + scenario.duration;
        let turns = scenario.flows.iter().flat_map(|flow| [flow.start, flow.stop]).filter(|at| *at < end);
        let window = Window::new(turns.max().unwrap_or_default(), scenario.warm_up, scenario.duration);
        let limits = Limits::new(limits(scenario, number, &truth, window), count);
        let station = || Station {
            node: None,
            failures: 0,
            lives: 0,
            explained: [0; REASONS],
            dropped: [0; REASONS],
            failed: 0,
            transit_max: [0; 2],
            busy: false,
            fresh: true,
            wanted: None,
        };
        let names = model.nodes.iter().map(|node| scenario.nodes[*node as usize].name.clone());
        let mut ring = Ring {
            names: names.collect(),
            nominal,
            seed: streams::seed(scenario.seed, Purpose::RingNode, number as u64),
            window,
            stations: (0..count).map(|_| station()).collect(),
            ways,
            truth,
            ledger: Arc::new(Ledger::default()),
            buffers: Vec::new(),
            inside: 0,
            outputs: VecDeque::new(),
            changes: changes(&model),
            control: Control::default(),
            limits,
            failures: Failures::new(count),
            model,
        };
        for place in 0..count {
            ring.start(Time::ZERO, place)?;
        }
        Ok(ring)
    }

    /// How many nodes there are, dead ones included.
    pub(crate) fn nodes(&self) -> usize {
        self.stations.len()
    }

    fn neighbour(&self, place: usize, side: Side) -> usize {
        let count = self.stations.len();
        match side {
            Side::East => (place + 1) % count,
            Side::West => (place + count - 1) % count,
        }
    }

    /// A packet enters at the node of a place. One that is dropped at once comes back, and there is nothing to poll.
    pub(crate) fn handle_station(
        &mut self,
        now: Time,
        way: Crossing,
        flow: FlowNumber,
        handle: Handle,
        size: u32,
    ) -> Result<(), Handle> {
        self.inside += 1;
        let place = usize::from(way.from);
        let ticket = Ticket::new(handle, size, &self.ledger);
        let station = &mut self.stations[place];
        if let Some(node) = &mut station.node {
            let to = NodeId::at(way.to.into());
            match way.ringlet {
                None => node.handle_station(now, to, way.class, flow, ticket),
                Some(ringlet) => node.handle_station_by(now, to, ringlet, way.class, flow, ticket),
            }
        } else {
            drop(ticket);
        }
        if !self.ledger.is_empty() {
            let before = self.outputs.len();
            self.explain(place);
            // With others that are dropped for it, it is polled as they are.
            if self.outputs.len() == before + 1 && self.outputs.back().is_some_and(|output| output.is_drop_of(handle)) {
                self.outputs.pop_back();
                return Err(handle);
            }
        }
        self.stations[place].fresh = true;
        Ok(())
    }

    /// An event of a way has come: what has arrived, and where.
    pub(crate) fn handle_way(&mut self, here: &mut Here<'_>, number: u32, event: Event) -> Option<(usize, Brought)> {
        let (now, counts) = (here.now(), here.counts());
        let (load, next) = self.ways[number as usize].arrive(event)?;
        if let Some(next) = next {
            here.arm(number, next);
        }
        let ringlet = Ringlet::BOTH[number as usize % 2];
        let place = self.neighbour(number as usize / 2, ringlet.way_out());
        let side = ringlet.way_out().other();
        let station = &mut self.stations[place];
        station.fresh = true;
        Some(match load {
            Load::Data(head, ticket) => {
                let handle = ticket.handle();
                match &mut station.node {
                    Some(node) => {
                        node.handle_data(now, side, head, ticket);
                        if counts {
                            for (most, ringlet) in station.transit_max.iter_mut().zip(Ringlet::BOTH) {
                                *most = (*most).max(node.transit(ringlet).as_u64());
                            }
                        }
                    }
                    None => drop(ticket),
                }
                self.settle(place);
                (place, Brought::Packet(handle?))
            }
            Load::Control(frame, corrupt) => {
                match &mut station.node {
                    Some(node) => {
                        self.control.taken += 1;
                        self.control.corrupted += u64::from(corrupt);
                        node.handle_control(now, side, &frame);
                    }
                    None => self.control.unheard += 1,
                }
                let hash = hash(&frame);
                self.buffers.push(frame);
                self.settle(place);
                (place, Brought::Control(hash))
            }
        })
    }

    /// A timer of a place has run out: whether there may be something to poll. If not, it came before [`Ring::wanted`].
    #[must_use]
    pub(crate) fn handle_timeout(&mut self, now: Time, place: usize) -> bool {
        let station = &mut self.stations[place];
        let due = station.wanted.is_some_and(|at| at <= now);
        if let Some(node) = station.node.as_mut().filter(|_| due) {
            node.handle_timeout(now);
            station.fresh = true;
            self.settle(place);
        }
        self.stations[place].fresh
    }

    /// Takes the right to poll a place; false when someone has it, who will take what there is.
    #[inline]
    pub(crate) fn begin_polling(&mut self, place: usize) -> bool {
        !std::mem::replace(&mut self.stations[place].busy, true)
    }

    /// When the node of a place wants [`Ring::handle_timeout`].
    #[inline]
    pub(crate) fn wanted(&self, place: usize) -> Option<Time> {
        self.stations[place].wanted
    }

    /// Nothing is left to poll at a place.
    #[inline]
    pub(crate) fn end_polling(&mut self, now: Time, place: usize) {
        let station = &mut self.stations[place];
        station.busy = false;
        station.wanted = None;
        let Some(node) = &station.node else { return };
        station.wanted = node.poll_timeout();
        for limit in self.limits.changed(place, node.limits_version()) {
            let way = &self.ways[way_of(place, limit.ringlet)];
            limit.set(now, effect(node.limit(limit.ringlet, NodeId::at(limit.to.into())), way.rate()));
        }
    }

    /// What is to be done next; to be asked until there is nothing, after every input at this place.
    pub(crate) fn poll(&mut self, here: &mut Here<'_>, place: usize) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if std::mem::take(&mut self.stations[place].fresh) {
            self.transmit(here, place);
            self.hear(here.now(), place);
        }
        if let Some(node) = &mut self.stations[place].node
            && let Some(delivery) = node.poll_deliver()
            && let Some(handle) = delivery.packet.redeem()
        {
            self.inside -= 1;
            return Some(Output::Deliver(handle));
        }
        self.settle(place);
        self.outputs.pop_front()
    }

    /// Puts what the node of a place sends on its ways.
    #[inline]
    fn transmit(&mut self, here: &mut Here<'_>, place: usize) {
        let Some(node) = &mut self.stations[place].node else { return };
        let (now, counts) = (here.now(), here.counts());
        while let Some((side, frame)) = node.poll_control(now) {
            let number = way_of(place, side.ringlet());
            let order = here.engine.clock().2;
            let (fate, arm) = self.ways[number].send_control(now, frame, counts, &mut self.buffers, order);
            if let Some(event) = arm {
                here.arm(number as u32, event);
            }
            let control = &mut self.control;
            control.sent += 1;
            match fate {
                Fate::Sent => {}
                Fate::Twice => control.copies += 1,
                Fate::Lost => control.lost += 1,
                Fate::Unheard => control.unheard += 1,
            }
        }
        while let Some(transmit) = node.poll_transmit(now) {
            let number = way_of(place, transmit.side.ringlet());
            let way = &mut self.ways[number];
            match way.send(now, transmit.head, transmit.packet, counts, here.engine.clock().2) {
                Ok(Some(event)) => here.arm(number as u32, event),
                Ok(None) => {}
                Err(ticket) => {
                    way.lost += 1;
                    self.inside -= 1;
                    self.outputs.extend(ticket.redeem().map(Output::Dropped));
                }
            }
        }
    }

    /// Takes the events of the node of a place.
    fn hear(&mut self, now: Time, place: usize) {
        let Some(node) = &mut self.stations[place].node else { return };
        let mut changed = false;
        while let Some(event) = node.poll_event() {
            let at = || NodeId::at(place).to_string();
            match event {
                node::Event::Link { side, up } => {
                    changed = true;
                    let what = match (side, up) {
                        (Side::East, true) => "link east up",
                        (Side::East, false) => "link east down",
                        (Side::West, true) => "link west up",
                        (Side::West, false) => "link west down",
                    };
                    self.failures.tell(now, at, what);
                }
                node::Event::Topology => changed = true,
                node::Event::Refused { reason, .. } => self.control.refuse(reason.to_string()),
                node::Event::Control { reason, .. } => self.control.refuse(reason.to_string()),
                _ => {}
            }
        }
        if changed {
            let were_astray = self.failures.any_astray();
            self.judge(place);
            self.failures.settle(now, were_astray);
        }
    }

    /// Accounts for what was dropped at a place in the last call.
    #[inline]
    fn settle(&mut self, place: usize) {
        if !self.ledger.is_empty() {
            self.explain(place);
        }
    }

    #[cold]
    fn explain(&mut self, place: usize) {
        let station = &mut self.stations[place];
        let now = station.node.as_ref().map(|node| node.stats().drops().map(|(_, count)| count));
        let mut counted = [0; REASONS];
        if let Some(now) = now {
            for (at, counted) in counted.iter_mut().enumerate() {
                *counted = now[at] - station.explained[at];
            }
            station.explained = now;
        }
        while let Some(handle) = self.ledger.poll_dropped() {
            // Of drops in one call each takes one of what was counted in it.
            match counted.iter_mut().zip(&mut station.dropped).find(|(counted, _)| **counted > 0) {
                Some((counted, dropped)) => {
                    *counted -= 1;
                    *dropped += 1;
                }
                None => station.failed += 1,
            }
            self.inside -= 1;
            self.outputs.push_back(Output::Dropped(handle));
        }
    }

    /// Packets in the ring.
    pub(crate) fn in_flight(&self) -> u64 {
        self.inside
    }
}

impl Control {
    fn refuse(&mut self, reason: String) {
        match self.refused.iter_mut().find(|refusals| refusals.reason == reason) {
            Some(refusals) => refusals.messages += 1,
            None => self.refused.push(Refusals { reason, messages: 1 }),
        }
    }
}

/// The number of the way by which a node's packets on a ringlet leave.
const fn way_of(place: usize, ringlet: Ringlet) -> usize {
    2 * place + ringlet.index()
}

/// The place of the link over which packets of a ringlet leave a node.
const fn link_of(place: usize, ringlet: Ringlet, count: usize) -> usize {
    match ringlet {
        Ringlet::Zero => place,
        Ringlet::One => (place + count - 1) % count,
    }
}

/// What no node checks.
fn check(model: &model::Ring) -> Result<(), String> {
    let count = model.nodes.len();
    if !(2..=MOST_NODES).contains(&count) {
        return Err(format!("{count} nodes; a ring has 2 to {MOST_NODES}"));
    }
    for (what, found) in [("links", model.links.len()), ("weights", model.weights.len())] {
        if found != count {
            return Err(format!("{found} {what}; a ring of {count} nodes has {count}"));
        }
    }
    let reserved = model.reservations.iter().flat_map(|one| [one.from, one.to]);
    let places = reserved.chain(model.node_outages.iter().map(|one| one.node));
    match places.into_iter().find(|place| usize::from(*place) >= count) {
        Some(place) => Err(format!("there is no place {place}; there are {count}")),
        None => Ok(()),
    }
}

/// FNV-1a, for the log.
fn hash(frame: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    frame.iter().fold(0xcbf2_9ce4_8422_2325, fold)
}
