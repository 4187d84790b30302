//! Ethernet frames as a bond of Ethernet links reads and makes them: headers, ARP, neighbour discovery, learning packets.
//!
//! Sources: IEEE 802.3 (header), IEEE 802.1Q table 8-1 (addresses that no bridge forwards), RFC 826 and RFC 5227 (ARP and
//! its probes), RFC 4861 section 4 (neighbour discovery), IEEE 802.3 annex 57A (slow protocols). Every reader is total: it
//! gives `None` for what is cut short or contradicts itself.

use crate::flow::ethernet::{self, HEADER};
use crate::ip::{ICMPV6, checksum};
use crate::wire::mac::Mac;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Where LACPDUs and markers go.
pub(crate) const SLOW_PROTOCOLS: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x02]);

/// EtherType of LACPDUs and markers.
pub const TYPE_SLOW: u16 = 0x8809;
/// EtherType of the Ethernet configuration test protocol; Linux's learning packets have it too, since stations ignore it.
pub const TYPE_LOOPBACK: u16 = 0x9000;

/// The shortest frame without its check sequence; what is made here is padded to it.
pub const SHORTEST: usize = 60;

/// Whether `mac` stands for a group of stations: multicast or broadcast.
#[inline]
pub(crate) fn is_group(mac: Mac) -> bool {
    mac.0[0] & 1 != 0
}

/// Whether bridges keep `mac` on its link: 01-80-C2-00-00-00 to -0F.
#[inline]
pub(crate) fn is_link_local(mac: Mac) -> bool {
    mac.0[..5] == SLOW_PROTOCOLS.0[..5] && mac.0[5] < 0x10
}

/// A locally administered address made from `mac`, one of 64 by `variant`; the same again for the same.
///
/// Distinct variants, and those of distinct globally administered addresses, never coincide.
pub fn derived(mac: Mac, variant: u8) -> Mac {
    let mut derived = mac;
    derived.0[0] = ((mac.0[0] | 0x02) & !0x01) ^ (variant << 2);
    derived
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who is to receive it.
    pub destination: Mac,
    /// Who sent it.
    pub source: Mac,
    /// What follows.
    pub ether_type: u16,
}

impl Header {
    /// The header that `frame` begins with.
    #[inline]
    pub fn parse(frame: &[u8]) -> Option<Header> {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *frame.first_chunk()?;
        Some(Header {
            destination: Mac([d0, d1, d2, d3, d4, d5]),
            source: Mac([s0, s1, s2, s3, s4, s5]),
            ether_type: u16::from_be_bytes([t0, t1]),
        })
    }

    fn begin(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(128);
        frame.extend(self.destination.0);
        frame.extend(self.source.0);
        frame.extend(self.ether_type.to_be_bytes());
        frame
    }
}

fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    if frame.len() < SHORTEST {
        frame.resize(SHORTEST, 0);
    }
    frame
}

/// What an ARP packet for IPv4 over Ethernet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// 1 asks, 2 answers.
    pub operation: u16,
    /// The sender's Ethernet address.
    pub sender_mac: Mac,
    /// The sender's IPv4 address; 0.0.0.0 in a probe.
    pub sender_ip: Ipv4Addr,
    /// Whom it asks for or answers.
    pub target_mac: Mac,
    /// Whose address is asked for, or who asked.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// A question.
    pub const REQUEST: u16 = 1;
    /// An answer.
    pub const REPLY: u16 = 2;
    /// Where the sender's Ethernet address lies in an untagged frame.
    pub(crate) const SENDER_MAC: usize = HEADER + 8;

    /// The ARP packet of an untagged frame.
    pub fn parse(frame: &[u8]) -> Option<Arp> {
        if Header::parse(frame)?.ether_type != ethernet::ARP {
            return None;
        }
        let body: &[u8; 28] = frame.get(HEADER..)?.first_chunk()?;
        if body[..6] != [0, 1, 8, 0, 6, 4] {
            return None;
        }
        let mac = |at: usize| Mac([body[at], body[at + 1], body[at + 2], body[at + 3], body[at + 4], body[at + 5]]);
        let ip = |at: usize| Ipv4Addr::new(body[at], body[at + 1], body[at + 2], body[at + 3]);
        Some(Arp {
            operation: u16::from_be_bytes([body[6], body[7]]),
            sender_mac: mac(8),
            sender_ip: ip(14),
            target_mac: mac(18),
            target_ip: ip(24),
        })
    }

    /// It as a frame.
    pub fn frame(&self, destination: Mac, source: Mac) -> Vec<u8> {
        let mut frame = Header { destination, source, ether_type: ethernet::ARP }.begin();
        frame.extend([0, 1, 8, 0, 6, 4]);
        frame.extend(self.operation.to_be_bytes());
        frame.extend(self.sender_mac.0);
        frame.extend(self.sender_ip.octets());
        frame.extend(self.target_mac.0);
        frame.extend(self.target_ip.octets());
        padded(frame)
    }

    /// The announcement of RFC 5227: "`ip` is at `mac`", to everybody.
    pub fn announcement(mac: Mac, ip: Ipv4Addr) -> Vec<u8> {
        let arp = Arp { operation: Arp::REQUEST, sender_mac: mac, sender_ip: ip, target_mac: Mac::ZERO, target_ip: ip };
        arp.frame(Mac::BROADCAST, mac)
    }

    /// The probe of RFC 5227: asks for `ip` and makes nobody learn an address.
    pub fn probe(mac: Mac, ip: Ipv4Addr) -> Vec<u8> {
        let arp = Arp {
            operation: Arp::REQUEST,
            sender_mac: mac,
            sender_ip: Ipv4Addr::UNSPECIFIED,
            target_mac: Mac::ZERO,
            target_ip: ip,
        };
        arp.frame(Mac::BROADCAST, mac)
    }
}

