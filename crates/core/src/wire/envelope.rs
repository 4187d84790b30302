//! The bond's envelope: what stands before a packet on a channel, and the bond's control messages.
//!
//! All numbers are big-endian. The first byte is `version << 4 | kind`; the second is the sender's epoch tag, the low
//! eight bits of the 32-bit epoch that every heartbeat carries whole. Sequence numbers are 32-bit serial numbers
//! (RFC 1982). A u24 is the low bits of such a number ([`short`]).
//!
//! | kind | bytes | layout after the first two bytes |
//! |---|---|---|
//! | 1 ordered | 10 + packet | flow bucket u16, sequence in the bucket u24, bond-wide sequence u24 |
//! | 2 duplicate | 6 + packet | bond-wide sequence u32 |
//! | 3 plain | 2 + packet | |
//! | 4 striped | 2 + packet | the packet in its FIFO place of mode `stripe`, where no code point of its own exists |
//! | 5 heartbeat | 32 | channel u8, flags u8 (1: paced, 2: understands compressed frames, 4: takes parity, 8: cuts packets and puts them together), epoch u32, heartbeat number u32, high water u32, deaf u64, using u64 |
//! | 6 echo request | 16 | channel u8, flags u8 (0), token u32, sender's clock u64 |
//! | 7 echo reply | 24 | as in the request, clock of the replier at its arrival u64 |
//! | 8 probe | 12 + padding | channel u8, flags u8 (0), token u32, frame size u32, then zeros up to the frame size |
//! | 9 probe answer | 12 | channel u8, flags u8 (0), token u32, frame size u32 |
//! | 10 stripe control | 2 + message | a message of [`crate::wire::marker`] |
//! | 11 counted | 5 + frame | number on its channel u24, then a data message of kinds 1 to 4, or a fragment |
//! | 12 feedback | 40 | channel u8, tag of the epoch told of u8, highest number u32, frames u32, of them marked u32, microseconds held u32, bytes u32, receiver's clock at the highest's arrival u64, arrived of the 64 before the highest u64 |
//! | 13 kept | 15 + packet | number on its channel u24, then as ordered, then [`Stamp`] of its departure u16 |
//! | 14 again | 16 + packet | as kept, with the stamp of the first time, then tag of the receiver's epoch u8 |
//! | 15 extended | 3 or more | as [`Extended`] and [`parity`] say |
//!
//! A heartbeat is the channel's marker: its high water says "every packet numbered up to this one that I sent on this
//! channel went before". `deaf` is the set of channels on which the sender has heard nothing for too long (the notice
//! that a channel is down), `using` the set on which it sends data.
//!
//! Compressed frames go only to a peer whose heartbeats say that it understands them (flag 2), and fragments to one whose say so (flag 8).
//!
//! Counted frames and feedback go only where a sender's setting asks for them; a kept packet is always counted. Feedback may come by any channel; the counts
//! are of the epoch named, and wrap around.
//!
//! A kept packet is one that its sender will send again where it is lost, and an again packet is that: it is for the process of the
//! receiver that did not get it, and no later one. Such packets tell nothing of
//! what went before them on their channel; the high water of a heartbeat does, and then no packet up to there comes again.
//!
//! The decoder is total: any bytes give a message or a named error, and nothing is read beyond the end.

pub use super::control::{Echo, Feedback, Heartbeat, Probe};
use super::extended::Wrong;
pub use super::extended::{COMPRESSED_LEN, Compressed, Extended, FRAGMENT_LEN, Fragment};
pub use super::head::Head;
use super::parity::{self, Parity};
use super::short;
use super::stamp::Stamp;
use crate::units::ChannelId;

/// The version of this wire format. Version 1 had all numbers whole, and a kept packet behind a second head that counted it.
pub const VERSION: u8 = 2;
/// Bytes before the packet in modes `ordered` and `backup`.
pub const ORDERED_LEN: usize = 10;
/// Bytes before the packet in mode `reliable`.
pub const KEPT_LEN: usize = 15;
/// Bytes before a packet of mode `reliable` that is sent again.
pub const AGAIN_LEN: usize = 16;
/// Bytes before the packet in mode `duplicate`.
pub const DUPLICATE_LEN: usize = 6;
/// Bytes before the packet in mode `plain`, and of `stripe` where no code point of its own exists.
pub const PLAIN_LEN: usize = 2;
/// Bytes of a heartbeat.
pub const HEARTBEAT_LEN: usize = 32;
/// Bytes of an echo request.
pub const ECHO_LEN: usize = 16;
/// Bytes of an echo reply.
pub const ECHO_REPLY_LEN: usize = 24;
/// Bytes of a probe before its padding, and of its answer.
pub const PROBE_LEN: usize = 12;
/// Bytes before the data message of a counted frame.
pub const COUNTED_LEN: usize = 5;
/// Bytes of feedback.
pub const FEEDBACK_LEN: usize = 40;

