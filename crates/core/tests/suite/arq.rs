//! EFL-MP's two ends: Figures 5 to 8, random networks of FIFO paths against what was sent, and peers that lie.

use fairspan_core::arq::{AckError, Config, Header, Kind, OPTIONS, Receiver, Repair, Sender, Seq, Striping, Trigger};
use fairspan_core::options::Words;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, ChannelId, Span, Time};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const SIZE: Bytes = Bytes::new(192);

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    config.segment = SIZE;
    change(&mut config);
    config
}

fn data(seq: u32, restart: u8, sent: u64) -> Header {
    Header {
        kind: Kind::Data,
        restart,
        path: ChannelId(0),
        seq: Seq(seq),
        sent: Time::from_nanos(sent),
        held: Span::ZERO,
        received: Time::ZERO,
        rtt: Span::ZERO,
        stream: 0,
        opening: true,
        missing: (Seq(0), 0),
        covers: 0,
        row: 0,
    }
}

/// Gives packets `(number, path)` to a receiver, one a microsecond; what is delivered and asked for after each, as a text.
fn trace(receiver: &mut Receiver<u32>, packets: &[(u32, u8)]) -> Vec<String> {
    let mut told = Vec::new();
    for (time, &(seq, path)) in packets.iter().enumerate() {
        let now = Time::from_nanos(1000 * time as u64);
        let _ = receiver.handle_packet(now, ChannelId(path), &data(seq, 0, 0), seq);
        let mut line = format!("{seq}:");
        while let Some(packet) = receiver.poll_deliver() {
            line += &format!(" {packet}");
        }
        while let Some(ack) = receiver.poll_ack(now) {
            if ack.kind == Kind::Request {
                line += &format!(" request {}", ack.seq.0);
            }
        }
        told.push(format!("{line} ({} held)", receiver.held()));
    }
    told
}

#[test]
fn figure_5_packets_of_the_faster_path_wait_for_those_of_the_slower_and_nothing_is_asked_for() {
    // Path 1 (here 0) is two packets ahead of path 2 (here 1).
    let mut receiver = Receiver::new(&Config::default(), 2, Seq(1));
    let told = trace(&mut receiver, &[(1, 0), (3, 0), (5, 0), (2, 1), (7, 0), (4, 1), (9, 0), (6, 1)]);
    let expected = [
        "1: 1 (0 held)",
        "3: (1 held)",
        "5: (2 held)",
        "2: 2 3 (1 held)",
        "7: (2 held)",
        "4: 4 5 (1 held)",
        "9: (2 held)",
        "6: 6 7 (1 held)",
    ];
    assert_eq!(told, expected);
}

#[test]
fn figure_6_a_loss_fills_both_buffers_and_is_asked_for_when_the_lossy_path_brings_its_next() {
    let mut receiver = Receiver::new(&Config::default(), 2, Seq(1));
    // 4, on path 2, is lost.
    let told = trace(&mut receiver, &[(1, 0), (3, 0), (2, 1), (5, 0), (7, 0), (6, 1), (9, 0)]);
    let expected = [
        "1: 1 (0 held)",
        "3: (1 held)",
        "2: 2 3 (0 held)",
        "5: (1 held)",
        "7: (2 held)",
        "6: request 3 (3 held)",
        "9: request 3 (4 held)",
    ];
    assert_eq!(told, expected);
    // Go-back-N begins anew: the buffers are emptied, and what is still under way from before is discarded.
    let now = Time::from_millis(1);
    assert_eq!(receiver.handle_packet(now, ChannelId(0), &data(4, 1, 0), 4), Ok(()));
    assert_eq!(receiver.held(), 0);
    assert!(receiver.handle_packet(now, ChannelId(1), &data(8, 0, 0), 8).is_err());
    assert_eq!((receiver.poll_deliver(), receiver.next()), (Some(4), Seq(5)));
}

