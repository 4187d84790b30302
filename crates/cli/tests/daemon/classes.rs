//! Traffic classes of real daemons: which channel carries them, what the status tells, and what becomes of one whose only channel is gone.

use crate::common::*;
use crate::flow::{Flows, reordered};
use crate::reload::reload;

/// The first peer's first class.
fn class(daemon: &Daemon) -> serde_json::Value {
    daemon.status()["peers"][0]["classes"][0].clone()
}

fn counter(daemon: &Daemon, name: &str) -> u64 {
    class(daemon)["counters"][name].as_u64().expect("a counter")
}

/// The state of the path of a channel.
fn path_state(daemon: &Daemon, name: &str) -> String {
    let status = daemon.status();
    let channels = status["peers"][0]["channels"].as_array().expect("channels");
    let channel = channels.iter().find(|channel| channel["name"] == name).expect("the channel");
    channel["path"]["state"].as_str().unwrap_or_default().to_owned()
}

/// Data frames that the daemon has sent over this channel.
fn sent(daemon: &Daemon, name: &str) -> u64 {
    let status = daemon.status();
    let channels = status["peers"][0]["channels"].as_array().expect("channels");
    let channel = channels.iter().find(|channel| channel["name"] == name).expect("the channel");
    channel["counters"]["sent_packets"].as_u64().expect("a counter")
}

fn socket_of(lab: &Lab) -> String {
    lab.path("site.sock").display().to_string()
}

/// Each flow of the class says by which channel it goes; what the kernels say may have a flow bucket with one of them.
fn flows_of_games_go_by_two(lab: &Lab, site: &Daemon) {
    let queue = &site.status()["peers"][0]["queue"];
    let games_flows: Vec<_> =
        queue["flows"].as_array().expect("flows").iter().filter(|flow| flow["class"] == "games").collect();
    assert!(!games_flows.is_empty(), "{queue}");
    for flow in games_flows {
        let bytes = |way: &serde_json::Value| way["bytes"].as_u64().unwrap_or(0);
        let ways = flow["ways"].as_array().expect("ways");
        let by_two: u64 = ways.iter().filter(|way| way["channel"] == "two").map(bytes).sum();
        assert!(
            by_two * 10 > ways.iter().map(bytes).sum::<u64>() * 9 && flow["packets"].as_u64() >= Some(400),
            "{queue}"
        );
        assert_eq!(flow["because"], "most of it matches this class");
    }
    let text = String::from_utf8(lab.fairspan("site", &["status", "--socket", &socket_of(lab)]).stdout).expect("text");
    assert!(text.lines().any(|line| line.contains("games") && line.contains("two 100 %")), "{text}");
}

