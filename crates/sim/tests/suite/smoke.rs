//! Each smoke scenario, run twice: the same bytes both times, what it expects, and no flow that does nothing.

use fairspan_sim::model::Scenario;
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::Path;

fn run(scenario: &Scenario) -> Results {
    let mut world = World::new(scenario).unwrap_or_else(|error| panic!("{error}"));
    world.advance(world.end());
    world.finish().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_smoke_scenario_gives_the_same_bytes_twice_and_what_it_expects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/smoke");
    let mut paths: Vec<_> =
        fs::read_dir(&folder).expect("there").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 6, "{paths:?}");
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("readable");
        let mut none = |file: &str| Err(format!("smoke scenarios need no file, and this is {file}"));
        let file = File::parse(&name, &text, &mut none).unwrap_or_else(|errors| panic!("{errors:?}"));
        for built in file.runs() {
            let built = built.unwrap_or_else(|errors| panic!("{errors:?}"));
            let (first, second) = (run(&built.scenario), run(&built.scenario));
            assert_eq!(first.log_hash, second.log_hash, "{name}");
            assert_eq!(first, second, "{name}");
            assert!(
                first.flows.iter().all(|flow| flow.received > 0 && flow.goodput > 0.0),
                "{name}: {:?}",
                first.flows
            );
            for expected in file.expectations() {
                let runs = std::iter::once((built.parameters.as_slice(), &first));
                if let Some(outcome) = expected.evaluate(runs).unwrap_or_else(|error| panic!("{name}: {error}")) {
                    assert!(outcome.holds, "{name}: {expected:?} gives {outcome:?}");
                }
            }
        }
    }
}
