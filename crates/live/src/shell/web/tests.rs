//! The page as browsers and others ask for it, over real sockets.

use super::*;
use crate::config::Login;
use crate::shell::poller::Ready;
use crate::status::{BondStatus, Counters, LinkStatus, State};
use rustix::event::Timespec;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

/// A daemon's end, with its page.
struct Daemon {
    web: Web,
    poller: Poller,
    address: SocketAddr,
    now: Time,
    _folder: tempfile::TempDir,
}

pub(super) fn served(folder: &tempfile::TempDir, password: Option<&str>) -> Served {
    Served {
        metrics: None,
        web: None,
        password: password.map(|password| Login::new(None, password.to_owned().into())),
        hosts: Vec::new(),
        may_control: true,
        history: folder.path().join("fs0.history"),
        webhook: None,
    }
}

fn status(link: &str, uptime_s: f64, sent: u64) -> Status {
    let counters = Counters::from([("sent_bytes".to_owned(), sent), ("received_bytes".to_owned(), 0)]);
    let link = LinkStatus {
        number: 0,
        name: link.to_owned(),
        device: "eth1".into(),
        state: State::Up,
        rate_mbit: Some(100.0),
        full_duplex: true,
        current: false,
        clients: 0,
        counters,
    };
    let bond = BondStatus {
        policy: "brr".into(),
        mac: String::new(),
        lacp: None,
        up: true,
        counters: Counters::new(),
        links: vec![link],
    };
    let mut status = Status::new("fs0", uptime_s, 1400);
    status.bond = Some(bond);
    status
}

