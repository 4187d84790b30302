//! What a file expects, against what came out, point by point.

use super::{Batch, Finished};
use crate::Error;
use fairspan_sim::scenario::{File, Tolerance};
use serde::Serialize;

/// One expectation at one point of the sweeps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Which value.
    pub metric: String,
    /// Its unit; empty for a share or a count.
    pub unit: String,
    /// The point of the sweeps, from 0.
    pub point: usize,
    /// Swept parameters and their values there.
    pub at: Vec<(String, String)>,
    /// What should come out.
    pub value: Option<f64>,
    /// How far ours may be off: a share of the value, or an amount.
    pub within: Option<f64>,
    /// Whether `within` is an amount in the metric's unit.
    pub absolute: bool,
    /// Ours must not be below.
    pub least: Option<f64>,
    /// Ours must not be above.
    pub most: Option<f64>,
    /// The mean over the seeds.
    pub ours: f64,
    /// Relative to the value.
    pub deviation: Option<f64>,
    /// Whether it holds.
    pub holds: bool,
    /// Where the value stands.
    pub source: String,
    /// The claim and which of its values.
    pub claim: Option<(String, String)>,
}

/// Judges all that was run. A point of which a seed is missing is not judged.
///
/// # Errors
/// [`Error::Input`] when an expectation names a value that the results do not have.
pub fn expected(file: &File, batch: &Batch) -> Result<Vec<Expected>, Error> {
    let mut judged = Vec::new();
    for point in batch.finished.chunk_by(|a, b| a.point == b.point) {
        if point.len() < file.seeds().len() {
            continue;
        }
        for expectation in file.expectations() {
            let runs = point.iter().map(|run: &Finished| (run.parameters.as_slice(), &run.results));
            let outcome =
                expectation.evaluate(runs).map_err(|error| Error::Input(format!("{}: {error}", file.name())))?;
            let Some(outcome) = outcome else { continue };
            let (within, absolute) = match expectation.tolerance {
                Tolerance::Relative(share) => (share, false),
                Tolerance::Absolute(amount) => (amount, true),
            };
            judged.push(Expected {
                metric: expectation.metric.text().to_owned(),
                unit: expectation.metric.unit().to_string(),
                point: point[0].point,
                at: point[0].parameters.clone(),
                value: expectation.value,
                within: expectation.value.map(|_| within),
                absolute,
                least: expectation.least,
                most: expectation.most,
                ours: outcome.ours,
                deviation: outcome.deviation,
                holds: outcome.holds,
                source: expectation.source.clone(),
                claim: expectation.claim.clone().map(|claim| (claim, expectation.key.clone().unwrap_or_default())),
            });
        }
    }
    Ok(judged)
}
