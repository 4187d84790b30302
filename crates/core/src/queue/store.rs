//! The packets that wait, a queue for each flow or bucket, and the indexes by which victims are found.
//!
//! What it is: packets in slots, chained to queues, which lie in slots too and are found by key (a flow, a bucket). A
//! discipline decides which queue is served, a policy which packet is evicted: the oldest of all by a chain in the order
//! of arrival, the newest of the longest queue by a heap. Either index is kept only where the policy needs it.
//!
//! Cost: O(1); O(log n) in the number of queues with the heap. Allocates while it grows to the most that ever waited, and
//! never after. Invariant: packets and bytes of a queue are those of its chain.

use super::discipline::{Entry, Index, Taken};
use super::heap::Heap;
use crate::buffer::Victim;
use crate::flow::slots::Slots;
use crate::units::Time;
use alloc::vec::Vec;

/// No packet, no queue.
pub(super) const NIL: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Item<P> {
    /// `None`: a free slot, `next` chains it.
    entry: Option<Entry<P>>,
    queue: u32,
    /// In the queue, towards the tail, and towards the head.
    next: u32,
    prev: u32,
    /// By arrival, with an index by age.
    newer: u32,
    older: u32,
}

#[derive(Clone, Debug)]
struct Queue {
    key: u32,
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
}

/// A packet that left the store.
#[derive(Debug)]
pub(super) struct Removed<P> {
    pub(super) entry: Entry<P>,
    /// The queue that it left, whose that is, and the bytes that stay in it.
    pub(super) queue: u32,
    pub(super) key: u32,
    pub(super) behind: u64,
    /// Whether it is empty now.
    pub(super) emptied: bool,
}

impl<P> From<Removed<P>> for Taken<P> {
    #[inline]
    fn from(removed: Removed<P>) -> Taken<P> {
        let Removed { entry, queue, key, behind, .. } = removed;
        Taken { entry, queue, key, behind }
    }
}

/// Packets in queues.
#[derive(Clone, Debug)]
pub(super) struct Store<P> {
    items: Vec<Item<P>>,
    free_item: u32,
    queues: Vec<Queue>,
    free_queue: u32,
    table: Slots,
    by_age: bool,
    by_packets: bool,
    oldest: u32,
    newest: u32,
    /// By length, the longest first.
    longest: Option<Heap<u64>>,
    /// Where the search for old packets goes on.
    searched: usize,
}

impl<P> Store<P> {
    pub(super) fn new(index: Index) -> Store<P> {
        Store {
            items: Vec::new(),
            free_item: NIL,
            queues: Vec::new(),
            free_queue: NIL,
            table: Slots::new(),
            by_age: index == Index::Age,
            by_packets: index == Index::Packets,
            oldest: NIL,
            newest: NIL,
            longest: matches!(index, Index::Packets | Index::Bytes).then(Heap::new),
            searched: 0,
        }
    }

    /// The queue of `key`, if there is one.
    #[inline]
    pub(super) fn queue(&self, key: u32) -> Option<u32> {
        self.table.slot(key)
    }

    /// The queue of `key`, an empty one if there was none.
    pub(super) fn open(&mut self, key: u32) -> u32 {
        if let Some(queue) = self.table.slot(key) {
            return queue;
        }
        let fresh = Queue { key, head: NIL, tail: NIL, packets: 0, bytes: 0 };
        let queue = if self.free_queue == NIL {
            self.queues.push(fresh);
            (self.queues.len() - 1) as u32
        } else {
            let queue = self.free_queue;
            let place = &mut self.queues[queue as usize];
            self.free_queue = place.head;
            *place = fresh;
            queue
        };
        self.table.insert(key, queue);
        queue
    }

    /// Forgets an empty queue.
    pub(super) fn close(&mut self, queue: u32) {
        let q = &mut self.queues[queue as usize];
        debug_assert!(q.head == NIL, "only an empty queue is closed");
        self.table.remove(q.key);
        q.head = self.free_queue;
        self.free_queue = queue;
    }

