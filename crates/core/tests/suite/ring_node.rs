//! Nodes of a ring as a whole: no packet is lost without a name, transit loses nothing, flows keep their order, classes get
//! what they reserved, and a cut link costs no more than what was under way.

use crate::ring_network::{Network, Source, node};
use fairspan_core::ring::control::Reservation;
use fairspan_core::ring::discovery;
use fairspan_core::ring::node::{Config, Event};
use fairspan_core::ring::protection::Protection;
use fairspan_core::ring::{Class, Ringlet, Side};
use fairspan_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

const MBIT: fn(u64) -> Rate = Rate::from_mbit;
/// Algorithms under which transit must be lossless.
const LOSSLESS: [&str; 7] =
    ["dvsr", "dvsr:bits=8,suballocation=equal", "dba", "explicit", "rpr-am", "rpr-am:queue=single", "rpr-cm"];

fn with(algorithm: &str) -> impl Fn(&mut Config) {
    move |config| config.algorithm = algorithm.parse().unwrap()
}

#[test]
fn a_packet_crosses_the_ring_in_its_transmissions_and_delays() {
    let mut ring = Network::new(8, MBIT(80), Span::from_micros(100), with("fifo"));
    // 1000 bytes take 100 us at 80 Mbit/s; three links.
    let flow = ring.flow(1, 4, MBIT(1));
    ring.run(Span::from_micros(599));
    assert_eq!(ring.accounts[flow].delivered, 0);
    ring.run(Span::from_micros(1));
    assert_eq!(ring.accounts[flow].delivered, 1);
    assert_eq!(ring.accounts[flow].latest, Span::from_micros(600));
    let back = ring.flow(1, 7, MBIT(1));
    ring.run(Span::from_millis(7));
    assert_eq!(ring.accounts[back].latest, Span::from_micros(400), "the shorter way: 1, 8, 7");
    assert_eq!(ring.at(8).stats().sent, 1);
    ring.assert_conserved();
}

#[test]
fn a_flow_may_name_its_ringlet_while_that_way_is_whole() {
    let mut ring = Network::new(4, MBIT(80), Span::from_micros(100), with("fifo"));
    let (class, size, rate) = (Class::C, 1000, MBIT(1));
    let flow = ring.source(Source {
        from: node(1),
        to: node(2),
        by: Some(Ringlet::One),
        class,
        size,
        rate,
        start: Time::ZERO,
        end: Time::MAX,
    });
    ring.run(Span::from_millis(1));
    assert_eq!(ring.accounts[flow].latest, Span::from_micros(600), "by 4 and 3");
    ring.set_link(4, false, true);
    ring.run(Span::from_millis(10));
    assert_eq!(ring.accounts[flow].latest, Span::from_micros(200));
    ring.assert_conserved();
}

#[test]
fn a_parking_lot_is_fair_with_dvsr_and_unfair_without_control() {
    for (algorithm, fair) in [("dvsr", true), ("fifo", false)] {
        let mut ring = Network::new(10, MBIT(100), Span::from_micros(100), with(algorithm));
        for n in 1..=4 {
            ring.flow(n, 5, MBIT(99) /* less than the link, so that sources have no phase */);
        }
        ring.run(Span::from_millis(200));
        let rates = ring.received(Span::from_secs(1));
        assert!((rates.iter().sum::<f64>() - 100.0).abs() < 1.0, "{algorithm}: {rates:?}");
        assert_eq!(rates.iter().all(|rate| (rate - 25.0).abs() < 0.5), fair, "{algorithm}: {rates:?}");
        assert_eq!(ring.transit_drops() == 0, fair, "{algorithm} drops in transit, or does not");
        ring.assert_conserved();
    }
}

