//! Mode `reliable` in the world: links that lose, and a TCP connection that sees none of it.

use crate::common::{UDP, bonded, channel, constant, download, over_bond};
use fairspan_core::bond::{Config, Mode};
use fairspan_core::link::{Limit, Loss, Profile};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::model::{Flow, Scenario};
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

/// A link, the same both ways: Mbit/s, delay and jitter in milliseconds, loss.
#[derive(Clone)]
struct Path(u64, u64, u64, Loss);

/// Envelope, encryption and outer headers of a frame in mode `reliable`, and TCP's and IP's own, of 1500 bytes and framing.
const PAYLOAD_SHARE: f64 = (1500.0 - 15.0 - 51.0 - 52.0) / 1514.0;

const CLEAN: Loss = Loss::None;

const fn random(share: f64) -> Loss {
    Loss::Independent(share)
}

/// Two hosts and a bond over these links, with queues of 1000 packets as a stock emulator has.
fn between_hosts(mode: Mode, paths: &[Path]) -> Scenario {
    let mut config = Config::default();
    config.mode = mode;
    let channels = paths.iter().map(|&Path(rate, delay, jitter, loss)| {
        let mut settings = channel(58);
        settings.rate = Some(Rate::from_mbit(rate));
        let mut profile = Profile::new(Rate::from_mbit(rate), Span::from_millis(delay));
        (profile.jitter, profile.loss, profile.queue) = (Span::from_millis(jitter), loss, Limit::Packets(1000));
        (settings, [profile.clone(), profile])
    });
    bonded(config, channels)
}

/// The same without a rate at any channel: each is measured, or none is.
fn unrated(mut scenario: Scenario, measured: bool) -> Scenario {
    let config = &mut scenario.bonds[0].config;
    config.measure_rates = measured;
    config.channels.iter_mut().for_each(|channel| channel.rate = None);
    scenario
}

/// One TCP connection (CUBIC), measured for twenty seconds after the first ten.
fn tcp(scenario: Scenario, seed: u64) -> Results {
    tcp_from(scenario, 1, seed)
}

/// One that begins at this second.
fn tcp_from(scenario: Scenario, second: u64, seed: u64) -> Results {
    tcp_between(scenario, [1000 * second, 30_000], 10, seed)
}

/// One that goes between these milliseconds, and is measured from this second on.
fn tcp_between(mut scenario: Scenario, [start, stop]: [u64; 2], warm_up: u64, seed: u64) -> Results {
    (scenario.duration, scenario.warm_up) = (Span::from_millis(stop), Span::from_secs(warm_up));
    scenario.seed = seed;
    scenario.flows.push(download([start, stop]));
    World::new(&scenario).unwrap().finish().unwrap()
}

fn goodput(results: &Results) -> f64 {
    results.flows[0].goodput / 1e6
}

/// What the links carry of a TCP connection's data, in Mbit/s.
fn capacity(paths: &[Path]) -> f64 {
    let lost = |loss: &Loss| match loss {
        Loss::Independent(share) => *share,
        Loss::Gilbert { p, r, bad, good } => (p * bad + r * good) / (p + r),
        _ => 0.0,
    };
    paths.iter().map(|Path(rate, _, _, loss)| *rate as f64 * (1.0 - lost(loss)) * PAYLOAD_SHARE).sum()
}

fn counter(results: &Results, end: usize, name: &str) -> u64 {
    results.bonds[end].counters.iter().find(|(counter, _)| counter == name).expect(name).1
}

/// At least `share` of what the links carry, nothing lost and nothing out of order.
fn fills(name: &str, paths: &[Path], share: f64) -> f64 {
    fills_with(name, paths, share, 1)
}

fn fills_with(name: &str, paths: &[Path], share: f64, seed: u64) -> f64 {
    let results = tcp(between_hosts(Mode::Reliable, paths), seed);
    let (got, all) = (goodput(&results), capacity(paths));
    assert!(got >= share * all, "{name}: {got:.1} of {all:.1} Mbit/s");
    assert_eq!(results.flows[0].reordering.as_ref().unwrap().ratio, 0.0, "{name}");
    assert_eq!(counter(&results, 1, "packets_missing"), 0, "{name}");
    got
}

