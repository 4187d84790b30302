//! Servers: a queue and a link. First in, first out against the arithmetic of the schedule; every discipline with every
//! policy: nothing is lost untold, transmissions do not overlap, bounds hold; CoDel against the pseudo-code of its RFC.

use fairspan_core::buffer::{Limit, PolicyConfig, Reason};
use fairspan_core::link::{Capacity, DropReason, Profile, Schedule, Server, Verdict};
use fairspan_core::options::Family;
use fairspan_core::queue::{self, Config, DisciplineConfig, Opaque, Parcel};
use fairspan_core::rng::Rng;
use fairspan_core::units::{FlowNumber, Rate, Span, Time};
use proptest::prelude::*;

/// All policies, and one that acts soon.
fn any_policy() -> impl Strategy<Value = PolicyConfig> {
    let codel = "codel:target=1ms,interval=10ms".parse().unwrap();
    let all: Vec<_> = PolicyConfig::MEMBERS.iter().map(|member| (member.plain)()).chain([codel]).collect();
    proptest::sample::select(all)
}

/// All disciplines, and one whose flows share buckets.
fn any_discipline() -> impl Strategy<Value = DisciplineConfig> {
    let buckets = "stochastic:buckets=4".parse().unwrap();
    let all: Vec<_> = DisciplineConfig::MEMBERS.iter().map(|member| (member.plain)()).chain([buckets]).collect();
    proptest::sample::select(all)
}

/// A packet that can be marked, or not.
#[derive(Clone, Debug, PartialEq)]
struct Marked {
    number: usize,
    size: u32,
    capable: bool,
    marked: bool,
}

impl Parcel for Marked {
    fn size(&self) -> u32 {
        self.size
    }

    fn mark(&mut self) -> bool {
        self.marked |= self.capable;
        self.capable
    }
}

/// Serves all that ends by `until`; tells of each packet when it leaves, or that it was dropped.
fn advance<P: Parcel>(
    server: &mut Server<P>,
    until: Time,
    tell: &mut impl FnMut(P, Result<(Time, Time, Time), DropReason>),
) {
    while let Some(at) = server.next_ready().filter(|at| *at <= until) {
        serve(server, at, tell);
    }
}

fn serve<P: Parcel>(
    server: &mut Server<P>,
    at: Time,
    tell: &mut impl FnMut(P, Result<(Time, Time, Time), DropReason>),
) {
    let served = server.serve(at);
    while let Some((packet, reason)) = server.poll_dropped() {
        tell(packet, Err(reason));
    }
    if let Some(served) = served {
        tell(served.packet, served.passage.map(|passage| (passage.start, passage.end, passage.due)));
    }
}

fn arrive<P: Parcel>(
    server: &mut Server<P>,
    at: Time,
    flow: u32,
    packet: P,
    tell: &mut impl FnMut(P, Result<(Time, Time, Time), DropReason>),
) {
    advance(server, at, tell);
    if let Err((packet, reason)) = server.offer(at, FlowNumber(flow), packet) {
        tell(packet, Err(reason));
    }
    while let Some((packet, reason)) = server.poll_dropped() {
        tell(packet, Err(reason));
    }
    if server.is_idle() {
        serve(server, at, tell);
    }
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    proptest::collection::vec((prop_oneof![Just(0u64), 0..2_000_000u64], 1..3000u32, 0..5u32), 1..200)
}

