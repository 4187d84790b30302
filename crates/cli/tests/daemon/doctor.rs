//! What the doctor finds, and undoes.

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// What it finds at the site, and its exit status.
fn examine(lab: &Lab) -> (Vec<Value>, Option<i32>) {
    let file = lab.path("site.toml").display().to_string();
    let output = lab.fairspan("site", &["doctor", &file, "--json"]);
    let findings = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (findings, output.status.code())
}

/// Of a subject, how it is, and in which words.
fn wrong<'a>(findings: &'a [Value], subject: &str) -> Vec<&'a str> {
    let of = |finding: &&Value| finding["subject"] == subject && finding["verdict"] == "wrong";
    findings.iter().filter(of).map(|finding| finding["found"].as_str().expect("words")).collect()
}

fn rp_filter(lab: &Lab) -> String {
    lab.run("site", || std::fs::read_to_string("/proc/sys/net/ipv4/conf/eth1/rp_filter").expect("a setting"))
}

/// A site whose second uplink the kernel is deaf on, as the way back to the hub leads by the first.
fn deaf() -> Option<Pair> {
    let lab = Lab::new(&["site", "hub"])?;
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    lab.ip("hub", &["address", "add", "203.0.113.1/32", "dev", "lo"]);
    lab.ip("site", &["route", "add", "default", "via", "192.168.1.1", "dev", "eth0", "metric", "100"]);
    lab.ip("site", &["route", "add", "default", "via", "192.168.2.1", "dev", "eth1", "metric", "200"]);
    lab.run("site", || std::fs::write("/proc/sys/net/ipv4/conf/eth1/rp_filter", "1").expect("a setting"));
    Some(Pair { lab, site_key: keys(), hub_key: keys() })
}

fn site_config(pair: &Pair) -> String {
    pair.site_config("", "")
        .replace("192.168.1.1:51900", "203.0.113.1:51900")
        .replace("192.168.2.1:51900", "203.0.113.1:51900")
}

#[test]
fn the_doctor_finds_what_is_wrong_and_its_fixes_hold_until_it_ends() {
    let Some(pair) = deaf() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let site = lab.daemon("site", "site", &site_config(&pair));
    site.wait("one channel up", |site| site.state("one") == "up");
    let (findings, status) = examine(lab);
    let deaf = wrong(&findings, "rp_filter");
    assert!(deaf.len() == 1 && deaf[0].contains("two") && deaf[0].contains("eth1"), "{findings:?}");
    assert!(wrong(&findings, "daemon").iter().any(|found| found.contains("two")), "{findings:?}");
    assert_eq!((status, wrong(&findings, "routes").len()), (Some(1), 0));
    // With its change the second channel connects, while it stays.
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.name("site"), env!("CARGO_BIN_EXE_fairspan"), "doctor", "--fix"]);
    let mut doctor = command.arg(lab.path("site.toml")).stdout(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(doctor.stdout.take().expect("its output")).lines().map(|line| line.expect("a line"));
    assert!(lines.any(|line| line.starts_with("changed: net.ipv4.conf.eth1.rp_filter")));
    assert!(lines.any(|line| line.contains("undone at the end")));
    assert_eq!(rp_filter(lab).trim(), "2");
    site.wait_up(2);
    let (findings, status) = examine(lab);
    assert_eq!((wrong(&findings, "rp_filter").len(), wrong(&findings, "daemon").len(), status), (0, 0, Some(0)));
    kill_process(Pid::from_raw(doctor.id() as i32).expect("a process"), Signal::TERM).expect("signalled");
    assert!(lines.any(|line| line == "undone"));
    assert!(doctor.wait().expect("ended").success());
    assert_eq!(rp_filter(lab).trim(), "1");
    site.stop();
    hub.stop();
}

#[test]
fn a_channel_without_a_route_or_with_a_device_that_is_off_is_found() {
    let Some(pair) = deaf() else { return };
    let lab = &pair.lab;
    lab.config("site", &site_config(&pair));
    lab.ip("site", &["route", "del", "default", "dev", "eth1"]);
    let (findings, _) = examine(lab);
    let routes = wrong(&findings, "routes");
    assert!(routes.len() == 1 && routes[0].contains("no route by eth1 leads to 203.0.113.1"), "{findings:?}");
    lab.ip("site", &["link", "set", "eth0", "down"]);
    let (findings, status) = examine(lab);
    let devices = wrong(&findings, "devices");
    assert!(devices.len() == 1 && devices[0].contains("eth0 is switched off"), "{findings:?}");
    assert_eq!(status, Some(1));
    let not_running = findings.iter().any(|f| f["subject"] == "daemon" && f["verdict"] == "doubtful");
    assert!(not_running, "{findings:?}");
}

/// Whether packet rules can be set by the program that firewalls use; says that the test is skipped where not.
pub(super) fn has_nft() -> bool {
    let has = Command::new("nft").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        println!("skipped: needs nft (package nftables)");
    }
    has
}