#[test]
fn a_link_that_loses_takes_nothing_from_one_tcp_connection() {
    fills("fiber_lte", &[Path(300, 8, 0, CLEAN), Path(30, 40, 8, random(0.005))], 0.97);
    fills("dual_lte", &[Path(40, 30, 5, random(0.005)), Path(25, 45, 8, random(0.005))], 0.93);
    fills("loss_05", &[Path(50, 20, 0, random(0.005)), Path(50, 20, 0, random(0.005))], 0.95);
    fills("loss_2", &[Path(50, 20, 0, random(0.02)), Path(50, 20, 0, random(0.02))], 0.95);
}

#[test]
fn the_second_link_adds_its_rate_although_it_loses_one_in_a_hundred() {
    let lossy = fills("lossy", &[Path(100, 10, 0, CLEAN), Path(40, 30, 0, random(0.01))], 0.95);
    let clean = fills("clean", &[Path(100, 10, 0, CLEAN), Path(40, 30, 0, CLEAN)], 0.95);
    assert!(lossy >= 118.0 && lossy >= 0.95 * clean, "{lossy:.1} where {clean:.1} come without loss");
    let ordered =
        goodput(&tcp(between_hosts(Mode::Ordered, &[Path(100, 10, 0, CLEAN), Path(40, 30, 0, random(0.01))]), 1));
    assert!(ordered < 0.2 * lossy, "the check sees what a loss does: {ordered:.1}");
}

#[test]
fn delays_that_jump_take_little_from_one_tcp_connection() {
    fills("lte_starlink", &[Path(40, 35, 8, CLEAN), Path(100, 50, 25, random(0.01))], 0.8);
    fills("jit_20", &[Path(50, 20, 20, CLEAN), Path(50, 20, 20, CLEAN)], 0.85);
    // One packet in 125,000 is lost three times, and 26,000 go: none of these with seed 3, and one with three seeds of 16.
    fills_with("congested", &[Path(20, 50, 20, random(0.02)), Path(15, 60, 25, random(0.02))], 0.5, 3);
}

#[test]
fn a_satellite_link_beside_a_fast_one_makes_the_bond_no_slower_than_that() {
    let paths = [Path(40, 35, 0, CLEAN), Path(20, 320, 20, random(0.005))];
    let alone = goodput(&tcp(between_hosts(Mode::Ordered, &paths[..1]), 1));
    let bond = fills("lte_geo", &paths, 0.8);
    assert!(bond > alone, "{bond:.1} where one link has {alone:.1}");
}

#[test]
fn losses_in_bursts_are_mended_too() {
    // One packet in 200 begins a burst, which loses half of some ten packets.
    let bursts = Loss::Gilbert { p: 0.002, r: 0.1, bad: 0.5, good: 0.0 };
    fills("one", &[Path(100, 10, 0, CLEAN), Path(40, 30, 0, bursts)], 0.9);
    fills("both", &[Path(50, 20, 0, bursts), Path(50, 30, 0, bursts)], 0.85);
}

/// A call of 50 packets of 200 bytes a second beside the TCP connection: its delay, and how many second frames there were.
fn call(paths: &[Path], twice: bool) -> (Results, u64) {
    let mut scenario = between_hosts(Mode::Reliable, paths);
    scenario.bonds[0].config.spare_copies = twice;
    scenario.metrics.delay = true;
    let call = over_bond("call", [1000, 60_000], constant(80_000, 200), UDP);
    scenario.flows.push(Flow { back: vec![], dscp: 46, ..call });
    let results = tcp(scenario, 1);
    let copies = counter(&results, 0, "urgent_copies");
    (results, copies)
}

#[test]
fn a_call_beside_bulk_data_waits_for_no_repair_where_every_link_loses() {
    for (name, paths) in [
        ("alike", [Path(20, 20, 0, random(0.01)), Path(10, 25, 0, random(0.01))]),
        ("unlike", [Path(20, 20, 0, random(0.01)), Path(10, 200, 0, random(0.01))]),
    ] {
        let within = |results: &Results| results.flows[0].delay.percentiles.expect("percentiles").p999;
        let (results, copies) = call(&paths, true);
        let call = &results.flows[0];
        // The last one is still on its way.
        assert!(call.sent > 900 && call.received + 1 >= call.sent, "{name}: {} of {}", call.received, call.sent);
        assert!(copies > 900, "{name}: {copies}");
        assert!(within(&results) <= 0.040, "{name}: {:?}", call.delay);
        let (results, copies) = self::call(&paths, false);
        assert_eq!(copies, 0);
        assert!(within(&results) > 0.050, "{name}: the check sees what a loss does: {:?}", results.flows[0].delay);
    }
}

