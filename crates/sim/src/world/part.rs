//! A part of a divided world, which runs beside the others.
//!
//! Whoever drives parts does this again and again, on as many threads as there are parts, or fewer; what comes out is the same:
//!
//! 1. Of all parts and of all packets that go from one to another, the first event is found, at `t`.
//! 2. Each part gets the packets that come to it, first those of part 0 ([`Part::receive`]), and does all its events before `t` plus the
//!    [lookahead](Division::lookahead), or a tenth of a second if that is shorter ([`Part::advance`]): what another part does meanwhile reaches it later.
//! 3. Each part gives the packets that leave it ([`Part::take_crossings`]).
//!
//! At the end the parts are joined ([`Part::join`]), and the world of all of them tells its results.

use super::World;
use super::division::{Division, Member};
use super::nodes::Nodes;
use crate::error::WorldError;
use crate::metrics::series::Recorder;
use crate::model::Scenario;
use crate::packet::Crossing;
use crate::results::Captured;
use fairspan_core::units::{Span, Time};
use std::sync::Arc;

/// Longest window: what was recorded in one lies in memory.
const LONGEST: Span = Span::from_millis(100);

/// A part of a divided world.
#[derive(Debug)]
pub struct Part {
    world: World,
    division: Arc<Division>,
}

impl Part {
    /// Part `number` of a scenario's world, at time zero.
    ///
    /// # Errors
    /// What cannot be run, by name.
    pub fn new(scenario: Arc<Scenario>, division: &Arc<Division>, number: u32) -> Result<Part, WorldError> {
        let member = Member { division: division.clone(), number };
        Ok(Part { world: World::build(scenario, Some(&member))?, division: division.clone() })
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// When the scenario ends.
    pub fn end(&self) -> Time {
        self.world.end()
    }

    /// When its next event is, if there is any before the end.
    pub fn next_event(&mut self) -> Option<Time> {
        let end = self.world.end();
        self.world.engine.next_time().filter(|time| *time <= end)
    }

    /// Until when parts may go whose first event of all is at `first`.
    pub fn window(&self, first: Time) -> Time {
        let lookahead = self.division.lookahead().min(LONGEST);
        let window = Span::from_nanos(lookahead.as_nanos().saturating_sub(1));
        (first + window).min(self.world.end())
    }

    /// Handles all events up to and at `until`.
    pub fn advance(&mut self, until: Time) {
        self.world.advance(until);
    }

    /// Handles events up to and at `until`, but not more than `most` of them: whether `until` was reached.
    pub fn advance_some(&mut self, until: Time, most: u64) -> bool {
        self.world.advance_some(until, most)
    }

    /// Gives each packet that has left it, with the number of the part that it goes to.
    pub fn take_crossings(&mut self, give: &mut dyn FnMut(u32, Crossing)) {
        for crossing in self.world.engine.crossings.drain(..) {
            let to = self.world.scenario.links[crossing.link as usize].to;
            give(self.division.part(to), crossing);
        }
    }

    /// A packet comes from another part.
    pub fn receive(&mut self, crossing: Crossing) {
        let handle = self.world.engine.pool.insert(crossing.packet);
        let (link, mut here) = self.world.nodes.links.here(&mut self.world.engine, crossing.link);
        link.handle_crossing(&mut here, crossing.due, handle);
    }

    /// Takes the packets that recorded links have passed since the last call, in the order of their time.
    pub fn take_captured(&mut self) -> Vec<Captured> {
        self.world.take_captured()
    }

    /// The world of all parts, in the order of their numbers, all of which have come to the same time; `None` without any.
    pub fn join(parts: Vec<Part>) -> Option<World> {
        let mut parts = parts.into_iter();
        let Part { mut world, division } = parts.next()?;
        let (mut others, mut recorders) = (Vec::new(), Vec::new());
        for Part { world: mut other, .. } in parts {
            world.engine.absorb(&other.engine);
            world.captured.append(&mut other.captured);
            recorders.push(other.recorder);
            others.push(other.nodes);
        }
        world.nodes.join(&mut others, &world.scenario, &division);
        world.captured.sort_by_key(|captured| captured.at);
        // In the order of the whole.
        let mut recorder = Recorder::new(world.recorder.interval());
        if recorder.due().is_some() {
            world.nodes.each(&world.scenario, &mut |node, name| {
                node.series(name, &mut |name, unit, kind| recorder.add(name, unit, kind));
            });
            recorder.absorb(world.recorder);
            recorders.into_iter().for_each(|other| recorder.absorb(other));
        }
        world.recorder = recorder;
        world.division = Some(division);
        Some(world)
    }
}

impl Nodes {
    /// Takes over the nodes of the other parts of a world, which were divided like this; the first part's are here.
    fn join(&mut self, others: &mut [Nodes], scenario: &Scenario, division: &Division) {
        for (number, link) in scenario.links.iter().enumerate() {
            let here = &mut self.links.nodes[number];
            if let Some(near) = division.part(link.from).checked_sub(1) {
                std::mem::swap(here, &mut others[near as usize].links.nodes[number]);
            }
            others.iter().for_each(|other| here.absorb(&other.links.nodes[number]));
        }
        for (number, flow) in scenario.flows.iter().enumerate() {
            let here = &mut self.flows.nodes[number];
            let [sends, mut receives] = [flow.from, flow.to].map(|node| division.part(node));
            if sends > 0 {
                std::mem::swap(here, &mut others[sends as usize - 1].flows.nodes[number]);
            }
            if receives == 0 {
                // Where the sender was.
                receives = sends;
            }
            let apart = division.part(flow.from) != division.part(flow.to);
            for (part, other) in (1..).zip(&mut *others) {
                here.absorb(&mut other.flows.nodes[number], apart && part == receives);
            }
        }
        let mut owners = vec![0; self.media.len()];
        for link in &scenario.links {
            if let Some(owner) = link.medium.and_then(|medium| owners.get_mut(medium as usize)) {
                *owner = division.part(link.from);
            }
        }
        for (part, other) in (1..).zip(others) {
            self.bonds.absorb(&mut other.bonds);
            self.reliable.absorb(&mut other.reliable);
            self.rings.absorb(&mut other.rings);
            self.splits.absorb(&mut other.splits);
            self.processors.absorb(&mut other.processors);
            for (medium, _) in owners.iter().enumerate().filter(|(_, owner)| **owner == part) {
                std::mem::swap(&mut self.media[medium], &mut other.media[medium]);
            }
        }
        self.links.here = Box::default();
    }
}
