//! `fairspan trace flows`: how many flows there are, by several definitions and timeouts.

mod active;
mod report;

pub(super) use report::{packets, skipped};

use super::input::{Ended, Files, Sink, Tell};
use crate::exit::{BadInput, Outcome};
use active::{Active, Series};
use anyhow::{Context, Result};
use clap::ValueEnum;
use fairspan_core::flow::{Definition, Reading};
use fairspan_core::quantity;
use fairspan_core::units::{Span, Time};
use fairspan_trace::capture::{CaptureError, Captured};
use fairspan_trace::flows::gateway::{self, Stable};
use fairspan_trace::flows::{Config, Flows, Through};
use report::Document;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Write;
use std::path::PathBuf;

/// Count the flows of captures, by several definitions and timeouts in one pass
///
/// A flow is active from its first packet until the timeout has passed since its last one. Several files are one sequence by
/// their times. docs/trace.md tells what the columns mean.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: Files,
    /// What a flow is, one or several: five-tuple, five-tuple-both, pair, destination, source, prefix/N, destination/N, source/N, network, destination-network, source-network
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "five-tuple,pair,destination,source")]
    definition: Vec<Definition>,
    /// When a flow ends, one or several: seconds, or with a unit such as 500ms, or none (never); with 0 when it has no packet inside the gateway
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', default_value = "1,5,10,none", value_parser = timeout)]
    timeout: Vec<Timeout>,
    /// Chains of the hash table in which collisions are counted
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    table_size: u32,
    /// Which headers tell the flow
    #[arg(long, value_enum, default_value_t = Headers::Plain)]
    headers: Headers,
    /// Packets pass a gateway under all timeouts, not only under 0, and timeouts count from when they leave; its settings are routing, classification, entries, switching, scheduling, line, queued, discipline, wait and limit
    #[arg(long, value_name = "NAME=VALUE,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    gateway: Option<gateway::Config>,
    /// Most flows that are remembered for one definition; beyond, the one that was quiet longest ends early
    #[arg(long, value_name = "N", default_value_t = 1 << 23, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    most_flows: u32,
    /// Write how many flows are active over time to this file, as CSV
    #[arg(long, value_name = "FILE")]
    active: Option<PathBuf>,
    /// Write summary.json, results.csv, active.csv and report.html (with plots) into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How often flows are counted for --active, for --out and for the column "most sampled"
    #[arg(long, value_name = "SPAN", default_value = "100ms", value_parser = quantity::parse_span)]
    interval: Span,
    /// Which chain a flow belongs to follows from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
    /// Print CSV on standard output
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

/// Which headers tell the flow.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Headers {
    /// The first IP header as it stands; ports of TCP and UDP; later fragments have none
    Plain,
    /// The first IP header and its extensions; ports of all protocols; fragments go with their first one
    Outer,
    /// The same of the innermost IP header, through IP in IP, GRE, MPLS in IP and VXLAN
    Inner,
}

impl From<Headers> for Reading {
    fn from(headers: Headers) -> Reading {
        match headers {
            Headers::Plain => Reading::Plain,
            Headers::Outer => Reading::Outer,
            Headers::Inner => Reading::Inner,
        }
    }
}

/// How long a flow stays active.
#[derive(Clone, Copy, Debug)]
struct Timeout(Option<Span>);

fn timeout(text: &str) -> Result<Timeout, String> {
    let span = match text {
        "none" => return Ok(Timeout(None)),
        number if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => format!("{number}s"),
        other => other.to_owned(),
    };
    match quantity::parse_span(&span) {
        Ok(span) => Ok(Timeout(Some(span))),
        Err(error) => Err(format!("{error}, or `none`")),
    }
}

/// What is counted, and where the counts over time go.
struct Counting {
    flows: Flows,
    samples: Samples,
    /// How many more packets count; `None`: all.
    left: Option<u64>,
}

/// Who takes the counts over time.
struct Samples {
    /// Files, with their paths.
    files: Vec<(PathBuf, Active)>,
    series: Option<Series>,
}

impl Samples {
    /// Those that were asked for.
    fn new(args: &Args, config: &Config) -> Result<Samples> {
        let in_folder = args.out.as_ref().map(|folder| folder.join("active.csv"));
        let paths = args.active.clone().into_iter().chain(in_folder);
        let files = paths.map(|path| Active::create(&path, config).map(|file| (path, file)));
        Ok(Samples {
            files: files.collect::<Result<_>>()?,
            series: args.out.is_some().then(|| Series::new(args.interval)),
        })
    }

    fn sample(&mut self, now: Time, counts: &[u32]) {
        self.files.iter_mut().for_each(|(_, file)| file.sample(now, counts));
        self.series.iter_mut().for_each(|series| series.sample(now, counts));
    }
}

impl Sink for Counting {
    #[inline]
    fn packet(&mut self, packet: &Captured<'_>) {
        let samples = &mut self.samples;
        self.flows.packet(packet, &mut |now, counts| samples.sample(now, counts));
        self.left = self.left.map(|left| left.saturating_sub(1));
    }

    fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    fn unreadable(&mut self, error: &CaptureError) {
        self.flows.unreadable(error);
    }
}

