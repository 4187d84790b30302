//! Queue disciplines: worked examples, slow models of each, fairness bounds, buffer policies, hostile input.

use fairspan_core::queue::{
    Admit, AnyDiscipline, Buffer, Config, ConfigError, Discipline, FlowId, Limit, QueueDiscipline, Reason, Sfq,
    Stochastic,
};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const NOW: Time = Time::ZERO;

fn queue<P>(discipline: Discipline, buffer: Buffer, limit: Limit) -> AnyDiscipline<P> {
    let mut config = Config::default();
    (config.discipline, config.buffer, config.limit) = (discipline, buffer, limit);
    AnyDiscipline::new(&config, 1).unwrap()
}

fn drr(quantum: u64) -> Discipline {
    Discipline::Drr { quantum: Bytes::new(quantum) }
}

/// Puts packets (flow, size) in, and takes them all out as (flow, size).
fn order(discipline: Discipline, packets: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut queue = queue(discipline, Buffer::DropTail, Limit::Packets(100));
    for &(flow, size) in packets {
        assert_eq!(queue.enqueue(NOW, FlowId(flow), size, size), Admit::Queued);
    }
    std::iter::from_fn(|| queue.dequeue(NOW)).map(|(flow, size)| (flow.0, size)).collect()
}

const FOUR_FLOWS: [(u32, u32); 11] =
    [(1, 200), (1, 750), (1, 20), (2, 500), (2, 500), (3, 600), (3, 100), (3, 400), (4, 50), (4, 700), (4, 180)];

#[test]
fn drr_follows_the_rounds_of_its_paper_with_a_quantum_of_500() {
    // Counters left after the visits: 300, 0, 500, 450; then 0 (idle), 0 (idle), 300, 0 (idle); then 0.
    let first = [(1, 200), (2, 500), (4, 50)];
    let second = [(1, 750), (1, 20), (2, 500), (3, 600), (3, 100), (4, 700), (4, 180)];
    assert_eq!(order(drr(500), &FOUR_FLOWS), [&first[..], &second[..], &[(3, 400)]].concat());
}

#[test]
fn round_robin_takes_one_packet_of_each_whatever_its_length() {
    let flows: Vec<u32> = order(Discipline::RoundRobin, &FOUR_FLOWS).iter().map(|p| p.0).collect();
    assert_eq!(flows, [1, 2, 3, 4, 1, 2, 3, 4, 1, 3, 4]);
}

#[test]
fn sfq_serves_by_start_tags_and_a_newcomer_starts_at_the_virtual_time() {
    // Start tags: 200-byte packets of flow 1 at 0, 200, 400; flow 2's at 0 and 300.
    let packets = [(1, 200), (1, 200), (1, 200), (2, 300), (2, 300)];
    assert_eq!(order(Discipline::Sfq, &packets), [(1, 200), (2, 300), (1, 200), (2, 300), (1, 200)]);

    let mut queue = queue(Discipline::Sfq, Buffer::DropTail, Limit::Packets(9));
    for (flow, size) in packets {
        let _ = queue.enqueue(NOW, FlowId(flow), size, size);
    }
    let three: Vec<u32> = std::iter::from_fn(|| queue.dequeue(NOW)).take(3).map(|p| p.0.0).collect();
    assert_eq!(three, [1, 2, 1]);
    // Virtual time is 200: flow 3 goes before flow 2's 300 and flow 1's 400, and only once.
    let _ = queue.enqueue(NOW, FlowId(3), 150, 150);
    let _ = queue.enqueue(NOW, FlowId(3), 150, 150);
    let rest: Vec<u32> = std::iter::from_fn(|| queue.dequeue(NOW)).map(|p| p.0.0).collect();
    assert_eq!(rest, [3, 2, 3, 1]);
}

