//! What a sender is doing about loss.
//!
//! Source: RFC 5681, 3.2 (fast recovery); RFC 5682, 2.1 (F-RTO); RFC 6937, 3 (rate reduction).

/// What the sender is doing about loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing.
    Open,
    /// Fast recovery, until `recover` is acknowledged.
    Recovery,
    /// Slow start after a timeout, until `recover` is acknowledged.
    Loss,
}

/// F-RTO's steps (RFC 5682, 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frto {
    /// Not in use.
    Off,
    /// Step 1 is done: the first segment was sent again.
    Resent,
    /// Step 2b is done: new segments were sent.
    Probing,
}

/// Proportional rate reduction (RFC 6937, section 3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduction {
    /// RecoverFS.
    pub flight: u64,
    /// prr_delivered.
    pub delivered: u64,
    /// prr_out.
    pub sent: u64,
}
