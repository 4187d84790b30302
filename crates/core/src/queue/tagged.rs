//! Fair queueing by tags: what the disciplines have in common that stamp each packet and serve the least tag.
//!
//! What it is: a queue for each flow, of which only the head needs its tags: its start is no earlier than the end of what
//! the flow was served before, and its finish is its length over the flow's weight later. A [`Clock`] says when a flow
//! that had nothing waiting begins, and by which of the two the heads are compared.
//!
//! A flow that fell idle is remembered until the clock has passed its last finish, after which its past makes no
//! difference; at most [`MOST_IDLE`] are. Equal tags go by who came to the head of its queue first.
//! Heads are compared by whole tags, but nothing is cut to them ([`Stamp`]): what goes has less than a tag above the least, however many packets there were.
//!
//! Departures of all of them: a packet that is dropped is not charged for: what follows it takes its place. `dequeue`
//! that gives none ends the busy period.
//!
//! Cost: O(log n) in the most flows that there ever were, and what the clock needs. Memory: 86 bytes a flow that is active or remembered,
//! what its queue takes included, which lies in one line of the cache.

use super::discipline::{Discipline, Entry, Index, Taken};
use super::finishes::{self, Finishes};
use super::stamp::Stamp;
use super::store::{NIL, Own, Removed, Store, Whole};
use super::tournament::Tournament;
use crate::buffer::Victim;
use crate::units::{FlowNumber, Span, Time};
use core::fmt::Debug;

/// Most idle flows that are remembered; the one that fell idle first is forgotten for another.
pub(super) const MOST_IDLE: usize = 1 << 16;

/// Tags a byte of a flow with weight one: so finely are heads compared. The weights' quotients are kept more finely ([`Stamp`]).
///
/// A flow of weight one that is served 10 Gbit/s without a pause reaches the largest tag after 1.8 years.
pub(super) const SCALE: u64 = 256;

/// What tells one discipline by tags from another.
pub trait Clock: Clone + Debug {
    /// What has to be known of a packet when it becomes the head of its queue.
    type Note: Copy + Debug;

    /// What a packet of `size` bytes takes of the clock, for a flow of this weight.
    #[inline]
    fn cost(&self, size: u32, weight: u32) -> Stamp {
        Stamp::over(u64::from(size) * SCALE, weight)
    }

    /// A packet comes to `queue`.
    fn on_arrival(&mut self, queue: u32, since: Time, cost: Stamp, weight: u32) -> Self::Note;

    /// When a flow that was idle begins, which has been served up to `last`.
    #[inline]
    fn wake(&self, last: Stamp) -> Stamp {
        last
    }

    /// When a head starts whose flow has been served up to `last`.
    #[inline]
    fn start(&self, _note: Self::Note, _since: Time, last: Stamp) -> Stamp {
        last
    }

    /// By what heads are compared.
    fn order(&self, queue: u32, start: Stamp, finish: Stamp) -> u64;

    /// A packet of `size` bytes goes.
    fn on_served(&mut self, now: Time, start: Stamp, finish: Stamp, size: u32);

    /// A packet of `queue` is dropped.
    #[inline]
    fn on_dropped(&mut self, _queue: u32, _cost: Stamp) {}

    /// Nothing waits when the link asks for a packet.
    #[inline]
    fn on_idle(&mut self, _now: Time) {}

    /// `queue` is that of the flow `key` from now on.
    #[inline]
    fn on_opened(&mut self, _queue: u32, _key: u32) {}

    /// The flow `key`, which may have a queue, is to have this bound of delay.
    fn set_delay(&mut self, _key: u32, _queue: Option<u32>, _delay: Span) {}

    /// What was served up to here makes no difference any more.
    fn passed(&self) -> Stamp;

    /// Whether the clock needs nothing more of `queue`, once what it was served has passed.
    #[inline]
    fn is_done(&self, _queue: u32) -> bool {
        true
    }
}

