//! Control frames about the ring itself, byte for byte: keepalives between neighbours and reports to all.
//!
//! Source: IEEE 802.17, clause 11 (topology discovery and protection): what a station tells of itself; the layout is ours.
//! All numbers are big-endian. Every control frame begins alike:
//!
//! ```text
//!  0          1        2                 4                                   8
//! +----------+--------+-----------------+-----------------------------------+
//! |ver | kind|  node  | length in bytes | CRC-32C, itself taken as zero     |
//! +----------+--------+-----------------+-----------------------------------+
//! 4 keepalive: nodes 8, flags 9 (1: sent over the sender's east link), neighbour's number as heard 10, zero 11,
//!              instance 12, number 16, heard: instance 20 (0: none), its number 24; settings 28, nominal 32; 40 bytes
//! 3 report:    nodes 8, ttl 9, flags 10 (1, 2: the link east, west is up), reservations 11, instance 12, sequence 16 (8),
//!              instance heard east 24, west 28, capacity east 32, west 40, weight 48, length of the announcement 52, zero 54;
//!              56 bytes; then of each reservation: egress (0: any), class (0 A, 1 B), rate (8); then the announcement
//! ```
//!
//! `node` is the frame's first sender: the neighbour itself, or the node that a report is about. What follows the length
//! is ignored: Ethernet pads short frames.

use super::checksum::Crc32c;
use super::{Class, MOST_NODES, NodeId};
use crate::units::Rate;
use alloc::vec::Vec;
use thiserror::Error;

/// The version of all frames between ring nodes, in the first byte's upper half.
pub const VERSION: u8 = 1;
/// Bytes that every control frame begins with.
pub const HEAD_LEN: usize = 8;
/// Most reservations that a node may make.
pub const MOST_RESERVATIONS: usize = 64;
/// Longest announcement in bytes.
pub const MOST_ANNOUNCED: usize = 512;

pub(super) const KEEPALIVE_LEN: usize = 40;
pub(super) const REPORT_LEN: usize = 56;
const RESERVATION_LEN: usize = 10;

/// The kind of a control frame, in the first byte's lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A fairness algorithm's message, whose layout is the algorithm's.
    Fairness = 2,
    /// [`Report`].
    Report = 3,
    /// [`Keepalive`].
    Keepalive = 4,
}

/// "I am here, and this is what I hear of you": from neighbour to neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The sender.
    pub node: NodeId,
    /// How many nodes the ring has, as the sender is told.
    pub nodes: u8,
    /// Whether it was sent over the sender's east link.
    pub east: bool,
    /// A random number of the sender's process, never 0.
    pub instance: u32,
    /// Counts the sender's keepalives on this link.
    pub number: u32,
    /// What the sender hears on this link.
    pub heard: Option<Heard>,
    /// [`digest`] of the settings that must be alike at all nodes.
    pub settings: u32,
    /// The rate that shares refer to.
    pub nominal: Rate,
}

/// What a node hears of its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The neighbour.
    pub node: NodeId,
    /// Its instance.
    pub instance: u32,
    /// The number of its latest keepalive.
    pub number: u32,
}

/// What a node tells the whole ring of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The node that it is about, which made it.
    pub node: NodeId,
    /// How many nodes the ring has.
    pub nodes: u8,
    /// Links that it may still cross, 1 at least.
    pub ttl: u8,
    /// The node's instance.
    pub instance: u32,
    /// Counts the node's reports. The larger is the newer.
    pub sequence: u64,
    /// Its links, by [`Side::index`](super::Side::index).
    pub links: [Link; 2],
    /// Its weight in thousandths, 1 at least.
    pub weight: u32,
    /// What it reserves, at most [`MOST_RESERVATIONS`].
    pub reservations: Vec<Reservation>,
    /// What its driver tells those of other nodes, at most [`MOST_ANNOUNCED`] bytes.
    pub announcement: Vec<u8>,
}

/// One of a node's two links, as the node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Whether it may carry packets, as far as the node can tell.
    pub up: bool,
    /// The instance of the neighbour that it hears there. `None`: nobody, or it does not listen for one.
    pub heard: Option<u32>,
    /// What the link carries towards the neighbour.
    pub capacity: Rate,
}

