//! When channels of the [reserve](super::reserve) carry data: by what waits for the others, or is made to wait ([`ramp`](super::ramp)), and by what they could
//! carry. When they are asked for their rates again ([`revisit`]).
//!
//! Cost: O(n^2) for n channels when a delay or a rate is measured, O(1) a packet. Invariant: whoever changes what is held back has the peer
//! told, which makes up for the delays of channels in use only.

use super::Bond;
use super::channel::{bit, each};
use super::host::Ingress;
use super::queue::Queued;
use super::reserve::{Candidate, over, sum, used_at_once};
use super::revisit::{self, Held};
use super::slight::slight;
use crate::packet::Packet;
use crate::path::train::Train;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::vec::Vec;

/// For how long so much has to wait that a channel is called: slow start leaves a queue behind that goes by itself.
const STANDS: Span = Span::from_millis(100);
/// How often one looks whether the reserve is needed.
const EVERY: Span = Span::from_secs(1);
/// For how long what is sent has to fit the other channels, with a quarter to spare.
const QUIET: Span = Span::from_secs(2);

impl<P: Packet> Bond<P> {
    /// The channels whose rates and delays are known, of those that may be used at all, in the order of their delays; `None` where one's are not.
    pub(super) fn candidates(&self) -> Option<Vec<Candidate>> {
        let reference = self.channels.reference();
        let candidate = |channel: ChannelId| {
            let c = &self.channels[channel];
            // What its packets usually take: the peer gives the others as long.
            let delay = c.path.delay.delay(reference)? + c.path.delay.full_variation();
            let loss = c.path.flight.as_ref().and_then(|flight| flight.losses.own_ppm()).unwrap_or(0);
            let (rate, sure) = (c.known_rate()?, c.is_sure_of_rate());
            Some(Candidate { channel, rate, sure, loss, delay, trip: c.path.rtt()? })
        };
        let mut all = each(self.channels.eligible()).map(candidate).collect::<Option<Vec<_>>>()?;
        all.sort_by_key(|c| (c.delay, c.channel));
        Some(all)
    }

    fn has_reserve(&self) -> bool {
        self.config.reserve && self.number.resends()
    }

    /// Plans anew which channels are held back: what is known of channels has changed, or which there are.
    pub(super) fn plan_reserve(&mut self) {
        let all = if self.has_reserve() { self.candidates() } else { None };
        let reserve = &mut self.channels.reserve;
        reserve.ramp.lose();
        let Some(mut all) = all else {
            (reserve.planned, reserve.slight, reserve.called) = (0, 0, 0);
            return;
        };
        let slight = slight(&all, reserve.slight);
        all.retain(|c| slight & bit(c.channel) == 0);
        let among = all.iter().fold(0, |set, c| set | bit(c.channel));
        let decided = core::mem::replace(&mut reserve.among, among) == among;
        let before = all.iter().filter(|c| reserve.planned & bit(c.channel) == 0).count();
        let used = used_at_once(&all, Some(before).filter(|n| decided && *n > 0));
        // The fastest of all is needed whatever is sent.
        let needed = all.iter().skip(1).position(|c| reserve.demand.unneeded & bit(c.channel) != 0);
        let used = needed.map_or(used, |n| used.min(n + 1));
        reserve.slight = slight;
        reserve.planned = all[used..].iter().fold(slight, |set, c| set | bit(c.channel));
        reserve.called &= reserve.planned & !slight;
        reserve.base = Some(sum(&all[..used]));
        // The next one to be called, and the rate and the longest delay of those in use.
        let (mut bits, mut delay) = (0u64, Span::ZERO);
        for c in &all {
            if reserve.held() & bit(c.channel) != 0 {
                let (rate, longer) = (Rate::from_bits_per_sec(bits), c.delay - delay);
                let waits = rate.bytes_in(longer);
                reserve.ramp.towards(all[0].trip, longer, c.rate, rate);
                // No more than the queue may hold, by far.
                reserve.call_at = (waits.as_u64() as usize).min(self.config.queue_bytes / 4);
                break;
            }
            bits = bits.saturating_add(c.rate.as_bits_per_sec());
            delay = c.delay;
        }
    }

    /// Plans anew, and does what follows if other channels are held back than before.
    pub(super) fn replan_reserve(&mut self, now: Time) {
        let before = self.channels.reserve.announced;
        self.plan_reserve();
        if self.channels.reserve.held() != before {
            self.follow_reserve(now);
        }
    }

    /// Other channels carry data from now on.
    fn follow_reserve(&mut self, now: Time) {
        self.rebuild(now, 0);
        self.channels.reserve.announced = self.channels.reserve.held();
        self.announce(now);
    }

    /// Calls the next channel of the reserve if so much has waited for some time that the wait is longer than its way.
    #[inline]
    pub(super) fn call_reserve(&mut self, now: Time) {
        let reserve = &mut self.channels.reserve;
        if reserve.waiting() == 0 {
            return;
        }
        if self.ingress.bytes() + self.classed.bulk_for_any() <= reserve.call_at {
            reserve.waits = None;
        } else if now.since(*reserve.waits.get_or_insert(now)) >= STANDS {
            self.call_next(now);
        }
    }

