//! The sender: one numbering and one retransmission buffer for all paths.
//!
//! Source: efl-mp 3.1 to 3.4: go-back-N, fast retransmission by the acknowledgment that asks for it, and the retransmission
//! timeout (RFC 6298, `loss/rtt.rs`).
//!
//! | paper | here |
//! |---|---|
//! | retransmission buffer | `buffer`; the first packet's number is `first` |
//! | go-back-N | `cursor` goes back to the first packet; `restart` counts |
//! | round robin (3.4), rate control (3.3) | `ways.rs` |
//!
//! One restart a gap: a request is heeded only if its receiver has seen the last restart, and if that is a round trip of the
//! slowest path ago. What is asked for until then is of the same gap, or was asked for because a buffer was full while the slowest
//! path still had what was missing; restarts for that would follow one another for ever.
//!
//! Selective repair: what is asked for is sent once, before new packets, on the path with the shortest round trip. It is sent
//! again only if a request returns a later TXTS of the same path: paths keep order, so what is missing then is lost. Where a buffer
//! overflows, all that comes until the repeat does is lost as well, and go-back-N is the shorter way.
//!
//! Option `probes`: when nothing was heard for two round trips the last packet goes again by every path (TLP, RFC 8985, 7), so that the
//! receiver's buffers show what is missing before it. Option `failover`: `ways.rs` says which path is down; what it had goes by others,
//! and the first packet goes to it now and then, until it answers.
//!
//! Option `parity`: `cover.rs` says which rows go when. They are paced like packets, and go though a window is full.
//!
//! Hostile or broken peers: an acknowledgment for what was never sent is an error and changes nothing; so is a TXTS that was
//! not sent on that path, as far as the round trip goes. Old acknowledgments move nothing. Who never acknowledges fills a buffer
//! of fixed size, and after `give_up` timeouts in a row the sender has ended ([`Sender::failed`]). Acknowledgments of another start of
//! a sender ([`Sender::with_stream`]) are refused.
//!
//! Cost: O(1) a packet, O(N) an acknowledgment for N paths. Invariants: `first` to `first + sent` were sent, `cursor <= sent`;
//! something unacknowledged has a timeout.

use super::config::{Config, Repair};
use super::cover::Cover;
use super::frame::{Header, Kind};
use super::octets::Octets;
use super::ways::{Echo, Ways};
use super::{MOST_PACKETS, Seq, restarts_ahead};
use crate::loss::rack::{ProbeTimer, TailProbe};
use crate::loss::rtt::{self, Rtt};
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::collections::VecDeque;
use thiserror::Error;

/// The sending end of a flow.
#[derive(Debug)]
pub struct Sender<P> {
    repair: Repair,
    most: usize,
    give_up: u32,
    buffer: VecDeque<Held<P>>,
    first: Seq,
    /// Of the packets in the buffer those before it are under way or arrived, as far as this restart goes.
    cursor: usize,
    /// Of the packets in the buffer those before it were sent at least once.
    sent: usize,
    restart: u8,
    /// When it last began anew; requests are heeded a round trip later.
    restarted: Option<Time>,
    /// Numbers to be sent again by themselves.
    repeats: VecDeque<Seq>,
    ways: Ways,
    stream: u32,
    /// No acknowledgment has come yet.
    opening: bool,
    cover: Option<Cover>,
    probes: Option<Probes>,
    rtt: Rtt,
    due: Option<Time>,
    expired: u32,
    /// When an acknowledgment last came, of whichever path.
    heard: Time,
    stats: SenderStats,
}

/// Probes for the tail.
#[derive(Debug)]
struct Probes {
    tail: TailProbe,
    ack_delay: Span,
    due: Option<Time>,
    /// The paths by which the last packet is still to go.
    paths: u64,
}

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A packet, by the path whose turn it is.
    Next,
    /// What is asked for.
    Repeat,
    /// A row of parity.
    Parity,
    /// The last packet, to show what is missing before it.
    Probe,
    /// The first one, to a path that is down.
    Knock,
}

#[derive(Debug)]
struct Held<P> {
    packet: P,
    size: u32,
    /// Where and when it was last sent by itself; the number waits in `repeats` where the time is none.
    repeated: Option<(ChannelId, Option<Time>)>,
}

/// A frame to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Transmit<'a, P> {
    /// Where.
    pub path: ChannelId,
    /// What goes first.
    pub header: Header,
    /// What follows.
    pub content: Content<'a, P>,
    /// All of it on the wire.
    pub size: Bytes,
}

