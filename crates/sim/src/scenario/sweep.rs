//! Seeds and sweeps: which runs one file stands for.

use super::error::Problem;
use super::form::{Defaults, Errors, Form, as_number};
use super::value::{Kind, OUTSIDE, Table, Value};
use fairspan_core::quantity::split;

/// Runs of a file that gives no other bound.
pub(super) const MOST_RUNS: u64 = 100_000;

/// Parameters that change together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    /// Dotted paths.
    pub(super) parameters: Vec<String>,
    /// For each point a value for each parameter.
    pub(super) points: Vec<Vec<Value>>,
    /// Whether a value set from outside has taken the place of its own ones.
    pub(super) settled: bool,
}

impl Sweep {
    /// Gives the parameters their values at a point.
    pub(super) fn apply(&self, point: usize, root: &mut Table) -> Result<(), (u32, String, Problem)> {
        for (path, value) in self.parameters.iter().zip(&self.points[point]) {
            root.set(path, value.clone()).map_err(|problem| (value.at, path.clone(), problem))?;
        }
        Ok(())
    }

    /// Leaves of its points those at which the parameter at `place` has this value. A parameter that changes alone takes any
    /// value.
    fn settle(&mut self, place: usize, value: &Value) -> Result<(), Problem> {
        let shown = value.show();
        let kept: Vec<Vec<Value>> = self.points.iter().filter(|point| point[place].show() == shown).cloned().collect();
        self.points = match (kept.is_empty(), self.parameters.len()) {
            (false, _) => kept,
            (true, 1) => vec![vec![value.clone()]],
            (true, _) => {
                let others = self.parameters.iter().enumerate().filter(|(other, _)| *other != place);
                let others: Vec<String> = others.map(|(_, path)| format!("`{path}`")).collect();
                let known: Vec<String> = self.points.iter().map(|point| point[place].show()).collect();
                let text = format!(
                    "found {}; this is swept together with {}, so it must be one of its values there: {}",
                    value.found(),
                    others.join(", "),
                    known.join(", ")
                );
                return Err(Problem::Conflict(text));
            }
        };
        self.settled = true;
        Ok(())
    }
}

/// What was set from outside takes the place of a sweep's values of the same key: the sweep would else overwrite it.
pub(super) fn settle(sweeps: &mut [Sweep], root: &Table, settings: &[(String, String)], errors: &mut Errors<'_>) {
    for (n, (path, value)) in settings.iter().enumerate() {
        let set = root.canonical(path);
        if settings[n + 1..].iter().any(|(later, _)| root.canonical(later) == set) {
            // As of keys that are not swept, the last one counts.
            continue;
        }
        for sweep in &mut *sweeps {
            let known: Vec<Vec<String>> = sweep.parameters.iter().map(|path| root.canonical(path)).collect();
            if let Some(place) = known.iter().position(|swept| *swept == set) {
                if let Err(problem) = sweep.settle(place, &Value::outside(value)) {
                    errors.add(OUTSIDE, path, problem);
                }
            } else if let Some(place) = known.iter().position(|swept| set.starts_with(swept)) {
                let text =
                    format!("`{}` is swept, which replaces all that is in it: set that", sweep.parameters[place]);
                errors.add(OUTSIDE, path, Problem::Conflict(text));
            }
        }
    }
}

