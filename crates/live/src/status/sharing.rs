//! How the flows share that pass a queue: a part of the status of shapers, peers and gateways.

use serde::{Deserialize, Serialize};

/// How the flows share that pass a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharingStatus {
    /// How long packets waited that left in the last 10 to 20 s.
    pub delay: WaitStatus,
    /// The same of packets that found none of their own flow waiting: calls, questions for names, first packets.
    pub sparse_delay: WaitStatus,
    /// Flows that sent in the last whole second.
    pub active_flows: usize,
    /// Jain's index over what these sent in it: 1 where all sent the same; null where there was none.
    pub jain: Option<f64>,
    /// Those of them whose packets waited for each other.
    pub backlogged_flows: usize,
    /// Jain's index over these; others took less than their share by themselves.
    pub backlogged_jain: Option<f64>,
    /// The flows that sent most in the last whole second, and then in all, heaviest first.
    pub flows: Vec<FlowStatus>,
}

/// What waits for the channels of a peer, or for a long link, and whose it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// The queue discipline, with its options.
    pub discipline: String,
    /// The buffer policy, with its options.
    pub buffer: String,
    /// Packets that wait.
    pub waiting_packets: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// How its flows share; nothing of it with the discipline `fifo`, which tells no flows apart.
    #[serde(flatten)]
    pub sharing: Option<SharingStatus>,
}

/// How long packets waited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitStatus {
    /// How many packets these are.
    pub packets: u64,
    /// What half of them did not exceed, in ms; null where there was none.
    pub median_ms: Option<f64>,
    /// What 99 % of them did not exceed.
    pub p99_ms: Option<f64>,
}

/// A flow that passes a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Its protocol and ends, such as `tcp 10.0.0.2:443 > 192.168.1.7:50123`; `others`: those without an account.
    pub flow: String,
    /// What it sent in the last whole second, in Mbit/s.
    pub mbit: f64,
    /// Packets that it sent.
    pub packets: u64,
    /// Their bytes, as the link counts them.
    pub bytes: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that were marked, "congestion experienced".
    pub marked: u64,
    /// Packets that wait.
    pub waiting: u32,
    /// What most of it is of, by the name that [`ExplainedStatus`](super::ExplainedStatus) has; only of flows of peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Why it is of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The channels by which it left; only of flows of peers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<WayStatus>,
}

/// What a flow sent by one channel, copies and repairs among it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WayStatus {
    /// The channel's name.
    pub channel: String,
    /// What went there in the last whole second, in Mbit/s.
    pub mbit: f64,
    /// Bytes that went there.
    pub bytes: u64,
    /// Which part of all that the flow sent this is: in the last whole second, or, where it sent nothing then, since it began.
    pub share: f64,
}
