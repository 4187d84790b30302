//! How large the next packet, write or answer is.
//!
//! A [`Sizes`] becomes a [`Sampler`], which is compared against in one branch where the size is constant. A mixture draws
//! one 64-bit number and looks it up among cumulative weights scaled to 2^64, so that a weight's error is below 2^-53.
//!
//! Continuous distributions are drawn by inversion (log-normal: Box and Muller 1958), rounded up to whole bytes, and cut off: what
//! would be above `most` is `most`, and the mean is that of what is drawn so. A measured distribution is a list of points of its
//! distribution function, straight between them, as papers on data centres publish theirs. (Files for ns-2 have a third column, which is refused: their sizes may be packets.)

use super::error::ConfigError;
use super::pareto::exponential;
use fairspan_core::rng::Rng;
use std::sync::Arc;

/// How large packets (or writes) are, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Constant(u32),
    /// These in turn.
    Alternating(Vec<u32>),
    /// Drawn at random: (bytes, weight).
    Mixture(Vec<(u32, f64)>),
    /// Uniformly from the first to the second.
    Uniform(u32, u32),
    /// Exponential.
    Exponential {
        /// Mean in bytes, before it is cut off.
        mean: f64,
        /// What would be above is this.
        most: u32,
    },
    /// The logarithm is normal.
    Lognormal {
        /// Half of all is below it, in bytes.
        median: f64,
        /// Deviation of the natural logarithm.
        sigma: f64,
        /// What would be above is this.
        most: u32,
    },
    /// Pareto.
    Pareto {
        /// Mean in bytes, before it is cut off.
        mean: f64,
        /// Above 1.
        shape: f64,
        /// What would be above is this.
        most: u32,
    },
    /// Points of a distribution function, (bytes, share of what is not larger), ascending; straight between them. What is below the
    /// first point has its size.
    Cdf(Arc<[(u32, f64)]>),
}

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
    Exponential {
        mean: f64,
        most: u32,
    },
    Lognormal {
        median: f64,
        sigma: f64,
        most: u32,
    },
    Pareto {
        least: f64,
        inverse_shape: f64,
        most: u32,
    },
    Cdf(Arc<[(u32, f64)]>),
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
            &Sizes::Exponential { mean, most } => Kind::Exponential { mean, most },
            &Sizes::Lognormal { median, sigma, most } => Kind::Lognormal { median, sigma, most },
            &Sizes::Pareto { mean, shape, most } => {
                Kind::Pareto { least: least(mean, shape), inverse_shape: 1.0 / shape, most }
            }
            Sizes::Cdf(points) => Kind::Cdf(Arc::clone(points)),
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
            Kind::Exponential { mean, most } => whole(exponential(*mean, rng), *most),
            Kind::Lognormal { median, sigma, most } => whole(*median * libm::exp(*sigma * normal(rng)), *most),
            Kind::Pareto { least, inverse_shape, most } => {
                whole(*least * libm::pow(1.0 - rng.unit(), -*inverse_shape), *most)
            }
            Kind::Cdf(points) => {
                let draw = rng.unit();
                let at = points.partition_point(|point| point.1 < draw).min(points.len() - 1);
                let (size, share) = points[at];
                let Some(&(below, before)) = at.checked_sub(1).and_then(|at| points.get(at)) else { return size };
                // The draw lies above `before`, so the shares differ.
                let part = (draw - before) / (share - before);
                whole(f64::from(below) + part * f64::from(size - below), size)
            }
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

/// Whole bytes: at least one, `most` at most.
fn whole(value: f64, most: u32) -> u32 {
    // The conversion saturates.
    (libm::ceil(value) as u32).clamp(1, most)
}

/// A draw from the standard normal distribution.
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - rng.unit())).sqrt();
    radius * libm::cos(std::f64::consts::TAU * rng.unit())
}

/// The least value of a Pareto distribution with this mean.
fn least(mean: f64, shape: f64) -> f64 {
    mean * (shape - 1.0) / shape
}

