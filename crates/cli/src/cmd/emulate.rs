//! `fairspan emulate`: a link with a rate, a delay, loss and outages between two devices.

use super::family;
use crate::exit::{BadInput, NoPrivilege, Outcome};
use anyhow::Context;
use comfy_table::{Table, presets};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::queue::DisciplineConfig;
use fairspan_live::emulate::{
    DirectionConfig, DirectionStats, EmulateConfig, EmulateError, Emulator, Link, Options, PortError, Summary,
};
use fairspan_live::quantity::{parse_span, show_rate};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Emulate a link between two network devices
///
/// Joins two devices, each possibly in another network namespace, by a link with the rate, delay, jitter, loss,
/// queue and outages given, each direction separately. Runs until Ctrl-C (status 130), SIGTERM (status 0) or the end
/// of --duration (status 0); status 1 when every link has lost a device. Segmentation offloads of the two devices are
/// off meanwhile; switch them off at the sending hosts' ends too (--offloads-off).
#[derive(clap::Args)]
#[command(after_help = "Example: two namespaces, one veth pair each towards here\n  \
    fairspan emulate --a left:port --b right:port --rate 100Mbit --delay 10ms \\\n      \
    --backward rate=10Mbit --backward loss=1%")]
pub(crate) struct Args {
    /// File of links (TOML) instead of --a and --b
    #[arg(long, value_name = "FILE", conflicts_with_all = ["a", "b"])]
    config: Option<PathBuf>,
    /// One end of the link: DEV or NETNS:DEV
    #[arg(long, value_name = "PORT", required_unless_present = "config", requires = "b")]
    a: Option<String>,
    /// The other end
    #[arg(long, value_name = "PORT", requires = "a")]
    b: Option<String>,
    #[command(flatten)]
    both: Both,
    /// A setting from a to b only, by the name of its option: rate=10Mbit
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "config")]
    forward: Vec<String>,
    /// A setting from b to a only
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "config")]
    backward: Vec<String>,
    /// Seed of loss and jitter [default: 1, or the file's]
    #[arg(long)]
    seed: Option<u64>,
    /// Least time between wake-ups while frames are under way [default: 50us, or the file's]
    #[arg(long, value_name = "TIME")]
    tick: Option<String>,
    /// One thread per link instead of one for all
    #[arg(long)]
    thread_per_link: bool,
    /// Stay out of the real-time scheduling class
    #[arg(long)]
    no_realtime: bool,
    /// Switch the segmentation offloads of this device off first, as of a sending host; they stay off
    #[arg(long, value_name = "PORT")]
    offloads_off: Vec<String>,
    /// Stop after this time, such as 30s
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

/// Settings of both directions.
#[derive(clap::Args)]
#[group(conflicts_with = "config")]
struct Both {
    /// Constant rate of Ethernet frames, headers included [default: unlimited]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Mahimahi trace file: one millisecond a line, 1500 bytes each, looping
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// CSV file: seconds, then Mbit/s in one column per network, looping
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Column of the CSV file: its heading or, from 1, its place [default: 1]
    #[arg(long, value_name = "COLUMN", requires = "series")]
    column: Option<String>,
    /// What a blank in it means: the rate before it holds, or the link is dead: holds or dead [default: holds]
    #[arg(long, value_name = "WHAT", requires = "series")]
    blank: Option<String>,
    /// One-way delay [default: 0]
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Standard deviation of the delay (normal) [default: 0]
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// Let jitter put frames out of order
    #[arg(long)]
    reorder: bool,
    /// Independent loss: 1% or 0.01
    #[arg(long, value_name = "P", conflicts_with = "gilbert")]
    loss: Option<String>,
    /// Gilbert-Elliott loss as netem's gemodel: "p r [1-h [1-k]]"
    #[arg(long, value_name = "P R ...")]
    gilbert: Option<String>,
    /// Queue limit: frames as 1000, or bytes as 64kB [default: 1000]
    #[arg(long, value_name = "LIMIT")]
    queue: Option<String>,
    #[arg(long, value_name = "NAME", help = discipline_help())]
    discipline: Option<String>,
    #[arg(long, value_name = "NAME", help = buffer_help())]
    buffer: Option<String>,
    /// Outage START+LENGTH or START+LENGTH/PERIOD, such as 5s+2s/60s; may be given more than once
    #[arg(long, value_name = "WHEN")]
    outage: Vec<String>,
    /// During an outage frames are lost, or held in the queue: lose or hold [default: lose]
    #[arg(long, value_name = "WHAT")]
    during_outage: Option<String>,
    /// Bytes added to each frame's length before it counts [default: 0; -14 with --trace]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    overhead: Option<i32>,
}

