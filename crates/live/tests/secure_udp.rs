//! The UDP socket against the real kernel: loopback for everyone, a namespace of its own for root.

mod privilege;

use fairspan_core::bond::Handling;
use fairspan_core::units::{ChannelId, Time};
use fairspan_live::channel::udp::*;
use fairspan_live::icmp::Unreachable;
use fairspan_live::secure::*;
use privilege::may_make_namespaces;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

fn open(bind: &str) -> UdpSocket {
    UdpSocket::open(UdpConfig::new(bind.parse().unwrap())).unwrap()
}

/// Addresses of the loopback interface, of both versions where this machine has both.
fn loopback() -> Vec<&'static str> {
    let mut addresses = vec!["127.0.0.1:0", "[::1]:0"];
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: needs IPv6 on the loopback interface");
        addresses.pop();
    }
    addresses
}

fn to(socket: &UdpSocket, tos: u8) -> Destination {
    Destination { address: socket.local_addr(), source: None, tos, handling: Handling::Usual }
}

fn fill(batch: &mut Batch, to: Destination, bytes: &[u8]) -> bool {
    let Some(room) = batch.room(to, bytes.len()) else { return false };
    room.copy_from_slice(bytes);
    batch.commit(bytes.len());
    true
}

/// Receives until `count` datagrams came, or half a minute passed.
fn receive(socket: &mut UdpSocket, count: usize) -> Vec<(SocketAddr, u8, Vec<u8>)> {
    let mut batch = ReceiveBatch::new();
    let mut all = Vec::new();
    let end = Instant::now() + Duration::from_secs(30);
    while all.len() < count && Instant::now() < end {
        let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&wait)).unwrap();
        if let Receive::Messages(_) = socket.receive(&mut batch) {
            assert_eq!(batch.is_single(), batch.datagrams().count() == 1);
            all.extend(batch.datagrams().map(|datagram| (datagram.source, datagram.ecn, datagram.bytes.to_vec())));
        }
    }
    all
}

#[test]
fn a_batch_arrives_whole_in_order_and_with_its_ecn_bits_over_ipv4_and_ipv6() {
    for bind in loopback() {
        let (mut sender, mut receiver) = (open(bind), open(bind));
        let mut batch = Batch::new();
        let destination = to(&receiver, 0b1011_1001);
        let mut expected = Vec::new();
        for number in 0..45u8 {
            let bytes = vec![number; if number == 44 { 100 } else { 1400 }];
            assert!(fill(&mut batch, destination, &bytes));
            expected.push((sender.local_addr(), 1, bytes));
        }
        assert_eq!(sender.send(&mut batch), Sent::Done);
        assert!(batch.is_empty());
        let stats = *sender.stats();
        assert_eq!((stats.sent, stats.send_calls, stats.sent_bytes), (45, 1, 44 * 1400 + 100), "one call for all");
        // Compared without printing 60 kB when it fails.
        let arrived = receive(&mut receiver, 45);
        let summary = |all: &[(SocketAddr, u8, Vec<u8>)]| -> Vec<(SocketAddr, u8, u8, usize)> {
            all.iter().map(|(source, ecn, bytes)| (*source, *ecn, bytes[0], bytes.len())).collect()
        };
        assert_eq!(summary(&arrived), summary(&expected));
        assert!(arrived == expected, "the bytes differ");
        assert!(receiver.stats().received < 45, "coalesced: {:?}", receiver.stats());
        assert_eq!(receiver.receive(&mut ReceiveBatch::new()), Receive::Empty);
    }
}

#[test]
fn several_batches_leave_by_one_call_in_order_each_with_its_size_and_class() {
    for bind in loopback() {
        let (mut sender, mut receiver) = (open(bind), open(bind));
        let mut batches = Vec::new();
        let mut expected = Vec::new();
        for number in 0..20u8 {
            let mut batch = Batch::new();
            for len in [1000 + usize::from(number), 30] {
                let bytes = vec![number; len];
                assert!(fill(&mut batch, to(&receiver, number % 2 * 2), &bytes));
                expected.push((sender.local_addr(), number % 2 * 2, bytes));
            }
            batches.push(batch);
        }
        // As many as one call takes.
        assert_eq!(sender.send_several(&mut batches), 16);
        let stats = *sender.stats();
        assert_eq!((stats.sent, stats.send_calls, stats.sent_bytes), (32, 1, 16 * 1030 + 120));
        assert!(batches[..16].iter().all(Batch::is_empty) && !batches[16].is_empty());
        assert_eq!(sender.send_several(&mut batches[16..]), 4);
        assert!(receive(&mut receiver, 40) == expected);
    }
}

