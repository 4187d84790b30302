//! What a bond knows of one of its channels.

use super::ack_share::Share;
use super::config::ChannelConfig;
use super::event::ChannelStats;
use super::frame::Handling;
use super::reserve::Reserve;
use super::revisit::Revisit;
use super::room::Lately;
use crate::flow::matching::Name;
use crate::link::pacing::Pacer;
use crate::path::delay::Reference;
use crate::path::mtu::Pmtu;
use crate::path::{Counting, Path};
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use crate::wire::envelope::Feedback;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Most that a driver's lateness counts.
const MOST_LATE: Span = Span::from_millis(10);

/// One channel's state.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) config: ChannelConfig,
    /// In force: the configured rate, or the one reported since.
    pub(super) rate: Option<Rate>,
    pub(super) pacer: Option<Pacer>,
    /// By which the room in the host queue was reckoned.
    pub(super) reckoned: Option<Rate>,
    /// The highest of late, or the same where it is not sure.
    pub(super) highest: Option<Rate>,
    lately: Lately,
    /// Data may be sent on it.
    pub(super) usable: bool,
    /// When the last heartbeat went.
    pub(super) heartbeat: Time,
    /// The highest bond number that the peer can know this channel to have passed.
    pub(super) high: u32,
    /// By how much the driver was late lately when a packet waited for the law's pace: so much may be made up for.
    late: Span,
    /// When data last went.
    pub(super) data: Option<Time>,
    /// What acknowledgements have of it.
    pub(super) acks: Share,
    /// Whether it is asked for its rate while it is in reserve.
    pub(super) revisit: Revisit,
    /// What is measured, and the state that follows.
    pub(super) path: Path,
    pub(super) stats: ChannelStats,
}

impl Channel {
    pub(super) fn new(now: Time, config: ChannelConfig, counting: Counting) -> Channel {
        let mut channel = Channel {
            rate: config.rate,
            pacer: None,
            reckoned: None,
            highest: None,
            lately: Lately::default(),
            usable: false,
            heartbeat: now,
            high: 0,
            late: Span::ZERO,
            data: None,
            acks: Share::default(),
            revisit: Revisit::default(),
            path: Path::new(now, config.mtu, config.rate.is_some(), counting),
            stats: ChannelStats::default(),
            config,
        };
        channel.set_rate(channel.config.rate, channel.config.mtu);
        channel
    }

    /// The rate at which frames may go: what is in force, else what a law found.
    pub(super) fn known_rate(&self) -> Option<Rate> {
        self.rate.or_else(|| self.path.control.as_ref()?.path_rate())
    }

    /// Whether the channel carries no more than that.
    pub(super) fn is_sure_of_rate(&self) -> bool {
        self.rate.is_some() || self.path.control.as_ref().is_some_and(|control| !control.is_starting())
    }

    /// What it is known to carry, whether or not frames keep to it.
    pub(super) fn carries(&self) -> Option<Rate> {
        let measured = || self.path.control.as_ref().filter(|control| !control.is_starting())?.measured_rate();
        self.known_rate().or_else(measured)
    }

    /// Reckons the room in the host queue by what is known at `now`.
    pub(super) fn reckon(&mut self, now: Time) {
        self.reckoned = self.carries();
        self.highest = self.reckoned;
        // What a start finds out is above and below.
        if self.is_sure_of_rate() {
            self.highest = self.lately.highest(now, self.reckoned);
        }
    }

    /// Whether that is another rate than the one the host queue knows, by more than an eighth.
    pub(super) fn is_other_rate(&self) -> bool {
        match (self.reckoned, self.carries()) {
            (Some(before), Some(now)) => {
                let (before, now) = (before.as_bits_per_sec(), now.as_bits_per_sec());
                now.abs_diff(before) > before / 8
            }
            (before, now) => before != now,
        }
    }

    /// Whether frames keep to a rate, so that none wait on the way for others of ours, or will as soon as trains have told it: what is
    /// held for the usual delay must not be held longer in the midst of a connection's start, which would end it.
    pub(super) fn is_paced(&self, now: Time) -> bool {
        self.known_rate().is_some() || self.path.awaits_rate(now)
    }

