//! The daemon in the host's network: routes, both IP versions, packet sizes, metrics, recordings.

use crate::common::*;
use rustix::process::Signal;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection, if one comes about soon.
fn connect(target: &str) -> TcpStream {
    TcpStream::connect_timeout(&target.parse().expect("an address"), PATIENCE).expect("connected")
}

#[test]
fn everything_goes_through_the_tunnel_but_the_tunnels_own_datagrams() {
    let Some(lab) = Lab::new(&["site", "hub"]) else { return };
    // The site reaches the hub's public address through its default route only, which the tunnel takes over.
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.ip("site", &["route", "add", "default", "via", "192.168.1.1"]);
    for address in ["198.51.100.2/32", "203.0.113.2/32", "2001:db8:f::2/128"] {
        lab.ip("hub", &["address", "add", address, "dev", "lo"]);
    }
    let (site, hub) = (keys(), keys());
    let hub_config = interface("fs0", "[\"10.77.0.1/24\", \"fd77::1/64\"]", &hub.0, "listen_port = 51900")
        + &peer("site", &site.1, "[\"10.77.0.2/32\", \"fd77::2/128\"]", "");
    let site_config = interface("fs0", "[\"10.77.0.2/24\", \"fd77::2/64\"]", &site.0, "")
        + &peer("hub", &hub.1, "[\"0.0.0.0/0\", \"::/0\"]", "")
        + &udp("link", "eth0", "198.51.100.2:51900");
    let before = lab.traces("site");
    let hub = lab.daemon("hub", "hub", &hub_config);
    let site = lab.daemon("site", "site", &site_config);
    site.wait_up(1);
    lab.transfer("site", "hub", "203.0.113.2:5001", 5);
    lab.transfer("site", "hub", "[2001:db8:f::2]:5002", 5);
    lab.transfer("hub", "site", "10.77.0.2:5003", 2);
    // All of it went through the tunnel once; a loop would send each datagram through it again.
    let sealed = site.counter("secure_sealed_bytes");
    // Less than twice as much, with what TCP sends again on a busy machine.
    assert!((10_000_000..20_000_000).contains(&sealed), "{}", site.status());
    site.stop();
    assert_eq!(lab.traces("site"), before);
    hub.stop();
}