pub(super) fn nft(lab: &Lab, namespace: &str, rules: &str) {
    // A chain's end stands on a line of its own.
    let lines = rules.replace("; }", ";\n}").replace("} }", "}\n}");
    let output = Command::new("ip").args(["netns", "exec", &lab.name(namespace), "nft", &lines]).output().expect("ip");
    assert!(output.status.success(), "nft {rules}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What the doctor finds at `who`, of a subject and that is not good.
fn not_good(lab: &Lab, who: &str, subject: &str) -> Vec<(String, String)> {
    let file = lab.path(&format!("{who}.toml")).display().to_string();
    let output = lab.fairspan(who, &["doctor", &file, "--json"]);
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let wanted = findings.iter().filter(|finding| finding["subject"] == subject && finding["verdict"] != "good");
    wanted.map(|finding| (text(finding, "found"), text(finding, "remedy"))).collect()
}

#[test]
fn a_firewall_that_drops_what_channels_need_is_found_and_its_remedy_helps() {
    let Some(pair) = Pair::new() else { return };
    if !has_nft() {
        return;
    }
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let firewall = "table inet filter { chain input { type filter hook input priority 0; policy drop; ct state established,related accept; \
                    iifname \"lo\" accept; meta l4proto icmp accept; tcp dport { 22, 443 } accept; } }";
    nft(lab, "hub", firewall);
    let found = not_good(lab, "hub", "firewall");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].0.contains("UDP port 51900") && found[0].0.contains("chain input of table inet filter"),
        "{found:?}"
    );
    // Perhaps those who call have these addresses.
    nft(lab, "hub", "add rule inet filter input ip saddr 10.9.0.0/16 accept");
    assert_eq!(not_good(lab, "hub", "firewall"), []);
    let remedy = found[0].1.split('`').nth(1).expect("a command").strip_prefix("nft ").expect("of nft");
    nft(lab, "hub", remedy);
    assert_eq!(not_good(lab, "hub", "firewall"), []);
    let site = lab.daemon("site", "site", &pair.site_config("", ""));
    // The hub's answers are let in by what most firewalls say, and without that they are not.
    nft(lab, "site", firewall);
    assert_eq!(not_good(lab, "site", "firewall"), []);
    site.wait_up(2);
    nft(lab, "site", "flush chain inet filter input");
    let found = not_good(lab, "site", "firewall");
    assert!(found.len() == 2 && found[0].0.contains("192.168.1.1:51900 answers over UDP"), "{found:?}");
    nft(lab, "site", "delete table inet filter");
    nft(
        lab,
        "site",
        "table ip out { chain out { type filter hook output priority 0; oifname \"eth1\" udp dport != 53 reject; } }",
    );
    let found = not_good(lab, "site", "firewall");
    assert!(found.len() == 1 && found[0].0.contains("drop what goes to 192.168.2.1:51900"), "{found:?}");
    site.wait("the channel that is dropped", |site| site.state("two") != "up");
    assert_eq!(site.state("one"), "up");
    site.stop();
    hub.stop();
}

#[test]
fn a_routing_rule_that_keeps_a_channel_from_its_route_is_found() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    lab.config("site", &pair.site_config("", ""));
    assert_eq!(not_good(lab, "site", "rules"), []);
    for rule in ["prohibit", "blackhole", "unreachable"] {
        lab.ip("site", &["rule", "add", "to", "192.168.2.1", "priority", "100", rule]);
        let found = not_good(lab, "site", "rules");
        assert!(
            found.len() == 1 && found[0].0.contains("channel two") && found[0].0.contains("192.168.2.1"),
            "{rule}: {found:?}"
        );
        // The remedy, in its own words, comes before it.
        let remedy: Vec<&str> = found[0].1.split('`').nth(3).expect("a command").split(' ').skip(1).collect();
        lab.ip("site", &remedy);
        assert_eq!(not_good(lab, "site", "rules"), [], "{rule}");
        lab.ip("site", &["rule", "del", "priority", "10"]);
        lab.ip("site", &["rule", "del", "priority", "100"]);
    }
}

#[test]
fn a_device_without_checksums_and_sockets_without_room_are_found() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    lab.config("site", &pair.site_config("", ""));
    assert_eq!((not_good(lab, "site", "offload"), not_good(lab, "site", "buffers")), (Vec::new(), Vec::new()));
    let ethtool = ["netns", "exec", &lab.name("site"), "ethtool", "-K", "eth1", "tx", "off"];
    assert!(Command::new("ip").args(ethtool).output().expect("ip").status.success(), "package ethtool");
    let found = not_good(lab, "site", "offload");
    assert!(found.len() == 1 && found[0].0.starts_with("eth1 computes no checksums"), "{found:?}");
    // Without the right to more than the system allows everybody.
    let limit: u64 =
        std::fs::read_to_string("/proc/sys/net/core/rmem_max").expect("a limit").trim().parse().expect("bytes");
    if limit >= 8 << 20 {
        println!("skipped: needs a net.core.rmem_max below 8 MiB");
        return;
    }
    let without = [
        "netns",
        "exec",
        &lab.name("site"),
        "setpriv",
        "--bounding-set",
        "-net_admin",
        env!("CARGO_BIN_EXE_fairspan"),
        "doctor",
    ];
    let output = Command::new("ip")
        .args(without)
        .arg(lab.path("site.toml"))
        .arg("--json")
        .output()
        .expect("setpriv (util-linux)");
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let buffers = findings.iter().find(|finding| finding["subject"] == "buffers").expect("looked at");
    assert_eq!(buffers["verdict"], "doubtful", "{buffers}");
    assert!(
        buffers["found"].as_str().is_some_and(|found| found.contains(&format!("{limit} of 8388608 bytes to receive"))),
        "{buffers}"
    );
}

#[test]
fn on_a_healthy_host_the_doctor_finds_nothing() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    for who in ["site", "hub"] {
        let file = lab.path(&format!("{who}.toml")).display().to_string();
        let output = lab.fairspan(who, &["doctor", &file, "--json"]);
        let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        let odd: Vec<&Value> = findings.iter().filter(|finding| finding["verdict"] != "good").collect();
        assert!(odd.is_empty() && output.status.success(), "{who}: {odd:?}");
    }
    site.stop();
    hub.stop();
}
