//! The scenarios of the burst round robin paper: one set of hosts for all figures, and the quick ones run.

use fairspan_sim::model::Scenario;
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::Path;

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/brr").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(name: &str, text: &str) -> File {
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    File::parse(name, text, &mut none).unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
}

/// Runs the points that `wanted` takes, with the file's first seed, and holds them to what the file expects there.
fn holds(name: &str, text: &str, wanted: impl Fn(&[(String, String)]) -> bool) {
    let first = text.replace("seeds = \"1..5\"", "seeds = [1]");
    let file = parse(name, &first);
    let (mut points, mut judged) = (0, 0);
    for built in file.runs() {
        let built = built.unwrap_or_else(|errors| panic!("{errors:?}"));
        if !wanted(&built.parameters) {
            continue;
        }
        points += 1;
        let mut world = World::new(&built.scenario).unwrap_or_else(|error| panic!("{error}"));
        world.advance(world.end());
        let results: Results = world.finish().unwrap_or_else(|error| panic!("{error}"));
        for expected in file.expectations() {
            let one = std::iter::once((built.parameters.as_slice(), &results));
            if let Some(outcome) = expected.evaluate(one).unwrap_or_else(|error| panic!("{name}: {error}")) {
                judged += 1;
                assert!(outcome.holds, "{name} at {:?}: {expected:?} gives {outcome:?}", built.parameters);
            }
        }
    }
    assert!(points > 0 && judged > 0, "{name}: {points} points, {judged} values");
}

fn is(parameters: &[(String, String)], name: &str, value: &str) -> bool {
    parameters.iter().any(|(known, found)| known == name && found.trim_matches('"') == value)
}

#[test]
fn one_set_of_hosts_and_links_serves_all_figures() {
    let scenario = |number: u32| -> Scenario {
        let name = format!("fig{number:02}.toml");
        let file = parse(&name, &text(&name));
        let built = file.runs().next().expect("a run").unwrap_or_else(|errors| panic!("{errors:?}"));
        built.scenario.clone()
    };
    let first = scenario(2);
    for number in 3..=11 {
        let other = scenario(number);
        assert_eq!(first.links.len(), other.links.len(), "figure {number}");
        for (a, b) in first.links.iter().zip(&other.links) {
            assert_eq!(
                (&a.name, a.framing, a.profile.capacity.clone()),
                (&b.name, b.framing, b.profile.capacity.clone())
            );
            // Delay is what the last two vary.
            if number < 10 {
                assert_eq!(format!("{:?}", a.profile), format!("{:?}", b.profile), "figure {number}: {}", a.name);
            }
        }
        assert_eq!(format!("{:?}", first.bonds[0].channels), format!("{:?}", other.bonds[0].channels));
        let (a, b) = (&first.flows[0], &other.flows[0]);
        assert_eq!(format!("{:?}", a.transport), format!("{:?}", b.transport), "figure {number}");
    }
}

#[test]
fn twelve_fetches_by_turns_and_by_bursts_are_out_of_order_as_figure_9_says() {
    holds("fig09.toml", &text("fig09.toml"), |at| {
        is(at, "bond.bond0.policy", "balance-rr") || is(at, "bond.bond0.policy", "brr:12ms")
    });
}

#[test]
fn a_hundred_milliseconds_cost_turns_most_of_their_throughput_as_figure_11_says() {
    holds("fig11.toml", &text("fig11.toml"), |at| {
        is(at, "bond.bond0.policy", "balance-rr") && is(at, "link.eth0.delay", "100ms")
    });
}

#[test]
fn one_link_carries_what_a_backup_and_a_hash_of_addresses_send_as_figure_7_says() {
    holds("fig07.toml", &text("fig07.toml"), |at| is(at, "flow.web.parallel", "4"));
}

#[test]
fn behind_markers_nothing_is_out_of_order_at_any_loss_and_skew() {
    holds("flush.toml", &text("flush.toml"), |at| {
        is(at, "bond.bond0.policy", "brr:4ms,flush=on")
            && (is(at, "link.eth3.delay", "101ms") || is(at, "link.eth0.loss", "30%"))
    });
}

#[test]
fn the_adaptive_threshold_keeps_order_over_links_that_differ_by_25_ms() {
    holds("adaptive.toml", &text("adaptive.toml"), |at| {
        is(at, "bond.bond0.policy", "brr:adaptive")
            && is(at, "link.eth3.delay", "26ms")
            && is(at, "flow.web.parallel", "12")
    });
}
