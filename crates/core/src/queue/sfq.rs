//! Start-time fair queueing (SFQ).
//!
//! Source: Goyal, Vin and Cheng, "Start-time Fair Queueing", SIGCOMM 1996, section 2, definition 1, equations 4 to 6.
//!
//! | paper | here |
//! |---|---|
//! | v(t) | `virtual_time`: start tag of the packet in service; the largest finish tag after a busy period |
//! | S(p_f^j) = max(v(A), F(p_f^(j-1))) | where the flow has been served up to ([`Tagged`]), of the head of the queue |
//! | F(p_f^j) = S + l / r_f | start + size over weight |
//!
//! A flow that has packets has tags that follow one another, so v(A) counts for the first one only. Departures, cost and
//! memory: those of [`Tagged`]. Virtual time is that of the last packet given out.
//!
//! Invariants: virtual time never goes back to an earlier tag; over any interval in which flows f and m are backlogged, what they are
//! served over their weights differs by at most l_f / r_f + l_m / r_m (theorem 1).

use super::discipline::Index;
use super::stamp::Stamp;
use super::tagged::{Clock, Tagged};
use crate::units::Time;

/// Start-time fair queueing over a queue for each flow.
pub type Sfq<P> = Tagged<P, StartTime>;

/// Virtual time is the start tag of what goes.
#[derive(Clone, Debug, Default)]
pub struct StartTime {
    virtual_time: Stamp,
    largest_finish: Stamp,
}

impl<P> Sfq<P> {
    /// An empty one.
    pub fn new(index: Index) -> Sfq<P> {
        Tagged::with(StartTime::default(), index)
    }
}

impl Clock for StartTime {
    type Note = ();

    #[inline]
    fn on_arrival(&mut self, _queue: u32, _since: Time, _cost: Stamp, _weight: u32) {}

    #[inline]
    fn wake(&self, last: Stamp) -> Stamp {
        last.max(self.virtual_time)
    }

    #[inline]
    fn order(&self, _queue: u32, start: Stamp, _finish: Stamp) -> u64 {
        start.tags()
    }

    #[inline]
    fn on_served(&mut self, _now: Time, start: Stamp, finish: Stamp, _size: u32) {
        self.virtual_time = start;
        self.largest_finish = self.largest_finish.max(finish);
    }

    #[inline]
    fn on_idle(&mut self, _now: Time) {
        self.virtual_time = self.virtual_time.max(self.largest_finish);
    }

    #[inline]
    fn passed(&self) -> Stamp {
        self.virtual_time.floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Discipline, Entry};
    use crate::units::FlowNumber;

    #[test]
    fn within_a_tag_virtual_time_may_go_back_and_only_what_ended_before_that_tag_has_passed() {
        let mut clock = StartTime::default();
        for start in [(5, 7), (5, 3)].map(Stamp::of_key) {
            clock.on_served(Time::ZERO, start, start, 1);
            assert_eq!((clock.wake(Stamp::of(0)), clock.passed()), (start, Stamp::of(5)));
        }
    }

    #[test]
    fn a_flow_that_virtual_time_has_passed_gives_its_queue_to_another() {
        let mut queue = Sfq::new(Index::None);
        for flow in [1, 2] {
            queue.enqueue(Entry { packet: (), flow: FlowNumber(flow), size: 100, since: Time::ZERO });
            assert_eq!(queue.dequeue(Time::ZERO).map(|taken| (taken.key, taken.queue)), Some((flow, 0)));
            assert!(queue.dequeue(Time::ZERO).is_none(), "the link is idle, and virtual time goes to the last finish");
        }
    }
}
