//! A scenario file: what it says about itself, its runs, expectations and plots.

use super::build;
use super::error::{Problem, ReadError};
use super::expect::{Expectation, Tolerance};
use super::form::{Defaults, Errors, Form, as_fraction, as_number};
use super::metric::{Metric, Unit};
use super::plot::{Plot, plot, points};
use super::refers::metric;
use super::store::Store;
use super::sweep::{self, Sweep};
use super::value::{Kind, OUTSIDE, Table, Value};
use crate::model::Scenario;
use fairspan_core::quantity::{parse_bytes, parse_rate, parse_span};
use std::sync::{Mutex, PoisonError};

/// How much building it is worth to check every combination of the sweeps before the first run, in nodes, links and
/// flows. Beyond that each value is checked with the first values of the other sweeps.
const CHECKED: usize = 100_000;

/// A scenario file that has been read and checked.
#[derive(Clone, Debug)]
pub struct File {
    name: String,
    text: String,
    root: Table,
    store: Store,
    head: Head,
    /// Keys set from outside with their values, in order.
    settings: Vec<(String, String)>,
    /// Seeds given from outside.
    seeds: Option<Vec<u64>>,
    first: First,
}

/// The run that was built for checking, until it is asked for: building it twice would be half of a large scenario's
/// start. A copy of the file has none.
#[derive(Debug, Default)]
struct First(Mutex<Option<Box<Scenario>>>);

impl Clone for First {
    fn clone(&self) -> First {
        First::default()
    }
}

impl First {
    fn take(&self, seed: u64) -> Option<Scenario> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take_if(|scenario| scenario.seed == seed).map(|scenario| *scenario)
    }
}

/// What a file says beside the scenario.
#[derive(Clone, Debug, Default)]
struct Head {
    title: String,
    description: String,
    paper: Option<String>,
    figure: Option<String>,
    seeds: Vec<u64>,
    most: u64,
    sweeps: Vec<Sweep>,
    expectations: Vec<Expectation>,
    plots: Vec<Plot>,
}

/// One run of a file.
#[derive(Clone, Debug)]
pub struct Run {
    /// From 0.
    pub number: usize,
    /// The point of the sweeps, from 0: runs with the same point differ by seed.
    pub point: usize,
    /// Swept parameters and their values here, as written.
    pub parameters: Vec<(String, String)>,
    /// The seed.
    pub seed: u64,
    /// What to run.
    pub scenario: Scenario,
}

