//! The inner packet: reading IPv4 and IPv6 headers, and the few things a tunnel must do to packets.

pub mod acknowledgement;
pub mod checksum;
pub mod ecn;
pub mod fragment;
pub mod icmp;
pub mod mss;

use crate::packet::at;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// ICMP over IPv4.
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// ICMP over IPv6.
pub(crate) const ICMPV6: u8 = 58;

/// Hop-by-hop options of IPv6.
pub const HOP_BY_HOP: u8 = 0;
/// A routing header of IPv6.
pub const ROUTING: u8 = 43;
/// A fragment header of IPv6.
pub const FRAGMENT: u8 = 44;
/// Destination options of IPv6.
pub const DESTINATION: u8 = 60;
const AUTHENTICATION: u8 = 51;
const SCTP: u8 = 132;
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;

/// Why bytes are not an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpError {
    /// Shorter than its header.
    #[error("IP header cut short at {have} bytes")]
    Truncated {
        /// The bytes there are.
        have: usize,
    },
    /// Neither version 4 nor 6.
    #[error("IP version {version}, where 4 or 6 is known")]
    Version {
        /// The first four bits.
        version: u8,
    },
    /// An IPv4 header length below 20 bytes.
    #[error("IPv4 header of {bytes} bytes, where at least 20 are needed")]
    HeaderLength {
        /// The length given.
        bytes: usize,
    },
    /// A total length that is less than the header or more than what is there.
    #[error("IP total length {claimed}, but the packet has {have} bytes")]
    TotalLength {
        /// The length in the header.
        claimed: usize,
        /// The bytes there are.
        have: usize,
    },
}

/// Which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Version {
    /// 4 or 6.
    pub const fn number(self) -> u8 {
        match self {
            Version::V4 => 4,
            Version::V6 => 6,
        }
    }
}

/// Whether a packet is all of a datagram. A datagram's later fragments are the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Piece {
    /// All of it.
    Whole,
    /// The first fragment: it has the transport header.
    First,
    /// A later fragment.
    Later,
}

impl Piece {
    /// By the flags and the offset of an IPv4 header.
    #[inline]
    pub(crate) const fn of_v4(place: u16) -> Piece {
        match (place & 0x1fff, place & 0x2000) {
            (0, 0) => Piece::Whole,
            (0, _) => Piece::First,
            _ => Piece::Later,
        }
    }
}

/// An IPv6 extension header (RFC 8200, section 4; RFC 4302, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The type of the header behind it.
    pub next: u8,
    /// Its length in bytes.
    pub length: usize,
    /// What it says of the datagram: other than whole in fragment headers alone.
    pub piece: Piece,
}

impl Extension {
    /// The header of type `kind` that begins with `head`; `None`: that type is no extension header, or is one that
    /// hides what follows it.
    #[inline]
    pub const fn read(kind: u8, head: [u8; 4]) -> Option<Extension> {
        let [next, length, high, low] = head;
        let (length, piece) = match kind {
            HOP_BY_HOP | ROUTING | DESTINATION => ((length as usize + 1) * 8, Piece::Whole),
            AUTHENTICATION => ((length as usize + 2) * 4, Piece::Whole),
            FRAGMENT => match u16::from_be_bytes([high, low]) & 0xfff9 {
                0 => (8, Piece::Whole),
                1 => (8, Piece::First),
                _ => (8, Piece::Later),
            },
            _ => return None,
        };
        Some(Extension { next, length, piece })
    }
}

/// Whether headers of this protocol begin with two ports.
#[inline]
pub(crate) const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP | DCCP | UDP_LITE)
}

/// The source address of an IP packet; `None` when it is too short or no IP packet. Nothing else in it is checked.
#[inline]
pub fn source(packet: &[u8]) -> Option<IpAddr> {
    address(packet, 12, 8)
}

/// The destination address of an IP packet; `None` when it is too short or no IP packet. Nothing else in it is checked.
#[inline]
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    address(packet, 16, 24)
}

/// Version and total length as the header says them; `None` when that is cut off or no IP packet. Nothing is checked.
#[inline]
pub fn length(packet: &[u8]) -> Option<(Version, usize)> {
    let word = |offset| at(packet, offset).map(|word| usize::from(u16::from_be_bytes(*word)));
    match packet.first()? >> 4 {
        4 => Some((Version::V4, word(2)?)),
        6 => Some((Version::V6, 40 + word(4)?)),
        _ => None,
    }
}

#[inline]
fn address(packet: &[u8], v4: usize, v6: usize) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => at::<4>(packet, v4).map(|octets| Ipv4Addr::from(*octets).into()),
        6 => at::<16>(packet, v6).map(|octets| Ipv6Addr::from(*octets).into()),
        _ => None,
    }
}

/// What the headers of a packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// IPv4 or IPv6.
    pub version: Version,
    /// The type of service or traffic class: DSCP and ECN.
    pub tos: u8,
    /// Header and payload, in bytes; what the packet has beyond it is padding.
    pub total: usize,
    /// The protocol behind the IP header and the extension headers that were understood.
    pub protocol: u8,
    /// Where that protocol's header starts. May be the packet's end.
    pub payload: usize,
    /// Whether it is all of its datagram.
    pub piece: Piece,
}

