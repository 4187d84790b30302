//! Where a hub can be called, and which network is free inside.

use crate::netlink::{Netlink, NetlinkError};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Devices that join containers and virtual machines to this host, by what their names begin with.
const INNER: [&str; 4] = ["docker", "br-", "virbr", "veth"];

/// The addresses of this host at which others may call it, at most four: public ones if there are any, else those of networks of its own;
/// and whether they are public. `own` is an interface whose addresses are left out.
///
/// # Errors
/// What the kernel says.
pub fn places_of_this_host(own: &str) -> Result<(Vec<IpAddr>, bool), NetlinkError> {
    let mut netlink = Netlink::open()?;
    let mut found = Vec::new();
    for interface in netlink.interfaces()? {
        let is_inner = INNER.iter().any(|start| interface.name.starts_with(start));
        if interface.up && interface.name != own && !is_inner {
            found.extend(netlink.addresses(&interface.name)?.iter().map(IpNet::addr));
        }
    }
    Ok(best(&found))
}

fn best(found: &[IpAddr]) -> (Vec<IpAddr>, bool) {
    let mut usable: Vec<IpAddr> = Vec::new();
    for address in found.iter().filter(|address| is_reachable(**address)) {
        if !usable.contains(address) {
            usable.push(*address);
        }
    }
    let public = usable.iter().any(|address| is_public(*address));
    usable.retain(|address| is_public(*address) == public);
    // Names and firewalls know IPv4 best.
    usable.sort_by_key(IpAddr::is_ipv6);
    usable.truncate(4);
    (usable, public)
}

/// Whether another host can call it at all.
fn is_reachable(address: IpAddr) -> bool {
    let of_the_link = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !of_the_link && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

/// Whether it is meant for the internet (RFC 1918, 4193, 6598).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_private() && !is_shared(address),
        IpAddr::V6(address) => !address.is_unique_local(),
    }
}

/// Behind a provider's translator of addresses.
fn is_shared(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 100 && (64..128).contains(&b)
}

/// The first host in `network` but for its own address that is in none of `taken`.
pub(super) fn free_host(network: IpNet, taken: &[IpNet]) -> Option<IpAddr> {
    let base = network.trunc();
    let is_free = |address: &IpAddr| {
        *address != network.addr()
            && !taken.iter().any(|net| net.contains(address) && net.prefix_len() > network.prefix_len())
    };
    let hosts: Box<dyn Iterator<Item = IpAddr>> = match base {
        IpNet::V4(net) => Box::new(net.hosts().map(IpAddr::from).take(1 << 16)),
        IpNet::V6(net) => {
            let first = u128::from(net.network());
            let room = 128 - u32::from(net.prefix_len());
            let count = if room >= 16 { 1 << 16 } else { 1_u128 << room };
            Box::new((1..count).map(move |n| Ipv6Addr::from(first + n).into()))
        }
    };
    let mut hosts = hosts;
    hosts.find(is_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn public_addresses_come_before_private_ones_and_those_of_a_link_never() {
        let all = ips(&["127.0.0.1", "10.0.0.1", "fe80::1", "169.254.1.1", "2001:db8::1", "203.0.113.1", "100.64.0.1"]);
        assert_eq!(best(&all), (ips(&["203.0.113.1", "2001:db8::1"]), true));
        let inside = ips(&["::1", "10.0.0.1", "fd00::1", "100.127.0.1", "10.0.0.1"]);
        assert_eq!(best(&inside), (ips(&["10.0.0.1", "100.127.0.1", "fd00::1"]), false));
        assert_eq!(best(&ips(&["127.0.0.1"])), (Vec::new(), false));
        let many: Vec<IpAddr> = (1..9).map(|n| Ipv4Addr::new(203, 0, 113, n).into()).collect();
        assert_eq!(best(&many).0.len(), 4);
    }

    #[test]
    fn the_first_free_host_is_given_and_none_where_the_network_is_full() {
        let net = |text: &str| text.parse::<IpNet>().expect("a network");
        let of = |network: &str, taken: &[&str]| {
            free_host(net(network), &taken.iter().map(|text| net(text)).collect::<Vec<_>>()).map(|ip| ip.to_string())
        };
        assert_eq!(of("10.77.0.1/24", &[]).as_deref(), Some("10.77.0.2"));
        assert_eq!(of("10.77.0.1/24", &["10.77.0.2/32", "10.77.0.3/32"]).as_deref(), Some("10.77.0.4"));
        assert_eq!(of("10.77.0.1/24", &["10.77.0.0/25"]).as_deref(), Some("10.77.0.128"));
        assert_eq!(of("10.77.0.9/24", &["0.0.0.0/0"]).as_deref(), Some("10.77.0.1"), "that is what lies behind a peer");
        assert_eq!(of("10.77.0.1/30", &["10.77.0.2/32"]), None);
        assert_eq!(of("fd77::1/64", &["fd77::2/128"]).as_deref(), Some("fd77::3"));
        assert_eq!(of("fd77::1/127", &[]), None);
    }
}