/// The standard normal distribution function.
fn normal_share(value: f64) -> f64 {
    0.5 * libm::erfc(-value / std::f64::consts::SQRT_2)
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
            // Of these the mean of what is cut off at `most`, E min(X, most); rounding up adds half a byte.
            &Sizes::Exponential { mean, most } => mean * (1.0 - libm::exp(-f64::from(most) / mean)) + 0.5,
            &Sizes::Lognormal { median, sigma, most } => {
                let off = libm::log(f64::from(most) / median) / sigma;
                let below = median * libm::exp(sigma * sigma / 2.0) * normal_share(off - sigma);
                below + f64::from(most) * normal_share(-off) + 0.5
            }
            &Sizes::Pareto { mean, shape, most } => {
                let least = least(mean, shape);
                let cut = least * libm::pow(least / f64::from(most), shape - 1.0) / (shape - 1.0);
                mean - cut + 0.5
            }
            Sizes::Cdf(points) => {
                let first = points.first().map_or(0.0, |&(size, share)| f64::from(size) * share);
                let part = |pair: &[(u32, f64)]| {
                    let [(a, below), (b, share)] = [pair[0], pair[1]];
                    // Rounded up, unless all between is one size.
                    let half = if a == b { 0.0 } else { 0.5 };
                    (share - below) * ((f64::from(a) + f64::from(b)) / 2.0 + half)
                };
                first + points.windows(2).map(part).sum::<f64>()
            }
        }
    }

    /// The largest size that can come.
    pub fn largest(&self) -> u32 {
        match self {
            Sizes::Constant(size) => *size,
            Sizes::Alternating(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Sizes::Mixture(parts) => parts.iter().map(|part| part.0).max().unwrap_or(0),
            Sizes::Uniform(low, high) => *low.max(high),
            Sizes::Exponential { most, .. } | Sizes::Lognormal { most, .. } | Sizes::Pareto { most, .. } => *most,
            Sizes::Cdf(points) => points.last().map_or(0, |point| point.0),
        }
    }

    /// The least size that can come.
    pub fn least(&self) -> u32 {
        match self {
            Sizes::Constant(size) => *size,
            Sizes::Alternating(sizes) => sizes.iter().copied().min().unwrap_or(0),
            Sizes::Mixture(parts) => parts.iter().map(|part| part.0).min().unwrap_or(0),
            Sizes::Uniform(low, high) => *low.min(high),
            Sizes::Exponential { .. } | Sizes::Lognormal { .. } => 1,
            Sizes::Pareto { mean, shape, most } => whole(least(*mean, *shape), *most),
            Sizes::Cdf(points) => points.first().map_or(0, |point| point.0),
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
            Sizes::Exponential { mean, most } => return positive(*mean, *most),
            Sizes::Lognormal { median, sigma, most } => {
                positive(*median, *most)?;
                let valid = *sigma > 0.0 && *sigma <= MOST_SIGMA;
                return if valid { Ok(()) } else { Err(ConfigError::Sigma { sigma: *sigma }) };
            }
            Sizes::Pareto { mean, shape, most } => {
                positive(*mean, *most)?;
                if !(*shape > 1.0 && shape.is_finite()) {
                    return Err(ConfigError::Shape { shape: *shape });
                }
                // Else all would be the most.
                let below = least(*mean, *shape) < f64::from(*most);
                return if below { Ok(()) } else { Err(ConfigError::Most { most: *most }) };
            }
            Sizes::Cdf(points) => return distribution(points),
            Sizes::Uniform(low, high) if low > high => {
                return Err(ConfigError::SizeRange { low: *low, high: *high });
            }
            Sizes::Uniform(low, _) => *low == 0,
        };
        if zero { Err(ConfigError::ZeroSize) } else { Ok(()) }
    }
}

/// Most that a log-normal distribution's sigma may be: beyond it, a size is one byte or the most, and hardly anything between.
pub(crate) const MOST_SIGMA: f64 = 10.0;

fn positive(mean: f64, most: u32) -> Result<(), ConfigError> {
    if mean > 0.0 && mean.is_finite() && most > 0 { Ok(()) } else { Err(ConfigError::ZeroSize) }
}

