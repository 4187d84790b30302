//! Netlink against the real kernel, each test in a namespace of its own.

mod host_support;

use fairspan_live::netlink::{Capture, Guard, LinkChange, Monitor, Netlink, NetlinkError, Route, Rule, TABLE_MAIN};
use fairspan_live::offload::sum;
use fairspan_live::pool::PacketBuf;
use fairspan_live::tun::{Config, Tun, TunError};
use host_support::{in_namespace, may_make_namespaces, may_write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const CAPTURE: Capture = Capture { fwmark: 0xfa1, table: 4001, priority: 32_000 };

fn route(destination: &str, device: &str, table: u32) -> Route {
    let destination = destination.parse().expect("a prefix");
    Route { destination, device: device.to_owned(), gateway: None, table, metric: None }
}

/// All that a guard can change, done to `device`.
fn change_everything(guard: &mut Guard, device: &str) {
    guard.set_mtu(device, 1380).expect("MTU");
    guard.set_up(device, true).expect("up");
    guard.add_address(device, "10.9.0.1/24".parse().expect("IPv4")).expect("IPv4 address");
    guard.add_address(device, "fd09::1/64".parse().expect("IPv6")).expect("IPv6 address");
    guard.add_route(&route("192.0.2.0/24", device, TABLE_MAIN)).expect("IPv4 route");
    guard.add_route(&route("2001:db8::/32", device, TABLE_MAIN)).expect("IPv6 route");
    let via = Route {
        gateway: Some("10.9.0.2".parse().expect("IP")),
        metric: Some(7),
        ..route("198.51.100.0/24", device, TABLE_MAIN)
    };
    guard.add_route(&via).expect("route via a gateway");
    guard.add_route(&route("0.0.0.0/0", device, CAPTURE.table)).expect("IPv4 default route");
    guard.add_route(&route("::/0", device, CAPTURE.table)).expect("IPv6 default route");
    guard.capture(&CAPTURE).expect("capture");
}

#[derive(Debug, PartialEq)]
struct Snapshot {
    interfaces: Vec<fairspan_live::netlink::Interface>,
    addresses: Vec<ipnet::IpNet>,
    main: Vec<Route>,
    own: Vec<Route>,
    rules: Vec<Rule>,
    src_valid_mark: String,
}

fn snapshot(netlink: &mut Netlink, device: &str) -> Snapshot {
    Snapshot {
        interfaces: netlink.interfaces().expect("interfaces"),
        addresses: netlink.addresses(device).expect("addresses"),
        main: netlink.routes(TABLE_MAIN).expect("routes"),
        own: netlink.routes(CAPTURE.table).expect("routes"),
        rules: netlink.own_rules().expect("rules"),
        src_valid_mark: std::fs::read_to_string("/proc/sys/net/ipv4/conf/all/src_valid_mark").expect("sysctl"),
    }
}

#[test]
fn a_guard_makes_every_change_and_undoes_it_when_dropped() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let _tun = Tun::open(&Config::new("fs0")).expect("TUN");
        let mut netlink = Netlink::open().expect("netlink");
        let before = snapshot(&mut netlink, "fs0");
        let mut guard = Guard::new().expect("guard");
        change_everything(&mut guard, "fs0");

        let during = snapshot(&mut netlink, "fs0");
        assert_eq!(
            during.src_valid_mark, before.src_valid_mark,
            "nothing that a kill would leave set for all interfaces"
        );
        let fs0 = netlink.interface("fs0").expect("fs0");
        assert!(fs0.up && fs0.running && fs0.mtu == 1380 && fs0.mac.is_none(), "{fs0:?}");
        assert_eq!(during.addresses, ["10.9.0.1/24".parse().unwrap(), "fd09::1/64".parse().unwrap()]);
        let default: Vec<_> = during.own.iter().map(|route| route.destination.to_string()).collect();
        assert_eq!(default, ["0.0.0.0/0", "::/0"]);
        let via = during.main.iter().find(|route| route.gateway.is_some()).expect("the route via a gateway");
        assert_eq!((via.destination.to_string().as_str(), via.metric), ("198.51.100.0/24", Some(7)));
        assert!(during.main.iter().any(|route| route.destination.to_string() == "2001:db8::/32"));
        let mut rules = CAPTURE.rules().to_vec();
        rules.sort_by_key(|rule| (rule.is_v6, rule.priority));
        assert_eq!(during.rules, rules);

        assert_eq!(guard.undo(), []);
        assert_eq!(snapshot(&mut netlink, "fs0"), before);
    })
    .join()
    .expect("the namespace");
}

