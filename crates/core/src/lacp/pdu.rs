//! LACPDUs and Marker PDUs, byte for byte.
//!
//! Source: IEEE 802.1AX-2014, 6.4.2 (LACPDU) and 6.5.3 (Marker PDU); Annex on Slow Protocols. All numbers are big-endian.
//! Every frame is 124 bytes without the check sequence:
//!
//! ```text
//! destination 0 (01:80:c2:00:00:02), source 6, EtherType 12 (0x8809), subtype 14 (1 LACP, 2 marker), version 15, then
//! TLVs of type 1, length 1 (counts these two), value; a terminator (type 0, length 0); zeros up to byte 124
//! actor (1), partner (2), length 20: system priority 2, system 6, key 2, port priority 2, port 2, state 1, zero 3
//! collector (3), length 16: max delay 2 (tens of microseconds), zero 12
//! marker (1), response (2), length 16: requester's port 2, requester's system 6, transaction 4, pad 2
//! ```
//!
//! Departures, by the standard's own rules for receivers: the version and reserved bytes are not looked at, TLVs of other
//! types are passed over by their lengths, their order is free. What a TLV of a known type says of its length must be right.

use crate::wire::mac::Mac;
use core::fmt;
use thiserror::Error;

/// Where LACPDUs and Marker PDUs are sent to; bridges do not forward it.
pub const SLOW_PROTOCOLS: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x02]);
/// The EtherType of LACPDUs and Marker PDUs.
pub const ETHER_TYPE: u16 = 0x8809;
/// How long the frames are that [`Pdu::encode`] makes, in bytes without the check sequence.
pub const FRAME_LEN: usize = 124;

const HEADER: usize = 14;
const LACP: u8 = 1;
const MARKER: u8 = 2;
const VERSION: u8 = 1;

const TERMINATOR: u8 = 0;
const ACTOR: u8 = 1;
const PARTNER: u8 = 2;
const COLLECTOR: u8 = 3;
const INFORMATION: u8 = 1;
const RESPONSE: u8 = 2;

const PORT_TLV: u8 = 20;
const COLLECTOR_TLV: u8 = 16;
const MARKER_TLV: u8 = 16;

/// The state of a port as LACPDUs carry it: a set of flags.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct State(pub u8);

impl State {
    /// It sends LACPDUs even to a partner that sends none.
    pub const ACTIVITY: State = State(1);
    /// It takes the partner for gone after 3 s without an LACPDU, not after 90 s.
    pub const TIMEOUT: State = State(2);
    /// It may be aggregated with other links.
    pub const AGGREGATION: State = State(4);
    /// It is attached to the right aggregator.
    pub const SYNCHRONIZATION: State = State(8);
    /// It takes frames that come.
    pub const COLLECTING: State = State(16);
    /// It sends frames.
    pub const DISTRIBUTING: State = State(32);
    /// What it knows of its partner is not from an LACPDU.
    pub const DEFAULTED: State = State(64);
    /// No LACPDU came in time.
    pub const EXPIRED: State = State(128);

    const NAMES: [&'static str; 8] =
        ["activity", "timeout", "aggregation", "synchronization", "collecting", "distributing", "defaulted", "expired"];

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: State) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// With `flags` set.
    #[must_use]
    pub const fn with(self, flags: State) -> State {
        State(self.0 | flags.0)
    }

    /// With `flags` not set.
    #[must_use]
    pub const fn without(self, flags: State) -> State {
        State(self.0 & !flags.0)
    }

    /// With `flags` set, or not.
    #[must_use]
    pub const fn put(self, flags: State, set: bool) -> State {
        if set { self.with(flags) } else { self.without(flags) }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (bit, name) in State::NAMES.iter().enumerate().filter(|(bit, _)| self.0 & 1 << bit != 0) {
            write!(f, "{before}{name}")?;
            before = if bit < 7 { "," } else { "" };
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a LACPDU says of one end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The system's priority; lower is higher.
    pub system_priority: u16,
    /// The system's address; zero where there is none.
    pub system: Mac,
    /// Ports of one key may be aggregated.
    pub key: u16,
    /// The port's priority; lower is higher.
    pub port_priority: u16,
    /// The port's number.
    pub port: u16,
    /// Its state.
    pub state: State,
}

/// A LACPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacpdu {
    /// The end that sent it.
    pub actor: PortInfo,
    /// The other end, as the sender knows it.
    pub partner: PortInfo,
    /// Longest that the sender holds a frame before it delivers it, in tens of microseconds.
    pub collector_max_delay: u16,
}

/// What a Marker PDU carries and its response repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The number of the port that asked.
    pub port: u16,
    /// The system that asked.
    pub system: Mac,
    /// Which of its markers.
    pub transaction: u32,
}