/// A rate that a node reserves for its own traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reservation {
    /// The egress. `None`: any; then it counts on every link.
    pub to: Option<NodeId>,
    /// [`Class::A`] or [`Class::B`]; best effort reserves nothing.
    pub class: Class,
    /// How much, with all that is added to a packet.
    pub rate: Rate,
}

/// Why bytes are not such a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Too short.
    #[error("{have} bytes where {need} are needed")]
    Truncated {
        /// How many there are.
        have: usize,
        /// How many it takes.
        need: usize,
    },
    /// Another version or kind.
    #[error("first byte {found:#04x} where version {VERSION} and kind 3 or 4 belong")]
    Kind {
        /// The first byte.
        found: u8,
    },
    /// Turned bits.
    #[error("checksum {found:#010x} where the bytes have {computed:#010x}")]
    Checksum {
        /// What the frame says.
        found: u32,
        /// What it should say.
        computed: u32,
    },
    /// A length that the kind cannot have.
    #[error("a length of {found} bytes, which this kind cannot have")]
    Length {
        /// What the frame says.
        found: u16,
    },
    /// A field whose value means nothing.
    #[error("{field} cannot be {found}")]
    Field {
        /// Which.
        field: &'static str,
        /// Its value.
        found: u64,
    },
}

/// A number for a text of settings, so that neighbours can tell whether theirs are alike.
pub fn digest(settings: &str) -> u32 {
    Crc32c::new().with(settings.as_bytes()).sum()
}

/// Begins a control frame in `out`, which must be empty: [`HEAD_LEN`] bytes, to be completed by [`seal`].
pub fn begin(out: &mut Vec<u8>, kind: Kind, node: NodeId) {
    debug_assert!(out.is_empty());
    out.extend_from_slice(&[VERSION << 4 | kind as u8, node.number(), 0, 0, 0, 0, 0, 0]);
}

/// Completes a control frame: its length and checksum.
///
/// # Panics
/// If `frame` was not begun, or has more than 65,535 bytes.
pub fn seal(frame: &mut [u8]) {
    let length = u16::try_from(frame.len()).expect("a control frame is short");
    frame[2..4].copy_from_slice(&length.to_be_bytes());
    frame[4..8].fill(0);
    let sum = Crc32c::new().with(frame).sum();
    frame[4..8].copy_from_slice(&sum.to_be_bytes());
}

/// A control frame's kind, first sender and what follows the first [`HEAD_LEN`] bytes; checked: version, length, checksum.
///
/// # Errors
/// What is wrong with it.
pub fn open(frame: &[u8]) -> Result<(Kind, NodeId, &[u8]), DecodeError> {
    let truncated = |need| DecodeError::Truncated { have: frame.len(), need };
    let head: &[u8; HEAD_LEN] = frame.first_chunk().ok_or(truncated(HEAD_LEN))?;
    let [first, node, high, low, sum @ ..] = *head;
    let kind = [Kind::Fairness, Kind::Report, Kind::Keepalive].into_iter().find(|&k| VERSION << 4 | k as u8 == first);
    let kind = kind.ok_or(DecodeError::Kind { found: first })?;
    let length = u16::from_be_bytes([high, low]);
    let frame = frame.get(..usize::from(length)).ok_or(truncated(usize::from(length)))?;
    let body = frame.get(HEAD_LEN..).ok_or(DecodeError::Length { found: length })?;
    let (found, computed) =
        (u32::from_be_bytes(sum), Crc32c::new().with(&[first, node, high, low, 0, 0, 0, 0]).with(body).sum());
    if found != computed {
        return Err(DecodeError::Checksum { found, computed });
    }
    let node = NodeId::new(node).ok_or(DecodeError::Field { field: "node", found: 0 })?;
    Ok((kind, node, body))
}

/// What [`open`] took apart, if it is of these kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// See [`Keepalive`].
    Keepalive(Keepalive),
    /// See [`Report`].
    Report(Report),
}

impl Message {
    /// Reads a frame that [`open`] took apart.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(kind: Kind, node: NodeId, body: &[u8]) -> Result<Message, DecodeError> {
        match kind {
            Kind::Fairness => Err(DecodeError::Kind { found: VERSION << 4 | kind as u8 }),
            Kind::Keepalive => Keepalive::decode(node, body).map(Message::Keepalive),
            Kind::Report => Report::decode(node, body).map(Message::Report),
        }
    }
}

