//! The stripe's two ends inside the bond.
//!
//! The stripe decides order and markers; the bond says which channels are usable, paces them, and carries the
//! messages. Shares are of packet bytes, which is what the receiver can count too, while pacing counts wire bytes: what
//! a link adds is in the same proportion on all of them over time, so the shares stay those of the rates. A data frame on a channel with [`super::ChannelConfig::raw`] is the packet itself.

use super::channel::each;
use super::config::Scheduler;
use super::confirm::{self, Number, Placed};
use super::equalize::Arrival;
use super::keep::About;
use super::receive::Opened;
use super::share::{self, Member};
use super::{Bond, Codepoint, Handling, Transmit};
use crate::causal::{ChannelSet, Grr, Rr};
use crate::packet::Packet;
use crate::stripe::{self, Endpoint, ReceiverConfig, Wait};
use crate::units::{Bytes, ChannelId, Time};
use crate::wire::envelope::{Envelope, Message};
use crate::wire::marker;
use alloc::vec::Vec;

/// A slot of a pool, for the bound on packets.
const SLOT: usize = 2048;

/// The stripe and what it needs in the bond.
#[derive(Debug)]
pub(super) struct Striped<P> {
    endpoint: Endpoint<Placed<P>>,
    /// The longest packet, fixed when the stripe began: quanta must hold it.
    pub(super) longest: usize,
    /// When to ask again for the channels that the stripe left out.
    retry: Option<Time>,
    scratch: Vec<u8>,
}

impl<P: Packet> Bond<P> {
    /// Whether packets are put in order by logical reception.
    #[inline]
    pub(super) fn stripes(&self) -> bool {
        self.resequence.is_logical()
    }

    /// Brings the stripe's channel set in line with the usable channels; `went` are those that are so no more.
    pub(super) fn refresh_stripe(&mut self, now: Time, members: &[Member], went: u64) {
        if !self.stripes() {
            return;
        }
        if let Some(striped) = &mut self.striped {
            for channel in each(went) {
                striped.endpoint.sender.remove_dead(now, channel);
            }
        }
        let longest = match &self.striped {
            Some(striped) => striped.longest,
            None => each(self.channels.joined).map(|c| self.channels[c].config.mtu).max().unwrap_or(1500),
        };
        let Some(set) = self.stripe_set(members, longest) else { return };
        match &mut self.striped {
            Some(striped) => {
                // The set was made for `longest`, so it is not refused.
                let _ = striped.endpoint.sender.set_channels(now, &set);
                striped.retry = None;
            }
            None => self.begin_stripe(now, &set, longest),
        }
        let (bytes, packets) = self.buffers();
        if let Some(striped) = &mut self.striped {
            striped.endpoint.receiver.set_limits(bytes, packets);
        }
    }

    /// Members and quanta as the scheduler wants them.
    fn stripe_set(&self, members: &[Member], longest: usize) -> Option<ChannelSet> {
        let set = ChannelSet::new(&share::quanta(members, longest), Bytes::from(longest)).ok()?;
        match self.config.scheduler {
            Scheduler::Srr => Some(set),
            Scheduler::Grr => Grr::set(&set).ok(),
            Scheduler::Rr => Rr::set(&set).ok(),
            // Refused with this mode.
            Scheduler::Rfq => None,
        }
    }

    /// What the receiver may buffer on each channel: even shares of the memory, or as much of them as is set. Where the order is
    /// confirmed the window behind it has the other half.
    fn buffers(&self) -> (Bytes, u32) {
        let all = if self.config.confirm_order { self.config.hold_bytes / 2 } else { self.config.hold_bytes };
        let share = all / self.channels.joined.count_ones().max(1) as usize;
        let bytes = Bytes::from(share.min(1 << 30));
        let bytes = self.config.stripe_buffer.map_or(bytes, |buffer| buffer.min(bytes));
        (bytes, (share / SLOT).clamp(16, 1 << 30) as u32)
    }

