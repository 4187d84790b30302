//! `fairspan bench sim`: the simulator beside its rivals, as whole processes.

mod report;
mod rivals;
mod scaling;

use crate::exit::Outcome;
use crate::measure::process::Run;
use crate::testbed::Interrupt;
use anyhow::{Context, Result};
use report::{Contestant, Report, Samples};
use rivals::Rival;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

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
/// are medians. Then measures what an event costs with 10 to 100,000 flows. `make rivals` installs the rivals. Needs a
/// machine that does nothing else.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Runs of each scenario by each simulator, after one that does not count
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Leave out the cost of an event with more and more flows
    #[arg(long)]
    no_scaling: bool,
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
    match measure(args, &interrupt) {
        Ok((report, samples)) => {
            let tables = report.tables(&samples, METRICS);
            if args.json {
                println!("{}", serde_json::to_string(&report)?);
                eprint!("{tables}");
            } else {
                print!("{tables}");
            }
            Ok(Outcome::Done)
        }
        // A signal also ends children, whose errors then say less than the signal does.
        Err(_) if interrupt.check().is_err() => Ok(Outcome::Interrupted),
        Err(error) => Err(error),
    }
}

fn measure(args: &Args, interrupt: &Interrupt) -> Result<(Report, Vec<Samples>)> {
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    let own = Own { program: std::env::current_exe().context("where is this program?")? };
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
    let report = Report::new(&all, curve).context("no run was made")?;
    Ok((report, all))
}

fn show(scenario: &str, round: u32, rounds: u32, name: &str, run: &Run) {
    let round = if round == 0 { "first".to_owned() } else { format!("{round}/{rounds}") };
    eprintln!("{scenario:<14} {round:<6} {name:<24} {:8.4} s  {:6.1} MB", run.wall_s, run.peak_mb);
}

/// What a scenario gives.
#[derive(Debug)]
struct Figures {
    events: u64,
    outcome: String,
}

/// This very program.
#[derive(Debug)]
struct Own {
    program: PathBuf,
}

impl Own {
    /// One run, as it is by itself.
    fn run(&self, file: &Path) -> Result<Run> {
        // Status 1: something came out that the file does not expect; it ran all the same.
        Run::new(Command::new(&self.program).arg("sim").arg(file), Some(1))
    }

    /// What comes out, from its JSON document.
    fn figures(&self, file: &Path) -> Result<Figures> {
        let run = Run::new(Command::new(&self.program).arg("sim").arg(file).arg("--json"), Some(1))?;
        let document: Value = serde_json::from_str(&run.output).context("`fairspan sim --json` prints JSON")?;
        let first = &document["runs"][0];
        let events = first["events"].as_u64().context("a run without events")?;
        Ok(Figures { events, outcome: outcome(first) })
    }
}

/// What the rivals print, of a run of ours: for datagrams shares and packets, for TCP goodput and fairness.
fn outcome(run: &Value) -> String {
    let flows = run["flows"].as_array().map_or(&[][..], Vec::as_slice);
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    if flows.iter().any(|flow| !flow["tcp"].is_null()) {
        return format!("total_kbit {:.1}, jain {:.6}", number(&run["goodput"]) / 1e3, number(&run["jain"]));
    }
    let throughput: Vec<f64> = flows.iter().map(|flow| number(&flow["throughput"])).collect();
    let all: f64 = throughput.iter().sum();
    let shares: Vec<String> = throughput.iter().map(|flow| format!("{:.2}", 100.0 * flow / all)).collect();
    let packets: u64 = flows.iter().filter_map(|flow| flow["received"].as_u64()).sum();
    format!("shares {}, packets {packets}", shares.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_out_is_told_as_the_rivals_tell_it() {
        let tcp = serde_json::json!({"goodput": 1_925_300.0, "jain": 0.998_877_6, "flows": [{"tcp": {"window": 7}}]});
        assert_eq!(outcome(&tcp), "total_kbit 1925.3, jain 0.998878");
        let line = serde_json::json!({"flows": [
            {"throughput": 1.0, "received": 100, "tcp": null}, {"throughput": 3.0, "received": 300, "tcp": null},
        ]});
        assert_eq!(outcome(&line), "shares 25.00 75.00, packets 400");
    }
}
