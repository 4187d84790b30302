//! Routes through devices.

use super::request::{Netlink, NetlinkError, PROTOCOL, family_of};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::IpAddr;

/// The main routing table.
pub const TABLE_MAIN: u32 = 254;

/// The metric of a route of IPv6 for which none is given.
const METRIC_V6: u32 = 1024;

/// A route through a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations; prefix length 0 is the default route.
    pub destination: IpNet,
    /// The interface that it leads through.
    pub device: String,
    /// The next hop; `None` for hosts on the link.
    pub gateway: Option<IpAddr>,
    /// The table that it stands in; [`TABLE_MAIN`] is the usual one.
    pub table: u32,
    /// The metric: of two equal routes the lower counts. `None` is the kernel's default (0, or 1024 with IPv6).
    pub metric: Option<u32>,
}

/// Where a route leads to, of two equal ones of which the kernel takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    net: IpNet,
    metric: u32,
    tos: u8,
}

impl Destination {
    fn of(message: &RouteNetlinkMessage, wanted: u32) -> Option<Destination> {
        let RouteNetlinkMessage::NewRoute(route) = message else { return None };
        let (mut net, mut metric) = (unspecified(route.header.address_family)?, 0);
        let mut table = u32::from(route.header.table);
        for attribute in &route.attributes {
            match attribute {
                RouteAttribute::Destination(address) => net = ip_of(address)?,
                RouteAttribute::Table(number) => table = *number,
                RouteAttribute::Priority(number) => metric = *number,
                _ => {}
            }
        }
        let net = IpNet::new(net, route.header.destination_prefix_length).ok()?;
        (table == wanted).then_some(Destination { net, metric, tos: route.header.tos })
    }

    /// Whether the kernel would not take `route`, as it has this one in the same table.
    pub(crate) fn is_as(&self, route: &Route) -> bool {
        let usual = if route.destination.addr().is_ipv6() { METRIC_V6 } else { 0 };
        (self.net, self.metric, self.tos) == (route.destination.trunc(), route.metric.unwrap_or(usual), 0)
    }
}

impl Netlink {
    /// Adds a route.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says (`EEXIST`: there is one; `ENETUNREACH`: the gateway
    /// cannot be reached, or the interface is off).
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = self.route_message(route)?;
        let action = format!("add {}", describe_route(route));
        self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL, &action)
    }

    /// Removes a route that [`add_route`](Netlink::add_route) added.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says (`ESRCH`: there is none).
    pub(crate) fn remove_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = self.route_message(route)?;
        let action = format!("remove {}", describe_route(route));
        self.change(RouteNetlinkMessage::DelRoute(message), 0, &action)
    }

    /// The unicast routes of one table, IPv4 and IPv6, that lead through one device.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn routes(&mut self, table: u32) -> Result<Vec<Route>, NetlinkError> {
        let mut routes = self.all_routes()?;
        routes.retain(|route| route.table == table);
        Ok(routes)
    }

    /// The unicast routes of all tables, IPv4 and IPv6, by whatever device; one with several next hops is as many.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn all_routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let names: Vec<_> = self.interfaces()?.into_iter().map(|interface| (interface.index, interface.name)).collect();
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let message = RouteNetlinkMessage::GetRoute(message);
            let answers = self.request(message, NLM_F_DUMP, "list the routes")?;
            routes.extend(answers.iter().flat_map(|answer| routes_of(answer, &names)));
        }
        Ok(routes)
    }

    /// What kind of route packets with this mark take to an address now: [`RouteType::Local`] to one of this host's own.
    ///
    /// # Errors
    /// What the kernel says, such as `ENETUNREACH` where no route leads there.
    pub(crate) fn kind_of_route(&mut self, to: IpAddr, mark: u32) -> Result<RouteType, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(to);
        message.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(to.into()));
        message.attributes.push(RouteAttribute::Mark(mark));
        let action = format!("find the route to {to}");
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), 0, &action)?;
        let kind = answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(route.header.kind),
            _ => None,
        });
        kind.ok_or(NetlinkError::Decode { action, detail: "it describes no route".to_owned() })
    }

    /// By which device packets without a mark leave to an address now, from one of this host's where that is given.
    ///
    /// # Errors
    /// What the kernel says, such as `ENETUNREACH` where no route leads there.
    pub(crate) fn device_to(&mut self, to: IpAddr, from: Option<IpAddr>) -> Result<String, NetlinkError> {
        Ok(self.found_by(to, from, |_| {})?.swap_remove(0))
    }

    /// By which other device packets leave to an address that are to leave by `device` and carry this mark, by the rules that say which tables count; `None`: by
    /// that one.
    ///
    /// # Errors
    /// What the kernel says, such as `EHOSTUNREACH` where no rule finds a route by that device. (A socket that is bound to it then takes the address for a
    /// neighbour's.)
    pub(crate) fn way_by(
        &mut self,
        device: &str,
        to: IpAddr,
        from: Option<IpAddr>,
        mark: u32,
    ) -> Result<Option<String>, NetlinkError> {
        let index = self.interface(device)?.index;
        let found = self.found_by(to, from, |message| {
            message.header.flags |= RouteFlags::FibMatch;
            message.attributes.push(RouteAttribute::Oif(index));
            message.attributes.push(RouteAttribute::Mark(mark));
        })?;
        Ok(Some(found).filter(|found| !found.iter().any(|found| found == device)).map(|found| found.join(", ")))
    }

    /// The devices of the route that the kernel finds, which may have several next hops; `more` says what else is known of the packet.
    fn found_by(
        &mut self,
        to: IpAddr,
        from: Option<IpAddr>,
        more: impl FnOnce(&mut RouteMessage),
    ) -> Result<Vec<String>, NetlinkError> {
        let names: Vec<_> = self.interfaces()?.into_iter().map(|interface| (interface.index, interface.name)).collect();
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(to);
        message.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(to.into()));
        more(&mut message);
        if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
            message.header.source_prefix_length = message.header.destination_prefix_length;
            message.attributes.push(RouteAttribute::Source(from.into()));
        }
        let action = format!("find the route to {to}");
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), 0, &action)?;
        let devices: Vec<u32> = answers.iter().flat_map(devices_of).collect();
        let known = names.into_iter().filter(|(index, _)| devices.contains(index));
        let found: Vec<String> = known.map(|(_, name)| name).collect();
        match found.is_empty() {
            false => Ok(found),
            true => Err(NetlinkError::Decode { action, detail: "it names no device".to_owned() }),
        }
    }

    /// What the routes of one table lead to, of all kinds and by whatever devices.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn destinations(&mut self, table: u32) -> Result<Vec<Destination>, NetlinkError> {
        let mut destinations = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let message = RouteNetlinkMessage::GetRoute(message);
            let answers = self.request(message, NLM_F_DUMP, "list the routes")?;
            destinations.extend(answers.iter().filter_map(|answer| Destination::of(answer, table)));
        }
        Ok(destinations)
    }

    fn route_message(&mut self, route: &Route) -> Result<RouteMessage, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(route.destination.addr());
        message.header.destination_prefix_length = route.destination.prefix_len();
        message.header.protocol = RouteProtocol::Other(PROTOCOL);
        message.header.kind = RouteType::Unicast;
        let on_link = route.gateway.is_none() && route.destination.addr().is_ipv4();
        message.header.scope = if on_link { RouteScope::Link } else { RouteScope::Universe };
        message.attributes.push(RouteAttribute::Table(route.table));
        message.attributes.push(RouteAttribute::Oif(self.interface(&route.device)?.index));
        if route.destination.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(route.destination.network().into()));
        }
        if let Some(gateway) = route.gateway {
            message.attributes.push(RouteAttribute::Gateway(gateway.into()));
        }
        if let Some(metric) = route.metric {
            message.attributes.push(RouteAttribute::Priority(metric));
        }
        Ok(message)
    }
}

