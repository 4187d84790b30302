//! `fairspan up` with a `[bond]`: an Ethernet bond in front of a switch that knows nothing of it, one of links that speak
//! LACP with another, links that fail, and what is left behind.

use crate::common::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const LINKS: usize = 4;

/// A host with four links to a switch, and a client with one.
fn lan(more: &[&str]) -> Option<Lab> {
    let lab = Lab::new(&[&["host", "switch", "client"], more].concat())?;
    lab.ip("switch", &["link", "add", "br0", "type", "bridge"]);
    lab.ip("switch", &["link", "set", "br0", "up"]);
    for n in 1..=LINKS {
        lab.cable(("host", &format!("eth{n}"), ""), ("switch", &format!("h{n}"), ""));
        lab.ip("switch", &["link", "set", &format!("h{n}"), "master", "br0"]);
    }
    lab.cable(("client", "eth0", "10.3.31.1/24"), ("switch", "c0", ""));
    lab.ip("client", &["address", "add", "fd31::1/64", "dev", "eth0", "nodad"]);
    lab.ip("switch", &["link", "set", "c0", "master", "br0"]);
    Some(lab)
}

fn config(policy: &str, more: &str) -> String {
    let mut text = format!(
        "[interface]\nname = \"bond0\"\naddress = [\"10.3.31.194/24\", \"fd31::194/64\"]\ncontrol_socket = \"SOCKET\"\n\
         [bond]\npolicy = {policy}\n{more}\n"
    );
    for n in 1..=LINKS {
        text += &format!("[[bond.link]]\ndevice = \"eth{n}\"\n");
    }
    text
}

fn links_up(daemon: &Daemon) -> usize {
    links(&daemon.status()).filter(|link| link["state"] == "up").count()
}

fn links(status: &Value) -> impl Iterator<Item = &Value> {
    status["bond"]["links"].as_array().into_iter().flatten()
}

fn counters(status: &Value, name: &str) -> Vec<u64> {
    links(status).map(|link| link["counters"][name].as_u64().expect("a counter")).collect()
}

fn current(daemon: &Daemon) -> Option<String> {
    let status = daemon.status();
    let link = links(&status).find(|link| link["current"] == true)?;
    Some(link["name"].as_str()?.to_owned())
}

/// So many that of links that are drawn by a hash of ports hardly ever one has none.
const FLOWS: usize = 64;
/// What each is answered with.
const BYTES: usize = 75_000;

/// Many requests at once, each of which the host answers. What the policy spreads is the answers.
fn fetches(lab: &Lab, host: &str) {
    let address: SocketAddr = host.parse().expect("an address");
    let listener = lab.listen("host", address);
    std::thread::spawn(move || {
        for stream in listener.incoming().take(FLOWS).flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut request = [0; 1];
                stream.read_exact(&mut request).expect("a request");
                stream.write_all(&vec![request[0]; BYTES]).expect("written");
            });
        }
    });
    let fetches: Vec<_> = (0..FLOWS as u8)
        .map(|n| {
            lab.inside("client", move || {
                let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("connected");
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                stream.write_all(&[n]).expect("written");
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).expect("an answer");
                assert!(answer.len() == BYTES && answer.iter().all(|byte| *byte == n));
            })
        })
        .collect();
    fetches.into_iter().for_each(|fetch| fetch.join().expect("fetched"));
}

fn answers(lab: &Lab, target: &str) -> bool {
    // The first may be lost while a switch and its hosts learn the way.
    let ping = ["netns", "exec", &lab.name("client"), "ping", "-q", "-c", "1", "-W", "2", target];
    (0..20).any(|_| std::process::Command::new("ip").args(ping).output().expect("ping").status.success())
}

