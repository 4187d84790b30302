//! A ring as a node: packets that enter and leave it, what its ways bring, its stations' timers.
//!
//! Its parts are its stations, whose outputs are taken one at a time by whoever gave the first input, as a bond's are; one
//! part more are the stations that a failure has touched.

use super::{Brought, Output as Wanted, Ring};
use crate::engine::event::Event;
use crate::engine::log::What;
use crate::engine::pool::Handle;
use crate::error::WorldError;
use crate::metrics::series;
use crate::model::{Crossing, Scenario};
use crate::node::timer::Timer;
use crate::node::{Here, Next, Node, Output, Tell};
use crate::results::Results;
use fairspan_core::ring::{Class, Ringlet};
use fairspan_core::units::{FlowNumber, Time};
use std::collections::VecDeque;

/// Its timers in bits: two ways and a station for each place, and one for what fails.
pub(crate) const TIMER_BITS: u32 = 10;
/// Places in the log for the ways of one ring, in bits.
pub(crate) const WAY_BITS: u32 = 9;
/// In the log the flow of a control frame.
const CONTROL: u32 = u32::MAX;

const RINGLETS: [Option<Ringlet>; 3] = [None, Some(Ringlet::Zero), Some(Ringlet::One)];
const CLASSES: [Class; 3] = [Class::A, Class::B, Class::C];

/// A ring with its stations' timers. Timers 0 to 2 n - 1 are what has arrived on its ways, then come its n stations', then
/// what fails or comes back.
#[derive(Debug)]
pub(crate) struct Circle {
    ring: Ring,
    timers: Vec<Timer>,
    /// Stations where there may be something to poll after a failure.
    touched: VecDeque<usize>,
    /// By way: its number in captures, where what it carries is recorded. Empty: nothing is.
    captured: Vec<Option<u32>>,
    /// That of the packet that is to be recorded now.
    observed: u32,
}

impl Circle {
    /// The ring `number` of a scenario.
    pub(crate) fn new(scenario: &Scenario, number: usize) -> Result<Circle, WorldError> {
        let wrong = |error: String| WorldError::Ring { ring: scenario.rings[number].name.clone(), error };
        let ring = Ring::new(scenario, number).map_err(wrong)?;
        let timers = vec![Timer::IDLE; ring.nodes()];
        let first = scenario.first_captured_way(number);
        let mut captured = Vec::new();
        for way in scenario.metrics.capture.iter().filter_map(|link| link.checked_sub(first)) {
            if (way as usize) < 2 * ring.nodes() {
                captured.resize(2 * ring.nodes(), None);
                captured[way as usize] = Some(first + way);
            }
        }
        Ok(Circle { ring, timers, touched: VecDeque::new(), captured, observed: 0 })
    }

    /// The port by which packets of such a crossing enter.
    pub(crate) fn port(way: Crossing) -> u32 {
        let ringlet = RINGLETS.iter().position(|known| *known == way.ringlet).unwrap_or_default();
        let class = CLASSES.iter().position(|known| *known == way.class).unwrap_or_default();
        u32::from_le_bytes([way.from, way.to, ringlet as u8, class as u8])
    }

    fn crossing(port: u32) -> Crossing {
        let [from, to, ringlet, class] = port.to_le_bytes();
        Crossing { from, to, ringlet: RINGLETS[usize::from(ringlet)], class: CLASSES[usize::from(class)] }
    }

    fn ways(&self) -> u32 {
        2 * self.timers.len() as u32
    }

    /// The part that is polled, and the timer that runs, when something fails or comes back.
    fn changes(&self) -> (u32, u32) {
        let stations = self.timers.len() as u32;
        (stations, 3 * stations)
    }

    /// A station was given something.
    #[inline]
    fn fresh(&mut self, station: usize) -> Next {
        if self.ring.begin_polling(station) { Next::Poll(station as u32) } else { Next::Nothing }
    }

    fn arm_change(&self, here: &mut Here<'_>) {
        if let Some(at) = self.ring.next_change() {
            here.schedule(self.changes().1, at);
        }
    }

    /// Sets the timer of a station.
    #[inline]
    fn arm_station(&mut self, here: &mut Here<'_>, station: usize) {
        let now = here.now();
        if let Some(at) = self.ring.wanted(station)
            && self.timers[station].set(at.max(now))
        {
            here.schedule(self.ways() + station as u32, at.max(now));
        }
    }

