//! What the proxy's clients ask for, and how they are answered, however their bytes are cut.

use super::*;
use proptest::prelude::*;

/// All that a client sees and gets, with the bytes given in these pieces: the answers, the last step, and how many bytes were
/// taken by then.
fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Request, Vec<u8>, Step, usize) {
    run_by(Request::new(None), pieces)
}

fn run_by<'a>(mut request: Request, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Request, Vec<u8>, Step, usize) {
    let (mut answers, mut taken) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = piece;
        loop {
            match request.handle(rest) {
                Step::More => break taken += rest.len(),
                Step::Answer { bytes, consumed } => {
                    answers.extend(bytes);
                    taken += consumed;
                    rest = &rest[consumed..];
                }
                Step::Connect { host, port, consumed } => {
                    return (request, answers, Step::Connect { host, port, consumed: 0 }, taken + consumed);
                }
                Step::Close(bytes) => {
                    answers.extend(bytes);
                    return (request, answers, Step::Close(Vec::new()), taken);
                }
            }
        }
        assert!(request.taken.len() <= MOST, "{}", request.taken.len());
    }
    (request, answers, Step::More, taken)
}

fn whole(bytes: &[u8]) -> (Request, Vec<u8>, Step, usize) {
    run([bytes])
}

fn connect(host: Host, port: u16) -> Step {
    Step::Connect { host, port, consumed: 0 }
}

fn ip(text: &str) -> Host {
    Host::Ip(text.parse().unwrap())
}

#[test]
fn socks5_asks_for_addresses_and_names_and_is_answered_as_the_rfc_has_it() {
    let bound: SocketAddr = "192.0.2.1:4660".parse().unwrap();
    let rows: [(&[u8], Host); 4] = [
        (&[5, 1, 0, 1, 198, 51, 100, 7, 1, 187], ip("198.51.100.7")),
        (&[5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1, 187], ip("2001:db8::7")),
        (b"\x05\x01\x00\x03\x0bexample.net\x01\xbb", Host::Name("example.net".into())),
        (b"\x05\x01\x00\x03\x0812.1.2.3\x01\xbb", ip("12.1.2.3")),
    ];
    for (asked, host) in rows {
        let bytes = [&[5, 2, 2, 0][..], asked, b"early"].concat();
        let (request, answers, step, taken) = whole(&bytes);
        assert_eq!((answers.as_slice(), step, taken), (&[5, 0][..], connect(host, 443), bytes.len() - 5));
        assert_eq!(request.success(bound), [5, 0, 0, 1, 192, 0, 2, 1, 0x12, 0x34]);
        let six = request.success("[2001:db8::1]:4660".parse().unwrap());
        assert_eq!((six.len(), &six[..6], &six[18..]), (22, &[5, 0, 0, 4, 0x20, 1][..], &[0, 1, 0x12, 0x34][..]));
    }
}

#[test]
fn socks5_that_cannot_be_done_is_refused_with_the_reply_for_it() {
    let greeted = |request: &[u8]| whole(&[&[5, 1, 0], request].concat()).1;
    let refused = |reply: u8| [&[5, 0, 5, reply, 0, 1][..], &[0; 6]].concat();
    assert_eq!(greeted(&[5, 2, 0, 1, 10, 0, 0, 1, 0, 80]), refused(7), "BIND");
    assert_eq!(greeted(&[5, 3, 0, 3, 1, b'a', 0, 80]), refused(7), "UDP ASSOCIATE");
    assert_eq!(greeted(&[5, 1, 0, 2]), refused(8), "no address type");
    assert_eq!(greeted(&[4, 1, 0, 1]), refused(1), "another version");
    assert_eq!(greeted(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 0]), refused(1), "port 0");
    assert_eq!(greeted(&[5, 1, 0, 3, 0, 0, 80]), refused(1), "no name");
    assert_eq!(greeted(b"\x05\x01\x00\x03\x04a\0.b\x00\x50"), refused(1), "no letters");
    assert_eq!(greeted(&[5, 1, 0, 3, 2, 0xc3, 0x28, 0, 80]), refused(1), "no UTF-8");
    for methods in [&[5, 0][..], &[5, 2, 1, 2]] {
        assert_eq!(whole(methods).1, [5, 0xff], "no method that is known");
    }
}

