//! A policy that chooses the channel of each packet as it comes from the host, and a queue for each channel: mode `flow`.
//!
//! What it is: what a Linux bond does between the IP layer and its links' transmit queues. The packet's bytes, and what
//! is known of the channels ([`Links`]), go to the configured [`Selector`]; the packet then waits in its channel's own
//! FIFO until that channel may send. On the wire it has 2 bytes of envelope, none where the channel is
//! [`raw`](super::ChannelConfig::raw), and the receiver delivers it as it comes.
//!
//! Two policies need more, and have presets of their own. `traffic_meter` puts packets in order at the receiver: they
//! are numbered when they are given to their channel. `broadcast` gives each packet to all channels; Linux delivers
//! every copy, but to a host behind a TUN interface a second copy is harm only (TCP takes it for a sign of loss or
//! reordering), so copies carry a number and the first one is delivered.
//!
//! | what a selector is told | what it is here |
//! |---|---|
//! | usable | the link is up, the peer is heard and hears us, the socket takes frames; delayed as [`supervision`] says |
//! | rate, weight, priority | the channel's settings, or the rate reported since |
//! | backlog, free | the channel's queue, and what its pacer is ahead; without a rate nothing is known of what waits beyond the socket, and `free` is now while it takes nothing |
//! | delay, jitter | the smallest transit lately, own queue left out, and how much more it was (`core/path`), but an eighth of a packet's time at least |
//!
//! Bounds: each queue holds [`Config::queue_time`] at the channel's rate, but at least 32 of the largest packets; without
//! a rate 512 kB; all together [`Config::queue_bytes`] of memory. The host is asked to wait only when every usable
//! channel is without a rate and has 256 kB waiting: one full channel does not stop the others.
//!
//! Cost: the selector's; O(channels) for policies that look at queues. No allocation once queues have grown. Invariants:
//! packets that a policy gives to one channel leave it in the order in which they came; a packet is sent once on each
//! channel that it was given to, or dropped and counted.
//!
//! [`supervision`]: crate::select::supervision
//! [`Config::queue_time`]: super::Config::queue_time
//! [`Config::queue_bytes`]: super::Config::queue_bytes

use super::channel::{Channel, Channels, bit};
use super::config::{Config, ConfigError};
use super::lines::{Lines, UNPACED, Waiting};
use super::preset::{Distribution, Preset, Protection};
use super::queue::ChannelQueue;
use super::room::LEAST_QUEUE;
use crate::flow::Buckets;
use crate::options::{Family, Field, Value};
use crate::packet::Packet;
use crate::path::delay::Reference;
use crate::queue::DisciplineConfig;
use crate::rng::Rng;
use crate::select::flush::{self, Flush};
use crate::select::supervision::Supervisor;
use crate::select::{Frame, LinkState, Links, Policy, Select, Selector, Settings};
use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::vec::Vec;

/// Flows on the move may hold this part of the memory for packets that wait.
const HELD: usize = 4;

/// What hosts take for a packet varies, and echoes are too few and too small to show it. Without this, packets timed to
/// arrive one right behind the other over two channels come in any order: an eighth of a full packet's transmission, but
/// no more than this.
const MOST_UNSEEN: Span = Span::from_micros(100);

fn unseen_jitter(channel: &Channel) -> Span {
    let eighth = Bytes::from(channel.config.mtu / 8);
    channel.rate.map_or(MOST_UNSEEN, |rate| rate.transmit_time(eighth).min(MOST_UNSEEN))
}

/// The policy and its queues.
#[derive(Debug)]
pub(super) struct Policed<P> {
    settings: Settings,
    seed: u64,
    pub(super) selector: Selector,
    supervisor: Supervisor,
    pub(super) links: Links,
    looks: bool,
    pub(super) lines: Lines<P>,
    /// Where flows move only when nothing of theirs is under way.
    pub(super) flush: Option<Flushed<P>>,
}

/// What holds flows on the move, and which bucket each packet's flow is in.
#[derive(Debug)]
pub(super) struct Flushed<P> {
    pub(super) flush: Flush<Waiting<P>>,
    pub(super) hash: Buckets,
}

impl<P: Packet> Policed<P> {
    /// The policy that `config` says.
    ///
    /// # Errors
    /// A policy that cannot work.
    pub(super) fn new(config: &Config, seed: u64) -> Result<Policed<P>, ConfigError> {
        let names: Vec<&str> = config.channels.iter().map(|c| c.name.as_str()).collect();
        let settings = resolved(&config.policy, &names);
        let mut rng = Rng::new(seed);
        let flush = settings.flush.map(|settings| Flushed {
            flush: Flush::new(settings, config.queue_bytes / HELD, rng.next_u64() as u32),
            hash: Buckets::new(rng.next_u64(), flush::BUCKETS),
        });
        let links = Links::default();
        Ok(Policed {
            selector: Selector::new(&settings, &links, seed)?,
            supervisor: Supervisor::new(settings.supervision),
            links,
            looks: settings.policy.looks_at_queues(),
            lines: Lines::new(),
            flush,
            settings,
            seed,
        })
    }

