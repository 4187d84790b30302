//! From the channels towards the host.

use super::Bond;
use super::channel::{bit, each};
use super::equalize::Arrival;
use super::event::{Event, Reason};
use super::frame::Codepoint;
use super::peer::Origin;
use crate::ip::{Header, ecn, mss};
use crate::packet::Packet;
use crate::path::state::Signs;
use crate::units::{ChannelId, Time};
use crate::wire::envelope::{Envelope, EnvelopeError, Extended, Heartbeat, Message, Probe};
use crate::wire::short::ahead;
use crate::wire::stamp::Stamp;

/// A peer whose first packet seen is numbered below this is taken to be at its start.
const AT_START: u32 = 4096;

/// A packet that passed all checks.
pub(super) struct Opened<P>(pub(super) P);

/// What a frame of mode `reliable` says of its packet.
pub(super) struct Kept {
    pub(super) bucket: u16,
    pub(super) sequence: u32,
    pub(super) bond: u32,
    pub(super) stamp: Stamp,
    /// It was sent before.
    pub(super) again: bool,
}

impl<P: Packet> Bond<P> {
    /// Takes a frame from `channel`. `tos` is the outer header's type of service, 0 where it is not known.
    ///
    /// Nothing that a frame holds makes this panic; what is not valid is counted in [`super::Stats`] and dropped.
    pub fn handle_channel(&mut self, now: Time, channel: ChannelId, codepoint: Codepoint, frame: P, tos: u8) {
        if !self.channels.has(channel) {
            self.stats.unknown_channel += 1;
            return;
        }
        if codepoint == Codepoint::Raw {
            return match self.stripes() {
                true => self.on_striped(now, channel, 0, frame, tos),
                // Of a peer whose policy chooses: its direction is its own to decide.
                false => self.on_raw_packet(now, channel, frame, tos),
            };
        }
        let envelope = match Envelope::decode(frame.bytes()) {
            Ok(envelope) => envelope,
            Err(error) => return self.on_bad_frame(channel, error),
        };
        match envelope.message {
            Message::Kept { number, .. } => {
                let bytes = frame.size().as_u64() as usize;
                self.on_envelope(now, channel, envelope, frame, tos);
                self.on_number(now, channel, envelope.tag, number, bytes, tos, true);
            }
            Message::Extended(Extended::Compressed(compressed)) => {
                self.on_compressed(now, channel, envelope.tag, compressed, frame, tos);
            }
            Message::Parity(parity) => self.on_parity(now, channel, envelope.tag, parity, frame, tos),
            Message::Counted { number } => self.on_counted(now, channel, envelope.tag, number, frame, tos),
            _ => self.on_envelope(now, channel, envelope, frame, tos),
        }
    }

    /// A frame with this envelope.
    #[inline]
    pub(super) fn on_envelope(&mut self, now: Time, channel: ChannelId, envelope: Envelope, frame: P, tos: u8) {
        match envelope.message {
            Message::Ordered { sequence, bond, .. } if self.confirms() => {
                self.on_confirmed(now, channel, envelope, (sequence, bond), frame, tos);
            }
            Message::Ordered { bucket, sequence, bond } => {
                if let Some(packet) = self.open(now, channel, envelope, Some(bond), frame, tos) {
                    self.on_carries(channel, bond);
                    let arrival = Arrival::Packet { bucket, number: sequence, bond, packet };
                    self.resequence.handle(now, channel, arrival, &mut self.stats);
                }
            }
            Message::Kept { again: Some(of), .. } if of != self.number.epoch() as u8 => {
                // Our process before may have delivered it.
                self.stats.stale_epoch += 1;
            }
            Message::Kept { bucket, sequence, bond, stamp, again, .. } => {
                let tagged = Some((envelope.tag, Some(bond)));
                let head = envelope.message.head_len();
                if let Some(checked) = self.check_packet(now, channel, head, frame, tagged) {
                    let kept = Kept { bucket, sequence, bond, stamp, again: again.is_some() };
                    self.on_kept(now, channel, kept, checked, tos);
                }
            }
            Message::Duplicate { bond } => {
                if let Some(packet) = self.open(now, channel, envelope, Some(bond), frame, tos) {
                    self.on_carries(channel, bond);
                    self.resequence.handle_copy(bond, packet, &mut self.stats);
                }
            }
            Message::Plain => {
                if let Some(packet) = self.open(now, channel, envelope, None, frame, tos) {
                    self.resequence.push(packet);
                }
            }
            Message::Extended(Extended::Fragment(part)) => {
                self.on_fragment(now, channel, (envelope.tag, part), frame, tos);
            }
            Message::StripeControl if !self.stripes() => {
                self.stats.unexpected_stripe += 1;
            }
            Message::Striped => self.on_striped(now, channel, envelope.message.head_len(), frame, tos),
            Message::StripeControl => self.on_stripe_control(now, channel, &frame),
            _ => self.on_control(now, channel, envelope),
        }
    }

