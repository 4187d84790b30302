//! What is to be shared: a ring or line with the capacity of each link, the weight of each ingress, and flows.
//!
//! All rates are in one unit, whichever it is. The two directions of a link are two ways of their own, as are the
//! ringlets: a flow uses one ringlet, and flows of different ringlets never meet.

use super::topology::{Route, Topology, UNIT_WEIGHT, Way};
use super::{MOST_NODES, NodeId, Ringlet};
use crate::units::Rate;
use alloc::vec;
use alloc::vec::Vec;

/// All traffic that one station sends to another as one flow. Several may have the same ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Where it enters.
    pub from: NodeId,
    /// Where it leaves.
    pub to: NodeId,
    /// The way it goes.
    pub route: Route,
    /// The most that it can use; `None`: as much as it gets.
    pub demand: Option<f64>,
}

impl Flow {
    /// Its demand, infinite where it has none.
    pub fn most(&self) -> f64 {
        self.demand.unwrap_or(f64::INFINITY)
    }
}

/// Flows and the ring or line that they share.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// For the routes: which ways there are.
    topology: Topology,
    /// By ringlet, then by the index of the node where the way begins.
    capacity: [Vec<f64>; 2],
    weights: Vec<f64>,
    flows: Vec<Flow>,
}

/// Why something cannot be part of a problem.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// Too few or too many nodes.
    #[error("{0} nodes: there are 2 to 255")]
    Nodes(u64),
    /// There is no such node.
    #[error("node {number}: there is none; nodes are 1 to {nodes}")]
    Node {
        /// As it was named.
        number: u64,
        /// How many there are.
        nodes: usize,
    },
    /// There is no such link.
    #[error("link {number}: there is none; links are 1 to {links}")]
    Link {
        /// As it was named.
        number: u64,
        /// How many there are.
        links: usize,
    },
    /// A flow that goes nowhere.
    #[error("from node {0} to itself: a flow needs two nodes")]
    Ends(NodeId),
    /// No way leads there.
    #[error("from {from} to {to} no way leads on {}", match .ringlet { Some(ringlet) => RINGLETS[ringlet.index()], None => "either ringlet" })]
    NoWay {
        /// Where it would enter.
        from: NodeId,
        /// Where it would leave.
        to: NodeId,
        /// The way it was to take.
        ringlet: Option<Ringlet>,
    },
    /// Not a capacity.
    #[error("capacity {0}: a capacity is a number above 0")]
    Capacity(f64),
    /// Not a weight.
    #[error("weight {0}: a weight is a number above 0")]
    Weight(f64),
    /// Not a demand.
    #[error("demand {0}: a demand is a number, at least 0; leave it out for as much as there is")]
    Demand(f64),
}

/// Of the ways of a [`Problem::topology`], which serves routes only.
const NO_RATE: Rate = Rate::from_bits_per_sec(0);

const RINGLETS: [&str; 2] = ["ringlet 0", "ringlet 1"];

fn is_positive(value: f64) -> bool {
    value.is_normal() && value > 0.0
}

impl Problem {
    /// A whole ring whose ways all have this capacity, without flows. All weights are 1.
    ///
    /// # Errors
    /// When it has not 2 to 255 nodes, or the capacity is none.
    pub fn ring(nodes: u64, capacity: f64) -> Result<Problem, ProblemError> {
        let count = usize::try_from(nodes).ok().filter(|count| (2..=MOST_NODES).contains(count));
        let count = count.ok_or(ProblemError::Nodes(nodes))?;
        if !is_positive(capacity) {
            return Err(ProblemError::Capacity(capacity));
        }
        let ways = vec![capacity; count];
        Ok(Problem {
            topology: Topology::ring(count, NO_RATE),
            capacity: [ways.clone(), ways],
            weights: vec![1.0; count],
            flows: Vec::new(),
        })
    }

    /// As [`Problem::ring`], without the link from the last node to the first.
    ///
    /// # Errors
    /// As there.
    pub fn line(nodes: u64, capacity: f64) -> Result<Problem, ProblemError> {
        let mut line = Problem::ring(nodes, capacity)?;
        line.cut(line.nodes() - 1);
        Ok(line)
    }

    /// The ring as nodes know it: rates in bit/s, weights, and only the ways that are up.
    ///
    /// # Errors
    /// When a way that is up has no capacity, or a node no weight.
    pub fn of(topology: &Topology) -> Result<Problem, ProblemError> {
        let mut problem = Problem::ring(topology.nodes() as u64, 1.0)?;
        for node in (0..topology.nodes()).map(NodeId::at) {
            for ringlet in Ringlet::BOTH {
                let way = topology.way(node, ringlet);
                problem.topology.set_way(node, ringlet, Way { up: way.up, capacity: NO_RATE });
                if way.up {
                    problem.set_way(node, ringlet, way.capacity.as_bits_per_sec() as f64)?;
                }
            }
            problem.set_weight(node, f64::from(topology.weight(node)) / f64::from(UNIT_WEIGHT))?;
        }
        Ok(problem)
    }

