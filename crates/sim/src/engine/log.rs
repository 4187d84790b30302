//! The event log, of which only a hash is kept: two runs with the same hash did the same.
//!
//! Each record is folded into 64 bits by one multiplication to 128 (as wyhash and its kin do): a few nanoseconds, so
//! it is always on. It is no defence against someone who constructs collisions, and need not be.

use fairspan_core::units::Time;

/// What a record says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// Its source sent it.
    Sent = 1,
    /// It entered a link, a node or a bond.
    Entered = 2,
    /// It left.
    Left = 3,
    /// It was dropped.
    Dropped = 4,
    /// It reached who it was for.
    Delivered = 5,
}

/// The hash over all records so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log(u64);

impl Default for Log {
    fn default() -> Log {
        Log(0x51ed_270b_9f71_e2a5)
    }
}

impl Log {
    /// Records that `what` happened to packet `number` of `flow` at `place`.
    #[inline]
    pub fn record(&mut self, what: What, time: Time, place: u32, flow: u32, number: u64) {
        let when = time.as_nanos() | (what as u64) << 59;
        let who = (u64::from(place) << 32 | u64::from(flow)) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let product = u128::from(self.0 ^ when) * u128::from(who ^ 0xd6e8_feb8_6659_fd93);
        // What came before is added again: a factor of zero must not wipe it out.
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.0.rotate_left(23));
    }

    /// Takes in the log of another part of the same world.
    pub fn absorb(&mut self, other: Log) {
        self.record(What::Entered, Time::ZERO, u32::MAX, u32::MAX, other.0);
    }

    /// The hash.
    pub fn hash(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn after(records: &[(What, u64, u32, u32, u64)]) -> u64 {
        let mut log = Log::default();
        for &(what, ns, place, flow, number) in records {
            log.record(what, Time::from_nanos(ns), place, flow, number);
        }
        log.hash()
    }

    #[test]
    fn every_field_and_the_order_of_records_count() {
        let record = (What::Sent, 1, 2, 3, 4);
        let others = [
            (What::Left, 1, 2, 3, 4),
            (What::Sent, 2, 2, 3, 4),
            (What::Sent, 1, 3, 3, 4),
            (What::Sent, 1, 2, 2, 4),
            (What::Sent, 1, 2, 3, 5),
        ];
        let mut seen = BTreeSet::from([after(&[]), after(&[record]), after(&[record, record])]);
        for other in others {
            for log in [vec![other], vec![record, other], vec![other, record]] {
                assert!(seen.insert(after(&log)), "{other:?}");
            }
        }
    }

    #[test]
    fn a_million_different_records_give_a_million_hashes() {
        let hashes: BTreeSet<u64> =
            (0..1_000_000).map(|n| after(&[(What::Entered, n / 1000, (n % 10) as u32, 0, n)])).collect();
        assert_eq!(hashes.len(), 1_000_000);
    }
}
