//! RIAS fair rates: each link is shared among the ingresses whose traffic crosses it, each ingress's share among its flows,
//! and what one cannot use is left to the others (ring ingress aggregated with spatial reuse).
//!
//! Source: the rings paper, III-A, Definition 1 and Proposition 1. [`super::bottleneck`] says what is fair; here fair rates
//! are found.
//!
//! | paper | here |
//! |---|---|
//! | `R_ij` | [`Allocation::rates`] |
//! | `IA(i)` on link n | the aggregate of a pair (ingress, way) |
//! | `IA(i) / w_i` at its largest, link n full | the `level` of a full way |
//! | `B_n(i, j)` | a tight pair that holds the flow |
//!
//! **Why not link by link.** Flow max-min fairness freezes the flows of the link with the smallest share, and goes on.
//! Here a flow that gets less elsewhere leaves its part to others of its own ingress, so that links determine each other:
//! in Figure 5 link 1's flows have 2x + 3y = 1 only if link 4 says y, and link 4 shares x + 2y. Rates are a fixed point:
//! each flow has the least of its demand and of what the links on its way give it, and what a link gives depends on what
//! its other flows get elsewhere.
//!
//! **There are fair rates.** Let each link give each of its flows what it would get there without other limits, the others
//! being held to what they get elsewhere. That maps the bounded sets of such offers continuously into themselves; a fixed
//! point is there (Brouwer), and the least offer to each flow is fair.
//!
//! **They are not always unique.** On a line of 4 with capacity 1 let (1,4) and (2,4) have no demand, (1,3) and (3,4) one of
//! 0.3. Links 2 and 3 are both full when the first two have 0.7 together, and (0.3, 0.4) is fair, as are (0.35, 0.35) and
//! all between: (1,4) has its bottleneck on link 2, where its ingress has more, (2,4) on link 3. Others are fair at
//! isolated points. It takes loops of flows that limit each other on unlike links, and is rare: some one in ten
//! thousand random problems of 5 to 16 nodes had a second allocation, nearly all of those with ties among their demands.
//!
//! **Which one is given.** Put a common ceiling over all rates. At 0 the fair rates are 0; where the ceiling is above all
//! capacities it means nothing. Between, fair rates under a ceiling form a path, which is straight until something else
//! holds a flow, a pair reaches its share, or a way is full. It is followed from 0 to its end; what it leads to is
//! given. For one flow to each ingress of a single link, or for flow max-min fairness, that is progressive filling, in which
//! the ceiling only rises. Here it may have to fall for a while.
//! As the start of the path is the only solution there, it cannot end anywhere but above all capacities (Eaves, and Lemke's
//! method). Where several things would happen at once, a blur of all numbers by up to [`BLUR`] puts them in an order, the
//! same in each run; the rates are then computed from what holds each flow and the exact numbers.
//!
//! Departures: the paper has equal weights, equal capacities and no demands.
//!
//! Cost: some 1 to 2 bends a flow; each O(ways³) at most, for the levels of the ways that are full, plus O(ways² + flows).
//! O(ways²) memory. Ringlets share nothing, and are done one after the other.
//!
//! Invariants: on each segment the equations are those of the full ways; every full way has a tight pair, every tight pair a
//! flow that it holds, and of one ingress's tight pairs the farther ones hold lower. What is returned has passed the test.

mod filling;
mod line;

use super::bottleneck::{self, TOLERANCE};
use super::problem::Problem;
use super::{NodeId, Ringlet};
use crate::rng::Rng;
use alloc::vec;
use alloc::vec::Vec;
use filling::{Filling, Lost};

/// By which share numbers are blurred to put in an order what would happen at once; the next ones serve where rounding
/// leads astray with the first.
pub const BLUR: [f64; 4] = [1e-10, 1e-11, 1e-9, 1e-8];

/// Fair rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Of each flow, in the order of the flows and the unit of the capacities.
    pub rates: Vec<f64>,
    /// Of each flow the node whose outgoing way holds it; `None` where its demand does.
    pub bottlenecks: Vec<Option<NodeId>>,
}

/// No rates were found that pass the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("capacities, weights and demands lie too far apart to find fair rates in 64-bit numbers")]
pub struct Unsettled;

