//! Links and hosts against theory: queues, framing, loss, jitter, outages, processors.

use crate::common::{Line, constant, poisson};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::link::{DuringOutage, Limit, Loss, Outage};
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::units::{Bytes, Rate, Span, Time};
use fairspan_sim::model::{Card, Framing, HostCost};
use fairspan_sim::results::Results;
use fairspan_sim::traffic::{Config, Sizes};
use fairspan_sim::world::{World, WorldError};

/// Mean wait in units of the mean service time, over some hundred thousand packets at this load.
fn mean_wait(load: f64, size: Sizes, seed: u64) -> f64 {
    // 1000 bytes on average take 10 us.
    let mut line = Line::new(&[(800_000_000, 0)]);
    line.scenario.links[0].profile.queue = Limit::Packets(1_000_000);
    line.scenario.duration = Span::from_secs(4);
    line.scenario.warm_up = Span::from_millis(100);
    let rate = Rate::from_bits_per_sec((800e6 * load) as u64);
    line.flow(0, 1, Config::Poisson { rate, size }, Time::ZERO, Time::MAX);
    let results = line.run(seed);
    // Little's law the other way round: bytes in the queue per byte arriving per second.
    let by_queue = results.links[0].queue_mean * 8.0 / results.flows[0].throughput;
    let by_delay = results.flows[0].delay.mean - 10e-6;
    assert!((by_queue / by_delay - 1.0).abs() < 0.1, "{by_queue} {by_delay}: both are the wait");
    by_delay / 10e-6
}

#[test]
fn the_wait_at_a_link_is_that_of_m_d_1() {
    for (load, seed) in [(0.5_f64, 1), (0.7, 2), (0.8, 3)] {
        let expected = load / (2.0 * (1.0 - load));
        let wait = mean_wait(load, Sizes::Constant(1000), seed);
        // 200,000 packets and more; at load 0.8 waits are correlated over some hundred packets: 3 % is three deviations.
        assert!((wait / expected - 1.0).abs() < 0.03, "load {load}: {wait}, theory {expected}");
    }
}

#[test]
fn the_wait_at_a_link_is_that_of_m_g_1_for_two_sizes() {
    // Pollaczek and Khinchine: load (1 + c^2) / (2 (1 - load)); sizes 100 and 1900 with equal weight: c = 0.9.
    let load = 0.6;
    let expected = load * (1.0 + 0.81) / (2.0 * (1.0 - load));
    let wait = mean_wait(load, Sizes::Mixture(vec![(100, 1.0), (1900, 1.0)]), 4);
    assert!((wait / expected - 1.0).abs() < 0.03, "{wait}, theory {expected}");
}

#[test]
fn a_queue_of_few_frames_loses_what_m_d_1_k_says() {
    // M/D/1 with room for the packet in service only and one more (K = 2), load 1: the chain embedded at departures
    // gives pi0 = e^-1, loss = 1 - 1 / (pi0 + load).
    let mut line = Line::new(&[(800_000_000, 0)]);
    line.scenario.links[0].profile.queue = Limit::Packets(1);
    line.scenario.duration = Span::from_secs(4);
    line.flow(0, 1, poisson(800_000_000, 1000), Time::ZERO, Time::MAX);
    let results = line.run(5);
    let loss = results.flows[0].dropped as f64 / results.flows[0].sent as f64;
    let expected = 1.0 - 1.0 / ((-1.0_f64).exp() + 1.0);
    assert!((loss - expected).abs() < 0.005, "{loss}, theory {expected}");
}

#[test]
fn framing_adds_what_the_link_layers_say() {
    let ethernet = [(20, 84), (46, 84), (47, 85), (1500, 1538)];
    // AAL5: 40 + 16 = 56 is two cells; 32 + 16 = 48 is one; 1500 + 16 = 1516 is 32 cells.
    let atm = [(32, 53), (33, 106), (40, 106), (1500, 1696)];
    for (size, length) in ethernet {
        assert_eq!(Framing::Ethernet.length(size), length);
    }
    for (size, length) in atm {
        assert_eq!(Framing::AtmAal5.length(size), length);
    }
    assert_eq!((Framing::None.length(7), Framing::Bytes(5).length(7)), (7, 12));

    let mut line = Line::new(&[(10_000_000, 0)]);
    line.scenario.links[0].framing = Framing::Ethernet;
    line.flow(0, 1, constant(20_000_000, 1500), Time::ZERO, Time::MAX);
    let results = line.run(1);
    assert_eq!(results.links[0].packets, 10_000_000 / (1538 * 8));
    assert_eq!(results.links[0].bytes, results.links[0].packets * 1538);
}

