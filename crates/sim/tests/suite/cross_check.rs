//! What docs/cross-check.md says of our own side of a comparison is what the kept scenario gives now; `UPDATE_DOCS=1` writes it. What
//! was measured once stands in a table, and what is said of it is what the table has.

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

/// `text` with these in the cells behind the first of the row that begins so; further cells stay.
fn with_cells(text: &str, begins: &str, cells: &[String]) -> String {
    let start = text.find(begins).unwrap_or_else(|| panic!("docs/cross-check.md has no row {begins}")) + begins.len();
    let end = start + text[start..].find('\n').expect("the row's end");
    let before: Vec<&str> = text[start..end].split(" | ").collect();
    assert!(before.len() > cells.len(), "{begins}");
    let row = cells.iter().map(String::as_str).chain(before[cells.len()..].iter().copied()).collect::<Vec<_>>();
    format!("{}{}{}", &text[..start], row.join(" | "), &text[end..])
}

/// From the least to the greatest with so many digits, or the one number where they look alike.
fn range(values: &[f64], digits: usize) -> String {
    let least = format!("{:.digits$}", values.iter().copied().fold(f64::INFINITY, f64::min));
    let most = format!("{:.digits$}", values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    if least == most { least } else { format!("{least} to {most}") }
}

/// Rows of the ten senders that are points of dumbbell-types.toml: recovery, law, and what an ACK counts for.
const SENDERS: [(&str, [&str; 3]); 5] = [
    ("| ours, `rfc`, `byte_counting_limit = 0` | ", ["sack", "reno", "0"]),
    ("| ours, `rfc` (SACK, by bytes) | ", ["sack", "reno", "2"]),
    ("| ours, `rfc`, `congestion = \"cubic\"` | ", ["sack", "cubic", "2"]),
    ("| ours, `loss = \"newreno\"` | ", ["newreno", "reno", "2"]),
    ("| ours, `loss = \"reno\"` | ", ["reno", "reno", "2"]),
];

#[test]
fn goodput_and_fairness_of_ten_senders_are_those_that_the_document_gives() {
    let path = root().join("docs/cross-check.md");
    let before = fs::read_to_string(&path).expect("a document");
    let scenario = fs::read_to_string(root().join("scenarios/cross-check/dumbbell-types.toml")).expect("a scenario");
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    let file = File::parse("dumbbell-types.toml", &scenario, &mut none).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut found = vec![(Vec::new(), Vec::new()); SENDERS.len()];
    for built in file.runs() {
        let built = built.unwrap_or_else(|errors| panic!("{errors:?}"));
        let values: Vec<&str> = built.parameters.iter().map(|(_, value)| value.trim_matches('"')).collect();
        let Some(row) = SENDERS.iter().position(|(_, wanted)| values == wanted) else { continue };
        let results = World::new(&built.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"));
        found[row].0.push(results.goodput / 1e3);
        found[row].1.push(results.jain.expect("ten flows"));
    }
    let mut text = before.clone();
    for ((row, _), (goodput, jain)) in SENDERS.iter().zip(&found) {
        assert_eq!(goodput.len(), 5, "five seeds: {row}");
        text = with_cells(&text, row, &[range(goodput, 0), range(jain, 4)]);
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).expect("written");
        return;
    }
    assert!(before == text, "docs/cross-check.md is not what the scenario gives: {found:?}; UPDATE_DOCS=1 renews it");
}

/// The fractions of a table cell such as `37.5 (36.4 to 37.5)` or `+0.4%`: its first number.
fn number(cell: &str) -> f64 {
    let text = cell.trim().split(' ').next().unwrap_or_default();
    text.trim_end_matches('%').parse().unwrap_or_else(|_| panic!("no number: {cell}"))
}

#[test]
fn what_is_said_of_real_programs_beside_simulated_ones_is_what_their_table_has() {
    let text = fs::read_to_string(root().join("docs/cross-check.md")).expect("a document");
    let (_, part) = text.split_once("## Burst round robin with real programs").expect("the part");
    let (part, _) = part.split_once("\n## ").expect("the next part");
    let is_row = |line: &&str| line.starts_with("| b") || line.starts_with("| active-backup");
    let rows: Vec<Vec<&str>> = part.lines().filter(is_row).map(|line| line.split('|').collect()).collect();
    let (mut within, mut near, mut apart) = (0, 0, 0.0_f64);
    for row in &rows {
        let [real, simulated, off] = [5, 6, 7].map(|n| number(row[n]));
        // Both are rounded to a tenth, and so is what their quotient is said to be.
        let (least, most) = ((simulated - 0.05) / (real + 0.05), (simulated + 0.05) / (real - 0.05));
        let said = 1.0 + off / 100.0;
        assert!(said > least - 0.0005 && said < most + 0.0005, "{row:?}");
        (within, near) = (within + usize::from(off.abs() <= 15.0), near + usize::from(off.abs() <= 3.0));
        apart = apart.max((number(row[8]) - number(row[9])).abs());
    }
    // In words, as the text has it.
    assert!(apart <= 2.0, "loads are {apart} points apart");
    assert_eq!(within - near, 1, "all but one of those within 15 % are within 3 %");
    let sentence =
        format!("Of the {} throughputs {within} are within 15 %, and all but one of these within 3 %.", rows.len());
    assert!(part.contains(&sentence), "it should say: {sentence}");
}
