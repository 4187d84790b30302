//! Values that differ from copy to copy: `{ each = […] }` and `{ formula = "…" }`.
//!
//! A table with `count` copies and such a value becomes as many tables with one copy each, before anything else is read. So every
//! reader has it, and errors are told as of any table.

use super::error::Problem;
use super::form::Errors;
use super::value::{Entry, Kind, Table, Value};
use fairspan_core::quantity::parse_span;
use fairspan_core::units::Span;

/// Tables of which copies are made.
const TABLES: [&str; 8] = ["node", "medium", "link", "bond", "reliable", "ring", "split", "flow"];
/// Most copies that may differ.
const MOST: u64 = 100_000;
/// Nesting at most, of tables and of formulas.
const DEEPEST: u32 = 32;
const EXPECTED: &str = "a list with a value for each copy, in turn, such as { each = [\"1ms\", \"5ms\"] }";
const FORMULA: &str = "numbers, # for the number of the copy, + - * / %, and parentheses, such as { formula = \"5 + 2 * #\", unit = \"ms\" }";

/// The document with all copies that differ made; `None` where none do.
pub(super) fn expand(root: &Table, errors: &mut Errors<'_>) -> Option<Table> {
    let differs = |entry: &&Entry| TABLES.contains(&entry.key.as_str()) && differs(&entry.value, 0);
    root.entries.iter().find(differs)?;
    let mut expanded = root.clone();
    let mut made = 0;
    for entry in expanded.entries.iter_mut().filter(|entry| TABLES.contains(&entry.key.as_str())) {
        let Kind::List(list) = &mut entry.value.kind else { continue };
        let mut all = Vec::with_capacity(list.len());
        for (place, value) in std::mem::take(list).into_iter().enumerate() {
            match &value.kind {
                Kind::Table(table) if differs_table(table, 0) => {
                    copies(table, &format!("{}.{}", entry.key, name(table, place)), &mut made, &mut all, errors)
                }
                _ => all.push(value),
            }
        }
        *list = all;
    }
    Some(expanded)
}

/// How many values there are in a table.
fn size_of_table(table: &Table) -> u64 {
    table.entries.iter().map(|entry| size_of(&entry.value)).sum()
}

fn size_of(value: &Value) -> u64 {
    match &value.kind {
        Kind::List(list) => 1 + list.iter().map(size_of).sum::<u64>(),
        Kind::Table(table) => 1 + size_of_table(table),
        _ => 1,
    }
}

/// When this copy starts, where the table says by how much copies are apart: it is the only one of its table.
fn staggered(table: &Table, place: u64) -> Option<String> {
    let span = |key: &str| match &table.get(key)?.value.kind {
        Kind::Text(text) => parse_span(text).ok(),
        _ => None,
    };
    let start = if table.get("start").is_some() { span("start")? } else { Span::ZERO };
    let nanos = u128::from(span("stagger")?.as_nanos()) * u128::from(place) + u128::from(start.as_nanos());
    Some(format!("{nanos}ns"))
}

fn name(table: &Table, place: usize) -> String {
    match table.get("name").map(|entry| &entry.value.kind) {
        Some(Kind::Text(name)) => name.clone(),
        _ => place.to_string(),
    }
}

/// What a value that differs is made of.
fn special(table: &Table) -> Option<&Entry> {
    table.entries.iter().find(|entry| matches!(entry.key.as_str(), "each" | "formula"))
}

fn differs_table(table: &Table, depth: u32) -> bool {
    table.entries.iter().any(|entry| differs(&entry.value, depth + 1))
}

fn differs(value: &Value, depth: u32) -> bool {
    match &value.kind {
        _ if depth > DEEPEST => false,
        Kind::Table(table) => special(table).is_some() || differs_table(table, depth),
        Kind::List(list) => list.iter().any(|value| differs(value, depth + 1)),
        _ => false,
    }
}

fn integer(table: &Table, key: &str, usual: u64) -> Option<u64> {
    match table.get(key).map(|entry| &entry.value.kind) {
        None => Some(usual),
        Some(Kind::Integer(number)) => u64::try_from(*number).ok(),
        Some(_) => None,
    }
}

/// All copies of a table.
fn copies(table: &Table, path: &str, made: &mut u64, all: &mut Vec<Value>, errors: &mut Errors<'_>) {
    let count = integer(table, "count", 1).filter(|count| *count > 0);
    let (Some(count), Some(first)) = (count, integer(table, "first", 0)) else {
        // What is wrong with them the reader says.
        all.push(Value { at: table.at, kind: Kind::Table(table.clone()) });
        return;
    };
    // A long list is copied with each.
    *made = made.saturating_add(count.saturating_mul(size_of_table(table).div_ceil(100)));
    if *made > MOST || first > 1_000_000_000 {
        let what = "copies that differ".to_owned();
        errors.add(table.at, path, Problem::TooMany { what, count: made.to_string(), most: MOST });
        return;
    }
    for copy in 0..count {
        let mut own = table.clone();
        let before = errors.count();
        for entry in &mut own.entries {
            put(&mut entry.value, [copy, first + copy], &format!("{path}.{}", entry.key), 0, errors);
        }
        if let Some(start) = staggered(&own, copy) {
            set(&mut own, "start", Kind::Text(start));
        }
        set(&mut own, "count", Kind::Integer(1));
        set(&mut own, "first", Kind::Integer((first + copy) as i64));
        all.push(Value { at: table.at, kind: Kind::Table(own) });
        if errors.count() > before {
            return;
        }
    }
}

