//! What the ends of EFL-MP count and ask for, event by event, at their bounds and just beyond.

use fairspan_core::arq::{
    Config, Dropped, Header, Kind, MOST_PACKETS, Parity, Receiver, ReceiverStats, Repair, Seq, Trigger,
};
use fairspan_core::units::{ChannelId, Span, Time};

const fn micros(n: u64) -> Time {
    Time::from_nanos(1000 * n)
}

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

/// The header of a packet that was sent at `sent`, in microseconds.
fn data(seq: u32, sent: u64) -> Header {
    Header {
        kind: Kind::Data,
        restart: 0,
        path: ChannelId(0),
        seq: Seq(seq),
        sent: micros(sent),
        held: Span::ZERO,
        received: Time::ZERO,
        rtt: Span::ZERO,
        stream: 7,
        opening: true,
        missing: (Seq(0), 0),
        covers: 0,
        row: 0,
    }
}

fn repeat(seq: u32) -> Header {
    Header { kind: Kind::Repeat, ..data(seq, 0) }
}

fn receiver(config: &Config, paths: usize) -> Receiver<u32> {
    Receiver::new(config, paths, Seq(0))
}

fn give(receiver: &mut Receiver<u32>, at: u64, path: u8, header: &Header) -> Result<(), Dropped> {
    receiver.handle_packet(micros(at), ChannelId(path), header, header.seq.0)
}

fn delivered(receiver: &mut Receiver<u32>) -> Vec<u32> {
    std::iter::from_fn(|| receiver.poll_deliver()).collect()
}

fn acks(receiver: &mut Receiver<u32>, at: u64) -> Vec<Header> {
    std::iter::from_fn(|| receiver.poll_ack(micros(at))).collect()
}

/// What is asked for: the first number, and how many.
fn requests(receiver: &mut Receiver<u32>, at: u64) -> Vec<(u32, u16)> {
    let asked = acks(receiver, at).into_iter().filter(|ack| ack.kind == Kind::Request);
    asked.map(|ack| (ack.missing.0.0, ack.missing.1)).collect()
}

#[test]
fn each_drop_is_counted_once_under_its_name() {
    let mut receiver = receiver(&config(|c| c.reorder_packets = 2), 2);
    let begin = Header { restart: 3, ..data(0, 0) };
    assert_eq!(give(&mut receiver, 0, 0, &begin), Ok(()));
    assert_eq!((receiver.held(), delivered(&mut receiver)), (0, vec![0]));
    let of = |seq: u32| Header { restart: 3, ..data(seq, 0) };
    let expected = ReceiverStats { delivered: 1, ..ReceiverStats::default() };
    assert_eq!(*receiver.stats(), expected);
    for n in 1..4 {
        assert_eq!(give(&mut receiver, 1, 2, &of(1)), Err(Dropped::Path));
        assert_eq!(receiver.stats().bad, 4 * n - 3);
        assert_eq!(give(&mut receiver, 1, 0, &Header { kind: Kind::Ack, ..of(1) }), Err(Dropped::Kind));
        assert_eq!(receiver.stats().bad, 4 * n - 2);
        assert_eq!(give(&mut receiver, 1, 0, &of(MOST_PACKETS + 2)), Err(Dropped::Beyond));
        assert_eq!(receiver.stats().bad, 4 * n - 1);
        let row = Header { kind: Kind::Parity, covers: 1, ..of(1) };
        assert_eq!(receiver.handle_parity(micros(1), ChannelId(0), &row, &[0; 6]), Err(Dropped::Kind));
        assert_eq!(receiver.stats().bad, 4 * n);
        assert_eq!(give(&mut receiver, 1, 0, &Header { stream: 6, ..of(1) }), Err(Dropped::Stream));
        assert_eq!(give(&mut receiver, 1, 0, &Header { restart: 2, ..of(1) }), Err(Dropped::Outdated));
        assert_eq!(give(&mut receiver, 1, 0, &of(0)), Err(Dropped::Old));
        let stats = receiver.stats();
        assert_eq!((stats.other_streams, stats.outdated, stats.old), (n, n, n));
    }
    // Two find room, and the last number that is taken is as far ahead as a buffer may be long.
    assert_eq!(give(&mut receiver, 2, 1, &of(2)), Ok(()));
    assert_eq!(give(&mut receiver, 2, 1, &of(MOST_PACKETS + 1)), Ok(()));
    assert!(!receiver.has_room(ChannelId(1)) && receiver.has_room(ChannelId(0)) && !receiver.has_room(ChannelId(2)));
    for n in 1..4 {
        assert_eq!(give(&mut receiver, 2, 1, &of(5)), Err(Dropped::Full));
        assert_eq!((receiver.stats().full, receiver.stats().most_held), (n, 2));
    }
    assert_eq!(receiver.held(), 2);
    // Two wait in the buffer and one among the repeats when go-back-N begins anew.
    assert_eq!(give(&mut receiver, 3, 0, &Header { restart: 3, ..repeat(3) }), Ok(()));
    assert_eq!(give(&mut receiver, 3, 0, &Header { restart: 3, ..repeat(3) }), Err(Dropped::Old));
    assert_eq!((receiver.held(), receiver.stats().old), (3, 4));
    assert_eq!(give(&mut receiver, 4, 0, &Header { restart: 4, ..data(1, 0) }), Ok(()));
    let stats = *receiver.stats();
    assert_eq!((stats.emptied, stats.delivered, receiver.held()), (3, 2, 0));
}

