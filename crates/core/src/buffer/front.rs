//! Drop-front: what comes to a full buffer takes the place of the packet that waits longest, whichever its queue.
//!
//! Source: Yin and Hluchyj, "Implication of dropping packets from the front of a buffer", IEEE Transactions on
//! Communications 41(6), 1993. Cost: O(1), no state. Invariant: what waits is within its bounds, and is the newest.

use super::policy::{Backlog, Policy, Reason, Room, Verdict, Victim};
use crate::units::{FlowNumber, Time};

/// Evicts the oldest packet of a full buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropFront;

impl<P> Policy<P> for DropFront {
    #[inline]
    fn admit(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Enough => Verdict::Pass,
            Room::TooLittle => Verdict::Evict(Victim::Oldest, Reason::Front),
            Room::Never => Verdict::Drop(Reason::TooLarge),
        }
    }
}
