//! The memory of all sockets' buffers, shared by round trip.
//!
//! What it is: a window lasts for a round trip, so a connection with a long one needs more room: its share is
//! b_i = B RTT_i / sum of RTT (hybrid-gateways 3.4.3; section 5 has it that a splitting gateway knows the round trips). Each
//! of the gateway's sockets counts with its own round trip.
//!
//! The sum is rounded up to a power of two. So shares change for all only when the sum has doubled or halved, and telling the
//! kernel costs O(1) for each connection that comes. The sum of all shares never exceeds the memory, but for [`LEAST`].

use super::socket::Buffers;
use crate::config::Gateway;
use fairspan_core::units::Span;

/// What a socket has at least.
const LEAST: u64 = 32 << 10;
/// Round trips that count, in milliseconds: below the first a window of some segments does.
const TRIPS: (u64, u64) = (20, 5_000);
/// As long as nothing was measured.
const UNKNOWN: u64 = 200;

/// How much one socket counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight(u64);

impl Weight {
    pub(super) fn of(round_trip: Span) -> Weight {
        match round_trip.as_nanos() / 1_000_000 {
            _ if round_trip == Span::ZERO => Weight(UNKNOWN),
            millis => Weight(millis.clamp(TRIPS.0, TRIPS.1)),
        }
    }

    /// Whether a share by `other` would be another one worth telling.
    pub(super) fn differs(self, other: Weight) -> bool {
        self.0 > other.0 * 3 / 2 || other.0 > self.0 * 3 / 2
    }
}

/// The memory.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    memory: u64,
    most: u64,
    sum: u64,
    sockets: u64,
}

impl Budget {
    pub(super) fn new(config: &Gateway) -> Budget {
        let (memory, most) = (config.memory.as_u64(), config.connection_memory.as_u64());
        Budget { memory, most, sum: 0, sockets: 0 }
    }

    /// Other bounds.
    pub(super) fn change(&mut self, config: &Gateway) {
        (self.memory, self.most) = (config.memory.as_u64(), config.connection_memory.as_u64());
    }

    /// Most connections that there can be.
    pub(super) fn connections(&self) -> u64 {
        self.memory / (2 * LEAST)
    }

    /// Whether one more connection can be taken.
    pub(super) fn has_room(&self) -> bool {
        (self.sockets + 2) * LEAST <= self.memory
    }

    pub(super) fn add(&mut self, weight: Weight) {
        self.sum += weight.0;
        self.sockets += 1;
    }

    pub(super) fn remove(&mut self, weight: Weight) {
        self.sum -= weight.0;
        self.sockets -= 1;
    }

    /// What all shares are parts of. When it changes, so do all shares.
    pub(super) fn scale(&self) -> u64 {
        self.sum.max(1).next_power_of_two()
    }

    pub(super) fn share(&self, weight: Weight) -> Buffers {
        let part = u128::from(self.memory) * u128::from(weight.0) / u128::from(self.scale());
        let least = self.most.min(LEAST);
        Buffers(u64::try_from(part).unwrap_or(u64::MAX).clamp(least, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(memory: u64, most: u64) -> Budget {
        Budget { memory, most, sum: 0, sockets: 0 }
    }

    #[test]
    fn long_round_trips_have_more_and_all_together_have_the_memory_at_most() {
        let mut budget = budget(64 << 20, 32 << 20);
        let (long, short) = (Weight::of(Span::from_millis(600)), Weight::of(Span::from_micros(300)));
        budget.add(long);
        budget.add(short);
        assert!(budget.share(long).0 == 32 << 20 && budget.share(short).0 < 2 << 20, "{budget:?}");
        for _ in 1..200 {
            budget.add(long);
            budget.add(short);
        }
        let sum = 200 * (budget.share(long).0 + budget.share(short).0);
        assert!(sum <= (64 << 20) + 200 * LEAST && sum > 32 << 20, "{sum}");
        assert_eq!(budget.share(short).0, LEAST.max((64 << 20) * 20 / budget.scale()));
    }

    #[test]
    fn nobody_is_taken_who_could_not_have_the_least() {
        let mut budget = budget(1 << 20, 1 << 20);
        let weight = Weight::of(Span::ZERO);
        let mut sockets = 0;
        while budget.has_room() {
            budget.add(weight);
            budget.add(weight);
            sockets += 2;
        }
        assert_eq!((sockets, budget.connections()), (32, 16));
        budget.remove(weight);
        budget.remove(weight);
        assert!(budget.has_room());
    }

    #[test]
    fn shares_are_told_again_for_all_only_when_the_sum_has_doubled() {
        let mut budget = budget(1 << 30, 1 << 30);
        let (mut scale, mut changes) = (budget.scale(), 0);
        for _ in 0..10_000 {
            budget.add(Weight::of(Span::from_millis(100)));
            changes += u32::from(std::mem::replace(&mut scale, budget.scale()) != budget.scale());
        }
        assert!(changes <= 20, "{changes}");
    }
}
