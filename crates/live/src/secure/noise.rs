//! The handshake: `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s` by the `snow` crate.
//!
//! Source: The Noise Protocol Framework, revision 34 (pattern IK, modifier psk2); WireGuard's use of it (Donenfeld,
//! NDSS 2017). The prologue is the protocol's name and version and the initiator's index, so that none of them can be
//! changed on the way. After message 2 both ends take the raw split and use it as the two directions' keys.
//!
//! A replayed initiation is known by the timestamp that message 1 carries ([`stamp`](super::stamp)). Departure from WireGuard:
//! the timestamp stands in a payload with more.

use super::entropy::Entropy;
use super::keys::{KEY_LEN, PresharedKey, PrivateKey, PublicKey};
use super::primitives::{Blake2s, ChaChaPoly, X25519};
use super::wire::{HANDSHAKE_MAX, VERSION};
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const PSK_PLACE: usize = 2;
const NO_PSK: [u8; KEY_LEN] = [0; KEY_LEN];

/// A handshake message that did not authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoiseError;

impl From<snow::Error> for NoiseError {
    fn from(_: snow::Error) -> NoiseError {
        NoiseError
    }
}

/// The two directions' keys, as the initiator names them.
pub(super) struct Split {
    pub(super) from_initiator: Zeroizing<[u8; KEY_LEN]>,
    pub(super) to_initiator: Zeroizing<[u8; KEY_LEN]>,
}

/// Gives snow the one ephemeral key that was drawn for this handshake from the injected source.
struct OneKey([u8; KEY_LEN]);

struct Ephemeral {
    key: OneKey,
    used: bool,
}

impl Drop for OneKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Random for Ephemeral {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        if self.used || dest.len() != KEY_LEN {
            return Err(snow::Error::Rng);
        }
        self.used = true;
        dest.copy_from_slice(&self.key.0);
        Ok(())
    }
}

struct Resolver(OneKey);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Ephemeral { key: OneKey(self.0.0), used: false }))
    }
    // What `PATTERN` names, and nothing else.
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        (*choice == DHChoice::Curve25519).then(|| Box::new(X25519::new()) as _)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        (*choice == HashChoice::Blake2s).then(|| Box::new(Blake2s(Default::default())) as _)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        (*choice == CipherChoice::ChaChaPoly).then(|| Box::new(ChaChaPoly::new()) as _)
    }
}

fn builder<'a>(entropy: &mut dyn Entropy) -> Result<Builder<'a>, NoiseError> {
    let mut key = OneKey([0; KEY_LEN]);
    entropy.fill(&mut key.0);
    let params: NoiseParams = PATTERN.parse()?;
    Ok(Builder::with_resolver(params, Box::new(Resolver(key))))
}

fn prologue(initiator_index: u32) -> [u8; 13] {
    let mut prologue = *b"fairspan\0\0\0\0\0";
    prologue[8] = VERSION;
    prologue[9..].copy_from_slice(&initiator_index.to_be_bytes());
    prologue
}

/// An initiator that has sent message 1.
pub(super) struct Initiator(HandshakeState);

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
    ) -> Result<Initiator, NoiseError> {
        let prologue = prologue(index);
        let mut state = builder(entropy)?
            .local_private_key(local.as_bytes())?
            .remote_public_key(remote.as_bytes())?
            .prologue(&prologue)?
            .psk(PSK_PLACE as u8, psk.map_or(&NO_PSK, PresharedKey::as_bytes))?
            .build_initiator()?;
        append(&mut state, payload, out)?;
        Ok(Initiator(state))
    }

    /// Reads message 2 and returns its payload and the keys. A message that fails leaves the handshake as it was, so
    /// that a forger ends nothing.
    pub(super) fn finish(&mut self, message: &[u8]) -> Result<(Vec<u8>, Split), NoiseError> {
        let payload = read(&mut self.0, message)?;
        Ok((payload, split(&mut self.0)))
    }
}

