//! Series as CSV files (RFC 4180): one row a point, a column `time (s)` and one for each series, its unit in parentheses.

use crate::Error;
use fairspan_sim::results::Results;
use std::fmt::Write as _;
use std::path::Path;

/// Writes the series of one run to `path`.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(path: &Path, results: &Results) -> Result<(), Error> {
    std::fs::write(path, csv(results)).map_err(|error| Error::write(path, error))
}

/// How many points the longest series has.
pub(super) fn points(results: &Results) -> usize {
    results.series.iter().map(|series| series.values.len()).max().unwrap_or(0)
}

fn csv(results: &Results) -> String {
    let mut text = String::from("time (s)");
    for series in &results.series {
        text.push(',');
        text += &quoted(&format!("{} ({})", series.name, series.unit));
    }
    text.push('\n');
    for point in 0..points(results) {
        // A point tells of the interval that ends with it.
        let _ = write!(text, "{}", (point + 1) as f64 * results.series_interval_s);
        for series in &results.series {
            text.push(',');
            // A series that ended earlier has no value here.
            if let Some(value) = series.values.get(point) {
                let _ = write!(text, "{value}");
            }
        }
        text.push('\n');
    }
    text
}

/// A field of a CSV file.
pub(super) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use fairspan_sim::results::{Conservation, Series};

    pub(in crate::report) fn results(series_of: &[(&str, &[f64])]) -> Results {
        let series = |&(name, values): &(&str, &[f64])| Series {
            name: name.into(),
            unit: "bytes".into(),
            values: values.into(),
        };
        Results {
            seed: 7,
            measured_s: 1.5,
            events: 0,
            partitions: None,
            log_hash: 0,
            conservation: Conservation::default(),
            flows: vec![],
            jain: Some(1.0),
            goodput: 0.0,
            links: vec![],
            media: vec![],
            bonds: vec![],
            rings: vec![],
            splits: vec![],
            series: series_of.iter().map(series).collect(),
            series_interval_s: 0.5,
        }
    }

    #[test]
    fn a_row_is_a_point_and_a_series_that_ended_earlier_has_no_value() {
        let results = results(&[("link a queue", &[1.0, 2.5, 3.0]), ("link \"b\", queue", &[4.0, 5.0])]);
        assert_eq!(
            csv(&results),
            "time (s),link a queue (bytes),\"link \"\"b\"\", queue (bytes)\"\n0.5,1,4\n1,2.5,5\n1.5,3,\n"
        );
    }
}