/// A frame of LACP or of the marker protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pdu {
    /// A LACPDU.
    Lacp(Lacpdu),
    /// A marker, to be answered.
    Marker(Marker),
    /// The answer to a marker.
    MarkerResponse(Marker),
}

/// Why a frame is no PDU of these protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PduError {
    /// It ends before the subtype and version.
    #[error("{len} bytes are no Slow Protocols frame; the header alone has 16")]
    Short {
        /// Its length in bytes.
        len: usize,
    },
    /// It is addressed to somebody else.
    #[error("the destination is {destination}; Slow Protocols frames go to {SLOW_PROTOCOLS}")]
    Destination {
        /// To whom.
        destination: Mac,
    },
    /// It is of another type.
    #[error("the EtherType is {ether_type:#06x}; that of Slow Protocols is {ETHER_TYPE:#06x}")]
    EtherType {
        /// Which one.
        ether_type: u16,
    },
    /// It is of another Slow Protocol.
    #[error("the subtype is {subtype}; 1 is LACP and 2 the marker protocol")]
    Subtype {
        /// Which one.
        subtype: u8,
    },
    /// A TLV of a known type says a length that it cannot have, or one of any type a length that does not count its head.
    #[error("the {tlv} TLV says a length of {length}; {right} would be right")]
    Length {
        /// Which one.
        tlv: &'static str,
        /// The length that it says.
        length: u8,
        /// The one that it has, or the least.
        right: u8,
    },
    /// The frame ends within a TLV.
    #[error("the frame ends {missing} bytes before the end of its {tlv} TLV")]
    Cut {
        /// Which one.
        tlv: &'static str,
        /// How many bytes are not there.
        missing: usize,
    },
    /// A TLV that must be there is not.
    #[error("there is no {tlv} TLV")]
    Missing {
        /// Which one.
        tlv: &'static str,
    },
    /// A TLV is there twice.
    #[error("there are two {tlv} TLVs; one would be right")]
    Twice {
        /// Which one.
        tlv: &'static str,
    },
}

/// Whether `frame`, from its Ethernet header, is for LACP or the marker protocol, right or wrong inside: what goes to
/// [`Lacp::handle_pdu`](super::Lacp::handle_pdu) and not to the host.
pub fn is_slow_protocol(frame: &[u8]) -> bool {
    frame.get(..6) == Some(&SLOW_PROTOCOLS.0) && frame.get(12..14) == Some(&ETHER_TYPE.to_be_bytes())
}

impl Pdu {
    /// Reads a frame from its Ethernet header.
    ///
    /// # Errors
    /// It is none of these protocols, or malformed.
    pub fn decode(frame: &[u8]) -> Result<Pdu, PduError> {
        let Some((head, body)) = frame.split_first_chunk::<HEADER>() else {
            return Err(PduError::Short { len: frame.len() });
        };
        let destination = Mac([head[0], head[1], head[2], head[3], head[4], head[5]]);
        if destination != SLOW_PROTOCOLS {
            return Err(PduError::Destination { destination });
        }
        let ether_type = u16::from_be_bytes([head[12], head[13]]);
        if ether_type != ETHER_TYPE {
            return Err(PduError::EtherType { ether_type });
        }
        match body {
            [LACP, _, tlvs @ ..] => lacpdu(tlvs).map(Pdu::Lacp),
            [MARKER, _, tlvs @ ..] => marker(tlvs),
            [subtype, _, ..] => Err(PduError::Subtype { subtype: *subtype }),
            _ => Err(PduError::Short { len: frame.len() }),
        }
    }

