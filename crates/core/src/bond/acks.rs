//! TCP acknowledgements leave room on a channel, and where there are too many, each gives its place to a later one.
//!
//! What it is: in mode `reliable`, where the way back is much thinner than the way there. For 231 Mbit/s 9,600 acknowledgements a second go back, and
//! each takes some 90 bytes with the tunnel's headers: 6.8 Mbit/s. A way back that carries less is full of them. Whoever sends by it then waits for them,
//! they wait for each other, and the download has as much as they tell of: 150 Mbit/s where 5 Mbit/s go back, where the link by itself
//! gives 222, since there they are dropped, and each tells what those before it told.
//!
//! So all together have a part of the rate of their channel ([`ack_share`](super::ack_share)). What is more waits, and where that lasts, each gives its place
//! to a later one of its connection ([`ack_line`](super::ack_line)): at most one of a connection waits then, but for duplicates and the like.
//!
//! Those that find no packet of their own flow bucket in the host queue go before what waits there. So a download beside an upload has the round trip of its
//! own way, and not the upload's queue and the delay of the slowest channel that the upload has.
//!
//! With `ack_filter = false`, and where the rate of the channel is not known, they go only while nothing else waits, since they could take all.
//!
//! Source: RFC 3449, sections 5.2.1 (filtering) and 5.4.1 (going first), as far as nothing is lost by it. Cost: O(1) a packet, and O(channels) for one that leaves.
//! Invariant: acknowledgements of a flow bucket keep their order. Data of their connection may pass them: it tells what they tell.

use super::Bond;
use super::ack_line::Came;
use super::channel::Channel;
use super::express::Haste;
use super::frame::Transmit;
use super::keep::About;
use super::number::Numbers;
use super::queue::Queued;
use crate::ip::{Header, acknowledgement};
use crate::packet::Packet;
use crate::units::{Bytes, Time};
use crate::wire::stamp::Stamp;

impl<P: Packet> Bond<P> {
    /// Whether a packet of this flow bucket, of which none waits in the host queue, goes as an acknowledgement does.
    #[inline]
    pub(super) fn goes_as_ack(&self, header: &Header, bytes: &[u8], bucket: u16) -> bool {
        let ingress = &self.ingress;
        let bounded = self.config.ack_filter && ingress.sparse.knows_rate();
        ingress.prompt.has(bucket) || (bounded || ingress.queue.is_empty()) && acknowledgement::is_alone(header, bytes)
    }

    /// An acknowledgement from the host, or what comes behind one that waits.
    #[inline]
    pub(super) fn acknowledge(&mut self, header: &Header, queued: Queued<P, Haste>) {
        if !self.config.ack_filter || self.ingress.prompt.has(queued.bucket) {
            return self.go_first(queued);
        }
        let account = queued.account;
        match self.ingress.acks.push(header, queued) {
            Came::Waits => {}
            Came::Replaces(account) => {
                self.stats.acks_superseded += 1;
                self.ingress.ledger.on_dropped(account);
            }
            Came::Refused => {
                self.stats.queue_full += 1;
                self.ingress.ledger.on_dropped(account);
            }
        }
    }

    /// The next acknowledgement, if a channel may send it.
    pub(super) fn next_ack(&mut self, now: Time) -> Option<Transmit<P>> {
        let oldest = Time::from_nanos(now.as_nanos().saturating_sub(self.config.queue_time.as_nanos()));
        self.stats.queue_full += self.ingress.acks.drop_before(oldest, &mut self.ingress.ledger);
        self.ingress.acks.line.at = None;
        let waited = self.ingress.acks.waited(now)?;
        let set = self.channels.for_little();
        let (first, at) = self.first_for_prompt(now, self.ingress.prompt.by, set)?;
        let at = at.max(self.channels[first].acks.at());
        // Where the law is the reason that none may go, the next word of the peer is waited for.
        self.ingress.acks.line.at = Some(at).filter(|at| *at > now);
        let channel = if self.may_send(now, first) { first } else { self.prompt_by(now, first, waited, set)? };
        let room = self.channels[channel].acks.at();
        if room > now {
            let at = &mut self.ingress.acks.line.at;
            *at = Some(at.map_or(room, |at| at.min(room)));
            return None;
        }
        self.ingress.prompt.by = Some(channel);
        let queued = self.ingress.acks.pop()?;
        queued.on_sent(now, &mut self.ingress.ledger);
        let about = About::of(&queued, Numbers { stamp: Stamp::alone(now), ..self.number.assign(queued.bucket) });
        let before = self.channels[channel].stats.sent_bytes;
        let idle = self.ingress.prompt.is_empty() && self.ingress.queue.is_empty();
        let frame = self.send(now, channel, queued.packet, about, idle, None);
        let waits = !self.ingress.queue.is_empty();
        self.channels[channel].on_ack_sent(now, before, waits);
        Some(frame)
    }

    /// When the next acknowledgement may go.
    #[inline]
    pub(super) fn ack_at(&self) -> Option<Time> {
        self.ingress.acks.line.at.filter(|_| !self.ingress.acks.line.is_empty())
    }
}

impl Channel {
    /// An acknowledgement went; `before`: bytes that were sent before it. `waits`: whether other packets wait.
    fn on_ack_sent(&mut self, now: Time, before: u64, waits: bool) {
        let size = Bytes::new(self.stats.sent_bytes - before);
        let control = self.path.control.as_ref();
        let crowded = waits || control.is_some_and(|control| control.has_queue());
        // Also where it is the only one, which has no pace.
        if let Some(rate) = self.rate.or_else(|| control?.measured_rate()) {
            self.acks.on_sent(now, size, rate, crowded, self.rate.is_some());
        }
    }
}
