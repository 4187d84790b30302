//! Peers, paths and timers: which session seals, which open, and when a handshake is due.
//!
//! Source: WireGuard (Donenfeld, NDSS 2017), section 6, with these departures:
//!
//! - No timestamp, so no clock: an initiation carries its process's random *instance* and a *sequence* number. Of the
//!   instance that a path is established with, only growing sequence numbers are answered. Of another instance a
//!   replay may be answered, but changes nothing: an answered session counts once its first packet proves that the
//!   initiator has the keys, up to four such sessions wait beside the established one, and none of them is lost to it.
//! - The initiator asks for the responder's proof of the new session (flag *ask*, answered by an empty packet), first
//!   after 100 ms, so that a lost first packet does not leave the responder without the session.
//! - Both ends may begin at once. Both handshakes may complete; each end seals with the last one that was confirmed
//!   and opens with all of them, so it does not matter which that is, and the next rekeying leaves one.
//! - Retries begin at 0.5 s instead of 5 s, and silence is noticed after 3 s instead of 15 s: a bond fails over.
//!
//! Cost per packet: one index into a table, the AEAD, the replay window. Deadlines are kept as one lower bound, and
//! the paths are gone through only when that has passed.

mod handshakes;

use super::aead::Capabilities;
use super::cookie::{Admission, Bucket, Cookie, Gate, Limits as GateLimits, MacKeys};
use super::noise::{Initiator, Responder, Split};
use super::path::{ATTEMPTS_MAX, Attempt, OLDER_MAX, PENDING_MAX, Path, State};
use super::session::{Limits, Made, OpenError, Session};
use super::wire::{
    FLAG_ASK, INITIATION, InitiationPayload, Message, OVERHEAD, RESPONSE, ResponsePayload, VERSION, decode,
    handshake_header,
};
use super::{
    Cipher, Config, ConfigError, Data, DropReason, Endpoint, Entropy, Event, FLAG_CHECKSUM_PARTIAL, HELLO_MAX,
    LostReason, PathId, PeerConfig, PeerId, PrivateKey, PublicKey, Received, RejectReason, Role, SealError, SocketId,
    Stats, Transmit, has_aes_hardware,
};
use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Span, Time};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use thiserror::Error;

/// Most control datagrams and events that wait to be fetched.
const QUEUE_MAX: usize = 1024;
/// Rejections reported to people: this many a second, in bursts of twenty.
const NOTICES_PER_SECOND: u32 = 5;

/// Why a peer was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddPeerError {
    /// There is one with this key.
    #[error("a peer with the public key {0} exists already")]
    Exists(PublicKey),
    /// The key is our own.
    #[error("the peer's public key is the one of this end: it must be the other end's")]
    OwnKey,
    /// The hello is too long.
    #[error("hello: {0} bytes, at most {HELLO_MAX}")]
    HelloTooLong(usize),
}

/// Why a path was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// No such peer (it was removed).
    #[error("the peer does not exist")]
    UnknownPeer,
    /// The channel's number is out of bounds.
    #[error("channel {0} is above channels_per_peer")]
    Channel(ChannelId),
    /// The hello is too long.
    #[error("hello: {0} bytes, at most {HELLO_MAX}")]
    HelloTooLong(usize),
}

struct Peer {
    config: PeerConfig,
    macs: MacKeys,
    paths: Vec<Option<u32>>,
}

enum Slot {
    Free,
    /// An initiation of ours, on this path, under this index.
    Initiated {
        index: u32,
        path: u32,
    },
    Session(Box<Session>),
}

/// All secure sessions of one daemon.
///
/// After any input drain [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event), and call
/// [`handle_timeout`](Self::handle_timeout) no later than at [`poll_timeout`](Self::poll_timeout).
pub struct Sessions {
    config: Config,
    private: PrivateKey,
    public: PublicKey,
    macs: MacKeys,
    capabilities: Capabilities,
    instance: u64,
    sequence: u64,
    entropy: Box<dyn Entropy>,
    jitter: Rng,
    gate: Gate,
    peers: Vec<Option<Box<Peer>>>,
    by_key: HashMap<PublicKey, u32>,
    paths: Vec<Option<Box<Path>>>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    notices: Bucket,
    /// No deadline is earlier.
    next: Time,
    stats: Stats,
}

