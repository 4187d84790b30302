//! What control messages of the [envelope](super::envelope) say.

use crate::units::ChannelId;

/// What a heartbeat says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The channel it was sent on.
    pub channel: ChannelId,
    /// The sender's epoch: another one means that it restarted.
    pub epoch: u32,
    /// Numbers the heartbeats of an epoch; the newest one's sets hold.
    pub number: u32,
    /// Every packet up to this bond-wide sequence number that uses this channel was sent before.
    pub high: u32,
    /// Channels on which the sender of this heartbeat hears nothing, as a mask.
    pub deaf: u64,
    /// Channels on which the sender of this heartbeat sends data, as a mask.
    pub using: u64,
    /// The sender knows this channel's rate and keeps to it, so that none of its packets wait on the way: that they take long is jitter.
    pub paced: bool,
    /// The sender understands compressed frames.
    pub expands: bool,
    /// The sender of this heartbeat takes rows of [`parity`](super::parity), and rebuilds packets from them.
    pub mends: bool,
    /// The sender of this heartbeat cuts packets into fragments, and puts together those that it gets.
    pub joins: bool,
}

/// What an echo request says, and its reply repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// The channel it is sent on.
    pub channel: ChannelId,
    /// One of a train, whose distances at their arrival tell a rate: how long it was under way tells nothing, and the clock is its
    /// place in the train.
    pub train: bool,
    /// Chosen by the requester.
    pub token: u32,
    /// The requester's clock in nanoseconds, to be compared with nothing but itself: its difference from the
    /// receiver's, on one channel and another, is what the delays of the two differ by.
    pub clock: u64,
}

/// What a path-MTU probe says, and its answer repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// The channel it is sent on.
    pub channel: ChannelId,
    /// Chosen by the prober.
    pub token: u32,
    /// The size of the probe frame, envelope and padding.
    pub size: u32,
}

/// What feedback says of the counted frames that arrived on one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// The channel that they arrived on.
    pub channel: ChannelId,
    /// The low eight bits of the epoch that they are of.
    pub of: u8,
    /// The highest number.
    pub highest: u32,
    /// How many frames, modulo 2^32.
    pub packets: u32,
    /// How many of them with the mark of congestion (ECN-CE), modulo 2^32.
    pub marked: u32,
    /// Microseconds from the arrival of the highest to this message.
    pub held: u32,
    /// Their bytes, envelopes included, modulo 2^32.
    pub bytes: u32,
    /// The receiver's clock when the highest arrived, in nanoseconds; as [`Echo::clock`] to be compared with itself.
    pub arrived: u64,
    /// Bit n: the number n + 1 before the highest arrived.
    pub set: u64,
}
