//! Channels that join, come up, go down, block and leave; and everything that follows from the set of usable ones.

use super::Bond;
use super::channel::{bit, each};
use super::config::{ChannelConfig, ConfigError, Mode};
use super::event::{ChannelReport, Event, Link, Reason};
use super::room::Waits;
use super::share::{self, Member};
use crate::congestion::PathRate;
use crate::packet::Packet;
use crate::path::mtu::Pmtu;
use crate::units::{ChannelId, Span, Time};
use alloc::vec::Vec;

impl<P: Packet> Bond<P> {
    /// Adds a channel while running, or gives one other settings. It is down until [`Bond::set_link`] says otherwise;
    /// one that is up stays up.
    ///
    /// # Errors
    /// The first setting that cannot work; nothing is changed then.
    pub fn join(&mut self, now: Time, channel: ChannelId, config: ChannelConfig) -> Result<(), ConfigError> {
        config.validate(channel)?;
        let new = Some(channel).filter(|channel| !self.channels.has(*channel));
        self.channels.join(now, channel, config);
        self.ingress.ledger.on_channel(self.channels.len(), new);
        self.rebuild(now, 0);
        Ok(())
    }

    /// Says what the state of a link is now.
    pub fn set_link(&mut self, now: Time, channel: ChannelId, state: Link) {
        if !self.channels.has(channel) {
            return;
        }
        let c = &mut self.channels[channel];
        if state == Link::Leaving {
            if !core::mem::replace(&mut c.path.signs.leaving, true) {
                self.refresh(now, Reason::Leaving);
            }
            return;
        }
        let was_up = c.is_up();
        c.path.signs.up = state == Link::Up;
        match state {
            Link::Up if !was_up => {
                c.path.signs.on_up(now);
                c.path.ask_echo(now);
                c.path.mtu = Pmtu::new(now, c.config.mtu);
                self.resequence.forget(channel);
                // The peer may not have it yet: what it said of this channel before does not count.
                self.peer.deaf &= !bit(channel);
                self.refresh(now, Reason::Link);
                self.send_heartbeat(now, channel);
            }
            Link::Up | Link::Leaving => {}
            Link::Down | Link::Removed => {
                let mut reason = Reason::Link;
                if state == Link::Removed {
                    self.channels.joined &= !bit(channel);
                    self.channels[channel].usable = false;
                    self.lose_all(channel);
                    reason = Reason::Leaving;
                }
                self.refresh(now, reason);
                self.protect.forget(channel);
            }
        }
        self.refresh_waits();
    }

    /// Says whether the channel's socket takes frames. Control messages for a blocked channel are left out, but reports
    /// of what arrived, which wait.
    pub fn set_blocked(&mut self, now: Time, channel: ChannelId, blocked: bool) {
        if !self.channels.has(channel) {
            return;
        }
        let c = &mut self.channels[channel];
        match (blocked, c.path.signs.blocked) {
            (true, None) => {
                c.path.signs.blocked = Some(now);
                self.block_stripe(channel, true);
            }
            (false, Some(_)) => {
                c.path.signs.blocked = None;
                let stalled = core::mem::take(&mut c.path.signs.stalled);
                self.block_stripe(channel, false);
                if stalled {
                    self.refresh(now, Reason::Stalled);
                }
                self.release_reports(now);
            }
            _ => {}
        }
    }

    /// Tells what was found out about a channel.
    pub fn report(&mut self, now: Time, channel: ChannelId, report: ChannelReport) {
        if !self.channels.has(channel) {
            return;
        }
        let c = &mut self.channels[channel];
        if let Some(rtt) = report.rtt {
            c.on_rtt(rtt);
            c.path.delay.measured(now, rtt);
            self.refresh_delays(now);
        }
        let c = &mut self.channels[channel];
        if let Some(mtu) = report.path_mtu {
            let before = c.path.mtu.current();
            c.path.mtu.report(now, mtu);
            if c.path.mtu.current() != before {
                self.on_path_mtu(channel);
            }
        }
        if let Some(rate) = report.rate {
            self.channels[channel].rate = Some(rate).filter(|r| r.as_bits_per_sec() >= 1_000);
            self.rebuild(now, 0);
        }
    }

