//! A bond in the world: core's [`Bond`](fairspan_core::bond::Bond), unchanged, at both ends.
//!
//! A packet that enters is written as bytes ([`wire`]), and core's bond decides over it as in the gateway. What it
//! sends are frames: packets of the bond's own, whose paths are the channels' links, and which are counted as sent,
//! delivered or dropped like all packets. The packet inside stays where it is in the pool of packets; it is in flight
//! until the bond at the far end delivers it, and dropped when the last frame that carries it is.
//!
//! | the gateway | here |
//! |---|---|
//! | TUN, read while `wants_host` | `waiting`, [`HOST_QUEUE`] packets; what comes on top is dropped: `host queue full` |
//! | UDP and encryption | `overhead` bytes of each channel, on top of the frame |
//! | a socket that takes nothing | the channel's first link has no room: only asked where the channel has no rate |
//! | the interface that goes down | none: outages are found by silence, as between gateways |
//!
//! Departures: the two ends' clocks agree; frames carry no ECN; what is longer than the bond's MTU is dropped (all
//! packets have DF set), and the answer to the host is not delivered.

mod frame;
pub(crate) mod joined;

use crate::engine::pool::{Handle, Pool};
use crate::engine::streams::{self, Purpose};
use crate::model::{self, Ends};
use crate::packet::Packet;
use crate::results::BondResult;
use crate::tcp::segment::Segment;
use crate::wire;
use fairspan_core::bond::{Codepoint, Compression, ConfigError, Event, Head, Link};
use fairspan_core::packet::Packet as _;
use fairspan_core::record::Recorder;
use fairspan_core::units::{ChannelId, Time};
use frame::{Extent, Frame, Ledger};
use std::collections::VecDeque;
use std::sync::Arc;

/// Packets that wait for a bond that reads none: as many as Linux lets wait for the reader of a TUN.
const HOST_QUEUE: usize = 500;

/// Why a bond dropped a packet: core's counters, and what only the world knows.
const REASONS: [&str; 21] = [
    "frame lost",
    "host queue full",
    "bond",
    "host_not_ip",
    "host_too_big",
    "queue_full",
    "stripe_too_long",
    "early_dropped",
    "no_channel",
    "copies_skipped",
    "late",
    "duplicates",
    "beyond_window",
    "stale_epoch",
    "unknown_channel",
    "bad_packet",
    "unexpected_stripe",
    "memory_refused",
    "given_up",
    "stripe overflow",
    "stripe stale",
];
const FRAME_LOST: usize = 0;
const HOST_FULL: usize = 1;
const OTHER: usize = 2;
/// From here on core's counters.
const COUNTED: usize = 3;

/// What the world is to do next for one end.
#[derive(Debug)]
pub(crate) enum Output {
    /// Sends a frame of `size` bytes over a channel; `content` is its number here.
    Transmit { channel: u8, size: u32, content: u32 },
    /// A packet goes on from the far end.
    Deliver(Handle),
    /// A packet was dropped here.
    Dropped(Handle),
}

/// A frame under way.
#[derive(Debug)]
struct Flight {
    head: Head,
    packet: Option<Frame>,
    /// Bytes of the packet that the head stands for.
    skip: usize,
    codepoint: Codepoint,
    tos: u8,
}

/// A bond: its two ends and the frames between them.
#[derive(Debug)]
pub(crate) struct Bond {
    ends: [End; 2],
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    ledger: Arc<Ledger>,
    /// Between which nodes flows go.
    between: Ends,
    /// The packets that frames carry, by the tickets that the frames have.
    tickets: Vec<Ticket>,
    free_tickets: Vec<u32>,
    /// Packets that are in the bond.
    inside: u64,
    gone: Vec<Handle>,
    dropped: [u64; REASONS.len()],
    /// How much of a packet its frames have.
    extent: Extent,
    /// Outer headers by channel.
    overhead: Vec<u32>,
    /// Number of the next frame, by end.
    pub(crate) numbers: [u64; 2],
}

/// A packet that frames carry.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    /// `None` once it was delivered: what copies there still are carry nothing that anybody waits for.
    packet: Option<Handle>,
    copies: u16,
}

#[derive(Debug)]
struct End {
    bond: Recorder<Frame, Vec<u8>>,
    waiting: VecDeque<Handle>,
    /// What core's counters were when a drop was last explained.
    explained: [u64; REASONS.len()],
    held_max: u64,
    downs: u64,
    ups: u64,
    /// Its outputs are being taken: by whoever took the first.
    busy: bool,
}

