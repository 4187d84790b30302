//! A gateway that splits TCP connections, as a node: core's two servers, and the simulator's TCP between them.
//!
//! Packets that pass its node enter here. Those of a connection that is split have come to their receiver: the gateway's own
//! end takes them, and what it sends is new packets of the same flow. All others go on when they have been served. A connection is
//! split if its flow passes the gateway both ways and its first SYN came here; segments of one that the gateway does not
//! know pass.

mod connection;
mod meter;

use crate::engine::Engine;
use crate::engine::event::Event;
use crate::engine::log::What;
use crate::engine::pool::Handle;
use crate::engine::streams::{self, Purpose};
use crate::error::WorldError;
use crate::metrics::series;
use crate::model::{Flow, Hop, Scenario, Split as Model};
use crate::node::timer::Timer;
use crate::node::waiting::Waiting;
use crate::node::{Here, Next, Node, Output, Tell};
use crate::packet::{Body, Packet};
use crate::results::{Results, SplitResult};
use crate::tcp;
use crate::tcp::segment::{Flags, Segment};
use connection::Spliced;
use fairspan_core::buffer::Reason;
use fairspan_core::shared::Shared;
use fairspan_core::split::{Gateway, Mode, Side, Turn};
use fairspan_core::units::{Bytes, FlowNumber, Time};
use meter::Meter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Numbers of directions of split connections, which no flow of the scenario has.
const SPLIT: u32 = 1 << 31;

/// A flow of the scenario and its connection.
type Key = (u32, u32);

/// How a flow passes the gateway.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The steps behind the gateway, there and back; [`u32::MAX`]: it does not pass.
    steps: [u32; 2],
    /// Whether the next hop is long.
    long: [bool; 2],
    /// Numbers of the gateway's own packets.
    numbers: [u64; 2],
    /// The nodes where the flow begins and where it ends.
    ends: [u32; 2],
    dscp: u8,
}

#[derive(Debug, Default)]
struct Meters {
    queue: Meter,
    unsent: Meter,
    total: Meter,
}

/// A gateway that splits connections.
#[derive(Debug)]
pub(crate) struct Split {
    gateway: Gateway<Waiting>,
    tcp: [Shared<tcp::Config>; 2],
    ways: BTreeMap<u32, Way>,
    connections: BTreeMap<Key, Spliced>,
    /// When a connection's timer runs out.
    dues: BTreeSet<(Time, Key)>,
    /// Connections to which something happened.
    touched: VecDeque<Key>,
    /// Packets whose drop is still to be told.
    refused: VecDeque<(Handle, Reason)>,
    next_flow: u32,
    timer: Timer,
    polling: bool,
    meters: Meters,
    split: u64,
    passed: u64,
    dropped: BTreeMap<&'static str, u64>,
    unsent: u64,
    window: u64,
}

impl Split {
    /// The gateway `number` of a scenario; flows are still to be led through it: [`Split::connect`].
    pub(crate) fn new(scenario: &Scenario, number: usize) -> Result<Split, WorldError> {
        let model = &scenario.splits[number];
        let seed = streams::seed(scenario.seed, Purpose::Split, number as u64);
        let wrong = |error: String| WorldError::Split { split: model.name.clone(), error };
        Ok(Split {
            gateway: Gateway::new(&model.config, seed).map_err(|error| wrong(error.to_string()))?,
            tcp: [model.tcp.clone().into(), model.long_tcp.clone().into()],
            ways: BTreeMap::new(),
            connections: BTreeMap::new(),
            dues: BTreeSet::new(),
            touched: VecDeque::new(),
            refused: VecDeque::new(),
            next_flow: SPLIT,
            timer: Timer::IDLE,
            polling: false,
            meters: Meters::default(),
            split: 0,
            passed: 0,
            dropped: BTreeMap::new(),
            unsent: 0,
            window: 0,
        })
    }

    /// The flow `number` passes in this direction, over `hop` from here on; `step` is the one behind.
    pub(crate) fn connect(&mut self, model: &Model, number: u32, flow: &Flow, reverse: bool, step: u32, hop: Hop) {
        let ends = [flow.from, flow.to];
        let way = Way { steps: [u32::MAX; 2], long: [false; 2], numbers: [0; 2], ends, dscp: flow.dscp };
        let way = self.ways.entry(number).or_insert(way);
        way.steps[usize::from(reverse)] = step;
        way.long[usize::from(reverse)] = model.is_long(hop);
    }

    /// How packets of this flow and direction are told from others, and what they have for a send buffer.
    fn class(&self, packet: &Packet) -> (FlowNumber, u64) {
        if let Body::Segment(segment) = &packet.body
            && let Some(connection) = self.connections.get(&(packet.flow, packet.connection))
        {
            return (connection.flows[from(connection, packet.reverse) as usize], segment.length.into());
        }
        (FlowNumber(packet.flow << 1 | u32::from(packet.reverse)), 0)
    }

