//! What the sender knows of each path: what is under way on it, how long it takes, and how fast it may go.
//!
//! What it is: a path keeps order. So an acknowledgment that returns a TXTS says that everything sent on that path up to then has
//! arrived or is lost, whatever waits for its order at the receiver, and the rest is under way, but for what is acknowledged. Round trips are of paths, the time at
//! the receiver (dT) not counted (efl-mp 4.2, Table 3).
//!
//! One law for the flow (efl-mp 4.1: a rate "in rough granularity") goes by the longest queue of all paths: it is told the longest
//! of the paths' least round trips and the longest of their queues together. With a law for each path each is told its own, and
//! a path whose window is full passes its turn: were it waited for, all would go at the pace of the one that measures worst.
//!
//! Failure detection (efl-mp, Figure 16, names it), with `failover`: a path is down when something was sent on it one and a half of its
//! smoothed round trips ago and is not answered, though another path has answered what was sent later. What it had is given back, it
//! has no turns, and a packet knocks at it now and then, less and less often. It is up again when it answers.
//!
//! | symbol | here |
//! |---|---|
//! | TXTS of what is under way | `Way::sent` |
//! | RTT of a path: now - TXTS - dT | `Way::rtt` |
//! | its least | `Way::least` |
//!
//! Cost: a packet is put in and taken out once; O(N) an acknowledgment for N paths with one law. Invariant: nothing
//! that is under way on a path was sent before the last TXTS that it returned.

#[cfg(test)]
mod tests;

use super::Seq;
use super::config::{Config, Striping};
use crate::causal::{Causal, ChannelSet, Rr, Srr};
use crate::congestion::{self, Acked, AnyLaw, Congested, Law, Sent};
use crate::link::pacing::Pacer;
use crate::loss::rtt::{self, Rtt};
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Rate of a sender that knows none yet: its window alone limits it.
const UNKNOWN: Rate = Rate::from_mbit(1_000_000);
/// Times of acknowledged packets that a path keeps at most.
const MOST_TIMES: usize = 4096;
const UNPACED: Bytes = Bytes::new(1 << 30);
/// What quanta count: parts of a byte, so that a path with a thousandth of the widest's rate has its share to a thousandth.
const PARTS: u64 = 4096;

/// The paths of a flow.
#[derive(Debug)]
pub(super) struct Ways {
    ways: Vec<Way>,
    /// One for the flow, or one for each path.
    laws: Vec<Governor>,
    turns: Turns,
    pacer: Pacer,
    segment: u64,
    /// Packets sent.
    position: u64,
    failover: Option<Failover>,
}

/// What finding and waking dead paths depends on.
#[derive(Clone, Copy, Debug)]
struct Failover {
    /// How long an answer waits at the receiver.
    ack_delay: Span,
    /// Before a path has answered.
    initial: Span,
    /// Longest pause between knocks, if sixteen times what an answer may take is not shorter.
    longest: Span,
    /// Paths to be knocked at now.
    knocks: u64,
}

/// A path that is down.
#[derive(Clone, Copy, Debug)]
struct Down {
    knock: Time,
    pause: Span,
}

/// Whose turn it is.
#[derive(Debug)]
enum Turns {
    RoundRobin(Rr),
    /// With the round in which the quanta were last brought up to date.
    Srr(Box<Srr>, u32),
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
struct Entry {
    sent: Time,
    size: u32,
    seq: Seq,
    position: u64,
    /// It is no packet, and its number that of its block's last.
    parity: bool,
}

/// What is no longer under way.
#[derive(Clone, Copy, Debug, Default)]
struct Gone {
    bytes: u64,
    position: u64,
}

impl Gone {
    #[inline]
    fn count(&mut self, entry: &Entry) {
        self.bytes += u64::from(entry.size);
        self.position = self.position.max(entry.position);
    }

    /// What was sent up to this TXTS is gone; gives the last of it.
    #[inline]
    fn take_returned(&mut self, way: &mut Way, sent: Time) -> Option<Time> {
        let mut last = None;
        while let Some(entry) = way.sent.front()
            && entry.sent <= sent
        {
            match way.acked.checked_sub(1) {
                Some(acked) => way.acked = acked,
                None => self.count(entry),
            }
            last = Some(entry.sent);
            way.sent.pop_front();
        }
        last
    }

