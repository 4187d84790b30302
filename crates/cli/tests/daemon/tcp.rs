//! Channels over TCP, where nothing else gets through.

use crate::common::*;
use crate::reload::{Flow, reload, reload_with};
use fairspan_live::control;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A site and the hub that it calls, joined by `eth0` and `eth1`, both of which let no UDP through where `blocked`.
pub(crate) fn pair(blocked: bool) -> Option<Pair> {
    let lab = Lab::new(&["site", "hub", "attacker"])?;
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    for (n, device) in [(1, "eth0"), (2, "eth1")] {
        pair.lab.ip("site", &["address", "add", &format!("fd0{n}::2/64"), "dev", device, "nodad"]);
        pair.lab.ip("hub", &["address", "add", &format!("fd0{n}::1/64"), "dev", device, "nodad"]);
    }
    // What is dropped is looked for before what is for this host.
    for namespace in ["site", "hub"] {
        for family in ["-4", "-6"] {
            pair.lab.ip(namespace, &[family, "rule", "add", "pref", "10", "lookup", "local"]);
            pair.lab.ip(namespace, &[family, "rule", "del", "pref", "0"]);
        }
    }
    if blocked {
        block_udp(&pair.lab, "eth0");
        block_udp(&pair.lab, "eth1");
    }
    Some(pair)
}

/// No UDP passes between the two by this device, in either direction, and nobody is told.
fn block_udp(lab: &Lab, device: &str) {
    change_rules(lab, "add", &["site", "hub"], device);
}

/// `ip rule add` or `del` of what drops UDP where it comes in at these.
pub(crate) fn change_rules(lab: &Lab, change: &str, namespaces: &[&str], device: &str) {
    for namespace in namespaces {
        for family in ["-4", "-6"] {
            lab.ip(namespace, &[family, "rule", change, "pref", "5", "iif", device, "ipproto", "udp", "blackhole"]);
        }
    }
}

/// A `[[peer.channel]]` over TCP.
pub(crate) fn tcp(name: &str, device: &str, endpoint: &str) -> String {
    udp(name, device, endpoint).replace("\"udp\"", "\"tcp\"")
}

/// The site's configuration, with these channels.
pub(crate) fn site_with(pair: &Pair, peer_more: &str, channels: &str) -> String {
    interface("fs0", "[\"10.77.0.2/24\", \"fd77::2/64\"]", &pair.site_key.0, "")
        + &peer("hub", &pair.hub_key.1, "[\"10.77.0.1/32\", \"fd77::1/128\"]", peer_more)
        + channels
}

pub(crate) const LISTENS: &str = "listen_tcp_port = 443\n";

/// Bytes that the first peer's channel of this name has sent.
fn sent(daemon: &Daemon, channel: &str) -> u64 {
    let status = daemon.status();
    let channels = status["peers"][0]["channels"].as_array().expect("channels");
    let found = channels.iter().find(|c| c["name"] == channel).expect("the channel");
    found["counters"]["sent_bytes"].as_u64().expect("a counter")
}

/// Bytes that a daemon has written to connections.
fn bytes_sent(socket: &std::path::Path) -> u64 {
    let answer = control::ask(socket, &control::Request::Status).unwrap_or_default();
    let status: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
    status["counters"]["stream_sent_bytes"].as_u64().unwrap_or_default()
}

