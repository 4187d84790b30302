//! The daemon on Ethernet channels, in the clear and sealed.

use crate::common::*;
use fairspan_live::channel::ethernet::{Codepoint, EthernetConfig, EthernetSocket, Mac, Outgoing};

/// Two hosts on two LANs, and a third station on the first of them.
fn lan() -> Option<Lab> {
    let lab = Lab::new(&["left", "right", "third", "lan"])?;
    lab.ip("lan", &["link", "add", "lan0", "type", "bridge"]);
    lab.ip("lan", &["link", "set", "lan0", "up"]);
    for (host, port) in [("left", "pl"), ("right", "pr"), ("third", "pt")] {
        lab.cable((host, "eth0", ""), ("lan", port, ""));
        lab.ip("lan", &["link", "set", port, "master", "lan0"]);
    }
    lab.cable(("left", "eth1", ""), ("right", "eth1", ""));
    Some(lab)
}

fn config(address: &str, key: &str, public: &str, far: &str, mode: &str, secure: bool) -> String {
    let more = format!("secure = {secure}");
    interface("fs0", &format!("[\"{address}/24\"]"), key, "")
        + &peer("peer", public, &format!("[\"{far}/32\"]"), &format!("mode = \"{mode}\""))
        + &ethernet("one", "eth0", &more)
        + &ethernet("two", "eth1", &more)
}

fn start(lab: &Lab, mode: &str, secure: bool) -> (Daemon, Daemon) {
    let (left, right) = if secure { (keys(), keys()) } else { Default::default() };
    let a = lab.daemon("left", "left", &config("10.77.0.1", &left.0, &right.1, "10.77.0.2", mode, secure));
    let b = lab.daemon("right", "right", &config("10.77.0.2", &right.0, &left.1, "10.77.0.1", mode, secure));
    a.wait_up(2);
    b.wait_up(2);
    (a, b)
}

/// The addresses of a host's device and of the third station, and a socket there that may forge.
fn third(lab: &Lab) -> EthernetSocket {
    lab.run("third", || EthernetSocket::open(EthernetConfig::new("eth0")).expect("opened"))
}

fn mac(lab: &Lab, host: &str) -> Mac {
    let text = lab.ip(host, &["-brief", "link", "show", "eth0"]);
    text.split_whitespace().nth(2).and_then(|mac| mac.parse().ok()).expect("an address")
}

/// An IPv4 packet (UDP, empty) that claims to come from the left host's tunnel address.
fn forged() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
    packet.extend([0x30, 0x39, 0x30, 0x39, 0, 8, 0, 0]);
    let sum: u32 = packet[..20].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn sealed_channels_carry_tcp_and_take_nothing_that_is_not_sealed() {
    let Some(lab) = lan() else { return };
    for mode in ["ordered", "stripe"] {
        let (a, b) = start(&lab, mode, true);
        lab.transfer("left", "right", "10.77.0.2:5001", 20);
        let status = a.status();
        assert_eq!(status["peers"][0]["channels"][0]["kind"], "ethernet");
        let remote = status["peers"][0]["channels"][0]["remote"].as_str().expect("learnt").to_owned();
        assert_eq!(remote, mac(&lab, "right").to_string(), "the session told where the peer is");

        // The right host listens for what a forger would want to get through.
        let victim = lab.udp("right", "10.77.0.2:12345");
        let mut forger = third(&lab);
        let peer = mac(&lab, "right");
        let packet = forged();
        let junk: Vec<u8> = (0..200u8).collect();
        let too_long = [&[0xff, 0xff][..], &[0; 60]].concat();
        let data = [&[0, 60][..], &[4; 60]].concat();
        for _ in 0..10 {
            for (codepoint, bytes) in [
                (Codepoint::Raw, &packet),
                (Codepoint::Envelope, &packet),
                (Codepoint::Envelope, &junk),
                (Codepoint::Envelope, &too_long),
                (Codepoint::Envelope, &data),
            ] {
                forger.send(&[Outgoing { peer, codepoint, head: &[], packet: bytes }]);
            }
        }
        b.wait("the forged frames are counted", |b| b.counter("plain_frame") >= 10);
        b.wait("and the cut ones", |b| b.counter("malformed_frame") >= 10);
        let dropped = |b: &Daemon| -> u64 {
            let status = b.status();
            let all = status["counters"].as_object().expect("counters").iter();
            all.filter(|(name, _)| name.starts_with("secure_dropped_")).filter_map(|(_, n)| n.as_u64()).sum()
        };
        b.wait("what does not open is counted with a reason", |b| dropped(b) >= 10);
        let mut buffer = [0; 64];
        assert!(victim.recv_from(&mut buffer).is_err(), "nothing reached the host");
        lab.transfer("right", "left", "10.77.0.1:5002", 5);
        a.stop();
        b.stop();
    }
}

#[test]
fn a_stranger_on_a_plain_lan_is_counted_and_the_peers_traffic_goes_on() {
    let Some(lab) = lan() else { return };
    let (a, b) = start(&lab, "stripe", false);
    lab.transfer("left", "right", "10.77.0.2:5001", 20);
    let mut forger = third(&lab);
    let peer = mac(&lab, "right");
    for codepoint in [Codepoint::Raw, Codepoint::Envelope] {
        forger.send(&[Outgoing { peer, codepoint, head: &[], packet: &forged() }]);
    }
    b.wait("the stranger is counted", |b| b.counter("unknown_station") >= 2);
    lab.transfer("right", "left", "10.77.0.1:5002", 5);
    a.stop();
    b.stop();
}
