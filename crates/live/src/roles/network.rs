//! The interface's place in the host's network: addresses, MTU, routes, rules; all undone when the guard is dropped.

use crate::config::{Config, Interface, Table};
use crate::netlink::{Capture, Guard, Netlink, NetlinkError, Route, TABLE_MAIN};
use ipnet::IpNet;

/// Priority of the first rule of a captured default route; as wg-quick(8) leaves room below the main table's 32766.
pub(super) const RULE_PRIORITY: u32 = 32_700;
/// The least MTU with which the kernel does IPv6.
pub(crate) const IPV6_MTU: usize = 1280;

/// Gives the interface its MTU, addresses and routes and switches it on. `nets` are reached through it, by way of the
/// `links` where those are named.
///
/// # Errors
/// What the kernel refuses; what was done by then is undone.
pub(crate) fn configure<'a>(
    interface: &Interface,
    nets: impl Iterator<Item = &'a IpNet>,
    links: impl Iterator<Item = &'a str>,
    device: &str,
    mtu: usize,
) -> Result<Guard, NetlinkError> {
    let mut guard = Guard::new()?;
    // No router solicitations from the tunnel: its addresses are configured. A kernel without IPv6 has none to disable.
    if let Err(error) = guard.netlink().disable_link_local(device) {
        tracing::debug!(%error, "link-local addresses stay");
    }
    guard.netlink().set_mtu(device, mtu as u32)?;
    for address in &interface.addresses {
        guard.add_address(device, *address)?;
    }
    guard.set_up(device, true)?;

    let routes: Vec<Route> = nets.filter_map(|net| route(interface, device, net)).collect();
    for route in &routes {
        guard.add_route(route)?;
    }
    if captures(interface, &routes) {
        capture(&mut guard, interface, links)?;
    }
    Ok(guard)
}

/// Whether a default route is among `routes`, so that it draws all packets of the host.
fn captures(interface: &Interface, routes: &[Route]) -> bool {
    let draws = |route: &Route| route.table == interface.fwmark && route.destination.prefix_len() == 0;
    interface.table == Table::Auto && routes.iter().any(draws)
}

/// How the host's packets are drawn to the default route.
fn capture_of(interface: &Interface) -> Capture {
    Capture { fwmark: interface.fwmark, table: interface.fwmark, priority: RULE_PRIORITY }
}

fn capture<'a>(
    guard: &mut Guard,
    interface: &Interface,
    links: impl Iterator<Item = &'a str>,
) -> Result<(), NetlinkError> {
    guard.capture(&capture_of(interface))?;
    // A strict reverse-path filter would drop what the peer sends: its way back leads into the tunnel.
    for link in links {
        guard.loosen_reverse_path(link);
    }
    Ok(())
}

/// What is reached through an interface, and by way of which links.
pub(crate) struct Reached<'a> {
    pub(crate) interface: &'a Interface,
    pub(crate) nets: Vec<IpNet>,
    pub(crate) links: Vec<&'a str>,
}

impl Reached<'_> {
    /// What the interface of a configuration with peers reaches.
    pub(crate) fn of(config: &Config) -> Reached<'_> {
        let channels = config.peers.iter().flat_map(|peer| &peer.channels);
        Reached {
            interface: &config.interface,
            nets: config.peers.iter().flat_map(|peer| &peer.allowed_ips).copied().collect(),
            links: channels.filter_map(|channel| channel.device.as_deref()).collect(),
        }
    }
}

