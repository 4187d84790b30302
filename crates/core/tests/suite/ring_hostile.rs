//! Control frames lost, doubled, late, corrupted, forged and played again: counted, refused, and outlived.

use crate::ring_control::{Faults, Net, config, node};
use fairspan_core::ring::control::{Heard, Keepalive, Kind, Link, Message, Report, begin, open, seal};
use fairspan_core::ring::discovery::{Discovery, Event, REASONS, Refused};
use fairspan_core::ring::{Ringlet, Side};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span, Time};
use proptest::prelude::*;

const MS: Span = Span::from_millis(1);

fn settled(nodes: usize, seed: u64) -> Net {
    let mut net = Net::new(nodes, MS, seed);
    net.settle(Span::from_secs(1));
    net.run_for(Span::from_millis(300));
    net.events.clear();
    net
}

fn failures(net: &Net) -> u64 {
    net.nodes.iter().flatten().map(|node| node.stats().failures).sum()
}

/// A frame of these kinds with small numbers, so that it hits what there is; sealed as it should be.
fn plausible(rng: &mut Rng, nodes: usize) -> Vec<u8> {
    let mut out = vec![];
    let number = |rng: &mut Rng| [0, 1, 2, 300, 1 << 31, u64::MAX >> rng.below(64)][rng.below(6) as usize];
    let any = |rng: &mut Rng| node(rng.below(nodes as u64) as usize);
    let instance = |rng: &mut Rng| 1 + rng.below(3) as u32;
    let count = if rng.below(8) == 0 { nodes as u8 + 1 } else { nodes as u8 };
    if rng.below(2) == 0 {
        let heard =
            (rng.below(3) > 0).then(|| Heard { node: any(rng), instance: instance(rng), number: number(rng) as u32 });
        let (node, east, instance) = (any(rng), rng.below(2) == 0, instance(rng));
        let (number, nominal) = (number(rng) as u32, Rate::from_mbit(100));
        Keepalive { node, nodes: count, east, instance, number, heard, settings: 0, nominal }.encode(&mut out);
    } else {
        let link = |rng: &mut Rng| Link {
            up: rng.below(2) == 0,
            heard: (rng.below(2) == 0).then(|| instance(rng)),
            capacity: Rate::from_bits_per_sec(number(rng)),
        };
        let report = Report {
            node: any(rng),
            nodes: count,
            ttl: 1 + rng.below(255) as u8,
            instance: instance(rng),
            sequence: number(rng),
            links: [link(rng), link(rng)],
            weight: 1 + rng.below(3000) as u32,
            reservations: vec![],
            announcement: vec![7; rng.below(20) as usize],
        };
        report.encode(&mut out);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_are_survived_and_every_refused_one_is_counted(
        nodes in 2usize..9, seed in any::<u64>(), raw in proptest::collection::vec(any::<Vec<u8>>(), 20),
    ) {
        let mut rng = Rng::new(seed);
        let mut now = Time::ZERO;
        let mut discovery = Discovery::new(config(0, nodes), now, seed).unwrap();
        let (mut refused, mut taken, mut out) = (0, 0, vec![]);
        for step in 0..400 {
            let side = Side::BOTH[rng.below(2) as usize];
            now += Span::from_micros(rng.below(4000));
            if step % 40 == 0 {
                discovery.set_link(now, side, rng.below(4) > 0);
            }
            let mut frame = if step % 20 == 0 { raw[step / 20].clone() } else { plausible(&mut rng, nodes) };
            if rng.below(10) == 0 && !frame.is_empty() {
                let at = rng.below(frame.len() as u64) as usize;
                frame[at] ^= 1 << rng.below(8);
            }
            match discovery.handle_frame(now, side, &frame) {
                Ok(()) => taken += 1,
                Err(_) => refused += 1,
            }
            let mut sent = 0;
            while discovery.poll_control(now, &mut out).is_some() {
                prop_assert!(open(&out).is_ok_and(|(kind, node, body)| Message::decode(kind, node, body).is_ok()));
                sent += 1;
                prop_assert!(sent <= 2 + 2 * nodes, "one input makes a frame for each node and side at most");
            }
            while discovery.poll_event().is_some() {}
            if discovery.poll_timeout().is_some_and(|due| due <= now) {
                discovery.handle_timeout(now);
                while discovery.poll_control(now, &mut out).is_some() {}
                prop_assert!(discovery.poll_timeout().is_none_or(|due| due > now), "what is due was done");
            }
        }
        let stats = discovery.stats();
        prop_assert_eq!((stats.refused.iter().sum::<u64>(), stats.taken), (refused, taken));
    }
}

#[test]
fn frames_that_come_twice_or_late_or_broken_now_and_then_change_nothing() {
    let cases = [
        Faults { doubled: 50, ..Faults::default() },
        Faults { late: 30, doubled: 10, ..Faults::default() },
        Faults { corrupted: 2, ..Faults::default() },
        Faults { lost: 2, ..Faults::default() },
    ];
    for (seed, faults) in cases.into_iter().enumerate() {
        let mut net = settled(8, seed as u64);
        net.faults = faults;
        net.run_for(Span::from_secs(5));
        assert!(net.agrees(), "{faults:?}");
        assert_eq!(failures(&net), 0, "{faults:?}");
        let counted =
            |reason: Refused| net.nodes.iter().flatten().map(|n| n.stats().refused[reason.index()]).sum::<u64>();
        assert_eq!(counted(Refused::Stale) > 100, faults.doubled > 0, "{faults:?}");
        let malformed = net.refused.iter().filter(|(_, reason)| matches!(reason, Refused::Malformed(_))).count();
        assert_eq!(malformed > 100, faults.corrupted > 0, "{faults:?}");
        let changes = net.events.iter().filter(|(_, _, event)| !matches!(event, Event::Refused { .. })).count();
        assert_eq!(changes, 0, "{faults:?}");
    }
}

#[test]
fn a_ring_whose_links_were_cut_at_random_among_bad_frames_is_right_again_soon_after() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let nodes = 3 + rng.below(10) as usize;
        let mut net = Net::new(nodes, Span::from_micros(100 + rng.below(2000)), seed);
        net.faults =
            Faults { lost: rng.below(40), doubled: rng.below(30), late: rng.below(30), corrupted: rng.below(20) };
        for _ in 0..20 {
            net.run_for(Span::from_millis(rng.below(150)));
            let index = rng.below(nodes as u64) as usize;
            match rng.below(5) {
                0 | 1 => net.set_broken(index, true),
                2 => net.nodes[index] = None,
                3 if net.nodes[index].is_none() => net.start(index, config(index, nodes)),
                _ => net.set_broken(index, false),
            }
        }
        net.faults = Faults::default();
        // Links that failed rest for 100 ms; reports that were lost are told again within 100 ms of a change.
        let took = net.settle(Span::from_millis(350));
        net.run_for(Span::from_secs(6));
        assert!(net.agrees(), "seed {seed}: right after {took:?}, wrong later");
    }
}

