//! The way to an IP header: through the headers that links and tunnels put before it.
//!
//! What it is: a walk over VLAN tags (802.1Q and stacked ones), MPLS labels, PPPoE sessions, LLC with SNAP, and from one IP
//! header to the one that it carries: IP in IP, GRE of version 0, MPLS in IP, VXLAN.
//!
//! Source: IEEE 802.1Q-2018, 9; RFC 3032, 2.1 (labels), and RFC 4385, 3 (the control word before Ethernet in MPLS); RFC 2516, 4,
//! and RFC 1661, 2 (PPPoE and PPP); RFC 1042 (SNAP); RFC 2003, 4213, 2784, 2890, 4023, 7348.
//!
//! Departures: a label does not say what it carries, so the first half byte does, as routers guess it: 4 and 6 are IP, 0 is a
//! control word with Ethernet behind it, all else is Ethernet. VXLAN is known by its UDP port, 4789. Of GRE with routing, or of
//! another version, the inside is not looked at.
//!
//! Cost: each header once, at most [`STEPS`] of them. Invariant: offsets only grow; no bytes panic.

use super::ethernet::{ALL_VLAN, HEADER, IPV4, IPV6, Tags};
use super::key::Key;
use crate::ip::{Piece, UDP};
use crate::packet::at;

/// Most headers that are walked over, of links and of tunnels.
pub const STEPS: usize = 16;

const MPLS: u16 = 0x8847;
const MPLS_UPSTREAM: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
const BRIDGED: u16 = 0x6558;
/// Below this an EtherType is a length.
const LEAST_TYPE: u16 = 1536;

const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: u16 = 0x0281;

const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const MPLS_IN_IP: u8 = 137;
const VXLAN_PORT: [u8; 2] = 4789_u16.to_be_bytes();

/// Why there is no IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoIp {
    /// What is there is something else.
    Other,
    /// The bytes end before it.
    Short,
    /// The header before it says one version, and the packet itself another.
    Version,
}

/// Where in `bytes` the IP header begins, if what is at `start` has the type `ether_type`.
///
/// # Errors
/// What is there instead.
#[inline]
pub fn network(bytes: &[u8], ether_type: u16, start: usize) -> Result<usize, NoIp> {
    let version = match ether_type {
        IPV4 => 4,
        IPV6 => 6,
        _ => return behind(bytes, ether_type, start),
    };
    match bytes.get(start) {
        Some(first) if first >> 4 == version => Ok(start),
        Some(_) => Err(NoIp::Version),
        None => Err(NoIp::Short),
    }
}

/// Where in `bytes` the IP header begins, if there is an Ethernet header at `start`.
///
/// # Errors
/// What is there instead.
#[inline]
pub fn ethernet(bytes: &[u8], start: usize) -> Result<usize, NoIp> {
    let kind = at(bytes, start + HEADER - 2).ok_or(NoIp::Short)?;
    network(bytes, u16::from_be_bytes(*kind), start + HEADER)
}

/// Where in `bytes` the IP header begins, if there is a PPP protocol number at `start`.
///
/// # Errors
/// What is there instead.
pub fn ppp(bytes: &[u8], start: usize) -> Result<usize, NoIp> {
    // A number whose first byte is odd has that byte only (RFC 1661, 6.5).
    let first = *bytes.get(start).ok_or(NoIp::Short)?;
    let (protocol, start) = if first & 1 == 1 {
        (u16::from(first), start + 1)
    } else {
        (u16::from_be_bytes(*at(bytes, start).ok_or(NoIp::Short)?), start + 2)
    };
    match protocol {
        PPP_IPV4 => network(bytes, IPV4, start),
        PPP_IPV6 => network(bytes, IPV6, start),
        PPP_MPLS => network(bytes, MPLS, start),
        _ => Err(NoIp::Other),
    }
}

