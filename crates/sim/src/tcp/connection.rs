//! One end of one connection: what the application asks for, and what goes out.
//!
//! What it is: the state machine of RFC 9293 around a sending and a receiving half. What arriving segments do in each state is in
//! [`arrival`](super::arrival). Source: RFC 9293, 3.5, 3.6 and 3.10; RFC 7323, 2 and 3 (options); RFC 2018, 2 and 3 (SACK).
//!
//! | RFC 9293 | here |
//! |---|---|
//! | ISS, IRS | `initial`, `peer_initial` |
//! | TS.Recent, Last.ACK.sent | `recent`, `acknowledged` |
//! | 2 MSL | the setting `time_wait` |
//!
//! Cost: O(1) a segment in order.

use super::acknowledgment::stamp;
use super::config::Config;
use super::keepalive::{Asked, Keepalive};
use super::marks::Marks;
use super::position::{unwrap, wrap};
use super::receiver::Receiver;
use super::segment::{Flags, Mark, Options, Segment};
use super::sender::Sender;
use super::state::{Failure, State, Stats};
use super::transmission::Outgoing;
use fairspan_core::congestion::Law;
use fairspan_core::shared::Shared;
use fairspan_core::units::{Span, Time};

/// One end of one connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(super) config: Shared<Config>,
    pub(super) state: State,
    pub(super) failure: Option<Failure>,
    /// Whether it began by listening.
    pub(super) passive: bool,
    pub(super) initial: u32,
    pub(super) peer_initial: u32,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Whether both ends offered them.
    pub(super) timestamps: bool,
    pub(super) sack: bool,
    /// The shift of the peer's windows.
    pub(super) peer_shift: u8,
    /// Whether the peer's SYN had the option; ours then has it, too.
    pub(super) peer_scales: bool,
    pub(super) peer_mss: u32,
    pub(super) recent: u32,
    pub(super) recent_at: Time,
    /// The last position acknowledged to the peer.
    pub(super) acknowledged: u64,
    pub(super) challenged_at: Option<Time>,
    pub(super) closes_at: Time,
    /// A reset to send.
    pub(super) reset: Option<Box<Segment>>,
    pub(super) keepalive: Keepalive,
    pub(super) marks: Marks,
    probe_peer: bool,
    /// SND.UP and RCV.UP: the positions behind the last urgent bytes, sent and received.
    urgent_to: u64,
    pub(super) peer_urgent_to: u64,
}

/// RFC 9293, 3.7.1: what a peer takes that announces nothing.
pub(super) const DEFAULT_MSS: u32 = 536;

impl Connection {
    /// An end with these settings and this initial sequence number; it does nothing before `open` or `listen`. Without
    /// the setting `handshake` it is connected already, its sequence numbers begin at 0 whatever `iss` says, and the peer
    /// is taken to have the same settings.
    pub fn new(config: &Config, now: Time, iss: u32) -> Connection {
        Connection::shared(config.clone().into(), now, iss)
    }

    /// As [`Connection::new`], with settings that many have.
    pub fn shared(shared: Shared<Config>, now: Time, iss: u32) -> Connection {
        let config = &*shared;
        let mut connection = Connection {
            config: shared.clone(),
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
            keepalive: Keepalive::new(config),
            marks: Marks::new(config),
            probe_peer: false,
            urgent_to: 0,
            peer_urgent_to: 0,
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
            connection.establish(now, None);
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

    pub(super) fn finish(&mut self) {
        self.state = State::Closed;
        self.closes_at = Time::MAX;
        self.sender.stop();
        self.keepalive.stop();
    }

    pub(super) fn fail(&mut self, failure: Failure) {
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
            return self.fail(Failure::TimedOut);
        }
        match self.keepalive.handle_timeout(now, self.sender.flight() > 0) {
            Asked::Nothing => {}
            Asked::Probe => self.probe_peer = true,
            Asked::Dead => {
                self.reset = Some(Box::new(self.last_word()));
                self.fail(Failure::TimedOut);
            }
        }
    }

    /// A reset of a connection that the peer knows.
    fn last_word(&self) -> Segment {
        Segment {
            sequence: wrap(self.initial, self.sender.next),
            acknowledgment: wrap(self.peer_initial, self.receiver.next()),
            flags: Flags::RST.with(Flags::ACK),
            ..Segment::default()
        }
    }

    /// The next segment to send, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if self.reset.is_some() {
            self.sender.stats.segments_sent += 1;
            return self.reset.take().map(|reset| *reset);
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
        if std::mem::take(&mut self.probe_peer) && self.sender.flight() == 0 {
            self.sender.stats.keepalives += 1;
            // RFC 9293, 3.8.4: SEG.SEQ = SND.NXT - 1.
            let start = self.sender.next - 1;
            return Some(
                self.build(now, &Outgoing { start, length: 0, syn: false, fin: false, push: false, again: false }),
            );
        }
        None
    }

