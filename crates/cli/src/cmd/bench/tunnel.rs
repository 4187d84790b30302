//! `fairspan bench tunnel`: one encrypted tunnel over one veth pair, beside its rivals.

use super::report::{Report, Sample, Samples};
use super::rivals::{RIVALS, Rival, Running, Wire};
use crate::exit::Outcome;
use crate::measure::ping::Ping;
use crate::measure::tcp::{Transfer, Transport};
use crate::measure::{cpu, median};
use crate::testbed::tunnel::{self, Channel, FAR, Mode, Tunnel};
use crate::testbed::{self, End, Interrupt, Namespace, cable, offloads_off};
use anyhow::{Context, Result, bail};
use fairspan_core::bond;
use fairspan_core::options::Words;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

/// What does not count at the start of a transfer.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long the idle machine is watched before each transfer.
const IDLE: Duration = Duration::from_secs(1);
/// Echoes per measurement of the round trip, and the time between two.
const ECHOES: usize = 50;
const ECHO_GAP: Duration = Duration::from_millis(10);
/// How long a tunnel may take to carry its first packet.
const READY: Duration = Duration::from_secs(15);
/// The addresses of the cable's ends.
const WIRE: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 98, 0, 1), Ipv4Addr::new(10, 98, 0, 2));
/// The interface at either end of the cable.
const DEVICE: &str = "wire0";

/// Measure one encrypted UDP channel over one veth pair, beside wireguard-go, boringtun-cli and openvpn
///
/// Measures one TCP connection (cubic) through each tunnel, the processor time per GB and the idle round trip, with the
/// interfaces' offloads on and off; runs are interleaved, figures are medians. `make rivals` installs the rivals.
/// Needs root, or unprivileged user namespaces, and a machine that does nothing else.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds that count in each run, after 1 s that does not
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    duration: u32,
    /// Runs of each tunnel in each state of the offloads
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// The mode of Fairspan's bond, which has one channel here
    #[arg(long, value_name = "M", default_value = bond::Mode::USUAL.word(), value_parser = bond::Mode::WORDS.to_vec())]
    mode: String,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    testbed::enter_user_namespace_if_needed("fairspan bench tunnel")?;
    let interrupt = Interrupt::install()?;
    let measured = measure(args, &interrupt).map(|(report, bare)| {
        let table = report.table(bare, args.runs as usize, args.duration);
        (report, table)
    });
    super::printed::print(measured, args.json, &interrupt)
}

fn measure(args: &Args, interrupt: &Interrupt) -> Result<(Report, (f64, f64))> {
    testbed::require("fairspan bench tunnel", &[("ip", "iproute2"), ("ethtool", "ethtool")])?;
    Namespace::remove_stale();
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    let on = Bed::new("on", true)?;
    let off = Bed::new("off", false)?;
    let bare = (on.bare_round_trip(interrupt)?, off.bare_round_trip(interrupt)?);
    let mut rivals: Vec<(Rival, Samples, bool)> = Vec::new();
    for rival in RIVALS {
        if rival.is_installed() {
            rivals.push((rival, Samples::default(), true));
        } else {
            eprintln!("{}: not installed, left out (`make rivals` installs it)", rival.name());
        }
    }
    let mut own = Samples::default();
    let mode = Mode { mode: bond::Mode::from_word(&args.mode).unwrap_or_default().word(), scheduler: None };
    let duration = Duration::from_secs(u64::from(args.duration));
    for run in 1..=args.runs {
        for (bed, offloads) in [(&on, "on"), (&off, "off")] {
            let show = |name: &str, sample: &Sample| {
                eprintln!(
                    "run {run}/{}  offloads {offloads:<3}  {name:<14} {:6.2} Gbit/s  {:5.2} CPU s/GB  {:5.0} us",
                    args.runs, sample.gbit_s, sample.cpu_s_per_gb, sample.rtt_us
                );
            };
            let sample = bed.fairspan(interrupt, mode, directory.path(), duration).context("fairspan")?;
            show("fairspan", &sample);
            if offloads == "on" {
                own.on.push(sample)
            } else {
                own.off.push(sample)
            }
            for (rival, samples, works) in rivals.iter_mut().filter(|(_, _, works)| *works) {
                match bed.rival(*rival, interrupt, directory.path(), duration) {
                    Ok(sample) => {
                        show(rival.name(), &sample);
                        if offloads == "on" { samples.on.push(sample) } else { samples.off.push(sample) }
                    }
                    Err(error) if interrupt.check().is_err() => return Err(error),
                    Err(error) => {
                        eprintln!("{}: does not work here, left out from now on: {error:#}", rival.name());
                        *works = false;
                    }
                }
            }
        }
    }
    let rivals: Vec<_> =
        rivals.into_iter().filter(|(_, _, works)| *works).map(|(rival, samples, _)| (rival.name(), samples)).collect();
    let report = Report::new(&own, &rivals).context("no sample was taken")?;
    Ok((report, bare))
}

