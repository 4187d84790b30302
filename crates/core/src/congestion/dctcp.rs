//! DCTCP's curve: the window shrinks by as much as is marked.
//!
//! What it is: Reno's growth; at a mark of congestion the window is reduced in proportion to the share of bytes that were marked of
//! late, once a window of data. It needs ECN, a receiver that echoes each mark, and queues that mark from a low threshold on.
//! Source: RFC 8257, 3.3 and 3.4.
//!
//! | RFC | meaning | here |
//! |---|---|---|
//! | DCTCP.Alpha | estimated share of bytes that are marked | `alpha` |
//! | g = 1/16 | weight of the newest window | `GAIN` |
//! | BytesAcked, BytesMarked | of this window | `acked`, `marked` |
//! | WindowEnd | the window's end | `end` |
//!
//! | when | what |
//! |---|---|
//! | a window of data is acknowledged | alpha = alpha (1 - g) + g BytesMarked/BytesAcked |
//! | a mark, once a window | W (1 - alpha/2) |
//! | a loss | as Reno |
//!
//! Departures: none in the law. The simulator's receiver sends the ACK of a change of marks at once, with the new state also for up to
//! one segment before it that waited for its ACK (RFC 8257, 3.2, has two ACKs).
//! Worked example: alpha begins at 1, so the first mark halves. Of ten windows without a mark alpha falls to (15/16)^10 = 0.524, and of
//! a window of 100,000 bytes a mark then leaves 73,800.
//! Cost: two additions an ACK, a division a window. Invariant: 0 <= alpha <= 1.

use super::law::{Acked, Congested};
use super::reno::Reno;
use super::window::{Counting, Curve};
use crate::units::Span;

/// g.
const GAIN: f64 = 1.0 / 16.0;

/// DCTCP's state.
#[derive(Clone, Debug)]
pub struct Dctcp {
    reno: Reno,
    alpha: f64,
    acked: u64,
    marked: u64,
    end: u64,
}

impl Dctcp {
    /// For segments of `segment` bytes.
    pub fn new(segment: u32, counting: Counting) -> Dctcp {
        // RFC 8257, 4.2: 1 is the initial value that is recommended.
        Dctcp { reno: Reno::new(segment, counting), alpha: 1.0, acked: 0, marked: 0, end: 0 }
    }
}

impl Curve for Dctcp {
    fn grow(&mut self, window: f64, acked: &Acked, bytes: u64) -> f64 {
        self.reno.grow(window, acked, bytes)
    }

    fn on_delivered(&mut self, acked: &Acked) {
        self.acked = self.acked.saturating_add(acked.bytes.as_u64());
        if acked.up_to < self.end {
            return;
        }
        if self.acked > 0 {
            // RFC 8257, 3.3, steps 5 to 7.
            let share = self.marked.min(self.acked) as f64 / self.acked as f64;
            self.alpha = (self.alpha * (1.0 - GAIN) + GAIN * share).clamp(0.0, 1.0);
        }
        (self.acked, self.marked, self.end) = (0, 0, acked.next);
    }

    fn on_marked(&mut self, marked: &Congested) {
        self.marked = self.marked.saturating_add(marked.bytes.as_u64());
    }

    fn reduce_for_mark(&mut self, window: f64, _: f64) -> f64 {
        self.reno.reduce(window, window);
        window * (1.0 - self.alpha / 2.0)
    }

    fn reduce(&mut self, window: f64, basis: f64) -> f64 {
        self.reno.reduce(window, basis)
    }

    fn on_timeout(&mut self) {
        self.reno.on_timeout();
    }

    fn on_slow_start_exit(&mut self, window: f64) {
        self.reno.on_slow_start_exit(window);
    }

    fn on_idle(&mut self, idle: Span) {
        self.reno.on_idle(idle);
    }
}

#[cfg(test)]
mod tests {
    use super::super::law::Law;
    use super::super::window::{Config, Windowed};
    use super::*;
    use crate::units::Bytes;

    const WINDOW: u64 = 100_000;

    fn law() -> Windowed<Dctcp> {
        let config = Config { initial_window: WINDOW, initial_threshold: 2_000, ..Config::new(1000) };
        Windowed::new(&config, Dctcp::new(1000, config.counting))
    }

    fn marked(bytes: u64, begins: bool) -> Congested {
        Congested { bytes: Bytes::new(bytes), begins, ..Congested::new(WINDOW) }
    }

    /// A window of data of which `share` is marked, told ACK by ACK; no mark begins an episode.
    fn window(law: &mut Windowed<Dctcp>, position: &mut u64, share: f64) {
        for n in 0..WINDOW / 1000 {
            *position += 1000;
            let next = *position + WINDOW;
            law.on_acked(&Acked { up_to: *position, next, limited: false, ..Acked::new(0, 1000) });
            if (n as f64) < share * (WINDOW / 1000) as f64 {
                law.on_ecn(&marked(1000, false));
            }
        }
    }

    // The card's worked example.
    #[test]
    fn the_first_mark_halves_and_after_calm_windows_a_mark_costs_little() {
        let mut first = law();
        first.on_ecn(&marked(1000, true));
        assert_eq!(first.window().as_u64(), WINDOW / 2);
        let mut calm = law();
        let mut position = 0;
        // The first ACK ends a window of nothing.
        for _ in 0..10 {
            window(&mut calm, &mut position, 0.0);
        }
        calm.on_recovery(Bytes::new(WINDOW));
        calm.on_ecn(&marked(1000, true));
        let left = calm.window().as_u64();
        assert!((72_500..75_500).contains(&left), "{left}");
    }

    #[test]
    fn the_estimate_follows_the_share_that_is_marked_and_only_the_first_mark_of_a_window_reduces() {
        let mut sender = law();
        let mut position = 0;
        for _ in 0..120 {
            window(&mut sender, &mut position, 0.3);
        }
        sender.on_recovery(Bytes::new(WINDOW));
        sender.on_ecn(&marked(1000, true));
        // alpha = 0.3: 15 % less.
        let once = sender.window().as_u64();
        assert!((84_500..85_500).contains(&once), "{once}");
        sender.on_ecn(&marked(1000, false));
        assert_eq!(sender.window().as_u64(), once);
        sender.on_lost(&Congested::new(once));
        assert_eq!(sender.window().as_u64(), once / 2, "a loss is Reno's");
    }
}
