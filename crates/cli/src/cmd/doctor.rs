//! `fairspan doctor`: why a bond does not work, and what helps.

use super::up::end_signals;
use crate::exit::{BadInput, Outcome};
use fairspan_live::config::Config;
use fairspan_live::control::{self, Request};
use fairspan_live::doctor::{Diagnosis, Finding, Verdict, examine};
use fairspan_live::status::Status;
use signal_hook::consts::SIGINT;
use std::path::PathBuf;

/// Look at a configuration, this host, and what the running daemon tells: what is wrong, and what helps. Status 1 where something is wrong.
/// To be run as root, in the daemon's network namespace
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration
    #[arg(default_value = "/etc/fairspan/fs0.toml")]
    config: PathBuf,
    /// Change on this host what can be changed safely, stay until Ctrl-C or SIGTERM, and undo it then
    #[arg(long, conflicts_with = "json")]
    fix: bool,
    /// Print one JSON document: a list of what was looked at, each with `subject`, `verdict` (good, doubtful, wrong), `found`, `remedy`, and
    /// the `peer` whose gateway it is, where it is one's
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Whether it changes something that it undoes.
    pub(crate) fn changes(&self) -> bool {
        self.fix
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let diagnosis = look(args)?;
    if args.json {
        println!("{}", serde_json::to_string(&diagnosis.findings)?);
    } else {
        diagnosis.findings.iter().for_each(show);
        conclude(&diagnosis);
    }
    if !args.fix {
        return Ok(outcome(&diagnosis));
    }
    if diagnosis.fixable() == 0 {
        println!("There is nothing that could be changed here.");
        return Ok(outcome(&diagnosis));
    }
    let mut signals = end_signals()?;
    let fixes = diagnosis.fix()?;
    fixes.done.iter().for_each(|done| println!("changed: {done}"));
    fixes.failed.iter().for_each(|failed| eprintln!("not changed: {failed}"));
    let after = look(args)?;
    conclude(&after);
    println!("What was changed is undone at the end: Ctrl-C.");
    let is_whole = fixes.failed.is_empty();
    let interrupted = signals.forever().next() == Some(SIGINT);
    let left = fixes.undo();
    left.iter().for_each(|left| eprintln!("not undone: {left}"));
    println!("undone");
    Ok(match (interrupted, is_whole && left.is_empty()) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Done,
        (false, false) => Outcome::Negative,
    })
}

fn look(args: &Args) -> anyhow::Result<Diagnosis> {
    let wrong = |error: fairspan_live::config::ConfigError| BadInput(error.to_string());
    let config = Config::load(&args.config).map_err(wrong)?;
    let answer = control::ask(&config.interface.control_socket, &Request::Status).ok();
    let status = answer.and_then(|answer| serde_json::from_str::<Status>(&answer).ok());
    Ok(examine(&args.config, status.as_ref()).map_err(wrong)?)
}

fn count(diagnosis: &Diagnosis, verdict: Verdict) -> usize {
    diagnosis.findings.iter().filter(|finding| finding.verdict == verdict).count()
}

fn outcome(diagnosis: &Diagnosis) -> Outcome {
    if count(diagnosis, Verdict::Wrong) == 0 { Outcome::Done } else { Outcome::Negative }
}

fn conclude(diagnosis: &Diagnosis) {
    let fixable = match diagnosis.fixable() {
        0 => String::new(),
        count => format!("; `--fix` changes {count} of what was found, and undoes it at the end"),
    };
    match count(diagnosis, Verdict::Wrong) {
        0 => println!("nothing is wrong{fixable}"),
        1 => println!("one thing is wrong{fixable}"),
        wrong => println!("{wrong} things are wrong{fixable}"),
    }
}

/// One finding, for a person.
pub(super) fn show(finding: &Finding) {
    let mark = match finding.verdict {
        Verdict::Good => "good",
        Verdict::Doubtful => "?",
        Verdict::Wrong => "WRONG",
    };
    println!("{mark:<6}{:<14}{}", finding.subject, finding.found);
    if let Some(remedy) = &finding.remedy {
        println!("{:20}-> {remedy}", "");
    }
}
