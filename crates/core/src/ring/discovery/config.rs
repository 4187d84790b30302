//! The settings of discovery.

use crate::ring::NodeId;
use crate::ring::control::Reservation;
use crate::ring::topology::UNIT_WEIGHT;
use crate::units::{Rate, Span};
use alloc::vec::Vec;

/// Settings of discovery; times apart, they are [`node::Config`](crate::ring::node::Config)'s.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// How many nodes the ring has.
    pub nodes: usize,
    /// The rate that shares refer to; the same at all nodes.
    pub nominal: Rate,
    /// [`control::digest`](crate::ring::control::digest) of the settings that must be alike at all nodes.
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
