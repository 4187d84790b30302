//! The packets that wait, a queue for each flow or bucket, and the indexes by which victims are found.
//!
//! What it is: packets in slots, chained to queues, which lie in slots too and are found by key (a flow, a bucket). A
//! discipline decides which queue is served, a policy which packet is evicted: the oldest of all by a chain in the order
//! of arrival, one of the longest queue by [`Lengths`]. Either index is kept only where the policy needs it. A packet that is
//! drawn from all is found by trying slots, of which most are taken when a buffer is full.
//!
//! Cost: O(1); amortised O(log n) in the number of queues where the longest is looked for. Allocates while it grows to the most that ever waited, and
//! never after. Invariant: packets and bytes of a queue are those of its chain.

use super::discipline::{Entry, Index, MOST_ROOM, MOST_WEIGHT, Taken, Unit};
use super::lengths::Lengths;
use crate::buffer::Victim;
use crate::flow::slots::Slots;
use crate::rng::Rng;
use crate::units::Time;
use alloc::vec::Vec;
use core::fmt::Debug;

/// No packet, no queue.
pub(super) const NIL: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Item<P, N> {
    /// `None`: a free slot, `next` chains it.
    entry: Option<Entry<P>>,
    note: N,
    queue: u32,
    /// In the queue, towards the tail, and towards the head.
    next: u32,
    prev: u32,
    /// By arrival, with an index by age.
    newer: u32,
    older: u32,
}

/// What a discipline has to know of each queue, and how much of the cache's lines a queue then is.
pub(super) trait Own: Clone + Debug + Default {
    /// Half a line or a whole one.
    type Size: Copy + Debug;
}

/// A queue that takes half a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Half;

/// A queue that takes a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Whole;

impl Own for () {
    type Size = Half;
}

#[derive(Clone, Debug)]
struct Queue<Q: Own> {
    key: u32,
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
    weight: u32,
    room: u32,
    own: Q,
    _size: [Q::Size; 0],
}

impl<Q: Own> Queue<Q> {
    /// Its length over its room, in 2^-20 of a unit.
    #[inline]
    fn length(&self, unit: Unit) -> u64 {
        let length = self.held(unit) << 20;
        if self.room == 1 { length } else { length / u64::from(self.room) }
    }

    #[inline]
    fn held(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Packets => self.packets.into(),
            Unit::Bytes => self.bytes,
        }
    }
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

/// Packets in queues. `N`: what the discipline notes of each packet; `Q`: of each queue, which lies in one line with the rest.
#[derive(Clone, Debug)]
pub(super) struct Store<P, N = (), Q: Own = ()> {
    items: Vec<Item<P, N>>,
    free_item: u32,
    queues: Vec<Queue<Q>>,
    free_queue: u32,
    table: Slots,
    /// Weights that are not one, by key.
    weights: Slots,
    /// Rooms that are not one, by key.
    rooms: Slots,
    /// What waits in all, and the rooms of the queues that have packets.
    packets: u64,
    bytes: u64,
    room: u64,
    by_age: bool,
    oldest: u32,
    newest: u32,
    lengths: Option<Lengths>,
    /// Where the search for old packets goes on.
    searched: usize,
}

