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

mod ack_line;
mod ack_share;
mod acks;
mod aside;
mod assign;
mod backlog;
mod by_class;
mod channel;
mod class;
mod classed;
mod compressed;
mod compression;
mod config;
mod confirm;
mod cover;
mod detour;
mod distribute;
mod equalize;
mod event;
mod explain;
mod express;
mod failure;
mod feedback;
mod fragments;
mod frame;
mod host;
mod keep;
mod ledger;
mod lines;
mod links;
mod mender;
mod number;
mod ordered;
mod parity;
mod peer;
mod policy;
mod preset;
mod prompt;
mod protect;
mod queue;
mod ramp;
mod receive;
mod reconfigure;
mod reliable;
mod resequence;
mod reserve;
mod revisit;
mod room;
mod share;
mod slight;
mod slots;
mod spare;
mod sparse;
mod striped;
mod taken;
mod timers;
mod transmit;
mod treatment;
mod twice;
mod waiting;
mod window;

pub use crate::stripe::MarkerPlace;
pub use crate::wire::envelope::Head;
pub use class::{CLASS_OPTIONS, ClassConfig, ClassMode, Classes};
pub use classed::ClassReport;
pub use config::{CHANNEL_OPTIONS, ChannelConfig, Compression, Config, ConfigError, Mode, OPTIONS, Scheduler};
pub use event::{
    ChannelReport, ChannelStats, ClassStats, Event, FlowStats, FragmentCounts, Link, Reason, Stats, TimerName,
};
pub use explain::Explanation;
pub use frame::{Codepoint, Handling, Transmit};

