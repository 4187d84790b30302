//! Random longest-queue drop (RND): the head of a queue that is drawn from those which have more than their share.
//!
//! Source: Suter, Lakshman, Stiliadis and Choudhury, "Design considerations for supporting TCP with per-flow queueing",
//! INFOCOM 1998, as hybrid-gateways 3.2 has it. A share is B / n, or B times the flow's room over that of all flows that
//! have packets ([`Queue::set_room`](crate::queue::Queue::set_room)).
//!
//! Departures: B is what waits when the buffer is over-full, the packet that arrives among it. Where all queues have their
//! very share, any of them is drawn. Cost: 32 draws at most, and where none hits (few queues have more than their share)
//! the queues that do are listed, which the heap has at its top; the expected cost is so O(n / k), at most O(k), with k
//! such queues. Invariant: who has less than his share loses nothing.

use super::policy::{Backlog, Policy, Reason, Room, Verdict, Victim};
use crate::rng::Rng;
use crate::units::{FlowNumber, Time};

/// Evicts the head of a random queue that has more than its share.
#[derive(Clone, Debug)]
pub struct AboveShare {
    rng: Rng,
}

impl AboveShare {
    /// One that draws by `seed`.
    pub fn new(seed: u64) -> AboveShare {
        AboveShare { rng: Rng::new(seed) }
    }
}

impl<P> Policy<P> for AboveShare {
    #[inline]
    fn admit(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Enough => Verdict::Pass,
            Room::TooLittle => Verdict::Evict(Victim::AboveShare(self.rng.next_u64()), Reason::AboveShare),
            Room::Never => Verdict::Drop(Reason::TooLarge),
        }
    }
}
