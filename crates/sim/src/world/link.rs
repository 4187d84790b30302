//! One direction of a link in the world: core's link model, the packets under way in it, and its meters.
//!
//! Without a discipline a packet's fate is decided when it arrives (core's [`Schedule`]: a tail-drop queue that is
//! arithmetic, not a list of packets), so a hop is one event: the packet leaves the far end. Packets under way lie in
//! the link's own ring in the order of leaving; only the first of them is in the world's calendar. A link whose jitter
//! reorders has a heap instead of the ring.
//!
//! With a discipline, packets wait in it, and the end of each transmission is an event of its own. Loss is drawn
//! before the queue and outages meet the transmission, as without.

use crate::engine::event::Event;
use crate::engine::pool::Handle;
use crate::engine::streams::{self, Purpose};
use crate::scenario::model;
use crate::traffic::Config;
use crate::world::WorldError;
use fairspan_core::link::{DropReason, Passage, Schedule};
use fairspan_core::queue::{Admit, AnyDiscipline, FlowId, Limit, QueueDiscipline};
use fairspan_core::units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Why a link drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Cause {
    Loss,
    Outage,
    Full,
    Front,
    Longest,
    TooLarge,
    Other,
}

impl Cause {
    /// All of them, with the words that results have for them.
    pub(crate) const NAMES: [&'static str; 7] = [
        "loss",
        "outage",
        "queue full",
        "queue full, oldest dropped",
        "queue full, longest cut",
        "larger than the buffer",
        "queue policy",
    ];
}

impl From<DropReason> for Cause {
    fn from(reason: DropReason) -> Cause {
        match reason {
            DropReason::Loss => Cause::Loss,
            DropReason::Queue => Cause::Full,
            DropReason::Outage => Cause::Outage,
        }
    }
}

impl From<fairspan_core::queue::Reason> for Cause {
    fn from(reason: fairspan_core::queue::Reason) -> Cause {
        use fairspan_core::queue::Reason;
        match reason {
            Reason::Full => Cause::Full,
            Reason::Front => Cause::Front,
            Reason::Longest => Cause::Longest,
            Reason::TooLarge => Cause::TooLarge,
            _ => Cause::Other,
        }
    }
}

/// What a link tells the world after it was given a packet or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Nothing to do: the packet waits behind others.
    Waits,
    /// The first packet to leave has changed: this event, its place still to be set, goes into the calendar.
    Arm(Event),
    /// The packet is dropped.
    Dropped(Cause),
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Link {
    schedule: Schedule,
    framing: model::Framing,
    flight: Flight,
    queue: Option<Box<Queue>>,
    pub(crate) capture: bool,
    pub(crate) meter: Meter,
}

/// Packets under way, by when they leave: an event whose place is the packet's slot.
#[derive(Debug)]
enum Flight {
    InOrder(VecDeque<Event>),
    Reordering {
        heap: BinaryHeap<Reverse<Event>>,
        /// The one that the calendar has; what it has besides is stale.
        armed: Option<Event>,
    },
}

/// What waits in a discipline.
#[derive(Debug)]
struct Queue {
    discipline: AnyDiscipline<(Handle, u32)>,
    limit: Limit,
    busy: bool,
    /// The end of the transmission that has begun since the world last asked.
    begun: Option<Time>,
    /// Packets whose policy drop is still to be told.
    dropped: VecDeque<(Handle, Cause)>,
    /// Since when the occupancy has been what it is.
    since: Time,
}

/// What a link counts, within the measured time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    from: Time,
    until: Time,
    /// Packets and counted bytes that left the far end.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Nanoseconds of transmission.
    pub(crate) busy: u64,
    /// Bytes in the queue times nanoseconds.
    pub(crate) occupancy: u128,
    pub(crate) occupancy_max: u64,
    /// Packets dropped at it in the measured time.
    pub(crate) dropped_measured: u64,
    /// Packets dropped at it, in all, by [`Cause`].
    pub(crate) dropped: [u64; Cause::NAMES.len()],
}

