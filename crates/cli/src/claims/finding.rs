//! How a runner reads a figure's curves and says what of a claim is not so.

use super::Answer;
use super::bench::{FigureRun, Samples};
use super::evidence::Cell;

/// Values of a metric over the points of a figure, a value for each seed.
pub(crate) struct Curve<'a>(Vec<Samples<'a>>);

impl<'a> Curve<'a> {
    /// The values of `metric`.
    ///
    /// # Errors
    /// When the results do not have it.
    pub(crate) fn of(run: &'a FigureRun, metric: &str) -> anyhow::Result<Curve<'a>> {
        Ok(Curve(run.samples(metric)?))
    }

    fn points(&self, wanted: &[(&str, &str)]) -> impl Iterator<Item = &[f64]> {
        let is = |at: &[(String, String)], name: &str, value: &str| {
            at.iter().any(|(known, found)| known == name && found.trim_matches('"') == value)
        };
        let points = self.0.iter().filter(move |point| wanted.iter().all(|(name, value)| is(point.0, name, value)));
        points.map(|point| point.1.as_slice())
    }

    /// The means over the seeds where all of `wanted` are so, in the file's order.
    pub(crate) fn at(&self, wanted: &[(&str, &str)]) -> Vec<f64> {
        self.points(wanted).map(|values| values.iter().sum::<f64>() / values.len() as f64).collect()
    }

    /// The value there, times `factor`, with its interval over the seeds.
    pub(crate) fn cell(&self, wanted: &[(&str, &str)], factor: f64) -> Cell {
        Cell::of(self.seeds(wanted).iter().map(|value| value * factor))
    }

    /// The values there, seed by seed; none where there is no such point.
    pub(crate) fn seeds(&self, wanted: &[(&str, &str)]) -> &[f64] {
        self.points(wanted).next().unwrap_or_default()
    }

    /// The one value there; not a number where there is none, which nothing compares well with.
    pub(crate) fn one(&self, wanted: &[(&str, &str)]) -> f64 {
        self.at(wanted).first().copied().unwrap_or(f64::NAN)
    }
}

/// The least of them.
pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The greatest of them.
pub(crate) fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// What was found, and what of it is not as the paper says.
#[derive(Default)]
pub(crate) struct Finding {
    faults: Vec<String>,
}

impl Finding {
    /// Notes `fault` unless `holds`.
    pub(crate) fn check(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(fault());
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.faults.len()
    }

    /// The answer: it holds where there is no fault; `told` is what was run.
    pub(crate) fn answer(self, told: String) -> Answer {
        let holds = self.faults.is_empty();
        let reason = if holds { told } else { format!("{}. {told}", self.faults.join("; ")) };
        Answer::statement(holds, reason)
    }
}

/// How many faults `judge` finds.
pub(crate) fn faults(judge: impl FnOnce(&mut Finding)) -> usize {
    let mut finding = Finding::default();
    judge(&mut finding);
    finding.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_gives_the_values_at_a_point_and_nothing_where_there_is_none() {
        let at = |policy: &str, parallel: &str| {
            vec![("policy".to_owned(), policy.to_owned()), ("parallel".to_owned(), parallel.to_owned())]
        };
        let points = [at("\"brr:12ms\"", "4"), at("broadcast", "4"), at("broadcast", "14")];
        let curve = Curve(
            points
                .iter()
                .zip([[1.0, 1.0], [1.0, 3.0], [3.0, 3.0]])
                .map(|(at, values)| (at.as_slice(), values.to_vec()))
                .collect(),
        );
        assert_eq!(curve.one(&[("policy", "brr:12ms")]), 1.0);
        assert_eq!(curve.at(&[("policy", "broadcast")]), [2.0, 3.0]);
        assert_eq!(curve.one(&[("policy", "broadcast"), ("parallel", "14")]), 3.0);
        assert!(curve.one(&[("parallel", "1")]).is_nan());
        assert_eq!(curve.seeds(&[("parallel", "14")]), [3.0, 3.0]);
        let cell = curve.cell(&[("policy", "broadcast"), ("parallel", "4")], 10.0);
        // One degree of freedom: 12.706 * 14.14 / sqrt(2).
        assert_eq!((cell.0, cell.1), (Some(20.0), Some(127.06)));
        assert_eq!(curve.cell(&[("parallel", "1")], 1.0), Cell(None, None));
    }

    #[test]
    fn one_fault_is_enough_and_is_told_first() {
        let mut finding = Finding::default();
        finding.check(true, || unreachable!());
        finding.check(Curve(Vec::new()).one(&[]) < 1.0, || "nothing there".to_owned());
        let answer = finding.answer("what was run".to_owned());
        assert!(!answer.holds);
        assert_eq!(answer.reason, "nothing there. what was run");
    }
}
