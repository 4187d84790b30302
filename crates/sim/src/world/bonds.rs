//! Bonds in the world: packets that enter and leave them, their frames, their timers.
//!
//! A bond's outputs are taken one at a time by whoever gave the first input: a packet that is delivered may answer
//! through the same end, and what that makes is taken by the loop that runs already, not by one within it.

use super::route::{Routes, Step};
use super::{BOND, BONDS, World, WorldError, place};
use crate::bond::{Bond, Output};
use crate::engine::log::What;
use crate::engine::pool::Handle;
use crate::model::{Hop, Scenario};
use crate::packet::{Body, Packet};
use crate::results::BondResult;
use crate::world::flow::Timer;
use fairspan_core::units::Time;

/// A bond with its paths compiled.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) bond: Bond,
    timers: [Timer; 2],
    /// For each channel the first step of the path from end 0, and from end 1.
    entry: Vec<[u32; 2]>,
    /// For each channel whose sender has no rate the first link of its paths: their room says when it may send.
    watched: Vec<[Option<u32>; 2]>,
}

/// All bonds of a scenario.
pub(super) fn join(scenario: &Scenario, routes: &mut Routes<'_>) -> Result<Vec<Joined>, WorldError> {
    let mut bonds = Vec::with_capacity(scenario.bonds.len());
    for (number, model) in scenario.bonds.iter().enumerate() {
        let wrong = |error: String| WorldError::Bond { bond: model.name.clone(), error };
        if model.config.channels.len() != model.channels.len() {
            let (found, expected) = (model.config.channels.len(), model.channels.len());
            return Err(wrong(format!("settings for {found} channels; there are paths for {expected}")));
        }
        let bond = Bond::new(model, number, scenario.seed, false).map_err(|error| wrong(error.to_string()))?;
        let mut entry = Vec::with_capacity(model.channels.len());
        let mut watched = Vec::with_capacity(model.channels.len());
        for (channel, paths) in model.channels.iter().enumerate() {
            let mut first = [0; 2];
            for (end, path) in paths.iter().enumerate() {
                let what = || format!("bond `{}`, channel {channel} from end {end}", model.name);
                let hops: Vec<Hop> = path.iter().map(|link| Hop::Link(*link)).collect();
                let last = Step::Frame { bond: number as u32, end: 1 - end as u8, channel: channel as u8 };
                first[end] = routes.add(&what, model.ends[end], &hops, model.ends[1 - end], last)?;
            }
            entry.push(first);
            let unpaced = model.config.channels[channel].rate.is_none();
            watched.push([0, 1].map(|end| paths[end].first().copied().filter(|_| unpaced)));
        }
        bonds.push(Joined { bond, timers: [Timer::IDLE; 2], entry, watched });
    }
    Ok(bonds)
}

impl World {
    /// Records what goes into the ends of bond `number` and what comes out: to be called before time begins. Packets
    /// then have all their bytes.
    ///
    /// # Errors
    /// Settings that do not work, or [`WorldError::Unknown`].
    pub fn record_bond(&mut self, number: u32) -> Result<(), WorldError> {
        let count = self.bonds.len();
        let Some((joined, model)) = self.bonds.get_mut(number as usize).zip(self.scenario.bonds.get(number as usize))
        else {
            return Err(WorldError::Unknown { what: "recording".into(), kind: "bond", number, count });
        };
        let wrong = |error: String| WorldError::Bond { bond: model.name.clone(), error };
        if self.events > 0 || self.sent > 0 {
            return Err(wrong("a recording begins before the first event".into()));
        }
        let bond = Bond::new(model, number as usize, self.scenario.seed, true);
        joined.bond = bond.map_err(|error| wrong(error.to_string()))?;
        Ok(())
    }

    /// Ends the recording of end 0 or 1 of a bond and gives it, for [`fairspan_core::record::replay`].
    pub fn take_recording(&mut self, number: u32, end: usize) -> Option<Vec<u8>> {
        self.bonds.get_mut(number as usize)?.bond.take_recording(end.min(1))
    }

    /// Bonds have something to say as time begins: their channels are up.
    pub(super) fn begin_bonds(&mut self) {
        for number in 0..self.bonds.len() {
            for end in 0..2 {
                if self.bonds[number].timers[end].set(Time::ZERO) {
                    self.schedule(Time::ZERO, place(BOND, (2 * number + end) as u32));
                }
            }
        }
    }

    pub(super) fn enter_bond(&mut self, number: u32, end: u8, handle: Handle) {
        let now = self.now;
        let packet = &self.pool[handle];
        self.log.record(
            What::Entered,
            now,
            BONDS | number,
            packet.flow << 1 | u32::from(packet.reverse),
            packet.number,
        );
        self.bonds[number as usize].bond.handle_host(now, usize::from(end), handle, &self.pool);
        self.drain_bond(number, usize::from(end));
    }

