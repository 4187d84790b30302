//! Sites that join a hub by an invitation.

use crate::common::*;
use crate::doctor::{has_nft, nft};
use crate::reload::Flow;
use fairspan_core::wire::invitation::Invitation;
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Invites, which must work; what `--json` prints.
fn invite(lab: &Lab, more: &[&str]) -> Value {
    let file = lab.path("hub.toml").display().to_string();
    let output = lab.fairspan("hub", &[&["invite", &file, "--json"], more].concat());
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
}

fn word(invited: &Value) -> String {
    invited["invitation"].as_str().expect("a line").to_owned()
}

/// Joins from a namespace, without starting a daemon; the configuration that is written.
fn join(lab: &Lab, namespace: &str, word: &str, more: &[&str]) -> (Output, PathBuf) {
    let file = lab.path(&format!("{namespace}.toml"));
    let path = file.display().to_string();
    let output = lab.fairspan(namespace, &[&["join", "--yes", "--no-start", "--file", &path, word], more].concat());
    (output, file)
}

/// Starts the daemon of a site that has joined, with a control socket and a memory of its own.
fn start(lab: &Lab, namespace: &str, file: &PathBuf) -> Daemon {
    let written = fs::read_to_string(file).expect("a configuration");
    let own = "[interface]\ncontrol_socket = \"SOCKET\"\nstate_dir = \"SOCKET.state\"\n";
    lab.daemon(namespace, namespace, &written.replace("[interface]\n", own))
}

/// Files of a site in the lab's folder.
fn files_of(lab: &Lab, site: &str) -> Vec<String> {
    let folder = lab.path("").read_dir().expect("a folder");
    let names = folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(site)).collect();
    names.sort();
    names
}

/// A hub with one site that is configured by hand, and another host that is to join by two cables.
fn hub_and_guest() -> Option<(Pair, Daemon)> {
    let lab = Lab::new(&["site", "hub", "guest"])?;
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    lab.cable(("guest", "eth0", "192.168.3.2/24"), ("hub", "eth2", "192.168.3.1/24"));
    lab.cable(("guest", "eth1", "192.168.4.2/24"), ("hub", "eth3", "192.168.4.1/24"));
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    let hub = pair.lab.daemon("hub", "hub", &pair.hub_config("", ""));
    Some((pair, hub))
}

/// The hub at both of its ends of the guest's cables.
const ENDS: [&str; 4] = ["--endpoint", "192.168.3.1", "--endpoint", "192.168.4.1"];

#[test]
fn a_running_hub_takes_an_invited_site_and_flows_of_others_go_on() {
    let Some((pair, hub)) = hub_and_guest() else { return };
    let lab = &pair.lab;
    let site = lab.daemon("site", "site", &pair.site_config("", ""));
    site.wait_up(2);
    let flow = Flow::start(lab, "site", "hub", "10.77.0.1:7000");
    flow.goes_on(100_000);
    let before = hub.pid();
    let invited = invite(lab, &ENDS);
    assert_eq!(invited["running"], true, "{invited}");
    // What the hub had by hand is the address .2.
    assert_eq!((&invited["name"], &invited["address"]), (&"site1".into(), &"10.77.0.3/24".into()), "{invited}");
    assert!(invited["written"].as_str().is_some_and(|text| text.contains("allowed_ips = [\"10.77.0.3/32\"]")));
    flow.goes_on(100_000);
    let invitation = |state: &str| {
        let status = hub.status();
        assert_eq!(status["peers"][1]["invitation"]["state"], state, "{status}");
        assert_eq!(status["peers"][0].get("invitation"), None, "{status}");
    };
    invitation("open");
    let (joined, file) = join(lab, "guest", &word(&invited), &[]);
    assert!(joined.status.success(), "{}", text(&joined));
    invitation("joined");
    let guest = start(lab, "guest", &file);
    guest.wait_up(2);
    lab.echo("hub", "10.77.0.1:7");
    assert!(lab.until_answered("guest", "10.77.0.3:0", "10.77.0.1:7").is_some());
    flow.goes_on(100_000);
    flow.stop();
    assert_eq!((hub.pid(), hub.counter("join_joined")), (before, 1));
    // Another site with the same line, or the same one with another key.
    for name in ["guest.key", "guest.toml"] {
        fs::remove_file(lab.path(name)).expect("there");
    }
    guest.stop();
    let (again, file) = join(lab, "guest", &word(&invited), &[]);
    assert!(again.status.code() == Some(2) && text(&again).contains("was used already"), "{}", text(&again));
    assert!(!file.exists());
    // A reload changes nothing of it, and a restart neither.
    let output = crate::reload::reload_with(lab, "hub", &hub, &["--json"]);
    assert!(output.status.success(), "{}", text(&output));
    invitation("joined");
    hub.stop();
    let hub = lab.daemon("hub", "hub", &fs::read_to_string(lab.path("hub.toml")).expect("the configuration"));
    assert_eq!(hub.status()["peers"][1]["invitation"]["state"], "joined");
    let (again, _) = join(lab, "guest", &word(&invited), &[]);
    assert!(again.status.code() == Some(2) && text(&again).contains("was used already"), "{}", text(&again));
    site.stop();
    hub.stop();
}

