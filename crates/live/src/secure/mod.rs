//! The secure session layer of the UDP channel: who the peer is, and that what it sent is what arrives.
//!
//! Sans-IO: [`Sessions`] takes datagrams and the time, and gives datagrams, events and the next deadline. It reads no
//! clock, so steps of the wall clock mean nothing to it, and draws randomness only from the [`Entropy`] handed in. What it
//! must know of former processes is its [`Past`], and what later ones must know is a [`Memory`] that the driver keeps.
//!
//! | file | idea |
//! |---|---|
//! | `keys` | long-lived keys as WireGuard writes them |
//! | `wire` | the datagrams, byte for byte; [`decode`] is also the fuzz target |
//! | `noise` | the handshake |
//! | `cookie` | mac1, cookies, and when they are asked for |
//! | `waiting`, `work` | handshakes that wait to be computed, and what is computed of them |
//! | `stamp`, `behind` | the timestamps by which a recorded handshake is known; how a peer learns that its own are behind |
//! | `aead`, `replay`, `session` | one session: cipher, window, counters, limits |
//! | `sessions` | peers, paths, timers: the state machine |
//! | `joining` | how an invited site makes its key known |
//!
//! A *path* is one channel of one peer: a local socket and a remote address. Each path has sessions of its own, so
//! that one path's failure or roaming touches no other.
//!
//! ```
//! use fairspan_core::units::{ChannelId, Time};
//! use fairspan_live::secure::*;
//!
//! let mut entropy = OsEntropy::new();
//! let (a, b) = (PrivateKey::generate(&mut entropy), PrivateKey::generate(&mut entropy));
//! let (at_a, at_b) = ("192.0.2.1:1000".parse().unwrap(), "192.0.2.2:1000".parse().unwrap());
//! let now = Time::ZERO;
//! let past = Past::forgotten(1_700_000_000_000_000_000); // Nanoseconds since 1970.
//! let mut left = Sessions::new(Config::default(), a.clone(), Box::new(OsEntropy::new()), past.clone(), now).unwrap();
//! let mut right = Sessions::new(Config::default(), b.clone(), Box::new(OsEntropy::new()), past, now).unwrap();
//! let peer = left.add_peer(PeerConfig::new(b.public_key())).unwrap();
//! right.add_peer(PeerConfig::new(a.public_key())).unwrap();
//! let path = left.connect(now, peer, ChannelId(0), SocketId(0), at_b, Vec::new()).unwrap();
//! let mut buffer = [0; 2048];
//! // Message 1, message 2, and the first packet, which proves to the responder that the initiator has the keys.
//! for _ in 0..2 {
//!     while let Some(sent) = left.poll_transmit() {
//!         right.handle_datagram(now, SocketId(0), at_a, &sent.payload, &mut buffer);
//!     }
//!     while let Some(sent) = right.poll_transmit() {
//!         left.handle_datagram(now, SocketId(0), at_b, &sent.payload, &mut buffer);
//!     }
//! }
//! assert!(matches!(left.poll_event(), Some(Event::Established { .. })));
//! assert!(matches!(right.poll_event(), Some(Event::Established { .. })));
//!
//! let mut datagram = [0; 2048];
//! let len = left.seal(now, path, 0, b"head", b" and body", &mut datagram).unwrap();
//! let received = right.handle_datagram(now, SocketId(0), at_a, &datagram[..len], &mut buffer);
//! let Received::Data(data) = received else { panic!("{received:?}") };
//! assert_eq!(&buffer[..data.len], b"head and body");
//! ```

mod aead;
mod behind;
mod cookie;
mod entropy;
pub mod joining;
pub mod keys;
mod noise;
#[cfg(test)]
pub(crate) mod pair;
mod path;
mod replay;
mod session;
mod sessions;
mod stamp;
mod stats;
mod waiting;
mod wire;
mod work;

