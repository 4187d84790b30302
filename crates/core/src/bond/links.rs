//! Channels that join, come up, go down, block and leave; and everything that follows from the set of usable ones.

use super::channel::{Channel, bit, each, head_len};
use super::config::{ChannelConfig, ConfigError};
use super::event::{ChannelReport, Event, Link, Reason};
use super::pmtu::Pmtu;
use super::share::{self, Member, Share};
use super::{Bond, Mode};
use crate::packet::Packet;
use crate::units::{ChannelId, Rate, Time};
use alloc::vec::Vec;

/// The queue holds at least this many of the largest packets, however slow the channels are.
pub(super) const LEAST_QUEUE: usize = 32;

impl<P: Packet> Bond<P> {
    /// Adds a channel while running, or gives one other settings. It is down until [`Bond::set_link`] says otherwise;
    /// one that is up stays up.
    ///
    /// # Errors
    /// The first setting that cannot work; nothing is changed then.
    pub fn join(&mut self, now: Time, channel: ChannelId, config: ChannelConfig) -> Result<(), ConfigError> {
        config.validate(channel)?;
        while self.channels.len() <= channel.index() {
            self.channels.push(Channel::new(now, ChannelConfig::default()));
        }
        let c = &mut self.channels[channel.index()];
        if self.joined & bit(channel) == 0 || !c.is_up() {
            *c = Channel::new(now, config);
        } else {
            if c.config.mtu != config.mtu {
                c.pmtu = Pmtu::new(now, config.mtu);
            }
            c.rate = config.rate;
            c.config = config;
        }
        self.joined |= bit(channel);
        self.rebuild(now, 0);
        Ok(())
    }

    /// Says what the state of a link is now.
    pub fn set_link(&mut self, now: Time, channel: ChannelId, state: Link) {
        if !self.has(channel) {
            return;
        }
        let c = &mut self.channels[channel.index()];
        let was_up = c.is_up();
        c.link = state;
        match state {
            Link::Up if !was_up => {
                (c.silent, c.stalled, c.unheard, c.blocked) = (false, false, false, None);
                c.heard = now;
                c.ask_echo(now);
                self.equalizer.forget(channel);
                let c = &mut self.channels[channel.index()];
                c.pmtu = Pmtu::new(now, c.config.mtu);
                // The peer may not have it yet: what it says of this channel counts from its next heartbeat on.
                self.peer.deaf &= !bit(channel);
                self.refresh(now, Reason::Link);
                self.send_heartbeat(now, channel);
            }
            Link::Up => {}
            Link::Down | Link::Removed => {
                if state == Link::Removed {
                    self.joined &= !bit(channel);
                    self.channels[channel.index()].usable = false;
                }
                self.refresh(now, Reason::Link);
                self.copies.retain(|frame| frame.channel != channel);
            }
        }
        self.refresh_waits();
    }

    /// Says whether the channel's socket takes frames. Control messages for a blocked channel are left out.
    pub fn set_blocked(&mut self, now: Time, channel: ChannelId, blocked: bool) {
        if !self.has(channel) {
            return;
        }
        let c = &mut self.channels[channel.index()];
        match (blocked, c.blocked) {
            (true, None) => {
                c.blocked = Some(now);
                self.block_stripe(channel, true);
            }
            (false, Some(_)) => {
                c.blocked = None;
                let stalled = core::mem::take(&mut c.stalled);
                self.block_stripe(channel, false);
                if stalled {
                    self.refresh(now, Reason::Stalled);
                }
            }
            _ => {}
        }
    }

    /// Tells what was found out about a channel.
    pub fn report(&mut self, now: Time, channel: ChannelId, report: ChannelReport) {
        if !self.has(channel) {
            return;
        }
        let c = &mut self.channels[channel.index()];
        if let Some(rtt) = report.rtt {
            c.on_rtt(rtt);
            c.path.measured(now, rtt);
            self.refresh_flow_delays();
        }
        let c = &mut self.channels[channel.index()];
        if let Some(mtu) = report.path_mtu {
            let before = c.pmtu.current();
            c.pmtu.report(now, mtu);
            if c.pmtu.current() != before {
                self.on_path_mtu(channel);
            }
        }
        if let Some(rate) = report.rate {
            self.channels[channel.index()].rate = Some(rate).filter(|r| r.as_bits_per_sec() >= 1_000);
            self.rebuild(now, 0);
        }
    }

    /// A path MTU was found, confirmed or lowered.
    pub(super) fn on_path_mtu(&mut self, channel: ChannelId) {
        let c = &mut self.channels[channel.index()];
        let mtu = c.pmtu.current();
        if c.stats.path_mtu != Some(mtu) {
            c.stats.path_mtu = Some(mtu);
            self.event(Event::PathMtu { channel, mtu });
        }
        self.refresh_mtu();
    }

