//! RACK-TLP: loss by time instead of by count, and a probe for the tail.
//!
//! What it is: [`Rack`] remembers when the segment that was delivered last had been sent; what was sent before it and is
//! still missing a reordering window later is lost. [`TailProbe`] sends one segment when ACKs stay away for two round
//! trips, so that the tail's loss is found by RACK and not by the retransmission timer. Source: RFC 8985, sections 6
//! and 7.
//!
//! | RFC 8985 | here |
//! |---|---|
//! | Segment.xmit_ts, .end_seq, .retransmitted | [`Transmission`] |
//! | RACK.xmit_ts, RACK.end_seq, RACK.rtt, RACK.min_RTT | `newest`, `rtt`, `least` |
//! | RACK.fack, RACK.reordering_seen | `forward`, `reordering` |
//! | RACK.reo_wnd, _mult, _persist, dsack_round | `window`, `multiple`, `persist`, `round` |
//! | TLP.end_seq, TLP.is_retrans | [`TailProbe::pending`] |
//! | PTO, TLP.max_ack_delay | [`TailProbe::timeout`], [`ProbeTimer::ack_delay`] |
//!
//! The [`Scoreboard`] keeps the segments; these two keep what the RFC keeps beside them. Positions are a stream's, or the numbers
//! of packets.
//! Departure: the smallest round trip is of the whole connection (6.2, step 1 lets it be windowed). Cost: constant for
//! each delivered segment and each segment asked about. A sender need not ask about all: segments sent for the first
//! time stand in the order of sending, so the first of them for which [`Verdict::Later`] comes ends the walk.
//! Invariant: a segment is lost only if one sent after it was delivered.

use super::scoreboard::{EVER, LOST, RETRANSMITTED, SACKED, Scoreboard, Sent};
use crate::units::{Span, Time};

/// A transmission of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// When it was sent, last.
    pub at: Time,
    /// Stream position after its last byte.
    pub end: u64,
    /// Whether it had been sent before that.
    pub retransmitted: bool,
}

impl Transmission {
    /// RFC 8985, 6.2: RACK_sent_after.
    fn after(&self, other: &Transmission) -> bool {
        self.at > other.at || (self.at == other.at && self.end > other.end)
    }
}

/// What RACK says about a segment that is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is lost: one sent later was delivered, and a reordering window has passed.
    Lost,
    /// It will be lost at this time, if nothing comes: the reordering timer's.
    Wait(Time),
    /// Nothing sent after it has been delivered.
    Later,
}

impl<T> Sent<T> {
    /// As RACK sees it.
    #[inline]
    pub fn transmission(&self) -> Transmission {
        Transmission { at: self.sent_at, end: self.end, retransmitted: self.is(EVER) }
    }
}

/// What [`Rack::detect`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detected {
    /// Whether anything is newly lost.
    pub lost: bool,
    /// When the newest of the retransmissions that are lost was sent, if one is.
    pub lost_again: Option<Time>,
    /// When the reordering timer is to expire, if anything waits for it.
    pub wait: Option<Time>,
}

/// What an ACK and the sender's state mean for the reordering window (RFC 8985, 6.2, step 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// All before this position is acknowledged (SND.UNA).
    pub una: u64,
    /// Position of the next new byte (SND.NXT).
    pub next: u64,
    /// Whether the ACK reports a duplicate (RFC 2883).
    pub duplicate: bool,
    /// Whether fast or timeout recovery goes on.
    pub recovering: bool,
    /// Whether this ACK ends such a recovery.
    pub recovered: bool,
    /// Segments that SACK has reported.
    pub sacked: u32,
    /// The smoothed round trip.
    pub smoothed_rtt: Span,
}

/// RACK's state.
#[derive(Clone, Debug)]
pub struct Rack {
    newest: Option<Transmission>,
    rtt: Span,
    least: Span,
    forward: u64,
    reordering: bool,
    round: Option<u64>,
    multiple: u32,
    persist: u32,
    window: Span,
}

/// RFC 8985, 6.2, step 4: recoveries without duplicates after which the window is small again.
const PERSIST: u32 = 16;
/// RFC 5681: DupThresh.
const DUPLICATES: u32 = 3;

impl Default for Rack {
    fn default() -> Rack {
        Rack::new()
    }
}

