//! A node of a ring.

use super::fairness::Refused;
use super::topology::Topology;
use super::{Class, NodeId, Ringlet, Side};
use crate::packet::Packet;
use crate::units::{Bytes, Rate, Span, Time};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Bytes in front of each packet between neighbours.
pub const HEAD: usize = 6;

/// A data frame for a neighbour: `head`, then the packet's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<P> {
    /// Over which link.
    pub side: Side,
    /// The bytes in front of the packet.
    pub head: [u8; HEAD],
    /// The packet, as the station gave it.
    pub packet: P,
}

/// A packet for the station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The node where it entered.
    pub from: NodeId,
    /// Its class.
    pub class: Class,
    /// As the station there gave it.
    pub packet: P,
}

/// What happened, for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A link carries packets both ways, or does not any more.
    Link {
        /// Which.
        side: Side,
        /// Whether it does.
        up: bool,
    },
    /// The ring as this node knows it has changed: routes may be others.
    Topology,
    /// A neighbour sent a control message that was refused.
    Refused {
        /// Over which link it came.
        side: Side,
        /// Why.
        reason: Refused,
    },
}

/// Settings of a node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// How many nodes the ring has.
    pub nodes: usize,
    /// The rate that shares refer to: that of the ring's fastest link. The same at all nodes.
    pub nominal: Rate,
    /// What the links east and west carry towards the neighbour, with all that is added to a packet.
    pub capacity: [Rate; 2],
    /// Bytes that the links east and west carry for each frame beyond the packet's own: head, encapsulation.
    pub overhead: [usize; 2],
    /// How far a link's sender may be ahead of its rate: 0 in simulations; a few packets where sending is in batches.
    pub burst: Bytes,
    /// Room of each transit queue.
    pub transit_limit: Bytes,
    /// Room of the station's queue to each egress.
    pub station_limit: Bytes,
    /// Time between control messages.
    pub interval: Span,
    /// What other nodes are told of this one's station, such as its addresses; at most 512 bytes.
    pub announcement: Vec<u8>,
}

/// A node of a ring: sans IO. After any input, drain the polls, in the order in which they stand here.
#[derive(Debug)]
pub struct Node<P> {
    packets: PhantomData<P>,
}

impl<P: Packet> Node<P> {
    /// A packet from the station for the node `to`.
    pub fn handle_station(&mut self, now: Time, to: NodeId, class: Class, packet: P) {
        let _ = (now, to, class, packet);
        todo!()
    }

    /// A packet from the station for the node `to` that goes round by `ringlet`, while that way is whole.
    pub fn handle_station_by(&mut self, now: Time, to: NodeId, ringlet: Ringlet, class: Class, packet: P) {
        let _ = (now, to, ringlet, class, packet);
        todo!()
    }

    /// A data frame came from the neighbour at `side`, without its head.
    pub fn handle_data(&mut self, now: Time, side: Side, head: [u8; HEAD], packet: P) {
        let _ = (now, side, head, packet);
        todo!()
    }

    /// A control frame came from the neighbour at `side`.
    pub fn handle_control(&mut self, now: Time, side: Side, frame: &[u8]) {
        let _ = (now, side, frame);
        todo!()
    }

    /// What the driver knows of a link: its carrier, its session.
    pub fn set_link(&mut self, now: Time, side: Side, up: bool) {
        let _ = (now, side, up);
        todo!()
    }

    /// A link carries this much from now on.
    pub fn set_capacity(&mut self, now: Time, side: Side, rate: Rate) {
        let _ = (now, side, rate);
        todo!()
    }

    /// The socket of a link takes nothing for now.
    pub fn set_blocked(&mut self, now: Time, side: Side, blocked: bool) {
        let _ = (now, side, blocked);
        todo!()
    }

    /// [`Node::poll_timeout`] is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    /// A control frame to be sent now, before all data.
    pub fn poll_control(&mut self, now: Time) -> Option<(Side, &[u8])> {
        let _ = now;
        todo!()
    }

    /// A data frame whose transmission begins now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<P>> {
        let _ = now;
        todo!()
    }

    /// A packet for the station.
    pub fn poll_deliver(&mut self) -> Option<Delivery<P>> {
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

    /// The ring as this node knows it.
    pub fn topology(&self) -> &Topology {
        todo!()
    }

    /// What `node` tells of its station.
    pub fn announced(&self, node: NodeId) -> Option<&[u8]> {
        let _ = node;
        todo!()
    }

    /// Other nodes are told this of the station from now on; at most 512 bytes.
    pub fn announce(&mut self, now: Time, announcement: &[u8]) {
        let _ = (now, announcement);
        todo!()
    }

    /// What waits here for its limiter, for `to` on `ringlet`.
    pub fn backlog(&self, ringlet: Ringlet, to: NodeId) -> Bytes {
        let _ = (ringlet, to);
        todo!()
    }

    /// The fair share of the nominal rate that `node` tells for its outgoing link of `ringlet`, where the algorithm has it.
    pub fn fair(&self, ringlet: Ringlet, node: NodeId) -> Option<f64> {
        let _ = (ringlet, node);
        todo!()
    }

    /// The rate at which packets to `to` may enter `ringlet`.
    pub fn limit(&self, ringlet: Ringlet, to: NodeId) -> Option<Rate> {
        let _ = (ringlet, to);
        todo!()
    }

    /// Grows whenever a limit may have changed: while it stays the same, so do all of [`Node::limit`].
    pub fn limits_version(&self) -> u64 {
        todo!()
    }
}