/// Which links carry data under each policy: by frames for single packets, by flow else.
#[test]
fn each_policy_reaches_the_client_and_spreads_as_it_says() {
    let Some(lab) = lan(&[]) else { return };
    let rows: [(&str, usize); 9] = [
        ("\"balance-rr\"", 4),
        ("\"balance-xor:layer3+4\"", 4),
        ("\"active-backup\"", 1),
        ("{ name = \"brr\", threshold = \"5ms\" }", 4),
        ("\"flowlet\"", 4),
        ("\"brr:adaptive\"", 4),
        ("\"flowlet:adaptive\"", 4),
        ("\"least_queue\"", 4),
        ("\"balance-tlb:tlb_dynamic_lb=off,xmit_hash_policy=layer3+4\"", 4),
    ];
    for (policy, used) in rows {
        let daemon = lab.daemon("host", "host", &config(policy, ""));
        daemon.wait("four links up", |d| links_up(d) == LINKS);
        assert!(answers(&lab, "10.3.31.194"), "{policy}");
        assert!(answers(&lab, "fd31::194"), "{policy}");
        fetches(&lab, "10.3.31.194:80");
        let status = daemon.status();
        let bytes = counters(&status, "sent_bytes");
        let carrying = bytes.iter().filter(|bytes| **bytes > 200_000).count();
        assert_eq!(carrying, used, "{policy}: {bytes:?}");
        assert_eq!(status["bond"]["counters"]["host_no_link"], 0, "{policy}");
        daemon.stop();
    }
}

#[test]
fn a_bond_of_each_kind_does_without_a_pulled_link_and_takes_it_back() {
    let Some(lab) = lan(&[]) else { return };
    lab.echo("host", "0.0.0.0:7");
    for policy in ["\"active-backup:primary=eth2\"", "\"balance-xor:layer3+4\"", "\"balance-alb\"", "\"brr\""] {
        let daemon = lab.daemon("host", "host", &config(policy, ""));
        daemon.wait("four links up", |d| links_up(d) == LINKS);
        assert!(lab.until_answered("client", "10.3.31.1:0", "10.3.31.194:7").is_some(), "{policy}");
        let before = current(&daemon);
        if policy.contains("primary") {
            assert_eq!(before.as_deref(), Some("eth2"));
        }
        // At the switch: what the host sees is carrier that is gone.
        for n in [2, 3] {
            lab.ip("switch", &["link", "set", &format!("h{n}"), "down"]);
        }
        daemon.wait("two links up", |d| links_up(d) == 2);
        let outage = lab.until_answered("client", "10.3.31.1:0", "10.3.31.194:7");
        assert!(outage.is_some(), "{policy}: no answer over the links that are left");
        println!("{policy}: an answer after {outage:?}");
        assert!(current(&daemon).is_none_or(|link| link != "eth2" && link != "eth3"), "{policy}");
        for n in [2, 3] {
            lab.ip("switch", &["link", "set", &format!("h{n}"), "up"]);
        }
        daemon.wait("four links up", |d| links_up(d) == LINKS);
        if policy.contains("primary") {
            daemon.wait("the primary link is back", |d| current(d).as_deref() == Some("eth2"));
        }
        daemon.stop();
    }
}

/// The switch keeps its ports up; what is behind it does not answer on one of them.
#[test]
fn arp_supervision_leaves_a_link_with_carrier_that_leads_nowhere() {
    let Some(lab) = lan(&[]) else { return };
    // So many, that no busy machine misses them all.
    let policy = "\"active-backup:arp_interval=100ms,missed_max=30,primary=eth1\"";
    let daemon = lab.daemon("host", "host", &config(policy, "arp_ip_target = [\"10.3.31.1\"]"));
    daemon.wait("four links up", |d| links_up(d) == LINKS && current(d).as_deref() == Some("eth1"));
    lab.ip("switch", &["link", "set", "h1", "nomaster"]);
    daemon.wait("another link is current", |d| links_up(d) == LINKS - 1 && current(d).as_deref() == Some("eth2"));
    assert!(answers(&lab, "10.3.31.194"));
    lab.ip("switch", &["link", "set", "h1", "master", "br0"]);
    daemon.wait("the primary link is back", |d| current(d).as_deref() == Some("eth1"));
    daemon.stop();
}

fn address(lab: &Lab, device: &str) -> String {
    let shown = lab.ip("host", &["-brief", "link", "show", device]);
    shown.split_whitespace().nth(2).expect("an address").to_owned()
}