#[test]
fn a_station_behind_transit_that_fills_its_link_gets_its_share() {
    let mut ring = Network::new(10, MBIT(100), Span::from_micros(100), |_| {});
    let first = ring.flow(1, 5, MBIT(150));
    ring.run(Span::from_millis(50));
    assert!(ring.received(Span::from_millis(100))[first] > 99.0);
    let late = ring.flow(4, 5, MBIT(150));
    ring.run(Span::from_millis(50));
    let rates = ring.received(Span::from_millis(500));
    assert!((rates[first] - 50.0).abs() < 1.0 && (rates[late] - 50.0).abs() < 1.0, "{rates:?}");
    assert_eq!(ring.transit_drops(), 0);
}

#[test]
fn a_station_that_keeps_few_packets_waiting_gets_its_share_too() {
    for (algorithm, window) in [("dvsr", 4), ("dvsr", 20), ("rpr-am", 10)] {
        let mut ring = Network::new(10, MBIT(100), Span::from_micros(100), with(algorithm));
        let first = ring.flow(1, 5, MBIT(150));
        ring.run(Span::from_millis(100));
        let (from, to, by, class, size, rate) = (node(4), node(5), None, Class::C, 1000, MBIT(1));
        // Not by the clock: whenever one has left.
        let late = ring.source(Source { from, to, by, class, size, rate, start: Time::MAX, end: Time::MAX });
        let keep = |ring: &mut Network, ms: u64| {
            let before = [first, late].map(|flow| ring.accounts[flow].bytes);
            for _ in 0..ms * 20 {
                for _ in ring.at(4).backlog(Ringlet::Zero, to).as_u64() / 1000..window {
                    ring.offer(late);
                }
                ring.run(Span::from_micros(50));
            }
            [(first, before[0]), (late, before[1])]
                .map(|(flow, before)| (ring.accounts[flow].bytes - before) as f64 * 8.0 / (ms as f64 * 1000.0))
        };
        keep(&mut ring, 200);
        let rates = keep(&mut ring, 300);
        assert!(rates.iter().all(|rate| (rate - 50.0).abs() < 1.5), "{algorithm}, {window} packets: {rates:?}");
        ring.assert_conserved();
    }
}

#[test]
fn a_link_that_gets_slower_is_followed_and_one_that_is_blocked_is_waited_for() {
    let mut ring = Network::new(6, MBIT(100), Span::from_micros(100), |_| {});
    let flows = [ring.flow(1, 3, MBIT(80)), ring.flow(2, 3, MBIT(80))];
    ring.run(Span::from_millis(100));
    ring.with(2, |node, now| node.set_capacity(now, Side::East, MBIT(30)));
    ring.run(Span::from_millis(200));
    let rates = ring.received(Span::from_millis(500));
    assert!(flows.iter().all(|&flow| (rates[flow] - 15.0).abs() < 0.6), "{rates:?}");
    ring.with(2, |node, now| node.set_blocked(now, Side::East, true));
    ring.run(Span::from_millis(1));
    assert_eq!(ring.received(Span::from_millis(50)), [0.0, 0.0]);
    ring.with(2, |node, now| node.set_blocked(now, Side::East, false));
    ring.run(Span::from_millis(100));
    let rates = ring.received(Span::from_millis(500));
    assert!(flows.iter().all(|&flow| (rates[flow] - 15.0).abs() < 0.6), "{rates:?}");
    ring.assert_conserved();
}

