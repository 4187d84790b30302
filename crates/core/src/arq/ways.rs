//! What the sender knows of each path: what is under way on it, how long it takes, and how fast it may go.
//!
//! What it is: a path keeps order. So an acknowledgment that returns a TXTS says that everything sent on that path up to then has
//! arrived or is lost, whatever waits for its order at the receiver, and the rest is under way, but for what is acknowledged. Round trips are of paths, the time at
//! the receiver (dT) not counted (efl-mp 4.2, Table 3).
//!
//! One law for the flow (efl-mp 4.1: a rate "in rough granularity") goes by the longest queue of all paths: it is told the longest
//! of the paths' least round trips and the longest of their queues together. With a law for each path each is told its own.
//!
//! | symbol | here |
//! |---|---|
//! | TXTS of what is under way | `Way::sent` |
//! | RTT of a path: now - TXTS - dT | `Way::rtt` |
//! | its least | `Way::least` |
//!
//! Cost: a packet is put in and taken out once; O(N) an acknowledgment for N paths with one law. Invariant: nothing
//! that is under way on a path was sent before the last TXTS that it returned.

use super::Seq;
use super::config::{Config, Striping};
use crate::causal::{Causal, ChannelSet, Rr, Srr};
use crate::congestion::{self, Acked, AnyLaw, Congested, Law, Sent};
use crate::link::pacing::Pacer;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Rate of a sender that knows none yet: its window alone limits it.
const UNKNOWN: Rate = Rate::from_mbit(1_000_000);
/// Times of acknowledged packets that a path keeps at most.
const MOST_TIMES: usize = 4096;
const UNPACED: Bytes = Bytes::new(1 << 30);

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
        let least = Span::MAX;
        let way = || Way { sent: VecDeque::new(), acked: 0, last_sent: None, rtt: None, least };
        let equal: Vec<(ChannelId, Bytes)> =
            (0..paths).map(|path| (ChannelId(path as u8), Bytes::new(u64::from(segment)))).collect();
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
        }
    }

    /// The path of the next packet.
    #[inline]
    pub(super) fn select(&self) -> ChannelId {
        match &self.turns {
            Turns::RoundRobin(rr) => rr.select(),
            Turns::Srr(srr, _) => srr.select(),
        }
    }

    /// The path on which a packet arrives first.
    pub(super) fn fastest(&self) -> ChannelId {
        let trip = |way: &Way| way.rtt.unwrap_or(Span::MAX);
        let fastest = (0..self.ways.len()).min_by_key(|path| trip(&self.ways[*path])).unwrap_or(0);
        ChannelId(fastest as u8)
    }

    /// When the pace lets a packet go.
    #[inline]
    pub(super) fn ready_at(&self) -> Time {
        self.pacer.ready_at()
    }

    /// Whether the law of this path lets `bytes` go.
    #[inline]
    pub(super) fn has_room(&mut self, path: ChannelId, bytes: u64) -> bool {
        let governor = self.governor(path);
        let room = governor.in_flight == 0 || governor.in_flight + bytes <= governor.law.window().as_u64();
        if !room {
            self.hold();
        }
        room
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
        way.sent.push_back(Entry { sent: now, size: bytes as u32, seq, position });
        way.last_sent = Some(now);
        self.pacer.on_sent(now, bytes as usize);
        if !in_turn {
            return;
        }
        match &mut self.turns {
            Turns::RoundRobin(rr) => rr.update(Bytes::new(bytes)),
            Turns::Srr(srr, round) => {
                srr.update(Bytes::new(bytes));
                if srr.round() != *round {
                    *round = srr.round();
                    self.renew_quanta();
                }
            }
        }
    }

    /// A round begins: quanta in proportion to the paths' rates, the largest a packet. They stay while they are right to a 64th: the
    /// first path has a packet more than its share whenever they change.
    fn renew_quanta(&mut self) {
        let rates = self.laws.iter().map(|governor| governor.law.pacing_rate().map_or(0, Rate::as_bits_per_sec));
        let most = u128::from(rates.clone().max().unwrap_or(0));
        if most == 0 {
            return;
        }
        let quantum = |rate| (u128::from(rate) * u128::from(self.segment) / most).max(1) as u64;
        let mut pairs = [(ChannelId(0), Bytes::ZERO); ChannelId::LIMIT];
        let mut count = 0;
        for (pair, rate) in pairs.iter_mut().zip(rates) {
            *pair = (ChannelId(count as u8), Bytes::new(quantum(rate)));
            count += 1;
        }
        let Turns::Srr(srr, _) = &mut self.turns else { return };
        let right = |(path, quantum): &(ChannelId, Bytes)| {
            let (old, new) = (u64::from(srr.quantum(*path)), quantum.as_u64());
            64 * old.abs_diff(new) <= old.max(new)
        };
        if !pairs[..count].iter().all(right)
            && let Ok(set) = ChannelSet::new(&pairs[..count], Bytes::new(1))
        {
            // It is never empty, and nothing else is refused.
            let _ = srr.adopt(&set);
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
        let rates = self.laws.iter().map(|governor| governor.law.pacing_rate());
        let sum = rates.map(|rate| rate.map(Rate::as_bits_per_sec)).sum::<Option<u64>>();
        if let Some(sum) = sum {
            self.pacer.set(Rate::from_bits_per_sec(sum), Bytes::new(self.segment));
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
        let mut used = self.ways.iter().filter(|way| way.last_sent.is_some());
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
            });
        }
    }

    /// Packets were found lost.
    pub(super) fn on_lost(&mut self, now: Time, bytes: u64, begins: bool) {
        let bytes = Bytes::new(bytes);
        for governor in &mut self.laws {
            let in_flight = Bytes::new(governor.in_flight);
            governor.law.on_lost(&Congested { now, bytes, in_flight, limit: Bytes::new(u64::MAX), begins });
        }
    }

    /// The round trip of the slowest path, as far as it is known.
    pub(super) fn slowest(&self) -> Span {
        self.ways.iter().filter_map(|way| way.rtt).max().unwrap_or(Span::ZERO)
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
        let rates = self.laws.iter().map(|governor| Some(governor.law.pacing_rate()?.as_bits_per_sec()));
        rates.sum::<Option<u64>>().map(Rate::from_bits_per_sec)
    }

    pub(super) fn count(&self) -> usize {
        self.ways.len()
    }
}
