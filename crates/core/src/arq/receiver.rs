//! The receiver: a FIFO reorder buffer for each path, and when it asks for a retransmission.
//!
//! Source: efl-mp 3.5, Figure 7, with Figures 5 and 6 as its examples, and the errata of our copy.
//!
//! | Figure 7 | here |
//! |---|---|
//! | nextSEQ | `next` |
//! | QueueHead, QueueLength of a path | the front, the length of `Line::fifo` |
//! | PickPacket | [`Receiver::poll_deliver`] gives what was picked |
//! | SendAckDelayed(nextSEQ-1) | [`Kind::Ack`], after `ack_packets` packets or `ack_delay` |
//! | SendAckImmediate(nextSEQ-1) | [`Kind::Request`], at once; with trigger `timer` never |
//!
//! Errata: the immediate acknowledgment goes also when a buffer is full. Heads older than nextSEQ are discarded. When go-back-N
//! begins anew ([`Header::restart`] is a later one) the buffers are emptied, and what comes from before is discarded.
//!
//! Departures: an acknowledgment returns TXTS of the last packet of one path, and each path's turn comes, so that the sender
//! sees the round trip of all (4.2); dT is the time since that packet arrived, and not since it was delivered. A packet older
//! than nextSEQ counts as stored when Figure 7's last line is evaluated; with one path it is answered at once, as in TCP. A
//! buffer of no packets takes what comes next and drops all else, with an immediate acknowledgment: go-back-N without reordering.
//!
//! Where each path has a law (`srr`), delayed acknowledgments go by what comes and not by what is picked. Behind a slow path much is
//! picked at once, and one acknowledgment for that would tell the fast paths' laws of their windows too late and too seldom. So they
//! do with `parity`, as nothing else would tell the sender of its window while a gap waits for a row.
//!
//! Repair `selective`: on a FIFO path what is behind its last arrival has arrived or is lost. So numbers behind the last arrivals
//! of all paths that are not here are lost, and each run of them is asked for when it is found; Figure 7's acknowledgment goes on
//! asking for the first. Where a buffer overflows, a run of no packets asks for go-back-N. A [`Kind::Repeat`] goes past the FIFOs into a list of its own, as it would stand behind held heads.
//!
//! Trigger `time`: what is missing is asked for also when it is late (`late.rs`), with selective repair all of it that is.
//!
//! Option `parity`: `mender.rs` rebuilds what it can, and what it may still rebuild is not asked for: not where a buffer holds something for
//! each path, and not behind the last arrivals, while the block of what is missing may get a row. What is rebuilt goes the way of repeats.
//!
//! The first packet of the beginning of a stream ([`Header::opening`]) says which start of the sender this receiver follows. Those of
//! earlier starts are dropped; one of a later start ends it ([`Receiver::failed`]).
//!
//! Cost: O(N) for N paths a packet; selective repair searches N buffers once for each number. Invariants: what is delivered is
//! every number once, in order; each buffer holds at most `reorder_packets`, the list of repeats as many as all of them.

