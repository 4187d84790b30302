//! The scenarios of chapter 3 of the hybrid-gateways paper: one set of constants for all figures, the keys that they need, and
//! the quick ones run.

use fairspan_core::buffer::{Limit, PolicyConfig};
use fairspan_sim::model::{Room, Scenario};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::Path;

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gateway").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(name: &str, text: &str) -> Result<File, String> {
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    File::parse(name, text, &mut none).map_err(|errors| format!("{name}: {errors:?}"))
}

fn first(name: &str, text: &str) -> Scenario {
    let file = parse(name, text).unwrap_or_else(|error| panic!("{error}"));
    file.runs().next().expect("a run").unwrap_or_else(|errors| panic!("{errors:?}")).scenario
}

fn run(scenario: &Scenario) -> Results {
    let mut world = World::new(scenario).unwrap_or_else(|error| panic!("{error}"));
    world.advance(world.end());
    world.finish().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn one_set_of_constants_serves_all_figures_of_chapter_3() {
    let scenario = |name: &str| first(name, &text(name));
    let one = scenario("fig3-07.toml");
    for name in ["fig3-02.toml", "fig3-05.toml", "fig3-06.toml", "fig3-08.toml", "fig3-09.toml", "asymmetric.toml"] {
        let other = scenario(name);
        assert_eq!(one.links.len(), other.links.len(), "{name}");
        for a in &one.links {
            let b = other.links.iter().find(|link| link.name == a.name).unwrap_or_else(|| panic!("{name}: {}", a.name));
            let (mut a, mut b) = (a.clone(), b.clone());
            if a.name == "bottleneck/back" && name == "asymmetric.toml" {
                continue;
            }
            // What the figures vary: buffers, policies, round trips.
            for link in [&mut a, &mut b] {
                if link.name.starts_with("bottleneck") {
                    (link.profile.queue, link.profile.buffer) = (Limit::Packets(1), PolicyConfig::DropTail);
                }
                if link.name.starts_with("in") {
                    link.profile.delay = Default::default();
                }
            }
            assert_eq!(
                format!("{a:?}").replace("from", ""),
                format!("{b:?}").replace("from", ""),
                "{name}: {}",
                a.name
            );
        }
        assert_eq!(one.flows.len(), other.flows.len());
        assert_eq!(format!("{:?}", one.flows[0].transport), format!("{:?}", other.flows[0].transport), "{name}");
    }
}

const TWO: &str = r#"
duration = "20s"
warm_up = "5s"
[[node]]
name = ["a", "b", "r", "d"]
kind = "router"
[[link]]
name = "near"
from = "a"
to = "r"
rate = "unlimited"
delay = "2ms"
[[link]]
name = "far"
from = "b"
to = "r"
rate = "unlimited"
delay = "7ms"
[[link]]
name = "bottleneck"
from = "r"
to = "d"
rate = "1Mbit"
delay = "3ms"
queue = "400ms"
discipline = "sfq"
buffer = "longest-queue-front"
[[flow]]
name = "a"
from = "a"
to = "d"
back_via = ["bottleneck", "near"]
kind = "constant"
rate = "1.5Mbit"
size = "500B"
[[flow]]
name = "b"
from = "b"
to = "d"
back_via = ["bottleneck", "far"]
kind = "constant"
rate = "1.5Mbit"
size = "500B"
"#;

#[test]
fn a_flow_s_weight_is_its_share_of_a_fair_queue() {
    let weighted = TWO.replacen("name = \"a\"\nfrom = \"a\"", "name = \"a\"\nweight = 3\nfrom = \"a\"", 1);
    let results = run(&first("weight", &weighted));
    let share = results.flows[0].throughput / results.flows[1].throughput;
    // A packet or two at the ends of 15 s.
    assert!((share - 3.0).abs() < 0.02, "{share}");
    let plain = run(&first("plain", TWO));
    assert!((plain.flows[0].throughput / plain.flows[1].throughput - 1.0).abs() < 0.01);
}

#[test]
fn nodes_are_hosts_and_dscps_are_classes_of_disciplines_of_two_levels() {
    // A third flow, from the host of the first.
    let third = TWO.split("[[flow]]").nth(1).expect("flow a").replacen("\"a\"", "\"c\"", 1);
    let shares = |discipline: &str, dscp: u8| {
        let third = third.replace("size =", &format!("dscp = {dscp}\nsize ="));
        let text = format!("{TWO}[[flow]]{third}").replace("\"sfq\"", &format!("\"{discipline}\""));
        let results = run(&first("levels", &text));
        let sum: f64 = results.flows.iter().map(|flow| flow.throughput).sum();
        results.flows.iter().map(|flow| flow.throughput / sum).collect::<Vec<_>>()
    };
    for (discipline, dscp, expected) in [
        ("drr", 0, [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]),
        ("hosts", 0, [0.25, 0.5, 0.25]),
        // All go to one node.
        ("hosts:by=destination", 0, [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]),
        ("classes", 46, [0.25, 0.25, 0.5]),
        ("classes:weights=1-1-1-1-1-3-1-1", 46, [0.125, 0.125, 0.75]),
        // It sends more than the link carries.
        ("priority", 46, [0.0, 0.0, 1.0]),
    ] {
        let got = shares(discipline, dscp);
        // A packet or two at the ends of 15 s.
        let near = got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 0.003);
        assert!(near, "{discipline}: {got:?}");
    }
}