impl Both {
    fn settings(&self) -> DirectionConfig {
        DirectionConfig {
            rate: self.rate.clone(),
            trace: self.trace.clone(),
            series: self.series.clone(),
            column: self.column.clone(),
            blank: self.blank.clone(),
            delay: self.delay.clone(),
            jitter: self.jitter.clone(),
            reorder: self.reorder.then_some(true),
            loss: self.loss.clone(),
            gilbert: self.gilbert.clone(),
            queue: self.queue.clone(),
            discipline: self.discipline.clone(),
            buffer: self.buffer.clone(),
            outages: (!self.outage.is_empty()).then(|| self.outage.clone()),
            during_outage: self.during_outage.clone(),
            overhead: self.overhead,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (links, options) = settings(args)?;
    let duration = args.duration.as_deref().map(time).transpose()?;
    for port in &args.offloads_off {
        let port = port.parse().map_err(bad_input)?;
        fairspan_live::emulate::switch_offloads_off(&port).map_err(port_error)?;
    }
    let (interrupted, terminated) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    signal_hook::flag::register(SIGINT, interrupted.clone()).context("installing the Ctrl-C handler")?;
    signal_hook::flag::register(SIGTERM, terminated.clone()).context("installing the SIGTERM handler")?;

    let emulator = Emulator::start(links, options).map_err(|error| match error {
        EmulateError::Port { error: PortError::Privileges { .. }, .. } => NoPrivilege(error.to_string()).into(),
        EmulateError::Port { error: PortError::System { .. }, .. } | EmulateError::System { .. } => {
            anyhow::Error::from(error)
        }
        error => bad_input(error),
    })?;
    let started = Instant::now();
    for warning in emulator.warnings() {
        eprintln!("fairspan: warning: {warning}");
    }
    let stats = emulator.stats();
    eprintln!("fairspan: emulating {} link(s), seed {}", stats.links.len(), stats.seed);

    let live = Live::new(&stats);
    let mut ticks = 0u32;
    while !interrupted.load(Relaxed) && !terminated.load(Relaxed) && emulator.is_running() {
        let left = duration.map(|duration| duration.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) {
            break;
        }
        std::thread::sleep(left.unwrap_or(Duration::MAX).min(Duration::from_millis(100)));
        ticks += 1;
        if ticks.is_multiple_of(10) {
            live.show(&emulator.stats());
        }
    }
    live.clear();
    let lost_devices = !emulator.is_running();
    let summary = emulator.stop();
    if !summary.realtime && !args.no_realtime {
        eprintln!("fairspan: warning: the system did not allow the real-time scheduling class; frames may be late");
    }
    if args.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        println!("{}", table(&summary));
    }
    if lost_devices {
        eprintln!("fairspan: every link has lost a device");
        return Ok(Outcome::Negative);
    }
    Ok(if interrupted.load(Relaxed) { Outcome::Interrupted } else { Outcome::Done })
}

fn settings(args: &Args) -> anyhow::Result<(Vec<Link>, Options)> {
    let (links, mut options) = match (&args.config, &args.a, &args.b) {
        (Some(path), ..) => EmulateConfig::load(path).map_err(bad_input)?,
        (None, Some(a), Some(b)) => {
            let both = args.both.settings();
            let here = Path::new("");
            let forward = direction(args.forward.iter().map(String::as_str), "--forward")?.or(&both);
            let backward = direction(args.backward.iter().map(String::as_str), "--backward")?.or(&both);
            let link = Link {
                name: "link0".into(),
                a: a.parse().map_err(bad_input)?,
                b: b.parse().map_err(bad_input)?,
                forward: forward.profile("", here).map_err(bad_input)?,
                backward: backward.profile("backward: ", here).map_err(bad_input)?,
            };
            (vec![link], Options::default())
        }
        _ => return Err(BadInput("give --a and --b, or --config".into()).into()),
    };
    options.seed = args.seed.unwrap_or(options.seed);
    options.thread_per_link |= args.thread_per_link;
    if args.no_realtime {
        options.realtime = None;
    }
    if let Some(tick) = &args.tick {
        options.tick = parse_span(tick).map_err(|error| BadInput(format!("--tick: {error}")))?;
    }
    Ok((links, options))
}

/// `NAME=VALUE` pairs as settings of a direction.
pub(crate) fn direction<'a>(pairs: impl IntoIterator<Item = &'a str>, option: &str) -> anyhow::Result<DirectionConfig> {
    let mut map = serde_json::Map::new();
    for pair in pairs {
        let wrong = |expected: &str| BadInput(format!("{option} {pair}: {expected}"));
        let (name, value) = pair.split_once('=').ok_or_else(|| wrong("write NAME=VALUE, for example rate=10Mbit"))?;
        let value: serde_json::Value = match name {
            "reorder" => value.parse::<bool>().map_err(|_| wrong("write reorder=true or reorder=false"))?.into(),
            "overhead" => value.parse::<i32>().map_err(|_| wrong("write a whole number of bytes"))?.into(),
            "outage" | "outages" => {
                let mut list: Vec<serde_json::Value> =
                    map.get("outages").and_then(|list| list.as_array()).cloned().unwrap_or_default();
                list.extend(value.split(',').map(Into::into));
                map.insert("outages".into(), list.into());
                continue;
            }
            _ => value.into(),
        };
        map.insert(name.into(), value);
    }
    serde_json::from_value(map.into()).map_err(|error| BadInput(format!("{option}: {error}")).into())
}

