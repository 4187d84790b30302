//! Frames counted on each channel, and what the peer tells of them.
//!
//! A sender whose setting `feedback` is on counts its data frames, and whoever gets counted frames tells what arrived: on the
//! channel itself, or on another one where nothing can be sent there. What is told is measured by `core/path`.

use super::Bond;
use super::channel::each;
use super::event::Reason;
use crate::ip::ecn;
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::envelope::{COUNTED_LEN, Envelope, Feedback, Message};

impl<P: Packet> Bond<P> {
    /// A counted frame: a data message that does not count itself is behind its number.
    #[cold]
    pub(super) fn on_counted(&mut self, now: Time, channel: ChannelId, tag: u8, number: u32, mut frame: P, tos: u8) {
        let bytes = frame.size().as_u64() as usize;
        frame.strip(COUNTED_LEN);
        let inner = match Envelope::decode(frame.bytes()) {
            Ok(inner) => inner,
            Err(error) => return self.on_bad_frame(channel, error),
        };
        if !inner.message.is_plain_data() || inner.tag != tag {
            self.stats.bad_control += 1;
            self.channels[channel].stats.received_invalid += 1;
            return;
        }
        self.on_envelope(now, channel, inner, frame, tos);
        self.on_number(now, channel, tag, number, bytes, tos, false);
    }

    /// The frame `number` of `channel` arrived, of `bytes`, and was taken. `keeps`: its sender sends it again if it is lost.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_number(
        &mut self,
        now: Time,
        channel: ChannelId,
        tag: u8,
        number: u32,
        bytes: usize,
        tos: u8,
        keeps: bool,
    ) {
        // The packet may have told of a restart, after which the peer counts anew.
        if self.peer.is_current(tag) {
            self.peer.keeps = keeps;
            self.channels[channel].path.receipts.on_arrival(now, number, bytes, tos & 3 == ecn::CE);
            self.send_feedback(now, channel);
        }
    }

    /// Tells the peer what arrived on `channel`, if that is due. While no socket takes it, it waits: where a link's own queue is full all the time, a
    /// report that is due hardly ever finds one that does.
    pub(super) fn send_feedback(&mut self, now: Time, channel: ChannelId) {
        if self.channels[channel].path.receipts.timeout().is_none_or(|at| at > now) {
            return;
        }
        let Some(of) = self.peer.tag() else { return };
        let hurries = self.peer.keeps && self.channels[channel].path.receipts.tells_gap();
        let Some(by) = self.report_by(now, channel, hurries) else {
            return self.channels[channel].path.receipts.keep_back();
        };
        let Some(feedback) = self.channels[channel].path.receipts.poll(now, channel, of) else { return };
        self.send_control(by, Message::Feedback(feedback), 0);
    }

    /// By which channel the report on `channel` goes, if one takes it: by that one itself, or by the fastest where it `hurries`, since what is missing is sent
    /// again as soon as this is told. A socket that takes nothing is expected to do so for as long again as it has, and is waited for where no other channel is sooner.
    fn report_by(&self, now: Time, channel: ChannelId, hurries: bool) -> Option<ChannelId> {
        let blocked = |c: ChannelId| self.channels[c].path.signs.blocked;
        if !hurries && self.channels[channel].usable && blocked(channel).is_none() {
            return Some(channel);
        }
        let reference = self.channels.reference();
        let arrives = |c: &ChannelId| {
            let waits = blocked(*c).map_or(Span::ZERO, |since| now.since(since));
            self.way(*c, reference) + waits
        };
        // Where the law has no room, much was lost.
        let used = match hurries {
            true => {
                self.channels.in_use()
                    & self.channels.where_each(|c| c.path.signs.blocked.is_some() || c.path.has_room())
            }
            false => self.channels.usable,
        };
        each(used).min_by_key(arrives).or(Some(channel)).filter(|by| blocked(*by).is_none())
    }

    /// Reports that were kept back are due again.
    pub(super) fn release_reports(&mut self, now: Time) {
        for channel in each(self.channels.joined) {
            self.channels[channel].path.receipts.release(now);
            self.send_feedback(now, channel);
        }
    }

    /// The peer tells, on the channel `arrived`, what arrived of our frames.
    pub(super) fn on_feedback(&mut self, now: Time, arrived: ChannelId, tag: u8, feedback: Feedback) {
        if !self.peer.is_current(tag) || feedback.of != self.number.epoch() as u8 {
            self.stats.stale_epoch += 1;
            return;
        }
        let channel = feedback.channel;
        if !self.channels.has(channel) {
            self.stats.bad_channel += 1;
            return;
        }
        let mute = self.channels[channel].path.signs.mute;
        if !self.channels[channel].on_feedback(now, &feedback, arrived != channel) {
            self.stats.bad_control += 1;
        }
        self.settle_told(now, channel);
        self.look_for_detours(now, channel);
        if self.channels[channel].is_other_rate() {
            self.refresh_queue(now);
            self.refresh_classes(now);
        }
        if mute && !self.channels[channel].path.signs.mute {
            self.refresh(now, Reason::Silence);
        }
        self.look_whether_late(now, channel);
        // Also where nothing came of it before: what the others carry has changed meanwhile.
        let prompt = self.is_prompt();
        let path = &mut self.channels[channel].path;
        if path.worth.poll_too_much() && prompt {
            path.signs.lossy = true;
            if self.channels[channel].usable {
                self.refresh(now, Reason::Loss);
            }
        }
    }
}
