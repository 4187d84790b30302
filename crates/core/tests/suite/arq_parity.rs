//! EFL-MP's two ends with parity: what is rebuilt is not asked for, rows follow losses, and rows of nobody's blocks do no harm.

use fairspan_core::arq::{Config, Content, Dropped, Header, Kind, Parity, Receiver, Repair, Sender, Seq, Trigger};
use fairspan_core::options::Words;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, ChannelId, Span, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

/// What is sent: octets.
type Load = Vec<u8>;

const MICRO: fn(u64) -> Span = Span::from_micros;

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    config.segment = Bytes::new(192);
    config.reorder_packets = 400;
    config.repair = Repair::Selective;
    config.parity = Parity::ReedSolomon;
    config.parity_packets = 8;
    config.parity_wait = MICRO(100);
    change(&mut config);
    config
}

/// Packets of unlike lengths, each with its number.
fn packets(count: u32) -> Vec<Load> {
    let one = |n: u32| n.to_be_bytes().into_iter().cycle().take(4 + n as usize * 37 % 150).collect();
    (0..count).map(one).collect()
}

/// The first, if it is due.
fn due<T>(lane: &mut VecDeque<T>, is_due: impl FnOnce(&T) -> bool) -> Option<T> {
    is_due(lane.front()?).then(|| lane.pop_front())?
}

/// Sends packets over paths of 10 us and more that keep order; what `lose` says is lost. Gives what arrived, and the ends.
fn carry(
    config: &Config,
    paths: usize,
    packets: &[Vec<u8>],
    mut lose: impl FnMut(&Header) -> bool,
) -> (Vec<Load>, Sender<Load>, Receiver<Load>) {
    let first = Seq(u32::MAX - 50);
    let (mut sender, mut receiver) = (Sender::new(config, paths, first), Receiver::new(config, paths, first));
    let mut there: Vec<VecDeque<(Time, Header, Load)>> = vec![VecDeque::new(); paths];
    let mut back: Vec<VecDeque<(Time, Header)>> = vec![VecDeque::new(); paths];
    let (mut arrived, mut now, mut given) = (Vec::new(), Time::from_nanos(1), packets.iter());
    while arrived.len() < packets.len() {
        while sender.wants_packet()
            && let Some(packet) = given.next()
        {
            let size = Bytes::new(40 + packet.len() as u64);
            sender.handle_packet(packet.clone(), size).expect("it wants one");
        }
        while let Some(transmit) = sender.poll_transmit(now) {
            let path = transmit.path.index();
            let octets = match transmit.content {
                Content::Packet(packet) => packet.clone(),
                Content::Parity(row) => row.to_vec(),
            };
            if !lose(&transmit.header) {
                let at = now + MICRO(10 + path as u64);
                let at = there[path].back().map_or(at, |last| at.max(last.0 + Span::from_nanos(100)));
                there[path].push_back((at, transmit.header, octets));
            }
        }
        while let Some(ack) = receiver.poll_ack(now) {
            back[ack.path.index()].push_back((now + MICRO(10), ack));
        }
        let arrivals = there.iter().filter_map(|lane| Some(lane.front()?.0));
        let answers = back.iter().filter_map(|lane| Some(lane.front()?.0));
        let timers = [sender.poll_timeout(), receiver.poll_timeout()].into_iter().flatten();
        let Some(next) = arrivals.chain(answers).chain(timers).min() else { break };
        now = now.max(next);
        for (path, lane) in there.iter_mut().enumerate() {
            while let Some((_, header, octets)) = due(lane, |first| first.0 <= now) {
                let path = ChannelId(path as u8);
                let _ = match header.kind {
                    Kind::Parity => receiver.handle_parity(now, path, &header, &octets),
                    _ => receiver.handle_packet(now, path, &header, octets),
                };
            }
        }
        for lane in &mut back {
            while let Some((_, ack)) = due(lane, |first| first.0 <= now) {
                sender.handle_ack(now, &ack).expect("an honest acknowledgment");
            }
        }
        arrived.extend(std::iter::from_fn(|| receiver.poll_deliver()));
        sender.handle_timeout(now);
        assert!(sender.failed().is_none());
    }
    (arrived, sender, receiver)
}

