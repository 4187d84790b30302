//! Whether rates are RIAS fair: the test of Proposition 1, for any rates, wherever they come from.
//!
//! Rates are fair if and only if they fit and every flow is at its demand or has a bottleneck link. Source: the rings
//! paper, III-A, with its Definition 1, and Proposition 1. The test shares no code with [`super::rias`].
//!
//! | paper | here |
//! |---|---|
//! | `R_ij` | `rates[flow]` |
//! | `F_n` | `Way::carried` |
//! | `IA(i)`, on link n | `Way::aggregates[i].rate` |
//! | `B_n(i, j)` | `obstacle` finds nothing |
//!
//! A link n is a bottleneck of a flow that crosses it when it is full, no other ingress has a larger aggregate there,
//! and no flow of the same ingress that crosses it too has a larger rate.
//!
//! Departures: aggregates are those on the link in question (the paper's sum runs over the whole ring); with weights
//! `IA(i)/w_i` are compared; each way has a capacity of its own; a flow at its demand needs no bottleneck.
//!
//! Tolerance: each rate may be wrong by that share of the link's capacity, a sum of k rates by k times as much.
//!
//! Cost: O(sum of hops + nodes²) time and O(nodes²) memory, at most 2 × 255² aggregates.

use super::problem::{Flow, Problem};
use super::{NodeId, Ringlet};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// The tolerance for rates that were computed in 64-bit numbers.
pub const TOLERANCE: f64 = 1e-9;

/// Why rates are not fair. Flows are named by their index.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfair {
    /// Not one rate for each flow.
    Length {
        /// Rates given.
        rates: usize,
        /// Flows to be served.
        flows: usize,
    },
    /// Not a rate: negative, infinite or no number.
    Rate {
        /// Whose.
        flow: usize,
        /// What was given.
        rate: f64,
    },
    /// More than the flow can use.
    Demand {
        /// Whose.
        flow: usize,
        /// What was given.
        rate: f64,
        /// The most that it uses.
        demand: f64,
    },
    /// More than a link carries.
    Overload {
        /// The link's number.
        link: usize,
        /// The direction.
        ringlet: Ringlet,
        /// The sum of what crosses it.
        carried: f64,
        /// What it carries.
        capacity: f64,
    },
    /// The flow is below its demand, and no link is its bottleneck.
    NoBottleneck {
        /// Which flow.
        flow: usize,
        /// Its ends.
        ends: (NodeId, NodeId),
        /// What it has.
        rate: f64,
        /// For each link on its way, why it is none.
        obstacles: Vec<(usize, Obstacle)>,
    },
}

/// Why a link is not a flow's bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Obstacle {
    /// The link has room.
    Room {
        /// What it carries now.
        carried: f64,
        /// What it could.
        capacity: f64,
    },
    /// Another ingress has more there, for its weight.
    Ingress {
        /// Which.
        node: NodeId,
        /// Its aggregate there.
        theirs: f64,
        /// The flow's own ingress's.
        own: f64,
    },
    /// Another flow of the same ingress has more there.
    Sibling {
        /// Which.
        flow: usize,
        /// What it has.
        rate: f64,
    },
}

impl Unfair {
    /// The flow that it is about.
    pub fn flow(&self) -> Option<usize> {
        match self {
            Unfair::Rate { flow, .. } | Unfair::Demand { flow, .. } | Unfair::NoBottleneck { flow, .. } => Some(*flow),
            Unfair::Length { .. } | Unfair::Overload { .. } => None,
        }
    }
}

/// A rate with nine digits, as is enough to see what is wrong.
struct Digits(f64);

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = alloc::format!("{:.8e}", self.0);
        short.parse().unwrap_or(self.0).fmt(f)
    }
}

