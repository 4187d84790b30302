//! `sim`, `figure` and `claims` as a user meets them: exit statuses, documents, files, interruption.

#[path = "common/child.rs"]
mod child;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A constant-rate flow of 1 Mbit/s over a link of twice that.
const SCENARIO: &str = r#"
title = "one flow"
duration = "2s"
seed = 7

[[node]]
name = ["a", "b"]

[[link]]
name = "wire"
from = "a"
to = "b"
rate = "2Mbit"
delay = "5ms"
queue = "20kB"

[[flow]]
name = "f"
from = "a"
to = "b"
kind = "constant"
rate = "1Mbit"
size = "500B"
"#;

const EXPECT: &str = "\n[[expect]]\nmetric = \"flow.f.throughput\"\nvalue = \"1Mbit\"\nwithin = \"2%\"\n";
const SWEEP: &str = "\n[[sweep]]\nparameter = \"flow.f.rate\"\nvalues = [\"0.5Mbit\", \"1Mbit\", \"3Mbit\"]\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(text: &str) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        fs::write(folder.path().join("s.toml"), text).expect("written");
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
        command.args(arguments).current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        child::output(&mut self.command(arguments))
    }

    fn files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line on standard output as a document.
fn document(output: &Output) -> Value {
    let stdout = text(&output.stdout);
    assert_eq!(stdout.lines().count(), 1, "{stdout}\n{}", text(&output.stderr));
    serde_json::from_str(&stdout).expect("JSON")
}

