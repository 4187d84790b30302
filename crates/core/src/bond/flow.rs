//! Mode `flow`: a selector chooses the channel of each packet as it comes from the host, and each channel has a queue.
//!
//! What it is: what a Linux bond does between the IP layer and its links' transmit queues. The packet's bytes, and what
//! is known of the channels ([`Links`]), go to the configured [`Selector`]; the packet then waits in its channel's own
//! FIFO until that channel may send. On the wire it has 2 bytes of envelope, none where the channel is
//! [`raw`](super::ChannelConfig::raw), and the receiver delivers it as it comes.
//!
//! Two policies need more. `traffic_meter` puts packets in order at the receiver: they are numbered when they are given
//! to their channel, and go in envelopes of mode `ordered`. `broadcast` gives each packet to all channels; Linux
//! delivers every copy, but to a host behind a TUN interface a second copy is harm only (TCP takes it for a sign of
//! loss or reordering), so copies carry a number, as in mode `duplicate`, and the first one is delivered.
//!
//! | what a selector is told | what it is here |
//! |---|---|
//! | usable | the link is up, the peer is heard and hears us, the socket takes frames; delayed as [`supervision`] says |
//! | rate, weight, priority | the channel's settings, or the rate reported since |
//! | backlog, free | the channel's queue, and what its pacer is ahead; without a rate nothing is known of what waits beyond the socket, and `free` is now while it takes nothing |
//! | delay, jitter | the smallest transit lately, own queue left out, and how much more it was (`path.rs`), but an eighth of a packet's time at least |
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

use super::channel::{Channel, bit, each, head_len};
use super::config::{Config, ConfigError, Mode};
use super::event::FlowStats;
use super::host::BACK_PRESSURE;
use super::links::LEAST_QUEUE;
use super::path::Reference;
use super::queue::{self, HostQueue, Queued};
use super::receive::Opened;
use super::{Bond, Codepoint, Reason, Transmit};
use crate::flow::hash::FlowHash;
use crate::ip::{Header, Version, ecn};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::select::flush::{self, Flush, Place};
use crate::select::options::Value;
use crate::select::supervision::Supervisor;
use crate::select::{Frame, Layer, LinkState, Links, Policy, Select, Selector, Settings};
use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use crate::wire::envelope::{Echo, Envelope, Head, Message};
use alloc::vec::Vec;

/// Bytes that may wait for a channel without a rate.
const UNPACED: usize = 2 * BACK_PRESSURE;
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

/// The numbers that a packet was given; zeros where its envelope has none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    sequence: u32,
    bond: u32,
    /// It begins to leave then at the earliest.
    not_before: Time,
}

/// What stands before the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    /// Copies that the receiver tells from one another.
    Copies,
    /// Packets that the receiver puts in order.
    Ordered,
}

/// A channel's queue.
#[derive(Debug)]
struct Line<P> {
    queue: HostQueue<P, Numbers>,
    /// Bytes that it may hold.
    limit: usize,
    /// Wire bytes that a packet has on top of its own.
    extra: usize,
    /// When all that it holds will have left, as far as packets that wait for their instant tell.
    until: Time,
}

/// The sender of mode `flow`.
#[derive(Debug)]
pub(super) struct Flow<P> {
    settings: Settings,
    seed: u64,
    selector: Selector,
    supervisor: Supervisor,
    links: Links,
    form: Form,
    looks: bool,
    lines: Vec<Line<P>>,
    /// The channels for which packets wait.
    waiting: u64,
    memory: usize,
    /// The channel that sent last.
    last: ChannelId,
    /// Where flows move only when nothing of theirs is under way.
    flush: Option<Flushed<P>>,
}

/// What holds flows on the move, and which bucket each packet's flow is in.
#[derive(Debug)]
struct Flushed<P> {
    flush: Flush<Queued<P, Numbers>>,
    hash: FlowHash,
}

