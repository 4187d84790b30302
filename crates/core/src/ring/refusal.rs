//! Why control frames about the ring are refused: each counted under its name, and told.

use super::NodeId;
use super::control::DecodeError;
use crate::units::Rate;
use core::fmt;

/// Why a control frame was refused: counted, and without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Not a frame of these kinds.
    Malformed(DecodeError),
    /// The driver says that the link is down.
    Down,
    /// From a ring of another number of nodes.
    Nodes {
        /// Of how many.
        found: u8,
    },
    /// The neighbour's settings that must be alike at all nodes are others.
    Settings,
    /// The neighbour's shares refer to another rate.
    Nominal {
        /// To which.
        found: Rate,
    },
    /// Another node than the one whose place this is: cables or numbers are wrong.
    Neighbour {
        /// Which should be there.
        expected: NodeId,
        /// Which is.
        found: NodeId,
    },
    /// The neighbour's link of the same side: east links lead to west links.
    Side,
    /// This node's own frame: a loop.
    Own,
    /// From a second node with a number that is in use.
    Taken {
        /// The number.
        node: NodeId,
    },
    /// Older than one that was taken, or taken already.
    Stale,
    /// A report in this node's name that it did not make.
    Forged,
    /// A report over a link on which no neighbour is known.
    Stranger,
}

/// Names of the reasons to refuse a control frame, by [`Refused::index`].
pub const REASONS: [&str; 12] = [
    "malformed",
    "down",
    "nodes",
    "settings",
    "nominal",
    "neighbour",
    "side",
    "own",
    "taken",
    "stale",
    "forged",
    "stranger",
];

impl Refused {
    /// The reason's place in [`REASONS`] and [`Stats::refused`](super::discovery::Stats::refused).
    pub const fn index(self) -> usize {
        match self {
            Refused::Malformed(_) => 0,
            Refused::Down => 1,
            Refused::Nodes { .. } => 2,
            Refused::Settings => 3,
            Refused::Nominal { .. } => 4,
            Refused::Neighbour { .. } => 5,
            Refused::Side => 6,
            Refused::Own => 7,
            Refused::Taken { .. } => 8,
            Refused::Stale => 9,
            Refused::Forged => 10,
            Refused::Stranger => 11,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Malformed(error) => write!(f, "malformed: {error}"),
            Refused::Down => f.write_str("the link is down"),
            Refused::Nodes { found } => write!(f, "from a ring of {found} nodes: `nodes` must be alike everywhere"),
            Refused::Settings => {
                f.write_str("the neighbour's algorithm or its settings are others: they must be alike everywhere")
            }
            Refused::Nominal { found } => {
                write!(
                    f,
                    "the neighbour's nominal rate is {} bit/s: it must be alike everywhere",
                    found.as_bits_per_sec()
                )
            }
            Refused::Neighbour { expected, found } => {
                write!(f, "node {found} where node {expected} belongs: a cable or a number is wrong")
            }
            Refused::Side => f.write_str("both ends are of the same side: an east link must lead to a west link"),
            Refused::Own => f.write_str("this node's own frame: a loop"),
            Refused::Taken { node } => write!(f, "from a second node {node}: the number is taken"),
            Refused::Stale => f.write_str("older than one that was taken"),
            Refused::Forged => f.write_str("a report in this node's name that it did not make"),
            Refused::Stranger => f.write_str("a report over a link on which no neighbour is known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_reason_has_its_counter_and_its_words() {
        let node = NodeId::at;
        for (reason, counter, words) in [
            (
                Refused::Malformed(DecodeError::Truncated { have: 3, need: 8 }),
                "malformed",
                "malformed: 3 bytes where 8 are needed",
            ),
            (Refused::Down, "down", "the link is down"),
            (Refused::Nodes { found: 7 }, "nodes", "from a ring of 7 nodes: `nodes` must be alike everywhere"),
            (
                Refused::Settings,
                "settings",
                "the neighbour's algorithm or its settings are others: they must be alike everywhere",
            ),
            (
                Refused::Nominal { found: Rate::from_bits_per_sec(1000) },
                "nominal",
                "the neighbour's nominal rate is 1000 bit/s: it must be alike everywhere",
            ),
            (
                Refused::Neighbour { expected: node(2), found: node(4) },
                "neighbour",
                "node 5 where node 3 belongs: a cable or a number is wrong",
            ),
            (Refused::Side, "side", "both ends are of the same side: an east link must lead to a west link"),
            (Refused::Own, "own", "this node's own frame: a loop"),
            (Refused::Taken { node: node(2) }, "taken", "from a second node 3: the number is taken"),
            (Refused::Stale, "stale", "older than one that was taken"),
            (Refused::Forged, "forged", "a report in this node's name that it did not make"),
            (Refused::Stranger, "stranger", "a report over a link on which no neighbour is known"),
        ] {
            assert_eq!((REASONS[reason.index()], reason.to_string().as_str()), (counter, words));
        }
    }
}
