//! Packets with a mark become this host's, wherever they go to: a routing rule, and a table with one route.
//!
//! Source: Linux `Documentation/networking/tproxy.rst`.

use super::request::{Netlink, NetlinkError, PROTOCOL};
use super::rule::Rule;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// The loopback device is the first of a network namespace.
const LOOPBACK: u32 = 1;

/// One IP version's rule and route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) is_v6: bool,
    /// The packets' mark.
    pub(crate) mark: u32,
    /// The table with nothing else in it.
    pub(crate) table: u32,
    pub(crate) priority: u32,
}

impl Home {
    fn rule(&self) -> Rule {
        Rule {
            is_v6: self.is_v6,
            priority: self.priority,
            fwmark: Some(self.mark),
            invert: false,
            table: self.table,
            suppress_prefix_length: None,
        }
    }

    fn route(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = if self.is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        message.header.protocol = RouteProtocol::Other(PROTOCOL);
        message.header.kind = RouteType::Local;
        message.header.scope = if self.is_v6 { RouteScope::Universe } else { RouteScope::Host };
        message.attributes.push(RouteAttribute::Table(self.table));
        message.attributes.push(RouteAttribute::Oif(LOOPBACK));
        message
    }
}

impl Netlink {
    /// Adds both; what a killed daemon left of them is taken over.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn add_home(&mut self, home: &Home) -> Result<(), NetlinkError> {
        let action = format!("add a local route to table {}", home.table);
        self.change(RouteNetlinkMessage::NewRoute(home.route()), NLM_F_CREATE | NLM_F_REPLACE, &action)?;
        match self.add_rule(&home.rule()) {
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(()),
            other => other,
        }
    }

    /// Removes both.
    ///
    /// # Errors
    /// What the kernel says of the first that it does not remove.
    pub(crate) fn remove_home(&mut self, home: &Home) -> Result<(), NetlinkError> {
        let rule = self.remove_rule(&home.rule());
        let action = format!("remove the local route of table {}", home.table);
        self.change(RouteNetlinkMessage::DelRoute(home.route()), 0, &action).and(rule)
    }
}
