//! Randomised fair queueing (RFQ), weighted and seeded.
//!
//! Source: striping §3.7. Channel i is chosen with probability quantum_i / sum of quanta. Both ends draw from the
//! same seeded generator, so the receiver repeats the sender's choices. The next choice is drawn ahead, which keeps
//! f(s) pure: causal means that it may depend on the past, not on the packet to come.
//!
//! The paper's note holds: shares are of packets, so of bytes only where mean packet sizes are alike.
//! Cost: O(log n) per packet for the search in the cumulative weights.

use super::set::{ChannelSet, next_in};
use super::{Causal, SetError};
use crate::rng::Rng;
use crate::units::{Bytes, ChannelId};
use alloc::vec::Vec;

/// Weighted random choice, the same at both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rfq {
    mask: u64,
    at: u8,
    cumulative: Vec<(u64, u8)>,
    total: u64,
    rng: Rng,
}

impl Rfq {
    /// s0 for weights in proportion to the set's quanta, and a seed that both ends know.
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel.
    pub fn new(set: &ChannelSet, seed: u64) -> Result<Rfq, SetError> {
        if set.is_empty() {
            return Err(SetError::Empty);
        }
        let mut total = 0;
        let cumulative = set
            .channels()
            .map(|c| {
                total += u64::from(set.quantum(c));
                (total, c.0)
            })
            .collect();
        let mut rfq = Rfq { mask: set.mask(), at: 0, cumulative, total, rng: Rng::new(seed) };
        rfq.draw();
        Ok(rfq)
    }

    fn draw(&mut self) {
        let x = self.rng.below(self.total);
        let i = self.cumulative.partition_point(|&(end, _)| end <= x);
        self.at = self.cumulative.get(i).map_or(self.at, |&(_, c)| c);
    }
}

impl Causal for Rfq {
    fn select(&self) -> ChannelId {
        ChannelId(self.at)
    }

    fn update(&mut self, _len: Bytes) {
        self.draw();
    }

    /// To the next member by number, without a draw: the queue that is served instead of an empty one is the next
    /// that has packets.
    fn pass(&mut self) {
        self.at = next_in(self.mask, self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_weights_within_four_standard_deviations() {
        let set = ChannelSet::of(&[5000, 3000, 2000], Bytes::new(1)).unwrap();
        let mut rfq = Rfq::new(&set, 42).unwrap();
        let n = 100_000;
        let mut count = [0u32; 3];
        for _ in 0..n {
            count[rfq.select().index()] += 1;
            assert_eq!(rfq.select(), rfq.select());
            rfq.update(Bytes::new(1));
        }
        for (count, p) in count.into_iter().zip([0.5, 0.3, 0.2]) {
            let (mean, var) = (f64::from(n) * p, f64::from(n) * p * (1.0 - p));
            let off = f64::from(count) - mean;
            assert!(off * off < 16.0 * var, "{count} of {n}, expected {mean}");
        }
    }
}
