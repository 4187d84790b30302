//! The paths against a model that keeps every packet in a list and counts anew each time.

use super::*;
use crate::congestion::Algorithm;
use crate::options::Words;
use crate::rng::Rng;
use std::format;

/// A packet that may be under way.
#[derive(Clone, Copy, Debug)]
struct Packet {
    path: usize,
    sent: Time,
    size: u64,
    seq: Seq,
    position: u64,
    parity: bool,
    acked: bool,
}

/// What is known of a path.
#[derive(Clone, Debug)]
struct Path {
    last: Option<Time>,
    rtt: Option<Span>,
    least: Span,
    answered: Option<Time>,
    /// With what answers wait at the receiver, smoothed as RFC 6298 does.
    answer: u64,
    /// When it is knocked at next, and the pause.
    down: Option<(Time, Span)>,
    knocked: bool,
}

/// A law and what it was told.
#[derive(Debug)]
struct Told {
    law: AnyLaw,
    smoothed: u64,
    up_to: u64,
    limited: bool,
}

#[derive(Debug)]
struct Model {
    config: Config,
    packets: Vec<Packet>,
    paths: Vec<Path>,
    laws: Vec<Told>,
    pacer: Pacer,
    position: u64,
    turn: usize,
}

impl Model {
    fn new(config: &Config, paths: usize) -> Model {
        let shared = config.striping == Striping::RoundRobin || paths == 1;
        let segment = config.segment.as_u64() as u32;
        let mut law = congestion::Config::new(config.congestion, segment);
        (law.window.paced, law.window.grow_only_when_limited) = (true, true);
        let told = |_| Told { law: AnyLaw::new(&law), smoothed: 0, up_to: 0, limited: false };
        let path =
            Path { last: None, rtt: None, least: Span::MAX, answered: None, answer: 0, down: None, knocked: false };
        Model {
            config: config.clone(),
            packets: Vec::new(),
            paths: alloc::vec![path; paths],
            laws: (0..if shared { 1 } else { paths }).map(told).collect(),
            pacer: Pacer::new(Rate::from_mbit(1_000_000), Bytes::new(1 << 30)),
            position: 0,
            turn: 0,
        }
    }

    fn law_of(&self, path: usize) -> usize {
        if self.laws.len() == 1 { 0 } else { path }
    }

    fn is_up(&self, path: usize) -> bool {
        self.paths[path].down.is_none()
    }

