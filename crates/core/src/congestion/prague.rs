//! Prague's curve: as much less as is marked, at most once a round trip, and more for whatever is not marked.
//!
//! What it is: DCTCP's response to marks made fit for the internet: the window goes on growing while it is being reduced, by what arrives without a
//! mark; flows of short round trips grow and shrink as if theirs were 25 ms, so that they leave room to others; packets are paced; a loss
//! halves, as with Reno. It needs ECN with a count of marks and packets that say ECT(1), and has its short queue where the bottleneck
//! marks such packets early (L4S; [`pi2`](crate::buffer::Pi2)). Source: draft-briscoe-iccrg-prague-congestion-control-03 (De Schepper, Tilmans, Briscoe, Goel),
//! section 2; its requirements: RFC 9331, section 4; the average: RFC 8257, 3.3.
//!
//! | draft | meaning | here |
//! |---|---|---|
//! | alpha | estimated share of what is marked | `alpha` |
//! | g = 1/16 | weight of the newest round | `GAIN` |
//! | RTT_virt | the least round trip that is reckoned with, 25 ms | `VIRTUAL` |
//! | D | rounds after slow start before that counts | `TRANSITION` |
//! | in_loss, in CWR | of the sender, which says what begins an episode | |
//!
//! | when | what |
//! |---|---|
//! | b bytes arrive without a mark | W + SMSS b/W, times (RTT/25 ms)^2 where that is less |
//! | a round is over, and 25 ms since the last time | alpha = alpha (1 - g) + g marked/arrived, from the first mark on |
//! | a mark, once a round trip and once in 25 ms | W (1 - alpha/2) |
//! | a loss, or a mark of a peer that does not count them (RFC 3168) | W/2 |
//!
//! The pacing rate is two windows a round trip in slow start, and one from there on.
//!
//! Departures: windows of less than two segments, scaling of bursts, and the detection of Classic queues that mark (in the draft optional, and
//! in its reference off) are not here. Where a queue that is not made for it marks ECT(1) packets as all others, such as CoDel's, Prague takes more
//! than flows that halve for a mark: docs/scenarios.md has figures. The transition takes 4 rounds. Growth is counted in
//! bytes, without the least of one segment for an ACK.
//! Worked example: SMSS 1000, W = 100,000, no marks yet: the first one leaves 50,000 (alpha begins at 1). With alpha = 0.1 a mark leaves 95 % of the window.
//! A window of 100,000 that arrives without a mark adds 1000 bytes at 25 ms and above, and 160 at 10 ms.
//! Cost: a few float operations an ACK, a division a round. Invariants: 0 <= alpha <= 1; what is marked adds nothing.

use super::law::{Acked, Congested};
use super::window::Curve;
use crate::units::{Span, Time};

/// g.
const GAIN: f64 = 1.0 / 16.0;
/// RTT_virt.
const VIRTUAL: Span = Span::from_millis(25);
/// D.
const TRANSITION: u32 = 4;

/// Prague's state.
#[derive(Clone, Debug)]
pub struct Prague {
    segment: f64,
    alpha: f64,
    /// Bytes that arrived, and of those the ones with marks, since alpha was computed.
    acked: u64,
    marked: u64,
    /// Bytes with marks of the acknowledgment that is being told.
    fresh: u64,
    /// Bytes without, of the last one.
    unmarked: u64,
    /// The round's end, and how many there were since slow start.
    end: u64,
    rounds: u32,
    /// Slow start is over; a mark was seen; the peer does not count marks.
    left: bool,
    seen: bool,
    inexact: bool,
    now: Time,
    /// When alpha was computed, and when a mark reduced the window.
    computed: Time,
    reduced: Option<Time>,
    rtt: Span,
}

impl Prague {
    /// For segments of `segment` bytes.
    pub fn new(segment: u32) -> Prague {
        Prague {
            segment: f64::from(segment.max(1)),
            alpha: 1.0,
            acked: 0,
            marked: 0,
            fresh: 0,
            unmarked: 0,
            end: 0,
            rounds: 0,
            left: false,
            seen: false,
            inexact: false,
            now: Time::ZERO,
            computed: Time::ZERO,
            reduced: None,
            rtt: Span::ZERO,
        }
    }