impl<P, N: Copy, Q: Own> Store<P, N, Q> {
    pub(super) fn new(index: Index) -> Store<P, N, Q> {
        Store {
            items: Vec::new(),
            free_item: NIL,
            queues: Vec::new(),
            free_queue: NIL,
            table: Slots::new(),
            weights: Slots::new(),
            rooms: Slots::new(),
            packets: 0,
            bytes: 0,
            room: 0,
            by_age: index == Index::Age,
            oldest: NIL,
            newest: NIL,
            lengths: match index {
                Index::Longest(unit) => Some(Lengths::exact(unit)),
                Index::Suspect(unit) => Some(Lengths::guessed(unit)),
                Index::Finish => Some(Lengths::exact(Unit::Bytes)),
                Index::None | Index::Age => None,
            },
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
        let term = |of: &Slots| if of.is_empty() { 1 } else { of.slot(key).unwrap_or(1) };
        let (weight, room) = (term(&self.weights), term(&self.rooms));
        let own = Q::default();
        let fresh = Queue { key, head: NIL, tail: NIL, packets: 0, bytes: 0, weight, room, own, _size: [] };
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
    pub(super) fn push(&mut self, queue: u32, entry: Entry<P>, note: N) -> bool {
        let size = entry.size;
        let q = &mut self.queues[queue as usize];
        let entry = Some(entry);
        let item = Item { entry, note, queue, next: NIL, prev: q.tail, newer: NIL, older: self.newest };
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
        self.packets += 1;
        self.bytes += u64::from(size);
        if let Some(lengths) = &mut self.lengths {
            let q = &self.queues[queue as usize];
            self.room += if only { u64::from(q.room) } else { 0 };
            lengths.on_grown(queue, q.length(lengths.unit));
        }
        only
    }

    /// Gives the queue of `key`, whenever there is one, this weight (1 to [`MOST_WEIGHT`]).
    pub(super) fn set_weight(&mut self, key: u32, weight: u32) {
        let weight = weight.clamp(1, MOST_WEIGHT);
        if weight == 1 {
            self.weights.remove(key);
        } else {
            self.weights.insert(key, weight);
        }
        if let Some(queue) = self.table.slot(key) {
            self.queues[queue as usize].weight = weight;
        }
    }

    /// Gives the queue of `key`, whenever there is one, this room (1 to [`MOST_ROOM`]).
    pub(super) fn set_room(&mut self, key: u32, room: u32) {
        let room = room.clamp(1, MOST_ROOM);
        if room == 1 {
            self.rooms.remove(key);
        } else {
            self.rooms.insert(key, room);
        }
        let Some(queue) = self.table.slot(key) else { return };
        let q = &mut self.queues[queue as usize];
        let before = core::mem::replace(&mut q.room, room);
        if let Some(lengths) = &mut self.lengths
            && q.packets > 0
        {
            self.room = self.room + u64::from(room) - u64::from(before);
            lengths.on_changed(queue, q.length(lengths.unit));
        }
    }

    /// The weight of `queue`.
    #[inline]
    pub(super) fn weight(&self, queue: u32) -> u32 {
        self.queues[queue as usize].weight
    }

    /// What the discipline knows of `queue`; as it was made when the queue was opened, at first.
    #[inline]
    pub(super) fn own(&self, queue: u32) -> &Q {
        &self.queues[queue as usize].own
    }

    /// See [`own`](Store::own).
    #[inline]
    pub(super) fn own_mut(&mut self, queue: u32) -> &mut Q {
        &mut self.queues[queue as usize].own
    }

    /// What `queue` has waiting, over its room, in 2^-20 of a unit.
    #[inline]
    pub(super) fn length(&self, queue: u32, unit: Unit) -> u64 {
        self.queues[queue as usize].length(unit)
    }

    /// The packet at the head of `queue`.
    #[inline]
    pub(super) fn head(&self, queue: u32) -> Option<&Entry<P>> {
        self.items.get(self.queues.get(queue as usize)?.head as usize)?.entry.as_ref()
    }

    /// The packet at the head of `queue`, and what was noted of it.
    #[inline]
    pub(super) fn noted(&self, queue: u32) -> Option<(&Entry<P>, N)> {
        let item = self.items.get(self.queues.get(queue as usize)?.head as usize)?;
        Some((item.entry.as_ref()?, item.note))
    }

    /// Takes the packet at the head of `queue`.
    #[inline]
    pub(super) fn pop(&mut self, queue: u32) -> Option<Removed<P>> {
        self.take(self.queues.get(queue as usize)?.head)
    }

    /// Takes the packet at the tail of `queue`.
    pub(super) fn pop_tail(&mut self, queue: u32) -> Option<Removed<P>> {
        self.take(self.queues.get(queue as usize)?.tail)
    }

    /// The packet at the head of `queue`.
    pub(super) fn head_mut(&mut self, queue: u32) -> Option<&mut Entry<P>> {
        self.items.get_mut(self.queues.get(queue as usize)?.head as usize)?.entry.as_mut()
    }

    /// The packet at the tail of `queue`.
    pub(super) fn tail_mut(&mut self, queue: u32) -> Option<&mut Entry<P>> {
        self.items.get_mut(self.queues.get(queue as usize)?.tail as usize)?.entry.as_mut()
    }

    /// Takes a victim out, if it has an index by which to find it.
    pub(super) fn evict(&mut self, victim: Victim) -> Option<Removed<P>> {
        let at = self.place(victim)?;
        self.take(at)
    }

    /// What [`evict`](Store::evict) would take out.
    pub(super) fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        let at = self.place(victim)?;
        self.items.get_mut(at as usize)?.entry.as_mut()
    }

    /// The slot of a victim.
    fn place(&mut self, victim: Victim) -> Option<u32> {
        let queue = match victim {
            Victim::Oldest => return Some(self.oldest),
            Victim::Any(draw) => return self.any(draw),
            Victim::Longest | Victim::LongestHead | Victim::Suspect | Victim::LargestFinish => {
                let unit = self.lengths.as_ref()?.unit;
                let queues = &self.queues;
                self.lengths.as_mut()?.longest(|queue| queues[queue as usize].length(unit))?
            }
            Victim::AboveShare(draw) => {
                let unit = self.lengths.as_ref()?.unit;
                let held = if unit == Unit::Packets { self.packets } else { self.bytes };
                let (queues, room) = (&self.queues, u128::from(self.room.max(1)));
                let is_above = |queue: u32| {
                    let q = &queues[queue as usize];
                    u128::from(q.held(unit)) * room > u128::from(held) * u128::from(q.room)
                };
                let share = ((u128::from(held) << 20) / room) as u64;
                self.lengths.as_mut()?.above(draw, share, is_above)?
            }
        };
        let of = |q: &Queue<Q>| if victim.is_newest() { q.tail } else { q.head };
        let at = self.queues.get(queue as usize).filter(|q| q.packets > 0).map(of);
        // Where the one that was guessed is empty, any other has more.
        at.or_else(|| self.queues.iter().find(|q| q.packets > 0).map(of))
    }

    /// A slot that is taken, drawn from all of them.
    fn any(&self, draw: u64) -> Option<u32> {
        let mut rng = Rng::new(draw);
        let count = self.items.len() as u64;
        (self.packets > 0).then(|| {
            loop {
                let at = rng.below(count);
                if self.items[at as usize].entry.is_some() {
                    return at as u32;
                }
            }
        })
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
        self.packets -= 1;
        self.bytes -= u64::from(entry.size);
        if let Some(lengths) = &mut self.lengths {
            let q = &self.queues[queue as usize];
            self.room -= if emptied { u64::from(q.room) } else { 0 };
            lengths.on_shrunk(queue, q.length(lengths.unit));
        }
        Some(Removed { entry, queue, key, behind, emptied })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FlowNumber;

    fn put(store: &mut Store<u32>, key: u32, packet: u32, size: u32) -> u32 {
        let queue = store.open(key);
        let since = Time::from_millis(u64::from(packet));
        store.push(queue, Entry { packet, flow: FlowNumber(key), size, since }, ());
        queue
    }

    fn above(store: &mut Store<u32>, draw: u64) -> Option<u32> {
        store.find(Victim::AboveShare(draw)).map(|entry| entry.flow.0)
    }

    #[test]
    fn the_room_of_all_follows_that_of_each() {
        let mut store: Store<u32> = Store::new(Index::Longest(Unit::Bytes));
        put(&mut store, 1, 0, 1000);
        put(&mut store, 2, 1, 2000);
        for room in [4, 1] {
            store.set_room(1, room);
        }
        for draw in 0..100 {
            assert_eq!(above(&mut store, draw), Some(2), "the share is 1500 bytes");
        }
    }

    #[test]
    fn of_few_that_are_above_their_share_among_many_each_is_drawn_as_often() {
        for room in [1, MOST_ROOM] {
            let mut store: Store<u32> = Store::new(Index::Longest(Unit::Packets));
            for key in 0..100 {
                store.set_room(key, room);
                let packets = if key == 70 {
                    20
                } else if key == 71 {
                    10
                } else {
                    1
                };
                for n in 0..packets {
                    put(&mut store, key, n, 100);
                }
            }
            let of =
                |key: u32, store: &mut Store<u32>| (0..1000).filter(|draw| above(store, *draw) == Some(key)).count();
            let (one, other) = (of(70, &mut store), of(71, &mut store));
            assert_eq!(one + other, 1000);
            assert!((400..=600).contains(&one), "{one} {other}");
        }
    }

    #[test]
    fn where_the_guessed_queue_is_empty_another_pays_and_nobody_where_nothing_waits() {
        let mut store: Store<u32> = Store::new(Index::Suspect(Unit::Bytes));
        assert!(store.evict(Victim::Any(1)).is_none());
        let long = put(&mut store, 1, 0, 9000);
        put(&mut store, 2, 1, 100);
        assert!(store.pop(long).is_some());
        assert_eq!(store.evict(Victim::Suspect).map(|removed| removed.entry.packet), Some(1));
        assert!(store.evict(Victim::Suspect).is_none());
    }

    #[test]
    fn a_packet_that_is_too_old_goes_from_the_head_of_its_queue_whatever_queues_are_closed() {
        let mut store: Store<u32> = Store::new(Index::None);
        let gone = put(&mut store, 1, 0, 100);
        let empty = store.open(2);
        let queue = put(&mut store, 3, 1, 100);
        assert!(store.pop(gone).is_some());
        // It lies where the first one lay.
        put(&mut store, 3, 2, 100);
        store.close(gone);
        store.close(empty);
        let late = |store: &mut Store<u32>| {
            store.expire(Time::from_millis(3)).map(|removed| (removed.queue, removed.entry.packet))
        };
        assert_eq!([late(&mut store), late(&mut store), late(&mut store)], [Some((queue, 1)), Some((queue, 2)), None]);
    }
}
