//! Flows as reordering is counted by them: those that policies tell apart ([`flows`](fairspan_core::flow)), numbered
//! in the order of their first packets. Fragments belong to the flow of their addresses and protocol. One direction of a
//! connection is one flow.
//!
//! Flows are known by 64 bits of a keyed hash: of a million flows, two share them in one capture of forty million.

use fairspan_core::flow::{FlowHash, Frame};
use fairspan_core::ip::Piece;
use std::collections::HashMap;

/// The numbers of flows.
#[derive(Debug)]
pub(super) struct Flows {
    hash: FlowHash,
    numbers: HashMap<u64, u32>,
}

impl Flows {
    /// None yet.
    pub(super) fn new() -> Flows {
        Flows { hash: FlowHash::new(0), numbers: HashMap::new() }
    }

    /// The number of the flow of `frame`, which is a new one where none of its packets was met before.
    pub(super) fn number(&mut self, frame: &Frame<'_>) -> u32 {
        let id = self.hash.flow(frame);
        let flow = if id.piece == Piece::Whole { id.flow } else { id.pair };
        let next = self.numbers.len() as u32;
        *self.numbers.entry(flow).or_insert(next)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::flow::Layer;

    /// An IPv4 packet with this place and these bytes behind the header.
    fn packet(protocol: u8, place: u16, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 20 + behind.len() as u8, 0, 0, (place >> 8) as u8, place as u8];
        bytes.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(behind);
        bytes
    }

    #[test]
    fn flows_are_numbered_in_the_order_of_their_first_packets_and_fragments_go_without_ports() {
        let (web, other) = ([0, 80, 1, 1, 0, 0, 0, 0], [0, 81, 1, 1, 0, 0, 0, 0]);
        let packets = [
            packet(6, 0, &web),
            packet(6, 0, &other),
            packet(6, 0, &web),
            packet(6, 0x2000, &web),
            packet(6, 5, &other),
            packet(50, 0, &web),
            packet(50, 0, &other),
        ];
        let mut flows = Flows::new();
        let numbers = packets.map(|bytes| flows.number(&Frame { bytes: &bytes, len: bytes.len(), layer: Layer::Ip }));
        assert_eq!(numbers, [0, 1, 0, 2, 2, 3, 3]);
        assert_eq!(flows.len(), 4);
    }
}