use super::config::{Config, Parity, Repair, Striping, Trigger};
use super::dropped::Dropped;
use super::frame::{Header, Kind};
use super::late::Late;
use super::mender::Mender;
use super::octets::Octets;
use super::{MOST_PACKETS, Seq, restarts_ahead};
use crate::units::{ChannelId, Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use thiserror::Error;

/// The receiving end of a flow.
#[derive(Debug)]
pub struct Receiver<P> {
    trigger: Trigger,
    repair: Repair,
    reorder_packets: usize,
    ack_packets: u32,
    ack_delay: Span,
    /// Whether delayed acknowledgments count packets as they come, or as they are picked.
    by_arrivals: bool,
    /// Which start of the sender it follows, and the later one that has ended it.
    stream: Option<u32>,
    replaced: Option<u32>,
    next: Seq,
    /// The number behind the furthest that has come.
    reached: Seq,
    restart: u8,
    late: Option<Late>,
    mender: Option<Mender>,
    lines: Vec<Line<P>>,
    /// Repeats, by number.
    repeats: VecDeque<Waiting<P>>,
    /// Everything before it is here or was asked for: selective repair.
    searched: Seq,
    delivered: VecDeque<P>,
    requests: VecDeque<Answer>,
    /// Packets since the last acknowledgment, and when one is due.
    pending: u32,
    due: Option<Time>,
    /// The path whose packet the next delayed acknowledgment returns.
    turn: usize,
    stats: ReceiverStats,
}

/// A packet in a buffer.
#[derive(Debug)]
struct Waiting<P> {
    seq: Seq,
    /// TXTS.
    sent: Time,
    packet: P,
}

/// What a path has.
#[derive(Debug)]
struct Line<P> {
    fifo: VecDeque<Waiting<P>>,
    /// The last arrival, in this generation of restarts, or the first of its block where rows of that may still come.
    last: Option<Seq>,
    /// Its TXTS and when it came, and whether an acknowledgment has returned that.
    echo: Option<(Time, Time)>,
    told: bool,
}

/// An acknowledgment that goes now.
#[derive(Clone, Copy, Debug)]
struct Answer {
    kind: Kind,
    path: ChannelId,
    missing: (Seq, u16),
}

/// The sender has begun anew, with other packets by the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the sender has begun anew: stream {after} has come in place of {before}; what of {before} was not delivered is lost"
)]
pub struct Replaced {
    /// The stream that was received.
    pub before: u32,
    /// The one that came.
    pub after: u32,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets that were delivered.
    pub delivered: u64,
    /// Packets that were delivered before.
    pub old: u64,
    /// Packets from before go-back-N began anew.
    pub outdated: u64,
    /// Packets that found their buffer full.
    pub full: u64,
    /// Packets that waited in a buffer when it was emptied.
    pub emptied: u64,
    /// Numbers further ahead than any buffer reaches, paths that are none, acknowledgments, and parity of no block.
    pub bad: u64,
    /// Packets of other starts of the sender.
    pub other_streams: u64,
    /// Rows of parity.
    pub parity: u64,
    /// Packets that were rebuilt from it.
    pub rebuilt: u64,
    /// Delayed acknowledgments.
    pub acks: u64,
    /// Immediate acknowledgments.
    pub requests: u64,
    /// Most packets in one path's buffer.
    pub most_held: u64,
}

impl<P: Octets> Receiver<P> {
    /// A receiver of a flow over `paths` paths, 1 to 64, whose first number is `first`.
    pub fn new(config: &Config, paths: usize, first: Seq) -> Receiver<P> {
        let line =
            || Line { fifo: VecDeque::with_capacity(config.reorder_packets), last: None, echo: None, told: true };
        Receiver {
            trigger: config.trigger,
            repair: config.repair,
            reorder_packets: config.reorder_packets,
            ack_packets: config.ack_packets.max(1),
            ack_delay: config.ack_delay,
            by_arrivals: config.striping == Striping::Srr || config.failover || config.parity != Parity::None,
            stream: None,
            replaced: None,
            next: first,
            reached: first,
            restart: 0,
            late: (config.trigger == Trigger::Time)
                .then(|| Late::new(paths.clamp(1, ChannelId::LIMIT), config.ack_delay)),
            mender: Mender::new(config, paths.clamp(1, ChannelId::LIMIT)),
            lines: (0..paths.clamp(1, ChannelId::LIMIT)).map(|_| line()).collect(),
            repeats: VecDeque::new(),
            searched: first,
            delivered: VecDeque::new(),
            requests: VecDeque::new(),
            pending: 0,
            due: None,
            turn: 0,
            stats: ReceiverStats::default(),
        }
    }

