//! Channels that fail and return: which of those that are well are used, and what tells of a failure besides a channel's own silence.
//!
//! | what is seen | what follows |
//! |---|---|
//! | nothing arrives here while other channels bring something ([`life`](crate::path::life)) | the channel is silent |
//! | this process did not run for a while | that time is no silence of anybody |
//! | a channel was out of use, while the peer was heard elsewhere | it failed; when it fails again and again, it is held back ([`hold`](crate::path::hold)) |
//! | what goes by it comes so much later than by the others that nobody waits for it | it is set aside |
//! | it carries little, and what goes by it waits longer than that is worth | it is set aside |
//! | it loses so much that it brings less than it costs ([`worth`](crate::path::worth)) | it is set aside, and has failed |
//!
//! Channels that are held back or set aside are used all the same where there is no other. No channel is more than the others:
//! each tells of all of them, and whatever returns first carries on. Cost: O(channels) a look.

use super::Bond;
use super::channel::{bit, each};
use super::config::Config;
use super::event::{Event, Reason};
use crate::packet::Packet;
use crate::path::life::Limits;
use crate::units::{ChannelId, Span, Time};

/// Timers that run out so much too late tell that this process did not run.
const LATE: Span = Span::from_millis(50);
/// How often is looked whether a channel is silent, once it may be.
const LOOK_EVERY: Span = Span::from_millis(20);
/// How long after a failure heartbeats go twice a second, also when there is no traffic.
const SOON: Span = Span::from_secs(600);
/// How much longer another channel's arrivals are waited for before they tell of the peer.
const ELSEWHERE: Span = Span::from_millis(50);

/// A channel carries little if it is one part in so many of all.
const SMALL: u64 = 16;
/// So long may packets wait on any channel, however little it carries.
const SHORT: Span = Span::from_millis(50);

/// Transits that differ by more, in nanoseconds, are of a clock that was set in between.
const CLOCK: i64 = 10_000_000_000;

impl<P: Packet> Bond<P> {
    /// Whether channels are compared, so that one that fails is left promptly.
    pub(super) fn is_prompt(&self) -> bool {
        self.config.silent_after > Span::ZERO
    }

    fn limits(&self) -> Limits {
        let Config { silent_after, heartbeat, .. } = self.config;
        Limits { silent_after, heartbeat }
    }

    /// Timers are served at `now`. Where that is much too late, for whatever reason, nobody was silent meanwhile.
    pub(super) fn on_turn(&mut self, now: Time) {
        let before = core::mem::replace(&mut self.looked.turn, now).max(self.last_traffic());
        if now.since(before) < LATE || !self.is_prompt() {
            return;
        }
        // Traffic that begins makes heartbeats due at once.
        let late = self.poll_timeout().map_or(Span::ZERO, |(due, _)| now.since(due.max(before)));
        if late < LATE {
            return;
        }
        for channel in each(self.channels.joined) {
            self.channels[channel].path.on_late(now, late);
        }
    }

    /// Whether `channel` failed so lately, seen from `at`, that its return is waited for with traffic or without: whoever sends next is to find it.
    pub(super) fn may_return_soon(&self, channel: ChannelId, at: Time) -> bool {
        self.is_prompt() && self.channels[channel].path.hold.failed().is_some_and(|failed| at.since(failed) < SOON)
    }

    /// When the next look is due whether `channel` is silent beside the others.
    pub(super) fn look_at(&self, channel: ChannelId) -> Option<Time> {
        let signs = &self.channels[channel].path.signs;
        if !self.is_prompt() || signs.silent || !self.is_active() {
            return None;
        }
        let at = signs.life.look_at(self.limits());
        Some(if at <= self.looked.silence { self.looked.silence + LOOK_EVERY } else { at })
    }

    /// Which channels are silent although another one is not.
    pub(super) fn silent_beside(&mut self, now: Time) -> u64 {
        let due = |channel: ChannelId| self.look_at(channel).is_some_and(|at| at <= now);
        let due = each(self.channels.joined).filter(|c| self.channels[*c].is_up() && due(*c));
        let due = due.fold(0, |set, channel| set | bit(channel));
        if due == 0 {
            return 0;
        }
        self.looked.silence = now;
        let silent = |channel: ChannelId| {
            let path = &self.channels[channel].path;
            let own = path.rtt().unwrap_or(Span::ZERO);
            each(self.channels.joined & !bit(channel)).any(|other| {
                let other = &self.channels[other];
                let less = own - other.path.rtt().unwrap_or(Span::ZERO);
                other.is_up() && path.signs.life.is_silent_beside(now, &other.path.signs.life, less, self.limits())
            })
        };
        each(due).filter(|c| silent(*c)).fold(0, |set, channel| set | bit(channel))
    }

    /// Whether any channel but `channel` brought something since `since`, there is no other, or nobody asks.
    pub(super) fn heard_elsewhere(&self, channel: ChannelId, since: Time) -> bool {
        let others = self.channels.where_each(|c| c.is_up()) & !bit(channel);
        others == 0 || !self.is_prompt() || each(others).any(|c| self.channels[c].path.signs.life.heard() > since)
    }