#[test]
fn several_batches_end_with_one_that_must_leave_alone_or_does_not_leave_and_lose_none() {
    let (mut sender, mut receiver) = (open("127.0.0.1:0"), open("127.0.0.1:0"));
    let batch = |destination: Destination, bytes: &[u8]| {
        let mut batch = Batch::new();
        assert!(fill(&mut batch, destination, bytes));
        batch
    };
    let usual = to(&receiver, 0);
    let alone = Destination { handling: Handling::Alone, ..usual };
    // The kernel sends nothing to port 0.
    let refused = Destination { address: "127.0.0.1:0".parse().unwrap(), ..usual };
    for odd in [alone, refused] {
        let mut batches = [batch(usual, b"one"), batch(usual, b"two"), batch(odd, b"odd"), batch(usual, b"three")];
        assert_eq!(sender.send_several(&mut batches), 2);
        assert!(batches[0].is_empty() && batches[1].is_empty() && batches[2].len() == 3 && batches[3].len() == 5);
        // What is first or for itself is for `send`.
        assert_eq!((sender.send_several(&mut batches[2..]), sender.send_several(&mut batches[3..])), (0, 0));
        assert_eq!(sender.send(&mut batches[2]), if odd == alone { Sent::Done } else { Sent::Down });
        assert_eq!(sender.send(&mut batches[3]), Sent::Done);
        let arrived = receive(&mut receiver, if odd == alone { 4 } else { 3 });
        let arrived: Vec<_> =
            arrived.iter().map(|(_, _, bytes)| bytes.as_slice()).filter(|bytes| *bytes != b"odd").collect();
        assert_eq!(arrived, [&b"one"[..], b"two", b"three"]);
    }
}

#[test]
fn without_segmentation_the_same_batch_arrives_one_by_one() {
    let mut config = UdpConfig::new("127.0.0.1:0".parse().unwrap());
    config.segmentation = false;
    let mut sender = UdpSocket::open(config).unwrap();
    let mut receiver = open("127.0.0.1:0");
    let mut batch = Batch::new();
    for number in 0..30u8 {
        assert!(fill(&mut batch, to(&receiver, 0), &[number; 900]));
    }
    assert_eq!(sender.send(&mut batch), Sent::Done);
    assert_eq!(sender.stats().send_calls, 30);
    let arrived = receive(&mut receiver, 30);
    assert!(arrived.iter().enumerate().all(|(number, (_, _, bytes))| *bytes == [number as u8; 900]));
    assert_eq!(arrived.len(), 30);
}

#[test]
fn the_whole_traffic_class_and_df_are_on_the_wire_and_the_source_is_the_one_asked_for() {
    use std::io::Read;
    if !may_make_namespaces() {
        return;
    }
    for bind in loopback() {
        let receiver = open(bind);
        let mut sender = open(bind);
        let v4 = receiver.local_addr().is_ipv4();
        let protocol = if v4 { libc::ETH_P_IP } else { libc::ETH_P_IPV6 } as u16;
        let mut wire = socket2::Socket::new(
            socket2::Domain::PACKET,
            socket2::Type::DGRAM,
            Some(socket2::Protocol::from(i32::from(protocol.to_be()))),
        )
        .unwrap();
        wire.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let source = if v4 { "127.0.0.9".parse().unwrap() } else { sender.local_addr().ip() };
        // A socket bound to one address may send from another of this host where it is told so.
        let destination =
            Destination { address: receiver.local_addr(), source: Some(source), tos: 0xb9, handling: Handling::Usual };
        assert_eq!(sender.send_one(destination, b"x"), Sent::Done);
        let port = receiver.local_addr().port().to_be_bytes();
        let mut packet = [0; 2048];
        loop {
            let len = wire.read(&mut packet).expect("the packet is seen on the loopback interface");
            let (header, udp) = if v4 { (20, 17 == packet[9]) } else { (40, 17 == packet[6]) };
            if !udp || len < header + 8 || packet[header + 2..header + 4] != port {
                continue;
            }
            if v4 {
                assert_eq!(packet[1], 0xb9);
                assert_eq!(packet[6] & 0x40, 0x40, "DF");
                assert_eq!(packet[12..16], [127, 0, 0, 9]);
            } else {
                assert_eq!([packet[0] & 0x0f, packet[1] & 0xf0], [0x0b, 0x90]);
            }
            break;
        }
    }
}

