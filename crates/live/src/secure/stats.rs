//! Plain counters; every datagram that is dropped is counted under a named reason.

use super::wire::DecodeError;

macro_rules! drops {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// Why a datagram was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All reasons, in a fixed order.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant),+];

            /// The reason's name in metrics and status.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DropReason::$variant => $name,)+
                }
            }
        }
    };
}

drops! {
    /// Shorter than its kind can be.
    Truncated => "dropped_truncated",
    /// Longer than its kind can be, or than the output buffer.
    Oversized => "dropped_oversized",
    /// None of our kinds of datagrams.
    UnknownKind => "dropped_unknown_kind",
    /// A reserved bit was set.
    Reserved => "dropped_reserved_bits",
    /// Of another version of the protocol.
    OtherVersion => "dropped_other_version",
    /// A handshake message made without our public key.
    BadMac => "dropped_bad_mac",
    /// An initiation answered with a demand to prove its address.
    CookieDemanded => "dropped_cookie_demanded",
    /// An initiation above its network's share, while more wait than can be computed.
    RateLimited => "dropped_rate_limited",
    /// An initiation that does not authenticate (made with a wrong key, forged, or changed on the way).
    Initiation => "dropped_initiation_authentication",
    /// An answer that does not authenticate (pre-shared keys that differ, forged, or changed on the way).
    Response => "dropped_response_authentication",
    /// An initiation by a key that is not configured.
    UnknownPeer => "dropped_unknown_peer",
    /// An authenticated handshake message whose content makes no sense.
    Payload => "dropped_handshake_payload",
    /// A channel number out of bounds.
    Channel => "dropped_channel",
    /// No cipher that both ends accept.
    Cipher => "dropped_no_common_cipher",
    /// An initiation whose timestamp is not above all before it: a recorded one, or one that another overtook.
    ReplayedInitiation => "dropped_replayed_initiation",
    /// All session slots are in use.
    SessionsFull => "dropped_sessions_full",
    /// Addressed to an index that names no session (an old one, or a reflected datagram).
    UnknownIndex => "dropped_unknown_index",
    /// A cookie or version reply that does not belong to our initiation.
    BadReply => "dropped_bad_reply",
    /// Data that does not authenticate (forged, reflected, or changed on the way).
    Authentication => "dropped_authentication",
    /// Data seen before.
    Replayed => "dropped_replayed",
    /// Data too far behind the newest to know whether it was seen before.
    TooOld => "dropped_too_old",
    /// Authentic data whose last byte makes no sense: a reserved bit, or more padding than there is.
    Malformed => "dropped_malformed",
    /// Data of a session past its limits.
    Expired => "dropped_expired",
}

impl From<DecodeError> for DropReason {
    fn from(error: DecodeError) -> DropReason {
        match error {
            DecodeError::Truncated(_) => DropReason::Truncated,
            DecodeError::Oversized(_) => DropReason::Oversized,
            DecodeError::Kind(_) => DropReason::UnknownKind,
            DecodeError::Reserved => DropReason::Reserved,
            DecodeError::Version(_) => DropReason::OtherVersion,
        }
    }
}

/// The counters of all sessions of one daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Data packets sealed, and what they carried (in bytes).
    pub sealed: u64,
    /// Bytes inside them.
    pub sealed_bytes: u64,
    /// Data packets opened and handed on.
    pub opened: u64,
    /// Bytes inside them.
    pub opened_bytes: u64,
    /// Empty packets received: signs of life.
    pub keepalives: u64,
    /// Handshakes begun, each retry counted.
    pub initiations_sent: u64,
    /// Handshakes answered.
    pub responses_sent: u64,
    /// Handshakes completed: sessions confirmed on this end.
    pub handshakes: u64,
    /// Handshakes answered that were never confirmed.
    pub unconfirmed: u64,
    /// Cookies received.
    pub cookies: u64,
    /// Peers told that their timestamps are behind.
    pub behind_sent: u64,
    /// Times a peer told that this end's timestamps are behind: its memory was lost, and its clock is wrong.
    pub behind: u64,
    /// Times a path followed its peer to another address.
    pub roamed: u64,
    /// Control datagrams dropped because the driver did not fetch them.
    pub transmits_lost: u64,
    /// Events dropped because the driver did not fetch them.
    pub events_lost: u64,
    drops: [u64; DropReason::ALL.len()],
}

impl Stats {
    /// Datagrams dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Datagrams dropped, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.dropped(reason)))
    }

    /// Every counter by its name in metrics and status.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        [
            ("sealed", self.sealed),
            ("sealed_bytes", self.sealed_bytes),
            ("opened", self.opened),
            ("opened_bytes", self.opened_bytes),
            ("keepalives", self.keepalives),
            ("initiations_sent", self.initiations_sent),
            ("responses_sent", self.responses_sent),
            ("handshakes", self.handshakes),
            ("unconfirmed", self.unconfirmed),
            ("cookies", self.cookies),
            ("behind_sent", self.behind_sent),
            ("behind", self.behind),
            ("roamed", self.roamed),
            ("transmits_lost", self.transmits_lost),
            ("events_lost", self.events_lost),
        ]
        .into_iter()
        .chain(self.drops().map(|(reason, count)| (reason.name(), count)))
    }

    pub(super) fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }
}
