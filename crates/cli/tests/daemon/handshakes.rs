//! Floods of handshakes against a daemon: recorded ones, and ones whose senders have proved their addresses. What is claimed
//! at a rate is decided without a network in `crates/live/tests/secure_replayed.rs` and `secure_sessions.rs`.

use crate::common::*;
use fairspan_core::units::{ChannelId, Span, Time};
use fairspan_live::secure::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const HUB: &str = "192.168.3.1:51900";
/// Where nobody reads.
const DEAF: &str = "192.168.3.1:4444";
/// The networks that an attacker sends from, each a /24.
const NETWORKS: usize = 100;
/// Kinds of datagrams.
const RESPONSE: u8 = 2;
const COOKIE: u8 = 3;

/// A site, the hub that it calls, and an attacker who has many networks.
fn attacked() -> Option<Pair> {
    let lab = Lab::new(&["site", "hub", "attacker"])?;
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    lab.cable(("attacker", "eth0", "192.168.3.2/24"), ("hub", "eth2", "192.168.3.1/24"));
    lab.ip("hub", &["route", "add", "10.64.0.0/16", "via", "192.168.3.2"]);
    lab.ip("attacker", &["route", "add", "local", "10.64.0.0/16", "dev", "lo"]);
    Some(Pair { lab, site_key: keys(), hub_key: keys() })
}

/// A socket in each of the attacker's networks, to the hub's daemon.
fn sockets(lab: &Lab) -> Vec<UdpSocket> {
    sockets_to(lab, HUB)
}

fn sockets_to(lab: &Lab, hub: &str) -> Vec<UdpSocket> {
    let hub: SocketAddr = hub.parse().expect("an address");
    let open = move || {
        let socket = |n| {
            let socket = UdpSocket::bind(format!("10.64.{n}.7:4000")).expect("an address of the attacker's");
            socket.connect(hub).expect("connected");
            socket.set_nonblocking(true).expect("non-blocking");
            socket
        };
        (0..NETWORKS).map(socket).collect()
    };
    lab.run("attacker", open)
}

/// Someone with this private key, who knows the hub; `age` ago by his clock.
fn caller(key: &str, hub: &str, age: Duration) -> (Sessions, PathId) {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970") - age;
    let past = Past::forgotten(wall.as_nanos() as u64);
    let key = key.parse().expect("a key");
    let mut sessions =
        Sessions::new(Config::default(), key, Box::new(OsEntropy::new()), past, Time::ZERO).expect("the defaults");
    let peer = sessions.add_peer(PeerConfig::new(hub.parse().expect("a key"))).expect("added");
    let to = HUB.parse().expect("an address");
    let path = sessions.connect(Time::ZERO, peer, ChannelId(0), SocketId(0), to, Vec::new()).expect("a path");
    (sessions, path)
}

/// What a flood has done.
#[derive(Debug, Default)]
struct Flooded {
    sent: u64,
    /// Handshakes that were answered.
    answers: u64,
    challenges: u64,
}

/// Sends datagrams until it is stopped.
struct Flood {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Flooded>,
}

