//! A shaper between two hosts: `left` and `right`, each on a device of `mid`'s.

use crate::child;
use crate::common::*;
use crate::port;
use crate::reload::{reload, reload_with};
use fairspan_live::channel::ethernet::ENVELOPE;
use fairspan_live::control::{self, Request};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn lab() -> Option<Lab> {
    let lab = Lab::new(&["left", "mid", "right"])?;
    lab.cable(("left", "eth0", "10.9.0.1/24"), ("mid", "lan0", ""));
    lab.cable(("mid", "wan0", ""), ("right", "eth0", "10.9.0.2/24"));
    Some(lab)
}

fn config(settings: &str) -> String {
    format!(
        "[interface]\nname = \"wan\"\ncontrol_socket = \"SOCKET\"\n[shape]\na = \"lan0\"\nb = \"wan0\"\n{settings}\n"
    )
}

fn pings(lab: &Lab, target: &str) -> bool {
    let ping =
        ["netns", "exec", &lab.name("left"), "ping", "-q", "-M", "do", "-c", "1", "-W", "2", "-s", "1472", target];
    (0..20).any(|_| child::output(Command::new("ip").args(ping)).status.success())
}

fn count(status: &Value, direction: usize, counter: &str) -> u64 {
    let counters = &status["shape"]["directions"][direction]["counters"];
    counters[counter].as_u64().unwrap_or_else(|| panic!("no counter {counter} in {status}"))
}

/// All packets of a direction are accounted for.
fn assert_whole(status: &Value) {
    for direction in [0, 1] {
        let told = &status["shape"]["directions"][direction];
        let counters = told["counters"].as_object().expect("counters");
        let dropped = counters.iter().filter(|(name, _)| name.starts_with("dropped_")).filter_map(|(_, n)| n.as_u64());
        let waiting = told["waiting_packets"].as_u64().expect("a number");
        let left = count(status, direction, "sent") + dropped.sum::<u64>() + waiting;
        assert_eq!(count(status, direction, "received"), left, "{told}");
    }
}