impl Keepalive {
    /// Writes the whole frame into `out`, which must be empty.
    pub fn encode(&self, out: &mut Vec<u8>) {
        begin(out, Kind::Keepalive, self.node);
        let heard = self.heard.map_or((0, 0, 0), |heard| (heard.node.number(), heard.instance, heard.number));
        out.extend_from_slice(&[self.nodes, u8::from(self.east), heard.0, 0]);
        for word in [self.instance, self.number, heard.1, heard.2, self.settings] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&self.nominal.as_bits_per_sec().to_be_bytes());
        seal(out);
    }

    fn decode(node: NodeId, body: &[u8]) -> Result<Keepalive, DecodeError> {
        let mut body = Reader::new(body, KEEPALIVE_LEN)?;
        let [nodes, flags, heard, zero] = body.bytes();
        let [instance, number, heard_instance, heard_number, settings] = [(); 5].map(|()| body.u32());
        let nominal = body.u64();
        body.end()?;
        check("the number of nodes", nodes, (2..=MOST_NODES).contains(&usize::from(nodes)))?;
        check("flags", flags, flags <= 1)?;
        check("a reserved byte", zero, zero == 0)?;
        check("the instance", instance, instance != 0)?;
        check("the nominal rate", nominal, nominal > 0)?;
        let heard = NodeId::new(heard).map(|node| Heard { node, instance: heard_instance, number: heard_number });
        check("the instance heard", heard_instance, heard.is_some() == (heard_instance != 0))?;
        check("the number heard", heard_number, heard.is_some() || heard_number == 0)?;
        let nominal = Rate::from_bits_per_sec(nominal);
        Ok(Keepalive { node, nodes, east: flags == 1, instance, number, heard, settings, nominal })
    }
}

impl Report {
    /// Writes the whole frame into `out`, which must be empty.
    ///
    /// # Panics
    /// With more reservations or a longer announcement than there may be.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.reservations.len() <= MOST_RESERVATIONS && self.announcement.len() <= MOST_ANNOUNCED);
        let [east, west] = self.links;
        begin(out, Kind::Report, self.node);
        let flags = u8::from(east.up) | u8::from(west.up) << 1;
        out.extend_from_slice(&[self.nodes, self.ttl, flags, self.reservations.len() as u8]);
        out.extend_from_slice(&self.instance.to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        for link in self.links {
            out.extend_from_slice(&link.heard.unwrap_or(0).to_be_bytes());
        }
        for link in self.links {
            out.extend_from_slice(&link.capacity.as_bits_per_sec().to_be_bytes());
        }
        out.extend_from_slice(&self.weight.to_be_bytes());
        out.extend_from_slice(&(self.announcement.len() as u16).to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        for one in &self.reservations {
            out.extend_from_slice(&[one.to.map_or(0, NodeId::number), u8::from(one.class == Class::B)]);
            out.extend_from_slice(&one.rate.as_bits_per_sec().to_be_bytes());
        }
        out.extend_from_slice(&self.announcement);
        seal(out);
    }

    fn decode(node: NodeId, body: &[u8]) -> Result<Report, DecodeError> {
        let mut body = Reader::new(body, REPORT_LEN)?;
        let [nodes, ttl, flags, count] = body.bytes();
        let (instance, sequence) = (body.u32(), body.u64());
        let heard = [(); 2].map(|()| body.u32());
        let capacity = [(); 2].map(|()| Rate::from_bits_per_sec(body.u64()));
        let weight = body.u32();
        let announced = u16::from_be_bytes(body.bytes());
        let zero = u16::from_be_bytes(body.bytes());
        check("the number of nodes", nodes, (2..=MOST_NODES).contains(&usize::from(nodes)))?;
        check("the node", node.number(), node.number() <= nodes)?;
        check("the time to live", ttl, ttl > 0)?;
        check("flags", flags, flags <= 3)?;
        check("the number of reservations", count, usize::from(count) <= MOST_RESERVATIONS)?;
        check("the instance", instance, instance != 0)?;
        check("the weight", weight, weight > 0)?;
        check("the announcement's length", announced, usize::from(announced) <= MOST_ANNOUNCED)?;
        check("a reserved field", zero, zero == 0)?;
        body.need(RESERVATION_LEN * usize::from(count) + usize::from(announced))?;
        let mut reservations = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let ([to, class], rate) = (body.bytes(), Rate::from_bits_per_sec(body.u64()));
            check("a reservation's egress", to, to <= nodes)?;
            check("a reservation's class", class, class <= 1)?;
            let class = if class == 0 { Class::A } else { Class::B };
            reservations.push(Reservation { to: NodeId::new(to), class, rate });
        }
        let announcement = body.take(usize::from(announced)).to_vec();
        body.end()?;
        let link = |side: usize| Link {
            up: flags >> side & 1 == 1,
            heard: Some(heard[side]).filter(|&instance| instance != 0),
            capacity: capacity[side],
        };
        let links = [link(0), link(1)];
        Ok(Report { node, nodes, ttl, instance, sequence, links, weight, reservations, announcement })
    }
}

