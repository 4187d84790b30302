//! The host's side of peers and of a ring's node: a TUN interface, its MTU, and its place in the host's network.

use super::network::{self, Reached};
use crate::config::Interface;
use crate::netlink::{Guard, LinkChange, Netlink, NetlinkError};
use crate::pool::PacketBuf;
use crate::shell::error::DaemonError;
use crate::shell::poller::{Interest, Poller, Token, Turn};
use crate::status::Counters;
use crate::tun::{self, Tun, TunError};
use ipnet::IpNet;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// TUN units read in a row before the links get their turn: 8 units of 64 kB are about 4 ms at 1 Gbit/s.
pub(super) const TUN_BURST: usize = 8;

/// The interface, and what was done to the network for it.
pub(super) struct Host {
    /// Undone before the interface goes with `tun`.
    network: Option<Guard>,
    pub(super) tun: Tun,
    poller: Poller,
    token: Option<Token>,
    /// Whether packets of the host are waited for.
    wanted: bool,
    mtu: usize,
    /// MTUs that the kernel did not accept.
    mtu_refused: u64,
    /// Packets for the host, to be handed over together.
    waiting: Vec<PacketBuf>,
}

impl Host {
    /// Opens the interface, which is down.
    ///
    /// # Errors
    /// [`TunError`].
    pub(super) fn open(interface: &Interface, poller: &Poller) -> Result<Host, TunError> {
        let mut config = tun::Config::new(&interface.name);
        config.offload = interface.offload;
        config.keep_partial = interface.offload;
        Ok(Host {
            network: None,
            tun: Tun::open(&config)?,
            poller: poller.clone(),
            token: None,
            wanted: true,
            mtu: 0,
            mtu_refused: 0,
            waiting: Vec::with_capacity(1024),
        })
    }

    /// Switches the interface on, with addresses, MTU and routes. `nets` are reached through it, by way of the `links`
    /// where those are named.
    ///
    /// # Errors
    /// What the kernel refuses; what was done by then is undone.
    pub(super) fn configure<'a>(
        &mut self,
        interface: &Interface,
        nets: impl Iterator<Item = &'a IpNet>,
        links: impl Iterator<Item = &'a str>,
        mtu: usize,
    ) -> Result<(), NetlinkError> {
        self.mtu = mtu;
        self.network = Some(network::configure(interface, nets, links, self.tun.name(), mtu)?);
        Ok(())
    }

    /// Has these addresses and reaches these networks from now on; whether that is anything new, and what the kernel refused.
    pub(super) fn change(&mut self, after: &Reached<'_>) -> (bool, Vec<NetlinkError>) {
        let Some(guard) = &mut self.network else { return (false, Vec::new()) };
        network::change(guard, self.tun.name(), after)
    }

    /// Begins to wait for packets of the host.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn watch(&mut self) -> Result<(), DaemonError> {
        self.token = Some(self.poller.watch(self.tun.as_fd(), Turn::Others)?);
        Ok(())
    }

    /// Whether `token` is the interface's.
    pub(super) fn is(&self, token: Token) -> bool {
        self.token == Some(token)
    }

    /// Whether packets of the host are waited for. Errors are told also while they are not.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Waits for packets of the host, or for errors alone.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn set_wanted(&mut self, wanted: bool) -> Result<(), DaemonError> {
        if let Some(token) = self.token.filter(|_| self.wanted != wanted) {
            let interest = if wanted { Interest::Read } else { Interest::Nothing };
            self.poller.set_interest(token, self.tun.as_fd(), interest)?;
            self.wanted = wanted;
        }
        Ok(())
    }

    /// A packet for the host: it waits for [`deliver`](Self::deliver).
    pub(super) fn push(&mut self, packet: PacketBuf) {
        self.waiting.push(packet);
    }

    /// Gives the host what waits for it.
    ///
    /// # Errors
    /// The interface was deleted.
    pub(super) fn deliver(&mut self) -> Result<(), TunError> {
        if self.waiting.is_empty() { Ok(()) } else { self.tun.send(&mut self.waiting) }
    }

    pub(super) fn name(&self) -> &str {
        self.tun.name()
    }

    pub(super) fn mtu(&self) -> usize {
        self.mtu
    }

    /// For requests about the interface, once it is configured.
    pub(super) fn netlink(&mut self) -> Option<&mut Netlink> {
        self.network.as_mut().map(Guard::netlink)
    }

    /// Sets the interface's MTU where it is another. True when the kernel got its IPv6 back thereby, addresses and the
    /// routes to `nets` with it.
    pub(super) fn fit_mtu<'a>(
        &mut self,
        interface: &Interface,
        nets: impl Iterator<Item = &'a IpNet>,
        mtu: usize,
    ) -> bool {
        if mtu == self.mtu {
            return false;
        }
        if let Err(error) = self.tun.set_mtu(mtu as u32) {
            self.mtu_refused += 1;
            tracing::warn!(interface = self.tun.name(), mtu, %error, "the kernel refuses this MTU");
            return false;
        }
        tracing::info!(interface = self.tun.name(), mtu, "interface MTU");
        let before = std::mem::replace(&mut self.mtu, mtu);
        let Some(guard) = &mut self.network else { return false };
        network::follow_mtu(guard.netlink(), interface, nets, self.tun.name(), [before, mtu])
    }

    /// What an event of the kernel's says of an interface.
    ///
    /// # Errors
    /// This one was deleted. Reading it tells that too, but nothing reads while there is no room.
    pub(super) fn on_link_change(&self, change: LinkChange) -> Result<Change, TunError> {
        let gone = match &change {
            LinkChange::Removed { index, .. } => *index == self.tun.index(),
            LinkChange::Missed => {
                let found = Netlink::open().and_then(|mut netlink| netlink.interface(self.tun.name()));
                matches!(found, Err(NetlinkError::NoInterface { .. }))
            }
            LinkChange::Changed(_) | LinkChange::Address { .. } => false,
        };
        if gone { Err(TunError::Gone { name: self.tun.name().to_owned() }) } else { Ok(change.into()) }
    }

    /// Adds the interface's counters.
    pub(super) fn count(&self, counters: &mut Counters) {
        counters.extend(self.tun.stats().each().map(|(name, n)| (format!("tun_{name}"), n)));
        counters.insert("mtu_refused".into(), self.mtu_refused);
    }
}

/// What happened to the host's interfaces.
pub(super) enum Change {
    /// This one is there and differs, or is gone.
    Device {
        /// Its name.
        name: String,
        /// It is switched on and has carrier.
        running: bool,
        /// Its MTU; `None` when it is gone.
        mtu: Option<usize>,
    },
    /// An address came, or is gone.
    Address {
        /// That which is gone.
        gone: Option<IpAddr>,
    },
    /// News were lost: each is to be looked at.
    Unknown,
}

impl From<LinkChange> for Change {
    fn from(change: LinkChange) -> Change {
        match change {
            LinkChange::Changed(interface) => Change::Device {
                name: interface.name,
                running: interface.up && interface.running,
                mtu: Some(interface.mtu as usize),
            },
            LinkChange::Removed { name, .. } => Change::Device { name, running: false, mtu: None },
            LinkChange::Address { gone } => Change::Address { gone },
            LinkChange::Missed => Change::Unknown,
        }
    }
}
