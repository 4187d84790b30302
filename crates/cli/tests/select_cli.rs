//! `fairspan select` as a user meets it: documents, files, what Linux chooses, bad input, interruption.

#[path = "common/child.rs"]
mod child;

use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.arg("select").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
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

fn select(arguments: &[&str]) -> Output {
    child::output(&mut command(arguments))
}

/// The document of a run that must end well.
fn done(arguments: &[&str]) -> Value {
    let output = select(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    document(&output)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    /// Writes a file; gives its path.
    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content).expect("written");
        path.display().to_string()
    }
}

/// A UDP datagram over IPv4 from port `port`, in an Ethernet frame of `length` bytes.
fn udp(port: u16, length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0];
    frame.extend((length as u16 - 14).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 53, 0, 0, 0, 0]);
    frame.resize(length, 0);
    frame
}

/// A pcap file in microseconds, of packets `(time, captured bytes, length)`.
fn pcap(link_type: u32, packets: &[(u64, Vec<u8>, usize)]) -> Vec<u8> {
    let mut file = Vec::new();
    [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, link_type].iter().for_each(|word| file.extend(word.to_le_bytes()));
    for (micros, bytes, length) in packets {
        let words = [(micros / 1_000_000) as u32, (micros % 1_000_000) as u32, bytes.len() as u32, *length as u32];
        words.iter().for_each(|word| file.extend(word.to_le_bytes()));
        file.extend(bytes);
    }
    file
}

fn hex(frames: &[Vec<u8>]) -> String {
    let line = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    frames.iter().map(line).collect()
}

#[test]
fn the_document_has_loads_order_and_assignments_of_each_policy_asked_for() {
    let folder = Folder::new();
    let packets: Vec<_> = (0..6).map(|n| (n * 1000, udp(7, 1250), 1250)).collect();
    let file = folder.file("a.pcap", &pcap(1, &packets));
    // 10 ms for each packet on link 0, then 1 ms and 30 ms of delay on link 1.
    let links = ["--links", "slow:1,far:10Mbit:30ms"];
    let asked = ["--policy", "balance-rr", "broadcast", "--policy", "1:primary=far"];
    let document = done(&[&[file.as_str(), "--trace"], &links[..], &asked[..]].concat());
    assert_eq!(document["links"][1], json!({"name": "far", "rate": 10_000_000, "delay": 0.03}));
    assert_eq!((&document["packets"], &document["flows"]), (&json!(6), &json!(1)));
    assert_eq!(document["duration_s"], json!(0.005));
    assert_eq!((&document["problem"], &document["left_out"]), (&Value::Null, &json!([])));
    let policies = document["policies"].as_array().expect("policies");
    let named: Vec<_> = policies.iter().map(|policy| (&policy["policy"], &policy["settings"])).collect();
    let names = [("balance-rr", "balance-rr"), ("broadcast", "broadcast"), ("1:primary=far", "active-backup:far")];
    assert_eq!(
        named,
        names.map(|(a, b)| (Value::from(a), Value::from(b))).iter().map(|(a, b)| (a, b)).collect::<Vec<_>>()
    );
    // As Linux does: the first packet on link 1. Packets 0, 2, 4 arrive at 31, 33 and 35 ms over it; 1, 3, 5 at 11, 21
    // and 31 ms over link 0, so that 0, 2 and 4 are below the highest by then.
    let expected = json!({
        "policy": "balance-rr", "settings": "balance-rr",
        "links": [
            {"packets": 3, "bytes": 3750, "busy_s": 0.03, "wait_max_s": 0.016},
            {"packets": 3, "bytes": 3750, "busy_s": 0.003, "wait_max_s": 0.0},
        ],
        "load_difference": 0.0, "byte_difference": 0.0, "reordered": 0.5, "reordered_packets": 3,
        "forwarded": 6, "held": 0, "flows": 1, "split": 1, "bursts": 6, "assignments": [1, 0, 1, 0, 1, 0],
    });
    assert_eq!(policies[0], expected);
    assert_eq!(policies[1]["assignments"], json!(vec![[0, 1]; 6]));
    assert_eq!((&policies[1]["links"][0]["packets"], &policies[1]["forwarded"]), (&json!(6), &json!(6)));
    assert_eq!((&policies[2]["assignments"], &policies[2]["load_difference"]), (&json!(vec![1; 6]), &json!(1.0)));
    assert_eq!(policies[2]["bursts"], json!(1));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/select.md");
    let documented = fs::read_to_string(root).expect("a document");
    let (_, documented) = documented.split_once("\n## JSON\n").expect("a section");
    keys(&document, &mut |key| assert!(documented.contains(&format!("\"{key}\"")), "docs/select.md: {key}"));
}

