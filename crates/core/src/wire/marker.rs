//! The stripe's control messages, byte for byte: marker, plan, acknowledgement.
//!
//! Source: striping §5 (a marker carries the round and deficit of its channel's next packet, and the channel's
//! number), §6.3.1 (credits ride on the markers of the reverse direction), and the errata: a marker also names the
//! epoch and the channel set it belongs to. All numbers are big-endian. Every message begins alike:
//!
//! ```text
//!  0        1        2                 4                                   8        9        10
//! +--------+--------+-----------------+-----------------------------------+--------+--------+-----------------+
//! |version |  kind  | length in bytes | epoch                             |channel | flags  | generation      |
//! +--------+--------+-----------------+-----------------------------------+--------+--------+-----------------+
//! marker: round 12, deficit 16, quantum 20, sent bytes 24, sent packets 28, grant epoch 32, grant bytes 36,
//!         grant packets 40; 44 bytes
//! plan:   base generation 12, channels 14, zero 15, start round 16, member mask 20, dead mask 28, then for each
//!         member in increasing order its quantum (4); 36 + 4 n bytes. Flag 16: quanta and deficits count packets
//! ack:    applied generation 12, zero 14, seen mask 16, grant bytes 24, grant packets 28; 32 bytes
//! ```
//!
//! What follows the length is ignored: Ethernet pads short frames.

use crate::causal::{ChannelSet, SetError, Unit};
use crate::units::{Bytes, ChannelId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use thiserror::Error;

/// The version of these messages.
pub const VERSION: u8 = 1;
/// The smallest quantum in bytes that a plan may carry. A smaller one would make a packet cost its receiver many visits.
pub const MIN_QUANTUM: Bytes = Bytes::new(64);
/// The longest message in bytes: a plan for 64 channels.
pub const MAX_LEN: usize = PLAN_LEN + 4 * ChannelId::LIMIT;

const HEADER_LEN: usize = 12;
const MARKER_LEN: usize = 44;
const PLAN_LEN: usize = 36;
const ACK_LEN: usize = 32;

const KIND_MARKER: u8 = 1;
const KIND_PLAN: u8 = 2;
const KIND_ACK: u8 = 3;

const FLAG_GRANT: u8 = 1;
const FLAG_PASSED: u8 = 2;
const FLAG_ASK: u8 = 4;
const FLAG_RESET: u8 = 8;
const FLAG_PACKETS: u8 = 16;

/// What the receiver lets the sender have sent on one channel, in total since the epoch began (modulo 2^32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The sender's epoch that the totals count from.
    pub epoch: u32,
    /// Bytes.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
}

/// Numbers the next packet of its channel; stays in FIFO place among the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The sender's epoch.
    pub epoch: u32,
    /// The sender's number of the channel that the marker goes by (condition C2).
    pub channel: ChannelId,
    /// The generation of the channel set in force at the sender.
    pub generation: u16,
    /// R: the round of the channel's next packet.
    pub round: u32,
    /// DC: the channel's deficit counter before its next packet; 1 to `quantum`.
    pub deficit: i32,
    /// The channel's quantum in that generation.
    pub quantum: u32,
    /// Whether the sender's pointer has left the channel in its round, so that its round is `round - 1`.
    pub passed: bool,
    /// Whether the sender lacks credit on this channel and asks for it.
    pub ask: bool,
    /// Data bytes sent on the channel since the epoch began, modulo 2^32.
    pub sent_bytes: u32,
    /// Data packets sent on the channel since the epoch began, modulo 2^32.
    pub sent_packets: u32,
    /// Credit for the reverse direction on this channel.
    pub grant: Option<Grant>,
}

impl Marker {
    /// The round that the sender's pointer was in.
    pub fn sender_round(&self) -> u32 {
        self.round.wrapping_sub(u32::from(self.passed))
    }
}

