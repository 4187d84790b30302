//! What lies behind which node: configured, or learnt from what the nodes announce.
//!
//! One table serves both ways, as for peers: it says to which node a packet of the host goes, and packets are let in only from
//! addresses that it would send back to the node where they entered the ring. The longest prefix wins; of equal ones this
//! node's own, then a configured one, then a learnt one, which one node has at most ([`super::claims`]).

use super::announcement::{Announcement, AnnouncementError};
use super::claims::{Claims, Refusal};
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
    claims: Claims,
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
            claims: Claims::new(interface, ring),
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
        let learnt = self.learnt(node).map(|net| (net, true));
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

    /// What a node announces that is not its own to announce.
    pub(super) fn refused(&self, node: NodeId) -> impl Iterator<Item = IpNet> {
        self.claims.refused(node)
    }

    /// What was refused since this was last asked.
    pub(super) fn take_refusals(&mut self) -> Vec<(NodeId, IpNet, Refusal)> {
        self.claims.take_news()
    }

    fn learnt(&self, node: NodeId) -> impl Iterator<Item = IpNet> {
        let told = &self.told[node.index()].1.networks;
        told.iter().filter(move |net| self.claims.has(node, net)).copied()
    }

    fn rebuild(&mut self) {
        if self.learns {
            let told = &self.told;
            self.claims.settle(|node| told[node.index()].1.networks.as_slice());
        }
        let mut table = Allowed::default();
        // The newest owner of a prefix wins.
        for node in 0..self.told.len() {
            self.learnt(NodeId::at(node)).for_each(|net| table.insert(net, node));
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

    const ALLOWED: &str = "[[ring.station]]\nnode = 3\nnetworks = [\"10.9.0.0/16\"]\n\
                           [[ring.station]]\nnode = 2\nallowed_ips = [\"10.7.0.0/16\", \"10.9.1.0/24\", \"10.8.0.9/32\"]\n\
                           [[ring.station]]\nnode = 4\nallowed_ips = [\"10.0.0.0/8\", \"10.7.0.0/16\", \"0.0.0.0/0\"]\n";

    #[test]
    fn own_prefixes_win_over_configured_ones_and_those_over_learnt_ones() {
        let mut stations = stations(ALLOWED);
        tells(&mut stations, 2, 1400, &["10.8.0.2/32", "10.7.0.0/16", "10.9.1.0/24"]);
        tells(&mut stations, 4, 1500, &["10.8.0.4/32", "10.0.0.0/8", "10.9.0.0/16", "192.168.1.0/24", "10.8.0.1/32"]);
        for (address, node) in [
            ("10.8.0.1", Some(1)),
            ("192.168.1.77", Some(1)),
            ("10.8.0.2", Some(2)),
            ("10.9.7.1", Some(3)),
            ("10.9.1.1", Some(2)),
            ("10.7.0.1", Some(2)),
            ("10.8.0.4", Some(4)),
            ("10.6.0.3", Some(4)),
            ("11.0.0.1", None),
        ] {
            assert_eq!(node_of(&mut stations, address), node, "{address}");
        }
        assert_eq!(stations.mtu(), Some(1400));
        assert!(stations.elsewhere().all(|(net, _)| net != "192.168.1.0/24".parse().unwrap()), "it is ours");
    }

    /// Each row: who announces what, and why it does not get it.
    #[test]
    fn a_node_draws_no_traffic_but_of_its_own_addresses_and_of_what_it_is_allowed() {
        let at = |n: usize| NodeId::at(n - 1);
        for (more, node, net, verdict) in [
            ("", 2, "10.8.0.2/32", None),
            ("", 2, "0.0.0.0/1", Some(Refusal::NotAllowed)),
            ("", 2, "128.0.0.0/1", Some(Refusal::NotAllowed)),
            ("", 2, "0.0.0.0/0", Some(Refusal::NotAllowed)),
            ("", 2, "::/0", Some(Refusal::NotAllowed)),
            ("", 2, "2000::/3", Some(Refusal::NotAllowed)),
            ("", 2, "203.0.113.7/32", Some(Refusal::NotAllowed)),
            ("", 2, "10.8.0.0/24", Some(Refusal::NotAllowed)),
            ("", 2, "10.8.0.2/31", Some(Refusal::NotAllowed)),
            ("", 2, "10.8.0.1/32", Some(Refusal::Own)),
            ("", 2, "192.168.1.5/32", Some(Refusal::Own)),
            ("", 2, "10.8.0.3/32", Some(Refusal::Held(at(3)))),
            (ALLOWED, 2, "10.7.3.0/24", None),
            (ALLOWED, 2, "10.9.2.0/24", Some(Refusal::Given)),
            (ALLOWED, 4, "10.9.1.7/32", Some(Refusal::Given)),
            (ALLOWED, 4, "10.8.0.9/32", Some(Refusal::Given)),
            (ALLOWED, 4, "10.8.0.1/32", Some(Refusal::Own)),
            (ALLOWED, 4, "10.8.0.3/32", Some(Refusal::Held(at(3)))),
            (ALLOWED, 4, "10.8.0.77/32", None),
            (ALLOWED, 4, "0.0.0.0/0", None),
            (ALLOWED, 2, "10.6.0.0/16", Some(Refusal::Given)),
        ] {
            let mut stations = stations(more);
            tells(&mut stations, 3, 1500, &["10.8.0.3/32"]);
            tells(&mut stations, node, 1500, &[net]);
            let refused = verdict.map(|why| (at(node), net.parse().unwrap(), why));
            assert_eq!(stations.take_refusals(), Vec::from_iter(refused), "{net} from node {node}, {more}");
            let address = net.parse::<IpNet>().unwrap().addr();
            let drawn = stations.node_of(address) == Some(at(node));
            assert_eq!(drawn, verdict.is_none(), "{net} from node {node}, {more}");
        }
    }

    #[test]
    fn the_first_to_announce_keeps_an_address_until_it_no_longer_does() {
        let mut stations = stations(ALLOWED);
        tells(&mut stations, 4, 1500, &["10.8.0.7/32", "10.7.0.0/16"]);
        tells(&mut stations, 2, 1500, &["10.8.0.7/32", "10.7.1.0/24"]);
        let refused =
            |stations: &Stations| stations.refused(NodeId::at(1)).map(|net| net.to_string()).collect::<Vec<_>>();
        assert_eq!(refused(&stations), ["10.8.0.7/32", "10.7.1.0/24"]);
        assert_eq!((node_of(&mut stations, "10.8.0.7"), node_of(&mut stations, "10.7.1.1")), (Some(4), Some(4)));
        assert_eq!(stations.take_refusals().len(), 2);
        tells(&mut stations, 4, 1400, &["10.8.0.7/32", "10.7.0.0/16"]);
        assert_eq!((stations.take_refusals(), node_of(&mut stations, "10.8.0.7")), (vec![], Some(4)), "told once");
        assert_eq!(stations.learn(NodeId::at(3), None), Ok(true));
        assert_eq!((node_of(&mut stations, "10.8.0.7"), node_of(&mut stations, "10.7.1.1")), (Some(2), Some(2)));
        assert!(refused(&stations).is_empty());
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