impl Bond {
    /// The bond number `number` of a scenario, its channels up. `record`: its ends' inputs and outputs are recorded.
    pub(crate) fn new(scenario: &model::Scenario, number: usize, record: bool) -> Result<Bond, ConfigError> {
        let (model, seed) = (&scenario.bonds[number], scenario.seed);
        let now = Time::ZERO;
        let end = |end: u64| -> Result<End, ConfigError> {
            let seed = streams::seed(seed, Purpose::Bond, 2 * number as u64 + end);
            let mut bond = Recorder::new(model.config_of(end as usize), now, seed, record.then(Vec::new))?;
            for channel in 0..model.channels.len() {
                bond.set_link(now, ChannelId(channel as u8), Link::Up);
            }
            let explained = [0; REASONS.len()];
            Ok(End { bond, waiting: VecDeque::new(), explained, held_max: 0, downs: 0, ups: 0, busy: false })
        };
        Ok(Bond {
            ends: [end(0)?, end(1)?],
            flights: Vec::new(),
            free: Vec::new(),
            ledger: Arc::new(Ledger::default()),
            between: scenario.ends(),
            tickets: Vec::new(),
            free_tickets: Vec::new(),
            inside: 0,
            gone: Vec::new(),
            dropped: [0; REASONS.len()],
            extent: match (record, model.config.compress_headers) {
                // Parity is reckoned over all of a packet, and pieces of one have their bytes.
                _ if record || model.config.parity || model.config.fragment_delay.is_some() => Extent::All,
                (_, Compression::Off) => Extent::Read,
                _ => Extent::Headers,
            },
            overhead: model.config.channels.iter().map(|channel| channel.overhead as u32).collect(),
            numbers: [0; 2],
        })
    }

    /// A packet enters at `end`.
    #[inline]
    pub(crate) fn handle_host(&mut self, now: Time, end: usize, handle: Handle, pool: &Pool) {
        self.inside += 1;
        let side = &mut self.ends[end];
        if side.waiting.is_empty() && side.bond.wants_host() {
            self.read_host(now, end, handle, pool);
        } else if side.waiting.len() < HOST_QUEUE {
            side.waiting.push_back(handle);
        } else {
            self.drop_packet(handle, HOST_FULL);
        }
    }

    fn read_host(&mut self, now: Time, end: usize, handle: Handle, pool: &Pool) {
        let ticket = Ticket { packet: Some(handle), copies: 1 };
        let number = match self.free_tickets.pop() {
            Some(number) => {
                self.tickets[number as usize] = ticket;
                number
            }
            None => {
                self.tickets.push(ticket);
                (self.tickets.len() - 1) as u32
            }
        };
        let packet = pool.packet(handle);
        let between = self.between.get(packet.flow as usize);
        let ends = between.map(|[from, to]| if packet.reverse { [*to, *from] } else { [*from, *to] });
        let frame = Frame::new(&packet, ends, number, &self.ledger, self.extent);
        self.ends[end].bond.handle_host(now, frame);
        self.settle(end);
    }

    /// A frame has come to `end` over `channel`.
    #[inline]
    pub(crate) fn handle_frame(&mut self, now: Time, end: usize, channel: u8, content: u32) {
        let Some(Flight { head, packet, skip, codepoint, tos }) = self.take_flight(content) else { return };
        let frame = match packet {
            Some(mut frame) => {
                if skip > 0 {
                    frame.strip(skip);
                }
                frame.wrap(head.as_slice());
                frame
            }
            None => Frame::message(head.as_slice(), &self.ledger),
        };
        self.ends[end].bond.handle_channel(now, ChannelId(channel), codepoint, frame, tos);
        self.settle(end);
    }

    /// What a frame has on the wire behind its outer headers: the envelope, and as much of the packet as is known.
    pub(crate) fn frame_bytes(&self, content: u32, out: &mut Vec<u8>) {
        if let Some(Some(flight)) = self.flights.get(content as usize) {
            out.extend_from_slice(flight.head.as_slice());
            let packet = flight.packet.as_ref().map_or(&[][..], |packet| packet.bytes());
            out.extend_from_slice(packet.get(flight.skip..).unwrap_or(&[]));
        }
    }

    /// A frame was lost on its way; [`Bond::poll_gone`] then gives the packets that were lost with it.
    pub(crate) fn lose(&mut self, content: u32) {
        drop(self.take_flight(content));
        while let Some(ticket) = self.ledger.poll_dropped() {
            self.drop_copy(ticket, FRAME_LOST);
        }
    }

    /// A packet that was dropped: the world's to free.
    pub(crate) fn poll_gone(&mut self) -> Option<Handle> {
        self.gone.pop()
    }

