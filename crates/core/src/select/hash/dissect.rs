//! What encap2+3 and encap3+4 see: the innermost packet that Linux's flow dissector reaches with the bonding driver's keys.
//!
//! What it is: a walk over headers that name what follows them: VLAN tags, PPPoE sessions, batman-adv, HSR and PRP,
//! IPv4, IPv6 and its options, IP in IP, GRE of versions 0 and 1 (PPTP) with Ethernet or PPP inside. The addresses of
//! the last IP header count, and the ports or the ICMP message behind it. The walk ends well at what it does not look
//! into (MPLS, FCoE, PTP, ARP, TIPC, whose node is the address), at a fragment, and after 15 headers; it ends badly, and
//! the frame is hashed as layer2, at an EtherType that it does not know and at a header that is cut short. An ICMP error
//! is not looked into. Order of fields and numbers: the protocols' own specifications.
//!
//! Departure: TIPC's keep-alive messages, which Linux hashes at random, are hashed as its other messages.
//!
//! Cost: at most 16 headers, each read once. Invariant: offsets only grow.

use super::keys::{Icmp, Keys, Outer, ports, words};
use crate::flow::ethernet::{ARP, IPV4, IPV6, VLAN};
use crate::ip::{ICMP, ICMPV6};
use crate::packet::at;

const RARP: u16 = 0x8035;
const BATMAN: u16 = 0x4305;
const BRIDGED_ETHERNET: u16 = 0x6558;
const PPP: u16 = 0x880b;
const PPPOE_SESSION: u16 = 0x8864;
const MPLS: u16 = 0x8847;
const MPLS_UPSTREAM: u16 = 0x8848;
const PRP: u16 = 0x88fb;
const HSR: u16 = 0x892f;
const PTP: u16 = 0x88f7;
const FCOE: u16 = 0x8906;
const TIPC: u16 = 0x88ca;

/// Headers after the first one that are looked at.
const LIMIT: u32 = 15;

/// What follows a header.
enum Next {
    /// A header of this EtherType.
    EtherType(u16),
    /// A header of this IP protocol.
    Protocol(u8),
    /// Nothing that is looked at.
    End,
}

struct Walk<'a> {
    bytes: &'a [u8],
    /// Where the next header begins.
    at: usize,
    keys: Keys,
    /// An Ethernet header was found in GRE.
    bridged: bool,
}

/// The keys of the packet; `None` where the walk ends badly.
pub(super) fn keys(bytes: &[u8], outer: Outer) -> Option<Keys> {
    let mut walk = Walk { bytes, at: outer.network, keys: Keys::default(), bridged: false };
    let mut kind = outer.protocol;
    let mut left = LIMIT;
    // The step from an IP header to what it carries is free; all others count.
    let mut may_go_on = || {
        left = left.wrapping_sub(1);
        left < LIMIT
    };
    loop {
        let mut next = walk.network(kind)?;
        let version = kind;
        if let Next::Protocol(first) = next {
            let mut protocol = first;
            loop {
                next = walk.transport(version, protocol)?;
                match next {
                    Next::Protocol(inner) if may_go_on() => protocol = inner,
                    _ => break,
                }
            }
        }
        match next {
            Next::EtherType(inner) if may_go_on() => kind = inner,
            _ => return Some(walk.keys),
        }
    }
}

