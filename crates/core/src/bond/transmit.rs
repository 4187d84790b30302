//! From the queue to the channels.

use super::channel::{bit, each};
use super::config::Compression;
use super::distribute::{Distribute, Ready};
use super::frame::{Codepoint, Control, Handling, Transmit};
use super::keep::About;
use super::number::Numbers;
use super::{Bond, CONTROL_LIMIT};
use crate::compress::Coding;
use crate::ip::ecn;
use crate::packet::Packet;
use crate::path::flight::Note;
use crate::units::{ChannelId, Time};
use crate::wire::envelope::{COMPRESSED_LEN, Head, Heartbeat, Message};
use crate::wire::stamp::Stamp;
use alloc::collections::VecDeque;
use alloc::vec;

/// What is to be sent beside the packets.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<Control>,
    /// The number of the last heartbeat.
    heartbeats: u32,
    /// The channels on which a heartbeat is to go.
    heartbeats_due: u64,
    /// When markers are to follow the last packet.
    pub(super) idle_marker: Option<Time>,
    /// The channels by which a packet is to go again, so that the peer tells what arrived there.
    pub(super) asks: u64,
    /// When the next packet that goes again may go.
    pub(super) again: Option<Time>,
}

impl Outbox {
    /// Whether many messages wait.
    pub(super) fn asks_much(&self) -> bool {
        self.messages.len() > CONTROL_LIMIT / 4
    }
}

