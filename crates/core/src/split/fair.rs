//! The fair-queueing subsystem: packets from outside, which are still to be processed.
//!
//! What it is: a [discipline](crate::queue) with a [policy](crate::buffer), and one server, which serves at the matching rate:
//! a fixed one for all packets together, or with a [`Gate`] for each direction of a split connection. A discipline tells whose
//! packet goes next, and cannot leave out a flow. So a packet whose gate is closed is put aside, in the order of its
//! connection, if another flow may go; if none may, it stays where the policy sees it, and the server waits. When the gate opens, the
//! first packet aside goes back to the discipline, or goes when that gives the connection its turn. So nobody goes out of turn.
//! Source: hybrid-gateways 4.3, Figure 4.3.
//!
//! What is put aside counts as what waits: the room of the queue is less by it. A connection has at most an equal part of the
//! room aside; beyond that its oldest packet there is dropped, as PFD drops (3.4.1). So a receiver that has stopped takes
//! nothing from the others but that part.
//!
//! What is not split has no gate, and goes as it comes. With [`Datagrams::Follow`], each such flow is paced (`follow.rs`) instead while
//! connections say what the link gives them: it has a lane like a connection, for as long as it needs one.
//!
//! Cost: that of the queue, and O(log n) in the gates. Invariants: packets of one flow leave in the order in which they came;
//! what goes in comes out once, from [`Fair::serve`], [`Fair::poll_dropped`], or at once from [`Fair::enqueue`].

use super::config::{Config, Datagrams, Matching};
use super::follow::Follow;
use super::matching::Gate;
use super::standing::Standing;
use crate::buffer::{Bounds, Limit, Reason};
use crate::queue::{Admit, ConfigError, End, Parcel, Queue};
use crate::units::{Bytes, FlowNumber, Rate, Span, Time};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// So late a driver may come to serve a packet that waited, without loss of rate.
const LATE: Span = Span::from_millis(1);

/// A paced flow that has had less than its rate may have so much of that at once.
const BURST: Span = Span::from_millis(50);
/// It waits no longer for its next packet, however low the rate.
const LONGEST: Span = Span::from_millis(500);
/// So often it is looked which lanes of datagrams are no longer needed.
const SWEEP: Span = Span::from_millis(100);
/// Flows that are paced at once; more go as they come.
const PACED: usize = 1024;

fn bounds(config: &Config) -> Bounds {
    match config.queue {
        Limit::Packets(packets) => Bounds { packets: packets.into(), ..Bounds::NONE },
        Limit::Bytes(bytes) => Bounds { bytes, ..Bounds::NONE },
    }
}

/// Whether datagrams follow connections: where nothing else bounds what goes.
fn follows(config: &Config) -> bool {
    config.matching == Matching::Auto && config.ceiling.is_none() && config.datagrams == Datagrams::Follow
}

/// A packet that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held<P> {
    packet: P,
    /// Bytes for the send buffer.
    payload: u64,
    /// It was aside, and is older than what is.
    returned: bool,
}

impl<P: Parcel> Parcel for Held<P> {
    #[inline]
    fn size(&self) -> u32 {
        self.packet.size()
    }

    #[inline]
    fn memory(&self) -> u64 {
        self.packet.memory()
    }

    #[inline]
    fn mark(&mut self) -> bool {
        self.packet.mark()
    }

    fn host(&self, end: End) -> u128 {
        self.packet.host(end)
    }

    fn class(&self) -> u8 {
        self.packet.class()
    }

    fn is_scalable(&self) -> bool {
        self.packet.is_scalable()
    }
}

/// What holds back a lane.
#[derive(Clone, Debug)]
enum Pace {
    /// Of a split connection.
    Gate(Gate),
    /// Of datagrams: when the next one may go.
    Follow(Time),
}

impl Pace {
    fn ready_at(&self) -> Time {
        match self {
            Pace::Gate(gate) => gate.ready_at(),
            Pace::Follow(at) => *at,
        }
    }
}

/// What one direction of a split connection has here, or a paced flow.
#[derive(Clone, Debug)]
struct Lane<P> {
    pace: Pace,
    /// Packets that the discipline gave before the gate was open.
    aside: VecDeque<Held<P>>,
    aside_bytes: u64,
    /// Packets in the queue.
    waiting: u64,
}

