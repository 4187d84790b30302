//! What peers and rings send and receive over: sockets, the sessions that seal on them, and what all of these share.
//!
//! The way in is here once: a socket that is readable gives datagrams or frames, sessions open them, and a [`Receiver`] gets
//! what was in them. The way out is the receiver's own, through an [`Outbox`](super::outbox::Outbox) for each channel.

use super::outbox::Pool;
use super::socket::{Kind, Socket};
use super::worker::Worker;
use super::{Carrier, Sockets, sealed_frame};
use crate::channel::ethernet::{Codepoint, Mac};
use crate::channel::tcp::Read;
use crate::channel::udp::{Datagram, Receive, ReceiveBatch};
use crate::config::Interface;
use crate::memory::Keeper;
use crate::pool::PacketBuf;
use crate::secure::{
    self, Data, FLAG_CHECKSUM_PARTIAL, OsEntropy, PathId, Received, RejectReason, Sessions, SocketId, joining,
};
use crate::shell::error::DaemonError;
use crate::shell::machine::TimerName;
use crate::shell::poller::{Poller, Token};
use crate::status::Counters;
use crate::system::system;
use fairspan_core::units::{Span, Time};
use std::net::{IpAddr, SocketAddr};

/// Receives in a row on one socket before others get their turn.
const RECEIVE_BURST: usize = 4;
/// Frames taken from one Ethernet socket before others get their turn.
const FRAME_BURST: usize = 256;
/// Bytes read at once from a connection.
const READ_BYTES: usize = 262_144;
/// Wait until a queue that was full, of which no poll tells when there is room, is tried again.
const RETRY_WAIT: Span = Span::from_millis(1);

/// The sockets and what is lent to them.
pub(crate) struct Transport {
    pub(crate) sockets: Sockets,
    /// `None` where nothing is sealed.
    pub(crate) sessions: Option<Sessions>,
    /// `None` where the sessions compute handshakes themselves.
    worker: Option<Worker>,
    /// `None` where nothing can be kept.
    keeper: Option<Keeper>,
    /// Empty batches for datagrams.
    pub(crate) pool: Pool,
    pub(crate) counts: Counts,
    /// Frames in the clear have a length before them too.
    measured: bool,
    /// A queue was full: tried again then.
    retry: Option<Time>,
    /// A handshake waits to be computed.
    queued: bool,
    /// Lent to each receive; only absent meanwhile.
    received: Option<ReceiveBatch>,
    /// The same, for what comes over TCP; empty where nothing does.
    read: Vec<u8>,
    /// Frames on their way from a receive ring, with who sent them.
    frames: Vec<(Mac, Codepoint, PacketBuf)>,
}

/// What went wrong between sockets and packets.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Frames from a station that is no peer.
    pub(crate) stranger: u64,
    /// Frames in the clear where only sealed ones count, or of an EtherType that nothing here uses.
    pub(crate) plain_frame: u64,
    /// Frames that are too short, or whose length points behind their end.
    pub(crate) malformed_frame: u64,
    /// What was to be sent and was dropped: its link was gone, or the station was not known.
    pub(crate) send_down: u64,
}

/// Who gets what came in.
pub(crate) trait Receiver {
    fn transport(&mut self) -> &mut Transport;

