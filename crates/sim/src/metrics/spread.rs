//! Mean, deviation, extremes and percentiles of many whole numbers.
//!
//! Sums are integers: exact, and the same in whatever order values come. Squares are summed of the distance to the first
//! value, which keeps them small. Percentiles come from a log-linear histogram (the idea of G. Tene's HdrHistogram): 128
//! buckets to each power of two, so that a bucket's middle is within 1/256 of every value in it; values below 256 are
//! exact. It grows to the largest value's bucket and then allocates no more: at most 59 kB, 25 kB for delays of a second.
//!
//! Cost of a value: two additions of 128 bits and one multiplication; with percentiles one more memory access.

use crate::results::{Distribution, Percentiles};

/// Sub-buckets of a power of two, as a power of two.
const BITS: u32 = 7;

/// Sums over values.
#[derive(Clone, Debug)]
pub struct Moments {
    count: u64,
    origin: u64,
    /// Sum of (value - origin).
    sum: i128,
    /// Sum of (value - origin)^2.
    squares: u128,
    min: u64,
    max: u64,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { count: 0, origin: 0, sum: 0, squares: 0, min: u64::MAX, max: 0 }
    }
}

impl Moments {
    /// Takes a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if self.count == 0 {
            self.origin = value;
        }
        self.count += 1;
        let distance = value.abs_diff(self.origin);
        let signed = if value < self.origin { -i128::from(distance) } else { i128::from(distance) };
        self.sum += signed;
        self.squares = self.squares.saturating_add(u128::from(distance) * u128::from(distance));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Summary in units of `unit` values (10^9 for nanoseconds as seconds).
    pub fn summary(&self, unit: f64) -> Distribution {
        if self.count == 0 {
            return Distribution::default();
        }
        let count = self.count as f64;
        let offset = self.sum as f64 / count;
        let variance = match self.squares.checked_mul(u128::from(self.count)) {
            // n sum of squares - square of sum, without rounding.
            Some(squares) => match self.sum.unsigned_abs().checked_mul(self.sum.unsigned_abs()) {
                Some(sum) => squares.saturating_sub(sum) as f64 / count / count,
                None => self.squares as f64 / count - offset * offset,
            },
            None => self.squares as f64 / count - offset * offset,
        };
        Distribution {
            count: self.count,
            mean: (self.origin as f64 + offset) / unit,
            min: self.min as f64 / unit,
            max: self.max as f64 / unit,
            deviation: variance.max(0.0).sqrt() / unit,
            percentiles: None,
            samples: Vec::new(),
        }
    }
}

/// How often values came, in buckets of 1/128 of their size.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<u64>,
}

impl Histogram {
    /// Takes a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let index = index(value);
        match self.buckets.get_mut(index) {
            Some(bucket) => *bucket += 1,
            None => {
                // A power of two more at once, so that slowly growing values do not allocate each time.
                self.buckets.resize((index | ((1 << BITS) - 1)) + 1, 0);
                self.buckets[index] = 1;
            }
        }
    }

    /// The value that a share of `quantile` of the values does not exceed, as the middle of its bucket; `None` without
    /// values.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let count: u64 = self.buckets.iter().sum();
        let rank = ((quantile * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut sum = 0;
        self.buckets
            .iter()
            .position(|&bucket| {
                sum += bucket;
                sum >= rank
            })
            .map(middle)
    }

    /// How many values there are in each bucket, by its middle, where there are any.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, &count)| (middle(index), count))
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
    }
}

fn index(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    ((octave as usize) << BITS) + (value >> octave) as usize
}

fn middle(index: usize) -> u64 {
    // From the second power of two on, the sub-bucket's own top bit is part of the index.
    let octave = (index >> BITS).saturating_sub(1);
    let low = ((index - (octave << BITS)) as u64) << octave;
    low + ((1_u64 << octave) >> 1)
}

/// Of samples, which it sorts, and how many there are of each: the value that a share of them is not above. `None`: there are none.
pub fn percentile(samples: &mut [(f64, u64)], share: f64) -> Option<f64> {
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: u64 = samples.iter().map(|sample| sample.1).sum();
    let rank = ((share * all as f64).ceil() as u64).max(1);
    let mut sum = 0;
    let found = samples.iter().find(|(_, count)| {
        sum += count;
        sum >= rank
    });
    found.map(|sample| sample.0)
}

/// Moments, and a histogram where percentiles are wanted.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    moments: Moments,
    /// Apart: few flows of a large scenario have one.
    histogram: Option<Box<Histogram>>,
}

