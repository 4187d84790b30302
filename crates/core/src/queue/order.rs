//! An order of packets of one's own.
//!
//! What it is: [`Order`] is what a crate outside this project implements: it sees a number, a flow, a size and an instant of each
//! packet, and says which number goes first. [`Ordered`] makes a discipline of it: it holds the packets, and finds victims for
//! buffer policies.
//! Cost: the order's own; a victim other than by age costs a look at all that waits, so that an order need not know of victims.
//! Invariants: each number is removed once, before another packet has it; an order that names a number which does not wait is
//! taken to name none, and packets then wait for ever.

use super::discipline::{Discipline, Entry, Taken};
use crate::buffer::Victim;
use crate::own::own;
use crate::units::{FlowNumber, Time};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A packet that waits, as an order sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its number, which another packet takes once this one is gone.
    pub number: u32,
    /// Whose it is.
    pub flow: FlowNumber,
    /// What it counts in bytes.
    pub size: u32,
    /// When it came.
    pub since: Time,
}

/// Says which of the packets that wait goes first.
pub trait Order {
    /// A packet waits from now on.
    fn enqueue(&mut self, packet: Ticket);

    /// The number of the packet that goes first; `None` only while none waits.
    fn first(&self) -> Option<u32>;

    /// This packet waits no longer: it went, or was dropped.
    fn remove(&mut self, number: u32);
}

own! {
    /// Makes an order of one's own, for [`DisciplineConfig::Own`](super::DisciplineConfig::Own).
    OrderMaker() -> OwnOrder: Order
}

/// The discipline of an [`Order`].
#[derive(Clone, Debug)]
pub struct Ordered<P> {
    order: Box<dyn OwnOrder>,
    /// Packets by their numbers, with the place of each in the order of arrival.
    packets: Vec<Option<(u64, Entry<P>)>>,
    free: Vec<u32>,
    arrived: u64,
    /// Packets and bytes of each flow that has any.
    flows: BTreeMap<u32, (u32, u64)>,
}

impl<P> Ordered<P> {
    /// Nothing waits.
    pub fn new(maker: OrderMaker) -> Ordered<P> {
        Ordered { order: (maker.0)(), packets: Vec::new(), free: Vec::new(), arrived: 0, flows: BTreeMap::new() }
    }

    /// Takes a packet out by its number.
    fn remove(&mut self, number: u32) -> Option<Entry<P>> {
        let (_, entry) = self.packets.get_mut(number as usize)?.take()?;
        self.free.push(number);
        self.order.remove(number);
        if let Some((packets, bytes)) = self.flows.get_mut(&entry.flow.0) {
            (*packets, *bytes) = (packets.saturating_sub(1), bytes.saturating_sub(u64::from(entry.size)));
            if *packets == 0 {
                self.flows.remove(&entry.flow.0);
            }
        }
        Some(entry)
    }

    /// The packets that wait: number, place in the order of arrival, and the packet.
    fn waiting(&self) -> impl Iterator<Item = (u32, u64, &Entry<P>)> {
        let numbered = self.packets.iter().enumerate();
        numbered.filter_map(|(number, slot)| slot.as_ref().map(|(place, entry)| (number as u32, *place, entry)))
    }

    /// The number of the packet that pays.
    fn victim(&self, victim: Victim) -> Option<u32> {
        let longest = || self.flows.iter().max_by_key(|(_, (_, bytes))| *bytes).map(|(flow, _)| *flow);
        let of = |flow: u32| self.waiting().filter(move |(_, _, entry)| entry.flow.0 == flow);
        let oldest = |flow: u32| of(flow).min_by_key(|(_, place, _)| *place).map(|(number, ..)| number);
        match victim {
            Victim::Oldest => self.waiting().min_by_key(|(_, place, _)| *place).map(|(number, ..)| number),
            Victim::Longest | Victim::LargestFinish => {
                longest().and_then(|flow| of(flow).max_by_key(|(_, place, _)| *place)).map(|(number, ..)| number)
            }
            Victim::LongestHead | Victim::Suspect => longest().and_then(oldest),
            Victim::Any(draw) => {
                let count = self.waiting().count() as u128;
                let place = (u128::from(draw) * count) >> 64;
                self.waiting().nth(place as usize).map(|(number, ..)| number)
            }
            Victim::AboveShare(draw) => {
                let all: u64 = self.flows.values().map(|(_, bytes)| bytes).sum();
                let share = all / (self.flows.len() as u64).max(1);
                let above: Vec<u32> =
                    self.flows.iter().filter(|(_, (_, bytes))| *bytes >= share).map(|(flow, _)| *flow).collect();
                let place = (u128::from(draw) * above.len() as u128) >> 64;
                above.get(place as usize).copied().and_then(oldest)
            }
        }
    }
}