    /// A session opened `datagram`: `packet` was in it.
    fn handle_opened(&mut self, now: Time, data: &Data, packet: PacketBuf, datagram: &Datagram<'_>);

    /// A frame in the clear.
    fn handle_plain(&mut self, now: Time, socket: usize, source: Mac, codepoint: Codepoint, frame: PacketBuf);

    /// A site asks that may have been invited and has no session yet. False where nobody is.
    fn handle_question(&mut self, _now: Time, _socket: usize, _datagram: &Datagram<'_>) -> bool {
        false
    }

    /// The sessions have something to tell, and what they tell is to be known before the next packet.
    fn handle_session_events(&mut self, now: Time);

    /// A socket failed: its interface may be gone.
    fn handle_down(&mut self, now: Time, socket: usize);

    /// Of a socket that listens, the connection with `remote` has ended.
    fn handle_closed(&mut self, now: Time, socket: usize, remote: SocketAddr);
}

impl Transport {
    /// No sockets yet. `measured`: frames in the clear have a length before them too.
    ///
    /// # Errors
    /// What the sessions refuse.
    pub(crate) fn new(
        interface: &Interface,
        poller: &Poller,
        now: Time,
        measured: bool,
    ) -> Result<Transport, DaemonError> {
        let (sessions, worker, keeper) = match interface.private_key.clone() {
            Some(key) => {
                let (keeper, past) = Keeper::open(&interface.state_dir, &key.public_key());
                let settings = secure::Config { padding: interface.padding, ..secure::Config::default() };
                let mut sessions = Sessions::new(settings, key, Box::new(OsEntropy::new()), past, now)
                    .map_err(|e| DaemonError::setting("interface", e))?;
                let worker = if system().has_threads() {
                    sessions.offload();
                    Some(Worker::start(poller, Box::new(OsEntropy::new()))?)
                } else {
                    None
                };
                (Some(sessions), worker, keeper)
            }
            None => (None, None, None),
        };
        Ok(Transport {
            sockets: Sockets::open(interface, poller)?,
            sessions,
            worker,
            keeper,
            pool: Pool::new(),
            counts: Counts::default(),
            measured,
            retry: None,
            queued: false,
            received: Some(ReceiveBatch::new()),
            read: Vec::new(),
            frames: Vec::with_capacity(FRAME_BURST),
        })
    }

    /// A queue is full and nothing tells when there is room.
    pub(crate) fn retry_soon(&mut self, now: Time) {
        self.retry.get_or_insert(now + RETRY_WAIT);
    }

    /// Whether some queue was full and is to be tried again.
    pub(crate) fn take_retry(&mut self) -> bool {
        self.retry.take().is_some()
    }

    /// When the sessions or a full queue want to be looked at.
    pub(crate) fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let sessions = self.sessions.as_ref().and_then(Sessions::poll_timeout);
        let sessions = sessions.map(|due| (due, TimerName("sessions")));
        let retry = self.retry.map(|due| (due, TimerName("full queue")));
        [sessions, retry].into_iter().flatten().min_by_key(|(due, _)| *due)
    }

