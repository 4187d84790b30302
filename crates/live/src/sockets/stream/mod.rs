//! A socket whose datagrams go over TCP: one connection that a channel makes, or all that came to a port.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the connections by token and by who is at the other end; reading, writing, ending |
//! | `caller` | when to connect, and again |
//! | `listener` | accepting, and how many may be there |
//!
//! The sessions see neither connections nor their ends: to them a connection is an address, as a datagram's source is. A peer that
//! connects anew has moved. So nothing of the handshake, the cookies and the replay window is other than over UDP.
//!
//! A connection is *proven* once the path of a session ends there, which takes a datagram that the session opened and that is newer
//! than those of other connections. Until then it is a stranger's.

mod caller;
mod listener;

use crate::channel::tcp::frames::Frames;
use crate::channel::tcp::run::Run;
use crate::channel::tcp::{Connection, Read, TcpStats, prepare};
use crate::channel::udp::Sent;
use crate::config::Channel;
use crate::shell::poller::{Interest, Poller, Token, Turn};
use crate::system::system;
use caller::Caller;
use listener::{AT_ONCE, IDLE, Listener, PROOF_WITHIN, Stranger};
use rustix::io::Errno;
use socket2::Socket;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// How often it is asked whether a connection is still a session's.
const PROOF_EVERY: Duration = Duration::from_secs(1);

/// Bytes that are read in one turn from whom no session knows.
const STRANGERS_TURN: usize = 16 * 1024;

/// One connection.
#[derive(Debug)]
struct Line {
    connection: Connection,
    remote: SocketAddr,
    since: Duration,
    /// When something came last while the path of a session ended here.
    proven: Option<Duration>,
    /// Waits for room.
    wants_write: bool,
}

/// Who begins.
#[derive(Debug)]
enum Side {
    Caller(Caller),
    Listener(Listener),
}

/// A socket of streams.
#[derive(Debug)]
pub(crate) struct Stream {
    side: Side,
    lines: HashMap<Token, Line>,
    by_remote: HashMap<SocketAddr, Token>,
    poller: Poller,
    stats: TcpStats,
}

/// What came of looking at a caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// It is connected, as before.
    Connected,
    /// It is connected since now.
    New,
    /// It is not, and why, as far as that is known.
    Absent(Option<String>),
}

impl Stream {
    /// Of a channel that connects once somebody [looks](Self::look).
    pub(crate) fn caller(channel: &Channel, to: SocketAddr, mark: u32, poller: &Poller) -> Stream {
        Stream::new(Side::Caller(Caller::new(channel, to, mark)), poller)
    }