#[test]
fn what_a_row_mends_is_not_asked_for() {
    for (parity, paths) in [(Parity::Xor, 1), (Parity::Xor, 4), (Parity::ReedSolomon, 3)] {
        let config = config(|c| {
            c.parity = parity;
            c.parity_residual = 1 << 20;
        });
        let packets = packets(4000);
        // One packet of each block is lost.
        let mut lost = 0;
        let (arrived, sender, receiver) = carry(&config, paths, &packets, |header| {
            let loses = header.kind == Kind::Data && header.seq.0.wrapping_add(51) % 8 == 3;
            lost += u64::from(loses);
            loses
        });
        assert!(arrived == packets, "{parity} over {paths}: {} arrived", arrived.len());
        assert_eq!((sender.stats().requests, sender.stats().retransmitted, lost), (0, 0, 500), "{parity} over {paths}");
        assert_eq!((receiver.stats().rebuilt, sender.stats().parity), (500, 500), "{parity} over {paths}");
    }
}

#[test]
fn where_more_is_lost_than_a_row_mends_it_is_asked_for_until_there_are_as_many_rows() {
    let packets = packets(8000);
    let mut asked = Vec::new();
    for parity in Parity::ALL {
        let config = config(|c| {
            c.parity = *parity;
            c.parity_residual = 1 << 20;
        });
        // Three in a row of each of 900 blocks.
        let lose = |header: &Header| {
            let place = header.seq.0.wrapping_add(51);
            header.kind == Kind::Data && place < 7200 && (3..6).contains(&(place % 8))
        };
        let (arrived, sender, receiver) = carry(&config, 4, &packets, lose);
        assert!(arrived == packets, "{parity}: {} arrived", arrived.len());
        asked.push((sender.stats().retransmitted, receiver.stats().rebuilt));
    }
    // When two of three repeats are there the row rebuilds the third.
    assert_eq!((asked[0], asked[1].0), ((2700, 0), 2700), "one row does not mend three losses");
    assert!((1..600).contains(&asked[2].0) && asked[2].1 > 2100, "rows follow what is lost: {asked:?}");
}

#[test]
fn where_nothing_is_lost_parity_ends_and_a_packet_alone_goes_twice_while_it_lasts() {
    let (one, many) = (packets(1), packets(4000));
    let config = config(|c| c.parity_residual = 100);
    // On one path; a row by a shorter one may be there before a packet, and rebuild that.
    let (_, sender, receiver) = carry(&config, 1, &many, |_| false);
    assert_eq!((sender.stats().parity, sender.stats().retransmitted), (100, 0), "a row with each of a hundred blocks");
    assert_eq!(receiver.stats().rebuilt, 0);
    let (arrived, sender, receiver) = carry(&config, 2, &one, |header| header.kind == Kind::Data);
    assert!(arrived == one);
    assert_eq!((sender.stats().parity, receiver.stats().rebuilt, sender.stats().timeouts), (1, 1, 0));
}

/// A row that says to cover `count` packets from `seq` on.
fn row(seq: u32, count: u8, number: u8) -> Header {
    Header {
        kind: Kind::Parity,
        restart: 0,
        path: ChannelId(0),
        seq: Seq(seq),
        sent: Time::from_nanos(1000),
        held: Span::ZERO,
        received: Time::ZERO,
        rtt: Span::ZERO,
        stream: 0,
        opening: true,
        missing: (Seq(0), 0),
        covers: count,
        row: number,
    }
}

