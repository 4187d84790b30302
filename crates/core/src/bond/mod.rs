//! The bond: one endpoint of two, several channels between them, one stream of IP packets over all.
//!
//! It decides everything and does nothing: the driver feeds it packets, frames, link states and the time, and takes
//! from it frames to send and packets to deliver. After any input, the polls are to be drained in this order:
//! [`Bond::poll_transmit`], [`Bond::poll_deliver`], [`Bond::poll_event`]; then [`Bond::poll_timeout`] says when to call
//! [`Bond::handle_timeout`]. Equal times are allowed; time going backwards is the caller's error.
//!
//! ```
//! use fairspan_core::bond::{Bond, ChannelConfig, Codepoint, Config, Link};
//! use fairspan_core::units::{ChannelId, Time};
//!
//! let mut config = Config::default();
//! config.channels = vec![ChannelConfig::default(), ChannelConfig::default()];
//! let now = Time::from_millis(1);
//! let mut here = Bond::<Vec<u8>>::new(config.clone(), now, 1)?;
//! let mut there = Bond::<Vec<u8>>::new(config, now, 2)?;
//! for channel in [ChannelId(0), ChannelId(1)] {
//!     here.set_link(now, channel, Link::Up);
//!     there.set_link(now, channel, Link::Up);
//! }
//!
//! // An IPv4 packet without payload, from 10.0.0.1 to 10.0.0.2.
//! let packet = vec![0x45, 0, 0, 20, 0, 0, 0x40, 0, 64, 17, 0x26, 0xd7, 10, 0, 0, 1, 10, 0, 0, 2];
//! here.handle_host(now, packet.clone());
//! while let Some(frame) = here.poll_transmit(now) {
//!     let mut bytes = frame.head.as_slice().to_vec();
//!     bytes.extend(frame.packet.unwrap_or_default());
//!     there.handle_channel(now, frame.channel, frame.codepoint, bytes, frame.tos);
//! }
//! assert_eq!(there.poll_deliver(), Some(packet));
//! # Ok::<(), fairspan_core::bond::ConfigError>(())
//! ```

mod channel;
mod config;
mod equalize;
mod event;
mod flow;
mod host;
mod links;
mod ordered;
mod path;
mod pmtu;
mod queue;
mod receive;
mod ring;
mod share;
mod striped;
mod timers;
mod transmit;
mod waiting;
mod window;

pub use crate::stripe::MarkerPlace;
pub use crate::wire::envelope::Head;
pub use config::{Aqm, ChannelConfig, Config, ConfigError, Mode, Scheduler};
pub use event::{ChannelReport, ChannelStats, Event, FlowStats, Link, Reason, Stats, TimerName};

use crate::flow::hash::FlowHash;
use crate::link::pacing::Pacer;
use crate::packet::Packet;
use crate::rng::Rng;
use crate::units::{ChannelId, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use channel::Channel;
use equalize::Equalizer;
use flow::Flow;
use ordered::Ordered;
use queue::HostQueue;
use receive::Peer;
use share::Share;
use striped::Striped;
use window::Window;

/// What a frame starts with, told apart by the channel below: by EtherType, say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codepoint {
    /// The frame is the original packet: data of modes `stripe` and `flow` where [`ChannelConfig::raw`] is set.
    Raw,
    /// The frame starts with an envelope.
    Envelope,
}

/// A frame to send: the bytes of `head`, then the bytes of `packet`.
#[derive(Debug, PartialEq, Eq)]
pub struct Transmit<P> {
    /// On which channel.
    pub channel: ChannelId,
    /// With which code point.
    pub codepoint: Codepoint,
    /// The envelope; empty for [`Codepoint::Raw`].
    pub head: Head,
    /// What follows it: the host's packet, or padding and messages of the bond's own.
    pub packet: Option<P>,
    /// The type of service of the outer header: DSCP and ECN.
    pub tos: u8,
}

/// A control message that waits to be sent: its head, and zero bytes up to a length.
#[derive(Debug)]
struct Control {
    channel: ChannelId,
    head: Head,
    padded: usize,
}

/// One endpoint of a bond.
#[derive(Debug)]
pub struct Bond<P> {
    config: Config,
    /// Chosen at the start; another one tells the peer that we restarted.
    epoch: u32,
    rng: Rng,
    channels: Vec<Channel>,
    /// Sets of channels.
    joined: u64,
    usable: u64,
    share: Option<Share>,
    /// Mode `flow`.
    flow: Option<Box<Flow<P>>>,
    /// The usable channels, best first: for mode `duplicate`.
    by_priority: Vec<ChannelId>,

