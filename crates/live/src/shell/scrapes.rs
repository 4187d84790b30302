//! The metrics over HTTP: off by default, `GET /metrics` and nothing else.
//!
//! Several clients at once are served by the shell's own loop, none of which waits for another: each has a deadline, there is
//! a bound on how many there are, and the oldest gives way to a new one. The page is made anew at most once a second, however
//! often it is asked for.

use super::machine::TimerName;
use super::poller::{Interest, Poller, Ready, Token, Turn};
use crate::metrics;
use crate::status::Status;
use fairspan_core::units::{Span, Time};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// Most clients at once.
const CLIENTS: usize = 16;
/// Most clients let in before packets have their turn again.
const BURST: usize = 4;
/// Longest that a client is served.
const PATIENCE: Span = Span::from_secs(5);
/// How long a page is given to all who ask.
const PAGE_AGE: Span = Span::from_secs(1);
/// Longest request in bytes.
const REQUEST_LIMIT: usize = 2048;

/// The listener, and those who ask.
#[derive(Debug)]
pub(super) struct Scrapes {
    listener: TcpListener,
    token: Token,
    poller: Poller,
    /// In the order in which they came, so in that of their deadlines.
    clients: VecDeque<Client>,
    /// The newest page, and when it was made.
    page: Option<(Time, String)>,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    token: Token,
    until: Time,
    request: Vec<u8>,
    /// Empty until the request is complete.
    answer: Vec<u8>,
    sent: usize,
}

/// What becomes of a client.
enum Next {
    /// It is still asking.
    Asks,
    /// It is to have this.
    Answer(Answer),
    /// Part of its answer waits for room.
    Waits,
    /// It is done, or gone.
    Done,
}

/// What a request gets.
enum Answer {
    Page,
    Elsewhere,
    GetOnly,
}

impl Scrapes {
    /// Listens at `address`.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(super) fn open(address: SocketAddr, poller: &Poller) -> io::Result<Scrapes> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let token = poller.watch(listener.as_fd(), Turn::Others)?;
        Ok(Scrapes { listener, token, poller: poller.clone(), clients: VecDeque::new(), page: None })
    }

    /// Goes on with what is ready, if it belongs here, as far as it can without waiting. False: it is something else.
    pub(super) fn handle(&mut self, now: Time, ready: Ready, status: impl FnOnce() -> Status) -> bool {
        if ready.token == self.token {
            self.accept(now);
            return true;
        }
        let Some(number) = self.clients.iter().position(|client| client.token == ready.token) else { return false };
        let client = &mut self.clients[number];
        let mut next = if client.answer.is_empty() { client.read() } else { client.write() };
        if let Next::Answer(answer) = next {
            let page = match answer {
                Answer::Page => page(&mut self.page, now, status),
                _ => "",
            };
            client.answer = answer.http(page);
            next = client.write();
        }
        let kept = match next {
            Next::Waits => self.poller.set_interest(client.token, client.stream.as_fd(), Interest::Write).is_ok(),
            Next::Asks | Next::Answer(_) => true,
            Next::Done => false,
        };
        if !kept {
            self.close(number);
        }
        true
    }

    /// Ends those whose time is up.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        while self.clients.front().is_some_and(|client| client.until <= now) {
            self.close(0);
        }
    }

    /// When the time of the next one is up.
    pub(super) fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        self.clients.front().map(|client| (client.until, TimerName("metrics client")))
    }

    fn accept(&mut self, now: Time) {
        for _ in 0..BURST {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if self.clients.len() == CLIENTS {
                self.close(0);
            }
            if let Err(error) = self.serve(now, stream) {
                tracing::debug!(%error, "a metrics client is turned away");
            }
        }
    }

    fn serve(&mut self, now: Time, stream: TcpStream) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(&stream, true)?;
        let token = self.poller.watch(stream.as_fd(), Turn::Others)?;
        let until = now + PATIENCE;
        self.clients.push_back(Client { stream, token, until, request: Vec::new(), answer: Vec::new(), sent: 0 });
        Ok(())
    }

    fn close(&mut self, number: usize) {
        if let Some(client) = self.clients.remove(number) {
            self.poller.forget(client.token);
        }
    }
}

/// The page as of `now`, or of a moment before.
fn page(page: &mut Option<(Time, String)>, now: Time, status: impl FnOnce() -> Status) -> &str {
    let fresh = page.take().filter(|(made, _)| now < *made + PAGE_AGE);
    &page.insert(fresh.unwrap_or_else(|| (now, metrics::page(status())))).1
}

