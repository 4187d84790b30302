//! The datagrams of the encrypted UDP channel, byte for byte.
//!
//! All numbers are in network order. Byte 0 is the kind; its first bit is set in data only.
//!
//! | kind | layout |
//! |---|---|
//! | 1 initiation | kind 1, version 1, zero 2, sender index 4, Noise message 1, mac1 16, mac2 16 |
//! | 2 response | kind 1, version 1, zero 2, receiver index 4, Noise message 2, mac1 16, mac2 16 |
//! | 3 cookie | kind 1, version 1, zero 2, receiver index 4, nonce 16, sealed cookie 32 |
//! | 4 version | kind 1, version 1, zero 2, receiver index 4, mac 16 |
//! | data | one bit that is set and a counter of 31 bits 4, low half of the receiver index 2, ciphertext n, tag 16 |
//! | 6 behind | kind 1, version 1, zero 2, receiver index 4, nonce 16, sealed stamp 24 |
//! | 7, 8 | of those who join by an invitation ([`joining`](super::joining)), which have no session yet |
//!
//! The first 8 bytes and the last 32 of kinds 1, 3 and 4 stay as they are in every version of the protocol, so that
//! peers of different versions can tell each other so.
//!
//! A data datagram says no more than it must (RFC 9147, section 4, does the same). A session ends before its counter reaches
//! 2^31 ([`COUNTERS`]), so the four bytes have all of the counter. Nothing is cut off, so neither an outage, a silence, nor a datagram
//! that was held back for minutes can make the ends disagree about it. Indices of one process differ in their low halves.
//!
//! What a data datagram encrypts is the packet, up to 15 zeros of padding, and a last byte: how many zeros there are in its
//! upper half, the flags in its lower half.
//!
//! | handshake payload | layout |
//! |---|---|
//! | of message 1 | version 1, channel 1, capabilities 1, zero 1, instance 8, stamp 8, hello length 2, hello |
//! | of message 2 | version 1, cipher 1, zero 2, sender index 4, instance 8, hello length 2, hello |

use super::aead::{Capabilities, Cipher, TAG_LEN};
use thiserror::Error;

/// The protocol's version. Version 1 had a sequence number in place of the stamp, version 2 the flags in the clear, version 3 longer
/// headers of data.
pub const VERSION: u8 = 4;
/// Longest opaque `hello` of either end, in bytes.
pub const HELLO_MAX: usize = 256;
/// Length of a data header.
pub const DATA_HEADER_LEN: usize = 6;
/// Counters that a data header can tell apart: no session has more packets.
pub const COUNTERS: u64 = 1 << 31;
/// What a data datagram adds to what it carries: header, last byte and tag.
pub const OVERHEAD: usize = DATA_HEADER_LEN + 1 + TAG_LEN;
/// Where lengths are hidden, what is encrypted has a multiple of this length.
const PADDED: usize = 16;
/// Length of the header of a handshake message.
pub(super) const HANDSHAKE_HEADER_LEN: usize = 8;
/// Length of a mac, and of a cookie.
pub(super) const MAC_LEN: usize = 16;
/// Length of a cookie reply.
pub(super) const COOKIE_REPLY_LEN: usize = HANDSHAKE_HEADER_LEN + 16 + MAC_LEN + TAG_LEN;
/// Length of a reply to an initiation that is behind.
pub(super) const BEHIND_LEN: usize = HANDSHAKE_HEADER_LEN + 16 + 8 + TAG_LEN;

const INITIATION_PAYLOAD_MIN: usize = 22;
const RESPONSE_PAYLOAD_MIN: usize = 18;
/// Ephemeral key, sealed static key, sealed payload.
const NOISE_1_MIN: usize = 32 + 48 + INITIATION_PAYLOAD_MIN + TAG_LEN;
/// Ephemeral key, sealed payload.
const NOISE_2_MIN: usize = 32 + RESPONSE_PAYLOAD_MIN + TAG_LEN;

pub(super) const INITIATION: u8 = 1;
pub(super) const RESPONSE: u8 = 2;
pub(super) const COOKIE: u8 = 3;
pub(super) const VERSION_REPLY: u8 = 4;
pub(super) const BEHIND: u8 = 6;
pub(super) const JOIN_QUESTION: u8 = 7;
pub(super) const JOIN_ANSWER: u8 = 8;
/// The bit of byte 0 that makes a data datagram.
const DATA: u8 = 0x80;