impl<P: Packet> Flow<P> {
    fn new(config: &Config, seed: u64) -> Result<Flow<P>, ConfigError> {
        let names: Vec<&str> = config.channels.iter().map(|c| c.name.as_str()).collect();
        let settings = resolved(&config.policy, &names);
        let mut rng = Rng::new(seed);
        let flush = settings.flush.map(|settings| Flushed {
            flush: Flush::new(settings, config.queue_bytes / HELD, rng.next_u64() as u32),
            hash: FlowHash::new(rng.next_u64(), flush::BUCKETS),
        });
        let links = Links::default();
        Ok(Flow {
            selector: Selector::new(&settings, &links, seed)?,
            supervisor: Supervisor::new(settings.supervision),
            links,
            form: match settings.policy {
                Policy::Broadcast => Form::Copies,
                Policy::TrafficMeter(_) => Form::Ordered,
                _ => Form::Plain,
            },
            looks: settings.policy.looks_at_queues(),
            lines: Vec::new(),
            waiting: 0,
            memory: 0,
            last: ChannelId(0),
            flush,
            settings,
            seed,
        })
    }

    /// Channels joined: begins anew where the policy names one that was not known before.
    fn resolve(&mut self, policy: &Settings, channels: &[Channel]) {
        let names: Vec<&str> = channels.iter().map(|c| c.config.name.as_str()).collect();
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

    /// Whether packets carry numbers by which the receiver orders them.
    pub(super) fn orders(&self) -> bool {
        self.form == Form::Ordered
    }

    /// Whether no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Memory that packets take.
    fn memory(&self) -> usize {
        self.memory + self.flush.as_ref().map_or(0, |f| f.flush.bytes())
    }

    /// The number of the first packet that waits for `channel`, where packets are numbered.
    pub(super) fn first_number(&self, channel: ChannelId) -> Option<u32> {
        let first = self.lines.get(channel.index())?.queue.first()?;
        (self.form == Form::Ordered).then_some(first.note.bond)
    }

    /// When a channel for which packets wait may send.
    pub(super) fn ready_at(&self, channels: &[Channel]) -> Option<Time> {
        let ready = |channel: ChannelId| {
            let ready = channels.get(channel.index()).filter(|c| c.is_up())?.ready_at()?;
            Some(ready.max(self.not_before(channel)))
        };
        each(self.waiting).filter_map(ready).min()
    }

    /// When the first packet that waits for `channel` may leave, as the selector says.
    #[inline]
    fn not_before(&self, channel: ChannelId) -> Time {
        let first = self.lines.get(channel.index()).and_then(|line| line.queue.first());
        first.map_or(Time::ZERO, |first| first.note.not_before)
    }

    /// When [`Bond::on_flow_timeout`] has something to do.
    pub(super) fn timeout(&self, channels: &[Channel]) -> Option<Time> {
        let flush = self.flush.as_ref().and_then(|f| {
            let open = self.links.usable().iter().filter(|c| is_open(channels, *c));
            f.flush.poll_timeout(open.fold(LinkSet::EMPTY, LinkSet::with))
        });
        self.selector.poll_timeout().into_iter().chain(self.supervisor.poll_timeout()).chain(flush).min()
    }

    /// What the selector may know of `channel`.
    fn state(&self, channel: &Channel, member: bool, reference: Option<Reference>) -> LinkState {
        LinkState {
            member,
            usable: channel.usable,
            rate: channel.rate,
            weight: channel.config.weight,
            priority: channel.config.priority,
            delay: channel.path.delay(reference),
            jitter: channel.path.jitter().max(unseen_jitter(channel)),
            ..LinkState::default()
        }
    }

    /// Brings what is known of queues up to date.
    #[inline]
    fn look(&mut self, now: Time, channels: &[Channel]) {
        if !self.looks {
            return;
        }
        for channel in self.links.usable().iter() {
            let (Some(c), Some(line)) = (channels.get(channel.index()), self.lines.get(channel.index())) else {
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
                _ if c.blocked.is_some() => (Bytes::from(queued + c.config.mtu), now),
                _ if queued > 0 => (Bytes::from(queued), now),
                _ => (Bytes::ZERO, Time::ZERO),
            };
            self.links.set_backlog(channel, backlog, free);
        }
    }

    /// The links for a packet, and when it may begin to leave.
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>) -> (LinkSet, Time) {
        match self.flush {
            None => self.selector.select_held(now, frame, &self.links),
            // A conversation that moves waits for its marker instead.
            Some(_) => (self.selector.select(now, frame, &self.links), Time::ZERO),
        }
    }

