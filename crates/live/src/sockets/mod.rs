//! All sockets of a daemon towards its links, and waiting for them.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the sockets by number |
//! | `socket` | one of them: datagrams, or frames of a pair of EtherTypes |
//! | `carrier` | what carries a channel, and what that adds to each packet |
//! | `sealed_frame` | the datagrams of a session on Ethernet |
//! | `stream` | datagrams over TCP: the connections of a channel, or of a port |
//! | `outbox` | what waits to leave |
//! | `transport` | sockets and sessions together, and the way in |
//! | `worker` | the thread that computes handshakes |

mod carrier;
pub(crate) mod outbox;
pub(crate) mod sealed_frame;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod transport;
mod worker;

pub(crate) use carrier::Carrier;

use crate::channel::ethernet::{self, Codepoint, Mac, Outgoing};
use crate::channel::udp::{Datagram, Destination, Sent};
use crate::config::{Channel, Interface};
use crate::secure::{Endpoint, PathId, Sessions};
use crate::shell::poller::{Interest, Poller, Token, Turn};
use fairspan_core::bond::Handling;
use fairspan_core::units::{Span, Time};
use socket::{Kind, Owner, Socket, SocketError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

/// The MTU of a link that nobody tells.
pub(crate) const USUAL_MTU: usize = 1500;

/// How long a socket that no channel has any more stays open.
const LINGER: Span = Span::from_secs(2);

/// Where there is room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// In a socket, for all that go by it.
    Socket,
    /// In one connection of a socket's: the one to this address.
    Connection(SocketAddr),
    /// A connection is being made, and is to be looked at.
    Call,
}

/// The sockets, by number: those on which peers may begin, then those of channels.
pub(crate) struct Sockets {
    list: Vec<Socket>,
    /// The numbers, by the slots of the tokens.
    numbers: Vec<usize>,
    poller: Poller,
    fwmark: u32,
    /// The counters of those that were closed.
    closed: BTreeMap<(&'static str, &'static str), u64>,
}

impl Sockets {
    /// Opens those on which peers may begin.
    ///
    /// # Errors
    /// Why the port cannot be had.
    pub(crate) fn open(interface: &Interface, poller: &Poller) -> Result<Sockets, SocketError> {
        let mut list = match interface.listen_port {
            Some(port) => Socket::listen(port, interface.fwmark)?,
            None => Vec::new(),
        };
        if let Some(port) = interface.listen_tcp_port {
            list.extend(Socket::listen_tcp(port, interface.fwmark, poller)?);
        }
        Ok(Sockets {
            list,
            numbers: Vec::new(),
            poller: poller.clone(),
            fwmark: interface.fwmark,
            closed: BTreeMap::new(),
        })
    }

    /// The socket of a configured channel: its number. It may be one that serves others already.
    ///
    /// # Errors
    /// What no time heals.
    pub(crate) fn open_channel(&mut self, channel: &Channel) -> Result<usize, SocketError> {
        if let Some(number) = self.list.iter().position(|socket| socket.serves(channel)) {
            return Ok(number);
        }
        let socket = Socket::open(channel, self.fwmark, &self.poller)?;
        Ok(self.put(socket))
    }

    /// Gives a socket a number.
    fn put(&mut self, socket: Socket) -> usize {
        match self.list.iter().position(Socket::is_closed) {
            Some(number) => {
                self.list[number] = socket;
                number
            }
            None => {
                self.list.push(socket);
                self.list.len() - 1
            }
        }
    }

    /// Begins to wait for those that were opened since.
    pub(crate) fn watch_new(&mut self) {
        for number in 0..self.list.len() {
            if self.list[number].is_stream() {
                self.watch_stream(number);
            } else if self.list[number].token.is_none() && !self.list[number].absent {
                self.watch(number);
            }
        }
    }