    /// The frame that `source` sends.
    pub fn encode(&self, source: Mac) -> [u8; FRAME_LEN] {
        let mut frame = Writer { bytes: [0; FRAME_LEN], at: 0 };
        frame.put(&SLOW_PROTOCOLS.0);
        frame.put(&source.0);
        frame.put(&ETHER_TYPE.to_be_bytes());
        match self {
            Pdu::Lacp(pdu) => {
                frame.put(&[LACP, VERSION]);
                frame.port(ACTOR, &pdu.actor);
                frame.port(PARTNER, &pdu.partner);
                frame.put(&[COLLECTOR, COLLECTOR_TLV]);
                frame.put(&pdu.collector_max_delay.to_be_bytes());
            }
            Pdu::Marker(marker) => frame.marker(INFORMATION, marker),
            Pdu::MarkerResponse(marker) => frame.marker(RESPONSE, marker),
        }
        frame.bytes
    }
}

struct Writer {
    bytes: [u8; FRAME_LEN],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn port(&mut self, tlv: u8, info: &PortInfo) {
        self.put(&[tlv, PORT_TLV]);
        self.put(&info.system_priority.to_be_bytes());
        self.put(&info.system.0);
        self.put(&info.key.to_be_bytes());
        self.put(&info.port_priority.to_be_bytes());
        self.put(&info.port.to_be_bytes());
        self.put(&[info.state.0, 0, 0, 0]);
    }

    fn marker(&mut self, tlv: u8, marker: &Marker) {
        self.put(&[MARKER, VERSION, tlv, MARKER_TLV]);
        self.put(&marker.port.to_be_bytes());
        self.put(&marker.system.0);
        self.put(&marker.transaction.to_be_bytes());
    }
}

fn lacpdu(tlvs: &[u8]) -> Result<Lacpdu, PduError> {
    let (mut actor, mut partner, mut collector) = (None, None, None);
    let name = |tlv| match tlv {
        ACTOR => ("actor", Some(PORT_TLV)),
        PARTNER => ("partner", Some(PORT_TLV)),
        COLLECTOR => ("collector", Some(COLLECTOR_TLV)),
        _ => ("unknown", None),
    };
    each_tlv(tlvs, name, |tlv, value| match tlv {
        ACTOR => once("actor", &mut actor, port_info(value)),
        PARTNER => once("partner", &mut partner, port_info(value)),
        COLLECTOR => once("collector", &mut collector, Some(u16_at(value, 0))),
        _ => Ok(()),
    })?;
    Ok(Lacpdu {
        actor: actor.ok_or(PduError::Missing { tlv: "actor" })?,
        partner: partner.ok_or(PduError::Missing { tlv: "partner" })?,
        collector_max_delay: collector.unwrap_or(0),
    })
}

fn marker(tlvs: &[u8]) -> Result<Pdu, PduError> {
    let mut found = None;
    let name = |tlv| match tlv {
        INFORMATION => ("marker", Some(MARKER_TLV)),
        RESPONSE => ("marker response", Some(MARKER_TLV)),
        _ => ("unknown", None),
    };
    each_tlv(tlvs, name, |tlv, value| {
        let marker = || {
            let transaction = u32::from(u16_at(value, 8)) << 16 | u32::from(u16_at(value, 10));
            Marker { port: u16_at(value, 0), system: mac_at(value, 2), transaction }
        };
        match tlv {
            INFORMATION => once("marker", &mut found, Some(Pdu::Marker(marker()))),
            RESPONSE => once("marker", &mut found, Some(Pdu::MarkerResponse(marker()))),
            _ => Ok(()),
        }
    })?;
    found.ok_or(PduError::Missing { tlv: "marker" })
}

