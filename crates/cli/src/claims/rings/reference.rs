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

/// What rates of unit capacity are rounded to where they are shown or compared with a figure of the paper: a sum of few of them
/// is off by some 1e-16, and what is wrong differs in the third digit.
const DIGITS: f64 = 1e12;

/// `rate` with twelve digits.
fn rounded(rate: f64) -> f64 {
    (rate * DIGITS).round() / DIGITS
}

/// Whether all of `rates` are an equal share of 1.
fn are_equal_shares(rates: &[f64]) -> bool {
    rates.iter().all(|rate| rounded(*rate) == rounded(1.0 / rates.len() as f64))
}

/// The paper's figures.
pub(crate) fn examples(_: &mut Bench) -> anyhow::Result<Answer> {
    let mut ours = Map::new();
    let mut holds = true;
    for (key, nodes, ends) in EXAMPLES {
        let problem = line(nodes, ends)?;
        let rates = rias::allocate(&problem)?.rates;
        holds &= bottleneck::check(&problem, &rates, bottleneck::TOLERANCE).is_ok();
        ours.insert(key.to_owned(), rates.iter().map(|rate| rounded(*rate)).collect::<Vec<_>>().into());
    }
    let two_exit = line(6, EXAMPLES[2].2)?;
    let spread = max_min::allocate(&two_exit);
    holds &= are_equal_shares(&spread);
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

/// Most flows of a random problem.
const FLOWS: u64 = 500;
/// So much may a sum of rates be off, as a share of a link, that each are off by `bottleneck::TOLERANCE`: from twice that on one of two
/// sums is larger, and from once that on a link has room.
const MORE: f64 = 1.0 + 2.0 * FLOWS as f64 * bottleneck::TOLERANCE;
/// By how much a flow is let grow, and another one pays: what a rate may be off. One that has no more has nothing to give.
const STEP: f64 = bottleneck::TOLERANCE;
/// By which share of it a link may seem to carry too much: a tenth of the step, so that a step which nobody paid for is seen; the rounding
/// of a sum of `FLOWS` numbers is below a thousandth of that.
const FITS: f64 = STEP / 10.0;
/// By which share a flow's rate is made wrong: so much that the test cannot take the link for full without it as long as the flow has a
/// hundred-thousandth of what the link carries, which is `MORE`'s part of it.
const OFF: f64 = 0.1;

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
            ways.all(|(node, carried)| *carried <= problem.capacity(NodeId::at(node), ringlet) * (1.0 + FITS))
        })
    }
}

