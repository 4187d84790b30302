//! The hash of a packet's headers by which balance-xor, 802.3ad and balance-tlb choose a link.
//!
//! What it is: the numbers that the Linux bonding driver makes of a frame under each `xmit_hash_policy`, so that a packet
//! takes the same link here as there: the link is the hash modulo the usable links. Source: the driver's documented
//! behaviour (`bonding.rst`) and, where that is silent, what a 6.1 kernel was seen to do with generated frames
//! (`tests/select_linux.rs`). With `A` the exclusive or of all 32-bit words of the two IP addresses:
//!
//! - layer2: the last bytes of both Ethernet addresses xor the EtherType;
//! - layer2+3: `fold(layer2 ^ A)`, where `fold(h) = g ^ g >> 8` with `g = h ^ h >> 16`;
//! - layer3+4: `fold(P ^ A) >> 1`, where `P` are the four bytes of the ports, or an echo's type, code and identifier;
//! - encap2+3, encap3+4: the same, of the innermost packet that the dissector reaches ([`dissect`]);
//! - vlan+srcmac: the vendor's half of the Ethernet source xor the device's half.
//!
//! Frames without an IP header where the policy looks for one are hashed as layer2.
//!
//! What a 6.1 kernel does and a reader might not expect, kept because links must agree:
//! - Words are read in the order of a little-endian host's memory, on every host.
//! - A frame that carries its VLAN tags in its bytes counts as neither IPv4 nor IPv6 (layer2 under all policies but
//!   vlan+srcmac, where the VLAN's number is zero). A kernel that strips tags on receipt, or adds them in the device,
//!   has them beside the frame, hashes what follows them, and under vlan+srcmac the tag as well: give such frames
//!   without tags.
//! - A local socket's own hash, where the kernel has one, replaces encap3+4's. It is random, and in no packet.
//!
//! Frames without an Ethernet header ([`Layer::Ip`]) count as sent between Ethernet addresses of zeros, with the
//! EtherType of their IP version. A frame too short for an Ethernet header has the hash 0.
//!
//! Cost: constant time but for dissected tunnels (at most 16 headers); no allocation. Invariant: no bytes panic; what a
//! capture cut off counts as absent.

mod dissect;
mod plain;

use super::xor::HashPolicy;
use super::{Frame, Layer, LinkSet};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;

const ETHERNET: usize = 14;
const TAG: usize = 4;

/// The driver's hash of `frame` under `policy`.
#[inline]
pub fn hash(policy: HashPolicy, frame: &Frame<'_>) -> u32 {
    let keys = match policy {
        HashPolicy::Layer2 => None,
        HashPolicy::VlanSrcmac => return source(frame),
        HashPolicy::Layer23 => plain::keys(frame.bytes, outer(frame), false),
        HashPolicy::Layer34 => plain::keys(frame.bytes, outer(frame), true),
        HashPolicy::Encap23 | HashPolicy::Encap34 => dissect::keys(frame.bytes, outer(frame)),
    };
    match (keys, policy) {
        (None, _) => layer2(frame),
        (Some(keys), HashPolicy::Layer23 | HashPolicy::Encap23) => fold(layer2(frame) ^ keys.addresses),
        // The lowest bit goes: hosts tend to number ports in steps of two.
        (Some(keys), _) => fold(keys.transport() ^ keys.addresses) >> 1,
    }
}

/// The link among `usable` that `hash` stands for: as many links on as the hash modulo their number says.
#[inline]
pub fn choose(usable: LinkSet, hash: u32) -> LinkSet {
    let n = hash.checked_rem(usable.len() as u32);
    LinkSet::of(n.and_then(|n| usable.nth(n as usize)))
}

/// `(source port ^ destination port) ^ (source address ^ destination address)`, all as numbers, as the burst-round-robin
/// paper's section 7 has it; an IPv6 address is a number of 128 bits.
///
/// The paper says nothing of other packets: fragments and protocols without ports count without them, VLAN tags are
/// passed over, and what is no IP packet has the hash of layer2.
pub fn ports_and_addresses(frame: &Frame<'_>) -> u128 {
    let bytes = frame.bytes;
    let Outer { mut protocol, mut network } = outer(frame);
    if frame.layer == Layer::Ethernet {
        network = ETHERNET;
        while is_vlan(protocol)
            && let Some([_, _, inner @ ..]) = at::<TAG>(bytes, network)
        {
            (protocol, network) = (u16::from_be_bytes(*inner), network + TAG);
        }
    }
    let packet = bytes.get(network..).unwrap_or(&[]);
    plain::numbers(packet, protocol).unwrap_or_else(|| u128::from(layer2(frame)))
}

