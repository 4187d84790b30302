//! Reordering of one TCP flow, as RFC 4737 counts it.
//!
//! Source: RFC 4737, section 3.3 (Type-P-Reordered): a packet is reordered when its sequence number is smaller than
//! NextExp, the one after the largest seen so far. Section 3.5 leaves duplicates out. A TCP segment that is sent again
//! is a new packet that carries an old number, and the network did nothing wrong; it is told apart like this:
//!
//! | symbol | field |
//! |---|---|
//! | s | `seq`, the first sequence number of the unit (unwrapped to 64 bits) |
//! | NextExp | `gaps.next()` |
//! | gap left by a jump of NextExp, with its opener's timestamp | core's `Gaps<u32>` |
//!
//! - A unit whose bytes were all seen before is a duplicate.
//! - A unit that fills (part of) a gap was *sent before* the unit that opened the gap, if the network reordered it: its
//!   TCP timestamp (RFC 7323, TSval) is not newer than the opener's. Sent again, it is newer: a sender learns of a loss
//!   a round trip after the opener left, which is more than a tick (1 ms) of the timestamp clock wherever this is used.
//!
//! A unit is what the interface hands over: with receive offload, up to 64 kB of consecutive segments.
//! Departures: none for units; segments inside a unit are in order by construction.
//! Cost: that of `Gaps`. A gap that had to be forgotten makes its fillers duplicates.

use fairspan_core::flow::gaps::Gaps;

/// What was seen of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reordering {
    /// Units with data, of any kind.
    pub(crate) units: u64,
    /// Type-P-Reordered: sent earlier than something that arrived before them.
    pub(crate) reordered: u64,
    /// Sent again after a loss, filling a gap.
    pub(crate) retransmitted: u64,
    /// Sent or delivered again without need.
    pub(crate) duplicates: u64,
    /// Bytes in order or filled in later: what the application can have read.
    pub(crate) bytes: u64,
}

/// The state of RFC 4737's counting for one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceWatch {
    /// `None` before the flow's first unit.
    gaps: Option<Gaps<u32>>,
    seen: Reordering,
}

impl SequenceWatch {
    /// Takes the SYN's sequence number: data starts one after it.
    pub(crate) fn handle_syn(&mut self, sequence: u32) {
        if self.gaps.is_none() {
            self.gaps = Some(begin(sequence.wrapping_add(1)));
        }
    }

    /// Takes a unit of `length` data bytes from `sequence` on that carried the TCP timestamp `stamp`.
    pub(crate) fn handle_data(&mut self, sequence: u32, length: u32, stamp: u32) {
        if length == 0 {
            return;
        }
        self.seen.units += 1;
        // Where the SYN was not seen, the flow starts here.
        let gaps = self.gaps.get_or_insert_with(|| begin(sequence));
        let next = gaps.next();
        let ahead = sequence.wrapping_sub(next as u32) as i32;
        let start = next.saturating_add_signed(i64::from(ahead));
        let end = start + u64::from(length);
        let arrival = gaps.take(start, end, stamp);
        self.seen.bytes += arrival.fresh;
        if start < next {
            match arrival.late {
                Some(opener) if is_later(stamp, opener) => self.seen.retransmitted += 1,
                Some(_) => self.seen.reordered += 1,
                // Old and new bytes in one unit can only have been packed by a sender that sends again.
                None if end > next => self.seen.retransmitted += 1,
                None => self.seen.duplicates += 1,
            }
        }
    }

    /// What was seen so far.
    pub(crate) fn seen(&self) -> Reordering {
        self.seen
    }
}

/// Nothing seen yet of a flow whose first byte has this number; far from zero, so that unwrapping backwards stays above it.
fn begin(sequence: u32) -> Gaps<u32> {
    Gaps::new((1 << 32) + u64::from(sequence))
}

