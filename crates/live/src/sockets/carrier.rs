//! What carries a channel, and what that adds to each packet.

use super::sealed_frame;
use crate::secure::PathId;
use std::net::{IpAddr, SocketAddr};

/// What carries a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carrier {
    /// What a session sealed: datagrams, by themselves or in a stream, or frames where the remote is a station
    /// ([`sealed_frame`]).
    Sealed {
        /// The sessions that seal.
        path: PathId,
        /// Our socket: its index among the sockets.
        socket: usize,
        /// Where the peer is.
        remote: SocketAddr,
        /// The socket's datagrams go over TCP.
        stream: bool,
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
            Carrier::Sealed { stream: true, .. } => "tcp",
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

    /// The MTU that a bond is told where the link's is `link`. A stream has none: what would fit a datagram fits it, so that a
    /// channel that goes over to TCP carries the same packets.
    pub(crate) fn mtu(&self, link: usize) -> usize {
        match self {
            Carrier::Sealed { stream: true, .. } => link.min(STREAM_MTU_MAX) + STREAM,
            _ => link,
        }
    }

    /// What is added to each packet of the bond, from the outer IP header on; `seal` is what sealing adds at most.
    pub(crate) fn overhead(&self, seal: usize) -> usize {
        match self {
            Carrier::Sealed { remote, .. } if sealed_frame::mac_of(*remote).is_some() => sealed_frame::LENGTH + seal,
            Carrier::Sealed { remote, stream: false, .. } => outer_header(remote.ip()) + seal,
            Carrier::Sealed { remote, stream: true, .. } => outer_header(remote.ip()) + STREAM + seal,
            Carrier::Plain { .. } => 0,
        }
    }
}

/// What a stream adds beyond a datagram's headers, where a segment carries one frame: 32 bytes of TCP header with timestamps for
/// 8 of UDP, and the frame's length.
const STREAM: usize = 32 - 8 + 2;
/// The largest MTU of which a stream makes use.
const STREAM_MTU_MAX: usize = 9000;

/// Bytes of the outer IP and UDP headers.
fn outer_header(remote: IpAddr) -> usize {
    let v4 = match remote {
        IpAddr::V4(_) => true,
        // An IPv4 peer behind a socket that takes both families.
        IpAddr::V6(a) => a.to_ipv4_mapped().is_some(),
    };
    if v4 { 20 + 8 } else { 40 + 8 }
}
