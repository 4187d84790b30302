//! Links and nodes fail under traffic: how long packets are lost, and what never happens.

mod ring_network;

use fairspan_core::ring::Class;
use fairspan_core::ring::discovery;
use fairspan_core::ring::node::Config;
use fairspan_core::ring::protection::Protection;
use fairspan_core::units::{Rate, Span, Time};
use ring_network::{Network, Source, node};

const MS: Span = Span::from_millis(1);
/// Silence until a neighbour has failed.
const SILENCE: Span = Span::from_millis(12);

fn settings(protection: Protection) -> impl Fn(&mut Config) {
    move |config| {
        config.protection = protection;
        config.algorithm = "fifo".parse().unwrap();
        config.discovery = Some(discovery::Config::new(config.node, config.nodes, config.nominal));
    }
}

/// Ten packets a millisecond from one node to another, each millisecond an account of its own.
struct Probe {
    begin: Time,
    flows: Vec<usize>,
}

impl Probe {
    fn new(network: &mut Network, from: usize, to: usize, begin: Time, length: u64) -> Probe {
        let flows = (0..length).map(|n| {
            let (start, end) = (begin + MS.times(n), begin + MS.times(n + 1));
            let (from, to) = (node(from), node(to));
            let rate = Rate::from_mbit(8);
            network.source(Source { from, to, by: None, class: Class::C, size: 100, rate, start, end })
        });
        Probe { begin, flows: flows.collect() }
    }

    /// When the first and after the last packet was offered that got lost.
    fn lost(&self, network: &Network) -> Option<(Time, Time)> {
        let is_lost = |flow: &usize| network.accounts[*flow].delivered < network.accounts[*flow].sent;
        for flow in &self.flows {
            let account = network.accounts[*flow];
            assert!(account.delivered <= account.sent, "a packet came twice");
        }
        let first = self.flows.iter().position(is_lost)? as u64;
        let last = self.flows.iter().rposition(is_lost)? as u64;
        Some((self.begin + MS.times(first), self.begin + MS.times(last + 1)))
    }
}

/// A ring at rest with probes between nodes at and around a failure, and across the ring; it fails at `begin` + 20 ms and the
/// probes go on for 80 ms: when the last lost packet was offered, after the failure.
fn outage(
    nodes: usize,
    delay: Span,
    protection: Protection,
    fail: impl Fn(&mut Network),
    pairs: &[(usize, usize)],
) -> Span {
    let mut network = Network::new(nodes, Rate::from_mbit(1000), delay, settings(protection));
    network.run(delay.times(2 * nodes as u64) + MS.times(150));
    let begin = network.now;
    let length = 100 + delay.times(nodes as u64).as_nanos() / 1_000_000;
    let probes: Vec<Probe> =
        pairs.iter().map(|&(from, to)| Probe::new(&mut network, from, to, begin, length)).collect();
    network.run(MS.times(20));
    let failed = network.now;
    fail(&mut network);
    network.run(MS.times(length) + delay.times(3 * nodes as u64));
    network.assert_conserved();
    let lost = probes.iter().map(|probe| probe.lost(&network).map_or(Span::ZERO, |(_, last)| last.since(failed)));
    assert_eq!(network.nodes.iter().flatten().map(|node| node.stats().expired).sum::<u64>(), 0, "no loops");
    lost.max().unwrap()
}

fn pairs(nodes: usize) -> Vec<(usize, usize)> {
    // Over link 2 by the shorter way, from as far as there is.
    let far = |hops: usize| (nodes + 3 - hops - 1) % nodes + 1;
    let mut pairs = vec![(2, 3), (3, 2), (far(nodes / 2), 3)];
    pairs.extend((nodes > 4).then(|| (far(nodes / 2 - 1), 4 % nodes)));
    pairs
}

#[test]
fn steering_ends_the_loss_when_the_silence_and_the_news_have_passed() {
    for (nodes, delay) in [(4, 100), (4, 5000), (8, 1000), (16, 500), (16, 5000), (64, 100), (64, 1000)] {
        let delay = Span::from_micros(delay);
        let lost = outage(nodes, delay, Protection::Steer, |ring| ring.set_link(2, false, false), &pairs(nodes));
        println!("steer, {nodes} nodes, {:.1} ms: {:.0} ms", delay.as_secs_f64() * 1e3, lost.as_secs_f64() * 1e3);
        // The news goes to the farthest ingress, half round; a keepalive may just have gone; whole milliseconds are counted.
        let news = delay.times(nodes as u64 / 2);
        assert!(lost <= SILENCE + news + MS.times(2), "{nodes} nodes, {delay:?}: {lost:?}");
        assert!(lost >= SILENCE - MS.times(4), "the cut must hurt: {lost:?}");
        assert!(lost <= Span::from_millis(50) || news > Span::from_millis(30));
    }
}

