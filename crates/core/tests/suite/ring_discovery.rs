//! Rings find out who is there, and what failed.

use crate::ring_control::{Net, config, node};
use fairspan_core::ring::control::{self, Reservation};
use fairspan_core::ring::discovery::{Config, Event, Refused, Reserved};
use fairspan_core::ring::topology::Route;
use fairspan_core::ring::{Class, Ringlet, Side};
use fairspan_core::units::{Rate, Span, Time};

const MS: Span = Span::from_millis(1);
/// Silence until a neighbour has failed; see the defaults of `Config`.
const SILENCE: Span = Span::from_millis(12);

fn up(net: &Net, at: usize, link: usize) -> bool {
    net.at(at).topology().way(node(link), Ringlet::Zero).up
}

fn refusals(net: &Net, at: usize) -> Vec<Refused> {
    let mut of: Vec<Refused> = vec![];
    for (_, reason) in net.refused.iter().filter(|(index, _)| *index == at) {
        if !of.contains(reason) {
            of.push(*reason);
        }
    }
    of
}

#[test]
fn a_ring_is_known_everywhere_within_half_a_ring_time_and_three_links_of_its_start() {
    for (nodes, delay) in [(2, 100), (3, 100), (8, 1000), (64, 100), (64, 5000)] {
        let delay = Span::from_micros(delay);
        let mut net = Net::new(nodes, delay, 1);
        let took = net.settle(Span::from_secs(1));
        // Keepalives go to and fro and once more, then the farthest report half round.
        assert!(took <= delay.times(nodes as u64 / 2 + 3), "{nodes} nodes: {took:?}");
        net.run_for(Span::from_secs(3));
        assert!(net.agrees());
        assert_eq!(net.refused, [], "a ring at rest refuses nothing");
        let farthest = nodes / 2;
        assert_eq!(net.at(0).announced(node(farthest)), Some(format!("station {farthest}").as_bytes()));
        let up = net.events.iter().filter(|(_, _, event)| matches!(event, Event::Link { up: true, .. })).count();
        assert_eq!(up, 2 * nodes, "each link comes up once at each end");
    }
}

#[test]
fn the_largest_ring_is_known_everywhere() {
    let mut net = Net::new(255, Span::from_micros(100), 1);
    net.run_for(Span::from_millis(14));
    assert!(net.agrees());
    assert_eq!(net.at(0).announced(node(254)), Some(b"station 254".as_slice()));
}

#[test]
fn a_silent_cut_is_known_everywhere_within_the_silence_and_the_way_of_the_news() {
    for (nodes, delay) in [(4, 100), (4, 5000), (16, 1000), (64, 100), (64, 1000), (64, 5000)] {
        let delay = Span::from_micros(delay);
        let mut net = Net::new(nodes, delay, 2);
        net.settle(Span::from_secs(1));
        net.run_for(Span::from_millis(500));
        net.set_broken(1, true);
        let took = net.settle(Span::from_secs(1));
        println!("{nodes} nodes, links of {:.1} ms: {:.2} ms", delay.as_secs_f64() * 1e3, took.as_secs_f64() * 1e3);
        // What is under way at the cut still arrives; from then on it is silent. The news goes half round both ways.
        let bound = delay + SILENCE + delay.times(nodes as u64 / 2) + Span::from_micros(50);
        assert!(took <= bound && took + Span::from_millis(3) + delay >= SILENCE, "{nodes} nodes: {took:?}");
        assert!((0..nodes).all(|at| !up(&net, at, 1)));
        let route = net.at(0).topology().route(node(0), node(2));
        assert_eq!(route, Some(Route { ringlet: Ringlet::One, hops: nodes - 2 }));
    }
}