    fn under_way(&self, path: usize) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.path == path && !packet.acked)
    }

    fn in_flight(&self, law: usize) -> u64 {
        let of_law = self.packets.iter().filter(|packet| !packet.acked && self.law_of(packet.path) == law);
        of_law.map(|packet| packet.size).sum()
    }

    fn hold(&mut self) {
        for law in 0..self.laws.len() {
            let in_flight = self.in_flight(law);
            self.laws[law].limited |= 2 * in_flight >= self.laws[law].law.window().as_u64();
        }
    }

    /// Whose turn it is, with one law, if the window lets a packet of this size go.
    fn select(&mut self, bytes: u64) -> Option<usize> {
        let in_flight = self.in_flight(0);
        if in_flight > 0 && in_flight + bytes > self.laws[0].law.window().as_u64() {
            self.hold();
            return None;
        }
        Some(self.turn)
    }

    fn pass_turn(&mut self) {
        let count = self.paths.len();
        self.turn = (1..=count).map(|n| (self.turn + n) % count).find(|path| self.is_up(*path)).expect("one is up");
    }

    fn on_sent(&mut self, now: Time, path: usize, seq: Seq, size: u64, parity: bool) {
        self.position += 1;
        let (position, law) = (self.position, self.law_of(path));
        let in_flight = Bytes::new(self.in_flight(law));
        self.laws[law].law.on_sent(&Sent { now, bytes: Bytes::new(size), in_flight, end: position });
        self.packets.push(Packet { path, sent: now, size, seq, position, parity, acked: false });
        self.paths[path].last = Some(now);
        self.pacer.on_sent(now, size as usize);
    }

    fn on_ack(&mut self, now: Time, (path, sent): (usize, Time), held: Span, first: Seq) -> Echo {
        let mut gone: Vec<Packet> = Vec::new();
        let echo = if self.paths.get(path).is_none_or(|path| path.last.is_none_or(|last| sent > last))
            || now.since(sent) < held
        {
            Echo::False
        } else {
            let (returned, rest): (Vec<Packet>, Vec<Packet>) =
                self.packets.iter().partition(|packet| packet.path == path && packet.sent <= sent);
            self.packets = rest;
            gone.extend(returned.iter().filter(|packet| !packet.acked));
            if returned.iter().any(|packet| packet.sent == sent) {
                let (rtt, trip) = (now.since(sent) - held, now.since(sent).as_nanos().max(1));
                let path = &mut self.paths[path];
                path.least = path.least.min(rtt);
                (path.rtt, path.answered) = (Some(rtt), Some(sent));
                path.answer = if path.answer == 0 { trip } else { (7 * path.answer + trip) / 8 };
                Echo::Fresh(rtt)
            } else {
                Echo::Stale
            }
        };
        // What is acknowledged counts in the order in which a path sent it: what it sent again is behind what it sent first.
        for path in 0..self.paths.len() {
            let own = self.packets.iter_mut().filter(|packet| packet.path == path && !packet.acked);
            for packet in own.take_while(|packet| packet.seq.ahead_of(first) < 0) {
                packet.acked = true;
                gone.push(*packet);
            }
        }
        for law in 0..self.laws.len() {
            let of_law: Vec<Packet> = gone.iter().filter(|gone| self.law_of(gone.path) == law).copied().collect();
            let Echo::Fresh(rtt) = echo else {
                self.tell(now, law, &of_law, None);
                continue;
            };
            let rtt = if self.laws.len() == 1 { self.longest() } else { Some(rtt).filter(|_| law == path) };
            self.tell(now, law, &of_law, rtt);
        }
        if let Some(rate) = self.rate() {
            self.pacer.set(rate, self.config.segment);
        }
        echo
    }

    fn tell(&mut self, now: Time, law: usize, gone: &[Packet], rtt: Option<Span>) {
        let bytes: u64 = gone.iter().map(|packet| packet.size).sum();
        if bytes == 0 && rtt.is_none() {
            return;
        }
        let in_flight = Bytes::new(self.in_flight(law) + bytes);
        let told = &mut self.laws[law];
        if let Some(rtt) = rtt.map(Span::as_nanos) {
            told.smoothed = if told.smoothed == 0 { rtt } else { (7 * told.smoothed + rtt) / 8 };
        }
        let furthest = gone.iter().map(|packet| packet.position).max().unwrap_or(0);
        told.up_to = told.up_to.max(furthest + 1);
        told.law.on_acked(&Acked {
            now,
            bytes: Bytes::new(bytes),
            in_flight,
            rtt,
            waited: None,
            smoothed_rtt: Span::from_nanos(told.smoothed),
            up_to: told.up_to,
            next: self.position + 1,
            limited: core::mem::take(&mut told.limited),
            recovering: false,
            delivery: None,
        });
    }

    /// The longest of the least round trips, and the longest of the queues, once all in use are known.
    fn longest(&self) -> Option<Span> {
        let used: Vec<&Path> = self.paths.iter().filter(|path| path.last.is_some() && path.down.is_none()).collect();
        let least = used.iter().map(|path| path.least).max()?;
        let queues: Option<Vec<Span>> = used.iter().map(|path| Some(path.rtt? - path.least)).collect();
        Some(least + queues?.into_iter().max()?)
    }

    fn rate(&self) -> Option<Rate> {
        let told = self.laws.iter().enumerate().filter(|(law, _)| self.laws.len() == 1 || self.is_up(*law));
        let rates: Option<Vec<u64>> = told.map(|(_, told)| Some(told.law.pacing_rate()?.as_bits_per_sec())).collect();
        Some(Rate::from_bits_per_sec(rates?.iter().sum()))
    }

    fn congested(&self, now: Time, law: usize, bytes: Option<u64>, begins: bool) -> Congested {
        let in_flight = Bytes::new(self.in_flight(law));
        let bytes = bytes.map_or(in_flight, Bytes::new);
        Congested { now, bytes, in_flight, limit: Bytes::new(u64::MAX), begins, exact: true }
    }

    fn on_timeout(&mut self, now: Time, begins: bool) {
        for law in 0..self.laws.len() {
            let told = self.congested(now, law, None, begins);
            self.laws[law].law.on_timeout(&told);
        }
        self.packets.clear();
    }

    fn on_lost(&mut self, now: Time, bytes: u64, begins: bool) {
        for law in 0..self.laws.len() {
            let told = self.congested(now, law, Some(bytes), begins);
            self.laws[law].law.on_lost(&told);
        }
    }

    fn patience(&self, path: usize) -> Span {
        match self.paths[path].answer {
            0 => self.config.timeout_initial,
            answer => Span::from_nanos(answer / 2 * 3) + self.config.ack_delay,
        }
    }

    fn suspect(&self, path: usize) -> Option<Time> {
        let first = self.under_way(path).next()?.sent;
        let others = (0..self.paths.len()).filter(|other| *other != path && self.is_up(*other));
        let later = others.filter_map(|other| self.paths[other].answered).any(|answered| answered > first);
        (self.is_up(path) && later).then(|| first + self.patience(path))
    }

    fn find_down(&mut self, now: Time) -> Option<usize> {
        if !self.config.failover {
            return None;
        }
        for path in &mut self.paths {
            path.knocked |= path.down.is_some_and(|(knock, _)| knock <= now);
        }
        (0..self.paths.len()).find(|path| self.suspect(*path).is_some_and(|at| at <= now))
    }

    fn timeout(&self) -> Option<Time> {
        let one = |path: usize| match self.paths[path].down {
            Some((knock, _)) => Some(knock).filter(|_| !self.paths[path].knocked),
            None => self.suspect(path),
        };
        (0..self.paths.len()).filter_map(one).min()
    }

    fn take_down(&mut self, now: Time, path: usize) -> Vec<Seq> {
        let pause = self.patience(path);
        self.paths[path].down = Some((now + pause, pause));
        let lost = self.under_way(path).filter(|packet| !packet.parity).map(|packet| packet.seq).collect();
        self.packets.retain(|packet| packet.path != path);
        self.turn = (0..self.paths.len()).find(|path| self.is_up(*path)).expect("one is up");
        lost
    }

    fn on_knocked(&mut self, now: Time, path: usize) {
        let longest = self.patience(path).times(16).min(self.config.timeout_max);
        self.paths[path].knocked = false;
        if let Some((knock, pause)) = &mut self.paths[path].down {
            *pause = pause.times(2).min(longest);
            *knock = now + *pause;
        }
    }

    fn on_answer(&mut self, path: usize) -> bool {
        let was_down = self.paths[path].down.take().is_some();
        if was_down {
            self.paths[path].knocked = false;
            self.turn = (0..self.paths.len()).find(|path| self.is_up(*path)).expect("one is up");
        }
        was_down
    }

    /// All that can be asked.
    fn compare(&self, ways: &Ways) {
        let paths = || (0..self.paths.len()).map(|path| (path, &self.paths[path]));
        for (law, told) in self.laws.iter().enumerate() {
            assert_eq!(ways.laws[law].in_flight, self.in_flight(law), "under way for law {law}");
            assert_eq!(format!("{:?}", ways.laws[law].law), format!("{:?}", told.law), "law {law}");
        }
        let in_flight: u64 = (0..self.laws.len()).map(|law| self.in_flight(law)).sum();
        assert_eq!((ways.in_flight(), ways.rate()), (in_flight, self.rate()));
        assert_eq!(ways.ready_at(), self.pacer.ready_at());
        for (number, path) in paths() {
            assert_eq!(ways.rtt(ChannelId(number as u8)), path.rtt);
        }
        let slowest = paths().filter(|(number, _)| self.is_up(*number)).filter_map(|(_, path)| path.rtt).max();
        assert_eq!(ways.slowest(), slowest.unwrap_or(Span::ZERO));
        let up = paths().filter(|(number, _)| self.is_up(*number)).fold(0, |up, (number, _)| up | 1 << number);
        assert_eq!(ways.up(), up, "which are up");
        let fastest = paths().min_by_key(|(number, path)| (!self.is_up(*number), path.rtt.unwrap_or(Span::MAX)));
        assert_eq!(Some(ways.fastest().index()), fastest.map(|(number, _)| number), "the fastest");
        let load = |path: usize| match self.laws.len() {
            1 => self.under_way(path).count() as u64,
            _ => self.in_flight(path) * PARTS / self.laws[path].law.window().as_u64(),
        };
        let emptiest = (0..self.paths.len()).min_by_key(|path| (!self.is_up(*path), load(*path)));
        assert_eq!(Some(ways.emptiest().index()), emptiest, "the emptiest");
        let knocked = self.paths.iter().position(|path| path.knocked);
        assert_eq!(ways.to_knock().map(ChannelId::index), knocked, "whom to knock at");
        if self.config.failover {
            assert_eq!(ways.timeout(), self.timeout());
        }
    }
}

