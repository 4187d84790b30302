//! Rings in the world: packets that enter and leave them, what their ways bring, their nodes' timers.
//!
//! A node's outputs are taken one at a time by whoever gave the first input, as a bond's are.

use super::flow::Timer;
use super::{RING_CHANGE, RING_NODE, RING_WAY, RINGS, World, WorldError, place};
use crate::engine::event::Event;
use crate::engine::log::What;
use crate::engine::pool::Handle;
use crate::model::{Crossing, Scenario};
use crate::results::RingResult;
use crate::ring::{At, Brought, Output, Ring};

/// Places for the ways of one ring among all: twice the most nodes, in bits.
const WAY_BITS: u32 = 9;
/// The same for nodes.
const NODE_BITS: u32 = 8;
/// Most rings.
pub(super) const MOST_RINGS: usize = 1 << (super::NUMBER_BITS - WAY_BITS);
/// In the log the flow of a control frame.
const CONTROL: u32 = u32::MAX;

/// A ring with its nodes' timers.
#[derive(Debug)]
pub(crate) struct Circle {
    pub(crate) ring: Ring,
    timers: Vec<Timer>,
}

/// All rings of a scenario.
pub(super) fn close(scenario: &Scenario) -> Result<Vec<Circle>, WorldError> {
    let ring = |(number, model): (usize, &crate::model::Ring)| {
        let wrong = |error: String| WorldError::Ring { ring: model.name.clone(), error };
        let ring = Ring::new(scenario, number).map_err(wrong)?;
        let timers = vec![Timer::IDLE; ring.nodes()];
        Ok(Circle { ring, timers })
    };
    scenario.rings.iter().enumerate().map(ring).collect()
}

impl World {
    /// Nodes have something to say as time begins, and what fails has its time.
    pub(super) fn begin_rings(&mut self) {
        for number in 0..self.rings.len() {
            for node in 0..self.rings[number].ring.nodes() {
                if self.rings[number].timers[node].set(self.now) {
                    self.schedule(self.now, place(RING_NODE, (number << NODE_BITS | node) as u32));
                }
            }
            self.arm_change(number as u32);
        }
    }

    fn arm_change(&mut self, number: u32) {
        if let Some(at) = self.rings[number as usize].ring.next_change() {
            self.schedule(at, place(RING_CHANGE, number));
        }
    }

    pub(super) fn enter_ring(&mut self, number: u32, way: Crossing, handle: Handle) {
        let packet = &self.pool[handle];
        let (flow, size) = (packet.flow << 1 | u32::from(packet.reverse), packet.size);
        self.log.record(What::Entered, self.now, RINGS | number << WAY_BITS, flow, packet.number);
        match self.rings[number as usize].ring.handle_station(self.now, way, handle, size) {
            Ok(()) => self.drain_ring(number, usize::from(way.from)),
            Err(handle) => self.discard(handle, RINGS | number << WAY_BITS),
        }
    }

    /// What is first under way has arrived.
    #[inline]
    pub(super) fn on_ring_way(&mut self, number: u32, event: Event) {
        let (ring, way) = (number >> WAY_BITS, number & ((1 << WAY_BITS) - 1));
        let counts = self.now >= self.measured.from();
        let circle = &mut self.rings[ring as usize];
        let Some((node, brought)) = circle.ring.handle_way(self.now, counts, way, event) else { return };
        let at = RINGS | number;
        match brought {
            Brought::Packet(handle) => {
                let packet = &self.pool[handle];
                let flow = packet.flow << 1 | u32::from(packet.reverse);
                self.log.record(What::Left, self.now, at, flow, packet.number);
            }
            Brought::Control(hash) => self.log.record(What::Left, self.now, at, CONTROL, hash),
        }
        self.drain_ring(ring, node);
    }

    #[inline]
    pub(super) fn on_ring_node(&mut self, number: u32) {
        let (ring, node) = (number >> NODE_BITS, (number & ((1 << NODE_BITS) - 1)) as usize);
        let circle = &mut self.rings[ring as usize];
        if circle.timers[node].fire(self.now) {
            if circle.ring.handle_timeout(self.now, node) {
                self.drain_ring(ring, node);
            } else {
                // The node wants it later than it did when this event was put in.
                self.time_ring(ring, node);
            }
        }
    }

    /// A link or a node fails, or comes back.
    pub(super) fn on_ring_change(&mut self, number: u32) {
        for node in self.rings[number as usize].ring.handle_change(self.now) {
            self.drain_ring(number, node);
        }
        self.arm_change(number);
    }

    /// Does what a node of a ring wants done, and sets its timer.
    #[inline]
    fn drain_ring(&mut self, number: u32, node: usize) {
        let now = self.now;
        let counts = now >= self.measured.from();
        if !self.rings[number as usize].ring.begin_polling(node) {
            return;
        }
        loop {
            let mut at = At { now, counts, order: &mut self.order };
            match self.rings[number as usize].ring.poll(&mut at, node) {
                Some(Output::Arm(way, event)) => {
                    if event.time() <= self.end {
                        self.calendar.push(event.for_place(place(RING_WAY, number << WAY_BITS | way)));
                    }
                }
                Some(Output::Deliver(handle)) => {
                    let packet = &self.pool[handle];
                    let flow = packet.flow << 1 | u32::from(packet.reverse);
                    self.log.record(What::Delivered, now, RINGS | number << WAY_BITS, flow, packet.number);
                    self.proceed(handle);
                }
                Some(Output::Dropped(handle)) => self.discard(handle, RINGS | number << WAY_BITS),
                None => break,
            }
        }
        let circle = &mut self.rings[number as usize];
        circle.ring.end_polling(now, node);
        self.time_ring(number, node);
    }

    /// Sets the timer of a node.
    #[inline]
    fn time_ring(&mut self, number: u32, node: usize) {
        let circle = &mut self.rings[number as usize];
        if let Some(at) = circle.ring.wanted(node)
            && circle.timers[node].set(at.max(self.now))
        {
            self.schedule(at.max(self.now), place(RING_NODE, number << NODE_BITS | node as u32));
        }
    }

    /// All rings.
    pub(super) fn ring_results(&mut self) -> Vec<RingResult> {
        self.rings.iter_mut().map(|circle| circle.ring.result(&self.scenario)).collect()
    }
}
