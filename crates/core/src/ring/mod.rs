//! Packet rings: nodes joined in a ring by links in both directions share every link fairly, by throttling at the ingress.
//!
//! Source: the rings paper (Gambiroza et al., IEEE/ACM Transactions on Networking 12(1), 2004) and IEEE 802.17.
//!
//! | file | idea |
//! |---|---|
//! | `topology` | which links there are and which way a packet goes |
//! | `problem`, `rias`, `max_min`, `proportional`, `bottleneck` | reference allocations, and the separate test of one |
//! | `fairness`, `algorithm` | what an algorithm sees and says; which there are, and their settings |
//! | `dvsr`, `rpr`, `dba`, `explicit` | the algorithms |
//! | `message`, `circulation`, `estimate`, `fair_rate`, `suballocation` | what DVSR and its rivals are made of |
//! | `frame`, `control`, `checksum` | the wire |
//! | `discovery`, `keepalive`, `reports`, `refusal`, `protection` | who is there, and what happens when a link fails |
//! | `node` | a node: all of it together |
//! | `station`, `output_queue`, `limiter`, `multiplexer`, `meter` | its parts: queues to each egress, their limiters, transit and scheduling |
//!
//! Nodes are numbered from 1. Link `n` joins nodes `n` and `n + 1`, link `N` joins `N` and 1. Ringlet 0 runs `n -> n + 1`,
//! ringlet 1 back; control messages of a ringlet travel on the other one, against its data.

pub mod algorithm;
pub mod bottleneck;
pub mod checksum;
mod circulation;
pub mod control;
pub mod dba;
pub mod discovery;
pub mod dvsr;
pub mod estimate;
pub mod explicit;
pub mod fair_rate;
pub mod fairness;
pub mod frame;
mod keepalive;
mod limiter;
pub mod max_min;
pub mod message;
mod meter;
mod multiplexer;
pub mod node;
mod output_queue;
mod patience;
pub mod problem;
pub mod proportional;
pub mod protection;
#[cfg(test)]
mod random;
mod refusal;
mod reports;
pub mod rias;
pub mod rpr;
mod station;
pub mod suballocation;
pub mod topology;

use core::fmt;

/// Most nodes of a ring.
pub const MOST_NODES: usize = 255;

/// A node's number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u8);

impl NodeId {
    /// Node `n`; `None` for 0.
    pub const fn new(n: u8) -> Option<NodeId> {
        if n == 0 { None } else { Some(NodeId(n)) }
    }

    /// The node at this place of an array, counted from 0.
    ///
    /// # Panics
    /// At [`MOST_NODES`] and beyond.
    pub const fn at(index: usize) -> NodeId {
        assert!(index < MOST_NODES, "a ring has at most 255 nodes");
        NodeId(index as u8 + 1)
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The node's place in an array: its number less one.
    pub const fn index(self) -> usize {
        self.0 as usize - 1
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ringlet {
    /// From node n to node n + 1.
    Zero,
    /// From node n to node n - 1.
    One,
}

impl Ringlet {
    /// Both.
    pub const BOTH: [Ringlet; 2] = [Ringlet::Zero, Ringlet::One];

    /// 0 or 1.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The one in the other direction, on which this one's control messages travel.
    pub const fn other(self) -> Ringlet {
        match self {
            Ringlet::Zero => Ringlet::One,
            Ringlet::One => Ringlet::Zero,
        }
    }

    /// The side of a node by which its packets on this ringlet leave; they arrive by the other one.
    pub const fn way_out(self) -> Side {
        match self {
            Ringlet::Zero => Side::East,
            Ringlet::One => Side::West,
        }
    }
}

/// A node's link to one of its two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The link to the next node: ringlet 0 leaves here, ringlet 1 arrives.
    East,
    /// The link to the previous node: ringlet 1 leaves here, ringlet 0 arrives.
    West,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::East, Side::West];

    /// 0 (east) or 1 (west): the number of the ringlet that leaves here.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    pub const fn other(self) -> Side {
        match self {
            Side::East => Side::West,
            Side::West => Side::East,
        }
    }

    /// The ringlet that leaves here.
    pub const fn ringlet(self) -> Ringlet {
        match self {
            Side::East => Ringlet::Zero,
            Side::West => Ringlet::One,
        }
    }
}

/// How a packet is served (IEEE 802.17, service classes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Reserved rate, low delay; nobody else uses what it leaves.
    A,
    /// A committed rate of low delay, reclaimed by others while unused; above it as class C.
    B,
    /// Best effort, shared fairly.
    #[default]
    C,
}
