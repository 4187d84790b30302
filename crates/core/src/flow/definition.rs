//! Flow definitions: which packets count as one flow, from single connections to whole networks.
//!
//! Source: hybrid-gateways paper, 2.5.2 (the definitions of its trace simulator) and 2.6.2 (flow types 0 to 3).
//!
//! | name | a flow is what shares | in the paper |
//! |---|---|---|
//! | `five-tuple` | addresses, protocol and ports, in one direction | type 0 |
//! | `five-tuple-both` | the same, both directions together | |
//! | `pair` | source and destination address | type 1 |
//! | `destination` | destination address | type 2 |
//! | `source` | source address | type 3 |
//! | `prefix/N` | the first N bits of both addresses | |
//! | `source/N`, `destination/N` | the first N bits of one | |
//! | `network`, `source-network`, `destination-network` | network numbers of classes A, B and C | 2.5.2 |
//!
//! Departures: IPv6 has no classes; there a network is the first 48 bits, which is what a site usually has. N counts from
//! the first bit of either version, so of an IPv4 address all bits count where N is 32 or more. Addresses of the two
//! versions never share a flow.
//!
//! Cost: one to two multiplications for IPv4, up to five for IPv6. Invariant: same key, definition and seed, same number.

use super::hash::FlowHash;
use super::key::Key;
use crate::ip::Version;
use core::fmt;
use core::str::FromStr;

/// Bits of an IPv6 address that count as its network number.
const SITE: u8 = 48;

/// Which packets count as one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Definition {
    /// Addresses, protocol and ports, in one direction.
    FiveTuple,
    /// Addresses, protocol and ports; both directions are one flow.
    FiveTupleBoth,
    /// Source and destination address.
    Pair(Cut),
    /// Destination address.
    Destination(Cut),
    /// Source address.
    Source(Cut),
}

/// How much of an address counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cut {
    /// All of it.
    Whole,
    /// So many of its first bits, at most 128.
    Prefix(u8),
    /// Its network number, by classes A, B and C.
    Network,
}

/// No definition of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no flow definition; there are five-tuple, five-tuple-both, pair, destination, source, prefix/N, destination/N, source/N \
     (N from 0 to 128), network, destination-network and source-network"
)]
pub struct NoDefinition;

impl FromStr for Definition {
    type Err = NoDefinition;

    fn from_str(text: &str) -> Result<Definition, NoDefinition> {
        let prefix = |bits: &str| match bits.parse() {
            Ok(bits @ 0..=128) if !bits_are_odd(bits, text) => Ok(Cut::Prefix(bits)),
            _ => Err(NoDefinition),
        };
        Ok(match text.split_once('/') {
            None => match text {
                "five-tuple" => Definition::FiveTuple,
                "five-tuple-both" => Definition::FiveTupleBoth,
                "pair" => Definition::Pair(Cut::Whole),
                "destination" => Definition::Destination(Cut::Whole),
                "source" => Definition::Source(Cut::Whole),
                "network" => Definition::Pair(Cut::Network),
                "destination-network" => Definition::Destination(Cut::Network),
                "source-network" => Definition::Source(Cut::Network),
                _ => return Err(NoDefinition),
            },
            Some(("prefix", bits)) => Definition::Pair(prefix(bits)?),
            Some(("destination", bits)) => Definition::Destination(prefix(bits)?),
            Some(("source", bits)) => Definition::Source(prefix(bits)?),
            Some(_) => return Err(NoDefinition),
        })
    }
}

/// Whether a number was written with a sign or leading zeros, which would not be printed the same.
fn bits_are_odd(bits: u8, text: &str) -> bool {
    let written = text.rsplit('/').next().unwrap_or("");
    written.len()
        != if bits < 10 {
            1
        } else if bits < 100 {
            2
        } else {
            3
        }
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, network, prefix, cut) = match self {
            Definition::FiveTuple => return f.write_str("five-tuple"),
            Definition::FiveTupleBoth => return f.write_str("five-tuple-both"),
            Definition::Pair(cut) => ("pair", "network", "prefix", cut),
            Definition::Destination(cut) => ("destination", "destination-network", "destination", cut),
            Definition::Source(cut) => ("source", "source-network", "source", cut),
        };
        match cut {
            Cut::Whole => f.write_str(whole),
            Cut::Network => f.write_str(network),
            Cut::Prefix(bits) => write!(f, "{prefix}/{bits}"),
        }
    }
}

