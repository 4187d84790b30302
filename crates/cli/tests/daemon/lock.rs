//! The lock: what a router beside the host sees in the clear, whatever happens to the daemon.

use crate::common::*;
use fairspan_live::lock;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// All protocols, in network byte order, as packet sockets want it.
const ALL: i32 = 3u16.to_be() as i32;
/// In datagrams that pretend to be the daemon's.
const FORGED: &[u8] = b"forged";
/// Where a host on the LAN is to be reached although everything else is locked.
const SPARED: [&str; 2] = ["192.168.1.1:4444", "[2001:db8:1::1]:4444"];

/// What a host and a client behind it send in the clear, if they may: UDP and TCP of both IP versions to the Internet, and
/// questions to resolvers on the LAN.
const CLEAR: [&str; 8] = [
    "udp 203.0.113.2:9",
    "tcp 203.0.113.2:80",
    "udp 2001:db8:f::2:9",
    "tcp 2001:db8:f::2:80",
    "udp 203.0.113.2:10",
    "udp 2001:db8:f::2:10",
    "udp 192.168.1.1:53",
    "tcp 192.168.1.1:853",
];

/// A site, whose default routes lead to a router, which leads to the hub; and a client behind the site.
///
/// ```text
/// client -- eth2 site eth0 -- eth0 router eth1 -- hub
/// ```
struct House {
    lab: Lab,
    site: String,
    hub: String,
}