#[test]
fn a_class_by_port_goes_by_its_channel_alone_and_a_listening_end_knows_the_channels_of_its_classes_by_the_handshake() {
    let Some(lab) = Lab::new(&["site", "hub"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    let (site_key, hub_key) = (keys(), keys());
    // Deadlines that no slow machine misses. On a busy one a link of unlimited rate may be measured as one of 20 Mbit/s, which is then held in
    // reserve beside a faster one.
    let mode = "resend_within = \"30s\"\nreorder_deadline = \"60s\"\n";
    let rate = "rate = \"100Mbit\"\n";
    let up =
        "[[peer.class]]\nname = \"games\"\nprotocol = \"udp\"\nport = \"6000-6002\"\nchannels = \"two\"\nonly = true\n";
    let down = "[[peer.class]]\nname = \"answers\"\nprotocol = \"tcp\"\nport = 7001\nmode = \"backup\"\nchannels = [\"one\"]\nonly = true\n";
    let hub = interface("fs0", "[\"10.77.0.1/24\"]", &hub_key.0, "listen_port = 51900\n")
        + &peer("site", &site_key.1, "[\"10.77.0.2/32\"]", mode)
        + down;
    let site = interface("fs0", "[\"10.77.0.2/24\"]", &site_key.0, "")
        + &peer("hub", &hub_key.1, "[\"10.77.0.1/32\"]", mode)
        + &udp("one", "eth0", "192.168.1.1:51900")
        + rate
        + &udp("two", "eth1", "192.168.2.1:51900")
        + rate
        + up;
    let hub = lab.daemon("hub", "hub", &hub);
    let site = lab.daemon("site", "site", &site);
    site.wait_up(2);
    hub.wait_up(2);

    // Nothing else is sent but what the kernels say by themselves.
    let before = sent(&site, "one");
    let games = Flows::new(&lab, 6000, 7000, 3);
    games.send(0, 400);
    let arrived = games.arrived(1200);
    assert!(arrived.values().all(|numbers| numbers.len() == 400) && reordered(&arrived) == 0, "in order and whole");
    let others = sent(&site, "one") - before;
    assert!(others < 100, "{others} frames on the other channel beside 1200 of the class");
    let told = class(&site);
    assert_eq!((told["name"].as_str(), told["mode"].as_str()), (Some("games"), Some("reliable")), "{told}");
    assert_eq!((&told["matches"]["port"], &told["carried_by"][0]), (&"6000-6002".into(), &"two".into()), "{told}");
    assert!(told["frames"]["two"].as_u64() >= Some(1200) && told["frames"]["one"].is_null(), "{told}");
    assert_eq!((counter(&site, "packets"), counter(&site, "dropped")), (1200, 0));

    flows_of_games_go_by_two(&lab, &site);

    // In words, and as a document.
    let socket = socket_of(&lab);
    let explained = || {
        let output = lab.fairspan("site", &["explain", "--socket", &socket, "--json"]);
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("a document")
    };
    // On a busy host a channel may be late for a moment, and then the other one carries all else.
    let both = serde_json::json!(["one", "two"]);
    site.wait("both channels carry all else", |_| explained()["classes"][2]["channels"] == both);
    let told = explained();
    let names: Vec<_> = told["classes"].as_array().expect("classes").iter().map(|class| &class["name"]).collect();
    assert_eq!(names, ["games", "urgent", "all else"]);
    let games_are = &told["classes"][0];
    assert_eq!((&games_are["peer"], &games_are["mode"]), (&"hub".into(), &"reliable".into()), "{told}");
    assert_eq!(games_are["channels"], serde_json::json!(["two"]));
    assert_eq!(games_are["because"][0], "it names two: only these may carry it");
    let text = String::from_utf8(lab.fairspan("site", &["explain", "--socket", &socket]).stdout).expect("text");
    assert!(text.starts_with("peer hub\n\n  games (reliable): by two\n    because\n      it names two"), "{text}");

    // What answers the site has its class at the hub, whose channels came with the handshakes.
    lab.transfer("site", "hub", "10.77.0.1:7001", 4);
    hub.wait("its channel carries it", |hub| class(hub)["carried_by"] == serde_json::json!(["one"]));
    let told = class(&hub);
    assert!(told["frames"]["one"].as_u64() > Some(0) && told["frames"]["two"].is_null(), "{told}");
    let text = lab.fairspan("hub", &["status", "--socket", &lab.path("hub.sock").display().to_string()]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("carried by") && text.contains("answers"), "{text}");

    // Without its only channel it waits, and others do not.
    lab.ip("site", &["link", "set", "eth1", "down"]);
    site.wait("the loss of the channel", |site| site.state("two") != "up");
    assert_eq!(class(&site)["carried_by"], serde_json::json!([]));
    let told = explained();
    let because = told["classes"][0]["because"].as_array().expect("sentences");
    assert!(
        because.iter().any(|text| text.as_str().is_some_and(|text| text.starts_with("none of them works"))),
        "{told}"
    );
    assert_eq!(told["classes"][2]["channels"], serde_json::json!(["one"]), "{told}");
    let before = sent(&site, "one");
    games.send(400, 450);
    assert!(sent(&site, "one") - before < 100);
    lab.transfer("site", "hub", "10.77.0.1:7001", 1);
    lab.ip("site", &["link", "set", "eth1", "up"]);
    site.wait("the return of the channel", |site| site.state("two") == "up");
    games.send(450, 550);
    let arrived = games.arrived(1650);
    let [missing, dropped] = [hub.peer_counter("packets_missing"), counter(&site, "dropped")];
    let counts: Vec<usize> = arrived.values().map(Vec::len).collect();
    assert_eq!((counts, reordered(&arrived)), (vec![550; 3], 0), "{missing} missing, {dropped} dropped");
    assert_eq!(class(&site)["frames"]["one"], serde_json::Value::Null);
    site.stop();
    hub.stop();
}

/// Whether a metered channel was left alone while the other one carried what each direction had. Where the host is so busy
/// that a daemon hears nothing from the other end for longer than a stall may take, the other channel is out of use for a
/// moment, and the metered one rightly steps in. The tests of the core hold that nothing at all goes there otherwise.
fn spared(usual: [u64; 2], metered: [u64; 2]) -> bool {
    (0..2).all(|end| usual[end] > 1000 && metered[end] * 5 < usual[end])
}

#[test]
fn a_metered_channel_carries_data_in_neither_direction_until_it_is_the_only_one_or_metered_no_more() {
    let Some(lab) = Lab::new(&["site", "hub"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    let (site_key, hub_key) = (keys(), keys());
    let hub = interface("fs0", "[\"10.77.0.1/24\"]", &hub_key.0, "listen_port = 51900\n")
        + &peer("site", &site_key.1, "[\"10.77.0.2/32\"]", "");
    let site_with = |metered: &str| {
        interface("fs0", "[\"10.77.0.2/24\"]", &site_key.0, "")
            + &peer("hub", &hub_key.1, "[\"10.77.0.1/32\"]", metered)
            + &udp("one", "eth0", "192.168.1.1:51900")
            + &udp("two", "eth1", "192.168.2.1:51900")
    };
    let hub = lab.daemon("hub", "hub", &hub);
    let site = lab.daemon("site", "site", &site_with("metered = [\"two\"]\n"));
    site.wait_up(2);
    hub.wait_up(2);
    let state = |daemon: &Daemon| path_state(daemon, "two");
    // The end that only listens knows it from the handshake.
    for daemon in [&site, &hub] {
        daemon.wait("the channel is metered", |daemon| state(daemon) == "metered");
    }
    let by = |name| [sent(&site, name), sent(&hub, name)];
    let both = || by("two");
    lab.transfer("site", "hub", "10.77.0.1:7001", 4);
    lab.transfer("hub", "site", "10.77.0.2:7001", 4);
    assert!(spared(by("one"), both()), "{}", site.status());
    let before = both();
    // Both ends tell whose packets these were.
    for (daemon, flow) in [(&site, "tcp 10.77.0.2:"), (&hub, "tcp 10.77.0.1:")] {
        let queue = &daemon.status()["peers"][0]["queue"];
        let flows = queue["flows"].as_array().expect("flows");
        let sent = |flow: &&serde_json::Value| flow["bytes"].as_u64() > Some(4_000_000);
        let told = flows.iter().find(sent).and_then(|flow| flow["flow"].as_str());
        assert!(told.is_some_and(|told| told.starts_with(flow)), "{queue}");
    }

    lab.ip("site", &["link", "set", "eth0", "down"]);
    lab.transfer("site", "hub", "10.77.0.1:7002", 4);
    lab.transfer("hub", "site", "10.77.0.2:7002", 4);
    let after = both();
    assert!(after[0] > before[0] + 1000 && after[1] > before[1] + 1000, "{before:?} {after:?}");
    lab.ip("site", &["link", "set", "eth0", "up"]);
    lab.ip("site", &["address", "replace", "192.168.1.2/24", "dev", "eth0"]);
    for daemon in [&site, &hub] {
        daemon.wait("the other one is back", |daemon| state(daemon) == "metered");
    }

    assert_eq!(reload(&lab, "site", &site, &site_with("")), ["peer hub: metered"]);
    for daemon in [&site, &hub] {
        // In reserve is an ordinary one as well that takes longer than it adds, as by what is measured on a busy machine.
        daemon.wait("it is an ordinary channel", |daemon| ["up", "reserve"].contains(&state(daemon).as_str()));
    }
    site.stop();
    hub.stop();
}

#[test]
fn a_channel_that_has_carried_its_quota_is_metered_at_both_ends_and_after_a_restart() {
    let Some(lab) = Lab::new(&["site", "hub"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    let (site_key, hub_key) = (keys(), keys());
    let hub = interface("fs0", "[\"10.77.0.1/24\"]", &hub_key.0, "listen_port = 51900\n")
        + &peer("site", &site_key.1, "[\"10.77.0.2/32\"]", "measure_rates = false\n");
    let site_with = |quota: &str| {
        interface("fs0", "[\"10.77.0.2/24\"]", &site_key.0, "")
            + &peer("hub", &hub_key.1, "[\"10.77.0.1/32\"]", "measure_rates = false\n")
            + &udp("one", "eth0", "192.168.1.1:51900")
            + &udp("two", "eth1", "192.168.2.1:51900")
            + &format!("quota = \"{quota}\"\n")
    };
    let quota = |daemon: &Daemon, what: &str| {
        daemon.status()["peers"][0]["channels"][1]["quota"][what].as_u64().unwrap_or_default()
    };
    let hub = lab.daemon("hub", "hub", &hub);
    let site = lab.daemon("site", "site", &site_with("6MB"));
    site.wait_up(2);
    hub.wait_up(2);
    assert_eq!((path_state(&site, "two"), quota(&site, "quota_bytes")), ("up".into(), 6_000_000));
    // Each direction has its part in it.
    lab.transfer("site", "hub", "10.77.0.1:7001", 8);
    lab.transfer("hub", "site", "10.77.0.2:7001", 8);
    let counted = |daemon: &Daemon| quota(daemon, "used_bytes") >= 6_000_000;
    site.wait("it has carried its quota", counted);
    let is_metered = |daemon: &Daemon| path_state(daemon, "two") == "metered";
    for daemon in [&site, &hub] {
        daemon.wait("it is metered", is_metered);
    }
    let both = |name| [sent(&site, name), sent(&hub, name)];
    let before = [both("one"), both("two")];
    lab.transfer("site", "hub", "10.77.0.1:7002", 4);
    lab.transfer("hub", "site", "10.77.0.2:7002", 4);
    let since = |name, before: [u64; 2]| [both(name)[0] - before[0], both(name)[1] - before[1]];
    assert!(spared(since("one", before[0]), since("two", before[1])), "{}", site.status());

    let used = quota(&site, "used_bytes");
    site.stop();
    let site = lab.daemon("site", "site", &site_with("6MB"));
    site.wait_up(2);
    assert!(quota(&site, "used_bytes") >= used);
    for daemon in [&site, &hub] {
        daemon.wait("it is metered again", is_metered);
    }
    // More was bought.
    assert_eq!(reload(&lab, "site", &site, &site_with("1GB")), ["peer hub: channel two: quota"]);
    for daemon in [&site, &hub] {
        daemon.wait("it is used as any other", |daemon| path_state(daemon, "two") == "up");
    }
    site.stop();
    hub.stop();
}