/// What follows a header.
#[derive(Debug, PartialEq, Eq)]
pub enum Content<'a, P> {
    /// A packet, which stays the sender's until it is acknowledged.
    Packet(&'a P),
    /// A row of parity.
    Parity(&'a [u8]),
}

impl<'a, P> Transmit<'a, P> {
    /// The packet, if it is one.
    #[inline]
    pub fn packet(&self) -> Option<&'a P> {
        match self.content {
            Content::Packet(packet) => Some(packet),
            Content::Parity(_) => None,
        }
    }
}

/// What is wrong with an acknowledgment. All but the last leave the sender as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AckError {
    /// It is none.
    #[error("a frame of kind {kind:?} came where acknowledgments come")]
    Kind {
        /// What it is.
        kind: Kind,
    },
    /// It is for a number that was never sent.
    #[error("number {} was acknowledged and never sent; the next is {}", .seq.0, .next.0)]
    NeverSent {
        /// What it acknowledges.
        seq: Seq,
        /// The number of the next new packet.
        next: Seq,
    },
    /// It is of another start of a sender.
    #[error("an acknowledgment of stream {found} has come; this sender's is {own}")]
    Stream {
        /// What it is of.
        found: u32,
        /// This sender's.
        own: u32,
    },
    /// Nothing was sent on that path at the time that it returns, or it was held for longer than that. The rest of it counts.
    #[error("path {path} has sent nothing at {} ns, or was answered before", .sent.as_nanos())]
    Timestamp {
        /// The path.
        path: ChannelId,
        /// TXTS.
        sent: Time,
    },
}

/// The peer acknowledged nothing for so many timeouts in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("packet {} was sent {timeouts} times and never acknowledged; the peer is gone or has begun anew, or no path carries both ways", .first.0)]
pub struct Unacknowledged {
    /// The first packet that was not acknowledged.
    pub first: Seq,
    /// Timeouts in a row.
    pub timeouts: u32,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent for the first time.
    pub packets: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// How often go-back-N has begun anew for a request.
    pub restarts: u64,
    /// How often the timer ran out.
    pub timeouts: u64,
    /// Acknowledgments.
    pub acks: u64,
    /// Of these requests.
    pub requests: u64,
    /// Of these for what was acknowledged before.
    pub old: u64,
    /// Acknowledgments for what was never sent.
    pub never_sent: u64,
    /// Timestamps from nowhere.
    pub false_timestamps: u64,
    /// Acknowledgments of other starts of a sender.
    pub other_streams: u64,
    /// Rows of parity.
    pub parity: u64,
    /// Packets sent as probes for the tail.
    pub probes: u64,
    /// How often a path was found down.
    pub downs: u64,
    /// How often one has answered again.
    pub ups: u64,
}

impl<P: Octets> Sender<P> {
    /// A sender over `paths` paths, 1 to 64, whose first number is `first`.
    pub fn new(config: &Config, paths: usize, first: Seq) -> Sender<P> {
        let most = config.retransmission_packets.clamp(1, MOST_PACKETS as usize);
        let rtt = rtt::Config {
            initial: config.timeout_initial,
            minimum: config.timeout_min,
            maximum: config.timeout_max.max(config.timeout_min),
            granularity: Span::from_micros(1),
            tick: Span::ZERO,
        };
        Sender {
            repair: config.repair,
            most,
            give_up: config.give_up.max(1),
            buffer: VecDeque::new(),
            first,
            cursor: 0,
            sent: 0,
            restart: 0,
            restarted: None,
            repeats: VecDeque::new(),
            ways: Ways::new(config, paths),
            stream: 0,
            opening: true,
            cover: Cover::new(config),
            probes: config.probes.then(|| Probes {
                tail: TailProbe::default(),
                ack_delay: config.ack_delay,
                due: None,
                paths: 0,
            }),
            rtt: Rtt::new(&rtt),
            due: None,
            expired: 0,
            heard: Time::ZERO,
            stats: SenderStats::default(),
        }
    }

    /// Says which start of the sender this is: a number that is later, in serial arithmetic, than at the last start, such as seconds
    /// since an epoch. A receiver does not mix the packets of two.
    #[must_use]
    pub fn with_stream(mut self, stream: u32) -> Sender<P> {
        self.stream = stream;
        self
    }

    /// Whether another packet finds room in the retransmission buffer.
    #[inline]
    pub fn wants_packet(&self) -> bool {
        self.buffer.len() < self.most && self.failed().is_none()
    }

