//! What the handshake computes with: X25519, ChaCha20-Poly1305 and BLAKE2s from the libraries that sessions, keys and
//! cookies use as well, given to `snow` in place of its own, which would be a second set of ciphers in the program.

use super::aead::{Cipher, Key};
use super::keys::KEY_LEN;
use aws_lc_rs::aead::MAX_TAG_LEN as TAG_LEN;
use blake2::{Blake2s256, Digest};
use snow::Error;
use snow::types::{Cipher as NoiseCipher, Dh, Hash, Random};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// Curve25519 (RFC 7748).
pub(super) struct X25519 {
    secret: Zeroizing<[u8; KEY_LEN]>,
    public: [u8; KEY_LEN],
}

impl X25519 {
    pub(super) fn new() -> X25519 {
        X25519 { secret: Zeroizing::new([0; KEY_LEN]), public: [0; KEY_LEN] }
    }

    fn secret(&self) -> StaticSecret {
        StaticSecret::from(*self.secret)
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        KEY_LEN
    }
    fn priv_len(&self) -> usize {
        KEY_LEN
    }
    fn set(&mut self, key: &[u8]) {
        self.secret.copy_from_slice(key);
        self.public = PublicKey::from(&self.secret()).to_bytes();
    }
    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        random.try_fill_bytes(&mut *key)?;
        self.set(&*key);
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.public
    }
    fn privkey(&self) -> &[u8] {
        &*self.secret
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        // Room for the largest curve's key: what follows the first bytes is not ours.
        let public: &[u8; KEY_LEN] = public.first_chunk().ok_or(Error::Dh)?;
        let shared = self.secret().diffie_hellman(&PublicKey::from(*public));
        out.first_chunk_mut().map(|out| *out = shared.to_bytes()).ok_or(Error::Dh)
    }
}

/// ChaCha20-Poly1305 (RFC 8439) with the Noise framework's nonce.
pub(super) struct ChaChaPoly(Key);

impl ChaChaPoly {
    pub(super) fn new() -> ChaChaPoly {
        ChaChaPoly(key(&[0; KEY_LEN]))
    }
}

fn key(bytes: &[u8; KEY_LEN]) -> Key {
    Key::new(Cipher::ChaCha20Poly1305, bytes)
}

// Noise writes the nonce least significant byte first, our packets (and AES-GCM) most significant byte first.
fn counter(nonce: u64) -> u64 {
    nonce.swap_bytes()
}

impl NoiseCipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }
    fn set(&mut self, bytes: &[u8; KEY_LEN]) {
        self.0 = key(bytes);
    }
    fn encrypt(&self, nonce: u64, aad: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (text, rest) = out.split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        let tag = self.0.seal(counter(nonce), aad, text).expect("a handshake message is short enough for the cipher");
        rest[..TAG_LEN].copy_from_slice(&tag);
        plaintext.len() + TAG_LEN
    }
    fn decrypt(&self, nonce: u64, aad: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (text, tag) = ciphertext.split_last_chunk::<TAG_LEN>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..text.len()).ok_or(Error::Decrypt)?;
        self.0.open(counter(nonce), aad, text, tag, out).map_err(|_| Error::Decrypt)?;
        Ok(text.len())
    }
}

/// BLAKE2s (RFC 7693) with 32 bytes.
pub(super) struct Blake2s(pub(super) Blake2s256);

impl Hash for Blake2s {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }
    fn block_len(&self) -> usize {
        64
    }
    fn hash_len(&self) -> usize {
        32
    }
    fn reset(&mut self) {
        self.0 = Blake2s256::new();
    }
    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }
    fn result(&mut self, out: &mut [u8]) {
        out[..self.hash_len()].copy_from_slice(&self.0.finalize_reset());
    }
}
