//! Stochastic fair queueing: deficit round robin over a fixed number of buckets that flows are hashed to.
//!
//! Source: McKenney, "Stochastic Fairness Queueing", INFOCOM 1990; with DRR instead of his packet-by-packet service, as
//! Shreedhar and Varghese 1995 propose in section 3. The hash is keyed by the seed. Flows that share a bucket share
//! its turn: with n flows on b buckets a given flow is alone with probability (1 - 1/b)^(n-1).
//!
//! Departure: the key is not changed while packets wait (he perturbs the hash now and then, which reorders flows); a
//! driver that wants another one makes another discipline. Cost and invariants: those of [`Drr`], a bucket for a flow.

use super::discipline::{Discipline, Entry, Index, Taken};
use super::drr::Drr;
use crate::buffer::Victim;
use crate::rng::Rng;
use crate::units::{Bytes, FlowNumber, Time};

/// DRR over hash buckets.
#[derive(Clone, Debug)]
pub struct Stochastic<P> {
    drr: Drr<P>,
    key: [u64; 2],
    buckets: u32,
}

impl<P> Stochastic<P> {
    /// An empty one of `buckets` buckets (at least 1), whose hash `seed` keys.
    pub fn new(buckets: u32, quantum: Bytes, index: Index, seed: u64) -> Stochastic<P> {
        let mut rng = Rng::new(seed);
        let key = [rng.next_u64(), rng.next_u64() | 1];
        Stochastic { drr: Drr::new(quantum, index), key, buckets: buckets.max(1) }
    }

    /// The bucket of `flow`.
    #[inline]
    pub fn bucket(&self, flow: FlowNumber) -> u32 {
        let [k0, k1] = self.key;
        let wide = u128::from(u64::from(flow.0).wrapping_add(k0)) * u128::from(k1);
        let once = wide as u64 ^ (wide >> 64) as u64;
        let wide = u128::from(once ^ k0) * u128::from(k1);
        let hash = wide as u64 ^ (wide >> 64) as u64;
        (((hash >> 32) * u64::from(self.buckets)) >> 32) as u32
    }
}

impl<P> Discipline<P> for Stochastic<P> {
    #[inline]
    fn enqueue(&mut self, entry: Entry<P>) {
        self.drr.enqueue_as(self.bucket(entry.flow), entry);
    }

    #[inline]
    fn dequeue(&mut self, now: Time) -> Option<Taken<P>> {
        self.drr.dequeue(now)
    }

    fn peek(&self) -> Option<&Entry<P>> {
        self.drr.peek()
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        self.drr.evict(victim)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        self.drr.find(victim)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        self.drr.expire(oldest)
    }

    fn active_flows(&self) -> usize {
        self.drr.active_flows()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // By the formula, in another language.
    #[test]
    fn a_key_and_a_flow_make_a_bucket() {
        let key = [3, 0x9E37_79B9_7F4A_7C15];
        let hash = Stochastic::<()> { key, ..Stochastic::new(1024, Bytes::new(1500), Index::None, 1) };
        let flows = [0, 1, 2, 3, 77, 4_000_000_000, u32::MAX];
        assert_eq!(flows.map(|flow| hash.bucket(FlowNumber(flow))), [921, 327, 328, 302, 652, 299, 229]);
        assert!((0..10_000).all(|flow| hash.bucket(FlowNumber(flow)) < 1024));
    }
}