    /// Notes when a packet for `channel` may begin to leave, and what that means for those behind it.
    #[inline]
    fn plan(
        &mut self,
        now: Time,
        channel: ChannelId,
        not_before: Time,
        channels: &[Channel],
        mut queued: Queued<P, Numbers>,
    ) -> Queued<P, Numbers> {
        let n = channel.index();
        queued.note.not_before = Time::ZERO;
        if let (Some(line), Some(pacer)) = (self.lines.get_mut(n), channels.get(n).and_then(|c| c.pacer.as_ref()))
            && (not_before > now || line.until > now)
        {
            let free = self.links.get(channel).map_or(now, |state| state.free);
            let size = queued.packet.size().as_u64() as usize + line.extra;
            line.until = line.until.max(free).max(not_before) + pacer.time_for(size);
            queued.note.not_before = not_before;
        }
        queued
    }

    /// Whether `channel` has room for a packet of `size` bytes.
    #[inline]
    fn has_room(&self, channel: ChannelId, size: usize) -> bool {
        self.lines.get(channel.index()).is_some_and(|line| line.queue.bytes() + size <= line.limit)
    }

    #[inline]
    fn push(&mut self, channel: ChannelId, queued: Queued<P, Numbers>) {
        let Some(line) = self.lines.get_mut(channel.index()) else { return };
        self.memory += queue::cost::<P, Numbers>(&queued.packet);
        line.queue.push(queued);
        self.waiting |= bit(channel);
    }
}

/// `policy` with numbers for the channels that it names; for one that is not known, none.
fn resolved(policy: &Settings, names: &[&str]) -> Settings {
    let mut settings = policy.clone();
    if settings.resolve(names).is_err() {
        let named: Vec<_> = settings.options().filter(|o| matches!(o.get(&settings), Some(Value::Link(_)))).collect();
        for option in named {
            // Every option of this kind takes "none".
            let _ = settings.set(option.name, "none");
        }
    }
    settings
}

/// Whether frames can go on `channel` now, as far as the link is concerned.
fn is_open(channels: &[Channel], channel: ChannelId) -> bool {
    channels.get(channel.index()).is_some_and(|c| c.is_up() && c.blocked.is_none())
}

impl<P: Packet> Bond<P> {
    /// Makes the selector, in mode `flow`.
    pub(super) fn begin_flow(&mut self) -> Result<(), ConfigError> {
        if self.config.mode == Mode::Flow {
            let seed = self.rng.next_u64();
            self.flow = Some(alloc::boxed::Box::new(Flow::new(&self.config, seed)?));
        }
        Ok(())
    }

    /// Memory that packets in the channels' queues take.
    pub(super) fn flow_memory(&self) -> usize {
        self.flow.as_ref().map_or(0, |flow| flow.memory())
    }

    /// Packets that wait for `channel` in mode `flow`, and their bytes.
    pub fn channel_queue(&self, channel: ChannelId) -> (usize, Bytes) {
        let line = self.flow.as_ref().and_then(|flow| flow.lines.get(channel.index()));
        line.map_or((0, Bytes::ZERO), |line| (line.queue.len(), Bytes::from(line.queue.bytes())))
    }

