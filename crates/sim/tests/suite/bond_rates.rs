//! Links whose rate changes while more is sent than they carry, and a bond that is told of no rate.

use crate::common::{UDP, bonded, channel, constant, download, over_bond};
use fairspan_core::bond::{Compression, Config};
use fairspan_core::link::{Capacity, Limit, Loss, Profile, Series};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

/// When a rate changes, and how long after that the bond is to have found it.
const CHANGE: Span = Span::from_secs(8);
const FOUND: Span = Span::from_secs(2);
/// Data in a datagram, and its frame on the link: IP and UDP inside, envelope, encryption and outer headers, Ethernet's.
const DATA: u32 = 1400;
const FRAME: f64 = 1400.0 + 28.0 + 15.0 + 51.0 + 14.0;

/// A link, the same both ways: Mbit/s before and after the change, and delay in milliseconds.
struct Path(u64, u64, u64);

/// Datagrams of `data` bytes at one and a half times what the links carry, measured for the two seconds that begin [`FOUND`] after the change.
fn run(paths: &[Path], data: u32) -> Results {
    let channels = paths.iter().map(|&Path(before, after, delay)| {
        let mut profile = Profile::new(Rate::from_mbit(before), Span::from_millis(delay));
        let steps = vec![(Span::ZERO, Rate::from_mbit(before)), (CHANGE, Rate::from_mbit(after))];
        profile.capacity = Capacity::Series(Series::new(steps, Span::from_secs(100)).unwrap());
        profile.queue = Limit::Packets(1000);
        (channel(58), [profile.clone(), profile])
    });
    let mut scenario = bonded(Config::usual(), channels);
    let most = paths.iter().map(|path| path.0).sum::<u64>().max(all_after(paths));
    scenario.warm_up = CHANGE + FOUND;
    scenario.duration = scenario.warm_up + Span::from_secs(2);
    let until = scenario.duration.as_nanos() / 1_000_000;
    scenario.flows.push(over_bond("udp", [2000, until], constant(most * 1_500_000, data), UDP));
    World::new(&scenario).unwrap().finish().unwrap()
}

fn all_after(paths: &[Path]) -> u64 {
    paths.iter().map(|path| path.1).sum()
}

fn counter(results: &Results, name: &str) -> u64 {
    results.bonds[0].counters.iter().find(|(counter, _)| counter == name).unwrap().1
}

#[test]
fn two_seconds_after_a_link_became_four_times_slower_or_faster_all_are_full() {
    for paths in [
        [Path(100, 25, 10), Path(40, 40, 30)],
        [Path(100, 100, 10), Path(40, 10, 30)],
        [Path(48, 12, 20), Path(50, 50, 20)],
        [Path(300, 75, 8), Path(30, 30, 40)],
        [Path(40, 10, 35), Path(20, 20, 320)],
        [Path(20, 5, 10), Path(8, 8, 60)],
        [Path(25, 100, 10), Path(40, 40, 30)],
        [Path(100, 100, 10), Path(10, 40, 30)],
    ] {
        let results = run(&paths, DATA);
        let carried = all_after(&paths) as f64 * f64::from(DATA) / FRAME;
        let share = results.flows[0].goodput / 1e6 / carried;
        let name = paths.map(|Path(before, after, delay)| format!("{before} to {after} Mbit/s, {delay} ms"));
        assert!(share >= 0.9, "{name:?}: {share:.3} of what the links carry");
        assert_eq!(
            counter(&results, "channel_downs"),
            0,
            "{name:?}: a link that became slower was taken for one that failed"
        );
    }
}

/// Rates are given, but the links jitter and lose: what goes again on one of them takes of its pace.
#[test]
fn of_links_whose_rates_are_given_none_waits_for_another() {
    let [by_pace, in_turn] = [true, false].map(|by_pace| {
        let goodputs = [1, 2, 3].map(|seed| {
            let channels = [(40, 35, 8, 0.0), (100, 50, 25, 0.01)].map(|(rate, delay, jitter, loss)| {
                let mut profile = Profile::new(Rate::from_mbit(rate), Span::from_millis(delay));
                (profile.jitter, profile.loss) = (Span::from_millis(jitter), Loss::Independent(loss));
                profile.queue = Limit::Packets(1000);
                let mut settings = channel(58);
                settings.rate = Some(Rate::from_mbit(rate));
                (settings, [profile.clone(), profile])
            });
            let mut config = Config::usual();
            config.confirm_mtu = Span::from_millis(100);
            (config.by_pace, config.parity, config.compress_headers) = (by_pace, true, Compression::Auto);
            let mut scenario = bonded(config, channels);
            scenario.seed = seed;
            (scenario.warm_up, scenario.duration) = (Span::from_secs(5), Span::from_secs(15));
            scenario.flows.push(download([2_000, 15_000]));
            World::new(&scenario).unwrap().finish().unwrap().flows[0].goodput / 1e6
        });
        goodputs.iter().sum::<f64>() / 3.0
    });
    assert!(by_pace >= 1.03 * in_turn, "{by_pace:.1} and {in_turn:.1} Mbit/s");
}

/// What is held for the delay that packets usually have is held so from the first packet on. A delay that grew in the midst of a connection's
/// start would end it, far below what the links carry.
#[test]
fn a_connection_that_begins_while_rates_are_still_measured_finds_what_the_links_carry() {
    let after = |start: u64| {
        let goodputs = [1, 2, 3].map(|seed| {
            let channels = [(40, 35, 8), (100, 50, 25)].map(|(rate, delay, jitter)| {
                let mut profile = Profile::new(Rate::from_mbit(rate), Span::from_millis(delay));
                (profile.jitter, profile.queue) = (Span::from_millis(jitter), Limit::Packets(1000));
                (channel(58), [profile.clone(), profile])
            });
            let mut scenario = bonded(Config::usual(), channels);
            scenario.seed = seed;
            (scenario.warm_up, scenario.duration) =
                (Span::from_millis(start + 2_500), Span::from_millis(start + 5_000));
            scenario.flows.push(download([start, start + 5_000]));
            World::new(&scenario).unwrap().finish().unwrap().flows[0].goodput / 1e6
        });
        goodputs.iter().sum::<f64>() / 3.0
    };
    let [soon, late] = [1_000, 5_000].map(after);
    assert!(soon >= 0.25 * late, "{soon:.1} and {late:.1} Mbit/s");
}

/// The peer hears nothing of them and says little itself, which is no silence.
#[test]
fn packets_that_are_too_long_for_the_bond_take_no_channel_out_of_use() {
    let results = run(&[Path(100, 100, 10), Path(40, 40, 30)], 1460);
    assert!(counter(&results, "host_too_big") > 100_000);
    assert_eq!((results.flows[0].received, counter(&results, "channel_downs")), (0, 0));
}
