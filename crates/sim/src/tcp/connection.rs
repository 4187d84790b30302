//! One end of one connection.

use super::config::Config;
use super::segment::Segment;
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
    state: State,
    failure: Option<Failure>,
    stats: Stats,
}

impl Connection {
    /// An end with these settings and this initial sequence number; it does nothing before `open` or `listen`. Without
    /// the setting `handshake` it is connected already, and its sequence numbers begin at 0 whatever `iss` says.
    pub fn new(config: &Config, now: Time, iss: u32) -> Connection {
        let _ = (config, now, iss);
        Connection { state: State::Closed, failure: None, stats: Stats::default() }
    }

    /// Opens actively: a SYN will be sent.
    pub fn open(&mut self, now: Time) {
        let _ = now;
    }

    /// Opens passively: waits for a SYN.
    pub fn listen(&mut self, now: Time) {
        let _ = now;
    }

    /// Takes a segment from the peer.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        let _ = (now, segment);
    }

    /// Does what is due. Early calls are harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// The next segment to send, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        let _ = now;
        None
    }

    /// When to call `handle_timeout`; changes with every input and with `poll_transmit`.
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The application writes `bytes`; gives how many the send buffer took. A backlog without end is one write of
    /// `u64::MAX` with an unlimited buffer.
    pub fn write(&mut self, now: Time, bytes: u64) -> u64 {
        let _ = (now, bytes);
        0
    }

    /// No more will be written: a FIN follows the last byte.
    pub fn close(&mut self, now: Time) {
        let _ = now;
    }

    /// Gives up at once: a RST is sent where the peer knows of the connection.
    pub fn abort(&mut self, now: Time) {
        let _ = now;
    }

    /// Bytes that arrived in order and were not read yet.
    pub fn readable(&self) -> u64 {
        0
    }

    /// The application reads up to `max` bytes; gives how many. May lead to a window update, so poll afterwards.
    pub fn read(&mut self, now: Time, max: u64) -> u64 {
        let _ = (now, max);
        0
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
        false
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
        0
    }

    /// Bytes sent or written that are not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        0
    }

    /// Payload bytes that the peer acknowledged in all.
    pub fn acknowledged(&self) -> u64 {
        0
    }

    /// Payload bytes that arrived in order in all.
    pub fn delivered(&self) -> u64 {
        0
    }

    /// Bytes of headers of `segment` on the wire: network, TCP and options.
    pub fn header_length(&self, segment: &Segment) -> u32 {
        20 + segment.header_length()
    }

    /// The congestion window in bytes, as it limits sending now.
    pub fn window(&self) -> u64 {
        0
    }

    /// The slow start threshold in bytes.
    pub fn threshold(&self) -> u64 {
        0
    }

    /// Bytes in flight, as loss recovery estimates them.
    pub fn in_flight(&self) -> u64 {
        0
    }

    /// The smoothed round trip; zero before the first sample.
    pub fn smoothed_rtt(&self) -> Span {
        Span::ZERO
    }

    /// The retransmission timeout, with its backoff.
    pub fn retransmission_timeout(&self) -> Span {
        Span::ZERO
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}