#[test]
fn a_full_buffer_asks_at_once_and_the_timer_trigger_never() {
    for (trigger, requests) in [(Trigger::Published, 2), (Trigger::Timer, 0)] {
        let config = config(|c| {
            c.reorder_packets = 3;
            c.trigger = trigger;
        });
        let mut receiver = Receiver::new(&config, 2, Seq(0));
        let told = trace(&mut receiver, &[(2, 0), (4, 0), (6, 0), (8, 0)]);
        assert_eq!(told.iter().filter(|line| line.contains("request")).count(), requests, "{trigger}: {told:?}");
        assert_eq!((receiver.held(), receiver.stats().full), (3, 1));
    }
}

#[test]
fn without_reorder_buffers_only_what_is_next_is_taken() {
    let mut receiver = Receiver::new(&config(|c| c.reorder_packets = 0), 2, Seq(0));
    let told = trace(&mut receiver, &[(0, 0), (1, 1), (3, 1), (2, 0)]);
    assert_eq!(told, ["0: 0 (0 held)", "1: 1 (0 held)", "3: request 1 (0 held)", "2: 2 (0 held)"]);
}

/// Figure 8, as it is printed, with the erratum that heads which were delivered are discarded.
struct Figure8 {
    queue: VecDeque<u32>,
    next: u32,
}

impl Figure8 {
    /// What is delivered; the number of a duplicate ACK that goes at once, or none where the ACK is delayed.
    fn receive(&mut self, seq: u32) -> (Vec<u32>, Option<u32>) {
        self.queue.push_back(seq);
        let mut picked = Vec::new();
        while self.queue.front() == Some(&self.next) {
            picked.extend(self.queue.pop_front());
            self.next = self.next.wrapping_add(1);
        }
        let immediate = picked.is_empty().then(|| self.next.wrapping_sub(1));
        while self.queue.front().is_some_and(|head| (head.wrapping_sub(self.next) as i32) < 0) {
            self.queue.pop_front();
        }
        (picked, immediate)
    }
}

proptest! {
    #[test]
    fn with_one_path_the_receiver_is_tcps_duplicate_ack_receiver(
        first in any::<u32>(), steps in proptest::collection::vec((0_u32..6, 0_u32..8), 1..300),
    ) {
        let mut receiver = Receiver::new(&config(|c| c.reorder_packets = 10_000), 1, Seq(first));
        let mut model = Figure8 { queue: VecDeque::new(), next: first };
        let (mut sent, mut now) = (first, Time::ZERO);
        for (skip, back) in steps {
            // Numbers grow with gaps, and now and then go back.
            sent = if back == 0 { model.next } else { sent.wrapping_add(u32::from(skip == 0) + u32::from(back > 1)) };
            now += Span::from_micros(1);
            let _ = receiver.handle_packet(now, ChannelId(0), &data(sent, 0, 0), sent);
            let picked: Vec<u32> = std::iter::from_fn(|| receiver.poll_deliver()).collect();
            let acks: Vec<Header> = std::iter::from_fn(|| receiver.poll_ack(now)).collect();
            let (expected, immediate) = model.receive(sent);
            prop_assert_eq!(&picked, &expected);
            prop_assert_eq!(receiver.next(), Seq(model.next));
            match immediate {
                Some(last) => prop_assert!(acks.iter().any(|ack| ack.seq == Seq(last)), "a duplicate ACK at once"),
                None => prop_assert!(receiver.poll_timeout().is_some() || !acks.is_empty(), "a delayed ACK"),
            }
            prop_assert!(immediate.is_some() || acks.iter().all(|ack| ack.kind == Kind::Ack), "a request after progress");
        }
    }
}

/// A frame on its way: when it arrives, and what it is.
type Frame = (Time, Header, u32);

/// FIFO paths with delays that differ and wander, and losses both ways.
struct Network {
    there: Vec<VecDeque<Frame>>,
    back: Vec<VecDeque<Frame>>,
    delay: Vec<u64>,
    loss: u64,
    jitter: u64,
    rng: Rng,
}

impl Network {
    fn new(paths: usize, loss: u64, seed: u64) -> Network {
        let mut rng = Rng::new(seed);
        let delay = (0..paths).map(|_| 2_000 + rng.below(20_000)).collect();
        let lanes = || (0..paths).map(|_| VecDeque::new()).collect();
        Network { there: lanes(), back: lanes(), delay, loss, jitter: 3_000, rng }
    }