/// Definition 1: rates with a little more for `flow`, at the cost only of flows that have more: larger ones of the same
/// ingress, and those of an ingress that has more on a link that both cross. `None`: there is no such way.
fn grown(problem: &Problem, rates: &[f64], flow: usize) -> Option<Vec<f64>> {
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
        let (nodes, flows) = (2 + rng.below(63), 1 + rng.below(FLOWS));
        case(rng, nodes, flows, &mut tally)
    });
    let Tally { served, refused, overloaded } = tally;
    Ok(match (small, large) {
        (Ok(small), Ok(large)) => Answer::statement(
            is_enough(small + large, refused),
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

/// Whether so many rates were refused, in so many problems, that the test is known to refuse: less for a flow in each.
fn is_enough(problems: u32, refused: usize) -> bool {
    problems > 0 && refused >= problems as usize
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
    less[flow] *= 1.0 - OFF;
    // A rate of nothing becomes one that counts.
    more[flow] = more[flow] * (1.0 + OFF) + (MORE - 1.0);
    for (what, other) in [("less", less), ("more", more), ("max-min", max_min::allocate(&problem))] {
        let judged = bottleneck::check(&problem, &other, bottleneck::TOLERANCE);
        match judged {
            // Max-min is the same thing where every ingress has one flow, or few links are full.
            Ok(()) if what == "max-min" => {}
            Ok(()) => return Err(format!("{what} for flow {flow} is accepted")),
            Err(Unfair::NoBottleneck { flow, .. }) => match grown(&problem, &other, flow) {
                Some(grown) if Loads::new(&problem, &grown).fit(&problem) => tally.refused += 1,
                Some(_) => return Err(format!("{what}: flow {flow} can grow only beyond what links carry")),
                None => return Err(format!("{what}: flow {flow} is refused, and cannot grow")),
            },
            Err(_) if what == "more" => tally.overloaded += 1,
            Err(unfair) => return Err(format!("{what} for flow {flow}: {unfair}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether, where these are the rates on one link of capacity 1, the first flow can grow. Flows of one ingress.
    fn grows(demand: Option<f64>, rates: &[f64]) -> bool {
        let mut problem = Problem::line(2, 1.0).unwrap();
        for number in 0..rates.len() {
            let [from, to] = [0, 1].map(NodeId::at);
            problem.add(from, to, None, demand.filter(|_| number == 0)).unwrap();
        }
        grown(&problem, rates, 0).is_some()
    }

    #[test]
    fn figures_are_the_same_to_twelve_digits_and_shares_are_equal_ones_of_all() {
        assert_eq!(rounded(1.0 / 3.0), 0.333_333_333_333);
        let shares = |off| [0.2 + off, 0.2, 0.2, 0.2, 0.2];
        assert!(are_equal_shares(&shares(4e-13)) && are_equal_shares(&shares(-4e-13)));
        assert!(!are_equal_shares(&shares(6e-13)) && !are_equal_shares(&shares(-6e-13)));
        assert!(!are_equal_shares(&[0.2; 4]));
    }

    /// 500 rates may be off by a billionth each, in either of two sums.
    #[test]
    fn a_flow_grows_from_a_millionth_on_and_from_no_less() {
        assert!(((MORE - 1.0) / 1e-6 - 1.0).abs() < 1e-9);
        // Another flow of its ingress has more.
        assert!(!grows(None, &[0.5 - 0.24e-6, 0.5 + 0.24e-6]) && grows(None, &[0.5 - 0.26e-6, 0.5 + 0.26e-6]));
        // The link has room.
        assert!(!grows(None, &[0.5 - 0.45e-6, 0.5 - 0.45e-6]) && grows(None, &[0.5 - 0.55e-6, 0.5 - 0.55e-6]));
        // It is below its demand.
        assert!(!grows(Some(0.5), &[0.5 - 0.45e-6, 0.1]) && grows(Some(0.5), &[0.5 - 0.55e-6, 0.1]));
    }

    #[test]
    fn a_flow_of_an_ingress_that_has_more_pays_if_it_has_a_step_to_give() {
        let problem = line(3, &[(1, 3), (1, 3), (2, 3)]).unwrap();
        let paid = |little: f64| {
            let rates = [little, 0.6 - little, 0.4];
            let grown = grown(&problem, &rates, 2).unwrap();
            assert!(grown[2] > rates[2] && grown.iter().all(|rate| *rate >= 0.0), "{grown:?}");
            assert!(Loads::new(&problem, &grown).fit(&problem), "{grown:?}");
            [0, 1].map(|flow| grown[flow] < rates[flow])
        };
        assert_eq!(paid(0.9e-9), [false, true]);
        assert_eq!(paid(1.1e-9), [true, false]);
        // Ingresses with as much have nothing to pay.
        assert_eq!(grown(&problem, &[0.25, 0.25, 0.5], 2), None);
        assert_eq!(grown(&problem, &[0.25, 0.25 + 0.2e-6, 0.5 - 0.2e-6], 2), None);
        assert!(grown(&problem, &[0.25, 0.25 + 0.3e-6, 0.5 - 0.3e-6], 2).is_some());
    }

    #[test]
    fn what_fits_is_off_by_less_than_a_step_that_nobody_paid_for() {
        let problem = line(2, &[(1, 2), (1, 2)]).unwrap();
        let fits = |more: f64| Loads::new(&problem, &[0.5, 0.5 + more]).fit(&problem);
        assert!(fits(0.9e-10) && !fits(1.1e-10) && !fits(STEP));
        // A link of 1.1, the largest there is, of as many flows as there are.
        let mut problem = Problem::line(2, 1.1).unwrap();
        for _ in 0..FLOWS {
            problem.add(NodeId::at(0), NodeId::at(1), None, None).unwrap();
        }
        let mut rates = vec![1.1 / FLOWS as f64; FLOWS as usize];
        assert!(Loads::new(&problem, &rates).fit(&problem));
        rates[7] += STEP;
        assert!(!Loads::new(&problem, &rates).fit(&problem));
    }

    /// Both tests see a tenth less for a flow that has a hundred-thousandth of a link, and with a tenth of that they part.
    #[test]
    fn a_tenth_of_a_flow_that_has_a_hundred_thousandth_of_a_link_is_seen_by_both_tests() {
        let seen = |share: f64| {
            let mut problem = Problem::line(2, 1.0).unwrap();
            let [from, to] = [0, 1].map(NodeId::at);
            problem.add(from, to, None, Some(share)).unwrap();
            problem.add(from, to, None, None).unwrap();
            let rates = [share, 1.0 - share];
            assert_eq!(bottleneck::check(&problem, &rates, bottleneck::TOLERANCE), Ok(()));
            assert_eq!(grown(&problem, &rates, 0), None);
            // Of the other one, which has no more than the link.
            let less = [share, 1.0 - share - OFF * share];
            let refused = bottleneck::check(&problem, &less, bottleneck::TOLERANCE).is_err();
            (refused, grown(&problem, &less, 1).is_some())
        };
        assert_eq!(seen(1.1e-5), (true, true));
        assert_eq!(seen(0.9e-5), (true, false));
    }

    #[test]
    fn rates_count_as_refused_often_enough_from_once_a_problem_on() {
        assert!(is_enough(10, 10) && is_enough(10, 30) && !is_enough(10, 9) && !is_enough(0, 0));
    }

    #[test]
    fn of_twenty_problems_all_are_judged_and_something_is_refused_in_each() {
        let mut tally = Tally::default();
        for seed in 0..20 {
            case(&mut Rng::new(seed), 2 + seed % 9, 1 + seed, &mut tally).unwrap();
        }
        assert!(is_enough(20, tally.refused), "{}", tally.refused);
        assert!(tally.served == (1..=20).sum::<usize>() && tally.overloaded <= 20);
    }
}
