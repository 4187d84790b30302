//! One direction of a link in the world: core's link model, the packets under way in it, and its meters.
//!
//! Without a discipline a packet's fate is decided when it arrives (core's `Schedule`: a tail-drop queue that is
//! arithmetic, not a list of packets), so a hop is one event: the packet leaves the far end. Of the packets under way
//! only the first is in the world's calendar; the others lie in the link's own ring in the order of leaving. A link
//! whose jitter reorders has a heap instead of the ring.
//!
//! With a discipline, packets wait in it, and the end of each transmission is an event of its own. Loss is drawn
//! before the queue and outages meet the transmission, as without.
//!
//! A link that shares a [medium](super::medium) has its packets in a discipline, and asks the medium before it transmits.

use super::medium::Request;
use super::waiting::Waiting;
use super::{Here, Next, Node, Output, Tell};
use crate::engine::Engine;
use crate::engine::event::Event;
use crate::engine::log::What;
use crate::engine::measured::Measured;
use crate::engine::pool::Handle;
use crate::engine::streams::{self, Purpose};
use crate::error::WorldError;
use crate::metrics::series;
use crate::model::{self, Ends};
use crate::results::{LinkResult, Results};
use crate::tcp::segment::Mark;
use crate::traffic::Config;
use fairspan_core::buffer::Reason;
use fairspan_core::link::{DropReason, Passage, Served, Server};
use fairspan_core::units::{FlowNumber, Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Its timers: the first packet under way has come to the far end; a transmission has ended, or may begin.
const ARRIVES: u32 = 0;
const TRANSMITTED: u32 = 1;

/// Why a link drops a packet.
type Cause = DropReason;

/// The words that results have for causes, by number.
const CAUSES: [&str; 2 + Reason::ALL.len()] = {
    let mut names = ["loss"; 2 + Reason::ALL.len()];
    names[1] = "outage";
    let mut at = 0;
    while at < Reason::ALL.len() {
        names[2 + at] = Reason::ALL[at].name();
        at += 1;
    }
    names
};

/// The number of a cause.
fn number(cause: Cause) -> usize {
    match cause {
        DropReason::Loss => 0,
        DropReason::Outage => 1,
        DropReason::Queue(reason) => 2 + reason as usize,
    }
}

/// The number by which a link tells flows apart: each way is one of its own.
#[inline]
fn within(flow: u32, reverse: bool) -> FlowNumber {
    FlowNumber(flow << 1 | u32::from(reverse))
}

/// What becomes of a packet that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// It waits behind others.
    Waits,
    /// The first packet to leave has changed: this event, its place still to be set, goes into the calendar.
    Arm(Event),
    /// A packet is on its way to another part of the world: when it comes there, and its slot, as an event.
    Crosses(Event),
    /// It is dropped.
    Dropped(Cause),
}

/// One direction of a link.
///
/// The order of the fields is fixed for the cache's sake: the schedule fills two and a half lines, then come what only
/// a frame that waits or is dropped needs, the line that every frame needs, and the rest.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Link {
    server: Server<Waiting>,
    dropped: Option<Box<Drops>>,
    /// Bytes in the queue times nanoseconds.
    occupancy: u128,
    /// Of the packets under way the one that leaves first, where there is any: an event whose place is its slot. Most
    /// links of a large scenario never have another.
    first: Event,
    /// Packets under way.
    flying: u32,
    framing: model::Framing,
    capture: bool,
    reorders: bool,
    /// Whether packets wait in a discipline here.
    holds: bool,
    /// Whether the far end is in another part of the world.
    crosses: bool,
    /// Packets and counted bytes that left the far end in the measured time, and nanoseconds of transmission in it.
    packets: u64,
    bytes: u64,
    busy: u64,
    occupancy_max: u64,
    behind: Behind,
    /// Where packets wait in a discipline.
    held: Option<Box<Held>>,
}

/// The packets under way behind the first.
#[derive(Debug)]
enum Behind {
    InOrder(VecDeque<Event>),
    /// `first` is the one that the calendar has; what it has besides is stale.
    Reordering(BinaryHeap<Reverse<Event>>),
}