const ORDERED: u8 = 1;
const DUPLICATE: u8 = 2;
const PLAIN: u8 = 3;
const STRIPED: u8 = 4;
const HEARTBEAT: u8 = 5;
const ECHO_REQUEST: u8 = 6;
const ECHO_REPLY: u8 = 7;
const PROBE: u8 = 8;
const PROBE_ANSWER: u8 = 9;
const STRIPE_CONTROL: u8 = 10;
const COUNTED: u8 = 11;
const FEEDBACK: u8 = 12;
const KEPT: u8 = 13;
const AGAIN: u8 = 14;
/// Its messages are told apart by another byte.
const EXTENDED: u8 = 15;

/// Why bytes are not an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Shorter than the smallest message of its kind.
    #[error("envelope cut short: {have} bytes where kind {kind} needs {need}")]
    Truncated {
        /// The kind in the first byte; 0 when there is none.
        kind: u8,
        /// The bytes there are.
        have: usize,
        /// The bytes this kind needs.
        need: usize,
    },
    /// The peer speaks another version.
    #[error("peer speaks envelope version {theirs}, this end speaks {VERSION}: run the same release on both ends")]
    Version {
        /// The version in the first byte.
        theirs: u8,
    },
    /// No message of kind 15 has this sub-kind, or this form.
    #[error("unknown extended envelope {sub:#04x}")]
    Extended {
        /// The byte that says which.
        sub: u8,
    },
    /// No message has this kind.
    #[error("unknown envelope kind {kind}")]
    Kind {
        /// The kind in the first byte.
        kind: u8,
    },
    /// A channel number that no bond can have.
    #[error("channel {channel} does not exist: channels are numbered below 64")]
    Channel {
        /// The number given.
        channel: u8,
    },
    /// A probe whose length is not the size that it claims.
    #[error("probe of {have} bytes claims to have {claimed}")]
    ProbeSize {
        /// The bytes there are.
        have: usize,
        /// The size in the message.
        claimed: u32,
    },
}

/// One message of the bond. A data message's packet follows the first [`Message::head_len`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet of modes `ordered` and `backup`.
    Ordered {
        /// Which group of flows.
        bucket: u16,
        /// Its number in the group; 24 bits.
        sequence: u32,
        /// Its number in the bond; 24 bits.
        bond: u32,
    },
    /// A packet of mode `reliable`: where it is lost, it comes again.
    Kept {
        /// Its number on its channel; 24 bits.
        number: u32,
        /// Which group of flows.
        bucket: u16,
        /// Its number in the group; 24 bits.
        sequence: u32,
        /// Its number in the bond; 24 bits.
        bond: u32,
        /// When it left first.
        stamp: Stamp,
        /// Where it is sent again: the low eight bits of the receiver's epoch.
        again: Option<u8>,
    },
    /// Whatever has no kind of its own.
    Extended(Extended),
    /// A packet of mode `duplicate`.
    Duplicate {
        /// Its number in the bond; all copies carry the same.
        bond: u32,
    },
    /// A packet that is delivered as it comes.
    Plain,
    /// A packet in its FIFO place of mode `stripe`.
    Striped,
    /// A channel's marker and sign of life.
    Heartbeat(Heartbeat),
    /// Asks for the round trip.
    EchoRequest(Echo),
    /// Answers it.
    EchoReply {
        /// The request.
        echo: Echo,
        /// The replier's clock when the request arrived, in nanoseconds; as [`Echo::clock`] to be compared with itself.
        arrived: u64,
    },
    /// Asks whether a frame of this size passes.
    Probe(Probe),
    /// Says that it did.
    ProbeAnswer(Probe),
    /// A message of the stripe follows.
    StripeControl,
    /// A data message follows, in a frame that the receiver is to tell of.
    Counted {
        /// Its number on its channel; the first is 1. 24 bits.
        number: u32,
    },
    /// Tells of counted frames.
    Feedback(Feedback),
    /// A row of parity, which follows, or what such rows mended.
    Parity(Parity),
}

