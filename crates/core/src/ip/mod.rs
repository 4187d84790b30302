//! The inner packet: reading IPv4 and IPv6 headers, and the few things a tunnel must do to packets.

pub mod checksum;
pub mod ecn;
pub mod fragment;
pub mod icmp;
pub mod mss;

/// ICMP over IPv4.
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// ICMP over IPv6.
pub const ICMPV6: u8 = 58;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
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
    /// Part of a fragmented packet, the first part included.
    pub fragment: bool,
    /// A part other than the first: it has no transport header.
    pub later_fragment: bool,
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
        if self.fragment || !matches!(self.protocol, TCP | UDP | SCTP | DCCP | UDP_LITE) {
            return None;
        }
        bytes.get(self.payload..)?.first_chunk::<4>().copied()
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
    let place = u16::from_be_bytes([b[6], b[7]]);
    Ok(Header {
        version: Version::V4,
        tos: b[1],
        total,
        protocol: b[9],
        payload: header,
        fragment: place & 0x3fff != 0,
        later_fragment: place & 0x1fff != 0,
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
        fragment: false,
        later_fragment: false,
    };
    // The walk ends: each step moves forward by at least eight bytes.
    while let HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION = header.protocol {
        let Some(&[next, length, high, low]) = bytes.get(header.payload..).and_then(|rest| rest.first_chunk::<4>())
        else {
            break;
        };
        let length = match header.protocol {
            FRAGMENT => {
                let place = u16::from_be_bytes([high, low]);
                header.fragment |= place & 0xfff9 != 0;
                header.later_fragment |= place & 0xfff8 != 0;
                8
            }
            AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        if header.payload + length > total.min(bytes.len()) {
            break;
        }
        header.payload += length;
        header.protocol = next;
        if header.later_fragment {
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
        assert_eq!((h.version, h.total, h.protocol, h.payload, h.fragment), (Version::V4, 33, UDP, 20, false));
        assert_eq!(h.ports(&p), Some([0, 7, 0, 9]));
        let p = testing::udp6(1, 2, 7, 9, &[0; 5]);
        let h = Header::parse(&p, p.len()).unwrap();
        assert_eq!((h.version, h.total, h.protocol, h.payload, h.fragment), (Version::V6, 53, UDP, 40, false));
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
        for (place, fragment, later) in [(0u16, false, false), (1, true, false), (0x10, true, true)] {
            let mut p: Vec<u8> = inner[..40].to_vec();
            p[6] = FRAGMENT;
            p.extend_from_slice(&[UDP, 0, (place >> 8) as u8, place as u8, 0, 0, 0, 1]);
            p.extend_from_slice(&inner[40..]);
            let length = (p.len() - 40) as u16;
            p[4..6].copy_from_slice(&length.to_be_bytes());
            let h = Header::parse(&p, p.len()).unwrap();
            assert_eq!((h.fragment, h.later_fragment, h.protocol), (fragment, later, UDP));
            assert_eq!(h.ports(&p).is_some(), !fragment);
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

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_within_bounds(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), six in any::<bool>()) {
            if let Some(first) = bytes.first_mut() { *first = if six { 0x60 | (*first & 15) } else { 0x40 | (*first & 15) }; }
            if let Ok(h) = Header::parse(&bytes, bytes.len()) {
                prop_assert!(h.total <= bytes.len());
                prop_assert!(h.payload <= bytes.len());
                prop_assert!(!h.later_fragment || h.fragment);
            }
        }
    }
}
