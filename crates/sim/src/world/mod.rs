//! The world: a scenario while it runs.
//!
//! The calendar has at most one live event for each link, source, timer and processor, not one for each packet: a
//! packet's own events lie in the ring of the link that it crosses. A packet that leaves a link is offered to the next
//! one at once, so a hop costs one event.
//!
//! ```
//! use fairspan_sim::results::Results;
//! use fairspan_sim::model::Scenario;
//! use fairspan_sim::world::{World, WorldError};
//!
//! fn run(scenario: &Scenario) -> Result<Results, WorldError> {
//!     let mut world = World::new(scenario)?;
//!     while !world.advance_some(world.end(), 1_000_000) {
//!         // Progress can be shown here, captured packets taken, or the run given up.
//!         println!("{} s", world.now().as_secs_f64());
//!     }
//!     world.finish()
//! }
//! ```

mod bonds;
mod error;
mod flow;
mod link;
mod outbox;
mod processor;
mod rings;
mod route;

pub use error::WorldError;

use crate::endpoint::Outgoing;
use crate::engine::calendar::Calendar;
use crate::engine::event::Event;
use crate::engine::log::{Log, What};
use crate::engine::pool::{Handle, Pool};
use crate::engine::streams::{self, Purpose};
use crate::metrics::series::Kind;
use crate::metrics::{self, FlowMeter, Recorder};
use crate::model::{self, Scenario, Transport};
use crate::packet::{Body, Packet};
use crate::results::{Captured, Conservation, Dropped, FlowResult, Results};
use crate::traffic::application;
use crate::traffic::clock::Drift;
use crate::traffic::{self, Source};
use crate::wire;
use bonds::Joined;
use fairspan_core::link::Capacity;
use fairspan_core::units::{Span, Time};
use flow::{Agent, Attached, Flow, Timer, Wander};
use link::{Arrival, At, CAUSES, Link, Measured};
use outbox::Outbox;
use processor::{Processor, Turn};
use rings::Circle;
use route::{Routes, Step};
use std::sync::Arc;

/// Whom an event is for: the kind in the upper four bits of a place, its number below.
const NUMBER_BITS: u32 = 23;
const MOST: usize = 1 << NUMBER_BITS;
/// The first packet of a link has left its far end.
const LINK: u32 = 0;
/// A link with a discipline has transmitted a packet.
const TRANSMITTED: u32 = 1;
/// A source sends.
const SOURCE: u32 = 2;
/// A flow begins, ends, or its timer runs out.
const TIMER: u32 = 3;
/// A processor has served a packet.
const PROCESSOR: u32 = 4;
/// The warm-up is over.
const MEASURE: u32 = 5;
/// The series' next point is due.
const SAMPLE: u32 = 6;
/// A timer of a bond's end has run out.
const BOND: u32 = 7;
/// A packet leaves the sending end of a flow, or the receiving one.
const LEAVES: u32 = 8;
const ANSWERS: u32 = 9;
/// The first frame under way on a way of a ring has arrived.
const RING_WAY: u32 = 10;
/// A timer of a ring's node has run out.
const RING_NODE: u32 = 11;
/// A link or node of a ring fails, or comes back.
const RING_CHANGE: u32 = 12;
/// Flows and links, of some 300 bytes each, that a core's own cache holds.
const LARGE: usize = 4000;
/// Places in the log beyond the links: nodes, sources and receivers, bonds, rings.
const NODES: u32 = 1 << 30;
const ENDS: u32 = 1 << 31;
const BONDS: u32 = 3 << 30;
const RINGS: u32 = 5 << 29;

const _: () = assert!(RING_CHANGE < Event::PLACES >> NUMBER_BITS, "a place has no room for the kinds");

const fn place(kind: u32, number: u32) -> u32 {
    (kind << NUMBER_BITS) | number
}

/// A scenario while it runs.
#[derive(Debug)]
pub struct World {
    now: Time,
    end: Time,
    calendar: Calendar,
    /// Insertions so far.
    order: u64,
    events: u64,
    log: Log,
    pool: Pool,
    steps: Vec<Step>,
    /// See [`Routes::cards`].
    cards: Vec<model::Card>,
    links: Vec<Link>,
    processors: Vec<Option<Box<Processor>>>,
    flows: Vec<Flow>,
    sent: u64,
    delivered: u64,
    captured: Vec<Captured>,
    recorder: Recorder,
    bonds: Vec<Joined>,
    rings: Vec<Circle>,
    measured: Measured,
    /// Flows and links do not fit into a core's own cache.
    large: bool,
    /// What only the results need.
    scenario: Arc<Scenario>,
}

