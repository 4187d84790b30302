//! `fairspan bench reliable`: two Ethernet ports joined over links that lose, under traffic as on PCI Express, and the smallest
//! frames, one core a side, beside plain forwarding.

mod bed;
mod links;
mod report;

use crate::exit::{BadInput, Outcome};
use crate::measure::{flood, reads};
use crate::testbed::tunnel::ChannelKind;
use crate::testbed::{self, Interrupt, Namespace};
use anyhow::{Context, Result};
use bed::{Bed, Bonds, Cores, Way};
use fairspan_core::bond;
use fairspan_core::options::Words;
use fairspan_core::quantity::parse_span;
use fairspan_core::units::Span;
use links::Line;
use report::{Report, Settings};
use std::time::Duration;

/// Measure two Ethernet ports joined over links that lose, with PCI-Express-like traffic and with the smallest frames
///
/// Builds two hosts, each on a port of a daemon, and emulated links between the daemons. One host reads the other's
/// memory: requests, completions of 128 bytes, and a posted write of 128 bytes with each read; every frame is
/// numbered, dated and checked. The same goes over each link alone through a plain forwarder (AF_PACKET). Then 64-byte
/// frames go one way over a cable, one core a side, through plain forwarders and through the daemons, as many as arrive
/// without loss. All is measured in turn, in several runs; figures are medians. Needs root, or unprivileged user
/// namespaces.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A mode of the daemons' bond; may be given more than once [default: reliable and ordered]
    #[arg(long, value_name = "M", value_parser = bond::Mode::WORDS.to_vec())]
    mode: Vec<String>,
    /// A link between the daemons, by the names of the options of `fairspan emulate`, such as
    /// rate=100Mbit,delay=1ms,loss=1%; may be given more than once [default: rate=100Mbit,delay=500us and
    /// rate=50Mbit,delay=1ms,loss=1%]
    #[arg(long, value_name = "LINK")]
    link: Vec<String>,
    /// The bond's channels: encrypted UDP, or Ethernet frames in the clear
    #[arg(long, value_name = "KIND", default_value = "udp")]
    channel: ChannelKind,
    /// How long the bond waits to make the links' delays equal: the setting `equalize` of a peer. 0ms suits traffic that is not
    /// TCP [default: the setting's own]
    #[arg(long, value_name = "TIME")]
    equalize: Option<String>,
    /// Reads that are outstanding at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    tags: u16,
    /// Completions of 128 bytes that answer each read
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    completions: u8,
    /// Only the one part: the traffic over the links, or the smallest frames over a cable
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Seconds that count in each run, after 1 s that does not
    #[arg(long, default_value_t = 5, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Runs of each
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Reads and writes over the emulated links.
    Traffic,
    /// 64-byte frames over a cable.
    Small,
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let lines =
        if args.link.is_empty() { links::read(&links::DEFAULT.map(str::to_owned))? } else { links::read(&args.link)? };
    let modes = modes(args)?;
    if let Some(text) = &args.equalize {
        let wrong = |problem: String| BadInput(format!("--equalize {text}: {problem}"));
        let span = parse_span(text).map_err(|error| wrong(error.to_string()))?;
        if span > Span::from_secs(1) {
            return Err(wrong("give 0ms to 1s".into()).into());
        }
    }
    testbed::enter_user_namespace_if_needed("fairspan bench reliable")?;
    let interrupt = Interrupt::install()?;
    let measured = measure(args, &lines, &modes, &interrupt).map(|report| {
        let table = report.table();
        (report, table)
    });
    super::printed::print(measured, args.json, &interrupt)
}

/// The modes that are asked for, each once.
fn modes(args: &Args) -> Result<Vec<&'static str>> {
    let mut modes = Vec::new();
    for word in &args.mode {
        let mode = bond::Mode::from_word(word).unwrap_or_default().word();
        if modes.contains(&mode) {
            return Err(BadInput(format!("--mode {mode} is given twice: once is enough")).into());
        }
        modes.push(mode);
    }
    Ok(if modes.is_empty() { vec!["reliable", "ordered"] } else { modes })
}

fn measure(args: &Args, lines: &[Line], modes: &[&'static str], interrupt: &Interrupt) -> Result<Report> {
    testbed::require("fairspan bench reliable", &[("ip", "iproute2"), ("ethtool", "ethtool")])?;
    let (traffic, small) = (args.only != Some(Part::Small), args.only != Some(Part::Traffic));
    let cores = small.then(Cores::choose).transpose()?;
    Namespace::remove_stale();
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    let duration = Duration::from_secs(u64::from(args.seconds));
    let bonds = Bonds { kind: args.channel, equalize: args.equalize.as_deref() };
    let mut bed = Bed::new(interrupt, directory.path(), lines, bonds, duration)
        .context("cannot build the hosts and the links between them")?;
    let bonds = modes.iter().map(|mode| Way::Bond(mode));
    let over_links: Vec<Way> = (0..lines.len()).map(Way::Plain).chain(bonds.clone()).collect();
    let over_cable: Vec<Way> = [Way::Plain(0)].into_iter().chain(bonds).collect();
    let mut reads: Vec<Vec<reads::Found>> = vec![Vec::new(); if traffic { over_links.len() } else { 0 }];
    let mut floods: Vec<Vec<flood::Found>> = vec![Vec::new(); if small { over_cable.len() } else { 0 }];
    for run in 1..=args.runs {
        for (way, found) in over_links.iter().zip(&mut reads) {
            let name = report::name(*way, Some(lines));
            let one = bed.reads(*way, args.tags, args.completions).with_context(|| format!("{name}, run {run}"))?;
            eprintln!(
                "run {run}/{}  reads    {name:<14} {:9.0} reads/s  median {:7.0} us",
                args.runs,
                one.latency.len() as f64 / duration.as_secs_f64(),
                one.latency.value_at_quantile(0.5) as f64 / 1000.0
            );
            found.push(one);
        }
        for (way, found) in over_cable.iter().zip(&mut floods) {
            let name = report::name(*way, None);
            let cores = cores.as_ref().context("no cores")?;
            let one = bed.flood(*way, cores).with_context(|| format!("{name}, 64-byte frames, run {run}"))?;
            eprintln!(
                "run {run}/{}  64 bytes {name:<14} {:9.0} frames/s  CPU {:.0} + {:.0} ns a frame",
                args.runs,
                one.frames_s,
                1e9 * one.cpu_s[0],
                1e9 * one.cpu_s[1]
            );
            found.push(one);
        }
    }
    let settings = Settings {
        seconds: args.seconds,
        runs: args.runs,
        channel: args.channel,
        equalize: args.equalize.as_deref(),
        lines,
        tags: args.tags,
        completions: args.completions,
        cores,
    };
    Ok(Report::new(&settings, &over_links, &reads, &over_cable, &floods))
}
