//! The scenarios of rings beyond the paper: points of them that are quick, held to what the files expect there.

use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::Path;

/// Runs the points at which the swept parameters contain all of `wanted`, with one seed.
fn holds(name: &str, wanted: &[(&str, &str)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rings").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = text.replace("seeds = \"1..3\"", "seeds = [1]");
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    let file = File::parse(name, &text, &mut none).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    let (mut points, mut judged) = (0, 0);
    for built in file.runs() {
        let built = built.unwrap_or_else(|errors| panic!("{errors:?}"));
        let is = |(name, value): &(&str, &str)| {
            built.parameters.iter().any(|(known, found)| known == name && found.trim_matches('"') == *value)
        };
        if !wanted.iter().all(is) {
            continue;
        }
        points += 1;
        let results = World::new(&built.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"));
        for expected in file.expectations() {
            let one = std::iter::once((built.parameters.as_slice(), &results));
            if let Some(outcome) = expected.evaluate(one).unwrap_or_else(|error| panic!("{name}: {error}")) {
                judged += 1;
                assert!(outcome.holds, "{name} at {:?}: {expected:?} gives {outcome:?}", built.parameters);
            }
        }
    }
    assert!(points > 0 && judged > 0, "{name}: {points} points, {judged} values at {wanted:?}");
}

#[test]
fn a_hub_gives_each_of_those_that_send_to_it_the_same() {
    holds("hub.toml", &[("ring.ring.count", "4"), ("ring.ring.algorithm", "dvsr")]);
}

#[test]
fn half_of_the_control_frames_may_be_lost_and_shares_stay() {
    holds("control-loss.toml", &[("ring.ring.control_loss", "50%")]);
}

#[test]
fn a_ring_is_fair_while_a_link_is_away_and_after_it_is_back() {
    let steer = ("ring.ring.protection", "steer");
    holds("failures.toml", &[steer, ("ring.ring.carrier", "false"), ("warm_up", "300ms")]);
    holds("failures.toml", &[steer, ("ring.ring.carrier", "true"), ("warm_up", "800ms")]);
}

#[test]
fn long_links_take_as_many_intervals_as_short_ones() {
    for (delay, interval) in [("0.05ms", "0.5ms"), ("5ms", "50ms")] {
        holds("times.toml", &[("ring.ring.delay", delay), ("ring.ring.interval", interval)]);
    }
}