impl Rack {
    /// A fresh connection's.
    pub fn new() -> Rack {
        Rack {
            newest: None,
            rtt: Span::ZERO,
            least: Span::MAX,
            forward: 0,
            reordering: false,
            round: None,
            multiple: 1,
            persist: PERSIST,
            window: Span::ZERO,
        }
    }

    /// Step 1: a round trip was measured.
    #[inline]
    pub fn on_rtt(&mut self, rtt: Span) {
        self.least = self.least.min(rtt);
    }

    /// Steps 2 and 3: a segment is newly acknowledged, cumulatively or by SACK. `echo` is when, by the timestamp that the
    /// ACK echoes, the segment that caused it was sent; `None` without timestamps.
    #[inline]
    pub fn on_delivered(&mut self, now: Time, sent: Transmission, echo: Option<Time>) {
        // Step 3 looks at all segments, also at those that step 2 does not trust.
        if sent.end > self.forward {
            self.forward = sent.end;
        } else if sent.end < self.forward && !sent.retransmitted {
            self.reordering = true;
        }
        let rtt = now.since(sent.at);
        if sent.retransmitted {
            // The ACK may be for the first transmission.
            if echo.is_some_and(|echo| echo < sent.at) || rtt < self.least {
                return;
            }
        }
        self.rtt = rtt;
        if self.newest.is_none_or(|newest| sent.after(&newest)) {
            self.newest = Some(sent);
        }
    }

    /// Step 4: the reordering window for this ACK, after all its deliveries were told.
    pub fn on_ack(&mut self, progress: &Progress) {
        if self.round.is_some_and(|round| progress.una >= round) {
            self.round = None;
        }
        if self.round.is_none() && progress.duplicate {
            self.round = Some(progress.next);
            self.multiple = self.multiple.saturating_add(1);
            self.persist = PERSIST;
        } else if progress.recovered {
            self.persist = self.persist.saturating_sub(1);
            if self.persist == 0 {
                self.multiple = 1;
            }
        }
        self.window = if !self.reordering && (progress.recovering || progress.sacked >= DUPLICATES) {
            Span::ZERO
        } else if self.least == Span::MAX {
            progress.smoothed_rtt
        } else {
            let window = self.least.as_nanos() / 4;
            Span::from_nanos(window.saturating_mul(u64::from(self.multiple))).min(progress.smoothed_rtt)
        };
    }

    /// Step 5: whether a segment that is neither delivered nor already taken for lost, is lost.
    #[inline]
    pub fn judge(&self, now: Time, sent: &Transmission) -> Verdict {
        match &self.newest {
            Some(newest) if newest.after(sent) => {
                let lost_at = sent.at + self.rtt + self.window;
                if lost_at <= now { Verdict::Lost } else { Verdict::Wait(lost_at) }
            }
            _ => Verdict::Later,
        }
    }

    /// Step 5 for all that is outstanding: marks on the board what is lost.
    pub fn detect<T: Copy>(&self, now: Time, board: &mut Scoreboard<T>) -> Detected {
        let mut found = Detected::default();
        let mut index = 0;
        while let Some(sent) = board.get(index) {
            index += 1;
            if sent.is(SACKED) || sent.flags & (LOST | RETRANSMITTED) == LOST {
                continue;
            }
            let again = sent.is(RETRANSMITTED).then_some(sent.sent_at);
            match self.judge(now, &sent.transmission()) {
                Verdict::Lost => {
                    board.lose(index - 1);
                    found.lost = true;
                    found.lost_again = found.lost_again.max(again);
                }
                Verdict::Wait(until) => found.wait = found.wait.max(Some(until)),
                Verdict::Later if !sent.is(EVER) => break,
                Verdict::Later => {}
            }
        }
        found
    }

    /// 6.3 for all that is outstanding, when the retransmission timer expires: what was sent a moment ago is not lost.
    pub fn detect_at_timeout<T: Copy>(&self, now: Time, board: &mut Scoreboard<T>) {
        for index in 0..board.len() {
            let Some(sent) = board.get(index).filter(|sent| !sent.is(SACKED)) else { continue };
            if self.lost_at_timeout(now, &sent.transmission(), index == 0) {
                board.lose(index);
            }
        }
    }

    /// 6.3: whether the retransmission timer's expiry makes a segment lost; `first` is the one at SND.UNA.
    pub fn lost_at_timeout(&self, now: Time, sent: &Transmission, first: bool) -> bool {
        first || sent.at + self.rtt + self.window <= now
    }

