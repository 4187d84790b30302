//! What a buffer policy is asked, and what it may answer.

use crate::units::{FlowNumber, Span, Time};
use thiserror::Error;

/// Decides who gets into a buffer and who stays in it. `P` is the packet, which a policy may look at.
pub trait Policy<P> {
    /// A packet of `flow` arrives and finds `backlog`.
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict;

    /// The discipline has chosen `packet` to go next. [`Verdict::Evict`] means [`Verdict::Pass`] here.
    #[inline]
    fn release(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, _leaving: &Leaving) -> Verdict {
        Verdict::Pass
    }
}

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass.
    Pass,
    /// It may pass with a mark, "congestion experienced"; where it cannot be marked, it is dropped.
    Mark(Reason),
    /// It is dropped.
    Drop(Reason),
    /// It may pass, and others are dropped until what waits is within its bounds.
    Evict(Victim, Reason),
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The buffer was full, and this was the packet that arrived.
    Full,
    /// The buffer was full, and this was the oldest packet.
    Front,
    /// The buffer was full, and this was the newest packet of the longest queue.
    Longest,
    /// Larger than the whole buffer.
    TooLarge,
    /// Packets waited for too long, for too long, and this one could not be marked.
    Standing,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 5] = [Reason::Full, Reason::Front, Reason::Longest, Reason::TooLarge, Reason::Standing];

    /// For people and results.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Full => "queue full",
            Reason::Front => "queue full, oldest dropped",
            Reason::Longest => "queue full, longest cut",
            Reason::TooLarge => "larger than the buffer",
            Reason::Standing => "standing queue",
        }
    }
}

/// Which packet is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The one that waits longest, whichever its queue.
    Oldest,
    /// The newest one of the longest queue, in the unit of the limit.
    Longest,
}

/// What waits when a packet arrives, that one not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The memory that they take, in bytes.
    pub memory: u64,
    /// What may wait.
    pub bounds: Bounds,
    /// Bytes of the packet that arrives.
    pub size: u64,
    /// The memory that it takes.
    pub cost: u64,
    /// Whether the discipline has a queue for each flow or bucket, and not one for all.
    pub by_flow: bool,
}

/// Whether a packet fits into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It fits.
    Enough,
    /// It would, were there less.
    TooLittle,
    /// Not even alone.
    Never,
}

impl Backlog {
    /// Whether the packet fits.
    #[inline]
    pub const fn room(&self) -> Room {
        if self.bounds.hold(
            self.packets + 1,
            self.bytes.saturating_add(self.size),
            self.memory.saturating_add(self.cost),
        ) {
            return Room::Enough;
        }
        if self.bounds.hold(1, self.size, self.cost) { Room::TooLittle } else { Room::Never }
    }
}

/// A packet that goes, and what stays behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// How long it waited.
    pub waited: Span,
    /// Its queue within the discipline: a number that another takes when the queue has fallen empty.
    pub queue: u32,
    /// Whose queue that is: a flow, a bucket, or 0 where all share one.
    pub key: u32,
    /// Bytes that stay in this queue.
    pub behind: u64,
}

/// How much may wait at once; the packet in transmission does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl Bounds {
    /// No bound.
    pub const NONE: Bounds = Bounds { packets: u64::MAX, bytes: u64::MAX, memory: u64::MAX };

    /// Whether so much may wait.
    #[inline]
    pub const fn hold(&self, packets: u64, bytes: u64, memory: u64) -> bool {
        packets <= self.packets && bytes <= self.bytes && memory <= self.memory
    }
}

impl From<Limit> for Bounds {
    fn from(limit: Limit) -> Bounds {
        match limit {
            Limit::Packets(packets) => Bounds { packets: u64::from(packets), ..Bounds::NONE },
            Limit::Bytes(bytes) => Bounds { bytes, ..Bounds::NONE },
        }
    }
}

/// How much may wait, as a setting; the packet in transmission does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Packets.
    Packets(u32),
    /// Bytes.
    Bytes(u64),
}

/// Which setting cannot work, and what would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A number outside its range.
    #[error("{setting} is {value}; it must be from {least} to {most}")]
    Range {
        /// The setting's name.
        setting: &'static str,
        /// What it is.
        value: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
    /// Two settings that do not fit together.
    #[error("{setting} ({value}) must be greater than {other} ({bound})")]
    Order {
        /// The setting's name.
        setting: &'static str,
        /// What it is.
        value: u64,
        /// The setting it is compared with.
        other: &'static str,
        /// What that is.
        bound: u64,
    },
}
