//! What of a host keeps a daemon from starting: `fairspan check` tells it before, as notices, and `fairspan up` finds the same.

use crate::common::*;
use crate::confinement::OpenDevice;
use fairspan_live::netlink::nftables::tables;
use fairspan_live::netlink::queue::PacketQueue;
use serde_json::Value;
use std::any::Any;
use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

/// Every notice about the moment begins so.
const NOW: &str = "on this host, now: ";
/// A user that every Linux has, and no daemon.
const NOBODY: &str = "nobody";

/// A host with a device and an address.
fn host() -> Option<Lab> {
    let lab = Lab::new(&["host", "other"])?;
    lab.cable(("host", "eth0", "192.0.2.1/24"), ("other", "eth0", "192.0.2.2/24"));
    Some(lab)
}

/// `[interface]` without a key.
fn plain(more: &str) -> String {
    interface("fs0", "[]", "", more).replace("address = []\n", "")
}

/// A bond with one peer; more settings of the interface, and what the peer is allowed.
fn bond(more: &str, allowed: &str) -> String {
    bond_by(more, allowed, "kind = \"udp\"\nendpoint = \"192.0.2.2:51900\"\n")
}

fn bond_by(more: &str, allowed: &str, channel: &str) -> String {
    interface("fs0", "[\"10.77.0.1/24\"]", &keys().0, more)
        + &peer("far", &keys().1, allowed, "")
        + "[[peer.channel]]\nname = \"one\"\n"
        + channel
}

/// A port.
fn port(device: &str) -> String {
    plain(&format!("kind = \"port\"\ndevice = \"{device}\"\nprivate_key = \"{}\"\n", keys().0))
        + &peer("far", &keys().1, "[]", "").replace("allowed_ips = []\n", "")
        + "[[peer.channel]]\nkind = \"udp\"\nendpoint = \"192.0.2.2:51900\"\n"
}