    /// Takes the link at this index (its number less one) out, in both directions.
    fn cut(&mut self, index: usize) {
        let east = NodeId::at(index);
        let west = self.topology.next(east, Ringlet::Zero);
        for (node, ringlet) in [(east, Ringlet::Zero), (west, Ringlet::One)] {
            self.topology.set_way(node, ringlet, Way { up: false, capacity: NO_RATE });
        }
    }

    /// The node of this number.
    ///
    /// # Errors
    /// When there is none.
    pub fn node(&self, number: u64) -> Result<NodeId, ProblemError> {
        let node = u8::try_from(number).ok().and_then(NodeId::new).filter(|node| self.topology.has(*node));
        node.ok_or(ProblemError::Node { number, nodes: self.nodes() })
    }

    /// The capacity of link `number` on `ringlet`.
    ///
    /// # Errors
    /// When there is no such link, or the capacity is none.
    pub fn set_link(&mut self, number: u64, ringlet: Ringlet, capacity: f64) -> Result<(), ProblemError> {
        let links = self.links();
        let error = ProblemError::Link { number, links };
        let east = self.node(number).map_err(|_| error)?;
        let node = match ringlet {
            Ringlet::Zero => east,
            Ringlet::One => self.topology.next(east, Ringlet::Zero),
        };
        if !self.topology.way(node, ringlet).up {
            return Err(error);
        }
        self.set_way(node, ringlet, capacity)
    }

    fn set_way(&mut self, node: NodeId, ringlet: Ringlet, capacity: f64) -> Result<(), ProblemError> {
        if !is_positive(capacity) {
            return Err(ProblemError::Capacity(capacity));
        }
        self.capacity[ringlet.index()][node.index()] = capacity;
        Ok(())
    }

    /// The weight of what enters at `node`: on a congested link a node of weight 2 has twice what one of weight 1 has.
    ///
    /// # Errors
    /// When there is no such node, or the weight is none.
    pub fn set_weight(&mut self, node: NodeId, weight: f64) -> Result<(), ProblemError> {
        let node = self.node(node.number().into())?;
        if !is_positive(weight) {
            return Err(ProblemError::Weight(weight));
        }
        self.weights[node.index()] = weight;
        Ok(())
    }

    /// One more flow, on `ringlet` or else the shorter way, at half the ring ringlet 0: its index.
    ///
    /// # Errors
    /// When there are no such nodes, they are one, no way leads from one to the other, or the demand is none.
    pub fn add(
        &mut self,
        from: NodeId,
        to: NodeId,
        ringlet: Option<Ringlet>,
        demand: Option<f64>,
    ) -> Result<usize, ProblemError> {
        let (from, to) = (self.node(from.number().into())?, self.node(to.number().into())?);
        if from == to {
            return Err(ProblemError::Ends(from));
        }
        let route = match ringlet {
            Some(ringlet) => Some(Route { ringlet, hops: self.topology.distance(from, to, ringlet) })
                .filter(|route| self.topology.is_whole(from, *route)),
            None => self.topology.route(from, to),
        };
        let route = route.ok_or(ProblemError::NoWay { from, to, ringlet })?;
        if let Some(demand) = demand
            && !(demand.is_finite() && demand >= 0.0)
        {
            return Err(ProblemError::Demand(demand));
        }
        self.flows.push(Flow { from, to, route, demand });
        Ok(self.flows.len() - 1)
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.weights.len()
    }

    /// The number of the last link: one less than nodes on a line.
    pub fn links(&self) -> usize {
        let last = NodeId::at(self.nodes() - 1);
        if self.topology.way(last, Ringlet::Zero).up { self.nodes() } else { self.nodes() - 1 }
    }

    /// The flows, as they were added.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Which ways there are. Its rates and weights mean nothing.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What the way carries that leaves `node` on `ringlet`.
    pub fn capacity(&self, node: NodeId, ringlet: Ringlet) -> f64 {
        self.capacity[ringlet.index()][node.index()]
    }

    /// The weight of what enters at `node`.
    pub fn weight(&self, node: NodeId) -> f64 {
        self.weights[node.index()]
    }

