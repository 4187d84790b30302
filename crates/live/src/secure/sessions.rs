//! Peers, paths and timers: which session seals, which open, and when a handshake is due.
//!
//! Source: WireGuard (Donenfeld, NDSS 2017), section 6, with these departures:
//!
//! - The greatest timestamp is remembered for each path, so that what one link delays is not taken for a replay by what
//!   another has brought. An initiation that is not above it gets no answer. So a recorded one never is answered while the
//!   memory is there; without memory it is answered once at most, and never after the genuine peer was. An answered session
//!   counts once its first packet proves that the initiator has the keys; up to four of them wait beside the established
//!   one, which loses nothing to them, and only a newer one takes the place of the oldest.
//! - A peer whose timestamps are behind, and of which nothing else came for a while, is told so now and then: it may have lost
//!   its memory. What it is told is sealed to it under the static keys of both.
//! - An initiation also carries its process's random *instance*: another one is a restarted peer.
//! - The initiator asks for the responder's proof of the new session (flag *ask*, answered by an empty packet), first
//!   after 100 ms, so that a lost first packet does not leave the responder without the session.
//! - Both ends may begin at once. Both handshakes may complete; each end seals with the last one that was confirmed
//!   and opens with all of them, so it does not matter which that is, and the next rekeying leaves one.
//! - Retries begin at 0.5 s instead of 5 s, and silence is noticed after 3 s instead of 15 s: a bond fails over.
//!
//! Cost per packet: one index into a table, the AEAD, the replay window. Deadlines are kept as one lower bound, and
//! the paths are gone through only when that has passed.

mod detour;
mod handshakes;
mod news;
mod opening;
mod roster;
mod timers;

use super::aead::Capabilities;
use super::behind::BehindKey;
use super::cookie::{self, Admission, Bucket, Cookie, Gate, MacKeys};
use super::noise::{Initiator, Responder, Split};
use super::path::{ATTEMPTS_MAX, Attempt, OLDER_MAX, PENDING_MAX, Path, State};
use super::session::{Limits, Made, OpenError, Opened, Session};
use super::stamp::{Memory, Past, Stamps};
use super::waiting::Waiting;
use super::wire::{
    FLAG_ASK, INITIATION, InitiationPayload, Message, OVERHEAD, ResponsePayload, VERSION, decode, handshake_header,
    padding,
};
use super::work::{self, Answer, Answering, Arrived, Outcome};
use super::{
    Cipher, Config, ConfigError, Data, Done, DropReason, Endpoint, Entropy, Event, FLAG_CHECKSUM_PARTIAL, HELLO_MAX,
    LostReason, PathId, PeerConfig, PeerId, PrivateKey, PublicKey, Received, RejectReason, Role, SealError, SocketId,
    Stats, Transmit, Trouble, Work, has_aes_hardware,
};
use crate::icmp::Unreachable;
use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Span, Time};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use thiserror::Error;

/// Most control datagrams and events that wait to be fetched.
const QUEUE_MAX: usize = 1024;
/// Low halves of indices.
const INDICES: usize = 1 << 16;
/// Most former processes of a peer that are remembered.
const FORMER_MAX: usize = 4;
/// Timers that run out so much too late tell that this process did not run.
const LATE: Span = Span::from_millis(500);
/// Rejections reported to people: this many a second, in bursts of twenty.
const NOTICES_PER_SECOND: u32 = 5;
/// How often people are told that somebody calls with another public key than this end's.
const OTHER_KEY_WAIT: Span = Span::from_secs(60);
/// What the network told of a call is forgotten when it tells nothing of so many that follow.
const UNREACHABLE_TRIES: u32 = 2;
/// A peer that is silent otherwise for this long is told that its timestamps are behind, and as often again.
const BEHIND_EVERY: Span = Span::from_secs(10);

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
    behind: BehindKey,
    /// When the peer may be told so next.
    tell_at: Time,
    paths: Vec<Option<u32>>,
    /// The greatest timestamp of the peer's initiations: on any path by former processes of this end, and on each since.
    remembered: u64,
    heard: Vec<u64>,
    /// The peer says that it has heard this timestamp of ours.
    floor: u64,
    /// Its present process.
    instance: Option<u64>,
    /// Those before, and until when keys of theirs may be left.
    former: VecDeque<(u64, Time)>,
}