    /// What is before `first` is gone. Its times stay until one is returned: the acknowledgment that does it may be overtaken by
    /// later ones on shorter paths.
    #[inline]
    fn take_acked(&mut self, way: &mut Way, first: Seq) {
        while let Some(entry) = way.sent.get(way.acked)
            && entry.seq.ahead_of(first) < 0
        {
            self.count(entry);
            way.acked += 1;
        }
        while way.acked > MOST_TIMES {
            way.sent.pop_front();
            way.acked -= 1;
        }
    }
}

#[derive(Debug)]
struct Way {
    /// What was sent since the last TXTS that was returned, and how much of the beginning of that is acknowledged.
    sent: VecDeque<Entry>,
    acked: usize,
    last_sent: Option<Time>,
    rtt: Option<Span>,
    least: Span,
    /// The last TXTS that was returned.
    answered: Option<Time>,
    /// Round trips with what answers wait at the receiver.
    answers: Rtt,
    down: Option<Down>,
}

impl Way {
    #[inline]
    fn is_up(&self) -> bool {
        self.down.is_none()
    }
}

/// A law, and what is under way for it.
#[derive(Debug)]
struct Governor {
    law: AnyLaw,
    in_flight: u64,
    up_to: u64,
    smoothed: u64,
    limited: bool,
}

fn up(ways: &[Way]) -> u64 {
    ways.iter().enumerate().fold(0, |mask, (path, way)| mask | u64::from(way.is_up()) << path)
}

impl Failover {
    /// How long an answer may take.
    fn patience(&self, way: &Way) -> Span {
        match way.answers.smoothed() {
            Span::ZERO => self.initial,
            smoothed => Span::from_nanos(smoothed.as_nanos() / 2 * 3) + self.ack_delay,
        }
    }
}

impl Governor {
    /// Whether the law lets `bytes` go.
    #[inline]
    fn has_room(&self, bytes: u64) -> bool {
        self.in_flight == 0 || self.in_flight + bytes <= self.law.window().as_u64()
    }
}

/// What a returned TXTS says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    /// It is of a packet that was under way.
    Fresh(Span),
    /// Nothing is under way since then: it was returned before, or given up.
    Stale,
    /// Nothing was sent then, or the receiver says to have had it for longer than that.
    False,
}

impl Ways {
    pub(super) fn new(config: &Config, paths: usize) -> Ways {
        let paths = paths.clamp(1, ChannelId::LIMIT);
        let segment = u32::try_from(config.segment.as_u64()).unwrap_or(u32::MAX);
        let mut law = congestion::Config::new(config.congestion, segment);
        law.window.paced = true;
        law.window.grow_only_when_limited = true;
        let governor = || Governor { law: AnyLaw::new(&law), in_flight: 0, up_to: 0, smoothed: 0, limited: false };
        let answers = Rtt::new(&rtt::Config {
            initial: config.timeout_initial,
            minimum: Span::ZERO,
            maximum: config.timeout_max,
            granularity: Span::ZERO,
            tick: Span::ZERO,
        });
        let way = || Way {
            sent: VecDeque::new(),
            acked: 0,
            last_sent: None,
            rtt: None,
            least: Span::MAX,
            answered: None,
            answers: answers.clone(),
            down: None,
        };
        let equal: Vec<(ChannelId, Bytes)> =
            (0..paths).map(|path| (ChannelId(path as u8), Bytes::new(u64::from(segment) * PARTS))).collect();
        let set = ChannelSet::new(&equal, Bytes::new(1)).unwrap_or_else(|_| ChannelSet::empty());
        let (turns, laws) = match config.striping {
            Striping::Srr if paths > 1 => (Srr::new(&set).map(|srr| Turns::Srr(Box::new(srr), 1)), paths),
            _ => (Rr::new(&set).map(Turns::RoundRobin), 1),
        };
        Ways {
            ways: (0..paths).map(|_| way()).collect(),
            laws: (0..laws).map(|_| governor()).collect(),
            turns: turns.unwrap_or_else(|_| Turns::Srr(Box::new(Srr::idle()), 1)),
            pacer: Pacer::new(UNKNOWN, UNPACED),
            segment: u64::from(segment),
            position: 0,
            failover: config.failover.then_some(Failover {
                ack_delay: config.ack_delay,
                initial: config.timeout_initial,
                longest: config.timeout_max,
                knocks: 0,
            }),
        }
    }

