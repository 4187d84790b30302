//! Early random drop (ERD): from a threshold on, packets that arrive are dropped with a fixed probability.
//!
//! Source: Hashem, "Analysis of random drop for gateway congestion control", MIT LCS TR-465, 1989, as Floyd and Jacobson
//! 1993, section 3, and hybrid-gateways 3.2 have it. A packet that can be marked is marked instead. At a full buffer it is
//! drop-tail.
//!
//! | source | field |
//! |---|---|
//! | drop level, as a share of the buffer | `threshold` |
//! | drop probability | `probability` |
//!
//! Cost: O(1). Invariant: below the threshold nothing is dropped.

use super::policy::{Backlog, Policy, Reason, Verdict};
use super::tail::DropTail;
use crate::options::Share;
use crate::rng::Rng;
use crate::units::{FlowNumber, Time};

/// Drops at random from a threshold on.
#[derive(Clone, Debug)]
pub struct EarlyRandom {
    threshold: Share,
    probability: f64,
    rng: Rng,
}

impl EarlyRandom {
    /// One that drops with this probability while more than `threshold` of the buffer is taken; draws by `seed`.
    pub fn new(threshold: Share, probability: Share, seed: u64) -> EarlyRandom {
        EarlyRandom { threshold, probability: probability.as_f64(), rng: Rng::new(seed) }
    }
}

impl<P> Policy<P> for EarlyRandom {
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        match DropTail.admit(now, flow, packet, backlog) {
            Verdict::Pass if backlog.fill() > self.threshold.as_f64() && self.rng.unit() < self.probability => {
                Verdict::Mark(Reason::Early)
            }
            verdict => verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Limit;

    #[test]
    fn what_takes_just_the_threshold_with_itself_passes() {
        let mut policy = EarlyRandom::new(Share::from_millionths(500_000), Share::ONE, 1);
        let mut admit = |packets| {
            let bounds = Limit::Packets(10).into();
            let backlog = Backlog { packets, bytes: 0, memory: 0, bounds, size: 100, cost: 0, by_flow: false };
            policy.admit(Time::ZERO, FlowNumber(0), &(), &backlog)
        };
        assert_eq!([3, 4, 5, 9].map(&mut admit)[..2], [Verdict::Pass; 2]);
        assert_eq!([5, 9].map(admit), [Verdict::Mark(Reason::Early); 2]);
    }
}