/// Announces a channel set: the first of a new epoch (a reset), or a change from round `start` on. Acted on when it
/// arrives, out of the data's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The sender's epoch. One that the receiver does not know resets it.
    pub epoch: u32,
    /// The channel that this copy goes by.
    pub channel: ChannelId,
    /// The generation that the plan defines.
    pub generation: u16,
    /// The generation that it follows; itself for the first of an epoch.
    pub base: u16,
    /// The first round of the generation.
    pub start: u32,
    /// Members and quanta.
    pub set: ChannelSet,
    /// Channels that died: nothing more will come on them, wait for them no longer.
    pub dead: u64,
}

/// What the receiver of the data answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The sender's epoch that the answer is about; for a reset request, the one to be given up.
    pub epoch: u32,
    /// The channel that this answer goes by, and that its grant is for.
    pub channel: ChannelId,
    /// The newest generation that the receiver knows.
    pub generation: u16,
    /// The generation that the receiver has come to.
    pub applied: u16,
    /// On which channels the plan of `generation` arrived.
    pub seen: u64,
    /// The receiver has lost its place, or its state: a new epoch, please.
    pub reset: bool,
    /// Credit on `channel`: totals of `epoch`.
    pub grant: Option<(u32, u32)>,
}

/// Any control message of the stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// See [`Marker`].
    Marker(Marker),
    /// See [`Plan`].
    Plan(Box<Plan>),
    /// See [`Ack`].
    Ack(Ack),
}

/// Why bytes are no control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Fewer bytes than the message's kind or length field needs.
    #[error("the message has {have} bytes and needs {need}")]
    Truncated {
        /// Bytes present.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// Another version.
    #[error("version {found}, this side speaks version {VERSION}: run the same release on both ends")]
    Version {
        /// The version found.
        found: u8,
    },
    /// An unknown kind.
    #[error("unknown kind {found} of control message")]
    Kind {
        /// The kind found.
        found: u8,
    },
    /// A length field that does not suit the kind.
    #[error("length field {found}, expected {expected}")]
    Length {
        /// The field.
        found: u16,
        /// What the kind asks for.
        expected: u16,
    },
    /// A channel number beyond the limit.
    #[error("channel {found} is out of range: channels are numbered 0 to 63")]
    Channel {
        /// The number.
        found: u8,
    },
    /// A deficit counter outside 1 to quantum.
    #[error("deficit {deficit} is not between 1 and the quantum {quantum}")]
    Deficit {
        /// The deficit counter.
        deficit: i32,
        /// The quantum.
        quantum: u32,
    },
    /// A plan whose members and quanta are no channel set.
    #[error("the plan's channel set is wrong: {0}")]
    Set(#[from] SetError),
    /// A plan that gives another number of quanta than it has members.
    #[error("the plan gives {quanta} quanta for {members} members")]
    Count {
        /// Quanta given.
        quanta: u8,
        /// Members in the mask.
        members: u32,
    },
    /// Flags that this kind does not have.
    #[error("unknown flags {found:#04x}")]
    Flags {
        /// The flags.
        found: u8,
    },
}

impl Control {
    /// Appends the message to `out`; at most [`MAX_LEN`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Control::Marker(m) => m.encode(out),
            Control::Plan(p) => p.encode(out),
            Control::Ack(a) => a.encode(out),
        }
    }

    /// Reads one message from the beginning of `bytes`; what follows it is ignored.
    ///
    /// # Errors
    /// [`DecodeError`] says what was wrong first.
    pub fn decode(bytes: &[u8]) -> Result<Control, DecodeError> {
        let mut r = Reader { bytes, at: 0 };
        let (version, kind, length) = (r.u8()?, r.u8()?, r.u16()?);
        if version != VERSION {
            return Err(DecodeError::Version { found: version });
        }
        let have = bytes.len();
        let need = usize::from(length);
        r.bytes = bytes.get(..need).ok_or(DecodeError::Truncated { have, need })?;
        let fixed = |expected: usize| {
            let expected = expected as u16;
            if length == expected { Ok(()) } else { Err(DecodeError::Length { found: length, expected }) }
        };
        match kind {
            KIND_MARKER => {
                fixed(MARKER_LEN)?;
                Marker::read(&mut r).map(Control::Marker)
            }
            KIND_PLAN => Plan::read(&mut r, fixed).map(|plan| Control::Plan(Box::new(plan))),
            KIND_ACK => {
                fixed(ACK_LEN)?;
                Ack::read(&mut r).map(Control::Ack)
            }
            found => Err(DecodeError::Kind { found }),
        }
    }

    /// The channel that the message names as its own.
    pub fn channel(&self) -> ChannelId {
        match self {
            Control::Marker(m) => m.channel,
            Control::Plan(p) => p.channel,
            Control::Ack(a) => a.channel,
        }
    }
}

