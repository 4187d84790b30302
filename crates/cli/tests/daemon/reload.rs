//! Another configuration for daemons that run.

use crate::common::*;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One TCP connection that carries numbers for as long as the test likes.
pub(crate) struct Flow {
    over: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<Duration>,
}

/// What stands in the stream from 8 bytes times `first` on.
fn numbers(first: u64) -> Vec<u8> {
    (first..first + 2000).flat_map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()).collect()
}

impl Flow {
    pub(crate) fn start(lab: &Lab, from: &str, to: &str, target: &str) -> Flow {
        let target: std::net::SocketAddr = target.parse().expect("an address");
        let listener = lab.listen(to, target);
        let (over, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let sender = lab.inside(from, {
            let over = over.clone();
            move || {
                let mut stream = TcpStream::connect_timeout(&target, PATIENCE).expect("connected");
                stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
                let mut sent = 0;
                while !over.load(Ordering::Relaxed) {
                    stream.write_all(&numbers(sent)).expect("written");
                    sent += 2000;
                }
                sent * 8
            }
        });
        let mut stream = accept(&listener);
        let receiver = std::thread::spawn({
            let received = received.clone();
            move || {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                let (mut block, mut first) = (vec![0; 16_000], 0);
                let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
                let mut filled = 0;
                loop {
                    let n = stream.read(&mut block[filled..]).expect("read");
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                    if n == 0 {
                        assert_eq!(filled, 0, "the last numbers are missing");
                        return longest;
                    }
                    received.fetch_add(n as u64, Ordering::Relaxed);
                    filled += n;
                    if filled == block.len() {
                        assert!(block == numbers(first), "other bytes behind number {first}");
                        (first, filled) = (first + 2000, 0);
                    }
                }
            }
        });
        Flow { over, received, sender, receiver }
    }

    /// Waits until so many more bytes have come.
    pub(crate) fn goes_on(&self, bytes: u64) {
        let before = self.received.load(Ordering::Relaxed);
        let end = Instant::now() + PATIENCE;
        while self.received.load(Ordering::Relaxed) < before + bytes {
            assert!(Instant::now() < end, "the flow stands still");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it: every byte has come. The longest time in which none did.
    pub(crate) fn stop(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        let sent = self.sender.join().expect("the sender");
        let longest = self.receiver.join().expect("the receiver");
        assert_eq!(self.received.load(Ordering::Relaxed), sent);
        longest
    }
}

pub(crate) fn reload_with(lab: &Lab, namespace: &str, daemon: &Daemon, more: &[&str]) -> Output {
    let socket = daemon.socket.display().to_string();
    lab.fairspan(namespace, &[&["reload", "--socket", &socket], more].concat())
}

/// Has a daemon take over `text`, which it can; what was changed.
pub(crate) fn reload(lab: &Lab, name: &str, daemon: &Daemon, text: &str) -> Vec<String> {
    lab.config(name, text);
    let output = reload_with(lab, name, daemon, &["--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    assert!(output.status.success() && answer["ok"] == true, "{output:?}\n{}", daemon.log());
    let changed = answer["changed"].as_array().cloned().unwrap_or_default();
    changed.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

pub(crate) fn channel(daemon: &Daemon, name: &str) -> Option<Value> {
    let status = daemon.status();
    let channels = status["peers"][0]["channels"].as_array().expect("channels");
    channels.iter().find(|channel| channel["name"] == name).cloned()
}

pub(crate) fn carries(daemon: &Daemon, name: &str) -> u64 {
    channel(daemon, name).map_or(0, |channel| channel["counters"]["sent_bytes"].as_u64().expect("a number"))
}

fn rate(daemon: &Daemon, name: &str) -> Option<f64> {
    channel(daemon, name)?["rate_mbit"].as_f64()
}

/// A third link, beside those of a [`Pair`].
fn third(lab: &Lab) -> String {
    lab.cable(("site", "eth2", "192.168.3.2/24"), ("hub", "eth2", "192.168.3.1/24"));
    udp("three", "eth2", "192.168.3.1:51900")
}

const RATE: &str = "rate = \"60Mbit\"\npeer_rate = \"60Mbit\"\n";

#[test]
fn channels_come_change_and_go_under_one_connection_that_loses_nothing() {
    for mode in ["reliable", "ordered"] {
        let Some(pair) = Pair::new() else { return };
        let lab = &pair.lab;
        let more = format!("mode = \"{mode}\"\n");
        let (one, two) =
            (udp("one", "eth0", "192.168.1.1:51900") + RATE, udp("two", "eth1", "192.168.2.1:51900") + RATE);
        let three = third(lab) + RATE;
        let site_with = |channels: &[&str]| {
            let text = pair.site_config("", &more);
            let (head, _) = text.split_once("[[peer.channel]]").expect("channels");
            head.to_owned() + &channels.concat()
        };
        let hub = lab.daemon("hub", "hub", &pair.hub_config("", &more));
        let site = lab.daemon("site", "site", &site_with(&[&one, &two]));
        site.wait_up(2);
        hub.wait_up(2);
        let flows =
            [Flow::start(lab, "site", "hub", "10.77.0.1:5001"), Flow::start(lab, "hub", "site", "10.77.0.2:5002")];
        let all = |bytes| flows.iter().for_each(|flow| flow.goes_on(bytes));
        all(2_000_000);

        assert_eq!(reload(lab, "site", &site, &site_with(&[&one, &two, &three])), ["peer hub: channel three: added"]);
        for daemon in [&site, &hub] {
            daemon.wait_up(3);
            daemon.wait("the new channel carries its share", |d| carries(d, "three") > 1_000_000);
        }

        // Another rate for both directions; the hub learns its own from the site.
        let slower = three.replace("60Mbit", "20Mbit");
        let changed = reload(lab, "site", &site, &site_with(&[&one, &two, &slower]));
        assert_eq!(changed, ["peer hub: channel three: rate, peer_rate"]);
        for daemon in [&site, &hub] {
            daemon.wait("the other rate", |d| rate(d, "three") == Some(20.0));
            assert_eq!(daemon.channels_up(), 3);
        }
        all(1_000_000);

        // The first one of the file goes: the others keep their numbers, and the hub drops it too.
        let changed = reload(lab, "site", &site, &site_with(&[&two, &slower]));
        assert_eq!(changed[0], "peer hub: channel one: removed");
        for daemon in [&site, &hub] {
            daemon.wait("the channel is gone", |d| {
                let status = d.status();
                status["peers"][0]["channels"].as_array().is_some_and(|all| all.len() == 2)
            });
            assert!(channel(daemon, "one").is_none() && daemon.channels_up() == 2);
        }
        all(2_000_000);

        // Another address of the hub's, another device, another name.
        lab.ip("hub", &["address", "add", "192.168.2.7/24", "dev", "eth1"]);
        let elsewhere = two.replace("192.168.2.1", "192.168.2.7").replace("\"two\"", "\"zwei\"");
        let moved = slower.replace("eth2", "eth0").replace("192.168.3.1", "192.168.1.1");
        reload(lab, "site", &site, &site_with(&[&elsewhere.replace("zwei", "two"), &moved]));
        hub.wait("from the other device", |d| {
            channel(d, "three").is_some_and(|c| c["remote"].as_str().is_some_and(|at| at.starts_with("192.168.1.2:")))
        });
        site.wait("to the other address", |d| {
            channel(d, "two").is_some_and(|c| c["remote"] == "192.168.2.7:51900" && c["state"] == "up")
        });
        all(2_000_000);
        assert_eq!(reload(lab, "site", &site, &site_with(&[&elsewhere, &moved])), ["peer hub: channel two: name"]);
        hub.wait("the other name", |d| channel(d, "zwei").is_some_and(|c| c["state"] == "up"));

        // And all of them are exchanged for another one at once.
        let four = one.replace("\"one\"", "\"four\"").replace("eth0", "eth2").replace("192.168.1.1", "192.168.3.1");
        reload(lab, "site", &site, &site_with(&[&four]));
        for daemon in [&site, &hub] {
            daemon.wait("only the new one", |d| {
                d.state("four") == "up" && ["zwei", "three"].iter().all(|name| channel(d, name).is_none())
            });
        }
        all(2_000_000);
        let longest = flows.map(Flow::stop);
        println!("{mode}: {longest:?} without a byte at most");
        assert!(reload(lab, "site", &site, &site_with(&[&four])).is_empty());
        site.stop();
        hub.stop();
    }
}

#[test]
fn a_wrong_file_and_one_that_needs_a_restart_change_nothing() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let good = pair.site_config("", "");
    // Wrong in its last line, behind a change that would be good.
    let broken = good.replace("device = \"eth0\"\n", "device = \"eth0\"\nrate = \"5Mbit\"\n") + "rate = \"fast\"\n";
    let path = lab.config("site", &broken).display().to_string();
    let told = |output: &Output| String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let (checked, refused) = (lab.fairspan("site", &["check", &path]), reload_with(lab, "site", &site, &[]));
    assert_eq!((refused.status.code(), told(&refused)), (checked.status.code(), told(&checked)));
    assert!(told(&refused).contains("peer.channel.rate"), "{refused:?}");
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_slice(&lab.fairspan("site", arguments).stdout).expect("JSON")
    };
    let socket = site.socket.display().to_string();
    assert_eq!(json(&["reload", "--socket", &socket, "--json"]), json(&["check", &path, "--json"]));
    assert_eq!(rate(&site, "one"), None);

    let restart = pair.site_config("listen_port = 51901\nmtu = 1300", "mode = \"ordered\"\n")
        + "rate = \"5Mbit\"\n[[peer.channel]]\nname = \"wire\"\nkind = \"ethernet\"\ndevice = \"eth1\"\nsecure = true\n";
    lab.config("site", &restart);
    let refused = reload_with(lab, "site", &site, &["--json"]);
    let answer: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!((refused.status.code(), &answer["ok"]), (Some(1), &Value::Bool(false)));
    let names: Vec<_> =
        answer["needs_restart"].as_array().expect("names").iter().map(|n| n.as_str().unwrap()).collect();
    assert!(
        names.len() == 3 && names[0] == "interface.listen_port" && names[1].starts_with("peer.channel.kind"),
        "{names:?}"
    );
    assert_eq!(names[2], "peer.mode");
    assert!(told(&refused).contains("nothing was changed") && told(&refused).contains("interface.listen_port"));
    assert_eq!((rate(&site, "two"), site.channels_up()), (None, 2));

    // The file as it was is no change; and what was refused has not spoiled what is taken over later.
    assert!(reload(lab, "site", &site, &good).is_empty());
    let changed = reload(lab, "site", &site, &pair.site_config("mtu = 1300", "equalize = \"20ms\"\nreserve = false\n"));
    assert_eq!(changed, ["peer hub: equalize, reserve", "interface: mtu"]);
    site.wait("the MTU", |d| d.status()["mtu"] == 1300);
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    std::fs::remove_file(&path).expect("removed");
    let gone = reload_with(lab, "site", &site, &[]);
    assert!(gone.status.code() == Some(2) && told(&gone).contains("cannot be read"), "{gone:?}");
    site.stop();
    hub.stop();
}

#[test]
fn peers_come_and_go_with_their_routes_and_the_others_notice_nothing() {
    let Some(lab) = Lab::new(&["site", "hub", "other"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    lab.cable(("other", "eth0", "192.168.4.2/24"), ("hub", "eth4", "192.168.4.1/24"));
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    let (lab, other_key) = (&pair.lab, keys());
    let (site, hub) = pair.start();
    let flow = Flow::start(lab, "site", "hub", "10.77.0.1:5001");
    flow.goes_on(1_000_000);
    let other = interface("fs0", "[\"10.88.0.1/32\"]", &other_key.0, "")
        + &peer("hub", &pair.hub_key.1, "[\"10.77.0.1/32\"]", "")
        + &udp("only", "eth0", "192.168.4.1:51900");
    let other = lab.daemon("other", "other", &other);
    let routes = || lab.ip("hub", &["route"]);
    assert!(!routes().contains("10.88.0.1"));
    for round in 0..3 {
        // In front of the one that there is: numbers change, and nothing else.
        let text = pair.hub_config("", "");
        let (head, tail) = text.split_once("[[peer]]").expect("a peer");
        let both = format!("{head}{}[[peer]]{tail}", peer("other", &other_key.1, "[\"10.88.0.1/32\"]", ""));
        assert_eq!(reload(lab, "hub", &hub, &both), ["peer other: added"]);
        hub.wait_up(3);
        assert!(routes().contains("10.88.0.1"), "{}", routes());
        lab.echo("other", &format!("10.88.0.1:{}", 7 + round));
        assert!(lab.until_answered("hub", "10.77.0.1:0", &format!("10.88.0.1:{}", 7 + round)).is_some());
        flow.goes_on(1_000_000);
        assert_eq!(reload(lab, "hub", &hub, &text), ["peer other: removed"]);
        hub.wait_up(2);
        assert!(!routes().contains("10.88.0.1"), "{}", routes());
        flow.goes_on(1_000_000);
    }
    // Networks and addresses of its own.
    let text = pair.hub_config("", "");
    let text =
        text.replace("\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"10.99.0.0/16\"").replace("10.77.0.1/24", "10.77.0.1/25");
    let changed = reload(lab, "hub", &hub, &text.replace("\"fd77::1/64\"", "\"fd77::1/64\", \"10.66.0.1/24\""));
    assert_eq!(changed, ["peer site: allowed_ips", "interface: address"]);
    let addresses = lab.ip("hub", &["address", "show", "dev", "fs0"]);
    assert!(
        addresses.contains("10.77.0.1/25")
            && addresses.contains("10.66.0.1/24")
            && !addresses.contains("/24 scope global fs0\n    inet 10.77"),
        "{addresses}"
    );
    assert!(routes().contains("10.99.0.0/16") && routes().contains("10.77.0.0/25"), "{}", routes());
    flow.goes_on(1_000_000);
    // A default route, and back.
    let all = text.replace("\"10.77.0.2/32\"", "\"0.0.0.0/0\"").replace(", \"10.99.0.0/16\"", "");
    reload(lab, "hub", &hub, &all);
    assert!(
        lab.ip("hub", &["rule"]).contains("51900")
            && lab.ip("hub", &["route", "show", "table", "51900"]).contains("default")
    );
    flow.goes_on(1_000_000);
    reload(lab, "hub", &hub, &pair.hub_config("", ""));
    assert!(!lab.ip("hub", &["rule"]).contains("51900"));
    flow.goes_on(1_000_000);
    flow.stop();
    let before = lab.traces("other");
    for daemon in [site, hub, other] {
        daemon.stop();
    }
    assert!(before.contains("fs0") && ["site", "hub", "other"].iter().all(|name| !lab.traces(name).contains("fs0")));
}

#[test]
fn fifty_reloads_leave_as_many_sockets_as_there_were() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let three = third(lab);
    let (site, hub) = pair.start();
    let descriptors = |daemon: &Daemon| {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("a process");
        folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).count()
    };
    // Clients that the daemon has not left yet count too.
    let least = |daemon: &Daemon| (0..20).map(|_| descriptors(daemon)).min().expect("some");
    std::thread::sleep(Duration::from_millis(100));
    let before = [&site, &hub].map(least);
    let text = pair.site_config("", "");
    for round in 0..50 {
        let more = match round % 4 {
            0 => text.clone() + &three,
            1 => text.replace("192.168.2.1", "192.168.3.1").replace("eth1", "eth2"),
            2 => text.clone() + &three + "rate = \"10Mbit\"\n",
            _ => text.clone(),
        };
        assert!(!reload(lab, "site", &site, &more).is_empty(), "round {round}");
    }
    reload(lab, "site", &site, &text);
    for (daemon, before) in [&site, &hub].into_iter().zip(before) {
        daemon.wait_up(2);
        daemon.wait("no descriptor more than before", |d| {
            d.status()["peers"][0]["channels"].as_array().is_some_and(|all| all.len() == 2) && {
                std::thread::sleep(Duration::from_millis(20));
                least(d) == before
            }
        });
    }
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    site.stop();
    hub.stop();
}

#[test]
fn sighup_and_a_user_of_its_own_reload_from_a_folder_that_only_root_may_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let _device = crate::confinement::OpenDevice::new();
    std::fs::set_permissions(lab.path(""), std::fs::Permissions::from_mode(0o711)).expect("a mode");
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let three = third(lab);
    for user in ["", "user = \"nobody\""] {
        // Neither the folder of the file nor that of its key is one that the daemon has within reach.
        let folder = lab.path(if user.is_empty() { "root" } else { "theirs" });
        std::fs::create_dir_all(folder.join("etc")).expect("a folder");
        std::fs::set_permissions(folder.join("etc"), std::fs::Permissions::from_mode(0o700)).expect("a mode");
        std::fs::write(folder.join("etc/private.key"), &pair.site_key.0).expect("written");
        std::fs::set_permissions(folder.join("etc/private.key"), std::fs::Permissions::from_mode(0o600))
            .expect("a mode");
        let run = folder.join("run");
        let text = |more: &str| {
            let text = pair.site_config(user, "") + more;
            let key = format!("private_key = \"{}\"", pair.site_key.0);
            text.replace(&key, "private_key_file = \"private.key\"")
                .replace("SOCKET", &run.join("x.sock").display().to_string())
        };
        let file = if user.is_empty() { "root/etc/site" } else { "theirs/etc/site" };
        let mut site = lab.start("site", file, &text(""));
        site.socket = run.join("x.sock");
        site.wait_answer();
        site.wait_up(2);
        lab.config(file, &text(&three));
        site.signal(rustix::process::Signal::HUP);
        site.wait_log("reload: peer hub: channel three: added");
        site.wait_up(3);
        lab.config(file, &text("rate = \"30Mbit\"\n"));
        let output = reload_with(lab, "site", &site, &[]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2, "{output:?}");
        site.wait("removed", |d| channel(d, "three").is_none());
        assert_eq!((rate(&site, "two"), site.channels_up()), (Some(30.0), 2));
        lab.config(file, "nonsense");
        site.signal(rustix::process::Signal::HUP);
        site.wait_log("reload: ");
        site.wait("the complaint", |d| d.log().lines().any(|line| line.contains("WARN") && line.contains("nonsense")));
        assert_eq!((rate(&site, "two"), site.channels_up()), (Some(30.0), 2));
        lab.transfer("site", "hub", "10.77.0.1:5001", 2);
        site.stop();
    }
    hub.stop();
}

/// The processes whose parent is `pid`.
fn children(pid: u32) -> Vec<rustix::process::Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let listed = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let numbers = listed.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    numbers.filter_map(|number| rustix::process::Pid::from_raw(number.parse().ok()?)).collect()
}

#[test]
fn without_the_process_that_reads_its_file_a_daemon_goes_on_and_says_that_it_cannot_reload() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let site = lab.daemon("site", "site", &pair.site_config("", ""));
    site.wait_up(2);
    let helpers = children(site.pid());
    assert_eq!(helpers.len(), 1, "the process that reads its file");
    // What is meant for the daemon does not end it.
    rustix::process::kill_process(helpers[0], rustix::process::Signal::TERM).expect("there");
    assert!(reload_with(lab, "site", &site, &[]).status.success());
    rustix::process::kill_process(helpers[0], rustix::process::Signal::KILL).expect("there");
    site.wait("the complaint", |d| d.log().contains("is gone"));
    for _ in 0..2 {
        site.signal(rustix::process::Signal::HUP);
        assert!(!reload_with(lab, "site", &site, &[]).status.success());
        lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    }
    let complaints = site.log().lines().filter(|line| line.contains("is gone")).count();
    assert!(complaints <= 5, "one for the end and one for each wish: {complaints}");
    site.stop();
    hub.stop();
}

#[test]
fn one_connection_goes_on_over_addresses_that_are_renewed_and_gateways_that_change() {
    let Some(lab) = Lab::new(&["site", "hub", "router"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("router", "eth0", "192.168.1.1/24"));
    lab.cable(("router", "eth1", "192.168.9.1/24"), ("hub", "eth0", "192.168.9.2/24"));
    let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").is_ok();
    if !lab.run("router", forward) {
        println!("skipped: the router's namespace cannot forward");
        return;
    }
    lab.ip("router", &["address", "add", "192.168.1.254/24", "dev", "eth0"]);
    lab.ip("router", &["address", "add", "172.20.0.1/24", "dev", "eth0"]);
    lab.ip("hub", &["route", "add", "default", "via", "192.168.9.1"]);
    lab.ip("site", &["route", "add", "default", "via", "192.168.1.1"]);
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let text = pair.site_config("", "");
    let (head, _) = text.split_once("[[peer.channel]]").expect("channels");
    let site = lab.daemon("site", "site", &(head.to_owned() + &udp("only", "eth0", "192.168.9.2:51900")));
    site.wait_up(1);
    hub.wait_up(1);
    let flows = [Flow::start(lab, "site", "hub", "10.77.0.1:5001"), Flow::start(lab, "hub", "site", "10.77.0.2:5002")];
    let all = || flows.iter().for_each(|flow| flow.goes_on(1_000_000));
    let comes_from = |address: &str| {
        hub.wait(address, |d| {
            channel(d, "only").is_some_and(|c| {
                c["state"] == "up" && c["remote"].as_str().is_some_and(|at| at.starts_with(&format!("{address}:")))
            })
        });
    };
    all();
    let ip = |arguments: &str| lab.ip("site", &arguments.split(' ').collect::<Vec<_>>());
    // A lease with another address, which comes before the former one goes.
    ip("address add 192.168.1.3/24 dev eth0");
    ip("address del 192.168.1.2/24 dev eth0");
    // The kernel took the others of the network with the first one.
    ip("address replace 192.168.1.3/24 dev eth0");
    ip("route replace default via 192.168.1.1");
    comes_from("192.168.1.3");
    all();
    // One that goes before the other comes, with its routes; then the gateway.
    ip("address flush dev eth0");
    site.wait("nothing leaves", |d| d.channels_up() == 0);
    ip("address add 172.20.0.7/24 dev eth0");
    ip("route add default via 172.20.0.1");
    comes_from("172.20.0.7");
    all();
    // Another gateway, and nothing else.
    ip("address add 192.168.1.8/24 dev eth0");
    ip("route replace default via 192.168.1.254 src 192.168.1.8");
    ip("address del 172.20.0.7/24 dev eth0");
    comes_from("192.168.1.8");
    all();
    println!("{:?} without a byte at most", flows.map(Flow::stop));
    site.stop();
    hub.stop();
}

#[test]
fn a_source_that_is_taken_away_and_given_back_is_used_again_and_another_one_by_reload() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let with_source = |address: &str| {
        pair.site_config("", "").replace("device = \"eth1\"\n", &format!("device = \"eth1\"\nsource = \"{address}\"\n"))
    };
    let site = lab.daemon("site", "site", &with_source("192.168.2.2"));
    site.wait_up(2);
    let flow = Flow::start(lab, "site", "hub", "10.77.0.1:5001");
    flow.goes_on(1_000_000);
    lab.ip("site", &["address", "add", "192.168.2.3/24", "dev", "eth1"]);
    lab.ip("site", &["address", "del", "192.168.2.2/24", "dev", "eth1"]);
    site.wait("left", |d| d.state("two") != "up");
    flow.goes_on(1_000_000);
    lab.ip("site", &["address", "replace", "192.168.2.3/24", "dev", "eth1"]);
    reload(lab, "site", &site, &with_source("192.168.2.3"));
    site.wait_up(2);
    hub.wait("from there", |d| {
        channel(d, "two").is_some_and(|c| c["remote"].as_str().is_some_and(|at| at.starts_with("192.168.2.3:")))
    });
    flow.goes_on(1_000_000);
    lab.ip("site", &["address", "add", "192.168.2.2/24", "dev", "eth1"]);
    reload(lab, "site", &site, &with_source("192.168.2.2"));
    site.wait_up(2);
    flow.goes_on(1_000_000);
    flow.stop();
    site.stop();
    hub.stop();
}

/// What names mean in a namespace, for programs that `ip netns exec` begins there.
pub(crate) struct Names(std::path::PathBuf);

impl Names {
    pub(crate) fn new(lab: &Lab, namespace: &str) -> Option<Names> {
        let names = Names(std::path::Path::new("/etc/netns").join(lab.name(namespace)));
        std::fs::create_dir_all(&names.0).ok()?;
        // There is nobody to ask but the file.
        std::fs::write(names.0.join("resolv.conf"), "").ok()?;
        names.set("");
        Some(names)
    }

