//! A server: a queue, and the link that empties it at its rate.
//!
//! What it is: a [discipline](crate::queue) and a [policy](crate::buffer) before a [`Schedule`], without sockets or clocks.
//! What waits goes when the transmission before it has ended; loss is drawn before the queue, and outages meet the
//! transmission. The driver says when packets come and when a transmission ends.
//!
//! First in, first out, with drop-tail, is the special case that needs none of that: there the schedule alone decides a
//! packet's fate when it arrives ([`Server::pass`]), with a tail-drop queue that is arithmetic, not a list of packets. That
//! differs in one thing: an idle link takes a packet whatever the limit, where a queue refuses what it could never hold.
//!
//! Cost: those of queue and schedule. Invariants: transmissions do not overlap; packets that go in come out once, from
//! [`Server::serve`], [`Server::poll_dropped`], or at once from [`Server::offer`].

use super::capacity::Capacity;
use super::profile::{Profile, ProfileError};
use super::schedule::{Drop, Passage, Schedule};
use crate::buffer::{Limit, Reason};
use crate::queue::{Admit, Entry, Parcel, Queue};
use crate::shared::Shared;
use crate::units::{Bytes, FlowNumber, Span, Time};
use alloc::boxed::Box;

/// The queue of a link, and the link.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Server<P> {
    schedule: Schedule,
    line: Option<Box<Line<P>>>,
}

#[derive(Clone, Debug)]
struct Line<P> {
    queue: Queue<P>,
    limit: Limit,
    /// The end of the transmission that is under way.
    busy_until: Option<Time>,
}

/// A packet whose transmission has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served<P> {
    /// The packet.
    pub packet: P,
    /// Its times, or why it is lost on the way; it has taken its time all the same.
    pub passage: Result<Passage, Drop>,
}

impl<P: Parcel> Server<P> {
    /// An idle link with an empty queue. `seed` determines loss and jitter; `key` keys the hash of a stochastic discipline.
    ///
    /// # Errors
    /// Those of [`Profile::check`].
    pub fn new(profile: impl Into<Shared<Profile>>, seed: u64, key: u64) -> Result<Server<P>, ProfileError> {
        let profile = profile.into();
        if !profile.queue_config().is_plain() {
            return Server::holding(profile, seed, key);
        }
        Ok(Server { schedule: Schedule::new(profile, seed)?, line: None })
    }

    /// The same, and packets are held here whatever the discipline: for a link that may not send whenever it could.
    ///
    /// # Errors
    /// Those of [`Profile::check`].
    pub fn holding(profile: impl Into<Shared<Profile>>, seed: u64, key: u64) -> Result<Server<P>, ProfileError> {
        let profile = profile.into();
        let config = profile.queue_config();
        let schedule = Schedule::new(profile, seed)?;
        let queue = Queue::new(&config, key).map_err(ProfileError::from)?;
        Ok(Server { schedule, line: Some(Box::new(Line { queue, limit: config.limit, busy_until: None })) })
    }

    /// A transmission has ended, and none begins until [`serve`](Server::serve) is called.
    pub fn pause(&mut self) {
        if let Some(line) = &mut self.line {
            line.busy_until = None;
        }
    }

    /// Whether packets are held here. Otherwise only [`pass`](Server::pass) is to be called.
    #[inline]
    pub fn holds_packets(&self) -> bool {
        self.line.is_some()
    }