#[test]
fn a_cut_that_the_driver_sees_at_one_end_is_known_everywhere_as_fast_as_news_travels() {
    let (nodes, delay) = (32, Span::from_micros(500));
    let mut net = Net::new(nodes, delay, 3);
    net.settle(Span::from_secs(1));
    net.run_for(Span::from_millis(300));
    net.set_broken(4, true);
    net.with(4, |node, now| node.set_link(now, Side::East, false));
    let took = net.settle(Span::from_millis(100));
    assert!(took <= delay.times(nodes as u64) && took < SILENCE + delay.times(nodes as u64 / 2), "{took:?}");
    assert!(net.events.iter().any(|(_, at, event)| *at == 4 && *event == Event::Link { side: Side::East, up: false }));
}

#[test]
fn a_link_that_fails_one_way_is_down_both_ways() {
    let mut net = Net::new(6, MS, 4);
    net.settle(Span::from_secs(1));
    net.run_for(Span::from_millis(300));
    net.broken[2][Side::East.index()] = true;
    let begin = net.now;
    while (0..6).any(|at| up(&net, at, 2)) {
        net.run_for(Span::from_micros(100));
        assert!(net.now.since(begin) < Span::from_millis(25));
    }
    assert!((0..6).all(|at| !net.at(at).topology().way(node(3), Ringlet::One).up));
    net.broken[2][Side::East.index()] = false;
    net.settle(Span::from_millis(120));
}

#[test]
fn what_a_node_tells_of_its_station_alone_is_told_to_the_others_when_it_changes_and_when_it_is_forgotten() {
    let mut net = Net::new(8, MS, 5);
    net.settle(Span::from_secs(1));
    net.run_for(Span::from_secs(5));
    let told = |net: &Net, from: usize| -> Vec<usize> {
        let of = net.events[from..].iter().filter(|(_, _, event)| *event == Event::Announcement);
        let mut of: Vec<usize> = of.map(|(_, at, _)| *at).collect();
        of.sort_unstable();
        of
    };
    let before = net.events.len();
    net.with(4, |node, now| node.announce(now, b"another"));
    net.run_for(Span::from_millis(50));
    assert_eq!(told(&net, before), [0, 1, 2, 3, 5, 6, 7]);
    assert!(net.events[before..].iter().all(|(_, _, event)| *event == Event::Announcement), "nothing else changed");
    let before = net.events.len();
    net.with(4, |node, now| node.announce(now, b"another"));
    net.run_for(Span::from_secs(5));
    assert_eq!(told(&net, before), [0usize; 0], "it is the same");
    net.nodes[4] = None;
    net.run_for(Span::from_secs(5));
    assert_eq!(net.at(0).announced(node(4)), None);
    assert_eq!(told(&net, before), [0, 1, 2, 3, 5, 6, 7]);
}

#[test]
fn a_killed_node_is_gone_and_a_new_process_in_its_place_is_back_after_the_wait_to_restore() {
    for pause in [Span::ZERO, Span::from_millis(5), Span::from_millis(40), Span::from_secs(5)] {
        let mut net = Net::new(8, MS, 5);
        net.settle(Span::from_secs(1));
        net.run_for(Span::from_millis(300));
        net.nodes[3] = None;
        if pause > Span::from_millis(30) {
            let took = net.settle(Span::from_millis(50));
            assert!((0..8).filter(|&at| at != 3).all(|at| !up(&net, at, 2) && !up(&net, at, 3)), "{took:?}");
        }
        net.run_for(pause);
        assert_eq!(net.at(0).is_heard(node(3)), pause < Span::from_secs(4), "what is not told again is forgotten");
        let mut again = config(3, 8);
        again.announcement = b"another".to_vec();
        net.start(3, again);
        net.run_for(Span::from_millis(30));
        assert!(
            net.at(0).announced(node(3)) != Some(b"another") || !up(&net, 0, 2),
            "its links rest before they serve"
        );
        let took = net.settle(Span::from_millis(200));
        println!("after {pause:?}: {took:?}");
        assert!((0..8).all(|at| net.at(at).announced(node(3)) == Some(b"another")));
        net.run_for(Span::from_secs(2));
        assert!(net.agrees());
    }
}

