//! Plots as SVG: lines over an axis, and bars beside each other.
//!
//! A plot stands alone as a file or inside a page; its colours follow the reader's light or dark setting. Nothing is
//! fetched, no script runs.
//!
//! Why this is ours, and no library: two kinds of plots are needed, as text, in a page that stands alone, the same bytes from
//! the same results. `plotters` writes fixed colours into each element, so that a page cannot turn them dark, and brings a
//! dozen crates (its axes are for bitmaps, windows and dates as well). `charming` describes a plot for ECharts: a megabyte of
//! script in each page, or a JavaScript engine in this program.

use super::words::{escape, short};
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 38.0;
const BOTTOM: f64 = 52.0;
/// More points of a line than this are thinned out to the extremes of each stretch.
const MOST_POINTS: usize = 1500;
/// A line of more points than this is drawn without dots.
const MOST_DOTS: usize = 30;
/// What a legend's entry takes.
const LEGEND_LINE: f64 = 20.0;

/// Colours that can be told apart, on white and on black, by most eyes (after Okabe and Ito).
pub const STYLE: &str = "\
.plot{font:13px system-ui,sans-serif;--ink:#1b1b1f;--faint:#d9d9de;--paper:#fff;\
--c0:#0067a5;--c1:#c44e00;--c2:#00806a;--c3:#a8417d;--c4:#8a6d00;--c5:#3f8fc7;--c6:#7d4fc4;--c7:#5b5b66}\
@media(prefers-color-scheme:dark){.plot{--ink:#e6e6ea;--faint:#3a3a42;--paper:#17171a;\
--c0:#5cb3ee;--c1:#ff9351;--c2:#3fd0b2;--c3:#ec8cc3;--c4:#e2c044;--c5:#93cdf6;--c6:#b79af0;--c7:#a5a5b0}}\
.plot .back{fill:var(--paper)}.plot text{fill:var(--ink)}.plot .title{font-weight:600;font-size:15px}\
.plot .grid{stroke:var(--faint);stroke-width:1;fill:none}.plot .axis{stroke:var(--ink);stroke-width:1;fill:none}\
.plot .line{fill:none;stroke-width:2;stroke-linejoin:round}.plot .paper{stroke-dasharray:6 4}\
.plot .s0{stroke:var(--c0)}.plot .s1{stroke:var(--c1)}.plot .s2{stroke:var(--c2)}.plot .s3{stroke:var(--c3)}\
.plot .s4{stroke:var(--c4)}.plot .s5{stroke:var(--c5)}.plot .s6{stroke:var(--c6)}.plot .s7{stroke:var(--c7)}\
.plot .f0{fill:var(--c0)}.plot .f1{fill:var(--c1)}.plot .f2{fill:var(--c2)}.plot .f3{fill:var(--c3)}\
.plot .error{stroke:var(--ink);stroke-width:1;fill:none}.plot .band{fill-opacity:.18}\
.plot .f4{fill:var(--c4)}.plot .f5{fill:var(--c5)}.plot .f6{fill:var(--c6)}.plot .f7{fill:var(--c7)}";

/// One axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What, and its unit.
    pub label: String,
    /// Logarithmic; values that are not positive are left out then.
    pub log: bool,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// For the legend.
    pub name: String,
    /// Its points, x ascending.
    pub points: Vec<(f64, f64)>,
    /// How far the value at the point of the same place may be off, up and down; empty: not known of any. Drawn at each point,
    /// or as a band where there are many.
    pub errors: Vec<f64>,
    /// A value of a paper: dashed, in the colour of the line before it.
    pub paper: bool,
}

/// A plot of lines.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// What is in it.
    pub lines: Vec<Line>,
}

/// One bar.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// Its length; `None`: no such value.
    pub value: Option<f64>,
    /// How far that may be off, up and down; zero: not known, or not at all.
    pub error: f64,
}

impl Bar {
    /// A bar that nothing is known about but its length.
    pub fn of(value: Option<f64>) -> Bar {
        Bar { value, error: 0.0 }
    }