    /// The link alone.
    #[inline]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The link alone, to change what it draws.
    #[inline]
    pub fn schedule_mut(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    /// First in, first out, with drop-tail: the fate of a packet of `len` bytes that comes at `at`.
    ///
    /// # Errors
    /// Why it is lost.
    #[inline]
    pub fn pass(&mut self, at: Time, len: usize) -> Result<Passage, Drop> {
        self.schedule.pass(at, len)
    }

    /// A packet of `flow` comes, its size as the link [counts](Schedule::counted) it. Then drain
    /// [`poll_dropped`](Server::poll_dropped), and if the server is [idle](Server::is_idle), [serve](Server::serve).
    ///
    /// # Errors
    /// The packet, and why it is lost.
    pub fn offer(&mut self, now: Time, flow: FlowNumber, packet: P) -> Result<(), (P, Drop)> {
        if self.schedule.lose(now) {
            return Err((packet, Drop::Loss));
        }
        let Some(line) = &mut self.line else { return Err((packet, Drop::Queue(Reason::Full))) };
        match line.queue.enqueue(now, flow, packet) {
            Admit::Queued => Ok(()),
            Admit::Refused(packet, reason) => Err((packet, Drop::Queue(reason))),
        }
    }

    /// Gives `flow` a weight and room among what waits ([`Queue::set_weight`], [`Queue::set_room`]); nothing where nothing is
    /// held.
    pub fn set_share(&mut self, flow: FlowNumber, weight: u32, room: u32) {
        if let Some(line) = &mut self.line {
            line.queue.set_weight(flow, weight);
            line.queue.set_room(flow, room);
        }
    }

    /// Gives `flow` a bound of delay among what waits ([`Queue::set_delay`]); nothing where nothing is held.
    pub fn set_delay(&mut self, flow: FlowNumber, delay: Span) {
        if let Some(line) = &mut self.line {
            line.queue.set_delay(flow, delay);
        }
    }

    /// A packet that the policy dropped since.
    #[inline]
    pub fn poll_dropped(&mut self) -> Option<(P, Drop)> {
        let dropped = self.line.as_mut()?.queue.poll_dropped()?;
        Some((dropped.packet, Drop::Queue(dropped.reason)))
    }

    /// Whether no transmission is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.busy_until.is_none())
    }

    /// When the transmission that is under way ends, and [`serve`](Server::serve) is to be called: also where nothing waits,
    /// since disciplines want to know that the link has fallen idle.
    #[inline]
    pub fn next_ready(&self) -> Option<Time> {
        self.line.as_ref()?.busy_until
    }

    /// A transmission has ended at `now`, or the link was idle: begins the next one. Then drain
    /// [`poll_dropped`](Server::poll_dropped). A packet that is lost in an outage may leave the server idle: then it is to be
    /// served again.
    pub fn serve(&mut self, now: Time) -> Option<Served<P>> {
        let line = self.line.as_mut()?;
        line.busy_until = None;
        let Entry { packet, size, .. } = line.queue.dequeue(now)?;
        let passage = self.schedule.transmit_counted(now, u64::from(size));
        let end = self.schedule.busy_until().max(now);
        // Also where it took no time: what is behind then goes at the same instant.
        line.busy_until = (passage.is_ok() || end > now).then_some(end);
        Some(Served { packet, passage })
    }

    /// When the queue will have room for a packet of `len` bytes that comes at `now` or later: `now`, where it has.
    pub fn room_at(&mut self, now: Time, len: usize) -> Time {
        let Some(line) = &self.line else { return self.schedule.room_at(now, len) };
        let full = match line.limit {
            Limit::Packets(most) => line.queue.packets() >= most as usize,
            Limit::Bytes(most) => line.queue.bytes() + self.schedule.counted(len) > most,
        };
        // A transmission that ends makes room for one packet, perhaps; where none is under way, one takes as long as this at least.
        match line.busy_until {
            _ if !full => now,
            Some(_) => self.schedule.busy_until(),
            None => match self.schedule.profile().capacity {
                Capacity::Constant(rate) => now + rate.transmit_time(Bytes::new(self.schedule.counted(len))),
                _ => now + Span::from_millis(1),
            },
        }
    }

    /// Packets that are held here, waiting.
    #[inline]
    pub fn held_packets(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.queue.packets())
    }

    /// Packets that wait at `now`, and their bytes.
    pub fn waiting(&mut self, now: Time) -> (usize, u64) {
        match &self.line {
            Some(line) => (line.queue.packets(), line.queue.bytes()),
            None => self.schedule.waiting(now),
        }
    }
}