    /// Channels joined, left, came up, went down or have other rates; the largest frame has `largest` bytes, of which `head`
    /// gives the envelope's on a channel that is raw or not.
    pub(super) fn refresh(
        &mut self,
        now: Time,
        config: &Config,
        channels: &Channels,
        largest: usize,
        head: impl Fn(bool) -> usize,
    ) {
        while self.lines.len() < channels.len() {
            self.lines.add(ChannelQueue::fifo(config.buffer, self.lines.len() as u64));
        }
        let reference = channels.reference();
        for (channel, c) in channels.iter() {
            if let Some(line) = self.lines.get_mut(channel) {
                let at_rate = |rate: Rate| rate.bytes_in(config.queue_time).as_u64() as usize;
                line.limit = c.rate.map_or(UNPACED, |rate| at_rate(rate).max(LEAST_QUEUE * largest));
                line.extra = c.wire(head(c.config.raw));
            }
            self.links.set(channel, state(c, channels.joined & bit(channel) != 0, reference));
        }
        self.resolve(&config.policy, channels);
        self.selector.on_links(now, &self.links);
        if let Some(f) = &mut self.flush {
            f.flush.on_links(now, self.links.usable());
        }
    }

    /// What is known of channels' delays has changed.
    pub(super) fn refresh_delays(&mut self, channels: &Channels) {
        let reference = channels.reference();
        for (channel, c) in channels.iter() {
            if let Some(old) = self.links.get(channel) {
                let state = LinkState { backlog: old.backlog, free: old.free, ..state(c, old.member, reference) };
                self.links.set(channel, state);
            }
        }
    }

    /// Begins anew where the policy names a channel that was not known before.
    fn resolve(&mut self, policy: &Settings, channels: &Channels) {
        let names: Vec<&str> = channels.iter().map(|(_, c)| c.config.name.as_str()).collect();
        let settings = resolved(policy, &names);
        if settings != self.settings
            && let Ok(selector) = Selector::new(&settings, &self.links, self.seed)
        {
            (self.settings, self.selector) = (settings, selector);
        }
    }

    /// The channels to be used, given which are well.
    pub(super) fn supervise(&mut self, now: Time, joined: u64, well: u64) -> u64 {
        self.supervisor.observe(now, LinkSet::from_bits(joined), LinkSet::from_bits(well)).bits()
    }

    /// When the supervision of links has something to do.
    pub(super) fn supervision_due(&self) -> Option<Time> {
        self.supervisor.poll_timeout()
    }

    /// Memory that packets take.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.lines.memory() + self.flush.as_ref().map_or(0, |f| f.flush.bytes())
    }

    /// When the bond's timer has something to do.
    pub(super) fn timeout(&self, channels: &Channels) -> Option<Time> {
        let flush = self.flush.as_ref().and_then(|f| {
            let open = self.links.usable().iter().filter(|c| is_open(channels, *c));
            f.flush.poll_timeout(open.fold(LinkSet::EMPTY, LinkSet::with))
        });
        self.selector.poll_timeout().into_iter().chain(self.supervisor.poll_timeout()).chain(flush).min()
    }

    /// Brings what is known of queues up to date.
    #[inline]
    pub(super) fn look(&mut self, now: Time, channels: &Channels) {
        if !self.looks {
            return;
        }
        for channel in self.links.usable().iter() {
            let (Some(c), Some(line)) = (channels.get(channel), self.lines.get(channel)) else {
                continue;
            };
            let queued = line.queue.bytes() + line.queue.len() * line.extra;
            let (backlog, free) = match (&c.pacer, c.rate) {
                (Some(pacer), Some(rate)) => {
                    let ahead = pacer.free().since(now);
                    let sent = if ahead == Span::ZERO { Bytes::ZERO } else { rate.bytes_in(ahead) };
                    let free = if queued == 0 { pacer.free() } else { now.max(pacer.free()) + pacer.time_for(queued) };
                    (Bytes::from(queued) + sent, free.max(line.until))
                }
                // A socket that takes nothing has something to send.
                _ if c.path.signs.blocked.is_some() => (Bytes::from(queued + c.config.mtu), now),
                _ if queued > 0 => (Bytes::from(queued), now),
                _ => (Bytes::ZERO, Time::ZERO),
            };
            self.links.set_backlog(channel, backlog, free);
        }
    }

    /// The links for a packet, and when it may begin to leave.
    #[inline]
    pub(super) fn select(&mut self, now: Time, frame: &Frame<'_>) -> (LinkSet, Time) {
        match self.flush {
            None => self.selector.select_held(now, frame, &self.links),
            // A conversation that moves waits for its marker instead.
            Some(_) => (self.selector.select(now, frame, &self.links), Time::ZERO),
        }
    }

    /// Notes when a packet for `channel` may begin to leave, and what that means for those behind it.
    #[inline]
    pub(super) fn plan(
        &mut self,
        now: Time,
        channel: ChannelId,
        not_before: Time,
        channels: &Channels,
        mut queued: Waiting<P>,
    ) -> Waiting<P> {
        queued.note.not_before = Time::ZERO;
        if let (Some(line), Some(pacer)) =
            (self.lines.get_mut(channel), channels.get(channel).and_then(|c| c.pacer.as_ref()))
            && (not_before > now || line.until > now)
        {
            let free = self.links.get(channel).map_or(now, |state| state.free);
            let size = queued.packet.size().as_u64() as usize + line.extra;
            line.until = line.until.max(free).max(not_before) + pacer.time_for(size);
            queued.note.not_before = not_before;
        }
        queued
    }
}

