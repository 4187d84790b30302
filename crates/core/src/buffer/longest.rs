//! Longest-queue drop: when the buffer is full, the newest packet of the longest queue goes.
//!
//! Source: McKenney, "Stochastic Fairness Queueing", INFOCOM 1990, section 5; Suter et al., "Design considerations for
//! supporting TCP with per-flow queueing", INFOCOM 1998 ("LQD"). Queues are as long as the limit counts them: in packets
//! or in bytes. With one queue for all, its newest packet is the one that arrives: that is drop-tail.
//!
//! Cost: O(1), no state; the discipline keeps its queues in a heap, O(log n). Invariant: a flow loses nothing while
//! another has more waiting.

use super::policy::{Backlog, Policy, Reason, Room, Verdict, Victim};
use crate::units::{FlowNumber, Time};

/// Evicts the newest packet of the longest queue of a full buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongestQueue;

impl<P> Policy<P> for LongestQueue {
    #[inline]
    fn admit(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Enough => Verdict::Pass,
            Room::TooLittle if backlog.by_flow => Verdict::Evict(Victim::Longest, Reason::Longest),
            Room::TooLittle => Verdict::Drop(Reason::Full),
            Room::Never => Verdict::Drop(Reason::TooLarge),
        }
    }
}
