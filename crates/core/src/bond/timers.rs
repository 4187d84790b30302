//! Everything that time does: heartbeats, silence, stalls, deadlines, probes.

use super::Bond;
use super::channel::{bit, each};
use super::distribute::Distribute;
use super::event::{Reason, TimerName};
use super::taken::Taken;
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::envelope::{Echo, Message, Probe};

/// Between the first echo requests where lost packets are sent again.
const FIRST_ECHOES_EVERY: Span = Span::from_millis(20);

/// A channel that tells nothing of what was sent is asked as often as heartbeats go for so long, and from then on so often: these
/// requests are as long as data.
const OFTEN_FOR: Span = Span::from_secs(2);
const SELDOM: Span = Span::from_millis(500);

/// Whether traffic flows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    /// When a packet last came, from either side.
    last: Time,
    /// Since when it does, if it does.
    since: Option<Time>,
}

/// When what was looked at last, to see whether a channel failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    /// Timers were served.
    pub(super) turn: Time,
    /// Channels that may be silent.
    pub(super) silence: Time,
    /// When the peer took what was sent.
    pub(super) taken: Taken,
}

impl Activity {
    #[inline]
    fn on_traffic(&mut self, now: Time) {
        self.last = now;
        if self.since.is_none() {
            self.since = Some(now);
        }
    }

    fn handle_timeout(&mut self, now: Time, active_for: Span) {
        if self.since.is_some() && now.since(self.last) >= active_for {
            self.since = None;
        }
    }
}