    /// The reordering window.
    pub fn window(&self) -> Span {
        self.window
    }

    /// Whether reordering was ever seen.
    pub fn reordering_seen(&self) -> bool {
        self.reordering
    }

    /// The round trip of the newest delivery.
    pub fn rtt(&self) -> Span {
        self.rtt
    }
}

/// What the probe timer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTimer {
    /// The smoothed round trip; `None` before the first.
    pub smoothed_rtt: Option<Span>,
    /// Whether only one segment is under way.
    pub single: bool,
    /// TLP.max_ack_delay: how long the peer may delay an ACK.
    pub ack_delay: Span,
    /// When the retransmission timer expires, if it runs.
    pub retransmission: Option<Time>,
}

/// What an ACK says about a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet, or there was none.
    Open,
    /// Probe and original arrived: nothing was lost.
    NothingLost,
    /// The probe repaired a loss: the congestion window must answer to it (RFC 8985, 7.4.2).
    Repaired,
}

/// TLP's state.
#[derive(Clone, Debug, Default)]
pub struct TailProbe {
    /// TLP.end_seq and TLP.is_retrans.
    pending: Option<(u64, bool)>,
    /// No round trip was measured since the last probe.
    unmeasured: bool,
}

impl TailProbe {
    /// 7.2: when to probe, counted from `now`, which is when data was sent or acknowledged. To be called only when SACK is
    /// on, nothing is SACKed, and no recovery goes on.
    pub fn timeout(&self, now: Time, timer: &ProbeTimer) -> Time {
        let span = match timer.smoothed_rtt {
            Some(rtt) if timer.single => rtt.times(2) + timer.ack_delay,
            Some(rtt) => rtt.times(2),
            None => Span::from_secs(1),
        };
        let at = now + span;
        timer.retransmission.map_or(at, |limit| at.min(limit))
    }

    /// 7.3: whether a probe may be sent: none is pending, and a round trip was measured since the last.
    #[inline]
    pub fn allowed(&self) -> bool {
        self.pending.is_none() && !self.unmeasured
    }

    /// A round trip was measured.
    #[inline]
    pub fn on_rtt(&mut self) {
        self.unmeasured = false;
    }

    /// A probe was sent that ends at `end` (SND.NXT after it); of data that had been sent already if `retransmission`.
    pub fn on_sent(&mut self, end: u64, retransmission: bool) {
        self.pending = Some((end, retransmission));
        self.unmeasured = true;
    }

    /// TLP.end_seq and TLP.is_retrans of the probe whose fate is open.
    #[inline]
    pub fn pending(&self) -> Option<(u64, bool)> {
        self.pending
    }

    /// 7.4.2: an ACK up to `ack`; `duplicate_end` is the right edge of its DSACK block, `bare_duplicate` a duplicate ACK
    /// without SACK.
    pub fn on_ack(&mut self, ack: u64, duplicate_end: Option<u64>, bare_duplicate: bool) -> Outcome {
        let Some((end, retransmission)) = self.pending else { return Outcome::Open };
        if ack < end {
            return Outcome::Open;
        }
        if !retransmission || duplicate_end == Some(end) {
            self.pending = None;
            Outcome::NothingLost
        } else if ack > end {
            self.pending = None;
            Outcome::Repaired
        } else if bare_duplicate {
            self.pending = None;
            Outcome::NothingLost
        } else {
            Outcome::Open
        }
    }