/// A message and the sender's epoch tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The low eight bits of the sender's epoch.
    pub tag: u8,
    /// What it says.
    pub message: Message,
}

impl Message {
    /// How many bytes the message takes; a data packet, a probe's padding or a stripe message follows them.
    pub const fn head_len(&self) -> usize {
        match self {
            Message::Extended(message) => message.len(),
            _ => need(self.kind()),
        }
    }

    /// Whether a packet of the host's follows, or a part of one, in a frame that has no number on its channel.
    pub const fn is_plain_data(&self) -> bool {
        matches!(self.kind(), ORDERED..=STRIPED) || matches!(self, Message::Extended(Extended::Fragment(_)))
    }

    const fn kind(&self) -> u8 {
        match self {
            Message::Ordered { .. } => ORDERED,
            Message::Kept { again: None, .. } => KEPT,
            Message::Kept { again: Some(_), .. } => AGAIN,
            Message::Extended(_) => EXTENDED,
            Message::Duplicate { .. } => DUPLICATE,
            Message::Plain => PLAIN,
            Message::Striped => STRIPED,
            Message::Heartbeat(_) => HEARTBEAT,
            Message::EchoRequest(_) => ECHO_REQUEST,
            Message::EchoReply { .. } => ECHO_REPLY,
            Message::Probe(_) => PROBE,
            Message::ProbeAnswer(_) => PROBE_ANSWER,
            Message::StripeControl => STRIPE_CONTROL,
            Message::Counted { .. } => COUNTED,
            Message::Feedback(_) => FEEDBACK,
            Message::Parity(_) => EXTENDED,
        }
    }
}

/// The bytes a kind needs; 0 for a kind that does not exist, or whose sub-kinds differ.
const fn need(kind: u8) -> usize {
    match kind {
        ORDERED => ORDERED_LEN,
        KEPT => KEPT_LEN,
        AGAIN => AGAIN_LEN,
        DUPLICATE => DUPLICATE_LEN,
        PLAIN | STRIPED | STRIPE_CONTROL => PLAIN_LEN,
        HEARTBEAT => HEARTBEAT_LEN,
        ECHO_REQUEST => ECHO_LEN,
        ECHO_REPLY => ECHO_REPLY_LEN,
        PROBE | PROBE_ANSWER => PROBE_LEN,
        COUNTED => COUNTED_LEN,
        FEEDBACK => FEEDBACK_LEN,
        // Of a message of `parity`; others say theirs themselves.
        EXTENDED => parity::LEN,
        _ => 0,
    }
}

impl Envelope {
    /// The bytes of this envelope.
    #[inline]
    pub fn encode(&self) -> Head {
        // The commonest messages first: they are on the path of every packet.
        match self.message {
            Message::Kept { number, bucket, sequence, bond, stamp, again } => {
                let mut head = self.start(if again.is_some() { AGAIN } else { KEPT });
                head.bytes[2..5].copy_from_slice(&short::to_bytes(number));
                head.put_place(5, bucket, sequence, bond);
                head.bytes[13..15].copy_from_slice(&stamp.0.to_be_bytes());
                // Of kind 13 the byte is none of the message's.
                head.bytes[15] = again.unwrap_or(0);
                head
            }
            Message::Extended(message) => {
                let mut head = self.start(EXTENDED);
                message.put(&mut head);
                head
            }
            Message::Ordered { bucket, sequence, bond } => {
                let mut head = self.start(ORDERED);
                head.put_place(2, bucket, sequence, bond);
                head
            }
            Message::Plain => self.start(PLAIN),
            _ => self.encode_other(),
        }
    }

    /// What an envelope of this kind starts with; the rest of its bytes are zero.
    #[inline]
    fn start(&self, kind: u8) -> Head {
        let mut head = Head { len: need(kind) as u8, ..Head::EMPTY };
        (head.bytes[0], head.bytes[1]) = (VERSION << 4 | kind, self.tag);
        head
    }