impl<P> Discipline<P> for Ordered<P> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let flow = self.flows.entry(entry.flow.0).or_default();
        *flow = (flow.0 + 1, flow.1 + u64::from(entry.size));
        let number = self.free.pop().unwrap_or(self.packets.len() as u32);
        let ticket = Ticket { number, flow: entry.flow, size: entry.size, since: entry.since };
        let slot = Some((self.arrived, entry));
        self.arrived += 1;
        match self.packets.get_mut(number as usize) {
            Some(free) => *free = slot,
            None => self.packets.push(slot),
        }
        self.order.enqueue(ticket);
    }

    fn dequeue(&mut self, _: Time) -> Option<Taken<P>> {
        let entry = self.remove(self.order.first()?)?;
        let behind = self.flows.get(&entry.flow.0).map_or(0, |(_, bytes)| *bytes);
        Some(Taken { queue: 0, key: entry.flow.0, behind, entry })
    }

    fn peek(&self) -> Option<&Entry<P>> {
        self.packets.get(self.order.first()? as usize)?.as_ref().map(|(_, entry)| entry)
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        self.remove(self.victim(victim)?)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        let number = self.victim(victim)?;
        self.packets.get_mut(number as usize)?.as_mut().map(|(_, entry)| entry)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        let late = self.waiting().find(|(_, _, entry)| entry.since < oldest).map(|(number, ..)| number);
        self.remove(late?)
    }

    fn active_flows(&self) -> usize {
        self.flows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Limit, PolicyConfig};
    use crate::queue::{Admit, Config, DisciplineConfig, Opaque, Queue};

    /// The shortest packet first; of equals the one that came first.
    #[derive(Clone, Debug, Default)]
    struct Shortest(Vec<(u32, u64, u32)>, u64);

    impl Order for Shortest {
        fn enqueue(&mut self, packet: Ticket) {
            self.0.push((packet.size, self.1, packet.number));
            self.1 += 1;
        }
        fn first(&self) -> Option<u32> {
            self.0.iter().min().map(|packet| packet.2)
        }
        fn remove(&mut self, number: u32) {
            self.0.retain(|packet| packet.2 != number);
        }
    }

    fn queue(buffer: PolicyConfig) -> Queue<Opaque<u32>> {
        let discipline = DisciplineConfig::Own(OrderMaker(|| Box::new(Shortest::default())));
        Queue::new(&Config { discipline, buffer, limit: Limit::Packets(3) }, 1).expect("it works")
    }

    #[test]
    fn packets_go_in_the_order_s_order_and_policies_find_their_victims() {
        // Of flow 1 the newest, of the whole the oldest.
        for (buffer, kept) in
            [(PolicyConfig::LongestQueue, [100, 200, 500]), (PolicyConfig::DropFront, [100, 200, 900])]
        {
            let mut queue = queue(buffer);
            for (flow, size) in [(1, 500), (2, 200), (1, 900), (2, 100)] {
                let packet = Opaque { packet: size, size };
                assert_eq!(queue.enqueue(Time::ZERO, FlowNumber(flow), packet), Admit::Queued);
                while queue.poll_dropped().is_some() {}
            }
            let went: Vec<u32> = core::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|entry| entry.size).collect();
            assert_eq!(went, kept, "{buffer}");
        }
    }

    #[test]
    fn every_packet_comes_out_once_whatever_the_order_and_the_policy() {
        let policies = [PolicyConfig::DropTail, PolicyConfig::RandomDrop, PolicyConfig::RandomLongest];
        for buffer in policies.into_iter().chain([PolicyConfig::LongestQueueFront, PolicyConfig::LargestFinish]) {
            let mut queue = queue(buffer);
            let (mut came, mut went) = (0, 0);
            for n in 0..1000_u32 {
                let packet = Opaque { packet: n, size: 40 + n * 7919 % 1460 };
                came += 1;
                match queue.enqueue(Time::ZERO, FlowNumber(n % 5), packet) {
                    Admit::Queued => {}
                    Admit::Refused(..) => went += 1,
                }
                went += core::iter::from_fn(|| queue.poll_dropped()).count();
                went += usize::from(n % 3 == 0 && queue.dequeue(Time::ZERO).is_some());
            }
            went += core::iter::from_fn(|| queue.dequeue(Time::ZERO)).count();
            assert_eq!(went, came, "{buffer}");
        }
    }

    /// Packets (flow, size), the n-th of which came after n milliseconds.
    fn ordered(packets: &[(u32, u32)]) -> Ordered<usize> {
        let mut ordered = Ordered::new(OrderMaker(|| Box::new(Shortest::default())));
        packets.iter().enumerate().for_each(|(n, (flow, size))| put(&mut ordered, n, *flow, *size));
        ordered
    }

    fn put(ordered: &mut Ordered<usize>, n: usize, flow: u32, size: u32) {
        ordered.enqueue(Entry { packet: n, flow: FlowNumber(flow), size, since: Time::from_millis(n as u64) });
    }

    #[test]
    fn a_packet_is_drawn_from_all_or_from_the_flows_that_have_their_share() {
        let mut four = ordered(&[(1, 1000), (2, 100), (3, 2000), (4, 500)]);
        for (draw, packet) in [(0, 0), (1 << 62, 1), (1 << 63, 2), (3 << 62, 3), (u64::MAX, 3)] {
            assert_eq!(four.find(Victim::Any(draw)).map(|entry| entry.packet), Some(packet), "{draw}");
        }
        // A flow's share is 900 bytes.
        for (draw, packet) in [(0, 0), ((1 << 63) - 1, 0), (1 << 63, 2), (u64::MAX, 2)] {
            assert_eq!(four.find(Victim::AboveShare(draw)).map(|entry| entry.packet), Some(packet), "{draw}");
        }
        assert_eq!(four.evict(Victim::AboveShare(u64::MAX)).map(|entry| entry.packet), Some(2));
    }

    #[test]
    fn the_oldest_packet_came_first_whatever_number_it_has() {
        let mut two = ordered(&[(1, 100), (2, 200)]);
        assert_eq!((two.peek().map(|entry| entry.packet), two.active_flows()), (Some(0), 2));
        assert_eq!(two.dequeue(Time::ZERO).map(|taken| (taken.entry.packet, taken.behind)), Some((0, 0)));
        // It takes the number that is free.
        put(&mut two, 2, 2, 300);
        assert_eq!(two.find(Victim::Oldest).map(|entry| entry.packet), Some(1));
        assert_eq!(two.find(Victim::Longest).map(|entry| entry.packet), Some(2));
        assert_eq!((two.peek().map(|entry| entry.packet), two.active_flows()), (Some(1), 1));
        assert_eq!(two.dequeue(Time::ZERO).map(|taken| (taken.entry.packet, taken.behind)), Some((1, 300)));
        assert_eq!((two.peek().map(|entry| entry.packet), two.active_flows()), (Some(2), 1));
        assert!(two.dequeue(Time::ZERO).is_some());
        assert_eq!((two.peek().is_none(), two.active_flows()), (true, 0));
    }

    #[test]
    fn a_packet_is_too_old_that_came_before_the_instant_and_not_at_it() {
        let mut two = ordered(&[(1, 200), (2, 100)]);
        assert!(two.expire(Time::ZERO).is_none());
        assert_eq!(two.expire(Time::from_millis(1)).map(|entry| entry.packet), Some(0));
        assert!(two.expire(Time::from_millis(1)).is_none());
        assert_eq!(two.expire(Time::from_millis(2)).map(|entry| entry.packet), Some(1));
    }
}
