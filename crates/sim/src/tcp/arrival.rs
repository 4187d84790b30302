//! What an arriving segment does, state by state.
//!
//! Source: RFC 9293, 3.10.7 (segment arrives); RFC 5961, 3 to 5 (resets, SYNs and old ACKs answered by a challenge); RFC 7323,
//! 2 to 5 (scaling, timestamps, PAWS); RFC 2018, 2 (SACK-permitted). Symbols: see [`connection`](super::connection).
//!
//! Departures: a segment whose edges touch the window counts as acceptable, so that the ACK of a peer that has filled the
//! window counts (Linux, too); what it carries is then judged byte by byte. Payload on a SYN is not kept: the peer sends it
//! again. A SYN that comes again before the handshake is over has the SYN sent again. Cost: O(1) a segment in order.

use super::acknowledgment::{Acknowledgment, stamp};
use super::connection::{Connection, DEFAULT_MSS};
use super::marks::Echo;
use super::position::unwrap;
use super::receiver::{Arrival, Receiver};
use super::segment::{Flags, Segment};
use super::state::{Failure, State};
use fairspan_core::units::{Span, Time};

/// RFC 7323 §5.5: how long TS.Recent is good for.
const TIMESTAMP_LIFE: Span = Span::from_secs(24 * 86_400);
/// What timestamps take in every segment.
const TIMESTAMP_OPTION: u32 = 12;

