//! The emulator between real kernels: two hosts, each in a namespace, joined by it.
//!
//! ```text
//!  a: va -- pa [emulator in e] pb -- vb :b
//! ```

mod support;

use fairspan_core::units::{Rate, Span};
use fairspan_live::channel::ethernet::{Codepoint, EthernetConfig, EthernetSocket, Outgoing, Sent};
use fairspan_live::emulate::{
    EmulateError, Emulator, Link, Loss, Options, Outage, PortError, Profile, Summary, switch_offloads_off,
};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use support::Lab;

/// Longest that one end waits for the other.
const PATIENCE: Duration = Duration::from_secs(60);

fn lab() -> Option<Lab> {
    let lab = Lab::new(&["a", "e", "b"])?;
    lab.veth(("a", "va"), ("e", "pa"));
    lab.veth(("e", "pb"), ("b", "vb"));
    lab.ip("a", &["addr", "add", "10.9.0.1/24", "dev", "va"]);
    lab.ip("b", &["addr", "add", "10.9.0.2/24", "dev", "vb"]);
    Some(lab)
}

fn hosts_offloads_off(lab: &Lab) {
    for port in [lab.port("a", "va"), lab.port("b", "vb")] {
        switch_offloads_off(&port.parse().expect("a port")).expect("switched off");
    }
}

fn start(lab: &Lab, forward: Profile, backward: Profile) -> Emulator {
    let [a, b] = [lab.port("e", "pa"), lab.port("e", "pb")].map(|port| port.parse().expect("a port"));
    let link = Link { name: "link".into(), a, b, forward, backward };
    Emulator::start(vec![link], Options::default()).expect("started")
}

/// The byte at a place of the test stream.
fn pattern(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

/// Sends `bytes` over TCP from a to b, checks every one of them, and gives the time from the start to the last.
fn tcp(lab: &Lab, bytes: usize) -> Duration {
    let (ready, listening) = std::sync::mpsc::channel();
    let receiver = lab.inside("b", move || {
        let listener = TcpListener::bind("10.9.0.2:7000").expect("bound");
        ready.send(()).expect("the test waits");
        SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).expect("set");
        let (mut stream, _) = listener.accept().expect("accepted");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let (mut buffer, mut at) = (vec![0u8; 1 << 16], 0);
        loop {
            let n = stream.read(&mut buffer).expect("read");
            if n == 0 {
                break;
            }
            for (offset, byte) in buffer[..n].iter().enumerate() {
                assert_eq!(*byte, pattern(at + offset), "byte {}", at + offset);
            }
            at += n;
        }
        assert_eq!(at, bytes);
    });
    listening.recv_timeout(PATIENCE).expect("listening");
    let start = Instant::now();
    lab.run("a", move || {
        let target = "10.9.0.2:7000".parse().expect("an address");
        let mut stream = TcpStream::connect_timeout(&target, PATIENCE).expect("connected");
        stream.set_write_timeout(Some(PATIENCE)).expect("set");
        let data: Vec<u8> = (0..bytes).map(pattern).collect();
        stream.write_all(&data).expect("sent");
    });
    receiver.join().expect("received");
    start.elapsed()
}

