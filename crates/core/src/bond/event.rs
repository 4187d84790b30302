//! What a bond tells its driver: events when something changes, counters always.

use crate::units::{ChannelId, Span, Time};
use crate::wire::envelope::EnvelopeError;

/// The state of a link, as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Frames can be sent and received.
    Up,
    /// They cannot, for now.
    Down,
    /// It is to leave the bond. Nothing new goes there, the peer is told to send nothing there either, and what is under way in both
    /// directions arrives, until it is removed.
    Leaving,
    /// The channel has left the bond.
    Removed,
}

/// What the driver, or a later release's measurement, found out about a channel. Absent values change nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelReport {
    /// The largest IP packet that the path takes (a socket said "message too long", or ICMP did).
    pub path_mtu: Option<usize>,
    /// What the channel can carry; replaces the configured rate, at an agreed round in mode `stripe`.
    pub rate: Option<crate::units::Rate>,
    /// The round trip.
    pub rtt: Option<Span>,
}

/// Why a channel stopped or started being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The driver said so.
    Link,
    /// Nothing arrived for too long, or something did again.
    Silence,
    /// The peer hears nothing on it, or does again.
    PeerNotice,
    /// The socket took nothing for too long, or does again.
    Stalled,
    /// What goes there comes too late behind what goes by others, or does no more.
    Delay,
    /// It loses so much that it brings less than it costs, or does no more.
    Loss,
    /// It had failed again and again, and was held back for long enough.
    HeldBack,
    /// It is to leave the bond.
    Leaving,
}

/// A change worth a line in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Data is sent on this channel from now on.
    ChannelUp {
        /// Which.
        channel: ChannelId,
        /// Why.
        reason: Reason,
    },
    /// No data is sent on this channel from now on.
    ChannelDown {
        /// Which.
        channel: ChannelId,
        /// Why.
        reason: Reason,
    },
    /// The channel is well again, and is held back because it failed again and again: it is used where there is no other.
    ChannelHeld {
        /// Which.
        channel: ChannelId,
        /// For how long.
        span: Span,
        /// How often it failed lately.
        failures: u32,
    },
    /// What fits all active channels changed: set the interface's MTU to this.
    Mtu {
        /// Bytes of the largest IP packet.
        mtu: usize,
    },
    /// A channel's path MTU was found or changed.
    PathMtu {
        /// Which channel.
        channel: ChannelId,
        /// Bytes of the largest IP packet that the path takes.
        mtu: usize,
    },
    /// The peer started anew: its packets are ordered from scratch.
    PeerRestarted {
        /// Its new epoch.
        epoch: u32,
    },
    /// The first frame of a peer that speaks another version; more are only counted.
    PeerVersion {
        /// Which channel it came on.
        channel: ChannelId,
        /// What it speaks.
        theirs: u8,
    },
}

/// Why [`super::Bond::poll_timeout`] wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerName {
    /// The selected channel may send again.
    Pacing,
    /// An arrival's delay is made up for.
    Equalize,
    /// A packet waited behind a gap long enough, or was kept for long enough.
    Deadline,
    /// A marker or heartbeat is due.
    Heartbeat,
    /// A channel's silence becomes too long.
    Liveness,
    /// A socket that takes nothing becomes a stalled channel.
    Stall,
    /// A round trip is to be measured.
    Echo,
    /// A path MTU probe is due or lost.
    Probe,
    /// The peer is to be told what arrived of the frames that it counts, or told nothing of ours for too long.
    Feedback,
    /// The stripe wants to send a marker.
    Stripe,
    /// The choice of channels changes, or a held flow is released: mode `flow`.
    Select,
}

/// Counters of one channel, from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// Data frames sent.
    pub sent_packets: u64,
    /// Wire bytes of them: packet, envelope, overhead and framing.
    pub sent_bytes: u64,
    /// Control frames sent.
    pub sent_control: u64,
    /// Valid data frames received.
    pub received_packets: u64,
    /// Bytes of them, envelope included.
    pub received_bytes: u64,
    /// Valid control frames received.
    pub received_control: u64,
    /// Frames that were not valid.
    pub received_invalid: u64,
    /// The round trip, smoothed (RFC 6298), once measured.
    pub rtt: Option<Span>,
    /// The path MTU, once probed or reported.
    pub path_mtu: Option<usize>,
    /// Whether data is sent on it.
    pub usable: bool,
    /// When the last valid frame arrived.
    pub last_heard: Option<Time>,
}

