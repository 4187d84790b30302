//! How packets of traffic classes go: by the channels that their class may have, and in its mode.
//!
//! What it is: mode `reliable` with classes ([`classed`](super::classed)). A packet's class is looked for when it comes from the host.
//!
//! | mode of the class | which channel | the receiver delays it |
//! |---|---|---|
//! | `reliable`, any channel | as what matches no class | as that |
//! | `reliable`, not all | of those that may send, the one that has sent a packet first | by what is usual on its channel; where its channels are all that are in use, as what matches no class |
//! | `prompt` | the one that brings it first ([`prompt`](super::prompt)), before others | by nothing |
//! | `duplicate` | as `prompt`, and again by each other one as soon as that may send, unless the peer told by then that it has it | by nothing; the first frame counts |
//! | `backup` | the usable one of the best priority | by what is usual on its channel |
//!
//! The channels that may carry a class are those that it names and that are usable; the channels in use where it names none; of these
//! the ones that usually take at most `latency` longer than the fastest usable one, and if there is none, the fastest of them. Where none of those that
//! it names works, what it says of channels does not count, unless it says that `only` these may carry it: then its packets wait for one of them, for
//! [`Config::deadline`](super::Config::deadline), and are dropped after that. What is lost goes again by the same channels.
//!
//! Source: ours. The peer needs to know nothing of this: what it gets is numbered by flow buckets, and the sender says by the stamp how a
//! packet is to be delayed. Cost: O(classes + channels) a packet of a class, O(classes x channels) when a channel comes or goes or a delay is measured.
//! Invariants: packets of a flow bucket are numbered as they leave, from one queue; a class is never carried by a channel that may not carry it,
//! but for tests of a channel by what was lost there.

use super::Bond;
use super::channel::{bit, each};
use super::class::ClassMode;
use super::classed::{Another, ClassReport, places};
use super::express::Haste;
use super::frame::Transmit;
use super::keep::About;
use super::lines::UNPACED;
use super::number::Numbers;
use super::queue::{self, Queued};
use crate::ip::Header;
use crate::packet::Packet;
use crate::units::{ChannelId, Rate, Span, Time};
use crate::wire::stamp::Stamp;

