//! Recordings replayed by the link emulator, under a real TCP connection.

use super::folder::{BUFFER, CONNECTS, LEAD, Recording};
use super::report::{Found, Settings, tell};
use crate::measure::cpu;
use crate::measure::tcp::{Transfer, Transport};
use crate::testbed::paths::{Paths, addresses};
use crate::testbed::tunnel::{Channel, FAR, Mode, Tunnel};
use crate::testbed::{self, Interrupt, Namespace};
use anyhow::{Context, Result, bail};
use fairspan_core::units::Span;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// The port of the transfer.
const PORT: u16 = 5001;
/// How often a recording is begun, each time later.
const TRIES: u64 = 5;

/// Each recording in turn.
pub(super) fn measure(recordings: &[Recording], settings: Settings, interrupt: &Interrupt) -> Result<Vec<Found>> {
    testbed::require("fairspan bench replay", &[("ip", "iproute2"), ("ethtool", "ethtool")])?;
    Namespace::remove_stale();
    let directory = tempfile::Builder::new().prefix("fairspan-bench-").tempdir().context("no temporary directory")?;
    recordings
        .iter()
        .map(|recording| {
            let found = patiently(recording, settings, interrupt, directory.path())
                .with_context(|| format!("cannot replay {}", recording.name))?;
            tell(recording, &found);
            Ok(found)
        })
        .collect()
}

/// A machine that is too busy for the channels to come up before the series begin has more time before them.
fn patiently(recording: &Recording, settings: Settings, interrupt: &Interrupt, directory: &Path) -> Result<Found> {
    for lead in (1..TRIES).map(|factor| LEAD.times(factor)) {
        if let Some(found) = one(recording, lead, settings, interrupt, directory)? {
            return Ok(found);
        }
        eprintln!("fairspan: the channels were not up {} s after the links; again, with more time", lead.as_secs_f64());
    }
    bail!("the channels do not come up: this machine is too busy")
}

/// `None`: the channels were up too late.
fn one(
    recording: &Recording,
    lead: Span,
    settings: Settings,
    interrupt: &Interrupt,
    directory: &Path,
) -> Result<Option<Found>> {
    let devices: Vec<String> = (0..recording.links.len()).map(|number| format!("link{number}")).collect();
    let profiles: Vec<_> =
        devices.iter().zip(&recording.links).map(|(device, link)| (device.as_str(), link.profile(lead))).collect();
    let paths = Paths::new(&profiles)?;
    // The emulator's clock.
    let began = Instant::now();
    paths.set_buffers(BUFFER)?;
    let channels: Vec<_> = devices
        .iter()
        .enumerate()
        .map(|(index, device)| Channel { device, endpoint: addresses(index).1, port: None, rate: None })
        .collect();
    let mode = Mode { mode: settings.mode, scheduler: None };
    let mut tunnel = Tunnel::start(interrupt, &paths.near, &paths.far, &channels, mode, directory)?;
    tunnel.wait_for_channels(interrupt, channels.len())?;
    let mtu = tunnel.mtu(&paths.near)? as usize;
    interrupt.sleep(duration(CONNECTS).saturating_sub(began.elapsed()))?;
    let Some(warm_up) = duration(lead).checked_sub(began.elapsed()) else { return Ok(None) };
    let transfer = Transfer {
        from: &paths.near,
        to: &paths.far,
        source: None,
        target: SocketAddr::new(FAR.into(), PORT),
        transport: Transport::Tcp,
        congestion: settings.cc,
        warm_up,
        duration: duration(recording.length),
        download: None,
    };
    let before = cpu::read()?;
    let outcome = transfer.run(interrupt, |_| ());
    let processors = cpu::read()?.share_in_use_since(&before);
    // A daemon that died explains a transfer that failed.
    tunnel.check()?;
    let goodput = outcome.context("the bond")?;
    tunnel.stop()?;
    Ok(Some(Found::new(goodput.mbit(), settings.mode, mtu, Some(processors))))
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