/// Tells every key of a document.
fn keys(value: &Value, tell: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            tell(key);
            keys(value, tell);
        }),
        Value::Array(values) => values.iter().for_each(|value| keys(value, tell)),
        _ => {}
    }
}

#[test]
fn assignments_are_there_only_where_they_are_asked_for() {
    let folder = Folder::new();
    let file = folder.file("a.pcap", &pcap(1, &[(0, udp(7, 60), 60)]));
    let plain = done(&[&file, "--links", "2", "--policy", "broadcast"]);
    assert!(plain["policies"][0].get("assignments").is_none(), "{plain}");
    let traced = done(&[&file, "--links", "1", "--policy", "broadcast", "--trace"]);
    assert_eq!(traced["policies"][0]["assignments"], json!([[0]]), "a list, were it of one link");
}

#[test]
fn several_files_are_one_sequence_by_their_times_and_assignments_stay_in_the_order_of_the_files() {
    let folder = Folder::new();
    let at = |times: &[u64]| pcap(1, &times.iter().map(|&t| (t, udp(7, 60), 60)).collect::<Vec<_>>());
    let (a, b) = (folder.file("a.pcap", &at(&[20, 40, 60])), folder.file("b.pcap", &at(&[10, 30, 25, 70])));
    let document = done(&[&a, &b, "--links", "10", "--policy", "balance-rr", "--trace"]);
    // By time: b 10, a 20, b 30, b 25 (which counts as 30), a 40, a 60, b 70.
    assert_eq!(document["policies"][0]["assignments"], json!([2, 5, 6, 1, 3, 4, 7]));
    let output = select(&[&a, &b, "--links", "2", "--policy", "balance-rr"]);
    assert!(text(&output.stderr).contains("steps back before 1 packet;"), "{}", text(&output.stderr));
    // Files may also stand behind the policies.
    let behind = done(&["--links", "10", "--trace", "--policy", "balance-rr", &a, &b]);
    assert_eq!(behind, document);
}

#[test]
fn frames_in_hexadecimal_are_what_the_same_frames_in_a_capture_are() {
    let folder = Folder::new();
    let frames: Vec<Vec<u8>> = (0..9).map(|n| udp(n * 7919, 60 + usize::from(n))).collect();
    let packets: Vec<_> = frames.iter().enumerate().map(|(n, f)| (n as u64 * 3000, f.clone(), f.len())).collect();
    let captured = folder.file("a.pcap", &pcap(1, &packets));
    let lines = folder.file("a.hex", format!("# frames\n\n{}", hex(&frames)).as_bytes());
    let asked = ["--links", "3", "--trace", "--policy", "balance-xor:layer3+4", "balance-rr:2", "least_queue"];
    let from_capture = done(&[&[captured.as_str()], &asked[..]].concat());
    let from_lines = done(&[&[lines.as_str(), "--hex", "--interval", "3ms"], &asked[..]].concat());
    assert_eq!(from_lines["policies"], from_capture["policies"]);
    assert_eq!(from_lines["duration_s"], json!(0.024));

    let mut piped = command(&[&["-", "--hex", "--interval", "3ms", "--json"], &asked[..]].concat());
    let mut piped = piped.stdin(Stdio::piped()).spawn().expect("it runs");
    piped.stdin.take().expect("a pipe").write_all(hex(&frames).as_bytes()).expect("written");
    assert_eq!(document(&child::ended(piped))["policies"], from_capture["policies"]);
    let default = done(&[&lines, "--hex", "--links", "1", "--policy", "balance-rr"]);
    assert_eq!(default["duration_s"], json!(8e-6));
}

#[test]
fn flows_that_move_behind_a_marker_are_not_reordered() {
    let folder = Folder::new();
    let packets: Vec<_> = (0..200).map(|n| (n * 1000, udp(n as u16 % 2, 1000), 1000)).collect();
    let file = folder.file("a.pcap", &pcap(1, &packets));
    let policies = ["balance-rr:7", "balance-rr:7,flush=on"];
    let document = done(&[&[file.as_str(), "--links", "near:20,far:20:15ms", "--policy"], &policies[..]].concat());
    let of = |n: usize, key: &str| document["policies"][n][key].as_u64().expect("a number");
    assert!(of(0, "reordered_packets") > 20 && of(0, "held") == 0, "{document}");
    assert!(of(1, "reordered_packets") == 0 && of(1, "held") > 0 && of(1, "bursts") > 4, "{document}");
    assert_eq!(of(1, "forwarded"), 200);
}

