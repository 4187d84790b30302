//! How large the next packet, write or answer is.
//!
//! A [`Sizes`] becomes a [`Sampler`], which is compared against in one branch where the size is constant. A mixture draws
//! one 64-bit number and looks it up among cumulative weights scaled to 2^64, so that a weight's error is below 2^-53.

use super::{ConfigError, Sizes};
use fairspan_core::rng::Rng;

/// Draws sizes.
#[derive(Clone, Debug)]
pub struct Sampler(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Constant(u32),
    Alternating {
        sizes: Box<[u32]>,
        next: usize,
    },
    /// (first number that is no longer this size, size)
    Mixture(Box<[(u64, u32)]>),
    Uniform {
        low: u32,
        count: u64,
    },
}

impl Sampler {
    /// The sampler of `sizes`.
    pub fn new(sizes: &Sizes) -> Result<Sampler, ConfigError> {
        sizes.check()?;
        Ok(Sampler(match sizes {
            Sizes::Constant(size) => Kind::Constant(*size),
            Sizes::Alternating(sizes) => Kind::Alternating { sizes: sizes.clone().into(), next: 0 },
            Sizes::Mixture(parts) => {
                let total: f64 = parts.iter().map(|part| part.1).sum();
                let mut sum = 0.0;
                let parts = parts.iter().map(|&(size, weight)| {
                    sum += weight;
                    // The conversion saturates, so that the last part reaches to the end.
                    ((sum / total * 2_f64.powi(64)) as u64, size)
                });
                Kind::Mixture(parts.collect())
            }
            Sizes::Uniform(low, high) => Kind::Uniform { low: *low, count: u64::from(high - low) + 1 },
        }))
    }

    /// The next size.
    pub fn next(&mut self, rng: &mut Rng) -> u32 {
        match &mut self.0 {
            Kind::Constant(size) => *size,
            Kind::Alternating { sizes, next } => {
                let size = sizes[*next];
                *next = if *next + 1 == sizes.len() { 0 } else { *next + 1 };
                size
            }
            Kind::Mixture(parts) => {
                let draw = rng.next_u64();
                let at = parts.partition_point(|part| part.0 <= draw);
                parts[at.min(parts.len() - 1)].1
            }
            Kind::Uniform { low, count } => *low + rng.below(*count) as u32,
        }
    }

    /// The size, where it is always the same.
    pub fn constant(&self) -> Option<u32> {
        match self.0 {
            Kind::Constant(size) => Some(size),
            _ => None,
        }
    }
}

impl Sizes {
    /// The mean size in bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Constant(size) => f64::from(*size),
            Sizes::Alternating(sizes) => sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / sizes.len() as f64,
            Sizes::Mixture(parts) => {
                let total: f64 = parts.iter().map(|part| part.1).sum();
                parts.iter().map(|&(size, weight)| f64::from(size) * weight).sum::<f64>() / total
            }
            Sizes::Uniform(low, high) => (f64::from(*low) + f64::from(*high)) / 2.0,
        }
    }

    /// The largest size that can come.
    pub fn largest(&self) -> u32 {
        match self {
            Sizes::Constant(size) => *size,
            Sizes::Alternating(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Sizes::Mixture(parts) => parts.iter().map(|part| part.0).max().unwrap_or(0),
            Sizes::Uniform(low, high) => *low.max(high),
        }
    }

    /// Whether they can be drawn from.
    pub fn check(&self) -> Result<(), ConfigError> {
        let zero = match self {
            Sizes::Constant(size) => *size == 0,
            Sizes::Alternating(sizes) if sizes.is_empty() => return Err(ConfigError::NoSizes),
            Sizes::Alternating(sizes) => sizes.contains(&0),
            Sizes::Mixture(parts) if parts.is_empty() => return Err(ConfigError::NoSizes),
            Sizes::Mixture(parts) => {
                if let Some(&(_, weight)) = parts.iter().find(|part| !(part.1 > 0.0 && part.1.is_finite())) {
                    return Err(ConfigError::Weight { weight });
                }
                parts.iter().any(|part| part.0 == 0)
            }
            Sizes::Uniform(low, high) if low > high => {
                return Err(ConfigError::SizeRange { low: *low, high: *high });
            }
            Sizes::Uniform(low, _) => *low == 0,
        };
        if zero { Err(ConfigError::ZeroSize) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(sizes: &Sizes, count: usize) -> Vec<u32> {
        let mut sampler = Sampler::new(sizes).expect("valid");
        let mut rng = Rng::new(5);
        (0..count).map(|_| sampler.next(&mut rng)).collect()
    }

    #[test]
    fn alternating_sizes_alternate_strictly() {
        assert_eq!(draws(&Sizes::Alternating(vec![1000, 200]), 5), [1000, 200, 1000, 200, 1000]);
    }

    #[test]
    fn a_mixture_has_each_size_as_often_as_its_weight_says() {
        let sizes = Sizes::Mixture(vec![(1500, 3.0), (40, 6.0), (576, 1.0)]);
        let drawn = draws(&sizes, 100_000);
        for (size, share) in [(1500, 0.3), (40, 0.6), (576, 0.1)] {
            let seen = drawn.iter().filter(|&&drawn| drawn == size).count() as f64 / 1e5;
            // A share p of n draws has a deviation of sqrt(p (1 - p) / n) <= 0.0016; five of them.
            assert!((seen - share).abs() < 0.008, "{size}: {seen} instead of {share}");
        }
        assert!((sizes.mean() - 531.6).abs() < 1e-9);
        assert_eq!(sizes.largest(), 1500);
    }

    #[test]
    fn uniform_sizes_reach_both_ends_and_have_their_mean() {
        let drawn = draws(&Sizes::Uniform(40, 1500), 200_000);
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&40), Some(&1500)));
        let mean = drawn.iter().map(|&size| f64::from(size)).sum::<f64>() / 2e5;
        // The deviation of one draw is 1461 / sqrt(12) = 422, of the mean 0.94; five of them.
        assert!((mean - 770.0).abs() < 4.8, "{mean}");
    }

    #[test]
    fn sizes_that_cannot_be_drawn_from_are_refused_with_the_reason() {
        let refused = |sizes: Sizes| Sampler::new(&sizes).err();
        assert_eq!(refused(Sizes::Constant(0)), Some(ConfigError::ZeroSize));
        assert_eq!(refused(Sizes::Alternating(vec![])), Some(ConfigError::NoSizes));
        assert_eq!(refused(Sizes::Mixture(vec![(5, 1.0), (6, -1.0)])), Some(ConfigError::Weight { weight: -1.0 }));
        assert_eq!(refused(Sizes::Uniform(9, 8)), Some(ConfigError::SizeRange { low: 9, high: 8 }));
    }
}