    /// The nodes whose outgoing ways a flow crosses, in order.
    pub fn along(&self, flow: &Flow) -> impl Iterator<Item = NodeId> + '_ {
        self.topology.along(flow.from, flow.route)
    }

    /// The number of the link that leaves `node` on `ringlet`.
    pub fn link(&self, node: NodeId, ringlet: Ringlet) -> usize {
        match ringlet {
            Ringlet::Zero => node.index() + 1,
            Ringlet::One => self.topology.next(node, Ringlet::One).index() + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    #[test]
    fn what_cannot_be_shared_is_refused_with_its_name() {
        assert_eq!(Problem::ring(1, 1.0), Err(ProblemError::Nodes(1)));
        assert_eq!(Problem::ring(256, 1.0), Err(ProblemError::Nodes(256)));
        for wrong in [0.0, -1.0, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
            assert_eq!(Problem::line(4, wrong), Err(ProblemError::Capacity(wrong)));
        }
        assert!(matches!(Problem::line(4, f64::NAN), Err(ProblemError::Capacity(nan)) if nan.is_nan()));
        let mut line = Problem::line(4, 1.0).unwrap();
        assert_eq!(line.node(0), Err(ProblemError::Node { number: 0, nodes: 4 }));
        assert_eq!(line.node(261), Err(ProblemError::Node { number: 261, nodes: 4 }));
        assert_eq!(line.add(node(1), node(5), None, None), Err(ProblemError::Node { number: 5, nodes: 4 }));
        assert_eq!(line.add(node(3), node(3), None, None), Err(ProblemError::Ends(node(3))));
        assert_eq!(line.add(node(1), node(2), None, Some(-0.5)), Err(ProblemError::Demand(-0.5)));
        assert_eq!(
            line.add(node(1), node(2), Some(Ringlet::One), None),
            Err(ProblemError::NoWay { from: node(1), to: node(2), ringlet: Some(Ringlet::One) })
        );
        assert_eq!(line.set_link(4, Ringlet::Zero, 1.0), Err(ProblemError::Link { number: 4, links: 3 }));
        assert_eq!(line.set_link(0, Ringlet::One, 1.0), Err(ProblemError::Link { number: 0, links: 3 }));
        assert_eq!(line.set_weight(node(2), 0.0), Err(ProblemError::Weight(0.0)));
        assert_eq!(line.flows(), [], "what was refused is not there");
        let added = [(1, 2), (2, 4), (1, 2)].map(|(from, to)| line.add(node(from), node(to), None, None));
        assert_eq!(added, [Ok(0), Ok(1), Ok(2)], "flows are numbered as they come");
    }

    #[test]
    fn a_line_has_one_way_and_a_ring_takes_the_shorter_one_unless_told() {
        let mut line = Problem::line(6, 1.0).unwrap();
        line.add(node(6), node(1), None, None).unwrap();
        assert_eq!(line.flows()[0].route, Route { ringlet: Ringlet::One, hops: 5 });
        let mut ring = Problem::ring(6, 1.0).unwrap();
        for (to, ringlet) in [(4, None), (5, None), (5, Some(Ringlet::Zero))] {
            ring.add(node(1), node(to), ringlet, Some(0.5)).unwrap();
        }
        let routes: Vec<_> = ring.flows().iter().map(|flow| (flow.route.ringlet.index(), flow.route.hops)).collect();
        assert_eq!(routes, [(0, 3), (1, 2), (0, 4)]);
        let crossed: Vec<_> = ring.along(&ring.flows()[1]).map(|node| ring.link(node, Ringlet::One)).collect();
        assert_eq!(crossed, [6, 5], "link n joins n and n + 1");
    }

    #[test]
    fn a_link_has_a_capacity_in_each_direction() {
        let mut ring = Problem::ring(3, 1.0).unwrap();
        ring.set_link(3, Ringlet::One, 0.25).unwrap();
        assert_eq!(ring.capacity(node(1), Ringlet::One), 0.25, "from 1 to 3");
        assert_eq!(ring.capacity(node(3), Ringlet::Zero), 1.0, "from 3 to 1");
    }

    #[test]
    fn the_ring_that_nodes_know_is_taken_over_with_what_is_down() {
        let mut topology = Topology::ring(4, Rate::from_mbit(100));
        topology.set_weight(node(2), 2500);
        let down = Way { up: false, capacity: Rate::from_mbit(100) };
        topology.set_way(node(1), Ringlet::Zero, down);
        let mut problem = Problem::of(&topology).unwrap();
        assert_eq!((problem.weight(node(2)), problem.capacity(node(3), Ringlet::Zero)), (2.5, 1e8));
        problem.add(node(1), node(2), None, None).unwrap();
        assert_eq!(problem.flows()[0].route, Route { ringlet: Ringlet::One, hops: 3 });
    }
}
