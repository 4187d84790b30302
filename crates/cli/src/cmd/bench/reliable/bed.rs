//! Two hosts, two sides with a port each, and what joins the sides.
//!
//! ```text
//!  left  host0 ---- port0  near  link-a ---- [ emulated ] ---- link-a  far  port0 ---- host0  right
//!                                link-b ---- [ emulated ] ---- link-b
//!                                wire0  ---------------------- wire0
//! ```

use super::links::Line;
use crate::measure::cpu;
use crate::measure::flood::{self, pin};
use crate::measure::reads::{self, Reads};
use crate::testbed::paths::{Paths, addresses};
use crate::testbed::tunnel::{Channel, ChannelKind, Mode, Ports, Tunnel};
use crate::testbed::{End, Interrupt, Namespace, cable};
use anyhow::{Context, Result, anyhow};
use fairspan_live::emulate::{Forwarder, PortName};
use rustix::thread::gettid;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// The device of a host, and of a side towards it.
const HOST: &str = "host0";
const PORT: &str = "port0";
/// The cable between the sides that no emulator stands in.
const WIRE: &str = "wire0";
const WIRE_FAR: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);
/// What does not count at the start of each measurement.
pub(super) const WARM_UP: Duration = Duration::from_secs(1);

/// What carries the frames between the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A plain forwarder at each side, over one device.
    Plain(usize),
    /// A daemon at each side, in this mode, over all links.
    Bond(&'static str),
}

/// What all bonds have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bonds<'a> {
    pub(super) kind: ChannelKind,
    /// The setting `equalize`; its default if not given.
    pub(super) equalize: Option<&'a str>,
}

/// Everything that is made for the measurements.
pub(super) struct Bed<'a> {
    interrupt: &'a Interrupt,
    directory: &'a Path,
    lines: &'a [Line],
    bonds: Bonds<'a>,
    duration: Duration,
    left: Namespace,
    right: Namespace,
    paths: Paths,
    /// Frames of an earlier measurement are not mistaken for those of a later one.
    run: u32,
}

