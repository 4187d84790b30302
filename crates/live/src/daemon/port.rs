//! The daemon's sockets towards the links.

use crate::channel::udp::{self, Destination, OpenError, Presence, Receive, ReceiveBatch, Sent, UdpConfig, UdpSocket};
use crate::config::{Channel, ChannelKind};
use crate::netlink::Netlink;
use fairspan_core::units::ChannelId;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use thiserror::Error;

/// Why a socket cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PortError {
    /// The port on which peers may begin.
    #[error("listen_port {port}: {source}")]
    Listen {
        /// The port.
        port: u16,
        /// What was refused.
        source: OpenError,
    },
    /// A channel's socket.
    #[error("channel {channel}: {source}")]
    Channel {
        /// The channel's name.
        channel: String,
        /// What was refused.
        source: OpenError,
    },
}

impl PortError {
    /// Whether a privilege is missing.
    pub(super) fn is_permission(&self) -> bool {
        let (PortError::Listen { source, .. } | PortError::Channel { source, .. }) = self;
        matches!(source.errno, libc::EPERM | libc::EACCES)
    }
}

/// One socket.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: UdpSocket,
    device: Option<String>,
    /// The channel that the socket was opened for; none for one that listens.
    pub(super) owner: Option<(usize, ChannelId)>,
    /// The interface is gone: nothing is read until it is back.
    pub(super) absent: bool,
    /// Waiting for the socket to become writable.
    pub(super) wants_write: bool,
}

impl Port {
    /// The sockets on which peers may begin: one for each address family that the kernel has.
    pub(super) fn listen(port: u16, mark: u32) -> Result<Vec<Port>, PortError> {
        let mut ports = Vec::new();
        for address in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
            let mut config = UdpConfig::new(SocketAddr::new(address, port));
            config.mark = Some(mark);
            match UdpSocket::open(config) {
                Ok(socket) => ports.push(Port::new(socket, None, None)),
                Err(error) if address.is_ipv6() && matches!(error.errno, libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => {
                    tracing::info!("no IPv6 here: listening on IPv4 only");
                }
                Err(source) => return Err(PortError::Listen { port, source }),
            }
        }
        Ok(ports)
    }

    /// The socket of a configured UDP channel.
    pub(super) fn open(channel: &Channel, mark: u32, owner: (usize, ChannelId)) -> Result<Port, PortError> {
        let ChannelKind::Udp { endpoint, source } = &channel.kind else {
            unreachable!("an Ethernet channel has no UDP socket")
        };
        let any = if endpoint.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let mut config = UdpConfig::new(SocketAddr::new(source.unwrap_or(any), 0));
        config.device.clone_from(&channel.device);
        config.mark = Some(mark);
        let socket = UdpSocket::open(config)
            .map_err(|source| PortError::Channel { channel: channel.name.clone(), source })?;
        Ok(Port::new(socket, channel.device.clone(), Some(owner)))
    }

    fn new(socket: UdpSocket, device: Option<String>, owner: Option<(usize, ChannelId)>) -> Port {
        Port { socket, device, owner, absent: false, wants_write: false }
    }

    /// Whether the interface that the socket is bound to is switched on and has carrier.
    pub(super) fn is_running(&self) -> bool {
        let Some(device) = self.device.as_deref() else { return true };
        Netlink::open().and_then(|mut n| n.interface(device)).is_ok_and(|i| i.up && i.running)
    }

    /// The MTU of the interface that the socket is bound to, as it is now.
    pub(super) fn device_mtu(&self) -> Option<usize> {
        let device = self.device.as_deref()?;
        Some(Netlink::open().ok()?.interface(device).ok()?.mtu as usize)
    }

    /// Whether the interface `name` is the one that the socket is bound to.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.device.as_deref() == Some(name)
    }

    pub(super) fn receive(&mut self, into: &mut ReceiveBatch) -> Receive {
        if self.absent { Receive::Empty } else { self.socket.receive(into) }
    }

    pub(super) fn send_one(&mut self, destination: Destination, bytes: &[u8]) -> Sent {
        if self.absent { Sent::Down } else { self.socket.send_one(destination, bytes) }
    }

    /// Looks whether the interface is there; true when the socket was opened anew.
    pub(super) fn look(&mut self) -> Result<bool, udp::OpenError> {
        let presence = self.socket.check()?;
        self.absent = presence == Presence::Absent;
        Ok(presence == Presence::Reopened)
    }

    /// The counters, by name.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let s = self.socket.stats();
        [
            ("sent", s.sent),
            ("sent_bytes", s.sent_bytes),
            ("send_calls", s.send_calls),
            ("received_messages", s.received),
            ("received_bytes", s.received_bytes),
            ("blocked", s.blocked),
            ("congested", s.congested),
            ("too_big", s.too_big),
            ("link_down", s.down),
            ("ignored_errors", s.ignored),
            ("segmentation_refused", s.segmentation_refused),
            ("reopened", s.reopened),
        ]
        .into_iter()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
