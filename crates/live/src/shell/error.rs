//! Why a daemon does not start, or ends by itself, and whether a privilege is what is missing.

use crate::control::ControlError;
use crate::netlink::NetlinkError;
use crate::sockets::socket::SocketError;
use crate::tun::TunError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Why a daemon does not start, or ends by itself.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The TUN interface.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// Addresses, routes, rules.
    #[error(transparent)]
    Network(#[from] NetlinkError),
    /// The control socket.
    #[error("control socket {0}")]
    Control(#[from] ControlError),
    /// A channel or the listening socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A device whose frames are to be the daemon's.
    #[error("device {device}: {source}")]
    Device {
        /// The device.
        device: String,
        /// What was refused.
        source: io::Error,
    },
    /// A setting that the core or the session layer refuses.
    #[error("peer {peer}: {problem}")]
    Setting {
        /// Whose.
        peer: String,
        /// What is wrong.
        problem: String,
    },
    /// Where clients ask for connections.
    #[error("proxy on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The recording.
    #[error("record {}: {source}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Waiting for events.
    #[error("waiting for events: {0}")]
    Poll(io::Error),
}

impl DaemonError {
    /// A setting of `peer` that is refused.
    pub(crate) fn setting(peer: &str, problem: impl ToString) -> DaemonError {
        DaemonError::Setting { peer: peer.to_owned(), problem: problem.to_string() }
    }

    /// Whether a privilege is missing.
    pub fn is_permission(&self) -> bool {
        match self {
            DaemonError::Tun(TunError::NotPermitted { .. } | TunError::NoAccess) => true,
            DaemonError::Network(e) => e.lacks_privilege(),
            DaemonError::Control(ControlError::Io { source, .. }) => source.kind() == io::ErrorKind::PermissionDenied,
            DaemonError::Socket(e) => e.is_permission(),
            DaemonError::Device { source, .. } | DaemonError::Listen { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}

impl From<rustix::io::Errno> for DaemonError {
    fn from(errno: rustix::io::Errno) -> DaemonError {
        DaemonError::Poll(errno.into())
    }
}
