//! One who asks: its connection, from the first byte of the request to the last of the answer, or a stream without an end.

use super::super::poller::{Interest, Poller, Token, Turn};
use super::http::{Answer, BODY_LIMIT, HEAD_LIMIT, Method, Parsed, Request, stream_head};
use super::logins::Session;
use fairspan_core::units::{Span, Time};
use rustix::io::Errno;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::rc::Rc;

/// Longest that a request and its answer take.
const PATIENCE: Span = Span::from_secs(10);
/// Reads in one turn: who sends more has to wait for the others.
const READS: usize = 16;
/// Longest that a stream is kept whose reader takes nothing.
const STALL: Span = Span::from_secs(30);

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    /// Where it is.
    pub(super) from: IpAddr,
    pub(super) token: Token,
    /// When its time is up.
    pub(super) until: Time,
    request: Vec<u8>,
    /// What it is to have now.
    out: Rc<[u8]>,
    sent: usize,
    pub(super) is_stream: bool,
    /// The session by which a stream is seen, where that takes one.
    pub(super) session: Option<Session>,
}

/// What becomes of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It goes on.
    Stays,
    /// This is its request.
    Asks(Request),
    /// It asks wrongly, and is to have this.
    Wrong(super::http::Status),
    /// It is done, or gone.
    Done,
}

impl Client {
    /// Begins to wait for its request.
    pub(super) fn new(now: Time, (stream, from): (TcpStream, IpAddr), poller: &Poller) -> Result<Client, Errno> {
        rustix::io::ioctl_fionbio(&stream, true)?;
        let token = poller.watch(stream.as_fd(), Turn::Others)?;
        let (request, out) = (Vec::new(), Rc::from([]));
        let until = now + PATIENCE;
        Ok(Client { stream, from, token, until, request, out, sent: 0, is_stream: false, session: None })
    }

    /// Reads what there is.
    pub(super) fn read(&mut self) -> Next {
        let mut chunk = [0; 2048];
        for _ in 0..READS {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Next::Done,
                // What comes after the request is of no interest.
                Ok(_) if self.is_answered() => continue,
                Ok(n) => self.request.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Next::Stays,
                Err(_) => return Next::Done,
            }
            match Request::parse(&self.request) {
                Parsed::Complete(request) => return Next::Asks(request),
                Parsed::Wrong(status) => return Next::Wrong(status),
                Parsed::Partial if self.request.len() > HEAD_LIMIT + BODY_LIMIT + 4 => return Next::Done,
                Parsed::Partial => {}
            }
        }
        Next::Stays
    }

    /// Whether its request was answered, or is being answered.
    pub(super) fn is_answered(&self) -> bool {
        self.is_stream || !self.out.is_empty()
    }

    /// Gives it an answer; false when it is done.
    pub(super) fn answer(&mut self, now: Time, poller: &Poller, answer: &Answer, method: Method) -> bool {
        self.request = Vec::new();
        self.out = answer.bytes(method != Method::Head).into();
        self.write(now, poller)
    }

    /// Makes it a stream; false when it is gone.
    pub(super) fn begin_stream(&mut self, now: Time, poller: &Poller) -> bool {
        self.request = Vec::new();
        self.is_stream = true;
        self.out = stream_head().into();
        self.until = now + STALL;
        self.write(now, poller)
    }

    /// The next event of a stream. A reader that has not taken the one before does without this one. False when it is gone.
    pub(super) fn push(&mut self, now: Time, poller: &Poller, event: &Rc<[u8]>) -> bool {
        if self.sent < self.out.len() {
            return true;
        }
        (self.out, self.sent) = (event.clone(), 0);
        self.write(now, poller)
    }

    /// Sends what it takes; false when it is done.
    pub(super) fn write(&mut self, now: Time, poller: &Poller) -> bool {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(n) => {
                    self.sent += n;
                    if self.is_stream {
                        self.until = now + STALL;
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    return poller.set_interest(self.token, self.stream.as_fd(), Interest::ReadAndWrite).is_ok();
                }
                Err(_) => return false,
            }
        }
        if !self.is_stream {
            // What it still sends would make the kernel reset the connection, and the answer be lost.
            let _ = self.stream.shutdown(std::net::Shutdown::Write);
            let mut rest = [0; 2048];
            for _ in 0..READS {
                if !matches!(self.stream.read(&mut rest), Ok(n) if n > 0) {
                    break;
                }
            }
            return false;
        }
        poller.set_interest(self.token, self.stream.as_fd(), Interest::Read).is_ok()
    }
}