    /// The counters of all, by what stands before the name, and the name; some come several times.
    pub(crate) fn counters(&self) -> impl Iterator<Item = ((&'static str, &'static str), u64)> {
        let each = |socket: &Socket| {
            let (prefix, each) = socket.counters();
            each.into_iter().map(move |(name, n)| ((prefix, name), n))
        };
        self.list.iter().flat_map(each).chain(self.closed.iter().map(|(name, n)| (*name, *n)))
    }

    /// Closes, a while later, each that no channel has any more; `is_used` says of which there is need all the same. What the
    /// other end still sends there arrives until then.
    pub(crate) fn close_idle(&mut self, now: Time, is_used: impl Fn(usize) -> bool) {
        for number in 0..self.list.len() {
            let socket = &mut self.list[number];
            if !socket.is_idle() || is_used(number) {
                socket.closes = None;
            } else if *socket.closes.get_or_insert(now + LINGER) <= now {
                if let (Some(token), Some(fd)) = (socket.token.take(), socket.fd()) {
                    self.poller.unwatch(token, fd);
                }
                if let Kind::Stream(stream) = &mut socket.kind {
                    stream.set_resting(true);
                }
                let (prefix, each) = socket.counters();
                for (name, n) in each {
                    *self.closed.entry((prefix, name)).or_default() += n;
                }
                (socket.kind, socket.absent, socket.closes) = (Kind::Closed, true, None);
            }
        }
    }

    /// The other socket of a channel, over TCP, which rests: its number.
    pub(crate) fn open_resting(&mut self, channel: &Channel, to: SocketAddr) -> usize {
        self.put(Socket::resting(channel, to, self.fwmark, &self.poller))
    }

    /// No connection is wanted of a socket, or one is again.
    pub(crate) fn set_resting(&mut self, number: usize, resting: bool) {
        let socket = &mut self.list[number];
        if let Kind::Stream(stream) = &mut socket.kind {
            stream.set_resting(resting);
            socket.absent |= resting;
        }
    }

    /// Begins to wait for all of them.
    pub(crate) fn watch_all(&mut self) {
        for number in 0..self.list.len() {
            self.watch(number);
            self.watch_stream(number);
        }
    }

    /// The same of one of streams: it connects, where it does so.
    fn watch_stream(&mut self, number: usize) {
        if self.list[number].is_stream() {
            self.look(number);
            self.note_stream(number);
        }
    }

    /// Notes the tokens of a socket of streams as its own.
    fn note_stream(&mut self, number: usize) {
        let Kind::Stream(stream) = &self.list[number].kind else { return };
        let tokens: Vec<Token> = stream.own_token().into_iter().chain(stream.tokens()).collect();
        tokens.into_iter().for_each(|token| self.note(token, number));
    }

    fn note(&mut self, token: Token, number: usize) {
        if self.numbers.len() <= token.slot() {
            self.numbers.resize(token.slot() + 1, 0);
        }
        self.numbers[token.slot()] = number;
    }

    /// Accepts who waits at a socket that listens.
    fn accept(&mut self, number: usize) {
        let Kind::Stream(stream) = &mut self.list[number].kind else { return };
        let accepted = stream.accept();
        accepted.into_iter().for_each(|token| self.note(token, number));
    }

    /// There is room where `token` says: what that is.
    pub(crate) fn on_writable(&mut self, number: usize, token: Token) -> Room {
        let Kind::Stream(stream) = &mut self.list[number].kind else { return Room::Socket };
        if stream.own_token() == Some(token) {
            return Room::Call;
        }
        stream.on_writable(token).map_or(Room::Socket, Room::Connection)
    }

    /// A path does not end there any more.
    pub(crate) fn on_moved(&mut self, from: Endpoint) {
        if let Some(Kind::Stream(stream)) = self.list.get_mut(from.socket.0 as usize).map(|socket| &mut socket.kind) {
            stream.on_moved(from.address);
        }
    }