proptest! {
    #[test]
    fn a_list_of_packets_gives_what_the_arithmetic_gives(
        arrivals in arrivals(), rate in 1_000_000u64..2_000_000_000, limit in 1u32..20, overhead in -14i32..40,
    ) {
        let capacity = Capacity::Constant(Rate::from_bits_per_sec(rate));
        let plain = Profile { capacity, queue: Limit::Packets(limit), overhead: Some(overhead), ..Profile::default() };
        // The longest of one queue is that queue, and its newest packet the one that arrives: drop-tail.
        let listed = Profile { buffer: PolicyConfig::LongestQueue, ..plain.clone() };
        let mut schedule = Schedule::new(plain, 1).unwrap();
        let mut server = Server::new(listed, 1, 1).unwrap();
        let mut got = vec![None; arrivals.len()];
        let mut tell = |packet: Opaque<usize>, fate: Result<(Time, Time, Time), DropReason>| got[packet.packet] = Some(fate);
        let mut expected = vec![];
        let mut now = Time::ZERO;
        for (number, (gap, length, flow)) in arrivals.into_iter().enumerate() {
            now += Span::from_nanos(gap);
            expected.push(schedule.offer(now, length as usize));
            let size = server.schedule().counted(length as usize) as u32;
            arrive(&mut server, now, flow, Opaque { packet: number, size }, &mut tell);
        }
        advance(&mut server, Time::MAX, &mut tell);
        for (fate, expected) in got.into_iter().zip(expected) {
            let fate = fate.expect("every packet has a fate");
            match expected {
                Verdict::Deliver(due) => prop_assert_eq!(fate.map(|times| times.2), Ok(due)),
                Verdict::Drop(reason) => prop_assert_eq!(fate.map(|_| ()), Err(reason)),
            }
        }
    }

    #[test]
    fn any_discipline_and_any_policy_lose_nothing_untold_and_hold_their_bounds(
        arrivals in arrivals(), discipline in any_discipline(), buffer in any_policy(), packets in 1u32..30, bytes: bool,
        seed: u64,
    ) {
        let queue = if bytes { Limit::Bytes(u64::from(packets) * 700) } else { Limit::Packets(packets) };
        let profile = Profile {
            capacity: Capacity::Constant(Rate::from_mbit(9)),
            queue,
            discipline,
            buffer,
            ..Profile::default()
        };
        if profile.queue_config().is_plain() {
            return Ok(());
        }
        let mut server = Server::new(profile, seed, seed).unwrap();
        let mut rng = Rng::new(seed);
        let mut fates: Vec<Option<bool>> = vec![None; arrivals.len()];
        let mut last = Time::ZERO;
        let mut wrong = None;
        let mut tell = |packet: Marked, fate: Result<(Time, Time, Time), DropReason>| {
            if fates[packet.number].replace(fate.is_ok()).is_some() {
                wrong = Some("a packet has two fates");
            }
            match fate {
                Ok((start, end, _)) => {
                    if start < last {
                        wrong = Some("transmissions overlap");
                    }
                    last = end;
                }
                Err(DropReason::Queue(Reason::Standing | Reason::Early | Reason::EarlyLongest)) if packet.capable => wrong = Some("dropped where a mark would do"),
                Err(_) => {}
            }
        };
        let mut now = Time::ZERO;
        let count = arrivals.len();
        for (number, (gap, size, flow)) in arrivals.into_iter().enumerate() {
            now += Span::from_nanos(gap);
            let packet = Marked { number, size, capable: rng.below(2) == 0, marked: false };
            arrive(&mut server, now, flow, packet, &mut tell);
            let (waiting, bytes) = server.waiting(now);
            match queue {
                Limit::Packets(most) => prop_assert!(waiting <= most as usize),
                Limit::Bytes(most) => prop_assert!(bytes <= most),
            }
        }
        advance(&mut server, Time::MAX, &mut tell);
        prop_assert_eq!(wrong, None);
        prop_assert_eq!(fates.iter().flatten().count(), count);
        prop_assert_eq!(server.waiting(now), (0, 0));
    }
}

