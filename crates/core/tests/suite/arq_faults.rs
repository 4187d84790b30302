//! EFL-MP's two ends over paths that corrupt, duplicate, reorder and replay frames, die and return, between ends that begin
//! anew: what is above gets the stream exactly, or there is a named error.

use fairspan_core::arq::{
    AckError, Config, Content, Dropped, Header, Kind, Parity, Receiver, Repair, Sender, Seq, Striping, Trigger,
};
use fairspan_core::options::Words;
use fairspan_core::ring::checksum::Crc32c;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, ChannelId, Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SIZE: Bytes = Bytes::new(192);
/// Header, packet or row, and the FCS that Ethernet puts behind them.
const LONGEST: usize = Header::REQUEST_LENGTH + 10 + 4;
const MICRO: fn(u64) -> Span = Span::from_micros;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Frame {
    fn new(header: &Header, content: &[u8]) -> Frame {
        let mut head = [0; Header::REQUEST_LENGTH];
        let start = header.encode(&mut head);
        let length = start + content.len();
        let mut bytes = [0; LONGEST];
        bytes[..start].copy_from_slice(&head[..start]);
        bytes[start..length].copy_from_slice(content);
        let sum = Crc32c::new().with(&bytes[..length]).sum();
        bytes[length..length + 4].copy_from_slice(&sum.to_be_bytes());
        Frame { bytes, length: length + 4 }
    }

    /// What a receiving card makes of it: nothing where the FCS is wrong.
    fn read(&self) -> Option<(Header, &[u8])> {
        let (content, fcs) = self.bytes[..self.length].split_at_checked(self.length.checked_sub(4)?)?;
        if Crc32c::new().with(content).sum().to_be_bytes() != fcs {
            return None;
        }
        let header = Header::decode(content).ok()?;
        let start = if header.kind == Kind::Parity { Header::PARITY_LENGTH } else { Header::LENGTH };
        Some((header, content.get(start..)?))
    }
}

/// How often, of 10,000 frames.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    lost: u64,
    corrupted: u64,
    duplicated: u64,
    reordered: u64,
    replayed: u64,
}

/// What is under way on a path: when it arrives, and its number.
type Lane = BinaryHeap<Reverse<(Time, u64, Frame)>>;

/// Two ends and what is between them.
struct Pair {
    config: Config,
    sender: Sender<u64>,
    receiver: Receiver<u64>,
    /// By direction and path: what arrives when.
    lanes: [Vec<Lane>; 2],
    delay: Vec<Span>,
    /// How long a path takes for each packet, and from when on it is free.
    takes: Span,
    free: Vec<Time>,
    faults: Faults,
    /// Frames with this number are lost the first time.
    loses: Option<Seq>,
    /// This path carries nothing between these times.
    dead: Option<(usize, Time, Time)>,
    seen: Vec<Frame>,
    rng: Rng,
    now: Time,
    frames: u64,
    /// Of the receiver that is: the next packet's number, and which start of the sender it is of.
    expected: u64,
    start: Option<u64>,
    last: Time,
    longest_gap: Span,
}

impl Pair {
    fn new(config: Config, delay: &[u64], seed: u64) -> Pair {
        let paths = delay.len();
        let lanes = || (0..paths).map(|_| BinaryHeap::new()).collect();
        Pair {
            sender: Sender::new(&config, paths, Seq(0)).with_stream(1),
            receiver: Receiver::new(&config, paths, Seq(0)),
            lanes: [lanes(), lanes()],
            delay: delay.iter().map(|micros| MICRO(*micros)).collect(),
            config,
            takes: Span::from_nanos(100),
            free: vec![Time::ZERO; paths],
            faults: Faults::default(),
            loses: None,
            dead: None,
            seen: Vec::new(),
            rng: Rng::new(seed),
            now: Time::from_nanos(1_000_000),
            frames: 0,
            expected: 0,
            start: None,
            last: Time::from_nanos(1_000_000),
            longest_gap: Span::ZERO,
        }
    }

    fn happens(&mut self, often: u64) -> bool {
        often > 0 && self.rng.below(10_000) < often
    }