use crate::flow::accounts::Accounts;
use crate::packet::Packet;
use crate::path::Measured;
use crate::path::state::State;
use crate::rng::Rng;
use crate::units::{Bytes, ChannelId, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use channel::Channels;
use classed::Classed;
use compression::Compressed;
use confirm::Confirm;
use distribute::Distribute;
use fragments::Fragments;
use host::Ingress;
use mender::Mender;
use number::Numberer;
use peer::Peer;
use preset::Preset;
use protect::Protect;
use resequence::Resequence;
use striped::Striped;
use timers::{Activity, Looked};
use transmit::Outbox;

/// One endpoint of a bond.
#[derive(Debug)]
pub struct Bond<P> {
    config: Config,
    rng: Rng,
    channels: Channels,
    /// From the host: what a packet meets first, and the four parts of the mode, `resequence` for what comes from the peer.
    ingress: Ingress<P>,
    /// What the traffic classes hold, where there are some.
    classed: Classed<P>,
    distribute: Distribute<P>,
    number: Numberer,
    protect: Protect<P>,
    compressed: Compressed,
    resequence: Resequence<P>,
    /// Where the peer's rows of parity are taken.
    mender: Option<Box<Mender>>,
    /// Where the mode is the stripe's, once there was a channel.
    striped: Option<Striped<P>>,
    confirm: Confirm,
    fragments: Fragments<P>,
    peer: Peer,
    outbox: Outbox,
    activity: Activity,
    looked: Looked,
    events: VecDeque<Event>,
    stats: Stats,
}

/// Most control messages that wait: a few for each of 64 channels.
const CONTROL_LIMIT: usize = 512;
/// Most events that wait for a driver that does not poll them.
const EVENT_LIMIT: usize = 1024;

impl<P: Packet> Bond<P> {
    /// A bond whose channels are all down. No event tells the first [`Bond::mtu`]. `seed` is to be random and new at each
    /// start: the epoch that tells the peer of a restart comes from it, and the key of the flow hash.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn new(mut config: Config, now: Time, seed: u64) -> Result<Bond<P>, ConfigError> {
        config.validate()?;
        config.supervise();
        let preset = Preset::of(&config);
        let mut rng = Rng::new(seed);
        let epoch = rng.next_u64() as u32;
        let mut bond = Bond {
            channels: Channels::new(config.counting()),
            ingress: Ingress::new(&config, seed)?,
            classed: Classed::new(&config, seed)?,
            number: Numberer::new(preset, &config, epoch, rng.next_u64()),
            distribute: Distribute::new(preset, &config, &mut rng)?,
            protect: Protect::new(preset, &config),
            compressed: Compressed::new(preset, &config, epoch),
            resequence: Resequence::new(preset, &config),
            mender: Mender::of(&config),
            striped: None,
            confirm: Confirm::default(),
            fragments: Fragments::new(&config),
            peer: Peer::new(),
            outbox: Outbox::default(),
            activity: Activity::default(),
            looked: Looked::default(),
            events: VecDeque::new(),
            stats: Stats::default(),
            rng,
            config,
        };
        for (n, channel) in bond.config.channels.clone().into_iter().enumerate() {
            bond.join(now, ChannelId(n as u8), channel)?;
        }
        bond.events.clear();
        Ok(bond)
    }

    /// The next packet for the host.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        let packet = self.resequence.pop()?;
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
        self.ingress.mtu
    }

    /// Counters of the whole bond.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counters of one channel; `None` if it never joined.
    pub fn channel_stats(&self, channel: ChannelId) -> Option<&ChannelStats> {
        self.channels.get(channel).filter(|_| self.channels.has(channel)).map(|c| &c.stats)
    }

    /// What is known of one channel at `now`; `None` if it never joined.
    pub fn channel_path(&self, now: Time, channel: ChannelId) -> Option<Measured> {
        let c = self.channels.get(channel).filter(|_| self.channels.has(channel))?;
        let mut measured = c.path.measured(now, c.usable, self.channels.least_transit());
        let bit = channel::bit(channel);
        if c.usable && self.channels.eligible() & bit == 0 {
            measured.state = State::Metered;
        } else if c.usable && self.channels.reserve.held() & bit != 0 {
            measured.state = State::Reserve;
        }
        Some(measured)
    }

    /// The settings that the bond was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What became of each flow's packets on their way to a channel, those of traffic classes among them; flows that share a flow
    /// bucket share an account. `None` with the discipline `fifo`, which tells none apart.
    pub fn accounts(&self) -> Option<&Accounts> {
        self.ingress.ledger.accounts()
    }

    /// How many packets of the host, and how many of their bytes, wait for a channel that is not chosen yet, those of traffic classes
    /// among them.
    pub fn waiting(&self) -> (usize, Bytes) {
        let Ingress { queue, line, prompt, acks, .. } = &self.ingress;
        let first = prompt.waiting.iter().chain(&acks.line.waiting);
        let first = first.fold((0, 0), |(packets, bytes), queued| (packets + 1, bytes + queued.packet.size().as_u64()));
        let classed = self.classed.all.iter().map(|class| &class.queue);
        let (packets, bytes) = classed
            .fold((queue.len() + line.len(), queue.bytes() + line.bytes()), |(packets, bytes), queue| {
                (packets + queue.len(), bytes + queue.bytes())
            });
        (packets + first.0, Bytes::new(bytes as u64 + first.1))
    }

    /// Bytes of memory that packets behind gaps and in the host queue take, with their book-keeping; in mode `stripe`
    /// also the bytes of the packets that wait for their turn.
    pub fn held_bytes(&self) -> usize {
        let lines = self.distribute.policy().map_or(0, |policed| policed.memory());
        self.resequencing_bytes()
            + self.ingress.queue.memory()
            + self.ingress.line.memory()
            + self.classed.memory()
            + lines
    }

    /// The part of [`Bond::held_bytes`] that waits for its order: in delay lines, behind gaps, or for its turn.
    pub fn resequencing_bytes(&self) -> usize {
        self.resequence.used() + self.stripe_buffered() + self.fragments.used()
    }

    /// Bytes of memory that copies of packets and rows of parity take, at the receiver.
    pub fn parity_bytes(&self) -> usize {
        self.mender.as_ref().map_or(0, |mender| mender.used())
    }

    fn event(&mut self, event: Event) {
        if self.events.len() < EVENT_LIMIT {
            self.events.push_back(event);
        }
    }
}
