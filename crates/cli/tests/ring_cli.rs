//! `fairspan ring` as a user meets it: documents, tables, statuses, bad input.

#[path = "common/child.rs"]
mod child;

use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.arg("ring").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ring(arguments: &[&str]) -> Output {
    child::output(&mut command(arguments))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line on standard output as a document.
#[track_caller]
fn document(output: &Output) -> Value {
    let stdout = text(&output.stdout);
    assert_eq!(stdout.lines().count(), 1, "{stdout}\n{}", text(&output.stderr));
    serde_json::from_str(&stdout).expect("JSON")
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    /// Writes a file; gives its path.
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content).expect("written");
        path.display().to_string()
    }
}

#[track_caller]
fn rates(file: &str) -> Vec<f64> {
    let output = ring(&["rias", file, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rates = document(&output)["rates"].as_array().expect("a list").clone();
    rates.iter().map(|rate| rate.as_f64().expect("a number")).collect()
}

#[track_caller]
fn close(ours: &[f64], theirs: &[f64]) {
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs().max(1.0)), "{ours:?} for {theirs:?}");
}

fn flows(ends: &[(u64, u64)]) -> Value {
    ends.iter().map(|(from, to)| json!({ "from": from, "to": to })).collect()
}

fn line(nodes: u64, ends: &[(u64, u64)]) -> String {
    json!({ "nodes": nodes, "topology": "line", "flows": flows(ends) }).to_string()
}

const FIGURE_5: [(u64, u64); 6] = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 5), (4, 5)];

#[test]
fn the_papers_examples_come_out_as_printed() {
    let folder = Folder::new();
    for (nodes, ends, theirs) in [
        (5, &[(1, 5), (2, 5), (3, 5), (4, 5)][..], &[0.25, 0.25, 0.25, 0.25][..]),
        (5, &[(1, 2), (1, 5), (2, 5), (3, 5), (4, 5)], &[0.75, 0.25, 0.25, 0.25, 0.25]),
        (6, &[(1, 5), (2, 5), (3, 5), (4, 5), (4, 6)], &[0.25, 0.25, 0.25, 0.125, 0.125]),
        (5, &FIGURE_5, &[0.4, 0.2, 0.2, 0.2, 0.4, 0.4]),
        (6, &[(1, 3), (2, 6), (3, 6), (4, 6), (5, 6)], &[0.75, 0.25, 0.25, 0.25, 0.25]),
    ] {
        close(&rates(&folder.file("ring.json", &line(nodes, ends))), theirs);
    }
}

#[test]
fn every_key_of_the_file_counts() {
    let folder = Folder::new();
    let of = |document: Value| rates(&folder.file("ring.json", &document.to_string()));
    let both = flows(&[(1, 3), (2, 3)]);
    // On a ring of 6 the default way from 2 to 3 is link 2, as on a line.
    close(&of(json!({ "nodes": 6, "flows": both })), &[0.5, 0.5]);
    close(&of(json!({ "nodes": 6, "capacity": 622.0, "flows": both })), &[311.0, 311.0]);
    close(&of(json!({ "nodes": 6, "weights": { "1": 3 }, "flows": both })), &[0.75, 0.25]);
    close(&of(json!({ "nodes": 6, "links": { "2": 0.5 }, "flows": both })), &[0.25, 0.25]);
    // The other direction has its own capacity, and its own traffic.
    let and_back = flows(&[(1, 3), (3, 2)]);
    close(&of(json!({ "nodes": 6, "links": { "2": [0.5, 0.125] }, "flows": and_back })), &[0.5, 0.125]);
    let demand = json!([{ "from": 1, "to": 3, "demand": 0.125 }, { "from": 2, "to": 3, "demand": null }]);
    close(&of(json!({ "nodes": 6, "flows": demand })), &[0.125, 0.875]);
    // Half the ring: ringlet 0, unless told; two flows with the same ends are two.
    let half = json!([{ "from": 1, "to": 4 }, { "from": 1, "to": 4 }, { "from": 1, "to": 4, "ringlet": 1 }]);
    close(&of(json!({ "nodes": 6, "flows": half })), &[0.5, 0.5, 1.0]);
    // A line has one way.
    close(&of(json!({ "nodes": 6, "topology": "line", "flows": flows(&[(6, 1), (1, 6)]) })), &[1.0, 1.0]);
    assert!(of(json!({ "nodes": 2, "flows": [] })).is_empty());
    // Only simulations use these.
    let simulated = json!({
        "nodes": 6, "delay_us": 100, "buffer_bytes": 200_000, "packet_bytes": 1000, "interval_us": 600, "unit": "Mbit/s",
        "flows": [{ "from": 1, "to": 3, "start_ms": 0, "stop_ms": 1.5, "class": "B", "kind": "udp" }],
    });
    close(&of(simulated), &[1.0]);
}