/// What a link needs of the engine.
#[derive(Debug)]
struct At<'a> {
    now: Time,
    measured: Measured,
    /// Insertions into the calendar so far.
    order: &'a mut u64,
}

impl At<'_> {
    #[inline]
    fn new(engine: &mut Engine) -> At<'_> {
        let (now, measured, order) = engine.clock();
        At { now, measured, order }
    }

    /// Whether this instant counts.
    #[inline]
    fn counts(&self) -> bool {
        self.measured.counts(self.now)
    }
}

/// Packets dropped at a link: in the measured time, and in all by [`Cause`].
#[derive(Clone, Copy, Debug, Default)]
struct Drops {
    measured: u64,
    all: [u64; CAUSES.len()],
}

/// What the world is still to be told of a link with a discipline.
#[derive(Debug, Default)]
struct Held {
    /// The end of the transmission that has begun since the world last asked.
    begun: Option<Time>,
    /// Packets whose drop is still to be told.
    dropped: VecDeque<(Handle, Cause)>,
    /// Packets on their way that have a mark, which they are still to be given.
    marked: Vec<Handle>,
    /// Since when the occupancy has been what it is.
    since: Time,
    ends: Ends,
    shared: Option<Shared>,
}

/// A link's part in a medium.
#[derive(Debug)]
struct Shared {
    medium: u32,
    turn: Turn,
    /// What the medium is still to be told.
    request: Option<Request>,
}

/// Whether a link may send on its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It has nothing to send.
    Rests,
    /// It has asked.
    Waits,
    /// From then on.
    From(Time),
    /// It sends a packet of so many bytes.
    Sends(u32),
}

impl Link {
    /// Where the line begins that every frame needs besides the schedule.
    #[cfg(test)]
    pub(crate) const EVERY_FRAMES_LINE: usize = std::mem::offset_of!(Link, first);

    pub(crate) fn new(
        link: &model::Link,
        number: usize,
        scenario: &model::Scenario,
        capture: bool,
        periodic: bool,
    ) -> Result<Link, WorldError> {
        let mut profile = link.profile.clone();
        if profile.overhead.is_none() {
            profile.overhead = Some(0);
        }
        let reordering = profile.reorder && profile.jitter > Span::ZERO;
        let wrong = |error| WorldError::Link { link: link.name.clone(), error };
        let seed = streams::seed(scenario.seed, Purpose::Link, number as u64);
        let key = streams::seed(scenario.seed, Purpose::Queue, number as u64);
        let medium = link.medium.map(|medium| Shared { medium, turn: Turn::Rests, request: None });
        let make = if medium.is_some() { Server::holding } else { Server::new };
        let mut server = make(profile, seed, key).map_err(wrong)?;
        if periodic {
            server.schedule_mut().let_release_wander();
        }
        let holds = server.holds_packets();
        Ok(Link {
            server,
            dropped: None,
            occupancy: 0,
            first: Event::new(Time::ZERO, 0, 0),
            flying: 0,
            framing: link.framing,
            capture,
            reorders: reordering,
            holds,
            crosses: false,
            packets: 0,
            bytes: 0,
            busy: 0,
            occupancy_max: 0,
            behind: if reordering { Behind::Reordering(BinaryHeap::new()) } else { Behind::InOrder(VecDeque::new()) },
            held: holds.then(|| Box::new(Held { shared: medium, ..Held::default() })),
        })
    }

    /// Gives a flow, in one direction, its weight and room among what waits here, and its bound of delay.
    pub(crate) fn set_share(&mut self, flow: u32, reverse: bool, weight: u32, room: u32, deadline: Option<Span>) {
        let flow = within(flow, reverse);
        self.server.set_share(flow, weight, room);
        if let Some(deadline) = deadline {
            self.server.set_delay(flow, deadline);
        }
    }

    /// The far end is in another part of the world.
    pub(crate) fn cross(&mut self) {
        self.crosses = true;
    }

