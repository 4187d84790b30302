//! Who is there: the neighbours, and the whole ring.

use super::control::{DecodeError, Reservation};
use super::topology::{Topology, UNIT_WEIGHT};
use super::{NodeId, Ringlet, Side};
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// Settings of discovery; times apart, they are [`super::node::Config`]'s.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// How many nodes the ring has.
    pub nodes: usize,
    /// The rate that shares refer to; the same at all nodes.
    pub nominal: Rate,
    /// [`super::control::digest`] of the settings that must be alike at all nodes.
    pub settings: u32,
    /// What the links east and west carry towards the neighbour.
    pub capacity: [Rate; 2],
    /// In thousandths.
    pub weight: u32,
    /// What the node reserves for its own traffic.
    pub reservations: Vec<Reservation>,
    /// What other nodes are told of the station; at most 512 bytes.
    pub announcement: Vec<u8>,
    /// Time between keepalives: 3 ms. `None`: none are sent or awaited, and the driver alone says whether a link is up.
    pub keepalive: Option<Span>,
    /// A neighbour that is silent for so long has failed: 12 ms.
    pub silence: Span,
    /// A link that failed is used again when it has been well for so long: 100 ms.
    pub wait_to_restore: Span,
    /// A link that fails is in use for so long yet, in case something below repairs it: none.
    pub hold_off: Span,
    /// Time between reports while nothing changes: 1 s. `None`: only changes are told.
    pub refresh: Option<Span>,
    /// Whether links of nodes that have told nothing are taken to be up. Else they are taken to be down.
    pub assume: bool,
}

impl Config {
    /// The defaults, for a live ring: neighbours are listened for, and nothing is assumed.
    pub fn new(node: NodeId, nodes: usize, nominal: Rate) -> Config {
        Config {
            node,
            nodes,
            nominal,
            settings: 0,
            capacity: [nominal; 2],
            weight: UNIT_WEIGHT,
            reservations: Vec::new(),
            announcement: Vec::new(),
            keepalive: Some(Span::from_millis(3)),
            silence: Span::from_millis(12),
            wait_to_restore: Span::from_millis(100),
            hold_off: Span::ZERO,
            refresh: Some(Span::from_secs(1)),
            assume: false,
        }
    }

    /// For simulations of rings whose links do not fail unseen: no keepalives, no reports but of changes, and a ring that
    /// is whole from the start.
    pub fn still(node: NodeId, nodes: usize, nominal: Rate) -> Config {
        Config {
            keepalive: None,
            refresh: None,
            assume: true,
            wait_to_restore: Span::ZERO,
            ..Config::new(node, nodes, nominal)
        }
    }
}

/// Why a control frame was refused: counted, and without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Not a frame of these kinds.
    Malformed(DecodeError),
    /// The driver says that the link is down.
    Down,
    /// From a ring of another number of nodes.
    Nodes {
        /// Of how many.
        found: u8,
    },
    /// The neighbour's settings that must be alike at all nodes are others.
    Settings,
    /// The neighbour's shares refer to another rate.
    Nominal {
        /// To which.
        found: Rate,
    },
    /// Another node than the one whose place this is: cables or numbers are wrong.
    Neighbour {
        /// Which should be there.
        expected: NodeId,
        /// Which is.
        found: NodeId,
    },
    /// The neighbour's link of the same side: east links lead to west links.
    Side,
    /// This node's own frame: a loop.
    Own,
    /// From a second node with a number that is in use.
    Taken {
        /// The number.
        node: NodeId,
    },
    /// Older than one that was taken, or taken already.
    Stale,
    /// A report over a link on which no neighbour is known.
    Stranger,
}

/// What discovery did, for logs and for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A link may carry packets from now on, or no more, as far as this node can tell.
    Link {
        /// Which.
        side: Side,
        /// Whether it may.
        up: bool,
    },
    /// The topology, weights, capacities or reservations changed.
    Topology,
    /// Control frames are refused. Told when the reason changes, and at most once a second while it does not.
    Refused {
        /// Over which link they come.
        side: Side,
        /// Why.
        reason: Refused,
    },
}

/// What is reserved of one way of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// By class A.
    pub a: Rate,
    /// By class B.
    pub b: Rate,
}

/// Discovery at one node, sans IO. After any input, drain the polls.
#[derive(Clone, Debug)]
pub struct Discovery {
    topology: Topology,
}

impl Discovery {
    /// At a node whose links are down until the driver says otherwise. `seed` makes the instance.
    ///
    /// # Errors
    /// Which setting is wrong.
    pub fn new(config: Config, now: Time, seed: u64) -> Result<Discovery, ConfigError> {
        let _ = (config, now, seed);
        todo!()
    }

    /// A control frame came from the neighbour at `side`: a keepalive or a report.
    ///
    /// # Errors
    /// Why it was refused; counted and told already.
    pub fn handle_frame(&mut self, now: Time, side: Side, frame: &[u8]) -> Result<(), Refused> {
        let _ = (now, side, frame);
        todo!()
    }

    /// What the driver knows of a link.
    pub fn set_link(&mut self, now: Time, side: Side, up: bool) {
        let _ = (now, side, up);
        todo!()
    }

    /// A link carries this much from now on.
    pub fn set_capacity(&mut self, now: Time, side: Side, rate: Rate) {
        let _ = (now, side, rate);
        todo!()
    }

    /// Other nodes are told this of the station from now on; what is beyond 512 bytes is not told.
    pub fn announce(&mut self, now: Time, announcement: &[u8]) {
        let _ = (now, announcement);
        todo!()
    }

    /// [`Discovery::poll_timeout`] is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    /// A whole control frame to be sent now over the link, written into `out`, which is emptied first.
    pub fn poll_control(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Side> {
        let _ = (now, out);
        todo!()
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// When there is something to do next without input.
    pub fn poll_timeout(&self) -> Option<Time> {
        todo!()
    }

    /// The ring as this node knows it. The ways out of this node are up only if both ends say so.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether data frames that come over this link are from the neighbour that should be there.
    pub fn accepts(&self, side: Side) -> bool {
        let _ = side;
        todo!()
    }

    /// What `node` tells of its station.
    pub fn announced(&self, node: NodeId) -> Option<&[u8]> {
        let _ = node;
        todo!()
    }

    /// What is reserved of the way that leaves `node` on `ringlet`.
    pub fn reserved(&self, node: NodeId, ringlet: Ringlet) -> Reserved {
        let _ = (node, ringlet);
        todo!()
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Less than 2 nodes, or more than 255.
    #[error("a ring has 2 to 255 nodes, not {found}")]
    Nodes {
        /// How many.
        found: usize,
    },
    /// A number beyond the ring's.
    #[error("node {node} in a ring of {nodes} nodes")]
    Node {
        /// The number.
        node: NodeId,
        /// How many there are.
        nodes: usize,
    },
    /// A setting out of its range.
    #[error("{setting}: {right}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it may be.
        right: &'static str,
    },
}