    /// What the policy did; `None` in other modes.
    pub fn flow_stats(&self) -> Option<FlowStats> {
        let flow = self.flow.as_ref()?;
        let (policy, flush) = (flow.selector.stats(), flow.flush.as_ref().map(|f| *f.flush.counters()));
        let flush = flush.unwrap_or_default();
        Some(FlowStats {
            flows: policy.flows,
            bursts: policy.bursts,
            moves: policy.moves,
            evicted: policy.evicted,
            flush_moved: flush.moved,
            flush_stayed: flush.stayed,
            flush_held: flush.held,
            flush_markers: flush.markers,
        })
    }

    pub(super) fn flow_wants_host(&self) -> bool {
        let Some(flow) = &self.flow else { return true };
        let full = |channel: ChannelId| {
            self.channels[channel.index()].rate.is_none()
                && flow.lines.get(channel.index()).is_some_and(|line| line.queue.bytes() >= BACK_PRESSURE)
        };
        flow.memory() < self.config.queue_bytes && !each(self.usable).all(full)
    }

    /// Channels joined, left, came up, went down (`went`) or have other rates; the largest frame has `largest` bytes.
    pub(super) fn refresh_flow(&mut self, now: Time, largest: usize, went: u64) {
        let Some(flow) = &mut self.flow else { return };
        while flow.lines.len() < self.channels.len() {
            flow.lines.push(Line { queue: HostQueue::new(self.config.aqm), limit: 0, extra: 0, until: Time::ZERO });
        }
        let reference = Reference::of(self.channels.iter().map(|c| &c.path));
        for (n, c) in self.channels.iter().enumerate() {
            let (channel, line) = (ChannelId(n as u8), &mut flow.lines[n]);
            let at_rate = |rate: Rate| rate.bytes_in(self.config.queue_time).as_u64() as usize;
            line.limit = c.rate.map_or(UNPACED, |rate| at_rate(rate).max(LEAST_QUEUE * largest));
            line.extra = c.wire(head_len(&self.config, c.config.raw));
            let state = flow.state(c, self.joined & bit(channel) != 0, reference);
            flow.links.set(channel, state);
        }
        flow.resolve(&self.config.policy, &self.channels);
        flow.selector.on_links(now, &flow.links);
        if let Some(f) = &mut flow.flush {
            f.flush.on_links(now, flow.links.usable());
        }
        for channel in each(went) {
            self.requeue(now, channel);
        }
        while let Some(f) = self.flow.as_mut().and_then(|flow| flow.flush.as_mut())
            && let Some(queued) = f.flush.poll_again()
        {
            self.put_back(now, queued);
        }
        while self.usable != 0
            && let Some(Queued { packet, bucket, tos, six, since, .. }) = self.queue.take()
        {
            self.assign(now, Queued { packet, bucket, tos, six, since, note: Numbers::default() });
        }
    }

    /// What is known of channels' delays has changed.
    pub(super) fn refresh_flow_delays(&mut self) {
        let Some(flow) = &mut self.flow else { return };
        let reference = Reference::of(self.channels.iter().map(|c| &c.path));
        for (n, c) in self.channels.iter().enumerate() {
            let channel = ChannelId(n as u8);
            if let Some(old) = flow.links.get(channel) {
                let state = LinkState { backlog: old.backlog, free: old.free, ..flow.state(c, old.member, reference) };
                flow.links.set(channel, state);
            }
        }
    }

    /// The packets that wait for `channel`, which failed, go to others.
    fn requeue(&mut self, now: Time, channel: ChannelId) {
        let Some(flow) = &mut self.flow else { return };
        let Some(line) = flow.lines.get_mut(channel.index()) else { return };
        let mut left = core::mem::replace(&mut line.queue, HostQueue::new(self.config.aqm));
        flow.waiting &= !bit(channel);
        flow.memory -= left.memory();
        if let Some(f) = &mut flow.flush {
            f.flush.on_left(channel, left.len() as u64);
        }
        let copies = flow.form == Form::Copies;
        while let Some(queued) = left.take() {
            if copies {
                self.stats.copies_skipped += 1;
            } else {
                self.stats.requeued += u64::from(self.usable != 0);
                self.put_back(now, queued);
            }
        }
    }

