//! What is lost is sent again, on the channel on which it arrives first.
//!
//! What it is: where the mode protects by sending again, each data frame is counted on its channel and its packet kept
//! ([`Keeper`](super::keep::Keeper)). What the peer's feedback shows to be lost goes again before new packets, with its numbers, as a
//! new frame of whatever channel brings it first: when the channel may send, its one-way delay, and the queue on it; the channel
//! that lost it counts as later by a quarter of its round trip. The end of what was sent is asked after
//! ([`tail`](crate::path::tail)), and a channel that is silent even then gets nothing new until it answers an echo request. What was under
//! way on a channel that goes down goes again at once.
//!
//! A packet is given up when it went too long ago: `resend_within`, or twice the slowest round trip in use and `silent_after`. Heartbeats tell the peer how
//! far all is settled, so that it waits no longer.
//!
//! Cost: O(channels) a packet that is sent again; otherwise the keeper's.

use super::Bond;
use super::channel::{bit, each};
use super::cover::Fate;
use super::event::Reason;
use super::frame::Transmit;
use super::keep::{CLASSES, Lost};
use crate::packet::Packet;
use crate::path::delay::Reference;
use crate::path::tail::Due;
use crate::units::{ChannelId, Span, Time};

/// Least time that a packet is sent again for: as long as a receiver waits for it by default, so that nothing is given up which went by a
/// channel that has just failed.
const LEAST_WITHIN: Span = Span::from_millis(500);
/// The same before any round trip is known.
const FIRST_WITHIN: Span = Span::from_secs(1);
/// How many frames are sent again when the end of what was sent is asked after.
const TAIL: usize = 16;
/// The peer is told of packets given up within this.
const TELL_WITHIN: Span = Span::from_millis(5);

impl<P: Packet> Bond<P> {
    /// Whether the packet of the frame that [`Bond::poll_transmit`] gave last is to be given back once it is sealed: the bond may
    /// have to send it again.
    #[inline]
    pub fn wants_back(&self) -> bool {
        self.protect.keeper.as_ref().is_some_and(|keeper| keeper.wants_back())
    }

    /// Gives back the packet of the frame that [`Bond::poll_transmit`] gave last, before the next one is asked for.
    #[inline]
    pub fn give_back(&mut self, packet: P) {
        if let Some(keeper) = &mut self.protect.keeper {
            keeper.give_back(packet, &mut self.stats);
        }
    }

    /// Memory that packets take which were sent and are kept.
    pub fn kept_bytes(&self) -> usize {
        self.protect.keeper.as_ref().map_or(0, |keeper| keeper.used())
    }

    /// What became of frames of `channel` is known.
    #[inline]
    pub(super) fn settle(&mut self, channel: ChannelId) {
        let (Some(keeper), Some(flight)) = (&mut self.protect.keeper, &mut self.channels[channel].path.flight) else {
            return;
        };
        while let Some(settled) = flight.poll_settled() {
            self.compressed.settle(channel, &settled);
            keeper.settle(channel, settled, &mut self.stats);
        }
    }

    /// The same of what the peer has just told. What parity may mend does not go again yet.
    pub(super) fn settle_told(&mut self, now: Time, channel: ChannelId) {
        let protect = &mut self.protect;
        if let (Some(cover), Some(keeper)) = (&mut protect.cover, &mut protect.keeper)
            && let Some(flight) = &mut self.channels[channel].path.flight
        {
            while let Some(settled) = flight.poll_settled() {
                self.compressed.settle(channel, &settled);
                let held = keeper.lost_by(channel, settled).is_some_and(|about| {
                    cover.on_lost(now, about.bucket, about.numbers.sequence, settled.note) == Fate::Held
                });
                if !held {
                    keeper.settle(channel, settled, &mut self.stats);
                }
            }
        }
        self.settle(channel);
    }

    /// All that is under way on `channel` is lost.
    pub(super) fn lose_all(&mut self, channel: ChannelId) {
        if self.protect.keeper.is_some()
            && let Some(flight) = &mut self.channels[channel].path.flight
        {
            flight.abandon();
            self.settle(channel);
        }
    }

