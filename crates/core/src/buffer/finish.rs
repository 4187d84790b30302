//! Discard by largest finish number: who has got furthest ahead of the others pays.
//!
//! Source: Demers, Keshav and Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM 1989, section 2.3;
//! hybrid-gateways 2.2.1 and 2.3. A packet that comes is let in, and then packets are discarded in the order of decreasing finish numbers
//! until what waits is within its bounds; that may be the one that came. Finish numbers are the discipline's: those of fair queueing by
//! tags, quick fair queueing among them. Of any other, the newest packet of the queue with the most bytes is discarded, which is the last
//! one that equal shares would finish.
//!
//! Departure: numbers go on as if what is discarded had never come. Those of `wfq`, `virtual-clock` and `delay-edd` may then be too small by
//! what the flow was late, until it has nothing waiting. Cost: O(log n) in the flows for each packet that comes. Invariant: a flow whose last packet
//! has a smaller number than some other's loses nothing.

use super::policy::{Backlog, Policy, Reason, Room, Verdict, Victim};
use crate::units::{FlowNumber, Time};

/// Evicts the packet with the largest finish number.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargestFinish;

impl<P> Policy<P> for LargestFinish {
    #[inline]
    fn admit(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Enough => Verdict::Pass,
            Room::TooLittle => Verdict::Evict(Victim::LargestFinish, Reason::LargestFinish),
            Room::Never => Verdict::Drop(Reason::TooLarge),
        }
    }
}
