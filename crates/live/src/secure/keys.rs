//! Long-lived keys, written as WireGuard writes them: 32 bytes in standard base64, 44 characters.
//!
//! Secret keys are wiped when dropped and never show in `Debug` output; there is no `Display` for them, so that none
//! reaches a log by accident: [`PrivateKey::to_base64`] is the one way out.

use super::entropy::Entropy;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::fmt;
use core::str::FromStr;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

/// Bytes in any key.
pub const KEY_LEN: usize = 32;

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text holds something else than base64.
    #[error("a key is 44 characters of base64 (as `fairspan keygen` and `wg genkey` print it); this is not base64")]
    NotBase64,
    /// The text is base64, of another length.
    #[error("a key is 32 bytes (44 characters of base64); this one has {0} bytes")]
    Length(usize),
}

fn decode(text: &str) -> Result<Zeroizing<[u8; KEY_LEN]>, KeyError> {
    let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| KeyError::NotBase64)?);
    let mut key = Zeroizing::new([0; KEY_LEN]);
    if bytes.len() != KEY_LEN {
        return Err(KeyError::Length(bytes.len()));
    }
    key.copy_from_slice(&bytes);
    Ok(key)
}

/// A static Curve25519 private key.
#[derive(Clone)]
pub struct PrivateKey([u8; KEY_LEN]);

impl PrivateKey {
    /// A new key from `entropy`.
    pub fn generate(entropy: &mut dyn Entropy) -> PrivateKey {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        entropy.fill(&mut *key);
        PrivateKey::from_bytes(*key)
    }

    /// The key with these bytes, clamped as RFC 7748 section 5 asks.
    pub fn from_bytes(mut bytes: [u8; KEY_LEN]) -> PrivateKey {
        bytes[0] &= 248;
        bytes[31] = (bytes[31] & 127) | 64;
        let key = PrivateKey(bytes);
        bytes.zeroize();
        key
    }

    /// The public key that belongs to it.
    pub fn public_key(&self) -> PublicKey {
        let secret = x25519_dalek::StaticSecret::from(self.0);
        PublicKey(x25519_dalek::PublicKey::from(&secret).to_bytes())
    }

    /// The key as text; wiped when dropped.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0))
    }

    /// Whether somebody wrote this private key where a public one belongs.
    pub fn is_written_as(&self, key: &PublicKey) -> bool {
        self.0 == PrivateKey::from_bytes(key.0).0
    }

    pub(super) fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl Drop for PrivateKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(redacted)")
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<PrivateKey, KeyError> {
        Ok(PrivateKey::from_bytes(*decode(text)?))
    }
}

/// A static Curve25519 public key: a peer's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_LEN]);

impl PublicKey {
    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; KEY_LEN]) -> PublicKey {
        PublicKey(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// Whether it gives zero with every private key, so that it can be nobody's.
    pub fn is_of_small_order(&self) -> bool {
        let any = x25519_dalek::StaticSecret::from([1; KEY_LEN]);
        !any.diffie_hellman(&x25519_dalek::PublicKey::from(self.0)).was_contributory()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        Ok(PublicKey(*decode(text)?))
    }
}

/// A symmetric key that both ends know beforehand; mixed into the handshake (`psk2`).
#[derive(Clone)]
pub struct PresharedKey([u8; KEY_LEN]);

impl PresharedKey {
    /// A new key from `entropy`.
    pub fn generate(entropy: &mut dyn Entropy) -> PresharedKey {
        let mut key = [0; KEY_LEN];
        entropy.fill(&mut key);
        PresharedKey(key)
    }

    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; KEY_LEN]) -> PresharedKey {
        PresharedKey(bytes)
    }

    /// The key as text; wiped when dropped.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0))
    }

    pub(super) fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl Drop for PresharedKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(redacted)")
    }
}

impl FromStr for PresharedKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<PresharedKey, KeyError> {
        Ok(PresharedKey(*decode(text)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::entropy::SeededEntropy;

    #[test]
    fn rfc_7748_key_pair_comes_out_and_round_trips_as_text() {
        // RFC 7748 section 6.1: Alice's keys.
        let private: [u8; 32] = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45, 0xdf, 0x4c,
            0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
        ];
        let public: [u8; 32] = [
            0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e, 0xf7, 0x5a, 0x0d, 0xbf,
            0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e, 0xaa, 0x9b, 0x4e, 0x6a,
        ];
        let key = PrivateKey::from_bytes(private);
        assert_eq!(key.public_key(), PublicKey::from_bytes(public));
        let again: PrivateKey = key.to_base64().parse().unwrap();
        assert_eq!(again.public_key(), key.public_key());
        let text = key.public_key().to_string();
        assert_eq!(text.len(), 44);
        assert_eq!(text.parse::<PublicKey>().unwrap(), key.public_key());
    }

    #[test]
    fn what_is_no_key_says_what_would_be() {
        assert_eq!("not base64!".parse::<PublicKey>().unwrap_err(), KeyError::NotBase64);
        assert_eq!("AAAA".parse::<PrivateKey>().unwrap_err(), KeyError::Length(3));
        assert_eq!("".parse::<PresharedKey>().unwrap_err(), KeyError::Length(0));
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let mut entropy = SeededEntropy::new(1);
        let private = PrivateKey::generate(&mut entropy);
        let psk = PresharedKey::generate(&mut entropy);
        let shown = format!("{private:?} {psk:?}");
        assert_eq!(shown, "PrivateKey(redacted) PresharedKey(redacted)");
    }
}
