//! Flows of a capture that move behind a marker: [`Flush`] between the policy and the imagined links.
//!
//! What it is: each packet for which the policy chose a link passes the core's [`Flush`], which holds it while its flow is
//! on the move, and is sent when it is released. What Flush is told happens in the order of time: a packet has left its
//! queue when its transmission begins; a marker goes at once behind what is being transmitted, in front of what waits,
//! and takes none of the link's time; it is answered as soon as it arrives, and the answer needs the same delay back.
//!
//! Departure: a live bond's marker takes the time of 22 bytes or more. Cost: three events a packet, in a heap. Invariant:
//! links lose nothing and keep their order, so no packet arrives out of order.

use super::{LinkList, Report, Run, Traffic};
use fairspan_core::select::Select;
use fairspan_core::select::flush::{BUCKETS, Config, Flush, Place};
use fairspan_core::set::LinkSet;
use fairspan_core::units::{ChannelId, Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Bytes that may be held, as many as a bond's default leaves for it and more.
const HELD: usize = 64_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The transmission of a packet begins on this link.
    Left(ChannelId),
    /// The marker of this number is answered.
    Answer(u32),
}

/// A run whose flows move behind markers.
struct Flushing<'t, 'a> {
    run: Run<'t, 'a>,
    /// Packets by their numbers in the traffic.
    flush: Flush<usize>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    /// For each link, when what is being transmitted will have left; it is the first of those that have not left yet.
    ends: Vec<VecDeque<Time>>,
    delays: Vec<Span>,
    links: LinkSet,
    now: Time,
}

/// Sends `traffic` as `selector` says and `config` allows.
pub(super) fn run(
    selector: &mut impl Select,
    config: Config,
    list: &LinkList,
    traffic: &Traffic<'_>,
    trace: bool,
) -> Report {
    let run = Run::new(list, traffic, trace);
    let links = run.links.usable();
    let mut flushing = Flushing {
        run,
        flush: Flush::new(config, HELD, 0),
        events: BinaryHeap::new(),
        ends: vec![VecDeque::new(); list.as_slice().len()],
        delays: list.as_slice().iter().map(|link| link.delay).collect(),
        links,
        now: Time::ZERO,
    };
    flushing.flush.on_links(Time::ZERO, links);
    for (number, packet) in traffic.packets().iter().enumerate() {
        flushing.until(packet.time());
        flushing.now = packet.time();
        let chosen = flushing.run.select(selector, packet);
        flushing.place(number, chosen);
    }
    while flushing.flush.bytes() > 0 {
        let Some(next) = flushing.next() else { break };
        flushing.until(next);
    }
    flushing.run.report.held = flushing.flush.counters().held;
    flushing.run.finish()
}

impl Flushing<'_, '_> {
    /// When something happens next.
    fn next(&self) -> Option<Time> {
        let event = self.events.peek().map(|Reverse((at, _))| *at);
        event.into_iter().chain(self.flush.poll_timeout(self.links)).min()
    }

    /// Does what happens until `now`.
    fn until(&mut self, now: Time) {
        while let Some(at) = self.next().filter(|at| *at <= now) {
            // A marker that was due in the past goes now.
            self.now = self.now.max(at);
            match self.events.peek() {
                Some(&Reverse((time, event))) if time <= self.now => {
                    self.events.pop();
                    match event {
                        Event::Left(link) => self.flush.on_left(link, 1),
                        Event::Answer(token) => drop(self.flush.on_answer(self.now, token)),
                    }
                }
                _ => self.flush.handle_timeout(self.now),
            }
            self.settle();
        }
    }

