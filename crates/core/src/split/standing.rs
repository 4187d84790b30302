//! The queue that stands on the long link itself, and how much less is served until it is gone.
//!
//! What it is: what is served stays below what the link carries, so packets wait in the fair-queueing subsystem. But what has once come to wait
//! on the link (a stall of the link or of this host, segments that TCP sent again, a rate that was configured too high) drains only by what
//! the ceiling leaves, which is little. Meanwhile round trips are longer for all, and a right-hand connection whose window is a multiple of
//! its shortest round trip (BBR: two of them) has less and less of the link, which datagrams then take. So the ceiling gives way
//! while round trips show such a queue. Source: ours; that a standing queue shows in the least delay of late is RFC 8289, 3.1.
//!
//! | symbol | here |
//! |---|---|
//! | r, the shortest round trip of the connection that has waited least of late | `least` |
//! | q, how much longer its round trips are | `wait` |
//! | Q, what may stand | `target`: r/8, and 10 ms at least |
//! | T, in which the rest is to drain | `draining`: 4 r, and 200 ms at least |
//! | c, the ceiling's part that is served | 1 - (q - Q)/T, and 3/4 at least |
//!
//! With c the queue falls by (q - Q)/T of a second in each second, so q comes to Q with the time constant T. What is told is a round trip old: T is four
//! of them, at which such a loop does not swing. One connection without a queue shows that the link has none: that of another is elsewhere. A wait
//! that is still there after [`PATIENCE`] at a smaller ceiling is none that this gateway makes: the way has become longer, or others fill the
//! link. Then it counts as part of the way until it was shorter.
//!
//! Cost: O(1). Invariant: c is between 3/4 and 1.

use crate::units::{Span, Time};

/// The least of Q and of T.
const TARGET: Span = Span::from_millis(10);
const DRAINING: Span = Span::from_millis(200);
/// So many T, and not less than this, is a wait taken for this gateway's own queue.
const PATIENCE: (u64, Span) = (16, Span::from_secs(5));
/// The whole, and the least of it that is served.
const WHOLE: u64 = 1000;
const LEAST: u64 = 750;
/// What was told holds so long, and two T at least.
const HOLDS: Span = Span::from_secs(1);

/// What is known of the queue on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    part: u64,
    holds_until: Time,
    /// Since when less is served.
    since: Option<Time>,
    /// The wait that is part of the way.
    excused: Span,
}

impl Default for Standing {
    fn default() -> Standing {
        Standing { part: WHOLE, holds_until: Time::ZERO, since: None, excused: Span::ZERO }
    }
}

impl Standing {
    /// The connection that has waited least of late has this shortest round trip, and its round trips are now `wait` longer.
    pub(super) fn on_wait(&mut self, now: Time, least: Span, wait: Span) {
        let target = TARGET.max(Span::from_nanos(least.as_nanos() / 8));
        let draining = DRAINING.max(least.times(4));
        self.excused = self.excused.min(wait);
        let excess = wait - self.excused - target;
        if now >= self.holds_until {
            self.since = None;
        }
        self.holds_until = now + HOLDS.max(draining.times(2));
        if excess == Span::ZERO {
            (self.part, self.since) = (WHOLE, None);
            return;
        }
        let since = *self.since.get_or_insert(now);
        if now.since(since) >= PATIENCE.1.max(draining.times(PATIENCE.0)) {
            (self.part, self.since, self.excused) = (WHOLE, None, wait);
            return;
        }
        let less = u128::from(excess.as_nanos()) * u128::from(WHOLE) / u128::from(draining.as_nanos());
        self.part = WHOLE.saturating_sub(u64::try_from(less).unwrap_or(u64::MAX)).max(LEAST);
    }

