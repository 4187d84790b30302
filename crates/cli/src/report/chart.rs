//! Which plots results get: what a file asks for over its points, and series over time.

use super::plot::{Axis, Bars, Line, Plot};
use super::text::scale;
use crate::simulation::{Expected, Finished};
use fairspan_core::quantity::{parse_bytes, parse_rate, parse_span};
use fairspan_sim::results::{Results, Series};
use fairspan_sim::scenario::{File, Plot as Asked};
use std::collections::BTreeMap;

/// Groups of bars in one plot at most.
const MOST_BARS: usize = 40;
/// Lines in one plot at most.
const MOST_LINES: usize = 8;

/// The plots that the file asks for, over the points of its sweeps; values that the file expects are drawn beside ours.
pub(crate) fn over_points(file: &File, finished: &[Finished], expected: &[Expected]) -> Vec<String> {
    if file.plots().is_empty() {
        return beside(file, expected).into_iter().collect();
    }
    file.plots().iter().filter_map(|asked| over_sweep(asked, file, finished, expected)).collect()
}

/// Values that the file expects beside ours, as bars: what a table of a paper becomes. Only where all have one unit.
fn beside(file: &File, expected: &[Expected]) -> Option<String> {
    let valued: Vec<&Expected> = expected.iter().filter(|expected| expected.value.is_some()).take(MOST_BARS).collect();
    let unit = &valued.first()?.unit;
    if valued.iter().any(|expected| expected.unit != *unit) {
        return None;
    }
    let most = valued.iter().map(|e| e.ours.abs().max(e.value.unwrap_or(0.0).abs())).fold(0.0, f64::max);
    let (factor, unit) = scale(unit, most);
    let group = |expected: &&Expected| {
        let at: Vec<&str> = expected.at.iter().map(|(_, value)| value.trim_matches('"')).collect();
        let key = expected.claim.as_ref().map(|(_, key)| key.replace('_', " ")).filter(|key| !key.is_empty());
        let name = key.unwrap_or_else(|| [&[expected.metric.as_str()], at.as_slice()].concat().join(", "));
        (name, vec![expected.value.map(|value| value / factor), Some(expected.ours / factor)])
    };
    let groups = valued.iter().map(group).collect();
    let series = vec!["expected".to_owned(), "ours".to_owned()];
    Some(Bars { title: file.title().to_owned(), label: unit.to_owned(), series, groups }.svg())
}

