//! The sending half of a connection: its stream, the peer's window, its timers.
//!
//! What it is: the stream's bounds, the peer's window, and the retransmission, persist, probe and pacing timers. Which segment goes out next
//! is in [`transmission`](super::transmission), what ACKs and losses mean in [`recovery`](super::recovery). Source: RFC 9293,
//! 3.4 and 3.8; RFC 6298, section 5 (timer); RFC 3042.
//!
//! | RFC | here |
//! |---|---|
//! | SND.UNA, SND.NXT, SND.WND | `una`, `next`, `window` |
//! | SND.WL1, SND.WL2, Max(SND.WND) | `window_from`, `window_by`, `window_maximum` |
//!
//! Cost: O(1) a segment.

use super::config::{Config, LossDetection, Nagle, PartialAck, RttSampling, UNLIMITED};
use super::phase::{Frto, Phase, Reduction};
use super::state::Stats;
use fairspan_core::congestion::{AnyLaw, Law};
use fairspan_core::loss::delivery_rate::{DeliveryRate, Stamp};
use fairspan_core::loss::rack::{Rack, TailProbe};
use fairspan_core::loss::rtt::Rtt;
use fairspan_core::loss::scoreboard::Scoreboard;
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;

/// The sending half.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) loss: LossDetection,
    pub(super) mss: u64,
    pub(super) nagle: Nagle,
    pub(super) segment_per_write: bool,
    pub(super) limited_transmit: bool,
    pub(super) threshold: u32,
    pub(super) partial_ack: PartialAck,
    pub(super) full_ack: super::config::FullAck,
    pub(super) rate_reduction: bool,
    pub(super) reduce_again: bool,
    window_limit: u64,
    pub(super) restart_after_idle: bool,
    pub(super) pacing: bool,
    pub(super) keep_sacked: bool,
    pub(super) retries: u32,
    syn_retries: u32,
    pub(super) silly_override: Span,
    pub(super) sampling: RttSampling,
    pub(super) use_frto: bool,
    pub(super) use_undo: bool,
    pub(super) use_probe: bool,
    pub(super) ack_delay: Span,

    pub(super) una: u64,
    pub(super) next: u64,
    pub(super) end: u64,
    pub(super) closed: bool,
    pub(super) fin_sent: bool,
    /// After the zero-window probe that is under way beyond `next`.
    pub(super) probed_to: u64,
    /// Where writes end, with `segment_per_write`.
    pub(super) writes: VecDeque<u64>,
    /// After the last small segment.
    pub(super) small_end: u64,

    pub(super) window: u64,
    pub(super) window_maximum: u64,
    window_from: u64,
    window_by: u64,

    pub(super) law: AnyLaw,
    pub(super) board: Scoreboard<Stamp>,
    /// Where the law goes by it.
    pub(super) delivery_rate: Option<Box<DeliveryRate>>,
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
    pub(super) last_sent: Time,
    /// When all that was sent will have gone at the pacing rate.
    pub(super) paced_to: Time,
    /// When the segment that waits for its turn may go.
    pub(super) pace_at: Time,

    pub(super) retransmit_at: Time,
    pub(super) expirations: u32,
    pub(super) persist_at: Time,
    pub(super) persist_span: Span,
    persist_unanswered: u32,
    pub(super) probe_window: bool,

    pub(super) rack: Rack,
    pub(super) reorder_at: Time,
    pub(super) tail: TailProbe,
    pub(super) tail_at: Time,
    pub(super) tail_now: bool,

    pub(super) syn_pending: bool,
    pub(super) syns_lost: u32,
    /// The timestamp of the first SYN.
    pub(super) syn_stamp: u32,
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
            pacing: config.pacing || config.congestion.has_model(),
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
            law: AnyLaw::new(&config.law(config.mss)),
            board: Scoreboard::default(),
            delivery_rate: None,
            rtt: Rtt::new(&config.rtt()),
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
            paced_to: Time::ZERO,
            pace_at: Time::MAX,
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
            syns_lost: 0,
            syn_stamp: 0,
            given_up: false,
            stats: Stats::default(),
        }
    }

    /// The connection is open. `sack`: the peer permits it. `echo`: the timestamp of the SYN that it answers.
    pub(super) fn on_open(&mut self, now: Time, config: &Config, mss: u64, sack: bool, echo: Option<u32>) {
        self.mss = mss;
        if !sack && matches!(self.loss, LossDetection::Sack | LossDetection::Rack) {
            self.loss = LossDetection::NewReno;
        }
        let mut law = config.law(mss as u32);
        if self.syns_lost > 0 {
            let arrived = config.undo && echo == Some(self.syn_stamp);
            if self.syns_lost >= config.syns_lost && !arrived {
                law.window.initial_window = mss;
            }
            // RFC 6298 (5.7)
            if self.rtt.smoothed() == Span::ZERO {
                self.rtt.set_timeout(config.rto_initial_after_syn_loss);
            }
        }
        self.law = AnyLaw::new(&law);
        self.delivery_rate = self.law.wants_delivery_rate().then(Box::<DeliveryRate>::default);
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

    pub(super) fn stop_persisting(&mut self) {
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
        self.retransmit_at.min(self.persist_at).min(self.reorder_at).min(self.tail_at).min(self.pace_at)
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.pace_at <= now {
            self.pace_at = Time::MAX;
        }
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
            let syn = self.board.front().is_some_and(|sent| sent.start() == 0);
            let most = if syn { self.syn_retries } else { self.retries };
            if most > 0 && self.expirations >= most {
                self.retransmit_at = Time::MAX;
                self.given_up = true;
                return;
            }
            self.on_retransmission_timeout(now, syn);
        }
        self.tell_losses(now);
    }

    /// Nothing is sent or timed any more.
    pub(super) fn stop(&mut self) {
        self.retransmit_at = Time::MAX;
        self.reorder_at = Time::MAX;
        self.tail_at = Time::MAX;
        self.pace_at = Time::MAX;
        self.tail_now = false;
        self.stop_persisting();
        self.end = self.end.min(self.next);
    }
}
