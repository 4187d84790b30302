//! What a running daemon tells of itself: the document of `fairspan status --json`, and the source of the metrics.

mod gateway;
mod sharing;
mod state;

pub use gateway::{ConnectionSideStatus, ConnectionStatus, GatewayStatus, LimitedBy};
pub use sharing::{FlowStatus, QueueStatus, SharingStatus, WaitStatus, WayStatus};
pub use state::{Counters, State};

use crate::confinement::Confinement;
use crate::events::EventStatus;
use fairspan_core::bond::{ClassMode, Mode, Scheduler};
use fairspan_core::path;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings as the words that people write.
mod word {
    use fairspan_core::options::Words;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<T: Words, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value.word())
    }

    pub(super) fn deserialize<'de, T: Words, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let word = String::deserialize(deserializer)?;
        T::from_word(&word).ok_or_else(|| D::Error::custom(format!("`{word}` is none of {}", T::WORDS.join(", "))))
    }
}

/// The same of one that there may be.
mod optional_word {
    use fairspan_core::options::Words;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "serde asks for this signature")]
    pub(super) fn serialize<T: Words, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(Words::word).serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Words, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        let Some(word) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let value = T::from_word(&word).ok_or_else(|| D::Error::custom(format!("`{word}` is not known")))?;
        Ok(Some(value))
    }
}

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
    /// The TCP port on which peers may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen_tcp_port: Option<u16>,
    /// What the daemon gave up before it opened anything, and how far that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<Confinement>,
    /// Whether nothing leaves the host but through the interface, where that is wanted or so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockStatus>,
    /// The port whose frames the peer gets, where there is one instead of an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortStatus>,
    /// The page that the daemon serves, where it is to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<EndpointStatus>,
    /// The metrics that the daemon serves, where it is to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<EndpointStatus>,
    /// What became of alarms, where they go somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookStatus>,
    /// What the daemon counts outside any peer: TUN, sockets, handshakes, drops by reason.
    pub counters: Counters,
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// The names whose addresses are reached through the bond, or past it, where there are some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainStatus>,
    /// The bond of Ethernet links, where there is one instead of peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<BondStatus>,
    /// The node of a ring, where the daemon is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingStatus>,
    /// The shaper between two devices, where the daemon is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeStatus>,
    /// The gateway that splits TCP connections, where the daemon is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayStatus>,
    /// What happened lately, the oldest first: the newest lines of the log.
    #[serde(default)]
    pub events: Vec<EventStatus>,
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
            listen_tcp_port: None,
            confinement: None,
            lock: None,
            port: None,
            web: None,
            metrics: None,
            webhook: None,
            counters: Counters::new(),
            peers: Vec::new(),
            domains: Vec::new(),
            bond: None,
            ring: None,
            shape: None,
            gateway: None,
            events: Vec::new(),
        }
    }
}

/// Whether nothing leaves the host but through the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockStatus {
    /// The configuration says so.
    pub wanted: bool,
    /// The kernel has the rules.
    pub set: bool,
    /// Where packets may go, or what is wrong.
    pub detail: String,
}

/// A name whose addresses are reached through the bond, or past it, as the configuration has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainStatus {
    /// The name; those below it are meant too.
    pub name: String,
    /// `through` or `past`.
    pub way: String,
    /// The peer through which; null for `past`.
    pub peer: Option<String>,
    /// The addresses that are known now.
    pub addresses: Vec<DomainAddressStatus>,
}

/// An address of a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainAddressStatus {
    /// The address.
    pub address: String,
    /// The name that was asked for when it was given.
    pub asked: String,
    /// Seconds until it is forgotten, if no answer gives it again.
    pub expires_s: f64,
}

/// An address at which the daemon serves something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointStatus {
    /// Its address and port.
    pub address: String,
    /// Whether it is served.
    pub served: bool,
    /// Why it is not; it is tried again.
    pub problem: Option<String>,
}

/// Where the daemon brings alarms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookStatus {
    /// The address and port of the receiver, without what is asked for there, which may be a secret.
    pub address: String,
    /// Alarms that it took.
    pub delivered: u64,
    /// Alarms that it did not want; they are not brought again.
    pub refused: u64,
    /// Alarms for which there was no room.
    pub lost: u64,
    /// Alarms that wait.
    pub waiting: u64,
    /// Why the last one was not taken.
    pub problem: Option<String>,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatus {
    /// Its device.
    pub device: String,
    /// Up, down (it is switched off or has no carrier), or absent while there is no such device.
    pub state: State,
}

