//! Quick fair queueing (QFQ): nearly as good as exact worst-case fair queueing, in constant time.
//!
//! Source: Checconi, Rizzo and Valente, "QFQ: Efficient Packet Scheduling with Tight Guarantees", IEEE/ACM Transactions on
//! Networking 21(3), 2013, sections III and IV. It serves, of the flows that the fluid system would have begun to serve, the
//! one that it would finish first (Bennett and Zhang's WF2Q+), by timestamps that are rounded.
//!
//! | paper | here |
//! |---|---|
//! | V(t) | `virtual_time`; it never goes back |
//! | phi_k, the sum of all | `Flow::weight`, `weights` |
//! | L_k, L | `largest`, of all flows |
//! | S_k, F_k | `Flow::start` of the head; start + size over weight |
//! | sigma_i, 2^i >= L_k / phi_k | 2^`shift` of a group |
//! | S_i, F_i of a group | `front` of its slots; that and 2 sigma_i |
//! | ^S_k, buckets | the start rounded down to sigma_i; `slots` |
//! | eligible | `front` is not after V |
//!
//! Flows whose largest packet over weight lies in the same power of two form a group. In a group, starts are rounded to multiples of sigma_i, so that
//! flows lie in a few slots, which are a ring and a mask of bits; the order in a slot does not matter. Of the eligible groups that with the least
//! finish goes, and in it the first flow of the first slot.
//!
//! Departures: the paper keeps the groups in four masks, by eligibility and readiness, whose least member is that very group; here the groups that have
//! flows are looked through, of which there are as many as powers of two among the weights, at most [`GROUPS`]. The sum of weights is that
//! of the flows that have packets, or whose last finish V has not passed ([`Tagged`](super::Tagged) says how they are forgotten). A packet that is larger
//! than `largest` is served all the same; its flow is then so much ahead, and at most 64 slots. A packet that is dropped is not
//! charged for.
//!
//! Cost: O(1). Memory: 32 bytes a flow that is active or remembered, and 600 a group. Invariants: starts of flows that have packets are at most 2 sigma_i
//! beyond V; a flow that is backlogged over any interval is served no less than its weight's share of the
//! work, less 3 phi_k sigma_i + 2 L phi_k / (sum of phi) (theorem 2, the bandwidth worst-case fair index).

