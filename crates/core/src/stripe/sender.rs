//! The stripe's sender: which channel each packet goes by, and the control messages beside them.
//!
//! Source: striping §3.6, §5, §6.3.1, appendix A (`Send`, `SendMarker`), and its errata. What the paper leaves open is
//! settled so:
//!
//! - **Epoch.** A sender begins with a plan on every channel and sends data on a channel only when the peer has seen
//!   the plan *there*: data frames carry no epoch, so the plan's place among them is the boundary. A peer that asks
//!   for a reset gets a new epoch. A channel that does not answer within `patience` of the others is left out.
//! - **Change.** A new set is announced for a round to come, out of the data's order, until the peer has seen it
//!   (where a channel joins: on that channel). At that round the sender decides: seen, it changes; unseen, the plan
//!   moves to a later round. Either way a marker on every channel says which generation is in force, before any data
//!   of that round, and the receiver does not pass that round without having heard so: nothing is guessed.
//! - **Death.** A dead channel is left in the middle of the round and its removal is in force from the next round on,
//!   announced but not awaited.
//! - **Disciplines.** A set whose quanta count packets makes this GRR, or RR where all are one (`Unit::Packets`); all
//!   else is the same.
//! - **Markers** go out every `marker_rounds` rounds at the round's end (the paper's best place; section 8 compares
//!   others, see [`MarkerPlace`]), at once when the
//!   sender falls idle (not more often than `idle_gap`), and on a timer that backs off to `idle_interval`.
//! - **Idle.** An idle sender that has a change to make skips to its round; skipped allowance is lost, as it is after
//!   any skip.
//!
//! Self-stabilisation: before a marker is sent the channel's counter is checked against its invariant
//! (1 to quantum); a counter that violates it begins a new epoch.
//!
//! Cost: O(1) a packet; O(channels) a round with markers. Memory: fixed.

mod membership;

use super::config::{Config, ConfigError, MarkerPlace, check};
use super::credit::CreditGate;
use super::event::{EpochCause, Event, Stats, Wait};
use super::serial::serial;
use crate::causal::{Causal, ChannelSet, Srr, set};
use crate::units::{Bytes, ChannelId, Span, Time};
use crate::wire::marker::{Control, Marker, Plan};
use alloc::collections::VecDeque;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pending {
    plan: Plan,
    /// Members that must see the plan on themselves.
    joining: u64,
    seen: u64,
    accepted: bool,
    lead: u32,
    since: Time,
}

/// The sending side of one stripe; sans-IO.
///
/// After every input drain [`poll_control`](Sender::poll_control), and after every
/// [`on_sent`](Sender::on_sent) too: a marker's place is between the packets of its channel.
#[derive(Clone, Debug)]
pub struct Sender {
    config: Config,
    srr: Srr,
    epoch: u32,
    generation: u16,
    /// The newest number given to any plan of this epoch, those given up included.
    last_generation: u16,
    base: u16,
    set: ChannelSet,
    /// What the owner wants; the set follows it.
    target: ChannelSet,
    /// Channels on which the peer has seen what it must before data may go there.
    open: u64,
    blocked: u64,
    /// Channels on which a marker is due.
    due: u64,
    /// Channels on which the plan is due (again).
    announce: u64,
    /// Members no longer, but the peer has not come to that generation: they still get markers, lest it wait there.
    leaving: u64,
    /// Taken out as dead since the last generation that was agreed.
    dead: u64,
    established: bool,
    epoch_since: Time,
    first_answer: Option<Time>,
    pending: Option<Pending>,
    /// The generation that the peer is known to have come to.
    peer_applied: u16,
    gate: CreditGate,
    next_marker_round: u32,
    /// What this round may still carry before its markers are due; `i64::MAX` when they are not due in it.
    until_markers: i64,
    idle: bool,
    /// Sent since the last markers?
    dirty: bool,
    last_markers: Time,
    marker_span: Span,
    idle_repeats: u8,
    marker_at: Time,
    announce_span: Span,
    announce_at: Time,
    events: VecDeque<Event>,
    stats: Stats,
}

