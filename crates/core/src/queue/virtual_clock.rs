//! VirtualClock: each flow has a clock that ticks with what it sends at its own rate.
//!
//! Source: Zhang, "VirtualClock: A New Traffic Control Algorithm for Packet Switching Networks", SIGCOMM 1990, section 3.
//!
//! | paper | here |
//! |---|---|
//! | AR_i | `rate` times the flow's weight |
//! | Vtick_i | size / AR_i, in nanoseconds |
//! | auxVC = max(real time, auxVC) + Vtick | the finish that heads are compared by |
//!
//! A flow that sends more than its rate while the link has nothing else to do runs its clock ahead, and waits for the
//! others when they come: that is VirtualClock, and what the fair disciplines do not do. The paper's monitoring by AI_i, by
//! which an operator sees who sends too much, is not part of the order, and is left out.
//!
//! Departures, cost and memory: those of [`Tagged`]. Invariant: where rates sum up to at most the link's, a packet has gone
//! by its auxVC and the time of the largest packet on the link, whatever other flows do (Figueira and Pasquale 1995).

use super::discipline::Index;
use super::stamp::{PLACES, Stamp};
use super::tagged::{Clock, Tagged};
use crate::units::{Rate, Time};

/// VirtualClock over a queue for each flow.
pub type VirtualClock<P> = Tagged<P, RealTime>;

/// Real time, and what packets take of it at a flow's rate.
#[derive(Clone, Debug)]
pub struct RealTime {
    /// Of a flow with weight one.
    bits_per_second: u64,
    now: u64,
}

impl<P> VirtualClock<P> {
    /// An empty one, in which flows of weight one have this rate, at least 1 bit/s.
    pub fn new(rate: Rate, index: Index) -> VirtualClock<P> {
        Tagged::with(RealTime { bits_per_second: rate.as_bits_per_sec().max(1), now: 0 }, index)
    }
}

impl Clock for RealTime {
    type Note = ();

    #[inline]
    fn cost(&self, size: u32, weight: u32) -> Stamp {
        // 2^32 bytes are 2^65 bit-nanoseconds, and those 2^97 parts.
        let rate = u128::from(self.bits_per_second) * u128::from(weight);
        Stamp::of_parts(((u128::from(size) * 8_000_000_000) << PLACES) / rate)
    }

    #[inline]
    fn on_arrival(&mut self, _queue: u32, since: Time, _cost: Stamp, _weight: u32) {
        self.now = self.now.max(since.as_nanos());
    }

    #[inline]
    fn start(&self, (): (), since: Time, last: Stamp) -> Stamp {
        last.max(Stamp::of(since.as_nanos()))
    }

    #[inline]
    fn order(&self, _queue: u32, _start: Stamp, finish: Stamp) -> u64 {
        finish.tags()
    }

    #[inline]
    fn on_served(&mut self, now: Time, _start: Stamp, _finish: Stamp, _size: u32) {
        self.now = self.now.max(now.as_nanos());
    }

    #[inline]
    fn on_idle(&mut self, now: Time) {
        self.now = self.now.max(now.as_nanos());
    }

    #[inline]
    fn passed(&self) -> Stamp {
        Stamp::of(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_before_the_latest_event_has_passed_and_time_never_goes_back() {
        let mut clock = RealTime { bits_per_second: 1000, now: 0 };
        clock.on_arrival(0, Time::from_nanos(5), Stamp::of(1), 1);
        assert_eq!(clock.passed(), Stamp::of(5));
        clock.on_served(Time::from_nanos(7), Stamp::of(0), Stamp::of(0), 1);
        assert_eq!(clock.passed(), Stamp::of(7));
        clock.on_idle(Time::from_nanos(9));
        assert_eq!(clock.passed(), Stamp::of(9));
        clock.on_arrival(0, Time::from_nanos(8), Stamp::of(1), 1);
        clock.on_served(Time::from_nanos(8), Stamp::of(0), Stamp::of(0), 1);
        clock.on_idle(Time::from_nanos(8));
        assert_eq!(clock.passed(), Stamp::of(9));
    }
}