#[test]
fn a_setting_that_the_kernel_refuses_is_named() {
    let mut config = UdpConfig::new("127.0.0.1:0".parse().unwrap());
    config.device = Some("no-such-link".into());
    let error = UdpSocket::open(config).unwrap_err();
    assert_eq!((error.setting, error.errno), ("device", libc::ENODEV));
    assert_eq!(error.to_string(), "UDP socket: device no-such-link: No such device (os error 19)");
    let error = UdpSocket::open(UdpConfig::new("192.0.2.77:0".parse().unwrap())).unwrap_err();
    assert_eq!((error.setting, error.errno), ("address", libc::EADDRNOTAVAIL));
}

#[test]
fn nobody_listening_is_no_error() {
    let mut sender = open("127.0.0.1:0");
    let gone = open("127.0.0.1:0").local_addr();
    for _ in 0..10 {
        let destination = Destination { address: gone, source: None, tos: 0, handling: Handling::Usual };
        assert_eq!(sender.send_one(destination, b"x"), Sent::Done);
        assert_eq!(sender.receive(&mut ReceiveBatch::new()), Receive::Empty);
    }
}

#[test]
fn two_session_layers_talk_through_real_sockets_in_batches() {
    for bind in loopback() {
        let mut sockets = [open(bind), open(bind)];
        let keys = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let now = Time::from_millis(1);
        let mut ends = [0, 1].map(|end: usize| {
            let mut sessions = Sessions::new(
                Config::default(),
                keys[end].clone(),
                Box::new(OsEntropy::new()),
                Past::forgotten(0),
                now,
            )
            .unwrap();
            let peer = sessions.add_peer(PeerConfig::new(keys[1 - end].public_key())).unwrap();
            (sessions, peer)
        });
        let peer = ends[0].1;
        let path = ends[0].0.connect(now, peer, ChannelId(0), SocketId(0), sockets[1].local_addr(), vec![]).unwrap();
        let mut received = ReceiveBatch::new();
        let mut delivered: Vec<u32> = Vec::new();
        let mut out = vec![0; 65_536];
        let mut sent = 0u32;
        let end = Instant::now() + Duration::from_secs(60);
        while delivered.len() < 5000 {
            assert!(Instant::now() < end, "{} of 5000", delivered.len());
            if ends[0].0.can_seal(path) && sent < 5000 && sent < delivered.len() as u32 + 500 {
                let mut batch = Batch::new();
                let destination = Destination {
                    address: ends[0].0.endpoint(path).unwrap().address,
                    source: None,
                    tos: 0,
                    handling: Handling::Usual,
                };
                while let Some(room) = batch.room(destination, 1400 + OVERHEAD) {
                    let len = ends[0].0.seal(now, path, 0, &sent.to_be_bytes(), &[7; 1396], room).unwrap();
                    batch.commit(len);
                    sent += 1;
                }
                assert_eq!(sockets[0].send(&mut batch), Sent::Done);
            }
            for side in [0, 1] {
                let sessions = &mut ends[side].0;
                while let Some(control) = sessions.poll_transmit() {
                    let destination =
                        Destination { address: control.destination, source: None, tos: 0, handling: Handling::Usual };
                    assert_eq!(sockets[side].send_one(destination, &control.payload), Sent::Done);
                }
                if let Receive::Messages(_) = sockets[side].receive(&mut received) {
                    for datagram in received.datagrams() {
                        match sessions.handle_datagram(now, SocketId(0), datagram.source, datagram.bytes, &mut out) {
                            Received::Data(data) => {
                                assert_eq!((side, data.len), (1, 1400));
                                assert_eq!(out[4..1400], [7; 1396]);
                                delivered.push(u32::from_be_bytes(out[..4].try_into().unwrap()));
                            }
                            Received::Control | Received::Queued => {}
                            Received::Dropped(reason) => panic!("{reason:?}"),
                        }
                    }
                }
            }
        }
        assert!(delivered.iter().enumerate().all(|(place, number)| place as u32 == *number));
    }
}

