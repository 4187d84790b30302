//! The flow key: the 5-tuple that tells one flow's packets from another's.
//!
//! Source: burst-round-robin paper, 5.3; the 5-tuple is flow type 0 of the hybrid-gateways paper. There are three ways to
//! it: [`Key::of`] a packet whose lengths were checked, [`Key::read`] from bytes that a capture may have cut and an
//! offload may have left without lengths, and [`Key::plain`] from the first header alone. Behind IPv6 extension headers the protocol is the one that follows them.
//! Cost: one read of each header. Invariant: no bytes panic.

use crate::ip::{self, Extension, Header, Piece, Version};
use crate::packet::at;

/// Extension headers that [`Key::read`] looks behind.
const EXTENSION_HEADERS: usize = 8;

/// Addresses, protocol and ports of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// IPv4 or IPv6.
    pub version: Version,
    /// Source and destination, as they stand in the header.
    pub addresses: &'a [u8],
    /// What is behind the headers that were understood.
    pub protocol: u8,
    /// Source and destination port. In a fragmented datagram the first fragment alone has them.
    pub ports: Option<[u8; 4]>,
    /// Whether the packet is all of its datagram.
    pub piece: Piece,
}

impl<'a> Key<'a> {
    /// The key of the packet `bytes` whose header is `header`.
    #[inline]
    pub fn of(header: &Header, bytes: &'a [u8]) -> Key<'a> {
        let &Header { version, protocol, payload, piece, .. } = header;
        let ports = ports(bytes, payload, protocol, piece);
        let addresses = match version {
            Version::V4 => bytes.get(12..20),
            Version::V6 => bytes.get(8..40),
        };
        Key { version, addresses: addresses.unwrap_or(&[]), protocol, ports, piece }
    }

    /// The key of the packet that `bytes` begin with. Lengths in it are not believed. `None`: it has no whole IP header.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Key<'a>> {
        Key::read_to(bytes).map(|(key, _)| key)
    }

    /// That, and where in `bytes` what has its protocol begins, which may be behind their end.
    #[inline]
    pub fn read_to(bytes: &'a [u8]) -> Option<(Key<'a>, usize)> {
        match bytes.first()? >> 4 {
            4 => Key::read_v4(bytes),
            6 => Key::read_v6(bytes),
            _ => None,
        }
    }

    /// The key as it stands in the first header of the packet that `bytes` begin with, and nothing else: behind IPv6
    /// extension headers nothing is looked at, and of all protocols TCP and UDP alone have ports. `None`: the first header is not
    /// there whole.
    #[inline]
    pub fn plain(bytes: &'a [u8]) -> Option<Key<'a>> {
        let ports =
            |protocol, payload| if matches!(protocol, ip::TCP | ip::UDP) { at(bytes, payload).copied() } else { None };
        match bytes.first()? >> 4 {
            4 => {
                let header = bytes.first_chunk::<20>()?;
                let (payload, protocol) = (usize::from(header[0] & 15) * 4, header[9]);
                let piece = Piece::of_v4(u16::from_be_bytes([header[6], header[7]]));
                let ports = if piece == Piece::Later || payload < 20 { None } else { ports(protocol, payload) };
                Some(Key { version: Version::V4, addresses: &header[12..], protocol, ports, piece })
            }
            6 => {
                let header = bytes.first_chunk::<40>()?;
                let (protocol, piece) = (header[6], Piece::Whole);
                Some(Key { version: Version::V6, addresses: &header[8..], protocol, ports: ports(protocol, 40), piece })
            }
            _ => None,
        }
    }

    #[inline]
    fn read_v4(bytes: &'a [u8]) -> Option<(Key<'a>, usize)> {
        let header = bytes.first_chunk::<20>()?;
        let payload = usize::from(header[0] & 15) * 4;
        if payload < 20 {
            return None;
        }
        let (protocol, piece) = (header[9], Piece::of_v4(u16::from_be_bytes([header[6], header[7]])));
        let ports = ports(bytes, payload, protocol, piece);
        Some((Key { version: Version::V4, addresses: &header[12..], protocol, ports, piece }, payload))
    }

    #[inline]
    fn read_v6(bytes: &'a [u8]) -> Option<(Key<'a>, usize)> {
        let header = bytes.first_chunk::<40>()?;
        let (mut protocol, mut payload, mut piece) = (header[6], 40, Piece::Whole);
        for _ in 0..EXTENSION_HEADERS {
            let Some(extension) = at(bytes, payload).and_then(|head| Extension::read(protocol, *head)) else { break };
            let ends = extension.piece != Piece::Whole;
            (protocol, payload, piece) = (extension.next, payload + extension.length, piece.max(extension.piece));
            if ends {
                break; // what follows is the datagram's own, and in later fragments its middle
            }
        }
        let ports = ports(bytes, payload, protocol, piece);
        Some((Key { version: Version::V6, addresses: &header[8..], protocol, ports, piece }, payload))
    }
}

/// The four bytes of both ports, where the protocol has them and the packet, too.
#[inline]
fn ports(bytes: &[u8], payload: usize, protocol: u8, piece: Piece) -> Option<[u8; 4]> {
    let there = piece != Piece::Later && ip::has_ports(protocol);
    if there { at(bytes, payload).copied() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use proptest::prelude::*;

    #[test]
    fn a_whole_packet_has_one_key_whichever_way_it_is_read() {
        for packet in [testing::udp4(1, 2, 100, 200, &[1; 10]), testing::udp6(1, 2, 100, 200, &[1; 10])] {
            let key = Key::read(&packet).unwrap();
            assert_eq!(key, Key::of(&Header::parse(&packet, packet.len()).unwrap(), &packet));
            assert_eq!((key.protocol, key.ports, key.piece), (ip::UDP, Some([0, 100, 0, 200]), Piece::Whole));
        }
    }

    proptest! {
        #[test]
        fn a_key_lies_within_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..130), six in any::<bool>()) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() { *first = if six { 0x60 } else { 0x40 | (*first & 15) }; }
            if let Some(key) = Key::read(&bytes) {
                prop_assert_eq!(key.addresses.len(), if six { 32 } else { 8 });
                prop_assert!(key.ports.is_none() || ip::has_ports(key.protocol));
            }
        }
    }
}
