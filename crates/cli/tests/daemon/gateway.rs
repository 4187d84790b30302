//! A gateway that splits TCP connections, between a `client` and a `server` who do not know of it.

use crate::common::*;
use crate::reload::reload;
use serde_json::Value;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};

fn lab() -> Option<Lab> {
    let lab = Lab::new(&["client", "gw", "server"])?;
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

fn config(settings: &str) -> String {
    format!(
        "[interface]\nname = \"gw0\"\ncontrol_socket = \"SOCKET\"\n\n[gateway]\nlong = \"sat0\"\ninside = [\"lan0\"]\n{settings}\n"
    )
}

fn gateway(daemon: &Daemon) -> Value {
    daemon.status()["gateway"].clone()
}

fn number(daemon: &Daemon, name: &str) -> u64 {
    gateway(daemon)[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", daemon.status()))
}

fn listen(lab: &Lab, address: &str) -> TcpListener {
    let address = address.to_owned();
    lab.run("server", move || TcpListener::bind(address).expect("the server's address"))
}

fn connect(lab: &Lab, to: &str) -> std::io::Result<TcpStream> {
    let to = to.to_owned();
    lab.run("client", move || {
        let stream = TcpStream::connect_timeout(&to.parse().expect("an address"), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    })
}

fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
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
        let listener = listen(&lab, server);
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

/// No rule, no table, no route of the gateway's.
fn assert_nothing_left(lab: &Lab) {
    for family in ["-4", "-6"] {
        let rules = lab.ip("gw", &[family, "rule"]);
        assert!(!rules.contains("fwmark"), "{rules}");
        let routes = lab.ip("gw", &[family, "route", "show", "table", "all"]);
        assert!(!routes.contains("proto 250"), "{routes}");
    }
    let tables = lab.run("gw", || fairspan_live::netlink::nftables::tables(None).expect("tables"));
    assert_eq!(tables, Vec::<String>::new());
}

#[test]
fn who_is_refused_hears_of_it_and_a_reset_goes_through() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    let refused = connect(&lab, "10.97.2.2:9").expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    assert_eq!(number(&daemon, "refused"), 1);
    for caller_resets in [true, false] {
        let listener = listen(&lab, "10.97.2.2:5001");
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
        let listener = listen(&lab, server);
        let mut near = connect(&lab, server).expect("connected");
        let mut far = accept(&listener);
        near.write_all(b"through").expect("written");
        assert_eq!(read(&mut far, 7), b"through");
    };
    let bypassed = |daemon: &Daemon, why: &str| gateway(daemon)["bypassed"][why].as_u64().expect("a number");
    carried("10.97.2.2:5009");
    assert_eq!((number(&daemon, "opened"), bypassed(&daemon, "excepted")), (0, 1));
    // The first connection shows that the server is near, as far as ten seconds go.
    carried("10.97.2.2:5001");
    assert_eq!(number(&daemon, "opened"), 1);
    carried("10.97.2.2:5002");
    assert_eq!((number(&daemon, "opened"), bypassed(&daemon, "near")), (1, 1));
    // One that is not split lives on when the gateway dies, and others begin.
    let listener = listen(&lab, "10.97.2.2:5003");
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

#[test]
fn clients_of_the_proxy_reach_the_server_and_hear_why_where_they_do_not() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("transparent = false\nproxy = \"10.97.1.1:1080\""));
    let listener = listen(&lab, "10.97.2.2:5001");
    let ask = |request: &[u8]| {
        let mut near = connect(&lab, "10.97.1.1:1080").expect("connected");
        near.write_all(request).expect("written");
        near
    };
    // What is sent behind the request, before its answer, is for the server.
    let mut http = ask(b"CONNECT 10.97.2.2:5001 HTTP/1.1\r\nHost: 10.97.2.2:5001\r\n\r\nearly");
    let mut far = accept(&listener);
    assert_eq!(read(&mut far, 5), b"early");
    let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
    assert_eq!(read(&mut http, answer.len()), answer);
    far.write_all(b"hello").expect("written");
    assert_eq!(read(&mut http, 5), b"hello");
    let mut socks = ask(&[5, 1, 0]);
    assert_eq!(read(&mut socks, 2), [5, 0]);
    socks.write_all(&[5, 1, 0, 1, 10, 97, 2, 2, 0x13, 0x89]).expect("written");
    let mut far = accept(&listener);
    assert_eq!(read(&mut socks, 10)[..2], [5, 0]);
    socks.write_all(b"and this").expect("written");
    assert_eq!(read(&mut far, 8), b"and this");
    assert_eq!(number(&daemon, "open"), 2);
    let mut by: Vec<String> = gateway(&daemon)["connections"]
        .as_array()
        .expect("connections")
        .iter()
        .map(|told| format!("{} {}", told["by"].as_str().expect("text"), told["called"].as_str().expect("text")))
        .collect();
    by.sort();
    assert_eq!(by, ["http 10.97.2.2:5001", "socks5 10.97.2.2:5001"]);
    // Nobody listens there; the gateway's own loopback is not for clients; and other methods are none.
    let mut answers = [
        (&b"CONNECT 10.97.2.2:9 HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 502"),
        (b"CONNECT 127.0.0.1:1080 HTTP/1.1\r\n\r\n", "HTTP/1.1 403"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
    ]
    .map(|(request, status)| (ask(request), status));
    for (stream, status) in &mut answers {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the end");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(*status), "{answer}");
    }
    daemon.stop();
    assert_nothing_left(&lab);
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
    let doctor = |file: &std::path::Path| {
        let output = lab.fairspan("gw", &["gateway", "doctor", file.to_str().expect("text"), "--json"]);
        let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let wrong =
            findings.as_array().expect("a list").iter().filter(|finding| finding["verdict"] == "wrong").cloned();
        (output.status.code(), wrong.collect::<Vec<Value>>())
    };
    assert_eq!(doctor(&file), (Some(0), Vec::new()));
    lab.run("gw", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "0").expect("set"));
    let other = lab.config("other", &changed.replace("SOCKET", "/nonexistent").replace("sat0", "sat9"));
    let (status, wrong) = doctor(&other);
    let subjects: Vec<&str> = wrong.iter().filter_map(|finding| finding["subject"].as_str()).collect();
    // The first daemon has the table and the queue of the same names.
    assert_eq!((status, subjects), (Some(1), vec!["devices", "routes", "forwarding", "rules", "rules"]));
    assert!(wrong.iter().all(|finding| finding["remedy"].is_string()), "{wrong:?}");
    daemon.stop();
    assert_nothing_left(&lab);
}