    /// A packet has come by `path`.
    ///
    /// # Errors
    /// Why it was dropped, which is counted as well; what Figure 7 asks for is done all the same.
    pub fn handle_packet(&mut self, now: Time, path: ChannelId, header: &Header, packet: P) -> Result<(), Dropped> {
        if path.index() >= self.lines.len() {
            self.stats.bad += 1;
            return Err(Dropped::Path);
        }
        if !matches!(header.kind, Kind::Data | Kind::Repeat) {
            self.stats.bad += 1;
            return Err(Dropped::Kind);
        }
        if !self.follows(header) {
            self.stats.other_streams += 1;
            return Err(Dropped::Stream);
        }
        let Some(line) = self.lines.get_mut(path.index()) else { return Err(Dropped::Path) };
        let ahead = header.seq.ahead_of(self.next);
        if ahead > MOST_PACKETS as i32 {
            self.stats.bad += 1;
            return Err(Dropped::Beyond);
        }
        (line.echo, line.told) = (Some((header.sent, now)), false);
        match restarts_ahead(header.restart, self.restart) {
            0 => {}
            1.. => self.begin_anew(header.restart),
            _ => {
                self.stats.outdated += 1;
                return Err(Dropped::Outdated);
            }
        }
        if let Some(late) = &mut self.late {
            late.on_arrival(path.index(), now, header.sent, header.rtt);
        }
        let behind = header.seq.plus(1);
        if behind.ahead_of(self.reached) > 0 {
            self.reached = behind;
        }
        let before = self.next;
        if let Some(mender) = &mut self.mender
            && ahead >= 0
        {
            mender.keep(header.seq, &packet);
        }
        let stored = self.store(path, header, packet);
        self.mend(path, header, stored);
        self.pick();
        let picked = self.next.0.wrapping_sub(before.0);
        self.stats.delivered += u64::from(picked);
        let duplicate = stored == Err(Dropped::Old);
        if let Some(late) = &mut self.late
            && (picked > 0 || duplicate)
        {
            let una = self.stats.delivered;
            late.on_progress(una, una + self.reached.ahead_of(self.next).max(0) as u64, duplicate);
        }
        self.answer(now, path, picked, stored);
        if self.repair == Repair::Selective && self.trigger != Trigger::Timer {
            self.search(path, self.passed());
        }
        stored
    }

    /// A row of parity has come by `path`.
    ///
    /// # Errors
    /// Why it was dropped, which is counted as well.
    pub fn handle_parity(&mut self, now: Time, path: ChannelId, header: &Header, row: &[u8]) -> Result<(), Dropped> {
        if self.mender.is_none() || header.kind != Kind::Parity {
            self.stats.bad += 1;
            return Err(Dropped::Kind);
        }
        if path.index() >= self.lines.len() {
            self.stats.bad += 1;
            return Err(Dropped::Path);
        }
        if !self.follows(header) {
            self.stats.other_streams += 1;
            return Err(Dropped::Stream);
        }
        let (Some(mender), Some(line)) = (&mut self.mender, self.lines.get_mut(path.index())) else {
            return Err(Dropped::Kind);
        };
        let taken = mender.on_row(self.next, header, row);
        match taken {
            Err(Dropped::Old) => self.stats.old += 1,
            Err(_) => {
                self.stats.bad += 1;
                return taken;
            }
            Ok(()) => self.stats.parity += 1,
        }
        (line.echo, line.told) = (Some((header.sent, now)), false);
        if let Some(late) = &mut self.late {
            late.on_arrival(path.index(), now, header.sent, header.rtt);
        }
        let before = self.next;
        self.mend(path, header, taken);
        self.pick();
        let picked = self.next.0.wrapping_sub(before.0);
        self.stats.delivered += u64::from(picked);
        self.owe(now, picked);
        taken
    }

    /// A packet or a row was taken: what it rebuilds goes the way of repeats.
    fn mend(&mut self, path: ChannelId, header: &Header, taken: Result<(), Dropped>) {
        let Some(mender) = &mut self.mender else { return };
        if taken == Err(Dropped::Full) {
            mender.forget(header.seq);
            return;
        }
        for (seq, octets) in mender.mend(header.seq) {
            let Some(packet) = P::read(&octets) else {
                self.stats.bad += 1;
                continue;
            };
            let rebuilt = Header { kind: Kind::Repeat, seq, ..*header };
            // Another row of the block may come.
            self.mender.iter_mut().for_each(|mender| mender.keep(seq, &packet));
            match self.store(path, &rebuilt, packet) {
                Ok(()) => self.stats.rebuilt += 1,
                Err(Dropped::Full) => self.mender.iter_mut().for_each(|mender| mender.forget(seq)),
                Err(_) => {}
            }
        }
    }

