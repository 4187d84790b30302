//! Who may cost us a handshake: mac1, and cookies under load.
//!
//! Source: WireGuard (Donenfeld, NDSS 2017), sections 5.3 and 5.4.4 to 5.4.7.
//!
//! - mac1 is keyed by the receiver's public key, so that a scanner that does not know the key meets silence.
//! - A token bucket bounds the handshakes computed per second. While it has tokens, no more is asked.
//! - When it is empty, the initiator must prove its address by mac2, keyed by a cookie that we sent to that address.
//!   How many of those are computed is then a matter of shares ([`waiting`](super::waiting)).
//!
//! Departures: the cookie reply is sealed with ChaCha20-Poly1305 under a key derived from its nonce by keyed BLAKE2s
//! (XChaCha20's job in WireGuard; the AEAD library has none); the secret before the present one is still accepted,
//! so that its rotation refuses nobody.

use super::aead::{Cipher, Key};
use super::entropy::Entropy;
use super::keys::PublicKey;
use super::wire::{COOKIE, COOKIE_REPLY_LEN, HANDSHAKE_HEADER_LEN, MAC_LEN, VERSION_REPLY, handshake_header};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use blake2::digest::{
    FixedOutput, KeyInit, Update,
    consts::{U16, U32},
};
use blake2::{Blake2sMac, Digest};
use fairspan_core::units::{Span, Time};
use std::net::{IpAddr, SocketAddr};

/// A 16-byte mac, or a cookie.
pub(super) type Mac = [u8; MAC_LEN];

/// How long a cookie is worth something; also how often the secret behind cookies changes.
const COOKIE_LIFE: Span = Span::from_secs(120);

fn mac(key: &[u8], parts: &[&[u8]]) -> Mac {
    let mut mac = <Blake2sMac<U16> as KeyInit>::new_from_slice(key).expect("BLAKE2s takes keys of 16 and 32 bytes");
    for part in parts {
        Update::update(&mut mac, part);
    }
    mac.finalize_fixed().into()
}

/// 32 bytes that follow from a key of 16 or 32 and `parts`.
pub(super) fn keyed(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Blake2sMac<U32> as KeyInit>::new_from_slice(key).expect("BLAKE2s takes keys of 16 and 32 bytes");
    for part in parts {
        Update::update(&mut mac, part);
    }
    mac.finalize_fixed().into()
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = blake2::Blake2s256::new();
    for part in parts {
        Digest::update(&mut hash, part);
    }
    hash.finalize().into()
}

/// The keys that follow from one end's public key.
#[derive(Clone, Debug)]
pub(super) struct MacKeys {
    mac1: [u8; 32],
    cookie: [u8; 32],
}

impl MacKeys {
    /// Those of messages *to* the owner of `key`, and of its cookie replies.
    pub(super) fn new(key: &PublicKey) -> MacKeys {
        MacKeys {
            mac1: hash(&[b"fairspan mac1\0\0\0", key.as_bytes()]),
            cookie: hash(&[b"fairspan cookie\0", key.as_bytes()]),
        }
    }

    /// Appends mac1, and mac2 (zero without a cookie), to a handshake message; returns mac1.
    pub(super) fn append(&self, message: &mut Vec<u8>, cookie: Option<&Mac>) -> Mac {
        let mac1 = mac(&self.mac1, &[message]);
        message.extend_from_slice(&mac1);
        let mac2 = cookie.map_or([0; MAC_LEN], |cookie| mac(cookie, &[message]));
        message.extend_from_slice(&mac2);
        mac1
    }

    /// Whether a handshake message that ends in mac1 and mac2 carries the right mac1; if so, mac1.
    pub(super) fn check(&self, message: &[u8]) -> Option<Mac> {
        let (rest, _mac2) = message.split_last_chunk::<MAC_LEN>()?;
        let (rest, mac1) = rest.split_last_chunk::<MAC_LEN>()?;
        verify_slices_are_equal(&mac(&self.mac1, &[rest]), mac1).ok()?;
        Some(*mac1)
    }

    /// Reads the cookie of a reply to our message that carried `mac1`.
    pub(super) fn open_cookie(&self, nonce: &[u8], sealed: &[u8], mac1: &Mac) -> Option<Mac> {
        let (ciphertext, tag) = sealed.split_first_chunk::<MAC_LEN>()?;
        let mut cookie = [0; MAC_LEN];
        self.cookie_key(nonce).open(0, mac1, ciphertext, tag, &mut cookie).ok()?;
        Some(cookie)
    }

