//! All sockets of a daemon towards its links, and waiting for them.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the sockets by number |
//! | `socket` | one of them: datagrams, or frames of a pair of EtherTypes |
//! | `carrier` | what carries a channel, and what that adds to each packet |
//! | `sealed_frame` | the datagrams of a session on Ethernet |
//! | `outbox` | what waits to leave |

mod carrier;
pub(crate) mod outbox;
pub(crate) mod sealed_frame;
pub(crate) mod socket;

pub(crate) use carrier::Carrier;
pub(crate) use socket::SocketError;

use crate::channel::ethernet::{self, Codepoint, Outgoing};
use crate::channel::udp::{Datagram, Destination, Sent};
use crate::netlink::{LinkChange, Monitor, Netlink, NetlinkError};
use crate::secure::Sessions;
use crate::tun::{Tun, TunError};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use socket::{Kind, Socket};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, OwnedFd};

/// The events of sockets have this number and those above it: this and the socket's.
pub(crate) const TOKEN_SOCKETS: u64 = 16;

/// The sockets, by number, and the epoll instance that waits for them and for all else.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) epoll: OwnedFd,
    list: Vec<Socket>,
}

impl Sockets {
    pub(crate) fn new() -> Result<Sockets, Errno> {
        Ok(Sockets { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, list: Vec::new() })
    }

    /// Begins to wait for something to read.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)
    }

    /// Begins to wait for a socket, which is new.
    pub(crate) fn watch_socket(&mut self, number: usize) {
        self.list[number].wants_write = false;
        let Some(fd) = self.list[number].fd() else { return };
        if let Err(error) = self.watch(fd, TOKEN_SOCKETS + number as u64) {
            tracing::error!(port = number, %error, "cannot wait for a socket");
        }
    }

    /// Waits for room in a socket too, or no longer.
    pub(crate) fn want_write(&mut self, number: usize, wants: bool) {
        let socket = &mut self.list[number];
        if socket.wants_write == wants {
            return;
        }
        socket.wants_write = wants;
        let flags = if wants { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let data = EventData::new_u64(TOKEN_SOCKETS + number as u64);
        let Some(fd) = socket.fd().filter(|_| !socket.absent) else { return };
        if let Err(error) = epoll::modify(&self.epoll, fd, data, flags) {
            tracing::error!(port = number, %error, "cannot wait for a socket");
        }
    }

    /// Looks whether a socket's interface is there; true when the socket is a new one, which is waited for then.
    pub(crate) fn look(&mut self, number: usize) -> bool {
        let socket = &mut self.list[number];
        let was_absent = socket.absent;
        let looked = socket.look();
        if socket.absent && !was_absent {
            tracing::warn!(device = socket.device(), "interface is gone");
            // A vanished interface makes its socket readable for ever: it is not waited for until it is back.
            if let Some(fd) = socket.fd() {
                let _ = epoll::delete(&self.epoll, fd);
            }
            socket.wants_write = false;
        }
        match looked {
            Ok(new) => {
                socket.complaint = None;
                if new {
                    tracing::info!(device = socket.device(), "interface is there");
                    self.watch_socket(number);
                }
                new
            }
            Err(error) => {
                if socket.complaint.as_ref() != Some(&error) {
                    tracing::warn!(device = socket.device(), error, "the socket cannot be opened; tried every second");
                    socket.complaint = Some(error);
                }
                false
            }
        }
    }

    /// Whether a socket's interface is there, switched on and with carrier, as far as it is known.
    pub(crate) fn is_usable(&self, number: usize) -> bool {
        let socket = &self.list[number];
        !socket.absent && socket.is_running()
    }

    /// Sends what the sessions themselves have to say, and says how many links were found down. An answer leaves from the
    /// address that was asked.
    pub(crate) fn send_messages(&mut self, sessions: &mut Sessions, asked: Option<&Datagram<'_>>) -> u64 {
        let mut failed = 0;
        while let Some(message) = sessions.poll_transmit() {
            let asked = asked.filter(|datagram| datagram.source == message.destination);
            let Some(socket) = self.list.get_mut(message.socket.0 as usize) else { continue };
            let source: Option<IpAddr> = asked.and_then(|datagram| datagram.destination);
            let destination = Destination { address: message.destination, source, tos: 0 };
            if send_sealed(socket, destination, &message.payload) == Sent::Down {
                failed += 1;
            }
        }
        failed
    }
}

impl Deref for Sockets {
    type Target = Vec<Socket>;

    fn deref(&self) -> &Vec<Socket> {
        &self.list
    }
}

impl DerefMut for Sockets {
    fn deref_mut(&mut self) -> &mut Vec<Socket> {
        &mut self.list
    }
}

/// Sends one datagram of the sessions at once, apart from any batch: on Ethernet to the station that the address stands
/// for.
pub(crate) fn send_sealed(socket: &mut Socket, destination: Destination, datagram: &[u8]) -> Sent {
    match (&mut socket.kind, sealed_frame::mac_of(destination.address)) {
        _ if socket.absent => Sent::Down,
        (Kind::Udp(socket), None) => socket.send_one(destination, datagram),
        (Kind::Ethernet(socket), Some(peer)) => {
            let Some(length) = sealed_frame::length(datagram.len()) else { return Sent::Done };
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
