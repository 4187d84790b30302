//! A timer that may be set anew.

use fairspan_core::units::Time;

/// One timer that may be set anew at any time, over events that cannot be taken back: an event that comes too early is
/// ignored, and one is put in only where none comes early enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    /// The earliest pending event that counts, and the one after it.
    pending: [Time; 2],
}

impl Timer {
    pub(crate) const IDLE: Timer = Timer { pending: [Time::MAX; 2] };

    /// The timer is to run out at `wanted`: whether an event must be put in for it.
    #[inline]
    pub(crate) fn set(&mut self, wanted: Time) -> bool {
        let [first, second] = self.pending;
        if wanted >= first {
            return false;
        }
        // Of two that remain, the earlier one serves as well for what comes after.
        self.pending = [wanted, first.min(second)];
        true
    }

    /// An event has come: whether it counts.
    #[inline]
    pub(crate) fn fire(&mut self, now: Time) -> bool {
        let [first, second] = self.pending;
        if now != first {
            return false;
        }
        self.pending = [second, Time::MAX];
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_moved_later_costs_no_event_and_one_moved_earlier_costs_one() {
        let at = Time::from_nanos;
        let mut timer = Timer::IDLE;
        assert!(timer.set(at(100)));
        assert!(!timer.set(at(200)), "the event at 100 will see that it is too early");
        assert!(timer.set(at(50)));
        assert!(!timer.fire(at(49)));
        assert!(timer.fire(at(50)));
        assert!(!timer.set(at(200)), "the event at 100 is still there");
        assert!(timer.fire(at(100)));
        assert!(timer.set(at(200)));
        assert!(timer.fire(at(200)));
        assert!(!timer.fire(at(200)));
    }
}
