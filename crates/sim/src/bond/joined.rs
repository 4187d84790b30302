//! A bond as a node: packets that enter and leave it, its frames, its timers.
//!
//! A bond's outputs are taken one at a time by whoever gave the first input: a packet that is delivered may answer
//! through the same end, and what that makes is taken by the loop that runs already, not by one within it. Its two parts
//! are its ends.

use super::{Bond, Output as Wanted};
use crate::engine::event::Event;
use crate::engine::log::What;
use crate::engine::pool::{Content, Handle, Slot};
use crate::error::WorldError;
use crate::model::Scenario;
use crate::node::timer::Timer;
use crate::node::{Here, Next, Node, Output, Tell};
use crate::packet::{Body, Packet};
use crate::results::Results;
use fairspan_core::units::Time;

/// Ports 0 and 1 take packets at the ends; from here on there are two for each channel, for frames that come to its ends.
const FRAMES: u32 = 2;

/// A bond whose channels have their paths.
#[derive(Debug)]
pub(crate) struct Joined {
    bond: Bond,
    /// The number that its frames have for their flow.
    flow: u32,
    timers: [Timer; 2],
    /// For each channel the first step of the path from end 0, and from end 1.
    entry: Vec<[u32; 2]>,
    /// For each end its channels without a rate: the room of their first links says when they may send.
    watched: [Vec<Watched>; 2],
    rooms: [Rooms; 2],
}

/// A channel whose sender has no rate.
#[derive(Clone, Copy, Debug)]
struct Watched {
    channel: u8,
    /// The first link of its path.
    link: u32,
}

/// What an end knows of the room of the links that it watches.
#[derive(Clone, Copy, Debug)]
struct Rooms {
    /// From which on they are still to be asked about.
    next: usize,
    /// When the first that has no room will have some; [`Time::MAX`]: all have some.
    at: Time,
}

impl Rooms {
    /// Nothing is known.
    const UNKNOWN: Rooms = Rooms { next: 0, at: Time::MAX };
}

impl Joined {
    /// The bond `number` of a scenario. Its channels are still to be given paths, in order: [`Joined::connect`].
    pub(crate) fn new(scenario: &Scenario, number: usize) -> Result<Joined, WorldError> {
        let model = &scenario.bonds[number];
        let wrong = |error: String| WorldError::Bond { bond: model.name.clone(), error };
        if model.config.channels.len() != model.channels.len() {
            let (found, expected) = (model.config.channels.len(), model.channels.len());
            return Err(wrong(format!("settings for {found} channels; there are paths for {expected}")));
        }
        let bond = Bond::new(scenario, number, false).map_err(|error| wrong(error.to_string()))?;
        let unpaced = model.config.channels.iter().zip(0..).filter(|(channel, _)| channel.rate.is_none());
        let watched = [0, 1].map(|end: usize| {
            let first = |channel: u8| model.channels[usize::from(channel)][end].first();
            unpaced.clone().filter_map(|(_, channel)| Some(Watched { channel, link: *first(channel)? })).collect()
        });
        Ok(Joined {
            bond,
            flow: (scenario.flows.len() + number) as u32,
            timers: [Timer::IDLE; 2],
            entry: Vec::with_capacity(model.channels.len()),
            watched,
            rooms: [Rooms::UNKNOWN; 2],
        })
    }

    /// The port of frames that come to an end over a channel.
    pub(crate) fn frame_port(end: usize, channel: usize) -> u32 {
        FRAMES + (2 * channel + end) as u32
    }

    /// The next channel's paths begin with these steps.
    pub(crate) fn connect(&mut self, entry: [u32; 2]) {
        self.entry.push(entry);
    }

    /// Begins anew, with its ends' inputs and outputs recorded.
    pub(crate) fn record(&mut self, scenario: &Scenario, number: usize) -> Result<(), WorldError> {
        let model = &scenario.bonds[number];
        let wrong = |error: String| WorldError::Bond { bond: model.name.clone(), error };
        self.bond = Bond::new(scenario, number, true).map_err(|error| wrong(error.to_string()))?;
        Ok(())
    }

    /// Ends the recording of an end and gives it, if there was one.
    pub(crate) fn take_recording(&mut self, end: usize) -> Option<Vec<u8>> {
        self.bond.take_recording(end)
    }

    /// An end was given something.
    #[inline]
    fn touched(&mut self, end: usize) -> Next {
        if !self.bond.begin_polling(end) {
            return Next::Nothing;
        }
        self.rooms[end] = Rooms::UNKNOWN;
        Next::Poll(end as u32)
    }

    #[inline]
    fn send_frame(&mut self, here: &mut Here<'_>, end: usize, channel: u8, size: u32, content: u32) -> Handle {
        let number = self.bond.numbers[end];
        self.bond.numbers[end] += 1;
        let packet = Packet {
            flow: self.flow,
            reverse: end == 1,
            number,
            size,
            created: here.now(),
            connection: u32::from(channel),
            step: self.entry[usize::from(channel)][end],
            dscp: 0,
            body: Body::Frame(content),
        };
        here.engine.launch(here.mark, packet)
    }

