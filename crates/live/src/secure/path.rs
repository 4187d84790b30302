//! One path's state and its deadlines. [`sessions`](super::sessions) acts on them.

use super::cookie::{Cookie, Mac};
use super::noise::Initiator;
use super::{Config, Endpoint, PeerId, RejectReason, SocketId};
use crate::icmp::Unreachable;
use fairspan_core::units::{ChannelId, Span, Time};
use std::net::IpAddr;
use std::sync::Arc;

/// Sessions that still open packets after a newer one took over.
pub(super) const OLDER_MAX: usize = 3;
/// Answered handshakes that wait for their initiator's proof.
pub(super) const PENDING_MAX: usize = 4;
/// Own initiations of which any may still be answered: longer round trips than the first retry are common.
pub(super) const ATTEMPTS_MAX: usize = 3;
/// Tries after which a path that [`connect`](super::Sessions::connect) did not ask for rests.
const TRIES_MAX: u32 = 12;
/// First wait for the proof that the responder has a new session; doubles.
const FIRST_PROOF: Span = Span::from_millis(100);

/// Whether the driver was told that the path carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Never yet, or lost.
    Down,
    /// Yes.
    Up,
}

/// An initiation that may still be answered.
pub(super) struct Attempt {
    pub(super) slot: u16,
    pub(super) initiator: Arc<Initiator>,
    pub(super) mac1: Mac,
}

pub(super) struct Path {
    pub(super) peer: PeerId,
    pub(super) channel: ChannelId,
    /// Whether the driver asked for it: handshakes are retried for ever.
    pub(super) persistent: bool,
    /// What the driver asked for.
    pub(super) configured: Option<Endpoint>,
    /// Where the peer was heard last.
    pub(super) endpoint: Option<Endpoint>,
    /// Our address to which the peer's newest packet came, if the driver tells.
    pub(super) local: Option<IpAddr>,
    /// The driver leads it from one socket to another, and by which else something came.
    pub(super) pinned: bool,
    pub(super) elsewhere: Option<SocketId>,
    /// What this end says in handshakes; `None`: what the peer's configuration says.
    pub(super) hello: Option<Vec<u8>>,
    /// The peer still has to be told that.
    pub(super) untold: bool,
    /// It leads elsewhere since a short while: what the peer still sends the former way leads it back no more before this.
    pub(super) stays_until: Time,
    pub(super) keepalive: Option<Span>,
    pub(super) state: State,

    /// The slot of the session that seals.
    pub(super) current: Option<u16>,
    /// Slots of sessions that only open, newest first.
    pub(super) older: Vec<u16>,
    /// Slots of sessions that await their initiator's proof, by growing stamps.
    pub(super) pending: Vec<u16>,
    /// The slot of the session that the peer took up last: what is newest on it says where the peer is.
    pub(super) inbound: Option<u16>,

    pub(super) attempts: Vec<Attempt>,
    /// When the handshake in progress is tried again.
    pub(super) retry_at: Option<Time>,
    pub(super) tries: u32,
    /// Why the peer, or this end, refused the last handshake that came to anything.
    pub(super) refusal: Option<RejectReason>,
    /// What the network told last of a call, and after how many tries.
    pub(super) unreachable: Option<(Unreachable, u32)>,
    /// The kinds of that which people were told of since the path was last connected.
    pub(super) unreachable_told: u8,
    pub(super) cookie: Option<Cookie>,
    /// Whether a cookie already made this handshake try again at once, and whether a timestamp to exceed did.
    pub(super) hurried: bool,
    pub(super) told: bool,
    /// The limits of the current session ask for a new one.
    pub(super) rekey_wanted: bool,

    /// The peer's process, and what it said.
    pub(super) instance: Option<u64>,
    pub(super) peer_hello: Vec<u8>,

    pub(super) last_sent: Time,
    /// When the peer last proved that it is there.
    pub(super) last_received: Time,
    /// When the first packet was sent after the last that was received.
    pub(super) unanswered_since: Option<Time>,
    pub(super) asked_at: Option<Time>,
    /// Since when the driver's questions by the way in use are not answered.
    pub(super) question: Option<Time>,
    /// Next wait for the proof that the peer has the current session; `None` once it is there.
    pub(super) proof_wait: Option<Span>,
}