impl Marker {
    fn encode(&self, out: &mut Vec<u8>) {
        let flags = flag(self.grant.is_some(), FLAG_GRANT) | flag(self.passed, FLAG_PASSED) | flag(self.ask, FLAG_ASK);
        header(out, KIND_MARKER, MARKER_LEN, self.epoch, self.channel, flags, self.generation);
        let grant = self.grant.unwrap_or_default();
        put32(out, self.round);
        put32(out, self.deficit as u32);
        put32(out, self.quantum);
        put32(out, self.sent_bytes);
        put32(out, self.sent_packets);
        put32(out, grant.epoch);
        put32(out, grant.bytes);
        put32(out, grant.packets);
    }

    fn read(r: &mut Reader<'_>) -> Result<Marker, DecodeError> {
        let (epoch, channel, flags, generation) = r.header(FLAG_GRANT | FLAG_PASSED | FLAG_ASK)?;
        let (round, deficit, quantum) = (r.u32()?, r.u32()? as i32, r.u32()?);
        if deficit < 1 || deficit as u32 > quantum || quantum > ChannelSet::MAX_QUANTUM {
            return Err(DecodeError::Deficit { deficit, quantum });
        }
        let (sent_bytes, sent_packets) = (r.u32()?, r.u32()?);
        let grant = Grant { epoch: r.u32()?, bytes: r.u32()?, packets: r.u32()? };
        Ok(Marker {
            epoch,
            channel,
            generation,
            round,
            deficit,
            quantum,
            passed: flags & FLAG_PASSED != 0,
            ask: flags & FLAG_ASK != 0,
            sent_bytes,
            sent_packets,
            grant: (flags & FLAG_GRANT != 0).then_some(grant),
        })
    }
}

impl Plan {
    fn encode(&self, out: &mut Vec<u8>) {
        let length = PLAN_LEN + 4 * self.set.len();
        let flags = flag(self.set.unit() == Unit::Packets, FLAG_PACKETS);
        header(out, KIND_PLAN, length, self.epoch, self.channel, flags, self.generation);
        out.extend_from_slice(&self.base.to_be_bytes());
        out.extend_from_slice(&[self.set.len() as u8, 0]);
        put32(out, self.start);
        out.extend_from_slice(&self.set.mask().to_be_bytes());
        out.extend_from_slice(&self.dead.to_be_bytes());
        for channel in self.set.channels() {
            put32(out, self.set.quantum(channel));
        }
    }

    fn read(r: &mut Reader<'_>, fixed: impl Fn(usize) -> Result<(), DecodeError>) -> Result<Plan, DecodeError> {
        let (epoch, channel, flags, generation) = r.header(FLAG_PACKETS)?;
        let (base, count, _zero, start) = (r.u16()?, r.u8()?, r.u8()?, r.u32()?);
        let (mask, dead) = (r.u64()?, r.u64()?);
        if u32::from(count) != mask.count_ones() {
            return Err(DecodeError::Count { quanta: count, members: mask.count_ones() });
        }
        fixed(PLAN_LEN + 4 * usize::from(count))?;
        let members = (0u8..64).filter(|c| mask & (1 << c) != 0).map(ChannelId);
        let mut pairs = [(ChannelId(0), 0u32); ChannelId::LIMIT];
        for (pair, channel) in pairs.iter_mut().zip(members) {
            *pair = (channel, r.u32()?);
        }
        let pairs = pairs.get(..usize::from(count)).unwrap_or(&pairs);
        let set = if flags & FLAG_PACKETS != 0 {
            ChannelSet::of_packets(pairs)?
        } else {
            let mut quanta = [(ChannelId(0), Bytes::ZERO); ChannelId::LIMIT];
            for (quantum, &(channel, bytes)) in quanta.iter_mut().zip(pairs) {
                *quantum = (channel, Bytes::new(u64::from(bytes)));
            }
            ChannelSet::new(&quanta[..pairs.len()], MIN_QUANTUM)?
        };
        Ok(Plan { epoch, channel, generation, base, start, set, dead })
    }
}

