//! What a connection tells of itself: its state, why it ended, its counters.

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
    /// Nothing came back for as many retransmissions, or keepalives, as the settings allow.
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
    /// Keepalives sent.
    pub keepalives: u64,
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
