//! `fairspan ring simulate` as a user meets it: the paper's flow patterns beside the reference, units, files, bad input.

#[path = "common/child.rs"]
mod child;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.arg("ring").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content.to_string()).expect("written");
        path.display().to_string()
    }
}

fn run(arguments: &[&str]) -> Output {
    child::output(&mut command(arguments))
}

/// The document of a run that must end well.
fn done(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(&stdout).expect("JSON")
}

fn simulated(ring: &Value, more: &[&str]) -> Value {
    let folder = Folder::new();
    let file = folder.file("ring.json", ring);
    done(&[&["simulate", &file], more].concat())
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap_or_else(|| panic!("{value} is no list"));
    list.iter().map(|number| number.as_f64().unwrap_or_else(|| panic!("{value}"))).collect()
}

/// A ring of ten nodes with flows `(from, to, demand)`; a demand of 0 stands for none.
fn ring(flows: &[(u64, u64, f64)]) -> Value {
    let flow = |&(from, to, demand): &(u64, u64, f64)| match demand {
        0.0 => json!({ "from": from, "to": to, "demand": null }),
        demand => json!({ "from": from, "to": to, "demand": demand }),
    };
    json!({ "nodes": 10, "capacity": 622, "flows": flows.iter().map(flow).collect::<Vec<_>>() })
}

#[track_caller]
fn near(found: f64, wanted: f64, share: f64, what: &str) {
    assert!((found - wanted).abs() <= share * wanted.abs(), "{what}: {found}, wanted {wanted} within {share}");
}

/// A pattern's name; from, to and demand (0: none) of its flows.
type Pattern = (&'static str, &'static [(u64, u64, f64)]);

/// What the paper's figures have, and what is fair there by `ring rias`.
#[test]
fn dvsr_gives_every_flow_of_the_papers_patterns_its_fair_rate_and_stands_still() {
    let patterns: [Pattern; 8] = [
        ("parking lot", &[(1, 5, 0.0), (2, 5, 0.0), (3, 5, 0.0), (4, 5, 0.0)]),
        ("parallel parking lot", &[(1, 2, 0.0), (1, 5, 0.0), (2, 5, 0.0), (3, 5, 0.0), (4, 5, 0.0)]),
        ("two exits", &[(1, 5, 0.0), (2, 5, 0.0), (3, 5, 0.0), (4, 5, 0.0), (4, 6, 0.0)]),
        ("Figure 5", &[(1, 2, 0.0), (1, 3, 0.0), (1, 4, 0.0), (1, 5, 0.0), (2, 5, 0.0), (4, 5, 0.0)]),
        ("upstream", &[(1, 3, 0.0), (2, 6, 0.0), (3, 6, 0.0), (4, 6, 0.0), (5, 6, 0.0)]),
        ("Figure 9(a)", &[(1, 3, 622.0), (2, 3, 5.0)]),
        ("Figure 9(b)", &[(1, 3, 5.0), (2, 3, 600.0)]),
        ("Figure 10", &[(1, 3, 622.0), (2, 3, 200.0)]),
    ];
    for (name, flows) in patterns {
        let folder = Folder::new();
        let file = folder.file("ring.json", &ring(flows));
        let fair = numbers(&done(&["rias", &file])["rates"]);
        let found = done(&["simulate", &file, "--seconds", "1.6"]);
        let (rates, limits) = (numbers(&found["rates"]), numbers(&found["limits"]));
        for (flow, &fair) in fair.iter().enumerate() {
            near(rates[flow], fair, 0.01, &format!("{name}, flow {flow} receives"));
            let throttled = flows[flow].2 == 0.0 || fair < flows[flow].2;
            // 0.01 % of the link is spare, 0.05 % goes to control messages.
            if throttled {
                near(limits[flow], fair, 0.001, &format!("{name}, limiter {flow}"));
            } else {
                assert!(limits[flow] >= fair, "{name}: limiter {flow} holds a flow that asks for less: {limits:?}");
            }
        }
        let swing = found["oscillation"].as_f64().expect("a share");
        assert!(swing <= 0.001, "{name}: limiters swing by {swing}");
        let converged = found["converged_ms"].as_f64().unwrap_or_else(|| panic!("{name} has not converged"));
        // The parking lots need one round; where flows learn from each other what they cannot use, it takes several, and so it
        // does until the rate of a source that goes its own way is known to 1 % in spite of its wandering.
        let most = if ["Figure 5", "upstream", "Figure 10"].contains(&name) { 25.0 } else { 3.0 };
        assert!(converged <= most, "{name}: {converged} ms");
        assert!(found["control_messages"].as_u64() > Some(20_000), "ten of each ringlet a round, 1600 rounds");
    }
}