fn over_sweep(asked: &Asked, file: &File, finished: &[Finished], expected: &[Expected]) -> Option<String> {
    let parameter = |parameters: &[(String, String)], name: &str| {
        parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    };
    // (number of the metric, value of `by`) -> x -> (sum, count): the mean over the seeds.
    type Sums = BTreeMap<(usize, String), Vec<(f64, f64, f64)>>;
    let (mut ours, mut paper): (Sums, Sums) = Default::default();
    let add = |sums: &mut Sums, key: (usize, String), x: f64, value: f64| {
        let points = sums.entry(key).or_default();
        match points.iter_mut().find(|point| point.0 == x) {
            Some(point) => (point.1, point.2) = (point.1 + value, point.2 + 1.0),
            None => points.push((x, value, 1.0)),
        }
    };
    for run in finished {
        let Some(x) = parameter(&run.parameters, &asked.x).as_deref().and_then(magnitude) else { continue };
        let by = asked.by.as_ref().and_then(|by| parameter(&run.parameters, by)).unwrap_or_default();
        for (i, (_, metric)) in asked.y.iter().enumerate() {
            if let Ok(value) = metric.value(&run.results) {
                add(&mut ours, (i, by.clone()), x, value);
            }
        }
    }
    for expected in expected {
        let Some(i) = asked.y.iter().position(|(_, metric)| metric.text() == expected.metric) else { continue };
        let Some(x) = parameter(&expected.at, &asked.x).as_deref().and_then(magnitude) else { continue };
        let by = asked.by.as_ref().and_then(|by| parameter(&expected.at, by)).unwrap_or_default();
        if let Some(value) = expected.value {
            add(&mut paper, (i, by), x, value);
        }
    }
    if ours.is_empty() {
        return None;
    }
    let unit = asked.y.first().map(|(_, metric)| metric.unit().to_string()).unwrap_or_default();
    let most = |sums: &Sums| sums.values().flatten().fold(0.0_f64, |most, point| most.max(point.1 / point.2));
    let (factor, unit) = scale(&unit, most(&ours).max(most(&paper)));
    let x_unit = x_unit(finished, &asked.x);
    let (x_factor, x_unit) = x_unit
        .map_or((1.0, ""), |unit| scale(unit, ours.values().flatten().fold(0.0_f64, |most, point| most.max(point.0))));
    let points = |sums: &[(f64, f64, f64)]| {
        let mut points: Vec<(f64, f64)> =
            sums.iter().map(|(x, sum, count)| (x / x_factor, sum / count / factor)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let mut lines = Vec::new();
    for ((i, by), sums) in &ours {
        let name = &asked.y[*i].0;
        let name = match (by.is_empty(), asked.y.len()) {
            (true, _) => name.clone(),
            (false, 1) => by.clone(),
            (false, _) => format!("{name}, {by}"),
        };
        let from_paper = paper.get(&(*i, by.clone()));
        lines.push(Line { name: name.clone(), points: points(sums), paper: false });
        lines.extend(from_paper.map(|sums| Line { name: format!("{name}, paper"), points: points(sums), paper: true }));
    }
    let with_unit = |label: &str, unit: &str| {
        if unit.is_empty() || label.contains(unit) { label.to_owned() } else { format!("{label} ({unit})") }
    };
    let title = if asked.title.is_empty() { file.title() } else { &asked.title };
    let y_label = if asked.y_label.is_empty() { &asked.y.first()?.0 } else { &asked.y_label };
    let x_label = if asked.x_label.is_empty() { &asked.x } else { &asked.x_label };
    let plot = Plot {
        title: title.to_owned(),
        x: Axis { label: with_unit(x_label, x_unit), log: asked.log_x },
        y: Axis { label: with_unit(y_label, unit), log: asked.log_y },
        lines,
    };
    Some(plot.svg())
}

/// A value of a sweep as a number: as it is, or in bit/s, seconds or bytes.
fn magnitude(text: &str) -> Option<f64> {
    let text = text.trim().trim_matches('"');
    if let Some(share) = text.strip_suffix('%').and_then(|share| share.trim().parse::<f64>().ok()) {
        return Some(share / 100.0);
    }
    let number = text.parse::<f64>().ok();
    let rate = || parse_rate(text).ok().map(|rate| rate.as_bits_per_sec() as f64);
    let span = || parse_span(text).ok().map(|span| span.as_secs_f64());
    let bytes = || parse_bytes(text).ok().map(|bytes| bytes.as_u64() as f64);
    number.or_else(rate).or_else(span).or_else(bytes)
}

/// The unit of the values of a swept parameter, if they have one.
fn x_unit(finished: &[Finished], parameter: &str) -> Option<&'static str> {
    let parameters = &finished.first()?.parameters;
    let text = parameters.iter().find(|(key, _)| key == parameter)?.1.trim().trim_matches('"');
    if text.parse::<f64>().is_ok() || text.ends_with('%') {
        None
    } else if parse_rate(text).is_ok() {
        Some("bit/s")
    } else if parse_span(text).is_ok() {
        Some("s")
    } else {
        parse_bytes(text).is_ok().then_some("bytes")
    }
}

/// The series of one run, those of one kind in one plot: `flow NAME window` of all flows, `link NAME queue` of all links.
pub(crate) fn over_time(results: &Results) -> Vec<String> {
    // (title, quantity, unit)
    type Kind = (String, String, String);
    let mut kinds: Vec<(Kind, Vec<&Series>)> = Vec::new();
    // A line along the bottom tells nothing: links that nobody used.
    for series in results.series.iter().filter(|series| series.values.iter().any(|value| *value != 0.0)) {
        let what = series.name.rsplit(' ').next().unwrap_or(&series.name);
        let whose = series.name.split(' ').next().unwrap_or_default();
        let kind = (format!("{whose}s: {what}"), what.to_owned(), series.unit.clone());
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, list)) => list.push(series),
            None => kinds.push((kind, vec![series])),
        }
    }
    kinds.into_iter().map(|((title, what, unit), series)| plot(results, &title, &what, &unit, &series)).collect()
}

fn plot(results: &Results, title: &str, what: &str, unit: &str, series: &[&Series]) -> String {
    let shown = &series[..series.len().min(MOST_LINES)];
    let title = match series.len() - shown.len() {
        0 => title.to_owned(),
        more => format!("{title} (the first {MOST_LINES}; {more} more in the files)"),
    };
    let most = shown.iter().flat_map(|series| &series.values).fold(0.0_f64, |most, value| most.max(value.abs()));
    let (factor, unit) = scale(unit, most);
    let line = |series: &&Series| {
        let name: Vec<&str> = series.name.split(' ').collect();
        let name = name.get(1..name.len() - 1).filter(|name| !name.is_empty()).map(|name| name.join(" "));
        let time = |i: usize| (i + 1) as f64 * results.series_interval_s;
        let points = series.values.iter().enumerate().map(|(i, value)| (time(i), value / factor)).collect();
        Line { name: name.unwrap_or_else(|| series.name.clone()), points, paper: false }
    };
    let lines = shown.iter().map(line).collect();
    let label = if unit.is_empty() { what.to_owned() } else { format!("{what} ({unit})") };
    let y = Axis { label, log: false };
    Plot { title, x: Axis { label: "time (s)".to_owned(), log: false }, y, lines }.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_sweep_are_numbers_in_base_units() {
        let read: Vec<Option<f64>> = ["3.8Mbit", "\"20ms\"", "25000B", "7", "40 %", "srr"].map(magnitude).into();
        assert_eq!(read, [Some(3.8e6), Some(0.02), Some(25_000.0), Some(7.0), Some(0.4), None]);
    }
}
