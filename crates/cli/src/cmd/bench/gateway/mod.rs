//! `fairspan bench gateway`: TCP over a long link, unsplit and split by gateways; many connections through a gateway beside
//! haproxy and the kernel's forwarding; connections that are abandoned.

mod abandoned;
mod bed;
mod beside;
mod far;
mod many;
mod relays;
mod report;

use crate::exit::{BadInput, Outcome};
use crate::testbed::{self, Interrupt, Namespace};
use anyhow::{Context, Result};
use bed::Bed;
use fairspan_core::units::{Rate, Span};
use far::{Long, Way};
use report::{Besides, Downloads, Many, Report};
use std::path::Path;
use std::time::Duration;

/// What the long link carries.
const RATE: Rate = Rate::from_mbit(70);
/// The round trip by way of a geostationary satellite.
const GEOSTATIONARY: Span = Span::from_millis(600);
/// That within a country.
const SHORT: Span = Span::from_millis(20);
/// Loss on the link of the part `loss`.
const LOSS: f64 = 0.005;
/// Idle time between two measurements over a link: what is still under way arrives.
const PAUSE: Duration = Duration::from_secs(2);

/// Measure a gateway that splits TCP connections, over a long link and beside haproxy and the kernel's forwarding
///
/// Builds a client, a server, two gateways, and an emulated link of 70 Mbit/s between the gateways. Downloads over 600 ms,
/// without loss and with 0.5 %: unsplit, split at the server's side, split at both sides, and so with a reliable bond over the link. Unsplit with loss takes a quarter
/// of an hour a download, and is measured with --unsplit only. One TCP connection beside UDP that offers twice the link. Then a client, a server and one gateway without a link between: 1,000 downloads at once, forwarded by
/// the kernel, through haproxy if it is installed, and through Fairspan; and 10,000 connections, half of them abandoned. All ways of a part
/// are measured in turn, in several runs; figures are medians. All ends use TCP cubic. Needs root, or unprivileged user
/// namespaces, and for rates a machine that does nothing else.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this part; may be given more than once
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Runs of each
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// The size of a download in 10^6 bytes; may be given more than once [default: 5 and 50; 50 with loss]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    megabytes: Vec<u32>,
    /// Seconds of each run of the parts `beside` and `many`
    #[arg(long, default_value_t = 20, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Connections of the part `many`
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: u32,
    /// Connections of the part `abandoned`
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(6..=25_000))]
    abandoned: u32,
    /// A line for the section `[gateway]`, in place of what the benchmark sets; may be given more than once
    #[arg(long, value_name = "LINE")]
    set: Vec<String>,
    /// Only this rival of the gateways: no gateway at all [default: all ways]
    #[arg(long)]
    unsplit: bool,
    /// IPv6
    #[arg(long)]
    ipv6: bool,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Downloads over a link without loss.
    Far,
    /// Downloads over a link that loses 0.5 %.
    Loss,
    /// TCP beside UDP.
    Beside,
    /// Many downloads at once.
    Many,
    /// Many connections, half of them abandoned.
    Abandoned,
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    if let Some(line) = args.set.iter().find(|line| !line.contains('=') || line.contains('\n')) {
        return Err(BadInput(format!("--set {line}: write one line, NAME = VALUE, as in the section [gateway]")).into());
    }
    testbed::enter_user_namespace_if_needed("fairspan bench gateway")?;
    let interrupt = Interrupt::install()?;
    let measured = measure(args, &interrupt).map(|report| {
        let table = report.table();
        (report, table)
    });
    super::printed::print(measured, args.json, &interrupt)
}

/// What all parts need.
struct Bench<'a> {
    args: &'a Args,
    interrupt: &'a Interrupt,
    directory: &'a Path,
}

fn measure(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    testbed::require("fairspan bench gateway", &[("ip", "iproute2"), ("ethtool", "ethtool")])?;
    Namespace::remove_stale();
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    let bench = Bench { args, interrupt, directory: directory.path() };
    let asked = |part: Part| args.only.is_empty() || args.only.contains(&part);
    let mut report = Report::new(args.runs, args.ipv6);
    if asked(Part::Far) {
        let link = Long { rate: RATE, round_trip: GEOSTATIONARY, loss: 0.0 };
        report.downloads.extend(bench.downloads(&link, &[5, 50])?);
    }
    if asked(Part::Loss) {
        let link = Long { rate: RATE, round_trip: GEOSTATIONARY, loss: LOSS };
        report.downloads.extend(bench.downloads(&link, &[50])?);
    }
    if asked(Part::Beside) {
        for round_trip in [SHORT, GEOSTATIONARY] {
            report.beside.push(bench.beside(&Long { rate: RATE, round_trip, loss: 0.0 })?);
        }
    }
    if asked(Part::Many) {
        report.many = Some(bench.many()?);
    }
    if asked(Part::Abandoned) && !args.unsplit {
        let bed = Bed::new("gone", None, args.ipv6)?;
        for run in 1..=args.runs {
            let count = args.abandoned as usize;
            let found = abandoned::measure(interrupt, &bed, count, u64::from(run), &args.set, bench.directory)
                .with_context(|| format!("{count} connections, half of them abandoned, run {run}"))?;
            eprintln!(
                "run {run}/{}  abandoned  {} of {count} exact, {} wrong, {} failed; {} sockets left",
                args.runs, found.exact, found.wrong, found.failed, found.sockets_left
            );
            report.abandoned.push(found);
        }
    }
    Ok(report)
}