/// Type of a neighbour solicitation.
const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Type of a neighbour advertisement.
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const IPV6_HEADER: usize = 40;
/// Bytes of a solicitation or advertisement before its options.
const NEIGHBOUR: usize = 24;
/// "This entry replaces the one that you have" (RFC 4861, section 4.4).
const OVERRIDE: u8 = 0x20;
/// All nodes of the link, and the Ethernet group of it.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);

/// What a neighbour solicitation or advertisement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// An advertisement, else a solicitation.
    pub advertisement: bool,
    /// Who sent the packet.
    pub source: Ipv6Addr,
    /// To whom.
    pub destination: Ipv6Addr,
    /// Whose address is asked for or told.
    pub target: Ipv6Addr,
    /// The link-layer address in it: the sender's in a solicitation, the target's in an advertisement.
    pub mac: Option<Mac>,
    /// Where in the frame that address lies; 0 where there is none.
    mac_at: usize,
}

impl Neighbour {
    /// The neighbour discovery of an untagged frame: without extension headers, with hop limit 255, with a right checksum.
    pub fn parse(frame: &[u8]) -> Option<Neighbour> {
        if Header::parse(frame)?.ether_type != ethernet::IPV6 {
            return None;
        }
        let ip = frame.get(HEADER..)?;
        let fixed: &[u8; IPV6_HEADER] = ip.first_chunk()?;
        // RFC 4861, section 7.1: a smaller hop limit means that it came through a router.
        if fixed[0] >> 4 != 6 || fixed[6] != ICMPV6 || fixed[7] != 255 {
            return None;
        }
        let len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let message = ip.get(IPV6_HEADER..IPV6_HEADER + len)?;
        let advertisement = match *message.first()? {
            NEIGHBOUR_SOLICITATION => false,
            NEIGHBOUR_ADVERTISEMENT => true,
            _ => return None,
        };
        let address = |bytes: &[u8]| bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
        let (source, destination) = (address(&fixed[8..])?, address(&fixed[24..])?);
        let target = address(message.get(8..NEIGHBOUR)?)?;
        if sum(&source, &destination, message) != 0 {
            return None;
        }
        // The option with the link-layer address: 1 the source's, 2 the target's.
        let wanted = if advertisement { 2 } else { 1 };
        let (mut at, mut mac, mut mac_at) = (NEIGHBOUR, None, 0);
        while let Some(option) = message.get(at..).filter(|rest| !rest.is_empty()) {
            let length = 8 * usize::from(*option.get(1)?);
            if length == 0 || option.len() < length {
                return None;
            }
            if option[0] == wanted && length == 8 && mac.is_none() {
                mac = option[2..].first_chunk().copied().map(Mac);
                mac_at = HEADER + IPV6_HEADER + at + 2;
            }
            at += length;
        }
        Some(Neighbour { advertisement, source, destination, target, mac, mac_at })
    }

    /// `frame`, which was parsed into this, with `mac` for the link-layer address in it, and the checksum that this needs.
    /// `false`: there is no such address in it, and nothing was changed.
    pub fn set_mac(&self, frame: &mut [u8], mac: Mac) -> bool {
        let Some(place) = (self.mac_at > 0).then(|| frame.get_mut(self.mac_at..self.mac_at + 6)).flatten() else {
            return false;
        };
        place.copy_from_slice(&mac.0);
        let at = HEADER + IPV6_HEADER;
        let Some([l0, l1]) = frame.get(HEADER + 4..HEADER + 6).and_then(|length| length.first_chunk().copied()) else {
            return false;
        };
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let Some(message) = frame.get_mut(at..at + len) else { return false };
        message[2..4].fill(0);
        let checksum = sum(&self.source, &self.destination, message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        true
    }

    /// An advertisement that nobody asked for: "`ip` is at `mac`", to all nodes.
    pub fn announcement(mac: Mac, ip: Ipv6Addr) -> Vec<u8> {
        Neighbour::advertise(mac, ip, (ALL_NODES_MAC, ALL_NODES), 0)
    }

    /// An advertisement for one neighbour that is known to talk to us: "`ip` is at `mac`".
    pub fn update(mac: Mac, ip: Ipv6Addr, to: (Mac, Ipv6Addr)) -> Vec<u8> {
        Neighbour::advertise(mac, ip, to, 0)
    }

    fn advertise(mac: Mac, ip: Ipv6Addr, to: (Mac, Ipv6Addr), flags: u8) -> Vec<u8> {
        let mut message = vec![NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags | OVERRIDE, 0, 0, 0];
        message.extend(ip.octets());
        message.extend([2, 1]);
        message.extend(mac.0);
        let checksum = sum(&ip, &to.1, &message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        let mut frame = Header { destination: to.0, source: mac, ether_type: ethernet::IPV6 }.begin();
        frame.extend([0x60, 0, 0, 0]);
        frame.extend((message.len() as u16).to_be_bytes());
        frame.extend([ICMPV6, 255]);
        frame.extend(ip.octets());
        frame.extend(to.1.octets());
        frame.extend(message);
        padded(frame)
    }
}

/// The checksum of an ICMPv6 message: 0 where the one in it is right.
fn sum(source: &Ipv6Addr, destination: &Ipv6Addr, message: &[u8]) -> u16 {
    let mut bytes = Vec::with_capacity(40 + message.len());
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, ICMPV6]);
    bytes.extend(message);
    checksum::of(&bytes)
}

