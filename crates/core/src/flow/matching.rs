//! Which packets are of a class: lists of what may stand in their headers, and a matcher made of them.
//!
//! What it is: the settings of a traffic class name code points, protocols, ports and addresses, each as a [`List`] that is written as
//! words between commas. A packet matches where each list that is not empty has something of it. A `Matcher` is made of the lists once,
//! and reads nothing but the packet's headers.
//!
//! Source: names of code points by RFC 4594, RFC 5865 (VOICE-ADMIT) and RFC 8622 (LE).
//!
//! Ports are those of TCP, UDP, UDP-Lite, SCTP and DCCP, in a packet that is all of its datagram. A fragment has none here, neither the first
//! nor a later one, so that all fragments of a datagram match alike; so it is with the hash of flows. The protocol stands behind the extension
//! headers of IPv6 and in each fragment. Cost: O(list lengths) a packet for ports and addresses, O(1) for the rest; no allocation. Invariant: any bytes
//! whose [`Header`] could be parsed may be looked at.

use crate::ip::{self, Header, ICMP, ICMPV6, TCP, UDP};
use crate::options::{Field, OptionError, Value};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// Most entries of a list.
const MOST: usize = 256;

/// What may stand in a list.
pub trait Item: Sized + Display + FromStr {
    /// The option whose value the list is.
    const OPTION: &'static str;
    /// What is right.
    const EXPECTED: &'static str;
}

/// Any of these; empty: anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Vec::new())
    }
}

impl<T: Item> FromStr for List<T> {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<List<T>, OptionError> {
        let wrong =
            |part: &str| OptionError::Value { option: T::OPTION, value: part.into(), expected: T::EXPECTED.into() };
        if text.trim().is_empty() {
            return Ok(List::default());
        }
        let parts = text.split(',').map(str::trim);
        let all = parts.map(|part| part.parse().map_err(|_| wrong(part))).collect::<Result<Vec<T>, _>>()?;
        if all.len() > MOST { Err(wrong(text)) } else { Ok(List(all)) }
    }
}

impl<T: Item> Display for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, one) in self.0.iter().enumerate() {
            write!(f, "{}{one}", if n > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl<T: Item> Field for List<T> {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn take(&mut self, value: Value) {
        if let Value::Text(text) = value
            && let Ok(list) = text.parse()
        {
            *self = list;
        }
    }
}

/// What could not be read; [`Item::EXPECTED`] says what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// A differentiated services code point, from 0 to 63 (RFC 2474).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(u8);

/// Names and numbers.
const CODE_POINTS: [(&str, u8); 24] = [
    ("DF", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VOICE-ADMIT", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
    ("CS0", 0),
];

impl Item for Dscp {
    const OPTION: &'static str = "dscp";
    const EXPECTED: &'static str =
        "write code points by name, such as EF, VOICE-ADMIT, CS5, AF41, LE or DF, or as numbers from 0 to 63";
}

impl FromStr for Dscp {
    type Err = Unread;

    fn from_str(text: &str) -> Result<Dscp, Unread> {
        let named = CODE_POINTS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, number)| *number);
        named.or_else(|| text.parse().ok().filter(|number| *number < 64)).map(Dscp).ok_or(Unread)
    }
}

impl Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CODE_POINTS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// That of this number.
    Number(u8),
    /// ICMP over IPv4 or IPv6.
    Icmp,
}

impl Item for Protocol {
    const OPTION: &'static str = "protocol";
    const EXPECTED: &'static str = "write tcp, udp, icmp, or a protocol's number from 0 to 255";
}

impl FromStr for Protocol {
    type Err = Unread;

    fn from_str(text: &str) -> Result<Protocol, Unread> {
        match text {
            "tcp" => Ok(Protocol::Number(TCP)),
            "udp" => Ok(Protocol::Number(UDP)),
            "icmp" => Ok(Protocol::Icmp),
            number => number.parse().map(Protocol::Number).map_err(|_| Unread),
        }
    }
}

impl Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protocol::Number(TCP) => f.write_str("tcp"),
            Protocol::Number(UDP) => f.write_str("udp"),
            Protocol::Icmp => f.write_str("icmp"),
            Protocol::Number(number) => write!(f, "{number}"),
        }
    }
}