/// A queue for each flow, served by tags that `C` makes.
#[derive(Clone, Debug)]
pub struct Tagged<P, C: Clock> {
    store: Store<P, C::Note, Tag>,
    clock: C,
    /// Tag of the head, and when it came to be the head.
    heads: Tournament,
    active: usize,
    /// How many heads there were; it wraps around, which only the order of equal tags could notice.
    count: u32,
    /// The idle ones that are remembered, in the order in which they fell idle.
    first_idle: u32,
    last_idle: u32,
    idle: usize,
    /// Where a policy discards by finish numbers.
    finishes: Option<Finishes>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tag {
    /// The flow has been served up to here: whole tags, and at the end of this what there is beyond them.
    last: u64,
    /// The head's place among equals.
    count: u32,
    next: u32,
    prev: u32,
    parts: u32,
}

impl Tag {
    #[inline]
    fn last(&self) -> Stamp {
        Stamp::of_key((self.last, self.parts))
    }

    #[inline]
    fn set_last(&mut self, last: Stamp) {
        (self.last, self.parts) = last.key();
    }
}

impl Own for Tag {
    type Size = Whole;
}

impl<P, C: Clock> Tagged<P, C> {
    /// An empty one, whose clock this is.
    pub(super) fn with(clock: C, index: Index) -> Tagged<P, C> {
        let (finishes, index) = Finishes::of(index);
        Tagged {
            store: Store::new(index),
            clock,
            heads: Tournament::default(),
            active: 0,
            count: 0,
            first_idle: NIL,
            last_idle: NIL,
            idle: 0,
            finishes,
        }
    }

    /// Start and finish of the head of `queue`.
    #[inline]
    fn head_tags(&self, queue: u32) -> Option<(Stamp, Stamp)> {
        let (head, note) = self.store.noted(queue)?;
        let start = self.clock.start(note, head.since, self.store.own(queue).last());
        Some((start, start.saturating_add(self.clock.cost(head.size, self.store.weight(queue)))))
    }

    /// The queue has another head; `new`: it came by, its predecessor was not dropped.
    fn set_head(&mut self, queue: u32, new: bool) {
        let Some((start, finish)) = self.head_tags(queue) else { return };
        if new {
            self.count = self.count.wrapping_add(1);
            self.store.own_mut(queue).count = self.count;
        }
        self.heads.set(queue, (self.clock.order(queue, start, finish), self.store.own(queue).count));
    }

    fn fall_idle(&mut self, queue: u32) {
        self.heads.remove(queue);
        self.active -= 1;
        let tag = self.store.own_mut(queue);
        (tag.next, tag.prev) = (NIL, self.last_idle);
        match self.last_idle {
            NIL => self.first_idle = queue,
            last => self.store.own_mut(last).next = queue,
        }
        self.last_idle = queue;
        self.idle += 1;
    }

    fn wake(&mut self, queue: u32) {
        let Tag { next, prev, .. } = *self.store.own(queue);
        match prev {
            NIL => self.first_idle = next,
            _ => self.store.own_mut(prev).next = next,
        }
        match next {
            NIL => self.last_idle = prev,
            _ => self.store.own_mut(next).prev = prev,
        }
        self.idle -= 1;
    }

    /// Forgets idle flows whose past makes no difference any more: two at a time, more than can fall idle meanwhile.
    fn forget(&mut self) {
        for _ in 0..2 {
            let queue = self.first_idle;
            let is_past = |queue| self.store.own(queue).last() <= self.clock.passed() && self.clock.is_done(queue);
            if self.idle <= MOST_IDLE && (queue == NIL || !is_past(queue)) {
                return;
            }
            self.wake(queue);
            self.store.close(queue);
        }
    }

