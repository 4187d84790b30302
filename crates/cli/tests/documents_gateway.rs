//! Holds what docs/ says of a gateway that splits TCP connections to the program: its settings, their examples, defaults and bounds.

use fairspan_live::config::{Config, ConfigError};
use std::fs;
use std::path::Path;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The cells of the rows of the table of settings below a heading.
fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = document.split_once(heading).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let table = section.split("\n\n").find(|part| part.trim_start().starts_with("| setting |")).expect("a table");
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    table.trim().lines().skip(2).map(cells).collect()
}

fn parse(settings: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("proxy.password"), "from a file\n").expect("written");
    let lines: String = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    Config::parse(&folder.path().join("x.toml"), &format!("[interface]\nname = \"gw0\"\n[gateway]\n{lines}"))
}

/// What else has to be set for a setting to stand.
fn needed(key: &str) -> Vec<(&'static str, &'static str)> {
    let more: &[(&str, &str)] = match key {
        "long" => return Vec::new(),
        "transparent" | "proxy_password" | "proxy_password_file" | "proxy_local" => &[("proxy", "\"10.0.0.2:1080\"")],
        "proxy_user" => &[("proxy", "\"10.0.0.2:1080\""), ("proxy_password", "\"x\"")],
        _ => &[],
    };
    [&[("long", "\"sat1\"")], more].concat()
}

#[test]
fn every_setting_of_a_gateway_is_documented_with_an_example_that_is_accepted_and_its_true_default() {
    let rows = rows(&document("settings.md"), "## `[gateway]`");
    let named: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let problem = parse(&[("no_such_setting", "1")]).expect_err("an unknown setting is refused").problem;
    let known = problem.split_once("expected one of ").expect("a list").1.split(" (in ").next().unwrap_or_default();
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, known, "docs/settings.md against the program");
    for row in &rows {
        let [key, example, default] = [0, 1, 2].map(|cell| row[cell].trim_matches('`'));
        let others = needed(key);
        let with = |value: &str| {
            let config = parse(&[&others[..], &[(key, value)]].concat());
            format!("{:?}", config.unwrap_or_else(|e| panic!("{key} = {value}: {e}")).gateway)
        };
        let without = parse(&others).map(|config| format!("{:?}", config.gateway));
        match default {
            "required" => drop((with(example), without.expect_err("a setting that is required"))),
            "none" => assert_ne!(with(example), without.expect("not required"), "{key}: the example is the default"),
            default => {
                let without = without.expect("not required");
                assert_ne!(with(example), without, "{key}: the example is the default");
                assert_eq!(with(default), without, "{key}: the default");
            }
        }
    }
}

#[test]
fn the_bounds_of_a_gateway_s_settings_are_documented() {
    let rows = rows(&document("settings.md"), "## `[gateway]`");
    let mut bounded = 0;
    for row in &rows {
        let key = row[0].trim_matches('`');
        let beyond: &[&str] = match key {
            "rate" => &["\"1bit\"", "\"9999Gbit\""],
            "initial_window" | "memory" | "connection_memory" => &["\"1B\"", "\"999999GB\""],
            "half_open" => &["0", "70000"],
            "except_ports" => &["[0]", "[70000]"],
            "bypass_below" => &["\"9999h\""],
            _ => continue,
        };
        for value in beyond {
            let refused = parse(&[&needed(key)[..], &[(key, value)]].concat()).expect_err(key).problem;
            let bounds = refused.split_once(" is not from ").unwrap_or_else(|| panic!("{key} = {value}: {refused}")).1;
            assert!(row[3].contains(bounds), "{key}: {bounds} is not in docs/settings.md: {}", row[3]);
            bounded += 1;
        }
    }
    assert_eq!(bounded, 13);
}
