//! What strangers, forgers and misconfigured peers can do to a daemon: be counted, by name.

use crate::common::*;
use fairspan_core::rng::Rng;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// ETH_P_IP in network byte order, as packet sockets want it.
const IPV4: i32 = 0x0800_u16.to_be() as i32;

/// The payloads of the next `count` datagrams that reach a namespace's first link, from or to the hub's port.
fn overhear(lab: &Lab, namespace: &str, count: usize) -> JoinHandle<Vec<Vec<u8>>> {
    lab.inside(namespace, move || {
        let mut socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(IPV4))).expect("a packet socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut datagrams = Vec::new();
        let mut packet = vec![0; 65_536];
        while datagrams.len() < count {
            let len = socket.read(&mut packet).expect("traffic");
            let port = 51900u16.to_be_bytes();
            let outer = len > 28 && packet[0] == 0x45 && packet[9] == 17 && packet[12..15] == [192, 168, 1];
            if outer && (packet[20..22] == port || packet[22..24] == port) {
                datagrams.push(packet[28..len].to_vec());
            }
        }
        datagrams
    })
}

/// All datagrams that the session layer dropped, whatever the reason.
fn dropped(daemon: &Daemon) -> u64 {
    let status = daemon.status();
    let all = status["counters"].as_object().expect("counters").iter();
    all.filter(|(name, _)| name.starts_with("secure_dropped_")).filter_map(|(_, n)| n.as_u64()).sum()
}

#[test]
fn with_padding_no_length_on_the_wire_tells_more_than_sixteens_and_the_largest_packets_pass() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let site = lab.daemon("site", "site", &pair.site_config("padding = true\n", ""));
    site.wait_up(2);
    hub.wait_up(2);
    // One datagram at a time, as a real wire has them.
    lab.ip("site", &["link", "set", "eth0", "gso_max_segs", "1"]);
    let heard = overhear(lab, "hub", 300);
    let small = lab.udp("site", "10.77.0.2:0");
    let end = Instant::now() + PATIENCE;
    while !heard.is_finished() && Instant::now() < end {
        for len in (1..200).step_by(3) {
            small.send_to(&vec![0; len], "10.77.0.1:9").expect("a packet");
        }
        // Whole segments one way, acknowledgements the other.
        lab.transfer("site", "hub", "10.77.0.1:5001", 1);
        lab.transfer("hub", "site", "10.77.0.2:5002", 1);
    }
    let heard = heard.join().expect("heard");
    let lengths: Vec<usize> = heard.iter().filter(|datagram| datagram[0] & 0x80 != 0).map(Vec::len).collect();
    assert!(lengths.len() > 200 && lengths.iter().max() > Some(&1300), "{lengths:?}");
    assert!(lengths.iter().all(|len| len % 16 == lengths[0] % 16), "{lengths:?}");
    // The most that padding adds is left free, and nothing had to be sent in pieces.
    let fits = |daemon: &Daemon| daemon.status()["peers"][0]["mtu"].as_u64();
    site.wait("what fits with padding", |site| fits(site).map(|mtu| mtu + 15) == fits(&hub));
    assert_eq!(site.counter("socket_too_big"), 0);
}

