//! The nearest events: a short list, in the order of time and insertion.
//!
//! The list lies in a ring of `MOST` places, so that room is at both of its ends. The first event is taken from the front.
//! What is put in is compared with the middle event first, and then with those of its own half, from the list's end on: each
//! that it passes moves by one place. The next packet of a source is among the last and passes few; a packet's next hop is
//! among the first and passes few, however many timers stand behind it.
//!
//! | symbol | field |
//! |---|---|
//! | the first event, and the place behind the last one | `first`, `end` |
//! | so many events the list takes | `room` |
//! | events that come after those of the list | `crowd` |
//!
//! A list that is full refuses. Then the calendar takes its later half away. Where it cannot, as all are before the wheel's
//! origin, and where thousands come at one instant, the later ones go into a heap, the crowd; the list takes a few out of
//! it each time it has run dry. Cost: half of `MOST` moves at most, and O(log n) in a crowd. Invariants: the list is sorted;
//! no event of the crowd is before one of the list; `room` is 0 while there is a crowd, otherwise `MOST`.

use super::event::Event;
use fairspan_core::units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events of the list at most: a power of two.
const MOST: u32 = 64;
/// Events that the list takes out of a crowd together.
const FEW: u32 = 16;

/// The nearest events.
#[derive(Clone, Debug)]
pub(super) struct Near {
    ring: [Event; MOST as usize],
    /// Places are counted on without end; `at` finds them in the ring.
    first: u32,
    end: u32,
    room: u32,
    crowd: BinaryHeap<Reverse<Event>>,
}

impl Default for Near {
    fn default() -> Near {
        let ring = [Event::new(Time::ZERO, 0, 0); MOST as usize];
        Near { ring, first: 0, end: 0, room: MOST, crowd: BinaryHeap::new() }
    }
}

/// Where a place lies in the ring.
#[inline(always)]
const fn at(place: u32) -> usize {
    (place % MOST) as usize
}

impl Near {
    /// All events.
    pub(super) fn len(&self) -> usize {
        self.listed() as usize + self.crowd.len()
    }

    #[inline(always)]
    fn listed(&self) -> u32 {
        self.end.wrapping_sub(self.first)
    }