impl Header {
    /// Reads the headers of the packet `bytes`, which is `size` bytes long (more than `bytes.len()` only where a
    /// simulation leaves the payload out).
    ///
    /// # Errors
    /// Names what is wrong with it. IPv6 extension headers that are cut short are not an error: the walk ends there.
    #[inline]
    pub fn parse(bytes: &[u8], size: usize) -> Result<Header, IpError> {
        let Some(&first) = bytes.first() else { return Err(IpError::Truncated { have: 0 }) };
        match first >> 4 {
            4 => parse_v4(bytes, size),
            6 => parse_v6(bytes, size),
            version => Err(IpError::Version { version }),
        }
    }

    /// The four bytes of source and destination port, where the protocol has ports and the packet is no fragment.
    #[inline]
    pub fn ports(&self, bytes: &[u8]) -> Option<[u8; 4]> {
        if self.piece != Piece::Whole || !has_ports(self.protocol) {
            return None;
        }
        at(bytes, self.payload).copied()
    }
}

fn parse_v4(bytes: &[u8], size: usize) -> Result<Header, IpError> {
    let Some(b) = bytes.first_chunk::<20>() else { return Err(IpError::Truncated { have: bytes.len() }) };
    let header = usize::from(b[0] & 15) * 4;
    if header < 20 {
        return Err(IpError::HeaderLength { bytes: header });
    }
    if header > bytes.len() {
        return Err(IpError::Truncated { have: bytes.len() });
    }
    let total = usize::from(u16::from_be_bytes([b[2], b[3]]));
    if total < header || total > size.max(bytes.len()) {
        return Err(IpError::TotalLength { claimed: total, have: size });
    }
    Ok(Header {
        version: Version::V4,
        tos: b[1],
        total,
        protocol: b[9],
        payload: header,
        piece: Piece::of_v4(u16::from_be_bytes([b[6], b[7]])),
    })
}

fn parse_v6(bytes: &[u8], size: usize) -> Result<Header, IpError> {
    let Some(b) = bytes.first_chunk::<40>() else { return Err(IpError::Truncated { have: bytes.len() }) };
    let total = 40 + usize::from(u16::from_be_bytes([b[4], b[5]]));
    if total > size.max(bytes.len()) {
        return Err(IpError::TotalLength { claimed: total, have: size });
    }
    let mut header = Header {
        version: Version::V6,
        tos: b[0] << 4 | b[1] >> 4,
        total,
        protocol: b[6],
        payload: 40,
        piece: Piece::Whole,
    };
    // The walk ends: each step moves forward by at least eight bytes.
    while let Some(extension) = at(bytes, header.payload).and_then(|head| Extension::read(header.protocol, *head)) {
        header.piece = header.piece.max(extension.piece);
        if header.payload + extension.length > total.min(bytes.len()) {
            break;
        }
        header.payload += extension.length;
        header.protocol = extension.next;
        if header.piece == Piece::Later {
            break; // what follows is payload, not a header
        }
    }
    Ok(header)
}

