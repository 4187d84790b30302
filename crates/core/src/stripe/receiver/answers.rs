//! What the receiver answers: acknowledgements, credit, requests for a new epoch.

use super::Receiver;
use crate::causal::set;
use crate::packet::Packet;
use crate::units::{ChannelId, Time};
use crate::wire::marker::{Ack, Grant};

impl<P: Packet> Receiver<P> {
    /// Asks for a new epoch, at once if that was not asked just now.
    pub(super) fn ask(&mut self, now: Time, epoch: u32, bit: u64) {
        if self.asking.is_none() {
            self.reply |= bit;
            self.ask_span = self.config.request_interval;
            self.ask_at = now + self.ask_span;
        }
        self.asking = Some(epoch);
        self.on_heard(now, bit);
    }

    /// The epoch that is believed in is alive: what was asked about was a stray of another.
    pub(super) fn on_alive(&mut self) {
        if self.asking.is_some_and(|e| Some(e) != self.epoch) {
            self.asking = None;
            self.ask_at = Time::MAX;
        }
    }

    /// Something came by these channels: a reset can be asked for there.
    pub(super) fn on_heard(&mut self, now: Time, bit: u64) {
        self.heard |= bit;
        if self.asking.is_some() && self.ask_at == Time::MAX {
            self.ask_at = now;
        }
    }

    /// As [`ask_again`](Self::ask_again), where no clock is at hand: by the timer, which is due at once.
    pub(super) fn ask_soon(&mut self) {
        if self.asking.is_none() {
            self.asking = self.epoch;
            self.heard = self.open;
            self.ask_span = self.config.request_interval;
            self.ask_at = Time::ZERO;
        }
    }

    pub(super) fn ask_again(&mut self, now: Time) {
        if let Some(epoch) = self.epoch {
            self.ask(now, epoch, self.open);
        }
    }

    /// The next answer to send on its channel.
    pub fn poll_reply(&mut self) -> Option<(ChannelId, Ack)> {
        let channel = set::bits(self.reply).next()?;
        self.reply &= !set::bit(channel);
        let epoch = self.asking.or(self.epoch).unwrap_or(0);
        let grant = self.grant(channel);
        if let (Some(g), Some(c)) = (&grant, self.channel.get_mut(channel.index())) {
            c.arrivals.on_told(g.bytes);
        }
        let ack = Ack {
            epoch,
            channel,
            generation: self.pending.back().map_or(self.generation, |p| p.generation),
            applied: self.generation,
            seen: self.seen,
            reset: self.asking.is_some(),
            grant: grant.map(|g| (g.bytes, g.packets)),
        };
        Some((channel, ack))
    }

    /// The grant for `channel` to put on a marker of the reverse direction; `None` while the channel is not open.
    pub fn grant(&self, channel: ChannelId) -> Option<Grant> {
        let epoch = self.epoch?;
        let c = self.channel.get(channel.index()).filter(|_| self.open & set::bit(channel) != 0)?;
        let (bytes, packets) = c.arrivals.grant((c.bytes, c.packets), self.limit);
        Some(Grant { epoch, bytes, packets })
    }

    /// When [`handle_timeout`](Receiver::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        (self.asking.is_some() && self.ask_at != Time::MAX).then_some(self.ask_at)
    }

    /// Repeats a request for a reset that is due at `now`, where anything was heard of the sender since.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.asking.is_none() || self.ask_at > now {
            return;
        }
        if self.heard == 0 {
            self.ask_at = Time::MAX;
            return;
        }
        self.reply |= self.heard;
        self.heard = 0;
        let most = self.config.request_interval.times(32);
        self.ask_span = self.ask_span.times(2).min(most);
        self.ask_at = now + self.ask_span;
    }
}