#[test]
fn repeats_find_as_much_room_as_all_buffers_have_together() {
    let config = config(|c| {
        c.reorder_packets = 3;
        c.repair = Repair::Selective;
    });
    let mut receiver = receiver(&config, 2);
    for seq in 1..7 {
        assert_eq!(give(&mut receiver, 0, 0, &repeat(seq)), Ok(()), "{seq}");
    }
    assert_eq!(give(&mut receiver, 0, 0, &repeat(7)), Err(Dropped::Full));
    assert_eq!((receiver.held(), receiver.stats().full, receiver.stats().most_held), (6, 1, 0));
    assert_eq!(give(&mut receiver, 0, 0, &repeat(0)), Ok(()));
    assert_eq!((delivered(&mut receiver), receiver.held()), ((0..7).collect(), 0));
}

#[test]
fn what_is_late_is_asked_for_when_the_slowest_path_would_have_brought_it_and_not_again_at_once() {
    for parity in [Parity::None, Parity::Xor] {
        let config = config(|c| {
            c.trigger = Trigger::Time;
            c.parity = parity;
            c.parity_wait = Span::from_micros(200);
        });
        let mut receiver = receiver(&config, 2);
        let begin = Header { rtt: Span::from_micros(40), ..data(0, 0) };
        assert_eq!(give(&mut receiver, 10, 0, &begin), Ok(()));
        assert_eq!(give(&mut receiver, 21, 0, &data(2, 11)), Ok(()));
        // 10 us of transit and a quarter of a round trip, and what parity may take.
        let late = 31 + if parity == Parity::None { 0 } else { 200 };
        assert_eq!(requests(&mut receiver, late - 1), [], "{parity}");
        assert_eq!(receiver.poll_timeout(), Some(micros(late)), "{parity}");
        assert_eq!(requests(&mut receiver, late), [(1, 1)], "{parity}");
        // What is asked for is not asked for again before an acknowledgment's delay has passed, whatever comes.
        let again = receiver.poll_timeout();
        assert_eq!(again, Some(if parity == Parity::None { micros(late + 50) } else { micros(late + 50 + 200) }));
        assert_eq!(give(&mut receiver, late + 1, 0, &data(3, late - 9)), Ok(()));
        assert_eq!(requests(&mut receiver, late + 2), []);
        // What was missing comes; another one that is missing is asked for by its own time.
        assert_eq!(give(&mut receiver, late + 3, 1, &data(1, late - 7)), Ok(()));
        assert_eq!(delivered(&mut receiver), [0, 1, 2, 3]);
        assert_eq!(give(&mut receiver, late + 4, 0, &data(5, late - 6)), Ok(()));
        assert_eq!(requests(&mut receiver, late + 13), []);
        let wait = if parity == Parity::None { 0 } else { 200 };
        assert_eq!(requests(&mut receiver, late + 14 + wait), [(4, 1)], "{parity}");
    }
}