    /// The path of the next packet, of `bytes`, if a window lets it go.
    #[inline]
    pub(super) fn select(&mut self, bytes: u64) -> Option<ChannelId> {
        let selected = self.selected();
        if self.has_room(selected, bytes) {
            return Some(selected);
        }
        let other = |(way, governor): (&Way, &Governor)| way.is_up() && governor.has_room(bytes);
        if self.laws.len() == 1 || !self.ways.iter().zip(&self.laws).any(other) {
            self.hold();
            return None;
        }
        for passed in 0.. {
            let path = self.selected();
            let governor = self.governor(path);
            if governor.has_room(bytes) {
                return Some(path);
            }
            governor.limited = true;
            if passed == self.laws.len() {
                self.forgive(bytes);
            }
            self.turn(Srr::pass);
        }
        None
    }

    /// The paths whose windows have room owe turns. They need not sit them out while nobody else can go.
    fn forgive(&mut self, bytes: u64) {
        let Turns::Srr(srr, _) = &mut self.turns else { return };
        for (path, governor) in self.laws.iter().enumerate() {
            let path = ChannelId(path as u8);
            if self.ways[path.index()].is_up() && governor.has_room(bytes) {
                srr.set_deficit(path, srr.deficit(path).max(1));
            }
        }
    }

    #[inline]
    fn selected(&self) -> ChannelId {
        match &self.turns {
            Turns::RoundRobin(rr) => rr.select(),
            Turns::Srr(srr, _) => srr.select(),
        }
    }

    /// The path on which a packet arrives first.
    pub(super) fn fastest(&self) -> ChannelId {
        let trip = |way: &Way| (!way.is_up(), way.rtt.unwrap_or(Span::MAX));
        let fastest = (0..self.ways.len()).min_by_key(|path| trip(&self.ways[*path])).unwrap_or(0);
        ChannelId(fastest as u8)
    }

    /// The path with the most room: the least part of its window is under way, or the fewest packets where one window is for all.
    pub(super) fn emptiest(&self) -> ChannelId {
        let part = |path: usize| {
            let way = &self.ways[path];
            let part = match self.laws.get(path) {
                Some(Governor { law, in_flight, .. }) if self.laws.len() > 1 => {
                    in_flight.saturating_mul(PARTS) / law.window().as_u64().max(1)
                }
                _ => (way.sent.len() - way.acked) as u64,
            };
            (!way.is_up(), part)
        };
        ChannelId((0..self.ways.len()).min_by_key(|path| part(*path)).unwrap_or(0) as u8)
    }

    /// When the pace lets a packet go.
    #[inline]
    pub(super) fn ready_at(&self) -> Time {
        self.pacer.ready_at()
    }

    #[inline]
    fn has_room(&mut self, path: ChannelId, bytes: u64) -> bool {
        self.governor(path).has_room(bytes)
    }

    /// Says that the pace or a window stopped the sender. That limits all paths, as what each gets follows from its law's rate; but
    /// a window that is not half used limits nobody.
    #[inline]
    pub(super) fn hold(&mut self) {
        for governor in &mut self.laws {
            governor.limited |= 2 * governor.in_flight >= governor.law.window().as_u64();
        }
    }

    #[inline]
    fn governor(&mut self, path: ChannelId) -> &mut Governor {
        let place = if self.laws.len() > 1 { path.index() } else { 0 };
        &mut self.laws[place]
    }

    /// A packet goes out by `path`; `in_turn`: because it is that path's turn.
    pub(super) fn on_sent(&mut self, now: Time, path: ChannelId, seq: Seq, bytes: u64, in_turn: bool) {
        self.position += 1;
        let position = self.position;
        let governor = self.governor(path);
        let in_flight = Bytes::new(governor.in_flight);
        governor.law.on_sent(&Sent { now, bytes: Bytes::new(bytes), in_flight, end: position });
        governor.in_flight += bytes;
        let way = &mut self.ways[path.index()];
        way.sent.push_back(Entry { sent: now, size: bytes as u32, seq, position, parity: false });
        way.last_sent = Some(now);
        self.pacer.on_sent(now, bytes as usize);
        if !in_turn {
            return;
        }
        match &mut self.turns {
            Turns::RoundRobin(rr) => rr.update(Bytes::new(bytes)),
            Turns::Srr(..) => self.turn(|srr| srr.update(Bytes::new(bytes * PARTS))),
        }
    }