#[test]
fn without_control_the_exit_is_shared_by_halves_and_nothing_is_limited() {
    let found = simulated(&ring(&[(1, 5, 0.0), (2, 5, 0.0), (3, 5, 0.0), (4, 5, 0.0)]), &["--algorithm", "fifo"]);
    let rates = numbers(&found["rates"]);
    for (rate, share) in rates.iter().zip([0.125, 0.125, 0.25, 0.5]) {
        near(*rate, share * 622.0, 0.05, "halves of halves");
    }
    assert_eq!(found["limits"], json!([null, null, null, null]));
    assert_eq!((&found["converged_ms"], &found["oscillation"]), (&Value::Null, &Value::Null));
    assert_eq!(found["control_messages"], 0);
    near(found["utilisation"]["4"][0].as_f64().expect("a share"), 1.0, 1e-3, "the last link is full");
    assert_eq!(found["utilisation"]["4"][1], 0.0);
    assert_eq!(found["utilisation"].as_object().expect("links").len(), 10);
}

#[test]
fn rates_are_those_of_the_files_unit_whichever_it_is() {
    let of = |capacity: Option<f64>, unit: Option<&str>, demand: f64| {
        let mut ring =
            json!({ "nodes": 4, "flows": [{ "from": 1, "to": 3 }, { "from": 2, "to": 3, "demand": demand }] });
        if let Some(capacity) = capacity {
            ring["capacity"] = json!(capacity);
        }
        if let Some(unit) = unit {
            ring["unit"] = json!(unit);
        }
        numbers(&simulated(&ring, &["--seconds", "0.4"])["rates"])
    };
    let bits = of(Some(622e6), None, 62.2e6);
    near(bits[1], 62.2e6, 0.01, "the demand");
    near(bits[0], 0.9 * 622e6, 0.01, "what is left");
    for (capacity, unit, one) in [
        (None, None, 622e6),
        (Some(1.0), None, 622e6),
        (Some(622.0), None, 1e6),
        (Some(622_000.0), Some("kbit/s"), 1e3),
        (Some(0.622), Some("Gbit/s"), 1e9),
        (Some(622.0), Some("Mbit/s"), 1e6),
        (Some(622e6), Some("bit/s"), 1.0),
    ] {
        let rates = of(capacity, unit, 62.2e6 / one);
        for (rate, bits) in rates.iter().zip(&bits) {
            near(rate * one, *bits, 1e-12, &format!("{capacity:?} {unit:?}"));
        }
    }
}

#[test]
fn a_line_with_unlike_links_weights_and_given_ringlets_is_shared_as_the_reference_says() {
    let folder = Folder::new();
    let line = json!({
        "nodes": 5, "topology": "line", "capacity": 200, "links": { "2": 100, "4": [150, 50] }, "weights": { "2": 2 },
        "delay_us": 50, "buffer_bytes": 150_000, "packet_bytes": 500, "interval_us": 1000,
        "flows": [{ "from": 1, "to": 4 }, { "from": 2, "to": 4 }, { "from": 3, "to": 5, "demand": 30 },
                  { "from": 5, "to": 3 }, { "from": 4, "to": 1, "packet_bytes": 1500 }],
    });
    let ring = json!({
        "nodes": 6, "capacity": 100,
        "flows": [{ "from": 1, "to": 3, "ringlet": 1 }, { "from": 6, "to": 4 }, { "from": 1, "to": 2 }],
    });
    for (name, file) in [("line", &line), ("ring", &ring)] {
        let file = folder.file("ring.json", file);
        let fair = numbers(&done(&["rias", &file])["rates"]);
        let rates = numbers(&done(&["simulate", &file, "--seconds", "1"])["rates"]);
        for (rate, fair) in rates.iter().zip(&fair) {
            near(*rate, *fair, 0.01, name);
        }
    }
}

#[test]
fn a_tcp_connection_beside_udp_gets_most_of_its_fair_share() {
    let mut ring = ring(&[(1, 3, 0.0), (2, 3, 0.0)]);
    ring["flows"][0]["kind"] = json!("tcp");
    let of = |algorithm: &str| numbers(&simulated(&ring, &["--algorithm", algorithm, "--seconds", "6"])["rates"]);
    let (dvsr, fifo) = (of("dvsr"), of("fifo"));
    assert!(dvsr[0] > 0.5 * 311.0, "DVSR: {dvsr:?}");
    assert!(fifo[0] < 0.5 * dvsr[0], "without control UDP has nearly all: {fifo:?}");
}