    /// How long a packet is in service whose turn takes `span` at the ceiling.
    pub(super) fn stretched(&self, now: Time, span: Span) -> Span {
        if self.part == WHOLE || now >= self.holds_until {
            return span;
        }
        Span::from_nanos(span.as_nanos().saturating_mul(WHOLE) / self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Span = Span::from_secs(1);

    /// A link with a queue, which packets are served to at 98 % of its rate or at what is left of that.
    struct Link {
        trip: Span,
        now: Time,
        /// How long its queue takes.
        queue: Span,
        /// What was seen of it, and when that comes to be known.
        seen: alloc::collections::VecDeque<(Time, Span)>,
        standing: Standing,
        tells: bool,
    }

    impl Link {
        fn new(trip: Span, tells: bool) -> Link {
            let standing = Standing::default();
            Link { trip, now: Time::ZERO, queue: Span::ZERO, seen: Default::default(), standing, tells }
        }

        /// Runs, with so much more on the way than is known; gives the part of the link that was used.
        fn run(&mut self, span: Span, longer: Span) -> f64 {
            const STEP: Span = Span::from_millis(1);
            let (until, mut used) = (self.now + span, 0);
            while self.now < until {
                self.now += STEP;
                // What comes in a step takes so long on the link.
                let comes = STEP.as_nanos() * STEP.as_nanos() / self.standing.stretched(self.now, STEP).as_nanos();
                let waits = self.queue.as_nanos() + comes * 98 / 100;
                used += waits.min(STEP.as_nanos());
                self.queue = Span::from_nanos(waits.saturating_sub(STEP.as_nanos()));
                self.seen.push_back((self.now + self.trip, self.queue + longer));
                while let Some((_, wait)) = self.seen.pop_front_if(|(known, _)| *known <= self.now) {
                    if self.tells && self.now.as_nanos().is_multiple_of(100_000_000) {
                        self.standing.on_wait(self.now, self.trip, wait);
                    }
                }
            }
            used as f64 / span.as_nanos() as f64
        }
    }

    #[test]
    fn what_stands_on_the_link_drains_within_seconds_where_two_hundredths_would_take_many_and_the_link_stays_full() {
        for (trip, until) in [(Span::from_millis(20), 2), (Span::from_millis(600), 12)] {
            for tells in [true, false] {
                let mut link = Link::new(trip, tells);
                link.run(SECOND, Span::ZERO);
                link.queue = Span::from_millis(400);
                let used = link.run(SECOND.times(until), Span::ZERO);
                let most = Span::from_millis(12).max(Span::from_nanos(trip.as_nanos() / 7));
                assert_eq!(link.queue <= most, tells, "{trip:?} {tells}: {:?}", link.queue);
                assert!(used > 0.97, "{trip:?} {tells}: {used}");
                // And then it goes on as before.
                link.run(SECOND.times(30), Span::ZERO);
                let used = link.run(SECOND.times(30), Span::ZERO);
                assert!((0.979..1.0).contains(&used), "{trip:?} {tells}: {used}");
            }
        }
    }

    #[test]
    fn a_way_that_has_become_longer_is_taken_for_a_queue_for_some_seconds_only_and_a_queue_on_it_is_seen_again() {
        let mut link = Link::new(Span::from_millis(20), true);
        let longer = Span::from_millis(60);
        link.run(SECOND, Span::ZERO);
        let used = link.run(SECOND.times(5), longer);
        assert!((0.7..0.8).contains(&used), "{used}");
        link.run(SECOND, longer);
        assert!(link.run(SECOND.times(60), longer) > 0.979);
        link.queue = Span::from_millis(400);
        link.run(SECOND.times(3), longer);
        assert!(link.queue < Span::from_millis(15), "{:?}", link.queue);
        // Once it was short again, it counts from there.
        link.run(SECOND.times(5), Span::ZERO);
        assert!(link.run(SECOND.times(4), longer) < 0.8);
    }

    #[test]
    fn what_nobody_tells_any_more_holds_for_a_second() {
        let mut standing = Standing::default();
        let (at, trip) = (Time::from_millis(5), Span::from_millis(20));
        standing.on_wait(at, trip, Span::from_millis(100));
        assert_eq!(standing.stretched(at, Span::from_micros(750)), Span::from_millis(1));
        assert_eq!(standing.stretched(at + SECOND, Span::from_micros(750)), Span::from_micros(750));
    }

    proptest! {
        #[test]
        fn whatever_is_told_between_three_quarters_and_all_is_served(
            told in prop::collection::vec((0u64..u64::MAX / 64, 0u64..u64::MAX / 64, 0u64..1u64 << 40), 1..50),
        ) {
            let (mut standing, mut now) = (Standing::default(), Time::ZERO);
            for (least, wait, after) in told {
                now += Span::from_nanos(after);
                standing.on_wait(now, Span::from_nanos(least), Span::from_nanos(wait));
                let stretched = standing.stretched(now, Span::from_nanos(750)).as_nanos();
                prop_assert!((750..=1000).contains(&stretched), "{stretched} with {standing:?}");
            }
        }
    }
}