    /// Parity goes out by `path`; `seq` is the last number that it covers.
    pub(super) fn on_parity(&mut self, now: Time, path: ChannelId, seq: Seq, bytes: u64) {
        self.on_sent(now, path, seq, bytes, false);
        if let Some(entry) = self.ways[path.index()].sent.back_mut() {
            entry.parity = true;
        }
    }

    /// A turn of surplus round robin.
    #[inline]
    fn turn(&mut self, go: impl FnOnce(&mut Srr)) {
        let Turns::Srr(srr, round) = &mut self.turns else { return };
        go(srr);
        if srr.round() != *round {
            *round = srr.round();
            self.renew_quanta();
        }
    }

    /// A round begins: quanta in proportion to the paths' rates, the largest a packet. They stay while they are right to a 64th: the
    /// first path has a packet more than its share whenever they change.
    fn renew_quanta(&mut self) {
        let Turns::Srr(srr, _) = &mut self.turns else { return };
        let members = || self.ways.iter().zip(&self.laws).enumerate().filter(|(_, (way, _))| way.is_up());
        let rate = |governor: &Governor| governor.law.pacing_rate().map(Rate::as_bits_per_sec);
        let most = u128::from(members().filter_map(|(_, (_, governor))| rate(governor)).max().unwrap_or(1).max(1));
        // Until a path has told its rate its window alone limits it.
        let share = |rate: Option<u64>| rate.map_or(most, u128::from) * u128::from(self.segment * PARTS) / most;
        let mut pairs = [(ChannelId(0), Bytes::ZERO); ChannelId::LIMIT];
        let mut count = 0;
        for (path, (_, governor)) in members() {
            pairs[count] = (ChannelId(path as u8), Bytes::new(share(rate(governor)).max(1) as u64));
            count += 1;
        }
        let right = |(path, quantum): &(ChannelId, Bytes)| {
            let (old, new) = (u64::from(srr.quantum(*path)), quantum.as_u64());
            64 * old.abs_diff(new) <= old.max(new)
        };
        let pairs = &pairs[..count];
        if (srr.mask() != up(&self.ways) || !pairs.iter().all(right))
            && let Ok(set) = ChannelSet::new(pairs, Bytes::new(1))
        {
            // It is never empty, and nothing else is refused.
            let _ = srr.adopt(&set);
        }
    }

    /// The paths that are up, as a bit mask.
    pub(super) fn up(&self) -> u64 {
        up(&self.ways)
    }

    /// A path that is down, if there is one that was not told of; whom to knock at is looked up too.
    pub(super) fn find_down(&mut self, now: Time) -> Option<ChannelId> {
        let mut failover = self.failover?;
        for (path, way) in self.ways.iter().enumerate() {
            failover.knocks |= u64::from(way.down.is_some_and(|down| down.knock <= now)) << path;
        }
        self.failover = Some(failover);
        let is_due = |path: &usize| self.suspect(failover, *path).is_some_and(|at| at <= now);
        (0..self.ways.len()).find(is_due).map(|path| ChannelId(path as u8))
    }

    /// When a path counts as down, if nothing changes.
    fn suspect(&self, failover: Failover, path: usize) -> Option<Time> {
        let way = &self.ways[path];
        let first = way.sent.get(way.acked)?.sent;
        let later = |other: &Way| other.is_up() && other.answered.is_some_and(|answered| answered > first);
        if !way.is_up() || !self.ways.iter().enumerate().any(|(number, other)| number != path && later(other)) {
            return None;
        }
        Some(first + failover.patience(way))
    }

    /// When [`Ways::find_down`] has something, if nothing comes before.
    pub(super) fn timeout(&self) -> Option<Time> {
        let failover = self.failover?;
        let one = |(path, way): (usize, &Way)| match way.down {
            Some(_) if failover.knocks & (1 << path) != 0 => None,
            Some(down) => Some(down.knock),
            None => self.suspect(failover, path),
        };
        self.ways.iter().enumerate().filter_map(one).min()
    }

