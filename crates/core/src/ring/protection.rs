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
pub(crate) fn onward(protection: Protection, nodes: usize, up: [bool; 2], frame: Path) -> Fate {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::string::ToString;
    use std::vec::Vec;

    /// The way of a frame through a ring: what ends it, and how many links it crossed. `up` says before each step which
    /// links there are.
    fn walk(
        protection: Protection,
        nodes: usize,
        mut frame: Path,
        mut up: impl FnMut(usize) -> Vec<bool>,
    ) -> (Fate, usize) {
        let mut at = frame.ingress.index();
        let ways = |links: &[bool], at: usize| [links[at], links[(at + nodes - 1) % nodes]];
        let mut next = onward(protection, nodes, ways(&up(0), at), frame);
        for crossed in 0.. {
            match next {
                Fate::Send(sent) => frame = sent,
                end => return (end, crossed),
            }
            at = match frame.ringlet {
                Ringlet::Zero => (at + 1) % nodes,
                Ringlet::One => (at + nodes - 1) % nodes,
            };
            next = fate(protection, NodeId::at(at), nodes, ways(&up(crossed + 1), at), frame);
            if next == Fate::Deliver {
                assert_eq!(at, frame.egress.index());
            }
        }
        unreachable!("a frame ends")
    }

    fn entering(nodes: usize, from: usize, to: usize, ringlet: Ringlet) -> Path {
        Path { ingress: NodeId::at(from), egress: NodeId::at(to), ringlet, wrapped: false, ttl: nodes as u8 }
    }

    #[test]
    fn a_wrapping_ring_delivers_wherever_either_way_is_whole_and_a_steering_one_where_the_chosen_way_is() {
        for nodes in 2..=8 {
            for gaps in 0..1u32 << nodes {
                let links: Vec<bool> = (0..nodes).map(|link| gaps >> link & 1 == 0).collect();
                for (from, to) in (0..nodes * nodes).map(|pair| (pair / nodes, pair % nodes)).filter(|(a, b)| a != b) {
                    let east = (to + nodes - from) % nodes;
                    let eastward = (0..east).all(|n| links[(from + n) % nodes]);
                    let westward = (0..nodes - east).all(|n| links[(to + n) % nodes]);
                    for ringlet in Ringlet::BOTH {
                        let frame = entering(nodes, from, to, ringlet);
                        let chosen = if ringlet == Ringlet::Zero { eastward } else { westward };
                        let (end, crossed) = walk(Protection::Steer, nodes, frame, |_| links.clone());
                        assert_eq!(end == Fate::Deliver, chosen, "steer {frame:?} {links:?}: {end:?}");
                        assert!(crossed < nodes);
                        let (end, crossed) = walk(Protection::Wrap, nodes, frame, |_| links.clone());
                        assert_eq!(end == Fate::Deliver, eastward || westward, "wrap {frame:?} {links:?}: {end:?}");
                        assert!(crossed < 2 * nodes);
                        if end != Fate::Deliver {
                            assert_eq!(end, Fate::Strip(Stripped::Cut));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_frame_goes_on_for_ever_however_the_links_change_and_whatever_its_head_says() {
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let nodes = 2 + rng.below(254) as usize;
            let mut links: Vec<bool> = (0..nodes).map(|_| rng.below(4) > 0).collect();
            let any = |rng: &mut Rng| NodeId::at(rng.below(255) as usize);
            let ringlet = Ringlet::BOTH[rng.below(2) as usize];
            let wrapped = rng.below(4) == 0;
            let (ingress, egress) = (any(&mut rng), any(&mut rng));
            let frame = Path { ingress, egress, ringlet, wrapped, ttl: rng.below(256) as u8 };
            let at = NodeId::at(rng.below(nodes as u64) as usize);
            if let Fate::Send(Path { ttl, .. }) = fate(Protection::Wrap, at, nodes, [true; 2], frame) {
                assert!(ttl < frame.ttl);
            }
            if ingress.index() < nodes && egress.index() < nodes {
                let (_, crossed) = walk(Protection::Wrap, nodes, frame, |_| {
                    let link = rng.below(nodes as u64) as usize;
                    links[link] = !links[link];
                    links.clone()
                });
                assert!(crossed <= 255 + nodes, "seed {seed}");
            }
        }
    }

    #[test]
    fn reasons_to_strip_a_frame_have_words() {
        let words = [Stripped::Foreign, Stripped::Own, Stripped::Expired, Stripped::Cut].map(|one| one.to_string());
        let expected =
            ["from or for a node that does not exist", "came round to its ingress", "has crossed too many links"];
        assert_eq!((&words[..3], words[3].as_str()), (&expected.map(ToString::to_string)[..], "the way is cut"));
    }

    #[test]
    fn a_frame_whose_egress_died_ends_at_its_ingress_or_at_the_gap() {
        let frame = entering(5, 0, 3, Ringlet::Zero);
        let around = Path { ringlet: Ringlet::Zero, ttl: 2, ..frame };
        assert_eq!(fate(Protection::Steer, NodeId::at(0), 5, [true; 2], around), Fate::Strip(Stripped::Own));
        let turned = Path { wrapped: true, ringlet: Ringlet::One, ttl: 4, ..frame };
        let on = Fate::Send(Path { ttl: 3, ..turned });
        assert_eq!(fate(Protection::Wrap, NodeId::at(0), 5, [true; 2], turned), on);
        assert_eq!(fate(Protection::Wrap, NodeId::at(4), 5, [true, false], turned), Fate::Strip(Stripped::Cut));
        let foreign = Path { egress: NodeId::at(5), ..frame };
        assert_eq!(fate(Protection::Wrap, NodeId::at(1), 5, [true; 2], foreign), Fate::Strip(Stripped::Foreign));
        let last = Path { ttl: 1, ..frame };
        assert_eq!(fate(Protection::Wrap, NodeId::at(1), 5, [true; 2], last), Fate::Strip(Stripped::Expired));
    }
}
