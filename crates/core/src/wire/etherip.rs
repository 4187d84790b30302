//! EtherIP: an Ethernet frame as an IPv4 packet, so that a bond carries it as it carries any other.
//!
//! Source: RFC 3378 (protocol 97; two bytes before the frame: version 3, and zeros), RFC 791 section 3.2 (fragments are put
//! together). Nobody but the other end of the bond sees these packets, so that addresses may mean something else:
//!
//! | field of the IPv4 header | what it says |
//! |---|---|
//! | total length | the frame's length, so that padding on the way does not become part of it |
//! | type of service | the DSCP of the packet in the frame. Never ECN: a mark would have to change the frame |
//! | identification | counts the frames that leave in fragments |
//! | flags | fragments are allowed: a frame that fills its link does not fit a channel over a link of the same size |
//! | source | the frame's flow, hashed; frames of one flow keep their order where packets of one flow do |
//! | destination | 0 |
//!
//! **Fragments.** [`Assembler`] holds at most 64 frames of which not all is there, each for a second at most, so that an
//! identification that comes again after 65,536 others finds nothing of an older frame. What contradicts itself is dropped
//! whole. Cost: a frame in one piece is not copied; one in several is copied twice.

use crate::flow::ethernet::{ALL_VLAN, HEADER, IPV4, IPV6, Tags};
use crate::flow::{FlowHash, Frame, Layer};
use crate::ip::checksum;
use crate::packet::{Packet, at};
use crate::units::{Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes before the frame.
pub const HEAD: usize = IP + ETHERIP;

/// EtherIP's protocol number.
const PROTOCOL: u8 = 97;
/// Bytes of the IPv4 header, which has no options.
const IP: usize = 20;
/// Bytes of EtherIP's own header: version 3 in the first four bits, and zeros.
const ETHERIP: usize = 2;
const VERSION: [u8; ETHERIP] = [0x30, 0];
/// Frames of which not all is there.
const OPEN_MOST: usize = 64;
/// Fragments of one frame.
const PARTS_MOST: usize = 64;
/// How long the rest of a frame is waited for.
const REST_WITHIN: Span = Span::from_secs(1);

/// Makes packets of frames.
#[derive(Clone, Debug)]
pub struct Wrapper {
    hash: FlowHash,
    identification: u16,
}

impl Wrapper {
    /// Flows are hashed by a key of `seed`.
    pub fn new(seed: u64) -> Wrapper {
        Wrapper { hash: FlowHash::new(seed), identification: seed as u16 }
    }

    /// Writes the head before a frame, which `bytes` holds behind [`HEAD`] bytes. A packet longer than `fits` will be
    /// fragmented. `false`: the frame has no whole header, or is too long for a packet.
    pub fn wrap(&mut self, bytes: &mut [u8], fits: usize) -> bool {
        let Ok(total) = u16::try_from(bytes.len()) else { return false };
        let Some((head, frame)) = bytes.split_first_chunk_mut::<HEAD>() else { return false };
        if frame.len() < HEADER {
            return false;
        }
        if usize::from(total) > fits {
            self.identification = self.identification.wrapping_add(1);
        }
        let flow = self.hash.flow(&Frame { bytes: frame, len: frame.len(), layer: Layer::Ethernet }).number().0;
        *head = [0; HEAD];
        (head[0], head[1], head[8], head[9]) = (0x45, dscp(frame), 64, PROTOCOL);
        head[2..4].copy_from_slice(&total.to_be_bytes());
        head[4..6].copy_from_slice(&self.identification.to_be_bytes());
        head[12..16].copy_from_slice(&flow.to_be_bytes());
        let sum = checksum::of(&head[..IP]);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
        head[IP..].copy_from_slice(&VERSION);
        true
    }
}

/// The traffic class of the IP packet in a frame, without ECN; 0 where there is none.
fn dscp(frame: &[u8]) -> u8 {
    let Some(header) = frame.first_chunk::<HEADER>() else { return 0 };
    let mut tags = Tags::new(frame, u16::from_be_bytes([header[12], header[13]]), HEADER);
    tags.pass(&ALL_VLAN, 4);
    match (tags.ether_type, at::<2>(frame, tags.at)) {
        (IPV4, Some([0x40..=0x4f, class])) => class & 0xfc,
        (IPV6, Some([first @ 0x60..=0x6f, second])) => (first << 4 | second >> 4) & 0xfc,
        _ => 0,
    }
}

/// What became of packets that were to hold frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that hold no frame: the other end is no port.
    pub not_frames: u64,
    /// Frames put together from fragments.
    pub assembled: u64,
    /// Frames of which the rest did not come in time, or contradicted what was there.
    pub incomplete: u64,
}