/// What happens, at random: packets by the path whose turn it is and by others, acknowledgments that are late, false, stale or
/// overtaken, losses, timeouts, and paths that do not answer for a while.
#[test]
fn whatever_happens_to_packets_a_list_of_them_says_the_same() {
    let mut seen = [0; 6];
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let config = Config {
            segment: Bytes::new(1000),
            striping: Striping::ALL[rng.below(2) as usize],
            congestion: [Algorithm::Delay, Algorithm::Reno, Algorithm::Cubic][rng.below(3) as usize],
            failover: rng.below(2) == 0,
            timeout_max: Span::from_micros(500),
            ..Config::default()
        };
        let count = 1 + rng.below(4) as usize;
        let (mut ways, mut model) = (Ways::new(&config, count), Model::new(&config, count));
        let (mut now, mut next, mut first) = (Time::from_millis(1), Seq(u32::MAX - 50), Seq(u32::MAX - 50));
        let mut history: Vec<(usize, Time)> = Vec::new();
        let silent = rng.below(count as u64 + 1) as usize;
        for _ in 0..300 {
            now += Span::from_nanos(rng.below(3) * rng.below(8_000));
            match rng.below(20) {
                0..8 => {
                    let size = 1 + rng.below(1000);
                    let mut path = rng.below(count as u64) as usize;
                    let in_turn = model.laws.len() == 1 && rng.below(3) > 0;
                    if in_turn {
                        let selected = model.select(size);
                        assert_eq!(ways.select(size).map(ChannelId::index), selected, "seed {seed}");
                        let Some(selected) = selected else { continue };
                        path = selected;
                    }
                    let back = rng.below(next.ahead_of(first) as u64 + 1) as u32;
                    let parity = !in_turn && rng.below(4) == 0;
                    let seq = if rng.below(4) == 0 { next.minus(back) } else { next };
                    next = if seq == next { next.plus(1) } else { next };
                    if parity {
                        ways.on_parity(now, ChannelId(path as u8), seq, size);
                    } else {
                        ways.on_sent(now, ChannelId(path as u8), seq, size, in_turn);
                    }
                    model.on_sent(now, path, seq, size, parity);
                    if in_turn {
                        model.pass_turn();
                    }
                    history.push((path, now));
                }
                8..16 if !history.is_empty() => {
                    let recent = history.len() - 1 - rng.below(history.len().min(12) as u64) as usize;
                    let (path, sent) = history[recent];
                    let path = if rng.below(30) == 0 { rng.below(count as u64 + 2) as usize } else { path };
                    if path == silent && rng.below(6) > 0 {
                        continue;
                    }
                    let sent = if rng.below(20) == 0 { sent + Span::from_nanos(rng.below(4_000)) } else { sent };
                    let held = Span::from_nanos([0, 0, now.since(sent).as_nanos(), 1000][rng.below(4) as usize]);
                    first = first.plus(rng.below(next.ahead_of(first) as u64 / 2 + 1) as u32);
                    let echo = model.on_ack(now, (path, sent), held, first);
                    assert_eq!(ways.on_ack(now, (ChannelId(path as u8), sent), held, first), echo, "seed {seed}");
                    if let Echo::Fresh(_) = echo {
                        let was_down = model.on_answer(path);
                        assert_eq!(ways.on_answer(ChannelId(path as u8)), was_down, "seed {seed}");
                        seen[0] += usize::from(was_down);
                    }
                    seen[1 + usize::from(echo == Echo::False) + 2 * usize::from(echo == Echo::Stale)] += 1;
                }
                16 => {
                    let bytes = rng.below(3000);
                    model.on_lost(now, bytes, true);
                    ways.on_lost(now, bytes, true);
                }
                17 if rng.below(6) == 0 => {
                    let begins = rng.below(2) == 0;
                    model.on_timeout(now, begins);
                    ways.on_timeout(now, begins);
                }
                18 => {
                    model.hold();
                    ways.hold();
                }
                _ => {}
            }
            while let Some(path) = model.find_down(now) {
                assert_eq!(ways.find_down(now).map(ChannelId::index), Some(path), "seed {seed}");
                assert_eq!(ways.take_down(now, ChannelId(path as u8)), model.take_down(now, path), "seed {seed}");
                seen[4] += 1;
            }
            assert_eq!(ways.find_down(now), None, "seed {seed}");
            if let Some(path) = ways.to_knock().filter(|_| rng.below(3) == 0) {
                ways.on_knocked(now, path);
                model.on_knocked(now, path.index());
                seen[5] += 1;
            }
            model.compare(&ways);
        }
    }
    assert!(seen.iter().all(|times| *times > 100), "everything has happened often: {seen:?}");
}