/// Calls `take` with the type and value of each TLV up to the terminator.
fn each_tlv(
    mut rest: &[u8],
    name: impl Fn(u8) -> (&'static str, Option<u8>),
    mut take: impl FnMut(u8, &[u8]) -> Result<(), PduError>,
) -> Result<(), PduError> {
    loop {
        let (kind, length) = match rest {
            [] => return Err(PduError::Missing { tlv: "terminator" }),
            [TERMINATOR, ..] => return Ok(()),
            [kind] => return Err(PduError::Cut { tlv: name(*kind).0, missing: 1 }),
            [kind, length, ..] => (*kind, *length),
        };
        let (tlv, expected) = name(kind);
        if length < 2 || expected.is_some_and(|right| length != right) {
            return Err(PduError::Length { tlv, length, right: expected.unwrap_or(2) });
        }
        let Some((whole, after)) = rest.split_at_checked(usize::from(length)) else {
            return Err(PduError::Cut { tlv, missing: usize::from(length) - rest.len() });
        };
        take(kind, &whole[2..])?;
        rest = after;
    }
}

fn once<T>(tlv: &'static str, place: &mut Option<T>, value: Option<T>) -> Result<(), PduError> {
    if place.is_some() {
        return Err(PduError::Twice { tlv });
    }
    *place = value;
    Ok(())
}

fn port_info(value: &[u8]) -> Option<PortInfo> {
    Some(PortInfo {
        system_priority: u16_at(value, 0),
        system: mac_at(value, 2),
        key: u16_at(value, 8),
        port_priority: u16_at(value, 10),
        port: u16_at(value, 12),
        state: State(value.get(14).copied()?),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
}

fn mac_at(bytes: &[u8], at: usize) -> Mac {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(Mac::ZERO, |mac| Mac(*mac))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// A frame from its bytes up to the last that is not zero, in hexadecimal with spaces between its parts.
    fn frame(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("digits"), 16).expect("hexadecimal");
        let mut bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
        bytes.resize(FRAME_LEN, 0);
        bytes
    }

    // What the bonding driver of Linux 6.1.176 sent: mode 802.3ad over two links of 1 Gbit/s, towards a system
    // 02:fa:00:00:00:01. The second half has ad_actor_sys_prio 100, ad_actor_system 02:ab:cd:00:00:01, ad_user_port_key 77.
    const FIRST: &str = "0180c2000002 021100000001 8809 0101 0114 ffff 0211000000ff 0009 00ff 0001 c5 000000
        0214 ffff 000000000000 0001 00ff 0001 02 000000 0310";
    const SETTLED: &str = "0180c2000002 021100000002 8809 0101 0114 ffff 0211000000ff 0009 00ff 0002 3d 000000
        0214 ffff 02fa00000001 0009 00ff 0002 3f 000000 0310";
    const NAMED: &str = "0180c2000002 021100000001 8809 0101 0114 0064 02abcd000001 1349 00ff 0001 0f 000000
        0214 ffff 02fa00000001 0009 00ff 0001 1e 000000 0310";
    const ANSWER: &str = "0180c2000002 021100000001 8809 0201 0210 0001 02fa00000001 00000001";

    #[test]
    fn frames_of_the_kernel_read_as_they_are_and_are_written_the_same() {
        let own = PortInfo {
            system_priority: 0xffff,
            system: Mac([2, 0x11, 0, 0, 0, 0xff]),
            key: 9,
            port_priority: 255,
            port: 1,
            state: State(0xc5),
        };
        let nobody = PortInfo { system: Mac::ZERO, key: 1, state: State::TIMEOUT, ..own };
        let us = PortInfo { system: Mac([2, 0xfa, 0, 0, 0, 1]), key: 9, ..own };
        let named = PortInfo { system_priority: 100, system: Mac([2, 0xab, 0xcd, 0, 0, 1]), key: 77 << 6 | 9, ..own };
        let pdu = |actor, partner| Pdu::Lacp(Lacpdu { actor, partner, collector_max_delay: 0 });
        let of = |info: PortInfo, port, state| PortInfo { port, state: State(state), ..info };
        let cases = [
            (FIRST, 1, pdu(own, nobody)),
            (SETTLED, 2, pdu(of(own, 2, 0x3d), of(us, 2, 0x3f))),
            (NAMED, 1, pdu(of(named, 1, 0x0f), of(us, 1, 0x1e))),
            (ANSWER, 1, Pdu::MarkerResponse(Marker { port: 1, system: us.system, transaction: 1 })),
        ];
        for (text, source, expected) in cases {
            let bytes = frame(text);
            assert!(is_slow_protocol(&bytes));
            assert_eq!(Pdu::decode(&bytes), Ok(expected));
            assert_eq!(expected.encode(Mac([2, 0x11, 0, 0, 0, source]))[..], bytes[..]);
        }
    }

    #[test]
    fn versions_reserved_bytes_and_tlvs_of_other_types_are_not_looked_at() {
        let plain = frame(SETTLED);
        let expected = Pdu::decode(&plain);
        for version in [0, 2, 255] {
            let mut bytes = plain.clone();
            bytes[15] = version;
            bytes[33..36].fill(0xff);
            assert_eq!(Pdu::decode(&bytes), expected);
        }
        // Version 2's TLVs, between and behind those of version 1.
        let mut bytes = plain[..36].to_vec();
        bytes.extend([4, 6, 0, 0x80, 0xc2, 1, 9, 2]);
        bytes.extend(&plain[36..72]);
        bytes.extend([5, 20]);
        bytes.extend([7; 18]);
        bytes.extend([0, 0]);
        assert_eq!(Pdu::decode(&bytes), expected);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(Pdu::decode(&bytes), expected, "what follows the terminator's type is not looked at");
    }

    #[test]
    fn each_way_to_be_malformed_has_its_name() {
        let plain = frame(SETTLED);
        let with = |at: usize, value: u8| {
            let mut bytes = plain.clone();
            bytes[at] = value;
            Pdu::decode(&bytes)
        };
        let destination = Mac([0x01, 0x80, 0xc2, 0, 0, 3]);
        assert_eq!(with(5, 3), Err(PduError::Destination { destination }));
        assert_eq!(with(13, 8), Err(PduError::EtherType { ether_type: 0x8808 }));
        assert_eq!(with(14, 3), Err(PduError::Subtype { subtype: 3 }));
        assert_eq!(with(17, 19), Err(PduError::Length { tlv: "actor", length: 19, right: 20 }));
        assert_eq!(with(57, 0), Err(PduError::Length { tlv: "collector", length: 0, right: 16 }));
        assert_eq!(with(36, 9), Err(PduError::Missing { tlv: "partner" }));
        assert_eq!(with(16, 9), Err(PduError::Missing { tlv: "actor" }));
        assert_eq!(with(36, 1), Err(PduError::Twice { tlv: "actor" }));
        let unknown = |length| Err(PduError::Length { tlv: "unknown", length, right: 2 });
        let mut bytes = plain.clone();
        (bytes[72], bytes[73]) = (9, 1);
        assert_eq!(Pdu::decode(&bytes), unknown(1));
        (bytes[72], bytes[73]) = (9, 60);
        assert_eq!(Pdu::decode(&bytes), Err(PduError::Cut { tlv: "unknown", missing: 8 }));
        assert_eq!(Pdu::decode(&plain[..40]), Err(PduError::Cut { tlv: "partner", missing: 16 }));
        assert_eq!(Pdu::decode(&plain[..37]), Err(PduError::Cut { tlv: "partner", missing: 1 }));
        assert_eq!(Pdu::decode(&plain[..72]), Err(PduError::Missing { tlv: "terminator" }));
        assert_eq!(Pdu::decode(&plain[..15]), Err(PduError::Short { len: 15 }));
        let answer = frame(ANSWER);
        let mut both = answer[..32].to_vec();
        both.extend(&answer[16..]);
        assert_eq!(Pdu::decode(&both), Err(PduError::Twice { tlv: "marker" }));
        assert_eq!(Pdu::decode(&[&answer[..16], &[0]].concat()), Err(PduError::Missing { tlv: "marker" }));
    }

    #[test]
    fn a_state_is_told_in_words() {
        use alloc::string::ToString;
        assert_eq!(State(0x3d).to_string(), "activity,aggregation,synchronization,collecting,distributing");
        assert_eq!((State(0x80).to_string().as_str(), State(0).to_string().as_str()), ("expired", "none"));
    }

    proptest! {
        #[test]
        fn what_is_read_from_any_bytes_is_written_and_read_the_same(
            start in 0..5usize,
            changes in proptest::collection::vec((14..FRAME_LEN, any::<u8>()), 0..6),
            len in 0..=FRAME_LEN,
        ) {
            let mut bytes = [FIRST, SETTLED, NAMED, ANSWER].get(start).map_or_else(|| frame("0180c2000002 00 8809"), |text| frame(text));
            for (at, value) in changes {
                bytes[at] = value;
            }
            for bytes in [&bytes[..], &bytes[..len]] {
                if let Ok(pdu) = Pdu::decode(bytes) {
                    prop_assert_eq!(Pdu::decode(&pdu.encode(Mac::ZERO)), Ok(pdu));
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(is_slow_protocol(&bytes) || Pdu::decode(&bytes).is_err());
        }
    }
}