/// Where the packets of a lane are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Some are in the queue.
    Queue,
    /// All are aside.
    Aside,
    /// There are none.
    None,
}

impl<P> Lane<P> {
    fn new(pace: Pace) -> Lane<P> {
        Lane { pace, aside: VecDeque::new(), aside_bytes: 0, waiting: 0 }
    }

    fn place(&self) -> Place {
        match (self.waiting, self.aside.is_empty()) {
            (1.., _) => Place::Queue,
            (0, false) => Place::Aside,
            (0, true) => Place::None,
        }
    }
}

/// The fair-queueing subsystem.
#[derive(Clone, Debug)]
pub struct Fair<P> {
    queue: Queue<Held<P>>,
    bounds: Bounds,
    matching: Matching,
    ceiling: Option<Rate>,
    standing: Standing,
    backlog: Bytes,
    lanes: BTreeMap<FlowNumber, Lane<P>>,
    /// What datagrams follow, where they do, and how many of the lanes are theirs.
    follow: Option<Follow>,
    paced: usize,
    next_sweep: Time,
    /// The lanes that have a packet in the queue, by when their gates open.
    openings: BTreeSet<(Time, FlowNumber)>,
    /// Those that have packets aside, and none in the queue.
    outside: BTreeSet<(Time, FlowNumber)>,
    /// Packets in the queue that belong to lanes, and packets aside.
    gated: u64,
    aside: u64,
    aside_bytes: u64,
    /// When the packet that is in service has been served.
    free_at: Time,
    /// Another packet waited for that: a driver that comes a little late has not lost the time.
    is_busy: bool,
    seed: u64,
    dropped: VecDeque<(P, Reason)>,
}

impl<P: Parcel> Fair<P> {
    /// An empty one. `seed` keys the hash of a stochastic discipline, and determines what a policy draws.
    ///
    /// # Errors
    /// Names the first setting of discipline or policy that cannot work.
    pub fn new(config: &Config, seed: u64) -> Result<Fair<P>, ConfigError> {
        Ok(Fair {
            queue: Queue::new(&config.queue_config(), seed)?,
            bounds: bounds(config),
            matching: config.matching,
            ceiling: config.ceiling,
            standing: Standing::default(),
            backlog: config.backlog,
            lanes: BTreeMap::new(),
            follow: follows(config).then(Follow::default),
            paced: 0,
            next_sweep: Time::ZERO,
            openings: BTreeSet::new(),
            outside: BTreeSet::new(),
            gated: 0,
            aside: 0,
            aside_bytes: 0,
            free_at: Time::ZERO,
            is_busy: false,
            seed,
            dropped: VecDeque::new(),
        })
    }

    /// `flow` is a direction of a split connection from now on.
    pub fn open(&mut self, now: Time, flow: FlowNumber) {
        if self.matching == Matching::Auto {
            let gate = Gate::new(now, self.backlog.as_u64());
            self.lanes.entry(flow).or_insert_with(|| Lane::new(Pace::Gate(gate.clone())));
            // It may have been taken for datagrams before.
            let is_new = self.change(flow, |lane| match lane.pace {
                Pace::Follow(_) => {
                    lane.pace = Pace::Gate(gate);
                    true
                }
                Pace::Gate(_) => false,
            });
            self.paced -= usize::from(is_new == Some(true));
        }
    }

    /// The connection is over: what is aside is dropped, what waits in the queue goes as that of any other flow.
    pub fn close(&mut self, flow: FlowNumber) {
        self.follow.iter_mut().for_each(|follow| follow.close(flow));
        let Some(lane) = self.lanes.remove(&flow) else { return };
        self.openings.remove(&(lane.pace.ready_at(), flow));
        self.outside.remove(&(lane.pace.ready_at(), flow));
        self.paced -= usize::from(matches!(lane.pace, Pace::Follow(_)));
        self.gated -= lane.waiting;
        self.aside -= lane.aside.len() as u64;
        self.aside_bytes -= lane.aside_bytes;
        self.dropped.extend(lane.aside.into_iter().map(|held| (held.packet, Reason::Front)));
        self.set_bounds();
        self.queue.set_room(flow, 1);
    }