#[test]
fn each_failure_has_its_reply_and_its_status() {
    let socks = whole(&[5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 0, 80]).0;
    let http = whole(b"CONNECT a:1 HTTP/1.1\r\n\r\n").0;
    let rows = [
        (Failure::General, 1, "503"),
        (Failure::Forbidden, 2, "403"),
        (Failure::NetworkUnreachable, 3, "502"),
        (Failure::HostUnreachable, 4, "502"),
        (Failure::NoName, 4, "502"),
        (Failure::Refused, 5, "502"),
        (Failure::TimedOut, 6, "504"),
    ];
    let mut errors = Vec::new();
    for (failure, reply, status) in rows {
        assert_eq!(socks.failure(failure), [&[5, reply, 0, 1][..], &[0; 6]].concat());
        let answer = String::from_utf8(http.failure(failure)).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(answer.contains("\r\nContent-Length: 0\r\n"), "{answer}");
        errors.extend(answer.lines().find(|line| line.starts_with("Proxy-Status: ")).map(str::to_owned));
    }
    errors.sort_unstable();
    errors.dedup();
    assert_eq!((rows.len(), errors.len()), (Failure::ALL.len(), Failure::ALL.len()), "{errors:?}");
    let told = [Errno::CONNREFUSED, Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::TIMEDOUT, Errno::PERM, Errno::NOMEM]
        .map(Failure::of);
    let failures = [Failure::Refused, Failure::NetworkUnreachable, Failure::HostUnreachable];
    assert_eq!(told, [&failures[..], &[Failure::TimedOut, Failure::Forbidden, Failure::General]].concat()[..]);
}

#[test]
fn http_asks_by_connect_with_an_authority_and_headers_are_skipped() {
    let rows = [
        ("example.net:443", Host::Name("example.net".into())),
        ("example.net.:443", Host::Name("example.net.".into())),
        ("a_b-1.example:443", Host::Name("a_b-1.example".into())),
        ("198.51.100.7:443", ip("198.51.100.7")),
        ("[2001:db8::7]:443", ip("2001:db8::7")),
        ("[::ffff:10.0.0.1]:443", ip("::ffff:10.0.0.1")),
    ];
    for (target, host) in rows {
        for (before, version, end, headers) in [
            ("", "HTTP/1.1", "\r\n", "Host: other.example\r\nProxy-Authorization: Basic YTpi\r\nX: \u{e9}\r\n"),
            ("\r\n\n", "HTTP/1.0", "\r\n", ""),
            ("", "HTTP/1.1", "\n", "Host: x\n"),
        ] {
            let head = format!("{before}CONNECT {target} {version}{end}{headers}{end}");
            let bytes = [head.as_bytes(), b"\x16\x03\x01"].concat();
            let (request, answers, step, taken) = whole(&bytes);
            assert_eq!((step, taken), (connect(host.clone(), 443), head.len()), "{head}");
            assert!(answers.is_empty());
            let success = request.success("10.0.0.1:1".parse().unwrap());
            assert_eq!(success, b"HTTP/1.1 200 Connection established\r\n\r\n");
        }
    }
}

