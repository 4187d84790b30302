//! Delay earliest due date (Delay-EDD): each flow has a rate and a bound of delay, and the earliest deadline goes first.
//!
//! Source: Ferrari and Verma, "A Scheme for Real-Time Channel Establishment in Wide-Area Networks", IEEE JSAC 8(3), 1990,
//! section III; hybrid-gateways 2.2.
//!
//! | paper | here |
//! |---|---|
//! | x_min | size over the flow's rate, which is `rate` times its weight |
//! | when a packet is expected at the earliest | the start: x_min after that of the one before, or when it comes |
//! | d | `delay`, or the flow's own ([`Queue::set_delay`](super::Queue::set_delay)) |
//! | deadline | start + d, by which heads are compared |
//!
//! A flow that sends more than its rate has later deadlines, and so harms itself alone.
//!
//! Departures, cost and memory: those of [`Tagged`], and 24 bytes a flow with a delay of its own, to the microsecond. It is work-conserving, and
//! has no test of who may join: that is the user's. Invariant: where rates sum up to at most the link's, and no bound of delay is below what one
//! largest packet of each flow and one more take on the link, each packet has gone by its deadline (the paper's deterministic test).

use super::discipline::Index;
use super::stamp::{PLACES, Stamp};
use super::tagged::{Clock, Tagged};
use crate::flow::slots::Slots;
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// Delay-EDD over a queue for each flow.
pub type DelayEdd<P> = Tagged<P, Deadlines>;

/// The largest delay of a flow.
pub const MOST_DELAY: Span = Span::from_secs(60);

/// Real time, what packets take of it at a flow's rate, and each flow's bound.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// Of a flow with weight one.
    bits_per_second: u64,
    now: u64,
    /// In nanoseconds, of all flows that have none of their own.
    delay: u64,
    /// In microseconds, by key, of those that have one.
    own: Slots,
    /// In nanoseconds, by queue.
    delays: Vec<u64>,
}

impl<P> DelayEdd<P> {
    /// An empty one, in which flows of weight one have this rate, at least 1 bit/s, and this bound of delay, if they have no other.
    pub fn new(rate: Rate, delay: Span, index: Index) -> DelayEdd<P> {
        let clock = Deadlines {
            bits_per_second: rate.as_bits_per_sec().max(1),
            now: 0,
            delay: delay.as_nanos(),
            own: Slots::new(),
            delays: Vec::new(),
        };
        Tagged::with(clock, index)
    }
}

impl Clock for Deadlines {
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
    fn order(&self, queue: u32, start: Stamp, _finish: Stamp) -> u64 {
        start.tags().saturating_add(self.delays.get(queue as usize).copied().unwrap_or(self.delay))
    }

    #[inline]
    fn on_served(&mut self, now: Time, _start: Stamp, _finish: Stamp, _size: u32) {
        self.now = self.now.max(now.as_nanos());
    }

    #[inline]
    fn on_idle(&mut self, now: Time) {
        self.now = self.now.max(now.as_nanos());
    }

    fn on_opened(&mut self, queue: u32, key: u32) {
        if self.delays.len() <= queue as usize {
            self.delays.resize(queue as usize + 1, self.delay);
        }
        let own = if self.own.is_empty() { None } else { self.own.slot(key) };
        self.delays[queue as usize] = own.map_or(self.delay, |micros| u64::from(micros) * 1000);
    }

    fn set_delay(&mut self, key: u32, queue: Option<u32>, delay: Span) {
        let micros = (delay.min(MOST_DELAY).as_nanos() / 1000) as u32;
        self.own.insert(key, micros);
        if let Some(own) = queue.and_then(|queue| self.delays.get_mut(queue as usize)) {
            *own = u64::from(micros) * 1000;
        }
    }

    #[inline]
    fn passed(&self) -> Stamp {
        Stamp::of(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Victim;
    use crate::queue::{Discipline, Entry, Unit};
    use crate::units::FlowNumber;

    /// A packet of 1000 bytes is expected each 8 ms.
    fn empty() -> DelayEdd<()> {
        DelayEdd::new(Rate::from_mbit(1), Span::from_millis(20), Index::Longest(Unit::Packets))
    }

    fn put(queue: &mut DelayEdd<()>, ms: u64, flow: u32) {
        queue.enqueue(Entry { packet: (), flow: FlowNumber(flow), size: 1000, since: Time::from_millis(ms) });
    }

    /// The number of the queue that a packet leaves.
    fn number(queue: &mut DelayEdd<()>, ms: u64) -> Option<u32> {
        queue.dequeue(Time::from_millis(ms)).map(|taken| taken.queue)
    }

    #[test]
    fn a_flow_that_had_no_more_than_its_rate_is_forgotten_when_a_packet_goes_or_when_the_link_is_idle() {
        // It is served up to 8 ms. Its queue is given to another once it is forgotten.
        for (served, idle, of_another) in [(0, None, 1), (0, Some(7), 1), (0, Some(8), 0), (7, None, 1), (8, None, 0)] {
            let mut queue = empty();
            put(&mut queue, 0, 1);
            assert_eq!(number(&mut queue, served), Some(0));
            if let Some(idle) = idle {
                assert_eq!(number(&mut queue, idle), None);
            }
            put(&mut queue, 8, 2);
            assert_eq!(number(&mut queue, 8), Some(of_another), "{served} {idle:?}");
        }
    }

    #[test]
    fn it_is_forgotten_when_another_has_come_and_is_dropped() {
        for (ms, of_flow_1) in [(7, 0), (8, 1)] {
            let mut queue = empty();
            put(&mut queue, 0, 1);
            assert_eq!(number(&mut queue, 0), Some(0));
            put(&mut queue, ms, 2);
            assert!(queue.evict(Victim::Longest).is_some());
            // Its own where it is remembered; else that of flow 2, which was given back last.
            put(&mut queue, ms, 1);
            assert_eq!(number(&mut queue, ms), Some(of_flow_1), "{ms}");
        }
    }
}