#[test]
fn what_starts_and_stops_is_measured_after_the_last_change() {
    let mut ring = ring(&[(1, 5, 248.8), (2, 5, 248.8), (3, 5, 248.8), (4, 5, 248.8)]);
    ring["flows"][2]["stop_ms"] = json!(200);
    ring["flows"][3]["start_ms"] = json!(300);
    let found = simulated(&ring, &["--seconds", "0.8"]);
    let rates = numbers(&found["rates"]);
    assert_eq!(rates[2], 0.0, "it has stopped");
    for flow in [0, 1, 3] {
        near(rates[flow], 622.0 / 3.0, 0.01, "a third each");
    }
    let converged = found["converged_ms"].as_f64().expect("it has");
    assert!(converged < 3.0, "{converged} ms, since the last start and not since the beginning");
}

#[test]
fn the_same_seed_gives_the_same_line_and_files_tell_the_rest() {
    let folder = Folder::new();
    let file = folder.file("ring.json", &ring(&[(1, 3, 0.0), (2, 3, 0.0)]));
    let out = folder.0.path().join("out");
    let arguments = ["simulate", &file, "--seconds", "0.1", "--seed", "7"];
    let first = done(&arguments);
    let second = done(&[&arguments[..], &["--out", out.to_str().expect("UTF-8")]].concat());
    assert_eq!(first, second);
    let page = fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("1-3"), "limiters and rates over time");
    for name in ["summary.json", "series.csv"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    // The scenario is one that `sim` runs to the same end.
    let scenario = out.join("ring.toml");
    let mut sim = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    sim.args(["sim", scenario.to_str().expect("UTF-8"), "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let again: Value = serde_json::from_slice(&child::output(&mut sim).stdout).expect("JSON");
    let summary: Value = serde_json::from_slice(&fs::read(out.join("summary.json")).expect("read")).expect("JSON");
    assert_eq!(again["runs"][0]["log_hash"], summary["runs"][0]["log_hash"]);
    let table = text(&run(&["simulate", &file, "--seconds", "0.1"]).stdout);
    for wanted in ["1 to 3", "RIAS", "311", "ringlet 0", "control messages"] {
        assert!(table.contains(wanted), "{wanted} is not in\n{table}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_with_what_would_be_right() {
    let folder = Folder::new();
    let plain = || ring(&[(1, 3, 0.0)]);
    let with = |key: &str, value: Value| {
        let mut ring = plain();
        ring[key] = value;
        ring
    };
    let flow = |key: &str, value: Value| {
        let mut ring = plain();
        ring["flows"][0][key] = value;
        ring
    };
    for (file, told) in [
        (with("unit", json!("Mb/s")), "write one of bit/s, kbit/s, Mbit/s, Gbit/s, share"),
        (with("packet_bytes", json!(20)), "packet_bytes 20: write 28 to 65535"),
        (with("buffer_bytes", json!(900)), "at least a packet's 1000"),
        (with("delay_us", json!(0)), "write an interval_us"),
        (with("delay_us", json!(-1)), "delay_us -1"),
        (with("interval_us", json!(0.1)), "interval_us 0.1: write microseconds from 1 on"),
        (with("flows", json!([])), "there is nothing to simulate"),
        (flow("class", json!("D")), "write \"A\", \"B\" or \"C\""),
        (flow("start_ms", json!(5000)), "start_ms 5000"),
        (flow("stop_ms", json!(0)), "stop_ms"),
        (flow("demand", json!(1e9)), "write 1 bit/s to 1 Tbit/s"),
        (flow("colour", json!("red")), "colour"),
        (flow("kind", json!("web")), "write \"constant\" or \"tcp\""),
    ] {
        let path = folder.file("bad.json", &file);
        let output = run(&["simulate", &path]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {stderr}");
        assert!(stderr.contains(told), "{stderr} does not say {told}");
        assert!(output.stdout.is_empty());
    }
    let path = folder.file("good.json", &plain());
    for (arguments, told) in [
        (["--seconds", "0"], "0.001 to 100000"),
        (["--algorithm", "drr"], "known are dvsr"),
        (["--algorithm", "dvsr:bits=9"], "write one of 8, 16"),
    ] {
        let output = run(&[&["simulate", &path][..], &arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
    assert!(!Path::new("ring.toml").exists(), "nothing is written without --out");
}
