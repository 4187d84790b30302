//! The Pareto distribution, for periods with a heavy tail.
//!
//! Source: M. E. Crovella, A. Bestavros, "Self-Similarity in World Wide Web Traffic", 1996; W. Willinger et al., 1997, for
//! what on-off sources with such periods add up to.
//!
//! | symbol | field |
//! |---|---|
//! | x_m, the least value | `least` |
//! | alpha, the shape | `1 / inverse_shape` |
//!
//! P(X > x) = (x_m / x)^alpha for x >= x_m. Moments: the mean is alpha x_m / (alpha - 1) and exists for alpha > 1; the
//! variance is x_m^2 alpha / ((alpha - 1)^2 (alpha - 2)) and exists for alpha > 2. With 1 < alpha <= 2 sums of many
//! on-off sources are self-similar with a Hurst parameter of (3 - alpha) / 2, and a run's mean comes near the true mean
//! only as its length to the power of 1 / alpha - 1: at alpha = 1.2, a thousand times the run for a third of the error.
//!
//! Drawn by inversion, x_m u^(-1/alpha) with u uniform in (0, 1], 53 bits. So no value exceeds x_m 2^(53/alpha).

use fairspan_core::rng::Rng;
use fairspan_core::units::Span;

/// A Pareto distribution of spans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    least: f64,
    inverse_shape: f64,
}

impl Pareto {
    /// With this mean and shape (above 1).
    pub fn new(mean: Span, shape: f64) -> Pareto {
        Pareto { least: mean.as_nanos() as f64 * (shape - 1.0) / shape, inverse_shape: 1.0 / shape }
    }

    /// A draw, in nanoseconds.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        self.least * libm::pow(1.0 - rng.unit(), -self.inverse_shape)
    }
}

/// A draw from the exponential distribution with this mean.
pub(crate) fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -mean * libm::log(1.0 - rng.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_distribution_function() {
        let (shape, count) = (1.5, 200_000);
        let pareto = Pareto::new(Span::from_millis(300), shape);
        let mut rng = Rng::new(11);
        let draws: Vec<f64> = (0..count).map(|_| pareto.draw(&mut rng)).collect();
        let least = 1e8;
        assert!(draws.iter().all(|&x| x >= least * (1.0 - 1e-12)));
        for multiple in [1.1, 1.5, 2.0, 5.0, 20.0, 100.0] {
            let above = draws.iter().filter(|&&x| x > least * multiple).count() as f64 / f64::from(count);
            let expected = libm::pow(multiple, -shape);
            // Five deviations of a share of this many draws.
            let tolerance = 5.0 * (expected * (1.0 - expected) / f64::from(count)).sqrt();
            assert!((above - expected).abs() < tolerance, "above {multiple}: {above} instead of {expected}");
        }
    }

    #[test]
    fn mean_and_variance_are_what_the_formulas_say_where_they_exist() {
        let (shape, count) = (5.0, 400_000);
        let pareto = Pareto::new(Span::from_micros(1000), shape);
        let mut rng = Rng::new(12);
        let draws: Vec<f64> = (0..count).map(|_| pareto.draw(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(count);
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(count);
        let least = 0.8e6;
        let expected = least * least * shape / (16.0 * 3.0);
        // The deviation of one draw is 0.258 of the mean, of the mean of 400,000 0.04 %: five of them.
        assert!((mean / 1e6 - 1.0).abs() < 0.002, "{mean}");
        // The fourth moment exists (shape 5), with a kurtosis of 73.8: 1.35 % deviation; four of them.
        assert!((variance / expected - 1.0).abs() < 0.055, "{}", variance / expected);
    }

    #[test]
    fn exponential_draws_have_their_mean_and_deviation() {
        let mut rng = Rng::new(13);
        let draws: Vec<f64> = (0..200_000).map(|_| exponential(7.0, &mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / 2e5;
        let deviation = (draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 2e5).sqrt();
        // 1 / sqrt(200,000) = 0.22 % for the mean, sqrt(2) of it for the deviation; five deviations.
        assert!((mean / 7.0 - 1.0).abs() < 0.0112 && (deviation / 7.0 - 1.0).abs() < 0.016, "{mean} {deviation}");
    }
}