#[test]
fn repeats_that_were_not_needed_make_it_wait_a_quarter_of_a_round_trip_longer_once_a_round() {
    let mut receiver = receiver(&config(|c| c.trigger = Trigger::Time), 2);
    for seq in 0..5 {
        let header = Header { rtt: Span::from_micros(40), ..data(seq, 0) };
        assert_eq!(give(&mut receiver, 10, 0, &header), Ok(()));
    }
    assert_eq!(give(&mut receiver, 21, 0, &data(6, 11)), Ok(()));
    assert_eq!(acks(&mut receiver, 21).len(), 1, "of what was delivered");
    assert_eq!(receiver.poll_timeout(), Some(micros(11 + 10 + 10)));
    for at in [22, 23, 24] {
        assert_eq!(give(&mut receiver, at, 1, &data(0, at - 10)), Err(Dropped::Old));
        assert_eq!(receiver.poll_timeout(), Some(micros(11 + 10 + 20)), "at {at}");
    }
    // The round ends when all is here that had come when it began.
    assert_eq!(give(&mut receiver, 25, 1, &data(5, 15)), Ok(()));
    assert_eq!(give(&mut receiver, 26, 0, &data(8, 16)), Ok(()));
    assert_eq!(receiver.poll_timeout(), Some(micros(16 + 10 + 20)));
    assert_eq!(give(&mut receiver, 27, 1, &data(0, 17)), Err(Dropped::Old));
    assert_eq!(receiver.poll_timeout(), Some(micros(16 + 10 + 30)));
}

#[test]
fn each_row_that_is_dropped_is_counted_once_under_its_name() {
    let mut receiver = receiver(&config(|c| c.parity = Parity::Xor), 2);
    let octets = [0, 4, 0, 0, 0, 9];
    assert_eq!(give(&mut receiver, 0, 0, &data(0, 0)), Ok(()));
    let row = |first: u32, count: u8| Header { kind: Kind::Parity, covers: count, ..data(first, 0) };
    let mut put = |path: u8, header: &Header, octets: &[u8]| {
        let taken = receiver.handle_parity(micros(1), ChannelId(path), header, octets);
        let ReceiverStats { bad, old, other_streams, parity, rebuilt, .. } = *receiver.stats();
        (taken, [bad, old, other_streams, parity, rebuilt])
    };
    let no = |dropped| Err(dropped);
    for n in 0..3 {
        let bad = 4 * n;
        assert_eq!(put(0, &data(1, 0), &octets), (no(Dropped::Kind), [bad + 1, n, n, 2 * n, 0]));
        assert_eq!(put(2, &row(1, 1), &octets), (no(Dropped::Path), [bad + 2, n, n, 2 * n, 0]));
        assert_eq!(put(0, &row(1, 0), &octets), (no(Dropped::Parity), [bad + 3, n, n, 2 * n, 0]));
        assert_eq!(put(0, &row(0, 1), &octets), (no(Dropped::Old), [bad + 3, n + 1, n, 2 * n, 0]));
        let other = Header { stream: 6, ..row(1, 1) };
        assert_eq!(put(0, &other, &octets), (no(Dropped::Stream), [bad + 3, n + 1, n + 1, 2 * n, 0]));
        // What it rebuilds is no packet.
        assert_eq!(put(0, &row(1, 1), &[0, 3, 0, 0, 9]), (Ok(()), [bad + 4, n + 1, n + 1, 2 * n + 1, 0]));
        let block = row(10 * (n as u32 + 1), 2);
        assert_eq!(put(0, &block, &octets), (Ok(()), [bad + 4, n + 1, n + 1, 2 * n + 2, 0]));
    }
    assert_eq!(put(0, &row(1, 1), &[0, 4, 0, 0, 0, 1]), (Ok(()), [12, 3, 3, 7, 1]));
    assert_eq!(delivered(&mut receiver), [0, 1]);
}

#[test]
fn a_start_of_the_sender_that_was_replaced_comes_no_more_and_the_first_that_replaced_it_is_named() {
    let mut receiver = receiver(&Config::default(), 2);
    assert_eq!(give(&mut receiver, 0, 0, &data(0, 0)), Ok(()));
    assert_eq!(receiver.failed(), None);
    for stream in [8, 9, 7] {
        assert_eq!(give(&mut receiver, 1, 0, &Header { stream, ..data(1, 0) }), Err(Dropped::Stream));
        assert_eq!(receiver.failed().map(|replaced| (replaced.before, replaced.after)), Some((7, 8)));
    }
}

