//! Core's bond in the world: what the gateway does, on simulated links.

use crate::common::{UDP, bonded, channel, constant, over_bond};
use fairspan_core::bond::{Config, Mode, Scheduler};
use fairspan_core::link::{DuringOutage, Limit, Loss, Outage, Profile};
use fairspan_core::record;
use fairspan_core::units::{Rate, Span, Time};
use fairspan_sim::model::{Scenario, Transport};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::traffic;
use fairspan_sim::world::World;

/// Two hosts and a bond over links of these rates (Mbit/s) and delays (ms), both ways.
fn between_hosts(mode: Mode, links: &[(u64, u64)], seconds: u64) -> Scenario {
    let mut config = Config::default();
    config.mode = mode;
    let channels = links.iter().map(|&(rate, delay)| {
        let mut settings = channel(28);
        settings.rate = Some(Rate::from_mbit(rate));
        let profile = Profile::new(Rate::from_mbit(rate), Span::from_millis(delay));
        (settings, [profile.clone(), profile])
    });
    let mut scenario = bonded(config, channels);
    scenario.duration = Span::from_secs(seconds);
    scenario
}

fn flow(scenario: &mut Scenario, rate: u64, size: u32, start_ms: u64, stop_ms: u64) {
    let name = format!("f{}", scenario.flows.len());
    scenario.flows.push(over_bond(&name, [start_ms, stop_ms], constant(rate, size), UDP));
}

fn run(scenario: &Scenario) -> Results {
    World::new(scenario).unwrap().finish().unwrap()
}

fn counter(results: &Results, end: usize, name: &str) -> u64 {
    let found = results.bonds[end].counters.iter().find(|(counter, _)| counter == name);
    found.unwrap_or_else(|| panic!("no counter {name}: {:?}", results.bonds[end].counters)).1
}

const THREE: [(u64, u64); 3] = [(100, 10), (40, 25), (10, 40)];

#[test]
fn without_loss_everything_arrives_in_order_in_the_modes_that_order() {
    for mode in [Mode::Ordered, Mode::Stripe, Mode::Backup] {
        let mut scenario = between_hosts(mode, &THREE, 5);
        let rate = if mode == Mode::Backup { 90 } else { 130 };
        flow(&mut scenario, rate * 1_000_000, 1400, 1000, 4000);
        flow(&mut scenario, 5_000_000, 200, 1000, 4000);
        let results = run(&scenario);
        for flow in &results.flows {
            assert!(flow.sent > 9000 && flow.received == flow.sent, "{mode}: {} of {}", flow.received, flow.sent);
            assert_eq!(flow.reordering.as_ref().unwrap().ratio, 0.0, "{mode}");
        }
        assert!(results.conservation.dropped.is_empty(), "{mode}: {:?}", results.conservation);
    }
}

#[test]
fn plain_mode_reorders_over_links_of_different_delay_and_loses_nothing() {
    let mut scenario = between_hosts(Mode::Plain, &THREE, 3);
    flow(&mut scenario, 100_000_000, 1400, 500, 2500);
    let results = run(&scenario);
    let flow = &results.flows[0];
    assert_eq!(flow.received, flow.sent);
    assert!(flow.reordering.as_ref().unwrap().ratio > 0.3, "{:?}", flow.reordering);
}

#[test]
fn duplicate_mode_delivers_once_what_one_of_two_lossy_links_brings() {
    let mut scenario = between_hosts(Mode::Duplicate, &[(20, 10), (20, 30)], 5);
    for link in &mut scenario.links {
        link.profile.loss = Loss::Independent(0.2);
    }
    flow(&mut scenario, 10_000_000, 1000, 1000, 4000);
    let results = run(&scenario);
    let flow = &results.flows[0];
    let share = flow.received as f64 / flow.sent as f64;
    // 4 % lose both copies; 3750 packets: standard deviation 0.32 %.
    assert!((0.947..0.973).contains(&share), "{share}");
    // Who has lost both is dropped at the bond, once, with a frame at each link.
    let lost = results.conservation.dropped.iter().find(|d| d.place == "bond" && d.reason == "frame lost").unwrap();
    assert_eq!(lost.packets, flow.sent - flow.received);
    assert!(counter(&results, 1, "duplicates") > 2000);
}

