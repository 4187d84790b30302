//! Paths: the fewest hops, ties to bonds, then to rings, then to the link of the lowest number; nodes that forward in
//! between. A ring is one hop from any of its nodes to any other.
//!
//! One breadth-first search over the forwarding nodes for each distinct place where flows enter them, so a hundred
//! thousand hosts around a few routers cost a search for each router and not for each host.
//!
//! With equal-cost multipath (RFC 2992 has why flows, and not packets, are spread) a flow chooses among all paths of the fewest hops: from its
//! end backwards, at each node one of the links by which a shortest path comes there, by a hash of its name, the seed and the node.

use super::topology::{NONE, Topology};
use crate::model::{Crossing, Hop, Ring};
use fairspan_core::ring::{Class, Ringlet};
use fairspan_core::rng::Rng;

/// Steps over links that searching may take in all before the scenario is refused.
const MOST_WORK: u64 = 4_000_000_000;

/// An edge of the graph: a link, a bond in one direction, or a pair of a ring's nodes.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: u32,
    to: u32,
    hop: Hop,
}

/// The graph, and the search that was made last.
pub(super) struct Router<'a> {
    topology: &'a Topology,
    edges: Vec<Edge>,
    /// Edges that leave each node: places in `leaving`.
    first_leaving: Vec<u32>,
    leaving: Vec<u32>,
    /// Edges that enter each node.
    first_entering: Vec<u32>,
    entering: Vec<u32>,
    /// Root of the search, and for each node its distance and the edge by which it was found.
    root: u32,
    distance: Vec<u32>,
    found_by: Vec<u32>,
    order: Vec<u32>,
    work: u64,
    /// By which the flow whose path is looked for chooses among equal ones; `None`: it takes the first.
    pub(super) pick: Option<u64>,
}

/// Why there is no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoPath {
    /// No link leads on.
    Apart,
    /// It would lead through this node, which is a host.
    Host(u32),
    /// The search is not worth it.
    TooMuch,
}

