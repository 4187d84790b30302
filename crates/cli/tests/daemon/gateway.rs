//! A gateway that splits TCP connections, between a `client` and a `server` who do not know of it.

use crate::common::*;
use crate::reload::reload;
use serde_json::Value;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};

pub(crate) fn lab() -> Option<Lab> {
    lab_of(&["client", "gw", "server"])
}

/// The same, with hosts besides.
pub(crate) fn lab_of(hosts: &[&str]) -> Option<Lab> {
    let lab = Lab::new(hosts)?;
    lab.cable(("client", "eth0", "10.97.1.2/24"), ("gw", "lan0", "10.97.1.1/24"));
    lab.cable(("gw", "sat0", "10.97.2.1/24"), ("server", "eth0", "10.97.2.2/24"));
    for (host, device, address) in [
        ("client", "eth0", "fd97:1::2/64"),
        ("gw", "lan0", "fd97:1::1/64"),
        ("gw", "sat0", "fd97:2::1/64"),
        // A router asks for its neighbours from these.
        ("gw", "lan0", "fe80::1/64"),
        ("gw", "sat0", "fe80::1/64"),
        ("server", "eth0", "fd97:2::2/64"),
    ] {
        lab.ip(host, &["address", "add", address, "dev", device, "nodad"]);
    }
    for (host, v4, v6) in [("client", "10.97.1.1", "fd97:1::1"), ("server", "10.97.2.1", "fd97:2::1")] {
        lab.ip(host, &["route", "add", "default", "via", v4]);
        lab.ip(host, &["-6", "route", "add", "default", "via", v6]);
    }
    lab.run("gw", || {
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{setting}"), "1").expect("forwarding");
        }
    });
    Some(lab)
}

pub(crate) fn config(settings: &str) -> String {
    format!(
        "[interface]\nname = \"gw0\"\ncontrol_socket = \"SOCKET\"\n\n[gateway]\nlong = \"sat0\"\ninside = [\"lan0\"]\n{settings}\n"
    )
}

pub(crate) fn gateway(daemon: &Daemon) -> Value {
    daemon.status()["gateway"].clone()
}

pub(crate) fn number(daemon: &Daemon, name: &str) -> u64 {
    gateway(daemon)[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", daemon.status()))
}

pub(crate) fn connect(lab: &Lab, to: &str) -> std::io::Result<TcpStream> {
    let to = to.to_owned();
    lab.run("client", move || {
        let stream = TcpStream::connect_timeout(&to.parse().expect("an address"), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    })
}

pub(crate) fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("bytes");
    bytes
}

#[test]
fn both_ends_see_each_other_and_each_half_of_a_connection_ends_by_itself() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    for (number_of, (server, client)) in
        [("10.97.2.2:5001", "10.97.1.2"), ("[fd97:2::2]:5001", "fd97:1::2")].iter().enumerate()
    {
        let listener = lab.listen("server", server);
        let mut near = connect(&lab, server).expect("connected");
        let mut far = accept(&listener);
        assert_eq!(far.peer_addr().expect("an address"), near.local_addr().expect("an address"));
        assert_eq!(near.local_addr().expect("an address").ip(), ip_of(client));
        daemon.wait("the connection is split", |daemon| number(daemon, "open") == 1);
        let told = &gateway(&daemon)["connections"][0];
        assert_eq!(told["called"], *server, "{told}");
        assert_eq!(told["by"], "transparent");
        // The server begins, as some protocols have it; then the client ends its half, and the server answers all the same.
        far.write_all(b"hello").expect("written");
        assert_eq!(read(&mut near, 5), b"hello");
        near.write_all(&[7; 300_000]).expect("written");
        near.shutdown(Shutdown::Write).expect("shut");
        let mut all = Vec::new();
        far.read_to_end(&mut all).expect("the end");
        assert!(all.len() == 300_000 && all.iter().all(|byte| *byte == 7));
        far.write_all(b"and good bye").expect("written");
        drop(far);
        let mut rest = Vec::new();
        near.read_to_end(&mut rest).expect("the end");
        assert_eq!(rest, b"and good bye");
        daemon.wait("it is over", |daemon| number(daemon, "open") == 0);
        assert_eq!(number(&daemon, "opened"), number_of as u64 + 1);
    }
    // Data in both directions, more than all buffers hold.
    lab.transfer("client", "server", "10.97.2.2:5002", 30);
    lab.transfer("server", "client", "10.97.1.2:5003", 8);
    let shown = lab.fairspan("gw", &["status", "--socket", daemon.socket.to_str().expect("text")]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("sat0"), "{shown}");
    daemon.stop();
    assert_nothing_left(&lab);
}