#[test]
fn an_outage_of_one_link_is_survived() {
    for mode in [Mode::Ordered, Mode::Backup, Mode::Stripe] {
        let mut scenario = between_hosts(mode, &[(50, 5), (50, 20)], 12);
        // Link 0, both ways, from 4 s to 7 s.
        for link in &mut scenario.links[..2] {
            let (start, length) = (Span::from_secs(4), Span::from_secs(3));
            link.profile.outages = vec![Outage { start, length, every: None }];
            link.profile.during_outage = DuringOutage::Lose;
        }
        flow(&mut scenario, 20_000_000, 1000, 1000, 11_000);
        let results = run(&scenario);
        let flow = &results.flows[0];
        // Half of the packets, or all in mode backup, until silence is noticed after a second.
        let missing = flow.sent - flow.received;
        assert!((100..3_000).contains(&missing), "{mode}: {missing} of {}", flow.sent);
        assert_eq!(counter(&results, 0, "channel_downs"), 1, "{mode}");
        assert_eq!(counter(&results, 0, "channel_ups"), 3, "{mode}: two at the start, and once more");
        // The link is used again.
        assert!(results.links[0].packets > 5_000, "{mode}: {:?}", results.links[0]);
    }
}

#[test]
fn a_lossy_bond_conserves_packets_at_any_instant() {
    for mode in [Mode::Ordered, Mode::Stripe, Mode::Duplicate, Mode::Backup, Mode::Plain, Mode::Flow] {
        let mut scenario = between_hosts(mode, &THREE, 1);
        for link in &mut scenario.links {
            link.profile.loss = Loss::Independent(0.05);
            link.profile.queue = Limit::Packets(20);
        }
        // More than the links carry.
        flow(&mut scenario, 200_000_000, 1400, 100, 950);
        flow(&mut scenario, 3_000_000, 1600, 100, 950);
        let mut world = World::new(&scenario).unwrap();
        for ms in (0..1000).step_by(17) {
            world.advance(Time::from_millis(ms));
            world.check_conservation().unwrap();
        }
        let results = world.finish().unwrap();
        assert!(results.flows[0].received > 1000, "{mode}");
        assert_eq!(results.flows[1].received, 0, "{mode}: longer than the MTU, with DF set");
        let why = |reason: &str| results.conservation.dropped.iter().any(|d| d.place == "bond" && d.reason == reason);
        assert!(why("host_too_big") && why("queue_full"), "{mode}: {:?}", results.conservation.dropped);
        assert!(!why("bond"), "{mode}: every drop is explained: {:?}", results.conservation.dropped);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let mut scenario = between_hosts(Mode::Ordered, &THREE, 2);
    for link in &mut scenario.links {
        link.profile.loss = Loss::Independent(0.01);
    }
    flow(&mut scenario, 120_000_000, 1400, 0, 2000);
    let (a, b) = (run(&scenario), run(&scenario));
    assert_eq!(a, b);
    scenario.seed = 2;
    assert_ne!(run(&scenario).log_hash, a.log_hash);
}

#[test]
fn what_is_recorded_in_the_simulator_replays_byte_for_byte() {
    for mode in [Mode::Ordered, Mode::Stripe, Mode::Duplicate, Mode::Flow] {
        let mut scenario = between_hosts(mode, &THREE, 3);
        for link in &mut scenario.links {
            link.profile.loss = Loss::Independent(0.02);
        }
        flow(&mut scenario, 60_000_000, 1200, 100, 2500);
        let mut world = World::new(&scenario).unwrap();
        world.record_bond(0).unwrap();
        world.advance(Time::from_millis(3000));
        for end in 0..2 {
            let log = world.take_recording(0, end).unwrap();
            let replayed = record::replay(&log, |_| ()).unwrap();
            assert!(replayed.digests > 10 && replayed.frames > 10, "{mode}, end {end}: {replayed:?}");
            assert!(end == 0 || replayed.packets > 5_000, "{mode}: {replayed:?}");
        }
        // Without payload bytes the run is the same.
        let hash = world.log_hash();
        assert_eq!(run(&scenario).log_hash, hash, "{mode}");
    }
}

/// Hosts `a` and `b` and a bond of 10 Mbit/s to hosts `c` and `d`; three flows of 10 Mbit/s each come from `a`, one from `b`, and only the
/// first goes to `c`.
fn of_two_hosts(discipline: &str) -> Scenario {
    let mut text = format!(
        "duration = \"6s\"\nwarm_up = \"2s\"\n[[node]]\nname = [\"a\", \"b\", \"near\", \"far\", \"c\", \"d\"]\nkind = \"router\"\n\
         [[bond]]\nname = \"bond\"\nends = [\"near\", \"far\"]\nlinks = [\"wire\"]\n{discipline}\n"
    );
    for (name, from, to, rate) in [
        ("from-a", "a", "near", "unlimited"),
        ("from-b", "b", "near", "unlimited"),
        ("wire", "near", "far", "10Mbit"),
        ("to-c", "far", "c", "unlimited"),
        ("to-d", "far", "d", "unlimited"),
    ] {
        text += &format!(
            "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}\"\ndelay = \"1ms\"\n"
        );
    }
    for (name, from, to) in [("one", "a", "c"), ("two", "a", "d"), ("three", "a", "d"), ("four", "b", "d")] {
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nkind = \"constant\"\nrate = \"10Mbit\"\nsize = \"1000B\"\n"
        );
    }
    let file = File::parse_with("hosts", &text, &[], &mut |name: &str| Err(format!("no file is needed: {name}")));
    file.unwrap().run(0).unwrap().unwrap().scenario
}