#[test]
fn sfq_remembers_a_flow_that_fell_idle_until_virtual_time_has_passed_it() {
    let mut queue = Sfq::new(Limit::Packets(100), &Buffer::DropTail);
    let _ = queue.enqueue(NOW, FlowId(1), (), 1000);
    let _ = queue.enqueue(NOW, FlowId(2), (), 100);
    let _ = queue.enqueue(NOW, FlowId(2), (), 100);
    assert_eq!(queue.dequeue(NOW).unwrap().0, FlowId(1));
    // Flow 1 has been served up to 1000; coming back at once it waits behind flow 2's 0 and 100.
    let _ = queue.enqueue(NOW, FlowId(1), (), 1000);
    let flows: Vec<u32> = std::iter::from_fn(|| queue.dequeue(NOW)).map(|p| p.0.0).collect();
    assert_eq!(flows, [2, 2, 1]);
    // After the busy period nothing of the past counts.
    let _ = queue.enqueue(NOW, FlowId(1), (), 1000);
    let _ = queue.enqueue(NOW, FlowId(2), (), 100);
    assert_eq!(queue.dequeue(NOW).unwrap().0, FlowId(1));
}

#[test]
fn stochastic_buckets_are_spread_and_keyed() {
    let limit = Limit::Packets(1);
    let one = Stochastic::<()>::new(16, Bytes::new(1500), limit, &Buffer::DropTail, 1);
    let two = Stochastic::<()>::new(16, Bytes::new(1500), limit, &Buffer::DropTail, 2);
    let mut counts = [0u32; 16];
    let mut moved = 0;
    for n in 0..16_000 {
        counts[one.bucket(FlowId(n)) as usize] += 1;
        moved += u32::from(one.bucket(FlowId(n)) != two.bucket(FlowId(n)));
    }
    // 1000 expected, standard deviation 30.6: six deviations either way.
    assert!(counts.iter().all(|n| (816..1184).contains(n)), "{counts:?}");
    assert!(moved > 14_000, "another key is another table: {moved} of 16000 moved");
}

#[test]
fn flows_that_share_a_bucket_share_its_turn_and_others_do_not() {
    let mut queue = Stochastic::new(8, Bytes::new(1000), Limit::Packets(10_000), &Buffer::DropTail, 5);
    let flows: Vec<FlowId> = (0..12).map(FlowId).collect();
    for _ in 0..400 {
        for flow in &flows {
            let _ = queue.enqueue(NOW, *flow, (), 1000);
        }
    }
    let mut served = [0u32; 12];
    let buckets: Vec<u32> = flows.iter().map(|f| queue.bucket(*f)).collect();
    let used = (0..8).filter(|b| buckets.contains(b)).count() as u32;
    for _ in 0..used * 200 {
        served[queue.dequeue(NOW).unwrap().0.0 as usize] += 1;
    }
    for bucket in 0..8 {
        let sum: u32 = (0..12).filter(|n| buckets[*n] == bucket).map(|n| served[n]).sum();
        assert!(sum == 0 || sum == 200, "bucket {bucket}: {sum} of 200");
    }
}

#[test]
fn settings_that_cannot_work_are_named() {
    let check = |discipline, limit| {
        let mut config = Config::default();
        (config.discipline, config.limit) = (discipline, limit);
        AnyDiscipline::<()>::new(&config, 1).err().map(|ConfigError::Range { setting, .. }| setting)
    };
    assert_eq!(check(Discipline::Fifo, Limit::Packets(0)), Some("limit (packets)"));
    assert_eq!(check(Discipline::Fifo, Limit::Bytes(0)), Some("limit (bytes)"));
    assert_eq!(check(drr(0), Limit::Packets(1)), Some("quantum"));
    let none = Discipline::Stochastic { buckets: 0, quantum: Bytes::new(1) };
    assert_eq!(check(none, Limit::Packets(1)), Some("buckets"));
    assert_eq!(check(Discipline::Sfq, Limit::Packets(1)), None);
}

#[test]
fn drop_front_keeps_the_newest_and_longest_queue_drop_spares_the_small_flow() {
    for discipline in [Discipline::Fifo, drr(1500), Discipline::Sfq, Discipline::RoundRobin] {
        let mut queue = queue(discipline.clone(), Buffer::DropFront, Limit::Packets(3));
        let mut dropped = vec![];
        for n in 0..10u32 {
            assert_eq!(queue.enqueue(NOW, FlowId(n % 4), n, 100), Admit::Queued);
            while let Some(d) = queue.poll_dropped(NOW) {
                assert_eq!(d.reason, Reason::Front);
                dropped.push(d.packet);
            }
        }
        assert_eq!(dropped, [0, 1, 2, 3, 4, 5, 6], "{discipline:?}");
    }
    for discipline in [drr(1500), Discipline::Sfq] {
        let mut queue = queue(discipline, Buffer::LongestQueue, Limit::Packets(10));
        let _ = queue.enqueue(NOW, FlowId(0), 0, 100);
        for n in 1..50u32 {
            let _ = queue.enqueue(NOW, FlowId(1), n, 100);
            while let Some(d) = queue.poll_dropped(NOW) {
                assert_eq!((d.flow, d.packet, d.reason), (FlowId(1), n, Reason::Longest));
            }
        }
        assert_eq!(queue.active_flows(), 2);
    }
}

