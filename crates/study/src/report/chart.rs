//! Which plots results get: what a file asks for over its points, and what it expects beside ours.

use super::axis::{quantity, scaled, spread_out};
use super::estimate::Sample;
use super::lines::{MOST_LINES, chosen, half_width, name, others, title, told, value_of};
use super::plot::{Axis, Bar, Bars, Line, Plot};
use super::text::scale;
use super::{cdf, timeline};
use crate::simulation::{Expected, Finished};
use fairspan_core::quantity::{parse_bytes, parse_rate, parse_span};
use fairspan_sim::scenario::{Content, File, Metric, Plot as Asked};

/// Groups of bars in one plot at most.
const MOST_BARS: usize = 40;

/// The plots that the file asks for; values that the file expects are drawn beside ours.
pub fn asked(file: &File, finished: &[Finished], expected: &[Expected]) -> Vec<String> {
    if file.plots().is_empty() {
        return beside(file, expected).into_iter().collect();
    }
    let drawn = file.plots().iter().filter_map(|asked| {
        let runs: Vec<&Finished> = finished.iter().filter(|run| asked.applies(&run.parameters)).collect();
        match &asked.content {
            Content::Swept { x, y } => over_sweep(asked, (x, y), file, &runs, expected),
            Content::Time(lines) => timeline::asked(asked, lines, file, &runs),
            Content::Distribution(lines) => cdf::plot(asked, lines, file, &runs),
        }
    });
    drawn.collect()
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

/// Which line: number of the metric, and what else is different from other lines.
type Key = (usize, String);
/// What came out along a line.
type Points = Vec<(Place, Sample)>;

/// The lines of a plot.
#[derive(Default)]
struct Samples(Vec<(Key, Points)>);

impl Samples {
    /// One more value at a place of a line; what is no number is no value.
    fn add(&mut self, key: Key, place: &Place, value: f64) {
        if !value.is_finite() {
            return;
        }
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

    /// Leaves [`MOST_LINES`] of the lines; how many there were.
    fn choose(&mut self) -> usize {
        let count = self.0.len();
        let mean = |line: &(Key, Points)| Sample::of(line.1.iter().map(|point| point.1.mean)).mean;
        let chosen = spread_out(&self.0.iter().map(mean).collect::<Vec<f64>>(), MOST_LINES);
        let mut place = 0;
        self.0.retain(|_| {
            place += 1;
            chosen.binary_search(&(place - 1)).is_ok()
        });
        count
    }
}

fn over_sweep(
    asked: &Asked,
    (x_name, y): (&str, &[(String, Metric)]),
    file: &File,
    finished: &[&Finished],
    expected: &[Expected],
) -> Option<String> {
    let xs: Vec<String> =
        finished.iter().filter_map(|run| Some(value_of(&run.parameters, x_name)?.to_owned())).collect();
    let policy = one_policy(&xs);
    let bare = |x: &str| x.trim().trim_matches('"').trim_start_matches(&policy).to_owned();
    let numbers = xs.iter().all(|x| magnitude(&bare(x)).is_some());
    let place = |parameters: &[(String, String)]| {
        let x = bare(value_of(parameters, x_name)?);
        Some(if numbers { Place::Number(magnitude(&x)?) } else { Place::Name(x) })
    };
    let others = others(file, finished, Some(x_name), asked.by.as_deref());
    let (mut ours, mut paper) = (Samples::default(), Samples::default());
    for run in finished {
        let Some(x) = place(&run.parameters) else { continue };
        for (i, (_, metric)) in y.iter().enumerate() {
            if let Ok(value) = metric.value(&run.results) {
                ours.add((i, told(&others, &run.parameters)), &x, value);
            }
        }
    }
    for expected in expected {
        let Some(i) = y.iter().position(|(_, metric)| metric.text() == expected.metric) else { continue };
        let Some(x) = place(&expected.at) else { continue };
        if let Some(value) = expected.value {
            paper.add((i, told(&others, &expected.at)), &x, value);
        }
    }
    if ours.0.is_empty() {
        return None;
    }
    ours.0.sort_by_key(|line| line.0.0);
    let count = ours.choose();
    let mut units: Vec<String> = y.iter().map(|(_, metric)| metric.unit().to_string()).collect();
    units.dedup();
    let most = ours.each().chain(paper.each()).fold(0.0_f64, |most, point| most.max(point.1.mean.abs()));
    // Values of different units are drawn as they are.
    let unit = if units.len() == 1 { units[0].as_str() } else { "" };
    let y_axis = scaled(&asked.y_label, &quantity(y.iter().map(|(_, metric)| metric.text())), unit, most);
    let factor = y_axis.factor;
    let name = |(i, at): &Key| {
        let name = name(&y[*i].0, y.len(), at);
        let own = y[*i].1.unit().to_string();
        if units.len() > 1 && !own.is_empty() { format!("{name} ({own})") } else { name }
    };
    let several = ours.each().any(|point| point.1.half_width().is_some_and(|half| half > 0.0));
    let interval = if several { "means and 95 % intervals" } else { "" };
    let title = title(asked, file, &[interval.to_owned(), chosen(count, MOST_LINES)]);
    if !numbers {
        return Some(bars(title, y_axis.label, factor, &ours, &paper, name));
    }
    let x_unit = xs.first().and_then(|x| x_unit(&bare(x))).unwrap_or_default();
    let number = |place: &Place| if let Place::Number(x) = place { *x } else { 0.0 };
    let x_most = ours.each().fold(0.0_f64, |most, point| most.max(number(&point.0)));
    let x_axis = scaled(&asked.x_label, x_name, x_unit, x_most);
    let line = |name: String, samples: &[(Place, Sample)], paper: bool| {
        let mut points: Vec<(f64, f64, f64)> = samples
            .iter()
            .map(|(x, sample)| (number(x) / x_axis.factor, sample.mean / factor, half_width(sample) / factor))
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
    let plot = Plot {
        title,
        x: Axis { label: x_axis.label, log: asked.log_x },
        y: Axis { label: y_axis.label, log: asked.log_y },
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
            error: sample.map_or(0.0, |sample| half_width(&sample) / factor),
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
            ours.add((0, String::new()), &place("brr:12ms"), f64::NAN);
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
    fn of_too_many_lines_the_extremes_are_among_those_that_remain() {
        let mut samples = Samples::default();
        for n in 0..50 {
            samples.add((0, n.to_string()), &Place::Number(1.0), f64::from((n * 7) % 50));
        }
        assert_eq!(samples.choose(), 50);
        let left: Vec<f64> = samples.each().map(|point| point.1.mean).collect();
        assert!(left.len() == MOST_LINES && left.contains(&0.0) && left.contains(&49.0), "{left:?}");
    }

    #[test]
    fn values_of_a_sweep_are_numbers_in_base_units() {
        let read: Vec<Option<f64>> = ["3.8Mbit", "\"20ms\"", "25000B", "7", "40 %", "srr"].map(magnitude).into();
        assert_eq!(read, [Some(3.8e6), Some(0.02), Some(25_000.0), Some(7.0), Some(0.4), None]);
    }
}