    /// What the sessions have to do by now.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if let Some(sessions) = &mut self.sessions
            && sessions.poll_timeout().is_some_and(|due| due <= now)
        {
            sessions.handle_timeout(now);
        }
    }

    /// Whether `token` tells of handshakes that were computed.
    pub(crate) fn is_worker(&self, token: Token) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.is(token))
    }

    /// Exchanges steps of handshakes with the thread that computes them.
    fn exchange_work(&mut self, now: Time) {
        if let (Some(sessions), Some(worker)) = (&mut self.sessions, &self.worker) {
            worker.exchange(now, sessions);
        }
    }

    /// Keeps what the sessions must not forget, where it is time, and hears what the network tells of calls.
    pub(crate) fn handle_housekeeping(&mut self, now: Time) {
        self.follow_calls();
        if let (Some(sessions), Some(keeper)) = (&mut self.sessions, &self.keeper) {
            if let Some(kept) = keeper.poll_kept() {
                sessions.on_kept(&kept);
            }
            if let Some(memory) = sessions.poll_memory(now) {
                keeper.keep(memory);
            }
        }
    }

    /// Takes what the network told of calls since the last time, and listens for more.
    fn follow_calls(&mut self) {
        let (Some(sessions), sockets) = (&mut self.sessions, &mut self.sockets) else { return };
        let news = sessions.follow_calls(|call| sockets.get_mut(call.socket.0 as usize)?.follow_call(call.address));
        for (address, reason) in news {
            tracing::warn!(address = sealed_frame::show(address), %reason, "a call does not arrive");
        }
        self.sockets.iter_mut().for_each(Socket::hear_of_calls);
    }

    /// Sends what the sessions themselves have to say; false when a link is down. An answer leaves from the address that
    /// was `asked`.
    pub(crate) fn send_messages(&mut self, asked: Option<&Datagram<'_>>) -> bool {
        let failed = self.sessions.as_mut().map_or(0, |sessions| self.sockets.send_messages(sessions, asked));
        self.counts.send_down += failed;
        failed == 0
    }

    /// Our address that the peer of a path calls, and which answers leave from.
    pub(crate) fn source(&self, path: PathId) -> Option<IpAddr> {
        self.sessions.as_ref()?.source(path)
    }

    /// Why what `carrier` carries does not connect, as far as this end knows. `failed`: nothing can be sent there.
    pub(crate) fn trouble(&self, carrier: Carrier, failed: bool) -> Option<String> {
        let socket = &self.sockets[carrier.socket()];
        if socket.absent && socket.is_stream() {
            let why = socket.complaint.as_deref().unwrap_or("it is being made");
            return Some(format!("no connection over TCP: {why}"));
        }
        if failed && socket.is_stream() {
            return Some("its connection over TCP has ended: the peer has to make one".into());
        }
        if socket.absent {
            return Some("its `device` does not exist".into());
        }
        if !socket.is_running() {
            return Some("its `device` is down or has no carrier".into());
        }
        if failed || (socket.unreachable.is_some() && socket.unreachable == carrier.remote()) {
            return Some(
                "nothing can be sent: there is no route, or one that prohibits it, or this end's address is gone"
                    .into(),
            );
        }
        let trouble = carrier.path().zip(self.sessions.as_ref()).and_then(|(path, sessions)| sessions.trouble(path));
        trouble.map(|trouble| trouble.to_string())
    }

    /// Adds the counters of sockets, sessions and frames.
    pub(crate) fn count(&self, counters: &mut Counters) {
        counters.insert("unknown_station".into(), self.counts.stranger);
        counters.insert("plain_frame".into(), self.counts.plain_frame);
        counters.insert("malformed_frame".into(), self.counts.malformed_frame);
        counters.insert("send_down".into(), self.counts.send_down);
        let secure = self.sessions.iter().flat_map(|sessions| sessions.stats().each());
        counters.extend(secure.map(|(name, n)| (format!("secure_{name}"), n)));
        for ((prefix, name), n) in self.sockets.counters() {
            *counters.entry(format!("{prefix}_{name}")).or_default() += n;
        }
    }

    /// Takes frames from a receive ring; how many there were.
    fn receive_frames(&mut self, number: usize) -> usize {
        let (frames, counts) = (&mut self.frames, &mut self.counts);
        let socket = &mut self.sockets[number];
        let measured = self.measured || socket.is_sealed();
        let Kind::Ethernet(ethernet) = &mut socket.kind else { return 0 };
        ethernet.receive(FRAME_BURST, |frame| {
            let bytes = match (measured, frame.codepoint) {
                (false, _) => Some(frame.bytes),
                (true, Codepoint::Envelope) => sealed_frame::datagram(frame.bytes),
                (true, Codepoint::Raw) => return counts.plain_frame += 1,
            };
            match bytes {
                Some(bytes) => frames.push((frame.source, frame.codepoint, PacketBuf::copy_from(bytes))),
                None => counts.malformed_frame += 1,
            }
        })
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let (Some(sessions), Some(keeper)) = (&self.sessions, self.keeper.take()) {
            keeper.close(&sessions.memory());
        }
    }
}