impl Sessions {
    /// No peers yet. `entropy` is the one source of randomness; it also gives this process its instance number.
    ///
    /// # Errors
    /// A setting that cannot work.
    pub fn new(
        config: Config,
        private: PrivateKey,
        mut entropy: Box<dyn Entropy>,
        now: Time,
    ) -> Result<Sessions, ConfigError> {
        config.validate()?;
        let public = private.public_key();
        let macs = MacKeys::new(&public);
        let mut draw = || {
            let mut bytes = [0; 8];
            entropy.fill(&mut bytes);
            u64::from_be_bytes(bytes)
        };
        let (instance, seed) = (draw(), draw());
        let gate = Gate::new(macs.clone(), &mut *entropy, now);
        Ok(Sessions {
            capabilities: Capabilities::of(config.cipher, has_aes_hardware()),
            config,
            private,
            public,
            macs,
            instance,
            sequence: 0,
            entropy,
            jitter: Rng::new(seed),
            gate,
            peers: Vec::new(),
            by_key: HashMap::new(),
            paths: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            notices: Bucket::FULL,
            next: Time::MAX,
            stats: Stats::default(),
        })
    }

    /// This end's public key.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The random number of this process.
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Accepts a peer from now on.
    ///
    /// # Errors
    /// The peer exists, is this end itself, or has too long a hello.
    pub fn add_peer(&mut self, config: PeerConfig) -> Result<PeerId, AddPeerError> {
        if config.public_key == self.public {
            return Err(AddPeerError::OwnKey);
        }
        if self.by_key.contains_key(&config.public_key) {
            return Err(AddPeerError::Exists(config.public_key));
        }
        if config.hello.len() > HELLO_MAX {
            return Err(AddPeerError::HelloTooLong(config.hello.len()));
        }
        let number = self.peers.len() as u32;
        self.by_key.insert(config.public_key, number);
        let macs = MacKeys::new(&config.public_key);
        let paths = vec![None; usize::from(self.config.channels_per_peer)];
        self.peers.push(Some(Box::new(Peer { config, macs, paths })));
        Ok(PeerId(number))
    }

    /// The peer with this key, where there is one.
    pub fn peer(&self, key: PublicKey) -> Option<PeerId> {
        self.by_key.get(&key).map(|number| PeerId(*number))
    }

    /// Forgets a peer, its paths and their keys. No event follows.
    pub fn remove_peer(&mut self, peer: PeerId) {
        if let Some(removed) = self.peers.get_mut(peer.index()).and_then(Option::take) {
            self.by_key.remove(&removed.config.public_key);
            for path in removed.paths.iter().flatten() {
                self.forget_path(*path);
            }
        }
    }

    /// Forgets a path and its keys. No event follows; the peer may open it again.
    pub fn remove_path(&mut self, path: PathId) {
        if let Some(found) = self.path(path) {
            let (peer, channel) = (found.peer, found.channel);
            if let Some(peer) = self.peers.get_mut(peer.index()).and_then(Option::as_deref_mut) {
                peer.paths[channel.index()] = None;
            }
            self.forget_path(path.0);
        }
    }

    fn forget_path(&mut self, path: u32) {
        if let Some(path) = self.paths.get_mut(path as usize).and_then(Option::take) {
            path.slots().for_each(|slot| self.free_slot(slot));
        }
    }

    /// Opens a channel to a peer, and keeps it open: handshakes are tried until one succeeds, and again whenever the
    /// peer is lost. Called again for the same channel it changes address, socket and hello, and tries at once.
    ///
    /// # Errors
    /// The peer does not exist, or the channel number or the hello is out of bounds.
    pub fn connect(
        &mut self,
        now: Time,
        peer: PeerId,
        channel: ChannelId,
        socket: SocketId,
        address: SocketAddr,
        hello: Vec<u8>,
    ) -> Result<PathId, ConnectError> {
        if hello.len() > HELLO_MAX {
            return Err(ConnectError::HelloTooLong(hello.len()));
        }
        let number = self.path_of(peer, channel)?;
        let endpoint = Endpoint { socket, address };
        if let Some(path) = &mut self.paths[number as usize] {
            path.persistent = true;
            path.configured = Some(endpoint);
            path.endpoint = Some(endpoint);
            path.hello = Some(hello);
        }
        self.refresh(now, PathId(number));
        Ok(PathId(number))
    }

