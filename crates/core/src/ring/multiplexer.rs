//! The outgoing link of one ringlet at a node: what goes next, transit or station, and when.
//!
//! | scheduling | order | transit |
//! |---|---|---|
//! | `Fifo` | one queue for all, of all classes, in the order of arrival; full, it drops at the tail | lossy |
//! | `Admitted` | class A; then one queue, which released station packets enter while it is below the threshold | lossless |
//! | `Single` | transit of all classes, strictly; then the station: class A, then the rest | lossless |
//! | `Dual` | class A in transit, then the station's; then the secondary queue and the station in turn, until the queue is above the threshold; then the queue | lossless |
//!
//! Source: rings §II (single- and dual-queue mode), §V-A.1 (FIFO over transit and station); IEEE 802.17 clause 7.
//!
//! Departure from §V-A.1: the station enters the FIFO below a threshold only. The paper's FIFO drops transit as well as
//! station packets when it is full; its own requirement is that transit be lossless.
//!
//! Cost: constant per packet. Invariants: the link is given a packet only when the one before has left (or is no further
//! ahead than the burst); transit grows only by what comes in, so that with an outgoing link as fast as the incoming one
//! it holds no more than the threshold and two packets, and control frames.

use super::Class;
use super::control::Reservation;
use super::output_queue::Held;
use super::station::{Station, Waiting};
use crate::link::pacing::Pacer;
use crate::packet::Packet;
use crate::queue::ConfigError;
use crate::units::{Bytes, Rate, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Control frames that may wait for a link: a report of every node, and some.
const MOST_CONTROL: usize = 512;

/// What goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduling {
    Fifo,
    Admitted,
    Single,
    Dual,
}

#[derive(Debug)]
struct Transit<P> {
    packets: VecDeque<Held<P>>,
    /// Bytes on the wire.
    bytes: u64,
}

impl<P> Transit<P> {
    const EMPTY: Transit<P> = Transit { packets: VecDeque::new(), bytes: 0 };

    #[inline]
    fn push(&mut self, held: Held<P>) {
        self.bytes += u64::from(held.wire);
        self.packets.push_back(held);
    }

    #[inline]
    fn pop(&mut self) -> Option<Held<P>> {
        let held = self.packets.pop_front()?;
        self.bytes -= u64::from(held.wire);
        Some(held)
    }

    fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// Settings of a multiplexer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) scheduling: Scheduling,
    pub(super) capacity: Rate,
    pub(super) burst: Bytes,
    pub(super) overhead: usize,
    pub(super) transit_limit: Bytes,
    pub(super) threshold: Bytes,
    /// Whether the link takes frames from the start.
    pub(super) carrier: bool,
}

/// The outgoing link of one ringlet.
#[derive(Debug)]
pub(super) struct Multiplexer<P> {
    settings: Settings,
    pub(super) station: Station<P>,
    /// Class A in transit.
    primary: Transit<P>,
    /// Everything else that only waits for the link.
    secondary: Transit<P>,
    /// In `Dual`: whether the station is next.
    station_next: bool,
    pacer: Pacer,
    carrier: bool,
    blocked: bool,
    control: VecDeque<Vec<u8>>,
    /// The newest fairness message; empty: none.
    fairness: Vec<u8>,
    /// Buffers of control frames that were sent.
    spare: Vec<Vec<u8>>,
}