    /// A train told the rate of a path, or did not.
    pub(super) fn on_path_rate(&mut self, now: Time, channel: ChannelId, rate: Option<PathRate>) {
        if let (Some(rate), Some(control)) = (rate, &mut self.channels[channel].path.control) {
            control.on_path_rate(rate);
            self.channels[channel].follow_law(now);
            self.replan_reserve(now);
            self.refresh_queue(now);
            self.refresh_classes(now);
        }
    }

    /// A path MTU was found, confirmed or lowered.
    pub(super) fn on_path_mtu(&mut self, channel: ChannelId) {
        let c = &mut self.channels[channel];
        let mtu = c.path.mtu.current();
        if c.stats.path_mtu != Some(mtu) {
            c.stats.path_mtu = Some(mtu);
            self.event(Event::PathMtu { channel, mtu });
        }
        self.refresh_mtu();
    }

    /// Works out which channels are usable, and what follows if that changed.
    pub(super) fn refresh(&mut self, now: Time, reason: Reason) {
        let mut usable = 0;
        for channel in each(self.channels.joined) {
            let c = &mut self.channels[channel];
            c.path.signs.unheard = self.peer.deaf & bit(channel) != 0;
            if c.path.signs.are_well() {
                usable |= bit(channel);
            }
        }
        usable = match self.distribute.policy_mut() {
            Some(policed) => policed.supervise(now, self.channels.joined, usable),
            None => self.choose(now, usable),
        };
        for channel in each(self.channels.joined) {
            let c = &mut self.channels[channel];
            c.usable = usable & bit(channel) != 0;
            c.stats.usable = c.usable;
        }
        let (came, went) = (usable & !self.channels.usable, self.channels.usable & !usable);
        if self.channels.usable == 0 && usable != 0 {
            // After an outage nobody waits for what was sent before it.
            let oldest = now.as_nanos().saturating_sub(self.config.deadline().as_nanos());
            self.stats.no_channel += self.ingress.drop_before(Time::from_nanos(oldest));
            self.drop_old_of_classes(Time::from_nanos(oldest));
        }
        self.channels.usable = usable;
        for channel in each(came) {
            self.event(Event::ChannelUp { channel, reason });
        }
        for channel in each(went) {
            self.event(Event::ChannelDown { channel, reason });
        }
        if came | went != 0 {
            self.rebuild(now, went);
        }
        for channel in each(went) {
            // What is under way on one that leaves still arrives, and is told of.
            let signs = &self.channels[channel].path.signs;
            if !(signs.leaving && signs.may_bring()) {
                self.lose_all(channel);
            }
        }
        self.refresh_waits();
        // Both that we use and that we hear has changed or may have: tell the peer at once, on every channel.
        self.announce(now);
    }

    /// A heartbeat on every channel that is up.
    pub(super) fn announce(&mut self, now: Time) {
        for channel in each(self.channels.joined) {
            if self.channels[channel].is_up() {
                self.send_heartbeat(now, channel);
            }
        }
    }

    /// The channels that a gap waits for: those that the peer uses and that can bring something.
    pub(super) fn refresh_waits(&mut self) {
        // The peer sends no more on one that is to leave here, but what it sent is under way.
        let using = self.peer.using | self.channels.where_each(|c| c.path.signs.leaving);
        let bringing = self.channels.where_each(|c| c.path.signs.may_bring()) & using;
        self.resequence.set_bringing(bringing, &mut self.stats);
        self.fragments.set_bringing(bringing);
        self.collect_fragments();
        self.refresh_deadline();
    }

    /// What is known of channels' delays has changed.
    pub(super) fn refresh_delays(&mut self, now: Time) {
        if let Some(policed) = self.distribute.policy_mut() {
            policed.refresh_delays(&self.channels);
        }
        if self.number.resends() {
            self.refresh_deadline();
            self.replan_reserve(now);
            self.refresh_queue(now);
            self.refresh_classes(now);
        }
    }

