//! `fairspan bench sim`: the simulator beside its rivals, as whole processes.

mod divided;
mod own;
mod report;
mod rivals;
mod scaling;

use crate::exit::Outcome;
use crate::measure::process::Run;
use crate::testbed::Interrupt;
use anyhow::{Context, Result};
use own::{Own, show};
use report::{Contestant, Report, Samples};
use rivals::Rival;

/// The scenarios, as they stand in the repository.
const SCENARIOS: [(&str, &str); 3] = [
    ("dumbbell", include_str!("../../../../../../scenarios/cross-check/dumbbell.toml")),
    ("cbr-line", include_str!("../../../../../../scenarios/cross-check/cbr-line.toml")),
    ("multipath-40g", include_str!("../../../../../../scenarios/cross-check/multipath-40g.toml")),
];
/// What is measured meanwhile: the default.
const METRICS: &str = "of each flow packets sent, received and dropped, throughput, goodput, one-way delay (mean, extremes, \
    deviation),\nTCP's retransmissions, timeouts and recoveries; of each link load, drops, mean and largest queue;\nJain's \
    index, drops by place and reason, packet conservation, the hash of the event log";

/// Measure the simulator beside ns-2 and ns-3, as whole processes
///
/// Runs the scenarios of scenarios/cross-check with `fairspan sim` and with each rival that is installed, in turn; figures
/// are medians. Then measures what an event costs with 10 to 100,000 flows, and how long a large fat tree takes on one core and
/// on all. `make rivals` installs the rivals. Needs a machine that does nothing else.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Runs of each scenario by each simulator, after one that does not count
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Leave out the cost of an event with more and more flows
    #[arg(long)]
    no_scaling: bool,
    /// Leave out the large world as a whole and in parts
    #[arg(long)]
    no_divided: bool,
    /// Leave out the rivals
    #[arg(long)]
    no_rivals: bool,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let measured = measure(args, &interrupt).map(|(report, samples)| {
        let tables = report.tables(&samples, METRICS);
        (report, tables)
    });
    super::printed::print(measured, args.json, &interrupt)
}

fn measure(args: &Args, interrupt: &Interrupt) -> Result<(Report, Vec<Samples>)> {
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    let own = Own::new()?;
    let mut rivals = if args.no_rivals { Vec::new() } else { Rival::find(directory.path())? };
    let mut all = Vec::new();
    for (scenario, text) in SCENARIOS {
        let file = directory.path().join(format!("{scenario}.toml"));
        std::fs::write(&file, text)?;
        let figures = own.figures(&file).with_context(|| format!("fairspan sim {scenario}"))?;
        let mut samples = Samples { scenario, events: figures.events, outcome: figures.outcome, ..Samples::default() };
        samples.rivals = rivals
            .iter()
            .map(|rival| Contestant { name: rival.name(), reported: rival.is_reported(), runs: Vec::new() })
            .collect();
        // The first round does not count.
        for round in 0..=args.runs {
            interrupt.check()?;
            let run = own.run(&file)?;
            show(scenario, round, args.runs, "fairspan", &run);
            if round > 0 {
                samples.own.push(run);
            }
            let mut broken = Vec::new();
            for (place, rival) in rivals.iter().enumerate() {
                interrupt.check()?;
                match Run::new(&mut rival.command(scenario), None) {
                    Ok(run) => {
                        show(scenario, round, args.runs, rival.name(), &run);
                        if round > 0 {
                            samples.rivals[place].runs.push(run);
                        }
                    }
                    Err(error) if interrupt.check().is_err() => return Err(error),
                    Err(error) => {
                        eprintln!("{}: does not work here, left out from now on: {error:#}", rival.name());
                        broken.push(place);
                    }
                }
            }
            for place in broken.into_iter().rev() {
                rivals.remove(place);
                samples.rivals.remove(place);
            }
        }
        all.push(samples);
    }
    let curve = if args.no_scaling { Vec::new() } else { scaling::measure(&own, directory.path(), interrupt)? };
    let ways =
        if args.no_divided { Vec::new() } else { divided::measure(&own, directory.path(), args.runs, interrupt)? };
    let report = Report::new(&all, curve, ways).context("no run was made")?;
    Ok((report, all))
}
