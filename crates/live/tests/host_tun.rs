//! The TUN against the real kernel: two of them in two namespaces, joined by a loop of this test, carry real traffic.

mod host_support;

use fairspan_core::packet::Packet;
use fairspan_live::netlink::Netlink;
use fairspan_live::offload::{Offloads, complete_checksum, sum};
use fairspan_live::pool::PacketBuf;
use fairspan_live::tun::{Config, Stats, Tun, TunError};
use host_support::{in_namespace, may_make_namespaces, may_write, netstat, snmp, snmp6};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest that one end waits for the other.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the loop treats a packet between the TUNs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Channel {
    /// It carries the flag of a partial checksum, as an authenticated channel does.
    Flagged,
    /// It carries only the bytes, so that checksums must be complete.
    Raw,
    /// As raw, and it flips a bit in every 500th packet.
    Corrupting,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    offload: bool,
    keep_partial: bool,
    channel: Channel,
    is_v6: bool,
    mtu: u32,
}

const PATH: Path = Path { offload: true, keep_partial: true, channel: Channel::Flagged, is_v6: false, mtu: 1420 };

/// What one end saw.
#[derive(Debug)]
struct End {
    stats: Stats,
    offloads: Offloads,
    errors: Vec<(&'static str, u64)>,
    retransmitted: u64,
}

/// Runs `server` and `client` in two namespaces that a path joins; each gets its own address and the other's.
fn over<S, C>(path: Path, server: S, client: C) -> (End, End)
where
    S: FnOnce(IpAddr, IpAddr) + Send + 'static,
    C: FnOnce(IpAddr, IpAddr) + Send + 'static,
{
    let stop = Arc::new(AtomicBool::new(false));
    // A channel for each end: its only sender goes with the end that could not begin.
    let (tun_of_a, opened_a) = mpsc::channel();
    let (tun_of_b, opened_b) = mpsc::channel();
    let (ready_a, go_a) = mpsc::channel::<()>();
    let (ready_b, go_b) = mpsc::channel::<()>();
    let (left_a, left_b) = (format!("fs-a{}", path.is_v6 as u8), format!("fs-b{}", path.is_v6 as u8));
    let (address_a, address_b) = match path.is_v6 {
        false => ("10.77.0.1", "10.77.0.2"),
        true => ("fd77::1", "fd77::2"),
    };
    let host = move |name: String, own: &str, config: Path, tuns: mpsc::Sender<Tun>| {
        let mut settings = Config::new(name.as_str());
        settings.offload = config.offload;
        settings.keep_partial = config.keep_partial;
        let tun = Tun::open(&settings).expect("TUN");
        let mut netlink = Netlink::open().expect("netlink");
        tun.set_mtu(config.mtu).expect("MTU");
        netlink.set_up(&name, true).expect("up");
        let prefix = if config.is_v6 { 64 } else { 24 };
        netlink.add_address(&name, format!("{own}/{prefix}").parse().expect("an address")).expect("address");
        tuns.send(tun).expect("the loop");
    };
    let a = in_namespace(move || {
        host(left_a, address_a, path, tun_of_a);
        ready_a.send(()).expect("the test");
        server(address_a.parse().expect("IP"), address_b.parse().expect("IP"));
        kernel_errors()
    });
    let tun_a = opened_a.recv_timeout(PATIENCE).expect("TUN a");
    let b = in_namespace(move || {
        host(left_b, address_b, path, tun_of_b);
        ready_b.send(()).expect("the test");
        client(address_b.parse().expect("IP"), address_a.parse().expect("IP"));
        kernel_errors()
    });
    let tun_b = opened_b.recv_timeout(PATIENCE).expect("TUN b");
    go_a.recv_timeout(PATIENCE).expect("a is ready");
    go_b.recv_timeout(PATIENCE).expect("b is ready");
    let looping = thread::spawn({
        let stop = stop.clone();
        move || join_tuns(tun_a, tun_b, path.channel, &stop)
    });
    let (a, b) = (a.join(), b.join());
    stop.store(true, Ordering::Relaxed);
    let ((stats_a, stats_b), offloads) = looping.join().expect("the loop");
    let (errors_a, retransmitted_a) = a.expect("the server");
    let (errors_b, retransmitted_b) = b.expect("the client");
    (
        End { stats: stats_a, offloads, errors: errors_a, retransmitted: retransmitted_a },
        End { stats: stats_b, offloads, errors: errors_b, retransmitted: retransmitted_b },
    )
}

/// What this namespace's kernel complains about, if anything; and the segments that it retransmitted.
fn kernel_errors() -> (Vec<(&'static str, u64)>, u64) {
    let mut errors = vec![
        ("Tcp InCsumErrors", snmp("Tcp", "InCsumErrors")),
        // A SYN sent again, after the first took a busy machine a second, counts as one; it is none.
        ("Tcp InErrs", snmp("Tcp", "InErrs") - netstat("TcpExt", "TCPSYNChallenge")),
        ("Udp InCsumErrors", snmp("Udp", "InCsumErrors")),
        ("Udp InErrors", snmp("Udp", "InErrors")),
        ("Ip InHdrErrors", snmp("Ip", "InHdrErrors")),
        ("Ip InDiscards", snmp("Ip", "InDiscards")),
        ("Ip6InHdrErrors", snmp6("Ip6InHdrErrors")),
        ("Ip6InTruncatedPkts", snmp6("Ip6InTruncatedPkts")),
        ("Udp6InCsumErrors", snmp6("Udp6InCsumErrors")),
    ];
    errors.retain(|&(_, count)| count != 0);
    (errors, snmp("Tcp", "RetransSegs"))
}

fn join_tuns(mut a: Tun, mut b: Tun, channel: Channel, stop: &AtomicBool) -> ((Stats, Stats), Offloads) {
    let (mut packets, mut count) = (Vec::new(), 0u64);
    let timeout = Timespec::try_from(Duration::from_millis(20)).expect("a timeout");
    while !stop.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(&a, PollFlags::IN), PollFd::new(&b, PollFlags::IN)];
        poll(&mut ready, Some(&timeout)).expect("poll");
        for (from, to) in [(0, 1), (1, 0)] {
            let pair = [&mut a, &mut b];
            for _ in 0..8 {
                if pair[from].recv(&mut |packet| packets.push(packet)).expect("recv").is_none() {
                    break;
                }
            }
            if channel != Channel::Flagged {
                packets.iter_mut().for_each(|packet| assert!(complete_checksum(packet)));
            }
            if channel == Channel::Corrupting {
                for packet in &mut packets {
                    count += 1;
                    if count % 500 == 0 {
                        packet.as_mut_slice().last_mut().map(|byte| *byte ^= 4).expect("a byte");
                    }
                }
            }
            pair[to].send(&mut packets).expect("send");
        }
    }
    ((*a.stats(), *b.stats()), a.offloads())
}

