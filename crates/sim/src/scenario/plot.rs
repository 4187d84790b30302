//! The `[[plot]]` tables: what is drawn of the results.

use super::error::{Problem, closest};
use super::form::{Errors, Form};
use super::metric::{Metric, Sampled, matches};
use super::refers::{check, metric, readable};
use super::sweep::Sweep;
use super::value::{Kind, Value};
use crate::model::Scenario;
use crate::results::Series;
use crate::world::World;
use fairspan_core::units::Span;

/// A plot that a file asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// For people; empty where not given.
    pub title: String,
    /// What is drawn, and over what.
    pub content: Content,
    /// What the x axis is, for people; empty where not given.
    pub x_label: String,
    /// What the y axis is, for people; empty where not given.
    pub y_label: String,
    /// A line for each value of this swept parameter.
    pub by: Option<String>,
    /// The points of the sweeps that it is about: parameters and their values; all where empty.
    pub at: Vec<(String, String)>,
    /// Logarithmic axes.
    pub log_x: bool,
    /// See `log_x`.
    pub log_y: bool,
}

/// What a plot draws: lines with their names.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Metrics over a swept parameter.
    Swept {
        /// The parameter.
        x: String,
        /// The metrics.
        y: Vec<(String, Metric)>,
    },
    /// Series over time.
    Time(Vec<(String, SeriesName)>),
    /// The share of samples that are not above a value, over the value.
    Distribution(Vec<(String, Sampled)>),
}

/// The name of series, with dots: `flow.NAME.window`; `*` stands for any letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesName(String);

impl SeriesName {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a series is called so.
    pub fn is(&self, series: &Series) -> bool {
        matches(&self.0, &dotted(&series.name))
    }
}

/// The name of a series as a plot writes it: the words of names have neither dots nor spaces.
fn dotted(name: &str) -> String {
    name.replace(' ', ".")
}

impl Plot {
    /// The metrics that it draws over a sweep.
    pub fn metrics(&self) -> &[(String, Metric)] {
        match &self.content {
            Content::Swept { y, .. } => y,
            Content::Time(_) | Content::Distribution(_) => &[],
        }
    }

    /// Whether it is about a point.
    pub fn applies(&self, parameters: &[(String, String)]) -> bool {
        self.at.iter().all(|wanted| parameters.contains(wanted))
    }
}

/// Reads a `[[plot]]`; `None` where it cannot be drawn.
pub(super) fn plot(form: &mut Form<'_>, sweeps: &[Sweep], first: &Scenario, errors: &mut Errors<'_>) -> Option<Plot> {
    let cdf = form.choice("kind", &[("line", false), ("cdf", true)], errors).unwrap_or(false);
    let time = matches!(form.value("x").map(|value| &value.kind), Some(Kind::Text(text)) if text == "time");
    let x = if time { None } else { swept(form, "x", sweeps, errors) };
    let by = swept(form, "by", sweeps, errors);
    if cdf && form.has("x") {
        form.conflict("x", "a distribution has the values of `y` along its x axis: leave `x` out", errors);
    }
    if !cdf && !form.has("x") {
        form.missing("x", "\"time\", or a swept parameter, such as \"link.bottleneck.rate\"", errors);
    }
    if !form.has("y") {
        form.missing("y", "a metric or a list of them, or a table of names and metrics", errors);
    }
    if time && first.metrics.series == Span::ZERO {
        form.conflict("x", "values over time need `series` in [metrics], such as series = \"100ms\"", errors);
        form.value("y");
        return None;
    }
    let lines = lines(form, errors);
    let content = if cdf {
        let read = |(name, text, at): (String, &str, u32), errors: &mut Errors<'_>| {
            let sampled = readable(form, "y", Sampled::parse(text), at, errors)?;
            check(form, "y", &sampled.refers(), at, first, errors);
            Some((name, sampled))
        };
        Some(Content::Distribution(lines.into_iter().filter_map(|line| read(line, errors)).collect()))
    } else if time {
        Some(Content::Time(series(form, lines, first, errors)))
    } else {
        let read = |(name, text, at): (String, &str, u32), errors: &mut Errors<'_>| {
            metric(form, "y", text, at, first, errors).map(|metric| (name, metric))
        };
        let y = lines.into_iter().filter_map(|line| read(line, errors)).collect();
        x.map(|x| Content::Swept { x, y })
    };
    let mut text = |key, errors: &mut Errors<'_>| form.text(key, errors).unwrap_or_default().to_owned();
    let (title, x_label) = (text("title", errors), text("x_label", errors));
    let y_label = text("y_label", errors);
    let at = points(form, sweeps, errors);
    let log = form.choice("log", &[("x", (true, false)), ("y", (false, true)), ("xy", (true, true))], errors);
    let (log_x, log_y) = log.unwrap_or_default();
    Some(Plot { title, content: content?, x_label, y_label, by, at, log_x, log_y })
}

