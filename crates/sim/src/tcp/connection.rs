//! One end of one connection: its states, and what arrives in each.
//!
//! What it is: the state machine of RFC 9293 around a sending and a receiving half. Source: RFC 9293, 3.5, 3.6 and 3.10.7
//! (segment arrives); RFC 5961, 3 to 5 (resets, SYNs and old ACKs answered by a challenge); RFC 7323, 2 to 5 (scaling,
//! timestamps, PAWS); RFC 2018, 2 (SACK-permitted).
//!
//! | RFC 9293 | here |
//! |---|---|
//! | ISS, IRS | `initial`, `peer_initial` |
//! | TS.Recent, Last.ACK.sent | `recent`, `acknowledged` |
//! | 2 MSL | the setting `time_wait` |
//!
//! Departures: a segment whose edges touch the window counts as acceptable, so that the ACK of a peer that has filled the
//! window counts (Linux, too); what it carries is then judged byte by byte. Payload on a SYN is not kept: the peer sends it
//! again. A SYN that comes again before the handshake is over has the SYN sent again. Cost: O(1) a segment in order.

use super::config::Config;
use super::position::{unwrap, wrap};
use super::receiver::{Arrival, Receiver};
use super::recovery::{Acknowledgment, stamp};
use super::segment::{Flags, Options, Segment};
use super::sender::{Outgoing, Sender};
use fairspan_core::congestion::Law;
use fairspan_core::units::{Span, Time};

/// The states of RFC 9293, section 3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No connection.
    Closed,
    /// Waits for a SYN.
    Listen,
    /// Sent a SYN.
    SynSent,
    /// Got a SYN and sent one.
    SynReceived,
    /// Open.
    Established,
    /// Sent a FIN.
    FinWait1,
    /// The FIN is acknowledged.
    FinWait2,
    /// Got a FIN.
    CloseWait,
    /// Both sent a FIN, ours is not acknowledged yet.
    Closing,
    /// Sent a FIN after the peer's.
    LastAck,
    /// Waits until nothing of the connection can be under way.
    TimeWait,
}

/// Why a connection ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer reset it.
    Reset,
    /// It was aborted here.
    Aborted,
    /// Nothing came back for as many retransmissions as the settings allow.
    TimedOut,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments sent, of all kinds.
    pub segments_sent: u64,
    /// Segments that carried payload, retransmissions included.
    pub data_segments_sent: u64,
    /// Bytes of payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Segments sent again (SYN, payload or FIN).
    pub retransmitted: u64,
    /// Bytes of payload sent again.
    pub bytes_retransmitted: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Fast recoveries entered.
    pub recoveries: u64,
    /// Recoveries and timeouts that turned out to be unneeded.
    pub spurious: u64,
    /// Tail loss probes sent.
    pub probes: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// Segments received, of all kinds.
    pub segments_received: u64,
    /// Segments received with payload out of order.
    pub out_of_order: u64,
    /// Segments received whose payload was there already.
    pub duplicates: u64,
    /// Duplicate ACKs received.
    pub duplicate_acks: u64,
    /// Segments that were not acceptable and dropped.
    pub refused: u64,
}

/// One end of one connection.
#[derive(Clone, Debug)]
pub struct Connection {
    config: Config,
    state: State,
    failure: Option<Failure>,
    /// Whether it began by listening.
    passive: bool,
    initial: u32,
    peer_initial: u32,
    sender: Sender,
    receiver: Receiver,
    /// Whether both ends offered them.
    timestamps: bool,
    sack: bool,
    /// The shift of the peer's windows.
    peer_shift: u8,
    /// Whether the peer's SYN had the option; ours then has it, too.
    peer_scales: bool,
    peer_mss: u32,
    recent: u32,
    recent_at: Time,
    /// The last position acknowledged to the peer.
    acknowledged: u64,
    challenged_at: Option<Time>,
    closes_at: Time,
    /// A reset to send.
    reset: Option<Segment>,
}

/// RFC 7323 §5.5: how long TS.Recent is good for.
const TIMESTAMP_LIFE: Span = Span::from_secs(24 * 86_400);
/// RFC 9293, 3.7.1: what a peer takes that announces nothing.
const DEFAULT_MSS: u32 = 536;
/// What timestamps take in every segment.
const TIMESTAMP_OPTION: u32 = 12;

