//! What a link can carry as a function of time: a constant rate, a measured series, or a Mahimahi trace.
//!
//! Source: Winstein et al., "Sprout", NSDI 2013, for the trace format (mahimahi's mm-link): one integer millisecond
//! a line, each line one opportunity to deliver 1500 bytes at that millisecond; after the last line the trace
//! begins again. Departure: no bytes are added for a TUN header; which bytes of a frame count is
//! the field `overhead` of [`Profile`](super::Profile).

use crate::options::words;
use crate::units::{Rate, Span, Time};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Bytes that one line of a Mahimahi trace delivers.
pub const OPPORTUNITY: u64 = 1500;

/// What one direction of a link can carry. Times count from the start of the emulator.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Capacity {
    /// Frames take no time.
    #[default]
    Unlimited,
    /// The same rate all the time; not zero.
    Constant(Rate),
    /// Steps of constant rate.
    Series(Series),
    /// Opportunities to deliver 1500 bytes.
    Trace(Trace),
}

/// Why a capacity cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// A line is not what it should be.
    #[error("{file}:{line}: found `{found}`, expected {expected}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What it says.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The CSV file has no such column.
    #[error("{file}: no column `{column}`; it has {columns}")]
    Column {
        /// The file.
        file: String,
        /// What was asked for.
        column: String,
        /// What there is.
        columns: String,
    },
    /// The capacity never lets a frame pass.
    #[error("{what} never carries anything: at least one positive rate or opportunity is needed")]
    Nothing {
        /// The file or setting.
        what: String,
    },
}

/// What a blank in a column of a CSV file means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blank {
    /// Nobody looked: the value before it holds on (before the first sample, the first one).
    #[default]
    Holds,
    /// Nothing passed.
    Dead,
}

words!(Blank { Holds = "holds", Dead = "dead" });

/// Steps of constant rate that begin again after the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Start of each step and its rate; the first starts at zero, strictly increasing.
    steps: Vec<(Span, Rate)>,
    period: Span,
}

impl Series {
    /// Steps `(start, rate)` with strictly increasing starts; the first step is taken to start at zero. The series
    /// repeats after `period`, which exceeds the last start.
    ///
    /// # Errors
    /// [`CapacityError::Nothing`] when no rate is positive or the starts do not increase below `period`.
    pub fn new(mut steps: Vec<(Span, Rate)>, period: Span) -> Result<Series, CapacityError> {
        let nothing = || CapacityError::Nothing { what: "the capacity series".into() };
        let first = steps.first_mut().ok_or_else(nothing)?;
        first.0 = Span::ZERO;
        let increasing = steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let last = steps[steps.len() - 1].0;
        let carries = steps.iter().any(|step| step.1.as_bits_per_sec() > 0);
        if !increasing || last >= period || !carries {
            return Err(nothing());
        }
        Ok(Series { steps, period })
    }

    /// The headings of a CSV file's columns, without that of the time.
    pub fn columns(text: &str) -> impl Iterator<Item = &str> {
        text.lines().next().unwrap_or_default().split(',').skip(1).map(str::trim)
    }