impl<'a> Router<'a> {
    /// `bonds` has both ends of each.
    pub(super) fn new(topology: &'a Topology, bonds: &[[u32; 2]], rings: &[Ring]) -> Router<'a> {
        let mut edges = Vec::with_capacity(topology.links.len() + 2 * bonds.len());
        for (number, &[a, b]) in bonds.iter().enumerate() {
            edges.push(Edge { from: a, to: b, hop: Hop::Bond(number as u32, 0) });
            edges.push(Edge { from: b, to: a, hop: Hop::Bond(number as u32, 1) });
        }
        for (number, ring) in rings.iter().enumerate() {
            for (from, &a) in ring.nodes.iter().enumerate() {
                for (to, &b) in ring.nodes.iter().enumerate().filter(|(to, _)| *to != from) {
                    edges.push(Edge { from: a, to: b, hop: Hop::Ring(number as u32, crossing(from, to)) });
                }
            }
        }
        for (number, link) in topology.links.iter().enumerate() {
            edges.push(Edge { from: link.from, to: link.to, hop: Hop::Link(number as u32) });
        }
        let nodes = topology.nodes.len();
        let (first_leaving, leaving) = sorted(nodes, edges.iter().map(|edge| edge.from));
        let (first_entering, entering) = sorted(nodes, edges.iter().map(|edge| edge.to));
        let (distance, found_by) = (vec![NONE; nodes], vec![NONE; nodes]);
        let (order, root, work) = (Vec::new(), NONE, 0);
        Router {
            topology,
            edges,
            first_leaving,
            leaving,
            first_entering,
            entering,
            root,
            distance,
            found_by,
            order,
            work,
            pick: None,
        }
    }

    fn leaving(&self, node: u32) -> &[u32] {
        let place = node as usize;
        &self.leaving[self.first_leaving[place] as usize..self.first_leaving[place + 1] as usize]
    }

    fn entering(&self, node: u32) -> &[u32] {
        let place = node as usize;
        &self.entering[self.first_entering[place] as usize..self.first_entering[place + 1] as usize]
    }

    /// The node whose search serves `from`: itself, or the forwarding node behind its only link.
    pub(super) fn entry(&self, from: u32) -> u32 {
        match self.leaving(from) {
            [only] if self.topology.forwards[self.edges[*only as usize].to as usize] => self.edges[*only as usize].to,
            _ => from,
        }
    }

    /// The shortest path between two nodes, appended to `path`. Calls with the same [`Router::entry`] one after the
    /// other share a search.
    pub(super) fn path(&mut self, from: u32, to: u32, path: &mut Vec<Hop>) -> Result<(), NoPath> {
        if from == to {
            return Ok(());
        }
        let direct = self.leaving(from).iter().copied().filter(|&edge| self.edges[edge as usize].to == to);
        if let Some(edge) = self.choose(to, direct) {
            path.push(self.edges[edge as usize].hop);
            return Ok(());
        }
        let entry = self.entry(from);
        if entry != from {
            let only = self.leaving(from)[0];
            path.push(self.edges[only as usize].hop);
            if entry == to {
                return Ok(());
            }
        }
        self.search(entry)?;
        // Of the nodes before the last, the nearest; of these the one found first.
        let before = |edge: u32| {
            let node = self.edges[edge as usize].from;
            let usable = node == entry || (self.topology.forwards[node as usize] && node != from);
            let distance = self.distance[node as usize];
            (usable && distance != NONE).then_some((distance, edge))
        };
        let Some((least, first)) = self.entering(to).iter().copied().filter_map(before).min() else {
            return Err(self.why(from, to));
        };
        let nearest =
            self.entering(to).iter().copied().filter(|&edge| before(edge).is_some_and(|found| found.0 == least));
        let last = self.choose(to, nearest).unwrap_or(first);
        let start = path.len();
        let mut edge = last;
        loop {
            path.push(self.edges[edge as usize].hop);
            let node = self.edges[edge as usize].from;
            if node == entry {
                break;
            }
            edge = self.found_by[node as usize];
            if self.pick.is_some() {
                let nearer = |&edge: &u32| {
                    let before = self.edges[edge as usize].from as usize;
                    // Without forwarding nothing was found but the root.
                    self.distance[before] != NONE && self.distance[before] + 1 == self.distance[node as usize]
                };
                edge = self.choose(node, self.entering(node).iter().copied().filter(nearer)).unwrap_or(edge);
            }
        }
        path[start..].reverse();
        Ok(())
    }

    /// One of the edges that lead to `node`: the first, or by the flow's hash any.
    fn choose(&self, node: u32, mut edges: impl Iterator<Item = u32> + Clone) -> Option<u32> {
        let Some(pick) = self.pick else { return edges.next() };
        let count = edges.clone().count() as u64;
        let chosen = Rng::new(pick ^ u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(count);
        edges.nth(chosen as usize)
    }

    /// Distances of the forwarding nodes from `root`.
    fn search(&mut self, root: u32) -> Result<(), NoPath> {
        if self.root == root {
            return Ok(());
        }
        for &node in &self.order {
            self.distance[node as usize] = NONE;
        }
        self.order.clear();
        self.order.push(root);
        self.root = root;
        self.distance[root as usize] = 0;
        let mut next = 0;
        while let Some(&node) = self.order.get(next) {
            next += 1;
            let range = self.first_leaving[node as usize] as usize..self.first_leaving[node as usize + 1] as usize;
            self.work += range.len() as u64;
            if self.work > MOST_WORK {
                self.root = NONE;
                return Err(NoPath::TooMuch);
            }
            for place in range {
                let number = self.leaving[place];
                let to = self.edges[number as usize].to;
                if self.topology.forwards[to as usize] && self.distance[to as usize] == NONE {
                    self.distance[to as usize] = self.distance[node as usize] + 1;
                    self.found_by[to as usize] = number;
                    self.order.push(to);
                }
            }
        }
        Ok(())
    }

    /// Looks for the host that is in the way.
    fn why(&self, from: u32, to: u32) -> NoPath {
        let mut before = vec![NONE; self.topology.nodes.len()];
        let mut order = vec![from];
        before[from as usize] = from;
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for &edge in self.leaving(node) {
                let there = self.edges[edge as usize].to;
                if before[there as usize] == NONE {
                    before[there as usize] = node;
                    order.push(there);
                }
            }
        }
        let mut node = to;
        while before[node as usize] != NONE && node != from {
            node = before[node as usize];
            if node != from && !self.topology.forwards[node as usize] {
                return NoPath::Host(node);
            }
        }
        NoPath::Apart
    }
}

/// Numbers of edges by node, in the edges' order: where each node's begin, and all of them.
fn sorted(nodes: usize, ends: impl Iterator<Item = u32> + Clone) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0_u32; nodes + 1];
    for end in ends.clone() {
        first[end as usize + 1] += 1;
    }
    for place in 0..nodes {
        first[place + 1] += first[place];
    }
    let mut next = first.clone();
    let mut list = vec![0; first[nodes] as usize];
    for (number, end) in ends.enumerate() {
        let place = &mut next[end as usize];
        list[*place as usize] = number as u32;
        *place += 1;
    }
    (first, list)
}

/// From one place of a ring to another, the shorter way round, as best effort.
pub(super) fn crossing(from: usize, to: usize) -> Crossing {
    Crossing { from: from as u8, to: to as u8, ringlet: None, class: Class::default() }
}

/// The way back over the other directions of the same links, bonds and rings; `None` where one has no other direction.
pub(super) fn mirrored(topology: &Topology, path: &[Hop]) -> Option<Vec<Hop>> {
    let back = path.iter().rev().map(|hop| match *hop {
        Hop::Bond(number, end) => Some(Hop::Bond(number, 1 - end)),
        // On the same links, which is the other ringlet.
        Hop::Ring(number, way) => {
            let ringlet = way.ringlet.map(Ringlet::other);
            Some(Hop::Ring(number, Crossing { from: way.to, to: way.from, ringlet, ..way }))
        }
        Hop::Link(number) => Some(topology.partners[number as usize]).filter(|&partner| partner != NONE).map(Hop::Link),
    });
    back.collect()
}