/// Seeds: `seed`, or `seeds` as a list or as `"1..5"` (both ends count).
pub(super) fn seeds(form: &mut Form<'_>, most: u64, errors: &mut Errors<'_>) -> Vec<u64> {
    let one = form.integer("seed", 0..=i64::MAX as u64, errors);
    let Some(value) = form.value("seeds") else { return vec![one.unwrap_or(1)] };
    if one.is_some() {
        form.conflict("seeds", "seed and seeds exclude each other: keep one", errors);
    }
    const EXPECTED: &str = "whole numbers: a list such as [1, 2, 3], or \"1..5\" for 1 to 5";
    let seeds: Option<Vec<u64>> = match &value.kind {
        Kind::List(list) if !list.is_empty() => {
            let number = |value: &Value| match value.kind {
                Kind::Integer(number) => u64::try_from(number).ok(),
                _ => None,
            };
            list.iter().map(number).collect()
        }
        Kind::Text(text) => {
            let ends = text
                .split_once("..")
                .and_then(|(first, last)| Some((first.trim().parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?)));
            match ends {
                Some((first, last)) if first <= last && last - first >= most => {
                    let count = (u128::from(last - first) + 1).to_string();
                    errors.add(value.at, "seeds", Problem::TooMany { what: "seeds".into(), count, most });
                    return vec![1];
                }
                Some((first, last)) if first <= last => Some((first..=last).collect()),
                _ => None,
            }
        }
        _ => None,
    };
    let Some(seeds) = seeds else {
        form.wrong("seeds", value, EXPECTED, errors);
        return vec![1];
    };
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        form.wrong("seeds", value, "each seed once: the same seed gives the same run", errors);
    }
    seeds
}

/// The `[[sweep]]` tables.
pub(super) fn sweeps(form: &mut Form<'_>, most: u64, errors: &mut Errors<'_>) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for mut inner in form.tables("sweep", &Defaults::none(), errors) {
        if let Some(sweep) = sweep(&mut inner, most, errors) {
            for path in &sweep.parameters {
                if sweeps.iter().any(|other| other.parameters.contains(path)) {
                    let text = format!("`{path}` is swept twice: a parameter belongs to one sweep");
                    inner.conflict("parameter", text, errors);
                }
            }
            sweeps.push(sweep);
        }
        inner.finish(None, errors);
    }
    sweeps
}

fn sweep(form: &mut Form<'_>, most: u64, errors: &mut Errors<'_>) -> Option<Sweep> {
    let parameters = form.texts("parameter", errors);
    const EXPECTED: &str = "what to sweep, such as \"link.bottleneck.rate\", or a list of such";
    if !form.has("parameter") {
        form.missing("parameter", EXPECTED, errors);
    }
    if parameters.as_ref().is_some_and(Vec::is_empty) {
        form.conflict("parameter", format!("an empty list; expected {EXPECTED}"), errors);
        return None;
    }
    let parameters: Vec<String> = parameters?.into_iter().map(|(path, _)| path.to_owned()).collect();
    for path in &parameters {
        if matches!(path.split('.').next(), Some("seed" | "seeds" | "sweep" | "expect" | "plot" | "max_runs")) {
            form.conflict("parameter", format!("`{path}` cannot be swept; seeds have the key `seeds`"), errors);
        }
    }
    let points = match form.value("values") {
        Some(value) => {
            if let Some(key) = ["from", "to", "step", "steps", "scale"].into_iter().find(|key| form.has(key)) {
                form.conflict(key, "values and from/to exclude each other: keep one", errors);
            }
            listed(form, value, parameters.len(), errors)?
        }
        None => range(form, parameters.len(), most, errors)?,
    };
    if points.len() as u64 > most {
        let count = points.len().to_string();
        errors.add(form.at, form.key("values"), Problem::TooMany { what: "values".into(), count, most });
        return None;
    }
    Some(Sweep { parameters, points, settled: false })
}

fn listed(form: &mut Form<'_>, value: &Value, width: usize, errors: &mut Errors<'_>) -> Option<Vec<Vec<Value>>> {
    for key in ["from", "to", "step", "steps", "scale"] {
        form.value(key);
    }
    let Kind::List(list) = &value.kind else {
        form.wrong("values", value, "a list of values", errors);
        return None;
    };
    if list.is_empty() {
        form.wrong("values", value, "at least one value", errors);
        return None;
    }
    if width == 1 {
        return Some(list.iter().map(|value| vec![value.clone()]).collect());
    }
    let mut points = Vec::with_capacity(list.len());
    for value in list {
        match &value.kind {
            Kind::List(tuple) if tuple.len() == width => points.push(tuple.clone()),
            _ => {
                form.wrong("values", value, format!("a list of {width} values, one for each parameter"), errors);
                return None;
            }
        }
    }
    Some(points)
}