impl ChannelStats {
    /// Every counter with its name, in a fixed order.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("sent_packets", self.sent_packets),
            ("sent_bytes", self.sent_bytes),
            ("sent_control", self.sent_control),
            ("received_packets", self.received_packets),
            ("received_bytes", self.received_bytes),
            ("received_control", self.received_control),
            ("received_invalid", self.received_invalid),
        ]
        .into_iter()
    }
}

macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Every counter with its name, in a fixed order.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Counters of the bond, from the start. Each drop has its reason.
    Stats {
        /// Packets taken from the host.
        host_packets,
        /// Bytes of them.
        host_bytes,
        /// From the host: not an IP packet.
        host_not_ip,
        /// From the host: too big and not to be fragmented; answered with an ICMP error where that is allowed.
        host_too_big,
        /// ICMP errors delivered to the host.
        icmp_sent,
        /// ICMP errors that were due and were held back: by the rate limit, or not allowed for this packet.
        icmp_withheld,
        /// Packets that were fragmented.
        fragmented,
        /// From the host: no room in the host queue.
        queue_full,
        /// From the host: longer than the longest packet that the stripe was made for.
        stripe_too_long,
        /// Times that channels were left out of the stripe, because they did not answer; they are tried again.
        stripe_left_out,
        /// Mode `stripe` with `confirm_order`: packets that logical reception gave behind a later one. They are put in order.
        stripe_misplaced,
        /// From the host: dropped by the buffer policy though there was room.
        early_dropped,
        /// Marked "congestion experienced" by the buffer policy instead of dropped.
        early_marked,
        /// From the host: there was no usable channel, and no room to wait for one, or none in time.
        no_channel,
        /// TCP SYNs whose maximum segment size was lowered.
        mss_clamped,
        /// Mode `reliable`: TCP acknowledgements from the host that were not sent, because a later one took their place.
        acks_superseded,
        /// Mode `reliable`: frames that carried a packet again, because the one before was lost.
        resent,
        /// Of the packets that these carried, those that were not lost, but would have arrived much later: their channel had become slow.
        detoured,
        /// Mode `reliable`: second frames of packets of a channel that loses some, sent while another channel had nothing to send.
        spare_copies,
        /// Mode `reliable`: second frames of urgent packets of a channel that may lose them.
        urgent_copies,
        /// Mode `reliable`: packets whose headers went compressed.
        compressed,
        /// Bytes of frames that this saved.
        compressed_saved,
        /// Packets that went whole on channels where headers are compressed: others than TCP and UDP, first ones of a flow, and what cannot be written
        /// so.
        uncompressed,
        /// Mode `reliable`: rows of parity sent for blocks of urgent packets.
        parity_sent,
        /// Mode `reliable`: rows of parity that were not sent: there was no channel for them in time, or no room.
        parity_skipped,
        /// Rows of parity received.
        parity_received,
        /// Packets that were rebuilt from rows of parity.
        rebuilt,
        /// Mode `reliable`: how often a channel that is held in reserve was called, because too much waited.
        reserve_calls,
        /// Mode `reliable`: packets that are not kept any more although nothing told that they arrived: too old, no memory, or the
        /// peer started anew.
        given_up,
        /// Copies that mode `duplicate` left out because their channel was full or memory was refused.
        copies_skipped,
        /// Mode `flow`: packets that waited for a channel that failed, and were given to others.
        requeued,
        /// Packets delivered to the host.
        delivered_packets,
        /// Bytes of them.
        delivered_bytes,
        /// Packets that waited behind a gap.
        held_packets,
        /// Gaps given up because every channel had passed them.
        gaps_passed,
        /// Gaps given up at the deadline.
        gaps_deadline,
        /// Gaps given up because memory was needed.
        gaps_memory,
        /// Gaps given up because the sequence jumped too far ahead.
        gaps_jumped,
        /// Sequence numbers that were given up.
        packets_missing,
        /// From a channel: came after its gap had been given up, or what was sent again in its place.
        late,
        /// From a channel: a second copy.
        duplicates,
        /// From a channel: behind the window in which copies are recognised.
        beyond_window,
        /// From a channel: sent before the peer restarted.
        stale_epoch,
        /// From a channel that has not joined the bond.
        unknown_channel,
        /// From a channel: envelope cut short.
        bad_truncated,
        /// From a channel: another version.
        bad_version,
        /// From a channel: unknown kind.
        bad_kind,
        /// From a channel: a control message with another channel's number, or one that cannot exist.
        bad_channel,
        /// From a channel: any other malformed control message.
        bad_control,
        /// From a channel: not an IP packet within.
        bad_packet,
        /// From a channel: compressed headers that no sender would write.
        bad_compressed,
        /// From a channel: compressed headers that differ from what is not known here. The packet comes again, whole.
        unknown_reference,
        /// The same at the peer, as far as it told: the flow's headers go whole once.
        forgotten_reference,
        /// From a channel: a row of parity that no block can have, that was not asked for, or that rebuilt no packet.
        bad_parity,
        /// From a channel: a data frame of mode `stripe`, which is not set here, or a fragment where that is not.
        unexpected_stripe,
        /// From a channel: congestion experienced on a packet that cannot say so (RFC 6040): dropped.
        ecn_dropped,
        /// From a channel: an outer ECN field that a compliant tunnel does not produce.
        ecn_odd,
        /// The peer started anew.
        peer_restarts,
        /// Control messages that found their queue full.
        control_dropped,
        /// Packets that memory was refused for.
        memory_refused,
    }
}

