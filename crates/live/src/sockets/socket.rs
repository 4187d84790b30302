//! The daemon's sockets towards the links.

use super::stream::{Looked, Stream};
use crate::channel::ethernet::{self, Codepoint, EthernetConfig, EthernetError, EthernetSocket, Mac};
use crate::channel::udp::{self, OpenError, UdpConfig, UdpSocket};
use crate::config::{Channel, ChannelKind};
use crate::icmp::Unreachable;
use crate::netlink::Netlink;
use crate::shell::poller::Poller;
use crate::shell::poller::Token;
use fairspan_core::units::{ChannelId, Time};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use thiserror::Error;

const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// Why a socket cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The port on which peers may begin.
    #[error("listen_port {port}: {source}")]
    Listen {
        /// The port.
        port: u16,
        /// What was refused.
        source: OpenError,
    },
    /// The TCP port on which peers may begin.
    #[error("listen_tcp_port {port}: {source}")]
    ListenTcp {
        /// The port.
        port: u16,
        /// What was refused.
        source: io::Error,
    },
    /// A UDP channel's socket.
    #[error("channel {channel}: {source}")]
    Channel {
        /// The channel's name.
        channel: String,
        /// What was refused.
        source: OpenError,
    },
    /// An Ethernet channel's socket.
    #[error("channel {channel}: {source}")]
    Ethernet {
        /// The channel's name.
        channel: String,
        /// What was refused.
        source: EthernetError,
    },
    /// It leads to a name that has no address yet.
    #[error("channel {channel}: its `endpoint` has no address yet")]
    Unresolved {
        /// The channel's name.
        channel: String,
    },
    /// Two peers on one LAN that cannot be told apart.
    #[error(
        "channel {channel}: peer_mac: another channel on {device} has the same, or has none either; \
         give each peer on a LAN its address"
    )]
    Station {
        /// The channel's name.
        channel: String,
        /// The device.
        device: String,
    },
    /// Sealed and plain frames with the same EtherTypes.
    #[error(
        "channel {channel}: secure: another channel on {device} with the same ethertype is set otherwise; \
         give one of them another ethertype"
    )]
    Mixed {
        /// The channel's name.
        channel: String,
        /// The device.
        device: String,
    },
}

impl SocketError {
    /// Whether a privilege is missing.
    pub(crate) fn is_permission(&self) -> bool {
        match self {
            SocketError::Listen { source, .. } | SocketError::Channel { source, .. } => {
                matches!(source.errno, libc::EPERM | libc::EACCES)
            }
            SocketError::ListenTcp { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            SocketError::Ethernet { source, .. } => matches!(source, EthernetError::Privileges { .. }),
            SocketError::Unresolved { .. } | SocketError::Station { .. } | SocketError::Mixed { .. } => false,
        }
    }

    /// Whether time may heal it: an interface or an address that is not there yet.
    fn may_pass(&self) -> bool {
        match self {
            SocketError::Channel { source, .. } => matches!(source.errno, libc::ENODEV | libc::EADDRNOTAVAIL),
            SocketError::Ethernet { source, .. } => matches!(source, EthernetError::NoDevice { .. }),
            SocketError::Unresolved { .. } => true,
            _ => false,
        }
    }
}

/// Whose a socket is: a number that its role gives a peer or a side, and a channel.
pub(crate) type Owner = (usize, ChannelId);

/// One socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) kind: Kind,
    device: Option<String>,
    /// The peers that an Ethernet channel's socket serves.
    segment: Option<Segment>,
    /// The channels that the socket was opened for; none for one that listens.
    pub(crate) owners: Vec<Owner>,
    /// The interface is gone, or the socket could not be opened yet: nothing is sent until it is there.
    pub(crate) absent: bool,
    /// A path that is not connected calls by it.
    calls: bool,
    /// Where the last message of the sessions could not be sent to.
    pub(super) unreachable: Option<SocketAddr>,
    /// What it is waited for under; `None` while it is not.
    pub(super) token: Option<Token>,
    /// Waiting for the socket to become writable.
    pub(super) wants_write: bool,
    /// What was told last about a socket that cannot be opened, so that it is told once.
    pub(super) complaint: Option<String>,
    /// Peers may begin there.
    listens: bool,
    /// Nobody needs it any more: closed then.
    pub(super) closes: Option<Time>,
}

/// What a socket speaks.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Datagrams.
    Udp(UdpSocket),
    /// Datagrams over TCP.
    Stream(Box<Stream>),
    /// Frames of one pair of EtherTypes.
    Ethernet(EthernetSocket),
    /// Not there yet: the interface or the address is still missing.
    Missing(Box<Channel>, u32, Poller),
    /// Of no use any more. The number is free for another one.
    Closed,
}