    /// A packet that was sent in another part of the world is on its way to the far end, which is here.
    pub(crate) fn handle_crossing(&mut self, here: &mut Here<'_>, due: Time, handle: Handle) {
        let at = At::new(here.engine);
        if let Arrival::Arm(event) = self.fly(due, handle, at.order) {
            here.arm(ARRIVES, event);
        }
    }

    /// What the far end has counted, which was in another part of the world.
    pub(crate) fn absorb(&mut self, far: &Link) {
        self.flying += far.flying;
        self.packets += far.packets;
        self.bytes += far.bytes;
    }

    /// Tells between which nodes flows go, where packets wait in a discipline.
    pub(crate) fn set_ends(&mut self, ends: &Ends) {
        if let Some(held) = &mut self.held {
            held.ends = Ends::clone(ends);
        }
    }

    /// A packet of `size` IP bytes comes to the link's near end.
    #[inline(always)]
    fn offer(&mut self, at: At<'_>, handle: Handle, size: u32, flow: FlowNumber, (dscp, mark): (u8, Mark)) -> Arrival {
        if self.holds {
            return self.offer_queue(at, handle, size, flow, (dscp, mark));
        }
        let length = self.framing.length(size);
        match self.server.pass(at.now, length as usize) {
            Ok(passage) => {
                self.account(&at, &passage);
                self.fly(passage.due, handle, at.order)
            }
            Err(reason) => Arrival::Dropped(self.count_drop(&at, reason)),
        }
    }

    /// When the queue will have room for a packet of 1500 bytes: now, where it has.
    pub(crate) fn room_at(&mut self, now: Time) -> Time {
        self.server.room_at(now, self.framing.length(1500) as usize)
    }

    /// The meters of a frame that goes through the virtual queue.
    #[inline]
    fn account(&mut self, at: &At<'_>, passage: &Passage) {
        self.busy += at.measured.part(passage.start, passage.end);
        if passage.start > at.now {
            self.occupancy += u128::from(at.measured.part(at.now, passage.start)) * u128::from(passage.counted);
            if at.counts() {
                self.occupancy_max = self.occupancy_max.max(self.server.schedule().waiting_bytes());
            }
        }
    }

    #[inline]
    fn count_drop(&mut self, at: &At<'_>, cause: Cause) -> Cause {
        let dropped = self.dropped.get_or_insert_default();
        dropped.all[number(cause)] += 1;
        dropped.measured += u64::from(at.counts());
        cause
    }

    /// Puts a packet among those under way.
    #[inline]
    fn fly(&mut self, due: Time, handle: Handle, order: &mut u64) -> Arrival {
        *order += 1;
        let event = Event::new(due.min(Event::LAST), *order, handle.0);
        if self.crosses {
            return Arrival::Crosses(event);
        }
        self.flying += 1;
        if self.flying == 1 {
            self.first = event;
            return Arrival::Arm(event);
        }
        match &mut self.behind {
            Behind::InOrder(ring) => ring.push_back(event),
            Behind::Reordering(heap) if event < self.first => {
                heap.push(Reverse(std::mem::replace(&mut self.first, event)));
                return Arrival::Arm(event);
            }
            Behind::Reordering(heap) => heap.push(Reverse(event)),
        }
        Arrival::Waits
    }

    /// The calendar's event for this link has come: the packet that leaves the far end, and the event for the next.
    /// `None` if the event is stale.
    #[inline(always)]
    fn leave(&mut self, event: Event) -> Option<(Handle, Option<Event>)> {
        if self.flying == 0 || (self.reorders && self.first.for_place(0) != event.for_place(0)) {
            return None;
        }
        debug_assert_eq!(self.first.for_place(0), event.for_place(0));
        let handle = Handle(self.first.place());
        self.flying -= 1;
        if self.flying == 0 {
            return Some((handle, None));
        }
        let next = match &mut self.behind {
            Behind::InOrder(ring) => ring.pop_front(),
            Behind::Reordering(heap) => heap.pop().map(|next| next.0),
        };
        self.first = next?;
        Some((handle, next))
    }