impl Meter {
    /// Nanoseconds of a span that lie in the measured time.
    #[inline]
    fn measured(&self, start: Time, end: Time) -> u64 {
        end.min(self.until).since(start.max(self.from)).as_nanos()
    }
}

impl Link {
    pub(crate) fn new(
        link: &model::Link,
        number: usize,
        scenario: &model::Scenario,
        capture: bool,
        periodic: bool,
    ) -> Result<Link, WorldError> {
        let mut profile = link.profile.clone();
        // Here a frame's length is what the framing makes of an IP packet: no Ethernet header to take away.
        profile.overhead = profile.overhead.or(Some(0));
        let reordering = profile.reorder && profile.jitter > Span::ZERO;
        let wrong = |error| WorldError::Link { link: link.name.clone(), error };
        let seed = streams::seed(scenario.seed, Purpose::Link, number as u64);
        let queue = match &link.discipline {
            None => None,
            Some(config) => {
                let key = streams::seed(scenario.seed, Purpose::Queue, number as u64);
                let discipline = AnyDiscipline::new(config, key)
                    .map_err(|error| WorldError::Queue { link: link.name.clone(), error })?;
                Some(Box::new(Queue {
                    discipline,
                    limit: config.limit,
                    busy: false,
                    begun: None,
                    dropped: VecDeque::new(),
                    since: Time::ZERO,
                }))
            }
        };
        let mut schedule = Schedule::new(profile, seed).map_err(wrong)?;
        if periodic {
            schedule.let_release_wander();
        }
        Ok(Link {
            schedule,
            framing: link.framing,
            flight: if reordering {
                Flight::Reordering { heap: BinaryHeap::new(), armed: None }
            } else {
                Flight::InOrder(VecDeque::new())
            },
            queue,
            capture,
            meter: Meter {
                from: Time::ZERO + scenario.warm_up,
                until: Time::ZERO + scenario.duration,
                ..Meter::default()
            },
        })
    }

    /// A packet of `size` IP bytes comes to the link's near end.
    #[inline]
    pub(crate) fn offer(&mut self, now: Time, handle: Handle, size: u32, flow: u32, order: &mut u64) -> Arrival {
        if self.queue.is_some() {
            return self.offer_queue(now, handle, size, flow, order);
        }
        let length = self.framing.length(size);
        match self.schedule.pass(now, length as usize) {
            Ok(passage) => {
                self.account(now, &passage);
                self.fly(passage.due, handle, order)
            }
            Err(reason) => Arrival::Dropped(self.count_drop(now, reason.into())),
        }
    }

    /// When the queue will have room for a packet of 1500 bytes: now, where it has.
    pub(crate) fn room_at(&mut self, now: Time) -> Time {
        let length = self.framing.length(1500);
        let Some(queue) = &self.queue else { return self.schedule.room_at(now, length as usize) };
        let full = match queue.limit {
            Limit::Packets(most) => queue.discipline.packets() >= most as usize,
            Limit::Bytes(most) => queue.discipline.bytes() + u64::from(length) > most,
        };
        // A transmission that ends makes room for one packet, perhaps.
        if full && queue.busy { self.schedule.busy_until() } else { now }
    }

    /// The meters of a frame that goes through the virtual queue.
    #[inline]
    fn account(&mut self, now: Time, passage: &Passage) {
        let meter = &mut self.meter;
        meter.busy += meter.measured(passage.start, passage.end);
        if passage.start > now {
            meter.occupancy += u128::from(meter.measured(now, passage.start)) * u128::from(passage.counted);
            if now >= meter.from {
                meter.occupancy_max = meter.occupancy_max.max(self.schedule.waiting_bytes());
            }
        }
    }

    #[inline]
    fn count_drop(&mut self, now: Time, cause: Cause) -> Cause {
        self.meter.dropped[cause as usize] += 1;
        self.meter.dropped_measured += u64::from(now >= self.meter.from);
        cause
    }

