//! What runners share: the seed, how much they may do, and the figures that have been run already.

use super::evidence::Cell;
use crate::exit::BadInput;
use crate::scenarios;
use crate::simulation::{self, Batch, Expected, Finished, Options};
use crate::testbed::{Interrupt, Interrupted};
use anyhow::Context;
use fairspan_core::quantity::parse_span;
use fairspan_core::rng::Rng;
use fairspan_core::units::Span;
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

/// The longest run of a reduced figure.
const SHORT: Span = Span::from_secs(50);

/// How much of a figure is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// One seed of each point, at most [`SHORT`] of a run where its warm-up leaves something of that, and of what is random a
    /// fiftieth of the cases: the same code in a fraction of the time.
    Reduced,
}

/// Runs what claims need.
pub(crate) struct Bench {
    seed: u64,
    effort: f64,
    extent: Extent,
    jobs: usize,
    interrupt: Option<Interrupt>,
    run: BTreeMap<String, Rc<FigureRun>>,
}

/// A point of a curve: swept parameters with their values, and what came out there.
pub(crate) type Point<'a> = (&'a [(String, String)], f64);

/// The same with a value for each seed.
pub(crate) type Samples<'a> = (&'a [(String, String)], Vec<f64>);

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
        Bench { seed, effort: 1.0, extent: Extent::Whole, jobs: 0, interrupt: None, run: BTreeMap::new() }
    }

    /// Runs so much, on so many threads at most (0: one for each core).
    pub(crate) fn with_extent(mut self, extent: Extent, jobs: usize) -> Bench {
        (self.extent, self.jobs) = (extent, jobs);
        if extent == Extent::Reduced {
            self.effort = 0.02;
        }
        self
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

    /// Whether little is run.
    pub(crate) fn is_reduced(&self) -> bool {
        self.extent == Extent::Reduced
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

    /// The share of `usual` random cases that hold; one that does not ends nothing.
    pub(crate) fn share(&self, usual: u32, mut holds: impl FnMut(&mut Rng) -> bool) -> f64 {
        let (mut good, mut tried) = (0_u32, 0_u32);
        let _ = self.cases(usual, |_, rng| {
            (good, tried) = (good + u32::from(holds(rng)), tried + 1);
            Ok(())
        });
        f64::from(good) / f64::from(tried.max(1))
    }

    /// The figure `key`, all points and seeds, run once however many claims ask for it.
    ///
    /// # Errors
    /// When there is no such figure or it cannot be run; [`Interrupted`].
    pub(crate) fn figure(&mut self, key: &str) -> anyhow::Result<Rc<FigureRun>> {
        self.figure_with(key, &[])
    }

    /// The same with other values of some of the scenario's settings, each by its path as a sweep names it.
    ///
    /// # Errors
    /// As [`Bench::figure`]; when there is no such setting or it cannot have the value.
    pub(crate) fn figure_with(&mut self, key: &str, other: &[(&str, &str)]) -> anyhow::Result<Rc<FigureRun>> {
        let name = other.iter().fold(key.to_owned(), |name, (path, value)| format!("{name} {path}={value}"));
        if let Some(run) = self.run.get(&name) {
            return Ok(Rc::clone(run));
        }
        let figures = scenarios::figures();
        let figure = figures.iter().find(|figure| figure.key == key);
        let figure = figure.ok_or_else(|| BadInput(format!("there is no scenario of {key}")))?;
        let reduced = self.extent == Extent::Reduced;
        let mut settings = if reduced { shortened(&figure.text)? } else { Vec::new() };
        settings.extend(other.iter().map(|&(path, value)| (path.to_owned(), value.to_owned())));
        let mut file = simulation::read(&figure.path, &figure.text, &settings)?;
        if reduced {
            file.set_seeds(file.seeds().iter().copied().take(1).collect());
        }
        let interrupt = match &self.interrupt {
            Some(interrupt) => interrupt.clone(),
            None => self.interrupt.insert(Interrupt::install()?).clone(),
        };
        let options = Options { jobs: self.jobs, captures: None, progress: Some(key) };
        let batch = simulation::run(&file, &options, &interrupt).with_context(|| key.to_owned())?;
        if batch.interrupted {
            return Err(Interrupted.into());
        }
        let expected = simulation::expected(&file, &batch)?;
        let run = Rc::new(FigureRun { file, batch, expected });
        self.run.insert(name, Rc::clone(&run));
        Ok(run)
    }
}

/// What makes a scenario's runs [`SHORT`], where they are longer and their warm-up is not.
fn shortened(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let head: toml::Table = toml::from_str(text).context("a scenario")?;
    let time = |key: &str| head.get(key).and_then(toml::Value::as_str).and_then(|text| parse_span(text).ok());
    let long = time("duration").is_some_and(|duration| duration > SHORT);
    let warm = time("warm_up").is_some_and(|warm_up| warm_up >= SHORT);
    let setting = || ("duration".to_owned(), format!("{}s", SHORT.as_nanos() / 1_000_000_000));
    Ok(if long && !warm { vec![setting()] } else { Vec::new() })
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

    /// How far those of [`FigureRun::values`] may be off: half of their 95 % intervals over the seeds.
    ///
    /// # Errors
    /// [`BadInput`] when the results do not have one of them.
    pub(crate) fn noise(&self, id: &str, factor: f64) -> anyhow::Result<Map<String, Value>> {
        let mut noise = Map::new();
        for expected in &self.expected {
            let Some((_, key)) = expected.claim.as_ref().filter(|(claim, key)| claim == id && !key.is_empty()) else {
                continue;
            };
            let point = self.batch.finished.iter().filter(|run| run.point == expected.point);
            let values = self.read(&expected.metric, point)?;
            if let Some(half) = Cell::of(values.iter().map(|value| value * factor)).1 {
                noise.insert(key.clone(), Value::from(half));
            }
        }
        Ok(noise)
    }

    /// A metric of these runs.
    fn read<'a>(&self, metric: &str, runs: impl Iterator<Item = &'a Finished>) -> anyhow::Result<Vec<f64>> {
        let wrong = |error: fairspan_sim::scenario::MetricError| BadInput(format!("{}: {error}", self.file.name()));
        let metric = Metric::parse(metric).map_err(wrong)?;
        Ok(runs.map(|run| metric.value(&run.results)).collect::<Result<_, _>>().map_err(wrong)?)
    }

    /// The values of `metric` at every point, seed by seed.
    ///
    /// # Errors
    /// [`BadInput`] when the results do not have it.
    pub(crate) fn samples(&self, metric: &str) -> anyhow::Result<Vec<Samples<'_>>> {
        let points = self.batch.finished.chunk_by(|a, b| a.point == b.point);
        points.map(|point| Ok((point[0].parameters.as_slice(), self.read(metric, point.iter())?))).collect()
    }

    /// The mean of `metric` over the seeds at every point: (swept parameters, value).
    ///
    /// # Errors
    /// [`BadInput`] when the results do not have it.
    pub(crate) fn curve(&self, metric: &str) -> anyhow::Result<Vec<Point<'_>>> {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Ok(self.samples(metric)?.into_iter().map(|(at, values)| (at, mean(&values))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_run_whose_warm_up_is_short_is_shortened() {
        let of = |text: &str| shortened(text).expect("TOML");
        let short = vec![("duration".to_owned(), "50s".to_owned())];
        assert_eq!(of("duration = \"500s\""), short);
        assert_eq!(of("duration = \"80s\"\nwarm_up = \"49s\""), short);
        assert!(of("duration = \"50s\"").is_empty() && of("duration = \"600s\"\nwarm_up = \"50s\"").is_empty());
        assert!(of("title = \"no time at all\"").is_empty());
    }

    #[test]
    fn a_reduced_figure_has_one_seed_and_all_points() {
        let mut bench = Bench::new(1).with_extent(Extent::Reduced, 1);
        let run = bench.figure("cross-check.cbr-line").expect("it runs");
        assert_eq!((run.file.seeds().len(), run.batch.finished.len()), (1, run.file.points()));
    }

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
        // With another constant it is another one, which is run once too; what is no setting is refused.
        let slower = bench.figure_with("cross-check.cbr-line", &[("duration", "2s")]).expect("it runs");
        let again = bench.figure_with("cross-check.cbr-line", &[("duration", "2s")]).expect("it runs");
        assert!(Rc::ptr_eq(&slower, &again) && !Rc::ptr_eq(&slower, &run));
        assert!(slower.batch.finished[0].results.events > run.batch.finished[0].results.events);
        assert!(bench.figure_with("cross-check.cbr-line", &[("durations", "2s")]).is_err());
    }
}