impl Sender {
    /// A sender that begins epoch `epoch`, a number that the previous life of this sender did not use (draw it).
    ///
    /// # Errors
    /// [`ConfigError`] names the setting or channel.
    pub fn new(config: Config, channels: &ChannelSet, now: Time, epoch: u32) -> Result<Sender, ConfigError> {
        for (setting, zero) in [
            ("marker_rounds", config.marker_rounds == 0),
            ("lead_rounds", config.lead_rounds == 0),
            ("max_packet", config.max_packet == Bytes::ZERO),
            ("marker_interval", config.marker_interval == Span::ZERO),
            ("announce_interval", config.announce_interval == Span::ZERO),
        ] {
            if zero {
                return Err(ConfigError::Zero { setting });
            }
        }
        check(channels, config.max_packet)?;
        let mut sender = Sender {
            srr: Srr::new(channels)?,
            gate: CreditGate::new(config.credits),
            marker_span: config.marker_interval,
            idle_repeats: 0,
            announce_span: config.announce_interval,
            config,
            epoch,
            generation: 1,
            last_generation: 1,
            base: 1,
            set: channels.clone(),
            target: channels.clone(),
            open: 0,
            blocked: 0,
            due: 0,
            announce: 0,
            leaving: 0,
            dead: 0,
            established: false,
            epoch_since: now,
            first_answer: None,
            pending: None,
            peer_applied: 1,
            next_marker_round: 1,
            until_markers: i64::MAX,
            idle: true,
            dirty: false,
            last_markers: now,
            marker_at: Time::MAX,
            announce_at: Time::MAX,
            events: VecDeque::new(),
            stats: Stats::default(),
        };
        sender.begin(now, epoch, channels.clone(), EpochCause::Start);
        Ok(sender)
    }

    // ---------------------------------------------------------------- data

    /// f(s): the channel for a packet of `len` bytes, or what it waits for. SRR never takes another channel instead:
    /// the receiver would not know.
    #[inline]
    pub fn next_channel(&self, len: Bytes) -> Result<ChannelId, Wait> {
        let channel = self.srr.select();
        let bit = 1u64 << (channel.0 & 63);
        if self.open & !self.due & !self.blocked & bit != 0
            && len <= self.config.max_packet
            && self.gate.admits(channel, len)
        {
            return Ok(channel);
        }
        Err(self.wait(channel, len))
    }

    #[cold]
    fn wait(&self, channel: ChannelId, len: Bytes) -> Wait {
        let bit = set::bit(channel);
        if len > self.config.max_packet {
            Wait::TooLong
        } else if self.set.is_empty() {
            Wait::NoChannel
        } else if self.open & bit == 0 {
            Wait::Handshake(channel)
        } else if self.due & bit != 0 {
            Wait::Marker(channel)
        } else if self.blocked & bit != 0 {
            Wait::Blocked(channel)
        } else {
            Wait::Credit(channel)
        }
    }

    /// g(s, p): a packet of `len` bytes went out on the channel that [`next_channel`](Sender::next_channel) gave.
    #[inline]
    pub fn on_sent(&mut self, now: Time, len: Bytes) {
        let round = self.srr.round();
        self.stats.packets += 1;
        self.stats.bytes += len.as_u64();
        self.gate.on_sent(self.srr.select(), len);
        if self.until_markers != i64::MAX {
            self.until_markers -= self.srr.charge(len);
        }
        self.srr.update(len);
        if self.idle | !self.dirty {
            self.wake(now);
        }
        if self.srr.round() != round {
            self.on_round(now);
        }
        if self.until_markers <= 0 {
            self.markers_due(now);
        }
    }

    #[cold]
    fn wake(&mut self, now: Time) {
        self.idle_repeats = 0;
        self.idle = false;
        self.dirty = true;
        self.marker_span = self.config.marker_interval;
        self.marker_at = now + self.marker_span;
    }

    /// The pointer has entered a new round.
    fn on_round(&mut self, now: Time) {
        let round = self.srr.round();
        if self.pending.as_ref().is_some_and(|p| serial(round, p.plan.start) >= 0) {
            self.decide(now);
        } else if serial(round, self.next_marker_round) >= 0 {
            match self.config.marker_place {
                MarkerPlace::End => self.markers_due(now),
                MarkerPlace::Start => self.until_markers = 1,
                MarkerPlace::Middle => self.until_markers = (self.set.round_bytes().as_u64() / 2).max(1) as i64,
            }
        }
    }

    fn markers_due(&mut self, now: Time) {
        self.due |= (self.set.mask() | self.leaving) & self.open;
        self.until_markers = i64::MAX;
        self.next_marker_round = self.srr.round().wrapping_add(self.config.marker_rounds);
        self.dirty = false;
        self.last_markers = now;
        self.marker_at = now + self.marker_span;
    }

    /// The owner has no packet left to send.
    pub fn on_idle(&mut self, now: Time) {
        if self.idle {
            return;
        }
        self.idle = true;
        if self.skip_to_change(now) {
            return;
        }
        self.marker_span = self.config.marker_interval;
        let gap_over = self.last_markers + self.config.idle_gap;
        if self.dirty && gap_over <= now {
            self.markers_due(now);
        } else if self.dirty {
            self.marker_at = gap_over;
        } else {
            self.marker_at = now + self.marker_span;
        }
    }

    /// The driver's word on whether `channel` takes frames; markers wait for it too.
    pub fn set_blocked(&mut self, channel: ChannelId, blocked: bool) {
        if blocked {
            self.blocked |= set::bit(channel);
        } else {
            self.blocked &= !set::bit(channel);
        }
    }

