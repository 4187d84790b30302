//! Simulated packets as bytes: IPv4 with UDP or TCP, as a capture shows them and as core's bond reads them.
//!
//! Source: RFC 791, RFC 768, RFC 9293 section 3.1; options RFC 7323 and RFC 2018. Payloads are zeros, which add nothing to
//! a checksum (RFC 1071), so the headers alone are enough to make it right. Addresses tell flow and direction: the
//! sender of flow f is 10.0.0.0 + f, its receiver 10.128.0.0 + the 23 bits of f in reverse, so that hashes of both addresses
//! tell flows apart; the sender's port tells the connection, 1024 + c modulo 64,512. A datagram too short for a UDP header goes as protocol 253 (RFC 3692).
//!
//! What does not travel: the packet's number beyond 16 bits (the IP identification), its time, the connection beyond
//! the port.

use crate::packet::{Body, Packet};
use crate::tcp::segment::{Flags, Mark, Options, Segment};
use fairspan_core::ip::checksum;
use thiserror::Error;

/// Most bytes of headers: IPv4 without options, TCP with the most options.
pub const MOST_HEADERS: usize = 80;
/// Flows are numbered below this on the wire.
pub const MOST_FLOWS: u32 = 1 << 23;

const NETWORK: u32 = 10 << 24;
const IP: usize = 20;
const UDP: usize = 8;
const TCP_PROTOCOL: u8 = 6;
const UDP_PROTOCOL: u8 = 17;
const EXPERIMENT: u8 = 253;
const SERVER_PORT: u16 = 5001;
const PORTS: u32 = 64_512;

/// Why bytes are no packet of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Fewer bytes than the headers need.
    #[error("{have} bytes, the headers need {need}")]
    Truncated {
        /// Bytes there.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// No IPv4 with a header of 20 bytes.
    #[error("not IPv4 without options: the first byte is {first:#04x}")]
    Version {
        /// The first byte.
        first: u8,
    },
    /// Another protocol.
    #[error("protocol {found}; it must be 6 (TCP), 17 (UDP) or 253")]
    Protocol {
        /// What it is.
        found: u8,
    },
    /// Addresses that are not of one flow's two ends.
    #[error("the addresses {from:?} and {to:?} are not those of one flow's ends")]
    Addresses {
        /// Source.
        from: [u8; 4],
        /// Destination.
        to: [u8; 4],
    },
    /// A TCP header or an option of a length that cannot be.
    #[error("a TCP header of {found} bytes, or options that do not fill it")]
    Options {
        /// The header's length.
        found: usize,
    },
}

