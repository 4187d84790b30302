//! The side of a bond that is not the peer's: the host, by a TUN interface, or a port.

use super::port::Port;
use super::random_seed;
use crate::config::Interface;
use crate::netlink::LinkChange;
use crate::roles::host::{Change, Host};
use crate::shell::DaemonError;
use crate::shell::poller::{Poller, Token};
use crate::status::Status;
use crate::tun::TunError;

/// Where packets come from and go to.
pub(super) enum Side {
    /// The host.
    Host(Box<Host>),
    /// Whatever is connected to an Ethernet device.
    Port(Box<Port>),
}

impl Side {
    /// Opens what the configuration says.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn open(interface: &Interface, poller: &Poller) -> Result<Side, DaemonError> {
        Ok(match &interface.port {
            Some(device) => Side::Port(Box::new(Port::open(interface, device, poller, random_seed())?)),
            None => Side::Host(Box::new(Host::open(interface, poller)?)),
        })
    }

    /// Begins to wait for packets.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn watch(&mut self) -> Result<(), DaemonError> {
        match self {
            Side::Host(host) => host.watch(),
            Side::Port(port) => {
                port.watch();
                Ok(())
            }
        }
    }

    /// Whether `token` is its own.
    pub(super) fn is(&self, token: Token) -> bool {
        match self {
            Side::Host(host) => host.is(token),
            Side::Port(port) => port.is(token),
        }
    }

    /// Whether packets are waited for. Errors are told also while they are not.
    pub(super) fn is_wanted(&self) -> bool {
        match self {
            Side::Host(host) => host.is_wanted(),
            Side::Port(port) => port.is_wanted(),
        }
    }

    /// Waits for packets, or for errors alone.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn set_wanted(&mut self, wanted: bool) -> Result<(), DaemonError> {
        match self {
            Side::Host(host) => host.set_wanted(wanted),
            Side::Port(port) => port.set_wanted(wanted),
        }
    }

    /// Follows what happens to an interface of the host.
    ///
    /// # Errors
    /// This one was deleted. A port may come back.
    pub(super) fn change(&mut self, change: LinkChange) -> Result<Change, TunError> {
        match self {
            Side::Host(host) => host.on_link_change(change),
            Side::Port(port) => Ok(port.change(change)),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Side::Host(host) => host.name(),
            Side::Port(port) => port.name(),
        }
    }

    pub(super) fn mtu(&self) -> usize {
        match self {
            Side::Host(host) => host.mtu(),
            Side::Port(port) => port.mtu(),
        }
    }

    /// Fills in what there is to tell.
    pub(super) fn tell(&self, status: &mut Status) {
        match self {
            Side::Host(host) => host.count(&mut status.counters),
            Side::Port(port) => {
                port.count(&mut status.counters);
                status.port = Some(port.status());
            }
        }
    }
}
