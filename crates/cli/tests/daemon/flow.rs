//! Mode `flow`: where packets go, their order without anything at the receiver, and what becomes of flows whose channel fails.

use crate::common::*;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A site and a hub, joined by `one`, and by `two`, which delays both ways.
pub(crate) struct Skewed {
    pub(crate) lab: Lab,
    pub(crate) site_key: (String, String),
    pub(crate) hub_key: (String, String),
    emulator: Child,
}

impl Skewed {
    fn new() -> Option<Skewed> {
        Skewed::by("20ms")
    }

    /// With this delay.
    pub(crate) fn by(delay: &str) -> Option<Skewed> {
        let lab = Lab::new(&["site", "wan", "hub"])?;
        lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
        lab.cable(("site", "eth1", "192.168.2.2/24"), ("wan", "near", ""));
        lab.cable(("wan", "far", ""), ("hub", "eth1", "192.168.2.1/24"));
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.name("wan"), env!("CARGO_BIN_EXE_fairspan"), "emulate"]);
        command.args(["--a", "near", "--b", "far", "--delay", delay]);
        let emulator = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Some(Skewed { lab, site_key: keys(), hub_key: keys(), emulator: emulator.expect("the emulator") })
    }

    fn hub(&self, policy: &str) -> Daemon {
        let config = interface("fs0", "[\"10.77.0.1/24\"]", &self.hub_key.0, "listen_port = 51900\n")
            + &peer("site", &self.site_key.1, "[\"10.77.0.2/32\"]", &format!("mode = \"flow\"\npolicy = {policy}\n"));
        self.lab.daemon("hub", "hub", &config)
    }

    /// The site's daemon with this policy, its channels up and their round trips measured.
    fn site(&self, policy: &str) -> Daemon {
        let config = interface("fs0", "[\"10.77.0.2/24\"]", &self.site_key.0, "")
            + &peer("hub", &self.hub_key.1, "[\"10.77.0.1/32\"]", &format!("mode = \"flow\"\npolicy = {policy}\n"))
            + &udp("one", "eth0", "192.168.1.1:51900")
            + &udp("two", "eth1", "192.168.2.1:51900");
        let site = self.lab.daemon("site", "site", &config);
        site.wait_up(2);
        site.wait("round trips", |d| rtt(d, "two").is_some_and(|ms| ms > 30.0) && rtt(d, "one").is_some());
        site
    }
}

impl Drop for Skewed {
    fn drop(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }
}

fn channel<'a>(status: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let channels = status["peers"][0]["channels"].as_array().expect("channels");
    channels.iter().find(|channel| channel["name"] == name).expect("the channel")
}

fn rtt(daemon: &Daemon, name: &str) -> Option<f64> {
    channel(&daemon.status(), name)["rtt_ms"].as_f64()
}

/// Data frames that the daemon has sent over `one` and `two`.
fn sent(daemon: &Daemon) -> [u64; 2] {
    let status = daemon.status();
    ["one", "two"].map(|name| channel(&status, name)["counters"]["sent_packets"].as_u64().expect("a counter"))
}

/// What arrived: by the flow's port, the numbers in the order of their arrival, and when that was.
pub(crate) type Arrived = BTreeMap<u16, Vec<(u32, Instant)>>;

/// Flows of numbered datagrams from the site to the hub, or back, where somebody reads all the time.
pub(crate) struct Flows {
    senders: Vec<UdpSocket>,
    arrived: Arc<Mutex<Arrived>>,
    over: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

/// Datagrams that may be under way.
const UNDER_WAY: usize = 200;
/// What has not come for so long is lost: longer than a busy machine takes from a process.
const LOST: Duration = Duration::from_secs(10);

impl Flows {
    /// `count` flows from port `first` on to port `to`.
    pub(crate) fn new(lab: &Lab, first: u16, to: u16, count: u16) -> Flows {
        Flows::between(lab, [("site", "10.77.0.2"), ("hub", "10.77.0.1")], first, to, count)
    }

