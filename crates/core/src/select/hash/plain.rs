//! What layer2+3 and layer3+4 see: the outer IP header, the first bytes behind it, and what an ICMP error quotes.
//!
//! Departures from what headers mean, as the driver has them: an IPv6 extension header hides the ports behind it, and a
//! quoted packet is looked for with the version of the packet that quotes it.

use super::keys::{Icmp, Keys, Outer, ports, words};
use crate::flow::ethernet::{IPV4, IPV6};
use crate::ip::{ICMP, ICMPV6};
use crate::packet::at;

const ICMP_HEADER: usize = 8;

/// The keys of the packet; `None` where it is not IPv4 or IPv6, or cut short within its IP header or the one that it quotes.
#[inline]
pub(super) fn keys(bytes: &[u8], outer: Outer, with_ports: bool) -> Option<Keys> {
    let first = ip(bytes, outer, None, with_ports)?;
    let mut keys = first.keys;
    let is_error = |version: u8, kind: u8| match version {
        ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => matches!(kind, 1..=4),
    };
    if let Some(version @ (ICMP | ICMPV6)) = first.protocol {
        keys.icmp = Icmp::read(bytes, first.next);
        if is_error(version, keys.icmp.kind) {
            let quoted = Outer { network: first.next + ICMP_HEADER, ..outer };
            let quoted = ip(bytes, quoted, first.protocol, with_ports)?.keys;
            keys = Keys { icmp: keys.icmp, ..quoted };
        }
    }
    Some(keys)
}

/// An IP header's part in the keys.
struct Ip {
    keys: Keys,
    /// Where its payload begins.
    next: usize,
    /// `None` for a fragment of IPv4 that nothing quotes.
    protocol: Option<u8>,
}

/// Reads an IP header. A fragment of IPv4 keeps the protocol `before`.
#[inline]
fn ip(bytes: &[u8], header: Outer, before: Option<u8>, with_ports: bool) -> Option<Ip> {
    let start = header.network;
    let (addresses, next, protocol) = match header.protocol {
        IPV4 => {
            let header: &[u8; 20] = at(bytes, start)?;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
            let protocol = if fragment { before } else { Some(header[9]) };
            (words(at::<8>(header, 12)?), start + usize::from(header[0] & 0xf) * 4, protocol)
        }
        IPV6 => {
            let header: &[u8; 40] = at(bytes, start)?;
            (words(at::<32>(header, 8)?), start + 40, Some(header[6]))
        }
        _ => return None,
    };
    let ports = if with_ports { protocol.map_or(0, |protocol| ports(bytes, next, protocol)) } else { 0 };
    Some(Ip { keys: Keys { addresses, ports, icmp: Icmp::default() }, next, protocol })
}

/// Ports and addresses as numbers, all xor'd; `None` where `packet` is no IP packet.
pub(super) fn numbers(packet: &[u8], protocol: u16) -> Option<u128> {
    let (addresses, mut next, mut transport) = match protocol {
        IPV4 => {
            let header: &[u8; 20] = at(packet, 0)?;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
            let [source, destination] = [at(header, 12)?, at(header, 16)?].map(|word| u32::from_be_bytes(*word));
            let next = usize::from(header[0] & 0xf).max(5) * 4;
            (u128::from(source ^ destination), next, (!fragment).then_some(header[9]))
        }
        IPV6 => {
            let header: &[u8; 40] = at(packet, 0)?;
            let [source, destination] = [at(header, 8)?, at(header, 24)?].map(|word| u128::from_be_bytes(*word));
            (source ^ destination, 40, Some(header[6]))
        }
        _ => return None,
    };
    // Hop-by-hop, routing and destination options.
    while protocol == IPV6 && matches!(transport, Some(0 | 43 | 60)) {
        let Some(&[following, eighths]) = at(packet, next) else { break };
        (transport, next) = (Some(following), next + (usize::from(eighths) + 1) * 8);
    }
    // Of what `ports` reads, ESP and AH have no ports.
    let ported = transport.filter(|transport| !matches!(transport, 50 | 51));
    let [a, b, c, d] = ported.map_or(0, |protocol| ports(packet, next, protocol)).to_le_bytes();
    Some(u128::from(u16::from_be_bytes([a, b]) ^ u16::from_be_bytes([c, d])) ^ addresses)
}
