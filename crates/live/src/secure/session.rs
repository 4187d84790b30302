//! One session: the keys of one handshake, its counters and its limits.
//!
//! The limits keep AES-GCM far from its bounds (RFC 9001 appendix B, whose bound for packets up to 2^11 bytes is 2^28
//! packets for a distinguishing advantage below 2^-57; 2^38 bytes are 2^34 blocks). Forged packets are no concern: even
//! ChaCha20-Poly1305's integrity bound of 2^36 would take 380 million forgeries a second for the 180 s a session lives. No limit lets a
//! counter outgrow the header of a datagram.

use super::aead::{Cipher, Key, TAG_LEN};
use super::noise::Split;
use super::replay::{Replay, Verdict};
use super::wire::{DATA_HEADER_LEN, OVERHEAD, data_header, last_byte, unpadded};
use fairspan_core::units::Time;

/// Which end of the handshake this one was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It began the handshake, and begins the next.
    Initiator,
    /// It answered.
    Responder,
}

/// Why nothing was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The path is unknown (its peer was removed).
    #[error("the path no longer exists")]
    UnknownPath,
    /// No handshake has been completed on this path, or its session has expired.
    #[error("the path has no session")]
    NoSession,
    /// The session has reached a limit of time, packets or bytes, and no new one was made in time.
    #[error("the session has reached its limit before a new one was agreed")]
    Exhausted,
    /// The buffer is shorter than what is to be written.
    #[error("the buffer holds {have} bytes, the datagram has {need}")]
    BufferTooSmall {
        /// What it should hold at least.
        need: usize,
        /// What it holds.
        have: usize,
    },
}

/// The limits that a session carries, fixed when it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rekey_packets: u64,
    pub(super) rekey_bytes: u64,
    pub(super) reject_packets: u64,
    pub(super) reject_bytes: u64,
}

/// Why a packet was not accepted by its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenError {
    Expired,
    BufferTooSmall,
    Authentication,
    Replayed,
    TooOld,
    Malformed,
}

/// What a packet is that its session accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// Whether it is the newest of the session.
    pub(super) newest: bool,
    pub(super) flags: u8,
    /// Without padding.
    pub(super) len: usize,
}

#[derive(Debug)]
pub(super) struct Session {
    /// By which the peer addresses it.
    pub(super) index: u32,
    /// By which the peer knows it.
    peer_index: u32,
    pub(super) path: u32,
    pub(super) role: Role,
    pub(super) cipher: Cipher,
    seal: Key,
    open: Key,
    /// The counter of the next packet to send; equals the packets sent.
    counter: u64,
    sent_bytes: u64,
    replay: Replay,
    /// Whether any packet was authenticated on it: the peer has the keys.
    pub(super) proved: bool,
    pub(super) created: Time,
    pub(super) rekey_at: Time,
    pub(super) reject_at: Time,
    limits: Limits,
    /// What the peer said in the handshake, until the session is confirmed.
    pub(super) instance: u64,
    /// That of the initiation that this end answered; 0 where it began.
    pub(super) stamp: u64,
    pub(super) hello: Vec<u8>,
}

/// Everything that makes a session.
pub(super) struct Made {
    pub(super) index: u32,
    pub(super) peer_index: u32,
    pub(super) path: u32,
    pub(super) role: Role,
    pub(super) cipher: Cipher,
    pub(super) split: Box<Split>,
    pub(super) created: Time,
    pub(super) rekey_at: Time,
    pub(super) reject_at: Time,
    pub(super) limits: Limits,
    pub(super) instance: u64,
    pub(super) stamp: u64,
    pub(super) hello: Vec<u8>,
}

impl Session {
    pub(super) fn new(made: Made) -> Session {
        let (seal, open) = match made.role {
            Role::Initiator => (&made.split.from_initiator, &made.split.to_initiator),
            Role::Responder => (&made.split.to_initiator, &made.split.from_initiator),
        };
        Session {
            index: made.index,
            peer_index: made.peer_index,
            path: made.path,
            role: made.role,
            cipher: made.cipher,
            seal: Key::new(made.cipher, seal),
            open: Key::new(made.cipher, open),
            counter: 0,
            sent_bytes: 0,
            replay: Replay::new(),
            proved: false,
            created: made.created,
            rekey_at: made.rekey_at,
            reject_at: made.reject_at,
            limits: made.limits,
            instance: made.instance,
            stamp: made.stamp,
            hello: made.hello,
        }
    }

    /// Seals `head` then `body`, and `padding` zeros, into the start of `out`; returns the datagram's length.
    pub(super) fn seal(
        &mut self,
        now: Time,
        flags: u8,
        padding: usize,
        (head, body): (&[u8], &[u8]),
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let inner = head.len() + body.len();
        let need = inner + padding + OVERHEAD;
        if self.counter >= self.limits.reject_packets
            || self.sent_bytes >= self.limits.reject_bytes
            || now >= self.reject_at
        {
            return Err(SealError::Exhausted);
        }
        let have = out.len();
        let Some(out) = out.get_mut(..need) else {
            return Err(SealError::BufferTooSmall { need, have });
        };
        let header = data_header(self.peer_index, self.counter);
        let (front, rest) = out.split_at_mut(DATA_HEADER_LEN);
        let (text, tag) = rest.split_at_mut(inner + padding + 1);
        front.copy_from_slice(&header);
        text[..head.len()].copy_from_slice(head);
        text[head.len()..inner].copy_from_slice(body);
        text[inner..].fill(0);
        text[inner + padding] = last_byte(flags, padding);
        // The counter moves on whatever happens: a nonce is never used twice.
        let counter = self.counter;
        self.counter += 1;
        self.sent_bytes += need as u64;
        let computed: [u8; TAG_LEN] = self.seal.seal(counter, &header, text).map_err(|_| SealError::Exhausted)?;
        tag.copy_from_slice(&computed);
        Ok(need)
    }

