//! Flows of packets: which packets belong together, and a bounded memory of what each flow did last.
//!
//! What it is: the flow hash ([`FlowHash`]) looked up in the flow table ([`Table`]), with the rule that ties fragments to whole
//! packets. Source: burst-round-robin paper, 5.3 (the 5-tuple, the 3-tuple where there are no ports, an entry with time
//! and device); its section 8 asks for expiry.
//!
//! **Fragments.** Only a datagram's first fragment has ports, so no fragment can be told by them: all go by the 3-tuple. A
//! sender that fragments some of its datagrams sends the others whole, on the same flow; those would be told by their
//! ports and could overtake. So a host pair and protocol of which a fragment came goes by the 3-tuple as a whole, until no
//! fragment came for the table's expiry; the first fragment takes over the burst that its 5-tuple is in. What is left:
//! another flow of the same pair that is within a burst when fragments begin, or any when the rule ends, may change
//! its link within a burst, once. Marks of such pairs are kept in a cache of `MARKS`; one that is overwritten by another
//! pair ends early, by the same measure. A flood of fragments thus costs no other pair its 5-tuples.
//!
//! Cost: O(1), one set of the table; two for a packet of a pair that fragments. No allocation after construction.

use super::frame::Frame;
use super::hash::{FlowHash, FlowId};
use super::table::{Entry, Known, Stats, Table};
use crate::ip::Piece;
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;

/// How many pairs that fragment are remembered.
const MARKS: usize = 1024;

/// A pair that fragments: its hash, and until when it counts as one.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    pair: u64,
    until: Time,
}

/// The flows of packets, each with its entry.
#[derive(Clone, Debug)]
pub struct Flows<V> {
    hash: FlowHash,
    table: Table<V>,
    marks: Box<[Mark]>,
    /// The last of the marks ends here: before that nobody needs to look.
    marked: Time,
    expiry: Span,
}

impl<V: Copy + Default> Flows<V> {
    /// At most `flows` flows (at least a set's worth), each forgotten `expiry` after its last packet; the hash is keyed by
    /// `seed`.
    pub fn new(flows: u32, expiry: Span, seed: u64) -> Flows<V> {
        Flows {
            hash: FlowHash::new(seed),
            table: Table::new(flows, expiry),
            marks: vec![Mark::default(); MARKS].into_boxed_slice(),
            marked: Time::ZERO,
            expiry,
        }
    }

    /// The entry of the flow of `frame`: a new one, without a link, where the flow is not known (any more).
    #[inline]
    pub fn entry(&mut self, now: Time, frame: &Frame<'_>) -> Entry<'_, V> {
        let id = self.hash.flow(frame);
        if id.piece == Piece::Whole && now >= self.marked {
            return self.table.touch(now, id.flow);
        }
        self.with_fragments(now, id)
    }

    fn with_fragments(&mut self, now: Time, id: FlowId) -> Entry<'_, V> {
        let mark = &mut self.marks[id.pair as usize % MARKS];
        let marked = mark.pair == id.pair && now < mark.until;
        if id.piece != Piece::Whole {
            let until = now + self.expiry;
            *mark = Mark { pair: id.pair, until };
            self.marked = self.marked.max(until);
        } else if !marked {
            return self.table.touch(now, id.flow);
        }
        let known = if id.flow == id.pair { None } else { self.table.peek(now, id.flow) };
        let mut entry = self.table.touch(now, id.pair);
        if let (None, Some(known)) = (entry.link(), known) {
            entry.take_over(&known);
        }
        entry
    }

    /// What happened in the table so far.
    pub fn stats(&self) -> Stats {
        self.table.stats()
    }

    /// Most flows that it holds.
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// What is known of the flow, without renewing anything; `None`: nothing, or it expired.
    pub fn peek(&self, now: Time, frame: &Frame<'_>) -> Option<Known<V>> {
        self.table.peek(now, self.hash.flow(frame).flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::frame::Layer;
    use crate::ip::testing;
    use crate::units::ChannelId;
    use alloc::vec::Vec;

    fn frame(bytes: &[u8]) -> Frame<'_> {
        Frame { bytes, len: bytes.len(), layer: Layer::Ip }
    }

    fn fragments(from: u16) -> [Vec<u8>; 2] {
        let mut first = testing::udp4(1, 2, from, 200, &[1; 40]);
        let mut later = testing::udp4(1, 2, 9, 9, &[1; 40]);
        first[6] = 0x20;
        later[7] = 5;
        [first, later]
    }

    fn flows() -> Flows<()> {
        Flows::new(1024, Span::from_secs(60), 7)
    }

    #[test]
    fn the_first_fragment_takes_over_its_flows_burst_and_whole_packets_follow() {
        let mut flows = flows();
        let whole = testing::udp4(1, 2, 100, 200, &[0; 4]);
        let other = testing::udp4(1, 2, 101, 200, &[0; 4]);
        let stranger = testing::udp4(1, 3, 100, 200, &[0; 4]);
        let at = Time::from_millis;
        flows.entry(at(1), &frame(&whole)).set(at(1), ChannelId(3));
        for (n, piece) in fragments(100).iter().enumerate() {
            let entry = flows.entry(at(2), &frame(piece));
            assert_eq!(entry.link(), Some(ChannelId(3)), "fragment {n}");
            assert_eq!(entry.at(), at(1));
        }
        flows.entry(at(2), &frame(&fragments(100)[1])).set(at(2), ChannelId(5));
        for packet in [&whole, &other] {
            assert_eq!(flows.entry(at(3), &frame(packet)).link(), Some(ChannelId(5)), "told as its fragments are");
        }
        assert_eq!(flows.entry(at(3), &frame(&stranger)).link(), None, "another pair is not touched");
        let end = at(2) + Span::from_secs(60);
        assert_eq!(flows.entry(end, &frame(&other)).link(), None, "without fragments its ports tell it again");
    }

    #[test]
    fn a_flood_of_fragments_leaves_other_pairs_their_ports() {
        let mut flows = flows();
        for n in 0..20_000u32 {
            let mut piece = fragments(1)[1].clone();
            piece[16..20].copy_from_slice(&(n | 1 << 30).to_be_bytes());
            flows.entry(Time::from_millis(1), &frame(&piece));
        }
        let packets = [100, 101].map(|port| testing::udp4(1, 2, port, 200, &[0; 4]));
        flows.entry(Time::from_millis(2), &frame(&packets[0])).set(Time::from_millis(2), ChannelId(1));
        assert_eq!(flows.entry(Time::from_millis(2), &frame(&packets[1])).link(), None);
        assert_eq!(flows.entry(Time::from_millis(2), &frame(&packets[0])).link(), Some(ChannelId(1)));
    }
}
