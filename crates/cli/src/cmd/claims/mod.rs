//! `fairspan claims`: what the papers say, and what we have found.

mod page;
mod text;

use crate::claims::{self, Bench, Claim, Extent, NoTestData, Row, Verdict};
use crate::exit::{BadInput, Outcome};
use crate::scenarios;
use crate::testbed::Interrupt;
use anyhow::Context;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Show the papers' claims: their values, ours, and whether they hold
///
/// Shows the answers of the last run, which the repository keeps. With --run the answers are made anew and, in a
/// checkout, kept in scenarios/claims.json; exit status 1 if a claim that held before does not hold any more. With --check they
/// are made anew and not kept; exit status 1 if any of them changed by more than its noise, up or down, holds or not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these claims, or those whose id begins so (striping, rings.parking-lot); all without any
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Make the answers anew and keep them
    #[arg(long)]
    run: bool,
    /// Make the answers anew, compare them with the kept ones, and keep nothing
    #[arg(long)]
    check: bool,
    /// One seed of each figure and few random cases; the answers are kept in scenarios/claims-reduced.json
    #[arg(long)]
    reduced: bool,
    /// Where the answers are kept; default: scenarios/claims.json of the checkout that this is run in
    #[arg(long, value_name = "FILE")]
    kept: Option<PathBuf>,
    /// Write a page with all answers, what they rest on and their sensitivity into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Threads at most for --run and --check; default: one for each core
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Print [{"id", "paper", "ours", "unit", "deviation", "verdict", "reason", "bounded", "noise", "measured", "sensitivity",
    /// "calibrated"}]
    #[arg(long)]
    json: bool,
}

impl Args {
    fn extent(&self) -> Extent {
        if self.reduced { Extent::Reduced } else { Extent::Whole }
    }
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
    let extent = args.extent();
    let place = scenarios::checkout().map(|folder| folder.join(claims::kept_in(extent)));
    let place = args.kept.clone().or(place);
    let kept = match &place {
        Some(path) if path.exists() => claims::read(path)?,
        Some(path) if args.kept.is_some() && !args.run => {
            return Err(BadInput(format!("{}: there is no such file; --run makes it", path.display())).into());
        }
        _ => claims::embedded(extent),
    };
    let mut outcome = Outcome::Done;
    let rows = if args.run || args.check {
        let mut bench = Bench::new(1).with_extent(extent, args.jobs).with_interrupt(Interrupt::install()?);
        let (rows, interrupted) = renew(&mut bench, &table, &kept, asked)?;
        if told(args, &kept, &rows) {
            outcome = Outcome::Negative;
        }
        if interrupted {
            eprintln!("interrupted: the answers that were not finished are those of the run before");
            outcome = Outcome::Interrupted;
        }
        match &place {
            _ if args.check => {}
            Some(path) => {
                claims::write(path, &rows)?;
                eprintln!("kept in {}", path.display());
            }
            None => eprintln!("not in a checkout: the answers are not kept (--kept FILE keeps them)"),
        }
        rows
    } else {
        // A table that has grown since the answers were kept.
        table.iter().map(|claim| kept_row(&kept, claim)).collect()
    };
    let shown: Vec<Row> = rows.into_iter().filter(|row| asked(&row.id)).collect();
    if let Some(path) = &args.html {
        std::fs::write(path, page::page(&table, &shown)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print!("{}", text::text(&table, &shown));
    }
    Ok(outcome)
}

/// Says what is not as it was kept; whether there is anything that matters: with --check whatever changed, else what held before and
/// does not any more.
fn told(args: &Args, kept: &[Row], rows: &[Row]) -> bool {
    let mut any = false;
    for row in rows {
        if !row.verdict.agrees() && verdict(kept, &row.id).agrees() {
            eprintln!("{} held before, and does not hold any more: {}", row.id, row.reason);
            any = true;
        }
        let before = kept.iter().find(|before| before.id == row.id).filter(|_| args.check);
        for change in before.map_or(Vec::new(), |before| claims::changes(before, row)) {
            eprintln!("{} changed: {change}", row.id);
            any = true;
        }
        if args.check && before.is_none() {
            eprintln!("{} is not among the kept answers", row.id);
            any = true;
        }
    }
    any
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
fn renew(
    bench: &mut Bench,
    table: &[Claim],
    kept: &[Row],
    asked: impl Fn(&str) -> bool,
) -> anyhow::Result<(Vec<Row>, bool)> {
    let mut rows = Vec::with_capacity(table.len());
    for claim in table {
        if !asked(&claim.id) || bench.check().is_err() {
            rows.push(kept_row(kept, claim));
            continue;
        }
        if std::io::stderr().is_terminal() && claims::RUNNERS.iter().any(|runner| runner.id == claim.id) {
            eprintln!("{} …", claim.id);
        }
        match claims::answer(claim, bench) {
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
