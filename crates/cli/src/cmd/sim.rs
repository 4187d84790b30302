//! `fairspan sim`: runs a scenario.

use crate::exit::{BadInput, Outcome};
use crate::report::{self, Document, summary};
use crate::simulation::{self, Captures, Options};
use crate::testbed::Interrupt;
use fairspan_live::text_file;
use std::path::{Path, PathBuf};

/// Simulate a scenario: its flows, links and bonds packet by packet, bit for bit repeatable
///
/// Runs every point of the file's sweeps with every seed. Exit status 1 if something comes out that the file does not
/// expect; Ctrl-C keeps what was finished.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario
    #[arg(required_unless_present = "tcp_presets")]
    file: Option<PathBuf>,
    /// Run with this seed instead of the file's; several times: with each
    #[arg(long, value_name = "N")]
    seed: Vec<u64>,
    /// Set a key of the file, such as link.bottleneck.queue=50000B
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
    /// Write summary.json, report.html and the series (CSV) into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write what crosses this link to FILE-LINK.pcapng, in --out's folder or here; several times: several links
    #[arg(long, value_name = "LINK")]
    pcap: Vec<String>,
    /// Threads at most; default: one for each core
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Print every constant of the simulator's TCP in each preset, and what it is, instead of running anything
    #[arg(long, exclusive = true)]
    tcp_presets: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected KEY=VALUE, such as duration=10s".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some(path) = &args.file else {
        print!("{}", fairspan_sim::tcp::Config::table());
        return Ok(Outcome::Done);
    };
    let text = text_file::read(path, text_file::DATA);
    let text = text.map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
    let mut file = simulation::read(path, &text, &args.set)?;
    fairspan_study::simulation::set_seeds(&mut file, args.seed.clone(), "--seed")?;
    if let Some(folder) = &args.out {
        report::folder(folder)?;
    }
    let interrupt = Interrupt::install()?;
    let captures = (!args.pcap.is_empty()).then(|| Captures::new(&args.pcap, &stem(path, args), file.count()));
    let title = if file.title().is_empty() { "sim" } else { file.title() };
    let options = Options { jobs: args.jobs, captures: captures.as_ref(), progress: Some(title) };
    let batch = simulation::run(&file, &options, &interrupt)?;
    let expected = simulation::expected(&file, &batch)?;
    if let Some(folder) = &args.out {
        report::write(folder, &file, &batch, &expected)?;
    }
    if args.json {
        println!("{}", Document::new(&file, &batch, &expected).to_json());
    } else {
        print!("{}", summary::summary(&file, &batch, &expected));
    }
    Ok(if batch.interrupted {
        Outcome::Interrupted
    } else if expected.iter().all(|expected| expected.holds) {
        Outcome::Done
    } else {
        Outcome::Negative
    })
}

/// What the names of captures begin with.
fn stem(path: &Path, args: &Args) -> PathBuf {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    // A link's name may hold what a file's must not.
    let links: Vec<String> = args.pcap.iter().map(|link| link.replace(['/', '\\'], "_")).collect();
    args.out.as_deref().unwrap_or(Path::new("")).join(format!("{name}-{}", links.join("-")))
}