fn check(field: &'static str, found: impl Into<u64>, right: bool) -> Result<(), DecodeError> {
    if right { Ok(()) } else { Err(DecodeError::Field { field, found: found.into() }) }
}

/// A frame's body whose length was found enough before it is read.
struct Reader<'a> {
    rest: &'a [u8],
    length: u16,
}

impl<'a> Reader<'a> {
    fn new(body: &'a [u8], least: usize) -> Result<Reader<'a>, DecodeError> {
        let reader = Reader { rest: body, length: (body.len() + HEAD_LEN) as u16 };
        reader.need(least - HEAD_LEN)?;
        Ok(reader)
    }

    fn need(&self, bytes: usize) -> Result<(), DecodeError> {
        if self.rest.len() < bytes { Err(DecodeError::Length { found: self.length }) } else { Ok(()) }
    }

    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap_or([0; N])
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes())
    }

    fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Length { found: self.length }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    fn keepalive() -> Keepalive {
        Keepalive {
            node: node(3),
            nodes: 8,
            east: true,
            instance: 0xdead_beef,
            number: 0x0102_0304,
            heard: Some(Heard { node: node(4), instance: 7, number: 0xffff_ffff }),
            settings: 0x1122_3344,
            nominal: Rate::from_mbit(100),
        }
    }

    fn report() -> Report {
        Report {
            node: node(3),
            nodes: 8,
            ttl: 5,
            instance: 0xdead_beef,
            sequence: 0x0102_0304_0506,
            links: [
                Link { up: true, heard: Some(9), capacity: Rate::from_mbit(100) },
                Link { up: false, heard: None, capacity: Rate::from_mbit(42) },
            ],
            weight: 1500,
            reservations: vec![
                Reservation { to: Some(node(5)), class: Class::A, rate: Rate::from_mbit(10) },
                Reservation { to: None, class: Class::B, rate: Rate::from_mbit(1) },
            ],
            announcement: b"fd00::3".to_vec(),
        }
    }

    fn decode(frame: &[u8]) -> Result<Message, DecodeError> {
        open(frame).and_then(|(kind, node, body)| Message::decode(kind, node, body))
    }

    #[test]
    fn a_keepalive_is_these_bytes() {
        let mut out = vec![];
        keepalive().encode(&mut out);
        let expected = [
            0x14, 3, 0, 40, 0x59, 0x3c, 0xe4, 0xbc, // version and kind, node, length, checksum
            8, 1, 4, 0, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, // nodes, flags, heard node, instance, number
            0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0x11, 0x22, 0x33, 0x44, // heard instance, its number, settings
            0, 0, 0, 0, 0x05, 0xf5, 0xe1, 0x00, // nominal
        ];
        assert_eq!(out, expected);
        assert_eq!(decode(&out), Ok(Message::Keepalive(keepalive())));
    }

    #[test]
    fn a_report_is_these_bytes() {
        let mut out = vec![];
        report().encode(&mut out);
        let expected = [
            0x13, 3, 0, 83, 0xb8, 0xa4, 0xd4, 0x47, 8, 5, 1, 2, 0xde, 0xad, 0xbe,
            0xef, // nodes, ttl, flags, reservations, instance
            0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 9, 0, 0, 0, 0, // sequence, instances heard
            0, 0, 0, 0, 0x05, 0xf5, 0xe1, 0x00, 0, 0, 0, 0, 0x02, 0x80, 0xde, 0x80, // capacities
            0, 0, 0x05, 0xdc, 0, 7, 0, 0, // weight, length of the announcement
            5, 0, 0, 0, 0, 0, 0x00, 0x98, 0x96, 0x80, 0, 1, 0, 0, 0, 0, 0x00, 0x0f, 0x42, 0x40, // reservations
            b'f', b'd', b'0', b'0', b':', b':', b'3',
        ];
        assert_eq!(out, expected);
        out.extend([0; 20]);
        assert_eq!(decode(&out), Ok(Message::Report(report())), "padding behind the length is ignored");
    }

    #[test]
    fn every_single_bit_that_turns_is_found() {
        for keep in [true, false] {
            let mut out = vec![];
            if keep {
                keepalive().encode(&mut out)
            } else {
                report().encode(&mut out)
            }
            for bit in 0..out.len() * 8 {
                out[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&out).is_err(), "bit {bit}");
                out[bit / 8] ^= 1 << (bit % 8);
            }
            for short in 0..out.len() {
                assert!(decode(&out[..short]).is_err(), "{short} bytes");
            }
        }
    }

    #[test]
    fn fields_that_mean_nothing_are_refused_by_name() {
        let refused = |at: usize, value: u8| {
            let mut out = vec![];
            report().encode(&mut out);
            out[at] = value;
            seal(&mut out);
            match decode(&out) {
                Err(DecodeError::Field { field, .. }) => field,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(1, 0), "node");
        assert_eq!(refused(1, 9), "the node");
        assert_eq!(refused(8, 1), "the number of nodes");
        assert_eq!(refused(9, 0), "the time to live");
        assert_eq!(refused(10, 4), "flags");
        assert_eq!(refused(11, 65), "the number of reservations");
        assert_eq!(refused(52, 3), "the announcement's length");
        assert_eq!(refused(55, 1), "a reserved field");
        assert_eq!(refused(56, 9), "a reservation's egress");
        assert_eq!(refused(57, 2), "a reservation's class");
        for message in [Report { weight: 0, ..report() }, Report { instance: 0, ..report() }] {
            let mut out = vec![];
            message.encode(&mut out);
            let field = if message.weight == 0 { "the weight" } else { "the instance" };
            assert_eq!(decode(&out), Err(DecodeError::Field { field, found: 0 }));
        }
        let mut out = vec![];
        Keepalive { nominal: Rate::default(), ..keepalive() }.encode(&mut out);
        assert_eq!(decode(&out), Err(DecodeError::Field { field: "the nominal rate", found: 0 }));
        let fairness = Message::decode(Kind::Fairness, node(3), &[]);
        assert_eq!(fairness, Err(DecodeError::Kind { found: 0x12 }), "its layout is the algorithm's");
    }

    #[test]
    fn a_frame_that_is_longer_or_shorter_than_its_kind_is_refused_for_its_length() {
        let (mut keep, mut told) = (vec![], vec![]);
        keepalive().encode(&mut keep);
        report().encode(&mut told);
        for whole in [keep, told] {
            for length in (HEAD_LEN..whole.len()).chain([whole.len() + 1]) {
                let mut out = whole.clone();
                out.resize(length, 0);
                seal(&mut out);
                assert_eq!(decode(&out), Err(DecodeError::Length { found: length as u16 }));
            }
        }
    }

    #[test]
    fn settings_are_told_apart_by_their_crc_32c() {
        assert_eq!(digest("123456789"), 0xe306_9283, "the check value of RFC 3720");
        assert_ne!(digest("dvsr Steer 1000000"), digest("dvsr Wrap 1000000"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_that_encodes_to_itself_or_an_error(
            kind in 0u8..6, node in 0u8..12, mut body in proptest::collection::vec(0u8..9, 0..200), any in any::<Vec<u8>>(),
        ) {
            let _ = decode(&any);
            let mut frame = vec![VERSION << 4 | kind, node, 0, 0, 0, 0, 0, 0];
            if kind == 3 && body.len() > 50 {
                body[2] &= 3;
                body[3] &= 3;
                body[46..48].fill(0);
            }
            frame.extend(body);
            seal(&mut frame);
            if let Ok(message) = decode(&frame) {
                let mut again = vec![];
                match &message {
                    Message::Keepalive(message) => message.encode(&mut again),
                    Message::Report(report) => report.encode(&mut again),
                }
                prop_assert_eq!(again, frame);
            }
        }
    }
}
