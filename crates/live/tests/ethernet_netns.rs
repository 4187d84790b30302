//! The Ethernet channel between real kernels.

mod support;

use fairspan_live::channel::ethernet::{
    Codepoint, EthernetConfig, EthernetError, EthernetSocket, Mac, Outgoing, Presence, Sent,
};
use std::time::{Duration, Instant};
use support::Lab;

fn open(lab: &Lab, namespace: &str, device: &'static str) -> EthernetSocket {
    lab.run(namespace, move || EthernetSocket::open(EthernetConfig::new(device)).expect("opened"))
}

fn packet(len: usize, number: u32) -> Vec<u8> {
    let mut packet = vec![0u8; len];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet[20..24].copy_from_slice(&number.to_be_bytes());
    packet
}

type Received = (Mac, bool, Codepoint, Vec<u8>);

/// Everything that arrives until `n` frames did, or until nothing came for two seconds.
fn receive(socket: &mut EthernetSocket, n: usize) -> Vec<Received> {
    let mut frames = Vec::new();
    let mut last = Instant::now();
    while frames.len() < n && last.elapsed() < Duration::from_secs(2) {
        let taken = socket.receive(64, |frame| {
            frames.push((frame.source, frame.broadcast, frame.codepoint, frame.bytes.to_vec()));
        });
        if taken == 0 {
            std::thread::sleep(Duration::from_millis(1));
        } else {
            last = Instant::now();
        }
    }
    frames
}

#[test]
fn data_and_envelopes_arrive_whole_and_in_the_order_sent_with_nothing_added() {
    let Some(lab) = Lab::new(&["a", "b"]) else { return };
    lab.veth(("a", "va"), ("b", "vb"));
    let (mut a, mut b) = (open(&lab, "a", "va"), open(&lab, "b", "vb"));
    assert_eq!((a.mtu(), b.mtu()), (1500, 1500));
    let packets: Vec<Vec<u8>> = (0..500).map(|n| packet(24 + (n as usize * 37) % 1477, n)).collect();
    let frames: Vec<Outgoing<'_>> = packets
        .iter()
        .enumerate()
        .map(|(n, packet)| {
            let codepoint = if n % 5 == 0 { Codepoint::Envelope } else { Codepoint::Raw };
            let (head, packet) = if n % 5 == 0 { packet.split_at(n % 21) } else { (&[][..], &packet[..]) };
            Outgoing { peer: b.mac(), codepoint, head, packet }
        })
        .collect();
    assert_eq!(a.send(&frames), Sent::Done);
    let received = receive(&mut b, frames.len());
    assert_eq!(received.len(), frames.len());
    for (n, ((source, broadcast, codepoint, bytes), sent)) in received.iter().zip(&frames).enumerate() {
        assert_eq!((*source, *broadcast, *codepoint), (a.mac(), false, sent.codepoint), "frame {n}");
        assert_eq!(*bytes, [sent.head, sent.packet].concat(), "frame {n}");
    }
    let bytes: u64 = packets.iter().map(|packet| packet.len() as u64).sum();
    assert_eq!((a.stats().sent, a.stats().sent_bytes), (500, bytes));
    assert_eq!((b.stats().received, b.stats().received_bytes), (500, bytes));
    assert!(a.stats().send_calls <= 8, "64 frames a call: {}", a.stats().send_calls);
    let wire = lab.run("b", || std::fs::read_to_string("/proc/thread-self/net/dev").expect("/proc"));
    let line = wire.lines().find(|line| line.trim_start().starts_with("vb:")).expect("the device");
    let on_wire: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("bytes received");
    assert_eq!(on_wire, bytes + 500 * 14, "an Ethernet header each, and nothing else");
}