#[test]
fn class_a_keeps_its_rate_and_delay_and_class_b_its_rate_while_others_take_the_rest() {
    let reserve = |to: usize, class, rate| Reservation { to: Some(node(to)), class, rate: MBIT(rate) };
    let mut ring = Network::new(8, MBIT(100), Span::from_micros(100), |config| {
        config.discovery = Some(discovery::Config::still(config.node, 8, config.nominal));
        if config.node == node(1) {
            config.reservations = vec![reserve(5, Class::A, 20), reserve(5, Class::B, 30)];
        }
    });
    ring.run(Span::from_millis(10));
    let source = |ring: &mut Network, from, class, rate, start| {
        let (from, to, by, size, end) = (node(from), node(5), None, 1000, Time::MAX);
        ring.source(Source { from, to, by, class, size, rate: MBIT(rate), start, end })
    };
    let a = source(&mut ring, 1, Class::A, 20, Time::from_millis(10));
    let c = [2, 3, 4].map(|from| source(&mut ring, from, Class::C, 90, Time::from_millis(10)));
    ring.run(Span::from_millis(200));
    let before = ring.received(Span::from_millis(500));
    assert!((before[a] - 20.0).abs() < 0.1, "{before:?}");
    for flow in c {
        assert!((before[flow] - 80.0 / 3.0).abs() < 0.6, "the 30 Mbit/s of class B are reclaimed: {before:?}");
    }
    // Four transmissions and delays, and at each node one packet under way at most, besides control frames.
    assert!(ring.accounts[a].longest <= Span::from_micros(4 * 280), "{:?}", ring.accounts[a].longest);

    let b = source(&mut ring, 1, Class::B, 60, Time::from_millis(710));
    ring.run(Span::from_millis(200));
    let after = ring.received(Span::from_millis(500));
    assert!((after[a] - 20.0).abs() < 0.1, "{after:?}");
    // 50 Mbit/s are left to share: four nodes want some.
    assert!((after[b] - 42.5).abs() < 1.5, "its 30, and a fourth of what is shared: {after:?}");
    for flow in c {
        assert!((after[flow] - 12.5).abs() < 1.0, "{after:?}");
    }
    assert!(ring.accounts[a].longest <= Span::from_micros(4 * 280), "{:?}", ring.accounts[a].longest);
    assert_eq!(ring.transit_drops(), 0);
    assert!(ring.accounts.iter().all(|account| account.disordered == 0));
    ring.assert_conserved();
}

#[test]
fn class_a_beyond_its_rate_is_held_and_dropped_at_the_ingress() {
    let mut ring = Network::new(4, MBIT(100), Span::from_micros(100), |config| {
        config.reservations = vec![Reservation { to: None, class: Class::A, rate: MBIT(10) }];
        config.station_limit = Bytes::new(10_000);
    });
    let (from, to, by, class, start, end) = (node(1), node(2), None, Class::A, Time::ZERO, Time::MAX);
    ring.source(Source { from, to, by, class, size: 1000, rate: MBIT(20), start, end });
    ring.run(Span::from_millis(100));
    assert!((ring.received(Span::from_secs(1))[0] - 10.0).abs() < 0.1);
    let full = ring.at(1).stats().station_full;
    assert!(full.abs_diff(ring.accounts[0].sent / 2) < 20, "{full} of {}", ring.accounts[0].sent);
    ring.assert_conserved();
}

#[test]
fn what_a_blocked_link_makes_wait_is_bounded_and_a_link_reserved_in_full_still_carries_control() {
    let mut ring = Network::new(4, MBIT(100), Span::from_micros(100), |config| {
        config.reservations = match config.node.number() {
            1 => [Class::A, Class::B].map(|class| Reservation { to: Some(node(2)), class, rate: MBIT(50) }).to_vec(),
            _ => vec![Reservation { to: None, class: Class::A, rate: MBIT(100) }],
        };
        config.station_limit = Bytes::new(20_000);
    });
    for class in [Class::A, Class::B, Class::C] {
        let (from, to, by, size, rate) = (node(1), node(2), None, 1000, MBIT(70));
        ring.source(Source { from, to, by, class, size, rate, start: Time::ZERO, end: Time::MAX });
    }
    ring.run(Span::from_millis(100));
    ring.with(1, |node, now| node.set_blocked(now, Side::East, true));
    ring.run(Span::from_millis(500));
    // Three queues of 20 packets, and 64 in the transit queue.
    assert!((60..=124).contains(&ring.at(1).held()), "{}", ring.at(1).held());
    assert_eq!(ring.received(Span::from_millis(10)), [0.0; 3]);
    ring.with(1, |node, now| node.set_blocked(now, Side::East, false));
    ring.run(Span::from_millis(100));
    let rates = ring.received(Span::from_millis(500));
    assert!((rates[0] - 50.0).abs() < 0.2 && rates[1] > 40.0 && rates[2] < 10.0, "{rates:?}");
    assert_eq!(ring.transit_drops(), 0);
    ring.assert_conserved();
}