/// A stream that repeats every 1,048,573 bytes, a prime, so that no lost or doubled piece goes unseen.
fn pattern() -> Vec<u8> {
    let mut rng = fairspan_core::rng::Rng::new(4);
    (0..1_048_573).map(|_| rng.next_u64() as u8).collect()
}

fn listener(own: IpAddr) -> Socket {
    let socket = tcp_socket(own);
    socket.set_reuse_address(true).expect("reuse");
    socket.bind(&SocketAddr::new(own, 5000).into()).expect("bind");
    socket.listen(1).expect("listen");
    socket
}

fn tcp_socket(own: IpAddr) -> Socket {
    let domain = if own.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::STREAM, None).expect("socket");
    socket.set_tcp_congestion(b"cubic").expect("cubic");
    socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
    socket.set_write_timeout(Some(PATIENCE)).expect("timeout");
    socket
}

/// Sends `bytes` over one TCP connection from the client to the server, which checks every one. Gives Gbit/s too.
fn tcp_transfer(path: Path, bytes: usize) -> (End, End, f64) {
    tcp_transfer_with(path, bytes, || ())
}

/// The same; after the first bytes the server pauses for `midway`, which runs in its namespace.
fn tcp_transfer_with(path: Path, bytes: usize, midway: impl FnOnce() + Send + 'static) -> (End, End, f64) {
    let (took, time) = mpsc::channel();
    let (server, client) = over(
        path,
        move |own, _| {
            let (mut stream, _) = listener(own).accept().expect("accept");
            stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
            let (pattern, mut buffer, mut received) = (pattern(), vec![0; 256 << 10], 0);
            let start = Instant::now();
            let mut midway = Some(midway);
            loop {
                let n = stream.read(&mut buffer).expect("read");
                if let Some(midway) = midway.take() {
                    midway();
                }
                if n == 0 {
                    break;
                }
                let mut checked = 0;
                while checked < n {
                    let at = (received + checked) % pattern.len();
                    let length = (n - checked).min(pattern.len() - at);
                    assert!(buffer[checked..checked + length] == pattern[at..at + length], "wrong bytes at {received}");
                    checked += length;
                }
                received += n;
            }
            assert_eq!(received, bytes);
            took.send(start.elapsed()).expect("the test");
            stream.write_all(b"done").expect("answer");
        },
        move |own, peer| {
            let pattern = pattern();
            let mut stream = tcp_socket(own);
            connect(&stream, SocketAddr::new(peer, 5000));
            let mut left = bytes;
            while left > 0 {
                let n = left.min(pattern.len());
                stream.write_all(&pattern[..n]).expect("write");
                left -= n;
            }
            stream.shutdown(std::net::Shutdown::Write).expect("shutdown");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("read");
            assert_eq!(answer, b"done");
        },
    );
    let seconds = time.recv_timeout(PATIENCE).expect("a time").as_secs_f64();
    (server, client, bytes as f64 * 8e-9 / seconds)
}

