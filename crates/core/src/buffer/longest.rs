//! Longest-queue drop: when the buffer is full, a packet of the longest queue goes, the newest or the oldest.
//!
//! Source: McKenney, "Stochastic Fairness Queueing", INFOCOM 1990, section 5 (the newest); Suter et al., "Design
//! considerations for supporting TCP with per-flow queueing", INFOCOM 1998, "LQD" (the oldest, so that TCP hears of it
//! earlier: hybrid-gateways 3.2). Queues are as long as the limit counts them: in packets or in bytes, over the room of
//! their flow. With two levels the group with the most comes first, and then its longest queue. With one queue for all, its
//! newest packet is the one that arrives: that is drop-tail; and the oldest is drop-front.
//!
//! Cost: O(1), no state; the discipline keeps its queues in a heap, amortised O(log n). Invariant: a flow loses nothing
//! while another has more waiting; with two levels, while another of its group has, or another group.

use super::policy::{Backlog, Policy, Reason, Room, Verdict, Victim};
use crate::units::{FlowNumber, Time};

/// Evicts the newest packet of the longest queue of a full buffer, or the oldest.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongestQueue {
    /// Whether it is the oldest.
    pub head: bool,
}

impl<P> Policy<P> for LongestQueue {
    #[inline]
    fn admit(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Enough => Verdict::Pass,
            Room::TooLittle if self.head => Verdict::Evict(Victim::LongestHead, Reason::LongestHead),
            Room::TooLittle if backlog.by_flow => Verdict::Evict(Victim::Longest, Reason::Longest),
            Room::TooLittle => Verdict::Drop(Reason::Full),
            Room::Never => Verdict::Drop(Reason::TooLarge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Limit;

    #[test]
    fn a_full_buffer_costs_the_longest_queue_its_newest_or_oldest_packet_and_one_queue_for_all_the_one_that_comes() {
        for (head, by_flow, verdict) in [
            (false, true, Verdict::Evict(Victim::Longest, Reason::Longest)),
            (false, false, Verdict::Drop(Reason::Full)),
            (true, true, Verdict::Evict(Victim::LongestHead, Reason::LongestHead)),
            (true, false, Verdict::Evict(Victim::LongestHead, Reason::LongestHead)),
        ] {
            let admit = |bytes, size| {
                let bounds = Limit::Bytes(1000).into();
                let backlog = Backlog { packets: 1, bytes, memory: 0, bounds, size, cost: 0, by_flow };
                LongestQueue { head }.admit(Time::ZERO, FlowNumber(0), &(), &backlog)
            };
            assert_eq!((admit(500, 500), admit(500, 501)), (Verdict::Pass, verdict), "{head} {by_flow}");
            assert_eq!(admit(0, 1001), Verdict::Drop(Reason::TooLarge));
        }
    }
}