    fn build_ack(&mut self, now: Time) -> Segment {
        let start = self.sender.next;
        self.build(now, &Outgoing { start, length: 0, syn: false, fin: false, push: false, again: false })
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
        let mut mark = Mark::default();
        if outgoing.syn {
            flags = flags.with(self.marks.syn(answer));
        } else {
            let (told, field) = self.marks.on_send(outgoing.length > 0, outgoing.length > 0 && !outgoing.again);
            (flags, mark) = (flags.with(told), field);
        }
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
        // RFC 9293, 3.8.5 (MUST-30). What is further away than the field can say is told again nearer.
        let urgent = if answer && !outgoing.syn { self.urgent_to.saturating_sub(outgoing.start) } else { 0 };
        if urgent > 0 {
            flags = flags.with(Flags::URG);
        }
        Segment {
            sequence: wrap(self.initial, outgoing.start),
            acknowledgment,
            length: outgoing.length,
            flags,
            window: self.receiver.on_send(!outgoing.syn),
            urgent: urgent.min(u64::from(u16::MAX)) as u16,
            mark,
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
        let at = self.sender.next_timeout().min(self.receiver.due()).min(self.closes_at).min(self.keepalive.due());
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

    /// The next `bytes` that will be written are urgent, and all before them. The peer hears of it at once, also while it takes nothing.
    pub fn urge(&mut self, bytes: u64) {
        if self.is_established() && !self.sender.is_closed() {
            self.urgent_to = self.urgent_to.max(self.sender.end.saturating_add(bytes));
            self.receiver.acknowledge_now();
        }
    }

    /// Bytes from the next one to be read to the last urgent one, whether they have arrived or not; zero: none is urgent.
    pub fn urgent(&self) -> u64 {
        self.peer_urgent_to.saturating_sub(self.receiver.delivered() - self.readable() + 1)
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
            self.reset = Some(Box::new(self.last_word()));
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

    /// From now on at most `bytes` are offered to the peer beyond what was read, whatever the receive buffer holds; what was
    /// offered before stays. May lead to a window update, so poll afterwards.
    pub fn limit_window(&mut self, bytes: u64) {
        self.receiver.limit_window(bytes);
    }

    /// Bytes that the send buffer takes now.
    pub fn room(&self) -> u64 {
        self.config.send_buffer.as_u64().saturating_sub(self.sender.unacknowledged())
    }

    /// The initial sequence number of the peer, once its SYN has come.
    pub fn peer_initial(&self) -> u32 {
        self.peer_initial
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

    /// Whether the congestion window alone keeps it from sending what there is, after losses.
    pub fn is_held_back(&self) -> bool {
        let (sender, stats) = (&self.sender, &self.sender.stats);
        let is_full = sender.board.waiting() > 0 || sender.board.in_flight() + sender.mss > sender.congestion_window();
        let has_lost = stats.recoveries + stats.timeouts > 0;
        has_lost && is_full && sender.unsent() > 0 && sender.congestion_window() < sender.limit()
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