/// What a channel runs over now.
pub(crate) fn kind(daemon: &Daemon, channel: &str) -> String {
    let status = daemon.status();
    let channels = status["peers"][0]["channels"].as_array().expect("channels");
    let found = channels.iter().find(|c| c["name"] == channel);
    found.map_or_else(String::new, |c| c["kind"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn where_no_udp_passes_a_tcp_channel_carries_everything_both_ways_over_ipv4_and_ipv6() {
    let Some(pair) = pair(true) else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, ""));
    for (endpoint, source) in [("192.168.1.1:443", ""), ("[fd01::1]:443", "source = \"fd01::2\"\n")] {
        let channel = tcp("one", "eth0", endpoint) + source;
        // Also where nothing else may leave the host.
        let config = site_with(&pair, "", &channel).replace("[interface]\n", "[interface]\nlock = true\n");
        let site = lab.daemon("site", "site", &config);
        site.wait_up(1);
        hub.wait_up(1);
        assert_eq!((kind(&site, "one"), kind(&hub, "one")), ("tcp".into(), "tcp".into()));
        // Whole packets of the usual size fit.
        assert!(site.status()["peers"][0]["mtu"].as_u64() >= Some(1380), "{}", site.status());
        lab.transfer("site", "hub", "10.77.0.1:5001", 20);
        lab.transfer("hub", "site", "10.77.0.2:5002", 20);
        lab.transfer("site", "hub", "[fd77::1]:5003", 3);
        assert_eq!((site.counter("stream_connected"), site.counter("stream_closed")), (1, 0));
        let before = hub.counter("stream_closed");
        site.stop();
        hub.wait("the connection is closed", |hub| hub.counter("stream_closed") == before + 1);
    }
    hub.stop();
}

#[test]
fn a_udp_and_a_tcp_channel_make_one_bond_in_order() {
    let Some(pair) = pair(false) else { return };
    let lab = &pair.lab;
    block_udp(lab, "eth1");
    let mode = format!("mode = \"reliable\"\n{EQUAL_SHARES}");
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, &mode));
    let channels = udp("one", "eth0", "192.168.1.1:51900") + &tcp("two", "eth1", "192.168.2.1:443");
    let site = lab.daemon("site", "site", &site_with(&pair, &mode, &channels));
    site.wait_up(2);
    hub.wait_up(2);
    assert_eq!((kind(&site, "one"), kind(&site, "two")), ("udp".into(), "tcp".into()));
    lab.transfer("site", "hub", "10.77.0.1:5001", 30);
    lab.transfer("hub", "site", "10.77.0.2:5002", 30);
    for daemon in [&site, &hub] {
        for channel in ["one", "two"] {
            assert!(sent(daemon, channel) > 2_000_000, "{channel}: {}", daemon.status());
        }
        assert_eq!(daemon.peer_counter("packets_missing"), 0);
    }
    site.stop();
    hub.stop();
}

#[test]
fn a_connection_killed_in_the_middle_of_a_transfer_is_made_again_and_all_bytes_arrive() {
    let Some(pair) = pair(true) else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, ""));
    let site = lab.daemon("site", "site", &site_with(&pair, "", &tcp("one", "eth0", "192.168.1.1:443")));
    site.wait_up(1);
    hub.wait_up(1);
    // More of them so soon after each other would be waited for until the session takes the silence for a loss.
    for (n, end) in ["site", "hub"].into_iter().enumerate() {
        let before = [site.counter("stream_connected"), hub.counter("stream_accepted")];
        let killer = {
            let (name, socket) = (lab.name(end), site.socket.clone());
            std::thread::spawn(move || {
                // Once the transfer has begun.
                let begun = bytes_sent(&socket);
                while bytes_sent(&socket) < begun + 5_000_000 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let mut ss = Command::new("ip");
                ss.args(["netns", "exec", &name, "ss", "-K", "-tn", "( sport = :443 or dport = :443 )"]);
                let killed = child::output(&mut ss);
                assert!(String::from_utf8_lossy(&killed.stdout).contains(":443"), "{killed:?}");
            })
        };
        lab.transfer("site", "hub", &format!("10.77.0.1:{}", 5001 + n), 30);
        killer.join().expect("killed");
        site.wait("connected anew", |site| site.counter("stream_connected") > before[0]);
        hub.wait("accepted anew", |hub| hub.counter("stream_accepted") > before[1]);
    }
    site.wait_up(1);
    hub.wait_up(1);
    // The same session goes on: no handshake was needed for it.
    assert_eq!(site.counter("secure_handshakes"), 1);
    site.stop();
    hub.stop();
}

