//! What a bond knows of one of its channels.

use super::config::{ChannelConfig, Config};
use super::event::{ChannelStats, Link};
use super::path::Path;
use super::pmtu::Pmtu;
use crate::link::pacing::Pacer;
use crate::select::Policy;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use crate::wire::envelope;

/// One channel's state.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) config: ChannelConfig,
    /// In force: the configured rate, or the one reported since.
    pub(super) rate: Option<Rate>,
    pub(super) pacer: Option<Pacer>,
    pub(super) link: Link,
    /// The socket takes nothing, and since when.
    pub(super) blocked: Option<Time>,
    /// It takes nothing for too long.
    pub(super) stalled: bool,
    /// Nothing arrived for too long.
    pub(super) silent: bool,
    /// The peer hears nothing on it.
    pub(super) unheard: bool,
    /// Data may be sent on it: all of the above are well.
    pub(super) usable: bool,
    /// When a valid frame last arrived, or the link came up.
    pub(super) heard: Time,
    /// When the last heartbeat went.
    pub(super) heartbeat: Time,
    /// The highest bond number that the peer can know this channel to have passed.
    pub(super) high: u32,
    /// When data last went.
    pub(super) data: Option<Time>,
    /// Since when a first answer to an echo request is asked for; `None` once there was one.
    pub(super) unanswered: Option<Time>,
    /// The token of the echo requests that are not answered yet, and when the first of them went.
    pub(super) echo: Option<(u32, Time)>,
    pub(super) next_echo: Time,
    pub(super) pmtu: Pmtu,
    /// The delay beyond what the bond has sent.
    pub(super) path: Path,
    pub(super) stats: ChannelStats,
}

impl Channel {
    pub(super) fn new(now: Time, config: ChannelConfig) -> Channel {
        let mut channel = Channel {
            rate: config.rate,
            pacer: None,
            link: Link::Down,
            blocked: None,
            stalled: false,
            silent: false,
            unheard: false,
            usable: false,
            heard: now,
            heartbeat: now,
            high: 0,
            data: None,
            unanswered: Some(now),
            echo: None,
            next_echo: now,
            pmtu: Pmtu::new(now, config.mtu),
            path: Path::default(),
            stats: ChannelStats::default(),
            config,
        };
        channel.set_rate(channel.config.rate, channel.config.mtu);
        channel
    }

    /// Puts `rate` in force; `quantum` is what the discipline sends here in a round.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>, quantum: usize) {
        self.rate = rate;
        let Some(rate) = rate else {
            self.pacer = None;
            return;
        };
        let least = Bytes::from(self.config.mtu + self.config.framing);
        let usual = Bytes::from(2 * quantum).max(rate.bytes_in(Span::from_millis(1))).max(least);
        let burst = self.config.burst.unwrap_or(usual);
        match &mut self.pacer {
            Some(pacer) => pacer.set(rate, burst),
            None => self.pacer = Some(Pacer::new(rate, burst)),
        }
    }

    /// Wire bytes of a frame of `len` bytes, envelope included.
    #[inline]
    pub(super) fn wire(&self, len: usize) -> usize {
        len + self.config.overhead + self.config.framing
    }

    /// The largest frame, envelope included, that the path carries.
    pub(super) fn frame_limit(&self) -> usize {
        self.pmtu.current().saturating_sub(self.config.overhead)
    }

    /// Whether the link is there, so that frames can be exchanged at all.
    #[inline]
    pub(super) fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    /// Whether data can go now, and if not, when.
    #[inline]
    pub(super) fn ready_at(&self) -> Option<Time> {
        if self.blocked.is_some() {
            return None;
        }
        Some(self.pacer.as_ref().map_or(Time::ZERO, Pacer::ready_at))
    }

    /// Accounts for a frame of `len` bytes, envelope included.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time, len: usize) -> usize {
        let wire = self.wire(len);
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, wire);
        }
        wire
    }

    /// A round trip was measured (RFC 6298: the smoothed one moves by an eighth).
    pub(super) fn on_rtt(&mut self, rtt: Span) {
        let parts = |old: Span, new: Span, part: u64| {
            Span::from_nanos(old.as_nanos() - old.as_nanos() / part + new.as_nanos() / part)
        };
        let smooth = match self.stats.rtt {
            Some(old) => parts(old, rtt, 8),
            None => rtt,
        };
        self.stats.rtt = Some(smooth);
    }
}

impl Channel {
    /// Asks for a first answer to an echo request, from now on: the link came up, or the peer is another one.
    pub(super) fn ask_echo(&mut self, now: Time) {
        self.unanswered = Some(now);
        self.next_echo = now;
        self.echo = None;
    }
}

/// The set with only `channel` in it.
#[inline]
pub(super) const fn bit(channel: ChannelId) -> u64 {
    1u64 << (channel.0 & 63)
}

/// The channels of a set, lowest first.
pub(super) fn each(mut set: u64) -> impl Iterator<Item = ChannelId> + Clone {
    core::iter::from_fn(move || {
        let n = set.trailing_zeros();
        set &= set.checked_sub(1)?;
        Some(ChannelId(n as u8))
    })
}

/// Bytes of the envelope of a data frame.
pub(super) const fn head_len(config: &Config, raw: bool) -> usize {
    match config.mode {
        super::Mode::Ordered | super::Mode::Backup => envelope::ORDERED_LEN,
        super::Mode::Duplicate => envelope::DUPLICATE_LEN,
        super::Mode::Plain => envelope::PLAIN_LEN,
        super::Mode::Stripe if raw => 0,
        super::Mode::Stripe => envelope::PLAIN_LEN,
        super::Mode::Flow => match config.policy.policy {
            Policy::Broadcast => envelope::DUPLICATE_LEN,
            Policy::TrafficMeter(_) => envelope::ORDERED_LEN,
            _ if raw => 0,
            _ => envelope::PLAIN_LEN,
        },
    }
}