/// Two namespaces and the cable between them.
#[derive(Debug)]
struct Bed {
    near: Namespace,
    far: Namespace,
}

impl Bed {
    fn new(name: &str, offloads: bool) -> Result<Bed> {
        let bed = Bed { near: Namespace::new(&format!("near-{name}"))?, far: Namespace::new(&format!("far-{name}"))? };
        let (near_address, far_address) = (format!("{}/24", WIRE.0), format!("{}/24", WIRE.1));
        cable(
            End { namespace: &bed.near, device: DEVICE, address: Some(&near_address) },
            End { namespace: &bed.far, device: DEVICE, address: Some(&far_address) },
        )?;
        if !offloads {
            offloads_off(&bed.near, DEVICE)?;
            offloads_off(&bed.far, DEVICE)?;
        }
        Ok(bed)
    }

    /// The round trip over the cable itself, in microseconds.
    fn bare_round_trip(&self, interrupt: &Interrupt) -> Result<f64> {
        round_trip(&self.near, WIRE.1, interrupt)
    }

    fn fairspan(&self, interrupt: &Interrupt, mode: Mode, directory: &Path, duration: Duration) -> Result<Sample> {
        let channel = Channel { device: DEVICE, endpoint: WIRE.1, port: None, rate: None };
        let mut tunnel = Tunnel::start(interrupt, &self.near, &self.far, &[channel], mode, directory)?;
        let sample = self.sample(interrupt, duration);
        tunnel.check()?;
        let sample = sample?;
        tunnel.stop()?;
        Ok(sample)
    }

    fn rival(&self, rival: Rival, interrupt: &Interrupt, directory: &Path, duration: Duration) -> Result<Sample> {
        let wire = Wire { near: &self.near, far: &self.far, far_address: WIRE.1 };
        let mut running = rival.start(interrupt, wire, directory)?;
        wait_until_ready(&mut running, &self.near, interrupt)?;
        let sample = self.sample(interrupt, duration);
        running.check()?;
        sample
    }

    /// Measures whatever carries packets to [`FAR`] at the moment.
    fn sample(&self, interrupt: &Interrupt, duration: Duration) -> Result<Sample> {
        let rtt_us = round_trip(&self.near, FAR, interrupt)?;
        let before = cpu::read()?;
        interrupt.sleep(IDLE)?;
        let start = cpu::read()?;
        let idle = start.busy_since(&before) / start.elapsed_since(&before).as_secs_f64();
        let transfer = Transfer {
            from: &self.near,
            to: &self.far,
            source: None,
            target: SocketAddr::new(FAR.into(), 5001),
            transport: Transport::Tcp,
            congestion: "cubic",
            warm_up: WARM_UP,
            duration,
            download: None,
        };
        let goodput = transfer.run(interrupt, |_| ())?;
        let end = cpu::read()?;
        // Over the whole connection, warm-up included, as the bytes are.
        let busy = end.busy_since(&start) - idle * end.elapsed_since(&start).as_secs_f64();
        let gigabytes = goodput.total as f64 / 1e9;
        if gigabytes <= 0.0 {
            bail!("nothing was transferred");
        }
        Ok(Sample { gbit_s: goodput.mbit() / 1000.0, cpu_s_per_gb: busy.max(0.0) / gigabytes, rtt_us })
    }
}

/// The median of [`ECHOES`] round trips, in microseconds.
fn round_trip(from: &Namespace, to: Ipv4Addr, interrupt: &Interrupt) -> Result<f64> {
    let trips = Ping::new(from, to)?.series(interrupt, ECHOES, ECHO_GAP)?;
    median(&trips).with_context(|| format!("no echo from {to} came back"))
}

fn wait_until_ready(running: &mut Running, from: &Namespace, interrupt: &Interrupt) -> Result<()> {
    let end = Instant::now() + READY;
    let mut ping = Ping::new(from, tunnel::FAR)?;
    while Instant::now() < end {
        running.check()?;
        if ping.once(Duration::from_millis(300))?.is_some() {
            return Ok(());
        }
        interrupt.sleep(Duration::from_millis(20))?;
    }
    bail!("no packet got through within {} s: {}", READY.as_secs(), running.log().trim());
}