    /// Closes connections on which nothing came for too long; gives those that were a peer's.
    pub(crate) fn expire(&mut self) -> Vec<(usize, SocketAddr)> {
        let mut gone = Vec::new();
        for (number, socket) in self.list.iter_mut().enumerate() {
            if let Kind::Stream(stream) = &mut socket.kind {
                gone.extend(stream.expire().into_iter().map(|remote| (number, remote)));
            }
        }
        gone
    }

    /// What carries a path that ends there.
    pub(crate) fn carrier(&self, path: PathId, to: Endpoint) -> Carrier {
        let socket = to.socket.0 as usize;
        let stream = self.list.get(socket).is_some_and(Socket::is_stream);
        Carrier::Sealed { path, socket, remote: to.address, stream }
    }

    /// Begins to wait for a socket, which is new; an older one of the number is closed.
    fn watch(&mut self, number: usize) {
        let socket = &mut self.list[number];
        socket.wants_write = false;
        if let Some(token) = socket.token.take() {
            self.poller.forget(token);
        }
        let Some(fd) = socket.fd() else { return };
        match self.poller.watch(fd, Turn::Links) {
            Ok(token) => {
                socket.token = Some(token);
                self.note(token, number);
            }
            Err(error) => tracing::error!(port = number, %error, "cannot wait for a socket"),
        }
    }

    /// The number of the socket that is waited for under `token`.
    pub(crate) fn find(&self, token: Token) -> Option<usize> {
        let number = *self.numbers.get(token.slot())?;
        let socket = self.list.get(number)?;
        let found = match &socket.kind {
            Kind::Stream(stream) => stream.has(token),
            _ => socket.token == Some(token),
        };
        found.then_some(number)
    }

    /// Waits for room in a socket too, or no longer.
    pub(crate) fn want_write(&mut self, number: usize, wants: bool) {
        let socket = &mut self.list[number];
        if socket.wants_write == wants {
            return;
        }
        socket.wants_write = wants;
        let interest = if wants { Interest::ReadAndWrite } else { Interest::Read };
        let (Some(token), Some(fd)) = (socket.token, socket.fd()) else { return };
        if let Err(error) = self.poller.set_interest(token, fd, interest) {
            tracing::error!(port = number, %error, "cannot wait for a socket");
        }
    }

    /// Looks whether a socket's interface is there; true when the socket is a new one, which is waited for then.
    pub(crate) fn look(&mut self, number: usize) -> bool {
        if self.list[number].is_stream() {
            return self.look_at_stream(number);
        }
        let socket = &mut self.list[number];
        let was_absent = socket.absent;
        let looked = socket.look();
        if socket.absent && !was_absent {
            tracing::warn!(device = socket.device(), "interface is gone");
            // A vanished interface makes its socket readable for ever: it is not waited for until it is back.
            if let (Some(token), Some(fd)) = (socket.token.take(), socket.fd()) {
                self.poller.unwatch(token, fd);
            }
            socket.wants_write = false;
        }
        match looked {
            Ok(new) => {
                socket.complaint = None;
                if new {
                    tracing::info!(device = socket.device(), "interface is there");
                    self.watch(number);
                }
                new
            }
            Err(error) => {
                if socket.complaint.as_ref() != Some(&error) {
                    tracing::warn!(device = socket.device(), error, "the socket cannot be opened; tried every second");
                    socket.complaint = Some(error);
                }
                false
            }
        }
    }

    /// The same of a connection.
    fn look_at_stream(&mut self, number: usize) -> bool {
        let socket = &mut self.list[number];
        let was_absent = socket.absent;
        let looked = socket.look();
        if socket.absent && !was_absent {
            tracing::warn!(device = socket.device(), "the connection has ended; it is made again");
        }
        let new = match looked {
            Ok(new) => {
                if new {
                    socket.complaint = None;
                    tracing::info!(device = socket.device(), "connected");
                }
                new
            }
            Err(error) => {
                if socket.complaint.as_ref() != Some(&error) {
                    tracing::warn!(device = socket.device(), error, "no connection; tried again");
                    socket.complaint = Some(error);
                }
                false
            }
        };
        self.note_stream(number);
        new
    }

