//! What the walks over headers find for the hash, and how ports and addresses are read.

use crate::packet::at;

/// What of a packet's headers goes into the hash, in the order of a little-endian host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// The exclusive or of the addresses' words.
    pub(super) addresses: u32,
    /// Both ports, or what stands in their place in ESP and AH; 0 where there are none.
    pub(super) ports: u32,
    /// Type, code and identifier of an ICMP message.
    pub(super) icmp: Icmp,
}

impl Keys {
    #[inline]
    pub(super) fn transport(&self) -> u32 {
        let Icmp { kind, code, id } = self.icmp;
        if id == 0 { self.ports } else { u32::from(kind) | u32::from(code) << 8 | u32::from(id) << 16 }
    }
}

/// The beginning of an ICMP message, of either version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Icmp {
    pub(super) kind: u8,
    code: u8,
    /// 0: a message without one. An identifier of 0 counts as 1.
    id: u16,
}

impl Icmp {
    /// The message at `at`; all zeros where its eight bytes are not there.
    #[inline]
    pub(super) fn read(bytes: &[u8], offset: usize) -> Icmp {
        let Some(&[kind, code, _, _, high, low, ..]) = at::<8>(bytes, offset) else { return Icmp::default() };
        // Echo and timestamp, with their replies; the last two are ICMPv6's. The driver does not ask which it is.
        let identified = matches!(kind, 8 | 0 | 13 | 14 | 128 | 129);
        let id = if identified { u16::from_be_bytes([high, low]).max(1) } else { 0 };
        Icmp { kind, code, id }
    }
}

/// What the Ethernet header says of the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outer {
    pub(super) protocol: u16,
    /// Where the network header begins.
    pub(super) network: usize,
}

/// The exclusive or of `words` words of 32 bits from `offset`.
#[inline]
pub(super) fn words<const N: usize>(bytes: &[u8; N]) -> u32 {
    bytes.as_chunks::<4>().0.iter().fold(0, |all, word| all ^ u32::from_le_bytes(*word))
}

/// Where the four bytes of ports lie in a transport header; AH's and ESP's SPI takes their place.
#[inline]
fn ports_at(protocol: u8) -> Option<usize> {
    match protocol {
        // TCP, UDP, DCCP, ESP, SCTP, UDP-Lite.
        6 | 17 | 33 | 50 | 132 | 136 => Some(0),
        // AH.
        51 => Some(4),
        _ => None,
    }
}

/// The ports of the transport header at `offset`; 0 where there are none.
#[inline]
pub(super) fn ports(bytes: &[u8], offset: usize, protocol: u8) -> u32 {
    ports_at(protocol).and_then(|place| at(bytes, offset + place)).map_or(0, |ports| u32::from_le_bytes(*ports))
}