#[test]
fn a_packet_for_which_there_is_no_room_behind_is_asked_for_at_once_unless_the_timer_alone_asks() {
    for trigger in [Trigger::Published, Trigger::Timer] {
        let mut receiver = receiver(&config(|c| c.trigger = trigger), 2);
        assert_eq!(give(&mut receiver, 0, 0, &data(0, 0)), Ok(()));
        for n in 1..4 {
            receiver.handle_refused(micros(20), ChannelId(1), &data(1, 11));
            assert_eq!(receiver.stats().full, n);
        }
        receiver.handle_refused(micros(20), ChannelId(2), &data(1, 11));
        let asked = acks(&mut receiver, 25);
        let asked: Vec<_> = asked.iter().filter(|ack| ack.kind == Kind::Request).collect();
        assert_eq!(asked.len(), if trigger == Trigger::Timer { 0 } else { 3 });
        for ack in asked {
            assert_eq!((ack.path, ack.seq, ack.missing), (ChannelId(1), Seq(0), (Seq(1), 1)));
            assert_eq!((ack.sent, ack.held), (micros(11), Span::from_micros(5)));
        }
    }
}

#[test]
fn a_packet_that_waits_in_a_buffer_when_its_repeat_is_picked_is_old() {
    let mut receiver = receiver(&Config::default(), 2);
    for n in 0..3 {
        let first = 3 * n;
        assert_eq!(give(&mut receiver, 0, 0, &data(first + 2, 0)), Ok(()));
        assert_eq!(give(&mut receiver, 0, 0, &repeat(first + 2)), Ok(()));
        assert_eq!(give(&mut receiver, 0, 0, &repeat(first + 1)), Ok(()));
        assert_eq!(give(&mut receiver, 0, 0, &repeat(first)), Ok(()));
        assert_eq!(delivered(&mut receiver), [first, first + 1, first + 2]);
        assert_eq!((receiver.held(), receiver.stats().old), (0, u64::from(n) + 1));
    }
}

#[test]
fn what_parity_may_still_bring_is_not_asked_for_though_every_buffer_holds_something() {
    for repair in [Repair::GoBackN, Repair::Selective] {
        let config = config(|c| {
            c.parity = Parity::Xor;
            c.repair = repair;
        });
        let mut receiver = receiver(&config, 2);
        assert_eq!(give(&mut receiver, 0, 0, &data(0, 0)), Ok(()));
        // The block begins with 1, and not all of its rows have left before these.
        for (path, seq) in [(0, 2), (1, 3)] {
            assert_eq!(give(&mut receiver, 1, path, &Header { covers: seq as u8 - 1, ..data(seq, 0) }), Ok(()));
        }
        assert_eq!(requests(&mut receiver, 1), [], "{repair}");
        assert_eq!(give(&mut receiver, 2, 0, &data(4, 0)), Ok(()));
        assert_eq!(requests(&mut receiver, 2), [], "{repair}: path 1 may bring it");
        assert_eq!(give(&mut receiver, 2, 1, &data(5, 0)), Ok(()));
        let asked = requests(&mut receiver, 2);
        assert!(!asked.is_empty() && asked.iter().all(|asked| *asked == (1, 1)), "{repair}: {asked:?}");
    }
}

#[test]
fn as_many_are_asked_for_as_are_missing_in_a_row_and_what_is_too_long_for_a_count_in_parts() {
    let mut two = receiver(&Config::default(), 2);
    assert_eq!(two.reorder_buffers(), 2);
    for (path, seq) in [(0, 0), (0, 3), (1, 4)] {
        assert_eq!(give(&mut two, 0, path, &data(seq, 0)), Ok(()));
    }
    assert_eq!(requests(&mut two, 0), [(1, 2)]);
    let mut one = receiver(&config(|c| c.repair = Repair::Selective), 1);
    assert_eq!(give(&mut one, 0, 0, &data(0, 0)), Ok(()));
    assert_eq!(give(&mut one, 0, 0, &data(70_000, 0)), Ok(()));
    assert_eq!(requests(&mut one, 0), [(1, 65_535), (1, 65_535), (65_536, 4464)]);
}

