//! From the channels towards the host.

use super::channel::{bit, each};
use super::equalize::Arrival;
use super::window::Verdict;
use super::{Bond, Codepoint, Event, Mode, Reason};
use crate::ip::{Header, ecn, mss};
use crate::link::pacing::Pacer;
use crate::packet::Packet;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use crate::wire::envelope::{Envelope, EnvelopeError, Heartbeat, Message, Probe, is_after};

/// How long frames from before the peer's restart are told from those of yet another restart.
const STALE_FOR: Span = Span::from_secs(10);
/// How many restarts and changes of what it hears a peer may make in a second, and at once.
const UPSETS_PER_SECOND: u64 = 50;
const UPSETS_AT_ONCE: u64 = 100;
/// What the pacer counts for each.
const UPSET: usize = 1000;
/// A peer whose first packet seen is numbered below this is taken to be at its start.
const AT_START: u32 = 4096;

/// Bounds what a peer may upset.
pub(super) fn upsets() -> Pacer {
    let rate = Rate::from_bits_per_sec(UPSETS_PER_SECOND * UPSET as u64 * 8);
    Pacer::new(rate, Bytes::new((UPSETS_AT_ONCE - 1) * UPSET as u64))
}

/// What is known of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// The tag of its epoch, and the epoch once a heartbeat told it.
    epoch: Option<(u8, Option<u32>)>,
    /// The epoch before, until when frames with it are stale.
    before: Option<(u8, Option<u32>, Time)>,
    /// The newest heartbeat's number and high water.
    heartbeat: Option<(u32, u32)>,
    /// The channels that it sends data on.
    pub(super) using: u64,
    /// The channels that it hears nothing on.
    pub(super) deaf: u64,
    told_version: bool,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { epoch: None, before: None, heartbeat: None, using: u64::MAX, deaf: 0, told_version: false }
    }
}

/// A packet that passed all checks.
pub(super) struct Opened<P>(pub(super) P);

impl<P: Packet> Bond<P> {
    /// Takes a frame from `channel`. `tos` is the outer header's type of service, 0 where it is not known.
    ///
    /// Nothing that a frame holds makes this panic; what is not valid is counted in [`super::Stats`] and dropped.
    pub fn handle_channel(&mut self, now: Time, channel: ChannelId, codepoint: Codepoint, frame: P, tos: u8) {
        if !self.has(channel) {
            self.stats.unknown_channel += 1;
            return;
        }
        if codepoint == Codepoint::Raw {
            return match self.config.mode {
                Mode::Stripe => self.on_striped(now, channel, 0, frame, tos),
                // Of a peer in mode `flow`: its direction is its own to decide.
                _ => self.on_raw_packet(now, channel, frame, tos),
            };
        }
        let envelope = match Envelope::decode(frame.bytes()) {
            Ok(envelope) => envelope,
            Err(error) => return self.on_bad_frame(channel, error),
        };
        match envelope.message {
            Message::Ordered { bucket, sequence, bond } => {
                if let Some(packet) = self.open(now, channel, envelope, Some(bond), frame, tos) {
                    self.arrive(now, channel, Arrival::Packet { bucket, number: sequence, bond, packet });
                }
            }
            Message::Duplicate { bond } => {
                if let Some(packet) = self.open(now, channel, envelope, Some(bond), frame, tos) {
                    match self.window.accept(bond) {
                        Verdict::New => self.ordered.push(packet),
                        Verdict::Seen => self.stats.duplicates += 1,
                        Verdict::Beyond => self.stats.beyond_window += 1,
                    }
                }
            }
            Message::Plain => {
                if let Some(packet) = self.open(now, channel, envelope, None, frame, tos) {
                    self.ordered.push(packet);
                }
            }
            Message::StripeControl if self.config.mode != Mode::Stripe => {
                self.stats.unexpected_stripe += 1;
            }
            Message::Striped => self.on_striped(now, channel, envelope.message.head_len(), frame, tos),
            Message::StripeControl => self.on_stripe_control(now, channel, &frame),
            _ => self.on_control(now, channel, envelope),
        }
    }

    /// Checks a data frame with a tagged envelope and takes the envelope off.
    #[inline]
    fn open(
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
        if self.peer.using & bit(channel) == 0
            && let Some(bond) = bond
            && self.peer.heartbeat.is_none_or(|(_, high)| is_after(bond, high))
        {
            self.peer.using |= bit(channel);
            self.refresh_waits();
        }
        Some(packet)
    }