/// A number and its unit.
fn quantity(value: &Value) -> Option<(f64, String)> {
    match &value.kind {
        Kind::Text(text) => {
            let (number, unit) = split(text);
            let number = number.parse().ok().filter(|number: &f64| number.is_finite())?;
            Some((number, unit.to_owned()))
        }
        _ => as_number(value).map(|number| (number, String::new())),
    }
}

fn range(form: &mut Form<'_>, width: usize, most: u64, errors: &mut Errors<'_>) -> Option<Vec<Vec<Value>>> {
    let (from, to) = (form.value("from"), form.value("to"));
    let step = form.value("step");
    let steps = form.integer("steps", 2..=most.max(2), errors);
    let log = form.choice("scale", &[("linear", false), ("log", true)], errors).unwrap_or(false);
    let (Some(from), Some(to)) = (from, to) else {
        form.missing("values", "a list of values, or from and to with step or steps", errors);
        return None;
    };
    if width != 1 {
        form.conflict("parameter", "several parameters at once take `values`, a list of lists", errors);
        return None;
    }
    let mut read = |key: &'static str, value: &Value| {
        let found = quantity(value);
        if found.is_none() {
            form.wrong(key, value, "a number with its unit, such as \"5Mbit\"", errors);
        }
        found
    };
    let ((first, unit), (last, last_unit)) = (read("from", from)?, read("to", to)?);
    if !unit.eq_ignore_ascii_case(&last_unit) {
        form.wrong("to", to, format!("the unit of `from`, {unit}"), errors);
        return None;
    }
    if last < first || (log && first <= 0.0) {
        form.wrong("to", to, "`to` not below `from`; for the log scale both above zero", errors);
        return None;
    }
    let whole = matches!((&from.kind, &to.kind), (Kind::Integer(_), Kind::Integer(_)));
    let numbers = match (step, steps) {
        (Some(_), None) if log => {
            form.conflict("step", "the log scale takes `steps`, how many values there are", errors);
            return None;
        }
        (Some(value), None) => {
            let (size, its_unit) = quantity(value).filter(|&(size, _)| size > 0.0).or_else(|| {
                form.wrong("step", value, "a number above zero with its unit, such as \"1Mbit\"", errors);
                None
            })?;
            if !its_unit.eq_ignore_ascii_case(&unit) {
                form.wrong("step", value, format!("the unit of `from`, {unit}"), errors);
                return None;
            }
            // A step that does not quite divide by binary fractions still reaches `to`.
            let count = ((last - first) / size + 1e-9).floor() + 1.0;
            if count > most as f64 {
                let problem = Problem::TooMany { what: "values".into(), count: format!("{count:.0}"), most };
                errors.add(value.at, form.key("step"), problem);
                return None;
            }
            (0..count as u64).map(|n| first + size * n as f64).collect::<Vec<f64>>()
        }
        (None, Some(steps)) => {
            let along = |n: u64| n as f64 / (steps - 1) as f64;
            let value = |n| if log { first * (last / first).powf(along(n)) } else { first + (last - first) * along(n) };
            (0..steps).map(value).collect()
        }
        (None, None) if form.has("steps") => return None,
        _ => {
            form.missing("step", "either `step`, the distance, or `steps`, how many values", errors);
            return None;
        }
    };
    let value = |number: f64| {
        // Twelve digits: what binary fractions add behind them nobody wrote.
        let number: f64 = format!("{number:.11e}").parse().unwrap_or(number);
        let kind = match &from.kind {
            Kind::Text(_) => Kind::Text(format!("{number}{unit}")),
            _ if whole && number.fract() == 0.0 => Kind::Integer(number as i64),
            _ => Kind::Float(number),
        };
        vec![Value { at: from.at, kind }]
    };
    Some(numbers.into_iter().map(value).collect())
}
