//! What a policy of link selection would do with captured traffic.
//!
//! What it is: the core's [`Selector`](fairspan_core::select::Selector) is given each packet at its captured time and chooses links of an imagined bond
//! ([`links`]), whose queues it sees as it would see them ([`wires`]). Counted are:
//!
//! | quantity | how |
//! |---|---|
//! | load of a link | its share of the packets that all links carried (burst-round-robin 6.3.3) |
//! | burst | packets of a flow, one after the other, on the same link |
//! | split flow | a flow with more than one burst |
//! | reordered packet | one that arrives after a later packet of its flow (6.3.1: below its flow's highest so far) |
//!
//! Departures: the paper measures at the receiver of real links; here arrivals are computed from rates and delays. Copies
//! (`broadcast`): the first one to arrive counts, since that is when the packet has arrived. Packets that arrive at the
//! same instant arrive in the order of sending.
//!
//! Cost: a selection and a few words for each packet; 8 bytes of memory a packet and 24 a flow, and 8 more a packet
//! where assignments are kept. Invariants: the same traffic, settings, links and seed give the same report; packets =
//! forwarded + not forwarded.

mod bond;
mod flow;
mod flushing;
pub mod links;
pub mod traffic;
pub mod wires;

pub use bond::Bond;
pub use links::{LinkList, LinkSpec, LinksError};
pub use traffic::{Gathered, Packet, Traffic};

use fairspan_core::select::{Links, Select};
use fairspan_core::set::LinkSet;
use fairspan_core::units::{Bytes, Span, Time};
use wires::Wires;

/// Timeouts of a selector that are caught up one by one before one of now has to do.
const CATCH_UP: usize = 1000;

/// What a link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Packets that it carried.
    pub packets: u64,
    /// Their bytes: frames without check sequence, or IP packets.
    pub bytes: u64,
    /// How long it was transmitting.
    pub busy: Span,
    /// The longest that a packet waited for those before it.
    pub wait_max: Span,
}

/// What a policy did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each link.
    pub links: Vec<LinkReport>,
    /// Packets that got a link, or several.
    pub forwarded: u64,
    /// Packets that got none.
    pub not_forwarded: u64,
    /// Flows of which a packet was forwarded.
    pub flows: u64,
    /// Those that used more than one link, or set of links.
    pub split: u64,
    /// Packets of a flow in a row on the same link, over all flows.
    pub bursts: u64,
    /// Packets that arrived after a later one of their flow.
    pub reordered: u64,
    /// Packets that waited until their flow was known to have arrived on its old link; zero without marker flushes.
    pub held: u64,
    /// When the last packet had left.
    pub end: Time,
    /// The links of each packet, by its place in the files; empty where it was not forwarded. `None`: not asked for.
    pub assignments: Option<Vec<LinkSet>>,
}

impl Report {
    /// Largest less smallest share of the packets that all links carried; zero where there were none.
    pub fn load_difference(&self) -> f64 {
        self.difference(|link| link.packets)
    }

    /// The same of their bytes.
    pub fn byte_difference(&self) -> f64 {
        self.difference(|link| link.bytes)
    }

    fn difference(&self, what: fn(&LinkReport) -> u64) -> f64 {
        let all: u64 = self.links.iter().map(what).sum();
        let (most, least) = (self.links.iter().map(what).max(), self.links.iter().map(what).min());
        (most.unwrap_or(0) - least.unwrap_or(0)) as f64 / all.max(1) as f64
    }

    /// Share of the forwarded packets that were reordered; zero where none were forwarded.
    pub fn reordered_share(&self) -> f64 {
        self.reordered as f64 / self.forwarded.max(1) as f64
    }
}

/// What is remembered of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    /// The links of its last packet; empty before the first one.
    last: LinkSet,
    split: bool,
}

/// Traffic on its way over the links, and what is counted of it.
#[derive(Debug)]
struct Run<'t, 'a> {
    traffic: &'t Traffic<'a>,
    wires: Wires,
    links: Links,
    flows: Vec<FlowState>,
    /// When each packet of the traffic arrived; never: [`Time::MAX`].
    arrivals: Vec<Time>,
    report: Report,
}