/// Of 50 datagrams to the host as many arrive as are sent: the stack behind a device takes none of the bond's a second time.
fn datagrams_arrive_once(lab: &Lab) {
    let socket = lab.run("host", || std::net::UdpSocket::bind("10.3.31.194:900").expect("the host's address"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let send = lab.inside("client", || {
        let socket = std::net::UdpSocket::bind("10.3.31.1:0").expect("the client's address");
        for n in 0..50u8 {
            socket.send_to(&[n], "10.3.31.194:900").expect("sent");
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    send.join().expect("sent");
    let mut buffer = [0; 1];
    let mut next = || socket.recv(&mut buffer).ok().map(|_| buffer[0]);
    let mut arrived: Vec<u8> = std::iter::from_fn(&mut next).take(50).collect();
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    arrived.extend(std::iter::from_fn(&mut next));
    assert_eq!(arrived, (0..50).collect::<Vec<_>>());
}

#[test]
fn with_fail_over_mac_active_the_bond_has_the_address_of_the_device_in_use_also_of_one_that_came_later() {
    let Some(lab) = lan(&[]) else { return };
    let hardware: Vec<String> = (1..=LINKS).map(|n| address(&lab, &format!("eth{n}"))).collect();
    let policy = "\"active-backup:primary=eth1,fail_over_mac=active\"";
    let daemon = lab.daemon("host", "host", &config(policy, ""));
    daemon.wait("four links up", |d| links_up(d) == LINKS && current(d).as_deref() == Some("eth1"));
    assert_eq!(address(&lab, "bond0"), hardware[0]);
    assert!(answers(&lab, "10.3.31.194") && answers(&lab, "fd31::194"));
    datagrams_arrive_once(&lab);
    lab.ip("switch", &["link", "set", "h1", "down"]);
    daemon.wait("another link is current", |d| current(d).as_deref() == Some("eth2"));
    assert_eq!(address(&lab, "bond0"), hardware[1]);
    assert!(answers(&lab, "10.3.31.194"));
    lab.ip("host", &["link", "del", "eth1"]);
    // It gets its name when the switch takes its frames: the bond announces itself once.
    lab.cable(("host", "spare", ""), ("switch", "h1", ""));
    lab.ip("switch", &["link", "set", "h1", "master", "br0"]);
    lab.ip("host", &["link", "set", "spare", "down"]);
    lab.ip("host", &["link", "set", "spare", "name", "eth1"]);
    lab.ip("host", &["link", "set", "eth1", "up"]);
    daemon.wait("the primary link's new device is current", |d| current(d).as_deref() == Some("eth1"));
    let new = address(&lab, "eth1");
    assert_ne!(new, hardware[0]);
    assert_eq!(address(&lab, "bond0"), new);
    assert!(answers(&lab, "10.3.31.194"));
    datagrams_arrive_once(&lab);
    let now: Vec<String> = (1..=LINKS).map(|n| address(&lab, &format!("eth{n}"))).collect();
    assert_eq!(now[1..], hardware[1..], "devices keep their addresses");
    daemon.stop();
}

#[test]
fn with_fail_over_mac_follow_the_device_in_use_is_given_the_bonds_address_and_each_gets_its_own_back() {
    let Some(lab) = lan(&[]) else { return };
    let addresses = |lab: &Lab| (1..=LINKS).map(|n| address(lab, &format!("eth{n}"))).collect::<Vec<_>>();
    let hardware = addresses(&lab);
    let policy = "\"active-backup:primary=eth2,fail_over_mac=follow\"";
    let daemon = lab.daemon("host", "host", &config(policy, ""));
    daemon.wait("four links up", |d| links_up(d) == LINKS && current(d).as_deref() == Some("eth2"));
    // The bond's is the first device's. The primary one has it, and the first one has the primary's.
    assert_eq!(address(&lab, "bond0"), hardware[0]);
    assert_eq!(addresses(&lab)[..2], [hardware[1].clone(), hardware[0].clone()]);
    assert!(answers(&lab, "10.3.31.194") && answers(&lab, "fd31::194"));
    datagrams_arrive_once(&lab);
    lab.ip("switch", &["link", "set", "h2", "down"]);
    daemon.wait("another link is current", |d| current(d).as_deref() == Some("eth1"));
    // One after the other.
    daemon.wait("each has its own address", |_| addresses(&lab) == hardware);
    assert_eq!(address(&lab, "bond0"), hardware[0]);
    assert!(answers(&lab, "10.3.31.194"));
    lab.ip("switch", &["link", "set", "h1", "down"]);
    daemon.wait("a third link is current", |d| current(d).as_deref() == Some("eth3"));
    daemon.wait("it has the bond's address", |_| address(&lab, "eth3") == hardware[0]);
    assert_eq!((address(&lab, "eth1"), address(&lab, "bond0")), (hardware[2].clone(), hardware[0].clone()));
    assert!(answers(&lab, "10.3.31.194"));
    daemon.stop();
    assert_eq!(addresses(&lab), hardware, "each has its own again");
}

#[test]
fn with_miimon_0_a_link_without_carrier_is_used_all_the_same() {
    let Some(lab) = lan(&[]) else { return };
    for (miimon, left) in [("0", LINKS), ("50", LINKS - 1)] {
        let daemon = lab.daemon("host", "host", &config(&format!("\"balance-xor:miimon={miimon}\""), ""));
        daemon.wait("four links up", |d| links_up(d) == LINKS);
        lab.ip("switch", &["link", "set", "h1", "down"]);
        if left == LINKS {
            std::thread::sleep(Duration::from_millis(1500));
            assert_eq!(links_up(&daemon), left, "miimon={miimon}");
        }
        daemon.wait("those that count as up", |d| links_up(d) == left);
        lab.ip("host", &["link", "set", "eth2", "down"]);
        daemon.wait("a device that is switched off is not used", |d| links_up(d) == left - 1);
        lab.ip("host", &["link", "set", "eth2", "up"]);
        lab.ip("switch", &["link", "set", "h1", "up"]);
        daemon.wait("four links up again", |d| links_up(d) == LINKS);
        daemon.stop();
    }
}

#[test]
fn what_clients_send_is_balanced_over_the_links_by_arp_and_by_neighbour_discovery() {
    let Some(lab) = lan(&["m2", "m3", "m4", "m5"]) else { return };
    let daemon = lab.daemon("host", "host", &config("\"balance-alb\"", ""));
    daemon.wait("four links up", |d| links_up(d) == LINKS);
    for n in 2..=5 {
        let (name, port) = (format!("m{n}"), format!("p{n}"));
        lab.cable((&name, "eth0", &format!("10.3.31.{n}/24")), ("switch", &port, ""));
        lab.ip(&name, &["address", "add", &format!("fd31::{n}/64"), "dev", "eth0", "nodad"]);
        lab.ip("switch", &["link", "set", &port, "master", "br0"]);
        for target in ["10.3.31.194", "fd31::194"] {
            let ping = ["netns", "exec", &lab.name(&name), "ping", "-q", "-c", "3", "-i", "0.2", "-W", "30", target];
            let output = std::process::Command::new("ip").args(ping).output().expect("ping");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains(" 0% packet loss"), "{target}: {said}");
        }
    }
    let status = daemon.status();
    let clients: Vec<u64> = links(&status).map(|link| link["clients"].as_u64().expect("a number")).collect();
    // A client that asks again later does so from its link-local address, and is a client by that address too.
    assert!(clients.iter().sum::<u64>() >= 8, "four clients over two protocols: {clients:?}");
    assert!(clients.iter().max() <= clients.iter().min().map(|least| least + 1).as_ref(), "{clients:?}");
    // Echo requests came in on every link, by the addresses that the clients were told: three of each client by each address. One
    // of the two that a link has may be a client's link-local address.
    let received = counters(&status, "received_packets");
    let dropped = counters(&status, "received_inactive");
    let others = counters(&status, "received_other_station");
    let taken: Vec<u64> = (0..LINKS).map(|n| received[n] - dropped[n] - others[n]).collect();
    assert!(taken.iter().all(|taken| *taken >= 3) && taken.iter().sum::<u64>() >= 24, "{taken:?}: {status}");
    daemon.stop();
}

#[test]
fn two_bonds_agree_by_lacp_and_leave_a_link_that_carries_nothing() {
    let Some(lab) = Lab::new(&["left", "right"]) else { return };
    for n in 1..=2 {
        lab.cable(("left", &format!("eth{n}"), ""), ("right", &format!("eth{n}"), ""));
    }
    let config = |host: u8| {
        format!(
            "[interface]\nname = \"bond0\"\naddress = [\"10.3.32.{host}/24\"]\ncontrol_socket = \"SOCKET\"\n[bond]\n\
             policy = \"802.3ad:layer3+4,lacp_rate=fast\"\n[[bond.link]]\ndevice = \"eth1\"\n\
             [[bond.link]]\ndevice = \"eth2\"\n"
        )
    };
    let left = lab.daemon("left", "left", &config(1));
    let right = lab.daemon("right", "right", &config(2));
    for daemon in [&left, &right] {
        daemon.wait("both links in one aggregator", |d| {
            let lacp = d.status()["bond"]["lacp"].as_str().unwrap_or_default().to_owned();
            links_up(d) == 2 && lacp.contains("ports 0 1")
        });
    }
    lab.transfer("left", "right", "10.3.32.2:5001", 5);
    lab.ip("right", &["link", "set", "eth2", "down"]);
    left.wait("one link is left", |d| links_up(d) == 1);
    lab.transfer("left", "right", "10.3.32.2:5002", 2);
    lab.ip("right", &["link", "set", "eth2", "up"]);
    left.wait("both links again", |d| links_up(d) == 2);
    left.stop();
    right.stop();
}

/// Everything of its devices that a bond changes.
fn devices(lab: &Lab) -> String {
    let mut text = String::new();
    for n in 1..=LINKS {
        let device = format!("eth{n}");
        // Without what the kernel counts.
        let link = lab.ip("host", &["-details", "link", "show", &device]);
        text += &link.lines().take(2).collect::<Vec<_>>().join(" ");
        text += if link.contains("promiscuity 0") { " calm\n" } else { " promiscuous\n" };
        for setting in ["ipv4/conf/DEV/arp_ignore", "ipv4/conf/DEV/rp_filter", "ipv6/conf/DEV/disable_ipv6"] {
            let path = format!("/proc/sys/net/{}", setting.replace("DEV", &device));
            text += &lab.run("host", move || std::fs::read_to_string(path).unwrap_or_default());
        }
    }
    text
}

#[test]
fn nothing_is_left_behind_and_a_device_that_vanishes_is_used_again_when_it_is_back() {
    let Some(lab) = lan(&[]) else { return };
    lab.ip("host", &["link", "set", "eth4", "down"]);
    let (traces, before) = (lab.traces("host"), devices(&lab));
    let mac = lab.ip("host", &["-brief", "link", "show", "eth1"]);
    let mac = mac.split_whitespace().nth(2).expect("an address").to_owned();
    // The bond has the address of its first device: that one gets another meanwhile.
    let daemon = lab.daemon("host", "host", &config("\"balance-xor\"", &format!("mac = \"{mac}\"")));
    daemon.wait("four links up", |d| links_up(d) == LINKS);
    assert!(lab.ip("host", &["link", "show", "bond0"]).contains(&mac));
    assert!(!lab.ip("host", &["link", "show", "eth1"]).contains(&mac));
    assert!(answers(&lab, "10.3.31.194"));
    assert_ne!(devices(&lab), before);

    lab.ip("host", &["link", "del", "eth3"]);
    daemon.wait("three links up", |d| links_up(d) == LINKS - 1);
    let absent = |d: &Daemon| links(&d.status()).filter(|link| link["state"] == "absent").count();
    daemon.wait("one without a device", |d| absent(d) == 1);
    assert!(answers(&lab, "10.3.31.194"));
    lab.cable(("host", "eth3", ""), ("switch", "h3", ""));
    lab.ip("switch", &["link", "set", "h3", "master", "br0"]);
    daemon.wait("four links up again", |d| links_up(d) == LINKS);
    daemon.stop();

    let lines = |text: &str, device: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains(device)).map(str::to_owned).collect()
    };
    // The new eth3 has another index and address, by no doing of the bond's.
    assert_eq!(lines(&devices(&lab), "eth3"), lines(&before, "eth3"));
    assert_eq!(lines(&lab.traces("host"), "eth3"), lines(&traces, "eth3"));
}

#[test]
fn a_file_that_cannot_work_is_refused_with_its_line_and_what_would_be_right() {
    let Some(lab) = Lab::new(&[]) else { return };
    let good = config("\"brr\"", "");
    let rows = [
        ("\"brr\"", "\"brrr\"", 6, "bond.policy", "known are"),
        ("\"brr\"", "{ threshold = \"1ms\" }", 6, "bond.policy.name", "missing"),
        ("\"brr\"", "{ name = \"brr\", lacp_rate = \"fast\" }", 6, "bond.policy.lacp_rate", "threshold"),
        ("\"brr\"", "\"active-backup:primary=eth9\"", 6, "bond.policy", "eth1, eth2"),
        ("\"brr\"", "\"traffic_meter\"", 6, "bond.policy", "mode = \"flow\""),
        ("\"brr\"", "\"brr:arp_interval=100ms\"", 5, "bond.arp_ip_target", "missing"),
        ("\"eth2\"", "\"eth1\"", 10, "bond.link.device", "twice"),
        ("\"eth2\"", "\"bond0\"", 10, "bond.link.device", "own interface"),
        ("\"eth1\"", "\"eth1\"\nrate = \"0\"", 10, "bond.link.rate", "leave it out"),
        ("\"brr\"", "\"active-backup:arp_validate=filter\"", 6, "bond.policy", "arp_interval"),
        ("\"brr\"", "\"active-backup:arp_all_targets=all\"", 6, "bond.policy", "arp_interval"),
        ("\"brr\"", "\"802.3ad:arp_validate=none\"", 6, "bond.policy", "arp_interval"),
        (
            "policy = \"brr\"",
            "policy = \"active-backup:fail_over_mac=active\"\nmac = \"02:00:5e:10:00:01\"",
            7,
            "bond.mac",
            "leave one out",
        ),
        ("\"brr\"", "\"active-backup:primary_reselect=better\"", 6, "bond.policy", "add primary=DEVICE"),
        ("\"brr\"", "{ name = \"brr\", missed_max = 2 }", 6, "bond.policy.missed_max", "arp_interval"),
        ("\"brr\"", "\"802.3ad:min_links=5\"", 6, "bond.policy", "min_links=5 of 4 links"),
        ("\"brr\"", "\"802.3ad:arp_interval=100ms\"", 6, "bond.policy", "lacp_rate=fast"),
        ("\"brr\"", "\"brr\"\nnum_grat_arp = 3", 7, "bond.num_grat_arp", "active-backup"),
        ("\"eth1\"", "\"eth1\"\ndelay = \"11s\"", 10, "bond.link.delay", "10 s"),
        ("\"eth1\"", "\"eth1\"\njitter = \"soon\"", 10, "bond.link.jitter", "ms"),
        ("[bond]", "listen_port = 51900\n[bond]", 1, "interface.listen_port", "leave it out"),
        ("[bond]", "[[peer]]\n[bond]", 5, "peer", "its own file"),
        ("[bond]", "[bond]\nmac = \"01:00:5e:00:00:01\"", 6, "bond.mac", "02:00:5e:10:00:01"),
    ];
    for (old, new, line, setting, advice) in rows {
        let path = lab.config("bad", &good.replacen(old, new, 1));
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fairspan"));
        let output = child::output(command.args(["check", "--json"]).arg(&path));
        let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((said["line"].as_u64(), said["setting"].as_str()), (Some(line), Some(setting)), "{new}: {said}");
        assert!(said["problem"].as_str().is_some_and(|problem| problem.contains(advice)), "{new}: {said}");
    }
}