#[test]
fn a_packet_larger_than_the_buffer_is_refused_by_every_policy() {
    for buffer in [Buffer::DropTail, Buffer::DropFront, Buffer::LongestQueue] {
        for discipline in [Discipline::Fifo, drr(1500), Discipline::Sfq] {
            let mut queue = queue(discipline, buffer.clone(), Limit::Bytes(1000));
            assert_eq!(queue.enqueue(NOW, FlowId(0), 'a', 600), Admit::Queued);
            assert_eq!(queue.enqueue(NOW, FlowId(0), 'b', 1001), Admit::Refused('b', Reason::TooLarge));
            assert!(queue.poll_dropped(NOW).is_none());
            assert_eq!((queue.packets(), queue.bytes()), (1, 600));
        }
    }
}

/// The bytes that each of `flows` gets while all are backlogged: the most that any two differ over any interval.
fn worst_difference(discipline: Discipline, sizes: &[Vec<u32>], packets: usize) -> u64 {
    let mut queue = queue(discipline, Buffer::DropTail, Limit::Packets(1000));
    let mut next = vec![0usize; sizes.len()];
    let mut feed = |queue: &mut AnyDiscipline<u32>, flow: usize| {
        let size = sizes[flow][next[flow] % sizes[flow].len()];
        next[flow] += 1;
        assert_eq!(queue.enqueue(NOW, FlowId(flow as u32), size, size), Admit::Queued);
    };
    for flow in 0..sizes.len() {
        feed(&mut queue, flow);
        feed(&mut queue, flow);
    }
    let n = sizes.len();
    let mut served = vec![0i64; n];
    // Over all prefixes: the least and the greatest difference of each pair; an interval's is the difference of two.
    let mut extremes = vec![(0i64, 0i64); n * n];
    for _ in 0..packets {
        let (flow, size) = queue.dequeue(NOW).unwrap();
        served[flow.0 as usize] += i64::from(size);
        feed(&mut queue, flow.0 as usize);
        for a in 0..n {
            for b in 0..n {
                let difference = served[a] - served[b];
                let (low, high) = &mut extremes[a * n + b];
                (*low, *high) = ((*low).min(difference), (*high).max(difference));
            }
        }
    }
    extremes.iter().map(|(low, high)| (high - low) as u64).max().unwrap()
}

/// A discipline as it is written on paper: lists that are searched.
struct Model {
    discipline: Discipline,
    waiting: Vec<(u32, u64, u32)>, // flow, number, size, in order of arrival
    active: VecDeque<(u32, u64)>,  // DRR: flow, deficit
    visiting: bool,
    finish: BTreeMap<u32, u64>,        // SFQ: of the last packet of each flow, for ever
    starts: BTreeMap<u64, (u64, u64)>, // SFQ: of each packet: start and when it became head
    virtual_time: u64,
    clock: u64,
}

impl Model {
    fn new(discipline: Discipline) -> Model {
        Model {
            discipline,
            waiting: vec![],
            active: VecDeque::new(),
            visiting: false,
            finish: BTreeMap::new(),
            starts: BTreeMap::new(),
            virtual_time: 0,
            clock: 0,
        }
    }

    fn head(&self, flow: u32) -> Option<(u32, u64, u32)> {
        self.waiting.iter().find(|p| p.0 == flow).copied()
    }

    fn enqueue(&mut self, flow: u32, number: u64, size: u32) {
        let first = self.head(flow).is_none();
        self.waiting.push((flow, number, size));
        if first {
            self.active.push_back((flow, 0));
            let start = self.virtual_time.max(self.finish.get(&flow).copied().unwrap_or(0));
            self.becomes_head(number, start);
        }
    }

    fn becomes_head(&mut self, number: u64, start: u64) {
        self.clock += 1;
        self.starts.insert(number, (start, self.clock));
    }