#[test]
fn check_takes_what_rias_prints_and_refuses_other_rates_with_flow_and_reason() {
    let folder = Folder::new();
    let file = folder.file("ring.json", &line(5, &FIGURE_5));
    let check = |rates: &str, more: &[&str]| {
        let rates = folder.file("rates.json", rates);
        ring(&[&["check", &file, "--rates", &rates], more].concat())
    };
    let printed = text(&ring(&["rias", &file, "--json"]).stdout);
    for fair in [printed.as_str(), "[0.4, 0.2, 0.2, 0.2, 0.4, 0.4]"] {
        let output = check(fair, &["--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let answer = document(&output);
        assert_eq!((&answer["fair"], &answer["flow"]), (&json!(true), &Value::Null));
        assert!(answer["reason"].is_string());
    }
    for (unfair, flow, reason) in [
        ("[0.25, 0.25, 0.25, 0.25, 0.25, 0.5]", json!(4), "no bottleneck link"),
        ("[0.4, 0.2, 0.2, 0.2, 0.4, 0.39]", json!(4), "has room"),
        ("[0.4, 0.2, 0.2, 0.2, 0.4, -0.4]", json!(5), "a rate is a number"),
        ("[0.4, 0.2, 0.2, 0.2, 0.5, 0.4]", Value::Null, "link 2"),
        ("[0.4, 0.2, 0.2, 0.2, 0.4]", Value::Null, "5 rates for 6 flows"),
    ] {
        let output = check(unfair, &["--json"]);
        assert_eq!(output.status.code(), Some(1), "{unfair}: {}", text(&output.stderr));
        let answer = document(&output);
        assert_eq!((&answer["fair"], &answer["flow"]), (&json!(false), &flow), "{unfair}: {answer}");
        assert!(answer["reason"].as_str().is_some_and(|told| told.contains(reason)), "{unfair}: {answer}");
    }
    let rough = "[0.4004, 0.2, 0.2, 0.2, 0.4, 0.4]";
    assert_eq!(check(rough, &[]).status.code(), Some(1));
    assert_eq!(check(rough, &["--tolerance", "0.001"]).status.code(), Some(0));
    assert_eq!(text(&check(rough, &[]).stdout), text(&check(rough, &["--json"]).stdout), "always one JSON document");
}

#[test]
fn standard_input_serves_for_either_file() {
    let folder = Folder::new();
    let problem = line(5, &FIGURE_5);
    let file = folder.file("ring.json", &problem);
    let rates = folder.file("rates.json", "[0.4, 0.2, 0.2, 0.2, 0.4, 0.4]");
    for (arguments, input) in [
        (&["rias", "-", "--json"][..], problem.as_str()),
        (&["check", "-", "--rates", &rates], &problem),
        (&["check", &file, "--rates", "-"], "{\"rates\": [0.4, 0.2, 0.2, 0.2, 0.4, 0.4]}"),
    ] {
        let mut started = command(arguments).stdin(Stdio::piped()).spawn().expect("started");
        started.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
        let output = started.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_table_tells_what_holds_each_flow_and_what_others_call_fair() {
    let folder = Folder::new();
    let file = folder.file("ring.json", &line(5, &FIGURE_5));
    let output = text(&ring(&["rias", &file, "--compare"]).stdout);
    let rows: Vec<Vec<&str>> = output.lines().map(|line| line.trim_matches('│').split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["0", "1", "2", "1", "-", "0.4", "link", "1", "0.25", "0.3333"]), "{output}");
    assert!(rows.contains(&vec!["5", "4", "5", "4", "-", "0.4", "link", "4", "0.5", "0.5"]), "{output}");
    let compared = document(&ring(&["rias", &file, "--compare", "--json"]));
    for key in ["rates", "max_min", "proportional"] {
        assert_eq!(compared[key].as_array().map(Vec::len), Some(6), "{compared}");
    }
}

#[test]
fn bad_input_says_where_what_is_wrong_and_what_would_be_right() {
    let folder = Folder::new();
    for (content, told) in [
        ("", &["line 1"][..]),
        ("[]", &["line 1"]),
        ("{\"nodes\": 4}", &["flows"]),
        ("{\"nodes\": 4, \"flows\": [],\n \"colour\": 1}", &["line 2", "colour", "capacity"]),
        ("{\"nodes\": 4, \"nodes\": 5, \"flows\": []}", &["duplicate", "nodes"]),
        ("{\"nodes\": \"4\", \"flows\": []}", &["string", "column"]),
        ("{\"nodes\": 1, \"flows\": []}", &["1 nodes", "2 to 255"]),
        ("{\"nodes\": 256, \"flows\": []}", &["2 to 255"]),
        ("{\"nodes\": 4, \"topology\": \"star\", \"flows\": []}", &["star", "ring", "line"]),
        ("{\"nodes\": 4, \"capacity\": 0, \"flows\": []}", &["capacity 0", "above 0"]),
        ("{\"nodes\": 4, \"capacity\": 1e999, \"flows\": []}", &["out of range"]),
        ("{\"nodes\": 4, \"capacity\": NaN, \"flows\": []}", &["line 1"]),
        ("{\"nodes\": 4, \"links\": {\"5\": 1}, \"flows\": []}", &["links.5", "1 to 4"]),
        ("{\"nodes\": 4, \"topology\": \"line\", \"links\": {\"4\": 1}, \"flows\": []}", &["links.4", "1 to 3"]),
        ("{\"nodes\": 4, \"links\": {\"x\": 1}, \"flows\": []}", &["\"x\"", "number"]),
        ("{\"nodes\": 4, \"links\": {\"1\": 1, \"1\": 2}, \"flows\": []}", &["\"1\"", "twice"]),
        ("{\"nodes\": 4, \"links\": {\"1\": -1}, \"flows\": []}", &["links.1", "above 0"]),
        ("{\"nodes\": 4, \"links\": {\"1\": [1, 2, 3]}, \"flows\": []}", &["number, or two"]),
        ("{\"nodes\": 4, \"weights\": {\"9\": 1}, \"flows\": []}", &["weights.9", "1 to 4"]),
        ("{\"nodes\": 4, \"weights\": {\"1\": 0}, \"flows\": []}", &["weights.1", "above 0"]),
        ("{\"nodes\": 4, \"flows\": [{\"from\": 1, \"to\": 2}, {\"from\": 1}]}", &["`to`"]),
        ("{\"nodes\": 4, \"flows\": [{\"from\": 0, \"to\": 2}]}", &["flows[0]", "node 0", "1 to 4"]),
        ("{\"nodes\": 4, \"flows\": [{\"from\": 1, \"to\": 300}]}", &["flows[0]", "node 300"]),
        ("{\"nodes\": 4, \"flows\": [{\"from\": 1, \"to\": 2}, {\"from\": 3, \"to\": 3}]}", &["flows[1]", "itself"]),
        ("{\"nodes\": 4, \"flows\": [{\"from\": 1, \"to\": -2}]}", &["-2"]),
        ("{\"nodes\": 4, \"flows\": [{\"from\": 1, \"to\": 2, \"demand\": -1}]}", &["flows[0]", "demand -1"]),
        ("{\"nodes\": 4, \"flows\": [{\"from\": 1, \"to\": 2, \"ringlet\": 2}]}", &["ringlet 2", "0 or 1"]),
        (
            "{\"nodes\": 4, \"topology\": \"line\", \"flows\": [{\"from\": 1, \"to\": 2, \"ringlet\": 1}]}",
            &["flows[0]", "no way", "ringlet 1"],
        ),
        ("{\"nodes\": 4, \"flows\": [{\"from\": 1, \"to\": 2, \"weight\": 2}]}", &["weight", "demand"]),
        ("{\"nodes\": 4, \"flows\": [], \"interval_us\": 0}", &["interval_us"]),
    ] {
        let file = folder.file("bad.json", content);
        for output in [ring(&["rias", &file, "--json"]), ring(&["check", &file, "--rates", &file])] {
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{content}: {message}");
            assert!(output.stdout.is_empty() && message.contains("bad.json"), "{content}: {message}");
            assert!(told.iter().all(|part| message.contains(part)), "{content}: {message} has not all of {told:?}");
        }
    }
    let file = folder.file("ring.json", &line(5, &FIGURE_5));
    for (rates, told) in [("{\"rate\": []}", "rates"), ("[null]", "a number"), ("[0.1", "line 1"), ("7", "rates")] {
        let rates = folder.file("rates.json", rates);
        let output = ring(&["check", &file, "--rates", &rates]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(told) && message.contains("rates.json"), "{message}");
    }
    for tolerance in ["-1", "1", "NaN", "much"] {
        assert_eq!(ring(&["check", &file, "--rates", &file, "--tolerance", tolerance]).status.code(), Some(2));
    }
}