/// A frame of which not all is there.
#[derive(Debug)]
struct Open<P> {
    flow: [u8; 4],
    identification: [u8; 2],
    since: Time,
    /// Where each fragment begins in the packet's payload, in order.
    parts: Vec<(usize, P)>,
    /// Bytes of payload that are there, and of all where the last fragment is.
    have: usize,
    end: Option<usize>,
}

/// Makes frames of packets.
#[derive(Debug)]
pub struct Assembler<P> {
    open: VecDeque<Open<P>>,
    /// Kept to be used again.
    spare: Vec<Vec<(usize, P)>>,
    whole: Vec<u8>,
    stats: Stats,
}

impl<P> Default for Assembler<P> {
    fn default() -> Assembler<P> {
        Assembler { open: VecDeque::new(), spare: Vec::new(), whole: Vec::new(), stats: Stats::default() }
    }
}

impl<P: Packet> Assembler<P> {
    /// Nothing waits.
    pub fn new() -> Assembler<P> {
        Assembler::default()
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Takes a packet: the frame in it, or that of which it was the missing part.
    pub fn handle(&mut self, now: Time, mut packet: P) -> Option<P> {
        let bytes = packet.bytes();
        let Some(head) = bytes.first_chunk::<IP>().filter(|head| head[0] == 0x45 && head[9] == PROTOCOL) else {
            self.stats.not_frames += 1;
            return None;
        };
        let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let place = u16::from_be_bytes([head[6], head[7]]);
        if !(IP..=bytes.len()).contains(&total) {
            self.stats.not_frames += 1;
            return None;
        }
        if place & 0x3fff == 0 {
            if total < HEAD + HEADER || bytes[IP..HEAD] != VERSION {
                self.stats.not_frames += 1;
                return None;
            }
            packet.truncate(total);
            packet.strip(HEAD);
            return Some(packet);
        }
        let (flow, identification) = ([head[12], head[13], head[14], head[15]], [head[4], head[5]]);
        let (offset, more) = (usize::from(place & 0x1fff) * 8, place & 0x2000 != 0);
        packet.truncate(total);
        packet.strip(IP);
        self.take_part(now, flow, identification, offset, more, packet)
    }

    fn take_part(
        &mut self,
        now: Time,
        flow: [u8; 4],
        identification: [u8; 2],
        offset: usize,
        more: bool,
        part: P,
    ) -> Option<P> {
        while self.open.front().is_some_and(|first| first.since + REST_WITHIN < now) {
            self.give_up(0);
        }
        let known = self.open.iter().position(|open| (open.flow, open.identification) == (flow, identification));
        let place = known.unwrap_or_else(|| {
            if self.open.len() == OPEN_MOST {
                self.give_up(0);
            }
            let parts = self.spare.pop().unwrap_or_default();
            self.open.push_back(Open { flow, identification, since: now, parts, have: 0, end: None });
            self.open.len() - 1
        });
        let open = self.open.get_mut(place)?;
        match open.add(offset, more, part) {
            Added::More => None,
            Added::Contradiction => {
                self.give_up(place);
                None
            }
            Added::All => self.put_together(place),
        }
    }

    /// Forgets an incomplete frame.
    fn give_up(&mut self, place: usize) {
        self.stats.incomplete += 1;
        self.close(place);
    }

    fn close(&mut self, place: usize) {
        if let Some(mut open) = self.open.remove(place) {
            open.parts.clear();
            self.spare.push(open.parts);
        }
    }

    fn put_together(&mut self, place: usize) -> Option<P> {
        self.whole.clear();
        for (_, part) in &self.open.get(place)?.parts {
            self.whole.extend_from_slice(part.bytes());
        }
        let frame = self.whole.strip_prefix(&VERSION).filter(|frame| frame.len() >= HEADER).and_then(P::from_bytes);
        if frame.is_some() {
            self.stats.assembled += 1;
            self.close(place);
        } else {
            self.give_up(place);
        }
        frame
    }
}

enum Added {
    More,
    All,
    Contradiction,
}

impl<P: Packet> Open<P> {
    fn add(&mut self, offset: usize, more: bool, part: P) -> Added {
        let (len, at) = (part.bytes().len(), self.parts.partition_point(|(begin, _)| *begin < offset));
        let behind = offset + len;
        if let Some((begin, same)) = self.parts.get(at)
            && *begin == offset
            && same.bytes() == part.bytes()
        {
            // A copy.
            return Added::More;
        }
        let after_before = at.checked_sub(1).and_then(|before| self.parts.get(before));
        let overlaps = after_before.is_some_and(|(begin, part)| begin + part.bytes().len() > offset)
            || self.parts.get(at).is_some_and(|(begin, _)| *begin < behind);
        let ends = if more { self.end } else { Some(behind) };
        let contradicts = match (self.end, ends) {
            (Some(before), Some(now)) => before != now || behind > now,
            (None, Some(now)) => self.parts.last().is_some_and(|(begin, part)| begin + part.bytes().len() > now),
            _ => false,
        };
        if len == 0 || overlaps || contradicts || self.parts.len() == PARTS_MOST {
            return Added::Contradiction;
        }
        self.parts.insert(at, (offset, part));
        self.have += len;
        self.end = ends;
        if self.end == Some(self.have) { Added::All } else { Added::More }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{Header, fragment, testing};
    use alloc::vec;
    use proptest::prelude::*;

    fn frame(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
    }

    fn wrapped(wrapper: &mut Wrapper, frame: &[u8], fits: usize) -> Vec<u8> {
        let mut packet = [&[0; HEAD], frame].concat();
        assert!(wrapper.wrap(&mut packet, fits));
        packet
    }

    fn fragments(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let header = Header::parse(packet, packet.len()).expect("an IP packet");
        assert!(fragment::allowed(&header, packet));
        let mut parts = Vec::new();
        assert!(fragment::split(&header, packet, mtu, |part| parts.push(part.to_vec())));
        parts
    }

    #[test]
    fn a_frame_is_an_ip_packet_with_a_right_checksum_and_comes_out_as_it_was_without_padding() {
        let mut assembler = Assembler::new();
        for len in [14, 60, 64, 1514, 9018, 65_513] {
            let frame = frame(len);
            let mut packet = wrapped(&mut Wrapper::new(7), &frame, 65_535);
            let header = Header::parse(&packet, packet.len()).expect("an IP packet");
            assert_eq!((header.total, header.protocol, checksum::of(&packet[..IP])), (len + HEAD, 97, 0));
            packet.extend([0; 9]);
            assert_eq!(assembler.handle(Time::ZERO, packet), Some(frame));
        }
        let mut wrapper = Wrapper::new(7);
        assert!(!wrapper.wrap(&mut [0; HEAD + 13], 1500) && !wrapper.wrap(&mut vec![0; 65_536], 1500));
        assert_eq!(assembler.stats(), &Stats::default());
    }

    #[test]
    fn the_class_is_that_of_the_packet_in_the_frame_behind_tags_and_never_marks_congestion() {
        let class = |tags: &[u8], kind: u16, packet: &[u8]| {
            let bytes = [&[2; 12], tags, &kind.to_be_bytes(), packet].concat();
            wrapped(&mut Wrapper::new(1), &bytes, 1500)[1]
        };
        let mut v4 = testing::udp4(1, 2, 3, 4, &[]);
        v4[1] = 0xb8 | 3;
        assert_eq!(class(&[], IPV4, &v4), 0xb8);
        assert_eq!(class(&[0x81, 0, 0, 5, 0x88, 0xa8, 0, 6], IPV4, &v4), 0xb8);
        assert_eq!(class(&[], IPV6, &[0x6b, 0x8f, 0, 0]), 0xb8);
        assert_eq!((class(&[], 0x88b5, &v4), class(&[], IPV4, &[0x65, 0xff]), class(&[], IPV4, &[])), (0, 0, 0));
    }

    #[test]
    fn frames_of_one_flow_have_one_source_and_others_another() {
        let mut wrapper = Wrapper::new(3);
        let mut source = |from: u16, kind: u16| {
            let packet = testing::udp4(1, 2, from, 9, &[0; 5]);
            let bytes = [&[2; 12][..], &kind.to_be_bytes(), &packet].concat();
            wrapped(&mut wrapper, &bytes, 1500)[12..16].to_vec()
        };
        assert_eq!(source(1, IPV4), source(1, IPV4));
        assert_ne!(source(1, IPV4), source(2, IPV4));
        // What is no IP is told by its addresses and type.
        assert_eq!(source(1, 0x88b5), source(2, 0x88b5));
        assert_ne!(source(1, 0x88b5), source(1, 0x88b6));
    }

    #[test]
    fn what_holds_no_frame_is_counted() {
        let mut assembler = Assembler::new();
        let good = wrapped(&mut Wrapper::new(7), &frame(60), 1500);
        let other = |at: usize, byte: u8| {
            let mut packet = good.clone();
            packet[at] = byte;
            packet
        };
        let bad = [vec![], vec![0x45], other(0, 0x46), other(9, 17), other(20, 0x20), other(3, 19), other(3, 200)];
        for (n, packet) in (1..).zip(bad) {
            assert_eq!(assembler.handle(Time::ZERO, packet), None);
            assert_eq!(assembler.stats().not_frames, n);
        }
    }

    #[test]
    fn of_a_frame_whose_rest_does_not_come_nothing_is_left_and_memory_is_bounded() {
        let (mut wrapper, mut assembler) = (Wrapper::new(7), Assembler::new());
        let mut first = |now| {
            let packet = wrapped(&mut wrapper, &frame(1514), 1400);
            let mut parts = fragments(&packet, 1400);
            let rest = parts.pop().expect("two");
            assert_eq!(assembler.handle(now, parts.remove(0)), None);
            (rest, assembler.open.len(), assembler.stats.incomplete)
        };
        for n in 1..=200 {
            let (_, open, lost) = first(Time::ZERO);
            assert_eq!((open, lost), (n.min(64), n as u64 - n.min(64) as u64));
        }
        let late = Time::from_millis(1001);
        let (rest, open, lost) = first(late);
        assert_eq!((open, lost), (1, 200));
        assert_eq!(assembler.handle(late, rest), Some(frame(1514)));
        assert_eq!((assembler.open.len(), assembler.stats.assembled), (0, 1));
    }

    proptest! {
        #[test]
        fn fragments_in_any_order_with_copies_make_the_frame_once(
            len in 14usize..9000, mtu in 200usize..1500, order in any::<u64>(),
        ) {
            let (mut wrapper, mut assembler) = (Wrapper::new(order), Assembler::new());
            let frames = [frame(len), frame(len + 1)];
            let mut parts = Vec::new();
            for frame in &frames {
                let packet = wrapped(&mut wrapper, frame, mtu);
                parts.extend(if packet.len() > mtu { fragments(&packet, mtu) } else { vec![packet] });
            }
            // What came whole is not held, so that a copy of it is another frame. The second frame is the longer one.
            let whole = parts.len() == 2;
            if !whole {
                parts.extend(parts.last().cloned());
                let mut rng = crate::rng::Rng::new(order);
                for n in (1..parts.len()).rev() {
                    parts.swap(n, rng.next_u64() as usize % (n + 1));
                }
            }
            let out: Vec<_> = parts.into_iter().filter_map(|part| assembler.handle(Time::ZERO, part)).collect();
            prop_assert_eq!(out.len(), 2);
            prop_assert!(frames.iter().all(|frame| out.contains(frame)));
        }

        #[test]
        fn no_packets_make_it_panic_or_hold_more_than_its_bounds(
            packets in proptest::collection::vec((any::<bool>(), any::<u16>(), proptest::collection::vec(any::<u8>(), 0..80)), 0..300),
        ) {
            let mut assembler = Assembler::new();
            for (n, (likely, place, mut bytes)) in packets.into_iter().enumerate() {
                if likely && bytes.len() >= HEAD {
                    // A first fragment of eight bytes, or any behind it, of one of two frames.
                    let place = place & 0x2001;
                    if place == 0x2000 {
                        bytes.truncate(IP + 8);
                        bytes[IP..HEAD].copy_from_slice(&VERSION);
                    }
                    let total = (bytes.len() as u16).to_be_bytes();
                    (bytes[0], bytes[9]) = (0x45, PROTOCOL);
                    bytes[2..4].copy_from_slice(&total);
                    bytes[6..8].copy_from_slice(&place.to_be_bytes());
                    bytes[4..6].copy_from_slice(&[0, n as u8 & 1]);
                    bytes[12..16].fill(0);
                }
                if let Some(frame) = assembler.handle(Time::from_millis(n as u64), bytes) {
                    prop_assert!(frame.len() >= HEADER);
                }
                prop_assert!(assembler.open.len() <= OPEN_MOST);
            }
        }
    }
}