#[test]
fn a_run_prints_one_document_with_the_documented_keys_and_makes_no_file() {
    let folder = Folder::new(&format!("{SCENARIO}{EXPECT}"));
    let output = folder.run(&["sim", "s.toml", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = document(&output);
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md")).expect("a guide");
    let (_, guide) = guide.split_once("## sim --json").expect("its section");
    for (place, keys) in [
        (&document, None),
        (&document["scenario"], None),
        (&document["runs"][0], None),
        (&document["runs"][0]["conservation"], None),
        (&document["expectations"][0], Some(12)),
    ] {
        let found = place.as_object().unwrap_or_else(|| panic!("{place}"));
        assert!(keys.is_none_or(|keys| found.len() >= keys), "{place}");
        for key in found.keys() {
            assert!(guide.contains(&format!("\"{key}\"")), "{key} is not in docs/commands.md");
        }
    }
    let run = &document["runs"][0];
    assert_eq!((&run["seed"], &document["planned"]), (&Value::from(7), &Value::from(1)));
    assert_eq!((&document["holds"], &document["interrupted"]), (&Value::from(true), &Value::from(false)));
    assert_eq!(run["log_hash"].as_str().map(str::len), Some(16));
    // 250 packets a second, give or take the clock's 1000 ppm and the one at the start.
    let sent = run["flows"][0]["sent"].as_u64().expect("a number");
    assert!((499..=502).contains(&sent), "{sent}");
    assert_eq!(folder.files(), BTreeSet::from(["s.toml".to_owned()]));
}

/// Two downloads that share a link, with two sweeps and three seeds.
const DOWNLOADS: &str = r#"
title = "two downloads"
duration = "3s"
warm_up = "1s"
seeds = "1..3"
[[node]]
name = ["a", "b"]
[[link]]
name = "wire"
from = "a"
to = "b"
rate = "4Mbit"
delay = "5ms"
queue = "20 packets"
[[flow]]
name = "f#"
count = 2
from = "a"
to = "b"
kind = "ftp"
[metrics]
delay = true
series = "50ms"
[[sweep]]
parameter = "link.wire.rate"
values = ["2Mbit", "4Mbit"]
[[sweep]]
parameter = "link.wire.delay"
values = ["5ms", "50ms"]
[[plot]]
title = "By rate"
x = "link.wire.rate"
y = { first = "flow.f0.goodput", second = "flow.f1.goodput" }
y_label = "Goodput (kbit/s)"
[[plot]]
title = "Over time"
x = "time"
y = "flow.*.window"
at = { "link.wire.rate" = "4Mbit", "link.wire.delay" = "5ms" }
[[plot]]
title = "Delays"
kind = "cdf"
y = "flow.*.delay"
by = "link.wire.delay"
at = { "link.wire.rate" = "4Mbit" }
"#;

#[test]
fn results_say_what_it_takes_to_run_them_again_and_doing_it_gives_the_same() {
    let folder = Folder::new(DOWNLOADS);
    let set = ["sim", "s.toml", "--set", "link.wire.rate=3Mbit", "--seed", "5", "--json", "--out", "out"];
    let document = document(&folder.run(&set));
    let scenario = &document["scenario"];
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(scenario["text"], DOWNLOADS);
    assert_eq!(scenario["settings"], serde_json::json!([{ "key": "link.wire.rate", "value": "3Mbit" }]));
    // The two delays, at the one rate that was set.
    let runs = document["runs"].as_array().expect("runs");
    assert!(runs.len() == 2 && runs.iter().all(|run| run["parameters"]["link.wire.rate"] == "3Mbit"), "{runs:?}");
    let page = fs::read_to_string(folder.path().join("out/report.html")).expect("a report");
    assert!(page.contains("fairspan sim s.toml --set link.wire.rate=3Mbit --seed 5"), "the command");
    assert!(page.contains("queue = &quot;20 packets&quot;"), "the scenario");
    // From the document alone.
    let again = Folder::new(scenario["text"].as_str().expect("a text"));
    let output = again.run(&["sim", "s.toml", "--set", "link.wire.rate=3Mbit", "--seed", "5", "--json"]);
    assert_eq!(self::document(&output)["runs"], document["runs"]);
}

#[test]
fn a_folder_of_results_has_sheets_means_with_intervals_and_plots_that_pool_no_sweep() {
    let folder = Folder::new(DOWNLOADS);
    let document = document(&folder.run(&["sim", "s.toml", "--json", "--out", "out"]));
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).expect(name);
    for (name, lines, head) in [
        (
            "runs.csv",
            12,
            "run,point,link.wire.rate,link.wire.delay,seed,events,log_hash,flow.f0.goodput,flow.f1.goodput,goodput",
        ),
        (
            "flows.csv",
            24,
            "run,point,link.wire.rate,link.wire.delay,seed,flow,sent,received,dropped,throughput,goodput",
        ),
        ("links.csv", 24, "run,point,link.wire.rate,link.wire.delay,seed,link,packets,bytes,load,dropped"),
        ("means.csv", 20, "point,link.wire.rate,link.wire.delay,metric,unit,seeds,mean,deviation,half_width"),
    ] {
        let sheet = read(name);
        assert!(sheet.starts_with(head), "{name}: {}", sheet.lines().next().unwrap_or_default());
        assert_eq!(sheet.lines().count(), lines + 1, "{name}");
        let columns = sheet.lines().next().unwrap().split(',').count();
        assert!(sheet.lines().all(|line| line.split(',').count() == columns), "{name}");
    }
    // Two plotted metrics and three that every run has, at four points.
    let estimates = document["estimates"].as_array().expect("means");
    assert_eq!(estimates.len(), 20);
    let goodput = estimates.iter().find(|one| one["metric"] == "goodput").expect("of all");
    assert!(goodput["seeds"] == 3 && goodput["half_width"].as_f64().is_some_and(|half| half > 0.0), "{goodput}");
    assert_eq!(document["seeds_alike"], serde_json::json!([]));
    assert!(document["runs"][0]["flows"][0]["delay"]["percentiles"]["p99.9"].is_f64());

    let page = read("report.html");
    assert_eq!(page.matches("<li><a href=\"#part").count(), page.matches("<h2 id=\"part").count());
    for part in
        [">Means</h2>", ">All runs</h2>", ">To run it again</h2>", "Goodput (kbit/s)</text>", ">time (s)</text>"]
    {
        assert!(page.contains(part), "{part}");
    }
    // The delay's two values are lines of their own in the first plot, which has three seeds at each point and no more.
    for line in [">first, delay 5ms<", ">first, delay 50ms<", ">second, delay 50ms<", ">f0<", ">f1<", ">5ms<", ">50ms<"]
    {
        assert!(page.contains(line), "{line}");
    }
    assert!(page.contains("share of samples not above") && page.contains("class=\"band"), "a distribution, and a band");
    assert!(page.contains("By rate (means and 95 % intervals)"), "what the bars are");
}

#[test]
fn points_of_a_joint_sweep_that_share_x_are_no_samples_of_one_thing() {
    let folder = Folder::new(&format!(
        "{SCENARIO}\n[[sweep]]\nparameter = [\"link.wire.rate\", \"link.wire.delay\"]\n\
         values = [[\"1Mbit\", \"5ms\"], [\"1Mbit\", \"50ms\"], [\"2Mbit\", \"5ms\"], [\"2Mbit\", \"50ms\"]]\n\
         [[plot]]\nx = \"link.wire.rate\"\ny = \"goodput\"\n"
    ));
    let output = folder.run(&["sim", "s.toml", "--out", "out"]);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", text(&output.stderr));
    let page = fs::read_to_string(folder.path().join("out/report.html")).expect("a report");
    assert!(page.contains(">delay 5ms<") && page.contains(">delay 50ms<"), "a line for each");
}

#[test]
fn a_key_that_is_set_twice_has_its_last_value_also_where_it_is_swept_with_another() {
    let folder = Folder::new(&format!(
        "{SCENARIO}\n[[sweep]]\nparameter = [\"link.wire.rate\", \"link.wire.delay\"]\nvalues = [[\"1Mbit\", \"5ms\"], [\"2Mbit\", \"50ms\"]]\n"
    ));
    let set = ["sim", "s.toml", "--json", "--set", "link.wire.rate=1Mbit", "--set", "link.wire.rate=2Mbit"];
    let runs = &document(&folder.run(&set))["runs"];
    assert_eq!(runs.as_array().map(Vec::len), Some(1));
    assert_eq!(runs[0]["parameters"]["link.wire.delay"], "50ms");
}

#[test]
fn seeds_that_agree_to_the_digit_are_warned_of() {
    let folder = Folder::new(&SCENARIO.replace("seed = 7", "seeds = [1, 2, 3]\ndrift = \"off\""));
    let summary = text(&folder.run(&["sim", "s.toml"]).stdout);
    assert!(summary.contains("warning: all seeds gave the same"), "{summary}");
    let document = document(&folder.run(&["sim", "s.toml", "--json"]));
    assert_eq!(document["seeds_alike"], serde_json::json!([0]));
}

#[test]
fn jain_s_index_of_nothing_is_null_and_a_dash() {
    let folder = Folder::new(&SCENARIO.replace("queue = \"20kB\"", "queue = \"20kB\"\nloss = \"100%\""));
    let document = document(&folder.run(&["sim", "s.toml", "--json"]));
    assert_eq!((&document["runs"][0]["jain"], &document["runs"][0]["goodput"]), (&Value::Null, &Value::from(0.0)));
    let summary = text(&folder.run(&["sim", "s.toml"]).stdout);
    assert!(summary.contains("Jain's index -\n"), "{summary}");
}

#[test]
fn the_summary_for_people_has_seed_hash_and_what_was_expected() {
    let folder = Folder::new(&format!("{SCENARIO}{EXPECT}"));
    let output = folder.run(&["sim", "s.toml"]);
    let summary = text(&output.stdout);
    for part in ["one flow", "seed 7, log hash ", "flow.f.throughput", "holds", "packets sent = "] {
        assert!(summary.contains(part), "{part} is not in\n{summary}");
    }
    assert!(output.stderr.is_empty(), "no progress where there is no terminal: {}", text(&output.stderr));
}

#[test]
fn the_document_is_the_same_bytes_whatever_the_number_of_threads() {
    let folder = Folder::new(&format!("{SCENARIO}{SWEEP}"));
    let documents: Vec<Vec<u8>> = ["1", "1", "2", "5"]
        .iter()
        .map(|jobs| folder.run(&["sim", "s.toml", "--json", "--seed", "3", "--seed", "4", "--jobs", jobs]).stdout)
        .collect();
    assert!(documents.windows(2).all(|pair| pair[0] == pair[1]));
    let document: Value = serde_json::from_slice(&documents[0]).expect("JSON");
    let runs = document["runs"].as_array().expect("runs");
    let told: Vec<(u64, &str)> = runs
        .iter()
        .map(|run| (run["seed"].as_u64().unwrap(), run["parameters"]["flow.f.rate"].as_str().unwrap()))
        .collect();
    let rates = ["0.5Mbit", "1Mbit", "3Mbit"];
    assert_eq!(told, rates.iter().flat_map(|rate| [(3, *rate), (4, *rate)]).collect::<Vec<_>>());
    let hashes: BTreeSet<&str> = runs.iter().map(|run| run["log_hash"].as_str().unwrap()).collect();
    assert_eq!(hashes.len(), 6, "each run is another one");
}

#[test]
fn what_differs_from_the_expected_is_status_1_and_a_set_key_can_make_it_so() {
    let folder = Folder::new(&format!("{SCENARIO}{EXPECT}"));
    let output = folder.run(&["sim", "s.toml", "--json", "--set", "flow.f.rate=3Mbit"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let document = document(&output);
    assert_eq!(document["holds"], Value::from(false));
    let deviation = document["expectations"][0]["deviation"].as_f64().expect("a number");
    // The link carries 2 of the 3 Mbit/s.
    assert!((deviation - 1.0).abs() < 0.02, "{deviation}");
}

#[test]
fn bad_input_is_status_2_says_where_and_runs_nothing() {
    let folder = Folder::new(SCENARIO);
    fs::write(folder.path().join("typo.toml"), SCENARIO.replace("delay =", "dealy =")).expect("written");
    fs::write(folder.path().join("two.toml"), SCENARIO.replace("2Mbit", "fast").replace("5ms", "late"))
        .expect("written");
    for (arguments, parts) in [
        (&["typo.toml"][..], &["typo.toml:14", "dealy", "delay"][..]),
        (&["two.toml"], &["two.toml:13", "two.toml:14"]),
        (&["none.toml"], &["none.toml"]),
        (&["s.toml", "--set", "link.wire.rate=none"], &["link.wire.rate"]),
        (&["s.toml", "--set", "duration"], &["KEY=VALUE"]),
        (&["s.toml", "--seed", "x"], &["--seed"]),
        (&["s.toml", "--seed", "1", "--seed", "2", "--seed", "1"], &["--seed 1", "twice"]),
        (&["s.toml", "--pcap", "wir"], &["`wir`", "`wire`"]),
        (&["s.toml", "--pcap", "ring.1"], &["`ring.1`", "there is no link"]),
        (&["s.toml", "--out", "s.toml/x"], &["--out"]),
    ] {
        let output = folder.run(&[&["sim"], arguments].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty() && !message.contains("panicked"), "{arguments:?}: {message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{arguments:?}: {parts:?} in {message}");
    }
    assert_eq!(folder.files().len(), 3, "{:?}", folder.files());
}

#[test]
fn out_writes_the_document_a_page_that_needs_nothing_else_and_the_series() {
    let metrics = "\n[metrics]\nseries = \"100ms\"\n";
    let folder = Folder::new(&format!("{SCENARIO}{SWEEP}{EXPECT}{metrics}"));
    let output = folder.run(&["sim", "s.toml", "--json", "--out", "result/today"]);
    assert_eq!(output.status.code(), Some(1), "the expectation is for one point only: {}", text(&output.stderr));
    let result = folder.path().join("result/today");
    assert_eq!(fs::read(result.join("summary.json")).expect("a summary"), output.stdout);
    for run in 0..3 {
        let series = fs::read_to_string(result.join(format!("series-{run}.csv"))).expect("series");
        assert!(series.starts_with("time (s),") && series.contains("\n0.1,"), "{series}");
        // Arrow files stand beside them in a program that was built to write them.
        assert_eq!(result.join(format!("series-{run}.arrow")).exists(), cfg!(feature = "arrow"));
    }
    let page = fs::read_to_string(result.join("report.html")).expect("a page");
    let fetched = page.replace("http://www.w3.org/2000/svg", "");
    for part in ["<script", "http:", "https:", "<link", "@import", "url("] {
        assert!(!fetched.contains(part), "{part}");
    }
    for part in ["<svg", "one flow", "differs", "prefers-color-scheme:dark", "time (s)"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn pcap_writes_every_packet_that_crossed_the_link() {
    let folder = Folder::new(SCENARIO);
    let output = folder.run(&["sim", "s.toml", "--json", "--pcap", "wire"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let crossed = document(&output)["runs"][0]["links"][0]["packets"].as_u64().expect("a number");
    let file = fs::read(folder.path().join("s-wire.pcapng")).expect("a capture");
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut packets, mut last) = (0, 0, 0);
    while at < file.len() {
        let (kind, length) = (word(at), word(at + 4) as usize);
        if kind == 6 {
            let time = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            assert!(time >= last && word(at + 24) == 500, "packet {packets}");
            (packets, last) = (packets + 1, time);
            let ip = &file[at + 28..at + 48];
            let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
            assert_eq!((ip[0], (sum & 0xffff) + (sum >> 16)), (0x45, 0xffff), "the header's checksum");
        }
        at += length;
    }
    assert_eq!(packets, crossed);
}

#[test]
fn ctrl_c_keeps_what_was_finished() {
    // The second point would take hours.
    let sweep = "\n[[sweep]]\nparameter = \"duration\"\nvalues = [\"1s\", \"100000000s\"]\n";
    for jobs in ["1", "2"] {
        // The first point takes as long as the machine needs for it: one that did not get so far is given more time.
        let finished = (0..8).map(|attempt| Duration::from_millis(400 << attempt)).find_map(|time| {
            let folder = Folder::new(&format!("{SCENARIO}{sweep}"));
            let mut running = folder.command(&["sim", "s.toml", "--json", "--out", "kept", "--jobs", jobs]);
            let running = running.spawn().expect("it runs");
            child::catches_interrupt(&running);
            std::thread::sleep(time);
            let pid = rustix::process::Pid::from_raw(running.id() as i32).expect("a process");
            rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
            let output = child::ended(running);
            assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
            let document = document(&output);
            assert_eq!((&document["interrupted"], &document["planned"]), (&Value::from(true), &Value::from(2)));
            assert_eq!(fs::read(folder.path().join("kept/summary.json")).expect("a summary"), output.stdout);
            let runs = document["runs"].as_array().expect("runs").clone();
            (!runs.is_empty()).then_some(runs)
        });
        let runs = finished.expect("the first point ends some time");
        assert_eq!(runs.len(), 1, "with {jobs} threads");
        assert_eq!(runs[0]["measured_s"], Value::from(1.0));
    }
}

#[test]
fn figures_are_listed_run_and_written_outside_of_a_checkout_too() {
    let folder = Folder::new(SCENARIO);
    let listed = document(&folder.run(&["figure", "--json"]));
    let keys: Vec<&str> =
        listed["figures"].as_array().expect("a list").iter().map(|f| f["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"cross-check.cbr-line") && !keys.iter().any(|key| key.starts_with("smoke")), "{keys:?}");
    let output = folder.run(&["figure", "cross-check.multipath-40g", "--json", "--out", "f"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(document(&output)["figures"][0]["key"], Value::from("cross-check.multipath-40g"));
    assert!(folder.path().join("f/cross-check.multipath-40g/report.html").exists());
}

#[test]
fn claims_prints_every_id_with_exactly_the_agreed_keys_anywhere() {
    let folder = Folder::new(SCENARIO);
    let output = folder.run(&["claims", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = document(&output);
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 54);
    let agreed = ["id", "paper", "ours", "unit", "deviation", "verdict", "reason"];
    let beside = ["bounded", "noise", "measured", "sensitivity", "calibrated"];
    let keys: BTreeSet<&str> = agreed.into_iter().chain(beside).collect();
    for row in rows {
        let found: BTreeSet<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(found, keys, "{row}");
        let verdict = row["verdict"].as_str().expect("a verdict");
        assert!(["holds", "calibrated", "differs", "not yet"].contains(&verdict), "{row}");
        assert!(row["ours"].is_null() || row["ours"].is_object(), "{row}");
    }
    let table = folder.run(&["claims", "striping.fifo"]);
    let table = text(&table.stdout);
    assert!(table.contains("striping.fifo") && table.contains("1 claims: 1 hold"), "{table}");
}

#[test]
fn claims_check_keeps_nothing_and_fails_on_whatever_changed_whether_it_holds_or_not() {
    let folder = Folder::new(SCENARIO);
    let check = |id: &str| folder.run(&["claims", id, "--check", "--reduced", "--jobs", "1", "--kept", "claims.json"]);
    let output =
        folder.run(&["claims", "striping.fig5-trace", "efl.complexity", "--run", "--reduced", "--kept", "claims.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let path = folder.path().join("claims.json");
    let kept = fs::read_to_string(&path).expect("kept");
    for id in ["striping.fig5-trace", "efl.complexity"] {
        let output = check(id);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    // One more way to divide the packets of Figure 5, and a claim that is said to differ, and does not.
    let (more, other) = (kept.replace("all 32435 ways", "all 32437 ways"), kept.replace("\"holds\"", "\"differs\""));
    assert!(more != kept && other != kept, "{kept}");
    for changed in [more, other] {
        fs::write(&path, &changed).expect("written");
        let output = check("striping.fig5-trace");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains("striping.fig5-trace changed"), "{}", text(&output.stderr));
        assert_eq!(fs::read_to_string(&path).expect("kept"), changed, "a check keeps nothing");
    }
}

#[test]
fn claims_are_a_page_with_what_they_rest_on() {
    let folder = Folder::new(SCENARIO);
    let output = folder.run(&["claims", "gateway", "rings", "--html", "claims.html"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = fs::read_to_string(folder.path().join("claims.html")).expect("a page");
    let shown = document(&folder.run(&["claims", "gateway", "rings", "--json"]));
    for row in shown.as_array().expect("a list") {
        assert!(page.contains(row["id"].as_str().expect("an id")), "{row}");
        for table in ["measured", "sensitivity"].iter().flat_map(|name| row[name].as_array().expect("tables")) {
            // As a page writes it.
            let of = table["of"].as_str().expect("what it is of").replace('&', "&amp;").replace('<', "&lt;");
            assert!(page.contains(&of), "{of}");
        }
    }
    assert!(page.contains("Sensitivity:") && page.contains(" ± "), "no table at all");
}

#[test]
fn claims_run_keeps_what_it_finds_and_leaves_the_rest() {
    let folder = Folder::new(SCENARIO);
    let output = folder.run(&["claims", "striping.fig5-trace", "--run", "--kept", "claims.json", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = document(&output);
    assert_eq!((shown.as_array().map(Vec::len), &shown[0]["verdict"]), (Some(1), &Value::from("holds")));
    let kept: Value =
        serde_json::from_slice(&fs::read(folder.path().join("claims.json")).expect("kept")).expect("JSON");
    assert_eq!(kept.as_array().map(Vec::len), Some(54));
    // A claim that the kept answers say holds, and that does not: told, and status 1 only when it is run.
    let root = std::env::var_os("FAIRSPAN_TESTDATA").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let Ok(root) = root.canonicalize() else {
        println!("skipped: no test data");
        return;
    };
    let id = "gateway.mix";
    let differs = kept.as_array().expect("a list").iter().find(|row| row["id"] == id).expect("it is one of them");
    assert_eq!(differs["verdict"], "differs", "another claim has to be taken");
    let mut changed = kept.clone();
    let mut rows = changed.as_array_mut().expect("a list").iter_mut();
    rows.find(|row| row["id"] == id).expect("the same")["verdict"] = Value::from("holds");
    fs::write(folder.path().join("claims.json"), changed.to_string()).expect("written");
    let run = |arguments: &[&str]| child::output(folder.command(arguments).env("FAIRSPAN_TESTDATA", &root));
    let output = run(&["claims", id, "--run", "--kept", "claims.json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("held before"), "{}", text(&output.stderr));
}