    /// Checks the packet behind `head` bytes of envelope, and does to it what a packet at the tunnel's exit is due.
    #[inline]
    pub(super) fn open_packet(
        &mut self,
        now: Time,
        channel: ChannelId,
        head: usize,
        mut frame: P,
        tos: u8,
        tagged: Option<(u8, Option<u32>)>,
    ) -> Option<Opened<P>> {
        if head > 0 {
            frame.strip(head);
        }
        let len = frame.bytes().len();
        let header = match Header::parse(frame.bytes(), frame.size().as_u64() as usize) {
            Ok(header) if header.total <= frame.size().as_u64() as usize => header,
            _ => {
                self.stats.bad_packet += 1;
                self.channels[channel.index()].stats.received_invalid += 1;
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
        let c = &mut self.channels[channel.index()];
        c.stats.received_packets += 1;
        c.stats.received_bytes += frame.size().as_u64() + head as u64;
        self.on_heard(now, channel);
        self.on_traffic(now);
        if header.total < len {
            frame.truncate(header.total);
        }
        if (tos ^ header.tos) & 3 != 0 && !self.on_ecn(&header, &mut frame, tos) {
            return None;
        }
        if self.config.clamp_mss && mss::is_syn(&header, frame.bytes()) {
            self.clamp(&header, &mut frame);
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

    /// Gives the ordered receiver an arrival, at once or when its channel's delay is made up for.
    #[inline]
    fn arrive(&mut self, now: Time, channel: ChannelId, arrival: Arrival<P>) {
        let room = self.equalizer_room();
        match self.equalizer.hold(now, channel, arrival, room) {
            Some(arrival) => self.take(now, channel, arrival),
            // It may have gone behind others although there was no room for it.
            None if self.equalizer.used() > room => self.release_delayed(now),
            None => self.limit_order(),
        }
    }

    /// Delay lines and packets behind gaps share one bound.
    #[inline]
    fn limit_order(&mut self) {
        self.ordered.set_limit(self.config.hold_bytes.saturating_sub(self.equalizer.used()));
    }

    #[inline]
    fn take(&mut self, now: Time, channel: ChannelId, arrival: Arrival<P>) {
        match arrival {
            Arrival::Packet { bucket, number, bond, packet } => {
                self.ordered.handle(now, channel, bucket, number, bond, packet, &mut self.stats);
            }
            Arrival::Marker { high } => self.ordered.on_marker(channel, high, &mut self.stats),
        }
    }

    /// Takes what the delay lines are to release by now.
    pub(super) fn release_delayed(&mut self, now: Time) {
        let busy = self.equalizer.busy();
        while let Some((channel, arrival)) = self.equalizer.release(now, self.equalizer_room()) {
            self.limit_order();
            self.take(now, channel, arrival);
        }
        if busy & !self.bringing & !self.equalizer.busy() != 0 {
            // The last of a channel that brings no more has come out.
            self.refresh_waits();
        }
    }

    /// Takes all that waits in the delay lines.
    fn flush_delayed(&mut self, now: Time) {
        while let Some((channel, arrival)) = self.equalizer.release(Time::MAX, 0) {
            self.limit_order();
            self.take(now, channel, arrival);
        }
    }

    /// Memory that the delay lines may take: at most half of the bound.
    fn equalizer_room(&self) -> usize {
        (self.config.hold_bytes / 2).min(self.config.hold_bytes.saturating_sub(self.ordered.used()))
    }

    /// Works out the delays anew: a transit was measured, or other channels bring data.
    pub(super) fn refresh_delays(&mut self) {
        if self.config.mode == Mode::Ordered {
            self.equalizer.set(self.bringing);
        }
    }

    #[cold]
    fn on_bad_frame(&mut self, channel: ChannelId, error: EnvelopeError) {
        self.stats.on_bad_envelope(&error);
        self.channels[channel.index()].stats.received_invalid += 1;
        if let EnvelopeError::Version { theirs } = error
            && !self.peer.told_version
        {
            self.peer.told_version = true;
            self.event(Event::PeerVersion { channel, theirs });
        }
    }

    /// A valid frame arrived on `channel`.
    #[inline]
    pub(super) fn on_heard(&mut self, now: Time, channel: ChannelId) {
        let c = &mut self.channels[channel.index()];
        c.heard = now;
        c.stats.last_heard = Some(now);
        if c.silent {
            c.silent = false;
            self.refresh(now, Reason::Silence);
        }
    }

    fn on_control(&mut self, now: Time, channel: ChannelId, envelope: Envelope) {
        let named = match envelope.message {
            Message::Heartbeat(h) => h.channel,
            Message::EchoRequest(e) | Message::EchoReply { echo: e, .. } => e.channel,
            Message::Probe(p) | Message::ProbeAnswer(p) => p.channel,
            _ => channel,
        };
        let c = &mut self.channels[channel.index()];
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
                if self.peer.is_current(envelope.tag) {
                    self.equalizer.measured(now, channel, echo.clock);
                    self.refresh_delays();
                }
            }
            Message::EchoReply { echo, arrived } => {
                let sent = Time::from_nanos(echo.clock);
                if self.on_flow_echo(now, echo.token) {
                    if sent <= now {
                        self.channels[channel.index()].on_rtt(now.since(sent));
                        self.refresh_flow_delays();
                    }
                    return self.on_heard(now, channel);
                }
                let c = &mut self.channels[channel.index()];
                if c.echo.take_if(|(token, first)| *token == echo.token && (*first..=now).contains(&sent)).is_some() {
                    c.on_rtt(now.since(sent));
                    c.path.answered(now, sent, arrived);
                    c.unanswered = None;
                    self.refresh_flow_delays();
                }
            }
            Message::Probe(probe) => self.send_control(channel, Message::ProbeAnswer(probe), 0),
            Message::ProbeAnswer(probe) => self.on_probe_answer(now, channel, probe),
            _ => {}
        }
        self.on_heard(now, channel);
    }

    fn on_probe_answer(&mut self, now: Time, channel: ChannelId, probe: Probe) {
        let c = &mut self.channels[channel.index()];
        let before = (c.pmtu.current(), c.pmtu.confirmed());
        c.pmtu.on_answer(now, probe.token, (probe.size as usize).saturating_add(c.config.overhead));
        if before != (c.pmtu.current(), c.pmtu.confirmed()) {
            self.on_path_mtu(channel);
        }
    }

    fn on_heartbeat(&mut self, now: Time, channel: ChannelId, heartbeat: Heartbeat) {
        if !self.on_epoch(now, heartbeat) {
            self.stats.stale_epoch += 1;
            return;
        }
        self.on_heard(now, channel);
        if self.peer.heartbeat.is_none_or(|(number, _)| is_after(heartbeat.number, number)) {
            self.peer.heartbeat = Some((heartbeat.number, heartbeat.high));
            if heartbeat.using != self.peer.using {
                self.peer.using = heartbeat.using;
                self.refresh_waits();
            }
            if heartbeat.deaf != self.peer.deaf && self.may_upset(now) {
                self.peer.deaf = heartbeat.deaf;
                self.refresh(now, Reason::PeerNotice);
            }
        }
        self.arrive(now, channel, Arrival::Marker { high: heartbeat.high });
    }

    /// Whether a heartbeat is of the peer's present epoch, or of a new one, which is adopted.
    fn on_epoch(&mut self, now: Time, heartbeat: Heartbeat) -> bool {
        let (tag, epoch) = (heartbeat.epoch as u8, heartbeat.epoch);
        match self.peer.epoch {
            Some((_, Some(known))) if known == epoch => return true,
            Some((known, None)) if known == tag => {
                self.peer.epoch = Some((tag, Some(epoch)));
                return true;
            }
            _ => {}
        }
        if self.peer.before.is_some_and(|(_, before, until)| before == Some(epoch) && now < until) {
            return false;
        }
        if !self.may_upset(now) {
            return false;
        }
        self.adopt(now, tag, Some(epoch), heartbeat.high);
        true
    }

    /// Whether the peer may make us start over now: a restart, or another word on what it hears, costs us far more than
    /// the frame costs it, so only so many are heeded. What is not comes again with the next heartbeat.
    fn may_upset(&mut self, now: Time) -> bool {
        let may = self.upsets.ready_at() <= now;
        if may {
            self.upsets.on_sent(now, UPSET);
        }
        may
    }

    /// A data frame with another tag than the peer's present epoch: whether it is to be taken.
    #[cold]
    fn on_other_tag(&mut self, now: Time, tag: u8, bond: Option<u32>) -> bool {
        if self.peer.before.is_some_and(|(before, _, until)| before == tag && now < until) {
            return false;
        }
        if !self.may_upset(now) {
            return false;
        }
        self.adopt(now, tag, None, bond.unwrap_or(0));
        true
    }

    /// The peer is met for the first time, or has restarted.
    fn adopt(&mut self, now: Time, tag: u8, epoch: Option<u32>, number: u32) {
        let restarted = self.peer.epoch.is_some();
        if let Some((tag, epoch)) = self.peer.epoch {
            self.peer.before = Some((tag, epoch, now + STALE_FOR));
        }
        self.peer.epoch = Some((tag, epoch));
        self.peer.heartbeat = None;
        self.peer.using = u64::MAX;
        // A peer that restarted counts from the start; one that we meet for the first time may be long on its way.
        self.equalizer.forget_all();
        self.channels.iter_mut().for_each(|c| c.path.forget_clock());
        self.flush_delayed(now);
        self.ordered.reset(restarted || number < AT_START, &mut self.stats);
        self.window.reset();
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
        for channel in each(self.joined) {
            self.channels[channel.index()].ask_echo(now);
        }
        self.announce(now);
    }
}

impl Peer {
    #[inline]
    fn is_current(&self, tag: u8) -> bool {
        matches!(self.epoch, Some((known, _)) if known == tag)
    }
}
