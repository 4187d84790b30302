//! What a daemon can be: this is the one place that lists the roles.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the roles, and a daemon that has one |
//! | `peers` | bonds with peers, over UDP and Ethernet |
//! | `split_peers` | such bonds, and gateways before them in one daemon |
//! | `lan` | a bond of Ethernet links |
//! | `ring` | a node of a packet ring |
//! | `gateway` | TCP connections split before a long link, which is shared fairly |
//! | `shaper` | two devices joined, with a queue of choice in each direction |
//! | `host`, `network` | a TUN interface and its place in the host's network: what peers and rings share |
//! | `domains` | addresses of some names are reached through the bond, or past it |
//! | `masquerade` | what peers send to others leaves as this host's own |
//! | `device` | a device whose frames are the daemon's: what Ethernet bonds, ports and shapers share |
//! | `hello` | what the ends tell each other about a channel |

mod device;
pub(crate) mod domains;
mod gateway;
mod hello;
mod host;
mod lan;
pub(crate) mod masquerade;
pub(crate) mod network;
mod peers;
mod ring;
mod shaper;
mod sharing;
mod split_peers;

use crate::config::Config;
use crate::confinement::Confinement;
use crate::helper::Helper;
use crate::lock::Lock;
use crate::notify::Manager;
use crate::shell::machine::Machine;
use crate::shell::{DaemonError, Shell};
pub(crate) use device::is_claimed;
use gateway::SplitGateway;
pub use gateway::doctor;
use lan::EthernetBond;
use ring::RingNode;
use shaper::Shapers;
use split_peers::SplitPeers;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

/// What a configuration makes of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// `[[peer]]`: bonds with peers, and gateways before them.
    Peers,
    /// `[bond]`: a bond of Ethernet links.
    EthernetBond,
    /// `[ring]`: a node of a packet ring.
    Ring,
    /// `[shape]`: a shaper between two devices.
    Shaper,
    /// `[gateway]`: TCP connections split before a long link.
    Gateway,
}

impl Role {
    /// The role that a configuration describes.
    pub fn of(config: &Config) -> Role {
        match config {
            Config { ring: Some(_), .. } => Role::Ring,
            Config { bond: Some(_), .. } => Role::EthernetBond,
            Config { shape: Some(_), .. } => Role::Shaper,
            Config { gateway: Some(_), .. } => Role::Gateway,
            _ => Role::Peers,
        }
    }
}

/// A running daemon. Dropping it undoes all that it did to the host's network.
pub struct Daemon {
    /// Undone before the control socket goes with the shell.
    machine: Box<dyn Machine>,
    shell: Shell,
}

impl Daemon {
    /// Opens everything that `config` names; the interface is up when this returns. `confinement` is what the process gave
    /// up before, for status; `lock` is looked after while the daemon runs.
    ///
    /// # Errors
    /// The first thing that failed; what was done by then is undone.
    pub fn start(config: Config, confinement: Option<Confinement>, lock: Option<Lock>) -> Result<Daemon, DaemonError> {
        let mut shell = Shell::open(&config.interface.control_socket)?;
        shell.tell(confinement, lock);
        let now = shell.now();
        let served = config.interface.served();
        let machine: Box<dyn Machine> = match Role::of(&config) {
            // Peers may get gateways later.
            Role::Peers => Box::new(SplitPeers::start(config, now, shell.poller())?),
            Role::EthernetBond => Box::new(EthernetBond::start(config, now, shell.poller())?),
            Role::Ring => Box::new(RingNode::start(config, now, shell.poller())?),
            Role::Shaper => Box::new(Shapers::start(config, now, shell.poller())?),
            Role::Gateway => Box::new(SplitGateway::start(config, now, shell.poller())?),
        };
        shell.serve(served);
        Ok(Daemon { machine, shell })
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        self.machine.interface()
    }

    /// The interface's MTU now, in bytes.
    pub fn mtu(&self) -> usize {
        self.machine.mtu()
    }

    /// One turn of its loop, for a host in memory; how long the next one may be away.
    #[cfg(test)]
    pub(crate) fn turn(&mut self) -> Result<fairspan_core::units::Span, DaemonError> {
        self.shell.turn_once(&mut *self.machine)
    }

    /// What `fairspan status` would show.
    pub fn status(&self) -> crate::status::Status {
        self.shell.status(&*self.machine)
    }

    /// Takes over what differs in the configuration file whenever `asked` becomes readable, or a client of the control socket
    /// wants it; `helper` reads it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn follow(&mut self, helper: Helper, asked: UnixStream) -> Result<(), DaemonError> {
        self.shell.follow(helper, asked)
    }

    /// Tells `manager` that the daemon is ready, and from then on what it wants to hear.
    pub fn obey(&mut self, manager: Manager) {
        let mtu = if self.mtu() > 0 { format!(", MTU {}", self.mtu()) } else { String::new() };
        manager.ready(&format!("{}{mtu}", self.interface()));
        self.shell.obey(manager);
    }

    /// Moves packets until `stop` becomes readable.
    ///
    /// # Errors
    /// What leaves the daemon without its purpose: the interface deleted by someone else.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<(), DaemonError> {
        self.shell.run(&mut *self.machine, stop)
    }
}