/// Ports from the first to the second, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports(u16, u16);

impl Item for Ports {
    const OPTION: &'static str = "port";
    const EXPECTED: &'static str = "write ports from 1 to 65535, or ranges of them such as 5060-5080";
}

impl FromStr for Ports {
    type Err = Unread;

    fn from_str(text: &str) -> Result<Ports, Unread> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(Ports(first, last)),
            _ => Err(Unread),
        }
    }
}

impl Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 { write!(f, "{}", self.0) } else { write!(f, "{}-{}", self.0, self.1) }
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// The bits of an address, the first one highest, and its length.
    fn bits_of(address: IpAddr) -> (u128, u8) {
        match address {
            IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
            IpAddr::V6(v6) => (u128::from(v6), 128),
        }
    }

    /// The bits that count.
    fn mask(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0)
    }
}

impl Item for Network {
    const OPTION: &'static str = "address";
    const EXPECTED: &'static str =
        "write addresses or networks whose bits behind the prefix are zero, such as 198.51.100.0/24 or 2001:db8::/32";
}

impl FromStr for Network {
    type Err = Unread;

    fn from_str(text: &str) -> Result<Network, Unread> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| Unread)?;
        let (value, most) = Network::bits_of(address);
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| Unread)?;
        let network = Network { address, bits };
        if bits > most || value & !network.mask() != 0 { Err(Unread) } else { Ok(network) }
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// A channel by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub String);

impl Item for Name {
    const OPTION: &'static str = "channels";
    const EXPECTED: &'static str = "write names of channels, without commas";
}

impl FromStr for Name {
    type Err = Unread;