#[test]
fn channels_whose_rates_nobody_says_carry_most_of_what_their_links_can() {
    let pairs = [
        ("alike", [Path(50, 20, 0, CLEAN), Path(50, 20, 0, CLEAN)], 0.93),
        ("delays", [Path(50, 20, 0, CLEAN), Path(50, 70, 0, CLEAN)], 0.93),
        ("rates", [Path(100, 20, 0, CLEAN), Path(10, 20, 0, CLEAN)], 0.93),
        ("fiber_lte", [Path(300, 8, 0, CLEAN), Path(30, 40, 8, random(0.005))], 0.8),
        ("loss_2", [Path(50, 20, 0, random(0.02)), Path(50, 20, 0, random(0.02))], 0.93),
    ];
    // The trains that measure the paths go in the first seconds.
    let share_of = |name: &str, paths: &[Path], seed| {
        let results = tcp_from(unrated(between_hosts(Mode::Reliable, paths), true), 5, seed);
        assert_eq!(results.flows[0].reordering.as_ref().unwrap().ratio, 0.0, "{name}, seed {seed}");
        assert_eq!(counter(&results, 1, "packets_missing"), 0, "{name}, seed {seed}");
        goodput(&results) / capacity(paths)
    };
    for (name, paths, share) in pairs {
        let got = share_of(name, &paths, 1);
        assert!(got >= share, "{name}: {got:.3} of the sum");
    }
    // Jitter and losses together end TCP's start sooner or later, by chance: the middle one of three.
    let paths = [Path(40, 30, 5, random(0.005)), Path(25, 45, 8, random(0.005))];
    let mut shares = [1, 2, 3].map(|seed| share_of("dual_lte", &paths, seed));
    shares.sort_by(f64::total_cmp);
    assert!(shares[1] >= 0.85, "dual_lte: {shares:.3?} of the sum");
    let paths = [Path(100, 20, 0, CLEAN), Path(10, 20, 0, CLEAN)];
    let results = tcp_from(unrated(between_hosts(Mode::Reliable, &paths), false), 5, 1);
    assert!(goodput(&results) < 0.3 * capacity(&paths), "equal shares make both as slow as the slower one");
}

/// Mbit/s of one TCP connection in the first second after it began.
fn first_second(scenario: Scenario) -> f64 {
    goodput(&tcp_between(scenario, [5000, 6000], 5, 1))
}

#[test]
fn a_channel_that_adds_little_delays_nothing_until_it_is_needed() {
    let paths = [Path(300, 8, 0, CLEAN), Path(30, 40, 8, random(0.005))];
    let alone = first_second(between_hosts(Mode::Ordered, &paths[..1]));
    for measured in [false, true] {
        let [mut with, mut without] = [(); 2].map(|()| match measured {
            true => unrated(between_hosts(Mode::Reliable, &paths), true),
            false => between_hosts(Mode::Reliable, &paths),
        });
        with.bonds[0].config.reserve = true;
        without.bonds[0].config.reserve = false;
        let (with, without) = (first_second(with), first_second(without));
        assert!(with >= 0.95 * alone, "{with:.0} where the fibre alone has {alone:.0} Mbit/s");
        assert!(without < 0.8 * alone, "the check sees what the slow channel costs: {without:.0} of {alone:.0} Mbit/s");
    }
}

#[test]
fn a_channel_in_reserve_is_called_when_the_others_are_not_enough() {
    let paths = [Path(300, 8, 0, CLEAN), Path(30, 40, 8, random(0.005))];
    // What was measured of a channel before it lay idle is not exact.
    let alone = capacity(&paths[..1]);
    for (measured, least) in [(false, 0.95 * capacity(&paths)), (true, 0.9 * alone)] {
        let mut scenario = between_hosts(Mode::Reliable, &paths);
        if measured {
            scenario = unrated(scenario, true);
        }
        scenario.bonds[0].config.reserve = true;
        let results = tcp_between(scenario, [5000, 60_000], 30, 1);
        let got = goodput(&results);
        assert!(counter(&results, 0, "reserve_calls") > 0);
        assert!(got >= least, "measured {measured}: {got:.1} Mbit/s, where the fibre alone has {alone:.1}");
        assert_eq!(results.flows[0].reordering.as_ref().unwrap().ratio, 0.0);
        assert_eq!(counter(&results, 1, "packets_missing"), 0);
    }
}