counters! {
    /// Counters of one traffic class, from the start.
    ClassStats {
        /// Packets that were sent.
        packets,
        /// Bytes of them.
        bytes,
        /// Mode `duplicate`: further frames of them, sent by other channels.
        copies,
        /// From the host: dropped. There was no room in the queue, or for too long no time, or no one of the only channels that may carry them.
        dropped,
    }
}

counters! {
    /// What became of fragments, from the start, where packets go in such.
    FragmentCounts {
        /// Fragments sent.
        sent,
        /// Packets put together of fragments that the peer sent.
        joined,
        /// Fragments that did not come.
        lost,
        /// Fragments that came and were dropped: another one of their packet did not come, or they came too late or twice.
        discarded,
    }
}

counters! {
    /// What the policy of mode `flow` did, from the start. Policies without bursts or flush leave theirs zero.
    FlowStats {
        /// Flows that were new, or had been forgotten.
        flows,
        /// Bursts, each flow's first included.
        bursts,
        /// Packets for which another channel was chosen than for the one before them in their flow.
        moves,
        /// Flows that were forgotten before their time, for want of room.
        evicted,
        /// With flush: flows that moved with nothing of theirs under way.
        flush_moved,
        /// With flush: flows that were held and stayed where they were.
        flush_stayed,
        /// With flush: packets that were held.
        flush_held,
        /// With flush: markers sent.
        flush_markers,
    }
}

impl Stats {
    pub(super) fn on_bad_envelope(&mut self, error: &EnvelopeError) {
        match error {
            EnvelopeError::Truncated { .. } => self.bad_truncated += 1,
            EnvelopeError::Version { .. } => self.bad_version += 1,
            EnvelopeError::Kind { .. } | EnvelopeError::Extended { .. } => self.bad_kind += 1,
            EnvelopeError::Channel { .. } => self.bad_channel += 1,
            EnvelopeError::ProbeSize { .. } => self.bad_control += 1,
        }
    }
}

/// Why a gap was given up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    Passed,
    Deadline,
    Memory,
    Jump,
}

impl Stats {
    /// A gap of so many packets was given up.
    pub(super) fn on_gap(&mut self, why: Why, missing: u32) {
        match why {
            Why::Passed => self.gaps_passed += 1,
            Why::Deadline => self.gaps_deadline += 1,
            Why::Memory => self.gaps_memory += 1,
            Why::Jump => self.gaps_jumped += 1,
        }
        self.packets_missing += u64::from(missing);
    }
}