#[test]
fn http_that_is_not_understood_is_answered_with_the_status_for_it() {
    let long = format!("CONNECT a:1 HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(MOST));
    let rows = [
        ("GET http://example.net/ HTTP/1.1\r\n\r\n", "405 Method Not Allowed\r\nAllow: CONNECT\r\n"),
        ("connect a:1 HTTP/1.1\r\n\r\n", "405 "),
        ("PRI * HTTP/2.0\r\n\r\n", "505 "),
        ("CONNECT a:1 HTTP/1.11\r\n\r\n", "400 "),
        ("CONNECT a:1\r\n\r\n", "400 "),
        ("CONNECT  a:1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT a:1 HTTP/1.1 \r\n\r\n", "400 "),
        ("CON(NECT a:1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT a:1 HTTP/1.1\r\nX: a\rb\r\n\r\n", "400 "),
        ("CONNECT a:1 HTTP/1.1\r\nX: a\0b\r\n\r\n", "400 "),
        ("CONNECT a HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT a: HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT :1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT a:0 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT a:+1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT a:65536 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT a:000001 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT u@a:1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT a..b:1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT 1.2.3:1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT 2001:db8::7:1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT [10.0.0.1]:1 HTTP/1.1\r\n\r\n", "400 "),
        ("CONNECT [fe80::1%2]:1 HTTP/1.1\r\n\r\n", "400 "),
        (long.as_str(), "431 "),
    ];
    for (asked, status) in rows {
        let (_, answers, step, _) = whole(asked.as_bytes());
        let answer = String::from_utf8(answers).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{asked}: {answer}");
        assert!(answer.ends_with("\r\n\r\n") && step == Step::Close(Vec::new()), "{asked}: {answer}");
    }
    let empty = "\r\n".repeat(MOST);
    assert!(whole(empty.as_bytes()).1.starts_with(b"HTTP/1.1 431 "), "nothing but empty lines");
}

#[test]
fn socks4_is_refused_in_its_own_words_and_what_is_no_proxy_s_without_any() {
    let rows: [&[u8]; 3] =
        [b"\x04\x01\x00\x50\x0a\0\0\x01user\0", b"\x04\x01\x00\x50\0\0\0\x01\0example.net\0", &[4; MOST_SOCKS4]];
    for asked in rows {
        let (_, answers, step, _) = run(asked.chunks(1));
        assert_eq!((answers.as_slice(), step), (&[0, 91, 0, 0, 0, 0, 0, 0][..], Step::Close(Vec::new())));
        assert_eq!(whole(&asked[..asked.len() - 1]).2, Step::More);
    }
    let tls = b"\x16\x03\x01\x02\x00";
    assert_eq!((whole(tls).1, whole(tls).2), (Vec::new(), Step::Close(Vec::new())));
}

#[test]
fn who_has_asked_is_heard_no_more() {
    let (mut request, ..) = whole(b"CONNECT a:1 HTTP/1.1\r\n\r\n");
    assert_eq!(request.handle(b"CONNECT b:1 HTTP/1.1\r\n\r\n"), Step::Close(Vec::new()));
}

/// A client of a proxy that asks for a login.
fn guarded() -> Request {
    let text = "[interface]\nname = \"gw0\"\n[gateway]\nlong = \"sat0\"\nproxy = \"10.0.0.1:1080\"\nproxy_user = \"Aladdin\"\n\
                proxy_password = \"open sesame\"\n";
    let config = crate::config::Config::parse(std::path::Path::new("x.toml"), text).expect("good");
    let login = config.gateway.and_then(|gateway| gateway.proxy_login).expect("a login");
    Request::new(Some(Arc::new(login)))
}

#[test]
fn with_a_login_socks5_takes_the_method_for_it_alone_and_no_request_before_it_was_right() {
    let asked = [5, 1, 0, 1, 198, 51, 100, 7, 1, 187];
    let right = [&[5, 2, 0, 2][..], b"\x01\x07Aladdin\x0bopen sesame", &asked, b"early"].concat();
    for size in 1..right.len() {
        let (request, answers, step, taken) = run_by(guarded(), right.chunks(size));
        assert_eq!((answers.as_slice(), step), (&[5, 2, 1, 0][..], connect(ip("198.51.100.7"), 443)), "{size}");
        assert_eq!((taken, request.is_denied()), (right.len() - 5, false));
    }
    for login in [
        &b"\x01\x07Aladdin\x0aopen sesam"[..],
        b"\x01\x07aladdin\x0bopen sesame",
        b"\x01\0\0",
        b"\x05\x07Aladdin\x0bopen sesame",
    ] {
        let (request, answers, step, _) = run_by(guarded(), [&[&[5, 1, 2][..], login, &asked].concat()[..]]);
        assert_eq!((answers.as_slice(), step), (&[5, 2, 1, 1][..], Step::Close(Vec::new())), "{login:?}");
        assert!(request.is_denied() && request.taken.is_empty());
    }
    let (request, answers, ..) = run_by(guarded(), [&[5, 1, 0][..], &asked]);
    assert_eq!((answers.as_slice(), request.is_denied()), (&[5, 0xff][..], true), "no login is offered");
}

#[test]
fn with_a_login_http_takes_basic_and_says_so_otherwise() {
    // The example of RFC 7617, section 2.
    let basic = "QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
    let head = |field: &str| format!("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n{field}\r\n");
    for field in [format!("Proxy-Authorization: Basic {basic}\r\n"), format!("proxy-authorization:bASIC  {basic} \r\n")]
    {
        let (request, answers, step, _) = run_by(guarded(), [head(&field).as_bytes()]);
        assert_eq!((answers.len(), step), (0, connect(Host::Name("a.example".into()), 443)), "{field}");
        assert!(!request.is_denied());
    }
    for field in [
        String::new(),
        "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2Ft\r\n".to_owned(),
        "Proxy-Authorization: Basic QWxhZGRpbg==\r\n".to_owned(),
        "Proxy-Authorization: Basic *\r\n".to_owned(),
        "Proxy-Authorization: Basic\r\n".to_owned(),
        format!("Proxy-Authorization: Digest {basic}\r\n"),
        format!("Proxy-Authorization: Basic{basic}\r\n"),
        format!("Authorization: Basic {basic}\r\n"),
        format!("Proxy-Authorization: Basic {basic}\r\nProxy-Authorization: Basic eDp5\r\n"),
    ] {
        let (request, answers, step, _) = run_by(guarded(), [head(&field).as_bytes()]);
        let answer = String::from_utf8(answers).expect("text");
        assert!(
            answer.starts_with("HTTP/1.1 407 ") && answer.contains("\r\nProxy-Authenticate: Basic realm="),
            "{answer}"
        );
        assert_eq!((step, request.is_denied()), (Step::Close(Vec::new()), true), "{field}");
    }
    let (request, answers, ..) = run_by(guarded(), [&b"GET / HTTP/1.1\r\n\r\n"[..]]);
    assert!(answers.starts_with(b"HTTP/1.1 405 ") && !request.is_denied());
}

fn host() -> impl Strategy<Value = Host> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|octets| Host::Ip(octets.into())),
        any::<[u8; 16]>().prop_map(|octets| Host::Ip(octets.into())),
        "([a-z][a-z0-9_-]{0,20}\\.){0,3}[a-z]{2,20}".prop_map(Host::Name),
    ]
}

