//! What `[ring]` says when it is read.

use super::super::Channel;
use crate::secure::{PresharedKey, PublicKey};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::ring::algorithm::Algorithm;
use fairspan_core::ring::control::Reservation;
use fairspan_core::ring::protection::Protection;
use fairspan_core::ring::{NodeId, Side, discovery, node};
use fairspan_core::units::{Bytes, Rate, Span};
use ipnet::IpNet;
use std::path::PathBuf;

/// `[ring]`: this node and its ring.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ring {
    /// `node`: this node's number, from 1.
    pub node: NodeId,
    /// `nodes`: how many the ring has; the same at all.
    pub nodes: usize,
    /// `rate`: that of the ring's fastest link, to which shares refer; the same at all nodes.
    pub rate: Rate,
    /// `algorithm`: how links are shared; the same at all nodes; default `dvsr`.
    pub algorithm: Algorithm,
    /// `interval`: time between control messages; default 1 ms.
    pub interval: Span,
    /// `protection`: what happens to packets at a break; default `steer`.
    pub protection: Protection,
    /// `weight`: this node's share of each link against those of the others, in thousandths; default 1.
    pub weight: u32,
    /// `[[ring.reservation]]`: what is kept for this node's own packets of class A, or is theirs first of class B.
    pub reservations: Vec<Reservation>,
    /// `transit_buffer`: room of each transit queue; default 256 kB.
    pub transit_buffer: Bytes,
    /// `station_buffer`: room of this node's queue to each other node, on each ringlet; default 256 kB.
    pub station_buffer: Bytes,
    /// `station_discipline`: which of the packets in it goes next; default `fifo`.
    pub station_discipline: DisciplineConfig,
    /// `station_policy`: which are let in, marked, dropped; default `drop-tail` with `fifo`, else `longest-queue`.
    pub station_policy: PolicyConfig,
    /// `keepalive`: time between signs of life to neighbours; default 5 ms.
    pub keepalive: Span,
    /// `silence`: a neighbour that is silent for so long has failed; default 25 ms.
    pub silence: Span,
    /// `hold_off`: a link that fails is in use for so long yet; default 0.
    pub hold_off: Span,
    /// `restore_after`: a link that failed is used again when it has been well for so long; default 100 ms.
    pub restore_after: Span,
    /// `burst`: how far sending may be ahead of a link's rate; default 6056 B, or 250 us of the rate.
    pub burst: Bytes,
    /// `networks`: what lies behind this node beside the interface's own addresses; announced.
    pub networks: Vec<IpNet>,
    /// `learn`: what other nodes announce, and may, is routed to them; default true.
    pub learn: bool,
    /// `[ring.east]` and `[ring.west]`, by [`Side::index`]. A line's end has one only.
    pub sides: [Option<RingSide>; 2],
    /// `[[ring.station]]`.
    pub stations: Vec<RingStation>,
}

/// `[ring.east]`, `[ring.west]`: the link to a neighbour.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RingSide {
    /// `public_key`: who the neighbour is; needed where the link is encrypted.
    pub public_key: Option<PublicKey>,
    /// `preshared_key` or `preshared_key_file`; default none.
    pub preshared_key: Option<PresharedKey>,
    /// What carries it; `None`: the neighbour calls, on `interface.listen_port`.
    pub channel: Option<Channel>,
    /// `rate`: what we may send, with all that is added to a packet; default: the ring's; at most a tenth above it.
    pub rate: Rate,
    /// `capacity = "bond:…"`: the bond that the link runs over; default: none, and `rate` is the capacity.
    pub bond: Option<BondOf>,
    /// `overhead`: bytes that the link adds to each IP packet; default 14 (Ethernet), over a bond 80.
    pub overhead: u16,
    /// `mtu`: of the link, IP header included; default: the device's, else 1500.
    pub mtu: Option<u16>,
}

/// The bond of another daemon on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BondOf {
    /// The daemon's control socket.
    pub socket: PathBuf,
    /// Which of its peers; `None` where it has one.
    pub peer: Option<String>,
}

/// `[[ring.station]]`: what lies behind another node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingStation {
    /// `node`: which.
    pub node: NodeId,
    /// `networks`: prefixes that are routed to it, and that it may send from; default none.
    pub networks: Vec<IpNet>,
    /// `allowed_ips`: prefixes within which it may announce what it likes; default none.
    pub allowed_ips: Vec<IpNet>,
}

impl Ring {
    /// The node that runs this, as far as no device has a say.
    pub(crate) fn node_config(&self) -> node::Config {
        let mut config = node::Config::new(self.node, self.nodes, self.rate);
        config.algorithm = self.algorithm.clone();
        config.interval = self.interval;
        config.protection = self.protection;
        config.weight = self.weight;
        config.reservations.clone_from(&self.reservations);
        let mut discovery = discovery::Config::new(self.node, self.nodes, self.rate);
        discovery.keepalive = Some(self.keepalive);
        discovery.silence = self.silence;
        discovery.hold_off = self.hold_off;
        discovery.wait_to_restore = self.restore_after;
        config.discovery = Some(discovery);
        config.transit_limit = self.transit_buffer;
        config.station_threshold = Bytes::new(self.transit_buffer.as_u64() / 4);
        config.station_limit = self.station_buffer;
        config.station_discipline = self.station_discipline;
        config.station_policy = self.station_policy;
        config.burst = self.burst;
        for (capacity, side) in config.capacity.iter_mut().zip(&self.sides) {
            *capacity = side.as_ref().map_or(self.rate, |side| side.rate);
        }
        config
    }

    /// The neighbour at a side.
    pub fn neighbour(&self, side: Side) -> NodeId {
        let n = self.node.index();
        NodeId::at(match side {
            Side::East => (n + 1) % self.nodes,
            Side::West => (n + self.nodes - 1) % self.nodes,
        })
    }
}
