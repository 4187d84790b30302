//! What routers and far hosts tell of calls that do not arrive, and what forged messages do.

use crate::common::*;
use crate::hostile::reason;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A site and a hub with a router between, over IPv4 and IPv6.
fn routed() -> Option<Lab> {
    let lab = Lab::new(&["site", "router", "hub"])?;
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("router", "eth0", "192.168.1.1/24"));
    lab.cable(("hub", "eth0", "192.168.2.2/24"), ("router", "eth1", "192.168.2.1/24"));
    for namespace in ["router", "hub"] {
        lab.run(namespace, || {
            let settings = [
                ("ipv4/ip_forward", "1"),
                ("ipv6/conf/all/forwarding", "1"),
                // Channels to one host would take the messages from each other.
                ("ipv4/icmp_ratelimit", "0"),
                ("ipv6/icmp/ratelimit", "0"),
            ];
            for (setting, value) in settings {
                std::fs::write(format!("/proc/sys/net/{setting}"), value).expect(setting);
            }
        });
    }
    for (namespace, device, address) in [
        ("site", "eth0", "fd01::2/64"),
        ("router", "eth0", "fd01::1/64"),
        ("router", "eth1", "fd02::1/64"),
        ("router", "eth1", "fe80::1/64"),
        ("hub", "eth0", "fd02::2/64"),
        ("hub", "eth0", "fe80::2/64"),
    ] {
        lab.ip(namespace, &["address", "add", address, "dev", device, "nodad"]);
    }
    for (namespace, four, six) in [("site", "192.168.1.1", "fd01::1"), ("hub", "192.168.2.1", "fd02::1")] {
        lab.ip(namespace, &["route", "add", "default", "via", four]);
        lab.ip(namespace, &["-6", "route", "add", "default", "via", six]);
    }
    Some(lab)
}

/// A channel of a peer.
fn channel(name: &str, endpoint: &str) -> String {
    udp(name, "eth0", endpoint)
}

#[test]
fn a_route_of_this_host_that_prohibits_a_channel_is_told() {
    let Some(lab) = routed() else { return };
    lab.ip("site", &["route", "add", "prohibit", "203.0.113.0/24"]);
    let config = interface("fs0", "[\"10.77.0.2/24\"]", &keys().0, "")
        + &peer("hub", &keys().1, "[\"10.77.0.1/32\"]", "")
        + &channel("prohibited", "203.0.113.1:51900").replace("device = \"eth0\"\n", "");
    let site = lab.daemon("site", "site", &config);
    site.wait("why nothing is sent", |site| reason(site, 0).contains("one that prohibits it"));
}

#[test]
fn a_channel_that_the_network_refuses_says_by_whom_and_comes_up_once_it_may() {
    let Some(lab) = routed() else { return };
    for (kind, four, six) in
        [("unreachable", "198.51.100.0/24", "fd03::/64"), ("prohibit", "203.0.113.0/24", "fd04::/64")]
    {
        lab.ip("router", &["route", "add", kind, four]);
        lab.ip("router", &["-6", "route", "add", kind, six]);
    }
    let (site_key, hub_key) = (keys(), keys());
    let config = interface("fs0", "[\"10.77.0.2/24\"]", &site_key.0, "")
        + &peer("hub", &hub_key.1, "[\"10.77.0.1/32\"]", "")
        + &channel("four", "192.168.2.2:51900")
        + &channel("six", "[fd02::2]:51900")
        + &channel("unreachable-four", "198.51.100.1:51900")
        + &channel("unreachable-six", "[fd03::1]:51900")
        + &channel("prohibited-four", "203.0.113.1:51900")
        + &channel("prohibited-six", "[fd04::1]:51900")
        + &channel("unrouted-four", "192.0.2.1:51900")
        + &channel("unrouted-six", "[fd05::1]:51900");
    let site = lab.daemon("site", "site", &config);
    let told = [
        ("refused by 192.168.2.2", "192.168.2.2:51900"),
        ("refused by fd02::2", "[fd02::2]:51900"),
        ("no route to that host, says 192.168.1.1", "198.51.100.1:51900"),
        ("no route to that network, says fd01::1", "[fd03::1]:51900"),
        ("prohibited by 192.168.1.1", "203.0.113.1:51900"),
        ("prohibited by fd01::1", "[fd04::1]:51900"),
        ("no route to that network, says 192.168.1.1", "192.0.2.1:51900"),
        ("no route to that network, says fd01::1", "[fd05::1]:51900"),
    ];
    for (number, (words, _)) in told.iter().enumerate() {
        site.wait(words, |site| reason(site, number).contains(words));
    }
    let socket = site.socket.display().to_string();
    let shown = lab.fairspan("site", &["status", "--socket", &socket]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("  four: refused by 192.168.2.2"), "{shown:?}");

    // However often the calls are refused, the log says it once for each channel.
    let calls = site.counter("secure_initiations_sent");
    site.wait("each calls again", |site| site.counter("secure_initiations_sent") >= calls + 2 * told.len() as u64);
    for (words, endpoint) in told {
        let lines = site.log();
        let lines: Vec<&str> = lines.lines().filter(|line| line.contains(words) && line.contains(endpoint)).collect();
        assert_eq!(lines.len(), 1, "{endpoint}: {lines:?}");
    }

    // The hub comes, and one of the routes.
    let hub = interface("fs0", "[\"10.77.0.1/24\"]", &hub_key.0, "listen_port = 51900")
        + &peer("site", &site_key.1, "[\"10.77.0.2/32\"]", "");
    let hub = lab.daemon("hub", "hub", &hub);
    lab.ip("hub", &["address", "add", "203.0.113.1/32", "dev", "lo"]);
    lab.ip("router", &["route", "replace", "203.0.113.0/24", "via", "192.168.2.2"]);
    for (number, name) in [(0, "four"), (1, "six"), (4, "prohibited-four")] {
        site.wait(&format!("{name} is up"), |site| site.state(name) == "up");
        assert_eq!(reason(&site, number), "", "{name}");
    }
    // The others are refused all the time, and no packet of those that are up is lost for it.
    lab.transfer("site", "hub", "10.77.0.1:5001", 5);
    lab.transfer("hub", "site", "10.77.0.2:5002", 5);
    assert!(reason(&site, 3).contains("no route"), "{}", site.status());

    // The hub ends: it is refused again, and told again.
    hub.stop();
    site.wait("refused again", |site| reason(site, 1).contains("refused by fd02::2"));
    site.wait("told again", |site| site.log().matches("refused by fd02::2").count() == 2);
    site.stop();
}