#[test]
fn a_panic_undoes_the_changes_too() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let _tun = Tun::open(&Config::new("fs0")).expect("TUN");
        let mut netlink = Netlink::open().expect("netlink");
        let before = snapshot(&mut netlink, "fs0");
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = Guard::new().expect("guard");
            change_everything(&mut guard, "fs0");
            panic!("a bug elsewhere (this message is expected)");
        }));
        assert!(result.is_err());
        assert_eq!(snapshot(&mut netlink, "fs0"), before);
    })
    .join()
    .expect("the namespace");
}

#[test]
fn rules_that_a_killed_daemon_left_are_removed_and_others_stay() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let mut netlink = Netlink::open().expect("netlink");
        let other = Capture { fwmark: 0xfa2, table: 4002, priority: 31_000 };
        let moved = Capture { priority: 30_000, ..CAPTURE };
        let of_other: Vec<_> = other.rules().into();
        for rule in of_other.iter().chain(&CAPTURE.rules()).chain(&moved.rules()[2..]) {
            netlink.add_rule(rule).expect("rule");
        }
        assert_eq!(netlink.own_rules().expect("rules").len(), 10);
        assert_eq!(CAPTURE.cleanup_stale(&mut netlink).expect("cleanup"), 6);
        let mut left = netlink.own_rules().expect("rules");
        left.sort_by_key(|rule| of_other.iter().position(|other| other == rule));
        assert_eq!(left, of_other);
        assert_eq!(CAPTURE.cleanup_stale(&mut netlink).expect("cleanup"), 0);
        // And capturing starts clean after a crash.
        for rule in CAPTURE.rules() {
            netlink.add_rule(&rule).expect("rule");
        }
        let mut guard = Guard::new().expect("guard");
        guard.capture(&CAPTURE).expect("capture after a crash");
        drop(guard);
        assert_eq!(netlink.own_rules().expect("rules").len(), 4);
    })
    .join()
    .expect("the namespace");
}

#[test]
fn captured_traffic_goes_to_the_tunnel_and_marked_traffic_does_not() {
    if !(may_make_namespaces() && may_write("/proc/sys/net/ipv4/ip_forward")) {
        return;
    }
    in_namespace(|| {
        // fs0 is the tunnel, fs1 stands for the uplink with the host's own default route.
        let mut tunnel = Tun::open(&Config::new("fs0")).expect("TUN");
        let mut uplink = Tun::open(&Config::new("fs1")).expect("TUN");
        let mut guard = Guard::new().expect("guard");
        guard.set_up("fs1", true).expect("up");
        guard.add_address("fs1", "192.0.2.1/24".parse().expect("IPv4")).expect("address");
        guard.add_route(&route("0.0.0.0/0", "fs1", TABLE_MAIN)).expect("default route");
        draw_all_into_fs0(&mut guard);
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).expect("socket");
        let to = |text: &str| socket2::SockAddr::from(text.parse::<std::net::SocketAddr>().expect("an address"));

        socket.send_to(b"tunnelled", &to("203.0.113.5:9")).expect("send");
        socket.send_to(b"on the link", &to("192.0.2.7:9")).expect("send");
        socket.set_mark(CAPTURE.fwmark).expect("mark");
        socket.send_to(b"the tunnel's own", &to("203.0.113.5:9")).expect("send");
        let payloads = |tun: &mut Tun| {
            let mut payloads = Vec::new();
            while tun
                .recv(&mut |packet| payloads.push(String::from_utf8_lossy(&packet.as_slice()[28..]).into_owned()))
                .expect("recv")
                .is_some()
            {}
            payloads
        };
        assert_eq!(payloads(&mut tunnel), ["tunnelled"]);
        assert_eq!(payloads(&mut uplink), ["on the link", "the tunnel's own"]);

        // The peer's answer comes in by the uplink: a strict reverse-path filter drops it until it is loosened.
        let filter = "/proc/sys/net/ipv4/conf/fs1/rp_filter";
        std::fs::write(filter, "1").expect("sysctl");
        let socket = std::net::UdpSocket::bind("192.0.2.1:6000").expect("bind");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("timeout");
        let mut answer = |socket: &std::net::UdpSocket| {
            uplink.send(&mut vec![udp_packet([203, 0, 113, 5], [192, 0, 2, 1], 6000)]).expect("send");
            socket.recv(&mut [0; 100]).is_ok()
        };
        assert!(!answer(&socket), "the strict filter is on");
        guard.loosen_reverse_path("fs1");
        assert!(answer(&socket), "the loose filter lets it in");
        drop(guard);
        assert_eq!(std::fs::read_to_string(filter).expect("sysctl").trim(), "1");
    })
    .join()
    .expect("the namespace");
}

