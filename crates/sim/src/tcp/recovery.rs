//! What ACKs mean, and what follows a loss.
//!
//! What it is: the sender's reaction to acknowledgments, duplicates and timeouts: when something is lost, by which of the
//! five kinds of detection; what recovery does with the window; when it ends; and when all was for nothing. Source: RFC
//! 5681, 3.2; RFC 6582, 3.2 (NewReno); RFC 6675, section 5 (SACK); RFC 8985, 6 (RACK); RFC 6937 (rate reduction); RFC 5682, 2.1
//! (F-RTO); RFC 3522 and RFC 3708 (spurious recovery by timestamps and by DSACK); RFC 6298, 5.
//!
//! | RFC | here |
//! |---|---|
//! | recover, RecoveryPoint | `recover`, the position after it |
//! | DupAcks, DupThresh | `duplicates`, `threshold` |
//! | FlightSize, pipe | `flight()`, `board.in_flight()` |
//! | prr_delivered, prr_out, RecoverFS | `Reduction` |
//!
//! Departures: rate reduction chooses between RFC 6937's two bounds ACK by ACK, as Linux does. A fast retransmit restarts the retransmission timer, as RFC 6675, section 6 allows and BSD and Linux do. A
//! timeout does not pull SND.NXT back: what is outstanding is taken for lost and sent again from the first on, as the
//! window opens. Duplicate ACKs during a timeout's slow start set off nothing (RFC 6582, 3.2, step 2) for Reno, too.
//! Cost: O(1) amortised an ACK, but for a timeout, which walks what is outstanding.

use super::acknowledgment::{Acknowledgment, stamp};
use super::config::{FullAck, LossDetection, PartialAck, RttSampling};
use super::phase::{Frto, Phase, Reduction};
use super::sender::Sender;
use fairspan_core::congestion::{Acked, Congested, Law};
use fairspan_core::loss::delivery_rate::{DeliveryRate, Stamp};
use fairspan_core::loss::rack::{Outcome, Progress, Rack};
use fairspan_core::loss::scoreboard::{EVER, RETRANSMITTED, SACKED, Sent};
use fairspan_core::units::{Bytes, Span, Time};

impl Sender {
    pub(super) fn on_acknowledgment(&mut self, now: Time, ack: &Acknowledgment) {
        let flight = self.flight();
        let newly = ack.position.saturating_sub(self.una);
        let sacked_before = self.board.sacked();
        self.on_answer();

        let delivery = self.deliver(now, ack);
        if newly > 0 {
            self.una = ack.position;
            self.next = self.next.max(self.una);
            self.expirations = 0;
        }
        let rtt = self.sample(now, ack, &delivery);
        let newly_sacked = delivery.sacked;
        let delivered = (newly + self.board.sacked()).saturating_sub(sacked_before);

        // RFC 5681 §2: what a duplicate ACK is; RFC 6675 §2: with SACK, one that reports something new.
        let duplicate = match self.is_scoreboard_used() {
            true => newly_sacked > 0 && newly == 0,
            false => newly == 0 && ack.bare && flight > 0,
        };
        if duplicate {
            self.stats.duplicate_acks += 1;
        }
        if self.loss == LossDetection::Rack {
            self.on_rack_ack(now, ack, newly, duplicate);
        }
        let probing = newly > 0 && self.frto != Frto::Off && self.on_frto_progress(now, ack);
        if newly > 0 || newly_sacked > 0 {
            let recovering = probing || newly == 0 || self.phase == Phase::Recovery;
            self.tell_delivery(now, newly, flight, rtt, recovering);
        }
        if newly > 0 {
            self.on_progress(now, newly, probing);
        } else if duplicate {
            self.on_duplicate(now, flight);
        }
        if newly_sacked > 0 || newly > 0 {
            self.find_losses(now);
        }
        if self.phase == Phase::Recovery && self.is_scoreboard_used() && self.rate_reduction {
            self.reduce_rate(delivered, newly > 0);
        }
        self.newly_lost = false;
        if self.phase != Phase::Open && self.use_undo {
            self.look_for_undo(now, ack, newly);
        }
        if newly > 0 {
            self.arm_tail_probe(now);
        } else if newly_sacked > 0 {
            self.tail_at = Time::MAX;
        }
        self.tell_losses(now);
    }

