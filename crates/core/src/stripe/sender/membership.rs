//! The sender's channel set: changes, deaths, epochs, and the peer's word on them.
//!
//! See the card of [`sender`](super) for how what the paper leaves open is settled.

use super::{Pending, Sender};
use crate::causal::{Causal, ChannelSet, Srr, set};
use crate::stripe::config::{ConfigError, check};
use crate::stripe::event::{EpochCause, Event};
use crate::stripe::serial::{newer, serial};
use crate::units::{ChannelId, Time};
use crate::wire::marker::{Ack, Grant, Plan};

impl Sender {
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
    pub(super) fn follow(&mut self, now: Time) {
        if self.target.is_empty() {
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
    pub(super) fn skip_to_change(&mut self, now: Time) -> bool {
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
    pub(super) fn decide(&mut self, now: Time) {
        let Some(p) = &self.pending else { return };
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
            self.open |= p.joining;
            self.set = p.plan.set;
            // The set is not empty: a plan never is.
            let _ = self.srr.adopt(&self.set);
            self.stats.changes += 1;
            self.event(Event::Changed { generation: self.generation, mask: self.set.mask() });
        }
        self.announce_at = self.announce_at.min(now + self.announce_span);
        self.markers_due(now);
    }

    // ---------------------------------------------------------------- epochs

    pub(super) fn begin(&mut self, now: Time, epoch: u32, channels: ChannelSet, cause: EpochCause) {
        self.epoch = epoch;
        self.generation = 1;
        self.last_generation = 1;
        self.base = 1;
        self.peer_applied = 1;
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

    pub(super) fn announce_now(&mut self, now: Time) {
        self.announce = self.unannounced();
        self.announce_at = if self.announce == 0 { Time::MAX } else { now + self.announce_span };
    }

    /// Where the current or pending plan has still to be seen.
    pub(super) fn unannounced(&self) -> u64 {
        match &self.pending {
            _ if !self.established => self.set.mask() & !self.open,
            Some(p) if !p.accepted => (self.set.mask() | p.plan.set.mask()) & !p.seen,
            Some(p) if p.seen == 0 => p.plan.set.mask(),
            // In force, but the peer has not said that it came to it: its word was lost, or its state.
            None if newer(self.generation, self.peer_applied) => self.set.mask(),
            _ => 0,
        }
    }

    pub(super) fn current_plan(&self, channel: ChannelId) -> Plan {
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
            // Asked about this epoch, or by a peer that knows none (0), to which the plan of a reset under way is the answer.
            if ack.epoch == self.epoch || (self.established && ack.epoch == 0) {
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
        if newer(ack.generation, self.last_generation) || newer(ack.applied, self.generation) {
            let target = self.target.clone();
            return self.begin(now, self.epoch.wrapping_add(1), target, EpochCause::Foreign);
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
        if !newer(self.peer_applied, ack.applied) {
            self.peer_applied = ack.applied;
            if ack.applied == self.generation {
                self.open &= self.set.mask();
                self.due &= self.set.mask();
                self.leaving = 0;
            }
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
}