    /// A packet of mode `reliable`, as its sender sent it.
    #[inline]
    pub(super) fn on_kept(
        &mut self,
        now: Time,
        channel: ChannelId,
        kept: Kept,
        (header, packet): (Header, P),
        tos: u8,
    ) {
        let Kept { bucket, sequence, bond, stamp, again } = kept;
        if stamp == Stamp::NONE {
            self.keep_for_parity(now, bucket, sequence, bond, &packet);
        }
        if let Some(Opened(packet)) = self.finish_packet(&header, packet, tos) {
            // What is not held to the delay of all does not make its channel one of those whose delay that is.
            if stamp != Stamp::NONE && !stamp.is_alone() {
                self.on_carries(channel, bond);
            }
            let arrival = Arrival::Kept { bucket, number: sequence, bond, packet };
            self.resequence.handle_kept(now, channel, stamp, again, arrival, &mut self.stats);
        }
        if stamp == Stamp::NONE && self.mender.as_ref().is_some_and(|mender| mender.waits(bucket)) {
            self.mend(now, channel, bucket);
        }
    }

    /// Checks a data frame with a tagged envelope and takes the envelope off.
    #[inline]
    pub(super) fn open(
        &mut self,
        now: Time,
        channel: ChannelId,
        envelope: Envelope,
        bond: Option<u32>,
        frame: P,
        tos: u8,
    ) -> Option<P> {
        let tagged = Some((envelope.tag, bond));
        let Opened(packet) = self.open_packet(now, channel, envelope.message.head_len(), frame, tos, tagged)?;
        Some(packet)
    }

    /// The peer sent number `bond` on `channel`: it uses it, whatever its heartbeats said before.
    #[inline]
    pub(super) fn on_carries(&mut self, channel: ChannelId, bond: u32) {
        if self.peer.using & bit(channel) == 0 && self.peer.high().is_none_or(|high| ahead(bond, high) > 0) {
            self.peer.using |= bit(channel);
            self.refresh_waits();
        }
    }

    /// Checks the packet behind `head` bytes of envelope, and does to it what a packet at the tunnel's exit is due.
    #[inline]
    pub(super) fn open_packet(
        &mut self,
        now: Time,
        channel: ChannelId,
        head: usize,
        frame: P,
        tos: u8,
        tagged: Option<(u8, Option<u32>)>,
    ) -> Option<Opened<P>> {
        let (header, frame) = self.check_packet(now, channel, head, frame, tagged)?;
        self.finish_packet(&header, frame, tos)
    }

    /// Checks the packet behind `head` bytes of envelope: the packet as its sender sent it.
    #[inline]
    pub(super) fn check_packet(
        &mut self,
        now: Time,
        channel: ChannelId,
        head: usize,
        mut frame: P,
        tagged: Option<(u8, Option<u32>)>,
    ) -> Option<(Header, P)> {
        if head > 0 {
            frame.strip(head);
        }
        let len = frame.bytes().len();
        let header = match Header::parse(frame.bytes(), frame.size().as_u64() as usize) {
            Ok(header) if header.total <= frame.size().as_u64() as usize => header,
            _ => {
                self.stats.bad_packet += 1;
                self.channels[channel].stats.received_invalid += 1;
                return None;
            }
        };
        if let Some((tag, bond)) = tagged
            && !self.peer.is_current(tag)
            && !self.on_other_tag(now, tag, bond)
        {
            self.stats.stale_epoch += 1;
            return None;
        }
        let c = &mut self.channels[channel];
        c.stats.received_packets += 1;
        c.stats.received_bytes += frame.size().as_u64() + head as u64;
        self.on_heard(now, channel);
        self.on_traffic(now);
        if header.total < len {
            frame.truncate(header.total);
        }
        Some((header, frame))
    }

    /// Does to a packet what it is due at the tunnel's exit.
    #[inline]
    pub(super) fn finish_packet(&mut self, header: &Header, mut frame: P, tos: u8) -> Option<Opened<P>> {
        if (tos ^ header.tos) & 3 != 0 && !self.on_ecn(header, &mut frame, tos) {
            return None;
        }
        if self.config.clamp_mss && mss::is_syn(header, frame.bytes()) {
            self.clamp(header, &mut frame);
        }
        Some(Opened(frame))
    }

