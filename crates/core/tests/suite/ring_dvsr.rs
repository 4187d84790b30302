//! DVSR with packets: the paper's scenarios and others, against RIAS.

use crate::ring_packets::{Flow, Net, OC12, Setup};
use fairspan_core::ring::fairness::Fairness;
use fairspan_core::ring::problem::Problem;
use fairspan_core::ring::{NodeId, Ringlet, rias};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span, Time};

const C: f64 = OC12 as f64;

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

/// The RIAS rates of what the flows offer at the end, in bits per second.
fn reference(setup: &Setup) -> Vec<f64> {
    let nodes = setup.topology.nodes();
    let mut problem = Problem::ring(nodes as u64, C).unwrap();
    for node in (0..nodes).map(NodeId::at) {
        // Net of the control frames about the other ringlet, which share the link.
        let control = (17 + 2 * nodes) as f64 * 8e9 / setup.interval.as_nanos() as f64;
        let capacity = setup.topology.way(node, setup.ringlet).capacity.as_bits_per_sec() as f64 - control;
        let link = match setup.ringlet {
            Ringlet::Zero => u64::from(node.number()),
            Ringlet::One => u64::from(setup.topology.next(node, Ringlet::One).number()),
        };
        problem.set_link(link, setup.ringlet, capacity).unwrap();
        problem.set_weight(node, f64::from(setup.topology.weight(node))).unwrap();
    }
    for flow in &setup.flows {
        let (from, to) = (NodeId::new(flow.from).unwrap(), NodeId::new(flow.to).unwrap());
        problem.add(from, to, Some(setup.ringlet), Some(flow.offered.last().unwrap().1)).unwrap();
    }
    rias::allocate(&problem).unwrap().rates
}

/// Runs for so many rounds and holds what comes out to RIAS: what is received, the limiters of flows that want more than they get,
/// how much these still move, and when they were there.
fn holds_to_rias(name: &str, setup: Setup, rounds: u64, settled: u64) {
    let (right, flows, round) = (reference(&setup), setup.flows.clone(), setup.interval);
    let until = Time::from_nanos(round.as_nanos() * rounds);
    let outcome = setup.run(until);
    for (n, flow) in flows.iter().enumerate() {
        let (from, to, right, limits) = (flow.from, flow.to, right[n], &outcome.limits[n]);
        let received = outcome.received[n];
        // Packets at the ends of the time, and the spare part of a link.
        assert!((received - right).abs() <= 0.002 * C, "{name} ({from},{to}): {} of {}", received / C, right / C);
        let offered = flow.offered.last().unwrap().1;
        if right < 0.999 * offered {
            let mean = limits.mean();
            assert!((mean - right).abs() <= 0.001 * right, "{name} ({from},{to}): limit {} of {}", mean / C, right / C);
            assert!(limits.swing() <= 0.001 * C, "{name} ({from},{to}): limit swings by {}", limits.swing() / C);
            let at = limits.settled_at(until);
            let latest = Time::ZERO + round.times(settled);
            assert!(at <= latest, "{name} ({from},{to}): settled at {at:?}, not by {latest:?}");
        } else {
            assert!(
                limits.mean() >= 0.999 * right,
                "{name} ({from},{to}): limit {} throttles {}",
                limits.mean() / C,
                right / C
            );
        }
    }
}

fn all(from: u8, to: u8) -> Flow {
    Flow::new(from, to, C)
}

/// The same from a cold start: with whole links from the first instant on, as in the paper, and with three rounds of the least part before.
fn holds_from_a_cold_start(name: &str, setup: impl Fn() -> Setup, whole: u64, least: u64) {
    holds_to_rias(&format!("{name}, whole links"), setup(), 400, whole);
    holds_to_rias(name, setup().with("dvsr:start=3"), 400, least);
}

#[test]
fn the_parking_lots_converge_within_two_rounds_of_a_cold_start_and_six_with_those_of_the_least_part() {
    let parking = || Setup::new(10, vec![all(1, 5), all(2, 5), all(3, 5), all(4, 5)]);
    holds_from_a_cold_start("parking lot", parking, 2, 6);
    let parallel = || Setup::new(10, vec![all(1, 2), all(1, 5), all(2, 5), all(3, 5), all(4, 5)]);
    holds_from_a_cold_start("parallel", parallel, 2, 6);
    let two_exit = || Setup::new(10, vec![all(1, 5), all(2, 5), all(3, 5), all(4, 5), all(4, 6)]);
    holds_from_a_cold_start("two-exit", two_exit, 2, 6);
}

