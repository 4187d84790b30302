//! Shares of the send buffers by round trip, and the windows that follow from them.
//!
//! What it is: the right-hand send buffers of all connections have one room, B. A connection with a long round trip needs more
//! of it: its share is b_i = B RTT_i / sum of RTT over the connections that have data there. The round trip is that of both
//! connections together, since a window on either has to last for one. What is left of its share is what the
//! left-hand window may offer; that is the flow control of a splitting gateway. Source: hybrid-gateways 3.4.3 (the formula),
//! 4.2 (the window), 5 (that a splitting gateway knows the round trips).
//!
//! Departures: a connection that has no data counts only for itself, so that idle ones take nothing; and it is
//! offered at least [`LEAST`], or it could never begin. What was offered is not taken back when a share shrinks: for a round trip
//! the buffers may hold more than B by what was offered before.
//!
//! Cost: O(log n) a change.

use crate::units::{Bytes, FlowNumber, Span};
use alloc::collections::BTreeMap;

/// What is offered in any case to a connection that holds nothing: a segment.
pub const LEAST: Bytes = Bytes::new(1460);
/// A round trip before any was measured, and the least that counts.
const UNKNOWN: Span = Span::from_millis(100);
const SHORTEST: Span = Span::from_millis(1);

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Its part, its round trip in microseconds; zero without data.
    part: u64,
    round_trip: u64,
    held: u64,
}

/// The shares of all connections.
#[derive(Clone, Debug)]
pub struct Shares {
    room: u64,
    shares: BTreeMap<FlowNumber, Share>,
    parts: u64,
    held: u64,
}

fn part(round_trip: Span) -> u64 {
    let span = if round_trip == Span::ZERO { UNKNOWN } else { round_trip.max(SHORTEST) };
    span.as_nanos() / 1000
}

impl Shares {
    /// Nobody has a share of this room yet.
    pub fn new(room: Bytes) -> Shares {
        Shares { room: room.as_u64(), shares: BTreeMap::new(), parts: 0, held: 0 }
    }

    /// They have this room from now on.
    pub fn set_room(&mut self, room: Bytes) {
        self.room = room.as_u64();
    }

    /// A direction of a connection, without data.
    pub fn open(&mut self, flow: FlowNumber) {
        self.shares.entry(flow).or_insert(Share { part: 0, round_trip: part(Span::ZERO), held: 0 });
    }

    /// It is over.
    pub fn close(&mut self, flow: FlowNumber) {
        if let Some(share) = self.shares.remove(&flow) {
            self.parts -= share.part;
            self.held -= share.held;
        }
    }

    /// The send buffer behind `flow` holds so much, of a connection with this round trip (zero: unknown).
    pub fn on_held(&mut self, flow: FlowNumber, held: u64, round_trip: Span) {
        let Some(share) = self.shares.get_mut(&flow) else { return };
        share.round_trip = part(round_trip);
        self.held = self.held + held - share.held;
        share.held = held;
        let part = if held > 0 { share.round_trip } else { 0 };
        self.parts = self.parts + part - share.part;
        share.part = part;
    }

    /// What the share of `flow` is, in bytes.
    pub fn share(&self, flow: FlowNumber) -> Bytes {
        let Some(share) = self.shares.get(&flow) else { return Bytes::ZERO };
        let parts = self.parts - share.part + share.round_trip;
        let bytes = u128::from(self.room) * u128::from(share.round_trip) / u128::from(parts.max(1));
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// What the left-hand side of `flow` may still send.
    pub fn window(&self, flow: FlowNumber) -> Bytes {
        let held = self.shares.get(&flow).map_or(0, |share| share.held);
        let left = self.share(flow).as_u64().saturating_sub(held);
        if held == 0 { Bytes::new(left).max(LEAST) } else { Bytes::new(left) }
    }

    /// Its part in proportion to others, for the room of its queue: milliseconds of round trip.
    pub fn parts(&self, flow: FlowNumber) -> u32 {
        let micros = self.shares.get(&flow).map_or(0, |share| share.round_trip);
        u32::try_from(micros / 1000).unwrap_or(u32::MAX)
    }

    /// What all send buffers hold.
    pub fn held(&self) -> Bytes {
        Bytes::new(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_by_round_trip_among_those_that_have_data() {
        let mut shares = Shares::new(Bytes::new(1_000_000));
        let (near, far, idle) = (FlowNumber(1), FlowNumber(2), FlowNumber(3));
        for flow in [near, far, idle] {
            shares.open(flow);
        }
        assert_eq!(shares.window(near).as_u64(), 1_000_000, "alone so far");
        shares.on_held(near, 1000, Span::from_millis(100));
        shares.on_held(far, 1000, Span::from_millis(400));
        assert_eq!(shares.share(near).as_u64(), 200_000);
        assert_eq!(shares.window(far).as_u64(), 799_000);
        shares.on_held(near, 0, Span::from_millis(100));
        assert_eq!(shares.share(far).as_u64(), 1_000_000, "idle ones take nothing");
        assert_eq!(shares.share(near).as_u64(), 200_000, "and have theirs as soon as they want it");
        shares.on_held(near, 500, Span::from_millis(100));
        shares.close(near);
        assert_eq!((shares.share(far).as_u64(), shares.held().as_u64()), (1_000_000, 1000));
    }

    proptest! {
        #[test]
        fn shares_of_those_with_data_never_exceed_the_room(
            trips in proptest::collection::vec(0u64..2_000, 1..50), room in 10_000u64..100_000_000,
        ) {
            let mut shares = Shares::new(Bytes::new(room));
            for (number, trip) in (0..).zip(&trips) {
                shares.open(FlowNumber(number));
                shares.on_held(FlowNumber(number), 1, Span::from_millis(*trip));
            }
            let sum: u64 = (0..trips.len() as u32).map(|number| shares.share(FlowNumber(number)).as_u64()).sum();
            prop_assert!(sum <= room && sum + trips.len() as u64 >= room, "{sum} of {room}");
        }
    }
}