pub(crate) fn assert_nothing_left(lab: &Lab) {
    assert_nothing_left_on(lab, "gw");
}

/// No rule, no table, no route of the gateway's.
pub(crate) fn assert_nothing_left_on(lab: &Lab, host: &str) {
    for family in ["-4", "-6"] {
        let rules = lab.ip(host, &[family, "rule"]);
        assert!(!rules.contains("fwmark"), "{rules}");
        let routes = lab.ip(host, &[family, "route", "show", "table", "all"]);
        assert!(!routes.contains("proto 250"), "{routes}");
    }
    assert_eq!(tables(lab, host), Vec::<String>::new());
}

/// The tables of packet rules that a host has.
pub(crate) fn tables(lab: &Lab, host: &str) -> Vec<String> {
    lab.run(host, || fairspan_live::netlink::nftables::tables(None).expect("tables"))
}

#[test]
fn who_is_refused_hears_of_it_and_a_reset_goes_through() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    let refused = connect(&lab, "10.97.2.2:9").expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    assert_eq!(number(&daemon, "refused"), 1);
    for caller_resets in [true, false] {
        let listener = lab.listen("server", "10.97.2.2:5001");
        let near = connect(&lab, "10.97.2.2:5001").expect("connected");
        let far = accept(&listener);
        let (gone, mut left) = if caller_resets { (near, far) } else { (far, near) };
        socket2::SockRef::from(&gone).set_linger(Some(std::time::Duration::ZERO)).expect("set");
        drop(gone);
        let error = left.read(&mut [0; 1]).expect_err("a reset, and no end");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    daemon.stop();
}

#[test]
fn what_is_excepted_or_near_passes_unsplit_and_so_does_everything_once_the_gateway_is_killed() {
    let Some(lab) = lab() else { return };
    let settings = "bypass_below = \"10s\"\nexcept_ports = [5009]";
    let daemon = lab.daemon("gw", "gw", &config(settings));
    let carried = |server: &str| {
        let listener = lab.listen("server", server);
        let mut near = connect(&lab, server).expect("connected");
        let mut far = accept(&listener);
        near.write_all(b"through").expect("written");
        assert_eq!(read(&mut far, 7), b"through");
    };
    carried("10.97.2.2:5009");
    assert_eq!((number(&daemon, "opened"), bypassed(&daemon, "excepted")), (0, 1));
    // The first connection shows that the server is near, as far as ten seconds go.
    carried("10.97.2.2:5001");
    assert_eq!(number(&daemon, "opened"), 1);
    carried("10.97.2.2:5002");
    assert_eq!((number(&daemon, "opened"), bypassed(&daemon, "near")), (1, 1));
    // One that is not split lives on when the gateway dies, and others begin.
    let listener = lab.listen("server", "10.97.2.2:5003");
    let mut near = connect(&lab, "10.97.2.2:5003").expect("connected");
    let mut far = accept(&listener);
    daemon.kill();
    near.write_all(b"still there").expect("written");
    assert_eq!(read(&mut far, 11), b"still there");
    carried("10.97.2.2:5004");
    // And a new gateway takes over what the killed one left.
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    carried("10.97.2.2:5005");
    assert_eq!(number(&daemon, "opened"), 1);
    near.write_all(b"even now").expect("written");
    assert_eq!(read(&mut far, 8), b"even now");
    daemon.stop();
    assert_nothing_left(&lab);
}

/// What the doctor says in the gateway's namespace: its status, and all findings.
fn doctor(lab: &Lab, file: &std::path::Path) -> (Option<i32>, Vec<Value>) {
    let output = lab.fairspan("gw", &["gateway", "doctor", file.to_str().expect("text"), "--json"]);
    let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code(), findings.as_array().expect("a list").clone())
}

pub(crate) fn bypassed(daemon: &Daemon, why: &str) -> u64 {
    gateway(daemon)["bypassed"][why].as_u64().unwrap_or_else(|| panic!("no {why} in {}", daemon.status()))
}