/// Writes the headers of `packet`: how many bytes they have. A packet shorter than its headers, or longer than IPv4
/// can say, gets a total length of zero, which no receiver takes.
pub fn headers(packet: &Packet, out: &mut [u8; MOST_HEADERS]) -> usize {
    let least = match &packet.body {
        Body::Segment(segment) => IP + segment.header_length() as usize,
        _ => IP,
    };
    let total = if (least..=0xffff).contains(&(packet.size as usize)) { packet.size as u16 } else { 0 };
    let udp = packet.size as usize >= IP + UDP;
    let protocol = match &packet.body {
        Body::Segment(_) => TCP_PROTOCOL,
        _ if udp => UDP_PROTOCOL,
        _ => EXPERIMENT,
    };
    let flow = packet.flow & (MOST_FLOWS - 1);
    let (mut from, mut to) = ((NETWORK | flow).to_be_bytes(), receiver(flow).to_be_bytes());
    let (mut source, mut destination) = ((1024 + packet.connection % PORTS) as u16, SERVER_PORT);
    if packet.reverse {
        (from, to) = (to, from);
        (source, destination) = (destination, source);
    }
    out[..IP].fill(0);
    let mark = if let Body::Segment(segment) = &packet.body { segment.mark } else { Mark::default() };
    (out[0], out[1]) = (0x45, packet.dscp << 2 | mark as u8);
    out[2..4].copy_from_slice(&total.to_be_bytes());
    out[4..6].copy_from_slice(&(packet.number as u16).to_be_bytes());
    out[6] = 0x40;
    (out[8], out[9]) = (64, protocol);
    out[12..16].copy_from_slice(&from);
    out[16..20].copy_from_slice(&to);
    let sum = checksum::of(&out[..IP]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    let transport = &mut out[IP..];
    let length = match &packet.body {
        Body::Segment(segment) => tcp(segment, transport),
        _ if udp => {
            transport[4..6].copy_from_slice(&(total.saturating_sub(IP as u16)).to_be_bytes());
            transport[6..8].fill(0);
            UDP
        }
        _ => return IP,
    };
    transport[..2].copy_from_slice(&source.to_be_bytes());
    transport[2..4].copy_from_slice(&destination.to_be_bytes());
    let at = if protocol == TCP_PROTOCOL { 16 } else { 6 };
    let sum = transport_sum(from, to, protocol, total.saturating_sub(IP as u16), &transport[..length]);
    // RFC 768: a sum of zero is sent as its other form.
    let sum = if sum == 0 && protocol == UDP_PROTOCOL { 0xffff } else { sum };
    transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    IP + length
}

/// The checksum over the pseudo-header and `header`, with a payload of zeros behind it.
fn transport_sum(from: [u8; 4], to: [u8; 4], protocol: u8, length: u16, header: &[u8]) -> u16 {
    let [high, low] = length.to_be_bytes();
    let mut pseudo = [0; 12 + MOST_HEADERS];
    pseudo[..4].copy_from_slice(&from);
    pseudo[4..8].copy_from_slice(&to);
    pseudo[8..12].copy_from_slice(&[0, protocol, high, low]);
    pseudo[12..12 + header.len()].copy_from_slice(header);
    checksum::of(&pseudo[..12 + header.len()])
}

/// Writes all of a TCP header but ports and checksum, which is left zero.
fn tcp(segment: &Segment, out: &mut [u8]) -> usize {
    let length = segment.header_length() as usize;
    out[4..8].copy_from_slice(&segment.sequence.to_be_bytes());
    out[8..12].copy_from_slice(&segment.acknowledgment.to_be_bytes());
    let [accurate, flags] = segment.flags.0.to_be_bytes();
    (out[12], out[13]) = (((length / 4) << 4) as u8 | accurate & 1, flags);
    out[14..16].copy_from_slice(&segment.window.to_be_bytes());
    // The checksum is filled in later.
    out[16..18].fill(0);
    out[18..20].copy_from_slice(&segment.urgent.to_be_bytes());
    // What the options leave of the last word are no-operations.
    out[20..length].fill(1);
    let mut at = 20;
    let mut option = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    let options = &segment.options;
    if let Some(mss) = options.mss {
        let [high, low] = mss.to_be_bytes();
        option(&[2, 4, high, low]);
    }
    if let Some((value, echo)) = options.timestamps {
        // What is left stands in front of them, as hosts lay them out (RFC 7323 appendix A).
        option(&[1; 3][..length - 20 - options.length() as usize]);
        option(&[8, 10]);
        option(&value.to_be_bytes());
        option(&echo.to_be_bytes());
    }
    if let Some(scale) = options.window_scale {
        option(&[3, 3, scale]);
    }
    if options.sack_permitted {
        option(&[4, 2]);
    }
    if options.sack_count > 0 {
        option(&[5, 2 + 8 * options.sack_count]);
        for (left, right) in &options.sack[..usize::from(options.sack_count.min(4))] {
            option(&left.to_be_bytes());
            option(&right.to_be_bytes());
        }
    }
    length
}

/// Appends the whole packet to `out`, its payload zeros.
pub fn encode(packet: &Packet, out: &mut Vec<u8>) {
    let mut bytes = [0; MOST_HEADERS];
    let length = headers(packet, &mut bytes);
    let begin = out.len();
    out.extend_from_slice(&bytes[..length]);
    out.resize(begin + length.max(packet.size as usize), 0);
}

/// What bytes tell of a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The flow, below [`MOST_FLOWS`].
    pub flow: u32,
    /// From receiver to sender.
    pub reverse: bool,
    /// The connection, below 64,512.
    pub connection: u32,
    /// The packet's number, its lowest 16 bits.
    pub number: u16,
    /// Length of the IP packet.
    pub size: u32,
    /// What it is.
    pub body: Body,
}

/// Reads the headers that [`headers`] wrote; payload may be missing.
///
/// # Errors
/// Names what is wrong first.
pub fn decode(bytes: &[u8]) -> Result<Decoded, WireError> {
    let short = |need| WireError::Truncated { have: bytes.len(), need };
    let ip = bytes.first_chunk::<IP>().ok_or(short(IP))?;
    if ip[0] != 0x45 {
        return Err(WireError::Version { first: ip[0] });
    }
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let from: [u8; 4] = [ip[12], ip[13], ip[14], ip[15]];
    let to: [u8; 4] = [ip[16], ip[17], ip[18], ip[19]];
    let (a, b) = (u32::from_be_bytes(from), u32::from_be_bytes(to));
    let reverse = a & MOST_FLOWS != 0;
    let (sender, other) = if reverse { (b, a) } else { (a, b) };
    let flow = sender & (MOST_FLOWS - 1);
    if sender != NETWORK | flow || other != receiver(flow) {
        return Err(WireError::Addresses { from, to });
    }
    let rest = &bytes[IP..];
    let (ports, body) = match ip[9] {
        TCP_PROTOCOL => {
            let mark = match ip[1] & 3 {
                0 => Mark::Incapable,
                1 => Mark::Scalable,
                3 => Mark::Experienced,
                _ => Mark::Capable,
            };
            (rest.first_chunk::<4>(), Body::Segment(Segment { mark, ..segment(rest, word(2))? }))
        }
        UDP_PROTOCOL => (Some(rest.first_chunk::<4>().ok_or(short(IP + UDP))?), Body::Datagram),
        EXPERIMENT => (None, Body::Datagram),
        found => return Err(WireError::Protocol { found }),
    };
    let port = |p: &[u8; 4]| u16::from_be_bytes(if reverse { [p[2], p[3]] } else { [p[0], p[1]] });
    Ok(Decoded {
        flow,
        reverse,
        connection: u32::from(ports.map_or(1024, port)).saturating_sub(1024),
        number: word(4),
        size: u32::from(word(2)),
        body,
    })
}