#[test]
fn ipv6_carries_and_is_carried() {
    let Some(lab) = Lab::new(&["site", "hub"]) else { return };
    lab.cable(("site", "eth0", "2001:db8:1::2/64"), ("hub", "eth0", "2001:db8:1::1/64"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let config = pair.site_config("", "").replace("192.168.1.1:51900", "[2001:db8:1::1]:51900");
    let site = lab.daemon("site", "site", &config);
    site.wait_up(2);
    hub.wait_up(2);
    // What fits beside the larger header: 20 bytes less than over IPv4 alone.
    site.wait("the same MTU at both ends", |site| site.status()["mtu"] == hub.status()["mtu"]);
    lab.transfer("site", "hub", "10.77.0.1:5001", 5);
    lab.transfer("hub", "site", "[fd77::2]:5002", 5);
    site.stop();
    hub.stop();
}

#[test]
fn big_packets_are_refused_with_the_right_size_or_cut_and_mss_fits() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let mtu = site.status()["mtu"].as_u64().expect("a number") as usize;
    assert!((1280..1500).contains(&mtu), "{mtu}");

    // Whatever may be cut arrives, however large.
    lab.echo("hub", "10.77.0.1:7");
    lab.echo("hub", "[fd77::1]:7");
    for (local, target) in [("10.77.0.2:0", "10.77.0.1:7"), ("[fd77::2]:0", "[fd77::1]:7")] {
        for len in [mtu - 48, mtu - 28, mtu, 4000, 20_000, 60_000] {
            let socket = lab.udp("site", local);
            socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
            let sent: Vec<u8> = (0..len).map(|n| (n / 7) as u8).collect();
            let mut buffer = vec![0; 65_536];
            // Nobody promises that a datagram arrives: one that is lost, on a busy machine for want of a buffer, goes again.
            let answer = (0..30).find_map(|again| {
                if again > 0 {
                    println!("{len} bytes to {target}: sent again, time {again}");
                }
                socket.send_to(&sent, target).expect("sent");
                socket.recv_from(&mut buffer).ok()
            });
            let (got, _) = answer.unwrap_or_else(|| panic!("{len} bytes to {target}: no answer"));
            assert!(buffer[..got] == sent, "{len} bytes to {target}");
        }
    }

    // What may not is refused by ICMP with the size that fits: from a host behind the gateway.
    let ping = |len: usize| {
        let mut command = std::process::Command::new("ip");
        // One answer is enough.
        command.args(["netns", "exec", &lab.name("site"), "ping", "-M", "do", "-c", "20", "-i", "0.2", "-W", "20"]);
        command.args(["-s", &len.to_string(), "10.77.0.1"]).output()
    };
    match ping(mtu - 28) {
        Ok(fits) => {
            assert!(fits.status.success(), "{}", String::from_utf8_lossy(&fits.stdout));
            let refused = ping(mtu - 27).expect("ping");
            let said = String::from_utf8_lossy(&refused.stdout) + String::from_utf8_lossy(&refused.stderr);
            assert!(!refused.status.success() && said.contains(&format!("mtu={mtu}")), "{said}");
        }
        Err(_) => println!("skipped: needs ping"),
    }

    // TCP starts with what fits, both ways.
    for (from, to, target) in [("site", "hub", "10.77.0.1:5001"), ("hub", "site", "10.77.0.2:5002")] {
        let listener = lab.listen(to, target);
        let client = lab.run(from, move || connect(target));
        let server = accept(&listener);
        for stream in [&client, &server] {
            let mss = SockRef::from(stream).tcp_mss().expect("an MSS") as usize;
            assert!(mss <= mtu - 40 && mss >= mtu - 60, "MSS {mss} at MTU {mtu}");
        }
    }
    site.stop();
    hub.stop();
}

#[test]
fn the_mss_of_a_forwarded_connection_is_clamped() {
    // As from a host behind the site that knows its own MTU only.
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let mtu = site.status()["mtu"].as_u64().expect("a number");
    for (namespace, far) in [("site", "10.77.0.1/32"), ("hub", "10.77.0.2/32")] {
        lab.ip(namespace, &["route", "replace", far, "dev", "fs0", "advmss", "1460"]);
    }
    let listener = lab.listen("hub", "10.77.0.1:5001");
    let client = lab.run("site", || connect("10.77.0.1:5001"));
    let server = accept(&listener);
    for stream in [&client, &server] {
        let mss = u64::from(SockRef::from(stream).tcp_mss().expect("an MSS"));
        assert!(mss <= mtu - 40, "MSS {mss} at MTU {mtu}");
    }
    assert!(site.peer_counter("mss_clamped") + hub.peer_counter("mss_clamped") > 0, "{}", site.status());
    site.stop();
    hub.stop();
}

#[test]
fn metrics_are_served_where_asked_for() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let site = lab.daemon("site", "site", &pair.site_config("metrics = \"127.0.0.1:9310\"", EQUAL_SHARES));
    site.wait_up(2);
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    let end = Instant::now() + PATIENCE;
    loop {
        let text = lab.run("site", || {
            let mut stream = connect("127.0.0.1:9310");
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("asked");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("answered");
            text
        });
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("# EOF\n"), "{text}");
        let line =
            "fairspan_channel_events_total{interface=\"fs0\",peer=\"hub\",channel=\"one\",event=\"sent_bytes\"} ";
        let bytes: u64 = text.split(line).nth(1).and_then(|t| t.lines().next()?.parse().ok()).expect("the counter");
        let up = "fairspan_channel_up{interface=\"fs0\",peer=\"hub\",channel=\"two\"} 1.0";
        // Published once a second.
        if bytes > 500_000 && text.contains(up) {
            break;
        }
        assert!(Instant::now() < end, "{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
    site.stop();
    hub.stop();
}

#[test]
fn a_recorded_run_replays_byte_for_byte_and_a_flipped_byte_is_found() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    for mode in ["ordered", "stripe"] {
        let file = lab.path("run.fsr");
        let hub = lab.daemon("hub", "hub", &pair.hub_config("", &format!("mode = \"{mode}\"")));
        let record = format!("record = \"{}\"", file.display());
        let mut site = lab.daemon("site", "site", &pair.site_config(&record, &format!("mode = \"{mode}\"")));
        site.wait_up(2);
        lab.transfer("site", "hub", "10.77.0.1:5001", 2);
        lab.ip("site", &["link", "set", "eth1", "down"]);
        site.wait("left", |d| d.state("two") != "up");
        lab.transfer("hub", "site", "10.77.0.2:5002", 2);
        lab.ip("site", &["link", "set", "eth1", "up"]);
        site.wait_up(2);
        site.signal(Signal::TERM);
        assert_eq!(site.ended().code(), Some(0));
        let path = file.to_str().expect("a path");
        let same = lab.fairspan("site", &["replay", path]);
        let said = String::from_utf8_lossy(&same.stdout);
        assert_eq!(same.status.code(), Some(0), "{said}");
        assert!(said.contains("the same"), "{said}");
        let mut bytes = std::fs::read(&file).expect("the recording");
        assert!(bytes.len() > 4_000_000, "both transfers are in it: {}", bytes.len());
        // Somewhere in the middle of the data.
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).expect("written");
        let other = lab.fairspan("site", &["replay", path]);
        assert!(matches!(other.status.code(), Some(1 | 2)), "{:?}", other);
        hub.stop();
    }
}