fn ways(striping: Striping, paths: usize) -> Ways {
    let mut config = Config::default();
    (config.segment, config.striping, config.failover) = (Bytes::new(1000), striping, true);
    Ways::new(&config, paths)
}

#[test]
fn the_times_of_the_last_4096_acknowledged_packets_are_kept_until_one_of_them_is_returned() {
    let sent = |n: u64| Time::from_nanos(1000 * n);
    for (returned, fresh) in [(1000, false), (1001, true), (5096, true)] {
        let mut ways = ways(Striping::RoundRobin, 2);
        (1..=5096).for_each(|n| ways.on_sent(sent(n), ChannelId(0), Seq(n as u32), 1000, false));
        ways.on_sent(sent(5097), ChannelId(1), Seq(5097), 1000, false);
        let now = sent(6000);
        assert_ne!(ways.on_ack(now, (ChannelId(1), sent(5097)), Span::ZERO, Seq(5097)), Echo::Stale);
        assert_eq!(ways.in_flight(), 0);
        let rtt = now.since(sent(returned));
        let expected = if fresh { Echo::Fresh(rtt) } else { Echo::Stale };
        assert_eq!(ways.on_ack(now, (ChannelId(0), sent(returned)), Span::ZERO, Seq(5098)), expected, "{returned}");
    }
}

