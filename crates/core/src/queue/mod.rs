//! Queue disciplines with their buffer policies: what waits for a link, and what goes first.
//!
//! A [`QueueDiscipline`] takes packets of flows and gives them back in its order; which discipline is data
//! ([`Config`], [`AnyDiscipline`]). Packets are whatever the driver says, handed over with their size; every packet that
//! goes in comes out once, from `dequeue`, from `poll_dropped`, or at once in [`Admit::Refused`].
//!
//! ```
//! use fairspan_core::queue::{Admit, AnyDiscipline, Buffer, Config, Discipline, FlowId, Limit, QueueDiscipline};
//! use fairspan_core::units::{Bytes, Time};
//!
//! let mut config = Config::default();
//! config.discipline = Discipline::Drr { quantum: Bytes::new(1500) };
//! config.buffer = Buffer::LongestQueue;
//! config.limit = Limit::Packets(3);
//! let mut queue = AnyDiscipline::new(&config, 1)?;
//! let now = Time::ZERO;
//! for (flow, name) in [(7, "a"), (7, "b"), (7, "c"), (9, "d")] {
//!     assert_eq!(queue.enqueue(now, FlowId(flow), name, 1000), Admit::Queued);
//!     while let Some(dropped) = queue.poll_dropped(now) {
//!         assert_eq!(dropped.packet, "c"); // the newest of the longest queue
//!     }
//! }
//! let order: Vec<&str> = std::iter::from_fn(|| queue.dequeue(now)).map(|(_, name)| name).collect();
//! assert_eq!(order, ["a", "d", "b"]);
//! # Ok::<(), fairspan_core::queue::ConfigError>(())
//! ```

mod any;
mod drr;
mod fifo;
mod heap;
mod sfq;
mod stochastic;
mod store;

pub use any::AnyDiscipline;
pub use drr::Drr;
pub use fifo::Fifo;
pub use sfq::Sfq;
pub use stochastic::Stochastic;

use crate::units::{Bytes, Time};
use thiserror::Error;

/// Whose packet it is. The driver numbers flows as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// Packets that wait, and the order in which they go.
///
/// After [`enqueue`](QueueDiscipline::enqueue) and after [`dequeue`](QueueDiscipline::dequeue) drain
/// [`poll_dropped`](QueueDiscipline::poll_dropped): a policy may drop others than the packet that arrives.
pub trait QueueDiscipline<P> {
    /// A packet of `flow` arrives; `size` is what it counts in bytes.
    fn enqueue(&mut self, now: Time, flow: FlowId, packet: P, size: u32) -> Admit<P>;

    /// The packet that goes next. `None` also tells the discipline that the link has fallen idle.
    fn dequeue(&mut self, now: Time) -> Option<(FlowId, P)>;

    /// A packet that the policy dropped since.
    fn poll_dropped(&mut self, now: Time) -> Option<Dropped<P>>;

    /// From when on [`dequeue`](QueueDiscipline::dequeue) gives a packet; `None` while nothing waits. A
    /// work-conserving discipline always could at once.
    fn next_ready(&self) -> Option<Time> {
        (self.packets() > 0).then_some(Time::ZERO)
    }

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Their bytes.
    fn bytes(&self) -> u64;

    /// How many flows have a packet waiting; one where the discipline does not tell flows apart.
    fn active_flows(&self) -> usize;
}

/// What became of a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admit<P> {
    /// It waits.
    Queued,
    /// It does not.
    Refused(P, Reason),
}

/// A packet that a policy dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<P> {
    /// Whose it was.
    pub flow: FlowId,
    /// The packet.
    pub packet: P,
    /// Why.
    pub reason: Reason,
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
}

impl Reason {
    /// For people and results.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Full => "queue full",
            Reason::Front => "queue full, oldest dropped",
            Reason::Longest => "queue full, longest cut",
            Reason::TooLarge => "larger than the buffer",
        }
    }
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
}

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
    /// One packet of each flow in turn, whatever its length.
    RoundRobin,
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

impl Config {
    /// Most packets, or most bytes, that a queue may be set to hold.
    pub const MOST_PACKETS: u32 = 1 << 26;
    /// See [`Config::MOST_PACKETS`].
    pub const MOST_BYTES: u64 = 1 << 40;
    /// The largest quantum in bytes.
    pub const MOST_QUANTUM: u64 = 1 << 30;
    /// Most buckets of a stochastic discipline.
    pub const MOST_BUCKETS: u32 = 1 << 20;

    /// Checks the settings.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |setting, value, most| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            Err(ConfigError::Range { setting, value, least: 1, most })
        };
        match self.limit {
            Limit::Packets(n) => range("limit (packets)", u64::from(n), u64::from(Self::MOST_PACKETS))?,
            Limit::Bytes(n) => range("limit (bytes)", n, Self::MOST_BYTES)?,
        }
        match self.discipline {
            Discipline::Fifo | Discipline::RoundRobin | Discipline::Sfq => Ok(()),
            Discipline::Drr { quantum } => range("quantum", quantum.as_u64(), Self::MOST_QUANTUM),
            Discipline::Stochastic { buckets, quantum } => {
                range("buckets", u64::from(buckets), u64::from(Self::MOST_BUCKETS))?;
                range("quantum", quantum.as_u64(), Self::MOST_QUANTUM)
            }
        }
    }
}

impl Limit {
    /// Whether so much is more than may wait.
    #[inline]
    const fn exceeded(self, packets: usize, bytes: u64) -> bool {
        match self {
            Limit::Packets(most) => packets > most as usize,
            Limit::Bytes(most) => bytes > most,
        }
    }
}