    /// The packet that leaves first, where there is any.
    #[inline]
    pub(crate) fn first(&self) -> Handle {
        Handle(self.first.place())
    }

    /// Reads a little of each line that a frame needs.
    #[inline]
    pub(crate) fn read(&self) -> u32 {
        let schedule = self.server.schedule();
        schedule.busy_until().as_nanos() as u32 ^ schedule.is_lossy() as u32 ^ self.flying
    }

    /// A packet has left the far end.
    #[inline]
    fn count_passed(&mut self, now: Time, measured: Measured, size: u32) {
        if measured.counts(now) {
            self.packets += 1;
            self.bytes += u64::from(self.framing.length(size));
        }
    }

    fn offer_queue(
        &mut self,
        at: At<'_>,
        handle: Handle,
        size: u32,
        flow: FlowNumber,
        (dscp, mark): (u8, Mark),
    ) -> Arrival {
        self.weigh(&at);
        let ends = self.held.as_ref().and_then(|held| held.ends.get(flow.0 as usize >> 1)).copied().unwrap_or_default();
        let packet = Waiting::new(handle, self.framing.length(size), ends, flow.0 & 1 == 1, dscp).with_mark(mark);
        let idle = self.server.is_idle();
        match self.server.offer(at.now, flow, packet) {
            Ok(()) => self.collect(&at),
            Err((_, DropReason::Loss)) => return Arrival::Dropped(self.count_drop(&at, DropReason::Loss)),
            // Told with the policy's drops, of which there may be several.
            Err((refused, reason)) => self.drop_later(&at, refused.packet, reason),
        }
        if let Some(shared) = self.shared() {
            if shared.turn == Turn::Rests {
                (shared.turn, shared.request) = (Turn::Waits, Some(Request::Ask));
            }
        } else if idle {
            return self.transmit(at);
        }
        self.watch(&at);
        Arrival::Waits
    }

    /// A transmission has ended, or may begin on the medium.
    fn transmitted(&mut self, at: At<'_>) -> Arrival {
        let (ready, now) = (self.server.next_ready(), at.now);
        match self.shared().map(|shared| shared.turn) {
            None => self.transmit(at),
            Some(Turn::From(begin)) if begin == now => {
                let arrival = self.transmit(at);
                let sends = self.held.as_ref().is_some_and(|held| held.begun.is_some());
                if !sends {
                    self.end_turn(0);
                }
                arrival
            }
            Some(Turn::Sends(bytes)) if ready == Some(now) => {
                if self.server.held_packets() > 0 {
                    self.server.pause();
                } else {
                    // A discipline wants to know that the link has fallen idle.
                    let _ = self.server.serve(now);
                }
                self.end_turn(bytes);
                Arrival::Waits
            }
            // The medium went to another.
            Some(_) => Arrival::Waits,
        }
    }

    fn shared(&mut self) -> Option<&mut Shared> {
        self.held.as_mut()?.shared.as_mut()
    }

    /// The packet that had the medium has gone, or there was none.
    fn end_turn(&mut self, bytes: u32) {
        let more = self.server.held_packets() > 0;
        if let Some(shared) = self.shared() {
            shared.turn = if more { Turn::Waits } else { Turn::Rests };
            shared.request = Some(Request::Done { bytes, more });
        }
    }

    /// What its medium is to be told.
    pub(crate) fn poll_request(&mut self) -> Option<Request> {
        self.shared()?.request.take()
    }

    /// It has the medium from then on.
    pub(crate) fn grant(&mut self, here: &mut Here<'_>, at: Time) {
        if let Some(shared) = self.shared() {
            shared.turn = Turn::From(at);
            here.schedule(TRANSMITTED, at);
        }
    }

    /// It has it no more.
    pub(crate) fn revoke(&mut self) {
        if let Some(shared) = self.shared() {
            shared.turn = Turn::Waits;
        }
    }

