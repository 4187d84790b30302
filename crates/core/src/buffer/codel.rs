//! CoDel: packets of a queue that stands are marked, or dropped where they cannot be, more and more often.
//!
//! What it is: a packet that goes after it waited for longer than `target` is a sign; when the signs of a queue have not
//! ceased for `interval`, one packet is hit, and others at intervals that shrink with the square root of their number,
//! until one has waited for less. At a full buffer it is drop-tail.
//!
//! Source: RFC 8289 (Nichols and Jacobson), section 5. A queue of the discipline has a control law of its own, as RFC 8290
//! section 4.2 has it: with one law over many queues, each packet of a short one would end what a long one began.
//!
//! | RFC 8289 section 5.1 | field |
//! |---|---|
//! | TARGET, INTERVAL | `target`, `interval` |
//! | first_above_time_ | `above_since` + interval |
//! | drop_next_, count_, lastcount_, dropping_ | `next`, `count`, `last_count`, `dropping` |
//!
//! Departures: a queue of less than two packets of data is never "above". What a queue has learnt is forgotten when
//! another flow's takes its place in the discipline. Cost: O(1), an integer square root per hit; 56 bytes a queue.

use super::policy::{Backlog, ConfigError, Leaving, Policy, Reason, Verdict};
use super::tail::DropTail;
use crate::units::{FlowNumber, Span, Time};
use alloc::vec::Vec;

/// Bytes behind a packet from which on its queue may count as standing.
const TWO_PACKETS: u64 = 3000;

/// Controlled delay.
#[derive(Clone, Debug)]
pub struct CoDel {
    target: Span,
    interval: Span,
    /// By number of the queue.
    laws: Vec<Law>,
}

/// The control law of one queue.
#[derive(Clone, Debug, Default)]
struct Law {
    /// Whose queue it is.
    key: u32,
    above_since: Option<Time>,
    dropping: bool,
    next: Time,
    count: u64,
    last_count: u64,
}

impl CoDel {
    /// One that hits packets of queues in which the wait has been above `target` for `interval`.
    pub fn new(target: Span, interval: Span) -> CoDel {
        CoDel { target, interval, laws: Vec::new() }
    }

    /// Checks the settings.
    pub(super) fn check(target: Span, interval: Span) -> Result<(), ConfigError> {
        if target < interval {
            return Ok(());
        }
        let (value, bound) = (interval.as_nanos(), target.as_nanos());
        Err(ConfigError::Order { setting: "interval", value, other: "target", bound })
    }

    fn law(&mut self, queue: u32, key: u32) -> &mut Law {
        let at = queue as usize;
        if self.laws.len() <= at {
            self.laws.resize(at + 1, Law::default());
        }
        let law = &mut self.laws[at];
        if law.key != key {
            *law = Law { key, ..Law::default() };
        }
        law
    }
}

impl<P> Policy<P> for CoDel {
    #[inline]
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        DropTail.admit(now, flow, packet, backlog)
    }

    fn release(&mut self, now: Time, _flow: FlowNumber, _packet: &P, leaving: &Leaving) -> Verdict {
        let (target, interval) = (self.target, self.interval);
        let above = leaving.waited >= target && leaving.behind > TWO_PACKETS;
        if self.law(leaving.queue, leaving.key).hits(now, above, interval) {
            return Verdict::Mark(Reason::Standing);
        }
        Verdict::Pass
    }
}

impl Law {
    /// Whether a packet that waited too long (`above`) is to be hit.
    fn hits(&mut self, now: Time, above: bool, interval: Span) -> bool {
        if !above {
            self.above_since = None;
            self.dropping = false;
            return false;
        }
        let since = *self.above_since.get_or_insert(now);
        if now.since(since) < interval {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            if now < self.next {
                return false;
            }
            self.count += 1;
            self.next += self.spacing(interval);
            return true;
        }
        self.dropping = true;
        // RFC 8289 section 5.4: resume near the rate that worked, if that was not long ago.
        let delta = self.count - self.last_count;
        let recent = now.since(self.next) < interval.times(16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.next = now + self.spacing(interval);
        true
    }

    /// interval / sqrt(count).
    fn spacing(&self, interval: Span) -> Span {
        let root = (self.count << 20).isqrt().max(1);
        Span::from_nanos(((u128::from(interval.as_nanos()) << 10) / u128::from(root)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The milliseconds in which a packet is hit that leaves behind so many bytes after such a wait, one each millisecond.
    fn hits(codel: &mut CoDel, when: core::ops::Range<u64>, waited: Span, behind: u64) -> Vec<u64> {
        let leaving = Leaving { waited, queue: 3, key: 7, behind, is_scalable: false };
        when.filter(|ms| {
            codel.release(Time::from_millis(*ms), FlowNumber(0), &(), &leaving) == Verdict::Mark(Reason::Standing)
        })
        .collect()
    }

    // RFC 8289, section 5: the first after an interval, then interval / sqrt(count) apart: 100, 70.7, 57.7, 50 ms.
    #[test]
    fn a_queue_that_stands_is_hit_ever_more_often_and_again_so_if_it_soon_stands_again() {
        let (target, interval) = (Span::from_millis(5), Span::from_millis(100));
        let mut codel = CoDel::new(target, interval);
        assert_eq!(hits(&mut codel, 0..370, target, 3001), [100, 200, 271, 329]);
        assert_eq!(hits(&mut codel, 370..400, Span::from_nanos(4_999_999), 9000), [0; 0]);
        // Three more than at first: it goes on with the third spacing.
        assert_eq!(hits(&mut codel, 400..640, target, 3001), [500, 558, 608]);
        // Just 16 intervals after the next one would have been due it begins anew, and a moment before it does not.
        for (gap, spacing) in [(1600, 100), (1599, 71)] {
            let mut codel = codel.clone();
            codel.laws[3].next = Time::from_millis(5000 - gap);
            codel.laws[3].above_since = None;
            (codel.laws[3].count, codel.laws[3].last_count) = (5, 3);
            assert_eq!(hits(&mut codel, 4900..5001, target, 3001), [5000]);
            assert_eq!(codel.laws[3].next.since(Time::from_millis(5000)).as_nanos().div_ceil(1_000_000), spacing);
        }
    }

    #[test]
    fn two_packets_that_wait_are_no_standing_queue_and_another_queue_of_that_number_begins_anew() {
        let (target, interval) = (Span::from_millis(5), Span::from_millis(100));
        let mut codel = CoDel::new(target, interval);
        assert_eq!(hits(&mut codel, 0..300, target, TWO_PACKETS), [0; 0]);
        assert_eq!(hits(&mut codel, 300..450, target, 9000), [400]);
        let other = Leaving { waited: target, queue: 3, key: 8, behind: 9000, is_scalable: false };
        assert_eq!(codel.release(Time::from_millis(500), FlowNumber(0), &(), &other), Verdict::Pass);
    }
}
