//! DVSR's agent alone, told of arrivals packet by packet: what its fair rate makes of a queue and of too much load.

use fairspan_core::ring::dvsr::{Config, Dvsr};
use fairspan_core::ring::fairness::{Fairness, Station, View};
use fairspan_core::ring::topology::Topology;
use fairspan_core::ring::{NodeId, Ringlet};
use fairspan_core::units::{Rate, Span, Time};

const LINK: u64 = 1_000_000_000;
const INTERVAL: Span = Span::from_micros(500);
/// What the link carries in an interval, in bytes.
const WHOLE: f64 = LINK as f64 / 8.0 * 0.5e-3;
/// Of a packet, in bytes: 625 of them make an interval.
const PACKET: u64 = 100;

/// A node that sends nothing itself, with so many upstream of it.
#[derive(Clone)]
struct Agent {
    dvsr: Dvsr,
    nodes: usize,
    now: Time,
}

impl Agent {
    fn new(ingresses: usize) -> Agent {
        Agent::of(ingresses, &Config::default())
    }

    fn of(ingresses: usize, config: &Config) -> Agent {
        let nodes = ingresses + 1;
        let dvsr = Dvsr::new(config, NodeId::at(0), Ringlet::Zero, nodes, INTERVAL, Time::ZERO);
        Agent { dvsr, nodes, now: Time::ZERO }
    }

    /// An interval in which each ingress sends this share of the link, evenly, and after which so many bytes wait in transit: the fair
    /// rate as a share of the link.
    fn interval(&mut self, shares: &[f64], transit: u64) -> f64 {
        let mut packets = Vec::new();
        for (n, share) in shares.iter().enumerate() {
            let count = (share * WHOLE / PACKET as f64).round() as u64;
            packets.extend((1..=count).map(|packet| (packet * INTERVAL.as_nanos() / count, n)));
        }
        packets.sort_unstable();
        for (after, n) in packets {
            self.dvsr.on_arrival(self.now + Span::from_nanos(after), NodeId::at(n + 1), PACKET as u32);
        }
        self.now += INTERVAL;
        let (topology, station) =
            (Topology::ring(self.nodes, Rate::from_bits_per_sec(LINK)), vec![Station::default(); self.nodes]);
        let view = View {
            topology: &topology,
            node: NodeId::at(0),
            ringlet: Ringlet::Zero,
            capacity: Rate::from_bits_per_sec(LINK),
            nominal: Rate::from_bits_per_sec(LINK),
            transit,
            transit_limit: 1 << 30,
            station: &station,
        };
        self.dvsr.handle_change(self.now, &view);
        self.dvsr.fair(NodeId::at(0)).expect("a node of the ring")
    }
}

#[test]
fn a_short_queue_drains_in_ten_intervals_and_a_long_one_by_three_thousandths_of_the_link() {
    // Four that always have something to send, held at the fair rate.
    let mut agent = Agent::new(4);
    let mut limit = 0.25_f64;
    for _ in 0..60 {
        limit = agent.interval(&[limit; 4], 0).min(1.0);
    }
    let fair = |agent: &Agent, transit: u64| agent.clone().interval(&[limit; 4], transit);
    // A packet of each of the four is always there, and four of each are not yet a queue.
    assert_eq!(fair(&agent, 16 * PACKET), fair(&agent, 0));
    assert!(fair(&agent, 16 * PACKET + 1) < fair(&agent, 0));
    // Once there was one, more than two of each are.
    agent.interval(&[limit; 4], 16 * PACKET + 1);
    let beyond = |transit: u64| (transit - 4 * PACKET) as f64 / WHOLE;
    let least = 8 * PACKET + 1;
    let held_back = |transit: u64| beyond(least) / 10.0 + 4.0 * (fair(&agent, least) - fair(&agent, transit));
    // Rates in messages are in steps of a 65,535th, and four are added up.
    let step = 4.0 * 2.0 / 65_535.0;
    for (transit, share) in
        [(1601, beyond(1601) / 10.0), (2200, beyond(2200) / 10.0), (2400, 0.003), (1_000_000, 0.003)]
    {
        let found = held_back(transit);
        assert!((found - share).abs() <= step, "{transit} bytes: {found:.5}, {share:.5} expected");
    }
}

#[test]
fn what_a_source_sends_when_it_begins_counts_until_the_link_has_a_tenth_too_much_to_carry() {
    let fair = |second: f64| {
        let mut agent = Agent::new(2);
        for _ in 0..60 {
            agent.interval(&[0.9, 0.0], 0);
        }
        agent.interval(&[0.9, second], 0)
    };
    // 1.09 and 1.11 times the link. What the second sends is what it wants, and the first may have the rest; or nobody knows what it
    // wants, and it may have half.
    let (inside, outside) = (fair(0.19), fair(0.21));
    assert!((inside - 0.81).abs() < 0.01, "{inside}");
    assert!((outside - 0.5).abs() < 0.01, "{outside}");
}

#[test]
fn a_link_that_comes_up_gives_each_node_its_least_part_for_as_many_intervals_as_are_set() {
    let mut config = Config::default();
    config.start = 3;
    let mut agent = Agent::of(4, &config);
    // Two of five nodes send; what they and the link's own node do not use is nobody's yet.
    let found: Vec<f64> = (0..6).map(|_| agent.interval(&[0.2, 0.2, 0.0, 0.0], 0)).collect();
    let (least, half) = (1.0 / 5.0, 1.0 / 2.0);
    for (n, fair) in found.iter().enumerate() {
        let expected = if n < 3 { least } else { half };
        assert!((fair - expected).abs() < 0.002, "interval {n}: {found:?}");
    }
}

#[test]
fn who_is_shut_out_while_transit_waits_is_counted_until_it_has_drained() {
    const QUEUE: u64 = 1_000_000;
    let mut config = Config::default();
    config.start = 3;
    let mut agent = Agent::of(4, &config);
    for _ in 0..60 {
        agent.interval(&[0.25; 4], 0);
    }
    agent.interval(&[0.25; 4], QUEUE);
    for _ in 0..10 {
        // The third and fourth send no packet any more, and the others take their parts.
        let fair = agent.interval(&[0.5, 0.5, 0.0, 0.0], QUEUE);
        assert!((fair - 0.25).abs() < 0.002, "{fair}");
    }
    // Nothing waits: they have stopped.
    let fair = [(); 3].map(|()| agent.interval(&[0.5, 0.5, 0.0, 0.0], 0));
    assert!((fair[2] - 0.5).abs() < 0.002, "{fair:?}");
    // And who never sent is not waited for, though a queue stands.
    let mut agent = Agent::of(4, &config);
    let fair = [(); 60].map(|()| agent.interval(&[0.5, 0.5, 0.0, 0.0], QUEUE));
    assert!((fair[59] - 0.5).abs() < 0.002, "{fair:?}");
}
