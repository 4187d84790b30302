//! Rings drawn at random, of all sizes, weights, links, demands, against their RIAS rates.

use fairspan_core::ring::bottleneck;
use fairspan_core::ring::problem::Problem;
use fairspan_core::ring::{NodeId, Ringlet, rias};
use fairspan_core::rng::Rng;
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fmt::Write;

/// What of a ring is drawn.
#[derive(Clone, Copy, Debug)]
struct Range {
    /// Nodes: least and most.
    nodes: (u64, u64),
    /// Flows: most.
    flows: u64,
    weights: bool,
    unlike: bool,
    /// Flows only the shorter way round.
    shorter: bool,
    /// Of demands, those that are finite, of ten.
    finite: u64,
    /// Of DVSR.
    start: u64,
}

#[derive(Clone, Debug)]
struct Flow {
    from: u64,
    to: u64,
    ringlet: u8,
    /// Mbit/s; beyond all links: as much as it gets.
    demand: f64,
}

#[derive(Clone, Debug)]
struct Case {
    nodes: u64,
    /// Mbit/s and microseconds, by link.
    links: Vec<(f64, u64)>,
    weights: Vec<f64>,
    flows: Vec<Flow>,
    packet: u64,
    start: u64,
}

const C: f64 = 100.0;

fn draw(seed: u64, range: &Range) -> Case {
    let mut rng = Rng::new(seed);
    let nodes = range.nodes.0 + rng.below(range.nodes.1 - range.nodes.0 + 1);
    let links = (0..nodes)
        .map(|_| match (range.unlike, rng.below(3)) {
            (true, 0) => (C * (20 + rng.below(80)) as f64 / 100.0, 20 + rng.below(300)),
            _ => (C, 100),
        })
        .collect();
    let weights = (0..nodes)
        .map(|_| if range.weights && rng.below(3) == 0 { (1 + rng.below(8)) as f64 / 2.0 } else { 1.0 })
        .collect();
    let mut flows: Vec<Flow> = Vec::new();
    for _ in 0..2 + rng.below(range.flows - 1) {
        let from = rng.below(nodes);
        let hops = 1 + rng.below(if range.shorter { nodes / 2 } else { nodes - 1 });
        let ringlet = rng.below(2) as u8;
        let to = if ringlet == 0 { from + hops } else { from + nodes - hops } % nodes;
        let demand = if rng.below(10) < range.finite { C * (1 + rng.below(60)) as f64 / 100.0 } else { 2.0 * C };
        let flow = Flow { from: from + 1, to: to + 1, ringlet, demand };
        if flows.iter().all(|f| (f.from, f.to, f.ringlet) != (flow.from, flow.to, flow.ringlet)) {
            flows.push(flow);
        }
    }
    Case { nodes, links, weights, flows, packet: 1000, start: range.start }
}

impl Case {
    /// Nanoseconds once around.
    fn round(&self) -> u64 {
        self.links.iter().map(|link| link.1 * 1000).sum()
    }

    fn problem(&self) -> Problem {
        let mut problem = Problem::ring(self.nodes, C).expect("a ring");
        let control = (17 + 2 * self.nodes) as f64 * 8e3 / self.round() as f64;
        for (index, (link, weight)) in self.links.iter().zip(&self.weights).enumerate() {
            for ringlet in [Ringlet::Zero, Ringlet::One] {
                problem.set_link(index as u64 + 1, ringlet, link.0 - control).expect("a link");
            }
            problem.set_weight(NodeId::at(index), *weight).expect("a weight");
        }
        for flow in &self.flows {
            let ends = [flow.from, flow.to].map(|node| NodeId::new(node as u8).expect("a node"));
            let ringlet = if flow.ringlet == 0 { Ringlet::Zero } else { Ringlet::One };
            problem.add(ends[0], ends[1], Some(ringlet), Some(flow.demand)).expect("a flow");
        }
        problem
    }

    fn text(&self, rounds: (u64, u64)) -> String {
        let mut text = format!(
            "warm_up = \"{}ns\"\nduration = \"{}ns\"\n[[node]]\nname = \"n#\"\nfirst = 1\ncount = {n}\n[[ring]]\nname = \"r\"\nnodes = \
             \"n#\"\ncount = {n}\nrate = \"{C}Mbit\"\ndelay = \"0.1ms\"\ndiscovery = false\nalgorithm = \"dvsr:start={start}\"\n",
            rounds.0 * self.round(),
            rounds.1 * self.round(),
            n = self.nodes,
            start = self.start
        );
        let weights: Vec<String> =
            self.weights.iter().enumerate().map(|(n, weight)| format!("n{} = {weight:.1}", n + 1)).collect();
        let links: Vec<String> = (1..)
            .zip(&self.links)
            .map(|(n, link)| format!("{{ link = {n}, rate = \"{}Mbit\", delay = \"{}us\" }}", link.0, link.1))
            .collect();
        let _ = writeln!(text, "weights = {{ {} }}\nlinks = [{}]", weights.join(", "), links.join(", "));
        for (n, f) in self.flows.iter().enumerate() {
            let _ = writeln!(
                text,
                "[[flow]]\nname = \"f{n}\"\nfrom = \"n{}\"\nto = \"n{}\"\nringlet = {}\nkind = \"constant\"\nrate = \
                 \"{}Mbit\"\nsize = \"{}B\"\ndrift = \"0ppm\"",
                f.from, f.to, f.ringlet, f.demand, self.packet
            );
        }
        text
    }

