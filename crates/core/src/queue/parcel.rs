//! What a queue needs to know of a packet, and nothing more.

use crate::flow::ethernet;
use crate::ip;
use crate::options::words;
use core::net::IpAddr;

/// One of the two ends of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Where its packets come from.
    #[default]
    Source,
    /// Where they go to.
    Destination,
}

words!(End { Source = "source", Destination = "destination" });

/// A packet as a queue sees it.
pub trait Parcel {
    /// What it counts in bytes: for the order, for a limit in bytes, for the link. Taken as one where it is zero, so that
    /// such a limit bounds memory.
    fn size(&self) -> u32;

    /// The memory that holding it takes, where that is bounded.
    fn memory(&self) -> u64 {
        0
    }

    /// Marks it, "congestion experienced"; false where it cannot be marked.
    fn mark(&mut self) -> bool {
        false
    }

    /// Whether it says that its sender answers each mark in proportion (RFC 9331, 5.1): its ECN field is ECT(1) or CE.
    /// [`is_scalable`] and [`is_scalable_frame`] read it.
    fn is_scalable(&self) -> bool {
        false
    }

    /// The address of the host at this end, as a number; 0 where it is not known. The discipline `hosts` asks it of a packet
    /// that finds none of its flow waiting, and hashes it with a secret key. [`host_of`] and [`host_of_frame`] read it.
    fn host(&self, _end: End) -> u128 {
        0
    }

    /// Its class, 0 to 7: the greater, the more urgent. Disciplines by class ask it of a packet that finds none of its flow
    /// waiting. [`class_of`] and [`class_of_frame`] read it.
    fn class(&self) -> u8 {
        0
    }
}

/// The host at this end of an IP packet: an IPv6 address, or an IPv4 address as IPv6 maps it (RFC 4291, 2.5.5.2). 0 where it
/// is no IP packet.
#[inline]
pub fn host_of(packet: &[u8], end: End) -> u128 {
    let address = match end {
        End::Source => ip::source(packet),
        End::Destination => ip::destination(packet),
    };
    match address {
        Some(IpAddr::V4(address)) => address.to_ipv6_mapped().to_bits(),
        Some(IpAddr::V6(address)) => address.to_bits(),
        None => 0,
    }
}

/// The class of an IP packet: the upper three bits of its DSCP, which are the class selector (RFC 2474, 4.2.2; EF is of class
/// 5, AF4x of class 4). 0 where it is no IP packet.
#[inline]
pub fn class_of(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second >> 5,
        [first, ..] if first >> 4 == 6 => first >> 1 & 7,
        _ => 0,
    }
}

/// The host at this end of an Ethernet frame: that of the IP packet within, behind VLAN tags too, else the hardware address.
pub fn host_of_frame(frame: &[u8], end: End) -> u128 {
    let station = |at: usize| {
        let octets: Option<&[u8; 6]> = frame.get(at..).and_then(|rest| rest.first_chunk());
        octets.map_or(0, |octets| octets.iter().fold(0, |number, octet| number << 8 | u128::from(*octet)))
    };
    match (ethernet::packet(frame), end) {
        (Some(at), _) => host_of(frame.get(at..).unwrap_or_default(), end),
        (None, End::Source) => station(6),
        (None, End::Destination) => station(0),
    }
}

/// The class of an Ethernet frame: that of the IP packet within, behind VLAN tags too, else 0.
pub fn class_of_frame(frame: &[u8]) -> u8 {
    ethernet::packet(frame).and_then(|at| frame.get(at..)).map_or(0, class_of)
}

/// Whether an IP packet says that its sender answers each mark in proportion (L4S): ECT(1) or CE. False where it is no IP packet.
#[inline]
pub fn is_scalable(packet: &[u8]) -> bool {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second & 1 == 1,
        [first, second, ..] if first >> 4 == 6 => second >> 4 & 1 == 1,
        _ => false,
    }
}

/// The same of an Ethernet frame: of the IP packet within, behind VLAN tags too.
pub fn is_scalable_frame(frame: &[u8]) -> bool {
    ethernet::packet(frame).and_then(|at| frame.get(at..)).is_some_and(is_scalable)
}