#[test]
fn links_that_depend_on_each_other_converge_in_some_rounds() {
    let upstream = || Setup::new(10, vec![all(1, 3), all(2, 6), all(3, 6), all(4, 6), all(5, 6)]);
    holds_from_a_cold_start("upstream", upstream, 4, 8);
    let figure_5 = || Setup::new(10, vec![all(1, 2), all(1, 3), all(1, 4), all(1, 5), all(2, 5), all(4, 5)]);
    holds_from_a_cold_start("figure 5", figure_5, 16, 16);
}

#[test]
fn unbalanced_rates_stand_still_where_they_belong() {
    for (upstream, downstream) in [(622e6, 5e6), (622e6, 100e6), (622e6, 200e6), (622e6, 311e6), (5e6, 622e6)] {
        let flows = vec![Flow::new(1, 3, upstream), Flow::new(2, 3, downstream)];
        holds_to_rias(&format!("{upstream}/{downstream}"), Setup::new(10, flows), 800, 16);
    }
    let flows = vec![Flow::new(1, 3, 5e6), Flow::new(2, 3, 600e6)];
    holds_to_rias("5/600", Setup::new(10, flows), 400, 4);
}

#[test]
fn many_small_flows_leave_the_rest_to_a_large_one() {
    // Figure 11: N - 1 flows of 5 Mbit/s in packets of 100 bytes, and what is left of 605 Mbit/s.
    for n in [2u8, 5, 9] {
        let mut flows: Vec<Flow> = (1..n).map(|from| Flow::new(from, n + 1, 5e6).of_size(100)).collect();
        flows.push(Flow::new(n, n + 1, 605e6 - 5e6 * f64::from(n - 1)));
        holds_to_rias(&format!("{n} flows"), Setup::new(20, flows), 200, 8);
    }
}

#[test]
fn weights_and_unlike_links_are_kept() {
    let flows = || vec![all(1, 5), all(2, 5), all(3, 5), all(4, 5)];
    holds_to_rias("weights", Setup::new(10, flows()).weight(1, 4000).weight(3, 500), 400, 5);
    let slow = Rate::from_mbit(100);
    holds_to_rias("a slow link", Setup::new(10, flows()).capacity(2, slow), 400, 12);
    let heavy = Setup::new(10, vec![all(1, 5)]).weight(1, 64_000);
    holds_to_rias("a heavy ingress alone", heavy, 200, 2);
}

#[test]
fn the_other_ringlet_is_the_same_turned_round() {
    let flows = || vec![all(5, 1), all(4, 1), all(3, 1), all(2, 1)];
    let setup = || Setup { ringlet: Ringlet::One, ..Setup::new(10, flows()) };
    holds_from_a_cold_start("ringlet 1", setup, 2, 5);
}

#[test]
fn flows_that_come_and_go_are_followed_within_two_rounds() {
    // VII-B: 0.4 each, from 0, 100, 200 and 300 ms on; the first one leaves at 400 ms.
    let starts = [0, 100, 200, 300];
    let flow = |(n, at): (usize, &u64)| {
        let mut flow = Flow::new(n as u8 + 1, 5, 0.4 * C);
        flow.offered[0].0 = ms(*at);
        if n == 0 { flow.then(ms(400), 1.0) } else { flow }
    };
    let setup = Setup::new(10, starts.iter().enumerate().map(flow).collect());
    let outcome = setup.run(ms(500));
    for (from, until, share, flows) in
        [(200, 300, 1.0 / 3.0, 0..3), (300, 400, 0.25, 0..4), (400, 500, 1.0 / 3.0, 1..4)]
    {
        for flow in flows {
            let limits = &outcome.limits[flow];
            let mean = limits.mean_from(ms(from + 20), ms(until));
            assert!((mean / C - share).abs() < 0.001 * share, "flow {flow} from {from} ms: {}", mean / C);
            let settled = limits.settled_at(ms(until));
            // Two round times, and the way of the last packets and rates.
            let latest = ms(from) + Span::from_micros(2_500);
            assert!(settled <= latest, "flow {flow} from {from} ms: settled at {settled:?}");
        }
    }
}

#[test]
fn one_byte_rates_are_those_of_the_testbed() {
    // VIII-C: eight nodes, 100 Mbit/s, T = 0.6 ms; two flows of 58, three of 58, 58 and 97, and 100 beside 42 Mbit/s.
    let cases: [(&[f64], u8); 3] = [(&[58e6, 58e6], 0x7F), (&[58e6, 58e6, 97e6], 0x55), (&[100e6, 42e6], 0x94)];
    for (offered, byte) in cases {
        let last = offered.len() as u8;
        let flow = |(n, rate): (usize, &f64)| Flow::new(n as u8 + 1, last + 1, *rate).of_size(1500);
        let mut setup = Setup::new(8, offered.iter().enumerate().map(flow).collect()).with("dvsr:bits=8");
        setup.nominal = Rate::from_mbit(100);
        for node in 1..=8 {
            setup = setup.capacity(node, Rate::from_mbit(100));
        }
        (setup.delay, setup.interval) = (Span::from_micros(75), Span::from_micros(600));
        let mut net = Net::new(setup);
        net.run(ms(600));
        let share = net.agents[usize::from(last) - 1].fair(NodeId::new(last).unwrap()).unwrap();
        let ours = (share * 255.0).round();
        assert!((ours - f64::from(byte)).abs() <= 1.0, "{offered:?}: {ours}, not {byte}");
    }
}