/// Takes what a socket has received, a burst of it, and hands it on.
pub(crate) fn receive(receiver: &mut impl Receiver, now: Time, number: usize, token: Token) {
    match receiver.transport().sockets[number].kind {
        Kind::Udp(_) => receive_datagrams(receiver, now, number),
        Kind::Stream(_) => receive_stream(receiver, now, number, token),
        Kind::Ethernet(_) => receive_frames(receiver, now, number),
        Kind::Missing(..) | Kind::Closed => {}
    }
    if receiver.transport().queued {
        receiver.transport().queued = false;
        receiver.transport().exchange_work(now);
    }
}

/// Goes on with handshakes that were computed.
pub(crate) fn receive_work(receiver: &mut impl Receiver, now: Time) {
    receiver.transport().exchange_work(now);
    receiver.handle_session_events(now);
    receiver.transport().send_messages(None);
}

fn receive_datagrams(receiver: &mut impl Receiver, now: Time, number: usize) {
    let mut received = receiver.transport().received.take().unwrap_or_default();
    for burst in 0..RECEIVE_BURST {
        let Kind::Udp(socket) = &mut receiver.transport().sockets[number].kind else { break };
        match socket.receive(&mut received) {
            Receive::Messages(_) => {}
            Receive::Empty => {
                if burst == 0 {
                    socket.read_errors();
                }
                break;
            }
            Receive::Down => {
                receiver.handle_down(now, number);
                break;
            }
        }
        for datagram in received.datagrams() {
            handle_datagram(receiver, now, number, &datagram);
        }
        // What comes alone does not wait until it was looked whether there is more.
        if burst == 0 && received.is_single() {
            break;
        }
    }
    receiver.transport().received = Some(received);
}

/// Takes what came by a connection, or those that wait to be accepted.
fn receive_stream(receiver: &mut impl Receiver, now: Time, number: usize, token: Token) {
    let Kind::Stream(stream) = &receiver.transport().sockets[number].kind else { return };
    if stream.own_token() == Some(token) {
        if stream.listens() {
            receiver.transport().sockets.accept(number);
        } else {
            // The call has failed.
            receiver.handle_down(now, number);
        }
        return;
    }
    let mut buffer = std::mem::take(&mut receiver.transport().read);
    buffer.resize(READ_BYTES, 0);
    for _ in 0..RECEIVE_BURST {
        let Kind::Stream(stream) = &mut receiver.transport().sockets[number].kind else { break };
        let turn = stream.turn(token);
        let room = turn.unwrap_or(READ_BYTES);
        let Some((read, remote)) = stream.read(token, &mut buffer[..room]) else { break };
        let is_over = match read {
            Read::Empty => break,
            Read::Ended => {
                stream.on_ended(token);
                true
            }
            Read::Bytes(count) => !handle_bytes(receiver, now, (number, token, remote), &buffer[..count]),
        };
        if is_over {
            end_stream(receiver, now, number, remote);
            break;
        }
        if turn.is_some() || matches!(read, Read::Bytes(count) if count < READ_BYTES) {
            break;
        }
    }
    receiver.transport().read = buffer;
}

/// Tells that a connection is no more.
pub(crate) fn end_stream(receiver: &mut impl Receiver, now: Time, number: usize, remote: SocketAddr) {
    let Kind::Stream(stream) = &receiver.transport().sockets[number].kind else { return };
    if stream.listens() {
        receiver.handle_closed(now, number, remote);
    } else {
        receiver.handle_down(now, number);
    }
}

