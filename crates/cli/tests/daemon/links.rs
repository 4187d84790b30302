//! Links that fail, vanish, come back, or were not there yet, under a running daemon.

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Answers that keep coming while a link is ill treated.
struct Traffic {
    over: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<Duration>>,
}

impl Traffic {
    /// Asks every 5 ms for as long as this lives.
    fn start(lab: &Lab, port: u16) -> Traffic {
        let target = format!("10.77.0.1:{port}");
        lab.echo("hub", &target);
        let socket = lab.udp("site", "10.77.0.2:0");
        socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
        let (over, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (over, answers) = (over.clone(), answers.clone());
            move || {
                let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
                let mut buffer = [0; 2000];
                while !over.load(Ordering::Relaxed) {
                    let _ = socket.send_to(&[7; 1000], &target);
                    if socket.recv_from(&mut buffer).is_ok() {
                        longest = longest.max(last.elapsed());
                        last = Instant::now();
                        answers.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
                longest.max(last.elapsed())
            }
        });
        Traffic { over, answers, thread: Some(thread) }
    }

    /// Ends it; the longest time without an answer.
    fn stop(mut self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        assert!(self.answers.load(Ordering::Relaxed) > 10);
        self.thread.take().expect("once").join().expect("the traffic")
    }
}

#[test]
fn a_device_that_vanishes_under_load_and_comes_back_is_used_again() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start_with(EQUAL_SHARES);
    let traffic = Traffic::start(lab, 7);
    for _ in 0..2 {
        lab.ip("site", &["link", "del", "eth0"]);
        site.wait("the site sees it", |d| d.state("one") != "up");
        hub.wait("the hub too", |d| d.state("one") != "up");
        lab.transfer("site", "hub", "10.77.0.1:5001", 3);
        lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
        site.wait_up(2);
        hub.wait_up(2);
    }
    println!("{:?} without an answer at most", traffic.stop());
    // Where the host is so busy that the link seems silent once more, it is held back for a while after failing so often.
    let carries = |_| {
        site.wait_up(2);
        let before = sent(&site, "one");
        lab.transfer("site", "hub", "10.77.0.1:5002", 10);
        sent(&site, "one") > before + 1_000_000
    };
    assert!((0..5).any(carries), "the link carries its share again: {}", site.status());
    site.stop();
    hub.stop();
}

#[test]
fn a_link_that_goes_down_and_up_is_left_and_taken_back() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    // Bound to its device, or left to the routing table.
    for device in ["device = \"eth1\"\n", ""] {
        let config = pair.site_config("", "").replace("device = \"eth1\"\n", device);
        let site = lab.daemon("site", "site", &config);
        site.wait_up(2);
        hub.wait_up(2);
        let traffic = Traffic::start(lab, if device.is_empty() { 7 } else { 8 });
        for end in ["site", "hub"] {
            lab.ip(end, &["link", "set", "eth1", "down"]);
            site.wait("left", |d| d.state("two") != "up");
            lab.transfer("hub", "site", "10.77.0.2:5001", 3);
            lab.ip(end, &["link", "set", "eth1", "up"]);
            site.wait_up(2);
            hub.wait_up(2);
        }
        // No way to the peer, while the interface itself is well: no use in calling the link up every second.
        lab.ip("site", &["address", "del", "192.168.2.2/24", "dev", "eth1"]);
        site.wait("left", |d| d.state("two") != "up");
        let ups = || {
            site.log().lines().filter(|line| line.contains("channel up") && line.contains("channel=\"two\"")).count()
        };
        std::thread::sleep(Duration::from_millis(2500));
        let before = ups();
        std::thread::sleep(Duration::from_millis(2500));
        assert!(before > 0 && ups() == before, "up and down again: {}", site.log());
        lab.ip("site", &["address", "add", "192.168.2.2/24", "dev", "eth1"]);
        site.wait_up(2);
        hub.wait_up(2);
        println!("{:?} without an answer at most", traffic.stop());
        site.stop();
    }
    hub.stop();
}

