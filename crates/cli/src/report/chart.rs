//! Which plots results get: what a file asks for over its points, and series over time.

use super::estimate::Sample;
use super::plot::{Axis, Bar, Bars, Line, Plot};
use super::text::scale;
use crate::simulation::{Expected, Finished};
use fairspan_core::quantity::{parse_bytes, parse_rate, parse_span};
use fairspan_sim::results::{Results, Series};
use fairspan_sim::scenario::{File, Plot as Asked};

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
        (name, vec![Bar::of(expected.value.map(|value| value / factor)), Bar::of(Some(expected.ours / factor))])
    };
    let groups = valued.iter().map(group).collect();
    let series = vec!["expected".to_owned(), "ours".to_owned()];
    Some(Bars { title: file.title().to_owned(), label: unit.to_owned(), series, groups }.svg())
}

/// Where a value of the swept parameter stands: as a number, or as the n-th of names.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    Number(f64),
    Name(String),
}

/// Which line: number of the metric, value of `by`.
type Key = (usize, String);
/// What came out along a line.
type Points = Vec<(Place, Sample)>;

/// The lines of a plot.
#[derive(Default)]
struct Samples(Vec<(Key, Points)>);

impl Samples {
    fn add(&mut self, key: Key, place: &Place, value: f64) {
        let points = match self.0.iter_mut().find(|line| line.0 == key) {
            Some(line) => &mut line.1,
            None => {
                self.0.push((key, Vec::new()));
                &mut self.0.last_mut().expect("pushed").1
            }
        };
        match points.iter_mut().find(|point| point.0 == *place) {
            Some(point) => point.1.add(value),
            None => {
                let mut sample = Sample::default();
                sample.add(value);
                points.push((place.clone(), sample));
            }
        }
    }

    fn each(&self) -> impl Iterator<Item = &(Place, Sample)> {
        self.0.iter().flat_map(|line| &line.1)
    }

    fn of(&self, key: &Key) -> Option<&[(Place, Sample)]> {
        self.0.iter().find(|line| line.0 == *key).map(|line| line.1.as_slice())
    }
}

fn over_sweep(asked: &Asked, file: &File, finished: &[Finished], expected: &[Expected]) -> Option<String> {
    let parameter = |parameters: &[(String, String)], name: &str| {
        parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    };
    let xs: Vec<String> = finished.iter().filter_map(|run| parameter(&run.parameters, &asked.x)).collect();
    let policy = one_policy(&xs);
    let bare = |x: &str| x.trim().trim_matches('"').trim_start_matches(&policy).to_owned();
    let numbers = xs.iter().all(|x| magnitude(&bare(x)).is_some());
    let place = |parameters: &[(String, String)]| {
        let x = bare(&parameter(parameters, &asked.x)?);
        Some(if numbers { Place::Number(magnitude(&x)?) } else { Place::Name(x) })
    };
    let (mut ours, mut paper) = (Samples::default(), Samples::default());
    for run in finished {
        let Some(x) = place(&run.parameters) else { continue };
        let by = asked.by.as_ref().and_then(|by| parameter(&run.parameters, by)).unwrap_or_default();
        for (i, (_, metric)) in asked.y.iter().enumerate() {
            if let Ok(value) = metric.value(&run.results) {
                ours.add((i, by.clone()), &x, value);
            }
        }
    }
    for expected in expected {
        let Some(i) = asked.y.iter().position(|(_, metric)| metric.text() == expected.metric) else { continue };
        let Some(x) = place(&expected.at) else { continue };
        let by = asked.by.as_ref().and_then(|by| parameter(&expected.at, by)).unwrap_or_default();
        if let Some(value) = expected.value {
            paper.add((i, by), &x, value);
        }
    }
    if ours.0.is_empty() {
        return None;
    }
    ours.0.sort_by_key(|line| line.0.0);
    let unit = asked.y.first().map(|(_, metric)| metric.unit().to_string()).unwrap_or_default();
    let most = ours.each().chain(paper.each()).fold(0.0_f64, |most, point| most.max(point.1.mean));
    let (factor, unit) = scale(&unit, most);
    let name = |(i, by): &Key| {
        let (metric, by) = (&asked.y[*i].0, by.trim_matches('"'));
        match (by.is_empty(), asked.y.len()) {
            (true, _) => metric.clone(),
            (false, 1) => by.to_owned(),
            (false, _) => format!("{metric}, {by}"),
        }
    };
    let with_unit = |label: &str, unit: &str| {
        if unit.is_empty() || label.contains(unit) { label.to_owned() } else { format!("{label} ({unit})") }
    };
    let title = if asked.title.is_empty() { file.title() } else { &asked.title };
    let spread = ours.each().any(|point| point.1.deviation() > 0.0);
    let title = if spread { format!("{title} (± standard deviation)") } else { title.to_owned() };
    let y_label = if asked.y_label.is_empty() { &asked.y.first()?.0 } else { &asked.y_label };
    let y_label = with_unit(y_label, unit);
    if !numbers {
        return Some(bars(title, y_label, factor, &ours, &paper, name));
    }
    let x_unit = xs.first().and_then(|x| x_unit(&bare(x)));
    let number = |place: &Place| if let Place::Number(x) = place { *x } else { 0.0 };
    let (x_factor, x_unit) = x_unit
        .map_or((1.0, ""), |unit| scale(unit, ours.each().fold(0.0_f64, |most, point| most.max(number(&point.0)))));
    let line = |name: String, samples: &[(Place, Sample)], paper: bool| {
        let mut points: Vec<(f64, f64, f64)> = samples
            .iter()
            .map(|(x, sample)| (number(x) / x_factor, sample.mean / factor, sample.deviation() / factor))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let errors = points.iter().map(|point| point.2).collect();
        Line { name, points: points.into_iter().map(|point| (point.0, point.1)).collect(), errors, paper }
    };
    let mut lines = Vec::new();
    for (key, samples) in &ours.0 {
        lines.push(line(name(key), samples, false));
        lines.extend(paper.of(key).map(|samples| line(format!("{}, paper", name(key)), samples, true)));
    }
    let x_label = if asked.x_label.is_empty() { &asked.x } else { &asked.x_label };
    let plot = Plot {
        title,
        x: Axis { label: with_unit(x_label, x_unit), log: asked.log_x },
        y: Axis { label: y_label, log: asked.log_y },
        lines,
    };
    Some(plot.svg())
}