/// A shaper between two devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeStatus {
    /// True while both devices carry frames.
    pub up: bool,
    /// From `a` to `b`, then from `b` to `a`.
    pub directions: Vec<ShapeDirectionStatus>,
}

/// One direction of a shaper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeDirectionStatus {
    /// `forward` or `backward`.
    pub name: String,
    /// The device where frames come in.
    pub from: String,
    /// How that is: up, down, or absent while there is no such device.
    pub state: State,
    /// The device where they leave.
    pub to: String,
    /// What leaves at most, in Mbit/s, with what the link adds to a packet.
    pub rate_mbit: f64,
    /// The queue discipline, with its options.
    pub discipline: String,
    /// The buffer policy, with its options.
    pub buffer: String,
    /// Packets that wait.
    pub waiting_packets: u64,
    /// Their bytes, as the link counts them.
    pub waiting_bytes: u64,
    /// How its flows share.
    #[serde(flatten)]
    pub sharing: SharingStatus,
    /// The direction's counters, drops by reason among them.
    pub counters: Counters,
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
    /// Up, down (the neighbour is connected, and says nothing or has just come back), connecting or failed.
    pub state: State,
    /// Why it does not connect, as far as this end can know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
    /// What it announces and may not.
    pub refused: Vec<String>,
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
    /// Up, down, or absent while there is no such device.
    pub state: State,
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
    /// How its packets are kept in order, or not.
    #[serde(with = "word")]
    pub mode: Mode,
    /// Mode `flow`: how channels are chosen, with what is not the default; else null.
    pub policy: Option<String>,
    /// By which discipline they are spread.
    #[serde(with = "word")]
    pub scheduler: Scheduler,
    /// The peer's mode, where it told us that its mode or scheduler is not ours; else null.
    #[serde(with = "optional_word")]
    pub peer_mode: Option<Mode>,
    /// The peer's scheduler, in the same case.
    #[serde(with = "optional_word")]
    pub peer_scheduler: Option<Scheduler>,
    /// How the invitation stands, where the peer is a site that was invited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<InvitationStatus>,
    /// True while at least one channel is up.
    pub up: bool,
    /// Largest packet that fits every active channel, in bytes.
    pub mtu: usize,
    /// The bond's counters, drops by reason among them.
    pub counters: Counters,
    /// The channels, by number.
    pub channels: Vec<ChannelStatus>,
    /// What waits for a channel, and how its flows share; left out in mode `flow`, where each channel has a queue of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueStatus>,
    /// The traffic classes, in order, where there are some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassStatus>,
    /// The gateway that splits TCP connections with what lies behind the peer, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Box<GatewayStatus>>,
    /// Which channels carry which traffic, and why: what `fairspan explain` prints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<ExplainedStatus>,
}

/// How an invitation stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvitationStatus {
    /// `open`, `joined`, `expired`, or `unreadable` where what was kept of who has joined cannot be read.
    pub state: String,
    /// When it expires if nobody joins, in seconds since 1970.
    pub expires: u64,
}

/// What carries one class of traffic, why, and what would change that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedStatus {
    /// A configured class by its name; `urgent` and `all else` are what a bond of mode `reliable` does by itself, and `all` is all traffic of
    /// any other mode.
    pub name: String,
    /// The mode of the class, or of the bond.
    pub mode: String,
    /// The names of the channels that carry it now.
    pub channels: Vec<String>,
    /// Why, in sentences.
    pub because: Vec<String>,
    /// What would have to be otherwise for other channels to carry it, in sentences.
    pub would_change_if: Vec<String>,
}

/// A traffic class of a bond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// What its packets have: its options `dscp`, `protocol`, `port` and `address`, as far as they are set.
    pub matches: BTreeMap<String, String>,
    /// What is done with them.
    #[serde(with = "word")]
    pub mode: ClassMode,
    /// The channels that it names; none: all.
    pub channels: Vec<String>,
    /// Whether no others carry it.
    pub only: bool,
    /// By how much a channel may take longer than the fastest, in ms; null: by any.
    pub latency_ms: Option<f64>,
    /// The channels that carry it now.
    pub carried_by: Vec<String>,
    /// Frames sent by each channel, copies and repairs among them; those without any left out.
    pub frames: Counters,
    /// Its counters.
    pub counters: Counters,
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
    /// Up, down or connecting.
    pub state: State,
    /// Why it does not connect, as far as this end can know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The peer's address on this channel, if known.
    pub remote: Option<String>,
    /// What we may send, in Mbit/s at the link layer; null where unpaced.
    pub rate_mbit: Option<f64>,
    /// The smoothed round trip in ms, once measured.
    pub rtt_ms: Option<f64>,
    /// What it may carry in a month, and has carried, where a quota is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaStatus>,
    /// Whether somebody took it out of use; left out where that is not possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_out: Option<bool>,
    /// Mode `flow`: packets that wait for this channel, else null.
    pub queued_packets: Option<u64>,
    /// Mode `flow`: their bytes, else null.
    pub queued_bytes: Option<u64>,
    /// What the peer's feedback tells of its path, where frames are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathStatus>,
    /// The channel's counters: packets and bytes each way, drops by reason.
    pub counters: Counters,
}