    /// The first event, if the list has one.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<Event> {
        (self.first != self.end).then(|| self.ring[at(self.first)])
    }

    /// Takes out the first event, which [`Near::first`] has just given.
    #[inline(always)]
    pub(super) fn remove_first(&mut self) {
        debug_assert!(self.first != self.end);
        self.first = self.first.wrapping_add(1);
    }

    /// Puts an event into the list, if that has room: whether it had.
    #[inline]
    pub(super) fn push(&mut self, event: Event) -> bool {
        let room = self.listed() < self.room;
        if room {
            self.insert(event);
        }
        room
    }

    /// Puts an event into the list, which has room.
    #[inline(always)]
    fn insert(&mut self, event: Event) {
        let listed = self.listed();
        if listed == 0 {
            self.ring[at(self.end)] = event;
            self.end = self.end.wrapping_add(1);
        } else if self.ring[at(self.first.wrapping_add(listed / 2))] < event {
            // The middle one ends the search, here as below.
            let mut place = self.end;
            self.end = place.wrapping_add(1);
            loop {
                let before = self.ring[at(place.wrapping_sub(1))];
                if before < event {
                    break;
                }
                self.ring[at(place)] = before;
                place = place.wrapping_sub(1);
            }
            self.ring[at(place)] = event;
        } else {
            let mut place = self.first.wrapping_sub(1);
            self.first = place;
            loop {
                let behind = self.ring[at(place.wrapping_add(1))];
                if event <= behind {
                    break;
                }
                self.ring[at(place)] = behind;
                place = place.wrapping_add(1);
            }
            self.ring[at(place)] = event;
        }
    }

    /// Events of the list: all of them, if no more than half of `MOST` were put in since it began.
    pub(super) fn pending(&self) -> &[Event] {
        let first = at(self.first);
        &self.ring[first..(first + self.listed() as usize).min(self.ring.len())]
    }

    /// The middle event of the list, which has some.
    pub(super) fn middle(&self) -> Event {
        self.ring[at(self.first.wrapping_add(self.listed() / 2))]
    }

    fn last(&self) -> Option<Event> {
        (self.first != self.end).then(|| self.ring[at(self.end.wrapping_sub(1))])
    }

    /// Takes out the last event of the list, if it is at `from` (nanoseconds) or later. Not while there is a crowd.
    pub(super) fn take_last(&mut self, from: u64) -> Option<Event> {
        debug_assert!(self.crowd.is_empty());
        let last = self.last().filter(|last| last.nanos() >= from)?;
        self.end = self.end.wrapping_sub(1);
        Some(last)
    }

    /// Whether some events are not in the list.
    pub(super) fn is_crowded(&self) -> bool {
        self.room == 0
    }

    /// Puts in an event that the list had no room for.
    #[cold]
    pub(super) fn push_to_crowd(&mut self, event: Event) {
        self.room = 0;
        // The list keeps its first few, so that what is put among them stays cheap.
        while self.listed() >= FEW
            && let Some(last) = self.last()
        {
            self.end = self.end.wrapping_sub(1);
            self.crowd.push(Reverse(last));
        }
        match self.last() {
            Some(last) if event < last => self.insert(event),
            _ => self.crowd.push(Reverse(event)),
        }
    }

    /// Begins anew with an empty list, into which the first few of the crowd go, if there is one: whether the list has events now.
    pub(super) fn begin(&mut self) -> bool {
        debug_assert!(self.listed() == 0);
        (self.first, self.end) = (MOST / 2, MOST / 2);
        while self.listed() < FEW
            && let Some(Reverse(event)) = self.crowd.pop()
        {
            self.insert(event);
        }
        if self.crowd.is_empty() {
            self.room = MOST;
        }
        self.listed() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::rng::Rng;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn event(nanos: u64, order: u64) -> Event {
        Event::new(Time::from_nanos(nanos), order, (order % 1000) as u32)
    }

    fn pop(near: &mut Near) -> Option<Event> {
        if near.first().is_none() {
            near.begin();
        }
        let first = near.first()?;
        near.remove_first();
        Some(first)
    }

    #[test]
    fn an_event_moves_only_those_between_its_place_and_the_nearer_end() {
        let mut near = Near::default();
        near.begin();
        for number in 1..=40 {
            assert!(near.push(event(100 * number, number)));
        }
        let ring = near.ring;
        let moved = |near: &Near| near.ring.iter().zip(&ring).filter(|(now, then)| now != then).count();
        for (nanos, passed) in [(250, 2), (3750, 3), (50, 0), (4100, 0), (2050, 20), (2150, 19)] {
            let mut near = near.clone();
            assert!(near.push(event(nanos, 41)));
            assert_eq!(moved(&near), passed + 1, "{nanos}");
        }
    }

    #[test]
    fn a_full_list_refuses_and_gives_back_what_is_late() {
        let mut near = Near::default();
        for number in 0..u64::from(MOST) {
            assert!(near.push(event(number / 2, number)));
        }
        assert!(!near.push(event(0, 100)));
        assert_eq!((near.len(), near.middle()), (64, event(16, 32)));
        for number in (32..64).rev() {
            assert_eq!(near.take_last(16), Some(event(number / 2, number)));
        }
        assert_eq!(near.take_last(16), None);
        assert!(near.push(event(0, 100)) && !near.is_crowded());
        assert_eq!((near.len(), near.first()), (33, Some(event(0, 0))));
    }

    #[test]
    fn what_is_filled_in_lies_side_by_side() {
        let (mut near, mut rng) = (Near::default(), Rng::new(1));
        for round in 0..200 {
            near.begin();
            for order in 0..u64::from(MOST / 2) {
                assert!(near.push(event(rng.below(100), order)));
            }
            assert_eq!(near.pending().len(), 32, "{round}");
            assert!(near.pending().is_sorted(), "{round}");
            while pop(&mut near).is_some() {}
        }
    }

    proptest! {
        #[test]
        fn it_gives_what_a_sorted_set_gives(seed: u64, most in 1_usize..300, bits in 0_u32..12) {
            let (mut near, mut model, mut rng) = (Near::default(), BTreeSet::new(), Rng::new(seed));
            let mut now = 0;
            for number in 1..2003 {
                // Each once; it may be older than those that are pending, and than what was taken out last.
                let order = number * 769 % 2003;
                let event = event(now + (rng.next_u64() & ((1 << bits) - 1)), order);
                if !near.push(event) {
                    prop_assert!(near.is_crowded() || near.listed() == MOST);
                    near.push_to_crowd(event);
                    prop_assert!(near.listed() <= FEW);
                }
                model.insert(event);
                prop_assert_eq!(near.len(), model.len());
                prop_assert_eq!(near.is_crowded(), !near.crowd.is_empty());
                while model.len() > rng.below(2 * most as u64) as usize {
                    let first = model.pop_first();
                    prop_assert_eq!(pop(&mut near), first);
                    now = first.map_or(now, Event::nanos);
                }
            }
            while let Some(first) = model.pop_first() {
                prop_assert_eq!(pop(&mut near), Some(first));
            }
            prop_assert_eq!((pop(&mut near), near.len()), (None, 0));
        }
    }
}