impl Connection {
    /// An end with these settings and this initial sequence number; it does nothing before `open` or `listen`. Without
    /// the setting `handshake` it is connected already, its sequence numbers begin at 0 whatever `iss` says, and the peer
    /// is taken to have the same settings.
    pub fn new(config: &Config, now: Time, iss: u32) -> Connection {
        let mut connection = Connection {
            config: config.clone(),
            state: State::Closed,
            failure: None,
            passive: false,
            initial: iss,
            peer_initial: 0,
            sender: Sender::new(config, now),
            receiver: Receiver::new(config, now),
            timestamps: false,
            sack: false,
            peer_shift: 0,
            peer_scales: false,
            peer_mss: DEFAULT_MSS,
            recent: 0,
            recent_at: now,
            acknowledged: 0,
            challenged_at: None,
            closes_at: Time::MAX,
            reset: None,
        };
        if !config.handshake {
            connection.initial = 0;
            connection.sender.skip_handshake();
            connection.peer_mss = config.mss;
            connection.timestamps = config.timestamps;
            connection.sack = config.sack;
            connection.peer_scales = config.window_scaling;
            if config.window_scaling {
                connection.peer_shift = Receiver::wanted_shift(config);
            }
            connection.establish(now);
            let field = connection.receiver.on_send(true);
            connection.sender.assume_window(u64::from(field) << connection.peer_shift);
            connection.acknowledged = 1;
        }
        connection
    }

    /// Opens actively: a SYN will be sent.
    pub fn open(&mut self, _now: Time) {
        if matches!(self.state, State::Closed | State::Listen) && self.failure.is_none() {
            self.state = State::SynSent;
            self.passive = false;
            self.sender.send_syn();
        }
    }

    /// Opens passively: waits for a SYN.
    pub fn listen(&mut self, _now: Time) {
        if self.state == State::Closed && self.failure.is_none() {
            self.state = State::Listen;
            self.passive = true;
        }
    }

    /// Takes a segment from the peer.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        self.sender.stats.segments_received += 1;
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
        self.reset = Some(if flags.has(Flags::ACK) {
            Segment { sequence: segment.acknowledgment, flags: Flags::RST, ..Segment::default() }
        } else {
            let length = segment.length + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
            let acknowledgment = segment.sequence.wrapping_add(length);
            Segment { acknowledgment, flags: Flags::RST.with(Flags::ACK), ..Segment::default() }
        });
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
            self.acknowledge_ours(now, segment, position as u64);
            self.establish(now);
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

    /// Both SYNs are acknowledged.
    fn establish(&mut self, now: Time) {
        if !self.config.handshake {
            self.open_receiver(now);
        }
        self.state = State::Established;
        self.sender.on_open(now, &self.config, u64::from(self.effective_mss()), self.sack);
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
        // Seventh, the payload, and eighth, the FIN.
        if end > start {
            self.take_payload(now, start, payload, flags.has(Flags::FIN));
        }
    }

    fn listen_again(&mut self, now: Time) {
        let stats = self.sender.stats;
        *self = Connection::new(&self.config, now, self.initial);
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
            self.acknowledge_ours(now, segment, position as u64);
            self.sender.update_window(start.max(0) as u64, position as u64, self.scaled(segment.window));
            self.establish(now);
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

    /// Our SYN is acknowledged.
    fn acknowledge_ours(&mut self, now: Time, segment: &Segment, position: u64) {
        let acknowledgment = self.acknowledgment(segment, position, false);
        self.sender.on_acknowledgment(now, &acknowledgment);
    }

    /// What the segment says about ours.
    fn acknowledgment(&self, segment: &Segment, position: u64, bare: bool) -> Acknowledgment {
        let options = &segment.options;
        let mut ack = Acknowledgment {
            position,
            bare,
            blocks: [(0, 0); 4],
            count: 0,
            duplicate: None,
            echo: options.timestamps.filter(|_| self.timestamps).map(|(_, echo)| echo),
        };
        if !self.sack || options.sack_count == 0 {
            return ack;
        }
        let blocks = &options.sack[..usize::from(options.sack_count).min(4)];
        for (index, (left, right)) in blocks.iter().enumerate() {
            let left = unwrap(self.initial, self.sender.una, *left).max(0) as u64;
            let right = unwrap(self.initial, self.sender.una, *right).max(0) as u64;
            if index == 0 && left < right {
                // RFC 2883 §4: a first block below the ACK, or inside the second, is a duplicate.
                let inside = blocks.get(1).is_some_and(|(l, r)| {
                    let l = unwrap(self.initial, self.sender.una, *l).max(0) as u64;
                    let r = unwrap(self.initial, self.sender.una, *r).max(0) as u64;
                    l <= left && right <= r
                });
                if right <= position || inside {
                    ack.duplicate = Some((left, right));
                    continue;
                }
            }
            ack.blocks[ack.count] = (left, right);
            ack.count += 1;
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

    fn finish(&mut self) {
        self.state = State::Closed;
        self.closes_at = Time::MAX;
        self.sender.stop();
    }

    fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.finish();
    }

    /// Does what is due. Early calls are harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if matches!(self.state, State::Closed | State::Listen) {
            return;
        }
        if self.closes_at <= now {
            return self.finish();
        }
        self.receiver.handle_timeout(now);
        self.sender.handle_timeout(now);
        if self.sender.given_up {
            self.fail(Failure::TimedOut);
        }
    }