    /// Puts `rate` in force; `quantum` is what the discipline sends here in a round.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>, quantum: usize) {
        self.rate = rate;
        let Some(rate) = rate else {
            // A law's pace stays.
            if self.path.control.is_none() {
                self.pacer = None;
            }
            return;
        };
        let least = Bytes::from(self.config.mtu + self.config.framing);
        let usual = Bytes::from(2 * quantum).max(rate.bytes_in(Span::from_millis(1))).max(least);
        let burst = self.config.burst.unwrap_or(usual);
        match &mut self.pacer {
            // A law's pace stays here too: what is owed at a pace of its own would count for a thousand times as much at this rate.
            Some(_) if self.path.control.is_some() => {}
            Some(pacer) => pacer.set(rate, burst),
            None => self.pacer = Some(Pacer::new(rate, burst)),
        }
    }

    /// Keeps what the link has of ours within `quantum`, where frames have at most `largest` bytes on the wire.
    pub(super) fn hold_within(&mut self, quantum: usize, largest: usize) {
        let Some((rate, pacer)) = self.rate.zip(self.pacer.as_mut()) else { return };
        pacer.set(rate, Bytes::from(quantum.saturating_sub(largest)));
    }

    /// The peer told of our frames, on this channel or `around` it: their pace follows the law, if there is one. `false`: of some that were never sent.
    pub(super) fn on_feedback(&mut self, now: Time, feedback: &Feedback, around: bool) -> bool {
        let told = self.path.on_feedback(now, feedback, around, self.config.framing);
        self.stats.rtt = self.path.rtt();
        self.follow_law(now);
        told
    }

    /// Frames go at the law's pace from now on, if there is a law and it has one.
    pub(super) fn follow_law(&mut self, now: Time) {
        let Some(control) = &self.path.control else { return };
        let Some(pace) = control.pacing_rate() else {
            if self.rate.is_none() {
                self.pacer = None;
            }
            return;
        };
        let pace = self.rate.map_or(pace, |rate| rate.min(pace)).max(Rate::from_bits_per_sec(1_000));
        let burst = pace.bytes_in(Span::from_millis(1) + self.late);
        let burst = burst.max(Bytes::from(2 * (self.config.mtu + self.config.framing)));
        match &mut self.pacer {
            Some(pacer) => pacer.rescale(now, pace, burst),
            None => self.pacer = Some(Pacer::new(pace, burst)),
        }
    }

    /// Wire bytes of a frame of `len` bytes, envelope included.
    #[inline]
    pub(super) fn wire(&self, len: usize) -> usize {
        len + self.config.overhead + self.config.framing
    }

    /// The largest frame, envelope included, that the path carries.
    pub(super) fn frame_limit(&self) -> usize {
        self.path.mtu.current().saturating_sub(self.config.overhead)
    }

    /// Whether the link is there, so that frames can be exchanged at all.
    #[inline]
    pub(super) fn is_up(&self) -> bool {
        self.path.signs.up
    }

    /// Whether data can go now, and if not, when.
    #[inline]
    pub(super) fn ready_at(&self) -> Option<Time> {
        self.soon_at().filter(|_| self.path.has_room())
    }

    /// When data may go by its pace, whether or not the law has room: it will soon. `None` while the socket takes nothing.
    #[inline]
    pub(super) fn soon_at(&self) -> Option<Time> {
        let pace = || self.pacer.as_ref().map_or(Time::ZERO, Pacer::ready_at);
        self.path.signs.blocked.is_none().then(pace)
    }

    /// A packet goes that waits since `since`.
    #[inline]
    pub(super) fn on_wait_over(&mut self, now: Time, since: Time) {
        let Some(ready) = self.pacer.as_ref().map(Pacer::ready_at).filter(|ready| since <= *ready) else { return };
        let decayed = Span::from_nanos(self.late.as_nanos() - self.late.as_nanos() / 256);
        self.late = now.since(ready).max(decayed).min(MOST_LATE);
    }

    /// When the link will have sent another full frame.
    #[inline]
    pub(super) fn sent_at(&self, now: Time) -> Time {
        self.pacer.as_ref().map_or(now, |pacer| pacer.free().max(now) + pacer.time_for(self.config.mtu))
    }

    /// Accounts for a data frame of `len` bytes, envelope included.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time, len: usize) -> usize {
        let wire = self.wire(len);
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, wire);
        }
        wire
    }

    /// The same of a frame that is counted among those of packets; what may be done with it.
    #[inline]
    pub(super) fn on_data_sent(&mut self, now: Time, len: usize) -> Handling {
        let wire = self.on_sent(now, len);
        let handling = if len > self.frame_limit() { Handling::Fragment } else { Handling::Usual };
        self.path.mtu.on_sent(now, len + self.config.overhead);
        self.data = Some(now);
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += wire as u64;
        handling
    }

    /// Accounts for a control frame of `len` bytes, envelope included. A law's pace is for what is under way by the law, which these
    /// are not: at the slowest pace they would keep data from going for ever.
    #[inline]
    pub(super) fn on_control_sent(&mut self, now: Time, len: usize) {
        self.stats.sent_control += 1;
        if self.path.control.is_none() {
            self.on_sent(now, len);
        }
    }

    /// A round trip was measured.
    pub(super) fn on_rtt(&mut self, rtt: Span) {
        self.path.on_rtt(rtt);
        self.stats.rtt = self.path.rtt();
    }
}

/// The channels of a bond, by number.
#[derive(Debug)]
pub(super) struct Channels {
    all: Vec<Channel>,
    /// Whether our frames are counted, and why.
    counting: Counting,
    /// Those that joined and have not left.
    pub(super) joined: u64,
    /// Those that data may be sent on.
    pub(super) usable: u64,
    /// Of these, those that wait until they are needed.
    pub(super) reserve: Reserve,
    /// Those that carry data only while there are no others.
    metered: u64,
    /// Those that joined and could not be used.
    pub(super) unwell: u64,
}

