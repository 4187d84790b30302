//! What docs/cross-check.md says of our own side of a comparison is what the kept scenario gives now; `UPDATE_DOCS=1` writes it.

use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Of each run of the scenario with such a change of its text: each flow's part of what all receive, in %.
fn shares(name: &str, change: impl Fn(&str) -> String) -> Vec<Vec<f64>> {
    let text = fs::read_to_string(root().join("scenarios/cross-check").join(name)).expect("a kept scenario");
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    let file = File::parse(name, &change(&text), &mut none).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    let mut all = Vec::new();
    for built in file.runs() {
        let built = built.unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        let results = World::new(&built.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"));
        let sum: f64 = results.flows.iter().map(|flow| flow.throughput).sum();
        all.push(results.flows.iter().map(|flow| 100.0 * flow.throughput / sum).collect());
    }
    all
}

/// From the least to the greatest of each flow, or the one number.
fn ranges(runs: &[Vec<f64>]) -> String {
    let of = |flow: usize| {
        let values = || runs.iter().map(|run| run[flow]);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        if runs.len() == 1 { format!("{least:.1}") } else { format!("{least:.1} to {most:.1}") }
    };
    (0..runs[0].len()).map(of).collect::<Vec<_>>().join(", ")
}

/// `text` with this in the second cell of the row that begins so.
fn with_row(text: &str, begins: &str, cell: &str) -> String {
    let start = text.find(begins).unwrap_or_else(|| panic!("docs/cross-check.md has no row {begins}")) + begins.len();
    let end = start + text[start..].find(" |\n").expect("the row's end");
    format!("{}{cell}{}", &text[..start], &text[end..])
}

#[test]
fn shares_of_constant_rates_down_a_line_are_those_that_the_document_gives() {
    let drifting = shares("cbr-line.toml", |text| format!("seeds = \"1..3\"\n{text}"));
    assert_eq!(drifting.len(), 3, "three seeds");
    let steady = shares("cbr-line.toml", |text| {
        // What the file expects is with drift.
        let text = text.split("\n[[expect]]").next().expect("a beginning");
        format!("drift = \"off\"\n{text}")
    });
    let path = root().join("docs/cross-check.md");
    let before = fs::read_to_string(&path).expect("a document");
    let text = with_row(&before, "| ours, drift of +-1000 ppm, three seeds | ", &ranges(&drifting));
    let text = with_row(&text, "| ours, `drift = \"off\"` | ", &ranges(&steady));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).expect("written");
        return;
    }
    assert!(
        before == text,
        "docs/cross-check.md is not what the scenario gives: {}; {}",
        ranges(&drifting),
        ranges(&steady)
    );
}