    fn remove(&mut self, number: u64, served: bool) -> (u32, u64, u32) {
        let at = self.waiting.iter().position(|p| p.1 == number).unwrap();
        let was_head = self.head(self.waiting[at].0).unwrap().1 == number;
        let packet = self.waiting.remove(at);
        let start = self.starts.remove(&number);
        let after = start.map_or(0, |s| s.0) + if served { u64::from(packet.2) } else { 0 };
        match self.head(packet.0) {
            None => {
                if self.active.front().is_some_and(|f| f.0 == packet.0) {
                    self.visiting = false;
                }
                self.active.retain(|f| f.0 != packet.0);
                self.finish.insert(packet.0, after);
            }
            Some(next) if was_head && served => self.becomes_head(next.1, after),
            Some(next) if was_head => {
                // It takes the dropped one's place.
                self.starts.insert(next.1, start.unwrap());
            }
            Some(_) => {}
        }
        packet
    }

    fn dequeue(&mut self) -> Option<(u32, u64, u32)> {
        let Some(oldest) = self.waiting.first().map(|p| p.1) else {
            self.virtual_time = self.finish.values().copied().max().unwrap_or(0).max(self.virtual_time);
            return None;
        };
        let number = match self.discipline {
            Discipline::Sfq => {
                let heads = self.active.iter().map(|f| self.head(f.0).unwrap().1);
                let number = heads.min_by_key(|number| self.starts[number]).unwrap();
                self.virtual_time = self.starts[&number].0;
                number
            }
            Discipline::Drr { quantum } => loop {
                let (flow, deficit) = self.active.front_mut().unwrap();
                if !self.visiting {
                    *deficit += quantum.as_u64();
                    self.visiting = true;
                }
                let size = u64::from(self.waiting.iter().find(|p| p.0 == *flow).unwrap().2);
                if size <= *deficit {
                    *deficit -= size;
                    let flow = *flow;
                    break self.head(flow).unwrap().1;
                }
                self.active.rotate_left(1);
                self.visiting = false;
            },
            Discipline::RoundRobin => {
                // A turn ends when the next one is looked for.
                if std::mem::replace(&mut self.visiting, true) {
                    self.active.rotate_left(1);
                }
                self.head(self.active[0].0).unwrap().1
            }
            _ => oldest,
        };
        Some(self.remove(number, true))
    }

    fn length(&self, flow: u32, limit: Limit) -> u64 {
        let of = self.waiting.iter().filter(|p| p.0 == flow);
        match limit {
            Limit::Packets(_) => of.count() as u64,
            Limit::Bytes(_) => of.map(|p| u64::from(p.2)).sum(),
        }
    }

    fn over(&self, limit: Limit) -> bool {
        match limit {
            Limit::Packets(n) => self.waiting.len() > n as usize,
            Limit::Bytes(n) => self.waiting.iter().map(|p| u64::from(p.2)).sum::<u64>() > n,
        }
    }
}

fn any_discipline() -> impl Strategy<Value = Discipline> {
    prop_oneof![Just(Discipline::Fifo), Just(Discipline::RoundRobin), (1u64..2000).prop_map(drr), Just(Discipline::Sfq)]
}