#[test]
fn a_caller_who_gets_answers_by_another_way_has_its_connection_and_others_of_its_network_are_not_held_up() {
    let Some(lab) = lab() else { return };
    // From the server to the client there is a way around the gateway.
    lab.cable(("client", "back0", "10.97.3.1/24"), ("server", "back0", "10.97.3.2/24"));
    lab.ip("server", &["route", "add", "10.97.1.2/32", "via", "10.97.3.1"]);
    lab.run("client", || {
        for device in ["all", "back0", "default"] {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{device}/rp_filter"), "0").expect("set");
        }
    });
    for fair in [true, false] {
        let text = config(&format!("bypass_below = \"0ms\"\nfair_queueing = {fair}"));
        let daemon = lab.daemon("gw", "gw", &text);
        for count in 1..=3 {
            let listener = lab.listen("server", "10.97.2.2:5001");
            let mut near = connect(&lab, "10.97.2.2:5001").expect("connected");
            let mut far = accept(&listener);
            near.write_all(b"there").expect("written");
            assert_eq!(read(&mut far, 5), b"there");
            far.write_all(b"and back").expect("written");
            assert_eq!(read(&mut near, 8), b"and back");
            assert_eq!(bypassed(&daemon, "one_way"), count, "fair queueing: {fair}");
        }
        let told = gateway(&daemon);
        let numbers = ["opened", "half_open", "one_way_networks"].map(|name| told[name].as_u64());
        assert_eq!(numbers, [Some(0), Some(0), Some(1)], "{told}");
        let (status, findings) = doctor(&lab, &lab.config("gw", &text));
        let told = |finding: &&Value| finding["found"].as_str().is_some_and(|found| found.contains("by another way"));
        let finding = findings.iter().find(told).unwrap_or_else(|| panic!("{findings:?}"));
        assert_eq!((status, &finding["subject"]), (Some(0), &Value::from("bypass")));
        assert!(finding["remedy"].as_str().is_some_and(|remedy| remedy.contains("except")), "{finding}");
        daemon.stop();
    }
    assert_nothing_left(&lab);
}

#[test]
fn a_caller_who_asks_again_without_any_answer_passes_unsplit_and_so_does_who_calls_there_next() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    let listener = lab.listen("server", "10.97.2.2:5001");
    // The server has no way to answer, until the gateway has given up.
    lab.ip("server", &["route", "add", "blackhole", "10.97.1.2/32"]);
    let mut near = std::thread::scope(|scope| {
        let calling = scope.spawn(|| connect(&lab, "10.97.2.2:5001").expect("connected"));
        daemon.wait("it passes unsplit", |daemon| bypassed(daemon, "unanswered") == 1);
        lab.ip("server", &["route", "del", "blackhole", "10.97.1.2/32"]);
        calling.join().expect("it connects")
    });
    let mut far = accept(&listener);
    near.write_all(b"late").expect("written");
    assert_eq!(read(&mut far, 4), b"late");
    // It is counted by what it asks, and asked again before it was answered.
    let before = bypassed(&daemon, "unanswered");
    drop(connect(&lab, "10.97.2.2:5001").expect("connected"));
    assert_eq!((bypassed(&daemon, "unanswered"), number(&daemon, "opened")), (before + 1, 0));
    // It says nothing of other ports.
    let other = lab.listen("server", "10.97.2.2:5002");
    drop(connect(&lab, "10.97.2.2:5002").expect("connected"));
    accept(&other);
    assert_eq!(number(&daemon, "opened"), 1);
    daemon.stop();
}

#[test]
fn what_the_kernel_still_sends_of_a_connection_that_is_over_counts_until_it_has_arrived() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    let listener = lab.listen("server", "10.97.2.2:5001");
    // A caller with little room who ends its half, and does not read for a while.
    let mut near = lab.run("client", || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("set");
        let to: SocketAddr = "10.97.2.2:5001".parse().expect("an address");
        socket.connect_timeout(&to.into(), PATIENCE).expect("connected");
        TcpStream::from(socket)
    });
    near.set_read_timeout(Some(PATIENCE)).expect("set");
    near.shutdown(Shutdown::Write).expect("shut");
    let mut far = accept(&listener);
    far.write_all(&[5; 200_000]).expect("written");
    drop(far);
    daemon.wait("it is over for the gateway", |daemon| number(daemon, "open") == 0);
    assert_eq!((number(&daemon, "opened"), gateway(&daemon)["counters"]["finished"].as_u64()), (1, Some(1)));
    assert!(number(&daemon, "memory_bytes") > 0, "{}", daemon.status());
    let mut all = Vec::new();
    near.read_to_end(&mut all).expect("the end");
    assert!(all.len() == 200_000 && all.iter().all(|byte| *byte == 5));
    daemon.wait("all has arrived", |daemon| number(daemon, "memory_bytes") == 0);
    daemon.stop();
}

/// All packets that a host's devices carry, from their IP headers on.
pub(crate) fn watch(lab: &Lab, host: &str) -> socket2::Socket {
    lab.run(host, || {
        let all = socket2::Protocol::from(i32::from(0x0003_u16.to_be()));
        let socket = socket2::Socket::new(socket2::Domain::PACKET, socket2::Type::DGRAM, Some(all)).expect("a socket");
        socket.set_nonblocking(true).expect("set");
        socket
    })
}