impl Flood {
    /// Each socket sends its datagrams in turn; so many a second of all.
    fn start(sockets: Vec<UdpSocket>, datagrams: Vec<Vec<u8>>, per_second: usize) -> Flood {
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let thread = std::thread::spawn(move || {
            let (mut flooded, mut next) = (Flooded::default(), 0);
            let begin = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                // Late where the machine is busy, and not the faster for it afterwards.
                let due = begin.elapsed().as_millis() as usize * per_second / 1000;
                next = next.max(due.saturating_sub(per_second / 50));
                while next < due {
                    let socket = &sockets[next % sockets.len()];
                    flooded.sent += u64::from(socket.send(&datagrams[next % datagrams.len()]).is_ok());
                    let mut answer = [0; 512];
                    while socket.recv(&mut answer).is_ok() {
                        flooded.answers += u64::from(answer[0] == RESPONSE);
                        flooded.challenges += u64::from(answer[0] == COOKIE);
                    }
                    next += 1;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            flooded
        });
        Flood { over, thread }
    }

    fn stop(self) -> Flooded {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the flood")
    }
}

/// For each socket an initiation by a key that the hub does not know, with proof of the socket's address: worth computing
/// each time that it comes.
fn proven(sockets: &[UdpSocket], hub: &str) -> Vec<Vec<u8>> {
    let proof = |socket: &UdpSocket| {
        let (mut stranger, _) = caller(&keys().0, hub, Duration::ZERO);
        let first = stranger.poll_transmit().expect("an initiation").payload;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            // The hub asks for proof only under load.
            (0..30).for_each(|_| drop(socket.send(&first)));
            std::thread::sleep(Duration::from_millis(2));
            let mut answer = [0; 512];
            while let Ok(len) = socket.recv(&mut answer) {
                let now = Time::ZERO + Span::from_millis(1);
                let from = HUB.parse().expect("an address");
                stranger.handle_datagram(now, SocketId(0), from, &answer[..len], &mut [0; 512]);
                stranger.handle_timeout(now);
                if let Some(proven) = stranger.poll_transmit() {
                    return proven.payload;
                }
            }
        }
        panic!("the hub asks for no proof");
    };
    sockets.iter().map(proof).collect()
}

#[test]
fn recorded_handshakes_get_no_answer_and_keep_nobody_out_while_both_ends_start_anew() {
    let Some(pair) = attacked() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    // What the site said an hour ago.
    let (mut former, path) = caller(&pair.site_key.0, &pair.hub_key.1, Duration::from_secs(3600));
    let mut recorded = Vec::new();
    for n in 0..1000 {
        recorded.extend(former.poll_transmit().map(|sent| sent.payload));
        former.refresh(Time::ZERO + Span::from_millis(n), path);
    }
    // Not more than a busy machine computes: what a flood that is too much does is the next test's matter.
    let flood = Flood::start(sockets(lab), recorded, 400);
    hub.wait("recordings are known", |hub| hub.counter("secure_dropped_replayed_initiation") >= 50);
    // The hub has kept what it heard, and the site what it used.
    hub.stop();
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    site.wait_up(2);
    hub.wait_up(2);
    site.stop();
    let site = lab.daemon("site", "site", &pair.site_config("", ""));
    site.wait_up(2);
    hub.wait_up(2);
    lab.echo("hub", "10.77.0.1:7");
    for _ in 0..20 {
        lab.until_answered("site", "10.77.0.2:0", "10.77.0.1:7").expect("an answer");
    }
    hub.wait("recordings are known", |hub| hub.counter("secure_dropped_replayed_initiation") >= 50);
    let flooded = flood.stop();
    assert!(flooded.sent >= 200 && flooded.answers == 0, "{flooded:?}");
    site.stop();
    hub.stop();
}

#[test]
fn traffic_passes_and_a_peer_gets_in_under_a_flood_of_handshakes_with_proof() {
    let Some(pair) = attacked() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let sockets = sockets(lab);
    let datagrams = proven(&sockets, &pair.hub_key.1);
    let flood = Flood::start(sockets, datagrams, 10_000);
    lab.transfer("site", "hub", "10.77.0.1:5001", 5);
    site.stop();
    let site = lab.daemon("site", "site", &pair.site_config("", ""));
    site.wait_up(2);
    hub.wait_up(2);
    lab.transfer("hub", "site", "10.77.0.2:5002", 5);
    hub.wait("strangers are computed", |hub| hub.counter("secure_dropped_unknown_peer") > 100);
    let flooded = flood.stop();
    assert_eq!(flooded.answers, 0, "{flooded:?}");
    site.stop();
    hub.stop();
}