impl<P: Packet> Multiplexer<P> {
    pub(super) fn new(
        settings: Settings,
        nodes: usize,
        queue: &Waiting,
        reservations: &[Reservation],
    ) -> Result<Multiplexer<P>, ConfigError> {
        Ok(Multiplexer {
            settings,
            station: Station::new(nodes, queue, settings.burst, reservations)?,
            primary: Transit::EMPTY,
            secondary: Transit::EMPTY,
            station_next: false,
            pacer: Pacer::new(settings.capacity, settings.burst),
            carrier: settings.carrier,
            blocked: false,
            control: VecDeque::new(),
            fairness: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Bytes of a packet on this link.
    #[inline]
    pub(super) fn wire(&self, size: Bytes) -> u32 {
        u32::try_from(size.as_u64().saturating_add(self.settings.overhead as u64)).unwrap_or(u32::MAX)
    }

    /// What is added to each packet from now on; what waits keeps what was added to it.
    pub(super) fn set_overhead(&mut self, overhead: usize) {
        self.settings.overhead = overhead;
    }

    pub(super) fn capacity(&self) -> Rate {
        self.settings.capacity
    }

    pub(super) fn set_capacity(&mut self, now: Time, rate: Rate) {
        self.settings.capacity = rate;
        self.pacer.rescale(now, rate, self.settings.burst);
    }

    pub(super) fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    pub(super) fn carrier(&self) -> bool {
        self.carrier
    }

    /// Whether the link takes frames at all. Control frames of a link that does not are forgotten.
    pub(super) fn set_carrier(&mut self, up: bool) {
        self.carrier = up;
        if !up {
            self.spare.extend(self.control.drain(..));
            self.fairness.clear();
        }
    }

    /// Bytes in the queue that shared traffic passes.
    #[inline]
    pub(super) fn transit(&self) -> u64 {
        self.secondary.bytes
    }

    pub(super) fn transit_limit(&self) -> u64 {
        self.settings.transit_limit.as_u64()
    }

    /// Packets in all queues.
    pub(super) fn packets(&self) -> usize {
        self.station.packets() + self.primary.packets.len() + self.secondary.packets.len()
    }

    /// A packet in transit: given back where its queue is full.
    #[inline]
    pub(super) fn transit_in(&mut self, held: Held<P>) -> Result<(), Held<P>> {
        let limit = self.transit_limit();
        let queue = self.queue_of(&held);
        if queue.bytes + u64::from(held.wire) > limit {
            return Err(held);
        }
        queue.push(held);
        Ok(())
    }

    #[inline]
    fn queue_of(&mut self, held: &Held<P>) -> &mut Transit<P> {
        let urgent = matches!(self.settings.scheduling, Scheduling::Admitted | Scheduling::Dual);
        if urgent && held.head.class == Class::A { &mut self.primary } else { &mut self.secondary }
    }

    /// A packet from the station: given back where there is no room, else whether it was made class C. `arrived` is told of bytes that share fairly and come to
    /// the multiplexer.
    #[inline]
    pub(super) fn station_in(&mut self, now: Time, held: Held<P>, arrived: impl FnMut(u32)) -> Result<bool, Held<P>> {
        if self.settings.scheduling == Scheduling::Fifo {
            return self.transit_in(held).map(|()| false);
        }
        let demoted = self.station.enqueue(now, held, arrived)?;
        self.admit(now);
        Ok(demoted)
    }

    /// Lets released packets of the station into the queue that it shares with transit.
    #[inline]
    pub(super) fn admit(&mut self, now: Time) {
        while self.station.has_released()
            && self.settings.scheduling == Scheduling::Admitted
            && self.secondary.bytes < self.settings.threshold.as_u64()
            && let Some(held) = self.station.take(now)
        {
            self.secondary.push(held);
        }
    }

    /// Releases what limiters let pass by now.
    #[inline]
    pub(super) fn release_due(&mut self, now: Time, arrived: impl FnMut(u32)) {
        if self.station.due().is_some_and(|due| due <= now) {
            self.station.release_due(now, arrived);
        }
        self.admit(now);
    }

    fn has_data(&self) -> bool {
        !self.primary.is_empty()
            || !self.secondary.is_empty()
            || self.station.has_urgent()
            || self.station.has_released()
    }

    fn has_control(&self) -> bool {
        !self.fairness.is_empty() || !self.control.is_empty()
    }

    /// Whether the link takes a frame now.
    #[inline]
    fn is_free(&self, now: Time) -> bool {
        self.carrier && !self.blocked && self.pacer.ready_at() <= now
    }

    /// When there is something to do next: a limiter, or the link's end of a transmission with more to send. `up`: whether
    /// data may go.
    #[inline]
    pub(super) fn poll_timeout(&self, up: bool) -> Option<Time> {
        let sends = self.carrier && !self.blocked && (self.has_control() || up && self.has_data());
        let link = sends.then(|| self.pacer.ready_at());
        match (self.station.due(), link) {
            (Some(due), Some(link)) => Some(due.min(link)),
            (due, link) => due.or(link),
        }
    }

    /// The packet whose transmission begins now.
    #[inline]
    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<Held<P>> {
        if !self.is_free(now) {
            return None;
        }
        let held = self.next(now)?;
        self.pacer.on_sent(now, held.wire as usize);
        self.admit(now);
        Some(held)
    }

    #[inline]
    fn next(&mut self, now: Time) -> Option<Held<P>> {
        match self.settings.scheduling {
            Scheduling::Fifo => self.secondary.pop(),
            Scheduling::Admitted => {
                self.primary.pop().or_else(|| self.station.take_urgent(now)).or_else(|| self.secondary.pop())
            }
            Scheduling::Single => {
                self.secondary.pop().or_else(|| self.station.take_urgent(now)).or_else(|| self.station.take(now))
            }
            Scheduling::Dual => {
                self.primary.pop().or_else(|| self.station.take_urgent(now)).or_else(|| self.in_turn(now))
            }
        }
    }

    /// The secondary queue and the station.
    fn in_turn(&mut self, now: Time) -> Option<Held<P>> {
        let full = self.secondary.bytes >= self.settings.threshold.as_u64();
        if self.station_next
            && !full
            && let Some(held) = self.station.take(now)
        {
            self.station_next = false;
            return Some(held);
        }
        let held = self.secondary.pop();
        self.station_next = held.is_some();
        held.or_else(|| self.station.take(now))
    }

    /// A control frame that waits for the link: whether there was room.
    pub(super) fn push_control(&mut self, frame: &[u8]) -> bool {
        if !self.carrier || self.control.len() >= MOST_CONTROL {
            return !self.carrier;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.control.push_back(buffer);
        true
    }

    /// The place of a fairness message; what is in it was not sent yet, and a newer one takes its place.
    pub(super) fn fairness(&mut self) -> Option<&mut Vec<u8>> {
        self.fairness.clear();
        self.carrier.then_some(&mut self.fairness)
    }

    /// Swaps the control frame that goes now with the content of `sent`: whether there is one.
    pub(super) fn poll_control(&mut self, now: Time, sent: &mut Vec<u8>) -> bool {
        if !self.has_control() || !self.is_free(now) {
            return false;
        }
        if self.fairness.is_empty() {
            let Some(frame) = self.control.pop_front() else { return false };
            self.spare.push(core::mem::replace(sent, frame));
        } else {
            core::mem::swap(sent, &mut self.fairness);
            self.fairness.clear();
        }
        self.pacer.on_sent(now, sent.len() + self.settings.overhead.saturating_sub(super::frame::HEAD));
        true
    }

    /// A packet that was drained stays after all.
    pub(super) fn put_back(&mut self, held: Held<P>) {
        self.queue_of(&held).push(held);
    }

    /// Takes out what is in transit, in order, and the station's packets among it.
    pub(super) fn drain_transit(&mut self) -> impl Iterator<Item = Held<P>> + use<P> {
        self.primary.bytes = 0;
        self.secondary.bytes = 0;
        core::mem::take(&mut self.primary.packets).into_iter().chain(core::mem::take(&mut self.secondary.packets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::frame::Head;
    use crate::ring::protection::Path;
    use crate::ring::{NodeId, Ringlet};
    use crate::units::{FlowNumber, Span};
    use std::string::String;

    /// A link of 8 Mbit/s: a byte takes a microsecond.
    fn multiplexer(scheduling: Scheduling) -> Multiplexer<u32> {
        let settings = Settings {
            scheduling,
            capacity: Rate::from_mbit(8),
            burst: Bytes::ZERO,
            overhead: 0,
            transit_limit: Bytes::new(10_000),
            threshold: Bytes::new(3_000),
            carrier: true,
        };
        let a = Reservation { to: None, class: Class::A, rate: Rate::from_mbit(8_000) };
        Multiplexer::new(settings, 8, &Waiting::fifo(Bytes::new(100_000)), &[a]).unwrap()
    }

    fn held(packet: char, ingress: u8, class: Class) -> Held<u32> {
        let node = |n| NodeId::new(n).unwrap();
        let path = Path { ingress: node(ingress), egress: node(5), ringlet: Ringlet::Zero, wrapped: false, ttl: 8 };
        Held {
            head: Head { path, class, shares: class != Class::A },
            wire: 1000,
            flow: FlowNumber(0),
            packet: u32::from(packet),
        }
    }

    /// Lets packets in at time 0: `t` in transit, `s` from the station; capitals are of class A. What leaves when.
    fn order(scheduling: Scheduling, packets: &'static str) -> String {
        let mut mux = multiplexer(scheduling);
        for packet in packets.chars() {
            let class = if packet.is_uppercase() { Class::A } else { Class::C };
            if packet.eq_ignore_ascii_case(&'t') {
                assert!(mux.transit_in(held(packet, 1, class)).is_ok());
            } else {
                assert!(mux.station_in(Time::ZERO, held(packet, 4, class), |_| {}).is_ok());
            }
        }
        let mut left = String::new();
        let mut now = Time::ZERO;
        while let Some(due) = mux.poll_timeout(true) {
            assert!(due <= now + Span::from_millis(1), "one after the other: a packet takes a millisecond");
            now = now.max(due);
            mux.release_due(now, |_| {});
            if let Some(held) = mux.poll_transmit(now) {
                left.extend(char::from_u32(held.packet));
                assert!(mux.poll_transmit(now).is_none(), "the link is taken");
            }
        }
        assert_eq!(mux.packets(), 0);
        assert_eq!(now, Time::from_millis(packets.len() as u64 - 1), "the link was never idle");
        left
    }

    #[test]
    fn each_scheduling_has_its_order() {
        assert_eq!(order(Scheduling::Fifo, "stTsSt"), "stTsSt", "in the order of arrival");
        assert_eq!(order(Scheduling::Single, "sSsTtt"), "TttSss", "transit strictly first, then class A");
        assert_eq!(order(Scheduling::Dual, "ssstttS"), "Stststs", "in turn");
        assert_eq!(
            order(Scheduling::Dual, "sstTttt"),
            "Tttstst",
            "above the threshold of 3000 bytes transit goes first"
        );
        assert_eq!(order(Scheduling::Admitted, "stssT"), "Tstss", "class A first, else in the order of arrival");
        assert_eq!(order(Scheduling::Admitted, "ttttsts"), "tttttss", "the station enters below the threshold only");
    }

    #[test]
    fn transit_and_station_have_rooms_of_their_own_but_with_fifo() {
        for scheduling in [Scheduling::Fifo, Scheduling::Admitted, Scheduling::Single, Scheduling::Dual] {
            let mut mux = multiplexer(scheduling);
            let entered =
                (0..20).filter(|_| mux.station_in(Time::ZERO, held('s', 4, Class::C), |_| {}).is_ok()).count();
            let passed = (0..20).filter(|_| mux.transit_in(held('t', 1, Class::C)).is_ok()).count();
            let expected = match scheduling {
                Scheduling::Fifo => (10, 0),
                Scheduling::Admitted => (20, 7),
                _ => (20, 10),
            };
            assert_eq!((entered, passed), expected, "{scheduling:?}");
        }
    }

    #[test]
    fn control_frames_go_before_data_take_their_time_and_only_the_newest_fairness_message_counts() {
        let mut mux = multiplexer(Scheduling::Admitted);
        let mut sent = Vec::new();
        assert!(mux.transit_in(held('t', 1, Class::A)).is_ok());
        assert!(mux.poll_transmit(Time::ZERO).is_some());
        assert!(mux.transit_in(held('t', 1, Class::A)).is_ok());
        assert!(mux.push_control(&[7; 100]));
        for message in [1u8, 2] {
            mux.fairness().unwrap().extend_from_slice(&[message; 50]);
        }
        let at = Time::from_millis(1);
        assert!(!mux.poll_control(Time::from_nanos(999_999), &mut sent), "a transmission is not interrupted");
        assert_eq!(mux.poll_timeout(true), Some(at));
        assert!(mux.poll_control(at, &mut sent));
        assert_eq!(sent, [2; 50]);
        assert!(!mux.poll_control(at, &mut sent));
        let at = at + Span::from_micros(50);
        assert!(mux.poll_control(at, &mut sent));
        assert_eq!(sent, [7; 100]);
        assert!(mux.poll_transmit(at).is_none());
        assert!(mux.poll_transmit(at + Span::from_micros(100)).is_some());
    }

    #[test]
    fn what_a_link_adds_counts_from_now_on_and_with_a_control_frame_but_for_a_head_of_data() {
        let mut mux = multiplexer(Scheduling::Admitted);
        let mut sent = Vec::new();
        mux.set_overhead(46);
        assert_eq!(mux.wire(Bytes::new(100)), 146);
        assert!(mux.push_control(&[7; 60]));
        assert!(mux.poll_control(Time::ZERO, &mut sent));
        assert!(mux.transit_in(held('t', 1, Class::A)).is_ok());
        assert_eq!(mux.poll_timeout(true), Some(Time::ZERO + Span::from_micros(100)));
    }

    #[test]
    fn what_is_in_transit_and_shares_is_counted_and_all_of_it_can_be_taken_out_in_order() {
        let mut mux = multiplexer(Scheduling::Admitted);
        for (packet, class) in [('c', Class::C), ('a', Class::A), ('d', Class::C)] {
            assert!(mux.transit_in(held(packet, 1, class)).is_ok());
        }
        assert!(mux.station_in(Time::ZERO, held('s', 4, Class::C), |_| {}).is_ok());
        assert_eq!((mux.transit(), mux.packets()), (3000, 4), "class A has a queue of its own");
        let order: String = mux.drain_transit().filter_map(|held| char::from_u32(held.packet)).collect();
        assert_eq!((order.as_str(), mux.transit(), mux.packets()), ("acds", 0, 0));
    }

    #[test]
    fn a_blocked_link_takes_nothing_and_one_without_carrier_forgets_its_control_frames() {
        let mut mux = multiplexer(Scheduling::Dual);
        let mut sent = Vec::new();
        assert!(mux.transit_in(held('t', 1, Class::C)).is_ok());
        assert!(mux.push_control(&[1]));
        mux.set_blocked(true);
        assert_eq!(mux.poll_timeout(true), None);
        assert!(!mux.poll_control(Time::ZERO, &mut sent) && mux.poll_transmit(Time::ZERO).is_none());
        mux.set_blocked(false);
        mux.set_carrier(true);
        assert!(mux.carrier() && mux.poll_control(Time::ZERO, &mut sent), "what waits is not forgotten for that");
        assert!(mux.push_control(&[1]));
        mux.set_carrier(false);
        assert!(!mux.carrier());
        assert_eq!(mux.poll_timeout(true), None);
        assert!(mux.fairness().is_none() && mux.push_control(&[2]), "there is nobody to send it to");
        mux.set_carrier(true);
        let later = Time::from_millis(1);
        assert!(!mux.poll_control(later, &mut sent), "it would be old");
        assert!((0..MOST_CONTROL).all(|_| mux.push_control(&[3])) && !mux.push_control(&[3]), "bounded");
        assert!(mux.poll_transmit(later).is_some());
    }
}