    /// A recovery by other means began (fast retransmit or timeout): the probe no longer matters.
    pub fn cancel(&mut self) {
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const MS: u64 = 1_000_000;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn sent(at: u64, end: u64) -> Transmission {
        Transmission { at: ms(at), end, retransmitted: false }
    }

    fn again(at: u64, end: u64) -> Transmission {
        Transmission { retransmitted: true, ..sent(at, end) }
    }

    fn quiet(una: u64) -> Progress {
        Progress {
            una,
            next: 100_000,
            duplicate: false,
            recovering: false,
            recovered: false,
            sacked: 1,
            smoothed_rtt: Span::from_millis(100),
        }
    }

    fn measured(rtt: u64) -> Rack {
        let mut rack = Rack::new();
        rack.on_rtt(Span::from_millis(rtt));
        rack
    }

    // RFC 8985, 6.2, step 5.
    #[test]
    fn a_segment_sent_before_the_newest_delivery_is_lost_a_quarter_round_trip_late() {
        let mut rack = measured(100);
        rack.on_delivered(ms(110), sent(10, 2000), None);
        rack.on_ack(&quiet(0));
        assert_eq!(rack.judge(ms(110), &sent(5, 1000)), Verdict::Wait(ms(5 + 100 + 25)));
        assert_eq!(rack.judge(ms(130), &sent(5, 1000)), Verdict::Lost);
        assert_eq!(rack.judge(ms(999), &sent(11, 3000)), Verdict::Later);
    }

    // RACK_sent_after: equal times are told apart by position.
    #[test]
    fn of_segments_sent_in_one_burst_those_before_the_delivered_one_are_judged() {
        let mut rack = measured(100);
        rack.on_delivered(ms(100), sent(0, 2000), None);
        rack.on_ack(&quiet(0));
        assert_eq!(rack.judge(ms(125), &sent(0, 1000)), Verdict::Lost);
        assert_eq!(rack.judge(ms(125), &sent(0, 2000)), Verdict::Later);
        assert_eq!(rack.judge(ms(125), &sent(0, 3000)), Verdict::Later);
    }

    // Step 4: before reordering is seen, three SACKed segments or a recovery close the window.
    #[test]
    fn without_reordering_three_sacked_segments_or_a_recovery_mean_no_waiting() {
        let mut rack = measured(100);
        rack.on_delivered(ms(110), sent(10, 4000), None);
        rack.on_ack(&Progress { sacked: 2, ..quiet(0) });
        assert_eq!(rack.window(), Span::from_millis(25));
        rack.on_ack(&Progress { sacked: 3, ..quiet(0) });
        assert_eq!(rack.window(), Span::ZERO);
        rack.on_ack(&Progress { sacked: 0, recovering: true, ..quiet(0) });
        assert_eq!(rack.window(), Span::ZERO);
        rack.on_delivered(ms(111), sent(5, 1000), None);
        assert!(rack.reordering_seen());
        rack.on_ack(&Progress { sacked: 3, recovering: true, ..quiet(0) });
        assert_eq!(rack.window(), Span::from_millis(25));
    }

    // Step 3: a retransmission that arrives below the highest is no reordering.
    #[test]
    fn a_retransmission_delivered_late_is_not_taken_for_reordering() {
        let mut rack = measured(100);
        rack.on_delivered(ms(110), sent(10, 4000), None);
        rack.on_delivered(ms(230), again(120, 1000), None);
        assert!(!rack.reordering_seen());
    }

    // Step 2: two tests against the ACK of the first transmission.
    #[test]
    fn a_delivery_that_may_be_of_the_first_transmission_does_not_count() {
        let mut rack = measured(100);
        rack.on_delivered(ms(105), sent(5, 1000), None);
        rack.on_delivered(ms(150), again(140, 2000), None);
        assert_eq!(rack.rtt(), Span::from_millis(100), "10 ms is less than the least round trip");
        rack.on_delivered(ms(260), again(140, 2000), Some(ms(20)));
        assert_eq!(rack.rtt(), Span::from_millis(100), "the timestamp is the first transmission's");
        rack.on_delivered(ms(260), again(140, 2000), Some(ms(140)));
        assert_eq!(rack.rtt(), Span::from_millis(120));
    }

    // Step 4: reo_wnd_mult grows once a round and falls back after 16 recoveries.
    #[test]
    fn duplicates_widen_the_window_once_a_round_for_sixteen_recoveries() {
        let mut rack = measured(40);
        let duplicate = |una, next| Progress { duplicate: true, next, ..quiet(una) };
        rack.on_ack(&duplicate(0, 1000));
        assert_eq!(rack.window(), Span::from_millis(20));
        rack.on_ack(&duplicate(500, 2000));
        assert_eq!(rack.window(), Span::from_millis(20), "same round");
        rack.on_ack(&duplicate(1000, 3000));
        assert_eq!(rack.window(), Span::from_millis(30));
        for una in 4..14 {
            rack.on_ack(&duplicate(una * 1000, una * 1000 + 1));
        }
        assert_eq!(rack.window(), Span::from_millis(100), "never more than the smoothed round trip");
        rack.on_ack(&quiet(20_000));
        for _ in 0..15 {
            rack.on_ack(&Progress { recovered: true, ..quiet(20_000) });
        }
        assert_eq!(rack.window(), Span::from_millis(100));
        rack.on_ack(&Progress { recovered: true, ..quiet(20_000) });
        assert_eq!(rack.window(), Span::from_millis(10));
    }

    // 6.3.
    #[test]
    fn a_timeout_takes_the_first_segment_and_all_overdue_ones_for_lost() {
        let mut rack = measured(100);
        rack.on_delivered(ms(100), sent(0, 1000), None);
        rack.on_ack(&quiet(1000));
        assert!(rack.lost_at_timeout(ms(101), &sent(100, 2000), true));
        assert!(rack.lost_at_timeout(ms(300), &sent(100, 3000), false));
        assert!(!rack.lost_at_timeout(ms(300), &sent(200, 4000), false));
    }

    // 7.2, TLP_calc_PTO.
    #[test]
    fn the_probe_waits_two_round_trips_and_for_one_segment_the_peers_delay() {
        let timer = ProbeTimer {
            smoothed_rtt: Some(Span::from_millis(100)),
            single: false,
            ack_delay: Span::from_millis(25),
            retransmission: Some(ms(1000)),
        };
        let probe = TailProbe::default();
        assert_eq!(probe.timeout(ms(50), &timer), ms(250));
        assert_eq!(probe.timeout(ms(50), &ProbeTimer { single: true, ..timer }), ms(275));
        assert_eq!(probe.timeout(ms(900), &timer), ms(1000), "never after the retransmission timer");
        let timer = ProbeTimer { smoothed_rtt: None, retransmission: None, ..timer };
        assert_eq!(probe.timeout(ms(50), &timer), ms(1050));
    }

    // 7.4.2, each branch.
    #[test]
    fn a_probe_that_was_a_retransmission_is_a_repaired_loss_unless_a_duplicate_is_reported() {
        let mut probe = TailProbe::default();
        probe.on_sent(5000, true);
        assert!(!probe.allowed());
        assert_eq!(probe.on_ack(4000, None, true), Outcome::Open);
        assert_eq!(probe.on_ack(5000, None, false), Outcome::Open);
        assert_eq!(probe.on_ack(6000, None, false), Outcome::Repaired);
        assert!(!probe.allowed(), "no round trip was measured since");
        probe.on_rtt();
        assert!(probe.allowed());

        probe.on_sent(7000, true);
        assert_eq!(probe.on_ack(7000, Some(7000), false), Outcome::NothingLost);
        probe.on_sent(8000, true);
        assert_eq!(probe.on_ack(8000, None, true), Outcome::NothingLost);
        probe.on_sent(9000, false);
        assert_eq!(probe.on_ack(9000, None, false), Outcome::NothingLost);
        assert_eq!(probe.on_ack(10_000, None, false), Outcome::Open);
    }

    proptest! {
        /// The obvious model: of a path with one round trip and reordering of at most `late`, RACK with a window above it
        /// never takes a segment for lost that arrives, and takes each one that does not when a later one is delivered.
        #[test]
        fn reordering_below_the_window_is_never_loss_and_what_never_comes_is(
            late in proptest::collection::vec(0u64..25, 2..60), drop in 0usize..59,
        ) {
            let drop = drop % (late.len() - 1);
            let mut arrivals: Vec<(u64, usize)> = Vec::new();
            for (index, late) in late.iter().enumerate() {
                if index != drop {
                    arrivals.push((index as u64 * 2 + 100 + late, index));
                }
            }
            arrivals.sort_unstable();
            let segment = |index: usize| sent(index as u64 * 2, (index as u64 + 1) * 1000);
            let mut rack = measured(100);
            // Reordering has been seen before: else the window is closed by three SACKs, as the RFC wants it.
            rack.reordering = true;
            let mut missing: Vec<usize> = (0..late.len()).collect();
            for &(at, index) in &arrivals {
                rack.on_delivered(ms(at), segment(index), None);
                missing.retain(|&other| other != index);
                rack.on_ack(&quiet(0));
                for &other in &missing {
                    let verdict = rack.judge(ms(at), &segment(other));
                    if other != drop {
                        prop_assert_ne!(verdict, Verdict::Lost, "segment {} at {} ms", other, at);
                    }
                }
            }
            let end = Time::from_nanos(1000 * MS);
            prop_assert_eq!(missing, vec![drop]);
            let verdict = rack.judge(end, &segment(drop));
            prop_assert_eq!(verdict, Verdict::Lost);
        }
    }
}
