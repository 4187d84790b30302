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
