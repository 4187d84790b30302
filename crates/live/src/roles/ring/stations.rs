//! What lies behind which node: configured, or learnt from what the nodes announce.
//!
//! One table serves both ways, as for peers: it says to which node a packet of the host goes, and packets are let in only from
//! addresses that it would send back to the node where they entered the ring. The longest prefix wins; of equal ones this
//! node's own, then a configured one, then that of the node with the lowest number.

use super::announcement::{Announcement, AnnouncementError};
use crate::allowed::Allowed;
use crate::config::{Interface, Ring};
use fairspan_core::ring::NodeId;
use ipnet::IpNet;
use std::net::IpAddr;

/// The addresses of the ring.
#[derive(Debug)]
pub(super) struct Stations {
    own: NodeId,
    own_networks: Vec<IpNet>,
    learns: bool,
    /// By node.
    configured: Vec<Vec<IpNet>>,
    /// By node: what it tells, and what was made of it.
    told: Vec<(Vec<u8>, Announcement)>,
    table: Allowed,
}

impl Stations {
    pub(super) fn new(interface: &Interface, ring: &Ring) -> Stations {
        let own_networks = interface.addresses.iter().map(|net| net.addr().into()).chain(ring.networks.iter().copied());
        let mut configured = vec![Vec::new(); ring.nodes];
        for station in &ring.stations {
            configured[station.node.index()].extend(&station.networks);
        }
        let mut stations = Stations {
            own: ring.node,
            own_networks: own_networks.collect(),
            learns: ring.learn,
            configured,
            told: vec![Default::default(); ring.nodes],
            table: Allowed::default(),
        };
        stations.rebuild();
        stations
    }

    /// What this node tells the others.
    pub(super) fn announcement(&self, mtu: usize) -> Announcement {
        Announcement { mtu: u16::try_from(mtu).ok(), networks: self.own_networks.clone() }
    }

    /// A node tells this now, or no more. True when that changes anything.
    ///
    /// # Errors
    /// What is not understood counts as nothing told.
    pub(super) fn learn(&mut self, node: NodeId, bytes: Option<&[u8]>) -> Result<bool, AnnouncementError> {
        let bytes = bytes.unwrap_or_default();
        let Some(told) = self.told.get_mut(node.index()).filter(|told| node != self.own && told.0 != bytes) else {
            return Ok(false);
        };
        let decoded = Announcement::decode(bytes);
        *told = (bytes.to_vec(), decoded.clone().unwrap_or_default());
        self.rebuild();
        decoded.map(|_| true)
    }

    /// The node that an address lies behind; this one itself is one.
    pub(super) fn node_of(&mut self, address: IpAddr) -> Option<NodeId> {
        self.table.owner(address).map(NodeId::at)
    }

    /// What lies behind a node, and whether that was configured or learnt.
    pub(super) fn networks(&self, node: NodeId) -> impl Iterator<Item = (IpNet, bool)> {
        let own = if node == self.own { self.own_networks.as_slice() } else { &[] };
        let configured = self.configured[node.index()].iter();
        let learnt = self.learnt(node).iter().map(|net| (*net, true));
        own.iter().chain(configured).map(|net| (*net, false)).chain(learnt)
    }

    /// What is to be reached through the ring: everything that lies behind other nodes.
    pub(super) fn elsewhere(&self) -> impl Iterator<Item = (IpNet, bool)> {
        let others = (0..self.configured.len()).map(NodeId::at).filter(|node| *node != self.own);
        others.flat_map(|node| self.networks(node)).filter(|(net, _)| !self.own_networks.contains(net))
    }

    /// The largest packet that fits the links of all nodes that tell.
    pub(super) fn mtu(&self) -> Option<usize> {
        self.told.iter().filter_map(|(_, told)| told.mtu).min().map(usize::from)
    }

    fn learnt(&self, node: NodeId) -> &[IpNet] {
        if self.learns { &self.told[node.index()].1.networks } else { &[] }
    }

