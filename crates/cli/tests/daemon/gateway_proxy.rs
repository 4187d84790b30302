//! Clients who ask a gateway's proxy for connections: whom they reach, whom they do not, and what they have to know.

use crate::common::*;
use crate::gateway::{assert_nothing_left, config, connect, gateway, lab, number, read};
use crate::reload::{Names, reload};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

const PROXY: &str = "transparent = false\nproxy = \"10.97.1.1:1080\"";

#[test]
fn clients_of_the_proxy_reach_the_server_and_hear_why_where_they_do_not() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config(PROXY));
    let listener = lab.listen("server", "10.97.2.2:5001");
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
    // Nobody listens there, and other methods are none.
    let mut answers =
        [(&b"CONNECT 10.97.2.2:9 HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 502"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 405")]
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

/// The first line of what a proxy answers to a CONNECT.
fn asked(lab: &Lab, target: &str) -> String {
    let mut stream = connect(lab, "10.97.1.1:1080").expect("connected");
    stream.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).expect("written");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn clients_of_the_proxy_reach_no_address_of_the_gateway_s_own_unless_a_setting_says_so() {
    let Some(lab) = lab() else { return };
    let settings = config(PROXY);
    let daemon = lab.daemon("gw", "gw", &settings);
    let listeners = lab.run("gw", || {
        ["10.97.2.1:7000", "[fd97:2::1]:7000", "127.0.0.1:7000"].map(|at| TcpListener::bind(at).expect("listens"))
    });
    // An address and a network that are this host's only since the gateway runs.
    lab.ip("gw", &["address", "add", "10.97.9.9/32", "dev", "lo"]);
    lab.ip("gw", &["route", "add", "local", "10.97.8.0/24", "dev", "lo"]);
    let own = [
        "10.97.1.1:1080",
        "10.97.2.1:7000",
        "[::ffff:10.97.2.1]:7000",
        "[fd97:2::1]:7000",
        "10.97.9.9:7000",
        "10.97.8.7:7000",
        "localhost:7000",
        "127.0.0.1:7000",
        "[::ffff:127.0.0.1]:7000",
        "[::1]:7000",
        "0.0.0.0:7000",
        "[::]:7000",
        "224.0.0.1:7000",
        "[ff02::1]:7000",
        "169.254.1.1:7000",
        "[fe80::1]:7000",
        // The subnet's broadcast address, and its routers' anycast address.
        "10.97.2.255:7000",
        "[fd97:2::]:7000",
    ];
    for target in own {
        assert_eq!(asked(&lab, target), "HTTP/1.1 403", "{target}");
    }
    let mut socks = connect(&lab, "10.97.1.1:1080").expect("connected");
    socks.write_all(&[5, 1, 0, 5, 1, 0, 1, 10, 97, 2, 1, 0x1b, 0x58]).expect("written");
    assert_eq!(read(&mut socks, 4), [5, 0, 5, 2]);
    // The name may have two addresses.
    let forbidden = gateway(&daemon)["counters"]["forbidden"].as_u64().expect("a number");
    assert!((own.len() as u64 + 1..=own.len() as u64 + 2).contains(&forbidden), "{forbidden}");
    let far = lab.listen("server", "10.97.2.2:5001");
    assert_eq!(asked(&lab, "10.97.2.2:5001"), "HTTP/1.1 200", "others are reached");
    let answer = reload(&lab, "gw", &daemon, &format!("{settings}proxy_local = true\n"));
    assert!(answer.iter().any(|line| line.contains("gateway.proxy_local is now true")), "{answer:?}");
    for target in &own[1..4] {
        assert_eq!(asked(&lab, target), "HTTP/1.1 200", "{target}");
    }
    assert_eq!(asked(&lab, "127.0.0.1:7000"), "HTTP/1.1 200");
    assert_eq!(asked(&lab, "224.0.0.1:7000"), "HTTP/1.1 403", "that is nobody's");
    drop((listeners, far));
    daemon.stop();
    assert_nothing_left(&lab);
}

#[test]
fn names_lead_where_the_gateway_s_resolver_says_and_never_to_itself() {
    let Some(lab) = lab() else { return };
    let Some(names) = Names::new(&lab, "gw") else {
        println!("skipped: /etc/netns cannot be written");
        return;
    };
    names.set(
        "10.97.2.2 far.fairspan.test both.fairspan.test\n10.97.2.1 own.fairspan.test both.fairspan.test\n\
         fd97:2::1 own.fairspan.test\n",
    );
    let daemon = lab.daemon("gw", "gw", &config(PROXY));
    let far = lab.listen("server", "10.97.2.2:5001");
    let own = lab.listen("gw", "10.97.2.1:5001");
    assert_eq!(asked(&lab, "far.fairspan.test:5001"), "HTTP/1.1 200");
    accept(&far);
    assert_eq!(asked(&lab, "own.fairspan.test:5001"), "HTTP/1.1 403");
    // Of a name with several addresses those of other hosts are tried.
    assert_eq!(asked(&lab, "both.fairspan.test:5001"), "HTTP/1.1 200");
    accept(&far);
    assert_eq!(asked(&lab, "nobody.fairspan.test:5001"), "HTTP/1.1 502");
    own.set_nonblocking(true).expect("set");
    assert!(own.accept().is_err(), "nobody came to the gateway itself");
    daemon.stop();
}

#[test]
fn without_the_right_login_nobody_gets_anything_and_no_password_is_shown() {
    let Some(lab) = lab() else { return };
    let login = "proxy_user = \"Aladdin\"\nproxy_password = \"open sesame\"";
    let daemon = lab.daemon("gw", "gw", &config(&format!("{PROXY}\n{login}")));
    let far = lab.listen("server", "10.97.2.2:5001");
    let http = |field: &str| asked(&lab, &format!("10.97.2.2:5001 HTTP/1.1\r\n{field}X: y\r\nZ:"));
    assert_eq!(http(""), "HTTP/1.1 407");
    assert_eq!(http("Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"), "HTTP/1.1 200");
    accept(&far);
    let socks = |password: &str| {
        let mut stream = connect(&lab, "10.97.1.1:1080").expect("connected");
        stream.write_all(&[5, 1, 2]).expect("written");
        assert_eq!(read(&mut stream, 2), [5, 2]);
        let login = [&[1, 7][..], b"Aladdin", &[password.len() as u8], password.as_bytes()].concat();
        stream.write_all(&login).expect("written");
        let answer = read(&mut stream, 2);
        (stream, answer)
    };
    assert_eq!(socks("open sesam").1, [1, 1]);
    let (mut stream, answer) = socks("open sesame");
    assert_eq!(answer, [1, 0]);
    stream.write_all(&[5, 1, 0, 1, 10, 97, 2, 2, 0x13, 0x89]).expect("written");
    assert_eq!(read(&mut stream, 2), [5, 0]);
    accept(&far);
    assert_eq!(gateway(&daemon)["counters"]["denied"], 2);
    let changed = config(&format!("{PROXY}\n{}", login.replace("open", "close")));
    let answer = reload(&lab, "gw", &daemon, &changed);
    assert_eq!(http("Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"), "HTTP/1.1 407");
    assert_eq!(http("Proxy-Authorization: Basic QWxhZGRpbjpjbG9zZSBzZXNhbWU=\r\n"), "HTTP/1.1 200");
    let shown = [daemon.status().to_string(), daemon.log(), answer.join("\n")].concat();
    assert!(!shown.contains("sesame") && shown.contains("proxy_password"), "{shown}");
    daemon.stop();
}