#[test]
fn rows_of_no_block_are_named_and_fill_bounded_memory() {
    let config = config(|_| ());
    let mut receiver: Receiver<Load> = Receiver::new(&config, 2, Seq(0));
    let (now, path) = (Time::from_nanos(2000), ChannelId(0));
    let six = [0, 4, 0, 0, 0, 9];
    let middle = Header { opening: false, ..row(0, 1, 0) };
    assert_eq!(receiver.handle_parity(now, path, &middle, &six), Err(Dropped::Stream), "the beginning was missed");
    let begin = Header { kind: Kind::Data, covers: 0, ..row(0, 0, 0) };
    assert_eq!(receiver.handle_packet(now, path, &begin, vec![0; 4]), Ok(()));
    let mut give = |header: &Header, octets: &[u8]| receiver.handle_parity(now, path, header, octets);
    assert_eq!(give(&row(0, 1, 0), &six), Err(Dropped::Old), "of what was delivered");
    assert_eq!(give(&row(u32::MAX - 9, 5, 0), &six), Err(Dropped::Old));
    assert_eq!(give(&row(1, 0, 0), &six), Err(Dropped::Parity), "of no packet");
    assert_eq!(give(&row(1, 65, 0), &six), Err(Dropped::Parity), "of too many");
    assert_eq!(give(&row(1, 4, 16), &six), Err(Dropped::Parity), "the seventeenth row");
    assert_eq!(give(&row(1, 4, 0), &[0]), Err(Dropped::Parity), "shorter than a length");
    assert_eq!(give(&row(1, 4, 0), &[0; 195]), Err(Dropped::Parity), "longer than a packet");
    assert_eq!(give(&row(5_000_000, 4, 0), &six), Err(Dropped::Beyond), "never sent");
    assert_eq!(give(&row(1, 4, 0), &six), Ok(()));
    assert_eq!(give(&row(1, 4, 0), &six), Err(Dropped::Parity), "twice");
    assert_eq!(give(&row(1, 5, 1), &six), Err(Dropped::Parity), "of another size");
    // Two hundred thousand rows of blocks that nobody sends: 64 blocks of 16 rows of 194 octets are kept.
    let mut rng = Rng::new(1);
    let flood = allocation_counter::measure(|| {
        for _ in 0..200_000 {
            let header = row(2 + rng.below(100_000) as u32, 2 + rng.below(63) as u8, rng.below(16) as u8);
            let _ = give(&header, &[1; 194]);
        }
    });
    assert!(flood.bytes_max < 64 * 16 * 400, "{} bytes", flood.bytes_max);
    assert!(receiver.held() == 0 && receiver.poll_deliver().is_some() && receiver.poll_deliver().is_none());
    let mut without: Receiver<u64> = Receiver::new(&Config::default(), 2, Seq(0));
    assert_eq!(without.handle_parity(now, path, &row(0, 1, 0), &six), Err(Dropped::Kind), "without the option");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_lost_all_arrives_once_in_order(
        paths in 1_usize..5, loss in 0_u64..300, burst in 1_u64..20, options in any::<[u8; 6]>(), seed in any::<u64>(),
    ) {
        let config = config(|c| {
            c.repair = Repair::ALL[usize::from(options[0] % 2)];
            c.parity = Parity::ALL[1 + usize::from(options[1] % 2)];
            c.trigger = Trigger::ALL[usize::from(options[2] % 3)];
            c.probes = options[3] % 2 == 0;
            c.parity_packets = 1 + u32::from(options[4] % 64);
            c.parity_residual = 1 << (options[5] % 11);
            (c.timeout_initial, c.timeout_min, c.timeout_max) = (MICRO(1000), MICRO(200), MICRO(2000));
            c.give_up = 100;
        });
        let packets = packets(600);
        let (mut rng, mut left) = (Rng::new(seed), vec![0; paths]);
        let (arrived, _, receiver) = carry(&config, paths, &packets, |header| {
            let left = &mut left[header.path.index()];
            if *left == 0 && rng.below(1000 * burst) < loss {
                *left = 1 + rng.below(2 * burst);
            }
            *left = u64::saturating_sub(*left, 1);
            *left > 0
        });
        prop_assert!(arrived == packets);
        prop_assert_eq!(receiver.stats().delivered, 600);
    }
}