/// A swept parameter by its path.
fn swept(form: &mut Form<'_>, key: &'static str, sweeps: &[Sweep], errors: &mut Errors<'_>) -> Option<String> {
    let text = form.text(key, errors)?;
    let mut paths = sweeps.iter().flat_map(|sweep| &sweep.parameters).map(String::as_str);
    if paths.clone().any(|path| path == text) {
        return Some(text.to_owned());
    }
    let close = closest(text, &mut paths);
    let problem = Problem::NoSuch { what: "swept parameter", found: text.into(), close };
    errors.add(form.place(key), form.key(key), problem);
    None
}

/// What `y` says: names, texts and where they stand.
fn lines<'a>(form: &mut Form<'a>, errors: &mut Errors<'_>) -> Vec<(String, &'a str, u32)> {
    let Some(value) = form.value("y") else { return Vec::new() };
    let list: Vec<(String, &Value)> = match &value.kind {
        Kind::List(list) => list.iter().map(|value| (value.show(), value)).collect(),
        Kind::Table(table) => table.entries.iter().map(|entry| (entry.key.clone(), &entry.value)).collect(),
        _ => vec![(value.show(), value)],
    };
    let mut lines = Vec::new();
    for (name, value) in list {
        match &value.kind {
            Kind::Text(text) => lines.push((name, text.as_str(), value.at)),
            _ => form.wrong("y", value, "a metric, such as \"flow.NAME.goodput\"", errors),
        }
    }
    lines
}

/// Series by their names, checked against those that the first run will have.
fn series(
    form: &Form<'_>,
    lines: Vec<(String, &str, u32)>,
    first: &Scenario,
    errors: &mut Errors<'_>,
) -> Vec<(String, SeriesName)> {
    // A scenario that makes no world is told of when it is run.
    let Ok(world) = World::new(first) else { return Vec::new() };
    let known: Vec<String> = world.series_names().map(dotted).collect();
    let mut found = Vec::new();
    for (name, text, at) in lines {
        if known.iter().any(|known| matches(text, known)) {
            found.push((name, SeriesName(text.to_owned())));
            continue;
        }
        let close = closest(text, known.iter().map(String::as_str));
        errors.add(at, form.key("y"), Problem::NoSuch { what: "series", found: text.to_owned(), close });
    }
    found
}

/// The points of the sweeps that `at` names, as an expectation's.
pub(super) fn points(form: &mut Form<'_>, sweeps: &[Sweep], errors: &mut Errors<'_>) -> Vec<(String, String)> {
    let mut at = Vec::new();
    let Some(table) = form.raw_table("at", errors) else { return at };
    for entry in &table.entries {
        let shown = entry.value.show();
        let swept = sweeps.iter().find_map(|sweep| {
            let place = sweep.parameters.iter().position(|path| *path == entry.key)?;
            Some((sweep.settled, sweep.points.iter().map(|point| point[place].show()).collect::<Vec<_>>()))
        });
        match swept {
            None => {
                let paths = sweeps.iter().flat_map(|sweep| &sweep.parameters).map(String::as_str);
                let close = closest(&entry.key, paths);
                let problem = Problem::NoSuch { what: "swept parameter", found: entry.key.clone(), close };
                errors.add(entry.at, form.key("at"), problem);
            }
            // What it is about is not run this time.
            Some((true, _)) => at.push((entry.key.clone(), shown)),
            Some((false, values)) if !values.contains(&shown) => {
                let expected = format!("one of the values that are swept: {}", values.join(", "));
                form.wrong("at", &entry.value, expected, errors);
            }
            Some(_) => at.push((entry.key.clone(), shown)),
        }
    }
    at
}
