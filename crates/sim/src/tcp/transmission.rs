//! Which segment goes out next.
//!
//! What it is: the sender's choice between sending again, sending new and waiting, and what each segment that goes out means for
//! the timers. Source: RFC 9293, 3.8.6.1 (zero windows), 3.8.6.2.1 (silly windows), 3.7.4 (Nagle); RFC 5681, 4.1 (idle); RFC
//! 6675, section 4 (NextSeg); RFC 8985, 7 (tail probe).
//!
//! | RFC 9293, 3.8.6.2.1 | here |
//! |---|---|
//! | D, U | bytes queued, `room` |
//! | Eff.snd.MSS, Fs | `mss`, 1/2 |
//!
//! Departures: a zero-window probe is one byte of new data that is not kept as sent; its ACK moves SND.NXT. A FIN goes
//! out after the last byte whatever the windows say. Cost: O(1) a segment.

use super::acknowledgment::stamp;
use super::config::{LossDetection, Nagle};
use super::phase::Phase;
use super::sender::Sender;
use fairspan_core::congestion::{Law, Sent};
use fairspan_core::loss::delivery_rate::Stamp;
use fairspan_core::loss::rack::ProbeTimer;
use fairspan_core::loss::scoreboard::RETRANSMITTED;
use fairspan_core::units::{Bytes, Span, Time};

/// A segment to send: positions from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub start: u64,
    /// Bytes of payload.
    pub length: u32,
    pub syn: bool,
    pub fin: bool,
    pub push: bool,
    /// Whether it went before.
    pub again: bool,
}

impl Sender {
    /// The next segment that the stream has to send. `open`: data may be sent, not only the SYN.
    #[inline]
    pub(super) fn poll(&mut self, now: Time, open: bool) -> Option<Outgoing> {
        if self.board.waiting() > 0
            && let Some(outgoing) = self.send_lost(now)
        {
            return Some(outgoing);
        }
        if self.syn_pending {
            self.syn_pending = false;
            self.syn_stamp = stamp(now);
            self.put_on_board(now, 1, 1);
            self.next = 1;
            self.timed = Some((1, now));
            return Some(Outgoing { start: 0, length: 0, syn: true, fin: false, push: false, again: false });
        }
        if !open {
            return None;
        }
        if self.probe_window {
            self.probe_window = false;
            if let Some(outgoing) = self.send_window_probe(now) {
                return Some(outgoing);
            }
        }
        if self.tail_now {
            self.tail_now = false;
            return self.send_tail_probe(now);
        }
        if self.board.waiting() > 0 {
            // New data does not pass what has to be sent again: RFC 6675, NextSeg, rule 1 before rule 2.
            self.limited = true;
            return None;
        }
        if let Some(outgoing) = self.send_new(now) {
            return Some(outgoing);
        }
        if self.phase == Phase::Recovery && self.loss == LossDetection::Sack && !self.limited {
            return self.send_doubtful(now);
        }
        None
    }

    fn send_lost(&mut self, now: Time) -> Option<Outgoing> {
        let index = self.board.next_lost()?;
        let length = u64::from(self.board.get(index)?.length);
        if !self.forced && self.board.in_flight() + length > self.congestion_window().max(self.mss) {
            return None;
        }
        if !self.forced && self.waits_its_turn(now) {
            return None;
        }
        self.forced = false;
        Some(self.send_again(now, index))
    }

    fn send_again(&mut self, now: Time, index: usize) -> Outgoing {
        let in_flight = self.board.in_flight();
        let stamp = self.stamp(now, false);
        let sent = self.board.retransmit(index, now, stamp);
        // The SYN is the first position, the FIN the one after the last byte.
        let (syn, fin) = (sent.start() == 0, sent.end > self.end);
        let length = sent.length - u32::from(syn) - u32::from(fin);
        self.stats.retransmitted += 1;
        self.stats.bytes_retransmitted += u64::from(length);
        // RFC 6298 §3, Karn: a segment sent twice cannot be timed.
        self.timed = None;
        self.undo_pending += 1;
        self.reduction.sent += u64::from(sent.length);
        self.on_sent(now, in_flight, sent.bytes, sent.end);
        Outgoing { start: sent.start(), length, syn, fin, push: length > 0 && sent.end >= self.end, again: true }
    }

