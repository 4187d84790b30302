//! Two levels: groups share the link first, then the flows of each group share what it has.
//!
//! What it is: a group is a host or a class, told by the packet that finds its flow without any other waiting
//! ([`Parcel::host`], [`Parcel::class`]); the flow stays in it until it is empty. Flows of a group share by deficit round
//! robin. Groups do so as well, or a more urgent class goes before all others:
//!
//! | discipline | groups | among groups |
//! |---|---|---|
//! | `hosts` | hosts at one end of the flows | deficit round robin, equal shares |
//! | `classes` | classes 0 to 7 | deficit round robin, by weights of the classes |
//! | `priority` | classes 0 to 7 | the highest class goes first |
//!
//! Source: Shreedhar and Varghese 1995, section 3, twice ([`Round`]); hierarchies of fair queues: Bennett and Zhang,
//! "Hierarchical Packet Fair Queueing Algorithms", SIGCOMM 1996; priority levels: hybrid-gateways 2.1. Fairness among
//! hosts before flows is what Linux's `sch_cake` calls dual isolation; a host that opens many flows so gets no more.
//!
//! | symbol | field |
//! |---|---|
//! | what a group still has of its visits, and its turn | `outer`, `outer_places` |
//! | what a flow still has of its visits, and its turn | `Group::inner`, `inner_places` |
//!
//! The packet that a group would send next is chosen before the group's turn comes, by its own round; the group's deficit
//! must cover it. A packet is never interrupted by a more urgent one. Hosts are told apart by a hash of 32 bits with a secret key: of a thousand
//! hosts two share one place with a probability of one in 8600, and nobody can choose to.
//!
//! Who pays where a policy looks for the longest queue: first the group that has the most, over its weight, and then its longest flow
//! ([`Backlogs`]). With random-longest the group is drawn from those above their share.
//!
//! Cost: O(1) a packet with a quantum of the largest packet or more, as of [`Drr`](super::Drr); the host is read of a packet
//! that makes its flow active, and of no other. Memory: 20 bytes a queue beside the store's, 40 a group, as many groups as were
//! active at once. Invariants: over any interval in which two groups (but not levels of priority), or two flows of one
//! group, are backlogged, what they are served over their weights differs by at most Quantum + 2 Max; a level of priority sends nothing while a
//! higher one waits.

use super::backlogs::Backlogs;
use super::discipline::{Discipline, Entry, Index, Taken};
use super::parcel::{End, Parcel};
use super::round::{Places, Round};
use super::store::{NIL, Removed, Store};
use super::weights::{CLASSES, Weights};
use crate::buffer::Victim;
use crate::flow::FlowHash;
use crate::flow::slots::Slots;
use crate::units::{Bytes, FlowNumber, Time};
use alloc::vec::Vec;

/// What the groups are, and how they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Hosts at this end have equal shares.
    Hosts(End),
    /// Classes share by these weights.
    Classes(Weights),
    /// Higher classes go first.
    Priority,
}

/// A group that has packets, or a free place for one.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// What it is found by. Of a free place: the next free one.
    number: u32,
    inner: Round,
}

/// Deficit round robin over the flows of groups, and over groups.
#[derive(Clone, Debug)]
pub struct Hierarchy<P> {
    store: Store<P>,
    grouping: Grouping,
    quantum: u64,
    hash: FlowHash,
    /// Hosts that have packets, by number; classes lie where their numbers say.
    table: Slots,
    groups: Vec<Group>,
    free: u32,
    outer: Round,
    outer_places: Places,
    inner_places: Places,
    /// By queue: its group.
    group_of: Vec<u32>,
    /// Where a policy looks for who has the most.
    backlogs: Option<Backlogs>,
    /// Flows that have packets.
    active: usize,
}