/// Lets UDP through again.
fn unblock_udp(lab: &Lab, device: &str) {
    change_rules(lab, "del", &["site", "hub"], device);
}

#[test]
fn a_udp_channel_goes_over_tcp_when_udp_is_blocked_under_a_transfer_and_back_when_it_passes_again() {
    let Some(pair) = pair(false) else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, ""));
    let channel = udp("one", "eth0", "192.168.1.1:51900") + "tcp_endpoint = \"192.168.1.1:443\"\n";
    let site = lab.daemon("site", "site", &site_with(&pair, "", &channel));
    site.wait_up(1);
    hub.wait_up(1);
    lab.transfer("hub", "site", "10.77.0.2:5000", 1);
    assert_eq!((kind(&site, "one"), site.counter("stream_connected")), ("udp".into(), 0));
    let before = site.status()["peers"][0]["mtu"].as_u64();
    std::thread::scope(|scope| {
        let transfer = scope.spawn(|| lab.transfer("site", "hub", "10.77.0.1:5001", 40));
        let begun = sent(&site, "one");
        site.wait("the transfer", |site| sent(site, "one") > begun + 5_000_000);
        block_udp(lab, "eth0");
        transfer.join().expect("all of it, in order");
    });
    site.wait("it goes over", |site| kind(site, "one") == "tcp" && site.channels_up() == 1);
    hub.wait("so does the peer", |hub| kind(hub, "one") == "tcp" && hub.channels_up() == 1);
    assert_eq!(site.status()["peers"][0]["mtu"].as_u64(), before, "the same packets fit");
    lab.transfer("hub", "site", "10.77.0.2:5002", 10);
    unblock_udp(lab, "eth0");
    site.wait("it goes back", |site| kind(site, "one") == "udp");
    hub.wait("its connection is closed", |hub| hub.counter("stream_closed") == 1);
    hub.wait("so does the peer", |hub| kind(hub, "one") == "udp");
    let written = site.counter("stream_sent_bytes");
    lab.transfer("site", "hub", "10.77.0.1:5003", 5);
    assert_eq!((site.counter("stream_sent_bytes"), site.channels_up()), (written, 1));
    // It was never given up, and one connection was enough.
    assert_eq!((site.counter("stream_connected"), site.log().matches("channel connected").count()), (1, 1));
    site.stop();
    hub.stop();
}

#[test]
fn where_udp_never_passed_channels_with_a_tcp_endpoint_come_up_over_it() {
    let Some(pair) = pair(true) else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, EQUAL_SHARES));
    let channels = udp("one", "eth0", "192.168.1.1:51900")
        + "tcp_endpoint = \"192.168.1.1:443\"\n"
        + &udp("two", "eth1", "[fd02::1]:51900")
        + "source = \"fd02::2\"\ntcp_endpoint = \"[fd02::1]:443\"\n";
    let site = lab.daemon("site", "site", &site_with(&pair, EQUAL_SHARES, &channels));
    site.wait_up(2);
    hub.wait_up(2);
    for daemon in [&site, &hub] {
        assert_eq!((kind(daemon, "one"), kind(daemon, "two")), ("tcp".into(), "tcp".into()));
    }
    lab.transfer("site", "hub", "10.77.0.1:5001", 10);
    lab.transfer("hub", "site", "10.77.0.2:5002", 10);
    site.stop();
    hub.stop();
}