/// The stations on one device that speak with one pair of EtherTypes.
#[derive(Debug)]
struct Segment {
    ethertype: u16,
    /// Only sealed frames count.
    secure: bool,
    stations: Vec<Station>,
}

/// A peer on a LAN whose frames are not sealed: it is known by its address alone.
#[derive(Clone, Copy, Debug)]
struct Station {
    /// Its address; `None` until its first envelope tells.
    mac: Option<Mac>,
    /// It is learnt, and not configured.
    learns: bool,
    owner: Owner,
}

impl Socket {
    /// The sockets on which peers may begin: one for each address family that the kernel has.
    pub(crate) fn listen(port: u16, mark: u32) -> Result<Vec<Socket>, SocketError> {
        let mut sockets = Vec::new();
        for address in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
            let mut config = UdpConfig::new(SocketAddr::new(address, port));
            config.mark = Some(mark);
            match UdpSocket::open(config) {
                Ok(socket) => {
                    sockets.push(Socket { listens: true, ..Socket::new(Kind::Udp(socket), None, None) });
                }
                Err(error) if address.is_ipv6() && matches!(error.errno, libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => {
                    tracing::info!("no IPv6 here: listening on IPv4 only");
                }
                Err(source) => return Err(SocketError::Listen { port, source }),
            }
        }
        Ok(sockets)
    }

