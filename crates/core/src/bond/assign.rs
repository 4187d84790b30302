//! From the host to the channels where a policy chooses: each packet into the queue of its channel, and out of it.
//!
//! Bounds: each queue holds [`Config::queue_time`] at the channel's rate, but at least 32 of the largest packets; without
//! a rate 512 kB; all together [`Config::queue_bytes`] of memory. The host is asked to wait only when every usable
//! channel is without a rate and has 256 kB waiting: one full channel does not stop the others. Packets of a channel that
//! fails go through the policy again, in front of younger ones where they are numbered.
//!
//! [`Config::queue_time`]: super::Config::queue_time
//! [`Config::queue_bytes`]: super::Config::queue_bytes

use super::channel::each;
use super::event::{FlowStats, Reason};
use super::keep::About;
use super::lines::{BACK_PRESSURE, Note, Waiting};
use super::number::Numbers;
use super::policy::is_open;
use super::queue::{self, ChannelQueue, Queued};
use super::{Bond, Transmit};
use crate::ip::Header;
use crate::packet::Packet;
use crate::select::flush::Place;
use crate::select::{Frame, Layer, Select};
use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Time};
use crate::wire::envelope::{Echo, Message};

impl<P: Packet> Bond<P> {
    /// Packets that wait for `channel` where a policy chooses, and their bytes.
    pub fn channel_queue(&self, channel: ChannelId) -> (usize, Bytes) {
        self.distribute.policy().map_or((0, Bytes::ZERO), |policed| policed.lines.queued(channel))
    }

