//! Very many connections at once through one gateway, without a long link: what it costs.

use super::bed::{Bed, CONGESTION};
use super::far::settings;
use super::relays::{self, Gateway};
use crate::measure::exchange::Exchange;
use crate::measure::load::{Clients, Ending, Plan, allow_sockets};
use crate::measure::{cpu, memory};
use crate::testbed::Interrupt;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::time::Duration;

/// What does not count at the start: the connections are made, and windows open.
pub(super) const WARM_UP: Duration = Duration::from_secs(2);
/// Most connections that are opened at once.
const OPENING: usize = 200;

/// What stands in the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The kernel, which forwards.
    Forwarding,
    /// haproxy, as a proxy that is called by its address.
    Haproxy,
    /// Fairspan, which splits, without fair queueing.
    Plain,
    /// Fairspan, which splits and queues fairly.
    Fair,
}

impl Way {
    pub(super) const ALL: [Way; 4] = [Way::Forwarding, Way::Haproxy, Way::Plain, Way::Fair];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Forwarding => "the kernel forwards",
            Way::Haproxy => "haproxy",
            Way::Plain => "fairspan",
            Way::Fair => "fairspan, fair queueing",
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// Application data of all connections.
    pub(super) gbit_s: f64,
    /// Connections that received anything.
    pub(super) served: usize,
    /// Processor seconds of the process in the gateway, per 10^9 bytes.
    pub(super) process_s_gb: Option<f64>,
    /// Those of the whole machine, the ends included.
    pub(super) machine_s_gb: f64,
    /// The most memory that the process had, in 10^6 bytes.
    pub(super) peak_mb: Option<f64>,
}

/// What stands in the gateway at the moment.
enum Running {
    Nothing,
    Haproxy(crate::testbed::Process),
    Fairspan(Gateway),
}

impl Running {
    fn id(&self) -> Option<u32> {
        match self {
            Running::Nothing => None,
            Running::Haproxy(process) => Some(process.id()),
            Running::Fairspan(gateway) => Some(gateway.id()),
        }
    }
}

/// Measures one way.
pub(super) fn measure(
    interrupt: &Interrupt,
    bed: &Bed,
    way: Way,
    (connections, duration): (usize, Duration),
    more: &[String],
    directory: &Path,
) -> Result<Found> {
    allow_sockets(connections).context("so many sockets are not allowed")?;
    let namespace = bed.gateways.first().context("no gateway")?;
    let fairspan = |fair: bool| {
        let own = [format!("fair_queueing = {fair}"), "bypass_below = \"0ms\"".to_owned()];
        Gateway::start(interrupt, namespace, &settings(&own, more), directory)
    };
    let mut running = match way {
        Way::Forwarding => Running::Nothing,
        Way::Haproxy => Running::Haproxy(relays::haproxy(bed, connections, directory)?),
        Way::Plain => Running::Fairspan(fairspan(false)?),
        Way::Fair => Running::Fairspan(fairspan(true)?),
    };
    if let Running::Haproxy(process) = &mut running {
        relays::wait_for_listener(interrupt, bed, process)?;
    }
    let found = flood(interrupt, bed, way, connections, duration, running.id());
    match running {
        Running::Nothing => {}
        Running::Haproxy(mut process) => process.check()?,
        Running::Fairspan(mut gateway) => {
            gateway.check()?;
            if found.is_ok() {
                gateway.stop()?;
            }
        }
    }
    found
}

fn flood(
    interrupt: &Interrupt,
    bed: &Bed,
    way: Way,
    connections: usize,
    duration: Duration,
    process: Option<u32>,
) -> Result<Found> {
    let listen = bed.server_address()?;
    let to = if way == Way::Haproxy { bed.gateway_address()? } else { listen };
    let plans = vec![Plan { to, from: None, up: 0, down: 1 << 50, ending: Ending::Orderly }; connections];
    let clients = Clients { congestion: CONGESTION, opening: OPENING, checks: false, patience: 4 * duration };
    let exchange = Exchange { from: &bed.client, to: &bed.server, listen, plans: &plans, clients };
    let used = || process.map(|id| cpu::used(&format!("/proc/{id}"))).transpose();
    let mut began = None;
    let mut found = None;
    let watch = |time: Duration, received: u64| {
        match &began {
            None if time >= WARM_UP => began = Some((time, received, used()?, cpu::read()?)),
            Some((since, before, used_before, machine)) if time - *since >= duration => {
                let gigabytes = (received - before) as f64 / 1e9;
                if gigabytes <= 0.0 {
                    bail!("nothing got through in {} s", duration.as_secs());
                }
                let peak = process.map(memory::resident).transpose()?;
                found = Some(Found {
                    gbit_s: gigabytes * 8.0 / (time - *since).as_secs_f64(),
                    served: 0,
                    process_s_gb: used()?.zip(*used_before).map(|(after, before)| (after - before) / gigabytes),
                    machine_s_gb: cpu::read()?.busy_since(machine) / gigabytes,
                    peak_mb: peak.map(|resident| resident.peak as f64 / 1e6),
                });
                return Ok(false);
            }
            _ => {}
        }
        Ok(true)
    };
    let (served, _) = exchange.run(interrupt, watch, |results| {
        if let Some(why) = results.failure() {
            bail!("a connection failed: {why}");
        }
        Ok(results.records.iter().filter(|record| record.received > 0).count())
    })?;
    let found = found.context("the connections ended before their time")?;
    Ok(Found { served, ..found })
}