/// A group of bars for each value of a parameter whose values are names.
fn bars(
    title: String,
    label: String,
    factor: f64,
    ours: &Samples,
    paper: &Samples,
    name: impl Fn(&Key) -> String,
) -> String {
    let lines = || {
        ours.0.iter().flat_map(|(key, samples)| {
            let theirs = paper.of(key).map(|theirs| (format!("{}, paper", name(key)), theirs));
            [Some((name(key), samples.as_slice())), theirs].into_iter().flatten()
        })
    };
    let mut places: Vec<&Place> = Vec::new();
    for (place, _) in ours.each() {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let bar = |samples: &[(Place, Sample)], place: &Place| {
        let sample = samples.iter().find(|sample| sample.0 == *place).map(|sample| sample.1);
        Bar {
            value: sample.map(|sample| sample.mean / factor),
            error: sample.map_or(0.0, |sample| sample.deviation() / factor),
        }
    };
    let group = |place: &&Place| {
        let name = if let Place::Name(name) = place { name.clone() } else { String::new() };
        (name, lines().map(|(_, samples)| bar(samples, place)).collect())
    };
    let groups = places.iter().take(MOST_BARS).map(group).collect();
    Bars { title, label, series: lines().map(|line| line.0).collect(), groups }.svg()
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

/// The unit that a value of a swept parameter has.
fn x_unit(text: &str) -> Option<&'static str> {
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

/// `NAME:` where the values are one policy with different values of its first option: `brr:4ms`, `brr:8ms`.
fn one_policy(values: &[String]) -> String {
    let bare = |value: &String| value.trim().trim_matches('"').split_once(':').map(|(name, _)| format!("{name}:"));
    let first = values.first().and_then(bare).unwrap_or_default();
    if values.iter().all(|value| bare(value).as_ref() == Some(&first)) { first } else { String::new() }
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
        Line { name: name.unwrap_or_else(|| series.name.clone()), points, errors: vec![], paper: false }
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
    fn one_policy_with_different_thresholds_is_an_axis_of_thresholds() {
        let all = |values: &[&str]| one_policy(&values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>());
        assert_eq!(all(&["brr:4ms", "\"brr:24ms\""]), "brr:");
        assert_eq!(all(&["brr:4ms", "flowlet:4ms"]), "");
        assert_eq!(all(&["brr:4ms", "balance-rr"]), "");
        assert_eq!(all(&["4ms"]), "");
    }

    #[test]
    fn a_sweep_over_names_is_drawn_as_bars_with_the_papers_beside_them() {
        let (mut ours, mut paper) = (Samples::default(), Samples::default());
        let place = |name: &str| Place::Name(name.into());
        for value in [2.0, 4.0] {
            ours.add((0, String::new()), &place("balance-rr"), value);
            ours.add((0, String::new()), &place("brr:12ms"), value + 1.0);
        }
        paper.add((0, String::new()), &place("balance-rr"), 3.5);
        let svg = bars("t".into(), "y".into(), 1.0, &ours, &paper, |_| "reordered".into());
        // Two of ours, one of the paper's, two samples in the legend.
        assert_eq!(svg.matches("<rect class=\"f").count(), 5, "{svg}");
        assert_eq!(svg.matches("class=\"error\"").count(), 2);
        for text in [">balance-rr<", ">brr:12ms<", ">reordered, paper<", ">3<", ">3.5<", ">4<"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
    }

    #[test]
    fn values_of_a_sweep_are_numbers_in_base_units() {
        let read: Vec<Option<f64>> = ["3.8Mbit", "\"20ms\"", "25000B", "7", "40 %", "srr"].map(magnitude).into();
        assert_eq!(read, [Some(3.8e6), Some(0.02), Some(25_000.0), Some(7.0), Some(0.4), None]);
    }
}