fn connect(socket: &Socket, to: SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = socket.connect(&to.into()) {
        assert!(Instant::now() < deadline, "connect: {error}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn assert_clean(path: Path, server: &End, client: &End) {
    for end in [server, client] {
        assert_eq!(end.errors, [], "{path:?}");
        assert_eq!((end.stats.lost(), end.stats.read_malformed, end.stats.retried_units), (0, 0, 0), "{path:?}");
    }
}

#[test]
fn two_hundred_megabytes_of_tcp_arrive_intact_through_units_with_partial_checksums() {
    if !may_make_namespaces() {
        return;
    }
    let (server, client, speed) = tcp_transfer(PATH, 200_000_000);
    println!("{speed:.2} Gbit/s; server {server:?}, client {client:?}");
    assert_clean(PATH, &server, &client);
    // Units, not packets, were exchanged in both directions of the tunnel.
    let stats = client.stats;
    assert!(stats.read_packets > 4 * stats.read_units, "{stats:?}");
    let stats = server.stats;
    assert!(stats.written_packets > 4 * stats.written_units, "{stats:?}");
}

#[test]
fn tcp_arrives_intact_with_every_mixture_of_offload_checksum_and_family() {
    if !may_make_namespaces() {
        return;
    }
    for (offload, keep_partial, channel) in [
        (true, false, Channel::Flagged),
        (true, true, Channel::Raw),
        (false, false, Channel::Flagged),
        (false, true, Channel::Flagged),
    ] {
        for is_v6 in [false, true] {
            for mtu in [1420, 9000] {
                let path = Path { offload, keep_partial, channel, is_v6, mtu };
                let (server, client, speed) = tcp_transfer(path, 8_000_000);
                println!("{path:?}: {speed:.2} Gbit/s");
                assert_clean(path, &server, &client);
                let joined = server.stats.written_packets > server.stats.written_units;
                assert_eq!(joined, offload, "{path:?}: {server:?}");
            }
        }
    }
    let path = Path { is_v6: true, ..PATH };
    let (server, client, _) = tcp_transfer(path, 20_000_000);
    assert_clean(path, &server, &client);
}

#[test]
fn a_corrupted_packet_reaches_the_kernel_as_it_is_and_is_refused_there() {
    if !may_make_namespaces() {
        return;
    }
    let path = Path { channel: Channel::Corrupting, ..PATH };
    let (server, client, _) = tcp_transfer(path, 20_000_000);
    // Every byte was right in the end; the kernel saw and counted the wrong checksums.
    let refused =
        |end: &End| end.errors.iter().find(|(name, _)| *name == "Tcp InCsumErrors").map_or(0, |error| error.1);
    let packets = server.stats.written_packets + client.stats.written_packets;
    let refused = refused(&server) + refused(&client);
    // (The last one may come after the counters were read.)
    assert!((packets / 500 - 1..=packets / 500).contains(&refused), "server {server:?}, client {client:?}");
    assert!(packets > 10_000 && server.stats.written_packets > 4 * server.stats.written_units, "{server:?}");
}

/// What was written to an interface of this thread's namespace, and not taken.
fn dropped(interface: &str) -> u64 {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").expect("devices");
    let line = devices.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    let counts = line.expect("the interface").split_whitespace();
    counts.skip(3).map(|count| count.parse().expect("a number")).next().expect("a count")
}

#[test]
fn traffic_goes_on_after_the_interface_was_off_for_a_while() {
    if !may_make_namespaces() {
        return;
    }
    let (server, client, _) = tcp_transfer_with(PATH, 50_000_000, || {
        let mut netlink = Netlink::open().expect("netlink");
        netlink.set_up("fs-a0", false).expect("down");
        // On a busy machine it may take longer until something comes.
        let end = Instant::now() + PATIENCE;
        thread::sleep(Duration::from_millis(700));
        while dropped("fs-a0") == 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        netlink.set_up("fs-a0", true).expect("up");
    });
    // What came meanwhile, retransmissions or probes of the closed window, is lost, counted, and nothing else is.
    let stats = server.stats;
    assert!(stats.lost_down > 0 && stats.lost_down == stats.lost(), "{stats:?}");
    assert_eq!((client.stats.lost(), server.errors, client.errors), (0, vec![], vec![]));
}

#[test]
fn udp_datagrams_sent_as_one_unit_arrive_apart_and_intact() {
    if !may_make_namespaces() {
        return;
    }
    for (is_v6, channel, offload) in [
        (false, Channel::Flagged, true),
        (true, Channel::Flagged, true),
        (false, Channel::Raw, true),
        (true, Channel::Raw, false),
    ] {
        let path = Path { is_v6, channel, offload, ..PATH };
        let (server, client) = over(path, udp_server, udp_client);
        assert_clean(path, &server, &client);
        // What the client sent as one unit crossed both TUNs as one, where the kernel can do that (Linux 6.2).
        let units = client.stats.read_packets > client.stats.read_units
            && server.stats.written_packets > server.stats.written_units;
        assert_eq!(units, server.offloads.udp, "{path:?}: server {server:?}, client {client:?}");
    }
}

const DATAGRAM: usize = 1200;
const DATAGRAMS: usize = 20;

fn udp_server(own: IpAddr, _peer: IpAddr) {
    let socket = UdpSocket::bind(SocketAddr::new(own, 6000)).expect("bind");
    socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let mut buffer = [0; 2048];
    // The first tells where the client is, and is repeated until an answer comes.
    let (_, client) = socket.recv_from(&mut buffer).expect("hello");
    socket.send_to(b"hello", client).expect("hello");
    let mut expected = 0;
    while expected < DATAGRAMS {
        let (n, _) = socket.recv_from(&mut buffer).expect("datagram");
        if &buffer[..n] == b"hello" {
            // The answer may have been lost, where the client's end was not ready for it yet.
            socket.send_to(b"hello", client).expect("hello");
            continue;
        }
        let last = expected + 1 == DATAGRAMS;
        assert_eq!(n, if last { 100 } else { DATAGRAM });
        assert!(buffer[..n].iter().all(|&byte| byte == expected as u8), "datagram {expected}");
        expected += 1;
    }
    socket.send_to(b"done", client).expect("done");
}

fn udp_client(own: IpAddr, peer: IpAddr) {
    let socket = UdpSocket::bind(SocketAddr::new(own, 0)).expect("bind");
    let to = SocketAddr::new(peer, 6000);
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("timeout");
    let mut buffer = [0; 100];
    for attempt in 0.. {
        assert!(attempt < 100, "the server does not answer");
        socket.send_to(b"hello", to).expect("send");
        if socket.recv(&mut buffer).is_ok() {
            break;
        }
    }
    let mut payload: Vec<u8> = (0..DATAGRAMS - 1).flat_map(|i| vec![i as u8; DATAGRAM]).collect();
    payload.extend([(DATAGRAMS - 1) as u8; 100]);
    let state = quinn_udp::UdpSocketState::new((&socket).into()).expect("UDP state");
    let transmit = quinn_udp::Transmit {
        destination: to,
        ecn: None,
        contents: &payload,
        segment_size: Some(DATAGRAM),
        src_ip: None,
    };
    state.try_send((&socket).into(), &transmit).expect("one unit");
    // The path stays until everything has arrived.
    let end = Instant::now() + PATIENCE;
    while !matches!(socket.recv(&mut buffer), Ok(4)) {
        assert!(Instant::now() < end, "the server does not have everything");
    }
}

#[test]
fn a_second_tun_of_the_same_name_is_refused_by_name() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let first = Tun::open(&Config::new("fs0")).expect("TUN");
        assert_eq!(first.name(), "fs0");
        let error = Tun::open(&Config::new("fs0")).expect_err("the name is taken");
        assert_eq!(error, TunError::NameInUse { name: "fs0".to_owned() });
        assert!(error.to_string().contains("fs0 exists already"), "{error}");
        for bad in ["a/b", "sixteen-letters-", "a b", "a\0b"] {
            let error = Tun::open(&Config::new(bad)).expect_err("a bad name");
            assert_eq!(error, TunError::BadName { name: bad.to_owned() });
        }
        let counted = Tun::open(&Config::new("fs%d")).expect("TUN");
        assert_eq!(counted.name(), "fs1");
        drop(first);
        Tun::open(&Config::new("fs0")).expect("the name is free again");
    })
    .join()
    .expect("the namespace");
}