    /// A packet whose channel is no more: the policy chooses again, now or when a channel comes up.
    fn put_back(&mut self, now: Time, queued: Queued<P, Numbers>) {
        if self.usable == 0 && queued.note.bond == 0 {
            let Queued { packet, bucket, tos, six, since, .. } = queued;
            self.queue.push(Queued { packet, bucket, tos, six, since, note: () });
        } else {
            self.assign(now, queued);
        }
    }

    /// A packet from the host.
    #[inline]
    pub(super) fn enqueue_flow(&mut self, now: Time, header: &Header, packet: P) {
        let bucket = match self.flow.as_ref() {
            Some(flow) if flow.form == Form::Ordered => self.hash.bucket(header, packet.bytes()),
            Some(flow) => flow.flush.as_ref().map_or(0, |f| f.hash.bucket(header, packet.bytes())),
            None => 0,
        };
        let six = header.version == Version::V6;
        self.assign(now, Queued { packet, bucket, tos: header.tos, six, since: now, note: Numbers::default() });
    }

    /// Gives a packet to the channels that the policy chooses.
    #[inline]
    fn assign(&mut self, now: Time, queued: Queued<P, Numbers>) {
        let Some(flow) = &mut self.flow else { return };
        flow.look(now, &self.channels);
        let size = queued.packet.size().as_u64() as usize;
        let frame = Frame { bytes: queued.packet.bytes(), len: size, layer: Layer::Ip };
        let (set, not_before) = flow.select(now, &frame);
        let set = set.bits() & self.usable;
        let Some(channel) = LinkSet::from_bits(set).first() else {
            self.stats.no_channel += 1;
            return;
        };
        let cost = queue::cost::<P, Numbers>(&queued.packet);
        if flow.form == Form::Copies {
            return self.assign_copies(set, cost, queued);
        }
        if self.queue.memory() + flow.memory() + cost > self.config.queue_bytes {
            self.stats.queue_full += 1;
            return;
        }
        if flow.form == Form::Ordered {
            return self.assign_number(channel, queued);
        }
        let Some(f) = &mut flow.flush else {
            if flow.has_room(channel, size) {
                let queued = flow.plan(now, channel, not_before, &self.channels, queued);
                flow.push(channel, queued);
            } else {
                self.stats.queue_full += 1;
            }
            return;
        };
        let bucket = queued.bucket;
        match f.flush.place(now, bucket, channel, cost, queued) {
            Place::Queue(channel, queued) => self.assign_flushed(channel, bucket, queued),
            Place::Held => self.release_flushed(),
            Place::Refused(_) => self.stats.queue_full += 1,
        }
    }

    /// Puts a packet into the queue of `channel`, where marker flushes are on.
    fn assign_flushed(&mut self, channel: ChannelId, bucket: u16, queued: Queued<P, Numbers>) {
        let Some(flow) = &mut self.flow else { return };
        if !flow.has_room(channel, queued.packet.size().as_u64() as usize) {
            self.stats.queue_full += 1;
            return;
        }
        flow.push(channel, queued);
        if let Some(f) = &mut flow.flush {
            f.flush.on_queued(bucket, channel);
        }
    }

    /// Packets that are held no longer go into their queues.
    fn release_flushed(&mut self) {
        while let Some(f) = self.flow.as_mut().and_then(|flow| flow.flush.as_mut())
            && let Some((channel, bucket, queued)) = f.flush.poll_release()
        {
            self.assign_flushed(channel, bucket, queued);
        }
    }