impl<P: Packet> Bond<P> {
    /// The next frame to send. To be called until it gives none.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<P>> {
        if (self.outbox.heartbeats_due != 0 || !self.outbox.messages.is_empty() || !self.protect.is_empty())
            && let Some(frame) = self.next_control(now)
        {
            return Some(frame);
        }
        if !self.ingress.prompt.is_empty()
            && let Some(frame) = self.next_prompt(now)
        {
            return Some(frame);
        }
        if !self.ingress.acks.line.is_empty()
            && let Some(frame) = self.next_ack(now)
        {
            return Some(frame);
        }
        if (self.classed.urgent | self.classed.copying) != 0
            && let Some(frame) = self.next_urgent(now)
        {
            return Some(frame);
        }
        if !self.protect.twice.waiting.is_empty()
            && let Some(frame) = self.next_second(now)
        {
            return Some(frame);
        }
        if self.protect.cover.as_ref().is_some_and(|cover| !cover.waiting.is_empty())
            && let Some(frame) = self.next_row(now)
        {
            return Some(frame);
        }
        if !self.ingress.line.is_empty() {
            self.let_go(now);
        }
        match self.distribute {
            Distribute::Agreed => self.next_striped(now),
            Distribute::Policy(_) => self.next_assigned(now),
            _ if self.fragments.is_on() => self.next_fragment(now),
            _ if self.classed.bulk != 0 => self.next_in_turn(now),
            _ if self.ingress.queue.is_empty() => self.next_spare(now),
            _ => self.next_queued(now),
        }
    }

    #[inline(never)]
    fn next_control(&mut self, now: Time) -> Option<Transmit<P>> {
        while let Some(frame) = self.protect.pop() {
            if self.channels[frame.channel].path.signs.blocked.is_none() {
                return Some(frame);
            }
            self.stats.copies_skipped += 1;
        }
        while let Some(Control { channel, head, padded }) = self.next_message(now) {
            let c = &mut self.channels[channel];
            let padding = padded.saturating_sub(head.len());
            let packet = if padding == 0 { None } else { P::from_bytes(&vec![0; padding]) };
            if padding > 0 && packet.is_none() {
                self.stats.memory_refused += 1;
                continue;
            }
            c.on_control_sent(now, head.len() + padding);
            let handling = if padded > 0 { Handling::Alone } else { Handling::Usual };
            return Some(Transmit { channel, codepoint: Codepoint::Envelope, head, packet, skip: 0, tos: 0, handling });
        }
        self.next_again(now)
    }

    /// The next control message whose channel can take it. What cannot be sent now comes again: heartbeats and probes by
    /// their timers, echoes when asked again.
    fn next_message(&mut self, now: Time) -> Option<Control> {
        let open = self.channels.where_each(|c| c.is_up() && c.path.signs.blocked.is_none());
        let due = core::mem::take(&mut self.outbox.heartbeats_due) & open;
        if let Some(channel) = each(due).next() {
            self.outbox.heartbeats_due = due & !bit(channel);
            return Some(Control { channel, head: self.heartbeat(now, channel), padded: 0 });
        }
        loop {
            let control = self.outbox.messages.pop_front()?;
            if open & bit(control.channel) != 0 {
                return Some(control);
            }
        }
    }

    /// The next packet of the host queue, on the channels that are chosen as it leaves.
    #[inline(never)]
    pub(super) fn next_queued(&mut self, now: Time) -> Option<Transmit<P>> {
        self.call_reserve(now);
        let Ready { first, others, skipped } = self.distribute.ready(now, &self.channels, self.protect.copies())?;
        let queued = self.ingress.queue.pop(now, &mut self.stats, &mut self.ingress.ledger)?;
        queued.on_sent(now, &mut self.ingress.ledger);
        self.channels.reserve.ramp.on_left(now, queued.since);
        self.channels.reserve.demand.taken += queued.packet.size().as_u64();
        self.stats.copies_skipped += skipped;
        let about = About::of(&queued, Numbers { stamp: Stamp::of(now), ..self.number.assign(queued.bucket) });
        if others != 0 {
            self.send_copies(now, others, &queued.packet, about);
        }
        let idle = self.ingress.queue.is_empty() && !self.classed.wait_for(first);
        let by_pace = matches!(self.distribute, Distribute::Pace);
        if by_pace {
            self.channels[first].on_wait_over(now, queued.since);
        }
        let frame = self.send(now, first, queued.packet, about, idle, None);
        self.distribute.on_sent(self.channels[first].wire(frame.size()));
        if by_pace && self.ingress.queue.is_empty() {
            // Nor is there anything for the others.
            self.on_nothing_left(first);
        }
        Some(frame)
    }

    /// Copies of a packet, which follow it.
    #[inline(never)]
    fn send_copies(&mut self, now: Time, channels: u64, packet: &P, about: About) {
        for channel in each(channels) {
            match packet.duplicate() {
                Some(packet) => {
                    let copy = self.send(now, channel, packet, about, false, None);
                    self.protect.push(copy);
                }
                None => self.stats.copies_skipped += 1,
            }
        }
    }

    /// The data frame of a packet on `channel`, accounted for as sent. `idle`: nothing waits behind it; `again`: what the packet is
    /// kept by, if it was sent before.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        now: Time,
        channel: ChannelId,
        mut packet: P,
        about: About,
        idle: bool,
        again: Option<Note>,
    ) -> Transmit<P> {
        let About { bucket, numbers, tos, account } = about;
        let c = &mut self.channels[channel];
        let size = packet.size().as_u64() as usize;
        let (head, skip) = if c.path.flight.is_none() {
            (self.number.head(bucket, numbers, c.config.raw), 0)
        } else {
            self.count(now, channel, &mut packet, about, idle, again)
        };
        let c = &mut self.channels[channel];
        let frame = head.len() + size - skip;
        let handling = c.on_data_sent(now, frame);
        if self.number.orders_flows() && !self.number.resends() {
            c.high = numbers.bond;
            if idle {
                self.outbox.idle_marker = Some(now + self.config.idle_marker);
            }
        }
        self.classed.on_sent(bucket, channel, size, again.is_some());
        self.ingress.ledger.on_frame(now, account, channel, size);
        let codepoint = if head.is_empty() { Codepoint::Raw } else { Codepoint::Envelope };
        let tos = ecn::entry(tos, self.config.copy_dscp);
        Transmit { channel, codepoint, head, packet: Some(packet), skip, tos, handling }
    }

    /// Counts the frame of a packet, and keeps note of the packet where it may have to be sent again; the frame's head, and what it stands for.
    #[inline(never)]
    fn count(
        &mut self,
        now: Time,
        channel: ChannelId,
        packet: &mut P,
        about: About,
        idle: bool,
        again: Option<Note>,
    ) -> (Head, usize) {
        if again.is_none() && self.peer.mends && about.numbers.stamp == Stamp::NONE && self.protect.cover.is_some() {
            // Both codes, that of the headers and parity, are of the same bytes.
            packet.complete_checksum();
        }
        let coding = if again.is_none() { self.code(now, channel, packet, about) } else { Coding::Whole };
        let c = &mut self.channels[channel];
        let (head, skip) = match &coding {
            Coding::Whole => (self.number.head_len(c.config.raw), 0),
            Coding::Coded { coded, .. } => (COMPRESSED_LEN + coded.as_slice().len(), coded.skip),
        };
        let bytes = c.wire(head + packet.size().as_u64() as usize - skip);
        let number = c.path.on_counted(now, bytes, idle);
        if let (Some(keeper), Some(flight)) = (&mut self.protect.keeper, &mut c.path.flight) {
            let note = again.unwrap_or_else(|| keeper.keep(now, about));
            let place = flight.note_last(note);
            keeper.sent(note, channel, place);
            self.compressed.sent(channel, place, &coding);
            if again.is_none() {
                let spares = self.config.spare_copies && flight.may_lose();
                match about.numbers.stamp {
                    Stamp::NONE if self.classed.is_copied(about.bucket) => {}
                    // Urgent ones.
                    Stamp::NONE if self.peer.mends && self.cover(now, channel, note, about, packet) => {}
                    Stamp::NONE if spares => self.protect.twice.add(now, note, channel),
                    Stamp::NONE => {}
                    _ if spares => self.protect.spare.add(now, note, channel),
                    _ => {}
                }
            }
        }
        match &coding {
            Coding::Whole => {
                (self.number.counted_head(about.bucket, about.numbers, number, again.and(self.peer.tag())), 0)
            }
            Coding::Coded { coded, .. } => (self.number.compressed_head(about.numbers, number, coded), skip),
        }
    }

    /// The frame of a message that goes at once, in its place among the packets.
    pub(super) fn message(&mut self, now: Time, channel: ChannelId, message: Message) -> Transmit<P> {
        let head = self.number.control(message);
        self.channels[channel].on_control_sent(now, head.len());
        let (codepoint, handling) = (Codepoint::Envelope, Handling::Usual);
        Transmit { channel, codepoint, head, packet: None, skip: 0, tos: 0, handling }
    }

    /// Queues a control message; `padded` is the frame's length, if longer than the message.
    pub(super) fn send_control(&mut self, channel: ChannelId, message: Message, padded: usize) {
        if self.outbox.messages.len() >= CONTROL_LIMIT {
            self.stats.control_dropped += 1;
            return;
        }
        let head = self.number.control(message);
        self.outbox.messages.push_back(Control { channel, head, padded });
    }

    /// Has a heartbeat sent on `channel` with the next frames. What it says is what holds then.
    pub(super) fn send_heartbeat(&mut self, now: Time, channel: ChannelId) {
        self.channels[channel].heartbeat = now;
        self.outbox.heartbeats_due |= bit(channel);
    }

    fn heartbeat(&mut self, now: Time, channel: ChannelId) -> Head {
        let high = self.high_water(channel);
        self.outbox.heartbeats = self.outbox.heartbeats.wrapping_add(1);
        let heard = self.channels.where_each(|c| c.path.signs.may_bring() && !c.path.signs.leaving);
        let message = Message::Heartbeat(Heartbeat {
            channel,
            epoch: self.number.epoch(),
            number: self.outbox.heartbeats,
            high,
            deaf: !heard,
            using: self.using(now),
            paced: self.number.resends() && self.channels[channel].is_paced(now),
            expands: self.config.compress_headers != Compression::Off,
            mends: self.mender.is_some(),
            joins: self.fragments.is_on(),
        });
        self.channels[channel].high = high;
        self.number.control(message)
    }

    /// The bond number of the last packet sent; 0 before the first.
    pub(super) fn last_number(&self) -> u32 {
        self.number.last(|| self.channels.sent_any())
    }

    /// Every packet numbered up to this that uses `channel` has left, and will not come again.
    pub(super) fn high_water(&self, channel: ChannelId) -> u32 {
        if let Some(floor) = self.protect.keeper.as_ref().and_then(|keeper| keeper.floor()) {
            return floor.wrapping_sub(1);
        }
        match self.first_waiting(channel) {
            Some(first) => first.wrapping_sub(1),
            None => self.last_number(),
        }
    }

    /// The channels that carry data.
    pub(super) fn using(&self, now: Time) -> u64 {
        self.distribute.using(now, &self.channels, !self.protect.makes_copies(), self.config.deadline())
    }
}
