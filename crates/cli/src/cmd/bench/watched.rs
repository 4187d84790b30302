//! `fairspan bench watched`: what it costs a tunnel to be looked at.

use super::printed;
use crate::exit::Outcome;
use crate::measure::median;
use crate::measure::tcp::{Transfer, Transport};
use crate::testbed::tunnel::{Channel, FAR, RELIABLE, Tunnel};
use crate::testbed::{self, End, Interrupt, Namespace, Process, cable};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What does not count at the start of a transfer.
const WARM_UP: Duration = Duration::from_secs(1);
/// The addresses of the cable's ends.
const WIRE: [&str; 2] = ["10.98.0.1/24", "10.98.0.2/24"];
const FAR_WIRE: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);
/// The interface at either end of the cable.
const DEVICE: &str = "wire0";
/// Where the page is, on the host that sends.
const PAGE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9320);
/// How long a reader waits before it looks whether it is over.
const PATIENCE: Duration = Duration::from_millis(100);

/// Measure what it costs a tunnel to be looked at: `fairspan top` and three readers of the page's stream
///
/// One TCP connection (cubic) through one encrypted channel over one veth pair, by turns: without a page, with a page that nobody looks at, and
/// with `fairspan top` and three readers. Figures are medians, and shares are medians of those of each run.
/// Needs root, or unprivileged user namespaces, and a machine that does nothing else.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds that count in each transfer, after 1 s that does not
    #[arg(long, default_value_t = 5, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Runs; each has a transfer of each kind, in another order
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Readers of the page's stream
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=16))]
    readers: u32,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// There is no page.
    No,
    /// There is one, with its history.
    Page,
    /// `fairspan top`, and readers.
    Watched,
}

/// The transfers of one run, in Gbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    bare: f64,
    page: f64,
    watched: f64,
}

/// The document.
#[derive(Debug, PartialEq, Serialize)]
struct Report {
    runs: u32,
    seconds: u32,
    readers: u32,
    /// Medians.
    without_page_gbit_s: f64,
    page_gbit_s: f64,
    watched_gbit_s: f64,
    /// Medians of the shares of each run.
    page_of_without: f64,
    watched_of_without: f64,
    watched_of_page: f64,
    /// What the readers got, in all.
    events_read: u64,
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    testbed::enter_user_namespace_if_needed("fairspan bench watched")?;
    let interrupt = Interrupt::install()?;
    let measured = measure(args, &interrupt).map(|report| {
        let table = report.table();
        (report, table)
    });
    printed::print(measured, args.json, &interrupt)
}

fn measure(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    testbed::require("fairspan bench watched", &[("ip", "iproute2"), ("script", "bsdutils"), ("stty", "coreutils")])?;
    Namespace::remove_stale();
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    let bed = Bed::new()?;
    let (mut samples, mut events) = (Vec::new(), 0);
    for run in 1..=args.runs {
        let mut sample = Sample::default();
        let order = [Looked::No, Looked::Page, Looked::Watched];
        // What warms up or wears out meets each of them alike.
        for place in 0..order.len() {
            let looked = order[(place + run as usize) % order.len()];
            let (gbit_s, read) = bed.transfer(args, looked, directory.path(), interrupt)?;
            events += read;
            match looked {
                Looked::No => sample.bare = gbit_s,
                Looked::Page => sample.page = gbit_s,
                Looked::Watched => sample.watched = gbit_s,
            }
        }
        eprintln!(
            "run {run}/{}  no page {:6.3}  page {:6.3}  watched {:6.3} Gbit/s",
            args.runs, sample.bare, sample.page, sample.watched
        );
        samples.push(sample);
    }
    Report::new(args, &samples, events).context("no sample was taken")
}

/// Two namespaces and the cable between them.
struct Bed {
    near: Namespace,
    far: Namespace,
}

impl Bed {
    fn new() -> Result<Bed> {
        let bed = Bed { near: Namespace::new("near")?, far: Namespace::new("far")? };
        cable(
            End { namespace: &bed.near, device: DEVICE, address: Some(WIRE[0]) },
            End { namespace: &bed.far, device: DEVICE, address: Some(WIRE[1]) },
        )?;
        bed.near.ip(&["link", "set", "lo", "up"])?;
        Ok(bed)
    }

    /// Gbit/s of one transfer, and how many events were read meanwhile.
    fn transfer(&self, args: &Args, looked: Looked, directory: &Path, interrupt: &Interrupt) -> Result<(f64, u64)> {
        let channel = Channel { device: DEVICE, endpoint: FAR_WIRE, port: None, rate: None };
        let more = if looked == Looked::No { String::new() } else { format!("web = \"{PAGE}\"\n") };
        let ends = [&self.near, &self.far];
        let mut tunnel = Tunnel::start_with(interrupt, ends, &[channel], (RELIABLE, &more), directory)?;
        let transfer = Transfer {
            from: &self.near,
            to: &self.far,
            source: None,
            target: SocketAddr::new(FAR.into(), 5001),
            transport: Transport::Tcp,
            congestion: "cubic",
            warm_up: WARM_UP,
            duration: Duration::from_secs(u64::from(args.seconds)),
            download: None,
        };
        let measured = match looked {
            Looked::Watched => {
                self.watched(args.readers, tunnel.near_socket(), directory, || transfer.run(interrupt, |_| ()))?
            }
            Looked::No | Looked::Page => (transfer.run(interrupt, |_| ()), 0),
        };
        tunnel.check()?;
        let (goodput, events) = (measured.0?, measured.1);
        tunnel.stop()?;
        Ok((goodput.mbit() / 1000.0, events))
    }

