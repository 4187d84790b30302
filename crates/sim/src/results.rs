//! What a run gives.

use crate::steps::Steps;
use fairspan_core::units::Span;

/// How a world was divided.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Partitions {
    /// How many parts the scenario asks for.
    pub asked: u32,
    /// How many there were.
    pub parts: u32,
    /// The least time from one part to another in seconds; that of the run, where no link joins them.
    pub lookahead_s: f64,
}

/// The outcome of one run of one scenario with one seed.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Results {
    /// The seed that replays it.
    pub seed: u64,
    /// Simulated time that metrics cover, in seconds: duration less warm-up.
    pub measured_s: f64,
    /// Events handled.
    pub events: u64,
    /// Hash of the event log: every packet that entered, left or was dropped anywhere, with its time.
    pub log_hash: u64,
    /// How its world was divided, where the scenario asks for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Partitions>,
    /// Packet conservation over the whole run.
    pub conservation: Conservation,
    /// One for each flow, in the scenario's order.
    pub flows: Vec<FlowResult>,
    /// Jain's index over the goodput of the flows that had any traffic; `None` where none of them got anything.
    pub jain: Option<f64>,
    /// Sum of the flows' goodput in bit/s.
    pub goodput: f64,
    /// One for each link.
    pub links: Vec<LinkResult>,
    /// One for each medium that links share.
    pub media: Vec<MediumResult>,
    /// One for each bond and end: core's own counters by name.
    pub bonds: Vec<BondResult>,
    /// One for each ring.
    pub rings: Vec<RingResult>,
    /// One for each gateway that splits connections.
    pub splits: Vec<SplitResult>,
    /// Values over time, by name; all share `series_interval`.
    pub series: Vec<Series>,
    /// Distance of the points of `series`, in seconds; zero without series.
    pub series_interval_s: f64,
}

/// sent = delivered + dropped + in flight, in packets.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Conservation {
    /// Packets that sources and bonds made.
    pub sent: u64,
    /// Packets that reached who they were for.
    pub delivered: u64,
    /// Packets dropped, by place and reason.
    pub dropped: Vec<Dropped>,
    /// Packets somewhere on the way at the end.
    pub in_flight: u64,
}

/// Packets dropped in one place for one reason.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Dropped {
    /// Name of the link, node or bond.
    pub place: String,
    /// `queue full`, `loss`, `outage`, `processor`, …
    pub reason: String,
    /// How many.
    pub packets: u64,
}

/// One flow's metrics; times in seconds, rates in bit/s. Throughput counts IP bytes that arrive, goodput payload bytes
/// that the receiving application gets, in order where the transport orders.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct FlowResult {
    /// The flow's name.
    pub name: String,
    /// Packets sent by the sender.
    pub sent: u64,
    /// Packets that arrived at the receiver.
    pub received: u64,
    /// Packets of it dropped anywhere.
    pub dropped: u64,
    /// IP bit/s that arrived.
    pub throughput: f64,
    /// Payload bit/s delivered to the application.
    pub goodput: f64,
    /// Longest time between two deliveries to the application.
    pub gap: f64,
    /// One-way delay of packets.
    pub delay: Distribution,
    /// Jitter, where asked for: the distribution of |D|, the difference of transit between packets that arrived one after
    /// the other (RFC 3550, section 6.4.1).
    pub jitter: Distribution,
    /// RFC 3550's J at the end, in seconds: the moving average over the last of these differences.
    pub jitter_estimate: Option<f64>,
    /// Where asked for.
    pub reordering: Option<Box<Reordering>>,
    /// Of a TCP flow.
    pub tcp: Option<TcpResult>,
    /// Completed transfers or requests, and their durations, where the traffic has any.
    pub transfers: Option<Box<Transfers>>,
    /// Of a video.
    pub video: Option<Box<VideoResult>>,
    /// Of a call.
    pub call: Option<Box<CallResult>>,
    /// Of a game.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub game: Option<Box<GameResult>>,
    /// Longest time without a delivery to the application after the first outage of the scenario began; `None`: there was no outage in the
    /// measured time, or nothing was delivered before it.
    pub failover: Option<f64>,
}

