//! `fairspan ring rias`: fair rates.

use super::problem::{Document, name};
use crate::exit::{BadInput, Outcome};
use crate::report::short;
use crate::report::text::Rows;
use fairspan_core::ring::problem::{Flow, Problem};
use fairspan_core::ring::{NodeId, max_min, proportional, rias};
use std::path::PathBuf;

/// RIAS fair rates of a ring's flows: each link shared among nodes, each node's share among its flows, what is left reused
#[derive(clap::Args)]
#[command(after_help = "docs/rings.md tells of the file, and of what is fair.")]
pub(crate) struct Args {
    /// The ring and its flows, as JSON; - is standard input
    file: PathBuf,
    /// Flow max-min and proportional fairness beside it
    #[arg(long)]
    compare: bool,
    /// Print one JSON document: {"rates": […]}, in the order of the flows and the unit of the capacity; with --compare
    /// "max_min" and "proportional" as well
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let document = Document::read(&args.file)?;
    let problem = document.problem(&args.file)?;
    let fair = rias::allocate(&problem).map_err(|error| BadInput(format!("{}: {error}", name(&args.file))))?;
    let others = args.compare.then(|| [max_min::allocate(&problem), proportional::allocate(&problem)]);
    if args.json {
        let mut answer = serde_json::json!({ "rates": fair.rates });
        if let Some([max_min, proportional]) = others {
            answer["max_min"] = max_min.into();
            answer["proportional"] = proportional.into();
        }
        println!("{answer}");
        return Ok(Outcome::Done);
    }
    let rate = document.unit.map_or_else(|| "rate".to_owned(), |unit| format!("rate\n{unit}"));
    let mut head = vec!["flow".to_owned(), "from".into(), "to".into(), "links".into(), "demand".into(), rate];
    head.push("held by".into());
    if others.is_some() {
        head.extend(["max-min".to_owned(), "proportional".to_owned()]);
    }
    let row = |(index, flow): (usize, &Flow)| {
        let demand = flow.demand.map_or_else(|| "-".to_owned(), short);
        let mut row =
            vec![index.to_string(), flow.from.to_string(), flow.to.to_string(), links(&problem, flow), demand];
        row.extend([short(fair.rates[index]), holder(&problem, flow, fair.bottlenecks[index])]);
        row.extend(others.iter().flatten().map(|rates| short(rates[index])));
        row
    };
    let rows = problem.flows().iter().enumerate().map(row).collect();
    print!("{}", Rows { head, rows, more: 0 }.text());
    Ok(Outcome::Done)
}

/// What a flow crosses, such as 2-5 or 5-2.
fn links(problem: &Problem, flow: &Flow) -> String {
    let mut crossed = problem.along(flow).map(|node| problem.link(node, flow.route.ringlet));
    let first = crossed.next().unwrap_or_default();
    crossed.last().map_or_else(|| first.to_string(), |last| format!("{first}-{last}"))
}

/// What keeps a flow from having more.
fn holder(problem: &Problem, flow: &Flow, bottleneck: Option<NodeId>) -> String {
    match bottleneck {
        Some(node) => format!("link {}", problem.link(node, flow.route.ringlet)),
        None => "its demand".to_owned(),
    }
}