impl<P: Packet> Bond<P> {
    /// When [`Bond::handle_timeout`] is to be called at the latest, and why.
    pub fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let mut first = (Time::MAX, TimerName::Heartbeat);
        let mut add = |at: Option<Time>, name| {
            if let Some(at) = at
                && at < first.0
            {
                first = (at, name);
            }
        };
        add(self.resequence.equalize_timeout(), TimerName::Equalize);
        add(self.resequence.deadline(), TimerName::Deadline);
        add(self.give_up_at(), TimerName::Deadline);
        add(self.fragments.timeout(self.config.deadline()), TimerName::Deadline);
        add(self.again_at(), TimerName::Pacing);
        add(self.stripe_timeout(), TimerName::Stripe);
        add(self.outbox.idle_marker, TimerName::Heartbeat);
        if let Some(policed) = self.distribute.policy() {
            add(policed.lines.ready_at(&self.channels), TimerName::Pacing);
            add(policed.timeout(&self.channels), TimerName::Select);
        }
        if !self.ingress.queue.is_empty() || !self.fragments.is_empty() {
            add(self.next_ready(), TimerName::Pacing);
        }
        add(self.lets_go_at(), TimerName::Pacing);
        add(self.review_at(), TimerName::Pacing);
        add(self.prompt_at(), TimerName::Pacing);
        add(self.ack_at(), TimerName::Pacing);
        add(self.second_at(), TimerName::Pacing);
        add(self.protect.cover.as_ref().and_then(|cover| cover.timeout()), TimerName::Pacing);
        add(self.classed.ready_at(), TimerName::Pacing);
        for channel in each(self.channels.joined) {
            let c = &self.channels[channel];
            if !c.is_up() {
                continue;
            }
            add(Some(self.heartbeat_at(channel)), TimerName::Heartbeat);
            add(c.path.timeout(), TimerName::Feedback);
            add(self.silent_at(channel), TimerName::Liveness);
            add(self.look_at(channel), TimerName::Liveness);
            add(c.path.hold.until(), TimerName::Liveness);
            add(
                c.path.signs.blocked.filter(|_| !c.path.signs.stalled).map(|at| at + self.config.stall_after),
                TimerName::Stall,
            );
            if c.usable || c.path.signs.is_asked() {
                add(self.wants_echo(channel).then_some(c.path.next_echo), TimerName::Echo);
            }
            if c.usable {
                add(c.path.train_timeout(), TimerName::Echo);
            }
            if self.probes(channel) {
                add(Some(c.path.mtu.timeout(self.config.confirm_mtu)), TimerName::Probe);
            }
        }
        (first.0 < Time::MAX).then_some(first)
    }

    /// Does what is due at `now`. Calling it early or late does no harm.
    pub fn handle_timeout(&mut self, now: Time) {
        self.on_turn(now);
        self.activity.handle_timeout(now, self.config.active_for);
        self.resequence.handle_timeout(now, &mut self.stats);
        self.give_up_old(now);
        self.on_fragments_timeout(now);
        self.on_parity_timeout(now);
        self.check_channels(now);
        self.on_stripe_timeout(now);
        self.on_policy_timeout(now);
        self.review_reserve(now);
        if self.outbox.idle_marker.is_some_and(|at| at <= now) {
            self.outbox.idle_marker = None;
            self.mark_idle(now);
        }
        for channel in each(self.channels.joined) {
            let c = &self.channels[channel];
            if !c.is_up() {
                continue;
            }
            if self.heartbeat_at(channel) <= now {
                self.send_heartbeat(now, channel);
            }
            self.channels[channel].path.handle_timeout(now);
            self.on_tail(now, channel);
            self.send_feedback(now, channel);
            let c = &self.channels[channel];
            if c.usable || c.path.signs.is_asked() {
                self.measure(now, channel);
            }
            if self.probes(channel) {
                self.probe(now, channel);
            }
            if self.channels[channel].usable {
                self.send_train(now, channel);
            }
        }
    }

    /// A packet came from the host or a channel.
    #[inline]
    pub(super) fn on_traffic(&mut self, now: Time) {
        self.activity.on_traffic(now);
    }

    /// When a packet last came, from either side.
    pub(super) fn last_traffic(&self) -> Time {
        self.activity.last
    }

    /// Whether traffic flows.
    pub(super) fn is_active(&self) -> bool {
        self.activity.since.is_some()
    }

    /// When the next heartbeat goes.
    fn heartbeat_at(&self, channel: ChannelId) -> Time {
        let last = self.channels[channel].heartbeat;
        let every = match self.is_active() {
            true => self.config.heartbeat,
            false if self.may_return_soon(channel, last) => self.config.heartbeat_idle.min(SELDOM),
            false => self.config.heartbeat_idle,
        };
        last + every
    }

    /// From when on the channel counts as silent, if it does not already.
    fn silent_at(&self, channel: ChannelId) -> Option<Time> {
        let c = &self.channels[channel];
        if c.path.signs.silent || !c.is_up() {
            return None;
        }
        Some(match self.activity.since {
            // The peer heartbeats fast only since it saw the traffic.
            Some(since) => c.path.signs.life.heard().max(since) + self.config.dead_after,
            None => c.path.signs.life.heard() + self.config.dead_after_idle,
        })
    }

    /// Finds channels that became silent or stalled.
    fn check_channels(&mut self, now: Time) {
        self.release_held(now);
        let (mut silent, mut stalled) = (false, false);
        let beside = self.silent_beside(now);
        for channel in each(self.channels.joined) {
            let dead = beside & bit(channel) != 0 || self.silent_at(channel).is_some_and(|at| at <= now);
            let c = &mut self.channels[channel];
            if dead {
                (c.path.signs.silent, silent) = (true, true);
            }
            if !c.path.signs.stalled && c.path.signs.blocked.is_some_and(|at| now.since(at) >= self.config.stall_after)
            {
                (c.path.signs.stalled, stalled) = (true, true);
            }
        }
        if silent {
            self.refresh(now, Reason::Silence);
        }
        if stalled {
            self.refresh(now, Reason::Stalled);
            self.release_reports(now);
        }
    }

    /// The sender fell idle, or gave up what it kept: markers on the channels that the peer cannot know to have passed its last packet, so that
    /// no gap waits for them.
    fn mark_idle(&mut self, now: Time) {
        self.mark_fragments(now);
        let waits = self.ingress.bytes() > 0 || self.distribute.policy().is_some_and(|p| !p.lines.is_empty());
        if !self.number.orders_flows() || waits && !self.number.resends() {
            return;
        }
        for channel in each(self.using(now)) {
            if self.channels[channel].high != self.high_water(channel) {
                self.send_heartbeat(now, channel);
            }
        }
    }

    /// When a channel that the queue's head can go by is ready.
    fn next_ready(&self) -> Option<Time> {
        match self.distribute {
            Distribute::Agreed => self.stripe_ready(),
            _ => self.distribute.ready_at(&self.channels, self.protect.copies()),
        }
    }

    fn measure(&mut self, now: Time, channel: ChannelId) {
        if !self.wants_echo(channel) || self.channels[channel].path.next_echo > now {
            return;
        }
        let new_token = self.rng.next_u64() as u32;
        let (active, prompt) = (self.is_active(), self.is_prompt());
        let soon = self.may_return_soon(channel, now);
        let c = &mut self.channels[channel];
        // Asked again before the answer came, on a long path, each answer counts: the token stays.
        let (token, _) = *c.path.echo.get_or_insert((new_token, now));
        // The first one is sent more often: the peer makes up for differences of delay from the first that it gets.
        let first = c.path.unanswered.is_some();
        let signs = c.path.signs;
        let long_ago = |since| now.since(since) >= OFTEN_FOR;
        let is_seldom = signs.lossy && !active || signs.mute && c.path.unanswered.is_some_and(long_ago);
        let interval = if c.path.echoes > 0 {
            c.path.echoes -= 1;
            FIRST_ECHOES_EVERY
        } else if prompt && (signs.mute || signs.lossy) && !active && !soon {
            self.config.heartbeat_idle
        } else if prompt && is_seldom {
            SELDOM
        } else if first || signs.late || signs.lossy {
            self.config.heartbeat
        } else {
            self.config.echo_interval
        };
        c.path.next_echo = now + interval;
        c.path.delay.asked(now, c.pacer.as_ref().map_or(Span::ZERO, |pacer| pacer.free().since(now)));
        // Where data was lost, what is as long as data is to pass.
        if signs.lossy {
            c.path.worth.on_asked(now);
        }
        let padded = if prompt && (signs.mute || signs.lossy) { c.frame_limit() } else { 0 };
        let echo = Echo { channel, train: false, token, clock: now.as_nanos() };
        self.send_control(channel, Message::EchoRequest(echo), padded);
    }

    /// Round trips are measured while traffic flows, and until the first is known for as long as a channel that is
    /// never answered is tried fast.
    fn wants_echo(&self, channel: ChannelId) -> bool {
        let c = &self.channels[channel];
        // What is mute is in use again only once it answers, with traffic or without.
        self.activity.since.is_some()
            || c.path.signs.is_asked() && !c.path.signs.silent
            || c.path.echoes > 0
            || c.path.unanswered.is_some_and(|since| c.path.next_echo < since + self.config.active_for)
    }

    /// Sends a train where the path's rate is to be measured before traffic flows.
    fn send_train(&mut self, now: Time, channel: ChannelId) {
        let c = &mut self.channels[channel];
        // One at a time, so that control messages have room.
        if c.path.train_timeout().is_none_or(|at| at > now) || self.outbox.asks_much() {
            return;
        }
        let size = c.frame_limit();
        let wire = c.wire(size);
        let token = self.rng.next_u64() as u32;
        let (frames, rate) = self.channels[channel].path.on_train_timeout(now, token, wire);
        self.on_path_rate(now, channel, rate);
        for place in 0..frames {
            let echo = Echo { channel, train: true, token, clock: place.into() };
            self.send_control(channel, Message::EchoRequest(echo), size);
        }
    }

    /// Whether the channel's path MTU is probed. Where nothing is told of data that went, a path that narrowed may be the reason.
    fn probes(&self, channel: ChannelId) -> bool {
        let c = &self.channels[channel];
        self.config.probe_mtu && (c.usable || c.path.signs.mute && self.is_active())
    }

    fn probe(&mut self, now: Time, channel: ChannelId) {
        let c = &self.channels[channel];
        let every = self.config.confirm_mtu;
        if c.path.mtu.timeout(every) > now {
            return;
        }
        let token = self.rng.next_u64() as u32;
        let c = &mut self.channels[channel];
        let before = c.path.mtu.current();
        let alone = c.path.mtu.poll(now, token, c.path.signs.life.heard()).map(|size| (token, size));
        let round = c.path.mtu.poll_round(now, token.wrapping_add(1), every);
        let overhead = c.config.overhead;
        if before != c.path.mtu.current() {
            self.on_path_mtu(channel);
        }
        for (token, outer) in alone.into_iter().chain(round.into_iter().flatten()) {
            let size = outer.saturating_sub(overhead);
            self.send_control(channel, Message::Probe(Probe { channel, token, size: size as u32 }), size);
        }
    }
}