    #[inline(never)]
    fn encode_other(&self) -> Head {
        let mut head = self.start(self.message.kind());
        let b = &mut head.bytes;
        match self.message {
            // The first four were met in `encode`.
            Message::Kept { .. } | Message::Extended(_) | Message::Ordered { .. } | Message::Plain => {}
            Message::Striped | Message::StripeControl => {}
            Message::Duplicate { bond } => b[2..6].copy_from_slice(&bond.to_be_bytes()),
            Message::Counted { number } => b[2..5].copy_from_slice(&short::to_bytes(number)),
            Message::Feedback(f) => {
                (b[2], b[3]) = (f.channel.0, f.of);
                for (at, word) in [f.highest, f.packets, f.marked, f.held, f.bytes].into_iter().enumerate() {
                    b[4 + 4 * at..8 + 4 * at].copy_from_slice(&word.to_be_bytes());
                }
                b[24..32].copy_from_slice(&f.arrived.to_be_bytes());
                b[32..40].copy_from_slice(&f.set.to_be_bytes());
            }
            Message::Parity(parity) => {
                if let Some(rest) = b[2..].first_chunk_mut() {
                    parity.put(rest);
                }
            }
            Message::Heartbeat(h) => {
                let flags = [h.paced, h.expands, h.mends, h.joins];
                b[2] = h.channel.0;
                b[3] = flags.into_iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(flag));
                b[4..8].copy_from_slice(&h.epoch.to_be_bytes());
                b[8..12].copy_from_slice(&h.number.to_be_bytes());
                b[12..16].copy_from_slice(&h.high.to_be_bytes());
                b[16..24].copy_from_slice(&h.deaf.to_be_bytes());
                b[24..32].copy_from_slice(&h.using.to_be_bytes());
            }
            Message::EchoRequest(e) | Message::EchoReply { echo: e, .. } => {
                (b[2], b[3]) = (e.channel.0, e.train.into());
                b[4..8].copy_from_slice(&e.token.to_be_bytes());
                b[8..16].copy_from_slice(&e.clock.to_be_bytes());
                if let Message::EchoReply { arrived, .. } = self.message {
                    b[16..24].copy_from_slice(&arrived.to_be_bytes());
                }
            }
            Message::Probe(p) | Message::ProbeAnswer(p) => {
                b[2] = p.channel.0;
                b[4..8].copy_from_slice(&p.token.to_be_bytes());
                b[8..12].copy_from_slice(&p.size.to_be_bytes());
            }
        }
        head
    }

    /// Reads the envelope at the start of `frame`.
    ///
    /// # Errors
    /// Names what is wrong with the first byte that is wrong. Flag bits and bytes behind a control message are
    /// ignored, so that later releases may use them.
    #[inline]
    pub fn decode(frame: &[u8]) -> Result<Envelope, EnvelopeError> {
        // The commonest messages first: they are on the path of every packet.
        if let Some(b) = frame.first_chunk::<KEPT_LEN>()
            && b[0] == VERSION << 4 | KEPT
        {
            return Ok(Envelope { tag: b[1], message: kept(b, None) });
        }
        if frame.first() == Some(&(VERSION << 4 | EXTENDED)) {
            return extended(frame);
        }
        if let Some(b) = frame.first_chunk::<ORDERED_LEN>()
            && b[0] == VERSION << 4 | ORDERED
        {
            let [_, tag, place @ ..] = *b;
            let (bucket, sequence, bond) = place_of(place);
            return Ok(Envelope { tag, message: Message::Ordered { bucket, sequence, bond } });
        }
        Envelope::decode_other(frame)
    }

    fn decode_other(frame: &[u8]) -> Result<Envelope, EnvelopeError> {
        let Some(&first) = frame.first() else {
            return Err(EnvelopeError::Truncated { kind: 0, have: 0, need: PLAIN_LEN });
        };
        let (version, kind) = (first >> 4, first & 15);
        if version != VERSION {
            return Err(EnvelopeError::Version { theirs: version });
        }
        let need = need(kind);
        if need == 0 {
            return Err(EnvelopeError::Kind { kind });
        }
        if frame.len() < need {
            return Err(EnvelopeError::Truncated { kind, have: frame.len(), need });
        }
        let word = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let channel = || match frame[2] {
            n if usize::from(n) < ChannelId::LIMIT => Ok(ChannelId(n)),
            channel => Err(EnvelopeError::Channel { channel }),
        };
        let message = match kind {
            AGAIN => match frame.split_first_chunk::<KEPT_LEN>() {
                Some((b, rest)) => kept(b, rest.first().copied()),
                None => return Err(EnvelopeError::Truncated { kind, have: frame.len(), need }),
            },
            DUPLICATE => Message::Duplicate { bond: word(2) },
            PLAIN => Message::Plain,
            STRIPED => Message::Striped,
            HEARTBEAT => Message::Heartbeat(Heartbeat {
                channel: channel()?,
                epoch: word(4),
                number: word(8),
                high: word(12),
                deaf: long(16),
                using: long(24),
                paced: frame[3] & 1 != 0,
                expands: frame[3] & 2 != 0,
                mends: frame[3] & 4 != 0,
                joins: frame[3] & 8 != 0,
            }),
            ECHO_REQUEST | ECHO_REPLY => {
                let echo = Echo { channel: channel()?, train: frame[3] & 1 != 0, token: word(4), clock: long(8) };
                if kind == ECHO_REQUEST {
                    Message::EchoRequest(echo)
                } else {
                    Message::EchoReply { echo, arrived: long(16) }
                }
            }
            PROBE => {
                let probe = Probe { channel: channel()?, token: word(4), size: word(8) };
                if probe.size as usize != frame.len() {
                    return Err(EnvelopeError::ProbeSize { have: frame.len(), claimed: probe.size });
                }
                Message::Probe(probe)
            }
            PROBE_ANSWER => Message::ProbeAnswer(Probe { channel: channel()?, token: word(4), size: word(8) }),
            COUNTED => Message::Counted { number: short::from_bytes([frame[2], frame[3], frame[4]]) },
            FEEDBACK => Message::Feedback(Feedback {
                channel: channel()?,
                of: frame[3],
                highest: word(4),
                packets: word(8),
                marked: word(12),
                held: word(16),
                bytes: word(20),
                arrived: long(24),
                set: long(32),
            }),
            _ => Message::StripeControl,
        };
        Ok(Envelope { tag: frame[1], message })
    }
}