#[test]
fn losses_are_as_often_as_set_and_a_gilbert_link_loses_in_bursts() {
    let run = |loss| {
        let mut line = Line::new(&[(0, 1)]);
        line.scenario.links[0].profile.loss = loss;
        line.scenario.duration = Span::from_secs(10);
        line.scenario.metrics.reordering = true;
        line.flow(0, 1, constant(160_000_000, 1000), Time::ZERO, Time::MAX);
        let results = line.run(7);
        assert_eq!(results.conservation.dropped[0].reason, "loss");
        results.flows[0].dropped as f64 / results.flows[0].sent as f64
    };
    // 200,000 packets: a deviation of 0.0007 at 10 %.
    let loss = run(Loss::Independent(0.1));
    assert!((loss - 0.1).abs() < 0.003, "{loss}");
    // Bad for a share p / (p + r) of the time; the bursts make the deviation some five times as large.
    let loss = run(Loss::Gilbert { p: 0.01, r: 0.09, bad: 0.5, good: 0.02 });
    assert!((loss - (0.1 * 0.5 + 0.9 * 0.02)).abs() < 0.006, "{loss}");
}

#[test]
fn jitter_reorders_only_where_it_may() {
    let run = |reorder| {
        let mut line = Line::new(&[(100_000_000, 20)]);
        line.scenario.links[0].profile.jitter = Span::from_millis(2);
        line.scenario.links[0].profile.reorder = reorder;
        line.scenario.duration = Span::from_secs(5);
        line.scenario.metrics.reordering = true;
        line.scenario.metrics.delay = true;
        line.flow(0, 1, constant(8_000_000, 1000), Time::ZERO, Time::MAX);
        let mut world = World::new(&line.scenario_with(3)).expect("valid");
        while !world.advance_some(world.end(), 211) {
            world.check_conservation().expect("conserved");
        }
        world.finish().expect("conserved").flows.remove(0)
    };
    let (free, ordered) = (run(true), run(false));
    let ratio = |flow: &fairspan_sim::results::FlowResult| flow.reordering.as_ref().expect("asked for").ratio;
    // Packets come 1 ms apart, half a deviation of the difference of two draws: many are overtaken.
    assert!(ratio(&free) > 0.3, "{}", ratio(&free));
    assert_eq!(ratio(&ordered), 0.0);
    assert!((free.delay.mean - 0.02008).abs() < 0.0001, "{}", free.delay.mean);
    assert!((free.delay.deviation - 0.002).abs() < 0.0001, "{}", free.delay.deviation);
    assert!(ordered.delay.mean > free.delay.mean);
}

#[test]
fn packets_are_conserved_at_any_instant_under_loss_outage_overload_and_queues() {
    for seed in 0..12 {
        let mut line = Line::new(&[(5_000_000, 3), (4_000_000, 8), (3_000_000, 1)]);
        line.scenario.links[0].profile.loss = Loss::Gilbert { p: 0.02, r: 0.2, bad: 0.8, good: 0.01 };
        let outage =
            Outage { start: Span::from_millis(100), length: Span::from_millis(30), every: Some(Span::from_millis(90)) };
        line.scenario.links[1].profile.outages = vec![outage];
        line.scenario.links[1].profile.during_outage =
            if seed % 2 == 0 { DuringOutage::Lose } else { DuringOutage::Hold };
        line.queue_bytes(9000);
        let profile = &mut line.scenario.links[2].profile;
        profile.queue = Limit::Packets(6);
        let policies = ["drop-tail", "drop-front", "longest-queue", "codel:target=1ms,interval=9ms"];
        profile.buffer = policies[seed as usize % 4].parse().expect("a policy");
        let disciplines = ["fifo", "drr", "sfq", "stochastic:buckets=3,quantum=900B", "srr"];
        profile.discipline = disciplines[seed as usize % 5].parse().expect("a discipline");
        line.scenario.nodes[1].cost =
            HostCost { receive: Span::from_micros(900), jitter: 0.5, queue: 3, ..HostCost::default() };
        for from in 0..3 {
            line.flow(from, 3, poisson(2_500_000, 700), Time::ZERO, Time::MAX);
            line.flow(from, 3, constant(1_500_000, 300), Time::ZERO, Time::from_millis(800));
        }
        let mut world = World::new(&line.scenario_with(seed)).expect("valid");
        while !world.advance_some(world.end(), 1 + seed) {
            world.check_conservation().unwrap_or_else(|error| panic!("seed {seed} at {:?}: {error}", world.now()));
        }
        let results = world.finish().expect("conserved");
        let places: Vec<(&str, &str)> =
            results.conservation.dropped.iter().map(|d| (d.place.as_str(), d.reason.as_str())).collect();
        assert!(places.contains(&("l0", "loss")) && places.contains(&("n1", "processor")), "{places:?}");
        assert!(places.iter().any(|(place, _)| *place == "l2"), "{places:?}");
        assert_eq!(seed % 2 == 0, places.contains(&("l1", "outage")), "{places:?}");
        let dropped: u64 = results.flows.iter().map(|flow| flow.dropped).sum();
        assert_eq!(dropped, results.conservation.dropped.iter().map(|d| d.packets).sum::<u64>());
    }
}