impl<P> Hierarchy<P> {
    /// An empty one that gives each group and each flow `quantum` bytes a visit (at least 1). `seed` keys the hash of hosts.
    pub fn new(grouping: Grouping, quantum: Bytes, index: Index, seed: u64) -> Hierarchy<P> {
        let (backlogs, index) = Backlogs::of(index);
        let classes = if let Grouping::Hosts(_) = grouping { 0 } else { CLASSES };
        Hierarchy {
            store: Store::new(index),
            grouping,
            quantum: quantum.as_u64().max(1),
            hash: FlowHash::new(seed),
            table: Slots::new(),
            groups: (0..classes as u32).map(|number| Group { number, inner: Round::EMPTY }).collect(),
            free: NIL,
            outer: Round::EMPTY,
            outer_places: Places::default(),
            inner_places: Places::default(),
            group_of: Vec::new(),
            backlogs,
            active: 0,
        }
    }

    /// The place of the host with this address, a new one if it has none.
    fn open(&mut self, address: u128) -> u32 {
        let number = self.hash.number(address);
        if let Some(group) = self.table.slot(number) {
            return group;
        }
        let fresh = Group { number, inner: Round::EMPTY };
        let group = match self.groups.get_mut(self.free as usize) {
            Some(place) => {
                let next = core::mem::replace(place, fresh).number;
                core::mem::replace(&mut self.free, next)
            }
            None => {
                self.groups.push(fresh);
                (self.groups.len() - 1) as u32
            }
        };
        self.table.insert(number, group);
        group
    }

    /// `queue` has more or less waiting, or it counts otherwise.
    #[inline]
    fn on_changed(&mut self, queue: u32) {
        if let Some(backlogs) = &mut self.backlogs {
            let group = self.group_of[queue as usize];
            let weight = if let Grouping::Classes(weights) = self.grouping { weights.of(group) } else { 1 };
            backlogs.on_changed(group, weight, queue, self.store.length(queue, backlogs.unit()));
        }
    }

    /// The queue that pays: of the group that has the most, or of one that is drawn from those above their share, the one that has the
    /// most. Where a guess is of what has nothing any more, whoever has the turn has more.
    fn payer(&mut self, victim: Victim) -> Option<u32> {
        let backlogs = self.backlogs.as_mut()?;
        let guess = match victim {
            Victim::Oldest | Victim::Any(_) => return None,
            Victim::AboveShare(draw) => backlogs.group_above(draw),
            Victim::Longest | Victim::LongestHead | Victim::Suspect | Victim::LargestFinish => backlogs.group(),
        };
        let waits = |group: &u32| self.groups.get(*group as usize).is_some_and(|group| group.inner.len() > 0);
        let group = guess.filter(waits).or_else(|| self.outer.first())?;
        let is_of_it = |queue: &u32| self.group_of[*queue as usize] == group && self.store.head(*queue).is_some();
        backlogs.flow(group).filter(is_of_it).or_else(|| self.groups[group as usize].inner.first())
    }

    /// A packet has left `removed.queue`: it may be empty now, and its group as well.
    fn on_removed(&mut self, removed: &Removed<P>) {
        self.on_changed(removed.queue);
        if !removed.emptied {
            return;
        }
        let group = self.group_of[removed.queue as usize];
        let inner = &mut self.groups[group as usize].inner;
        inner.leave(&mut self.inner_places, removed.queue);
        self.store.close(removed.queue);
        self.active -= 1;
        if inner.len() > 0 {
            return;
        }
        self.outer.leave(&mut self.outer_places, group);
        if let Grouping::Hosts(_) = self.grouping {
            let place = &mut self.groups[group as usize];
            self.table.remove(place.number);
            place.number = core::mem::replace(&mut self.free, group);
        }
    }

    /// The group and the flow that send next, and what that is charged.
    #[inline]
    fn select(&mut self) -> Option<(u32, u32, u64)> {
        let Hierarchy { store, groups, inner_places, quantum, grouping, .. } = self;
        let mut within = |group: u32| {
            let cost = |queue| cost(store, queue);
            groups[group as usize].inner.select(inner_places, cost, |queue| visit(store, *quantum, queue))
        };
        if let Grouping::Priority = grouping {
            let highest = highest(&self.outer, groups)?;
            let inner = &mut groups[highest as usize].inner;
            let (queue, cost) =
                inner.select(inner_places, |queue| cost(store, queue), |queue| visit(store, *quantum, queue))?;
            return Some((highest, queue, cost));
        }
        let shares = *grouping;
        let (group, cost) = self.outer.select(
            &mut self.outer_places,
            |group| within(group).map_or(0, |(_, cost)| cost),
            |group| share(shares, *quantum, group),
        )?;
        let (queue, _) = within(group)?;
        Some((group, queue, cost))
    }

