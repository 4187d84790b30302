//! What runners share: the seed, how much they may do, and the figures that have been run already.

use crate::exit::BadInput;
use crate::scenarios;
use crate::simulation::{self, Batch, Expected, Options};
use crate::testbed::{Interrupt, Interrupted};
use anyhow::Context;
use fairspan_core::rng::Rng;
use fairspan_sim::scenario::{File, Metric};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

/// What a claim needs is not there: captures from outside the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoTestData(pub(crate) PathBuf);

impl fmt::Display for NoTestData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no test data: {} (FAIRSPAN_TESTDATA names its folder)", self.0.display())
    }
}

impl std::error::Error for NoTestData {}

/// Runs what claims need.
pub(crate) struct Bench {
    seed: u64,
    effort: f64,
    interrupt: Option<Interrupt>,
    run: BTreeMap<String, Rc<FigureRun>>,
}

/// A point of a curve: swept parameters with their values, and what came out there.
pub(crate) type Point<'a> = (&'a [(String, String)], f64);

/// A figure's scenario, and what came out of it.
pub(crate) struct FigureRun {
    /// The scenario.
    pub(crate) file: File,
    /// Its runs.
    pub(crate) batch: Batch,
    /// What it expects, judged.
    pub(crate) expected: Vec<Expected>,
}

impl Bench {
    /// All that is random comes from `seed`.
    pub(crate) fn new(seed: u64) -> Bench {
        Bench { seed, effort: 1.0, interrupt: None, run: BTreeMap::new() }
    }

    /// Stops when a signal comes.
    pub(crate) fn with_interrupt(mut self, interrupt: Interrupt) -> Bench {
        self.interrupt = Some(interrupt);
        self
    }

    /// Whether a signal came: what a runner says then is worth nothing.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        self.interrupt.as_ref().map_or(Ok(()), Interrupt::check)
    }

    /// Does `effort` times as many random cases as usual.
    #[cfg(test)]
    pub(crate) fn with_effort(mut self, effort: f64) -> Bench {
        self.effort = effort;
        self
    }

    /// Tries `usual` random cases, numbered from 0, each with a generator of its own, until one fails. Gives how many
    /// were tried, and what the failing one said.
    pub(crate) fn cases(
        &self,
        usual: u32,
        mut case: impl FnMut(u32, &mut Rng) -> Result<(), String>,
    ) -> Result<u32, String> {
        let cases = ((f64::from(usual) * self.effort) as u32).max(10);
        for number in 0..cases {
            if self.check().is_err() {
                return Ok(number);
            }
            let mut rng = Rng::new(self.seed.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(number)));
            case(number, &mut rng).map_err(|problem| format!("case {number} of seed {}: {problem}", self.seed))?;
        }
        Ok(cases)
    }

    /// The figure `key`, all points and seeds, run once however many claims ask for it.
    ///
    /// # Errors
    /// When there is no such figure or it cannot be run; [`Interrupted`].
    pub(crate) fn figure(&mut self, key: &str) -> anyhow::Result<Rc<FigureRun>> {
        if let Some(run) = self.run.get(key) {
            return Ok(Rc::clone(run));
        }
        let figures = scenarios::figures();
        let figure = figures.iter().find(|figure| figure.key == key);
        let figure = figure.ok_or_else(|| BadInput(format!("there is no scenario of {key}")))?;
        let file = simulation::read(&figure.path, &figure.text, &[])?;
        let interrupt = match &self.interrupt {
            Some(interrupt) => interrupt.clone(),
            None => self.interrupt.insert(Interrupt::install()?).clone(),
        };
        let options = Options { jobs: 0, captures: None, progress: Some(key) };
        let batch = simulation::run(&file, &options, &interrupt).with_context(|| key.to_owned())?;
        if batch.interrupted {
            return Err(Interrupted.into());
        }
        let expected = simulation::expected(&file, &batch)?;
        let run = Rc::new(FigureRun { file, batch, expected });
        self.run.insert(key.to_owned(), Rc::clone(&run));
        Ok(run)
    }
}

impl FigureRun {
    /// Our values of claim `id`: the figure's expectations that name it and one of its values' keys. The figure counts
    /// in bit/s where the claim's unit is Mb/s.
    pub(crate) fn values(&self, id: &str, factor: f64) -> Map<String, Value> {
        let own =
            |expected: &&Expected| expected.claim.as_ref().is_some_and(|(claim, key)| claim == id && !key.is_empty());
        let own = self.expected.iter().filter(own);
        own.filter_map(|expected| Some((expected.claim.clone()?.1, Value::from(expected.ours * factor)))).collect()
    }

    /// The mean of `metric` over the seeds at every point: (swept parameters, value).
    ///
    /// # Errors
    /// [`BadInput`] when the results do not have it.
    pub(crate) fn curve(&self, metric: &str) -> anyhow::Result<Vec<Point<'_>>> {
        let wrong = |error: fairspan_sim::scenario::MetricError| BadInput(format!("{}: {error}", self.file.name()));
        let metric = Metric::parse(metric).map_err(wrong)?;
        let mut curve = Vec::new();
        for point in self.batch.finished.chunk_by(|a, b| a.point == b.point) {
            let mut sum = 0.0;
            for run in point {
                sum += metric.value(&run.results).map_err(wrong)?;
            }
            curve.push((point[0].parameters.as_slice(), sum / point.len() as f64));
        }
        Ok(curve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_run_once_and_gives_its_curves() {
        let mut bench = Bench::new(1);
        let run = bench.figure("cross-check.cbr-line").expect("it runs");
        let again = bench.figure("cross-check.cbr-line").expect("it runs");
        assert!(Rc::ptr_eq(&run, &again));
        let curve = run.curve("goodput").expect("a value");
        assert_eq!(curve.len(), run.file.points());
        assert!(curve.iter().all(|(_, goodput)| *goodput > 0.0));
        assert!(run.curve("flow.nobody.goodput").is_err());
        assert!(bench.figure("striping.no-such-figure").is_err());
    }
}
