//! Gateways in the daemon of a bond, for a peer that has one and beside a peer that has none.
//!
//! ```text
//! client -- lan0 site wan0 -- wan0 hub lan0 -- server
//!                other wan1 -- wan1
//! ```

use crate::common::*;
use crate::gateway::{assert_nothing_left_on, tables};
use crate::reload::{reload, reload_with};
use fairspan_live::netlink::queue::PacketQueue;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

/// The lab, and the files of `hub`, `site` and `other`; in the hub's, `SITE` and `OTHER` stand where a peer's split may.
fn hosts() -> Option<(Lab, [String; 3])> {
    let lab = Lab::new(&["client", "site", "other", "hub", "server"])?;
    lab.cable(("client", "eth0", "10.10.0.2/16"), ("site", "lan0", "10.10.0.1/16"));
    lab.cable(("server", "eth0", "10.20.0.2/16"), ("hub", "lan0", "10.20.0.1/16"));
    lab.cable(("site", "wan0", "192.168.1.2/24"), ("hub", "wan0", "192.168.1.1/24"));
    lab.cable(("other", "wan1", "192.168.2.2/24"), ("hub", "wan1", "192.168.2.1/24"));
    for (host, router) in [("client", "10.10.0.1"), ("server", "10.20.0.1")] {
        lab.ip(host, &["route", "add", "default", "via", router]);
    }
    for host in ["site", "hub"] {
        lab.run(host, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding"));
    }
    // A part of what lies behind the site lies behind the other peer.
    lab.ip("other", &["address", "add", "10.10.9.1/32", "dev", "lo"]);
    lab.ip("client", &["address", "add", "10.11.0.2/32", "dev", "lo"]);
    lab.ip("site", &["route", "add", "10.11.0.0/16", "via", "10.10.0.2"]);
    let [site, other, hub] = [keys(), keys(), keys()];
    let at_hub = interface("fs0", "[\"10.77.0.1/24\"]", &hub.0, "listen_port = 51900\n")
        + &peer("site", &site.1, "[\"10.77.0.2/32\", \"10.10.0.0/16\"]", "SITE")
        + &peer("other", &other.1, "[\"10.77.0.3/32\", \"10.10.9.0/24\"]", "OTHER");
    let calls = |address: &str, key: &str, split: &str, device: &str, endpoint: &str| {
        interface("fs0", &format!("[\"{address}/24\"]"), key, "")
            + &peer("hub", &hub.1, "[\"10.77.0.1/32\", \"10.20.0.0/16\"]", split)
            + &udp("one", device, endpoint)
    };
    let at_site = calls("10.77.0.2", &site.0, SPLIT, "wan0", "192.168.1.1:51900");
    let at_other = calls("10.77.0.3", &other.0, "SPLIT", "wan1", "192.168.2.1:51900");
    Some((lab, [at_hub, at_site, at_other]))
}

/// Everything is near here.
const SPLIT: &str = "[peer.split]\nbypass_below = \"0ms\"\n";

/// The hub's file with this after each peer.
fn hub_with(text: &str, site: &str, other: &str) -> String {
    text.replace("SITE", site).replace("OTHER", other)
}

/// Connections that were split so far for a peer.
fn opened(daemon: &Daemon, peer: usize) -> Option<u64> {
    daemon.status()["peers"][peer]["split"]["opened"].as_u64()
}

/// A connection that carried something in both directions.
fn connection(lab: &Lab, from: &str, to: &str, address: &'static str) -> [TcpStream; 2] {
    let listener = lab.listen(to, address);
    let near = lab.run(from, move || TcpStream::connect_timeout(&address.parse().expect("an address"), PATIENCE));
    let ends = [near.unwrap_or_else(|e| panic!("{address}: {e}")), accept(&listener)];
    carries(&ends);
    ends
}

fn carries([near, far]: &[TcpStream; 2]) {
    for stream in [near, far] {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    }
    for (mut from, mut to, words) in [(near, far, b"there"), (far, near, b"again")] {
        from.write_all(words).expect("written");
        let mut read = [0; 5];
        to.read_exact(&mut read).expect("read");
        assert_eq!(&read, words);
    }
}

#[test]
fn connections_with_what_lies_behind_a_peer_are_split_and_those_of_a_peer_beside_it_pass() {
    let Some((lab, [hub, site, other])) = hosts() else { return };
    let hub = lab.daemon("hub", "hub", &hub_with(&hub, SPLIT, ""));
    let site = lab.daemon("site", "site", &site);
    let other = lab.daemon("other", "other", &other.replace("SPLIT", ""));
    hub.wait_up(2);
    let split = || [opened(&hub, 0), opened(&site, 0), opened(&hub, 1)];
    connection(&lab, "client", "server", "10.20.0.2:5001");
    assert_eq!(split(), [Some(1), Some(1), None]);
    connection(&lab, "server", "client", "10.10.0.2:5001");
    assert_eq!(split(), [Some(2), Some(2), None]);
    lab.transfer("server", "client", "10.10.0.2:5002", 12);
    lab.transfer("client", "server", "10.20.0.2:5003", 12);
    assert_eq!(split(), [Some(4), Some(4), None]);
    // To and from a peer without, also where its networks lie within those of one that has it.
    connection(&lab, "other", "server", "10.20.0.2:5004");
    connection(&lab, "server", "other", "10.77.0.3:5001");
    connection(&lab, "server", "other", "10.10.9.1:5001");
    lab.transfer("other", "server", "10.20.0.2:5005", 4);
    assert_eq!(split(), [Some(4), Some(4), None]);
    let bypassed = hub.status()["peers"][0]["split"]["bypassed"].clone();
    let counts: Vec<_> = bypassed.as_object().expect("counters").values().collect();
    assert!(counts.len() > 5 && counts.iter().all(|count| **count == 0), "nothing of it was looked at: {bypassed}");
    // What is no TCP passes, and what is for the hub itself.
    lab.echo("server", "10.20.0.2:7000");
    assert!(lab.until_answered("client", "10.10.0.2:7001", "10.20.0.2:7000").is_some());
    connection(&lab, "client", "hub", "10.77.0.1:5006");
    assert_eq!(split(), [Some(4), Some(5), None]);
    assert_eq!(tables(&lab, "hub"), ["fairspan-split-fs0-0"]);
    assert_eq!(hub.status()["peers"][0]["split"]["rules"], "fairspan-split-fs0-0");
    for (host, daemon) in [("hub", hub), ("site", site), ("other", other)] {
        daemon.stop();
        assert_nothing_left_on(&lab, host);
    }
}

#[test]
fn a_reload_changes_begins_and_ends_a_peer_s_gateway_and_what_is_split_stays() {
    let Some((lab, [text, site, other])) = hosts() else { return };
    let hub = lab.daemon("hub", "hub", &hub_with(&text, SPLIT, ""));
    let site = lab.daemon("site", "site", &site);
    let other = lab.daemon("other", "other", &other.replace("SPLIT", ""));
    hub.wait_up(2);
    let lasting = connection(&lab, "client", "server", "10.20.0.2:5001");
    let rate = format!("{SPLIT}rate = \"9Mbit\"\n");
    let changed = reload(&lab, "hub", &hub, &hub_with(&text, &rate, ""));
    assert_eq!(changed, ["peer site: split.rate is now 9Mbit"]);
    assert_eq!(hub.status()["peers"][0]["split"]["rate_mbit"], 9.0);
    // Another peer gets a gateway, and the networks of the first become more.
    let more = text.replace("\"10.10.0.0/16\"", "\"10.10.0.0/16\", \"10.11.0.0/16\"");
    let changed = reload(&lab, "hub", &hub, &hub_with(&more, &rate, SPLIT));
    assert_eq!(changed, ["peer site: allowed_ips", "peer other: split: begun"]);
    assert_eq!(tables(&lab, "hub"), ["fairspan-split-fs0-0", "fairspan-split-fs0-1"]);
    let site_more = lab_text(&lab, "site");
    assert_eq!(reload(&lab, "site", &site, &site_more), Vec::<String>::new());
    connection(&lab, "server", "client", "10.11.0.2:5002");
    assert_eq!([opened(&hub, 0), opened(&hub, 1)], [Some(2), Some(0)]);
    connection(&lab, "server", "other", "10.10.9.1:5003");
    connection(&lab, "other", "server", "10.20.0.2:5004");
    assert_eq!([opened(&hub, 0), opened(&hub, 1)], [Some(2), Some(2)]);
    // The first ends, and the second goes on with its rules.
    let others = connection(&lab, "other", "server", "10.20.0.2:5005");
    let without = reload(&lab, "hub", &hub, &hub_with(&more, "", SPLIT));
    assert_eq!(without, ["peer site: split: ended"]);
    assert_eq!(tables(&lab, "hub"), ["fairspan-split-fs0-1"]);
    carries(&others);
    connection(&lab, "server", "client", "10.10.0.2:5006");
    assert_eq!([opened(&hub, 0), opened(&hub, 1)], [None, Some(3)]);
    assert_eq!(reload(&lab, "hub", &hub, &hub_with(&more, SPLIT, SPLIT)), ["peer site: split: begun"]);
    connection(&lab, "server", "client", "10.10.0.2:5007");
    assert_eq!([opened(&hub, 0), opened(&hub, 1)], [Some(1), Some(3)]);
    // It split that connection, and is not what it was.
    let mut rest = [0; 1];
    let ended = (&lasting[0]).read(&mut rest).map_err(|error| error.kind());
    assert_eq!(
        ended,
        Err(std::io::ErrorKind::ConnectionReset),
        "the first connection ended with its gateway, and says so"
    );
    // What is part of sockets, and a first gateway in a daemon that gave up what that takes.
    let congestion = format!("{SPLIT}congestion = \"cubic\"\n");
    lab.config("hub", &hub_with(&more, &congestion, SPLIT));
    assert_eq!(needs_restart(&lab, "hub", &hub), ["peer.split.congestion"]);
    let with = lab_text(&lab, "other").replace("[[peer.channel]]", &format!("{SPLIT}[[peer.channel]]"));
    lab.config("other", &with);
    let needs = needs_restart(&lab, "other", &other);
    assert!(needs.len() == 1 && needs[0].starts_with("peer.split (the first"), "{needs:?}");
    for (host, daemon) in [("hub", hub), ("site", site), ("other", other)] {
        daemon.stop();
        assert_nothing_left_on(&lab, host);
    }
}

/// The file that a daemon of the lab has.
fn lab_text(lab: &Lab, name: &str) -> String {
    std::fs::read_to_string(lab.path(&format!("{name}.toml"))).expect("its file")
}

/// What keeps a daemon from taking over its file.
fn needs_restart(lab: &Lab, name: &str, daemon: &Daemon) -> Vec<String> {
    let output = reload_with(lab, name, daemon, &["--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    assert_eq!(answer["ok"], false, "{answer}");
    let needs = answer["needs_restart"].as_array().cloned().unwrap_or_default();
    needs.iter().map(|name| name.as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_peer_with_hundreds_of_networks_and_as_many_behind_others_has_its_gateway() {
    let Some((lab, [text, site, _])) = hosts() else { return };
    let networks = |numbers: std::ops::Range<u32>| {
        numbers.map(|n| format!(", \"10.{}.{}.0/24\"", 30 + n / 256, n % 256)).collect::<String>()
    };
    let [site_s, other_s] = ["\"10.10.0.0/16\"", "\"10.10.9.0/24\""];
    let text = text
        .replace(site_s, &format!("{site_s}, \"10.32.0.0/11\"{}", networks(0..512)))
        .replace(other_s, &format!("{other_s}{}", networks(512..1024)));
    let hub = lab.daemon("hub", "hub", &hub_with(&text, SPLIT, ""));
    let site = lab.daemon("site", "site", &site);
    hub.wait_up(1);
    connection(&lab, "client", "server", "10.20.0.2:5001");
    assert_eq!(opened(&hub, 0), Some(1));
    for (host, daemon) in [("hub", hub), ("site", site)] {
        daemon.stop();
        assert_nothing_left_on(&lab, host);
    }
}

#[test]
fn a_daemon_that_is_killed_leaves_no_packet_rules_and_the_next_one_splits_again() {
    let Some((lab, [text, site, _])) = hosts() else { return };
    let text = hub_with(&text, SPLIT, SPLIT);
    let hub = lab.daemon("hub", "hub", &text);
    let site = lab.daemon("site", "site", &site);
    hub.wait_up(1);
    connection(&lab, "client", "server", "10.20.0.2:5001");
    assert_eq!(tables(&lab, "hub").len(), 2);
    hub.kill();
    let end = Instant::now() + PATIENCE;
    while !tables(&lab, "hub").is_empty() {
        assert!(Instant::now() < end, "the kernel keeps {:?}", tables(&lab, "hub"));
    }
    let hub = lab.daemon("hub", "hub", &text);
    hub.wait_up(1);
    connection(&lab, "client", "server", "10.20.0.2:5002");
    lab.transfer("server", "client", "10.10.0.2:5003", 4);
    assert_eq!(opened(&hub, 0), Some(2));
    hub.stop();
    assert_nothing_left_on(&lab, "hub");
    site.stop();
    assert_nothing_left_on(&lab, "site");
}

/// The number of the kernel's queue that the gateway with this slot has, and of its first mark; `fwmark` is the default.
fn numbers(slot: u32) -> (u16, u32) {
    let first = DEFAULT_FWMARK + 256 + 8 * slot;
    (u16::try_from(first & 0xffff).expect("16 bits"), first)
}

/// `interface.fwmark` where it is not written.
const DEFAULT_FWMARK: u32 = 51900;

/// Takes the numbers of a gateway, as another gateway would.
fn take_numbers(lab: &Lab, host: &str, slot: u32) -> PacketQueue {
    lab.run(host, move || PacketQueue::open(numbers(slot).0, 10, 100, false).expect("a queue"))
}

/// What the status tells of a peer's gateway.
fn split(daemon: &Daemon, peer: usize) -> Value {
    daemon.status()["peers"][peer]["split"].clone()
}

#[test]
fn a_gateway_that_cannot_be_had_leaves_the_bond_alone_is_told_and_is_had_once_it_can() {
    let Some((lab, [text, site, other])) = hosts() else { return };
    let taken = take_numbers(&lab, "hub", 0);
    let hub = lab.daemon("hub", "hub", &hub_with(&text, SPLIT, ""));
    let site = lab.daemon("site", "site", &site.replace(SPLIT, ""));
    let other = lab.daemon("other", "other", &other.replace("SPLIT", ""));
    hub.wait_up(2);
    let problem = |peer: usize| split(&hub, peer)["problem"].as_str().map(str::to_owned);
    assert!(problem(0).is_some_and(|problem| problem.contains("queue")), "{}", split(&hub, 0));
    assert_eq!((split(&hub, 0)["up"].clone(), split(&hub, 0)["opened"].clone()), (Value::from(false), Value::from(0)));
    connection(&lab, "client", "server", "10.20.0.2:5001");
    assert_eq!(opened(&hub, 0), Some(0), "it passes unsplit");
    let doctor = |name: &str| {
        let file = lab.path(&format!("{name}.toml"));
        let output = lab.fairspan("hub", &["gateway", "doctor", file.to_str().expect("text"), "--json"]);
        let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        findings.as_array().expect("a list").clone()
    };
    let wrong = |name: &str| {
        let wrong = doctor(name).into_iter().filter(|finding| finding["verdict"] == "wrong");
        wrong.map(|finding| (finding["peer"].clone(), finding["subject"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(wrong("hub"), [("site".into(), "rules".into())]);
    drop(taken);
    hub.wait("it is had", |hub| split(hub, 0)["up"] == true);
    assert_eq!(problem(0), None);
    connection(&lab, "client", "server", "10.20.0.2:5002");
    assert_eq!(opened(&hub, 0), Some(1));
    assert_eq!(wrong("hub"), []);
    // The same of one that a reload adds: it is told, and had later.
    let taken = take_numbers(&lab, "hub", 1);
    let both = hub_with(&text, SPLIT, SPLIT);
    lab.config("both", &both.replace("SOCKET", hub.socket.to_str().expect("text")));
    // As long as the daemon has not read it, nothing is wrong with it.
    assert_eq!(wrong("both"), []);
    let of_other = doctor("both").into_iter().filter(|finding| finding["peer"] == "other").collect::<Vec<_>>();
    let found =
        |words: &str| of_other.iter().any(|finding| finding["found"].as_str().is_some_and(|it| it.contains(words)));
    assert!(found("runs without this gateway") && found("of all 2 gateways"), "{of_other:?}");
    lab.config("hub", &both);
    let output = reload_with(&lab, "hub", &hub, &["--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let told = answer["failed"][0].as_str().is_some_and(|line| line.starts_with("peer other: split: "));
    assert!(told && answer["ok"] == false, "{answer}");
    assert!(problem(1).is_some(), "{}", split(&hub, 1));
    drop(taken);
    hub.wait("the other is had", |hub| split(hub, 1)["up"] == true);
    connection(&lab, "other", "server", "10.20.0.2:5003");
    assert_eq!([opened(&hub, 0), opened(&hub, 1)], [Some(1), Some(1)]);
    for (host, daemon) in [("hub", hub), ("site", site), ("other", other)] {
        daemon.stop();
        assert_nothing_left_on(&lab, host);
    }
}

#[test]
fn what_a_killed_daemon_left_goes_with_the_next_one_also_where_that_has_fewer_gateways() {
    let Some((lab, [text, ..])) = hosts() else { return };
    let rules = || {
        let rules = lab.ip("hub", &["-4", "rule"]) + &lab.ip("hub", &["-6", "rule"]);
        let routes = lab.ip("hub", &["route", "show", "table", "all"]);
        let of = |mark: u32| format!("fwmark {mark:#x}");
        let marks = [0, 1].map(|slot| [0, 1].map(|n| rules.matches(&of(numbers(slot).1 + n)).count()));
        (marks, routes.matches("proto 250").count())
    };
    let windows = format!("{SPLIT}initial_window = \"1MB\"\n");
    for (splits, left) in [([SPLIT, ""], [[2, 0], [0, 0]]), (["", ""], [[0, 0], [0, 0]])] {
        let hub = lab.daemon("hub", "hub", &hub_with(&text, &windows, &windows));
        assert_eq!(rules().0, [[2, 2], [2, 2]]);
        hub.kill();
        assert_eq!(rules().0, [[2, 2], [2, 2]], "the kernel takes no routing rules away");
        let hub = lab.daemon("hub", "hub", &hub_with(&text, splits[0], splits[1]));
        assert_eq!(rules().0, left, "with {splits:?}");
        hub.stop();
        assert_nothing_left_on(&lab, "hub");
    }
    // Those of one that lives stay.
    let taken = take_numbers(&lab, "hub", 1);
    let mark = numbers(1).1.to_string();
    lab.ip("hub", &["rule", "add", "pref", "5190", "fwmark", &mark, "lookup", &mark, "protocol", "250"]);
    let hub = lab.daemon("hub", "hub", &hub_with(&text, SPLIT, ""));
    assert_eq!(rules().0, [[2, 0], [1, 0]]);
    hub.stop();
    drop(taken);
}

#[test]
fn a_daemon_that_gave_up_nothing_takes_its_first_gateway_without_a_restart() {
    let Some((lab, [text, _, other])) = hosts() else { return };
    let hub = lab.daemon("hub", "hub", &hub_with(&text, "", ""));
    let text = other.replacen("[interface]\n", "[interface]\nconfine = []\n", 1);
    let other = lab.daemon("other", "other", &text.replace("SPLIT", ""));
    hub.wait_up(1);
    assert_eq!(reload(&lab, "other", &other, &text.replace("SPLIT", SPLIT)), ["peer hub: split: begun"]);
    assert_eq!((split(&other, 0)["up"].clone(), tables(&lab, "other").len()), (Value::from(true), 1));
    for (host, daemon) in [("hub", hub), ("other", other)] {
        daemon.stop();
        assert_nothing_left_on(&lab, host);
    }
}
