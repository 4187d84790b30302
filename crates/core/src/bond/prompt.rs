//! Packets for which delay counts more than anything else go by the channel that brings them first.
//!
//! What it is: in mode `reliable`, packets of certain classes, ICMP, TCP acknowledgements without data ([`acks`](super::acks)), and flows that send little
//! ([`sparse`](super::sparse)) go before all others, and pass the delay lines of the other end. A download's round trip then
//! has the slow channels' delay once and not twice, and its acknowledgements need no second channel.
//!
//! A packet of a flow bucket of which one waits here joins it, so that a flow is not put out of order. One that the fastest channel
//! has no time for goes by a slower one as soon as it has waited for what that takes longer, or what waits here would take so long. None waits longer than the
//! host queue's time. Cost: O(channels) a packet.

use super::Bond;
use super::channel::{bit, each};
use super::express::{Haste, is_urgent};
use super::frame::Transmit;
use super::keep::About;
use super::number::Numbers;
use super::treatment::Treatment;
use crate::ip::{Header, TCP};
use crate::packet::Packet;
use crate::path::delay::Reference;
use crate::units::{ChannelId, Span, Time};
use crate::wire::stamp::Stamp;

/// What another channel has to gain for it to be taken instead.
const GAIN: Span = Span::from_millis(10);

impl<P: Packet> Bond<P> {
    /// Whether a packet from the host goes before the others, how, and why.
    #[inline]
    pub(super) fn haste(
        &mut self,
        now: Time,
        header: &Header,
        bytes: &[u8],
        bucket: u16,
    ) -> Option<(Haste, Treatment)> {
        if !self.number.resends() || self.channels.usable == 0 {
            let goes_first = self.fragments.is_on() && self.channels.usable != 0 && is_urgent(header);
            return goes_first.then_some((Haste::Urgent, Treatment::Marked));
        }
        if is_urgent(header) {
            return Some((Haste::Urgent, Treatment::Marked));
        }
        let ingress = &mut self.ingress;
        let tcp = header.protocol == TCP;
        let sends_little = self.config.sparse && ingress.sparse.on_packet(now, bucket, header.total, tcp);
        if ingress.has(bucket) {
            // It would overtake them.
            return None;
        }
        if self.goes_as_ack(header, bytes, bucket) {
            return Some((Haste::Steady, Treatment::Acknowledges));
        }
        let ingress = &mut self.ingress;
        let first = sends_little && ingress.prompt.has_room(header.total) && ingress.sparse.admit(now, header.total);
        first.then_some((if tcp { Haste::Steady } else { Haste::Urgent }, Treatment::SendsLittle))
    }

    /// The next packet that is prompt, if a channel may send it.
    pub(super) fn next_prompt(&mut self, now: Time) -> Option<Transmit<P>> {
        let oldest = Time::from_nanos(now.as_nanos().saturating_sub(self.config.queue_time.as_nanos()));
        self.stats.queue_full += self.ingress.prompt.drop_before(oldest, &mut self.ingress.ledger);
        self.ingress.prompt.at = None;
        let waited = now.since(self.ingress.prompt.waiting.front()?.since);
        let set = self.channels.for_little();
        let (first, at) = self.first_for_prompt(now, self.ingress.prompt.by, set)?;
        let may = self.may_send(now, first);
        // Where the law is the reason that none may go, the next word of the peer is waited for.
        self.ingress.prompt.at = Some(at).filter(|at| *at > now);
        let channel = if may { first } else { self.prompt_by(now, first, waited.max(self.prompt_wait(first)), set)? };
        self.ingress.prompt.by = Some(channel);
        let queued = self.ingress.prompt.pop()?;
        queued.on_sent(now, &mut self.ingress.ledger);
        let stamp = match queued.note {
            Haste::Urgent => Stamp::NONE,
            Haste::Steady => Stamp::alone(now),
        };
        let about = About::of(&queued, Numbers { stamp, ..self.number.assign(queued.bucket) });
        let idle = self.ingress.prompt.is_empty() && self.ingress.queue.is_empty();
        Some(self.send(now, channel, queued.packet, about, idle, None))
    }

    /// How long what waits takes by `channel`, where that is worth a change, and at most as long as anything waits: who came last has that before him. Otherwise all would first
    /// wait for as long as a slower channel takes longer, and then go by that one.
    fn prompt_wait(&self, channel: ChannelId) -> Span {
        let c = &self.channels[channel];
        let takes = c.known_rate().map(|rate| rate.transmit_time(self.ingress.prompt.waits(c.config.overhead)));
        takes.filter(|takes| *takes >= GAIN).unwrap_or(Span::ZERO).min(self.config.queue_time)
    }

    /// The one of `channels` that brings a packet first, and when it may send: the one `before` unless another gains [`GAIN`] over it, because each
    /// change changes the round trip that TCP measures.
    pub(super) fn first_for_prompt(
        &self,
        now: Time,
        before: Option<ChannelId>,
        channels: u64,
    ) -> Option<(ChannelId, Time)> {
        let reference = self.channels.reference();
        let arrival = |channel: ChannelId| {
            let at = self.channels[channel].soon_at()?.max(now);
            Some((at + self.lately(channel, reference), channel, at))
        };
        let (arrives, best, at) = each(channels).filter_map(arrival).min()?;
        let other = before.filter(|by| *by != best && channels & bit(*by) != 0).and_then(arrival);
        Some(match other {
            Some((later, by, at)) if later.since(arrives) < GAIN => (by, at),
            _ => (best, at),
        })
    }

    /// The one of `channels` for a packet that has waited for so long, where `first`, which brings it first, may not send yet.
    pub(super) fn prompt_by(&self, now: Time, first: ChannelId, waited: Span, channels: u64) -> Option<ChannelId> {
        let reference = self.channels.reference();
        let least = self.lately(first, reference);
        let others = each(channels).filter(|c| self.may_send(now, *c)).map(|c| (self.lately(c, reference), c));
        others.filter(|(way, _)| *way - least <= waited).min().map(|(_, channel)| channel)
    }

    /// How long a packet that goes alone takes by `channel` now. What its packets usually took some time ago does not count.
    pub(super) fn lately(&self, channel: ChannelId, reference: Option<Reference>) -> Span {
        let path = &self.channels[channel].path;
        let queue = path.flight.as_ref().map_or(Span::ZERO, |flight| flight.queue());
        path.delay.delay(reference).unwrap_or(Span::ZERO) + queue.max(path.delay.jitter())
    }

    /// Whether a frame may go by `channel` now.
    pub(super) fn may_send(&self, now: Time, channel: ChannelId) -> bool {
        self.channels[channel].ready_at().is_some_and(|at| at <= now)
    }

    /// When the next prompt packet may go.
    #[inline]
    pub(super) fn prompt_at(&self) -> Option<Time> {
        self.ingress.prompt.at.filter(|_| !self.ingress.prompt.is_empty())
    }
}