    /// Does something while `top` and readers look; what the readers got meanwhile.
    fn watched<T>(&self, readers: u32, socket: &Path, directory: &Path, what: impl FnOnce() -> T) -> Result<(T, u64)> {
        let mut top = self.top(socket, directory)?;
        let (over, events) = (AtomicBool::new(false), AtomicU64::new(0));
        let streams: Vec<TcpStream> = (0..readers).map(|_| self.reader()).collect::<Result<_>>()?;
        let done = std::thread::scope(|scope| {
            for stream in streams {
                scope.spawn(|| read(stream, &over, &events));
            }
            let done = what();
            over.store(true, Ordering::Relaxed);
            done
        });
        top.check().context("`fairspan top`")?;
        let events = events.load(Ordering::Relaxed);
        if readers > 0 && events == 0 {
            bail!("the page told its readers nothing");
        }
        Ok((done, events))
    }

    /// `fairspan top` at a terminal of its own.
    fn top(&self, socket: &Path, directory: &Path) -> Result<Process> {
        let program = std::env::current_exe()?;
        let mut command = Command::new("script");
        let shown = format!("stty cols 132 rows 43; exec '{}' top --socket '{}'", program.display(), socket.display());
        command.env("TERM", "xterm-256color").args(["-qec", &shown, "/dev/null"]);
        Process::start(&self.near, "`fairspan top`", command, &directory.join("top.log"))
    }

    fn reader(&self) -> Result<TcpStream> {
        let mut stream = self.near.enter(|| TcpStream::connect(PAGE).context("the page"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET /live HTTP/1.1\r\nHost: {PAGE}\r\n\r\n").as_bytes())?;
        Ok(stream)
    }
}

/// Reads a stream of events until it is over.
fn read(mut stream: TcpStream, over: &AtomicBool, events: &AtomicU64) {
    let mut chunk = vec![0; 1 << 16];
    while !over.load(Ordering::Relaxed) {
        match stream.read(&mut chunk) {
            Ok(0) => return,
            // Each ends with an empty line, which JSON has none of.
            Ok(n) => {
                let ends = chunk[..n].windows(2).filter(|two| two == b"\n\n").count();
                events.fetch_add(ends as u64, Ordering::Relaxed);
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
}

impl Report {
    fn new(args: &Args, samples: &[Sample], events_read: u64) -> Option<Report> {
        let of = |value: fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>()).map(rounded);
        Some(Report {
            runs: args.runs,
            seconds: args.seconds,
            readers: args.readers,
            without_page_gbit_s: of(|sample| sample.bare)?,
            page_gbit_s: of(|sample| sample.page)?,
            watched_gbit_s: of(|sample| sample.watched)?,
            page_of_without: of(|sample| sample.page / sample.bare)?,
            watched_of_without: of(|sample| sample.watched / sample.bare)?,
            watched_of_page: of(|sample| sample.watched / sample.page)?,
            events_read,
        })
    }

    fn table(&self) -> String {
        let share = |share: f64| format!("{:+.1} %", (share - 1.0) * 100.0);
        format!(
            "without a page          {:7.3} Gbit/s\na page, nobody looks    {:7.3} Gbit/s  {}\ntop and {} readers       {:7.3} Gbit/s  {}\n\n\
             One TCP connection (cubic) through one encrypted channel over one veth pair: medians of {} runs of {} s, by turns,\nafter 1 s \
             that does not count; differences to none are medians of those within each run. The readers got {} events.\n",
            self.without_page_gbit_s,
            self.page_gbit_s,
            share(self.page_of_without),
            self.readers,
            self.watched_gbit_s,
            share(self.watched_of_without),
            self.runs,
            self.seconds,
            self.events_read
        )
    }
}

/// Four decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_within_each_run_so_that_a_machine_that_changes_its_pace_does_not_count() {
        let args = Args { seconds: 5, runs: 3, readers: 3, json: true };
        let run = |pace: f64, watched: f64| Sample { bare: pace, page: pace * 0.999, watched: pace * watched };
        let report = Report::new(&args, &[run(1.0, 0.99), run(10.0, 0.98), run(4.0, 1.0)], 42).expect("samples");
        assert_eq!((report.without_page_gbit_s, report.watched_of_without, report.page_of_without), (4.0, 0.99, 0.999));
        assert!(
            report.table().contains("top and 3 readers") && report.table().contains("-1.0 %"),
            "{}",
            report.table()
        );
        assert_eq!(Report::new(&args, &[], 0), None);
    }
}