#[test]
fn links_that_fail_unseen_are_found_and_packets_go_round_the_other_way() {
    for protection in [Protection::Steer, Protection::Wrap] {
        let mut ring = Network::new(8, MBIT(100), Span::from_micros(100), |config| {
            config.discovery = Some(discovery::Config::new(config.node, 8, config.nominal));
            config.protection = protection;
        });
        ring.run(Span::from_millis(300));
        let flows = [ring.flow(1, 4, MBIT(20)), ring.flow(6, 3, MBIT(20))];
        ring.run(Span::from_millis(200));
        assert_eq!(ring.lost, 0);
        let delivered = |ring: &Network| flows.map(|flow| ring.accounts[flow].delivered);
        ring.set_link(2, false, false);
        ring.run(Span::from_millis(50));
        let before = delivered(&ring);
        ring.run(Span::from_millis(200));
        // 2.5 packets a millisecond, all of which arrive.
        for (now, before) in delivered(&ring).into_iter().zip(before) {
            assert!((now - before).abs_diff(500) < 5, "{protection:?}: {}", now - before);
        }
        let news = ring.events.iter().filter(|(.., event)| matches!(event, Event::Link { up: false, .. })).count();
        assert_eq!(news, 2, "both ends tell");
        ring.set_link(2, true, false);
        ring.kill(5);
        ring.run(Span::from_millis(500));
        let before = delivered(&ring);
        ring.run(Span::from_millis(200));
        for (now, before) in delivered(&ring).into_iter().zip(before) {
            assert!((now - before).abs_diff(500) < 5, "{protection:?}: {}", now - before);
        }
        ring.start(5);
        ring.run(Span::from_millis(500));
        let known = ring.at(1).topology().clone();
        assert!((2..=8).all(|n| *ring.at(n).topology() == known));
        assert!(ring.at(5).topology().route(node(1), node(5)).is_some());
        ring.assert_conserved();
    }
}

#[test]
fn a_ring_that_wraps_turns_packets_round_at_the_gap_until_their_ingress_knows() {
    for (protection, wraps) in [(Protection::Wrap, true), (Protection::Steer, false)] {
        let mut ring = Network::new(8, MBIT(100), Span::from_micros(100), |config| config.protection = protection);
        let flow = ring.flow(1, 4, MBIT(20));
        ring.run(Span::from_millis(100));
        let account = ring.accounts[flow];
        assert_eq!(account.delivered, account.sent - 2, "two are under way");
        // Nodes 2 and 3 see it, node 1 is not told.
        ring.set_link(2, false, true);
        ring.run(Span::from_millis(100));
        let (wrapped, cut) = (ring.at(2).stats().wrapped, ring.at(2).stats().cut);
        if wraps {
            assert!(wrapped >= 248 && cut == 0, "{wrapped} turned, {cut} cut");
            // To node 2, and back by 1, 8, 7, 6 and 5 to 4.
            assert_eq!(ring.accounts[flow].latest, Span::from_micros(7 * 180));
            assert!(ring.accounts[flow].delivered + 10 >= ring.accounts[flow].sent);
        } else {
            assert!(wrapped == 0 && cut >= 248, "{wrapped} turned, {cut} cut");
        }
        assert_eq!(ring.accounts[flow].disordered, 0);
        ring.assert_conserved();
        let topology = ring.at(2).topology().clone();
        ring.with(1, |node, now| node.set_topology(now, &topology));
        ring.run(Span::from_millis(100));
        assert_eq!(ring.accounts[flow].latest, Span::from_micros(5 * 180), "steered: 1, 8, 7, 6, 5, 4");
        ring.assert_conserved();
    }
}

