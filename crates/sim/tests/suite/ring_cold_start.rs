//! Hubs that begin cold: how long it takes until nobody is shut out. The aim is 20 ring times.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::Path;

/// The hub of scenarios/rings/hub.toml with so many nodes, from the first instant on for so many ring times: a value of a
/// series for each.
fn hub(nodes: u64, ring_times: u64, algorithm: &str) -> Results {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rings/hub.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // 0.1 ms a link.
    let (count, end) = (nodes.to_string(), format!("{}us", 100 * nodes * ring_times));
    let series = format!("{}us", 100 * nodes);
    let settings = [
        ("ring.ring.count", count.as_str()),
        ("ring.ring.algorithm", algorithm),
        ("metrics.series", &series),
        ("warm_up", "0s"),
        ("duration", &end),
        ("expect", "[]"),
    ];
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    let file = File::parse_with("hub.toml", &text, &settings, &mut none).unwrap_or_else(|errors| panic!("{errors:?}"));
    let built = file.run(0).expect("one run").unwrap_or_else(|errors| panic!("{errors:?}"));
    let world = World::new(&built.scenario).unwrap_or_else(|error| panic!("{error}"));
    world.finish().unwrap_or_else(|error| panic!("{error}"))
}

/// The ring time from which on every flow has at least half of what is fair.
fn nobody_is_shut_out_from(results: &Results, nodes: u64) -> usize {
    // The hub's two links are shared by half of the others each.
    let half = 622e6 / (nodes / 2) as f64 / 2.0;
    let flows = results.series.iter().filter(|series| series.name.starts_with("flow "));
    let flows: Vec<_> = flows.filter(|series| series.name.ends_with(" throughput")).collect();
    assert_eq!(flows.len() as u64, nodes - 1);
    let last = |values: &[f64]| values.iter().rposition(|rate| *rate < half).map_or(0, |at| at + 1);
    flows.iter().map(|series| last(&series.values)).max().expect("flows")
}

/// The hub under `algorithm`.
fn reached(nodes: u64, algorithm: &str) -> usize {
    nobody_is_shut_out_from(&hub(nodes, 60, algorithm), nodes)
}

#[test]
fn with_three_intervals_of_the_least_part_nobody_is_shut_out_of_a_cold_hub_after_six_ring_times() {
    for nodes in [16, 32, 64] {
        let reached = reached(nodes, "dvsr:start=3");
        // Three intervals of the least part, one for what is fair to get to all, and as many to spare. The aim is 20.
        assert!(reached <= 6, "{nodes} nodes: {reached} ring times");
    }
}

#[test]
fn with_whole_links_from_the_first_instant_on_it_takes_18_ring_times_with_16_nodes() {
    let reached = reached(16, "dvsr");
    assert!((17..=19).contains(&reached), "{reached} ring times");
}

#[test]
fn with_whole_links_from_the_first_instant_on_it_takes_77_ring_times_with_64_nodes() {
    let reached = nobody_is_shut_out_from(&hub(64, 120, "dvsr"), 64);
    assert!((75..=79).contains(&reached), "{reached} ring times");
}
