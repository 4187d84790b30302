//! The calendar: pending events, given back in the order of time and insertion.
//!
//! A short sorted list (`near.rs`) holds the events of the near future; a wheel of wheels (Varghese and Lauck 1987,
//! scheme 7; 64 slots a level, each level 64 times as coarse) holds the rest. When the list runs dry, the next slots
//! are taken from the wheel: whole, if they hold few events, otherwise one level finer. So the list stays short
//! whatever the number of events and their density, and nothing needs to be tuned: with some tens of events there is
//! only the list, with 100,000 an event is filed once or twice and passes some others of a list of ten.
//!
//! | symbol | field |
//! |---|---|
//! | events before this instant are in the list | `edge` |
//! | origin of the wheel: no event in it is earlier | `base` |
//!
//! Departures: a slot is not sorted by being spread to the finest level but by the list, which also gives the exact
//! order of events at the same instant. Cost: the list's, and the filing, at most one per level. Invariants: `base` <= every
//! event in the wheel; `base` <= `edge` <= every event in the wheel; all events in the list are before `edge`.

use super::event::Event;
use super::near::Near;

/// The wheel hands over slots together as long as they hold no more than this.
const FEW: usize = 16;
const LEVELS: usize = 10;
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;

/// Pending events.
#[derive(Clone, Debug)]
pub struct Calendar {
    near: Near,
    edge: u64,
    base: u64,
    far: usize,
    occupied: [u64; LEVELS],
    slots: Box<[List]>,
    blocks: Blocks,
    refilled: bool,
}

impl Default for Calendar {
    fn default() -> Calendar {
        Calendar {
            near: Near::default(),
            edge: u64::MAX,
            base: 0,
            far: 0,
            occupied: [0; LEVELS],
            slots: vec![List::default(); LEVELS * SLOTS].into_boxed_slice(),
            blocks: Blocks::default(),
            refilled: false,
        }
    }
}

impl Calendar {
    /// An empty calendar.
    pub fn new() -> Calendar {
        Calendar::default()
    }

    /// Pending events.
    pub fn len(&self) -> usize {
        self.near.len() + self.far
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts in an event that is not earlier than the last one taken out.
    #[inline]
    pub fn push(&mut self, event: Event) {
        if event.nanos() < self.edge {
            if !self.near.push(event) {
                self.relieve(event);
            }
        } else {
            self.file(event);
        }
    }

    /// The events that have come into reach together since this was last asked, in no order; empty if none have. They
    /// are about to be taken out, so whom they are for may be brought near.
    #[inline]
    pub fn coming(&mut self) -> &[Event] {
        if std::mem::take(&mut self.refilled) { self.near.pending() } else { &[] }
    }

    /// Takes out the first event, if it is not after `until` (nanoseconds).
    #[inline]
    pub fn pop(&mut self, until: u64) -> Option<Event> {
        loop {
            if let Some(first) = self.near.first() {
                if first.nanos() > until {
                    return None;
                }
                self.near.remove_first();
                return Some(first);
            }
            if !self.refill() {
                return None;
            }
        }
    }

    /// When the first event is, in nanoseconds.
    #[inline(never)]
    pub fn next_time(&mut self) -> Option<u64> {
        if self.near.first().is_none() {
            self.refill();
        }
        self.near.first().map(Event::nanos)
    }

    fn file(&mut self, event: Event) {
        let nanos = event.nanos();
        debug_assert!(nanos >= self.base);
        let level = (63 - ((nanos ^ self.base) | 1).leading_zeros()) / DIGIT;
        let slot = (nanos >> (level * DIGIT)) as usize & (SLOTS - 1);
        self.blocks.push(&mut self.slots[level as usize * SLOTS + slot], event);
        self.occupied[level as usize] |= 1 << slot;
        self.far += 1;
    }

    /// Fills the empty list with the next events: whether there are any.
    #[cold]
    fn refill(&mut self) -> bool {
        self.refilled = true;
        if self.near.begin() {
            return true;
        }
        if self.far == 0 {
            return false;
        }
        if self.far <= FEW {
            for level in 0..LEVELS {
                while let Some(slot) = self.first_slot(level) {
                    self.hand_over(level, slot);
                }
            }
            self.edge = u64::MAX;
            return true;
        }
        loop {
            // Events of a finer level come before all of a coarser one, as they share more digits with the base.
            let Some(level) = (0..LEVELS).find(|&level| self.occupied[level] != 0) else { return false };
            let Some(slot) = self.first_slot(level) else { return false };
            let shift = level as u32 * DIGIT;
            let above = self.base >> shift >> DIGIT << DIGIT;
            self.base = (above | slot as u64) << shift;
            if level > 0 && self.slots[level * SLOTS + slot].len as usize > FEW {
                self.spread(level, slot);
                continue;
            }
            let mut last = slot;
            self.hand_over(level, slot);
            while let Some(slot) = self.first_slot(level) {
                if self.near.len() + self.slots[level * SLOTS + slot].len as usize > FEW {
                    break;
                }
                self.hand_over(level, slot);
                last = slot;
            }
            self.edge = ((above | last as u64) + 1) << shift;
            return true;
        }
    }

    fn first_slot(&self, level: usize) -> Option<usize> {
        let occupied = self.occupied[level];
        (occupied != 0).then(|| occupied.trailing_zeros() as usize)
    }

    /// One slot's events go to the list.
    fn hand_over(&mut self, level: usize, slot: usize) {
        let mut list = std::mem::take(&mut self.slots[level * SLOTS + slot]);
        self.far -= list.len as usize;
        while let Some(block) = self.blocks.release(&mut list) {
            for &event in block.events() {
                if !self.near.push(event) {
                    self.near.push_to_crowd(event);
                }
            }
        }
        self.occupied[level] &= !(1 << slot);
    }

    /// One slot's events go to finer levels; the slot begins at the base.
    fn spread(&mut self, level: usize, slot: usize) {
        let mut list = std::mem::take(&mut self.slots[level * SLOTS + slot]);
        self.occupied[level] &= !(1 << slot);
        self.far -= list.len as usize;
        while let Some(block) = self.blocks.release(&mut list).copied() {
            for &event in block.events() {
                self.file(event);
            }
        }
    }

    /// Puts in an event for which the list has no room.
    #[cold]
    fn relieve(&mut self, event: Event) {
        if !self.near.is_crowded() && self.spill() {
            self.push(event);
        } else {
            self.near.push_to_crowd(event);
        }
    }

    /// The later half of the list's events goes to the wheel: whether any could. What came later and is earlier than the wheel's base
    /// cannot lie in the wheel, and events at one instant are not parted.
    fn spill(&mut self) -> bool {
        let Some(first) = self.near.first() else { return false };
        if self.far == 0 {
            self.base = first.nanos();
        }
        let cut = self.near.middle().nanos().max(self.base);
        let before = self.far;
        while let Some(event) = self.near.take_last(cut) {
            self.file(event);
        }
        self.edge = cut;
        self.far > before
    }
}

/// The events of a slot, in no order: a list of blocks.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, len: 0 }
    }
}