    /// The path is down: gives the numbers that were under way on it.
    pub(super) fn take_down(&mut self, now: Time, path: ChannelId) -> Vec<Seq> {
        let Some(failover) = self.failover else { return Vec::new() };
        let way = &mut self.ways[path.index()];
        let pause = failover.patience(way);
        way.down = Some(Down { knock: now + pause, pause });
        let acked = core::mem::take(&mut way.acked);
        let lost: Vec<Entry> = way.sent.drain(..).skip(acked).collect();
        let bytes: u64 = lost.iter().map(|entry| u64::from(entry.size)).sum();
        let governor = self.governor(path);
        governor.in_flight = governor.in_flight.saturating_sub(bytes);
        self.renew_turns();
        lost.iter().filter(|entry| !entry.parity).map(|entry| entry.seq).collect()
    }

    /// The path whose turn it is to be knocked at.
    pub(super) fn to_knock(&self) -> Option<ChannelId> {
        let knocks = self.failover?.knocks;
        (knocks != 0).then(|| ChannelId(knocks.trailing_zeros() as u8))
    }

    /// A packet goes to a path that is down.
    pub(super) fn on_knocked(&mut self, now: Time, path: ChannelId) {
        let Some(failover) = &mut self.failover else { return };
        failover.knocks &= !(1 << path.0);
        let way = &mut self.ways[path.index()];
        let longest = failover.patience(way).times(16).min(failover.longest);
        if let Some(down) = &mut way.down {
            down.pause = down.pause.times(2).min(longest);
            down.knock = now + down.pause;
        }
    }

    /// A path has answered; whether it was down.
    pub(super) fn on_answer(&mut self, path: ChannelId) -> bool {
        let was_down = self.ways[path.index()].down.take().is_some();
        if was_down {
            self.failover.iter_mut().for_each(|failover| failover.knocks &= !(1 << path.0));
            self.renew_turns();
        }
        was_down
    }

    /// Other paths are up than before.
    fn renew_turns(&mut self) {
        match &mut self.turns {
            Turns::Srr(..) => self.renew_quanta(),
            Turns::RoundRobin(rr) => {
                let up = self.ways.iter().enumerate().filter(|(_, way)| way.is_up());
                let pairs: Vec<(ChannelId, Bytes)> =
                    up.map(|(path, _)| (ChannelId(path as u8), Bytes::new(1))).collect();
                if let Ok(turns) = ChannelSet::new(&pairs, Bytes::new(1)).and_then(|set| Rr::new(&set)) {
                    *rr = turns;
                }
            }
        }
    }

    /// An acknowledgment of all before `first` has come. It returned `sent` of `path`, and says that the receiver had that
    /// for `held`.
    pub(super) fn on_ack(&mut self, now: Time, (path, sent): (ChannelId, Time), held: Span, first: Seq) -> Echo {
        let (echo, mut gone) = self.echo(now, path, sent, held);
        let rtt = match echo {
            Echo::Fresh(rtt) => Some(rtt),
            _ => None,
        };
        let shared = self.laws.len() == 1;
        let rtt = rtt.and_then(|own| if shared { self.longest() } else { Some(own) });
        for number in 0..self.ways.len() {
            let own = number == path.index();
            let mut left = if own || shared { core::mem::take(&mut gone) } else { Gone::default() };
            let way = &mut self.ways[number];
            left.take_acked(way, first);
            if !shared {
                self.tell(now, number, left, rtt.filter(|_| own));
            } else {
                gone = left;
            }
        }
        if shared {
            self.tell(now, 0, gone, rtt);
        }
        if let Some(rate) = self.rate() {
            self.pacer.set(rate, Bytes::new(self.segment));
        }
        echo
    }

