//! A ring in the world: core's [`Node`](fairspan_core::ring::node::Node), unchanged, at each of its nodes, and the ways
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

mod ticket;
mod watch;
mod way;

use crate::engine::event::Event;
use crate::engine::pool::Handle;
use crate::engine::streams::{self, Purpose};
use crate::results::{ControlResult, Dropped, Refusals, RingLinkResult, RingResult};
use crate::scenario::model::{self, Crossing, Hop, Scenario};
use fairspan_core::link::Outage;
use fairspan_core::ring::algorithm::Algorithm;
use fairspan_core::ring::control::Reservation;
use fairspan_core::ring::node::{self, Node, Stats};
use fairspan_core::ring::protection::Protection;
use fairspan_core::ring::topology::{Topology, Way as Known};
use fairspan_core::ring::{MOST_NODES, NodeId, Ringlet, Side, discovery};
use fairspan_core::units::{Rate, Time};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use ticket::{Ledger, Ticket};
use watch::{Failures, Limit, Limits, Window, effect};
use way::{Fate, Load, Way};

/// How many reasons a node has to drop a packet.
const REASONS: usize = 12;
/// Why a packet is dropped outside of a node that lives.
const FAILED: &str = "node failed";
const CUT: &str = "link cut";

/// What the world is to do next for a ring.
#[derive(Debug)]
pub(crate) enum Output {
    /// This event, its place to be set to the way's number, goes into the calendar.
    Arm(u32, Event),
    /// A packet goes on from this ring.
    Deliver(Handle),
    /// A packet was dropped here.
    Dropped(Handle),
}

/// What a way has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// A packet.
    Packet(Handle),
    /// A control frame with this hash of its bytes.
    Control(u64),
}

/// What a ring needs to know of the world.
#[derive(Debug)]
pub(crate) struct At<'a> {
    pub(crate) now: Time,
    /// Whether this instant counts.
    pub(crate) counts: bool,
    /// Insertions into the calendar so far.
    pub(crate) order: &'a mut u64,
}

