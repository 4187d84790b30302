//! A way to one place: questions out, and the answer to the last of them in.
//!
//! Over UDP a question is a datagram. Over TCP it is the same datagram in a connection, as the daemon's channels have it, so the hub sees
//! no difference.

use super::failure::Failure;
use super::uplink::Uplink;
use crate::channel::tcp::frames::Frames;
use crate::channel::tcp::{Connection, Read, TcpStats, prepare};
use crate::channel::udp::{Destination, ReceiveBatch, Sent, UdpConfig, UdpSocket};
use crate::secure::OsEntropy;
use crate::secure::joining::{Answer, Caller, Question, Reply, Wanted};
use fairspan_core::bond::Handling;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The firewall mark of the daemon's datagrams, so that a default route of a bond that runs already is not taken.
const MARK: u32 = 51900;
/// How long a connection may take to be made.
const CALL_WITHIN: Duration = Duration::from_secs(4);
/// Bytes that are read at once.
const READ_BYTES: usize = 16 * 1024;

/// What a place is asked over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// UDP, there.
    Udp(SocketAddr),
    /// TCP, there.
    Tcp(SocketAddr),
}

enum Carrier {
    Datagrams { socket: Box<UdpSocket>, received: Box<ReceiveBatch>, to: SocketAddr },
    Stream { connection: Connection, frames: Frames, to: SocketAddr },
}

impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Carrier::Datagrams { socket, .. } => socket.as_fd(),
            Carrier::Stream { connection, .. } => connection.as_fd(),
        }
    }
}

/// A way to one place.
pub(super) struct Line {
    carrier: Carrier,
    source: Option<IpAddr>,
    cookie: Option<[u8; 16]>,
    /// Our end, once an answer has come.
    own: Option<SocketAddr>,
}