    /// What a returned TXTS says, and what is no longer under way on its path.
    fn echo(&mut self, now: Time, path: ChannelId, sent: Time, held: Span) -> (Echo, Gone) {
        let mut gone = Gone::default();
        let Some(way) = self.ways.get_mut(path.index()) else { return (Echo::False, gone) };
        if way.last_sent.is_none_or(|last| sent > last) || now.since(sent) < held {
            return (Echo::False, gone);
        }
        // Where none left at that time, it was given up since, or returned before.
        if gone.take_returned(way, sent) != Some(sent) {
            return (Echo::Stale, gone);
        }
        let rtt = now.since(sent) - held;
        way.rtt = Some(rtt);
        way.least = way.least.min(rtt);
        way.answered = Some(sent);
        way.answers.on_sample(now.since(sent));
        (Echo::Fresh(rtt), gone)
    }

    /// Tells a law what is no longer under way.
    fn tell(&mut self, now: Time, law: usize, gone: Gone, rtt: Option<Span>) {
        let next = self.position + 1;
        let governor = &mut self.laws[law];
        if gone.bytes == 0 && rtt.is_none() {
            return;
        }
        if let Some(rtt) = rtt {
            let rtt = rtt.as_nanos();
            governor.smoothed = if governor.smoothed == 0 { rtt } else { (7 * governor.smoothed + rtt) / 8 };
        }
        let in_flight = governor.in_flight;
        governor.in_flight -= gone.bytes.min(in_flight);
        governor.up_to = governor.up_to.max(gone.position + 1);
        governor.law.on_acked(&Acked {
            now,
            bytes: Bytes::new(gone.bytes),
            in_flight: Bytes::new(in_flight),
            rtt,
            waited: None,
            smoothed_rtt: Span::from_nanos(governor.smoothed),
            up_to: governor.up_to,
            next,
            limited: core::mem::take(&mut governor.limited),
            recovering: false,
            delivery: None,
        });
    }

    /// The longest of the paths' least round trips and the longest of their queues together; none before all paths that are
    /// in use have told theirs, as the law would take what one adds for a queue.
    fn longest(&self) -> Option<Span> {
        let mut used = self.ways.iter().filter(|way| way.last_sent.is_some() && way.is_up());
        let longest = used.try_fold((Span::ZERO, Span::ZERO), |(least, queue), way| {
            Some((least.max(way.least), queue.max(way.rtt? - way.least)))
        });
        longest.map(|(least, queue)| least + queue)
    }

    /// Nothing was acknowledged for a timeout: nothing is taken to be under way.
    pub(super) fn on_timeout(&mut self, now: Time, begins: bool) {
        for way in &mut self.ways {
            way.sent.clear();
            way.acked = 0;
        }
        for governor in &mut self.laws {
            let in_flight = Bytes::new(core::mem::take(&mut governor.in_flight));
            governor.law.on_timeout(&Congested {
                now,
                bytes: in_flight,
                in_flight,
                limit: Bytes::new(u64::MAX),
                begins,
                exact: true,
            });
        }
    }

    /// Packets were found lost.
    pub(super) fn on_lost(&mut self, now: Time, bytes: u64, begins: bool) {
        let bytes = Bytes::new(bytes);
        for governor in &mut self.laws {
            let in_flight = Bytes::new(governor.in_flight);
            governor.law.on_lost(&Congested {
                now,
                bytes,
                in_flight,
                limit: Bytes::new(u64::MAX),
                begins,
                exact: true,
            });
        }
    }

    /// The round trip of the slowest path, as far as it is known.
    pub(super) fn slowest(&self) -> Span {
        self.ways.iter().filter(|way| way.is_up()).filter_map(|way| way.rtt).max().unwrap_or(Span::ZERO)
    }

    /// The last round trip of a path.
    pub(super) fn rtt(&self, path: ChannelId) -> Option<Span> {
        self.ways.get(path.index())?.rtt
    }

    /// Bytes under way.
    pub(super) fn in_flight(&self) -> u64 {
        self.laws.iter().map(|governor| governor.in_flight).sum()
    }

    /// The rate of the flow, once it is known.
    pub(super) fn rate(&self) -> Option<Rate> {
        let shared = self.laws.len() == 1;
        let up = self.laws.iter().zip(&self.ways).filter(|(_, way)| shared || way.is_up());
        let rates = up.map(|(governor, _)| Some(governor.law.pacing_rate()?.as_bits_per_sec()));
        rates.sum::<Option<u64>>().map(Rate::from_bits_per_sec)
    }

    pub(super) fn count(&self) -> usize {
        self.ways.len()
    }
}
