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
//! - encap2+3, encap3+4: the same, of the innermost packet that the dissector reaches (`hash/dissect.rs`);
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
mod keys;
mod plain;

use crate::flow::ethernet::{HEADER, Tags, VLAN};
use crate::flow::frame::{Frame, Layer};
use crate::options::words;
use crate::packet::at;
use crate::set::LinkSet;
use keys::Outer;

/// Which headers choose the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashPolicy {
    /// Ethernet addresses and type.
    #[default]
    Layer2,
    /// Addresses and ports.
    Layer34,
    /// Ethernet and IP addresses.
    Layer23,
    /// As layer 2+3, of the inner packet of a tunnel.
    Encap23,
    /// As layer 3+4, of the inner packet of a tunnel.
    Encap34,
    /// VLAN tag and Ethernet source.
    VlanSrcmac,
}

// In the order of Linux's numbers.
words!(HashPolicy {
    Layer2 = "layer2",
    Layer34 = "layer3+4",
    Layer23 = "layer2+3",
    Encap23 = "encap2+3",
    Encap34 = "encap3+4",
    VlanSrcmac = "vlan+srcmac",
});

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
pub(crate) fn ports_and_addresses(frame: &Frame<'_>) -> u128 {
    let mut tags = Tags::new(frame.behind_ethernet(), frame.ether_type(), 0);
    tags.pass(&VLAN, usize::MAX);
    let packet = frame.behind_ethernet().get(tags.at..).unwrap_or(&[]);
    plain::numbers(packet, tags.ether_type).unwrap_or_else(|| u128::from(layer2(frame)))
}

/// The frame's EtherType, and where the kernel has the network header of a frame that it is given with its tags: behind
/// all of them, although the EtherType is still the first tag's.
#[inline]
fn outer(frame: &Frame<'_>) -> Outer {
    let protocol = frame.ether_type();
    match frame.layer {
        Layer::Ip => Outer { protocol, network: 0 },
        Layer::Ethernet if VLAN.contains(&protocol) => tagged(frame.bytes, protocol),
        Layer::Ethernet => Outer { protocol, network: HEADER },
    }
}

/// Tags that the kernel passes over when it looks for the network header.
const TAGS: usize = 7;

#[cold]
fn tagged(bytes: &[u8], protocol: u16) -> Outer {
    let mut tags = Tags::new(bytes, protocol, HEADER);
    tags.pass(&VLAN, TAGS);
    // Too many, cut short, or a length of zero behind them: it looks right behind the Ethernet header.
    let lost = tags.ether_type == 0 || VLAN.contains(&tags.ether_type);
    Outer { protocol, network: if lost { HEADER } else { tags.at } }
}

#[inline]
fn layer2(frame: &Frame<'_>) -> u32 {
    match frame.layer {
        Layer::Ip => u32::from(frame.ether_type()),
        Layer::Ethernet => at::<HEADER>(frame.bytes, 0).map_or(0, |header| {
            u32::from(header[5]) ^ u32::from(header[11]) ^ u32::from(u16::from_be_bytes([header[12], header[13]]))
        }),
    }
}