/// A ring while it runs.
#[derive(Debug)]
pub(crate) struct Ring {
    model: model::Ring,
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

/// Something that will fail or come back.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: Time,
    what: What,
    outage: Outage,
    /// It fails; else it comes back.
    fails: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The link of this place.
    Link(u8),
    /// The node of this place.
    Node(u8),
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
        let window = Window::new(scenario.warm_up, scenario.duration);
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
        let mut ring = Ring {
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

    /// The settings of the node of a place.
    fn config(&self, place: usize) -> node::Config {
        let (count, id) = (self.stations.len(), NodeId::at(place));
        let mut config = node::Config::new(id, count, self.nominal);
        config.algorithm = self.model.algorithm.clone();
        config.protection = match self.model.protection {
            model::Protection::Wrap => Protection::Wrap,
            model::Protection::Steer | model::Protection::None => Protection::Steer,
        };
        if self.watches() {
            // The run begins in the midst of the ring's life.
            let mut discovery = discovery::Config::new(id, count, self.nominal);
            discovery.assume = true;
            config.discovery = Some(discovery);
        }
        config.capacity = Side::BOTH.map(|side| self.ways[way_of(place, side.ringlet())].rate());
        config.overhead = [self.model.overhead as usize; 2];
        config.transit_limit = self.model.transit;
        config.station_threshold = self.model.threshold;
        config.station_limit = self.model.station;
        config.interval = self.model.interval;
        config.weight = self.model.weights[place];
        let own = self.model.reservations.iter().filter(|reserved| usize::from(reserved.from) == place);
        let reserved =
            own.map(|one| Reservation { to: Some(NodeId::at(one.to.into())), class: one.class, rate: one.rate });
        config.reservations = reserved.collect();
        config
    }

    /// Whether nodes watch their neighbours.
    fn watches(&self) -> bool {
        self.model.discovery && self.model.protection != model::Protection::None
    }

    /// A new node begins its life.
    fn start(&mut self, now: Time, place: usize) -> Result<(), String> {
        let lives = self.stations[place].lives;
        let seed = self.seed ^ (lives << 32 | place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut node = Node::new(self.config(place), now, seed).map_err(|error| error.to_string())?;
        if self.watches() {
            // A driver knows which devices it has, and of a cut where light tells.
            for side in Side::BOTH {
                let way = &self.ways[way_of(place, side.ringlet())];
                let seen = !self.model.carrier || self.light(place, side);
                node.set_link(now, side, way.is_present() && seen);
            }
        } else {
            // As it was laid: what fails later nobody tells.
            let mut laid = self.truth.clone();
            for (number, way) in self.ways.iter().enumerate() {
                let (id, ringlet) = (NodeId::at(number / 2), Ringlet::BOTH[number % 2]);
                laid.set_way(id, ringlet, Known { up: way.is_present(), capacity: way.rate() });
            }
            node.set_topology(now, &laid);
        }
        let station = &mut self.stations[place];
        station.lives += 1;
        station.explained = [0; REASONS];
        station.node = Some(node);
        station.fresh = true;
        self.limits.forget(place);
        Ok(())
    }

    /// Whether there is light on a link, as a node sees it: not cut, and the neighbour alive.
    fn light(&self, place: usize, side: Side) -> bool {
        let neighbour = self.neighbour(place, side);
        self.ways[way_of(place, side.ringlet())].is_up() && self.stations[neighbour].failures == 0
    }

    fn neighbour(&self, place: usize, side: Side) -> usize {
        let count = self.stations.len();
        match side {
            Side::East => (place + 1) % count,
            Side::West => (place + count - 1) % count,
        }
    }

    /// A packet enters at the node of a place: whether there may be something to poll. One that is dropped at once changes
    /// nothing else.
    #[must_use]
    pub(crate) fn handle_station(&mut self, now: Time, way: Crossing, handle: Handle, size: u32) -> bool {
        self.inside += 1;
        let place = usize::from(way.from);
        let ticket = Ticket::new(handle, size, &self.ledger);
        let station = &mut self.stations[place];
        if let Some(node) = &mut station.node {
            let to = NodeId::at(way.to.into());
            match way.ringlet {
                None => node.handle_station(now, to, way.class, ticket),
                Some(ringlet) => node.handle_station_by(now, to, ringlet, way.class, ticket),
            }
        } else {
            drop(ticket);
        }
        station.fresh = true;
        if self.ledger.is_empty() {
            return true;
        }
        let fresh = std::mem::take(&mut station.fresh);
        self.explain(place);
        let itself = matches!(self.outputs.back(), Some(Output::Dropped(dropped)) if *dropped == handle);
        self.stations[place].fresh = fresh && !itself;
        !itself
    }

    /// The next packet that was dropped, where one was dropped at once.
    pub(crate) fn poll_dropped(&mut self) -> Option<Handle> {
        let at = self.outputs.iter().position(|output| matches!(output, Output::Dropped(_)))?;
        match self.outputs.remove(at) {
            Some(Output::Dropped(handle)) => Some(handle),
            _ => None,
        }
    }

    /// An event of a way has come: what has arrived, and where.
    pub(crate) fn handle_way(
        &mut self,
        now: Time,
        counts: bool,
        number: u32,
        event: Event,
    ) -> Option<(usize, Brought)> {
        let (load, next) = self.ways[number as usize].arrive(event)?;
        if let Some(next) = next {
            self.outputs.push_back(Output::Arm(number, next));
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
    pub(crate) fn poll(&mut self, at: &mut At<'_>, place: usize) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        let now = at.now;
        if std::mem::take(&mut self.stations[place].fresh) {
            self.transmit(at, place);
            self.hear(now, place);
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
    fn transmit(&mut self, at: &mut At<'_>, place: usize) {
        let Some(node) = &mut self.stations[place].node else { return };
        let now = at.now;
        while let Some((side, frame)) = node.poll_control(now) {
            let number = way_of(place, side.ringlet());
            let (fate, arm) = self.ways[number].send_control(now, frame, at.counts, &mut self.buffers, at.order);
            self.outputs.extend(arm.map(|event| Output::Arm(number as u32, event)));
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
            match way.send(now, transmit.head, transmit.packet, at.counts, at.order) {
                Ok(arm) => self.outputs.extend(arm.map(|event| Output::Arm(number as u32, event))),
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
                _ => {}
            }
        }
        if changed {
            let were_astray = self.failures.any_astray();
            self.judge(place);
            self.failures.settle(now, were_astray);
        }
    }

    /// Compares what the node of a place knows with the truth.
    fn judge(&mut self, place: usize) {
        let agrees = match &self.stations[place].node {
            None => true,
            Some(node) if self.model.protection == model::Protection::Wrap => Side::BOTH.iter().all(|side| {
                let (id, ringlet) = (NodeId::at(place), side.ringlet());
                node.topology().way(id, ringlet).up == self.truth.way(id, ringlet).up
            }),
            Some(node) => (0..self.stations.len()).map(NodeId::at).all(|to| {
                let way = self.truth.route(NodeId::at(place), to);
                way.is_none() || way == node.topology().route(NodeId::at(place), to)
            }),
        };
        self.failures.judge(place, agrees);
    }

    /// Something fails or comes back now: tells the places where there may be something to poll.
    pub(crate) fn handle_change(&mut self, now: Time) -> Vec<usize> {
        let mut touched = Vec::new();
        while let Some(next) = self.changes.iter_mut().filter(|change| change.at <= now).min_by_key(|change| change.at)
        {
            let Change { what, fails, outage, .. } = *next;
            if fails {
                next.at += outage.length;
            } else if let Some(every) = outage.every {
                next.at += every - outage.length;
            } else {
                next.at = Time::MAX;
            }
            next.fails = !fails;
            match what {
                What::Link(link) => self.change_link(now, link.into(), fails),
                What::Node(node) => self.change_node(now, node.into(), fails, &mut touched),
            }
            let count = self.stations.len();
            let places = match what {
                What::Link(link) => [usize::from(link), (usize::from(link) + 1) % count],
                What::Node(node) => [Side::East, Side::West].map(|side| self.neighbour(node.into(), side)),
            };
            for place in places {
                self.show_light(now, place);
                touched.push(place);
            }
            self.compare(now, fails);
        }
        touched
    }

    /// When something fails or comes back next.
    pub(crate) fn next_change(&self) -> Option<Time> {
        self.changes.iter().map(|change| change.at).min().filter(|at| *at < Time::MAX)
    }

    fn change_link(&mut self, now: Time, link: usize, fails: bool) {
        let next = (link + 1) % self.stations.len();
        for number in [way_of(link, Ringlet::Zero), way_of(next, Ringlet::One)] {
            if !fails {
                self.ways[number].mend();
                continue;
            }
            self.ways[number].cut();
            while let Some(load) = self.ways[number].poll_lost() {
                match load {
                    Load::Data(_, ticket) => {
                        self.ways[number].lost += 1;
                        self.inside -= 1;
                        self.outputs.extend(ticket.redeem().map(Output::Dropped));
                    }
                    Load::Control(frame, _) => {
                        self.control.unheard += 1;
                        self.buffers.push(frame);
                    }
                }
            }
        }
        let what = if fails { "link cut" } else { "link mended" };
        self.failures.tell(now, || format!("link {}", link + 1), what);
    }

    fn change_node(&mut self, now: Time, place: usize, fails: bool, touched: &mut Vec<usize>) {
        let station = &mut self.stations[place];
        let before = station.failures;
        station.failures = if fails { before + 1 } else { before.saturating_sub(1) };
        if fails && before == 0 {
            // Its packets are gone with it.
            station.node = None;
            station.wanted = None;
            self.settle(place);
            self.failures.tell(now, || NodeId::at(place).to_string(), "node failed");
        } else if !fails && before == 1 {
            // With the settings with which it began before.
            if self.start(now, place).is_err() {
                return;
            }
            self.failures.tell(now, || NodeId::at(place).to_string(), "node back");
            touched.push(place);
        }
    }

    /// A node sees whether there is light on its links.
    fn show_light(&mut self, now: Time, place: usize) {
        if !self.model.carrier || self.model.protection == model::Protection::None {
            return;
        }
        for side in Side::BOTH {
            let light = self.light(place, side);
            if let Some(node) = &mut self.stations[place].node {
                node.set_link(now, side, light);
            }
        }
        self.stations[place].fresh = true;
        self.settle(place);
    }

    /// The truth is another: every node's knowledge is compared with it anew.
    fn compare(&mut self, now: Time, fails: bool) {
        let count = self.stations.len();
        for (number, way) in self.ways.iter().enumerate() {
            let (place, ringlet) = (number / 2, Ringlet::BOTH[number % 2]);
            let other = if ringlet == Ringlet::Zero { (place + 1) % count } else { (place + count - 1) % count };
            let alive = self.stations[place].failures == 0 && self.stations[other].failures == 0;
            let known = Known { up: way.is_up() && alive, capacity: way.rate() };
            self.truth.set_way(NodeId::at(place), ringlet, known);
        }
        let were_astray = self.failures.any_astray();
        if fails {
            self.failures.fail(now);
        }
        for place in 0..count {
            self.judge(place);
        }
        self.failures.settle(now, were_astray);
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

    /// Packets dropped, by place and reason, nodes by their names.
    pub(crate) fn dropped(&self, scenario: &Scenario) -> Vec<Dropped> {
        let mut list = Vec::new();
        let mut count = |place: &dyn Fn() -> String, reason: &str, packets: u64| {
            if packets > 0 {
                list.push(Dropped { place: place(), reason: reason.to_owned(), packets });
            }
        };
        let name = &self.model.name;
        for (station, node) in self.stations.iter().zip(&self.model.nodes) {
            let place = || format!("{name}: {}", scenario.nodes[*node as usize].name);
            for ((reason, _), packets) in Stats::default().drops().iter().zip(station.dropped) {
                count(&place, reason, packets);
            }
            count(&place, FAILED, station.failed);
        }
        for (number, way) in self.ways.iter().enumerate() {
            let link = self.way_name(number);
            count(&|| format!("{name}: link {link}"), CUT, way.lost);
        }
        list
    }

    /// What a way is called: its link's number, and the ringlet where that is not 0.
    fn way_name(&self, number: usize) -> String {
        let ringlet = Ringlet::BOTH[number % 2];
        let link = link_of(number / 2, ringlet, self.stations.len()) + 1;
        if ringlet == Ringlet::Zero { link.to_string() } else { format!("{link}/1") }
    }

    /// Names of its series, with their units; whether each is a level.
    pub(crate) fn series(&self) -> impl Iterator<Item = (String, &'static str, bool)> + '_ {
        let name = &self.model.name;
        let limits =
            self.limits.list.iter().map(move |limit| (format!("ring {name} limit {}", limit.name), "bit/s", true));
        let used = self.present();
        limits
            .chain(used.map(move |way| (format!("ring {name} link {} throughput", self.way_name(way)), "bit/s", false)))
    }

    /// Values of its series now.
    pub(crate) fn sample(&self) -> impl Iterator<Item = f64> + '_ {
        let limits = self.limits.list.iter().map(Limit::value);
        limits.chain(self.present().map(|way| self.ways[way].carried as f64 * 8.0))
    }

    fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ways.len()).filter(|way| self.ways[*way].is_present())
    }

    /// The result of the measured time, which ends now.
    pub(crate) fn result(&mut self, scenario: &Scenario) -> RingResult {
        let (window, nominal) = (self.window, self.nominal.as_bits_per_sec() as f64);
        let nanos = (window.until.since(window.from).as_nanos() as f64).max(1.0);
        let link = |number: usize| {
            let (way, ringlet) = (&self.ways[number], Ringlet::BOTH[number % 2]);
            let meter = way.meter;
            RingLinkResult {
                name: self.way_name(number),
                link: link_of(number / 2, ringlet, self.stations.len()) as u8 + 1,
                ringlet: ringlet.index() as u8,
                packets: meter.packets,
                bytes: meter.bytes,
                load: meter.busy as f64 / nanos,
                control_load: meter.control_busy as f64 / nanos,
                control: meter.control,
                transit_max: self.stations[number / 2].transit_max[ringlet.index()],
                ahead_max: way.rate().bytes_in(meter.ahead).as_u64(),
            }
        };
        let links = self.present().map(link).collect();
        let limits = self.limits.list.iter_mut().map(|limit| limit.result(window, nominal)).collect();
        let control = &self.control;
        RingResult {
            name: self.model.name.clone(),
            algorithm: self.model.algorithm.to_string(),
            nominal,
            interval_s: self.model.interval.as_secs_f64(),
            limits,
            links,
            control: ControlResult {
                sent: control.sent,
                copies: control.copies,
                taken: control.taken,
                corrupted: control.corrupted,
                lost: control.lost,
                unheard: control.unheard,
                in_flight: self.ways.iter().map(|way| way.in_flight().1).sum(),
                refused: control.refused.clone(),
            },
            dropped: self.dropped(scenario),
            restored_s: self.failures.restored(),
            events: std::mem::take(&mut self.failures.events),
        }
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

/// What fails and comes back, each with its first time.
fn changes(model: &model::Ring) -> Vec<Change> {
    let first = |what: What| {
        move |outage: &Outage| Change { at: Time::ZERO + outage.start, what, outage: *outage, fails: true }
    };
    let links = model.links.iter().enumerate().filter(|(_, link)| link.present);
    let links = links.flat_map(|(place, link)| link.outages.iter().map(first(What::Link(place as u8))));
    let nodes = model.node_outages.iter().flat_map(|one| one.outages.iter().map(first(What::Node(one.node))));
    links.chain(nodes).collect()
}

/// The limiters between nodes that flows join, by node.
fn limits(scenario: &Scenario, number: usize, whole: &Topology, window: Window) -> Vec<Limit> {
    let model = &scenario.rings[number];
    if model.algorithm == Algorithm::Fifo {
        return Vec::new();
    }
    let fails = !changes(model).is_empty();
    let mut pairs = BTreeSet::new();
    for hop in scenario.flows.iter().flat_map(|flow| flow.path.iter().chain(&flow.back)) {
        let Hop::Ring(ring, way) = *hop else { continue };
        if ring as usize != number || usize::from(way.from.max(way.to)) >= model.nodes.len() {
            continue;
        }
        let usual = whole.route(NodeId::at(way.from.into()), NodeId::at(way.to.into())).map(|route| route.ringlet);
        for ringlet in Ringlet::BOTH {
            if way.ringlet.or(usual) == Some(ringlet) || fails {
                pairs.insert((way.from, way.to, ringlet, usual == Some(ringlet)));
            }
        }
    }
    let count = pairs.len();
    let limit = |(from, to, ringlet, usual): (u8, u8, Ringlet, bool)| {
        let pair = format!("{}-{}", u16::from(from) + 1, u16::from(to) + 1);
        let name = if usual { pair } else { format!("{pair}/{}", ringlet.index()) };
        let link = whole.way(NodeId::at(from.into()), ringlet).capacity;
        Limit::new(name, [from, to], ringlet, effect(None, link), window, count)
    };
    pairs.into_iter().map(limit).collect()
}

/// FNV-1a, for the log.
fn hash(frame: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    frame.iter().fold(0xcbf2_9ce4_8422_2325, fold)
}
