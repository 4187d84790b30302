//! What an end of a flow takes to get a packet out: a random time, packets in order.
//!
//! Equal connections over equal paths answer one another's packets at the same instants for ever, and a bottleneck then
//! drops the packets of the same few (phase effects: Floyd and Jacobson, "Traffic phase effects in packet-switched
//! gateways", 1991). Real hosts do not: each packet takes them a little more or less.
//!
//! Each packet leaves up to `most` after the transport gave it out, drawn uniformly, never before the one before it.

use crate::engine::lists::{List, Lists};
use crate::packet::Outgoing;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};

/// The packets of one flow that its ends have given out and that have not left yet. They lie with those of all flows.
#[derive(Debug)]
pub(crate) struct Outbox {
    most: u64,
    rng: Rng,
    /// One for each end: the sender's, the receiver's.
    ways: [Way; 2],
}

#[derive(Debug, Default)]
struct Way {
    last: Time,
    waiting: List,
}

impl Outbox {
    pub(crate) fn new(most: Span, rng: Rng) -> Outbox {
        Outbox { most: most.as_nanos(), rng, ways: Default::default() }
    }

    /// A packet that is given out now: when it leaves.
    pub(crate) fn push(&mut self, now: Time, outgoing: Outgoing, all: &mut Lists<Outgoing>) -> Time {
        let way = &mut self.ways[usize::from(outgoing.reverse)];
        let time = now + Span::from_nanos(self.rng.below(self.most + 1));
        way.last = way.last.max(time);
        all.push(&mut way.waiting, outgoing);
        way.last
    }

    /// The packet that leaves now from the receiver's end (`reverse`) or the sender's.
    pub(crate) fn pop(&mut self, reverse: bool, all: &mut Lists<Outgoing>) -> Option<Outgoing> {
        all.pop(&mut self.ways[usize::from(reverse)].waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Body;

    #[test]
    fn packets_leave_in_order_within_the_longest_time_and_not_all_alike() {
        let (mut outbox, mut all) = (Outbox::new(Span::from_micros(10), Rng::new(5)), Lists::default());
        let mut last = [Time::ZERO; 2];
        let mut distinct = std::collections::BTreeSet::new();
        for n in 0..1000_u32 {
            let now = Time::from_nanos(u64::from(n) * 3_000);
            let reverse = n % 3 == 0;
            let time = outbox.push(now, Outgoing { reverse, connection: 0, size: n, body: Body::Datagram }, &mut all);
            assert!(time >= now && time <= now + Span::from_micros(10));
            assert!(time >= last[usize::from(reverse)]);
            last[usize::from(reverse)] = time;
            distinct.insert(time.since(now));
        }
        assert!(distinct.len() > 500, "{}", distinct.len());
        for reverse in [false, true] {
            let sizes = std::iter::from_fn(|| outbox.pop(reverse, &mut all)).map(|outgoing| outgoing.size);
            assert!(sizes.eq((0..1000).filter(|n| (n % 3 == 0) == reverse)));
        }
    }
}