/// What `check` tells of this moment: lines, settings and problems.
fn told(lab: &Lab, path: &Path) -> Vec<(u64, String, String)> {
    let output = lab.fairspan("host", &["check", "--json", &path.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "no fault of the file: {output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let notices = said["notices"].as_array().expect("notices").iter();
    let text = |notice: &Value, name: &str| notice[name].as_str().expect("text").to_owned();
    notices
        .map(|notice| (notice["line"].as_u64().expect("a line"), text(notice, "setting"), text(notice, "problem")))
        .filter(|(_, _, problem)| problem.starts_with(NOW))
        .collect()
}

/// A thing that stands in the way as long as it is held.
type Held = Box<dyn Any>;

struct Row {
    /// The file.
    text: String,
    /// What stands in the way from then on.
    obstacle: fn(&Lab) -> Held,
    /// What `check` tells: the setting, the text of its line, and words of the notice.
    setting: &'static str,
    line: &'static str,
    words: &'static str,
    /// What `up` says when it refuses; `None` where it starts all the same, and waits.
    refusal: Option<&'static str>,
}

/// Does each thing after `check` told of nothing, and compares what it tells then with what `up` does.
fn compare(rows: Vec<Row>) {
    for row in rows {
        let Some(lab) = host() else { return };
        let path = lab.config("host", &row.text);
        let before = told(&lab, &path);
        assert!(!before.iter().any(|(_, _, problem)| problem.contains(row.words)), "{}: {before:?}", row.words);
        let held = (row.obstacle)(&lab);
        let now = told(&lab, &path);
        let text = std::fs::read_to_string(&path).expect("the file");
        let line = |line: u64| text.lines().nth(line as usize - 1).unwrap_or_default();
        let found = now.iter().find(|(_, setting, problem)| setting == row.setting && problem.contains(row.words));
        let Some((at, ..)) = found else { panic!("{} {}: {now:?}", row.setting, row.words) };
        assert!(line(*at).contains(row.line), "{}: line {at} is `{}`", row.words, line(*at));
        if let Some(refusal) = row.refusal {
            let mut daemon = lab.start("host", "host", &row.text);
            assert_eq!(daemon.ended().code(), Some(1), "no privilege is missing: {}: {}", row.words, daemon.log());
            assert!(daemon.log().contains(refusal), "{}: {}", row.words, daemon.log());
        }
        drop(held);
    }
}

fn nothing() -> Held {
    Box::new(())
}

#[test]
fn ports_and_addresses_that_cannot_be_had_are_told_before() {
    let udp = |lab: &Lab| Box::new(lab.udp("host", "0.0.0.0:5555")) as Held;
    let udp_v6 = |lab: &Lab| Box::new(lab.run("host", || UdpSocket::bind("[::]:5555").expect("bound"))) as Held;
    let tcp = |lab: &Lab| Box::new(lab.listen("host", "127.0.0.1:5556")) as Held;
    let gone = |lab: &Lab| {
        lab.ip("host", &["address", "del", "192.0.2.1/24", "dev", "eth0"]);
        nothing()
    };
    let row =
        |text: String, obstacle, setting, line, words, refusal| Row { text, obstacle, setting, line, words, refusal };
    let far = "[\"10.77.0.2/32\"]";
    compare(vec![
        row(
            bond("listen_port = 5555\n", far),
            udp,
            "interface.listen_port",
            "listen_port",
            "5555 is in use",
            Some("in use"),
        ),
        row(
            bond("listen_port = 5555\n", far),
            udp_v6,
            "interface.listen_port",
            "listen_port",
            "5555 is in use",
            Some("in use"),
        ),
        row(
            bond("listen_tcp_port = 5556\n", far),
            tcp,
            "interface.listen_tcp_port",
            "listen_tcp_port",
            "5556 is in use",
            Some("in use"),
        ),
        row(bond("metrics = \"127.0.0.1:5556\"\n", far), tcp, "interface.metrics", "metrics", "5556 is in use", None),
        row(
            bond("metrics = \"192.0.2.1:5556\"\n", far),
            gone,
            "interface.metrics",
            "metrics",
            "has the address 192.0.2.1",
            None,
        ),
        row(
            plain("") + "[gateway]\nlong = \"eth0\"\nproxy = \"127.0.0.1:5556\"\n",
            tcp,
            "gateway.proxy",
            "proxy",
            "5556 is in use",
            Some("in use"),
        ),
        row(
            bond_by("", far, "kind = \"udp\"\nsource = \"192.0.2.1\"\nendpoint = \"192.0.2.2:51900\"\n"),
            gone,
            "peer.channel.source",
            "source",
            "has the address 192.0.2.1",
            None,
        ),
    ]);
}

#[test]
fn routes_interfaces_and_versions_that_are_in_the_way_are_told_before() {
    let v4 = |lab: &Lab| {
        lab.ip("host", &["route", "add", "10.99.0.0/16", "dev", "eth0"]);
        nothing()
    };
    let blackhole = |lab: &Lab| {
        lab.ip("host", &["route", "add", "blackhole", "10.99.0.0/16"]);
        nothing()
    };
    let v6 = |lab: &Lab| {
        lab.ip("host", &["-6", "route", "add", "fd99::/64", "dev", "eth0"]);
        nothing()
    };
    let table = |lab: &Lab| {
        lab.ip("host", &["route", "add", "10.99.0.0/16", "dev", "eth0", "table", "7"]);
        nothing()
    };
    let name = |lab: &Lab| {
        lab.ip("host", &["link", "add", "fs0", "type", "veth", "peer", "name", "fs1"]);
        nothing()
    };
    let no_v6 = |lab: &Lab| {
        let off = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("a kernel setting");
        lab.run("host", off);
        nothing()
    };
    let two = "[\n  \"10.77.0.2/32\",\n  \"10.99.0.0/16\",\n]";
    let route = |text: String, obstacle, line| Row {
        text,
        obstacle,
        setting: "peer.allowed_ips",
        line,
        words: "already, and a second one cannot be added",
        refusal: Some("File exists"),
    };
    let six = bond("", "[]").replace("[\"10.77.0.1/24\"]", "[\"10.77.0.1/24\", \"fd77::1/64\"]");
    compare(vec![
        route(bond("", two), v4, "10.99.0.0/16"),
        route(bond("", two), blackhole, "10.99.0.0/16"),
        route(bond("", "[\"fd99::/64\"]"), v6, "fd99"),
        route(bond("table = 7\n", two), table, "10.99.0.0/16"),
        Row {
            text: bond("", "[]"),
            obstacle: name,
            setting: "interface.name",
            line: "fs0",
            words: "exists already",
            refusal: Some("exists already"),
        },
        Row {
            text: six,
            obstacle: no_v6,
            setting: "interface.address",
            line: "fd77::1/64",
            words: "have no IPv6",
            refusal: Some("fd77::1/64"),
        },
        Row {
            text: bond("", "[\n  \"10.77.0.2/32\",\n  \"fd99::/64\",\n]"),
            obstacle: no_v6,
            setting: "peer.allowed_ips",
            line: "fd99::/64",
            words: "a route to fd99::/64 could not be added",
            refusal: Some("net.ipv6.conf.default.disable_ipv6=0"),
        },
    ]);
    // A route of another metric is another route, as is that of another table.
    let Some(lab) = host() else { return };
    lab.ip("host", &["route", "add", "10.99.0.0/16", "dev", "eth0", "metric", "5"]);
    lab.ip("host", &["route", "add", "10.99.0.0/16", "dev", "eth0", "table", "9"]);
    assert_eq!(told(&lab, &lab.config("host", &bond("", two))), []);
    lab.daemon("host", "host", &bond("", two)).stop();
}

#[test]
fn devices_that_are_not_what_they_must_be_are_told_before() {
    let tun = |lab: &Lab| {
        lab.ip("host", &["link", "del", "eth0"]);
        lab.ip("host", &["tuntap", "add", "eth0", "mode", "tun"]);
        nothing()
    };
    let gone = |lab: &Lab| {
        lab.ip("host", &["link", "del", "eth0"]);
        nothing()
    };
    let claimed = |lab: &Lab| {
        let name = SocketAddr::from_abstract_name("fairspan bond eth0").expect("a name");
        Box::new(lab.run("host", move || UnixListener::bind_addr(&name).expect("bound"))) as Held
    };
    let address = |lab: &Lab| {
        lab.ip("host", &["address", "add", "198.51.100.1/24", "dev", "eth0"]);
        nothing()
    };
    let links = plain("")
        + "[bond]\npolicy = \"active-backup\"\n[[bond.link]]\ndevice = \"eth0\"\n[[bond.link]]\ndevice = \"eth1\"\n";
    let shape = plain("") + "[shape]\na = \"eth1\"\nb = \"eth0\"\nrate = \"10Mbit\"\n";
    let over = |kind: &str| bond_by("", "[]", &format!("kind = {kind}\ndevice = \"eth0\"\n"));
    let row = |text: &str, obstacle, setting, words, refusal| Row {
        text: text.to_owned(),
        obstacle,
        setting,
        line: "\"eth0\"",
        words,
        refusal,
    };
    const NO_ETHERNET: Option<&str> = Some("it is no Ethernet device");
    compare(vec![
        row(&port("eth0"), tun, "interface.device", "no Ethernet device", NO_ETHERNET),
        row(&links, tun, "bond.link.device", "no Ethernet device", NO_ETHERNET),
        row(&shape, tun, "shape.b", "no Ethernet device", NO_ETHERNET),
        row(
            &port("eth0"),
            claimed,
            "interface.device",
            "another daemon has `eth0`",
            Some("another daemon has this device"),
        ),
        row(&links, claimed, "bond.link.device", "another daemon has `eth0`", Some("another daemon has this device")),
        row(&port("eth0"), gone, "interface.device", "there is no interface `eth0`", None),
        row(&port("eth0"), address, "interface.device", "198.51.100.1/24", None),
        row(&over("\"ethernet\"\nsecure = true"), tun, "peer.channel.device", "no frame can leave", None),
        row(
            &over("\"udp\"\nendpoint = \"192.0.2.2:51900\""),
            gone,
            "peer.channel.device",
            "there is no interface `eth0`",
            None,
        ),
    ]);
}

#[test]
fn folders_in_which_the_daemon_cannot_write_are_told_before() {
    let Some(lab) = host() else { return };
    // So that it is the folder that hinders.
    let _device = OpenDevice::new();
    let chown = |path: &Path, user: &str| {
        let status = std::process::Command::new("chown").arg(user).arg(path).status().expect("`chown`");
        status.success()
    };
    std::fs::create_dir(lab.path("probe")).expect("a folder");
    if !chown(&lab.path("probe"), NOBODY) {
        println!("skipped: only root gives folders away");
        return;
    }
    let open = |path: &Path| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    };
    open(lab.path("").as_path());
    let folder = |name: &str| lab.path(name).display().to_string();
    let text = |more: &str| {
        let text = bond(more, "[]").replace("control_socket = \"SOCKET\"", "control_socket = \"LAB/run/fs0.sock\"");
        text.replace("SOCKET.state", "LAB/kept").replace("LAB", &folder(""))
    };
    let user = format!("user = \"{NOBODY}\"\n");
    // Not `state`, which is where daemons of a test keep things by default: that they are given.
    for (made, theirs, more, setting, words, refusal) in [
        ("run", false, user.as_str(), "interface.control_socket", "cannot write in", Some("cannot write in")),
        ("kept", false, &user, "interface.state_dir", "cannot write in", Some("cannot write in")),
        ("run", true, "", "interface.control_socket", "`root` cannot write in", Some("Permission denied")),
        ("kept", true, "", "interface.state_dir", "`root` cannot write in", None),
        (
            "files",
            true,
            "record = \"LAB/files/x\"\n",
            "interface.record",
            "`root` cannot write in",
            Some("Permission denied"),
        ),
        ("", true, "record = \"LAB/files/x\"\n", "interface.record", "there is no folder", Some("No such file")),
    ] {
        for name in ["run", "kept", "files"] {
            let _ = std::fs::remove_dir_all(lab.path(name));
        }
        let more = more.replace("LAB", &folder(""));
        let path = lab.config("host", &text(&more));
        if !made.is_empty() {
            let before = told(&lab, &path);
            assert!(!before.iter().any(|(_, at, problem)| at == setting && problem.contains(words)), "{before:?}");
            std::fs::create_dir(lab.path(made)).expect("a folder");
            open(&lab.path(made));
            assert!(!theirs || chown(&lab.path(made), NOBODY));
        }
        let now = told(&lab, &path);
        assert!(
            now.iter().any(|(_, at, problem)| at == setting && problem.contains(words)),
            "{made} {setting}: {now:?}"
        );
        if let Some(refusal) = refusal {
            // A log of its own.
            let name = format!("{made}-{theirs}-host");
            let mut daemon = lab.start("host", &name, &text(&more));
            assert!(!daemon.ended().success() && daemon.log().contains(refusal), "{made} {setting}: {}", daemon.log());
        }
    }
}

#[test]
fn what_the_kernel_must_have_is_asked_for_without_changing_anything() {
    let Some(lab) = host() else { return };
    let forwards = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a kernel setting");
    lab.run("host", forwards);
    let gateway = plain("fwmark = 700\n") + "[gateway]\nlong = \"eth0\"\n";
    let locked = bond("lock = true\n", "[]");
    let traces = lab.traces("host");
    let rules = |lab: &Lab| lab.run("host", || tables(None).expect("a list"));
    for text in [&gateway, &locked] {
        assert_eq!(told(&lab, &lab.config("host", text)), []);
        assert_eq!((lab.traces("host"), rules(&lab)), (traces.clone(), Vec::new()), "nothing is left");
    }
    // Another program has the queue: marks and queues are numbered from `fwmark` and 256.
    let queue = lab.run("host", || PacketQueue::open(956, 1, 64, false).expect("the queue"));
    let now = told(&lab, &lab.config("host", &gateway));
    assert!(now.len() == 1 && now[0].1 == "gateway" && now[0].2.contains("queue 956"), "{now:?}");
    let mut daemon = lab.start("host", "host", &gateway);
    assert!(!daemon.ended().success() && daemon.log().contains("queue 956"), "{}", daemon.log());
    drop(queue);
    lab.daemon("host", "host", &gateway).stop();
}

#[test]
fn what_a_daemon_holds_is_no_obstacle_to_its_own_file() {
    let Some(lab) = host() else { return };
    let text = bond("listen_port = 5555\nlisten_tcp_port = 5556\nmetrics = \"127.0.0.1:5557\"\n", "[\"10.99.0.0/16\"]");
    let path = lab.config("host", &text);
    assert_eq!(told(&lab, &path), []);
    let daemon = lab.daemon("host", "host", &text);
    let now = told(&lab, &path);
    assert!(
        now.len() == 1 && now[0].1 == "interface.control_socket" && now[0].2.contains("fairspan reload"),
        "{now:?}"
    );
    daemon.stop();
    assert_eq!(told(&lab, &path), []);
}