pub use aead::{Cipher, CipherChoice, TAG_LEN, has_aes_hardware};
pub use entropy::{Entropy, OsEntropy, SeededEntropy, random_seed};
pub use keys::{KEY_LEN, KeyError, PresharedKey, PrivateKey, PublicKey};
pub use replay::{Replay, Verdict, WINDOW};
pub use session::{Role, SealError};
pub use sessions::{AddPeerError, ConnectError, Sessions};
pub use stamp::{Memory, Past};
pub use stats::{DropReason, Stats};
pub use wire::{
    COUNTERS, DATA_HEADER_LEN, DecodeError, FLAG_CHECKSUM_PARTIAL, HELLO_MAX, Message, OVERHEAD, VERSION, decode,
    overhead,
};
pub use work::{Done, Work};

use crate::icmp::Unreachable;
use fairspan_core::units::{ChannelId, Span};
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// The settings of all sessions of one daemon. Fields not named keep their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Which cipher to use. Default: what both ends do fastest.
    pub cipher: CipherChoice,
    /// Whether packets are padded to hide their lengths (default off). Padded ones are always taken.
    pub padding: bool,
    /// Whether a path follows its peer to a new address (default), or keeps the one it first had.
    pub roaming: bool,
    /// New keys are agreed after this time (the responder of the last handshake waits an eighth longer). Default 120 s.
    pub rekey_after: Span,
    /// New keys are agreed after this many packets sent. Default 2^26.
    pub rekey_after_packets: u64,
    /// New keys are agreed after this many bytes sent. Default 2^36.
    pub rekey_after_bytes: u64,
    /// Keys older than this are refused and forgotten. Default 180 s; at least 5/4 of `rekey_after`.
    pub reject_after: Span,
    /// No key seals or opens more packets than this. Default 2^28; at most 2^31, which is what the header of data has room for.
    pub reject_after_packets: u64,
    /// No key seals more bytes than this. Default 2^38.
    pub reject_after_bytes: u64,
    /// First wait for an answer to a handshake; doubles, plus or minus a fifth. Default 0.5 s.
    pub handshake_retry: Span,
    /// Longest wait for an answer to a handshake. Default 5 s.
    pub handshake_retry_max: Span,
    /// An answered handshake that its initiator does not confirm in this time is forgotten. Default 10 s.
    pub confirm_within: Span,
    /// A peer from which nothing came for this long since something was sent is asked for a sign of life. Default 1 s.
    pub probe_after: Span,
    /// A peer that gave no sign of life for this long is offered a new handshake (it may have restarted). Default 3 s.
    pub silence_after: Span,
    /// A peer that gave no sign of life for this long is reported lost. Default 10 s.
    pub lost_after: Span,
    /// Handshakes answered each second without asking for proof of address. Default 100.
    pub handshakes_per_second: u32,
    /// Channels that one peer may open. Default 64, which is also the most.
    pub channels_per_peer: u8,
    /// Sessions kept in all, handshakes in progress included. Default and most 65536 (up to 8 a path).
    pub sessions: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            cipher: CipherChoice::Auto,
            padding: false,
            roaming: true,
            rekey_after: Span::from_secs(120),
            rekey_after_packets: 1 << 26,
            rekey_after_bytes: 1 << 36,
            reject_after: Span::from_secs(180),
            reject_after_packets: 1 << 28,
            reject_after_bytes: 1 << 38,
            handshake_retry: Span::from_millis(500),
            handshake_retry_max: Span::from_secs(5),
            confirm_within: Span::from_secs(10),
            probe_after: Span::from_secs(1),
            silence_after: Span::from_secs(3),
            lost_after: Span::from_secs(10),
            handshakes_per_second: 100,
            channels_per_peer: ChannelId::LIMIT as u8,
            sessions: 1 << 16,
        }
    }
}

/// A setting that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{setting}: must be {right}")]
pub struct ConfigError {
    /// The setting's name.
    pub setting: &'static str,
    /// What would be right.
    pub right: &'static str,
}