    /// RFC 6675, NextSeg, rules 3 and 4: nothing new can be sent, so what may be lost is.
    fn send_doubtful(&mut self, now: Time) -> Option<Outgoing> {
        if self.board.in_flight() + self.mss > self.congestion_window() || self.waits_its_turn(now) {
            return None;
        }
        if let Some(index) = self.board.next_doubtful() {
            return Some(self.send_again(now, index));
        }
        if self.rescued_to <= self.una
            && let Some(index) = self.board.last_unsacked()
            && !self.board.get(index)?.is(RETRANSMITTED)
        {
            self.rescued_to = self.recover.max(self.una + 1);
            return Some(self.send_again(now, index));
        }
        None
    }

    fn send_new(&mut self, now: Time) -> Option<Outgoing> {
        self.limited = false;
        let queued = self.end.saturating_sub(self.next);
        if queued == 0 {
            let fin = self.closed && !self.fin_sent && self.next == self.end;
            if !fin {
                self.on_nothing_to_send();
            }
            return fin.then(|| self.push_segment(now, 0));
        }
        let room = (self.una + self.window).saturating_sub(self.next);
        let mut length = queued.min(self.mss).min(room);
        let mut whole = queued;
        if self.segment_per_write {
            while self.writes.front().is_some_and(|end| *end <= self.next) {
                self.writes.pop_front();
            }
            if let Some(end) = self.writes.front() {
                whole = end - self.next;
                length = length.min(whole);
            }
        }
        if length < self.mss && !self.is_worth_sending(length, whole, queued) {
            if self.board.is_empty() && self.persist_at == Time::MAX && length < whole {
                self.persist_at = now + self.persist_delay(length);
            }
            self.on_nothing_to_send();
            return None;
        }
        if self.board.is_empty() {
            self.restart_after_idle(now);
        }
        // RFC 5681 §3.1: never beyond cwnd.
        if self.board.in_flight() + length > self.congestion_window() {
            self.limited = true;
            return None;
        }
        if self.waits_its_turn(now) {
            return None;
        }
        Some(self.push_segment(now, length as u32))
    }

    /// Whether the pacing rate holds back the segment that could go now. What repairs a loss first, probes and what has no
    /// payload does not wait.
    fn waits_its_turn(&mut self, now: Time) -> bool {
        let waits = self.pacing && self.paced_to > now;
        if waits {
            self.pace_at = self.paced_to;
        }
        waits
    }

    /// The application, or the peer's window, and not the congestion window leaves nothing to send.
    fn on_nothing_to_send(&mut self) {
        if self.delivery_rate.is_none() {
            return;
        }
        let (in_flight, window) = (self.board.in_flight(), self.congestion_window());
        if let Some(rate) = &mut self.delivery_rate
            && in_flight < window
        {
            rate.on_app_limited(in_flight);
        }
    }

    /// RFC 9293, 3.8.6.2.1, for a segment below the full size; `whole`: what the application wants to go as one.
    fn is_worth_sending(&self, length: u64, whole: u64, queued: u64) -> bool {
        let idle = self.next == self.una;
        if length == 0 {
            return false;
        }
        if length == whole {
            // (2), with Nagle's condition; the last segment before the FIN does not wait.
            return match self.nagle {
                Nagle::Off => true,
                _ if self.closed && whole == queued => true,
                Nagle::On => idle,
                Nagle::Minshall => self.small_end <= self.una,
            };
        }
        // (3)
        (idle || self.nagle == Nagle::Off) && length >= self.window_maximum.div_ceil(2)
    }

    fn persist_delay(&mut self, length: u64) -> Span {
        if length > 0 {
            // RFC 9293, 3.8.6.2.1, (4): the override.
            return self.silly_override;
        }
        // RFC 9293, 3.8.6.1: first after a retransmission timeout, then exponentially.
        self.persist_span = if self.persist_span == Span::ZERO {
            self.rtt.fresh_timeout()
        } else {
            self.persist_span.times(2).min(self.rtt.maximum())
        };
        self.persist_span
    }

