//! What goes out: which segment is next, and the timers that bring one about.
//!
//! What it is: the sending half of a connection: the stream's bounds, the peer's window, the choice between sending again,
//! sending new and waiting, and the retransmission, persist and probe timers. What ACKs and losses mean is in
//! [`recovery`](super::recovery). Source: RFC 9293, 3.8.6.1 (zero windows), 3.8.6.2.1 (silly windows), 3.7.4 (Nagle); RFC
//! 6298, section 5 (timer); RFC 3042; RFC 5681, 4.1 (idle); RFC 6675, section 4 (NextSeg); RFC 8985, 7 (tail probe).
//!
//! | RFC | here |
//! |---|---|
//! | SND.UNA, SND.NXT, SND.WND | `una`, `next`, `window` |
//! | SND.WL1, SND.WL2, Max(SND.WND) | `window_from`, `window_by`, `window_maximum` |
//! | Eff.snd.MSS, Fs | `mss`, 1/2 |
//! | D, U of RFC 9293, 3.8.6.2.1 | bytes queued, `room` |
//!
//! Departures: a zero-window probe is one byte of new data that is not kept as sent; its ACK moves SND.NXT. A FIN goes
//! out after the last byte whatever the windows say. Cost: O(1) a segment.

use super::config::{Config, LossDetection, Nagle, PartialAck, RttSampling, UNLIMITED};
use super::connection::Stats;
use super::rack::{ProbeTimer, Rack, TailProbe};
use super::recovery::{Frto, Phase, Reduction};
use super::rtt::Rtt;
use super::scoreboard::{self, Scoreboard};
use fairspan_core::congestion::window::{Counting, initial_window};
use fairspan_core::congestion::{self, AnyLaw, Law};
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;

/// A segment to send: positions from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub start: u64,
    /// Bytes of payload.
    pub length: u32,
    pub syn: bool,
    pub fin: bool,
    pub push: bool,
}

/// The sending half.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) loss: LossDetection,
    pub(super) mss: u64,
    nagle: Nagle,
    segment_per_write: bool,
    pub(super) limited_transmit: bool,
    pub(super) threshold: u32,
    pub(super) partial_ack: PartialAck,
    pub(super) full_ack: super::config::FullAck,
    pub(super) rate_reduction: bool,
    pub(super) reduce_again: bool,
    window_limit: u64,
    restart_after_idle: bool,
    pub(super) keep_sacked: bool,
    pub(super) retries: u32,
    syn_retries: u32,
    silly_override: Span,
    pub(super) sampling: RttSampling,
    pub(super) use_frto: bool,
    pub(super) use_undo: bool,
    use_probe: bool,
    ack_delay: Span,

    pub(super) una: u64,
    pub(super) next: u64,
    end: u64,
    closed: bool,
    fin_sent: bool,
    /// After the zero-window probe that is under way beyond `next`.
    probed_to: u64,
    /// Where writes end, with `segment_per_write`.
    writes: VecDeque<u64>,
    /// After the last small segment.
    small_end: u64,

    window: u64,
    window_maximum: u64,
    window_from: u64,
    window_by: u64,

    pub(super) law: AnyLaw,
    pub(super) board: Scoreboard,
    pub(super) rtt: Rtt,
    pub(super) phase: Phase,
    pub(super) recover: u64,
    pub(super) duplicates: u32,
    /// FlightSize when the first duplicate came: what limited transmit adds does not count.
    pub(super) flight_before: u64,
    pub(super) partial_seen: bool,
    /// The next retransmission goes whatever the window says.
    pub(super) forced: bool,
    /// RFC 6675: RescueRxt.
    pub(super) rescued_to: u64,
    pub(super) reduction: Reduction,
    /// When the window was last reduced for a loss.
    pub(super) reduced_at: Time,
    /// Whether this ACK showed a loss.
    pub(super) newly_lost: bool,
    pub(super) frto: Frto,
    /// When the episode's first retransmission was sent, by the timestamp clock; `None`: none to undo.
    pub(super) undo_stamp: Option<u32>,
    /// Retransmissions of the episode that no DSACK has shown as unneeded.
    pub(super) undo_pending: u32,
    /// Whether the congestion window was what stopped the last transmission.
    pub(super) limited: bool,
    /// RFC 6298, section 3: the segment that is timed, by its end.
    pub(super) timed: Option<(u64, Time)>,
    last_sent: Time,

    pub(super) retransmit_at: Time,
    pub(super) expirations: u32,
    persist_at: Time,
    persist_span: Span,
    persist_unanswered: u32,
    probe_window: bool,

    pub(super) rack: Rack,
    pub(super) reorder_at: Time,
    pub(super) tail: TailProbe,
    pub(super) tail_at: Time,
    tail_now: bool,

    syn_pending: bool,
    pub(super) syn_lost: bool,
    pub(super) given_up: bool,
    pub(super) stats: Stats,
}