    #[cold]
    fn call_next(&mut self, now: Time) {
        let Some(all) = self.candidates() else { return };
        let reserve = &mut self.channels.reserve;
        let Some(next) = all.iter().find(|c| reserve.waiting() & bit(c.channel) != 0) else { return };
        reserve.called |= bit(next.channel);
        (reserve.quiet, reserve.waits) = (None, None);
        reserve.ramp.end();
        self.stats.reserve_calls += 1;
        self.follow_reserve(now);
    }

    /// Whether a packet that comes has to wait, or others that came before it do.
    #[inline]
    pub(super) fn makes_wait(&self) -> bool {
        self.channels.reserve.ramp.wait > Span::ZERO || !self.ingress.line.is_empty()
    }

    /// When the first packet has waited for so long.
    pub(super) fn lets_go_at(&self) -> Option<Time> {
        Some(self.ingress.line.first()?.since + self.channels.reserve.ramp.wait)
    }

    /// When one has to look again, whatever else is due: nobody is to wait who comes long after all others.
    pub(super) fn review_at(&self) -> Option<Time> {
        let reserve = &self.channels.reserve;
        (reserve.ramp.wait > Span::ZERO).then(|| reserve.looked + EVERY)
    }

    /// Those that have waited for so long, and those for which there is no more room, wait for a channel from now on.
    #[inline(never)]
    pub(super) fn let_go(&mut self, now: Time) {
        let (wait, most) = (self.channels.reserve.ramp.wait, self.config.queue_bytes);
        // Half of it is more than has to wait for a channel to be called.
        let crowded = |waiting: &Ingress<P>| {
            waiting.line.memory() > most / 2 || waiting.line.memory() + waiting.queue.memory() > most
        };
        while self.ingress.line.first().is_some_and(|first| first.since + wait <= now) || crowded(&self.ingress) {
            let Some(first) = self.ingress.line.take(now) else { return };
            let queued = Queued { since: now, ..first };
            let dropped = self.ingress.queue.offer(queued, &mut self.ingress.ledger);
            self.on_no_room(dropped);
        }
    }

    /// Nobody waits any more.
    pub(super) fn end_wait(&mut self, now: Time) {
        self.channels.reserve.ramp.end();
        self.let_go(now);
    }

    /// Looks whether another plan is better, and whether the reserve is needed yet.
    pub(super) fn review_reserve(&mut self, now: Time) {
        let reserve = &mut self.channels.reserve;
        let since = now.since(reserve.looked);
        if since < EVERY {
            return;
        }
        let sent = self.channels.sent_bytes();
        let reserve = &mut self.channels.reserve;
        let before = core::mem::replace(&mut reserve.sent, sent);
        reserve.looked = now;
        let fits = reserve.base.is_some_and(|base| {
            let most = base.bytes_in(since).as_u64();
            sent.saturating_sub(before) < most - most / 4
        });
        let quiet = fits && now.since(*reserve.quiet.get_or_insert(now)).max(since) >= QUIET;
        if quiet {
            reserve.called = 0;
        }
        if !fits {
            reserve.quiet = None;
        }
        if let Some(base) = reserve.base {
            reserve.ramp.look(over(sent.saturating_sub(before), since), base, quiet);
        }
        self.look_at_demand(sent.saturating_sub(before), since);
        self.replan_reserve(now);
        self.revisit(now);
    }

    /// So much was sent since then: which of the channels in use are needed for it.
    fn look_at_demand(&mut self, bytes: u64, since: Span) {
        let Some(mut all) = self.candidates().filter(|_| self.has_reserve()) else { return };
        let waits = Bytes::new((self.ingress.bytes() + self.classed.bulk_for_any()) as u64);
        let reserve = &mut self.channels.reserve;
        all.retain(|c| reserve.slight & bit(c.channel) == 0);
        let used = all.iter().take_while(|c| reserve.held() & bit(c.channel) == 0).count();
        let enough = reserve.demand.look(since, Bytes::new(bytes), waits, &all, used).unwrap_or(used);
        reserve.demand.unneeded |= all[enough..used].iter().fold(0, |set, c| set | bit(c.channel));
    }

    /// Looks which channels of the reserve are to be asked for their rates; once a second while traffic flows.
    fn revisit(&mut self, now: Time) {
        if !self.is_active() {
            return;
        }
        let eligible = self.channels.eligible();
        let recent = |bond: &Bond<P>, channel| bond.channels[channel].path.recent().map(|transit| transit.took);
        let least = each(eligible).filter_map(|channel| recent(self, channel)).min();
        let is_near = |at: i64| least.is_some_and(|least| at.saturating_sub(least) <= revisit::LATER.as_nanos() as i64);
        let near = each(eligible).filter(|channel| recent(self, *channel).is_some_and(is_near));
        let near = near.fold(0, |set, channel| set | bit(channel));
        let reserve = &self.channels.reserve;
        let (slight, reserve) = (reserve.slight, reserve.waiting() & near);
        for channel in each(eligible) {
            let c = &mut self.channels[channel];
            let (Some(rate), Some(train)) = (c.known_rate(), &mut c.path.train) else { continue };
            let held = match bit(channel) {
                bit if slight & bit != 0 => Held::Slight,
                bit if reserve & bit != 0 => Held::Reserve,
                _ => Held::No,
            };
            if c.revisit.look(now, rate, held) {
                **train = Train::default();
            }
        }
    }
}