    /// Whether it does as if its round trip were the virtual one.
    fn is_virtual(&self) -> bool {
        self.rounds >= TRANSITION && self.rtt < VIRTUAL
    }

    /// The share of a segment that a window adds.
    fn scale(&self) -> f64 {
        if !self.is_virtual() {
            return 1.0;
        }
        let ratio = self.rtt.as_secs_f64() / VIRTUAL.as_secs_f64();
        ratio * ratio
    }
}

impl Curve for Prague {
    fn grow(&mut self, window: f64, _: &Acked, bytes: u64) -> f64 {
        window + self.segment * self.scale() * bytes.min(self.unmarked) as f64 / window
    }

    fn on_delivered(&mut self, acked: &Acked) {
        (self.now, self.rtt) = (acked.now, acked.smoothed_rtt);
        let bytes = acked.bytes.as_u64();
        self.unmarked = bytes.saturating_sub(core::mem::take(&mut self.fresh));
        self.acked = self.acked.saturating_add(bytes);
        if acked.up_to < self.end {
            return;
        }
        self.end = acked.next;
        self.rounds = self.rounds.saturating_add(u32::from(self.left));
        if self.is_virtual() && acked.now.since(self.computed) < VIRTUAL {
            return;
        }
        if self.seen && self.acked > 0 {
            let share = self.marked.min(self.acked) as f64 / self.acked as f64;
            self.alpha = (self.alpha * (1.0 - GAIN) + GAIN * share).clamp(0.0, 1.0);
        }
        (self.acked, self.marked, self.computed) = (0, 0, acked.now);
    }

    fn on_marked(&mut self, marked: &Congested) {
        let bytes = marked.bytes.as_u64();
        self.now = marked.now;
        (self.seen, self.inexact) = (true, !marked.exact);
        self.fresh = self.fresh.saturating_add(bytes);
        self.marked = self.marked.saturating_add(bytes);
    }

    fn reduce_for_mark(&mut self, window: f64, _: f64) -> f64 {
        self.left = true;
        if self.inexact {
            return window / 2.0;
        }
        if self.is_virtual() && self.reduced.is_some_and(|last| self.now.since(last) < VIRTUAL) {
            return window;
        }
        self.reduced = Some(self.now);
        window * (1.0 - self.alpha / 2.0)
    }

    fn reduce(&mut self, _: f64, basis: f64) -> f64 {
        self.left = true;
        basis / 2.0
    }

    fn on_timeout(&mut self) {}

    fn on_slow_start_exit(&mut self, _: f64) {
        self.left = true;
    }

    fn on_idle(&mut self, _: Span) {}

    fn pacing(&self) -> (u64, u64) {
        (200, 100)
    }
}

#[cfg(test)]
mod tests {
    use super::super::law::Law;
    use super::super::window::{Config, Windowed};
    use super::*;
    use crate::units::{Bytes, Rate};

    const WINDOW: u64 = 100_000;
    const SEGMENT: u64 = 1000;

    /// A sender beyond slow start.
    struct Sender {
        law: Windowed<Prague>,
        position: u64,
        now: Time,
        rtt: Span,
    }

    impl Sender {
        fn new(rtt_ms: u64) -> Sender {
            let config = Config { initial_window: WINDOW, initial_threshold: 2_000, ..Config::new(SEGMENT as u32) };
            let mut law = Windowed::new(&config, Prague::new(SEGMENT as u32));
            law.on_timeout(&Congested::new(WINDOW));
            law.on_recovery(Bytes::new(WINDOW));
            Sender { law, position: 0, now: Time::ZERO, rtt: Span::from_millis(rtt_ms) }
        }

        fn window(&self) -> u64 {
            self.law.window().as_u64()
        }

        fn set(&mut self, window: u64) {
            self.law.on_recovery(Bytes::new(window));
        }

        /// An ACK of a segment, with the mark or without.
        fn ack(&mut self, marked: bool, begins: bool) {
            let now = self.now;
            if marked {
                let marked = Congested { now, bytes: Bytes::new(SEGMENT), begins, ..Congested::new(WINDOW) };
                self.law.on_ecn(&marked);
            }
            self.position += SEGMENT;
            let next = self.position + WINDOW;
            let acked = Acked { now, up_to: self.position, next, smoothed_rtt: self.rtt, ..Acked::new(0, SEGMENT) };
            self.law.on_acked(&acked);
        }