/// Takes the datagrams out of what a connection brought; false where there is one that none can be, and the connection is closed.
fn handle_bytes(
    receiver: &mut impl Receiver,
    now: Time,
    (number, token, source): (usize, Token, SocketAddr),
    mut bytes: &[u8],
) -> bool {
    let lent = |receiver: &mut _| match &mut Receiver::transport(receiver).sockets[number].kind {
        Kind::Stream(stream) => stream.frames(token).map(std::mem::take),
        _ => None,
    };
    let Some(mut frames) = lent(receiver) else { return true };
    let mut count = 0;
    let whole = loop {
        match frames.next(&mut bytes) {
            Ok(Some(bytes)) => {
                count += 1;
                handle_datagram(receiver, now, number, &Datagram { source, destination: None, ecn: 0, bytes });
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    let Transport { sockets, sessions, .. } = receiver.transport();
    if let Kind::Stream(stream) = &mut sockets[number].kind {
        if stream.wants_proof(token, count) && sessions.as_mut().is_some_and(|s| s.is_established_at(source)) {
            stream.on_proof(token);
        }
        if !whole {
            stream.on_bad_length(token);
        } else if let Some(place) = stream.frames(token) {
            *place = frames;
        }
    }
    whole
}

fn receive_frames(receiver: &mut impl Receiver, now: Time, number: usize) {
    let taken = receiver.transport().receive_frames(number);
    let sealed = receiver.transport().sockets[number].is_sealed();
    let mut frames = std::mem::take(&mut receiver.transport().frames);
    for (source, codepoint, frame) in frames.drain(..) {
        if sealed {
            let source = sealed_frame::address_of(source);
            let datagram = Datagram { source, destination: None, ecn: 0, bytes: frame.as_slice() };
            handle_datagram(receiver, now, number, &datagram);
        } else {
            receiver.handle_plain(now, number, source, codepoint, frame);
        }
    }
    receiver.transport().frames = frames;
    if taken == 0 {
        // Readable without a frame: an error is pending.
        receiver.handle_down(now, number);
    }
}

fn handle_datagram(receiver: &mut impl Receiver, now: Time, number: usize, datagram: &Datagram<'_>) {
    if joining::is_question(datagram.bytes) && receiver.handle_question(now, number, datagram) {
        return;
    }
    let Some(sessions) = &mut receiver.transport().sessions else { return };
    // Opened straight into the slot that goes on: decryption is the copy.
    let mut slot = PacketBuf::with_room(datagram.bytes.len());
    let socket = SocketId(number as u32);
    let addresses = (datagram.source, datagram.destination);
    match sessions.handle_datagram_to(now, socket, addresses, datagram.bytes, slot.as_mut_slice()) {
        Received::Data(data) => {
            slot.truncate(data.len);
            slot.checksum_partial = data.flags & FLAG_CHECKSUM_PARTIAL != 0;
            receiver.handle_opened(now, &data, slot, datagram);
        }
        Received::Queued => receiver.transport().queued = true,
        Received::Control => {
            // A channel that connected just now is to be known before its first packet.
            receiver.handle_session_events(now);
            receiver.transport().send_messages(Some(datagram));
        }
        Received::Dropped(reason) => tracing::trace!(from = %datagram.source, ?reason, "datagram dropped"),
    }
}

/// Whose the paths of the sessions are.
#[derive(Debug)]
pub(crate) struct PathOwners<T>(Vec<Option<T>>);

impl<T: Copy> PathOwners<T> {
    pub(crate) fn new() -> PathOwners<T> {
        PathOwners(Vec::new())
    }

    pub(crate) fn note(&mut self, path: PathId, owner: T) {
        if self.0.len() <= path.index() {
            self.0.resize(path.index() + 1, None);
        }
        self.0[path.index()] = Some(owner);
    }

    pub(crate) fn forget(&mut self, path: PathId) {
        if let Some(owner) = self.0.get_mut(path.index()) {
            *owner = None;
        }
    }

    /// Gives each another owner, or none.
    pub(crate) fn renumber(&mut self, new: impl Fn(T) -> Option<T>) {
        self.0.iter_mut().for_each(|owner| *owner = owner.and_then(&new));
    }

    pub(crate) fn owner(&self, path: PathId) -> Option<T> {
        self.0.get(path.index()).copied().flatten()
    }
}

/// A line in the log for a call that the sessions refused.
pub(crate) fn log_rejected(address: SocketAddr, reason: RejectReason) {
    tracing::warn!(address = sealed_frame::show(address), %reason, "refused");
}
