//! The settings of a bond and of its channels, checked once.

use super::class::{Classes, SPREAD};
use crate::buffer::{ConfigError as QueueError, PolicyConfig};
use crate::congestion::Algorithm;
use crate::flow::matching::{List, Name};
use crate::options::{Field, Kind, OptionError, OutOfRange, Table, Value, Words, option, words};
use crate::queue::{DisciplineConfig, End};
use crate::select::{Policy, Settings, brr};
use crate::stripe::MarkerPlace;
use crate::units::{Bytes, ChannelId, Rate, Span};
use crate::wire::envelope::{COUNTED_LEN, FRAGMENT_LEN};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What a host and a flow may send in their turns where nothing else is asked for.
const QUANTUM: Bytes = Bytes::new(1500);
/// The least that a fragment has of its packet, if the packet has as much.
pub(super) const LEAST_FRAGMENT: usize = 64;

/// How packets are kept in order, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Order within each flow by sequence numbers per flow bucket; a loss in one flow never delays another.
    #[default]
    Ordered,
    /// Quasi-FIFO by logical reception, nothing added to the packets.
    Stripe,
    /// Every packet on every usable channel (or the best [`Config::copies`]); the first copy is delivered, once.
    Duplicate,
    /// The usable channel of the best priority, in order across a switch.
    Backup,
    /// Delivered as they come: what a bond without resequencing does.
    Plain,
    /// A link for each packet, burst or flow, as [`Config::policy`] says; nothing at the receiver.
    Flow,
    /// As `Ordered`, and what a channel loses is sent again, on the channel that brings it first.
    Reliable,
}

impl Mode {
    /// The mode of a daemon's bond over channels that may lose packets, and of a simulated bond, where none is said. It costs less
    /// than one percent of the rate more than [`Mode::Ordered`], in which a few losses leave TCP a tenth of the rate.
    pub const USUAL: Mode = Mode::Reliable;
}

words!(Mode {
    Ordered = "ordered",
    Stripe = "stripe",
    Duplicate = "duplicate",
    Backup = "backup",
    Plain = "plain",
    Flow = "flow",
    Reliable = "reliable",
});

/// Whether headers of the host's packets are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// They are not, and the peer is not told that it may.
    #[default]
    Off,
    /// They are, if the peer understands it.
    On,
    /// The same, on channels that are known to carry no more than 1 Gbit/s: beyond, processors limit.
    Auto,
}

words!(Compression { Off = "false", On = "true", Auto = "auto" });

/// Which causal discipline shares the packets among the channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Surplus round robin: byte-exact shares.
    #[default]
    Srr,
    /// One packet each in turn.
    Rr,
    /// Packets in the closest small integer ratio of the rates.
    Grr,
    /// Weighted random, seeded.
    Rfq,
}

words!(Scheduler { Srr = "srr", Rr = "rr", Grr = "grr", Rfq = "rfq" });

/// The settings of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelConfig {
    /// For people. Default: empty.
    pub name: String,
    /// What may be sent, in bits per second of wire bytes: packet, envelope, `overhead` and `framing`. `None` (the
    /// default): as fast as the socket takes it.
    pub rate: Option<Rate>,
    /// Share of the traffic where not all channels have a rate; from 1 to 1000. Default 1.
    pub weight: u32,
    /// Lower is better, in modes `backup` and `duplicate`. Default 0; equal ones go by channel number.
    pub priority: u32,
    /// The link's MTU: the largest IP packet it takes. Default 1500.
    pub mtu: usize,
    /// Bytes that everything below the envelope adds within `mtu`: outer IP and UDP header, encryption. Default 0.
    pub overhead: usize,
    /// Bytes that the link adds beyond `mtu` and that `rate` counts, as an Ethernet header does. Default 14.
    pub framing: usize,
    /// Bytes that may go out at once at the start of a busy period. Default: two quanta, or 1 ms at `rate` if more.
    pub burst: Option<Bytes>,
    /// Whether data frames of modes `stripe` and `flow` have a code point of their own here ([`super::Codepoint::Raw`]), so that
    /// they are the original packets, not one byte added. Default false.
    pub raw: bool,
}

impl Default for ChannelConfig {
    fn default() -> ChannelConfig {
        ChannelConfig {
            name: String::new(),
            rate: None,
            weight: 1,
            priority: 0,
            mtu: 1500,
            overhead: 0,
            framing: 14,
            burst: None,
            raw: false,
        }
    }
}