    /// How far its error reaches.
    fn ends(self) -> impl Iterator<Item = f64> {
        self.value.into_iter().flat_map(move |value| [value - self.error, value + self.error])
    }
}

/// A plot of bars in groups, lying.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// What the bars' length is, and its unit.
    pub label: String,
    /// What each bar of a group is, for the legend.
    pub series: Vec<String>,
    /// Name of each group, and its bars.
    pub groups: Vec<(String, Vec<Bar>)>,
}

/// From values to places.
struct Scale {
    log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// A scale that holds `values` between two ticks, and 0 where that is not far.
    fn new(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && (!log || *value > 0.0)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        let ticks = if log { log_ticks(&mut low, &mut high) } else { even_ticks(&mut low, &mut high) };
        Scale { log, low, high, from, to, ticks }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let share = if self.log {
            if value <= 0.0 {
                return None;
            }
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.is_finite().then_some(self.from + share * (self.to - self.from))
    }
}

/// Ticks at 1, 2 or 5 times a power of ten; the ends are moved to ticks.
fn even_ticks(low: &mut f64, high: &mut f64) -> Vec<f64> {
    if *low > 0.0 && *low < 0.6 * *high {
        *low = 0.0;
    }
    if *high - *low <= 1e-12 * high.abs().max(1e-300) {
        // All the same: room above and below.
        let room = if *high == 0.0 { 1.0 } else { high.abs() / 10.0 };
        (*low, *high) = (*low - room, *high + room);
    }
    let raw = (*high - *low) / 6.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= raw).unwrap_or(raw);
    *low = (*low / step + 1e-9).floor() * step;
    *high = (*high / step - 1e-9).ceil() * step;
    let count = ((*high - *low) / step).round() as usize;
    // A multiple of the step, not a sum of steps: 0 is 0.
    (0..=count.min(20)).map(|i| ((*low / step).round() + i as f64) * step).collect()
}

fn log_ticks(low: &mut f64, high: &mut f64) -> Vec<f64> {
    if *high <= *low {
        (*low, *high) = ((*low / 2.0).max(f64::MIN_POSITIVE.min(*low)), (*high * 2.0).min(f64::MAX));
    }
    let decades = (*high / *low).log10();
    let steps: &[f64] = if decades < 1.5 {
        &[1.0, 2.0, 3.0, 5.0]
    } else if decades < 4.0 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let (first, last) = (low.log10().floor() as i32, (high.log10().ceil() as i32).min(f64::MAX_10_EXP));
    let all: Vec<f64> =
        (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power))).collect();
    *low = all.iter().copied().rfind(|tick| *tick <= *low * 1.000_001).unwrap_or(*low);
    *high = all.iter().copied().find(|tick| *tick >= *high / 1.000_001).unwrap_or(*high);
    all.into_iter().filter(|tick| (*low..=*high).contains(tick)).collect()
}

/// At most [`MOST_POINTS`] points with the least and the greatest value of each stretch.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(MOST_POINTS / 2);
    let mut kept = Vec::with_capacity(MOST_POINTS + 2);
    for chunk in points.chunks(stretch) {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (chunk.iter().min_by(by), chunk.iter().max_by(by)) else { continue };
        kept.extend(if low.0 <= high.0 { [*low, *high] } else { [*high, *low] });
    }
    kept
}

/// Names in rows below the plot: (x, row), and how many rows.
fn legend(names: &[&str]) -> (Vec<(f64, usize)>, usize) {
    let (mut x, mut row) = (LEFT, 0);
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        // 13 px sans-serif: about 7 px a character, and the sample.
        let width = 44.0 + 7.0 * name.chars().count() as f64;
        if x + width > WIDTH - RIGHT && x > LEFT {
            (x, row) = (LEFT, row + 1);
        }
        places.push((x, row));
        x += width;
    }
    (places, row + 1)
}

