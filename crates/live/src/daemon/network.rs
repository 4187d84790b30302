//! The interface's place in the host's network: addresses, MTU, routes, rules; all undone when the guard is dropped.

use crate::config::{Interface, Table};
use crate::netlink::{Capture, Guard, NetlinkError, Route, TABLE_MAIN};
use ipnet::IpNet;

/// Priority of the first rule of a captured default route; as wg-quick(8) leaves room below the main table's 32766.
const RULE_PRIORITY: u32 = 32_700;

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

    match interface.table {
        Table::Off => {}
        Table::Number(table) => add_routes(&mut guard, device, table, nets)?,
        Table::Auto => {
            let (defaults, others): (Vec<&IpNet>, Vec<&IpNet>) = nets.partition(|net| net.prefix_len() == 0);
            let connected = |net: &&IpNet| interface.addresses.iter().any(|a| a.trunc() == **net);
            add_routes(&mut guard, device, TABLE_MAIN, others.into_iter().filter(|net| !connected(net)))?;
            if !defaults.is_empty() {
                let capture = Capture { fwmark: interface.fwmark, table: interface.fwmark, priority: RULE_PRIORITY };
                add_routes(&mut guard, device, capture.table, defaults)?;
                guard.capture(&capture)?;
                // A strict reverse-path filter would drop what the peer sends: its way back leads into the tunnel.
                for link in links {
                    guard.loosen_reverse_path(link);
                }
            }
        }
    }
    Ok(guard)
}

fn add_routes<'a>(
    guard: &mut Guard,
    device: &str,
    table: u32,
    nets: impl IntoIterator<Item = &'a IpNet>,
) -> Result<(), NetlinkError> {
    for net in nets {
        guard.add_route(&Route { destination: *net, device: device.to_owned(), gateway: None, table, metric: None })?;
    }
    Ok(())
}
