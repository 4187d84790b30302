//! Paths and peers that carry less than others: nobody else loses by it, and what flows goes on.

use crate::common::*;

/// A hub and two sites, each with a link of its own to it.
fn two_sites() -> Option<(Lab, [(String, String); 3])> {
    let lab = Lab::new(&["hub", "wide", "narrow"])?;
    lab.cable(("wide", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("narrow", "eth0", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    Some((lab, [keys(), keys(), keys()]))
}

fn site(number: usize, keys: &[(String, String); 3], channel: &str) -> String {
    interface("fs0", &format!("[\"10.77.0.{number}/24\", \"fd77::{number}/64\"]"), &keys[number - 1].0, "")
        + &peer("hub", &keys[0].1, "[\"10.77.0.0/24\", \"fd77::/64\"]", "")
        + &udp("one", "eth0", &format!("192.168.{}.1:51900", number - 1))
        + channel
}

#[test]
fn a_peer_with_a_narrow_path_takes_ipv6_from_nobody_and_its_own_packets_pass_in_fragments() {
    let Some((lab, keys)) = two_sites() else { return };
    let mtu = |daemon: &Daemon| daemon.status()["mtu"].as_u64().expect("a number");
    let hub = interface("fs0", "[\"10.77.0.1/24\", \"fd77::1/64\"]", &keys[0].0, "listen_port = 51900")
        + &peer("wide", &keys[1].1, "[\"10.77.0.2/32\", \"fd77::2/128\"]", "")
        + &peer("narrow", &keys[2].1, "[\"10.77.0.3/32\", \"fd77::3/128\"]", "");
    let hub = lab.daemon("hub", "hub", &hub);
    let wide = lab.daemon("wide", "wide", &site(2, &keys, ""));
    wide.wait_up(1);
    hub.wait("its whole MTU", |d| mtu(d) > 1400);
    let before = mtu(&hub);

    // Its hello says 576, and its links carry no more.
    for (namespace, device) in [("narrow", "eth0"), ("hub", "eth1")] {
        lab.ip(namespace, &["link", "set", device, "mtu", "576"]);
    }
    let narrow = lab.daemon("narrow", "narrow", &site(3, &keys, "mtu = 576\n"));
    narrow.wait_up(1);
    hub.wait("the narrow peer", |d| d.status()["peers"][1]["mtu"].as_u64().is_some_and(|mtu| mtu < 576));
    assert_eq!([mtu(&hub), mtu(&narrow)], [1280, 1280]);
    lab.transfer("wide", "hub", "[fd77::1]:5001", 1);
    lab.transfer("hub", "wide", "[fd77::2]:5002", 1);
    lab.transfer("narrow", "hub", "[fd77::1]:5003", 1);
    lab.transfer("hub", "narrow", "[fd77::3]:5004", 1);
    lab.transfer("hub", "narrow", "10.77.0.3:5005", 1);
    // Datagrams of the size that IPv6 may always have.
    lab.echo("narrow", "[fd77::3]:7000");
    let socket = lab.udp("hub", "[fd77::1]:0");
    let whole = [7; 1280 - 48];
    let mut buffer = [0; 2000];
    let answered = (0..50).any(|_| {
        socket.send_to(&whole, "[fd77::3]:7000").expect("sent");
        socket.recv_from(&mut buffer).is_ok_and(|(len, _)| buffer[..len] == whole)
    });
    assert!(answered, "a datagram of 1280 bytes comes back");

    // With the peer its MTU goes.
    narrow.stop();
    hub.wait("the MTU of who is left", |d| mtu(d) == before);
    lab.transfer("hub", "wide", "[fd77::2]:5006", 1);
}

/// A site and a hub with two ways between them, the first by a router that may narrow, with the bond's settings.
fn through_a_router(settings: &str, channels: usize) -> Option<(Pair, Daemon, Daemon)> {
    let lab = Lab::new(&["site", "router", "hub"])?;
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("router", "near", "192.168.1.1/24"));
    lab.cable(("router", "far", "192.168.3.1/24"), ("hub", "eth0", "192.168.3.2/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    lab.run("router", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding"));
    lab.ip("site", &["route", "add", "192.168.3.0/24", "via", "192.168.1.1"]);
    lab.ip("hub", &["route", "add", "192.168.1.0/24", "via", "192.168.3.1"]);
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    let hub = pair.lab.daemon("hub", "hub", &pair.hub_config("", settings));
    let ways = [udp("one", "eth0", "192.168.3.2:51900"), udp("two", "eth1", "192.168.2.1:51900")];
    let ways: String = ways.iter().take(channels).map(|way| format!("{way}rate = \"40Mbit\"\n")).collect();
    let site = interface("fs0", "[\"10.77.0.2/24\", \"fd77::2/64\"]", &pair.site_key.0, "")
        + &peer("hub", &pair.hub_key.1, "[\"10.77.0.1/32\", \"fd77::1/128\"]", settings)
        + &ways;
    let site = pair.lab.daemon("site", "site", &site);
    site.wait_up(channels);
    hub.wait_up(channels);
    Some((pair, site, hub))
}

#[test]
fn bulk_data_goes_on_when_a_path_narrows_with_icmp_and_without_alone_and_in_a_bond() {
    for (channels, icmp) in [(1, true), (1, false), (2, true), (2, false)] {
        let Some((pair, site, _hub)) = through_a_router("", channels) else { return };
        let lab = &pair.lab;
        if !icmp {
            // What the router itself sends to the site is lost.
            lab.ip("router", &["rule", "add", "from", "192.168.1.1", "blackhole"]);
        }
        let fits = |d: &Daemon| d.status()["peers"][0]["mtu"].as_u64().expect("a number");
        let before = fits(&site);
        std::thread::scope(|scope| {
            let transfer = scope.spawn(|| lab.transfer("site", "hub", "10.77.0.1:5001", 12));
            site.wait("a good part of it", |d| {
                d.status()["peers"][0]["channels"][0]["counters"]["sent_bytes"].as_u64() > Some(3_000_000)
            });
            lab.ip("router", &["link", "set", "far", "mtu", "1400"]);
            transfer.join().expect("every byte arrives, in order");
        });
        site.wait("what fits", |d| (before - 103..=before - 100).contains(&fits(d)));
    }
}