/// RFC 8289, section 5, as it is printed, over one queue in which `backlog` bytes stay behind each packet.
#[derive(Default)]
struct PseudoCode {
    first_above_time: u64,
    drop_next: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl PseudoCode {
    const TARGET: u64 = 5_000_000;
    const INTERVAL: u64 = 100_000_000;

    fn ok_to_drop(&mut self, now: u64, wait: u64, behind: u64) -> bool {
        if wait < Self::TARGET || behind <= 3000 {
            self.first_above_time = 0;
            return false;
        }
        if self.first_above_time == 0 {
            self.first_above_time = now + Self::INTERVAL;
        }
        now >= self.first_above_time
    }

    fn control_law(&self, from: u64) -> u64 {
        // The root to ten binary places.
        from + (Self::INTERVAL << 10) / (self.count << 20).isqrt()
    }

    /// Whether this packet is marked or dropped; each hit is looked at by itself, as when packets are marked.
    fn hits(&mut self, now: u64, wait: u64, behind: u64) -> bool {
        if !self.ok_to_drop(now, wait, behind) {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            if now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.drop_next = self.control_law(self.drop_next);
            return true;
        }
        self.dropping = true;
        let delta = self.count - self.last_count;
        let recent = now.saturating_sub(self.drop_next) < 16 * Self::INTERVAL;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.last_count = self.count;
        true
    }
}

#[test]
fn codel_marks_the_packets_that_the_pseudo_code_of_its_rfc_marks() {
    let mut config = Config::default();
    config.buffer = "codel".parse().unwrap();
    let mut queue = queue::Queue::new(&config, 1).unwrap();
    let mut model = PseudoCode::default();
    let mut rng = Rng::new(7);
    let (mut now, mut marks, mut runs) = (0u64, 0, 0);
    let mut times = std::collections::VecDeque::new();
    // Loads that come and go, so that it begins to drop, ceases, and resumes.
    for step in 0..60_000u64 {
        let crowded = step / 3_000 % 3 != 2;
        for _ in 0..if rng.below(100) < if crowded { 52 } else { 30 } { 2 } else { 0 } {
            let number = times.len();
            let packet = Marked { number, size: 1000, capable: true, marked: false };
            if queue.enqueue(Time::from_nanos(now), FlowNumber(0), packet) == queue::Admit::Queued {
                times.push_back(now);
            }
        }
        now += 1_000_000;
        let Some(entry) = queue.dequeue(Time::from_nanos(now)) else { continue };
        let came = times.pop_front().unwrap();
        let expected = model.hits(now, now - came, queue.bytes());
        assert_eq!(entry.packet.marked, expected, "packet at step {step}, {} of the model", model.count);
        marks += u64::from(expected);
        runs += u64::from(expected && model.count == 1);
    }
    assert!(marks > 200 && runs > 3, "it begins and ceases: {marks} marks in {runs} runs");
    assert_eq!(queue.marked(), marks);
}

#[test]
fn codel_over_fair_queues_hits_the_flow_that_stands_and_spares_the_one_that_does_not() {
    let fair = DisciplineConfig::MEMBERS.iter().map(|member| (member.plain)());
    let of_flows =
        |discipline: &DisciplineConfig| !matches!(discipline, DisciplineConfig::Fifo | DisciplineConfig::Dual(_));
    for discipline in fair.filter(of_flows) {
        let mut config = Config::default();
        config.discipline = discipline;
        config.buffer = "codel".parse().unwrap();
        let mut queue = queue::Queue::new(&config, 1).unwrap();
        let (mut hit, mut sent) = ([0; 2], [0; 2]);
        for ms in 0..20_000u64 {
            let now = Time::from_millis(ms);
            // A line of one packet a millisecond: flow 0 sends one each, flow 1 one in ten.
            let flows = if ms % 10 == 0 { 0..2 } else { 0..1 };
            for flow in flows {
                let _ = queue.enqueue(now, FlowNumber(flow), Opaque { packet: (), size: 1500 });
            }
            if let Some(entry) = queue.dequeue(now) {
                sent[entry.flow.0 as usize] += 1;
            }
            while let Some(dropped) = queue.poll_dropped() {
                assert_eq!(dropped.reason, Reason::Standing);
                hit[dropped.flow.0 as usize] += 1;
            }
        }
        assert_eq!((hit[1], sent[1]), (0, 2000), "{discipline}");
        assert!(hit[0] > 500, "{discipline}: the standing queue is hit, {} times", hit[0]);
        assert!(queue.packets() < 300, "{discipline}: and held short, at {} packets", queue.packets());
    }
}
