//! Holds what docs/ says of names through the bond, or past it, to the program: the settings, their examples, defaults and bounds, and the
//! counters.

use fairspan_live::config::{Config, ConfigError};
use std::fs;
use std::path::{Path, PathBuf};

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The rows of the settings: setting, example, default, without the code spans' marks, and meaning.
fn rows() -> Vec<[String; 4]> {
    let document = document("settings.md");
    let (_, section) = document.split_once("\n## `[[domains]]`").expect("a heading");
    let table = section.split("\n\n").find(|part| part.starts_with("| setting |")).expect("a table");
    let rows = table.trim().lines().skip(2).map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim());
        let bare = |cell: Option<&str>| cell.unwrap_or_default().trim_matches('`').to_owned();
        [bare(cells.next()), bare(cells.next()), bare(cells.next()), cells.next().unwrap_or_default().to_owned()]
    });
    rows.collect()
}

/// With one peer, by which everything goes.
fn read(settings: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let lines: String = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let text = format!(
        "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.2/24\", \"fd77::2/64\"]\nlock = false\n[[peer]]\nname = \"hub\"\nallowed_ips = \
         [\"0.0.0.0/0\"]\n[[peer.channel]]\nkind = \"ethernet\"\ndevice = \"eth1\"\n[[domains]]\n{lines}"
    );
    Config::parse(Path::new("x.toml"), &text)
}

fn shown(settings: &[(&str, &str)]) -> String {
    let config = read(settings).unwrap_or_else(|e| panic!("{settings:?}: {e}"));
    assert!(config.notices.is_empty(), "{settings:?}: {:?}", config.notices);
    format!("{:?}", config.domains)
}

#[test]
fn every_setting_of_names_is_documented_with_an_example_that_is_accepted_its_true_default_and_bounds() {
    let rows = rows();
    let problem = read(&[("no_such_setting", "1")]).expect_err("an unknown setting is refused").problem;
    let known = problem.split_once("expected one of ").expect("a list").1.split(" (in ").next().unwrap_or_default();
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let documented: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(documented, known, "docs/settings.md against the program");
    let names = ("names", "[\"a.example\"]");
    for [key, example, default, meaning] in &rows {
        match default.as_str() {
            "required" => {
                assert!(read(&[]).is_err(), "{key} is said to be required");
                assert_ne!(shown(&[(key, example)]), shown(&[names]), "{key}");
            }
            // With one peer it is that one.
            "none" => assert_eq!(shown(&[names, (key, example)]), shown(&[names]), "{key}"),
            default => {
                assert_ne!(shown(&[names, (key, example)]), shown(&[names]), "{key}: the example is the default");
                assert_eq!(shown(&[names, (key, default)]), shown(&[names]), "{key}: the default");
            }
        }
        if key == "keep" {
            for beyond in ["\"999ms\"", "\"721h\""] {
                let error = read(&[names, (key, beyond)]).expect_err("out of bounds");
                let said = error.problem.strip_prefix("is not from ").expect("bounds").replace("ms", " ms");
                let bounds = said.replace('s', " s").replace('h', " h");
                assert!(meaning.contains(&bounds), "{bounds} is not in docs/settings.md: {meaning}");
            }
        }
    }
}

#[test]
fn every_counter_of_names_is_documented_once_and_there_are_no_others() {
    let status = document("status.md");
    let (_, tables) = status.split_once("\n## Counters of the daemon").expect("a heading");
    let cells = tables.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let mut documented: Vec<&str> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|name| name.starts_with("domains_")).collect();
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../live/src/roles/domains/mod.rs");
    let source = fs::read_to_string(source).expect("the source");
    let (_, counted) = source.split_once("fn count(").expect("the counters");
    let counted = counted.split_once("] {").expect("their end").0;
    let mut counted: Vec<String> =
        counted.split('"').skip(1).step_by(2).map(|name| format!("domains_{name}")).collect();
    documented.sort_unstable();
    counted.sort_unstable();
    assert!(counted.len() >= 8);
    assert_eq!(documented, counted);
}
