//! Packets on lines of links: arrivals computed by hand, shares of overloaded links, the same run twice.

use crate::common::{Line, constant};
use fairspan_core::units::{Rate, Span, Time};
use fairspan_sim::world::World;

#[test]
fn packets_over_two_links_arrive_when_arithmetic_says() {
    // 1000 bytes take 8 ms at 1 Mbit/s and 4 ms at 2 Mbit/s; 10 ms and 20 ms of delay. Two packets, sent at 0 and 5 ms:
    // the second waits until 8 ms, leaves the first link at 16 + 10, the second at 26 + 4 + 20.
    let mut line = Line::new(&[(1_000_000, 10), (2_000_000, 20)]);
    line.flow(0, 2, constant(1_600_000, 1000), Time::ZERO, Time::from_millis(7));
    let results = line.run(1);
    let flow = &results.flows[0];
    assert_eq!((flow.sent, flow.received), (2, 2));
    assert!((flow.delay.min - 0.042).abs() < 1e-12, "{}", flow.delay.min);
    assert!((flow.delay.max - 0.045).abs() < 1e-12, "{}", flow.delay.max);
    // The second packet waits 3 ms of the second that is measured.
    assert!((results.links[0].queue_mean - 3.0).abs() < 1e-9, "{}", results.links[0].queue_mean);
    assert_eq!(results.links[0].queue_max, 1000);
    assert!((results.links[0].load - 0.016).abs() < 1e-9);
    assert!((results.links[1].load - 0.008).abs() < 1e-9);
}

/// Four equal sources that each saturate a line of four links, entering one link after the other.
fn parking_lot(drift_ppm: u32, seed: u64) -> Vec<f64> {
    let mut line = Line::new(&[(622_000_000, 0); 4]);
    line.queue_bytes(200_000);
    line.delay(Span::from_micros(100));
    line.scenario.drift_ppm = drift_ppm;
    line.scenario.duration = Span::from_secs(4);
    line.scenario.warm_up = Span::from_millis(500);
    for first in 0..4 {
        line.flow(first, 4, constant(622_000_000, 1000), Time::ZERO, Time::MAX);
    }
    let results = line.run(seed);
    let total: f64 = results.flows.iter().map(|flow| flow.throughput).sum();
    assert!((total / 622e6 - 1.0).abs() < 1e-3, "the last link is full: {total}");
    results.flows.iter().map(|flow| flow.throughput / total).collect()
}

#[test]
fn drifting_sources_on_a_line_of_fifo_links_get_an_eighth_an_eighth_a_quarter_and_half() {
    let mut mean = [0.0; 4];
    for seed in 1..=5 {
        for (sum, share) in mean.iter_mut().zip(parking_lot(1000, seed)) {
            *sum += share / 5.0;
        }
    }
    for (share, expected) in mean.iter().zip([0.125, 0.125, 0.25, 0.5]) {
        assert!((share - expected).abs() < 0.01, "{mean:?}");
    }
}

#[test]
fn sources_of_one_clock_lock_each_other_out() {
    let shares = parking_lot(0, 1);
    assert!(shares.iter().any(|&share| share > 0.9), "{shares:?}");
}

#[test]
fn the_same_scenario_gives_the_same_results_and_another_seed_gives_others() {
    let run = |seed| {
        let mut line = Line::new(&[(622_000_000, 1); 4]);
        line.queue_bytes(20_000);
        line.scenario.duration = Span::from_millis(50);
        line.scenario.drift_ppm = 1000;
        for first in 0..4 {
            line.flow(first, 4, constant(622_000_000, 1000), Time::ZERO, Time::MAX);
        }
        line.run(seed)
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first.log_hash, run(2).log_hash);
}

#[test]
fn slices_of_any_length_give_the_same_run() {
    let mut line = Line::new(&[(10_000_000, 1), (10_000_000, 3)]);
    line.flow(0, 2, constant(12_000_000, 700), Time::ZERO, Time::MAX);
    line.flow(1, 2, constant(3_000_000, 300), Time::ZERO, Time::MAX);
    let whole = line.run(3);
    let mut world = World::new(&line.scenario_with(3)).expect("valid");
    let mut slice = 1;
    while !world.advance_some(world.end(), slice) {
        slice = slice % 97 + 1;
        world.check_conservation().expect("conserved");
    }
    assert_eq!(world.finish().expect("conserved"), whole);
    let mut world = World::new(&line.scenario_with(3)).expect("valid");
    for ms in (0..1000).step_by(7) {
        world.advance(Time::from_millis(ms));
        assert_eq!(world.now(), Time::from_millis(ms));
    }
    assert_eq!(world.finish().expect("conserved"), whole);
}

#[test]
fn a_flow_more_changes_nothing_for_flows_that_do_not_meet_it() {
    let mut line = Line::new(&[(10_000_000, 1), (10_000_000, 3)]);
    line.flow(0, 1, crate::common::poisson(8_000_000, 700), Time::ZERO, Time::MAX);
    let alone = line.run(3);
    line.flow(1, 2, crate::common::poisson(8_000_000, 700), Time::ZERO, Time::MAX);
    let both = line.run(3);
    assert_eq!(alone.flows[0], both.flows[0]);
    assert_eq!(both.flows.len(), 2);
}

#[test]
fn a_rate_in_bits_is_met_to_the_bit_on_a_long_run() {
    // 1000 bytes at 700 Mbit/s take 11,428.57 ns: a link that rounded each to 11,429 would fall behind.
    let mut line = Line::new(&[(700_000_000, 0)]);
    line.scenario.duration = Span::from_secs(2);
    line.flow(0, 1, constant(Rate::from_mbit(900).as_bits_per_sec(), 1000), Time::ZERO, Time::MAX);
    let results = line.run(1);
    assert_eq!(results.links[0].packets, 2 * 700_000_000 / 8000);
}
