//! What the simulation runs on: time, the calendar of events, the pool of packets, the log's hash, independent random
//! streams.

pub mod calendar;
pub mod event;
pub mod lists;
pub mod log;
pub(crate) mod measured;
mod near;
pub mod pool;
pub mod streams;

use crate::packet::{Crossing, Outgoing, Packet};
use calendar::Calendar;
use event::Event;
use fairspan_core::units::Time;
use lists::Lists;
use log::{Log, What};
use measured::Measured;
use pool::{Handle, Pool};

/// Time, what is still to come, the packets under way, and the log. It knows no node: an event is for a place, a number.
#[derive(Debug)]
pub(crate) struct Engine {
    now: Time,
    end: Time,
    calendar: Calendar,
    /// Insertions so far.
    order: u64,
    events: u64,
    log: Log,
    pub(crate) pool: Pool,
    /// What the ends of flows have given out and take a time to send.
    pub(crate) waiting: Lists<Outgoing>,
    measured: Measured,
    sent: u64,
    delivered: u64,
    /// Packets on their way to other parts of the world.
    pub(crate) crossings: Vec<Crossing>,
    /// Packets under way in parts that were taken in.
    absorbed: usize,
}

impl Engine {
    /// At time zero; it runs to the end of what is measured.
    pub(crate) fn new(measured: Measured) -> Engine {
        Engine {
            now: Time::ZERO,
            end: measured.until,
            calendar: Calendar::new(),
            order: 0,
            events: 0,
            log: Log::default(),
            pool: Pool::default(),
            waiting: Lists::default(),
            measured,
            sent: 0,
            delivered: 0,
            crossings: Vec::new(),
            absorbed: 0,
        }
    }

    /// The present.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// When it ends.
    #[inline]
    pub(crate) fn end(&self) -> Time {
        self.end
    }

    /// The time that is measured.
    #[inline]
    pub(crate) fn measured(&self) -> Measured {
        self.measured
    }

    /// Events handled so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Packets under way.
    pub(crate) fn live(&self) -> usize {
        self.pool.live() + self.absorbed
    }

    /// When the next event is.
    pub(crate) fn next_time(&mut self) -> Option<Time> {
        self.calendar.next_time().map(Time::from_nanos)
    }

    /// Takes over what another part of the same world has counted.
    pub(crate) fn absorb(&mut self, other: &Engine) {
        self.events += other.events;
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.absorbed += other.live();
        self.log.absorb(other.log);
    }

    /// A packet leaves this part of the world: it comes to the far end of link `link` at `due`.
    pub(crate) fn cross(&mut self, link: u32, due: Time, packet: Handle) {
        self.crossings.push(Crossing { link, due, packet: self.pool.packet(packet) });
        self.pool.free(packet);
    }

    /// Packets that were launched, and packets that reached who they were for.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent, self.delivered)
    }

    /// Hash of the log so far.
    pub(crate) fn log_hash(&self) -> u64 {
        self.log.hash()
    }

    /// The next event up to and at `until`, which then is the present. Without one the present is `until`.
    #[inline]
    pub(crate) fn next(&mut self, until: Time) -> Option<Event> {
        let Some(event) = self.calendar.pop(until.as_nanos()) else {
            self.now = self.now.max(until);
            return None;
        };
        self.events += 1;
        self.now = event.time();
        Some(event)
    }

    /// Events that are about to be taken out, in no order, and the packets; empty unless they have just come into reach.
    #[inline]
    pub(crate) fn coming(&mut self) -> (&[Event], &Pool) {
        (self.calendar.coming(), &self.pool)
    }

    /// The present, what is measured, and the insertions so far: for a node that counts them itself, see
    /// [`Engine::order`].
    #[inline]
    pub(crate) fn clock(&mut self) -> (Time, Measured, &mut u64) {
        (self.now, self.measured, &mut self.order)
    }

    /// The number of an insertion: among events of one time, the order in which these are taken is theirs.
    #[inline]
    pub(crate) fn order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Puts in an event for `place`, unless it is beyond the end.
    #[inline]
    pub(crate) fn schedule(&mut self, time: Time, place: u32) {
        let order = self.order();
        if time <= self.end {
            self.calendar.push(Event::new(time, order, place));
        }
    }

    /// Puts in an event whose order was taken before.
    #[inline]
    pub(crate) fn arm(&mut self, event: Event, place: u32) {
        self.calendar.push(event.for_place(place));
    }

    /// Logs what happened to a packet at `mark`.
    #[inline]
    pub(crate) fn record(&mut self, what: What, mark: u32, packet: Handle) {
        let packet = &self.pool[packet];
        let flow = packet.flow << 1 | u32::from(packet.reverse);
        self.log.record(what, self.now, mark, flow, packet.number);
    }

    /// Logs what happened to something that is no packet: its number stands for it.
    #[inline]
    pub(crate) fn record_other(&mut self, what: What, mark: u32, flow: u32, number: u64) {
        self.log.record(what, self.now, mark, flow, number);
    }

    /// A packet is made at `mark`.
    #[inline]
    pub(crate) fn launch(&mut self, mark: u32, packet: Packet) -> Handle {
        self.sent += 1;
        let flow = packet.flow << 1 | u32::from(packet.reverse);
        self.log.record(What::Sent, self.now, mark, flow, packet.number);
        self.pool.insert(packet)
    }

    /// A packet has reached who it was for, at `mark`. Its slot is that one's to free.
    #[inline]
    pub(crate) fn deliver(&mut self, mark: u32, packet: Handle) {
        self.delivered += 1;
        self.record(What::Delivered, mark, packet);
    }
}