        /// A round trip of 100 segments, of which the first `marked` have marks; the first of them begins an episode, if it may.
        fn round(&mut self, marked: usize, reduces: bool) {
            for n in 0..100 {
                self.now += Span::from_nanos(self.rtt.as_nanos() / 100);
                self.ack(n < marked, reduces && n == 0);
            }
        }

        /// Rounds without a mark, after the transition.
        fn calm(rtt_ms: u64) -> Sender {
            let mut sender = Sender::new(rtt_ms);
            for _ in 0..8 {
                sender.round(0, false);
            }
            sender.set(WINDOW);
            sender
        }
    }

    // The card's worked example; the draft, 2.4.2: alpha begins at 1 and is first computed when a mark was seen.
    #[test]
    fn the_first_mark_halves_however_long_there_was_none() {
        let mut sender = Sender::calm(50);
        sender.ack(true, true);
        assert_eq!(sender.window(), WINDOW / 2);
    }

    #[test]
    fn with_an_estimate_of_a_tenth_a_mark_leaves_95_percent() {
        let mut sender = Sender::calm(50);
        for _ in 0..150 {
            sender.round(10, false);
        }
        sender.set(WINDOW);
        sender.ack(true, true);
        let left = sender.window();
        assert!((94_950..95_050).contains(&left), "{left}");
        sender.ack(true, false);
        assert_eq!(sender.window(), left, "once an episode, and what is marked adds nothing");
    }

    // The draft, 2.4.3: growth by what is not marked, also while the window is being reduced.
    #[test]
    fn a_window_without_marks_adds_a_segment_and_one_with_a_share_of_marks_less_by_that_share() {
        for (rtt, marked, added) in
            [(25, 0, 1000), (50, 0, 1000), (200, 0, 1000), (10, 0, 160), (5, 0, 40), (50, 40, 600)]
        {
            let mut sender = Sender::calm(rtt);
            sender.round(marked, false);
            let grown = sender.window() - WINDOW;
            assert!(grown.abs_diff(added) <= 6, "{rtt} ms, {marked} marked: {grown}");
        }
    }

    #[test]
    fn a_short_round_trip_is_reckoned_as_25_ms_only_after_some_rounds() {
        let mut sender = Sender::new(5);
        sender.round(0, false);
        assert!((sender.window() - WINDOW).abs_diff(1000) <= 6, "{}", sender.window());
    }

    // The draft, 2.4.4: with round trips of 5 ms the window shrinks once in 25 ms.
    #[test]
    fn marks_of_each_round_reduce_once_in_the_virtual_round_trip() {
        for (rtt, reductions) in [(5, 8), (50, 40)] {
            let mut sender = Sender::calm(rtt);
            let mut found = 0;
            for _ in 0..40 {
                let before = sender.window();
                sender.now += Span::from_nanos(1);
                sender.ack(true, true);
                found += usize::from(sender.window() < before - 100);
                for _ in 1..100 {
                    sender.now += Span::from_nanos(sender.rtt.as_nanos() / 100);
                    sender.ack(false, false);
                }
            }
            assert!(found.abs_diff(reductions) <= 2, "{rtt} ms: {found}");
        }
    }

    // RFC 9331, 4.3: a loss is answered as others answer it.
    #[test]
    fn a_loss_halves_whatever_the_estimate_is_and_so_does_a_mark_that_is_not_counted() {
        let mut sender = Sender::calm(50);
        for _ in 0..150 {
            sender.round(1, false);
        }
        sender.set(WINDOW);
        sender.law.on_lost(&Congested::new(WINDOW));
        assert_eq!(sender.window(), WINDOW / 2);
        sender.set(WINDOW);
        sender.law.on_ecn(&Congested { exact: false, bytes: Bytes::new(SEGMENT), ..Congested::new(WINDOW) });
        assert_eq!(sender.window(), WINDOW / 2);
    }

    #[test]
    fn beyond_slow_start_it_is_paced_at_one_window_a_round_trip() {
        let sender = Sender::calm(50);
        // 100,000 bytes in 50 ms.
        assert_eq!(sender.law.pacing_rate(), Some(Rate::from_bits_per_sec(16_000_000)));
    }
}