/// Fills a path's window.
fn fill(ways: &mut Ways, path: u8) {
    while ways.laws[usize::from(path)].has_room(1000) {
        ways.on_sent(Time::ZERO, ChannelId(path), Seq(0), 1000, false);
    }
}

/// So many packets by turns: the paths that they go by. Those of `endless` have always room.
fn turns(ways: &mut Ways, count: usize, endless: &[usize]) -> Vec<u8> {
    let one = |_| {
        let path = ways.select(1000).expect("somebody has room");
        ways.on_sent(Time::ZERO, path, Seq(0), 1000, true);
        endless.iter().for_each(|path| ways.laws[*path].in_flight = 0);
        path.0
    };
    (0..count).map(one).collect()
}

/// Lets a path owe so many turns.
fn owe(ways: &mut Ways, path: u8, rounds: i64) {
    let Turns::Srr(srr, _) = &mut ways.turns else { panic!("no surplus round robin") };
    srr.set_deficit(ChannelId(path), -rounds * i64::from(srr.quantum(ChannelId(path))));
}

#[test]
fn a_path_whose_window_is_full_passes_its_turn_and_counts_as_limited() {
    let mut ways = ways(Striping::Srr, 3);
    assert_eq!(turns(&mut ways, 6, &[0, 1, 2]), [0, 1, 2, 0, 1, 2]);
    fill(&mut ways, 1);
    assert_eq!(turns(&mut ways, 5, &[0, 2]), [0, 2, 0, 2, 0]);
    assert_eq!([0, 1, 2].map(|law| ways.laws[law].limited), [false, true, false]);
    for path in [0, 2] {
        fill(&mut ways, path);
    }
    assert_eq!(ways.select(1000), None);
    assert_eq!([0, 1, 2].map(|law| ways.laws[law].limited), [true; 3]);
    // One that is down is not waited for, whatever room it has.
    assert!(!ways.take_down(Time::ZERO, ChannelId(2)).is_empty());
    assert_eq!((ways.laws[2].in_flight, ways.select(1000)), (0, None));
}