    /// How long a packet waits for an earlier one: where nothing else is set, also until what is lost has come again. Word of a loss and what goes
    /// again take the fastest round trip, and a quarter more shows that it is one; what was lost by the slowest may go there again.
    pub(super) fn refresh_deadline(&mut self) {
        let mut deadline = self.config.deadline();
        if self.number.resends() && self.config.deadline.is_none() {
            let used = each(self.channels.joined & self.peer.using);
            let trips = used.filter_map(|c| self.channels[c].path.delay.trip()).map(Span::as_nanos);
            let (fastest, slowest) = (trips.clone().min().unwrap_or(0), trips.max().unwrap_or(0));
            deadline = deadline.max(Span::from_nanos(fastest / 4 * 5 + slowest / 2));
        }
        self.resequence.set_deadline(deadline);
    }

    /// The channels that carry data, and what their shares depend on.
    pub(super) fn members(&self) -> Vec<Member> {
        let member = |channel: ChannelId| {
            let c = &self.channels[channel];
            let paced = c.path.control.as_ref().is_some_and(|control| control.finds_rate());
            Member { channel, rate: c.rate, weight: c.config.weight, paced }
        };
        each(self.channels.in_use()).map(member).collect()
    }

    /// Builds the discipline over the usable channels anew, with the rates in force.
    pub(super) fn rebuild(&mut self, now: Time, went: u64) {
        let alone = self.channels.joined.count_ones() == 1;
        for channel in each(self.channels.joined) {
            if let Some(control) = &mut self.channels[channel].path.control {
                control.set_alone(alone);
            }
        }
        if !matches!(self.config.mode, Mode::Stripe | Mode::Flow) {
            self.channels.set_metered(&self.config.metered.0);
        }
        self.plan_reserve();
        let members = self.members();
        let frame = self.largest_frame();
        let largest = self.largest_fragment(&members).unwrap_or(frame);
        self.distribute.refresh(&self.config, &self.channels, &members, largest, &mut self.rng);
        let quanta = share::quanta(&members, largest);
        for (channel, quantum) in &quanta {
            let c = &mut self.channels[*channel];
            c.set_rate(c.rate, quantum.as_u64() as usize);
        }
        self.refresh_queue(now);
        self.refresh_classes(now);
        self.refresh_stripe(now, &members, went);
        self.refresh_policy(now, frame, went);
        self.refresh_mtu();
        self.refresh_fragments(&quanta, largest);
    }

    /// Works out anew how much may wait for a channel.
    pub(super) fn refresh_queue(&mut self, now: Time) {
        let waits = self.waits();
        for channel in each(self.channels.usable) {
            self.channels[channel].reckon(now);
        }
        let members = self.members();
        let present = self.distribute.rate(&members, |channel| self.channels[channel].reckoned);
        let highest = self.distribute.rate(&members, |channel| self.channels[channel].highest);
        let limit = present.zip(highest).map(|(present, highest)| waits.room(present, highest));
        self.ingress.set_limit(limit, self.config.queue_bytes);
        self.ingress.sparse.set_rate(present);
    }

    /// For what time there is room where packets wait.
    pub(super) fn waits(&self) -> Waits {
        Waits { queue: self.config.queue_time, repair: self.repair_time(), largest: self.largest_frame() }
    }

    /// Wire bytes of the largest frame of any channel.
    pub(super) fn largest_frame(&self) -> usize {
        each(self.channels.joined).map(|c| self.channels[c].wire(self.channels[c].config.mtu)).max().unwrap_or(1500)
    }

    pub(super) fn refresh_mtu(&mut self) {
        let fits = |channel: ChannelId| {
            let c = &self.channels[channel];
            c.frame_limit().saturating_sub(self.number.head_len(c.config.raw))
        };
        let up = each(self.channels.joined).filter(|c| self.channels[*c].is_up()).map(fits).min();
        let mtu = up.or_else(|| each(self.channels.joined).map(fits).min()).unwrap_or(1280);
        let mtu = mtu.min(self.stripe_limit()).max(68);
        if mtu != self.ingress.mtu {
            self.ingress.mtu = mtu;
            self.event(Event::Mtu { mtu });
            self.fragments.fit(mtu);
        }
    }
}
