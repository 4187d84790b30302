//! What metrics refer to, checked against a scenario before it is run.

use super::error::{Problem, closest};
use super::form::{Errors, Form};
use super::metric::{Metric, MetricError, Refers, matches};
use crate::model::Scenario;

/// Reads a metric that stands for one value; `None` where it cannot be read.
pub(super) fn metric(
    form: &Form<'_>,
    key: &str,
    text: &str,
    at: u32,
    first: &Scenario,
    errors: &mut Errors<'_>,
) -> Option<Metric> {
    let metric = readable(form, key, Metric::parse(text), at, errors)?;
    check(form, key, &metric.refers(), at, first, errors);
    Some(metric)
}

/// What was read, or an error for what could not be.
pub(super) fn readable<T>(
    form: &Form<'_>,
    key: &str,
    read: Result<T, MetricError>,
    at: u32,
    errors: &mut Errors<'_>,
) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(error) => {
            errors.add(at, form.key(key), Problem::Conflict(error.to_string()));
            None
        }
    }
}

/// Tells what of these the scenario will not have.
pub(super) fn check(
    form: &Form<'_>,
    key: &str,
    refers: &[Refers<'_>],
    at: u32,
    first: &Scenario,
    errors: &mut Errors<'_>,
) {
    for refers in refers {
        let absent = |what, pattern: &str, names: &mut dyn Iterator<Item = &str>| {
            let names: Vec<&str> = names.collect();
            if names.iter().any(|name| matches(pattern, name)) {
                return None;
            }
            let close = closest(pattern, names.into_iter());
            Some(Problem::NoSuch { what, found: pattern.to_owned(), close })
        };
        let problem = match *refers {
            Refers::Flow(name) => {
                let reliable = first.reliable.iter().map(|flow| flow.name.as_str());
                absent("flow", name, &mut first.flows.iter().map(|flow| flow.name.as_str()).chain(reliable))
            }
            Refers::Link(name) => absent("link", name, &mut first.links.iter().map(|link| link.name.as_str())),
            Refers::Bond(name) => {
                let reliable = first.reliable.iter().map(|flow| &flow.name);
                let both = first.bonds.iter().map(|bond| &bond.name).chain(reliable);
                let names: Vec<String> = both.flat_map(|name| [0, 1].map(|end| format!("{name}/{end}"))).collect();
                absent("bond's end", name, &mut names.iter().map(String::as_str))
            }
            Refers::Split(name) => absent("split", name, &mut first.splits.iter().map(|split| split.name.as_str())),
            Refers::Medium(name) => absent("medium", name, &mut first.media.iter().map(|medium| medium.name.as_str())),
            Refers::Ring(name) => absent("ring", name, &mut first.rings.iter().map(|ring| ring.name.as_str())),
            Refers::Percentiles if !first.metrics.delay => {
                Some(Problem::Conflict("percentiles need `delay = true` in [metrics]".into()))
            }
            Refers::Reordering if !first.metrics.reordering => {
                Some(Problem::Conflict("reordering needs `reordering = true` in [metrics]".into()))
            }
            Refers::Percentiles | Refers::Reordering => None,
        };
        if let Some(problem) = problem {
            errors.add(at, form.key(key), problem);
        }
    }
}