impl Peer {
    /// Whether `instance` is a process of the peer that has ended, as far as one knows.
    fn has_left(&self, now: Time, instance: u64) -> bool {
        self.instance != Some(instance) && self.former.iter().any(|(former, until)| *former == instance && now < *until)
    }

    /// The peer proved to be the process `instance`; keys of the one before are left until `until` at most.
    fn came_as(&mut self, instance: u64, until: Time) {
        if let Some(before) = self.instance.replace(instance).filter(|before| *before != instance) {
            self.former.retain(|(former, _)| *former != instance);
            self.former.truncate(FORMER_MAX - 1);
            self.former.push_front((before, until));
        }
    }

    /// The greatest timestamp ever heard.
    fn greatest(&self) -> u64 {
        self.heard.iter().copied().fold(self.remembered, u64::max)
    }
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
    stamps: Stamps,
    /// The greatest timestamps of peers that are not configured.
    remembered: BTreeMap<PublicKey, u64>,
    started: Time,
    entropy: Box<dyn Entropy>,
    jitter: Rng,
    gate: Gate,
    /// Whether steps of handshakes are computed elsewhere.
    offloaded: bool,
    waiting: Waiting<work::Message>,
    /// Second steps, of authentic initiations that are new.
    answers: VecDeque<Work>,
    /// Where established peers are, unless a path has changed since.
    established: HashSet<SocketAddr>,
    moved: bool,
    peers: Vec<Option<Box<Peer>>>,
    by_key: HashMap<PublicKey, u32>,
    paths: Vec<Option<Box<Path>>>,
    /// Numbers of paths that were removed.
    free_paths: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// By the low half of an index: the slot that had it last.
    by_index: Box<[u16]>,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    notices: Bucket,
    /// When it may be told again that somebody calls with another public key.
    other_key_next: Time,
    /// No deadline is earlier.
    next: Time,
    /// When timers were last served.
    served: Time,
    stats: Stats,
}

