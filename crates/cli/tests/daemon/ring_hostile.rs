//! A ring on Ethernet in the clear, where everybody on a link may send what it likes: counted by reason, and nothing breaks.

use crate::common::*;
use fairspan_live::channel::ethernet::{Codepoint, EthernetConfig, EthernetSocket, Mac, Outgoing};

/// Three hosts in a ring: link n leads from `east` of host n to `west` of the next.
fn three() -> Option<(Lab, Vec<Daemon>)> {
    let lab = Lab::new(&["n1", "n2", "n3"])?;
    for n in 1..=3 {
        lab.cable((&format!("n{n}"), "east", ""), (&format!("n{}", n % 3 + 1), "west", ""));
    }
    let start = |n: usize| {
        let address = format!("[\"10.8.0.{n}/24\", \"fd00:8::{n}/64\"]");
        let sides = ["east", "west"].map(|side| format!("[ring.{side}]\nkind = \"ethernet\"\ndevice = \"{side}\"\n"));
        let ring = format!("[ring]\nnode = {n}\nnodes = 3\nrate = \"100Mbit\"\nsilence = \"2s\"\n");
        lab.daemon(
            &format!("n{n}"),
            &format!("n{n}"),
            &(interface("ring0", &address, "", "") + &ring + &sides.concat()),
        )
    };
    let all: Vec<Daemon> = (1..=3).map(start).collect();
    for daemon in &all {
        daemon.wait("a whole ring", is_whole);
    }
    Some((lab, all))
}

fn is_whole(daemon: &Daemon) -> bool {
    let status = daemon.status();
    let stations = status["ring"]["stations"].as_array().expect("stations");
    status["ring"]["whole"] == true && stations.iter().all(|s| !s["networks"].as_array().expect("networks").is_empty())
}

fn ring_counter(daemon: &Daemon, name: &str) -> u64 {
    daemon.status()["ring"]["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
}

/// An IPv4 packet with a UDP datagram for port 7000.
fn packet(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0];
    packet.extend(from);
    packet.extend(to);
    let sum = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend([0x1e, 0x61, 0x1b, 0x58, 0, 12, 0, 0]);
    packet.extend(b"evil");
    packet
}

/// A data frame on ringlet 0, of class C.
fn data(ingress: u8, egress: u8, packet: &[u8]) -> Vec<u8> {
    [&[0x11, 0x0c, 2, ingress, egress, 0], packet].concat()
}

fn send(forger: &mut EthernetSocket, peer: Mac, frame: &[u8]) {
    let length = (frame.len() as u16).to_be_bytes();
    forger.send(&[Outgoing { peer, codepoint: Codepoint::Envelope, head: &length, packet: frame }]);
}

