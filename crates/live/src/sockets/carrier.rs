//! What carries a channel, and what that adds to each packet.

use super::sealed_frame;
use crate::secure::PathId;
use std::net::{IpAddr, SocketAddr};

/// What carries a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carrier {
    /// What a session sealed: datagrams, or frames where the remote is a station ([`sealed_frame`]).
    Sealed {
        /// The sessions that seal.
        path: PathId,
        /// Our socket: its index among the sockets.
        socket: usize,
        /// Where the peer is.
        remote: SocketAddr,
    },
    /// Frames in the clear.
    Plain {
        /// Our socket: its index among the sockets.
        socket: usize,
    },
}

impl Carrier {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Carrier::Sealed { remote, .. } if sealed_frame::mac_of(*remote).is_none() => "udp",
            Carrier::Sealed { .. } | Carrier::Plain { .. } => "ethernet",
        }
    }

    pub(crate) fn socket(&self) -> usize {
        match self {
            Carrier::Sealed { socket, .. } | Carrier::Plain { socket } => *socket,
        }
    }

    pub(crate) fn path(&self) -> Option<PathId> {
        match self {
            Carrier::Sealed { path, .. } => Some(*path),
            Carrier::Plain { .. } => None,
        }
    }

    /// Where the peer is, as the sessions know it.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        match self {
            Carrier::Sealed { remote, .. } => Some(*remote),
            Carrier::Plain { .. } => None,
        }
    }

    /// What is added to each packet of the bond, from the outer IP header on; `seal` is what sealing adds at most.
    pub(crate) fn overhead(&self, seal: usize) -> usize {
        match self {
            Carrier::Sealed { remote, .. } if sealed_frame::mac_of(*remote).is_some() => sealed_frame::LENGTH + seal,
            Carrier::Sealed { remote, .. } => outer_header(remote.ip()) + seal,
            Carrier::Plain { .. } => 0,
        }
    }
}

/// Bytes of the outer IP and UDP headers.
fn outer_header(remote: IpAddr) -> usize {
    let v4 = match remote {
        IpAddr::V4(_) => true,
        // An IPv4 peer behind a socket that takes both families.
        IpAddr::V6(a) => a.to_ipv4_mapped().is_some(),
    };
    if v4 { 20 + 8 } else { 40 + 8 }
}