    fn seal_cookie(&self, index: u32, nonce: [u8; 16], mut cookie: Mac, mac1: &Mac) -> Vec<u8> {
        let mut reply = Vec::with_capacity(COOKIE_REPLY_LEN);
        reply.extend_from_slice(&handshake_header(COOKIE, index));
        reply.extend_from_slice(&nonce);
        let tag = self.cookie_key(&nonce).seal(0, mac1, &mut cookie).expect("sealing 16 bytes cannot fail");
        reply.extend_from_slice(&cookie);
        reply.extend_from_slice(&tag);
        reply
    }

    // One key per nonce, so that the AEAD's own nonce may stay zero.
    fn cookie_key(&self, nonce: &[u8]) -> Key {
        Key::new(Cipher::ChaCha20Poly1305, &keyed(&self.cookie, &[nonce]))
    }

    /// The answer of the owner of the key to an initiation of another version.
    pub(super) fn version_reply(&self, index: u32, mac1: &Mac) -> Vec<u8> {
        let mut reply = handshake_header(VERSION_REPLY, index).to_vec();
        let proof = mac(&self.mac1, &[&reply, mac1]);
        reply.extend_from_slice(&proof);
        reply
    }

    /// Whether such an answer was made by someone who knows the key and saw our message with `mac1`.
    pub(super) fn check_version_reply(&self, reply: &[u8], mac1: &Mac) -> bool {
        reply
            .split_at_checked(HANDSHAKE_HEADER_LEN)
            .is_some_and(|(header, proof)| verify_slices_are_equal(&mac(&self.mac1, &[header, mac1]), proof).is_ok())
    }
}

/// Tokens that come back with time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// When it was or will be full again.
    full_at: Time,
}

impl Bucket {
    pub(super) const FULL: Bucket = Bucket { full_at: Time::ZERO };

    /// Whether no token is missing.
    pub(super) fn is_full(&self, now: Time) -> bool {
        self.full_at <= now
    }

    /// Takes one token of a bucket that holds `burst` and gains `rate` a second; says whether there was one.
    pub(super) fn take(&mut self, now: Time, rate: u32, burst: u32) -> bool {
        let token = Span::from_nanos(1_000_000_000 / u64::from(rate.max(1)));
        let full_at = self.full_at.max(now) + token;
        if full_at.since(now) > token.times(u64::from(burst)) {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

/// What to do with an initiation whose mac1 is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Compute the handshake.
    Proceed,
    /// Send this cookie reply instead.
    Challenge(Vec<u8>),
}

/// Decides which initiations are worth their cost.
pub(super) struct Gate {
    keys: MacKeys,
    overall: Bucket,
    secrets: [[u8; 32]; 2],
    rotate_at: Time,
}

impl Gate {
    pub(super) fn new(keys: MacKeys, entropy: &mut dyn Entropy, now: Time) -> Gate {
        let mut secrets = [[0; 32]; 2];
        secrets.iter_mut().for_each(|secret| entropy.fill(secret));
        Gate { keys, overall: Bucket::FULL, secrets, rotate_at: now + COOKIE_LIFE }
    }

    /// Decides about an initiation from `address` whose mac1 is `mac1`; where none a second may come without proof, by the proof alone.
    #[expect(clippy::too_many_arguments, reason = "one decision over everything known of one message")]
    pub(super) fn admit(
        &mut self,
        now: Time,
        entropy: &mut dyn Entropy,
        handshakes_per_second: u32,
        address: SocketAddr,
        sender: u32,
        message: &[u8],
        mac1: &Mac,
    ) -> Admission {
        if self.overall.take(now, handshakes_per_second, handshakes_per_second) {
            return Admission::Proceed;
        }
        if now >= self.rotate_at {
            self.secrets[1] = self.secrets[0];
            entropy.fill(&mut self.secrets[0]);
            if now.since(self.rotate_at) >= COOKIE_LIFE {
                entropy.fill(&mut self.secrets[1]);
            }
            self.rotate_at = now + COOKIE_LIFE;
        }
        let proves = |secret| {
            let (rest, mac2) = message.split_last_chunk::<MAC_LEN>()?;
            verify_slices_are_equal(&mac(&cookie_of(secret, address), &[rest]), mac2).ok()
        };
        // The newest secret first: it is that of nearly all.
        let proved = claims_proof(message) && self.secrets.iter().any(|secret| proves(secret).is_some());
        if !proved {
            let mut nonce = [0; 16];
            entropy.fill(&mut nonce);
            let cookie = cookie_of(&self.secrets[0], address);
            return Admission::Challenge(self.keys.seal_cookie(sender, nonce, cookie, mac1));
        }
        Admission::Proceed
    }
}

/// Whether a handshake message has a mac2 at all.
pub(super) fn claims_proof(message: &[u8]) -> bool {
    message.last_chunk::<MAC_LEN>().is_some_and(|mac2| *mac2 != [0; MAC_LEN])
}

fn cookie_of(secret: &[u8; 32], address: SocketAddr) -> Mac {
    let port = address.port().to_be_bytes();
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => mac(secret, &[&v4.octets(), &port]),
        IpAddr::V6(v6) => mac(secret, &[&v6.octets(), &port]),
    }
}

/// A cookie that a responder gave us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cookie {
    pub(super) value: Mac,
    pub(super) since: Time,
}

