//! Probabilistic fair drop (PFD), exact and by quasi-pushout.
//!
//! Source: hybrid-gateways 3.3 and figure 3.3; quasi-pushout: 3.5; shares of the buffer by round trip: 3.4.3.
//!
//! | paper | here |
//! |---|---|
//! | thresh, p | `threshold`, `probability` |
//! | q_size, B | what is taken of the buffer with the packet that arrives, against its bounds |
//! | n_i = q_i / b_i | length over room, in the discipline's store; b_i = B / n where all rooms are alike |
//! | b_i = B RTT_i / sum of RTT | room = RTT ([`Queue::set_room`](crate::queue::Queue::set_room)) |
//! | drop_from_longest_normalized_q | [`Victim::LongestHead`] |
//! | discard_q, discard_q_occupancy | [`Victim::Suspect`] |
//!
//! The decision is made for each packet that arrives, whoever then pays for it. A head that can be marked is marked
//! instead of dropped, but where the buffer is over-full. With one queue for all it is that queue's head.
//!
//! The longest normalised queue is exact in amortised O(log n), and nothing in most cases: the store has a heap by *upper
//! bounds* of the lengths. A queue that grows beyond its bound moves up; one that shrinks keeps its bound, and only when
//! somebody asks is the heap's top brought down to its true length until it is its own. Quasi-pushout remembers the queue
//! of which the greatest length was seen, in O(1), and corrects that only when this queue itself changes.
//!
//! Departures: none in the order of the steps; lengths are in packets or in bytes, as the limit is, where the paper has
//! packets. Invariant: below the threshold nothing is dropped, and what waits is within its bounds.

use super::policy::{Backlog, Bounds, Policy, Reason, Room, Verdict, Victim};
use crate::options::Share;
use crate::rng::Rng;
use crate::units::{FlowNumber, Time};

/// Settings of [`Pfd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfdConfig {
    /// thresh: share of the buffer up to which nothing is dropped. As text by default 0.2, the paper's.
    pub threshold: Share,
    /// p: how likely a packet that arrives beyond costs one. As text by default 0.02, the paper's.
    pub probability: Share,
    /// Whether the queue that pays is the longest one that was seen, not the longest one that is. As text by default off.
    pub quasi: bool,
}

impl PfdConfig {
    /// The defaults.
    pub const PLAIN: PfdConfig = PfdConfig {
        threshold: Share::from_millionths(200_000),
        probability: Share::from_millionths(20_000),
        quasi: false,
    };

    /// Who pays.
    pub(super) fn victim(&self) -> Victim {
        if self.quasi { Victim::Suspect } else { Victim::LongestHead }
    }
}

/// Probabilistic fair drop.
#[derive(Clone, Debug)]
pub struct Pfd {
    threshold: f64,
    probability: f64,
    victim: Victim,
    rng: Rng,
    /// The bounds that the buffer had last, and as much of them as the threshold says.
    bounds: Bounds,
    below: Bounds,
}

impl Pfd {
    /// One with these settings; draws by `seed`.
    pub fn new(config: PfdConfig, seed: u64) -> Pfd {
        Pfd {
            threshold: config.threshold.as_f64(),
            probability: config.probability.as_f64(),
            victim: config.victim(),
            rng: Rng::new(seed),
            bounds: Bounds::NONE,
            below: Bounds::NONE,
        }
    }

    /// Another threshold and probability from now on.
    pub(super) fn set(&mut self, threshold: f64, probability: f64) {
        (self.threshold, self.probability) = (threshold, probability);
        self.below = self.bounds.part(threshold);
    }

    /// Whether the buffer is taken beyond the threshold, with the packet that arrives.
    #[inline]
    fn is_beyond(&mut self, backlog: &Backlog) -> bool {
        if self.bounds != backlog.bounds {
            self.bounds = backlog.bounds;
            self.below = self.bounds.part(self.threshold);
        }
        let (bytes, memory) = (backlog.bytes.saturating_add(backlog.size), backlog.memory.saturating_add(backlog.cost));
        !self.below.hold(backlog.packets + 1, bytes, memory)
    }
}

impl<P> Policy<P> for Pfd {
    fn admit(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Never => Verdict::Drop(Reason::TooLarge),
            Room::TooLittle => Verdict::Evict(self.victim, Reason::LongestHead),
            Room::Enough if self.is_beyond(backlog) && self.rng.unit() < self.probability => {
                Verdict::PushOut(self.victim, Reason::EarlyLongest)
            }
            Room::Enough => Verdict::Pass,
        }
    }
}