impl Connection {
    /// Takes a segment from the peer.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        self.sender.stats.segments_received += 1;
        if self.keepalive.due() != Time::MAX {
            self.keepalive.on_heard(now);
        }
        match self.state {
            State::Closed => self.refuse(segment),
            State::Listen => self.arrive_listening(now, segment),
            State::SynSent => self.arrive_syn_sent(now, segment),
            _ => self.arrive(now, segment),
        }
    }

    /// RFC 9293, 3.10.7.1: a reset for whatever has no connection.
    fn refuse(&mut self, segment: &Segment) {
        self.sender.stats.refused += 1;
        if segment.flags.has(Flags::RST) {
            return;
        }
        let flags = segment.flags;
        self.reset = Some(Box::new(if flags.has(Flags::ACK) {
            Segment { sequence: segment.acknowledgment, flags: Flags::RST, ..Segment::default() }
        } else {
            let length = segment.length + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
            let acknowledgment = segment.sequence.wrapping_add(length);
            Segment { acknowledgment, flags: Flags::RST.with(Flags::ACK), ..Segment::default() }
        }));
    }

    /// RFC 9293, 3.10.7.2.
    fn arrive_listening(&mut self, now: Time, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        if segment.flags.has(Flags::ACK) {
            return self.refuse(segment);
        }
        if segment.flags.has(Flags::SYN) {
            self.take_syn(now, segment);
            self.state = State::SynReceived;
            self.sender.send_syn();
        }
    }

    /// RFC 9293, 3.10.7.3.
    fn arrive_syn_sent(&mut self, now: Time, segment: &Segment) {
        let flags = segment.flags;
        let position = unwrap(self.initial, self.sender.una, segment.acknowledgment);
        let acknowledges = flags.has(Flags::ACK);
        if acknowledges && (position <= 0 || position as u64 > self.sender.sent_to()) {
            return self.refuse(segment);
        }
        if flags.has(Flags::RST) {
            if acknowledges {
                self.fail(Failure::Reset);
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        self.take_syn(now, segment);
        if acknowledges {
            self.receiver.acknowledge_now();
            let echo = self.acknowledge_ours(now, segment, position as u64);
            self.establish(now, echo);
        } else {
            // A simultaneous open.
            self.state = State::SynReceived;
            self.sender.send_syn_again();
        }
    }

    /// The peer's SYN: its number and its options.
    fn take_syn(&mut self, now: Time, segment: &Segment) {
        let options = &segment.options;
        self.peer_initial = segment.sequence;
        self.peer_mss = options.mss.map_or(DEFAULT_MSS, u32::from).max(64);
        // RFC 7323 §1.3, §2.2; RFC 2018 §2: in use where both offer them.
        self.timestamps = self.config.timestamps && options.timestamps.is_some();
        self.peer_scales = self.config.window_scaling && options.window_scale.is_some();
        self.peer_shift = options.window_scale.filter(|_| self.peer_scales).unwrap_or(0).min(14);
        self.sack = self.config.sack && options.sack_permitted;
        self.marks.on_syn(segment.flags);
        if let Some((value, _)) = options.timestamps {
            self.recent = value;
            self.recent_at = now;
        }
        self.open_receiver(now);
        // RFC 7323 §2.2: the window of a SYN is not scaled.
        self.sender.update_window(0, 0, u64::from(segment.window));
    }

    fn effective_mss(&self) -> u32 {
        let options = if self.timestamps && self.config.mss_counts_options { TIMESTAMP_OPTION } else { 0 };
        self.config.mss.min(self.peer_mss) - options
    }

    fn open_receiver(&mut self, now: Time) {
        let shift = if self.peer_scales { Receiver::wanted_shift(&self.config) } else { 0 };
        self.receiver.on_open(now, shift, u64::from(self.effective_mss()));
        if !self.sack {
            self.receiver.disable_duplicates();
        }
    }

    /// Both SYNs are acknowledged, ours with this timestamp of it.
    pub(super) fn establish(&mut self, now: Time, echo: Option<u32>) {
        if !self.config.handshake {
            self.open_receiver(now);
        }
        self.state = State::Established;
        self.keepalive.on_heard(now);
        self.sender.on_open(now, &self.config, u64::from(self.effective_mss()), self.sack, echo);
        if self.sender.is_closed() {
            self.state = State::FinWait1;
        }
    }

    /// RFC 9293, 3.10.7.4.
    fn arrive(&mut self, now: Time, segment: &Segment) {
        let flags = segment.flags;
        let next = self.receiver.next();
        let mut start = unwrap(self.peer_initial, next, segment.sequence);
        if self.state == State::SynReceived && flags.has(Flags::SYN) && start == 0 && !flags.has(Flags::RST) {
            if !flags.has(Flags::ACK) {
                self.sender.send_syn_again();
                return;
            }
            // The answer to our SYN in a simultaneous open.
            start = 1;
        }
        let payload = i64::from(segment.length);
        let end = start + payload + i64::from(flags.has(Flags::FIN));

        // First, the sequence number, PAWS before it (RFC 7323 §5.3, R1).
        if self.timestamps && !flags.has(Flags::RST) {
            match segment.options.timestamps {
                // RFC 7323 §3.2
                None => {
                    self.sender.stats.refused += 1;
                    return;
                }
                Some((value, _)) => {
                    let older = (value.wrapping_sub(self.recent) as i32) < 0;
                    if older && now.since(self.recent_at) < TIMESTAMP_LIFE {
                        self.sender.stats.refused += 1;
                        return self.challenge(now, payload > 0);
                    }
                }
            }
        }
        let edge = self.receiver.edge() as i64;
        if start > edge || end < next as i64 {
            self.sender.stats.refused += 1;
            if !flags.has(Flags::RST) {
                if payload > 0 && start > 0 && end <= next as i64 {
                    // RFC 2883 §4: a duplicate is reported.
                    self.sender.stats.duplicates += 1;
                    self.receiver.handle(now, start as u64, (start + payload) as u64, false);
                }
                if self.state == State::TimeWait && flags.has(Flags::FIN) {
                    self.closes_at = now + self.config.time_wait;
                }
                self.challenge(now, end > start);
            }
            return;
        }

        // Second, RST: RFC 5961 §3.2.
        if flags.has(Flags::RST) {
            if start == next as i64 {
                match self.state {
                    // RFC 9293, 3.10.7.4, second, SYN-RECEIVED
                    State::SynReceived if self.passive => self.listen_again(now),
                    State::Closing | State::LastAck | State::TimeWait => self.finish(),
                    _ => self.fail(Failure::Reset),
                }
            } else {
                self.challenge(now, false);
            }
            return;
        }
        // Fourth, SYN: RFC 5961 §4.2.
        if flags.has(Flags::SYN) && start != 1 {
            return self.challenge(now, false);
        }
        // Fifth, ACK.
        if !flags.has(Flags::ACK) {
            return;
        }
        if let Some((value, echo)) = segment.options.timestamps.filter(|_| self.timestamps) {
            // RFC 7323 §4.3, (2)
            if start <= self.acknowledged as i64 && (value.wrapping_sub(self.recent) as i32) >= 0 {
                self.recent = value;
                self.recent_at = now;
            }
            if payload > 0 {
                self.receiver.on_round_trip(Span::from_millis(u64::from(stamp(now).wrapping_sub(echo) & 0xff_ffff)));
            }
        }
        if !self.take_acknowledgment(now, segment, start, payload) {
            return;
        }
        // Sixth, URG.
        if flags.has(Flags::URG) && matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            self.peer_urgent_to = self.peer_urgent_to.max(start.max(1) as u64 + u64::from(segment.urgent));
        }
        // Seventh, the payload, and eighth, the FIN.
        if payload > 0 && self.marks.on_payload(segment) {
            self.receiver.acknowledge_now();
        }
        if end > start {
            self.take_payload(now, start, payload, flags.has(Flags::FIN));
        }
    }

    fn listen_again(&mut self, now: Time) {
        let stats = self.sender.stats;
        *self = Connection::shared(self.config.clone(), now, self.initial);
        self.sender.stats = stats;
        self.listen(now);
    }

    /// The ACK field; false: the segment is done with.
    fn take_acknowledgment(&mut self, now: Time, segment: &Segment, start: i64, payload: i64) -> bool {
        let position = unwrap(self.initial, self.sender.una, segment.acknowledgment);
        let una = self.sender.una as i64;
        if self.state == State::SynReceived {
            if position <= una || position as u64 > self.sender.sent_to() {
                self.refuse(segment);
                return false;
            }
            let echo = self.acknowledge_ours(now, segment, position as u64);
            self.sender.update_window(start.max(0) as u64, position as u64, self.scaled(segment.window));
            self.establish(now, echo);
            return true;
        }
        if position > self.sender.sent_to() as i64 {
            // It acknowledges what was never sent.
            self.sender.stats.refused += 1;
            self.challenge(now, payload > 0);
            return false;
        }
        if position < una - self.sender.window_maximum() as i64 {
            // RFC 5961 §5.2
            self.sender.stats.refused += 1;
            self.challenge(now, false);
            return false;
        }
        if position < una {
            return true;
        }
        let window = self.scaled(segment.window);
        let changed = self.sender.update_window(start.max(0) as u64, position as u64, window);
        let bare = payload == 0 && !changed && !segment.flags.has(Flags::FIN) && !segment.flags.has(Flags::SYN);
        let acknowledgment = self.acknowledgment(segment, position as u64, bare);
        let marks = self.marks.on_acknowledgment(segment.flags, position as u64, self.sender.next);
        // First the marks: what is acknowledged was under way when they were set, and belongs to the window that may end here.
        if let Some(Echo { begins, packets, exact }) = marks {
            let acknowledged = (position - una) as u64;
            let most = if acknowledged > 0 { acknowledged } else { u64::MAX };
            let bytes = packets.map_or(acknowledged, |packets| (packets * self.sender.mss).min(most));
            self.sender.on_marked(now, bytes, begins, exact);
        }
        self.sender.on_acknowledgment(now, &acknowledgment);
        if self.sender.fin_acknowledged() {
            match self.state {
                State::FinWait1 => self.state = State::FinWait2,
                State::Closing => self.enter_time_wait(now),
                State::LastAck => {
                    self.finish();
                    return false;
                }
                _ => {}
            }
        }
        true
    }

    fn scaled(&self, field: u16) -> u64 {
        u64::from(field) << self.peer_shift
    }

    /// Our SYN is acknowledged: with this timestamp of it.
    fn acknowledge_ours(&mut self, now: Time, segment: &Segment, position: u64) -> Option<u32> {
        let acknowledgment = self.acknowledgment(segment, position, false);
        self.sender.on_acknowledgment(now, &acknowledgment);
        acknowledgment.echo
    }

    /// What the segment says about ours.
    #[inline(always)]
    fn acknowledgment(&self, segment: &Segment, position: u64, bare: bool) -> Acknowledgment {
        let unwrap = |sequence| unwrap(self.initial, self.sender.una, sequence).max(0) as u64;
        let echo = segment.options.timestamps.filter(|_| self.timestamps).map(|(_, echo)| echo);
        let mut ack = Acknowledgment::new(position, bare, echo);
        if self.sack && segment.options.sack_count > 0 {
            ack.take_blocks(&segment.options.sack[..usize::from(segment.options.sack_count).min(4)], unwrap);
        }
        ack
    }

    fn take_payload(&mut self, now: Time, start: i64, payload: i64, fin: bool) {
        if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            // The peer's FIN came before: what comes again is acknowledged again.
            self.receiver.acknowledge_now();
            if self.state == State::TimeWait && fin {
                self.closes_at = now + self.config.time_wait;
            }
            return;
        }
        let end = (start + payload) as u64;
        match self.receiver.handle(now, start.max(1) as u64, end, fin) {
            Arrival::InOrder => {}
            Arrival::OutOfOrder => self.sender.stats.out_of_order += 1,
            Arrival::Duplicate => self.sender.stats.duplicates += 1,
            Arrival::Refused => self.sender.stats.refused += 1,
        }
        if self.receiver.is_finished() {
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                _ => self.enter_time_wait(now),
            }
        }
    }

    fn enter_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.closes_at = now + self.config.time_wait;
        self.sender.stop();
        self.keepalive.stop();
    }

    /// An ACK that tells the peer where we are; for segments that carry nothing, not too often (RFC 5961 §7).
    fn challenge(&mut self, now: Time, carries: bool) {
        let often = self.challenged_at.is_some_and(|last| now.since(last) < self.config.challenge_interval);
        if carries || !often {
            if !carries {
                self.challenged_at = Some(now);
            }
            self.receiver.acknowledge_now();
        }
    }
}