#[test]
fn a_channel_whose_device_is_missing_at_the_start_begins_when_it_appears() {
    let Some(lab) = Lab::new(&["site", "hub"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    // And an address that is given later.
    let third = udp("three", "eth0", "192.168.1.1:51900") + "source = \"192.168.1.3\"\n";
    let site = lab.daemon("site", "site", &(pair.site_config("", "") + &third));
    site.wait_up(1);
    site.wait_log("channel two");
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    let lines = || site.log().lines().filter(|line| line.contains("channel two")).count();
    let before = lines();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(lines(), before, "said once, not every second: {}", site.log());
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    lab.ip("site", &["address", "add", "192.168.1.3/24", "dev", "eth0"]);
    site.wait_up(3);
    hub.wait_up(3);
    lab.transfer("site", "hub", "10.77.0.1:5002", 5);
    site.stop();
    hub.stop();
}

#[test]
fn ethernet_channels_follow_their_devices_too() {
    for secure in [false, true] {
        let Some(lab) = Lab::new(&["left", "right"]) else { return };
        lab.cable(("left", "eth0", ""), ("right", "eth0", ""));
        let (left, right) = if secure { (keys(), keys()) } else { Default::default() };
        let config = |address: &str, key: &str, public: &str, far: &str| {
            let more = format!("secure = {secure}");
            interface("fs0", &format!("[\"{address}/24\"]"), key, "")
                + &peer("peer", public, &format!("[\"{far}/32\"]"), "mode = \"stripe\"")
                + &ethernet("one", "eth0", &more)
                + &ethernet("two", "eth1", &more)
        };
        // The second device is missing at both ends.
        let a = lab.daemon("left", "left", &config("10.77.0.1", &left.0, &right.1, "10.77.0.2"));
        let b = lab.daemon("right", "right", &config("10.77.0.2", &right.0, &left.1, "10.77.0.1"));
        a.wait_up(1);
        b.wait_up(1);
        lab.transfer("left", "right", "10.77.0.2:5001", 2);
        lab.cable(("left", "eth1", ""), ("right", "eth1", ""));
        a.wait_up(2);
        b.wait_up(2);
        lab.transfer("left", "right", "10.77.0.2:5002", 5);
        // The first vanishes, and comes back with other addresses.
        lab.ip("left", &["link", "del", "eth0"]);
        a.wait("left", |d| d.state("one") != "up");
        b.wait("left", |d| d.state("one") != "up");
        lab.transfer("right", "left", "10.77.0.1:5003", 2);
        let before = [&a, &b].map(|daemon| heard(daemon, "one"));
        lab.cable(("left", "eth0", ""), ("right", "eth0", ""));
        for (daemon, before) in [&a, &b].into_iter().zip(before) {
            daemon.wait("it hears the new address", |d| heard(d, "one") > before);
        }
        a.wait_up(2);
        b.wait_up(2);
        lab.transfer("right", "left", "10.77.0.1:5004", 5);
        a.stop();
        b.stop();
    }
}

#[test]
fn the_mtu_follows_the_devices() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let mtu = |daemon: &Daemon| daemon.status()["mtu"].as_u64().expect("a number");
    let before = mtu(&site);
    for (namespace, device) in [("site", "eth0"), ("hub", "eth0")] {
        lab.ip(namespace, &["link", "set", device, "mtu", "1400"]);
    }
    site.wait("a smaller MTU", |d| mtu(d) + 100 == before);
    // The hub, whose socket is bound to no device, learns it from what it sends; TCP's packets keep to the site's MSS.
    lab.transfer("hub", "site", "10.77.0.2:5001", 3);
    let socket = lab.udp("hub", "10.77.0.1:0");
    hub.wait("a smaller MTU", |d| {
        let _ = socket.send_to(&[0; 1380], "10.77.0.2:9");
        mtu(d) + 100 == before
    });
    // The far end first: the site probes at once, and what is lost three times counts as too big for ten minutes.
    for (namespace, device) in [("hub", "eth0"), ("site", "eth0")] {
        lab.ip(namespace, &["link", "set", device, "mtu", "1500"]);
    }
    site.wait("the old MTU", |d| mtu(d) == before);
    lab.transfer("hub", "site", "10.77.0.2:5002", 3);
    site.stop();
    hub.stop();
}

#[test]
fn the_status_tells_of_the_paths_where_frames_are_counted_and_nowhere_else() {
    let Some(pair) = Pair::new() else { return };
    let mode = "mode = \"ordered\"\n";
    let hub = pair.lab.daemon("hub", "hub", &pair.hub_config("", mode));
    let site = pair.lab.daemon("site", "site", &pair.site_config("", &format!("{mode}congestion = \"cubic\"\n")));
    site.wait_up(2);
    hub.wait_up(2);
    pair.lab.transfer("site", "hub", "10.77.0.1:5001", 5);
    site.wait("reports of both paths", |site| {
        let status = site.status();
        let channels = status["peers"][0]["channels"].as_array().expect("channels");
        channels.iter().all(|c| {
            let path = &c["path"];
            path["delivered"].as_u64() > Some(0) && path["delivery_mbit"].as_f64() > Some(0.0)
        })
    });
    let hub = hub.status();
    let channels = hub["peers"][0]["channels"].as_array().expect("channels");
    assert!(channels.len() == 2 && channels.iter().all(|c| c.get("path").is_none()), "{hub}");
    let shown = pair.lab.fairspan("site", &["status", "--socket", &site.socket.display().to_string()]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("delivers Mbit/s"), "{shown:?}");
}

#[test]
fn a_daemon_with_nothing_to_do_does_nothing() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    // A dead link must not keep it busy either.
    lab.ip("site", &["link", "del", "eth0"]);
    site.wait("left", |d| d.state("one") != "up");
    std::thread::sleep(Duration::from_secs(1));
    let before = [ticks(site.pid()), ticks(hub.pid())];
    std::thread::sleep(Duration::from_secs(3));
    for (daemon, before) in [&site, &hub].into_iter().zip(before) {
        let used = ticks(daemon.pid()) - before;
        assert!(used < 30, "{used} ticks of 10 ms in three idle seconds");
    }
    site.stop();
    hub.stop();
}

