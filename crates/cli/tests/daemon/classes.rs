//! Traffic classes of real daemons: which channel carries them, what the status tells, and what becomes of one whose only channel is gone.

use crate::common::*;
use crate::flow::{Flows, reordered};

/// The first peer's first class.
fn class(daemon: &Daemon) -> serde_json::Value {
    daemon.status()["peers"][0]["classes"][0].clone()
}

fn counter(daemon: &Daemon, name: &str) -> u64 {
    class(daemon)["counters"][name].as_u64().expect("a counter")
}

/// Data frames that the daemon has sent over this channel.
fn sent(daemon: &Daemon, name: &str) -> u64 {
    let status = daemon.status();
    let channels = status["peers"][0]["channels"].as_array().expect("channels");
    let channel = channels.iter().find(|channel| channel["name"] == name).expect("the channel");
    channel["counters"]["sent_packets"].as_u64().expect("a counter")
}

#[test]
fn a_class_by_port_goes_by_its_channel_alone_and_a_listening_end_knows_the_channels_of_its_classes_by_the_handshake() {
    let Some(lab) = Lab::new(&["site", "hub"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    let (site_key, hub_key) = (keys(), keys());
    // Deadlines that no slow machine misses.
    let mode = "resend_within = \"30s\"\nreorder_deadline = \"60s\"\n";
    let up =
        "[[peer.class]]\nname = \"games\"\nprotocol = \"udp\"\nport = \"6000-6002\"\nchannels = \"two\"\nonly = true\n";
    let down = "[[peer.class]]\nname = \"answers\"\nprotocol = \"tcp\"\nport = 7001\nmode = \"backup\"\nchannels = [\"one\"]\n";
    let hub = interface("fs0", "[\"10.77.0.1/24\"]", &hub_key.0, "listen_port = 51900\n")
        + &peer("site", &site_key.1, "[\"10.77.0.2/32\"]", mode)
        + down;
    let site = interface("fs0", "[\"10.77.0.2/24\"]", &site_key.0, "")
        + &peer("hub", &hub_key.1, "[\"10.77.0.1/32\"]", mode)
        + &udp("one", "eth0", "192.168.1.1:51900")
        + &udp("two", "eth1", "192.168.2.1:51900")
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

    // What answers the site has its class at the hub, whose channels came with the handshakes.
    lab.transfer("site", "hub", "10.77.0.1:7001", 4);
    let told = class(&hub);
    assert_eq!(told["carried_by"], serde_json::json!(["one"]), "{told}");
    assert!(told["frames"]["one"].as_u64() > Some(0) && told["frames"]["two"].is_null(), "{told}");
    let text = lab.fairspan("hub", &["status", "--socket", &lab.path("hub.sock").display().to_string()]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("carried by") && text.contains("answers"), "{text}");

    // Without its only channel it waits, and others do not.
    lab.ip("site", &["link", "set", "eth1", "down"]);
    site.wait("the loss of the channel", |site| site.state("two") != "up");
    assert_eq!(class(&site)["carried_by"], serde_json::json!([]));
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
