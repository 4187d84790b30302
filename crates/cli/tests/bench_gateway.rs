//! `fairspan bench gateway` as a user meets it. How fast anything is, is not asked here.

#[path = "common/child.rs"]
mod child;
#[path = "../../live/tests/privilege/mod.rs"]
mod privilege;

use privilege::may_make_namespaces;
use serde_json::Value;
use std::process::Command;

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.args(["bench", "gateway"]).args(args);
    command
}

/// The document of a measurement that ends well.
fn measured(args: &[&str]) -> (Value, String) {
    let output = child::output(&mut bench(&[args, &["--runs", "1", "--json"]].concat()));
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    assert_eq!(out.lines().count(), 1, "{out}");
    (serde_json::from_str(&out).expect("JSON"), said.into_owned())
}

fn ways(part: &Value) -> Vec<&str> {
    let ways = part["ways"].as_array().unwrap_or_else(|| panic!("no ways: {part}"));
    ways.iter().map(|way| way["way"].as_str().expect("a name")).collect()
}

#[test]
fn bad_usage_is_status_2_and_says_what_would_be_right() {
    for (args, part) in [
        (&["--only", "near"][..], "abandoned"),
        (&["--runs", "0"], "1..=1000"),
        (&["--seconds", "0"], "1..=3600"),
        (&["--megabytes", "0"], "1..=10000"),
        (&["--connections", "many"], "--connections"),
        (&["--abandoned", "5"], "6..=25000"),
        (&["--set", "rate"], "--set rate: write one line, NAME = VALUE"),
    ] {
        let output = child::output(&mut bench(args));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn what_needs_no_gateway_is_measured_without_one_and_each_figure_says_of_how_many_runs() {
    if !may_make_namespaces() {
        return;
    }
    for more in [&[][..], &["--ipv6"]] {
        let args = ["--unsplit", "--only", "far", "--only", "many", "--megabytes", "1", "--connections", "20"];
        let (json, said) = measured(&[&args[..], &["--seconds", "1"], more].concat());
        assert_eq!((&json["runs"], &json["ip"]), (&1.into(), &(if more.is_empty() { 4 } else { 6 }).into()));
        let downloads = &json["downloads"][0];
        assert_eq!((ways(downloads), &downloads["megabytes"]), (vec!["unsplit"], &1.into()));
        let way = &downloads["ways"][0];
        assert_eq!((&way["seconds"]["runs"], &way["faster"]), (&1.into(), &1.0.into()));
        // A SYN, its answer, the request, and its answer take two round trips of 600 ms.
        assert!(way["first_byte_s"]["min"].as_f64() >= Some(1.2), "{way}");
        assert!(way["seconds"]["min"].as_f64() >= way["first_byte_s"]["min"].as_f64(), "{way}");
        let many = ways(&json["many"]);
        assert!(
            many[0] == "the kernel forwards" && (many[1..] == ["haproxy"] || said.contains("haproxy: not installed"))
        );
        for way in json["many"]["ways"].as_array().expect("ways") {
            assert!(way["served"] == 20 && way["gbit_s"]["min"].as_f64() > Some(0.0), "{way}");
            assert_eq!(way["process_cpu_s_gb"].is_null(), way["way"] == "the kernel forwards", "{way}");
        }
        assert_eq!(json["beside"].as_array().map(Vec::len), Some(0));
        assert!(said.contains("ends: cubic, tcp_rmem 4096"), "{said}");
    }
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    if !may_make_namespaces() {
        return;
    }
    child::is_interrupted_and_leaves_no_namespace(
        &mut bench(&["--only", "far", "--runs", "1000", "--unsplit"]),
        "far-server",
    );
}

#[test]
fn of_connections_half_of_which_are_abandoned_the_others_are_exact_and_nothing_is_left() {
    if !may_make_namespaces() {
        return;
    }
    let (json, _) = measured(&["--only", "abandoned", "--abandoned", "900"]);
    let found = &json["abandoned"][0];
    assert_eq!((&found["connections"], &found["exact"]), (&900.into(), &450.into()), "{found}");
    for way in ["reset", "half_closed", "silent"] {
        assert_eq!(found[way], 150, "{found}");
    }
    assert_eq!((&found["wrong"], &found["failed"], &found["failure"]), (&0.into(), &0.into(), &Value::Null), "{found}");
    assert_eq!(found["left_in_kernel"], serde_json::json!([]), "{found}");
    assert!(found["sockets_left"].as_u64() <= found["sockets_before"].as_u64(), "{found}");
    // Those that fell silent were there until the gateway's kernel gave them up.
    assert!(found["sockets_at_end"].as_u64() > found["sockets_before"].as_u64(), "{found}");
}
