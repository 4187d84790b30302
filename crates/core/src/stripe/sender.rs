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
//! - **Disciplines.** A set whose quanta count packets makes this GRR, or RR where all are one ([`Unit::Packets`]); all
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

use super::credit::CreditGate;
use crate::causal::{Causal, ChannelSet, SetError, Srr, Unit, set};
use crate::options::words;
use crate::units::{Bytes, ChannelId, Span, Time};
use crate::wire::marker::{Ack, Control, Grant, Marker, Plan};
use alloc::collections::VecDeque;
use thiserror::Error;

/// Settings of a [`Sender`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The longest packet in bytes; every quantum in bytes must hold it. Default 1500.
    pub max_packet: Bytes,
    /// Markers on every channel after this many rounds. Default 8.
    pub marker_rounds: u32,
    /// Where in such a round. Default its end.
    pub marker_place: MarkerPlace,
    /// Longest time without markers while packets flow. Default 20 ms.
    pub marker_interval: Span,
    /// While idle the interval doubles, after three repetitions, up to this. Default 5 s.
    pub idle_interval: Span,
    /// Least time between two falls into idleness that send markers at once; a fall that comes sooner sends them
    /// when the time is over. Default 5 ms.
    pub idle_gap: Span,
    /// First interval between repetitions of a plan that is not yet seen; it doubles up to `patience`. Default 30 ms.
    pub announce_interval: Span,
    /// How long a channel may stay silent, after others have answered, before it is left out. Default 1 s.
    pub patience: Span,
    /// How many rounds ahead a change is announced at first; doubled each time that the peer was later. Default 4.
    pub lead_rounds: u32,
    /// Whether to send only what the receiver has granted buffer space for. Default false.
    pub credits: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_packet: Bytes::new(1500),
            marker_rounds: 8,
            marker_place: MarkerPlace::End,
            marker_interval: Span::from_millis(20),
            idle_interval: Span::from_secs(5),
            idle_gap: Span::from_millis(5),
            announce_interval: Span::from_millis(30),
            patience: Span::from_secs(1),
            lead_rounds: 4,
            credits: false,
        }
    }
}

/// Where in a round the markers go out, on all channels together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkerPlace {
    /// Between two rounds: every channel has had its whole turn.
    #[default]
    End,
    /// After the first packet of a round.
    Start,
    /// When half of what a round carries has gone.
    Middle,
}

words!(MarkerPlace { End = "end", Start = "start", Middle = "middle" });

/// Why a configuration or a channel set was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The channel set.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A setting that must not be zero.
    #[error("{setting} is 0; it must be at least 1")]
    Zero {
        /// The setting's name.
        setting: &'static str,
    },
}

/// Why no packet can be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// There is no channel.
    NoChannel,
    /// The peer has not seen the epoch's plan on this channel yet.
    Handshake(ChannelId),
    /// A marker has to go out on this channel first: drain [`Sender::poll_control`].
    Marker(ChannelId),
    /// The driver said that this channel takes nothing.
    Blocked(ChannelId),
    /// The receiver has no room granted on this channel.
    Credit(ChannelId),
    /// The packet is longer than `max_packet` bytes; it can never be sent.
    TooLong,
}

/// What the owner may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new epoch began, and why.
    Epoch(u32, EpochCause),
    /// The peer has seen the epoch's plan on every channel.
    Established,
    /// A channel set came into force.
    Changed {
        /// Its generation.
        generation: u16,
        /// Its members.
        mask: u64,
    },
    /// These channels did not answer the plan and were left out; ask for them again when they are well.
    LeftOut(u64),
}

/// Why an epoch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochCause {
    /// The sender was made.
    Start,
    /// The peer asked.
    PeerAsked,
    /// A counter of this side violated its invariant.
    Corrupt,
    /// Some channels did not answer the plan.
    LeftOut,
    /// The channel set changed before the epoch was established, or from none.
    Set,
    /// The peer answered nothing at all for long.
    NoAnswer,
}

