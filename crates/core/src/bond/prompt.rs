//! Packets for which delay counts more than anything else go by the channel that brings them first.
//!
//! What it is: in mode `reliable`, packets of certain classes, ICMP, and TCP acknowledgements without data that find the host queue
//! empty ([`Prompt`](super::express::Prompt)) go before all others, and pass the delay lines of the other end. A download's round trip then
//! has the slow channels' delay once and not twice, and its acknowledgements need no second channel.
//!
//! A packet of a flow bucket of which one waits here joins it, so that a flow is not put out of order. One that the fastest channel
//! has no time for goes by a slower one as soon as it has waited for what that takes longer. None waits longer than the host queue's
//! time. Cost: O(channels) a packet.

use super::Bond;
use super::channel::{bit, each};
use super::express::{Haste, is_acknowledgement, is_urgent};
use super::frame::Transmit;
use super::number::Numbers;
use super::queue::Queued;
use crate::ip::Header;
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::stamp::Stamp;

/// What another channel has to gain for it to be taken instead.
const GAIN: Span = Span::from_millis(10);

impl<P: Packet> Bond<P> {
    /// Whether a packet from the host goes before the others, and how.
    #[inline]
    pub(super) fn haste(&self, header: &Header, bytes: &[u8], bucket: u16) -> Option<Haste> {
        if !self.number.resends() || self.channels.usable == 0 {
            return None;
        }
        if is_urgent(header) {
            return Some(Haste::Urgent);
        }
        let steady =
            self.ingress.prompt.has(bucket) || self.ingress.queue.is_empty() && is_acknowledgement(header, bytes);
        steady.then_some(Haste::Steady)
    }

    /// The next packet that is prompt, if a channel may send it.
    pub(super) fn next_prompt(&mut self, now: Time) -> Option<Transmit<P>> {
        let oldest = Time::from_nanos(now.as_nanos().saturating_sub(self.config.queue_time.as_nanos()));
        self.stats.queue_full += self.ingress.prompt.drop_before(oldest);
        self.ingress.prompt.at = None;
        let waited = now.since(self.ingress.prompt.waiting.front()?.since);
        let in_use = self.channels.in_use();
        let (first, at) = self.first_for_prompt(now, self.ingress.prompt.by, in_use)?;
        if at > now {
            self.ingress.prompt.at = Some(at);
        }
        let channel = if at <= now { first } else { self.prompt_by(now, first, waited, in_use)? };
        self.ingress.prompt.by = Some(channel);
        let Queued { packet, bucket, tos, note, .. } = self.ingress.prompt.pop()?;
        let stamp = match note {
            Haste::Urgent => Stamp::NONE,
            Haste::Steady => Stamp::alone(now),
        };
        let numbers = Numbers { stamp, ..self.number.assign(bucket) };
        let idle = self.ingress.prompt.is_empty() && self.ingress.queue.is_empty();
        Some(self.send(now, channel, packet, bucket, numbers, tos, idle, None))
    }

    /// The one of `channels` that brings a packet first, and when it may send: the one `before` unless another gains [`GAIN`] over it, because each
    /// change changes the round trip that TCP measures.
    pub(super) fn first_for_prompt(
        &self,
        now: Time,
        before: Option<ChannelId>,
        channels: u64,
    ) -> Option<(ChannelId, Time)> {
        let best = self.earliest(now, channels, None)?;
        let Some(by) = before.filter(|by| *by != best.0 && channels & bit(*by) != 0) else { return Some(best) };
        let reference = self.channels.reference();
        let ready = self.channels[by].ready_at()?.max(now);
        let gain = (ready + self.way(by, reference)).since(best.1 + self.way(best.0, reference));
        Some(if gain < GAIN { (by, ready) } else { best })
    }

    /// The one of `channels` for a packet that has waited for so long, where `first`, which brings it first, may not send yet.
    pub(super) fn prompt_by(&self, now: Time, first: ChannelId, waited: Span, channels: u64) -> Option<ChannelId> {
        let reference = self.channels.reference();
        let least = self.way(first, reference);
        let ready = |c: &ChannelId| self.channels[*c].ready_at().is_some_and(|at| at <= now);
        let others = each(channels).filter(ready).map(|c| (self.way(c, reference), c));
        others.filter(|(way, _)| *way - least <= waited).min().map(|(_, channel)| channel)
    }

    /// When the next prompt packet may go.
    #[inline]
    pub(super) fn prompt_at(&self) -> Option<Time> {
        self.ingress.prompt.at.filter(|_| !self.ingress.prompt.is_empty())
    }
}