#[test]
fn a_peer_that_reads_nothing_for_long_costs_its_connection_and_nothing_else() {
    let Some(pair) = pair(true) else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, ""));
    let site = lab.daemon("site", "site", &site_with(&pair, "", &tcp("one", "eth0", "192.168.1.1:443")));
    site.wait_up(1);
    hub.wait_up(1);
    let before = memory(&hub);
    let (over, sender) = (Arc::new(AtomicBool::new(false)), lab.udp("hub", "10.77.0.1:0"));
    let flood = std::thread::spawn({
        let over = over.clone();
        move || {
            while !over.load(Ordering::Relaxed) {
                let _ = sender.send_to(&[7; 1300], "10.77.0.2:9");
            }
        }
    });
    site.signal(Signal::STOP);
    hub.wait("the connection is given up", |hub| hub.counter("stream_closed") > 0);
    over.store(true, Ordering::Relaxed);
    flood.join().expect("the flood");
    let grown = memory(&hub).saturating_sub(before);
    assert!(grown < 150_000_000, "{grown} bytes more");
    site.signal(Signal::CONT);
    hub.wait_up(1);
    site.wait_up(1);
    lab.transfer("hub", "site", "10.77.0.2:5001", 3);
    site.stop();
    hub.stop();
}

/// Bytes that a process has resident.
fn memory(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", daemon.pid())).expect("a process");
    4096 * text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages")
}

/// Descriptors that a process has open.
fn descriptors(daemon: &Daemon) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("a process").count()
}

/// What the attacker connects to.
const ATTACKED: &str = "192.168.3.1:443";
/// The networks that he has, each a /24.
const NETWORKS: u8 = 100;

/// A socket that connects from one of the attacker's networks, and does not wait for that.
fn connecting(n: usize, host: usize) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).ok()?;
    socket.set_nonblocking(true).ok()?;
    let from = SocketAddr::from(([10, 64, (n % usize::from(NETWORKS)) as u8, host as u8], 0));
    socket.bind(&from.into()).ok()?;
    let to: SocketAddr = ATTACKED.parse().ok()?;
    let _ = socket.connect(&to.into());
    Some(socket)
}

/// Holds a thousand connections, each of which sends the beginning of a datagram, a byte now and then; one that is closed is made
/// anew. Every now and then others come and send rubbish, or the length of nothing, and some break off. How many were made.
fn attack(lab: &Lab, over: &Arc<AtomicBool>, made: &Arc<AtomicU64>) -> JoinHandle<()> {
    let (over, made) = (over.clone(), made.clone());
    lab.inside("attacker", move || {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("descriptors");
        let mut rng = fairspan_core::rng::Rng::new(7);
        let mut held: Vec<Option<Socket>> = (0..1000).map(|_| None).collect();
        while !over.load(Ordering::Relaxed) {
            for (n, place) in held.iter_mut().enumerate() {
                let lives =
                    place.as_mut().is_some_and(|socket| match socket.write(if n % 2 == 0 { &[1] } else { &[0] }) {
                        Ok(_) => true,
                        Err(error) => matches!(error.kind(), std::io::ErrorKind::WouldBlock),
                    });
                if !lives {
                    *place = connecting(n, 1 + n / usize::from(NETWORKS));
                    made.fetch_add(1, Ordering::Relaxed);
                }
            }
            for n in 0..30 {
                let Some(mut socket) = connecting(n, 100) else { continue };
                std::thread::sleep(Duration::from_millis(2));
                let rubbish: Vec<u8> = match n % 3 {
                    0 => vec![0xff; 2000],
                    1 => vec![0; 2],
                    // A datagram that is none.
                    _ => [&[0, 200][..], &(0..200).map(|_| rng.next_u64() as u8).collect::<Vec<_>>()].concat(),
                };
                let _ = socket.write(&rubbish);
                let _ = socket.set_linger((n % 2 == 0).then_some(Duration::ZERO));
            }
        }
    })
}