/// An envelope of kind 15.
#[inline]
fn extended(frame: &[u8]) -> Result<Envelope, EnvelopeError> {
    let truncated = |need| EnvelopeError::Truncated { kind: EXTENDED, have: frame.len(), need };
    let message = if frame.get(2) == Some(&parity::SUB_KIND) {
        let rest = frame[2..].first_chunk().ok_or(truncated(parity::LEN))?;
        Message::Parity(Parity::read(rest).ok_or(EnvelopeError::Extended { sub: parity::SUB_KIND })?)
    } else {
        Message::Extended(Extended::read(frame).map_err(|wrong| match wrong {
            Wrong::Truncated(need) => truncated(need),
            Wrong::Sub(sub) => EnvelopeError::Extended { sub },
        })?)
    };
    Ok(Envelope { tag: frame.get(1).copied().unwrap_or(0), message })
}

/// Flow bucket, number in it, and number in the bond.
#[inline]
const fn place_of([b0, b1, s0, s1, s2, n0, n1, n2]: [u8; 8]) -> (u16, u32, u32) {
    (u16::from_be_bytes([b0, b1]), short::from_bytes([s0, s1, s2]), short::from_bytes([n0, n1, n2]))
}

#[inline]
const fn kept(bytes: &[u8; KEPT_LEN], again: Option<u8>) -> Message {
    let [_, _, c0, c1, c2, place @ .., s0, s1] = *bytes;
    let (bucket, sequence, bond) = place_of(place);
    let stamp = Stamp(u16::from_be_bytes([s0, s1]));
    Message::Kept { number: short::from_bytes([c0, c1, c2]), bucket, sequence, bond, stamp, again }
}

