//! Routes to single addresses in a table of the daemon's own: through a device, or on to the next rule.
//!
//! A route through a device goes with it. One that leads on to the next rule has none, so a killed process leaves it; it says no more
//! than that this table says nothing.

use super::request::{Netlink, NetlinkError, PROTOCOL, family_of};
use super::route::ip_of;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::IpAddr;

/// Where packets to one address go, by one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the device with this number.
    Through(u32),
    /// The table says nothing of it, whatever else stands there.
    On,
}

impl Netlink {
    /// Packets to an address go this way, by a table. One that is there already is as good.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn add_way(&mut self, to: IpAddr, table: u32, way: Way) -> Result<(), NetlinkError> {
        let action = format!("add a route to {to} to table {table}");
        let message = RouteNetlinkMessage::NewRoute(way_message(to, table, way));
        match self.change(message, NLM_F_CREATE | NLM_F_EXCL, &action) {
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(()),
            other => other,
        }
    }

    /// Takes back what [`add_way`](Self::add_way) did. One that is gone already is no error.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn remove_way(&mut self, to: IpAddr, table: u32, way: Way) -> Result<(), NetlinkError> {
        let action = format!("remove the route to {to} from table {table}");
        match self.change(RouteNetlinkMessage::DelRoute(way_message(to, table, way)), 0, &action) {
            Err(error) if matches!(error.errno(), Some(libc::ESRCH | libc::ENODEV)) => Ok(()),
            other => other,
        }
    }

    /// Addresses of which a table says nothing, because a killed process said so.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn left_ways(&mut self, table: u32) -> Result<Vec<IpAddr>, NetlinkError> {
        let mut left = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let message = RouteNetlinkMessage::GetRoute(message);
            let answers = self.request(message, NLM_F_DUMP, "list the routes")?;
            left.extend(answers.iter().filter_map(|answer| left_way(answer, table)));
        }
        Ok(left)
    }

    /// Whether packets with this mark leave to an address by a router, or by a default route, now, so that it is nobody on a network of this
    /// host, nor this host. One that no route leads to is far away too.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn is_far(&mut self, to: IpAddr, mark: u32) -> Result<bool, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(to);
        message.header.destination_prefix_length = host_length(to);
        message.header.flags |= RouteFlags::FibMatch;
        message.attributes.push(RouteAttribute::Destination(to.into()));
        message.attributes.push(RouteAttribute::Mark(mark));
        let asked = self.request(RouteNetlinkMessage::GetRoute(message), 0, &format!("find the route to {to}"));
        let answers = match asked {
            Err(error) if matches!(error.errno(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => return Ok(true),
            other => other?,
        };
        let far = answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(leads_far(route)),
            _ => None,
        });
        Ok(far.unwrap_or(false))
    }
}

fn leads_far(route: &RouteMessage) -> bool {
    let by_router = |attribute: &RouteAttribute| {
        matches!(attribute, RouteAttribute::Gateway(_) | RouteAttribute::Via(_) | RouteAttribute::MultiPath(_))
    };
    match route.header.kind {
        RouteType::Unicast => route.header.destination_prefix_length == 0 || route.attributes.iter().any(by_router),
        // Somebody forbids it, or knows no way.
        RouteType::Unreachable | RouteType::Prohibit | RouteType::BlackHole => true,
        _ => false,
    }
}

fn left_way(message: &RouteNetlinkMessage, wanted: u32) -> Option<IpAddr> {
    let RouteNetlinkMessage::NewRoute(route) = message else { return None };
    let RouteHeader { kind, protocol, destination_prefix_length, .. } = route.header;
    let (mut table, mut to) = (u32::from(route.header.table), None);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(address) => to = ip_of(address),
            _ => {}
        }
    }
    let to = to.filter(|to| host_length(*to) == destination_prefix_length)?;
    (kind == RouteType::Throw && u8::from(protocol) == PROTOCOL && table == wanted).then_some(to)
}

fn way_message(to: IpAddr, table: u32, way: Way) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family_of(to);
    message.header.destination_prefix_length = host_length(to);
    message.header.protocol = RouteProtocol::Other(PROTOCOL);
    message.header.kind = if way == Way::On { RouteType::Throw } else { RouteType::Unicast };
    let on_link = way != Way::On && to.is_ipv4();
    message.header.scope = if on_link { RouteScope::Link } else { RouteScope::Universe };
    message.attributes.push(RouteAttribute::Table(table));
    message.attributes.push(RouteAttribute::Destination(to.into()));
    if let Way::Through(device) = way {
        message.attributes.push(RouteAttribute::Oif(device));
    }
    message
}

fn host_length(of: IpAddr) -> u8 {
    if of.is_ipv4() { 32 } else { 128 }
}