    /// Whether what was sent calls for new keys.
    pub(super) fn wants_rekey(&self) -> bool {
        self.counter >= self.limits.rekey_packets || self.sent_bytes >= self.limits.rekey_bytes
    }

    /// Authenticates and decrypts a packet into the start of `out`.
    pub(super) fn open(
        &mut self,
        now: Time,
        header: &[u8; DATA_HEADER_LEN],
        counter: u64,
        ciphertext: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> Result<Opened, OpenError> {
        if now >= self.reject_at || counter >= self.limits.reject_packets {
            return Err(OpenError::Expired);
        }
        let out = out.get_mut(..ciphertext.len()).ok_or(OpenError::BufferTooSmall)?;
        self.open.open(counter, header, ciphertext, tag, out).map_err(|_| OpenError::Authentication)?;
        let newest = match self.replay.accept(counter) {
            Verdict::Newest => true,
            Verdict::Late => false,
            Verdict::Replayed => return Err(OpenError::Replayed),
            Verdict::TooOld => return Err(OpenError::TooOld),
        };
        let (len, flags) = unpadded(out).ok_or(OpenError::Malformed)?;
        Ok(Opened { newest, flags, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::wire::{COUNTERS, Message, decode};

    fn end(role: Role) -> Session {
        let split = Box::new(Split { from_initiator: [1; 32].into(), to_initiator: [2; 32].into() });
        let limits = Limits { rekey_packets: 100, rekey_bytes: 100_000, reject_packets: 200, reject_bytes: 200_000 };
        Session::new(Made {
            index: 1,
            peer_index: 1,
            path: 0,
            role,
            cipher: Cipher::ChaCha20Poly1305,
            split,
            created: Time::ZERO,
            rekey_at: Time::MAX,
            reject_at: Time::MAX,
            limits,
            instance: 0,
            stamp: 0,
            hello: Vec::new(),
        })
    }

    #[test]
    fn a_session_stays_in_step_over_any_number_of_lost_packets_up_to_its_last() {
        let (mut peer, mut local) = (end(Role::Initiator), end(Role::Responder));
        for session in [&mut peer, &mut local] {
            session.limits = Limits { reject_packets: COUNTERS, reject_bytes: u64::MAX, ..session.limits };
        }
        let mut give = |counter: u64| {
            let mut datagram = [0; OVERHEAD + 1];
            peer.counter = counter;
            let sealed = peer.seal(Time::ZERO, 0, 0, (&[7], &[]), &mut datagram);
            let Ok(len) = sealed else { return Err(sealed) };
            let Ok(Message::Data { header, counter: read, ciphertext, tag, .. }) = decode(&datagram[..len]) else {
                panic!("{datagram:x?}")
            };
            assert_eq!(read, counter);
            Ok(local.open(Time::ZERO, header, read, ciphertext, tag, &mut [0; 64]).map(|opened| opened.newest))
        };
        assert_eq!(give(0), Ok(Ok(true)));
        for power in [8, 16, 22, 23, 24, 30, 31] {
            let last = (1 << power) - 1;
            assert_eq!(give(last), Ok(Ok(true)), "{last} lost in a row");
            assert_eq!(give(last - 200), Ok(Ok(false)), "late");
            assert_eq!(give(last), Ok(Err(OpenError::Replayed)));
        }
        assert_eq!(give(0), Ok(Err(OpenError::TooOld)), "held back since the beginning");
        assert_eq!(give(COUNTERS), Err(Err(SealError::Exhausted)));
    }

    #[test]
    fn an_authentic_packet_whose_last_byte_makes_no_sense_is_not_delivered() {
        let (peer, mut local) = (end(Role::Initiator), end(Role::Responder));
        let mut give = |counter: u64, text: &[u8]| {
            let header = data_header(1, counter);
            let mut text = text.to_vec();
            let tag = peer.seal.seal(counter, &header, &mut text).unwrap();
            let datagram = [&header[..], &text, &tag].concat();
            let Ok(Message::Data { header, counter, ciphertext, tag, .. }) = decode(&datagram) else { panic!() };
            local.open(Time::ZERO, header, counter, ciphertext, tag, &mut [0; 64])
        };
        assert_eq!(give(0, &[9, 9, 9, 0x11]), Ok(Opened { newest: true, flags: 1, len: 2 }));
        assert_eq!(give(1, &[9, 0x20]), Err(OpenError::Malformed), "more padding than there is");
        assert_eq!(give(2, &[9, 0x04]), Err(OpenError::Malformed), "a reserved bit");
        assert_eq!(give(1, &[9, 0]), Err(OpenError::Replayed), "its counter is used all the same");
    }
}
