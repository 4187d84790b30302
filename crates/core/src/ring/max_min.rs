//! Flow max-min fairness, for comparison: no rate can grow but at the cost of one that is no larger.
//!
//! Source: Bertsekas and Gallager, Data Networks, 6.5.2, to which the rings paper compares RIAS in III-B. All rates rise
//! together, and a flow stays behind where a link on its way is full or its demand is met. Where RIAS shares a link
//! among ingresses and then among the flows of each, this shares it among flows: an ingress that spreads its traffic
//! over many egresses gets more.
//!
//! | textbook | here |
//! |---|---|
//! | the rate added so far | `level`, for a weight of 1 |
//! | the links' spare capacity per flow | `Way::level` |
//!
//! Departures: a flow has its ingress's weight, and rates are compared for their weights; demands are finite.
//!
//! Cost: O((flows + ways) × (ways + flows)), once; O(ways + flows) memory.
//!
//! Invariants: no way is overloaded; levels never fall from one round to the next.

use super::problem::{Flow, Problem};
use super::{NodeId, Ringlet};
use alloc::vec;
use alloc::vec::Vec;

/// What is left of a way.
#[derive(Clone, Copy, Debug)]
struct Way {
    capacity: f64,
    /// Of the flows that still rise.
    weight: f64,
    rising: usize,
}

impl Way {
    /// Where those that still rise will fill it.
    fn level(&self) -> f64 {
        if self.rising == 0 { f64::INFINITY } else { self.capacity.max(0.0) / self.weight }
    }
}

/// The rate of each flow, in the order of the flows.
pub fn allocate(problem: &Problem) -> Vec<f64> {
    let flows = problem.flows();
    let mut rates = vec![0.0; flows.len()];
    for ringlet in Ringlet::BOTH {
        let way = |index| Way { capacity: problem.capacity(NodeId::at(index), ringlet), weight: 0.0, rising: 0 };
        let mut ways: Vec<Way> = (0..problem.nodes()).map(way).collect();
        let mut rising: Vec<usize> = (0..flows.len()).filter(|&i| flows[i].route.ringlet == ringlet).collect();
        for &index in &rising {
            for node in problem.along(&flows[index]) {
                ways[node.index()].weight += problem.weight(flows[index].from);
                ways[node.index()].rising += 1;
            }
        }
        let of_demand = |flow: &Flow| flow.most() / problem.weight(flow.from);
        let mut level = 0.0_f64;
        while !rising.is_empty() {
            let full = ways.iter().map(Way::level).fold(f64::INFINITY, f64::min);
            let met = rising.iter().map(|&index| of_demand(&flows[index])).fold(f64::INFINITY, f64::min);
            // Rounding alone could take it back.
            level = level.max(full.min(met));
            let stays = |flow: &Flow, ways: &[Way]| {
                of_demand(flow) <= level || problem.along(flow).any(|node| ways[node.index()].level() <= level)
            };
            let (behind, rest) = rising.iter().partition(|&&index| stays(&flows[index], &ways));
            rising = rest;
            for index in behind {
                let flow: &Flow = &flows[index];
                let weight = problem.weight(flow.from);
                rates[index] = flow.most().min(level * weight);
                for node in problem.along(flow) {
                    let way = &mut ways[node.index()];
                    way.capacity -= rates[index];
                    way.weight -= weight;
                    way.rising -= 1;
                }
            }
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::random;
    use crate::rng::Rng;

    #[test]
    fn the_two_exit_parking_lot_gives_every_flow_a_fifth() {
        let problem = random::line(6, &[(1, 5), (2, 5), (3, 5), (4, 5), (4, 6)]);
        assert_eq!(allocate(&problem), [0.2; 5]);
    }

    /// The definition, flow by flow: at its demand, or a full way on which none has more for its weight.
    fn is_max_min(problem: &Problem, rates: &[f64]) -> bool {
        let flows = problem.flows();
        let crosses = |i: usize, node: NodeId, ringlet: Ringlet| {
            flows[i].route.ringlet == ringlet && problem.along(&flows[i]).any(|other| other == node)
        };
        let level = |i: usize| rates[i] / problem.weight(flows[i].from);
        (0..flows.len()).all(|i| {
            let ringlet = flows[i].route.ringlet;
            let mut full_with_most = problem.along(&flows[i]).map(|node| {
                let on: Vec<usize> = (0..flows.len()).filter(|&other| crosses(other, node, ringlet)).collect();
                let (carried, capacity) = (on.iter().map(|&i| rates[i]).sum::<f64>(), problem.capacity(node, ringlet));
                assert!(carried <= capacity * (1.0 + 1e-9), "{carried} of {capacity}");
                carried >= capacity * (1.0 - 1e-9) && on.iter().all(|&other| level(other) <= level(i) * (1.0 + 1e-9))
            });
            // All of the iterator, for the assertion.
            let bottlenecks = full_with_most.by_ref().filter(|&is| is).count();
            rates[i] <= flows[i].most() && (bottlenecks > 0 || rates[i] >= flows[i].most() * (1.0 - 1e-12))
        })
    }

    #[test]
    fn every_flow_is_at_its_demand_or_has_most_on_a_full_link() {
        for seed in 0..300 {
            let problem = random::problem(&mut Rng::new(seed), 12, 30);
            let mut rates = allocate(&problem);
            assert!(is_max_min(&problem, &rates), "seed {seed}: {rates:?}");
            rates[0] *= 0.999;
            assert!(!is_max_min(&problem, &rates), "seed {seed}: the definition sees a rate too low");
        }
    }
}
