//! Hubs that begin cold: how long it takes until nobody is shut out. The aim is 20 ring times; what is reached is held from both sides.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::Path;

/// The hub of scenarios/rings/hub.toml with so many nodes under DVSR, from the first instant on for so many ring times: a value of a
/// series for each.
fn hub(nodes: u64, ring_times: u64) -> Results {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rings/hub.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // 0.1 ms a link.
    let (count, end) = (nodes.to_string(), format!("{}us", 100 * nodes * ring_times));
    let series = format!("{}us", 100 * nodes);
    let settings = [
        ("ring.ring.count", count.as_str()),
        ("ring.ring.algorithm", "dvsr"),
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

#[test]
fn the_last_station_of_a_cold_hub_of_16_comes_in_after_18_ring_times() {
    let reached = nobody_is_shut_out_from(&hub(16, 60), 16);
    assert!((17..=19).contains(&reached), "{reached} ring times");
}

#[test]
fn the_last_station_of_a_cold_hub_of_64_comes_in_after_77_ring_times_and_not_after_20_yet() {
    let reached = nobody_is_shut_out_from(&hub(64, 120), 64);
    assert!((75..=79).contains(&reached), "{reached} ring times");
}