/// Summary of a distribution. Percentiles are there where they were asked for.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Distribution {
    /// Samples.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Least.
    pub min: f64,
    /// Most.
    pub max: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Where they were asked for.
    pub percentiles: Option<Percentiles>,
    /// With percentiles: how many samples there are of which value, within 1 %, values ascending.
    #[serde(skip)]
    pub samples: Vec<(f64, u64)>,
}

/// Percentiles, each within 1 % of the true one.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Percentiles {
    /// The median: half of the samples are not above it.
    pub p50: f64,
    /// 90 % of the samples are not above it.
    pub p90: f64,
    /// 99 % of the samples are not above it.
    pub p99: f64,
    /// 99.9 % of the samples are not above it.
    #[serde(rename = "p99.9")]
    pub p999: f64,
}

/// How far out of order packets came.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Reordering {
    /// RFC 4737 type-P-reordered ratio.
    pub ratio: f64,
    /// RFC 4737 reordering extent: distribution over reordered packets, in packets.
    pub extent: Distribution,
    /// RFC 4737 late-time offset: distribution over reordered packets, in seconds.
    pub late_time: Distribution,
    /// RFC 4737 byte offset: distribution over reordered packets, in IP bytes.
    pub byte_offset: Distribution,
    /// RFC 4737 n-reordering: share of packets that are n-reordered, for n = 1, 2, …; n = 3 would set off fast retransmit.
    pub n_reordering: Vec<f64>,
    /// RFC 5236 reorder density: (displacement, share).
    pub density: Vec<(i32, f64)>,
    /// RFC 5236 reorder buffer-occupancy density: (packets that wait, share).
    pub occupancy: Vec<(i32, f64)>,
    /// Packets that came more than once: no part of the above.
    pub duplicates: u64,
    /// Share of packets with data not above their flow's highest number so far, as burst round robin's section 6.3.1
    /// counts it: TCP sequence numbers (so that segments sent again count), numbers of datagrams.
    pub below_highest: f64,
}

/// What a TCP flow did.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct TcpResult {
    /// Segments sent again.
    pub retransmitted: u64,
    /// Of these, after a timeout.
    pub timeouts: u64,
    /// Fast retransmits, times that recovery was entered.
    pub recoveries: u64,
    /// Congestion window at the end, in bytes.
    pub window: u64,
    /// Smoothed round trip at the end, in seconds.
    pub smoothed_rtt: f64,
}

impl TcpResult {
    /// With what the receiver's end counted elsewhere; window and round trip are the sender's.
    pub(crate) fn with(mut self, far: &TcpResult) -> TcpResult {
        self.retransmitted += far.retransmitted;
        self.timeouts += far.timeouts;
        self.recoveries += far.recoveries;
        self
    }
}

/// Transfers of a flow that has several.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Transfers {
    /// How many began in the measured time. Those that were under way when it began are not among them, but may be among the others.
    pub started: u64,
    /// How many were completed.
    pub completed: u64,
    /// How many came to nothing: their connection failed, or no answer came in time.
    pub failed: u64,
    /// How many were under way at the end.
    pub unfinished: u64,
    /// The whole sizes of these, in payload bytes, where sizes are known before the end: not of web pages and exchanges of datagrams.
    pub unfinished_bytes: u64,
    /// Payload bytes of the completed ones.
    pub bytes: u64,
    /// Seconds from the first of them that was begun to the end of the last.
    pub elapsed_s: f64,
    /// Their durations.
    pub duration: Distribution,
    /// Their durations over what they would be on an empty path, where that can be said.
    pub slowdown: Option<Distribution>,
    /// The same by classes of sizes, ascending, where the traffic has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<SizeClass>,
    /// Each of them, in the order of completion, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<Record>,
}

/// Completed transfers of a class of sizes.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct SizeClass {
    /// Its largest size in bytes; `None`: it has no bound.
    pub up_to: Option<u64>,
    /// Their durations.
    pub duration: Distribution,
    /// Their slowdowns; without samples where these cannot be said.
    pub slowdown: Distribution,
}

/// One completed transfer.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Record {
    /// When it began, in seconds since the run did.
    pub start_s: f64,
    /// Its payload.
    pub bytes: u64,
    /// How long it took, in seconds.
    pub duration_s: f64,
    /// That over what it would be on an empty path, where that can be said.
    pub slowdown: Option<f64>,
}