/// Flag of a data datagram, which only the peer sees: the transport checksum of the packet inside is still to be computed by who delivers it.
pub const FLAG_CHECKSUM_PARTIAL: u8 = 0x01;
/// Flag of a data datagram: answer with an empty one.
pub(super) const FLAG_ASK: u8 = 0x02;
const FLAGS_KNOWN: u8 = FLAG_CHECKSUM_PARTIAL | FLAG_ASK;

/// What a data datagram adds to what it carries at most.
pub const fn overhead(padded: bool) -> usize {
    OVERHEAD + if padded { PADDED - 1 } else { 0 }
}

/// How many bytes of padding a packet of `len` bytes gets where lengths are hidden.
pub(super) const fn padding(len: usize) -> usize {
    PADDED - 1 - len % PADDED
}

/// The last byte of what is encrypted.
pub(super) const fn last_byte(flags: u8, padding: usize) -> u8 {
    (padding << 4) as u8 | flags & FLAGS_KNOWN
}

/// How long the packet in `text` is, and its flags; `None` where its last byte makes no sense.
pub(super) fn unpadded(text: &[u8]) -> Option<(usize, u8)> {
    let (last, padded) = text.split_last()?;
    let flags = last & 0x0f;
    let len = padded.len().checked_sub(usize::from(last >> 4))?;
    (flags & !FLAGS_KNOWN == 0).then_some((len, flags))
}

/// A datagram taken apart. Nothing in it is authenticated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A peer begins a handshake.
    Initiation {
        /// The peer's version.
        version: u8,
        /// The index by which the peer wants to be answered.
        sender: u32,
        /// The Noise message; empty when `version` is not [`VERSION`].
        noise: &'a [u8],
    },
    /// A peer answers a handshake.
    Response {
        /// Our index.
        receiver: u32,
        /// The Noise message.
        noise: &'a [u8],
    },
    /// A peer under load wants proof of our address.
    CookieReply {
        /// Our index.
        receiver: u32,
        /// From which the key of this reply is derived.
        nonce: &'a [u8],
        /// The sealed cookie.
        sealed: &'a [u8],
    },
    /// A peer does not speak our version.
    VersionReply {
        /// The version it speaks.
        version: u8,
        /// Our index.
        receiver: u32,
        /// Proof that the peer saw our initiation.
        mac: &'a [u8],
    },
    /// A peer has heard a greater stamp of ours before.
    Behind {
        /// Our index.
        receiver: u32,
        /// From which the key of this reply is derived.
        nonce: &'a [u8],
        /// The sealed stamp.
        sealed: &'a [u8],
    },
    /// Data, or an empty keepalive.
    Data {
        /// The header, which the tag covers.
        header: &'a [u8; DATA_HEADER_LEN],
        /// The low half of our index.
        receiver: u16,
        /// The packet's number in its session.
        counter: u64,
        /// What is encrypted.
        ciphertext: &'a [u8],
        /// The tag.
        tag: &'a [u8],
    },
}

/// Why a datagram is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Shorter than its kind can be.
    #[error("a datagram of {0} bytes is too short for its kind")]
    Truncated(usize),
    /// Longer than its kind can be.
    #[error("a datagram of {0} bytes is too long for its kind")]
    Oversized(usize),
    /// Byte 0 is no kind.
    #[error("{0} is no kind of datagram")]
    Kind(u8),
    /// A bit that must be zero is not.
    #[error("a reserved bit is set")]
    Reserved,
    /// The protocol's version is not ours.
    #[error("version {0} of the protocol; this is version {VERSION}")]
    Version(u8),
}