impl Cut {
    /// What counts of an IPv4 address.
    #[inline]
    fn v4(self, address: u32) -> u32 {
        match self {
            Cut::Whole => address,
            Cut::Prefix(bits) => address & u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(bits))).unwrap_or(0),
            Cut::Network => match address >> 29 {
                0..4 => address & 0xff00_0000,  // class A: the first bit is 0
                4 | 5 => address & 0xffff_0000, // class B: the first bits are 10
                6 => address & 0xffff_ff00,     // class C: 110
                _ => address,                   // groups and reserved addresses have no network number
            },
        }
    }

    /// What counts of an IPv6 address.
    #[inline]
    fn v6(self, address: u128) -> u128 {
        let bits = match self {
            Cut::Whole => return address,
            Cut::Prefix(bits) => bits,
            Cut::Network => SITE,
        };
        address & u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(bits))).unwrap_or(0)
    }
}

/// What is mixed in with the ports or their absence, and what an end of a flow has.
const NO_PORTS: u64 = 1 << 50;
const SIX: u64 = 1 << 51;

impl Definition {
    /// The flow of a packet with this key, as 64 bits that tell it from others.
    #[inline]
    pub fn flow(self, hash: &FlowHash, key: &Key<'_>) -> u64 {
        match key.version {
            Version::V4 => self.v4(hash, key),
            Version::V6 => self.v6(hash, key),
        }
    }

    #[inline]
    fn v4(self, hash: &FlowHash, key: &Key<'_>) -> u64 {
        let Some(&[a, b, c, d, e, f, g, h]) = key.addresses.first_chunk::<8>() else { return hash.start() };
        let (source, destination) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        let step = |hashed, word| hash.mix(hashed, word);
        match self {
            Definition::FiveTuple => {
                let rest = u64::from(key.protocol) << 32 | key.ports.map_or(NO_PORTS, |p| u32::from_be_bytes(p).into());
                step(step(hash.start(), u64::from(source) << 32 | u64::from(destination)), rest)
            }
            Definition::FiveTupleBoth => {
                let (from, to, none) = ports(key);
                let one = u64::from(source) << 16 | u64::from(from);
                let other = u64::from(destination) << 16 | u64::from(to);
                let low = one.min(other) | u64::from(key.protocol) << 48;
                step(step(hash.start(), low), one.max(other) | none << 5)
            }
            Definition::Pair(cut) => {
                step(hash.start(), u64::from(cut.v4(source)) << 32 | u64::from(cut.v4(destination)))
            }
            Definition::Destination(cut) => step(hash.start(), u64::from(cut.v4(destination))),
            Definition::Source(cut) => step(hash.start(), u64::from(cut.v4(source))),
        }
    }

    fn v6(self, hash: &FlowHash, key: &Key<'_>) -> u64 {
        let (Some(source), Some(destination)) = (key.addresses.first_chunk(), key.addresses.last_chunk()) else {
            return hash.start();
        };
        let (source, destination) = (u128::from_be_bytes(*source), u128::from_be_bytes(*destination));
        let step = |hashed, address: u128| hash.mix(hash.mix(hashed, (address >> 64) as u64), address as u64);
        let start = hash.mix(hash.start(), SIX);
        match self {
            Definition::FiveTuple => {
                let rest = u64::from(key.protocol) << 32 | key.ports.map_or(NO_PORTS, |p| u32::from_be_bytes(p).into());
                hash.mix(step(step(start, source), destination), rest)
            }
            Definition::FiveTupleBoth => {
                let (from, to, none) = ports(key);
                let (one, other) = ((source, from), (destination, to));
                let (low, high) = (one.min(other), one.max(other));
                let rest = u64::from(low.1) << 16 | u64::from(high.1) | u64::from(key.protocol) << 32 | none;
                hash.mix(step(step(start, low.0), high.0), rest)
            }
            Definition::Pair(cut) => step(step(start, cut.v6(source)), cut.v6(destination)),
            Definition::Destination(cut) => step(start, cut.v6(destination)),
            Definition::Source(cut) => step(start, cut.v6(source)),
        }
    }
}