impl Daemon {
    fn new(password: Option<&str>) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        // A port that is free now.
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        let poller = Poller::new().expect("epoll");
        let web = Web::open(Time::ZERO, free, &served(&folder, password), &poller).expect("a page");
        let mut daemon = Daemon { web, poller, address: free, now: Time::ZERO, _folder: folder };
        daemon.tell("eth1", 0);
        daemon.until(|daemon| daemon.get("/status.json", "").contains("uptime_s") || password.is_some());
        daemon
    }

    fn tell(&mut self, link: &str, sent: u64) {
        self.now += looks::EVERY;
        let uptime = self.now.as_secs_f64();
        self.web.handle_timeout(self.now, || status(link, uptime, sent));
    }

    fn until(&self, mut holds: impl FnMut(&Daemon) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds(self) {
            assert!(Instant::now() < end, "it does not come");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// The answer to a request whose head has these lines too.
    fn ask(&self, first: &str, head: &str, body: &str) -> String {
        ask(self.address, first, head, body)
    }

    fn get(&self, path: &str, head: &str) -> String {
        self.ask(&format!("GET {path}"), head, "")
    }

    fn post(&self, path: &str, head: &str, body: &str) -> String {
        post(self.address, path, head, body)
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

fn ask(address: SocketAddr, first: &str, head: &str, body: &str) -> String {
    let mut stream = connect(address);
    let length = body.len();
    let request = format!("{first} HTTP/1.1\r\nHost: {address}\r\n{head}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn post(address: SocketAddr, path: &str, head: &str, body: &str) -> String {
    ask(address, &format!("POST {path}"), &format!("Origin: http://{address}\r\n{head}"), body)
}

#[test]
fn the_page_shows_the_links_also_without_a_script_and_what_others_named_is_text() {
    let mut daemon = Daemon::new(None);
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{2028}/*view*/";
    for sent in [1, 1_250_001] {
        daemon.tell(hostile, sent);
        let counted = format!("\"sent_bytes\":{sent}}}");
        daemon.until(|daemon| daemon.get("/status.json", "").contains(&counted));
    }
    let page = daemon.get("/", "");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("text/html; charset=utf-8"), "{page}");
    assert!(page.contains("&lt;img src=x onerror=alert(2)&gt;"), "the name is there as text");
    assert_eq!(page.matches("<script").count(), 2, "the page's own and its data");
    assert!(!page.contains("<img") && !page.contains("alert(1)</script>"));
    assert!(page.contains("Sends, Mbit/s\">10.00<"), "1.25 MB in a second: {page}");
    let policy = page.lines().find_map(|line| line.strip_prefix("Content-Security-Policy: ")).expect("a policy");
    assert!(
        policy.contains("default-src 'none'") && policy.contains("script-src 'sha256-") && !policy.contains("unsafe")
    );
    let view: serde_json::Value =
        serde_json::from_str(daemon.get("/view.json", "").split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    assert_eq!(view["links"][0]["name"], hostile);
    assert_eq!(view["control"], false, "without a password nothing can be changed");
}

#[test]
fn other_names_other_pages_and_other_methods_get_nothing() {
    let daemon = Daemon::new(None);
    let mut stream = daemon.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 421 ") && !answer.contains("eth1"), "{answer}");
    for (first, head, status) in [
        ("GET /live", "Origin: http://evil.example\r\n", "403"),
        ("GET /view.json", "Sec-Fetch-Site: cross-site\r\n", "403"),
        ("POST /take-out", "", "403"),
        ("DELETE /", "", "405"),
        ("GET /../../etc/passwd", "", "404"),
        ("GET /history.json?link=9&span=hour", "", "404"),
        ("GET /history.json?link=0&span=eternity", "", "404"),
        ("GET /history.json?link=0&span=hour&points=many", "", "404"),
    ] {
        let answer = daemon.ask(first, head, "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{first}: {answer}");
    }
    let answer = daemon.post("/take-out", "", "of=hub&name=dsl");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(daemon.ask("HEAD /", "", "").ends_with("\r\n\r\n"));
    assert!(daemon.get("/history.json?link=0&span=hour", "").contains("\"step\":12"));
}

#[test]
fn with_a_password_the_page_is_a_form_until_it_was_given_and_then_links_can_be_taken_out() {
    let daemon = Daemon::new(Some("correct horse"));
    let form = daemon.get("/", "");
    assert!(form.contains("type=\"password\"") && !form.contains("eth1"), "{form}");
    assert!(daemon.get("/live", "").starts_with("HTTP/1.1 401 "));
    assert!(daemon.post("/login", "", "password=wrong+horse").starts_with("HTTP/1.1 401 "));
    let answer = daemon.post("/login", "", "password=correct+horse");
    assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
    let cookie = answer.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).expect("a cookie");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().expect("its value"));
    daemon.until(|daemon| daemon.get("/", &cookie).contains("Log out"));
    assert!(daemon.post("/take-out", "", "of=hub&name=dsl").starts_with("HTTP/1.1 401 "));

    let address = daemon.address;
    let asked = thread::scope(|scope| {
        let asking = scope.spawn(|| post(address, "/take-out", &cookie, "of=hub&name=d%26l"));
        // The daemon's loop.
        let mut events = Vec::with_capacity(8);
        let wait = Timespec { tv_sec: 60, tv_nsec: 0 };
        daemon.poller.wait(&mut events, &wait).expect("epoll");
        assert!(daemon.web.is(Ready::from(&events[0]).token));
        let mut asked = Vec::new();
        daemon.web.handle_orders(|order| {
            asked.push((order.of.clone(), order.name.clone(), order.out));
            Err("no such channel".to_owned())
        });
        let answer = asking.join().expect("answered");
        assert!(answer.starts_with("HTTP/1.1 409 ") && answer.contains("no such channel"), "{answer}");
        asked
    });
    assert_eq!(asked, [("hub".to_owned(), "d&l".to_owned(), true)]);
}

#[test]
fn a_stream_tells_each_sample_and_one_that_is_not_read_holds_up_nobody() {
    let mut daemon = Daemon::new(None);
    let mut stream = daemon.connect();
    let ask = format!("GET /live HTTP/1.1\r\nHost: {}\r\n\r\n", daemon.address);
    stream.write_all(ask.as_bytes()).expect("asked");
    let mut read = String::new();
    let mut until = |stream: &mut TcpStream, wanted: &str| {
        let mut chunk = [0; 65_536];
        while !read.contains(wanted) {
            // What was looked at is of no use, but its end.
            let seen = read.len().saturating_sub(wanted.len());
            read.drain(..seen);
            let n = stream.read(&mut chunk).expect("more");
            assert!(n > 0, "the stream ended: {read}");
            read += std::str::from_utf8(&chunk[..n]).expect("ASCII");
        }
    };
    until(&mut stream, "\"name\":\"eth1\"");
    daemon.tell("eth2", 0);
    until(&mut stream, "\"name\":\"eth2\"");

    let mut idle = daemon.connect();
    idle.write_all(ask.as_bytes()).expect("asked");
    // More than the kernel's buffers of a connection hold.
    for n in 0..100 {
        daemon.tell(&format!("{n}-{}", "x".repeat(100_000)), 0);
        until(&mut stream, &format!("\"name\":\"{n}-x"));
        if n == 0 {
            continue;
        }
        assert!(daemon.get("/history.json?link=0&span=day", "").starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn floods_of_connections_and_cut_uploads_leave_room_for_who_asks_properly() {
    let daemon = Daemon::new(None);
    let mut idle: Vec<TcpStream> = (0..300).map(|_| daemon.connect()).collect();
    for stream in &mut idle {
        // Those that were closed meanwhile do not matter.
        let _ = stream.write_all(b"POST /login HTTP/1.1\r\nContent-Length: 1000\r\n\r\ncut");
    }
    assert!(daemon.get("/status.json", "").starts_with("HTTP/1.1 200 "));
    let mut first = idle.swap_remove(0);
    let gone = match first.read(&mut [0; 8]) {
        Ok(n) => n == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    };
    assert!(gone, "the oldest gave way");
    // As many streams as there may be, and one more.
    let ask = format!("GET /live HTTP/1.1\r\nHost: {}\r\n\r\n", daemon.address);
    let answers: Vec<(TcpStream, bool)> = (0..17)
        .map(|_| {
            let mut stream = daemon.connect();
            stream.write_all(ask.as_bytes()).expect("asked");
            let mut begin = [0; 12];
            stream.read_exact(&mut begin).expect("an answer");
            (stream, &begin == b"HTTP/1.1 200")
        })
        .collect();
    assert_eq!(answers.iter().filter(|(_, streams)| *streams).count(), 16);
    assert!(daemon.get("/status.json", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn the_daemon_tells_once_a_second_and_sooner_when_something_happened_but_not_for_each_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let poller = Poller::new().expect("epoll");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let mut web = Web::open(Time::ZERO, free, &served(&folder, None), &poller).expect("a page");
    let mut told = 0;
    let mut turn = |web: &mut Web, now: Time| {
        web.handle_timeout(now, || {
            told += 1;
            status("eth1", now.as_secs_f64(), 0)
        });
        told
    };
    let at = Time::from_millis;
    assert_eq!(turn(&mut web, at(1000)), 1);
    events::keep("warn", "a link is down");
    assert!(web.poll_timeout() > at(1000) + SOON, "nobody looks");
    web.looked_at.store(true, Ordering::Relaxed);
    web.took = Span::ZERO;
    assert!(web.poll_timeout() <= at(1000) + SOON);
    assert_eq!(turn(&mut web, at(1001)), 1, "not within a tenth of a second");
    until_taken(&web);
    web.looked_at.store(true, Ordering::Relaxed);
    web.took = Span::ZERO;
    assert_eq!(turn(&mut web, at(1100)), 2);
    until_taken(&web);
    web.looked_at.store(true, Ordering::Relaxed);
    events::keep("warn", "a link is down");
    // What took long is made seldom.
    web.took = Span::from_millis(10);
    assert_eq!(web.poll_timeout(), at(1600));
}

/// Waits until the thread has what was told.
fn until_taken(web: &Web) {
    let end = Instant::now() + Duration::from_secs(60);
    while web.waiting.load(Ordering::Acquire) > 0 {
        assert!(Instant::now() < end, "it is not taken");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn no_status_is_made_for_a_thread_that_has_not_taken_the_last_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let poller = Poller::new().expect("epoll");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let mut web = Web::open(Time::ZERO, free, &served(&folder, None), &poller).expect("a page");
    web.waiting.store(SAMPLES, Ordering::Release);
    web.handle_timeout(Time::from_millis(1000), || unreachable!("there is no room for it"));
    web.waiting.store(0, Ordering::Release);
    let mut made = 0;
    web.handle_timeout(Time::from_millis(2000), || {
        made += 1;
        status("eth1", 2.0, 0)
    });
    assert_eq!(made, 1);
}