    /// Begins the next transmission of an idle link, if there is one.
    fn transmit(&mut self, at: At<'_>) -> Arrival {
        loop {
            self.weigh(&at);
            let served = self.server.serve(at.now);
            self.collect(&at);
            self.watch(&at);
            let Some(Served { packet, passage }) = served else {
                return Arrival::Waits;
            };
            let handle = packet.packet;
            if let Some(held) = &mut self.held {
                held.begun = self.server.next_ready();
                if let Some(shared) = &mut held.shared {
                    shared.turn = Turn::Sends(packet.size);
                }
                if packet.is_marked() {
                    held.marked.push(handle);
                }
            }
            match passage {
                Ok(passage) => {
                    self.busy += at.measured.part(passage.start, passage.end);
                    return self.fly(passage.due, handle, at.order);
                }
                Err(reason) => {
                    self.drop_later(&at, handle, reason);
                    if !self.server.is_idle() {
                        return Arrival::Waits;
                    }
                }
            }
        }
    }

    /// The end of the transmission that has begun since this was last asked.
    fn poll_begun(&mut self) -> Option<Time> {
        self.held.as_mut()?.begun.take()
    }

    /// A packet that a policy dropped.
    #[inline]
    fn poll_dropped(&mut self) -> Option<(Handle, Cause)> {
        self.held.as_mut()?.dropped.pop_front()
    }

    /// A discipline may have begun a transmission and dropped packets.
    fn after_queue(&mut self, here: &mut Here<'_>) -> Next {
        if let Some(end) = self.poll_begun() {
            here.schedule(TRANSMITTED, end);
        }
        if let Some(held) = &mut self.held {
            for handle in held.marked.drain(..) {
                here.engine.pool[handle].mark = Mark::Experienced;
            }
        }
        let more = self.held.as_ref().is_some_and(|held| {
            !held.dropped.is_empty() || held.shared.as_ref().is_some_and(|shared| shared.request.is_some())
        });
        if more { Next::Poll(0) } else { Next::Nothing }
    }

    /// A packet goes to the far end in another part of the world, with the mark that a discipline gave it.
    #[cold]
    fn leave_part(&mut self, here: &mut Here<'_>, event: Event) -> Next {
        let next = if self.holds { self.after_queue(here) } else { Next::Nothing };
        here.engine.cross(here.number, event.time(), Handle(event.place()));
        next
    }

    fn collect(&mut self, at: &At<'_>) {
        while let Some((dropped, reason)) = self.server.poll_dropped() {
            self.drop_later(at, dropped.packet, reason);
        }
    }

    /// Counts a drop, of which the world is told when it asks.
    fn drop_later(&mut self, at: &At<'_>, handle: Handle, cause: Cause) {
        let cause = self.count_drop(at, cause);
        if let Some(held) = &mut self.held {
            held.dropped.push_back((handle, cause));
        }
    }

    /// Adds the occupancy of the discipline since it last changed.
    fn weigh(&mut self, at: &At<'_>) {
        if let Some(held) = &mut self.held {
            let span = at.measured.part(held.since, at.now);
            self.occupancy += u128::from(span) * u128::from(self.server.waiting(at.now).1);
            held.since = at.now;
        }
    }

    /// Notes the largest occupancy.
    fn watch(&mut self, at: &At<'_>) {
        if let Some(held) = &self.held
            && held.since >= at.measured.from
        {
            self.occupancy_max = self.occupancy_max.max(self.server.waiting(at.now).1);
        }
    }

    /// Packets dropped so far.
    fn drops(&self) -> Drops {
        self.dropped.as_deref().copied().unwrap_or_default()
    }
}

impl Node for Link {
    #[inline(always)]
    fn handle_packet(&mut self, mut here: Here<'_>, _: u32, handle: Handle) -> Next {
        here.record(What::Entered, handle);
        let packet = &here.engine.pool[handle];
        let (size, flow) = (packet.size, within(packet.flow, packet.reverse));
        let told = (packet.dscp, packet.mark);
        match self.offer(At::new(here.engine), handle, size, flow, told) {
            Arrival::Waits => {}
            Arrival::Arm(event) => here.arm(ARRIVES, event),
            Arrival::Crosses(event) => return self.leave_part(&mut here, event),
            Arrival::Dropped(_) => return Next::Only(Output::Dropped(handle)),
        }
        if self.holds { self.after_queue(&mut here) } else { Next::Nothing }
    }