impl Channels {
    /// None yet; the frames that we send are counted as `counting` says.
    pub(super) fn new(counting: Counting) -> Channels {
        Channels { all: Vec::new(), counting, joined: 0, usable: 0, metered: 0, unwell: 0, reserve: Reserve::default() }
    }

    /// Adds a channel, or gives one other settings; one that is up stays so.
    pub(super) fn join(&mut self, now: Time, channel: ChannelId, config: ChannelConfig) {
        while self.all.len() <= channel.index() {
            self.all.push(Channel::new(now, ChannelConfig::default(), self.counting));
        }
        let c = &mut self.all[channel.index()];
        if self.joined & bit(channel) == 0 || !c.is_up() {
            let before = core::mem::replace(c, Channel::new(now, config, self.counting));
            c.path.succeed(before.path);
        } else {
            if c.config.mtu != config.mtu {
                c.path.mtu = Pmtu::new(now, config.mtu);
            }
            if c.config.rate.is_some() != config.rate.is_some() {
                c.path.set_law(config.mtu, config.rate.is_some(), self.counting);
            }
            c.rate = config.rate;
            c.config = config;
        }
        self.joined |= bit(channel);
    }

    /// Whether `channel` is one of the bond's; any number may be asked for.
    #[inline]
    pub(super) fn has(&self, channel: ChannelId) -> bool {
        channel.index() < self.all.len() && self.joined & bit(channel) != 0
    }

    /// How many numbers are taken, by channels that left too.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The channel of that number, if it is taken.
    #[inline]
    pub(super) fn get(&self, channel: ChannelId) -> Option<&Channel> {
        self.all.get(channel.index())
    }

    /// All whose numbers are taken.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ChannelId, &Channel)> {
        self.all.iter().enumerate().map(|(n, c)| (ChannelId(n as u8), c))
    }

    /// From now on those of these names cost money.
    pub(super) fn set_metered(&mut self, names: &[Name]) {
        self.metered = self.where_each(|c| names.iter().any(|name| name.0 == c.config.name));
    }

    /// Those that cost money.
    #[inline]
    pub(super) fn metered(&self) -> u64 {
        self.metered
    }

    /// Those that may carry data at all: the usable ones that cost nothing, or all where each costs something.
    #[inline]
    pub(super) fn eligible(&self) -> u64 {
        let free = self.usable & !self.metered;
        if free != 0 { free } else { self.usable }
    }

    /// Those that carry data.
    #[inline]
    pub(super) fn in_use(&self) -> u64 {
        self.eligible() & !self.reserve.held()
    }

    /// Those that may carry a little: besides, those that carry too little for all else. One of them may be the fastest.
    #[inline]
    pub(super) fn for_little(&self) -> u64 {
        self.in_use() | self.eligible() & self.reserve.slight
    }

    /// Bytes of data sent on all channels, link-layer headers counted.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.all.iter().map(|c| c.stats.sent_bytes).sum()
    }

    /// The joined channels for which `test` holds.
    pub(super) fn where_each(&self, test: impl Fn(&Channel) -> bool) -> u64 {
        each(self.joined).filter(|c| test(&self[*c])).fold(0, |set, c| set | bit(c))
    }

    /// Whether any data frame was sent.
    pub(super) fn sent_any(&self) -> bool {
        self.joined != 0 && self.all.iter().any(|c| c.stats.sent_packets > 0)
    }

    /// What the delays of paths are measured against.
    pub(super) fn reference(&self) -> Option<Reference> {
        Reference::of(self.all.iter().map(|c| &c.path.delay))
    }

    /// The smallest transit that the peer's feedback tells of any.
    pub(super) fn least_transit(&self) -> Option<i64> {
        self.all.iter().filter_map(|c| c.path.flight.as_ref()?.transit()).min()
    }

    /// The peer is another one, with another clock.
    pub(super) fn forget_peer(&mut self) {
        self.all.iter_mut().for_each(|c| c.path.forget_peer());
    }
}

impl Index<ChannelId> for Channels {
    type Output = Channel;

    #[inline]
    fn index(&self, channel: ChannelId) -> &Channel {
        &self.all[channel.index()]
    }
}

impl IndexMut<ChannelId> for Channels {
    #[inline]
    fn index_mut(&mut self, channel: ChannelId) -> &mut Channel {
        &mut self.all[channel.index()]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;

    #[test]
    fn a_rate_that_is_set_again_does_not_make_more_of_what_is_owed_at_a_laws_pace() {
        let law = Some(Algorithm::Cubic);
        let mut channel = Channel::new(
            Time::ZERO,
            ChannelConfig { rate: Some(Rate::from_mbit(200)), ..ChannelConfig::default() },
            Counting { counts: true, law, ..Counting::default() },
        );
        let now = Time::from_millis(1000);
        channel.pacer = Some(Pacer::new(Rate::from_bits_per_sec(180_000), Bytes::new(3000)));
        for _ in 0..5 {
            channel.on_sent(now, 1400);
        }
        let ready = channel.ready_at();
        channel.set_rate(Some(Rate::from_mbit(200)), 1500);
        assert_eq!(channel.ready_at(), ready);
    }
}
