//! A metric as it is computed: arithmetic on values that results have by name.

use super::table::{ClassSpread, Field, Found, Needs, Spread, class, n_reordering};
use crate::metrics::spread::percentile;
use crate::results::{Distribution, FlowResult, LimitResult, LinkResult, Results, RingLinkResult, RingResult};
use crate::results::{MediumResult, SplitResult};
use std::fmt;

/// Why a metric is none, or results do not have it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The text does not follow the grammar.
    #[error("in `{metric}` found {found}, expected {expected}")]
    Grammar {
        /// The whole text.
        metric: String,
        /// What stands there.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// The results have nothing of that name.
    #[error("nothing is called `{path}`{hint}")]
    Absent {
        /// The path.
        path: String,
        /// What would make it be there, if anything is known.
        hint: &'static str,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Number(f64),
    Path(Path),
    Call(Function, Vec<Node>),
    Binary(char, Box<Node>, Box<Node>),
    /// What a share of all samples is not above.
    Percentile(f64, Box<Samples>),
}

/// Where samples come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Samples {
    /// A value of each thing that is called so.
    Values(Node),
    /// All samples of the flows that are called so: packets' delays, transfers' durations.
    Spread(String, &'static Spread),
    /// The same of one of their classes of sizes.
    Class(String, usize, &'static ClassSpread),
}

/// How many samples there are of which value.
pub(super) type Pool = Vec<(f64, u64)>;

impl Samples {
    /// Adds the samples of one run.
    pub(super) fn collect(&self, results: &Results, pool: &mut Pool) -> Result<(), MetricError> {
        let flows = |pattern| results.flows.iter().filter(move |flow: &&FlowResult| matches(pattern, &flow.name));
        match self {
            Samples::Values(node) => {
                let mut values = Vec::new();
                node.evaluate(results, &mut values)?;
                pool.extend(values.into_iter().filter(|value| value.is_finite()).map(|value| (value, 1)));
            }
            Samples::Spread(pattern, spread) => {
                let found = flows(pattern).filter_map(|flow| spread.distribution(flow).ok());
                found.for_each(|distribution| pool.extend(&distribution.samples));
            }
            Samples::Class(pattern, number, spread) => {
                let found = flows(pattern).filter_map(|flow| class(flow, *number).ok());
                found.for_each(|class| pool.extend(&(spread.distribution)(class).samples));
            }
        }
        Ok(())
    }

    pub(super) fn refers<'a>(&'a self, found: &mut Vec<Refers<'a>>) {
        match self {
            Samples::Values(node) => node.refers(found),
            Samples::Spread(name, spread) => {
                found.push(Refers::Flow(name));
                match spread.needs {
                    Needs::Percentiles => found.push(Refers::Percentiles),
                    Needs::Reordering => found.push(Refers::Reordering),
                    Needs::Nothing => {}
                }
            }
            Samples::Class(name, ..) => found.push(Refers::Flow(name)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Sum,
    Mean,
    Min,
    Max,
    Jain,
    Count,
}

/// Where a value stands in results. Names may have `*`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Path {
    Total(&'static Field<Results>),
    Flow(String, FlowField),
    Link(String, &'static Field<LinkResult>),
    /// A counter of a bond's end, or `held_max`.
    Bond(String, String),
    Ring(String, &'static Field<RingResult>),
    Split(String, &'static Field<SplitResult>),
    Medium(String, &'static Field<MediumResult>),
    /// Of a ring's limiters whose name is so.
    Limit(String, String, &'static Field<LimitResult>),
    /// Of a ring's ways whose name is so.
    Way(String, String, &'static Field<RingLinkResult>),
}

/// What of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FlowField {
    Plain(&'static Field<FlowResult>),
    Statistic(&'static Spread, &'static Field<Distribution>),
    /// n-reordering for this n.
    NReordering(usize),
    /// Of a class of sizes.
    Class(usize, &'static ClassSpread, &'static Field<Distribution>),
}

impl FlowField {
    fn needs(self) -> Needs {
        match self {
            FlowField::Plain(field) => field.needs,
            FlowField::Statistic(spread, statistic) => spread.needs(statistic),
            FlowField::NReordering(_) => Needs::Reordering,
            FlowField::Class(..) => Needs::Nothing,
        }
    }

    fn value(self, flow: &FlowResult) -> Found {
        match self {
            FlowField::Plain(field) => (field.value)(flow),
            FlowField::Statistic(spread, statistic) => spread.value(statistic, flow),
            FlowField::NReordering(n) => n_reordering(flow, n),
            FlowField::Class(number, spread, statistic) => {
                (statistic.value)((spread.distribution)(class(flow, number)?))
            }
        }
    }
}

impl fmt::Display for FlowField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowField::Plain(field) => f.write_str(field.name),
            FlowField::Statistic(spread, statistic) => write!(f, "{}{}", spread.prefix, statistic.name),
            FlowField::NReordering(n) => write!(f, "reordering.n{n}"),
            FlowField::Class(number, spread, statistic) => {
                write!(f, "transfers.class{number}.{}{}", spread.prefix, statistic.name)
            }
        }
    }
}

/// Names of a kind that a metric refers to, for checking before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) enum Refers<'a> {
    Flow(&'a str),
    Link(&'a str),
    Bond(&'a str),
    Ring(&'a str),
    Split(&'a str),
    /// A medium.
    Medium(&'a str),
    /// Needs `metrics.delay`.
    Percentiles,
    /// Needs `metrics.reordering`.
    Reordering,
}

/// Whether `name` is what `pattern` stands for; `*` is any letters.
pub(in crate::scenario) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    loop {
        let Some((middle, tail)) = rest.split_once('*') else {
            return name.len() >= rest.len() && name.ends_with(rest);
        };
        let Some(place) = name.find(middle) else { return false };
        name = &name[place + middle.len()..];
        rest = tail;
    }
}

impl Node {
    pub(super) fn refers<'a>(&'a self, found: &mut Vec<Refers<'a>>) {
        match self {
            Node::Number(_) | Node::Path(Path::Total(_)) => {}
            Node::Path(Path::Flow(name, field)) => {
                found.push(Refers::Flow(name));
                match field.needs() {
                    Needs::Nothing => {}
                    Needs::Percentiles => found.push(Refers::Percentiles),
                    Needs::Reordering => found.push(Refers::Reordering),
                }
            }
            Node::Path(Path::Link(name, _)) => found.push(Refers::Link(name)),
            Node::Path(Path::Bond(name, _)) => found.push(Refers::Bond(name)),
            Node::Path(Path::Ring(name, _) | Path::Limit(name, ..) | Path::Way(name, ..)) => {
                found.push(Refers::Ring(name));
            }
            Node::Path(Path::Split(name, _)) => found.push(Refers::Split(name)),
            Node::Path(Path::Medium(name, _)) => found.push(Refers::Medium(name)),
            Node::Call(_, inner) => inner.iter().for_each(|node| node.refers(found)),
            Node::Percentile(_, samples) => samples.refers(found),
            Node::Binary(_, left, right) => {
                left.refers(found);
                right.refers(found);
            }
        }
    }

    pub(super) fn evaluate(&self, results: &Results, values: &mut Vec<f64>) -> Result<(), MetricError> {
        match self {
            Node::Number(number) => values.push(*number),
            Node::Path(path) => path.collect(results, values)?,
            Node::Call(function, inner) => {
                let mut list = Vec::new();
                for node in inner {
                    node.evaluate(results, &mut list)?;
                }
                values.push(function.apply(&list));
            }
            Node::Percentile(share, samples) => {
                let mut pool = Pool::new();
                samples.collect(results, &mut pool)?;
                values.push(percentile(&mut pool, *share).unwrap_or(f64::NAN));
            }
            Node::Binary(operator, left, right) => {
                let mut pair = Vec::with_capacity(2);
                left.evaluate(results, &mut pair)?;
                right.evaluate(results, &mut pair)?;
                let (left, right) = (pair[0], pair[1]);
                values.push(match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                });
            }
        }
        Ok(())
    }
}

impl Function {
    fn apply(self, list: &[f64]) -> f64 {
        let sum: f64 = list.iter().sum();
        let count = list.len() as f64;
        match self {
            Function::Sum => sum,
            Function::Mean => sum / count,
            Function::Min => list.iter().copied().fold(f64::INFINITY, f64::min),
            Function::Max => list.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            // Jain, Chiu, Hawe 1984: (sum x)^2 / (n sum x^2).
            Function::Jain => sum * sum / (count * list.iter().map(|value| value * value).sum::<f64>()),
            Function::Count => count,
        }
    }
}

impl Path {
    fn collect(&self, results: &Results, values: &mut Vec<f64>) -> Result<(), MetricError> {
        let before = values.len();
        let mut hint = "";
        let mut take = |found: Found| match found {
            Ok(value) => values.push(value),
            Err(why) => hint = why,
        };
        let rings = |pattern| results.rings.iter().filter(move |ring: &&RingResult| matches(pattern, &ring.name));
        match self {
            Path::Total(field) => take((field.value)(results)),
            Path::Flow(pattern, field) => {
                let flows = results.flows.iter().filter(|flow| matches(pattern, &flow.name));
                flows.for_each(|flow| take(field.value(flow)));
            }
            Path::Link(pattern, field) => {
                let links = results.links.iter().filter(|link| matches(pattern, &link.name));
                links.for_each(|link| take((field.value)(link)));
            }
            Path::Bond(pattern, counter) => {
                for bond in results.bonds.iter().filter(|bond| matches(pattern, &bond.name)) {
                    let counters = bond.counters.iter().find(|(name, _)| name == counter).map(|(_, value)| *value);
                    let value = if counter == "held_max" { Some(bond.held_max) } else { counters };
                    take(value.map(|value| value as f64).ok_or(""));
                }
                hint = "; a bond's counters are called as in docs/status.md";
            }
            Path::Split(pattern, field) => {
                let splits = results.splits.iter().filter(|split| matches(pattern, &split.name));
                splits.for_each(|split| take((field.value)(split)));
            }
            Path::Medium(pattern, field) => {
                let media = results.media.iter().filter(|medium| matches(pattern, &medium.name));
                media.for_each(|medium| take((field.value)(medium)));
            }
            Path::Ring(pattern, field) => rings(pattern).for_each(|ring| take((field.value)(ring))),
            Path::Limit(pattern, name, field) => {
                for limit in rings(pattern).flat_map(|ring| &ring.limits).filter(|limit| matches(name, &limit.name)) {
                    take((field.value)(limit));
                }
                if rings(pattern).next().is_some() {
                    hint = "; limiters are those between nodes that flows join, such as limit.1-5";
                }
            }
            Path::Way(pattern, name, field) => {
                for way in rings(pattern).flat_map(|ring| &ring.links).filter(|way| matches(name, &way.name)) {
                    take((field.value)(way));
                }
                if rings(pattern).next().is_some() {
                    hint = "; a ring's links have numbers from 1, and /1 is ringlet 1";
                }
            }
        }
        if values.len() > before { Ok(()) } else { Err(MetricError::Absent { path: self.to_string(), hint }) }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Total(field) => f.write_str(field.name),
            Path::Flow(name, field) => write!(f, "flow.{name}.{field}"),
            Path::Link(name, field) => write!(f, "link.{name}.{}", field.name),
            Path::Bond(name, counter) => write!(f, "bond.{name}.{counter}"),
            Path::Ring(name, field) => write!(f, "ring.{name}.{}", field.name),
            Path::Split(name, field) => write!(f, "split.{name}.{}", field.name),
            Path::Medium(name, field) => write!(f, "medium.{name}.{}", field.name),
            Path::Limit(name, pair, _) => write!(f, "ring.{name}.limit.{pair}"),
            Path::Way(name, way, _) => write!(f, "ring.{name}.link.{way}"),
        }
    }
}
