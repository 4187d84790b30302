//! Where a client of the proxy may be led: to other hosts, and not to this one unless a setting says so.
//!
//! What the gateway calls for a client comes from this host itself, and so from behind its packet filters: its services would be
//! open to whoever can ask. Which addresses are this host's says the kernel, for each call anew. So addresses that came since, and
//! networks that are this host's as a whole, are among them.

use super::rules::Marks;
use crate::config::Gateway;
use crate::netlink::{Netlink, NetlinkError};
use netlink_packet_route::route::RouteType;
use std::net::IpAddr;

/// What can be told from an address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// No host's.
    Nobody,
    /// This host's, or of one of its links.
    Near,
    /// Perhaps another host's.
    Host,
}

/// Who says.
#[derive(Debug)]
pub(super) struct Reach {
    /// None without a proxy.
    netlink: Option<Netlink>,
    mark: u32,
    /// `proxy_local`.
    local: bool,
}

impl Reach {
    /// For the gateway's sockets, which have this mark.
    ///
    /// # Errors
    /// What the kernel says to a proxy's question where routes are told.
    pub(super) fn new(config: &Gateway, marks: Marks) -> Result<Reach, NetlinkError> {
        let netlink = config.proxy.map(|_| Netlink::open()).transpose()?;
        Ok(Reach { netlink, mark: marks.own(), local: config.proxy_local })
    }

    /// Another setting.
    pub(super) fn change(&mut self, config: &Gateway) {
        self.local = config.proxy_local;
    }

    /// Whether a client may be led to this address, which is no IPv4 address in IPv6's writing. One that no route leads to may: calling
    /// it tells why.
    pub(super) fn allows(&mut self, address: IpAddr) -> bool {
        match kind(address) {
            Kind::Nobody => return false,
            Kind::Near => return self.local,
            Kind::Host if self.local => return true,
            Kind::Host => {}
        }
        let Some(netlink) = &mut self.netlink else { return false };
        match netlink.kind_of_route(address, self.mark) {
            Ok(kind) => kind == RouteType::Unicast,
            Err(error) => matches!(
                error.errno(),
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL | libc::EAFNOSUPPORT)
            ),
        }
    }
}

fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => {
            let this_network = address.octets()[0] == 0;
            if this_network || address.is_multicast() || address.is_broadcast() {
                Kind::Nobody
            } else if address.is_loopback() || address.is_link_local() {
                Kind::Near
            } else {
                Kind::Host
            }
        }
        IpAddr::V6(address) => {
            if address.is_unspecified() || address.is_multicast() {
                Kind::Nobody
            } else if address.is_loopback() || address.is_unicast_link_local() {
                Kind::Near
            } else {
                Kind::Host
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_host_of_its_links_and_of_groups_are_known_by_themselves() {
        for (addresses, expected) in [
            (&["0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "::", "ff02::1"][..], Kind::Nobody),
            (&["127.0.0.1", "127.9.9.9", "169.254.0.1", "::1", "fe80::1", "febf::1"], Kind::Near),
            (&["10.0.0.1", "198.51.100.7", "2001:db8::7", "fd00::1"], Kind::Host),
        ] {
            for address in addresses {
                assert_eq!(kind(address.parse().expect("an address")), expected, "{address}");
            }
        }
    }

    #[test]
    fn loopback_is_reached_by_setting_alone_and_groups_never() {
        let netlink = Netlink::open().expect("rtnetlink");
        let mut reach = Reach { netlink: Some(netlink), mark: 0, local: false };
        let allowed = |reach: &mut Reach| {
            ["127.0.0.1", "224.0.0.1"].map(|address| reach.allows(address.parse().expect("an address")))
        };
        assert_eq!(allowed(&mut reach), [false, false]);
        reach.local = true;
        assert_eq!(allowed(&mut reach), [true, false]);
    }
}
