//! The links of an imagined bond: what is sent over each leaves in turn at its rate and arrives after its delay.
//!
//! Queues are as long as they have to be and nothing is lost: a capture says what was sent, not how its senders would have
//! answered to losses. `free(l)` is when all that was given to link l has left; a packet of b bytes that is given at t
//! leaves at `free(l) = max(t, free(l)) + b/rate` and arrives a delay later.
//!
//! Cost: each packet enters and leaves one queue. Invariant: arrivals over one link are in the order of sending.

use super::links::LinkList;
use fairspan_core::select::Links;
use fairspan_core::set::LinkSet;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use std::collections::VecDeque;

/// One link's state.
#[derive(Clone, Debug)]
struct Wire {
    rate: Rate,
    delay: Span,
    free: Time,
    /// When each packet that has not left yet will have left, and its bytes.
    queue: VecDeque<(Time, Bytes)>,
    backlog: Bytes,
}

/// All links.
#[derive(Clone, Debug)]
pub struct Wires {
    wires: Vec<Wire>,
    /// Those that have something to send.
    busy: LinkSet,
}

/// What became of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// How long it waited for those before it.
    pub waited: Span,
    /// How long the link was busy with it.
    pub took: Span,
    /// When it arrived.
    pub arrives: Time,
}

impl Wires {
    /// Idle links.
    pub fn new(list: &LinkList) -> Wires {
        let wire = |link: &super::LinkSpec| Wire {
            rate: link.rate,
            delay: link.delay,
            free: Time::ZERO,
            queue: VecDeque::new(),
            backlog: Bytes::ZERO,
        };
        Wires { wires: list.as_slice().iter().map(wire).collect(), busy: LinkSet::EMPTY }
    }

    /// Tells `links` what still waits at `now`.
    pub fn advance(&mut self, now: Time, links: &mut Links) {
        for link in self.busy.iter() {
            let wire = &mut self.wires[link.index()];
            let before = wire.backlog;
            while let Some(&(_, bytes)) = wire.queue.front().filter(|(leaves, _)| *leaves <= now) {
                wire.backlog -= bytes;
                wire.queue.pop_front();
            }
            if wire.queue.is_empty() {
                self.busy = self.busy.without(link);
            }
            if wire.backlog != before {
                links.set_backlog(link, wire.backlog, wire.free);
            }
        }
    }

    /// Gives `link` a packet and tells `links`.
    pub fn send(&mut self, now: Time, link: ChannelId, bytes: Bytes, links: &mut Links) -> Option<Sent> {
        let wire = self.wires.get_mut(link.index())?;
        let begins = wire.free.max(now);
        let took = wire.rate.transmit_time(bytes);
        wire.free = begins + took;
        wire.backlog += bytes;
        wire.queue.push_back((wire.free, bytes));
        self.busy = self.busy.with(link);
        links.set_backlog(link, wire.backlog, wire.free);
        Some(Sent { waited: begins.since(now), took, arrives: wire.free + wire.delay })
    }

    /// When everything will have left.
    pub fn free(&self) -> Time {
        self.wires.iter().map(|wire| wire.free).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_in_turn_and_selectors_are_told_what_waits() {
        let list: LinkList = "slow:1:10ms,fast:10".parse().unwrap();
        let (mut wires, mut links) = (Wires::new(&list), list.states());
        let at = Time::from_millis;
        let mut send = |wires: &mut Wires, ms, link, bytes| {
            let sent = wires.send(at(ms), ChannelId(link), Bytes::new(bytes), &mut links).expect("a link");
            let state = links.get(ChannelId(link)).expect("a link");
            (sent.waited.as_nanos() / 1_000_000, sent.arrives, state.backlog.as_u64(), state.free)
        };
        // 125 bytes take a millisecond at 1 Mbit/s.
        assert_eq!(send(&mut wires, 5, 0, 250), (0, at(17), 250, at(7)));
        assert_eq!(send(&mut wires, 5, 0, 125), (2, at(18), 375, at(8)));
        assert_eq!(send(&mut wires, 5, 1, 1250), (0, at(6), 1250, at(6)));
        for (ms, backlog) in [(6, [375, 0]), (7, [125, 0]), (8, [0, 0]), (9, [0, 0])] {
            wires.advance(at(ms), &mut links);
            let seen = [0, 1].map(|link| links.get(ChannelId(link)).expect("a link").backlog.as_u64());
            assert_eq!(seen, backlog, "at {ms} ms");
        }
        assert_eq!((wires.free(), wires.busy), (at(8), LinkSet::EMPTY));
        assert_eq!(wires.send(at(9), ChannelId(2), Bytes::new(1), &mut links), None);
    }
}
