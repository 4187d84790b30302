//! What becomes of a data frame at a node, with links missing: steering and wrapping.
//!
//! Source: IEEE 802.17, clause 11 (both ways of protection); the rules for turned frames are ours.
//!
//! | rule | why |
//! |---|---|
//! | a frame that reaches its egress is delivered, turned round or not | the shorter way; no node sees it twice |
//! | a frame at a gap is turned round once, onto the other ringlet, if the ring wraps | it then passes every node that it has not yet seen |
//! | a turned frame at a gap is dropped | it has been everywhere that it could go |
//! | a frame that comes to its ingress unturned is dropped | its egress is gone; a turned one passes there rightly |
//! | it may cross as many links as there are nodes, and as many again when it is turned | damaged heads end too |
//!
//! Departures: in 802.17 a turned frame goes all the way to the other side of the gap, is turned again there and only then
//! delivered, which keeps the order of its flow through a failure. Here it is delivered where it meets its egress. Frames
//! of a flow may then overtake one another once at each change of the topology: when it wraps, and when it steers.
//!
//! Cost: constant. Invariants: a frame is at one place at a time, so none is delivered twice; none crosses more than twice as
//! many links as there are nodes.

use super::{NodeId, Ringlet};
use core::fmt;

/// What happens to packets whose way is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// Every ingress sends by the way that is whole, as soon as it knows; what is under way to the gap is lost.
    #[default]
    Steer,
    /// Besides, the nodes at the gap turn packets round, until every ingress knows.
    Wrap,
}

/// What of a data frame's head decides where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where it entered the ring.
    pub ingress: NodeId,
    /// Where it leaves.
    pub egress: NodeId,
    /// The ringlet on which it travels.
    pub ringlet: Ringlet,
    /// Whether it was turned round.
    pub wrapped: bool,
    /// How many links it may have crossed on from its last sender: at its ingress, and when it is turned round, as many as
    /// the ring has nodes; each node that sends it on takes one off.
    pub ttl: u8,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The station here gets it.
    Deliver,
    /// It goes on like this, by its ringlet's way out.
    Send(Path),
    /// It is dropped.
    Strip(Stripped),
}

/// Why a frame ends before its egress: counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stripped {
    /// Its ingress or egress does not exist, or is the same.
    Foreign,
    /// It came round to its ingress.
    Own,
    /// It has crossed too many links.
    Expired,
    /// The way is cut, and it may not be turned round, or not again.
    Cut,
}

impl fmt::Display for Stripped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stripped::Foreign => "from or for a node that does not exist",
            Stripped::Own => "came round to its ingress",
            Stripped::Expired => "has crossed too many links",
            Stripped::Cut => "the way is cut",
        })
    }
}

/// What becomes of a frame that came to `node` of a ring of `nodes`. `up` tells of the ways out by ringlet.
pub fn fate(protection: Protection, node: NodeId, nodes: usize, up: [bool; 2], frame: Path) -> Fate {
    if frame.ingress.index() >= nodes || frame.egress.index() >= nodes || frame.ingress == frame.egress {
        return Fate::Strip(Stripped::Foreign);
    }
    if frame.egress == node {
        return Fate::Deliver;
    }
    if frame.ingress == node && !frame.wrapped {
        return Fate::Strip(Stripped::Own);
    }
    onward(protection, nodes, up, frame)
}

/// What becomes of a frame that leaves its ingress, or that waited in transit while ways out changed.
pub fn onward(protection: Protection, nodes: usize, up: [bool; 2], frame: Path) -> Fate {
    if up[frame.ringlet.index()] {
        return match frame.ttl.checked_sub(1) {
            Some(ttl @ 1..) => Fate::Send(Path { ttl, ..frame }),
            _ => Fate::Strip(Stripped::Expired),
        };
    }
    let other = frame.ringlet.other();
    if protection == Protection::Steer || frame.wrapped || !up[other.index()] {
        return Fate::Strip(Stripped::Cut);
    }
    Fate::Send(Path { ringlet: other, wrapped: true, ttl: nodes.min(super::MOST_NODES) as u8, ..frame })
}
