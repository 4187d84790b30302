//! First in, first out, over all flows.
//!
//! Cost: O(1), but for a packet that is drawn from all: what lies between it and the nearer end moves. Invariant: order is
//! that of arrival. Victims are known without an index: the head is the oldest packet, and the tail is the newest one of
//! the only queue.

use super::discipline::{Discipline, Entry, Taken};
use crate::buffer::Victim;
use crate::rng::Rng;
use crate::units::Time;
use alloc::collections::VecDeque;

/// One queue for all.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    queue: VecDeque<Entry<P>>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Fifo<P> {
        Fifo { queue: VecDeque::new(), bytes: 0 }
    }
}

impl<P> Fifo<P> {
    /// Puts a packet in front of the first one that does not go before it, in a queue that is in such an order.
    pub fn insert(&mut self, entry: Entry<P>, goes_first: impl Fn(&P) -> bool) {
        self.bytes += u64::from(entry.size);
        let place = self.queue.partition_point(|other| goes_first(&other.packet));
        self.queue.insert(place, entry);
    }

    /// How many wait.
    #[inline]
    pub(super) fn packets(&self) -> usize {
        self.queue.len()
    }

    /// Their bytes.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first one.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry<P>> {
        self.queue.front()
    }

    /// Where the victim is.
    fn place(&self, victim: Victim) -> Option<usize> {
        let last = self.queue.len().checked_sub(1)?;
        Some(match victim {
            Victim::Oldest | Victim::LongestHead | Victim::Suspect | Victim::AboveShare(_) => 0,
            Victim::Longest | Victim::LargestFinish => last,
            Victim::Any(draw) => Rng::new(draw).below(last as u64 + 1) as usize,
        })
    }

    fn count(&mut self, entry: Option<Entry<P>>) -> Option<Entry<P>> {
        self.bytes -= entry.as_ref().map_or(0, |entry| u64::from(entry.size));
        entry
    }
}

impl<P> Discipline<P> for Fifo<P> {
    #[inline]
    fn enqueue(&mut self, entry: Entry<P>) {
        self.bytes += u64::from(entry.size);
        self.queue.push_back(entry);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time) -> Option<Taken<P>> {
        let size = self.queue.front()?.size;
        self.bytes -= u64::from(size);
        let entry = self.queue.pop_front()?;
        Some(Taken { entry, queue: 0, key: 0, behind: self.bytes })
    }

    #[inline]
    fn peek(&self) -> Option<&Entry<P>> {
        self.queue.front()
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let place = self.place(victim)?;
        let entry = self.queue.remove(place);
        self.count(entry)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        let place = self.place(victim)?;
        self.queue.get_mut(place)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        self.queue.front().filter(|entry| entry.since < oldest)?;
        let entry = self.queue.pop_front();
        self.count(entry)
    }

    fn active_flows(&self) -> usize {
        usize::from(!self.queue.is_empty())
    }

    fn by_flow(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FlowNumber;
    use alloc::vec::Vec;

    fn entry(packet: u32, size: u32) -> Entry<u32> {
        Entry { packet, flow: FlowNumber(0), size, since: Time::from_millis(u64::from(packet)) }
    }

    fn order(fifo: &mut Fifo<u32>) -> Vec<u32> {
        core::iter::from_fn(|| fifo.dequeue(Time::ZERO)).map(|taken| taken.entry.packet).collect()
    }

    #[test]
    fn a_packet_goes_in_front_of_the_first_one_that_does_not_go_before_it() {
        let mut fifo = Fifo::default();
        for (packet, size) in [(3, 10), (1, 200), (2, 3000)] {
            fifo.insert(entry(packet, size), |other| *other < packet);
        }
        assert_eq!((fifo.packets(), fifo.bytes()), (3, 3210));
        assert_eq!(order(&mut fifo), [1, 2, 3]);
        assert_eq!(fifo.bytes(), 0);
    }

    #[test]
    fn bytes_are_of_what_waits_however_it_went() {
        let mut fifo = Fifo::default();
        for (packet, size) in [(1, 10), (2, 200), (3, 3000), (4, 40_000)] {
            fifo.enqueue(entry(packet, size));
        }
        assert_eq!((fifo.bytes(), fifo.active_flows()), (43_210, 1));
        assert_eq!(fifo.evict(Victim::Longest).map(|entry| entry.packet), Some(4));
        assert_eq!(fifo.bytes(), 3210);
        assert_eq!(fifo.expire(Time::from_millis(2)).map(|entry| entry.packet), Some(1));
        assert_eq!(fifo.bytes(), 3200);
        assert_eq!(fifo.dequeue(Time::ZERO).map(|taken| taken.behind), Some(3000));
        assert_eq!(fifo.evict(Victim::Oldest).map(|entry| entry.packet), Some(3));
        assert_eq!((fifo.bytes(), fifo.active_flows()), (0, 0));
    }

    #[test]
    fn each_packet_may_be_drawn() {
        let mut fifo = Fifo::default();
        (0..3).for_each(|packet| fifo.enqueue(entry(packet, 100)));
        let mut drawn = [0; 3];
        for draw in 0..300 {
            drawn[fifo.find(Victim::Any(draw)).expect("three wait").packet as usize] += 1;
        }
        assert!(drawn.iter().all(|count| (60..=140).contains(count)), "{drawn:?}");
    }
}