    /// Reads the text of a CSV file, named `file` in errors: a heading, then seconds and one column of Mbit/s per network. `column` is a
    /// heading or, from 1, its place behind the time; `blank` says what an empty field means.
    ///
    /// # Errors
    /// [`CapacityError`] naming file, line and what would be right.
    pub fn parse_csv(file: &str, text: &str, column: &str, blank: Blank) -> Result<Series, CapacityError> {
        let mut lines = text.lines().enumerate();
        let heading: Vec<&str> = lines.next().map_or(Vec::new(), |(_, line)| line.split(',').map(str::trim).collect());
        let place = heading.iter().skip(1).position(|name| *name == column).map(|n| n + 1);
        let place = place.or_else(|| column.parse::<usize>().ok().filter(|n| (1..heading.len()).contains(n)));
        let Some(place) = place else {
            let columns = match heading.get(1..).unwrap_or_default() {
                [] => String::from("none beside the times"),
                columns => columns.join(", "),
            };
            return Err(CapacityError::Column { file: file.into(), column: column.into(), columns });
        };
        let wrong = |line: usize, found: &str, expected| {
            Err(CapacityError::Line { file: file.into(), line: line + 1, found: found.into(), expected })
        };
        let mut samples: Vec<(Span, Option<Rate>)> = Vec::new();
        for (number, line) in lines {
            if line.trim().is_empty() {
                continue;
            }
            let mut fields = line.split(',').map(str::trim);
            let time = fields.next().unwrap_or_default();
            let Some(start) = parse_scaled(time, 1e9).map(Span::from_nanos) else {
                return wrong(number, line, "seconds in the first column");
            };
            if samples.last().is_some_and(|(last, _)| *last >= start) {
                return wrong(number, line, "a time after that of the line before");
            }
            let rate = match (fields.nth(place - 1), blank) {
                (None | Some(""), Blank::Holds) => None,
                (None | Some(""), Blank::Dead) => Some(Rate::default()),
                (Some(value), _) => match parse_scaled(value, 1e6) {
                    Some(rate) => Some(Rate::from_bits_per_sec(rate)),
                    None => return wrong(number, value, "a rate in Mbit/s, zero or more, or nothing"),
                },
            };
            samples.push((start, rate));
        }
        let nothing = || CapacityError::Nothing { what: alloc::format!("{file}, column {column}") };
        let mut held = samples.iter().find_map(|sample| sample.1).ok_or_else(nothing)?;
        let origin = samples[0].0;
        let steps: Vec<(Span, Rate)> = samples
            .iter()
            .map(|(start, rate)| {
                held = rate.unwrap_or(held);
                (*start - origin, held)
            })
            .collect();
        // The last step lasts as long as the one before it.
        let last = steps[steps.len() - 1].0;
        let length = if steps.len() > 1 { last - steps[steps.len() - 2].0 } else { Span::from_secs(1) };
        Series::new(steps, last + length).map_err(|_| nothing())
    }

    /// How long it takes until it begins again.
    pub fn period(&self) -> Span {
        self.period
    }

    /// When each step begins, and its rate.
    pub fn steps(&self) -> &[(Span, Rate)] {
        &self.steps
    }

    /// The mean rate.
    pub fn mean(&self) -> Rate {
        let ends = self.steps.iter().skip(1).map(|step| step.0).chain([self.period]);
        let bits = |((start, rate), end): (&(Span, Rate), Span)| {
            u128::from(rate.as_bits_per_sec()) * u128::from((end - *start).as_nanos())
        };
        let all: u128 = self.steps.iter().zip(ends).map(bits).sum();
        Rate::from_bits_per_sec((all / u128::from(self.period.as_nanos())) as u64)
    }

    /// The part from `from` on, at most `length` long; `None` if nothing is left or nothing passes in it.
    pub fn part(&self, from: Span, length: Span) -> Option<Series> {
        let end = (from + length).min(self.period);
        let first = self.steps.partition_point(|step| step.0 <= from) - 1;
        let steps = self.steps[first..].iter().take_while(|step| step.0 < end);
        let steps: Vec<_> = steps.map(|(start, rate)| (*start - from.min(*start), *rate)).collect();
        if end <= from { None } else { Series::new(steps, end - from).ok() }
    }

    /// The same after `rate` for a time of `length`.
    pub fn after(&self, rate: Rate, length: Span) -> Series {
        let first = (length > Span::ZERO).then_some((Span::ZERO, rate));
        let steps = self.steps.iter().map(|(start, rate)| (*start + length, *rate));
        Series { steps: first.into_iter().chain(steps).collect(), period: self.period + length }
    }

    /// The rate at `now`, and when it changes next.
    pub(super) fn at(&self, now: Time) -> (Rate, Time) {
        let period = self.period.as_nanos();
        let cycle = now.as_nanos() / period * period;
        let offset = Span::from_nanos(now.as_nanos() - cycle);
        let next = self.steps.partition_point(|step| step.0 <= offset);
        let rate = self.steps[next - 1].1;
        let end = self.steps.get(next).map_or(self.period, |step| step.0);
        (rate, Time::from_nanos(cycle.saturating_add(end.as_nanos())))
    }
}

