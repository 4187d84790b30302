//! Self-clocked fair queueing (SCFQ).
//!
//! Source: Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband Applications", INFOCOM 1994, section 3.
//!
//! | paper | here |
//! |---|---|
//! | v(t) | `virtual_time`: finish tag of the packet in service |
//! | F_k^i = L_k^i / r_k + max(F_k^(i-1), v(a_k^i)) | the finish that heads are compared by |
//!
//! What goes has the least finish tag, so v(t) is never beyond the tags of a flow that has packets, and counts for the
//! first one only. A flow that falls idle ends at v(t): nothing has to be remembered of it.
//!
//! Departures, cost and memory: those of [`Tagged`]; and virtual time is not put back to zero after a busy period, which
//! makes no difference. Invariants: over any interval in which flows f and m are backlogged, what they are served over
//! their weights differs by at most l_f / r_f + l_m / r_m (theorem 1); a packet may have to wait for one of each other
//! flow (theorem 3), where WFQ has it wait for one.

use super::discipline::Index;
use super::stamp::Stamp;
use super::tagged::{Clock, Tagged};
use crate::units::Time;

/// Self-clocked fair queueing over a queue for each flow.
pub type Scfq<P> = Tagged<P, SelfClocked>;

/// Virtual time is the finish tag of what goes.
#[derive(Clone, Debug, Default)]
pub struct SelfClocked {
    virtual_time: Stamp,
}

impl<P> Scfq<P> {
    /// An empty one.
    pub fn new(index: Index) -> Scfq<P> {
        Tagged::with(SelfClocked::default(), index)
    }
}

impl Clock for SelfClocked {
    type Note = ();

    #[inline]
    fn on_arrival(&mut self, _queue: u32, _since: Time, _cost: Stamp, _weight: u32) {}

    #[inline]
    fn wake(&self, last: Stamp) -> Stamp {
        last.max(self.virtual_time)
    }

    #[inline]
    fn order(&self, _queue: u32, _start: Stamp, finish: Stamp) -> u64 {
        finish.tags()
    }

    #[inline]
    fn on_served(&mut self, _now: Time, _start: Stamp, finish: Stamp, _size: u32) {
        // Heads within a tag go by when they came. Where one was dropped, what took its place may end before what went.
        if finish.tags() >= self.virtual_time.tags() {
            self.virtual_time = finish;
        }
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
    fn virtual_time_goes_back_within_a_tag_and_no_further() {
        let mut clock = SelfClocked::default();
        for (finish, then) in [((5, 7), (5, 7)), ((5, 3), (5, 3)), ((4, 9), (5, 3)), ((6, 0), (6, 0))] {
            clock.on_served(Time::ZERO, Stamp::of(0), Stamp::of_key(finish), 1);
            assert_eq!((clock.wake(Stamp::of(0)), clock.passed()), (Stamp::of_key(then), Stamp::of(then.0)));
        }
    }

    #[test]
    fn a_flow_that_virtual_time_has_passed_gives_its_queue_to_another() {
        let mut queue = Scfq::new(Index::None);
        for flow in [1, 2] {
            queue.enqueue(Entry { packet: (), flow: FlowNumber(flow), size: 100, since: Time::ZERO });
            assert_eq!(queue.dequeue(Time::ZERO).map(|taken| (taken.key, taken.queue)), Some((flow, 0)));
        }
    }
}