    /// The flow of `group` that would send next.
    fn first_of(&self, group: u32) -> Option<u32> {
        let inner = &self.groups.get(group as usize)?.inner;
        let cost = |queue| cost(&self.store, queue);
        inner.peek(&self.inner_places, cost, |queue| visit(&self.store, self.quantum, queue))
    }
}

/// What the head of `queue` is charged.
#[inline]
fn cost<P>(store: &Store<P>, queue: u32) -> u64 {
    store.head(queue).map_or(0, |head| u64::from(head.size))
}

/// What a visit gives `queue`.
#[inline]
fn visit<P>(store: &Store<P>, quantum: u64, queue: u32) -> u64 {
    quantum * u64::from(store.weight(queue))
}

/// What a visit gives `group`.
#[inline]
fn share(grouping: Grouping, quantum: u64, group: u32) -> u64 {
    match grouping {
        Grouping::Classes(weights) => quantum * u64::from(weights.of(group)),
        Grouping::Hosts(_) | Grouping::Priority => quantum,
    }
}

/// The highest class that has packets.
fn highest(outer: &Round, groups: &[Group]) -> Option<u32> {
    if outer.len() == 0 {
        return None;
    }
    groups.iter().rposition(|group| group.inner.len() > 0).map(|group| group as u32)
}