fn socks5(host: &Host, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 3, 1, 0, 2, 5, 1, 0];
    match host {
        Host::Ip(IpAddr::V4(address)) => bytes.extend([&[1][..], &address.octets()].concat()),
        Host::Ip(IpAddr::V6(address)) => bytes.extend([&[4][..], &address.octets()].concat()),
        Host::Name(name) => bytes.extend([&[3, name.len() as u8][..], name.as_bytes()].concat()),
    }
    bytes.extend(port.to_be_bytes());
    bytes
}

/// The bytes, cut at these places.
fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn any_cut_of_a_good_request_asks_for_the_same_and_leaves_what_follows(
        host in host(),
        port in 1u16..,
        http in any::<bool>(),
        headers in "(X-[a-z]{1,9}: [ -~]{0,40}\r\n){0,5}",
        early in proptest::collection::vec(any::<u8>(), 0..20),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let asked = if http {
            format!("CONNECT {host}:{port} HTTP/1.1\r\n{headers}\r\n").into_bytes()
        } else {
            socks5(&host, port)
        };
        let bytes = [&asked[..], &early].concat();
        let answers: &[u8] = if http { &[] } else { &[5, 0] };
        for pieces in [cut(&bytes, &cuts), bytes.chunks(1).collect()] {
            let (_, answered, step, taken) = run(pieces);
            prop_assert_eq!((answered.as_slice(), step, taken), (answers, connect(host.clone(), port), asked.len()));
        }
    }

    #[test]
    fn any_bytes_are_bounded_and_mean_the_same_however_they_are_cut(
        start in prop_oneof![
            Just(&b""[..]), Just(&b"\x05"[..]), Just(&b"\x05\x01\x00\x05\x01\x00"[..]), Just(&b"\x04\x01"[..]),
            Just(&b"CONNECT "[..]), Just(&b"CONNECT a:1 HTTP/1.1\r\n"[..]), Just(&b"\r\n"[..]),
        ],
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..600),
            "[ \r\na-z\\[\\]:0-9HTP/.]{0,200}".prop_map(String::into_bytes),
        ],
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let bytes = [start, &bytes].concat();
        let outcome = |(_, answers, step, taken)| (answers, step, taken);
        let expected: (Vec<u8>, Step, usize) = outcome(whole(&bytes));
        let of_pieces: (Vec<u8>, Step, usize) = outcome(run(cut(&bytes, &cuts)));
        prop_assert_eq!((&of_pieces.0, &of_pieces.1), (&expected.0, &expected.1));
        if !matches!(expected.1, Step::Close(_)) {
            prop_assert_eq!(of_pieces.2, expected.2);
        }
    }
}