#[test]
fn the_nodes_of_a_scenario_are_the_hosts_that_share_a_bond_however_many_flows_each_has() {
    for (discipline, expected) in [
        ("", [1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 0.5]),
        ("discipline = \"hosts:by=destination\"", [0.5, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]),
        ("discipline = \"drr\"", [0.25; 4]),
    ] {
        let flows = run(&of_two_hosts(discipline)).flows;
        let sum: f64 = flows.iter().map(|flow| flow.throughput).sum();
        let shares: Vec<f64> = flows.iter().map(|flow| flow.throughput / sum).collect();
        // A packet or two of each flow at the ends of 4 s.
        let near = shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 0.003);
        assert!(near, "{discipline}: {shares:?}");
    }
}

#[test]
fn a_recording_knows_the_hosts_of_a_simulation() {
    let scenario = of_two_hosts("");
    let mut world = World::new(&scenario).unwrap();
    world.record_bond(0).unwrap();
    world.advance(Time::from_millis(3000));
    for end in 0..2 {
        let replayed = record::replay(&world.take_recording(0, end).unwrap(), |_| ()).unwrap();
        assert!(replayed.digests > 10 && replayed.frames > 10, "end {end}: {replayed:?}");
    }
    let hash = world.log_hash();
    let mut unrecorded = World::new(&scenario).unwrap();
    unrecorded.advance(Time::from_millis(3000));
    assert_eq!(unrecorded.log_hash(), hash);
}

#[test]
fn a_channel_without_a_rate_is_held_back_by_its_link_instead_of_overrunning_it() {
    let mut scenario = between_hosts(Mode::Ordered, &[(20, 5), (20, 5)], 4);
    for channel in &mut scenario.bonds[0].config.channels {
        channel.rate = None;
    }
    for link in &mut scenario.links {
        link.profile.queue = Limit::Packets(50);
    }
    flow(&mut scenario, 60_000_000, 1400, 0, 4000);
    scenario.warm_up = Span::from_secs(1);
    let results = run(&scenario);
    assert_eq!(results.links.iter().map(|l| l.dropped).sum::<u64>(), 0);
    // 40 Mbit/s, of which 1400 of 1454 bytes are the packet.
    assert!((38.2e6..38.7e6).contains(&results.flows[0].throughput), "{}", results.flows[0].throughput);
    let full = results.conservation.dropped.iter().find(|d| d.reason == "host queue full").unwrap();
    assert!(full.packets > 2_000, "the host's queue overflows instead: {full:?}");
}

#[test]
fn round_robin_over_unequal_links_gives_twice_the_slower_and_srr_the_sum() {
    let rate = |scheduler| {
        let mut scenario = between_hosts(Mode::Stripe, &[(30, 5), (10, 5)], 5);
        scenario.bonds[0].config.scheduler = scheduler;
        flow(&mut scenario, 60_000_000, 1400, 0, 5000);
        scenario.warm_up = Span::from_secs(1);
        let results = run(&scenario);
        assert_eq!(results.flows[0].reordering.as_ref().unwrap().ratio, 0.0);
        results.flows[0].throughput / 1e6
    };
    // Each packet has 44 bytes on top (2 envelope, 28 outer headers, 14 framing): 0.9695 of the line, of which markers take
    // 0.5 % and more: one of 90 bytes a channel in eight rounds of about 6 kB.
    let (srr, grr, rr) = (rate(Scheduler::Srr), rate(Scheduler::Grr), rate(Scheduler::Rr));
    assert!((38.3..38.8).contains(&srr), "{srr}");
    assert!((38.3..38.8).contains(&grr), "{grr}");
    assert!((19.2..19.5).contains(&rr), "{rr}");
}