    // ---------------------------------------------------------------- time and output

    /// When [`handle_timeout`](Sender::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let marker = if self.established && !self.set.is_empty() { self.marker_at } else { Time::MAX };
        let at = marker.min(self.announce_at);
        (at != Time::MAX).then_some(at)
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.announce_at <= now {
            self.announce_timeout(now);
        }
        if self.established && self.marker_at <= now && !self.set.is_empty() {
            if self.idle && !self.dirty {
                self.idle_repeats = self.idle_repeats.saturating_add(1);
                if self.idle_repeats > IDLE_REPEATS {
                    self.marker_span = self.marker_span.times(2).min(self.config.idle_interval);
                }
            }
            self.markers_due(now);
        }
    }

    fn announce_timeout(&mut self, now: Time) {
        self.announce_span = self.announce_span.times(2).min(self.config.patience);
        let patience = self.config.patience;
        if !self.established {
            let answered = self.first_answer.is_some_and(|t| now.since(t) >= patience);
            if answered && self.open != 0 {
                let silent = self.set.mask() & !self.open;
                let rest = self.set.without(silent);
                self.event(Event::LeftOut(silent));
                return self.begin(now, self.epoch.wrapping_add(1), rest, EpochCause::LeftOut);
            }
            if now.since(self.epoch_since) >= patience.times(8) {
                // Perhaps the peer takes this epoch for one that is over.
                let set = self.set.clone();
                return self.begin(now, self.epoch.wrapping_add(0x1000), set, EpochCause::NoAnswer);
            }
        } else if let Some(p) = &self.pending {
            let silent = p.joining & !p.seen;
            if silent != 0 && now.since(p.since) >= patience {
                self.event(Event::LeftOut(silent));
                self.target = self.target.without(silent);
                if self.target.is_empty() {
                    self.target = self.set.clone();
                }
                if self.target == self.set {
                    self.pending = None;
                    self.announce = 0;
                    self.announce_at = Time::MAX;
                    return;
                }
                return self.follow(now);
            }
        }
        self.announce_now(now);
    }

    /// The next control message to send, with its channel. Messages of blocked channels wait.
    #[inline]
    pub fn poll_control(&mut self, now: Time) -> Option<(ChannelId, Control)> {
        if (self.announce | self.due) & !self.blocked == 0 { None } else { self.next_control(now) }
    }

    #[cold]
    fn next_control(&mut self, now: Time) -> Option<(ChannelId, Control)> {
        if let Some(channel) = set::bits(self.announce & !self.blocked).next() {
            self.announce &= !set::bit(channel);
            self.stats.plans += 1;
            return Some((channel, Control::Plan(self.current_plan(channel).into())));
        }
        let channel = set::bits(self.due & !self.blocked).next()?;
        let quantum = self.srr.quantum(channel);
        let deficit = self.srr.deficit(channel);
        if deficit < 1 || deficit > i64::from(quantum) {
            let target = self.target.clone();
            self.begin(now, self.epoch.wrapping_add(1), target, EpochCause::Corrupt);
            return self.next_control(now);
        }
        self.due &= !set::bit(channel);
        self.stats.markers += 1;
        let (sent_bytes, sent_packets) = self.gate.sent(channel);
        let marker = Marker {
            epoch: self.epoch,
            channel,
            generation: self.generation,
            round: self.srr.round_of(channel),
            deficit: deficit as i32,
            quantum,
            passed: self.srr.passed(channel),
            ask: !self.gate.admits(channel, self.config.max_packet),
            sent_bytes,
            sent_packets,
            grant: None,
        };
        Some((channel, Control::Marker(marker)))
    }

    /// The next event, if any. The newest 64 are kept.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn event(&mut self, event: Event) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    // ---------------------------------------------------------------- what it knows

    /// The epoch.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The generation of the set in force.
    pub fn generation(&self) -> u16 {
        self.generation
    }

    /// The set in force.
    pub fn channels(&self) -> &ChannelSet {
        &self.set
    }

    /// Whether the peer has seen the epoch's plan on every channel.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Whether the set in force is the one that the owner wants, and the peer has come to it.
    pub fn is_settled(&self) -> bool {
        self.established && self.pending.is_none() && self.target == self.set && self.peer_applied == self.generation
    }

    /// The discipline's state.
    pub fn discipline(&self) -> &Srr {
        &self.srr
    }

    /// The discipline's state, to corrupt it in a test of self-stabilisation.
    #[doc(hidden)]
    pub fn discipline_mut(&mut self) -> &mut Srr {
        &mut self.srr
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// After a fall into idleness this many markers repeat at the busy interval, in case the first ones were lost; then the
/// interval doubles.
const IDLE_REPEATS: u8 = 3;
const MOST_EVENTS: usize = 64;
