//! `fairspan claims`: what the papers say, and what we have found.

use crate::claims::{self, Bench, Claim, NoTestData, Row, Verdict};
use crate::exit::{BadInput, Outcome};
use crate::scenarios;
use crate::testbed::Interrupt;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Show the papers' claims: their values, ours, and whether they hold
///
/// Shows the answers of the last run, which the repository keeps. With --run the answers are made anew and, in a
/// checkout, kept in scenarios/claims.json. Exit status 1 if a claim that held before does not hold any more.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these claims, or those whose id begins so (striping, rings.parking-lot); all without any
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Make the answers anew and keep them
    #[arg(long)]
    run: bool,
    /// Where the answers are kept; default: scenarios/claims.json of the checkout that this is run in
    #[arg(long, value_name = "FILE")]
    kept: Option<PathBuf>,
    /// Print [{"id", "paper", "ours", "unit", "deviation", "verdict", "reason"}]
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let table = claims::table();
    let asked = |id: &str| args.ids.is_empty() || args.ids.iter().any(|wanted| matches(wanted, id));
    if let Some(unknown) = args.ids.iter().find(|wanted| !table.iter().any(|claim| matches(wanted, &claim.id))) {
        let near = crate::report::nearest(unknown, table.iter().map(|claim| claim.id.as_str()));
        return Err(
            BadInput(format!("no claim `{unknown}`; did you mean `{near}`? `fairspan claims` lists all")).into()
        );
    }
    let place = args.kept.clone().or_else(|| scenarios::checkout().map(|folder| folder.join("claims.json")));
    let kept = match &place {
        Some(path) if path.exists() => claims::read(path)?,
        Some(path) if args.kept.is_some() && !args.run => {
            return Err(BadInput(format!("{}: there is no such file; --run makes it", path.display())).into());
        }
        _ => claims::embedded(),
    };
    let mut outcome = Outcome::Done;
    let rows = if args.run {
        let (rows, interrupted) = renew(&table, &kept, asked)?;
        let worse =
            rows.iter().filter(|row| row.verdict != Verdict::Holds && verdict(&kept, &row.id) == Verdict::Holds);
        for row in worse {
            eprintln!("{} held before, and does not hold any more: {}", row.id, row.reason);
            outcome = Outcome::Negative;
        }
        if interrupted {
            eprintln!("interrupted: the answers that were not finished are those of the run before");
            outcome = Outcome::Interrupted;
        }
        if let Some(path) = &place {
            claims::write(path, &rows)?;
            eprintln!("kept in {}", path.display());
        } else {
            eprintln!("not in a checkout: the answers are not kept (--kept FILE keeps them)");
        }
        rows
    } else {
        // A table that has grown since the answers were kept.
        table.iter().map(|claim| kept_row(&kept, claim)).collect()
    };
    let shown: Vec<Row> = rows.into_iter().filter(|row| asked(&row.id)).collect();
    if args.json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print!("{}", text(&table, &shown));
    }
    Ok(outcome)
}

/// Whether claim `id` is the one asked for, or belongs to the group asked for.
fn matches(wanted: &str, id: &str) -> bool {
    id.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn verdict(rows: &[Row], id: &str) -> Verdict {
    rows.iter().find(|row| row.id == id).map_or(Verdict::NotYet, |row| row.verdict)
}

fn kept_row(kept: &[Row], claim: &Claim) -> Row {
    match kept.iter().find(|row| row.id == claim.id) {
        Some(row) => row.check(claim).map_or_else(
            |problem| Row { reason: format!("the kept answer does not fit: {problem}"), ..Row::new(claim, None) },
            |()| row.clone(),
        ),
        None => Row::new(claim, None),
    }
}

/// Answers what is asked for; the rest stays as it was kept, and so does what a signal cut off.
fn renew(table: &[Claim], kept: &[Row], asked: impl Fn(&str) -> bool) -> anyhow::Result<(Vec<Row>, bool)> {
    let mut bench = Bench::new(1).with_interrupt(Interrupt::install()?);
    let mut rows = Vec::with_capacity(table.len());
    for claim in table {
        if !asked(&claim.id) || bench.check().is_err() {
            rows.push(kept_row(kept, claim));
            continue;
        }
        if std::io::stderr().is_terminal() && claims::RUNNERS.iter().any(|runner| runner.id == claim.id) {
            eprintln!("{} …", claim.id);
        }
        match claims::answer(claim, &mut bench) {
            Ok(row) => rows.push(row),
            Err(_) if bench.check().is_err() => rows.push(kept_row(kept, claim)),
            Err(error) if error.is::<NoTestData>() => {
                eprintln!("{}: skipped, {error}; the answer is that of the run before", claim.id);
                rows.push(kept_row(kept, claim));
            }
            Err(error) => return Err(error.context(claim.id.clone())),
        }
    }
    Ok((rows, bench.check().is_err()))
}

/// The table for people: one line a claim, one more for each value, the reason below.
fn text(table: &[Claim], rows: &[Row]) -> String {
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
        "{} claims: {} hold, {} differ, {} not yet. Kept answers; `fairspan claims --run` makes them anew.",
        rows.len(),
        count(Verdict::Holds),
        count(Verdict::Differs),
        count(Verdict::NotYet)
    );
    text
}

/// One value a line, the paper's and ours.
fn values(claim: &Claim, row: &Row) -> Vec<String> {
    let unit = claim.unit.as_deref().map_or(String::new(), |unit| format!(" {unit}"));
    let line = |(key, paper): (&String, &Value)| {
        let ours = row.ours.as_ref().map(|ours| number(ours.get(key).unwrap_or(&Value::Null)));
        let ours = ours.map_or(String::new(), |ours| format!(", ours {ours}{unit}"));
        format!("{}: paper {}{unit}{ours}", key.replace('_', " "), number(paper))
    };
    let bound = |(key, bound): (&String, &Value)| format!("{}: at most {}", key.replace('_', " "), number(bound));
    let values = claim.values.iter().flatten().map(line);
    values.chain(claim.bounds.iter().flatten().map(bound)).collect()
}

fn number(value: &Value) -> String {
    match value {
        Value::Array(list) => list.iter().map(number).collect::<Vec<_>>().join(", "),
        Value::Number(number) => number.as_f64().map_or(String::new(), crate::report::short),
        _ => "-".to_owned(),
    }
}