    /// What is first under way has arrived.
    #[inline]
    fn arrive(&mut self, here: &mut Here<'_>, way: u32, event: Event) -> Next {
        let Some((station, brought)) = self.ring.handle_way(here, way, event) else { return Next::Nothing };
        let mark = here.mark | way;
        match brought {
            Brought::Packet(handle) => here.engine.record(What::Left, mark, handle),
            Brought::Control(hash) => here.engine.record_other(What::Left, mark, CONTROL, hash),
        }
        let next = self.fresh(station);
        let (Brought::Packet(handle), Some(Some(number))) = (brought, self.captured.get(way as usize)) else {
            return next;
        };
        self.observed = *number;
        match next {
            Next::Poll(part) => Next::Then(Output::Observe(handle), part),
            _ => Next::Only(Output::Observe(handle)),
        }
    }
}

impl Node for Circle {
    fn observed(&self) -> u32 {
        self.observed
    }

    /// Its stations have something to say as time begins, and what fails has its time.
    fn begin(&mut self, mut here: Here<'_>) {
        let (now, ways) = (here.now(), self.ways());
        for (station, timer) in self.timers.iter_mut().enumerate() {
            if timer.set(now) {
                here.schedule(ways + station as u32, now);
            }
        }
        self.arm_change(&mut here);
    }

    fn handle_packet(&mut self, mut here: Here<'_>, port: u32, handle: Handle) -> Next {
        let way = Circle::crossing(port);
        here.record(What::Entered, handle);
        let packet = &here.engine.pool[handle];
        let (flow, size) = (FlowNumber(packet.flow), packet.size);
        match self.ring.handle_station(here.now(), way, flow, handle, size) {
            Ok(()) => self.fresh(usize::from(way.from)),
            Err(handle) => Next::Only(Output::Dropped(handle)),
        }
    }

    #[inline]
    fn handle_timeout(&mut self, mut here: Here<'_>, timer: u32, event: Event) -> Next {
        let Some(station) = timer.checked_sub(self.ways()) else { return self.arrive(&mut here, timer, event) };
        let (changes, last) = self.changes();
        if timer == last {
            self.touched.extend(self.ring.handle_change(here.now()));
            return Next::Poll(changes);
        }
        let (now, station) = (here.now(), station as usize);
        if !self.timers[station].fire(now) {
            return Next::Nothing;
        }
        if self.ring.handle_timeout(now, station) {
            return self.fresh(station);
        }
        // The station wants it later than it did when this event was put in.
        self.arm_station(&mut here, station);
        Next::Nothing
    }

    #[inline]
    fn poll(&mut self, mut here: Here<'_>, part: u32) -> Option<Output> {
        let station = part as usize;
        if part == self.changes().0 {
            while let Some(station) = self.touched.pop_front() {
                if self.ring.begin_polling(station) {
                    return Some(Output::Poll(station as u32));
                }
            }
            self.arm_change(&mut here);
            return None;
        }
        match self.ring.poll(&mut here, station) {
            Some(Wanted::Deliver(handle)) => {
                here.record(What::Delivered, handle);
                Some(Output::Forward(handle))
            }
            Some(Wanted::Dropped(handle)) => Some(Output::Dropped(handle)),
            None => {
                self.ring.end_polling(here.now(), station);
                self.arm_station(&mut here, station);
                None
            }
        }
    }

    fn in_flight(&self) -> u64 {
        self.ring.in_flight()
    }

    fn dropped(&self, _: &str, tell: Tell<'_>) {
        for dropped in self.ring.dropped() {
            tell(&dropped.place, &dropped.reason, dropped.packets);
        }
    }

    fn series(&self, _: &str, tell: &mut dyn FnMut(String, &'static str, series::Kind)) {
        for (name, unit, level) in self.ring.series() {
            tell(name, unit, if level { series::Kind::Level } else { series::Kind::Rate });
        }
    }

    fn sample(&mut self, _: Time, tell: &mut dyn FnMut(f64)) {
        self.ring.sample().for_each(tell);
    }

    fn result(&mut self, _: Here<'_>, _: &str, results: &mut Results) {
        results.rings.push(self.ring.result());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_says_all_of_a_crossing() {
        for ringlet in RINGLETS {
            for class in CLASSES {
                let way = Crossing { from: 254, to: 7, ringlet, class };
                assert_eq!(Circle::crossing(Circle::port(way)), way);
            }
        }
    }
}