/// The address of a flow's receiver.
const fn receiver(flow: u32) -> u32 {
    NETWORK | MOST_FLOWS | flow.reverse_bits() >> 9
}

fn segment(tcp: &[u8], total: u16) -> Result<Segment, WireError> {
    let short = |need| WireError::Truncated { have: tcp.len() + IP, need };
    let fixed = tcp.first_chunk::<20>().ok_or(short(IP + 20))?;
    let length = usize::from(fixed[12] >> 4) * 4;
    let wrong = WireError::Options { found: length };
    if length < 20 || usize::from(total) < IP + length {
        return Err(wrong);
    }
    let mut options = tcp.get(20..length).ok_or(short(IP + length))?;
    let long = |b: &[u8]| b.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b));
    let mut read = Options::default();
    while let [kind, rest @ ..] = options {
        if *kind == 0 {
            break;
        }
        if *kind == 1 {
            options = rest;
            continue;
        }
        let size = rest.first().map_or(0, |n| usize::from(*n));
        let Some(value) = options.get(2..size).filter(|_| size >= 2) else { return Err(wrong) };
        match (*kind, value) {
            (2, [high, low]) => read.mss = Some(u16::from_be_bytes([*high, *low])),
            (3, [scale]) => read.window_scale = Some(*scale),
            (4, []) => read.sack_permitted = true,
            (8, value) if value.len() == 8 => read.timestamps = Some((long(value), long(&value[4..]))),
            (5, blocks) if blocks.len() % 8 == 0 && blocks.len() <= 32 => {
                for (to, block) in read.sack.iter_mut().zip(blocks.chunks_exact(8)) {
                    *to = (long(block), long(&block[4..]));
                }
                read.sack_count = (blocks.len() / 8) as u8;
            }
            (2 | 3 | 4 | 5 | 8, _) => return Err(wrong),
            _ => {}
        }
        options = &options[size..];
    }
    Ok(Segment {
        sequence: long(&fixed[4..]),
        acknowledgment: long(&fixed[8..]),
        length: u32::from(total) - (IP + length) as u32,
        flags: Flags(u16::from_be_bytes([fixed[12] & 1, fixed[13]])),
        window: u16::from_be_bytes([fixed[14], fixed[15]]),
        urgent: u16::from_be_bytes([fixed[18], fixed[19]]),
        mark: Mark::default(),
        options: read,
    })
}