    /// Whether a packet is of the stream that this receiver follows.
    fn follows(&mut self, header: &Header) -> bool {
        match self.stream {
            _ if self.replaced.is_some() => false,
            Some(stream) if stream == header.stream => true,
            Some(stream) => {
                let later = header.stream.wrapping_sub(stream) as i32 > 0;
                self.replaced = (later && header.opening).then_some(header.stream);
                false
            }
            None => {
                self.stream = header.opening.then_some(header.stream);
                header.opening
            }
        }
    }

    /// Why it has ended, if it has.
    pub fn failed(&self) -> Option<Replaced> {
        Some(Replaced { before: self.stream?, after: self.replaced? })
    }

    /// A packet has come by `path` for which there is no room behind this receiver: it counts as lost, and as a full buffer.
    pub fn handle_refused(&mut self, now: Time, path: ChannelId, header: &Header) {
        self.stats.full += 1;
        if let Some(line) = self.lines.get_mut(path.index()) {
            (line.echo, line.told) = (Some((header.sent, now)), false);
            if self.trigger != Trigger::Timer {
                self.requests.push_back(Answer { kind: Kind::Request, path, missing: (self.next, 1) });
            }
        }
    }

    /// Go-back-N has begun anew: what waits will come again, and would stand before it.
    fn begin_anew(&mut self, restart: u8) {
        self.restart = restart;
        for line in &mut self.lines {
            self.stats.emptied += line.fifo.len() as u64;
            line.fifo.clear();
            line.last = None;
        }
        self.stats.emptied += self.repeats.len() as u64;
        self.repeats.clear();
        self.searched = self.next;
    }

    fn store(&mut self, path: ChannelId, header: &Header, packet: P) -> Result<(), Dropped> {
        let room = self.reorder_packets * self.lines.len();
        let line = &mut self.lines[path.index()];
        let repeat = header.kind == Kind::Repeat;
        if !repeat {
            // Who rebuilds nothing waits for no rows.
            let covers = if self.mender.is_some() { header.covers } else { 0 };
            line.last = Some(header.seq.minus(covers.into()));
        }
        let ahead = header.seq.ahead_of(self.next);
        if ahead < 0 {
            self.stats.old += 1;
            return Err(Dropped::Old);
        }
        if ahead == 0 && (repeat || line.fifo.is_empty()) {
            // Picked as it comes.
            self.next = self.next.plus(1);
            self.delivered.push_back(packet);
            return Ok(());
        }
        if repeat {
            let place = self.repeats.partition_point(|one| one.seq.ahead_of(header.seq) < 0);
            if self.repeats.get(place).is_some_and(|one| one.seq == header.seq) {
                self.stats.old += 1;
                return Err(Dropped::Old);
            }
            if self.repeats.len() >= room {
                self.stats.full += 1;
                return Err(Dropped::Full);
            }
            self.repeats.insert(place, Waiting { seq: header.seq, sent: header.sent, packet });
            return Ok(());
        }
        if line.fifo.len() >= self.reorder_packets {
            self.stats.full += 1;
            return Err(Dropped::Full);
        }
        line.fifo.push_back(Waiting { seq: header.seq, sent: header.sent, packet });
        self.stats.most_held = self.stats.most_held.max(line.fifo.len() as u64);
        Ok(())
    }

    /// Figure 7, `while`: picks from the heads what comes next.
    fn pick(&mut self) {
        loop {
            let mut found = None;
            for fifo in self.lines.iter_mut().map(|line| &mut line.fifo).chain([&mut self.repeats]) {
                while fifo.front().is_some_and(|one| one.seq.ahead_of(self.next) < 0) {
                    fifo.pop_front();
                    self.stats.old += 1;
                }
                if fifo.front().is_some_and(|one| one.seq == self.next) {
                    found = fifo.pop_front();
                    break;
                }
            }
            let Some(one) = found else { return };
            self.next = self.next.plus(1);
            self.delivered.push_back(one.packet);
        }
    }