    /// The same the other way.
    pub(crate) fn back(lab: &Lab, first: u16, to: u16, count: u16) -> Flows {
        Flows::between(lab, [("hub", "10.77.0.1"), ("site", "10.77.0.2")], first, to, count)
    }

    fn between(lab: &Lab, [near, far]: [(&str, &str); 2], first: u16, to: u16, count: u16) -> Flows {
        let receiver = lab.udp(far.0, &format!("{}:{to}", far.1));
        let sender = |n| {
            let socket = lab.udp(near.0, &format!("{}:{}", near.1, first + n));
            socket.connect((far.1, to)).expect("connected");
            socket
        };
        let (arrived, over) = (Arc::<Mutex<Arrived>>::default(), Arc::new(AtomicBool::new(false)));
        let reader = std::thread::spawn({
            let (arrived, over) = (arrived.clone(), over.clone());
            move || {
                let mut buffer = [0; 64];
                while !over.load(Ordering::Relaxed) {
                    if let Ok((4, from)) = receiver.recv_from(&mut buffer) {
                        let number = u32::from_be_bytes(buffer[..4].try_into().expect("four bytes"));
                        arrived.lock().expect("whole").entry(from.port()).or_default().push((number, Instant::now()));
                    }
                }
            }
        });
        Flows { senders: (0..count).map(sender).collect(), arrived, over, reader: Some(reader) }
    }