    /// Tells the scoreboard, and who else follows single segments, what arrived.
    #[inline]
    fn deliver(&mut self, now: Time, ack: &Acknowledgment) -> Delivery {
        let mut delivery = Delivery::default();
        if ack.position > self.una {
            let mut followers = Followers::new(now, ack, self.loss, &mut self.rack, &mut self.delivery_rate);
            self.board.acknowledge(ack.position, |sent| {
                followers.tell(sent);
                delivery.count(now, sent, false);
            });
        }
        if ack.count > 0 && self.is_scoreboard_used() {
            delivery = self.deliver_blocks(now, ack, delivery);
        }
        delivery
    }

    /// The same for what is acknowledged out of order.
    #[inline(never)]
    fn deliver_blocks(&mut self, now: Time, ack: &Acknowledgment, mut delivery: Delivery) -> Delivery {
        let mut followers = Followers::new(now, ack, self.loss, &mut self.rack, &mut self.delivery_rate);
        for (left, right) in &ack.blocks[..ack.count] {
            delivery.sacked += self.board.sack(*left, *right, |sent| {
                followers.tell(sent);
                delivery.count(now, sent, true);
            });
        }
        self.board.remember_blocks(ack.blocks);
        delivery
    }

    /// Measures the round trip; gives what congestion control should know of it.
    fn sample(&mut self, now: Time, ack: &Acknowledgment, delivery: &Delivery) -> Option<Span> {
        let by_echo = || {
            let echo = ack.echo.filter(|_| ack.position > 0)?;
            let age = stamp(now).wrapping_sub(echo);
            // An echo from the future is garbage.
            (age < 1 << 31).then(|| Span::from_millis(u64::from(age)))
        };
        let advanced = delivery.untouched || delivery.resent;
        let sample = match self.sampling {
            // RFC 7323 §4.1: an ACK that advances the left edge of the window.
            RttSampling::Timestamps if ack.echo.is_some() => advanced.then(by_echo).flatten(),
            RttSampling::Ack if delivery.resent => by_echo(),
            RttSampling::Ack => delivery.first.or(delivery.last.filter(|_| delivery.sacked > 0)),
            // RFC 6298 §3
            _ => match self.timed {
                Some((end, sent_at)) if ack.position >= end => {
                    self.timed = None;
                    Some(now.since(sent_at))
                }
                _ => None,
            },
        };
        if let Some(sample) = sample {
            self.rtt.on_sample(sample);
            self.tail.on_rtt();
        }
        delivery.last
    }

    /// RFC 6298 (5.2), (5.3).
    fn restart_timer(&mut self, now: Time) {
        self.retransmit_at = if self.board.is_empty() { Time::MAX } else { now + self.rtt.timeout() };
    }

    /// SND.UNA moved.
    fn on_progress(&mut self, now: Time, newly: u64, probing: bool) {
        let mut restart = true;
        match self.phase {
            _ if probing => {}
            Phase::Open => {}
            Phase::Loss if self.una >= self.recover => {
                self.phase = Phase::Open;
                self.undo_stamp = None;
            }
            Phase::Loss => {}
            Phase::Recovery if self.una >= self.recover => self.leave_recovery(now),
            Phase::Recovery if self.is_scoreboard_used() => {}
            // RFC 2001: Reno's recovery ends with any new ACK.
            Phase::Recovery if self.loss == LossDetection::Reno => self.leave_recovery(now),
            Phase::Recovery => {
                // RFC 6582, 3.2, step 3, partial acknowledgments.
                if !self.board.is_empty() {
                    self.board.lose(0);
                    self.forced = true;
                }
                let window = self.law.window().as_u64().saturating_sub(newly);
                self.move_window(if newly >= self.mss { window + self.mss } else { window });
                restart = self.partial_ack == PartialAck::SlowButSteady || !self.partial_seen;
                self.partial_seen = true;
            }
        }
        self.duplicates = 0;
        if restart || self.board.is_empty() {
            self.restart_timer(now);
        }
    }