    /// The peer is another one: it has delivered we do not know what.
    pub(super) fn forget_kept(&mut self) {
        if let Some(keeper) = &mut self.protect.keeper {
            keeper.give_up_all(&mut self.stats);
        }
        self.forget_parity();
        for channel in each(self.channels.joined) {
            self.settle(channel);
        }
    }

    /// The next packet that is sent again, if its channel may send.
    pub(super) fn next_again(&mut self, now: Time) -> Option<Transmit<P>> {
        self.outbox.again = None;
        let keeper = self.protect.keeper.as_mut()?;
        keeper.forget_settled();
        if !keeper.has_again() {
            self.outbox.asks = 0;
            return None;
        }
        // Without word of the peer nobody knows which process of it is to have it.
        self.peer.tag()?;
        let (lane, channel, at) = self.again_by(now)?;
        if at > now {
            self.outbox.again = Some(at);
            return None;
        }
        let keeper = self.protect.keeper.as_mut()?;
        let (note, about, packet) = keeper.take_again(lane)?;
        self.outbox.asks &= !bit(channel);
        self.stats.resent += 1;
        if let Some(other) = self.second(now, channel, about.bucket)
            && let Some(copy) = packet.duplicate()
        {
            let frame = self.send(now, other, copy, about, false, Some(note));
            self.protect.push(frame);
        }
        Some(self.send(now, channel, packet, about, false, Some(note)))
    }

    /// By which channel a second frame goes that carries the same, because `first` loses some itself: a second loss costs another
    /// round trip.
    fn second(&self, now: Time, first: ChannelId, bucket: u16) -> Option<ChannelId> {
        let loses = self.channels[first].path.flight.as_ref().is_some_and(|flight| flight.losses.loses());
        let others = self.carriers(bucket) & !bit(first);
        if !loses || others == 0 {
            return None;
        }
        self.earliest(now, others, None).filter(|(_, at)| *at <= now).map(|(channel, _)| channel)
    }

    /// When the next packet may go again.
    #[inline]
    pub(super) fn again_at(&self) -> Option<Time> {
        self.outbox.again.filter(|_| self.protect.keeper.as_ref().is_some_and(|keeper| keeper.has_again()))
    }

    /// Of which lane the next packet goes again, by which channel, and when that may send: of those that may go now the one that went first
    /// longest ago, else what may go first. What none of the channels that work may carry waits.
    fn again_by(&self, now: Time) -> Option<(usize, ChannelId, Time)> {
        let goes = |lost: Lost| {
            let (channel, at) = self.way_again(now, lost)?;
            Some((at.max(now), lost, channel))
        };
        let (at, lost, channel) = self.protect.keeper.as_ref()?.next_again().filter_map(goes).min()?;
        Some((lost.lane, channel, at))
    }

    /// By which channel a lost packet goes again, and when that may send.
    fn way_again(&self, now: Time, lost: Lost) -> Option<(ChannelId, Time)> {
        let carriers = self.carriers(lost.bucket);
        let first = self.first_arrival(now, carriers, Some(lost.by));
        // Whatever goes there shows what arrived; what a class confines to others does not. Nothing waits for a channel longer than
        // another takes to bring it.
        let may_ask = if self.classed.of_bucket(lost.bucket).is_none() { u64::MAX } else { carriers };
        let asked = |channel: ChannelId| {
            let ready = self.channels[channel].ready_at()?;
            first.is_none_or(|(arrival, ..)| ready <= arrival).then_some((channel, ready))
        };
        let asked = each(self.outbox.asks & self.channels.usable & may_ask).find_map(asked);
        asked.or(first.map(|(_, channel, ready)| (channel, ready)))
    }

    /// The channel of `channels` that brings a frame first, and when it may send.
    pub(super) fn earliest(&self, now: Time, channels: u64, lost_by: Option<ChannelId>) -> Option<(ChannelId, Time)> {
        self.first_arrival(now, channels, lost_by).map(|(_, channel, ready)| (channel, ready))
    }