    /// Nothing is left to be polled at an end: sets its timer.
    #[inline(always)]
    fn rest(&mut self, here: &mut Here<'_>, end: usize) {
        self.bond.end_polling(end);
        // What is due already was offered and not taken: it waits for the next instant.
        let at = self.bond.poll_timeout(end).unwrap_or(Time::MAX).min(self.rooms[end].at);
        if at < Time::MAX {
            let at = at.max(here.now());
            if self.timers[end].set(at) {
                here.schedule(end as u32, at);
            }
        }
    }
}

impl Node for Joined {
    /// It has something to say as time begins: its channels are up.
    fn begin(&mut self, mut here: Here<'_>) {
        for (end, timer) in self.timers.iter_mut().enumerate() {
            if timer.set(Time::ZERO) {
                here.schedule(end as u32, Time::ZERO);
            }
        }
    }

    /// A packet enters at an end, or a frame has come to the far end of its channel.
    #[inline(always)]
    fn handle_packet(&mut self, mut here: Here<'_>, port: u32, handle: Handle) -> Next {
        let now = here.now();
        let Some(frame) = port.checked_sub(FRAMES) else {
            here.record(What::Entered, handle);
            self.bond.handle_host(now, port as usize, handle, &here.engine.pool);
            return self.touched(port as usize);
        };
        let (channel, end) = ((frame / 2) as u8, (frame % 2) as usize);
        let Content::Frame(content) = here.engine.pool[handle].content else {
            return Next::Only(Output::Dropped(handle));
        };
        here.engine.deliver(here.mark, handle);
        here.engine.pool.free(handle);
        self.bond.handle_frame(now, end, channel, content);
        self.touched(end)
    }

    fn handle_timeout(&mut self, here: Here<'_>, timer: u32, _: Event) -> Next {
        let (now, end) = (here.now(), timer as usize);
        if !self.timers[end].fire(now) {
            return Next::Nothing;
        }
        self.bond.handle_timeout(now, end);
        self.touched(end)
    }

    #[inline(always)]
    fn poll(&mut self, mut here: Here<'_>, part: u32) -> Option<Output> {
        let end = part as usize;
        match self.bond.poll(here.now(), end, &mut here.engine.pool) {
            Some(Wanted::Transmit { channel, size, content }) => {
                if self.watched[end].iter().any(|watched| watched.channel == channel) {
                    // Its link has less room now.
                    self.rooms[end] = Rooms::UNKNOWN;
                }
                Some(Output::Forward(self.send_frame(&mut here, end, channel, size, content)))
            }
            Some(Wanted::Deliver(handle)) => {
                here.record(What::Left, handle);
                Some(Output::Forward(handle))
            }
            Some(Wanted::Dropped(handle)) => Some(Output::Dropped(handle)),
            None => {
                self.rest(&mut here, end);
                None
            }
        }
    }

    #[inline(always)]
    fn ask_room(&mut self, part: u32) -> Option<u32> {
        let end = part as usize;
        Some(self.watched[end].get(self.rooms[end].next)?.link)
    }

    #[inline(always)]
    fn handle_room(&mut self, now: Time, part: u32, at: Time) {
        let end = part as usize;
        let rooms = &mut self.rooms[end];
        let Some(Watched { channel, .. }) = self.watched[end].get(rooms.next) else { return };
        rooms.next += 1;
        if at > now {
            rooms.at = rooms.at.min(at);
        }
        self.bond.set_blocked(now, end, *channel, at > now);
    }

    /// A frame was lost; what it carried is lost with it, unless a copy lives.
    fn handle_lost(&mut self, packet: &Slot) {
        if let Content::Frame(content) = packet.content {
            self.bond.lose(content);
        }
    }

    fn poll_lost(&mut self) -> Option<Handle> {
        self.bond.poll_gone()
    }

    /// What the frame holds behind its outer headers. The outer UDP then goes without checksum.
    fn write_content(&self, packet: &Packet, bytes: &mut Vec<u8>) {
        let Body::Frame(content) = packet.body else { return };
        if let Some(sum) = bytes.get_mut(26..28) {
            sum.fill(0);
        }
        self.bond.frame_bytes(content, bytes);
    }

    fn in_flight(&self) -> u64 {
        self.bond.in_flight()
    }

    fn dropped(&self, name: &str, tell: Tell<'_>) {
        for (reason, packets) in self.bond.dropped() {
            tell(name, reason, packets);
        }
    }

    /// Both ends.
    fn result(&mut self, _: Here<'_>, name: &str, results: &mut Results) {
        results.bonds.extend([0, 1].map(|end| self.bond.result(name, end)));
    }
}