    /// Those on which peers may begin over TCP.
    pub(crate) fn listen_tcp(port: u16, mark: u32, poller: &Poller) -> Result<Vec<Socket>, SocketError> {
        let mut sockets = Vec::new();
        for address in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
            match Stream::listen(SocketAddr::new(address, port), mark, poller) {
                Ok(stream) => {
                    let kind = Kind::Stream(Box::new(stream));
                    sockets.push(Socket { listens: true, ..Socket::new(kind, None, None) });
                }
                Err(error)
                    if address.is_ipv6()
                        && matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) =>
                {
                    tracing::info!("no IPv6 here: listening for TCP on IPv4 only");
                }
                Err(source) => return Err(SocketError::ListenTcp { port, source }),
            }
        }
        Ok(sockets)
    }

    /// The socket of a configured channel. An Ethernet channel's may serve others on its LAN too: look with
    /// [`Socket::serves`] first. An interface or address that is still missing is no error: the socket is absent then.
    pub(crate) fn open(channel: &Channel, mark: u32, poller: &Poller) -> Result<Socket, SocketError> {
        let (kind, complaint) = match open(channel, mark, poller) {
            Ok(kind) => (kind, None),
            Err(error) if error.may_pass() => {
                tracing::warn!("{error}; the channel begins when that changes");
                (Kind::Missing(Box::new(channel.clone()), mark, poller.clone()), Some(error.to_string()))
            }
            Err(error) => return Err(error),
        };
        let segment = match &channel.kind {
            ChannelKind::Udp { .. } | ChannelKind::Tcp { .. } => None,
            ChannelKind::Ethernet { ethertype, secure, .. } => {
                Some(Segment { ethertype: *ethertype, secure: *secure, stations: Vec::new() })
            }
        };
        let mut socket = Socket::new(kind, channel.device.clone(), segment);
        socket.absent = complaint.is_some() || socket.is_stream();
        socket.complaint = complaint;
        Ok(socket)
    }

    /// Of a channel that may go over TCP to `to`, and does not yet.
    pub(crate) fn resting(channel: &Channel, to: SocketAddr, mark: u32, poller: &Poller) -> Socket {
        let mut stream = Stream::caller(channel, to, mark, poller);
        stream.set_resting(true);
        let mut socket = Socket::new(Kind::Stream(Box::new(stream)), channel.device.clone(), None);
        socket.absent = true;
        socket
    }

    fn new(kind: Kind, device: Option<String>, segment: Option<Segment>) -> Socket {
        Socket {
            kind,
            device,
            segment,
            owners: Vec::new(),
            absent: false,
            calls: false,
            unreachable: None,
            token: None,
            wants_write: false,
            complaint: None,
            listens: false,
            closes: None,
        }
    }

    /// Whether no channel was opened with it, nor may be.
    pub(super) fn is_idle(&self) -> bool {
        self.owners.is_empty() && !self.listens && !self.is_closed()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.kind, Kind::Closed)
    }

    /// Whether its datagrams go over TCP.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }

    /// Whether an Ethernet channel can share this socket.
    pub(crate) fn serves(&self, channel: &Channel) -> bool {
        match (&self.segment, &channel.kind) {
            _ if self.is_closed() => false,
            (Some(segment), ChannelKind::Ethernet { ethertype, .. }) => {
                self.device == channel.device && segment.ethertype == *ethertype
            }
            _ => false,
        }
    }

    /// Gives the socket to a channel.
    pub(crate) fn add_owner(&mut self, owner: Owner, channel: &Channel) -> Result<(), SocketError> {
        if let (Some(segment), ChannelKind::Ethernet { peer_mac, secure, .. }) = (&mut self.segment, &channel.kind) {
            let device = || channel.device.clone().unwrap_or_default();
            if segment.secure != *secure {
                return Err(SocketError::Mixed { channel: channel.name.clone(), device: device() });
            }
            if !secure {
                let mac = peer_mac.map(Mac);
                if segment.stations.iter().any(|station| station.mac == mac) {
                    return Err(SocketError::Station { channel: channel.name.clone(), device: device() });
                }
                segment.stations.push(Station { mac, learns: mac.is_none(), owner });
            }
        }
        self.owners.push(owner);
        Ok(())
    }

    /// Takes the socket from a channel.
    pub(crate) fn remove_owner(&mut self, owner: Owner) {
        self.owners.retain(|other| *other != owner);
        if let Some(segment) = &mut self.segment {
            segment.stations.retain(|station| station.owner != owner);
        }
    }

    /// Gives its owners other numbers.
    pub(crate) fn renumber(&mut self, new: impl Fn(usize) -> usize) {
        let stations = self.segment.iter_mut().flat_map(|segment| &mut segment.stations);
        stations.map(|station| &mut station.owner).chain(&mut self.owners).for_each(|(peer, _)| *peer = new(*peer));
    }

    /// Whether only what a session sealed counts.
    pub(super) fn is_sealed(&self) -> bool {
        self.segment.as_ref().is_some_and(|segment| segment.secure)
    }

    /// Whose a frame in the clear from `source` is, and whether its address was just learnt. An envelope from a stranger
    /// is taken for the first of the peer whose address is not known.
    pub(crate) fn owner_of(&mut self, source: Mac, codepoint: Codepoint) -> Option<(Owner, bool)> {
        let stations = &mut self.segment.as_mut()?.stations;
        if let Some(station) = stations.iter().find(|s| s.mac == Some(source)) {
            return Some((station.owner, false));
        }
        let unknown = stations.iter_mut().find(|s| s.mac.is_none() && codepoint == Codepoint::Envelope)?;
        unknown.mac = Some(source);
        Some((unknown.owner, true))
    }

    /// An address that was learnt, and not configured, is to be learnt again: who fell silent may come back with another interface.
    pub(crate) fn forget_station(&mut self, owner: Owner) {
        let stations = self.segment.iter_mut().flat_map(|segment| &mut segment.stations);
        let learnt = stations.filter(|station| station.learns && station.owner == owner);
        learnt.for_each(|station| station.mac = None);
    }

    /// Where a channel's unsealed frames go: to everybody until its peer's address is known.
    pub(crate) fn station(&self, owner: Owner) -> Mac {
        let stations = self.segment.iter().flat_map(|segment| &segment.stations);
        stations.filter(|s| s.owner == owner).find_map(|s| s.mac).unwrap_or(Mac::BROADCAST)
    }

    /// The MTU of the interface that the socket is bound to, as it is now.
    pub(crate) fn device_mtu(&self) -> Option<usize> {
        let device = self.device.as_deref()?;
        Some(Netlink::open().ok()?.interface(device).ok()?.mtu as usize)
    }

    /// Whether the interface that the socket is bound to is switched on and has carrier.
    pub(crate) fn is_running(&self) -> bool {
        let Some(device) = self.device.as_deref() else { return true };
        Netlink::open().and_then(|mut n| n.interface(device)).is_ok_and(|i| i.up && i.running)
    }

    /// Whether the interface `name` is the one that the socket is bound to.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.device.as_deref() == Some(name)
    }

    /// The interface's name, for people.
    pub(crate) fn device(&self) -> &str {
        self.device.as_deref().unwrap_or("any")
    }

    /// Looks whether the interface is there; true when the socket is a new one.
    ///
    /// # Errors
    /// What a person should read. The socket is absent then.
    pub(crate) fn look(&mut self) -> Result<bool, String> {
        let looked = match &mut self.kind {
            Kind::Udp(socket) => match socket.check() {
                Ok(presence) => Ok((presence == udp::Presence::Absent, presence == udp::Presence::Reopened)),
                Err(e) => Err(e.to_string()),
            },
            Kind::Ethernet(socket) => match socket.check() {
                Ok(presence) => Ok((presence == ethernet::Presence::Absent, presence == ethernet::Presence::Reopened)),
                Err(e) => Err(e.to_string()),
            },
            Kind::Stream(stream) => match stream.look() {
                Looked::Connected => Ok((false, false)),
                Looked::New => Ok((false, true)),
                Looked::Absent(None) => Ok((true, false)),
                Looked::Absent(Some(why)) => Err(why),
            },
            Kind::Missing(channel, mark, poller) => match open(channel, *mark, poller) {
                Ok(kind) => {
                    self.kind = kind;
                    Ok((false, true))
                }
                Err(e) => Err(e.to_string()),
            },
            Kind::Closed => Ok((true, false)),
        };
        self.absent = !matches!(looked, Ok((false, _)));
        looked.map(|(_, new)| new)
    }

    /// A path that is not connected calls `remote`: what the network told of that.
    pub(super) fn follow_call(&mut self, remote: SocketAddr) -> Option<Unreachable> {
        self.calls = true;
        let Kind::Udp(socket) = &self.kind else { return None };
        let place = |address: SocketAddr| (address.ip(), address.port());
        socket.returned().iter().rev().find(|returned| place(returned.to) == place(remote)).map(|returned| returned.why)
    }

    /// Hears what the network tells of calls, if there are any.
    pub(super) fn hear_of_calls(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        if let Kind::Udp(socket) = &mut self.kind {
            socket.hear(calls);
        }
    }

    /// The socket, for poll; `None` while there is none.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Udp(socket) => Some(socket.as_fd()),
            Kind::Ethernet(socket) => Some(socket.as_fd()),
            // A stream waits for its connections itself.
            Kind::Stream(_) | Kind::Missing(..) | Kind::Closed => None,
        }
    }

    /// Bytes of the headers before what is given to the socket, from the outer IP header on.
    pub(crate) fn outer_headers(&self) -> usize {
        match &self.kind {
            Kind::Udp(socket) if socket.local_addr().is_ipv4() => UDP_HEADER + IPV4_HEADER,
            Kind::Udp(_) => UDP_HEADER + IPV6_HEADER,
            Kind::Stream(_) | Kind::Ethernet(_) | Kind::Missing(..) | Kind::Closed => 0,
        }
    }

    /// The counters, by name, and what stands before each name.
    pub(crate) fn counters(&self) -> (&'static str, Vec<(&'static str, u64)>) {
        let counters = match &self.kind {
            Kind::Stream(stream) => return ("stream", stream.counters().collect()),
            Kind::Udp(socket) => socket.stats().each().collect(),
            Kind::Missing(..) | Kind::Closed => Vec::new(),
            Kind::Ethernet(socket) => {
                let s = socket.stats();
                vec![
                    ("sent", s.sent),
                    ("sent_bytes", s.sent_bytes),
                    ("send_calls", s.send_calls),
                    ("received", s.received),
                    ("received_bytes", s.received_bytes),
                    ("blocked", s.blocked),
                    ("congested", s.congested),
                    ("too_big", s.too_big),
                    ("down", s.down),
                    ("refused", s.refused),
                    ("ring_full", s.ring_full),
                    ("malformed", s.malformed),
                    ("reopened", s.reopened),
                ]
            }
        };
        ("socket", counters)
    }
}

