//! Reno's curve: additive increase, multiplicative decrease.
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

use super::law::Acked;
use super::window::{Counting, Curve};
use crate::units::Span;

/// Reno's state.
#[derive(Clone, Debug)]
pub struct Reno {
    segment: f64,
    by_bytes: bool,
    /// Bytes acknowledged since the window last grew.
    counted: f64,
}

impl Reno {
    /// For segments of `segment` bytes.
    pub fn new(segment: u32, counting: Counting) -> Reno {
        Reno { segment: f64::from(segment.max(1)), by_bytes: matches!(counting, Counting::Bytes { .. }), counted: 0.0 }
    }
}

impl Curve for Reno {
    #[inline]
    fn grow(&mut self, window: f64, _: &Acked, bytes: u64) -> f64 {
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
    use super::super::law::{Congested, Law};
    use super::super::window::{Basis, Config, InitialWindow, Windowed, initial_window};
    use super::*;
    use crate::units::{Bytes, Rate};
    use proptest::prelude::*;

    const SEGMENT: u32 = 1000;

    fn acked(bytes: u64) -> Acked {
        Acked::new(0, bytes)
    }

    fn config(window: u64, threshold: u64, counting: Counting) -> Config {
        Config { initial_window: window, initial_threshold: threshold, counting, ..Config::new(SEGMENT) }
    }

    fn law(config: &Config) -> Windowed<Reno> {
        Windowed::new(config, Reno::new(config.segment, config.counting))
    }

    fn window(law: &Windowed<Reno>) -> u64 {
        law.window().as_u64()
    }

    fn bounds(law: &Windowed<Reno>) -> (u64, u64) {
        (window(law), law.threshold().as_u64())
    }

    // RFC 3465, 2.1, in congestion avoidance: stretch ACKs and split ACKs give the same.
    #[test]
    fn a_window_acknowledged_adds_one_segment_however_it_is_acknowledged() {
        for pieces in [[2500, 2500, 2500, 2500], [100, 4900, 1, 4999], [9999, 1, 5000, 5000]] {
            let mut sender = law(&config(10_000, 2_000, Counting::Bytes { limit: 2 }));
            let mut sum = 0;
            for piece in pieces {
                sender.on_acked(&acked(piece));
                sum += piece;
                assert_eq!(window(&sender), if sum >= 10_000 { 11_000 } else { 10_000 }, "{pieces:?}");
            }
        }
    }

    // RFC 5681, 3.1: no more than one segment a round trip, whatever one ACK covers.
    #[test]
    fn an_ack_of_many_windows_adds_one_segment_only() {
        let mut sender = law(&config(4_000, 2_000, Counting::Bytes { limit: 2 }));
        sender.on_acked(&acked(1_000_000));
        assert_eq!(window(&sender), 5_000);
    }

    // RFC 5681, equation 4.
    #[test]
    fn a_loss_halves_what_is_under_way_and_two_segments_are_the_least() {
        for (in_flight, threshold) in [(10_000, 5_000), (5_001, 2_500), (3_000, 2_000), (0, 2_000)] {
            let mut sender = law(&config(10_000, u64::MAX, Counting::Bytes { limit: 2 }));
            sender.on_lost(&Congested::new(in_flight));
            assert_eq!(bounds(&sender), (threshold, threshold));
        }
    }

    // RFC 3465, 2.3: L = 1 in the slow start that follows a timeout, until a threshold is passed again.
    #[test]
    fn after_a_timeout_an_ack_counts_for_one_segment() {
        let mut sender = law(&config(10_000, u64::MAX, Counting::Bytes { limit: 2 }));
        sender.on_timeout(&Congested::new(10_000));
        assert_eq!(bounds(&sender), (1_000, 5_000));
        sender.on_acked(&acked(3_000));
        assert_eq!(window(&sender), 2_000);
        sender.on_acked(&acked(3_000));
        assert_eq!(window(&sender), 3_000);
    }

    // RFC 5681, 3.1: a second timeout of the same segment holds the threshold.
    #[test]
    fn a_repeated_timeout_holds_the_threshold() {
        let mut sender = law(&config(10_000, u64::MAX, Counting::Bytes { limit: 2 }));
        sender.on_timeout(&Congested::new(10_000));
        sender.on_timeout(&Congested { begins: false, ..Congested::new(1_000) });
        assert_eq!(bounds(&sender), (1_000, 5_000));
    }

    // RFC 4015: response to a spurious retransmission.
    #[test]
    fn an_undone_reduction_leaves_what_was_before() {
        let mut sender = law(&config(10_000, 8_000, Counting::Bytes { limit: 2 }));
        sender.on_timeout(&Congested::new(10_000));
        sender.on_timeout(&Congested { begins: false, ..Congested::new(1_000) });
        sender.on_undo();
        assert_eq!(bounds(&sender), (10_000, 8_000));
        sender.on_lost(&Congested::new(10_000));
        sender.on_undo();
        sender.on_undo();
        assert_eq!(bounds(&sender), (10_000, 8_000));
    }

    // ns-2: half of the smaller of window and limit; the threshold in whole segments.
    #[test]
    fn on_the_basis_of_the_window_the_threshold_is_whole_segments() {
        let config = Config { basis: Basis::Window, ..config(11_000, u64::MAX, Counting::Acks) };
        let mut sender = law(&config);
        sender.on_lost(&Congested { limit: Bytes::new(9_000), ..Congested::new(3_000) });
        assert_eq!(sender.threshold().as_u64(), 4_000);
        let mut sender = law(&config);
        sender.on_lost(&Congested { limit: Bytes::new(90_000), ..Congested::new(3_000) });
        assert_eq!(sender.threshold().as_u64(), 5_000);
    }

    // RFC 3168, 6.1.2: a mark is as a loss, once a window, and never taken back.
    #[test]
    fn a_mark_reduces_as_a_loss_does_and_only_where_it_begins_an_episode() {
        let mut sender = law(&config(10_000, u64::MAX, Counting::Bytes { limit: 2 }));
        sender.on_ecn(&Congested::new(10_000));
        assert_eq!(bounds(&sender), (5_000, 5_000));
        sender.on_ecn(&Congested { begins: false, ..Congested::new(10_000) });
        sender.on_lost(&Congested { begins: false, ..Congested::new(10_000) });
        sender.on_undo();
        assert_eq!(bounds(&sender), (5_000, 5_000));
    }

    // Linux, tcp_update_pacing_rate: 200 % below half the threshold, 120 % from there on.
    #[test]
    fn the_pacing_rate_is_two_windows_a_round_trip_in_slow_start_and_six_fifths_later() {
        let mut sender = law(&config(10_000, 40_000, Counting::Bytes { limit: u32::MAX }));
        assert_eq!(sender.pacing_rate(), None, "no round trip was measured");
        sender.on_acked(&acked(5_000));
        assert_eq!((window(&sender), sender.pacing_rate()), (15_000, Some(Rate::from_bits_per_sec(2_400_000))));
        sender.on_acked(&acked(5_000));
        assert_eq!((window(&sender), sender.pacing_rate()), (20_000, Some(Rate::from_bits_per_sec(1_920_000))));
    }

    // RFC 9438, 5.8: growth is for windows that are used.
    #[test]
    fn a_window_half_used_grows_in_slow_start_and_only_a_used_one_later() {
        for (threshold, in_flight, grown) in
            [(u64::MAX, 4_999, 10_000), (u64::MAX, 5_000, 12_000), (5_000, 9_000, 10_000)]
        {
            let validated =
                Config { grow_only_when_limited: true, ..config(10_000, threshold, Counting::Bytes { limit: 2 }) };
            let mut sender = law(&validated);
            sender.on_acked(&Acked { limited: false, in_flight: Bytes::new(in_flight), ..acked(10_000) });
            assert_eq!(window(&sender), grown, "{threshold} {in_flight}");
        }
    }

    #[test]
    fn while_a_recovery_goes_on_the_window_is_what_the_recovery_says() {
        let mut sender = law(&config(10_000, u64::MAX, Counting::Bytes { limit: 2 }));
        sender.on_lost(&Congested::new(10_000));
        sender.on_recovery(Bytes::new(7_000));
        sender.on_acked(&Acked { recovering: true, ..acked(3_000) });
        assert_eq!(bounds(&sender), (7_000, 5_000));
        sender.on_recovery(Bytes::ZERO);
        assert_eq!(bounds(&sender), (1_000, 5_000), "one segment at least");
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
            let mut sender = law(&config(4_000, threshold, Counting::Bytes { limit: 2 }));
            let (mut window, mut limit, mut counted, mut l) = (4_000_u64, threshold, 0_u64, 2_000_u64);
            for (kind, bytes) in events {
                match kind {
                    0 => {
                        sender.on_lost(&Congested::new(window));
                        limit = (window / 2).max(2_000);
                        window = limit;
                        (counted, l) = (0, 2_000);
                    }
                    1 => {
                        sender.on_timeout(&Congested::new(window));
                        limit = (window / 2).max(2_000);
                        window = 1_000;
                        (counted, l) = (0, 1_000);
                    }
                    _ => {
                        sender.on_acked(&acked(bytes));
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
                prop_assert_eq!(bounds(&sender), (window, limit));
            }
        }
    }
}
