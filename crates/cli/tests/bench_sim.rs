//! `fairspan bench sim` as a user meets it, with rivals that are stand-ins.

#[path = "common/child.rs"]
mod child;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Runs it once each, with a script in the place of ns-2 where `make rivals` puts rivals, and nothing on the path: no
/// compiler for the scenarios of ns-3. `bench tunnel` looks for its rivals in the same place.
fn bench(folder: &Path, ns2: &str, more: &[&str]) -> Output {
    let rivals = folder.join(".local/share/fairspan/rivals/bin");
    std::fs::create_dir_all(&rivals).expect("a folder");
    let ns = rivals.join("ns");
    std::fs::write(&ns, format!("#!/bin/sh\n{ns2}\n")).expect("written");
    std::fs::set_permissions(&ns, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.args(["bench", "sim", "--runs", "1", "--no-scaling", "--no-divided"]).args(more);
    command.env("PATH", folder).env("HOME", folder).env("TMPDIR", folder);
    child::output(&mut command)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_json_document_has_each_scenario_with_its_rivals_and_nothing_stays_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = bench(folder.path(), "[ -e \"$1\" ] && /bin/sleep 0.3 && echo packets 7", &["--json"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(out.lines().count(), 1, "{out}");
    let json: Value = serde_json::from_str(&out).expect("JSON");
    let scenarios = json["scenarios"].as_array().expect("scenarios");
    let names: Vec<&str> = scenarios.iter().filter_map(|scenario| scenario["name"].as_str()).collect();
    assert_eq!(names, ["dumbbell", "cbr-line", "multipath-40g"]);
    for scenario in scenarios {
        assert!(scenario["wall_s"].as_f64().is_some_and(|s| s > 0.0), "{scenario}");
        assert!(scenario["peak_mb"].as_f64().is_some_and(|mb| mb > 1.0), "{scenario}");
        assert!(scenario["events"].as_u64().is_some_and(|n| n > 100_000), "{scenario}");
        assert!(scenario["rivals"]["ns2"]["wall_s"].as_f64().is_some_and(|s| s >= 0.3), "{scenario}");
        let keys: Vec<&String> = scenario.as_object().expect("an object").keys().collect();
        assert_eq!(keys.len(), 5, "{keys:?}");
    }
    assert!(err.contains("packets 7") && err.contains("total_kbit 19"), "what came out of each is shown: {err}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| name == ".local"), "{left:?}");
}

#[test]
fn a_rival_that_does_not_work_is_left_out_and_why_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = bench(folder.path(), "echo no such simulator >&2; exit 4", &["--json"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    let json: Value = serde_json::from_str(&out).expect("JSON");
    for scenario in json["scenarios"].as_array().expect("scenarios") {
        assert_eq!(scenario["rivals"], serde_json::json!({}), "{scenario}");
    }
    assert!(err.contains("ns2: does not work here") && err.contains("no such simulator"), "{err}");
}