/// Whether serial number `a` is after `b` (RFC 1982; exactly half way counts as before).
pub const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Form;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|c| u8::from_str_radix(core::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
    }

    /// Every kind once, by hand.
    fn vectors() -> Vec<(&'static str, Envelope)> {
        let heartbeat = Heartbeat {
            channel: ChannelId(2),
            epoch: 0x0102_0304,
            number: 5,
            high: 0xffff_fff0,
            deaf: 4,
            using: 0x8000_0000_0000_0003,
            paced: false,
            expands: true,
            mends: false,
            joins: false,
        };
        let echo = Echo { channel: ChannelId(63), train: false, token: 9, clock: 0x1122_3344_5566_7788 };
        let probe = Probe { channel: ChannelId(1), token: 7, size: 14 };
        let feedback = Feedback {
            channel: ChannelId(2),
            of: 0xa5,
            highest: 65,
            packets: 64,
            marked: 3,
            held: 4000,
            bytes: 60_000,
            arrived: 0x1122_3344_5566_7788,
            set: u64::MAX - 1,
        };
        let kept = |stamp, again| {
            let (number, bucket, sequence, bond) = (0x00f0_0001, 0x123, 7, 0xad_beef);
            Envelope { tag: 0xa5, message: Message::Kept { number, bucket, sequence, bond, stamp, again } }
        };
        let compressed = |form| {
            let (number, sequence, bond, stamp, reference) = (0x00f0_0001, 7, 0xad_beef, Stamp(0xc0de), 0xfc05);
            let message = Compressed { number, sequence, bond, stamp, form, reference };
            Envelope { tag: 0xa5, message: Message::Extended(Extended::Compressed(message)) }
        };
        let fragment = |begin, end, null| {
            let message = Extended::Fragment(Fragment { begin, end, null, sequence: 0xad_beef });
            Envelope { tag: 0xa5, message: Message::Extended(message) }
        };
        let row = parity::Row { number: 0x00f0_0001, row: 7, packets: 4, bucket: 0x123, first: 0xfff0 };
        let mended = parity::Mended { of: 0x42, bucket: 0x123, first: 0xfff0, places: 0x8001 };
        vec![
            (
                "21 a5 0123 000007 adbeef",
                Envelope { tag: 0xa5, message: Message::Ordered { bucket: 0x123, sequence: 7, bond: 0xad_beef } },
            ),
            ("22 a5 00000100", Envelope { tag: 0xa5, message: Message::Duplicate { bond: 256 } }),
            ("23 00", Envelope { tag: 0, message: Message::Plain }),
            ("24 01", Envelope { tag: 1, message: Message::Striped }),
            (
                "25 04 02 02 01020304 00000005 fffffff0 0000000000000004 8000000000000003",
                Envelope { tag: 4, message: Message::Heartbeat(heartbeat) },
            ),
            (
                "25 04 02 07 01020304 00000005 fffffff0 0000000000000004 8000000000000003",
                Envelope { tag: 4, message: Message::Heartbeat(Heartbeat { paced: true, mends: true, ..heartbeat }) },
            ),
            (
                "25 04 02 08 01020304 00000005 fffffff0 0000000000000004 8000000000000003",
                Envelope {
                    tag: 4,
                    message: Message::Heartbeat(Heartbeat { expands: false, joins: true, ..heartbeat }),
                },
            ),
            ("26 04 3f 00 00000009 1122334455667788", Envelope { tag: 4, message: Message::EchoRequest(echo) }),
            (
                "27 04 3f 00 00000009 1122334455667788 0000000000000102",
                Envelope { tag: 4, message: Message::EchoReply { echo, arrived: 258 } },
            ),
            ("28 04 01 00 00000007 0000000e 0000", Envelope { tag: 4, message: Message::Probe(probe) }),
            ("29 04 01 00 00000007 0000000e", Envelope { tag: 4, message: Message::ProbeAnswer(probe) }),
            ("2a 04", Envelope { tag: 4, message: Message::StripeControl }),
            ("2b 04 010203 23 04", Envelope { tag: 4, message: Message::Counted { number: 0x0001_0203 } }),
            (
                "2c 04 02 a5 00000041 00000040 00000003 00000fa0 0000ea60 1122334455667788 fffffffffffffffe",
                Envelope { tag: 4, message: Message::Feedback(feedback) },
            ),
            ("2d a5 f00001 0123 000007 adbeef c0de", kept(Stamp(0xc0de), None)),
            ("2e a5 f00001 0123 000007 adbeef 0000 42", kept(Stamp::NONE, Some(0x42))),
            ("2f a5 01 f00001 000007 adbeef c0de fc05", compressed(Form::Coded)),
            ("2f a5 11 f00001 000007 adbeef c0de fc05", compressed(Form::Renews)),
            ("2f a5 21 f00001 000007 adbeef c0de fc05", compressed(Form::Founds { v6: false, udp: false })),
            ("2f a5 e1 f00001 000007 adbeef c0de fc05", compressed(Form::Founds { v6: true, udp: true })),
            (
                "2f a5 f1 fc05",
                Envelope { tag: 0xa5, message: Message::Extended(Extended::Unknown { reference: 0xfc05 }) },
            ),
            ("2f a5 03 adbeef", fragment(false, false, false)),
            ("2f a5 83 adbeef", fragment(true, false, false)),
            ("2f a5 43 adbeef", fragment(false, true, false)),
            ("2f a5 c3 adbeef", fragment(true, true, false)),
            ("2f a5 e3 adbeef", fragment(true, true, true)),
            ("2f a5 02 73 f00001 0123 fff0", Envelope { tag: 0xa5, message: Message::Parity(Parity::Row(row)) }),
            ("2f a5 02 80 42 0123 fff0 8001", Envelope { tag: 0xa5, message: Message::Parity(Parity::Mended(mended)) }),
        ]
    }

    #[test]
    fn test_vectors_of_every_kind() {
        for (text, envelope) in vectors() {
            let bytes = hex(text);
            assert_eq!(Envelope::decode(&bytes), Ok(envelope), "{text}");
            let head = envelope.encode();
            assert_eq!(head.as_slice(), &bytes[..head.len()], "{text}");
            assert_eq!(head.len(), envelope.message.head_len());
        }
    }

    #[test]
    fn every_cut_of_every_vector_is_named_truncated() {
        for (text, envelope) in vectors() {
            let bytes = hex(text);
            for cut in 0..envelope.message.head_len() {
                let error = Envelope::decode(&bytes[..cut]).unwrap_err();
                assert!(
                    matches!(error, EnvelopeError::Truncated { have, .. } if have == cut),
                    "{text} cut to {cut}: {error}"
                );
            }
        }
    }

    #[test]
    fn wrong_versions_kinds_channels_and_probe_sizes_are_named() {
        assert_eq!(Envelope::decode(&hex("11 00 0000")), Err(EnvelopeError::Version { theirs: 1 }));
        assert_eq!(Envelope::decode(&hex("20 00")), Err(EnvelopeError::Kind { kind: 0 }));
        for sub in ["00", "31", "41", "d1", "04", "13", "a3", "12"] {
            let error = EnvelopeError::Extended { sub: hex(sub)[0] };
            assert_eq!(Envelope::decode(&[&hex("2f 00")[..], &hex(sub), &[0; 40]].concat()), Err(error), "{sub}");
        }
        assert_eq!(Envelope::decode(&hex("2f 00 02 8100000000000000")), Err(EnvelopeError::Extended { sub: 2 }));
        let echo = hex("26 04 40 00 00000009 1122334455667788");
        assert_eq!(Envelope::decode(&echo), Err(EnvelopeError::Channel { channel: 64 }));
        let mut feedback = vec![0; FEEDBACK_LEN];
        (feedback[0], feedback[2]) = (0x2c, 64);
        assert_eq!(Envelope::decode(&feedback), Err(EnvelopeError::Channel { channel: 64 }));
        let probe = hex("28 04 01 00 00000007 0000000d 0000");
        assert_eq!(Envelope::decode(&probe), Err(EnvelopeError::ProbeSize { have: 14, claimed: 13 }));
    }

    #[test]
    fn data_envelopes_take_at_most_sixteen_bytes() {
        assert!([ORDERED_LEN, DUPLICATE_LEN, PLAIN_LEN, KEPT_LEN, AGAIN_LEN, COMPRESSED_LEN].iter().all(|&n| n <= 16));
        const { assert!(COUNTED_LEN + AGAIN_LEN < Head::CAPACITY) };
        const { assert!(COMPRESSED_LEN + crate::compress::MOST_CODED <= Head::CAPACITY) };
    }

    #[test]
    fn serial_numbers_compare_across_the_wrap() {
        assert!(is_after(0, u32::MAX) && !is_after(u32::MAX, 0));
        assert!(!is_after(5, 5) && is_after(6, 5));
    }

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0u8..16) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() { *first = VERSION << 4 | kind; }
            if let Ok(envelope) = Envelope::decode(&bytes) {
                let head = envelope.encode();
                // Flags of control messages that nobody knows are ignored on the way in and zero on the way out.
                let mut expected = bytes[..head.len()].to_vec();
                if (HEARTBEAT..=PROBE_ANSWER).contains(&kind) { expected[3] &= if kind == HEARTBEAT { 15 } else { u8::from(kind <= ECHO_REPLY) }; }
                prop_assert_eq!(head.as_slice(), &expected[..]);
            }
        }
    }
}