    fn touch(&mut self, key: Key) {
        if !self.touched.contains(&key) {
            self.touched.push_back(key);
        }
    }

    /// A packet has been served: `None` if it was for the gateway's own ends.
    fn take_up(&mut self, here: &mut Here<'_>, handle: Handle) -> Option<Output> {
        let packet = here.engine.pool.packet(handle);
        let (key, reverse) = ((packet.flow, packet.connection), packet.reverse);
        let segment = match packet.body {
            Body::Segment(segment) if self.is_split(here.now(), key, reverse, &segment) => segment,
            _ => {
                self.passed += u64::from(here.engine.measured().counts(here.now()));
                here.record(What::Left, handle);
                return Some(Output::Forward(handle));
            }
        };
        let now = here.now();
        here.engine.deliver(here.mark, handle);
        here.engine.pool.free(handle);
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.handle_segment(now, from(connection, reverse), &segment);
            self.touch(key);
        }
        None
    }

    /// Whether a segment is for the gateway's ends; a first SYN makes them.
    fn is_split(&mut self, now: Time, key: Key, reverse: bool, segment: &Segment) -> bool {
        if self.connections.contains_key(&key) {
            return true;
        }
        let Some(way) = self.ways.get(&key.0).filter(|way| !way.steps.contains(&u32::MAX)) else { return false };
        if !segment.flags.has(Flags::SYN) || segment.flags.has(Flags::ACK) {
            return false;
        }
        // Towards the caller packets go against its direction.
        let settings = [!reverse, reverse].map(|to| self.tcp[usize::from(way.long[usize::from(to)])].clone());
        let flows = [FlowNumber(self.next_flow), FlowNumber(self.next_flow + 1)];
        self.next_flow = self.next_flow.wrapping_add(2) | SPLIT;
        flows.iter().for_each(|flow| self.gateway.open(now, *flow));
        self.connections.insert(key, Spliced::new(settings, *segment, reverse, flows));
        self.split += 1;
        true
    }

    /// The next packet of a connection that something happened to.
    fn send_next(&mut self, here: &mut Here<'_>) -> bool {
        let now = here.now();
        let Some(&key) = self.touched.front() else { return false };
        if let Some(connection) = self.connections.get_mut(&key) {
            let gateway = &self.gateway;
            connection.advance(now, |flow| gateway.window(flow).map(Bytes::as_u64));
            if let Some((reverse, size, segment)) = connection.poll_transmit(now) {
                let flow = connection.flows[from(connection, reverse) as usize];
                self.send(here, key, reverse, flow, size, segment);
                return true;
            }
            if self.tell_levels(now, key) {
                return true;
            }
            self.settle(key);
        }
        self.touched.pop_front();
        true
    }

    fn send(&mut self, here: &mut Here<'_>, key: Key, reverse: bool, flow: FlowNumber, size: u32, segment: Segment) {
        let Some(way) = self.ways.get_mut(&key.0) else { return };
        let at = usize::from(reverse);
        let packet = Packet {
            flow: key.0,
            reverse,
            number: way.numbers[at],
            size,
            created: here.now(),
            connection: key.1,
            step: way.steps[at],
            dscp: way.dscp,
            body: Body::Segment(segment),
        };
        way.numbers[at] += 1;
        let handle = here.engine.launch(here.mark, packet);
        let packet = Waiting::new(handle, size, way.ends, reverse, way.dscp);
        if let Err((packet, reason)) = self.gateway.handle_processed(here.now(), flow, packet) {
            self.refused.push_back((packet.packet, reason));
        }
    }

    /// Tells what the send buffers of a connection are like: whether other windows may be offered for it.
    fn tell_levels(&mut self, now: Time, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else { return false };
        let (mut unsent, mut changed) = (0, false);
        for side in Side::BOTH {
            let (flow, level) = (connection.flows[side as usize], connection.level(side));
            unsent += level.unsent;
            let before = self.gateway.window(flow);
            self.gateway.on_level(now, flow, &level);
            changed |= self.gateway.window(flow) != before;
        }
        let window = Side::BOTH.into_iter().map(|side| connection.window(side)).max().unwrap_or(0);
        self.unsent = self.unsent + unsent - std::mem::replace(&mut connection.unsent, unsent);
        self.window = self.window + window - std::mem::replace(&mut connection.window, window);
        changed
    }

    /// Nothing is left to be sent for a connection: sets its timer, or forgets it.
    fn settle(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let due = connection.poll_timeout();
        let before = std::mem::replace(&mut connection.due, due);
        if connection.is_over() {
            self.dues.remove(&(before, key));
            let flows = connection.flows;
            (self.unsent, self.window) = (self.unsent - connection.unsent, self.window - connection.window);
            self.connections.remove(&key);
            flows.iter().for_each(|flow| self.gateway.close(*flow));
        } else if due != before {
            self.dues.remove(&(before, key));
            if due < Time::MAX {
                self.dues.insert((due, key));
            }
        }
    }

    fn measure(&mut self, engine: &Engine) {
        let (now, measured, queue) = (engine.now(), engine.measured(), self.gateway.waiting().1.as_u64());
        self.meters.queue.set(now, measured, queue);
        self.meters.unsent.set(now, measured, self.unsent);
        self.meters.total.set(now, measured, queue + self.unsent);
    }

    /// Nothing is left to be done now: sets the timer.
    fn rest(&mut self, here: &mut Here<'_>) {
        self.polling = false;
        self.measure(here.engine);
        let due = self.dues.first().map_or(Time::MAX, |(due, _)| *due);
        let wanted = self.gateway.poll_timeout().map_or(due, |at| at.min(due)).max(here.now());
        if wanted <= here.engine.end() && self.timer.set(wanted) {
            here.schedule(0, wanted);
        }
    }

    fn begin_polling(&mut self) -> Next {
        if std::mem::replace(&mut self.polling, true) { Next::Nothing } else { Next::Poll(0) }
    }

    fn next_dropped(&mut self) -> Option<Handle> {
        let (handle, reason) = match self.refused.pop_front() {
            Some(refused) => refused,
            None => self.gateway.poll_dropped().map(|(packet, reason)| (packet.packet, reason))?,
        };
        *self.dropped.entry(reason.name()).or_default() += 1;
        Some(handle)
    }
}