    /// Of a port on which peers may begin.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn listen(address: SocketAddr, mark: u32, poller: &Poller) -> io::Result<Stream> {
        Ok(Stream::new(Side::Listener(Listener::open(address, mark, poller)?), poller))
    }

    fn new(side: Side, poller: &Poller) -> Stream {
        Stream {
            side,
            lines: HashMap::new(),
            by_remote: HashMap::new(),
            poller: poller.clone(),
            stats: TcpStats::default(),
        }
    }

    /// Whether one of its descriptors is waited for under `token`.
    pub(crate) fn has(&self, token: Token) -> bool {
        self.lines.contains_key(&token) || self.own_token() == Some(token)
    }

    /// What the one that listens, or a call that goes on, is waited for under.
    pub(super) fn own_token(&self) -> Option<Token> {
        match &self.side {
            Side::Caller(caller) => caller.token(),
            Side::Listener(listener) => Some(listener.token()),
        }
    }

    /// The tokens of all of its connections.
    pub(super) fn tokens(&self) -> impl Iterator<Item = Token> {
        self.lines.keys().copied()
    }

    /// Whether it waits for others to connect.
    pub(crate) fn listens(&self) -> bool {
        matches!(self.side, Side::Listener(_))
    }

    /// Counts and the connection's other end, where the read brought bytes.
    pub(crate) fn read(&mut self, token: Token, buffer: &mut [u8]) -> Option<(Read, SocketAddr)> {
        let line = self.lines.get_mut(&token)?;
        let read = line.connection.read(buffer);
        if let Read::Bytes(count) = read {
            self.stats.received_bytes += count as u64;
        }
        Some((read, line.remote))
    }

    /// What was read in part.
    pub(crate) fn frames(&mut self, token: Token) -> Option<&mut Frames> {
        self.lines.get_mut(&token).map(|line| &mut line.connection.frames)
    }

    /// How many bytes are read from a connection in one turn, if not as many as there is room for: a stranger is not to hold up the others.
    pub(crate) fn turn(&self, token: Token) -> Option<usize> {
        let stranger = self.listens() && self.lines.get(&token).is_some_and(|line| line.proven.is_none());
        stranger.then_some(STRANGERS_TURN)
    }

    /// Whether there is a connection to `remote`, or one may be made.
    pub(crate) fn reaches(&self, remote: SocketAddr) -> bool {
        !self.listens() || self.by_remote.contains_key(&remote)
    }

    /// So many datagrams came: whether it is to be [told](Self::on_proof) if a session's path ends here.
    pub(crate) fn wants_proof(&mut self, token: Token, datagrams: u64) -> bool {
        self.stats.received += datagrams;
        let proven = self.lines.get(&token).and_then(|line| line.proven);
        proven.is_none_or(|proven| system().monotonic() >= proven + PROOF_EVERY)
    }

    /// Something came by a connection at which the path of a session ends.
    pub(crate) fn on_proof(&mut self, token: Token) {
        if let Some(line) = self.lines.get_mut(&token) {
            line.proven = Some(system().monotonic());
        }
        if let Side::Caller(caller) = &mut self.side {
            caller.on_proof();
        }
    }

    /// Writes a run to `remote`. A connection that has ended is closed.
    pub(crate) fn send_run(&mut self, remote: SocketAddr, run: &mut Run) -> Sent {
        self.send(remote, |connection, stats| connection.send_run(run, stats))
    }

    /// Writes one datagram to `remote`.
    pub(crate) fn send_message(&mut self, remote: SocketAddr, datagram: &[u8]) -> Sent {
        self.send(remote, |connection, stats| connection.send_message(datagram, stats))
    }

    /// There is room on a connection again.
    pub(crate) fn on_writable(&mut self, token: Token) {
        if let Some(remote) = self.lines.get(&token).map(|line| line.remote) {
            self.send(remote, |connection, stats| connection.send_first(stats));
        }
    }

    fn send(&mut self, remote: SocketAddr, send: impl FnOnce(&mut Connection, &mut TcpStats) -> Sent) -> Sent {
        let Some(&token) = self.by_remote.get(&remote) else { return Sent::Down };
        let Some(line) = self.lines.get_mut(&token) else { return Sent::Down };
        let sent = send(&mut line.connection, &mut self.stats);
        if sent == Sent::Down {
            // Its end is read: whoever reads tells the others, and closes it.
            return sent;
        }
        let wants = line.connection.wants_write();
        if wants != line.wants_write {
            let interest = if wants { Interest::ReadAndWrite } else { Interest::Read };
            match self.poller.set_interest(token, line.connection.as_fd(), interest) {
                Ok(()) => line.wants_write = wants,
                Err(error) => tracing::error!(%remote, %error, "cannot wait for a connection"),
            }
        }
        sent
    }

    /// The connection ended by itself.
    pub(crate) fn on_ended(&mut self, token: Token) {
        self.stats.closed += 1;
        self.close(token);
    }

    /// The connection brought what is no datagram.
    pub(crate) fn on_bad_length(&mut self, token: Token) {
        self.stats.bad_length += 1;
        self.close(token);
    }

    /// Who was at `remote` is elsewhere now: it is a stranger's again. Its peer may come back, as one does that tried another way in
    /// vain.
    pub(crate) fn on_moved(&mut self, remote: SocketAddr) {
        let token = self.by_remote.get(&remote).filter(|_| self.listens());
        if let Some(line) = token.and_then(|token| self.lines.get_mut(token)) {
            self.stats.superseded += 1;
            (line.proven, line.since) = (None, system().monotonic());
        }
    }

    fn add(&mut self, connection: Connection, remote: SocketAddr, token: Token) {
        let now = system().monotonic();
        self.lines.insert(token, Line { connection, remote, since: now, proven: None, wants_write: false });
        self.by_remote.insert(remote, token);
    }

    fn close(&mut self, token: Token) {
        let Some(line) = self.lines.remove(&token) else { return };
        self.by_remote.remove(&line.remote);
        self.poller.forget(token);
        if let Side::Caller(caller) = &mut self.side {
            caller.on_closed(line.proven.is_some());
        }
    }

    /// Looks at a caller: connects, or goes on with it, where it is time.
    pub(crate) fn look(&mut self) -> Looked {
        let Side::Caller(caller) = &self.side else { return Looked::Connected };
        if let Some((&token, line)) = self.lines.iter().next() {
            if !caller.has_lost_device(line.connection.socket()) {
                return Looked::Connected;
            }
            self.on_ended(token);
        }
        let Side::Caller(caller) = &mut self.side else { return Looked::Connected };
        match caller.look(&self.poller, &mut self.stats) {
            Ok(Some((socket, token))) => {
                let to = caller.to();
                self.add(Connection::new(socket), to, token);
                self.stats.connected += 1;
                Looked::New
            }
            Ok(None) => Looked::Absent(None),
            Err(error) => Looked::Absent(Some(error)),
        }
    }

    /// No connection is wanted of a caller, or one is again.
    pub(crate) fn set_resting(&mut self, resting: bool) {
        if let Side::Caller(caller) = &mut self.side {
            caller.set_resting(resting, &self.poller);
        }
        if resting {
            let tokens: Vec<Token> = self.tokens().collect();
            tokens.into_iter().for_each(|token| self.close(token));
        }
    }

    /// Accepts who waits, and gives the tokens of the connections.
    pub(crate) fn accept(&mut self) -> Vec<Token> {
        let mut tokens = Vec::new();
        for _ in 0..AT_ONCE {
            let Side::Listener(listener) = &self.side else { break };
            match listener.accept() {
                Ok(Some((socket, remote))) => tokens.extend(self.take_in(socket, remote)),
                Ok(None) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
                    if self.evict(listener::oldest(&self.strangers(), |_| true)) => {}
                Err(error) => {
                    tracing::warn!(%error, "connections are not accepted for a second");
                    self.pause(true);
                    break;
                }
            }
        }
        tokens
    }

    fn take_in(&mut self, socket: Socket, remote: SocketAddr) -> Option<Token> {
        // To another of our addresses, perhaps: only one of them can be answered.
        if let Some(&before) = self.by_remote.get(&remote) {
            if self.lines.get(&before).is_some_and(|line| line.proven.is_some()) {
                return None;
            }
            self.evict(Some(before));
        }
        prepare(&socket).ok()?;
        let token = self.poller.watch(socket.as_fd(), Turn::Links).ok()?;
        self.stats.accepted += 1;
        self.add(Connection::new(socket), remote, token);
        self.evict(listener::displaced(&self.strangers(), remote.ip()));
        self.lines.contains_key(&token).then_some(token)
    }

    /// Connections that have proven nothing.
    fn strangers(&self) -> Vec<Stranger> {
        let strangers = self.lines.iter().filter(|(_, line)| line.proven.is_none());
        strangers.map(|(token, line)| (*token, line.remote.ip(), line.since)).collect()
    }

    /// Closes a stranger, for others; false where there is none.
    fn evict(&mut self, stranger: Option<Token>) -> bool {
        let Some(stranger) = stranger else { return false };
        self.stats.evicted += 1;
        self.close(stranger);
        true
    }

    fn pause(&mut self, paused: bool) {
        if let Side::Listener(listener) = &mut self.side {
            listener.pause(paused, &self.poller);
        }
    }

    /// Closes what has been silent for too long; gives who is gone of those who had proven something.
    pub(crate) fn expire(&mut self) -> Vec<SocketAddr> {
        if !self.listens() {
            return Vec::new();
        }
        self.pause(false);
        let now = system().monotonic();
        let is_over = |line: &Line| match line.proven {
            Some(proven) => now >= proven + IDLE,
            None => now >= line.since + PROOF_WITHIN,
        };
        let over = self.lines.iter().filter(|(_, line)| is_over(line));
        let over: Vec<_> = over.map(|(token, line)| (*token, line.remote, line.proven.is_some())).collect();
        let mut gone = Vec::new();
        for (token, remote, proven) in over {
            self.close(token);
            if proven {
                self.stats.idle += 1;
                gone.push(remote);
            } else {
                self.stats.unproven += 1;
            }
        }
        gone
    }

    /// The counters by name.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.stats.each()
    }
}

#[cfg(test)]
mod tests;
