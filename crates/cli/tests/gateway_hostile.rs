//! A gateway that splits TCP connections, and callers that mean it no good: what others carry through it is theirs, to the last
//! byte. Counts and bytes only.

#[path = "common/child.rs"]
mod child;
#[allow(dead_code)]
#[path = "daemon/common.rs"]
mod common;
#[allow(dead_code, unused_imports)]
#[path = "../src/measure/load/mod.rs"]
mod load;
#[path = "../../live/tests/privilege/mod.rs"]
mod privilege;

use common::{Daemon, Lab, PATIENCE};
use load::{Clients, Ending, Fate, Plan, Results, Served, Server};
use rustix::process::Signal;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const CONFIG: &str = "[interface]\nname = \"gw0\"\ncontrol_socket = \"SOCKET\"\nstate_dir = \"SOCKET.state\"\n\n\
    [gateway]\nlong = \"sat0\"\ninside = [\"lan0\"]\nbypass_below = \"0ms\"\n";
const TARGET: &str = "10.96.2.2:5001";

/// A client, a gateway, a server, joined by cables.
fn lab() -> Option<Lab> {
    let lab = Lab::new(&["client", "gw", "server"])?;
    lab.cable(("client", "eth0", "10.96.1.2/24"), ("gw", "lan0", "10.96.1.1/24"));
    lab.cable(("gw", "sat0", "10.96.2.1/24"), ("server", "eth0", "10.96.2.2/24"));
    lab.ip("client", &["route", "add", "default", "via", "10.96.1.1"]);
    lab.ip("server", &["route", "add", "default", "via", "10.96.2.1"]);
    lab.run("gw", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding"));
    Some(lab)
}

/// A server of the load's, until it is stopped.
struct Serving {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Served>,
}

impl Serving {
    fn start(lab: &Lab) -> Serving {
        let server =
            lab.run("server", || Server::listen(TARGET.parse().expect("an address"), "reno").expect("listens"));
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        Serving { stop, thread: std::thread::spawn(move || server.run(true, &seen).expect("serves")) }
    }

    fn stop(self) -> Served {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("served")
    }
}

/// Connections by these plans, at most 50 at once in their handshakes.
fn call(lab: &Lab, plans: Vec<Plan>) -> JoinHandle<Results> {
    lab.inside("client", move || {
        let clients = Clients { congestion: "reno", opening: 50, checks: true, patience: PATIENCE };
        clients.run(&plans, &AtomicBool::new(false), &AtomicU64::new(0)).expect("they run")
    })
}

fn plans(count: u64, bytes: u64) -> Vec<Plan> {
    let to = TARGET.parse().expect("an address");
    (0..count).map(|n| Plan { to, from: None, up: bytes + n, down: bytes + 7 * n, ending: Ending::Orderly }).collect()
}

fn all_exact(results: &Results) {
    let others: Vec<_> = results.records.iter().filter(|record| record.fate != Fate::Exact).collect();
    assert!(others.is_empty(), "{} of {}: {:?}", others.len(), results.records.len(), others.first());
}

/// One number of the gateway's part of the status.
fn number(gateway: &Daemon, name: &str) -> u64 {
    let status = gateway.status();
    status["gateway"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {status}"))
}

/// A SYN of TCP over IPv4, checksums included; the kernel fills in the rest of the outer header (raw(7)).
fn syn(from: SocketAddrV4, to: SocketAddrV4, sequence: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    let mut tcp = Vec::new();
    tcp.extend(from.port().to_be_bytes());
    tcp.extend(to.port().to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
    let pseudo = [&packet[12..20], &[0, 6, 0, 20], &tcp].concat();
    let sum: u32 = pseudo.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !(((folded & 0xffff) + (folded >> 16)) as u16);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(tcp);
    packet
}

#[test]
fn a_flood_of_syns_from_addresses_of_nobody_leaves_others_their_connections_and_itself_nothing() {
    let Some(lab) = lab() else { return };
    let gateway = lab.daemon("gw", "gw", CONFIG);
    let serving = Serving::start(&lab);
    let flood = lab.inside("client", || {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("a raw socket");
        let to: SocketAddrV4 = TARGET.parse().expect("an address");
        for n in 0..5000_u32 {
            // Nobody has these addresses, so nobody answers what is sent there.
            let from = SocketAddrV4::new(Ipv4Addr::from(0x0a60_0180 + n % 100), 1024 + (n / 100) as u16);
            // Some find no room on the way; the rest is flood enough.
            let _ = raw.send_to(&syn(from, to, n), &SocketAddr::from(to).into());
        }
    });
    let results = call(&lab, plans(100, 50_000)).join().expect("called");
    flood.join().expect("flooded");
    all_exact(&results);
    assert!(number(&gateway, "most_half_open") > 0);
    gateway.wait("forget the flood", |gateway| number(gateway, "half_open") == 0 && number(gateway, "open") == 0);
    // It splits again, and nobody is left over.
    let before = number(&gateway, "opened");
    all_exact(&call(&lab, plans(20, 1000)).join().expect("called"));
    assert_eq!(number(&gateway, "opened"), before + 20);
    let served = serving.stop();
    assert_eq!((served.exact, served.wrong), (120, 0), "{served:?}");
    gateway.stop();
}

#[test]
fn peers_that_stop_reading_send_byte_by_byte_or_reset_in_mid_stream_hold_up_nobody_else() {
    let Some(lab) = lab() else { return };
    let gateway = lab.daemon("gw", "gw", CONFIG);
    let serving = Serving::start(&lab);
    // They never read: the window closes for ever, and the gateway's buffers fill.
    let mut bad = plans(60, 1 << 40);
    for (plan, n) in bad.iter_mut().zip(0..) {
        plan.ending = if n % 2 == 0 { Ending::Silent(n * 10_000) } else { Ending::Reset(n * 50_000) };
    }
    let stalled = call(&lab, bad).join().expect("called");
    assert!(stalled.records.iter().all(|record| record.fate == Fate::Abandoned), "{:?}", stalled.failure());
    let listener = lab.run("server", || TcpListener::bind("10.96.2.2:5002").expect("listens"));
    let trickle = lab.inside("client", || {
        let mut stream =
            TcpStream::connect_timeout(&"10.96.2.2:5002".parse().expect("an address"), PATIENCE).expect("connected");
        stream.set_nodelay(true).expect("set");
        for n in 0..3000_u32 {
            stream.write_all(&[n as u8]).expect("written");
        }
    });
    let mut stream = common::accept(&listener);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let others = call(&lab, plans(100, 100_000)).join().expect("called");
    all_exact(&others);
    let mut came = Vec::new();
    stream.read_to_end(&mut came).expect("read");
    trickle.join().expect("sent");
    drop(stream);
    assert!(came.len() == 3000 && came.iter().zip(0_u32..).all(|(byte, n)| *byte == n as u8));
    // All were split, and those that stall are there still.
    assert_eq!(number(&gateway, "opened"), 161);
    gateway.wait("keep only those that stall", |gateway| number(gateway, "open") == 30);
    assert!(number(&gateway, "memory_bytes") <= number(&gateway, "most_memory_bytes"));
    drop(stalled);
    gateway.wait("see them go", |gateway| number(gateway, "open") == 0);
    let served = serving.stop();
    assert_eq!((served.exact, served.wrong), (100, 0), "{served:?}");
    gateway.stop();
}

#[test]
fn while_a_gateway_that_was_killed_is_gone_traffic_passes_unsplit_and_its_successor_splits_again() {
    let Some(lab) = lab() else { return };
    let untouched = lab.traces("gw");
    let mut gateway = lab.daemon("gw", "gw", CONFIG);
    let serving = Serving::start(&lab);
    // Under load: connections that would last for ever.
    let endless = call(&lab, plans(50, 1 << 40));
    gateway.wait("split them", |gateway| number(gateway, "open") == 50);
    gateway.signal(Signal::KILL);
    gateway.ended();
    // What it had acknowledged is gone, and their ends learn it.
    let ended = endless.join().expect("called");
    assert!(ended.records.iter().all(|record| matches!(record.fate, Fate::Failed(_))), "{:?}", ended.records.first());
    let begun = Instant::now();
    all_exact(&call(&lab, plans(100, 100_000)).join().expect("called"));
    assert!(begun.elapsed() < PATIENCE);
    let gateway = lab.daemon("gw", "gw", CONFIG);
    all_exact(&call(&lab, plans(100, 100_000)).join().expect("called"));
    assert_eq!(number(&gateway, "opened"), 100);
    gateway.wait("have none open", |gateway| number(gateway, "open") == 0);
    let served = serving.stop();
    assert_eq!((served.exact, served.wrong), (200, 0), "{served:?}");
    gateway.stop();
    let end = Instant::now() + PATIENCE;
    while lab.traces("gw") != untouched && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(lab.traces("gw"), untouched);
}