/// An IPv4 UDP packet to 10.77.0.1, port 6000; its checksum is partial or complete.
fn udp_packet(payload: &[u8], partial: bool) -> PacketBuf {
    let len = 28 + payload.len();
    let mut bytes = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 2, 10, 77, 0, 1];
    let checksum = !sum(&bytes);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp_len = (8 + payload.len()) as u16;
    bytes.extend([0, 9, 0x17, 0x70]);
    bytes.extend(udp_len.to_be_bytes());
    let mut pseudo = bytes[12..20].to_vec();
    pseudo.extend([0, 17]);
    pseudo.extend(udp_len.to_be_bytes());
    bytes.extend(sum(&pseudo).to_be_bytes());
    bytes.extend(payload);
    let mut packet = PacketBuf::copy_from(&bytes);
    packet.checksum_partial = true;
    assert!(partial || complete_checksum(&mut packet));
    packet
}

/// Packet `i` of a flow: TCP with timestamps or UDP, to an address behind fs1, its checksum partial.
fn flow_packet(is_v6: bool, tcp: bool, i: usize, payload: &[u8]) -> PacketBuf {
    let (addresses, protocol) = match is_v6 {
        false => (vec![10, 77, 0, 2, 10, 78, 0, 9], if tcp { 6 } else { 17 }),
        true => {
            let mut addresses = vec![0; 32];
            addresses[..4].copy_from_slice(&[0xfd, 0x77, 0, 0]);
            addresses[16..20].copy_from_slice(&[0xfd, 0x78, 0, 0]);
            (addresses[15], addresses[31]) = (2, 9);
            (addresses, if tcp { 6 } else { 17 })
        }
    };
    let mut transport = vec![0x10, 0, 0x20, 0];
    if tcp {
        transport.extend((i as u32 * 1000).to_be_bytes());
        transport.extend([0, 0, 0, 1, 0x80, 0x10, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4]);
    } else {
        transport.extend((8 + payload.len() as u16).to_be_bytes());
        transport.extend([0, 0]);
    }
    let field = if tcp { 16 } else { 6 };
    transport.extend(payload);
    let mut pseudo = addresses.clone();
    pseudo.extend([0, protocol]);
    pseudo.extend((transport.len() as u16).to_be_bytes());
    transport[field..field + 2].copy_from_slice(&sum(&pseudo).to_be_bytes());
    let mut bytes = if is_v6 {
        let mut header = vec![0x60, 0, 0, 0];
        header.extend((transport.len() as u16).to_be_bytes());
        header.extend([protocol, 64]);
        header
    } else {
        let mut header = vec![0x45, 0];
        header.extend((20 + transport.len() as u16).to_be_bytes());
        header.extend((i as u16).to_be_bytes());
        header.extend([0x40, 0, 64, protocol, 0, 0]);
        header
    };
    bytes.extend(addresses);
    if !is_v6 {
        set_ipv4_checksum(&mut bytes);
    }
    bytes.extend(transport);
    let mut packet = PacketBuf::copy_from(&bytes);
    packet.checksum_partial = true;
    packet
}