impl<'a> Bed<'a> {
    /// Builds it; configurations and logs go to `directory`.
    pub(super) fn new(
        interrupt: &'a Interrupt,
        directory: &'a Path,
        lines: &'a [Line],
        bonds: Bonds<'a>,
        duration: Duration,
    ) -> Result<Bed<'a>> {
        let named: Vec<_> = lines.iter().map(|line| (line.device.as_str(), line.profile.clone())).collect();
        let paths = Paths::new(&named)?;
        let (left, right) = (Namespace::new("left")?, Namespace::new("right")?);
        for (host, side) in [(&left, &paths.near), (&right, &paths.far)] {
            cable(
                End { namespace: host, device: HOST, address: None },
                End { namespace: side, device: PORT, address: None },
            )?;
        }
        let far_address = format!("{WIRE_FAR}/24");
        cable(
            End { namespace: &paths.near, device: WIRE, address: Some("10.98.0.1/24") },
            End { namespace: &paths.far, device: WIRE, address: Some(&far_address) },
        )?;
        Ok(Bed { interrupt, directory, lines, bonds, duration, left, right, paths, run: 0 })
    }

    /// Reads and writes over the emulated links.
    pub(super) fn reads(&mut self, way: Way, tags: u16, parts: u8) -> Result<reads::Found> {
        self.run += 1;
        let reads = Reads {
            left: &self.left,
            right: &self.right,
            device: HOST,
            tags,
            parts,
            warm_up: WARM_UP,
            duration: self.duration,
        };
        let channel = |(index, line): (usize, &'a Line)| Channel {
            device: &line.device,
            endpoint: addresses(index).1,
            port: None,
            rate: line.rate,
        };
        let channels: Vec<Channel<'_>> = self.lines.iter().enumerate().map(channel).collect();
        match way {
            Way::Plain(index) => {
                let device = &self.lines.get(index).context("no such link")?.device;
                self.forwarded(device, None, |_| reads.run(self.run, self.interrupt))
            }
            Way::Bond(mode) => self.bonded(mode, &channels, |_| reads.run(self.run, self.interrupt)),
        }
    }

    /// The smallest frames over the cable; one core a side.
    pub(super) fn flood(&mut self, way: Way, cores: &Cores) -> Result<flood::Found> {
        self.run += 1;
        let flood = flood::Flood {
            left: &self.left,
            right: &self.right,
            device: HOST,
            cores: cores.hosts,
            warm_up: WARM_UP,
            duration: self.duration,
        };
        let measure = |folders: [String; 2]| {
            flood.run(self.run, self.interrupt, || Ok([cpu::used(&folders[0])?, cpu::used(&folders[1])?]))
        };
        match way {
            Way::Plain(_) => self.forwarded(WIRE, Some(cores.sides), measure),
            Way::Bond(mode) => {
                let channel = Channel { device: WIRE, endpoint: WIRE_FAR, port: None, rate: None };
                self.bonded(mode, &[channel], |folders| {
                    // All threads of the daemons, also those that are there already.
                    for (folder, core) in folders.iter().zip(cores.sides) {
                        keep(folder, core)?;
                    }
                    measure(folders)
                })
            }
        }
    }

    /// Runs `measure` while daemons join the ports; it is given where the kernel tells of the two.
    fn bonded<T>(
        &self,
        mode: &'static str,
        channels: &[Channel<'_>],
        measure: impl FnOnce([String; 2]) -> Result<T>,
    ) -> Result<T> {
        let Bonds { kind, equalize } = self.bonds;
        let ports = Ports { device: PORT, channels, kind, mode: Mode { mode, scheduler: None }, equalize };
        let ends = [&self.paths.near, &self.paths.far];
        let mut tunnel = Tunnel::join_ports(self.interrupt, ends, &ports, self.directory)?;
        let measured = measure(tunnel.ids().map(|id| format!("/proc/{id}")));
        // A daemon that died explains a measurement that failed.
        tunnel.check()?;
        let measured = measured?;
        tunnel.stop()?;
        Ok(measured)
    }

    /// Runs `measure` while plain forwarders join the ports by `device`, on `cores` if they are given.
    fn forwarded<T>(
        &self,
        device: &str,
        cores: Option<[usize; 2]>,
        measure: impl FnOnce([String; 2]) -> Result<T>,
    ) -> Result<T> {
        let port = |side: &Namespace, device: &str| PortName {
            namespace: Some(side.name().to_owned()),
            device: device.to_owned(),
        };
        let stop = &AtomicBool::new(false);
        let mut forwarders = Vec::new();
        for side in [&self.paths.near, &self.paths.far] {
            forwarders.push(Forwarder::open(&port(side, PORT), &port(side, device))?);
        }
        std::thread::scope(|scope| {
            let (tell, told) = channel();
            let mut threads = Vec::new();
            for (side, mut forwarder) in forwarders.into_iter().enumerate() {
                let tell = tell.clone();
                threads.push(scope.spawn(move || {
                    if let Some(cores) = cores {
                        pin(cores[side])?;
                    }
                    let _ = tell.send((side, format!("/proc/self/task/{}", gettid().as_raw_nonzero())));
                    anyhow::Ok(forwarder.run(stop)?)
                }));
            }
            drop(tell);
            let mut folders = [String::new(), String::new()];
            for (side, folder) in told.iter().take(2) {
                folders[side] = folder;
            }
            let measured = measure(folders);
            stop.store(true, Ordering::Relaxed);
            for thread in threads {
                let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                ended.map_err(|error| anyhow!("a plain forwarder ended early: {error:#}"))?;
            }
            measured
        })
    }
}

/// Keeps all threads of a process on one core.
fn keep(folder: &str, core: usize) -> Result<()> {
    let tasks = std::fs::read_dir(format!("{folder}/task")).with_context(|| format!("no threads in {folder}"))?;
    for task in tasks {
        let name = task?.file_name();
        let id = name.to_str().and_then(|id| rustix::process::Pid::from_raw(id.parse().ok()?));
        flood::pin_thread(Some(id.context("a thread without a number")?), core)?;
    }
    Ok(())
}

/// Which cores do what in a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    /// Those of the near and of the far side.
    pub(super) sides: [usize; 2],
    /// Those of the sender and of the receiver.
    pub(super) hosts: [usize; 2],
}

impl Cores {
    /// Four cores of those this process may use or, where there are fewer, two that each host shares with its side.
    ///
    /// # Errors
    /// There is only one.
    pub(super) fn choose() -> Result<Cores> {
        let set = rustix::thread::sched_getaffinity(None).context("which cores may be used")?;
        let all: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
        Cores::among(&all).context("one core a side needs two cores, and this process may use one")
    }

    fn among(all: &[usize]) -> Option<Cores> {
        match *all {
            [a, b, c, d, ..] => Some(Cores { sides: [a, b], hosts: [c, d] }),
            [a, b, ..] => Some(Cores { sides: [a, b], hosts: [a, b] }),
            _ => None,
        }
    }

    /// Whether a side has its core for itself.
    pub(super) fn alone(&self) -> bool {
        self.sides != self.hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_cores_of_their_own_where_there_are_four() {
        assert_eq!(Cores::among(&[0, 2, 4, 6, 8]), Some(Cores { sides: [0, 2], hosts: [4, 6] }));
        let shared = Cores::among(&[1, 3, 5]).unwrap();
        assert!(shared.sides == [1, 3] && !shared.alone());
        assert_eq!(Cores::among(&[0]), None);
    }
}
