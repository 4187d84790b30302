//! The cipher of a session: AES-256-GCM where both ends have hardware for it, else ChaCha20-Poly1305.
//!
//! The nonce is the packet's counter (4 zero bytes, then the counter), so it never repeats under one key; a session
//! ends long before the counter could wrap.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;

/// Length of a tag, in bytes.
pub const TAG_LEN: usize = 16;

/// A session's cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM (RFC 5116).
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
}

impl Cipher {
    /// Its usual name.
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Cipher::Aes256Gcm => 1,
            Cipher::ChaCha20Poly1305 => 2,
        }
    }

    pub(super) const fn from_code(code: u8) -> Option<Cipher> {
        match code {
            1 => Some(Cipher::Aes256Gcm),
            2 => Some(Cipher::ChaCha20Poly1305),
            _ => None,
        }
    }
}

/// Which cipher this end wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CipherChoice {
    /// AES-256-GCM when both ends have hardware for it, else ChaCha20-Poly1305.
    #[default]
    Auto,
    /// Only this one; a peer that wants only the other is refused.
    Only(Cipher),
}

/// What an end announces in its handshake: bit 0 accepts ChaCha20-Poly1305, bit 1 accepts AES-256-GCM, bit 2 has
/// hardware for AES. Bits of later versions are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capabilities(u8);

const CHACHA: u8 = 1;
const AES: u8 = 2;
const AES_HARDWARE: u8 = 4;

impl Capabilities {
    /// What this end accepts.
    pub(super) fn of(choice: CipherChoice, aes_hardware: bool) -> Capabilities {
        let accepted = match choice {
            CipherChoice::Auto => CHACHA | AES,
            CipherChoice::Only(Cipher::Aes256Gcm) => AES,
            CipherChoice::Only(Cipher::ChaCha20Poly1305) => CHACHA,
        };
        Capabilities(accepted | if aes_hardware { AES_HARDWARE } else { 0 })
    }

    pub(super) const fn from_bits(bits: u8) -> Capabilities {
        Capabilities(bits)
    }

    pub(super) const fn bits(self) -> u8 {
        self.0
    }

    /// The cipher that both accept, or `None`.
    pub(super) fn agree(self, other: Capabilities) -> Option<Cipher> {
        let both = self.0 & other.0;
        if both & AES != 0 && (both & AES_HARDWARE != 0 || both & CHACHA == 0) {
            Some(Cipher::Aes256Gcm)
        } else if both & CHACHA != 0 {
            Some(Cipher::ChaCha20Poly1305)
        } else {
            None
        }
    }

    /// Whether this end accepts `cipher`.
    pub(super) fn accepts(self, cipher: Cipher) -> bool {
        self.0 & if cipher == Cipher::Aes256Gcm { AES } else { CHACHA } != 0
    }
}

/// Whether this machine computes AES-GCM in hardware.
pub fn has_aes_hardware() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// One direction's key.
#[derive(Debug)]
pub(super) struct Key(LessSafeKey);

impl Key {
    pub(super) fn new(cipher: Cipher, bytes: &[u8; 32]) -> Key {
        let algorithm = match cipher {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        Key(LessSafeKey::new(UnboundKey::new(algorithm, bytes).expect("both ciphers take keys of 32 bytes")))
    }

    /// Encrypts `in_out` in place and returns the tag. `counter` is used once under this key.
    pub(super) fn seal(&self, counter: u64, aad: &[u8], in_out: &mut [u8]) -> Result<[u8; TAG_LEN], Unspecified> {
        let tag = self.0.seal_in_place_separate_tag(nonce(counter), Aad::from(aad), in_out)?;
        tag.as_ref().try_into().map_err(|_| Unspecified)
    }

    /// Decrypts `ciphertext` into `out`, which has the same length; on failure `out` holds nothing of meaning.
    pub(super) fn open(
        &self,
        counter: u64,
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> Result<(), Unspecified> {
        self.0.open_separate_gather(nonce(counter), Aad::from(aad), ciphertext, tag, out)
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cipher_agreed_is_one_that_both_accept_and_the_same_seen_from_either_end() {
        use Cipher::*;
        let auto = |hardware| Capabilities::of(CipherChoice::Auto, hardware);
        let only = |cipher| Capabilities::of(CipherChoice::Only(cipher), false);
        for (a, b, agreed) in [
            (auto(true), auto(true), Some(Aes256Gcm)),
            (auto(true), auto(false), Some(ChaCha20Poly1305)),
            (auto(false), auto(false), Some(ChaCha20Poly1305)),
            (auto(false), only(Aes256Gcm), Some(Aes256Gcm)),
            (auto(true), only(ChaCha20Poly1305), Some(ChaCha20Poly1305)),
            (only(Aes256Gcm), only(ChaCha20Poly1305), None),
            (auto(true), Capabilities::from_bits(0), None),
        ] {
            assert_eq!(a.agree(b), agreed);
            assert_eq!(b.agree(a), agreed);
            if let Some(cipher) = agreed {
                assert!(a.accepts(cipher) && b.accepts(cipher));
            }
        }
    }
}