/// A responder that has read message 1.
pub(super) struct Responder {
    state: HandshakeState,
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
    ) -> Result<Responder, NoiseError> {
        let prologue = prologue(index);
        let mut state =
            builder(entropy)?.local_private_key(local.as_bytes())?.prologue(&prologue)?.build_responder()?;
        let payload = read(&mut state, message)?;
        let remote = state.get_remote_static().and_then(|key| key.try_into().ok()).ok_or(NoiseError)?;
        Ok(Responder { state, remote: PublicKey::from_bytes(remote), payload })
    }

    /// Appends message 2 to `out` and returns the keys.
    pub(super) fn answer(
        mut self,
        psk: Option<&PresharedKey>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Split, NoiseError> {
        let psk: &[u8; KEY_LEN] = psk.map_or(&NO_PSK, PresharedKey::as_bytes);
        self.state.set_psk(PSK_PLACE, psk)?;
        append(&mut self.state, payload, out)?;
        Ok(split(&mut self.state))
    }
}

fn append(state: &mut HandshakeState, payload: &[u8], out: &mut Vec<u8>) -> Result<(), NoiseError> {
    let mut message = [0; HANDSHAKE_MAX];
    let len = state.write_message(payload, &mut message)?;
    out.extend_from_slice(&message[..len]);
    Ok(())
}

fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, NoiseError> {
    let mut payload = vec![0; message.len()];
    let len = state.read_message(message, &mut payload)?;
    payload.truncate(len);
    Ok(payload)
}

fn split(state: &mut HandshakeState) -> Split {
    let (from_initiator, to_initiator) = state.dangerously_get_raw_split();
    Split { from_initiator: Zeroizing::new(from_initiator), to_initiator: Zeroizing::new(to_initiator) }
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
        let mut initiator = Initiator::start(&mut entropy, &a, &b.public_key(), None, 9, b"to b", &mut one).unwrap();
        let responder = Responder::read(&mut entropy, &b, 9, &one).unwrap();
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
    fn messages_and_keys_are_those_of_snows_own_primitives() {
        let (mut entropy, a, b) = pair();
        let psk = PresharedKey::from_bytes([7; 32]);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let mut initiator =
            Initiator::start(&mut entropy, &a, &b.public_key(), Some(&psk), 9, b"to b", &mut one).unwrap();
        let responder = Responder::read(&mut entropy, &b, 9, &one).unwrap();
        responder.answer(Some(&psk), b"to a", &mut two).unwrap();
        let (_, keys) = initiator.finish(&two).unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            hex(&one),
            concat!(
                "fcac8c5ffdc16846d493c0e0ab48d6fe9f065640257358be2e879c64144c2707105ea2769d695dc6e910a84c7e7260a4",
                "32b73a0ff9fc614d6d223826f0c545e3068b362b948933f0342cd18af8e58a23dd784546eacca24b99b65dc5e16ce14a",
                "43c44e1e",
            )
        );
        assert_eq!(
            hex(&two),
            concat!(
                "b504373b9bd1ca3dab62ba274a07353e6d93a91e12ed59e223b4b1b82d79a01b5885cc239c40ded8974dc8e4655526bb",
                "e6c08c47",
            )
        );
        assert_eq!(hex(&*keys.from_initiator), "01180aab1958c43b2190ab1697244eae7772a7fd9da7c78b8fa7cfcde2464e92");
        assert_eq!(hex(&*keys.to_initiator), "69eeeab8c1c47ce3c2b512c978d548eca4e795f749f743489204d2ef7186ca0b");
    }

    #[test]
    fn another_index_or_responder_key_is_refused_at_message_one_and_another_psk_at_message_two() {
        let (mut entropy, a, b) = pair();
        let mut one = Vec::new();
        let mut initiator = Initiator::start(&mut entropy, &a, &b.public_key(), None, 9, b"", &mut one).unwrap();
        assert!(Responder::read(&mut entropy, &b, 8, &one).is_err());
        assert!(Responder::read(&mut entropy, &a, 9, &one).is_err());
        let psk = PresharedKey::from_bytes([1; 32]);
        let mut two = Vec::new();
        Responder::read(&mut entropy, &b, 9, &one).unwrap().answer(Some(&psk), b"", &mut two).unwrap();
        assert!(initiator.finish(&two).is_err());
    }
}