/// Takes a datagram apart; never panics, whatever the bytes. (Also the fuzz target's entry.)
///
/// # Errors
/// [`DecodeError`] says what makes it none of ours.
pub fn decode(bytes: &[u8]) -> Result<Message<'_>, DecodeError> {
    let truncated = DecodeError::Truncated(bytes.len());
    let kind = *bytes.first().ok_or(truncated)?;
    if kind & DATA != 0 {
        let (header, rest) = bytes.split_first_chunk::<DATA_HEADER_LEN>().ok_or(truncated)?;
        let [c0, c1, c2, c3, i0, i1] = *header;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG_LEN>().ok_or(truncated)?;
        if ciphertext.is_empty() {
            return Err(truncated);
        }
        return Ok(Message::Data {
            header,
            receiver: u16::from_be_bytes([i0, i1]),
            counter: u64::from(u32::from_be_bytes([c0 & !DATA, c1, c2, c3])),
            ciphertext,
            tag,
        });
    }
    if !(INITIATION..=VERSION_REPLY).contains(&kind) && kind != BEHIND {
        return Err(DecodeError::Kind(kind));
    }
    let ([_, version, z0, z1, i0, i1, i2, i3], rest) =
        bytes.split_first_chunk::<HANDSHAKE_HEADER_LEN>().ok_or(truncated)?;
    let version = *version;
    let index = u32::from_be_bytes([*i0, *i1, *i2, *i3]);
    let body = |least: usize, most: usize| {
        if rest.len() < least {
            Err(truncated)
        } else if rest.len() > most {
            Err(DecodeError::Oversized(bytes.len()))
        } else {
            Ok(())
        }
    };
    match kind {
        INITIATION if version != VERSION => {
            body(2 * MAC_LEN, 2048)?;
            return Ok(Message::Initiation { version, sender: index, noise: &[] });
        }
        VERSION_REPLY => {
            body(MAC_LEN, MAC_LEN)?;
            return Ok(Message::VersionReply { version, receiver: index, mac: rest });
        }
        _ => {}
    }
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    if *z0 != 0 || *z1 != 0 {
        return Err(DecodeError::Reserved);
    }
    match kind {
        INITIATION => {
            body(NOISE_1_MIN + 2 * MAC_LEN, NOISE_1_MIN + HELLO_MAX + 2 * MAC_LEN)?;
            Ok(Message::Initiation { version, sender: index, noise: &rest[..rest.len() - 2 * MAC_LEN] })
        }
        RESPONSE => {
            body(NOISE_2_MIN + 2 * MAC_LEN, NOISE_2_MIN + HELLO_MAX + 2 * MAC_LEN)?;
            Ok(Message::Response { receiver: index, noise: &rest[..rest.len() - 2 * MAC_LEN] })
        }
        COOKIE => {
            body(COOKIE_REPLY_LEN - HANDSHAKE_HEADER_LEN, COOKIE_REPLY_LEN - HANDSHAKE_HEADER_LEN)?;
            let (nonce, sealed) = rest.split_at(16);
            Ok(Message::CookieReply { receiver: index, nonce, sealed })
        }
        _ => {
            body(BEHIND_LEN - HANDSHAKE_HEADER_LEN, BEHIND_LEN - HANDSHAKE_HEADER_LEN)?;
            let (nonce, sealed) = rest.split_at(16);
            Ok(Message::Behind { receiver: index, nonce, sealed })
        }
    }
}

/// The header of a handshake message, a cookie reply or a version reply.
pub(super) fn handshake_header(kind: u8, index: u32) -> [u8; HANDSHAKE_HEADER_LEN] {
    let [i0, i1, i2, i3] = index.to_be_bytes();
    [kind, VERSION, 0, 0, i0, i1, i2, i3]
}

/// The header of a data datagram. The counter is below [`COUNTERS`].
pub(super) fn data_header(receiver: u32, counter: u64) -> [u8; DATA_HEADER_LEN] {
    let [c0, c1, c2, c3] = (counter as u32).to_be_bytes();
    let [.., i0, i1] = receiver.to_be_bytes();
    [c0 | DATA, c1, c2, c3, i0, i1]
}

/// What the initiator says, encrypted to the responder's static key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InitiationPayload {
    pub(super) channel: u8,
    pub(super) capabilities: Capabilities,
    pub(super) instance: u64,
    /// Greater than that of any initiation before it ([`stamp`](super::stamp)).
    pub(super) stamp: u64,
    pub(super) hello: Vec<u8>,
}

impl InitiationPayload {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.channel, self.capabilities.bits(), 0];
        out.extend_from_slice(&self.instance.to_be_bytes());
        out.extend_from_slice(&self.stamp.to_be_bytes());
        put_hello(&mut out, &self.hello);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<InitiationPayload> {
        let ([version, channel, capabilities, _], rest) = bytes.split_first_chunk::<4>()?;
        let (instance, rest) = rest.split_first_chunk::<8>()?;
        let (stamp, rest) = rest.split_first_chunk::<8>()?;
        if *version != VERSION {
            return None;
        }
        Some(InitiationPayload {
            channel: *channel,
            capabilities: Capabilities::from_bits(*capabilities),
            instance: u64::from_be_bytes(*instance),
            stamp: u64::from_be_bytes(*stamp),
            hello: take_hello(rest)?,
        })
    }
}

/// What the responder says, encrypted under the handshake's secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResponsePayload {
    pub(super) cipher: Cipher,
    pub(super) sender: u32,
    pub(super) instance: u64,
    pub(super) hello: Vec<u8>,
}