#[test]
fn hosts_on_both_sides_of_a_shaper_speak_as_over_a_cable() {
    let Some(lab) = lab() else { return };
    for (host, end) in [("left", 1), ("right", 2)] {
        lab.ip(host, &["address", "add", &format!("fd09::{end}/64"), "dev", "eth0", "nodad"]);
    }
    let shaper = lab.daemon("mid", "shaper", &config("rate = \"200Mbit\""));
    // The first of all packets is a question for an address (ARP), and the reply passes too.
    assert!(pings(&lab, "10.9.0.2"), "{}", shaper.status());
    // Every byte, in both directions, with segments that offloads have joined; also by IPv6.
    lab.transfer("left", "right", "10.9.0.2:5001", 8);
    lab.transfer("right", "left", "[fd09::1]:5002", 4);
    // Frames with tags, of a type that is none of IP's, up to 1518 bytes. The receiver takes none, as they are of another LAN.
    let (mut left, mut right) = (port::open(&lab, "left", port::VLAN), port::open(&lab, "right", ENVELOPE));
    for number in 0..50 {
        let tag = [&[0x60, 5], &ENVELOPE.to_be_bytes()[..], &port::payload(number)].concat();
        port::send(&mut left, right.mac(), &tag);
    }
    let end = Instant::now() + PATIENCE;
    while right.stats().malformed < 50 && Instant::now() < end {
        right.receive(10, |frame| panic!("{frame:?} has no tag"));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(right.stats().malformed, 50, "tagged frames: {}", shaper.status());
    let status = shaper.status();
    assert_eq!(
        (&status["interface"], &status["mtu"], &status["shape"]["up"]),
        (&"wan".into(), &1500.into(), &true.into())
    );
    assert_whole(&status);
    for direction in [0, 1] {
        for nothing in ["malformed", "receive_cut", "send_too_big", "send_refused"] {
            assert_eq!(count(&status, direction, nothing), 0, "{nothing}: {status}");
        }
        assert!(count(&status, direction, "sent_bytes") > 4_000_000);
    }
    let flows = status["shape"]["directions"][0]["flows"].as_array().expect("flows");
    let named = |part: &str| flows.iter().any(|flow| flow["flow"].as_str().is_some_and(|name| name.contains(part)));
    assert!(named("arp ") && named("> 10.9.0.2:5001") && named("icmp 10.9.0.1 > 10.9.0.2"), "{flows:?}");
    let shown = lab.fairspan("mid", &["status", "--socket", shaper.socket.to_str().expect("text")]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("shaper: up") && shown.contains("> 10.9.0.2:5001"), "{shown}");
    shaper.stop();
}

/// A sender that always has more, until it is told to stop; gives what the far end received.
fn download(lab: &Lab, port: u16, stop: &Arc<AtomicBool>) -> (JoinHandle<()>, JoinHandle<u64>) {
    let target = format!("10.9.0.2:{port}");
    let bound = target.clone();
    let listener = lab.listen("right", bound);
    let stop = stop.clone();
    let sender = lab.inside("left", move || {
        let mut stream = TcpStream::connect(target).expect("connected");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        while !stop.load(Ordering::Relaxed) {
            stream.write_all(&[7; 16_384]).expect("written");
        }
    });
    let mut stream = accept(&listener);
    let receiver = std::thread::spawn(move || {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let (mut received, mut piece) = (0, [0; 65_536]);
        loop {
            match stream.read(&mut piece).expect("read") {
                0 => return received,
                n => received += n as u64,
            }
        }
    });
    (sender, receiver)
}

/// What the flow to a port sent, and how many of its packets were dropped.
fn flow(status: &Value, port: u16) -> (u64, u64) {
    let flows = status["shape"]["directions"][0]["flows"].as_array().expect("flows");
    let of = |flow: &&Value| flow["flow"].as_str().is_some_and(|name| name.ends_with(&format!(":{port}")));
    let number = |value: &Value| value.as_u64().expect("a number");
    flows.iter().find(of).map_or((0, 0), |flow| (number(&flow["bytes"]), number(&flow["dropped"])))
}

#[test]
fn two_downloads_share_evenly_and_lose_packets_and_a_flow_of_small_packets_beside_them_loses_none() {
    let Some(lab) = lab() else { return };
    let shaper = lab.daemon("mid", "shaper", &config("rate = \"100Mbit\"\n[shape.forward]\nrate = \"6Mbit\""));
    let stop = Arc::new(AtomicBool::new(false));
    let downloads = [5001, 5002].map(|port| download(&lab, port, &stop));
    // Both have begun, and what waits is theirs.
    shaper.wait("two downloads", |d| [5001, 5002].iter().all(|port| flow(&d.status(), *port).0 > 300_000));
    let before = shaper.status();
    let (caller, called) = (lab.udp("left", "10.9.0.1:6000"), lab.udp("right", "10.9.0.2:6000"));
    let (mut heard, mut buffer) = (Vec::new(), [0; 200]);
    let sent = |d: &Daemon| [5001, 5002].map(|port| flow(&d.status(), port).0 - flow(&before, port).0);
    let end = Instant::now() + PATIENCE;
    let mut number = 0u32;
    while sent(&shaper).iter().sum::<u64>() < 4_000_000 || number < 100 {
        assert!(Instant::now() < end, "the downloads stand still: {}", shaper.status());
        caller.send_to(&[&number.to_be_bytes()[..], &[0; 160]].concat(), "10.9.0.2:6000").expect("sent");
        number += 1;
        if let Ok((len, _)) = called.recv_from(&mut buffer) {
            assert_eq!(len, 164);
            heard.push(u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]));
        }
    }
    while heard.len() < number as usize
        && let Ok((4.., _)) = called.recv_from(&mut buffer)
    {
        heard.push(u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]));
    }
    assert_eq!(heard, (0..number).collect::<Vec<_>>(), "every packet of the call arrives, in order");
    let status = shaper.status();
    assert_eq!(flow(&status, 6000).1, 0, "{status}");
    assert_whole(&status);
    // Of what passed since both were there each has half; a TCP that waits for its timeout leaves its share to the other for a while.
    let [one, other] = sent(&shaper).map(|bytes| bytes as f64);
    let share = one.min(other) / (one + other);
    assert!(share > 0.3, "{one} and {other} bytes: {status}");
    assert!(
        flow(&status, 5001).1 + flow(&status, 5002).1 > 0,
        "downloads that always have more fill the queue: {status}"
    );
    stop.store(true, Ordering::Relaxed);
    for (sender, receiver) in downloads {
        sender.join().expect("sent");
        assert!(receiver.join().expect("received") > 300_000);
    }
    shaper.stop();
}

#[test]
fn a_device_that_vanishes_and_returns_is_used_again() {
    let Some(lab) = lab() else { return };
    lab.ip("mid", &["link", "del", "lan0"]);
    let shaper = lab.daemon("mid", "shaper", &config("rate = \"50Mbit\""));
    let state = |d: &Daemon| d.status()["shape"]["directions"][0]["state"].clone();
    assert_eq!(state(&shaper), "absent", "a device that is not there yet is waited for");
    for _ in 0..2 {
        lab.cable(("left", "eth0", "10.9.0.1/24"), ("mid", "lan0", ""));
        shaper.wait("the device in use", |d| state(d) == "up");
        assert!(pings(&lab, "10.9.0.2"), "{}", shaper.status());
        lab.transfer("left", "right", "10.9.0.2:5001", 1);
        lab.ip("mid", &["link", "del", "lan0"]);
        shaper.wait("the device gone", |d| state(d) == "absent");
    }
    assert_whole(&shaper.status());
    shaper.stop();
}

