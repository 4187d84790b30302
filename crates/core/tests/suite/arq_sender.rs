//! What EFL-MP's sender makes of acknowledgments, event by event: what it sends again, what it tells the law, and what it counts.

use fairspan_core::arq::{Config, Header, Kind, Parity, Repair, Sender, Seq};
use fairspan_core::congestion::Algorithm;
use fairspan_core::units::{Bytes, ChannelId, Span, Time};

const SIZE: Bytes = Bytes::new(192);

const fn micros(n: u64) -> Time {
    Time::from_nanos(1000 * n)
}

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    config.segment = SIZE;
    change(&mut config);
    config
}

/// A sender over two paths that is given so many packets.
fn sender(config: &Config, packets: u32) -> Sender<u32> {
    let mut sender = Sender::new(config, 2, Seq(0));
    give(&mut sender, packets);
    sender
}

fn give(sender: &mut Sender<u32>, packets: u32) {
    (0..packets).for_each(|n| assert_eq!(sender.handle_packet(n, SIZE), Ok(())));
}

/// What goes at this time.
fn sent(sender: &mut Sender<u32>, at: u64) -> Vec<Header> {
    let mut sent = Vec::new();
    while let Some(transmit) = sender.poll_transmit(micros(at)) {
        sent.push(transmit.header);
    }
    sent
}

fn numbers(sender: &mut Sender<u32>, at: u64) -> Vec<u32> {
    sent(sender, at).iter().map(|header| header.seq.0).collect()
}

/// An acknowledgment of all before `next`, by path 0, which returns `sent`.
fn ack(next: u32, sent: u64) -> Header {
    Header {
        kind: Kind::Ack,
        restart: 0,
        path: ChannelId(0),
        seq: Seq(next).before(),
        sent: micros(sent),
        held: Span::ZERO,
        received: Time::ZERO,
        rtt: Span::ZERO,
        stream: 0,
        opening: false,
        missing: (Seq(0), 0),
        covers: 0,
        row: 0,
    }
}

/// A request of a run of numbers.
fn request(next: u32, sent: u64, missing: (u32, u16)) -> Header {
    Header { kind: Kind::Request, missing: (Seq(missing.0), missing.1), ..ack(next, sent) }
}

#[test]
fn what_is_unsent_is_new_packets_repeats_and_rows() {
    let config = config(|c| {
        c.repair = Repair::Selective;
        c.parity = Parity::Xor;
        c.parity_packets = 2;
    });
    let mut sender = sender(&config, 3);
    assert_eq!(sender.unsent(), 3);
    assert!(sender.poll_transmit(micros(1)).is_some());
    assert_eq!(sender.unsent(), 2);
    assert!(sender.poll_transmit(micros(1)).is_some());
    assert_eq!(sender.unsent(), 2, "a packet and a row");
    assert_eq!(sender.handle_ack(micros(20), &request(0, 1, (0, 2))), Ok(()));
    assert_eq!(sender.unsent(), 4, "and two repeats");
    let kinds: Vec<Kind> = sent(&mut sender, 30).iter().map(|header| header.kind).collect();
    assert_eq!(kinds, [Kind::Repeat, Kind::Repeat, Kind::Parity, Kind::Data]);
    assert_eq!((sender.unsent(), sender.stats().packets, sender.stats().retransmitted), (0, 3, 2));
}

#[test]
fn acknowledgments_and_requests_are_counted_and_when_all_is_acknowledged_there_is_nothing_to_wait_for() {
    let mut sender = sender(&config(|c| c.repair = Repair::Selective), 6);
    assert_eq!(numbers(&mut sender, 1), [0, 1, 2, 3, 4, 5]);
    for n in 1..4 {
        assert_eq!(sender.handle_ack(micros(20), &ack(n, 1)), Ok(()));
        assert_eq!(sender.handle_ack(micros(20), &request(n, 1, (5, 1))), Ok(()));
        // By who has not seen all restarts.
        assert_eq!(sender.handle_ack(micros(20), &Header { restart: 255, ..request(n, 1, (5, 1)) }), Ok(()));
        let (n, stats) = (u64::from(n), sender.stats());
        assert_eq!((stats.acks, stats.requests, stats.old), (3 * n, n, 0));
    }
    assert_eq!(numbers(&mut sender, 30), [5]);
    assert!(sender.poll_timeout().is_some());
    assert_eq!(sender.handle_ack(micros(40), &ack(6, 30)), Ok(()));
    assert_eq!((sender.held(), sender.poll_timeout()), (0, None));
}

