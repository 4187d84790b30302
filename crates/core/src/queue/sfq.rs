//! Start-time fair queueing (SFQ).
//!
//! Source: Goyal, Vin and Cheng, "Start-time Fair Queueing", SIGCOMM 1996, section 2, definition 1, equations 4 to 6.
//!
//! | paper | here |
//! |---|---|
//! | v(t) | `virtual_time`: start tag of the packet in service; the largest finish tag after a busy period |
//! | S(p_f^j) = max(v(A), F(p_f^(j-1))) | `tags[queue].start`, of the head of the queue |
//! | F(p_f^j) = S + l / r_f | `start` + size; all weights are one |
//! | F of the last packet | `start` + bytes in the queue |
//!
//! A flow that has packets has tags that follow one another, so only the head's start is kept. A flow that fell idle is
//! remembered until virtual time has passed its last finish tag, after which its past makes no difference; at most
//! [`MOST_IDLE`] are. Equal start tags go by who came to the head of its queue first.
//!
//! Departures: a packet that is dropped is not charged for: what follows it takes its place. Virtual time is that of
//! the last packet given out; `dequeue` that gives none ends the busy period.
//!
//! Cost: O(log n) in the active flows. Memory: 40 bytes a flow that is active or remembered. Invariants: virtual time
//! never goes back; over any interval in which flows f and m are backlogged their bytes differ by at most
//! Max_f + Max_m (theorem 1).

use super::discipline::{Discipline, Entry, Index, Taken};
use super::heap::Heap;
use super::store::{NIL, Removed, Store};
use crate::buffer::Victim;
use crate::units::Time;
use alloc::vec::Vec;

/// Most idle flows that are remembered; the one that fell idle first is forgotten for another.
const MOST_IDLE: usize = 1 << 16;

/// Start-time fair queueing over a queue for each flow.
#[derive(Clone, Debug)]
pub struct Sfq<P> {
    store: Store<P>,
    tags: Vec<Tag>,
    /// Start tag of the head, and when it came to be the head.
    heads: Heap<(u64, u64)>,
    active: usize,
    count: u64,
    virtual_time: u64,
    largest_finish: u64,
    /// The idle ones that are remembered, in the order in which they fell idle.
    first_idle: u32,
    last_idle: u32,
    idle: usize,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    start: u64,
    next: u32,
    prev: u32,
}

impl<P> Sfq<P> {
    /// An empty one.
    pub fn new(index: Index) -> Sfq<P> {
        Sfq {
            store: Store::new(index),
            tags: Vec::new(),
            heads: Heap::new(),
            active: 0,
            count: 0,
            virtual_time: 0,
            largest_finish: 0,
            first_idle: NIL,
            last_idle: NIL,
            idle: 0,
        }
    }

    /// The queue's head is another one, or its first.
    fn set_head(&mut self, queue: u32, start: u64) {
        self.tags[queue as usize].start = start;
        self.count += 1;
        self.heads.set(queue, (start, self.count));
    }

    fn fall_idle(&mut self, queue: u32, finish: u64) {
        self.heads.remove(queue);
        self.active -= 1;
        self.tags[queue as usize] = Tag { start: finish, next: NIL, prev: self.last_idle };
        match self.last_idle {
            NIL => self.first_idle = queue,
            last => self.tags[last as usize].next = queue,
        }
        self.last_idle = queue;
        self.idle += 1;
    }

    fn wake(&mut self, queue: u32) {
        let Tag { next, prev, .. } = self.tags[queue as usize];
        match prev {
            NIL => self.first_idle = next,
            _ => self.tags[prev as usize].next = next,
        }
        match next {
            NIL => self.last_idle = prev,
            _ => self.tags[next as usize].prev = prev,
        }
        self.idle -= 1;
    }

    /// Forgets idle flows whose past makes no difference any more: two at a time, more than can fall idle meanwhile.
    fn forget(&mut self) {
        for _ in 0..2 {
            let queue = self.first_idle;
            let forgettable =
                self.idle > MOST_IDLE || (queue != NIL && self.tags[queue as usize].start <= self.virtual_time);
            if !forgettable {
                return;
            }
            self.wake(queue);
            self.store.close(queue);
        }
    }

    /// A packet was dropped: its queue may be empty now.
    fn on_dropped(&mut self, removed: &Removed<P>) {
        if removed.emptied {
            let unserved = self.tags[removed.queue as usize].start;
            self.fall_idle(removed.queue, unserved);
            self.forget();
        }
    }
}

impl<P> Discipline<P> for Sfq<P> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let key = entry.flow.0;
        let known = self.store.queue(key);
        let queue = known.unwrap_or_else(|| self.store.open(key));
        if !self.store.push(queue, entry) {
            return;
        }
        let mut start = self.virtual_time;
        if known.is_some() {
            start = start.max(self.tags[queue as usize].start);
            self.wake(queue);
        } else if self.tags.len() <= queue as usize {
            self.tags.resize(queue as usize + 1, Tag { start: 0, next: NIL, prev: NIL });
        }
        self.active += 1;
        self.set_head(queue, start);
    }

    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let Some(((start, _), queue)) = self.heads.first() else {
            self.virtual_time = self.virtual_time.max(self.largest_finish);
            self.forget();
            return None;
        };
        let removed = self.store.pop(queue)?;
        let finish = start + u64::from(removed.entry.size);
        self.virtual_time = start;
        self.largest_finish = self.largest_finish.max(finish);
        if removed.emptied {
            self.fall_idle(queue, finish);
        } else {
            self.set_head(queue, finish);
        }
        self.forget();
        Some(removed.into())
    }

    fn peek(&self) -> Option<&Entry<P>> {
        self.store.head(self.heads.first()?.1)
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let removed = self.store.evict(victim)?;
        self.on_dropped(&removed);
        Some(removed.entry)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        let removed = self.store.expire(oldest)?;
        self.on_dropped(&removed);
        Some(removed.entry)
    }

    fn active_flows(&self) -> usize {
        self.active
    }
}
