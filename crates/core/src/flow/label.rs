//! What a flow is called, for people: its protocol and its ends, as one of its packets shows them.
//!
//! Cost: one read of the headers, for a flow's first packet alone. Invariant: no bytes panic.

use super::ethernet::{self, ALL_VLAN, HEADER, Tags};
use super::frame::{Frame, Layer};
use super::key::Key;
use crate::ip::{self, Version};
use crate::wire::mac::Mac;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// VLAN tags that are looked behind.
const VLAN_TAGS: usize = 4;

/// The name of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Of IP packets.
    Ip {
        /// What is behind the headers that were understood.
        protocol: u8,
        /// From where.
        source: IpAddr,
        /// To where.
        destination: IpAddr,
        /// Source and destination port, where there are any.
        ports: Option<(u16, u16)>,
    },
    /// Of other Ethernet frames.
    Ethernet {
        /// What is in them; a length where it is below 1536.
        ether_type: u16,
        /// From where.
        source: Mac,
        /// To where.
        destination: Mac,
    },
    /// Of what is too short to have a header.
    Unknown,
    /// Of all flows for which a table has no room.
    Others,
}

impl Label {
    /// The name of the flow of `frame`.
    pub fn of(frame: &Frame<'_>) -> Label {
        if frame.layer == Layer::Ip {
            return Key::read(frame.bytes).and_then(|key| Label::ip(&key)).unwrap_or(Label::Unknown);
        }
        let Some(header) = frame.bytes.first_chunk::<HEADER>() else { return Label::Unknown };
        let mut tags = Tags::new(frame.bytes, u16::from_be_bytes([header[12], header[13]]), HEADER);
        tags.pass(&ALL_VLAN, VLAN_TAGS);
        let rest = frame.bytes.get(tags.at..).unwrap_or_default();
        let key = match tags.ether_type {
            ethernet::IPV4 | ethernet::IPV6 => Key::read(rest),
            _ => None,
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *header;
        key.and_then(|key| Label::ip(&key)).unwrap_or(Label::Ethernet {
            ether_type: tags.ether_type,
            source: Mac([s0, s1, s2, s3, s4, s5]),
            destination: Mac([d0, d1, d2, d3, d4, d5]),
        })
    }

    fn ip(key: &Key<'_>) -> Option<Label> {
        let (source, destination): (IpAddr, IpAddr) = match key.version {
            Version::V4 => {
                let ([from, to], _) = key.addresses.as_chunks::<4>() else { return None };
                (Ipv4Addr::from(*from).into(), Ipv4Addr::from(*to).into())
            }
            Version::V6 => {
                let ([from, to], _) = key.addresses.as_chunks::<16>() else { return None };
                (Ipv6Addr::from(*from).into(), Ipv6Addr::from(*to).into())
            }
        };
        let ports = key.ports.map(|[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        Some(Label::Ip { protocol: key.protocol, source, destination, ports })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Label::Ip { protocol, source, destination, ports } => {
                match protocol {
                    ip::TCP => f.write_str("tcp")?,
                    ip::UDP => f.write_str("udp")?,
                    ip::ICMP => f.write_str("icmp")?,
                    ip::ICMPV6 => f.write_str("icmpv6")?,
                    other => write!(f, "protocol {other}")?,
                }
                let end = |f: &mut fmt::Formatter<'_>, address: IpAddr, port: Option<u16>| match (address, port) {
                    (IpAddr::V6(address), Some(port)) => write!(f, "[{address}]:{port}"),
                    (address, Some(port)) => write!(f, "{address}:{port}"),
                    (address, None) => write!(f, "{address}"),
                };
                f.write_str(" ")?;
                end(f, source, ports.map(|(from, _)| from))?;
                f.write_str(" > ")?;
                end(f, destination, ports.map(|(_, to)| to))
            }
            Label::Ethernet { ether_type, source, destination } => match ether_type {
                ethernet::ARP => write!(f, "arp {source} > {destination}"),
                0..1536 => write!(f, "llc {source} > {destination}"),
                other => write!(f, "ethertype 0x{other:04x} {source} > {destination}"),
            },
            Label::Unknown => f.write_str("unreadable"),
            Label::Others => f.write_str("others"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use proptest::prelude::*;
    use std::string::ToString;

    fn ethernet(ether_type: u16, tags: &[u8], packet: &[u8]) -> std::vec::Vec<u8> {
        let mut frame = std::vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(tags);
        frame.extend(ether_type.to_be_bytes());
        frame.extend(packet);
        frame
    }

    fn named(bytes: &[u8], layer: Layer) -> std::string::String {
        Label::of(&Frame { bytes, len: bytes.len(), layer }).to_string()
    }

    #[test]
    fn a_flow_is_called_by_its_protocol_and_its_ends_behind_tags_too() {
        let four = testing::udp4(1, 2, 100, 200, &[1; 10]);
        let name = named(&four, Layer::Ip);
        assert!(name.starts_with("udp ") && name.contains(":100 > ") && name.ends_with(":200"), "{name}");
        assert_eq!(named(&ethernet(0x0800, &[], &four), Layer::Ethernet), name);
        assert_eq!(named(&ethernet(0x0800, &[0x81, 0, 0, 5], &four), Layer::Ethernet), name);
        let six = named(&testing::udp6(1, 2, 100, 200, &[1; 10]), Layer::Ip);
        assert!(six.contains("]:100 > [") && six.ends_with("]:200"), "{six}");
        assert_eq!(
            named(&ethernet(0x0806, &[], &[0; 46]), Layer::Ethernet),
            "arp 02:00:00:00:00:02 > 02:00:00:00:00:01"
        );
        assert!(named(&ethernet(0x88b5, &[], &[]), Layer::Ethernet).starts_with("ethertype 0x88b5 "));
        assert_eq!(named(&[1, 2, 3], Layer::Ethernet), "unreadable");
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_name(bytes in proptest::collection::vec(any::<u8>(), 0..80), ip in any::<bool>()) {
            let layer = if ip { Layer::Ip } else { Layer::Ethernet };
            prop_assert!(!named(&bytes, layer).is_empty());
        }
    }
}