#[test]
fn every_datagram_of_a_stranger_is_counted_and_traffic_goes_on_unharmed() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let (to_hub, to_site) = (overhear(lab, "hub", 40), overhear(lab, "site", 40));
    lab.echo("hub", "10.77.0.1:7");
    let end = Instant::now() + PATIENCE;
    while !(to_hub.is_finished() && to_site.is_finished()) && Instant::now() < end {
        lab.until_answered("site", "10.77.0.2:0", "10.77.0.1:7").expect("an answer");
    }
    let (to_hub, to_site) = (to_hub.join().expect("heard"), to_site.join().expect("heard"));
    let replayable = |d: &&Vec<u8>| d[0] & 0x80 != 0;
    let data: Vec<&Vec<u8>> = to_hub.iter().filter(replayable).collect();
    assert!(
        data.len() > 20,
        "data datagrams start with their kind: {:?}",
        to_hub.iter().map(|d| d[0]).collect::<Vec<_>>()
    );
    let memory = resident(hub.pid());

    let over = std::sync::Arc::new(AtomicBool::new(false));
    let before = dropped(&hub);
    let attacker = lab.udp("site", "192.168.1.2:0");
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let flood = std::thread::spawn({
        let (over, to_hub) = (over.clone(), to_hub.clone());
        move || {
            let mut rng = Rng::new(seed);
            let mut sent = 0u64;
            let mut send = |bytes: &[u8]| {
                sent += u64::from(attacker.send_to(bytes, "192.168.1.1:51900").is_ok());
                // Slow enough that the socket's buffer never overflows: each is to be counted.
                if sent.is_multiple_of(8) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            while !over.load(Ordering::Relaxed) {
                for d in to_hub.iter().filter(|d| d[0] & 0x80 != 0) {
                    send(d);
                    let mut bad = d.clone();
                    let at = (rng.next_u64() as usize) % bad.len();
                    bad[at] ^= 1 << (rng.next_u64() % 8);
                    send(&bad);
                    send(&d[..(rng.next_u64() as usize) % d.len()]);
                    send(&[d.as_slice(), &[0; 100]].concat());
                }
                for d in &to_site {
                    send(d);
                }
                for kind in (0..7u8).chain([0x80, 0xff]) {
                    let len = 1 + (rng.next_u64() as usize) % 1400;
                    let mut random: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                    send(&random);
                    random[0] = kind;
                    random.iter_mut().skip(1).take(3).for_each(|b| *b = 0);
                    send(&random);
                }
                send(&vec![5; 60_000]);
                send(&[]);
            }
            sent
        }
    });
    for (from, to, target) in [("site", "hub", "10.77.0.1:5001"), ("hub", "site", "10.77.0.2:5002")] {
        lab.transfer(from, to, target, 15);
    }
    over.store(true, Ordering::Relaxed);
    let sent = flood.join().expect("the flood");
    assert!(sent > 500, "{sent}");
    // What the kernel threw away before the daemon, which waited for a processor, could read it, nobody could count.
    let overflown = lab.run("hub", || udp_counter("RcvbufErrors"));
    // A flipped bit may hit what is not authenticated or turn one drop into another, but nothing that was sent may be
    // taken; the handshakes of the running sessions are not among the drops.
    hub.wait("all are counted", |hub| dropped(hub) - before + overflown >= sent - sent / 100);
    for reason in ["truncated", "unknown_kind", "replayed", "authentication", "unknown_index", "bad_mac"] {
        let name = format!("secure_dropped_{reason}");
        assert!(hub.counter(&name) > 0, "{name} in {}", hub.status());
    }
    for daemon in [&site, &hub] {
        assert_eq!(daemon.counter("spoofed_source"), 0);
        daemon.wait_up(2);
    }
    let grown = resident(hub.pid()).saturating_sub(memory);
    assert!(grown < 64_000, "{grown} kB more than before the flood");
    site.stop();
    hub.stop();
}

/// One of the counters that the kernel keeps of UDP in this namespace.
fn udp_counter(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("/proc");
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:")).map(str::split_whitespace);
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let (_, value) = names.zip(values).find(|(found, _)| *found == name).expect("the counter");
    value.parse().expect("a number")
}

/// Resident memory in kB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

#[test]
fn a_key_that_nobody_configured_is_refused_and_named() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let (other, other_public) = keys();
    let site = lab.daemon("site", "site", &pair.site_config("", "").replace(&pair.site_key.0, &other));
    hub.wait("the stranger is counted", |hub| hub.counter("secure_dropped_unknown_peer") > 0);
    hub.wait_log(&format!("a handshake came with a key that no peer has, {other_public}"));
    site.wait("it says that nobody answers", |site| reason(site, 0).contains("no answer to"));
    assert_eq!((site.channels_up(), hub.channels_up()), (0, 0));
    site.stop();

    // The hub's key is wrong at the site: the hub cannot even tell who calls.
    let site = lab.daemon("site", "site", &pair.site_config("", "").replace(&pair.hub_key.1, &other_public));
    hub.wait("it was not meant for the hub", |hub| hub.counter("secure_dropped_bad_mac") > 0);
    hub.wait_log("the handshake is for another public key than this end's");
    site.wait("it says that nobody answers", |site| reason(site, 0).contains("has it this end's public key"));
    assert_eq!((site.channels_up(), hub.channels_up()), (0, 0));
    site.stop();
    hub.stop();
}

#[test]
fn preshared_keys_that_differ_are_refused_and_named() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let psk = |key: &str| format!("preshared_key = \"{key}\"");
    let (one, other) = (keys().1, keys().1);
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", &psk(&one)));
    let site = lab.daemon("site", "site", &pair.site_config("", &psk(&other)));
    site.wait("counted", |site| site.counter("secure_dropped_response_authentication") > 0);
    site.wait_log("are the pre-shared keys of both ends the same?");
    site.wait("it says why", |site| reason(site, 0).contains("are the pre-shared keys"));
    assert_eq!((site.channels_up(), hub.channels_up()), (0, 0));
    site.stop();
    let site = lab.daemon("site", "site", &pair.site_config("", &psk(&one)));
    site.wait_up(2);
    assert_eq!((reason(&site, 0), reason(&site, 1)), (String::new(), String::new()));
    lab.transfer("site", "hub", "10.77.0.1:5001", 1);
    site.stop();
    hub.stop();
}