/// Changes the addresses, routes and rules of an interface from those that the guard holds to those of `after`; what stays is there all
/// the time. What the kernel refuses is as before, and the next change tries it again. Whether anything changed, and what was refused.
pub(crate) fn change(guard: &mut Guard, device: &str, after: &Reached<'_>) -> (bool, Vec<NetlinkError>) {
    let has = &after.interface.addresses;
    let new: Vec<Route> = after.nets.iter().filter_map(|net| route(after.interface, device, net)).collect();
    let (held, perhaps) = (guard.held(), guard.perhaps_held());
    let mut results = Vec::new();
    let missing = has.iter().filter(|address| !held.addresses.contains(address));
    results.extend(missing.map(|address| guard.ensure_address(device, *address)));
    let gone: Vec<&IpNet> = perhaps.addresses.iter().filter(|address| !has.contains(address)).collect();
    results.extend(gone.iter().map(|address| guard.remove_address(device, **address).map(|()| true)));
    let left = perhaps.routes.iter().filter(|route| !new.contains(route));
    results.extend(left.map(|route| guard.remove_route(route).map(|()| true)));
    if !gone.is_empty() {
        // With its first address of a network the kernel takes the others of it too, and routes.
        results.extend(has.iter().map(|address| guard.ensure_address(device, *address)));
    }
    let wanted = new.iter().filter(|route| !gone.is_empty() || !held.routes.contains(route));
    results.extend(wanted.map(|route| guard.ensure_route(route)));
    let captured = match captures(after.interface, &new) {
        true => capture(guard, after.interface, after.links.iter().copied()),
        false => guard.release(),
    };
    results.push(captured.map(|()| guard.held().rules != held.rules));
    let changed = results.iter().any(|result| matches!(result, Ok(true)));
    (changed, results.into_iter().filter_map(Result::err).collect())
}

/// The kernel ends IPv6 on an interface whose MTU falls below 1280, addresses and routes with it, and restores nothing when
/// the MTU rises again: this says so, and restores them. Whether it did.
pub(crate) fn follow_mtu<'a>(
    netlink: &mut Netlink,
    interface: &Interface,
    nets: impl Iterator<Item = &'a IpNet>,
    device: &str,
    [before, now]: [usize; 2],
) -> bool {
    let is_v6 = |net: &&IpNet| net.addr().is_ipv6();
    let mut addresses = interface.addresses.iter().filter(is_v6).peekable();
    if addresses.peek().is_none() || (before < IPV6_MTU) == (now < IPV6_MTU) {
        return false;
    }
    if now < IPV6_MTU {
        tracing::warn!(
            interface = device,
            mtu = now,
            "IPv6 needs an MTU of {IPV6_MTU}: none until the links leave that"
        );
        return false;
    }
    for address in addresses {
        if let Err(error) = netlink.add_address(device, *address) {
            tracing::warn!(interface = device, %address, %error, "the IPv6 address is not restored");
        }
    }
    for route in nets.filter(is_v6).filter_map(|net| route(interface, device, net)) {
        if let Err(error) = netlink.add_route(&route) {
            tracing::warn!(interface = device, network = %route.destination, %error, "the IPv6 route is not restored");
        }
    }
    true
}

/// The route to a network, where the kernel is to have one that it has not by the interface's address.
pub(crate) fn route(interface: &Interface, device: &str, net: &IpNet) -> Option<Route> {
    let table = match interface.table {
        Table::Off => return None,
        Table::Number(table) => table,
        Table::Auto if net.prefix_len() == 0 => interface.fwmark,
        Table::Auto => TABLE_MAIN,
    };
    if table == TABLE_MAIN && interface.addresses.iter().any(|address| address.trunc() == *net) {
        return None;
    }
    Some(Route { destination: *net, device: device.to_owned(), gateway: None, table, metric: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_kernel_gets_no_second_route_to_what_the_interface_s_address_reaches() {
        for (table, routed) in [("\"auto\"", false), ("254", false), ("7", true), ("\"off\"", false)] {
            let text = format!(
                "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.1/24\"]\ntable = {table}\n[[peer]]\nallowed_ips = [\"10.77.0.0/24\"]\n\
                 [[peer.channel]]\nkind = \"ethernet\"\ndevice = \"eth1\"\n"
            );
            let config = Config::parse(Path::new("fs0.toml"), &text).unwrap();
            let route = route(&config.interface, "fs0", &config.peers[0].allowed_ips[0]);
            assert_eq!(route.is_some(), routed, "{table}");
        }
    }
}