    fn send(&mut self, now: Time, back: bool, header: Header, packet: u32) {
        if self.rng.below(1000) < self.loss {
            return;
        }
        let path = header.path.index();
        let at = now + Span::from_nanos(self.delay[path] + self.rng.below(self.jitter));
        let lane = if back { &mut self.back[path] } else { &mut self.there[path] };
        let at = lane.back().map_or(at, |last| at.max(last.0));
        lane.push_back((at, header, packet));
    }

    fn next(&self) -> Option<Time> {
        self.there.iter().chain(&self.back).filter_map(|lane| Some(lane.front()?.0)).min()
    }
}

/// Sends `count` packets over a network; gives what arrived and both ends.
fn transfer(
    config: &Config,
    paths: usize,
    count: u32,
    first: u32,
    network: &mut Network,
) -> (Vec<u32>, Sender<u32>, Receiver<u32>) {
    let mut sender = Sender::new(config, paths, Seq(first));
    let mut receiver = Receiver::new(config, paths, Seq(first));
    let (mut arrived, mut now, mut given) = (Vec::new(), Time::ZERO, 0);
    while arrived.len() < count as usize {
        while given < count && sender.handle_packet(given, SIZE).is_ok() {
            given += 1;
        }
        while let Some(transmit) = sender.poll_transmit(now) {
            let packet = *transmit.packet().expect("no parity");
            network.send(now, false, transmit.header, packet);
        }
        while let Some(ack) = receiver.poll_ack(now) {
            network.send(now, true, ack, 0);
        }
        let times = [network.next(), sender.poll_timeout(), receiver.poll_timeout()];
        let Some(time) = times.into_iter().flatten().min() else { break };
        now = now.max(time);
        for path in 0..paths {
            while let Some(&(at, header, packet)) = network.there[path].front()
                && at <= now
            {
                network.there[path].pop_front();
                let _ = receiver.handle_packet(now, ChannelId(path as u8), &header, packet);
            }
            while let Some(&(at, ack, _)) = network.back[path].front()
                && at <= now
            {
                network.back[path].pop_front();
                sender.handle_ack(now, &ack).expect("an honest acknowledgment");
            }
        }
        arrived.extend(std::iter::from_fn(|| receiver.poll_deliver()));
        sender.handle_timeout(now);
        assert!(receiver.held() <= (paths + 1) * paths * config.reorder_packets, "bounded");
        assert!(sender.held() <= config.retransmission_packets, "bounded");
        if sender.failed().is_some() {
            break;
        }
    }
    (arrived, sender, receiver)
}

#[test]
fn everything_arrives_once_and_in_order_whatever_is_lost_across_the_wrap() {
    let mut rng = Rng::new(12);
    for round in 0..160_u64 {
        let config = config(|c| {
            c.repair = Repair::ALL[rng.below(2) as usize];
            c.striping = Striping::ALL[rng.below(2) as usize];
            c.trigger = Trigger::ALL[usize::from(rng.below(4) == 0)];
            c.reorder_packets = rng.below(60) as usize;
            c.retransmission_packets = 1 + rng.below(400) as usize;
            c.ack_packets = 1 + rng.below(8) as u32;
            c.timeout_min = Span::from_micros(200);
            c.give_up = 60;
        });
        let paths = 1 + rng.below(6) as usize;
        let loss = [0, 1, 10, 100][rng.below(4) as usize];
        let mut network = Network::new(paths, loss, round);
        let (arrived, sender, receiver) = transfer(&config, paths, 1000, u32::MAX - 500, &mut network);
        let ends = (sender.failed(), sender.stats(), receiver.stats());
        assert!(arrived.iter().copied().eq(0..1000), "round {round}: {} arrived, {config:?}, {ends:?}", arrived.len());
        assert_eq!(receiver.stats().delivered, 1000, "round {round}");
        if loss == 0 && config.reorder_packets >= config.retransmission_packets {
            assert_eq!(sender.stats().timeouts, 0, "round {round}");
        }
    }
}

