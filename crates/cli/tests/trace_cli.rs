//! `fairspan trace` as a user meets it: documents, files of all kinds, standard input without an end, bad input.

#[path = "common/child.rs"]
mod child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.arg("trace").args(arguments);
    command
}

fn trace(arguments: &[&str]) -> Output {
    child::output(&mut command(arguments))
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

/// The document of a run that must end with this status.
fn ended(status: i32, arguments: &[&str]) -> Value {
    let output = trace(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
    document(&output)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    /// Writes a file; gives its path.
    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("written");
        path
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// An IPv4 packet from 10.0.0.`from` to 10.0.0.`to`: its identification, what its flags and offset are, and its protocol's header.
fn ip(from: u8, to: u8, identification: u8, place: u16, protocol: u8, head: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 20 + head.len() as u8, 0, identification];
    packet.extend(place.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    packet.extend(head);
    packet
}

fn udp(from: u8, to: u8, port: u8) -> Vec<u8> {
    ip(from, to, 0, 0, 17, &[0, port, 0, 53, 0, 8, 0, 0])
}

/// A pcap file of raw IP packets, each with its time in milliseconds.
fn pcap(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 101].iter().for_each(|word| file.extend(word.to_le_bytes()));
    for (millis, bytes) in packets {
        let words = [millis / 1000, millis % 1000 * 1000, bytes.len() as u32, bytes.len() as u32];
        words.iter().for_each(|word| file.extend(word.to_le_bytes()));
        file.extend(bytes);
    }
    file
}

fn some_packets() -> Vec<u8> {
    pcap(&[
        (0, udp(1, 2, 7)),
        (500, udp(2, 1, 8)),
        (1500, udp(1, 2, 7)),
        (1500, udp(1, 3, 7)),
        (2600, vec![0x70; 30]),
        (6500, udp(1, 2, 7)),
    ])
}

#[test]
fn flows_are_counted_for_a_grid_in_one_document_with_the_contract_s_keys() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &some_packets());
    let definitions = "five-tuple,five-tuple-both,source/24";
    let found = ended(0, &["flows", &file, "--definition", definitions, "--timeout", "1,5,none", "--table-size", "1"]);
    let row = |definition: &str, timeout: Value, numbers: [u64; 4]| {
        let [flows, most, operations, collisions] = numbers;
        json!({
            "definition": definition, "timeout_s": timeout, "flows": flows, "max_active": most, "operations": operations,
            "collisions": collisions, "hash_efficiency": 1.0 - collisions as f64 / 6.0,
        })
    };
    // Flow A has packets at 0, 1.5 and 6.5 s, B at 0.5 s, C at 1.5 s. Under 1 s A ends at 1 and 2.5, B at 1.5, C at 2.5; under 5 s
    // A is begun again at 6.5 s, when it and C expire, and B expired at 5.5 s. With one chain every packet beside another flow collides.
    let rows = [
        row("five-tuple", json!(1), [5, 2, 9, 2]),
        row("five-tuple", json!(5), [4, 3, 7, 3]),
        row("five-tuple", json!(null), [3, 3, 3, 4]),
        row("five-tuple-both", json!(1), [5, 2, 9, 2]),
        row("five-tuple-both", json!(5), [4, 3, 7, 3]),
        row("five-tuple-both", json!(null), [3, 3, 3, 4]),
        row("source/24", json!(1), [3, 1, 5, 0]),
        row("source/24", json!(5), [2, 1, 3, 0]),
        row("source/24", json!(null), [1, 1, 1, 0]),
    ];
    let expected = json!({
        "packets": 6, "classified": 5, "skipped": {"not_ip": 1}, "table_size": 1, "results": rows,
    });
    assert_eq!(found, expected);
    let csv = text(&trace(&["flows", &file, "--definition", "pair", "--timeout", "none,0.5", "--csv"]).stdout);
    assert_eq!(csv.lines().next(), Some("definition,timeout_s,flows,max_active,operations,collisions,hash_efficiency"));
    assert_eq!(csv.lines().nth(1), Some("pair,none,3,3,3,0,1"));
    assert!(csv.lines().nth(2).is_some_and(|line| line.starts_with("pair,0.5,")), "{csv}");
    let table = text(&trace(&["flows", &file]).stdout);
    assert!(table.contains("most at once") && table.contains("not_ip 1"), "{table}");
}