/// Opens the socket of a configured channel.
fn open(channel: &Channel, mark: u32, poller: &Poller) -> Result<Kind, SocketError> {
    let name = || channel.name.clone();
    match &channel.kind {
        // What goes to that address stays on this host.
        ChannelKind::Udp { .. } if channel.is_unresolved() => Err(SocketError::Unresolved { channel: name() }),
        ChannelKind::Udp { endpoint, source } => {
            let any = if endpoint.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let mut config = UdpConfig::new(SocketAddr::new(source.unwrap_or(any), 0));
            config.device.clone_from(&channel.device);
            config.mark = Some(mark);
            let socket = UdpSocket::open(config).map_err(|source| SocketError::Channel { channel: name(), source })?;
            Ok(Kind::Udp(socket))
        }
        ChannelKind::Tcp { endpoint, .. } => {
            Ok(Kind::Stream(Box::new(Stream::caller(channel, *endpoint, mark, poller))))
        }
        ChannelKind::Ethernet { ethertype, .. } => {
            let mut config = EthernetConfig::new(channel.device.clone().unwrap_or_default());
            (config.data, config.envelope) = (*ethertype, ethertype + 1);
            let socket =
                EthernetSocket::open(config).map_err(|source| SocketError::Ethernet { channel: name(), source })?;
            Ok(Kind::Ethernet(socket))
        }
    }
}
