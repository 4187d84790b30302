//! `fairspan ring check`: are rates RIAS fair?

use super::problem::{self, Document};
use crate::exit::{BadInput, Outcome};
use fairspan_core::ring::bottleneck;
use serde::Deserialize;
use std::path::PathBuf;

/// Are these rates RIAS fair? Every flow must be at its demand, or have a bottleneck link
///
/// Prints one JSON document: {"fair": true or false, "flow": the first one without a bottleneck, from 0, or null, "reason"}.
///
/// A link is a flow's bottleneck when it is full, no other node has more there for its weight, and no other flow of the
/// same node has more there.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 they are, 1 they are not, 2 bad input. docs/rings.md tells of the files.")]
pub(crate) struct Args {
    /// The ring and its flows, as JSON; - is standard input
    file: PathBuf,
    /// A rate for each flow, as JSON: {"rates": […]}, which `fairspan ring rias --json` prints, or the list alone; - is standard input
    #[arg(long, value_name = "FILE")]
    rates: PathBuf,
    /// How far off each rate may be, as a share of a link's capacity
    #[arg(long, value_name = "SHARE", default_value_t = bottleneck::TOLERANCE, value_parser = tolerance)]
    tolerance: f64,
    /// The answer is JSON with or without it, as that of other commands is with it
    #[arg(long = "json", hide = true)]
    _json: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "write a number such as 1e-9".to_owned())?;
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err("write a number from 0 to below 1, such as 1e-9".into()) }
}

/// The two forms of a file of rates.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write {\"rates\": [0.5, …]}, or the list alone: a number for each flow")]
enum Rates {
    Alone(Vec<f64>),
    Named { rates: Vec<f64> },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.file.as_os_str() == "-" && args.rates.as_os_str() == "-" {
        return Err(BadInput("- is standard input, and can be read only once".into()).into());
    }
    let problem = Document::read(&args.file)?.problem(&args.file)?;
    let (Rates::Alone(rates) | Rates::Named { rates }) = problem::read(&args.rates)?;
    let verdict = bottleneck::check(&problem, &rates, args.tolerance);
    let (flow, reason) = match &verdict {
        Ok(()) => (None, "every flow is at its demand or has a bottleneck link".to_owned()),
        Err(unfair) => (unfair.flow(), unfair.to_string()),
    };
    println!("{}", serde_json::json!({ "fair": verdict.is_ok(), "flow": flow, "reason": reason }));
    Ok(if verdict.is_ok() { Outcome::Done } else { Outcome::Negative })
}
