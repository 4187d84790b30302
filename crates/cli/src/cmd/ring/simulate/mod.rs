//! `fairspan ring simulate`: flows on a ring, packet by packet, under a fairness algorithm.

mod outcome;
mod scenario;
mod setup;
mod text;

use super::problem::Document;
use crate::cmd::family;
use crate::exit::{BadInput, Outcome as Exit};
use crate::report;
use crate::simulation::{self, Options};
use crate::testbed::Interrupt;
use fairspan_core::ring::algorithm::{ALGORITHMS, Algorithm};
use outcome::Outcome;
use setup::Setup;
use std::path::PathBuf;

const FILE_HELP: &str = "\
FILE is what `fairspan ring rias` takes, and may say more; in brackets what holds without it:

  unit          of capacity and demands: bit/s, kbit/s, Mbit/s, Gbit/s, or share (of 622 Mbit/s)
                [by the capacity: share up to 1, Mbit/s below 1,000,000, else bit/s; without a
                capacity every link has 622 Mbit/s]
  delay_us      propagation over a link, in microseconds [100]
  buffer_bytes  room of each transit queue, and of a station's queue to each egress [200000]
  packet_bytes  of each packet, headers included [1000]
  interval_us   T, between control messages, in microseconds [the delay once around the ring;
                rpr: 100 us, its standard's]

Of a flow: start_ms, stop_ms [from beginning to end], class (A, B or C) [C], packet_bytes [the
file's], kind (constant, or tcp: one connection, Reno) [constant]. A constant flow without a demand,
or with null, offers what its first link carries.

--json prints one line, rates in the file's unit. Measured is the second half of the time after
the last start or stop of a flow; of a whole run, where all send from beginning to end.

  rates             received by each flow, measured
  limits            each flow's limiter at the end; null: it has none
  converged_ms      since the last start or stop, until every limiter stays within 1 % of its mean
                    over the measured time; null: not before that begins, or no limiters
  oscillation       the widest swing of one limiter in the measured time, from its least to its
                    greatest value, as a share of the largest capacity; null: no limiters
  utilisation       of each link, by its number: [ringlet 0, ringlet 1], measured, by packets
  control_messages  sent by all nodes in the whole run, one for each link that a message crosses

For converged_ms and oscillation a limiter counts as its effect: at most what its flow offers,
and what the narrowest link carries that the flow crosses. docs/rings.md tells more.";

/// Simulate flows on a ring, packet by packet, under a fairness algorithm: what each receives, limiters, convergence
///
/// Sources send at constant rates by exact clocks. Without --json: a table with the RIAS rates beside the received ones.
#[derive(clap::Args)]
#[command(after_help = "--help tells what FILE may say and what comes out.", after_long_help = long_help())]
pub(crate) struct Args {
    /// The ring and its flows, as JSON; - is standard input
    file: PathBuf,
    #[arg(long, value_name = "A", default_value = "dvsr", help = algorithms())]
    algorithm: Algorithm,
    /// Simulated time
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// For what is random: the sources' phases
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
    /// Write ring.toml (the scenario), and summary.json, report.html and series of rates and limiters as `sim` does, into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What `--algorithm` takes.
fn algorithms() -> String {
    format!("{}, with options such as dvsr:bits=8,suballocation=equal", family::names::<Algorithm>())
}

/// What FILE may say, what comes out, and the algorithms with their options.
fn long_help() -> String {
    let mut text = format!("{FILE_HELP}\n\nAlgorithms:\n{}", family::list::<Algorithm>());
    for member in ALGORITHMS {
        let options = family::options(member, |_| true);
        if !options.is_empty() {
            text += &format!("\n{}:\n{options}", member.name);
        }
    }
    text
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=100_000.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, 0.001 to 100000".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let document = Document::read(&args.file)?;
    let setup = Setup::new(&document, &args.file, args.seconds)?;
    let text = scenario::text(&setup, &args.algorithm, args.seed, args.out.is_some());
    let folder = args.out.as_deref();
    if let Some(folder) = folder {
        report::folder(folder)?;
        let path = folder.join("ring.toml");
        std::fs::write(&path, &text).map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
    }
    let file = simulation::read(&folder.unwrap_or(std::path::Path::new("")).join("ring.toml"), &text, &[])?;
    let interrupt = Interrupt::install()?;
    let options = Options { jobs: 1, captures: None, progress: Some("ring") };
    let batch = simulation::run(&file, &options, &interrupt)?;
    let Some(run) = batch.finished.first() else { return Ok(Exit::Interrupted) };
    if let Some(folder) = folder {
        report::write(folder, &file, &batch, &[])?;
    }
    let outcome = Outcome::new(&setup, &run.results);
    if args.json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print!("{}", text::summary(&setup, &args.algorithm, &outcome));
    }
    Ok(Exit::Done)
}
