//! Everything that time does: heartbeats, silence, stalls, deadlines, probes.

use super::channel::each;
use super::event::{Reason, TimerName};
use super::{Bond, Mode};
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::envelope::{Echo, Message, Probe};

impl<P: Packet> Bond<P> {
    /// When [`Bond::handle_timeout`] is to be called at the latest, and why.
    pub fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let mut first: Option<(Time, TimerName)> = None;
        let mut add = |at: Option<Time>, name| {
            if let Some(at) = at
                && first.is_none_or(|(time, _)| at < time)
            {
                first = Some((at, name));
            }
        };
        add(self.equalizer.timeout(), TimerName::Equalize);
        add(self.ordered.timeout(), TimerName::Deadline);
        add(self.stripe_timeout(), TimerName::Stripe);
        add(self.idle_marker, TimerName::Heartbeat);
        if let Some(flow) = &self.flow {
            add(flow.ready_at(&self.channels), TimerName::Pacing);
            add(flow.timeout(&self.channels), TimerName::Select);
        }
        if !self.queue.is_empty() {
            add(self.next_ready(), TimerName::Pacing);
        }
        for channel in each(self.joined) {
            let c = &self.channels[channel.index()];
            if !c.is_up() {
                continue;
            }
            add(Some(c.heartbeat + self.heartbeat_interval()), TimerName::Heartbeat);
            add(self.silent_at(channel), TimerName::Liveness);
            add(c.blocked.filter(|_| !c.stalled).map(|at| at + self.config.stall_after), TimerName::Stall);
            if c.usable {
                add(self.wants_echo(channel).then_some(c.next_echo), TimerName::Echo);
                add(self.config.probe_mtu.then(|| c.pmtu.timeout()), TimerName::Probe);
            }
        }
        first
    }

    /// Does what is due at `now`. Calling it early or late does no harm.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.active_since.is_some() && now.since(self.traffic) >= self.config.active_for {
            self.active_since = None;
        }
        self.release_delayed(now);
        self.ordered.handle_timeout(now, &mut self.stats);
        self.check_channels(now);
        self.on_stripe_timeout(now);
        self.on_flow_timeout(now);
        if self.idle_marker.is_some_and(|at| at <= now) {
            self.idle_marker = None;
            self.mark_idle(now);
        }
        for channel in each(self.joined) {
            let c = &self.channels[channel.index()];
            if !c.is_up() {
                continue;
            }
            if c.heartbeat + self.heartbeat_interval() <= now {
                self.send_heartbeat(now, channel);
            }
            if self.channels[channel.index()].usable {
                self.measure(now, channel);
                self.probe(now, channel);
            }
        }
    }

    /// A packet came from the host or a channel.
    #[inline]
    pub(super) fn on_traffic(&mut self, now: Time) {
        self.traffic = now;
        if self.active_since.is_none() {
            self.active_since = Some(now);
        }
    }

    fn heartbeat_interval(&self) -> Span {
        if self.active_since.is_some() { self.config.heartbeat } else { self.config.heartbeat_idle }
    }

    /// From when on the channel counts as silent, if it does not already.
    fn silent_at(&self, channel: ChannelId) -> Option<Time> {
        let c = &self.channels[channel.index()];
        if c.silent || !c.is_up() {
            return None;
        }
        Some(match self.active_since {
            // The peer heartbeats fast only since it saw the traffic.
            Some(since) => c.heard.max(since) + self.config.dead_after,
            None => c.heard + self.config.dead_after_idle,
        })
    }

    /// Finds channels that became silent or stalled.
    fn check_channels(&mut self, now: Time) {
        let (mut silent, mut stalled) = (false, false);
        for channel in each(self.joined) {
            let dead = self.silent_at(channel).is_some_and(|at| at <= now);
            let c = &mut self.channels[channel.index()];
            if dead {
                (c.silent, silent) = (true, true);
            }
            if !c.stalled && c.blocked.is_some_and(|at| now.since(at) >= self.config.stall_after) {
                (c.stalled, stalled) = (true, true);
            }
        }
        if silent {
            self.refresh(now, Reason::Silence);
        }
        if stalled {
            self.refresh(now, Reason::Stalled);
        }
    }

    /// The sender fell idle: markers on the channels that the peer cannot know to have passed its last packet, so that
    /// no gap waits for them.
    fn mark_idle(&mut self, now: Time) {
        let orders = match self.config.mode {
            Mode::Ordered | Mode::Backup => true,
            Mode::Flow => self.flow.as_ref().is_some_and(|flow| flow.orders() && flow.is_empty()),
            Mode::Duplicate | Mode::Stripe | Mode::Plain => false,
        };
        if !orders || !self.queue.is_empty() {
            return;
        }
        let last = self.last_number();
        for channel in each(self.using(now)) {
            if self.channels[channel.index()].high != last {
                self.send_heartbeat(now, channel);
            }
        }
    }

    /// When a channel that the queue's head can go by is ready.
    fn next_ready(&self) -> Option<Time> {
        if self.config.mode == Mode::Duplicate {
            return self.by_priority.iter().filter_map(|c| self.channels[c.index()].ready_at()).min();
        }
        if self.config.mode == Mode::Stripe {
            return self.stripe_ready();
        }
        let channel = self.share.as_ref()?.select();
        self.channels.get(channel.index())?.ready_at()
    }

    fn measure(&mut self, now: Time, channel: ChannelId) {
        if !self.wants_echo(channel) || self.channels[channel.index()].next_echo > now {
            return;
        }
        let new_token = self.rng.next_u64() as u32;
        let c = &mut self.channels[channel.index()];
        // Asked again before the answer came, on a long path, the first answer still counts: the token stays.
        let (token, _) = *c.echo.get_or_insert((new_token, now));
        // The first one is sent more often: the peer makes up for differences of delay from the first that it gets.
        let soon = c.unanswered.is_some();
        c.next_echo = now + if soon { self.config.heartbeat } else { self.config.echo_interval };
        c.path.asked(now, c.pacer.as_ref().map_or(Span::ZERO, |pacer| pacer.free().since(now)));
        self.send_control(channel, Message::EchoRequest(Echo { channel, token, clock: now.as_nanos() }), 0);
    }

    /// Round trips are measured while traffic flows, and until the first is known for as long as a channel that is
    /// never answered is tried fast.
    fn wants_echo(&self, channel: ChannelId) -> bool {
        let c = &self.channels[channel.index()];
        self.active_since.is_some() || c.unanswered.is_some_and(|since| c.next_echo < since + self.config.active_for)
    }

    fn probe(&mut self, now: Time, channel: ChannelId) {
        let c = &self.channels[channel.index()];
        if !self.config.probe_mtu || c.pmtu.timeout() > now {
            return;
        }
        let token = self.rng.next_u64() as u32;
        let c = &mut self.channels[channel.index()];
        let before = c.pmtu.current();
        let size = c.pmtu.poll(now, token).map(|outer| outer.saturating_sub(c.config.overhead));
        if before != c.pmtu.current() {
            self.on_path_mtu(channel);
        }
        if let Some(size) = size {
            self.send_control(channel, Message::Probe(Probe { channel, token, size: size as u32 }), size);
        }
    }
}
