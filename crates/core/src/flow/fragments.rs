//! Fragments that go with the flow of their datagram's first fragment.
//!
//! What it is: the first fragment of a datagram has the ports, and the later ones have not. This remembers the ports of
//! each datagram that is under way, by what its fragments share: addresses, protocol and identification (RFC 791, 3.2;
//! RFC 8200, 4.5, where the protocol is that of the first fragment). A later fragment then gets its datagram's ports. One that
//! comes before the first fragment, or after [`HELD`], is told by addresses and protocol alone.
//!
//! Memory: a fixed number of places. A datagram that is met anew overwrites what lies in its place, so that a flood of
//! fragments costs the others' later fragments their ports and nothing else. Cost: one hash and one place. Invariant: a
//! fragment never gets the ports of a datagram whose addresses, protocol or identification differ, but for two that share 64
//! bits of a keyed hash.

use super::hash::FlowHash;
use super::key::Key;
use crate::ip::Piece;
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;

/// Datagrams that are remembered.
const PLACES: usize = 1 << 14;

/// How long a datagram is remembered: RFC 8200, section 4.5, gives its reassembly as much.
pub const HELD: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    datagram: u64,
    ports: [u8; 4],
    until: Time,
}

/// The ports of datagrams whose fragments are under way.
#[derive(Clone, Debug)]
pub struct Fragments {
    hash: FlowHash,
    places: Box<[Place]>,
}

impl Fragments {
    /// None yet; places are chosen by a hash with this key.
    pub fn new(seed: u64) -> Fragments {
        Fragments { hash: FlowHash::new(seed), places: vec![Place::default(); PLACES].into_boxed_slice() }
    }

    /// Gives the fragment with this key and identification its datagram's ports, or takes them from it.
    pub fn fill(&mut self, now: Time, key: &mut Key<'_>, identification: u32) {
        let mut datagram = self.hash.mix(self.hash.start(), u64::from(identification) | u64::from(key.protocol) << 32);
        for word in key.addresses.as_chunks::<8>().0 {
            datagram = self.hash.mix(datagram, u64::from_le_bytes(*word));
        }
        let place = &mut self.places[datagram as usize % PLACES];
        match (key.piece, key.ports) {
            (Piece::First, Some(ports)) => *place = Place { datagram, ports, until: now + HELD },
            (Piece::Later, _) if place.datagram == datagram && now < place.until => key.ports = Some(place.ports),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;

    fn later(key: Key<'_>) -> Key<'_> {
        Key { piece: Piece::Later, ports: None, ..key }
    }

    #[test]
    fn later_fragments_get_the_ports_of_their_own_datagram_for_a_minute() {
        let packet = testing::udp4(1, 2, 100, 200, &[1; 40]);
        let other = testing::udp4(1, 3, 100, 200, &[1; 40]);
        let mut first = Key { piece: Piece::First, ..Key::read(&packet).unwrap() };
        let ports = first.ports;
        let mut fragments = Fragments::new(1);
        let filled = |fragments: &mut Fragments, now, mut key: Key<'_>, identification| {
            fragments.fill(now, &mut key, identification);
            key.ports
        };
        let at = Time::from_millis;
        assert_eq!(filled(&mut fragments, at(0), later(first), 7), None, "nothing is known before the first one");
        fragments.fill(at(1), &mut first, 7);
        assert_eq!(first.ports, ports);
        assert_eq!(filled(&mut fragments, at(60_000), later(first), 7), ports);
        assert_eq!(filled(&mut fragments, at(60_000), later(first), 8), None, "another datagram");
        assert_eq!(filled(&mut fragments, at(2), later(Key::read(&other).unwrap()), 7), None, "another address");
        assert_eq!(filled(&mut fragments, at(2), later(Key { protocol: 6, ..first }), 7), None, "another protocol");
        assert_eq!(filled(&mut fragments, at(60_001), later(first), 7), None, "too late");
    }
}
