//! `fairspan bench replay`: recorded capacities of several networks, and one TCP connection over a bond of them.

mod folder;
mod live;
mod report;
mod simulated;

use crate::exit::Outcome;
use crate::testbed::{self, Interrupt};
use anyhow::Result;
use fairspan_core::bond;
use fairspan_core::options::Words;
use fairspan_core::units::Span;
use folder::Folder;
use report::{Report, Settings};
use std::path::PathBuf;

/// Replay recorded capacities of several networks: one TCP connection over a bond of them
///
/// For each CSV file of a folder (seconds, then a column of Mbit/s for each network; blank: nothing passed) builds two network namespaces
/// joined by a link for each column, whose rate follows the column both ways, and measures one real TCP connection through a bond of all
/// links, in which no rate is configured. What comes out stands beside the sum of the links and the best of them. The queue
/// before each link holds 1000 frames. Needs root, or unprivileged user namespaces; with --simulated nothing.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of CSV files; files of round trips (columns NAME_rtt_ms) give the delays of the capacities nearest in time
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Only the file of this name (without .csv); may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Seconds of each file that are replayed at most
    #[arg(long, default_value_t = 60, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Begin so many seconds after the beginning of each file
    #[arg(long, default_value_t = 0, value_name = "S", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    from: u32,
    /// Multiply all capacities by this, for a machine that cannot carry them
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    scale: f64,
    /// The bond's mode
    #[arg(long, value_name = "M", default_value = bond::Mode::USUAL.word(), value_parser = bond::Mode::WORDS.to_vec())]
    mode: String,
    /// The congestion control of the TCP connection; the simulator's bbr is version 1, as Linux's
    #[arg(long, value_name = "CC", default_value = "cubic", value_parser = ["cubic", "bbr"])]
    cc: String,
    /// In the simulator: the same each time, and faster than the time that is replayed
    #[arg(long)]
    simulated: bool,
    /// The simulator's seed; several times: the median over them
    #[arg(long, value_name = "N", requires = "simulated")]
    seed: Vec<u64>,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "expected a number, such as 0.25".to_owned())?;
    if (0.001..=1000.0).contains(&factor) { Ok(factor) } else { Err("expected 0.001 to 1000".to_owned()) }
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let wanted = folder::Wanted {
        only: &args.only,
        from: Span::from_secs(args.from.into()),
        length: Span::from_secs(args.seconds.into()),
        scale: args.scale,
    };
    let Folder { recordings, notes } = folder::read(&args.folder, &wanted)?;
    for note in notes {
        eprintln!("fairspan: {note}");
    }
    let settings = Settings {
        cc: if args.cc == "bbr" { "bbr" } else { "cubic" },
        mode: bond::Mode::from_word(&args.mode).unwrap_or_default().word(),
        simulated: args.simulated,
        scale: args.scale,
        from: args.from,
    };
    if !args.simulated {
        testbed::enter_user_namespace_if_needed("fairspan bench replay")?;
    }
    let interrupt = Interrupt::install()?;
    let found = if args.simulated {
        let seeds = if args.seed.is_empty() { vec![1] } else { args.seed.clone() };
        simulated::measure(&recordings, settings, &seeds, &interrupt)
    } else {
        live::measure(&recordings, settings, &interrupt)
    };
    let measured = found.map(|found| {
        let report = Report::new(settings, &recordings, &found);
        let table = report.table();
        (report, table)
    });
    super::printed::print(measured, args.json, &interrupt)
}