#[test]
fn an_expired_invitation_is_refused_by_either_end() {
    let Some((pair, hub)) = hub_and_guest() else { return };
    let lab = &pair.lab;
    let invited = invite(lab, &ENDS);
    // What the hub holds expired long ago, and the site has the line as it was.
    let held = lab.path("hub.site1.invitation");
    let invitation = Invitation::decode(&word(&invited)).expect("an invitation");
    let expired = Invitation { expires: 1_000_000_000, ..invitation }.encode().expect("a line");
    fs::write(&held, &expired).expect("written");
    let output = crate::reload::reload_with(lab, "hub", &hub, &["--json"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(hub.status()["peers"][1]["invitation"]["state"], "expired");
    let (refused, _) = join(lab, "guest", &word(&invited), &[]);
    let said = text(&refused);
    assert!(refused.status.code() == Some(2) && said.contains("has expired, by the hub's clock"), "{said}");
    assert_eq!(files_of(lab, "guest"), Vec::<String>::new());
    assert!(hub.counter("join_refused") > 0 && hub.counter("join_joined") == 0);
    // Nobody asks the hub about a line that says so itself.
    let asked = hub.counter("join_answered");
    let (refused, _) = join(lab, "guest", &expired, &[]);
    let said = text(&refused);
    assert!(refused.status.code() == Some(2) && said.contains("expired on 2001-09-09"), "{said}");
    assert_eq!((hub.counter("join_answered"), files_of(lab, "guest")), (asked, Vec::new()));
    hub.stop();
}

#[test]
fn a_line_that_is_cut_altered_or_of_another_version_is_refused_in_words_that_say_which_and_show_none_of_it() {
    let Some(lab) = Lab::new(&["hub"]) else { return };
    lab.cable(("hub", "eth0", "192.168.1.1/24"), ("hub", "eth1", ""));
    let invited = invite(&lab, &[]);
    let word = word(&invited);
    for (line, says) in [
        (word[..60].to_owned(), "is cut"),
        (word.clone() + "aaa", "3 characters too many"),
        (word.replacen(&word[40..44], "AAAA", 1), "was altered"),
        (word.replacen("fairspan1", "fairspan9", 1), "version 9"),
        ("https://example.net".to_owned(), "no invitation"),
    ] {
        let file = lab.path("other.toml");
        let path = file.display().to_string();
        let refused = lab.fairspan("hub", &["join", "--yes", "--no-start", "--file", &path, &line]);
        let said = text(&refused);
        assert!(refused.status.code() == Some(2) && said.contains(says), "{line}: {said}");
        assert!(!said.contains(&word[30..50]) && !file.exists(), "{said}");
    }
}

#[test]
fn an_uplink_that_works_from_its_address_alone_gets_a_source_and_one_that_does_not_answer_is_left_out() {
    let Some((pair, hub)) = hub_and_guest() else { return };
    let lab = &pair.lab;
    // One address of the hub, behind both cables; the second way is in a table that only its own address chooses.
    lab.ip("hub", &["address", "add", "203.0.113.1/32", "dev", "lo"]);
    lab.ip("guest", &["route", "add", "default", "via", "192.168.3.1", "dev", "eth0"]);
    lab.ip("guest", &["route", "add", "default", "via", "192.168.4.1", "dev", "eth1", "table", "100"]);
    lab.ip("guest", &["rule", "add", "from", "192.168.4.2", "lookup", "100"]);
    // As a provider's router, which answers for nobody else's address.
    lab.run("hub", || std::fs::write("/proc/sys/net/ipv4/conf/eth3/arp_ignore", "1").expect("a setting"));
    // A third leads nowhere.
    lab.cable(("guest", "eth2", "192.168.5.2/24"), ("site", "eth5", "192.168.5.1/24"));
    lab.ip("guest", &["route", "add", "default", "via", "192.168.5.1", "dev", "eth2", "metric", "300"]);
    let invited = invite(lab, &["--endpoint", "203.0.113.1"]);
    let (joined, file) = join(lab, "guest", &word(&invited), &[]);
    let said = text(&joined);
    assert!(joined.status.success(), "{said}");
    let row = |device: &str| said.lines().find(|line| line.contains(device) && line.contains('│')).unwrap_or_default();
    assert!(row("eth2").contains("no answer") && row("eth0").contains(" B ") && row("eth1").contains(" B "), "{said}");
    let written = fs::read_to_string(&file).expect("a configuration");
    let channels: Vec<&str> = written.split("[[peer.channel]]").skip(1).collect();
    let of = |device: &str| channels.iter().find(|channel| channel.contains(device)).copied();
    assert!(of("eth0").is_some_and(|channel| !channel.contains("source")), "{written}");
    assert!(of("eth1").is_some_and(|channel| channel.contains("source = \"192.168.4.2\"")), "{written}");
    assert_eq!((channels.len(), of("eth2")), (2, None), "{written}");
    let guest = start(lab, "guest", &file);
    guest.wait_up(2);
    guest.stop();
    hub.stop();
}

#[test]
fn of_an_uplink_whose_addresses_are_translated_it_is_told_to_which_and_whether_the_port_is_kept() {
    let Some(lab) = Lab::new(&["hub", "router", "guest"]) else { return };
    if !has_nft() {
        return;
    }
    lab.cable(("guest", "eth0", "10.5.0.2/24"), ("router", "eth0", "10.5.0.1/24"));
    lab.cable(("router", "eth1", "192.168.3.2/24"), ("hub", "eth2", "192.168.3.1/24"));
    lab.cable(("guest", "eth1", "192.168.4.2/24"), ("hub", "eth3", "192.168.4.1/24"));
    lab.ip("guest", &["route", "add", "default", "via", "10.5.0.1"]);
    lab.run("router", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a setting"));
    nft(&lab, "router", "add table ip nat\nadd chain ip nat out { type nat hook postrouting priority 100; }");
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let line = word(&invite(lab, &ENDS));
    for (rule, port) in [("masquerade", "kept"), ("ip protocol udp masquerade to :40000-40099", "changed")] {
        nft(lab, "router", &format!("flush chain ip nat out\nadd rule ip nat out oifname eth1 {rule}"));
        // Nobody is there to agree, so it only looks.
        let file = lab.path("guest.toml").display().to_string();
        let said = text(&lab.fairspan("guest", &["join", "--no-start", "--file", &file, &line]));
        let row = |device: &str| {
            said.lines().find(|row| row.starts_with(&format!("│ {device} "))).unwrap_or_else(|| panic!("{said}"))
        };
        assert!(row("eth0").contains(&format!("to 192.168.3.2, port {port}")), "{said}");
        assert!(row("eth1").contains("│ no ") || row("eth1").trim_end_matches([' ', '│']).ends_with(" no"), "{said}");
    }
    hub.stop();
}

#[test]
fn sites_that_are_invited_at_once_have_names_addresses_and_secrets_of_their_own() {
    let Some(lab) = Lab::new(&["hub"]) else { return };
    lab.cable(("hub", "eth0", "192.168.1.1/24"), ("hub", "eth1", ""));
    let invited: Vec<Value> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(|| invite(&lab, &[]))).collect();
        all.into_iter().map(|one| one.join().expect("invited")).collect()
    });
    for key in ["name", "address", "invitation"] {
        let mut values: Vec<String> = invited.iter().map(|one| one[key].to_string()).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 6, "{key}: {values:?}");
    }
    let path = lab.path("hub.toml").display().to_string();
    let checked = lab.fairspan("hub", &["check", &path]);
    assert!(checked.status.success() && text(&checked).contains("6 peers"), "{}", text(&checked));
    for file in fs::read_dir(lab.path("")).expect("a folder") {
        let file = file.expect("an entry");
        assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
    // One whose name is there is refused, and leaves all as it was.
    let before = fs::read_to_string(lab.path("hub.toml")).expect("read");
    for wrong in [&["--name", "site1"][..], &["--name", "a b"], &["--expires", "1s"], &["--network", "10.1.0.0/24"]] {
        let output = lab.fairspan("hub", &[&["invite", path.as_str()], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", text(&output));
    }
    assert_eq!(fs::read_to_string(lab.path("hub.toml")).expect("read"), before);
}

#[test]
fn a_hub_that_cannot_keep_who_has_joined_lets_nobody_join() {
    let Some((pair, hub)) = hub_and_guest() else { return };
    let lab = &pair.lab;
    let invited = invite(lab, &ENDS);
    let state = lab.path("hub.sock.state");
    let mode = |mode| fs::set_permissions(&state, fs::Permissions::from_mode(mode)).expect("a mode");
    mode(0o500);
    let (refused, _) = join(lab, "guest", &word(&invited), &[]);
    let said = text(&refused);
    assert!(refused.status.code() == Some(2) && said.contains("cannot keep who has joined"), "{said}");
    // It may have been kept all the same: the next attempt has the same key.
    assert_eq!(files_of(lab, "guest"), ["guest.key"]);
    assert_eq!(hub.status()["peers"][1]["invitation"]["state"], "open");
    mode(0o700);
    let (joined, _) = join(lab, "guest", &word(&invited), &[]);
    assert!(joined.status.success(), "{}", text(&joined));
    hub.stop();
}

/// No UDP comes in by these devices any more.
fn block_udp(lab: &Lab, ends: &[(&str, &str)]) {
    for (namespace, device) in ends {
        crate::tcp::change_rules(lab, "add", &[namespace], device);
    }
}

/// A hub that listens for TCP too, and a guest with two uplinks. Rules may drop what is for the hosts themselves.
fn hub_with_tcp_and_guest() -> Option<(Pair, Daemon)> {
    let (pair, hub) = hub_and_guest()?;
    hub.stop();
    for namespace in ["hub", "guest"] {
        for family in ["-4", "-6"] {
            pair.lab.ip(namespace, &[family, "rule", "add", "pref", "10", "lookup", "local"]);
            pair.lab.ip(namespace, &[family, "rule", "del", "pref", "0"]);
        }
    }
    let hub = pair.lab.daemon("hub", "hub", &pair.hub_config(crate::tcp::LISTENS, ""));
    Some((pair, hub))
}

#[test]
fn an_uplink_that_lets_no_udp_through_joins_over_tcp_beside_one_that_does() {
    let Some((pair, hub)) = hub_with_tcp_and_guest() else { return };
    let lab = &pair.lab;
    block_udp(lab, &[("hub", "eth3"), ("guest", "eth1")]);
    let invited = invite(lab, &ENDS);
    assert_eq!(invited["tcp_port"], 443, "{invited}");
    let (joined, file) = join(lab, "guest", &word(&invited), &[]);
    let said = text(&joined);
    assert!(joined.status.success(), "{said}");
    let row = |device: &str| said.lines().find(|line| line.contains(device) && line.contains('│')).unwrap_or_default();
    assert!(row("eth1").contains(".1:443 (TCP)") && row("eth0").contains(" B "), "{said}");
    assert!(!row("eth0").contains("TCP") && said.contains("the channel goes over TCP"), "{said}");
    let written = fs::read_to_string(&file).expect("a configuration");
    for device in ["eth0", "eth1"] {
        let channel = written.split("[[peer.channel]]").find(|channel| channel.contains(&format!("\"{device}\"")));
        let channel = channel.unwrap_or_else(|| panic!("no channel by {device}: {written}"));
        let of = |setting: &str| {
            let line = channel.lines().find_map(|line| line.strip_prefix(&format!("{setting} = \"")));
            line.and_then(|line| line.trim_end_matches('"').parse::<SocketAddr>().ok())
        };
        let (Some(udp), Some(tcp)) = (of("endpoint"), of("tcp_endpoint")) else { panic!("{written}") };
        assert_eq!((udp.ip(), tcp.port()), (tcp.ip(), 443), "{written}");
    }
    let guest = start(lab, "guest", &file);
    guest.wait_up(2);
    guest.wait("one uplink is on TCP, the other is not", |guest| {
        (crate::tcp::kind(guest, "eth0"), crate::tcp::kind(guest, "eth1")) == ("udp".into(), "tcp".into())
    });
    lab.echo("hub", "10.77.0.1:7");
    assert!(lab.until_answered("guest", "10.77.0.3:0", "10.77.0.1:7").is_some());
    guest.stop();
    hub.stop();
}

#[test]
fn where_no_udp_passes_at_all_a_site_joins_over_tcp_alone_and_once() {
    let Some((pair, hub)) = hub_with_tcp_and_guest() else { return };
    let lab = &pair.lab;
    block_udp(lab, &[("hub", "eth2"), ("hub", "eth3"), ("guest", "eth0"), ("guest", "eth1")]);
    let invited = invite(lab, &ENDS);
    let (joined, file) = join(lab, "guest", &word(&invited), &[]);
    assert!(joined.status.success(), "{}", text(&joined));
    assert_eq!((hub.counter("join_joined"), hub.counter("socket_received_messages")), (1, 0), "all of it by TCP");
    let guest = start(lab, "guest", &file);
    guest.wait_up(2);
    lab.transfer("guest", "hub", "10.77.0.1:5001", 3);
    guest.stop();
    for name in ["guest.key", "guest.toml"] {
        fs::remove_file(lab.path(name)).expect("there");
    }
    let (again, _) = join(lab, "guest", &word(&invited), &[]);
    assert!(again.status.code() == Some(2) && text(&again).contains("was used already"), "{}", text(&again));
    hub.stop();
}

/// What somebody does with a connection that is not meant for him.
type Stranger = fn(&mut TcpStream);

#[test]
fn whatever_answers_at_the_hubs_tcp_port_in_place_of_the_hub_join_ends_says_so_and_leaves_nothing() {
    let Some((pair, hub)) = hub_with_tcp_and_guest() else { return };
    let lab = &pair.lab;
    let invited = invite(lab, &ENDS[..2]);
    hub.stop();
    let said = |says: &str| {
        let (refused, _) = join(lab, "guest", &word(&invited), &["--uplink", "eth0"]);
        let said = text(&refused);
        assert!(refused.status.code() == Some(1) && said.contains(says), "{says}: {said}");
        assert!(said.contains("over UDP: no answer; over TCP: ") && said.contains("TCP port 443"), "{said}");
        assert_eq!(files_of(lab, "guest"), Vec::<String>::new());
    };
    said("Connection refused");
    // A stranger takes whatever comes, and does something else each time.
    let answers: [(&str, Stranger); 4] = [
        ("something else answers there", |stranger| drop(stranger.write_all(&[0xff; 40_000]))),
        ("it was ended before an answer came", |_| ()),
        // A datagram of the right length, one byte a moment, that says nothing.
        ("no answer", |stranger| {
            while [0, 100].iter().chain(&[7; 100]).all(|byte| stranger.write_all(&[*byte]).is_ok()) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }),
        ("no answer", |stranger| drop(std::io::copy(stranger, &mut std::io::sink()))),
    ];
    for (says, answer) in answers {
        let listener = lab.listen("hub", "192.168.3.1:443");
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, own) = (stop.clone(), listener.try_clone().expect("another one"));
        own.set_nonblocking(true).expect("set");
        let strangers = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match own.accept() {
                    Ok((mut stranger, _)) => drop(std::thread::spawn(move || answer(&mut stranger))),
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        });
        said(says);
        stop.store(true, Ordering::Relaxed);
        strangers.join().expect("ended");
        drop(listener);
    }
}