const NONE: u32 = u32::MAX;
/// Events of a block: with them it takes two cache lines.
const BLOCK: usize = 7;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
struct Block {
    next: u32,
    count: u32,
    /// Most blocks hold few events: these lie in the first line, too.
    events: [Event; BLOCK],
}

impl Block {
    fn events(&self) -> &[Event] {
        &self.events[..self.count as usize]
    }
}

/// The blocks of all slots. The one that was freed last is taken first: so the wheel stays in the cache's reach, and takes
/// no more memory than the most events that there were at once. Lists of their own would each keep what they once held.
#[derive(Clone, Debug)]
struct Blocks {
    all: Vec<Block>,
    free: u32,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { all: Vec::new(), free: NONE }
    }
}

impl Blocks {
    #[inline]
    fn push(&mut self, list: &mut List, event: Event) {
        list.len += 1;
        if let Some(block) = self.all.get_mut(list.first as usize)
            && (block.count as usize) < BLOCK
        {
            block.events[block.count as usize] = event;
            block.count += 1;
            return;
        }
        list.first = self.begin(list.first, event);
    }

    /// A block of one event before the block `next`.
    #[inline]
    fn begin(&mut self, next: u32, event: Event) -> u32 {
        let number = self.free;
        match self.all.get_mut(number as usize) {
            Some(block) => {
                self.free = block.next;
                (block.events[0], block.next, block.count) = (event, next, 1);
                number
            }
            None => {
                self.all.push(Block { events: [event; BLOCK], next, count: 1 });
                self.all.len() as u32 - 1
            }
        }
    }