impl fmt::Display for Unfair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfair::Length { rates, flows } => write!(f, "{rates} rates for {flows} flows: there is one for each"),
            Unfair::Rate { flow, rate } => write!(f, "flow {flow} has the rate {rate}: a rate is a number, at least 0"),
            Unfair::Demand { flow, rate, demand } => {
                write!(f, "flow {flow} has {} and can use {}", Digits(*rate), Digits(*demand))
            }
            Unfair::Overload { link, ringlet, carried, capacity } => {
                let (ringlet, carried, capacity) = (ringlet.index(), Digits(*carried), Digits(*capacity));
                write!(f, "link {link} of ringlet {ringlet} would have to carry {carried}, and carries {capacity}")
            }
            Unfair::NoBottleneck { flow, ends: (from, to), rate, obstacles } => {
                write!(f, "flow {flow} from {from} to {to} has {} and no bottleneck link", Digits(*rate))?;
                const SHOWN: usize = 4;
                for (i, (link, obstacle)) in obstacles.iter().take(SHOWN).enumerate() {
                    write!(f, "{} link {link} {obstacle}", if i == 0 { ":" } else { "," })?;
                }
                match obstacles.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, ", nor is any of {more} more"),
                }
            }
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Room { carried, capacity } => {
                write!(f, "has room ({} of {})", Digits(*carried), Digits(*capacity))
            }
            Obstacle::Ingress { node, theirs, own } => {
                write!(f, "gives node {node} more ({} against {})", Digits(*theirs), Digits(*own))
            }
            Obstacle::Sibling { flow, rate } => {
                write!(f, "gives flow {flow} of the same node more ({})", Digits(*rate))
            }
        }
    }
}

/// What enters at one node and crosses a way.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregate {
    rate: f64,
    flows: usize,
    /// The flow with the largest rate.
    largest: usize,
    largest_rate: f64,
}

/// One direction of a link.
#[derive(Clone, Debug)]
struct Way {
    capacity: f64,
    carried: f64,
    flows: usize,
    aggregates: Vec<Aggregate>,
}

/// Whether `rates`, in the order of the flows, are RIAS fair but for errors of `tolerance`; see above, and
/// [`TOLERANCE`].
///
/// # Errors
/// The first reason found why they are not: what is not a rate, what does not fit, a flow without a bottleneck.
pub fn check(problem: &Problem, rates: &[f64], tolerance: f64) -> Result<(), Unfair> {
    let flows = problem.flows();
    if rates.len() != flows.len() {
        return Err(Unfair::Length { rates: rates.len(), flows: flows.len() });
    }
    for (index, (flow, &rate)) in flows.iter().zip(rates).enumerate() {
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(Unfair::Rate { flow: index, rate });
        }
        if rate > flow.most() + slack(problem, flow, tolerance) {
            return Err(Unfair::Demand { flow: index, rate, demand: flow.most() });
        }
    }
    let ways = Ringlet::BOTH.map(|ringlet| ways(problem, rates, ringlet));
    for ringlet in Ringlet::BOTH {
        for (index, way) in ways[ringlet.index()].iter().enumerate() {
            if way.carried > way.capacity * (1.0 + tolerance * way.flows as f64) {
                let link = problem.link(NodeId::at(index), ringlet);
                return Err(Unfair::Overload { link, ringlet, carried: way.carried, capacity: way.capacity });
            }
        }
    }
    for (index, (flow, &rate)) in flows.iter().zip(rates).enumerate() {
        if rate >= flow.most() - slack(problem, flow, tolerance) {
            continue;
        }
        let mut obstacles = Vec::with_capacity(flow.route.hops);
        for node in problem.along(flow) {
            let way = &ways[flow.route.ringlet.index()][node.index()];
            match obstacle(problem, way, flow, rate, tolerance) {
                Some(obstacle) => obstacles.push((problem.link(node, flow.route.ringlet), obstacle)),
                None => {
                    obstacles.clear();
                    break;
                }
            }
        }
        if !obstacles.is_empty() {
            return Err(Unfair::NoBottleneck { flow: index, ends: (flow.from, flow.to), rate, obstacles });
        }
    }
    Ok(())
}

/// How far a single rate may be off its demand.
fn slack(problem: &Problem, flow: &Flow, tolerance: f64) -> f64 {
    let capacities = problem.along(flow).map(|node| problem.capacity(node, flow.route.ringlet));
    tolerance * capacities.fold(f64::INFINITY, f64::min)
}