impl<'t, 'a> Run<'t, 'a> {
    fn new(list: &LinkList, traffic: &'t Traffic<'a>, trace: bool) -> Run<'t, 'a> {
        Run {
            traffic,
            wires: Wires::new(list),
            links: list.states(),
            flows: vec![FlowState::default(); traffic.flows()],
            arrivals: vec![Time::MAX; traffic.packets().len()],
            report: Report {
                links: vec![LinkReport::default(); list.as_slice().len()],
                assignments: trace.then(|| vec![LinkSet::EMPTY; traffic.places()]),
                ..Report::default()
            },
        }
    }

    /// The links that `selector` chooses for a packet at its time.
    fn select(&mut self, selector: &mut impl Select, packet: &Packet<'_>) -> LinkSet {
        let now = packet.time();
        self.wires.advance(now, &mut self.links);
        catch_up(selector, now, &self.links);
        selector.select(now, &packet.frame(), &self.links)
    }

    /// Sends packet `number` of the traffic over these links, and says when the last of them begins with it.
    fn send(&mut self, now: Time, number: usize, chosen: LinkSet) -> Time {
        let packet = &self.traffic.packets()[number];
        let bytes = Bytes::from(packet.frame().len);
        let mut begins = now;
        for link in chosen.iter() {
            let Some(sent) = self.wires.send(now, link, bytes, &mut self.links) else { continue };
            let link = &mut self.report.links[link.index()];
            link.packets += 1;
            link.bytes += bytes.as_u64();
            link.busy = link.busy + sent.took;
            link.wait_max = link.wait_max.max(sent.waited);
            self.arrivals[number] = self.arrivals[number].min(sent.arrives);
            begins = begins.max(now + sent.waited);
        }
        if let Some(assignments) = &mut self.report.assignments {
            assignments[packet.place()] = chosen;
        }
        if chosen.is_empty() {
            self.report.not_forwarded += 1;
            return begins;
        }
        self.report.forwarded += 1;
        let flow = &mut self.flows[packet.flow()];
        flow.split |= !flow.last.is_empty() && flow.last != chosen;
        self.report.bursts += u64::from(flow.last != chosen);
        flow.last = chosen;
        begins
    }

    fn finish(mut self) -> Report {
        self.report.flows = self.flows.iter().filter(|flow| !flow.last.is_empty()).count() as u64;
        self.report.split = self.flows.iter().filter(|flow| flow.split).count() as u64;
        self.report.reordered = reordered(self.traffic.packets(), &self.arrivals, self.traffic.flows());
        self.report.end = self.wires.free();
        self.report
    }
}

fn run(selector: &mut impl Select, list: &LinkList, traffic: &Traffic<'_>, trace: bool) -> Report {
    let mut run = Run::new(list, traffic, trace);
    for (number, packet) in traffic.packets().iter().enumerate() {
        let chosen = run.select(selector, packet);
        run.send(packet.time(), number, chosen);
    }
    run.finish()
}

/// Lets `selector` do what is due until `now`, at the times when it is due.
fn catch_up(selector: &mut impl Select, now: Time, links: &Links) {
    for _ in 0..CATCH_UP {
        match selector.poll_timeout() {
            Some(due) if due <= now => selector.handle_timeout(due, links),
            _ => return,
        }
    }
    selector.handle_timeout(now, links);
}

