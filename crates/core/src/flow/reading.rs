//! Readings: which headers of a captured packet its flow is told by.
//!
//! | name | which header | ports | fragments |
//! |---|---|---|---|
//! | `plain` | the first IP header as it stands | of TCP and UDP, where they follow at once | later ones have none |
//! | `outer` | the first IP header, with its IPv6 extension headers | of all protocols that have some | go with their first one |
//! | `inner` | the innermost IP header that can be seen ([`layers`](super::layers)) | as `outer` | as `outer` |
//!
//! `plain` is the 5-tuple as most tools count it. Cost: one read of each header; fragments one place more.

use super::fragments::Fragments;
use super::key::Key;
use super::layers::{STEPS, carried};
use crate::ip::{Extension, FRAGMENT, Piece, Version};
use crate::packet::at;
use crate::units::Time;

/// Which headers a flow is told by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reading {
    /// The first IP header as it stands.
    #[default]
    Plain,
    /// The first IP header and what belongs to it.
    Outer,
    /// The innermost IP header and what belongs to it.
    Inner,
}

/// Reads keys, one way.
#[derive(Clone, Debug)]
pub struct Reader {
    reading: Reading,
    fragments: Fragments,
}

impl Reader {
    /// Reads as `reading` says; `seed` chooses the places of fragments.
    pub fn new(reading: Reading, seed: u64) -> Reader {
        Reader { reading, fragments: Fragments::new(seed) }
    }

    /// The key of the packet of the time `now` that `bytes` begin with. `None`: it has no whole IP header.
    #[inline]
    pub fn read<'a>(&mut self, now: Time, bytes: &'a [u8]) -> Option<Key<'a>> {
        if self.reading == Reading::Plain {
            return Key::plain(bytes);
        }
        let mut bytes = bytes;
        let (mut key, mut payload) = Key::read_to(bytes)?;
        if self.reading == Reading::Inner {
            for _ in 0..STEPS {
                let Some(inside) = carried(bytes, &key, payload) else { break };
                let Some(inner) = Key::read_to(inside) else { break };
                (bytes, (key, payload)) = (inside, inner);
            }
        }
        if key.piece != Piece::Whole
            && let Some(identification) = identification(key.version, bytes)
        {
            self.fragments.fill(now, &mut key, identification);
        }
        Some(key)
    }
}

/// What the fragments of a datagram have in common.
fn identification(version: Version, bytes: &[u8]) -> Option<u32> {
    if version == Version::V4 {
        return at(bytes, 4).map(|number| u32::from(u16::from_be_bytes(*number)));
    }
    let (mut kind, mut start) = (*bytes.get(6)?, 40);
    for _ in 0..STEPS {
        if kind == FRAGMENT {
            return at(bytes, start + 4).map(|number| u32::from_be_bytes(*number));
        }
        let extension = Extension::read(kind, *at(bytes, start)?)?;
        (kind, start) = (extension.next, start + extension.length);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{self, testing};
    use alloc::vec::Vec;

    fn read<'a>(reading: Reading, packets: &[&'a [u8]]) -> Vec<Option<Key<'a>>> {
        let mut reader = Reader::new(reading, 1);
        packets.iter().map(|packet| reader.read(Time::ZERO, packet)).collect()
    }

    fn ports(reading: Reading, packets: &[&[u8]]) -> Vec<Option<u16>> {
        let port = |key: Key<'_>| key.ports.map(|[high, low, ..]| u16::from_be_bytes([high, low]));
        read(reading, packets).into_iter().map(|key| key.and_then(port)).collect()
    }

    fn six_behind(head: [u8; 8], next: u8) -> Vec<u8> {
        let mut packet = testing::udp6(1, 2, 100, 200, &[]);
        packet[6] = next;
        packet.splice(40..40, head);
        packet
    }

    #[test]
    fn fragments_go_with_their_first_one_in_all_readings_but_the_plain_one() {
        let mut first = testing::udp4(1, 2, 100, 200, &[1; 40]);
        (first[4], first[6]) = (7, 0x20);
        let mut later = testing::udp4(1, 2, 9, 9, &[1; 40]);
        (later[4], later[7]) = (7, 5);
        let six_first = six_behind([ip::UDP, 0, 0, 1, 0, 0, 0, 9], ip::FRAGMENT);
        let six_later = six_behind([ip::UDP, 0, 0, 8, 0, 0, 0, 9], ip::FRAGMENT);
        for (first, later) in [(first, later), (six_first, six_later)] {
            for reading in [Reading::Outer, Reading::Inner] {
                assert_eq!(ports(reading, &[&first, &later]), [Some(100); 2]);
                assert_eq!(ports(reading, &[&later, &first]), [None, Some(100)]);
            }
            assert_eq!(ports(Reading::Plain, &[&first, &later])[1], None);
        }
    }

    #[test]
    fn a_tunnels_flow_is_that_of_its_ends_or_of_what_it_carries_by_choice() {
        let inner = testing::udp4(1, 2, 100, 200, &[]);
        let mut outer = testing::udp4(3, 4, 0, 0, &[])[..20].to_vec();
        outer[9] = 4;
        let packet = [outer.clone(), inner.clone()].concat();
        let addresses = |reading| read(reading, &[&packet])[0].map(|key| key.addresses.to_vec());
        assert_eq!(addresses(Reading::Plain).as_deref(), Some(&outer[12..20]));
        assert_eq!(addresses(Reading::Outer).as_deref(), Some(&outer[12..20]));
        assert_eq!(addresses(Reading::Inner).as_deref(), Some(&inner[12..20]));
        let cut = &packet[..30];
        assert_eq!(read(Reading::Inner, &[cut])[0].map(|key| key.protocol), Some(4), "the inner header is not whole");
    }

    #[test]
    fn the_plain_reading_takes_the_first_header_as_it_stands() {
        let extended = six_behind([ip::UDP, 0, 0, 0, 0, 0, 0, 0], ip::DESTINATION);
        assert_eq!(read(Reading::Plain, &[&extended])[0].map(|key| key.protocol), Some(ip::DESTINATION));
        assert_eq!(ports(Reading::Outer, &[&extended]), [Some(100)]);
        let mut sctp = testing::udp4(1, 2, 100, 200, &[]);
        sctp[9] = 132;
        assert_eq!(
            (ports(Reading::Plain, &[&sctp]), ports(Reading::Outer, &[&sctp])),
            ([None].into(), [Some(100)].into())
        );
        let mut short = testing::udp4(1, 2, 100, 200, &[]);
        short[0] = 0x42;
        assert_eq!((ports(Reading::Plain, &[&short]), read(Reading::Plain, &[&short]).len()), ([None].into(), 1));
        assert!(read(Reading::Plain, &[&short])[0].is_some() && read(Reading::Outer, &[&short])[0].is_none());
        assert_eq!(read(Reading::Plain, &[&short[..19], &[], &[0x50; 40]]), [None, None, None]);
    }
}
