//! Very many connections, half of which are abandoned: what the gateway carries is right, and afterwards nothing is left.

use super::bed::{Bed, CONGESTION};
use super::far::settings;
use super::relays::Gateway;
use crate::measure::exchange::Exchange;
use crate::measure::load::{Clients, Ending, Fate, Plan, Results, allow_sockets};
use crate::measure::memory;
use crate::testbed::Interrupt;
use anyhow::{Context, Result, bail};
use fairspan_core::rng::Rng;
use fairspan_live::netlink::nftables;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most bytes that a connection carries in each direction.
const MOST: u64 = 100_000;
/// More bytes than buffers hold.
const ENDLESS: u64 = 1 << 40;
/// Most connections that are opened at once.
const OPENING: usize = 200;
/// After so long without progress nothing more will come.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long sockets of peers that are gone without a word may stay.
const FORGET: Duration = Duration::from_secs(240);

/// What became of the connections, and what was left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Found {
    pub(super) connections: usize,
    /// Those that were not abandoned, and carried each byte both ways.
    pub(super) exact: usize,
    pub(super) reset: usize,
    pub(super) half_closed: usize,
    pub(super) silent: usize,
    /// Those that carried other bytes than were sent, at either end.
    pub(super) wrong: usize,
    /// Those that ended otherwise than planned, or never.
    pub(super) failed: usize,
    /// What the first of these said.
    pub(super) failure: Option<String>,
    /// TCP sockets in the gateway before, when the clients were done, and at the end of the wait.
    pub(super) sockets_before: usize,
    pub(super) sockets_at_end: usize,
    pub(super) sockets_left: usize,
    /// How long it took from the clients' end until there were as few as before.
    pub(super) cleared_s: Option<f64>,
    /// The daemon's memory, in 10^6 bytes.
    pub(super) memory_before_mb: f64,
    pub(super) memory_peak_mb: f64,
    pub(super) memory_after_mb: f64,
    /// Tables of packet rules, rules and routes that were not there before the gateway and are when it has ended.
    pub(super) left_in_kernel: Vec<String>,
}

/// Half in order; of the others a third each is reset, half-closed and silent, at a random place.
fn plans(bed: &Bed, count: usize, seed: u64) -> Result<Vec<Plan>> {
    let (to, second) = (bed.server_address()?, bed.client_address(true)?);
    let mut rng = Rng::new(seed);
    let mut draw = |most: u64| 1 + rng.next_u64() % most;
    let plans = (0..count).map(|number| {
        let (up, down) = (draw(MOST), draw(MOST));
        // Before all is sent: an end of what is sent that comes later is in order.
        let place = draw(up) - 1;
        let ending = match number % 6 {
            1 => Ending::Reset(draw(up + down) - 1),
            3 => Ending::HalfClosed(place),
            5 => Ending::Silent(place),
            _ => Ending::Orderly,
        };
        // Whoever falls silent leaves bytes behind that wait for it for ever.
        let is_silent = matches!(ending, Ending::Silent(_));
        let (from, down) = if is_silent { (Some(second), ENDLESS) } else { (None, down) };
        Plan { to, from, up, down, ending }
    });
    Ok(plans.collect())
}

/// Everything of a gateway's that a namespace could be left with.
fn traces(namespace: &crate::testbed::Namespace) -> Result<Vec<String>> {
    let mut traces: Vec<String> = Vec::new();
    let asked: [(&str, &[&str]); 4] = [
        ("rule", &["rule"]),
        ("IPv6 rule", &["-6", "rule"]),
        ("route", &["route", "show", "table", "all"]),
        ("IPv6 route", &["-6", "route", "show", "table", "all"]),
    ];
    for (what, args) in asked {
        traces.extend(namespace.ip(args)?.lines().map(|line| format!("{what} {}", line.trim())));
    }
    let tables = namespace.enter(|| Ok(nftables::tables(None)?))?;
    traces.extend(tables.into_iter().map(|table| format!("table {table}")));
    Ok(traces)
}