impl File {
    /// Reads and checks a file called `name` in errors. `files` gives the content of a file that the scenario names:
    /// a trace, a series, a list of packets.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the text, at most a hundred errors.
    pub fn parse(
        name: &str,
        text: &str,
        files: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<File, Vec<ReadError>> {
        File::parse_with(name, text, &[], files)
    }

    /// Like [`File::parse`], with keys set from outside before anything is checked: see [`File::set`].
    ///
    /// # Errors
    /// As for [`File::parse`].
    pub fn parse_with(
        name: &str,
        text: &str,
        settings: &[(&str, &str)],
        files: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<File, Vec<ReadError>> {
        let mut errors = Errors::new(name, text);
        let mut root = match Table::parse(text) {
            Ok(root) => root,
            Err(list) => {
                list.into_iter().for_each(|(at, problem)| errors.add(at, "", problem));
                return Err(errors.sorted());
            }
        };
        for (path, value) in settings {
            if let Err(problem) = root.set(path, Value::outside(value)) {
                errors.add(OUTSIDE, *path, problem);
            }
        }
        if errors.any() {
            return Err(errors.sorted());
        }
        let store = Store::default();
        let mut file = File {
            name: name.into(),
            text: text.into(),
            root,
            store,
            head: Head::default(),
            settings: settings.iter().map(|&(path, value)| (path.to_owned(), value.to_owned())).collect(),
            seeds: None,
            first: First::default(),
        };
        file.check(files)?;
        Ok(file)
    }

    /// Sets a key by its dotted path, as `--set link.bottleneck.queue=50000B` does. An element of a list goes by its
    /// name or its number from 0. The value is TOML, or a text where it is not. Of a key that is swept, it takes the place of
    /// the sweep's values; where several keys are swept together, the points with this value remain. The file stays as it was
    /// on an error.
    ///
    /// # Errors
    /// As for [`File::parse`].
    pub fn set(
        &mut self,
        path: &str,
        value: &str,
        files: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<(), Vec<ReadError>> {
        let mut changed = self.clone();
        if let Err(problem) = changed.root.set(path, Value::outside(value)) {
            let mut errors = Errors::new(&self.name, &self.text);
            errors.add(OUTSIDE, path, problem);
            return Err(errors.sorted());
        }
        changed.settings.push((path.to_owned(), value.to_owned()));
        changed.check(files)?;
        *self = changed;
        Ok(())
    }

    /// Seeds in place of the file's.
    pub fn set_seeds(&mut self, seeds: Vec<u64>) {
        self.seeds = Some(seeds).filter(|seeds| !seeds.is_empty());
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Keys set from outside with their values, in order.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// For people; empty where not given.
    pub fn title(&self) -> &str {
        &self.head.title
    }

    /// For people; empty where not given.
    pub fn description(&self) -> &str {
        &self.head.description
    }

    /// The paper that it reproduces.
    pub fn paper(&self) -> Option<&str> {
        self.head.paper.as_deref()
    }

    /// The figure or table of the paper.
    pub fn figure(&self) -> Option<&str> {
        self.head.figure.as_deref()
    }

    /// Each point of the sweeps runs once with each of these.
    pub fn seeds(&self) -> &[u64] {
        self.seeds.as_deref().unwrap_or(&self.head.seeds)
    }

    /// Whether these were given from outside.
    pub fn seeds_are_set(&self) -> bool {
        self.seeds.is_some()
    }

    /// Points of the sweeps: 1 without any.
    pub fn points(&self) -> usize {
        self.head.sweeps.iter().map(|sweep| sweep.points.len()).product()
    }

    /// How many runs there are.
    pub fn count(&self) -> usize {
        self.points().saturating_mul(self.seeds().len())
    }

    /// Swept parameters in their order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.head.sweeps.iter().flat_map(|sweep| sweep.parameters.iter().map(String::as_str))
    }

    /// The parameters of each sweep: those that change together.
    pub fn sweeps(&self) -> impl Iterator<Item = &[String]> {
        self.head.sweeps.iter().map(|sweep| sweep.parameters.as_slice())
    }

    /// The first parameter of each sweep: those that change with it say nothing more about a point.
    pub fn leading_parameters(&self) -> impl Iterator<Item = &str> {
        self.head.sweeps.iter().filter_map(|sweep| sweep.parameters.first().map(String::as_str))
    }

    /// What should come out.
    pub fn expectations(&self) -> &[Expectation] {
        &self.head.expectations
    }

    /// What should be plotted.
    pub fn plots(&self) -> &[Plot] {
        &self.head.plots
    }

    /// One run, by its number from 0; seeds change fastest, then the last sweep. `None` past the last run.
    ///
    /// # Errors
    /// Where this combination of swept values does not work; no error for a file without sweeps.
    pub fn run(&self, number: usize) -> Option<Result<Run, Vec<ReadError>>> {
        let seeds = self.seeds();
        let point = number / seeds.len();
        if point >= self.points() {
            return None;
        }
        let seed = seeds[number % seeds.len()];
        let mut errors = Errors::new(&self.name, &self.text);
        if let Some(scenario) = self.first.take(seed) {
            return Some(Ok(Run { number, point, parameters: Vec::new(), seed, scenario }));
        }
        let Some((parameters, scenario)) = self.build(point, seed, &mut errors) else {
            return Some(Err(errors.sorted()));
        };
        Some(Ok(Run { number, point, parameters, seed, scenario }))
    }

    /// All runs, each built when it is asked for.
    pub fn runs(&self) -> impl Iterator<Item = Result<Run, Vec<ReadError>>> + '_ {
        (0..self.count()).map_while(|number| self.run(number))
    }

    /// Which value each sweep has at a point; the last sweep changes fastest.
    fn places(&self, mut point: usize) -> Vec<usize> {
        let mut places = vec![0; self.head.sweeps.len()];
        for (sweep, place) in self.head.sweeps.iter().zip(&mut places).rev() {
            *place = point % sweep.points.len();
            point /= sweep.points.len();
        }
        places
    }

    fn build(&self, point: usize, seed: u64, errors: &mut Errors<'_>) -> Option<(Vec<(String, String)>, Scenario)> {
        self.build_at(&self.places(point), seed, errors)
    }

    fn build_at(
        &self,
        places: &[usize],
        seed: u64,
        errors: &mut Errors<'_>,
    ) -> Option<(Vec<(String, String)>, Scenario)> {
        if places.is_empty() {
            let scenario = build::scenario(&self.root, &self.store, &self.head.title, seed, errors)?;
            return Some((Vec::new(), scenario));
        }
        let mut root = self.root.clone();
        let mut parameters = Vec::new();
        for (sweep, &place) in self.head.sweeps.iter().zip(places) {
            if let Err((at, path, problem)) = sweep.apply(place, &mut root) {
                errors.add(at, path, problem);
                return None;
            }
            let values = sweep.points[place].iter().map(Value::show);
            parameters.extend(sweep.parameters.iter().cloned().zip(values));
        }
        let scenario = build::scenario(&root, &self.store, &self.head.title, seed, errors)?;
        Some((parameters, scenario))
    }

    /// Reads everything and builds what is worth building, so that no run fails later.
    fn check(&mut self, files: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>) -> Result<(), Vec<ReadError>> {
        let (name, text) = (self.name.clone(), self.text.clone());
        let mut errors = Errors::new(&name, &text);
        let root = self.root.clone();
        let mut form = Form::new(&root, String::new(), &Defaults::none());
        let mut head = Head::read(&mut form, &mut errors);
        sweep::settle(&mut head.sweeps, &root, &self.settings, &mut errors);
        let places: u64 = head.sweeps.iter().map(|sweep| sweep.points.len() as u64).fold(1, u64::saturating_mul);
        let runs = places.saturating_mul(head.seeds.len() as u64);
        if runs > head.most {
            let problem = Problem::TooMany {
                what: "runs (points of the sweeps times seeds)".into(),
                count: runs.to_string(),
                most: head.most,
            };
            errors.add(form.place("sweep"), "sweep", problem);
        }
        let swept = head.sweeps.iter().flat_map(|sweep| {
            let named = sweep.parameters.iter().enumerate();
            named.flat_map(|(place, path)| sweep.points.iter().map(move |point| (path.as_str(), &point[place])))
        });
        self.store.load(&root, swept, files);
        self.head.sweeps = std::mem::take(&mut head.sweeps);
        self.head.title = head.title.clone();
        let seed = head.seeds[0];
        let first = if runs > head.most {
            None
        } else {
            let places = vec![0; self.head.sweeps.len()];
            self.build_at(&places, seed, &mut errors)
        };
        if let Some((_, first)) = &first {
            head.read_results(&mut form, &self.head.sweeps, first, &mut errors);
            let size = first.nodes.len() + first.links.len() + first.flows.len();
            self.check_points(size, places as usize, seed, &mut errors);
        }
        head.sweeps = std::mem::take(&mut self.head.sweeps);
        if errors.any() {
            return Err(errors.sorted());
        }
        self.head = head;
        let first = first.filter(|_| self.head.sweeps.is_empty()).map(|(_, scenario)| Box::new(scenario));
        self.first = First(Mutex::new(first));
        Ok(())
    }

    fn check_points(&self, size: usize, points: usize, seed: u64, errors: &mut Errors<'_>) {
        if points.saturating_mul(size.max(1)) <= CHECKED {
            for point in 1..points {
                self.build(point, seed, errors);
            }
            return;
        }
        let mut places = vec![0; self.head.sweeps.len()];
        for sweep in 0..places.len() {
            for place in 1..self.head.sweeps[sweep].points.len() {
                places[sweep] = place;
                self.build_at(&places, seed, errors);
            }
            places[sweep] = 0;
        }
    }
}

impl Head {
    fn read(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Head {
        let mut text = |key| form.text(key, errors).map(str::to_owned);
        let (title, description) = (text("title").unwrap_or_default(), text("description").unwrap_or_default());
        let (paper, figure) = (text("paper"), text("figure"));
        let most = form.integer("max_runs", 1..=100_000_000, errors).unwrap_or(sweep::MOST_RUNS);
        let seeds = sweep::seeds(form, most, errors);
        let sweeps = sweep::sweeps(form, most, errors);
        Head { title, description, paper, figure, seeds, most, sweeps, ..Head::default() }
    }

    /// What refers to results, checked against the first run.
    fn read_results(&mut self, form: &mut Form<'_>, sweeps: &[Sweep], first: &Scenario, errors: &mut Errors<'_>) {
        for mut inner in form.tables("expect", &Defaults::none(), errors) {
            if let Some(expectation) = expectation(&mut inner, sweeps, first, errors) {
                self.expectations.push(expectation);
            }
            inner.finish(None, errors);
        }
        for mut inner in form.tables("plot", &Defaults::none(), errors) {
            if let Some(plot) = plot(&mut inner, sweeps, first, errors) {
                self.plots.push(plot);
            }
            inner.finish(None, errors);
        }
    }
}

/// A value in a metric's unit: a quantity with its unit, or a number where the metric has none.
fn in_unit(form: &Form<'_>, key: &str, value: &Value, unit: Unit, errors: &mut Errors<'_>) -> Option<f64> {
    let text = match &value.kind {
        Kind::Text(text) => text.as_str(),
        _ => "",
    };
    let (number, expected) = match unit {
        Unit::BitsPerSecond => {
            (parse_rate(text).ok().map(|rate| rate.as_bits_per_sec() as f64), "a rate such as \"1.9Mbit\"")
        }
        Unit::Seconds => (parse_span(text).ok().map(|span| span.as_secs_f64()), "a length of time such as \"20ms\""),
        Unit::Bytes => (parse_bytes(text).ok().map(|bytes| bytes.as_u64() as f64), "bytes such as \"25kB\""),
        Unit::Count => (as_number(value), "a number"),
        Unit::None => (as_fraction(value), "a number, or a text such as \"12.5%\""),
    };
    if number.is_none() {
        form.wrong(key, value, expected, errors);
    }
    number
}

fn expectation(
    form: &mut Form<'_>,
    sweeps: &[Sweep],
    first: &Scenario,
    errors: &mut Errors<'_>,
) -> Option<Expectation> {
    if !form.has("metric") {
        form.missing("metric", "what is expected to have the value, such as \"jain\" or \"flow.NAME.goodput\"", errors);
    }
    let text = form.text("metric", errors);
    let place = form.place("metric");
    let metric = text.and_then(|text| metric(form, "metric", text, place, first, errors));
    let unit = metric.as_ref().map(Metric::unit);
    let mut read = |key, errors: &mut Errors<'_>| {
        let value = form.value(key)?;
        in_unit(form, key, value, unit?, errors)
    };
    let (value, least, most) = (read("value", errors), read("least", errors), read("most", errors));
    let absolute = read("absolute", errors);
    let relative = form.fraction("within", errors);
    let tolerance = match (relative, absolute) {
        (Some(_), Some(_)) => {
            form.conflict("absolute", "within and absolute exclude each other: keep one", errors);
            return None;
        }
        (None, Some(absolute)) => Tolerance::Absolute(absolute),
        (relative, None) => Tolerance::Relative(relative.unwrap_or(0.0)),
    };
    if form.has("value") && relative.is_none() && absolute.is_none() {
        form.missing("within", "how far ours may be: `within = 0.05` (a share) or `absolute` (in the unit)", errors);
    }
    if !["value", "least", "most"].iter().any(|key| form.has(key)) {
        form.missing("value", "what should come out: value, least or most", errors);
    }
    let at = points(form, sweeps, errors);
    let source = form.text("where", errors).unwrap_or_default().to_owned();
    let claim = form.text("claim", errors).map(str::to_owned);
    let key = form.text("key", errors).map(str::to_owned);
    Some(Expectation { metric: metric?, at, value, tolerance, least, most, source, claim, key })
}