impl Ack {
    fn encode(&self, out: &mut Vec<u8>) {
        let flags = flag(self.grant.is_some(), FLAG_GRANT) | flag(self.reset, FLAG_RESET);
        header(out, KIND_ACK, ACK_LEN, self.epoch, self.channel, flags, self.generation);
        out.extend_from_slice(&self.applied.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.seen.to_be_bytes());
        let (bytes, packets) = self.grant.unwrap_or_default();
        put32(out, bytes);
        put32(out, packets);
    }

    fn read(r: &mut Reader<'_>) -> Result<Ack, DecodeError> {
        let (epoch, channel, flags, generation) = r.header(FLAG_GRANT | FLAG_RESET)?;
        let (applied, _zero, seen) = (r.u16()?, r.u16()?, r.u64()?);
        let grant = (r.u32()?, r.u32()?);
        Ok(Ack {
            epoch,
            channel,
            generation,
            applied,
            seen,
            reset: flags & FLAG_RESET != 0,
            grant: (flags & FLAG_GRANT != 0).then_some(grant),
        })
    }
}

fn flag(on: bool, bit: u8) -> u8 {
    if on { bit } else { 0 }
}

fn put32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_be_bytes());
}

fn header(out: &mut Vec<u8>, kind: u8, length: usize, epoch: u32, channel: ChannelId, flags: u8, generation: u16) {
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&(length as u16).to_be_bytes());
    put32(out, epoch);
    out.extend_from_slice(&[channel.0, flags]);
    out.extend_from_slice(&generation.to_be_bytes());
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let need = self.at + N;
        let taken = self.bytes.get(self.at..need).and_then(|b| b.try_into().ok());
        self.at = need;
        taken.ok_or(DecodeError::Truncated { have: self.bytes.len(), need })
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        self.take::<1>().map(|[b]| b)
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_be_bytes)
    }

    /// Epoch, channel, flags, generation; the reader stands behind them.
    fn header(&mut self, known: u8) -> Result<(u32, ChannelId, u8, u16), DecodeError> {
        let (epoch, channel, flags, generation) = (self.u32()?, self.u8()?, self.u8()?, self.u16()?);
        debug_assert_eq!(self.at, HEADER_LEN);
        if usize::from(channel) >= ChannelId::LIMIT {
            return Err(DecodeError::Channel { found: channel });
        }
        if flags & !known != 0 {
            return Err(DecodeError::Flags { found: flags });
        }
        Ok((epoch, ChannelId(channel), flags, generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn marker() -> Marker {
        Marker {
            epoch: 0xdead_beef,
            channel: ChannelId(3),
            generation: 0x0102,
            round: 0xffff_fffe,
            deficit: 1234,
            quantum: 3000,
            passed: true,
            ask: false,
            sent_bytes: 0x1000_0001,
            sent_packets: 7,
            grant: Some(Grant { epoch: 9, bytes: 65536, packets: 44 }),
        }
    }

    fn bytes(control: &Control) -> Vec<u8> {
        let mut out = vec![];
        control.encode(&mut out);
        out
    }

    #[test]
    fn a_marker_is_these_bytes() {
        let expected = [
            1, 1, 0, 44, 0xde, 0xad, 0xbe, 0xef, 3, 3, 1, 2, // header: grant and passed
            0xff, 0xff, 0xff, 0xfe, 0, 0, 0x04, 0xd2, 0, 0, 0x0b, 0xb8, // round, deficit, quantum
            0x10, 0, 0, 1, 0, 0, 0, 7, // sent
            0, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0, 44, // grant
        ];
        assert_eq!(bytes(&Control::Marker(marker())), expected);
        assert_eq!(Control::decode(&expected), Ok(Control::Marker(marker())));
        assert_eq!(marker().sender_round(), 0xffff_fffd);
    }

    #[test]
    fn a_plan_is_these_bytes() {
        let set =
            ChannelSet::new(&[(ChannelId(0), Bytes::new(1500)), (ChannelId(9), Bytes::new(6000))], Bytes::new(1500));
        let plan = Plan {
            epoch: 1,
            channel: ChannelId(9),
            generation: 5,
            base: 4,
            start: 77,
            set: set.unwrap(),
            dead: 1 << 63,
        };
        let expected = [
            1, 2, 0, 44, 0, 0, 0, 1, 9, 0, 0, 5, // header
            0, 4, 2, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 2, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, // base .. dead
            0, 0, 0x05, 0xdc, 0, 0, 0x17, 0x70, // quanta
        ];
        assert_eq!(bytes(&Control::Plan(Box::new(plan.clone()))), expected);
        assert_eq!(Control::decode(&expected), Ok(Control::Plan(Box::new(plan))));
    }

    #[test]
    fn an_ack_is_these_bytes() {
        let ack = Ack {
            epoch: 2,
            channel: ChannelId(1),
            generation: 6,
            applied: 5,
            seen: 3,
            reset: true,
            grant: Some((0x0a0b_0c0d, 16)),
        };
        let expected = [
            1, 3, 0, 32, 0, 0, 0, 2, 1, 9, 0, 6, // header
            0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 16,
        ];
        assert_eq!(bytes(&Control::Ack(ack)), expected);
        assert_eq!(Control::decode(&expected), Ok(Control::Ack(ack)));
    }

    #[test]
    fn each_defect_has_its_name() {
        let good = bytes(&Control::Marker(marker()));
        let with = |i: usize, b: u8| {
            let mut bad = good.clone();
            bad[i] = b;
            Control::decode(&bad)
        };
        assert_eq!(with(0, 2), Err(DecodeError::Version { found: 2 }));
        assert_eq!(with(1, 9), Err(DecodeError::Kind { found: 9 }));
        assert_eq!(with(3, 45), Err(DecodeError::Truncated { have: 44, need: 45 }));
        assert_eq!(with(3, 43), Err(DecodeError::Length { found: 43, expected: 44 }));
        assert_eq!(with(8, 64), Err(DecodeError::Channel { found: 64 }));
        assert_eq!(with(9, 0x80), Err(DecodeError::Flags { found: 0x80 }));
        assert_eq!(with(18, 0x7f), Err(DecodeError::Deficit { deficit: 0x7fd2, quantum: 3000 }));
        assert_eq!(Control::decode(&[]), Err(DecodeError::Truncated { have: 0, need: 1 }));
        let set = ChannelSet::of(&[1500], Bytes::new(1)).unwrap();
        let plan = Plan { epoch: 1, channel: ChannelId(0), generation: 1, base: 1, start: 1, set, dead: 0 };
        let mut bad = bytes(&Control::Plan(Box::new(plan)));
        bad[14] = 2;
        assert_eq!(Control::decode(&bad), Err(DecodeError::Count { quanta: 2, members: 1 }));
        (bad[14], bad[27]) = (0, 0);
        bad[3] = 36;
        assert_eq!(Control::decode(&bad), Err(DecodeError::Set(SetError::Empty)));
    }

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_bytes_again(mut bytes in proptest::collection::vec(any::<u8>(), 0..320), shape in 0u8..4) {
            // Half-valid input reaches deeper than noise.
            if shape > 0 && bytes.len() >= 44 {
                bytes[0] = VERSION;
                bytes[1] = shape;
                let length = [44, 36 + 4 * bytes[14] as usize, 32][usize::from(shape) - 1];
                bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                bytes[8] &= 63;
                bytes[9] &= 1;
            }
            if let Ok(control) = Control::decode(&bytes) {
                let mut again = vec![];
                control.encode(&mut again);
                prop_assert!(again.len() <= MAX_LEN);
                prop_assert_eq!(Control::decode(&again), Ok(control));
            }
        }
    }
}
