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

/// How long nothing authentic may come by a connection that this end has made, after something was sent. What is between the two ends may
/// acknowledge all of it although the other end is gone.
const SILENCE: Duration = Duration::from_secs(20);

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
    /// Since when something was sent that nothing authentic has come after.
    unanswered: Option<Duration>,
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
        let Some(line) = self.lines.get_mut(&token).filter(|_| datagrams > 0) else { return false };
        let is_fresh = line.proven.is_some_and(|proven| system().monotonic() < proven + PROOF_EVERY);
        if is_fresh {
            line.unanswered = None;
        }
        !is_fresh
    }

    /// Something came by a connection at which the path of a session ends.
    pub(crate) fn on_proof(&mut self, token: Token) {
        if let Some(line) = self.lines.get_mut(&token) {
            (line.proven, line.unanswered) = (Some(system().monotonic()), None);
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

    /// There is room on a connection again: where that leads. Whoever waits for it is to write now.
    pub(crate) fn on_writable(&mut self, token: Token) -> Option<SocketAddr> {
        let remote = self.lines.get(&token)?.remote;
        self.send(remote, |connection, stats| connection.send_first(stats));
        if self.lines.get(&token).is_some_and(|line| !line.connection.wants_write()) {
            self.want_write(token, false);
        }
        Some(remote)
    }

    fn send(&mut self, remote: SocketAddr, send: impl FnOnce(&mut Connection, &mut TcpStats) -> Sent) -> Sent {
        let Some(&token) = self.by_remote.get(&remote) else { return Sent::Down };
        let Some(line) = self.lines.get_mut(&token) else { return Sent::Down };
        let sent = send(&mut line.connection, &mut self.stats);
        if sent == Sent::Down {
            // Its end is read: whoever reads tells the others, and closes it.
            return sent;
        }
        line.unanswered.get_or_insert_with(|| system().monotonic());
        // A message that finds room does not mean that those who were refused before it know of that: they wait to be told.
        if line.connection.wants_write() {
            self.want_write(token, true);
        }
        sent
    }

    fn want_write(&mut self, token: Token, wants: bool) {
        let Some(line) = self.lines.get_mut(&token).filter(|line| line.wants_write != wants) else { return };
        let interest = if wants { Interest::ReadAndWrite } else { Interest::Read };
        match self.poller.set_interest(token, line.connection.as_fd(), interest) {
            Ok(()) => line.wants_write = wants,
            Err(error) => tracing::error!(remote = %line.remote, %error, "cannot wait for a connection"),
        }
    }

    /// The connection ended by itself.
    pub(crate) fn on_ended(&mut self, token: Token) {
        self.stats.closed += 1;
        self.end(token);
    }

    /// The connection brought what is no datagram.
    pub(crate) fn on_bad_length(&mut self, token: Token) {
        self.stats.bad_length += 1;
        self.end(token);
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
        let (proven, unanswered, wants_write) = (None, None, false);
        self.lines.insert(token, Line { connection, remote, since: now, proven, unanswered, wants_write });
        self.by_remote.insert(remote, token);
    }

    fn close(&mut self, token: Token) -> Option<Line> {
        let line = self.lines.remove(&token)?;
        self.by_remote.remove(&line.remote);
        self.poller.forget(token);
        Some(line)
    }

    /// Closes a connection that this end would have kept.
    fn end(&mut self, token: Token) {
        let Some(line) = self.close(token) else { return };
        if let Side::Caller(caller) = &mut self.side {
            let of_use = line.proven.map_or(Duration::ZERO, |proven| proven.saturating_sub(line.since));
            caller.on_ended(system().monotonic(), of_use);
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
            tokens.into_iter().for_each(|token| drop(self.close(token)));
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

    /// Closes what has been silent for too long; gives who is gone, but for strangers.
    pub(crate) fn expire(&mut self) -> Vec<SocketAddr> {
        self.pause(false);
        let (now, listens) = (system().monotonic(), self.listens());
        let is_over = |line: &Line| match line.proven {
            _ if !listens => line.unanswered.is_some_and(|since| now >= since + SILENCE),
            Some(proven) => now >= proven + IDLE,
            None => now >= line.since + PROOF_WITHIN,
        };
        let over = self.lines.iter().filter(|(_, line)| is_over(line));
        let over: Vec<_> = over.map(|(token, line)| (*token, line.remote, line.proven.is_some())).collect();
        let mut gone = Vec::new();
        for (token, remote, proven) in over {
            self.end(token);
            match proven {
                true => self.stats.idle += 1,
                false => self.stats.unproven += 1,
            }
            if proven || !listens {
                gone.push(remote);
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
