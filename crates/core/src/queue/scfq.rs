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
use super::tagged::{Clock, Tagged};
use crate::units::Time;

/// Self-clocked fair queueing over a queue for each flow.
pub type Scfq<P> = Tagged<P, SelfClocked>;

/// Virtual time is the finish tag of what goes.
#[derive(Clone, Debug, Default)]
pub struct SelfClocked {
    virtual_time: u64,
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
    fn on_arrival(&mut self, _queue: u32, _since: Time, _cost: u64, _weight: u32) {}

    #[inline]
    fn wake(&self, last: u64) -> u64 {
        last.max(self.virtual_time)
    }

    #[inline]
    fn order(&self, _queue: u32, _start: u64, finish: u64) -> u64 {
        finish
    }

    #[inline]
    fn on_served(&mut self, _now: Time, _start: u64, finish: u64, _size: u32) {
        self.virtual_time = self.virtual_time.max(finish);
    }

    #[inline]
    fn passed(&self) -> u64 {
        self.virtual_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Discipline, Entry};
    use crate::units::FlowNumber;

    #[test]
    fn a_flow_that_virtual_time_has_passed_gives_its_queue_to_another() {
        let mut queue = Scfq::new(Index::None);
        for flow in [1, 2] {
            queue.enqueue(Entry { packet: (), flow: FlowNumber(flow), size: 100, since: Time::ZERO });
            assert_eq!(queue.dequeue(Time::ZERO).map(|taken| (taken.key, taken.queue)), Some((flow, 0)));
        }
    }
}