#[test]
fn what_a_forger_sends_with_the_neighbours_own_address_is_counted_by_reason_and_the_ring_goes_on() {
    let Some((lab, all)) = three() else { return };
    let victim = lab.udp("n2", "10.8.0.2:7000");
    let text = lab.ip("n2", &["-brief", "link", "show", "west"]);
    let peer: Mac = text.split_whitespace().nth(2).and_then(|mac| mac.parse().ok()).expect("an address");
    let mut forger = lab.run("n1", || EthernetSocket::open(EthernetConfig::new("east")).expect("opened"));
    let node_2 = [10, 8, 0, 2];
    for (frame, ring, counter, why) in [
        (data(1, 2, &packet([10, 8, 0, 3], node_2)), false, "spoofed_source", "node 3's address from node 1"),
        (data(3, 2, &packet([10, 8, 0, 1], node_2)), false, "spoofed_source", "node 1's address from node 3"),
        (data(1, 2, &packet(node_2, node_2)), false, "spoofed_source", "the host's own address"),
        (data(1, 2, &packet([192, 0, 2, 1], node_2)), false, "spoofed_source", "nobody's"),
        (data(1, 2, b"what is this"), false, "ring_not_ip", "no IP packet"),
        (data(1, 2, b""), false, "ring_not_ip", "no packet"),
        (data(0, 2, &packet([10, 8, 0, 1], node_2)), true, "malformed", "no node has the number 0"),
        (data(4, 2, &packet([10, 8, 0, 1], node_2)), true, "foreign", "a fourth node of three"),
        (data(2, 2, &packet(node_2, node_2)), true, "foreign", "from a node to itself"),
        (data(2, 3, &packet(node_2, [10, 8, 0, 3])), true, "own", "the node's own frame"),
        (vec![0x11, 0x0d, 2, 1, 2, 0, 0x45], true, "wrong_side", "ringlet 1 comes from the east"),
        (vec![0x12; 23], true, "refused_malformed", "control with a wrong checksum"),
        (vec![0x13, 1], true, "refused_malformed", "control that is too short"),
        (vec![], true, "refused_malformed", "nothing"),
    ] {
        let count = |d: &Daemon| if ring { ring_counter(d, counter) } else { d.counter(counter) };
        let before = count(&all[1]);
        (0..50).for_each(|_| send(&mut forger, peer, &frame));
        all[1].wait(why, |d| count(d) == before + 50);
    }
    let refused: u64 = {
        let status = all[1].status();
        let counters = status["ring"]["counters"].as_object().expect("counters").clone();
        let reason = |name: &str| name.starts_with("refused_") || name.starts_with("fairness_");
        counters.iter().filter(|(name, _)| reason(name)).filter_map(|(_, n)| n.as_u64()).sum()
    };
    assert!(refused >= 150 && refused <= ring_counter(&all[1], "control_refused"), "each has a reason");
    let lines = all[1].log().matches("refused").count();
    assert!(lines < 20, "the log tells of a flood a few times, not {lines}");
    let mut buffer = [0; 64];
    victim.set_nonblocking(true).expect("set");
    assert!(victim.recv_from(&mut buffer).is_err(), "nothing reached the host");
    lab.transfer("n1", "n2", "10.8.0.2:5001", 2);
    lab.transfer("n3", "n1", "[fd00:8::1]:5001", 2);
    assert!(all.iter().all(|daemon| ring_counter(daemon, "transit_full") == 0));
    all.into_iter().for_each(Daemon::stop);
}

#[test]
fn a_neighbour_that_comes_back_with_another_address_is_taken() {
    let Some((lab, all)) = three() else { return };
    lab.ip("n1", &["link", "set", "east", "down"]);
    all[1].wait("the link fails", |d| d.status()["ring"]["links"][1]["state"] != "up");
    lab.ip("n1", &["link", "set", "east", "address", "02:00:00:00:00:77"]);
    lab.ip("n1", &["link", "set", "east", "up"]);
    for daemon in &all {
        daemon.wait("a whole ring", is_whole);
    }
    assert_eq!(all[1].status()["ring"]["links"][1]["remote"], "02:00:00:00:00:77");
    all.into_iter().for_each(Daemon::stop);
}

#[test]
fn a_link_that_leaves_less_is_told_to_all_and_ipv6_comes_back_with_its_mtu() {
    let Some((lab, all)) = three() else { return };
    let mtu_everywhere = |mtu: u64| {
        for daemon in &all {
            daemon.wait("the MTU", |daemon| daemon.status()["mtu"] == mtu);
        }
    };
    mtu_everywhere(1492);
    // What a host's link does not take no host sends, not even across another's: below 1280 the kernel ends IPv6.
    lab.ip("n2", &["link", "set", "east", "mtu", "1200"]);
    mtu_everywhere(1192);
    assert!(!lab.ip("n3", &["-6", "address", "show", "dev", "ring0"]).contains("fd00:8::3"));
    lab.transfer("n1", "n3", "10.8.0.3:5001", 1);
    lab.ip("n2", &["link", "set", "east", "mtu", "1500"]);
    mtu_everywhere(1492);
    lab.transfer("n1", "n3", "[fd00:8::3]:5001", 1);
    all.into_iter().for_each(Daemon::stop);
}