impl Client {
    fn read(&mut self) -> Next {
        let mut chunk = [0; REQUEST_LIMIT];
        match self.stream.read(&mut chunk[..REQUEST_LIMIT - self.request.len()]) {
            Ok(0) => return Next::Done,
            Ok(n) => self.request.extend_from_slice(&chunk[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Next::Asks,
            Err(_) => return Next::Done,
        }
        if self.request.len() < REQUEST_LIMIT && !self.request.windows(4).any(|w| w == b"\r\n\r\n") {
            return Next::Asks;
        }
        let line = self.request.split(|&b| b == b'\r').next().unwrap_or_default();
        let target = line.strip_prefix(b"GET ").and_then(|rest| rest.split(|&b| b == b' ' || b == b'?').next());
        Next::Answer(match target {
            Some(b"/metrics") => Answer::Page,
            Some(_) => Answer::Elsewhere,
            None => Answer::GetOnly,
        })
    }

    fn write(&mut self) -> Next {
        while self.sent < self.answer.len() {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Next::Waits,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Next::Done,
            }
        }
        Next::Done
    }
}

impl Answer {
    fn http(&self, page: &str) -> Vec<u8> {
        let (status, kind, body) = match self {
            Answer::Page => ("200 OK", metrics::CONTENT_TYPE, page),
            Answer::Elsewhere => ("404 Not Found", "text/plain", "the metrics are at /metrics\n"),
            Answer::GetOnly => ("405 Method Not Allowed", "text/plain", "GET only\n"),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        (head + body).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::Timespec;
    use std::time::Duration;

    struct Server {
        poller: Poller,
        scrapes: Scrapes,
        made: usize,
    }

    impl Server {
        fn new() -> Server {
            let poller = Poller::new().expect("epoll");
            let scrapes = Scrapes::open("127.0.0.1:0".parse().expect("an address"), &poller).expect("a listener");
            Server { poller, scrapes, made: 0 }
        }

        fn connect(&self) -> TcpStream {
            let stream = TcpStream::connect(self.scrapes.listener.local_addr().expect("bound")).expect("connected");
            stream.set_nonblocking(true).expect("non-blocking");
            stream
        }

        /// Handles what is ready until `client` has the whole answer, or was cut.
        fn answer(&mut self, now: Time, client: &mut TcpStream) -> String {
            let mut answer = Vec::new();
            let mut events = Vec::with_capacity(64);
            let wait = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            for _ in 0..60_000 {
                self.poller.wait(&mut events, &wait).expect("epoll");
                for ready in events.iter().map(Ready::from) {
                    let status = || {
                        self.made += 1;
                        Status::new("fs0", 1.5, 1400)
                    };
                    assert!(self.scrapes.handle(now, ready, status), "it is ours");
                }
                match client.read_to_end(&mut answer) {
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    _ => return String::from_utf8(answer).expect("text"),
                }
            }
            panic!("no answer");
        }

        fn get(&mut self, now: Time, request: &str) -> String {
            let mut client = self.connect();
            client.write_all(request.as_bytes()).expect("written");
            self.answer(now, &mut client)
        }
    }

    const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

    #[test]
    fn the_metrics_are_at_their_place_and_nothing_else_is_anywhere() {
        let mut server = Server::new();
        let answer = server.get(Time::ZERO, GET);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("fairspan_uptime_seconds{interface=\"fs0\"} 1.5"), "{answer}");
        assert!(server.get(Time::ZERO, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(server.get(Time::ZERO, "BREW /pot HTCPCP/1.0\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(
            server.get(Time::ZERO, &"x".repeat(REQUEST_LIMIT)).starts_with("HTTP/1.1 405"),
            "as much as there may be"
        );
        assert!(server.scrapes.clients.is_empty() && server.scrapes.poll_timeout().is_none());
    }

    #[test]
    fn the_page_is_made_once_a_second_however_often_it_is_asked_for() {
        let mut server = Server::new();
        for n in 0..50 {
            server.get(Time::ZERO + Span::from_millis(20 * n), GET);
        }
        assert_eq!(server.made, 1);
        server.get(Time::ZERO + PAGE_AGE, GET);
        assert_eq!(server.made, 2);
    }

    #[test]
    fn clients_that_dawdle_hold_up_nobody_and_are_cut() {
        let mut server = Server::new();
        // More than may be there at once, each with one byte of a request.
        let mut slow: Vec<TcpStream> = (0..2 * CLIENTS).map(|_| server.connect()).collect();
        for client in &mut slow {
            client.write_all(b"G").expect("written");
        }
        let answer = server.get(Time::ZERO, GET);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(server.scrapes.clients.len() < CLIENTS, "the one that was served has gone");
        let mut gone = slow.remove(0);
        assert_eq!(server.answer(Time::ZERO, &mut gone), "", "the oldest gave way");

        let end = Time::ZERO + PATIENCE;
        assert_eq!(server.scrapes.poll_timeout().map(|(at, _)| at), Some(end));
        server.scrapes.handle_timeout(end);
        assert!(server.scrapes.clients.is_empty(), "nobody is served for ever");
        let mut last = slow.pop().expect("the newest");
        last.set_nonblocking(false).expect("blocking");
        last.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        assert!(matches!(last.read(&mut [0; 8]), Ok(0) | Err(_)), "closed");
    }

    #[test]
    fn a_client_that_reads_slowly_gets_all_of_it_and_no_turn_that_it_cannot_use() {
        let mut server = Server::new();
        let mut client = server.connect();
        client.write_all(GET.as_bytes()).expect("written");
        server.scrapes.page = Some((Time::ZERO, "x".repeat(16 << 20)));
        let answer = server.answer(Time::ZERO, &mut client);
        assert_eq!(answer.matches('x').count(), (16 << 20) + "application/openmetrics-text".matches('x').count());
    }
}