    // From the host.
    hash: FlowHash,
    queue: HostQueue<P>,
    /// Bytes that the queue may hold where all usable channels have a rate.
    queue_limit: Option<usize>,
    mtu: usize,
    icmp: Pacer,
    sequence: Vec<u32>,
    /// The bond number of the next packet; numbers start at 1, so that 0 means none.
    next: u32,
    /// Copies of mode `duplicate` that are yet to go.
    copies: VecDeque<Transmit<P>>,
    control: VecDeque<Control>,
    heartbeats: u32,
    /// The channels on which a heartbeat is to go.
    heartbeats_due: u64,
    idle_marker: Option<Time>,
    /// The channel of the last data frame.
    last_channel: ChannelId,

    // From the channels.
    peer: Peer,
    /// What the peer may upset.
    upsets: Pacer,
    /// The channels that bring data: those that a gap waits for.
    bringing: u64,
    equalizer: Equalizer<P>,
    ordered: Ordered<P>,
    window: Window,
    striped: Option<Striped<P>>,

    // Both ways.
    traffic: Time,
    active_since: Option<Time>,
    events: VecDeque<Event>,
    stats: Stats,
}

/// Most control messages that wait: a few for each of 64 channels.
const CONTROL_LIMIT: usize = 512;
/// Most events that wait for a driver that does not poll them.
const EVENT_LIMIT: usize = 1024;

impl<P: Packet> Bond<P> {
    /// A bond whose channels are all down. No event tells the first [`Bond::mtu`]. `seed` is to be random and new at each start: the epoch that tells the peer
    /// of a restart comes from it, and the key of the flow hash.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn new(mut config: Config, now: Time, seed: u64) -> Result<Bond<P>, ConfigError> {
        config.validate()?;
        config.supervise();
        let mut rng = Rng::new(seed);
        let epoch = rng.next_u64() as u32;
        // One "byte" is one ICMP error; ten may go at once.
        let icmp_rate = crate::units::Rate::from_bits_per_sec(u64::from(config.icmp_rate) * 8_000);
        let mut bond = Bond {
            epoch,
            channels: Vec::new(),
            joined: 0,
            usable: 0,
            share: None,
            flow: None,
            by_priority: Vec::new(),
            hash: FlowHash::new(rng.next_u64(), config.buckets),
            queue: HostQueue::new(config.aqm),
            queue_limit: None,
            mtu: 0,
            icmp: Pacer::new(icmp_rate, crate::units::Bytes::new(9_000)),
            sequence: vec![0; config.buckets],
            next: 1,
            copies: VecDeque::new(),
            control: VecDeque::new(),
            heartbeats: 0,
            heartbeats_due: 0,
            idle_marker: None,
            last_channel: ChannelId(0),
            peer: Peer::default(),
            upsets: receive::upsets(),
            bringing: 0,
            equalizer: Equalizer::new(config.equalize),
            ordered: Ordered::new(config.buckets, config.hold_bytes, config.deadline),
            window: Window::new(),
            striped: None,
            traffic: Time::ZERO,
            active_since: None,
            events: VecDeque::new(),
            stats: Stats::default(),
            rng,
            config,
        };
        bond.begin_flow()?;
        for (n, channel) in bond.config.channels.clone().into_iter().enumerate() {
            bond.join(now, ChannelId(n as u8), channel)?;
        }
        bond.events.clear();
        Ok(bond)
    }

    /// The next packet for the host.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        let packet = self.ordered.pop()?;
        self.stats.delivered_packets += 1;
        self.stats.delivered_bytes += packet.size().as_u64();
        Some(packet)
    }

    /// The next change worth telling.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The largest IP packet that fits all channels that are up; what the interface's MTU should be. Without any, what
    /// fits all that are configured, and 1280 without those.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Counters of the whole bond.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counters of one channel; `None` if it never joined.
    pub fn channel_stats(&self, channel: ChannelId) -> Option<&ChannelStats> {
        self.channels.get(channel.index()).filter(|_| self.has(channel)).map(|c| &c.stats)
    }

    /// The settings of one channel; `None` if it never joined.
    pub fn channel_config(&self, channel: ChannelId) -> Option<&ChannelConfig> {
        self.channels.get(channel.index()).filter(|_| self.has(channel)).map(|c| &c.config)
    }

    /// The settings that the bond was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes of memory that packets behind gaps and in the host queue take, with their book-keeping; in mode `stripe`
    /// also the bytes of the packets that wait for their turn.
    pub fn held_bytes(&self) -> usize {
        self.equalizer.used() + self.ordered.used() + self.queue.memory() + self.flow_memory() + self.stripe_buffered()
    }

    /// The part of [`Bond::held_bytes`] that waits for its order: in delay lines, behind gaps, or for its turn.
    pub fn resequencing_bytes(&self) -> usize {
        self.equalizer.used() + self.ordered.used() + self.stripe_buffered()
    }

    /// Whether `channel` is one of the bond's; any number may be asked for.
    #[inline]
    fn has(&self, channel: ChannelId) -> bool {
        channel.index() < self.channels.len() && self.joined & channel::bit(channel) != 0
    }

    fn event(&mut self, event: Event) {
        if self.events.len() < EVENT_LIMIT {
            self.events.push_back(event);
        }
    }
}