    /// A packet of the traffic, for which the policy chose these links.
    fn place(&mut self, number: usize, chosen: LinkSet) {
        let packet = &self.run.traffic.packets()[number];
        let (Some(wanted), 1) = (chosen.first(), chosen.len()) else {
            self.run.send(self.now, number, chosen);
            return;
        };
        let flow = (packet.flow() % BUCKETS) as u16;
        match self.flush.place(self.now, flow, wanted, packet.frame().len, number) {
            Place::Queue(link, number) => self.send(number, flow, link),
            Place::Held => {}
            Place::Refused(number) => drop(self.run.send(self.now, number, LinkSet::EMPTY)),
        }
        self.settle();
    }

    fn send(&mut self, number: usize, flow: u16, link: ChannelId) {
        self.run.wires.advance(self.now, &mut self.run.links);
        let begins = self.run.send(self.now, number, LinkSet::only(link));
        self.flush.on_queued(flow, link);
        self.events.push(Reverse((begins, Event::Left(link))));
        let free = self.run.links.get(link).map_or(begins, |state| state.free);
        self.ends[link.index()].push_back(free);
    }

    /// Sends the markers that are due and the packets that are held no longer.
    fn settle(&mut self) {
        while let Some((link, flow, number)) = self.flush.poll_release() {
            self.send(number, flow, link);
        }
        for link in self.flush.due(self.now).iter() {
            let Some(token) = self.flush.mark(self.now, link) else { continue };
            let ends = &mut self.ends[link.index()];
            while ends.front().is_some_and(|end| *end <= self.now) {
                ends.pop_front();
            }
            let leaves = ends.front().map_or(self.now, |end| *end);
            let delay = self.delays[link.index()];
            self.events.push(Reverse((leaves + delay + delay, Event::Answer(token))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bond, Gathered};
    use super::*;
    use crate::hex::HexFrames;
    use proptest::prelude::*;

    fn frames(flows: &[u8]) -> HexFrames {
        let frame = |flow: &u8| format!("0000000000{flow:02x}{}", "00".repeat(600));
        HexFrames::read(flows.iter().map(frame).collect::<Vec<_>>().join("\n").as_bytes()).expect("frames")
    }

    fn report(policy: &str, links: &str, frames: &HexFrames, interval: Span) -> Report {
        let mut gathered = Gathered::default();
        gathered.hex(frames, interval);
        let traffic = gathered.finish().expect("few");
        let (settings, links) = (policy.parse().expect("a policy"), links.parse().expect("links"));
        Bond::new(&settings, &links, 1).expect("a bond").run(&traffic, true)
    }

    #[test]
    fn a_flow_moves_only_when_what_it_has_on_its_link_has_arrived() {
        // Each millisecond a packet; the far link needs 20 ms there and as much for the marker's answer.
        let frames = frames(&[1; 100]);
        let links = "near:100,far:100:20ms";
        let plain = report("balance-rr:10", links, &frames, Span::from_millis(1));
        let moved = report("balance-rr:10,flush=on,flush_wait=100ms", links, &frames, Span::from_millis(1));
        assert!(plain.reordered > 20 && plain.held == 0, "{plain:?}");
        assert_eq!((moved.reordered, moved.forwarded), (0, 100));
        assert!(moved.held > 0 && moved.bursts > 2, "{moved:?}");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_reordered_whatever_the_links(
            flows in proptest::collection::vec(0u8..6, 1..200),
            links in proptest::collection::vec((1u64..40, 0u64..60), 2..5),
            interval in 0u64..4000,
            wait in 0u64..100,
            policy in 0usize..3,
        ) {
            let list: Vec<String> = links.iter().enumerate().map(|(n, (r, d))| format!("l{n}:{r}:{d}ms")).collect();
            let policy = ["balance-rr:3,", "least_queue:", "brr:5ms,"][policy];
            let policy = format!("{policy}flush=on,flush_wait={wait}ms");
            let report = report(&policy, &list.join(","), &frames(&flows), Span::from_micros(interval));
            prop_assert_eq!((report.forwarded, report.not_forwarded, report.reordered), (flows.len() as u64, 0, 0));
            prop_assert!(report.assignments.is_some_and(|sets| sets.iter().all(|set| set.len() == 1)));
        }
    }
}