/// The ways of a ringlet with what crosses them.
fn ways(problem: &Problem, rates: &[f64], ringlet: Ringlet) -> Vec<Way> {
    let nodes = problem.nodes();
    let empty = |index| Way {
        capacity: problem.capacity(NodeId::at(index), ringlet),
        carried: 0.0,
        flows: 0,
        aggregates: vec![Aggregate::default(); nodes],
    };
    let mut ways: Vec<Way> = (0..nodes).map(empty).collect();
    for (index, (flow, &rate)) in problem.flows().iter().zip(rates).enumerate() {
        if flow.route.ringlet != ringlet {
            continue;
        }
        for node in problem.along(flow) {
            let way = &mut ways[node.index()];
            way.carried += rate;
            way.flows += 1;
            let aggregate = &mut way.aggregates[flow.from.index()];
            aggregate.rate += rate;
            aggregate.flows += 1;
            if aggregate.flows == 1 || rate > aggregate.largest_rate {
                (aggregate.largest, aggregate.largest_rate) = (index, rate);
            }
        }
    }
    ways
}

/// Why `way` is not a bottleneck of `flow`, which crosses it at `rate`; `None`: it is one.
fn obstacle(problem: &Problem, way: &Way, flow: &Flow, rate: f64, tolerance: f64) -> Option<Obstacle> {
    // rings III-A, the first condition: F_n = C
    let unit = tolerance * way.capacity;
    if way.carried < way.capacity - unit * way.flows as f64 {
        return Some(Obstacle::Room { carried: way.carried, capacity: way.capacity });
    }
    // rings III-A, the second condition: IA(i) >= IA(i'), and R_ij >= R_ij'
    let own = &way.aggregates[flow.from.index()];
    let share = (own.rate + unit * own.flows as f64) / problem.weight(flow.from);
    for (index, other) in way.aggregates.iter().enumerate() {
        let node = NodeId::at(index);
        if (other.rate - unit * other.flows as f64) / problem.weight(node) > share {
            return Some(Obstacle::Ingress { node, theirs: other.rate, own: own.rate });
        }
    }
    (own.largest_rate - unit > rate + unit).then_some(Obstacle::Sibling { flow: own.largest, rate: own.largest_rate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    fn line(nodes: u64, ends: &[(u8, u8)]) -> Problem {
        let mut problem = Problem::line(nodes, 1.0).unwrap();
        for &(from, to) in ends {
            problem.add(node(from), node(to), None, None).unwrap();
        }
        problem
    }

    const FIGURE_5: [(u8, u8); 6] = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 5), (4, 5)];

    #[test]
    fn figure_5_passes_and_freezing_by_the_smallest_share_does_not() {
        let problem = line(5, &FIGURE_5);
        assert_eq!(check(&problem, &[0.4, 0.2, 0.2, 0.2, 0.4, 0.4], 1e-12), Ok(()));
        // Link 1 has the smallest share of a flow, 1/4; to freeze it first is the mistake.
        let wrong = check(&problem, &[0.25, 0.25, 0.25, 0.25, 0.25, 0.5], 1e-9).unwrap_err();
        assert_eq!(wrong.flow(), Some(4), "{wrong}");
        assert_eq!(
            wrong.to_string(),
            "flow 4 from 2 to 5 has 0.25 and no bottleneck link: link 2 gives node 1 more (0.75 against 0.25), link 3 \
             has room (0.75 of 1), link 4 gives node 4 more (0.5 against 0.25)"
        );
    }

    #[test]
    fn the_flow_without_a_bottleneck_is_named_with_the_reason() {
        let problem = line(3, &[(1, 2), (1, 3), (2, 3)]);
        assert_eq!(check(&problem, &[0.5, 0.5, 0.5], 1e-9), Ok(()));
        let sibling = check(&problem, &[0.6, 0.4, 0.6], 1e-9).unwrap_err();
        let Unfair::NoBottleneck { flow: 1, obstacles, .. } = &sibling else { panic!("{sibling}") };
        assert_eq!(obstacles[0], (1, Obstacle::Sibling { flow: 0, rate: 0.6 }));
        assert_eq!(obstacles[1], (2, Obstacle::Ingress { node: node(2), theirs: 0.6, own: 0.4 }));
        let room = check(&problem, &[0.5, 0.5, 0.25], 1e-9).unwrap_err();
        let Unfair::NoBottleneck { flow: 2, obstacles, .. } = &room else { panic!("{room}") };
        assert_eq!(obstacles, &[(2, Obstacle::Room { carried: 0.75, capacity: 1.0 })]);
    }

    #[test]
    fn what_are_no_rates_or_do_not_fit_is_refused_before_all_else() {
        let mut problem = line(3, &[(1, 3)]);
        problem.add(node(2), node(3), None, Some(0.25)).unwrap();
        assert_eq!(check(&problem, &[0.75], 1e-9), Err(Unfair::Length { rates: 1, flows: 2 }));
        for wrong in [-0.0001, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(check(&problem, &[0.75, wrong], 1e-9), Err(Unfair::Rate { flow: 1, rate: wrong }));
        }
        let nan = check(&problem, &[f64::NAN, 0.25], 1e-9).unwrap_err();
        assert!(matches!(nan, Unfair::Rate { flow: 0, rate } if rate.is_nan()));
        let above = check(&problem, &[0.7, 0.3], 1e-9);
        assert_eq!(above, Err(Unfair::Demand { flow: 1, rate: 0.3, demand: 0.25 }));
        let Err(Unfair::Overload { link: 2, ringlet: Ringlet::Zero, .. }) = check(&problem, &[0.8, 0.25], 1e-9) else {
            panic!("link 2 carries 1.05")
        };
        assert_eq!(check(&problem, &[0.75, 0.25], 1e-9), Ok(()), "the second at its demand, the first has the rest");
        assert_eq!(check(&problem, &[0.8, 0.2], 1e-9).unwrap_err().flow(), Some(1), "below its demand without need");
    }

    #[test]
    fn aggregates_are_compared_by_weight_and_on_the_link_alone() {
        let mut problem = line(4, &[(1, 4), (2, 4), (2, 3)]);
        problem.set_weight(node(1), 3.0).unwrap();
        // Link 2 carries all, link 3 the first two.
        assert_eq!(check(&problem, &[0.75, 0.125, 0.125], 1e-9), Ok(()));
        assert_eq!(check(&problem, &[0.5, 0.25, 0.25], 1e-9).unwrap_err().flow(), Some(0));
        // On the way back the same flow would meet nobody.
        problem.add(node(4), node(1), None, None).unwrap();
        assert_eq!(check(&problem, &[0.75, 0.125, 0.125, 1.0], 1e-9), Ok(()));
    }

    #[test]
    fn exact_rates_pass_without_any_tolerance() {
        let mut problem = line(3, &[(1, 3), (1, 3)]);
        problem.add(node(2), node(3), None, Some(0.5)).unwrap();
        assert_eq!(check(&problem, &[0.25, 0.25, 0.5], 0.0), Ok(()));
    }

    #[test]
    fn a_sum_of_several_rates_may_be_off_by_as_many_tolerances() {
        let one = line(2, &[(1, 2); 4]);
        assert_eq!(check(&one, &[0.2575; 4], 0.01), Ok(()), "three hundredths too many");
        assert!(matches!(check(&one, &[0.2625; 4], 0.01), Err(Unfair::Overload { link: 1, .. })), "five");
        assert_eq!(check(&one, &[0.2425; 4], 0.01), Ok(()), "three too few");
        assert!(check(&one, &[0.2375; 4], 0.01).is_err());
        let two = line(3, &[(1, 3), (1, 3), (2, 3), (2, 3)]);
        assert_eq!(check(&two, &[0.2425, 0.2425, 0.2575, 0.2575], 0.01), Ok(()), "three apart");
        assert_eq!(check(&two, &[0.2375, 0.2375, 0.2625, 0.2625], 0.01).unwrap_err().flow(), Some(0));
    }

    #[test]
    fn flows_of_one_node_may_be_two_tolerances_apart() {
        let problem = line(2, &[(1, 2), (1, 2)]);
        assert_eq!(check(&problem, &[0.4925, 0.5075], 0.01), Ok(()));
        assert_eq!(check(&problem, &[0.485, 0.515], 0.01).unwrap_err().flow(), Some(0));
    }

    #[test]
    fn a_flow_alone_on_a_way_of_its_own_capacity_fills_it() {
        let mut problem = Problem::ring(3, 1.0).unwrap();
        problem.set_link(3, Ringlet::One, 0.25).unwrap();
        problem.add(node(1), node(3), None, None).unwrap();
        assert_eq!(problem.flows()[0].route.ringlet, Ringlet::One);
        assert_eq!(check(&problem, &[0.25], 1e-9), Ok(()));
        assert!(check(&problem, &[1.0], 1e-9).is_err());
        assert_eq!(check(&Problem::ring(2, 1.0).unwrap(), &[], 1e-9), Ok(()), "no flows, nothing unfair");
    }
}