#[test]
fn random_links_follow_the_seed() {
    let folder = Folder::new();
    let lines = folder.file("a.hex", hex(&vec![udp(7, 60); 200]).as_bytes());
    let random = |seed: &str| {
        let document = done(&[&lines, "--hex", "--links", "4", "--policy", "balance-rr:0", "--trace", "--seed", seed]);
        document["policies"][0]["assignments"].clone()
    };
    assert_eq!(random("1"), random("1"));
    assert_ne!(random("1"), random("2"));
}

#[test]
fn packets_that_cannot_be_forwarded_are_null_and_said() {
    let folder = Folder::new();
    let ip = udp(7, 60)[14..].to_vec();
    let cooked = |kind: [u8; 2], ip: &[u8]| [&[0; 14][..], &kind, ip].concat();
    let packets = [(0, cooked([8, 0], &ip), 62), (1, cooked([8, 6], &[0; 28]), 44), (2, cooked([8, 0], &ip), 62)];
    let file = folder.file("cooked.pcap", &pcap(113, &packets));
    let document = done(&[&file, "--links", "2", "--policy", "balance-rr", "--trace"]);
    let policy = &document["policies"][0];
    assert_eq!((&policy["assignments"], &policy["forwarded"]), (&json!([1, null, 0]), &json!(2)));
    assert_eq!(policy["links"][0]["bytes"], json!(46), "the IP packet's");
    assert_eq!((&document["packets"], &document["left_out"][0]["packets"]), (&json!(3), &json!(1)));
    assert!(document["left_out"][0]["reason"].as_str().is_some_and(|reason| reason.contains("no IP packet")));
}

#[test]
fn a_capture_cut_by_its_snap_length_counts_by_its_length_on_the_wire() {
    let folder = Folder::new();
    let packets: Vec<_> =
        [0, 20, 40].iter().map(|&cut| (u64::from(cut == 20), udp(7, 1000)[..cut].to_vec(), 1000)).collect();
    let file = folder.file("cut.pcap", &pcap(1, &packets));
    let document = done(&[&file, "--links", "1", "--all"]);
    for policy in document["policies"].as_array().expect("policies") {
        assert_eq!(policy["links"][0]["bytes"], json!(3000), "{policy}");
    }
}

