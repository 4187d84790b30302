//! A gateway on hosts as they are: those that translate addresses, those without IPv6, those of which the file names what they have not.

use crate::common::*;
use crate::gateway::{assert_nothing_left, bypassed, config, connect, lab, number, read, tables};
use fairspan_live::netlink::nftables::{Hook, Kind, PacketRule, Transaction};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};

const TCP: u8 = 6;
const MASQUERADE: &str = "fs-test-masquerade";

/// What leaves the host by this device has the host's own address there, as a router to the internet has it.
fn masquerade(lab: &Lab, device: &'static str) {
    lab.run("gw", move || {
        let mut table = Transaction::of(MASQUERADE);
        table.create();
        table.base_chain("leaves", Kind::Nat, Hook::Postrouting, 100);
        table.rule("leaves", &PacketRule::new().leaves_by(device).masquerade());
        table.commit("translate").expect("a table");
    });
}

#[test]
fn a_host_that_translates_addresses_splits_what_it_translates_and_what_passes_is_translated_too() {
    let Some(lab) = lab() else { return };
    masquerade(&lab, "sat0");
    // Nobody there knows the client's network.
    for family in ["-4", "-6"] {
        lab.ip("server", &[family, "route", "del", "default"]);
    }
    for fair in [true, false] {
        let settings = format!("bypass_below = \"0ms\"\nexcept_ports = [5009]\nfair_queueing = {fair}");
        let daemon = lab.daemon("gw", "gw", &config(&settings));
        for (server, seen, split) in [
            ("10.97.2.2:5001", "10.97.2.1", 1),
            ("[fd97:2::2]:5001", "fd97:2::1", 2),
            ("10.97.2.2:5009", "10.97.2.1", 2),
            ("10.97.2.2:5001", "10.97.2.1", 3),
        ] {
            let listener = lab.listen("server", server);
            let mut near = connect(&lab, server).expect("connected");
            let mut far = accept(&listener);
            assert_eq!(far.peer_addr().expect("an address").ip(), ip_of(seen), "{server}");
            far.set_read_timeout(Some(PATIENCE)).expect("set");
            far.write_all(b"hello").expect("written");
            assert_eq!(read(&mut near, 5), b"hello");
            near.write_all(&[7; 300_000]).expect("written");
            near.shutdown(Shutdown::Write).expect("shut");
            let mut all = Vec::new();
            far.read_to_end(&mut all).expect("all, and the end");
            assert!(all.len() == 300_000 && all.iter().all(|byte| *byte == 7), "{server}");
            assert_eq!(number(&daemon, "opened"), split, "{server}, fair queueing: {fair}");
        }
        assert_eq!(bypassed(&daemon, "excepted"), 1);
        daemon.stop();
        assert_eq!(tables(&lab, "gw"), [MASQUERADE]);
    }
}

#[test]
fn a_host_whose_ipv6_is_switched_off_splits_ipv4() {
    let Some(lab) = lab() else { return };
    lab.run("gw", || {
        for which in ["all", "default"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1").expect("a setting");
        }
    });
    // With larger windows the rules of both IP versions are more.
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\"\ninitial_window = \"100kB\""));
    let listener = lab.listen("server", "10.97.2.2:5001");
    let mut near = connect(&lab, "10.97.2.2:5001").expect("connected");
    let mut far = accept(&listener);
    near.write_all(b"through").expect("written");
    assert_eq!(read(&mut far, 7), b"through");
    assert_eq!(number(&daemon, "opened"), 1);
    daemon.stop();
    assert_nothing_left(&lab);
}

fn doctor(lab: &Lab, text: &str) -> Vec<Value> {
    let file = lab.config("doctor", text);
    let output = lab.fairspan("gw", &["gateway", "doctor", file.to_str().expect("text"), "--json"]);
    let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    findings.as_array().expect("a list").iter().filter(|finding| finding["verdict"] == "wrong").cloned().collect()
}