impl Path {
    pub(super) fn new(peer: PeerId, channel: ChannelId, keepalive: Option<Span>) -> Path {
        Path {
            peer,
            channel,
            persistent: false,
            configured: None,
            endpoint: None,
            local: None,
            pinned: false,
            elsewhere: None,
            hello: None,
            untold: false,
            stays_until: Time::ZERO,
            keepalive,
            state: State::Down,
            current: None,
            older: Vec::with_capacity(OLDER_MAX + 1),
            pending: Vec::with_capacity(PENDING_MAX + 1),
            inbound: None,
            attempts: Vec::new(),
            retry_at: None,
            tries: 0,
            refusal: None,
            unreachable: None,
            unreachable_told: 0,
            cookie: None,
            hurried: false,
            told: false,
            rekey_wanted: false,
            instance: None,
            peer_hello: Vec::new(),
            last_sent: Time::ZERO,
            last_received: Time::ZERO,
            unanswered_since: None,
            asked_at: None,
            question: None,
            proof_wait: None,
        }
    }

    /// Whether the driver leads the path by another socket than something came by, which is noted then.
    pub(super) fn is_led_elsewhere(&mut self, from: Endpoint) -> bool {
        let elsewhere = self.pinned && self.endpoint.is_some_and(|endpoint| endpoint.socket != from.socket);
        if elsewhere {
            self.elsewhere = Some(from.socket);
        }
        elsewhere
    }

    /// Our address to send from where the peer is: the one that it calls, since a firewall or a translator of addresses before it lets in
    /// nothing from another. An end that calls leaves that to the kernel, which follows its routes.
    pub(super) fn source(&self, to: Endpoint) -> Option<IpAddr> {
        self.local.filter(|_| !self.persistent && self.endpoint == Some(to))
    }

    /// Every slot that the path holds.
    pub(super) fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        let attempts = self.attempts.iter().map(|attempt| attempt.slot);
        self.current.into_iter().chain(self.older.iter().copied()).chain(self.pending.iter().copied()).chain(attempts)
    }

    /// Where the next initiation goes: where the peer was last, and every other time where it was configured to be.
    pub(super) fn target(&self) -> Option<Endpoint> {
        let (first, second) = if self.tries.is_multiple_of(2) {
            (self.endpoint, self.configured)
        } else {
            (self.configured, self.endpoint)
        };
        first.or(second)
    }

    /// Whether handshakes that nobody answers go on.
    pub(super) fn may_try(&self) -> bool {
        self.target().is_some() && (self.persistent || self.tries < TRIES_MAX)
    }

    /// When the peer is to be asked for a sign of life.
    pub(super) fn ask_at(&self, config: &Config) -> Option<Time> {
        self.current?;
        if let (Some(wait), Some(asked)) = (self.proof_wait, self.asked_at) {
            return Some(asked + wait.min(config.probe_after));
        }
        let since = self.unanswered_since?;
        Some(self.asked_at.map_or(since, |asked| asked.max(since)) + config.probe_after)
    }

    /// This process did not run for so long: nobody was silent meanwhile.
    pub(super) fn on_late(&mut self, late: Span) {
        for at in [&mut self.unanswered_since, &mut self.asked_at].into_iter().flatten() {
            *at += late;
        }
    }

    /// Notes that the peer was asked for a sign of life.
    pub(super) fn on_asked(&mut self, now: Time) {
        self.asked_at = Some(now);
        self.unanswered_since.get_or_insert(now);
        self.proof_wait = self.proof_wait.map(|wait| wait.times(2));
    }

    /// Notes that this end began a session whose other end must still prove that it has it.
    pub(super) fn on_proof_wanted(&mut self) {
        self.proof_wait = Some(FIRST_PROOF);
    }

    /// When a handshake begins for want of any sign of life.
    pub(super) fn silent_at(&self, config: &Config) -> Option<Time> {
        if self.retry_at.is_some() || !self.may_try() {
            return None;
        }
        Some(self.unanswered_since? + config.silence_after)
    }

    /// When the path is reported lost.
    pub(super) fn lost_at(&self, config: &Config) -> Option<Time> {
        (self.state == State::Up).then(|| self.unanswered_since.map(|since| since + config.lost_after))?
    }

    /// When an empty packet keeps the path's NAT binding alive.
    pub(super) fn keepalive_at(&self) -> Option<Time> {
        self.current?;
        Some(self.last_sent + self.keepalive?)
    }
}