impl Config {
    /// Checks that the settings fit each other.
    ///
    /// # Errors
    /// The first setting that does not, and what would be right.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let second = Span::from_secs(1);
        let rules = [
            (self.rekey_after >= second, "rekey_after", "at least 1 s"),
            (
                self.reject_after.times(4) >= self.rekey_after.times(5),
                "reject_after",
                "at least 5/4 of rekey_after, so that a new session can be agreed in time",
            ),
            (self.rekey_after_packets >= 1, "rekey_after_packets", "at least 1"),
            (self.rekey_after_bytes >= 1, "rekey_after_bytes", "at least 1"),
            (self.reject_after_packets > self.rekey_after_packets, "reject_after_packets", "above rekey_after_packets"),
            (self.reject_after_packets <= COUNTERS, "reject_after_packets", "at most 2^31"),
            (self.reject_after_bytes > self.rekey_after_bytes, "reject_after_bytes", "above rekey_after_bytes"),
            (self.handshake_retry >= Span::from_millis(10), "handshake_retry", "at least 10 ms"),
            (self.handshake_retry_max >= self.handshake_retry, "handshake_retry_max", "at least handshake_retry"),
            (self.confirm_within >= self.handshake_retry, "confirm_within", "at least handshake_retry"),
            (self.probe_after >= Span::from_millis(10), "probe_after", "at least 10 ms"),
            (self.silence_after > self.probe_after, "silence_after", "above probe_after"),
            (self.lost_after > self.silence_after, "lost_after", "above silence_after"),
            (self.handshakes_per_second >= 1, "handshakes_per_second", "at least 1"),
            ((1..=ChannelId::LIMIT).contains(&usize::from(self.channels_per_peer)), "channels_per_peer", "1 to 64"),
            ((1..=1 << 16).contains(&self.sessions), "sessions", "1 to 65536"),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, setting, right)) => Err(ConfigError { setting, right }),
            None => Ok(()),
        }
    }
}

/// One of the driver's sockets, by a number that the driver chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// A peer, by a number that [`Sessions::add_peer`] gives and never gives again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(u32);

/// One channel of one peer, by a number that is given again once the path was [removed](Sessions::remove_path).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(test, derive(Default))]
pub struct PathId(u32);

impl PeerId {
    /// As an index into a table of peers.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl PathId {
    /// As an index into a table of paths.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a path's datagrams go: out of one of our sockets, to the peer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Our socket.
    pub socket: SocketId,
    /// The peer's address.
    pub address: SocketAddr,
}

/// A peer to accept and to connect to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PeerConfig {
    /// Its static key: who it is.
    pub public_key: PublicKey,
    /// A key that both ends know beforehand. Default none.
    pub preshared_key: Option<PresharedKey>,
    /// What a channel that the peer opens is told in our answer; at most [`HELLO_MAX`] bytes. Default empty.
    pub hello: Vec<u8>,
    /// An empty packet is sent when nothing else was for this long, to keep NAT bindings alive. Default none.
    pub keepalive: Option<Span>,
}

impl PeerConfig {
    /// A peer with this key and the defaults.
    pub fn new(public_key: PublicKey) -> PeerConfig {
        PeerConfig { public_key, preshared_key: None, hello: Vec::new(), keepalive: None }
    }
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Out of which socket.
    pub socket: SocketId,
    /// To which address.
    pub destination: SocketAddr,
    /// From which of our addresses, where one was asked.
    pub source: Option<IpAddr>,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// A packet that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// On which path.
    pub path: PathId,
    /// From which peer.
    pub peer: PeerId,
    /// On which channel of that peer.
    pub channel: ChannelId,
    /// The authenticated flags ([`FLAG_CHECKSUM_PARTIAL`]).
    pub flags: u8,
    /// How many bytes of the output buffer it fills, from its start.
    pub len: usize,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It carried a packet, now in the output buffer.
    Data(Data),
    /// It was the session layer's own; look at the polls.
    Control,
    /// It is a handshake's, and waits to be computed: look at [`Sessions::poll_work`].
    Queued,
    /// It was dropped, and counted under this reason.
    Dropped(DropReason),
}

/// Why a peer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// It has given no sign of life for [`Config::lost_after`].
    Silent,
    /// Its keys have expired.
    Expired,
}