#[test]
fn a_host_of_ipv6_alone_need_not_forward_ipv4() {
    let Some(lab) = lab() else { return };
    lab.run("gw", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "0").expect("a setting"));
    let wrong = doctor(&lab, &config(""));
    assert!(wrong.len() == 1 && wrong[0]["subject"] == "forwarding", "{wrong:?}");
    for (device, address) in [("lan0", "10.97.1.1/24"), ("sat0", "10.97.2.1/24")] {
        lab.ip("gw", &["address", "del", address, "dev", device]);
    }
    assert_eq!(doctor(&lab, &config("")), Vec::<Value>::new());
}

#[test]
fn what_the_host_has_not_is_said_at_the_start_and_by_the_line_that_names_it() {
    let Some(lab) = lab() else { return };
    let text = config("congestion = \"none-such\"").replace("\"lan0\"", "\"lan0\", \"lan9\"").replace("sat0", "sat9");
    let file = lab.config("gw", &text);
    let output = lab.fairspan("gw", &["check", file.to_str().expect("text"), "--json"]);
    let checked: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let told: Vec<(u64, String, String)> = checked["notices"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|notice| {
            let text = |key: &str| notice[key].as_str().expect("a text").to_owned();
            (notice["line"].as_u64().expect("a line"), text("setting"), text("problem"))
        })
        .collect();
    let line = |name: &str| text.lines().position(|line| line.starts_with(name)).expect("a line") as u64 + 1;
    for (name, device) in [("long", "sat9"), ("inside", "lan9")] {
        let about = |notice: &&(u64, String, String)| notice.2.contains(&format!("no device {device}"));
        let (at, setting, _) = told.iter().find(about).unwrap_or_else(|| panic!("{told:?}"));
        assert_eq!((*at, setting), (line(name), &format!("gateway.{name}")), "{told:?}");
    }
    let daemon = lab.daemon("gw", "gw", &text);
    for words in ["waiting for it device=\"sat9\"", "waiting for it device=\"lan9\"", "`modprobe tcp_none-such`"] {
        daemon.wait_log(words);
    }
    assert!(!daemon.log().contains("device=\"lan0\""), "{}", daemon.log());
    // Another one cannot begin beside it, and says what would help.
    let mut second = lab.start("gw", "second", &text.replace("gw0", "gw1"));
    assert_eq!(second.ended().code(), Some(1), "{}", second.log());
    assert!(second.log().contains("another gateway") && second.log().contains("`fwmark`"), "{}", second.log());
    daemon.stop();
    assert_nothing_left(&lab);
}

#[test]
fn whom_a_packet_filter_keeps_from_the_gateways_sockets_passes_unsplit_once_it_asks_again() {
    let Some(lab) = lab() else { return };
    lab.run("gw", || {
        let mut table = Transaction::of("fs-test-filter");
        table.create();
        table.base_chain("input", Kind::Filter, Hook::Input, 0);
        table.rule("input", &PacketRule::new().arrives_by("lan0").protocol(TCP).drop());
        table.commit("filter").expect("a table");
    });
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    for server in ["10.97.2.2:5001", "[fd97:2::2]:5001"] {
        let before = bypassed(&daemon, "filtered");
        let listener = lab.listen("server", server);
        for _ in 0..2 {
            let mut near = connect(&lab, server).expect("connected");
            near.write_all(b"through").expect("written");
            // The gateway's own call comes first, and is reset.
            let came = |listener: &TcpListener| {
                let mut far = accept(listener);
                far.set_read_timeout(Some(PATIENCE)).expect("set");
                let mut bytes = [0; 7];
                far.read_exact(&mut bytes).is_ok_and(|()| bytes == *b"through")
            };
            assert!((0..2).any(|_| came(&listener)), "{server}");
        }
        assert!(bypassed(&daemon, "filtered") >= before + 2, "{}", daemon.status());
    }
    assert_eq!(number(&daemon, "opened"), 0);
    daemon.wait_log("a caller does not come to the gateway's own socket");
    assert_eq!(daemon.log().matches("iifname lan0 meta mark 52156 accept").count(), 1, "said once: {}", daemon.log());
    daemon.stop();
}
