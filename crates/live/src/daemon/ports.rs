//! All sockets of a daemon, and waiting for them: what `fairspan up` and `fairspan ring up` share.

use super::lan;
use super::port::{Kind, Port};
use crate::channel::ethernet::{self, Codepoint, Outgoing};
use crate::channel::udp::{Datagram, Destination, Sent};
use crate::netlink::{LinkChange, Monitor, Netlink, NetlinkError};
use crate::secure::Sessions;
use crate::tun::{Tun, TunError};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, OwnedFd};

/// The events of sockets have this number and those above it: this and the socket's.
pub(crate) const TOKEN_PORTS: u64 = 16;

/// The sockets, by number, and the epoll instance that waits for them and for all else.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) epoll: OwnedFd,
    list: Vec<Port>,
}

impl Ports {
    pub(crate) fn new() -> Result<Ports, Errno> {
        Ok(Ports { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, list: Vec::new() })
    }

    /// Begins to wait for something to read.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)
    }

    /// Begins to wait for a socket, which is new.
    pub(crate) fn watch_port(&mut self, number: usize) {
        self.list[number].wants_write = false;
        let Some(fd) = self.list[number].fd() else { return };
        if let Err(error) = self.watch(fd, TOKEN_PORTS + number as u64) {
            tracing::error!(port = number, %error, "cannot wait for a socket");
        }
    }

    /// Waits for room in a socket too, or no longer.
    pub(crate) fn want_write(&mut self, number: usize, wants: bool) {
        let port = &mut self.list[number];
        if port.wants_write == wants {
            return;
        }
        port.wants_write = wants;
        let flags = if wants { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let data = EventData::new_u64(TOKEN_PORTS + number as u64);
        let Some(fd) = port.fd().filter(|_| !port.absent) else { return };
        if let Err(error) = epoll::modify(&self.epoll, fd, data, flags) {
            tracing::error!(port = number, %error, "cannot wait for a socket");
        }
    }

    /// Looks whether a socket's interface is there; true when the socket is a new one, which is waited for then.
    pub(crate) fn look(&mut self, number: usize) -> bool {
        let port = &mut self.list[number];
        let was_absent = port.absent;
        let looked = port.look();
        if port.absent && !was_absent {
            tracing::warn!(device = port.device(), "interface is gone");
            // A vanished interface makes its socket readable for ever: it is not waited for until it is back.
            if let Some(fd) = port.fd() {
                let _ = epoll::delete(&self.epoll, fd);
            }
            port.wants_write = false;
        }
        match looked {
            Ok(new) => {
                port.complaint = None;
                if new {
                    tracing::info!(device = port.device(), "interface is there");
                    self.watch_port(number);
                }
                new
            }
            Err(error) => {
                if port.complaint.as_ref() != Some(&error) {
                    tracing::warn!(device = port.device(), error, "the socket cannot be opened; tried every second");
                    port.complaint = Some(error);
                }
                false
            }
        }
    }

    /// Whether a socket's interface is there, switched on and with carrier, as far as it is known.
    pub(crate) fn is_usable(&self, number: usize) -> bool {
        let port = &self.list[number];
        !port.absent && port.is_running()
    }

    /// Sends what the sessions themselves have to say, and says how many links were found down. An answer leaves from the
    /// address that was asked.
    pub(crate) fn send_messages(&mut self, sessions: &mut Sessions, asked: Option<&Datagram<'_>>) -> u64 {
        let mut failed = 0;
        while let Some(message) = sessions.poll_transmit() {
            let asked = asked.filter(|datagram| datagram.source == message.destination);
            let Some(port) = self.list.get_mut(message.socket.0 as usize) else { continue };
            let source: Option<IpAddr> = asked.and_then(|datagram| datagram.destination);
            let destination = Destination { address: message.destination, source, tos: 0 };
            if send_sealed(port, destination, &message.payload) == Sent::Down {
                failed += 1;
            }
        }
        failed
    }
}

impl Deref for Ports {
    type Target = Vec<Port>;

    fn deref(&self) -> &Vec<Port> {
        &self.list
    }
}

impl DerefMut for Ports {
    fn deref_mut(&mut self) -> &mut Vec<Port> {
        &mut self.list
    }
}

/// Sends one datagram of the sessions at once, apart from any batch: on Ethernet to the station that the address stands
/// for.
pub(crate) fn send_sealed(port: &mut Port, destination: Destination, datagram: &[u8]) -> Sent {
    match (&mut port.kind, lan::mac_of(destination.address)) {
        _ if port.absent => Sent::Down,
        (Kind::Udp(socket), None) => socket.send_one(destination, datagram),
        (Kind::Ethernet(socket), Some(peer)) => {
            let Some(length) = lan::length(datagram.len()) else { return Sent::Done };
            let frame = Outgoing { peer, codepoint: Codepoint::Envelope, head: &length, packet: datagram };
            match socket.send(&[frame]) {
                ethernet::Sent::Done => Sent::Done,
                ethernet::Sent::Blocked(_) => Sent::Blocked,
                ethernet::Sent::Congested(_) => Sent::Congested,
                ethernet::Sent::Down(_) => Sent::Down,
            }
        }
        _ => Sent::Done,
    }
}

/// What happened to the host's interfaces.
pub(crate) enum Change {
    /// This one is there and differs, or is gone.
    Device {
        /// Its name.
        name: String,
        /// It is switched on and has carrier.
        running: bool,
        /// Its MTU; `None` when it is gone.
        mtu: Option<usize>,
    },
    /// News were lost: each is to be looked at.
    Unknown,
}

/// The next change of an interface; `None` when there is none now.
///
/// # Errors
/// The TUN interface was deleted. Reading it tells that too, but nothing reads while there is no room.
pub(crate) fn next_change(monitor: &mut Monitor, tun: &Tun) -> Result<Option<Change>, TunError> {
    let gone = || TunError::Gone { name: tun.name().to_owned() };
    match monitor.poll() {
        Ok(Some(LinkChange::Changed(interface))) => Ok(Some(Change::Device {
            name: interface.name,
            running: interface.up && interface.running,
            mtu: Some(interface.mtu as usize),
        })),
        Ok(Some(LinkChange::Removed { index, .. })) if index == tun.index() => Err(gone()),
        Ok(Some(LinkChange::Removed { name, .. })) => Ok(Some(Change::Device { name, running: false, mtu: None })),
        Ok(Some(LinkChange::Missed)) => {
            let interface = Netlink::open().and_then(|mut netlink| netlink.interface(tun.name()));
            if matches!(interface, Err(NetlinkError::NoInterface { .. })) {
                Err(gone())
            } else {
                Ok(Some(Change::Unknown))
            }
        }
        Ok(None) => Ok(None),
        Err(error) => {
            tracing::warn!(%error, "changes of interfaces are not followed");
            Ok(None)
        }
    }
}