/// What `--discipline` takes.
fn discipline_help() -> String {
    let names = family::names::<DisciplineConfig>();
    format!("Which frame that waits goes next: {names}, with options as drr:quantum=3000 [default: fifo]")
}

/// What `--buffer` takes.
fn buffer_help() -> String {
    let names = family::names::<PolicyConfig>();
    format!(
        "Which frames are let in, marked, dropped: {names}, with options as codel:target=5ms \
         [default: drop-tail with fifo, else longest-queue]"
    )
}

fn time(text: &str) -> anyhow::Result<Duration> {
    let span = parse_span(text).map_err(|error| BadInput(format!("--duration: {error}")))?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

fn bad_input(error: impl std::fmt::Display) -> anyhow::Error {
    BadInput(error.to_string()).into()
}

fn port_error(error: PortError) -> anyhow::Error {
    match error {
        PortError::Privileges { .. } => NoPrivilege(error.to_string()).into(),
        PortError::System { .. } => error.into(),
        _ => bad_input(error),
    }
}

/// A line per link on standard error, while that is a terminal.
struct Live {
    bars: Vec<ProgressBar>,
    before: std::cell::Cell<(Instant, Vec<[u64; 2]>)>,
    group: MultiProgress,
}

impl Live {
    fn new(stats: &Summary) -> Live {
        let group = MultiProgress::new();
        let style = ProgressStyle::with_template("{prefix:12} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let bars = stats
            .links
            .iter()
            .map(|link| {
                let bar = group.add(ProgressBar::no_length().with_style(style.clone()));
                bar.set_prefix(link.name.clone());
                bar
            })
            .collect();
        Live { bars, before: (Instant::now(), sent(stats)).into(), group }
    }

    fn show(&self, stats: &Summary) {
        let (then, before) = self.before.replace((Instant::now(), sent(stats)));
        let seconds = then.elapsed().as_secs_f64();
        for ((bar, link), [forward, backward]) in self.bars.iter().zip(&stats.links).zip(before) {
            let side = |direction: &DirectionStats, before: u64| {
                let bits = (direction.sent_bytes - before) as f64 * 8.0 / seconds;
                let rate = show_rate(fairspan_core::units::Rate::from_bits_per_sec(bits as u64));
                format!("{rate}, {} dropped", direction.drops.total())
            };
            bar.set_message(format!("-> {}   <- {}", side(&link.forward, forward), side(&link.backward, backward)));
        }
    }

    fn clear(&self) {
        let _ = self.group.clear();
    }
}

fn sent(stats: &Summary) -> Vec<[u64; 2]> {
    stats.links.iter().map(|link| [link.forward.sent_bytes, link.backward.sent_bytes]).collect()
}

fn table(summary: &Summary) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["link", "direction", "frames in", "frames out", "bytes out", "drops", "late p50", "late p99"]);
    for link in &summary.links {
        for (arrow, direction) in [("->", &link.forward), ("<-", &link.backward)] {
            table.add_row([
                link.name.clone(),
                format!("{} {arrow} {}", link.a, link.b),
                direction.received_frames.to_string(),
                direction.sent_frames.to_string(),
                direction.sent_bytes.to_string(),
                drops(direction),
                format!("{:.0} us", direction.lateness.p50_ns as f64 / 1e3),
                format!("{:.0} us", direction.lateness.p99_ns as f64 / 1e3),
            ]);
        }
    }
    table
}

fn drops(direction: &DirectionStats) -> String {
    let drops = &direction.drops;
    let named = [
        ("loss", drops.loss),
        ("queue", drops.queue),
        ("outage", drops.outage),
        ("ring", drops.ring),
        ("memory", drops.memory),
        ("too long", drops.too_long),
        ("refused", drops.refused),
        ("port down", drops.port_down),
    ];
    let named: Vec<String> = named.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    if named.is_empty() { "0".into() } else { named.join(", ") }
}