#[test]
fn where_nothing_can_be_kept_check_and_the_log_say_so_and_the_daemon_works() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let config = |text: String| text.replace("SOCKET.state", "/dev/null/state");
    let hub = lab.daemon("hub", "hub", &config(pair.hub_config("", "")));
    let site = lab.daemon("site", "site", &config(pair.site_config("", "")));
    site.wait_up(2);
    lab.transfer("site", "hub", "10.77.0.1:5001", 1);
    let said = "`/dev/null/state` cannot be written: Not a directory";
    for daemon in [&site, &hub] {
        daemon.wait_log(said);
    }
    let checked = lab.fairspan("site", &["check", &lab.path("site.toml").display().to_string()]);
    let warning = String::from_utf8_lossy(&checked.stderr).into_owned();
    let right = format!("site.toml:5: interface.state_dir: {said}");
    assert!(checked.status.success() && warning.contains(&right), "{warning}");
    site.stop();
    hub.stop();
}

/// What one TCP connection from the site carries to the hub, in Mbit/s.
fn throughput(lab: &Lab) -> f64 {
    const SECONDS: u64 = 4;
    let target: SocketAddr = "10.77.0.1:5003".parse().expect("an address");
    let listener = lab.listen("hub", target);
    let sender = lab.inside("site", move || {
        let mut stream = TcpStream::connect_timeout(&target, PATIENCE).expect("connected");
        while stream.write_all(&[7; 65_536]).is_ok() {}
    });
    let mut stream = accept(&listener);
    let mut buffer = vec![0; 1 << 20];
    let mut count = |span: Duration| {
        let (begin, mut bytes) = (Instant::now(), 0);
        while begin.elapsed() < span {
            bytes += stream.read(&mut buffer).expect("read");
        }
        bytes as f64 * 8e-6 / begin.elapsed().as_secs_f64()
    };
    count(Duration::from_secs(1));
    let rate = count(Duration::from_secs(SECONDS));
    drop(stream);
    sender.join().expect("sent");
    rate
}

#[test]
#[ignore = "a measurement: run it with `--profile demo` on a machine that does nothing else"]
fn ten_thousand_proven_handshakes_a_second_leave_four_fifths_of_the_throughput() {
    const ROUNDS: usize = 5;
    let Some(pair) = attacked() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let datagrams = proven(&sockets(lab), &pair.hub_key.1);
    // Takes a few datagrams and drops all others: what a flood costs the machine and not the daemon.
    let deaf = lab.udp("hub", DEAF);
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        rates[0].push(throughput(lab));
        let flood = Flood::start(sockets_to(lab, DEAF), datagrams.clone(), 10_000);
        rates[1].push(throughput(lab));
        flood.stop();
        let before = hub.counter("secure_dropped_unknown_peer");
        let begin = Instant::now();
        let flood = Flood::start(sockets(lab), datagrams.clone(), 10_000);
        rates[2].push(throughput(lab));
        let (flooded, span) = (flood.stop(), begin.elapsed().as_secs_f64());
        let computed = hub.counter("secure_dropped_unknown_peer") - before;
        println!(
            "round {round}: {:.1} Mbit/s without, {:.1} with a flood that nobody reads, {:.1} with {:.0} handshakes a second, {:.0} of \
             them computed, {} challenged",
            rates[0][round],
            rates[1][round],
            rates[2][round],
            flooded.sent as f64 / span,
            computed as f64 / span,
            flooded.challenges,
        );
        assert_eq!(flooded.answers, 0);
    }
    drop(deaf);
    let [without, unread, with] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[ROUNDS / 2]
    });
    println!(
        "medians of {ROUNDS}: {without:.1} Mbit/s without, {unread:.1} with a flood that nobody reads ({:.0} %), {with:.1} with \
         handshakes ({:.0} %)",
        100.0 * unread / without,
        100.0 * with / without,
    );
    assert!(with >= 0.8 * without);
    site.stop();
    hub.stop();
}