impl Sender {
    pub(super) fn new(config: &Config, now: Time) -> Sender {
        let mss = u64::from(config.mss);
        Sender {
            loss: config.loss,
            mss,
            nagle: config.nagle,
            segment_per_write: config.segment_per_write,
            limited_transmit: config.limited_transmit,
            threshold: config.duplicate_threshold,
            partial_ack: config.partial_ack,
            full_ack: config.full_ack,
            rate_reduction: config.rate_reduction,
            reduce_again: config.reduce_again_at_timeout,
            window_limit: u64::MAX,
            restart_after_idle: config.restart_after_idle,
            keep_sacked: config.sack_kept_over_timeout,
            retries: config.retries,
            syn_retries: config.syn_retries,
            silly_override: config.silly_window_override,
            sampling: config.rtt_sampling,
            use_frto: config.frto,
            use_undo: config.undo,
            use_probe: config.tail_loss_probe,
            ack_delay: config.delayed_ack_maximum.max(config.delayed_ack),
            una: 0,
            next: 0,
            end: 1,
            closed: false,
            fin_sent: false,
            probed_to: 0,
            writes: VecDeque::new(),
            small_end: 0,
            window: 0,
            window_maximum: 0,
            window_from: 0,
            window_by: 0,
            law: AnyLaw::new(&law(config, config.mss)),
            board: Scoreboard::default(),
            rtt: Rtt::new(config),
            phase: Phase::Open,
            recover: 0,
            duplicates: 0,
            flight_before: 0,
            partial_seen: false,
            forced: false,
            rescued_to: 0,
            reduction: Reduction::default(),
            reduced_at: Time::ZERO,
            newly_lost: false,
            frto: Frto::Off,
            undo_stamp: None,
            undo_pending: 0,
            limited: false,
            timed: None,
            last_sent: now,
            retransmit_at: Time::MAX,
            expirations: 0,
            persist_at: Time::MAX,
            persist_span: Span::ZERO,
            persist_unanswered: 0,
            probe_window: false,
            rack: Rack::new(),
            reorder_at: Time::MAX,
            tail: TailProbe::default(),
            tail_at: Time::MAX,
            tail_now: false,
            syn_pending: false,
            syn_lost: false,
            given_up: false,
            stats: Stats::default(),
        }
    }

    /// The connection is open. `sack`: the peer permits it.
    pub(super) fn on_open(&mut self, now: Time, config: &Config, mss: u64, sack: bool) {
        self.mss = mss;
        if !sack && matches!(self.loss, LossDetection::Sack | LossDetection::Rack) {
            self.loss = LossDetection::NewReno;
        }
        let mut law = law(config, mss as u32);
        if self.syn_lost {
            // RFC 5681 §3.1: one segment after a lost SYN; RFC 6298 (5.7).
            law.window.initial_window = mss;
            if self.rtt.smoothed() == Span::ZERO {
                self.rtt.set_timeout(config.rto_initial_after_syn_loss);
            }
        }
        self.law = AnyLaw::new(&law);
        if config.window_limit > 0 {
            self.window_limit = mss * u64::from(config.window_limit);
        }
        self.last_sent = now;
        self.expirations = 0;
    }

    /// Both ends are connected without a handshake.
    pub(super) fn skip_handshake(&mut self) {
        (self.una, self.next, self.recover) = (1, 1, 1);
    }

    /// The peer's window before its first segment.
    pub(super) fn assume_window(&mut self, window: u64) {
        self.window = window;
        self.window_maximum = window;
    }

    /// RFC 9293, 3.10.7.4, fifth, ESTABLISHED: whether this segment's window is the latest, and takes it.
    /// Gives whether the window changed.
    #[inline]
    pub(super) fn update_window(&mut self, sequence: u64, acknowledgment: u64, window: u64) -> bool {
        // A retransmission has an old number and may acknowledge new data: its window is new all the same, or else the old
        // one would count from the new SND.UNA, beyond anything that was offered.
        let newer =
            self.window_by < acknowledgment || (self.window_by == acknowledgment && self.window_from <= sequence);
        if !newer {
            return false;
        }
        self.window_from = self.window_from.max(sequence);
        self.window_by = acknowledgment;
        let changed = window != self.window;
        if changed {
            self.window = window;
            self.window_maximum = self.window_maximum.max(window);
            if window > 0 {
                self.stop_persisting();
            }
        }
        changed
    }

