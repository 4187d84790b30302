//! A port to which peers connect, and strangers.
//!
//! Whoever connects is a stranger until a session has opened something of his. He has [`PROOF_WITHIN`] for that. Strangers are few:
//! [`STRANGERS`] in all and [`OF_A_NETWORK`] of one network, a /24 of IPv4 or a /48 of IPv6. When one more comes, the oldest of his
//! network is closed, or of those that have the most. So who has many connections displaces his own, and a peer needs but two round
//! trips. A
//! proven connection is never displaced: there is one for each channel of a peer, since one that connects anew has moved. It is
//! closed when nothing authentic came for [`IDLE`].
//!
//! A stranger costs a descriptor, the kernel's buffers, and at most one datagram of memory. What he sends is read by one buffer for all.

use crate::shell::poller::{Interest, Poller, Token, Turn};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// Connections that have proven nothing.
pub(super) const STRANGERS: usize = 256;
/// The same, of one network.
pub(super) const OF_A_NETWORK: usize = 64;
pub(super) const PROOF_WITHIN: Duration = Duration::from_secs(10);
pub(super) const IDLE: Duration = Duration::from_secs(60);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;
/// Connections accepted before others get their turn.
pub(super) const AT_ONCE: usize = 32;

/// What listens.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: Socket,
    token: Token,
    /// Nobody is accepted until there are descriptors again.
    paused: bool,
}

impl Listener {
    /// Listens on an address. Its connections are accepted once there is time for it: what is on links comes first.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn open(address: SocketAddr, mark: u32, poller: &Poller) -> io::Result<Listener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // Connections of a daemon before this one may still be ending.
        socket.set_reuse_address(true)?;
        if mark != 0 {
            socket.set_mark(mark)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let token = poller.watch(socket.as_fd(), Turn::Others)?;
        Ok(Listener { socket, token, paused: false })
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    /// Accepts one who waits.
    ///
    /// # Errors
    /// `EAGAIN` where nobody does; what the kernel says otherwise.
    pub(super) fn accept(&self) -> Result<Option<(Socket, SocketAddr)>, Errno> {
        match acceptfrom_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok((socket, remote)) => {
                let remote = remote.and_then(|remote| SocketAddr::try_from(remote).ok());
                Ok(remote.map(|remote| (socket.into(), remote)))
            }
            Err(Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Accepts nobody for now, or again.
    pub(super) fn pause(&mut self, paused: bool, poller: &Poller) {
        if self.paused != paused {
            let interest = if paused { Interest::Nothing } else { Interest::Read };
            self.paused = paused;
            let _ = poller.set_interest(self.token, self.socket.as_fd(), interest);
        }
    }
}

/// A connection that has proven nothing: who, where from, since when.
pub(super) type Stranger = (Token, IpAddr, Duration);

/// Which stranger is to be closed, where there are too many since one more came, from `newest`.
pub(super) fn displaced(strangers: &[Stranger], newest: IpAddr) -> Option<Token> {
    let mut of_network: HashMap<u64, usize> = HashMap::new();
    for (_, address, _) in strangers {
        *of_network.entry(network(*address)).or_default() += 1;
    }
    let newest = network(newest);
    if of_network.get(&newest).is_some_and(|count| *count > OF_A_NETWORK) {
        return oldest(strangers, |network| network == newest);
    }
    let most = of_network.values().copied().max().filter(|_| strangers.len() > STRANGERS)?;
    oldest(strangers, |network| of_network.get(&network) == Some(&most))
}

/// The oldest stranger of such a network.
pub(super) fn oldest(strangers: &[Stranger], of: impl Fn(u64) -> bool) -> Option<Token> {
    let these = strangers.iter().filter(|(_, address, _)| of(network(*address)));
    these.min_by_key(|(.., since)| *since).map(|(token, ..)| *token)
}

/// The network that an address is of, as a number.
fn network(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(u32::from(address) >> 8),
        // The highest bit is no IPv4 network's.
        IpAddr::V6(address) => 1 << 63 | (u128::from(address) >> 80) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_told_apart_as_their_owners_get_them() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.1"), of("192.0.2.255"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:ffff::4"));
        assert_ne!(of("2001:db8:1::3"), of("2001:db8:2::3"));
        assert_ne!(of("0.0.1.0"), of("::1"));
    }
}