/// A namespace, entered by the current thread, gone when dropped.
struct Namespace(String);

impl Namespace {
    fn enter(name: &str) -> Namespace {
        use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
        let name = format!("fs-{}-{name}", std::process::id());
        run("ip", &["netns", "add", &name]);
        let namespace = Namespace(name);
        let file = std::fs::File::open(format!("/run/netns/{}", namespace.0)).unwrap();
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network)).unwrap();
        run("ip", &["link", "set", "lo", "up"]);
        namespace
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn link(mtu: &str) {
    run("ip", &["link", "add", "fs0", "mtu", mtu, "type", "veth", "peer", "name", "fs1", "mtu", mtu]);
    run("ip", &["address", "add", "192.0.2.1/24", "dev", "fs0"]);
    run("ip", &["neighbour", "add", "192.0.2.2", "lladdr", "02:00:00:00:00:02", "dev", "fs0"]);
    run("ip", &["link", "set", "fs0", "up"]);
    run("ip", &["link", "set", "fs1", "up"]);
}

#[test]
fn what_is_above_the_mtu_is_reported_and_the_rest_still_goes_as_one_call() {
    if !may_make_namespaces() {
        return;
    }
    let _namespace = Namespace::enter("mtu");
    link("1500");
    let mut config = UdpConfig::new("0.0.0.0:0".parse().unwrap());
    config.device = Some("fs0".into());
    config.mark = Some(7);
    let mut socket = UdpSocket::open(config).unwrap();
    let destination =
        Destination { address: "192.0.2.2:9".parse().unwrap(), source: None, tos: 0, handling: Handling::Usual };
    assert_eq!(socket.send_one(destination, &[0; 1472]), Sent::Done);
    assert_eq!(socket.send_one(destination, &[0; 1473]), Sent::TooBig { size: 1473 });
    let mut batch = Batch::new();
    for len in [1480, 1480, 1480, 700] {
        assert!(fill(&mut batch, destination, &vec![0; len]));
    }
    assert_eq!(socket.send(&mut batch), Sent::TooBig { size: 1480 });
    assert_eq!((socket.stats().too_big, socket.stats().sent), (4, 2), "the last of the batch was small enough");
    assert!(socket.segmentation(), "a datagram above the MTU is no reason to give up segmentation");
    let calls = socket.stats().send_calls;
    for _ in 0..20 {
        assert!(fill(&mut batch, destination, &[0; 1472]));
    }
    assert_eq!(socket.send(&mut batch), Sent::Done);
    assert_eq!(socket.stats().send_calls, calls + 1);
}

