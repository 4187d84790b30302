//! The scenarios of the striping paper: one set of hosts for all of section 6.2, and the quick ones run.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::Path;

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/striping").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(name: &str, text: &str) -> File {
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    File::parse(name, text, &mut none).unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
}

/// Runs all of a file and holds it to what it expects.
fn holds(name: &str, text: &str) {
    let file = parse(name, text);
    let mut runs: Vec<(Vec<(String, String)>, Results)> = Vec::new();
    for built in file.runs() {
        let built = built.unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut world = World::new(&built.scenario).unwrap_or_else(|error| panic!("{error}"));
        world.advance(world.end());
        runs.push((built.parameters.clone(), world.finish().unwrap_or_else(|error| panic!("{error}"))));
    }
    let mut judged = 0;
    for expected in file.expectations() {
        for (parameters, results) in &runs {
            let one = std::iter::once((parameters.as_slice(), results));
            if let Some(outcome) = expected.evaluate(one).unwrap_or_else(|error| panic!("{name}: {error}")) {
                judged += 1;
                assert!(outcome.holds, "{name} at {parameters:?}: {expected:?} gives {outcome:?}");
            }
        }
    }
    assert!(judged >= 5, "{name}: {judged} values");
}

#[test]
fn one_set_of_hosts_serves_all_of_section_6_2() {
    let files = ["table1.toml", "fig15.toml", "grr-worst-case.toml"].map(|name| parse(name, &text(name)));
    let scenarios = files.each_ref().map(|file| {
        let built = file.runs().next().expect("a run").unwrap_or_else(|errors| panic!("{errors:?}"));
        built.scenario
    });
    let [first, others @ ..] = &scenarios;
    assert!(first.nodes.iter().any(|node| node.cost.receive.as_nanos() > 0));
    for other in others {
        assert_eq!(first.nodes.len(), other.nodes.len());
        for (a, b) in first.nodes.iter().zip(&other.nodes) {
            assert_eq!((&a.name, &a.cost), (&b.name, &b.cost));
        }
        for (a, b) in first.links.iter().zip(&other.links) {
            assert_eq!((&a.name, a.card, a.framing), (&b.name, b.card, b.framing));
            // The circuit's rate is what is varied.
            if !a.name.starts_with("pvc") {
                assert_eq!(format!("{:?}", a.profile), format!("{:?}", b.profile), "{}", a.name);
            }
        }
        for (a, b) in first.flows.iter().zip(&other.flows) {
            assert_eq!(format!("{:?}", a.transport), format!("{:?}", b.transport), "{}", a.name);
        }
    }
}

#[test]
fn table_1_in_a_short_run() {
    let short = text("table1.toml").replace("\"22s\"", "\"4s\"").replace("seeds = \"1..3\"", "seeds = [1]");
    holds("table1.toml", &short);
}

#[test]
fn a_slow_channel_holds_up_the_others_as_the_formula_says() {
    holds("rated-vs-actual.toml", &text("rated-vs-actual.toml").replace("\"12s\"", "\"7s\""));
}

#[test]
fn skew_fills_the_buffer_as_the_formula_says() {
    let short = text("skew-buffer.toml").replace("\"7s\"", "\"2s\"").replace("warm_up = \"2s\"", "warm_up = \"1s\"");
    holds("skew-buffer.toml", &short);
}

#[test]
fn an_urgent_stripe_of_fast_channels_never_waits_for_the_slow_channel_of_the_other() {
    holds("two-stripes.toml", &text("two-stripes.toml"));
}

#[test]
fn credits_leave_nothing_to_overflow() {
    let short = text("credits.toml").replace("\"12s\"", "\"4s\"").replace("seeds = \"1..3\"", "seeds = [1]");
    holds("credits.toml", &short);
}

#[test]
fn numbers_keep_the_order_under_loss_and_without_them_it_is_lost() {
    holds("confirm.toml", &text("confirm.toml").replace("seeds = \"1..3\"", "seeds = [1]"));
}

#[test]
fn an_urgent_packet_waits_for_the_fragment_delay_and_longer_without_fragments() {
    let short = text("fragments.toml").replace("\"22s\"", "\"12s\"").replace("seeds = \"1..3\"", "seeds = [1]");
    holds("fragments.toml", &short);
}
