//! The seeded generator. Two ends, or two runs, with the same seed draw the same numbers.
//!
//! PCG XSL-RR 128/64 (MCG), O'Neill 2014, from the `rand_pcg` crate. The sequence is part of the wire contract of
//! randomised disciplines: sender and receiver must draw alike, so the generator is named here and never changed.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;

/// A seeded generator of 64-bit numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The generator that `seed` determines.
    pub fn new(seed: u64) -> Rng {
        // Spread the seed over the state, so that neighbouring seeds differ from the first draw on.
        let high = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        Rng(Pcg64Mcg::new((u128::from(high) << 64) | u128::from(seed)))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number below `bound`; 0 when `bound` is 0. (Lemire's multiply-shift; bias below 2^-32 for bounds
    /// below 2^32.)
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform number in [0, 1), with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_seed_one_never_changes() {
        let mut rng = Rng::new(1);
        let first = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(first, FIRST_OF_SEED_ONE);
    }

    const FIRST_OF_SEED_ONE: [u64; 3] =
        [5_012_142_904_258_383_964, 16_880_293_574_543_983_220, 11_547_034_577_288_336_023];

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 5];
        for _ in 0..5_000 {
            seen[rng.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}
