//! Answers for people, on a terminal.

use crate::claims::{Calibration, Claim, Evidence, Row, Verdict};
use crate::report::text::Rows;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde_json::Value;
use std::fmt::Write as _;

/// The table for people: one line a claim, one more for each value, the reason below.
pub(super) fn text(table: &[Claim], rows: &[Row]) -> String {
    let mut out = Table::new();
    out.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    // Where nobody says how wide a line may be, one that a page holds.
    if out.width().is_none() {
        out.set_width(120);
    }
    out.set_header(["claim", "verdict", "values, and how they were found"]);
    for row in rows {
        let Some(claim) = table.iter().find(|claim| claim.id == row.id) else { continue };
        let deviation = row.deviation.map_or(String::new(), |deviation| format!("\noff by {:.1} %", 100.0 * deviation));
        let mut told = values(claim, row);
        told.push(if row.verdict == Verdict::NotYet { claim.text.clone() } else { row.reason.clone() });
        told.extend(row.calibrated.iter().map(calibrated));
        if let [only] = rows {
            // Of one claim there is room for all.
            only.measured.iter().chain(&only.sensitivity).for_each(|table| told.push(tabled(table)));
        }
        let verdict = format!("{}{deviation}", row.verdict.name());
        out.add_row([format!("{}\n{}", row.id, claim.place), verdict, told.join("\n")]);
    }
    for column in [0, 1] {
        if let Some(column) = out.column_mut(column) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut text = format!("{out}\n");
    let _ = writeln!(
        text,
        "{} claims: {} hold, {} calibrated, {} differ, {} not yet. Kept answers; `fairspan claims --run` makes them anew. One claim alone \
         (`fairspan claims ID`) is shown with its tables.",
        rows.len(),
        count(Verdict::Holds),
        count(Verdict::Calibrated),
        count(Verdict::Differs),
        count(Verdict::NotYet)
    );
    text
}

/// One value a line, the paper's and ours.
pub(super) fn values(claim: &Claim, row: &Row) -> Vec<String> {
    let unit = claim.unit.as_deref().map_or(String::new(), |unit| format!(" {unit}"));
    let line = |(key, paper): (&String, &Value)| {
        let ours = row.ours.as_ref().map(|ours| number(ours.get(key).unwrap_or(&Value::Null)));
        let ours = ours.map_or(String::new(), |ours| format!(", ours {ours}{unit}"));
        format!("{}: paper {}{unit}{ours}", key.replace('_', " "), number(paper))
    };
    let bound = |(key, bound): (&String, &Value)| {
        let ours = row.bounded.get(key).map_or(String::new(), |ours| format!(", ours {}", number(ours)));
        format!("{}: at most {}{ours}", key.replace('_', " "), number(bound))
    };
    let values = claim.values.iter().flatten().map(line);
    values.chain(claim.bounds.iter().flatten().map(bound)).collect()
}

/// `fitted: … to …; without the fit …`.
pub(super) fn calibrated(one: &Calibration) -> String {
    let range = |(name, [least, most]): (&String, &[f64; 2])| {
        format!("{name} {} to {}", crate::report::short(*least), crate::report::short(*most))
    };
    let ranges = one.range.iter().map(range).collect::<Vec<_>>().join(", ");
    let ranges = if ranges.is_empty() { "not run".to_owned() } else { ranges };
    format!("fitted: {}, to {}; with its other values: {ranges}", one.constant, one.fitted_to)
}

/// A table of measured values; the line that the answer is of has a star.
pub(super) fn rows(table: &Evidence) -> Rows {
    let mut head = vec![String::new()];
    head.extend(table.columns.iter().cloned());
    let line = |line: &crate::claims::Line| {
        let star = if line.used { " *" } else { "" };
        let cells = line.cells.iter().map(|cell| cell.text());
        std::iter::once(format!("{}{star}", line.at)).chain(cells).collect()
    };
    Rows { head, rows: table.lines.iter().map(line).collect(), more: 0 }
}

/// The same in lines of text.
fn tabled(table: &Evidence) -> String {
    let line = |cells: &Vec<String>| cells.join(" | ");
    let rows = rows(table);
    let lines = std::iter::once(line(&rows.head)).chain(rows.rows.iter().map(line)).collect::<Vec<_>>();
    format!("{}:\n  {}", table.of, lines.join("\n  "))
}

fn number(value: &Value) -> String {
    match value {
        Value::Array(list) => list.iter().map(number).collect::<Vec<_>>().join(", "),
        Value::Number(number) => number.as_f64().map_or(String::new(), crate::report::short),
        _ => "-".to_owned(),
    }
}
