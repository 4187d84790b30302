//! Fragments one by one: what is counted, what is given up and when, and what marks of congestion become.

use fairspan_core::packet::Packet;
use fairspan_core::stripe::fragment::{
    Class, FragmentStats, Fragmenter, Header, Piece, Reassembler, ReassemblerConfig,
};
use fairspan_core::units::{Bytes, ChannelId, Time};

const BULK: Class = Class::Bulk;
const REAL_TIME: Class = Class::RealTime;

fn reassembler(links: u64) -> Reassembler<Vec<u8>> {
    Reassembler::new(ReassemblerConfig::default(), links)
}

fn header(begin: bool, end: bool, class: Class, sequence: u32) -> Header {
    Header { begin, end, class, sequence }
}

/// A fragment of so many bytes at so many milliseconds.
fn comes(r: &mut Reassembler<Vec<u8>>, ms: u64, link: u8, header: Header, len: usize) {
    r.handle_fragment(at(ms), ChannelId(link), header, vec![7; len], 0);
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn lengths(r: &mut Reassembler<Vec<u8>>) -> Vec<usize> {
    std::iter::from_fn(|| r.poll()).map(|packet| packet.len()).collect()
}

fn counted(r: &Reassembler<Vec<u8>>, set: impl Fn(&mut FragmentStats)) {
    let mut expected = FragmentStats::default();
    set(&mut expected);
    assert_eq!(*r.stats(), expected);
}

#[test]
fn what_waits_is_counted_in_bytes_until_its_fragments_have_gone() {
    let mut fragmenter: Fragmenter<Vec<u8>> = Fragmenter::new(Bytes::new(104), Bytes::new(250));
    assert_eq!(fragmenter.push(BULK, vec![]), Err(vec![]), "nothing");
    assert_eq!(fragmenter.push(BULK, vec![0; 251]), Err(vec![0; 251]));
    fragmenter.push(BULK, vec![0; 150]).unwrap();
    fragmenter.push(REAL_TIME, vec![1; 100]).unwrap();
    assert_eq!(fragmenter.push(BULK, vec![0; 1]), Err(vec![0; 1]), "full to the byte");
    let mut waiting = vec![fragmenter.waiting().as_u64()];
    while fragmenter.poll(&mut vec![]).is_some() {
        waiting.push(fragmenter.waiting().as_u64());
    }
    assert_eq!(waiting, [250, 150, 50, 0]);
}

#[test]
fn the_last_piece_is_the_packet_itself_and_those_before_are_copies() {
    let mut fragmenter: Fragmenter<Vec<u8>> = Fragmenter::new(Bytes::new(7), Bytes::new(100));
    let packet: Vec<u8> = (0..7).collect();
    fragmenter.push(BULK, packet.clone()).unwrap();
    let pieces: Vec<_> = std::iter::from_fn(|| fragmenter.poll_piece()).collect();
    let piece = |begin, end, sequence, packet, skip| Piece { header: header(begin, end, BULK, sequence), packet, skip };
    assert_eq!(
        pieces,
        [
            piece(true, false, 0, vec![0, 1, 2], 0),
            piece(false, false, 1, vec![3, 4, 5], 0),
            piece(false, true, 2, packet, 6)
        ]
    );
    assert_eq!(fragmenter.waiting(), Bytes::ZERO);
}

/// A packet for which no memory is given: there is no copy of it, and nothing goes before it.
#[derive(Clone, Debug, PartialEq)]
struct Scarce(Vec<u8>);

impl Packet for Scarce {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn size(&self) -> Bytes {
        Bytes::from(self.0.len())
    }
    fn strip(&mut self, n: usize) {
        self.0.drain(..n);
    }
    fn truncate(&mut self, n: usize) {
        self.0.truncate(n);
    }
    fn duplicate(&self) -> Option<Scarce> {
        None
    }
    fn from_bytes(_: &[u8]) -> Option<Scarce> {
        None
    }
}

#[test]
fn where_memory_is_refused_one_packet_is_lost_and_counted_and_the_next_one_goes() {
    let mut fragmenter: Fragmenter<Scarce> = Fragmenter::new(Bytes::new(34), Bytes::new(1000));
    fragmenter.push(BULK, Scarce(vec![1; 40])).unwrap();
    fragmenter.push(BULK, Scarce(vec![2; 90])).unwrap();
    fragmenter.push(BULK, Scarce(vec![3; 30])).unwrap();
    // The first fragment of the first goes otherwise, so that 10 of its bytes are left; the second cannot be cut.
    assert_eq!((fragmenter.poll(&mut vec![]), fragmenter.waiting()), (Some(BULK), Bytes::new(130)));
    fragmenter.set_payload(5);
    assert_eq!((fragmenter.poll_piece(), fragmenter.waiting()), (None, Bytes::new(120)));
    fragmenter.set_payload(30);
    assert_eq!((fragmenter.poll_piece(), fragmenter.waiting()), (None, Bytes::new(30)));
    let last = fragmenter.poll_piece().unwrap();
    assert_eq!((last.header.begin, last.header.end, last.packet, last.skip), (true, true, Scarce(vec![3; 30]), 0));

    let mut r: Reassembler<Scarce> = Reassembler::new(ReassemblerConfig::default(), 1);
    r.handle(ChannelId(0), &[0xc0, 0, 0, 0, 9]).unwrap();
    assert_eq!((r.poll(), r.stats().no_memory), (None, 1));
    let link = ChannelId(0);
    r.handle_fragment(at(0), link, header(true, false, BULK, 0), Scarce(vec![1; 5]), 0);
    r.handle_fragment(at(0), link, header(false, true, BULK, 1), Scarce(vec![1; 5]), 0);
    assert_eq!((r.poll(), r.stats().no_memory, r.stats().packets, r.buffered()), (None, 2, 0, Bytes::ZERO));
    r.handle_fragment(at(0), link, header(true, true, BULK, 2), Scarce(vec![1; 5]), 0);
    assert_eq!((r.poll(), r.stats().packets), (Some(Scarce(vec![1; 5])), 1));
}

#[test]
fn what_waits_takes_bytes_and_places_and_what_is_whole_takes_none() {
    let mut r = reassembler(0b11);
    comes(&mut r, 0, 0, header(true, false, BULK, 0), 100);
    comes(&mut r, 0, 0, header(false, true, BULK, 3), 30);
    comes(&mut r, 0, 0, header(true, false, REAL_TIME, 1), 50);
    assert_eq!((r.buffered(), r.places()), (Bytes::new(180), 6));
    comes(&mut r, 0, 1, header(false, false, BULK, 1), 10);
    comes(&mut r, 0, 1, header(false, false, BULK, 2), 10);
    assert_eq!((lengths(&mut r), r.buffered(), r.places()), (vec![150], Bytes::new(50), 2));
    counted(&r, |stats| stats.packets = 1);
}

#[test]
fn a_packet_that_is_too_long_is_discarded_by_fragments_and_one_that_just_fits_is_not() {
    let mut config = ReassemblerConfig::default();
    config.max_packet = Bytes::new(100);
    let mut r: Reassembler<Vec<u8>> = Reassembler::new(config, 1);
    for (sequence, len) in [(0, 40), (3, 41)] {
        comes(&mut r, 0, 0, header(true, false, BULK, sequence), 30);
        comes(&mut r, 0, 0, header(false, false, BULK, sequence + 1), 30);
        comes(&mut r, 0, 0, header(false, true, BULK, sequence + 2), len);
    }
    assert_eq!((lengths(&mut r), r.buffered()), (vec![100], Bytes::ZERO));
    counted(&r, |stats| (stats.packets, stats.discarded) = (1, 3));
}

#[test]
fn a_packet_has_the_service_of_its_first_fragment_and_any_fragment_s_mark_of_congestion() {
    // Two bits of ECN: 2 can be marked, 1 too, 3 is marked, 0 cannot be.
    for (fragments, expected) in [
        ([0xba, 0xba], 0xba),
        ([0xba, 0x03], 0xbb),
        ([0xbb, 0x02], 0xbb),
        ([0x02, 0xbb], 0x03),
        ([0x00, 0x00], 0x00),
        ([0x01, 0x02], 0x01),
        ([0xb8, 0x01], 0xb8),
    ] {
        let mut r = reassembler(1);
        for (n, tos) in fragments.into_iter().enumerate() {
            r.handle_fragment(at(0), ChannelId(0), header(n == 0, n == 1, BULK, n as u32), vec![7; 9], tos);
        }
        assert_eq!(r.poll_marked().map(|(packet, tos)| (packet.len(), tos)), Some((18, expected)), "{fragments:x?}");
    }
}

#[test]
fn what_comes_twice_or_too_late_is_counted_and_changes_nothing() {
    let mut r = reassembler(0b11);
    comes(&mut r, 0, 0, header(true, false, BULK, 0), 10);
    comes(&mut r, 0, 1, header(true, false, BULK, 0), 99);
    comes(&mut r, 0, 1, header(false, true, BULK, 1), 10);
    comes(&mut r, 0, 1, header(false, true, BULK, 1), 10);
    comes(&mut r, 0, 1, header(true, true, BULK, 2), 5);
    comes(&mut r, 0, 1, header(true, false, BULK, 0), 10);
    assert_eq!((lengths(&mut r), r.buffered()), (vec![20, 5], Bytes::ZERO));
    counted(&r, |stats| (stats.packets, stats.late) = (2, 3));
}

#[test]
fn the_64th_fragment_in_a_row_that_is_too_late_is_of_a_sender_that_counts_anew() {
    let mut r = reassembler(1);
    for sequence in 0..100 {
        comes(&mut r, 0, 0, header(true, true, BULK, sequence), 10);
    }
    assert_eq!(lengths(&mut r).len(), 100);
    let late =
        |r: &mut Reassembler<Vec<u8>>, n: u32| (0..n).for_each(|n| comes(r, 0, 0, header(true, true, BULK, n), 20));
    // What comes in time between them breaks the row.
    late(&mut r, 63);
    comes(&mut r, 0, 0, header(true, true, BULK, 100), 10);
    assert_eq!(lengths(&mut r), [10]);
    late(&mut r, 63);
    assert_eq!((lengths(&mut r), r.stats().late), (vec![], 126));
    comes(&mut r, 0, 0, header(true, true, BULK, 63), 30);
    assert_eq!((lengths(&mut r), r.stats().late), (vec![30], 127));
    // From there on it is counted.
    comes(&mut r, 0, 0, header(true, true, BULK, 64), 30);
    assert_eq!((lengths(&mut r), r.stats().late), (vec![30], 127));
}

#[test]
fn a_sender_is_met_at_its_start_or_on_its_way() {
    // Below 4096 it may have begun just now: what is before may come yet. From there on it has not.
    for (sequence, waits) in [(4095, true), (4096, false), (0xff00_1388, false)] {
        let mut r = reassembler(0b11);
        comes(&mut r, 0, 0, header(true, false, BULK, 0), 50);
        r.meet(BULK, sequence, false);
        assert_eq!((r.buffered(), r.places()), (Bytes::ZERO, 0), "what waited is forgotten");
        comes(&mut r, 0, 0, header(true, true, BULK, sequence & 0x00ff_ffff), 10);
        assert_eq!(lengths(&mut r).is_empty(), waits, "{sequence:#x}");
    }
    // Below 64 what is missing before was for us, and is lost.
    for (sequence, lost) in [(0, 0), (63, 63), (64, 0)] {
        let mut r = reassembler(1);
        r.meet(BULK, sequence, false);
        comes(&mut r, 0, 0, header(true, true, BULK, sequence), 10);
        assert_eq!((lengths(&mut r).len(), r.stats().lost), (1, lost), "{sequence}");
    }
}

#[test]
fn a_link_that_left_holds_nothing_up_and_one_that_comes_again_counts_from_then_on() {
    let mut r = reassembler(0b11);
    // Link 1 has brought number 5 in its time.
    comes(&mut r, 0, 1, header(true, true, BULK, 5), 10);
    comes(&mut r, 0, 0, header(true, true, BULK, 1), 10);
    assert_eq!(lengths(&mut r), [10], "number 0 is lost");
    r.set_links(0b01);
    comes(&mut r, 0, 0, header(true, true, BULK, 4), 20);
    assert_eq!(lengths(&mut r), [20, 10], "2 and 3 are lost: link 0 is past them, and there is no other");
    r.set_links(0b11);
    comes(&mut r, 0, 0, header(true, true, BULK, 8), 30);
    assert_eq!(lengths(&mut r), [0; 0], "6 and 7 may come by link 1, of which nothing is known since it joined");
    r.set_links(0b01);
    assert_eq!(lengths(&mut r), [30]);
    assert!(r.handle(ChannelId(1), &[0xc0, 0, 0, 9]).is_err());
}

#[test]
fn what_waits_for_too_long_is_given_up_with_what_is_missing_before_it() {
    let mut r = reassembler(0b11);
    assert_eq!(r.waits_since(), None);
    comes(&mut r, 3, 0, header(true, true, BULK, 2), 10);
    comes(&mut r, 2, 0, header(true, true, REAL_TIME, 1), 20);
    comes(&mut r, 9, 0, header(true, true, BULK, 5), 30);
    assert_eq!(r.waits_since(), Some(at(2)));
    r.handle_timeout(Time::from_nanos(1_999_999));
    assert_eq!(lengths(&mut r), [0; 0]);
    r.handle_timeout(at(2));
    assert_eq!((lengths(&mut r), r.waits_since()), (vec![20], Some(at(3))));
    r.handle_timeout(at(8));
    assert_eq!((lengths(&mut r), r.waits_since()), (vec![10], Some(at(9))));
    counted(&r, |stats| (stats.packets, stats.lost, stats.expired) = (2, 3, 2));
}

#[test]
fn a_packet_that_is_not_completed_in_time_is_given_up_as_far_as_it_came() {
    let mut r = reassembler(0b11);
    comes(&mut r, 0, 0, header(true, false, BULK, 0), 10);
    comes(&mut r, 0, 0, header(false, false, BULK, 1), 10);
    comes(&mut r, 5, 0, header(true, true, BULK, 3), 40);
    r.handle_timeout(at(0));
    // Number 2 is missing, and the whole packet behind it is younger.
    assert_eq!((lengths(&mut r), r.waits_since(), r.buffered()), (vec![], Some(at(5)), Bytes::new(40)));
    counted(&r, |stats| (stats.discarded, stats.expired) = (2, 1));
    r.handle_timeout(at(5));
    assert_eq!((lengths(&mut r), r.places()), (vec![40], 0));
    counted(&r, |stats| (stats.packets, stats.discarded, stats.lost, stats.expired) = (1, 2, 1, 2));
}

#[test]
fn a_full_buffer_gives_up_the_oldest_of_the_class_with_more_places_and_bulk_where_both_have_as_many() {
    let full = |bulk: u32, real_time: u32| {
        let mut config = ReassemblerConfig::default();
        config.buffer = Bytes::new(100);
        let mut r: Reassembler<Vec<u8>> = Reassembler::new(config, 0b11);
        comes(&mut r, 0, 0, header(true, false, BULK, bulk), 50);
        comes(&mut r, 0, 0, header(true, false, REAL_TIME, real_time), 50);
        assert_eq!(r.buffered(), Bytes::new(100), "full to the byte, and nothing is given up");
        comes(&mut r, 0, 0, header(false, false, BULK, bulk + 1), 1);
        (r.buffered().as_u64(), r.stats().overflow, r.stats().discarded, r.stats().lost)
    };
    // The beginning of the bulk packet goes, and with it what cannot be without.
    assert_eq!(full(0, 0), (50, 1, 2, 0));
    // Four of the five numbers that are missing before the real-time fragment go first: then both have two places.
    assert_eq!(full(0, 5), (50, 1, 2, 4));
    // Three places each: bulk's gap, then one of the other's, then bulk.
    assert_eq!(full(1, 2), (50, 1, 2, 2));
}