#[test]
fn a_flow_s_room_is_its_share_of_the_buffer_and_follows_the_round_trip_where_it_says_so() {
    let delays = |text: &str| {
        let results = run(&first("room", text));
        // What the way takes without a queue goes.
        [results.flows[0].delay.mean - 0.005, results.flows[1].delay.mean - 0.010]
    };
    let [a, b] = delays(TWO);
    assert!((b / a - 1.0).abs() < 0.05, "equal rooms: {a} {b}");
    // Round trips of 10 and 20 ms.
    let by_trip = TWO.replace("kind = \"constant\"", "room = \"round-trip\"\nkind = \"constant\"");
    let [a, b] = delays(&by_trip);
    assert!((b / a - 2.0).abs() < 0.1, "1 to 2: {a} {b}");
    // 30 ms on top of each: 40 and 50.
    let [a, b] = delays(&by_trip.replace("round-trip", "round-trip+30ms"));
    assert!((b / a - 1.25).abs() < 0.06, "4 to 5: {a} {b}");
    let [a, b] = delays(&TWO.replacen("name = \"b\"\nfrom", "name = \"b\"\nroom = 3\nfrom", 1));
    assert!((b / a - 3.0).abs() < 0.15, "1 to 3: {a} {b}");
}

#[test]
fn rooms_that_cannot_be_are_refused_with_what_would_be_right() {
    let with = |room: &str| TWO.replacen("name = \"b\"\nfrom", &format!("name = \"b\"\nroom = {room}\nfrom"), 1);
    for wrong in ["0", "-1", "1048577", "\"round\"", "\"round-trip+\"", "\"round-trip+1\"", "\"round-trip 1ms\"", "1.5"]
    {
        let error = parse("room", &with(wrong)).expect_err(wrong);
        assert!(error.contains("round-trip+100ms"), "{wrong}: {error}");
    }
    let scenario = first("room", &with("\"round-trip+1s\""));
    assert_eq!(scenario.flows[1].room, Room::RoundTrip(fairspan_core::units::Span::from_secs(1)));
}

#[test]
fn a_buffer_may_be_a_time_at_a_constant_rate() {
    assert_eq!(
        first("time", TWO).links.iter().find(|link| link.name == "bottleneck").unwrap().profile.queue,
        Limit::Bytes(50_000)
    );
    for wrong in ["\"0ms\"", "\"1ns\""] {
        let error = parse("time", &TWO.replace("\"400ms\"", wrong)).expect_err(wrong);
        assert!(error.contains("a time at a constant rate"), "{error}");
    }
    let unlimited = TWO.replace("rate = \"1Mbit\"", "rate = \"unlimited\"");
    assert!(parse("time", &unlimited).expect_err("no rate").contains("a time at a constant rate"));
}

/// A point of Figure 3.7, the first 100 s of one seed.
fn point(buffer: &str, policy: &str) -> Results {
    let mut file = parse("fig3-07.toml", &text("fig3-07.toml")).unwrap_or_else(|error| panic!("{error}"));
    let mut none = |name: &str| Err(format!("no file is needed, and this is {name}"));
    file.set("duration", "100s", &mut none).unwrap_or_else(|errors| panic!("{errors:?}"));
    file.set_seeds(vec![1]);
    let is = |at: &[(String, String)], value: &str| at.iter().any(|(_, found)| found.trim_matches('"') == value);
    let runs = file.runs().map(|run| run.unwrap_or_else(|errors| panic!("{errors:?}")));
    let wanted = runs.into_iter().find(|run| is(&run.parameters, buffer) && is(&run.parameters, policy));
    run(&wanted.unwrap_or_else(|| panic!("{buffer} {policy}")).scenario)
}

#[test]
fn with_a_buffer_of_50_ms_the_longest_queue_pays_more_fairly_than_chance_and_red_carries_least() {
    let [tail, red, lqd, pfd] = ["drop-tail", "red", "longest-queue-front", "pfd"].map(|policy| point("50ms", policy));
    let fair = |results: &Results| results.jain.expect("all get something");
    assert!(fair(&lqd) > fair(&red) + 0.05 && fair(&lqd) > fair(&tail) + 0.05, "{:?}", [&lqd, &red, &tail].map(fair));
    assert!(fair(&pfd) > fair(&red) + 0.05, "{:?}", [&pfd, &red].map(fair));
    assert!(red.goodput < 0.95 * lqd.goodput.min(pfd.goodput), "{} {} {}", red.goodput, lqd.goodput, pfd.goodput);
}
