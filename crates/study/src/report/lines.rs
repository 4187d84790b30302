//! The lines of a plot that a file asks for: what tells them apart, what they are called, and how many are drawn.

use super::estimate::Sample;
use crate::simulation::Finished;
use fairspan_sim::scenario::{File, Plot as Asked};
use std::collections::HashMap;

/// Lines in one plot that a file asks for, at most.
pub(super) const MOST_LINES: usize = 24;

/// What tells points of a plot apart beside `x`: the value of `by`, and of each other swept parameter that has several values where
/// `x` and those before have one. They are lines of their own, as points of different sweeps are no samples of one thing.
pub(super) fn others(file: &File, runs: &[&Finished], x: Option<&str>, by: Option<&str>) -> Vec<(String, bool)> {
    let mut found: Vec<(String, bool)> = by.map(|by| (by.to_owned(), false)).into_iter().collect();
    for parameter in file.sweeps().flatten().filter(|name| x != Some(name.as_str()) && by != Some(name.as_str())) {
        let mut known = HashMap::new();
        let varies = runs.iter().any(|run| {
            let of = |name: &str| value_of(&run.parameters, name);
            let place: Vec<Option<&str>> =
                x.into_iter().chain(found.iter().map(|(name, _)| name.as_str())).map(of).collect();
            let value = of(parameter);
            *known.entry(place).or_insert(value) != value
        });
        if varies {
            found.push((parameter.clone(), true));
        }
    }
    found
}

/// The values of [`others`] at a point: of `by` as it is, of the rest with its name.
pub(super) fn told(others: &[(String, bool)], parameters: &[(String, String)]) -> String {
    let tell = |(name, named): &(String, bool)| {
        let value = value_of(parameters, name)?.trim_matches('"');
        let last = name.rsplit('.').next().unwrap_or(name);
        Some(if *named { format!("{last} {value}") } else { value.to_owned() })
    };
    others.iter().filter_map(tell).collect::<Vec<String>>().join(", ")
}

/// The name of a line: what it measures, and where.
pub(super) fn name(what: &str, lines: usize, at: &str) -> String {
    match (at.is_empty(), lines) {
        (true, _) => what.to_owned(),
        (false, 1) => at.to_owned(),
        (false, _) => format!("{what}, {at}"),
    }
}

/// A plot's title with what has to be known of its lines.
pub(super) fn title(asked: &Asked, file: &File, notes: &[String]) -> String {
    let title = if asked.title.is_empty() { file.title() } else { &asked.title };
    let notes: Vec<&str> = notes.iter().map(String::as_str).filter(|note| !note.is_empty()).collect();
    if notes.is_empty() { title.to_owned() } else { format!("{title} ({})", notes.join("; ")) }
}

/// How many of a plot's lines are drawn, where it is not all.
pub(super) fn chosen(count: usize, most: usize) -> String {
    if count > most { format!("{most} of {count} lines, from the least mean to the greatest") } else { String::new() }
}

/// The value of a swept parameter at a point.
pub(super) fn value_of<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// How far a mean may be off; nothing where one value does not tell.
pub(super) fn half_width(sample: &Sample) -> f64 {
    sample.half_width().unwrap_or(0.0)
}