impl ResponsePayload {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.cipher.code(), 0, 0];
        out.extend_from_slice(&self.sender.to_be_bytes());
        out.extend_from_slice(&self.instance.to_be_bytes());
        put_hello(&mut out, &self.hello);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<ResponsePayload> {
        let ([version, cipher, _, _], rest) = bytes.split_first_chunk::<4>()?;
        let (sender, rest) = rest.split_first_chunk::<4>()?;
        let (instance, rest) = rest.split_first_chunk::<8>()?;
        if *version != VERSION {
            return None;
        }
        Some(ResponsePayload {
            cipher: Cipher::from_code(*cipher)?,
            sender: u32::from_be_bytes(*sender),
            instance: u64::from_be_bytes(*instance),
            hello: take_hello(rest)?,
        })
    }
}

fn put_hello(out: &mut Vec<u8>, hello: &[u8]) {
    let hello = &hello[..hello.len().min(HELLO_MAX)];
    out.extend_from_slice(&(hello.len() as u16).to_be_bytes());
    out.extend_from_slice(hello);
}

fn take_hello(bytes: &[u8]) -> Option<Vec<u8>> {
    let (len, hello) = bytes.split_first_chunk::<2>()?;
    (hello.len() == usize::from(u16::from_be_bytes(*len)) && hello.len() <= HELLO_MAX).then(|| hello.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn payloads_round_trip_and_every_truncation_is_refused() {
        let one = InitiationPayload {
            channel: 7,
            capabilities: Capabilities::from_bits(3),
            instance: 0x0102_0304_0506_0708,
            stamp: 9,
            hello: b"hello".to_vec(),
        };
        let bytes = one.encode();
        assert_eq!(bytes.len(), INITIATION_PAYLOAD_MIN + 5);
        assert_eq!(InitiationPayload::decode(&bytes), Some(one));
        let two = ResponsePayload { cipher: Cipher::Aes256Gcm, sender: 77, instance: 5, hello: vec![1; HELLO_MAX] };
        let more = two.encode();
        assert_eq!(more.len(), RESPONSE_PAYLOAD_MIN + HELLO_MAX);
        assert_eq!(ResponsePayload::decode(&more), Some(two));
        for n in 0..bytes.len() {
            assert_eq!(InitiationPayload::decode(&bytes[..n]), None);
        }
        for n in 0..more.len() {
            assert_eq!(ResponsePayload::decode(&more[..n]), None);
        }
    }

    #[test]
    fn a_data_header_is_what_the_table_says() {
        assert_eq!(data_header(0x0a0b_0c0d, 0x0102_0304), [0x81, 2, 3, 4, 0x0c, 0x0d]);
        for sent in [0, 1, 0x0102_0304, COUNTERS - 1] {
            let mut datagram = data_header(0x0a0b_0c0d, sent).to_vec();
            datagram.extend([0; TAG_LEN + 1]);
            let Ok(Message::Data { receiver, counter, .. }) = decode(&datagram) else { panic!("{datagram:x?}") };
            assert_eq!((receiver, counter), (0x0c0d, sent));
        }
    }

    #[test]
    fn what_was_padded_is_found_again_and_a_last_byte_that_makes_no_sense_is_not_taken() {
        for len in 0..100 {
            let pad = padding(len);
            assert_eq!((len + pad + 1) % 16, 0);
            let mut text = vec![7; len];
            text.resize(len + pad, 0);
            text.push(last_byte(FLAG_ASK, pad));
            assert_eq!(unpadded(&text), Some((len, FLAG_ASK)));
        }
        assert_eq!(unpadded(&[]), None);
        assert_eq!(unpadded(&[0x20]), None, "more padding than there is");
        assert_eq!(unpadded(&[0, 0, 0x20]), Some((0, 0)));
        assert_eq!([0x04, 0x08].map(|reserved| unpadded(&[0, reserved])), [None; 2]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(kind in prop_oneof![0u8..8, 128u8..], mut bytes in prop::collection::vec(any::<u8>(), 0..600), known in any::<bool>()) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if known && bytes.len() > 4 {
                bytes[1] = VERSION;
                bytes[2..4].fill(0);
            }
            if let Ok(Message::Data { ciphertext, tag, .. }) = decode(&bytes) {
                prop_assert_eq!(ciphertext.len() + tag.len() + DATA_HEADER_LEN, bytes.len());
            }
            let _ = InitiationPayload::decode(&bytes);
            let _ = ResponsePayload::decode(&bytes);
        }
    }
}