    /// Tells the law of an ACK that moves SND.UNA by `newly`, with `flight` bytes under way before it.
    #[inline]
    fn tell_delivery(&mut self, now: Time, newly: u64, flight: u64, rtt: Option<Span>, recovering: bool) {
        // Neither the SYN nor the FIN counts.
        let syn = u64::from(newly > 0 && self.una == newly);
        let fin = u64::from(newly > 0 && self.fin_acknowledged());
        self.law.on_acked(&Acked {
            now,
            bytes: Bytes::new(newly.saturating_sub(syn + fin)),
            in_flight: Bytes::new(flight),
            rtt,
            waited: None,
            smoothed_rtt: self.rtt.smoothed(),
            up_to: self.una,
            next: self.next,
            limited: self.limited,
            recovering,
            delivery: self.delivery_rate.as_deref_mut().and_then(DeliveryRate::sample),
        });
    }

    /// Tells the law of losses that are no new sign of congestion.
    #[inline]
    pub(super) fn tell_losses(&mut self, now: Time) {
        if self.board.has_untold() {
            let lost = self.congested(now, self.flight(), false);
            self.law.on_lost(&lost);
        }
    }

    /// What the law is told of a sign of congestion, with `in_flight` bytes under way; `begins`: a new episode.
    fn congested(&mut self, now: Time, in_flight: u64, begins: bool) -> Congested {
        Congested {
            now,
            bytes: Bytes::new(self.board.take_lost().bytes),
            in_flight: Bytes::new(in_flight),
            limit: Bytes::new(self.limit()),
            begins,
            exact: true,
        }
    }

    /// An ACK that is not yet taken echoes marks of congestion on `bytes`. A window of data has one episode, a loss's or a mark's.
    /// `exact`: they are the bytes that were marked.
    pub(super) fn on_marked(&mut self, now: Time, bytes: u64, begins: bool, exact: bool) {
        let (in_flight, limit) = (Bytes::new(self.flight().max(bytes)), Bytes::new(self.limit()));
        let begins = begins && self.phase == Phase::Open;
        self.law.on_ecn(&Congested { now, bytes: Bytes::new(bytes), in_flight, limit, begins, exact });
    }

    fn slow_start_threshold(&self) -> u64 {
        self.law.threshold().as_u64()
    }

    fn move_window(&mut self, bytes: u64) {
        self.law.on_recovery(Bytes::new(bytes));
    }

    fn leave_recovery(&mut self, _now: Time) {
        let threshold = self.slow_start_threshold();
        let window = match (self.loss, self.full_ack) {
            // RFC 6582, 3.2, step 3, full acknowledgments, (1)
            (LossDetection::NewReno, FullAck::Flight) => threshold.min(self.flight().max(self.mss) + self.mss),
            _ => threshold,
        };
        self.move_window(window);
        self.phase = Phase::Open;
        self.forced = false;
        self.undo_stamp = None;
    }

    /// A duplicate ACK.
    fn on_duplicate(&mut self, now: Time, flight: u64) {
        match self.phase {
            Phase::Open => {
                self.duplicates += 1;
                if self.duplicates == 1 {
                    self.flight_before = flight;
                }
                let allowed = match self.is_scoreboard_used() {
                    // RFC 6675 §5.1
                    true => self.una >= self.recover,
                    // RFC 6582, 3.2, step 2: once the ACK covers more than `recover`. For just that, duplicates may come
                    // from segments sent again that were there already.
                    false => self.una > self.recover,
                };
                if self.duplicates == self.threshold && allowed && self.loss != LossDetection::Rack {
                    self.enter_recovery(now);
                }
            }
            // RFC 5681, 3.2, step 4
            Phase::Recovery if !self.is_scoreboard_used() => {
                self.move_window(self.law.window().as_u64() + self.mss);
            }
            Phase::Loss if self.frto != Frto::Off => self.give_up_frto(),
            _ => {}
        }
    }