    /// Each flow sends datagrams number `from` to `to`, one every millisecond at most. The queue of the tunnel's interface holds 500: so
    /// on a busy machine no more than [`UNDER_WAY`] are sent beyond what has arrived, but for what is lost.
    pub(crate) fn send(&self, from: u32, to: u32) {
        let begun = self.count();
        let (mut sent, mut lost) = (0, 0);
        for number in from..to {
            for sender in &self.senders {
                sender.send(&number.to_be_bytes()).expect("sent");
                sent += 1;
            }
            std::thread::sleep(Duration::from_millis(1));
            let patience = Instant::now() + LOST;
            while sent > self.count() - begun + lost + UNDER_WAY {
                if Instant::now() > patience {
                    lost = sent - (self.count() - begun);
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// How many datagrams have arrived.
    fn count(&self) -> usize {
        self.arrived.lock().expect("whole").values().map(Vec::len).sum()
    }

    /// What has arrived when `expected` datagrams have (or [`PATIENCE`] is over), and nothing more does for 300 ms.
    pub(crate) fn arrived(&self, expected: usize) -> Arrived {
        let end = Instant::now() + PATIENCE;
        while self.count() < expected && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut before = usize::MAX;
        while std::mem::replace(&mut before, self.count()) != before {
            std::thread::sleep(Duration::from_millis(300));
        }
        self.arrived.lock().expect("whole").clone()
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Its port is free when this is over.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// Packets that came after a later one of their flow.
pub(crate) fn reordered(arrived: &Arrived) -> usize {
    let late = |numbers: &Vec<(u32, Instant)>| {
        let below = |n: usize| numbers[..n].iter().any(|earlier| earlier.0 > numbers[n].0);
        (0..numbers.len()).filter(|n| below(*n)).count()
    };
    arrived.values().map(late).sum()
}

#[test]
fn each_policy_sends_flows_where_it_says_and_the_receiver_gets_each_packet_once() {
    let Some(net) = Skewed::new() else { return };
    let hub = net.hub("\"brr\"");
    // The policy; of 700 packets of 7 flows, which are sent in turn, the least and the most on `two`; whether order holds
    // over 20 ms of skew. An even number of flows would keep each on one channel whatever the policy.
    let rows: [(&str, u64, u64, Option<bool>); 11] = [
        ("\"balance-rr\"", 350, 350, Some(false)),
        ("\"balance-rr:4\"", 348, 352, Some(false)),
        ("\"active-backup:two\"", 700, 700, Some(true)),
        ("{ name = \"active-backup\", primary = 0 }", 0, 0, Some(true)),
        // No Ethernet header: all on one channel.
        ("\"balance-xor\"", 0, 700, Some(true)),
        ("\"balance-xor:layer3+4\"", 100, 600, Some(true)),
        ("\"brr:20s\"", 300, 400, Some(true)),
        ("{ name = \"n_to_one\", n = 3 }", 175, 175, Some(false)),
        ("\"fastest_transmit\"", 350, 350, Some(false)),
        // In order by the receiver.
        ("\"traffic_meter\"", 300, 400, Some(true)),
        ("\"broadcast\"", 700, 700, None),
    ];
    for (policy, least, most, ordered) in rows {
        let site = net.site(policy);
        let flows = Flows::new(&net.lab, 6000, 7000, 7);
        let before = sent(&site);
        flows.send(0, 100);
        let arrived = flows.arrived(700);
        let after = sent(&site);
        let [one, two] = [0, 1].map(|n| after[n] - before[n]);
        let copies = if policy.contains("broadcast") { 2 } else { 1 };
        assert_eq!(one + two, 700 * copies, "{policy}");
        assert!((least..=most).contains(&two), "{policy}: {two} of 700 on two");
        if policy.contains("xor") || policy.contains("brr") {
            assert_eq!(two % 100, 0, "{policy}: flows are whole");
        }
        if policy == "\"balance-xor\"" {
            assert_eq!(one.min(two), 0, "{policy}");
        }
        assert_eq!(arrived.len(), 7, "{policy}");
        for (port, numbers) in &arrived {
            let mut sorted: Vec<u32> = numbers.iter().map(|number| number.0).collect();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..100).collect::<Vec<_>>(), "{policy}: flow {port}, each once");
        }
        if let Some(ordered) = ordered {
            assert_eq!(reordered(&arrived) == 0, ordered, "{policy}: {} reordered", reordered(&arrived));
        }
        let shown = site.status()["peers"][0]["policy"].as_str().expect("the policy").to_owned();
        let text: fairspan_core::select::Settings = shown.parse().expect("what the status shows is read again");
        assert_eq!(text.to_string(), shown);
        site.stop();
    }
    hub.stop();
}

#[test]
fn the_adaptive_threshold_and_marker_flush_keep_order_where_bursts_may_move() {
    let Some(net) = Skewed::new() else { return };
    let hub = net.hub("\"brr\"");
    // How many of 900 packets are out of order.
    let run = |policy: &str| {
        let site = net.site(policy);
        let flows = Flows::new(&net.lab, 6000, 7000, 3);
        // Bursts 3 ms apart, over channels 20 ms apart.
        for burst in 0..100 {
            flows.send(burst * 3, burst * 3 + 3);
            std::thread::sleep(Duration::from_millis(3));
        }
        let arrived = flows.arrived(900);
        assert_eq!(arrived.values().map(Vec::len).sum::<usize>(), 900, "{policy}");
        site.stop();
        reordered(&arrived)
    };
    // With a threshold below the skew the paper's condition does not hold: the control. A machine that holds a packet up for
    // longer than the skew reorders whatever the policy, so that a run in which it did is made again.
    for (policy, in_order) in [("\"brr:1ms\"", false), ("\"brr:adaptive\"", true), ("\"brr:1ms,flush=on\"", true)] {
        let kept = (1..=10).any(|attempt| {
            let reordered = run(policy);
            println!("{policy}, run {attempt}: {reordered} reordered");
            (reordered == 0) == in_order
        });
        assert!(kept, "{policy}: in order never or always in ten runs");
    }
    hub.stop();
}

#[test]
fn flows_of_a_channel_that_fails_move_and_come_back() {
    let Some(net) = Skewed::new() else { return };
    let hub = net.hub("\"brr:2s\"");
    for policy in ["\"brr:2s\"", "\"balance-xor:layer3+4\"", "\"active-backup:two\"", "\"flowlet:2s\""] {
        let site = net.site(policy);
        let flows = Flows::new(&net.lab, 6000, 7000, 8);
        flows.send(0, 50);
        flows.arrived(8 * 50);
        let before = sent(&site);
        let over = Arc::new(AtomicBool::new(false));
        let senders: Vec<UdpSocket> = flows.senders.iter().map(|s| s.try_clone().expect("a copy")).collect();
        let traffic = std::thread::spawn({
            let over = over.clone();
            move || {
                let mut number = 50u32;
                while !over.load(Ordering::Relaxed) {
                    senders.iter().for_each(|sender| drop(sender.send(&number.to_be_bytes())));
                    number += 1;
                    std::thread::sleep(Duration::from_millis(2));
                }
                number
            }
        });
        net.lab.ip("site", &["link", "set", "eth1", "down"]);
        site.wait("two left", |d| d.state("two") != "up");
        let down = sent(&site);
        site.wait("all flows are on one", |d| sent(d)[0] > down[0] + 8 * 50);
        assert_eq!(sent(&site)[1], down[1], "{policy}: nothing is sent on a channel that is down");
        net.lab.ip("site", &["link", "set", "eth1", "up"]);
        site.wait_up(2);
        over.store(true, Ordering::Relaxed);
        let number = traffic.join().expect("the traffic");
        // What was under way on the channel that failed is lost, and what a busy machine's queue does not take.
        let mut next = number;
        site.wait("each flow goes on", |_| {
            flows.send(next, next + 5);
            next += 5;
            let goes_on = |numbers: &Vec<(u32, Instant)>| numbers.last().is_some_and(|last| last.0 >= number);
            let arrived = flows.arrived.lock().expect("whole");
            arrived.len() == 8 && arrived.values().all(goes_on)
        });
        assert!(before.iter().sum::<u64>() >= 8 * 50, "{policy}");
        // New flows use it again.
        let more = Flows::new(&net.lab, 6100, 7100, 8);
        let again = sent(&site);
        site.wait("two is used again", |d| {
            more.send(0, 5);
            sent(d)[1] > again[1]
        });
        site.stop();
    }
    hub.stop();
}

#[test]
fn check_warns_of_a_hash_that_sees_nothing_and_refuses_policies_of_ethernet_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("site.toml");
    let (key, public) = (keys().0, keys().1);
    let check = |policy: &str, json: bool| {
        let more = format!("mode = \"flow\"\npolicy = {policy}");
        let text = interface("fs0", "[]", &key, "")
            + &peer("hub", &public, "[\"10.77.0.1/32\"]", &more)
            + &udp("one", "eth0", "192.0.2.1:51900")
            + &udp("two", "eth1", "192.0.2.2:51900");
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
        let output = child::output(command.arg("check").arg(&path).args(json.then_some("--json")));
        // What this host lacks now is none of the file's.
        let here = |line: &&str| line.contains("on this host, now");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let told: String =
            text(&output.stderr).lines().filter(|line| !here(line)).map(|line| format!("{line}\n")).collect();
        (output.status.code(), text(&output.stdout), told)
    };
    let (status, _, warning) = check("\"balance-xor\"", false);
    assert_eq!(status, Some(0), "{warning}");
    assert!(warning.starts_with("warning: ") && warning.contains("layer3+4"), "{warning}");
    let (_, document, _) = check("\"balance-xor\"", true);
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!((&document["ok"], &document["notices"][0]["setting"]), (&true.into(), &"peer.policy".into()));
    assert_eq!(check("\"balance-xor:layer3+4\"", false).2, "");
    let (status, _, error) = check("{ name = \"balance-alb\" }", false);
    assert_eq!(status, Some(2));
    assert!(error.contains("peer.policy.name") && error.contains("[bond]"), "{error}");
}
