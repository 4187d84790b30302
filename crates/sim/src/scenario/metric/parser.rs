//! The grammar of metrics.

use super::expression::{FlowField, Function, MetricError, Node, Path, Samples};
use super::table::{self, Unit};
use crate::traffic::workload::MOST_CLASSES;

/// Nesting at most.
const DEEPEST: u32 = 32;

/// What a text means that stands for one value, and what it counts.
pub(super) fn parse(text: &str) -> Result<(Node, Unit), MetricError> {
    match (Parser { text, tokens: tokens(text), depth: 0 }).whole()? {
        (root, unit, false) => Ok((root, unit)),
        (.., true) => {
            let parser = Parser { text, tokens: Vec::new(), depth: 0 };
            Err(parser.wrong("`*`", "a function over the paths with `*`, such as sum(…)"))
        }
    }
}

/// The same of a text that may stand for several values.
pub(super) fn parse_several(text: &str) -> Result<(Node, Unit), MetricError> {
    let (root, unit, _) = Parser { text, tokens: tokens(text), depth: 0 }.whole()?;
    Ok((root, unit))
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

    fn whole(mut self) -> Result<Parsed, MetricError> {
        let parsed = self.sum()?;
        match self.tokens.last() {
            Some(token) => Err(self.wrong(token, "an operator with spaces around it, or the end")),
            None => Ok(parsed),
        }
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
        } else if let Some(share) = percentile(word)
            && self.tokens.last() == Some(&"(")
        {
            self.tokens.pop();
            self.percentile(share)?
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

    /// A percentile of all samples of a spread, or of the values of what a `*` stands for.
    fn percentile(&mut self, share: f64) -> Result<Parsed, MetricError> {
        let spread = self.tokens.last().and_then(|word| spread(word));
        let (samples, unit) = match spread {
            Some(found) => {
                self.tokens.pop();
                found
            }
            None => {
                let (node, unit, _) = self.sum()?;
                (Samples::Values(node), unit)
            }
        };
        self.expect(")")?;
        Ok((Node::Percentile(share, Box::new(samples)), unit, false))
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
        if let Some(total) = table::find(&table::TOTALS, word) {
            return Ok((Node::Path(Path::Total(total)), total.unit, false));
        }
        let parts = word.split_once('.').and_then(|(kind, rest)| Some((kind, rest.split_once('.')?)));
        let Some((kind, (name, field))) = parts else {
            let totals = table::names(&table::TOTALS);
            let expected = format!(
                "flow.NAME.…, link.NAME.…, bond.NAME/END.…, ring.NAME.…, split.NAME.…, medium.NAME.…, or one of {totals}"
            );
            return Err(self.wrong(&format!("`{word}`"), expected));
        };
        let found = match kind {
            "flow" => flow(name, field).ok_or_else(flow_fields),
            "link" => table::find(&table::LINK, field)
                .map(|field| (Path::Link(name.to_owned(), field), field.unit))
                .ok_or_else(|| format!("a link's {}", table::names(&table::LINK))),
            "bond" => {
                let unit = if field == "held_max" { Unit::Bytes } else { Unit::Count };
                Ok((Path::Bond(name.to_owned(), field.to_owned()), unit))
            }
            "ring" => ring(name, field).ok_or_else(ring_fields),
            "split" => table::find(&table::SPLIT, field)
                .map(|field| (Path::Split(name.to_owned(), field), field.unit))
                .ok_or_else(|| format!("a splitting gateway's {}", table::names(&table::SPLIT))),
            "medium" => table::find(&table::MEDIUM, field)
                .map(|field| (Path::Medium(name.to_owned(), field), field.unit))
                .ok_or_else(|| format!("a medium's {}", table::names(&table::MEDIUM))),
            _ => return Err(self.wrong(&format!("`{kind}`"), "flow, link, bond, ring, split or medium")),
        };
        let (path, unit) = found.map_err(|expected| self.wrong(&format!("`{field}`"), expected))?;
        // A counter's name is no pattern.
        let many = name.contains('*') || (kind == "ring" && field.contains('*'));
        Ok((Node::Path(path), unit, many))
    }
}

/// The share of a percentile by its name.
fn percentile(word: &str) -> Option<f64> {
    Some(match word {
        "p50" => 0.5,
        "p90" => 0.9,
        "p95" => 0.95,
        "p99" => 0.99,
        "p99.9" => 0.999,
        _ => return None,
    })
}

/// `flow.NAME.` and a spread: all its samples, and what they count.
pub(super) fn spread(text: &str) -> Option<(Samples, Unit)> {
    let (name, what) = text.strip_prefix("flow.")?.split_once('.')?;
    let of = |prefix: &str| prefix.strip_suffix('.') == Some(what);
    if let Some(spread) = table::SPREADS.iter().find(|spread| of(spread.prefix)) {
        return Some((Samples::Spread(name.to_owned(), spread), spread.samples_unit()));
    }
    let (number, what) = class(what)?;
    let spread = table::CLASS.iter().find(|spread| spread.prefix.strip_suffix('.') == Some(what))?;
    Some((Samples::Class(name.to_owned(), number, spread), spread.unit))
}

/// The number of a class of sizes, and what follows it.
fn class(text: &str) -> Option<(usize, &str)> {
    let (number, rest) = text.strip_prefix("transfers.class")?.split_once('.')?;
    Some((number.parse().ok().filter(|number| *number < MOST_CLASSES)?, rest))
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

fn flow(name: &str, text: &str) -> Option<(Path, Unit)> {
    let (field, unit) = flow_field(text)?;
    Some((Path::Flow(name.to_owned(), field), unit))
}

fn flow_field(text: &str) -> Option<(FlowField, Unit)> {
    if let Some(field) = table::find(&table::FLOW, text) {
        return Some((FlowField::Plain(field), field.unit));
    }
    if let Some(n) = text.strip_prefix("reordering.n") {
        let n: usize = n.parse().ok().filter(|n| (1..=table::MOST_N).contains(n))?;
        return Some((FlowField::NReordering(n), Unit::None));
    }
    if let Some((number, rest)) = class(text) {
        return table::CLASS.iter().find_map(|spread| {
            let statistic = table::find(&table::STATISTICS, rest.strip_prefix(spread.prefix)?)?;
            let unit = if statistic.unit == Unit::Count { Unit::Count } else { spread.unit };
            Some((FlowField::Class(number, spread, statistic), unit))
        });
    }
    table::SPREADS.iter().find_map(|spread| {
        let statistic = table::find(&table::STATISTICS, text.strip_prefix(spread.prefix)?)?;
        Some((FlowField::Statistic(spread, statistic), spread.unit(statistic)))
    })
}

/// What there is of a flow, for errors.
fn flow_fields() -> String {
    let spreads: Vec<&str> = table::SPREADS.iter().map(|spread| spread.prefix).collect();
    let classes: Vec<String> =
        table::CLASS.iter().map(|spread| format!("transfers.classN.{}", spread.prefix)).collect();
    let (fields, spreads) = (table::names(&table::FLOW), [spreads.join(", "), classes.join(", ")].join(", "));
    format!("a flow's {fields}, or STATISTIC of {spreads}")
}

fn ring(name: &str, text: &str) -> Option<(Path, Unit)> {
    let name = name.to_owned();
    if let Some(field) = table::find(&table::RING, text) {
        return Some((Path::Ring(name, field), field.unit));
    }
    let (kind, rest) = text.split_once('.')?;
    let (part, field) = rest.split_once('.')?;
    match kind {
        "limit" => {
            let field = table::find(&table::LIMIT, field)?;
            Some((Path::Limit(name, part.to_owned(), field), field.unit))
        }
        "link" => {
            let field = table::find(&table::WAY, field)?;
            Some((Path::Way(name, part.to_owned(), field), field.unit))
        }
        _ => None,
    }
}

/// What there is of a ring, for errors.
fn ring_fields() -> String {
    let totals = table::names(&table::RING);
    let (limits, ways) = (table::names(&table::LIMIT), table::names(&table::WAY));
    format!("a ring's {totals}; limit.FROM-TO. and {limits}; or link.NUMBER. or link.NUMBER/1. and {ways}")
}