    /// What the policy did; `None` where none chooses.
    pub fn flow_stats(&self) -> Option<FlowStats> {
        let policed = self.distribute.policy()?;
        let (policy, flush) = (policed.selector.stats(), policed.flush.as_ref().map(|f| *f.flush.counters()));
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

    /// Whether a policy has usable channels to choose from; the host queue holds what comes before.
    #[inline]
    pub(super) fn assigns(&self) -> bool {
        self.channels.usable != 0 && self.distribute.policy().is_some()
    }

    /// Whether the channels' queues have room for more from the host.
    pub(super) fn lines_want_host(&self) -> bool {
        let Some(policed) = self.distribute.policy() else { return true };
        let full = |channel: ChannelId| {
            self.channels[channel].rate.is_none()
                && policed.lines.get(channel).is_some_and(|line| line.queue.bytes() >= BACK_PRESSURE)
        };
        policed.memory() < self.config.queue_bytes && !each(self.channels.usable).all(full)
    }

    /// Channels joined, left, came up, went down (`went`) or have other rates; the largest frame has `largest` bytes.
    pub(super) fn refresh_policy(&mut self, now: Time, largest: usize, went: u64) {
        let Some(policed) = self.distribute.policy_mut() else { return };
        let number = &self.number;
        policed.refresh(now, &self.config, &self.channels, largest, |raw| number.head_len(raw));
        for channel in each(went) {
            self.requeue(now, channel);
        }
        while let Some(f) = self.distribute.policy_mut().and_then(|policed| policed.flush.as_mut())
            && let Some(queued) = f.flush.poll_again()
        {
            self.put_back(now, queued);
        }
        while self.channels.usable != 0
            && let Some(queued) = self.ingress.queue.take(now)
        {
            self.assign(now, queued.noted(Note::default()));
        }
    }

    /// The packets that wait for `channel`, which failed, go to others.
    fn requeue(&mut self, now: Time, channel: ChannelId) {
        let Some(policed) = self.distribute.policy_mut() else { return };
        let fresh = ChannelQueue::fifo(self.config.buffer, channel.index() as u64);
        let Some(mut left) = policed.lines.replace(channel, fresh) else { return };
        if let Some(f) = &mut policed.flush {
            f.flush.on_left(channel, left.len() as u64);
        }
        while let Some(queued) = left.take(now) {
            if self.protect.makes_copies() {
                self.stats.copies_skipped += 1;
            } else {
                self.stats.requeued += u64::from(self.channels.usable != 0);
                self.put_back(now, queued);
            }
        }
    }

    /// A packet whose channel is no more: the policy chooses again, now or when a channel comes up.
    fn put_back(&mut self, now: Time, queued: Waiting<P>) {
        if self.channels.usable == 0 && queued.note.numbers.bond == 0 {
            self.ingress.queue.push(queued.noted(()));
        } else {
            self.assign(now, queued);
        }
    }

    /// The flow bucket of a packet: as its number is counted, or as marker flushes hold flows.
    #[inline]
    pub(super) fn bucket(&self, header: &Header, bytes: &[u8]) -> u16 {
        match self.distribute.policy().and_then(|policed| policed.flush.as_ref()) {
            Some(f) if !self.number.orders_flows() => f.hash.bucket(header, bytes),
            _ => self.number.bucket(header, bytes),
        }
    }

    /// Gives a packet to the channels that the policy chooses.
    #[inline]
    pub(super) fn assign(&mut self, now: Time, queued: Waiting<P>) {
        let Some(policed) = self.distribute.policy_mut() else { return };
        policed.look(now, &self.channels);
        let size = queued.packet.size().as_u64() as usize;
        let frame = Frame { bytes: queued.packet.bytes(), len: size, layer: Layer::Ip };
        let (set, not_before) = policed.select(now, &frame);
        let set = set.bits() & self.channels.usable;
        let Some(channel) = LinkSet::from_bits(set).first() else {
            self.stats.no_channel += 1;
            return;
        };
        let cost = queue::cost::<P, Note>(&queued.packet);
        if self.protect.makes_copies() {
            return self.assign_copies(set, cost, queued);
        }
        if self.ingress.queue.memory() + policed.memory() + cost > self.config.queue_bytes {
            self.stats.queue_full += 1;
            return;
        }
        if self.number.orders_flows() {
            return self.assign_number(channel, queued);
        }
        let Some(f) = &mut policed.flush else {
            if policed.lines.has_room(channel, size) {
                let queued = policed.plan(now, channel, not_before, &self.channels, queued);
                policed.lines.push(channel, queued);
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
    fn assign_flushed(&mut self, channel: ChannelId, bucket: u16, queued: Waiting<P>) {
        let Some(policed) = self.distribute.policy_mut() else { return };
        if !policed.lines.has_room(channel, queued.packet.size().as_u64() as usize) {
            self.stats.queue_full += 1;
            return;
        }
        policed.lines.push(channel, queued);
        if let Some(f) = &mut policed.flush {
            f.flush.on_queued(bucket, channel);
        }
    }

    /// Packets that are held no longer go into their queues.
    fn release_flushed(&mut self) {
        while let Some(f) = self.distribute.policy_mut().and_then(|policed| policed.flush.as_mut())
            && let Some((channel, bucket, queued)) = f.flush.poll_release()
        {
            self.assign_flushed(channel, bucket, queued);
        }
    }

    /// The answer to an echo request: whether it was a marker's.
    pub(super) fn on_flush_echo(&mut self, now: Time, token: u32) -> bool {
        let Some(f) = self.distribute.policy_mut().and_then(|policed| policed.flush.as_mut()) else { return false };
        let found = f.flush.on_answer(now, token);
        self.release_flushed();
        found
    }

    /// Gives a copy of the packet to each channel of `set`, which is not empty.
    fn assign_copies(&mut self, set: u64, cost: usize, mut queued: Waiting<P>) {
        if queued.note.numbers == Numbers::default() {
            queued.note.numbers = self.number.assign(queued.bucket);
        }
        let Some(policed) = self.distribute.policy_mut() else { return };
        let lines = &mut policed.lines;
        let size = queued.packet.size().as_u64() as usize;
        let room = self.config.queue_bytes.saturating_sub(self.ingress.queue.memory());
        let mut given = false;
        // The last channel with room gets the packet itself.
        let mut last = None;
        for channel in each(set) {
            if !lines.has_room(channel, size) || lines.memory() + cost * (1 + usize::from(last.is_some())) > room {
                self.stats.copies_skipped += u64::from(last.is_some() || given);
                continue;
            }
            if let Some(before) = last.replace(channel) {
                match queued.packet.duplicate() {
                    Some(packet) => {
                        let Queued { bucket, tos, marked, account, since, note, .. } = queued;
                        lines.push(before, Queued { packet, bucket, tos, marked, account, since, note });
                        given = true;
                    }
                    None => self.stats.copies_skipped += 1,
                }
            }
        }
        match last {
            Some(channel) => lines.push(channel, queued),
            None => self.stats.queue_full += 1,
        }
    }

    /// Numbers the packet, if it has no number yet, and puts it into the queue of `channel` at its place: packets of a
    /// channel that failed go before younger ones.
    fn assign_number(&mut self, channel: ChannelId, mut queued: Waiting<P>) {
        let size = queued.packet.size().as_u64() as usize;
        let Some(policed) = self.distribute.policy_mut() else { return };
        if !policed.lines.has_room(channel, size) {
            self.stats.queue_full += 1;
        } else if queued.note.numbers.bond == 0 {
            queued.note = Note { numbers: self.number.assign(queued.bucket), ..Note::default() };
            policed.lines.push(channel, queued);
        } else {
            policed.lines.insert(channel, queued);
        }
    }

    /// The next packet of a channel that may send, each channel in turn.
    pub(super) fn next_assigned(&mut self, now: Time) -> Option<Transmit<P>> {
        let policed = self.distribute.policy_mut()?;
        if let Some(f) = &mut policed.flush
            && let Some(channel) = f.flush.due(now).iter().find(|c| is_open(&self.channels, *c))
            && let Some(token) = f.flush.mark(now, channel)
        {
            return Some(self.flush_marker(now, channel, token));
        }
        loop {
            let policed = self.distribute.policy_mut()?;
            let channel = policed.lines.next_ready(now, &self.channels)?;
            let before = policed.lines.queued(channel).0;
            let queued = policed.lines.pop(now, channel, &mut self.stats, &mut self.ingress.ledger);
            if let Some(f) = &mut policed.flush {
                f.flush.on_left(channel, (before - policed.lines.queued(channel).0) as u64);
            }
            let idle = policed.lines.is_empty();
            if let Some(queued) = queued {
                let about = About::of(&queued, queued.note.numbers);
                return Some(self.send(now, channel, queued.packet, about, idle, None));
            }
        }
    }

    /// A marker, behind all that left on `channel` before.
    fn flush_marker(&mut self, now: Time, channel: ChannelId, token: u32) -> Transmit<P> {
        self.message(now, channel, Message::EchoRequest(Echo { channel, train: false, token, clock: now.as_nanos() }))
    }

    /// Does what is due where a policy chooses.
    pub(super) fn on_policy_timeout(&mut self, now: Time) {
        let Some(policed) = self.distribute.policy_mut() else { return };
        if policed.selector.poll_timeout().is_some_and(|at| at <= now) {
            policed.look(now, &self.channels);
            policed.selector.handle_timeout(now, &policed.links);
        }
        if let Some(f) = &mut policed.flush {
            f.flush.handle_timeout(now);
        }
        if policed.supervision_due().is_some_and(|at| at <= now) {
            self.refresh(now, Reason::Link);
        }
        self.release_flushed();
    }

    /// The number of the first packet that waits for `channel`, where packets are numbered when they get there.
    pub(super) fn first_waiting(&self, channel: ChannelId) -> Option<u32> {
        self.distribute.policy().filter(|_| self.number.orders_flows())?.lines.first_number(channel)
    }
}