/// What a channel may carry in a month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Bytes that it may carry, both directions together.
    pub quota_bytes: u64,
    /// Bytes that it has carried.
    pub used_bytes: u64,
    /// Since the beginning of this day, UTC: year, month, day.
    pub since: String,
}

/// What the peer's feedback tells of a channel's path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// Up, suspect, down or held.
    #[serde(with = "word")]
    pub state: path::State,
    /// The rate at which the peer got what we sent, in Mbit/s, once measured.
    pub delivery_mbit: Option<f64>,
    /// The rate that the path was found to carry, in Mbit/s, where no rate is configured and it limits.
    #[serde(default)]
    pub measured_mbit: Option<f64>,
    /// By how much its one-way delay, without queues, is longer than that of the peer's fastest channel, in ms.
    pub extra_delay_ms: Option<f64>,
    /// How long frames wait on the way beyond that, in ms.
    pub queue_ms: Option<f64>,
    /// Of a million frames, how many are lost; of the last few hundred.
    pub loss_ppm: u32,
    /// Frames that arrived.
    pub delivered: u64,
    /// Frames that did not.
    pub lost: u64,
    /// Bytes that the peer has not told of yet.
    pub in_flight_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_settings_are_the_words_that_people_write_and_nothing_else_is_read() {
        let text = r#"{"name":"hub","mode":"flow","policy":"brr:24ms","scheduler":"srr","peer_mode":"stripe","peer_scheduler":null,"up":true,"mtu":1400,"counters":{},"channels":[{"number":0,"name":"dsl","kind":"udp","state":"connecting","remote":null,"rate_mbit":30.0,"rtt_ms":null,"queued_packets":null,"queued_bytes":null,"counters":{"sent_packets":7}}]}"#;
        let peer: PeerStatus = serde_json::from_str(text).expect("a peer");
        assert_eq!((peer.mode, peer.scheduler), (Mode::Flow, Scheduler::Srr));
        assert_eq!((peer.peer_mode, peer.peer_scheduler), (Some(Mode::Stripe), None));
        assert_eq!(peer.channels[0].state, State::Connecting);
        assert_eq!(serde_json::to_string(&peer).expect("text"), text);
        let path = r#""path":{"state":"suspect","delivery_mbit":9.5,"measured_mbit":12.5,"extra_delay_ms":null,"queue_ms":0.5,"loss_ppm":100,"delivered":7,"lost":1,"in_flight_bytes":1400},"counters":{"sent"#;
        let counted = text.replace(r#""counters":{"sent"#, path);
        let peer: PeerStatus = serde_json::from_str(&counted).expect("a peer whose frames are counted");
        assert_eq!(peer.channels[0].path.as_ref().map(|path| path.state), Some(path::State::Suspect));
        assert_eq!(serde_json::to_string(&peer).expect("text"), counted);
        let class = r#""classes":[{"name":"calls","matches":{"dscp":"EF,CS5","port":"5060-5080"},"mode":"prompt","channels":["dsl"],"only":false,"latency_ms":20.0,"carried_by":["dsl"],"frames":{"dsl":7},"counters":{"packets":7}}]}"#;
        let classed = format!("{},{class}", text.strip_suffix('}').expect("a brace"));
        let peer: PeerStatus = serde_json::from_str(&classed).expect("a peer with a class");
        assert_eq!(peer.classes[0].mode, ClassMode::Prompt);
        assert_eq!(serde_json::to_string(&peer).expect("text"), classed);
        for (word, other) in [("flow", "flows"), ("stripe", "strip"), ("connecting", "connected")] {
            assert!(serde_json::from_str::<PeerStatus>(&text.replace(word, other)).is_err(), "{other}");
        }
        for state in [State::Up, State::Down, State::Held, State::Connecting, State::Absent, State::Failed] {
            assert_eq!(serde_json::to_string(&state).expect("text"), format!("\"{state}\""));
        }
    }
}