    /// Something arrived on `channel` while others are out of use.
    #[cold]
    pub(super) fn on_heard_elsewhere(&mut self, now: Time, channel: ChannelId) {
        let reference = self.channels.reference();
        let way = self.way(channel, reference) + ELSEWHERE;
        for other in each(self.channels.unwell & !bit(channel)) {
            let own = self.way(other, reference);
            self.channels[other].path.hold.on_elsewhere(now, way, own);
        }
    }

    /// Which of the channels that are `well` are used: not those that failed again and again, nor those that are too late or lose too
    /// much, while there are others. Losing too much is a failure: whoever does it again and again is held back too.
    pub(super) fn choose(&mut self, now: Time, well: u64) -> u64 {
        let whole = well & !self.channels.where_each(|c| c.path.signs.lossy);
        self.channels.unwell = self.channels.joined & !whole;
        for channel in each(self.channels.joined) {
            let hold = &mut self.channels[channel].path.hold;
            if let Some((span, failures)) = hold.follow(now, whole & bit(channel) != 0, self.config.hold_down) {
                self.event(Event::ChannelHeld { channel, span, failures });
            }
        }
        let aside = self.channels.where_each(|c| c.path.signs.late || c.path.hold.until().is_some());
        let aside = aside | self.worthless(well & !whole, whole & !aside);
        if well & !aside == 0 { well } else { well & !aside }
    }

    /// Which of the channels that are `lossy` are left out where `others` work: those that carry less than the others do together,
    /// of which no money is asked. Where a rate is not known the others are taken to carry enough.
    fn worthless(&self, lossy: u64, others: u64) -> u64 {
        let free = others & !self.channels.metered();
        let carries = |channel| self.channels[channel].known_rate();
        let all = each(free).map(carries).try_fold(0u64, |sum, rate| Some(sum.saturating_add(rate?.as_bits_per_sec())));
        let enough = |channel: &ChannelId| match (carries(*channel), all) {
            (Some(own), Some(all)) => own.as_bits_per_sec() <= all,
            _ => true,
        };
        if free == 0 { 0 } else { each(lossy).filter(enough).fold(0, |set, channel| set | bit(channel)) }
    }

    /// Uses channels again that were held back for long enough.
    pub(super) fn release_held(&mut self, now: Time) {
        let mut over = false;
        for channel in each(self.channels.joined) {
            over |= self.channels[channel].path.hold.poll_over(now);
        }
        if over {
            self.refresh(now, Reason::HeldBack);
        }
    }

    /// The transit of what goes by `channel` was measured: whether it still comes in time. Where a receiver keeps order, it holds what
    /// others bring for `equalize` at most, and then waits for `deadline`. So what comes later than others by the first and four fifths of the second
    /// is of no use; it is of use again below seven tenths.
    ///
    /// A channel that carries little is worth less: [`Bond::worth_waiting`]. It is of use again below three fifths of that.
    ///
    /// A peer that stood still takes what came meanwhile all at once, and all of it late. So that counts only if the peer took something else while
    /// this was late.
    pub(super) fn look_whether_late(&mut self, now: Time, channel: ChannelId) {
        if !self.number.resends() || !self.is_prompt() {
            return;
        }
        let recent = |c: ChannelId| self.channels[c].path.recent();
        let Some(own) = recent(channel) else { return };
        self.looked.taken.note(own.arrived);
        let late = self.channels[channel].path.signs.late;
        let tenths = if late { 7 } else { 8 };
        let bound = (self.config.equalize.as_nanos() + self.config.deadline().times(tenths).as_nanos() / 10) as i64;
        let least = each(self.channels.usable & !bit(channel)).filter_map(recent).map(|other| other.took).min();
        let beyond = least.map_or(0, |least| own.took.saturating_sub(least));
        // The peer's clock was set: that is no delay.
        if beyond > CLOCK {
            return;
        }
        let (mut beyond, mut bound) = (beyond, bound);
        if let Some(small) = self.worth_waiting(channel) {
            let waits = self.channels[channel].path.delay.beyond_least(own.took);
            let small = if late { small.as_nanos() / 5 * 3 } else { small.as_nanos() } as i64;
            if late || waits > small {
                (beyond, bound) = (waits, small);
            }
        }
        let ran = || self.looked.taken.any_within(own.arrived, beyond, bound);
        if late != (beyond > bound) && (late || ran()) {
            self.channels[channel].path.signs.late = !late;
            if late {
                self.channels[channel].path.delay.doubt();
            }
            self.refresh(now, Reason::Delay);
        }
    }

    /// How long packets may wait on `channel` beyond its least, where it carries one part in [`SMALL`] of all at most; `None` of others. Whoever
    /// keeps order has all wait for it, and so little is not worth that.
    fn worth_waiting(&self, channel: ChannelId) -> Option<Span> {
        let rate = |c: ChannelId| Some(self.channels[c].known_rate()?.as_bits_per_sec());
        let own = rate(channel)?;
        let others =
            each(self.channels.usable & !bit(channel)).try_fold(0u64, |sum, c| Some(sum.saturating_add(rate(c)?)))?;
        let all = own.saturating_add(others);
        if own > all / SMALL {
            return None;
        }
        let whole = u128::from((self.config.equalize + self.config.deadline()).as_nanos());
        let share = (whole * u128::from(own) / u128::from(all.max(1))) as u64;
        Some(Span::from_nanos(share).max(SHORT) + self.channels[channel].path.delay.full_variation())
    }
}
