//! The packets that wait, a queue for each flow, and the buffer policies over all of them.
//!
//! What it is: packets in slots, chained to queues, which lie in slots too and are found by key (a flow, a bucket). A
//! discipline decides which queue is served; the store decides what is dropped.
//!
//! | policy | victim | source |
//! |---|---|---|
//! | drop-tail | what arrives | |
//! | drop-front | the packet that waits longest, whichever its queue | Yin and Hluchyj 1993 |
//! | longest queue | the newest packet of the longest queue, in the unit of the limit | McKenney 1990, section 5; Suter et al. 1998 ("LQD") |
//!
//! Cost: O(1); O(log n) in the number of queues with the longest-queue policy. Allocates while it grows to the most
//! that ever waited, and never after. Invariants: once `cut` gives nothing, what waits is within the limit; packets and
//! bytes are the sums over the queues. A packet of size 0 counts as one byte, so that a limit in bytes bounds memory.

use super::heap::Heap;
use super::{Buffer, FlowId, Limit, Reason};
use crate::flow::slots::Slots;
use alloc::vec::Vec;

/// No packet, no queue.
pub(super) const NIL: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Item<P> {
    /// `None`: a free slot, `next` chains it.
    packet: Option<P>,
    flow: FlowId,
    size: u32,
    queue: u32,
    /// In the queue, towards the tail, and towards the head.
    next: u32,
    prev: u32,
    /// By arrival, with drop-front.
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
pub(super) struct Taken<P> {
    pub(super) flow: FlowId,
    pub(super) packet: P,
    pub(super) size: u32,
    /// The queue that it left, and whether that is empty now.
    pub(super) queue: u32,
    pub(super) emptied: bool,
}

/// Packets in queues.
#[derive(Clone, Debug)]
pub(super) struct Store<P> {
    items: Vec<Item<P>>,
    free_item: u32,
    queues: Vec<Queue>,
    free_queue: u32,
    table: Slots,
    packets: usize,
    bytes: u64,
    limit: Limit,
    front: bool,
    oldest: u32,
    newest: u32,
    /// By length, the longest first.
    longest: Option<Heap<u64>>,
}

impl<P> Store<P> {
    pub(super) fn new(limit: Limit, buffer: &Buffer) -> Store<P> {
        Store {
            items: Vec::new(),
            free_item: NIL,
            queues: Vec::new(),
            free_queue: NIL,
            table: Slots::new(),
            packets: 0,
            bytes: 0,
            limit,
            front: matches!(buffer, Buffer::DropFront),
            oldest: NIL,
            newest: NIL,
            longest: matches!(buffer, Buffer::LongestQueue).then(Heap::new),
        }
    }

    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
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

    /// Why a packet of `size` may not come in, if so.
    #[inline]
    pub(super) fn refuses(&self, size: u32) -> Option<Reason> {
        let size = u64::from(size.max(1));
        if self.limit.exceeded(1, size) {
            return Some(Reason::TooLarge);
        }
        let makes_room = self.front || self.longest.is_some();
        (!makes_room && self.limit.exceeded(self.packets + 1, self.bytes + size)).then_some(Reason::Full)
    }

    /// Puts a packet at the end of `queue`; whether it is the only one there.
    #[inline]
    pub(super) fn push(&mut self, queue: u32, flow: FlowId, packet: P, size: u32) -> bool {
        let size = size.max(1);
        let q = &mut self.queues[queue as usize];
        let packet = Some(packet);
        let item = Item { packet, flow, size, queue, next: NIL, prev: q.tail, newer: NIL, older: self.newest };
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
        if self.front {
            let before = core::mem::replace(&mut self.newest, at);
            if before == NIL {
                self.oldest = at;
            } else {
                self.items[before as usize].newer = at;
            }
        }
        self.packets += 1;
        self.bytes += u64::from(size);
        self.note_length(queue);
        only
    }

    /// The size of the packet at the head of `queue`; 0 when there is none.
    #[inline]
    pub(super) fn head_size(&self, queue: u32) -> u32 {
        self.items.get(self.queues[queue as usize].head as usize).map_or(0, |item| item.size)
    }

    /// Takes the packet at the head of `queue`.
    #[inline]
    pub(super) fn pop(&mut self, queue: u32) -> Option<Taken<P>> {
        self.take(self.queues[queue as usize].head)
    }

    /// Takes what the policy drops, while there is more than may wait.
    #[inline]
    pub(super) fn cut(&mut self) -> Option<(Taken<P>, Reason)> {
        if !self.limit.exceeded(self.packets, self.bytes) {
            return None;
        }
        if self.front {
            return self.take(self.oldest).map(|taken| (taken, Reason::Front));
        }
        let (_, queue) = self.longest.as_ref()?.first()?;
        self.take(self.queues[queue as usize].tail).map(|taken| (taken, Reason::Longest))
    }

    fn take(&mut self, at: u32) -> Option<Taken<P>> {
        let item = self.items.get_mut(at as usize)?;
        let packet = item.packet.take()?;
        let &mut Item { flow, size, queue, next, prev, newer, older, .. } = item;
        item.next = self.free_item;
        self.free_item = at;
        let q = &mut self.queues[queue as usize];
        q.packets -= 1;
        q.bytes -= u64::from(size);
        let emptied = q.packets == 0;
        match prev {
            NIL => q.head = next,
            _ => self.items[prev as usize].next = next,
        }
        match next {
            NIL => q.tail = prev,
            _ => self.items[next as usize].prev = prev,
        }
        if self.front {
            match older {
                NIL => self.oldest = newer,
                _ => self.items[older as usize].newer = newer,
            }
            match newer {
                NIL => self.newest = older,
                _ => self.items[newer as usize].older = older,
            }
        }
        self.packets -= 1;
        self.bytes -= u64::from(size);
        self.note_length(queue);
        Some(Taken { flow, packet, size, queue, emptied })
    }

    #[inline]
    fn note_length(&mut self, queue: u32) {
        if let Some(longest) = &mut self.longest {
            let q = &self.queues[queue as usize];
            let length = if matches!(self.limit, Limit::Packets(_)) { u64::from(q.packets) } else { q.bytes };
            if length == 0 {
                longest.remove(queue);
            } else {
                longest.set(queue, !length);
            }
        }
    }
}