#[test]
fn a_bond_of_wrong_settings_or_paths_is_refused_by_name() {
    let error = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = between_hosts(Mode::Ordered, &THREE, 1);
        change(&mut scenario);
        World::new(&scenario).unwrap_err().to_string()
    };
    assert!(error(&|s| s.bonds[0].config.buckets = 0).contains("bond `bond`: buckets is 0"));
    assert!(
        error(&|s| drop(s.bonds[0].config.channels.pop())).contains("settings for 2 channels; there are paths for 3")
    );
    assert!(error(&|s| s.bonds[0].channels[1][0] = vec![1]).contains("bond `bond`, channel 1 from end 0"));
    assert!(error(&|s| s.bonds[0].channels[2][1] = vec![]).contains("path is empty"));
}

/// Goodput in Mbit/s of one TCP connection, and the share of its packets that came out of order.
fn tcp_over(scenario: &Scenario) -> (f64, f64) {
    let mut scenario = scenario.clone();
    // As the demo's: 23 bytes of encryption and 28 of outer headers, and a queue of 100 ms.
    for channel in &mut scenario.bonds[0].config.channels {
        channel.overhead = 51;
    }
    for link in &mut scenario.links {
        let fairspan_core::link::Capacity::Constant(rate) = link.profile.capacity else { panic!("a constant rate") };
        link.profile.queue = Limit::Bytes(rate.bytes_in(Span::from_millis(100)).as_u64());
    }
    (scenario.duration, scenario.warm_up) = (Span::from_secs(12), Span::from_secs(4));
    let tcp = Transport::Tcp(fairspan_sim::tcp::Config::preset("linux").unwrap().into());
    let endless = traffic::Config::Ftp { bytes: None, writes: None };
    scenario.flows.push(over_bond("tcp", [1000, 12_000], endless, tcp));
    let results = run(&scenario);
    let flow = &results.flows[0];
    (flow.goodput / 1e6, flow.reordering.as_ref().unwrap().ratio)
}

#[test]
fn one_tcp_connection_gets_what_it_gets_in_the_gateways_demo() {
    // docs/demo.json: 90.67 + 36.32 + 9.06 = 136.05 Mbit/s one by one, 137.74 bonded, 15.8 by round robin without order.
    let singles: Vec<f64> = THREE.iter().map(|link| tcp_over(&between_hosts(Mode::Ordered, &[*link], 1)).0).collect();
    for (single, demo) in singles.iter().zip([90.67, 36.32, 9.06]) {
        assert!((single / demo - 1.0).abs() < 0.02, "{singles:?}");
    }
    let sum: f64 = singles.iter().sum();
    let (ordered, reordered) = tcp_over(&between_hosts(Mode::Ordered, &THREE, 1));
    assert_eq!(reordered, 0.0);
    assert!((0.98..1.03).contains(&(ordered / sum)), "{ordered} of {sum}");
    let mut plain = between_hosts(Mode::Plain, &THREE, 1);
    plain.bonds[0].config.scheduler = Scheduler::Rr;
    let (plain, reordered) = tcp_over(&plain);
    assert!(reordered > 0.1, "{reordered}");
    assert!((0.05..0.25).contains(&(plain / sum)), "{plain} of {sum}");
}

#[test]
fn a_captured_frame_shows_the_envelope_and_the_packet_inside() {
    let mut scenario = between_hosts(Mode::Ordered, &[(10, 5)], 1);
    scenario.metrics.capture = vec![0];
    flow(&mut scenario, 1_000_000, 500, 500, 600);
    let mut world = World::new(&scenario).unwrap();
    world.advance(Time::from_millis(1000));
    let captured = world.take_captured();
    // Outer IPv4 and UDP without checksum, 10 bytes of envelope of kind 1, the packet's own headers.
    let data: Vec<_> = captured.iter().filter(|c| c.bytes.get(28) == Some(&0x21)).collect();
    assert_eq!(data.len() as u64, 26, "100 ms of 250 packets a second, the first and the last counted");
    for frame in data {
        assert_eq!((frame.length, frame.bytes[9], &frame.bytes[26..28]), (538, 17, &[0, 0][..]));
        let inner = fairspan_sim::wire::decode(&frame.bytes[38..]).unwrap();
        assert_eq!((inner.flow, inner.size), (0, 500));
    }
}
