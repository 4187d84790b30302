//! A routing table that is the main one with another initial window for what leaves by one device.
//!
//! The kernel takes a connection's initial window from its route (`initcwnd`, ip-route(8)). So sockets with a mark look into a copy
//! of the main table, and all others stay as they are.

use super::request::{Netlink, NetlinkError};
use super::route::TABLE_MAIN;
use super::rule::Rule;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE};
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// A copy of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// The sockets' marks, the copy's number, and the place of the rules.
    pub(crate) marks: [u32; 2],
    pub(crate) table: u32,
    pub(crate) priority: u32,
    /// What leaves by this device begins with so many segments.
    pub(crate) device: String,
    pub(crate) segments: u32,
}

impl Windows {
    fn rules(&self) -> [Rule; 4] {
        let [one, other] = self.marks;
        [(one, false), (one, true), (other, false), (other, true)].map(|(mark, is_v6)| Rule {
            is_v6,
            priority: self.priority,
            fwmark: Some(mark),
            invert: false,
            table: self.table,
            suppress_prefix_length: None,
        })
    }

    /// The copy of a route.
    fn copy(&self, route: &RouteMessage, device: u32) -> RouteMessage {
        let mut copy = route.clone();
        copy.header.table = RouteHeader::RT_TABLE_UNSPEC;
        copy.attributes
            .retain(|attribute| !matches!(attribute, RouteAttribute::Table(_) | RouteAttribute::CacheInfo(_)));
        copy.attributes.push(RouteAttribute::Table(self.table));
        if leaves_by(route, device) {
            let window = RouteMetric::InitCwnd(self.segments);
            match copy.attributes.iter_mut().find_map(|attribute| match attribute {
                RouteAttribute::Metrics(metrics) => Some(metrics),
                _ => None,
            }) {
                Some(metrics) => {
                    metrics.retain(|metric| !matches!(metric, RouteMetric::InitCwnd(_)));
                    metrics.push(window);
                }
                None => copy.attributes.push(RouteAttribute::Metrics(vec![window])),
            }
        }
        copy
    }
}

fn leaves_by(route: &RouteMessage, device: u32) -> bool {
    route.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Oif(index) => *index == device,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == device),
        _ => false,
    })
}

fn table_of(route: &RouteMessage) -> u32 {
    let given = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    given.unwrap_or(route.header.table.into())
}

impl Netlink {
    /// Adds the rules; what a killed daemon left of them is taken over.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn add_windows(&mut self, windows: &Windows) -> Result<(), NetlinkError> {
        for rule in windows.rules() {
            match self.add_rule(&rule) {
                Err(error) if error.errno() == Some(libc::EEXIST) => {}
                // A kernel without IPv6 has no such packets.
                Err(error) if rule.is_v6 && matches!(error.errno(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Removes rules and routes.
    ///
    /// # Errors
    /// What the kernel says of the last that it does not remove.
    pub(crate) fn remove_windows(&mut self, windows: &Windows) -> Result<(), NetlinkError> {
        let mut result = Ok(());
        for rule in windows.rules() {
            result = self.remove_rule(&rule).or(result);
        }
        for route in self.unicast_routes(windows.table)? {
            result = result.and(self.change(RouteNetlinkMessage::DelRoute(route), 0, "remove a copied route"));
        }
        result
    }

    /// Makes the table what the main one is now. `before` is what the main one was at the last call: where it is the same,
    /// nothing is done.
    ///
    /// # Errors
    /// What the kernel says of the last that it refuses.
    pub(crate) fn follow_main(
        &mut self,
        windows: &Windows,
        before: &mut Vec<RouteMessage>,
    ) -> Result<(), NetlinkError> {
        let main = self.unicast_routes(TABLE_MAIN)?;
        if *before == main {
            return Ok(());
        }
        let device = self.interface(&windows.device).map_or(0, |interface| interface.index);
        let copies: Vec<RouteMessage> = main.iter().map(|route| windows.copy(route, device)).collect();
        let mut result = Ok(());
        for copy in &copies {
            let message = RouteNetlinkMessage::NewRoute(copy.clone());
            let added = self.change(message, NLM_F_CREATE | NLM_F_REPLACE, "copy a route of the main table");
            result = result.and(added);
        }
        let place = |route: &RouteMessage| {
            let find = |kind: fn(&RouteAttribute) -> bool| route.attributes.iter().find(|at| kind(at)).cloned();
            let destination = find(|at| matches!(at, RouteAttribute::Destination(_)));
            let metric = find(|at| matches!(at, RouteAttribute::Priority(_)));
            (route.header.address_family, route.header.destination_prefix_length, destination, metric)
        };
        for old in self.unicast_routes(windows.table)? {
            if !copies.iter().any(|copy| place(copy) == place(&old)) {
                result = result.and(self.change(RouteNetlinkMessage::DelRoute(old), 0, "remove a copied route"));
            }
        }
        *before = main;
        result
    }

    fn unicast_routes(&mut self, table: u32) -> Result<Vec<RouteMessage>, NetlinkError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let answers = self.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP, "list the routes")?;
            routes.extend(answers.into_iter().filter_map(|answer| match answer {
                RouteNetlinkMessage::NewRoute(route) => {
                    (route.header.kind == RouteType::Unicast && table_of(&route) == table).then_some(route)
                }
                _ => None,
            }));
        }
        Ok(routes)
    }
}
