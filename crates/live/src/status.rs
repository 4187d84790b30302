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
