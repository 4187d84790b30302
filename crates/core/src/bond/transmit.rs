//! From the queue to the channels.

use super::channel::{bit, each};
use super::{Bond, CONTROL_LIMIT, Codepoint, Control, Mode, Transmit};
use crate::ip::ecn;
use crate::packet::Packet;
use crate::units::{ChannelId, Time};
use crate::wire::envelope::{Envelope, Head, Heartbeat, Message};
use alloc::vec;

impl<P: Packet> Bond<P> {
    /// The next frame to send. To be called until it gives none.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<P>> {
        if (self.heartbeats_due != 0 || !self.control.is_empty() || !self.copies.is_empty())
            && let Some(frame) = self.next_control(now)
        {
            return Some(frame);
        }
        match self.config.mode {
            Mode::Ordered | Mode::Backup => self.next_ordered(now),
            Mode::Plain => self.next_plain(now),
            Mode::Duplicate => self.next_duplicate(now),
            Mode::Stripe => self.next_striped(now),
            Mode::Flow => self.next_flow(now),
        }
    }

    fn next_control(&mut self, now: Time) -> Option<Transmit<P>> {
        while let Some(frame) = self.copies.pop_front() {
            if self.channels[frame.channel.index()].blocked.is_none() {
                return Some(frame);
            }
            self.stats.copies_skipped += 1;
        }
        while let Some(Control { channel, head, padded }) = self.next_message(now) {
            let c = &mut self.channels[channel.index()];
            let padding = padded.saturating_sub(head.len());
            let packet = if padding == 0 { None } else { P::from_bytes(&vec![0; padding]) };
            if padding > 0 && packet.is_none() {
                self.stats.memory_refused += 1;
                continue;
            }
            c.on_sent(now, head.len() + padding);
            c.stats.sent_control += 1;
            return Some(Transmit { channel, codepoint: Codepoint::Envelope, head, packet, tos: 0 });
        }
        None
    }

    /// The next control message whose channel can take it. What cannot be sent now comes again: heartbeats and probes by
    /// their timers, echoes when asked again.
    fn next_message(&mut self, now: Time) -> Option<Control> {
        let open = each(self.joined).filter(|c| {
            let c = &self.channels[c.index()];
            c.is_up() && c.blocked.is_none()
        });
        let open = open.fold(0, |set, c| set | bit(c));
        let due = core::mem::take(&mut self.heartbeats_due) & open;
        if let Some(channel) = each(due).next() {
            self.heartbeats_due = due & !bit(channel);
            return Some(Control { channel, head: self.heartbeat(now, channel), padded: 0 });
        }
        loop {
            let control = self.control.pop_front()?;
            if open & bit(control.channel) != 0 {
                return Some(control);
            }
        }
    }

    /// The channel that the discipline selected, if it may send now.
    #[inline]
    fn ready(&self, now: Time) -> Option<ChannelId> {
        let channel = self.share.as_ref()?.select();
        (self.channels.get(channel.index())?.ready_at()? <= now).then_some(channel)
    }

    #[inline]
    pub(super) fn pop(&mut self, now: Time) -> Option<super::queue::Queued<P>> {
        let (queued, actions) = self.queue.pop(now);
        self.stats.codel_dropped += actions.dropped;
        self.stats.codel_marked += actions.marked;
        queued
    }

    /// The next bond number; 0 is left out, it means none.
    #[inline]
    pub(super) fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1).max(1);
        number
    }

    /// Accounts for a data frame on `channel`.
    #[inline]
    pub(super) fn on_data(&mut self, now: Time, channel: ChannelId, len: usize) {
        let c = &mut self.channels[channel.index()];
        let wire = c.on_sent(now, len);
        c.data = Some(now);
        c.stats.sent_packets += 1;
        c.stats.sent_bytes += wire as u64;
        if let Some(share) = &mut self.share {
            share.update(wire);
        }
    }

    #[inline]
    fn next_ordered(&mut self, now: Time) -> Option<Transmit<P>> {
        if self.queue.is_empty() {
            return None;
        }
        let channel = self.ready(now)?;
        let queued = self.pop(now)?;
        let bond = self.number();
        let sequence = self.sequence[usize::from(queued.bucket)];
        self.sequence[usize::from(queued.bucket)] = sequence.wrapping_add(1);
        let message = Message::Ordered { bucket: queued.bucket, sequence, bond };
        let head = Envelope { tag: self.epoch as u8, message }.encode();
        self.on_data(now, channel, head.len() + queued.packet.size().as_u64() as usize);
        self.channels[channel.index()].high = bond;
        self.last_channel = channel;
        if self.queue.is_empty() {
            self.idle_marker = Some(now + self.config.idle_marker);
        }
        let tos = ecn::entry(queued.tos, self.config.copy_dscp);
        Some(Transmit { channel, codepoint: Codepoint::Envelope, head, packet: Some(queued.packet), tos })
    }

    fn next_plain(&mut self, now: Time) -> Option<Transmit<P>> {
        if self.queue.is_empty() {
            return None;
        }
        let channel = self.ready(now)?;
        let queued = self.pop(now)?;
        let head = Envelope { tag: self.epoch as u8, message: Message::Plain }.encode();
        self.on_data(now, channel, head.len() + queued.packet.size().as_u64() as usize);
        let tos = ecn::entry(queued.tos, self.config.copy_dscp);
        Some(Transmit { channel, codepoint: Codepoint::Envelope, head, packet: Some(queued.packet), tos })
    }

    fn next_duplicate(&mut self, now: Time) -> Option<Transmit<P>> {
        if self.queue.is_empty() {
            return None;
        }
        let limit = if self.config.copies == 0 { ChannelId::LIMIT } else { self.config.copies };
        let wanted = &self.by_priority[..self.by_priority.len().min(limit)];
        let is_ready = |c: &&ChannelId| self.channels[c.index()].ready_at().is_some_and(|at| at <= now);
        let ready = wanted.iter().filter(is_ready).fold(0u64, |set, c| set | bit(*c));
        let first = *wanted.iter().find(is_ready)?;
        let skipped = wanted.len() as u64 - u64::from(ready.count_ones());
        let queued = self.pop(now)?;
        self.stats.copies_skipped += skipped;
        let bond = self.number();
        let head = Envelope { tag: self.epoch as u8, message: Message::Duplicate { bond } }.encode();
        let len = head.len() + queued.packet.size().as_u64() as usize;
        let tos = ecn::entry(queued.tos, self.config.copy_dscp);
        for channel in each(ready & !bit(first)) {
            match queued.packet.duplicate() {
                Some(packet) => {
                    self.on_data(now, channel, len);
                    let packet = Some(packet);
                    self.copies.push_back(Transmit { channel, codepoint: Codepoint::Envelope, head, packet, tos });
                }
                None => self.stats.copies_skipped += 1,
            }
        }
        self.on_data(now, first, len);
        Some(Transmit { channel: first, codepoint: Codepoint::Envelope, head, packet: Some(queued.packet), tos })
    }

    /// Queues a control message; `padded` is the frame's length, if longer than the message.
    pub(super) fn send_control(&mut self, channel: ChannelId, message: Message, padded: usize) {
        if self.control.len() >= CONTROL_LIMIT {
            self.stats.control_dropped += 1;
            return;
        }
        let head: Head = Envelope { tag: self.epoch as u8, message }.encode();
        self.control.push_back(Control { channel, head, padded });
    }

    /// Has a heartbeat sent on `channel` with the next frames. What it says is what holds then.
    pub(super) fn send_heartbeat(&mut self, now: Time, channel: ChannelId) {
        self.channels[channel.index()].heartbeat = now;
        self.heartbeats_due |= bit(channel);
    }

    fn heartbeat(&mut self, now: Time, channel: ChannelId) -> Head {
        let high = self.high_water(channel);
        self.heartbeats = self.heartbeats.wrapping_add(1);
        let heard = each(self.joined).filter(|c| {
            let c = &self.channels[c.index()];
            c.is_up() && !c.silent
        });
        let message = Message::Heartbeat(Heartbeat {
            channel,
            epoch: self.epoch,
            number: self.heartbeats,
            high,
            deaf: !heard.fold(0, |set, c| set | bit(c)),
            using: self.using(now),
        });
        self.channels[channel.index()].high = high;
        Envelope { tag: self.epoch as u8, message }.encode()
    }

    /// The bond number of the last packet sent; 0 before the first.
    pub(super) fn last_number(&self) -> u32 {
        match self.next.wrapping_sub(1) {
            0 if self.sent_any() => u32::MAX,
            last => last,
        }
    }

    /// Every packet numbered up to this that uses `channel` has left.
    fn high_water(&self, channel: ChannelId) -> u32 {
        match self.flow.as_ref().and_then(|flow| flow.first_number(channel)) {
            Some(first) => first.wrapping_sub(1),
            None => self.last_number(),
        }
    }

    fn sent_any(&self) -> bool {
        self.joined != 0 && self.channels.iter().any(|c| c.stats.sent_packets > 0)
    }

    /// The channels that carry data. In mode `backup` also the one before, while its packets may be on their way: a
    /// switch to a faster channel must not overtake them.
    pub(super) fn using(&self, now: Time) -> u64 {
        if self.config.mode == Mode::Flow {
            return self.usable;
        }
        let Some(share) = &self.share else { return 0 };
        if self.config.mode != Mode::Backup {
            return self.usable;
        }
        let recent = each(self.usable).filter(|c| {
            let data = self.channels[c.index()].data;
            data.is_some_and(|at| now.since(at) < self.config.deadline)
        });
        recent.fold(bit(share.select()), |set, c| set | bit(c))
    }
}