    /// Packets that have not been sent yet, or are to be sent again, and rows of parity that wait.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.buffer.len() - self.cursor + self.repeats.len() + self.cover.as_ref().map_or(0, Cover::rows)
    }

    /// Takes a packet of `size` bytes on the wire.
    ///
    /// # Errors
    /// The packet, where [`Sender::wants_packet`] says no.
    pub fn handle_packet(&mut self, packet: P, size: Bytes) -> Result<(), P> {
        if !self.wants_packet() {
            return Err(packet);
        }
        self.buffer.push_back(Held { packet, size: size.as_u64() as u32, repeated: None });
        Ok(())
    }

    /// An acknowledgment has come.
    ///
    /// # Errors
    /// [`AckError`], which is counted as well.
    pub fn handle_ack(&mut self, now: Time, ack: &Header) -> Result<(), AckError> {
        if !matches!(ack.kind, Kind::Ack | Kind::Request) {
            return Err(AckError::Kind { kind: ack.kind });
        }
        if ack.stream != self.stream {
            self.stats.other_streams += 1;
            return Err(AckError::Stream { found: ack.stream, own: self.stream });
        }
        let acked = ack.seq.plus(1).ahead_of(self.first);
        if acked > self.sent as i32 {
            self.stats.never_sent += 1;
            return Err(AckError::NeverSent { seq: ack.seq, next: self.first.plus(self.sent as u32) });
        }
        self.stats.acks += 1;
        self.opening = false;
        if acked > 0 {
            self.release(now, acked as usize);
        } else if acked < 0 {
            self.stats.old += 1;
        }
        let echo = self.ways.on_ack(now, (ack.path, ack.sent), ack.held, self.first);
        if let Echo::Fresh(_) = echo {
            // The timer waits for the acknowledgment, not for the packet's arrival.
            self.rtt.on_sample(now.since(ack.sent));
            self.heard = now;
            if self.ways.on_answer(ack.path) {
                self.stats.ups += 1;
            }
        }
        if let Some(probes) = &mut self.probes {
            if let Echo::Fresh(_) = echo {
                probes.tail.on_rtt();
            }
            if acked > 0 {
                probes.tail.cancel();
                probes.paths = 0;
            }
            self.await_tail(now);
        }
        self.check_paths(now);
        if ack.kind == Kind::Request && restarts_ahead(ack.restart, self.restart) == 0 {
            self.stats.requests += 1;
            if self.repair == Repair::Selective && ack.missing.1 > 0 {
                self.repeat(now, ack);
            } else if acked >= 0 && self.cursor > 0 && self.may_restart(now) {
                self.stats.restarts += 1;
                if ack.missing.1 > 0 {
                    self.miss(self.first);
                }
                let bytes = self.buffer.front().map_or(0, |held| u64::from(held.size));
                self.ways.on_lost(now, bytes, true);
                self.begin_anew(now);
            }
        }
        if echo == Echo::False {
            self.stats.false_timestamps += 1;
            return Err(AckError::Timestamp { path: ack.path, sent: ack.sent });
        }
        Ok(())
    }

    /// The first `count` packets are acknowledged.
    fn release(&mut self, now: Time, count: usize) {
        self.buffer.drain(..count);
        self.first = self.first.plus(count as u32);
        self.sent -= count;
        self.cursor = self.cursor.saturating_sub(count);
        self.repeats.retain(|seq| seq.ahead_of(self.first) >= 0);
        self.cover.iter_mut().for_each(|cover| cover.on_acked(self.first));
        self.expired = 0;
        self.rtt.reset_backoff();
        self.due = (self.sent > 0).then(|| now + self.rtt.timeout());
    }

    fn may_restart(&self, now: Time) -> bool {
        self.restarted.is_none_or(|restarted| now >= restarted + self.ways.slowest())
    }

    /// Go-back-N: everything that is not acknowledged goes again.
    fn begin_anew(&mut self, now: Time) {
        self.restarted = Some(now);
        self.restart = self.restart.wrapping_add(1);
        self.cursor = 0;
        self.repeats.clear();
        self.buffer.iter_mut().take(self.sent).for_each(|held| held.repeated = None);
    }

    /// A packet is missing at the receiver in spite of its parity.
    fn miss(&mut self, seq: Seq) {
        self.cover.iter_mut().for_each(|cover| cover.on_asked(seq));
    }

    /// A run of numbers was missing at the receiver when it got what this returns.
    fn repeat(&mut self, now: Time, request: &Header) {
        let (from, count) = request.missing;
        let ahead = from.ahead_of(self.first);
        let range = ahead.max(0) as usize..ahead.saturating_add(i32::from(count)).clamp(0, self.cursor as i32) as usize;
        let mut lost = 0;
        for place in range {
            let held = &mut self.buffer[place];
            let again = match held.repeated {
                None => true,
                Some((_, None)) => false,
                Some((path, Some(sent))) => path == request.path && request.sent > sent,
            };
            let once = held.repeated.is_none();
            if again {
                held.repeated = Some((ChannelId(0), None));
                let seq = self.first.plus(place as u32);
                self.repeats.push_back(seq);
                lost += u64::from(held.size);
                if once {
                    self.miss(seq);
                }
            }
        }
        if lost > 0 {
            self.ways.on_lost(now, lost, true);
        }
    }

    /// Whether there is something that may go now, but for the pace; what it is: the packet's place, and its path.
    fn next(&mut self) -> Option<(Turn, usize, ChannelId)> {
        self.failed().is_none().then_some(())?;
        if let Some(seq) = self.repeats.front() {
            return Some((Turn::Repeat, seq.ahead_of(self.first) as usize, self.ways.fastest()));
        }
        if self.cover.as_ref().is_some_and(|cover| cover.rows() > 0) {
            return Some((Turn::Parity, 0, self.ways.emptiest()));
        }
        if let Some(probes) = &self.probes
            && probes.paths != 0
            && self.cursor > 0
        {
            return Some((Turn::Probe, self.cursor - 1, ChannelId(probes.paths.trailing_zeros() as u8)));
        }
        if self.sent > 0
            && let Some(path) = self.ways.to_knock()
        {
            return Some((Turn::Knock, 0, path));
        }
        let size = u64::from(self.buffer.get(self.cursor)?.size);
        Some((Turn::Next, self.cursor, self.ways.select(size)?))
    }

    /// From when on a new packet of `size` bytes could go, were there one; none while something else goes before it, or the window
    /// or the buffer is full.
    pub fn room_at(&mut self, now: Time, size: Bytes) -> Option<Time> {
        if self.unsent() > 0 || !self.wants_packet() {
            return None;
        }
        self.ways.select(size.as_u64())?;
        let at = self.ways.ready_at();
        if at > now {
            self.ways.hold();
        }
        Some(at)
    }

    /// The next frame that goes now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<'_, P>> {
        self.cover.iter_mut().for_each(|cover| cover.on_time(now));
        let (turn, place, path) = self.next()?;
        if self.ways.ready_at() > now {
            self.ways.hold();
            return None;
        }
        if turn == Turn::Parity {
            return self.transmit_row(now, path);
        }
        let seq = self.first.plus(place as u32);
        let held = &mut self.buffer[place];
        match turn {
            Turn::Next => self.cursor = place + 1,
            Turn::Repeat => {
                self.repeats.pop_front();
                held.repeated = Some((path, Some(now)));
            }
            Turn::Probe => {
                self.stats.probes += 1;
                self.probes.iter_mut().for_each(|probes| probes.paths &= probes.paths - 1);
            }
            Turn::Knock => self.ways.on_knocked(now, path),
            Turn::Parity => {}
        }
        if place >= self.sent {
            self.sent = place + 1;
            self.stats.packets += 1;
            self.cover.iter_mut().for_each(|cover| cover.on_sent(now, seq, &held.packet, held.size));
        } else {
            self.stats.retransmitted += 1;
        }
        self.ways.on_sent(now, path, seq, u64::from(held.size), turn == Turn::Next);
        let timeout = self.rtt.timeout();
        self.due.get_or_insert(now + timeout);
        if turn == Turn::Next {
            self.await_tail(now);
        }
        let kind = if matches!(turn, Turn::Repeat | Turn::Knock) { Kind::Repeat } else { Kind::Data };
        let covers = self.cover.as_ref().map_or(0, |cover| cover.before(seq));
        let header = Header { covers, ..self.header(now, kind, path, seq) };
        let Held { packet, size, .. } = &self.buffer[place];
        Some(Transmit { path, header, content: Content::Packet(packet), size: Bytes::new((*size).into()) })
    }

    /// The row of parity that goes now.
    fn transmit_row(&mut self, now: Time, path: ChannelId) -> Option<Transmit<'_, P>> {
        let waiting = self.cover.as_ref()?.waiting()?;
        let (first, covers, size) = (waiting.first, waiting.count, u64::from(waiting.size));
        self.stats.parity += 1;
        self.ways.on_parity(now, path, first.plus(u32::from(covers) - 1), size);
        let header = Header { covers, row: waiting.number, ..self.header(now, Kind::Parity, path, first) };
        let row = self.cover.as_mut()?.take();
        Some(Transmit { path, header, content: Content::Parity(row), size: Bytes::new(size) })
    }

    fn header(&self, now: Time, kind: Kind, path: ChannelId, seq: Seq) -> Header {
        Header {
            kind,
            restart: self.restart,
            path,
            seq,
            sent: now,
            held: Span::ZERO,
            received: self.heard,
            rtt: self.ways.rtt(path).unwrap_or(Span::ZERO),
            stream: self.stream,
            opening: self.opening,
            missing: (Seq(0), 0),
            covers: 0,
            row: 0,
        }
    }

    /// The time that [`Sender::poll_timeout`] gave has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.probe(now);
        self.check_paths(now);
        self.cover.iter_mut().for_each(|cover| cover.on_time(now));
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.expired += 1;
        self.stats.timeouts += 1;
        self.miss(self.first);
        self.ways.on_timeout(now, self.expired == 1);
        self.begin_anew(now);
        self.rtt.back_off();
        self.due = self.failed().is_none().then(|| now + self.rtt.timeout());
    }

    /// Something was sent or heard: the tail is probed when nothing is heard for two round trips from now on.
    fn await_tail(&mut self, now: Time) {
        let (outstanding, retransmission) = (self.cursor, self.due);
        let measured = self.rtt.smoothed();
        let Some(probes) = &mut self.probes else { return };
        let wanted = outstanding > 0 && self.repeats.is_empty() && probes.tail.allowed();
        probes.due = wanted.then(|| {
            let smoothed_rtt = (measured > Span::ZERO).then_some(measured);
            let (single, ack_delay) = (outstanding == 1, probes.ack_delay);
            probes.tail.timeout(now, &ProbeTimer { smoothed_rtt, single, ack_delay, retransmission })
        });
    }

    /// Nothing was heard for two round trips: the last packet goes again by all paths.
    fn probe(&mut self, now: Time) {
        let up = self.ways.up();
        let Some(probes) = &mut self.probes else { return };
        if probes.due.is_some_and(|due| due <= now) {
            probes.due = None;
            probes.paths = up;
            probes.tail.on_sent(u64::from(self.first.plus(self.cursor as u32).0), true);
        }
    }

    /// Paths that are found down: what was under way on them goes by others.
    fn check_paths(&mut self, now: Time) {
        while let Some(path) = self.ways.find_down(now) {
            self.stats.downs += 1;
            let selective = self.repair == Repair::Selective;
            if !selective && self.cursor > 0 {
                self.begin_anew(now);
            }
            for seq in self.ways.take_down(now, path) {
                let place = usize::try_from(seq.ahead_of(self.first)).unwrap_or(usize::MAX);
                if !selective || place >= self.cursor {
                    continue;
                }
                let held = &mut self.buffer[place];
                // What was sent again since by another path is on its way.
                if held.repeated.is_none_or(|(by, sent)| by == path && sent.is_some()) {
                    held.repeated = Some((ChannelId(0), None));
                    self.repeats.push_back(seq);
                }
            }
        }
    }

    /// When something is to be done: the timer runs out, or the pace lets a packet go.
    pub fn poll_timeout(&mut self) -> Option<Time> {
        let pace = self.next().map(|_| self.ways.ready_at());
        let probe = self.probes.as_ref().and_then(|probes| probes.due);
        let block = self.cover.as_ref().and_then(Cover::due);
        [self.due, pace, probe, block, self.ways.timeout()].into_iter().flatten().min()
    }

    /// Why it has ended, if it has.
    #[inline]
    pub fn failed(&self) -> Option<Unacknowledged> {
        (self.expired >= self.give_up).then_some(Unacknowledged { first: self.first, timeouts: self.expired })
    }

    /// The number of the first packet that is not acknowledged.
    pub fn first(&self) -> Seq {
        self.first
    }

    /// Packets in the retransmission buffer.
    pub fn held(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes under way.
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(self.ways.in_flight())
    }

    /// The rate at which it sends, once it is known.
    pub fn rate(&self) -> Option<Rate> {
        self.ways.rate()
    }

    /// Paths.
    pub fn paths(&self) -> usize {
        self.ways.count()
    }

    /// What was counted.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }
}