    /// The time that [`Bond::poll_timeout`] gave for `end` has come.
    pub(crate) fn handle_timeout(&mut self, now: Time, end: usize) {
        if self.ends[end].bond.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.ends[end].bond.handle_timeout(now);
            self.settle(end);
        }
    }

    /// When `end` wants [`Bond::handle_timeout`].
    #[inline]
    pub(crate) fn poll_timeout(&self, end: usize) -> Option<Time> {
        self.ends[end].bond.poll_timeout().map(|(at, _)| at)
    }

    /// Whether the channel's first link has no room.
    #[inline]
    pub(crate) fn set_blocked(&mut self, now: Time, end: usize, channel: u8, blocked: bool) {
        self.ends[end].bond.set_blocked(now, ChannelId(channel), blocked);
    }

    /// Takes the right to poll `end`; false when someone has it, who will take what there is.
    #[inline]
    pub(crate) fn begin_polling(&mut self, end: usize) -> bool {
        !std::mem::replace(&mut self.ends[end].busy, true)
    }

    /// Nothing is left to poll at `end`.
    #[inline]
    pub(crate) fn end_polling(&mut self, end: usize) {
        let side = &mut self.ends[end];
        side.busy = false;
        side.held_max = side.held_max.max(side.bond.resequencing_bytes() as u64);
    }

    /// What is to be done next for `end`; to be asked until there is nothing, after every input.
    #[inline]
    pub(crate) fn poll(&mut self, now: Time, end: usize, pool: &mut Pool) -> Option<Output> {
        loop {
            if let Some(handle) = self.gone.pop() {
                return Some(Output::Dropped(handle));
            }
            let mut side = &mut self.ends[end];
            if let Some(mut frame) = side.bond.poll_transmit(now) {
                if side.bond.wants_back()
                    && let Some(copy) = frame.packet.as_ref().and_then(Frame::duplicate)
                    && let Some(packet) = frame.packet.replace(copy)
                {
                    side.bond.give_back(packet);
                }
                while let Some(copied) = self.ledger.poll_made() {
                    self.tickets[copied as usize].copies += 1;
                }
                let channel = frame.channel.0;
                let size = frame.size() as u32 + self.overhead[usize::from(channel)];
                let content = self.put_flight(Flight {
                    head: frame.head,
                    packet: frame.packet,
                    skip: frame.skip,
                    codepoint: frame.codepoint,
                    tos: frame.tos,
                });
                self.settle(end);
                return Some(Output::Transmit { channel, size, content });
            }
            while let Some(mut frame) = side.bond.poll_deliver() {
                let packet = match frame.take_ticket() {
                    Some(ticket) => {
                        let packet = self.tickets[ticket as usize].packet.take();
                        self.drop_copy(ticket, OTHER);
                        packet
                    }
                    None => self.rebuilt(&frame, pool),
                };
                if let Some(handle) = packet {
                    self.inside -= 1;
                    leave(&frame, pool.segment(handle));
                    return Some(Output::Deliver(handle));
                }
                side = &mut self.ends[end];
            }
            while let Some(event) = side.bond.poll_event() {
                match event {
                    Event::ChannelUp { .. } => side.ups += 1,
                    Event::ChannelDown { .. } => side.downs += 1,
                    _ => {}
                }
            }
            if !side.bond.wants_host() {
                return None;
            }
            let handle = side.waiting.pop_front()?;
            self.read_host(now, end, handle, pool);
        }
    }

    /// The packet that a frame without a ticket is, which the bond rebuilt from parity: it is not delivered yet, as a copy is kept until the far
    /// end is told. Any other such frame is an answer of the bond's own to its host.
    #[cold]
    fn rebuilt(&mut self, frame: &Frame, pool: &Pool) -> Option<Handle> {
        let is_it = |handle| is_of(frame, &pool.packet(handle));
        let found = self.tickets.iter().position(|ticket| ticket.packet.is_some_and(is_it))?;
        self.tickets[found].packet.take()
    }

    /// Accounts for what the core dropped in the last call.
    #[inline]
    fn settle(&mut self, end: usize) {
        let Some(mut ticket) = self.ledger.poll_dropped() else { return };
        // Of drops in one call each takes one of what was counted in it.
        let mut counted = self.count(end);
        loop {
            let found = (COUNTED..REASONS.len()).find(|at| counted[*at] > 0);
            if let Some(at) = found {
                counted[at] -= 1;
            }
            self.drop_copy(ticket, found.unwrap_or(OTHER));
            match self.ledger.poll_dropped() {
                Some(next) => ticket = next,
                None => return,
            }
        }
    }

    /// What core's counters of `end` that tell of drops have counted since they were last asked.
    #[cold]
    fn count(&mut self, end: usize) -> [u64; REASONS.len()] {
        let side = &mut self.ends[end];
        let mut now = [0; REASONS.len()];
        for (name, value) in side.bond.stats().each() {
            if let Some(at) = REASONS.iter().position(|reason| *reason == name) {
                now[at] = value;
            }
        }
        if let Some((_, receiver)) = side.bond.stripe_stats() {
            (now[REASONS.len() - 2], now[REASONS.len() - 1]) = (receiver.overflow, receiver.stale);
        }
        let mut since = now;
        for (since, before) in since.iter_mut().zip(side.explained) {
            *since -= before;
        }
        side.explained = now;
        since
    }

    /// A frame of this ticket is no more; with the last one the packet is gone, if it was not delivered.
    fn drop_copy(&mut self, number: u32, reason: usize) {
        let ticket = &mut self.tickets[number as usize];
        ticket.copies -= 1;
        if ticket.copies == 0 {
            let packet = ticket.packet.take();
            self.free_tickets.push(number);
            if let Some(handle) = packet {
                self.drop_packet(handle, reason);
            }
        }
    }

    fn drop_packet(&mut self, handle: Handle, reason: usize) {
        self.inside -= 1;
        self.dropped[reason] += 1;
        self.gone.push(handle);
    }

    fn put_flight(&mut self, flight: Flight) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.flights[at as usize] = Some(flight);
                at
            }
            None => {
                self.flights.push(Some(flight));
                (self.flights.len() - 1) as u32
            }
        }
    }

    fn take_flight(&mut self, content: u32) -> Option<Flight> {
        let flight = self.flights.get_mut(content as usize)?.take()?;
        self.free.push(content);
        Some(flight)
    }

    /// Packets in the bond: in its queues, its frames, or waiting for their order.
    pub(crate) fn in_flight(&self) -> u64 {
        self.inside
    }

    /// What `end` counted, and what it held at most.
    pub(crate) fn result(&self, name: &str, end: usize) -> BondResult {
        let side = &self.ends[end];
        let mut counters: Vec<(String, u64)> = vec![];
        let mut add = |name: &str, value: u64| counters.push((name.to_string(), value));
        for (name, value) in side.bond.stats().each() {
            add(name, value);
        }
        add("channel_downs", side.downs);
        add("channel_ups", side.ups);
        if let Some((sender, receiver)) = side.bond.stripe_stats() {
            for (name, value) in [
                ("stripe.sent_markers", sender.markers),
                ("stripe.sent_plans", sender.plans),
                ("stripe.epochs", sender.epochs),
                ("stripe.changes", sender.changes),
                ("stripe.received_markers", receiver.markers),
                ("stripe.lost", receiver.lost),
                ("stripe.overflow", receiver.overflow),
                ("stripe.stale", receiver.stale),
                ("stripe.resets_asked", receiver.ahead + receiver.unknown),
                ("stripe.skips", receiver.skips),
            ] {
                add(name, value);
            }
        }
        for (name, value) in side.bond.flow_stats().iter().flat_map(|stats| stats.each()) {
            add(&format!("flow.{name}"), value);
        }
        for (name, value) in side.bond.fragment_counts().iter().flat_map(|counts| counts.each()) {
            add(&format!("fragments.{name}"), value);
        }
        for (n, class) in side.bond.classes().enumerate() {
            for (counter, value) in class.stats.each() {
                add(&format!("class{n}.{counter}"), value);
            }
            for (channel, frames) in class.frames.iter().enumerate() {
                add(&format!("class{n}.channel{channel}"), *frames);
            }
        }
        for channel in 0..self.overhead.len() {
            let Some(stats) = side.bond.channel_stats(ChannelId(channel as u8)) else { continue };
            for (counter, value) in stats.each() {
                add(&format!("channel{channel}.{counter}"), value);
            }
        }
        BondResult { name: format!("{name}/{end}"), counters, held_max: side.held_max }
    }

    /// Ends the recording of `end` and gives it, if there was one.
    pub(crate) fn take_recording(&mut self, end: usize) -> Option<Vec<u8>> {
        self.ends[end].bond.finish()
    }

    /// Packets dropped, by reason.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.into_iter().zip(self.dropped).filter(|(_, packets)| *packets > 0)
    }
}

/// Whether a frame with all its bytes is this packet: by length, identification, addresses and ports.
fn is_of(frame: &Frame, packet: &Packet) -> bool {
    let mut headers = [0; wire::MOST_HEADERS];
    let length = wire::headers(packet, &mut headers);
    let same = |from: usize, to: usize| frame.bytes().get(from..to) == headers.get(from..to);
    frame.size().as_u64() == u64::from(packet.size) && same(4, 6) && same(12, length.min(24))
}

/// A packet leaves the bond as the bond made it: a SYN may name a smaller segment size now.
fn leave(frame: &Frame, segment: Option<&mut Segment>) {
    if let Some(segment) = segment
        && segment.options.mss.is_some()
    {
        segment.options.mss = wire::mss(frame.bytes()).or(segment.options.mss);
    }
}
