//! What ICMP tells of a datagram that did not arrive. It is a hint and no more: whoever sees or guesses addresses and ports can
//! forge it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// Why a datagram did not arrive, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unreachable {
    /// Nobody has the port.
    #[error(
        "refused by {0}: nothing listens on that port there, or a firewall rejects it; is a daemon running, and is that its \
         `listen_port`?"
    )]
    Port(IpAddr),
    /// Nobody has the address.
    #[error("no route to that host, says {0}: is the address right, and is the host there?")]
    Host(IpAddr),
    /// No route leads to the network.
    #[error("no route to that network, says {0}")]
    Network(IpAddr),
    /// Somebody does not let it pass.
    #[error("prohibited by {0}: a rule there lets no datagram pass to that address")]
    Prohibited(IpAddr),
}

impl Unreachable {
    /// The kinds of it, each another bit.
    pub(crate) fn bit(self) -> u8 {
        match self {
            Unreachable::Port(_) => 1,
            Unreachable::Host(_) => 2,
            Unreachable::Network(_) => 4,
            Unreachable::Prohibited(_) => 8,
        }
    }

    /// By type and code (RFC 792, RFC 1812 section 5.2.7.1; RFC 4443 section 3.1); `None` for what says something else.
    fn new(by: IpAddr, kind: u8, code: u8) -> Option<Unreachable> {
        Some(match (by, kind, code) {
            (IpAddr::V4(_), 3, 3) | (IpAddr::V6(_), 1, 4) => Unreachable::Port(by),
            (IpAddr::V4(_), 3, 1 | 7 | 12) | (IpAddr::V6(_), 1, 3) => Unreachable::Host(by),
            (IpAddr::V4(_), 3, 0 | 6 | 11) | (IpAddr::V6(_), 1, 0 | 2) => Unreachable::Network(by),
            (IpAddr::V4(_), 3, 9 | 10 | 13) | (IpAddr::V6(_), 1, 1 | 5 | 6) => Unreachable::Prohibited(by),
            _ => return None,
        })
    }
}

/// A datagram that did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Where it was to go.
    pub to: SocketAddr,
    /// Why it did not.
    pub why: Unreachable,
}

impl Returned {
    /// Reads an entry of a socket's queue of errors: the address that came with it, and its control messages, each a length,
    /// a level, a kind and data, aligned to the machine word (`cmsg(3)`). `None` for errors of other kinds.
    pub(crate) fn parse(name: &[u8], mut control: &[u8]) -> Option<Returned> {
        const WORD: usize = size_of::<usize>();
        const HEADER: usize = WORD + 8;
        let to = address(name)?;
        while let Some(header) = control.get(..HEADER) {
            let len = usize::from_ne_bytes(*header.first_chunk()?);
            let [level, kind] = [WORD, WORD + 4].map(|at| header[at..].first_chunk().map(|b| i32::from_ne_bytes(*b)));
            let data = control.get(HEADER..len)?;
            if matches!(
                (level?, kind?),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            ) {
                // struct sock_extended_err: error, origin, type, code, padding, two numbers; then who sent it.
                let (error, sender) = data.split_at_checked(16)?;
                if !matches!(error[4], libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6) {
                    return None;
                }
                return Unreachable::new(address(sender)?.ip(), error[5], error[6]).map(|why| Returned { to, why });
            }
            control = control.get(len.next_multiple_of(WORD)..)?;
        }
        None
    }
}

/// A `struct sockaddr_in` or `sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip = match i32::from(family) {
        libc::AF_INET => Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::rng::Rng;

    fn name(address: SocketAddr) -> Vec<u8> {
        let port = address.port().to_be_bytes();
        match address.ip() {
            IpAddr::V4(ip) => [&(libc::AF_INET as u16).to_ne_bytes()[..], &port, &ip.octets(), &[0; 8]].concat(),
            IpAddr::V6(ip) => {
                [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &port, &[0; 4], &ip.octets(), &[0; 4]].concat()
            }
        }
    }

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let len = size_of::<usize>() + 8 + data.len();
        let mut bytes = [&len.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), data].concat();
        bytes.resize(len.next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    fn error(origin: u8, kind: u8, code: u8, by: &str) -> Vec<u8> {
        let by = name(SocketAddr::new(by.parse().expect("an address"), 0));
        [&111i32.to_ne_bytes()[..], &[origin, kind, code, 0], &[0; 8], &by].concat()
    }

    #[test]
    fn errors_are_read_behind_other_messages_and_what_is_cut_short_or_no_icmp_is_none() {
        let to: SocketAddr = "192.0.2.1:51900".parse().expect("an address");
        let info = message(libc::IPPROTO_IP, libc::IP_PKTINFO, &[7; 12]);
        let told = |data: &[u8]| [&info[..], &message(libc::IPPROTO_IP, libc::IP_RECVERR, data)].concat();
        let whole = told(&error(2, 3, 3, "198.51.100.9"));
        let port = Unreachable::Port("198.51.100.9".parse().expect("an address"));
        assert_eq!(Returned::parse(&name(to), &whole), Some(Returned { to, why: port }));
        for len in 0..whole.len() {
            assert_eq!(Returned::parse(&name(to), &whole[..len]), None, "{len} bytes");
        }
        for (origin, kind, code) in [(1, 3, 3), (2, 3, 4), (2, 11, 0), (2, 5, 0)] {
            assert_eq!(Returned::parse(&name(to), &told(&error(origin, kind, code, "198.51.100.9"))), None);
        }
        let to: SocketAddr = "[2001:db8::1]:51900".parse().expect("an address");
        let told = |code| message(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &error(3, 1, code, "2001:db8::9"));
        let by: IpAddr = "2001:db8::9".parse().expect("an address");
        for (code, why) in [
            (0, Unreachable::Network(by)),
            (1, Unreachable::Prohibited(by)),
            (3, Unreachable::Host(by)),
            (4, Unreachable::Port(by)),
        ] {
            assert_eq!(Returned::parse(&name(to), &told(code)), Some(Returned { to, why }));
        }
        let mut rng = Rng::new(1);
        for _ in 0..100_000 {
            let mut bytes = whole.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
            let _ = Returned::parse(&name(to), &bytes);
        }
    }
}
