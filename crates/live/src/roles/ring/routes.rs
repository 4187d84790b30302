//! The kernel's routes into the ring for what is learnt: they come and go with the announcements.
//!
//! What is configured is routed once and for all, as the networks of peers are ([`crate::roles::network`]). All of them end with
//! the interface. A default route is set only where it is configured: no node may draw the traffic of others to itself by
//! telling of one.

use crate::config::{Interface, Table};
use crate::netlink::{Netlink, Route, TABLE_MAIN};
use ipnet::IpNet;
use std::collections::BTreeSet;

/// The routes that stand now.
#[derive(Debug)]
pub(super) struct Routes {
    /// `None`: the kernel gets none.
    table: Option<u32>,
    /// The interface's own prefixes: to be reached through it anyway.
    connected: Vec<IpNet>,
    set: BTreeSet<IpNet>,
    /// Default routes that were told of and are not set: the log has them.
    told: BTreeSet<IpNet>,
}

impl Routes {
    pub(super) fn new(interface: &Interface) -> Routes {
        let table = match interface.table {
            Table::Off => None,
            Table::Auto => Some(TABLE_MAIN),
            Table::Number(table) => Some(table),
        };
        let connected = interface.addresses.iter().map(IpNet::trunc).collect();
        Routes { table, connected, set: BTreeSet::new(), told: BTreeSet::new() }
    }

    /// The kernel has dropped its IPv6 routes: what is wanted of them is to be set anew.
    pub(super) fn forget_v6(&mut self) {
        self.set.retain(|net| net.addr().is_ipv4());
    }

    /// Makes the kernel's routes those for the `networks` that are learnt (the flag): what was configured has its own.
    pub(super) fn follow(
        &mut self,
        netlink: &mut Netlink,
        device: &str,
        networks: impl Iterator<Item = (IpNet, bool)>,
    ) {
        let Some(table) = self.table else { return };
        let (wanted, defaults) = self.wanted(networks);
        for net in defaults {
            if self.told.insert(net) {
                tracing::warn!(
                    %net,
                    "a node tells of a default route: this host's stays as it is; to lead everything there, write it in \
                     `networks` of that [[ring.station]]"
                );
            }
        }
        let route =
            |net: &IpNet| Route { destination: *net, device: device.to_owned(), gateway: None, table, metric: None };
        let gone: Vec<IpNet> = self.set.difference(&wanted).copied().collect();
        for net in gone {
            self.set.remove(&net);
            if let Err(error) = netlink.remove_route(&route(&net)) {
                tracing::debug!(%net, %error, "the route is gone already");
            }
        }
        let new: Vec<IpNet> = wanted.difference(&self.set).copied().collect();
        for net in new {
            match netlink.add_route(&route(&net)) {
                Ok(()) => tracing::info!(%net, "reached through the ring"),
                // It is not tried again with every announcement: the kernel has its own way there.
                Err(error) => {
                    tracing::warn!(%net, %error, "a node tells of this network, and the kernel takes no route")
                }
            }
            self.set.insert(net);
        }
    }

    /// What is to be set, and the default routes that are learnt and are not.
    fn wanted(&self, networks: impl Iterator<Item = (IpNet, bool)>) -> (BTreeSet<IpNet>, BTreeSet<IpNet>) {
        let (mut configured, mut learnt) = (BTreeSet::new(), BTreeSet::new());
        for (net, is_learnt) in networks {
            if is_learnt {
                learnt.insert(net)
            } else {
                configured.insert(net)
            };
        }
        learnt.retain(|net| {
            let connected = self.connected.iter().any(|own| own.contains(net));
            !connected && !configured.contains(net)
        });
        learnt.into_iter().partition(|net| net.prefix_len() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    #[test]
    fn routes_are_for_what_is_learnt_and_not_reached_anyway_and_never_a_default_one() {
        let text = "[interface]\nname = \"ring0\"\naddress = [\"10.8.0.1/24\"]\n[ring]\nnode = 1\nnodes = 4\n\
                    rate = \"100Mbit\"\n[ring.east]\nkind = \"ethernet\"\ndevice = \"eth1\"\n";
        let config = Config::parse(Path::new("ring0.toml"), text).unwrap();
        let routes = Routes::new(&config.interface);
        let learnt = ["10.8.0.2/32", "192.168.2.0/24", "0.0.0.0/0", "::/0", "10.9.0.0/16", "fd00::/16"];
        let networks = learnt.iter().map(|net| (net.parse().unwrap(), true));
        let networks = networks.chain(["10.9.0.0/16", "::/0"].map(|net| (net.parse().unwrap(), false)));
        let (wanted, defaults) = routes.wanted(networks);
        let shown = |nets: BTreeSet<IpNet>| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown(wanted), ["192.168.2.0/24", "fd00::/16"]);
        assert_eq!(shown(defaults), ["0.0.0.0/0"], "a default route that is configured is set");
    }
}
