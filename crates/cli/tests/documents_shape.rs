//! Holds what docs/ says of a shaper to the program: its settings, their examples and defaults, and its counters.

use fairspan_core::shape::{OPTIONS, Stats};
use fairspan_live::config::{Config, ConfigError};
use std::fs;
use std::path::Path;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The cells of the rows of a table below a heading, without the code spans' marks.
fn rows(document: &str, heading: &str, first: &str) -> Vec<Vec<String>> {
    let (_, section) = document.split_once(heading).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let table = section.split("\n\n").find(|part| part.trim_start().starts_with(first)).expect("a table");
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    table.trim().lines().skip(2).map(cells).collect()
}

fn parse(settings: &[(String, String)]) -> Result<Config, ConfigError> {
    let lines: String = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    Config::parse(Path::new("x.toml"), &format!("[interface]\nname = \"wan\"\n[shape]\n{lines}"))
}

#[test]
fn every_setting_of_a_shaper_is_documented_with_an_example_that_is_accepted_and_its_true_default() {
    let rows = rows(&document("settings.md"), "## `[shape]`", "| setting |");
    let named: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let known: Vec<&str> = ["a", "b"].into_iter().chain(OPTIONS.iter().filter_map(|entry| entry.spec.file)).collect();
    assert_eq!(named, known, "docs/settings.md against the program");
    let base = [("a", "\"eth0\""), ("b", "\"eth1\""), ("rate", "\"10Mbit\"")];
    for row in &rows {
        let [key, example, default] = [0, 1, 2].map(|cell| row[cell].trim_matches('`'));
        let others =
            base.iter().filter(|(name, _)| *name != key).map(|(name, value)| (name.to_string(), value.to_string()));
        let others: Vec<(String, String)> = others.collect();
        let with = |value: &str| {
            let settings = [&others[..], &[(key.to_owned(), value.to_owned())]].concat();
            format!("{:?}", parse(&settings).unwrap_or_else(|e| panic!("{key} = {value}: {e}")))
        };
        match (default, parse(&others)) {
            ("required", without) => drop(without.expect_err("a setting that is required")),
            (default, without) => {
                let without = format!("{:?}", without.expect("nothing else is required"));
                assert_ne!(with(example), without, "{key}: the example is the default");
                assert_eq!(with(default), without, "{key}: the default");
            }
        }
        assert!(!with(example).is_empty());
    }
}

#[test]
fn every_counter_of_a_shaper_is_documented_once() {
    let rows = rows(&document("status.md"), "\n## Counters of a shaper", "| counter |");
    let names: Vec<&str> = rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect();
    for (name, _) in Stats::default().each() {
        assert_eq!(names.iter().filter(|documented| **documented == name).count(), 1, "{name}");
    }
}

#[test]
fn the_example_of_a_shaper_is_what_its_page_says() {
    let text = document("examples/shape.toml");
    let shape = Config::parse(Path::new("shape.toml"), &text).expect("good").shape.expect("a shaper");
    assert_eq!((shape.a.as_str(), shape.b.as_str()), ("eth0", "eth1"));
    // Cable, as the table of links in docs/shape.md has it.
    for direction in [shape.forward, shape.backward] {
        let options = format!("`--overhead {} --min-packet {}`", direction.overhead, direction.min_packet);
        let page = document("shape.md");
        assert!(page.lines().any(|line| line.starts_with("| cable (DOCSIS)") && line.contains(&options)), "{options}");
    }
    assert!(shape.forward.rate < shape.backward.rate);
}
