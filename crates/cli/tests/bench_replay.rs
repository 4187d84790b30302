//! `fairspan bench replay` as a user meets it. How fast a live bond is, is not asked here.

#[path = "common/child.rs"]
mod child;
#[path = "../../live/tests/privilege/mod.rs"]
mod privilege;

use privilege::may_make_namespaces;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn bench(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.args(["bench", "replay"]).arg(folder).args(args);
    command
}

/// Two recordings: one whose rates change, and one with a network that dies.
fn recordings() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let changing = "t_s,one_mbps,two_mbps\n0,8,6\n1,4,6\n2,12,3\n3,8,6\n4,6,12\n5,8,8\n";
    let dying = "t_s,one_mbps,two_mbps\n0,8,6\n1,8,\n2,8,\n3,8,\n4,8,6\n5,8,6\n";
    let trips = "t_s,one_rtt_ms,two_rtt_ms\n0,30,50\n0.2,30,\n";
    for (name, text) in [("x-changing.csv", changing), ("x-dying.csv", dying), ("x-trips.csv", trips)] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

#[test]
fn bad_usage_is_status_2_and_says_what_would_be_right() {
    let folder = recordings();
    for (folder, args, part) in [
        (Path::new("/nonexistent"), &["--simulated"][..], "name a folder of CSV files"),
        (folder.path(), &["--simulated", "--only", "x"], "it has x-changing, x-dying"),
        (folder.path(), &["--simulated", "--only", "x-trips"], "round trips and no capacities"),
        (folder.path(), &["--simulated", "--from", "6"], "nothing to replay"),
        (folder.path(), &["--simulated", "--mode", "relaible"], "reliable"),
        (folder.path(), &["--seconds", "0"], "1..=86400"),
        (folder.path(), &["--scale", "0"], "0.001 to 1000"),
        (folder.path(), &["--seed", "1"], "--simulated"),
    ] {
        let output = child::output(&mut bench(folder, args));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    fs::write(folder.path().join("broken.csv"), "t_s,one_mbps\n0,1\n1,-3\n").expect("written");
    let output = child::output(&mut bench(folder.path(), &["--simulated"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("broken.csv:3: found `-3`, expected a rate in Mbit/s"), "{said}");
}

#[test]
fn the_simulator_gives_the_same_document_twice_with_every_key() {
    let folder = recordings();
    let args = ["--simulated", "--seconds", "5", "--json"];
    let [first, second] = [(), ()].map(|()| child::output(&mut bench(folder.path(), &args)));
    let said = String::from_utf8_lossy(&first.stderr);
    assert_eq!(first.status.code(), Some(0), "{said}");
    assert_eq!(first.stdout, second.stdout);
    assert!(said.contains("1 file(s) of round trips") && said.contains("Simulated: one TCP connection"), "{said}");
    let json: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    let series = json["series"].as_array().expect("series");
    assert_eq!(series.iter().map(|row| &row["name"]).collect::<Vec<_>>(), ["x-changing", "x-dying"]);
    for (row, capacity, best) in
        [(&series[0], 38.0 / 5.0 + 33.0 / 5.0, 38.0 / 5.0), (&series[1], 8.0 + 12.0 / 5.0, 8.0)]
    {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
        assert_eq!((&row["links"], &row["best_single"]), (&serde_json::json!(["one", "two"]), &"one".into()), "{row}");
        assert!((number("capacity_mbit") - capacity * number("payload_share")).abs() < 0.01, "{row}");
        assert!((number("best_single_mbit") - best * 1448.0 / 1514.0).abs() < 0.01, "{row}");
        assert!((number("ratio_of_sum") - number("bond_mbit") / number("capacity_mbit")).abs() < 0.001, "{row}");
        // In virtual time nothing depends on the machine.
        assert!((0.6..=1.05).contains(&number("ratio_of_sum")), "{row}");
    }
}

#[test]
fn live_links_follow_the_recording_under_a_real_connection() {
    if !may_make_namespaces() {
        return;
    }
    let folder = recordings();
    let args = ["--only", "x-changing", "--seconds", "3", "--from", "1", "--json"];
    let output = child::output(&mut bench(folder.path(), &args));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = &json["series"][0];
    assert_eq!((&row["seconds"], &row["from"], &row["simulated"]), (&3.0.into(), &1.into(), &false.into()), "{row}");
    // How much arrives depends on the machine; more than the links carry cannot, but for what waited before them.
    let mbit = row["bond_mbit"].as_f64().expect("a rate");
    assert!(mbit > 0.0 && mbit < 2.0 * row["capacity_mbit"].as_f64().expect("a rate"), "{row}");
    assert!(row["processors_percent"].is_number(), "{row}");
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    if !may_make_namespaces() {
        return;
    }
    let folder = recordings();
    let mut command = bench(folder.path(), &[]);
    child::is_interrupted_and_leaves_no_namespace(&mut command, "far");
}