    /// By the scoreboard or by time.
    fn find_losses(&mut self, now: Time) {
        match self.loss {
            // RFC 6675 §5.1: no new recovery before the timeout's RecoveryPoint is reached.
            LossDetection::Sack if self.phase != Phase::Loss => {
                self.newly_lost = self.board.mark_lost(self.threshold, self.mss) > 0;
            }
            LossDetection::Rack => self.judge_by_time(now),
            _ => return,
        }
        if self.phase == Phase::Open && self.board.waiting() > 0 {
            self.enter_recovery(now);
        }
    }

    fn on_rack_ack(&mut self, now: Time, ack: &Acknowledgment, newly: u64, duplicate: bool) {
        let recovering = self.phase != Phase::Open;
        self.rack.on_ack(&Progress {
            una: self.una,
            next: self.next,
            duplicate: ack.duplicate.is_some(),
            recovering,
            recovered: recovering && self.una >= self.recover,
            sacked: self.board.sacked_segments(),
            smoothed_rtt: self.rtt.smoothed(),
        });
        if self.tail.pending().is_some() {
            let bare = ack.bare && newly == 0 && !duplicate && ack.duplicate.is_none();
            let outcome = self.tail.on_ack(self.una, ack.duplicate.map(|(_, right)| right), bare);
            // RFC 8985, 7.4.2: a loss that the probe repaired is a sign of congestion like any other.
            if outcome == Outcome::Repaired && self.phase == Phase::Open {
                let lost = self.congested(now, self.flight().max(newly), true);
                self.law.on_lost(&lost);
            }
        }
    }

    /// RFC 8985, 6.2, step 5.
    fn judge_by_time(&mut self, now: Time) {
        let found = self.rack.detect(now, &mut self.board);
        self.newly_lost |= found.lost;
        self.reorder_at = found.wait.unwrap_or(Time::MAX);
        let lost_again = found.lost_again.is_some_and(|sent_at| sent_at >= self.reduced_at);
        if lost_again && self.phase == Phase::Recovery && !self.rate_reduction {
            // RFC 5681 §4.3: the loss of a retransmission is another indication of congestion.
            self.reduced_at = now;
            self.undo_stamp = None;
            let lost = self.congested(now, self.law.window().as_u64(), true);
            self.law.on_lost(&lost);
        }
    }

    /// RFC 8985, 6.2, step 5: the reordering timer.
    pub(super) fn on_reorder_timeout(&mut self, now: Time) {
        self.find_losses(now);
    }

    fn enter_recovery(&mut self, now: Time) {
        self.stats.recoveries += 1;
        let flight = if self.duplicates > 0 { self.flight_before } else { self.flight() };
        let congested = self.congested(now, flight, true);
        self.recover = self.next;
        self.rescued_to = 0;
        self.partial_seen = false;
        self.timed = None;
        self.begin_undo(now);
        self.tail.cancel();
        self.tail_at = Time::MAX;
        self.forced = true;
        self.reduced_at = now;
        self.retransmit_at = now + self.rtt.timeout();
        if self.loss == LossDetection::Tahoe {
            self.law.on_timeout(&congested);
            self.phase = Phase::Loss;
            self.duplicates = 0;
            self.board.lose_all(false);
            return;
        }
        self.law.on_lost(&congested);
        self.phase = Phase::Recovery;
        if self.is_scoreboard_used() {
            self.board.begin_recovery();
            self.reduction = Reduction { flight: self.flight().max(1), delivered: 0, sent: 0 };
            // RFC 6675 §5, (4.3): the first segment goes, also where only the count of duplicates says so.
            if self.board.waiting() == 0 && self.board.front().is_some_and(|sent| !sent.is(RETRANSMITTED)) {
                self.board.lose(0);
            }
        } else {
            self.board.lose(0);
            // RFC 5681, 3.2, step 3: the segments that left the network.
            self.move_window(self.slow_start_threshold() + u64::from(self.threshold) * self.mss);
        }
    }