    /// A frame has come to the far end of its channel.
    pub(super) fn take_frame(&mut self, number: u32, end: u8, channel: u8, handle: Handle) {
        let now = self.now;
        let packet = &self.pool[handle];
        self.log.record(
            What::Delivered,
            now,
            BONDS | number,
            packet.flow << 1 | u32::from(packet.reverse),
            packet.number,
        );
        let Body::Frame(content) = packet.body else { return };
        self.delivered += 1;
        self.pool.free(handle);
        self.bonds[number as usize].bond.handle_frame(now, usize::from(end), channel, content);
        self.drain_bond(number, usize::from(end));
    }

    /// A frame was dropped on its way; what it carried is lost with it, unless a copy lives.
    pub(super) fn lose_frame(&mut self, flow: u32, content: u32) {
        let number = flow - self.flows.len() as u32;
        self.bonds[number as usize].bond.lose(content);
        while let Some(handle) = self.bonds[number as usize].bond.poll_gone() {
            self.discard(handle, BONDS | number);
        }
    }

    /// Puts what a frame holds behind its outer headers, for a capture. The outer UDP then goes without checksum.
    pub(super) fn write_frame(&self, flow: u32, content: u32, bytes: &mut Vec<u8>) {
        if let Some(sum) = bytes.get_mut(26..28) {
            sum.fill(0);
        }
        let number = flow as usize - self.flows.len();
        self.bonds[number].bond.frame_bytes(content, bytes);
    }

    pub(super) fn on_bond(&mut self, place: u32) {
        let (number, end, now) = (place / 2, (place % 2) as usize, self.now);
        if self.bonds[number as usize].timers[end].fire(now) {
            self.bonds[number as usize].bond.handle_timeout(now, end);
            self.drain_bond(number, end);
        }
    }

    /// Does what an end of a bond wants done, and sets its timer.
    fn drain_bond(&mut self, number: u32, end: usize) {
        let now = self.now;
        let joined = &mut self.bonds[number as usize];
        if !joined.bond.begin_polling(end) {
            return;
        }
        let mut room_at = self.watch(number, end);
        while let Some(output) = self.bonds[number as usize].bond.poll(now, end, &mut self.pool) {
            match output {
                Output::Transmit { channel, size, content } => {
                    self.send_frame(number, end, channel, size, content);
                    if self.bonds[number as usize].watched[usize::from(channel)][end].is_some() {
                        room_at = self.watch(number, end);
                    }
                }
                Output::Deliver(handle) => {
                    let packet = &self.pool[handle];
                    let flow = packet.flow << 1 | u32::from(packet.reverse);
                    self.log.record(What::Left, now, BONDS | number, flow, packet.number);
                    self.proceed(handle);
                }
                Output::Dropped(handle) => self.discard(handle, BONDS | number),
            }
        }
        let joined = &mut self.bonds[number as usize];
        joined.bond.end_polling(end);
        // What is due already was offered and not taken: it waits for the next instant.
        let wanted = joined.bond.poll_timeout(end).into_iter().chain(room_at).min();
        if let Some(at) = wanted {
            let at = at.max(now);
            if self.bonds[number as usize].timers[end].set(at) {
                self.schedule(at, place(BOND, 2 * number + end as u32));
            }
        }
    }

    /// Tells the bond which of its channels without a rate have room; when the first that has none will have some.
    fn watch(&mut self, number: u32, end: usize) -> Option<Time> {
        let now = self.now;
        let joined = &mut self.bonds[number as usize];
        let mut first: Option<Time> = None;
        for (channel, watched) in joined.watched.iter().enumerate() {
            let Some(link) = watched[end] else { continue };
            let at = Some(self.links[link as usize].room_at(now)).filter(|at| *at > now);
            joined.bond.set_blocked(now, end, channel as u8, at.is_some());
            first = first.into_iter().chain(at).min();
        }
        first
    }

    fn send_frame(&mut self, number: u32, end: usize, channel: u8, size: u32, content: u32) {
        let now = self.now;
        let flow = self.flows.len() as u32 + number;
        let joined = &mut self.bonds[number as usize];
        let sequence = joined.bond.numbers[end];
        joined.bond.numbers[end] += 1;
        let packet = Packet {
            flow,
            reverse: end == 1,
            number: sequence,
            size,
            created: now,
            connection: u32::from(channel),
            step: joined.entry[usize::from(channel)][end],
            body: Body::Frame(content),
        };
        self.sent += 1;
        self.log.record(What::Sent, now, BONDS | number, flow << 1 | end as u32, sequence);
        let handle = self.pool.insert(packet);
        self.proceed(handle);
    }

    /// Both ends of all bonds.
    pub(super) fn bond_results(&self) -> Vec<BondResult> {
        let all = self.bonds.iter().zip(&self.scenario.bonds);
        all.flat_map(|(joined, model)| [0, 1].map(|end| joined.bond.result(&model.name, end))).collect()
    }
}