/// Forges something that a node could have said, from what was seen on the wire.
fn forge(rng: &mut Rng, net: &Net) -> Vec<u8> {
    let pick = |rng: &mut Rng| net.seen[rng.below(net.seen.len() as u64) as usize].clone();
    let frame = pick(rng);
    let (kind, of, body) = open(&frame).unwrap();
    let mut out = vec![];
    match Message::decode(kind, of, body).unwrap() {
        Message::Keepalive(mut message) => match rng.below(4) {
            0 => return frame,
            1 => {
                message.instance ^= 1 + rng.below(1000) as u32;
                message.encode(&mut out);
            }
            2 => {
                message.nodes += 1;
                message.encode(&mut out);
            }
            _ => {
                begin(&mut out, Kind::Keepalive, of);
                out.extend((0..rng.below(60)).map(|_| rng.next_u64() as u8));
                seal(&mut out);
            }
        },
        Message::Report(mut report) => {
            report.sequence = match rng.below(5) {
                0 => report.sequence,
                1 => u64::MAX >> rng.below(64),
                _ => report.sequence + rng.below(1000),
            };
            match rng.below(6) {
                0 => report.links[0].up = false,
                1 => report.links = [Link { up: false, heard: None, capacity: Rate::from_mbit(1) }; 2],
                2 => report.instance ^= 1 + rng.below(1000) as u32,
                3 => report.links[rng.below(2) as usize].heard = Some(1 + rng.below(5) as u32),
                4 => report.node = node(rng.below(net.nodes.len() as u64) as usize),
                _ => report.announcement = vec![0xff; 100],
            }
            report.ttl = 255;
            report.encode(&mut out);
        }
    }
    if rng.below(10) == 0 {
        let at = rng.below(out.len() as u64) as usize;
        out[at] ^= 1;
    }
    out
}