impl World {
    /// The world of a scenario, at time zero.
    ///
    /// # Errors
    /// What cannot be run, by name.
    pub fn new(scenario: &Scenario) -> Result<World, WorldError> {
        World::shared(Arc::new(scenario.clone()))
    }

    /// As [`World::new`], without a copy of the scenario.
    ///
    /// # Errors
    /// What cannot be run, by name.
    pub fn shared(shared: Arc<Scenario>) -> Result<World, WorldError> {
        let scenario = &*shared;
        let end = Time::ZERO + scenario.duration;
        if end >= Event::LAST {
            return Err(WorldError::TooLong { seconds: scenario.duration.as_secs_f64() });
        }
        for (what, count, most) in [
            ("nodes", scenario.nodes.len(), MOST),
            ("links", scenario.links.len(), MOST),
            ("flows", scenario.flows.len(), MOST),
            ("bonds", scenario.bonds.len(), MOST),
            ("rings", scenario.rings.len(), rings::MOST_RINGS),
        ] {
            if count > most {
                return Err(WorldError::TooMany { what, count, most });
            }
        }
        let mut routes = Routes::new(scenario)?;
        let mut flows = Vec::with_capacity(scenario.flows.len());
        for number in 0..scenario.flows.len() {
            flows.push(flow(scenario, number, &mut routes)?);
        }
        let bonds = bonds::join(scenario, &mut routes)?;
        let rings = rings::close(scenario)?;
        let mut capture = vec![false; scenario.links.len()];
        for &link in &scenario.metrics.capture {
            let unknown = || WorldError::Unknown {
                what: "the capture".to_string(),
                kind: "link",
                number: link,
                count: scenario.links.len(),
            };
            *capture.get_mut(link as usize).ok_or_else(unknown)? = true;
        }
        let periodic = link::periodic(scenario);
        let links = scenario.links.iter().enumerate();
        let links = links.map(|(n, link)| Link::new(link, n, scenario, capture[n], periodic[n]));
        let links = links.collect::<Result<Vec<Link>, WorldError>>()?;
        let processors = scenario.nodes.iter().zip(&routes.counts).enumerate().map(|(n, (node, &interfaces))| {
            let processor = || Box::new(Processor::new(&node.cost, interfaces, scenario.seed, n as u32));
            node.cost.any().then(processor)
        });
        let mut world = World {
            now: Time::ZERO,
            end,
            calendar: Calendar::new(),
            order: 0,
            events: 0,
            log: Log::default(),
            pool: Pool::default(),
            processors: processors.collect(),
            steps: routes.steps,
            cards: routes.cards,
            links,
            flows,
            sent: 0,
            delivered: 0,
            captured: Vec::new(),
            recorder: Recorder::new(scenario.metrics.series),
            bonds,
            rings,
            measured: Measured::new(scenario),
            large: scenario.flows.len() + scenario.links.len() > LARGE,
            scenario: Arc::clone(&shared),
        };
        // Before everything else at that instant.
        if scenario.warm_up > Span::ZERO {
            world.schedule(Time::ZERO + scenario.warm_up, place(MEASURE, 0));
        }
        world.begin_series();
        for number in 0..world.flows.len() as u32 {
            world.begin(number);
        }
        world.begin_bonds();
        world.begin_rings();
        Ok(world)
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When the scenario ends.
    pub fn end(&self) -> Time {
        self.end
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Hash of the event log so far.
    pub fn log_hash(&self) -> u64 {
        self.log.hash()
    }

    /// Handles all events up to and at `until`, which is not beyond the scenario's end.
    pub fn advance(&mut self, until: Time) {
        self.advance_some(until, u64::MAX);
    }

    /// Handles events up to and at `until`, but not more than `most` of them: whether `until` was reached.
    pub fn advance_some(&mut self, until: Time, most: u64) -> bool {
        let until = until.min(self.end);
        let mut left = most;
        while left > 0 {
            let Some(event) = self.calendar.pop(until.as_nanos()) else {
                self.now = self.now.max(until);
                return true;
            };
            left -= 1;
            self.events += 1;
            self.now = event.time();
            if self.large {
                self.bring_near();
            }
            self.handle(event);
        }
        false
    }

    /// Reads what the coming events will need, of all of them together, so that the memory's latency is waited for once.
    /// One event after the other would wait for each link of the chain from a flow by its path to its link.
    #[inline]
    fn bring_near(&mut self) {
        let mut read = 0;
        for event in self.calendar.coming() {
            let number = (event.place() & (MOST as u32 - 1)) as usize;
            match event.place() >> NUMBER_BITS {
                SOURCE => {
                    let flow = &self.flows[number];
                    read ^= flow.next_size;
                    if let Step::Link(link) = self.steps[flow.entry[0] as usize] {
                        read ^= self.links[link as usize].read();
                    }
                }
                LINK => {
                    let link = &self.links[number];
                    let packet = &self.pool[link.first()];
                    if let Some(flow) = self.flows.get(packet.flow as usize) {
                        read ^= flow.meter.bytes() as u32 ^ flow.next_size;
                    }
                }
                _ => {}
            }
        }
        std::hint::black_box(read);
    }

    /// Takes the packets that recorded links have passed since the last call, in the order of their time.
    pub fn take_captured(&mut self) -> Vec<Captured> {
        std::mem::take(&mut self.captured)
    }

    /// Counts where all packets are.
    ///
    /// # Errors
    /// [`WorldError::Conservation`] with the numbers, if some are missing or too many.
    pub fn check_conservation(&self) -> Result<Conservation, WorldError> {
        let mut conservation = Conservation {
            sent: self.sent,
            delivered: self.delivered,
            dropped: Vec::new(),
            in_flight: self.links.iter().map(Link::in_flight).sum::<u64>()
                + self.processors.iter().flatten().map(|processor| processor.in_flight()).sum::<u64>()
                + self.bonds.iter().map(|joined| joined.bond.in_flight()).sum::<u64>()
                + self.rings.iter().map(|circle| circle.ring.in_flight()).sum::<u64>(),
        };
        let dropped = &mut conservation.dropped;
        let mut count = |place: &str, reason: &str, packets: u64| {
            if packets > 0 {
                dropped.push(Dropped { place: place.to_string(), reason: reason.to_string(), packets });
            }
        };
        for (link, model) in self.links.iter().zip(&self.scenario.links) {
            for (reason, &packets) in CAUSES.iter().zip(&link.dropped().all) {
                count(&model.name, reason, packets);
            }
        }
        for (joined, model) in self.bonds.iter().zip(&self.scenario.bonds) {
            for (reason, packets) in joined.bond.dropped() {
                count(&model.name, reason, packets);
            }
        }
        for dropped in self.rings.iter().flat_map(|circle| circle.ring.dropped(&self.scenario)) {
            count(&dropped.place, &dropped.reason, dropped.packets);
        }
        for (processor, model) in self.processors.iter().zip(&self.scenario.nodes) {
            count(&model.name, "processor", processor.as_ref().map_or(0, |processor| processor.dropped));
        }
        let gone: u64 = conservation.dropped.iter().map(|dropped| dropped.packets).sum();
        let accounted = conservation.delivered + gone + conservation.in_flight;
        if accounted != conservation.sent || self.pool.live() as u64 != conservation.in_flight {
            return Err(WorldError::Conservation(conservation));
        }
        Ok(conservation)
    }

    /// Runs to the scenario's end and gives what was measured.
    ///
    /// # Errors
    /// [`WorldError::Conservation`].
    pub fn finish(mut self) -> Result<Results, WorldError> {
        self.advance(self.end);
        let conservation = self.check_conservation()?;
        let measured = self.scenario.duration - self.scenario.warm_up;
        let seconds = measured.as_secs_f64();
        let flows = self.flows.iter().zip(&self.scenario.flows).map(|(flow, model)| {
            let mut result = flow.meter.result(&model.name, measured, flow.sent());
            if let Some(endpoint) = flow.agent.endpoint() {
                (result.tcp, result.transfers) = (endpoint.tcp(), endpoint.transfers());
            }
            result
        });
        let flows: Vec<FlowResult> = flows.collect();
        let at = At { now: self.end, measured: self.measured, order: &mut self.order };
        let links = self.links.iter_mut().zip(&self.scenario.links);
        let links = links.map(|(link, model)| link.result(&at, &model.name));
        let links = links.collect();
        let active = flows.iter().filter(|flow| flow.sent + flow.received > 0);
        let rings = self.ring_results();
        let jain = metrics::jain(active.map(|flow| flow.goodput));
        Ok(Results {
            seed: self.scenario.seed,
            measured_s: seconds,
            events: self.events,
            log_hash: self.log.hash(),
            conservation,
            jain,
            goodput: flows.iter().map(|flow| flow.goodput).sum(),
            flows,
            links,
            bonds: self.bond_results(),
            rings,
            series_interval_s: self.recorder.interval().as_secs_f64(),
            series: self.recorder.into_series(),
        })
    }

    #[inline]
    fn schedule(&mut self, time: Time, place: u32) {
        self.order += 1;
        if time <= self.end {
            self.calendar.push(Event::new(time, self.order, place));
        }
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        let number = event.place() & (MOST as u32 - 1);
        match event.place() >> NUMBER_BITS {
            LINK => self.on_link(number, event),
            SOURCE => self.on_source(number),
            TIMER => self.on_timer(number),
            TRANSMITTED => self.on_transmitted(number),
            PROCESSOR => self.on_processor(number),
            MEASURE => self.on_measure(),
            SAMPLE => self.on_sample(),
            BOND => self.on_bond(number),
            RING_WAY => self.on_ring_way(number, event),
            RING_NODE => self.on_ring_node(number),
            RING_CHANGE => self.on_ring_change(number),
            LEAVES => self.on_leaving(number, false),
            ANSWERS => self.on_leaving(number, true),
            kind => debug_assert!(false, "an event of kind {kind}"),
        }
    }

    /// Names the series and puts in their first event.
    fn begin_series(&mut self) {
        if self.recorder.due().is_none() {
            return;
        }
        for (flow, model) in self.flows.iter().zip(&self.scenario.flows) {
            self.recorder.add(format!("flow {} throughput", model.name), "bit/s", Kind::Rate);
            if flow.agent.endpoint().is_some_and(|endpoint| endpoint.window().is_some()) {
                self.recorder.add(format!("flow {} window", model.name), "bytes", Kind::Level);
            }
        }
        for model in &self.scenario.links {
            self.recorder.add(format!("link {} queue", model.name), "bytes", Kind::Level);
        }
        for circle in &self.rings {
            for (name, unit, level) in circle.ring.series() {
                self.recorder.add(name, unit, if level { Kind::Level } else { Kind::Rate });
            }
        }
        self.arm_series();
    }

    fn arm_series(&mut self) {
        if let Some(due) = self.recorder.due() {
            self.schedule(due, place(SAMPLE, 0));
        }
    }

    fn on_sample(&mut self) {
        let now = self.now;
        let flows = self.flows.iter().flat_map(|flow| {
            let window = flow.agent.endpoint().and_then(|endpoint| endpoint.window());
            [Some(flow.meter.bytes() as f64 * 8.0), window.map(|window| window as f64)].into_iter().flatten()
        });
        let links = self.links.iter_mut().map(|link| link.waiting_bytes(now) as f64);
        let rings = self.rings.iter().flat_map(|circle| circle.ring.sample());
        self.recorder.sample(flows.chain(links).chain(rings));
        self.arm_series();
    }

    /// Meters begin anew. Links' meters know the measured time by themselves, since a packet's fate is decided early.
    fn on_measure(&mut self) {
        let mut series = 0;
        for flow in &mut self.flows {
            self.recorder.restart(series, flow.meter.bytes() as f64 * 8.0);
            flow.meter.begin();
            flow.sent_before = flow.numbers[0];
            series += 1;
            if let Some(attached) = flow.agent.attached() {
                series += usize::from(attached.endpoint.window().is_some());
                attached.endpoint.begin();
            }
        }
    }

    /// Puts in a flow's first events.
    fn begin(&mut self, number: u32) {
        match &mut self.flows[number as usize].agent {
            Agent::Metronome(_) | Agent::Source(_) => self.arm_source(number),
            Agent::Endpoint(attached) => {
                let start = attached.start;
                if start < attached.stop && start <= self.end && attached.timer.set(start) {
                    self.schedule(start, place(TIMER, number));
                }
            }
            Agent::Done => {}
        }
    }

    #[inline]
    fn arm_source(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let next = match &mut flow.agent {
            Agent::Metronome(source) => source.next(flow.stop),
            Agent::Source(source) => source.next(),
            _ => return,
        };
        match next {
            Some((time, size)) => {
                flow.next_size = size;
                let time = flow.wander.after(time, flow.stop);
                self.schedule(time, place(SOURCE, number));
            }
            None => flow.agent = Agent::Done,
        }
    }

    #[inline]
    fn on_source(&mut self, number: u32) {
        let size = self.flows[number as usize].next_size;
        self.arm_source(number);
        self.launch(number, false, 0, size, Body::Datagram);
    }

    fn on_timer(&mut self, number: u32) {
        let now = self.now;
        let Some(attached) = self.flows[number as usize].agent.attached() else { return };
        if !attached.timer.fire(now) {
            return;
        }
        if now >= attached.start && !attached.begun {
            attached.begun = true;
            attached.endpoint.start(now);
        }
        if attached.endpoint.poll_timeout().is_some_and(|time| time <= now) {
            attached.endpoint.handle_timeout(now);
        }
        if now >= attached.stop && !attached.stopped {
            attached.stopped = true;
            attached.endpoint.stop(now);
        }
        self.drain(number);
    }

    /// Sends what a flow's ends want to send, and sets its timer.
    fn drain(&mut self, number: u32) {
        let now = self.now;
        loop {
            let Some(attached) = self.flows[number as usize].agent.attached() else { return };
            let Some(outgoing) = attached.endpoint.poll_transmit(now) else { break };
            match &mut attached.outbox {
                Some(outbox) => {
                    let kind = if outgoing.reverse { ANSWERS } else { LEAVES };
                    let time = outbox.push(now, outgoing);
                    self.schedule(time, place(kind, number));
                }
                None => self.launch_outgoing(number, outgoing),
            }
        }
        let flow = &mut self.flows[number as usize];
        let Some(attached) = flow.agent.attached() else { return };
        let delivered = attached.endpoint.poll_delivered();
        let mut wanted = attached.endpoint.poll_timeout().unwrap_or(Time::MAX);
        if !attached.stopped {
            wanted = wanted.min(attached.stop);
        }
        let wanted = wanted.max(now);
        let due = wanted <= self.end && attached.timer.set(wanted);
        if delivered > 0 {
            flow.meter.handle_goodput(delivered);
        }
        if due {
            self.schedule(wanted, place(TIMER, number));
        }
    }

    fn on_leaving(&mut self, number: u32, reverse: bool) {
        let attached = self.flows[number as usize].agent.attached();
        let outbox = attached.and_then(|attached| attached.outbox.as_mut());
        if let Some(outgoing) = outbox.and_then(|outbox| outbox.pop(reverse)) {
            self.launch_outgoing(number, outgoing);
        }
    }

    #[inline]
    fn launch_outgoing(&mut self, number: u32, outgoing: Outgoing) {
        let Outgoing { reverse, connection, size, body } = outgoing;
        self.launch(number, reverse, connection, size, body);
    }

    /// A packet begins its way.
    #[inline]
    fn launch(&mut self, number: u32, reverse: bool, connection: u32, size: u32, body: Body) {
        let now = self.now;
        let flow = &mut self.flows[number as usize];
        let way = usize::from(reverse);
        let sequence = flow.numbers[way];
        flow.numbers[way] += 1;
        let packet = Packet {
            flow: number,
            reverse,
            number: sequence,
            size,
            created: now,
            connection,
            step: flow.entry[way],
            body,
        };
        self.sent += 1;
        self.log.record(What::Sent, now, ENDS, number << 1 | u32::from(reverse), sequence);
        let handle = self.pool.insert(packet);
        self.proceed(handle);
    }

    /// A packet goes to its next step.
    #[inline]
    fn proceed(&mut self, handle: Handle) {
        let packet = &mut self.pool[handle];
        let step = self.steps[packet.step as usize];
        packet.step += 1;
        match step {
            Step::Link(link) => self.offer(link, handle),
            Step::Deliver => self.deliver(handle),
            Step::Process { node, interface, work, cards } => {
                let (now, size) = (self.now, packet.size);
                let Some(processor) = &mut self.processors[node as usize] else { return self.proceed(handle) };
                match processor.offer(now, handle, size, interface, work, self.cards[cards as usize]) {
                    Turn::Until(time) => self.schedule(time, place(PROCESSOR, node)),
                    Turn::Waits => {}
                    Turn::Dropped => self.discard(handle, NODES | node),
                }
            }
            Step::Bond { bond, end } => self.enter_bond(bond, end, handle),
            Step::Ring { ring, way } => self.enter_ring(ring, way, handle),
            Step::Frame { bond, end, channel } => self.take_frame(bond, end, channel, handle),
        }
    }

    #[inline]
    fn offer(&mut self, number: u32, handle: Handle) {
        let now = self.now;
        let packet = &self.pool[handle];
        let (flow, way) = (packet.flow, u32::from(packet.reverse));
        self.log.record(What::Entered, now, number, flow << 1 | way, packet.number);
        let link = &mut self.links[number as usize];
        let at = At { now, measured: self.measured, order: &mut self.order };
        let arrival = link.offer(at, handle, packet.size, flow << 1 | way);
        match arrival {
            Arrival::Waits => {}
            Arrival::Arm(event) => self.arm_link(number, event),
            Arrival::Dropped(_) => self.discard(handle, number),
        }
        if self.links[number as usize].has_discipline() {
            self.after_queue(number);
        }
    }

    #[inline]
    fn arm_link(&mut self, number: u32, event: Event) {
        self.calendar.push(event.for_place(place(LINK, number)));
    }

    /// A discipline may have dropped packets and begun a transmission.
    fn after_queue(&mut self, number: u32) {
        while let Some((handle, _)) = self.links[number as usize].poll_dropped() {
            self.discard(handle, number);
        }
        if let Some(end) = self.links[number as usize].poll_begun() {
            self.schedule(end, place(TRANSMITTED, number));
        }
    }

    fn on_transmitted(&mut self, number: u32) {
        let at = At { now: self.now, measured: self.measured, order: &mut self.order };
        if let Arrival::Arm(event) = self.links[number as usize].transmitted(at) {
            self.arm_link(number, event);
        }
        self.after_queue(number);
    }

    #[inline]
    fn on_link(&mut self, number: u32, event: Event) {
        let now = self.now;
        let link = &mut self.links[number as usize];
        let Some((handle, next)) = link.leave(event) else { return };
        let packet = &self.pool[handle];
        link.count_passed(now, self.measured, packet.size);
        let capture = link.capture;
        self.log.record(What::Left, now, number, packet.flow << 1 | u32::from(packet.reverse), packet.number);
        if let Some(next) = next {
            self.arm_link(number, next);
        }
        if capture {
            self.capture(number, handle);
        }
        self.proceed(handle);
    }

    fn capture(&mut self, number: u32, handle: Handle) {
        let packet = &self.pool[handle];
        let mut bytes = [0; wire::MOST_HEADERS];
        let length = wire::headers(packet, &mut bytes).min(packet.size as usize);
        let mut bytes = bytes[..length].to_vec();
        if let Body::Frame(content) = packet.body {
            self.write_frame(packet.flow, content, &mut bytes);
            bytes.truncate(packet.size as usize);
        }
        self.captured.push(Captured { at: self.now.since(Time::ZERO), link: number, bytes, length: packet.size });
    }

    fn on_processor(&mut self, node: u32) {
        let now = self.now;
        let served = self.processors[node as usize].as_mut().and_then(|processor| processor.finish());
        if let Some(handle) = served {
            self.proceed(handle);
        }
        let next = self.processors[node as usize].as_mut().and_then(|processor| processor.proceed(now));
        if let Some(time) = next {
            self.schedule(time, place(PROCESSOR, node));
        }
    }

    /// A packet has come to its receiver.
    #[inline]
    fn deliver(&mut self, handle: Handle) {
        let now = self.now;
        let packet = &self.pool[handle];
        let number = packet.flow;
        let flow = &mut self.flows[number as usize];
        self.delivered += 1;
        self.log.record(What::Delivered, now, ENDS, number << 1 | u32::from(packet.reverse), packet.number);
        if !packet.reverse {
            match &packet.body {
                Body::Segment(segment) => {
                    let (number, connection) = (packet.number, packet.connection);
                    flow.meter.handle_segment(now, packet.created, number, packet.size, connection, segment);
                }
                _ => flow.meter.handle_datagram(now, packet.created, packet.number, packet.size),
            }
        }
        let Some(attached) = flow.agent.attached() else {
            flow.meter.handle_goodput(u64::from(packet.size.saturating_sub(flow.header)));
            return self.pool.free(handle);
        };
        let handled = attached.endpoint.handle_packet(now, packet);
        if handled.out_of_order {
            let model = &self.scenario.flows[number as usize];
            let node = if packet.reverse { model.from } else { model.to };
            if let Some(processor) = &mut self.processors[node as usize] {
                processor.charge_out_of_order();
            }
        }
        self.pool.free(handle);
        self.drain(number);
    }

    /// A packet is lost at a place.
    fn discard(&mut self, handle: Handle, place: u32) {
        let packet = &self.pool[handle];
        let way = u32::from(packet.reverse);
        self.log.record(What::Dropped, self.now, place, packet.flow << 1 | way, packet.number);
        if let Body::Frame(content) = packet.body {
            let flow = packet.flow;
            self.pool.free(handle);
            return self.lose_frame(flow, content);
        }
        if !packet.reverse {
            self.flows[packet.flow as usize].meter.handle_dropped();
        }
        self.pool.free(handle);
    }
}

/// One flow, with its paths compiled.
fn flow(scenario: &Scenario, number: usize, routes: &mut Routes<'_>) -> Result<Flow, WorldError> {
    let model = &scenario.flows[number];
    let wrong = |error: String| WorldError::Flow { flow: model.name.clone(), error };
    let there = || format!("flow `{}`", model.name);
    let back = || format!("flow `{}`, back", model.name);
    let first = routes.add(&there, model.from, &model.path, model.to, Step::Deliver)?;
    let answers = !model.back.is_empty();
    let second = if answers { routes.add(&back, model.to, &model.back, model.from, Step::Deliver)? } else { u32::MAX };
    let mut drift = streams::stream(scenario.seed, Purpose::Drift, number as u64);
    let most = f64::from(scenario.drift_ppm);
    let part = drift.unit();
    let ppm = model.drift_ppm.unwrap_or(most * (2.0 * part - 1.0));
    let wander = match &model.traffic {
        traffic::Config::Constant { rate, size } if scenario.drift_ppm > 0 => {
            Wander::new(size.mean() * 8e9 / rate.as_bits_per_sec().max(1) as f64, &mut drift)
        }
        _ => Wander::NONE,
    };
    let rng = streams::stream(scenario.seed, Purpose::Traffic, number as u64);
    let source = Source::new(&model.traffic, Drift::from_ppm(ppm), model.start, model.stop, rng);
    let source = source.map_err(|error| wrong(error.to_string()))?;
    let header = match &model.transport {
        Transport::Datagram { header } => *header,
        Transport::Tcp(_) => 0,
    };
    let agent = match (source, &model.transport) {
        (Some(source), Transport::Datagram { .. }) => match source.metronome() {
            Some(metronome) => Agent::Metronome(metronome.clone()),
            None => Agent::Source(Box::new(source)),
        },
        _ => {
            if !answers {
                return Err(WorldError::NoPath { what: back() });
            }
            check_instant(scenario, model)?;
            let rng = streams::stream(scenario.seed, Purpose::Transport, number as u64);
            let endpoint = application::tcp::endpoint(&model.traffic, &model.transport, rng);
            match endpoint.map_err(|error| wrong(error.to_string()))? {
                Some(endpoint) => Agent::Endpoint(Box::new(Attached {
                    endpoint,
                    timer: Timer::IDLE,
                    start: model.start,
                    stop: model.stop,
                    outbox: (scenario.processing > Span::ZERO).then(|| {
                        let rng = streams::stream(scenario.seed, Purpose::Outbox, number as u64);
                        Outbox::new(scenario.processing, rng)
                    }),
                    begun: false,
                    stopped: false,
                })),
                None => Agent::Done,
            }
        }
    };
    let meter = FlowMeter::new(&scenario.metrics);
    Ok(Flow {
        agent,
        stop: model.stop,
        next_size: 0,
        header,
        wander,
        numbers: [0; 2],
        sent_before: 0,
        entry: [first, second],
        meter,
    })
}

/// What answers itself needs something on its way that takes time.
fn check_instant(scenario: &Scenario, flow: &model::Flow) -> Result<(), WorldError> {
    let takes_time = flow.path.iter().chain(&flow.back).any(|hop| match hop {
        model::Hop::Link(link) => {
            let profile = &scenario.links[*link as usize].profile;
            profile.delay > Span::ZERO || profile.capacity != Capacity::Unlimited
        }
        model::Hop::Bond(..) | model::Hop::Ring(..) => true,
    });
    if takes_time { Ok(()) } else { Err(WorldError::Instant { flow: flow.name.clone() }) }
}
