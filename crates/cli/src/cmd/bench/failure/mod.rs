//! `fairspan bench failure`: what an application sees when a link of a bond fails, or becomes worse.

mod bed;
mod case;
mod outcome;
mod report;

use crate::exit::Outcome;
use crate::measure::call::Line;
use crate::measure::cpu;
use crate::measure::tcp::has_mptcp;
use crate::testbed::tunnel::FAR;
use crate::testbed::{self, Interrupt, Namespace};
use anyhow::{Context, Result, bail};
use bed::{Bed, Way};
use case::{Case, HAPPENS};
use clap::ValueEnum;
use outcome::{Record, Seen};
use report::{CaseReport, Report};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long there is load before it happens, at most and at least.
const LOAD: Duration = Duration::from_secs(8);
const LEAST_LOAD: Duration = Duration::from_secs(5);
/// How often one looks what the link has brought.
const LOOK: Duration = Duration::from_millis(10);
/// The port of the call.
const CALL_PORT: u16 = 4000;

/// Measure what an application sees when a link of a bond fails, or becomes worse
///
/// Builds two network namespaces joined by two emulated links (40 Mbit/s 15 ms, 20 Mbit/s 30 ms one way, queues of 200 ms), and a bond
/// of both, of which no rate is configured. Through it go one real TCP connection (cubic), as fast as it can, and a call of 50 packets a
/// second of class EF. Then something happens to a link, and is over again. Said are the longest times for which neither brought anything, the call's packets that were
/// lost or came after more than 150 ms, the TCP connection's rate before, during and after, and when the link was in use again. Beside it stands
/// the kernel's Multipath TCP over the same links, without a tunnel and without a call, where the kernel has it and the case makes sense for it. The two are
/// measured in turn, in several runs; figures are medians, and the worst beside them. Half a minute each run, a minute at most. Needs root, or
/// unprivileged user namespaces. Nothing is judged: how much of the processors' time was in use stands beside the figures.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this case; may be given more than once
    #[arg(long, value_name = "CASE")]
    only: Vec<Case>,
    /// Runs of each case
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    testbed::enter_user_namespace_if_needed("fairspan bench failure")?;
    let interrupt = Interrupt::install()?;
    let measured = measure(args, &interrupt).map(|report| {
        let table = report.table();
        (report, table)
    });
    super::printed::print(measured, args.json, &interrupt)
}

fn measure(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    testbed::require("fairspan bench failure", &[("ip", "iproute2"), ("ethtool", "ethtool")])?;
    Namespace::remove_stale();
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    let rival = has_mptcp(&Namespace::new("look")?);
    if !rival {
        eprintln!("fairspan: this kernel has no MPTCP: the bond has no rival");
    }
    let mut cases = Vec::new();
    for &case in Case::value_variants() {
        if !args.only.is_empty() && !args.only.contains(&case) {
            continue;
        }
        let ways: &[Way] = if rival && !case.needs_daemon() { &[Way::Bond, Way::Mptcp] } else { &[Way::Bond] };
        let mut seen: Vec<Vec<Seen>> = vec![Vec::new(); ways.len()];
        let name = case.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        for number in 1..=args.runs {
            for (way, seen) in ways.iter().zip(&mut seen) {
                let one = one(interrupt, directory.path(), case, *way)
                    .with_context(|| format!("case {name}, {}, run {number}", way.name()))?;
                let gap = one.tcp_gap_ms;
                eprintln!("{name:<13} {:<6} run {number}/{}  TCP's longest gap {gap:7.0} ms", way.name(), args.runs);
                seen.push(one);
            }
        }
        cases.push(CaseReport::new(name, case, ways, &seen).context("no run was made")?);
    }
    Ok(Report::new(args.runs, cases))
}

/// One run: the network, the load, what happens, and what was seen.
fn one(interrupt: &Interrupt, directory: &Path, case: Case, way: Way) -> Result<Seen> {
    let mut bed = Bed::new(interrupt, directory, case, way)?;
    let happens = Duration::from_nanos(HAPPENS.as_nanos());
    let ready = bed.paths.age();
    if ready + LEAST_LOAD > happens {
        bail!(
            "the bond was ready after {:.1} s only: this machine has no time for the measurement",
            ready.as_secs_f64()
        );
    }
    interrupt.sleep((happens - LOAD).saturating_sub(ready))?;
    let record = record(interrupt, &mut bed, case, way);
    // A daemon that died explains a measurement that failed.
    bed.check()?;
    let seen = record?.seen();
    bed.stop()?;
    Ok(seen)
}

fn record(interrupt: &Interrupt, bed: &mut Bed, case: Case, way: Way) -> Result<Record> {
    let line = match way {
        Way::Bond => Some(Line::new(&bed.paths.near, &bed.paths.far, FAR, CALL_PORT)?),
        Way::Mptcp => None,
    };
    let before = cpu::read()?;
    let mut happened = Instant::now() + Duration::from_nanos(HAPPENS.as_nanos()).saturating_sub(bed.paths.age());
    let [lasts, after] = [case.lasts(), case.after()].map(|span| Duration::from_nanos(span.as_nanos()));
    let mut ended = happened + lasts;
    let mut end = ended + after;
    let over = AtomicBool::new(false);
    let mut carried = Vec::new();
    let (acted, reads, call) = std::thread::scope(|scope| {
        let shared: &Bed = bed;
        let (over, line) = (&over, &line);
        let reading = scope.spawn(|| shared.transfer().record(over));
        let calling = scope.spawn(|| line.as_ref().map(|line| line.record(interrupt, over)).transpose());
        let acted = (|| {
            let (mut due, mut stopped) = ([true; 2], None);
            while Instant::now() < end {
                let now = Instant::now();
                carried.push((now, shared.paths.carried().get(case.link()).copied().unwrap_or(0)));
                if now >= happened && std::mem::take(&mut due[0]) {
                    stopped = shared.begin()?;
                    // What is done here is done a little later than planned, and takes a while.
                    if !case.is_emulated() {
                        happened = now;
                        ended = now + lasts;
                    }
                } else if now >= ended && std::mem::take(&mut due[1]) {
                    drop(stopped.take());
                    shared.end()?;
                    if !case.is_emulated() && !lasts.is_zero() {
                        ended = Instant::now();
                    }
                }
                end = ended + after;
                interrupt.sleep(LOOK)?;
            }
            drop(stopped);
            anyhow::Ok(())
        })();
        over.store(true, Ordering::Relaxed);
        let reads = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let call = calling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (acted, reads, call)
    });
    acted?;
    let processors = cpu::read()?.share_in_use_since(&before);
    Ok(Record { reads: reads?, call: call?, carried, happened, ended, over: end, processors })
}