    /// The peer answered, whatever it said: it is alive.
    pub(super) fn on_answer(&mut self) {
        self.persist_unanswered = 0;
        if self.window == 0 {
            // RFC 9293, 3.8.6.1: a peer that acknowledges with a zero window is not to be given up.
            self.expirations = self.expirations.min(1);
        }
    }

    fn stop_persisting(&mut self) {
        self.persist_at = Time::MAX;
        self.persist_span = Span::ZERO;
        self.probe_window = false;
    }

    /// The SYN is to be sent.
    pub(super) fn send_syn(&mut self) {
        self.syn_pending = true;
    }

    /// The SYN is to be sent again, for another reason than the timer.
    pub(super) fn send_syn_again(&mut self) {
        if !self.board.is_empty() {
            self.board.lose(0);
            self.forced = true;
        }
    }

    /// Takes `bytes` from the application, as far as the buffer has room; gives how many.
    pub(super) fn write(&mut self, bytes: u64, buffer: u64) -> u64 {
        if self.closed {
            return 0;
        }
        let unacknowledged = self.end - self.una.max(1).min(self.end);
        let taken =
            bytes.min(buffer.saturating_sub(unacknowledged)).min(UNLIMITED.as_u64() - self.end.min(UNLIMITED.as_u64()));
        self.end += taken;
        if self.segment_per_write && taken > 0 {
            self.writes.push_back(self.end);
        }
        taken
    }