    fn rebuild(&mut self) {
        let mut table = Allowed::default();
        // The newest owner of a prefix wins.
        for node in (0..self.told.len()).rev() {
            self.learnt(NodeId::at(node)).iter().for_each(|net| table.insert(*net, node));
        }
        for (node, networks) in self.configured.iter().enumerate() {
            networks.iter().for_each(|net| table.insert(*net, node));
        }
        self.own_networks.iter().for_each(|net| table.insert(*net, self.own.index()));
        self.table = table;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    fn stations(more: &str) -> Stations {
        let text = format!(
            "[interface]\nname = \"ring0\"\naddress = [\"10.8.0.1/24\"]\n\
             [ring]\nnode = 1\nnodes = 4\nrate = \"100Mbit\"\nnetworks = [\"192.168.1.0/24\"]\n{more}\n\
             [ring.east]\nkind = \"ethernet\"\ndevice = \"eth1\"\n"
        );
        let config = Config::parse(Path::new("ring0.toml"), &text).unwrap();
        Stations::new(&config.interface, &config.ring.unwrap())
    }

    fn tells(stations: &mut Stations, node: usize, mtu: u16, networks: &[&str]) {
        let networks = networks.iter().map(|net| net.parse().unwrap()).collect();
        let (bytes, _) = Announcement { mtu: Some(mtu), networks }.encode();
        assert_eq!(stations.learn(NodeId::at(node - 1), Some(&bytes)), Ok(true));
        assert_eq!(stations.learn(NodeId::at(node - 1), Some(&bytes)), Ok(false), "nothing new");
    }

    fn node_of(stations: &mut Stations, address: &str) -> Option<u8> {
        stations.node_of(address.parse().unwrap()).map(NodeId::number)
    }

    #[test]
    fn own_prefixes_win_over_configured_ones_and_those_over_learnt_ones_and_low_numbers_over_high() {
        let mut stations = stations("[[ring.station]]\nnode = 3\nnetworks = [\"10.9.0.0/16\"]\n");
        tells(&mut stations, 4, 1500, &["10.8.0.4/32", "10.9.0.0/16", "10.7.0.0/16", "192.168.1.0/24", "10.8.0.1/32"]);
        tells(&mut stations, 2, 1400, &["10.8.0.2/32", "10.7.0.0/16", "10.9.1.0/24"]);
        for (address, node) in [
            ("10.8.0.1", Some(1)),
            ("192.168.1.77", Some(1)),
            ("10.8.0.2", Some(2)),
            ("10.9.7.1", Some(3)),
            ("10.9.1.1", Some(2)),
            ("10.7.0.1", Some(2)),
            ("10.8.0.4", Some(4)),
            ("10.8.0.3", None),
        ] {
            assert_eq!(node_of(&mut stations, address), node, "{address}");
        }
        assert_eq!(stations.mtu(), Some(1400));
        assert!(stations.elsewhere().all(|(net, _)| net != "192.168.1.0/24".parse().unwrap()), "it is ours");
    }

    #[test]
    fn what_a_node_told_is_forgotten_with_it_or_when_it_makes_no_sense() {
        let mut stations = stations("");
        tells(&mut stations, 2, 1400, &["10.8.0.2/32"]);
        assert_eq!(stations.learn(NodeId::at(1), Some(b"\x04\x09")), Err(AnnouncementError::Truncated { tag: 4 }));
        assert_eq!((node_of(&mut stations, "10.8.0.2"), stations.mtu()), (None, None));
        tells(&mut stations, 2, 1400, &["10.8.0.2/32"]);
        assert_eq!(stations.learn(NodeId::at(1), None), Ok(true));
        assert_eq!(node_of(&mut stations, "10.8.0.2"), None);
        assert_eq!(stations.learn(NodeId::at(0), Some(b"\x04\x01\x00")), Ok(false), "this node is not told of itself");
    }

    #[test]
    fn without_learning_only_what_is_configured_is_known_and_the_mtu_counts_all_the_same() {
        let mut stations = stations("learn = false\n[[ring.station]]\nnode = 3\nnetworks = [\"10.9.0.0/16\"]\n");
        tells(&mut stations, 2, 1400, &["10.8.0.2/32"]);
        assert_eq!((node_of(&mut stations, "10.8.0.2"), node_of(&mut stations, "10.9.0.1")), (None, Some(3)));
        assert_eq!(stations.mtu(), Some(1400));
    }
}
