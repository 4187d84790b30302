//! Which links of a ring there are, and which way a packet goes.
//!
//! A line is a ring whose last link is missing. A node that failed is one whose two links are.

use super::{MOST_NODES, NodeId, Ringlet};
use crate::units::Rate;
use alloc::vec::Vec;

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether it carries packets.
    pub up: bool,
    /// What it carries, in all.
    pub capacity: Rate,
}

/// A ring as a node (or the whole simulator) knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// By ringlet, then by the index of the node where the way begins.
    ways: [Vec<Way>; 2],
    /// By node, in thousandths.
    weights: Vec<u32>,
}

/// A weight of one, in the unit of [`Topology::weight`].
pub const UNIT_WEIGHT: u32 = 1000;

/// How a packet gets from its ingress to its egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The way round.
    pub ringlet: Ringlet,
    /// Links that it crosses.
    pub hops: usize,
}

impl Topology {
    /// A whole ring of `nodes` nodes (2 to [`MOST_NODES`]) with equal links and weights.
    ///
    /// # Panics
    /// With another number of nodes.
    pub fn ring(nodes: usize, capacity: Rate) -> Topology {
        assert!((2..=MOST_NODES).contains(&nodes), "a ring has 2 to 255 nodes");
        let ways = alloc::vec![Way { up: true, capacity }; nodes];
        Topology { ways: [ways.clone(), ways], weights: alloc::vec![UNIT_WEIGHT; nodes] }
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.weights.len()
    }

    /// Whether there is such a node.
    pub fn has(&self, node: NodeId) -> bool {
        node.index() < self.nodes()
    }

    /// The neighbour to which `node` sends on `ringlet`.
    pub fn next(&self, node: NodeId, ringlet: Ringlet) -> NodeId {
        self.after(node, ringlet, 1)
    }

    /// The node `hops` links further on.
    pub fn after(&self, node: NodeId, ringlet: Ringlet, hops: usize) -> NodeId {
        let (count, hops) = (self.nodes(), hops % self.nodes());
        NodeId::at(match ringlet {
            Ringlet::Zero => (node.index() + hops) % count,
            Ringlet::One => (node.index() + count - hops) % count,
        })
    }

    /// Links from `from` to `to` on `ringlet`, 0 to N - 1.
    pub fn distance(&self, from: NodeId, to: NodeId, ringlet: Ringlet) -> usize {
        let count = self.nodes();
        match ringlet {
            Ringlet::Zero => (to.index() + count - from.index()) % count,
            Ringlet::One => (from.index() + count - to.index()) % count,
        }
    }

    /// The way that leaves `node` on `ringlet`.
    pub fn way(&self, node: NodeId, ringlet: Ringlet) -> Way {
        self.ways[ringlet.index()][node.index()]
    }

    /// Changes the way that leaves `node` on `ringlet`: whether anything changed.
    pub fn set_way(&mut self, node: NodeId, ringlet: Ringlet, way: Way) -> bool {
        core::mem::replace(&mut self.ways[ringlet.index()][node.index()], way) != way
    }

    /// A node's weight, in thousandths.
    pub fn weight(&self, node: NodeId) -> u32 {
        self.weights[node.index()]
    }

    /// Changes a node's weight: whether anything changed.
    pub fn set_weight(&mut self, node: NodeId, thousandths: u32) -> bool {
        core::mem::replace(&mut self.weights[node.index()], thousandths) != thousandths
    }

    /// The nodes whose links a packet on `route` from `from` crosses, in order; each stands for the way that leaves it.
    pub fn along(&self, from: NodeId, route: Route) -> impl Iterator<Item = NodeId> + '_ {
        (0..route.hops).map(move |hop| self.after(from, route.ringlet, hop))
    }

    /// Whether all ways of `route` are up.
    pub fn is_whole(&self, from: NodeId, route: Route) -> bool {
        self.along(from, route).all(|node| self.way(node, route.ringlet).up)
    }

    /// The shorter way round, at half the ring ringlet 0; with links missing, the way that is whole (steering).
    /// `None`: there is none, or `from` is `to`.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<Route> {
        let by = |ringlet| Route { ringlet, hops: self.distance(from, to, ringlet) };
        let mut ways = Ringlet::BOTH.map(by);
        ways.sort_by_key(|route| route.hops);
        ways.into_iter().find(|route| route.hops > 0 && self.is_whole(from, *route))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    #[test]
    fn packets_take_the_shorter_way_and_the_other_one_where_a_link_is_missing() {
        let mut ring = Topology::ring(8, Rate::from_mbit(100));
        assert_eq!(
            ring.route(node(1), node(5)),
            Some(Route { ringlet: Ringlet::Zero, hops: 4 }),
            "ties take ringlet 0"
        );
        assert_eq!(ring.route(node(1), node(6)), Some(Route { ringlet: Ringlet::One, hops: 3 }));
        assert_eq!(ring.route(node(3), node(3)), None);
        let way = ring.way(node(1), Ringlet::One);
        assert!(ring.set_way(node(1), Ringlet::One, Way { up: false, ..way }));
        assert!(!ring.set_way(node(1), Ringlet::One, Way { up: false, ..way }));
        let route = ring.route(node(1), node(6)).unwrap();
        assert_eq!(route, Route { ringlet: Ringlet::Zero, hops: 5 });
        let crossed: Vec<u8> = ring.along(node(1), route).map(NodeId::number).collect();
        assert_eq!(crossed, [1, 2, 3, 4, 5]);
        assert_eq!(ring.next(node(8), Ringlet::Zero), node(1));
        assert_eq!(ring.next(node(1), Ringlet::One), node(8));
    }
}