impl Sessions {
    /// No peers yet. `entropy` is the one source of randomness; it also gives this process its instance number. `past` is what
    /// former processes with this key have left.
    ///
    /// # Errors
    /// A setting that cannot work.
    pub fn new(
        config: Config,
        private: PrivateKey,
        mut entropy: Box<dyn Entropy>,
        past: Past,
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
            stamps: Stamps::new(&past, now),
            remembered: past.memory.heard,
            started: now,
            entropy,
            jitter: Rng::new(seed),
            gate,
            offloaded: false,
            waiting: Waiting::new(),
            answers: VecDeque::new(),
            established: HashSet::new(),
            moved: false,
            peers: Vec::new(),
            by_key: HashMap::new(),
            paths: Vec::new(),
            free_paths: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            by_index: vec![0; INDICES].into_boxed_slice(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            notices: Bucket::FULL,
            other_key_next: now,
            next: Time::MAX,
            served: Time::ZERO,
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

    /// Tries a path at once: asks an established peer for a sign of life, or begins a handshake. For a link that
    /// came back.
    pub fn refresh(&mut self, now: Time, path: PathId) {
        let Some(mut taken) = self.take(path.0) else { return };
        (taken.tries, taken.unreachable) = (0, None);
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

    /// Our address that a path's datagrams leave from, where the peer calls and the driver told which one it calls.
    pub fn source(&self, path: PathId) -> Option<IpAddr> {
        let path = self.path(path)?;
        path.source(path.endpoint?)
    }

    /// Why a path does not connect, as far as this end knows; `None` also while its first call may yet be answered.
    pub fn trouble(&self, path: PathId) -> Option<Trouble> {
        let path = self.path(path)?;
        let told = path.unreachable.filter(|(_, tries)| path.tries.saturating_sub(*tries) <= UNREACHABLE_TRIES);
        let silent = || (path.tries > 1).then_some(Trouble::NoAnswer { calls: path.tries });
        let unreachable = || told.map(|(why, _)| Trouble::Unreachable(why));
        path.refusal.map(Trouble::Refused).or_else(unreachable).or_else(silent)
    }

    /// Follows what the network tells of the calls of paths that are not connected: `heard` gives it by where a call went. It
    /// changes nothing but what people read. Gives what they have not read of a path since it was last connected.
    pub fn follow_calls(
        &mut self,
        mut heard: impl FnMut(Endpoint) -> Option<Unreachable>,
    ) -> Vec<(SocketAddr, Unreachable)> {
        let mut news = Vec::new();
        let calling = |path: &&mut Box<Path>| path.persistent && path.state == State::Down;
        for path in self.paths.iter_mut().flatten().filter(calling) {
            let roamed = path.endpoint.filter(|endpoint| Some(*endpoint) != path.configured);
            for endpoint in [roamed, path.configured].into_iter().flatten() {
                let Some(why) = heard(endpoint) else { continue };
                path.unreachable = Some((why, path.tries));
                if path.unreachable_told & why.bit() == 0 {
                    path.unreachable_told |= why.bit();
                    news.push((endpoint.address, why));
                }
            }
        }
        news
    }

    /// Whether [`seal`](Self::seal) has a session to seal with.
    pub fn can_seal(&self, path: PathId) -> bool {
        self.path(path).is_some_and(|path| path.current.is_some())
    }

    /// How long the datagram is that carries a packet of `len` bytes: [`OVERHEAD`] more, and padding where
    /// lengths are hidden.
    pub fn sealed_len(&self, len: usize) -> usize {
        len + self.padding(len) + OVERHEAD
    }

    fn padding(&self, len: usize) -> usize {
        if self.config.padding { padding(len) } else { 0 }
    }

    /// Seals one packet, `head` then `body`, into the start of `out`, and returns the datagram's length, which is
    /// [`sealed_len`](Self::sealed_len) of the packet's. Send it to [`endpoint`](Self::endpoint). Of `flags` only
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
        let inner = head.len() + body.len();
        let padding = self.padding(inner);
        let path = self.paths.get_mut(path.index()).and_then(Option::as_deref_mut).ok_or(SealError::UnknownPath)?;
        let slot = path.current.ok_or(SealError::NoSession)?;
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else {
            return Err(SealError::NoSession);
        };
        let len = session.seal(now, flags & FLAG_CHECKSUM_PARTIAL, padding, (head, body), out)?;
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
        self.stats.sealed_bytes += inner as u64;
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
        self.handle_datagram_to(now, socket, (source, None), datagram, out)
    }

    /// As [`handle_datagram`](Self::handle_datagram), of a datagram to the second of the `addresses`, which is ours. An answer
    /// leaves from there.
    pub fn handle_datagram_to(
        &mut self,
        now: Time,
        socket: SocketId,
        (source, local): (SocketAddr, Option<IpAddr>),
        datagram: &[u8],
        out: &mut [u8],
    ) -> Received {
        let from = Endpoint { socket, address: source };
        let result = match decode(datagram) {
            Ok(Message::Data { header, receiver, counter, ciphertext, tag }) => {
                match self.open(now, receiver, header, counter, ciphertext, tag, out) {
                    Ok((slot, opened)) => self.on_opened(now, slot, opened, (from, local)),
                    Err(reason) => Err(reason),
                }
            }
            Ok(Message::Initiation { version, sender, noise }) => {
                self.on_initiation(now, (from, local), datagram, version, sender, noise)
            }
            Ok(Message::Response { receiver, noise }) => self.on_response(now, from, datagram, receiver, noise),
            Ok(Message::CookieReply { receiver, nonce, sealed }) => self.on_cookie(now, receiver, nonce, sealed),
            Ok(Message::Behind { receiver, nonce, sealed }) => self.on_behind(now, receiver, nonce, sealed),
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

    /// From now on the steps of handshakes are computed by the driver: it takes them from [`poll_work`](Self::poll_work),
    /// and gives back what came of them by [`handle_done`](Self::handle_done).
    pub fn offload(&mut self) {
        self.offloaded = true;
    }

    /// The next step of a handshake to compute.
    pub fn poll_work(&mut self) -> Option<Work> {
        self.answers.pop_front().or_else(|| self.waiting.pop().map(|message| Work::begin(&self.private, message)))
    }

    /// The next step that a peer waits for: one of whom is known, or of what came from where an established one is.
    pub(crate) fn poll_work_of_peers(&mut self) -> Option<Work> {
        let next = self.answers.pop_front();
        next.or_else(|| self.waiting.pop_of(true).map(|message| Work::begin(&self.private, message)))
    }

    /// The next step of who may be anybody.
    pub(crate) fn poll_work_of_others(&mut self) -> Option<Work> {
        self.waiting.pop_of(false).map(|message| Work::begin(&self.private, message))
    }

    /// Takes what came of a step; look at the polls then.
    pub fn handle_done(&mut self, now: Time, done: Done) {
        match self.on_done(now, done) {
            Ok(next) => self.answers.extend(next),
            Err(reason) => self.stats.drop(reason),
        }
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
        let due = std::mem::replace(&mut self.next, Time::MAX).max(self.served);
        let late = now.since(due);
        self.served = now;
        for number in 0..self.paths.len() as u32 {
            if let Some(mut path) = self.take(number) {
                if late >= LATE {
                    path.on_late(late);
                }
                self.service(now, number, &mut path);
                self.put_back(number, path);
            }
        }
    }

    /// What is to be kept now for later processes, if it is time. Once it is kept, [`on_kept`](Self::on_kept) is to be
    /// called.
    pub fn poll_memory(&mut self, now: Time) -> Option<Memory> {
        let used = self.stamps.due(now)?;
        self.stamps.on_asked(now);
        Some(Memory { used, heard: self.heard() })
    }

    /// What [`poll_memory`](Self::poll_memory) gave has been kept.
    pub fn on_kept(&mut self, memory: &Memory) {
        self.stamps.on_kept(memory.used);
    }

    /// What later processes must know if this one ends now.
    pub fn memory(&self) -> Memory {
        Memory { used: self.stamps.last(), heard: self.heard() }
    }

    fn heard(&self) -> BTreeMap<PublicKey, u64> {
        let peers = self.peers.iter().flatten().map(|peer| (peer.config.public_key, peer.greatest()));
        self.remembered.iter().map(|(key, stamp)| (*key, *stamp)).chain(peers).filter(|(_, stamp)| *stamp > 0).collect()
    }

    fn path(&self, path: PathId) -> Option<&Path> {
        self.paths.get(path.index())?.as_deref()
    }

    fn take(&mut self, number: u32) -> Option<Box<Path>> {
        self.paths.get_mut(number as usize)?.take()
    }

    fn put_back(&mut self, number: u32, path: Box<Path>) {
        self.moved = true;
        self.next = self.next.min(self.deadline(&path));
        self.paths[number as usize] = Some(path);
    }

    fn session(&self, slot: u16) -> Option<&Session> {
        match self.slots.get(usize::from(slot)) {
            Some(Slot::Session(session)) => Some(session),
            _ => None,
        }
    }

    /// Reserves a slot and gives it an index that no one can guess, and whose low half no other slot has.
    fn allocate(&mut self, path: u32) -> Option<(u16, u32)> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.config.sessions => {
                self.slots.push(Slot::Free);
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        let mut random = [0; 4];
        self.entropy.fill(&mut random);
        let drawn = u32::from_be_bytes(random);
        // There are no more slots than low halves, and this one has none yet.
        let low = (0..=u16::MAX).map(|n| (drawn as u16).wrapping_add(n)).find(|low| !self.names(*low))?;
        let index = drawn & 0xffff_0000 | u32::from(low);
        self.by_index[usize::from(low)] = slot;
        self.slots[usize::from(slot)] = Slot::Initiated { index, path };
        Some((slot, index))
    }

    /// The slot that an index names, if it names one.
    fn slot_of(&self, index: u32) -> u16 {
        self.by_index[usize::from(index as u16)]
    }

    /// Whether a slot in use has an index with this low half.
    fn names(&self, low: u16) -> bool {
        let slot = self.by_index[usize::from(low)];
        match self.slots.get(usize::from(slot)) {
            Some(Slot::Initiated { index, .. }) => *index as u16 == low,
            Some(Slot::Session(session)) => session.index as u16 == low,
            Some(Slot::Free) | None => false,
        }
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
        (path.hurried, path.told) = (false, false);
    }

    fn transmit_from(&mut self, source: Option<IpAddr>, to: Endpoint, payload: Vec<u8>) {
        if self.transmits.len() >= QUEUE_MAX {
            self.transmits.pop_front();
            self.stats.transmits_lost += 1;
        }
        let (socket, destination) = (to.socket, to.address);
        self.transmits.push_back(Transmit { socket, destination, source, payload });
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
}