/// CPU time of a process, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split_whitespace().collect();
    fields[11..13].iter().map(|n| n.parse::<u64>().expect("a number")).sum()
}

fn sent(daemon: &Daemon, channel: &str) -> u64 {
    counter(daemon, channel, "sent_bytes")
}

/// Messages of the peer itself that came by a channel.
fn heard(daemon: &Daemon, channel: &str) -> u64 {
    counter(daemon, channel, "received_control")
}

fn counter(daemon: &Daemon, channel: &str, name: &str) -> u64 {
    let status = daemon.status();
    let channels = status["peers"][0]["channels"].as_array().expect("channels");
    let channel = channels.iter().find(|c| c["name"] == channel).expect("the channel");
    channel["counters"][name].as_u64().expect("a number")
}

#[test]
fn what_the_host_sent_during_an_outage_does_not_come_out_after_it() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let at_hub = lab.udp("hub", "10.77.0.1:7");
    let at_site = lab.udp("site", "10.77.0.2:7");
    for device in ["eth0", "eth1"] {
        lab.ip("hub", &["link", "set", device, "down"]);
    }
    site.wait("no channel", |site| site.channels_up() == 0);
    // More than the bond keeps and the kernel holds for the interface.
    for _ in 0..4_000 {
        at_site.send_to(&[0; 1200], "10.77.0.1:7").expect("sent");
    }
    // The daemon has read all of it, also where it hardly runs.
    let mut read = 0;
    site.wait("all is read", |site| {
        let before = std::mem::replace(&mut read, site.peer_counter("host_packets"));
        read > 0 && read == before
    });
    // By now nobody waits for it (`reorder_deadline`), nor is it sent again, where a channel seemed to be up for a moment.
    std::thread::sleep(Duration::from_secs(3));
    for device in ["eth0", "eth1"] {
        lab.ip("hub", &["link", "set", device, "up"]);
    }
    site.wait_up(2);
    let (mut buffer, end) = ([0; 2000], Instant::now() + PATIENCE);
    let first = loop {
        assert!(Instant::now() < end, "nothing arrives: {}", site.log());
        at_site.send_to(b"new", "10.77.0.1:7").expect("sent");
        if let Ok(len) = at_hub.recv(&mut buffer) {
            break len;
        }
    };
    assert_eq!(first, 3, "what was sent before the outage ended");
    site.stop();
    hub.stop();
}
