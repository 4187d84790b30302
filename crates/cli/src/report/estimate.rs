//! What several seeds tell of a value: its mean, and how sure that is.

use crate::simulation::Finished;
use fairspan_sim::scenario::File;
use serde::Serialize;
use serde_json::{Map, Value};

/// 97.5 % quantiles of Student's t with 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Values of one thing, a seed each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// How many.
    pub(crate) count: f64,
    /// Their mean.
    pub(crate) mean: f64,
    /// Sum of the squared distances from the mean (Welford).
    squares: f64,
}

impl Sample {
    /// The sample of these.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Sample {
        let mut sample = Sample::default();
        values.into_iter().for_each(|value| sample.add(value));
        sample
    }

    /// One more value.
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    /// Standard deviation over the seeds; zero of a single one.
    pub(crate) fn deviation(&self) -> f64 {
        if self.count > 1.0 { (self.squares / (self.count - 1.0)).sqrt() } else { 0.0 }
    }

    /// Half the width of the interval that holds the true mean with 95 % confidence (Student's t); `None` of a single
    /// value, which says nothing of that.
    pub(crate) fn half_width(&self) -> Option<f64> {
        let freedom = (self.count as usize).checked_sub(1)?;
        // Beyond the table within 0.2 %.
        let quantile = match freedom {
            0 => return None,
            1..=30 => STUDENT[freedom - 1],
            _ => 1.96 + 2.4 / freedom as f64,
        };
        Some(quantile * self.deviation() / self.count.sqrt())
    }
}

/// What the seeds of a point tell of a metric that the file plots.
#[derive(Debug, Serialize)]
pub(crate) struct Estimate<'a> {
    /// Swept parameters and their values.
    pub(super) at: Map<String, Value>,
    pub(super) metric: &'a str,
    pub(super) unit: String,
    pub(super) seeds: usize,
    pub(super) mean: f64,
    deviation: f64,
    /// Of the interval that holds the mean with 95 % confidence.
    pub(super) half_width: f64,
}

/// Of each metric that the file plots, at each point of its sweeps that was run with several seeds.
pub(crate) fn estimates<'a>(file: &'a File, finished: &[Finished]) -> Vec<Estimate<'a>> {
    let mut metrics: Vec<_> = Vec::new();
    for (_, metric) in file.plots().iter().flat_map(|plot| &plot.y) {
        if !metrics.iter().any(|known: &&fairspan_sim::scenario::Metric| known.text() == metric.text()) {
            metrics.push(metric);
        }
    }
    let mut estimates = Vec::new();
    for point in finished.chunk_by(|a, b| a.point == b.point) {
        for metric in &metrics {
            let sample = Sample::of(point.iter().filter_map(|run| metric.value(&run.results).ok()));
            let Some(half_width) = sample.half_width() else { continue };
            let at =
                point[0].parameters.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
            let (seeds, mean, deviation) = (sample.count as usize, sample.mean, sample.deviation());
            let unit = metric.unit().to_string();
            estimates.push(Estimate { at, metric: metric.text(), unit, seeds, mean, deviation, half_width });
        }
    }
    estimates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_mean_and_the_deviation_of_its_values() {
        let mut sample = Sample::of([3.0]);
        assert_eq!((sample.mean, sample.deviation(), sample.half_width()), (3.0, 0.0, None));
        [5.0, 7.0].into_iter().for_each(|value| sample.add(value));
        assert_eq!((sample.mean, sample.deviation()), (5.0, 2.0));
    }

    #[test]
    fn the_interval_is_student_s() {
        // Two degrees of freedom: 4.303 * 2 / sqrt(3).
        let three = Sample::of([3.0, 5.0, 7.0]).half_width().expect("three values");
        assert!((three - 4.968_7).abs() < 1e-3, "{three}");
        // 40 degrees of freedom, quantile 2.021, deviation 1 within a few per cent.
        let many = Sample::of((0..41).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 }));
        let expected = 2.021 * many.deviation() / 41f64.sqrt();
        assert!((many.half_width().expect("many") / expected - 1.0).abs() < 2e-3);
    }
}
