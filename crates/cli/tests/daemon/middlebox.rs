//! Channels in networks whose boxes in between let pass what they like.

use crate::common::*;
use crate::tcp::{LISTENS, change_rules, kind, pair, site_with, tcp};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[test]
fn where_udp_passes_in_one_direction_only_a_channel_goes_over_tcp_whichever_direction_that_is() {
    let Some(pair) = pair(false) else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, EQUAL_SHARES));
    let channels = udp("one", "eth0", "192.168.1.1:51900")
        + "tcp_endpoint = \"192.168.1.1:443\"\n"
        + &udp("two", "eth1", "192.168.2.1:51900")
        + "tcp_endpoint = \"192.168.2.1:443\"\n";
    let site = lab.daemon("site", "site", &site_with(&pair, EQUAL_SHARES, &channels));
    site.wait_up(2);
    hub.wait_up(2);
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    change_rules(lab, "add", &["hub"], "eth0");
    change_rules(lab, "add", &["site"], "eth1");
    for name in ["one", "two"] {
        site.wait("it goes over", |site| kind(site, name) == "tcp" && site.state(name) == "up");
        hub.wait("so does the peer", |hub| kind(hub, name) == "tcp" && hub.state(name) == "up");
    }
    lab.transfer("site", "hub", "10.77.0.1:5002", 5);
    lab.transfer("hub", "site", "10.77.0.2:5003", 5);
    site.stop();
    hub.stop();
}

/// What a box does with connections, besides passing them on.
#[derive(Default)]
struct Passing {
    over: AtomicBool,
    /// Of so many, the first ones, it takes all that comes, and passes on nothing.
    dead: AtomicUsize,
    /// It ends so many, the first ones, after one exchange.
    ends: AtomicUsize,
    /// When each came, and when it was ended.
    times: Mutex<Vec<(Instant, Option<Instant>)>>,
}

impl Passing {
    fn accepted(&self) -> usize {
        self.times.lock().expect("whole").len()
    }

    /// Passes on what `from` brings; `answers`: it is the end that was called.
    fn pass_on(&self, number: usize, mut from: &TcpStream, mut to: &TcpStream, answers: bool) {
        from.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let (mut buffer, mut reads) = ([0; 65_536], 0);
        while !self.over.load(Ordering::Relaxed) {
            let read = from.read(&mut buffer);
            if number < self.dead.load(Ordering::Relaxed) {
                // Not even that the other end is gone.
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            match read {
                Ok(0) => break,
                Ok(len) => {
                    let passed = to.write_all(&buffer[..len]);
                    reads += 1;
                    // The second answer is one to what followed the first.
                    if passed.is_err() || (answers && reads == 2 && number < self.ends.load(Ordering::Relaxed)) {
                        break;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        self.times.lock().expect("whole")[number].1.get_or_insert_with(Instant::now);
        for end in [from, to] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// A box in the hub's namespace, at whose port 8443 connections to the hub's port 443 are passed on.
struct Middlebox {
    inner: Arc<Passing>,
    listener: Option<JoinHandle<()>>,
}

impl Middlebox {
    fn start(lab: &Lab) -> Middlebox {
        let inner = Arc::<Passing>::default();
        let listener = lab.listen("hub", "0.0.0.0:8443");
        listener.set_nonblocking(true).expect("non-blocking");
        let listener = lab.inside("hub", {
            let inner = inner.clone();
            move || {
                std::thread::scope(|scope| {
                    while !inner.over.load(Ordering::Relaxed) {
                        let Ok((near, _)) = listener.accept() else {
                            std::thread::sleep(Duration::from_millis(5));
                            continue;
                        };
                        let mut times = inner.times.lock().expect("whole");
                        times.push((Instant::now(), None));
                        let (number, inner) = (times.len() - 1, inner.clone());
                        scope.spawn(move || {
                            near.set_nonblocking(false).expect("blocking");
                            let far = TcpStream::connect("192.168.1.1:443").expect("the hub");
                            std::thread::scope(|scope| {
                                scope.spawn(|| inner.pass_on(number, &far, &near, true));
                                inner.pass_on(number, &near, &far, false);
                            });
                        });
                    }
                });
            }
        });
        Middlebox { inner, listener: Some(listener) }
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.inner.over.store(true, Ordering::Relaxed);
        let _ = self.listener.take().map(JoinHandle::join);
    }
}

#[test]
fn a_connection_that_stands_and_brings_nothing_is_given_up_and_made_again() {
    let Some(pair) = pair(true) else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, EQUAL_SHARES));
    let middlebox = Middlebox::start(lab);
    let channels = tcp("one", "eth0", "192.168.1.1:8443")
        + &udp("two", "eth1", "192.168.2.1:51900")
        + "tcp_endpoint = \"192.168.2.1:8443\"\n";
    let site = lab.daemon("site", "site", &site_with(&pair, EQUAL_SHARES, &channels));
    site.wait_up(2);
    hub.wait_up(2);
    assert_eq!((kind(&site, "one"), kind(&site, "two")), ("tcp".into(), "tcp".into()));
    let before = site.counter("stream_connected");
    middlebox.inner.dead.store(middlebox.inner.accepted(), Ordering::Relaxed);
    site.wait("made again", |site| site.counter("stream_connected") >= before + 2 && site.channels_up() == 2);
    hub.wait_up(2);
    assert!(site.counter("stream_idle") + site.counter("stream_unproven") >= 2, "{}", site.status());
    lab.transfer("site", "hub", "10.77.0.1:5001", 5);
    site.stop();
    hub.stop();
}

#[test]
fn connections_that_are_ended_after_their_first_exchange_are_made_ever_more_seldom() {
    let Some(pair) = pair(true) else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config(LISTENS, ""));
    let middlebox = Middlebox::start(lab);
    middlebox.inner.ends.store(5, Ordering::Relaxed);
    let site = lab.daemon("site", "site", &site_with(&pair, "", &tcp("one", "eth0", "192.168.1.1:8443")));
    site.wait("five are ended", |_| middlebox.inner.accepted() == 6);
    site.wait_up(1);
    hub.wait_up(1);
    let times = middlebox.inner.times.lock().expect("whole").clone();
    let ended = |number: usize| times[number].1.expect("ended");
    let waits: Vec<Duration> =
        (1..6).map(|number| times[number].0.saturating_duration_since(ended(number - 1))).collect();
    for (wait, least) in waits.iter().zip([0, 1, 2, 4, 8]) {
        assert!(*wait >= Duration::from_secs(least), "{waits:?}");
    }
    lab.transfer("site", "hub", "10.77.0.1:5001", 5);
    site.stop();
    hub.stop();
}
