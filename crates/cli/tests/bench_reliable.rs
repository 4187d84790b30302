//! `fairspan bench reliable` as a user meets it. How fast anything is, is not asked here.

#[path = "common/child.rs"]
mod child;
#[path = "../../live/tests/privilege/mod.rs"]
mod privilege;

use privilege::may_make_namespaces;
use serde_json::Value;
use std::process::Command;

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.args(["bench", "reliable"]).args(args);
    command
}

#[test]
fn bad_usage_is_status_2_and_says_what_would_be_right() {
    for (args, part) in [
        (&["--mode", "relaible"][..], "reliable"),
        (&["--mode", "stripe", "--mode", "stripe"], "--mode stripe is given twice"),
        (&["--link", "rate"], "--link rate: write NAME=VALUE"),
        (&["--link", "colour=red"], "--link: unknown field `colour`"),
        (&["--link", "rate=100"], "100Mbit"),
        (&["--link", "delay=1ms,loss=2"], "1%"),
        (&["--channel", "tcp"], "ethernet"),
        (&["--equalize", "2s"], "--equalize 2s: give 0ms to 1s"),
        (&["--equalize", "soon"], "--equalize soon: "),
        (&["--tags", "0"], "1..=1024"),
        (&["--completions", "33"], "1..=32"),
        (&["--only", "large"], "small"),
        (&["--seconds", "0"], "1..=3600"),
        (&["--runs", "many"], "--runs"),
    ] {
        let output = child::output(&mut bench(args));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// What arrived of what was sent, once, whole and in order.
fn exact(frames: &Value) -> (u64, u64) {
    let count = |key: &str| frames[key].as_u64().unwrap_or_else(|| panic!("{key}: {frames}"));
    assert_eq!(count("sent"), count("received") + count("lost"), "{frames}");
    assert_eq!((count("twice"), count("out_of_order"), count("damaged")), (0, 0, 0), "{frames}");
    (count("received"), count("lost"))
}

#[test]
fn every_frame_is_accounted_for_and_the_document_has_each_way() {
    if !may_make_namespaces() {
        return;
    }
    // On a machine that is too busy for any of them, reads are given up.
    let mut answered = 0;
    for channel in ["udp", "ethernet"] {
        let output = child::output(&mut bench(&[
            "--runs",
            "1",
            "--seconds",
            "1",
            "--channel",
            channel,
            "--mode",
            "reliable",
            "--mode",
            "ordered",
            "--link",
            "rate=20Mbit,delay=1ms",
            "--link",
            "rate=20Mbit,delay=2ms,loss=30%",
            "--tags",
            "8",
            "--completions",
            "2",
            "--json",
        ]));
        let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{channel}: {said}");
        assert_eq!(out.lines().count(), 1, "{out}");
        let json: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!((&json["runs"], &json["seconds"], &json["channel"]), (&1.into(), &1.into(), &channel.into()));
        let names = |part: &str| -> Vec<String> {
            let ways = json[part]["ways"].as_array().unwrap_or_else(|| panic!("{part}: {json}"));
            ways.iter().map(|way| way["way"].as_str().expect("a name").to_owned()).collect()
        };
        assert_eq!(names("traffic"), ["plain link-a", "plain link-b", "reliable", "ordered"]);
        assert_eq!(names("small"), ["plain", "reliable", "ordered"]);
        let traffic = &json["traffic"];
        assert_eq!((&traffic["tags"], &traffic["read_bytes"]), (&8.into(), &256.into()));
        for way in traffic["ways"].as_array().expect("ways") {
            let (received, lost) = exact(&way["outward"]);
            let (back, _) = exact(&way["inward"]);
            let reads = way["reads"].as_u64().expect("reads");
            assert!(received > 0 && back >= 2 * reads, "{way}");
            assert!(reads + way["given_up"].as_u64().expect("reads given up") > 0, "{way}");
            assert!(way["way"] != "plain link-b" || lost > 0, "a third of the frames is lost: {way}");
            answered += reads;
            // A read takes the way there and back.
            let least = way["read_us"]["min"].as_f64();
            assert!(least.is_none_or(|us| us >= 2000.0 && Some(us) <= way["read_us"]["max"].as_f64()), "{way}");
        }
        for way in json["small"]["ways"].as_array().expect("ways") {
            assert!(exact(way).0 > 0, "{way}");
        }
        assert_eq!(json["small"]["ways"][0]["ratio"], 1.0);
        assert!(
            said.contains("Frames of 64 bytes") && said.contains("link-b: rate=20Mbit,delay=2ms,loss=30%"),
            "{said}"
        );
    }
    assert!(answered > 0);
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    if !may_make_namespaces() {
        return;
    }
    let mut command = bench(&["--runs", "1000"]);
    child::is_interrupted_and_leaves_no_namespace(&mut command, "right");
}