    #[inline(always)]
    fn handle_timeout(&mut self, mut here: Here<'_>, timer: u32, event: Event) -> Next {
        if timer == TRANSMITTED {
            match self.transmitted(At::new(here.engine)) {
                Arrival::Arm(event) => here.arm(ARRIVES, event),
                Arrival::Crosses(event) => return self.leave_part(&mut here, event),
                Arrival::Waits | Arrival::Dropped(_) => {}
            }
            return self.after_queue(&mut here);
        }
        let Some((handle, next)) = self.leave(event) else { return Next::Nothing };
        self.count_passed(here.now(), here.engine.measured(), here.engine.pool[handle].size);
        here.record(What::Left, handle);
        if let Some(next) = next {
            here.arm(ARRIVES, next);
        }
        Next::Only(if self.capture { Output::Capture(handle) } else { Output::Forward(handle) })
    }

    fn poll(&mut self, _: Here<'_>, _: u32) -> Option<Output> {
        if let Some((handle, _)) = self.poll_dropped() {
            return Some(Output::Dropped(handle));
        }
        let shared = self.shared().filter(|shared| shared.request.is_some())?;
        Some(Output::Share(shared.medium))
    }

    /// Packets under way or waiting.
    fn in_flight(&self) -> u64 {
        let waiting = self.held.as_ref().map_or(0, |held| self.server.held_packets() + held.dropped.len());
        u64::from(self.flying) + waiting as u64
    }

    fn dropped(&self, name: &str, tell: Tell<'_>) {
        for (reason, &packets) in CAUSES.iter().zip(&self.drops().all) {
            tell(name, reason, packets);
        }
    }

    fn series(&self, name: &str, tell: &mut dyn FnMut(String, &'static str, series::Kind)) {
        tell(format!("link {name} queue"), "bytes", series::Kind::Level);
    }

    /// Bytes that wait for transmission now.
    fn sample(&mut self, now: Time, tell: &mut dyn FnMut(f64)) {
        tell(self.server.waiting(now).1 as f64);
    }

    fn result(&mut self, here: Here<'_>, name: &str, results: &mut Results) {
        let at = At::new(here.engine);
        self.weigh(&at);
        let nanos = (at.measured.span().as_nanos() as f64).max(1.0);
        results.links.push(LinkResult {
            name: name.to_owned(),
            packets: self.packets,
            bytes: self.bytes,
            load: self.busy as f64 / nanos,
            dropped: self.drops().measured,
            queue_mean: self.occupancy as f64 / nanos,
            queue_max: self.occupancy_max,
        });
    }
}

/// For each link whether several flows meet at it, one of them a source that goes on whatever becomes of its packets, and
/// clocks are to differ. A link that such a source saturates clocks the packets to the next link, and their phase there would
/// stand still whatever the sources' drift, and however random their gaps. A source that pauses of itself finds another
/// phase after each pause.
pub(crate) fn periodic(scenario: &model::Scenario) -> Vec<bool> {
    let mut flows = vec![(0_u32, false); scenario.links.len()];
    for flow in &scenario.flows {
        let fixed = matches!(
            flow.traffic,
            Config::Constant { .. } | Config::Poisson { .. } | Config::Replay { .. } | Config::Own(_)
        );
        for hop in flow.path.iter().chain(flow.others.iter().flat_map(|[there, _]| there)) {
            if let model::Hop::Link(link) = hop
                && let Some(entry) = flows.get_mut(*link as usize)
            {
                *entry = (entry.0 + 1, entry.1 || fixed);
            }
        }
    }
    flows.iter().map(|&(count, fixed)| scenario.drift_ppm > 0 && count > 1 && fixed).collect()
}