    /// RFC 6937 §3. While ACKs advance and nothing more is lost, the slow start reduction bound; else the conservative
    /// one, which sends no more than arrives.
    fn reduce_rate(&mut self, delivered: u64, advanced: bool) {
        let (pipe, threshold) = (self.board.in_flight(), self.slow_start_threshold());
        let reduction = &mut self.reduction;
        reduction.delivered += delivered;
        let quota = if pipe > threshold {
            let share = u128::from(reduction.delivered) * u128::from(threshold);
            (share.div_ceil(u128::from(reduction.flight)) as u64).saturating_sub(reduction.sent)
        } else {
            let mut bound = reduction.delivered.saturating_sub(reduction.sent).max(delivered);
            if advanced && !self.newly_lost {
                bound += self.mss;
            }
            (threshold - pipe).min(bound)
        };
        self.move_window(pipe + quota);
    }

    /// RFC 6298 (5.4) to (5.7).
    pub(super) fn on_retransmission_timeout(&mut self, now: Time, syn: bool) {
        if self.board.is_empty() {
            self.retransmit_at = Time::MAX;
            return;
        }
        let first = self.expirations == 0;
        self.expirations += 1;
        self.stats.timeouts += 1;
        self.rtt.back_off();
        self.retransmit_at = now + self.rtt.timeout();
        self.forced = true;
        self.timed = None;
        if syn {
            self.syns_lost += 1;
            self.board.lose_all(false);
            return;
        }
        let in_flight = self.flight_at_timeout();
        let reduce = first && (self.phase != Phase::Recovery || self.reduce_again);
        // By the window (ns-2) as by what is under way: without what duplicate ACKs added.
        let inflated = self.phase == Phase::Recovery;
        let limit = if inflated { self.limit().min(self.slow_start_threshold()) } else { self.limit() };
        let timeout = Congested { limit: Bytes::new(limit), ..self.congested(now, in_flight, reduce) };
        self.law.on_timeout(&timeout);
        self.reorder_at = Time::MAX;
        self.tail.cancel();
        let frto = self.use_frto && self.phase == Phase::Open && first && self.board.len() > 1;
        self.phase = Phase::Loss;
        // RFC 6675 §5.1; RFC 6582, 3.2, step 4
        self.recover = self.next;
        self.duplicates = 0;
        if first {
            self.begin_undo(now);
        }
        if frto {
            // RFC 5682, 2.1, step 1
            self.frto = Frto::Resent;
            self.board.lose(0);
            return;
        }
        self.frto = Frto::Off;
        if self.loss == LossDetection::Rack && self.keep_sacked && !self.front_is_sacked() {
            // RFC 8985, 6.3: what was sent a moment ago is not lost.
            self.rack.detect_at_timeout(now, &mut self.board);
            return;
        }
        // RFC 2018 §8: a peer whose first gap is at SND.UNA and SACKed has taken back what it reported.
        self.board.lose_all(self.keep_sacked && !self.front_is_sacked());
    }

    /// What the threshold is half of after a timeout: FlightSize (RFC 5681, equation 4), in a recovery not more than the
    /// window without what duplicate ACKs added to it. FlightSize alone counts all that arrived beyond the gaps: slow start
    /// would then run into the same queue with the same losses again.
    fn flight_at_timeout(&self) -> u64 {
        match self.phase {
            Phase::Open => self.flight(),
            Phase::Recovery => self.flight().min(self.slow_start_threshold()),
            // What was sent since the timeout before.
            Phase::Loss => self.board.in_flight(),
        }
    }

    fn front_is_sacked(&self) -> bool {
        self.board.front().is_some_and(|sent| sent.is(SACKED))
    }

    /// RFC 5682, 2.1, steps 2 and 3 for an ACK that advances; false: to be treated as any other.
    fn on_frto_progress(&mut self, now: Time, ack: &Acknowledgment) -> bool {
        if ack.position >= self.recover {
            // Step 2: the ACK covers everything, and tells nothing.
            self.frto = Frto::Off;
            return false;
        }
        match self.frto {
            Frto::Resent if self.unsent() > 0 && self.una + self.limit() > self.next => {
                // Step 2b: two new segments.
                self.frto = Frto::Probing;
                self.move_window(self.board.in_flight() + 2 * self.mss);
                true
            }
            Frto::Probing => {
                // Step 3b: what was never sent again has arrived.
                self.undo(now);
                true
            }
            _ => {
                self.give_up_frto();
                false
            }
        }
    }

