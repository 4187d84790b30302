//! `fairspan figure`: figures and tables of the papers, run again.

use crate::exit::Outcome;
use crate::report::{self, Document, summary, text};
use crate::scenarios::{self, Figure, choose};
use crate::simulation::{self, Batch, Expected, Options};
use crate::testbed::Interrupt;
use fairspan_sim::scenario::File;
use std::path::PathBuf;

/// Run figures and tables of the papers again: theirs against ours
///
/// Each is a scenario under scenarios/PAPER/. Without KEY or --all: lists what there is. Exit status 1 if a value
/// differs from the paper's by more than the scenario allows.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to run, such as striping.fig15; `striping` runs all of that paper
    #[arg(value_name = "KEY", conflicts_with = "all")]
    keys: Vec<String>,
    /// Run everything
    #[arg(long)]
    all: bool,
    /// Write summary.json, report.html (with plots) and the series into DIR/KEY
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document: {"figures": [{"key", ...as `sim --json`}]}, or {"figures": [{"key", "title"}]} as a list
    #[arg(long)]
    json: bool,
    /// Threads at most; default: one for each core
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let figures = scenarios::figures();
    if args.keys.is_empty() && !args.all {
        return list(&figures, args.json);
    }
    let chosen = if args.all { figures } else { choose(&figures, &args.keys)? };
    // All are read before the first one runs.
    let files = chosen.iter().map(|figure| simulation::read(&figure.path, &figure.text, &[]));
    let files = files.collect::<Result<Vec<File>, fairspan_study::Error>>()?;
    let interrupt = Interrupt::install()?;
    let mut documents = Vec::new();
    let mut outcome = Outcome::Done;
    for (figure, file) in chosen.iter().zip(&files) {
        let options = Options { jobs: args.jobs, captures: None, progress: Some(&figure.key) };
        let batch = simulation::run(file, &options, &interrupt)?;
        let expected = simulation::expected(file, &batch)?;
        if let Some(folder) = &args.out {
            let folder = folder.join(&figure.key);
            report::folder(&folder)?;
            report::write(&folder, file, &batch, &expected)?;
        }
        if args.json {
            documents.push(document(&figure.key, file, &batch, &expected)?);
        } else {
            println!("{}: {}", figure.key, summary::summary(file, &batch, &expected));
        }
        if batch.interrupted {
            outcome = Outcome::Interrupted;
            break;
        }
        if !expected.iter().all(|expected| expected.holds) {
            outcome = Outcome::Negative;
        }
    }
    if args.json {
        println!("{}", serde_json::json!({ "figures": documents }));
    }
    Ok(outcome)
}

fn document(key: &str, file: &File, batch: &Batch, expected: &[Expected]) -> anyhow::Result<serde_json::Value> {
    let mut document = serde_json::to_value(Document::new(file, batch, expected))?;
    document["key"] = key.into();
    Ok(document)
}

fn list(figures: &[Figure], json: bool) -> anyhow::Result<Outcome> {
    let mut rows = text::Rows { head: ["key", "title"].map(str::to_owned).to_vec(), rows: Vec::new(), more: 0 };
    let mut documents = Vec::new();
    for figure in figures {
        let file = simulation::read(&figure.path, &figure.text, &[])?;
        documents.push(serde_json::json!({ "key": figure.key, "title": file.title() }));
        rows.rows.push(vec![figure.key.clone(), file.title().to_owned()]);
    }
    if json {
        println!("{}", serde_json::json!({ "figures": documents }));
    } else {
        print!("{}", rows.text());
    }
    Ok(Outcome::Done)
}