/// An ICMP message "port unreachable" about a UDP datagram `from` here `to` there.
fn port_unreachable(from: SocketAddrV4, to: SocketAddrV4) -> Vec<u8> {
    let mut quoted = vec![0x45, 0, 0, 128, 0, 0, 0x40, 0, 64, 17, 0, 0];
    quoted.extend(from.ip().octets());
    quoted.extend(to.ip().octets());
    let sum = checksum(&quoted);
    quoted[10..12].copy_from_slice(&sum);
    quoted.extend([from.port().to_be_bytes(), to.port().to_be_bytes(), 108u16.to_be_bytes(), [0, 0]].concat());
    let mut message = [&[3, 3, 0, 0, 0, 0, 0, 0], quoted.as_slice()].concat();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum);
    message
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

#[test]
fn forged_refusals_of_other_datagrams_change_nothing_and_of_the_right_one_only_the_reason() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    // Somebody listens, hears the calls, and says nothing.
    let silent = lab.udp("hub", "192.168.1.1:51900");
    let site = lab.daemon("site", "site", &pair.site_config("", ""));
    site.wait("nobody answers", |site| reason(site, 0).contains("no answer to"));
    let (_, from) = silent.recv_from(&mut [0; 2048]).expect("a call");
    let SocketAddr::V4(from) = from else { panic!("{from}") };
    let to = SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 1), 51900);
    let forger = lab.run("hub", || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).expect("a socket"));
    let site_address = SockAddr::from(SocketAddrV4::new(*from.ip(), 0));
    let forge = |from: SocketAddrV4, to: SocketAddrV4| {
        forger.send_to(&port_unreachable(from, to), &site_address).expect("sent");
    };
    // Whenever it listens, there is a forged one about another port here, another port there, another host there.
    let calls = site.counter("secure_initiations_sent");
    site.wait("it calls again and again", |site| {
        for _ in 0..100 {
            forge(SocketAddrV4::new(*from.ip(), from.port() ^ 1), to);
            forge(from, SocketAddrV4::new(*to.ip(), to.port() + 1));
            forge(from, SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 77), to.port()));
        }
        assert!(reason(site, 0).contains("no answer to"), "{}", site.status());
        site.counter("secure_initiations_sent") >= calls + 6
    });
    assert!(!site.log().contains("192.168.1.1:51900 reason=refused"), "{}", site.log());
    // One about a call that was made is as good as a true one, which is all that it is.
    site.wait("it says so", |site| {
        forge(from, to);
        reason(site, 0).contains("refused by 192.168.1.1")
    });
    // The peer comes, and those that go on keep it from nothing.
    drop(silent);
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    site.wait("both are up", |site| {
        (0..100).for_each(|_| forge(from, to));
        site.channels_up() == 2
    });
    std::thread::scope(|scope| {
        let transfer = scope.spawn(|| lab.transfer("site", "hub", "10.77.0.1:5001", 10));
        while !transfer.is_finished() {
            (0..20).for_each(|_| forge(from, to));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if transfer.join().is_err() {
            panic!("not all came:\n{}\n{}\n{}\n{}", site.status(), site.log(), hub.status(), hub.log());
        }
    });
    site.wait_up(2);
    // A busy machine may be silent for a while, which is another reason.
    let log = site.log();
    let down =
        |line: &&str| line.contains("channel lost") || line.contains("channel down") && line.contains("its link");
    assert_eq!(log.lines().filter(down).count(), 0, "{log}");
    site.stop();
    hub.stop();
}
