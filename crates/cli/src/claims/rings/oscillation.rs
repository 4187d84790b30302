//! Whether RPR's rates oscillate for ever: Propositions 2 and 3 of the rings paper, as predicates on a problem.
//!
//! | paper | here |
//! |---|---|
//! | r, the demanded rates; R, the RIAS rates | [`Flow::most`](fairspan_core::ring::problem::Flow::most), `rates` |
//! | link j, congested | `link`, by the node where it begins |
//! | flow (n, i) | [`Oscillation::flow`] |
//! | n_a, n_g, S_s | `active`, `greedy`, `small` |
//!
//! Departure: Proposition 3 is printed with n_g C/n_a + S_s *greater* than low_threshold. Its own example (epsilon and C over
//! one link: C/2 + epsilon) and the argument (what is left after throttling must clear the congestion, or the rate would
//! stay there) need *less*; so it is read here.

use fairspan_core::ring::problem::{Flow, Problem};
use fairspan_core::ring::{NodeId, Ringlet};

/// A flow that oscillates for ever, and between which rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Oscillation {
    /// Its place among the flows.
    pub(crate) flow: usize,
    /// The lowest rate.
    pub(crate) least: f64,
    /// The highest one: with small buffers and no delay (2), or an upper limit of it (3).
    pub(crate) most: f64,
}

/// The flows that cross the link of ringlet 0 that leaves `link`, by their places.
fn crossing(problem: &Problem, link: NodeId) -> Vec<usize> {
    let crosses = |flow: &Flow| flow.route.ringlet == Ringlet::Zero && problem.along(flow).any(|node| node == link);
    (0..problem.flows().len()).filter(|i| crosses(&problem.flows()[*i])).collect()
}

/// Proposition 2: the first flow through `link` that oscillates under aggressive mode.
pub(crate) fn aggressive(problem: &Problem, rates: &[f64], link: NodeId) -> Option<Oscillation> {
    let crossing = crossing(problem, link);
    let demand = |i: usize| problem.flows()[i].most();
    let least = |i: usize| demand(i).min(rates[i]);
    // Of two ingresses of a link the one with more hops to it is upstream.
    let hops = |i: usize| problem.topology().distance(problem.flows()[i].from, link, Ringlet::Zero);
    crossing.iter().copied().find_map(|flow| {
        let below = crossing.iter().copied().filter(|other| hops(*other) < hops(flow));
        let lowest = below.map(least).reduce(f64::min)?;
        let oscillates = lowest < rates[flow] && lowest < demand(flow);
        oscillates.then_some(Oscillation { flow, least: lowest, most: least(flow) })
    })
}

/// Proposition 3: the first flow through `link` that oscillates under conservative mode, the threshold being `low` (in the
/// unit of the capacity).
pub(crate) fn conservative(problem: &Problem, rates: &[f64], link: NodeId, low: f64) -> Option<Oscillation> {
    let crossing = crossing(problem, link);
    let least = |i: usize| problem.flows()[i].most().min(rates[i]);
    let active = crossing.len() as f64;
    let share = problem.capacity(link, Ringlet::Zero) / active;
    let is_greedy = |i: &usize| problem.flows()[*i].most() > share && rates[*i] > share;
    let greedy = crossing.iter().filter(|i| is_greedy(i)).count() as f64;
    let small = crossing.iter().copied().map(least).filter(|rate| *rate < share);
    let (some, small) = (small.clone().next().is_some(), small.sum::<f64>());
    let first = crossing.iter().copied().find(is_greedy)?;
    let oscillates = some && greedy * share + small < low;
    oscillates.then_some(Oscillation { flow: first, least: share, most: low })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::ring::rias;

    /// Flows (from, to, demand) on a line with links of 1, and their RIAS rates.
    fn line(flows: &[(u64, u64, f64)]) -> (Problem, Vec<f64>) {
        let mut problem = Problem::line(8, 1.0).unwrap();
        for (from, to, demand) in flows {
            let demand = demand.is_finite().then_some(*demand);
            let (from, to) = (problem.node(*from).unwrap(), problem.node(*to).unwrap());
            problem.add(from, to, None, demand).unwrap();
        }
        let rates = rias::allocate(&problem).unwrap().rates;
        (problem, rates)
    }

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    const MUCH: f64 = f64::INFINITY;

    #[test]
    fn an_upstream_flow_oscillates_above_a_trickle_downstream() {
        let (problem, rates) = line(&[(1, 3, MUCH), (2, 3, 0.01)]);
        let found = aggressive(&problem, &rates, node(2)).unwrap();
        assert_eq!((found.flow, found.least), (0, 0.01));
        assert!((found.most - 0.99).abs() < 1e-9);
        assert_eq!(conservative(&problem, &rates, node(2), 0.8).map(|found| found.flow), Some(0));
    }

    #[test]
    fn balanced_demands_oscillate_where_fair_rates_are_unbalanced() {
        // Figure 8: (1,3) has 3/4 of link 2, (2,6) a quarter because of link 5.
        let (problem, rates) = line(&[(1, 3, MUCH), (2, 6, MUCH), (3, 6, MUCH), (4, 6, MUCH), (5, 6, MUCH)]);
        let found = aggressive(&problem, &rates, node(2)).unwrap();
        assert_eq!(found.flow, 0);
        assert!((found.least - 0.25).abs() < 1e-9 && (found.most - 0.75).abs() < 1e-9, "{found:?}");
        assert_eq!(aggressive(&problem, &rates, node(5)), None, "link 5 is a parking lot");
    }

    #[test]
    fn the_parking_lot_oscillates_in_neither_mode() {
        let (problem, rates) = line(&[(1, 5, MUCH), (2, 5, MUCH), (3, 5, MUCH), (4, 5, MUCH)]);
        assert_eq!(aggressive(&problem, &rates, node(4)), None);
        assert_eq!(conservative(&problem, &rates, node(4), 0.8), None);
    }

    #[test]
    fn a_trickle_upstream_makes_the_downstream_flow_oscillate_in_conservative_mode_only() {
        let (problem, rates) = line(&[(1, 3, 0.01), (2, 3, MUCH)]);
        assert_eq!(aggressive(&problem, &rates, node(2)), None);
        let found = conservative(&problem, &rates, node(2), 0.8).unwrap();
        assert_eq!((found.flow, found.least, found.most), (1, 0.5, 0.8));
        let (problem, rates) = line(&[(1, 3, 0.35), (2, 3, MUCH)]);
        assert_eq!(conservative(&problem, &rates, node(2), 0.8), None, "0.5 and 0.35 stay above 0.8");
    }
}