#[test]
fn a_link_that_comes_and_goes_stays_down_until_it_was_well_for_the_wait_to_restore() {
    let mut net = Net::new(6, Span::from_micros(100), 6);
    net.settle(Span::from_secs(1));
    for _ in 0..20 {
        net.set_broken(0, true);
        net.run_for(Span::from_millis(20));
        net.set_broken(0, false);
        net.run_for(Span::from_millis(70));
    }
    let changes = |net: &Net| {
        net.events
            .iter()
            .filter(|(_, at, event)| *at == 0 && matches!(event, Event::Link { side: Side::East, .. }))
            .count()
    };
    assert_eq!(changes(&net), 2, "up at the start, down at the first failure");
    let took = net.settle(Span::from_millis(100));
    assert!(took >= Span::from_millis(20), "{took:?}");
    assert_eq!((changes(&net), net.at(0).stats().failures), (3, 1));
}

#[test]
fn with_hold_off_a_short_failure_is_none() {
    let mut configs: Vec<Config> = (0..4).map(|at| config(at, 4)).collect();
    configs.iter_mut().for_each(|config| config.hold_off = Span::from_millis(50));
    let mut net = Net::of(configs, Span::from_micros(100), 7);
    net.settle(Span::from_secs(1));
    net.set_broken(0, true);
    net.run_for(Span::from_millis(40));
    net.set_broken(0, false);
    net.run_for(Span::from_millis(200));
    assert!(net.agrees() && (0..4).all(|at| net.at(at).stats().failures == 0));
    net.set_broken(0, true);
    let took = net.settle(Span::from_millis(70));
    assert!(took > Span::from_millis(55), "{took:?}");
}

#[test]
fn rings_cut_in_two_are_one_as_soon_as_one_link_is_back() {
    for apart in [Span::from_millis(50), Span::from_secs(6)] {
        let mut net = Net::new(10, MS, 8);
        net.settle(Span::from_secs(1));
        net.set_broken(1, true);
        net.set_broken(6, true);
        net.run_for(Span::from_millis(50));
        assert!(net.agrees());
        let other = net.at(0).topology().route(node(0), node(4));
        assert_eq!(other, None);
        net.with(4, |node, now| node.announce(now, b"changed while apart"));
        net.run_for(apart);
        net.set_broken(1, false);
        let took = net.settle(Span::from_millis(130));
        println!("apart for {apart:?}: {took:?}");
        assert!((0..10).all(|at| net.at(at).announced(node(4)) == Some(b"changed while apart")));
        assert_eq!(net.at(0).topology().route(node(0), node(4)), Some(Route { ringlet: Ringlet::Zero, hops: 4 }));
    }
}

