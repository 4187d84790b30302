//! A flow in the world: what sends, where its paths begin, its one timer and its meters.

use super::outbox::Outbox;
use crate::endpoint::Endpoint;
use crate::metrics::FlowMeter;
use crate::traffic::Source;
use crate::traffic::source::Metronome;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};

/// What is at the ends of a flow.
#[derive(Debug)]
pub(crate) enum Agent {
    /// A source of datagrams, all alike.
    Metronome(Metronome),
    /// Any other source of datagrams.
    Source(Box<Source>),
    /// An application over a transport.
    Endpoint(Box<Attached>),
    /// A source that has no more.
    Done,
}

impl Agent {
    /// The application over a transport, if it is one.
    #[inline]
    pub(crate) fn attached(&mut self) -> Option<&mut Attached> {
        match self {
            Agent::Endpoint(attached) => Some(attached),
            _ => None,
        }
    }

    /// Its endpoint.
    pub(crate) fn endpoint(&self) -> Option<&dyn Endpoint> {
        match self {
            Agent::Endpoint(attached) => Some(&*attached.endpoint),
            _ => None,
        }
    }
}

/// An endpoint, and what its flow has for it.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) endpoint: Box<dyn Endpoint>,
    pub(crate) timer: Timer,
    pub(crate) start: Time,
    pub(crate) stop: Time,
    /// Where hosts take a random time for each packet.
    pub(crate) outbox: Option<Outbox>,
    /// The endpoint was told that its time has begun, and that it is over.
    pub(crate) begun: bool,
    pub(crate) stopped: bool,
}

/// A flow. The order of the fields is fixed for the cache's sake, as a link's: two lines for a source to send, then the
/// meter's two for a packet to arrive.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Flow {
    pub(crate) agent: Agent,
    /// A source sends nothing after this.
    pub(crate) stop: Time,
    /// Size of the packet that a source sends next.
    pub(crate) next_size: u32,
    /// Bytes of a datagram that are not its payload.
    pub(crate) header: u32,
    pub(crate) wander: Wander,
    /// Numbers of the next packets, each way.
    pub(crate) numbers: [u64; 2],
    /// Packets to the receiver that were sent before the measured time.
    pub(crate) sent_before: u64,
    /// First step of the path to the receiver, and of the path back.
    pub(crate) entry: [u32; 2],
    pub(crate) meter: FlowMeter,
}

impl Flow {
    /// Packets that the sender sent in the measured time.
    pub(crate) fn sent(&self) -> u64 {
        self.numbers[0] - self.sent_before
    }
}

/// What a constant-rate source takes to get a packet out: between nothing and the distance of its packets, slowly to
/// and fro, 96 to 160 packets a turn. A constant drift alone moves two sources past each other in seconds where their
/// clocks happen to be close, and within a run one of them would keep the better place. The rate stays what it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wander {
    /// Nanoseconds from one packet to the next.
    distance: u64,
    /// Where in the turn the next packet is, and how far a packet moves on, as fractions of 2^64.
    phase: u64,
    step: u64,
    last: Time,
}

impl Wander {
    pub(crate) const NONE: Wander = Wander { distance: 0, phase: 0, step: 0, last: Time::ZERO };

    pub(crate) fn new(distance: f64, rng: &mut Rng) -> Wander {
        let step = u64::MAX / 160 + rng.below(u64::MAX / 96 - u64::MAX / 160);
        Wander { distance: distance as u64, step, ..Wander::NONE }
    }

    /// When the packet leaves that its source has made for `time`: the first one at once, none before another, and none
    /// after `stop`.
    #[inline]
    pub(crate) fn after(&mut self, time: Time, stop: Time) -> Time {
        if self.distance == 0 {
            return time;
        }
        // A triangle: up in the first half of the turn, down in the second.
        let part = if self.phase >> 63 == 0 { self.phase << 1 } else { !(self.phase << 1) };
        self.phase = self.phase.wrapping_add(self.step);
        let late = (u128::from(self.distance) * u128::from(part)) >> 64;
        let time = (time + Span::from_nanos(late as u64)).min(stop);
        self.last = self.last.max(time);
        self.last
    }
}

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
    use crate::world::link::Link;

    #[test]
    fn a_flow_takes_four_lines_of_the_cache_and_a_link_five() {
        assert_eq!((size_of::<Flow>(), std::mem::offset_of!(Flow, wander)), (256, 64));
        assert_eq!(std::mem::offset_of!(Flow, meter), 128);
        assert_eq!((size_of::<Link>(), Link::EVERY_FRAMES_LINE), (320, 192));
    }

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