#[test]
fn equation_9_gives_equal_parts_whether_they_are_used_or_not() {
    let flows = vec![all(1, 2), all(1, 5), all(2, 5), all(3, 5), all(4, 5)];
    let outcome = Setup::new(10, flows).with("dvsr:suballocation=equal").run(ms(400));
    assert!((outcome.limits[0].mean() / C - 0.5).abs() < 0.001, "{}", outcome.limits[0].mean() / C);
}

#[test]
fn lost_messages_delay_and_change_nothing_else() {
    let mut setup = Setup::new(10, vec![all(1, 2), all(1, 5), all(2, 5), all(3, 5), all(4, 5)]);
    setup.lossy = true;
    holds_to_rias("messages lost", setup, 600, 12);
}

#[test]
fn queues_drain_though_limited_flows_fill_their_link() {
    let setup = Setup::new(10, vec![all(1, 5), all(2, 5), all(3, 5), all(4, 5)]);
    let outcome = setup.run(ms(1000));
    assert!(outcome.queued[3] > 12_000, "it filled: {:?}", outcome.queued);
    assert!(outcome.waiting.iter().all(|waiting| *waiting < 8_000), "{:?}", outcome.waiting);
}

#[test]
fn while_a_queue_drains_limiters_make_one_step_and_do_not_follow_its_packets() {
    let setup = Setup::new(10, vec![all(1, 5), all(2, 5), all(3, 5), all(4, 5)]);
    let (from, until) = (Time::ZERO + setup.interval.times(5), Time::ZERO + setup.interval.times(100));
    let outcome = setup.run(until);
    let short = outcome.waiting[3];
    assert!(short > 4_000, "it still drains: {:?}", outcome.waiting);
    for (flow, limits) in outcome.limits.iter().enumerate() {
        let steps: Vec<f64> = limits.steps.iter().filter(|step| step.0 >= from).map(|step| step.1 / C).collect();
        assert!(steps.len() <= 1, "flow {flow}: {steps:?}");
    }
}

/// Rings at random, of flows that want all or part.
fn random(seed: u64, most: u64) -> Setup {
    let mut rng = Rng::new(seed);
    let nodes = 4 + rng.below(most - 3);
    let mut flows: Vec<Flow> = Vec::new();
    for _ in 0..2 + rng.below(2 * nodes) {
        let from = rng.below(nodes);
        let to = (from + 1 + rng.below(nodes / 2)) % nodes;
        let rate = if rng.below(2) == 0 { C } else { C * (1 + rng.below(50)) as f64 / 100.0 };
        let ends = (from as u8 + 1, to as u8 + 1);
        if flows.iter().all(|flow| (flow.from, flow.to) != ends) {
            flows.push(Flow::new(ends.0, ends.1, rate));
        }
    }
    Setup::new(nodes as usize, flows)
}

fn worst_of(setup: Setup, rounds: u64) -> f64 {
    let right = reference(&setup);
    let outcome = {
        let until = setup.interval.times(rounds).as_nanos();
        setup.run(Time::from_nanos(until))
    };
    outcome.received.iter().zip(right).map(|(ours, right)| (ours - right).abs() / C).fold(0.0, f64::max)
}

#[test]
fn random_rings_come_to_their_rias_rates() {
    for seed in 0..24 {
        let worst = worst_of(random(seed, 16), 150);
        assert!(worst < 0.002, "seed {seed}: {worst} of the capacity off");
    }
    for seed in 100..103 {
        let worst = worst_of(random(seed, 64), 100);
        assert!(worst < 0.005, "seed {seed}: {worst} of the capacity off");
    }
}

#[test]
fn rivals_share_a_parking_lot_too_and_the_baseline_does_not() {
    let flows = || vec![all(1, 5), all(2, 5), all(3, 5), all(4, 5)];
    for rival in ["dba", "explicit"] {
        let outcome = Setup::new(10, flows()).with(rival).run(ms(400));
        for (n, received) in outcome.received.iter().enumerate() {
            assert!((received / C - 0.25).abs() < 0.01, "{rival}, flow {n}: {}", received / C);
        }
    }
    let outcome = Setup::new(10, flows()).with("fifo").run(ms(100));
    assert!(outcome.received.iter().any(|received| (received / C - 0.25).abs() > 0.1), "{:?}", outcome.received);
}
