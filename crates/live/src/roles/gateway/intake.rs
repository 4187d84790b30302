//! What comes from outside and has not been passed on: it waits in the kernel, and its headers wait here.
//!
//! The kernel hands over the headers of each packet (NFQUEUE) and keeps the packet until it hears what becomes of it. Here the
//! fair-queueing subsystem of core's [`Gateway`] says whose packet is next, and when. So no packet is copied, and the kernel
//! routes what is not split as if nobody had looked at it.
//!
//! A unit of joined segments is one packet here. Where the long link's rate is known, the kernel takes units apart first, so that the queue sees each
//! segment.

use super::connections::{Place, SPLIT};
use super::headers::{Segment, traffic_class};
use super::rules::Marks;
use crate::config::Gateway as Settings;
use crate::netlink::queue::{PacketQueue, Queued};
use fairspan_core::buffer::Reason;
use fairspan_core::flow::accounts::{AccountId, Accounts};
use fairspan_core::flow::{FlowHash, Frame, Label, Layer};
use fairspan_core::ip::ecn;
use fairspan_core::queue::{ConfigError, End, Parcel, class_of, host_of};
use fairspan_core::split::{Config, Gateway, Level, Turn};
use fairspan_core::units::{Bytes, FlowNumber, Rate, Span, Time};
use std::collections::BTreeMap;

/// Above this rate units of joined segments stay whole.
const WHOLE_ABOVE: Rate = Rate::from_mbit(1000);
/// Packets of the kernel's that are handled before others have their turn.
pub(super) const BATCH: usize = 256;

/// What a connection keeps unsent: what its socket sends in so long, or so many bytes where the rate is not known. Less would run dry
/// between two looks at it.
const BACKLOG: (Span, Bytes) = (Span::from_millis(10), Bytes::new(64 << 10));
/// Within these bounds.
const BACKLOGS: (u64, u64) = (6 << 10, 256 << 10);

fn split(settings: &Settings) -> Config {
    let backlog = settings.rate.map_or(BACKLOG.1, |rate| rate.bytes_in(BACKLOG.0));
    let mut split = settings.split;
    split.backlog = Bytes::new(backlog.as_u64().clamp(BACKLOGS.0, BACKLOGS.1));
    split
}

/// Whether the kernel is to hand over units whole.
pub(super) fn keeps_units(settings: &Settings) -> bool {
    settings.rate.is_none_or(|rate| rate >= WHOLE_ABOVE)
}

/// A packet that the kernel holds: what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) id: u32,
    size: u32,
    /// The flow, by a hash of addresses, protocol and ports.
    hashed: FlowNumber,
    hosts: [u128; 2],
    label: Label,
    class: u8,
    pub(super) dscp: u8,
    is_capable: bool,
    is_scalable: bool,
    pub(super) from_long: bool,
    pub(super) segment: Option<Segment>,
}

impl Arrival {
    pub(super) fn of(packet: &Queued<'_>, from_long: bool, hash: &FlowHash) -> Arrival {
        let bytes = packet.bytes;
        let frame = Frame { bytes, len: packet.len as usize, layer: Layer::Ip };
        let tos = traffic_class(bytes);
        Arrival {
            id: packet.id,
            size: packet.len,
            hashed: FlowNumber(hash.flow(&frame).number().0 & !SPLIT),
            hosts: [End::Source, End::Destination].map(|end| host_of(bytes, end)),
            label: Label::of(&frame),
            class: class_of(bytes),
            dscp: tos >> 2,
            is_capable: tos & 3 != ecn::NOT_ECT,
            is_scalable: tos & 1 == 1,
            from_long,
            segment: Segment::read(bytes, packet.len),
        }
    }
}

/// A packet that waits its turn.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrival: Arrival,
    place: Option<Place>,
    account: AccountId,
    since: Time,
    is_marked: bool,
}

impl Parcel for Waiting {
    fn size(&self) -> u32 {
        self.arrival.size
    }

    fn mark(&mut self) -> bool {
        self.is_marked = self.arrival.is_capable;
        self.is_marked
    }

    fn host(&self, end: End) -> u128 {
        self.arrival.hosts[end as usize]
    }

    fn class(&self) -> u8 {
        self.arrival.class
    }

    fn is_scalable(&self) -> bool {
        self.arrival.is_scalable
    }
}

/// Packets, by what became of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) marked: u64,
    pub(super) dropped: BTreeMap<&'static str, u64>,
}

/// The queue, on both sides.
pub(super) struct Intake {
    kernel: PacketQueue,
    fair: Option<Gateway<Waiting>>,
    pub(super) accounts: Accounts,
    marks: Marks,
    pub(super) counts: Counts,
}

impl Intake {
    /// Behind the kernel's queue; `seed` keys hashes.
    ///
    /// # Errors
    /// A setting that cannot work.
    pub(super) fn new(
        kernel: PacketQueue,
        settings: &Settings,
        marks: Marks,
        seed: u64,
    ) -> Result<Intake, ConfigError> {
        let fair = if settings.fair_queueing { Some(Gateway::new(&split(settings), seed)?) } else { None };
        Ok(Intake { kernel, fair, accounts: Accounts::default(), marks, counts: Counts::default() })
    }

