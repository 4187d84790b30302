//! RIAS fair rates in the paper's examples, and Proposition 1.

use super::super::{Answer, Bench};
use fairspan_core::ring::bottleneck::{self, Unfair};
use fairspan_core::ring::problem::Problem;
use fairspan_core::ring::{NodeId, Ringlet, max_min, proportional, rias};
use fairspan_core::rng::Rng;
use serde_json::Map;

/// A line of links of capacity 1 with flows without demand.
fn line(nodes: u64, ends: &[(u64, u64)]) -> anyhow::Result<Problem> {
    let mut problem = Problem::line(nodes, 1.0)?;
    for &(from, to) in ends {
        problem.add(problem.node(from)?, problem.node(to)?, None, None)?;
    }
    Ok(problem)
}

/// A scenario: the claim's key, nodes, flows.
type Example = (&'static str, u64, &'static [(u64, u64)]);

/// The scenarios of section III and IV.
const EXAMPLES: [Example; 5] = [
    ("parking_lot", 5, &[(1, 5), (2, 5), (3, 5), (4, 5)]),
    ("parallel_parking_lot_12_15_25_35_45", 5, &[(1, 2), (1, 5), (2, 5), (3, 5), (4, 5)]),
    ("two_exit_15_25_35_45_46", 6, &[(1, 5), (2, 5), (3, 5), (4, 5), (4, 6)]),
    ("fig5_12_13_14_15_25_45", 5, &[(1, 2), (1, 3), (1, 4), (1, 5), (2, 5), (4, 5)]),
    ("upstream_13_26_36_46_56", 6, &[(1, 3), (2, 6), (3, 6), (4, 6), (5, 6)]),
];

/// The paper's figures.
pub(crate) fn examples(_: &mut Bench) -> anyhow::Result<Answer> {
    let mut ours = Map::new();
    let mut holds = true;
    for (key, nodes, ends) in EXAMPLES {
        let problem = line(nodes, ends)?;
        let rates = rias::allocate(&problem)?.rates;
        holds &= bottleneck::check(&problem, &rates, bottleneck::TOLERANCE).is_ok();
        // Twelve digits, so that the table shows what is meant.
        ours.insert(key.to_owned(), rates.iter().map(|rate| (rate * 1e12).round() / 1e12).collect::<Vec<_>>().into());
    }
    let two_exit = line(6, EXAMPLES[2].2)?;
    let spread = max_min::allocate(&two_exit);
    holds &= spread.iter().all(|rate| (rate - 0.2).abs() < 1e-12);
    let quarter = proportional::allocate(&line(5, EXAMPLES[0].2)?);
    let reason = format!(
        "each allocation passes the test of Proposition 1; flow max-min gives {:.3} each in the Two-Exit Parking Lot, as the paper says; \
         proportional fairness gives {:.3} each in the Parking Lot, where the paper prints shares in inverse proportion to hops",
        spread[0], quarter[0]
    );
    Ok(Answer::statement(holds, reason).with(ours))
}

/// A ring or line with flows at random, on both ringlets.
fn random(rng: &mut Rng, nodes: u64, flows: u64) -> anyhow::Result<Problem> {
    let is_ring = rng.below(2) == 0;
    let mut problem = if is_ring { Problem::ring(nodes, 1.0)? } else { Problem::line(nodes, 1.0)? };
    if rng.below(2) == 0 {
        for link in 1..=problem.links() as u64 {
            for ringlet in Ringlet::BOTH {
                problem.set_link(link, ringlet, 0.1 + rng.unit())?;
            }
        }
        for node in 1..=nodes {
            problem.set_weight(problem.node(node)?, 0.25 + 2.0 * rng.unit())?;
        }
    }
    for _ in 0..flows {
        let from = rng.below(nodes);
        let to = (from + 1 + rng.below(nodes - 1)) % nodes;
        let demand = (rng.below(3) == 0).then(|| rng.unit());
        let [from, to] = [from, to].map(|place| NodeId::at(place as usize));
        problem.add(from, to, None, demand)?;
    }
    Ok(problem)
}

/// Loads of the ways and aggregates on them, by ringlet and node.
struct Loads {
    carried: [Vec<f64>; 2],
    /// By the ingress as well.
    aggregates: [Vec<Vec<f64>>; 2],
}

impl Loads {
    fn new(problem: &Problem, rates: &[f64]) -> Loads {
        let nodes = problem.nodes();
        let [carried, aggregates] = [vec![0.0; nodes], vec![0.0; nodes]];
        let mut loads = Loads {
            carried: [carried.clone(), carried],
            aggregates: [vec![aggregates.clone(); nodes], vec![aggregates; nodes]],
        };
        for (flow, rate) in problem.flows().iter().zip(rates) {
            let ringlet = flow.route.ringlet.index();
            for node in problem.along(flow) {
                loads.carried[ringlet][node.index()] += rate;
                loads.aggregates[ringlet][node.index()][flow.from.index()] += rate;
            }
        }
        loads
    }

