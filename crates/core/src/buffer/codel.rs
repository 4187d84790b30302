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