/// Why a channel of the first peer does not connect, as the status says it.
pub(crate) fn reason(daemon: &Daemon, channel: usize) -> String {
    daemon.status()["peers"][0]["channels"][channel]["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_channel_that_does_not_connect_says_why() {
    let Some(lab) = Lab::new(&["site", "hub"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    lab.ip("site", &["link", "set", "eth1", "down"]);
    // Nobody answers there, and nothing refuses.
    let _silent = lab.udp("hub", "192.168.1.1:51900");
    let config = interface("fs0", "[\"10.77.0.2/24\"]", &keys().0, "")
        + &peer("hub", &keys().1, "[\"10.77.0.1/32\"]", "")
        + &udp("silent", "eth0", "192.168.1.1:51900")
        + &udp("absent", "eth7", "192.168.7.1:51900")
        + &udp("down", "eth1", "192.168.2.1:51900")
        + "[[peer.channel]]\nname = \"unrouted\"\nkind = \"udp\"\nendpoint = \"203.0.113.1:51900\"\n";
    let site = lab.daemon("site", "site", &config);
    for (channel, words) in ["no answer to", "does not exist", "is down", "there is no route"].iter().enumerate() {
        site.wait(words, |site| reason(site, channel).contains(words));
    }
    let socket = site.socket.display().to_string();
    let shown = lab.fairspan("site", &["status", "--socket", &socket]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("  unrouted: nothing can be sent"), "{shown:?}");
    site.stop();
}

#[test]
fn a_mode_that_cannot_work_with_the_peers_is_told_at_both_ends() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", "mode = \"stripe\""));
    let site = lab.daemon("site", "site", &pair.site_config("", ""));
    for (daemon, theirs) in [(&site, "stripe"), (&hub, "reliable")] {
        daemon.wait_log("mode stripe works only where both ends use it");
        assert_eq!(daemon.status()["peers"][0]["peer_mode"], theirs);
    }
    site.stop();
    hub.stop();
}

#[test]
fn an_authenticated_peer_cannot_speak_for_another() {
    let Some(lab) = Lab::new(&["one", "two", "hub"]) else { return };
    lab.cable(("one", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("two", "eth0", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    let (one, two, hub_key) = (keys(), keys(), keys());
    let hub = interface("fs0", "[\"10.77.0.1/24\"]", &hub_key.0, "listen_port = 51900")
        + &peer("one", &one.1, "[\"10.77.0.2/32\"]", "")
        + &peer("two", &two.1, "[\"10.77.0.3/32\"]", "");
    let site = |key: &str, address: &str, endpoint: &str| {
        interface("fs0", &format!("[\"{address}/24\"]"), key, "")
            + &peer("hub", &hub_key.1, "[\"10.77.0.1/32\", \"10.77.0.0/24\"]", "")
            + &udp("link", "eth0", endpoint)
    };
    let hub = lab.daemon("hub", "hub", &hub);
    let first = lab.daemon("one", "one", &site(&one.0, "10.77.0.2", "192.168.1.1:51900"));
    let second = lab.daemon("two", "two", &site(&two.0, "10.77.0.3", "192.168.2.1:51900"));
    for (daemon, channels) in [(&hub, 2), (&first, 1), (&second, 1)] {
        daemon.wait_up(channels);
    }
    // Both at once over one port and one interface.
    std::thread::scope(|scope| {
        scope.spawn(|| lab.transfer("one", "hub", "10.77.0.1:5001", 10));
        scope.spawn(|| lab.transfer("two", "hub", "10.77.0.1:5002", 10));
        scope.spawn(|| lab.transfer("hub", "one", "10.77.0.2:5003", 10));
    });
    // The second takes the first one's address.
    lab.ip("two", &["address", "add", "10.77.0.2/32", "dev", "fs0"]);
    let victim = lab.udp("hub", "10.77.0.1:9999");
    let liar = lab.udp("two", "10.77.0.2:9998");
    hub.wait("counted", |hub| {
        liar.send_to(b"I am the first", "10.77.0.1:9999").expect("sent");
        hub.counter("spoofed_source") >= 20
    });
    assert!(victim.recv_from(&mut [0; 64]).is_err(), "not one got through");
    let honest = lab.udp("two", "10.77.0.3:9998");
    let from = lab.until_received(&honest, b"I am the second", &victim);
    assert_eq!(from.ip(), ip_of("10.77.0.3"));
    drop((first, second, hub));
}