#[test]
fn several_files_are_one_sequence_by_their_times() {
    let folder = Folder::new();
    let whole = folder.file("whole.pcap", &some_packets());
    let even = folder.file("even.pcap", &pcap(&[(500, udp(2, 1, 8)), (1500, udp(1, 3, 7)), (6500, udp(1, 2, 7))]));
    let odd = folder.file("odd.pcap", &pcap(&[(0, udp(1, 2, 7)), (1500, udp(1, 2, 7)), (2600, vec![0x70; 30])]));
    let arguments = ["--definition", "five-tuple,pair", "--timeout", "1,5,none"];
    let one = ended(0, &[&["flows", &whole[..]][..], &arguments].concat());
    assert_eq!(ended(0, &[&["flows", &even[..], &odd][..], &arguments].concat()), one);
}

#[test]
fn active_flows_are_written_over_time() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &some_packets());
    let active = folder.path("active.csv");
    let arguments = ["--definition", "five-tuple", "--timeout", "1,5", "--active", &active, "--interval", "500ms"];
    let output = trace(&[&["flows", &file][..], &arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = fs::read_to_string(&active).expect("written");
    let expected =
        "time_s,five-tuple 1s,five-tuple 5s\n0,1,1\n0.5,2,2\n1,1,2\n1.5,2,3\n2.5,0,3\n3,0,3\n5.5,0,2\n6.5,1,1\n";
    assert_eq!(lines, expected, "4 s and others, before which no packet came and no flow ended, are left out");
}

#[test]
fn under_timeout_0_a_flow_is_active_while_it_has_a_packet_inside_the_gateway() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &some_packets());
    let numbers = |arguments: &[&str]| {
        let found = ended(0, &[&["flows", &file, "--definition", "five-tuple"][..], arguments].concat());
        let row = &found["results"][0];
        ["flows", "max_active", "operations"].map(|key| row[key].as_u64().expect("a number"))
    };
    // 28 bytes are sent in 224 ns. The two packets of 1.5 s are inside together. The last packet has not left at the end.
    assert_eq!(numbers(&["--timeout", "0", "--gateway=routing=1us"]), [5, 2, 9]);
    // A second for each packet: A is inside from 0 to 1 s, B to 2, A again from 1.5 to 3, C to 4, and A from 6.5 s on.
    assert_eq!(numbers(&["--timeout", "0", "--gateway=routing=1s"]), [5, 3, 9]);
    assert_eq!(numbers(&["--timeout", "0", "--gateway=classification=1s"]), [5, 3, 9]);
    assert_eq!(numbers(&["--timeout", "0", "--gateway=routing=0s,line=224bit"]), [5, 3, 9]);
    // Timeouts count from when packets leave, if all pass the gateway: A's then ends at 8 s, not at 6.5 s.
    assert_eq!(numbers(&["--timeout", "5"]), [4, 3, 7]);
    assert_eq!(numbers(&["--timeout", "5", "--gateway=routing=1s"]), [3, 3, 3]);
    // The lowest stable rate is found: of the two packets of 1.5 s one waits for 100 ms at most.
    let output = trace(&["flows", &file, "--timeout", "0,5", "--definition", "five-tuple"]);
    let said = text(&output.stderr);
    let rate =
        said.split("processes ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|rate| rate.parse().ok());
    assert!(matches!(rate, Some(10.0..=11.1)), "{said}");
}

#[test]
fn fragments_and_tunnels_are_told_as_asked() {
    let folder = Folder::new();
    let inner = udp(7, 8, 9);
    let first = ip(1, 2, 5, 0x2000, 17, &[0, 7, 0, 53, 0, 8, 0, 0]);
    let packets = pcap(&[(0, first), (1, ip(1, 2, 5, 1, 17, &[0; 8])), (2, ip(3, 4, 0, 0, 4, &inner)), (3, inner)]);
    let file = folder.file("a.pcap", &packets);
    let flows = |headers: &str| {
        let arguments = ["--definition", "five-tuple", "--timeout", "none", "--headers", headers];
        ended(0, &[&["flows", &file][..], &arguments].concat())["results"][0]["flows"].as_u64()
    };
    assert_eq!(["plain", "outer", "inner"].map(flows), [Some(4), Some(3), Some(2)]);
}