    fn from_str(text: &str) -> Result<Name, Unread> {
        let good = !text.is_empty() && !text.contains(',') && !text.chars().any(char::is_control);
        if good { Ok(Name(text.into())) } else { Err(Unread) }
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the lists of a class say, for packets.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    /// Code points, by bit; all where none is named.
    dscp: u64,
    /// Protocols, by bit.
    protocols: [u64; 4],
    ports: Vec<Ports>,
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
    /// Addresses count.
    by_address: bool,
}

impl Matcher {
    /// What these lists say.
    pub(crate) fn new(
        dscp: &List<Dscp>,
        protocol: &List<Protocol>,
        port: &List<Ports>,
        address: &List<Network>,
    ) -> Matcher {
        let points = dscp.0.iter().fold(0, |set, one| set | 1u64 << (one.0 & 63));
        let mut protocols = if protocol.0.is_empty() { [u64::MAX; 4] } else { [0; 4] };
        for one in &protocol.0 {
            let numbers: &[u8] = match one {
                Protocol::Number(number) => &[*number],
                Protocol::Icmp => &[ICMP, ICMPV6],
            };
            numbers.iter().for_each(|number| protocols[usize::from(number >> 6)] |= 1 << (number & 63));
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for one in &address.0 {
            let (value, mask) = (Network::bits_of(one.address).0, one.mask());
            match one.address {
                IpAddr::V4(_) => v4.push(((value >> 96) as u32, (mask >> 96) as u32)),
                IpAddr::V6(_) => v6.push((value, mask)),
            }
        }
        Matcher {
            dscp: if dscp.0.is_empty() { u64::MAX } else { points },
            protocols,
            ports: port.0.clone(),
            v4,
            v6,
            by_address: !address.0.is_empty(),
        }
    }

    /// Whether the packet `bytes` with this header matches.
    #[inline]
    pub(crate) fn matches(&self, header: &Header, bytes: &[u8]) -> bool {
        self.dscp >> (header.tos >> 2) & 1 != 0
            && self.protocols[usize::from(header.protocol >> 6)] >> (header.protocol & 63) & 1 != 0
            && (self.ports.is_empty() || self.has_port(header, bytes))
            && (!self.by_address || self.has_address(bytes))
    }

    fn has_port(&self, header: &Header, bytes: &[u8]) -> bool {
        let Some([a, b, c, d]) = header.ports(bytes) else { return false };
        let (source, destination) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let has = |port: u16| self.ports.iter().any(|one| (one.0..=one.1).contains(&port));
        has(source) || has(destination)
    }

    fn has_address(&self, bytes: &[u8]) -> bool {
        let has = |address: Option<IpAddr>| match address {
            Some(IpAddr::V4(v4)) => self.has_v4(v4),
            Some(IpAddr::V6(v6)) => self.has_v6(v6),
            None => false,
        };
        has(ip::destination(bytes)) || has(ip::source(bytes))
    }

    fn has_v4(&self, address: Ipv4Addr) -> bool {
        let address = u32::from(address);
        self.v4.iter().any(|(value, mask)| address & mask == *value)
    }

    fn has_v6(&self, address: Ipv6Addr) -> bool {
        let address = u128::from(address);
        self.v6.iter().any(|(value, mask)| address & mask == *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing::{udp4, udp6};
    use alloc::format;
    use alloc::vec;
    use proptest::prelude::*;

    fn list<T: Item>(text: &str) -> List<T> {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Whether `packet` matches `dscp; protocol; port; address`.
    fn is(lists: &str, packet: &[u8]) -> bool {
        let mut parts = lists.split(';');
        let mut next = || parts.next().unwrap_or_default();
        let matcher = Matcher::new(&list(next()), &list(next()), &list(next()), &list(next()));
        matcher.matches(&Header::parse(packet, packet.len()).unwrap(), packet)
    }

    #[test]
    fn lists_are_read_and_shown_alike_and_what_is_wrong_is_named() {
        let same = |text: &str, shown: String| assert_eq!(text, shown);
        same("EF,CS5,AF31,27,LE,DF", list::<Dscp>("ef, CS5,26,27,1,CS0").to_string());
        same("tcp,udp,icmp,1,132", list::<Protocol>("tcp,17,icmp,1,132").to_string());
        same("443,5060-5080", list::<Ports>("443-443,5060 - 5080").to_string());
        same(
            "198.51.100.0/24,10.0.0.1/32,2001:db8::/32,0.0.0.0/0",
            list::<Network>("198.51.100.0/24,10.0.0.1,2001:db8::/32,0.0.0.0/0").to_string(),
        );
        same("dsl,my fibre", list::<Name>("dsl, my fibre").to_string());
        for wrong in ["64", "EX", "EF,", "-1"] {
            let error = wrong.parse::<List<Dscp>>().unwrap_err().to_string();
            assert!(error.starts_with("dscp is") && error.contains("from 0 to 63"), "{error}");
        }
        for wrong in ["0", "65536", "9-8", "a", "1-2-3"] {
            assert!(wrong.parse::<List<Ports>>().is_err(), "{wrong}");
        }
        for wrong in ["198.51.100.1/24", "10.0.0.0/33", "::/129", "2001:db8::1/64", "host"] {
            assert!(wrong.parse::<List<Network>>().is_err(), "{wrong}");
        }
        assert!("256".parse::<List<Protocol>>().is_err() && "TCP".parse::<List<Protocol>>().is_err());
        assert!("1,".repeat(300).trim_end_matches(',').parse::<List<Ports>>().is_err(), "too many");
    }

    #[test]
    fn every_code_point_has_its_name_or_its_number() {
        for number in 0..64u8 {
            let shown = Dscp(number).to_string();
            assert_eq!(shown.parse(), Ok(Dscp(number)), "{shown}");
            assert_eq!(format!("{number}").parse(), Ok(Dscp(number)));
            for other in 0..64 {
                let packet = {
                    let mut p = udp4(1, 2, 7, 9, &[]);
                    p[1] = other << 2 | 1;
                    p
                };
                assert_eq!(is(&shown, &packet), number == other);
            }
        }
    }

    #[test]
    fn each_list_has_to_have_something_of_the_packet_at_either_end() {
        for packet in [udp4(1, 2, 5070, 9, &[0; 4]), udp4(2, 1, 9, 5070, &[0; 4])] {
            for lists in [
                "",
                ";udp",
                ";17,tcp",
                ";;5060-5080",
                ";;1,5070",
                ";;;10.0.0.1",
                ";;;10.0.0.0/8,::/0",
                "DF;udp;9;10.0.0.2/31",
            ] {
                assert!(is(lists, &packet), "{lists}");
            }
            for lists in ["EF", ";tcp", ";;5071-65535", ";;;10.0.0.3", ";;;::/0", "DF;udp;9;11.0.0.0/8", "DF;icmp;9"] {
                assert!(!is(lists, &packet), "{lists}");
            }
        }
        let six = udp6(1, 2, 5070, 9, &[0; 4]);
        for (lists, expected) in [(";udp;5070;fd00::/8", true), (";;;fd00:0:0:2::/64", false), (";;;0.0.0.0/0", false)]
        {
            assert_eq!(is(lists, &six), expected, "{lists}");
        }
        for (protocol, version) in [(1, 4), (58, 6)] {
            let mut ping = if version == 4 { udp4(1, 2, 7, 9, &[]) } else { udp6(1, 2, 7, 9, &[]) };
            ping[if version == 4 { 9 } else { 6 }] = protocol;
            assert!(is(";icmp", &ping) && !is(";udp", &ping) && !is(";;7", &ping));
        }
    }

    #[test]
    fn the_traffic_class_of_ipv6_is_read_across_its_two_bytes() {
        let mut six = udp6(1, 2, 7, 9, &[]);
        (six[0], six[1]) = (0x60 | 46 >> 2, (46 & 3) << 6);
        assert!(is("EF", &six) && !is("DF", &six));
    }

    #[test]
    fn ports_stand_behind_extension_headers_and_fragments_have_none() {
        let inner = udp6(1, 2, 7, 9, &[0; 5]);
        let behind = |kind: u8, header: &[u8]| {
            let mut p = inner[..40].to_vec();
            p[6] = kind;
            p.extend_from_slice(header);
            p.extend_from_slice(&inner[40..]);
            let length = (p.len() - 40) as u16;
            p[4..6].copy_from_slice(&length.to_be_bytes());
            p
        };
        assert!(is(";udp;7", &behind(crate::ip::HOP_BY_HOP, &[UDP, 0, 1, 4, 0, 0, 0, 0])));
        for (place, whole) in [(0u8, true), (1, false), (0x10, false)] {
            let packet = behind(crate::ip::FRAGMENT, &[UDP, 0, 0, place, 0, 0, 0, 1]);
            assert_eq!((is(";udp;7", &packet), is(";udp", &packet)), (whole, true), "offset and flags {place}");
        }
        for (high, whole) in [(0x40, true), (0x20, false), (0, true), (0x01, false)] {
            let mut packet = udp4(1, 2, 7, 9, &[0; 5]);
            packet[6] = high;
            assert_eq!((is(";udp;7", &packet), is(";udp", &packet)), (whole, true), "flags and offset {high:#x}");
        }
    }

    #[test]
    fn a_packet_that_ends_before_its_ports_has_none() {
        let packet = udp4(1, 2, 7, 9, &[]);
        for length in 20..28u8 {
            let mut cut = packet[..usize::from(length)].to_vec();
            cut[3] = length;
            assert_eq!(is(";;7", &cut), length >= 24);
        }
        let lists = (vec![0x60u8; 1], [0u8; 39]);
        let six = [&lists.0[..], &lists.1[..]].concat();
        assert!(!is(";;7", &six) && is(";;;::/0", &six));
    }

    proptest! {
        /// Against the definition, read from the text of the packet byte by byte; any bytes may come.
        #[test]
        fn any_packet_is_looked_at_within_its_bounds(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), six: bool, low: u16, more in 0u16..2000) {
            if let Some(first) = bytes.first_mut() { *first = if six { 0x60 | *first & 15 } else { 0x45 }; }
            let Ok(header) = Header::parse(&bytes, bytes.len()) else { return Ok(()) };
            let (low, high) = (low.max(1), low.max(1).saturating_add(more));
            let ports = list::<Ports>(&format!("{low}-{high}"));
            let matcher = Matcher::new(&List::default(), &List::default(), &ports, &List::default());
            let read = header.ports(&bytes);
            let expected = read.is_some_and(|[a, b, c, d]| {
                [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])].iter().any(|port| (low..=high).contains(port))
            });
            prop_assert_eq!(matcher.matches(&header, &bytes), expected);
            let all = Matcher::new(&list("0,46"), &list("udp,icmp"), &ports, &list("10.0.0.0/8,fd00::/8"));
            let _ = all.matches(&header, &bytes);
        }
    }
}