#[test]
fn packets_that_wait_for_a_lost_way_take_the_other_one() {
    let mut ring = Network::new(8, MBIT(100), Span::from_micros(100), |_| {});
    let flow = ring.flow(1, 4, MBIT(200));
    ring.run(Span::from_millis(20));
    let waiting = ring.at(1).backlog(Ringlet::Zero, node(4));
    assert!(waiting >= Bytes::new(100_000), "{waiting:?}");
    let before = ring.accounts[flow];
    ring.set_link(1, false, true);
    assert_eq!(ring.at(1).backlog(Ringlet::Zero, node(4)), Bytes::ZERO);
    ring.run(Span::from_millis(50));
    let (stats, lost) = (ring.at(1).stats(), ring.lost);
    assert!(stats.steered > 250 && stats.unreachable == 0, "{stats:?}");
    assert!(lost <= 3, "{lost} were on the link");
    assert!(ring.accounts[flow].delivered > before.delivered + 500);
    // Both links gone: nothing can be sent, and nothing stays.
    ring.set_link(8, false, true);
    ring.run(Span::from_millis(10));
    assert_eq!(ring.at(1).held(), 0);
    assert!(ring.at(1).stats().unreachable > 250);
    ring.assert_conserved();
}

#[test]
fn what_is_not_for_other_nodes_is_dropped_under_its_name() {
    let mut ring = Network::new(4, MBIT(100), Span::from_micros(100), |_| {});
    ring.flow(1, 1, MBIT(8));
    ring.flow(1, 5, MBIT(8));
    ring.run(Span::from_millis(10));
    let stats = ring.at(1).stats();
    assert_eq!((stats.to_itself, stats.unknown), (11, 11));
    ring.assert_conserved();
}

#[derive(Clone, Debug)]
struct Scene {
    nodes: usize,
    seed: u64,
    flows: Vec<(usize, usize, u64, u32, u8)>,
}

fn scene(most: u64) -> impl Strategy<Value = Scene> {
    (2usize..9, any::<u64>()).prop_flat_map(move |(nodes, seed)| {
        let flow = (1..=nodes, 1..=nodes, 1..most, 64u32..1500, 0u8..3);
        proptest::collection::vec(flow, 1..12).prop_map(move |flows| Scene { nodes, seed, flows })
    })
}

fn class(number: u8) -> Class {
    [Class::A, Class::B, Class::C][usize::from(number)]
}