/// The maximum segment size that a SYN among these headers names.
pub fn mss(bytes: &[u8]) -> Option<u16> {
    match decode(bytes).ok()?.body {
        Body::Segment(segment) => segment.options.mss,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::ip::Header;
    use fairspan_core::units::Time;
    use proptest::prelude::*;

    fn packet(body: Body, size: u32) -> Packet {
        let created = Time::ZERO;
        Packet { flow: 3, reverse: false, number: 7, size, created, connection: 2, step: 0, dscp: 0, body }
    }

    #[test]
    fn a_datagram_is_as_it_would_be_on_a_wire() {
        let mut bytes = vec![];
        encode(&packet(Body::Datagram, 30), &mut bytes);
        // The header's sum, bytes 10 and 11, is checked below.
        let mut expected = vec![0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 3, 10, 0xe0, 0, 0];
        // Ports 1026 and 5001, length 10, and the complement of
        // 0a00 + 0003 + 0ae0 + 0000 + 0011 + 000a + 0402 + 1389 + 000a = 2c93.
        expected.extend([4, 2, 0x13, 0x89, 0, 10, 0xd3, 0x6c, 0, 0]);
        assert_eq!(bytes[..10], expected[..10]);
        assert_eq!(bytes[12..], expected[12..]);
        assert_eq!(checksum::of(&bytes[..20]), 0);
    }

    #[test]
    fn what_cannot_be_an_ip_packet_is_taken_by_nobody() {
        for (body, size) in [
            (Body::Datagram, 19),
            (Body::Datagram, 65_536),
            (Body::Segment(Segment { length: 0, ..Segment::default() }), 39),
        ] {
            let mut bytes = [0; MOST_HEADERS];
            let length = headers(&packet(body, size), &mut bytes);
            assert!(Header::parse(&bytes[..length], size as usize).is_err());
        }
    }

    #[test]
    fn the_mss_of_a_syn_is_found_and_nothing_else_is_taken_for_it() {
        let mut segment = Segment { flags: Flags::SYN, ..Segment::default() };
        segment.options.mss = Some(1460);
        let bytes_of = |segment: &Segment| {
            let mut bytes = vec![];
            encode(&packet(Body::Segment(*segment), 20 + segment.header_length()), &mut bytes);
            bytes
        };
        assert_eq!(mss(&bytes_of(&segment)), Some(1460));
        segment.options.mss = None;
        assert_eq!(mss(&bytes_of(&segment)), None);
        assert_eq!(mss(&[]), None);
    }

    #[test]
    fn timestamps_alone_stand_behind_two_no_operations_as_hosts_write_them() {
        let mut segment = Segment { flags: Flags::ACK, ..Segment::default() };
        segment.options.timestamps = Some((3, 4));
        let mut bytes = vec![];
        encode(&packet(Body::Segment(segment), 52), &mut bytes);
        assert_eq!(bytes[40..], [1, 1, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4]);
    }

    fn options() -> impl Strategy<Value = Options> {
        let sack = (any::<[(u32, u32); 4]>(), 0u8..=4);
        (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), any::<Option<(u32, u32)>>(), sack).prop_map(
            |(mss, window_scale, sack_permitted, timestamps, (mut sack, count))| {
                // As many as fit the 40 bytes of options.
                let others = 4 * u8::from(mss.is_some())
                    + 3 * u8::from(window_scale.is_some())
                    + 2 * u8::from(sack_permitted)
                    + 10 * u8::from(timestamps.is_some());
                let sack_count = count.min((40 - others).saturating_sub(2) / 8);
                for block in &mut sack[usize::from(sack_count)..] {
                    *block = (0, 0);
                }
                Options { mss, window_scale, sack_permitted, timestamps, sack, sack_count }
            },
        )
    }

    proptest! {
        #[test]
        fn segments_survive_and_their_sums_are_right(
            fields in any::<(u32, u32, u16, u16, u16)>(), options in options(), length in 0u32..9000, flow in 0..MOST_FLOWS,
            reverse: bool, number: u64, connection in 0u32..PORTS,
            mark in proptest::sample::select(vec![Mark::Incapable, Mark::Scalable, Mark::Capable, Mark::Experienced]),
        ) {
            let (sequence, acknowledgment, window, flags, urgent) = fields;
            let segment = Segment { sequence, acknowledgment, length, flags: Flags(flags & 0x1ff), window, urgent, mark, options };
            let size = 20 + segment.header_length() + length;
            let body = Body::Segment(segment);
            let packet = Packet { flow, reverse, number, size, created: Time::ZERO, connection, step: 0, dscp: 46, body };
            let mut bytes = vec![];
            encode(&packet, &mut bytes);
            prop_assert_eq!(bytes.len(), size as usize);
            let expected = Decoded { flow, reverse, connection, number: number as u16, size, body };
            prop_assert_eq!(decode(&bytes), Ok(expected));
            prop_assert_eq!(checksum::of(&bytes[..20]), 0);
            let mut pseudo = bytes[12..20].to_vec();
            pseudo.extend([0, 6]);
            pseudo.extend((size as u16 - 20).to_be_bytes());
            pseudo.extend(&bytes[20..]);
            prop_assert_eq!(checksum::of(&pseudo), 0);
        }

        #[test]
        fn datagrams_survive(size in 20u32..65_536, flow in 0..MOST_FLOWS, reverse: bool, connection in 0u32..PORTS) {
            let body = Body::Datagram;
            let packet = Packet { flow, reverse, number: 9, size, created: Time::ZERO, connection, step: 0, dscp: 46, body };
            let mut bytes = vec![];
            encode(&packet, &mut bytes);
            let connection = if size < 28 { 0 } else { connection };
            prop_assert_eq!(decode(&bytes), Ok(Decoded { flow, reverse, connection, number: 9, size, body }));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120), like in any::<bool>()) {
            let mut bytes = bytes;
            if like && bytes.len() > 20 {
                bytes[0] = 0x45;
                bytes[9] = 6;
                bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 192, 0, 0]);
            }
            let _ = decode(&bytes);
        }
    }
}