    /// Something has come, by which so many packets were picked: an acknowledgment is due.
    fn owe(&mut self, now: Time, picked: u32) {
        let counts = if self.by_arrivals { 1 } else { picked };
        if counts > 0 {
            self.pending += counts;
            let delay = self.ack_delay;
            self.due.get_or_insert(now + delay);
        }
    }

    /// Figure 7, from `if (proceed)` on.
    fn answer(&mut self, now: Time, path: ChannelId, picked: u32, stored: Result<(), Dropped>) {
        self.owe(now, picked);
        if picked > 0 {
            return;
        }
        let old = stored == Err(Dropped::Old);
        let holds = |(n, line): (usize, &Line<P>)| !line.fifo.is_empty() || (old && n == path.index());
        let full =
            stored == Err(Dropped::Full) || self.lines.iter().any(|line| line.fifo.len() >= self.reorder_packets);
        let all = self.lines.iter().enumerate().all(holds);
        if self.trigger != Trigger::Timer && (full || (all && (old || self.is_hopeless()))) {
            let kind = if old { Kind::Ack } else { Kind::Request };
            // What overflows cannot be told number by number as fast as it comes.
            let overflows = self.repair == Repair::Selective && stored == Err(Dropped::Full);
            let missing = (self.next, if overflows { 0 } else { self.first_run() });
            self.requests.push_back(Answer { kind, path, missing });
        } else if old {
            // The sender missed an acknowledgment.
            let delay = self.ack_delay;
            self.due.get_or_insert(now + delay);
        }
    }

    /// Whether parity will not bring what comes next any more.
    fn is_hopeless(&self) -> bool {
        self.mender.is_none() || self.passed().is_some_and(|passed| passed.ahead_of(self.next) > 0)
    }

    /// How many numbers are missing from `next` on, as far as the heads tell.
    fn first_run(&self) -> u16 {
        let run = self.heads().map(|one| one.seq.ahead_of(self.next)).min().unwrap_or(1);
        // Repeats are among the heads, and what they stand before need not be lost.
        let passed = self.passed().map_or(1, |passed| passed.ahead_of(self.next));
        u16::try_from(run.min(passed).max(1)).unwrap_or(u16::MAX)
    }

    fn heads(&self) -> impl Iterator<Item = &Waiting<P>> {
        self.lines.iter().filter_map(|line| line.fifo.front()).chain(self.repeats.front())
    }

    /// The number that all paths have passed: what is missing before it is lost.
    fn passed(&self) -> Option<Seq> {
        let lasts = self.lines.iter().map(|line| line.last);
        let first = self.next;
        lasts.reduce(|a, b| Some(if a?.ahead_of(first) < b?.ahead_of(first) { a? } else { b? })).flatten()
    }

    /// Asks for what has been found lost since the last time, beyond the first gap.
    fn search(&mut self, path: ChannelId, passed: Option<Seq>) {
        let Some(passed) = passed else { return };
        if self.searched.ahead_of(self.next) < 0 {
            self.searched = self.next;
        }
        let mut run: Option<(Seq, u16)> = None;
        while self.searched.ahead_of(passed) < 0 {
            let seq = self.searched;
            self.searched = seq.plus(1);
            match (&mut run, self.holds(seq)) {
                (Some((_, count)), false) if *count < u16::MAX => *count += 1,
                (_, false) => self.ask(path, run.replace((seq, 1))),
                (_, true) => self.ask(path, run.take()),
            }
        }
        self.ask(path, run);
    }

    fn ask(&mut self, path: ChannelId, run: Option<(Seq, u16)>) {
        if let Some(missing) = run {
            self.requests.push_back(Answer { kind: Kind::Request, path, missing });
        }
    }

