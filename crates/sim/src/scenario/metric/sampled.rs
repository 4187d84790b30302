//! Values of which a distribution is drawn: a metric's, of all that its `*` stands for, or all samples of a spread.

use super::expression::{Pool, Refers, Samples};
use super::table::Unit;
use super::{MetricError, parser};
use crate::results::Results;

/// Where samples come from, and what they count.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    text: String,
    from: Samples,
    unit: Unit,
}

impl Sampled {
    /// Reads `flow.NAME.delay`, `flow.NAME.jitter`, `flow.NAME.transfers.duration`, `flow.NAME.transfers.slowdown`, the same of a class,
    /// such as `flow.NAME.transfers.class0.slowdown`, `flow.NAME.reordering.extent`, or a metric; `*` in names stands for several.
    ///
    /// # Errors
    /// [`MetricError::Grammar`] with what stands where and what would be right.
    pub fn parse(text: &str) -> Result<Sampled, MetricError> {
        let (from, unit) = match parser::spread(text) {
            Some(found) => found,
            None => {
                let (node, unit) = parser::parse_several(text)?;
                (Samples::Values(node), unit)
            }
        };
        Ok(Sampled { text: text.to_owned(), from, unit })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the samples count.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The samples of one run: how many there are of which value.
    ///
    /// # Errors
    /// [`MetricError::Absent`] where the results do not have what it names.
    pub fn samples(&self, results: &Results) -> Result<Vec<(f64, u64)>, MetricError> {
        let mut pool = Pool::new();
        self.from.collect(results, &mut pool)?;
        Ok(pool)
    }

    /// What it refers to.
    pub(in crate::scenario) fn refers(&self) -> Vec<Refers<'_>> {
        let mut found = Vec::new();
        self.from.refers(&mut found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Distribution, FlowResult};

    #[test]
    fn samples_are_pooled_over_all_that_a_name_stands_for() {
        let flow = |name: &str, goodput, samples: &[(f64, u64)]| FlowResult {
            name: name.into(),
            goodput,
            delay: Distribution { samples: samples.into(), ..Distribution::default() },
            ..FlowResult::default()
        };
        let flows = vec![flow("a1", 5.0, &[(1.0, 2)]), flow("a2", 7.0, &[(1.0, 1), (3.0, 4)]), flow("b", 9.0, &[])];
        let results = Results { flows, ..Results::default() };
        let of = |text: &str| Sampled::parse(text).and_then(|sampled| sampled.samples(&results));
        assert_eq!(of("flow.a*.goodput").unwrap(), [(5.0, 1), (7.0, 1)]);
        assert_eq!(of("flow.a*.delay").unwrap(), [(1.0, 2), (1.0, 1), (3.0, 4)]);
        assert_eq!(of("max(flow.*.goodput)").unwrap(), [(9.0, 1)]);
        assert!(of("flow.c.goodput").is_err(), "no such flow");
        assert!(Sampled::parse("flow.a.dela").is_err());
        let units = ["flow.a.delay", "flow.a.reordering.extent", "flow.*.goodput"];
        let units = units.map(|text| Sampled::parse(text).unwrap().unit());
        assert_eq!(units, [Unit::Seconds, Unit::Count, Unit::BitsPerSecond]);
    }
}