    /// A FIN follows the last byte.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Payload bytes not sent for the first time.
    pub(super) fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.next.max(1))
    }

    /// Payload bytes acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.una.min(self.end).saturating_sub(1)
    }

    /// Payload bytes written and not acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.end - 1 - self.acknowledged()
    }

    /// Whether our FIN is acknowledged.
    pub(super) fn fin_acknowledged(&self) -> bool {
        self.fin_sent && self.una > self.end
    }

    /// The highest position that may be acknowledged.
    #[inline]
    pub(super) fn sent_to(&self) -> u64 {
        self.next.max(self.probed_to)
    }

    pub(super) fn window_maximum(&self) -> u64 {
        self.window_maximum
    }

    /// FlightSize.
    #[inline]
    pub(super) fn flight(&self) -> u64 {
        self.next - self.una
    }

    /// What congestion control leaves for bytes in flight.
    #[inline]
    pub(super) fn congestion_window(&self) -> u64 {
        let window = self.law.window().as_u64();
        if self.phase == Phase::Recovery {
            return window;
        }
        let window = window.min(self.window_limit);
        if self.duplicates == 0 || self.phase != Phase::Open {
            return window;
        }
        match (self.is_scoreboard_used(), self.limited_transmit) {
            // RFC 3042: two segments beyond the window, one for each duplicate ACK.
            (false, true) => window + self.mss * u64::from(self.duplicates.min(self.threshold - 1).min(2)),
            // RFC 6675 §5, (3.3): the pipe has become shorter by what is SACKed.
            (false, false) | (true, true) => window,
            (true, false) => window.saturating_sub(self.board.sacked()),
        }
    }

    #[inline]
    pub(super) fn is_scoreboard_used(&self) -> bool {
        matches!(self.loss, LossDetection::Sack | LossDetection::Rack)
    }

    /// The most that peer and settings allow in flight.
    pub(super) fn limit(&self) -> u64 {
        self.window.min(self.window_limit)
    }

    /// The next of all timers.
    #[inline]
    pub(super) fn next_timeout(&self) -> Time {
        self.retransmit_at.min(self.persist_at).min(self.reorder_at).min(self.tail_at)
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.reorder_at <= now {
            self.reorder_at = Time::MAX;
            self.on_reorder_timeout(now);
        }
        if self.persist_at <= now {
            self.persist_at = Time::MAX;
            self.persist_unanswered += 1;
            if self.retries > 0 && self.persist_unanswered > self.retries {
                self.given_up = true;
                return;
            }
            self.probe_window = true;
        }
        if self.tail_at <= now {
            self.tail_at = Time::MAX;
            if self.phase == Phase::Open && self.tail.allowed() && !self.board.is_empty() {
                self.tail_now = true;
                self.retransmit_at = now + self.rtt.timeout();
            }
        }
        if self.retransmit_at <= now {
            self.tail_now = false;
            self.tail_at = Time::MAX;
            let syn = self.board.front().is_some_and(|sent| sent.is(scoreboard::SYN));
            let most = if syn { self.syn_retries } else { self.retries };
            if most > 0 && self.expirations >= most {
                self.retransmit_at = Time::MAX;
                self.given_up = true;
                return;
            }
            self.on_retransmission_timeout(now, syn);
        }
    }

    /// Nothing is sent or timed any more.
    pub(super) fn stop(&mut self) {
        self.retransmit_at = Time::MAX;
        self.reorder_at = Time::MAX;
        self.tail_at = Time::MAX;
        self.tail_now = false;
        self.stop_persisting();
        self.end = self.end.min(self.next);
    }

    /// The next segment that the stream has to send. `open`: data may be sent, not only the SYN.
    pub(super) fn poll(&mut self, now: Time, open: bool) -> Option<Outgoing> {
        if self.board.waiting() > 0
            && let Some(outgoing) = self.send_lost(now)
        {
            return Some(outgoing);
        }
        if self.syn_pending {
            self.syn_pending = false;
            self.board.push(now, 1, 1, scoreboard::SYN);
            self.next = 1;
            self.timed = Some((1, now));
            self.on_sent(now);
            return Some(Outgoing { start: 0, length: 0, syn: true, fin: false, push: false });
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
        self.forced = false;
        Some(self.send_again(now, index))
    }

    fn send_again(&mut self, now: Time, index: usize) -> Outgoing {
        let sent = self.board.retransmit(index, now);
        let (syn, fin) = (sent.is(scoreboard::SYN), sent.is(scoreboard::FIN));
        let length = sent.length - u32::from(syn) - u32::from(fin);
        self.stats.retransmitted += 1;
        self.stats.bytes_retransmitted += u64::from(length);
        // RFC 6298 §3, Karn: a segment sent twice cannot be timed.
        self.timed = None;
        self.undo_pending += 1;
        self.reduction.sent += u64::from(sent.length);
        self.on_sent(now);
        Outgoing { start: sent.start(), length, syn, fin, push: length > 0 && sent.end >= self.end }
    }

    /// RFC 6675, NextSeg, rules 3 and 4: nothing new can be sent, so what may be lost is.
    fn send_doubtful(&mut self, now: Time) -> Option<Outgoing> {
        if self.board.in_flight() + self.mss > self.congestion_window() {
            return None;
        }
        if let Some(index) = self.board.next_doubtful() {
            return Some(self.send_again(now, index));
        }
        if self.rescued_to <= self.una
            && let Some(index) = self.board.last_unsacked()
            && !self.board.get(index)?.is(scoreboard::RETRANSMITTED)
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
        Some(self.push_segment(now, length as u32))
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
        Some(Outgoing { start: self.next, length: 1, syn: false, fin: false, push: queued == 1 })
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
        self.board.push(now, self.next, length + u32::from(fin), if fin { scoreboard::FIN } else { 0 });
        if self.timed.is_none() {
            self.timed = Some((self.next, now));
        }
        if self.persist_at != Time::MAX {
            self.stop_persisting();
        }
        self.reduction.sent += u64::from(length);
        self.on_sent(now);
        self.arm_tail_probe(now);
        Outgoing { start, length, syn: false, fin, push: last && length > 0 }
    }

    fn on_sent(&mut self, now: Time) {
        self.last_sent = now;
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

/// What congestion control is told of the settings.
fn law(config: &Config, mss: u32) -> congestion::Config {
    let mut law = congestion::Config::new(config.congestion, mss);
    law.window.initial_window = initial_window(config.initial_window, mss);
    law.window.initial_threshold =
        if config.initial_threshold == UNLIMITED { u64::MAX } else { config.initial_threshold.as_u64() };
    law.window.counting = match config.byte_counting_limit {
        0 => Counting::Acks,
        1000.. => Counting::Bytes { limit: u32::MAX },
        limit => Counting::Bytes { limit },
    };
    law.window.basis = config.reduction_basis;
    law.window.slow_start = config.slow_start;
    law.window.grow_only_when_limited = config.window_validation;
    law.cubic.c = config.cubic_c;
    law.cubic.beta = config.cubic_beta;
    law.cubic.fast_convergence = config.cubic_fast_convergence;
    law.cubic.reno_friendly = config.cubic_reno_friendly;
    law.cubic.linux = config.cubic_linux;
    law
}