    /// Works out which channels are usable, and what follows if that changed.
    pub(super) fn refresh(&mut self, now: Time, reason: Reason) {
        let mut usable = 0;
        for channel in each(self.joined) {
            let c = &mut self.channels[channel.index()];
            c.unheard = self.peer.deaf & bit(channel) != 0;
            if c.is_up() && !c.silent && !c.unheard && !c.stalled {
                usable |= bit(channel);
            }
        }
        if let Some(flow) = &mut self.flow {
            usable = flow.supervise(now, self.joined, usable);
        }
        for channel in each(self.joined) {
            let c = &mut self.channels[channel.index()];
            c.usable = usable & bit(channel) != 0;
            c.stats.usable = c.usable;
        }
        let (came, went) = (usable & !self.usable, self.usable & !usable);
        if self.usable == 0 && usable != 0 {
            // After an outage nobody waits for what was sent before it.
            let oldest = now.as_nanos().saturating_sub(self.config.deadline.as_nanos());
            self.stats.no_channel += self.queue.drop_before(Time::from_nanos(oldest));
        }
        self.usable = usable;
        for channel in each(came) {
            self.event(Event::ChannelUp { channel, reason });
        }
        for channel in each(went) {
            self.event(Event::ChannelDown { channel, reason });
        }
        if came | went != 0 {
            self.rebuild(now, went);
        }
        self.refresh_waits();
        // Both that we use and that we hear has changed or may have: tell the peer at once, on every channel.
        self.announce(now);
    }

    /// A heartbeat on every channel that is up.
    pub(super) fn announce(&mut self, now: Time) {
        for channel in each(self.joined) {
            if self.channels[channel.index()].is_up() {
                self.send_heartbeat(now, channel);
            }
        }
    }

    /// The channels that a gap waits for: those that the peer uses and that can bring something.
    pub(super) fn refresh_waits(&mut self) {
        let bringing = each(self.joined & self.peer.using).filter(|c| {
            let c = &self.channels[c.index()];
            c.is_up() && !c.silent
        });
        self.bringing = bringing.fold(0, |set, c| set | bit(c));
        // What a channel brought before it was left is still to come out of its delay line.
        self.ordered.wait_for(self.bringing | self.equalizer.busy(), &mut self.stats);
        self.refresh_delays();
    }

    /// The usable channels and what their shares depend on.
    pub(super) fn members(&self) -> Vec<Member> {
        let member = |channel: ChannelId| {
            let c = &self.channels[channel.index()];
            Member { channel, rate: c.rate, weight: c.config.weight }
        };
        each(self.usable).map(member).collect()
    }

    /// Builds the discipline over the usable channels anew, with the rates in force.
    pub(super) fn rebuild(&mut self, now: Time, went: u64) {
        let members = self.members();
        let channels = &self.channels;
        let largest = each(self.joined).map(|c| channels[c.index()].wire(channels[c.index()].config.mtu)).max();
        let largest = largest.unwrap_or(1500);
        let mut order: Vec<ChannelId> = members.iter().map(|m| m.channel).collect();
        order.sort_by_key(|c| (channels[c.index()].config.priority, *c));
        self.by_priority = order;
        self.share = match self.config.mode {
            Mode::Flow => None,
            Mode::Backup | Mode::Duplicate => self.by_priority.first().map(|c| Share::Best(*c)),
            _ => Share::new(self.config.scheduler, &members, largest, self.rng.next_u64()),
        };
        for (channel, quantum) in share::quanta(&members, largest) {
            let c = &mut self.channels[channel.index()];
            c.set_rate(c.rate, quantum.as_u64() as usize);
        }
        self.queue_limit = self
            .rate_of_share(&members)
            .map(|rate| (rate.bytes_in(self.config.queue_time).as_u64() as usize).max(LEAST_QUEUE * largest));
        self.refresh_stripe(now, &members, went);
        self.refresh_flow(now, largest, went);
        self.refresh_mtu();
    }

    /// The rate at which the queue drains, if every channel that drains it has one.
    fn rate_of_share(&self, members: &[Member]) -> Option<Rate> {
        let counted: &[ChannelId] = match self.config.mode {
            Mode::Backup | Mode::Duplicate => self.by_priority.get(..1)?,
            _ => &self.by_priority,
        };
        let rates = members.iter().filter(|m| counted.contains(&m.channel)).map(|m| m.rate);
        let sum: Option<u64> = rates.map(|r| r.map(Rate::as_bits_per_sec)).sum();
        sum.filter(|_| !counted.is_empty()).map(Rate::from_bits_per_sec)
    }

    pub(super) fn refresh_mtu(&mut self) {
        let fits = |channel: ChannelId| {
            let c = &self.channels[channel.index()];
            c.frame_limit().saturating_sub(head_len(&self.config, c.config.raw))
        };
        let up = each(self.joined).filter(|c| self.channels[c.index()].is_up()).map(fits).min();
        let mtu = up.or_else(|| each(self.joined).map(fits).min()).unwrap_or(1280);
        let mtu = mtu.min(self.stripe_limit()).max(68);
        if mtu != self.mtu {
            self.mtu = mtu;
            self.event(Event::Mtu { mtu });
        }
    }
}