impl Line {
    /// Opens it, by an uplink, and perhaps from one address alone.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(uplink: &Uplink, source: Option<IpAddr>, over: Over) -> Result<Line, Failure> {
        let carrier = match over {
            Over::Udp(to) => {
                let socket = datagrams(uplink, source, to).map_err(|error| Failure::NotSent(error.to_string()))?;
                Carrier::Datagrams { socket: Box::new(socket), received: Box::new(ReceiveBatch::new()), to }
            }
            Over::Tcp(to) => {
                let failed = |error: io::Error| Failure::NotConnected(error.to_string());
                let connection = Connection::new(connect(uplink, source, to).map_err(failed)?);
                Carrier::Stream { connection, frames: Frames::default(), to }
            }
        };
        Ok(Line { carrier, source, cookie: None, own: None })
    }

    /// Our end of it, once an answer has come.
    pub(super) fn own(&self) -> Option<SocketAddr> {
        self.own
    }

    /// The address that it is bound to, if it is to one.
    pub(super) fn source(&self) -> Option<IpAddr> {
        self.source
    }

    /// Where it leads.
    pub(super) fn over(&self) -> Over {
        match &self.carrier {
            Carrier::Datagrams { to, .. } => Over::Udp(*to),
            Carrier::Stream { to, .. } => Over::Tcp(*to),
        }
    }

    /// Asks, a few times; the answer and how long it took.
    ///
    /// # Errors
    /// What went wrong the last time.
    pub(super) fn ask(
        &mut self,
        caller: &Caller,
        wanted: Wanted,
        len: usize,
        patience: &[Duration],
    ) -> Result<(Answer, Duration), Failure> {
        let mut failure = Failure::NoAnswer;
        for wait in patience {
            // A hub under load wants the question again, with a proof of the address.
            for _ in 0..2 {
                let question = caller.ask(&mut OsEntropy::new(), wanted, len, self.cookie.as_ref());
                let Some(question) = question else { return Err(failure) };
                let begin = Instant::now();
                match self.send(&question.datagram) {
                    Ok(()) => {}
                    Err(Failure::NotSent(why)) if !matches!(self.carrier, Carrier::Stream { .. }) => {
                        failure = Failure::NotSent(why);
                    }
                    Err(failure) => return Err(failure),
                }
                match self.reply(&question, begin, *wait)? {
                    Some(Reply::Answer(answer)) => return Ok((answer, begin.elapsed())),
                    Some(Reply::Cookie(cookie)) => self.cookie = Some(cookie),
                    Some(Reply::OtherVersion(version)) => {
                        return Err(Failure::OtherVersion(version, crate::secure::VERSION));
                    }
                    None => break,
                }
            }
        }
        Err(failure)
    }

    fn send(&mut self, datagram: &[u8]) -> Result<(), Failure> {
        match &mut self.carrier {
            Carrier::Datagrams { socket, to, .. } => {
                let destination = Destination { address: *to, source: self.source, tos: 0, handling: Handling::Usual };
                match socket.send_one(destination, datagram) {
                    Sent::Done | Sent::Blocked | Sent::Congested => Ok(()),
                    Sent::TooBig { .. } => Err(Failure::NotSent("it is too long".into())),
                    Sent::Down => Err(Failure::NotSent("no route, or the address is gone".into())),
                }
            }
            Carrier::Stream { connection, .. } => match connection.send_message(datagram, &mut TcpStats::default()) {
                Sent::Down => Err(ended()),
                _ => Ok(()),
            },
        }
    }

    /// The reply to a question, if one comes in time.
    fn reply(&mut self, question: &Question, begin: Instant, wait: Duration) -> Result<Option<Reply>, Failure> {
        loop {
            let Some(left) = wait.checked_sub(begin.elapsed()) else { return Ok(None) };
            if !is_ready(&self.carrier, PollFlags::IN, left) {
                return Ok(None);
            }
            match &mut self.carrier {
                Carrier::Datagrams { socket, received, .. } => {
                    socket.receive(received);
                    let port = socket.local_addr().port();
                    for datagram in received.datagrams() {
                        if let Some(reply) = question.read(datagram.bytes) {
                            self.own = datagram.destination.map(|local| SocketAddr::new(local, port));
                            return Ok(Some(reply));
                        }
                    }
                }
                Carrier::Stream { connection, frames, .. } => {
                    let mut buffer = [0; READ_BYTES];
                    let mut bytes = match connection.read(&mut buffer) {
                        Read::Bytes(count) => &buffer[..count],
                        Read::Empty => continue,
                        Read::Ended => return Err(ended()),
                    };
                    let strange = || Failure::NotConnected("something else answers there".into());
                    while let Some(datagram) = frames.next(&mut bytes).map_err(|_| strange())? {
                        if let Some(reply) = question.read(datagram) {
                            self.own = connection.socket().local_addr().ok().and_then(|own| own.as_socket());
                            return Ok(Some(reply));
                        }
                    }
                }
            }
        }
    }
}

fn ended() -> Failure {
    Failure::NotConnected("it was ended before an answer came".into())
}

/// A UDP socket that leaves by an uplink.
fn datagrams(
    uplink: &Uplink,
    source: Option<IpAddr>,
    to: SocketAddr,
) -> Result<UdpSocket, crate::channel::udp::OpenError> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let mut config = UdpConfig::new(SocketAddr::new(source.unwrap_or(any), 0));
    config.device = Some(uplink.device.clone());
    config.mark = Some(MARK);
    UdpSocket::open(config.clone()).or_else(|_| {
        // To set a mark takes a privilege, and without it there is most often no need for one.
        config.mark = None;
        UdpSocket::open(config)
    })
}

/// A connection by an uplink.
fn connect(uplink: &Uplink, source: Option<IpAddr>, to: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    prepare(&socket)?;
    socket.bind_device(Some(uplink.device.as_bytes()))?;
    // As above.
    let _ = socket.set_mark(MARK);
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    match socket.connect(&to.into()) {
        Err(error) if Errno::from_io_error(&error) != Some(Errno::INPROGRESS) => return Err(error),
        _ => {}
    }
    if !is_ready(&socket, PollFlags::OUT, CALL_WITHIN) {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody answers"));
    }
    match socket.take_error()? {
        Some(error) => Err(error),
        None => Ok(socket),
    }
}

/// Whether something comes, or there is room, in time.
fn is_ready(socket: &impl AsFd, flags: PollFlags, within: Duration) -> bool {
    let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    poll(&mut [PollFd::new(socket, flags)], Some(&within)) != Ok(0)
}