    fn begin_stripe(&mut self, now: Time, set: &ChannelSet, longest: usize) {
        let (buffer_bytes, buffer_packets) = self.buffers();
        let credits = self.config.credits;
        let receiver = ReceiverConfig { buffer_bytes, buffer_packets, credits, ..ReceiverConfig::default() };
        let sender = stripe::Config {
            max_packet: Bytes::from(longest),
            marker_rounds: self.config.marker_rounds,
            marker_place: self.config.marker_place,
            credits,
            idle_gap: self.config.idle_marker.max(crate::units::Span::from_micros(100)),
            idle_interval: self.config.heartbeat_idle,
            patience: self.config.dead_after,
            ..stripe::Config::default()
        };
        let epoch = self.rng.next_u64() as u32;
        if let Ok(endpoint) = Endpoint::new(sender, receiver, set, now, epoch) {
            self.striped = Some(Striped { endpoint, longest, retry: None, scratch: Vec::new() });
        }
    }

    /// The stripe's next message, then its next packet.
    pub(super) fn next_striped(&mut self, now: Time) -> Option<Transmit<P>> {
        while let Some(striped) = &mut self.striped {
            let Some((channel, control)) = striped.endpoint.poll_control(now) else { break };
            striped.scratch.clear();
            control.encode(&mut striped.scratch);
            let head = self.number.control(Message::StripeControl);
            let Some(packet) = P::from_bytes(&striped.scratch) else {
                self.stats.memory_refused += 1;
                continue;
            };
            let c = &mut self.channels[channel];
            if !c.is_up() || c.path.signs.blocked.is_some() {
                continue;
            }
            c.on_control_sent(now, head.len() + packet.bytes().len());
            return Some(Transmit {
                channel,
                codepoint: Codepoint::Envelope,
                head,
                packet: Some(packet),
                skip: 0,
                tos: 0,
                handling: Handling::Usual,
            });
        }
        let channel = loop {
            match self.striped.as_ref()?.endpoint.sender.next_channel(self.ingress.queue.next_size()?) {
                Ok(channel) => break channel,
                Err(Wait::TooLong) => {
                    // It was taken when the stripe was to be wider.
                    if let Some(queued) = self.ingress.queue.take(now) {
                        self.ingress.ledger.on_dropped(queued.account);
                    }
                    self.stats.stripe_too_long += 1;
                }
                Err(_) => return None,
            }
        };
        if self.channels[channel].ready_at()? > now {
            return None;
        }
        // CoDel may drop the head and give another packet, for which the same channel is next.
        let queued = self.ingress.queue.pop(now, &mut self.stats, &mut self.ingress.ledger)?;
        queued.on_sent(now, &mut self.ingress.ledger);
        let (size, idle) = (queued.packet.size(), self.ingress.queue.is_empty());
        if let Some(striped) = &mut self.striped {
            striped.endpoint.sender.on_sent(now, size);
            if idle {
                striped.endpoint.sender.on_idle(now);
            }
        }
        let about = About::of(&queued, self.number.assign(queued.bucket));
        Some(self.send(now, channel, queued.packet, about, idle, None))
    }

    /// When the channel that the stripe waits for may send.
    pub(super) fn stripe_ready(&self) -> Option<Time> {
        let channel = self.striped.as_ref()?.endpoint.sender.next_channel(self.ingress.queue.next_size()?).ok()?;
        self.channels.get(channel)?.ready_at()
    }

    pub(super) fn stripe_timeout(&self) -> Option<Time> {
        let striped = self.striped.as_ref()?;
        striped.endpoint.poll_timeout().into_iter().chain(striped.retry).min()
    }

    pub(super) fn on_stripe_timeout(&mut self, now: Time) {
        if let Some(striped) = &mut self.striped {
            striped.endpoint.handle_timeout(now);
            while let Some(event) = striped.endpoint.sender.poll_event() {
                if let stripe::Event::LeftOut(_) = event {
                    // They are usable as far as the bond knows: perhaps losses kept the answers away.
                    striped.retry = Some(now + self.config.dead_after.times(2));
                    self.stats.stripe_left_out += 1;
                }
            }
            if striped.retry.is_some_and(|at| at <= now) {
                striped.retry = None;
                let members = self.members();
                self.refresh_stripe(now, &members, 0);
            }
        }
        self.collect_striped(now);
    }

    pub(super) fn block_stripe(&mut self, channel: ChannelId, blocked: bool) {
        if let Some(striped) = &mut self.striped {
            striped.endpoint.sender.set_blocked(channel, blocked);
        }
    }