/// Plain counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Markers sent.
    pub markers: u64,
    /// Plans sent, repetitions included.
    pub plans: u64,
    /// Epochs begun.
    pub epochs: u64,
    /// Changes of the set or its quanta that came into force.
    pub changes: u64,
    /// Changes that had to move to a later round.
    pub postponed: u64,
    /// Acknowledgements of another epoch.
    pub stale_acks: u64,
    /// Acknowledgements that name another channel than the one they came by: the ends are cabled differently.
    pub miswired: u64,
}

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
    peer_generation: u16,
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
            peer_generation: 1,
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

    // ---------------------------------------------------------------- the set

    /// The set and the quanta that the owner wants from now on. The change is made at an agreed round while data
    /// flows on. Repeated calls are cheap when nothing changes; the last one counts.
    ///
    /// # Errors
    /// [`ConfigError`] names the channel; nothing is changed then.
    pub fn set_channels(&mut self, now: Time, channels: &ChannelSet) -> Result<(), ConfigError> {
        check(channels, self.config.max_packet)?;
        self.target = channels.clone();
        self.follow(now);
        Ok(())
    }

    /// `channel` is dead: it is left at once, and the receiver is told not to wait for it.
    pub fn remove_dead(&mut self, now: Time, channel: ChannelId) {
        let bit = set::bit(channel);
        self.target = self.target.without(bit);
        let affected = self.set.mask() | self.leaving | self.pending.as_ref().map_or(0, |p| p.plan.set.mask());
        if affected & bit == 0 {
            return;
        }
        if !self.established {
            let target = self.target.clone();
            return self.begin(now, self.epoch.wrapping_add(1), target, EpochCause::Set);
        }
        if (self.set.mask() | self.leaving) & bit == 0 {
            // It was only about to join: the next plan does without it.
            self.pending = None;
            return self.follow(now);
        }
        self.open &= !bit;
        self.due &= !bit;
        self.leaving &= !bit;
        if self.set.contains(channel) && !self.srr.remove(channel) {
            let rest = self.target.clone();
            return self.begin(now, self.epoch.wrapping_add(1), rest, EpochCause::Set);
        }
        self.dead |= bit;
        let set = self.set.without(self.dead);
        self.propose(now, set, 1, 0, now);
        if self.idle {
            self.skip_to_change(now);
        }
    }

    /// Announces the difference between what is and what is wanted, one change at a time.
    fn follow(&mut self, now: Time) {
        if self.target.is_empty() || (self.pending.is_none() && self.target == self.set) {
            return;
        }
        if self.set.is_empty() || !self.established {
            if self.target != self.set {
                let target = self.target.clone();
                self.begin(now, self.epoch.wrapping_add(1), target, EpochCause::Set);
            }
            return;
        }
        // One change at a time, and the next only when the peer has come to the last: so it never holds data of two
        // memberships of one channel.
        if self.dead != 0 || self.peer_applied != self.generation {
            return;
        }
        match &self.pending {
            Some(p) if p.plan.set == self.target => return,
            None if self.target == self.set => return,
            Some(_) if self.target == self.set => {
                self.pending = None;
                return;
            }
            _ => {}
        }
        let set = self.target.clone();
        let joining = set.mask() & !self.set.mask();
        self.propose(now, set, self.config.lead_rounds, joining, now);
        if self.idle {
            self.skip_to_change(now);
        }
    }

    fn propose(&mut self, now: Time, set: ChannelSet, lead: u32, joining: u64, since: Time) {
        let start = self.srr.round().wrapping_add(lead);
        self.last_generation = self.last_generation.wrapping_add(1);
        let plan = Plan {
            epoch: self.epoch,
            channel: ChannelId(0),
            generation: self.last_generation,
            base: self.generation,
            start,
            set,
            dead: self.dead,
        };
        // A death is in force whether seen or not.
        let accepted = self.dead != 0;
        self.pending = Some(Pending { plan, joining, seen: 0, accepted, lead, since });
        self.announce_span = self.config.announce_interval;
        self.announce_now(now);
    }

    /// An idle sender need not wait for a round that never ends: it skips to the change, if that may be made.
    fn skip_to_change(&mut self, now: Time) -> bool {
        let Some(start) = self.pending.as_ref().filter(|p| p.accepted).map(|p| p.plan.start) else { return false };
        if serial(start, self.srr.round()) > 0 {
            // What is left of the present visit is given up; the channel's next begins afresh.
            let at = self.srr.select();
            self.srr.set_deficit(at, i64::from(self.srr.quantum(at)));
            self.srr.jump(start);
        }
        self.decide(now);
        true
    }

    /// The pointer stands at the first channel of the round that the pending change was announced for.
    fn decide(&mut self, now: Time) {
        let Some(p) = &self.pending else { return };
        let concerned = self.set.mask() | p.plan.set.mask();
        if !p.accepted {
            // A generation number of its own: an answer to the earlier announcement must not count for this one.
            let lead = p.lead.saturating_mul(2).min(1 << 16);
            let (set, joining, since) = (p.plan.set.clone(), p.joining, p.since);
            self.stats.postponed += 1;
            self.propose(now, set, lead, joining, since);
        } else if let Some(p) = self.pending.take() {
            self.base = self.generation;
            self.generation = p.plan.generation;
            self.leaving |= self.set.mask() & !p.plan.set.mask() & !self.dead;
            self.open = (self.open | p.joining) & (p.plan.set.mask() | self.leaving);
            self.set = p.plan.set;
            // The set is not empty: a plan never is.
            let _ = self.srr.adopt(&self.set);
            self.stats.changes += 1;
            self.event(Event::Changed { generation: self.generation, mask: self.set.mask() });
        }
        self.announce_at = self.announce_at.min(now + self.announce_span);
        self.markers_due(now);
        self.due |= concerned & self.open;
    }

    // ---------------------------------------------------------------- epochs

    fn begin(&mut self, now: Time, epoch: u32, channels: ChannelSet, cause: EpochCause) {
        self.epoch = epoch;
        self.generation = 1;
        self.last_generation = 1;
        self.base = 1;
        self.peer_applied = 1;
        self.peer_generation = 1;
        self.open = 0;
        self.due = 0;
        self.leaving = 0;
        self.dead = 0;
        self.pending = None;
        self.established = false;
        self.epoch_since = now;
        self.first_answer = None;
        self.gate.reset();
        self.target = channels.clone();
        self.set = channels;
        if let Ok(srr) = Srr::new(&self.set) {
            self.srr = srr;
        }
        self.next_marker_round = 1u32.wrapping_add(self.config.marker_rounds);
        self.until_markers = i64::MAX;
        self.marker_span = self.config.marker_interval;
        self.marker_at = now + self.marker_span;
        self.dirty = false;
        self.announce_span = self.config.announce_interval;
        self.announce_now(now);
        self.stats.epochs += 1;
        self.event(Event::Epoch(epoch, cause));
    }

    fn announce_now(&mut self, now: Time) {
        self.announce = self.unannounced();
        self.announce_at = if self.announce == 0 { Time::MAX } else { now + self.announce_span };
    }

    /// Where the current or pending plan has still to be seen.
    fn unannounced(&self) -> u64 {
        match &self.pending {
            _ if !self.established => self.set.mask() & !self.open,
            Some(p) if !p.accepted => (self.set.mask() | p.plan.set.mask()) & !p.seen,
            Some(p) if p.seen == 0 => p.plan.set.mask(),
            // In force, but the peer has not said that it came to it: its word was lost, or its state.
            None if newer(self.generation, self.peer_applied) => self.set.mask(),
            _ => 0,
        }
    }

    fn current_plan(&self, channel: ChannelId) -> Plan {
        let mut plan = match &self.pending {
            Some(p) => p.plan.clone(),
            None => Plan {
                epoch: self.epoch,
                channel,
                generation: self.generation,
                base: self.base,
                start: if self.established { self.srr.round() } else { 1 },
                set: self.set.clone(),
                dead: self.dead,
            },
        };
        plan.channel = channel;
        plan
    }

    // ---------------------------------------------------------------- the peer's answers

    /// An acknowledgement that arrived on `channel`.
    pub fn handle_ack(&mut self, now: Time, channel: ChannelId, ack: &Ack) {
        if ack.channel != channel {
            self.stats.miswired += 1;
            return;
        }
        if ack.reset {
            // Asked about this epoch, or by a peer that knows none (0); while a reset is under way the plan is the answer.
            if self.established && (ack.epoch == self.epoch || ack.epoch == 0) {
                let target = self.target.clone();
                self.begin(now, self.epoch.wrapping_add(1), target, EpochCause::PeerAsked);
            }
            return;
        }
        if ack.epoch != self.epoch {
            self.stats.stale_acks += 1;
            return;
        }
        if let Some((bytes, packets)) = ack.grant {
            self.gate.grant(ack.channel, bytes, packets);
        }
        self.first_answer.get_or_insert(now);
        if !self.established {
            if ack.generation == self.generation {
                self.open |= ack.seen & self.set.mask();
            }
            if self.open == self.set.mask() {
                self.establish(now);
            }
            return;
        }
        if !newer(self.peer_applied, ack.applied) && !newer(ack.applied, self.generation) {
            self.peer_applied = ack.applied;
            if ack.applied == self.generation {
                self.open &= self.set.mask();
                self.due &= self.set.mask();
                self.leaving = 0;
            }
        }
        let newest = self.pending.as_ref().map_or(self.generation, |p| p.plan.generation);
        if !newer(self.peer_generation, ack.generation) && !newer(ack.generation, newest) {
            self.peer_generation = ack.generation;
        }
        let mut accepted = false;
        if let Some(p) = self.pending.as_mut().filter(|p| p.plan.generation == ack.generation) {
            p.seen |= ack.seen;
            accepted = !p.accepted && p.seen != 0 && p.joining & !p.seen == 0;
            p.accepted |= accepted;
        }
        if self.unannounced() == 0 {
            self.announce = 0;
            self.announce_at = Time::MAX;
        } else if newer(newest, ack.generation) && self.announce_at == Time::MAX {
            self.announce_now(now);
        }
        if self.pending.is_none() && self.peer_applied == self.generation {
            self.dead = 0;
            self.follow(now);
        } else if accepted && self.idle {
            self.skip_to_change(now);
        }
    }

    /// Credit that came on a marker of the reverse direction.
    pub fn handle_grant(&mut self, channel: ChannelId, grant: &Grant) {
        if grant.epoch == self.epoch {
            self.gate.grant(channel, grant.bytes, grant.packets);
        }
    }

    fn establish(&mut self, now: Time) {
        self.established = true;
        self.announce = 0;
        self.announce_at = Time::MAX;
        self.announce_span = self.config.announce_interval;
        self.event(Event::Established);
        self.markers_due(now);
        self.follow(now);
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

fn check(channels: &ChannelSet, max_packet: Bytes) -> Result<(), ConfigError> {
    if channels.is_empty() {
        return Err(SetError::Empty.into());
    }
    if channels.unit() == Unit::Packets {
        return Ok(());
    }
    let least = max_packet.as_u64();
    for channel in channels.channels() {
        let quantum = u64::from(channels.quantum(channel));
        if quantum < least {
            return Err(SetError::Quantum { channel, quantum, least }.into());
        }
    }
    Ok(())
}

/// After a fall into idleness this many markers repeat at the busy interval, in case the first ones were lost; then the
/// interval doubles.
const IDLE_REPEATS: u8 = 3;
const MOST_EVENTS: usize = 64;

/// How far `a` is ahead of `b`, in serial arithmetic (RFC 1982).
pub(super) fn serial(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// Whether generation `a` comes after `b`.
pub(super) fn newer(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) > 0
}
