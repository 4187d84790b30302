//! Queue disciplines with their buffer policies: what waits for a link, and what goes first.

use crate::units::Bytes;

/// What waits for a link.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Who goes first. Default FIFO.
    pub discipline: Discipline,
    /// Who is dropped when the buffer is full. Default tail drop.
    pub buffer: Buffer,
    /// When it is full. Default 1000 packets.
    pub limit: Limit,
}

impl Default for Config {
    fn default() -> Config {
        Config { discipline: Discipline::Fifo, buffer: Buffer::DropTail, limit: Limit::Packets(1000) }
    }
}

/// Scheduling disciplines.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Discipline {
    /// First in, first out.
    Fifo,
    /// Deficit round robin (Shreedhar and Varghese 1995), a queue for each flow.
    Drr {
        /// Bytes a visit.
        quantum: Bytes,
    },
    /// Start-time fair queueing (Goyal, Vin, Cheng 1996), a queue for each flow.
    Sfq,
    /// Stochastic fair queueing (McKenney 1990): DRR over this many hash buckets, with a keyed hash.
    Stochastic {
        /// Buckets.
        buckets: u32,
        /// Bytes a visit.
        quantum: Bytes,
    },
}

/// Buffer policies.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Buffer {
    /// What arrives at a full buffer.
    DropTail,
    /// The oldest packet.
    DropFront,
    /// The newest packet of the longest queue.
    LongestQueue,
}

/// How much may wait; the packet in transmission does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Packets.
    Packets(u32),
    /// Bytes.
    Bytes(u64),
}