#[test]
fn progress_makes_probes_needless_and_an_acknowledgment_without_it_does_not() {
    for progress in [true, false] {
        let mut sender = sender(&config(|c| c.probes = true), 4);
        assert_eq!(numbers(&mut sender, 1), [0, 1, 2, 3]);
        assert_eq!(sender.handle_ack(micros(11), &ack(1, 1)), Ok(()));
        let due = sender.poll_timeout().expect("a probe is due");
        assert_eq!(due, micros(11 + 2 * 10), "two round trips");
        sender.handle_timeout(due);
        let next = if progress { 2 } else { 1 };
        let _ = sender.handle_ack(due, &ack(next, 1));
        let probes = numbers(&mut sender, 31);
        assert_eq!(probes, if progress { vec![] } else { vec![3, 3] });
        assert_eq!(sender.stats().probes, probes.len() as u64);
    }
}

#[test]
fn with_selective_repair_a_request_of_no_number_asks_for_go_back_n() {
    let mut sender = sender(&config(|c| c.repair = Repair::Selective), 4);
    assert_eq!(numbers(&mut sender, 1), [0, 1, 2, 3]);
    assert_eq!(sender.handle_ack(micros(20), &request(1, 1, (1, 0))), Ok(()));
    assert_eq!((sender.stats().restarts, sender.unsent()), (1, 3));
    let again = sent(&mut sender, 30);
    assert!(again.iter().all(|header| header.restart == 1));
    assert_eq!(again.iter().map(|header| header.seq.0).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn go_back_n_begins_anew_once_a_round_trip_and_not_for_what_is_old_or_where_nothing_is_under_way() {
    let mut sender = sender(&Config::default(), 4);
    assert_eq!(numbers(&mut sender, 1), [0, 1, 2, 3]);
    assert_eq!(sender.handle_ack(micros(21), &ack(2, 1)), Ok(()));
    // Of before that acknowledgment.
    let _ = sender.handle_ack(micros(22), &request(1, 1, (1, 1)));
    assert_eq!(sender.stats().restarts, 0);
    let _ = sender.handle_ack(micros(22), &request(2, 1, (2, 1)));
    assert_eq!((sender.stats().restarts, numbers(&mut sender, 22)), (1, vec![2, 3]));
    let seen = |at: u64| Header { restart: 1, ..request(2, at, (2, 1)) };
    // The round trip is 20 us.
    let _ = sender.handle_ack(micros(41), &seen(1));
    assert_eq!((sender.stats().restarts, numbers(&mut sender, 41)), (1, vec![]));
    let _ = sender.handle_ack(micros(42), &seen(1));
    assert_eq!((sender.stats().restarts, numbers(&mut sender, 42)), (2, vec![2, 3]));
    // All is acknowledged.
    let _ = sender.handle_ack(micros(100), &ack(4, 42));
    let _ = sender.handle_ack(micros(200), &Header { restart: 2, ..request(4, 42, (4, 1)) });
    assert_eq!((sender.stats().restarts, sender.stats().requests, sender.held()), (2, 5, 0));
}

#[test]
fn go_back_n_for_a_number_that_is_missing_calls_for_parity_and_for_a_full_buffer_it_does_not() {
    for (count, rows) in [(1, 2), (0, 1)] {
        let config = config(|c| {
            c.parity = Parity::Xor;
            c.parity_packets = 2;
            c.parity_residual = 1;
        });
        let mut sender = sender(&config, 4);
        assert_eq!(sent(&mut sender, 1).len(), 5, "four packets, and a row for the first two");
        assert_eq!(sender.stats().parity, 1);
        let _ = sender.handle_ack(micros(20), &request(2, 1, (2, count)));
        assert_eq!(sender.stats().restarts, 1);
        give(&mut sender, 2);
        assert_eq!(sent(&mut sender, 30).iter().filter(|header| header.kind != Kind::Parity).count(), 4);
        assert_eq!(sender.stats().parity, rows, "{count} missing");
    }
}

#[test]
fn a_repeat_is_sent_again_only_when_something_later_of_its_path_is_here_and_it_is_not() {
    let mut sender = sender(&config(|c| c.repair = Repair::Selective), 4);
    assert_eq!(numbers(&mut sender, 1), [0, 1, 2, 3]);
    let _ = sender.handle_ack(micros(20), &request(1, 1, (1, 1)));
    assert_eq!(sender.unsent(), 1);
    let _ = sender.handle_ack(micros(21), &request(1, 1, (1, 1)));
    assert_eq!(sender.unsent(), 1, "it waits already");
    let repeat = sent(&mut sender, 30);
    assert_eq!(repeat.iter().map(|header| (header.kind, header.seq)).collect::<Vec<_>>(), [(Kind::Repeat, Seq(1))]);
    let other = ChannelId(1 - repeat[0].path.0);
    for (at, path, again) in [(30, repeat[0].path, 0), (31, other, 0), (31, repeat[0].path, 1)] {
        let _ = sender.handle_ack(micros(60), &Header { path, ..request(1, at, (1, 1)) });
        assert_eq!(sender.unsent(), again, "{at} by {path}");
    }
}

/// Sends until the window is full, has so many requests for the first packet, and gives how much is under way once the rest is acknowledged
/// and the window is full again.
fn under_way(requests: u64) -> u64 {
    let config = config(|c| {
        c.repair = Repair::Selective;
        c.congestion = Algorithm::Reno;
    });
    let mut sender = sender(&config, 2000);
    let mut at = 1;
    let first = sent(&mut sender, at).len() as u32;
    assert!((4..1000).contains(&first), "a window limits it: {first}");
    for n in 0..requests {
        let _ = sender.handle_ack(micros(21 + n), &request(0, 1, (0, 1)));
    }
    let mut next = first;
    for _ in 0..3 {
        at += 1000;
        // Both paths return what went last.
        for path in [0, 1] {
            let _ = sender.handle_ack(micros(at), &Header { path: ChannelId(path), ..ack(next, at - 1000) });
        }
        let mut more = 0;
        for step in 0..500 {
            more += sent(&mut sender, at + step).iter().filter(|header| header.kind == Kind::Data).count() as u32;
        }
        next += more;
        at += 500;
    }
    sender.in_flight().as_u64()
}

#[test]
fn the_law_hears_of_a_loss_once_and_of_a_request_for_what_is_on_its_way_already_nothing() {
    let (none, one, two) = (under_way(0), under_way(1), under_way(2));
    assert!(one < none, "{one} {none}");
    assert_eq!(one, two);
}

#[test]
fn there_is_room_for_a_new_packet_when_nothing_waits_and_neither_buffer_nor_window_is_full() {
    let mut sender = sender(&config(|c| c.retransmission_packets = 2), 0);
    assert_eq!(sender.room_at(micros(5), SIZE), Some(Time::ZERO), "no pace yet");
    give(&mut sender, 1);
    assert_eq!(sender.room_at(micros(5), SIZE), None, "one waits");
    assert_eq!(numbers(&mut sender, 5), [0]);
    let at = sender.room_at(micros(5), SIZE).expect("there is room");
    assert!(at <= micros(6), "{at:?}");
    give(&mut sender, 1);
    assert_eq!(numbers(&mut sender, 6), [1]);
    assert_eq!(sender.room_at(micros(9), SIZE), None, "the buffer is full");
    let mut sender = Sender::new(&config(|_| ()), 2, Seq(0));
    give(&mut sender, 4000);
    let went = sent(&mut sender, 1).len();
    assert!(went < 4000 && sender.unsent() > 0);
}

#[test]
fn a_header_tells_the_paths_round_trip_when_the_peer_was_last_heard_and_whether_it_ever_was() {
    let mut sender = sender(&Config::default(), 2);
    let told = |header: &Header| (header.path.0, header.sent, header.received, header.rtt, header.opening);
    let first: Vec<_> = sent(&mut sender, 1).iter().map(told).collect();
    let never = (Time::ZERO, Span::ZERO, true);
    assert_eq!(first, [(0, micros(1), never.0, never.1, never.2), (1, micros(1), never.0, never.1, never.2)]);
    // The peer had it for five of the thirty microseconds.
    assert_eq!(sender.handle_ack(micros(31), &Header { held: Span::from_micros(5), ..ack(1, 1) }), Ok(()));
    give(&mut sender, 2);
    let next: Vec<_> = sent(&mut sender, 40).iter().map(told).collect();
    let heard = (micros(31), false);
    assert_eq!(
        next,
        [(0, micros(40), heard.0, Span::from_micros(25), heard.1), (1, micros(40), heard.0, Span::ZERO, heard.1)]
    );
}

#[test]
fn the_timer_sends_all_again_waits_twice_as_long_each_time_and_begins_anew_when_something_is_heard() {
    let mut sender = sender(&Config::default(), 3);
    assert_eq!(numbers(&mut sender, 1), [0, 1, 2]);
    let (mut due, mut wait) = (10_001, 10_000);
    for timeouts in 1..4 {
        assert_eq!(sender.poll_timeout(), Some(micros(due)));
        sender.handle_timeout(micros(due - 1));
        assert_eq!((sender.stats().timeouts, sender.unsent()), (timeouts - 1, 0));
        sender.handle_timeout(micros(due));
        assert_eq!((sender.stats().timeouts, sender.unsent(), sender.in_flight()), (timeouts, 3, Bytes::ZERO));
        let again = sent(&mut sender, due);
        assert!(again.iter().all(|header| u64::from(header.restart) == timeouts && header.kind == Kind::Data));
        assert_eq!(again.iter().map(|header| header.seq.0).collect::<Vec<_>>(), [0, 1, 2]);
        wait *= 2;
        due += wait;
    }
    assert_eq!((sender.stats().packets, sender.stats().retransmitted, sender.stats().restarts), (3, 9, 0));
    // A round trip of 20 us: the least timeout is a millisecond.
    let went = due - wait;
    assert_eq!(sender.handle_ack(micros(went + 20), &ack(1, went)), Ok(()));
    assert_eq!(sender.handle_ack(micros(went + 21), &ack(2, went)), Ok(()));
    assert_eq!(sender.poll_timeout(), Some(micros(went + 21 + 1000)));
    assert_eq!((sender.failed(), sender.first(), sender.paths()), (None, Seq(2), 2));
}

#[test]
fn a_path_whose_packets_are_not_answered_is_left_out_and_what_it_had_goes_by_the_other() {
    for repair in [Repair::GoBackN, Repair::Selective] {
        let config = config(|c| {
            c.failover = true;
            c.repair = repair;
        });
        let mut sender = sender(&config, 4);
        assert_eq!(numbers(&mut sender, 1), [0, 1, 2, 3]);
        // Both have told their round trips; then path 1 answers no more.
        for path in [0, 1] {
            let _ = sender.handle_ack(micros(21), &Header { path: ChannelId(path), ..ack(4, 1) });
        }
        give(&mut sender, 4);
        // They are paced.
        let over = |sender: &mut Sender<u32>, from: u64| -> Vec<Header> {
            (from..from + 10).flat_map(|at| sent(sender, at)).collect()
        };
        let second: Vec<Header> = over(&mut sender, 30);
        let told: Vec<_> = second.iter().map(|header| (header.seq.0, header.path.0)).collect();
        assert_eq!((told, second[1].sent), (vec![(4, 0), (5, 1), (6, 0), (7, 1)], micros(30)));
        give(&mut sender, 1);
        assert_eq!(over(&mut sender, 40).iter().map(|header| header.sent).collect::<Vec<_>>(), [micros(40)]);
        let _ = sender.handle_ack(micros(60), &ack(5, 40));
        assert_eq!(sender.stats().downs, 0);
        // One and a half of its round trips, which an acknowledgment's delay may prolong.
        sender.handle_timeout(micros(30 + 30 + 50 - 1));
        assert_eq!(sender.stats().downs, 0, "{repair}");
        sender.handle_timeout(micros(30 + 30 + 50));
        assert_eq!(sender.stats().downs, 1, "{repair}");
        let again = over(&mut sender, 110);
        assert!(again.iter().all(|header| header.path == ChannelId(0)), "{again:?}");
        let told: Vec<_> = again.iter().map(|header| (header.seq.0, header.kind)).collect();
        let expected = match repair {
            Repair::GoBackN => (5..9).map(|seq| (seq, Kind::Data)).collect(),
            Repair::Selective => vec![(5, Kind::Repeat), (7, Kind::Repeat)],
        };
        assert_eq!(told, expected, "{repair}");
        assert_eq!(sender.stats().restarts, 0);
    }
}

#[test]
fn a_request_for_what_is_on_its_way_is_no_loss_for_the_law() {
    // The second one asks for what the first one asked for, or asks for nothing.
    let window_after = |second: Kind| {
        let config = config(|c| {
            c.repair = Repair::Selective;
            c.congestion = Algorithm::Reno;
        });
        let mut sender = sender(&config, 2000);
        let first = sent(&mut sender, 1).len();
        assert_eq!(sender.handle_ack(micros(21), &request(0, 1, (0, 1))), Ok(()));
        let again = sent(&mut sender, 22);
        assert_eq!((again[0].kind, again[0].seq), (Kind::Repeat, Seq(0)));
        // What path 1 had is no longer under way, so that half of what is would be next to nothing.
        let other = Header { kind: second, path: ChannelId(1), ..request(0, 1, (0, 1)) };
        assert_eq!(sender.handle_ack(micros(23), &other), Ok(()));
        let more: usize = (0..1000).map(|step| sent(&mut sender, 24 + step).len()).sum();
        (first, more, sender.in_flight())
    };
    let (asked, told) = (window_after(Kind::Request), window_after(Kind::Ack));
    assert_eq!(asked, told);
    assert!(asked.1 >= asked.0 / 4, "the window is half of what it was: {asked:?}");
}

#[test]
fn of_timeouts_in_a_row_the_first_alone_halves_what_the_flow_grows_to() {
    // The packets that go in each round trip after so many timeouts.
    let rounds = |timeouts: u64| -> Vec<usize> {
        let mut sender = sender(&config(|c| c.congestion = Algorithm::Reno), 1000);
        let mut at = 1;
        let window = sent(&mut sender, at).len();
        assert!((8..100).contains(&window), "a window limits it: {window}");
        let mut went: Vec<Header> = Vec::new();
        for n in 1..=timeouts {
            at = sender.poll_timeout().expect("something is not acknowledged").as_nanos() / 1000;
            sender.handle_timeout(micros(at));
            assert_eq!(sender.stats().timeouts, n);
            went = sent(&mut sender, at);
        }
        let mut rounds = Vec::new();
        for _ in 0..8 {
            rounds.push(went.len());
            for header in went {
                let ack = Header { path: header.path, sent: header.sent, ..ack(header.seq.0 + 1, at) };
                assert_eq!(sender.handle_ack(micros(at + 1000), &ack), Ok(()));
            }
            at += 1000;
            // What waits for the pace goes meanwhile.
            went = (0..990).flat_map(|step| sent(&mut sender, at + step)).collect();
        }
        rounds
    };
    let (once, twice) = (rounds(1), rounds(2));
    assert_eq!(once, twice);
    assert!(
        once[3..].iter().all(|went| (5..=7).contains(went)),
        "fast to half the window, which is 5, then slowly: {once:?}"
    );
}

#[test]
fn who_waits_for_the_pace_with_half_a_window_under_way_is_limited_and_who_could_go_is_not() {
    // The rate once all is acknowledged, where room was asked for at this time after eight packets went, one a microsecond.
    let rate = |asked: Option<u64>| {
        let mut sender = sender(&config(|_| ()), 2);
        assert_eq!(sender.rate(), None);
        assert_eq!(sent(&mut sender, 1).len(), 2);
        for path in [0, 1] {
            let _ = sender.handle_ack(micros(21), &Header { path: ChannelId(path), ..ack(2, 1) });
        }
        // Ten packets in 20 us, twice over: a packet a microsecond.
        let mut last = [0, 0];
        for (at, packets) in [(30, 2), (31, 1), (32, 1), (33, 1), (34, 1), (35, 1), (36, 1)] {
            give(&mut sender, packets);
            let went = sent(&mut sender, at);
            assert_eq!((went.len(), sender.unsent()), (packets as usize, 0), "at {at}");
            went.iter().for_each(|header| last[header.path.index()] = at);
        }
        if let Some(asked) = asked {
            assert_eq!(sender.room_at(micros(asked), SIZE), Some(micros(37)));
        }
        for (path, last) in last.into_iter().enumerate() {
            let _ = sender.handle_ack(micros(last + 20), &Header { path: ChannelId(path as u8), ..ack(10, last) });
        }
        sender.rate().expect("round trips are known").as_bits_per_sec()
    };
    let never = rate(None);
    assert!(rate(Some(36)) > never, "the pace stopped it, and its window may grow");
    assert_eq!((rate(Some(37)), rate(Some(38))), (never, never));
}

#[test]
fn a_probe_is_due_two_round_trips_after_the_last_packet_and_none_while_one_is_out_or_nothing_is() {
    let mut sender = sender(&config(|c| (c.probes, c.repair) = (true, Repair::Selective)), 4);
    assert_eq!(numbers(&mut sender, 1), [0, 1, 2, 3]);
    for path in [0, 1] {
        let _ = sender.handle_ack(micros(21), &Header { path: ChannelId(path), ..ack(4, 1) });
    }
    assert_eq!(sender.poll_timeout(), None, "all is acknowledged");
    give(&mut sender, 3);
    let over = |sender: &mut Sender<u32>, from: u64| -> Vec<(u32, u64)> {
        let each = |at| sent(sender, at).into_iter().map(move |header| (header.seq.0, at));
        (from..from + 10).flat_map(each).collect()
    };
    let went = over(&mut sender, 100);
    assert_eq!(went.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [4, 5, 6]);
    let due = went[2].1 + 40;
    assert_eq!(sender.poll_timeout(), Some(micros(due)));
    // What is to be repeated shows what is missing as well as a probe does.
    let _ = sender.handle_ack(micros(120), &request(4, 100, (4, 1)));
    assert_eq!(over(&mut sender, 121).first(), Some(&(4, 121)));
    assert!(sender.poll_timeout() > Some(micros(due)), "{:?}", sender.poll_timeout());
    let _ = sender.handle_ack(micros(130), &ack(4, 102));
    let due = sender.poll_timeout().expect("a probe is due");
    sender.handle_timeout(due);
    let at = due.as_nanos() / 1000 + 1;
    assert_eq!(over(&mut sender, at).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [6, 6]);
    // An answer without progress.
    let _ = sender.handle_ack(micros(at + 15), &ack(4, at));
    let timer = sender.poll_timeout().expect("something is not acknowledged");
    assert!(timer >= micros(at + 500), "the timer, and no second probe: {timer:?}");
}

#[test]
fn a_row_is_no_longer_under_way_when_what_it_covers_is_acknowledged() {
    let config = config(|c| {
        c.parity = Parity::Xor;
        c.parity_packets = 2;
    });
    let mut sender = sender(&config, 2);
    let went = sent(&mut sender, 1);
    let row = went.iter().find(|header| header.kind == Kind::Parity).expect("a row for two packets");
    let other = ChannelId(1 - row.path.0);
    assert_eq!(sender.handle_ack(micros(21), &Header { path: other, ..ack(2, 1) }), Ok(()));
    assert_eq!((sender.held(), sender.in_flight()), (0, Bytes::ZERO));
}

/// A sender whose path 1 answers no more. It has 5 and 7, which went from time 30 on, and path 0 has 4, 6 and 8, which went at the time that is
/// given beside it.
fn half_dead(repair: Repair) -> (Sender<u32>, u64) {
    let config = config(|c| {
        c.failover = true;
        c.repair = repair;
    });
    let mut sender = sender(&config, 4);
    assert_eq!(numbers(&mut sender, 1), [0, 1, 2, 3]);
    for path in [0, 1] {
        let _ = sender.handle_ack(micros(21), &Header { path: ChannelId(path), ..ack(4, 1) });
    }
    give(&mut sender, 5);
    let went: Vec<Header> = (30..40).flat_map(|at| sent(&mut sender, at)).collect();
    assert_eq!(went.iter().map(|header| header.path.0).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
    (sender, went[4].sent.as_nanos() / 1000)
}

#[test]
fn what_a_dead_path_had_and_another_was_given_since_is_not_sent_a_third_time() {
    let (mut sender, last) = half_dead(Repair::Selective);
    assert_eq!(sender.handle_ack(micros(last + 20), &request(5, last, (5, 1))), Ok(()));
    let again: Vec<Header> = (55..60).flat_map(|at| sent(&mut sender, at)).collect();
    assert_eq!(again.iter().map(|header| (header.seq.0, header.path.0)).collect::<Vec<_>>(), [(5, 0)]);
    sender.handle_timeout(micros(111));
    assert_eq!(sender.stats().downs, 1);
    let again: Vec<Header> = (111..130).flat_map(|at| sent(&mut sender, at)).collect();
    assert_eq!(again.iter().map(|header| (header.seq.0, header.path.0)).collect::<Vec<_>>(), [(7, 0)]);
    // Where all is acknowledged there is nothing to knock with, until something is sent by another path.
    let _ = sender.handle_ack(micros(140), &ack(9, 111));
    sender.handle_timeout(micros(2000));
    assert_eq!((sender.held(), numbers(&mut sender, 2000)), (0, vec![]));
    give(&mut sender, 1);
    let went: Vec<Header> = (2001..2010).flat_map(|at| sent(&mut sender, at)).collect();
    let told: Vec<_> = went.iter().map(|header| (header.kind, header.seq.0, header.path.0)).collect();
    assert_eq!(told, [(Kind::Data, 9, 0), (Kind::Repeat, 9, 1)]);
}

#[test]
fn a_path_that_is_found_down_begins_nothing_anew_that_has_just_begun() {
    let (mut sender, last) = half_dead(Repair::GoBackN);
    // Go-back-N begins anew for a request, and before anything goes the path is down.
    assert_eq!(sender.handle_ack(micros(60), &request(5, last, (5, 1))), Ok(()));
    assert_eq!(sender.stats().restarts, 1);
    sender.handle_timeout(micros(111));
    assert_eq!(sender.stats().downs, 1);
    let again: Vec<Header> = (111..120).flat_map(|at| sent(&mut sender, at)).collect();
    let told: Vec<_> = again.iter().map(|header| (header.restart, header.seq.0, header.path.0)).collect();
    assert_eq!(told, [(1, 5, 0), (1, 6, 0), (1, 7, 0), (1, 8, 0)]);
}