/// Tags, labels and sessions.
fn behind(bytes: &[u8], ether_type: u16, start: usize) -> Result<usize, NoIp> {
    let mut walk = Tags::new(bytes, ether_type, start);
    for _ in 0..STEPS {
        match walk.ether_type {
            IPV4 | IPV6 => return network(bytes, walk.ether_type, walk.at),
            kind if ALL_VLAN.contains(&kind) => {
                walk.step(&ALL_VLAN).ok_or(NoIp::Short)?;
            }
            MPLS | MPLS_UPSTREAM => {
                let &[_, _, last, _] = at(bytes, walk.at).ok_or(NoIp::Short)?;
                walk.at += 4;
                if last & 1 == 1 {
                    walk = below_labels(bytes, walk.at)?;
                }
            }
            PPPOE_SESSION => return ppp(bytes, walk.at + 6),
            BRIDGED => {
                let kind = at(bytes, walk.at + HEADER - 2).ok_or(NoIp::Short)?;
                walk = Tags::new(bytes, u16::from_be_bytes(*kind), walk.at + HEADER);
            }
            0..LEAST_TYPE => match at(bytes, walk.at) {
                Some(&[0xaa, 0xaa, 3, 0, 0, 0, high, low]) => {
                    walk = Tags::new(bytes, u16::from_be_bytes([high, low]), walk.at + 8);
                }
                _ => return Err(NoIp::Other),
            },
            _ => return Err(NoIp::Other),
        }
    }
    Err(NoIp::Other)
}

/// What stands below the last label.
fn below_labels(bytes: &[u8], start: usize) -> Result<Tags<'_>, NoIp> {
    Ok(match bytes.get(start).ok_or(NoIp::Short)? >> 4 {
        4 => Tags::new(bytes, IPV4, start),
        6 => Tags::new(bytes, IPV6, start),
        0 => Tags::new(bytes, BRIDGED, start + 4),
        _ => Tags::new(bytes, BRIDGED, start),
    })
}

