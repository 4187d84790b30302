//! What the world hands to the meters: warm-up, series, captures.

use crate::common::{Line, constant};
use fairspan_core::units::{Span, Time};
use fairspan_sim::wire;
use fairspan_sim::world::World;

#[test]
fn the_warm_up_counts_in_no_metric_and_in_all_conservation() {
    let mut line = Line::new(&[(1_000_000, 1)]);
    line.queue_bytes(10_000);
    line.scenario.warm_up = Span::from_millis(600);
    // Overload until 0.5 s, then nothing.
    line.flow(0, 1, constant(2_000_000, 1000), Time::ZERO, Time::from_millis(500));
    let results = line.run(1);
    let (flow, link) = (&results.flows[0], &results.links[0]);
    assert_eq!((flow.sent, flow.received, flow.dropped), (0, 0, 0));
    assert_eq!((link.packets, link.dropped, link.queue_max), (0, 0, 0));
    assert!(results.conservation.sent == 126 && results.conservation.dropped[0].packets > 50);
    assert!((results.measured_s - 0.4).abs() < 1e-12);
}

#[test]
fn a_queue_across_the_end_of_the_warm_up_counts_from_there() {
    // 100 packets of 8 ms each come in the first 100 ms; the queue is drained at 800 ms.
    let mut line = Line::new(&[(1_000_000, 0)]);
    line.flow(0, 1, constant(8_000_000, 1000), Time::ZERO, Time::from_millis(99));
    line.scenario.warm_up = Span::from_millis(400);
    let results = line.run(1);
    // At 400 ms packet 50 begins: 49 wait, then 48 ... over 400 ms of the 600 measured.
    let waiting: f64 = (0..50).map(f64::from).sum::<f64>() * 1000.0 * 8.0 / 600.0;
    assert!((results.links[0].queue_mean - waiting).abs() < 1e-6, "{} {waiting}", results.links[0].queue_mean);
    assert!((results.links[0].load - 400.0 / 600.0).abs() < 1e-9);
    // The one that arrives at 400 ms arrives in the measured time.
    assert_eq!(results.flows[0].received, 51);
}

#[test]
fn series_show_rates_and_queues_at_their_points() {
    let mut line = Line::new(&[(1_000_000, 0)]);
    line.flow(0, 1, constant(2_000_000, 1000), Time::ZERO, Time::from_millis(398));
    line.scenario.metrics.series = Span::from_millis(100);
    let results = line.run(1);
    assert_eq!(results.series_interval_s, 0.1);
    let series = |name: &str| {
        let found = results.series.iter().find(|series| series.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).values.clone()
    };
    let rate = series("flow f0 throughput");
    assert_eq!(rate.len(), 10);
    // 12.5 packets of 8000 bits in each 100 ms, then nothing after 800 ms.
    assert!(rate[..8].iter().all(|&rate| (rate - 1e6).abs() < 5e4), "{rate:?}");
    assert_eq!(rate[9], 0.0);
    let queue = series("link l0 queue");
    // 25 packets in, 12 out and one in service at 100 ms.
    assert!((queue[0] - 13_000.0).abs() <= 1000.0 && (queue[3] - 50_000.0).abs() <= 1000.0, "{queue:?}");
    assert_eq!(queue[9], 0.0);
}

#[test]
fn a_recorded_link_gives_its_packets_with_headers_in_order() {
    let mut line = Line::new(&[(1_000_000, 5), (1_000_000, 5)]);
    line.flow(0, 2, constant(800_000, 1000), Time::ZERO, Time::MAX);
    line.flow(0, 1, constant(100_000, 500), Time::ZERO, Time::MAX);
    line.scenario.metrics.capture = vec![1];
    let mut world = World::new(&line.scenario).expect("valid");
    let mut captured = Vec::new();
    while !world.advance_some(world.end(), 50) {
        captured.extend(world.take_captured());
    }
    captured.extend(world.take_captured());
    let results = world.finish().expect("conserved");
    assert_eq!(captured.len() as u64, results.links[1].packets);
    assert!(captured.is_sorted_by_key(|packet| packet.at));
    for packet in &captured {
        assert_eq!((packet.link, packet.length, packet.bytes.len()), (1, 1000, 28));
        wire::decode(&packet.bytes).expect("headers of a packet");
    }
}
