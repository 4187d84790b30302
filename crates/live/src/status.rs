//! What a running daemon tells of itself: the document of `fairspan status --json`, and the source of the metrics.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Named counters, each a number of events since the daemon began.
pub type Counters = BTreeMap<String, u64>;

/// One daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// The interface's name.
    pub interface: String,
    /// Seconds since the daemon began.
    pub uptime_s: f64,
    /// The interface's MTU in bytes.
    pub mtu: usize,
    /// The UDP port on which peers may begin, if any.
    pub listen_port: Option<u16>,
    /// What the daemon counts outside any peer: TUN, sockets, handshakes, drops by reason.
    pub counters: Counters,
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// The bond of Ethernet links, where there is one instead of peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<BondStatus>,
    /// The node of a ring, where the daemon is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingStatus>,
}

impl Status {
    /// A daemon that has nothing to tell yet but its interface, the seconds since it began, and its MTU.
    pub(crate) fn new(interface: &str, uptime_s: f64, mtu: usize) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            interface: interface.into(),
            uptime_s,
            mtu,
            listen_port: None,
            counters: Counters::new(),
            peers: Vec::new(),
            bond: None,
            ring: None,
        }
    }
}

/// A node of a ring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingStatus {
    /// This node's number.
    pub node: u8,
    /// How many the ring has.
    pub nodes: usize,
    /// The rate that shares refer to, in Mbit/s.
    pub nominal_mbit: f64,
    /// How links are shared, with what is not the default.
    pub algorithm: String,
    /// Time between control messages in ms.
    pub interval_ms: f64,
    /// `steer` or `wrap`.
    pub protection: String,
    /// This node's weight.
    pub weight: f64,
    /// True while all links of the ring are up both ways.
    pub whole: bool,
    /// The node's counters, drops by reason among them.
    pub counters: Counters,
    /// This node's links: east, then west; a line's end has one.
    pub links: Vec<RingLinkStatus>,
    /// All nodes of the ring as this one knows them, by number.
    pub stations: Vec<RingStationStatus>,
    /// Both ringlets: 0 runs east, 1 west.
    pub ringlets: Vec<RingletStatus>,
}

/// One of a ring node's links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingLinkStatus {
    /// `east` or `west`.
    pub side: String,
    /// The node at the other end.
    pub neighbour: u8,
    /// `udp` or `ethernet`.
    pub kind: String,
    /// `up`, `down` (the neighbour is connected, and says nothing or has just come back), `connecting` or `failed`.
    pub state: String,
    /// The neighbour's address, if known.
    pub remote: Option<String>,
    /// What we may send, in Mbit/s at the link layer.
    pub rate_mbit: f64,
    /// What the link carries for each packet beyond its own bytes.
    pub overhead: usize,
    /// The largest packet that fits.
    pub mtu: usize,
    /// The link's counters.
    pub counters: Counters,
}

/// A node of the ring, as another one knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingStationStatus {
    /// Its number.
    pub number: u8,
    /// Whether its way out to the east is up, and to the west.
    pub east_up: bool,
    /// See above.
    pub west_up: bool,
    /// What the way out to the east carries, in Mbit/s, and to the west.
    pub east_mbit: f64,
    /// See above.
    pub west_mbit: f64,
    /// Its weight.
    pub weight: f64,
    /// Whether anything from here gets there.
    pub reachable: bool,
    /// What lies behind it.
    pub networks: Vec<RingNetworkStatus>,
}

/// A network behind a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingNetworkStatus {
    /// The prefix.
    pub network: String,
    /// The node told of it; else it is configured here.
    pub learnt: bool,
}

/// A ringlet as seen from the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingletStatus {
    /// 0 or 1.
    pub ringlet: u8,
    /// The fair rates of the nodes' outgoing links, where the algorithm has them.
    pub fair: Vec<RingFairStatus>,
    /// To which nodes packets go by this ringlet, and how fast.
    pub limits: Vec<RingLimitStatus>,
}

/// A node's fair rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingFairStatus {
    /// The node.
    pub node: u8,
    /// As a share of the ring's rate.
    pub share: f64,
    /// The share as a control byte: of 255.
    pub byte: u8,
    /// In Mbit/s.
    pub rate_mbit: f64,
}

/// A limiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingLimitStatus {
    /// For packets to this node.
    pub to: u8,
    /// In Mbit/s; null where there is no limit.
    pub rate_mbit: Option<f64>,
    /// What waits for the limiter.
    pub backlog_bytes: u64,
}

/// A bond of Ethernet links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondStatus {
    /// The policy, with what is not the default.
    pub policy: String,
    /// The bond's address.
    pub mac: String,
    /// LACP's aggregators, and both ends of each port, for people; null where the policy is not 802.3ad.
    pub lacp: Option<String>,
    /// True while at least one link is usable.
    pub up: bool,
    /// The bond's counters, drops by reason among them.
    pub counters: Counters,
    /// The links, by number.
    pub links: Vec<LinkStatus>,
}

/// One link of a bond of Ethernet links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Its number in the bond.
    pub number: u8,
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// `up`, `down`, or `absent` while there is no such device.
    pub state: String,
    /// What it carries, in Mbit/s, as configured or as the device says; null where neither does.
    pub rate_mbit: Option<f64>,
    /// Whether both ends may send at once.
    pub full_duplex: bool,
    /// It is the one link that carries what is not balanced.
    pub current: bool,
    /// Clients that `balance-alb` told this link's address.
    pub clients: u64,
    /// The link's counters: frames and bytes each way, drops by reason.
    pub counters: Counters,
}

/// One peer: one bond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// `ordered`, `stripe`, `duplicate`, `backup`, `plain` or `flow`.
    pub mode: String,
    /// Mode `flow`: how channels are chosen, with what is not the default; else null.
    pub policy: Option<String>,
    /// `srr`, `rr`, `grr` or `rfq`.
    pub scheduler: String,
    /// The peer's mode, where it told us that its mode or scheduler is not ours; else null.
    pub peer_mode: Option<String>,
    /// The peer's scheduler, in the same case.
    pub peer_scheduler: Option<String>,
    /// True while at least one channel is up.
    pub up: bool,
    /// Largest packet that fits every active channel, in bytes.
    pub mtu: usize,
    /// The bond's counters, drops by reason among them.
    pub counters: Counters,
    /// The channels, by number.
    pub channels: Vec<ChannelStatus>,
}

/// One channel of a bond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its number in the bond.
    pub number: u8,
    /// Its name.
    pub name: String,
    /// `udp` or `ethernet`.
    pub kind: String,
    /// `up`, `down` or `connecting`.
    pub state: String,
    /// The peer's address on this channel, if known.
    pub remote: Option<String>,
    /// What we may send, in Mbit/s at the link layer; null where unpaced.
    pub rate_mbit: Option<f64>,
    /// The smoothed round trip in ms, once measured.
    pub rtt_ms: Option<f64>,
    /// Mode `flow`: packets that wait for this channel, else null.
    pub queued_packets: Option<u64>,
    /// Mode `flow`: their bytes, else null.
    pub queued_bytes: Option<u64>,
    /// The channel's counters: packets and bytes each way, drops by reason.
    pub counters: Counters,
}