/// What the viewer of a video saw.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct VideoResult {
    /// Chunks that came.
    pub chunks: u64,
    /// Mean rate of these in bit/s.
    pub bitrate: f64,
    /// Their mean quality; the least one is 0.
    pub level: f64,
    /// How often the quality changed from one chunk to the next.
    pub switches: u64,
    /// Seconds from asking for the first chunk until it played, or until the end where it never did; `None`: it was never asked for.
    pub start_s: Option<f64>,
    /// How often it stood still after that, and for how long in all.
    pub stalls: u64,
    /// See `stalls`.
    pub stalled_s: f64,
    /// Seconds that it played.
    pub played_s: f64,
}

/// What a listener heard of one direction of a call.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct CallResult {
    /// Frames that were to be played.
    pub frames: u64,
    /// Of these, never there.
    pub lost: u64,
    /// Of these, there when their time was over.
    pub late: u64,
    /// From mouth to ear, in seconds; `None`: nothing came, and R is 0.
    pub delay_s: Option<f64>,
    /// Mean length of bursts of missing frames over what it would be if each were missing by chance.
    pub burst_ratio: f64,
    /// R of the E-model, and the mean opinion score that follows from it; `None`: nothing was to be played.
    pub rating: Option<f64>,
    /// See `rating`.
    pub mos: Option<f64>,
}

/// What the player of a game saw, over the measured time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct GameResult {
    /// Inputs that left.
    pub inputs: u64,
    /// States that came.
    pub states: u64,
    /// From an input's leaving until a state came that tells of it, in seconds.
    pub lag: Distribution,
    /// How often the picture stood still, because no newer state was there, and for how long in all.
    pub freezes: u64,
    /// See `freezes`.
    pub frozen_s: f64,
}

/// One link's metrics.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct LinkResult {
    /// The link's name.
    pub name: String,
    /// Packets that left its far end.
    pub packets: u64,
    /// Their bytes, framing included.
    pub bytes: u64,
    /// Share of the measured time that it transmitted.
    pub load: f64,
    /// Packets dropped at it.
    pub dropped: u64,
    /// Mean and largest occupancy of its queue in bytes, the packet in transmission not counted.
    pub queue_mean: f64,
    /// See `queue_mean`.
    pub queue_max: u64,
}

/// Counters of one end of a bond.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct BondResult {
    /// The bond's name and its end, `NAME/0` or `NAME/1`.
    pub name: String,
    /// Core's counters.
    pub counters: Vec<(String, u64)>,
    /// Most bytes held behind gaps at any time.
    pub held_max: u64,
}

/// What a ring did. Rates in bit/s, times in seconds since the run began; nodes and links are numbered from 1.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct RingResult {
    /// The ring's name.
    pub name: String,
    /// The fairness algorithm with its settings.
    pub algorithm: String,
    /// The rate of the ring's fastest link, which shares refer to.
    pub nominal: f64,
    /// Time between control messages.
    pub interval_s: f64,
    /// One for each limiter between nodes that a flow's path joins, on each ringlet on which it may send; none where the
    /// algorithm has none.
    pub limits: Vec<LimitResult>,
    /// One for each direction of each link that is there.
    pub links: Vec<RingLinkResult>,
    /// Control frames of the whole run.
    pub control: ControlResult,
    /// Packets dropped, by node or link and reason, in the whole run.
    pub dropped: Vec<Dropped>,
    /// Failures, and when nodes found them; at most the first thousand.
    pub events: Vec<RingEvent>,
    /// Of the failures of links and nodes that hit traffic, the longest time until packets between all nodes that the break
    /// leaves connected had a way again at every node. `None`: no failure, or one that was never overcome.
    pub restored_s: Option<f64>,
}

/// A limiter: how much a node may send to another on a ringlet. A limiter that limits nothing counts as `nominal`.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct LimitResult {
    /// `FROM-TO` where the ringlet is the usual one, else `FROM-TO/RINGLET`.
    pub name: String,
    /// The node where it is.
    pub from: u8,
    /// The node that it is for.
    pub to: u8,
    /// 0 or 1.
    pub ringlet: u8,
    /// Its value at the end.
    pub last: f64,
    /// Over the measured time, weighted with time.
    pub mean: f64,
    /// Over the measured time.
    pub min: f64,
    /// Over the measured time.
    pub max: f64,
    /// Its mean over the second half of the measured time: the final mean.
    pub settled: f64,
    /// Since the last start or stop of a flow, until it stays within 1 % of its final mean. `None`: it does not at the end.
    pub converged_s: Option<f64>,
    /// Peak to peak over the second half of the measured time, as a share of `nominal`.
    pub oscillation: f64,
    /// How often it changed in the whole run.
    pub changes: u64,
    /// Its value over the whole run, every change.
    #[serde(skip)]
    pub steps: Steps,
}