impl<'a> Walk<'a> {
    /// `N` bytes of the header at hand, from its byte `offset`.
    fn read<const N: usize>(&self, offset: usize) -> Option<&'a [u8; N]> {
        at(self.bytes, self.at + offset)
    }

    fn network(&mut self, kind: u16) -> Option<Next> {
        let (length, next) = match kind {
            IPV4 => return self.ipv4(),
            IPV6 => {
                let header: &[u8; 40] = self.read(0)?;
                (self.keys.addresses, self.at) = (words(at::<32>(header, 8)?), self.at + 40);
                return Some(Next::Protocol(header[6]));
            }
            tag if VLAN.contains(&tag) => {
                let [_, _, inner @ ..] = self.read::<4>(0)?;
                (4, Next::EtherType(u16::from_be_bytes(*inner)))
            }
            PPPOE_SESSION => return self.pppoe(),
            BATMAN => {
                // A unicast packet (type 0x40) of compatibility version 15, and the Ethernet header behind it.
                let [0x40, 15, .., a, b] = self.read::<24>(0)? else { return None };
                (24, Next::EtherType(u16::from_be_bytes([*a, *b])))
            }
            PRP | HSR => {
                let [_, _, _, _, inner @ ..] = self.read::<6>(0)?;
                (6, Next::EtherType(u16::from_be_bytes(*inner)))
            }
            TIPC => {
                let [.., a, b, c, d] = self.read::<16>(0)?;
                self.keys.addresses = u32::from_le_bytes([*a, *b, *c, *d]);
                return Some(Next::End);
            }
            PTP => {
                self.read::<34>(0)?;
                return Some(Next::End);
            }
            // FCoE must lie in what the kernel counts as the frame's first piece, which Ethernet in GRE ends.
            FCOE if self.bridged => return None,
            FCOE => {
                self.read::<38>(0)?;
                return Some(Next::End);
            }
            ARP | RARP | MPLS | MPLS_UPSTREAM => return Some(Next::End),
            _ => return None,
        };
        self.at += length;
        Some(next)
    }

    fn ipv4(&mut self) -> Option<Next> {
        let header: &[u8; 20] = self.read(0)?;
        let length = usize::from(header[0] & 0xf) * 4;
        if length < 20 {
            return None;
        }
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        (self.keys.addresses, self.at) = (words(at::<8>(header, 12)?), self.at + length);
        Some(if fragment { Next::End } else { Next::Protocol(header[9]) })
    }

    fn pppoe(&mut self) -> Option<Next> {
        // Version 1, type 1, session data.
        let [0x11, 0, _, _, _, _, high, low] = *self.read::<8>(0)? else { return None };
        self.at += 8;
        // Of a protocol number of two bytes the first is even and the second odd; one byte is not allowed in a session.
        match u16::from_be_bytes([high, low]) {
            0x0021 => Some(Next::EtherType(IPV4)),
            0x0057 => Some(Next::EtherType(IPV6)),
            protocol if protocol & 0x0101 == 1 => Some(Next::End),
            _ => None,
        }
    }

    fn transport(&mut self, version: u16, protocol: u8) -> Option<Next> {
        let mut last = protocol;
        let next = match protocol {
            4 => Next::EtherType(IPV4),
            41 => Next::EtherType(IPV6),
            47 => self.gre()?,
            // MPLS in IP.
            137 => Next::EtherType(MPLS),
            ICMP | ICMPV6 => {
                self.keys.icmp = self.icmp();
                Next::End
            }
            // Hop-by-hop, routing and destination options.
            0 | 43 | 60 if version == IPV6 => {
                let &[following, eighths] = self.read(0)?;
                self.at += (usize::from(eighths) + 1) * 8;
                last = following;
                Next::Protocol(following)
            }
            44 if version == IPV6 => {
                self.read::<8>(0)?;
                return Some(Next::End);
            }
            _ => Next::End,
        };
        self.keys.ports = ports(self.bytes, self.at, last);
        Some(next)
    }

    /// What the message says; what was known where it is cut short.
    fn icmp(&self) -> Icmp {
        if self.read::<8>(0).is_some() { Icmp::read(self.bytes, self.at) } else { self.keys.icmp }
    }

    fn gre(&mut self) -> Option<Next> {
        let [flags, version, kind @ ..] = *self.read::<4>(0)?;
        let (version, mut kind) = (version & 7, u16::from_be_bytes(kind));
        let [checksum, routing, key, sequence] = [0x80, 0x40, 0x20, 0x10].map(|bit| flags & bit != 0);
        let acknowledged = self.read::<2>(0)?[1] & 0x80 != 0;
        if routing || version > 1 || (version == 1 && !(kind == PPP && key)) {
            return Some(Next::End);
        }
        let mut length = 4 + if checksum { 4 } else { 0 };
        if key {
            self.read::<4>(length)?;
            length += 4;
        }
        length += if sequence { 4 } else { 0 };
        if version == 1 {
            length += if acknowledged { 4 } else { 0 };
            let &[_, _, a, b] = self.read::<4>(length)?;
            kind = match u16::from_be_bytes([a, b]) {
                0x0021 => IPV4,
                0x0057 => IPV6,
                _ => kind,
            };
            length += 4;
        } else if kind == BRIDGED_ETHERNET {
            let [.., a, b] = *self.read::<14>(length)?;
            kind = u16::from_be_bytes([a, b]);
            length += 14;
            self.bridged = true;
        }
        self.at += length;
        Some(Next::EtherType(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// An IPv4 header and what it carries; the exclusive or of its addresses is `differ`.
    fn v4(protocol: u8, differ: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::from([0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 1 ^ differ]);
        packet.extend_from_slice(payload);
        packet
    }

    fn v6(next: u8, differ: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::from([0; 40]);
        (packet[6], packet[39]) = (next, differ);
        packet.extend_from_slice(payload);
        packet
    }

    /// The last byte in which the addresses differ and the ports; `None` where the walk ends badly.
    fn found(protocol: u16, bytes: &[u8]) -> Option<(u32, u32)> {
        keys(bytes, Outer { protocol, network: 0 }).map(|keys| (keys.addresses >> 24, keys.ports))
    }

    const PORTS: [u8; 4] = [0, 100, 0, 200];
    /// Of the packet in the tunnel, of the one around it, and none.
    const INNER: Option<(u32, u32)> = Some((3, 0xc800_6400));
    const OUTER: Option<(u32, u32)> = Some((7, 0));

    // RFC 2784 and 2890, and RFC 2637 (version 1).
    #[test]
    fn in_gre_the_packet_lies_behind_the_fields_that_the_flags_name() {
        let (four, six) = (v4(17, 3, &PORTS), v6(17, 3, &PORTS));
        let ppp = |protocol: u8| [0xff, 3, 0, protocol];
        let field = [9; 4];
        for (flags, version, kind, fields, inner, expected) in [
            (0x00, 0, IPV4, [].to_vec(), &four, INNER),
            (0x80, 0, IPV4, field.to_vec(), &four, INNER),
            (0x20, 0, IPV6, field.to_vec(), &six, INNER),
            (0x10, 0, IPV4, field.to_vec(), &four, INNER),
            (0xb0, 0, IPV4, field.repeat(3), &four, INNER),
            (0x20, 1, PPP, [field, ppp(0x21)].concat(), &four, INNER),
            (0x20, 1, PPP, [field, ppp(0x57)].concat(), &six, INNER),
            (0x30, 1, PPP, [field, field, ppp(0x21)].concat(), &four, INNER),
            (0x20, 0x81, PPP, [field, field, ppp(0x21)].concat(), &four, INNER),
            (0x30, 0x81, PPP, [field, field, field, ppp(0x21)].concat(), &four, INNER),
            // Another protocol of PPP.
            (0x20, 1, PPP, [field, ppp(0x23)].concat(), &four, None),
            // Nothing is looked at: routing, another version, and version 1 without a key or PPP.
            (0x40, 0, IPV4, [].to_vec(), &four, OUTER),
            (0x00, 2, IPV4, [].to_vec(), &four, OUTER),
            (0x00, 1, PPP, ppp(0x21).to_vec(), &four, OUTER),
            (0x20, 1, IPV4, [field, ppp(0x21)].concat(), &four, OUTER),
        ] {
            let [high, low] = kind.to_be_bytes();
            let gre = [&[flags, version, high, low], fields.as_slice(), inner].concat();
            assert_eq!(found(IPV4, &v4(47, 7, &gre)), expected, "{flags:02x} {version:02x} {kind:04x}");
        }
    }

    #[test]
    fn fcoe_is_one_frame_and_none_in_gre() {
        let frame = [[0; 12].as_slice(), &FCOE.to_be_bytes(), &[0; 38]].concat();
        let gre = [[0, 0].as_slice(), &BRIDGED_ETHERNET.to_be_bytes(), &frame].concat();
        assert_eq!((found(FCOE, &frame[14..]), found(FCOE, &frame[15..])), (Some((0, 0)), None));
        assert_eq!(found(IPV4, &v4(47, 7, &gre)), None);
    }

    #[test]
    fn options_and_fragments_are_headers_of_ipv6_alone() {
        let header = [17, 0, 0, 0, 0, 0, 0, 0].as_slice();
        for protocol in [0, 43, 60] {
            let payload = [header, &PORTS].concat();
            assert_eq!(found(IPV6, &v6(protocol, 3, &payload)), INNER, "{protocol}");
            assert_eq!(found(IPV4, &v4(protocol, 7, &payload)), OUTER, "{protocol}");
        }
        // A fragment's ports are not looked for, but its header has to be there.
        assert_eq!(found(IPV6, &v6(44, 7, &[header, &PORTS].concat())), OUTER);
        assert_eq!((found(IPV6, &v6(44, 7, &header[..7])), found(IPV4, &v4(44, 7, &header[..7]))), (None, OUTER));
    }

    #[test]
    fn fifteen_tags_are_passed_and_no_more() {
        for (tags, expected) in [(15, INNER), (16, Some((0, 0)))] {
            let mut packet = Vec::new();
            (1..tags).for_each(|_| packet.extend([0, 5, 0x81, 0]));
            packet.extend([0, 5, 8, 0]);
            packet.extend(v4(17, 3, &PORTS));
            assert_eq!(found(0x8100, &packet), expected, "{tags}");
        }
    }

    #[test]
    fn of_an_echo_type_code_and_identifier_count_each_in_its_place() {
        let keys = keys(&v4(1, 3, &[8, 5, 0, 0, 0x12, 0x34, 0, 0]), Outer { protocol: IPV4, network: 0 });
        assert_eq!(keys.map(|keys| keys.transport()), Some(0x1234_0508));
    }
}
