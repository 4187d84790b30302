//! Values taken from results by name: `flow.a.goodput`, `link.x.load`, `jain`, and arithmetic on them.
//!
//! The grammar: `+ - * /` with a space on each side, parentheses, numbers, and `sum`, `mean`, `min`, `max`, `jain`,
//! `count` over paths in which `*` stands for any letters of a name: `sum(flow.web*.goodput) / goodput`.

use crate::results::{Distribution, FlowResult, LimitResult, LinkResult, Results, RingLinkResult, RingResult};
use std::fmt;

/// Nesting at most.
const DEEPEST: u32 = 32;

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    BitsPerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Packets, events, transfers.
    Count,
    /// A share, a ratio, an index.
    None,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::BitsPerSecond => "bit/s",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Count | Unit::None => "",
        })
    }
}

/// A value that results have, or arithmetic on such values.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    text: String,
    root: Node,
    unit: Unit,
}

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
enum Node {
    Number(f64),
    Path(Path),
    Call(Function, Vec<Node>),
    Binary(char, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Sum,
    Mean,
    Min,
    Max,
    Jain,
    Count,
}

#[derive(Clone, Debug, PartialEq)]
enum Path {
    Total(Total),
    Flow(String, FlowField),
    Link(String, LinkField),
    Bond(String, String),
    Ring(String, RingField),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Total {
    Jain,
    Goodput,
    Events,
    Sent,
    Delivered,
    Dropped,
    InFlight,
}

const TOTALS: [(&str, Total, Unit); 7] = [
    ("jain", Total::Jain, Unit::None),
    ("goodput", Total::Goodput, Unit::BitsPerSecond),
    ("events", Total::Events, Unit::Count),
    ("sent", Total::Sent, Unit::Count),
    ("delivered", Total::Delivered, Unit::Count),
    ("dropped", Total::Dropped, Unit::Count),
    ("in_flight", Total::InFlight, Unit::Count),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum FlowField {
    Goodput,
    Throughput,
    Sent,
    Received,
    Dropped,
    Loss,
    Delay(Statistic),
    Jitter(Statistic),
    ReorderingRatio,
    ReorderingExtent(Statistic),
    BelowHighest,
    /// n-reordering for this n.
    NReordering(usize),
    Retransmitted,
    Timeouts,
    Recoveries,
    Window,
    SmoothedRtt,
    Completed,
    TransferBytes,
    /// What http_load says: bytes of all over the time from the first beginning to the last end.
    TransferThroughput,
    TransferDuration(Statistic),
}

const FLOW_FIELDS: [(&str, FlowField, Unit); 16] = [
    ("goodput", FlowField::Goodput, Unit::BitsPerSecond),
    ("throughput", FlowField::Throughput, Unit::BitsPerSecond),
    ("sent", FlowField::Sent, Unit::Count),
    ("received", FlowField::Received, Unit::Count),
    ("dropped", FlowField::Dropped, Unit::Count),
    ("loss", FlowField::Loss, Unit::None),
    ("reordering.ratio", FlowField::ReorderingRatio, Unit::None),
    ("reordering.below_highest", FlowField::BelowHighest, Unit::None),
    ("tcp.retransmitted", FlowField::Retransmitted, Unit::Count),
    ("tcp.timeouts", FlowField::Timeouts, Unit::Count),
    ("tcp.recoveries", FlowField::Recoveries, Unit::Count),
    ("tcp.window", FlowField::Window, Unit::Bytes),
    ("tcp.smoothed_rtt", FlowField::SmoothedRtt, Unit::Seconds),
    ("transfers.completed", FlowField::Completed, Unit::Count),
    ("transfers.bytes", FlowField::TransferBytes, Unit::Bytes),
    ("transfers.throughput", FlowField::TransferThroughput, Unit::BitsPerSecond),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Count,
    Mean,
    Min,
    Max,
    Deviation,
    /// Place in [`Distribution::percentiles`].
    Percentile(usize),
}

const STATISTICS: [(&str, Statistic); 9] = [
    ("count", Statistic::Count),
    ("mean", Statistic::Mean),
    ("min", Statistic::Min),
    ("max", Statistic::Max),
    ("deviation", Statistic::Deviation),
    ("p50", Statistic::Percentile(0)),
    ("p90", Statistic::Percentile(1)),
    ("p99", Statistic::Percentile(2)),
    ("p99.9", Statistic::Percentile(3)),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum LinkField {
    Packets,
    Bytes,
    Load,
    Dropped,
    QueueMean,
    QueueMax,
}

const LINK_FIELDS: [(&str, LinkField, Unit); 6] = [
    ("packets", LinkField::Packets, Unit::Count),
    ("bytes", LinkField::Bytes, Unit::Bytes),
    ("load", LinkField::Load, Unit::None),
    ("dropped", LinkField::Dropped, Unit::Count),
    ("queue_mean", LinkField::QueueMean, Unit::Bytes),
    ("queue_max", LinkField::QueueMax, Unit::Bytes),
];

#[derive(Clone, Debug, PartialEq)]
enum RingField {
    Whole(RingTotal),
    /// Of limiters whose name is so.
    Limit(String, LimitField),
    /// Of ways whose name is so.
    Way(String, WayField),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RingTotal {
    /// Until the last limiter has settled.
    Converged,
    /// Of the limiter with most.
    Oscillation,
    Restored,
    Dropped,
    ControlSent,
    ControlTaken,
    ControlLost,
    ControlUnheard,
    ControlCorrupted,
    Refused,
}

const RING_TOTALS: [(&str, RingTotal, Unit); 10] = [
    ("converged", RingTotal::Converged, Unit::Seconds),
    ("oscillation", RingTotal::Oscillation, Unit::None),
    ("restored", RingTotal::Restored, Unit::Seconds),
    ("dropped", RingTotal::Dropped, Unit::Count),
    ("control.sent", RingTotal::ControlSent, Unit::Count),
    ("control.taken", RingTotal::ControlTaken, Unit::Count),
    ("control.lost", RingTotal::ControlLost, Unit::Count),
    ("control.unheard", RingTotal::ControlUnheard, Unit::Count),
    ("control.corrupted", RingTotal::ControlCorrupted, Unit::Count),
    ("control.refused", RingTotal::Refused, Unit::Count),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum LimitField {
    Last,
    Mean,
    Min,
    Max,
    Settled,
    Converged,
    Oscillation,
    Changes,
}

const LIMIT_FIELDS: [(&str, LimitField, Unit); 8] = [
    ("last", LimitField::Last, Unit::BitsPerSecond),
    ("mean", LimitField::Mean, Unit::BitsPerSecond),
    ("min", LimitField::Min, Unit::BitsPerSecond),
    ("max", LimitField::Max, Unit::BitsPerSecond),
    ("settled", LimitField::Settled, Unit::BitsPerSecond),
    ("converged", LimitField::Converged, Unit::Seconds),
    ("oscillation", LimitField::Oscillation, Unit::None),
    ("changes", LimitField::Changes, Unit::Count),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum WayField {
    Packets,
    Bytes,
    Load,
    Control,
    ControlLoad,
    TransitMax,
    AheadMax,
}

const WAY_FIELDS: [(&str, WayField, Unit); 7] = [
    ("packets", WayField::Packets, Unit::Count),
    ("bytes", WayField::Bytes, Unit::Bytes),
    ("load", WayField::Load, Unit::None),
    ("control", WayField::Control, Unit::Count),
    ("control_load", WayField::ControlLoad, Unit::None),
    ("transit_max", WayField::TransitMax, Unit::Bytes),
    ("ahead_max", WayField::AheadMax, Unit::Bytes),
];

/// Names of a kind that a metric refers to, for checking before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refers<'a> {
    Flow(&'a str),
    Link(&'a str),
    Bond(&'a str),
    Ring(&'a str),
    /// Needs `metrics.delay`.
    Percentiles,
    /// Needs `metrics.reordering`.
    Reordering,
}

impl Metric {
    /// Reads a metric.
    ///
    /// # Errors
    /// [`MetricError::Grammar`] with what stands where and what would be right.
    pub fn parse(text: &str) -> Result<Metric, MetricError> {
        let mut parser = Parser { text, tokens: tokens(text), depth: 0 };
        let (root, unit, many) = parser.sum()?;
        match parser.tokens.last() {
            Some(token) => Err(parser.wrong(token, "an operator with spaces around it, or the end")),
            None if many => Err(parser.wrong("`*`", "a function over the paths with `*`, such as sum(…)")),
            None => Ok(Metric { text: text.to_owned(), root, unit }),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What its values count.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Its value in the results of a run.
    ///
    /// # Errors
    /// [`MetricError::Absent`] where the results do not have what it names.
    pub fn value(&self, results: &Results) -> Result<f64, MetricError> {
        let mut values = Vec::new();
        evaluate(&self.root, results, &mut values)?;
        Ok(values.first().copied().unwrap_or(f64::NAN))
    }

    /// What it refers to.
    pub(super) fn refers(&self) -> Vec<Refers<'_>> {
        let mut found = Vec::new();
        refers(&self.root, &mut found);
        found
    }
}

/// Whether `name` is what `pattern` stands for; `*` is any letters.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
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

fn refers<'a>(node: &'a Node, found: &mut Vec<Refers<'a>>) {
    match node {
        Node::Number(_) | Node::Path(Path::Total(_)) => {}
        Node::Path(Path::Flow(name, field)) => {
            found.push(Refers::Flow(name));
            match field {
                FlowField::ReorderingRatio
                | FlowField::BelowHighest
                | FlowField::NReordering(_)
                | FlowField::ReorderingExtent(_) => found.push(Refers::Reordering),
                FlowField::Delay(Statistic::Percentile(_)) | FlowField::Jitter(Statistic::Percentile(_)) => {
                    found.push(Refers::Percentiles);
                }
                _ => {}
            }
        }
        Node::Path(Path::Link(name, _)) => found.push(Refers::Link(name)),
        Node::Path(Path::Bond(name, _)) => found.push(Refers::Bond(name)),
        Node::Path(Path::Ring(name, _)) => found.push(Refers::Ring(name)),
        Node::Call(_, inner) => inner.iter().for_each(|node| refers(node, found)),
        Node::Binary(_, left, right) => {
            refers(left, found);
            refers(right, found);
        }
    }
}

/// The tokens, last first: single characters `()` and `,`, and words.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '(' | ')' | ',' => 1,
            _ => rest.find(|c: char| c.is_whitespace() || "(),".contains(c)).unwrap_or(rest.len()),
        };
        found.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    found.reverse();
    found
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<&'a str>,
    depth: u32,
}

/// A node, its unit, and whether it stands for several values.
type Parsed = (Node, Unit, bool);

impl<'a> Parser<'a> {
    fn wrong(&self, found: &str, expected: impl Into<String>) -> MetricError {
        MetricError::Grammar { metric: self.text.into(), found: found.into(), expected: expected.into() }
    }

    fn sum(&mut self) -> Result<Parsed, MetricError> {
        self.operators(&["+", "-"], Parser::product)
    }

    fn product(&mut self) -> Result<Parsed, MetricError> {
        self.operators(&["*", "/"], Parser::term)
    }

    fn operators(
        &mut self,
        known: &[&str],
        operand: fn(&mut Parser<'a>) -> Result<Parsed, MetricError>,
    ) -> Result<Parsed, MetricError> {
        let mut left = operand(self)?;
        while let Some(&operator) = self.tokens.last()
            && known.contains(&operator)
        {
            self.tokens.pop();
            let right = operand(self)?;
            if left.2 || right.2 {
                return Err(self.wrong("`*` beside an operator", "a function over the paths with `*`, such as sum(…)"));
            }
            let unit = self.unit_of(operator, left.1, right.1)?;
            let operator = operator.chars().next().unwrap_or('+');
            left = (Node::Binary(operator, Box::new(left.0), Box::new(right.0)), unit, false);
        }
        Ok(left)
    }

    fn unit_of(&self, operator: &str, left: Unit, right: Unit) -> Result<Unit, MetricError> {
        match (operator, left, right) {
            (_, left, right) if left == right && operator != "*" => Ok(if operator == "/" { Unit::None } else { left }),
            ("*", unit, Unit::None) | ("*", Unit::None, unit) | ("/", unit, Unit::None) => Ok(unit),
            ("/", Unit::Bytes, Unit::Count) => Ok(Unit::Bytes),
            _ => {
                let found = format!("`{operator}` between {left:?} and {right:?}");
                Err(self.wrong(&found, "two values of one unit, or a plain number"))
            }
        }
    }

    fn term(&mut self) -> Result<Parsed, MetricError> {
        const EXPECTED: &str = "a number, a path such as flow.NAME.goodput, a function or `(`";
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong("many parentheses", format!("at most {DEEPEST} in one another")));
        }
        let Some(word) = self.tokens.pop() else { return Err(self.wrong("the end", EXPECTED)) };
        let parsed = if word == "(" {
            let inner = self.sum()?;
            self.expect(")")?;
            inner
        } else if let Some(function) = function(word)
            && self.tokens.last() == Some(&"(")
        {
            self.tokens.pop();
            self.call(function)?
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            let number = word.parse().ok().filter(|number: &f64| number.is_finite());
            (Node::Number(number.ok_or_else(|| self.wrong(&format!("`{word}`"), EXPECTED))?), Unit::None, false)
        } else {
            self.path(word)?
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn expect(&mut self, token: &str) -> Result<(), MetricError> {
        match self.tokens.pop() {
            Some(found) if found == token => Ok(()),
            Some(found) => Err(self.wrong(&format!("`{found}`"), format!("`{token}`"))),
            None => Err(self.wrong("the end", format!("`{token}`"))),
        }
    }

    fn call(&mut self, function: Function) -> Result<Parsed, MetricError> {
        let mut inner = Vec::new();
        let mut unit = None;
        loop {
            let (node, its_unit, _) = self.sum()?;
            if unit.is_some_and(|unit| unit != its_unit) {
                return Err(self.wrong("values of different units in one function", "one unit"));
            }
            unit = Some(its_unit);
            inner.push(node);
            if self.tokens.last() != Some(&",") {
                break;
            }
            self.tokens.pop();
        }
        self.expect(")")?;
        let unit = match function {
            Function::Jain => Unit::None,
            Function::Count => Unit::Count,
            _ => unit.unwrap_or(Unit::None),
        };
        Ok((Node::Call(function, inner), unit, false))
    }

    fn path(&self, word: &str) -> Result<Parsed, MetricError> {
        if let Some(&(_, total, unit)) = TOTALS.iter().find(|(name, ..)| *name == word) {
            return Ok((Node::Path(Path::Total(total)), unit, false));
        }
        let parts = word.split_once('.').and_then(|(kind, rest)| Some((kind, rest.split_once('.')?)));
        let Some((kind, (name, field))) = parts else {
            let totals: Vec<&str> = TOTALS.iter().map(|total| total.0).collect();
            let expected =
                format!("flow.NAME.…, link.NAME.…, bond.NAME/END.…, ring.NAME.…, or one of {}", totals.join(", "));
            return Err(self.wrong(&format!("`{word}`"), expected));
        };
        let many = name.contains('*');
        let owned = name.to_owned();
        let (path, unit) = match kind {
            "flow" => {
                let (field, unit) = flow_field(field).ok_or_else(|| {
                    let names: Vec<&str> = FLOW_FIELDS.iter().map(|field| field.0).collect();
                    let expected = format!(
                        "a flow's {}, or STATISTIC of delay., jitter., reordering.extent., transfers.duration.",
                        names.join(", ")
                    );
                    self.wrong(&format!("`{field}`"), expected)
                })?;
                (Path::Flow(owned, field), unit)
            }
            "link" => {
                let found = LINK_FIELDS.iter().find(|(known, ..)| *known == field);
                let &(_, field, unit) = found.ok_or_else(|| {
                    let names: Vec<&str> = LINK_FIELDS.iter().map(|field| field.0).collect();
                    self.wrong(&format!("`{field}`"), format!("a link's {}", names.join(", ")))
                })?;
                (Path::Link(owned, field), unit)
            }
            "bond" => {
                let unit = if field == "held_max" { Unit::Bytes } else { Unit::Count };
                (Path::Bond(owned, field.to_owned()), unit)
            }
            "ring" => {
                let many = many || field.contains('*');
                let (field, unit) =
                    ring_field(field).ok_or_else(|| self.wrong(&format!("`{field}`"), ring_fields()))?;
                return Ok((Node::Path(Path::Ring(owned, field)), unit, many));
            }
            _ => return Err(self.wrong(&format!("`{kind}`"), "flow, link, bond or ring")),
        };
        Ok((Node::Path(path), unit, many))
    }
}

fn function(word: &str) -> Option<Function> {
    Some(match word {
        "sum" => Function::Sum,
        "mean" => Function::Mean,
        "min" => Function::Min,
        "max" => Function::Max,
        "jain" => Function::Jain,
        "count" => Function::Count,
        _ => return None,
    })
}

fn flow_field(text: &str) -> Option<(FlowField, Unit)> {
    if let Some(&(_, field, unit)) = FLOW_FIELDS.iter().find(|(name, ..)| *name == text) {
        return Some((field, unit));
    }
    if let Some(n) = text.strip_prefix("reordering.n") {
        let n: usize = n.parse().ok().filter(|n| (1..=1000).contains(n))?;
        return Some((FlowField::NReordering(n), Unit::None));
    }
    type Distributed = (&'static str, fn(Statistic) -> FlowField, Unit);
    const DISTRIBUTIONS: [Distributed; 4] = [
        ("delay.", FlowField::Delay, Unit::Seconds),
        ("jitter.", FlowField::Jitter, Unit::Seconds),
        ("reordering.extent.", FlowField::ReorderingExtent, Unit::Count),
        ("transfers.duration.", FlowField::TransferDuration, Unit::Seconds),
    ];
    DISTRIBUTIONS.iter().find_map(|(prefix, field, unit)| {
        let rest = text.strip_prefix(prefix)?;
        let &(_, statistic) = STATISTICS.iter().find(|(name, _)| *name == rest)?;
        Some((field(statistic), if matches!(statistic, Statistic::Count) { Unit::Count } else { *unit }))
    })
}

fn ring_field(text: &str) -> Option<(RingField, Unit)> {
    if let Some(&(_, total, unit)) = RING_TOTALS.iter().find(|(name, ..)| *name == text) {
        return Some((RingField::Whole(total), unit));
    }
    let (kind, rest) = text.split_once('.')?;
    let (name, field) = rest.split_once('.')?;
    match kind {
        "limit" => {
            let &(_, field, unit) = LIMIT_FIELDS.iter().find(|(known, ..)| *known == field)?;
            Some((RingField::Limit(name.to_owned(), field), unit))
        }
        "link" => {
            let &(_, field, unit) = WAY_FIELDS.iter().find(|(known, ..)| *known == field)?;
            Some((RingField::Way(name.to_owned(), field), unit))
        }
        _ => None,
    }
}

/// What there is of a ring, for errors.
fn ring_fields() -> String {
    let totals: Vec<&str> = RING_TOTALS.iter().map(|field| field.0).collect();
    let limits: Vec<&str> = LIMIT_FIELDS.iter().map(|field| field.0).collect();
    let ways: Vec<&str> = WAY_FIELDS.iter().map(|field| field.0).collect();
    let (totals, limits, ways) = (totals.join(", "), limits.join(", "), ways.join(", "));
    format!("a ring's {totals}; limit.FROM-TO. and {limits}; or link.NUMBER. or link.NUMBER/1. and {ways}")
}

fn evaluate(node: &Node, results: &Results, values: &mut Vec<f64>) -> Result<(), MetricError> {
    match node {
        Node::Number(number) => values.push(*number),
        Node::Path(path) => collect(path, results, values)?,
        Node::Call(function, inner) => {
            let mut list = Vec::new();
            for node in inner {
                evaluate(node, results, &mut list)?;
            }
            values.push(apply(*function, &list));
        }
        Node::Binary(operator, left, right) => {
            let mut pair = Vec::with_capacity(2);
            evaluate(left, results, &mut pair)?;
            evaluate(right, results, &mut pair)?;
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

fn apply(function: Function, list: &[f64]) -> f64 {
    let sum: f64 = list.iter().sum();
    let count = list.len() as f64;
    match function {
        Function::Sum => sum,
        Function::Mean => sum / count,
        Function::Min => list.iter().copied().fold(f64::INFINITY, f64::min),
        Function::Max => list.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        // Jain, Chiu, Hawe 1984: (sum x)^2 / (n sum x^2).
        Function::Jain => sum * sum / (count * list.iter().map(|value| value * value).sum::<f64>()),
        Function::Count => count,
    }
}

fn collect(path: &Path, results: &Results, values: &mut Vec<f64>) -> Result<(), MetricError> {
    let before = values.len();
    let mut hint = "";
    match path {
        Path::Total(total) => values.push(total_of(*total, results)),
        Path::Flow(pattern, field) => {
            for flow in results.flows.iter().filter(|flow| matches(pattern, &flow.name)) {
                match flow_value(flow, *field) {
                    Ok(value) => values.push(value),
                    Err(why) => hint = why,
                }
            }
        }
        Path::Link(pattern, field) => {
            let links = results.links.iter().filter(|link| matches(pattern, &link.name));
            values.extend(links.map(|link| link_value(link, *field)));
        }
        Path::Bond(pattern, counter) => {
            hint = "; a bond's counters are called as in docs/status.md";
            for bond in results.bonds.iter().filter(|bond| matches(pattern, &bond.name)) {
                let counters = bond.counters.iter().find(|(name, _)| name == counter).map(|(_, value)| *value);
                let value = if counter == "held_max" { Some(bond.held_max) } else { counters };
                values.extend(value.map(|value| value as f64));
            }
        }
        Path::Ring(pattern, field) => {
            for ring in results.rings.iter().filter(|ring| matches(pattern, &ring.name)) {
                match field {
                    RingField::Whole(total) => values.extend(ring_value(ring, *total)),
                    RingField::Limit(name, field) => {
                        hint = "; limiters are those between nodes that flows join, such as limit.1-5";
                        let limits = ring.limits.iter().filter(|limit| matches(name, &limit.name));
                        values.extend(limits.map(|limit| limit_value(limit, *field)));
                    }
                    RingField::Way(name, field) => {
                        hint = "; a ring's links have numbers from 1, and /1 is ringlet 1";
                        let ways = ring.links.iter().filter(|way| matches(name, &way.name));
                        values.extend(ways.map(|way| way_value(way, *field)));
                    }
                }
            }
        }
    }
    if values.len() > before { Ok(()) } else { Err(MetricError::Absent { path: path.show(), hint }) }
}

impl Path {
    fn show(&self) -> String {
        match self {
            Path::Total(total) => TOTALS.iter().find(|known| known.1 == *total).map_or("", |known| known.0).into(),
            Path::Flow(name, field) => format!("flow.{name}: {field:?}"),
            Path::Link(name, field) => format!("link.{name}: {field:?}"),
            Path::Bond(name, counter) => format!("bond.{name}.{counter}"),
            Path::Ring(name, RingField::Whole(total)) => {
                let field = RING_TOTALS.iter().find(|known| known.1 == *total).map_or("", |known| known.0);
                format!("ring.{name}.{field}")
            }
            Path::Ring(name, RingField::Limit(pair, _)) => format!("ring.{name}.limit.{pair}"),
            Path::Ring(name, RingField::Way(way, _)) => format!("ring.{name}.link.{way}"),
        }
    }
}

fn total_of(total: Total, results: &Results) -> f64 {
    match total {
        Total::Jain => results.jain,
        Total::Goodput => results.goodput,
        Total::Events => results.events as f64,
        Total::Sent => results.conservation.sent as f64,
        Total::Delivered => results.conservation.delivered as f64,
        Total::Dropped => results.conservation.dropped.iter().map(|dropped| dropped.packets).sum::<u64>() as f64,
        Total::InFlight => results.conservation.in_flight as f64,
    }
}

fn statistic(distribution: &Distribution, statistic: Statistic) -> Result<f64, &'static str> {
    Ok(match statistic {
        Statistic::Count => distribution.count as f64,
        Statistic::Mean => distribution.mean,
        Statistic::Min => distribution.min,
        Statistic::Max => distribution.max,
        Statistic::Deviation => distribution.deviation,
        Statistic::Percentile(place) => match distribution.percentiles {
            Some(percentiles) => percentiles[place],
            None => return Err("; percentiles need `delay = true` in [metrics]"),
        },
    })
}

fn flow_value(flow: &FlowResult, field: FlowField) -> Result<f64, &'static str> {
    let reordering = || flow.reordering.as_ref().ok_or("; it needs `reordering = true` in [metrics]");
    let tcp = || flow.tcp.as_ref().ok_or("; the flow has no TCP");
    let transfers = || flow.transfers.as_ref().ok_or("; the flow has no transfers");
    Ok(match field {
        FlowField::Goodput => flow.goodput,
        FlowField::Throughput => flow.throughput,
        FlowField::Sent => flow.sent as f64,
        FlowField::Received => flow.received as f64,
        FlowField::Dropped => flow.dropped as f64,
        FlowField::Loss if flow.sent == 0 => 0.0,
        FlowField::Loss => flow.dropped as f64 / flow.sent as f64,
        FlowField::Delay(wanted) => statistic(&flow.delay, wanted)?,
        FlowField::Jitter(wanted) => statistic(&flow.jitter, wanted)?,
        FlowField::ReorderingRatio => reordering()?.ratio,
        FlowField::ReorderingExtent(wanted) => statistic(&reordering()?.extent, wanted)?,
        FlowField::BelowHighest => reordering()?.below_highest,
        FlowField::NReordering(n) => reordering()?.n_reordering.get(n - 1).copied().unwrap_or(0.0),
        FlowField::Retransmitted => tcp()?.retransmitted as f64,
        FlowField::Timeouts => tcp()?.timeouts as f64,
        FlowField::Recoveries => tcp()?.recoveries as f64,
        FlowField::Window => tcp()?.window as f64,
        FlowField::SmoothedRtt => tcp()?.smoothed_rtt,
        FlowField::Completed => transfers()?.completed as f64,
        FlowField::TransferBytes => transfers()?.bytes as f64,
        FlowField::TransferThroughput => {
            let transfers = transfers()?;
            // None is complete: nothing came through.
            if transfers.elapsed_s > 0.0 { 8.0 * transfers.bytes as f64 / transfers.elapsed_s } else { 0.0 }
        }
        FlowField::TransferDuration(wanted) => statistic(&transfers()?.duration, wanted)?,
    })
}

fn link_value(link: &LinkResult, field: LinkField) -> f64 {
    match field {
        LinkField::Packets => link.packets as f64,
        LinkField::Bytes => link.bytes as f64,
        LinkField::Load => link.load,
        LinkField::Dropped => link.dropped as f64,
        LinkField::QueueMean => link.queue_mean,
        LinkField::QueueMax => link.queue_max as f64,
    }
}

/// `None` where a ring without limiters, or without failures, has no such value.
fn ring_value(ring: &RingResult, total: RingTotal) -> Option<f64> {
    let control = &ring.control;
    Some(match total {
        RingTotal::Converged => {
            let times = ring.limits.iter().map(|limit| limit.converged_s.unwrap_or(f64::INFINITY));
            return times.reduce(f64::max);
        }
        RingTotal::Oscillation => return ring.limits.iter().map(|limit| limit.oscillation).reduce(f64::max),
        RingTotal::Restored => return ring.restored_s,
        RingTotal::Dropped => ring.dropped.iter().map(|dropped| dropped.packets).sum::<u64>() as f64,
        RingTotal::ControlSent => control.sent as f64,
        RingTotal::ControlTaken => control.taken as f64,
        RingTotal::ControlLost => control.lost as f64,
        RingTotal::ControlUnheard => control.unheard as f64,
        RingTotal::ControlCorrupted => control.corrupted as f64,
        RingTotal::Refused => control.refused.iter().map(|refused| refused.messages).sum::<u64>() as f64,
    })
}

fn limit_value(limit: &LimitResult, field: LimitField) -> f64 {
    match field {
        LimitField::Last => limit.last,
        LimitField::Mean => limit.mean,
        LimitField::Min => limit.min,
        LimitField::Max => limit.max,
        LimitField::Settled => limit.settled,
        LimitField::Converged => limit.converged_s.unwrap_or(f64::INFINITY),
        LimitField::Oscillation => limit.oscillation,
        LimitField::Changes => limit.changes as f64,
    }
}

fn way_value(way: &RingLinkResult, field: WayField) -> f64 {
    match field {
        WayField::Packets => way.packets as f64,
        WayField::Bytes => way.bytes as f64,
        WayField::Load => way.load,
        WayField::Control => way.control as f64,
        WayField::ControlLoad => way.control_load,
        WayField::TransitMax => way.transit_max as f64,
        WayField::AheadMax => way.ahead_max as f64,
    }
}
