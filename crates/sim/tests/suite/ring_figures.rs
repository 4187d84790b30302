//! The scenarios of the rings paper: the quick points run, and the fairness bound of section VI measured in packets.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::Path;

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rings").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(name: &str, text: &str) -> File {
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    File::parse(name, text, &mut none).unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
}

/// Runs the points that `wanted` takes with the file's first seed; `judge` gets each.
fn run(
    name: &str,
    text: &str,
    wanted: impl Fn(&str) -> bool,
    mut judge: impl FnMut(&File, &[(String, String)], &Results),
) {
    let first = text.replace("seeds = \"1..3\"", "seeds = [1]").replace("seeds = \"1..5\"", "seeds = [1]");
    let file = parse(name, &first);
    let mut points = 0;
    for built in file.runs() {
        let built = built.unwrap_or_else(|errors| panic!("{errors:?}"));
        if !built.parameters.iter().any(|(_, value)| wanted(value.trim_matches('"'))) {
            continue;
        }
        points += 1;
        let mut world = World::new(&built.scenario).unwrap_or_else(|error| panic!("{error}"));
        world.advance(world.end());
        let results = world.finish().unwrap_or_else(|error| panic!("{error}"));
        judge(&file, &built.parameters, &results);
    }
    assert!(points > 0, "{name}: no points");
}

/// Holds the points to what the file expects there, and that nothing is lost in transit.
fn holds(name: &str, wanted: impl Fn(&str) -> bool) {
    let mut judged = 0;
    run(name, &text(name), wanted, |file, at, results| {
        for expected in file.expectations() {
            let outcome = expected.evaluate(std::iter::once((at, results)));
            if let Some(outcome) = outcome.unwrap_or_else(|error| panic!("{name}: {error}")) {
                judged += 1;
                assert!(outcome.holds, "{name} at {at:?}: {expected:?} gives {outcome:?}");
            }
        }
        for dropped in &results.rings[0].dropped {
            assert!(dropped.reason.starts_with("station"), "{name}: lost in transit: {dropped:?}");
        }
    });
    assert!(judged > 0, "{name}: nothing expected");
}

#[test]
fn dvsr_converges_within_two_ring_times_when_flows_start_one_after_the_other() {
    holds("fig20.toml", |value| value == "dvsr");
}

#[test]
fn dvsr_converges_as_fast_in_ring_times_on_links_ten_times_as_long() {
    holds("delay-x10.toml", |value| value == "dvsr");
}

#[test]
fn unlike_demands_leave_the_limiters_standing_at_what_is_fair() {
    holds("unbalanced-two.toml", |value| value == "5Mbit" || value == "250Mbit");
    holds("unbalanced-upstream.toml", |value| value == "dvsr");
}

#[test]
fn many_small_flows_and_a_large_one_lose_nothing() {
    holds("unbalanced-many.toml", |value| value == "n8");
}

/// Lemma 3 in packets, over a ring: what two backlogged flows received in any interval differs by no more than the bound and what is
/// on its way: the lemma has one multiplexer that serves fluid at no distance.
#[test]
fn two_backlogged_flows_never_drift_apart_by_more_than_the_bound_and_the_ring_holds() {
    let text = text("fig20.toml")
        .replace("values = [\"dvsr\", \"rpr-am\", \"rpr-cm\"]", "values = [\"dvsr\"]")
        .replace("rate = \"248.8Mbit\"", "rate = \"622Mbit\"");
    run(
        "fig20.toml, backlogged",
        &text,
        |_| true,
        |_, _, results| {
            let received = |name: &str| {
                let wanted = format!("flow {name} throughput");
                let series = results.series.iter().find(|series| series.name == wanted).expect("a series");
                series.values.iter().map(|rate| rate / 8.0 * results.series_interval_s).collect::<Vec<f64>>()
            };
            let (first, second) = (received("1-5"), received("2-5"));
            // From the third flow's start on, both have packets waiting at all times.
            let mut ahead = 0.0;
            let (mut least, mut most) = (0.0_f64, 0.0_f64);
            for (a, b) in first.iter().zip(&second).skip(200) {
                ahead += a - b;
                (least, most) = (least.min(ahead), most.max(ahead));
            }
            let (capacity, nodes, interval) = (622e6 / 8.0, 4.0, 1e-3);
            let bound = 2.0 * (capacity - capacity / nodes) * interval;
            // On the way from node 1 to node 2: 0.1 ms of the link.
            let under_way = capacity * 1e-4;
            assert!(most - least <= bound + under_way, "{} bytes apart, the bound is {bound}", most - least);
            assert!(most - least > 0.0);
        },
    );
}