    /// The path of a channel, made if need be. With no other call it accepts what the peer opens.
    fn path_of(&mut self, peer: PeerId, channel: ChannelId) -> Result<u32, ConnectError> {
        let next = self.paths.len() as u32;
        let known = self.peers.get_mut(peer.index()).and_then(Option::as_deref_mut).ok_or(ConnectError::UnknownPeer)?;
        let entry = known.paths.get_mut(channel.index()).ok_or(ConnectError::Channel(channel))?;
        if let Some(path) = *entry {
            return Ok(path);
        }
        *entry = Some(next);
        self.paths.push(Some(Box::new(Path::new(peer, channel, known.config.keepalive))));
        Ok(next)
    }

    /// Changes what this end says on a path from the next handshake on.
    ///
    /// # Errors
    /// The hello's length, if above [`HELLO_MAX`].
    pub fn set_hello(&mut self, path: PathId, hello: Vec<u8>) -> Result<(), ConnectError> {
        if hello.len() > HELLO_MAX {
            return Err(ConnectError::HelloTooLong(hello.len()));
        }
        if let Some(path) = self.path_mut(path) {
            path.hello = Some(hello);
        }
        Ok(())
    }

    /// Tries a path at once: asks an established peer for a sign of life, or begins a handshake. For a link that
    /// came back.
    pub fn refresh(&mut self, now: Time, path: PathId) {
        let Some(mut taken) = self.take(path.0) else { return };
        taken.tries = 0;
        if taken.current.is_some() {
            self.ask(now, &mut taken);
        }
        if taken.current.is_none() || taken.state == State::Down || taken.retry_at.is_some() {
            self.initiate(now, path.0, &mut taken);
        }
        self.put_back(path.0, taken);
    }

    /// Where a path's datagrams go, once that is known.
    pub fn endpoint(&self, path: PathId) -> Option<Endpoint> {
        self.path(path)?.endpoint
    }

    /// Whether [`seal`](Self::seal) has a session to seal with.
    pub fn can_seal(&self, path: PathId) -> bool {
        self.path(path).is_some_and(|path| path.current.is_some())
    }

    /// Seals one packet, `head` then `body`, into the start of `out`, and returns the datagram's length:
    /// [`OVERHEAD`] more than the packet's. Send it to [`endpoint`](Self::endpoint). Of `flags` only
    /// [`FLAG_CHECKSUM_PARTIAL`] is used.
    ///
    /// # Errors
    /// [`SealError`]; nothing is to be sent then.
    pub fn seal(
        &mut self,
        now: Time,
        path: PathId,
        flags: u8,
        head: &[u8],
        body: &[u8],
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let path = self.paths.get_mut(path.index()).and_then(Option::as_deref_mut).ok_or(SealError::UnknownPath)?;
        let slot = path.current.ok_or(SealError::NoSession)?;
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else {
            return Err(SealError::NoSession);
        };
        let len = session.seal(now, flags & FLAG_CHECKSUM_PARTIAL, head, body, out)?;
        path.last_sent = now;
        if path.unanswered_since.is_none() {
            path.unanswered_since = Some(now);
            self.next = self.next.min(now + self.config.probe_after);
        }
        if session.wants_rekey() && !path.rekey_wanted {
            path.rekey_wanted = true;
            self.next = now;
        }
        self.stats.sealed += 1;
        self.stats.sealed_bytes += (len - OVERHEAD) as u64;
        Ok(len)
    }