#[test]
fn a_gap_restarts_go_back_n_once_and_selective_repair_sends_what_is_missing_alone() {
    for repair in [Repair::GoBackN, Repair::Selective] {
        let config = config(|c| {
            c.repair = repair;
            c.reorder_packets = 1000;
        });
        let mut sender = Sender::new(&config, 2, Seq(0));
        let mut receiver = Receiver::new(&config, 2, Seq(0));
        (0..9_u32).for_each(|n| sender.handle_packet(n, SIZE).expect("room"));
        let mut now = Time::from_nanos(1);
        let lose = |sender: &mut Sender<u32>, receiver: &mut Receiver<u32>, now: Time| {
            let mut sent = Vec::new();
            while let Some(transmit) = sender.poll_transmit(now) {
                let (header, packet, path) = (transmit.header, *transmit.packet().expect("no parity"), transmit.path);
                sent.push(header.seq.0);
                // 3 is lost the first time.
                if header.seq != Seq(3) || header.kind == Kind::Repeat || header.restart > 0 {
                    let _ = receiver.handle_packet(now + Span::from_micros(10), path, &header, packet);
                }
            }
            sent
        };
        assert_eq!(lose(&mut sender, &mut receiver, now), (0..9).collect::<Vec<u32>>());
        now += Span::from_micros(20);
        let acks: Vec<Header> = std::iter::from_fn(|| receiver.poll_ack(now)).collect();
        assert!(
            acks.iter().filter(|ack| ack.kind == Kind::Request).count() > 1,
            "Figure 7 asks again and again: {acks:?}"
        );
        for ack in &acks {
            sender.handle_ack(now, ack).expect("honest");
        }
        now += Span::from_millis(1);
        let sent: BTreeSet<u32> =
            (0..20).flat_map(|n| lose(&mut sender, &mut receiver, now + Span::from_micros(n))).collect();
        let expected: BTreeSet<u32> = if repair == Repair::GoBackN { (3..9).collect() } else { [3].into() };
        assert_eq!(sent, expected, "{repair}");
        assert_eq!(sender.stats().restarts, u64::from(repair == Repair::GoBackN));
        assert!(std::iter::from_fn(|| receiver.poll_deliver()).eq(0..9), "{repair}");
    }
}

#[test]
fn acknowledgments_that_lie_are_named_and_change_nothing() {
    let mut sender = Sender::new(&Config::default(), 2, Seq(u32::MAX));
    (0..4_u32).for_each(|n| sender.handle_packet(n, SIZE).expect("room"));
    let now = Time::from_nanos(5_000);
    while sender.poll_transmit(now).is_some() {}
    let in_flight = sender.in_flight();
    let ack =
        |seq: u32, sent: u64, held: u64| Header { kind: Kind::Ack, held: Span::from_nanos(held), ..data(seq, 0, sent) };
    let later = Time::from_nanos(40_000);
    let never = sender.handle_ack(later, &ack(3, 5_000, 0));
    assert_eq!(never, Err(AckError::NeverSent { seq: Seq(3), next: Seq(3) }));
    assert_eq!(sender.handle_ack(later, &data(0, 0, 5_000)), Err(AckError::Kind { kind: Kind::Data }));
    // TXTS of the future, and one that was held for longer than it is old.
    for (sent, held) in [(50_000, 0), (5_000, 36_000)] {
        let wrong = sender.handle_ack(later, &ack(u32::MAX - 1, sent, held));
        assert_eq!(wrong, Err(AckError::Timestamp { path: ChannelId(0), sent: Time::from_nanos(sent) }));
    }
    // A path that there is not.
    let elsewhere = Header { path: ChannelId(9), ..ack(u32::MAX - 1, 5_000, 0) };
    assert!(matches!(sender.handle_ack(later, &elsewhere), Err(AckError::Timestamp { .. })));
    // A request by who has not seen the restart, or has seen one that was none.
    let request = Header { kind: Kind::Request, restart: 9, ..ack(u32::MAX - 1, 4_000, 0) };
    assert_eq!(sender.handle_ack(later, &request), Ok(()));
    assert_eq!((sender.in_flight(), sender.held(), sender.unsent()), (in_flight, 4, 0));
    let stats = sender.stats();
    assert_eq!((stats.never_sent, stats.false_timestamps, stats.restarts), (1, 3, 0));
    // Old ones are counted and move nothing.
    assert_eq!(sender.handle_ack(later, &ack(u32::MAX, 5_000, 0)), Ok(()));
    assert_eq!(sender.handle_ack(later, &ack(u32::MAX - 7, 5_000, 0)), Ok(()));
    assert_eq!((sender.first(), sender.stats().old), (Seq(0), 1));
}