#[test]
fn without_a_policy_all_are_tried_and_people_get_tables() {
    let folder = Folder::new();
    let packets: Vec<_> = (0..40).map(|n| (n * 100, udp(n as u16 % 5, 500), 500)).collect();
    let file = folder.file("a.pcap", &pcap(1, &packets));
    let all = done(&[&file, "--links", "4", "--all"]);
    assert_eq!(all, done(&[&file, "--links", "4"]));
    let names: Vec<&str> =
        all["policies"].as_array().expect("policies").iter().filter_map(|p| p["policy"].as_str()).collect();
    for spec in fairspan_core::select::POLICIES {
        assert!(names.contains(&spec.name), "{}: {names:?}", spec.name);
    }
    for more in ["balance-xor:layer2+3", "balance-xor:vlan+srcmac", "brr:adaptive"] {
        assert!(names.contains(&more), "{more}: {names:?}");
    }
    for links in ["4", "8"] {
        let output = select(&[&file, "--links", links]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let said = format!("40 packets of 5 flows in 3.9 ms, over {links} links, each 1 Gbit/s");
        assert!(shown.contains(&said) && names.iter().all(|name| shown.contains(name)), "{shown}");
    }
    let traced = text(&select(&[&file, "--links", "4", "--policy", "balance-rr", "broadcast", "--trace"]).stdout);
    let lines: Vec<&str> = traced.lines().take(3).collect();
    assert_eq!(
        lines,
        ["# packet time_s bytes balance-rr broadcast", "0 0.000000000 500 1 0,1,2,3", "1 0.000100000 500 2 0,1,2,3"]
    );
}

#[test]
fn bad_input_is_refused_with_what_would_be_right() {
    let folder = Folder::new();
    let good = folder.file("good.pcap", &pcap(1, &[(0, udp(7, 60), 60)]));
    let wifi = folder.file("wifi.pcap", &pcap(105, &[(0, vec![0; 60], 60)]));
    let xz = folder.file("a.pcap.xz", b"\xfd7zXZ\0\0");
    let bz = folder.file("a.pcap.bz2", b"BZh91AY");
    let lines = folder.file("a.hex", b"0a1b\n0a1\n");
    let whole = folder.file("b.hex", b"0a1b\n");
    let empty = folder.file("empty.pcap", b"");
    let absent = folder.0.path().join("absent.pcap").display().to_string();
    for (arguments, said) in [
        (&[absent.as_str(), "--links", "4"][..], "No such file"),
        (&[&good, &absent, "--links", "4"], "No such file"),
        (&[&good, "--links", "0"], "from 1 to 64"),
        (&[&good, "--links", "65"], "from 1 to 64"),
        (&[&good, "--links", "a:1,a:2"], "a name of its own"),
        (&[&good, "--links", "a:99999Tbit"], "known: bit"),
        (&[&good, "--links", "a:1:5"], "25ms"),
        (&[&good, "--links", "a:0"], "from 100 bit/s"),
        (&[&good, "--links", "2", "--policy", "round-robin"], "known are balance-rr"),
        (&[&good, "--links", "2", "--policy", "balance-xor:layer5"], "write one of layer2"),
        (&[&good, "--links", "2", "--policy", "active-backup:dsl"], "the links are 0, 1"),
        (&[&good, "--links", "2", "--policy", "broadcast:flush=on"], "leave flush out"),
        (&[&good, "--links", "2", "--policy", "brr", "--all"], "cannot be used with"),
        (&[&wifi, "--links", "2"], "(IEEE 802.11) begins with neither"),
        (&[&xz, "--links", "2"], "could not be unpacked"),
        (&[&bz, "--links", "2"], "bzip2 -dc"),
        (&[&whole, "--links", "2"], "add --hex"),
        (&[&empty, "--links", "2"], "empty.pcap: empty: there is nothing in it"),
        (&[&good, "--hex", "--links", "2"], "leave --hex out"),
        (&[&lines, "--hex", "--links", "2"], "line 2 has 3 hexadecimal digits"),
        (&["-", "-", "--links", "2"], "only once"),
    ] {
        let output = select(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(said) && output.stdout.is_empty(), "{arguments:?}: {message}");
    }
}

/// A zstd file of one raw block (RFC 8878, 3.1.1), whose content is not packed at all.
fn zstd(content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32;
    let mut file = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    file.extend(length.to_le_bytes());
    file.extend(&(length << 3 | 1).to_le_bytes()[..3]);
    file.extend(content);
    file
}

#[test]
fn a_packed_capture_is_read_as_what_is_in_it() {
    let folder = Folder::new();
    let content = pcap(1, &(0..5).map(|n| (n, udp(7, 60), 60)).collect::<Vec<_>>());
    let told = |name: &str, content: &[u8]| {
        let file = folder.file(name, content);
        let output = select(&[&file, "--links", "2", "--policy", "balance-rr", "--json"]);
        let mut found: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect("a document");
        found.as_object_mut().expect("keys").remove("files");
        (output.status.code(), found, text(&output.stderr))
    };
    let (plain, packed) = (told("a.pcap", &content), told("a.pcap.zst", &zstd(&content)));
    assert_eq!((plain.0, &plain.1), (Some(0), &packed.1), "{}", packed.2);
    // What could be unpacked before the file ends is told, and that it ends.
    let mut cut = zstd(&content);
    let rest = zstd(&[1; 1000]);
    cut.extend(&rest[..500]);
    let cut = told("cut.pcap.zst", &cut);
    assert!(cut.0 == Some(2) && cut.2.contains("could not be unpacked to its end"), "{}", cut.2);
    assert_eq!(cut.1["packets"], plain.1["packets"]);
}

#[test]
fn of_a_file_that_ends_too_early_what_was_whole_is_told() {
    let folder = Folder::new();
    let mut cut = pcap(1, &(0..5).map(|n| (n, udp(7, 60), 60)).collect::<Vec<_>>());
    cut.pop();
    let cut = folder.file("cut.pcap", &cut);
    let output = select(&[&cut, "--links", "2", "--policy", "balance-rr", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let document = document(&output);
    assert_eq!((&document["packets"], &document["policies"][0]["forwarded"]), (&json!(4), &json!(4)));
    assert!(
        document["problem"].as_str().is_some_and(|problem| problem.contains("ends within the record at byte 328")),
        "{document}"
    );
    assert!(text(&output.stderr).contains("cut.pcap: the file ends within"), "{}", text(&output.stderr));
    let empty = folder.file("empty.pcap", &pcap(1, &[]));
    let said = select(&[&empty, "--links", "2"]);
    assert!(text(&said.stderr).contains("empty.pcap: a capture without packets"), "{said:?}");
    let document = done(&[&empty, "--links", "2", "--trace"]);
    for policy in document["policies"].as_array().expect("policies") {
        assert_eq!(
            (&policy["assignments"], &policy["reordered"], &policy["load_difference"]),
            (&json!([]), &json!(0.0), &json!(0.0))
        );
    }
}

#[test]
fn ctrl_c_ends_it() {
    // Nobody ever writes to its standard input.
    let running = command(&["-", "--links", "2"]).stdin(Stdio::piped()).spawn().expect("it runs");
    child::catches_interrupt(&running);
    let pid = rustix::process::Pid::from_raw(running.id() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    let output = child::ended(running);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
}

/// A file or folder of the test data, if it is there.
fn test_data(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FAIRSPAN_TESTDATA").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let path = root.join(name);
    if !path.exists() {
        println!("skipped: no test data");
        return None;
    }
    Some(path)
}

#[test]
fn every_packet_takes_the_link_that_linux_gave_it() {
    let Some(path) = test_data("oracles/linux-bonding-6.1.json") else { return };
    let oracle: Value = serde_json::from_slice(&fs::read(path).expect("an oracle")).expect("JSON");
    let packets = oracle["packets"].as_array().expect("packets");
    let lines = |packets: &[&Value]| {
        packets.iter().map(|packet| packet["hex"].as_str().expect("digits").to_owned() + "\n").collect::<String>()
    };
    // For balance-rr the kernel was given all packets in order, of which those of odd numbers are not told; any packet
    // that takes a turn can stand for them.
    let plain = packets.iter().find(|packet| packet["desc"] == "ipv4 tcp").expect("a plain packet");
    let with_id = |id: usize| packets.iter().find(|packet| packet["id"] == json!(id)).unwrap_or(plain);
    let folder = Folder::new();
    let hashed = folder.file("hashed.hex", lines(&packets.iter().collect::<Vec<_>>()).as_bytes());
    let in_turn = folder.file("in-turn.hex", lines(&(0..packets.len()).map(with_id).collect::<Vec<_>>()).as_bytes());
    let mut compared = 0;
    for (key, links) in oracle["results"].as_object().expect("results") {
        let parts: Vec<&str> = key.split('/').collect();
        let count = parts.last().and_then(|part| part.strip_prefix("n=")).expect("a number of links");
        let policy = parts[..parts.len() - 1].join(":");
        if policy == "balance-rr:packets_per_slave=0" {
            continue;
        }
        let file = if policy.starts_with("balance-rr") { &in_turn } else { &hashed };
        let document = done(&[file, "--hex", "--links", count, "--policy", &policy, "--trace"]);
        assert_eq!(&document["policies"][0]["assignments"], links, "{key}");
        compared += 1;
    }
    assert!(compared >= 40, "{compared} results");
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_capture_of_the_test_data_is_told_or_refused_and_the_numbers_agree() {
    let Some(folder) = test_data("traces") else { return };
    let mut told = 0;
    for path in files(&folder) {
        let name = path.display().to_string();
        let output = select(&[&name, "--links", "a:10:5ms,b:100,c:10:5ms", "--all", "--json"]);
        let message = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 2)) && !message.contains("panicked"), "{name}: {message}");
        if output.stdout.is_empty() {
            assert_eq!(output.status.code(), Some(2), "{name}: {message}");
            continue;
        }
        let document = document(&output);
        let left_out: u64 =
            document["left_out"].as_array().expect("a list").iter().filter_map(|l| l["packets"].as_u64()).sum();
        let frames = document["packets"].as_u64().expect("packets") - left_out;
        for policy in document["policies"].as_array().expect("policies") {
            let number = |key: &str| policy[key].as_u64().unwrap_or_else(|| panic!("{name}: {key}"));
            let carried: u64 =
                policy["links"].as_array().expect("links").iter().filter_map(|l| l["packets"].as_u64()).sum();
            let copies = if policy["policy"] == "broadcast" { 3 } else { 1 };
            assert_eq!(carried, copies * number("forwarded"), "{name}: {policy}");
            assert!(
                number("forwarded") <= frames && number("reordered_packets") < number("forwarded").max(1),
                "{name}: {policy}"
            );
            assert!(number("split") <= number("flows") && number("flows") <= number("bursts"), "{name}: {policy}");
            let difference = policy["load_difference"].as_f64().expect("a share");
            assert!((0.0..=1.0).contains(&difference), "{name}: {policy}");
        }
        told += 1;
    }
    assert!(told >= 40, "{told} captures");
}