#[test]
fn capacities_weights_and_reservations_are_known_everywhere_and_move_with_the_routes() {
    let mut net = Net::new(8, MS, 9);
    net.settle(Span::from_secs(1));
    let rate = Rate::from_mbit;
    net.with(2, |node, now| node.set_capacity(now, Side::West, rate(42)));
    net.with(2, |node, now| node.set_weight(now, 2500));
    let reservations = [
        Reservation { to: Some(node(4)), class: Class::A, rate: rate(10) },
        Reservation { to: None, class: Class::B, rate: rate(1) },
    ];
    net.with(2, |node, now| node.reserve(now, &reservations).unwrap());
    net.run_for(Span::from_millis(5));
    let sums = |net: &Net, at: usize, ringlet: Ringlet| -> Vec<u64> {
        (0..8).map(|of| net.at(at).reserved(node(of), ringlet).a.as_bits_per_sec() / 1_000_000).collect()
    };
    for at in 0..8 {
        let topology = net.at(at).topology();
        assert_eq!(topology.way(node(2), Ringlet::One).capacity, rate(42));
        assert_eq!(topology.way(node(2), Ringlet::Zero).capacity, rate(100));
        assert_eq!((topology.weight(node(2)), topology.weight(node(3))), (2500, 1000));
        assert_eq!(sums(&net, at, Ringlet::Zero), [0, 0, 10, 10, 0, 0, 0, 0]);
        assert_eq!(sums(&net, at, Ringlet::One), [0; 8]);
        let all = Ringlet::BOTH.iter().flat_map(|&ringlet| (0..8).map(move |of| (of, ringlet)));
        assert!(all.into_iter().all(|(of, ringlet)| net.at(at).reserved(node(of), ringlet).b == rate(1)));
    }
    net.set_broken(3, true);
    net.settle(Span::from_millis(30));
    assert_eq!(sums(&net, 7, Ringlet::Zero), [0; 8]);
    assert_eq!(sums(&net, 7, Ringlet::One), [10, 10, 10, 0, 0, 10, 10, 10]);
    let own = Reservation { to: Some(node(2)), class: Class::A, rate: rate(1) };
    assert!(net.with(2, |node, now| node.reserve(now, &[own])).is_err());
    assert_eq!(net.at(5).reserved(node(6), Ringlet::One), Reserved { a: rate(10), b: rate(1) });
}

#[test]
fn wrong_cables_numbers_and_settings_keep_a_link_down_and_are_named() {
    type Wrong = (fn(&mut Config), Refused);
    let nominal = Rate::from_mbit(1000);
    let cases: [Wrong; 4] = [
        (|config| config.nodes = 7, Refused::Nodes { found: 7 }),
        (|config| config.node = node(4), Refused::Neighbour { expected: node(2), found: node(4) }),
        (|config| config.settings = control::digest("rpr-am"), Refused::Settings),
        (|config| config.nominal = Rate::from_mbit(1000), Refused::Nominal { found: nominal }),
    ];
    for (change, reason) in cases {
        let mut configs: Vec<Config> = (0..6).map(|at| config(at, 6)).collect();
        change(&mut configs[2]);
        let mut net = Net::of(configs, MS, 10);
        net.run_for(Span::from_secs(1));
        assert_eq!(refusals(&net, 1), [reason]);
        assert!(
            net.events.iter().any(|(_, at, event)| (*at, *event) == (1, Event::Refused { side: Side::East, reason }))
        );
        assert!(
            (0..6).filter(|&at| at != 2).all(|at| !up(&net, at, 1) && up(&net, at, 0) && up(&net, at, 4)),
            "{reason}"
        );
        assert!(!net.at(1).accepts(Side::East) && net.at(1).accepts(Side::West));
        assert!(net.at(1).stats().refused[reason.index()] > 300);
        let told =
            net.events.iter().filter(|(_, at, event)| *at == 1 && matches!(event, Event::Refused { .. })).count();
        assert!((1..=2).contains(&told), "told once a second: {told}");
    }
}

#[test]
fn a_second_node_with_a_taken_number_changes_nothing() {
    let mut net = Net::new(6, MS, 11);
    net.settle(Span::from_secs(1));
    let (before, begin) = (net.events.len(), net.now);
    // It shares the segment of node index 2: its keepalives and reports reach the neighbours among those of the real one.
    let mut other = Net::new(6, MS, 12);
    other.settle(Span::from_secs(1));
    for step in 0..200 {
        other.run_for(MS);
        let frames: Vec<Vec<u8>> = other.seen.iter().filter(|frame| frame[1] == 3).cloned().collect();
        for frame in frames.iter().rev().take(6) {
            let to = if step % 2 == 0 { (1, Side::East) } else { (3, Side::West) };
            net.deliver(to.0, to.1, Span::ZERO, frame.clone());
        }
        net.run_for(MS);
    }
    assert!(net.agrees());
    let told: Vec<_> = net.events[before..].iter().filter(|(_, _, e)| !matches!(e, Event::Refused { .. })).collect();
    assert_eq!(told, [] as [&(Time, usize, Event); 0], "since {begin:?}");
    for at in [1, 3] {
        assert!(refusals(&net, at).contains(&Refused::Taken { node: node(2) }));
    }
}

