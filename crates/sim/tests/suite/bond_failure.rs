//! A link of a bond fails without a word, under one TCP connection and a thousand datagrams a second: the longest gap that the applications see.

use crate::common::{UDP, bonded, channel, constant, download, over_bond};
use fairspan_core::bond::Config;
use fairspan_core::link::{DuringOutage, Limit, Outage, Profile};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::model::Scenario;
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

/// A link, the same both ways: Mbit/s, and delay in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Path(u64, u64);

/// In which directions the second link fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    Both,
    There,
    Back,
    Never,
}

/// Two hosts and a bond over these links, nobody having said any rate, with queues of 200 ms.
fn between_hosts(paths: &[Path], fails: Fails, outage: &Outage) -> Scenario {
    let channels = paths.iter().enumerate().map(|(n, &Path(rate, delay))| {
        let profile = |way: Fails| {
            let rate = Rate::from_mbit(rate);
            let mut profile = Profile::new(rate, Span::from_millis(delay));
            profile.queue = Limit::Bytes(rate.bytes_in(Span::from_millis(200)).as_u64());
            if n == 1 && (fails == Fails::Both || fails == way) {
                (profile.outages, profile.during_outage) = (vec![*outage], DuringOutage::Lose);
            }
            profile
        };
        (channel(58), [Fails::There, Fails::Back].map(profile))
    });
    bonded(Config::usual(), channels)
}

/// One TCP connection (CUBIC) and 1000 datagrams of 200 bytes a second from 5 s on; gaps count from `from` to `until`.
fn run(mut scenario: Scenario, from: Span, until: Span) -> Results {
    (scenario.duration, scenario.warm_up) = (until, from);
    scenario.flows.push(download([5_000, 600_000]));
    scenario.flows.push(over_bond("paced", [5_000, 600_000], constant(1_600_000, 200), UDP));
    World::new(&scenario).unwrap().finish().unwrap()
}

fn counter(results: &Results, end: usize, name: &str) -> u64 {
    results.bonds[end].counters.iter().find(|(counter, _)| counter == name).expect(name).1
}

const SECONDS: fn(u64) -> Span = Span::from_secs;

#[test]
fn a_silent_failure_under_load_is_a_short_gap_and_a_second_after_the_return_all_is_as_before() {
    let outage = Outage { start: SECONDS(10), length: SECONDS(3), every: None };
    for paths in [
        [Path(50, 20), Path(50, 20)],
        [Path(50, 20), Path(50, 70)],
        [Path(100, 10), Path(20, 10)],
        [Path(20, 10), Path(100, 10)],
    ] {
        for fails in [Fails::Both, Fails::There, Fails::Back] {
            let results = run(between_hosts(&paths, fails, &outage), Span::from_millis(9_500), SECONDS(14));
            let [tcp, paced] = [&results.flows[0], &results.flows[1]];
            let said = format!("{paths:?} {fails:?}: gaps of {:.3} and {:.3} s", tcp.gap, paced.gap);
            println!("{said}");
            // Where TCP's window is several times too large for what is left, it waits there, and loses some of it, perhaps twice: then it
            // waits for its own timeout.
            let most = if paths[1].0 > 2 * paths[0].0 || paths[1].1 > 2 * paths[0].1 { 1.5 } else { 0.5 };
            assert!(tcp.gap <= most && paced.gap <= 0.5, "{said}");
            assert_eq!(counter(&results, 1, "packets_missing"), 0, "{said}");
            assert_eq!(paced.reordering.as_ref().unwrap().ratio, 0.0, "{said}");
        }
        let goodput = |fails| {
            let results = run(between_hosts(&paths, fails, &outage), SECONDS(14), SECONDS(18));
            results.flows[0].goodput / 1e6
        };
        let (before, after) = (goodput(Fails::Never), goodput(Fails::Both));
        println!("{paths:?}: {after:.1} Mbit/s, and {before:.1} where nothing failed");
        assert!(after >= 0.95 * before, "{paths:?}: {after:.1} of {before:.1} Mbit/s");
    }
}