    /// Carries the outer header's congestion mark over; `false`: the packet is to be dropped.
    fn on_ecn(&mut self, header: &Header, packet: &mut P, tos: u8) -> bool {
        let exit = ecn::exit(header.tos, tos);
        // An outer field of zero also stands for "not known", so it is never odd here.
        self.stats.ecn_odd += u64::from(exit.odd && tos & 3 != 0);
        match exit.ecn {
            Some(field) if field != header.tos & 3 => ecn::set(packet.bytes_mut(), header.version, field),
            Some(_) => {}
            None => {
                self.stats.ecn_dropped += 1;
                return false;
            }
        }
        true
    }

    /// A data frame that is the packet itself.
    fn on_raw_packet(&mut self, now: Time, channel: ChannelId, frame: P, tos: u8) {
        if let Some(Opened(packet)) = self.open_packet(now, channel, 0, frame, tos, None) {
            self.resequence.push(packet);
        }
    }

    #[cold]
    pub(super) fn on_bad_frame(&mut self, channel: ChannelId, error: EnvelopeError) {
        self.stats.on_bad_envelope(&error);
        self.channels[channel].stats.received_invalid += 1;
        if let EnvelopeError::Version { theirs } = error
            && self.peer.is_first_of_version()
        {
            self.event(Event::PeerVersion { channel, theirs });
        }
    }

    /// A valid frame arrived on `channel`.
    #[inline]
    pub(super) fn on_heard(&mut self, now: Time, channel: ChannelId) {
        let heartbeat = self.config.heartbeat;
        let c = &mut self.channels[channel];
        c.path.signs.life.on_heard(now, heartbeat);
        c.stats.last_heard = Some(now);
        if self.channels.unwell & !bit(channel) != 0 {
            self.on_heard_elsewhere(now, channel);
        }
        let c = &mut self.channels[channel];
        if c.path.signs.silent {
            c.path.signs.silent = false;
            self.refresh(now, Reason::Silence);
        }
    }

    fn on_control(&mut self, now: Time, channel: ChannelId, envelope: Envelope) {
        let named = match envelope.message {
            Message::Heartbeat(h) => h.channel,
            Message::EchoRequest(e) | Message::EchoReply { echo: e, .. } => e.channel,
            Message::Probe(p) | Message::ProbeAnswer(p) => p.channel,
            // Feedback may go round a link that carries one way only.
            _ => channel,
        };
        let c = &mut self.channels[channel];
        if named != channel {
            c.stats.received_invalid += 1;
            self.stats.bad_channel += 1;
            return;
        }
        c.stats.received_control += 1;
        match envelope.message {
            Message::Heartbeat(heartbeat) => return self.on_heartbeat(now, channel, heartbeat),
            Message::EchoRequest(echo) => {
                self.send_control(channel, Message::EchoReply { echo, arrived: now.as_nanos() }, 0);
                if self.peer.is_current(envelope.tag) && !echo.train {
                    self.resequence.measured(now, channel, echo.clock);
                }
            }
            Message::EchoReply { echo, arrived } if echo.train => {
                let rate = self.channels[channel].path.on_train(now, (echo.token, echo.clock), arrived);
                self.on_path_rate(now, channel, rate);
            }
            Message::EchoReply { echo, arrived } => {
                let sent = Time::from_nanos(echo.clock);
                if self.on_flush_echo(now, echo.token) {
                    if sent <= now {
                        self.channels[channel].on_rtt(now.since(sent));
                        self.refresh_delays(now);
                    }
                    return self.on_heard(now, channel);
                }
                let c = &mut self.channels[channel];
                let lossy = c.path.signs.lossy;
                if c.path.on_answered(now, echo.token, sent, arrived) {
                    c.on_rtt(now.since(sent));
                    let mute = core::mem::take(&mut c.path.signs.mute);
                    let well = lossy && !c.path.signs.lossy;
                    self.refresh_delays(now);
                    if mute {
                        self.refresh(now, Reason::Silence);
                    }
                    if well {
                        self.refresh(now, Reason::Loss);
                    }
                    self.look_whether_late(now, channel);
                }
            }
            Message::Probe(probe) => self.send_control(channel, Message::ProbeAnswer(probe), 0),
            Message::ProbeAnswer(probe) => self.on_probe_answer(now, channel, probe),
            Message::Feedback(feedback) => self.on_feedback(now, channel, envelope.tag, feedback),
            Message::Extended(Extended::Unknown { reference }) => self.on_unknown(envelope.tag, reference),
            _ => {}
        }
        self.on_heard(now, channel);
        if matches!(envelope.message, Message::EchoRequest(echo) | Message::EchoReply { echo, .. } if echo.train) {
            self.channels[channel].path.on_train_frame(now, self.config.heartbeat);
        }
    }