#[test]
fn who_never_acknowledges_fills_a_bounded_buffer_and_ends_with_a_named_error() {
    let config = config(|c| {
        c.retransmission_packets = 100;
        c.give_up = 5;
    });
    let mut sender = Sender::new(&config, 3, Seq(7));
    let (mut now, mut taken, mut sent) = (Time::ZERO, 0_u32, 0);
    while let Some(at) = {
        while sender.handle_packet(taken, SIZE).is_ok() {
            taken += 1;
        }
        while sender.poll_transmit(now).is_some() {
            sent += 1;
        }
        sender.poll_timeout()
    } {
        now = now.max(at);
        sender.handle_timeout(now);
    }
    assert_eq!(taken, 100);
    let failed = sender.failed().expect("it has ended");
    assert_eq!((failed.first, failed.timeouts), (Seq(7), 5));
    assert!(failed.to_string().contains("packet 7"), "{failed}");
    assert!(sent < 6 * 100, "{sent} packets sent to nobody");
    assert!(!sender.wants_packet() && sender.handle_packet(0, SIZE).is_err());
}

#[test]
fn numbers_beyond_every_buffer_wrong_paths_and_random_frames_do_no_harm() {
    let mut rng = Rng::new(3);
    let config = config(|c| c.repair = Repair::Selective);
    let mut receiver: Receiver<u32> = Receiver::new(&config, 3, Seq(0));
    let mut sender: Sender<u32> = Sender::new(&config, 3, Seq(0));
    let mut now = Time::ZERO;
    for n in 0..20_000_u32 {
        now += Span::from_nanos(rng.below(500));
        let mut bytes: Vec<u8> = (0..Header::REQUEST_LENGTH).map(|_| rng.next_u64() as u8).collect();
        bytes[0] = 1 + rng.below(4) as u8;
        bytes[1] = rng.below(3) as u8;
        (bytes[2], bytes[3]) = (rng.below(4) as u8, 1);
        bytes[32..36].copy_from_slice(&(u32::from(rng.below(50) == 0) << 31).to_be_bytes());
        if rng.below(8) > 0 {
            bytes[4..6].fill(0);
            bytes[8..14].fill(0);
        }
        let header = Header::decode(&bytes).expect("a header");
        let _ = receiver.handle_packet(now, header.path, &header, n);
        while receiver.poll_deliver().is_some() {}
        while receiver.poll_ack(now).is_some() {}
        assert!(receiver.held() <= 2 * 3 * config.reorder_packets);
        let _ = sender.handle_packet(n, SIZE);
        let _ = sender.handle_ack(now, &header);
        while sender.poll_transmit(now).is_some() {}
        sender.handle_timeout(now);
        assert!(sender.held() <= config.retransmission_packets);
    }
    let stats = receiver.stats();
    assert!(stats.bad > 0 && stats.full > 0 && stats.outdated > 0, "{stats:?}");
}

