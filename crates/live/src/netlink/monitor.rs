//! What happens to the interfaces: they appear, change and disappear.

use super::interface::{Interface, address_in, interface_of};
use super::request::{NetlinkError, messages, refused};
use crate::system::system;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Something happened to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// It is new, or differs from before: this is how it is now.
    Changed(Interface),
    /// It is gone.
    Removed {
        /// The index that it had.
        index: u32,
        /// The name that it had.
        name: String,
    },
    /// The host has an address that it had not, or has one no more, or one in another way.
    Address {
        /// The address that is gone; `None` where one came.
        gone: Option<IpAddr>,
    },
    /// Changes came faster than they were read and some are lost: query the interfaces anew.
    Missed,
}

/// Changes of the interfaces of one namespace, as they happen; never blocks.
///
/// Changes that happened before it was opened are not reported: open it first, then query.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
    waiting: VecDeque<LinkChange>,
}

/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

impl Monitor {
    /// Starts to listen, in the namespace of this thread.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open() -> Result<Monitor, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, GROUPS))?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| refused("watch the interfaces", &error))?;
        Ok(Monitor { socket, buffer: Vec::with_capacity(64 << 10), waiting: VecDeque::new() })
    }

    /// The next change; `None` when there is none now. Call it until then whenever the descriptor is readable.
    ///
    /// # Errors
    /// What the kernel says. Lost changes are no error, but [`LinkChange::Missed`].
    pub fn poll(&mut self) -> Result<Option<LinkChange>, NetlinkError> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Ok(Some(change));
            }
            self.buffer.clear();
            match system().receive_netlink(&self.socket, &mut self.buffer) {
                Ok(_) => self.waiting.extend(messages(&self.buffer).filter_map(change_of)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok(Some(LinkChange::Missed)),
                Err(error) => return Err(refused("watch the interfaces", &error)),
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn change_of(bytes: &[u8]) -> Option<LinkChange> {
    let message = match NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes) {
        Ok(message) => message,
        Err(error) => {
            tracing::debug!(%error, "a message of the kernel cannot be read");
            return Some(LinkChange::Missed);
        }
    };
    let NetlinkPayload::InnerMessage(inner) = message.payload else { return None };
    if let RouteNetlinkMessage::NewAddress(_) = &inner {
        return Some(LinkChange::Address { gone: None });
    }
    if let RouteNetlinkMessage::DelAddress(address) = &inner {
        return Some(LinkChange::Address { gone: Some(address_in(address)?) });
    }
    let interface = interface_of(&inner)?;
    Some(match inner {
        RouteNetlinkMessage::DelLink(_) => LinkChange::Removed { index: interface.index, name: interface.name },
        _ => LinkChange::Changed(interface),
    })
}