    /// Puts a packet among those under way.
    #[inline]
    fn fly(&mut self, due: Time, handle: Handle, order: &mut u64) -> Arrival {
        *order += 1;
        let event = Event::new(due.min(Event::LAST), *order, handle.0);
        match &mut self.flight {
            Flight::InOrder(ring) => {
                ring.push_back(event);
                if ring.len() > 1 { Arrival::Waits } else { Arrival::Arm(event) }
            }
            Flight::Reordering { heap, armed } => {
                heap.push(Reverse(event));
                if armed.is_some_and(|armed| armed < event) {
                    return Arrival::Waits;
                }
                *armed = Some(event);
                Arrival::Arm(event)
            }
        }
    }

    /// The calendar's event for this link has come: the packet that leaves the far end, and the event for the next.
    /// `None` if the event is stale.
    #[inline]
    pub(crate) fn leave(&mut self, event: Event) -> Option<(Handle, Option<Event>)> {
        match &mut self.flight {
            Flight::InOrder(ring) => {
                let first = ring.pop_front()?;
                debug_assert_eq!(first.for_place(0), event.for_place(0));
                Some((Handle(first.place()), ring.front().copied()))
            }
            Flight::Reordering { heap, armed } => {
                let first = (*armed)?;
                if first.for_place(0) != event.for_place(0) {
                    return None;
                }
                heap.pop();
                *armed = heap.peek().map(|next| next.0);
                Some((Handle(first.place()), *armed))
            }
        }
    }

    /// A packet has left the far end.
    #[inline]
    pub(crate) fn count_passed(&mut self, now: Time, size: u32) {
        if now >= self.meter.from {
            self.meter.packets += 1;
            self.meter.bytes += u64::from(self.framing.length(size));
        }
    }

    fn offer_queue(&mut self, now: Time, handle: Handle, size: u32, flow: u32, order: &mut u64) -> Arrival {
        if self.schedule.lose() {
            return Arrival::Dropped(self.count_drop(now, Cause::Loss));
        }
        self.weigh(now);
        let length = self.framing.length(size);
        let Some(queue) = &mut self.queue else { return Arrival::Waits };
        let admitted = queue.discipline.enqueue(now, FlowId(flow), (handle, length), length);
        let idle = !queue.busy;
        self.collect(now);
        if let Admit::Refused((handle, _), reason) = admitted {
            // Told with the policy's drops, of which there may be several.
            let cause = self.count_drop(now, reason.into());
            if let Some(queue) = &mut self.queue {
                queue.dropped.push_back((handle, cause));
            }
        }
        if idle {
            return self.transmit(now, order);
        }
        self.watch();
        Arrival::Waits
    }

    /// A transmission has ended.
    pub(crate) fn transmitted(&mut self, now: Time, order: &mut u64) -> Arrival {
        if let Some(queue) = &mut self.queue {
            queue.busy = false;
        }
        self.transmit(now, order)
    }

    /// Begins the next transmission of an idle link, if there is one.
    fn transmit(&mut self, now: Time, order: &mut u64) -> Arrival {
        loop {
            self.weigh(now);
            let Some(queue) = &mut self.queue else { return Arrival::Waits };
            let next = queue.discipline.dequeue(now);
            self.collect(now);
            let Some((_, (handle, length))) = next else {
                self.watch();
                return Arrival::Waits;
            };
            let passage = self.schedule.transmit(now, length as usize);
            self.watch();
            // What an outage meets is lost, but has taken its time.
            let end = self.schedule.busy_until();
            if let Some(queue) = &mut self.queue
                && end > now
            {
                (queue.busy, queue.begun) = (true, Some(end));
            }
            match passage {
                Ok(passage) => {
                    self.meter.busy += self.meter.measured(passage.start, passage.end);
                    if let Some(queue) = &mut self.queue {
                        // Also where it took no time: the event then only asks for what is behind.
                        (queue.busy, queue.begun) = (true, Some(end.max(now)));
                    }
                    return self.fly(passage.due, handle, order);
                }
                Err(reason) => {
                    let cause = self.count_drop(now, reason.into());
                    if let Some(queue) = &mut self.queue {
                        queue.dropped.push_back((handle, cause));
                    }
                    if end > now {
                        return Arrival::Waits;
                    }
                }
            }
        }
    }