    /// The same, behind when the frame arrives.
    pub(super) fn first_arrival(
        &self,
        now: Time,
        channels: u64,
        lost_by: Option<ChannelId>,
    ) -> Option<(Time, ChannelId, Time)> {
        let reference = self.channels.reference();
        let arrival = |channel: ChannelId| {
            let c = &self.channels[channel];
            let ready = c.ready_at()?.max(now);
            let again = c.path.rtt().filter(|_| Some(channel) == lost_by).unwrap_or(Span::ZERO);
            Some((ready + self.way(channel, reference) + Span::from_nanos(again.as_nanos() / 4), channel, ready))
        };
        each(channels).filter_map(arrival).min()
    }

    /// How long a frame of `channel` is under way, as far as one knows: one way, what waits on it, and how much that varies.
    pub(super) fn way(&self, channel: ChannelId, reference: Option<Reference>) -> Span {
        let path = &self.channels[channel].path;
        let queue = path.flight.as_ref().map_or(Span::ZERO, |flight| flight.queue());
        path.delay.delay(reference).unwrap_or(Span::ZERO) + queue.max(path.delay.variation())
    }

    /// The channel that brings a message first.
    pub(super) fn fastest(&self, now: Time) -> Option<ChannelId> {
        self.earliest(now, self.channels.in_use(), None).map(|(channel, _)| channel)
    }

    /// How long a loss may hold up a flow. What waited behind it comes out at once, and what TCP then sends has to find room.
    pub(super) fn repair_time(&self) -> Span {
        let slowest = each(self.channels.usable).filter_map(|c| self.channels[c].path.most_rtt()).max();
        slowest.unwrap_or(Span::ZERO)
    }

    /// How long packets of each class are sent again.
    fn within(&self) -> [Span; CLASSES] {
        let usual = match self.repair_time() {
            Span::ZERO => FIRST_WITHIN,
            // A channel that fails is found out within about that.
            slowest => (slowest.times(2) + self.config.silent_after).max(LEAST_WITHIN),
        };
        let all = self.config.resend_within.unwrap_or(usual);
        [all, self.config.resend_within_ef.unwrap_or(all)]
    }

    /// When packets are given up.
    #[inline]
    pub(super) fn give_up_at(&self) -> Option<Time> {
        self.protect.keeper.as_ref()?.timeout(self.within())
    }

    /// Gives up what went too long ago, and has the peer told.
    pub(super) fn give_up_old(&mut self, now: Time) {
        let within = self.within();
        let Some(keeper) = &mut self.protect.keeper else { return };
        if keeper.expire(now, within, &mut self.stats) {
            self.outbox.idle_marker.get_or_insert(now + TELL_WITHIN);
        }
    }

    /// Does what is due about the end of what was sent on `channel`.
    pub(super) fn on_tail(&mut self, now: Time, channel: ChannelId) {
        if self.protect.keeper.is_none() {
            return;
        }
        let prompt = self.is_prompt();
        let due = self.channels[channel].path.poll_tail(now);
        self.settle(channel);
        match due {
            Due::Nothing => {}
            Due::Probe => {
                let c = &self.channels[channel];
                if let (Some(flight), Some(keeper)) = (&c.path.flight, &mut self.protect.keeper) {
                    for note in flight.open_notes().take(TAIL) {
                        keeper.lose(note, &mut self.stats);
                    }
                    self.outbox.asks |= bit(channel);
                }
            }
            // Nobody was heard: the peer does not run, or all channels are gone. There is no better one to send on.
            Due::Mute(probed) if !self.heard_elsewhere(channel, probed) => {}
            Due::Mute(_) => {
                self.lose_all(channel);
                if self.channels.usable & !bit(channel) != 0 && self.channels[channel].usable {
                    let path = &mut self.channels[channel].path;
                    path.signs.mute = true;
                    // It may be that long frames do not pass any more.
                    path.mtu.doubt(now);
                    path.ask_echo(now);
                    if prompt {
                        // Full frames ask there.
                        path.echoes = 0;
                    }
                    self.refresh(now, Reason::Silence);
                }
            }
        }
    }
}