/// What the selector may know of `channel`.
fn state(channel: &Channel, member: bool, reference: Option<Reference>) -> LinkState {
    LinkState {
        member,
        usable: channel.usable,
        rate: channel.rate,
        weight: channel.config.weight,
        priority: channel.config.priority,
        delay: channel.path.delay.delay(reference),
        jitter: channel.path.delay.jitter().max(unseen_jitter(channel)),
        ..LinkState::default()
    }
}

/// `policy` with numbers for the channels that it names; for one that is not known, none.
fn resolved(policy: &Settings, names: &[&str]) -> Settings {
    let mut settings = policy.clone();
    if settings.resolve(names).is_err() {
        let links = |(_, field): &(_, &dyn Field)| matches!(field.value(), Value::Link(_));
        let named: Vec<_> = settings.fields().into_iter().filter(links).map(|(spec, _)| spec.name).collect();
        for option in named {
            // Every option of this kind takes "none".
            let _ = settings.set(option, "none");
        }
    }
    settings
}

/// Whether frames can go on `channel` now, as far as the link is concerned.
pub(super) fn is_open(channels: &Channels, channel: ChannelId) -> bool {
    channels.get(channel).is_some_and(|c| c.is_up() && c.path.signs.blocked.is_none())
}

impl Config {
    /// Checks the policy of mode `flow`.
    ///
    /// # Errors
    /// A policy that cannot work in a bond towards a peer, or that names a channel that is not there.
    pub(super) fn check_policy(&self) -> Result<(), ConfigError> {
        if Preset::of(self).distribute != Distribution::Policy {
            return Ok(());
        }
        if matches!(self.policy.policy, Policy::BalanceAlb(_)) {
            return Err(ConfigError::Unsupported {
                mode: self.mode,
                with: "policy balance-alb, which needs Ethernet links to tell neighbours addresses on",
                instead: "use balance-tlb, or a bond of Ethernet links",
            });
        }
        if self.discipline != DisciplineConfig::Fifo {
            return Err(ConfigError::Unsupported {
                mode: self.mode,
                with: "a discipline but fifo, since each channel has a queue of its own",
                instead: "leave the discipline out, or use another mode",
            });
        }
        if self.buffer.evicts() {
            return Err(ConfigError::Unsupported {
                mode: self.mode,
                with: "a buffer policy that evicts",
                instead: "use one that drops nothing that waits, such as codel",
            });
        }
        self.policy.check()?;
        if !self.channels.is_empty() {
            let names: Vec<&str> = self.channels.iter().map(|c| c.name.as_str()).collect();
            self.policy.clone().resolve(&names)?;
        }
        let interval = self.policy.supervision.arp_interval;
        if interval > Span::ZERO && interval < Span::from_millis(1) {
            let (value, least, most) = (interval.as_nanos(), 1_000_000, 60_000_000_000);
            return Err(ConfigError::Range { setting: "arp_interval", value, least, most });
        }
        Ok(())
    }

    /// Puts the policy's `arp_interval` in the place of the intervals of heartbeats.
    pub(super) fn supervise(&mut self) {
        if Preset::of(self).protect != Protection::Resend {
            // Where nothing is sent again, a gap that is given up too soon costs a packet.
            self.silent_after = Span::ZERO;
        }
        let supervision = self.policy.supervision;
        if Preset::of(self).distribute == Distribution::Policy
            && let Some(silence) = supervision.silence()
        {
            (self.heartbeat, self.heartbeat_idle) = (supervision.arp_interval, supervision.arp_interval);
            (self.dead_after, self.dead_after_idle) = (silence, silence);
        }
    }
}