/// Any text.
const TEXT: Kind = Kind::Text(|_| Ok(()));

/// The options of a channel.
#[rustfmt::skip]
pub const CHANNEL_OPTIONS: Table<ChannelConfig> = Table(&[
    option!(name: TEXT, "for people"),
    option!(rate: Kind::Rate(Rate::from_bits_per_sec(1_000), Rate::from_bits_per_sec(1_000_000_000_000), Some("unlimited")),
        "what may be sent, in bits per second of wire bytes"),
    option!(weight: Kind::Count(1, 1_000, None), "share of the traffic where not all channels have a rate"),
    option!(priority: Kind::Count(0, u32::MAX as u64, None), "lower is better, in modes backup and duplicate"),
    option!(mtu: Kind::Bytes(128, 65_535, None), "the largest IP packet that the link takes"),
    option!(overhead: Kind::Bytes(0, 65_535, None), "bytes that everything below the envelope adds within mtu"),
    option!(framing: Kind::Bytes(0, 256, None), "bytes that the link adds beyond mtu and that rate counts"),
    option!(burst: Kind::Bytes(1, 1 << 30, Some("auto")), "bytes that may go out at once at the start of a busy period"),
    option!(raw: Kind::Flag, "whether data frames of modes stripe and flow are the original packets here"),
]);

