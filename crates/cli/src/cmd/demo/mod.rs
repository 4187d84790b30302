//! `fairspan demo`: three unlike links, one TCP connection, and what becomes of it.

mod network;
mod progress;
mod report;

use crate::exit::Outcome;
use crate::measure::cpu;
use crate::measure::reorder::Watch;
use crate::measure::sequence::Reordering;
use crate::measure::tcp::{Transfer, Transport, has_mptcp};
use crate::testbed::paths::{Paths, addresses};
use crate::testbed::tunnel::{self, Channel, Mode, Tunnel};
use crate::testbed::{self, Interrupt, Namespace};
use anyhow::{Context, Result};
use progress::Progress;
use report::{Alone, Report, Round, Verdict};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// What does not count at the start of every transfer: in it TCP finds its window, and the receiver what delay it gives all packets.
/// What it holds back when the count begins counts too, so it must hold no more then than at the end.
const WARM_UP: Duration = Duration::from_secs(3);
/// What counts of every transfer by default, in seconds.
const DURATION: u32 = 3;
/// How often each link and the bond are measured by default.
const ROUNDS: u32 = 3;
/// Time for a measurement's last packets to leave the links: longer than their queues.
const DRAIN: Duration = Duration::from_millis(400);

/// Show one TCP connection over three unlike links, bonded
///
/// Builds two network namespaces joined by three emulated links (100 Mbit/s 10 ms, 40 Mbit/s 25 ms, 10 Mbit/s 40 ms
/// one way, no loss) and measures one real TCP connection (cubic) over each link alone, over the bond, over the same
/// links with packets in turn, and over the kernel's MPTCP. Links and bond are measured in turn, in several rounds. Needs
/// root, or unprivileged user namespaces. Exit status 1 if something is wrong: a link or the bond carried nothing, the
/// bond delivered anything out of order, or was slower than its best link on a machine with time to spare.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds that count in each measurement, after 3 s that do not
    #[arg(long, default_value_t = DURATION, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    duration: u32,
    /// Rounds of measurements: each link and the bond once in each
    #[arg(long, default_value_t = ROUNDS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the demo.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    testbed::enter_user_namespace_if_needed("fairspan demo")?;
    let interrupt = Interrupt::install()?;
    match measure(args, &interrupt) {
        Ok(report) => {
            if args.json {
                println!("{}", serde_json::to_string(&report)?);
                eprint!("{}", report.table());
            } else {
                print!("{}", report.table());
            }
            Ok(if report.verdict == Verdict::Pass { Outcome::Done } else { Outcome::Negative })
        }
        // A signal also ends system calls and children, whose errors then say less than the signal does.
        Err(_) if interrupt.check().is_err() => Ok(Outcome::Interrupted),
        Err(error) => Err(error),
    }
}

/// One demo: the network it stands on and how long it measures.
struct Demo<'a> {
    network: Paths,
    seconds: u32,
    rounds: u32,
    directory: &'a Path,
    interrupt: &'a Interrupt,
    progress: Progress,
    /// The next TCP port: every measurement gets one of its own, so that none sees another's packets.
    port: u16,
}

fn measure(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    testbed::require("fairspan demo", &[("ip", "iproute2"), ("ethtool", "ethtool")])?;
    Namespace::remove_stale();
    let directory = tempfile::Builder::new().prefix("fairspan-demo-").tempdir().context("no temporary directory")?;
    let network = network::build().context("cannot build the demo's network")?;
    let mut demo = Demo {
        progress: Progress::new(&network::LINKS, steps(args.rounds)),
        network,
        seconds: args.duration,
        rounds: args.rounds,
        directory: directory.path(),
        interrupt,
        port: 5000,
    };
    demo.run()
}

/// How many measurements there are: plain TCP over each link, packets in turn, MPTCP, and the rounds.
fn steps(rounds: u32) -> usize {
    let links = network::LINKS.len();
    links + 2 + rounds as usize * (links + 1)
}