#[test]
fn a_debt_is_sat_out_while_somebody_else_can_go_and_forgiven_while_nobody_can() {
    let mut one = ways(Striping::Srr, 3);
    fill(&mut one, 0);
    owe(&mut one, 1, 2);
    assert_eq!(turns(&mut one, 5, &[1, 2]), [2, 2, 2, 1, 2], "after three turns it has a quantum again");
    // Both that have room owe hundreds of rounds, and neither has to wait until the other has made up for that.
    let mut two = ways(Striping::Srr, 4);
    for path in [0, 3] {
        fill(&mut two, path);
    }
    for (path, rounds) in [(1, 900), (2, 500), (3, 200)] {
        owe(&mut two, path, rounds);
    }
    assert_eq!(turns(&mut two, 6, &[1, 2]), [1, 2, 1, 2, 1, 2]);
    // Path 3 could not go meanwhile, and owes what it owed.
    (two.laws[0].in_flight, two.laws[3].in_flight) = (0, 0);
    let after = turns(&mut two, 60, &[0, 1, 2, 3]);
    assert!(!after.contains(&3), "{after:?}");
}

#[test]
fn quanta_follow_the_rates_from_round_to_round_and_stay_while_they_are_right_to_a_64th() {
    let whole = 1000 * PARTS;
    let quanta = |ways: &Ways| {
        let Turns::Srr(srr, _) = &ways.turns else { panic!("no surplus round robin") };
        [0, 1, 2].map(|path| u64::from(srr.quantum(ChannelId(path))))
    };
    let rates = |ways: &Ways| [0, 1, 2].map(|law| ways.laws[law].law.pacing_rate().map_or(0, Rate::as_bits_per_sec));
    let right = |ways: &Ways| {
        let most = rates(ways).into_iter().max().expect("three");
        rates(ways).map(|rate| (u128::from(rate) * u128::from(whole) / u128::from(most)) as u64)
    };
    // A packet by this path, and its answer after so many microseconds.
    let mut at = 0;
    let mut answer = |ways: &mut Ways, path: u8, micros: u64| {
        at += 1000;
        let sent = Time::from_nanos(1000 * at);
        ways.on_sent(sent, ChannelId(path), Seq(0), 1000, false);
        let echo = ways.on_ack(sent + Span::from_micros(micros), (ChannelId(path), sent), Span::ZERO, Seq(0));
        assert_eq!(echo, Echo::Fresh(Span::from_micros(micros)));
    };
    let all = [0, 1, 2];
    let mut ways = ways(Striping::Srr, 3);
    // Until a path has told its rate its part is a packet.
    assert_eq!(turns(&mut ways, 6, &all), [0, 1, 2, 0, 1, 2]);
    for (path, micros) in [(0, 10), (1, 20), (2, 40)] {
        answer(&mut ways, path, micros);
    }
    assert_eq!((turns(&mut ways, 2, &all), quanta(&ways)), (alloc::vec![0, 1], [whole; 3]), "the round goes on");
    assert_eq!((turns(&mut ways, 1, &all), quanta(&ways)), (alloc::vec![2], right(&ways)), "the next has begun");
    let one = quanta(&ways);
    assert_eq!([one[0] / one[1], one[0] / one[2]], [2, 4], "{one:?}");
    let went = turns(&mut ways, 700, &all);
    let counts = [0, 1, 2].map(|path| went.iter().filter(|went| **went == path).count());
    assert!(counts[0].abs_diff(400) <= 2 && counts[1].abs_diff(200) <= 2 && counts[2].abs_diff(100) <= 2, "{counts:?}");
    // 20 and an eighth; then much more.
    answer(&mut ways, 1, 21);
    turns(&mut ways, 14, &all);
    assert!(quanta(&ways) == one && right(&ways) != one, "{one:?} {:?}", right(&ways));
    answer(&mut ways, 1, 60);
    turns(&mut ways, 14, &all);
    assert!(quanta(&ways) == right(&ways) && right(&ways)[1] < one[1], "{one:?} {:?}", right(&ways));
    // Only those that are up have turns, though their quanta stay.
    let before = quanta(&ways);
    ways.take_down(Time::ZERO, ChannelId(2));
    assert!(!turns(&mut ways, 20, &all).contains(&2));
    assert!(ways.on_answer(ChannelId(2)));
    assert!(turns(&mut ways, 20, &all).contains(&2));
    assert_eq!(quanta(&ways), before);
}