fn set_ipv4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = !sum(header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn a_forwarding_kernel_takes_our_units_apart_into_the_packets_they_were_made_of() {
    if !(may_make_namespaces() && may_write("/proc/sys/net/ipv4/ip_forward")) {
        return;
    }
    for is_v6 in [false, true] {
        for tcp in [false, true] {
            for partial in [false, true] {
                in_namespace(move || forward_a_unit(is_v6, tcp, partial)).join().expect("the namespace");
            }
        }
    }
}

/// Writes a unit to fs0 and compares what the kernel forwards to fs1, which takes no units.
fn forward_a_unit(is_v6: bool, tcp: bool, partial: bool) {
    let mut inside = Tun::open(&Config::new("fs0")).expect("TUN");
    let mut settings = Config::new("fs1");
    settings.offload = false;
    let mut outside = Tun::open(&settings).expect("TUN");
    let mut netlink = Netlink::open().expect("netlink");
    for (name, v4, v6) in [("fs0", "10.77.0.1/24", "fd77::1/64"), ("fs1", "10.78.0.1/24", "fd78::1/64")] {
        netlink.set_up(name, true).expect("up");
        netlink.add_address(name, v4.parse().expect("an address")).expect("IPv4 address");
        netlink.add_address(name, v6.parse().expect("an address")).expect("IPv6 address");
    }
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("sysctl");
    std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").expect("sysctl");

    let mut packets: Vec<_> =
        (0..7).map(|i| flow_packet(is_v6, tcp, i, &vec![i as u8; if i == 6 { 333 } else { 1000 }])).collect();
    if !partial {
        packets.iter_mut().for_each(|packet| assert!(complete_checksum(packet)));
    }
    // What comes out: complete checksums, and one hop less to live.
    let mut expected = Vec::new();
    for packet in &packets {
        let mut packet = Packet::duplicate(packet).expect("memory");
        assert!(complete_checksum(&mut packet));
        let bytes = packet.as_mut_slice();
        bytes[if is_v6 { 7 } else { 8 }] -= 1;
        if !is_v6 {
            set_ipv4_checksum(&mut bytes[..20]);
        }
        expected.push(bytes.to_vec());
    }
    inside.send(&mut packets).expect("send");
    let stats = inside.stats();
    let units = if tcp || inside.offloads().udp { 1 } else { 7 };
    assert_eq!((stats.written_units, stats.written_packets, stats.lost()), (units, 7, 0), "{stats:?}");

    let mut arrived = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while arrived.len() < expected.len() && Instant::now() < deadline {
        outside
            .recv(&mut |packet| {
                // The kernel's own multicast chatter apart.
                if packet.len() > 333 {
                    arrived.push(packet.as_slice().to_vec());
                }
            })
            .expect("recv");
    }
    assert!(arrived == expected, "IPv6 {is_v6}, TCP {tcp}, partial {partial}: {arrived:02x?}\n{expected:02x?}");
}

#[test]
fn failing_writes_are_counted_by_reason_and_the_next_ones_work() {
    if !may_make_namespaces() {
        return;
    }
    for offload in [true, false] {
        in_namespace(move || {
            let mut settings = Config::new("fs0");
            settings.offload = offload;
            let mut tun = Tun::open(&settings).expect("TUN");
            let mut netlink = Netlink::open().expect("netlink");
            // Down: a unit of datagrams and a single packet.
            let mut packets: Vec<_> = (0..5).map(|i| udp_packet(&[i; 100], true)).collect();
            packets.push(PacketBuf::copy_from(&[0x60; 40]));
            tun.send(&mut packets).expect("not fatal");
            assert!(packets.is_empty());
            assert_eq!((tun.stats().lost_down, tun.stats().written_packets), (6, 0), "{:?}", tun.stats());
            // Up, and not IP at all.
            netlink.set_up("fs0", true).expect("up");
            netlink.add_address("fs0", "10.77.0.1/24".parse().expect("IP")).expect("address");
            let socket = UdpSocket::bind("10.77.0.1:6000").expect("bind");
            socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
            let mut garbage = PacketBuf::copy_from(&[0x45; 30]);
            garbage.checksum_partial = true;
            packets.extend([PacketBuf::copy_from(&[0xff; 30]), PacketBuf::copy_from(&[]), garbage]);
            packets.extend((0..5).map(|i| udp_packet(&[i; 100], i % 2 == 0)));
            tun.send(&mut packets).expect("not fatal");
            let stats = *tun.stats();
            assert_eq!((stats.lost_invalid, stats.malformed, stats.lost_down), (2, 1, 6), "{stats:?}");
            assert_eq!(stats.written_packets, 5, "{stats:?}");
            let mut buffer = [0; 200];
            for i in 0..5 {
                assert_eq!(socket.recv(&mut buffer).expect("datagram"), 100);
                assert!(buffer[..100].iter().all(|&byte| byte == i));
            }
        })
        .join()
        .expect("the namespace");
    }
}

#[test]
fn a_deleted_interface_ends_reading_and_writing_with_a_clear_error() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let mut tun = Tun::open(&Config::new("fs0")).expect("TUN");
        assert_eq!(tun.recv(&mut |_| ()), Ok(None));
        let mut netlink = Netlink::open().expect("netlink");
        netlink.set_up("fs0", true).expect("up");
        netlink.delete_interface("fs0").expect("delete");
        let gone = TunError::Gone { name: "fs0".to_owned() };
        assert_eq!(tun.recv(&mut |_| ()), Err(gone.clone()));
        let mut packets = vec![udp_packet(b"x", true), udp_packet(b"y", false)];
        assert_eq!(tun.send(&mut packets), Err(gone));
        assert!(packets.is_empty());
        // And the name is free for a new one at once.
        Tun::open(&Config::new("fs0")).expect("a new TUN");
    })
    .join()
    .expect("the namespace");
}

#[test]
#[ignore = "a measurement: run with --release -- --ignored --nocapture"]
fn measure_tcp_between_two_tuns() {
    assert!(may_make_namespaces());
    for round in 0..3 {
        for (name, path) in [
            ("offload, checksums left partial", PATH),
            ("offload, checksums completed at read", Path { keep_partial: false, ..PATH }),
            ("no offload", Path { offload: false, ..PATH }),
        ] {
            let bytes = if path.offload { 3_000_000_000 } else { 400_000_000 };
            let (server, client, speed) = tcp_transfer(path, bytes);
            assert_clean(path, &server, &client);
            println!(
                "round {round}: {name}: {speed:.2} Gbit/s, {:.1} packets a read, {:.1} a write, {} retransmitted",
                client.stats.read_packets as f64 / client.stats.read_units as f64,
                server.stats.written_packets as f64 / server.stats.written_units as f64,
                client.retransmitted,
            );
        }
    }
}
