//! `fairspan bench profiles`: pairs of unlike paths, each path alone and then both as a bond.

mod pairs;
mod report;
mod simulated;
mod transfer;

use crate::exit::Outcome;
use crate::measure::call::{Call, Line};
use crate::measure::median;
use crate::measure::ping::Ping;
use crate::measure::tcp::{Transfer, Transport};
use crate::testbed::paths::{Paths, addresses};
use crate::testbed::tunnel::{Channel, FAR, Mode, Tunnel};
use crate::testbed::{self, Interrupt, Namespace};
use anyhow::{Context, Result};
use fairspan_core::bond;
use fairspan_core::options::Words;
use pairs::Pair;
use report::{Measured, ProfileReport, Report, Run};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use transfer::{DOWNLOAD, SOCKET_BUFFER, Told, WARM_UP, tell};

/// Time for what is left of a transfer to leave the paths' queues.
const DRAIN: Duration = Duration::from_secs(1);
/// Time for channels without rates to find out how fast their paths are, once they are up.
const MEASURING: Duration = Duration::from_secs(5);
/// Echoes through the idle bond, and the time between two, also under load.
const ECHOES: usize = 20;
const ECHO_GAP: Duration = Duration::from_millis(100);
/// The port of the call.
const CALL_PORT: u16 = 4000;
/// The interfaces of the two paths.
const DEVICES: [&str; 2] = ["path-a", "path-b"];

/// Measure pairs of unlike paths: each alone, then both as a bond
///
/// For each pair of a file builds two network namespaces joined by two emulated paths, and measures one real TCP connection
/// over path a, over path b (plain TCP, no tunnel) and through a bond of both, there with a call beside it. The three are measured in turn, in several
/// runs; figures are medians of what the receiving application read. The queue before each path holds 1000 frames, and TCP
/// sockets buffer up to 32 MB. Needs root, or unprivileged user namespaces; with --simulated nothing.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// File of pairs (TOML): tables `profile` with name and, for a and b, rate_mbit, delay_ms, jitter_ms, loss, reorders
    /// [default: links/profiles.toml of the test data]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only the pair of this name; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The bond's mode
    #[arg(long, value_name = "M", default_value = bond::Mode::USUAL.word(), value_parser = bond::Mode::WORDS.to_vec())]
    mode: String,
    /// Whether the bond's channels have the paths' rates configured, or measure them
    #[arg(long, value_name = "R", default_value = "configured", value_parser = ["configured", "measured"])]
    rates: String,
    /// The congestion control of the TCP connections; the simulator's bbr is version 1, as Linux's
    #[arg(long, value_name = "CC", default_value = "cubic", value_parser = ["cubic", "bbr"])]
    cc: String,
    /// Seconds that count in each run, after 5 s that do not
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Runs of each path and of the bond; in the simulator with the seeds 1 to N
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// In the simulator: the same each time, without the echoes and the call
    #[arg(long)]
    simulated: bool,
    /// The simulator's seed, in place of --runs; several times: the medians over them
    #[arg(long, value_name = "N", requires = "simulated")]
    seed: Vec<u64>,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let pairs = pairs::load(&file(args), &args.only)?;
    if !args.simulated {
        testbed::enter_user_namespace_if_needed("fairspan bench profiles")?;
    }
    let interrupt = Interrupt::install()?;
    let report = if args.simulated { simulate(args, &pairs, &interrupt) } else { measure(args, &pairs, &interrupt) };
    let measured = report.map(|report| {
        let table = report.table();
        (report, table)
    });
    super::printed::print(measured, args.json, &interrupt)
}

fn file(args: &Args) -> PathBuf {
    args.file.clone().unwrap_or_else(|| {
        let root = std::env::var_os("FAIRSPAN_TESTDATA").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
        root.join("links/profiles.toml")
    })
}

impl Args {
    fn mode(&self) -> &'static str {
        bond::Mode::from_word(&self.mode).unwrap_or_default().word()
    }

    /// Whether the channels have the paths' rates.
    fn has_rates(&self) -> bool {
        self.rates == "configured"
    }

    fn congestion(&self) -> &'static str {
        if self.cc == "bbr" { "bbr" } else { "cubic" }
    }

    /// What the report says of all runs.
    fn settings(&self) -> report::Settings {
        report::Settings {
            cc: self.congestion(),
            mode: self.mode(),
            rates: if self.has_rates() { "configured" } else { "measured" },
            simulated: self.simulated,
            seconds: self.seconds,
            warm_up: WARM_UP.as_secs() as u32,
        }
    }
}

fn simulate(args: &Args, pairs: &[Pair], interrupt: &Interrupt) -> Result<Report> {
    let settings = simulated::Settings {
        mode: args.mode(),
        cc: args.congestion(),
        configured: args.has_rates(),
        duration: Duration::from_secs(u64::from(args.seconds)),
    };
    let seeds = if args.seed.is_empty() { (1..=u64::from(args.runs)).collect() } else { args.seed.clone() };
    let runs = simulated::measure(pairs, settings, &seeds, interrupt, tell)?;
    let profiles = pairs.iter().zip(&runs).map(|(pair, runs)| ProfileReport::new(pair, args.settings(), runs));
    Ok(Report { profiles: profiles.collect::<Option<_>>().context("no run was made")? })
}

