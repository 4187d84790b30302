//! The scenario as the world takes it: names resolved to numbers, quantities as types, checked.

use crate::tcp;
use crate::traffic;
use fairspan_core::bond;
use fairspan_core::link::Profile;
use fairspan_core::queue;
use fairspan_core::select::Settings;
use fairspan_core::units::{Span, Time};

/// One run: everything that its outcome depends on.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For people.
    pub title: String,
    /// Simulated time.
    pub duration: Span,
    /// Metrics count from here on.
    pub warm_up: Span,
    /// Everything random comes from it.
    pub seed: u64,
    /// Each source's clock is off by a constant drawn uniformly from minus this to plus this, in parts per million.
    /// Default 1000; zero switches it off.
    pub drift_ppm: u32,
    /// Each packet that an end of a TCP flow (or of an exchange) sends leaves up to this much later, drawn uniformly, in
    /// order: what real hosts do, and what keeps equal connections from falling into step. Zero switches it off.
    pub processing: Span,
    /// Nodes, numbered in this order.
    pub nodes: Vec<Node>,
    /// Links, one direction each, numbered in this order.
    pub links: Vec<Link>,
    /// Bonds, numbered in this order.
    pub bonds: Vec<Bond>,
    /// Flows, numbered in this order.
    pub flows: Vec<Flow>,
    /// What is measured beyond the summary.
    pub metrics: Metrics,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// For people.
    pub name: String,
    /// What it costs to handle packets here. Routers and switches usually have none.
    pub cost: HostCost,
}

/// What a host's one processor spends on packets; it serves them one after the other. All zero: no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostCost {
    /// For each packet received.
    pub receive: Span,
    /// For each packet sent.
    pub send: Span,
    /// For each byte received or sent, in picoseconds.
    pub per_byte_ps: u64,
    /// For each interrupt: a packet that arrives on an interface while none of that interface is waiting or in service.
    pub interrupt: Span,
    /// For a packet that the host's transport finds out of order.
    pub out_of_order: Span,
    /// Each cost is drawn uniformly from itself times one minus to one plus this.
    pub jitter: f64,
    /// Packets that may wait for the processor for each interface; what comes then is dropped. Zero: no bound.
    pub queue: u32,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link {
    /// For people.
    pub name: String,
    /// Where it begins.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// Rate, delay, jitter, loss, outages, capacity over time: core's link, which the live emulator runs too.
    pub profile: Profile,
    /// Bytes that each packet has on this link beyond its IP length.
    pub framing: Framing,
    /// What its ends' processors spend on each of its packets beyond their own cost; nodes without one spend nothing.
    pub card: Card,
    /// What waits for the link. `None`: FIFO with the tail-drop limit of `profile`, the fast path.
    pub discipline: Option<queue::Config>,
}

/// What a network card asks of its host's processor beyond what every packet costs: one that the processor fills and
/// empties itself costs much for each byte, one with direct memory access nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Card {
    /// For each packet sent or received.
    pub packet: Span,
    /// For each byte of one, in picoseconds.
    pub per_byte_ps: u64,
}

/// What a link layer adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Nothing.
    #[default]
    None,
    /// This many bytes.
    Bytes(u32),
    /// Ethernet: 14 header, 4 check, padded to 64, 8 preamble, 12 gap.
    Ethernet,
    /// ATM: LLC/SNAP 8 and AAL5 trailer 8, padded to cells of 48, each 53 bytes.
    AtmAal5,
}

/// A bond between two nodes: core's own, at both ends.
#[derive(Clone, Debug)]
pub struct Bond {
    /// For people.
    pub name: String,
    /// Its two ends.
    pub ends: [u32; 2],
    /// For each channel the path from end 0 to end 1 and back: links in order.
    pub channels: Vec<[Vec<u32>; 2]>,
    /// Settings of both ends, one channel entry for each of `channels`.
    pub config: bond::Config,
    /// Mode `flow`: the policy of end 1, where it is another one.
    pub policy_back: Option<Settings>,
}

impl Bond {
    /// The settings of its end 0 or 1.
    pub fn config_of(&self, end: usize) -> bond::Config {
        let mut config = self.config.clone();
        if let Some(policy) = self.policy_back.as_ref().filter(|_| end == 1) {
            config.policy = policy.clone();
        }
        config
    }
}

/// One hop of a flow's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Over a link.
    Link(u32),
    /// Through a bond, from its end 0 or 1.
    Bond(u32, u8),
}

/// Traffic from one node to another.
#[derive(Clone, Debug)]
pub struct Flow {
    /// For people.
    pub name: String,
    /// Sender's node.
    pub from: u32,
    /// Receiver's node.
    pub to: u32,
    /// From sender to receiver.
    pub path: Vec<Hop>,
    /// And back; may be empty where nothing flows back.
    pub back: Vec<Hop>,
    /// First packet not before.
    pub start: Time,
    /// Last packet not after.
    pub stop: Time,
    /// What is sent.
    pub traffic: traffic::Config,
    /// How.
    pub transport: Transport,
    /// Drift of this source's clock in parts per million; `None` draws it (see [`Scenario::drift_ppm`]).
    pub drift_ppm: Option<f64>,
}

/// How a flow's data is carried.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Datagrams with this many bytes of headers (28: IPv4 and UDP), which count in the size on the link.
    Datagram {
        /// Header bytes.
        header: u32,
    },
    /// A TCP connection (several in turn or in parallel where the traffic wants them) from `from` to `to`.
    Tcp(Box<tcp::Config>),
}

/// What is measured beyond the summary (throughput, goodput, drops, Jain's index, delay's mean and extremes).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Distributions of one-way delay and jitter.
    pub delay: bool,
    /// RFC 4737, RFC 5236 and the burst round robin paper's count.
    pub reordering: bool,
    /// Throughput, windows, queues and buffers over time, a point every so often. Zero: none.
    pub series: Span,
    /// Links whose packets are recorded.
    pub capture: Vec<u32>,
}