/// How many packets arrive after a later one of their flow: from the last packet to the first, with the earliest arrival
/// of those behind.
fn reordered(packets: &[Packet<'_>], arrivals: &[Time], flows: usize) -> u64 {
    let mut earliest = vec![Time::MAX; flows];
    let mut reordered = 0;
    for (packet, &arrives) in packets.iter().zip(arrivals).rev() {
        let behind = &mut earliest[packet.flow()];
        reordered += u64::from(arrives != Time::MAX && *behind < arrives);
        *behind = arrives.min(*behind);
    }
    reordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::HexFrames;
    use fairspan_core::select::Frame;
    use fairspan_core::units::ChannelId;
    use proptest::prelude::*;

    /// Chooses as it is told, in turn, and remembers what it saw.
    #[derive(Default)]
    struct Told {
        turns: Vec<LinkSet>,
        next: usize,
        backlogs: Vec<Vec<u64>>,
        due: Option<Time>,
        timeouts: Vec<Time>,
    }

    impl Told {
        fn new(turns: &[&[u8]]) -> Told {
            let set = |links: &&[u8]| links.iter().fold(LinkSet::EMPTY, |set, &n| set.with(ChannelId(n)));
            Told { turns: turns.iter().map(set).collect(), ..Told::default() }
        }
    }

    impl Select for Told {
        fn select(&mut self, _: Time, _: &Frame<'_>, links: &Links) -> LinkSet {
            self.backlogs.push(links.each_usable().map(|(_, state)| state.backlog.as_u64()).collect());
            self.next += 1;
            self.turns[(self.next - 1) % self.turns.len()]
        }

        fn poll_timeout(&self) -> Option<Time> {
            self.due
        }

        fn handle_timeout(&mut self, now: Time, _: &Links) {
            self.timeouts.push(now);
            self.due = Some(now + Span::from_millis(10));
        }
    }

    /// Frames of `(flow, length)`, of which the flow is the destination's last byte.
    fn frames(packets: &[(u8, usize)]) -> HexFrames {
        let frame = |&(flow, length): &(u8, usize)| format!("0000000000{flow:02x}{}", "00".repeat(length - 6));
        HexFrames::read(packets.iter().map(frame).collect::<Vec<_>>().join("\n").as_bytes()).expect("frames")
    }

    fn sent(selector: &mut Told, links: &str, frames: &HexFrames, interval: Span) -> Report {
        let mut gathered = Gathered::default();
        gathered.hex(frames, interval);
        let traffic = gathered.finish().expect("few");
        run(selector, &links.parse().expect("links"), &traffic, true)
    }

    #[test]
    fn loads_bursts_and_split_flows_are_counted_by_packet() {
        let frames = frames(&[(1, 100), (1, 100), (2, 500), (1, 100), (2, 100), (3, 60), (3, 60)]);
        let mut told = Told::new(&[&[0], &[0], &[1], &[1], &[1], &[], &[0]]);
        let report = sent(&mut told, "3", &frames, Span::from_millis(1));
        let loads: Vec<_> = report.links.iter().map(|link| (link.packets, link.bytes)).collect();
        assert_eq!(loads, [(3, 260), (3, 700), (0, 0)]);
        assert_eq!((report.forwarded, report.not_forwarded), (6, 1));
        // Flow 1 twice on link 0, then on 1; flow 2 on link 1; flow 3 on link 0.
        assert_eq!((report.flows, report.split, report.bursts, report.reordered), (3, 1, 4, 0));
        assert_eq!(report.load_difference(), 0.5);
        assert_eq!(report.byte_difference(), 700.0 / 960.0);
    }

    #[test]
    fn a_packet_is_reordered_if_a_later_one_of_its_flow_arrives_before_it() {
        // 1250 bytes take 10 ms at 1 Mbit/s: the first two packets arrive at 10 and 20 ms, the third one at 3 ms.
        let slow_first = frames(&[(1, 1250), (1, 1250), (1, 1250), (2, 1250)]);
        let told = || Told::new(&[&[0], &[0], &[1], &[1]]);
        let report = sent(&mut told(), "slow:1,fast:10", &slow_first, Span::from_millis(1));
        assert_eq!((report.reordered, report.reordered_share()), (2, 0.5));
        // A delay of 20 ms on the fast link puts it right again.
        let report = sent(&mut told(), "slow:1,fast:10:20ms", &slow_first, Span::from_millis(1));
        assert_eq!(report.reordered, 0);
        assert_eq!(report.links[0].wait_max, Span::from_millis(9));
        assert_eq!((report.links[0].busy, report.end), (Span::from_millis(20), Time::from_millis(20)));
    }

    #[test]
    fn of_copies_the_first_to_arrive_counts() {
        let frames = frames(&[(1, 1250), (1, 100), (1, 1250)]);
        let report = sent(&mut Told::new(&[&[0, 1]]), "1:1,2:10:300ms", &frames, Span::ZERO);
        assert_eq!((report.reordered, report.forwarded, report.split, report.bursts), (0, 3, 0, 1));
        assert_eq!((report.links[0].packets, report.links[1].packets), (3, 3));
        let bits: Vec<u64> = report.assignments.unwrap().iter().map(|set| set.bits()).collect();
        assert_eq!(bits, [3, 3, 3]);
    }

    #[test]
    fn the_selector_sees_what_waits_and_its_timeouts_come_when_they_are_due() {
        let frames = frames(&[(1, 1250); 4]);
        let mut told = Told { due: Some(Time::from_millis(3)), ..Told::new(&[&[0]]) };
        sent(&mut told, "a:1,b:1", &frames, Span::from_millis(8));
        assert_eq!(told.backlogs, [[0, 0], [1250, 0], [1250, 0], [1250, 0]]);
        assert_eq!(told.timeouts, [3, 13, 23].map(Time::from_millis));
    }

    #[test]
    fn a_timeout_that_is_always_due_does_not_keep_the_next_packet_waiting() {
        let frames = frames(&[(1, 60); 2]);
        let mut told = Told { due: Some(Time::ZERO), ..Told::new(&[&[0]]) };
        sent(&mut told, "1", &frames, Span::from_secs(3_000_000));
        assert_eq!(told.timeouts.len(), 1 + CATCH_UP + 1);
    }

    proptest! {
        /// Against lists of arrivals that are sorted and looked through from the first to the last.
        #[test]
        fn reordering_is_what_a_receiver_would_count(
            packets in proptest::collection::vec((0u8..4, 60usize..1500, 0u64..5), 1..60),
            rates in proptest::collection::vec((1u64..50, 0u64..20), 1..5),
            interval in 0u64..3,
        ) {
            let list: Vec<String> = rates.iter().enumerate().map(|(n, (r, d))| format!("l{n}:{r}:{d}ms")).collect();
            let traffic: Vec<(u8, usize)> = packets.iter().map(|&(flow, length, _)| (flow, length)).collect();
            let links = rates.len() as u64;
            // One in five is not forwarded.
            let turns: Vec<Option<usize>> =
                packets.iter().map(|&(_, _, turn)| (turn < 4).then_some((turn % links) as usize)).collect();
            let sets = turns.iter().map(|turn| turn.map_or(LinkSet::EMPTY, |n| LinkSet::only(ChannelId(n as u8))));
            let mut told = Told { turns: sets.collect(), ..Told::default() };
            let report = sent(&mut told, &list.join(","), &frames(&traffic), Span::from_millis(interval));

            let mut free = vec![0; rates.len()];
            let mut arrived = Vec::new();
            for (n, (&turn, &(flow, length))) in turns.iter().zip(&traffic).enumerate() {
                let Some(link) = turn else { continue };
                let (rate, delay) = rates[link];
                let took = (length as u64 * 8000).div_ceil(rate);
                free[link] = free[link].max(n as u64 * interval * 1_000_000) + took;
                arrived.push((free[link] + delay * 1_000_000, n, flow));
            }
            arrived.sort_unstable();
            let mut highest = [None; 4];
            let mut reordered = 0;
            for &(_, n, flow) in &arrived {
                let highest = &mut highest[usize::from(flow)];
                reordered += u64::from(*highest > Some(n));
                *highest = (*highest).max(Some(n));
            }
            prop_assert_eq!(report.reordered, reordered);
            prop_assert_eq!(report.forwarded, arrived.len() as u64);
            prop_assert_eq!(report.forwarded + report.not_forwarded, packets.len() as u64);
        }
    }
}
