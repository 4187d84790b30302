//! The handshake: `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`.
//!
//! Source: The Noise Protocol Framework, revision 34 (sections 5 and 9; pattern IK, modifier psk2); WireGuard's use of it
//! (Donenfeld, NDSS 2017). HMAC is RFC 2104, HKDF section 4.3 of the framework.
//!
//! | framework | here |
//! |---|---|
//! | h | `Symmetric::hash` |
//! | ck | `Symmetric::chaining` |
//! | k, n | `Symmetric::key`; n is 0 always, as each key seals one text |
//! | e, s | `ephemeral`, `local` |
//! | re, rs | `remote_ephemeral`, `remote` |
//!
//! The prologue is the protocol's name and version and the initiator's index, so that none of them can be changed on the
//! way. After message 2 both ends take the split and use it as the two directions' keys.
//!
//! A replayed initiation is known by the timestamp that message 1 carries ([`stamp`](super::stamp)). Departure from WireGuard:
//! the timestamp stands in a payload with more. As there, an agreement with a key of small order, which gives zero whatever
//! the other key is, ends the handshake.
//!
//! Cost: message 1 takes each end two agreements, message 2 two more. Everything secret is wiped when it is dropped, and
//! what waits stands behind a pointer, since a list that moves what is in it leaves copies behind.

use super::aead::{Cipher, Key, TAG_LEN};
use super::entropy::Entropy;
use super::keys::{KEY_LEN, PresharedKey, PrivateKey, PublicKey};
use super::wire::VERSION;
use blake2::{Blake2s256, Digest};
use std::sync::Arc;
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const NO_PSK: [u8; KEY_LEN] = [0; KEY_LEN];
/// Of BLAKE2s.
const BLOCK_LEN: usize = 64;

type Secret = Zeroizing<[u8; KEY_LEN]>;

/// A handshake message that did not authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoiseError;

/// The two directions' keys, as the initiator names them.
pub(super) struct Split {
    pub(super) from_initiator: Secret,
    pub(super) to_initiator: Secret,
}

/// What both ends have computed alike so far (section 5.2).
#[derive(Clone)]
struct Symmetric {
    hash: [u8; KEY_LEN],
    chaining: Secret,
    key: Secret,
}

impl Symmetric {
    /// Both ends know the prologue and the responder's static key.
    fn new(prologue: &[u8], responder: &PublicKey) -> Symmetric {
        let hash = *digest(Blake2s256::new().chain_update(PATTERN));
        let mut state = Symmetric { hash, chaining: Zeroizing::new(hash), key: Secret::default() };
        state.mix_hash(prologue);
        state.mix_hash(responder.as_bytes());
        state
    }

    fn mix_hash(&mut self, data: &[u8]) {
        self.hash = *digest(Blake2s256::new().chain_update(self.hash).chain_update(data));
    }

    fn mix_key(&mut self, input: &[u8]) {
        [self.chaining, self.key] = hkdf(&self.chaining, input);
    }

    /// An ephemeral key: with a pre-shared key it is mixed into the keys as well (section 9.2).
    fn mix_ephemeral(&mut self, key: &PublicKey) {
        self.mix_hash(key.as_bytes());
        self.mix_key(key.as_bytes());
    }

    fn mix_agreement(&mut self, private: &PrivateKey, public: &PublicKey) -> Result<(), NoiseError> {
        let shared = StaticSecret::from(*private.as_bytes()).diffie_hellman(&(*public.as_bytes()).into());
        if !shared.was_contributory() {
            return Err(NoiseError);
        }
        self.mix_key(shared.as_bytes());
        Ok(())
    }

    fn mix_psk(&mut self, psk: Option<&PresharedKey>) {
        let [chaining, hash, key] = hkdf(&self.chaining, psk.map_or(&NO_PSK, PresharedKey::as_bytes).as_slice());
        self.mix_hash(&*hash);
        (self.chaining, self.key) = (chaining, key);
    }

    /// Appends `text` to `out`, sealed. Each key is used once: an agreement or a pre-shared key is mixed in between.
    fn seal(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), NoiseError> {
        let start = out.len();
        out.extend_from_slice(text);
        let tag = self.cipher().seal(0, &self.hash, &mut out[start..]).map_err(|_| NoiseError)?;
        out.extend_from_slice(&tag);
        self.mix_hash(&out[start..]);
        Ok(())
    }

    fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, NoiseError> {
        let (text, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(NoiseError)?;
        let mut out = vec![0; text.len()];
        self.cipher().open(0, &self.hash, text, tag, &mut out).map_err(|_| NoiseError)?;
        self.mix_hash(sealed);
        Ok(out)
    }

    fn cipher(&self) -> Key {
        Key::new(Cipher::ChaCha20Poly1305, &self.key)
    }

    fn split(&self) -> Box<Split> {
        let [from_initiator, to_initiator] = hkdf(&self.chaining, &[]);
        Box::new(Split { from_initiator, to_initiator })
    }
}

fn digest(hash: Blake2s256) -> Secret {
    let mut out = Secret::default();
    hash.finalize_into((&mut *out).into());
    out
}

fn hmac(key: &[u8; KEY_LEN], parts: [&[u8]; 2]) -> Secret {
    let mut pad = Zeroizing::new([0x36; BLOCK_LEN]);
    pad.iter_mut().zip(key).for_each(|(pad, key)| *pad ^= key);
    let inner = parts.iter().fold(Blake2s256::new().chain_update(pad.as_slice()), |hash, part| hash.chain_update(part));
    pad.iter_mut().for_each(|pad| *pad ^= 0x36 ^ 0x5c);
    digest(Blake2s256::new().chain_update(pad.as_slice()).chain_update(digest(inner).as_slice()))
}

fn hkdf<const N: usize>(chaining: &[u8; KEY_LEN], input: &[u8]) -> [Secret; N] {
    let key = hmac(chaining, [input, &[]]);
    let mut last: Option<Secret> = None;
    std::array::from_fn(|n| {
        let before = last.as_deref().map_or(&[][..], |last| last);
        last.insert(hmac(&key, [before, &[n as u8 + 1]])).clone()
    })
}

fn prologue(initiator_index: u32) -> [u8; 13] {
    let mut prologue = *b"fairspan\0\0\0\0\0";
    prologue[8] = VERSION;
    prologue[9..].copy_from_slice(&initiator_index.to_be_bytes());
    prologue
}

/// Takes a public key from the front of a message.
fn take_key(message: &[u8]) -> Result<(PublicKey, &[u8]), NoiseError> {
    let (key, rest) = message.split_first_chunk::<KEY_LEN>().ok_or(NoiseError)?;
    Ok((PublicKey::from_bytes(*key), rest))
}

/// An initiator that has sent message 1.
pub(super) struct Initiator {
    state: Symmetric,
    local: PrivateKey,
    ephemeral: PrivateKey,
    psk: Option<PresharedKey>,
}

impl Initiator {
    /// Starts a handshake and appends message 1 to `out`.
    pub(super) fn start(
        entropy: &mut dyn Entropy,
        local: &PrivateKey,
        remote: &PublicKey,
        psk: Option<&PresharedKey>,
        index: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Arc<Initiator>, NoiseError> {
        Initiator::begin(entropy, local, remote, psk, &prologue(index), payload, out)
    }

    /// As [`start`](Self::start), under any prologue.
    pub(super) fn begin(
        entropy: &mut dyn Entropy,
        local: &PrivateKey,
        remote: &PublicKey,
        psk: Option<&PresharedKey>,
        prologue: &[u8],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Arc<Initiator>, NoiseError> {
        let mut state = Symmetric::new(prologue, remote);
        let ephemeral = PrivateKey::generate(entropy);
        let public = ephemeral.public_key();
        out.extend_from_slice(public.as_bytes());
        state.mix_ephemeral(&public);
        state.mix_agreement(&ephemeral, remote)?;
        state.seal(local.public_key().as_bytes(), out)?;
        state.mix_agreement(local, remote)?;
        state.seal(payload, out)?;
        Ok(Arc::new(Initiator { state, local: local.clone(), ephemeral, psk: psk.cloned() }))
    }

    /// Reads message 2 and returns its payload and the keys. A message that fails leaves the handshake as it was, so
    /// that a forger ends nothing.
    pub(super) fn finish(&self, message: &[u8]) -> Result<(Vec<u8>, Box<Split>), NoiseError> {
        let mut state = self.state.clone();
        let (remote_ephemeral, sealed) = take_key(message)?;
        state.mix_ephemeral(&remote_ephemeral);
        state.mix_agreement(&self.ephemeral, &remote_ephemeral)?;
        state.mix_agreement(&self.local, &remote_ephemeral)?;
        state.mix_psk(self.psk.as_ref());
        let payload = state.open(sealed)?;
        Ok((payload, state.split()))
    }
}

/// A responder that has read message 1.
pub(super) struct Responder {
    state: Symmetric,
    ephemeral: PrivateKey,
    remote_ephemeral: PublicKey,
    /// Who sent it: authenticated.
    pub(super) remote: PublicKey,
    /// What it says.
    pub(super) payload: Vec<u8>,
}

impl Responder {
    /// Reads message 1.
    pub(super) fn read(
        entropy: &mut dyn Entropy,
        local: &PrivateKey,
        index: u32,
        message: &[u8],
    ) -> Result<Box<Responder>, NoiseError> {
        Responder::accept(entropy, local, &prologue(index), message)
    }

    /// As [`read`](Self::read), under any prologue.
    pub(super) fn accept(
        entropy: &mut dyn Entropy,
        local: &PrivateKey,
        prologue: &[u8],
        message: &[u8],
    ) -> Result<Box<Responder>, NoiseError> {
        let mut state = Symmetric::new(prologue, &local.public_key());
        let (remote_ephemeral, rest) = take_key(message)?;
        state.mix_ephemeral(&remote_ephemeral);
        state.mix_agreement(local, &remote_ephemeral)?;
        let (identity, rest) = rest.split_at_checked(KEY_LEN + TAG_LEN).ok_or(NoiseError)?;
        let remote = state.open(identity)?.try_into().map(PublicKey::from_bytes).map_err(|_| NoiseError)?;
        state.mix_agreement(local, &remote)?;
        let payload = state.open(rest)?;
        let ephemeral = PrivateKey::generate(entropy);
        Ok(Box::new(Responder { state, ephemeral, remote_ephemeral, remote, payload }))
    }

    /// Appends message 2 to `out` and returns the keys.
    pub(super) fn answer(
        &mut self,
        psk: Option<&PresharedKey>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Box<Split>, NoiseError> {
        let public = self.ephemeral.public_key();
        out.extend_from_slice(public.as_bytes());
        self.state.mix_ephemeral(&public);
        self.state.mix_agreement(&self.ephemeral, &self.remote_ephemeral)?;
        self.state.mix_agreement(&self.ephemeral, &self.remote)?;
        self.state.mix_psk(psk);
        self.state.seal(payload, out)?;
        Ok(self.state.split())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::entropy::SeededEntropy;

    fn pair() -> (SeededEntropy, PrivateKey, PrivateKey) {
        let mut entropy = SeededEntropy::new(3);
        let a = PrivateKey::generate(&mut entropy);
        let b = PrivateKey::generate(&mut entropy);
        (entropy, a, b)
    }

    #[test]
    fn both_ends_split_the_same_keys_and_learn_each_other() {
        let (mut entropy, a, b) = pair();
        let mut one = Vec::new();
        let initiator = Initiator::start(&mut entropy, &a, &b.public_key(), None, 9, b"to b", &mut one).unwrap();
        let mut responder = Responder::read(&mut entropy, &b, 9, &one).unwrap();
        assert_eq!((responder.remote, responder.payload.as_slice()), (a.public_key(), b"to b".as_slice()));
        let mut two = Vec::new();
        let theirs = responder.answer(None, b"to a", &mut two).unwrap();
        let mut forged = two.clone();
        forged[40] ^= 1;
        assert!(initiator.finish(&forged).is_err());
        let (payload, ours) = initiator.finish(&two).unwrap();
        assert_eq!(payload, b"to a");
        assert_eq!(ours.from_initiator, theirs.from_initiator);
        assert_eq!(ours.to_initiator, theirs.to_initiator);
        assert_ne!(ours.to_initiator, ours.from_initiator);
    }

    #[test]
    fn messages_and_keys_are_those_of_another_implementation() {
        let (mut entropy, a, b) = pair();
        let psk = PresharedKey::from_bytes([7; 32]);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let initiator = Initiator::start(&mut entropy, &a, &b.public_key(), Some(&psk), 9, b"to b", &mut one).unwrap();
        let mut responder = Responder::read(&mut entropy, &b, 9, &one).unwrap();
        responder.answer(Some(&psk), b"to a", &mut two).unwrap();
        let (_, keys) = initiator.finish(&two).unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            hex(&one),
            concat!(
                "fcac8c5ffdc16846d493c0e0ab48d6fe9f065640257358be2e879c64144c2707105ea2769d695dc6e910a84c7e7260a4",
                "32b73a0ff9fc614d6d223826f0c545e3a7734374c2c30fa9d9b10921329a9cf2dd784546f38f0d3f44763b40326f0cec",
                "74cb5d6b",
            )
        );
        assert_eq!(
            hex(&two),
            concat!(
                "b504373b9bd1ca3dab62ba274a07353e6d93a91e12ed59e223b4b1b82d79a01b5885cc23aab211b4725dbf232a5b84c2",
                "81c9c5eb",
            )
        );
        assert_eq!(hex(&*keys.from_initiator), "01180aab1958c43b2190ab1697244eae7772a7fd9da7c78b8fa7cfcde2464e92");
        assert_eq!(hex(&*keys.to_initiator), "69eeeab8c1c47ce3c2b512c978d548eca4e795f749f743489204d2ef7186ca0b");
    }

    #[test]
    fn another_index_or_responder_key_is_refused_at_message_one_and_another_psk_at_message_two() {
        let (mut entropy, a, b) = pair();
        let mut one = Vec::new();
        let initiator = Initiator::start(&mut entropy, &a, &b.public_key(), None, 9, b"", &mut one).unwrap();
        assert!(Responder::read(&mut entropy, &b, 8, &one).is_err());
        assert!(Responder::read(&mut entropy, &a, 9, &one).is_err());
        let psk = PresharedKey::from_bytes([1; 32]);
        let mut two = Vec::new();
        Responder::read(&mut entropy, &b, 9, &one).unwrap().answer(Some(&psk), b"", &mut two).unwrap();
        assert!(initiator.finish(&two).is_err());
    }

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
    }

    /// Gives one ephemeral key.
    struct Drawn([u8; KEY_LEN]);

    impl Entropy for Drawn {
        fn fill(&mut self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.0);
        }
    }

    #[test]
    fn published_vectors_come_out_byte_for_byte() {
        // Of the cacophony project, Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s.
        let psk = PresharedKey::from_bytes(*b"This is my Austrian perspective!");
        let a = PrivateKey::from_bytes(bytes("e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1"));
        let b = PrivateKey::from_bytes(bytes("4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893"));
        let mut drawn_a = Drawn(bytes("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"));
        let mut drawn_b = Drawn(bytes("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"));
        let (prologue, mut one, mut two) = (b"John Galt", Vec::new(), Vec::new());
        let payload = b"Ludwig von Mises";
        let initiator =
            Initiator::begin(&mut drawn_a, &a, &b.public_key(), Some(&psk), prologue, payload, &mut one).unwrap();
        let mut responder = Responder::accept(&mut drawn_b, &b, prologue, &one).unwrap();
        assert_eq!((responder.remote, responder.payload.as_slice()), (a.public_key(), payload.as_slice()));
        let theirs = responder.answer(Some(&psk), b"Murray Rothbard", &mut two).unwrap();
        let (said, ours) = initiator.finish(&two).unwrap();
        assert_eq!(said, b"Murray Rothbard");
        assert_eq!((&ours.from_initiator, &ours.to_initiator), (&theirs.from_initiator, &theirs.to_initiator));
        let expected: [u8; 112] = bytes(concat!(
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944001e21de9f98ddd8e2ad57527207feb5",
            "6253c9c94a9e496782ecfcb2a75fbcaf1b52948cc48daefe660c62119ab5000980c84831215f2441eba616548e832985",
            "464cf17e51ee93109008399a21f7e13f",
        ));
        assert_eq!(one, expected);
        let expected: [u8; 63] = bytes(concat!(
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843cb765f2caef0751b8f007572dab03222",
            "17755c0632f365717edbf34d33e87a",
        ));
        assert_eq!(two, expected);
        for (key, text, sealed) in [
            (ours.from_initiator, "F. A. Hayek", "8153ca9833bc3c1b91a7e66e5f4d4f5b59bf9e64c2f20d15f0bba7"),
            (ours.to_initiator, "Carl Menger", "07af0c9c86e1b4e80f36b04ff7688d51141af3debd0332f0a705ef"),
        ] {
            let mut out = text.as_bytes().to_vec();
            let tag = Key::new(Cipher::ChaCha20Poly1305, &key).seal(0, &[], &mut out).unwrap();
            out.extend_from_slice(&tag);
            assert_eq!(out, bytes::<27>(sealed));
        }
    }

    #[test]
    fn a_key_of_small_order_ends_the_handshake() {
        let (mut entropy, a, b) = pair();
        for low in [[0; KEY_LEN], std::array::from_fn(|n| u8::from(n == 0))] {
            let mut one = Vec::new();
            let remote = PublicKey::from_bytes(low);
            assert!(Initiator::start(&mut entropy, &a, &remote, None, 9, b"", &mut one).is_err());
            let mut one = Vec::new();
            Initiator::start(&mut entropy, &a, &b.public_key(), None, 9, b"", &mut one).unwrap();
            one[..KEY_LEN].copy_from_slice(&low);
            assert!(Responder::read(&mut entropy, &b, 9, &one).is_err());
        }
    }

    #[test]
    fn a_message_cut_anywhere_is_refused() {
        let (mut entropy, a, b) = pair();
        let mut one = Vec::new();
        let initiator = Initiator::start(&mut entropy, &a, &b.public_key(), None, 9, b"to b", &mut one).unwrap();
        for end in 0..one.len() {
            assert!(Responder::read(&mut entropy, &b, 9, &one[..end]).is_err(), "{end}");
        }
        let mut two = Vec::new();
        Responder::read(&mut entropy, &b, 9, &one).unwrap().answer(None, b"to a", &mut two).unwrap();
        for end in 0..two.len() {
            assert!(initiator.finish(&two[..end]).is_err(), "{end}");
        }
        assert!(initiator.finish(&two).is_ok());
    }
}
