//! Which of the networks that nodes announce are theirs to announce.
//!
//! | what covers the network, the longest prefix | who may announce it |
//! |---|---|
//! | this node's own address or one of its `networks` | nobody |
//! | `allowed_ips` or `networks` of `[[ring.station]]` | the nodes of the longest such prefix |
//! | the prefix of one of the interface's addresses | any node, a single address only |
//! | nothing | nobody |
//!
//! Where several may, the first keeps it for as long as it announces it; then the others' turn comes.
//!
//! Cost of a change: for each network that is told, a walk over what is configured, and a probe for each prefix length.

use crate::config::{Interface, Ring};
use fairspan_core::ring::NodeId;
use ipnet::IpNet;
use std::collections::HashMap;
use std::fmt;

/// Why a network is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is this node's own.
    Own,
    /// The configuration gives it to another node.
    Given,
    /// Nothing allows it.
    NotAllowed,
    /// Another node announced it first.
    Held(NodeId),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Own => f.write_str("it is this node's own"),
            Refusal::Given => f.write_str("it is allowed to another node alone"),
            Refusal::NotAllowed => f.write_str(
                "it is no single address of the ring's prefix, and no allowed_ips of a [[ring.station]] covers it",
            ),
            Refusal::Held(by) => write!(f, "node {by} announced it before"),
        }
    }
}

/// What the configuration allows, and who has what.
#[derive(Debug)]
pub(super) struct Claims {
    own: NodeId,
    /// Prefixes that belong to certain nodes.
    grants: Vec<(IpNet, NodeId)>,
    /// In which any node may have a single address.
    shared: Vec<IpNet>,
    held: HashMap<IpNet, NodeId>,
    /// By node: what it announces and does not get.
    refused: Vec<Vec<(IpNet, Refusal)>>,
    /// Of these, what nobody has been told yet.
    news: Vec<(NodeId, IpNet, Refusal)>,
}

impl Claims {
    pub(super) fn new(interface: &Interface, ring: &Ring) -> Claims {
        let own = interface.addresses.iter().map(|net| net.addr().into()).chain(ring.networks.iter().copied());
        let given = ring
            .stations
            .iter()
            .flat_map(|station| station.networks.iter().chain(&station.allowed_ips).map(|net| (*net, station.node)));
        Claims {
            own: ring.node,
            grants: own.map(|net| (net, ring.node)).chain(given).collect(),
            shared: interface.addresses.iter().map(IpNet::trunc).collect(),
            held: HashMap::new(),
            refused: vec![Vec::new(); ring.nodes],
            news: Vec::new(),
        }
    }

    /// Works out who has what, from what each node announces now.
    pub(super) fn settle<'a>(&mut self, told: impl Fn(NodeId) -> &'a [IpNet]) {
        self.held.retain(|net, holder| told(*holder).contains(net));
        for node in (0..self.refused.len()).map(NodeId::at).filter(|node| *node != self.own) {
            let before = std::mem::take(&mut self.refused[node.index()]);
            let mut refused = Vec::new();
            for net in told(node) {
                match self.judge(node, *net) {
                    Ok(()) => {
                        self.held.insert(*net, node);
                    }
                    Err(why) => refused.push((*net, why)),
                }
            }
            let news = refused.iter().filter(|refusal| !before.contains(refusal));
            self.news.extend(news.map(|(net, why)| (node, *net, *why)));
            self.refused[node.index()] = refused;
        }
    }

    /// Whether a node has what it announces.
    pub(super) fn has(&self, node: NodeId, net: &IpNet) -> bool {
        self.held.get(net) == Some(&node)
    }

    /// What a node announces and does not get.
    pub(super) fn refused(&self, node: NodeId) -> impl Iterator<Item = IpNet> {
        self.refused[node.index()].iter().map(|(net, _)| *net)
    }

    /// What was refused since this was last asked.
    pub(super) fn take_news(&mut self) -> Vec<(NodeId, IpNet, Refusal)> {
        std::mem::take(&mut self.news)
    }

    fn judge(&self, node: NodeId, net: IpNet) -> Result<(), Refusal> {
        self.allows(node, net)?;
        let covering = (0..=net.prefix_len()).filter_map(|length| IpNet::new(net.addr(), length).ok());
        let holders = covering.filter_map(|covering| self.held.get(&covering.trunc()));
        match holders.copied().find(|holder| *holder != node && self.allows(*holder, net).is_ok()) {
            Some(holder) => Err(Refusal::Held(holder)),
            None => Ok(()),
        }
    }

    fn allows(&self, node: NodeId, net: IpNet) -> Result<(), Refusal> {
        let length = |covering: &&IpNet| covering.contains(&net).then(|| covering.prefix_len());
        let given = self.grants.iter().filter_map(|(covering, _)| length(&covering)).max();
        let shared = self.shared.iter().filter_map(|covering| length(&covering)).max();
        if given.is_none() || given < shared {
            let is_address = net.prefix_len() == net.max_prefix_len();
            return if shared.is_some() && is_address { Ok(()) } else { Err(Refusal::NotAllowed) };
        }
        let mut owners = self.grants.iter().filter(|(covering, _)| length(&covering) == given).map(|(_, owner)| *owner);
        match owners.clone().any(|owner| owner == self.own) {
            true => Err(Refusal::Own),
            false if owners.any(|owner| owner == node) => Ok(()),
            false => Err(Refusal::Given),
        }
    }
}