    fn run(&self, rounds: (u64, u64)) -> Results {
        let text = self.text(rounds);
        let mut none = |name: &str| Err(format!("{name}: no files here"));
        let file =
            File::parse_with("x.toml", &text, &[], &mut none).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        let built = file.run(0).expect("one run").unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        let world = World::new(&built.scenario).unwrap_or_else(|error| panic!("{error}"));
        world.finish().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The greatest part of itself by which a flow's rate is off what is right, packets and 0.05 % of a link apart; and all
    /// rates, received and right. Rates that are RIAS fair in another way are right, too.
    fn worst(&self, rounds: (u64, u64)) -> (f64, Vec<(f64, f64)>) {
        let problem = self.problem();
        let right = rias::allocate(&problem).expect("rates").rates;
        let results = self.run(rounds);
        let measured = (rounds.1 - rounds.0) as f64 * self.round() as f64;
        let slack = 0.0005 * C + 2.0 * self.packet as f64 * 8e3 / measured;
        let ours: Vec<f64> = results.flows.iter().map(|flow| flow.throughput / 1e6).collect();
        let off = ours.iter().zip(&right).map(|(ours, right)| ((ours - right).abs() - slack).max(0.0) / right);
        let worst = off.fold(0.0, f64::max);
        if worst > 0.01 && bottleneck::check(&problem, &ours, 0.01).is_ok() {
            return (0.0, Vec::new());
        }
        (worst, ours.into_iter().zip(right).collect())
    }
}

/// Rings of these seeds, each held to its RIAS rates.
#[track_caller]
fn hold(range: &Range, seeds: impl Iterator<Item = u64>, rounds: (u64, u64)) {
    let off: Vec<(u64, f64)> =
        seeds.map(|seed| (seed, draw(seed, range).worst(rounds).0)).filter(|(_, worst)| *worst > 0.01).collect();
    assert!(off.is_empty(), "seeds and by which part a flow is off: {off:?}");
}

const PLAIN: Range =
    Range { nodes: (4, 16), flows: 30, weights: false, unlike: false, shorter: true, finite: 5, start: 0 };
const WILD: Range =
    Range { nodes: (2, 12), flows: 60, weights: true, unlike: true, shorter: false, finite: 8, start: 0 };

#[test]
fn rings_drawn_at_random_come_to_their_rias_rates() {
    hold(&PLAIN, 0..6, (150, 250));
    hold(&Range { weights: true, unlike: true, ..PLAIN }, 6..12, (150, 250));
    hold(&WILD, 12..18, (150, 250));
}

#[test]
fn intervals_of_less_than_a_packet_take_no_ingress_for_one_that_stopped() {
    // A link of 32 Mbit/s and seven ingresses, and T of 5 kB there: half a packet of some.
    hold(&WILD, std::iter::once(1100), (1000, 1100));
}

#[test]
fn of_four_rings_of_30_to_64_unlike_nodes_three_are_right_after_150_ring_times_and_one_is_off_by_60_per_cent() {
    // The queues of a cold start shut somebody out for longer than that (DESIGN.md, rings).
    let range = Range { nodes: (30, 64), ..WILD };
    let worst = [1000, 1001, 1002, 1003].map(|seed| draw(seed, &range).worst((150, 250)).0);
    assert!((0.55..0.65).contains(&worst[0]) && worst[1..].iter().all(|worst| *worst <= 0.01), "{worst:?}");
}

#[test]
fn rings_of_30_to_64_unlike_nodes_that_begin_with_the_least_part_are_right_within_150_ring_times() {
    // With links that give all of themselves from the first instant on, they are off by 60, 90, 92 and 21 per cent.
    hold(&Range { nodes: (30, 64), start: 3, ..WILD }, [1000, 1023, 1026, 1034].into_iter(), (150, 250));
}

#[test]
fn what_is_off_is_found() {
    let worst = (0..4).map(|seed| draw(seed, &PLAIN).worst((1, 6)).0).fold(0.0, f64::max);
    assert!(worst > 0.01, "before they have converged, rates are off: {worst}");
}

/// By hand: FIRST and COUNT of the seeds, LEAST and MOST nodes, FLOWS, SETTLE and UNTIL rounds, 1 for TELL.
#[test]
#[ignore = "looks for rings that are off, for as long as one likes"]
fn more_rings_come_to_their_rias_rates() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let range = Range { nodes: (number("LEAST", 2), number("MOST", 12)), flows: number("FLOWS", 60), ..WILD };
    let rounds = (number("SETTLE", 150), number("UNTIL", 250));
    let first = number("FIRST", 1000);
    let mut off = 0;
    for seed in first..first + number("COUNT", 100) {
        let case = draw(seed, &range);
        let (worst, rates) = case.worst(rounds);
        if worst > 0.01 {
            off += 1;
            println!("seed {seed}: {worst:.3}");
            if number("TELL", 0) == 1 {
                println!("links {:?}, weights {:?}", case.links, case.weights);
                for (flow, (ours, right)) in case.flows.iter().zip(rates) {
                    println!("{flow:?}: {ours:.3}, right {right:.3}");
                }
            }
        }
    }
    assert_eq!(off, 0, "rings are off");
}