use super::discipline::{Discipline, Entry, Index, MOST_WEIGHT, Taken};
use super::finishes::{self, Finishes};
use super::stamp::Stamp;
use super::store::{Removed, Store};
use super::tagged::{MOST_IDLE, SCALE};
use crate::buffer::Victim;
use crate::causal::{Cycle, Links, Ring};
use crate::units::{Bytes, FlowNumber, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The largest packet that may be expected, in bytes.
pub const MOST_LARGEST: u64 = 1 << 20;

/// Slots of a group: one for each bit of a mask.
const SLOTS: usize = 64;
/// How far the last slot may lie behind the front one.
const REACH: u64 = SLOTS as u64 - 1;
/// Most groups: powers of two from the largest weight to the least.
const GROUPS: usize = MOST_WEIGHT.ilog2() as usize + 1;

/// Quick fair queueing over a queue for each flow.
#[derive(Clone, Debug)]
pub struct Qfq<P> {
    store: Store<P>,
    flows: Vec<Flow>,
    /// Of the flows' queues in slots.
    links: Links,
    groups: [Option<Box<Group>>; GROUPS],
    /// Groups that have flows, by bits.
    full: u32,
    /// Of the first group: for the largest weight.
    least_shift: u32,
    largest: u64,
    virtual_time: u64,
    /// What of the work virtual time has not had, because it is less than a unit.
    rest: u64,
    weights: u64,
    largest_finish: u64,
    active: usize,
    /// Flows that have no packets and are remembered, in the order in which they fell idle.
    idle: Cycle,
    /// Where a policy discards by finish numbers.
    finishes: Option<Finishes>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// S_k of the head; of an idle flow, F_k of its last packet.
    start: u64,
    /// phi_k since it became active.
    weight: u32,
    group: u8,
    slot: u8,
    /// What of its cost its start has not had, because it is less than a unit.
    rest: u16,
}

impl Flow {
    /// It is served so many bytes.
    #[inline]
    fn serve(&mut self, size: u32) {
        let cost = u64::from(size) * SCALE;
        if self.weight == 1 {
            self.start += cost;
            return;
        }
        let (cost, weight) = (cost + u64::from(self.rest), u64::from(self.weight));
        self.start += cost / weight;
        self.rest = (cost % weight) as u16;
    }
}

/// Flows in slots by their rounded starts.
#[derive(Clone, Debug)]
struct Group {
    slots: [Ring; SLOTS],
    /// Slots that have flows, by bits.
    full: u64,
    /// The first of them, counted from the beginning of time: S_i over sigma_i.
    front: u64,
}

impl Group {
    fn empty() -> Box<Group> {
        Box::new(Group { slots: [Ring::EMPTY; SLOTS], full: 0, front: 0 })
    }

    /// Puts `queue` into this slot, or into the nearest that there is: which it lies in.
    #[inline]
    fn insert(&mut self, links: &mut Links, queue: u32, slot: u64) -> u8 {
        let slot = if self.full == 0 {
            self.front = slot;
            slot
        } else if slot < self.front {
            let last = self.front + REACH - u64::from(self.turned().leading_zeros());
            self.front = slot.max(last.saturating_sub(REACH));
            self.front
        } else {
            slot.min(self.front + REACH)
        };
        let at = slot as usize % SLOTS;
        self.slots[at].push(links, queue);
        self.full |= 1 << at;
        at as u8
    }

    /// Takes `queue` out of its slot.
    #[inline]
    fn remove(&mut self, links: &mut Links, queue: u32, at: u8) {
        let ring = &mut self.slots[usize::from(at)];
        ring.remove(links, queue);
        if ring.len() == 0 {
            self.full &= !(1 << at);
            if self.full != 0 {
                self.front += u64::from(self.turned().trailing_zeros());
            }
        }
    }

    /// The mask of slots, the front one first.
    #[inline]
    fn turned(&self) -> u64 {
        self.full.rotate_right(self.front as u32)
    }

    /// The flow that goes next.
    #[inline]
    fn first(&self) -> Option<u32> {
        self.slots[self.front as usize % SLOTS].first()
    }
}

impl<P> Qfq<P> {
    /// An empty one for packets of up to `largest` bytes (1 to 2^20).
    pub fn new(largest: Bytes, index: Index) -> Qfq<P> {
        let largest = largest.as_u64().clamp(1, MOST_LARGEST);
        let (finishes, index) = Finishes::of(index);
        Qfq {
            store: Store::new(index),
            flows: Vec::new(),
            links: Links::default(),
            groups: [const { None }; GROUPS],
            full: 0,
            least_shift: shift(largest, MOST_WEIGHT),
            largest,
            virtual_time: 0,
            rest: 0,
            weights: 0,
            largest_finish: 0,
            active: 0,
            idle: Cycle::EMPTY,
            finishes,
        }
    }

    /// The group that goes next, and virtual time, which goes on to where there is one that may.
    #[inline]
    fn select(&self) -> Option<(usize, u64)> {
        let mut best: Option<(u64, usize)> = None;
        let (mut least, mut of_least) = (u64::MAX, None);
        let mut full = self.full;
        while full != 0 {
            let at = full.trailing_zeros() as usize;
            full &= full - 1;
            let Some(group) = &self.groups[at] else { continue };
            let shift = self.least_shift + at as u32;
            let start = group.front << shift;
            if start <= self.virtual_time {
                let finish = start + (2 << shift);
                if best.is_none_or(|(first, _)| finish < first) {
                    best = Some((finish, at));
                }
            }
            // Of those that begin first, the least group ends first.
            if start < least {
                (least, of_least) = (start, Some(at));
            }
        }
        match best {
            Some((_, at)) => Some((at, self.virtual_time)),
            None => of_least.map(|at| (at, least)),
        }
    }

    /// The link does so much work.
    #[inline]
    fn advance(&mut self, size: u32) {
        self.rest += u64::from(size) * SCALE;
        // Most often one is alone, or all have the same.
        if self.weights > 1 {
            self.virtual_time += self.rest / self.weights;
            self.rest %= self.weights;
        } else {
            self.virtual_time += core::mem::take(&mut self.rest);
        }
    }

    /// Puts `queue` among those of its group, by its start.
    #[inline]
    fn insert(&mut self, queue: u32) {
        let flow = &mut self.flows[queue as usize];
        let at = usize::from(flow.group);
        let group = self.groups[at].get_or_insert_with(Group::empty);
        flow.slot = group.insert(&mut self.links, queue, flow.start >> (self.least_shift + at as u32));
        self.full |= 1 << at;
    }

    #[inline]
    fn remove(&mut self, queue: u32) {
        let Flow { group: at, slot, .. } = self.flows[queue as usize];
        if let Some(group) = &mut self.groups[usize::from(at)] {
            group.remove(&mut self.links, queue, slot);
            if group.full == 0 {
                self.full &= !(1 << at);
            }
        }
    }

    /// Forgets idle flows whose past makes no difference any more: two at a time, more than can fall idle meanwhile.
    #[inline]
    fn forget(&mut self) {
        for _ in 0..2 {
            let Some(queue) = self.idle.first() else { return };
            if self.idle.len() <= MOST_IDLE && self.flows[queue as usize].start > self.virtual_time {
                return;
            }
            self.idle.remove(queue);
            self.weights -= u64::from(self.flows[queue as usize].weight);
            self.store.close(queue);
        }
    }

    fn fall_idle(&mut self, queue: u32) {
        self.active -= 1;
        self.idle.push(queue);
        self.forget();
    }

    fn on_dropped(&mut self, removed: &Removed<P>) {
        if let Some(finishes) = &mut self.finishes {
            let cost = cost(removed.entry.size, self.flows[removed.queue as usize].weight);
            finishes.on_dropped(removed.queue, cost, removed.emptied);
        }
        if removed.emptied {
            self.remove(removed.queue);
            self.fall_idle(removed.queue);
        }
    }
}

/// What a packet of `size` bytes takes of virtual time, for a flow of this weight.
#[inline]
fn cost(size: u32, weight: u32) -> Stamp {
    Stamp::over(u64::from(size) * SCALE, weight)
}

/// i of sigma_i for a flow of this weight.
fn shift(largest: u64, weight: u32) -> u32 {
    (largest * SCALE).div_ceil(u64::from(weight)).next_power_of_two().trailing_zeros()
}

impl<P> Discipline<P> for Qfq<P> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let key = entry.flow.0;
        let known = self.store.queue(key);
        let queue = known.unwrap_or_else(|| self.store.open(key));
        let size = entry.size;
        if !self.store.push(queue, entry, ()) {
            if let Some(finishes) = &mut self.finishes
                && let Some(last) = finishes.last(queue)
            {
                finishes.on_arrival(queue, last.saturating_add(cost(size, self.flows[queue as usize].weight)));
            }
            return;
        }
        if self.flows.len() <= queue as usize {
            self.flows.resize(queue as usize + 1, Flow::default());
        }
        let weight = self.store.weight(queue);
        let flow = &mut self.flows[queue as usize];
        if known.is_some() {
            self.idle.remove(queue);
            self.weights -= u64::from(flow.weight);
        } else {
            flow.start = 0;
        }
        if flow.weight != weight {
            (flow.weight, flow.rest) = (weight, 0);
            flow.group = (shift(self.largest, weight) - self.least_shift) as u8;
        }
        flow.start = flow.start.max(self.virtual_time);
        if let Some(finishes) = &mut self.finishes {
            finishes.on_arrival(queue, Stamp::of(flow.start).saturating_add(cost(size, weight)));
        }
        self.weights += u64::from(weight);
        self.active += 1;
        self.insert(queue);
    }

    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let Some((at, virtual_time)) = self.select() else {
            self.virtual_time = self.virtual_time.max(self.largest_finish);
            self.forget();
            return None;
        };
        self.virtual_time = virtual_time;
        let queue = self.groups[at].as_ref()?.first()?;
        let removed = self.store.pop(queue)?;
        let size = removed.entry.size;
        self.advance(size);
        self.remove(queue);
        let flow = &mut self.flows[queue as usize];
        flow.serve(size);
        self.largest_finish = self.largest_finish.max(flow.start);
        if removed.emptied {
            self.fall_idle(queue);
            if let Some(finishes) = &mut self.finishes {
                finishes.on_emptied(queue);
            }
        } else {
            self.insert(queue);
        }
        Some(removed.into())
    }

    fn peek(&self) -> Option<&Entry<P>> {
        let (at, _) = self.select()?;
        self.store.head(self.groups[at].as_ref()?.first()?)
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

    /// It counts from the next packet on that finds none of the flow waiting.
    fn set_weight(&mut self, flow: FlowNumber, weight: u32) {
        self.store.set_weight(flow.0, weight);
    }

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.store.set_room(flow.0, room);
    }

    fn active_flows(&self) -> usize {
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    fn queue(index: Index) -> Qfq<u32> {
        Qfq::new(Bytes::new(1000), index)
    }

    fn put(queue: &mut Qfq<u32>, flow: u32, packet: u32) {
        queue.enqueue(Entry { packet, flow: FlowNumber(flow), size: 1000, since: Time::ZERO });
    }

    fn next(queue: &mut Qfq<u32>) -> Option<u32> {
        queue.dequeue(Time::ZERO).map(|taken| taken.entry.flow.0)
    }

    /// A packet of a flow with this weight comes at this virtual time, so that it starts then.
    fn put_at(queue: &mut Qfq<u32>, virtual_time: u64, flow: u32, weight: u32) {
        queue.virtual_time = virtual_time;
        queue.set_weight(FlowNumber(flow), weight);
        put(queue, flow, 0);
    }

    #[test]
    fn of_the_groups_that_may_go_the_least_finish_goes_and_of_equal_ones_the_finer_group() {
        // Of weight 1, sigma is 2^18: from 0 to 2^19. Of weight 2 it is 2^17: from 3 times that to 5 times, or from 2 times to 4.
        for (start, first) in [(3 << 17, 1), (2 << 17, 2)] {
            let mut queue = queue(Index::None);
            put_at(&mut queue, 0, 1, 1);
            put_at(&mut queue, start, 2, 2);
            assert_eq!(next(&mut queue), Some(first), "{start}");
        }
    }

    #[test]
    fn where_none_may_go_virtual_time_goes_on_to_the_first_start_and_the_finer_of_two_groups_goes() {
        let mut queue = queue(Index::None);
        put_at(&mut queue, 1 << 19, 1, 1);
        put_at(&mut queue, 1 << 19, 2, 2);
        queue.virtual_time = 0;
        assert_eq!(next(&mut queue), Some(2));
        assert_eq!(queue.virtual_time, (1 << 19) + 256_000 / 3);
    }

    #[test]
    fn who_starts_too_far_from_the_front_lies_in_the_nearest_slot_and_the_order_stays() {
        let (mut group, mut links) = (Group::empty(), Links::default());
        let at = |slot: u64| (slot % 64) as u8;
        assert_eq!(group.insert(&mut links, 0, 1000), at(1000));
        assert_eq!(group.insert(&mut links, 1, 5000), at(1063), "the last that there is");
        assert_eq!(group.insert(&mut links, 2, 10), at(1000), "the first, as the last one is 63 further on");
        for queue in [0, 2, 1] {
            assert_eq!(group.first(), Some(queue));
            group.remove(&mut links, queue, if queue == 1 { at(1063) } else { at(1000) });
        }
        assert_eq!((group.insert(&mut links, 0, 1000), group.insert(&mut links, 1, 10)), (at(1000), at(937)));
        assert_eq!((group.front, group.first()), (937, Some(1)));
    }

    #[test]
    fn an_idle_flow_counts_until_virtual_time_has_come_to_its_last_finish() {
        let mut queue = queue(Index::None);
        put(&mut queue, 1, 0);
        put(&mut queue, 2, 0);
        let known =
            |queue: &Qfq<u32>| (queue.virtual_time, queue.idle.len(), queue.weights, queue.store.queue(1).is_some());
        // Its packet ends at 256,000; two share the work.
        assert_eq!(next(&mut queue), Some(1));
        assert_eq!(known(&queue), (128_000, 1, 2, true));
        assert_eq!(next(&mut queue), Some(2));
        assert_eq!(known(&queue), (256_000, 0, 0, false));
    }

    #[test]
    fn of_more_idle_flows_than_are_remembered_the_first_is_forgotten() {
        let mut queue = queue(Index::None);
        // So many that virtual time does not come to the end of anybody's packet while these are served.
        (0..70_000).for_each(|flow| put(&mut queue, flow, 0));
        (0..MOST_IDLE).for_each(|_| assert!(next(&mut queue).is_some()));
        assert_eq!((queue.idle.len(), queue.store.queue(0).is_some()), (MOST_IDLE, true));
        assert!(next(&mut queue).is_some());
        assert_eq!((queue.idle.len(), queue.store.queue(0), queue.weights), (MOST_IDLE, None, 69_999));
        assert!(queue.store.queue(1).is_some());
    }

    #[test]
    fn the_largest_finish_is_found_and_a_packet_is_drawn_all_the_same() {
        let mut queue = queue(Index::Finish);
        [(1, 0), (2, 1), (2, 2)].iter().for_each(|(flow, packet)| put(&mut queue, *flow, *packet));
        assert_eq!(queue.find(Victim::LargestFinish).map(|entry| entry.packet), Some(2));
        let drawn: BTreeSet<_> =
            (0..100).filter_map(|draw| Some(queue.find(Victim::Any(draw << 57))?.packet)).collect();
        assert_eq!(drawn.len(), 3);
        assert_eq!(queue.evict(Victim::LargestFinish).map(|entry| entry.packet), Some(2));
    }
}