/// The ports, and a bit that says there are none.
#[inline]
fn ports(key: &Key<'_>) -> (u16, u16, u64) {
    key.ports.map_or((0, 0, NO_PORTS), |[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    const NAMES: [&str; 11] = [
        "five-tuple",
        "five-tuple-both",
        "pair",
        "destination",
        "source",
        "prefix/24",
        "destination/0",
        "source/128",
        "network",
        "destination-network",
        "source-network",
    ];

    fn flow(definition: &str, packet: &[u8]) -> u64 {
        let definition: Definition = definition.parse().unwrap();
        definition.flow(&FlowHash::new(3), &Key::read(packet).unwrap())
    }

    #[test]
    fn every_definition_is_printed_as_it_is_read_and_nothing_else_is_read() {
        for name in NAMES {
            assert_eq!(name.parse::<Definition>().unwrap().to_string(), name);
        }
        for wrong in ["", "f0", "prefix", "prefix/", "prefix/129", "prefix/+4", "prefix/024", "pair/8", "source/-1"] {
            assert_eq!(wrong.parse::<Definition>(), Err(NoDefinition), "{wrong}");
        }
    }

    /// The definitions by which two packets share a flow.
    fn shared(one: &[u8], other: &[u8]) -> Vec<&'static str> {
        NAMES.into_iter().filter(|name| flow(name, one) == flow(name, other)).collect()
    }

    #[test]
    fn each_definition_looks_at_its_own_part_of_the_key() {
        for make in [testing::udp4, testing::udp6] {
            let packet = make(1, 2, 100, 200, &[]);
            let all_but =
                |left_out: &[&str]| -> Vec<_> { NAMES.into_iter().filter(|n| !left_out.contains(n)).collect() };
            assert_eq!(shared(&packet, &make(1, 2, 100, 200, &[7; 9])), NAMES);
            assert_eq!(shared(&packet, &make(1, 2, 101, 200, &[])), all_but(&["five-tuple", "five-tuple-both"]));
            assert!(shared(&packet, &make(2, 1, 200, 100, &[])).contains(&"five-tuple-both"));
            assert!(!shared(&packet, &make(2, 1, 200, 100, &[])).contains(&"five-tuple"));
            assert!(
                !shared(&packet, &make(2, 1, 100, 200, &[])).contains(&"five-tuple-both"),
                "ports go with their ends"
            );
            let from_another = shared(&packet, &make(3, 2, 100, 200, &[]));
            assert!(from_another.contains(&"destination") && !from_another.contains(&"source"), "{from_another:?}");
            let to_another = shared(&packet, &make(1, 3, 100, 200, &[]));
            assert!(to_another.contains(&"source") && !to_another.contains(&"destination"), "{to_another:?}");
        }
    }

    #[test]
    fn a_prefix_cuts_both_addresses_and_the_others_cut_one() {
        let at = |source: [u8; 4], destination: [u8; 4]| {
            let mut packet = testing::udp4(1, 2, 100, 200, &[]);
            packet[12..16].copy_from_slice(&source);
            packet[16..20].copy_from_slice(&destination);
            packet
        };
        let packet = at([192, 0, 2, 1], [10, 1, 1, 1]);
        let neighbours = at([192, 0, 2, 200], [10, 9, 1, 1]);
        assert_eq!(flow("prefix/8", &packet), flow("prefix/8", &neighbours));
        assert_ne!(flow("prefix/16", &packet), flow("prefix/16", &neighbours));
        assert_eq!(flow("source/24", &packet), flow("source/24", &neighbours));
        assert_ne!(flow("source/25", &packet), flow("source/25", &neighbours));
        assert_ne!(flow("prefix/32", &packet), flow("prefix/32", &neighbours));
        assert_eq!(flow("prefix/32", &packet), flow("prefix/128", &packet));
        // 192.0.2 is of class C, and 10 of class A.
        assert_eq!(flow("network", &packet), flow("network", &neighbours));
        let other = at([192, 0, 3, 1], [11, 1, 1, 1]);
        assert_ne!(flow("source-network", &packet), flow("source-network", &other));
        assert_ne!(flow("destination-network", &packet), flow("destination-network", &other));
        assert_eq!(flow("destination/0", &packet), flow("destination/0", &other));
        let (b, same, not) = (at([128, 1, 9, 9], [0; 4]), at([128, 1, 7, 7], [0; 4]), at([128, 2, 9, 9], [0; 4]));
        assert_eq!(flow("source-network", &b), flow("source-network", &same), "class B has 16 bits");
        assert_ne!(flow("source-network", &b), flow("source-network", &not));
    }

    #[test]
    fn without_ports_is_not_the_same_as_ports_of_zero() {
        for make in [testing::udp4, testing::udp6] {
            let zero = make(1, 2, 0, 0, &[]);
            let key = Key::read(&zero).unwrap();
            let without = Key { ports: None, ..key };
            for definition in [Definition::FiveTuple, Definition::FiveTupleBoth] {
                let hash = FlowHash::new(1);
                assert_ne!(definition.flow(&hash, &key), definition.flow(&hash, &without));
            }
        }
    }
}