    /// A packet was dropped: its queue may be empty now, or have another head.
    fn on_dropped(&mut self, removed: &Removed<P>) {
        let queue = removed.queue;
        let cost = self.clock.cost(removed.entry.size, self.store.weight(queue));
        self.clock.on_dropped(queue, cost);
        if let Some(finishes) = &mut self.finishes {
            finishes.on_dropped(queue, cost, removed.emptied);
        }
        if removed.emptied {
            self.fall_idle(queue);
            self.forget();
        } else {
            self.set_head(queue, false);
        }
    }
}

impl<P, C: Clock> Discipline<P> for Tagged<P, C> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let key = entry.flow.0;
        let known = self.store.queue(key);
        let queue = known.unwrap_or_else(|| self.store.open(key));
        if known.is_none() {
            self.clock.on_opened(queue, key);
        }
        let weight = self.store.weight(queue);
        let cost = self.clock.cost(entry.size, weight);
        let note = self.clock.on_arrival(queue, entry.since, cost, weight);
        let since = entry.since;
        let only = self.store.push(queue, entry, note);
        if let Some(finishes) = &mut self.finishes {
            let last = finishes.last(queue).unwrap_or_else(|| self.clock.wake(self.store.own(queue).last()));
            finishes.on_arrival(queue, self.clock.start(note, since, last).saturating_add(cost));
        }
        if !only {
            return;
        }
        if known.is_some() {
            self.wake(queue);
        }
        let tag = self.store.own_mut(queue);
        tag.set_last(self.clock.wake(tag.last()));
        self.active += 1;
        self.set_head(queue, true);
    }

    fn dequeue(&mut self, now: Time) -> Option<Taken<P>> {
        let Some((_, queue)) = self.heads.first() else {
            self.clock.on_idle(now);
            self.forget();
            return None;
        };
        let (start, finish) = self.head_tags(queue)?;
        let removed = self.store.pop(queue)?;
        self.store.own_mut(queue).set_last(finish);
        self.clock.on_served(now, start, finish, removed.entry.size);
        if removed.emptied {
            self.fall_idle(queue);
            if let Some(finishes) = &mut self.finishes {
                finishes.on_emptied(queue);
            }
        } else {
            self.set_head(queue, true);
        }
        self.forget();
        Some(removed.into())
    }

    fn peek(&self) -> Option<&Entry<P>> {
        self.store.head(self.heads.first()?.1)
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let removed = finishes::evict(self.finishes.as_ref(), &mut self.store, victim)?;
        self.on_dropped(&removed);
        Some(removed.entry)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        finishes::find(self.finishes.as_ref(), &mut self.store, victim)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        let removed = self.store.expire(oldest)?;
        self.on_dropped(&removed);
        Some(removed.entry)
    }

    /// What waits at the head of the flow's queue keeps its tag.
    fn set_weight(&mut self, flow: FlowNumber, weight: u32) {
        self.store.set_weight(flow.0, weight);
    }

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.store.set_room(flow.0, room);
    }

    fn set_delay(&mut self, flow: FlowNumber, delay: Span) {
        self.clock.set_delay(flow.0, self.store.queue(flow.0), delay);
    }

    fn active_flows(&self) -> usize {
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::VirtualClock;
    use crate::units::Rate;

    #[test]
    fn of_more_idle_flows_than_are_remembered_the_first_is_forgotten() {
        // Time stands still, so that no flow's past is over.
        let mut queue = VirtualClock::new(Rate::from_bits_per_sec(1000), Index::None);
        let mut visit = |flow: u32| {
            queue.enqueue(Entry { packet: (), flow: FlowNumber(flow), size: 100, since: Time::ZERO });
            assert_eq!(queue.dequeue(Time::ZERO).map(|taken| taken.entry.flow.0), Some(flow));
            (queue.idle, [0, 1].map(|flow| queue.store.queue(flow).is_some()))
        };
        let most = MOST_IDLE as u32;
        (0..most - 1).for_each(|flow| {
            visit(flow);
        });
        assert_eq!(visit(most - 1), (MOST_IDLE, [true, true]));
        assert_eq!(visit(most), (MOST_IDLE, [false, true]));
    }
}
