//! Whether an answer is still the one that was kept.
//!
//! A simulation gives the same to the last bit with the same seed, so whatever changed was changed by somebody. A value may
//! move by its stated noise, half of the interval over its seeds; what states none, by a millionth, which other libraries and
//! processors may make of sums. Up or down, holds or not, does not matter. Of the reason the words must be the same, and its numbers
//! within the largest relative noise that the answer states, or within a unit of their last digit.

use super::answer::Row;
use super::evidence::{Cell, Evidence};
use serde_json::{Map, Value};

/// What rounding may make of a value without noise, relative.
const ROUNDING: f64 = 1e-6;

/// What of `now` is not as it was `kept`; empty where nothing is.
pub(crate) fn changes(kept: &Row, now: &Row) -> Vec<String> {
    let mut found = Vec::new();
    if kept.verdict != now.verdict {
        found.push(format!("{} before, {} now", kept.verdict.name(), now.verdict.name()));
    }
    let none = Map::new();
    values(kept.ours.as_ref().unwrap_or(&none), now.ours.as_ref().unwrap_or(&none), &kept.noise, &mut found);
    values(&kept.bounded, &now.bounded, &none, &mut found);
    for (name, kept, now) in
        [("measured", &kept.measured, &now.measured), ("sensitivity", &kept.sensitivity, &now.sensitivity)]
    {
        if kept.len() != now.len() {
            found.push(format!("{name}: {} tables before, {} now", kept.len(), now.len()));
        }
        kept.iter().zip(now).for_each(|(kept, now)| tables(kept, now, &mut found));
    }
    let fitted = |row: &Row| row.calibrated.iter().map(|one| one.constant.clone()).collect::<Vec<_>>();
    if fitted(kept) != fitted(now) {
        found.push(format!("fitted before {:?}, now {:?}", fitted(kept), fitted(now)));
    }
    if !same_words(&kept.reason, &now.reason, loudest(kept)) {
        found.push(format!("it said before: {} -- and says now: {}", kept.reason, now.reason));
    }
    found
}

/// Whether a value is within the noise of the kept one.
fn within(kept: f64, now: f64, noise: f64) -> bool {
    (kept - now).abs() <= noise.max(ROUNDING * kept.abs())
}

fn values(kept: &Map<String, Value>, now: &Map<String, Value>, noise: &Map<String, Value>, found: &mut Vec<String>) {
    let keys = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    if keys(kept) != keys(now) {
        found.push(format!("values {:?} before, {:?} now", keys(kept), keys(now)));
        return;
    }
    for (key, before) in kept {
        let after = &now[key];
        let noise = noise.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let (old, new) = (list(before), list(after));
        let same = |(old, new): (&Value, &Value)| match (old.as_f64(), new.as_f64()) {
            (Some(old), Some(new)) => within(old, new, noise),
            _ => old == new,
        };
        if old.len() != new.len() || !old.iter().zip(&new).all(same) {
            found.push(format!("{key}: {before} before (noise {noise}), {after} now"));
        }
    }
}

fn tables(kept: &Evidence, now: &Evidence, found: &mut Vec<String>) {
    let at = |table: &Evidence| table.lines.iter().map(|line| line.at.clone()).collect::<Vec<_>>();
    if kept.of != now.of || kept.columns != now.columns || at(kept) != at(now) {
        found.push(format!("a table of {} before, of {} now, or with other lines or columns", kept.of, now.of));
        return;
    }
    for (before, after) in kept.lines.iter().zip(&now.lines) {
        for (n, column) in kept.columns.iter().enumerate() {
            let (old, new) = (before.cells.get(n).copied(), after.cells.get(n).copied());
            let same = match (old, new) {
                (Some(Cell(Some(old), noise)), Some(Cell(Some(new), _))) => within(old, new, noise.unwrap_or(0.0)),
                (Some(Cell(None, _)), Some(Cell(None, _))) => true,
                _ => false,
            };
            if !same {
                let text = |cell: Option<Cell>| cell.map_or_else(|| "nothing".to_owned(), Cell::text);
                found.push(format!("{}, {}, {column}: {} before, {} now", kept.of, before.at, text(old), text(new)));
            }
        }
    }
}

/// The largest relative noise that an answer states.
fn loudest(row: &Row) -> f64 {
    let share = |mean: f64, noise: f64| if mean == 0.0 { 0.0 } else { (noise / mean).abs() };
    let of_ours = row
        .noise
        .iter()
        .filter_map(|(key, noise)| Some(share(row.ours.as_ref()?.get(key)?.as_f64()?, noise.as_f64()?)));
    let cells = row.measured.iter().flat_map(|table| table.lines.iter().flat_map(|line| line.cells.iter()));
    let of_cells = cells.filter_map(|cell| Some(share(cell.0?, cell.1?)));
    of_ours.chain(of_cells).fold(0.0, f64::max)
}

/// What stands in a text.
#[derive(PartialEq)]
enum Part {
    /// Anything but a number.
    Words(String),
    /// A number, and what a unit of its last digit is.
    Number(f64, f64),
}

/// A text cut into words and the numbers among them.
fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut word, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        // The full stop behind a number ends the sentence.
        let number = rest[..length].trim_end_matches('.');
        if first.is_ascii_digit()
            && let Ok(value) = number.parse::<f64>()
        {
            let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            parts.push(Part::Words(std::mem::take(&mut word)));
            parts.push(Part::Number(value, 0.1_f64.powi(decimals as i32)));
            rest = &rest[number.len()..];
            continue;
        }
        word.push(first);
        rest = &rest[first.len_utf8()..];
    }
    parts.push(Part::Words(word));
    parts
}

