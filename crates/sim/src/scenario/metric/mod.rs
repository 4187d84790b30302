//! Values taken from results by name: `flow.a.goodput`, `link.x.load`, `jain`, and arithmetic on them.
//!
//! The grammar: `+ - * /` with a space on each side, parentheses, numbers, and `sum`, `mean`, `min`, `max`, `jain`,
//! `count` over paths in which `*` stands for any letters of a name: `sum(flow.web*.goodput) / goodput`. `p50`, `p90`, `p95`, `p99` and `p99.9`
//! are percentiles of all samples of a spread, pooled: `p99(flow.*.transfers.slowdown)`.

mod expression;
mod parser;
mod sampled;
mod table;

pub use expression::MetricError;
pub(super) use expression::{Refers, matches};
pub use sampled::Sampled;
pub use table::Unit;

use crate::metrics::spread::percentile;
use crate::results::Results;
use expression::Node;

/// A value that results have, or arithmetic on such values.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    text: String,
    root: Node,
    unit: Unit,
}

impl Metric {
    /// Reads a metric.
    ///
    /// # Errors
    /// [`MetricError::Grammar`] with what stands where and what would be right.
    pub fn parse(text: &str) -> Result<Metric, MetricError> {
        let (root, unit) = parser::parse(text)?;
        Ok(Metric { text: text.to_owned(), root, unit })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What its values count.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Its value in the results of a run.
    ///
    /// # Errors
    /// [`MetricError::Absent`] where the results do not have what it names.
    pub fn value(&self, results: &Results) -> Result<f64, MetricError> {
        let mut values = Vec::new();
        self.root.evaluate(results, &mut values)?;
        Ok(values.first().copied().unwrap_or(f64::NAN))
    }

    /// Its value over the samples of several runs together, where it is a percentile of samples; `None` where it is something else, or
    /// there are no samples.
    pub fn pooled<'r>(&self, runs: impl Iterator<Item = &'r Results>) -> Option<f64> {
        let Node::Percentile(share, samples) = &self.root else { return None };
        let mut pool = Vec::new();
        for results in runs {
            samples.collect(results, &mut pool).ok()?;
        }
        percentile(&mut pool, *share)
    }

    /// What it refers to.
    pub(super) fn refers(&self) -> Vec<Refers<'_>> {
        let mut found = Vec::new();
        self.root.refers(&mut found);
        found
    }
}