    /// A data frame, its envelope taken off if it had one.
    pub(super) fn on_striped(&mut self, now: Time, channel: ChannelId, head: usize, frame: P, tos: u8) {
        if !self.stripes() || self.striped.is_none() {
            self.stats.unexpected_stripe += 1;
            return;
        }
        let Some(Opened(packet)) = self.open_packet(now, channel, head, frame, tos, None) else { return };
        if let Some(striped) = &mut self.striped {
            striped.endpoint.handle_data(now, channel, Placed { packet, channel, number: None });
        }
        self.collect_striped(now);
    }

    /// A message of the peer's stripe, behind the envelope.
    pub(super) fn on_stripe_control(&mut self, now: Time, channel: ChannelId, frame: &P) {
        let bytes = frame.bytes().get(Message::StripeControl.head_len()..).unwrap_or(&[]);
        let control = match marker::Control::decode(bytes) {
            Ok(control) => control,
            Err(_) => {
                self.stats.bad_control += 1;
                self.channels[channel].stats.received_invalid += 1;
                return;
            }
        };
        self.channels[channel].stats.received_control += 1;
        self.on_heard(now, channel);
        if let Some(striped) = &mut self.striped {
            striped.endpoint.handle_control(now, channel, &control);
        }
        self.collect_striped(now);
    }

    /// Whether numbered frames go through logical reception here.
    #[inline]
    pub(super) fn confirms(&self) -> bool {
        self.stripes() && self.config.confirm_order
    }

    /// A numbered frame of the stripe.
    pub(super) fn on_confirmed(
        &mut self,
        now: Time,
        channel: ChannelId,
        envelope: Envelope,
        (sequence, bond): (u32, u32),
        frame: P,
        tos: u8,
    ) {
        if self.striped.is_none() {
            self.stats.unexpected_stripe += 1;
            return;
        }
        let Some(packet) = self.open(now, channel, envelope, Some(bond), frame, tos) else { return };
        self.on_carries(channel, bond);
        let number = Some(Number { tag: envelope.tag, sequence, bond });
        if let Some(striped) = &mut self.striped {
            striped.endpoint.handle_data(now, channel, Placed { packet, channel, number });
        }
        self.collect_striped(now);
    }

    /// A heartbeat's high water, where packets are numbered: it counts behind what `channel` brought before.
    pub(super) fn on_confirmed_mark(&mut self, now: Time, channel: ChannelId, high: u32) {
        self.confirm.mark(channel, high);
        self.collect_striped(now);
    }

    /// Takes what logical reception gives.
    #[inline]
    fn collect_striped(&mut self, now: Time) {
        let Some(striped) = &mut self.striped else { return };
        while let Some(Placed { packet, channel, number }) = striped.endpoint.poll_deliver() {
            match number {
                // What a former life of the peer left has its order, and no place among the numbers of this one.
                Some(Number { tag, sequence, bond }) if self.peer.is_current(tag) => {
                    self.stats.stripe_misplaced += u64::from(!self.confirm.turn(bond));
                    let arrival = Arrival::Packet { bucket: confirm::BUCKET, number: sequence, bond, packet };
                    self.resequence.handle(now, channel, arrival, &mut self.stats);
                }
                _ => self.resequence.push(packet),
            }
        }
        let receiver = &striped.endpoint.receiver;
        while let Some((channel, high)) = self.confirm.next_mark(|channel| receiver.buffered(channel).0 == 0) {
            self.resequence.handle(now, channel, Arrival::Marker { high }, &mut self.stats);
        }
    }

    /// What the stripe lets through at most, beside what the channels carry.
    pub(super) fn stripe_limit(&self) -> usize {
        self.striped.as_ref().map_or(usize::MAX, |s| s.longest)
    }

    /// Bytes that wait for their turn.
    pub(super) fn stripe_buffered(&self) -> usize {
        let Some(striped) = &self.striped else { return 0 };
        let bytes = each(self.channels.joined).map(|c| striped.endpoint.receiver.buffered(c).1.as_u64());
        bytes.sum::<u64>() as usize
    }

    /// Counters of the stripe's two ends, in mode `stripe`, once it began.
    pub fn stripe_stats(&self) -> Option<(&stripe::Stats, &stripe::ReceiverStats)> {
        let striped = self.striped.as_ref()?;
        Some((striped.endpoint.sender.stats(), striped.endpoint.receiver.stats()))
    }
}