#[test]
fn a_run_of_losses_is_asked_for_whole_and_a_lost_repeat_again() {
    let config = config(|c| {
        c.repair = Repair::Selective;
        c.reorder_packets = 10_000;
    });
    let mut network = Network { jitter: 100, ..Network::new(4, 0, 5) };
    let mut sender: Sender<u32> = Sender::new(&config, 4, Seq(0));
    let mut receiver: Receiver<u32> = Receiver::new(&config, 4, Seq(0));
    let (mut now, mut arrived, mut lost_repeats) = (Time::ZERO, 0, 0);
    let mut given = 0;
    while arrived < 8000 {
        while given < 8000 && sender.handle_packet(given, SIZE).is_ok() {
            given += 1;
        }
        while let Some(transmit) = sender.poll_transmit(now) {
            let (header, packet) = (transmit.header, *transmit.packet().expect("no parity"));
            let repeat = header.kind == Kind::Repeat;
            // A burst is lost, and of the repeats the first five.
            let loses = header.restart == 0 && (1000..1013).contains(&header.seq.0) && (!repeat || lost_repeats < 5);
            lost_repeats += u32::from(loses && repeat);
            if !loses {
                network.send(now, false, header, packet);
            }
        }
        while let Some(ack) = receiver.poll_ack(now) {
            network.send(now, true, ack, 0);
        }
        let times = [network.next(), sender.poll_timeout(), receiver.poll_timeout()];
        let at = times.into_iter().flatten().min();
        let ends = || format!("{arrived} arrived, {sender:?}, {receiver:?}");
        now = now.max(at.unwrap_or_else(|| panic!("something is to be done: {}", ends())));
        for path in 0..4 {
            while network.there[path].front().is_some_and(|frame| frame.0 <= now) {
                let (_, header, packet) = network.there[path].pop_front().expect("it is there");
                let _ = receiver.handle_packet(now, ChannelId(path as u8), &header, packet);
            }
            while network.back[path].front().is_some_and(|frame| frame.0 <= now) {
                let (_, ack, _) = network.back[path].pop_front().expect("it is there");
                sender.handle_ack(now, &ack).expect("honest");
            }
        }
        while let Some(packet) = receiver.poll_deliver() {
            assert_eq!(packet, arrived);
            arrived += 1;
        }
        sender.handle_timeout(now);
    }
    assert_eq!(
        (lost_repeats, sender.stats().timeouts, sender.stats().restarts),
        (5, 0, 0),
        "{:?} {:?} {:?} {now:?}",
        sender.stats(),
        receiver.stats(),
        network.delay
    );
    assert_eq!((sender.stats().retransmitted, receiver.stats().full), (13 + 5, 0));
}

#[test]
fn in_steady_state_no_packet_allocates() {
    for repair in [Repair::GoBackN, Repair::Selective] {
        let config = config(|c| {
            c.repair = repair;
            c.striping = Striping::Srr;
            c.retransmission_packets = 500;
        });
        let mut sender: Sender<u32> = Sender::new(&config, 4, Seq(0));
        let mut receiver: Receiver<u32> = Receiver::new(&config, 4, Seq(0));
        let (mut now, mut number, mut delivered) = (Time::from_nanos(1), 0_u32, 0_u64);
        let mut frames: VecDeque<Frame> = VecDeque::with_capacity(4096);
        let mut steps = |count: u32, delivered: &mut u64| {
            for _ in 0..count {
                now += Span::from_nanos(100);
                while sender.handle_packet(number, SIZE).is_ok() {
                    number += 1;
                }
                while let Some(transmit) = sender.poll_transmit(now) {
                    let at = now + Span::from_micros(5);
                    // Every thousandth is lost.
                    if frames.len() < 4096 && !transmit.header.sent.as_nanos().is_multiple_of(1000) {
                        let (header, packet) = (transmit.header, *transmit.packet().expect("no parity"));
                        frames.push_back((at, header, packet));
                    }
                }
                while let Some(&(at, header, packet)) = frames.front()
                    && at <= now
                {
                    frames.pop_front();
                    let _ = receiver.handle_packet(now, header.path, &header, packet);
                }
                while let Some(ack) = receiver.poll_ack(now) {
                    let _ = sender.handle_ack(now, &ack);
                }
                while receiver.poll_deliver().is_some() {
                    *delivered += 1;
                }
                sender.handle_timeout(now);
            }
        };
        steps(200_000, &mut delivered);
        let before = delivered;
        let counted = allocation_counter::measure(|| steps(50_000, &mut delivered));
        assert!(delivered > before + 1000, "{repair}: {}", delivered - before);
        assert_eq!(counted.count_total, 0, "{repair}");
    }
}

#[test]
fn every_option_has_a_default_within_its_range_and_is_written_as_it_is_read() {
    let mut config = Config::default();
    assert_eq!(OPTIONS.out_of_range(&config), None);
    for entry in OPTIONS.iter() {
        let value = entry.get(&config);
        let text = entry.spec.show(&value);
        let again = entry.spec.parse(&text, fairspan_core::options::Dialect::Plain).expect("what is shown is read");
        assert_eq!(again, value, "{}", entry.spec.name);
        entry.set(&mut config, again);
    }
    assert_eq!(config, Config::default());
}