impl Spread {
    /// With percentiles or without.
    pub fn new(percentiles: bool) -> Spread {
        Spread { moments: Moments::default(), histogram: percentiles.then(Box::default) }
    }

    /// Whether it has percentiles.
    pub fn has_percentiles(&self) -> bool {
        self.histogram.is_some()
    }

    /// Takes a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.moments.add(value);
        if let Some(histogram) = &mut self.histogram {
            histogram.add(value);
        }
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.moments = Moments::default();
        if let Some(histogram) = &mut self.histogram {
            histogram.clear();
        }
    }

    /// Summary in units of `unit` values.
    pub fn summary(&self, unit: f64) -> Distribution {
        let mut summary = self.moments.summary(unit);
        if let Some(histogram) = self.histogram.as_ref().filter(|_| summary.count > 0) {
            // A bucket's middle may lie beyond the extremes; the true value does not.
            let value = |middle: u64| middle.clamp(self.moments.min, self.moments.max) as f64 / unit;
            let [p50, p90, p99, p999] =
                [0.5, 0.9, 0.99, 0.999].map(|quantile| value(histogram.quantile(quantile).unwrap_or(0)));
            summary.percentiles = Some(Percentiles { p50, p90, p99, p999 });
            summary.samples = histogram.counts().map(|(middle, count)| (value(middle), count)).collect();
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn deviation_is_exact_for_close_values_far_from_zero() {
        let mut moments = Moments::default();
        for value in [4_u64, 7, 13, 16] {
            moments.add((1 << 62) + value);
        }
        let summary = moments.summary(1.0);
        assert_eq!(summary.deviation, 22.5_f64.sqrt());
        assert_eq!(moments.count(), 4);
    }

    #[test]
    fn without_values_everything_is_zero() {
        assert_eq!(Spread::new(true).summary(1e9), Distribution::default());
    }

    #[test]
    fn a_percentile_of_nothing_is_nothing_and_else_the_least_sample_that_enough_are_not_above() {
        assert_eq!(percentile(&mut [], 0.5), None);
        assert_eq!(percentile(&mut [(7.0, 0)], 0.5), None);
        let mut samples = [(9.0, 1), (1.0, 98), (3.0, 1)];
        let found = [0.0, 0.5, 0.98, 0.981, 0.99, 1.0].map(|share| percentile(&mut samples, share));
        assert_eq!(found, [1.0, 1.0, 1.0, 3.0, 3.0, 9.0].map(Some));
    }

    proptest! {
        #[test]
        fn moments_agree_with_the_formulas_on_a_list(values in proptest::collection::vec(0_u64..1 << 40, 1..200)) {
            let mut moments = Moments::default();
            values.iter().for_each(|&value| moments.add(value));
            let count = values.len() as f64;
            let mean = values.iter().map(|&v| v as f64).sum::<f64>() / count;
            let variance = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / count;
            let summary = moments.summary(1.0);
            // Rounding of 200 sums of numbers below 2^40.
            prop_assert!((summary.mean - mean).abs() <= 1e-12 * mean.max(1.0));
            prop_assert!((summary.deviation - variance.sqrt()).abs() <= 1e-9 * mean.max(1.0));
            prop_assert_eq!(summary.min, *values.iter().min().unwrap() as f64);
            prop_assert_eq!(summary.max, *values.iter().max().unwrap() as f64);
        }

        #[test]
        fn a_buckets_middle_is_within_one_256th_of_the_value(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let middle = middle(index(value));
            prop_assert!(middle.abs_diff(value) <= value / 256, "{} for {}", middle, value);
        }

        #[test]
        fn percentiles_are_within_one_percent_of_those_of_the_sorted_list(
            mut values in proptest::collection::vec((any::<u64>(), 0_u32..64), 1..300),
        ) {
            let mut values: Vec<u64> = values.drain(..).map(|(value, shift)| value >> shift).collect();
            let mut spread = Spread::new(true);
            values.iter().for_each(|&value| spread.add(value));
            values.sort_unstable();
            let summary = spread.summary(1.0);
            prop_assert_eq!(summary.samples.iter().map(|sample| sample.1).sum::<u64>(), values.len() as u64);
            prop_assert!(summary.samples.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let Percentiles { p50, p90, p99, p999 } = summary.percentiles.expect("asked for");
            for (found, quantile) in [p50, p90, p99, p999].into_iter().zip([0.5, 0.9, 0.99, 0.999]) {
                let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
                let exact = values[rank - 1] as f64;
                prop_assert!((found - exact).abs() <= exact / 100.0, "{} instead of {}", found, exact);
            }
        }
    }
}
