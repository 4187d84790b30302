//! What peers send to others leaves as this host's own: addresses are translated, and the devices that carry it forward.
//!
//! A table of packet rules of the daemon's own, `inet fairspan-masq-NAME`, which the kernel removes with the process, also when that is
//! killed. What comes from a peer has one of its `allowed_ips` as its source, since nothing else is let in; so those are what is
//! translated where it leaves by another device than the interface. With a network of 0 bits, everything would be: it is left out.
//!
//! What comes by the interface is forwarded, over IPv4: the interface's setting is the daemon's, and goes with it. Whether this host forwards
//! what comes by its other devices, as answers do, is the host's to say: whoever switches that on for a device lets its neighbours
//! send through this host too, and that would outlast a daemon that is killed. What is missing is told.

use super::gateway::ranges;
use crate::config::Config;
use crate::finding::setting;
use crate::netlink::nftables::{Hook, Kind, OwnedTable, PacketRule, Transaction};
use crate::netlink::{Guard, Netlink, NetlinkError, TABLE_MAIN};
use ipnet::IpNet;

/// Where sources are translated, by convention.
const BEHIND_ROUTING: i32 = 100;
const CHAIN: &str = "leaves";

/// The rules, and what was changed for them; undone when this is dropped.
#[derive(Debug)]
pub(crate) struct Masquerade {
    table: OwnedTable,
    _forwarding: Guard,
}

fn table_of(config: &Config) -> String {
    format!("fairspan-masq-{}", config.interface.name)
}

impl Masquerade {
    /// Sets the rules, if the configuration wants them; the interface is there.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn start(config: &Config) -> Result<Option<Masquerade>, NetlinkError> {
        if !config.interface.masquerade {
            return Ok(None);
        }
        let table = OwnedTable::set(&table_of(config), |transaction| write(config, transaction))?;
        let mut forwarding = Guard::new()?;
        forwarding.forward(&config.interface.name);
        if let Some(problem) = problem(config) {
            tracing::warn!("interface.masquerade: {problem}");
        }
        Ok(Some(Masquerade { table, _forwarding: forwarding }))
    }

    /// Whether the kernel could have the rules: nothing is changed.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn attempt(config: &Config) -> Result<(), NetlinkError> {
        if !config.interface.masquerade {
            return Ok(());
        }
        OwnedTable::attempt(&table_of(config), |transaction| write(config, transaction)).map(|_| ())
    }

    /// Other peers, or other addresses of theirs.
    ///
    /// # Errors
    /// What the kernel says; the rules are as before.
    pub(crate) fn follow(&mut self, config: &Config) -> Result<(), NetlinkError> {
        self.table.replace(|transaction| write(config, transaction))
    }

    /// Sets the rules again where another program took them away, as one that empties all tables does.
    pub(crate) fn keep(&mut self, config: &Config) {
        if self.table.is_there() == Ok(false) {
            match OwnedTable::set(&table_of(config), |transaction| write(config, transaction)) {
                Ok(table) => {
                    tracing::warn!("another program removed the rules of `masquerade`: they are set again");
                    self.table = table;
                }
                Err(error) => tracing::warn!(%error, "another program removed the rules of `masquerade`"),
            }
        }
    }
}

/// What keeps from others what peers send, though the rules can be set.
pub(crate) fn problem(config: &Config) -> Option<String> {
    if !config.interface.masquerade {
        return None;
    }
    let routes = Netlink::open().and_then(|mut netlink| netlink.routes(TABLE_MAIN)).unwrap_or_default();
    if !routes.iter().any(|route| route.destination.prefix_len() == 0) {
        return Some(
            "this host has no default route, so what peers send to others goes no further than its own networks"
                .to_owned(),
        );
    }
    let is_off = |path: &str| setting(path) == Some(0);
    let mut beyond: Vec<&str> =
        routes.iter().filter(|route| route.destination == default_v4()).map(|route| route.device.as_str()).collect();
    beyond.retain(|device| *device != config.interface.name && is_off(&format!("net/ipv4/conf/{device}/forwarding")));
    if let Some(device) = beyond.first() {
        return Some(format!(
            "this host does not forward what comes by {device}, so no answer reaches a peer: `sysctl -w \
             net.ipv4.conf.{device}.forwarding=1`, and a firewall that lets its neighbours send nothing else through this host"
        ));
    }
    let sends_six = peers_nets(config).any(|net| net.addr().is_ipv6());
    (sends_six && is_off("net/ipv6/conf/all/forwarding")).then(|| {
        "this host does not forward IPv6: `sysctl -w net.ipv6.conf.all.forwarding=1`, and accept_ra=2 on devices that get their addresses \
         from a router"
            .to_owned()
    })
}

fn default_v4() -> IpNet {
    IpNet::V4(ipnet::Ipv4Net::default())
}

fn peers_nets(config: &Config) -> impl Iterator<Item = &IpNet> {
    config.peers.iter().flat_map(|peer| &peer.allowed_ips).filter(|net| net.prefix_len() > 0)
}

fn write(config: &Config, to: &mut Transaction) {
    to.base_chain(CHAIN, Kind::Nat, Hook::Postrouting, BEHIND_ROUTING);
    to.rule(CHAIN, &PacketRule::new().leaves_by(&config.interface.name).accept());
    let nets: Vec<(IpNet, bool)> = peers_nets(config).map(|net| (*net, true)).collect();
    for (is_v6, set) in [(false, "peers4"), (true, "peers6")] {
        let ranges = ranges::own(&nets, is_v6);
        if !ranges.is_empty() {
            to.addresses(set, is_v6, &ranges);
            to.rule(CHAIN, &PacketRule::new().from_one_of(set, is_v6).masquerade());
        }
    }
}