/// What of a packet's headers goes into the hash, in the order of a little-endian host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Keys {
    /// The exclusive or of the addresses' words.
    addresses: u32,
    /// Both ports, or what stands in their place in ESP and AH; 0 where there are none.
    ports: u32,
    /// Type, code and identifier of an ICMP message.
    icmp: Icmp,
}

impl Keys {
    #[inline]
    fn transport(&self) -> u32 {
        let Icmp { kind, code, id } = self.icmp;
        if id == 0 { self.ports } else { u32::from(kind) | u32::from(code) << 8 | u32::from(id) << 16 }
    }
}

/// The beginning of an ICMP message, of either version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Icmp {
    kind: u8,
    code: u8,
    /// 0: a message without one. An identifier of 0 counts as 1.
    id: u16,
}

impl Icmp {
    /// The message at `at`; all zeros where its eight bytes are not there.
    #[inline]
    fn read(bytes: &[u8], offset: usize) -> Icmp {
        let Some(&[kind, code, _, _, high, low, ..]) = at::<8>(bytes, offset) else { return Icmp::default() };
        // Echo and timestamp, with their replies; the last two are ICMPv6's. The driver does not ask which it is.
        let identified = matches!(kind, 8 | 0 | 13 | 14 | 128 | 129);
        let id = if identified { u16::from_be_bytes([high, low]).max(1) } else { 0 };
        Icmp { kind, code, id }
    }
}

/// What the Ethernet header says of the rest.
#[derive(Clone, Copy, Debug)]
struct Outer {
    protocol: u16,
    /// Where the network header begins.
    network: usize,
}

/// The frame's EtherType, and where the kernel has the network header of a frame that it is given with its tags: behind
/// all of them, although the EtherType is still the first tag's.
#[inline]
fn outer(frame: &Frame<'_>) -> Outer {
    let bytes = frame.bytes;
    if frame.layer == Layer::Ip {
        let protocol = match bytes.first().map(|byte| byte >> 4) {
            Some(4) => IPV4,
            Some(6) => IPV6,
            _ => 0,
        };
        return Outer { protocol, network: 0 };
    }
    let protocol = at(bytes, 12).map_or(0, |word| u16::from_be_bytes(*word));
    if !is_vlan(protocol) {
        return Outer { protocol, network: ETHERNET };
    }
    tagged(bytes, protocol)
}

/// Tags that the kernel passes over when it looks for the network header.
const TAGS: usize = 7;

#[cold]
fn tagged(bytes: &[u8], protocol: u16) -> Outer {
    let untouched = Outer { protocol, network: ETHERNET };
    let mut network = ETHERNET;
    for _ in 0..TAGS {
        let Some([_, _, inner @ ..]) = at::<TAG>(bytes, network) else { return untouched };
        network += TAG;
        match u16::from_be_bytes(*inner) {
            inner if is_vlan(inner) => {}
            0 => return untouched,
            _ => return Outer { protocol, network },
        }
    }
    untouched
}

fn is_vlan(protocol: u16) -> bool {
    matches!(protocol, VLAN | SERVICE_VLAN)
}

#[inline]
fn layer2(frame: &Frame<'_>) -> u32 {
    match frame.layer {
        Layer::Ip => u32::from(outer(frame).protocol),
        Layer::Ethernet => at::<ETHERNET>(frame.bytes, 0).map_or(0, |header| {
            u32::from(header[5]) ^ u32::from(header[11]) ^ u32::from(u16::from_be_bytes([header[12], header[13]]))
        }),
    }
}

#[inline]
fn source(frame: &Frame<'_>) -> u32 {
    match (frame.layer, at::<ETHERNET>(frame.bytes, 0)) {
        (Layer::Ethernet, Some(&[_, _, _, _, _, _, a, b, c, d, e, f, _, _])) => {
            u32::from_be_bytes([0, a, b, c]) ^ u32::from_be_bytes([0, d, e, f])
        }
        _ => 0,
    }
}

#[inline]
fn fold(hash: u32) -> u32 {
    let hash = hash ^ hash >> 16;
    hash ^ hash >> 8
}

/// `N` bytes from `offset`, where they are there.
#[inline]
fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}

/// The exclusive or of `words` words of 32 bits from `offset`.
#[inline]
fn words<const N: usize>(bytes: &[u8; N]) -> u32 {
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
fn ports(bytes: &[u8], offset: usize, protocol: u8) -> u32 {
    ports_at(protocol).and_then(|place| at(bytes, offset + place)).map_or(0, |ports| u32::from_le_bytes(*ports))
}