/// RIAS fair rates, exact to [`TOLERANCE`] of each link's capacity, mostly to rounding.
///
/// # Errors
/// When numbers lie so far apart that rounding prevails.
pub fn allocate(problem: &Problem) -> Result<Allocation, Unsettled> {
    for (seed, blur) in BLUR.into_iter().enumerate() {
        if let Ok(allocation) = attempt(problem, &mut Rng::new(seed as u64), blur)
            && bottleneck::check(problem, &allocation.rates, TOLERANCE).is_ok()
        {
            return Ok(allocation);
        }
    }
    Err(Unsettled)
}

/// Rates that should be fair.
fn attempt(problem: &Problem, rng: &mut Rng, blur: f64) -> Result<Allocation, Lost> {
    let count = problem.flows().len();
    let mut allocation = Allocation { rates: vec![0.0; count], bottlenecks: vec![None; count] };
    for ringlet in Ringlet::BOTH {
        let mut filling = Filling::new(problem, ringlet, Some((rng, blur)));
        filling.fill()?;
        filling.sharpen(&Filling::new(problem, ringlet, None));
        for (flow, rate, way) in filling.rates() {
            allocation.rates[flow] = rate.min(problem.flows()[flow].most());
            allocation.bottlenecks[flow] = way;
        }
    }
    Ok(allocation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::bottleneck::check;
    use crate::ring::random;

    #[track_caller]
    fn rates(problem: &Problem) -> Vec<f64> {
        allocate(problem).unwrap().rates
    }

    #[track_caller]
    fn close(ours: &[f64], theirs: &[f64]) {
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert!((ours - theirs).abs() < 1e-14, "{ours} for {theirs}");
        }
    }

    #[test]
    fn the_papers_examples_are_met() {
        for (nodes, ends, theirs) in [
            (5, &[(1, 5), (2, 5), (3, 5), (4, 5)][..], &[0.25, 0.25, 0.25, 0.25][..]),
            (5, &[(1, 2), (1, 5), (2, 5), (3, 5), (4, 5)], &[0.75, 0.25, 0.25, 0.25, 0.25]),
            (6, &[(1, 5), (2, 5), (3, 5), (4, 5), (4, 6)], &[0.25, 0.25, 0.25, 0.125, 0.125]),
            (5, &[(1, 2), (1, 3), (1, 4), (1, 5), (2, 5), (4, 5)], &[0.4, 0.2, 0.2, 0.2, 0.4, 0.4]),
            (6, &[(1, 3), (2, 6), (3, 6), (4, 6), (5, 6)], &[0.75, 0.25, 0.25, 0.25, 0.25]),
        ] {
            close(&rates(&random::line(nodes, ends)), theirs);
        }
    }

    #[test]
    fn each_flow_of_figure_5_is_held_by_the_link_that_the_paper_names() {
        let problem = random::line(5, &[(1, 2), (1, 3), (1, 4), (1, 5), (2, 5), (4, 5)]);
        let held = allocate(&problem).unwrap().bottlenecks;
        let links: Vec<_> = held.into_iter().map(|node| node.map(|node| problem.link(node, Ringlet::Zero))).collect();
        assert_eq!(links[0], Some(1), "(1,2) crosses nothing else");
        assert_eq!([links[4], links[5]], [Some(4); 2], "(2,5) and (4,5) share link 4");
    }

    #[test]
    fn demands_weights_and_unlike_links_are_shared_by_hand() {
        // Link 2 of capacity 3: 1 has weight 2, 2 has two flows, of which one needs little.
        let mut problem = Problem::line(3, 3.0).unwrap();
        problem.set_link(1, Ringlet::Zero, 10.0).unwrap();
        problem.set_weight(NodeId::at(0), 2.0).unwrap();
        for (from, demand) in [(0, None), (1, Some(0.25)), (1, None)] {
            problem.add(NodeId::at(from), NodeId::at(2), None, demand).unwrap();
        }
        problem.add(NodeId::at(0), NodeId::at(1), None, None).unwrap();
        close(&rates(&problem), &[2.0, 0.25, 0.75, 8.0]);
        // The same the other way, where nothing else goes; and nothing to do.
        problem.add(NodeId::at(2), NodeId::at(0), None, Some(7.0)).unwrap();
        problem.add(NodeId::at(2), NodeId::at(1), None, Some(0.0)).unwrap();
        close(&rates(&problem), &[2.0, 0.25, 0.75, 8.0, 3.0, 0.0]);
        assert_eq!(rates(&Problem::ring(2, 1.0).unwrap()), []);
    }

    #[test]
    fn two_allocations_can_be_fair_and_one_of_them_is_given() {
        let mut problem = random::line(4, &[(1, 4), (2, 4)]);
        problem.add(NodeId::at(0), NodeId::at(2), None, Some(0.3)).unwrap();
        problem.add(NodeId::at(2), NodeId::at(3), None, Some(0.3)).unwrap();
        for first in [0.3, 0.325, 0.35] {
            assert_eq!(check(&problem, &[first, 0.7 - first, 0.3, 0.3], 1e-12), Ok(()), "{first}");
        }
        assert!(check(&problem, &[0.29, 0.41, 0.3, 0.3], 1e-12).is_err());
        assert!(check(&problem, &[0.36, 0.34, 0.3, 0.3], 1e-12).is_err());
        let given = rates(&problem);
        assert!((0.3 - 1e-9..=0.35 + 1e-9).contains(&given[0]), "{given:?}");
        assert_eq!(given, rates(&problem), "the same in each run");
    }

    /// Raises or lowers one flow and expects the test to see it.
    fn mutations_are_seen(rng: &mut Rng, problem: &Problem, rates: &[f64], seed: u64) {
        for _ in 0..4 {
            let flow = rng.below(rates.len() as u64) as usize;
            let mut changed = rates.to_vec();
            changed[flow] *= if rng.below(2) == 0 { 1.001 } else { 0.999 };
            // Zero stays zero; and what is below the tolerance is not to be seen.
            let crossed = &problem.flows()[flow];
            let capacities = problem.along(crossed).map(|node| problem.capacity(node, crossed.route.ringlet));
            let largest = capacities.fold(0.0, f64::max);
            if (changed[flow] - rates[flow]).abs() > 1e-6 * largest {
                assert!(check(problem, &changed, TOLERANCE).is_err(), "seed {seed}: flow {flow} changed, not seen");
            }
        }
    }

    #[test]
    fn every_allocation_passes_the_separate_test_and_no_change_of_one_flow_does() {
        // The larger the problem the fewer of them: debug builds are slow.
        for (nodes, flows, runs) in [(4, 6, 4000), (8, 20, 2000), (16, 80, 400), (64, 500, 60)] {
            for seed in 0..runs {
                let mut rng = Rng::new(seed * 1000 + nodes);
                let problem = random::problem(&mut rng, nodes, flows);
                let rates = allocate(&problem).unwrap_or_else(|e| panic!("{nodes} nodes, seed {seed}: {e}")).rates;
                if let Err(unfair) = check(&problem, &rates, 1e-12) {
                    panic!("{nodes} nodes, seed {seed}: {unfair}");
                }
                mutations_are_seen(&mut rng, &problem, &rates, seed);
            }
        }
    }

    #[test]
    fn numbers_twelve_orders_of_magnitude_apart_are_no_hindrance() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut problem = Problem::ring(24, 1.0).unwrap();
            let mut wide = || {
                let powers = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
                powers[rng.below(13) as usize] * (1.0 + rng.unit())
            };
            for link in 1..=24 {
                problem.set_link(link, Ringlet::Zero, wide()).unwrap();
                problem.set_weight(problem.node(link).unwrap(), wide()).unwrap();
            }
            let mut places = Rng::new(seed);
            for _ in 0..200 {
                let from = places.below(24);
                let to = (from + 1 + places.below(23)) % 24;
                let demand = (places.below(2) == 0).then(&mut wide);
                let [from, to] = [from, to].map(|place| NodeId::at(place as usize));
                problem.add(from, to, Some(Ringlet::Zero), demand).unwrap();
            }
            assert_eq!(check(&problem, &rates(&problem), 1e-10), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn every_node_sending_to_every_other_gets_what_symmetry_says() {
        for nodes in [3_usize, 8, 9] {
            let mut problem = Problem::ring(nodes as u64, 1.0).unwrap();
            for from in 0..nodes {
                for to in (0..nodes).filter(|to| *to != from) {
                    problem.add(NodeId::at(from), NodeId::at(to), None, None).unwrap();
                }
            }
            let rates = rates(&problem);
            assert_eq!(check(&problem, &rates, 1e-14), Ok(()));
            for (flow, rate) in problem.flows().iter().zip(&rates) {
                let mut alike = problem.flows().iter().zip(&rates).filter(|(other, _)| other.route == flow.route);
                assert!(alike.all(|(_, same)| (rate - same).abs() < 1e-14), "{nodes} nodes: {flow:?} {rate}");
            }
        }
    }
}
