//! The simulator of this very program, run as the rivals are: as a process.

use crate::measure::process::Run;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a scenario gives.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) events: u64,
    /// As the rivals tell theirs.
    pub(super) outcome: String,
}

/// This very program.
#[derive(Debug)]
pub(super) struct Own {
    program: PathBuf,
}

impl Own {
    /// As it runs here.
    pub(super) fn new() -> Result<Own> {
        Ok(Own { program: std::env::current_exe().context("where is this program?")? })
    }

    /// One run, as it is by itself.
    pub(super) fn run(&self, file: &Path) -> Result<Run> {
        self.run_with(file, &[])
    }

    /// One run, with these arguments besides.
    pub(super) fn run_with(&self, file: &Path, arguments: &[&str]) -> Result<Run> {
        // Status 1: something came out that the file does not expect; it ran all the same.
        Run::new(Command::new(&self.program).arg("sim").arg(file).args(arguments), Some(1))
    }

    /// What comes out, from its JSON document.
    pub(super) fn figures(&self, file: &Path) -> Result<Figures> {
        let run = Run::new(Command::new(&self.program).arg("sim").arg(file).arg("--json"), Some(1))?;
        let document: Value = serde_json::from_str(&run.output).context("`fairspan sim --json` prints JSON")?;
        let first = &document["runs"][0];
        let events = first["events"].as_u64().context("a run without events")?;
        Ok(Figures { events, outcome: outcome(first) })
    }
}

/// Tells of one run while the others are still to come.
pub(super) fn show(scenario: &str, round: u32, rounds: u32, name: &str, run: &Run) {
    let round = if round == 0 { "first".to_owned() } else { format!("{round}/{rounds}") };
    eprintln!("{scenario:<14} {round:<6} {name:<24} {:8.4} s  {:6.1} MB", run.wall_s, run.peak_mb);
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