/// A frame from `mac` to itself: the switch learns where `mac` is, and nobody receives it.
pub fn learning(mac: Mac) -> Vec<u8> {
    padded(Header { destination: mac, source: mac, ether_type: TYPE_LOOPBACK }.begin())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const B: Mac = Mac([2, 0, 0, 0, 0, 2]);

    #[test]
    fn an_arp_packet_reads_as_it_was_made_and_not_when_cut() {
        let arp = Arp {
            operation: Arp::REPLY,
            sender_mac: A,
            sender_ip: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: B,
            target_ip: Ipv4Addr::new(10, 0, 0, 2),
        };
        let frame = arp.frame(B, A);
        assert_eq!((frame.len(), Arp::parse(&frame)), (SHORTEST, Some(arp)));
        assert_eq!(frame[Arp::SENDER_MAC..Arp::SENDER_MAC + 6], A.0);
        assert_eq!(Arp::parse(&frame[..HEADER + 27]), None);
        for (at, wrong) in [(12, 9), (15, 6), (17, 1), (18, 8), (19, 16)] {
            let mut frame = frame.clone();
            frame[at] = wrong;
            assert_eq!(Arp::parse(&frame), None, "byte {at}");
        }
    }

    /// The advertisement of fe80::1 at 02:00:00:00:00:01, summed by hand.
    #[test]
    fn an_unsolicited_advertisement_is_the_one_of_rfc_4861() {
        let ip: Ipv6Addr = "fe80::1".parse().unwrap();
        let frame = Neighbour::announcement(A, ip);
        assert_eq!(frame.len(), 14 + 40 + 32);
        assert_eq!(frame[..14], [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
        assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, 32, 58, 255]);
        assert_eq!(frame[54..62], [136, 0, frame[56], frame[57], 0x20, 0, 0, 0]);
        let words = |bytes: &[u8]| -> u32 {
            bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum()
        };
        let mut total = words(&frame[22..54]) + 32 + 58 + words(&frame[54..]);
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        assert_eq!(total, 0xffff, "the sum over pseudo header and message");
        let parsed = Neighbour::parse(&frame).expect("valid");
        assert_eq!((parsed.advertisement, parsed.target, parsed.mac), (true, ip, Some(A)));
    }

    #[test]
    fn another_address_in_an_advertisement_is_read_back_and_its_checksum_is_right() {
        let ip: Ipv6Addr = "2001:db8::7".parse().unwrap();
        let mut frame = Neighbour::update(A, ip, (B, "fe80::2".parse().unwrap()));
        let parsed = Neighbour::parse(&frame).expect("valid");
        assert!(parsed.set_mac(&mut frame, Mac([2, 9, 9, 9, 9, 9])));
        let again = Neighbour::parse(&frame).expect("still valid: the checksum was renewed");
        assert_eq!(again.mac, Some(Mac([2, 9, 9, 9, 9, 9])));
        frame[60] ^= 1;
        assert_eq!(Neighbour::parse(&frame), None, "a wrong checksum");
    }

    #[test]
    fn no_frame_makes_a_reader_panic() {
        let mut rng = crate::rng::Rng::new(7);
        let good = Neighbour::announcement(A, "fe80::1".parse().unwrap());
        for _ in 0..20_000 {
            let mut frame = good.clone();
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(frame.len() as u64) as usize;
                frame[at] = rng.below(256) as u8;
            }
            frame.truncate(rng.below(frame.len() as u64 + 1) as usize);
            let _ = Arp::parse(&frame);
            if let Some(neighbour) = Neighbour::parse(&frame) {
                neighbour.set_mac(&mut frame, B);
            }
        }
    }

    #[test]
    fn derived_addresses_are_local_unicast_and_distinct() {
        for first in [0x00, 0x3e, 0xfc, 0x02, 0xac] {
            let mac = Mac([first, 0x1b, 0x21, 1, 2, 3]);
            let all: Vec<Mac> = (0..64).map(|variant| derived(mac, variant)).collect();
            for (n, mac) in all.iter().enumerate() {
                assert_eq!(mac.0[0] & 3, 2, "local, one station");
                assert!(!all[..n].contains(mac));
            }
        }
    }
}