    /// The next segment to send, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if self.reset.is_some() {
            self.sender.stats.segments_sent += 1;
            return self.reset.take();
        }
        match self.state {
            State::Closed | State::Listen => return None,
            State::SynSent | State::SynReceived | State::TimeWait => {}
            // What was received out of order is told before data goes, which has no room for it.
            _ if self.receiver.wants_ack() && (self.receiver.has_gaps() || self.receiver.has_duplicate()) => {
                return Some(self.build_ack(now));
            }
            _ => {}
        }
        let open = matches!(
            self.state,
            State::Established | State::FinWait1 | State::CloseWait | State::Closing | State::LastAck
        );
        if let Some(outgoing) = self.sender.poll(now, open) {
            return Some(self.build(now, &outgoing));
        }
        if self.receiver.wants_ack() && self.state != State::SynSent {
            return Some(self.build_ack(now));
        }
        None
    }

    fn build_ack(&mut self, now: Time) -> Segment {
        let start = self.sender.next;
        self.build(now, &Outgoing { start, length: 0, syn: false, fin: false, push: false })
    }

    fn build(&mut self, now: Time, outgoing: &Outgoing) -> Segment {
        let stats = &mut self.sender.stats;
        stats.segments_sent += 1;
        if outgoing.length > 0 {
            stats.data_segments_sent += 1;
            stats.bytes_sent += u64::from(outgoing.length);
        }
        let mut flags = if self.state == State::SynSent { Flags::default() } else { Flags::ACK };
        for (set, flag) in [(outgoing.syn, Flags::SYN), (outgoing.fin, Flags::FIN), (outgoing.push, Flags::PSH)] {
            if set {
                flags = flags.with(flag);
            }
        }
        let answer = flags.has(Flags::ACK);
        let mut options = Options::default();
        if outgoing.syn {
            options.mss = Some(self.config.mss.min(0xffff) as u16);
            if if answer { self.peer_scales } else { self.config.window_scaling } {
                options.window_scale = Some(Receiver::wanted_shift(&self.config));
            }
            options.sack_permitted = if answer { self.sack } else { self.config.sack };
        }
        if self.timestamps || (outgoing.syn && !answer && self.config.timestamps) {
            options.timestamps = Some((stamp(now), if answer { self.recent } else { 0 }));
        }
        if self.sack && !outgoing.syn && (self.receiver.has_gaps() || self.receiver.has_duplicate()) {
            self.put_blocks(outgoing.length, &mut options);
        }
        let acknowledgment = if answer { wrap(self.peer_initial, self.receiver.next()) } else { 0 };
        self.acknowledged = self.receiver.next();
        Segment {
            sequence: wrap(self.initial, outgoing.start),
            acknowledgment,
            length: outgoing.length,
            flags,
            window: self.receiver.on_send(!outgoing.syn),
            options,
        }
    }

    fn put_blocks(&mut self, length: u32, options: &mut Options) {
        // RFC 2018 §3: four blocks fit, three beside timestamps; beside payload, what a full segment leaves.
        let room = if length == 0 { u64::MAX } else { self.sender.mss.saturating_sub(u64::from(length)) };
        let most = (if self.timestamps { 3 } else { 4 }).min(room.saturating_sub(4) / 8) as usize;
        if most == 0 {
            return;
        }
        let mut blocks = [(0, 0); 4];
        let count = self.receiver.blocks(most, &mut blocks);
        for (block, (left, right)) in options.sack.iter_mut().zip(&blocks[..count]) {
            *block = (wrap(self.peer_initial, *left), wrap(self.peer_initial, *right));
        }
        options.sack_count = count as u8;
    }

    /// When to call `handle_timeout`; changes with every input and with `poll_transmit`.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.state == State::Closed {
            return None;
        }
        let at = self.sender.next_timeout().min(self.receiver.due()).min(self.closes_at);
        (at != Time::MAX).then_some(at)
    }

    /// The application writes `bytes`; gives how many the send buffer took. A backlog without end is one write of
    /// `u64::MAX` with an unlimited buffer.
    pub fn write(&mut self, _now: Time, bytes: u64) -> u64 {
        match self.state {
            State::Closed | State::Listen if self.config.handshake => 0,
            _ => self.sender.write(bytes, self.config.send_buffer.as_u64()),
        }
    }

    /// No more will be written: a FIN follows the last byte.
    pub fn close(&mut self, _now: Time) {
        match self.state {
            // RFC 9293, 3.10.4
            State::Closed | State::Listen | State::SynSent => self.finish(),
            State::SynReceived => self.sender.close(),
            State::Established => {
                self.sender.close();
                self.state = State::FinWait1;
            }
            State::CloseWait => {
                self.sender.close();
                self.state = State::LastAck;
            }
            _ => {}
        }
    }

    /// Gives up at once: a RST is sent where the peer knows of the connection.
    pub fn abort(&mut self, _now: Time) {
        // RFC 9293, 3.10.5
        if !matches!(self.state, State::Closed | State::Listen | State::SynSent | State::TimeWait) {
            self.reset = Some(Segment {
                sequence: wrap(self.initial, self.sender.next),
                acknowledgment: wrap(self.peer_initial, self.receiver.next()),
                flags: Flags::RST.with(Flags::ACK),
                ..Segment::default()
            });
        }
        if self.state != State::Closed {
            self.fail(Failure::Aborted);
        }
    }

    /// Bytes that arrived in order and were not read yet.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// The application reads up to `max` bytes; gives how many. May lead to a window update, so poll afterwards.
    pub fn read(&mut self, now: Time, max: u64) -> u64 {
        self.receiver.take(now, max)
    }

    /// The state of RFC 9293.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the handshake is over and the connection is not closed yet.
    pub fn is_established(&self) -> bool {
        !matches!(self.state, State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }

    /// Whether the peer closed, and everything before is read.
    pub fn at_end_of_stream(&self) -> bool {
        self.receiver.is_finished() && self.readable() == 0
    }

    /// Whether it is over, TIME-WAIT included.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Why it ended before its time, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Bytes written and not sent for the first time yet.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Bytes written that are not acknowledged, sent or not.
    pub fn unacknowledged(&self) -> u64 {
        self.sender.unacknowledged()
    }

    /// Payload bytes that the peer acknowledged in all.
    pub fn acknowledged(&self) -> u64 {
        self.sender.acknowledged()
    }

    /// Payload bytes that arrived in order in all, read or not.
    pub fn delivered(&self) -> u64 {
        self.receiver.delivered()
    }

    /// Position in our stream of `sequence`, a sequence number that we sent lately: 1 is the first byte of payload, 0 and
    /// below the SYN and what is before it. For harnesses that give payload a content.
    pub fn position(&self, sequence: u32) -> i64 {
        unwrap(self.initial, self.sender.una, sequence)
    }

    /// Bytes of headers of `segment` on the wire: network, TCP and options.
    pub fn header_length(&self, segment: &Segment) -> u32 {
        self.config.network_header + segment.header_length()
    }

    /// Most bytes of payload in a segment.
    pub fn segment_size(&self) -> u64 {
        self.sender.mss
    }

    /// The congestion window in bytes, as it limits sending now.
    pub fn window(&self) -> u64 {
        self.sender.congestion_window()
    }

    /// The slow start threshold in bytes; `u64::MAX` before there is any.
    pub fn threshold(&self) -> u64 {
        self.sender.law.threshold().as_u64()
    }

    /// Bytes in flight, as loss recovery estimates them.
    pub fn in_flight(&self) -> u64 {
        self.sender.board.in_flight()
    }

    /// The smoothed round trip; zero before the first sample.
    pub fn smoothed_rtt(&self) -> Span {
        self.sender.rtt.smoothed()
    }

    /// The retransmission timeout, with its backoff.
    pub fn retransmission_timeout(&self) -> Span {
        self.sender.rtt.timeout()
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.sender.stats
    }
}