/// Opportunities to deliver [`OPPORTUNITY`] bytes each, that begin again after the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Milliseconds, never decreasing.
    opportunities: Vec<u64>,
    period: u64,
}

impl Trace {
    /// Opportunities at these milliseconds, never decreasing; the last is the length of the loop and not zero.
    ///
    /// # Errors
    /// [`CapacityError::Nothing`] when the list is empty, decreases, or ends at zero.
    pub fn new(opportunities: Vec<u64>) -> Result<Trace, CapacityError> {
        let period = opportunities.last().copied().unwrap_or(0);
        if period == 0 || period > u64::MAX / 4_000_000 || opportunities.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(CapacityError::Nothing { what: "the trace".into() });
        }
        Ok(Trace { opportunities, period })
    }

    /// Reads the text of a Mahimahi trace file, named `file` in errors.
    ///
    /// # Errors
    /// [`CapacityError`] naming file, line and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Trace, CapacityError> {
        let mut opportunities: Vec<u64> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let value = line.parse().ok().filter(|ms| opportunities.last().is_none_or(|last| last <= ms));
            let Some(ms) = value else {
                return Err(CapacityError::Line {
                    file: file.into(),
                    line: number + 1,
                    found: line.into(),
                    expected: "a whole number of milliseconds, not less than the line before",
                });
            };
            opportunities.push(ms);
        }
        Trace::new(opportunities).map_err(|_| CapacityError::Nothing { what: file.to_string() })
    }

    /// The number of the first opportunity at or after `now`, counted through all loops.
    pub(super) fn first_at(&self, now: Time) -> u64 {
        let ms = now.as_nanos().div_ceil(1_000_000);
        let (cycle, offset) = (ms / self.period, ms % self.period);
        // The end of one loop is the start of the next: both of its opportunities are at the same instant.
        let place = if offset == 0 && cycle > 0 {
            return (cycle - 1) * self.count() + self.opportunities.partition_point(|&o| o < self.period) as u64;
        } else {
            self.opportunities.partition_point(|&o| o < offset) as u64
        };
        cycle * self.count() + place
    }

    /// When opportunity `number` comes.
    pub(super) fn time(&self, number: u64) -> Time {
        let (cycle, place) = (number / self.count(), (number % self.count()) as usize);
        Time::from_nanos(
            cycle.saturating_mul(self.period).saturating_add(self.opportunities[place]).saturating_mul(1_000_000),
        )
    }

    fn count(&self) -> u64 {
        self.opportunities.len() as u64
    }
}

