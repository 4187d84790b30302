//! Generalised round robin (GRR): packets, not bytes, in the closest small integer ratio of the bandwidths.
//!
//! Source: striping §6.2 and its errata. A channel of weight w sends w packets, then the pointer moves on.
//!
//! "Closest small": of all ratios whose largest term is at most a bound, the one with the smallest sum of squared
//! errors of the shares; on a tie the one with smaller terms. Cost: O(1) per packet; the search at construction is
//! O(bound * channels).

use super::set::{ChannelSet, bits, next_in};
use super::{Causal, SetError};
use crate::units::{Bytes, ChannelId};

/// Generalised round robin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grr {
    mask: u64,
    at: u8,
    left: u32,
    weight: [u32; ChannelId::LIMIT],
}

impl Grr {
    /// The largest term of the ratio unless told otherwise.
    pub const LARGEST_TERM: u32 = 16;

    /// s0 for channels whose bandwidths are in the proportion of the set's quanta, terms at most
    /// [`Grr::LARGEST_TERM`].
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel.
    pub fn new(set: &ChannelSet) -> Result<Grr, SetError> {
        Grr::with_largest_term(set, Grr::LARGEST_TERM)
    }

    /// As [`Grr::new`] with another bound on the terms (at least 1).
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel.
    pub fn with_largest_term(set: &ChannelSet, largest: u32) -> Result<Grr, SetError> {
        if set.is_empty() {
            return Err(SetError::Empty);
        }
        let weight = closest_ratio(set, largest.max(1));
        let at = set.mask().trailing_zeros() as u8;
        Ok(Grr { mask: set.mask(), at, left: weight[usize::from(at)], weight })
    }

    /// The same shares as a set whose quanta count packets, for [`Srr`](super::Srr) and so for the stripe; it sends in
    /// the order of [`Grr::new`].
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel.
    pub fn set(set: &ChannelSet) -> Result<ChannelSet, SetError> {
        let grr = Grr::new(set)?;
        let pairs: alloc::vec::Vec<_> = set.channels().map(|c| (c, grr.weight(c))).collect();
        ChannelSet::of_packets(&pairs)
    }

    /// How many packets `channel` sends in one round; 0 if it is no member.
    pub fn weight(&self, channel: ChannelId) -> u32 {
        self.weight.get(channel.index()).copied().unwrap_or(0)
    }

    fn advance(&mut self) {
        self.at = next_in(self.mask, self.at);
        self.left = self.weight[usize::from(self.at & 63)];
    }
}

fn closest_ratio(set: &ChannelSet, largest: u32) -> [u32; ChannelId::LIMIT] {
    let total = set.round_bytes().as_u64() as f64;
    let most = set.channels().map(|c| set.quantum(c)).max().unwrap_or(1);
    let mut best = [0; ChannelId::LIMIT];
    let mut best_error = f64::INFINITY;
    for top in 1..=largest {
        let mut weight = [0u32; ChannelId::LIMIT];
        let mut sum = 0u32;
        for c in bits(set.mask()) {
            // round(top * q / most), never 0: every member sends.
            let scaled = (2 * u64::from(top) * u64::from(set.quantum(c)) + u64::from(most)) / (2 * u64::from(most));
            weight[c.index()] = (scaled as u32).max(1);
            sum += weight[c.index()];
        }
        let error: f64 = bits(set.mask())
            .map(|c| {
                let e = f64::from(weight[c.index()]) / f64::from(sum) - f64::from(set.quantum(c)) / total;
                e * e
            })
            .sum();
        if error + 1e-15 < best_error {
            (best, best_error) = (weight, error);
        }
    }
    best
}

impl Causal for Grr {
    fn select(&self) -> ChannelId {
        ChannelId(self.at)
    }

    fn update(&mut self, _len: Bytes) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.advance();
        }
    }

    fn pass(&mut self) {
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(quanta: &[u64], largest: u32) -> std::vec::Vec<u32> {
        let grr = Grr::with_largest_term(&ChannelSet::of(quanta, Bytes::new(1)).unwrap(), largest).unwrap();
        (0..quanta.len()).map(|i| grr.weight(ChannelId(i as u8))).collect()
    }

    #[test]
    fn the_ratio_is_the_closest_of_small_integers() {
        assert_eq!(weights(&[100, 40, 10], 16), [10, 4, 1]);
        assert_eq!(weights(&[600, 600], 16), [1, 1]);
        assert_eq!(weights(&[17_700, 6_000], 16), [3, 1]); // 2.95 : 1
        assert_eq!(weights(&[238, 60], 4), [4, 1]); // 3.97 : 1
        assert_eq!(weights(&[1000, 1], 16), [16, 1]); // every member sends
    }

    #[test]
    fn packets_follow_the_ratio_whatever_their_lengths() {
        let mut grr = Grr::new(&ChannelSet::of(&[300, 100], Bytes::new(1)).unwrap()).unwrap();
        let mut order = std::vec::Vec::new();
        for len in [1, 9000, 1, 9000, 1, 9000, 1, 9000] {
            order.push(grr.select().0);
            grr.update(Bytes::new(len));
        }
        assert_eq!(order, [0, 0, 0, 1, 0, 0, 0, 1]);
    }
}