/// Packets for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::checksum;
    use alloc::vec;
    use alloc::vec::Vec;

    /// A UDP datagram from 10.0.0.`a` to 10.0.0.`b`, both checksums right, identification 0, DF clear.
    pub(crate) fn udp4(a: u8, b: u8, from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, super::UDP, 0, 0, 10, 0, 0, a, 10, 0, 0, b];
        udp(&mut p, from, to, payload);
        let total = p.len() as u16;
        p[2..4].copy_from_slice(&total.to_be_bytes());
        seal4(&mut p);
        p
    }

    /// An acknowledgement of `number` from 10.0.0.1 to 10.0.0.2, or over IPv6, with these options; TCP's checksum is 0.
    pub(crate) fn ack(six: bool, number: u32, options: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0, 80, 1, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0x10, 2, 0, 0, 0, 0, 0];
        tcp[8..12].copy_from_slice(&number.to_be_bytes());
        tcp.extend_from_slice(options);
        while tcp.len() % 4 != 0 {
            tcp.push(1);
        }
        tcp[12] = ((tcp.len() / 4) << 4) as u8;
        let (mut p, at) = if six { (udp6(1, 2, 3, 4, &[]), 40) } else { (udp4(1, 2, 3, 4, &[]), 20) };
        p.truncate(at);
        p.extend_from_slice(&tcp);
        if six {
            p[6] = super::TCP;
            p[4..6].copy_from_slice(&(tcp.len() as u16).to_be_bytes());
        } else {
            p[9] = super::TCP;
            p[2..4].copy_from_slice(&(20 + tcp.len() as u16).to_be_bytes());
            seal4(&mut p);
        }
        p
    }

    /// A UDP datagram over IPv6.
    pub(crate) fn udp6(a: u8, b: u8, from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0u8; 40];
        (p[0], p[6], p[7], p[8], p[23], p[24], p[39]) = (0x60, super::UDP, 64, 0xfd, a, 0xfd, b);
        udp(&mut p, from, to, payload);
        let length = p.len() as u16 - 40;
        p[4..6].copy_from_slice(&length.to_be_bytes());
        p
    }

    fn udp(p: &mut Vec<u8>, from: u16, to: u16, payload: &[u8]) {
        p.extend_from_slice(&from.to_be_bytes());
        p.extend_from_slice(&to.to_be_bytes());
        p.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        p.extend_from_slice(&[0, 0]); // no UDP checksum
        p.extend_from_slice(payload);
    }

    /// Makes the IPv4 header checksum right.
    pub(crate) fn seal4(p: &mut [u8]) {
        p[10..12].copy_from_slice(&[0, 0]);
        let header = usize::from(p[0] & 15) * 4;
        let sum = checksum::of(&p[..header]);
        p[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn reads_the_plain_headers() {
        let p = testing::udp4(1, 2, 7, 9, &[0; 5]);
        let h = Header::parse(&p, p.len()).unwrap();
        assert_eq!((h.version, h.total, h.protocol, h.payload, h.piece), (Version::V4, 33, UDP, 20, Piece::Whole));
        assert_eq!(h.ports(&p), Some([0, 7, 0, 9]));
        let p = testing::udp6(1, 2, 7, 9, &[0; 5]);
        let h = Header::parse(&p, p.len()).unwrap();
        assert_eq!((h.version, h.total, h.protocol, h.payload, h.piece), (Version::V6, 53, UDP, 40, Piece::Whole));
        assert_eq!(h.ports(&p), Some([0, 7, 0, 9]));
    }

    #[test]
    fn walks_ipv6_extension_headers() {
        let inner = testing::udp6(1, 2, 7, 9, &[0; 5]);
        let mut p: Vec<u8> = inner[..40].to_vec();
        p[6] = HOP_BY_HOP;
        p.extend_from_slice(&[DESTINATION, 0, 1, 4, 0, 0, 0, 0]);
        p.extend_from_slice(&[AUTHENTICATION, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        p.extend_from_slice(&[UDP, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
        p.extend_from_slice(&inner[40..]);
        let length = (p.len() - 40) as u16;
        p[4..6].copy_from_slice(&length.to_be_bytes());
        let h = Header::parse(&p, p.len()).unwrap();
        assert_eq!((h.protocol, h.payload), (UDP, 40 + 8 + 16 + 12));
        assert_eq!(h.ports(&p), Some([0, 7, 0, 9]));
    }

    #[test]
    fn an_atomic_fragment_header_leaves_the_flow_whole() {
        let inner = testing::udp6(1, 2, 7, 9, &[0; 5]);
        for (place, piece) in [(0u16, Piece::Whole), (1, Piece::First), (0x10, Piece::Later)] {
            let mut p: Vec<u8> = inner[..40].to_vec();
            p[6] = FRAGMENT;
            p.extend_from_slice(&[UDP, 0, (place >> 8) as u8, place as u8, 0, 0, 0, 1]);
            p.extend_from_slice(&inner[40..]);
            let length = (p.len() - 40) as u16;
            p[4..6].copy_from_slice(&length.to_be_bytes());
            let h = Header::parse(&p, p.len()).unwrap();
            assert_eq!((h.piece, h.protocol), (piece, UDP));
            assert_eq!(h.ports(&p).is_some(), piece == Piece::Whole);
        }
    }

    #[test]
    fn names_what_is_wrong() {
        let good = testing::udp4(1, 2, 7, 9, &[0; 5]);
        assert_eq!(Header::parse(&[], 0), Err(IpError::Truncated { have: 0 }));
        assert_eq!(Header::parse(&good[..19], 19), Err(IpError::Truncated { have: 19 }));
        assert_eq!(Header::parse(&good[..32], 32), Err(IpError::TotalLength { claimed: 33, have: 32 }));
        let mut p = good.clone();
        p[0] = 0x44;
        assert_eq!(Header::parse(&p, p.len()), Err(IpError::HeaderLength { bytes: 16 }));
        p[0] = 0x55;
        assert_eq!(Header::parse(&p, p.len()), Err(IpError::Version { version: 5 }));
    }

    #[test]
    fn truncated_and_foreign_packets_have_no_address_and_no_length() {
        for bytes in [&[][..], &[0x45], &[0x45; 15], &[0x60; 23], &[0x20; 64]] {
            assert_eq!(source(bytes), None);
        }
        assert_eq!(destination(&[0x45; 20]), Some("69.69.69.69".parse().unwrap()));
        assert_eq!((length(&[0x45, 0, 1]), length(&[0x55; 40])), (None, None));
        assert_eq!(length(&[0x45, 0, 1, 2]), Some((Version::V4, 258)));
        assert_eq!(length(&[0x60, 0, 0, 0, 0, 2]), Some((Version::V6, 42)));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_within_bounds(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), six in any::<bool>()) {
            if let Some(first) = bytes.first_mut() { *first = if six { 0x60 | (*first & 15) } else { 0x40 | (*first & 15) }; }
            if let Ok(h) = Header::parse(&bytes, bytes.len()) {
                prop_assert!(h.total <= bytes.len());
                prop_assert!(h.payload <= bytes.len());
            }
        }
    }
}