impl House {
    /// With `settings` in the site's `[interface]`.
    fn new(settings: &str) -> Option<House> {
        let lab = Lab::new(&["site", "router", "hub", "client"])?;
        if let Err(error) = lab.run("router", lock::locked) {
            println!("skipped: no nf_tables ({error})");
            return None;
        }
        lab.cable(("site", "eth0", "192.168.1.2/24"), ("router", "eth0", "192.168.1.1/24"));
        lab.cable(("router", "eth1", "198.51.100.1/24"), ("hub", "eth1", "198.51.100.2/24"));
        lab.cable(("client", "eth0", "10.5.0.2/24"), ("site", "eth2", "10.5.0.1/24"));
        for (host, device, address) in [
            ("site", "eth0", "2001:db8:1::2/64"),
            ("router", "eth0", "2001:db8:1::1/64"),
            ("client", "eth0", "2001:db8:5::2/64"),
            ("site", "eth2", "2001:db8:5::1/64"),
            // The same Internet, beyond the router and beyond the tunnel.
            ("router", "lo", "203.0.113.2/32"),
            ("router", "lo", "2001:db8:f::2/128"),
            ("hub", "lo", "203.0.113.2/32"),
            ("hub", "lo", "2001:db8:f::2/128"),
        ] {
            lab.ip(host, &["address", "add", address, "dev", device, "nodad"]);
        }
        for (host, gateway) in [
            ("site", "192.168.1.1"),
            ("site", "2001:db8:1::1"),
            ("hub", "198.51.100.1"),
            ("client", "10.5.0.1"),
            ("client", "2001:db8:5::1"),
        ] {
            lab.ip(host, &["route", "add", "default", "via", gateway]);
        }
        for host in ["site", "router"] {
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                lab.run(host, move || std::fs::write(format!("/proc/sys/net/{setting}"), "1").expect("forwards"));
            }
        }
        let (site, hub) = (keys(), keys());
        let hub_config = interface("fs0", "[\"10.77.0.1/24\", \"fd77::1/64\"]", &hub.0, "listen_port = 51900")
            + &peer("site", &site.1, "[\"10.77.0.2/32\", \"fd77::2/128\"]", "");
        let site_config = interface("fs0", "[\"10.77.0.2/24\", \"fd77::2/64\"]", &site.0, settings)
            + &peer("hub", &hub.1, "[\"0.0.0.0/0\", \"::/0\"]", "")
            + &udp("link", "eth0", "198.51.100.2:51900");
        Some(House { lab, site: site_config, hub: hub_config })
    }

    fn site(&self) -> Daemon {
        let site = self.lab.daemon("site", "site", &self.site);
        site.wait_up(1);
        site
    }

    fn fairspan(&self, args: &[&str]) -> Output {
        self.lab.fairspan("site", args)
    }

    /// `fairspan unlock`, which has to find a lock.
    fn unlock(&self) {
        let output = self.fairspan(&["unlock", "--interface", "fs0"]);
        assert!(output.status.success(), "{output:?}");
        assert!(said(&output).contains("unlocked"), "{output:?}");
    }

    /// Once each of what is in [`CLEAR`], and a datagram of an unprivileged process that pretends to be the daemon's.
    fn send_everything(&self) {
        self.lab.run("site", send_everything);
        self.lab.run("client", || {
            for target in ["203.0.113.2:10", "[2001:db8:f::2]:10"] {
                send(target, b"from behind");
            }
        });
    }

    /// Sends until what is spared has come through, twice: the router has seen whatever got out before.
    fn settle(&self, tap: &Tap) {
        let end = Instant::now() + PATIENCE;
        for _ in 0..2 {
            let before = tap.count(|seen| SPARED.iter().any(|spared| is_to(seen, spared)));
            while tap.count(|seen| SPARED.iter().any(|spared| is_to(seen, spared))) < before + 2 {
                assert!(Instant::now() < end, "the LAN is not reached: {:?}", tap.seen());
                self.lab.run("site", || SPARED.iter().for_each(|spared| send(spared, b"spared")));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Sends everything, and gives what of it the router has seen in the clear.
    fn leaks(&self, tap: &Tap) -> BTreeSet<String> {
        tap.forget();
        self.send_everything();
        self.settle(tap);
        tap.clear()
    }

    /// Sends everything until the router has seen each of `expected` in the clear.
    fn assert_open(&self, tap: &Tap, expected: &[&str], when: &str) {
        let end = Instant::now() + PATIENCE;
        let expected: BTreeSet<String> = expected.iter().map(|&kind| kind.to_owned()).collect();
        tap.forget();
        while !tap.clear().is_superset(&expected) {
            assert!(Instant::now() < end, "{when}: only {:?} is seen", tap.clear());
            self.send_everything();
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_to(seen: &str, target: &str) -> bool {
    seen == format!("udp {}", target.replace(['[', ']'], ""))
}

/// A datagram, if the kernel takes it.
fn send(target: &str, content: &[u8]) {
    let target: SocketAddr = target.parse().expect("an address");
    let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).expect("a socket");
    let _ = socket.send_to(content, target);
}

fn send_everything() {
    for target in ["203.0.113.2:9", "[2001:db8:f::2]:9", "192.168.1.1:53"] {
        send(target, b"in the clear");
    }
    for target in ["203.0.113.2:80", "[2001:db8:f::2]:80", "192.168.1.1:853"] {
        let target: SocketAddr = target.parse().expect("an address");
        let socket = Socket::new(Domain::for_address(target), Type::STREAM, None).expect("a socket");
        socket.set_nonblocking(true).expect("non-blocking");
        let _ = socket.connect(&target.into());
    }
    // Nobody without capabilities can look like the daemon, or like what else passes.
    let ordinary = std::thread::spawn(|| {
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none }).expect("fewer");
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        assert!(socket.set_mark(51900).is_err(), "a mark is set without capabilities");
        for port in [68, 546] {
            let local: SocketAddr = (Ipv4Addr::UNSPECIFIED, port).into();
            let other = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
            assert!(other.bind(&local.into()).is_err(), "port {port} is had without capabilities");
        }
        assert!(Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).is_err(), "a raw socket");
        let target: SocketAddr = "198.51.100.2:51900".parse().expect("an address");
        let _ = socket.send_to(FORGED, &SockAddr::from(target));
    });
    ordinary.join().expect("an ordinary process");
}

/// What the router gets from the site, until it is dropped.
struct Tap {
    frames: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tap {
    fn new(lab: &Lab) -> Tap {
        let address = lab.ip("site", &["-brief", "link", "show", "eth0"]);
        let address = address.split_whitespace().nth(2).expect("an Ethernet address").to_owned();
        let (frames, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (to, until) = (frames.clone(), ended.clone());
        let socket = lab.run("router", || {
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(ALL))).expect("a packet socket");
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 32 << 20).expect("a buffer");
            socket
        });
        let thread = std::thread::spawn(move || {
            let mut socket = socket;
            let mut frame = vec![0; 70_000];
            while !until.load(Ordering::Relaxed) {
                let Ok(len) = socket.read(&mut frame) else { continue };
                let from: Vec<String> = frame[6..12].iter().map(|byte| format!("{byte:02x}")).collect();
                if len > 34 && from.join(":") == address {
                    to.lock().expect("no panic").extend(describe(&frame[12..len]));
                }
            }
        });
        Tap { frames, ended, thread: Some(thread) }
    }

    fn forget(&self) {
        self.frames.lock().expect("no panic").clear();
    }

    fn seen(&self) -> BTreeSet<String> {
        self.frames.lock().expect("no panic").iter().cloned().collect()
    }

    fn count(&self, is: impl Fn(&str) -> bool) -> usize {
        self.frames.lock().expect("no panic").iter().filter(|seen| is(seen)).count()
    }

    /// All that is neither the tunnel's nor may leave.
    fn clear(&self) -> BTreeSet<String> {
        let mut seen = self.seen();
        seen.retain(|seen| {
            let passes = ["udp 198.51.100.2:51900", "udp 198.51.100.2:51901", "neighbours"].contains(&seen.as_str());
            !passes && !SPARED.iter().any(|spared| is_to(seen, spared))
        });
        seen
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What an IP packet behind its EtherType is; nothing for what is no IP.
fn describe(frame: &[u8]) -> Option<String> {
    let packet = &frame[2..];
    let (protocol, destination, content): (u8, IpAddr, &[u8]) = match frame[..2] {
        [0x08, 0x00] => {
            let to: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            (packet[9], to.into(), packet.get(usize::from(packet[0] & 15) * 4..)?)
        }
        [0x86, 0xdd] => {
            let to: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            // Listener reports have one extension header, of eight bytes.
            let (protocol, at) = if packet[6] == 0 { (*packet.get(40)?, 48) } else { (packet[6], 40) };
            (protocol, to.into(), packet.get(at..)?)
        }
        _ => return None,
    };
    let port = content.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
    Some(match protocol {
        17 if content.windows(FORGED.len()).any(|part| part == FORGED) => "forged".to_owned(),
        17 => format!("udp {destination}:{port}"),
        6 => format!("tcp {destination}:{port}"),
        58 if matches!(content.first(), Some(131..=133 | 135 | 136 | 143)) => "neighbours".to_owned(),
        other => format!("protocol {other} to {destination}"),
    })
}

/// With the LAN on either side.
const LOCKED: &str = "lock = true\n\
    lock_except = [\"192.168.1.0/24\", \"2001:db8:1::/64\", \"10.5.0.0/24\", \"2001:db8:5::/64\"]";

#[test]
fn nothing_leaves_in_the_clear_before_the_daemon_while_it_runs_when_it_stops_and_when_it_is_killed() {
    let Some(house) = House::new(LOCKED) else { return };
    let lab = &house.lab;
    let tap = Tap::new(lab);
    let nothing = BTreeSet::new();
    house.assert_open(&tap, &CLEAR, "before there is a lock");
    house.assert_open(&tap, &["forged"], "before there is a lock");

    // As at boot.
    let config = lab.config("site", &house.site).display().to_string();
    let locked = house.fairspan(&["lock", &config]);
    assert!(locked.status.success() && said(&locked).contains("192.168.1.0/24"), "{locked:?}");
    assert_eq!(house.leaks(&tap), nothing, "before the daemon's first start");

    let hub = lab.daemon("hub", "hub", &house.hub);
    let site = house.site();
    lab.transfer("site", "hub", "203.0.113.2:5001", 2);
    lab.transfer("site", "hub", "[2001:db8:f::2]:5002", 2);
    assert_eq!(house.leaks(&tap), nothing, "while it runs");
    let status = site.status();
    assert_eq!((&status["lock"]["wanted"], &status["lock"]["set"]), (&true.into(), &true.into()), "{status}");
    site.stop();
    assert_eq!(house.leaks(&tap), nothing, "stopped");
    let site = house.site();
    site.kill();
    assert_eq!(house.leaks(&tap), nothing, "killed");

    // No gap while one table replaces the other.
    tap.forget();
    let ended = Arc::new(AtomicBool::new(false));
    let until = ended.clone();
    let sending = lab.inside("site", move || {
        while !until.load(Ordering::Relaxed) {
            send_everything();
        }
    });
    for _ in 0..3 {
        house.site().kill();
        assert!(house.fairspan(&["lock", &config]).status.success());
        house.site().stop();
    }
    ended.store(true, Ordering::Relaxed);
    sending.join().expect("sent");
    house.settle(&tap);
    assert_eq!(tap.clear(), nothing, "while it is started and ended over and over");

    // An interface that someone deletes is no way out either.
    let mut site = house.site();
    lab.ip("site", &["link", "del", "fs0"]);
    assert_eq!(site.ended().code(), Some(1), "{}", site.log());
    assert_eq!(house.leaks(&tap), nothing, "the interface deleted");

    house.unlock();
    house.assert_open(&tap, &CLEAR, "unlocked");
    assert!(said(&house.fairspan(&["unlock", &config])).contains("was not locked"));
    hub.stop();
}

#[test]
fn a_node_of_a_ring_is_locked_as_a_peer_is_and_nothing_but_the_ring_leaves() {
    let Some(mut house) = House::new("") else { return };
    let (site, hub) = (keys(), keys());
    let node = |number: usize, key: &str, more: &str, rest: String| {
        let address = format!("[\"10.77.0.{number}/24\", \"fd77::{number}/64\"]");
        interface("fs0", &address, key, more)
            + &format!("[ring]\nnode = {number}\nnodes = 2\nrate = \"100Mbit\"\nsilence = \"2s\"\n")
            + &rest
    };
    let side = |name: &str, key: &str| format!("[ring.{name}]\nkind = \"udp\"\npublic_key = \"{key}\"\n");
    let beyond = "[\"203.0.113.0/24\", \"2001:db8:f::/64\"]\n";
    let calls = "device = \"eth0\"\nendpoint = \"198.51.100.2:51901\"\n";
    let allowed = format!("{calls}[[ring.station]]\nnode = 1\nallowed_ips = {beyond}");
    house.site = node(2, &site.0, LOCKED, side("west", &hub.1) + &allowed);
    let networks = format!("networks = {beyond}");
    house.hub = node(1, &hub.0, "listen_port = 51901", networks + &side("east", &site.1));
    let lab = &house.lab;
    let tap = Tap::new(lab);
    let nothing = BTreeSet::new();
    house.assert_open(&tap, &CLEAR, "before there is a lock");
    let hub = lab.daemon("hub", "hub", &house.hub);
    let start = || {
        let site = lab.daemon("site", "site", &house.site);
        site.wait("a way by the ring", |site| {
            site.status()["ring"]["stations"].to_string().contains("2001:db8:f::/64")
        });
        // It was there from the start, and not only once somebody looked after it.
        assert!(!site.log().contains("it is set again"), "{}", site.log());
        site
    };
    let site = start();
    lab.transfer("site", "hub", "203.0.113.2:5001", 2);
    assert_eq!(house.leaks(&tap), nothing, "while it runs");
    site.stop();
    assert_eq!(house.leaks(&tap), nothing, "stopped");
    start().kill();
    assert_eq!(house.leaks(&tap), nothing, "killed");
    house.unlock();
    house.assert_open(&tap, &CLEAR, "unlocked");
    hub.stop();
}

#[test]
fn without_a_lock_the_same_leaks_when_the_daemon_is_stopped_or_killed_and_names_leak_while_it_runs() {
    let Some(house) = House::new("lock = false") else { return };
    let tap = Tap::new(&house.lab);
    let hub = house.lab.daemon("hub", "hub", &house.hub);
    let site = house.site();
    house.assert_open(&tap, &["udp 192.168.1.1:53", "tcp 192.168.1.1:853"], "while it runs");
    assert!(site.status()["lock"].is_null());
    site.kill();
    house.assert_open(&tap, &CLEAR, "killed");
    house.site().stop();
    house.assert_open(&tap, &CLEAR, "stopped");
    hub.stop();
}

#[test]
fn addresses_are_still_had_and_neighbours_found_and_reports_sent() {
    let Some(house) = House::new(LOCKED) else { return };
    let tap = Tap::new(&house.lab);
    let config = house.lab.config("site", &house.site).display().to_string();
    assert!(house.fairspan(&["lock", &config]).status.success());
    tap.forget();
    house.lab.ip("site", &["neigh", "flush", "dev", "eth0"]);
    house.settle(&tap);
    let dhcp = ["udp 255.255.255.255:67", "udp ff02::1:2:547"];
    let end = Instant::now() + PATIENCE;
    let has = |what: &str| tap.seen().contains(what);
    while !dhcp.iter().all(|kind| has(kind)) || !has("neighbours") {
        assert!(Instant::now() < end, "{:?}", tap.seen());
        house.lab.run("site", || {
            for (local, target) in [("0.0.0.0:68", "255.255.255.255:67"), ("[::]:546", "[ff02::1:2]:547")] {
                let (local, target): (SocketAddr, SocketAddr) = (local.parse().unwrap(), target.parse().unwrap());
                let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None).expect("a socket");
                socket.bind(&local.into()).expect("the client's port");
                socket.bind_device(Some(b"eth0")).expect("a device");
                let _ = socket.set_broadcast(true);
                socket.send_to(b"an address, please", &target.into()).expect("sent");
            }
        });
        std::thread::sleep(Duration::from_millis(50));
    }
    // A client behind the host gets none of that out.
    tap.forget();
    house.lab.run("client", || {
        let local: SocketAddr = "0.0.0.0:68".parse().expect("an address");
        let socket = UdpSocket::bind(local).expect("the client's port");
        socket.send_to(b"out of here", "203.0.113.2:67").expect("sent");
    });
    house.settle(&tap);
    assert_eq!(tap.clear(), BTreeSet::new());
    house.unlock();
}

#[test]
fn a_sender_is_told_at_once_that_nothing_leaves() {
    let Some(house) = House::new(LOCKED) else { return };
    let config = house.lab.config("site", &house.site).display().to_string();
    assert!(house.fairspan(&["lock", &config]).status.success());
    for host in ["site", "client"] {
        for target in ["203.0.113.2:80", "[2001:db8:f::2]:80"] {
            let error = house.lab.run(host, move || {
                let target: SocketAddr = target.parse().expect("an address");
                std::net::TcpStream::connect_timeout(&target, PATIENCE).expect_err("nobody is reached")
            });
            assert_ne!(error.kind(), std::io::ErrorKind::TimedOut, "{host} to {target}: {error}");
        }
    }
    house.unlock();
}

/// An answer of a resolver, if one comes.
fn asked(lab: &Lab, resolver: &'static str) -> Option<(SocketAddr, Vec<u8>)> {
    lab.run("site", move || {
        let target: SocketAddr = resolver.parse().expect("an address");
        let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        socket.send_to(b"who is it?", target).ok()?;
        let mut buffer = [0; 64];
        let (len, from) = socket.recv_from(&mut buffer).ok()?;
        Some((from, buffer[..len].to_vec()))
    })
}

#[test]
fn names_are_asked_for_through_the_tunnel_whichever_resolver_is_set_and_nowhere_else() {
    let settings = format!("{LOCKED}\ndns = [\"10.77.0.1\", \"fd77::1\"]");
    let Some(house) = House::new(&settings) else { return };
    let lab = &house.lab;
    let tap = Tap::new(lab);
    let hub = lab.daemon("hub", "hub", &house.hub);
    let site = house.site();
    for resolver in ["10.77.0.1:53", "[fd77::1]:53"] {
        lab.echo("hub", resolver);
    }
    // A resolver on the host itself is left alone.
    lab.echo("site", "127.0.0.53:53");
    // On the LAN, in the Internet, the right one, and on the host.
    let resolvers =
        ["192.168.1.1:53", "[2001:db8:1::1]:53", "203.0.113.2:53", "10.77.0.1:53", "[fd77::1]:53", "127.0.0.53:53"];
    tap.forget();
    for resolver in resolvers {
        let end = Instant::now() + PATIENCE;
        let answer = loop {
            assert!(Instant::now() < end, "{resolver} does not answer");
            if let Some(answer) = asked(lab, resolver) {
                break answer;
            }
        };
        assert_eq!(answer, (resolver.parse().expect("an address"), b"who is it?".to_vec()));
    }
    // Over TCP too, and for the one who asks it comes from the resolver that was asked.
    let listener = lab.listen("hub", "10.77.0.1:53");
    let asks = lab.inside("site", || {
        let target: SocketAddr = "192.168.1.1:53".parse().expect("an address");
        let stream = std::net::TcpStream::connect_timeout(&target, PATIENCE).expect("connected");
        stream.peer_addr().expect("an address")
    });
    let asker = accept(&listener).peer_addr().expect("an address");
    assert_eq!(asker.ip(), ip_of("10.77.0.2"), "from the interface's address");
    assert_eq!(asks.join().expect("asked"), "192.168.1.1:53".parse().expect("an address"));
    assert_eq!(house.leaks(&tap), BTreeSet::new(), "while it runs");
    site.kill();
    tap.forget();
    assert_eq!(asked(lab, "192.168.1.1:53"), None);
    assert_eq!(house.leaks(&tap), BTreeSet::new(), "killed");
    house.unlock();
    house.assert_open(&tap, &["udp 192.168.1.1:53"], "unlocked");
    hub.stop();
}

#[test]
fn a_lock_that_another_program_removes_is_set_again_and_one_that_is_not_wanted_is_told() {
    let Some(house) = House::new(LOCKED) else { return };
    let tap = Tap::new(&house.lab);
    let hub = house.lab.daemon("hub", "hub", &house.hub);
    let site = house.site();
    // Its daemon is asked at its own socket, and the lock stays.
    let config = house.lab.path("site.toml").display().to_string();
    let refused = house.fairspan(&["unlock", &config]);
    assert!(refused.status.code() == Some(1) && said(&refused).contains("stop it first"), "{refused:?}");
    assert_eq!(house.leaks(&tap), BTreeSet::new());
    house.unlock();
    site.wait_log("another program removed the lock: it is set again");
    assert_eq!(house.leaks(&tap), BTreeSet::new());
    site.kill();

    let unwanted = house.site.replace(LOCKED, "");
    let site = house.lab.daemon("site", "site", &unwanted);
    site.wait_log("fs0 is still locked by an earlier run");
    let status = site.status();
    assert_eq!((&status["lock"]["wanted"], &status["lock"]["set"]), (&false.into(), &true.into()), "{status}");
    let shown = house.fairspan(&["status", "--socket", &site.socket.display().to_string()]);
    assert!(said(&shown).contains("locked: left by an earlier run"), "{shown:?}");
    assert_eq!(house.leaks(&tap), BTreeSet::new());
    assert!(house.fairspan(&["unlock", &config]).status.success());
    assert!(site.status()["lock"].is_null());
    site.stop();
    hub.stop();
}

#[test]
fn a_host_that_cannot_be_locked_does_not_start() {
    let Some(house) = House::new(LOCKED) else { return };
    // Without the capability, as a kernel without nf_tables cannot be had here.
    let config = house.lab.config("site", &house.site).display().to_string();
    for command in ["up", "lock"] {
        let mut bare = std::process::Command::new("ip");
        bare.args([
            "netns",
            "exec",
            &house.lab.name("site"),
            "setpriv",
            "--bounding-set",
            "-all",
            "--inh-caps",
            "-all",
        ]);
        let output = child::output(bare.args([env!("CARGO_BIN_EXE_fairspan"), command, &config]));
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let said = said(&output);
        assert!(said.contains("cannot lock fs0") && said.contains("CAP_NET_ADMIN"), "{command}: {said}");
    }
    let unlocked = house.lab.config("open", &house.site.replace(LOCKED, "")).display().to_string();
    let output = house.fairspan(&["lock", &unlocked]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("there is no `lock = true`"), "{output:?}");
    assert!(house.lab.traces("site").lines().all(|line| !line.contains("fs0")));
}