/// Why a peer was refused; for a person to read. At most a few a second are reported; the counters have them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RejectReason {
    /// It proved to have a key that is not configured.
    #[error(
        "a handshake came with a key that no peer has, {0}: write it in a [[peer]], or give that end its right private key"
    )]
    UnknownPeer(PublicKey),
    /// It calls somebody with another public key.
    #[error(
        "the handshake is for another public key than this end's: if it is a peer's, write there what `fairspan pubkey` \
         prints of the private key here"
    )]
    OtherKey,
    /// It speaks another version of the protocol.
    #[error(
        "the peer speaks version {0} of the protocol, this is version {VERSION}: run the same release on both ends"
    )]
    OtherVersion(u8),
    /// Its answer does not authenticate.
    #[error("the answer does not authenticate: are the pre-shared keys of both ends the same?")]
    Answer,
    /// It accepts no cipher that we accept.
    #[error(
        "the peer accepts no cipher that is accepted here: run releases of Fairspan on both ends that have one in common"
    )]
    Cipher,
    /// It asked for a channel whose number is out of bounds.
    #[error("the peer asks for channel {0}, which is above channels_per_peer")]
    Channel(u8),
}

/// Why a path does not connect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// An end refused the other's handshake.
    #[error("{0}")]
    Refused(RejectReason),
    /// The network told, after one of the last calls, that it did not arrive: a hint, which can be forged.
    #[error("{0}")]
    Unreachable(Unreachable),
    /// Nothing came back.
    #[error(
        "no answer to {calls} calls: is a daemon running there, is that its `listen_port`, has it this end's public key and \
         this end its own, and does no firewall drop UDP?"
    )]
    NoAnswer {
        /// Since the path was last connected, or tried anew.
        calls: u32,
    },
}

/// A change that the driver should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A path can carry packets: for the first time, again after it was lost, with a restarted peer, or with another
    /// hello than before.
    Established {
        /// The path.
        path: PathId,
        /// Its peer.
        peer: PeerId,
        /// Its channel.
        channel: ChannelId,
        /// Where the peer is.
        endpoint: Endpoint,
        /// What the peer said in its handshake.
        hello: Vec<u8>,
        /// The random number of the peer's process: another one is another process.
        instance: u64,
        /// Whether the peer is another process than the one this path was established with before.
        restarted: bool,
        /// Whether this end began the handshake.
        role: Role,
        /// The cipher agreed.
        cipher: Cipher,
    },
    /// A path has new keys; nothing else changed.
    Rekeyed {
        /// The path.
        path: PathId,
    },
    /// A path's peer is gone. Handshakes go on where [`Sessions::connect`] asked for the path.
    Lost {
        /// The path.
        path: PathId,
        /// Its peer.
        peer: PeerId,
        /// Its channel.
        channel: ChannelId,
        /// Why.
        reason: LostReason,
    },
    /// A path's peer speaks from another address, which is used from now on.
    Roamed {
        /// The path.
        path: PathId,
        /// Where it was.
        from: Endpoint,
        /// Where it is.
        to: Endpoint,
    },
    /// A peer was refused.
    Rejected {
        /// From which address.
        address: SocketAddr,
        /// Why.
        reason: RejectReason,
    },
}

impl Event {
    /// The path that it is about.
    pub(crate) fn path(&self) -> Option<PathId> {
        match self {
            Event::Established { path, .. }
            | Event::Rekeyed { path }
            | Event::Lost { path, .. }
            | Event::Roamed { path, .. } => Some(*path),
            Event::Rejected { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_a_setting_that_cannot_work_is_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        let refused = |change: &dyn Fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.validate().unwrap_err().setting
        };
        assert_eq!(refused(&|c| c.reject_after = c.rekey_after), "reject_after");
        assert_eq!(refused(&|c| c.channels_per_peer = 65), "channels_per_peer");
        assert_eq!(refused(&|c| c.lost_after = c.silence_after), "lost_after");
        assert_eq!(refused(&|c| c.handshake_retry = Span::ZERO), "handshake_retry");
        assert_eq!(refused(&|c| c.reject_after_packets = 1), "reject_after_packets");
        assert_eq!(refused(&|c| c.reject_after_packets = COUNTERS + 1), "reject_after_packets");
    }
}