/// Whether two texts differ at most in numbers, and those by no more than a share `noise` or a unit of the last digit.
fn same_words(kept: &str, now: &str, noise: f64) -> bool {
    let (kept, now) = (parts(kept), parts(now));
    let same = |(kept, now): (&Part, &Part)| match (kept, now) {
        (Part::Words(kept), Part::Words(now)) => kept == now,
        // A little more than the digit, since decimal fractions are none in binary.
        (Part::Number(kept, digit), Part::Number(now, _)) => {
            (kept - now).abs() <= (1.000_001 * digit).max(noise * kept.abs())
        }
        _ => false,
    };
    kept.len() == now.len() && kept.iter().zip(&now).all(same)
}

#[cfg(test)]
mod tests {
    use super::super::answer::Answer;
    use super::super::evidence::Calibration;
    use super::super::table::Claim;
    use super::*;
    use serde_json::json;

    fn claim() -> Claim {
        serde_json::from_value(json!({
            "id": "x.y", "where": "1", "kind": "ordering", "text": "", "within": null,
            "values": { "a": 10.0, "b": [1, 2] }, "bounds": { "apart": 0.5 }
        }))
        .expect("a claim")
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    fn row(a: f64, b: f64, cell: f64, reason: &str) -> Row {
        let mut table = Evidence::new("buffer", &["goodput"]);
        table.line("12ms", true, vec![Cell(Some(cell), Some(0.02))]);
        let answer = Answer {
            noise: map(json!({ "a": 0.1 })),
            bounded: map(json!({ "apart": 0.25 })),
            sensitivity: vec![table.clone()],
            measured: vec![table],
            ..Answer::statement(true, reason).with(map(json!({ "a": a, "b": [1.0, b] })))
        };
        Row::new(&claim(), Some(answer))
    }

    #[test]
    fn a_value_may_move_by_its_noise_up_or_down_and_no_further() {
        let kept = row(10.0, 2.0, 1.0, "it ran");
        for (a, b, cell) in [(10.099, 2.0, 1.0), (9.901, 2.0, 1.0), (10.0, 2.000_001, 1.0), (10.0, 2.0, 0.981)] {
            assert_eq!(changes(&kept, &row(a, b, cell, "it ran")), Vec::<String>::new(), "{a} {b} {cell}");
        }
        for (a, b, cell) in [(10.101, 2.0, 1.0), (9.899, 2.0, 1.0), (10.0, 2.000_003, 1.0), (10.0, 1.999_997, 1.0)] {
            assert_eq!(changes(&kept, &row(a, b, cell, "it ran")).len(), 1, "{a} {b} {cell}");
        }
        // In both tables.
        assert_eq!(changes(&kept, &row(10.0, 2.0, 1.021, "it ran")).len(), 2);
        assert_eq!(changes(&kept, &row(10.0, 2.0, 0.979, "it ran")).len(), 2);
    }

    #[test]
    fn whatever_else_an_answer_says_is_compared_too() {
        let kept = row(10.0, 2.0, 1.0, "it ran");
        let table = Evidence::new("another", &["goodput"]);
        let fitted = Calibration::new("22 segments", "Figure 11", &table);
        let mut more = kept.clone();
        more.measured[0].lines[0].cells[0] = Cell(None, None);
        let others = [
            Row { ours: None, ..kept.clone() },
            Row { ours: Some(map(json!({ "a": 10.0, "b": [1.0] }))), ..kept.clone() },
            Row { bounded: map(json!({ "apart": 0.26 })), ..kept.clone() },
            Row { measured: Vec::new(), ..kept.clone() },
            Row { sensitivity: vec![table], ..kept.clone() },
            Row { reason: "it walked".into(), ..kept.clone() },
            more,
        ];
        for other in others {
            assert_eq!(changes(&kept, &other).len(), 1, "{other:?}");
        }
        let refitted = Row { calibrated: vec![fitted], ..kept.clone() };
        assert_eq!(changes(&kept, &refitted).len(), 1);
        let other = Row { verdict: super::super::answer::Verdict::Differs, ..kept.clone() };
        assert!(changes(&kept, &other)[0].contains("holds before, differs now"));
    }

    #[test]
    fn the_numbers_of_a_reason_may_move_by_a_digit_or_the_noise_and_its_words_not_at_all() {
        let text = "brr.fig02, 12 fetches: 7.0 % at 4 ms, then 4.25.";
        assert!(same_words(text, "brr.fig02, 12 fetches: 7.1 % at 4 ms, then 4.24.", 0.0));
        assert!(!same_words(text, "brr.fig02, 12 fetches: 7.2 % at 4 ms, then 4.25.", 0.0));
        assert!(same_words(text, "brr.fig02, 12 fetches: 7.2 % at 4 ms, then 4.25.", 0.03));
        assert!(!same_words(text, "brr.fig02, 12 fetches: 7.0 % at 4 ms, then 4.22.", 0.0));
        assert!(!same_words(text, "brr.fig02, 12 fetches: 7.0 % at 4 ms, but 4.25.", 0.5));
        assert!(!same_words(text, "brr.fig02, 12 fetches: 7.0 %, then 4.25.", 0.5));
        // The noise of the answer itself is what counts.
        let kept = row(10.0, 2.0, 1.0, "1000 packets");
        assert_eq!(changes(&kept, &row(10.0, 2.0, 1.0, "1019 packets")), Vec::<String>::new());
        assert_eq!(changes(&kept, &row(10.0, 2.0, 1.0, "1021 packets")).len(), 1);
    }
}