/// Measures once.
pub(super) fn measure(
    interrupt: &Interrupt,
    bed: &Bed,
    count: usize,
    seed: u64,
    more: &[String],
    directory: &Path,
) -> Result<Found> {
    allow_sockets(count).context("so many sockets are not allowed")?;
    let namespace = bed.gateways.first().context("no gateway")?;
    let before = traces(namespace)?;
    let mut gateway =
        Gateway::start(interrupt, namespace, &settings(&["bypass_below = \"0ms\"".to_owned()], more), directory)?;
    let plans = plans(bed, count, seed)?;
    let clients = Clients { congestion: CONGESTION, opening: OPENING, checks: true, patience: PATIENCE };
    let listen = bed.server_address()?;
    let exchange = Exchange { from: &bed.client, to: &bed.server, listen, plans: &plans, clients };
    let sockets_before = memory::tcp_sockets(namespace)?;
    let memory_before = memory::resident(gateway.id())?.now;
    let ((mut found, results), served) = exchange.run(
        interrupt,
        |_, _| Ok(true),
        |results| {
            bed.forget_second_address()?;
            let Results { records, silent } = results;
            let results = Results { records, silent: Vec::new() };
            drop(silent);
            let sockets_at_end = memory::tcp_sockets(namespace)?;
            let begun = Instant::now();
            let mut sockets_left = sockets_at_end;
            while sockets_left > sockets_before && begun.elapsed() < FORGET {
                interrupt.sleep(Duration::from_millis(100))?;
                sockets_left = memory::tcp_sockets(namespace)?;
            }
            let cleared_s = (sockets_left <= sockets_before).then(|| begun.elapsed().as_secs_f64());
            bed.restore_second_address()?;
            let found = Found { sockets_before, sockets_at_end, sockets_left, cleared_s, ..Found::blank(count) };
            Ok((found, results))
        },
    )?;
    gateway.check()?;
    let resident = memory::resident(gateway.id())?;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    found.memory_before_mb = megabytes(memory_before);
    (found.memory_peak_mb, found.memory_after_mb) = (megabytes(resident.peak), megabytes(resident.now));
    gateway.stop()?;
    found.left_in_kernel = traces(namespace)?.into_iter().filter(|trace| !before.contains(trace)).collect();
    found.count(&plans, &results);
    found.wrong += usize::try_from(served.wrong)?;
    if found.exact as u64 > served.exact {
        bail!("{} connections were exact at the client, and {} at the server", found.exact, served.exact);
    }
    Ok(found)
}

impl Found {
    fn blank(connections: usize) -> Found {
        Found {
            connections,
            exact: 0,
            reset: 0,
            half_closed: 0,
            silent: 0,
            wrong: 0,
            failed: 0,
            failure: None,
            sockets_before: 0,
            sockets_at_end: 0,
            sockets_left: 0,
            cleared_s: None,
            memory_before_mb: 0.0,
            memory_peak_mb: 0.0,
            memory_after_mb: 0.0,
            left_in_kernel: Vec::new(),
        }
    }

    fn count(&mut self, plans: &[Plan], results: &Results) {
        for (plan, record) in plans.iter().zip(&results.records) {
            let counted = match (&record.fate, plan.ending) {
                (Fate::Exact, Ending::Orderly) => &mut self.exact,
                (Fate::Abandoned, Ending::Reset(_)) => &mut self.reset,
                (Fate::Abandoned, Ending::HalfClosed(_)) => &mut self.half_closed,
                (Fate::Abandoned, Ending::Silent(_)) => &mut self.silent,
                (Fate::Wrong, _) => &mut self.wrong,
                _ => &mut self.failed,
            };
            *counted += 1;
        }
        self.failure = results.failure().map(str::to_owned);
    }
}