/// The settings of a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// How packets are kept in order. Default [`Mode::Ordered`]. Each direction's sender decides for its direction,
    /// except that both ends must say `Stripe` for that mode.
    pub mode: Mode,
    /// Which discipline shares them. Default [`Scheduler::Srr`].
    pub scheduler: Scheduler,
    /// Mode `flow`: how the channel of each packet is chosen. Default [`Policy::Brr`] with its defaults.
    pub policy: Settings,
    /// Mode `reliable`: packets that are treated in their own way, and how. Default none.
    pub classes: Classes,
    /// The channels that exist from the start, numbered in this order; more may join. Default none.
    pub channels: Vec<ChannelConfig>,

    /// Flow buckets of modes `ordered` and `reliable`, 1 to 65536; flows that share one can delay one another. Default 1024.
    pub buckets: usize,
    /// Longest time a packet waits behind a gap. Default 500 ms, and in mode `reliable` until what is lost has come
    /// again, where that takes longer: five quarters of the fastest round trip and half of the slowest that the peer uses.
    pub deadline: Option<Span>,
    /// Most memory, in bytes, that packets waiting behind gaps may take, book-keeping included; at the bound the
    /// oldest gap is given up. Default 56 MB: 1 Gbit/s for 300 ms in slots of 2 KiB.
    pub hold_bytes: usize,

    /// Differences of the channels' one-way delays up to this are compensated in mode `ordered`: what arrives sooner
    /// waits until the slowest such channel would have brought it, so that the bond has one delay. A channel that is
    /// slower than the fastest by more is not waited for. Zero switches it off. Default 350 ms.
    pub equalize: Span,

    /// Longest time a packet waits for its channel, at the sum of the usable channels' rates, where all have one and
    /// they stay; for 5 to 10 s after one fell, up to three times as long. What finds no room is dropped. In mode `flow`
    /// each channel has a queue of its own, at its own rate. Default 100 ms.
    pub queue_time: Span,
    /// Most memory, in bytes, that packets waiting for a channel may take. Default 20 MB: 150 ms of 1 Gbit/s.
    pub queue_bytes: usize,
    /// Which of the packets that wait goes next; in mode `flow` first in, first out. Default first in, first out.
    pub discipline: DisciplineConfig,
    /// Which packets are let in, marked, dropped; in mode `flow` a policy that evicts none. Default drop-tail.
    pub buffer: PolicyConfig,

    /// Mode `reliable`: how long a packet is sent again when it is lost, from when it first went; after that it is given up. Default
    /// `None`: twice the round trip of the slowest channel in use and [`silent_after`](Config::silent_after), and at least 500 ms.
    pub resend_within: Option<Span>,
    /// The same of packets with DSCP EF (expedited forwarding, as calls have). Default `None`: the same.
    pub resend_within_ef: Option<Span>,
    /// Mode `reliable`: whether a packet of a channel that may lose it goes once more, by a channel that has nothing to send.
    pub spare_copies: bool,
    /// Mode `reliable`: whether urgent packets of dense streams go in blocks with rows of parity, where the peer takes them, and whether rows of the peer are
    /// taken. Default false; what is not in a block goes twice as [`spare_copies`](Config::spare_copies) says.
    pub parity: bool,
    /// Mode `reliable`: most memory, in bytes, that packets may take which were sent and of which the peer has not told yet,
    /// book-keeping included; at the bound the oldest is kept no longer. Default 56 MB.
    pub resend_bytes: usize,

    /// How many channels carry each packet in mode `duplicate`; 0 (the default) means all.
    pub copies: usize,

    /// Mode `stripe`: markers on every channel after this many rounds, 1 to 2^20. Default 8.
    pub marker_rounds: u32,
    /// Mode `stripe`: where in such a round. Default its end.
    pub marker_place: MarkerPlace,
    /// Mode `stripe`: whether to send only what the peer has granted buffer space for, and to grant it likewise; both
    /// ends alike. Default false.
    pub credits: bool,
    /// Mode `stripe`: whether data frames have a number, by which the order that logical reception gives is confirmed, and kept
    /// where both ends fell out of step; both ends alike. Default false.
    pub confirm_order: bool,
    /// Mode `stripe`: bytes that may wait for their turn on one channel, from 1500. Default: an even share of
    /// `hold_bytes`, which bounds it in any case.
    pub stripe_buffer: Option<Bytes>,

    /// Mode `stripe`: what an urgent packet waits at most behind others on a channel, because they go in fragments that it does not wait for the end
    /// of; both ends alike. Each channel needs a rate. There is no logical reception then: fragments are numbered. Default `None`: packets go whole.
    pub fragment_delay: Option<Span>,

    /// A marker follows the last packet this long after the sender fell idle. Default 2 ms.
    pub idle_marker: Span,
    /// Traffic counts as flowing this long after a packet. Default 2 s.
    pub active_for: Span,
    /// Heartbeats on each channel while traffic flows. Default 100 ms.
    pub heartbeat: Span,
    /// Heartbeats on each channel otherwise. Default 5 s; with the 74 bytes that UDP over IPv4 and encryption make
    /// of one, 1.3 MB a day and direction.
    pub heartbeat_idle: Span,
    /// Silence after which a channel counts as down while traffic flows. Default 1 s.
    pub dead_after: Span,
    /// Silence after which a channel counts as down otherwise. Default 16 s.
    pub dead_after_idle: Span,
    /// Mode `reliable`: a channel on which nothing arrives for this long, while another one brings something all the time, counts as down; three fifths of it where
    /// both were busy. Three heartbeats at least. Zero: silence alone tells. Default zero; in [`Config::usual`] 300 ms.
    pub silent_after: Span,
    /// Whether the peer's word that it does not hear a channel counts only once it said that it does, or the channel was up for [`dead_after`](Config::dead_after): its first
    /// heartbeats, by faster channels, were sent before it could hear anything there. With [`silent_after`](Config::silent_after) that time is waited for in any case. Default false; in [`Config::usual`] true.
    pub await_hearing: bool,
    /// Longest time for which a channel that failed again and again is held back when it returns, while there are others
    /// ([`crate::path`]). Zero: never. Default zero; in [`Config::usual`] 60 s. A policy of mode `flow` has `updelay` instead.
    pub hold_down: Span,
    /// A channel whose socket takes nothing for this long is left out until it does. Default 100 ms.
    pub stall_after: Span,
    /// How often the round trip is measured on each channel while traffic flows. Default 1 s.
    pub echo_interval: Span,

    /// Whether data frames are counted on each channel and the peer tells what arrived: delivery rate, loss and delay of each
    /// channel are measured, for 6 bytes a frame and a message of 40 bytes every 5 ms or 32 frames. Raw frames have an
    /// envelope then. Default false.
    pub feedback: bool,
    /// The law by which each channel's frames are limited to what its path carries without a queue of its own; frames are
    /// counted then. A channel's rate is an upper bound. Default none: as fast as the rate, or the socket, takes them.
    pub congestion: Option<Algorithm>,
    /// Mode `reliable` with surplus round robin: whether the rate of each channel that has none is measured, and the channel paced by that
    /// ([`probe`](crate::congestion::probe)), unless [`congestion`](Config::congestion) names a law. Default false; in [`Config::usual`] true.
    pub measure_rates: bool,
    /// Mode `reliable` with surplus round robin: whether channels whose rates are all given go by their paces, each packet by the one that will have sent
    /// it first. Else they go in turn, and all wait for the one whose turn it is. Default false; in [`Config::usual`] true.
    pub by_pace: bool,
    /// Mode `reliable`: whether a channel that delays a download by more than it adds carries data only while the others are not enough. It is known
    /// for channels with a rate, configured or measured. Default false; in [`Config::usual`] true.
    pub reserve: bool,
    /// Channels by their names whose use costs money: they carry data only while no other channel works, and classes that name them. In
    /// modes `stripe` and `flow` it counts for nothing. Default none.
    pub metered: List<Name>,
    /// Mode `reliable`: whether packets of flows that send little and steadily go before others, by the channel that brings them first. Default
    /// false; in [`Config::usual`] true.
    pub sparse: bool,
    /// Mode `reliable`: whether a TCP acknowledgement takes the place of an earlier one of its connection that waits and tells nothing more
    /// ([`acknowledgement`](crate::ip::acknowledgement)). Default false; in [`Config::usual`] true.
    pub ack_filter: bool,
    /// Mode `reliable`: whether headers of the host's packets are compressed ([`compress`](crate::compress)). Default off.
    pub compress_headers: Compression,
    /// Whether each channel's path MTU is probed (RFC 8899). Default true.
    pub probe_mtu: bool,
    /// How often the path MTU in use is confirmed on each channel while frames of about that size go, so that a path that
    /// narrows is noticed at once; each time at least 64 such frames have gone. Default zero: once a minute, whatever goes.
    pub confirm_mtu: Span,
    /// Whether the TCP maximum segment size is held to what fits, both ways. Default true.
    pub clamp_mss: bool,
    /// Whether the outer header carries the packet's DSCP. Default true.
    pub copy_dscp: bool,
    /// Source of ICMP errors to the host over IPv4. Default: the destination of the packet that was too big.
    pub icmp_source_v4: Option<[u8; 4]>,
    /// Source of ICMP errors to the host over IPv6. Default as for IPv4.
    pub icmp_source_v6: Option<[u8; 16]>,
    /// Most ICMP errors to the host in a second. Default 100.
    pub icmp_rate: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: Mode::Ordered,
            scheduler: Scheduler::Srr,
            policy: Settings::from(Policy::Brr(brr::Config::default())),
            classes: Classes::default(),
            channels: Vec::new(),
            buckets: 1024,
            deadline: None,
            equalize: Span::from_millis(350),
            hold_bytes: 56_000_000,
            queue_time: Span::from_millis(100),
            queue_bytes: 20_000_000,
            discipline: DisciplineConfig::default(),
            buffer: PolicyConfig::default(),
            resend_within: None,
            resend_within_ef: None,
            spare_copies: true,
            parity: false,
            resend_bytes: 56_000_000,
            copies: 0,
            marker_rounds: 8,
            marker_place: MarkerPlace::End,
            credits: false,
            confirm_order: false,
            stripe_buffer: None,
            fragment_delay: None,
            idle_marker: Span::from_millis(2),
            active_for: Span::from_secs(2),
            heartbeat: Span::from_millis(100),
            heartbeat_idle: Span::from_secs(5),
            dead_after: Span::from_secs(1),
            dead_after_idle: Span::from_secs(16),
            silent_after: Span::ZERO,
            await_hearing: false,
            hold_down: Span::ZERO,
            stall_after: Span::from_millis(100),
            echo_interval: Span::from_secs(1),
            feedback: false,
            congestion: None,
            measure_rates: false,
            by_pace: false,
            reserve: false,
            metered: List::default(),
            sparse: false,
            ack_filter: false,
            compress_headers: Compression::Off,
            probe_mtu: true,
            confirm_mtu: Span::ZERO,
            clamp_mss: true,
            copy_dscp: true,
            icmp_source_v4: None,
            icmp_source_v6: None,
            icmp_rate: 100,
        }
    }
}

