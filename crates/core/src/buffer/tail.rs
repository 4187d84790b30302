//! Drop-tail: what comes to a full buffer is refused.
//!
//! Cost: O(1), no state. Invariant: what waits is within its bounds.

use super::policy::{Backlog, Policy, Reason, Room, Verdict};
use crate::units::{FlowNumber, Time};

/// Refuses what arrives at a full buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropTail;

impl<P> Policy<P> for DropTail {
    #[inline]
    fn admit(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Enough => Verdict::Pass,
            Room::TooLittle => Verdict::Drop(Reason::Full),
            Room::Never => Verdict::Drop(Reason::TooLarge),
        }
    }
}
