//! Traffic classes in the world: what a call has of one, and what that takes from a download.

use crate::common::{UDP, bonded, channel, constant, download, over_bond};
use fairspan_core::bond::Config;
use fairspan_core::link::{Limit, Profile};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::model::{Flow, Scenario};
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

/// Two hosts and a bond of links of these rates (Mbit/s) and delays (ms), with these classes at both ends. Rates are `known`, or measured.
fn between_hosts(paths: &[(u64, u64)], known: bool, classes: &str) -> Scenario {
    let mut config = Config::usual();
    config.classes = classes.parse().unwrap();
    let mut scenario = bonded(
        config,
        paths.iter().enumerate().map(|(n, &(rate, delay))| {
            let mut settings = channel(58);
            settings.name = format!("link{n}");
            settings.rate = known.then_some(Rate::from_mbit(rate));
            let mut profile = Profile::new(Rate::from_mbit(rate), Span::from_millis(delay));
            profile.queue = Limit::Packets(1000);
            (settings, [profile.clone(), profile])
        }),
    );
    scenario.metrics.delay = true;
    scenario
}

/// A download by one TCP connection (CUBIC) from the second second on, and a call of 50 packets of 200 bytes a second, without a code point:
/// measured from the tenth second to the thirtieth.
fn with_call(paths: &[(u64, u64)], known: bool, classes: &str) -> Scenario {
    let mut scenario = between_hosts(paths, known, classes);
    (scenario.duration, scenario.warm_up) = (Span::from_secs(30), Span::from_secs(10));
    scenario.flows.push(download([2000, 30_000]));
    let call = over_bond("call", [300, 30_000], constant(80_000, 200), UDP);
    scenario.flows.push(Flow { back: vec![], ..call });
    scenario
}

/// The same, run, without what the bond does by itself for flows that send little.
fn download_and_call(paths: &[(u64, u64)], known: bool, classes: &str) -> Results {
    let mut scenario = with_call(paths, known, classes);
    scenario.bonds[0].config.sparse = false;
    World::new(&scenario).unwrap().finish().unwrap()
}

fn counter(results: &Results, name: &str) -> u64 {
    results.bonds[0].counters.iter().find(|(counter, _)| counter == name).expect(name).1
}

#[test]
fn a_call_with_a_latency_budget_has_the_fastest_links_delay_and_the_download_what_it_had() {
    let paths = [(50, 20), (50, 120)];
    for known in [false, true] {
        let without = download_and_call(&paths, known, "");
        let with = download_and_call(&paths, known, "name=calls\tprotocol=udp\tmode=prompt\tlatency=20ms");
        let median = |results: &Results| results.flows[1].delay.percentiles.expect("percentiles").p50 * 1e3;
        let goodput = |results: &Results| results.flows[0].goodput / 1e6;
        println!(
            "rates known {known}: the call's median delay {:.1} ms, without the class {:.1}; the download {:.1} Mbit/s, without {:.1}",
            median(&with),
            median(&without),
            goodput(&with),
            goodput(&without)
        );
        assert!(median(&with) <= 20.0 + 10.0 && median(&without) > 100.0);
        assert!(goodput(&with) >= 0.9 * goodput(&without));
        // What goes on the other link goes there by no class.
        assert_eq!(counter(&with, "class0.channel1"), 0);
        assert!(counter(&with, "class0.packets") > 1_400 && counter(&with, "class0.dropped") == 0);
        for flow in &with.flows {
            assert_eq!(flow.reordering.as_ref().unwrap().ratio, 0.0);
        }
    }
}

#[test]
fn a_call_that_nobody_marked_has_the_fastest_links_delay_and_the_download_what_it_had() {
    let paths = [(50, 20), (50, 120)];
    for known in [false, true] {
        let [with, without] = [true, false].map(|sparse| {
            let mut scenario = with_call(&paths, known, "");
            scenario.bonds[0].config.sparse = sparse;
            World::new(&scenario).unwrap().finish().unwrap()
        });
        let delays = |results: &Results| {
            let all = results.flows[1].delay.percentiles.expect("percentiles");
            [all.p50, all.p90, all.p99, all.p999].map(|s| s * 1e3)
        };
        let goodput = |results: &Results| results.flows[0].goodput / 1e6;
        println!(
            "rates known {known}: the call's delays {:.1?} ms, without {:.1?}; the download {:.2} Mbit/s, without {:.2}",
            delays(&with),
            delays(&without),
            goodput(&with),
            goodput(&without)
        );
        assert!(delays(&with)[0] <= 20.0 + 10.0 && delays(&without)[0] > 100.0);
        assert!(goodput(&with) >= 0.99 * goodput(&without));
        for flow in &with.flows {
            assert_eq!(flow.reordering.as_ref().unwrap().ratio, 0.0);
        }
    }
}