#[test]
fn two_ring_times_after_forged_reports_end_every_node_knows_the_truth_again() {
    for seed in 0..20 {
        let nodes = 16;
        let mut net = settled(nodes, seed);
        let mut rng = Rng::new(seed);
        let mut harm = 0;
        for _ in 0..300 {
            for _ in 0..=rng.below(3) {
                let frame = forge(&mut rng, &net);
                // A keepalive with the neighbour's own instance cannot be told from the neighbour's: see below.
                let (to, side) = (rng.below(nodes as u64) as usize, Side::BOTH[rng.below(2) as usize]);
                net.deliver(to, side, Span::ZERO, frame);
            }
            net.run_for(Span::from_micros(rng.below(2000)));
            harm += u64::from(!net.agrees());
        }
        assert!(harm > 50, "the enemy must be one: {harm}");
        assert_eq!(failures(&net), 0, "no link failed for it");
        net.run_for(MS.times(2 * nodes as u64));
        assert!(net.agrees(), "seed {seed}");
        for (at, of) in (0..nodes * nodes).map(|pair| (pair / nodes, pair % nodes)) {
            assert_eq!(net.at(at).announced(node(of)), Some(format!("station {of}").as_bytes()), "seed {seed}");
            let topology = net.at(at).topology();
            assert!(Ringlet::BOTH.iter().all(|&r| topology.way(node(of), r).capacity == Rate::from_mbit(100)));
        }
        let kinds: Vec<usize> =
            (0..REASONS.len()).filter(|&r| net.nodes.iter().flatten().any(|n| n.stats().refused[r] > 0)).collect();
        for reason in ["malformed", "nodes", "neighbour", "own", "taken", "stale", "forged"] {
            assert!(kinds.iter().any(|&kind| REASONS[kind] == reason), "nothing was {reason}: {kinds:?}");
        }
        net.run_for(Span::from_secs(5));
        assert!(net.agrees());
    }
}

#[test]
fn who_can_write_as_the_neighbour_can_stop_a_link_and_it_is_back_after_the_wait_to_restore() {
    let mut net = settled(6, 1);
    let last = net.seen.iter().rev().find(|frame| frame[..2] == [0x14, 3] && frame[9] == 0).unwrap().clone();
    let (kind, of, body) = open(&last).unwrap();
    let Ok(Message::Keepalive(mut message)) = Message::decode(kind, of, body) else { panic!("{last:?}") };
    message.number += 1;
    message.heard = None;
    let mut frame = vec![];
    message.encode(&mut frame);
    net.deliver(1, Side::East, Span::ZERO, frame);
    net.run_for(Span::from_millis(8));
    assert!((0..6).all(|at| !net.at(at).topology().way(node(1), Ringlet::Zero).up));
    let took = net.settle(Span::from_millis(110));
    assert!(took > Span::from_millis(80), "{took:?}");
}

#[test]
fn keepalives_played_again_keep_no_dead_link_alive() {
    let mut net = settled(6, 2);
    let old: Vec<Vec<u8>> = net.seen.iter().filter(|frame| frame[..2] == [0x14, 3] && frame[9] == 0).cloned().collect();
    assert!(old.len() >= 4);
    net.nodes[2] = None;
    for n in 0..600 {
        net.deliver(1, Side::East, Span::ZERO, old[n % old.len()].clone());
        net.run_for(Span::from_millis(3));
    }
    assert!(!net.at(1).is_up(Side::East));
    assert!(net.agrees());
}
