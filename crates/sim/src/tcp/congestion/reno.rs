//! Reno's law: additive increase, multiplicative decrease.
//!
//! What it is: one segment more each round trip, half at a loss. Source: RFC 5681, 3.1 (equations 3 and 4); RFC 3465,
//! 2.1 (byte counting in congestion avoidance).
//!
//! | RFC | here |
//! |---|---|
//! | bytes_acked (RFC 3465) | `counted` |
//! | SMSS | `segment` |
//!
//! Cost: a division an ACK when ACKs count, none when bytes do. Invariant: with byte counting a full window
//! acknowledged adds one segment, however many ACKs did it.

use super::{Ack, Counting, Law};
use fairspan_core::units::Span;

/// Reno's state.
#[derive(Clone, Debug)]
pub struct Reno {
    pub(super) segment: f64,
    by_bytes: bool,
    /// Bytes acknowledged since the window last grew.
    counted: f64,
}

impl Reno {
    /// For segments of `segment` bytes.
    pub fn new(segment: f64, counting: Counting) -> Reno {
        Reno { segment, by_bytes: matches!(counting, Counting::Bytes { .. }), counted: 0.0 }
    }
}

impl Law for Reno {
    fn grow(&mut self, window: f64, _: &Ack, bytes: u64) -> f64 {
        if !self.by_bytes {
            // RFC 5681, equation 3: cwnd += SMSS*SMSS/cwnd.
            return window + self.segment * self.segment / window;
        }
        // RFC 3465, 2.1.
        self.counted += bytes as f64;
        if self.counted < window {
            return window;
        }
        self.counted -= window;
        // An ACK of several windows adds one segment only: RFC 5681, 3.1 allows no more than one a round trip.
        self.counted = self.counted.min(window);
        window + self.segment
    }

    fn reduce(&mut self, _: f64, basis: f64) -> f64 {
        self.counted = 0.0;
        basis / 2.0
    }

    fn on_timeout(&mut self) {
        self.counted = 0.0;
    }

    fn on_slow_start_exit(&mut self, _: f64) {}

    fn on_idle(&mut self, _: Span) {
        self.counted = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Basis, Congested, Congestion, InitialWindow, Settings, initial_window};
    use super::*;
    use fairspan_core::units::Time;
    use proptest::prelude::*;

    const SEGMENT: u32 = 1000;

    fn ack(acknowledged: u64) -> Ack {
        Ack {
            now: Time::ZERO,
            acknowledged,
            in_flight: 0,
            rtt: None,
            smoothed_rtt: Span::from_millis(100),
            una: 0,
            next: 0,
            limited: true,
        }
    }

    fn congested(in_flight: u64) -> Congested {
        Congested { now: Time::ZERO, in_flight, limit: u64::MAX }
    }

    fn settings(window: u64, threshold: u64, counting: Counting) -> Settings {
        Settings {
            initial_window: window,
            initial_threshold: threshold,
            counting,
            ..Settings::new(Algorithm::Reno, SEGMENT)
        }
    }

    // RFC 3465, 2.1, in congestion avoidance: stretch ACKs and split ACKs give the same.
    #[test]
    fn a_window_acknowledged_adds_one_segment_however_it_is_acknowledged() {
        for pieces in [[2500, 2500, 2500, 2500], [100, 4900, 1, 4999], [9999, 1, 5000, 5000]] {
            let mut state = Congestion::new(&settings(10_000, 2_000, Counting::Bytes { limit: 2 }));
            let mut acked = 0;
            for piece in pieces {
                state.on_ack(&ack(piece));
                acked += piece;
                assert_eq!(state.window(), if acked >= 10_000 { 11_000 } else { 10_000 }, "{pieces:?}");
            }
        }
    }

    // RFC 5681, 3.1: no more than one segment a round trip, whatever one ACK covers.
    #[test]
    fn an_ack_of_many_windows_adds_one_segment_only() {
        let mut state = Congestion::new(&settings(4_000, 2_000, Counting::Bytes { limit: 2 }));
        state.on_ack(&ack(1_000_000));
        assert_eq!(state.window(), 5_000);
    }

    // RFC 5681, equation 4.
    #[test]
    fn a_loss_halves_what_is_under_way_and_two_segments_are_the_least() {
        for (in_flight, threshold) in [(10_000, 5_000), (5_001, 2_500), (3_000, 2_000), (0, 2_000)] {
            let mut state = Congestion::new(&settings(10_000, u64::MAX, Counting::Bytes { limit: 2 }));
            state.on_loss(&congested(in_flight));
            assert_eq!((state.window(), state.threshold()), (threshold, threshold));
        }
    }