/// Whether these are points of a distribution function: both columns grow, and the last share is 1.
fn distribution(points: &[(u32, f64)]) -> Result<(), ConfigError> {
    let Some(&(_, last)) = points.last() else { return Err(ConfigError::NoSizes) };
    if points[0].0 == 0 {
        return Err(ConfigError::ZeroSize);
    }
    let valid = |&(_, share): &(u32, f64)| (0.0..=1.0).contains(&share);
    if let Some(index) = points.iter().position(|point| !valid(point)) {
        return Err(ConfigError::Share { index, share: points[index].1 });
    }
    let falls = |pair: &[(u32, f64)]| pair[1].0 < pair[0].0 || pair[1].1 < pair[0].1;
    if let Some(index) = points.windows(2).position(falls) {
        return Err(ConfigError::Falls { index: index + 1 });
    }
    if (last - 1.0).abs() > 1e-9 { Err(ConfigError::LastShare { share: last }) } else { Ok(()) }
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

    #[test]
    fn draws_of_every_distribution_have_the_mean_that_is_said_and_never_pass_the_most() {
        let cdf = [(1000, 0.1), (2000, 0.1), (10_000, 0.6), (10_000, 0.8), (1_000_000, 1.0)];
        let sizes = [
            Sizes::Exponential { mean: 50_000.0, most: 100_000 },
            Sizes::Lognormal { median: 20_000.0, sigma: 1.5, most: 1_000_000 },
            Sizes::Pareto { mean: 100_000.0, shape: 1.2, most: 2_000_000 },
            Sizes::Cdf(cdf.into()),
        ];
        for sizes in sizes {
            let drawn = draws(&sizes, 400_000);
            let mean = drawn.iter().map(|&size| f64::from(size)).sum::<f64>() / 4e5;
            let variance = drawn.iter().map(|&size| (f64::from(size) - mean).powi(2)).sum::<f64>() / 4e5;
            // Five deviations of the mean of so many draws.
            let tolerance = 5.0 * (variance / 4e5).sqrt();
            assert!((mean - sizes.mean()).abs() < tolerance, "{sizes:?}: {mean} instead of {}", sizes.mean());
            let (least, most) = (drawn.iter().min().copied(), drawn.iter().max().copied());
            assert!(least >= Some(sizes.least()) && most <= Some(sizes.largest()), "{sizes:?}: {least:?} {most:?}");
        }
    }

    #[test]
    fn a_measured_distribution_is_drawn_as_its_points_say() {
        let points = [(1000, 0.25), (2000, 0.5), (2000, 0.75), (4000, 1.0)];
        let drawn = draws(&Sizes::Cdf(points.into()), 100_000);
        let share = |most: u32| drawn.iter().filter(|&&size| size <= most).count() as f64 / 1e5;
        // Five deviations of a share.
        for (size, expected) in [(999, 0.0), (1000, 0.25), (1500, 0.375), (1999, 0.5), (2000, 0.75), (3000, 0.875)] {
            assert!((share(size) - expected).abs() < 0.008, "{size}: {} instead of {expected}", share(size));
        }
    }

    #[test]
    fn a_distribution_that_is_none_is_refused_with_the_place() {
        let refused = |points: &[(u32, f64)]| Sizes::Cdf(points.into()).check().err();
        assert_eq!(refused(&[]), Some(ConfigError::NoSizes));
        assert_eq!(refused(&[(0, 0.5), (9, 1.0)]), Some(ConfigError::ZeroSize));
        assert_eq!(refused(&[(1, 0.5), (9, 0.4), (10, 1.0)]), Some(ConfigError::Falls { index: 1 }));
        assert_eq!(refused(&[(5, 0.5), (4, 1.0)]), Some(ConfigError::Falls { index: 1 }));
        assert_eq!(refused(&[(5, 0.5), (6, 0.9)]), Some(ConfigError::LastShare { share: 0.9 }));
        assert_eq!(refused(&[(5, -0.5), (6, 1.0)]), Some(ConfigError::Share { index: 0, share: -0.5 }));
        let most = Sizes::Pareto { mean: 100_000.0, shape: 2.0, most: 50_000 }.check();
        assert_eq!(most, Err(ConfigError::Most { most: 50_000 }), "the least of this distribution is 50 kB");
        let sigma = Sizes::Lognormal { median: 9.0, sigma: f64::NAN, most: 9 }.check();
        assert!(matches!(sigma, Err(ConfigError::Sigma { .. })));
    }
}