pub(super) fn run(args: &Args) -> Result<Outcome> {
    if args.interval == Span::ZERO {
        return Err(BadInput("--interval must be longer than zero".into()).into());
    }
    let Found { gateway, interrupted } = gateway(args)?;
    let config = Config {
        gateway,
        through: if args.gateway.is_some() { Through::All } else { Through::Zero },
        definitions: args.definition.clone(),
        timeouts: args.timeout.iter().map(|timeout| timeout.0).collect(),
        table_size: args.table_size,
        limit: args.most_flows as usize,
        reading: args.headers.into(),
        interval: (args.active.is_some() || args.out.is_some() || !args.json && !args.csv).then_some(args.interval),
        secret: RandomState::new().hash_one(std::process::id()),
        seed: args.seed,
    };
    if let Some(folder) = &args.out {
        crate::report::folder(folder)?;
    }
    let samples = Samples::new(args, &config)?;
    let flows = Flows::new(&config).map_err(|error| BadInput(format!("--gateway: {error}")))?;
    let mut counting = Counting { flows, samples, left: interrupted };
    let ended = if interrupted == Some(0) { Ended::default() } else { args.files.read(&mut counting, Tell::User)? };
    let Counting { mut flows, mut samples, .. } = counting;
    flows.finish(&mut |now, counts| samples.sample(now, counts));
    for (path, file) in samples.files {
        file.finish().with_context(|| format!("cannot write {}", path.display()))?;
    }
    if flows.forgotten() > 0 {
        eprintln!(
            "fairspan: {} flows ended early, because more than {} were active; with a larger --most-flows all is exact",
            flows.forgotten(),
            args.most_flows
        );
    }
    if flows.dropped() > 0 {
        eprintln!(
            "fairspan: the gateway had no room for {} packets, counted for each definition; give it a faster line or processing",
            flows.dropped()
        );
    }
    let gateway = is_inside(args).then(|| told(&config.gateway));
    gateway.iter().for_each(|told| eprintln!("fairspan: {told}"));
    let document = serde_json::to_string(&Document::of(&flows, args.table_size))?;
    if let (Some(folder), Some(series)) = (&args.out, &samples.series) {
        let put = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        put("summary.json", &format!("{document}\n"))?;
        put("results.csv", &report::csv(&flows))?;
        put("report.html", &report::page(&flows, &config, gateway.as_deref(), series))?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{document}")?;
    } else if args.csv {
        write!(out, "{}", report::csv(&flows))?;
    } else {
        writeln!(out, "{}{}", report::rows(&flows).text(), report::about(&flows, args.table_size))?;
    }
    if interrupted.is_some() { Ok(Outcome::Interrupted) } else { ended.outcome() }
}

/// Whether packets pass a gateway at all.
fn is_inside(args: &Args) -> bool {
    args.gateway.is_some() || args.timeout.iter().any(|timeout| timeout.0 == Some(Span::ZERO))
}

/// The gateway that packets pass.
struct Found {
    /// It, and how long it processes a packet.
    gateway: (gateway::Config, Span),
    /// Somebody interrupted the search for that, after so many packets.
    interrupted: Option<u64>,
}

fn gateway(args: &Args) -> Result<Found> {
    let config = args.gateway.clone().unwrap_or_default();
    let given = |processing| Found { gateway: (config.clone(), processing), interrupted: None };
    if let Some(processing) = config.processing() {
        return Ok(given(processing));
    }
    if !is_inside(args) {
        return Ok(given(Span::ZERO));
    }
    if !args.files.can_be_read_again() {
        let problem = "the gateway's lowest stable rate is found by reading the captures twice, which only files allow; give its \
                       latency, such as --gateway=routing=10us, or other timeouts than 0";
        return Err(BadInput(problem.into()).into());
    }
    let mut search = Search { stable: Stable::new(config.wait), packets: 0 };
    let ended = args.files.read(&mut search, Tell::Nobody)?;
    let interrupted = ended.is_interrupted().then_some(search.packets);
    if let Some(packets) = interrupted {
        eprintln!(
            "fairspan: interrupted while the gateway's rate was looked for; what follows is the result of the {packets} packets so far, \
             which are read once more (another interrupt ends that too)"
        );
    }
    Ok(Found { gateway: (config, search.stable.processing()), interrupted })
}

/// The search for the lowest stable rate of processing.
struct Search {
    stable: Stable,
    packets: u64,
}

impl Sink for Search {
    fn packet(&mut self, packet: &Captured<'_>) {
        self.stable.packet(packet.time);
        self.packets += 1;
    }

    fn unreadable(&mut self, _: &CaptureError) {}
}

/// What counts under a gateway depend on.
fn told((config, processing): &(gateway::Config, Span)) -> String {
    let rate = 1e9 / processing.as_nanos().max(1) as f64;
    let wait = quantity::show_span(config.wait);
    let why = match config.processing() {
        Some(_) => String::new(),
        None => format!(" (the lowest rate at which no packet waits longer than {wait}, within a tenth)"),
    };
    let queued = if config.input_queued { "input" } else { "output" };
    format!(
        "the gateway is {queued}-queued, processes {rate:.0} packets/s{why}, and sends {} with {}",
        quantity::show_rate(config.line),
        config.discipline
    )
}
