//! What several seeds tell of a value: its mean, and how sure that is.

use crate::simulation::Finished;
use fairspan_sim::scenario::{File, Metric};
use serde::Serialize;
use serde_json::{Map, Value};

/// 97.5 % quantiles of Student's t with 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Values of one thing, a seed each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// How many.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// Sum of the squared distances from the mean (Welford).
    squares: f64,
}

impl Sample {
    /// The sample of these.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Sample {
        let mut sample = Sample::default();
        values.into_iter().for_each(|value| sample.add(value));
        sample
    }

    /// One more value.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    /// Standard deviation over the seeds; zero of a single one.
    pub fn deviation(&self) -> f64 {
        if self.count > 1.0 { (self.squares / (self.count - 1.0)).sqrt() } else { 0.0 }
    }

    /// Half the width of the interval that holds the true mean with 95 % confidence (Student's t); `None` of a single
    /// value, which says nothing of that.
    pub fn half_width(&self) -> Option<f64> {
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

/// What every run has, and is worth a mean whatever the file plots.
const ALWAYS: [&str; 3] = ["goodput", "jain", "dropped"];

/// What the seeds of a point tell of a metric.
#[derive(Debug, Serialize)]
pub struct Estimate<'a> {
    /// The point of the sweeps, from 0.
    pub(super) point: usize,
    /// Swept parameters and their values.
    pub(super) at: Map<String, Value>,
    pub(super) metric: &'a str,
    /// Empty for a share or a count.
    pub(super) unit: String,
    /// Those whose value is a number.
    pub(super) seeds: usize,
    pub(super) mean: f64,
    pub(super) deviation: f64,
    /// Of the interval that holds the mean with 95 % confidence.
    pub(super) half_width: f64,
    /// Of a percentile of samples: that of the samples of all seeds together.
    pub(super) pooled: Option<f64>,
}

/// The metrics that tell of a run: those that the file plots or expects, and what every run has, each once.
pub(super) fn metrics(file: &File) -> Vec<&Metric> {
    static OF_EVERY_RUN: std::sync::LazyLock<Vec<Metric>> =
        std::sync::LazyLock::new(|| ALWAYS.iter().filter_map(|name| Metric::parse(name).ok()).collect());
    let plotted = file.plots().iter().flat_map(|plot| plot.metrics()).map(|(_, metric)| metric);
    let expected = file.expectations().iter().map(|expectation| &expectation.metric);
    let mut metrics: Vec<&Metric> = Vec::new();
    for metric in plotted.chain(expected).chain(OF_EVERY_RUN.iter()) {
        if !metrics.iter().any(|known| known.text() == metric.text()) {
            metrics.push(metric);
        }
    }
    metrics
}

/// Of each of the metrics that the file plots or expects and those of every run, at each point of the file's sweeps that was run with several seeds.
pub fn estimates<'a>(file: &'a File, finished: &[Finished]) -> Vec<Estimate<'a>> {
    let metrics = metrics(file);
    let mut estimates = Vec::new();
    for runs in finished.chunk_by(|a, b| a.point == b.point) {
        for metric in &metrics {
            let values = runs.iter().filter_map(|run| metric.value(&run.results).ok());
            let sample = Sample::of(values.filter(|value| value.is_finite()));
            let Some(half_width) = sample.half_width() else { continue };
            let at = runs[0].parameters.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
            let (seeds, mean, deviation) = (sample.count as usize, sample.mean, sample.deviation());
            let (point, unit) = (runs[0].point, metric.unit().to_string());
            let pooled = metric.pooled(runs.iter().map(|run| &run.results)).filter(|value| value.is_finite());
            let metric = metric.text();
            estimates.push(Estimate { point, at, metric, unit, seeds, mean, deviation, half_width, pooled });
        }
    }
    estimates
}

/// Points at which seeds are no samples.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Alike {
    /// Points, from 0, at which all seeds gave the same goodput of every flow and the same drops.
    pub(super) points: Vec<usize>,
    /// Points that were run with several seeds.
    of: usize,
}

/// Looks for points at which all seeds gave the same to four digits.
pub(super) fn alike(finished: &[Finished]) -> Alike {
    let mut alike = Alike::default();
    let shown = |run: &Finished| {
        let goodputs = run.results.flows.iter().map(|flow| format!("{:.3e}", flow.goodput)).collect::<Vec<String>>();
        let dropped = run.results.flows.iter().map(|flow| flow.dropped).sum::<u64>();
        (goodputs, dropped)
    };
    for runs in finished.chunk_by(|a, b| a.point == b.point).filter(|runs| runs.len() > 1) {
        alike.of += 1;
        let first = shown(&runs[0]);
        if runs[1..].iter().all(|run| shown(run) == first) {
            alike.points.push(runs[0].point);
        }
    }
    alike
}

impl Alike {
    /// What a reader has to know of that.
    pub(super) fn warning(&self) -> Option<String> {
        if self.points.is_empty() {
            return None;
        }
        let place = match (self.points.len(), self.of) {
            (_, 1) => String::new(),
            (some, all) => format!(" at {some} of {all} points"),
        };
        Some(format!(
            "all seeds gave the same{place}, every flow's goodput to four digits and the drops: they are no samples there, and \
             the intervals say nothing. Starts (`spread`), clocks (`drift`, `link_drift`) or losses make them differ"
        ))
    }
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
    fn seeds_that_agree_to_the_digit_are_told_and_others_are_not() {
        use fairspan_sim::results::{FlowResult, Results};
        let run = |number: usize, point, goodput, dropped| {
            let flows = vec![FlowResult { goodput, dropped, ..FlowResult::default() }];
            let results = Results { flows, ..Results::default() };
            Finished { number, point, parameters: vec![], results }
        };
        let same = [run(0, 0, 9.123e6, 226), run(1, 0, 9.123_000_4e6, 226)];
        assert_eq!(alike(&same).points, [0]);
        assert!(alike(&same).warning().is_some_and(|warning| !warning.contains("points")));
        let differ = [run(0, 0, 9.123e6, 226), run(1, 0, 9.124e6, 226), run(2, 1, 5e6, 1), run(3, 1, 5e6, 2)];
        assert_eq!((alike(&differ).points.len(), alike(&differ).warning()), (0, None));
        let both = [&differ[..2], &[run(2, 1, 5e6, 1), run(3, 1, 5e6, 1)]].concat();
        assert!(alike(&both).warning().is_some_and(|warning| warning.contains("at 1 of 2 points")));
        assert_eq!(alike(&same[..1]), Alike::default(), "one seed says nothing of others");
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