/// The DSCP of each TCP segment with data from an address that was seen since the last call.
fn dscp_seen(mut watched: &socket2::Socket, from: IpAddr) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut packet = [0; 70_000];
    while let Ok(length) = watched.read(&mut packet) {
        let packet = &packet[..length];
        let (source, class, header) = match packet {
            [0x45, class, ..] if packet[9] == 6 => (packet[12..16].to_vec(), *class, 20),
            [first, second, ..] if first >> 4 == 6 && packet[6] == 6 => {
                (packet[8..24].to_vec(), first << 4 | second >> 4, 40)
            }
            _ => continue,
        };
        let own = match from {
            IpAddr::V4(address) => source == address.octets(),
            IpAddr::V6(address) => source == address.octets(),
        };
        let data = header + usize::from(packet[header + 12] >> 4) * 4;
        if own && data < length {
            seen.push(class >> 2);
        }
    }
    seen
}

fn set_dscp(socket: socket2::SockRef<'_>, v6: bool, dscp: u32) {
    if v6 { socket.set_tclass_v6(dscp << 2) } else { socket.set_tos_v4(dscp << 2) }.expect("set");
}

/// One who calls with this DSCP.
fn connect_with_dscp(lab: &Lab, to: &str, dscp: u32) -> TcpStream {
    let to: SocketAddr = to.parse().expect("an address");
    lab.run("client", move || {
        let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None).expect("one");
        set_dscp((&socket).into(), to.is_ipv6(), dscp);
        socket.connect_timeout(&to.into(), PATIENCE).expect("connected");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream
    })
}

#[test]
fn what_leaves_the_gateway_has_the_dscp_of_what_came_in_both_directions() {
    let Some(lab) = lab() else { return };
    for fair in [true, false] {
        let settings = format!("bypass_below = \"0ms\"\nproxy = \"10.97.1.1:1080\"\nfair_queueing = {fair}");
        let daemon = lab.daemon("gw", "gw", &config(&settings));
        for (client, server) in [("10.97.1.2", "10.97.2.2:5001"), ("fd97:1::2", "[fd97:2::2]:5001")] {
            let (client, listener) = (ip_of(client), lab.listen("server", server));
            let at: SocketAddr = server.parse().expect("an address");
            set_dscp((&listener).into(), at.is_ipv6(), 18);
            let [at_server, at_client] = ["server", "client"].map(|host| watch(&lab, host));
            let mut near = connect_with_dscp(&lab, server, 34);
            let mut far = accept(&listener);
            for n in 0..20 {
                near.write_all(&[n; 100]).expect("written");
                assert_eq!(read(&mut far, 100), [n; 100]);
                far.write_all(&[n; 100]).expect("written");
                assert_eq!(read(&mut near, 100), [n; 100]);
            }
            let (forth, back) = (dscp_seen(&at_server, client), dscp_seen(&at_client, at.ip()));
            assert!(!forth.is_empty() && forth.iter().all(|dscp| *dscp == 34), "{forth:?}");
            assert!(!back.is_empty() && back.iter().all(|dscp| *dscp == 18), "{back:?}");
            if fair {
                // All packets with more than a few bytes are seen that come from inside, so another DSCP is followed.
                set_dscp((&near).into(), at.is_ipv6(), 46);
                daemon.wait("the other DSCP", |_| {
                    near.write_all(&[7; 100]).expect("written");
                    read(&mut far, 100);
                    dscp_seen(&at_server, client).contains(&46)
                });
            }
        }
        // A client of the proxy has its own in both directions.
        let listener = lab.listen("server", "10.97.2.2:5002");
        let [at_server, at_client] = ["server", "client"].map(|host| watch(&lab, host));
        let mut near = connect_with_dscp(&lab, "10.97.1.1:1080", 10);
        near.write_all(b"CONNECT 10.97.2.2:5002 HTTP/1.1\r\n\r\n").expect("written");
        let mut far = accept(&listener);
        assert_eq!(read(&mut near, 12), b"HTTP/1.1 200");
        near.write_all(b"forth").expect("written");
        assert_eq!(read(&mut far, 5), b"forth");
        assert_eq!(dscp_seen(&at_server, ip_of("10.97.2.1")), [10]);
        dscp_seen(&at_client, ip_of("10.97.1.1"));
        far.write_all(b"back").expect("written");
        daemon.wait("it comes back", |_| dscp_seen(&at_client, ip_of("10.97.1.1")).contains(&10));
        daemon.stop();
    }
}

