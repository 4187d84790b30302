//! One pending event, as one number that sorts by time and then by insertion.
//!
//! | bits | field |
//! |---|---|
//! | 70 to 127 | time in nanoseconds: 9.1 years |
//! | 27 to 69 | order of insertion: 8.8 x 10^12 of them, which takes days to use up |
//! | 0 to 26 | place: whom it is for, or which packet |
//!
//! A comparison is one of two machine words, and an event takes 16 bytes.

use fairspan_core::units::Time;

const PLACE_BITS: u32 = 27;
const ORDER_BITS: u32 = 43;
const TIME_SHIFT: u32 = PLACE_BITS + ORDER_BITS;

/// An event: when, in which order among those of the same time, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(u128);

impl Event {
    /// The last instant that an event may have; a run ends before.
    pub const LAST: Time = Time::from_nanos((1 << (128 - TIME_SHIFT)) - 1);
    /// Places are below this.
    pub const PLACES: u32 = 1 << PLACE_BITS;

    /// An event at `time`, not after [`Event::LAST`], for `place`, below [`Event::PLACES`].
    #[inline]
    pub const fn new(time: Time, order: u64, place: u32) -> Event {
        debug_assert!(time.as_nanos() <= Event::LAST.as_nanos() && order < 1 << ORDER_BITS && place < Event::PLACES);
        Event(((time.as_nanos() as u128) << TIME_SHIFT) | ((order as u128) << PLACE_BITS) | place as u128)
    }

    /// When.
    #[inline]
    pub const fn time(self) -> Time {
        Time::from_nanos(self.nanos())
    }

    /// When, in nanoseconds.
    #[inline]
    pub const fn nanos(self) -> u64 {
        (self.0 >> TIME_SHIFT) as u64
    }

    /// For whom.
    #[inline]
    pub const fn place(self) -> u32 {
        self.0 as u32 & (Event::PLACES - 1)
    }

    /// The same time and order for another place.
    #[inline]
    pub const fn for_place(self, place: u32) -> Event {
        debug_assert!(place < Event::PLACES);
        Event(self.0 & !(Event::PLACES as u128 - 1) | place as u128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_sort_by_time_then_by_insertion_whatever_their_place() {
        let event = |ns, order, place| Event::new(Time::from_nanos(ns), order, place);
        assert!(event(1, 9, 9) < event(2, 0, 0));
        assert!(event(2, 1, 9) < event(2, 2, 0));
        let last = Event::new(Event::LAST, (1 << ORDER_BITS) - 1, Event::PLACES - 1);
        assert_eq!((last.time(), last.place()), (Event::LAST, Event::PLACES - 1));
        assert_eq!(event(7, 8, 9).for_place(3), event(7, 8, 3));
    }
}
