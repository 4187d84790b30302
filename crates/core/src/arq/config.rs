//! Settings of both ends.

use crate::congestion::Algorithm;
use crate::options::{Kind, Table, Words, option, words};
use crate::units::{Bytes, Span};

/// Settings of both ends of a flow. The number of its paths is the driver's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// How packets are spread over the paths.
    pub striping: Striping,
    /// When the receiver asks for a retransmission.
    pub trigger: Trigger,
    /// What is sent again.
    pub repair: Repair,
    /// Which parity goes ahead of need.
    pub parity: Parity,
    /// Most packets in a block of it.
    pub parity_packets: u32,
    /// How long a block waits for its packets.
    pub parity_wait: Span,
    /// One block in so many may lose more than its parity mends.
    pub parity_residual: u32,
    /// Whether the last packet is sent again by all paths when nothing has been heard for two round trips.
    pub probes: bool,
    /// Whether a path that does not answer while others do is left out, and what it had goes by the others.
    pub failover: bool,
    /// The law of congestion control.
    pub congestion: Algorithm,
    /// The longest packet.
    pub segment: Bytes,
    /// Packets that each path's reorder buffer holds; none: what is not next is dropped.
    pub reorder_packets: usize,
    /// Packets that the sender keeps until they are acknowledged.
    pub retransmission_packets: usize,
    /// A delayed acknowledgment waits for this many packets at most.
    pub ack_packets: u32,
    /// And for this long.
    pub ack_delay: Span,
    /// Retransmission timeout before a round trip was measured.
    pub timeout_initial: Span,
    /// Least retransmission timeout.
    pub timeout_min: Span,
    /// Most.
    pub timeout_max: Span,
    /// So many timeouts in a row mean that nobody is there.
    pub give_up: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            striping: Striping::RoundRobin,
            trigger: Trigger::Published,
            repair: Repair::GoBackN,
            parity: Parity::None,
            parity_packets: 32,
            parity_wait: Span::from_millis(2),
            parity_residual: 1024,
            probes: false,
            failover: false,
            congestion: Algorithm::Delay,
            segment: Bytes::new(1500),
            reorder_packets: 40,
            retransmission_packets: 8192,
            ack_packets: 2,
            ack_delay: Span::from_micros(50),
            timeout_initial: Span::from_millis(10),
            timeout_min: Span::from_millis(1),
            timeout_max: Span::from_secs(1),
            give_up: 12,
        }
    }
}

/// How packets are spread over the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Striping {
    /// In turns, at one rate for the flow: each path carries as much as the narrowest can (efl-mp 3.4, 4.1).
    #[default]
    RoundRobin,
    /// By surplus round robin, each path at the rate that its own law of congestion control gives.
    Srr,
}

words!(Striping { RoundRobin = "round-robin", Srr = "srr" });

/// When the receiver asks for a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// When every reorder buffer holds something, or one is full (efl-mp 3.5).
    #[default]
    Published,
    /// Then, and when what is missing should have come by whichever path, by the packets' timestamps.
    Time,
    /// Never: the sender's timer finds losses ("conventional").
    Timer,
}

words!(Trigger { Published = "published", Time = "time", Timer = "timer" });

/// What is sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// Everything from what is missing on (efl-mp 3.2).
    #[default]
    GoBackN,
    /// What is missing alone, on the path that arrives first.
    Selective,
}

words!(Repair { GoBackN = "go-back-n", Selective = "selective" });

/// Parity ahead of need, over blocks of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parity {
    /// None.
    #[default]
    None,
    /// At most one row a block.
    Xor,
    /// At most [`MOST_ROWS`](crate::parity::MOST_ROWS).
    ReedSolomon,
}

words!(Parity { None = "none", Xor = "xor", ReedSolomon = "reed-solomon" });

/// The options of both ends.
#[rustfmt::skip]
pub const OPTIONS: Table<Config> = Table(&[
    option!(striping: Kind::Choice(Striping::WORDS), "how packets are spread over the paths: in turns at one rate for the flow, or by surplus round robin at a rate for each path"),
    option!(trigger: Kind::Choice(Trigger::WORDS), "when the receiver asks for a retransmission: when every reorder buffer holds something or one is full; also when what is missing should have come, by timestamps; or never (the sender's timer alone)"),
    option!(repair: Kind::Choice(Repair::WORDS), "what is sent again: everything from what is missing on, or what is missing alone"),
    option!(parity: Kind::Choice(Parity::WORDS), "parity ahead of need, on the emptiest path, from which the receiver rebuilds what is missing before it asks: none, at most one row for a block of packets, or at most 16; packets grow by 6 bytes in it"),
    option!(parity_packets: Kind::Count(1, 64, None), "most packets in a block of parity"),
    option!(parity_wait: Kind::Span(LEAST, SECOND, None), "how long a block of parity waits for its packets, and what is late for its parity"),
    option!(parity_residual: Kind::Count(1, MOST, None), "one block in so many may lose more than its parity mends: a row that was missed goes with this many blocks"),
    option!(probes: Kind::Flag, "whether the last packet is sent again by every path when nothing has been heard for two round trips, so that the receiver sees what is missing at the end"),
    option!(failover: Kind::Flag, "whether a path that does not answer while others do is left out until it answers again, and what it had is sent by the others"),
    option!(congestion: Kind::Choice(&LAWS), "the law of congestion control"),
    option!(segment: Kind::Bytes(64, 65_536, None), "the longest packet, in bytes"),
    option!(reorder_packets: Kind::Count(0, MOST, None), "packets that each path's reorder buffer holds; 0: what does not come next is dropped"),
    option!(retransmission_packets: Kind::Count(1, MOST, None), "packets that the sender keeps until they are acknowledged"),
    option!(ack_packets: Kind::Count(1, 1024, None), "packets that a delayed acknowledgment waits for at most"),
    option!(ack_delay: Kind::Span(Span::from_nanos(100), SECOND, None), "how long a delayed acknowledgment waits at most"),
    option!(timeout_initial: Kind::Span(LEAST, LONGEST, None), "retransmission timeout before a round trip was measured"),
    option!(timeout_min: Kind::Span(LEAST, LONGEST, None), "least retransmission timeout"),
    option!(timeout_max: Kind::Span(LEAST, LONGEST, None), "longest retransmission timeout"),
    option!(give_up: Kind::Count(1, 100, None), "timeouts in a row after which the sender ends with an error"),
]);

/// The laws that need no samples of the delivery rate, which nobody takes here.
const LAWS: [&str; 3] = [Algorithm::WORDS[0], Algorithm::WORDS[1], Algorithm::WORDS[2]];
const MOST: u64 = super::MOST_PACKETS as u64;
const SECOND: Span = Span::from_secs(1);
const LEAST: Span = Span::from_micros(1);
const LONGEST: Span = Span::from_secs(60);