    fn on_probe_answer(&mut self, now: Time, channel: ChannelId, probe: Probe) {
        let c = &mut self.channels[channel];
        let before = (c.path.mtu.current(), c.path.mtu.confirmed());
        c.path.mtu.on_answer(now, probe.token, (probe.size as usize).saturating_add(c.config.overhead));
        if before != (c.path.mtu.current(), c.path.mtu.confirmed()) {
            self.on_path_mtu(channel);
        }
    }

    fn on_heartbeat(&mut self, now: Time, channel: ChannelId, heartbeat: Heartbeat) {
        if !self.on_epoch(now, heartbeat) {
            self.stats.stale_epoch += 1;
            return;
        }
        self.on_heard(now, channel);
        self.resequence.set_paced(channel, heartbeat.paced);
        if self.peer.is_newest(&heartbeat) {
            self.peer.expands = heartbeat.expands;
            self.peer.mends = heartbeat.mends;
            self.peer.joins = heartbeat.joins;
            if heartbeat.using != self.peer.using {
                self.peer.using = heartbeat.using;
                self.refresh_waits();
            }
            // Of a channel that has just come up the peer's first heartbeats were sent before it could hear anything there.
            // Without `silent_after`, who was heard there once and is no more has left, as where a channel is removed: nothing goes again there.
            let prompt = self.is_prompt();
            let waits = |signs: &Signs| prompt || self.config.await_hearing && !signs.heard;
            let is_new = |signs: &Signs| waits(signs) && now.since(signs.began) < self.config.dead_after;
            let new = self.channels.where_each(|c| is_new(&c.path.signs));
            for heard in each(self.channels.joined & !heartbeat.deaf) {
                self.channels[heard].path.signs.heard = true;
            }
            let deaf = heartbeat.deaf & !new | self.peer.deaf & new;
            if deaf != self.peer.deaf && self.peer.may_upset(now) {
                self.peer.deaf = deaf;
                self.refresh(now, Reason::PeerNotice);
            }
        }
        if self.confirms() {
            return self.on_confirmed_mark(now, channel, heartbeat.high);
        }
        let arrival = Arrival::Marker { high: heartbeat.high };
        self.resequence.handle(now, channel, arrival, &mut self.stats);
    }

    /// Whether a heartbeat is of the peer's present epoch, or of a new one, which is adopted.
    fn on_epoch(&mut self, now: Time, heartbeat: Heartbeat) -> bool {
        let origin = self.peer.origin(now, heartbeat.epoch);
        if origin == Origin::New {
            self.adopt(now, heartbeat.epoch as u8, Some(heartbeat.epoch), heartbeat.high);
        }
        origin != Origin::Stale
    }

    /// A data frame with another tag than the peer's present epoch: whether it is to be taken.
    #[cold]
    pub(super) fn on_other_tag(&mut self, now: Time, tag: u8, bond: Option<u32>) -> bool {
        let origin = self.peer.origin_of_tag(now, tag);
        if origin == Origin::New {
            self.adopt(now, tag, None, bond.unwrap_or(0));
        }
        origin != Origin::Stale
    }

    /// The peer is met for the first time, or has restarted.
    fn adopt(&mut self, now: Time, tag: u8, epoch: Option<u32>, number: u32) {
        let restarted = self.peer.adopt(now, tag, epoch);
        self.channels.forget_peer();
        self.forget_kept();
        self.compressed.forget_peer();
        // A peer that restarted counts from the start; one that we meet for the first time may be long on its way.
        self.confirm.reset();
        self.fragments.forget_peer(restarted);
        self.resequence.reset(now, restarted || number < AT_START, &mut self.stats);
        self.refresh_waits();
        if restarted {
            self.stats.peer_restarts += 1;
            self.event(Event::PeerRestarted { epoch: epoch.unwrap_or(u32::from(tag)) });
        }
        if self.peer.deaf != 0 {
            self.peer.deaf = 0;
            self.refresh(now, Reason::PeerNotice);
        }
        // It knows nothing of us either.
        for channel in each(self.channels.joined) {
            self.channels[channel].path.ask_echo(now);
        }
        self.announce(now);
    }
}