/// Sends `n` raw frames from a to b straight through the packet sockets; how many b's socket took and refused when the emulator
/// has dealt with all of them.
fn frames(lab: &Lab, emulator: &Emulator, n: u64, send_type: u16, packet: Vec<u8>) -> (u64, u64) {
    let forward = || emulator.stats().links.swap_remove(0).forward;
    let before = forward();
    let mut receiver = lab.run("b", || EthernetSocket::open(EthernetConfig::new("vb")).expect("opened"));
    let peer = receiver.mac();
    lab.run("a", move || {
        let mut config = EthernetConfig::new("va");
        config.data = send_type;
        let mut socket = EthernetSocket::open(config).expect("opened");
        for _ in 0..n {
            let frame = Outgoing { peer, codepoint: Codepoint::Raw, head: &[], packet: &packet };
            assert_eq!(socket.send(&[frame]), Sent::Done);
        }
    });
    let end = Instant::now() + PATIENCE;
    loop {
        receiver.receive(usize::MAX, |_| {});
        let (now, took) = (forward(), (receiver.stats().received, receiver.stats().malformed));
        let passed = now.sent_frames - before.sent_frames;
        if passed + now.drops.total() - before.drops.total() >= n && took.0 + took.1 >= passed {
            return took;
        }
        assert!(Instant::now() < end, "{n} frames, {took:?} arrived: {now:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn packet(len: u16) -> Vec<u8> {
    let mut packet = vec![0u8; usize::from(len)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}

/// Ends it when nothing has been under way for a while: frames that it holds then would be in no counter.
fn settled(emulator: Emulator) -> Summary {
    let carried = |emulator: &Emulator| {
        let link = &emulator.stats().links[0];
        [&link.forward, &link.backward].map(|direction| (direction.received_frames, direction.sent_frames))
    };
    let mut before = carried(&emulator);
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = carried(&emulator);
        if now == before {
            return emulator.stop();
        }
        before = now;
    }
}

fn is_consistent(summary: &Summary) {
    for direction in [&summary.links[0].forward, &summary.links[0].backward] {
        let drops = &direction.drops;
        let decided = drops.loss + drops.queue + drops.outage + drops.memory + drops.too_long + drops.refused;
        assert_eq!(direction.received_frames, direction.sent_frames + decided, "{direction:?}");
        assert_eq!((drops.ring, drops.memory, drops.too_long, drops.refused), (0, 0, 0, 0));
        assert_eq!(direction.lateness.frames, direction.sent_frames);
    }
}

#[test]
fn tcp_passes_whole_at_no_more_than_the_rate_with_the_hosts_offloads_off() {
    let Some(lab) = lab() else { return };
    hosts_offloads_off(&lab);
    let profile = Profile::new(Rate::from_mbit(100), Span::from_millis(5));
    let emulator = start(&lab, profile.clone(), profile);
    assert_eq!(emulator.warnings(), &[] as &[String]);
    let took = tcp(&lab, 4_000_000);
    // 1448 bytes of each 1514-byte frame are TCP's payload: 0.335 s, less what a group of frames may be early.
    assert!(took.as_secs_f64() > 0.29, "{took:?}");
    let summary = settled(emulator);
    is_consistent(&summary);
    assert_eq!(summary.links[0].forward.oversize, 0);
    // A checksum that was damaged on the way would count here.
    let snmp = lab.run("b", || std::fs::read_to_string("/proc/thread-self/net/snmp").expect("/proc"));
    let tcp: Vec<&str> = snmp.lines().filter(|line| line.starts_with("Tcp:")).collect();
    assert_eq!(tcp[1].split_whitespace().last(), Some("0"), "checksum errors: {tcp:?}");
}

#[test]
fn tcp_passes_whole_and_no_faster_even_with_the_hosts_offloads_on() {
    let Some(lab) = lab() else { return };
    let profile = Profile::new(Rate::from_mbit(100), Span::from_millis(5));
    let emulator = start(&lab, profile.clone(), profile);
    let took = tcp(&lab, 4_000_000);
    assert!(
        took.as_secs_f64() > 0.25,
        "oversize frames take the time of their segments, the first 64 kB aside: {took:?}"
    );
    let summary = settled(emulator);
    is_consistent(&summary);
    assert!(summary.links[0].forward.oversize > 0, "{:?}", summary.links[0].forward);
}

#[test]
fn a_vlan_tag_survives() {
    let Some(lab) = lab() else { return };
    let emulator = start(&lab, Profile::default(), Profile::default());
    // Without a tag the receiver takes such a frame; with one it is of another LAN.
    assert_eq!(frames(&lab, &emulator, 10, 0x88b5, packet(100)), (10, 0));
    let tagged = [&[0, 7, 0x88, 0xb5][..], &packet(100)].concat();
    assert_eq!(frames(&lab, &emulator, 10, 0x8100, tagged), (0, 10));
    is_consistent(&emulator.stop());
}

#[test]
fn each_direction_has_its_own_loss_and_outage_and_every_frame_is_accounted_for() {
    let Some(lab) = lab() else { return };
    let (mut lossy, mut broken) = (Profile::default(), Profile::default());
    lossy.loss = Loss::Independent(0.5);
    broken.outages = vec![Outage { start: Span::ZERO, length: Span::from_secs(3600), every: None }];
    let emulator = start(&lab, lossy, broken);
    let (received, _) = frames(&lab, &emulator, 2000, 0x88b5, packet(1500));
    // Binomial(2000, 1/2): six standard deviations are 134.
    assert!((866..=1134).contains(&received), "{received}");
    // What b sends meets the outage.
    let mac = lab.run("a", || EthernetSocket::open(EthernetConfig::new("va")).expect("opened").mac());
    lab.run("b", move || {
        let mut socket = EthernetSocket::open(EthernetConfig::new("vb")).expect("opened");
        let frame = Outgoing { peer: mac, codepoint: Codepoint::Envelope, head: &[1], packet: &[2] };
        assert_eq!(socket.send(&[frame; 20]), Sent::Done);
    });
    let summary = settled(emulator);
    is_consistent(&summary);
    let link = &summary.links[0];
    assert_eq!(link.forward.sent_frames, received);
    assert_eq!((link.backward.sent_frames, link.backward.drops.outage), (0, 20));
}

#[test]
fn the_ports_features_are_put_back() {
    let Some(lab) = lab() else { return };
    let features = |lab: &Lab| {
        let name = lab.name("e");
        let output = std::process::Command::new("ip").args(["netns", "exec", &name, "ethtool", "-k", "pa"]).output();
        output.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
    };
    let Some(before) = features(&lab) else {
        println!("skipped: needs ethtool");
        return;
    };
    assert!(before.contains("tcp-segmentation-offload: on"), "{before}");
    let emulator = start(&lab, Profile::default(), Profile::default());
    let during = features(&lab).expect("as before");
    assert!(during.contains("tcp-segmentation-offload: off"), "{during}");
    assert!(during.contains("tx-udp-segmentation: off"), "{during}");
    drop(emulator);
    assert_eq!(features(&lab).expect("as before"), before);
}

#[test]
fn a_port_that_goes_down_and_up_carries_on_and_one_that_vanishes_ends_the_link() {
    let Some(lab) = lab() else { return };
    let emulator = start(&lab, Profile::default(), Profile::default());
    lab.ip("e", &["link", "set", "pb", "down"]);
    assert_eq!(frames(&lab, &emulator, 5, 0x88b5, packet(100)).0, 0);
    lab.ip("e", &["link", "set", "pb", "up"]);
    assert_eq!(frames(&lab, &emulator, 5, 0x88b5, packet(100)).0, 5);
    assert!(emulator.is_running());
    lab.ip("e", &["link", "del", "pa"]);
    let deadline = Instant::now() + PATIENCE;
    while emulator.is_running() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!emulator.is_running());
    assert_eq!(emulator.stop().links[0].forward.drops.port_down, 5);
}

#[test]
fn what_cannot_start_says_why() {
    let Some(lab) = lab() else { return };
    let try_with = |a: String, b: String| {
        let link = Link::new("x", a.parse().expect("a port"), b.parse().expect("a port"), Profile::default());
        Emulator::start(vec![link], Options::default()).expect_err("must not start")
    };
    let port = |error| match error {
        EmulateError::Port { error, .. } => error,
        other => panic!("{other:?}"),
    };
    let good = || lab.port("e", "pa");
    assert!(matches!(port(try_with(good(), lab.port("e", "nothing"))), PortError::NoDevice { .. }));
    assert!(matches!(port(try_with(good(), "no-such-space:pa".into())), PortError::NoNamespace { .. }));
    assert!(matches!(try_with(good(), good()), EmulateError::PortTwice { .. }));
    assert!(matches!(Emulator::start(Vec::new(), Options::default()), Err(EmulateError::NoLink)));
    // Nothing was left behind: the good port can be used.
    drop(start(&lab, Profile::default(), Profile::default()));
}