/// A decimal number, zero or more, times `scale`, rounded.
fn parse_scaled(text: &str, scale: f64) -> Option<u64> {
    let value: f64 = text.parse().ok()?;
    let scaled = libm::round(value * scale);
    (0.0..1e19).contains(&scaled).then_some(scaled as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn csv(text: &str, column: &str) -> Result<Series, CapacityError> {
        Series::parse_csv("file", text, column, Blank::Holds)
    }

    #[test]
    fn a_trace_loops_at_its_last_millisecond() {
        let trace = Trace::new(vec![0, 2, 2, 5]).expect("valid");
        let times: Vec<u64> = (0..9).map(|n| trace.time(n).as_nanos() / 1_000_000).collect();
        assert_eq!(times, [0, 2, 2, 5, 5, 7, 7, 10, 10]);
        for ms in 0..40 {
            let now = Time::from_millis(ms);
            let first = trace.first_at(now);
            assert!(trace.time(first) >= now, "at {ms}");
            assert!(first == 0 || trace.time(first - 1) < now, "at {ms}");
        }
        assert_eq!(trace.first_at(Time::from_nanos(1)), 1);
    }

    #[test]
    fn a_csv_blank_holds_the_value_before_it_and_the_series_loops() {
        let text = "t_s,x_mbps,y_mbps\n10,,1\n10.5,2,\n11,,0\n";
        let x = csv(text, "x_mbps").expect("valid");
        let at = |series: &Series, ms| {
            let (rate, until) = series.at(Time::from_millis(ms));
            (rate.as_bits_per_sec(), until.as_nanos() / 1_000_000)
        };
        assert_eq!(at(&x, 0), (2_000_000, 500));
        let y = csv(text, "2").expect("valid");
        assert_eq!(at(&y, 499), (1_000_000, 500));
        assert_eq!(at(&y, 500), (1_000_000, 1000));
        assert_eq!(at(&y, 1000), (0, 1500));
        assert_eq!(at(&y, 1500), (1_000_000, 2000));
    }

    #[test]
    fn a_blank_may_also_be_a_link_that_is_dead() {
        let text = "t_s,x_mbps\n0,\n1,4\n2\n3,8\n";
        let series = Series::parse_csv("file", text, "x_mbps", Blank::Dead).expect("valid");
        let rates: Vec<u64> = series.steps().iter().map(|(_, rate)| rate.as_bits_per_sec() / 1_000_000).collect();
        assert_eq!((rates, series.mean()), (vec![0, 4, 0, 8], Rate::from_mbit(3)));
        assert!(Series::parse_csv("file", "t_s,x\n0,\n", "x", Blank::Dead).is_err(), "it never carries anything");
        assert_eq!(Series::columns("t_s, x , y\n").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(Series::columns("").count(), 0);
    }

    #[test]
    fn a_part_of_a_series_begins_in_the_middle_of_a_step_and_may_follow_another_rate() {
        let s = Span::from_secs;
        let series =
            Series::new(vec![(s(0), Rate::from_mbit(1)), (s(2), Rate::from_mbit(7)), (s(4), Rate::default())], s(6));
        let series = series.expect("valid");
        let part = series.part(s(1), s(4)).expect("not empty");
        let expected = [(s(0), Rate::from_mbit(1)), (s(1), Rate::from_mbit(7)), (s(3), Rate::default())];
        assert_eq!(
            (part.steps(), part.period(), part.mean()),
            (&expected[..], s(4), Rate::from_bits_per_sec(3_750_000))
        );
        assert_eq!(series.part(s(3), s(60)).expect("not empty").period(), s(3), "no longer than it is");
        assert_eq!((series.part(s(4), s(2)), series.part(s(6), s(1)), series.part(s(9), s(1))), (None, None, None));
        let later = part.after(Rate::from_mbit(9), s(10));
        assert_eq!((later.at(Time::from_millis(9_999)).0, later.period()), (Rate::from_mbit(9), s(14)));
        assert_eq!(later.at(Time::from_millis(11_000)).0, Rate::from_mbit(7));
        assert_eq!(part.after(Rate::from_mbit(9), Span::ZERO), part);
    }

    #[test]
    fn bad_files_are_named_with_their_line() {
        assert!(matches!(Trace::parse("file", "1\n3\n2\n"), Err(CapacityError::Line { line: 3, .. })));
        assert!(matches!(Trace::parse("file", "0\n0\n"), Err(CapacityError::Nothing { .. })));
        assert!(matches!(Trace::parse("file", ""), Err(CapacityError::Nothing { .. })));
        let text = "t_s,a\n0,1\n1,x\n";
        assert!(matches!(csv(text, "a"), Err(CapacityError::Line { line: 3, .. })));
        assert!(matches!(csv(text, "b"), Err(CapacityError::Column { .. })));
        let none = csv("", "1").unwrap_err();
        assert!(none.to_string().ends_with("it has none beside the times"), "{none}");
        assert!(matches!(csv("t_s,a\n0,-1\n", "a"), Err(CapacityError::Line { .. })));
        assert!(matches!(csv("t_s,a\n0,0\n", "a"), Err(CapacityError::Nothing { .. })));
        assert!(matches!(csv("t_s,a\n", "a"), Err(CapacityError::Nothing { .. })));
        assert!(matches!(csv("t_s,a\n1,1\n1,1\n", "a"), Err(CapacityError::Line { .. })));
    }
}