    fn holds(&self, seq: Seq) -> bool {
        let order = |one: &Waiting<P>| one.seq.ahead_of(seq).cmp(&0);
        self.lines.iter().any(|line| line.fifo.binary_search_by(order).is_ok())
            || self.repeats.binary_search_by(order).is_ok()
    }

    /// When what is missing is late, if something waits for it.
    fn late_at(&self) -> Option<Time> {
        let late = self.late.as_ref()?;
        let wait = self.mender.as_ref().map_or(Span::ZERO, Mender::wait);
        self.heads().map(|one| late.due(one.sent) + wait).min()
    }

    /// Asks for what is late; with selective repair for all of it.
    fn ask_for_late(&mut self, now: Time) {
        let path = self.turn();
        let missing = (self.next, self.first_run());
        self.requests.push_back(Answer { kind: Kind::Request, path, missing });
        let Some(late) = &mut self.late else { return };
        late.on_asked(now);
        if self.repair == Repair::Selective {
            let wait = self.mender.as_ref().map_or(Span::ZERO, Mender::wait);
            let overdue = |line: &Line<P>| {
                let count = line.fifo.partition_point(|one| late.deadline(one.sent) + wait <= now);
                count.checked_sub(1).map(|last| line.fifo[last].seq)
            };
            let first = self.next;
            let last = self.lines.iter().filter_map(overdue).max_by_key(|seq| seq.ahead_of(first));
            self.search(path, last);
        }
    }

    /// The next packet in order.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        self.delivered.pop_front()
    }

    /// The next acknowledgment that goes now, by the path that it names.
    pub fn poll_ack(&mut self, now: Time) -> Option<Header> {
        if self.requests.is_empty() && self.late_at().is_some_and(|at| at <= now) {
            self.ask_for_late(now);
        }
        let answer = match self.requests.pop_front() {
            Some(answer) => {
                self.stats.requests += u64::from(answer.kind == Kind::Request);
                self.stats.acks += u64::from(answer.kind == Kind::Ack);
                (self.pending, self.due) = (0, None);
                answer
            }
            None if self.pending >= self.ack_packets || self.due.is_some_and(|due| due <= now) => {
                (self.pending, self.due) = (0, None);
                self.stats.acks += 1;
                Answer { kind: Kind::Ack, path: self.turn(), missing: (Seq(0), 0) }
            }
            None => return None,
        };
        let missing = if answer.kind == Kind::Request { answer.missing } else { (Seq(0), 0) };
        let line = &mut self.lines[answer.path.index()];
        line.told = true;
        let (sent, came) = line.echo.unwrap_or((Time::ZERO, now));
        Some(Header {
            kind: answer.kind,
            restart: self.restart,
            path: answer.path,
            seq: self.next.before(),
            sent,
            held: now.since(came),
            received: Time::ZERO,
            rtt: Span::ZERO,
            stream: self.stream.unwrap_or(0),
            opening: false,
            missing,
            covers: 0,
            row: 0,
        })
    }

    /// The next path in turn with an arrival that was not told yet.
    fn turn(&mut self) -> ChannelId {
        let count = self.lines.len();
        let untold = (0..count).map(|n| (self.turn + n) % count).find(|n| !self.lines[*n].told);
        let path = untold.unwrap_or(self.turn);
        self.turn = (path + 1) % count;
        ChannelId(path as u8)
    }

    /// When [`Receiver::poll_ack`] has something, if nothing comes before.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.due, self.late_at()].into_iter().flatten().min()
    }

    /// Whether a packet that is not next would find room in its path's buffer.
    #[inline]
    pub fn has_room(&self, path: ChannelId) -> bool {
        self.lines.get(path.index()).is_some_and(|line| line.fifo.len() < self.reorder_packets)
    }

    /// nextSEQ.
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Reorder buffers.
    pub fn reorder_buffers(&self) -> usize {
        self.lines.len()
    }

    /// Packets in the buffers.
    pub fn held(&self) -> usize {
        self.lines.iter().map(|line| line.fifo.len()).sum::<usize>() + self.repeats.len()
    }

    /// What was counted.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }
}