fn head(svg: &mut String, title: &str, height: f64) {
    let title = escape(title);
    let _ = write!(
        svg,
        "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"{title}\"><style>{STYLE}</style><rect class=\"back\" width=\"{WIDTH}\" height=\"{height:.0}\"/>\
         <text class=\"title\" x=\"{LEFT}\" y=\"22\">{title}</text>"
    );
}

impl Plot {
    /// As a document of its own, or part of a page.
    pub fn svg(&self) -> String {
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        let (places, rows) = legend(&names);
        let height = HEIGHT + LEGEND_LINE * rows as f64;
        let mut svg = String::new();
        head(&mut svg, &self.title, height);
        let values = || self.lines.iter().flat_map(|line| &line.points);
        let errors = self.lines.iter().flat_map(|line| line.points.iter().zip(&line.errors));
        let ends =
            errors.filter(|(_, error)| **error > 0.0).flat_map(|(point, error)| [point.1 - error, point.1 + error]);
        // A logarithmic axis has no place for what the other one is drawn over.
        let x = &Scale::new(values().map(|point| point.0), self.x.log, LEFT, WIDTH - RIGHT);
        let y = &Scale::new(values().map(|point| point.1).chain(ends), self.y.log, HEIGHT - BOTTOM, TOP);
        let (top, bottom) = (TOP, HEIGHT - BOTTOM);
        for &tick in &x.ticks {
            let Some(at) = x.place(tick) else { continue };
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {top}V{bottom}\"/><text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                short(tick)
            );
        }
        for &tick in &y.ticks {
            let Some(at) = y.place(tick) else { continue };
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.0}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                short(tick)
            );
        }
        let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {top}V{bottom}H{:.0}\"/>", WIDTH - RIGHT);
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        let _ = write!(
            svg,
            "<text x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(16 {:.0}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            bottom + 38.0,
            escape(&self.x.label),
            (top + bottom) / 2.0,
            escape(&self.y.label)
        );
        let mut colour = 0;
        for (i, (line, (legend_x, row))) in self.lines.iter().zip(places).enumerate() {
            if i > 0 && !line.paper {
                colour = (colour + 1) % 8;
            }
            line.draw(&mut svg, x, y, colour);
            let at = HEIGHT + LEGEND_LINE * row as f64 + 6.0;
            let class = if line.paper { " paper" } else { "" };
            let _ = write!(
                svg,
                "<path class=\"line s{colour}{class}\" d=\"M{legend_x:.0} {at:.0}h24\"/><text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                legend_x + 30.0,
                at + 4.0,
                escape(&line.name)
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

/// The path through these places.
fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (i, (px, py)) in places.enumerate() {
        let _ = write!(path, "{}{px:.1} {py:.1}", if i == 0 { 'M' } else { 'L' });
    }
    path
}

impl Line {
    fn draw(&self, svg: &mut String, x: &Scale, y: &Scale, colour: usize) {
        let inside = |(px, py): (f64, f64)| x.place(px).zip(y.place(py));
        let places: Vec<(f64, f64)> = thinned(&self.points).into_iter().filter_map(inside).collect();
        let class = if self.paper { " paper" } else { "" };
        let many = places.len() > MOST_DOTS;
        if many && self.errors.iter().any(|error| *error > 0.0) {
            let edge = |sign: f64| {
                let moved =
                    self.points.iter().zip(&self.errors).map(|(point, error)| (point.0, point.1 + sign * error));
                thinned(&moved.collect::<Vec<_>>()).into_iter().filter_map(inside).collect::<Vec<_>>()
            };
            let outline = path(edge(1.0).into_iter().chain(edge(-1.0).into_iter().rev()));
            let _ = write!(svg, "<path class=\"band f{colour}\" d=\"{outline}Z\"/>");
        }
        if places.len() > 1 {
            let path = path(places.iter().copied());
            let _ = write!(svg, "<path class=\"line s{colour}{class}\" d=\"{path}\"/>");
        }
        if many {
            return;
        }
        // A scale runs from the bottom to the top.
        let bottom = y.from;
        for ((px, py), error) in self.points.iter().zip(&self.errors).filter(|(_, error)| **error > 0.0) {
            let ends = y.place(py - error).unwrap_or(bottom).min(bottom);
            let Some(((at, low), high)) = x.place(*px).zip(Some(ends)).zip(y.place(py + error)) else {
                continue;
            };
            let (left, right) = (at - 4.0, at + 4.0);
            let _ = write!(
                svg,
                "<path class=\"s{colour}\" fill=\"none\" d=\"M{at:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}H{right:.1}M{left:.1} {high:.1}H{right:.1}\"/>"
            );
        }
        for (px, py) in &places {
            let _ = write!(svg, "<circle class=\"f{colour}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\"/>");
        }
    }
}

impl Bars {
    /// As a document of its own, or part of a page.
    pub fn svg(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(String::as_str).collect();
        let (places, rows) = legend(&names);
        let longest = self.groups.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let left = (24.0 + 7.2 * longest as f64).clamp(LEFT, WIDTH / 2.0);
        let bar = 15.0;
        let group = bar * self.series.len() as f64 + 12.0;
        let bottom = TOP + group * self.groups.len() as f64;
        let height = bottom + BOTTOM + LEGEND_LINE * rows as f64;
        let mut svg = String::new();
        head(&mut svg, &self.title, height);
        let values = self.groups.iter().flat_map(|(_, bars)| bars.iter().flat_map(|bar| bar.ends()));
        // A bar's length means something only from 0.
        let scale = Scale::new(values.chain([0.0]), false, left, WIDTH - RIGHT - 44.0);
        for &tick in &scale.ticks {
            let Some(at) = scale.place(tick) else { continue };
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                short(tick)
            );
        }
        let zero = scale.place(0.0).unwrap_or(left);
        for (i, (name, bars)) in self.groups.iter().enumerate() {
            let top = TOP + group * i as f64 + 6.0;
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                top + (group - 12.0) / 2.0 + 4.0,
                escape(name)
            );
            for (j, lying) in bars.iter().enumerate() {
                let Some((value, end)) = lying.value.and_then(|value| Some((value, scale.place(value)?))) else {
                    continue;
                };
                let y = top + bar * j as f64;
                let mut beyond = end.max(zero);
                let _ = write!(
                    svg,
                    "<rect class=\"f{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    j % 8,
                    zero.min(end),
                    (end - zero).abs().max(1.0),
                    bar - 2.0
                );
                let ends = scale.place(value - lying.error).zip(scale.place(value + lying.error));
                if let Some((low, high)) = ends.filter(|_| lying.error > 0.0) {
                    let (upper, middle, lower) = (y + 2.0, y + (bar - 2.0) / 2.0, y + bar - 4.0);
                    beyond = beyond.max(high);
                    let _ = write!(
                        svg,
                        "<path class=\"error\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {upper:.1}V{lower:.1}M{high:.1} {upper:.1}V{lower:.1}\"/>"
                    );
                }
                let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", beyond + 5.0, y + 11.0, short(value));
            }
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{zero:.1} {TOP}V{bottom:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (left + WIDTH - RIGHT) / 2.0,
            bottom + 38.0,
            escape(&self.label)
        );
        for (j, (name, (x, row))) in self.series.iter().zip(places).enumerate() {
            let at = bottom + BOTTOM + LEGEND_LINE * row as f64;
            let _ = write!(
                svg,
                "<rect class=\"f{}\" x=\"{x:.0}\" y=\"{at:.1}\" width=\"20\" height=\"11\"/><text x=\"{:.0}\" y=\"{:.1}\">{}</text>",
                j % 8,
                x + 28.0,
                at + 10.0,
                escape(name)
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let (mut low, mut high) = (3.8, 26.0);
        assert_eq!(even_ticks(&mut low, &mut high), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        let (mut low, mut high) = (0.998, 1.0);
        let ticks = even_ticks(&mut low, &mut high);
        assert!(low <= 0.998 && high >= 1.0 && ticks.len() > 2, "{ticks:?}");
        let (mut low, mut high) = (0.0001, 0.8);
        assert_eq!(log_ticks(&mut low, &mut high).len(), 13, "1, 2, 5 of four decades");
    }

    proptest! {
        #[test]
        fn any_numbers_make_a_plot_whose_places_are_inside_it(
            points in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..50),
            errors in proptest::collection::vec(any::<f64>(), 0..50), log_x: bool, log_y: bool
        ) {
            let axis = |log| Axis { label: "<x> & y".into(), log };
            let plot = Plot {
                title: "a \"title\"".into(), x: axis(log_x), y: axis(log_y),
                lines: vec![Line { name: "one".into(), points, errors, paper: false }],
            };
            let svg = plot.svg();
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            prop_assert!(svg.contains("&lt;x&gt; &amp; y") && svg.ends_with("</svg>"));
            for part in svg.split("cx=\"").skip(1) {
                let x: f64 = part.split('"').next().unwrap().parse().unwrap();
                prop_assert!((LEFT - 0.1..=WIDTH - RIGHT + 0.1).contains(&x), "{x}");
            }
        }
    }

    #[test]
    fn the_extremes_of_what_a_number_can_be_make_a_plot_too() {
        let least = f64::from_bits(1);
        let values = [least, f64::MIN_POSITIVE, 1.0, f64::MAX / 2.0, f64::MAX, -f64::MAX, 0.0, -least];
        for (first, second) in values.iter().flat_map(|&first| values.iter().map(move |&second| (first, second))) {
            for log in [false, true] {
                let axis = || Axis { label: "x".into(), log };
                let points = vec![(first, second), (second, first)];
                let lines = vec![Line { name: "one".into(), points, errors: vec![second, first], paper: false }];
                let svg = Plot { title: "all".into(), x: axis(), y: axis(), lines }.svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{first:e} {second:e} {log}: {svg}");
            }
        }
    }

    #[test]
    fn a_long_series_keeps_its_extremes() {
        let points: Vec<(f64, f64)> =
            (0..100_000).map(|i| (f64::from(i), if i == 77_777 { 9.0 } else { 1.0 })).collect();
        let kept = thinned(&points);
        assert!(kept.len() <= MOST_POINTS + 2 && kept.contains(&(77_777.0, 9.0)));
        assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn errors_of_many_points_are_a_band_and_of_few_points_bars() {
        let plot = |count: u32| {
            let points = (0..count).map(|n| (f64::from(n), 5.0)).collect();
            let line = Line { name: "one".into(), points, errors: vec![1.0; count as usize], paper: false };
            let axis = || Axis { label: "x".into(), log: false };
            Plot { title: "t".into(), x: axis(), y: axis(), lines: vec![line] }.svg()
        };
        let (few, many) = (plot(5), plot(200));
        assert_eq!((few.matches("class=\"band").count(), few.matches("fill=\"none\"").count()), (0, 5));
        assert_eq!((many.matches("class=\"band").count(), many.matches("fill=\"none\"").count()), (1, 0));
    }

    #[test]
    fn bars_begin_at_zero_and_a_missing_one_is_left_out() {
        let bars = Bars {
            title: "Table".into(),
            label: "Mbit/s".into(),
            series: vec!["paper".into(), "ours".into()],
            groups: vec![
                ("srr".into(), vec![Bar::of(Some(19.1)), Bar { value: Some(18.0), error: 0.5 }]),
                ("rr".into(), vec![Bar::of(Some(11.8)), Bar::of(None)]),
            ],
        };
        let svg = bars.svg();
        // Three bars and the legend's two samples.
        assert_eq!(svg.matches("<rect class=\"f").count(), 5);
        assert!(svg.contains(">19.1<") && svg.contains(">11.8<"));
        assert_eq!(svg.matches("class=\"error\"").count(), 1, "one of them has an error");
    }
}