#[test]
fn wrapping_ends_the_loss_when_the_silence_has_passed_however_large_the_ring() {
    for (nodes, delay) in [(4, 100), (4, 5000), (8, 1000), (16, 500), (16, 5000), (64, 100), (64, 1000), (64, 5000)] {
        let delay = Span::from_micros(delay);
        let lost = outage(nodes, delay, Protection::Wrap, |ring| ring.set_link(2, false, false), &pairs(nodes));
        println!("wrap, {nodes} nodes, {:.1} ms: {:.0} ms", delay.as_secs_f64() * 1e3, lost.as_secs_f64() * 1e3);
        assert!(lost <= SILENCE + delay + MS.times(2), "{nodes} nodes, {delay:?}: {lost:?}");
        assert!(lost <= Span::from_millis(50));
    }
}

#[test]
fn a_node_that_dies_costs_others_no_more_than_a_link() {
    for protection in [Protection::Steer, Protection::Wrap] {
        for (nodes, delay) in [(4, 100), (8, 1000), (16, 500), (64, 100)] {
            let delay = Span::from_micros(delay);
            // Through node 3.
            let far = |hops: usize| (nodes + 4 - hops - 1) % nodes + 1;
            let pairs = [(2, 4), (4, 2), (far(nodes / 2), 4)];
            let lost = outage(nodes, delay, protection, |ring| ring.kill(3), &pairs);
            println!(
                "{protection:?}, {nodes} nodes, {:.1} ms: {:.0} ms",
                delay.as_secs_f64() * 1e3,
                lost.as_secs_f64() * 1e3
            );
            assert!(lost <= SILENCE + delay.times(nodes as u64 / 2) + MS.times(2) && lost <= Span::from_millis(50));
            assert!(lost >= SILENCE - MS.times(4), "{lost:?}");
        }
    }
}

#[test]
fn a_link_that_comes_back_costs_no_packet_and_none_comes_twice() {
    for (protection, algorithm) in [(Protection::Steer, "dvsr"), (Protection::Wrap, "dvsr"), (Protection::Wrap, "fifo")]
    {
        let mut network = Network::new(8, Rate::from_mbit(100), MS, |config| {
            settings(protection)(config);
            config.algorithm = algorithm.parse().unwrap();
        });
        network.run(MS.times(300));
        network.set_link(2, false, false);
        network.run(MS.times(200));
        let begin = network.now;
        let probes: Vec<Probe> = (0..8)
            .flat_map(|n| [(n + 1, (n + 2) % 8 + 1), (n + 1, (n + 4) % 8 + 1)])
            .map(|(from, to)| Probe::new(&mut network, from, to, begin, 300))
            .collect();
        network.run(MS.times(50));
        network.set_link(2, true, false);
        // Back after the wait to restore.
        network.run(MS.times(400));
        let topology = network.at(6).topology().clone();
        assert!(topology.way(node(2), fairspan_core::ring::Ringlet::Zero).up);
        for probe in &probes {
            assert_eq!(probe.lost(&network), None, "{protection:?} {algorithm}");
        }
        network.assert_conserved();
    }
}

#[test]
fn a_ring_cut_twice_serves_both_parts_and_wraps_nothing_for_ever() {
    let mut network = Network::new(8, Rate::from_mbit(100), MS, settings(Protection::Wrap));
    network.run(MS.times(200));
    network.set_link(2, false, false);
    network.set_link(6, false, false);
    network.run(MS.times(50));
    let within = [network.flow(3, 6, Rate::from_mbit(5)), network.flow(1, 7, Rate::from_mbit(5))];
    let across = [network.flow(1, 4, Rate::from_mbit(5)), network.flow(6, 7, Rate::from_mbit(5))];
    network.run(Span::from_secs(1));
    for flow in within {
        let account = network.accounts[flow];
        assert!(account.sent - account.delivered < 10 && account.disordered == 0, "{account:?}");
    }
    assert!(across.iter().all(|&flow| network.accounts[flow].delivered == 0 && network.accounts[flow].sent > 500));
    let stats = |network: &mut Network, n: usize| *network.at(n).stats();
    assert_eq!((1..=8).map(|n| stats(&mut network, n).expired).sum::<u64>(), 0);
    assert!((1..=8).map(|n| stats(&mut network, n).unreachable).sum::<u64>() > 1000);
    network.assert_conserved();
}
