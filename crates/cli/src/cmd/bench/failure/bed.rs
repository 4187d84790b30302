//! The two hosts, the links between them, the bond over these, and what is done to devices and processes.

use super::case::{Case, LINKS};
use crate::measure::tcp::{Transfer, Transport};
use crate::testbed::paths::{Paths, addresses};
use crate::testbed::relay::Relay;
use crate::testbed::tunnel::{Channel, FAR, PORT, RELIABLE, Tunnel};
use crate::testbed::{Interrupt, offloads_off};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The sender's device of the better link, and what it stands on where it is to be removed.
const DEVICE: &str = LINKS[0].name;
const UNDER: &str = "under";
/// The address that it has, and another one.
const ADDRESS: &str = "10.99.0.1/24";
const OTHER: &str = "10.99.0.7/24";
/// Where the translator takes what comes.
const TRANSLATED: u16 = PORT + 1;
/// Most bytes of a TCP socket's buffers.
const SOCKET_BUFFER: u64 = 32 << 20;

/// What carries the TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A bond of both links, no rate configured.
    Bond,
    /// The kernel's Multipath TCP over both, without a tunnel.
    Mptcp,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Bond => "bond",
            Way::Mptcp => "mptcp",
        }
    }
}

/// One network, for one run.
pub(super) struct Bed {
    case: Case,
    tunnel: Option<Tunnel>,
    relay: Option<Relay>,
    pub(super) paths: Paths,
}

impl Bed {
    /// Builds the links and, for the bond, starts it and waits until both channels are up.
    pub(super) fn new(interrupt: &Interrupt, directory: &Path, case: Case, way: Way) -> Result<Bed> {
        let named = case.profiles().into_iter().zip(LINKS).map(|(profiles, link)| (link.name, profiles));
        let paths = Paths::each_way(&named.collect::<Vec<_>>())?;
        paths.set_buffers(SOCKET_BUFFER)?;
        let mut bed = Bed { case, tunnel: None, relay: None, paths };
        if case == Case::Removed {
            bed.put_on_another().context("cannot make a device that can be removed")?;
        }
        match way {
            Way::Mptcp => bed.paths.announce_mptcp(&[LINKS[1].name], 1).context("cannot configure MPTCP")?,
            Way::Bond => {
                let (near, far) = (&bed.paths.near, &bed.paths.far);
                if case == Case::Rebinding {
                    bed.relay = Some(Relay::start(far, addresses(0).1, TRANSLATED, PORT)?);
                }
                let channels = [0, 1].map(|index| Channel {
                    device: LINKS[index].name,
                    endpoint: addresses(index).1,
                    port: (index == 0 && case == Case::Rebinding).then_some(TRANSLATED),
                    rate: None,
                });
                let mut tunnel = Tunnel::start(interrupt, near, far, &channels, RELIABLE, directory)?;
                tunnel.wait_for_channels(interrupt, channels.len())?;
                bed.tunnel = Some(tunnel);
            }
        }
        Ok(bed)
    }

    /// The TCP connection from the near host to the far one.
    pub(super) fn transfer(&self) -> Transfer<'_> {
        let tunnelled = self.tunnel.is_some();
        let (source, target) = addresses(0);
        Transfer {
            from: &self.paths.near,
            to: &self.paths.far,
            source: (!tunnelled).then_some(source.into()),
            target: SocketAddr::new(if tunnelled { FAR } else { target }.into(), 5000),
            transport: if tunnelled { Transport::Tcp } else { Transport::Mptcp },
            congestion: "cubic",
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
            download: None,
        }
    }

    /// Does what the emulator does not do itself. A process that stands still goes on when what is returned is dropped.
    pub(super) fn begin(&self) -> Result<Option<Stopped>> {
        let near = &self.paths.near;
        match self.case {
            Case::Carrier => drop(near.ip(&["link", "set", DEVICE, "down"])?),
            Case::Removed => drop(near.ip(&["link", "delete", DEVICE])?),
            Case::Address => {
                near.ip(&["address", "add", OTHER, "dev", DEVICE])?;
                near.ip(&["address", "delete", ADDRESS, "dev", DEVICE])?;
                // Where the second address was a secondary one it went with the first.
                near.ip(&["address", "replace", OTHER, "dev", DEVICE])?;
            }
            Case::Rebinding => self.relay.iter().for_each(Relay::forget),
            Case::Stopped => {
                let [_, far] = self.tunnel.as_ref().context("there is no daemon")?.ids();
                return Ok(Some(Stopped::new(far)?));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Puts all back as it was, as far as the emulator does not do that itself.
    pub(super) fn end(&self) -> Result<()> {
        match self.case {
            Case::Carrier => self.paths.near.ip(&["link", "set", DEVICE, "up"]).map(drop),
            Case::Removed => self.make_again(),
            _ => Ok(()),
        }
    }

    /// An error if a daemon is no longer there.
    pub(super) fn check(&mut self) -> Result<()> {
        self.tunnel.as_mut().map_or(Ok(()), Tunnel::check)
    }

    /// Ends the bond in order.
    pub(super) fn stop(mut self) -> Result<()> {
        self.tunnel.take().map_or(Ok(()), Tunnel::stop)
    }

    /// The device goes onto the one that was there: that one cannot be removed without the cable.
    fn put_on_another(&self) -> Result<()> {
        let near = &self.paths.near;
        near.ip(&["link", "set", DEVICE, "down"])?;
        near.ip(&["link", "set", DEVICE, "name", UNDER])?;
        near.ip(&["address", "flush", "dev", UNDER])?;
        near.ip(&["link", "set", UNDER, "up"])?;
        self.make_again()
    }

    fn make_again(&self) -> Result<()> {
        let near = &self.paths.near;
        near.ip(&["link", "add", "link", UNDER, "name", DEVICE, "type", "macvlan", "mode", "private"])?;
        near.ip(&["link", "set", DEVICE, "addrgenmode", "none"])?;
        near.ip(&["address", "add", ADDRESS, "dev", DEVICE])?;
        offloads_off(near, DEVICE)?;
        near.ip(&["link", "set", DEVICE, "up"]).map(drop)
    }
}

/// A process that stands still; dropped, it goes on.
pub(super) struct Stopped(Pid);

impl Stopped {
    fn new(id: u32) -> Result<Stopped> {
        let process = i32::try_from(id).ok().and_then(Pid::from_raw).context("the daemon has no number")?;
        kill_process(process, Signal::STOP).context("cannot stop the daemon")?;
        Ok(Stopped(process))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It is gone already otherwise.
        let _ = kill_process(self.0, Signal::CONT);
    }
}