impl Demo<'_> {
    fn run(&mut self) -> Result<Report> {
        let mut links = Vec::new();
        for (index, link) in network::LINKS.iter().enumerate() {
            let plain_tcp_mbit = self
                .plain(index, Transport::Tcp, &format!("{}, plain TCP", link.name))
                .with_context(|| format!("plain TCP over {}", link.name))?;
            links.push(Alone { name: link.name.into(), rate_mbit: f64::from(link.rate_mbit), plain_tcp_mbit });
        }
        let all: Vec<usize> = (0..network::LINKS.len()).collect();
        let mut rounds = Vec::new();
        for number in 1..=self.rounds {
            rounds.push(self.round(number, &all)?);
        }
        let (turns, _) =
            self.tunnelled(&all, tunnel::ROUND_ROBIN, "all links, packets in turn").context("packets in turn")?;
        let mptcp = if has_mptcp(&self.network.near) {
            let others = network::LINKS.map(|link| link.name);
            self.network.announce_mptcp(&others[1..], 1).context("cannot configure MPTCP")?;
            Some(self.plain(0, Transport::Mptcp, "all links, kernel MPTCP").context("MPTCP")?)
        } else {
            self.progress.note("all links, kernel MPTCP: this kernel has none");
            None
        };
        self.progress.finish();
        Ok(Report::new(self.seconds, links, &rounds, turns, mptcp))
    }

    /// Each link through the tunnel, then the bond of all.
    fn round(&mut self, number: u32, all: &[usize]) -> Result<Round> {
        let mut links = Vec::new();
        for (&index, link) in all.iter().zip(&network::LINKS) {
            let (mbit, _) = self
                .tunnelled(&[index], tunnel::RELIABLE, &format!("round {number}: {} through the tunnel", link.name))
                .with_context(|| format!("the tunnel over {} alone", link.name))?;
            links.push(mbit);
        }
        let before = cpu::read()?;
        let (bond, order) =
            self.tunnelled(all, tunnel::RELIABLE, &format!("round {number}: bond of all links")).context("the bond")?;
        let processors = 100.0 * cpu::read()?.share_in_use_since(&before);
        Ok(Round { links, bond, reordered: order.reordered, processors })
    }

    /// One transfer without a tunnel, from and to the addresses of link `index`.
    fn plain(&mut self, index: usize, transport: Transport, what: &str) -> Result<f64> {
        let (source, target) = addresses(index);
        let mbit = self.transfer(Some(source.into()), target, transport, what)?;
        self.progress.result(what, mbit, None);
        self.interrupt.sleep(DRAIN)?;
        Ok(mbit)
    }

    /// One transfer through a tunnel over the given links.
    fn tunnelled(&mut self, links: &[usize], mode: Mode, what: &str) -> Result<(f64, Reordering)> {
        self.progress.begin(what);
        let channels: Vec<Channel<'_>> = links
            .iter()
            .filter_map(|&index| {
                let link = network::LINKS.get(index)?;
                let (_, endpoint) = addresses(index);
                Some(Channel { device: link.name, endpoint, port: None, rate: Some(link.rate()) })
            })
            .collect();
        let mut tunnel =
            Tunnel::start(self.interrupt, &self.network.near, &self.network.far, &channels, mode, self.directory)?;
        tunnel.wait_for_channels(self.interrupt, channels.len())?;
        let watch = Watch::start(&self.network.far, self.port + 1)?;
        let outcome = self.transfer(None, tunnel::FAR, Transport::Tcp, what);
        let order = watch.stop();
        // A daemon that died explains a transfer that failed.
        tunnel.check()?;
        let mbit = outcome?;
        tunnel.stop()?;
        self.progress.result(what, mbit, Some(&order));
        self.interrupt.sleep(DRAIN)?;
        Ok((mbit, order))
    }

    /// One transfer to `target`, with the links' bars moving.
    fn transfer(&mut self, source: Option<IpAddr>, target: Ipv4Addr, transport: Transport, what: &str) -> Result<f64> {
        self.port += 1;
        self.progress.begin(what);
        let transfer = Transfer {
            from: &self.network.near,
            to: &self.network.far,
            source,
            target: SocketAddr::new(target.into(), self.port),
            transport,
            congestion: "cubic",
            warm_up: WARM_UP,
            duration: Duration::from_secs(u64::from(self.seconds)),
            download: None,
        };
        let (progress, far) = (&self.progress, &self.network.far);
        let goodput = transfer.run(self.interrupt, |now| progress.show(what, far, now))?;
        Ok(goodput.mbit())
    }
}
