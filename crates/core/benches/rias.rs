//! What reference allocations cost, on a ring of 64 nodes with 500 flows in both directions: to RIAS fairness, as the test
//! of Proposition 1 costs, and to the definitions beside it.
//!
//! `Plain`: equal links and weights, no demands. `Unlike`: all three differ. `Ties`: few different values of each, so that
//! many things happen at once.

use divan::{Bencher, black_box};
use fairspan_core::ring::problem::Problem;
use fairspan_core::ring::{NodeId, Ringlet, bottleneck, max_min, proportional, rias};
use fairspan_core::rng::Rng;

fn main() {
    divan::main();
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Unlike,
    Ties,
}

const KINDS: [Kind; 3] = [Kind::Plain, Kind::Unlike, Kind::Ties];

fn problem(kind: Kind) -> Problem {
    let mut rng = Rng::new(64);
    let mut value = |least: f64| match kind {
        Kind::Plain => 1.0,
        Kind::Unlike => least + rng.unit(),
        Kind::Ties => [0.5, 1.0, 2.0][rng.below(3) as usize],
    };
    let mut problem = Problem::ring(64, 1.0).expect("a ring");
    for number in 1..=64 {
        for ringlet in Ringlet::BOTH {
            problem.set_link(number, ringlet, value(0.5)).expect("a link");
        }
        let node = problem.node(number).expect("a node");
        problem.set_weight(node, value(0.25)).expect("a weight");
    }
    let mut ends = Rng::new(500);
    for flow in 0..500 {
        let from = ends.below(64);
        let to = (from + 1 + ends.below(63)) % 64;
        let [from, to] = [from, to].map(|place| NodeId::at(place as usize));
        let demand = (flow % 2 == 0 && !matches!(kind, Kind::Plain)).then(|| 0.1 * value(0.01));
        let ringlet = Ringlet::BOTH[ends.below(2) as usize];
        problem.add(from, to, Some(ringlet), demand).expect("a flow");
    }
    problem
}

#[divan::bench(args = KINDS)]
fn rias_fair(bencher: Bencher, kind: Kind) {
    let problem = problem(kind);
    bencher.bench(|| rias::allocate(black_box(&problem)));
}

#[divan::bench(args = KINDS)]
fn proposition_1(bencher: Bencher, kind: Kind) {
    let problem = problem(kind);
    let rates = rias::allocate(&problem).expect("fair rates").rates;
    bencher.bench(|| bottleneck::check(black_box(&problem), black_box(&rates), bottleneck::TOLERANCE));
}

#[divan::bench(args = KINDS)]
fn max_min_fair(bencher: Bencher, kind: Kind) {
    let problem = problem(kind);
    bencher.bench(|| max_min::allocate(black_box(&problem)));
}

#[divan::bench(args = KINDS)]
fn proportionally_fair(bencher: Bencher, kind: Kind) {
    let problem = problem(kind);
    bencher.bench(|| proportional::allocate(black_box(&problem)));
}
