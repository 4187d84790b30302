//! Tells what a full queue drops from what a path loses anyway.
//!
//! What it is: two counts of packets, of times in which a queue stood and of times in which none did. The first is judged by the second:
//! a queue overflows where more than two packets more were lost than the path's own share explains, and more than three times the
//! square root of what that explains. That share is taken two standard deviations and two packets larger than it was seen, so that it
//! explains much where little was seen. A path that was never seen without a queue is not judged.
//!
//! It is for senders whose losses are mostly no congestion. Whoever uses it leaves out paths that jitter: packets that overtake others
//! look lost there, and the more of them the more are sent. Cost: some ten operations on floats a round. Source: ours.

/// Packets without a queue that are remembered at least.
const MEMORY: f64 = 4096.0;
/// So many packets may be an accident.
const LEAST: f64 = 2.0;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    sent: f64,
    lost: f64,
}

impl Count {
    fn add(&mut self, sent: f64, lost: f64) {
        self.sent += sent;
        self.lost += lost;
    }
}

/// What one sender counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overflow {
    /// In times without a queue.
    own: Count,
    /// Since a queue stands.
    queued: Count,
}

impl Overflow {
    /// Of `sent` packets `lost` were lost in a time in which a queue stood or not: whether it overflowed.
    pub(super) fn add(&mut self, sent: f64, lost: f64, queued: bool) -> bool {
        if !queued {
            self.own.add(sent, lost);
            if self.own.sent > 2.0 * MEMORY {
                self.own = Count { sent: self.own.sent / 2.0, lost: self.own.lost / 2.0 };
            }
            self.queued = Count::default();
            return false;
        }
        self.queued.add(sent, lost);
        let deviations = ((4.0 * self.own.lost) as u64).isqrt() as f64;
        let expected = self.queued.sent * (self.own.lost + deviations + 2.0) / self.own.sent;
        let beyond = self.queued.lost - expected;
        let overflows = beyond > LEAST && beyond * beyond > 9.0 * expected;
        if overflows {
            self.queued = Count::default();
        }
        overflows
    }

    /// What was counted since a queue stands says nothing.
    pub(super) fn forget(&mut self) {
        self.queued = Count::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// How often a queue that always stands overflows in 2,000 rounds of 50 packets, of which so many of 1,000 are lost, on a path that loses so many of 1,000.
    fn overflows(own: u64, queued: u64) -> usize {
        let (mut overflow, mut rng) = (Overflow::default(), Rng::new(own * 1000 + queued));
        let mut lost = |of: u64| (0..50).filter(|_| rng.below(1000) < of).count() as f64;
        (0..200).for_each(|_| assert!(!overflow.add(50.0, lost(own), false)));
        (0..2000).filter(|_| overflow.add(50.0, lost(queued), true)).count()
    }

    #[test]
    fn what_a_path_loses_anyway_is_no_overflow_and_what_a_full_queue_drops_is() {
        for own in [0, 1, 10, 50, 200] {
            assert_eq!(overflows(own, own), 0, "{own} of 1000");
        }
        for (own, queued) in [(0, 5), (1, 20), (10, 50), (50, 150)] {
            assert!(overflows(own, queued) >= 10, "{own} and {queued} of 1000");
        }
    }

    #[test]
    fn a_path_that_was_never_seen_without_a_queue_is_not_judged_and_what_is_forgotten_does_not_count() {
        let mut overflow = Overflow::default();
        assert!((0..100).all(|_| !overflow.add(50.0, 25.0, true)));
        (0..100).for_each(|_| assert!(!overflow.add(50.0, 0.0, false)));
        for _ in 0..100 {
            assert!(!overflow.add(50.0, 2.0, true));
            overflow.forget();
        }
        assert!(!overflow.add(50.0, 2.0, true) && overflow.add(50.0, 2.0, true));
    }
}