    /// RFC 5682, 2.1, steps 2a and 3a: the timeout was right.
    fn give_up_frto(&mut self) {
        let window = if self.frto == Frto::Probing { 3 * self.mss } else { self.mss };
        self.frto = Frto::Off;
        self.move_window(window);
        self.board.lose_all(self.keep_sacked);
    }

    /// An episode begins, which may turn out to be for nothing.
    fn begin_undo(&mut self, now: Time) {
        self.undo_stamp = Some(stamp(now));
        self.undo_pending = 0;
    }

    /// RFC 3522 §3.2: the ACK was caused by a segment older than our first retransmission. RFC 3708: DSACKs tell that all
    /// retransmissions were unneeded.
    fn look_for_undo(&mut self, now: Time, ack: &Acknowledgment, newly: u64) {
        let Some(first) = self.undo_stamp else { return };
        let older = newly > 0 && ack.echo.is_some_and(|echo| (echo.wrapping_sub(first) as i32) < 0);
        if ack.duplicate.is_some() && self.undo_pending > 0 {
            self.undo_pending -= 1;
            if self.undo_pending == 0 {
                self.undo(now);
                return;
            }
        }
        if older && self.undo_pending > 0 {
            self.undo(now);
        }
    }

    fn undo(&mut self, _now: Time) {
        self.stats.spurious += 1;
        self.law.on_undo();
        self.board.unlose();
        self.phase = Phase::Open;
        self.frto = Frto::Off;
        self.undo_stamp = None;
        self.forced = false;
        self.duplicates = 0;
        self.recover = self.una.saturating_sub(1);
        self.rtt.reset_backoff();
    }
}

/// What an ACK delivered.
#[derive(Clone, Copy, Debug, Default)]
struct Delivery {
    /// Round trip of the first segment acknowledged, never retransmitted.
    first: Option<Span>,
    /// And of the last, SACKed ones included.
    last: Option<Span>,
    /// Whether a segment that was sent once was cumulatively acknowledged.
    untouched: bool,
    /// Whether one that was retransmitted was.
    resent: bool,
    /// Bytes newly SACKed.
    sacked: u64,
}

impl Delivery {
    /// A segment was acknowledged, in order or, `sacked`, not.
    #[inline]
    fn count(&mut self, now: Time, sent: &Sent<Stamp>, sacked: bool) {
        if sent.is(EVER) {
            self.resent |= !sacked;
        } else if !sent.is(SACKED) {
            let sample = now.since(sent.sent_at);
            if !sacked {
                self.first.get_or_insert(sample);
                self.untouched = true;
            }
            self.last = Some(sample);
        }
    }
}

/// Who follows single segments, where they are in use.
struct Followers<'a> {
    now: Time,
    rack: Option<(&'a mut Rack, Option<Time>)>,
    rate: Option<&'a mut DeliveryRate>,
}

impl<'a> Followers<'a> {
    #[inline]
    fn new(
        now: Time,
        ack: &Acknowledgment,
        loss: LossDetection,
        rack: &'a mut Rack,
        rate: &'a mut Option<Box<DeliveryRate>>,
    ) -> Followers<'a> {
        let rack = (loss == LossDetection::Rack).then(|| {
            // The clock of timestamps is coarse: an echo counts as the end of its millisecond.
            let echo = ack.echo.map(|echo| {
                let age = u64::from(stamp(now).wrapping_sub(echo));
                Time::from_nanos((now.as_nanos() / 1_000_000).saturating_sub(age) * 1_000_000 + 999_999)
            });
            (rack, echo)
        });
        Followers { now, rack, rate: rate.as_deref_mut() }
    }

    /// A segment was acknowledged: they hear of the first time.
    #[inline]
    fn tell(&mut self, sent: &Sent<Stamp>) {
        if sent.is(SACKED) {
            return;
        }
        if let Some(rate) = &mut self.rate {
            rate.on_delivered(self.now, u64::from(sent.bytes), sent.sent_at, sent.is(EVER), &sent.stamp);
        }
        if let Some((rack, echo)) = &mut self.rack {
            if !sent.is(EVER) {
                rack.on_rtt(self.now.since(sent.sent_at));
            }
            rack.on_delivered(self.now, sent.transmission(), *echo);
        }
    }
}