#[test]
fn an_interface_that_vanishes_is_reported_and_its_return_opens_the_socket_anew_on_the_same_port() {
    if !may_make_namespaces() {
        return;
    }
    let _namespace = Namespace::enter("gone");
    link("1500");
    let mut config = UdpConfig::new("0.0.0.0:0".parse().unwrap());
    config.device = Some("fs0".into());
    let mut socket = UdpSocket::open(config).unwrap();
    let port = socket.local_addr().port();
    let destination =
        Destination { address: "192.0.2.2:9".parse().unwrap(), source: None, tos: 0, handling: Handling::Usual };
    let mut batch = Batch::new();
    let mut send = |socket: &mut UdpSocket| {
        for _ in 0..10 {
            assert!(fill(&mut batch, destination, &[0; 1000]));
        }
        let sent = socket.send(&mut batch);
        assert!(batch.is_empty());
        sent
    };
    assert_eq!(send(&mut socket), Sent::Done);
    assert_eq!(socket.check(), Ok(Presence::Present));
    run("ip", &["link", "set", "fs0", "down"]);
    assert_eq!(send(&mut socket), Sent::Down);
    assert_eq!(socket.stats().down, 10);
    run("ip", &["link", "del", "fs0"]);
    assert_eq!(send(&mut socket), Sent::Down);
    assert_eq!(socket.check(), Ok(Presence::Absent));
    link("1500");
    assert_eq!(socket.check(), Ok(Presence::Reopened));
    assert_eq!(socket.local_addr().port(), port);
    assert_eq!(send(&mut socket), Sent::Done);
    assert!(socket.segmentation());
    assert_eq!(socket.stats().reopened, 1);
}

#[test]
fn a_source_address_that_is_gone_counts_as_a_link_that_is_down() {
    if !may_make_namespaces() {
        return;
    }
    let _namespace = Namespace::enter("addr");
    link("1500");
    let mut socket = open("192.0.2.1:0");
    let destination =
        Destination { address: "192.0.2.2:9".parse().unwrap(), source: None, tos: 0, handling: Handling::Usual };
    assert_eq!(socket.send_one(destination, b"x"), Sent::Done);
    run("ip", &["address", "del", "192.0.2.1/24", "dev", "fs0"]);
    run("ip", &["address", "add", "192.0.2.5/24", "dev", "fs0"]);
    assert_eq!(socket.send_one(destination, b"x"), Sent::Down);
}

#[test]
fn what_icmp_tells_is_heard_only_once_asked_for_and_costs_no_datagram_to_or_from_others() {
    for bind in loopback() {
        let (mut shared, mut other) = (open(bind), open(bind));
        // A port that takes nothing but from another one.
        let held = std::net::UdpSocket::bind(bind).unwrap();
        held.connect(other.local_addr()).unwrap();
        let closed = Destination { address: held.local_addr().unwrap(), ..to(&other, 0) };
        let (mut batch, mut sent, mut came) = (Batch::new(), 0, 0);
        let receive_all = |socket: &mut UdpSocket, count: usize| assert_eq!(receive(socket, count).len(), count);
        for round in 0..300 {
            let asked = round % 3 > 0;
            shared.hear(asked);
            assert_eq!(shared.returned(), []);
            // The error of each is there before the next call, which it would fail.
            assert_eq!(shared.send_one(closed, b"is anybody there?"), Sent::Done);
            match round % 4 {
                0 => assert_eq!(shared.send_one(to(&other, 0), &[1; 100]), Sent::Done),
                1 => {
                    for _ in 0..3 {
                        assert!(fill(&mut batch, to(&other, 0), &[2; 100]));
                    }
                    assert_eq!(shared.send(&mut batch), Sent::Done);
                }
                // A call that fails for what it sends itself still says so.
                2 => assert_eq!(shared.send_one(to(&other, 0), &[0; 65_508]), Sent::TooBig { size: 65_508 }),
                _ => {
                    assert_eq!(other.send_one(to(&shared, 0), &[3; 100]), Sent::Done);
                    came += 1;
                    receive_all(&mut shared, 1);
                }
            }
            sent += [1, 3, 0, 0][round % 4];
            let heard = shared.returned().to_vec();
            assert_eq!(heard.len(), usize::from(asked), "{heard:?} in round {round}");
            for returned in heard {
                let port = Unreachable::Port(closed.address.ip());
                assert_eq!((returned.to, returned.why), (closed.address, port));
            }
            // Nothing more is heard until somebody asks again.
            for _ in 0..3 {
                assert_eq!(shared.send_one(closed, b"and now?"), Sent::Done);
            }
            shared.read_errors();
            assert!(shared.returned().len() <= 1);
        }
        receive_all(&mut other, sent);
        assert_eq!((shared.stats().down, shared.stats().ignored, came), (0, 0, 75));
    }
}