    /// What waits unsent in the send buffer behind `flow`: see [`Gate::on_level`]; and whether the link alone holds it back.
    pub fn on_level(&mut self, now: Time, flow: FlowNumber, unsent: u64, sent: u64, round_trip: Span, held_back: bool) {
        let told = self.change(flow, |lane| match &mut lane.pace {
            Pace::Gate(gate) => {
                gate.on_level(now, unsent, sent, round_trip);
                Some((gate.drain(), gate.segment()))
            }
            Pace::Follow(_) => None,
        });
        if let (Some(follow), Some(Some((drain, segment))), true) = (&mut self.follow, told, held_back) {
            follow.on_held_back(now, flow, drain, segment, round_trip);
        }
    }

    /// See [`Gateway::on_wait`](super::Gateway::on_wait).
    pub fn on_wait(&mut self, now: Time, least: Span, wait: Span) {
        self.standing.on_wait(now, least, wait);
    }

    /// Bytes a second that each flow of datagrams may have now; `None`: no bound.
    pub fn datagram_rate(&mut self, now: Time) -> Option<u64> {
        self.follow.as_mut()?.rate(now)
    }

    /// Gives `flow` so much room in proportion to others, where the policy looks for the longest queue.
    pub fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.queue.set_room(flow, room);
    }

    /// The gate of `flow`, if it has one.
    pub fn gate(&self, flow: FlowNumber) -> Option<&Gate> {
        match &self.lanes.get(&flow)?.pace {
            Pace::Gate(gate) => Some(gate),
            Pace::Follow(_) => None,
        }
    }

    /// A packet of `flow` comes, with so much for the send buffer. Then drain [`poll_dropped`](Fair::poll_dropped).
    ///
    /// # Errors
    /// The packet, and why it is dropped.
    pub fn enqueue(&mut self, now: Time, flow: FlowNumber, payload: u64, packet: P) -> Result<(), (P, Reason)> {
        self.pace(now, flow);
        if let Admit::Refused(held, reason) = self.queue.enqueue(now, flow, Held { packet, payload, returned: false }) {
            return Err((held.packet, reason));
        }
        self.change(flow, |lane| lane.waiting += 1);
        self.collect();
        Ok(())
    }

    /// Gives a flow of datagrams a lane, where a bound holds for it. One of which packets wait without a lane goes on so.
    fn pace(&mut self, now: Time, flow: FlowNumber) {
        if self.paced > 0 && self.next_sweep <= now {
            self.next_sweep = now + SWEEP;
            self.sweep(now);
        }
        if self.follow.is_none() || self.lanes.contains_key(&flow) || self.has_ungated() || self.paced >= PACED {
            return;
        }
        if self.datagram_rate(now).is_some() {
            self.lanes.insert(flow, Lane::new(Pace::Follow(Time::ZERO)));
            self.paced += 1;
        }
    }

    /// Takes away the lanes of datagrams that are as if they were new.
    fn sweep(&mut self, now: Time) {
        let before = self.lanes.len();
        self.lanes.retain(|_, lane| match lane.pace {
            Pace::Follow(at) => lane.place() != Place::None || at + BURST > now,
            Pace::Gate(_) => true,
        });
        self.paced -= before - self.lanes.len();
    }

    /// A packet of a lane goes.
    fn on_passed(&mut self, now: Time, flow: FlowNumber, payload: u64, size: u32) {
        let rate = self.datagram_rate(now);
        self.change(flow, |lane| match &mut lane.pace {
            Pace::Gate(gate) => gate.on_passed(now, payload),
            Pace::Follow(at) => {
                let takes = rate.map_or(0, |rate| u64::from(size) * 1_000_000_000 / rate.max(1));
                let from = (*at).max(Time::from_nanos(now.as_nanos().saturating_sub(BURST.as_nanos())));
                *at = (from + Span::from_nanos(takes)).min(now + LONGEST);
            }
        });
    }

    /// The next packet that is served, and whose it is.
    pub fn serve(&mut self, now: Time) -> Option<(FlowNumber, P)> {
        if self.free_at > now {
            return None;
        }
        while let Some((_, flow)) = self.outside.first().copied().filter(|(at, _)| *at <= now) {
            self.take_back(now, flow);
        }
        let is_open = self.openings.first().is_some_and(|(at, _)| *at <= now);
        let served = if is_open || self.has_ungated() { self.take_next(now) } else { None };
        self.collect();
        let Some((flow, held)) = served else {
            self.is_busy = false;
            return None;
        };
        let size = Bytes::new(held.packet.size().into());
        let by_size = |rate: Rate| rate.transmit_time(size);
        let matched = match self.matching {
            Matching::Auto | Matching::Unlimited => Span::ZERO,
            Matching::Packets(number) => Span::from_nanos(1_000_000_000 / u64::from(number.max(1))),
            Matching::Bits(rate) => by_size(rate),
        };
        let begun = if self.is_busy {
            self.free_at.max(Time::from_nanos(now.as_nanos().saturating_sub(LATE.as_nanos())))
        } else {
            now
        };
        let bounded = self.ceiling.map_or(Span::ZERO, |ceiling| self.standing.stretched(now, by_size(ceiling)));
        self.free_at = begun + matched.max(bounded);
        self.is_busy = self.has_ungated() || self.openings.first().is_some_and(|(at, _)| *at <= now);
        Some((flow, held.packet))
    }

    /// Other settings from now on; what waits keeps its place in its flow. Connections that were opened without gates get none.
    ///
    /// # Errors
    /// Names the first setting of discipline or policy that cannot work; then nothing has changed.
    pub fn reconfigure(&mut self, now: Time, config: &Config) -> Result<(), ConfigError> {
        let mut other = Queue::new(&config.queue_config(), self.seed)?;
        if config.matching != Matching::Auto {
            for (flow, lane) in core::mem::take(&mut self.lanes) {
                // What is aside is older than what is in the queue.
                lane.aside.into_iter().for_each(|held| other.readmit(now, flow, held));
            }
            self.openings.clear();
            self.outside.clear();
            (self.gated, self.aside, self.aside_bytes, self.paced) = (0, 0, 0, 0);
        }
        while let Some(entry) = self.queue.take(now) {
            other.readmit(entry.since, entry.flow, entry.packet);
        }
        self.queue = other;
        self.bounds = bounds(config);
        (self.matching, self.ceiling, self.backlog) = (config.matching, config.ceiling, config.backlog);
        self.follow = follows(config).then(|| self.follow.take().unwrap_or_default());
        self.set_bounds();
        Ok(())
    }

    /// When [`serve`](Fair::serve) may give a packet; `None`: not before another comes, or a level changes.
    pub fn poll_timeout(&self) -> Option<Time> {
        let opens = self.openings.first().into_iter().chain(self.outside.first()).map(|(at, _)| *at).min();
        let at = if self.has_ungated() { Some(Time::ZERO) } else { opens };
        at.map(|at| at.max(self.free_at))
    }

    /// A packet that was dropped since.
    pub fn poll_dropped(&mut self) -> Option<(P, Reason)> {
        self.dropped.pop_front()
    }

    /// Packets that wait, and their bytes.
    pub fn waiting(&self) -> (u64, Bytes) {
        (self.queue.packets() as u64 + self.aside, Bytes::new(self.queue.bytes() + self.aside_bytes))
    }

    /// Packets that have come, and neither left nor were told as dropped.
    pub fn held(&self) -> u64 {
        self.waiting().0 + self.dropped.len() as u64
    }

    /// Whether a packet waits that has no gate.
    fn has_ungated(&self) -> bool {
        self.queue.packets() as u64 > self.gated
    }

    /// The oldest packet aside of `flow` leaves it.
    fn take_aside(&mut self, flow: FlowNumber) -> Option<Held<P>> {
        let held = self.change(flow, |lane| {
            let held = lane.aside.pop_front()?;
            lane.aside_bytes -= u64::from(held.size().max(1));
            Some(held)
        })??;
        self.aside -= 1;
        self.aside_bytes -= u64::from(held.size().max(1));
        self.set_bounds();
        Some(held)
    }

    /// The gate of a lane is open that has nothing in the queue: the oldest packet aside has its turn there.
    fn take_back(&mut self, now: Time, flow: FlowNumber) {
        if let Some(held) = self.take_aside(flow) {
            self.queue.readmit(now, flow, Held { returned: true, ..held });
            self.change(flow, |lane| lane.waiting += 1);
        }
    }

    /// The first packet in the discipline's order that may go; those before it are put aside.
    fn take_next(&mut self, now: Time) -> Option<(FlowNumber, Held<P>)> {
        loop {
            let entry = self.queue.dequeue(now)?;
            let (flow, held) = (entry.flow, entry.packet);
            let Some(lane) = self.lanes.get(&flow) else { return Some((flow, held)) };
            let (is_open, is_oldest) = (lane.pace.ready_at() <= now, held.returned || lane.aside.is_empty());
            self.change(flow, |lane| lane.waiting = lane.waiting.saturating_sub(1));
            let oldest = match (is_open, is_oldest) {
                (true, true) => Some(held),
                (true, false) => {
                    self.put_aside(flow, held);
                    self.take_aside(flow)
                }
                (false, _) => {
                    self.put_aside(flow, held);
                    None
                }
            };
            if let Some(held) = oldest {
                self.on_passed(now, flow, held.payload, held.size());
                return Some((flow, held));
            }
        }
    }

    fn put_aside(&mut self, flow: FlowNumber, held: Held<P>) {
        let size = u64::from(held.size().max(1));
        let lanes = (self.openings.len() + self.outside.len()).max(1) as u64;
        let most = (self.bounds.packets / lanes, self.bounds.bytes / lanes);
        let dropped = self.change(flow, |lane| {
            if held.returned {
                lane.aside.push_front(Held { returned: false, ..held });
            } else {
                lane.aside.push_back(held);
            }
            lane.aside_bytes += size;
            let full = lane.aside.len() as u64 > most.0.max(1) || lane.aside_bytes > most.1.max(size);
            full.then(|| lane.aside.pop_front()).flatten().inspect(|oldest| {
                lane.aside_bytes -= u64::from(oldest.size().max(1));
            })
        });
        self.aside += 1;
        self.aside_bytes += size;
        if let Some(oldest) = dropped.flatten() {
            self.aside -= 1;
            self.aside_bytes -= u64::from(oldest.size().max(1));
            self.dropped.push_back((oldest.packet, Reason::LongestHead));
        }
        self.set_bounds();
    }

    /// The room of the queue is what is not aside.
    fn set_bounds(&mut self) {
        let mut bounds = self.bounds;
        bounds.packets = bounds.packets.saturating_sub(self.aside).max(1);
        bounds.bytes = bounds.bytes.saturating_sub(self.aside_bytes).max(1);
        self.queue.set_bounds(bounds);
    }

    /// Changes a lane, and where it stands among those that open.
    fn change<T>(&mut self, flow: FlowNumber, change: impl FnOnce(&mut Lane<P>) -> T) -> Option<T> {
        let lane = self.lanes.get_mut(&flow)?;
        let (before, waiting, was) = (lane.pace.ready_at(), lane.waiting, lane.place());
        let changed = change(lane);
        self.gated = self.gated + lane.waiting - waiting;
        let (after, is) = (lane.pace.ready_at(), lane.place());
        if (before, was) != (after, is) {
            match was {
                Place::Queue => drop(self.openings.remove(&(before, flow))),
                Place::Aside => drop(self.outside.remove(&(before, flow))),
                Place::None => {}
            }
            match is {
                Place::Queue => drop(self.openings.insert((after, flow))),
                Place::Aside => drop(self.outside.insert((after, flow))),
                Place::None => {}
            }
        }
        Some(changed)
    }

    /// Takes what the policy dropped.
    fn collect(&mut self) {
        while let Some(dropped) = self.queue.poll_dropped() {
            self.change(dropped.flow, |lane| lane.waiting = lane.waiting.saturating_sub(1));
            self.dropped.push_back((dropped.packet.packet, dropped.reason));
        }
    }
}

#[cfg(test)]
mod tests;