    fn send_window_probe(&mut self, now: Time) -> Option<Outgoing> {
        let queued = self.end.saturating_sub(self.next);
        if queued == 0 || !self.board.is_empty() {
            return None;
        }
        let room = (self.una + self.window).saturating_sub(self.next);
        if room > 0 {
            return Some(self.push_segment(now, queued.min(self.mss).min(room) as u32));
        }
        self.stats.window_probes += 1;
        self.probed_to = self.next + 1;
        self.persist_at = now + self.persist_delay(0);
        Some(Outgoing { start: self.next, length: 1, syn: false, fin: false, push: queued == 1, again: true })
    }

    /// RFC 8985, 7.3: new data if the peer's window lets it, else the last segment again.
    fn send_tail_probe(&mut self, now: Time) -> Option<Outgoing> {
        let queued = self.end.saturating_sub(self.next);
        let room = (self.una + self.window).saturating_sub(self.next);
        let length = queued.min(self.mss);
        let outgoing = if length > 0 && length <= room {
            let outgoing = self.push_segment(now, length as u32);
            self.tail.on_sent(self.next, false);
            outgoing
        } else {
            let index = self.board.last_unsacked()?;
            let outgoing = self.send_again(now, index);
            self.tail.on_sent(self.next, true);
            outgoing
        };
        self.stats.probes += 1;
        self.tail_at = Time::MAX;
        self.retransmit_at = now + self.rtt.timeout();
        Some(outgoing)
    }

    fn push_segment(&mut self, now: Time, length: u32) -> Outgoing {
        let start = self.next;
        let last = start + u64::from(length) == self.end;
        let fin = last && self.closed;
        self.next += u64::from(length) + u64::from(fin);
        self.fin_sent |= fin;
        if u64::from(length) < self.mss {
            self.small_end = self.next;
        }
        self.put_on_board(now, self.next, length + u32::from(fin));
        if self.timed.is_none() {
            self.timed = Some((self.next, now));
        }
        if self.persist_at != Time::MAX {
            self.stop_persisting();
        }
        self.reduction.sent += u64::from(length);
        self.arm_tail_probe(now);
        Outgoing { start, length, syn: false, fin, push: last && length > 0, again: false }
    }

    /// A segment of `length` positions up to `end` goes out for the first time.
    #[inline(always)]
    fn put_on_board(&mut self, now: Time, end: u64, length: u32) {
        let in_flight = self.board.in_flight();
        let stamp = self.stamp(now, self.board.is_empty());
        self.board.push(now, end, length, length, stamp);
        self.on_sent(now, in_flight, length, end);
    }

    #[inline]
    fn stamp(&mut self, now: Time, idle: bool) -> Stamp {
        self.delivery_rate.as_mut().map(|rate| rate.on_sent(now, idle)).unwrap_or_default()
    }

    #[inline]
    fn on_sent(&mut self, now: Time, in_flight: u64, bytes: u32, end: u64) {
        self.last_sent = now;
        let bytes = Bytes::new(u64::from(bytes));
        self.law.on_sent(&Sent { now, bytes, in_flight: Bytes::new(in_flight), end });
        if self.pacing
            && let Some(rate) = self.law.pacing_rate()
        {
            self.paced_to = self.paced_to.max(now) + rate.transmit_time(bytes);
        }
        // RFC 6298 (5.1)
        if self.retransmit_at == Time::MAX {
            self.retransmit_at = now + self.rtt.timeout();
        }
    }

    /// RFC 5681 §4.1: more than a retransmission timeout without sending.
    fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.last_sent);
        if self.restart_after_idle && idle > self.rtt.timeout() {
            self.law.on_idle(idle);
        }
    }

    /// RFC 8985, 7.2.
    pub(super) fn arm_tail_probe(&mut self, now: Time) {
        if self.loss != LossDetection::Rack || !self.use_probe {
            return;
        }
        self.tail_at = Time::MAX;
        if self.phase != Phase::Open || self.board.sacked() > 0 || self.board.is_empty() || !self.tail.allowed() {
            return;
        }
        let smoothed = self.rtt.smoothed();
        self.tail_at = self.tail.timeout(
            now,
            &ProbeTimer {
                smoothed_rtt: (smoothed > Span::ZERO).then_some(smoothed),
                single: self.board.len() == 1,
                ack_delay: self.ack_delay,
                retransmission: (self.retransmit_at != Time::MAX).then_some(self.retransmit_at),
            },
        );
    }
}