/// The side from which packets of this direction come.
fn from(connection: &Spliced, reverse: bool) -> Side {
    if connection.reverse == reverse { Side::Caller } else { Side::Called }
}

impl Node for Split {
    fn handle_packet(&mut self, mut here: Here<'_>, _: u32, handle: Handle) -> Next {
        if self.gateway.config().mode == Mode::Off {
            return Next::Only(Output::Forward(handle));
        }
        here.record(What::Entered, handle);
        let packet = here.engine.pool.packet(handle);
        let (flow, payload) = self.class(&packet);
        let ends = self.ways.get(&packet.flow).map_or([0; 2], |way| way.ends);
        let waiting = Waiting::new(handle, packet.size, ends, packet.reverse, packet.dscp);
        if let Err((packet, reason)) = self.gateway.handle_packet(here.now(), flow, payload, waiting) {
            self.refused.push_back((packet.packet, reason));
        }
        self.begin_polling()
    }

    fn handle_timeout(&mut self, here: Here<'_>, _: u32, _: Event) -> Next {
        let now = here.now();
        if !self.timer.fire(now) {
            return Next::Nothing;
        }
        while let Some(&(due, key)) = self.dues.first().filter(|(due, _)| *due <= now) {
            self.dues.remove(&(due, key));
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.due = Time::MAX;
                connection.handle_timeout(now);
                self.touch(key);
            }
        }
        self.begin_polling()
    }

    fn poll(&mut self, mut here: Here<'_>, _: u32) -> Option<Output> {
        loop {
            if let Some(handle) = self.next_dropped() {
                return Some(Output::Dropped(handle));
            }
            if self.send_next(&mut here) {
                continue;
            }
            match self.gateway.poll(here.now()) {
                Some(Turn::Out(packet)) => {
                    here.record(What::Left, packet.packet);
                    return Some(Output::Forward(packet.packet));
                }
                Some(Turn::Up(packet)) => {
                    if let Some(output) = self.take_up(&mut here, packet.packet) {
                        return Some(output);
                    }
                }
                None => {
                    self.rest(&mut here);
                    return None;
                }
            }
        }
    }

    fn in_flight(&self) -> u64 {
        self.gateway.packets() + self.refused.len() as u64
    }

    fn dropped(&self, name: &str, tell: Tell<'_>) {
        for (reason, packets) in &self.dropped {
            tell(name, reason, *packets);
        }
    }

    fn series(&self, name: &str, tell: &mut dyn FnMut(String, &'static str, series::Kind)) {
        for what in ["queue", "unsent", "window"] {
            tell(format!("split {name} {what}"), "bytes", series::Kind::Level);
        }
    }

    fn sample(&mut self, _: Time, tell: &mut dyn FnMut(f64)) {
        for value in [self.gateway.waiting().1.as_u64(), self.unsent, self.window] {
            tell(value as f64);
        }
    }

    fn result(&mut self, here: Here<'_>, name: &str, results: &mut Results) {
        let (now, measured) = (here.now(), here.engine.measured());
        self.measure(here.engine);
        results.splits.push(SplitResult {
            name: name.to_owned(),
            connections: self.split,
            open: self.connections.len() as u64,
            passed: self.passed,
            dropped: self.dropped.values().sum(),
            queue: self.meters.queue.result(now, measured),
            unsent: self.meters.unsent.result(now, measured),
            total: self.meters.total.result(now, measured),
        });
    }
}