/// A packet of which no more is known than its size. It cannot be marked, and belongs to no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opaque<P> {
    /// The packet.
    pub packet: P,
    /// What it counts in bytes.
    pub size: u32,
}

impl<P> Parcel for Opaque<P> {
    #[inline]
    fn size(&self) -> u32 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use crate::wire::mac::Mac;
    use std::vec::Vec;

    fn frame(ether_type: u16, tags: &[u8], packet: &[u8]) -> Vec<u8> {
        let mut frame = std::vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(tags);
        frame.extend(ether_type.to_be_bytes());
        frame.extend(packet);
        frame
    }

    #[test]
    fn hosts_and_classes_are_those_of_the_header_behind_tags_too() {
        let ends = [End::Source, End::Destination];
        for (packet, ether_type) in [
            (testing::udp4(1, 2, 100, 200, &[1; 10]), ethernet::IPV4),
            (testing::udp6(1, 2, 100, 200, &[1; 10]), ethernet::IPV6),
        ] {
            let mut packet = packet;
            let hosts = ends.map(|end| host_of(&packet, end));
            assert!(hosts[0] != hosts[1] && !hosts.contains(&0), "{hosts:?}");
            let tagged = frame(ether_type, &[0x81, 0, 0, 5], &packet);
            assert_eq!(ends.map(|end| host_of_frame(&tagged, end)), hosts);
            assert_eq!((class_of(&packet), class_of_frame(&tagged)), (0, 0));
            // EF, 46.
            if ether_type == ethernet::IPV4 {
                packet[1] = 46 << 2;
            } else {
                (packet[0], packet[1]) = (0x60 | 46 >> 2, (46 & 3) << 6);
            }
            assert_eq!((class_of(&packet), class_of_frame(&frame(ether_type, &[], &packet))), (5, 5));
        }
    }

    // RFC 9331, 5.1: the last bit of the field.
    #[test]
    fn a_packet_is_scalable_by_the_last_bit_of_its_ecn_field_behind_tags_too() {
        for (packet, ether_type) in [
            (testing::udp4(1, 2, 100, 200, &[1; 10]), ethernet::IPV4),
            (testing::udp6(1, 2, 100, 200, &[1; 10]), ethernet::IPV6),
        ] {
            let fields = [0, 1, 2, 3].map(|field| {
                let mut packet = packet.clone();
                let version = if ether_type == ethernet::IPV4 { ip::Version::V4 } else { ip::Version::V6 };
                ip::ecn::set(&mut packet, version, field);
                (is_scalable(&packet), is_scalable_frame(&frame(ether_type, &[0x81, 0, 0, 5], &packet)))
            });
            assert_eq!(fields, [(false, false), (true, true), (false, false), (true, true)]);
        }
        assert!(
            !is_scalable(&[]) && !is_scalable(&[0x45]) && !is_scalable_frame(&frame(ethernet::ARP, &[], &[0xff; 28]))
        );
    }

    #[test]
    fn what_is_no_ip_packet_has_the_hosts_of_its_frame_or_none() {
        let arp = frame(ethernet::ARP, &[], &[0; 28]);
        let number = |mac: Mac| mac.0.iter().fold(0, |number, octet| number << 8 | u128::from(*octet));
        assert_eq!(host_of_frame(&arp, End::Source), number(Mac([2, 0, 0, 0, 0, 2])));
        assert_eq!(host_of_frame(&arp, End::Destination), number(Mac([2, 0, 0, 0, 0, 1])));
        assert_eq!((host_of_frame(&[1, 2], End::Source), host_of(&[0x45], End::Source), class_of(&[])), (0, 0, 0));
        assert_eq!((class_of(&[0x45]), class_of_frame(&arp)), (0, 0));
    }

    #[test]
    fn a_packet_of_which_nothing_is_known_is_of_no_host_and_no_class_and_not_scalable() {
        let mut opaque = Opaque { packet: (), size: 100 };
        assert_eq!([End::Source, End::Destination].map(|end| opaque.host(end)), [0, 0]);
        assert_eq!((opaque.class(), opaque.is_scalable(), opaque.memory(), opaque.mark()), (0, false, 0, false));
        assert!(![0x00, 0x50, 0x70, 0xf0].into_iter().any(|version| is_scalable(&[version, 0xff])));
    }
}
