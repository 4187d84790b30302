//! Problems at random, for tests.

use super::problem::Problem;
use super::{NodeId, Ringlet};
use crate::rng::Rng;

/// A line of links of capacity 1 with flows without demand.
pub(super) fn line(nodes: u64, ends: &[(u8, u8)]) -> Problem {
    let mut problem = Problem::line(nodes, 1.0).unwrap();
    for &(from, to) in ends {
        problem.add(NodeId::new(from).unwrap(), NodeId::new(to).unwrap(), None, None).unwrap();
    }
    problem
}

/// A ring or line of 2 to `most_nodes` nodes with 1 to `most_flows` flows. Capacities, weights and demands are equal,
/// unlike, or few different ones, so that ties are common.
pub(super) fn problem(rng: &mut Rng, most_nodes: u64, most_flows: u64) -> Problem {
    let nodes = 2 + rng.below(most_nodes - 1);
    let is_ring = rng.below(3) > 0;
    let mut problem = if is_ring { Problem::ring(nodes, 1.0) } else { Problem::line(nodes, 1.0) }.unwrap();
    let [capacities, weights, demands, lengths] = [4, 3, 4, 3].map(|kinds| rng.below(kinds));
    for link in 1..=problem.links() as u64 {
        for ringlet in Ringlet::BOTH {
            let capacity = match capacities {
                0 => 1.0,
                1 => 0.1 + rng.unit(),
                2 => (1 + rng.below(4)) as f64,
                _ => [0.01, 1.0, 10.0, 1000.0][rng.below(4) as usize],
            };
            problem.set_link(link, ringlet, capacity).unwrap();
        }
    }
    for node in (0..nodes as usize).map(NodeId::at) {
        let weight = match weights {
            0 => 1.0,
            1 => 0.1 + 3.0 * rng.unit(),
            _ => (1 + rng.below(3)) as f64,
        };
        problem.set_weight(node, weight).unwrap();
    }
    let senders = 1 + rng.below(nodes);
    for _ in 0..1 + rng.below(most_flows) {
        let from = if rng.below(2) == 0 { rng.below(senders) } else { rng.below(nodes) };
        let hops = match lengths {
            0 => 1 + rng.below((nodes - 1).min(4)),
            1 if rng.below(4) == 0 => nodes - 1,
            _ => 1 + rng.below(nodes - 1),
        };
        let has_demand = demands == 1 || (demands > 1 && rng.below(2) == 0);
        let demand = if demands == 3 { (1 + rng.below(5)) as f64 * 0.1 } else { 0.01 + rng.unit() };
        let ringlet = [None, Some(Ringlet::Zero), Some(Ringlet::One)][rng.below(3) as usize].filter(|_| is_ring);
        let [from, to] = [from, (from + hops) % nodes].map(|place| NodeId::at(place as usize));
        problem.add(from, to, ringlet, has_demand.then_some(demand)).unwrap();
    }
    problem
}

/// Rates that fit, none of them special.
pub(super) fn fitting(rng: &mut Rng, problem: &Problem) -> alloc::vec::Vec<f64> {
    let mut rates: alloc::vec::Vec<f64> =
        problem.flows().iter().map(|flow| flow.most().min(1.0) * (0.01 + rng.unit())).collect();
    let mut largest = 1.0_f64;
    for node in (0..problem.nodes()).map(NodeId::at) {
        for ringlet in Ringlet::BOTH {
            let on =
                problem.flows().iter().zip(&rates).filter(|(flow, _)| {
                    flow.route.ringlet == ringlet && problem.along(flow).any(|other| other == node)
                });
            let carried: f64 = on.map(|(_, rate)| rate).sum();
            largest = largest.max(carried / problem.capacity(node, ringlet));
        }
    }
    rates.iter_mut().for_each(|rate| *rate /= largest * 1.02);
    rates
}