    // RFC 3465, 2.3: L = 1 in the slow start that follows a timeout, until a threshold is passed again.
    #[test]
    fn after_a_timeout_an_ack_counts_for_one_segment() {
        let mut state = Congestion::new(&settings(10_000, u64::MAX, Counting::Bytes { limit: 2 }));
        state.on_timeout(&congested(10_000), true);
        assert_eq!((state.window(), state.threshold()), (1_000, 5_000));
        state.on_ack(&ack(3_000));
        assert_eq!(state.window(), 2_000);
        state.on_ack(&ack(3_000));
        assert_eq!(state.window(), 3_000);
    }

    // RFC 5681, 3.1: a second timeout of the same segment holds the threshold.
    #[test]
    fn a_repeated_timeout_holds_the_threshold() {
        let mut state = Congestion::new(&settings(10_000, u64::MAX, Counting::Bytes { limit: 2 }));
        state.on_timeout(&congested(10_000), true);
        state.on_timeout(&congested(1_000), false);
        assert_eq!((state.window(), state.threshold()), (1_000, 5_000));
    }

    // RFC 4015: response to a spurious retransmission.
    #[test]
    fn an_undone_reduction_leaves_what_was_before() {
        let mut state = Congestion::new(&settings(10_000, 8_000, Counting::Bytes { limit: 2 }));
        state.on_timeout(&congested(10_000), true);
        state.on_timeout(&congested(1_000), false);
        state.undo();
        assert_eq!((state.window(), state.threshold()), (10_000, 8_000));
        state.on_loss(&congested(10_000));
        state.undo();
        state.undo();
        assert_eq!((state.window(), state.threshold()), (10_000, 8_000));
    }

    // ns-2: half of the smaller of window and limit; the threshold in whole segments.
    #[test]
    fn on_the_basis_of_the_window_the_threshold_is_whole_segments() {
        let settings = Settings { basis: Basis::Window, ..settings(11_000, u64::MAX, Counting::Acks) };
        let mut state = Congestion::new(&settings);
        state.on_loss(&Congested { limit: 9_000, ..congested(3_000) });
        assert_eq!(state.threshold(), 4_000);
        let mut state = Congestion::new(&settings);
        state.on_loss(&Congested { limit: 90_000, ..congested(3_000) });
        assert_eq!(state.threshold(), 5_000);
    }

    #[test]
    fn initial_windows_are_those_of_the_rfcs_at_their_borders() {
        let table = [(1095, 4380, 10_950), (1096, 3288, 10_960), (1460, 4380, 14_600), (2190, 6570, 14_600)];
        for (segment, rfc3390, rfc6928) in table {
            assert_eq!(initial_window(InitialWindow::Rfc3390, segment), rfc3390);
            assert_eq!(initial_window(InitialWindow::Rfc6928, segment), rfc6928);
        }
        assert_eq!(initial_window(InitialWindow::Rfc3390, 2191), 4382);
        assert_eq!(initial_window(InitialWindow::Rfc6928, 9000), 18_000);
    }

    proptest! {
        /// The obvious model: count bytes up in whole numbers.
        #[test]
        fn it_does_what_a_count_of_whole_bytes_does(
            threshold in 2_000u64..40_000, events in proptest::collection::vec((0u8..20, 1u64..6_000), 1..300),
        ) {
            let mut state = Congestion::new(&settings(4_000, threshold, Counting::Bytes { limit: 2 }));
            let (mut window, mut limit, mut counted, mut l) = (4_000_u64, threshold, 0_u64, 2_000_u64);
            for (kind, bytes) in events {
                match kind {
                    0 => {
                        state.on_loss(&congested(window));
                        limit = (window / 2).max(2_000);
                        window = limit;
                        (counted, l) = (0, 2_000);
                    }
                    1 => {
                        state.on_timeout(&congested(window), true);
                        limit = (window / 2).max(2_000);
                        window = 1_000;
                        (counted, l) = (0, 1_000);
                    }
                    _ => {
                        state.on_ack(&ack(bytes));
                        if window < limit {
                            window += bytes.min(l);
                        } else {
                            counted += bytes;
                            if counted >= window {
                                counted = (counted - window).min(window);
                                window += 1_000;
                            }
                        }
                    }
                }
                prop_assert_eq!((state.window(), state.threshold()), (window, limit));
            }
        }
    }
}