/// Whether timestamp `a` is later than `b`, by serial arithmetic.
fn is_later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watch(units: &[(u32, u32, u32)]) -> Reordering {
        let mut watch = SequenceWatch::default();
        watch.handle_syn(999);
        for &(sequence, length, stamp) in units {
            watch.handle_data(sequence, length, stamp);
        }
        watch.seen()
    }

    #[test]
    fn packets_in_order_are_not_reordered() {
        let seen = watch(&[(1000, 100, 1), (1100, 100, 1), (1200, 50, 2)]);
        assert_eq!(seen, Reordering { units: 3, bytes: 250, ..Reordering::default() });
    }

    #[test]
    fn a_packet_overtaken_by_a_later_one_is_reordered_once() {
        // RFC 4737, section 3.3: NextExp is not moved back, so the packets after the late one are in order again.
        let seen = watch(&[(1000, 100, 1), (1200, 100, 1), (1100, 100, 1), (1300, 100, 1)]);
        assert_eq!(seen, Reordering { units: 4, reordered: 1, bytes: 400, ..Reordering::default() });
    }

    #[test]
    fn a_packet_sent_again_after_a_loss_is_not_reordered() {
        let seen = watch(&[(1000, 100, 1), (1200, 100, 2), (1300, 100, 3), (1100, 100, 40)]);
        assert_eq!(seen, Reordering { units: 4, retransmitted: 1, bytes: 400, ..Reordering::default() });
    }

    #[test]
    fn bytes_that_came_twice_are_duplicates() {
        let seen = watch(&[(1000, 100, 1), (1100, 100, 1), (1000, 100, 1), (1000, 200, 50)]);
        assert_eq!(seen, Reordering { units: 4, duplicates: 2, bytes: 200, ..Reordering::default() });
    }

    #[test]
    fn a_packet_half_old_and_half_new_was_sent_again() {
        let seen = watch(&[(1000, 100, 1), (1050, 100, 9)]);
        assert_eq!(seen, Reordering { units: 2, retransmitted: 1, bytes: 150, ..Reordering::default() });
    }

    #[test]
    fn sequence_numbers_and_timestamps_wrap() {
        let mut watch = SequenceWatch::default();
        watch.handle_syn(u32::MAX - 100);
        watch.handle_data(u32::MAX - 99, 100, u32::MAX);
        watch.handle_data(100, 100, u32::MAX);
        watch.handle_data(0, 100, u32::MAX - 1);
        watch.handle_data(200, 100, 3);
        watch.handle_data(400, 100, 3);
        watch.handle_data(300, 100, 99);
        assert_eq!(
            watch.seen(),
            Reordering { units: 6, reordered: 1, retransmitted: 1, bytes: 600, ..Reordering::default() }
        );
    }

    proptest! {
        /// A network that reorders and duplicates, but loses nothing, against RFC 4737's definition on packet numbers.
        #[test]
        fn the_count_is_the_rfc_definition_for_any_arrival_order(
            order in proptest::collection::vec(0_u32..40, 1..120),
            base in any::<u32>(),
        ) {
            let mut watch = SequenceWatch::default();
            watch.handle_syn(base.wrapping_sub(1));
            let mut next = 0;
            let mut arrived = std::collections::BTreeSet::new();
            let (mut reordered, mut duplicates) = (0, 0);
            for number in order {
                watch.handle_data(base.wrapping_add(number * 10), 10, 5 + number);
                if !arrived.insert(number) {
                    duplicates += 1;
                } else if number < next {
                    reordered += 1;
                }
                next = next.max(number + 1);
            }
            prop_assert_eq!(watch.seen().reordered, reordered);
            prop_assert_eq!(watch.seen().duplicates, duplicates);
            prop_assert_eq!(watch.seen().retransmitted, 0);
            prop_assert_eq!(watch.seen().bytes, 10 * arrived.len() as u64);
        }

        /// A network that loses but keeps order, and a sender that sends again later: nothing is reordered.
        #[test]
        fn losses_alone_are_never_counted_as_reordering(lost in proptest::collection::vec(any::<bool>(), 1..80)) {
            let mut watch = SequenceWatch::default();
            watch.handle_syn(0);
            let mut again = Vec::new();
            for (number, &lost) in (0_u32..).zip(&lost) {
                if lost { again.push(number) } else { watch.handle_data(1 + number * 10, 10, number) }
            }
            let after = lost.len() as u32;
            watch.handle_data(1 + after * 10, 10, after);
            let retransmitted = again.len() as u64;
            for number in again {
                watch.handle_data(1 + number * 10, 10, after + 20);
            }
            prop_assert_eq!(watch.seen().reordered, 0);
            prop_assert_eq!(watch.seen().retransmitted, retransmitted);
        }
    }
}