#[test]
fn info_tells_packets_bytes_protocols_sizes_and_rates() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &some_packets());
    let found = ended(0, &["info", &file]);
    assert_eq!((&found["packets"], &found["classified"], &found["bytes"]), (&json!(6), &json!(5), &json!(170)));
    assert_eq!(found["skipped"], json!({"not_ip": 1}));
    assert_eq!(found["protocols"], json!({"udp": {"packets": 5, "bytes": 140}}));
    assert_eq!(found["span_s"], json!(6.5));
    assert_eq!((&found["sizes"]["min"], &found["sizes"]["p99"]), (&json!(28), &json!(30)));
    assert_eq!(found["rates"]["busiest_second_packets"], json!(2));
    assert!(text(&trace(&["info", &file]).stdout).contains("6 packets, 5 of them classified"));
}

#[test]
fn a_damaged_file_gives_what_could_be_read_and_ends_with_status_2() {
    let folder = Folder::new();
    let mut whole = some_packets();
    whole.truncate(whole.len() - 3);
    let file = folder.file("cut.pcap", &whole);
    for command in ["flows", "info"] {
        let output = trace(&[command, &file, "--json"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("ends within the record"), "{}", text(&output.stderr));
        let found = document(&output);
        assert_eq!(found["skipped"], json!({"cut_short": 1, "not_ip": 1}), "{command}");
        assert_eq!((&found["packets"], &found["classified"]), (&json!(6), &json!(4)));
    }
    let none = folder.file("none", b"this is no capture");
    let output = trace(&["info", &none, &file, "--json"]);
    assert_eq!((output.status.code(), &document(&output)["packets"]), (Some(2), &json!(6)), "others are read");
    let output = trace(&["info", &none]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("neither pcap"), "{output:?}");
    let empty = folder.file("empty.pcap", b"");
    for command in ["info", "flows", "cost"] {
        let output = trace(&[command, &empty]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(text(&output.stderr).contains("empty.pcap: empty: there is nothing in it"), "{output:?}");
    }
    let lines = folder.file("lines", b"0.5 1 2 3 4 5\nwrong\n1.5 1 2 3 4 5\n");
    let found = ended(0, &["flows", &lines]);
    assert_eq!((&found["skipped"], &found["classified"]), (&json!({"malformed_line": 1}), &json!(2)));
}

#[test]
fn a_capture_without_packets_is_an_answer_and_is_said() {
    let folder = Folder::new();
    let none = folder.file("none.pcap", &some_packets()[..24]);
    let file = folder.file("a.pcap", &some_packets());
    let said = |output: &Output| text(&output.stderr).matches("none.pcap: a capture without packets").count();
    for command in ["info", "flows"] {
        let output = trace(&[command, &none, "--json"]);
        assert_eq!((output.status.code(), said(&output)), (Some(0), 1), "{command}: {output:?}");
        assert_eq!(document(&output)["packets"], 0);
        let output = trace(&[command, &file, &none, "--json"]);
        assert_eq!((output.status.code(), said(&output)), (Some(0), 1), "{command}: {output:?}");
        assert_eq!(document(&output)["packets"], 6);
        // What was cut within its first packet had one.
        let cut = folder.file("none.pcap.cut", &some_packets()[..30]);
        let output = trace(&[command, &cut]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!text(&output.stderr).contains("without packets"), "{output:?}");
    }
    // Nothing can be reckoned of it.
    let output = trace(&["cost", &none]);
    assert_eq!((output.status.code(), said(&output)), (Some(2), 1), "{output:?}");
}

#[test]
fn what_cannot_be_asked_is_refused_with_what_can() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &some_packets());
    let refused = [
        (&["--timeout", "soon"][..], "none"),
        (&["--gateway=speed=9"], "classification"),
        (&["--gateway=discipline=best"], "drr"),
        (&["--definition", "sextuple"], "five-tuple-both"),
        (&["--definition", "prefix/129"], "0 to 128"),
        (&["--table-size", "0"], "table-size"),
        (&["--format", "snoop"], "pcapng"),
        (&["--interval", "0s"], "interval"),
        (&["--json", "--csv"], "--csv"),
    ];
    for (arguments, told) in refused {
        let output = trace(&[&["flows", &file][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(told), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = trace(&["flows", "-", "--timeout", "0"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("routing=10us"), "{output:?}");
    let output = trace(&["flows", "-", "-"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("only once"), "{output:?}");
}

#[test]
fn an_interrupt_gives_the_result_so_far_also_of_a_source_that_stays_silent() {
    for silent in [false, true] {
        let mut child = command(&["flows", "-", "--json", "--timeout", "none", "--definition", "pair"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let pid = Pid::from_raw(child.id() as i32).expect("a number");
        let mut input = child.stdin.take().expect("a pipe");
        let some = some_packets();
        input.write_all(&some).expect("taken");
        // More than a pipe holds: when the last of it is written, most of it is read.
        let enough = some[24..].repeat(8000);
        input.write_all(&enough).expect("taken");
        let writer = (!silent).then(|| {
            let endless = some[24..].repeat(100);
            let mut input = fs::File::from(input.as_fd().try_clone_to_owned().expect("a descriptor"));
            std::thread::spawn(move || while input.write_all(&endless).is_ok() {})
        });
        child::catches_interrupt(&child);
        kill_process(pid, Signal::INT).expect("interrupted");
        let output = child::ended(child);
        drop(input);
        writer.into_iter().for_each(|writer| writer.join().expect("ended"));
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        let found = document(&output);
        let number = |key: &str| found[key].as_u64().expect("a number");
        assert!(number("packets") > 10_000, "{found}");
        assert_eq!(number("packets"), number("classified") + found["skipped"]["not_ip"].as_u64().expect("a number"));
        assert_eq!(
            found["skipped"].as_object().map(serde_json::Map::len),
            Some(1),
            "what is cut off is no damage: {found}"
        );
        assert_eq!(found["results"][0]["flows"], json!(3));
    }
}

/// `count` packets of as many flows at once.
fn burst(count: u8) -> Vec<u8> {
    let packets: Vec<_> = (0..count).map(|flow| (0, udp(1, 2, flow))).chain([(1000, udp(1, 2, 0))]).collect();
    pcap(&packets)
}

#[test]
fn costs_are_operations_by_the_papers_formulas_and_what_was_measured_of_every_discipline() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &burst(16));
    let found = ended(0, &["cost", &file, "--discipline", "all", "--load", "captured", "--rounds", "2"]);
    assert_eq!((&found["packets"], &found["measured_packets"]), (&json!(17), &json!(17)));
    assert_eq!((&found["active_flows"]["most"], &found["hash_efficiency"]), (&json!(16), &json!(1.0)));
    let results = found["results"].as_array().expect("rows");
    let row = |name: &str| results.iter().find(|row| row["discipline"] == name).unwrap_or_else(|| panic!("no {name}"));
    // The 16th of the packets at once finds 16 active flows, and log2(32) is 5.
    let worst = |name: &str| row(name)["operations"]["worst"].as_f64();
    assert_eq!(
        ["fifo", "stochastic", "drr", "sfq", "scfq", "wfq"].map(worst),
        [Some(0.0), Some(17.0), Some(17.0), Some(23.0), Some(23.0), Some(38.0)]
    );
    for row in results {
        let ns = ["median", "p99", "worst"].map(|key| row["ns"][key].as_f64().expect("a number"));
        assert!(ns.is_sorted() && row["ns"]["mean"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["dropped"], json!(0), "{row}");
        assert!(["yes", "on average", "no"].contains(&row["affordable"].as_str().expect("a word")), "{row}");
    }
    let state = |name: &str| row(name)["state_bytes_per_flow"].as_f64().expect("a number");
    assert_eq!(state("fifo"), 0.0, "FIFO holds nothing for a flow");
    assert!(
        (16.0..400.0).contains(&state("drr")) && state("wfq") > state("sfq") && state("sfq") > state("drr"),
        "{found}"
    );
    // 16 packets at once, of which one is sent and ten have room: five are dropped, for which reason soever.
    let policies = ["--discipline", "drr", "--policy", "all", "--load", "captured", "--limit", "10", "--rounds", "1"];
    let found = ended(0, &[&["cost", &file][..], &policies].concat());
    let full: Vec<&Value> =
        found["results"].as_array().expect("rows").iter().filter(|row| row["dropped"] == 5).collect();
    assert!(full.len() >= 6, "{found}");
}

#[test]
fn costs_say_what_is_afforded_and_what_is_to_be_taken() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &burst(200));
    let recommended = |arguments: &[&str]| {
        let few = ["--discipline", "fifo,stochastic:buckets=8,quantum=900B,sfq", "--rounds", "1"];
        let found = ended(0, &[&["cost", &file][..], &few, arguments].concat());
        (found["recommended"]["discipline"].clone(), found["advice"].as_str().expect("words").to_owned())
    };
    // A minute for each packet, or a picosecond: no machine is so slow, or so fast.
    let (discipline, advice) = recommended(&["--link", "4bit"]);
    assert!(discipline == "sfq" && advice.contains("FIFO"), "{advice}");
    let (discipline, advice) = recommended(&["--link", "200000Gbit"]);
    assert!(discipline.is_null() && advice.contains("none of these"), "{advice}");
    let csv = text(&trace(&["cost", &file, "--discipline", "drr", "--rounds", "1", "--csv"]).stdout);
    assert!(csv.starts_with("discipline,policy,operations_mean") && csv.lines().count() == 2, "{csv}");
    let table = text(&trace(&["cost", &file, "--discipline", "drr", "--rounds", "1", "--link", "4bit"]).stdout);
    assert!(table.contains("affordable") && table.contains("Recommended: drr with longest-queue"), "{table}");
    let out = folder.path("report");
    assert_eq!(trace(&["cost", &file, "--rounds", "1", "--out", &out]).status.code(), Some(0));
    let page = fs::read_to_string(format!("{out}/report.html")).expect("a page");
    assert!(page.matches("<svg").count() == 3 && page.contains("as Figure 2.5") && page.contains("Recommended"));
    let summary = fs::read_to_string(format!("{out}/summary.json")).expect("a document");
    assert!(serde_json::from_str::<Value>(&summary).is_ok_and(|found| found["results"].is_array()));
    assert!(fs::read_to_string(format!("{out}/results.csv")).is_ok_and(|csv| csv.lines().count() > 10));
}

#[test]
fn costs_that_cannot_be_asked_are_refused_with_what_can() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &burst(3));
    let refused = [
        (&["--discipline", "best"][..], "there are all, fifo"),
        (&["--discipline", "drr:quantum=0B"], "quantum"),
        (&["--policy", "best"], "there are all, usual, drop-tail"),
        (&["--load", "0%"], "captured"),
        (&["--processor", "200%"], "100 %"),
        (&["--link", "0bit"], "--link"),
        (&["--limit", "0"], "--limit"),
    ];
    for (arguments, told) in refused {
        let output = trace(&[&["cost", &file][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(told), "{arguments:?}: {}", text(&output.stderr));
    }
    let none = folder.file("none.pcap", &pcap(&[(0, vec![0x70; 30])]));
    let output = trace(&["cost", &none]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("no packet"), "{output:?}");
}

#[test]
fn an_interrupt_in_the_gateway_s_first_pass_gives_the_result_of_what_it_read() {
    let folder = Folder::new();
    let some = some_packets();
    let mut packets = some.clone();
    (0..400_000).for_each(|_| packets.extend(&some[24..]));
    let file = folder.file("long.pcap", &packets);
    let arguments = ["flows", &file, "--json", "--timeout", "0", "--definition", "pair"];
    let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let pid = Pid::from_raw(child.id() as i32).expect("a number");
    child::catches_interrupt(&child);
    kill_process(pid, Signal::INT).expect("interrupted");
    let output = child::ended(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let found = document(&output);
    let number = |key: &str| found[key].as_u64().expect("a number");
    assert!(number("packets") <= 6 * 400_001, "{found}");
    let skipped: u64 = found["skipped"].as_object().expect("reasons").values().filter_map(Value::as_u64).sum();
    assert_eq!(number("packets"), number("classified") + skipped);
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
}

#[test]
fn a_flood_of_flows_takes_the_memory_that_it_may_and_all_its_packets_are_counted() {
    let folder = Folder::new();
    // 60,000 flows at once, and one that goes on among them.
    let flood = (0..60_000_u32).map(|flow| {
        let [.., high, low] = flow.to_be_bytes();
        let packet = if flow % 10 == 0 { udp(1, 2, 3) } else { ip(high, 9, 0, 0, 17, &[low, high, 0, 53, 0, 8, 0, 0]) };
        (flow / 100, packet)
    });
    let file = folder.file("flood.pcap", &pcap(&flood.collect::<Vec<_>>()));
    let arguments =
        ["flows", &file, "--json", "--definition", "five-tuple", "--timeout", "10,none", "--most-flows", "1000"];
    let output = trace(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("53001 flows ended early"), "{}", text(&output.stderr));
    let found = document(&output);
    assert_eq!((&found["packets"], &found["classified"]), (&json!(60_000), &json!(60_000)));
    for row in found["results"].as_array().expect("rows") {
        assert_eq!((&row["flows"], &row["max_active"]), (&json!(54_001), &json!(1000)), "{row}");
    }
}

#[test]
fn behind_a_record_of_an_impossible_length_the_next_one_is_found() {
    let folder = Folder::new();
    let whole = some_packets();
    for length in [u32::MAX, 1 << 31, (16 << 20) + 1] {
        let mut broken = whole.clone();
        // The second record: 24 bytes of the file's header, 16 and 28 of the first.
        broken[24 + 44 + 8..][..4].copy_from_slice(&length.to_le_bytes());
        let file = folder.file("broken.pcap", &broken);
        let output = trace(&["flows", &file, "--json"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("the record at byte 68 is broken; reading goes on"), "{length}");
        let found = document(&output);
        assert_eq!(found["skipped"], json!({"broken_record": 1, "not_ip": 1}), "{length}");
        assert_eq!((&found["packets"], &found["classified"]), (&json!(6), &json!(4)), "{length}");
    }
    // Where nothing like a record comes any more, all before it counts.
    let mut broken = whole;
    broken.truncate(24 + 44);
    broken.extend([0xff; 100_000]);
    let found = ended(2, &["flows", &folder.file("end.pcap", &broken)]);
    assert_eq!((&found["packets"], &found["classified"]), (&json!(2), &json!(1)));
}

fn test_data() -> Option<PathBuf> {
    let root = std::env::var_os("FAIRSPAN_TESTDATA").map(PathBuf::from);
    let traces = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared")).join("traces");
    if !traces.is_dir() {
        println!("skipped: no test data");
        return None;
    }
    Some(traces)
}

#[test]
fn the_gateway_mix_has_the_flows_that_its_description_tells() {
    let Some(traces) = test_data() else { return };
    let file = traces.join("gwmix-96.pcap.xz").display().to_string();
    let arguments = ["--definition", "five-tuple,five-tuple-both", "--timeout", "none,5"];
    let found = ended(0, &[&["flows", &file][..], &arguments].concat());
    assert_eq!((&found["packets"], &found["classified"]), (&json!(517_608), &json!(517_608)));
    let results = &found["results"];
    assert_eq!((&results[0]["flows"], &results[2]["flows"]), (&json!(26_857), &json!(17_198)));
    // By a plain count in another language: every flow in a dictionary, all that are too old taken out before each packet.
    let counts = ["flows", "max_active", "operations"].map(|key| results[1][key].as_u64());
    assert_eq!(counts, [Some(35_390), Some(4031), Some(70_773)]);
    // The same for the gateway: a plain calculation of when each packet leaves, and a list of those inside.
    let inside = ended(0, &["flows", &file, "--definition", "five-tuple", "--timeout", "0"]);
    let counts = ["flows", "max_active", "operations"].map(|key| inside["results"][0][key].as_u64());
    assert_eq!(counts, [Some(384_469), Some(177), Some(768_937)]);
    let info = ended(0, &["info", &file]);
    assert_eq!((&info["ipv6"]["packets"], &info["classified"]), (&json!(75_709), &json!(517_608)));
    assert!(info["sizes"]["max"].as_u64() > Some(65_535), "lengths are those on the wire: {}", info["sizes"]);
}

#[test]
fn every_packet_of_every_capture_of_the_test_data_is_accounted_for() {
    let Some(traces) = test_data() else { return };
    let mut files = 0;
    for folder in ["nasty", "real", "attack"] {
        for entry in fs::read_dir(traces.join(folder)).expect("a directory") {
            let file = entry.expect("an entry").path().display().to_string();
            for headers in ["plain", "inner"] {
                let output = trace(&["flows", &file, "--json", "--headers", headers]);
                assert!(matches!(output.status.code(), Some(0 | 2)), "{file}: {}", text(&output.stderr));
                let found = document(&output);
                let skipped =
                    found["skipped"].as_object().expect("reasons").values().filter_map(Value::as_u64).sum::<u64>();
                assert_eq!(found["packets"].as_u64(), found["classified"].as_u64().map(|n| n + skipped), "{file}");
            }
            files += 1;
        }
    }
    assert!(files > 50, "{files} files");
}
