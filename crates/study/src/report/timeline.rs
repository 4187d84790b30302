//! Series over time: those of one run, and those that a file asks for, as means over the seeds.

use super::axis::{quantity, scaled, spread_out};
use super::estimate::Sample;
use super::lines::{MOST_LINES, chosen, half_width, name, others, title, told};
use super::plot::{Axis, Line, Plot};
use super::text::scale;
use crate::simulation::Finished;
use fairspan_sim::results::{Results, Series};
use fairspan_sim::scenario::{File, Plot as Asked, SeriesName};

/// Lines in a plot that nobody asked for, at most: as many as can be told apart by colour.
const MOST_UNASKED: usize = 8;

/// The series of one run, those of one kind in one plot: `flow NAME window` of all flows, `link NAME queue` of all links.
pub(super) fn of_run(results: &Results) -> Vec<String> {
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

fn mean(series: &Series) -> f64 {
    Sample::of(series.values.iter().copied()).mean
}

/// The name of a series' flow, link or other thing.
fn whose(series: &Series) -> String {
    let words: Vec<&str> = series.name.split(' ').collect();
    let name = words.get(1..words.len().saturating_sub(1)).filter(|name| !name.is_empty());
    name.map_or_else(|| series.name.clone(), |name| name.join(" "))
}

fn plot(results: &Results, title: &str, what: &str, unit: &str, series: &[&Series]) -> String {
    let means: Vec<f64> = series.iter().map(|series| mean(series)).collect();
    let shown: Vec<&Series> = spread_out(&means, MOST_UNASKED).into_iter().map(|place| series[place]).collect();
    let note = chosen(series.len(), MOST_UNASKED);
    let title = if note.is_empty() { title.to_owned() } else { format!("{title} ({note})") };
    let most = shown.iter().flat_map(|series| &series.values).fold(0.0_f64, |most, value| most.max(value.abs()));
    let (factor, unit) = scale(unit, most);
    let line = |series: &&Series| {
        let time = |i: usize| (i + 1) as f64 * results.series_interval_s;
        let points = series.values.iter().enumerate().map(|(i, value)| (time(i), value / factor)).collect();
        Line { name: whose(series), points, errors: vec![], paper: false }
    };
    let lines = shown.iter().map(line).collect();
    let label = if unit.is_empty() { what.to_owned() } else { format!("{what} ({unit})") };
    let y = Axis { label, log: false };
    Plot { title, x: Axis { label: "time (s)".to_owned(), log: false }, y, lines }.svg()
}

/// A line over time, a sample of seeds at each point.
struct Track {
    /// Number of the file's line, the series' name, where.
    key: (usize, String, String),
    unit: String,
    interval: f64,
    points: Vec<Sample>,
}

impl Track {
    fn add(&mut self, series: &Series) {
        if self.points.len() < series.values.len() {
            self.points.resize(series.values.len(), Sample::default());
        }
        self.points.iter_mut().zip(&series.values).for_each(|(point, value)| point.add(*value));
    }
}

/// A plot that a file asks for; `None` where the runs have no such series.
pub(super) fn asked(asked: &Asked, lines: &[(String, SeriesName)], file: &File, runs: &[&Finished]) -> Option<String> {
    let others = others(file, runs, None, asked.by.as_deref());
    let mut tracks: Vec<Track> = Vec::new();
    for run in runs {
        let at = told(&others, &run.parameters);
        for (number, (_, wanted)) in lines.iter().enumerate() {
            for series in run.results.series.iter().filter(|series| wanted.is(series)) {
                let key = (number, series.name.clone(), at.clone());
                let place = tracks.iter().position(|track| track.key == key).unwrap_or_else(|| {
                    let (unit, interval) = (series.unit.clone(), run.results.series_interval_s);
                    tracks.push(Track { key, unit, interval, points: Vec::new() });
                    tracks.len() - 1
                });
                tracks[place].add(series);
            }
        }
    }
    let means: Vec<f64> =
        tracks.iter().map(|track| Sample::of(track.points.iter().map(|point| point.mean)).mean).collect();
    let count = tracks.len();
    let shown: Vec<&Track> = spread_out(&means, MOST_LINES).into_iter().map(|place| &tracks[place]).collect();
    let unit = shown.first()?.unit.clone();
    let unit = if shown.iter().all(|track| track.unit == unit) { unit } else { String::new() };
    let each = || shown.iter().flat_map(|track| &track.points);
    let most = each().fold(0.0_f64, |most, point| most.max(point.mean.abs()));
    let y = scaled(&asked.y_label, &quantity(lines.iter().map(|(_, wanted)| wanted.text())), &unit, most);
    let line = |track: &&Track| {
        let (number, series, at) = &track.key;
        let (own, wanted) = &lines[*number];
        // A pattern's lines are told apart by what they are of.
        let words: Vec<&str> = series.split(' ').collect();
        let whose = words.get(1..words.len().saturating_sub(1)).unwrap_or_default().join(" ");
        let what = match (wanted.text().contains('*'), own == wanted.text()) {
            (true, true) => whose,
            (true, false) => format!("{own} {whose}"),
            (false, _) => own.clone(),
        };
        let several = shown.iter().any(|other| (&other.key.0, &other.key.1) != (number, series));
        Line {
            name: name(&what, if several { 2 } else { 1 }, at),
            points: (0..track.points.len())
                .map(|i| ((i + 1) as f64 * track.interval, track.points[i].mean / y.factor))
                .collect(),
            errors: track.points.iter().map(|point| half_width(point) / y.factor).collect(),
            paper: false,
        }
    };
    let interval = if each().any(|point| half_width(point) > 0.0) { "means and 95 % intervals" } else { "" };
    let title = title(asked, file, &[interval.to_owned(), chosen(count, MOST_LINES)]);
    let x_label = if asked.x_label.is_empty() { "time (s)" } else { &asked.x_label };
    let x = Axis { label: x_label.to_owned(), log: asked.log_x };
    let lines = shown.iter().map(line).collect();
    Some(Plot { title, x, y: Axis { label: y.label, log: asked.log_y }, lines }.svg())
}