#[test]
fn a_loop_and_an_east_link_to_an_east_link_are_named() {
    let mut net = Net::new(4, MS, 13);
    net.settle(Span::from_secs(1));
    let mut alone = Net::new(4, MS, 13);
    alone.nodes[1..].fill_with(|| None);
    for _ in 0..20 {
        alone.run_for(Span::from_millis(3));
        for frame in alone.seen.split_off(0) {
            alone.deliver(0, Side::East, Span::ZERO, frame);
        }
    }
    assert_eq!(refusals(&alone, 0)[0], Refused::Own);
    assert!(!alone.at(0).is_up(Side::East));
    // What node index 1 sends west belongs to node index 0's east; what it sends east does not.
    net.set_broken(0, true);
    net.run_for(Span::from_millis(50));
    net.refused.clear();
    let frames: Vec<Vec<u8>> = net.seen.iter().filter(|f| f[..2] == [0x14, 2] && f[9] == 1).cloned().collect();
    net.deliver(0, Side::East, Span::ZERO, frames.last().unwrap().clone());
    net.run_for(MS);
    assert_eq!(refusals(&net, 0), [Refused::Side]);
}

#[test]
fn clocks_that_are_years_apart_and_run_unlike_change_nothing() {
    let clocks = (0..8u64).map(|n| (n * 1_000_000_000_000_000_000, n * 70)).collect();
    let mut net = Net::with_clocks((0..8).map(|at| config(at, 8)).collect(), clocks, MS, 14);
    net.settle(Span::from_millis(10));
    net.run_for(Span::from_secs(5));
    assert_eq!((net.refused.len(), net.agrees()), (0, true));
    assert!((0..8).all(|at| net.at(at).stats().failures == 0));
    net.set_broken(5, true);
    net.settle(Span::from_millis(20));
}

#[test]
fn a_node_that_slept_gives_its_neighbours_an_interval_to_be_heard() {
    for sleep in [10, 14, 18, 300] {
        let mut net = Net::new(3, Span::from_micros(100), 15);
        net.settle(Span::from_secs(1));
        let mut asleep = net.nodes[0].take().unwrap();
        let woke = net.now + Span::from_millis(sleep);
        asleep.handle_timeout(woke);
        assert!(asleep.is_up(Side::East), "after {sleep} ms");
        // Silence after that is the neighbour's.
        let mut now = woke;
        while asleep.is_up(Side::East) {
            now = asleep.poll_timeout().unwrap();
            asleep.handle_timeout(now);
            while asleep.poll_control(now, &mut vec![]).is_some() {}
        }
        assert!(now.since(woke) <= SILENCE + Span::from_millis(3), "{sleep} ms: {:?}", now.since(woke));
    }
}

#[test]
fn a_still_ring_is_whole_at_once_sends_nothing_and_tells_what_the_driver_sees() {
    let configs = (0..16).map(|at| Config::still(node(at), 16, Rate::from_mbit(622))).collect();
    let mut net = Net::of(configs, MS, 16);
    assert!(net.agrees());
    net.run_for(Span::from_millis(20));
    let frames = net.frames;
    net.run_for(Span::from_secs(10));
    assert_eq!(net.frames, frames);
    net.set_broken(3, true);
    net.with(3, |node, now| node.set_link(now, Side::East, false));
    net.with(4, |node, now| node.set_link(now, Side::West, false));
    assert!(net.settle(Span::from_millis(9)) <= MS.times(8));
    net.set_broken(3, false);
    net.with(3, |node, now| node.set_link(now, Side::East, true));
    net.with(4, |node, now| node.set_link(now, Side::West, true));
    net.settle(Span::from_millis(9));
}