impl<P: Packet> Bond<P> {
    /// What there is to tell of each traffic class, in their order.
    pub fn classes(&self) -> impl Iterator<Item = ClassReport<'_>> {
        self.classed.reports()
    }

    /// Takes a packet from the host that is of `class`.
    #[inline(never)]
    pub(super) fn enqueue_class(&mut self, class: usize, header: &Header, queued: Queued<P>) {
        let Some(c) = self.classed.all.get_mut(class) else { return };
        if c.down.is_some_and(|down| queued.since.since(down) >= self.config.deadline()) {
            c.stats.dropped += 1;
            self.stats.no_channel += 1;
            return self.ingress.ledger.on_dropped(queued.account);
        }
        let queued = Queued { bucket: self.classed.bucket(class, queued.bucket), ..queued };
        if self.classed.all[class].has_queue() {
            let waiting = self.ingress.queue.memory() + self.ingress.line.memory() + self.classed.memory();
            let memory = waiting + queue::cost::<P, ()>(&queued.packet);
            if memory > self.config.queue_bytes {
                self.classed.all[class].stats.dropped += 1;
                self.ingress.ledger.on_dropped(queued.account);
                return self.on_no_room(1);
            }
            let dropped = self.classed.offer(class, queued, &mut self.ingress.ledger);
            return self.on_no_room(dropped);
        }
        // As without the class, but for what would be prompt by itself.
        if self.channels.usable != 0 && self.goes_as_ack(header, queued.packet.bytes(), queued.bucket) {
            self.acknowledge(header, queued.noted(Haste::Steady));
        } else {
            let dropped = self.ingress.queue.offer(queued, &mut self.ingress.ledger);
            self.classed.all[class].stats.dropped += dropped;
            self.on_no_room(dropped);
        }
    }

    /// Works out anew which channels carry each class: other channels are usable, or in use, or a delay was measured.
    pub(super) fn refresh_classes(&mut self, now: Time) {
        if self.classed.all.is_empty() {
            return;
        }
        self.classed.extend(self.channels.len());
        let (usable, in_use, for_little) = (self.channels.usable, self.channels.in_use(), self.channels.for_little());
        let reference = self.channels.reference();
        let channels = &self.channels;
        let takes = |channel: ChannelId| {
            let delay = &channels[channel].path.delay;
            Some(delay.delay(reference)? + delay.full_variation())
        };
        let fastest = |set: u64| each(set).filter_map(|c| Some((takes(c)?, c))).min();
        let least = fastest(usable).map_or(Span::ZERO, |(takes, _)| takes);
        let waits = self.waits();
        let before = Time::from_nanos(now.as_nanos().saturating_sub(self.config.deadline().as_nanos()));
        for class in 0..self.classed.all.len() {
            let c = &mut self.classed.all[class];
            let names = &c.config.channels.0;
            let is_named = |channel: &ChannelId| names.iter().any(|name| name.0 == channels[*channel].config.name);
            let named = each(usable).filter(is_named).fold(0, |set, channel| set | bit(channel));
            let wanted = match (named, names.is_empty(), c.config.only) {
                (0, false, true) => 0,
                (0, ..) if c.config.latency.is_some() => for_little,
                (0, ..) => in_use,
                _ => named,
            };
            let within = |budget: Span| {
                let soon = |channel: &ChannelId| takes(*channel).is_some_and(|takes| takes <= least + budget);
                let within = each(wanted).filter(soon).fold(0, |set, channel| set | bit(channel));
                if within != 0 { within } else { fastest(wanted).map_or(wanted, |(_, channel)| bit(channel)) }
            };
            c.carriers = c.config.latency.map_or(wanted, within);
            let failed = c.config.only && named == 0;
            let down = c.down;
            c.down = failed.then(|| down.unwrap_or(now));
            if !c.is_urgent() && c.has_queue() {
                let present: Option<Rate> = each(c.carriers).map(|channel| channels[channel].reckoned).sum();
                let highest: Option<Rate> = each(c.carriers).map(|channel| channels[channel].highest).sum();
                let rates = present.zip(highest);
                let room = rates.map_or(UNPACED, |(present, highest)| waits.room(present, highest));
                c.queue.set_bounds(Some(room), self.config.queue_bytes);
            }
            if down.is_some() {
                let dropped = c.queue.drop_before(before, &mut self.ingress.ledger);
                c.stats.dropped += dropped;
                self.stats.no_channel += dropped;
                self.classed.note(class);
            }
        }
        self.stats.copies_skipped += self.classed.forget_copies(usable);
    }

    /// After an outage nobody waits for what came before `oldest`.
    pub(super) fn drop_old_of_classes(&mut self, oldest: Time) {
        for class in places(self.classed.urgent | self.classed.bulk) {
            let dropped = self.classed.all[class].queue.drop_before(oldest, &mut self.ingress.ledger);
            self.classed.all[class].stats.dropped += dropped;
            self.stats.no_channel += dropped;
            self.classed.note(class);
        }
    }

    /// The channels that may carry packets of `bucket` again.
    #[inline]
    pub(super) fn carriers(&self, bucket: u16) -> u64 {
        let in_use = self.channels.in_use();
        match self.classed.of_bucket(bucket) {
            Some(class) if class.down.is_some() => 0,
            Some(class) if class.has_queue() && class.carriers & self.channels.usable != 0 => match class.config.mode {
                ClassMode::Backup => self.best(class.carriers & self.channels.usable).map_or(in_use, bit),
                _ => class.carriers & self.channels.usable,
            },
            _ => in_use,
        }
    }

    /// The one of `channels` with the best priority.
    fn best(&self, channels: u64) -> Option<ChannelId> {
        each(channels).min_by_key(|c| (self.channels[*c].config.priority, *c))
    }

    /// The next packet of a class whose packets are urgent, or the next that is to go once more.
    #[inline(never)]
    pub(super) fn next_urgent(&mut self, now: Time) -> Option<Transmit<P>> {
        let oldest = Time::from_nanos(now.as_nanos().saturating_sub(self.config.queue_time.as_nanos()));
        for class in places(self.classed.urgent) {
            let c = &mut self.classed.all[class];
            // While no channel is usable they wait as long as others do.
            if self.channels.usable != 0 {
                let dropped = c.queue.drop_before(oldest, &mut self.ingress.ledger);
                c.stats.dropped += dropped;
                self.stats.queue_full += dropped;
            }
            if let Some(frame) = self.next_of_urgent(now, class) {
                return Some(frame);
            }
        }
        self.next_copy(now)
    }

    /// The next packet of `class`, whose packets are urgent.
    fn next_of_urgent(&mut self, now: Time, class: usize) -> Option<Transmit<P>> {
        let c = &mut self.classed.all[class];
        c.at = None;
        let (carriers, by, mode) = (c.carriers, c.by, c.config.mode);
        let Some(since) = c.queue.first().map(|first| first.since) else {
            self.classed.note(class);
            return None;
        };
        let (first, at) = self.first_for_prompt(now, by, carriers)?;
        let channel = match mode {
            _ if self.may_send(now, first) => Some(first),
            // The copies go by the others anyway.
            ClassMode::Duplicate => each(carriers).find(|c| self.may_send(now, *c)),
            _ => self.prompt_by(now, first, now.since(since), carriers),
        };
        let Some(channel) = channel else {
            self.classed.all[class].at = Some(at).filter(|at| *at > now);
            return None;
        };
        self.classed.all[class].by = Some(channel);
        let queued = self.classed.all[class].queue.take(now)?;
        queued.on_sent(now, &mut self.ingress.ledger);
        self.classed.note(class);
        let about = About::of(&queued, Numbers { stamp: Stamp::NONE, ..self.number.assign(queued.bucket) });
        let idle = self.classed.urgent == 0 && self.ingress.queue.is_empty() && !self.classed.wait_for(channel);
        let frame = self.send(now, channel, queued.packet, about, idle, None);
        let others = carriers & !bit(channel);
        if mode == ClassMode::Duplicate
            && let Some(note) = self.protect.keeper.as_ref().and_then(|keeper| keeper.lent())
        {
            self.stats.copies_skipped += self.classed.copy(now, note, others);
        }
        Some(frame)
    }

    /// The next frame of a packet that went by another channel and is to go by this one too.
    fn next_copy(&mut self, now: Time) -> Option<Transmit<P>> {
        self.classed.copies_at = None;
        if self.classed.copying == 0 {
            return None;
        }
        self.peer.tag()?;
        for channel in each(self.classed.copying & self.channels.usable) {
            let Some(at) = self.channels[channel].ready_at() else { continue };
            if at > now {
                self.classed.copies_at = Some(self.classed.copies_at.map_or(at, |before| before.min(at)));
                continue;
            }
            while let Some(Another { since, note }) = self.classed.next_copy(channel) {
                let late = now.since(since) > self.config.queue_time;
                let kept = self.protect.keeper.as_ref().and_then(|keeper| keeper.under_way(note));
                let Some((about, packet)) = kept.filter(|_| !late) else {
                    self.stats.copies_skipped += u64::from(late);
                    continue;
                };
                let Some(packet) = packet.duplicate() else {
                    self.stats.copies_skipped += 1;
                    continue;
                };
                if let Some(class) = self.classed.of_bucket_mut(about.bucket) {
                    class.stats.copies += 1;
                }
                return Some(self.send(now, channel, packet, about, false, Some(note)));
            }
        }
        None
    }

    /// The next packet that is not urgent, of whoever's turn it is and may go.
    #[inline(never)]
    pub(super) fn next_in_turn(&mut self, now: Time) -> Option<Transmit<P>> {
        self.call_reserve(now);
        let (mut left, mut rest) = (self.classed.bulk, !self.ingress.queue.is_empty());
        while let Some(who) = self.classed.next(left, rest) {
            let frame = match who {
                Some(class) => self.next_of_class(now, class),
                None => self.next_queued(now),
            };
            if let Some(frame) = frame {
                let bytes = frame.packet.as_ref().map_or(0, |packet| packet.size().as_u64() as usize);
                self.classed.on_turn(who, bytes);
                return Some(frame);
            }
            match who {
                Some(class) => left &= !(1 << (class & 63)),
                None => rest = false,
            }
        }
        if self.ingress.queue.is_empty() { self.next_spare(now) } else { None }
    }

    /// The next packet of `class`, whose packets are not urgent.
    fn next_of_class(&mut self, now: Time, class: usize) -> Option<Transmit<P>> {
        let c = &mut self.classed.all[class];
        c.at = None;
        let (carriers, mode) = (c.carriers, c.config.mode);
        let ready = |channel: ChannelId| self.channels[channel].ready_at();
        let (at, channel) = match mode {
            ClassMode::Backup => {
                let best = self.best(carriers)?;
                (ready(best)?, best)
            }
            _ => {
                let first = |channel: ChannelId| {
                    let (c, at) = (&self.channels[channel], ready(channel)?);
                    // What may go now is compared by when it will have left, and the rest by when it may go.
                    Some((at.max(now), c.sent_at(now), c.data, channel))
                };
                let (at, .., channel) = each(carriers).filter_map(first).min()?;
                (at, channel)
            }
        };
        if at > now {
            self.classed.all[class].at = Some(at);
            return None;
        }
        let queued = self.classed.all[class].queue.pop(now, &mut self.stats, &mut self.ingress.ledger);
        self.classed.note(class);
        let queued = queued?;
        queued.on_sent(now, &mut self.ingress.ledger);
        let in_use = self.channels.in_use();
        let spread = mode == ClassMode::Reliable && carriers & in_use == in_use;
        let stamp = if spread { Stamp::of(now) } else { Stamp::alone(now) };
        let about = About::of(&queued, Numbers { stamp, ..self.number.assign(queued.bucket) });
        let idle = self.ingress.queue.is_empty() && !self.classed.wait_for(channel);
        self.channels[channel].on_wait_over(now, queued.since);
        let frame = self.send(now, channel, queued.packet, about, idle, None);
        if idle {
            self.on_nothing_left(channel);
        }
        Some(frame)
    }

    /// Nothing waits for a channel but what waits for the others by their class: `first` has sent the last.
    pub(super) fn on_nothing_left(&mut self, first: ChannelId) {
        for other in each(self.channels.usable & !bit(first)) {
            if !self.classed.wait_for(other) {
                self.channels[other].path.on_idle();
            }
        }
    }
}