    /// Takes a datagram that arrived on `socket` from `source`. A packet in it is written to the start of `out`, which
    /// should be no shorter than the datagram; what `out` holds otherwise has no meaning.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        socket: SocketId,
        source: SocketAddr,
        datagram: &[u8],
        out: &mut [u8],
    ) -> Received {
        let from = Endpoint { socket, address: source };
        let result = match decode(datagram) {
            Ok(Message::Data { header, flags, receiver, counter, ciphertext, tag }) => {
                match self.open(now, receiver, header, counter, ciphertext, tag, out) {
                    Ok((slot, newest)) => Ok(self.on_opened(now, slot, newest, from, flags, ciphertext.len())),
                    Err(reason) => Err(reason),
                }
            }
            Ok(Message::Initiation { version, sender, noise }) => {
                self.on_initiation(now, from, datagram, version, sender, noise)
            }
            Ok(Message::Response { receiver, noise }) => self.on_response(now, from, datagram, receiver, noise),
            Ok(Message::CookieReply { receiver, nonce, sealed }) => self.on_cookie(now, receiver, nonce, sealed),
            Ok(Message::VersionReply { version, receiver, .. }) => {
                self.on_version(now, source, datagram, receiver, version)
            }
            Err(error) => Err(DropReason::from(error)),
        };
        result.unwrap_or_else(|reason| {
            self.stats.drop(reason);
            Received::Dropped(reason)
        })
    }

    /// The next control datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next change to know of.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if ever.
    pub fn poll_timeout(&self) -> Option<Time> {
        (self.next < Time::MAX).then_some(self.next)
    }

    /// Does what is due. Cheap when nothing is.
    pub fn handle_timeout(&mut self, now: Time) {
        if now < self.next {
            return;
        }
        self.next = Time::MAX;
        for number in 0..self.paths.len() as u32 {
            if let Some(mut path) = self.take(number) {
                self.service(now, number, &mut path);
                self.put_back(number, path);
            }
        }
    }

    fn path(&self, path: PathId) -> Option<&Path> {
        self.paths.get(path.index())?.as_deref()
    }

    fn path_mut(&mut self, path: PathId) -> Option<&mut Path> {
        self.paths.get_mut(path.index())?.as_deref_mut()
    }

    fn take(&mut self, number: u32) -> Option<Box<Path>> {
        self.paths.get_mut(number as usize)?.take()
    }

    fn put_back(&mut self, number: u32, path: Box<Path>) {
        self.next = self.next.min(self.deadline(&path));
        self.paths[number as usize] = Some(path);
    }

    fn session(&self, slot: u16) -> Option<&Session> {
        match self.slots.get(usize::from(slot)) {
            Some(Slot::Session(session)) => Some(session),
            _ => None,
        }
    }

    /// Reserves a slot and gives it an index that no one can guess.
    fn allocate(&mut self, path: u32) -> Option<(u16, u32)> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.config.sessions => {
                self.slots.push(Slot::Free);
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        let mut random = [0; 2];
        self.entropy.fill(&mut random);
        let index = u32::from(u16::from_be_bytes(random)) << 16 | u32::from(slot);
        self.slots[usize::from(slot)] = Slot::Initiated { index, path };
        Some((slot, index))
    }

    fn free_slot(&mut self, slot: u16) {
        if let Some(entry) = self.slots.get_mut(usize::from(slot)) {
            *entry = Slot::Free;
            self.free.push(slot);
        }
    }

    fn drop_attempts(&mut self, path: &mut Path) {
        for attempt in path.attempts.drain(..) {
            self.free_slot(attempt.slot);
        }
        path.retry_at = None;
        path.tries = 0;
        path.hurried = false;
    }

    fn transmit(&mut self, to: Endpoint, payload: Vec<u8>) {
        if self.transmits.len() >= QUEUE_MAX {
            self.transmits.pop_front();
            self.stats.transmits_lost += 1;
        }
        self.transmits.push_back(Transmit { socket: to.socket, destination: to.address, payload });
    }

    fn event(&mut self, event: Event) {
        if self.events.len() >= QUEUE_MAX {
            self.events.pop_front();
            self.stats.events_lost += 1;
        }
        self.events.push_back(event);
    }

    fn reject(&mut self, now: Time, address: SocketAddr, reason: RejectReason) {
        if self.notices.take(now, NOTICES_PER_SECOND, 4 * NOTICES_PER_SECOND) {
            self.event(Event::Rejected { address, reason });
        }
    }

    // --- data ---

    #[expect(clippy::too_many_arguments, reason = "the fields of one datagram")]
    fn open(
        &mut self,
        now: Time,
        receiver: u32,
        header: &[u8; super::DATA_HEADER_LEN],
        counter: u64,
        ciphertext: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> Result<(u16, bool), DropReason> {
        let slot = receiver as u16;
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else {
            return Err(DropReason::UnknownIndex);
        };
        if session.index != receiver {
            return Err(DropReason::UnknownIndex);
        }
        session.open(now, header, counter, ciphertext, tag, out).map(|newest| (slot, newest)).map_err(|error| {
            match error {
                OpenError::Expired => DropReason::Expired,
                OpenError::BufferTooSmall => DropReason::Oversized,
                OpenError::Authentication => DropReason::Authentication,
                OpenError::Replayed => DropReason::Replayed,
                OpenError::TooOld => DropReason::TooOld,
            }
        })
    }

    /// A packet was authenticated on the session in `slot`.
    fn on_opened(&mut self, now: Time, slot: u16, newest: bool, from: Endpoint, flags: u8, len: usize) -> Received {
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else {
            return Received::Control;
        };
        let first = !std::mem::replace(&mut session.proved, true);
        let number = session.path;
        let Some(path) = self.paths.get_mut(number as usize).and_then(Option::as_deref_mut) else {
            return Received::Control;
        };
        path.unanswered_since = None;
        let moved = newest && path.endpoint != Some(from) && (first || path.inbound == Some(slot));
        if first || moved || path.state == State::Down || flags & FLAG_ASK != 0 {
            self.on_unusual(now, number, slot, first, moved, from, flags);
        }
        if len == 0 {
            self.stats.keepalives += 1;
            return Received::Control;
        }
        // Looked up again, since the unusual may have changed everything but the path's owner.
        let Some(path) = self.paths.get(number as usize).and_then(Option::as_deref) else {
            return Received::Control;
        };
        self.stats.opened += 1;
        self.stats.opened_bytes += len as u64;
        Received::Data(Data {
            path: PathId(number),
            peer: path.peer,
            channel: path.channel,
            flags: flags & FLAG_CHECKSUM_PARTIAL,
            len,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "what is unusual of one datagram")]
    fn on_unusual(&mut self, now: Time, number: u32, slot: u16, first: bool, moved: bool, from: Endpoint, flags: u8) {
        let Some(mut path) = self.take(number) else { return };
        if first {
            path.inbound = Some(slot);
            if path.current == Some(slot) {
                path.proof_wait = None;
            }
        }
        if moved {
            self.roam(number, &mut path, from);
        }
        if path.pending.contains(&slot) {
            path.pending.retain(|&pending| pending != slot);
            self.confirm(now, number, &mut path, slot);
        } else if path.state == State::Down && path.current.is_some() {
            // The link is back before the keys have expired.
            path.tries = 0;
            self.establish(number, &mut path, slot, false);
        }
        if flags & FLAG_ASK != 0 {
            self.send_empty(now, &mut path, slot, 0);
        }
        self.put_back(number, path);
    }

    fn roam(&mut self, number: u32, path: &mut Path, to: Endpoint) {
        match path.endpoint {
            Some(from) if self.config.roaming => {
                path.endpoint = Some(to);
                self.stats.roamed += 1;
                self.event(Event::Roamed { path: PathId(number), from, to });
            }
            Some(_) => {}
            None => path.endpoint = Some(to),
        }
    }

    /// Makes the session in `slot` the one that seals: both ends have it.
    fn confirm(&mut self, now: Time, number: u32, path: &mut Path, slot: u16) {
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else { return };
        let (instance, sequence, role) = (session.instance, session.sequence, session.role);
        let hello = std::mem::take(&mut session.hello);
        self.stats.handshakes += 1;
        let restarted = path.instance.is_some_and(|known| known != instance);
        if path.instance != Some(instance) {
            path.instance = Some(instance);
            path.sequence = 0;
        }
        if role == Role::Responder {
            path.sequence = path.sequence.max(sequence);
        }
        if let Some(old) = path.current.replace(slot) {
            path.older.insert(0, old);
        }
        // What a former process of the peer still has under way is of no use to the present one.
        let kept = if restarted { 0 } else { OLDER_MAX };
        while path.older.len() > kept {
            if let Some(old) = path.older.pop() {
                self.free_slot(old);
            }
        }
        // An initiator that completed one of its tries has given up those before. What the peer was answered while
        // this end's own handshake completed stays: the peer may complete it too.
        if role == Role::Responder {
            for pending in std::mem::take(&mut path.pending) {
                match self.session(pending) {
                    Some(other) if other.instance == instance && other.sequence > sequence => {
                        path.pending.push(pending)
                    }
                    _ => self.free_slot(pending),
                }
            }
        }
        self.drop_attempts(path);
        path.rekey_wanted = false;
        path.proof_wait = None;
        path.asked_at = None;
        path.last_sent = path.last_sent.max(now);
        let news = path.state == State::Down || restarted || path.peer_hello != hello;
        path.peer_hello = hello;
        if news {
            self.establish(number, path, slot, restarted);
        } else {
            self.event(Event::Rekeyed { path: PathId(number) });
        }
    }

    fn establish(&mut self, number: u32, path: &mut Path, slot: u16, restarted: bool) {
        let (Some(session), Some(endpoint), Some(instance)) = (self.session(slot), path.endpoint, path.instance) else {
            return;
        };
        let (role, cipher) = (session.role, session.cipher);
        path.state = State::Up;
        self.event(Event::Established {
            path: PathId(number),
            peer: path.peer,
            channel: path.channel,
            endpoint,
            hello: path.peer_hello.clone(),
            instance,
            restarted,
            role,
            cipher,
        });
    }

    fn lose(&mut self, number: u32, path: &mut Path, reason: LostReason) {
        if path.state == State::Up {
            path.state = State::Down;
            self.event(Event::Lost { path: PathId(number), peer: path.peer, channel: path.channel, reason });
        }
    }

    /// Sends an empty packet on the session in `slot`.
    fn send_empty(&mut self, now: Time, path: &mut Path, slot: u16, flags: u8) {
        let Some(endpoint) = path.endpoint else { return };
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else { return };
        let mut payload = vec![0; OVERHEAD];
        if session.seal(now, flags, &[], &[], &mut payload).is_ok() {
            path.last_sent = now;
            self.transmit(endpoint, payload);
        }
    }

    fn ask(&mut self, now: Time, path: &mut Path) {
        if let Some(slot) = path.current {
            self.send_empty(now, path, slot, FLAG_ASK);
            path.on_asked(now);
        }
    }

    // --- timers ---

    fn deadline(&self, path: &Path) -> Time {
        let config = &self.config;
        let mut next = Time::MAX;
        let mut at = |time: Option<Time>| next = next.min(time.unwrap_or(Time::MAX));
        for session in path.older.iter().filter_map(|&slot| self.session(slot)) {
            at(Some(session.reject_at));
        }
        for session in path.pending.iter().filter_map(|&slot| self.session(slot)) {
            at(Some(session.created + config.confirm_within));
        }
        if let Some(session) = path.current.and_then(|slot| self.session(slot)) {
            at(Some(session.reject_at));
            if path.retry_at.is_none() && path.may_try() {
                at(Some(if path.rekey_wanted { Time::ZERO } else { session.rekey_at }));
            }
        }
        at(path.retry_at);
        at(path.ask_at(config));
        at(path.silent_at(config));
        at(path.lost_at(config));
        at(path.keepalive_at());
        next
    }

    fn service(&mut self, now: Time, number: u32, path: &mut Path) {
        self.expire(now, number, path);
        let due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if due(path.lost_at(&self.config)) {
            self.lose(number, path, LostReason::Silent);
        }
        let rekey = path
            .current
            .and_then(|slot| self.session(slot))
            .is_some_and(|session| path.rekey_wanted || session.rekey_at <= now);
        if due(path.retry_at) {
            if path.may_try() {
                self.initiate(now, number, path);
            } else {
                // Rests until the peer speaks, or until the driver asks.
                let tries = path.tries;
                self.drop_attempts(path);
                path.tries = tries;
            }
        } else if path.retry_at.is_none() && path.may_try() && (rekey || due(path.silent_at(&self.config))) {
            self.initiate(now, number, path);
        }
        if due(path.ask_at(&self.config)) {
            self.ask(now, path);
        }
        if due(path.keepalive_at()) {
            if let Some(slot) = path.current {
                self.send_empty(now, path, slot, 0);
            }
            path.last_sent = now;
        }
    }

    /// Forgets what is past its time.
    fn expire(&mut self, now: Time, number: u32, path: &mut Path) {
        let expired =
            |sessions: &Sessions, slot: u16| sessions.session(slot).is_none_or(|session| session.reject_at <= now);
        for slot in std::mem::take(&mut path.older) {
            if expired(self, slot) {
                self.free_slot(slot);
            } else {
                path.older.push(slot);
            }
        }
        for slot in std::mem::take(&mut path.pending) {
            if self.session(slot).is_none_or(|session| session.created + self.config.confirm_within <= now) {
                self.free_slot(slot);
                self.stats.unconfirmed += 1;
            } else {
                path.pending.push(slot);
            }
        }
        if let Some(slot) = path.current.filter(|&slot| expired(self, slot)) {
            self.free_slot(slot);
            path.current = None;
            path.unanswered_since = None;
            path.rekey_wanted = false;
            path.proof_wait = None;
            self.lose(number, path, LostReason::Expired);
            if path.persistent && path.retry_at.is_none() {
                path.retry_at = Some(now);
            }
        }
    }
}
