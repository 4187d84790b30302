//! What an answer rests on: tables of measured values with their intervals, and the constants that were fitted.

use crate::report::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Digits that are kept of a value: more than any seed leaves certain.
const DIGITS: i32 = 6;

/// A measured value: the mean over seeds, and half the width of the interval that holds the true mean with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell(pub(crate) Option<f64>, pub(crate) Option<f64>);

impl Cell {
    /// A value without chance in it, or of a single run.
    pub(crate) fn exact(value: f64) -> Cell {
        Cell(rounded(value), None)
    }

    /// Of several runs.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Cell {
        let sample = Sample::of(values);
        let mean = (sample.count > 0.0).then_some(sample.mean).and_then(rounded);
        Cell(mean, sample.half_width().and_then(rounded))
    }

    /// The mean; not a number where there is none, which nothing compares well with.
    pub(crate) fn mean(self) -> f64 {
        self.0.unwrap_or(f64::NAN)
    }

    /// For people: `1.858 ± 0.002`.
    pub(crate) fn text(self) -> String {
        let mean = self.0.map_or_else(|| "-".to_owned(), crate::report::short);
        match self.1 {
            Some(half) if half > 0.0 => format!("{mean} ± {}", brief(half)),
            _ => mean,
        }
    }
}

/// The cells of a line whose values have no chance in them.
pub(crate) fn exact(values: &[f64]) -> Vec<Cell> {
    values.iter().copied().map(Cell::exact).collect()
}

/// A value with [`DIGITS`] significant digits; `None` where it is no number.
pub(crate) fn rounded(value: f64) -> Option<f64> {
    if value == 0.0 || !value.is_finite() {
        return value.is_finite().then_some(0.0);
    }
    // By way of its decimal text, so that the file has no more digits than that.
    format!("{value:.*e}", (DIGITS - 1) as usize).parse().ok()
}

/// Two significant digits.
fn brief(value: f64) -> String {
    let digits = (1.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

/// One line of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The value that the line is of.
    pub(crate) at: String,
    /// Whether the answer's own values are of this line: the constant as the figures have it.
    pub(crate) used: bool,
    /// A value for each column.
    pub(crate) cells: Vec<Cell>,
}

/// Measured values: a line for each value of one thing that varies, a column for each quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// What varies from line to line, and under which conditions. Of a sensitivity: the constant, and where its value is from.
    pub(crate) of: String,
    /// Quantities with their units.
    pub(crate) columns: Vec<String>,
    /// The lines.
    pub(crate) lines: Vec<Line>,
}

impl Evidence {
    /// A table without lines.
    pub(crate) fn new(of: impl Into<String>, columns: &[&str]) -> Evidence {
        Evidence { of: of.into(), columns: columns.iter().map(|&name| name.to_owned()).collect(), lines: Vec::new() }
    }

    /// One more line.
    pub(crate) fn line(&mut self, at: impl Into<String>, used: bool, cells: Vec<Cell>) {
        self.lines.push(Line { at: at.into(), used, cells });
    }

    /// The least and the greatest mean of each column.
    pub(crate) fn range(&self) -> BTreeMap<String, [f64; 2]> {
        let column = |(n, name): (usize, &String)| {
            let values = self.lines.iter().filter_map(|line| line.cells.get(n)?.0);
            let range = values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)]);
            (range[0] <= range[1]).then(|| (name.clone(), range))
        };
        self.columns.iter().enumerate().filter_map(column).collect()
    }
}

/// A constant that the paper does not tell and that was chosen so that one of its values comes out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calibration {
    /// The constant, and the value that was chosen.
    pub(crate) constant: String,
    /// What of the paper it was fitted to.
    pub(crate) fitted_to: String,
    /// What comes out without the fit: from the least to the greatest value over the constant's range, by quantity.
    pub(crate) range: BTreeMap<String, [f64; 2]>,
}

impl Calibration {
    /// The constant whose range `sensitivity` measured.
    pub(crate) fn new(
        constant: impl Into<String>,
        fitted_to: impl Into<String>,
        sensitivity: &Evidence,
    ) -> Calibration {
        Calibration { constant: constant.into(), fitted_to: fitted_to.into(), range: sensitivity.range() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_a_mean_and_its_interval_and_says_when_it_is_nothing() {
        let cell = Cell::of([3.0, 5.0, 7.0]);
        assert_eq!((cell.0, cell.1), (Some(5.0), Some(4.968_68)));
        assert_eq!(cell.text(), "5 ± 5.0");
        assert_eq!((Cell::of([2.0]), Cell::exact(2.0).text().as_str()), (Cell(Some(2.0), None), "2"));
        assert_eq!(Cell::of([]), Cell(None, None));
        assert!(Cell::exact(f64::NAN).mean().is_nan() && Cell::of([f64::NAN, 1.0]).0.is_none());
        assert_eq!(Cell::exact(f64::NAN).text(), "-");
    }

    #[test]
    fn six_digits_are_kept_of_a_value_of_any_size() {
        for (value, kept) in [(1.234_567_8, 1.234_57), (-9.876_543_2e-9, -9.876_54e-9), (123_456_789.0, 123_457_000.0)]
        {
            assert_eq!(rounded(value), Some(kept));
            // What is kept stays as it is when it is kept again.
            assert_eq!(rounded(kept), Some(kept));
        }
        assert_eq!(rounded(f64::INFINITY), None);
    }

    #[test]
    fn the_range_of_a_constant_is_that_of_each_column() {
        let mut table = Evidence::new("window", &["MB/s", "out of order"]);
        table.line("12", false, vec![Cell::exact(0.5), Cell::exact(0.04)]);
        table.line("22", true, vec![Cell::exact(1.0), Cell(None, None)]);
        table.line("45", false, vec![Cell::exact(2.1), Cell::exact(0.02)]);
        let calibration = Calibration::new("22 segments", "Figure 11", &table);
        assert_eq!(calibration.range["MB/s"], [0.5, 2.1]);
        assert_eq!(calibration.range["out of order"], [0.02, 0.04]);
        assert!(Evidence::new("none", &["x"]).range().is_empty());
    }
}
