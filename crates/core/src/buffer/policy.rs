//! What a buffer policy is asked, and what it may answer.

use crate::units::{FlowNumber, Span, Time};
use thiserror::Error;

/// Decides who gets into a buffer and who stays in it. `P` is the packet, which a policy may look at.
pub trait Policy<P> {
    /// A packet of `flow` arrives and finds `backlog`.
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict;

    /// The discipline has chosen `packet` to go next. [`Verdict::Evict`] and [`Verdict::PushOut`] mean
    /// [`Verdict::Pass`] here.
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
    /// It may pass; once it waits too, one packet that waits is marked, or dropped where it cannot be.
    PushOut(Victim, Reason),
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
    /// The buffer was full, and this was the oldest packet of the longest queue.
    LongestHead,
    /// The buffer was full, and this packet was drawn from all.
    Random,
    /// The buffer was full, and this was the oldest packet of a queue that was drawn from those above their share.
    AboveShare,
    /// Drawn, before the buffer was full; it could not be marked.
    Early,
    /// The buffer was not full, but more of it was taken on average, or by this flow, than may be.
    Average,
    /// The buffer was not full, and this was the oldest packet of the longest queue; it could not be marked.
    EarlyLongest,
    /// Drawn, because packets wait for too long; it could not be marked, or too many would be.
    Delay,
    /// The buffer was full, and this packet had the largest finish number.
    LargestFinish,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 13] = [
        Reason::Full,
        Reason::Front,
        Reason::Longest,
        Reason::TooLarge,
        Reason::Standing,
        Reason::LongestHead,
        Reason::Random,
        Reason::AboveShare,
        Reason::Early,
        Reason::Average,
        Reason::EarlyLongest,
        Reason::Delay,
        Reason::LargestFinish,
    ];

    /// Of its counter.
    pub const fn counter(self) -> &'static str {
        match self {
            Reason::Full => "dropped_full",
            Reason::Front => "dropped_front",
            Reason::Longest => "dropped_longest",
            Reason::TooLarge => "dropped_too_large",
            Reason::Standing => "dropped_standing",
            Reason::LongestHead => "dropped_longest_head",
            Reason::Random => "dropped_random",
            Reason::AboveShare => "dropped_above_share",
            Reason::Early => "dropped_early",
            Reason::Average => "dropped_average",
            Reason::EarlyLongest => "dropped_early_longest",
            Reason::Delay => "dropped_delay",
            Reason::LargestFinish => "dropped_largest_finish",
        }
    }

    /// For people and results.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Full => "queue full",
            Reason::Front => "queue full, oldest dropped",
            Reason::Longest => "queue full, longest cut",
            Reason::TooLarge => "larger than the buffer",
            Reason::Standing => "standing queue",
            Reason::LongestHead => "queue full, head of the longest dropped",
            Reason::Random => "queue full, one of all dropped",
            Reason::AboveShare => "queue full, one above its share cut",
            Reason::Early => "dropped early",
            Reason::Average => "queue too long on average",
            Reason::EarlyLongest => "dropped early, head of the longest",
            Reason::Delay => "delay too long",
            Reason::LargestFinish => "queue full, largest finish number dropped",
        }
    }

    /// Whether it was dropped though there was room.
    pub const fn is_early(self) -> bool {
        matches!(self, Reason::Standing | Reason::Early | Reason::Average | Reason::EarlyLongest | Reason::Delay)
    }
}

/// Which packet is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The one that waits longest, whichever its queue.
    Oldest,
    /// The newest one of the longest queue, in the unit of the limit, over its flow's room.
    Longest,
    /// The oldest one of that queue.
    LongestHead,
    /// The oldest one of the queue of which the greatest such length was seen, and no other has been seen to be longer.
    Suspect,
    /// The one with the largest finish number, where packets have such; else the newest one of the queue with the most bytes.
    LargestFinish,
    /// One of all, which this random number draws.
    Any(u64),
    /// The oldest one of a queue which this random number draws from those that have more than their share of what waits.
    AboveShare(u64),
}

impl Victim {
    /// Whether it is the newest packet of its queue, where it is one of a queue.
    pub(crate) fn is_newest(self) -> bool {
        matches!(self, Victim::Longest | Victim::LargestFinish)
    }

    /// The next one: what is drawn is drawn anew.
    pub(crate) fn next(self) -> Victim {
        let other = |draw: u64| draw.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        match self {
            Victim::Any(draw) => Victim::Any(other(draw)),
            Victim::AboveShare(draw) => Victim::AboveShare(other(draw)),
            victim => victim,
        }
    }
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

    /// How much of the buffer is taken, with the packet that arrives: a share of one, by the bound that is nearest. 0 where
    /// there is none.
    #[inline]
    pub fn fill(&self) -> f64 {
        self.bounds.share(self.packets + 1, self.bytes.saturating_add(self.size), self.memory.saturating_add(self.cost))
    }

    /// The same without the packet that arrives.
    #[inline]
    pub fn fill_before(&self) -> f64 {
        self.bounds.share(self.packets, self.bytes, self.memory)
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
    /// Whether it says that its sender answers each mark in proportion (L4S).
    pub is_scalable: bool,
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

    /// This share of each bound; none of none.
    pub fn part(&self, share: f64) -> Bounds {
        let of = |most: u64| if most == u64::MAX { most } else { (most as f64 * share) as u64 };
        Bounds { packets: of(self.packets), bytes: of(self.bytes), memory: of(self.memory) }
    }

    /// The share of what may wait that this is, by the bound that is nearest; 0 where there is none.
    #[inline]
    pub fn share(&self, packets: u64, bytes: u64, memory: u64) -> f64 {
        let of = |used: u64, most: u64| if most == u64::MAX { 0.0 } else { used as f64 / most.max(1) as f64 };
        of(packets, self.packets).max(of(bytes, self.bytes)).max(of(memory, self.memory))
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn each_reason_has_a_counter_and_a_name_of_its_own() {
        let counters: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.counter()).collect();
        let names: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!((counters.len(), names.len()), (Reason::ALL.len(), Reason::ALL.len()));
        assert!(counters.iter().all(|counter| counter.starts_with("dropped_")));
        assert!(names.iter().all(|name| name.contains(' ')));
    }
}
