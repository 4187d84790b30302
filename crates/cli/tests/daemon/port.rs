//! Two ports joined as by a cable: hosts `left` and `right`, each on a port of a daemon's, `west` and `east`.

use crate::child;
use crate::common::*;
use fairspan_live::channel::ethernet::{Codepoint, ENVELOPE, EthernetConfig, EthernetSocket, Mac, Outgoing, Sent};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// EtherType of a tag.
pub(crate) const VLAN: u16 = 0x8100;

struct Wire {
    lab: Lab,
    west_key: (String, String),
    east_key: (String, String),
}

impl Wire {
    fn new(more: &[&str]) -> Option<Wire> {
        let lab = Lab::new(&[&["left", "west", "east", "right"], more].concat())?;
        lab.cable(("left", "eth0", "10.9.0.1/24"), ("west", "port0", ""));
        lab.cable(("right", "eth0", "10.9.0.2/24"), ("east", "port0", ""));
        lab.cable(("west", "eth0", "192.168.1.2/24"), ("east", "eth0", "192.168.1.1/24"));
        Some(Wire { lab, west_key: keys(), east_key: keys() })
    }

    fn port(key: &str, more: &str) -> String {
        format!(
            "[interface]\nkind = \"port\"\ndevice = \"port0\"\ncontrol_socket = \"SOCKET\"\nstate_dir = \"SOCKET.state\"\n\
             private_key = \"{key}\"\n{more}\n"
        )
    }

    /// Both daemons, with `channels` of the west's up.
    fn start(&self, mode: &str, channels: &str, count: usize) -> (Daemon, Daemon) {
        let peer = |name: &str, key: &str| format!("[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\n{mode}\n");
        let east = Wire::port(&self.east_key.0, "listen_port = 51900") + &peer("west", &self.west_key.1);
        let west = Wire::port(&self.west_key.0, "") + &peer("east", &self.east_key.1) + channels;
        let east = self.lab.daemon("east", "east", &east);
        let west = self.lab.daemon("west", "west", &west);
        west.wait_up(count);
        east.wait_up(count);
        (west, east)
    }
}

fn pings(lab: &Lab, target: &str, size: usize) -> bool {
    let size = size.to_string();
    let ping =
        ["netns", "exec", &lab.name("left"), "ping", "-q", "-M", "do", "-c", "1", "-W", "3", "-s", &size, target];
    (0..20).any(|_| child::output(Command::new("ip").args(ping)).status.success())
}

fn sum(daemon: &Daemon, counters: &[&str]) -> u64 {
    counters.iter().map(|name| daemon.counter(name)).sum()
}

/// What a daemon lost. A half of a frame that its link lost, as a busy machine's may, is not among it.
const LOST: [&str; 6] =
    ["send_refused", "port_malformed", "port_not_frames", "port_receive_cut", "port_send_too_big", "port_send_refused"];

#[test]
fn hosts_on_two_ports_speak_as_over_a_cable_with_full_frames_and_segments_joined_by_offloads() {
    let Some(wire) = Wire::new(&[]) else { return };
    let lab = &wire.lab;
    for (host, end) in [("left", 1), ("right", 2)] {
        lab.ip(host, &["address", "add", &format!("fd09::{end}/64"), "dev", "eth0", "nodad"]);
    }
    for mode in ["mode = \"reliable\"", "mode = \"ordered\"", "mode = \"flow\""] {
        let (west, east) = wire.start(mode, &udp("one", "eth0", "192.168.1.1:51900"), 1);
        // A whole frame: longer than what a channel over the same kind of link takes.
        assert!(pings(lab, "10.9.0.2", 1472), "{mode}");
        assert!(east.counter("port_assembled") >= 1, "{mode}: {}", east.status());
        lab.transfer("left", "right", "10.9.0.2:5001", 8);
        lab.transfer("right", "left", "[fd09::1]:5002", 4);
        assert_eq!((sum(&west, &LOST), sum(&east, &LOST)), (0, 0), "{mode}: {} {}", west.status(), east.status());
        if mode.contains("reliable") {
            // What the link loses of a frame comes again.
            assert_eq!((west.counter("port_incomplete"), east.counter("port_incomplete")), (0, 0));
        }
        let status = west.status();
        assert_eq!((&status["port"]["device"], &status["port"]["state"]), (&"port0".into(), &"up".into()));
        west.stop();
        east.stop();
    }
}

struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The frame of that number: what follows its Ethernet header, from what a frame of 60 bytes has to what the MTU allows.
pub(crate) fn payload(number: u32) -> Vec<u8> {
    let mut rng = fairspan_core::rng::Rng::new(u64::from(number) + 1);
    let len = [46, 1500, 46 + rng.next_u64() as usize % 1455][number as usize % 3];
    let mut bytes = number.to_be_bytes().to_vec();
    while bytes.len() < len {
        bytes.extend(rng.next_u64().to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A socket on a host's end of its cable, for frames of a type.
pub(crate) fn open(lab: &Lab, host: &str, ether_type: u16) -> EthernetSocket {
    let mut config = EthernetConfig::new("eth0");
    config.envelope = ether_type;
    lab.run(host, move || EthernetSocket::open(config).expect("a socket"))
}

pub(crate) fn send(socket: &mut EthernetSocket, peer: Mac, bytes: &[u8]) {
    let frame = Outgoing { peer, codepoint: Codepoint::Envelope, head: &[], packet: bytes };
    let end = Instant::now() + PATIENCE;
    while socket.send(&[frame]) != Sent::Done {
        assert!(Instant::now() < end, "the device takes nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The next frames, until there are `count`.
fn received(socket: &mut EthernetSocket, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let end = Instant::now() + PATIENCE;
    while frames.len() < count && Instant::now() < end {
        if socket.receive(count - frames.len(), |frame| frames.push(frame.bytes.to_vec())) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    frames
}

#[test]
fn frames_of_all_lengths_arrive_as_they_were_once_and_in_order_over_links_that_lose() {
    let Some(wire) = Wire::new(&["wan"]) else { return };
    let lab = &wire.lab;
    // Both lose, so that whichever the bond prefers for these few frames has something to send again.
    let _links = [1, 2].map(|link| {
        let (inner, network) = (format!("eth{link}"), format!("192.168.{}", link + 1));
        let (near, far) = (format!("near{link}"), format!("far{link}"));
        lab.cable(("west", &inner, &format!("{network}.2/24")), ("wan", &near, ""));
        lab.cable(("wan", &far, ""), ("east", &inner, &format!("{network}.1/24")));
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.name("wan"), env!("CARGO_BIN_EXE_fairspan"), "emulate"]);
        command.args(["--a", &near, "--b", &far, "--delay", "5ms", "--loss", "5%"]);
        let emulator = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Emulator(emulator.expect("the emulator"))
    });
    let channels = udp("one", "eth1", "192.168.2.1:51900") + &udp("two", "eth2", "192.168.3.1:51900");
    // Deadlines that no slow machine misses.
    let mode = "mode = \"reliable\"\nqueue_limit = \"10s\"\nbuffer = \"drop-tail\"\nresend_within = \"30s\"\nreorder_deadline = \"60s\"";
    let (west, east) = wire.start(mode, &channels, 2);
    let (mut left, mut right) = (open(lab, "left", ENVELOPE), open(lab, "right", ENVELOPE));
    for (way, sockets) in [("eastward", [0, 1]), ("westward", [1, 0])] {
        let mut ends = [&mut left, &mut right];
        let peer = ends[sockets[1]].mac();
        // Some at a time, so that no queue is too short for them.
        for batch in 0..20u32 {
            let numbers = batch * 50..(batch + 1) * 50;
            numbers.clone().for_each(|number| send(ends[sockets[0]], peer, &payload(number)));
            let frames = received(ends[sockets[1]], 50);
            assert_eq!(frames.len(), 50, "{way}: {}", west.status());
            for (number, frame) in numbers.zip(frames) {
                let came = u32::from_be_bytes(frame[..4].try_into().expect("four bytes"));
                assert!(frame == payload(number), "{way}: frame {number}; {came} came, {} bytes", frame.len());
            }
        }
        assert_eq!(ends[sockets[1]].receive(10, |_| {}), 0, "{way}: a frame more than was sent");
    }
    // With tags: up to 1518 bytes. The receiver takes none of them, as they are of another LAN.
    let mut tagged = open(lab, "left", VLAN);
    for number in 0..50 {
        send(&mut tagged, right.mac(), &[&[0x60, 5], &ENVELOPE.to_be_bytes()[..], &payload(number)].concat());
    }
    let end = Instant::now() + PATIENCE;
    while right.stats().malformed < 50 && Instant::now() < end {
        right.receive(10, |frame| panic!("{frame:?} has no tag"));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(right.stats().malformed, 50, "tagged frames: {}", east.status());
    assert!(west.peer_counter("resent") > 0, "{}", west.status());
    assert_eq!((sum(&west, &LOST), sum(&east, &LOST)), (0, 0));
    // What a daemon sends by its port, it does not take for a host's.
    assert_eq!([1050, 1000].map(Some), ["port_received", "port_sent"].map(|name| Some(west.counter(name))));
    west.stop();
    east.stop();
}

#[test]
fn a_port_over_ethernet_in_the_clear_carries_frames_in_every_mode() {
    let Some(wire) = Wire::new(&[]) else { return };
    let lab = &wire.lab;
    for end in ["west", "east"] {
        lab.ip(end, &["link", "set", "eth0", "mtu", "1600"]);
    }
    let end = |more: &str| {
        format!("[interface]\nkind = \"port\"\ndevice = \"port0\"\ncontrol_socket = \"SOCKET\"\n[[peer]]\n{more}\n")
            + &ethernet("one", "eth0", "")
    };
    for mode in ["stripe", "reliable", "plain", "duplicate"] {
        let east = lab.daemon("east", "east", &end(&format!("mode = \"{mode}\"")));
        let west = lab.daemon("west", "west", &end(&format!("mode = \"{mode}\"")));
        // The links are as large as a full frame and what is added to it.
        for daemon in [&west, &east] {
            daemon.wait_up(1);
            let fits = |d: &Daemon| d.status()["peers"][0]["mtu"].as_u64() > Some(1530);
            daemon.wait("a path that carries full frames", fits);
        }
        assert!(pings(lab, "10.9.0.2", 1472), "{mode}: {}", west.status());
        lab.transfer("left", "right", "10.9.0.2:5001", 4);
        assert_eq!((west.counter("port_assembled"), east.counter("port_assembled")), (0, 0), "{mode}");
        west.stop();
        east.stop();
    }
}

#[test]
fn a_port_may_vanish_and_come_back_and_its_carrier_is_told() {
    let Some(wire) = Wire::new(&[]) else { return };
    let lab = &wire.lab;
    let (west, east) = wire.start("", &udp("one", "eth0", "192.168.1.1:51900"), 1);
    let state = |daemon: &Daemon| daemon.status()["port"]["state"].as_str().unwrap_or_default().to_owned();
    assert!(pings(lab, "10.9.0.2", 56));
    lab.ip("left", &["link", "set", "eth0", "down"]);
    west.wait("no carrier", |d| state(d) == "down");
    lab.ip("left", &["link", "set", "eth0", "up"]);
    west.wait("carrier", |d| state(d) == "up");
    assert!(pings(lab, "10.9.0.2", 56));
    lab.ip("west", &["link", "delete", "port0"]);
    west.wait("no port", |d| state(d) == "absent");
    lab.cable(("left", "eth0", "10.9.0.1/24"), ("west", "port0", ""));
    west.wait("a port again", |d| state(d) == "up");
    assert!(pings(lab, "10.9.0.2", 1472));
    west.stop();
    east.stop();
}

#[test]
fn a_daemon_leaves_its_port_as_it_was_and_a_killed_one_nothing_that_takes_frames() {
    let Some(wire) = Wire::new(&[]) else { return };
    let lab = &wire.lab;
    let promiscuous = || lab.ip("west", &["-d", "link", "show", "port0"]).contains("promiscuity 1");
    let settings = || {
        ["ipv4/conf/port0/arp_ignore", "ipv4/conf/port0/rp_filter", "ipv6/conf/port0/disable_ipv6"].map(|setting| {
            lab.run("west", move || std::fs::read_to_string(format!("/proc/sys/net/{setting}")).unwrap_or_default())
        })
    };
    lab.ip("west", &["link", "set", "port0", "down"]);
    let before = (lab.ip("west", &["-brief", "link"]), lab.traces("west"), settings());
    let now = || (lab.ip("west", &["-brief", "link"]), lab.traces("west"), settings());
    let (west, east) = wire.start("", &udp("one", "eth0", "192.168.1.1:51900"), 1);
    assert!(promiscuous() && settings() != before.2);
    west.stop();
    assert!(!promiscuous());
    assert_eq!(now(), before);
    lab.ip("west", &["link", "set", "port0", "up"]);
    let traces = lab.traces("west");
    let again = Wire::port(&wire.west_key.0, "")
        + &format!("[[peer]]\npublic_key = \"{}\"\n", wire.east_key.1)
        + &udp("one", "eth0", "192.168.1.1:51900");
    let west = lab.daemon("west", "west", &again);
    west.wait_up(1);
    assert!(pings(lab, "10.9.0.2", 56));
    // One device is one daemon's, also under another name.
    let other = again.replace("SOCKET", "SOCKET.other").replace("kind = \"port\"", "kind = \"port\"\nname = \"cable\"");
    let mut second = lab.start("west", "second", &other);
    assert_eq!(second.ended().code(), Some(1), "{}", second.log());
    assert!(second.log().contains("device port0: another daemon has this device"), "{}", second.log());
    west.kill();
    assert!(!promiscuous());
    assert_eq!(lab.traces("west"), traces);
    // Nothing that it left keeps another from starting.
    let west = lab.daemon("west", "west", &again);
    west.wait_up(1);
    assert!(pings(lab, "10.9.0.2", 56));
    west.stop();
    east.stop();
}

#[test]
fn what_cannot_be_a_port_is_refused_by_name() {
    let Some(lab) = Lab::new(&["west"]) else { return };
    let good =
        "interface = { kind = \"port\", device = \"eth1\", private_key = \"KEY\" }\n[[peer]]\npublic_key = \"PEER\"\n\
                [[peer.channel]]\nkind = \"udp\"\nendpoint = \"192.0.2.1:51900\"\n"
            .replace("KEY", &keys().0)
            .replace("PEER", &keys().1);
    let check = |text: &str| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
        let output = child::output(command.args(["check", "--json"]).arg(lab.config("bad", text)));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let said = check(&good);
    assert_eq!(said["ok"], true, "{said}");
    let rows = [
        ("\"port\"", "\"prot\"", 1, "interface.kind", "\"port\", a device"),
        ("kind = \"port\", ", "", 1, "interface.device", "kind = \"port\""),
        ("kind = \"port\", device = \"eth1\", ", "", 1, "interface.name", "fs0"),
        ("device = \"eth1\", ", "", 1, "interface.device", "eth1"),
        ("\"eth1\"", "\"an interface\"", 1, "interface.device", "15 letters"),
        ("\"eth1\"", "\"lo\"", 1, "interface.device", "this host alone"),
        ("\"eth1\"", "\"eth1\", address = [\"10.0.0.1/24\"]", 1, "interface.address", "leave it out"),
        ("\"eth1\"", "\"eth1\", lock = true", 1, "interface.lock", "leave it out"),
        ("\"eth1\"", "\"eth1\", mtu = 1400", 1, "interface.mtu", "device's MTU"),
        ("[[peer]]", "[[peer]]\nallowed_ips = [\"10.0.0.0/8\"]", 2, "peer.allowed_ips", "all frames"),
        ("\"udp\"", "\"udp\"\ndevice = \"eth1\"", 6, "peer.channel.device", "loop"),
        (
            "[[peer.channel]]",
            "[[peer.channel]]\nkind = \"udp\"\nendpoint = \"192.0.2.2:1\"\n[[peer]]\npublic_key = \"OTHER\"\n[[peer.channel]]",
            7,
            "peer",
            "two ends",
        ),
        (
            "[[peer]]",
            "[bond]\npolicy = \"brr\"\n[[bond.link]]\ndevice = \"eth2\"\n[[peer]]",
            1,
            "interface.kind",
            "[bond]",
        ),
        ("[[peer]]", "[ring]\nnode = 1\nnodes = 2\nrate = \"1Gbit\"\n[[peer]]", 1, "interface.kind", "[ring]"),
    ];
    let other = keys().1;
    for (old, new, line, setting, advice) in rows {
        let said = check(&good.replacen(old, &new.replace("OTHER", &other), 1));
        assert_eq!((said["line"].as_u64(), said["setting"].as_str()), (Some(line), Some(setting)), "{new}: {said}");
        assert!(said["problem"].as_str().is_some_and(|problem| problem.contains(advice)), "{new}: {said}");
    }
    // What only the moment tells: a device that has no Ethernet frames.
    lab.ip("west", &["tuntap", "add", "mode", "tun", "name", "tun0"]);
    let text = good.replace("\"eth1\"", "\"tun0\", control_socket = \"SOCKET\", state_dir = \"SOCKET.state\"");
    let mut daemon = lab.start("west", "tun0", &text);
    assert_eq!(daemon.ended().code(), Some(1), "{}", daemon.log());
    assert!(daemon.log().contains("device tun0: it is no Ethernet device"), "{}", daemon.log());
    // One that is not there is waited for.
    let text = good.replace("\"eth1\"", "\"eth1\", control_socket = \"SOCKET\", state_dir = \"SOCKET.state\"");
    let daemon = lab.daemon("west", "absent", &text);
    assert!(daemon.log().contains("there is no such interface: waiting for it device=\"eth1\""), "{}", daemon.log());
    assert_eq!(daemon.status()["port"]["state"], "absent");
    daemon.stop();
}
