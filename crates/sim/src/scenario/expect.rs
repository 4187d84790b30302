//! What a paper (or whoever) says should come out, and whether it did.

use super::metric::{Metric, MetricError};
use crate::results::Results;

/// One value that should come out.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Which value.
    pub metric: Metric,
    /// For which points of the sweeps: parameters and their values; every point where empty.
    pub at: Vec<(String, String)>,
    /// The value itself, in the metric's unit.
    pub value: Option<f64>,
    /// How far ours may be from `value`.
    pub tolerance: Tolerance,
    /// Ours must not be below.
    pub least: Option<f64>,
    /// Ours must not be above.
    pub most: Option<f64>,
    /// Where the value stands: `Table I`.
    pub source: String,
    /// The claim that it belongs to, such as `striping.table1`.
    pub claim: Option<String>,
    /// Which of the claim's values it is.
    pub key: Option<String>,
}

/// How far a value may be from what is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// This share of the value.
    Relative(f64),
    /// This much, in the metric's unit.
    Absolute(f64),
}

/// What became of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Our value, the mean over the runs that it applies to.
    pub ours: f64,
    /// How far `ours` is from the expected value, as a share of it; `None` where there is no such value or it is zero.
    pub deviation: Option<f64>,
    /// Whether it holds.
    pub holds: bool,
    /// How many runs went in.
    pub runs: usize,
}

impl Expectation {
    /// Whether it is about the run with these parameters.
    pub fn applies(&self, parameters: &[(String, String)]) -> bool {
        self.at.iter().all(|wanted| parameters.contains(wanted))
    }

    /// Judges one value of ours.
    pub fn judge(&self, ours: f64) -> Outcome {
        let deviation = self.value.filter(|&value| value != 0.0).map(|value| (ours - value) / value.abs());
        let near = self.value.is_none_or(|value| {
            let allowed = match self.tolerance {
                Tolerance::Relative(share) => share * value.abs(),
                Tolerance::Absolute(amount) => amount,
            };
            // The last digits of binary fractions do not decide.
            (ours - value).abs() <= allowed + 1e-12 * value.abs()
        });
        let bounded = self.least.is_none_or(|least| ours >= least) && self.most.is_none_or(|most| ours <= most);
        Outcome { ours, deviation, holds: ours.is_finite() && near && bounded, runs: 1 }
    }

    /// Judges the mean over all runs that it applies to (usually the seeds of one point); `None` where it applies to
    /// none of them.
    ///
    /// # Errors
    /// [`MetricError`] where the results do not have the metric.
    pub fn evaluate<'a>(
        &self,
        runs: impl Iterator<Item = (&'a [(String, String)], &'a Results)>,
    ) -> Result<Option<Outcome>, MetricError> {
        let (mut sum, mut count) = (0.0, 0);
        for (_, results) in runs.filter(|(parameters, _)| self.applies(parameters)) {
            sum += self.metric.value(results)?;
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        Ok(Some(Outcome { runs: count, ..self.judge(sum / count as f64) }))
    }
}
