//! How a responder tells a peer which timestamp its handshakes must exceed: a peer that has lost its memory, on a host whose
//! clock is behind, would else be kept out until its clock has caught up.
//!
//! Not in WireGuard. The reply is sealed under a key of both static keys, to the mac1 of the initiation that is behind, as a
//! cookie is: only the peer can read or make it, for this one initiation. It is shorter than any initiation.

use super::aead::{Cipher, Key, TAG_LEN};
use super::cookie::Mac;
use super::keys::{PrivateKey, PublicKey};
use super::wire::{BEHIND, BEHIND_LEN, handshake_header};
use blake2::Blake2sMac;
use blake2::digest::{FixedOutput, KeyInit, Update, consts::U32};
use zeroize::Zeroizing;

/// What both ends derive from their static keys.
pub(super) struct BehindKey(Zeroizing<[u8; 32]>);

fn keyed(key: &[u8; 32], part: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut mac = <Blake2sMac<U32> as KeyInit>::new_from_slice(key).expect("BLAKE2s takes keys of 32 bytes");
    Update::update(&mut mac, part);
    Zeroizing::new(mac.finalize_fixed().into())
}

impl BehindKey {
    pub(super) fn new(local: &PrivateKey, remote: &PublicKey) -> BehindKey {
        let secret = x25519_dalek::StaticSecret::from(*local.as_bytes());
        let shared = secret.diffie_hellman(&x25519_dalek::PublicKey::from(*remote.as_bytes()));
        BehindKey(keyed(shared.as_bytes(), b"fairspan behind\0"))
    }

    // One key per nonce, so that the AEAD's own nonce may stay zero.
    fn of(&self, nonce: &[u8]) -> Key {
        Key::new(Cipher::ChaCha20Poly1305, &keyed(&self.0, nonce))
    }

    /// The reply to the initiation with `mac1`, by which `index` is its sender's.
    pub(super) fn seal(&self, index: u32, nonce: [u8; 16], stamp: u64, mac1: &Mac) -> Vec<u8> {
        let mut reply = Vec::with_capacity(BEHIND_LEN);
        reply.extend_from_slice(&handshake_header(BEHIND, index));
        reply.extend_from_slice(&nonce);
        let mut text = stamp.to_be_bytes();
        let tag = self.of(&nonce).seal(0, mac1, &mut text).expect("sealing 8 bytes cannot fail");
        reply.extend_from_slice(&text);
        reply.extend_from_slice(&tag);
        reply
    }

    /// The stamp in a reply to our initiation with `mac1`.
    pub(super) fn open(&self, nonce: &[u8], sealed: &[u8], mac1: &Mac) -> Option<u64> {
        let (text, tag) = sealed.split_last_chunk::<TAG_LEN>()?;
        let mut stamp = [0; 8];
        self.of(nonce).open(0, mac1, text, tag, &mut stamp).ok()?;
        Some(u64::from_be_bytes(stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::wire::{Message, decode};

    #[test]
    fn the_other_end_reads_the_stamp_for_the_one_initiation_and_nobody_else_does() {
        let [a, b, c] = [1, 2, 3].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let (ours, theirs) = (BehindKey::new(&a, &b.public_key()), BehindKey::new(&b, &a.public_key()));
        let reply = theirs.seal(7, [9; 16], 0x0102_0304_0506_0708, &[5; 16]);
        assert_eq!(reply.len(), BEHIND_LEN);
        let Ok(Message::Behind { receiver: 7, nonce, sealed }) = decode(&reply) else { panic!("{reply:?}") };
        assert_eq!(ours.open(nonce, sealed, &[5; 16]), Some(0x0102_0304_0506_0708));
        assert_eq!(ours.open(nonce, sealed, &[6; 16]), None, "another initiation");
        assert_eq!(BehindKey::new(&c, &b.public_key()).open(nonce, sealed, &[5; 16]), None, "a stranger");
        for bit in 0..sealed.len() * 8 {
            let mut forged = sealed.to_vec();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ours.open(nonce, &forged, &[5; 16]), None);
        }
    }
}