    /// In place: programs that run see it.
    pub(crate) fn set(&self, hosts: &str) {
        std::fs::write(self.0.join("hosts"), format!("127.0.0.1 localhost\n{hosts}")).expect("written");
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_dir("/etc/netns");
    }
}

#[test]
fn an_endpoint_that_is_a_name_is_looked_up_at_the_start_when_it_is_down_and_when_reloaded() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let Some(names) = Names::new(lab, "site") else {
        println!("skipped: /etc/netns cannot be written");
        return;
    };
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let text = pair.site_config("", "").replace("192.168.2.1:51900", "hub.fairspan.test:51900");
    let site = lab.daemon("site", "site", &text);
    // A name without an address is no error, and the other channel does not wait for it.
    site.wait_up(1);
    site.wait_log("the name has no address");
    let two = |daemon: &Daemon| channel(daemon, "two").expect("the channel");
    site.wait("it says so", |d| two(d)["reason"].as_str().is_some_and(|why| why.contains("hub.fairspan.test")));
    assert!(two(&site)["state"] == "connecting" && two(&site)["remote"].is_null());
    let flow = Flow::start(lab, "site", "hub", "10.77.0.1:5001");
    flow.goes_on(1_000_000);
    // Of several addresses the one that answers. The resolver puts what is nearest to this end's own address first: not that one.
    names.set("192.168.2.3 hub.fairspan.test\n192.168.2.1 hub.fairspan.test\n192.168.2.99 hub.fairspan.test\n");
    site.wait_up(2);
    assert_eq!(two(&site)["remote"], "192.168.2.1:51900");
    flow.goes_on(1_000_000);
    // A name in place of an address leads nowhere else until it has an address.
    let first = || channel(&site, "one").map(|one| (one["remote"].clone(), one["state"].clone()));
    // A host that is busy may miss it for a moment.
    site.wait("the first is up", |daemon| channel(daemon, "one").is_some_and(|one| one["state"] == "up"));
    let before = first();
    reload(lab, "site", &site, &text.replace("192.168.1.1:51900", "one.fairspan.test:51900"));
    assert_eq!(first(), before);
    assert!(before.is_some_and(|(remote, state)| remote == "192.168.1.1:51900" && state == "up"));
    reload(lab, "site", &site, &text);
    // Nothing changes while it is up, but by a reload.
    lab.ip("hub", &["address", "add", "192.168.2.7/24", "dev", "eth1"]);
    names.set("192.168.2.7 hub.fairspan.test\n");
    assert!(reload(lab, "site", &site, &text).is_empty());
    site.wait("the new address", |d| two(d)["remote"] == "192.168.2.7:51900" && two(d)["state"] == "up");
    flow.goes_on(1_000_000);
    flow.stop();
    // The hub comes back elsewhere.
    hub.stop();
    site.wait("left", |d| d.channels_up() == 0);
    lab.ip("hub", &["address", "flush", "dev", "eth1"]);
    lab.ip("hub", &["address", "add", "192.168.2.44/24", "dev", "eth1"]);
    names.set("192.168.2.44 hub.fairspan.test\n");
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    site.wait_up(2);
    assert_eq!(two(&site)["remote"], "192.168.2.44:51900");
    lab.transfer("site", "hub", "10.77.0.1:5002", 2);
    site.stop();
    hub.stop();
}