    /// The end of the transmission that has begun since this was last asked.
    pub(crate) fn poll_begun(&mut self) -> Option<Time> {
        self.queue.as_mut()?.begun.take()
    }

    /// A packet that a policy dropped.
    #[inline]
    pub(crate) fn poll_dropped(&mut self) -> Option<(Handle, Cause)> {
        self.queue.as_mut()?.dropped.pop_front()
    }

    /// Whether packets wait in a discipline here.
    pub(crate) fn has_discipline(&self) -> bool {
        self.queue.is_some()
    }

    fn collect(&mut self, now: Time) {
        while let Some(dropped) = self.queue.as_mut().and_then(|queue| queue.discipline.poll_dropped(now)) {
            let cause = self.count_drop(now, dropped.reason.into());
            if let Some(queue) = &mut self.queue {
                queue.dropped.push_back((dropped.packet.0, cause));
            }
        }
    }

    /// Adds the occupancy of the discipline since it last changed.
    fn weigh(&mut self, now: Time) {
        if let Some(queue) = &mut self.queue {
            let span = self.meter.measured(queue.since, now);
            self.meter.occupancy += u128::from(span) * u128::from(queue.discipline.bytes());
            queue.since = now;
        }
    }

    /// Notes the largest occupancy.
    fn watch(&mut self) {
        if let Some(queue) = &self.queue
            && queue.since >= self.meter.from
        {
            self.meter.occupancy_max = self.meter.occupancy_max.max(queue.discipline.bytes());
        }
    }

    /// Packets under way or waiting.
    pub(crate) fn in_flight(&self) -> u64 {
        let flying = match &self.flight {
            Flight::InOrder(ring) => ring.len(),
            Flight::Reordering { heap, .. } => heap.len(),
        };
        let waiting = self.queue.as_ref().map_or(0, |queue| queue.discipline.packets() + queue.dropped.len());
        (flying + waiting) as u64
    }

    /// Bytes that wait for transmission now.
    pub(crate) fn waiting_bytes(&mut self, now: Time) -> u64 {
        match &self.queue {
            Some(queue) => queue.discipline.bytes(),
            None => self.schedule.waiting(now).1,
        }
    }

    /// Settles the meters at the end of the measured time.
    pub(crate) fn settle(&mut self, now: Time) {
        self.weigh(now);
    }
}

/// For each link whether several flows meet at it, one of them a source that sends at fixed distances, and clocks are
/// to differ. A link that such a source saturates clocks the packets to the next link, and their phase there would
/// stand still whatever the sources' drift.
pub(crate) fn periodic(scenario: &model::Scenario) -> Vec<bool> {
    let mut flows = vec![(0_u32, false); scenario.links.len()];
    for flow in &scenario.flows {
        let fixed = matches!(flow.traffic, Config::Constant { .. } | Config::Replay { .. });
        for hop in &flow.path {
            if let model::Hop::Link(link) = hop
                && let Some(entry) = flows.get_mut(*link as usize)
            {
                *entry = (entry.0 + 1, entry.1 || fixed);
            }
        }
    }
    flows.iter().map(|&(count, fixed)| scenario.drift_ppm > 0 && count > 1 && fixed).collect()
}

impl model::Framing {
    /// Bytes on this link of an IP packet of `size`.
    #[inline]
    pub fn length(self, size: u32) -> u32 {
        match self {
            model::Framing::None => size,
            model::Framing::Bytes(extra) => size.saturating_add(extra),
            // IEEE 802.3: 14 header, 4 check, together at least 64; 8 preamble, 12 gap.
            model::Framing::Ethernet => size.saturating_add(18).max(64).saturating_add(20),
            // RFC 2684 (LLC/SNAP) and I.363.5: 8 + payload + 8, padded to cells of 48, each of 53 bytes.
            model::Framing::AtmAal5 => size.saturating_add(16).div_ceil(48).saturating_mul(53),
        }
    }
}