impl Scene {
    /// Adds the flows, which end after `span`.
    fn sources(&self, ring: &mut Network, span: Span) {
        for &(from, to, rate, size, number) in &self.flows {
            let (from, to, class, rate) =
                (node(from), node(to), class(number), Rate::from_bits_per_sec(rate * 100_000));
            let start = ring.now + Span::from_micros(self.seed % 997);
            ring.source(Source { from, to, by: None, class, size, rate, start, end: ring.now + span });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// At any load, of any sizes and classes, on equal links.
    #[test]
    fn transit_loses_nothing_and_flows_keep_their_order(scene in scene(2000), which in 0..LOSSLESS.len()) {
        let mut ring = Network::new(scene.nodes, MBIT(100), Span::from_micros(50), |config| {
            with(LOSSLESS[which])(config);
            config.transit_limit = Bytes::new(64_000);
            config.station_threshold = Bytes::new(16_000);
            config.reservations = vec![Reservation { to: None, class: Class::B, rate: MBIT(10) }];
        });
        scene.sources(&mut ring, Span::from_millis(40));
        ring.run(Span::from_millis(40));
        ring.assert_conserved();
        ring.run(Span::from_millis(400));
        ring.assert_conserved();
        prop_assert_eq!(ring.transit_drops(), 0);
        prop_assert!(ring.accounts.iter().all(|account| account.disordered == 0));
        let held: usize = ring.nodes.iter().flatten().map(|node| node.held()).sum();
        prop_assert_eq!(held, 0, "everything leaves in the end");
    }

    /// Whatever happens to links, capacities, sockets and nodes.
    #[test]
    fn every_packet_is_accounted_for_at_every_instant(
        scene in scene(2000), which in 0..7usize, wrap: bool,
        steps in proptest::collection::vec((0u8..8, 1usize..9, any::<bool>(), 1u64..300, 1u64..5_000), 1..25),
    ) {
        let algorithm = ["fifo", "dvsr", "dvsr", "dvsr:bits=8", "fifo", "rpr-am", "rpr-cm"][which];
        let mut ring = Network::new(scene.nodes, MBIT(100), Span::from_micros(50), |config| {
            with(algorithm)(config);
            config.protection = if wrap { Protection::Wrap } else { Protection::Steer };
            config.reservations = vec![Reservation { to: None, class: Class::A, rate: MBIT(10) }];
            config.discovery = match which {
                0 | 1 => None,
                2 => Some(discovery::Config::still(config.node, scene.nodes, config.nominal)),
                _ => Some(discovery::Config::new(config.node, scene.nodes, config.nominal)),
            };
        });
        scene.sources(&mut ring, Span::from_millis(200));
        for (what, at, up, rate, us) in steps {
            let at = (at - 1) % scene.nodes + 1;
            let side = if up { Side::East } else { Side::West };
            match what {
                0 | 1 => ring.set_link(at, up, true),
                2 => ring.set_link(at, up, false),
                3 if ring.nodes[at - 1].is_some() => ring.with(at, |node, now| node.set_capacity(now, side, MBIT(rate))),
                4 if ring.nodes[at - 1].is_some() => ring.with(at, |node, now| node.set_blocked(now, side, rate % 2 == 0)),
                5 => ring.kill(at),
                6 if ring.nodes[at - 1].is_none() => ring.start(at),
                _ => {}
            }
            ring.run(Span::from_micros(us));
            ring.assert_conserved();
        }
    }

    /// A node fed with anything counts it, and goes on.
    #[test]
    fn hostile_frames_do_no_harm(
        heads in proptest::collection::vec((any::<[u8; 6]>(), any::<bool>(), any::<bool>()), 0..300),
        control in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..80), any::<bool>(), 0u8..5, any::<bool>()), 0..100),
        discovers: bool,
    ) {
        use fairspan_core::ring::control as wire;
        let mut ring = Network::new(4, MBIT(100), Span::from_micros(50), |config| {
            config.discovery = discovers.then(|| discovery::Config::new(config.node, 4, config.nominal));
        });
        ring.run(Span::from_millis(300));
        ring.flow(1, 3, MBIT(10));
        let side = |east| if east { Side::East } else { Side::West };
        let mut forged = 0;
        for (mut head, east, tidy) in heads {
            if tidy {
                head = [0x11, head[1] & 0x1F, head[2], head[3] % 6, head[4] % 6, 0];
            }
            let packet = crate::ring_network::Load { flow: u32::MAX, number: 0, size: 100 };
            ring.with(2, |node, now| node.handle_data(now, side(east), head, packet));
            forged += 1;
        }
        let mut refused = 0;
        for (mut bytes, east, kind, sealed) in control {
            if sealed {
                let kind = [wire::Kind::Fairness, wire::Kind::Report, wire::Kind::Keepalive][usize::from(kind % 3)];
                let mut frame = vec![];
                wire::begin(&mut frame, kind, node(usize::from(bytes.first().copied().unwrap_or(0) % 4) + 1));
                frame.append(&mut bytes);
                wire::seal(&mut frame);
                bytes = frame;
            }
            ring.with(2, |node, now| node.handle_control(now, side(east), &bytes));
            refused += 1;
        }
        let stats = ring.at(2).stats();
        prop_assert!(stats.received >= forged && stats.control_refused <= stats.control_received);
        prop_assert!(stats.control_received >= refused);
        ring.run(Span::from_millis(200));
        prop_assert!(ring.accounts[0].delivered + 5 > ring.accounts[0].sent, "the ring goes on");
    }
}