    /// Whether a socket's interface is there, switched on and with carrier, as far as it is known.
    pub(crate) fn is_usable(&self, number: usize) -> bool {
        let socket = &self.list[number];
        !socket.absent && socket.is_running()
    }

    /// Whether something sent by a channel may arrive: where others call over TCP, only those that have are within reach.
    pub(crate) fn reaches(&self, carrier: Carrier) -> bool {
        match (&self.list[carrier.socket()].kind, carrier.remote()) {
            (Kind::Stream(stream), Some(remote)) => stream.reaches(remote),
            _ => true,
        }
    }

    /// Where the other end of a channel is, for people; `None` while a station is not known.
    pub(crate) fn show_remote(&self, carrier: Carrier, owner: Owner) -> Option<String> {
        match carrier {
            Carrier::Sealed { remote, .. } if sealed_frame::mac_of(remote) == Some(Mac::BROADCAST) => None,
            Carrier::Sealed { remote, .. } if remote.ip().is_unspecified() => None,
            Carrier::Sealed { remote, .. } => Some(sealed_frame::show(remote)),
            Carrier::Plain { socket } => {
                let mac = self.list.get(socket)?.station(owner);
                (mac != Mac::BROADCAST).then(|| mac.to_string())
            }
        }
    }

    /// Sends what the sessions themselves have to say, and says how many links were found down. An answer leaves from the
    /// address that was asked.
    fn send_messages(&mut self, sessions: &mut Sessions, asked: Option<&Datagram<'_>>) -> u64 {
        let mut failed = 0;
        while let Some(message) = sessions.poll_transmit() {
            let asked = asked.filter(|datagram| datagram.source == message.destination);
            let Some(socket) = self.list.get_mut(message.socket.0 as usize) else { continue };
            let source = message.source.or_else(|| asked.and_then(|datagram| datagram.destination));
            let destination = Destination { address: message.destination, source, tos: 0, handling: Handling::Usual };
            let mut sent = send_sealed(socket, destination, &message.payload);
            if sent == Sent::Down && source.is_some() {
                // It may be that address of ours alone which is gone.
                sent = send_sealed(socket, Destination { source: None, ..destination }, &message.payload);
            }
            if sent == Sent::Down {
                failed += 1;
                socket.unreachable = Some(message.destination);
            } else if socket.unreachable == Some(message.destination) {
                socket.unreachable = None;
            }
        }
        failed
    }
}

impl Deref for Sockets {
    type Target = Vec<Socket>;

    fn deref(&self) -> &Vec<Socket> {
        &self.list
    }
}

impl DerefMut for Sockets {
    fn deref_mut(&mut self) -> &mut Vec<Socket> {
        &mut self.list
    }
}

/// Sends one datagram of the sessions at once, apart from any batch: on Ethernet to the station that the address stands
/// for.
pub(crate) fn send_sealed(socket: &mut Socket, destination: Destination, datagram: &[u8]) -> Sent {
    match (&mut socket.kind, sealed_frame::mac_of(destination.address)) {
        _ if socket.absent => Sent::Down,
        (Kind::Udp(socket), None) => socket.send_one(destination, datagram),
        (Kind::Stream(stream), None) => stream.send_message(destination.address, datagram),
        (Kind::Ethernet(socket), Some(peer)) => {
            let Some(length) = sealed_frame::length(datagram.len()) else { return Sent::Done };
            let frame = Outgoing { peer, codepoint: Codepoint::Envelope, head: &length, packet: datagram };
            match socket.send(&[frame]) {
                ethernet::Sent::Done => Sent::Done,
                ethernet::Sent::Blocked(_) => Sent::Blocked,
                ethernet::Sent::Congested(_) => Sent::Congested,
                ethernet::Sent::Down(_) => Sent::Down,
            }
        }
        _ => Sent::Done,
    }
}