    /// The answer to an echo request: whether it was a marker's.
    pub(super) fn on_flow_echo(&mut self, now: Time, token: u32) -> bool {
        let Some(f) = self.flow.as_mut().and_then(|flow| flow.flush.as_mut()) else { return false };
        let found = f.flush.on_answer(now, token);
        self.release_flushed();
        found
    }

    /// Gives a copy of the packet to each channel of `set`, which is not empty.
    fn assign_copies(&mut self, set: u64, cost: usize, mut queued: Queued<P, Numbers>) {
        if queued.note.bond == 0 {
            queued.note.bond = self.number();
        }
        let Some(flow) = &mut self.flow else { return };
        let size = queued.packet.size().as_u64() as usize;
        let room = self.config.queue_bytes.saturating_sub(self.queue.memory());
        let mut given = false;
        // The last channel with room gets the packet itself.
        let mut last = None;
        for channel in each(set) {
            if !flow.has_room(channel, size) || flow.memory + cost * (1 + usize::from(last.is_some())) > room {
                self.stats.copies_skipped += u64::from(last.is_some() || given);
                continue;
            }
            if let Some(before) = last.replace(channel) {
                match queued.packet.duplicate() {
                    Some(packet) => {
                        let Queued { bucket, tos, six, since, note, .. } = queued;
                        flow.push(before, Queued { packet, bucket, tos, six, since, note });
                        given = true;
                    }
                    None => self.stats.copies_skipped += 1,
                }
            }
        }
        match last {
            Some(channel) => flow.push(channel, queued),
            None => self.stats.queue_full += 1,
        }
    }

    /// Numbers the packet, if it has no number yet, and puts it into the queue of `channel` at its place: packets of a
    /// channel that failed go before younger ones.
    fn assign_number(&mut self, channel: ChannelId, mut queued: Queued<P, Numbers>) {
        let size = queued.packet.size().as_u64() as usize;
        if self.flow.as_ref().is_none_or(|flow| !flow.has_room(channel, size)) {
            self.stats.queue_full += 1;
            return;
        }
        let first = queued.note.bond == 0;
        if first {
            let bond = self.number();
            let sequence = &mut self.sequence[usize::from(queued.bucket)];
            queued.note = Numbers { sequence: *sequence, bond, ..Numbers::default() };
            *sequence = sequence.wrapping_add(1);
        }
        let Some(flow) = &mut self.flow else { return };
        if first {
            return flow.push(channel, queued);
        }
        let Some(line) = flow.lines.get_mut(channel.index()) else { return };
        flow.memory += queue::cost::<P, Numbers>(&queued.packet);
        flow.waiting |= bit(channel);
        let bond = queued.note.bond;
        line.queue.insert(queued, |other| (other.note.bond.wrapping_sub(bond) as i32) < 0);
    }