fn routes_of(message: &RouteNetlinkMessage, names: &[(u32, String)]) -> Vec<Route> {
    let RouteNetlinkMessage::NewRoute(route) = message else { return Vec::new() };
    let Some(any) = unspecified(route.header.address_family) else { return Vec::new() };
    if route.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let (mut destination, mut metric) = (any, None);
    let mut table = u32::from(route.header.table);
    let mut hops = vec![(None, None)];
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(address) => match ip_of(address) {
                Some(address) => destination = address,
                None => return Vec::new(),
            },
            RouteAttribute::Gateway(address) => hops[0].1 = ip_of(address),
            RouteAttribute::Oif(index) => hops[0].0 = Some(*index),
            RouteAttribute::MultiPath(several) => {
                hops.extend(several.iter().map(|hop| (Some(hop.interface_index), gateway_of(&hop.attributes))));
            }
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = Some(*number),
            _ => {}
        }
    }
    let Ok(destination) = IpNet::new(destination, route.header.destination_prefix_length) else { return Vec::new() };
    let by_name = hops.into_iter().filter_map(|(index, gateway)| {
        let (_, device) = names.iter().find(|(known, _)| Some(*known) == index)?;
        Some(Route { destination, device: device.clone(), gateway, table, metric })
    });
    by_name.collect()
}

/// The numbers of the devices by which a route leads.
fn devices_of(message: &RouteNetlinkMessage) -> Vec<u32> {
    let RouteNetlinkMessage::NewRoute(route) = message else { return Vec::new() };
    let by = route.attributes.iter().flat_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => vec![*index],
        RouteAttribute::MultiPath(hops) => hops.iter().map(|hop| hop.interface_index).collect(),
        _ => Vec::new(),
    });
    by.collect()
}

fn gateway_of(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => ip_of(address),
        _ => None,
    })
}

fn unspecified(family: AddressFamily) -> Option<IpAddr> {
    match family {
        AddressFamily::Inet => Some(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)),
        AddressFamily::Inet6 => Some(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)),
        _ => None,
    }
}

pub(super) fn ip_of(address: &netlink_packet_route::route::RouteAddress) -> Option<IpAddr> {
    use netlink_packet_route::route::RouteAddress;
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn describe_route(route: &Route) -> String {
    let via = route.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
    format!("route {}{via} dev {} table {}", route.destination, route.device, route.table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_route::route::RouteNextHop;

    #[test]
    fn a_route_with_several_next_hops_leads_by_the_devices_of_all() {
        let of = |attributes: Vec<RouteAttribute>| {
            let mut route = RouteMessage::default();
            route.attributes.extend(attributes);
            devices_of(&RouteNetlinkMessage::NewRoute(route))
        };
        let hop = |index| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = index;
            hop
        };
        assert_eq!(of(vec![RouteAttribute::MultiPath(vec![hop(3), hop(5)])]), [3, 5]);
        assert_eq!(of(vec![RouteAttribute::Priority(1), RouteAttribute::Oif(7)]), [7]);
        assert!(of(Vec::new()).is_empty());
    }
}