/// An IPv4 UDP packet without checksum.
fn udp_packet(from: [u8; 4], to: [u8; 4], port: u16) -> PacketBuf {
    let mut bytes = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0];
    bytes.extend(from.into_iter().chain(to));
    let checksum = !sum(&bytes);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend([0, 9]);
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    PacketBuf::copy_from(&bytes)
}

fn draw_all_into_fs0(guard: &mut Guard) {
    guard.set_up("fs0", true).expect("up");
    guard.add_address("fs0", "10.9.0.1/24".parse().expect("IPv4")).expect("address");
    guard.add_route(&route("0.0.0.0/0", "fs0", CAPTURE.table)).expect("default route");
    guard.capture(&CAPTURE).expect("capture");
}

#[test]
fn what_vanished_with_its_interface_is_no_failure_to_undo() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let tun = Tun::open(&Config::new("fs0")).expect("TUN");
        let mut guard = Guard::new().expect("guard");
        change_everything(&mut guard, "fs0");
        drop(tun);
        assert_eq!(guard.undo(), []);
        assert_eq!(Netlink::open().expect("netlink").own_rules().expect("rules"), []);
    })
    .join()
    .expect("the namespace");
}

#[test]
fn errors_name_the_device_what_was_tried_and_what_the_kernel_said() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let mut netlink = Netlink::open().expect("netlink");
        let missing = netlink.set_up("fs9", true).expect_err("no such interface");
        assert_eq!(missing, NetlinkError::NoInterface { name: "fs9".to_owned() });
        let _tun = Tun::open(&Config::new("fs0")).expect("TUN");
        let mtu = netlink.set_mtu("fs0", 70_000).expect_err("too large an MTU");
        let text = mtu.to_string();
        assert!(text.contains("set the MTU of interface fs0 to 70000"), "{text}");
        assert!(text.contains("mtu greater than device maximum"), "{text}");
        let down = netlink.add_route(&route("192.0.2.0/24", "fs0", TABLE_MAIN)).expect_err("the interface is off");
        assert!(down.to_string().contains("route 192.0.2.0/24 dev fs0 table 254"), "{down}");
        // The connection survives errors.
        assert_eq!(netlink.interface("fs0").expect("fs0").mtu, 1500);
    })
    .join()
    .expect("the namespace");
}

#[test]
fn without_the_capability_every_error_says_what_it_needs() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
        let mut netlink = Netlink::open().expect("netlink");
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).expect("fewer capabilities");
        let error = netlink.set_up("lo", true).expect_err("not permitted");
        assert_eq!(error.errno(), Some(libc::EPERM));
        let text = error.to_string();
        assert!(text.contains("switch interface lo on") && text.contains("needs CAP_NET_ADMIN"), "{text}");
        let error = Tun::open(&Config::new("fs0")).expect_err("not permitted");
        assert_eq!(error, TunError::NotPermitted { name: "fs0".to_owned() });
        assert!(error.to_string().contains("needs CAP_NET_ADMIN"), "{error}");
    })
    .join()
    .expect("the namespace");
}

#[test]
fn the_monitor_reports_links_that_appear_change_and_vanish() {
    if !may_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let mut monitor = Monitor::open().expect("monitor");
        assert_eq!(monitor.poll().expect("poll"), None);
        let tun = Tun::open(&Config::new("fs0")).expect("TUN");
        Netlink::open().expect("netlink").set_up("fs0", true).expect("up");
        wait_for(
            &mut monitor,
            |change| matches!(change, LinkChange::Changed(i) if i.name == "fs0" && i.up && i.running),
        );
        tun.set_mtu(1234).expect("MTU");
        wait_for(&mut monitor, |change| matches!(change, LinkChange::Changed(i) if i.name == "fs0" && i.mtu == 1234));
        Netlink::open().expect("netlink").set_up("fs0", false).expect("down");
        wait_for(
            &mut monitor,
            |change| matches!(change, LinkChange::Changed(i) if i.name == "fs0" && !i.up && !i.running),
        );
        let index = tun.index();
        drop(tun);
        let removed = LinkChange::Removed { index, name: "fs0".to_owned() };
        wait_for(&mut monitor, |change| *change == removed);
    })
    .join()
    .expect("the namespace");
}

/// Reads changes until one is as wished; the test fails when none comes within half a minute.
fn wait_for(monitor: &mut Monitor, wished: impl Fn(&LinkChange) -> bool) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut seen = Vec::new();
    loop {
        while let Some(change) = monitor.poll().expect("poll") {
            if wished(&change) {
                return;
            }
            seen.push(change);
        }
        let timeout = Timespec::try_from(Duration::from_secs(30)).expect("a timeout");
        let ready = poll(&mut [PollFd::new(monitor, PollFlags::IN)], Some(&timeout)).expect("poll");
        assert!(ready > 0, "the change never came; there were {seen:?}");
    }
}
