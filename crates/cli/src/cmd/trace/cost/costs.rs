//! What was found of all queues.

use super::asked::Args;
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::queue::DisciplineConfig;
use fairspan_trace::cost::Sequence;
use fairspan_trace::cost::active::Active;
use fairspan_trace::cost::advice::{Affords, Budget};
use fairspan_trace::cost::measured::Measured;
use fairspan_trace::cost::meter::Spread;
use fairspan_trace::cost::operations::Operations;

/// A discipline with a policy, and what they take.
pub(super) struct Row {
    pub(super) discipline: DisciplineConfig,
    pub(super) policy: PolicyConfig,
    pub(super) operations: Option<Spread>,
    /// The queue alone.
    pub(super) measured: Measured,
    /// With reading the packet's flow, where that is needed.
    pub(super) ns: Spread,
    pub(super) affords: Affords,
}

/// All that is told.
pub(super) struct Costs<'a> {
    pub(super) args: &'a Args,
    pub(super) sequence: &'a Sequence,
    pub(super) active: &'a Active,
    pub(super) faster: f64,
    pub(super) clock: f64,
    pub(super) classification: Spread,
    pub(super) budget: Budget,
    /// Why instructions are not counted.
    pub(super) uncounted: Option<String>,
    pub(super) rows: Vec<Row>,
    pub(super) recommended: Option<usize>,
}

impl Costs<'_> {
    /// Adds what a queue took.
    pub(super) fn add(&mut self, discipline: DisciplineConfig, policy: PolicyConfig, measured: Measured) {
        let mut ns = measured.ns;
        if discipline != DisciplineConfig::Fifo {
            let of = self.classification;
            ns = Spread {
                mean: ns.mean + of.mean,
                median: ns.median + of.median,
                p99: ns.p99 + of.p99,
                worst: ns.worst + of.worst,
            };
        }
        let operations = Operations::of(&discipline).map(|of| self.active.operations(of));
        let affords = self.budget.affords(&ns);
        self.rows.push(Row { discipline, policy, operations, measured, ns, affords });
    }
}
