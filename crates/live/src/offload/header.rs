//! Where the headers of an IP packet are, and the header that the TUN puts before it.
//!
//! Sources: RFC 791, RFC 8200 section 4 (extension headers); virtio 1.2 section 5.1.6 (`virtio_net_hdr`).

use fairspan_core::ip::{self, Extension};
use fairspan_core::packet::at;

pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;

pub(crate) const TCP_FIN: u8 = 0x01;
pub(crate) const TCP_SYN: u8 = 0x02;
pub(crate) const TCP_RST: u8 = 0x04;
pub(crate) const TCP_PSH: u8 = 0x08;
pub(crate) const TCP_ACK: u8 = 0x10;
pub(crate) const TCP_URG: u8 = 0x20;
pub(crate) const TCP_CWR: u8 = 0x80;

/// The headers of an IP packet whose lengths are consistent with the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// IPv6, else IPv4.
    pub(crate) is_v6: bool,
    /// The protocol after the last extension header.
    pub(crate) protocol: u8,
    /// Where that protocol's header starts.
    pub(crate) transport: usize,
    /// Where the IP packet ends, by its own length field.
    pub(crate) end: usize,
    /// It is a fragment, the first or a later one.
    pub(crate) fragment: bool,
}

impl Headers {
    /// Reads the IP headers. `None` when they are inconsistent, or longer than `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Headers> {
        match bytes.first()? >> 4 {
            4 => Headers::parse_v4(bytes),
            6 => Headers::parse_v6(bytes),
            _ => None,
        }
    }

    fn parse_v4(bytes: &[u8]) -> Option<Headers> {
        let fixed = bytes.first_chunk::<20>()?;
        let transport = usize::from(fixed[0] & 15) * 4;
        let end = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if transport < 20 || end < transport || bytes.len() < end {
            return None;
        }
        let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0;
        Some(Headers { is_v6: false, protocol: fixed[9], transport, end, fragment })
    }

    fn parse_v6(bytes: &[u8]) -> Option<Headers> {
        let fixed = bytes.first_chunk::<40>()?;
        let end = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let bytes = bytes.get(..end)?;
        let mut headers = Headers { is_v6: true, protocol: fixed[6], transport: 40, end, fragment: false };
        // Not behind authentication: what it covers is neither split nor joined.
        while let ip::HOP_BY_HOP | ip::ROUTING | ip::FRAGMENT | ip::DESTINATION = headers.protocol {
            let extension = Extension::read(headers.protocol, *at(bytes, headers.transport)?)?;
            headers.fragment |= headers.protocol == ip::FRAGMENT;
            headers.protocol = extension.next;
            headers.transport += extension.length;
            if headers.transport > end {
                return None;
            }
        }
        Some(headers)
    }

    /// Where the checksum field lies in the transport header: of whole TCP and UDP packets only.
    pub(crate) fn checksum_offset(&self) -> Option<usize> {
        match self.protocol {
            _ if self.fragment => None,
            PROTOCOL_TCP if self.end - self.transport >= 20 => Some(16),
            PROTOCOL_UDP if self.end - self.transport >= 8 => Some(6),
            _ => None,
        }
    }

    /// The bytes of all headers, the TCP or UDP header included; `None` for other protocols and bad lengths.
    pub(crate) fn header_len(&self, bytes: &[u8]) -> Option<usize> {
        self.checksum_offset()?;
        if self.protocol == PROTOCOL_UDP {
            return Some(self.transport + 8);
        }
        let length = usize::from(bytes.get(self.transport + 12)? >> 4) * 4;
        (length >= 20 && self.transport + length <= self.end).then_some(self.transport + length)
    }
}

/// The `virtio_net_hdr` before each packet of a TUN that was opened with `IFF_VNET_HDR`: what is left to do on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// [`NEEDS_CSUM`](VnetHeader::NEEDS_CSUM) or zero.
    pub flags: u8,
    /// One of the `GSO_*` constants, with [`GSO_ECN`](VnetHeader::GSO_ECN) perhaps.
    pub gso_type: u8,
    /// Bytes of all headers: a hint, not to be trusted.
    pub hdr_len: u16,
    /// Payload bytes of each segment but the last.
    pub gso_size: u16,
    /// Where the bytes that the checksum covers start.
    pub csum_start: u16,
    /// Where the checksum field lies, counted from there.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// Bytes on the TUN.
    pub const LEN: usize = 10;
    /// The checksum field holds the pseudo header's sum only.
    pub const NEEDS_CSUM: u8 = 1;
    /// Not a unit of segments.
    pub const GSO_NONE: u8 = 0;
    /// TCP segments over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// TCP segments over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// UDP datagrams over either.
    pub const GSO_UDP_L4: u8 = 5;
    /// The first TCP segment has CWR set, and only it keeps it.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads the header, in native byte order.
    pub fn from_bytes(bytes: &[u8; VnetHeader::LEN]) -> VnetHeader {
        let word = |i: usize| u16::from_ne_bytes([bytes[i], bytes[i + 1]]);
        VnetHeader {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// The header's bytes, in native byte order.
    pub fn to_bytes(self) -> [u8; VnetHeader::LEN] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        for (i, word) in [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset].into_iter().enumerate() {
            bytes[2 + 2 * i..4 + 2 * i].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}
