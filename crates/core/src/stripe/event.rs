//! What a stripe's two ends tell their owner: what they wait for, what changed, and counters.

use crate::units::ChannelId;

/// Why no packet can be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// There is no channel.
    NoChannel,
    /// The peer has not seen the epoch's plan on this channel yet.
    Handshake(ChannelId),
    /// A marker has to go out on this channel first: drain [`Sender::poll_control`](super::Sender::poll_control).
    Marker(ChannelId),
    /// The driver said that this channel takes nothing.
    Blocked(ChannelId),
    /// The receiver has no room granted on this channel.
    Credit(ChannelId),
    /// The packet is longer than `max_packet` bytes; it can never be sent.
    TooLong,
}

/// What the owner may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new epoch began, and why.
    Epoch(u32, EpochCause),
    /// The peer has seen the epoch's plan on every channel.
    Established,
    /// A channel set came into force.
    Changed {
        /// Its generation.
        generation: u16,
        /// Its members.
        mask: u64,
    },
    /// These channels did not answer the plan and were left out; ask for them again when they are well.
    LeftOut(u64),
}

/// Why an epoch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochCause {
    /// The sender was made.
    Start,
    /// The peer asked.
    PeerAsked,
    /// A counter of this side violated its invariant.
    Corrupt,
    /// The peer follows a generation of the channel set that this side did not announce, or did not put in force.
    Foreign,
    /// Some channels did not answer the plan.
    LeftOut,
    /// The channel set changed before the epoch was established, or from none.
    Set,
    /// The peer answered nothing at all for long.
    NoAnswer,
}

/// Plain counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Markers sent.
    pub markers: u64,
    /// Plans sent, repetitions included.
    pub plans: u64,
    /// Epochs begun.
    pub epochs: u64,
    /// Changes of the set or its quanta that came into force.
    pub changes: u64,
    /// Changes that had to move to a later round.
    pub postponed: u64,
    /// Acknowledgements of another epoch.
    pub stale_acks: u64,
    /// Acknowledgements that name another channel than the one they came by: the ends are cabled differently.
    pub miswired: u64,
}

/// Plain counters of the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverStats {
    /// Packets delivered.
    pub delivered: u64,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// Packets dropped because their channel's buffer was full.
    pub overflow: u64,
    /// Packets dropped because their channel was not open: of an older epoch or membership, or with no epoch at all.
    pub stale: u64,
    /// Packets that markers proved lost on the way.
    pub lost: u64,
    /// Markers accepted.
    pub markers: u64,
    /// Control messages of an epoch that is over.
    pub old_epoch: u64,
    /// Control messages that name another channel than the one they came by: the ends are cabled differently.
    pub miswired: u64,
    /// Times that a reset was asked for because this side was ahead of a marker.
    pub ahead: u64,
    /// Times that a reset was asked for because this side did not know the sender's epoch or quanta.
    pub unknown: u64,
    /// Epochs begun.
    pub epochs: u64,
    /// Changes of set or quanta that came into force.
    pub changes: u64,
    /// Visits skipped (condition C1, or a dead channel).
    pub skips: u64,
}
