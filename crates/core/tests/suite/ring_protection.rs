//! Links and nodes fail under traffic: how long packets are lost, and what never happens.

use crate::ring_network::{Network, Source, node};
use fairspan_core::ring::Class;
use fairspan_core::ring::discovery;
use fairspan_core::ring::node::Config;
use fairspan_core::ring::protection::Protection;
use fairspan_core::units::{Rate, Span, Time};

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

/// Ten packets a millisecond from one node to another, from now on for so long.
fn probe(network: &mut Network, from: usize, to: usize, length: Span) -> usize {
    let (from, to, start) = (node(from), node(to), network.now);
    let (rate, end) = (Rate::from_mbit(8), start + length);
    network.source(Source { from, to, by: None, class: Class::C, size: 100, rate, start, end })
}

/// When the last packet was offered that got lost.
fn last_lost(network: &Network, flow: usize) -> Option<Time> {
    let (offered, copies) = (&network.offered[flow], &network.copies[flow]);
    assert!(copies.iter().all(|&copies| copies <= 1), "a packet came twice");
    offered.iter().zip(copies).rfind(|(_, copies)| **copies == 0).map(|(time, _)| *time)
}

/// Probes between nodes around a failure and across the ring, a failure, and how long after it the last packet was offered
/// that got lost.
fn outage(
    nodes: usize,
    delay: Span,
    protection: Protection,
    fail: impl Fn(&mut Network),
    pairs: &[(usize, usize)],
) -> Span {
    let mut network = Network::new(nodes, Rate::from_mbit(1000), delay, settings(protection));
    network.run(delay.times(nodes as u64) + Span::from_millis(20));
    let length = delay.times(nodes as u64) + Span::from_millis(60);
    let probes: Vec<usize> = pairs.iter().map(|&(from, to)| probe(&mut network, from, to, length)).collect();
    network.run(delay.times(nodes as u64 / 2) + Span::from_millis(5));
    let failed = network.now;
    fail(&mut network);
    network.run(length + delay.times(2 * nodes as u64));
    network.assert_conserved();
    assert_eq!(network.nodes.iter().flatten().map(|node| node.stats().expired).sum::<u64>(), 0, "no loops");
    let lost = |flow: &usize| last_lost(&network, *flow).map_or(Span::ZERO, |last| last.since(failed));
    probes.iter().map(lost).max().unwrap()
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
        println!("steer, {nodes} nodes, {:.1} ms: {:.1} ms", delay.as_secs_f64() * 1e3, lost.as_secs_f64() * 1e3);
        // The news goes to the farthest ingress, half round.
        let news = delay.times(nodes as u64 / 2);
        assert!(lost <= SILENCE + news + MS, "{nodes} nodes, {delay:?}: {lost:?}");
        assert!(lost >= SILENCE - MS.times(4), "the cut must hurt: {lost:?}");
        assert!(lost <= Span::from_millis(50) || news > Span::from_millis(30));
    }
}

#[test]
fn wrapping_ends_the_loss_when_the_silence_has_passed_however_large_the_ring() {
    for (nodes, delay) in [(4, 100), (4, 5000), (8, 1000), (16, 500), (16, 5000), (64, 100), (64, 1000), (64, 5000)] {
        let delay = Span::from_micros(delay);
        let lost = outage(nodes, delay, Protection::Wrap, |ring| ring.set_link(2, false, false), &pairs(nodes));
        println!("wrap, {nodes} nodes, {:.1} ms: {:.1} ms", delay.as_secs_f64() * 1e3, lost.as_secs_f64() * 1e3);
        assert!(lost <= SILENCE + delay + MS, "{nodes} nodes, {delay:?}: {lost:?}");
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
                "{protection:?}, {nodes} nodes, {:.1} ms: {:.1} ms",
                delay.as_secs_f64() * 1e3,
                lost.as_secs_f64() * 1e3
            );
            assert!(lost <= SILENCE + delay.times(nodes as u64 / 2) + MS && lost <= Span::from_millis(50));
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
        let pairs = (0..8).flat_map(|n| [(n + 1, (n + 2) % 8 + 1), (n + 1, (n + 4) % 8 + 1)]);
        let probes: Vec<usize> = pairs.map(|(from, to)| probe(&mut network, from, to, MS.times(250))).collect();
        network.run(MS.times(50));
        network.set_link(2, true, false);
        // Back after the wait to restore.
        network.run(MS.times(400));
        let topology = network.at(6).topology().clone();
        assert!(topology.way(node(2), fairspan_core::ring::Ringlet::Zero).up);
        for flow in probes {
            assert_eq!(last_lost(&network, flow), None, "{protection:?} {algorithm}");
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
    let stats = |network: &mut Network, n: usize| network.at(n).stats();
    assert_eq!((1..=8).map(|n| stats(&mut network, n).expired).sum::<u64>(), 0);
    assert!((1..=8).map(|n| stats(&mut network, n).unreachable).sum::<u64>() > 1000);
    network.assert_conserved();
}