fn set(table: &mut Table, key: &str, kind: Kind) {
    match table.entries.iter_mut().find(|entry| entry.key == key) {
        Some(entry) => entry.value.kind = kind,
        None => {
            let value = Value { at: table.at, kind };
            table.entries.push(Entry { key: key.to_owned(), at: table.at, value });
        }
    }
}

/// Puts what is meant for this copy in place of values that differ; the copy's place, and its number.
fn put(value: &mut Value, copy: [u64; 2], path: &str, depth: u32, errors: &mut Errors<'_>) {
    if depth > DEEPEST {
        return;
    }
    match &mut value.kind {
        Kind::List(list) => list.iter_mut().for_each(|value| put(value, copy, path, depth + 1, errors)),
        Kind::Table(table) => match special(table) {
            Some(_) => match chosen(table, copy) {
                Ok(kind) => value.kind = kind,
                Err((at, found, expected)) => errors.add(at, path, Problem::Value { found, expected }),
            },
            None => {
                for entry in &mut table.entries {
                    put(&mut entry.value, copy, &format!("{path}.{}", entry.key), depth + 1, errors);
                }
            }
        },
        _ => {}
    }
}

/// Where it is wrong, what was found, and what would be right.
type Wrong = (u32, String, String);

fn chosen(table: &Table, [place, number]: [u64; 2]) -> Result<Kind, Wrong> {
    match table.entries.as_slice() {
        [entry] if entry.key == "each" => match &entry.value.kind {
            Kind::List(list) if !list.is_empty() => Ok(list[(place % list.len() as u64) as usize].kind.clone()),
            _ => Err((entry.value.at, entry.value.found(), EXPECTED.to_owned())),
        },
        entries => {
            let text = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value);
            let known = entries.iter().all(|entry| matches!(entry.key.as_str(), "formula" | "unit"));
            let wrong = |value: &Value| (value.at, value.found(), FORMULA.to_owned());
            let Some(formula) = text("formula").filter(|_| known) else {
                return Err((table.at, "a table with other keys".to_owned(), format!("{EXPECTED}; or {FORMULA}")));
            };
            let unit = match text("unit").map(|value| (&value.kind, value)) {
                None => "",
                Some((Kind::Text(unit), _)) => unit.as_str(),
                Some((_, value)) => return Err(wrong(value)),
            };
            let Kind::Text(source) = &formula.kind else { return Err(wrong(formula)) };
            let result = evaluate(source, number as f64).ok_or_else(|| wrong(formula))?;
            if !result.is_finite() {
                return Err((
                    formula.at,
                    format!("{result} for copy {number}"),
                    "a formula that gives a number".to_owned(),
                ));
            }
            Ok(match unit {
                "" if result.fract() == 0.0 && result.abs() < 9e15 => Kind::Integer(result as i64),
                "" => Kind::Float(result),
                unit => Kind::Text(format!("{result}{unit}")),
            })
        }
    }
}

/// The value of a formula for a copy; `None` where it is none.
fn evaluate(text: &str, copy: f64) -> Option<f64> {
    let mut parser = Parser { rest: text, copy, depth: 0 };
    let value = parser.sum()?;
    parser.peek().is_none().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
    copy: f64,
    depth: u32,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, known: &str) -> Option<char> {
        let next = self.peek().filter(|next| known.contains(*next))?;
        self.rest = &self.rest[1..];
        Some(next)
    }

    fn sum(&mut self) -> Option<f64> {
        let mut value = self.product()?;
        while let Some(operator) = self.take("+-") {
            let other = self.product()?;
            value = if operator == '+' { value + other } else { value - other };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<f64> {
        let mut value = self.term()?;
        while let Some(operator) = self.take("*/%") {
            let other = self.term()?;
            value = match operator {
                '*' => value * other,
                '/' => value / other,
                _ => libm::fmod(value, other),
            };
        }
        Some(value)
    }

    fn term(&mut self) -> Option<f64> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let value = match self.take("(#-") {
            Some('(') => {
                let inner = self.sum()?;
                self.take(")")?;
                inner
            }
            Some('#') => self.copy,
            Some(_) => -self.term()?,
            None => {
                let end = self.rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(end);
                self.rest = rest;
                number.parse().ok()?
            }
        };
        self.depth -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_have_the_usual_precedence() {
        for (text, value) in [
            ("5 + 2 * #", 11.0),
            ("(5+2)*#", 21.0),
            ("# % 2 + 10 / 4", 3.5),
            ("-# + 1", -2.0),
            ("2 - -3", 5.0),
            ("1.5", 1.5),
            ("10 - 4 - 3", 3.0),
        ] {
            assert_eq!(evaluate(text, 3.0), Some(value), "{text}");
        }
        for text in ["", "1 +", "(1", "1)", "a", "1..2", "2 # 3", "%3", &"(".repeat(50)] {
            assert_eq!(evaluate(text, 3.0), None, "{text}");
        }
    }
}