/// The IP packet that is carried by the one with this key, whose payload begins at `payload` in `bytes`. `None`: it carries none,
/// or none that can be seen.
pub fn carried<'a>(bytes: &'a [u8], key: &Key<'_>, payload: usize) -> Option<&'a [u8]> {
    if key.piece == Piece::Later {
        return None;
    }
    let start = match key.protocol {
        IP_IN_IP => network(bytes, IPV4, payload),
        IPV6_IN_IP => network(bytes, IPV6, payload),
        MPLS_IN_IP => network(bytes, MPLS, payload),
        GRE => {
            let &[flags, version, high, low] = at(bytes, payload)?;
            if flags & 0x40 != 0 || version & 7 != 0 {
                return None;
            }
            // Checksum, key and sequence number: four bytes each.
            let length = 4 + 4 * [0x80, 0x20, 0x10].iter().filter(|bit| flags & **bit != 0).count();
            network(bytes, u16::from_be_bytes([high, low]), payload + length)
        }
        // Behind the UDP header: flags (bit 3: the network's number is valid), and seven bytes more.
        UDP if key.ports?[2..] == VXLAN_PORT && bytes.get(payload + 8)? & 8 != 0 => ethernet(bytes, payload + 16),
        _ => return None,
    };
    bytes.get(start.ok()?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    fn ip() -> Vec<u8> {
        testing::udp4(1, 2, 100, 200, &[9; 4])
    }

    #[test]
    fn an_ip_header_is_found_behind_tags_labels_sessions_and_snap() {
        let ways: [&[u8]; 10] = [
            &[0x08, 0],
            &[0x81, 0, 0, 5, 0x08, 0],
            &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x08, 0],
            &[0x91, 0, 0, 5, 0x92, 0, 0, 5, 0x81, 0, 0, 6, 0x08, 0],
            &[0x88, 0x47, 0, 1, 1, 64],
            &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64],
            &[0x81, 0, 0, 5, 0x88, 0x47, 0, 1, 1, 64],
            &[0x88, 0x64, 0x11, 0, 0, 7, 0, 40, 0, 0x21],
            &[0x88, 0x64, 0x11, 0, 0, 7, 0, 40, 0x21],
            &[0, 40, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0],
        ];
        for way in ways {
            let frame = [&ETHERNET[..], way, &ip()].concat();
            assert_eq!(ethernet(&frame, 0), Ok(12 + way.len()), "{way:x?}");
            for cut in 0..12 + way.len() {
                assert!(ethernet(&frame[..cut], 0).is_err(), "{way:x?} cut at {cut}");
            }
        }
        let control_word =
            [&ETHERNET, &[0x88, 0x47, 0, 1, 1, 64, 0, 0, 0, 0][..], &ETHERNET, &[0x08, 0], &ip()].concat();
        assert_eq!(ethernet(&control_word, 0), Ok(36));
        let bare = [&ETHERNET, &[0x88, 0x47, 0, 1, 1, 64][..], &[0x22; 12], &[0x08, 0], &ip()].concat();
        assert_eq!(ethernet(&bare, 0), Ok(32));
    }

    #[test]
    fn what_is_no_ip_says_why() {
        let frame = |kind: [u8; 2], rest: &[u8]| ethernet(&[&ETHERNET[..], &kind, rest].concat(), 0);
        assert_eq!(frame([0x08, 0x06], &[0; 28]), Err(NoIp::Other));
        assert_eq!(frame([0x08, 0], &[0x60; 28]), Err(NoIp::Version));
        assert_eq!(frame([0x08, 0], &[]), Err(NoIp::Short));
        assert_eq!(frame([0, 3], &[0x42, 0x42, 3]), Err(NoIp::Other));
        let endless = [0x81, 0, 0, 1].repeat(40);
        assert_eq!(frame([0x81, 0], &endless[2..]), Err(NoIp::Other));
    }

    #[test]
    fn tunnels_are_seen_through_and_later_fragments_are_not() {
        let inner = ip();
        let six = testing::udp6(1, 2, 7, 8, &[]);
        let outer = |protocol: u8, head: &[u8], inside: &[u8]| {
            let mut packet = ip()[..20].to_vec();
            packet[9] = protocol;
            [&packet[..], head, inside].concat()
        };
        let vxlan = [&[1, 2, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 5, 0][..], &ETHERNET, &[0x08, 0]].concat();
        let carriers = [
            (outer(4, &[], &inner), &inner),
            (outer(41, &[], &six), &six),
            (outer(47, &[0, 0, 0x08, 0], &inner), &inner),
            (outer(47, &[0xb0, 0, 0x08, 0, 1, 1, 0, 0, 2, 2, 2, 2, 3, 3, 3, 3], &inner), &inner),
            (outer(47, &[&[0, 0, 0x65, 0x58][..], &ETHERNET, &[0x81, 0, 0, 5, 0x08, 0]].concat(), &inner), &inner),
            (outer(137, &[0, 1, 1, 64], &inner), &inner),
            (outer(17, &vxlan, &inner), &inner),
        ];
        for (packet, inside) in carriers {
            let key = Key::read(&packet).unwrap();
            assert_eq!(carried(&packet, &key, 20), Some(&inside[..]), "{packet:x?}");
            assert_eq!(carried(&packet, &Key { piece: Piece::Later, ..key }, 20), None);
        }
        for (protocol, head) in
            [(47, &[0x40, 0, 0x08, 0][..]), (47, &[0, 1, 0x08, 0]), (6, &[]), (17, &[1, 2, 0x12, 0xb6])]
        {
            let packet = outer(protocol, head, &inner);
            assert_eq!(carried(&packet, &Key::read(&packet).unwrap(), 20), None, "{protocol}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_lead_beyond_them(bytes in proptest::collection::vec(any::<u8>(), 0..90), start in 0_usize..4) {
            for found in [ethernet(&bytes, start), ppp(&bytes, start), network(&bytes, MPLS, start)].into_iter().flatten() {
                prop_assert!(found >= start && found < bytes.len());
            }
        }
    }
}