    /// Puts a packet behind all others of `queue`: whether it is the only one there.
    #[inline]
    pub(super) fn push(&mut self, queue: u32, entry: Entry<P>) -> bool {
        let size = entry.size;
        let q = &mut self.queues[queue as usize];
        let entry = Some(entry);
        let item = Item { entry, queue, next: NIL, prev: q.tail, newer: NIL, older: self.newest };
        let at = if self.free_item == NIL {
            self.items.push(item);
            (self.items.len() - 1) as u32
        } else {
            let at = self.free_item;
            let place = &mut self.items[at as usize];
            self.free_item = place.next;
            *place = item;
            at
        };
        let only = q.head == NIL;
        let tail = core::mem::replace(&mut q.tail, at);
        q.packets += 1;
        q.bytes += u64::from(size);
        if only {
            q.head = at;
        } else {
            self.items[tail as usize].next = at;
        }
        if self.by_age {
            let before = core::mem::replace(&mut self.newest, at);
            if before == NIL {
                self.oldest = at;
            } else {
                self.items[before as usize].newer = at;
            }
        }
        self.note_length(queue);
        only
    }

    /// The packet at the head of `queue`.
    #[inline]
    pub(super) fn head(&self, queue: u32) -> Option<&Entry<P>> {
        self.items.get(self.queues.get(queue as usize)?.head as usize)?.entry.as_ref()
    }

    /// Takes the packet at the head of `queue`.
    #[inline]
    pub(super) fn pop(&mut self, queue: u32) -> Option<Removed<P>> {
        self.take(self.queues[queue as usize].head)
    }

    /// Takes a victim out, if it has an index by which to find it.
    pub(super) fn evict(&mut self, victim: Victim) -> Option<Removed<P>> {
        match victim {
            Victim::Oldest => self.take(self.oldest),
            Victim::Longest => {
                let (_, queue) = self.longest.as_ref()?.first()?;
                self.take(self.queues[queue as usize].tail)
            }
        }
    }

    /// Takes a packet out that came before `oldest`. It looks at the heads of all queues, from where it stopped last.
    pub(super) fn expire(&mut self, oldest: Time) -> Option<Removed<P>> {
        let count = self.queues.len();
        let mut queues = (self.searched..count).chain(0..self.searched.min(count));
        let is_old = |queue: &usize| self.head(*queue as u32).is_some_and(|head| head.since < oldest);
        let queue = queues.find(|queue| self.queues[*queue].packets > 0 && is_old(queue))?;
        self.searched = queue;
        self.pop(queue as u32)
    }

    fn take(&mut self, at: u32) -> Option<Removed<P>> {
        let item = self.items.get_mut(at as usize)?;
        let entry = item.entry.take()?;
        let &mut Item { queue, next, prev, newer, older, .. } = item;
        item.next = self.free_item;
        self.free_item = at;
        let q = &mut self.queues[queue as usize];
        q.packets -= 1;
        q.bytes -= u64::from(entry.size);
        let (key, behind, emptied) = (q.key, q.bytes, q.packets == 0);
        match prev {
            NIL => q.head = next,
            _ => self.items[prev as usize].next = next,
        }
        match next {
            NIL => q.tail = prev,
            _ => self.items[next as usize].prev = prev,
        }
        if self.by_age {
            match older {
                NIL => self.oldest = newer,
                _ => self.items[older as usize].newer = newer,
            }
            match newer {
                NIL => self.newest = older,
                _ => self.items[newer as usize].older = older,
            }
        }
        self.note_length(queue);
        Some(Removed { entry, queue, key, behind, emptied })
    }

    #[inline]
    fn note_length(&mut self, queue: u32) {
        if let Some(longest) = &mut self.longest {
            let q = &self.queues[queue as usize];
            let length = if self.by_packets { u64::from(q.packets) } else { q.bytes };
            if length == 0 {
                longest.remove(queue);
            } else {
                longest.set(queue, !length);
            }
        }
    }
}