#[test]
fn first_in_first_out_with_drop_tail_is_the_same_as_arithmetic_and_as_a_list_of_packets() {
    let run = |buffer: PolicyConfig| -> Results {
        let mut line = Line::new(&[(3_000_000, 4)]);
        line.queue_bytes(20_000);
        line.scenario.links[0].profile.buffer = buffer;
        line.scenario.duration = Span::from_secs(5);
        line.flow(0, 1, poisson(2_000_000, 700), Time::ZERO, Time::MAX);
        line.flow(0, 1, poisson(1_300_000, 200), Time::ZERO, Time::MAX);
        line.run(11)
    };
    // The longest of one queue is that queue, and its newest packet the one that arrives.
    let (plain, fifo) = (run(PolicyConfig::DropTail), run(PolicyConfig::LongestQueue));
    assert_eq!(plain.flows, fifo.flows);
    let (plain, fifo) = (&plain.links[0], &fifo.links[0]);
    assert!(plain.dropped > 100 && plain.dropped == fifo.dropped, "{plain:?} {fifo:?}");
    assert_eq!((plain.packets, plain.queue_max), (fifo.packets, fifo.queue_max));
    assert!((plain.queue_mean / fifo.queue_mean - 1.0).abs() < 1e-3, "{plain:?} {fifo:?}");
    assert!((plain.load - fifo.load).abs() < 1e-3, "{plain:?} {fifo:?}");
}

#[test]
fn drr_gives_equal_shares_where_fifo_follows_the_load() {
    let mut line = Line::new(&[(10_000_000, 1)]);
    line.scenario.links[0].profile.discipline = DisciplineConfig::Drr { quantum: Bytes::new(1500) };
    line.scenario.links[0].profile.buffer = PolicyConfig::LongestQueue;
    line.scenario.duration = Span::from_secs(4);
    line.scenario.warm_up = Span::from_secs(1);
    for traffic in [poisson(20_000_000, 1500), poisson(8_000_000, 300), constant(2_000_000, 800)] {
        line.flow(0, 1, traffic, Time::ZERO, Time::MAX);
    }
    let results = line.run(1);
    // Max-min: 2 for the small one, 4 for each of the others.
    for (flow, expected) in results.flows.iter().zip([4e6, 4e6, 2e6]) {
        assert!((flow.throughput / expected - 1.0).abs() < 0.01, "{} {expected}", flow.throughput);
    }
}

#[test]
fn a_host_saturates_where_its_costs_add_up_to_all_of_its_time() {
    // 100 us a packet, 100 ns a byte of 1000, and an interrupt of 50 us for a packet that finds none of its interface
    // present: 1 / 250 us below saturation, 1 / 200 us = 5000 packets/s above, where hardly an interrupt is needed.
    let cost = HostCost {
        receive: Span::from_micros(100),
        per_byte_ps: 100_000,
        interrupt: Span::from_micros(50),
        jitter: 0.2,
        queue: 50,
        ..HostCost::default()
    };
    let run = |rate| {
        let mut line = Line::new(&[(0, 1)]);
        line.scenario.nodes[1].cost = cost.clone();
        line.scenario.duration = Span::from_secs(10);
        line.scenario.warm_up = Span::from_secs(1);
        line.flow(0, 1, constant(rate, 1000), Time::ZERO, Time::MAX);
        let results = line.run(1);
        (results.flows[0].throughput / 8000.0, results.flows[0].delay.mean)
    };
    let (rate, delay) = run(3000 * 8000);
    assert!((rate - 3000.0).abs() < 1.0, "{rate}");
    assert!((delay - 0.00125).abs() < 2e-6, "{delay}");
    let (rate, delay) = run(6000 * 8000);
    assert!((rate - 5000.0).abs() < 10.0, "{rate}");
    assert!((delay - (0.001 + 51.0 * 200e-6)).abs() < 2e-4, "{delay}");
}