impl Cookie {
    /// The cookie, while it is worth something.
    pub(super) fn fresh(&self, now: Time) -> Option<&Mac> {
        (now.since(self.since) < COOKIE_LIFE).then_some(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::entropy::SeededEntropy;
    use crate::secure::wire::{Message, decode};

    const PER_SECOND: u32 = 10;

    struct Flood {
        entropy: SeededEntropy,
        keys: MacKeys,
        gate: Gate,
    }

    impl Flood {
        fn new() -> Flood {
            let mut entropy = SeededEntropy::new(5);
            let keys = MacKeys::new(&PublicKey::from_bytes([7; 32]));
            let gate = Gate::new(keys.clone(), &mut entropy, Time::ZERO);
            Flood { entropy, keys, gate }
        }

        fn message(&self, cookie: Option<&Mac>) -> (Vec<u8>, Mac) {
            let mut message = vec![1; 100];
            let mac1 = self.keys.append(&mut message, cookie);
            assert_eq!(self.keys.check(&message), Some(mac1));
            (message, mac1)
        }

        fn admit(&mut self, now: Time, address: &str, cookie: Option<&Mac>) -> Admission {
            let (message, mac1) = self.message(cookie);
            let address = address.parse().unwrap();
            self.gate.admit(now, &mut self.entropy, PER_SECOND, address, 3, &message, &mac1)
        }

        fn exhaust(&mut self, now: Time) {
            while self.admit(now, "192.0.2.99:1", None) == Admission::Proceed {}
        }

        fn cookie(&mut self, now: Time, address: &str) -> Mac {
            let (_, mac1) = self.message(None);
            let Admission::Challenge(reply) = self.admit(now, address, None) else { panic!("no challenge") };
            let Ok(Message::CookieReply { receiver: 3, nonce, sealed }) = decode(&reply) else {
                panic!("no cookie reply")
            };
            assert_eq!(self.keys.open_cookie(nonce, sealed, &[0; 16]), None, "a cookie answers one message only");
            self.keys.open_cookie(nonce, sealed, &mac1).unwrap()
        }
    }

    #[test]
    fn under_load_a_sender_must_prove_its_address() {
        let mut flood = Flood::new();
        let now = Time::from_millis(1000);
        flood.exhaust(now);
        let cookie = flood.cookie(now, "192.0.2.1:5");
        assert!(matches!(flood.admit(now, "192.0.2.1:6", Some(&cookie)), Admission::Challenge(_)), "another port");
        assert!(matches!(flood.admit(now, "192.0.2.2:5", Some(&cookie)), Admission::Challenge(_)), "another host");
        assert_eq!(flood.admit(now, "192.0.2.1:5", Some(&cookie)), Admission::Proceed);
    }

    #[test]
    fn where_no_handshake_may_come_without_proof_none_does() {
        let Flood { mut entropy, keys, mut gate } = Flood::new();
        let mut message = vec![1; 100];
        let mac1 = keys.append(&mut message, None);
        let address = "192.0.2.1:5".parse().unwrap();
        for second in 0..10 {
            let admission = gate.admit(Time::from_millis(1000 * second), &mut entropy, 0, address, 3, &message, &mac1);
            assert!(matches!(admission, Admission::Challenge(_)));
        }
    }

    #[test]
    fn a_cookie_lives_through_one_rotation_of_the_secret_and_not_two() {
        let mut flood = Flood::new();
        flood.exhaust(Time::ZERO);
        let cookie = flood.cookie(Time::ZERO, "[2001:db8::1]:5");
        let once = Time::ZERO + COOKIE_LIFE;
        flood.exhaust(once);
        assert_eq!(flood.admit(once, "[2001:db8::1]:5", Some(&cookie)), Admission::Proceed);
        let twice = once + COOKIE_LIFE;
        flood.exhaust(twice);
        assert!(matches!(flood.admit(twice, "[2001:db8::1]:5", Some(&cookie)), Admission::Challenge(_)));
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::FULL;
        let mut taken = 0;
        for ms in 0..2000 {
            for _ in 0..3 {
                taken += u32::from(bucket.take(Time::from_millis(5000 + ms), 10, 10));
            }
        }
        // The burst of 10, and 10 a second for 2 s; the one of the last instant may or may not be due.
        assert!((29..=30).contains(&taken), "{taken}");
    }
}