#[test]
fn several_peers_on_one_lan_are_told_apart_by_their_addresses() {
    let Some(lab) = Lab::new(&["lan", "x", "y", "z"]) else { return };
    lab.ip("lan", &["link", "add", "lan0", "type", "bridge"]);
    lab.ip("lan", &["link", "set", "lan0", "up"]);
    for (host, port) in [("x", "px"), ("y", "py"), ("z", "pz")] {
        lab.veth((host, "eth"), ("lan", port));
        lab.ip("lan", &["link", "set", port, "master", "lan0"]);
    }
    let [mut x, mut y, mut z] = ["x", "y", "z"].map(|host| open(&lab, host, "eth"));
    // Not known yet, so to all: as a control frame goes to a peer whose address is to be learnt.
    let hello = Outgoing { peer: Mac::BROADCAST, codepoint: Codepoint::Envelope, head: b"hello", packet: &[0; 60] };
    let mut heard = Vec::new();
    for _ in 0..50 {
        assert_eq!(x.send(&[hello]), Sent::Done);
        heard = receive(&mut y, 1);
        if !heard.is_empty() {
            break;
        }
    }
    let (source, broadcast, ..) = heard.first().expect("the bridge's ports forward soon").clone();
    assert_eq!((source, broadcast), (x.mac(), true));
    receive(&mut z, 100);
    receive(&mut x, 100);

    let data = packet(600, 9);
    for (from, to) in [(&mut y, x.mac()), (&mut z, x.mac())] {
        let frame = Outgoing { peer: to, codepoint: Codepoint::Raw, head: &[], packet: &data };
        assert_eq!(from.send(&[frame]), Sent::Done);
    }
    let mut sources: Vec<Mac> = receive(&mut x, 2).iter().map(|frame| frame.0).collect();
    sources.sort_unstable();
    let mut expected = [y.mac(), z.mac()];
    expected.sort_unstable();
    assert_eq!(sources, expected);
}

#[test]
fn a_frame_above_the_mtu_is_counted_and_the_others_are_sent() {
    let Some(lab) = Lab::new(&["a", "b"]) else { return };
    lab.veth(("a", "va"), ("b", "vb"));
    let (mut a, mut b) = (open(&lab, "a", "va"), open(&lab, "b", "vb"));
    let packets = [packet(1500, 0), packet(1600, 1), packet(100, 2)];
    let peer = b.mac();
    let frames = packets.each_ref().map(|packet| Outgoing { peer, codepoint: Codepoint::Raw, head: &[], packet });
    assert_eq!(a.send(&frames), Sent::Done);
    let lengths: Vec<usize> = receive(&mut b, 2).iter().map(|frame| frame.3.len()).collect();
    assert_eq!(lengths, [1500, 100]);
    assert_eq!((a.stats().sent, a.stats().too_big), (2, 1));
}

#[test]
fn a_device_that_goes_down_or_vanishes_and_comes_back_is_used_again() {
    let Some(lab) = Lab::new(&["a", "b"]) else { return };
    lab.veth(("a", "va"), ("b", "vb"));
    let mut a = open(&lab, "a", "va");
    let data = packet(100, 0);
    let to = |peer| Outgoing { peer, codepoint: Codepoint::Raw, head: &[], packet: &data };
    let peer = open(&lab, "b", "vb").mac();
    assert_eq!(a.check().expect("checked"), Presence::Present);

    lab.ip("a", &["link", "set", "va", "down"]);
    assert_eq!(a.send(&[to(peer); 3]), Sent::Down(0));
    assert_eq!(a.stats().down, 3);
    assert_eq!(a.check().expect("checked"), Presence::Down);
    lab.ip("a", &["link", "set", "va", "up"]);
    let mut b = open(&lab, "b", "vb");
    // The kernel reports the carrier a moment later.
    let deadline = Instant::now() + Duration::from_secs(30);
    while a.check().expect("checked") == Presence::Down && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(a.check().expect("checked"), Presence::Present);
    assert_eq!(a.send(&[to(peer)]), Sent::Done);
    assert_eq!(receive(&mut b, 1).len(), 1);

    lab.ip("a", &["link", "del", "va"]);
    assert_eq!(a.send(&[to(peer)]), Sent::Down(0));
    // The socket opens anew in the namespace of the thread that asks, as a daemon's thread stays in its own.
    let mut a = lab.run("a", move || {
        assert_eq!(a.check().expect("checked"), Presence::Absent);
        a
    });
    lab.veth(("a", "va"), ("b", "vb"));
    let mut a = lab.run("a", move || {
        assert_eq!(a.check().expect("checked"), Presence::Reopened);
        a
    });
    let mut b = open(&lab, "b", "vb");
    assert_eq!(a.send(&[to(b.mac())]), Sent::Done);
    let received = receive(&mut b, 1);
    assert_eq!(received.first().map(|frame| frame.0), Some(a.mac()), "with the new device's own address");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let Some(lab) = Lab::new(&["a"]) else { return };
    let open = |config: EthernetConfig| lab.run("a", move || EthernetSocket::open(config).expect_err("must not open"));
    assert!(matches!(open(EthernetConfig::new("nothing")), EthernetError::NoDevice { .. }));
    assert!(matches!(open(EthernetConfig::new("a-name-far-too-long")), EthernetError::Name { .. }));
    let mut same = EthernetConfig::new("lo");
    same.envelope = same.data;
    assert!(matches!(open(same), EthernetError::EtherTypes { .. }));
}