    /// Takes a block out of a list and frees it; what it holds is there until the next one begins.
    #[inline]
    fn release(&mut self, list: &mut List) -> Option<&Block> {
        let number = list.first;
        let block = self.all.get_mut(number as usize)?;
        list.first = std::mem::replace(&mut block.next, self.free);
        self.free = number;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::rng::Rng;
    use fairspan_core::units::Time;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Runs the calendar against a sorted set: `next` says how far ahead of the last event the next ones are.
    fn compare(steps: usize, pending: usize, seed: u64, mut ahead: impl FnMut(&mut Rng) -> u64) {
        let (mut calendar, mut model) = (Calendar::new(), BTreeSet::new());
        let mut rng = Rng::new(seed);
        let (mut now, mut order) = (0, 0);
        for _ in 0..steps {
            // Around the wanted number, now growing and now shrinking.
            let grow = rng.below(2 * pending as u64 + 1) as usize >= model.len();
            for _ in 0..if grow { 1 + rng.below(3) } else { 0 } {
                let event = Event::new(Time::from_nanos(now + ahead(&mut rng)), order, (order % 1000) as u32);
                order += 1;
                calendar.push(event);
                model.insert(event);
            }
            assert_eq!(calendar.len(), model.len());
            let until = if rng.below(8) == 0 { now + ahead(&mut rng) } else { u64::MAX };
            let expected = model.first().copied().filter(|event| event.nanos() <= until);
            assert_eq!(calendar.pop(until), expected, "seed {seed}");
            if let Some(event) = expected {
                model.remove(&event);
                now = event.nanos();
            }
        }
        while let Some(event) = model.pop_first() {
            assert_eq!(calendar.pop(u64::MAX), Some(event), "seed {seed}");
        }
        assert!(calendar.is_empty());
    }

    #[test]
    fn many_events_before_any_is_taken_out_come_in_order_whatever_their_order_of_insertion() {
        // Thousands of sources that begin at times drawn from a short while.
        for (seed, range) in [(1, 8_000_000), (2, 100_000), (3, 50)] {
            let (mut calendar, mut model, mut rng) = (Calendar::new(), BTreeSet::new(), Rng::new(seed));
            for order in 0..5000 {
                // Ever earlier, with much to and fro.
                let nanos = (5000 - order) * range / 5000 + rng.below(range);
                let event = Event::new(Time::from_nanos(nanos), order, (order % 1000) as u32);
                calendar.push(event);
                model.insert(event);
            }
            while let Some(event) = model.pop_first() {
                assert_eq!(calendar.pop(u64::MAX), Some(event), "seed {seed}");
            }
            assert!(calendar.is_empty());
        }
    }

    #[test]
    fn events_at_one_instant_come_in_the_order_of_insertion_however_many() {
        let mut calendar = Calendar::new();
        for order in 0..10_000 {
            calendar.push(Event::new(Time::from_nanos(5), order, 0));
        }
        for order in 0..10_000 {
            assert_eq!(calendar.pop(5), Some(Event::new(Time::from_nanos(5), order, 0)));
            calendar.push(Event::new(Time::from_nanos(5), order + 10_000, 0));
        }
        assert_eq!(calendar.len(), 10_000);
    }

    #[test]
    fn a_crowd_that_has_gone_leaves_a_short_list() {
        // At one instant; ever earlier, so that the wheel's base is soon behind them; before all that the wheel holds.
        for first in [|_| 7, |number: u64| 10_000 - number, |number: u64| if number < 100 { 1 << 30 } else { number }] {
            let mut calendar = Calendar::new();
            for number in 0..10_000 {
                calendar.push(Event::new(Time::from_nanos(first(number)), number, 0));
                if number == 99 {
                    calendar.next_time();
                }
            }
            for number in 0..10_000 {
                calendar.pop(u64::MAX).unwrap();
                calendar.push(Event::new(Time::from_nanos((1 << 31) + number), 10_000 + number, 0));
            }
            assert!(calendar.near.len() < 100 && calendar.far > 9900, "{} and {}", calendar.near.len(), calendar.far);
        }
    }

    #[test]
    fn thousands_that_come_before_all_that_the_wheel_holds_come_in_order() {
        // Whoever asks for the next time moves the wheel's base there; what is put in then has older orders, too.
        for (seed, range) in [(1, 1_000_000), (2, 3), (3, 1)] {
            let (mut calendar, mut model, mut rng) = (Calendar::new(), BTreeSet::new(), Rng::new(seed));
            let push = |calendar: &mut Calendar, model: &mut BTreeSet<Event>, nanos, order: u64| {
                let event = Event::new(Time::from_nanos(nanos), order, (order % 1000) as u32);
                calendar.push(event);
                model.insert(event);
            };
            for order in 0..200 {
                push(&mut calendar, &mut model, 1_000_000_000 + rng.below(1_000_000), 10_000 + order);
            }
            assert_eq!(calendar.next_time(), model.first().map(|first| first.nanos()));
            let mut now = 0;
            for order in (0..5000).rev() {
                push(&mut calendar, &mut model, now + rng.below(range), order);
                if order % 2 == 0 {
                    let first = model.pop_first();
                    now = first.map_or(0, Event::nanos);
                    assert_eq!(calendar.pop(u64::MAX), first, "seed {seed}");
                }
            }
            while let Some(event) = model.pop_first() {
                assert_eq!(calendar.next_time(), Some(event.nanos()));
                assert_eq!(calendar.pop(u64::MAX), Some(event), "seed {seed}");
            }
            assert_eq!((calendar.next_time(), calendar.len()), (None, 0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_calendar_gives_what_a_sorted_set_gives(seed: u64, pending in 1_usize..3000, bits in 0_u32..45, flat: bool) {
            compare(6000, pending, seed, |rng| {
                let bits = if flat { bits } else { rng.below(u64::from(bits) + 1) as u32 };
                rng.next_u64() & ((1 << bits) - 1)
            });
        }
    }
}