    fn send(&mut self, back: usize, path: usize, frame: Frame) {
        self.frames += 1;
        let Faults { lost, corrupted, duplicated, reordered, replayed } = self.faults;
        let dead = self.dead.is_some_and(|(dead, from, to)| dead == path && (from..to).contains(&self.now));
        if dead || self.happens(lost) {
            return;
        }
        if replayed > 0 {
            // What goes by is kept, and something that went by before comes again.
            let place = self.rng.below(256) as usize;
            if self.seen.len() < 256 {
                self.seen.push(frame);
            } else if self.happens(replayed) {
                let old = self.seen[place];
                self.put(back, path, old);
            } else {
                self.seen[place] = frame;
            }
        }
        let mut frame = frame;
        if self.happens(corrupted) {
            for _ in 0..=self.rng.below(3) {
                let bit = self.rng.below(frame.length as u64 * 8) as usize;
                frame.bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        if self.happens(duplicated) {
            self.put(back, path, frame);
        }
        let late = if self.happens(reordered) { MICRO(1 + self.rng.below(20)) } else { Span::ZERO };
        self.put_late(back, path, frame, late);
    }

    fn put(&mut self, back: usize, path: usize, frame: Frame) {
        self.put_late(back, path, frame, Span::ZERO);
    }

    fn put_late(&mut self, back: usize, path: usize, frame: Frame, late: Span) {
        let mut at = self.now;
        if back == 0 {
            at = at.max(self.free[path]) + self.takes;
            self.free[path] = at;
        }
        let at = at + self.delay[path] + late;
        self.lanes[back][path].push(Reverse((at, self.frames, frame)));
    }

    fn begin_sender_anew(&mut self, start: u64) {
        self.sender = Sender::new(&self.config, self.delay.len(), Seq(0)).with_stream(start as u32);
    }

    fn begin_receiver_anew(&mut self) {
        self.receiver = Receiver::new(&self.config, self.delay.len(), Seq(0));
        (self.expected, self.start) = (0, None);
    }

    /// What is ready to go goes; then the next thing happens. False where nothing is left to happen.
    fn step(&mut self) -> bool {
        let now = self.now;
        while let Some(transmit) = self.sender.poll_transmit(now) {
            let header = transmit.header;
            let frame = match transmit.content {
                Content::Packet(packet) => Frame::new(&header, &packet.to_be_bytes()),
                Content::Parity(row) => Frame::new(&header, row),
            };
            if self.loses == Some(header.seq) {
                self.loses = None;
                continue;
            }
            self.send(0, header.path.index(), frame);
        }
        while let Some(header) = self.receiver.poll_ack(now) {
            self.send(1, header.path.index(), Frame::new(&header, &[]));
        }
        let arrives = self.lanes.iter().flatten().filter_map(|lane| lane.peek().map(|next| next.0.0)).min();
        let times = [arrives, self.sender.poll_timeout(), self.receiver.poll_timeout()];
        let Some(next) = times.into_iter().flatten().min() else { return false };
        self.now = now.max(next);
        for path in 0..self.delay.len() {
            for back in 0..2 {
                while self.lanes[back][path].peek().is_some_and(|next| next.0.0 <= self.now) {
                    let Some(Reverse((_, _, frame))) = self.lanes[back][path].pop() else { break };
                    self.arrive(back, path, &frame);
                }
            }
        }
        self.sender.handle_timeout(self.now);
        true
    }

    fn arrive(&mut self, back: usize, path: usize, frame: &Frame) {
        let Some((header, content)) = frame.read() else { return };
        if back == 1 {
            let _ = self.sender.handle_ack(self.now, &header);
            return;
        }
        let path = ChannelId(path as u8);
        let _ = match header.kind {
            Kind::Parity => self.receiver.handle_parity(self.now, path, &header, content),
            _ => {
                let packet = content.first_chunk().map_or(u64::MAX, |octets| u64::from_be_bytes(*octets));
                self.receiver.handle_packet(self.now, path, &header, packet)
            }
        };
        while let Some(packet) = self.receiver.poll_deliver() {
            let (start, number) = (packet >> 40, packet & ((1 << 40) - 1));
            assert_eq!(number, self.expected, "of start {start}");
            assert_eq!(start, *self.start.get_or_insert(start), "one receiver has packets of one start alone");
            self.expected += 1;
            self.longest_gap = self.longest_gap.max(self.now.since(self.last));
            self.last = self.now;
        }
    }

    /// Sends `count` packets as start `start`. True where all have arrived, false where an end has ended.
    fn transfer(&mut self, start: u64, count: u64, mut each: impl FnMut(&mut Pair, u64)) -> bool {
        let mut given = 0;
        while self.expected < count || self.start != Some(start) {
            while given < count && self.sender.handle_packet(start << 40 | given, SIZE).is_ok() {
                given += 1;
            }
            if !self.step() || self.sender.failed().is_some() || self.receiver.failed().is_some() {
                return false;
            }
            each(self, given);
        }
        true
    }
}

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    config.segment = SIZE;
    config.reorder_packets = 400;
    config.ack_packets = 8;
    config.ack_delay = MICRO(5);
    change(&mut config);
    config
}

/// Settings that differ from round to round.
fn any_config(rng: &mut Rng) -> Config {
    config(|c| {
        c.repair = Repair::ALL[rng.below(2) as usize];
        c.striping = Striping::ALL[rng.below(2) as usize];
        c.trigger = Trigger::ALL[rng.below(3) as usize];
        (c.probes, c.failover) = (rng.below(2) == 0, rng.below(2) == 0);
        c.reorder_packets = 20 + rng.below(400) as usize;
        c.parity = Parity::ALL[rng.below(3) as usize];
        (c.parity_packets, c.parity_wait) = (1 + rng.below(64) as u32, MICRO(1 + rng.below(100)));
        c.parity_residual = 1 << rng.below(12);
        c.timeout_min = MICRO(100);
        c.timeout_max = Span::from_millis(2);
        c.timeout_initial = Span::from_millis(1);
        c.give_up = 30;
    })
}

fn any_faults(rng: &mut Rng) -> Faults {
    let mut one = || [0, 0, 2, 20, 100][rng.below(5) as usize];
    Faults { lost: one(), corrupted: one(), duplicated: one(), reordered: one(), replayed: one() }
}

/// Frames that are sent: what costs some eight seconds, or as many as FAIRSPAN_ARQ_FRAMES says.
fn frames() -> u64 {
    let given = std::env::var("FAIRSPAN_ARQ_FRAMES").ok();
    given.map_or(10_000_000, |text| text.parse().expect("FAIRSPAN_ARQ_FRAMES is a number of frames"))
}

#[test]
fn frames_that_are_damaged_doubled_disordered_or_replayed_change_nothing_in_the_stream() {
    let mut rng = Rng::new(1);
    let (mut sent, mut round, wanted) = (0, 0, frames());
    while sent < wanted {
        round += 1;
        let config = any_config(&mut rng);
        let delay: Vec<u64> = (0..1 + rng.below(5)).map(|_| 2 + rng.below(15)).collect();
        let faults = any_faults(&mut rng);
        let mut pair = Pair { faults, ..Pair::new(config.clone(), &delay, round) };
        let all = pair.transfer(1, 10_000, |_, _| ());
        let told =
            || format!("round {round}, {faults:?}, {config:?}: {:?} {:?}", pair.sender.stats(), pair.receiver.stats());
        assert!(all, "{:?} after {}: {}", pair.sender.failed(), pair.expected, told());
        assert_eq!(pair.receiver.stats().delivered, 10_000, "{}", told());
        sent += pair.frames;
    }
}

#[test]
fn an_end_that_begins_anew_in_midstream_ends_the_other_with_a_named_error() {
    let mut rng = Rng::new(2);
    let (mut replaced, mut silent) = (0, 0);
    for round in 0..60_u64 {
        let config = any_config(&mut rng);
        let mut pair = Pair { faults: any_faults(&mut rng), ..Pair::new(config, &[3, 5, 9], round) };
        let (at, sender) = (500 + rng.below(4000), round % 2 == 0);
        let mut begun = false;
        let all = pair.transfer(1, 10_000, |pair, given| {
            if given >= at && pair.expected > at / 2 && !std::mem::replace(&mut begun, true) {
                if sender {
                    // The application begins again as well.
                    pair.begin_sender_anew(2);
                    (0..5000).for_each(|n| assert!(pair.sender.handle_packet(2 << 40 | n, SIZE).is_ok()));
                } else {
                    pair.begin_receiver_anew();
                }
            }
        });
        assert!(begun && !all, "round {round}: nobody noticed");
        if sender {
            let error = pair.receiver.failed().expect("the receiver has ended").to_string();
            assert!(error.contains("stream 2 has come in place of 1"), "{error}");
            replaced += 1;
        } else {
            let error = pair.sender.failed().expect("the sender has ended").to_string();
            assert!(error.contains("has begun anew"), "{error}");
            silent += 1;
        }
        // Both begin again, while what is left of the old stream still arrives.
        pair.begin_sender_anew(3);
        pair.begin_receiver_anew();
        let mut tries = 0;
        while !pair.transfer(3, 2000, |_, _| ()) {
            // A replayed beginning of an older stream was there first.
            tries += 1;
            assert!(tries < 20, "round {round}: {:?}", pair.receiver.failed());
            pair.begin_sender_anew(3);
            pair.begin_receiver_anew();
        }
    }
    assert_eq!((replaced, silent), (30, 30));
}

#[test]
fn a_frame_of_another_start_of_the_sender_is_named_and_changes_nothing() {
    let config = config(|_| ());
    let mut sender: Sender<u64> = Sender::new(&config, 1, Seq(0)).with_stream(7);
    let mut receiver: Receiver<u64> = Receiver::new(&config, 1, Seq(0));
    let now = Time::from_nanos(1000);
    (0..3).for_each(|n| sender.handle_packet(n, SIZE).expect("room"));
    let headers: Vec<Header> =
        std::iter::from_fn(|| sender.poll_transmit(now).map(|transmit| transmit.header)).collect();
    let path = ChannelId(0);
    // Who has missed the beginning takes nothing; who has it takes nothing of an earlier start.
    let middle = Header { opening: false, ..headers[0] };
    assert_eq!(receiver.handle_packet(now, path, &middle, 0), Err(Dropped::Stream));
    assert_eq!(receiver.handle_packet(now, path, &headers[0], 0), Ok(()));
    let earlier = Header { stream: 6, ..headers[1] };
    assert_eq!(receiver.handle_packet(now, path, &earlier, 1), Err(Dropped::Stream));
    assert_eq!((receiver.failed(), receiver.next(), receiver.stats().other_streams), (None, Seq(1), 2));
    let later = now + Span::from_millis(1);
    let ack = receiver.poll_ack(later).expect("a delayed acknowledgment");
    let other = sender.handle_ack(later, &Header { stream: 8, ..ack });
    assert_eq!(other, Err(AckError::Stream { found: 8, own: 7 }));
    assert_eq!((sender.first(), sender.stats().other_streams), (Seq(0), 1));
    assert_eq!(sender.handle_ack(later, &ack), Ok(()));
    assert_eq!(sender.first(), Seq(1));
    // From now on the beginning is over.
    sender.handle_packet(3, SIZE).expect("room");
    assert_eq!(sender.poll_transmit(later).map(|transmit| transmit.header.opening), Some(false));
}

#[test]
fn what_a_silent_path_keeps_from_the_buffers_is_asked_for_when_it_is_late() {
    for (trigger, asks) in [(Trigger::Published, false), (Trigger::Time, true)] {
        let config = config(|c| c.trigger = trigger);
        let mut receiver: Receiver<u64> = Receiver::new(&config, 3, Seq(0));
        let micros = |n: u64| Time::from_nanos(n * 1000);
        // Path 1 takes 12 us and path 0 takes 10; path 2 brings nothing, so that 2 and 5 are missing.
        let header = |seq: u32, sent: u64| Header {
            kind: Kind::Data,
            restart: 0,
            path: ChannelId(0),
            seq: Seq(seq),
            sent: micros(sent),
            held: Span::ZERO,
            received: Time::ZERO,
            rtt: MICRO(20),
            stream: 0,
            opening: true,
            missing: (Seq(0), 0),
            covers: 0,
            row: 0,
        };
        for (seq, path, sent) in [(0, 0, 100), (1, 1, 101), (3, 0, 103), (4, 1, 104), (6, 0, 106)] {
            let came = micros(sent + if path == 0 { 10 } else { 12 });
            assert!(receiver.handle_packet(came, ChannelId(path), &header(seq, sent), seq.into()).is_ok());
        }
        let now = micros(116);
        let delayed: Vec<Header> = std::iter::from_fn(|| receiver.poll_ack(micros(119))).collect();
        assert!(delayed.iter().all(|ack| ack.kind == Kind::Ack), "{trigger}: {delayed:?}");
        // 3 was sent at 103 us. The slowest path's transit is 12 us, a quarter of the round trip 5 us.
        let due = receiver.poll_timeout();
        assert_eq!(due, asks.then(|| micros(103 + 12 + 5)), "{trigger} at {now:?}");
        let asked: Vec<Header> = std::iter::from_fn(|| receiver.poll_ack(micros(120))).collect();
        assert_eq!(asked.iter().any(|ack| ack.kind == Kind::Request && ack.seq == Seq(1)), asks, "{trigger}");
    }
}

#[test]
fn a_lost_tail_is_mended_by_probes_before_the_timer_runs_out() {
    for repair in Repair::ALL {
        // The last packet but three, on each of the paths in turn, and the last.
        for lost in [96, 97, 98, 99] {
            let run = |probes| {
                let config = config(|c| (c.repair, c.probes) = (*repair, probes));
                let mut pair = Pair { loses: Some(Seq(lost)), ..Pair::new(config, &[10, 10, 12, 14], 1) };
                assert!(pair.transfer(1, 100, |_, _| ()));
                (pair.sender.stats().timeouts, pair.sender.stats().probes, pair.longest_gap)
            };
            let ((timeouts, _, slow), (none, probes, fast)) = (run(false), run(true));
            assert!(timeouts > 0, "{repair} {lost}: without probes the timer alone finds it");
            assert_eq!((none, probes), (0, 4), "{repair} {lost}");
            assert!(fast < MICRO(200) && slow > MICRO(900), "{repair} {lost}: {fast:?} against {slow:?}");
        }
    }
}

#[test]
fn a_path_that_dies_stops_the_stream_for_three_round_trips_at_most_and_is_used_again_when_it_returns() {
    for (repair, striping) in [
        (Repair::GoBackN, Striping::RoundRobin),
        (Repair::GoBackN, Striping::Srr),
        (Repair::Selective, Striping::RoundRobin),
        (Repair::Selective, Striping::Srr),
    ] {
        let config = config(|c| {
            (c.repair, c.striping, c.trigger) = (repair, striping, Trigger::Time);
            (c.failover, c.probes) = (true, true);
        });
        for dead in 0..4 {
            let (from, to) = (Time::from_nanos(3_000_000), Time::from_nanos(6_000_000));
            let mut pair = Pair::new(config.clone(), &[15, 15, 18, 20], 3);
            pair.dead = Some((dead, from, to));
            pair.takes = Span::from_nanos(1500);
            let all = pair.transfer(1, 25_000, |_, _| ());
            let told = format!("{repair} {striping} path {dead}: {:?}, {:?}", pair.longest_gap, pair.sender.stats());
            assert!(all && pair.now > to + Span::from_millis(1), "{told} ended at {:?}", pair.now);
            assert!(pair.sender.stats().downs >= 1 && pair.sender.stats().ups >= 1, "{told}");
            // The slowest path that is left has 40 us or 36, and what its queue takes.
            let slowest = if dead == 3 { MICRO(36) } else { MICRO(40) } + Span::from_nanos(1500);
            assert!(pair.longest_gap <= slowest.times(3), "{told}");
            assert_eq!(pair.sender.stats().timeouts, 0, "{told}");
        }
    }
}