#[test]
fn a_forwarding_node_pays_for_both_and_the_receiver_for_one() {
    let mut line = Line::new(&[(0, 1), (0, 1)]);
    for node in &mut line.scenario.nodes {
        node.cost = HostCost { receive: Span::from_micros(10), send: Span::from_micros(3), ..HostCost::default() };
    }
    line.flow(0, 2, constant(8_000, 1000), Time::ZERO, Time::MAX);
    let results = line.run(1);
    assert!((results.flows[0].delay.mean - 0.002_026).abs() < 1e-12, "{}", results.flows[0].delay.mean);
}

#[test]
fn a_card_costs_the_hosts_at_both_its_ends_and_a_node_without_cost_nothing() {
    let card = Card { packet: Span::from_micros(20), per_byte_ps: 100_000 };
    let run = |cards: [Card; 2], costly: &[usize]| {
        let mut line = Line::new(&[(0, 1), (0, 1)]);
        for &node in costly {
            line.scenario.nodes[node].cost = HostCost { receive: Span::from_micros(10), ..HostCost::default() };
        }
        for (link, card) in line.scenario.links.iter_mut().zip(cards) {
            link.card = card;
        }
        line.flow(0, 2, constant(8_000, 1000), Time::ZERO, Time::MAX);
        line.run(1).flows[0].delay.mean
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    let none = Card::default();
    // 10 us where a packet is received; a card's 20 us and 100 us for 1000 bytes wherever it is sent or received.
    near(run([none, none], &[0, 1, 2]), 0.002_020);
    near(run([card, none], &[0, 1, 2]), 0.002_020 + 2.0 * 120e-6);
    near(run([card, card], &[0, 1, 2]), 0.002_020 + 4.0 * 120e-6);
    near(run([card, card], &[2]), 0.002_010 + 120e-6);
    near(run([card, card], &[]), 0.002);
}

#[test]
fn scenarios_that_cannot_run_are_refused_by_name() {
    let mut line = Line::new(&[(1_000_000, 1), (1_000_000, 1)]);
    line.flow(0, 2, constant(8_000, 1000), Time::ZERO, Time::MAX);
    let refuse = |change: &dyn Fn(&mut fairspan_sim::model::Scenario)| {
        let mut scenario = line.scenario.clone();
        change(&mut scenario);
        World::new(&scenario).expect_err("must be refused")
    };
    use fairspan_sim::model::Hop;
    assert!(matches!(refuse(&|s| s.links[0].to = 7), WorldError::Unknown { kind: "node", number: 7, .. }));
    assert!(matches!(refuse(&|s| s.flows[0].path[0] = Hop::Link(9)), WorldError::Unknown { kind: "link", .. }));
    assert!(matches!(refuse(&|s| s.metrics.capture = vec![5]), WorldError::Unknown { kind: "link", number: 5, .. }));
    assert!(matches!(refuse(&|s| s.flows[0].path.clear()), WorldError::NoPath { .. }));
    assert!(matches!(refuse(&|s| s.flows[0].path.swap(0, 1)), WorldError::Path { hop: 0, .. }));
    assert!(matches!(refuse(&|s| s.flows[0].to = 1), WorldError::Path { hop: 2, .. }));
    assert!(matches!(refuse(&|s| s.duration = Span::MAX), WorldError::TooLong { .. }));
    assert!(matches!(refuse(&|s| s.links[1].profile.delay = Span::MAX), WorldError::Link { .. }));
    let message = refuse(&|s| s.flows[0].path.swap(0, 1)).to_string();
    assert_eq!(message, "flow `f0`: hop 0 starts at node `n1`, but the packet is at `n0` then");
}