const MS: Span = Span::from_millis(1);
const HOUR: Span = Span::from_secs(3600);
/// Longer than anything runs.
const FOREVER: Span = Span::from_secs(200_000_000);

/// The laws of congestion control, behind none.
const LAWS: [&str; Algorithm::ALL.len() + 1] = {
    let mut words = ["none"; Algorithm::ALL.len() + 1];
    let mut n = 0;
    while n < Algorithm::ALL.len() {
        words[n + 1] = Algorithm::WORDS[n];
        n += 1;
    }
    words
};

/// A law or none, by its place in `LAWS`.
impl Field for Option<Algorithm> {
    fn value(&self) -> Value {
        let place = Algorithm::ALL.iter().position(|law| Some(*law) == *self);
        Value::Choice(place.map_or(0, |place| place + 1))
    }

    fn take(&mut self, value: Value) {
        if let Value::Choice(place) = value {
            *self = place.checked_sub(1).and_then(|place| Algorithm::ALL.get(place)).copied();
        }
    }
}

/// The options of a bond.
#[rustfmt::skip]
pub const OPTIONS: Table<Config> = Table(&[
    option!(mode: Kind::Choice(Mode::WORDS), "how packets are kept in order, or not", file "mode"),
    option!(scheduler: Kind::Choice(Scheduler::WORDS), "what spreads packets over the channels", file "scheduler"),
    option!(policy: Kind::Text(|text| text.parse::<Settings>().map(drop)), "mode flow: how the channel of each packet is chosen", file "policy", since 3),
    option!(classes: Kind::Text(|text| text.parse::<Classes>().map(drop)), "mode reliable: traffic classes, one a line", file "class", since 4),
    option!(buckets: Kind::Count(1, 1 << 16, None), "flow buckets of mode ordered; flows that share one can delay one another"),
    option!(hold_bytes: Kind::Bytes(1 << 17, 1 << 36, None), "most memory for packets that wait for earlier ones", file "reorder_memory"),
    option!(queue_bytes: Kind::Bytes(1 << 17, 1 << 36, None), "most memory for packets that wait for a channel"),
    option!(copies: Kind::Count(0, ChannelId::LIMIT as u64, None), "how many channels carry each packet in mode duplicate; 0: all", file "copies"),
    option!(marker_rounds: Kind::Count(1, 1 << 20, None), "mode stripe: markers on every channel after this many rounds", file "marker_rounds", since 2),
    option!(marker_place: Kind::Choice(MarkerPlace::WORDS), "mode stripe: where in such a round", file "marker_place", since 2),
    option!(credits: Kind::Flag, "mode stripe: send only what the peer has granted room for, and grant it likewise", file "credits", since 2),
    option!(confirm_order: Kind::Flag, "mode stripe: whether packets are numbered, so that none is delivered out of order also where something is lost", file "confirm_order", since 4),
    option!(stripe_buffer: Kind::Bytes(1_500, 1 << 30, Some("auto")), "mode stripe: bytes that may wait for their turn on one channel", file "stripe_buffer", since 2),
    option!(fragment_delay: Kind::Span(MS, Span::from_secs(1), Some("none")), "mode stripe: urgent packets go ahead of others' fragments, and wait no longer than this for their channel", file "fragment_delay", since 4),
    option!(deadline: Kind::Span(MS, Span::from_secs(60), Some("auto")), "longest that a packet waits for an earlier one of its flow", file "reorder_deadline"),
    option!(equalize: Kind::Span(Span::ZERO, Span::from_secs(1), None), "delays of the channels that differ by up to this are made equal at arrival", file "equalize"),
    option!(queue_time: Kind::Span(MS, Span::from_secs(10), None), "longest that a packet from the host waits for its channel", file "queue_limit"),
    option!(discipline: Kind::Text(|text| text.parse::<DisciplineConfig>().map(drop)), "which of the packets that wait goes next", file "discipline", since 4),
    option!(buffer: Kind::Text(|text| text.parse::<PolicyConfig>().map(drop)), "which packets that are to wait are let in, marked, dropped", file "buffer", since 4),
    option!(idle_marker: Kind::Span(Span::ZERO, Span::from_secs(1), None), "a marker follows the last packet this long after the sender fell idle"),
    option!(active_for: Kind::Span(Span::from_millis(10), HOUR, None), "traffic counts as flowing this long after a packet"),
    option!(heartbeat: Kind::Span(MS, Span::from_secs(60), None), "heartbeats on each channel while traffic flows"),
    option!(heartbeat_idle: Kind::Span(MS, HOUR, None), "heartbeats on each channel otherwise"),
    option!(dead_after: Kind::Span(Span::ZERO, FOREVER, None), "a channel silent for this long while traffic flows is not used", file "dead_after"),
    option!(dead_after_idle: Kind::Span(Span::ZERO, FOREVER, None), "silence after which a channel counts as down otherwise"),
    option!(silent_after: Kind::Span(Span::ZERO, Span::from_secs(60), None), "mode reliable: a channel that brings nothing for this long while others do is not used; 0ms: dead_after alone", file "silent_after", since 4),
    option!(await_hearing: Kind::Flag, "whether the peer's word that it does not hear a channel counts only once it has heard that, or that was up for dead_after", since 4),
    option!(hold_down: Kind::Span(Span::ZERO, HOUR, None), "longest that a channel which fails again and again is held back when it returns; 0ms: never", file "hold_down", since 4),
    option!(stall_after: Kind::Span(MS, Span::from_secs(60), None), "a channel whose socket takes nothing for this long is left out until it does"),
    option!(echo_interval: Kind::Span(Span::from_millis(10), HOUR, None), "how often the round trip is measured on each channel while traffic flows"),
    option!(feedback: Kind::Flag, "whether frames are counted on each channel and the peer tells which arrived", file "feedback", since 4),
    option!(congestion: Kind::Choice(&LAWS), "the law by which each channel's frames are limited to what its path carries", file "congestion", since 4),
    option!(measure_rates: Kind::Flag, "mode reliable: whether the rates of channels that have none are measured", file "measure_rates", since 4),
    option!(by_pace: Kind::Flag, "mode reliable: whether channels whose rates are all given go by their paces, rather than in turn", since 4),
    option!(reserve: Kind::Flag, "mode reliable: whether a channel that delays a download by more than it adds carries data only while the others are not enough", file "reserve", since 4),
    option!(metered: Kind::Text(|text| text.parse::<List<Name>>().map(drop)), "channels that carry data only while no other one works, because that costs money", file "metered", since 4),
    option!(sparse: Kind::Flag, "mode reliable: whether flows that send little and steadily go before others, by the channel that brings them first", file "sparse", since 4),
    option!(ack_filter: Kind::Flag, "mode reliable: whether a TCP acknowledgement takes the place of an earlier one of its connection that still waits", file "ack_filter", since 4),
    option!(resend_within: Kind::Span(MS, Span::from_secs(60), Some("auto")), "mode reliable: how long what is lost is sent again, from when it first went", file "resend_within", since 4),
    option!(resend_within_ef: Kind::Span(MS, Span::from_secs(60), Some("auto")), "the same of packets with DSCP EF", file "resend_within_ef", since 4),
    option!(resend_bytes: Kind::Bytes(1 << 17, 1 << 36, None), "mode reliable: most memory for packets that were sent and are kept until they arrived", file "resend_memory", since 4),
    option!(spare_copies: Kind::Flag, "mode reliable: whether what a channel may lose goes once more by another one that has nothing to send, and calls go twice", file "spare_copies", since 4),
    option!(compress_headers: Kind::Choice(Compression::WORDS), "mode reliable: whether headers of TCP and UDP are compressed; auto: on channels of up to 1 Gbit/s", file "compress_headers", since 4),
    option!(parity: Kind::Flag, "mode reliable: whether urgent packets of dense streams go in blocks with parity in place of second frames, and the peer's parity is taken", file "parity", since 4),
    option!(probe_mtu: Kind::Flag, "whether each channel's path MTU is probed (RFC 8899)"),
    option!(confirm_mtu: Kind::Span(Span::ZERO, Span::from_secs(60), None), "how often the path MTU is confirmed while large frames go; 0ms: once a minute", since 4),
    option!(clamp_mss: Kind::Flag, "whether the TCP maximum segment size is held to what fits, both ways"),
    option!(copy_dscp: Kind::Flag, "whether the outer header carries the packet's DSCP"),
    option!(icmp_source_v4: Kind::Ipv4, "source of ICMP errors to the host over IPv4; none: the destination of the packet that was too big"),
    option!(icmp_source_v6: Kind::Ipv6, "source of ICMP errors to the host over IPv6; none: as over IPv4"),
    option!(icmp_rate: Kind::Count(0, u32::MAX as u64, None), "most ICMP errors to the host in a second"),
]);