fn measure(args: &Args, pairs: &[Pair], interrupt: &Interrupt) -> Result<Report> {
    testbed::require("fairspan bench profiles", &[("ip", "iproute2"), ("ethtool", "ethtool")])?;
    Namespace::remove_stale();
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    let mut profiles = Vec::new();
    for pair in pairs {
        let mut bench = Bench::new(args, pair, interrupt, directory.path())
            .with_context(|| format!("cannot build the paths of profile {}", pair.name))?;
        let mut runs = Vec::new();
        for number in 1..=args.runs {
            let run = bench.run().with_context(|| format!("profile {}, run {number}", pair.name))?;
            tell(pair, Told { run: number as usize, runs: args.runs as usize }, &run);
            runs.push(run);
        }
        profiles.push(ProfileReport::new(pair, args.settings(), &runs).context("no run was made")?);
    }
    Ok(Report { profiles })
}

/// A pair of paths, and what is measured over it.
struct Bench<'a> {
    pair: &'a Pair,
    interrupt: &'a Interrupt,
    directory: &'a Path,
    paths: Paths,
    mode: Mode,
    /// Whether channels have the paths' rates.
    configured: bool,
    congestion: &'static str,
    duration: Duration,
    /// Each transfer has a port of its own.
    port: u16,
}

impl<'a> Bench<'a> {
    fn new(args: &Args, pair: &'a Pair, interrupt: &'a Interrupt, directory: &'a Path) -> Result<Bench<'a>> {
        let [a, b] = DEVICES;
        let paths = Paths::new(&[(a, pair.a.profile()), (b, pair.b.profile())])?;
        paths.set_buffers(SOCKET_BUFFER)?;
        Ok(Bench {
            pair,
            interrupt,
            directory,
            paths,
            mode: Mode { mode: args.mode(), scheduler: None },
            configured: args.has_rates(),
            congestion: args.congestion(),
            duration: Duration::from_secs(u64::from(args.seconds)),
            port: 5000,
        })
    }

    /// Each path alone, then the bond of both.
    fn run(&mut self) -> Result<Run> {
        let mut alone = [Measured::default(); 2];
        for (index, measured) in alone.iter_mut().enumerate() {
            let (source, target) = addresses(index);
            *measured = self
                .transfer(Some(source.into()), target)
                .with_context(|| format!("plain TCP over path {}", ["a", "b"][index]))?;
        }
        let channels: Vec<Channel<'_>> = [&self.pair.a, &self.pair.b]
            .iter()
            .zip(DEVICES)
            .enumerate()
            .map(|(index, (line, device))| {
                let rate = self.configured.then(|| line.rate());
                Channel { device, endpoint: addresses(index).1, port: None, rate }
            })
            .collect();
        let (near, far) = (&self.paths.near, &self.paths.far);
        let mut tunnel = Tunnel::start(self.interrupt, near, far, &channels, self.mode, self.directory)?;
        tunnel.wait_for_channels(self.interrupt, channels.len())?;
        if !self.configured {
            self.interrupt.sleep(MEASURING)?;
        }
        let idle = Ping::new(near, FAR)?.series(self.interrupt, ECHOES, ECHO_GAP)?;
        let outcome = self.loaded();
        // A daemon that died explains a transfer that failed.
        tunnel.check()?;
        let (bond, loaded, call) = outcome.context("the bond")?;
        let mtu = tunnel.mtu(&self.paths.near)?;
        tunnel.stop()?;
        self.interrupt.sleep(DRAIN)?;
        Ok(Run { alone, bond, mtu, ping_idle_ms: middle(&idle), ping_loaded_ms: middle(&loaded), call: Some(call) })
    }

    /// A transfer through the bond, with echoes and a call beside it once its warm-up is over.
    fn loaded(&mut self) -> Result<(Measured, Vec<f64>, Call)> {
        let over = AtomicBool::new(false);
        let mut ping = Ping::new(&self.paths.near, FAR)?;
        let line = Line::new(&self.paths.near, &self.paths.far, FAR, CALL_PORT)?;
        let interrupt = self.interrupt;
        std::thread::scope(|scope| {
            let pinging = scope.spawn(|| {
                interrupt.sleep(WARM_UP)?;
                let mut trips = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    trips.extend(ping.series(interrupt, 1, ECHO_GAP)?);
                }
                Ok(trips)
            });
            let calling = scope.spawn(|| {
                interrupt.sleep(WARM_UP)?;
                line.talk(interrupt, &over)
            });
            let measured = self.transfer(None, FAR);
            over.store(true, Ordering::Relaxed);
            let trips: Result<Vec<f64>> = pinging.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let call: Result<Call> = calling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((measured?, trips?, call?))
        })
    }

    fn transfer(&mut self, source: Option<IpAddr>, target: Ipv4Addr) -> Result<Measured> {
        self.port += 1;
        let transfer = Transfer {
            from: &self.paths.near,
            to: &self.paths.far,
            source,
            target: SocketAddr::new(target.into(), self.port),
            transport: Transport::Tcp,
            congestion: self.congestion,
            warm_up: WARM_UP,
            duration: self.duration,
            download: Some(DOWNLOAD),
        };
        let goodput = transfer.run(self.interrupt, |_| ())?;
        self.interrupt.sleep(DRAIN)?;
        Ok(Measured { mbit: goodput.mbit(), download_s: goodput.downloaded.map(|time| time.as_secs_f64()) })
    }
}

/// The median of round trips in microseconds, in milliseconds.
fn middle(trips: &[f64]) -> Option<f64> {
    median(trips).map(|trip| trip / 1000.0)
}