impl<P: Parcel> Discipline<P> for Hierarchy<P> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let queue = self.store.open(entry.flow.0);
        if self.store.head(queue).is_none() {
            let group = match self.grouping {
                Grouping::Hosts(end) => self.open(entry.packet.host(end)),
                Grouping::Classes(_) | Grouping::Priority => u32::from(entry.packet.class()).min(CLASSES as u32 - 1),
            };
            if self.group_of.len() <= queue as usize {
                self.group_of.resize(queue as usize + 1, 0);
            }
            self.group_of[queue as usize] = group;
            let inner = &mut self.groups[group as usize].inner;
            if inner.len() == 0 {
                self.outer.join(&mut self.outer_places, group);
            }
            inner.join(&mut self.inner_places, queue);
            self.active += 1;
        }
        self.store.push(queue, entry, ());
        self.on_changed(queue);
    }

    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let (group, queue, cost) = self.select()?;
        if self.grouping != Grouping::Priority {
            self.outer.charge(&mut self.outer_places, group, cost);
        }
        self.groups[group as usize].inner.charge(&mut self.inner_places, queue, cost);
        let removed = self.store.pop(queue)?;
        self.on_removed(&removed);
        Some(removed.into())
    }

    fn peek(&self) -> Option<&Entry<P>> {
        let group = match self.grouping {
            Grouping::Priority => highest(&self.outer, &self.groups)?,
            _ => self.outer.peek(
                &self.outer_places,
                |group| self.first_of(group).map_or(0, |queue| cost(&self.store, queue)),
                |group| share(self.grouping, self.quantum, group),
            )?,
        };
        self.store.head(self.first_of(group)?)
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let removed = match self.payer(victim) {
            Some(queue) if victim.is_newest() => self.store.pop_tail(queue),
            Some(queue) => self.store.pop(queue),
            None => self.store.evict(victim),
        }?;
        self.on_removed(&removed);
        Some(removed.entry)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        match self.payer(victim) {
            Some(queue) if victim.is_newest() => self.store.tail_mut(queue),
            Some(queue) => self.store.head_mut(queue),
            None => self.store.find(victim),
        }
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        let removed = self.store.expire(oldest)?;
        self.on_removed(&removed);
        Some(removed.entry)
    }

    /// The weight counts among the flows of its group.
    fn set_weight(&mut self, flow: FlowNumber, weight: u32) {
        self.store.set_weight(flow.0, weight);
    }

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.store.set_room(flow.0, room);
        if let Some(queue) = self.store.queue(flow.0) {
            self.on_changed(queue);
        }
    }

    fn active_flows(&self) -> usize {
        self.active
    }

    fn forgets(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Unit;

    /// A packet of a host, whose number is its class as well.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Packet {
        number: u32,
        host: u8,
    }

    impl Parcel for Packet {
        fn size(&self) -> u32 {
            100
        }

        fn host(&self, _end: End) -> u128 {
            self.host.into()
        }

        fn class(&self) -> u8 {
            self.host
        }
    }

    fn queue(grouping: Grouping, index: Index) -> Hierarchy<Packet> {
        Hierarchy::new(grouping, Bytes::new(1500), index, 1)
    }

    fn put(queue: &mut Hierarchy<Packet>, flow: u32, number: u32, host: u8) {
        queue.enqueue(Entry { packet: Packet { number, host }, flow: FlowNumber(flow), size: 100, since: Time::ZERO });
    }

    fn next(queue: &mut Hierarchy<Packet>) -> Option<u32> {
        queue.dequeue(Time::ZERO).map(|taken| taken.entry.packet.number)
    }

    #[test]
    fn a_class_beyond_the_highest_is_the_highest() {
        for class in [CLASSES as u8, u8::MAX] {
            let mut queue = queue(Grouping::Priority, Index::None);
            for (number, class) in [(0, CLASSES as u8 - 2), (1, CLASSES as u8 - 1), (2, class)] {
                put(&mut queue, number, number, class);
            }
            assert_eq!([(); 3].map(|()| next(&mut queue)), [Some(1), Some(2), Some(0)], "{class}");
        }
    }

    #[test]
    fn what_is_found_is_what_would_be_evicted() {
        for victim in [Victim::Longest, Victim::LongestHead] {
            let mut queue = queue(Grouping::Hosts(End::Source), Index::Longest(Unit::Packets));
            // The second host has the most, and there the first flow.
            for (number, (flow, host)) in [(0, 1), (0, 1), (1, 2), (1, 2), (2, 2)].into_iter().enumerate() {
                put(&mut queue, flow, number as u32, host);
            }
            let found = queue.find(victim).map(|entry| entry.packet.number);
            assert_eq!(found, Some(if victim == Victim::Longest { 3 } else { 2 }));
            assert_eq!(queue.evict(victim).map(|entry| entry.packet.number), found);
        }
    }

    #[test]
    fn another_host_pays_where_the_one_that_is_guessed_has_nothing_any_more() {
        let mut queue = queue(Grouping::Hosts(End::Source), Index::Suspect(Unit::Packets));
        [(0, 0, 1), (0, 1, 1), (1, 2, 2)]
            .iter()
            .for_each(|(flow, number, host)| put(&mut queue, *flow, *number, *host));
        // The turn of the first host holds all that it has; its last packet is what was seen last of it.
        assert_eq!((next(&mut queue), next(&mut queue)), (Some(0), Some(1)));
        assert_eq!(queue.evict(Victim::Suspect).map(|entry| entry.packet.number), Some(2));
        assert_eq!(queue.evict(Victim::Suspect).map(|entry| entry.packet.number), None);
    }

    #[test]
    fn a_flow_of_the_host_pays_where_the_place_of_the_one_that_is_guessed_belongs_to_another_host() {
        let mut queue = queue(Grouping::Hosts(End::Source), Index::Suspect(Unit::Packets));
        [(0, 0), (0, 1), (1, 2)].iter().for_each(|(flow, number)| put(&mut queue, *flow, *number, 1));
        assert_eq!((next(&mut queue), next(&mut queue)), (Some(0), Some(1)));
        // It lies where the first flow lay.
        put(&mut queue, 2, 3, 2);
        assert_eq!(queue.store.queue(2), Some(0));
        assert_eq!(queue.evict(Victim::Suspect).map(|entry| entry.packet.number), Some(2));
    }
}