    /// Other settings.
    ///
    /// # Errors
    /// A setting that cannot work; then nothing has changed.
    pub(super) fn change(&mut self, now: Time, settings: &Settings) -> Result<(), ConfigError> {
        self.fair.as_mut().map_or(Ok(()), |fair| fair.reconfigure(now, &split(settings)))
    }

    pub(super) fn kernel(&mut self) -> &mut PacketQueue {
        &mut self.kernel
    }

    pub(super) fn fair(&self) -> Option<&Gateway<impl Parcel + use<>>> {
        self.fair.as_ref()
    }

    /// A packet that is to go on; it waits where that is wanted.
    pub(super) fn pass(&mut self, now: Time, arrival: Arrival, flow: Option<(FlowNumber, Place)>) {
        let Some(fair) = self.fair.as_mut().filter(|_| !arrival.from_long) else {
            self.kernel.accept(arrival.id, None);
            self.counts.passed += 1;
            return;
        };
        let (number, place) = (flow.map_or(arrival.hashed, |(number, _)| number), flow.map(|(_, place)| place));
        let account = self.accounts.on_arrival(now, number, || arrival.label);
        let payload = arrival.segment.map_or(0, |segment| segment.payload.into());
        let waiting = Waiting { arrival, place, account, since: now, is_marked: false };
        if let Err((waiting, reason)) = fair.handle_packet(now, number, payload, waiting) {
            self.drop(&waiting, reason);
        }
    }

    fn drop(&mut self, waiting: &Waiting, reason: Reason) {
        self.kernel.drop(waiting.arrival.id);
        self.accounts.on_dropped(waiting.account);
        *self.counts.dropped.entry(reason.counter()).or_default() += 1;
    }

    /// Passes on what may go now. `passed` hears of each connection for which something went.
    pub(super) fn drain(&mut self, now: Time, mut passed: impl FnMut(Place)) {
        while let Some(fair) = &mut self.fair {
            if let Some((waiting, reason)) = fair.poll_dropped() {
                self.drop(&waiting, reason);
                continue;
            }
            let Some(Turn::Up(waiting) | Turn::Out(waiting)) = fair.poll(now) else { break };
            let Waiting { arrival, account, since, is_marked, place } = waiting;
            self.kernel.accept(arrival.id, is_marked.then_some(self.marks.congested()));
            self.counts.passed += 1;
            self.counts.marked += u64::from(is_marked);
            self.accounts.on_sent(now, account, arrival.size.into(), now.since(since), is_marked);
            place.into_iter().for_each(&mut passed);
        }
        self.kernel.flush();
    }

    /// When something may go.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.fair.as_ref().and_then(Gateway::poll_timeout)
    }

    /// A SYN that was held goes to the gateway's own listening socket.
    pub(super) fn split(&mut self, id: u32) {
        self.kernel.accept(id, Some(self.marks.split()));
    }

    /// A SYN goes on as if nobody had looked at it.
    pub(super) fn leave(&mut self, id: u32) {
        self.kernel.accept(id, None);
    }

    /// The kernel refuses a SYN.
    pub(super) fn refuse(&mut self, id: u32) {
        self.kernel.accept(id, Some(self.marks.refused()));
    }

    /// Nobody waits for a packet any more.
    pub(super) fn forget(&mut self, id: u32) {
        self.kernel.drop(id);
    }

    pub(super) fn open(&mut self, now: Time, flows: [FlowNumber; 2]) {
        if let Some(fair) = &mut self.fair {
            flows.into_iter().for_each(|flow| fair.open(now, flow));
        }
    }

    pub(super) fn close(&mut self, flows: [FlowNumber; 2]) {
        if let Some(fair) = &mut self.fair {
            flows.into_iter().for_each(|flow| fair.close(flow));
        }
    }

    /// The send buffer behind a flow has changed; whether its gate is closed.
    pub(super) fn on_level(&mut self, now: Time, flow: FlowNumber, level: &Level) -> bool {
        let Some(fair) = &mut self.fair else { return false };
        fair.on_level(now, flow, level);
        self.is_closed(now, flow)
    }

    /// How long the connection over the long link waits that waits least, beyond its shortest round trip.
    pub(super) fn on_wait(&mut self, now: Time, least: Span, wait: Span) {
        self.fair.iter_mut().for_each(|fair| fair.on_wait(now, least, wait));
    }

    /// Whether packets of a flow have to wait for its gate.
    pub(super) fn is_closed(&self, now: Time, flow: FlowNumber) -> bool {
        let gate = self.fair.as_ref().and_then(|fair| fair.gate(flow));
        gate.is_some_and(|gate| gate.ready_at() > now)
    }

    /// Packets that wait, and their bytes.
    pub(super) fn waiting(&self) -> (u64, Bytes) {
        self.fair.as_ref().map_or((0, Bytes::ZERO), Gateway::waiting)
    }
}