#[test]
fn the_long_link_is_down_while_it_has_no_carrier_and_near_networks_are_no_counter() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"10s\""));
    let state = |daemon: &Daemon| (gateway(daemon)["state"].clone(), gateway(daemon)["up"].clone());
    assert_eq!(state(&daemon), (Value::from("up"), Value::from(true)));
    let listener = lab.listen("server", "10.97.2.2:5001");
    drop((connect(&lab, "10.97.2.2:5001").expect("connected"), accept(&listener)));
    daemon.wait("the server is near", |daemon| number(daemon, "near_networks") == 1);
    assert_eq!(gateway(&daemon)["counters"]["near_networks"], Value::Null);
    lab.ip("server", &["link", "set", "eth0", "down"]);
    daemon.wait("no carrier", |daemon| state(daemon) == (Value::from("down"), Value::from(false)));
    lab.ip("server", &["link", "set", "eth0", "up"]);
    daemon.wait("a carrier", |daemon| state(daemon) == (Value::from("up"), Value::from(true)));
    lab.ip("gw", &["link", "del", "sat0"]);
    daemon.wait("no device", |daemon| state(daemon).0 == "absent");
    daemon.stop();
}

#[test]
fn a_reload_changes_what_may_change_and_the_doctor_finds_what_is_wrong() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    let changed = config("bypass_below = \"0ms\"\ndiscipline = \"drr\"\nbuffer = \"codel\"\nrate = \"50Mbit\"");
    let answer = reload(&lab, "gw", &daemon, &changed);
    assert!(answer.iter().any(|line| line.contains("gateway.discipline is now drr")), "{answer:?}");
    assert_eq!(gateway(&daemon)["queue"]["discipline"], "drr", "{answer:?}");
    lab.transfer("client", "server", "10.97.2.2:5001", 2);
    let file = lab.config("gw", &changed);
    let wrong = |file: &std::path::Path| {
        let (status, findings) = doctor(&lab, file);
        (status, findings.into_iter().filter(|finding| finding["verdict"] == "wrong").collect::<Vec<Value>>())
    };
    assert_eq!(wrong(&file), (Some(0), Vec::new()));
    let found = |subject: &str| {
        let findings = doctor(&lab, &file).1;
        findings.into_iter().filter(|finding| finding["subject"] == subject).collect::<Vec<Value>>()
    };
    assert!(!found("offload").is_empty() && found("mtu").is_empty());
    lab.ip("gw", &["link", "set", "lan0", "mtu", "1200"]);
    assert!(found("mtu").iter().any(|finding| finding["found"].as_str().is_some_and(|found| found.contains("IPv6"))));
    lab.ip("gw", &["link", "set", "lan0", "mtu", "1500"]);
    lab.run("gw", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "0").expect("set"));
    let other = lab.config("other", &changed.replace("SOCKET", "/nonexistent").replace("sat0", "sat9"));
    let (status, wrong) = wrong(&other);
    let subjects: Vec<&str> = wrong.iter().filter_map(|finding| finding["subject"].as_str()).collect();
    // The first daemon has the table and the queue of the same names.
    assert_eq!((status, subjects), (Some(1), vec!["devices", "routes", "forwarding", "rules", "rules"]));
    assert!(wrong.iter().all(|finding| finding["remedy"].is_string()), "{wrong:?}");
    daemon.stop();
    assert_nothing_left(&lab);
}

#[test]
fn two_gateways_whose_numbers_overlap_are_not_both_started_and_the_second_says_how_far_they_have_to_be_apart() {
    let Some(lab) = lab() else { return };
    let with = |fwmark: u32| {
        config("bypass_below = \"0ms\"").replace("\n\n[gateway]", &format!("\nfwmark = {fwmark}\n\n[gateway]"))
    };
    let daemon = lab.daemon("gw", "gw", &with(7000));
    for fwmark in [7001, 6993] {
        let file = lab.config("second", &with(fwmark).replace("gw0", "gw1"));
        let output = lab.fairspan("gw", &["up", file.to_str().expect("text")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("at least 8 away"), "{output:?}");
    }
    let second = lab.daemon("gw", "second", &with(7008).replace("gw0", "gw1"));
    second.stop();
    assert_eq!(gateway(&daemon)["up"], true);
    lab.transfer("client", "server", "10.97.2.2:5002", 2);
    assert_eq!(number(&daemon, "opened"), 1);
    daemon.stop();
    assert_nothing_left(&lab);
}