#[test]
fn a_reload_changes_rates_and_queues_under_a_connection_and_devices_need_a_restart() {
    let Some(lab) = lab() else { return };
    let shaper = lab.daemon("mid", "mid", &config("rate = \"20Mbit\""));
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = download(&lab, 5001, &stop);
    shaper.wait("a download", |d| flow(&d.status(), 5001).0 > 100_000);
    let text = config("rate = \"40Mbit\"\ndiscipline = \"flow-queue\"\n[shape.backward]\nrate = \"20Mbit\"");
    let changed = reload(&lab, "mid", &shaper, &text);
    let expected = [
        "shape.forward.rate is now 40Mbit",
        "shape.forward.discipline is now flow-queue",
        "shape.backward.discipline is now flow-queue",
    ];
    assert_eq!(changed, expected);
    let status = shaper.status();
    assert_eq!(status["shape"]["directions"][0]["rate_mbit"], 40.0);
    let before = flow(&status, 5001).0;
    shaper.wait("the same download", |d| flow(&d.status(), 5001).0 > before + 500_000);
    assert!(reload(&lab, "mid", &shaper, &text).is_empty());
    lab.config("mid", &text.replace("lan0", "lan1"));
    let refused = reload_with(&lab, "mid", &shaper, &["--json"]);
    assert_eq!(refused.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!(answer["needs_restart"], serde_json::json!(["shape.a"]));
    stop.store(true, Ordering::Relaxed);
    sender.join().expect("sent");
    assert!(receiver.join().expect("received") > 0);
    assert_whole(&shaper.status());
    shaper.stop();
}

/// Everything of the devices that a shaper might have changed.
fn devices(lab: &Lab) -> String {
    let links = lab.ip("mid", &["-d", "-o", "link"]);
    let settings = lab.run("mid", || {
        let keys = [
            "ipv4/conf/lan0/arp_ignore",
            "ipv6/conf/lan0/disable_ipv6",
            "ipv4/conf/wan0/arp_ignore",
            "ipv6/conf/wan0/disable_ipv6",
        ];
        keys.map(|key| std::fs::read_to_string(format!("/proc/sys/net/{key}")).unwrap_or_default()).concat()
    });
    links + &settings
}

#[test]
fn ctrl_c_ends_the_command_with_130_and_one_json_document_and_leaves_the_devices_as_they_were() {
    let Some(lab) = lab() else { return };
    lab.ip("mid", &["link", "set", "lan0", "down"]);
    let before = devices(&lab);
    let socket = lab.path("shape.sock");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 0)] {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.name("mid"), env!("CARGO_BIN_EXE_fairspan"), "shape", "--json"]);
        command
            .args(["--a", "lan0", "--b", "wan0", "--rate", "20Mbit,10Mbit", "--overhead", "18B", "--socket"])
            .arg(&socket);
        command.args(["--backward", "buffer=codel:target=10ms", "--name", "wan"]);
        let shape =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let end = Instant::now() + PATIENCE;
        while control::ask(&socket, &Request::Status).is_err() {
            assert!(Instant::now() < end, "it does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_ne!(devices(&lab), before, "devices are switched on, and promiscuous");
        assert!(pings(&lab, "10.9.0.2"));
        let refused = lab.fairspan("mid", &["reload", "--socket", socket.to_str().expect("text")]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("without a file"), "{refused:?}");
        kill_process(Pid::from_raw(shape.id() as i32).expect("a process"), signal).expect("signalled");
        let output = child::ended(shape);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{log}");
        assert!(!log.contains("a system call was refused"), "{log}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let directions = &json["shape"]["directions"];
        assert_eq!((&directions[0]["rate_mbit"], &directions[1]["rate_mbit"]), (&20.0.into(), &10.0.into()));
        assert_eq!(directions[1]["buffer"], "codel:target=10ms");
        assert!(count(&json, 0, "sent") >= 1 && count(&json, 1, "sent") >= 1, "{json}");
        assert_eq!(devices(&lab), before);
        assert!(!socket.exists());
    }
}

#[test]
fn wrong_options_are_status_2_and_say_which_and_what_would_be_right() {
    let devices = ["--a", "eth0", "--b", "eth1"];
    let rows: [(&[&str], &str); 11] = [
        (&["--rate", "fast"], "--rate: write a rate from 8kbit"),
        (&["--rate", "10Mbit,fast"], "--backward rate: write a rate"),
        (&["--rate", "10Mbit", "--discipline", "fair"], "--discipline: `fair` is no queue discipline"),
        (&["--rate", "10Mbit", "--buffer", "codel:target=soon"], "--buffer: target is `soon`"),
        (&["--rate", "10Mbit", "--queue", "100"], "--queue: "),
        (&["--rate", "10Mbit", "--overhead", "many"], "--overhead: write a number from 0 to 1000"),
        (&["--rate", "10Mbit", "--min-packet", "-1"], "unexpected argument"),
        (&["--rate", "10Mbit", "--forward", "colour=red"], "there is no such setting; known are rate, discipline"),
        (&["--rate", "10Mbit", "--forward", "rate"], "write NAME=VALUE"),
        (&["--rate", "10Mbit,5Mbit", "--backward", "rate=4Mbit"], "given twice"),
        (&[], "--rate"),
    ];
    for (args, part) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
        let output = child::output(command.arg("shape").args(devices).args(args));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    let output = child::output(command.args(["shape", "--a", "eth0", "--b", "eth0", "--rate", "1Mbit"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("--b: `eth0` is `shape.a` as well"), "{said}");
}