fn any_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![(1u32..20).prop_map(Limit::Packets), (1u64..9000).prop_map(Limit::Bytes)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_does_what_a_slow_model_does_under_each_policy(
        discipline in any_discipline(), policy in 0usize..3, limit in any_limit(), seed: u64, flows in 1u64..8,
    ) {
        let buffer = [Buffer::DropTail, Buffer::DropFront, Buffer::LongestQueue][policy].clone();
        let mut rng = Rng::new(seed);
        let mut queue = queue(discipline.clone(), buffer.clone(), limit);
        let mut model = Model::new(discipline.clone());
        for number in 0..400u64 {
            if rng.below(100) < 55 {
                let (flow, size) = (rng.below(flows) as u32, 1 + rng.below(1500) as u32);
                model.enqueue(flow, number, size);
                match queue.enqueue(NOW, FlowId(flow), number, size) {
                    Admit::Refused(packet, reason) => {
                        prop_assert_eq!(packet, number);
                        model.remove(number, false);
                        let alone = match limit {
                            Limit::Bytes(most) => u64::from(size) > most,
                            Limit::Packets(_) => false,
                        };
                        prop_assert_eq!(reason, if alone { Reason::TooLarge } else { Reason::Full });
                        let full = match limit {
                            Limit::Packets(most) => model.waiting.len() as u64 + 1 > u64::from(most),
                            Limit::Bytes(most) => queue.bytes() + u64::from(size) > most,
                        };
                        prop_assert!(alone || full);
                    }
                    Admit::Queued => {
                        while let Some(dropped) = queue.poll_dropped(NOW) {
                            prop_assert!(model.over(limit));
                            let mut of_flow = model.waiting.iter().filter(|p| p.0 == dropped.flow.0);
                            if dropped.reason == Reason::Front {
                                prop_assert_eq!(model.waiting[0].1, dropped.packet);
                            } else {
                                prop_assert_eq!(of_flow.next_back().unwrap().1, dropped.packet);
                                let longest = (0..8).map(|f| model.length(f, limit)).max().unwrap();
                                prop_assert_eq!(model.length(dropped.flow.0, limit), longest);
                            }
                            model.remove(dropped.packet, false);
                        }
                        prop_assert!(!model.over(limit));
                    }
                }
            } else {
                let expected = model.dequeue();
                let got = queue.dequeue(NOW).map(|(flow, packet)| (flow.0, packet));
                prop_assert_eq!(got, expected.map(|(flow, number, _)| (flow, number)));
            }
            prop_assert_eq!(queue.packets(), model.waiting.len());
            prop_assert_eq!(queue.bytes(), model.waiting.iter().map(|p| u64::from(p.2)).sum::<u64>());
            if discipline != Discipline::Fifo {
                prop_assert_eq!(queue.active_flows(), model.active.len());
            }
        }
    }

    #[test]
    fn drr_differs_by_at_most_three_largest_packets_and_sfq_by_two(
        sizes in proptest::collection::vec(proptest::collection::vec(1u32..=1500, 1..6), 2..6)
    ) {
        let most = u64::from(sizes.iter().flatten().copied().max().unwrap());
        let drr = worst_difference(drr(most), &sizes, 600);
        prop_assert!(drr <= 3 * most, "DRR: {drr} with packets of {most}");
        let sfq = worst_difference(Discipline::Sfq, &sizes, 600);
        prop_assert!(sfq <= 2 * most, "SFQ: {sfq} with packets of {most}");
    }
}

#[test]
fn the_fairness_bounds_are_not_idle_ones() {
    // Round robin by packets has no such bound, and DRR comes near its own.
    let sizes = [vec![1500], vec![40]];
    assert!(worst_difference(Discipline::RoundRobin, &sizes, 600) > 400_000);
    let tight = [vec![1500, 1], vec![1500]];
    assert!(worst_difference(drr(1500), &tight, 600) >= 2 * 1500 - 100);
}

#[test]
fn longest_queue_drop_with_a_greedy_and_many_modest_flows_costs_only_the_greedy_one() {
    let mut queue = queue(drr(1500), Buffer::LongestQueue, Limit::Bytes(150_000));
    let mut rng = Rng::new(3);
    let (mut dropped, mut served) = ([0u32; 11], [0u32; 11]);
    for _ in 0..20_000 {
        // Flow 10 sends two for each that leaves; ten others half the line between them.
        for _ in 0..2 {
            let _ = queue.enqueue(NOW, FlowId(10), (), 1500);
        }
        if rng.below(2) == 0 {
            let _ = queue.enqueue(NOW, FlowId(rng.below(10) as u32), (), 1500);
        }
        while let Some(d) = queue.poll_dropped(NOW) {
            dropped[d.flow.0 as usize] += 1;
        }
        served[queue.dequeue(NOW).unwrap().0.0 as usize] += 1;
    }
    assert!(dropped[..10].iter().all(|n| *n == 0), "{dropped:?}");
    let modest: u32 = served[..10].iter().sum();
    assert!((9_700..10_300).contains(&modest), "half of 20000, four standard deviations of 71: {modest}");
}

#[test]
fn a_million_flows_of_one_packet_each_leave_nothing_behind() {
    let mut queue = queue(Discipline::Sfq, Buffer::DropTail, Limit::Packets(10));
    let _ = queue.enqueue(NOW, FlowId(u32::MAX), 0, 1500);
    for n in 0..1_000_000u32 {
        let _ = queue.enqueue(NOW, FlowId(n), n, 40);
        assert!(queue.dequeue(NOW).is_some());
        assert!(queue.packets() <= 2);
    }
}