/// One direction of a link of a ring, over the measured time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct RingLinkResult {
    /// `LINK` for ringlet 0, `LINK/1` for ringlet 1.
    pub name: String,
    /// From 1; link n joins nodes n and n + 1.
    pub link: u8,
    /// 0 or 1.
    pub ringlet: u8,
    /// Packets that began their transmission.
    pub packets: u64,
    /// Their bytes, overhead included.
    pub bytes: u64,
    /// Share of the time that it transmitted packets.
    pub load: f64,
    /// Share of the time that it transmitted control frames.
    pub control_load: f64,
    /// Control frames sent.
    pub control: u64,
    /// Most bytes in the transit queues before it.
    pub transit_max: u64,
    /// Most bytes that the node before it had given it and that were not transmitted, beyond one frame: zero where the
    /// node keeps the link's rate.
    pub ahead_max: u64,
}

/// Control frames: sent + copies = taken + lost + unheard + in flight.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ControlResult {
    /// Frames that nodes sent.
    pub sent: u64,
    /// Second copies that links made.
    pub copies: u64,
    /// Frames that reached a node.
    pub taken: u64,
    /// Of these, with a wrong bit.
    pub corrupted: u64,
    /// Frames that links lost by chance.
    pub lost: u64,
    /// Frames that came to nothing in a link that was cut or at a node that was dead.
    pub unheard: u64,
    /// Frames under way at the end.
    pub in_flight: u64,
    /// Messages that nodes refused, by reason.
    pub refused: Vec<Refusals>,
}

/// Messages that nodes of a ring refused for one reason.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Refusals {
    /// Why.
    pub reason: String,
    /// How many.
    pub messages: u64,
}

/// Something that happened to a ring.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RingEvent {
    /// When.
    pub at_s: f64,
    /// The node that it happened to or that found it, or the link's number.
    pub at: String,
    /// `link cut`, `link mended`, `node failed`, `node back`: what happened; `link down`, `link up`, `topology`: what a node
    /// found; `whole`: every node knows the ring as it is.
    pub what: String,
}

/// A medium that links share, over the measured time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct MediumResult {
    /// Its name.
    pub name: String,
    /// Packets that crossed it.
    pub packets: u64,
    /// Their bytes, framing included.
    pub bytes: u64,
    /// Turns of senders that ended.
    pub turns: u64,
    /// Share of the time that somebody sent.
    pub load: f64,
    /// Share of the time that somebody had something to send and nobody sent: turn-arounds, gaps and questions.
    pub overhead: f64,
}

/// A gateway that splits TCP connections, over the measured time where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct SplitResult {
    /// Its name.
    pub name: String,
    /// Connections that it has split in the whole run.
    pub connections: u64,
    /// Those that it has at the end.
    pub open: u64,
    /// Packets that it passed without splitting.
    pub passed: u64,
    /// Packets that it dropped in the whole run.
    pub dropped: u64,
    /// Bytes in its fair-queueing subsystem, packets' headers included.
    pub queue: Waiting,
    /// Bytes of payload in its send buffers that were never sent.
    pub unsent: Waiting,
    /// Both together.
    pub total: Waiting,
}

/// How much waits over time, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Waiting {
    /// Mean over time.
    pub mean: f64,
    /// Most.
    pub max: u64,
    /// At the end.
    pub last: u64,
}

/// One quantity over time.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Series {
    /// `flow NAME throughput`, `flow NAME window`, `link NAME queue`, `split NAME unsent`, …
    pub name: String,
    /// bit/s, bytes, packets, seconds.
    pub unit: String,
    /// One value a point.
    pub values: Vec<f64>,
}

/// One packet that crossed a recorded link.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// Since the start.
    pub at: Span,
    /// The link.
    pub link: u32,
    /// IP packet as bytes: headers as on the wire, payload cut or zero.
    pub bytes: Vec<u8>,
    /// Its length on the link without cutting.
    pub length: u32,
}