#[inline]
fn source(frame: &Frame<'_>) -> u32 {
    match (frame.layer, at::<HEADER>(frame.bytes, 0)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::ethernet::{IPV4, IPV6};
    use crate::ip::testing;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const ALL: [HashPolicy; 6] = [
        HashPolicy::Layer2,
        HashPolicy::Layer34,
        HashPolicy::Layer23,
        HashPolicy::Encap23,
        HashPolicy::Encap34,
        HashPolicy::VlanSrcmac,
    ];

    /// An Ethernet header, from station 5 to station 3, and what follows it.
    fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::from([2, 0, 0, 0, 0, 3, 2, 0, 1, 0, 0, 5]);
        frame.extend_from_slice(&kind.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    /// An IPv4 header from 10.0.0.1 to 10.0.0.2 before `payload`.
    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::from([0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend_from_slice(payload);
        packet
    }

    fn of(policy: HashPolicy, layer: Layer, bytes: &[u8]) -> u32 {
        hash(policy, &Frame { bytes, len: bytes.len(), layer })
    }

    fn on_ethernet(policy: HashPolicy, kind: u16, payload: &[u8]) -> u32 {
        of(policy, Layer::Ethernet, &ethernet(kind, payload))
    }

    #[test]
    fn the_formulas_worked_out_by_hand() {
        let packet = ipv4(6, &[0x1f, 0x90, 0, 80, 0, 0, 0, 0]);
        // 3 ^ 5 ^ 0x0800.
        assert_eq!(on_ethernet(HashPolicy::Layer2, IPV4, &packet), 0x0806);
        // The addresses differ in the last byte, by 3, which comes first in a word: 0x0300_0000 ^ 0x0806 = 0x0300_0806;
        // ^ >> 16: 0x0300_0b06; ^ >> 8: 0x0303_0b0d.
        assert_eq!(on_ethernet(HashPolicy::Layer23, IPV4, &packet), 0x0303_0b0d);
        // 8080 and 80 are 0x5000_901f: ^ 0x0300_0000 = 0x5300_901f; ^ >> 16: 0x5300_c31f; ^ >> 8: 0x5353_c3dc; >> 1.
        assert_eq!(on_ethernet(HashPolicy::Layer34, IPV4, &packet), 0x29a9_e1ee);
        // 0x020001 ^ 0x000005.
        assert_eq!(on_ethernet(HashPolicy::VlanSrcmac, IPV4, &packet), 0x02_0004);
        // (8080 ^ 80) ^ (10.0.0.1 ^ 10.0.0.2).
        let bytes = ethernet(IPV4, &packet);
        let frame = Frame { bytes: &bytes, len: bytes.len(), layer: Layer::Ethernet };
        assert_eq!(ports_and_addresses(&frame), (8080 ^ 80) ^ 3);
        // 10.0.0.65: a bit that the ports have as well.
        let mut bytes = bytes.clone();
        bytes[33] = 65;
        let frame = Frame { bytes: &bytes, len: bytes.len(), layer: Layer::Ethernet };
        assert_eq!(ports_and_addresses(&frame), (8080 ^ 80) ^ 64);
    }

    #[test]
    fn all_fragments_of_a_datagram_hash_alike() {
        for policy in ALL {
            let mut first = testing::udp4(1, 2, 100, 200, &[1; 40]);
            let mut later = testing::udp4(1, 2, 7, 9, &[2; 40]);
            first[6] = 0x20; // more fragments
            later[7] = 5; // offset 40
            assert_eq!(on_ethernet(policy, IPV4, &first), on_ethernet(policy, IPV4, &later), "{policy:?}");
        }
    }

    #[test]
    fn an_icmp_error_goes_where_the_packet_that_it_quotes_would() {
        let quoted = testing::udp4(1, 2, 100, 200, &[]);
        let error = |kind: u8| ipv4(1, &[&[kind, 1, 0, 0, 0, 0, 0, 0], quoted.as_slice()].concat());
        for policy in [HashPolicy::Layer23, HashPolicy::Layer34] {
            for kind in [3, 4, 5, 11, 12] {
                let hash = on_ethernet(policy, IPV4, &error(kind));
                assert_eq!(hash, on_ethernet(policy, IPV4, &quoted), "{policy:?}: type {kind}");
            }
            // Not an error, so nothing is quoted.
            assert_eq!(on_ethernet(policy, IPV4, &error(10)), on_ethernet(policy, IPV4, &ipv4(2, &[])), "{policy:?}");
        }
        let cut = &error(3)[..20 + 8 + 19];
        assert_eq!(on_ethernet(HashPolicy::Layer34, IPV4, cut), 0x0806, "as layer2");
    }

    #[test]
    fn an_echo_hashes_by_type_code_and_identifier_and_not_by_its_number() {
        let echo = |kind: u8, id: u8, number: u8| ipv4(1, &[kind, 0, 0, 0, 0, id, 0, number]);
        for policy in [HashPolicy::Layer34, HashPolicy::Encap34] {
            let hash = |packet: Vec<u8>| on_ethernet(policy, IPV4, &packet);
            assert_eq!(hash(echo(8, 1, 1)), hash(echo(8, 1, 2)));
            assert_eq!(hash(echo(8, 0, 1)), hash(echo(8, 1, 1)), "identifier 0 counts as 1");
            assert_ne!(hash(echo(8, 1, 1)), hash(echo(8, 5, 1)));
            assert_ne!(hash(echo(8, 1, 1)), hash(echo(0, 1, 1)));
        }
    }

    #[test]
    fn tunnels_are_looked_into_by_the_encap_policies_only() {
        let inner = [testing::udp4(7, 8, 100, 200, &[]), testing::udp4(7, 9, 100, 201, &[])];
        let bridged = ethernet(IPV4, &inner[0]);
        let tunnel = |inner: &[u8]| ipv4(47, &[&[0x20, 0, 8, 0, 1, 2, 3, 4], inner].concat());
        for (outer, encap) in [(HashPolicy::Layer23, HashPolicy::Encap23), (HashPolicy::Layer34, HashPolicy::Encap34)] {
            for inner in &inner {
                for packet in [ipv4(4, inner), tunnel(inner)] {
                    assert_eq!(on_ethernet(encap, IPV4, &packet), on_ethernet(outer, IPV4, inner), "{encap:?}");
                    assert_eq!(on_ethernet(outer, IPV4, &packet), on_ethernet(outer, IPV4, &ipv4(4, &[])));
                }
            }
            let packet = ipv4(47, &[&[0, 0, 0x65, 0x58], bridged.as_slice()].concat());
            assert_eq!(on_ethernet(encap, IPV4, &packet), on_ethernet(outer, IPV4, &inner[0]), "Ethernet in GRE");
        }
    }

    #[test]
    fn a_packet_without_an_ethernet_header_is_one_between_addresses_of_zeros() {
        for packet in [testing::udp4(1, 2, 3, 4, &[]), testing::udp6(1, 2, 3, 4, &[])] {
            let kind: u16 = if packet[0] >> 4 == 4 { IPV4 } else { IPV6 };
            let mut frame = Vec::from([0; 12]);
            frame.extend_from_slice(&kind.to_be_bytes());
            frame.extend_from_slice(&packet);
            for policy in ALL {
                assert_eq!(of(policy, Layer::Ip, &packet), of(policy, Layer::Ethernet, &frame), "{policy:?}");
            }
        }
    }

    #[test]
    fn tags_in_a_frame_hide_what_follows_them_from_the_driver_and_not_from_the_papers_formula() {
        let packet = testing::udp4(1, 2, 100, 200, &[]);
        let tagged = [&[0, 5, 8, 0], packet.as_slice()].concat();
        for policy in [HashPolicy::Layer23, HashPolicy::Layer34, HashPolicy::Encap23, HashPolicy::Encap34] {
            assert_eq!(on_ethernet(policy, VLAN[0], &tagged), on_ethernet(HashPolicy::Layer2, VLAN[0], &tagged));
        }
        let value = |bytes: &[u8]| ports_and_addresses(&Frame { bytes, len: bytes.len(), layer: Layer::Ethernet });
        assert_eq!(value(&ethernet(VLAN[0], &tagged)), value(&ethernet(IPV4, &packet)));
    }

    #[test]
    fn the_papers_formula_takes_ipv6_addresses_as_numbers_and_passes_over_options() {
        let value = |bytes: &[u8]| ports_and_addresses(&Frame { bytes, len: bytes.len(), layer: Layer::Ip });
        let packet = testing::udp6(1, 2, 100, 200, &[]);
        let address = |at: usize| u128::from_be_bytes(*packet[at..].first_chunk().unwrap());
        let expected = (100 ^ 200) ^ (address(8) ^ address(24));
        assert_eq!(value(&packet), expected);
        let mut options = packet.clone();
        options[6] = 60;
        options.splice(40..40, [17, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(value(&options), expected);
    }

    #[test]
    fn the_walk_ends_at_its_limit_with_what_it_has() {
        // Hop-by-hop options, more than are looked at, before UDP.
        for (options, sees_ports) in [(15, true), (17, false)] {
            let mut packet = testing::udp6(1, 2, 100, 200, &[]);
            let udp = packet.split_off(40);
            packet[6] = 0;
            for n in 1..=options {
                packet.extend_from_slice(&[if n == options { 17 } else { 0 }, 0, 1, 4, 0, 0, 0, 0]);
            }
            packet.extend_from_slice(&udp);
            let without = {
                let mut packet = packet.clone();
                packet.truncate(40 + options * 8);
                packet
            };
            let [with, without] = [packet, without].map(|packet| on_ethernet(HashPolicy::Encap34, IPV6, &packet));
            assert_eq!(with != without, sees_ports, "{options} headers");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_choose_a_usable_link_and_what_follows_the_headers_does_not_matter(
            kind in prop_oneof![
                prop::sample::select(&[IPV4, IPV6, VLAN[0], VLAN[1], 0x8864, 0x4305, 0x892f, 0x88ca, 0x88f7, 0x8906, 0x8847][..]),
                any::<u16>(),
            ],
            mut payload in prop::collection::vec(any::<u8>(), 0..200),
            protocol in prop::sample::select(&[0u8, 1, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 60, 137][..]),
            cut in 0..220usize,
            ip in any::<bool>(),
            usable in any::<u64>(),
        ) {
            // Random bytes that the walk does not leave at once.
            match (kind, payload.as_mut_slice()) {
                (IPV4, [first, _, _, _, _, _, high, low, _, next, ..]) => {
                    (*first, *next) = (*first & 1 | 0x45, protocol);
                    (*high, *low) = (0, 0);
                }
                (IPV6, [first, _, _, _, _, _, next, ..]) => (*first, *next) = (0x60, protocol),
                (0x8864, [first, code, ..]) => (*first, *code) = (0x11, 0),
                (0x4305, [first, version, ..]) => (*first, *version) = (0x40, 15),
                _ => {}
            }
            let (layer, frame) = if ip { (Layer::Ip, payload) } else { (Layer::Ethernet, ethernet(kind, &payload)) };
            let bytes = &frame[..cut.min(frame.len())];
            for policy in ALL {
                let hash = of(policy, layer, bytes);
                let links = choose(LinkSet::from_bits(usable), hash);
                prop_assert_eq!(links.len(), usize::from(usable != 0));
                prop_assert_eq!(links.bits() & !usable, 0);
            }
            let _ = ports_and_addresses(&Frame { bytes, len: frame.len(), layer });
        }
    }
    #[test]
    fn behind_more_tags_than_are_passed_or_cut_short_it_looks_behind_the_ethernet_header() {
        let network = |bytes: &[u8]| outer(&Frame { bytes, len: bytes.len(), layer: Layer::Ethernet }).network;
        let tagged = |tags: usize| {
            let mut bytes = [2; 12].to_vec();
            (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 5]));
            bytes.extend([8, 0, 0x45, 0]);
            bytes
        };
        assert_eq!((network(&tagged(0)), network(&tagged(1)), network(&tagged(7))), (14, 18, 42));
        assert_eq!((network(&tagged(8)), network(&tagged(3)[..22])), (14, 14));
    }
}
