//! Random drop: what comes to a full buffer takes the place of a packet that is drawn from all that wait.
//!
//! Source: Mankin, "Random Drop Congestion Control", SIGCOMM 1990, section 2; hybrid-gateways 3.2. The packet that arrives
//! takes part in the draw. Cost: O(1) to draw; a FIFO queue moves what lies behind the packet, a queue of a flow does not.
//! Invariant: a flow loses in proportion to what it has waiting.

use super::policy::{Backlog, Policy, Reason, Room, Verdict, Victim};
use crate::rng::Rng;
use crate::units::{FlowNumber, Time};

/// Evicts any packet of a full buffer, each with the same probability.
#[derive(Clone, Debug)]
pub struct RandomDrop {
    rng: Rng,
}

impl RandomDrop {
    /// One that draws by `seed`.
    pub fn new(seed: u64) -> RandomDrop {
        RandomDrop { rng: Rng::new(seed) }
    }
}

impl<P> Policy<P> for RandomDrop {
    #[inline]
    fn admit(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Enough => Verdict::Pass,
            Room::TooLittle => Verdict::Evict(Victim::Any(self.rng.next_u64()), Reason::Random),
            Room::Never => Verdict::Drop(Reason::TooLarge),
        }
    }
}