/// Which setting cannot work, and what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number outside its range.
    #[error("{setting} is {value}; it must be from {least} to {most}")]
    Range {
        /// The setting's name.
        setting: &'static str,
        /// What it is.
        value: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
    /// Two settings that do not fit together.
    #[error("{setting} ({value}) must be greater than {other} ({bound})")]
    Order {
        /// The setting's name.
        setting: &'static str,
        /// What it is.
        value: u64,
        /// The setting it is compared with.
        other: &'static str,
        /// What that is.
        bound: u64,
    },
    /// A channel's setting outside its range.
    #[error("channel {channel}: {setting} is {value}; it must be from {least} to {most}")]
    Channel {
        /// Which channel.
        channel: ChannelId,
        /// The setting's name.
        setting: &'static str,
        /// What it is.
        value: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
    /// Settings that this mode does not support.
    #[error("mode {mode} does not work with {with}; {instead}")]
    Unsupported {
        /// The mode.
        mode: Mode,
        /// What it does not work with.
        with: &'static str,
        /// What would work.
        instead: &'static str,
    },
    /// A traffic class that cannot work.
    #[error("class {class}: {option} {problem}")]
    Class {
        /// Which, by its place.
        class: usize,
        /// Its option.
        option: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A discipline or buffer policy that cannot work.
    #[error("queue: {0}")]
    Queue(QueueError),
    /// A policy of mode `flow` that cannot work.
    #[error("policy: {0}")]
    Policy(#[from] OptionError),
}

fn before(other: &'static str, bound: Span, setting: &'static str, value: Span) -> Result<(), ConfigError> {
    if bound < value {
        return Ok(());
    }
    Err(ConfigError::Order { setting, value: value.as_nanos(), other, bound: bound.as_nanos() })
}

impl ChannelConfig {
    /// Checks the settings of channel `id`.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and its range.
    pub fn validate(&self, id: ChannelId) -> Result<(), ConfigError> {
        let check = |setting, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(ConfigError::Channel { channel: id, setting, value, least, most })
        };
        check("number", id.index() as u64, 0, ChannelId::LIMIT as u64 - 1)?;
        if let Some(OutOfRange { option, value, least, most }) = CHANNEL_OPTIONS.out_of_range(self) {
            return Err(ConfigError::Channel { channel: id, setting: option, value, least, most });
        }
        // What two settings make together.
        let mtu = self.mtu as u64;
        check("overhead", self.overhead as u64, 0, mtu - 96)?;
        if let Some(burst) = self.burst {
            check("burst", burst.as_u64(), mtu + self.framing as u64, 1 << 30)?;
        }
        Ok(())
    }
}

impl Config {
    /// These settings with this order in which packets wait, and this policy of who is let in. What is not named is what suits
    /// the [`mode`](Self::mode): in modes `stripe` and `flow` first in, first out; in all others the hosts at the end `users` of
    /// the flows have their turns, and then the flows of each. Fair queues come with a policy that makes those pay who fill the queue.
    pub fn with_queue(self, discipline: Option<DisciplineConfig>, buffer: Option<PolicyConfig>, users: End) -> Config {
        let discipline = discipline.unwrap_or(match self.mode {
            Mode::Stripe | Mode::Flow => DisciplineConfig::Fifo,
            _ => DisciplineConfig::Hosts { by: users, quantum: QUANTUM },
        });
        let buffer = buffer.unwrap_or(match discipline {
            DisciplineConfig::Fifo => PolicyConfig::DropTail,
            _ => PolicyConfig::PfdAdaptive,
        });
        Config { discipline, buffer, ..self }
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and what would.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (setting, value, most) = ("channels", self.channels.len() as u64, ChannelId::LIMIT as u64);
        if value > most {
            return Err(ConfigError::Range { setting, value, least: 0, most });
        }
        if let Some(OutOfRange { option: setting, value, least, most }) = OPTIONS.out_of_range(self) {
            return Err(ConfigError::Range { setting, value, least, most });
        }
        before("heartbeat", self.heartbeat.times(2), "dead_after", self.dead_after)?;
        before("heartbeat_idle", self.heartbeat_idle.times(2), "dead_after_idle", self.dead_after_idle)?;
        self.discipline.check().and_then(|()| self.buffer.check()).map_err(ConfigError::Queue)?;
        if self.mode == Mode::Stripe && self.scheduler == Scheduler::Rfq {
            return Err(ConfigError::Unsupported {
                mode: self.mode,
                with: "scheduler rfq",
                instead: "use scheduler srr, grr or rr",
            });
        }
        for (n, channel) in self.channels.iter().enumerate() {
            channel.validate(ChannelId(n as u8))?;
        }
        self.check_fragments()?;
        self.check_classes()?;
        self.check_policy()
    }

    fn check_fragments(&self) -> Result<(), ConfigError> {
        let Some(delay) = self.fragment_delay else { return Ok(()) };
        let mode = self.mode;
        let wrong = |with, instead| Err(ConfigError::Unsupported { mode, with, instead });
        if mode != Mode::Stripe {
            return wrong("fragment_delay", "use mode stripe, or leave it out");
        }
        if self.scheduler != Scheduler::Srr {
            return wrong("fragment_delay and scheduler grr or rr", "use scheduler srr, whose quanta are bytes");
        }
        if self.credits || self.confirm_order {
            return wrong("fragment_delay and credits or confirm_order", "leave them out: fragments are numbered");
        }
        // Either would let a channel's link have more of ours than it carries in that time.
        if self.congestion.is_some() {
            return wrong("fragment_delay and congestion", "leave congestion out: each channel has its rate");
        }
        for channel in &self.channels {
            if channel.burst.is_some() {
                return wrong("fragment_delay and a channel's burst", "leave burst out: it follows from the delay");
            }
            match channel.rate {
                None => return wrong("fragment_delay and a channel without rate", "give each channel its rate"),
                Some(rate) => {
                    let around = channel.overhead + channel.framing + COUNTED_LEN + FRAGMENT_LEN;
                    if (rate.bytes_in(delay).as_u64() as usize) < around + LEAST_FRAGMENT {
                        return wrong(
                            "a fragment_delay in which a channel carries less than 64 bytes of a packet",
                            "make it longer, or leave that channel out",
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn check_classes(&self) -> Result<(), ConfigError> {
        if self.classes.0.is_empty() {
            return Ok(());
        }
        if self.mode != Mode::Reliable {
            let (with, instead) = ("traffic classes", "use mode reliable, whose classes have modes of their own");
            return Err(ConfigError::Unsupported { mode: self.mode, with, instead });
        }
        let wrong = |(class, option, problem)| ConfigError::Class { class, option, problem };
        self.classes.check().map_err(wrong)?;
        let (setting, value) = ("buckets", self.buckets as u64);
        let most = (1 << 16) - self.classes.0.len() as u64 * SPREAD as u64;
        if value > most {
            return Err(ConfigError::Range { setting, value, least: 1, most });
        }
        for (class, settings) in self.classes.0.iter().enumerate().filter(|_| !self.channels.is_empty()) {
            let is_none = |name: &&Name| self.channels.iter().all(|channel| channel.name != name.0);
            if let Some(name) = settings.channels.0.iter().find(is_none) {
                let problem = format!("names `{name}`, and no channel has that name");
                return Err(ConfigError::Class { class, option: "channels", problem });
            }
        }
        Ok(())
    }

    /// How many flow buckets there are with those of the classes.
    pub(super) fn all_buckets(&self) -> usize {
        self.buckets + self.classes.0.len() * SPREAD
    }

    /// How many flow buckets have a meter of what they send.
    pub(super) fn metered_buckets(&self) -> usize {
        if self.mode == Mode::Reliable { self.buckets } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn the_defaults_are_valid_and_bound_memory_below_80_megabytes() {
        let config = Config::default();
        config.validate().unwrap();
        assert!(config.hold_bytes + config.queue_bytes < 80_000_000);
        ChannelConfig::default().validate(ChannelId(0)).unwrap();
    }

    #[test]
    fn a_wrong_setting_is_named_with_what_would_be_right() {
        let mut config = Config { buckets: 0, ..Config::default() };
        assert_eq!(config.validate().unwrap_err().to_string(), "buckets is 0; it must be from 1 to 65536");
        config.buckets = 1;
        config.dead_after = Span::from_millis(150);
        let text = config.validate().unwrap_err().to_string();
        assert!(text.contains("dead_after") && text.contains("heartbeat"), "{text}");
        config.dead_after = Span::from_secs(1);
        config.channels = vec![ChannelConfig::default(), ChannelConfig { mtu: 10, ..ChannelConfig::default() }];
        assert_eq!(config.validate().unwrap_err().to_string(), "channel 1: mtu is 10; it must be from 128 to 65535");
        config.channels.clear();
        (config.mode, config.scheduler) = (Mode::Stripe, Scheduler::Rfq);
        assert!(config.validate().unwrap_err().to_string().contains("use scheduler srr, grr or rr"));
        config.scheduler = Scheduler::Grr;
        config.validate().unwrap();
    }
}