impl Bench<'_> {
    /// The ways that are asked for. Unsplit, a download over a link that loses takes a quarter of an hour, so only who
    /// asks for nothing else waits for it.
    fn ways(&self, link: &Long) -> Vec<Way> {
        let wanted = |way: &Way| match way {
            Way::Unsplit => self.args.unsplit || link.loss == 0.0,
            Way::AtServer | Way::AtBoth | Way::Bond => !self.args.unsplit,
        };
        Way::ALL.into_iter().filter(wanted).collect()
    }

    fn downloads(&self, link: &Long, sizes: &[u32]) -> Result<Vec<Downloads>> {
        let bed = Bed::new("far", Some(&link.profile()), self.args.ipv6).context("cannot build the long link")?;
        let sizes = if self.args.megabytes.is_empty() { sizes } else { &self.args.megabytes };
        let ways = self.ways(link);
        let mut found = vec![vec![Vec::new(); ways.len()]; sizes.len()];
        for run in 1..=self.args.runs {
            for (index, way) in ways.iter().enumerate() {
                let settings = link.settings(*way, &self.args.set);
                let mut gateways = far::gateways(self.interrupt, &bed, *way, &settings, self.directory)?;
                for (megabytes, found) in sizes.iter().zip(&mut found) {
                    let one = far::download(self.interrupt, &bed, u64::from(*megabytes) * 1_000_000);
                    // A gateway that died explains a download that failed.
                    gateways.iter_mut().try_for_each(relays::Gateway::check)?;
                    let one = one.with_context(|| format!("{megabytes} MB, {}, run {run}", way.name()))?;
                    eprintln!(
                        "run {run}/{}  {megabytes:3} MB  loss {:.1} %  {:<30} {:6.2} s  {:5.1} Mbit/s",
                        self.args.runs,
                        100.0 * link.loss,
                        way.name(),
                        one.seconds,
                        one.mbit
                    );
                    found[index].push(one);
                    self.interrupt.sleep(PAUSE)?;
                }
                gateways.into_iter().try_for_each(relays::Gateway::stop)?;
            }
        }
        Ok(sizes.iter().zip(found).map(|(size, found)| Downloads::new(link, *size, &ways, &found)).collect())
    }

    fn beside(&self, link: &Long) -> Result<Besides> {
        let bed = Bed::new("beside", Some(&link.profile()), self.args.ipv6).context("cannot build the long link")?;
        let mut ways = self.ways(link);
        // A bond has a queue of its own, which shares by flow as the gateway does.
        ways.retain(|way| *way != Way::Bond);
        let mut found = vec![Vec::new(); ways.len()];
        for run in 1..=self.args.runs {
            for (way, found) in ways.iter().zip(&mut found) {
                let settings = link.settings(*way, &self.args.set);
                let mut gateways = far::gateways(self.interrupt, &bed, *way, &settings, self.directory)?;
                let one = beside::measure(self.interrupt, &bed, link, self.args.seconds);
                gateways.iter_mut().try_for_each(relays::Gateway::check)?;
                let one = one.with_context(|| format!("TCP beside UDP, {}, run {run}", way.name()))?;
                eprintln!(
                    "run {run}/{}  beside UDP  {:4} ms  {:<30} {:5.1} % of the link",
                    self.args.runs,
                    link.round_trip.as_nanos() / 1_000_000,
                    way.name(),
                    100.0 * one.share
                );
                found.push(one);
                gateways.into_iter().try_for_each(relays::Gateway::stop)?;
                self.interrupt.sleep(PAUSE)?;
            }
        }
        Ok(Besides::new(link, self.args.seconds, &ways, &found))
    }

    fn many(&self) -> Result<Many> {
        let bed = Bed::new("many", None, self.args.ipv6).context("cannot build the gateway")?;
        let has_haproxy = testbed::installed("haproxy");
        if !has_haproxy {
            eprintln!("haproxy: not installed, left out (Debian package haproxy)");
        }
        let wanted = |way: &many::Way| match way {
            many::Way::Forwarding => true,
            many::Way::Haproxy => has_haproxy,
            many::Way::Plain | many::Way::Fair => !self.args.unsplit,
        };
        let ways: Vec<many::Way> = many::Way::ALL.into_iter().filter(wanted).collect();
        let mut found = vec![Vec::new(); ways.len()];
        let connections = self.args.connections as usize;
        let duration = Duration::from_secs(u64::from(self.args.seconds));
        for run in 1..=self.args.runs {
            for (way, found) in ways.iter().zip(&mut found) {
                let load = (connections, duration);
                let one = many::measure(self.interrupt, &bed, *way, load, &self.args.set, self.directory)
                    .with_context(|| format!("{connections} connections, {}, run {run}", way.name()))?;
                eprintln!(
                    "run {run}/{}  {connections} connections  {:<24} {:6.2} Gbit/s  {:5.2} CPU s/GB",
                    self.args.runs,
                    way.name(),
                    one.gbit_s,
                    one.machine_s_gb
                );
                found.push(one);
            }
        }
        Ok(Many::new(connections, self.args.seconds, &ways, &found))
    }
}