#[test]
fn all_gaps_that_are_late_are_asked_for_with_selective_repair_and_the_first_alone_without() {
    for repair in [Repair::GoBackN, Repair::Selective] {
        let config = config(|c| {
            c.trigger = Trigger::Time;
            c.repair = repair;
        });
        let mut receiver = receiver(&config, 2);
        let begin = Header { rtt: Span::from_micros(40), ..data(0, 0) };
        assert_eq!(give(&mut receiver, 10, 0, &begin), Ok(()));
        for (seq, sent) in [(2, 11), (4, 12), (7, 20)] {
            assert_eq!(give(&mut receiver, sent + 10, 0, &data(seq, sent)), Ok(()));
        }
        let asked = requests(&mut receiver, 32);
        let all = [(1, 1), (1, 1), (3, 1)];
        assert_eq!(asked, if repair == Repair::GoBackN { &all[..1] } else { &all }, "{repair}");
    }
}

#[test]
fn acknowledgments_are_counted_by_their_kind() {
    let mut receiver = receiver(&config(|c| c.ack_packets = 2), 1);
    for round in 0..3 {
        let first = 5 * round;
        let (ack, request) = (Some(Kind::Ack), Some(Kind::Request));
        // The third was here before; the next two stand behind a gap.
        for (header, expected) in [
            (data(first, 0), None),
            (data(first + 1, 0), ack),
            (data(first, 0), ack),
            (data(first + 3, 0), request),
            (data(first + 4, 0), request),
            (repeat(first + 2), ack),
        ] {
            let _ = give(&mut receiver, 0, 0, &header);
            let told = acks(&mut receiver, 0);
            assert!(told.iter().map(|ack| ack.kind).eq(expected), "{header:?}: {told:?}");
        }
        let (stats, rounds) = (*receiver.stats(), u64::from(round) + 1);
        assert_eq!((stats.acks, stats.requests, stats.delivered), (3 * rounds, 2 * rounds, 5 * rounds));
    }
}

#[test]
fn what_is_not_next_owes_no_acknowledgment_and_one_that_is_picked_owes_one_after_a_delay() {
    let mut receiver = receiver(&Config::default(), 2);
    assert_eq!(give(&mut receiver, 0, 0, &data(0, 0)), Ok(()));
    assert_eq!(receiver.poll_timeout(), Some(micros(50)));
    assert_eq!(acks(&mut receiver, 50).len(), 1);
    assert_eq!(give(&mut receiver, 60, 0, &data(2, 0)), Ok(()));
    assert_eq!((receiver.poll_timeout(), acks(&mut receiver, 1000).len()), (None, 0));
}

#[test]
fn a_repeat_does_not_say_what_its_path_will_bring_next() {
    let mut receiver = receiver(&Config::default(), 2);
    assert_eq!(give(&mut receiver, 0, 1, &data(0, 0)), Ok(()));
    assert_eq!(give(&mut receiver, 1, 1, &data(2, 0)), Ok(()));
    assert_eq!(give(&mut receiver, 1, 0, &repeat(4)), Ok(()));
    assert_eq!(requests(&mut receiver, 1), []);
    assert_eq!(give(&mut receiver, 1, 0, &data(3, 0)), Ok(()));
    assert_eq!(requests(&mut receiver, 1), [(1, 1)]);
}

#[test]
fn what_overflows_is_asked_for_without_a_count_with_selective_repair_alone() {
    for (repair, count) in [(Repair::GoBackN, 1), (Repair::Selective, 0)] {
        let config = config(|c| {
            c.repair = repair;
            c.reorder_packets = 2;
        });
        let mut receiver = receiver(&config, 2);
        assert_eq!(give(&mut receiver, 0, 0, &data(0, 0)), Ok(()));
        assert_eq!(give(&mut receiver, 0, 0, &data(2, 0)), Ok(()));
        assert_eq!(requests(&mut receiver, 0), [], "{repair}");
        assert_eq!(give(&mut receiver, 0, 0, &data(3, 0)), Ok(()));
        assert_eq!(requests(&mut receiver, 0), [(1, 1)], "{repair}: it is full");
        assert_eq!(give(&mut receiver, 0, 0, &data(4, 0)), Err(Dropped::Full));
        assert_eq!(requests(&mut receiver, 0), [(1, count)], "{repair}");
    }
}