    /// The next packet of a channel that may send, each channel in turn.
    pub(super) fn next_flow(&mut self, now: Time) -> Option<Transmit<P>> {
        let flow = self.flow.as_mut()?;
        if let Some(f) = &mut flow.flush
            && let Some(channel) = f.flush.due(now).iter().find(|c| is_open(&self.channels, *c))
            && let Some(token) = f.flush.mark(now, channel)
        {
            return Some(self.marker(now, channel, token));
        }
        let after = u64::MAX.checked_shl(u32::from(flow.last.0) + 1).unwrap_or(0);
        for channel in each(flow.waiting & after).chain(each(flow.waiting & !after)) {
            let c = &self.channels[channel.index()];
            if !c.is_up() || c.ready_at().is_none_or(|at| at > now) || flow.not_before(channel) > now {
                continue;
            }
            let line = flow.lines.get_mut(channel.index())?;
            let before = line.queue.memory();
            let (queued, actions) = line.queue.pop(now);
            flow.memory -= before - line.queue.memory();
            if line.queue.is_empty() {
                flow.waiting &= !bit(channel);
                line.until = Time::ZERO;
            }
            self.stats.codel_dropped += actions.dropped;
            self.stats.codel_marked += actions.marked;
            if let Some(f) = &mut flow.flush {
                f.flush.on_left(channel, actions.dropped + u64::from(queued.is_some()));
            }
            let Some(queued) = queued else { continue };
            flow.last = channel;
            let (form, idle) = (flow.form, flow.waiting == 0);
            let Numbers { sequence, bond, .. } = queued.note;
            let message = match form {
                Form::Plain => Message::Plain,
                Form::Copies => Message::Duplicate { bond },
                Form::Ordered => Message::Ordered { bucket: queued.bucket, sequence, bond },
            };
            let raw = form == Form::Plain && self.channels[channel.index()].config.raw;
            let (codepoint, head) = match raw {
                true => (Codepoint::Raw, Head::EMPTY),
                false => (Codepoint::Envelope, Envelope { tag: self.epoch as u8, message }.encode()),
            };
            self.on_data(now, channel, head.len() + queued.packet.size().as_u64() as usize);
            if form == Form::Ordered {
                self.channels[channel.index()].high = bond;
                if idle {
                    self.idle_marker = Some(now + self.config.idle_marker);
                }
            }
            let tos = ecn::entry(queued.tos, self.config.copy_dscp);
            return Some(Transmit { channel, codepoint, head, packet: Some(queued.packet), tos });
        }
        None
    }

    /// A marker, behind all that left on `channel` before.
    fn marker(&mut self, now: Time, channel: ChannelId, token: u32) -> Transmit<P> {
        let message = Message::EchoRequest(Echo { channel, token, clock: now.as_nanos() });
        let head = Envelope { tag: self.epoch as u8, message }.encode();
        let c = &mut self.channels[channel.index()];
        c.on_sent(now, head.len());
        c.stats.sent_control += 1;
        Transmit { channel, codepoint: Codepoint::Envelope, head, packet: None, tos: 0 }
    }

    /// A data frame that is the packet itself.
    pub(super) fn on_raw_packet(&mut self, now: Time, channel: ChannelId, frame: P, tos: u8) {
        if let Some(Opened(packet)) = self.open_packet(now, channel, 0, frame, tos, None) {
            self.ordered.push(packet);
        }
    }

    /// Does what is due in mode `flow`.
    pub(super) fn on_flow_timeout(&mut self, now: Time) {
        let Some(flow) = &mut self.flow else { return };
        if flow.selector.poll_timeout().is_some_and(|at| at <= now) {
            flow.look(now, &self.channels);
            flow.selector.handle_timeout(now, &flow.links);
        }
        if let Some(f) = &mut flow.flush {
            f.flush.handle_timeout(now);
        }
        if flow.supervisor.poll_timeout().is_some_and(|at| at <= now) {
            self.refresh(now, Reason::Link);
        }
        self.release_flushed();
    }
}

impl Config {
    /// Checks the policy of mode `flow`.
    ///
    /// # Errors
    /// A policy that cannot work in a bond towards a peer, or that names a channel that is not there.
    pub(super) fn check_policy(&self) -> Result<(), ConfigError> {
        if self.mode != Mode::Flow {
            return Ok(());
        }
        if matches!(self.policy.policy, Policy::BalanceAlb(_)) {
            return Err(ConfigError::Unsupported {
                mode: self.mode,
                with: "policy balance-alb, which needs Ethernet links to tell neighbours addresses on",
                instead: "use balance-tlb, or a bond of Ethernet links",
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
        let supervision = self.policy.supervision;
        if self.mode == Mode::Flow
            && let Some(silence) = supervision.silence()
        {
            (self.heartbeat, self.heartbeat_idle) = (supervision.arp_interval, supervision.arp_interval);
            (self.dead_after, self.dead_after_idle) = (silence, silence);
        }
    }
}