#[test]
fn strangers_who_hold_connections_or_send_rubbish_keep_no_peer_out_and_cost_little() {
    let Some(pair) = pair(true) else { return };
    let lab = &pair.lab;
    lab.cable(("attacker", "eth0", "192.168.3.2/24"), ("hub", "eth2", "192.168.3.1/24"));
    lab.ip("hub", &["route", "add", "10.64.0.0/16", "via", "192.168.3.2"]);
    lab.ip("attacker", &["route", "add", "local", "10.64.0.0/16", "dev", "lo"]);
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, ""));
    let (before, open) = (memory(&hub), descriptors(&hub));
    // One who says nothing at all.
    let mut silent = lab.run("site", || TcpStream::connect("192.168.1.1:443").expect("connected"));
    let (over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let attack = attack(lab, &over, &made);
    hub.wait("the attack", |hub| hub.counter("stream_evicted") > 1000 && hub.counter("stream_bad_length") > 20);
    let site = lab.daemon("site", "site", &site_with(&pair, "", &tcp("one", "eth0", "192.168.1.1:443")));
    site.wait_up(1);
    hub.wait_up(1);
    let begin = Instant::now();
    lab.transfer("site", "hub", "10.77.0.1:5001", 5);
    println!("5 MB in {:?} beside {} connections", begin.elapsed(), made.load(Ordering::Relaxed));
    assert!(descriptors(&hub) <= open + 300, "{} descriptors", descriptors(&hub));
    let grown = memory(&hub).saturating_sub(before);
    assert!(grown < 60_000_000, "{grown} bytes more");
    assert_eq!((site.counter("stream_connected"), site.counter("stream_closed")), (1, 0));
    silent.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(silent.read(&mut [0]).expect("closed in order"), 0);
    over.store(true, Ordering::Relaxed);
    attack.join().expect("the attack");
    // Nobody is left but the peer.
    hub.wait("they are gone", |hub| descriptors(hub) <= open + 1);
    assert!(hub.counter("stream_unproven") > 0);
    assert_eq!(site.counter("stream_closed"), 0);
    site.stop();
    hub.stop();
}

#[test]
fn tcp_channels_come_change_and_go_while_a_connection_within_the_bond_goes_on() {
    let Some(pair) = pair(true) else { return };
    let lab = &pair.lab;
    let config = |channels: &[&str]| site_with(&pair, EQUAL_SHARES, &channels.concat());
    let (one, two) = (tcp("one", "eth0", "192.168.1.1:443"), tcp("two", "eth1", "192.168.2.1:443"));
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, EQUAL_SHARES));
    let site = lab.daemon("site", "site", &config(&[&one]));
    site.wait_up(1);
    hub.wait_up(1);
    let flow = Flow::start(lab, "site", "hub", "10.77.0.1:5001");
    flow.goes_on(1_000_000);
    assert_eq!(reload(lab, "site", &site, &config(&[&one, &two])), ["peer hub: channel two: added"]);
    site.wait_up(2);
    hub.wait_up(2);
    let six = two.replace("192.168.2.1", "[fd02::1]");
    reload(lab, "site", &site, &config(&[&one, &six]));
    site.wait_up(2);
    hub.wait("it came from elsewhere", |hub| hub.channels_up() == 2 && hub.status().to_string().contains("[fd02::2]"));
    flow.goes_on(1_000_000);
    // A UDP channel that goes over TCP is one more thing that comes and goes.
    let back = udp("two", "eth1", "192.168.2.1:51900") + "tcp_endpoint = \"192.168.2.1:443\"\n";
    let channels = config(&[&one, &back]);
    lab.config("site", &channels);
    let refused = reload_with(lab, "site", &site, &["--json"]);
    assert!(String::from_utf8_lossy(&refused.stdout).contains("peer.channel.kind"), "no UDP so far: {refused:?}");
    let elsewhere = config(&[&one, &two.replace(":443", ":444")]);
    lab.config("site", &elsewhere);
    let refused = reload_with(lab, "site", &site, &["--json"]);
    assert!(String::from_utf8_lossy(&refused.stdout).contains("peer.channel.endpoint"), "{refused:?}");
    let changed = reload(lab, "site", &site, &config(&[&six]));
    assert_eq!(changed[0], "peer hub: channel one: removed", "{changed:?}");
    site.wait("one is left", |site| site.channels_up() == 1 && site.state("one").is_empty());
    hub.wait("there too", |hub| hub.channels_up() == 1 && hub.state("one").is_empty());
    flow.goes_on(1_000_000);
    flow.stop();
    site.stop();
    hub.stop();
}