    fn fit(&self, problem: &Problem) -> bool {
        Ringlet::BOTH.into_iter().all(|ringlet| {
            let mut ways = self.carried[ringlet.index()].iter().enumerate();
            ways.all(|(node, carried)| *carried <= problem.capacity(NodeId::at(node), ringlet) * (1.0 + 1e-10))
        })
    }
}

/// Definition 1: rates with a little more for `flow`, at the cost only of flows that have more: larger ones of the same
/// ingress, and those of an ingress that has more on a link that both cross. `None`: there is no such way.
fn grown(problem: &Problem, rates: &[f64], flow: usize) -> Option<Vec<f64>> {
    const MORE: f64 = 1.0 + 1e-6;
    const STEP: f64 = 1e-9;
    let flows = problem.flows();
    let ours = &flows[flow];
    let ringlet = ours.route.ringlet;
    if rates[flow] * MORE >= ours.most() {
        return None;
    }
    let loads = Loads::new(problem, rates);
    let mut grown = rates.to_vec();
    for node in problem.along(ours) {
        let way = ringlet.index();
        if loads.carried[way][node.index()] * MORE < problem.capacity(node, ringlet) {
            continue;
        }
        let aggregate = |from: NodeId| loads.aggregates[way][node.index()][from.index()] / problem.weight(from);
        let has_more = |i: usize| match flows[i].from == ours.from {
            true => rates[i] > rates[flow] * MORE,
            false => rates[i] > STEP && aggregate(flows[i].from) > aggregate(ours.from) * MORE,
        };
        let crosses =
            |i: usize| flows[i].route.ringlet == ringlet && problem.along(&flows[i]).any(|other| other == node);
        let pays = (0..flows.len()).filter(|&i| i != flow && has_more(i) && crosses(i));
        // One that pays already pays here as well.
        let pays = pays.min_by(|&a, &b| (grown[a] - rates[a]).total_cmp(&(grown[b] - rates[b])))?;
        grown[pays] = rates[pays] - STEP;
    }
    grown[flow] += STEP;
    Some(grown)
}

/// The test accepts fair rates and refuses others, and names a flow that can grow.
pub(crate) fn proposition_1(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut tally = Tally::default();
    let small = bench.cases(2000, |_, rng| {
        let (nodes, flows) = (2 + rng.below(9), 1 + rng.below(30));
        case(rng, nodes, flows, &mut tally)
    });
    let large = bench.cases(100, |_, rng| {
        let (nodes, flows) = (2 + rng.below(63), 1 + rng.below(500));
        case(rng, nodes, flows, &mut tally)
    });
    let Tally { served, refused, overloaded } = tally;
    Ok(match (small, large) {
        (Ok(small), Ok(large)) => Answer::statement(
            refused > 0,
            format!(
                "{} random rings and lines of 2 to 64 nodes, {served} flows: each allocation accepted, and by Definition 1 \
                 no flow can grow; {refused} other rates refused, and the flow that the test names could grow; \
                 {overloaded} refused for what a link cannot carry",
                small + large
            ),
        ),
        (Err(problem), _) | (_, Err(problem)) => Answer::statement(false, problem),
    })
}

#[derive(Default)]
struct Tally {
    served: usize,
    refused: usize,
    overloaded: usize,
}

fn case(rng: &mut Rng, nodes: u64, flows: u64, tally: &mut Tally) -> Result<(), String> {
    let problem = random(rng, nodes, flows).map_err(|error| error.to_string())?;
    let rates = rias::allocate(&problem).map_err(|error| error.to_string())?.rates;
    tally.served += rates.len();
    bottleneck::check(&problem, &rates, bottleneck::TOLERANCE).map_err(|unfair| unfair.to_string())?;
    if let Some(flow) = (0..rates.len()).find(|&flow| grown(&problem, &rates, flow).is_some()) {
        return Err(format!("accepted, yet flow {flow} can grow"));
    }
    let flow = rng.below(rates.len() as u64) as usize;
    let [mut less, mut more] = [rates.clone(), rates.clone()];
    less[flow] *= 0.9;
    more[flow] = more[flow] * 1.1 + 1e-6;
    for (what, other) in [("less", less), ("more", more), ("max-min", max_min::allocate(&problem))] {
        match bottleneck::check(&problem, &other, bottleneck::TOLERANCE) {
            Ok(()) if what != "max-min" => return Err(format!("{what} for flow {flow} is accepted")),
            // Max-min is the same thing where every ingress has one flow, or few links are full.
            Ok(()) => {}
            Err(Unfair::NoBottleneck { flow, .. }) => match grown(&problem, &other, flow) {
                Some(grown) if Loads::new(&problem, &grown).fit(&problem) => tally.refused += 1,
                Some(_) => return Err(format!("{what}: flow {flow} can grow only beyond what links carry")),
                None => return Err(format!("{what}: flow {flow} is refused, and cannot grow")),
            },
            Err(_) => tally.overloaded += 1,
        }
    }
    Ok(())
}
