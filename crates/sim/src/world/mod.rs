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

mod division;
mod nodes;
mod part;
mod route;

pub use division::Division;
pub use part::Part;

pub use crate::error::WorldError;

use crate::engine::Engine;
use crate::engine::event::Event;
use crate::engine::log::What;
use crate::engine::measured::Measured;
use crate::engine::pool::Handle;
use crate::metrics::{self, Recorder};
use crate::model::Scenario;
use crate::node::{Next, Node, Output};
use crate::results::{Captured, Conservation, Dropped, Partitions, Results};
use crate::wire;
use division::Member;
use fairspan_core::units::{Span, Time};
use nodes::{Kind, Nodes, Step, of_kind};
use route::Routes;
use std::sync::Arc;

/// The world's own events: the warm-up is over; the series' next point is due.
const MEASURE: u32 = 0;
const SAMPLE: u32 = 1;
/// Flows and links, of some 300 bytes each, that a core's own cache holds.
const LARGE: usize = 4000;

/// A scenario while it runs.
#[derive(Debug)]
pub struct World {
    engine: Engine,
    nodes: Nodes,
    steps: Vec<Step>,
    /// Flows and links do not fit into a core's own cache.
    large: bool,
    captured: Vec<Captured>,
    recorder: Recorder,
    /// What it was joined from.
    division: Option<Arc<Division>>,
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
        World::build(shared, None)
    }

    /// All of a scenario's world, or a part of it.
    fn build(shared: Arc<Scenario>, member: Option<&Member>) -> Result<World, WorldError> {
        let scenario = &*shared;
        if Time::ZERO + scenario.duration >= Event::LAST {
            return Err(WorldError::TooLong { seconds: scenario.duration.as_secs_f64() });
        }
        let mut routes = Routes::new(scenario, member)?;
        let flows = (0..scenario.flows.len()).map(|number| routes.flow(number)).collect::<Result<_, WorldError>>()?;
        let bonds = (0..scenario.bonds.len()).map(|number| routes.bond(number)).collect::<Result<_, WorldError>>()?;
        let reliable = (0..scenario.reliable.len()).map(|number| routes.reliable(number));
        let reliable = reliable.collect::<Result<_, WorldError>>()?;
        let mut world = World {
            engine: Engine::new(Measured::new(scenario.warm_up, scenario.duration)),
            nodes: routes.layout.build(flows, bonds, reliable, routes.splits, member)?,
            steps: routes.steps,
            large: scenario.flows.len() + scenario.links.len() > LARGE,
            captured: Vec::new(),
            recorder: Recorder::new(scenario.metrics.series),
            division: None,
            scenario: Arc::clone(&shared),
        };
        // Before everything else at that instant.
        if scenario.warm_up > Span::ZERO {
            world.engine.schedule(Time::ZERO + scenario.warm_up, world.nodes.own + MEASURE);
        }
        world.begin_series();
        world.nodes.each_here(&mut world.engine, scenario, &mut |node, here, _| node.begin(here));
        Ok(world)
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.engine.now()
    }

    /// When the scenario ends.
    pub fn end(&self) -> Time {
        self.engine.end()
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.engine.events()
    }

    /// Names of the series that it records.
    pub fn series_names(&self) -> impl Iterator<Item = &str> {
        self.recorder.names()
    }

    /// Hash of the event log so far.
    pub fn log_hash(&self) -> u64 {
        self.engine.log_hash()
    }

    /// Handles all events up to and at `until`, which is not beyond the scenario's end.
    pub fn advance(&mut self, until: Time) {
        self.advance_some(until, u64::MAX);
    }

    /// Handles events up to and at `until`, but not more than `most` of them: whether `until` was reached.
    pub fn advance_some(&mut self, until: Time, most: u64) -> bool {
        let until = until.min(self.end());
        let mut left = most;
        while left > 0 {
            let Some(event) = self.engine.next(until) else { return true };
            left -= 1;
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
        let (links, flows) = (&self.nodes.links, &self.nodes.flows);
        let flow_end = self.nodes.bonds.first;
        let (coming, pool) = self.engine.coming();
        for event in coming {
            let place = event.place();
            if place < flows.first {
                // A packet leaves it, and reaches its receiver.
                let (number, _) = links.find(place);
                let packet = &pool[links.nodes[number as usize].first()];
                if let Some(flow) = flows.nodes.get(packet.flow as usize) {
                    read ^= flow.read_meter() ^ flow.read();
                }
            } else if place < flow_end {
                // A packet leaves its sender, and enters the first link.
                let (number, _) = flows.find(place);
                let flow = &flows.nodes[number as usize];
                read ^= flow.read();
                let step = self.steps[flow.entry() as usize];
                if step.place < flows.first {
                    read ^= links.nodes[links.find(step.place).0 as usize].read();
                }
            }
        }
        std::hint::black_box(read);
    }

    /// Takes the packets that recorded links have passed since the last call, in the order of their time.
    pub fn take_captured(&mut self) -> Vec<Captured> {
        std::mem::take(&mut self.captured)
    }

    /// Records what goes into the ends of bond `number` and what comes out: to be called before time begins. Packets
    /// then have all their bytes.
    ///
    /// # Errors
    /// Settings that do not work, or [`WorldError::Unknown`].
    pub fn record_bond(&mut self, number: u32) -> Result<(), WorldError> {
        let count = self.scenario.bonds.len();
        let Some(bond) = self.nodes.bonds.nodes.get_mut(number as usize) else {
            return Err(WorldError::Unknown { what: "recording".into(), kind: "bond", number, count });
        };
        if self.engine.events() > 0 || self.engine.counts().0 > 0 {
            let bond = self.scenario.bonds[number as usize].name.clone();
            return Err(WorldError::Bond { bond, error: "a recording begins before the first event".into() });
        }
        bond.record(&self.scenario, number as usize)
    }

    /// Ends the recording of end 0 or 1 of a bond and gives it, for [`fairspan_core::record::replay`].
    pub fn take_recording(&mut self, number: u32, end: usize) -> Option<Vec<u8>> {
        self.nodes.bonds.nodes.get_mut(number as usize)?.take_recording(end.min(1))
    }

    /// Counts where all packets are.
    ///
    /// # Errors
    /// [`WorldError::Conservation`] with the numbers, if some are missing or too many.
    pub fn check_conservation(&self) -> Result<Conservation, WorldError> {
        let (sent, delivered) = self.engine.counts();
        let mut conservation = Conservation { sent, delivered, dropped: Vec::new(), in_flight: 0 };
        self.nodes.each(&self.scenario, &mut |node, name| {
            conservation.in_flight += node.in_flight();
            node.dropped(name, &mut |place, reason, packets| {
                if packets > 0 {
                    let (place, reason) = (place.to_owned(), reason.to_owned());
                    conservation.dropped.push(Dropped { place, reason, packets });
                }
            });
        });
        let gone: u64 = conservation.dropped.iter().map(|dropped| dropped.packets).sum();
        let accounted = conservation.delivered + gone + conservation.in_flight;
        if accounted != conservation.sent || self.engine.live() as u64 != conservation.in_flight {
            return Err(WorldError::Conservation(conservation));
        }
        Ok(conservation)
    }

    /// Runs to the scenario's end and gives what was measured.
    ///
    /// # Errors
    /// [`WorldError::Conservation`].
    pub fn finish(mut self) -> Result<Results, WorldError> {
        self.advance(self.end());
        let mut results = Results {
            seed: self.scenario.seed,
            measured_s: self.engine.measured().span().as_secs_f64(),
            events: self.engine.events(),
            log_hash: self.engine.log_hash(),
            partitions: self.partitions(),
            conservation: self.check_conservation()?,
            series_interval_s: self.recorder.interval().as_secs_f64(),
            ..Results::default()
        };
        self.nodes.each_last(&mut self.engine, &self.scenario, &mut |node, here, name| {
            node.result(here, name, &mut results);
        });
        for (medium, model) in self.nodes.media.iter().zip(&self.scenario.media) {
            results.media.push(medium.result(self.engine.now(), self.engine.measured(), &model.name));
        }
        let active = results.flows.iter().filter(|flow| flow.sent + flow.received > 0);
        results.goodput = results.flows.iter().map(|flow| flow.goodput).sum();
        results.jain = (results.goodput > 0.0).then(|| metrics::jain(active.map(|flow| flow.goodput)));
        results.series = self.recorder.into_series();
        Ok(results)
    }

    /// How it was divided, where it should have been.
    fn partitions(&self) -> Option<Partitions> {
        let asked = self.scenario.partitions;
        let (parts, lookahead) = match &self.division {
            Some(division) => (division.count(), division.lookahead()),
            None => (1, self.scenario.duration),
        };
        (asked > 1).then(|| Partitions { asked, parts, lookahead_s: lookahead.as_secs_f64() })
    }

    /// Names the series and puts in their first event.
    fn begin_series(&mut self) {
        if self.recorder.due().is_none() {
            return;
        }
        let recorder = &mut self.recorder;
        self.nodes.each(&self.scenario, &mut |node, name| {
            node.series(name, &mut |name, unit, kind| recorder.add(name, unit, kind));
        });
        self.arm_series();
    }

    fn arm_series(&mut self) {
        if let Some(due) = self.recorder.due() {
            self.engine.schedule(due, self.nodes.own + SAMPLE);
        }
    }

    fn on_sample(&mut self) {
        let mut values = Vec::new();
        self.nodes.each_here(&mut self.engine, &self.scenario, &mut |node, here, _| {
            node.sample(here.now(), &mut |value| values.push(value));
        });
        self.recorder.sample(values);
        self.arm_series();
    }

    /// Meters begin anew. Links' meters know the measured time by themselves, since a packet's fate is decided early.
    fn on_measure(&mut self) {
        let (recorder, mut series) = (&mut self.recorder, 0);
        let recording = recorder.due().is_some();
        self.nodes.each_here(&mut self.engine, &self.scenario, &mut |node, here, name| {
            node.measure(here.now(), &mut |which, last| recorder.restart(series + which, last));
            if recording {
                node.series(name, &mut |_, _, _| series += 1);
            }
        });
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        let place = event.place();
        of_kind!(self.nodes, place, N => self.handle_timeout::<N>(place, event), self.handle_own(place));
    }

    #[cold]
    fn handle_own(&mut self, place: u32) {
        match place - self.nodes.own {
            MEASURE => self.on_measure(),
            SAMPLE => self.on_sample(),
            other => debug_assert!(false, "event {other} of the world"),
        }
    }

    #[inline(always)]
    fn handle_timeout<N: Kind>(&mut self, place: u32, event: Event) {
        let arena = N::arena(&mut self.nodes);
        let (number, timer) = arena.find(place);
        let (node, here) = arena.here(&mut self.engine, number);
        let next = node.handle_timeout(here, timer, event);
        self.follow::<N>(number, next);
    }

    /// A packet goes to its next step. Many call it, and what it calls is inlined: once is enough.
    #[inline(never)]
    fn proceed(&mut self, handle: Handle) {
        let packet = &mut self.engine.pool[handle];
        let step = self.steps[packet.step as usize];
        packet.step += 1;
        of_kind!(self.nodes, step.place, N => self.handle_packet::<N>(step, handle), {});
    }

    #[inline(always)]
    fn handle_packet<N: Kind>(&mut self, step: Step, handle: Handle) {
        let arena = N::arena(&mut self.nodes);
        let (number, _) = arena.find(step.place);
        let (node, here) = arena.here(&mut self.engine, number);
        let next = node.handle_packet(here, step.port, handle);
        self.follow::<N>(number, next);
    }

    /// Does what a node wants done.
    #[inline(always)]
    fn follow<N: Kind>(&mut self, number: u32, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Only(output) => self.act::<N>(number, output),
            Next::Poll(part) => self.poll::<N>(number, part),
            Next::Then(output, part) => {
                self.act::<N>(number, output);
                self.poll::<N>(number, part);
            }
        }
    }

    #[inline(never)]
    fn poll<N: Kind>(&mut self, number: u32, part: u32) {
        loop {
            self.tell_room::<N>(number, part);
            let (node, here) = N::arena(&mut self.nodes).here(&mut self.engine, number);
            let Some(output) = node.poll(here, part) else { return };
            self.act::<N>(number, output);
        }
    }

    /// Answers what a part of a node asks about links before it is polled.
    #[inline(always)]
    fn tell_room<N: Kind>(&mut self, number: u32, part: u32) {
        let now = self.engine.now();
        while let Some(link) = N::arena(&mut self.nodes).nodes[number as usize].ask_room(part) {
            let at = self.nodes.links.nodes[link as usize].room_at(now);
            N::arena(&mut self.nodes).nodes[number as usize].handle_room(now, part, at);
        }
    }

    #[inline(always)]
    fn act<N: Kind>(&mut self, number: u32, output: Output) {
        match output {
            Output::Forward(handle) => self.proceed(handle),
            Output::Capture(handle) => {
                self.capture(number, handle);
                self.proceed(handle);
            }
            Output::Observe(handle) => {
                let way = N::arena(&mut self.nodes).nodes[number as usize].observed();
                self.capture(way, handle);
            }
            Output::Dropped(handle) => {
                let (_, here) = N::arena(&mut self.nodes).here(&mut self.engine, number);
                let mark = here.mark;
                self.discard(handle, mark);
            }
            Output::Poll(part) => self.poll::<N>(number, part),
            Output::Share(medium) => self.share(number, medium),
            Output::OutOfOrder(processor) => self.nodes.processors.nodes[processor as usize].charge_out_of_order(),
        }
    }

    /// A link tells its medium something, and the medium goes to somebody.
    #[inline(never)]
    fn share(&mut self, link: u32, medium: u32) {
        let Some(request) = self.nodes.links.nodes[link as usize].poll_request() else { return };
        let (now, measured) = (self.engine.now(), self.engine.measured());
        let Some(grant) = self.nodes.media[medium as usize].handle(now, measured, link, request) else { return };
        if let Some(revoked) = grant.revoked {
            self.nodes.links.nodes[revoked as usize].revoke();
        }
        let (link, mut here) = self.nodes.links.here(&mut self.engine, grant.link);
        link.grant(&mut here, grant.at);
    }

    fn capture(&mut self, link: u32, handle: Handle) {
        let packet = &self.engine.pool.packet(handle);
        let mut bytes = [0; wire::MOST_HEADERS];
        let length = wire::headers(packet, &mut bytes).min(packet.size as usize);
        let mut bytes = bytes[..length].to_vec();
        let maker = self.nodes.maker(packet.flow);
        of_kind!(self.nodes, maker, N => {
            let arena = N::arena(&mut self.nodes);
            let (number, _) = arena.find(maker);
            arena.nodes[number as usize].write_content(packet, &mut bytes);
        }, {});
        bytes.truncate(packet.size as usize);
        self.captured.push(Captured { at: self.now().since(Time::ZERO), link, bytes, length: packet.size });
    }

    /// A packet is lost at a place of the log.
    #[inline(never)]
    fn discard(&mut self, handle: Handle, mark: u32) {
        self.engine.record(What::Dropped, mark, handle);
        let maker = self.nodes.maker(self.engine.pool[handle].flow);
        of_kind!(self.nodes, maker, N => self.lose::<N>(maker, handle), {});
    }

    /// Tells the node that made a packet of its loss.
    #[inline]
    fn lose<N: Kind>(&mut self, maker: u32, handle: Handle) {
        let arena = N::arena(&mut self.nodes);
        let (number, _) = arena.find(maker);
        arena.nodes[number as usize].handle_lost(&self.engine.pool[handle]);
        self.engine.pool.free(handle);
        loop {
            let (node, here) = N::arena(&mut self.nodes).here(&mut self.engine, number);
            let mark = here.mark;
            let Some(gone) = node.poll_lost() else { return };
            self.discard(gone, mark);
        }
    }
}
