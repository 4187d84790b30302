//! Disciplines of two levels: worked examples, a slow model under every policy, shares of groups and of flows over any
//! interval, and what goes before what.

use fairspan_core::buffer::{Limit, PolicyConfig};
use fairspan_core::options::Family;
use fairspan_core::queue::{Admit, CLASSES, Config, DisciplineConfig, End, Parcel, Queue, Weights};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, FlowNumber, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A packet of a host and a class. The host is that of the source; the destination is another for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    number: usize,
    size: u32,
    host: u8,
    class: u8,
}

impl Parcel for Packet {
    fn size(&self) -> u32 {
        self.size
    }

    fn host(&self, end: End) -> u128 {
        // Hosts differ in the upper half of the address alone, or in the lower.
        match end {
            End::Source if self.host.is_multiple_of(2) => u128::from(self.host) << 64,
            End::Source => u128::from(self.host),
            End::Destination => 1000 + self.number as u128,
        }
    }

    fn class(&self) -> u8 {
        self.class
    }
}

fn queue(discipline: DisciplineConfig, buffer: PolicyConfig, limit: Limit) -> Queue<Packet> {
    let mut config = Config::default();
    (config.discipline, config.buffer, config.limit) = (discipline, buffer, limit);
    Queue::new(&config, 1).unwrap()
}

fn open(discipline: &str) -> Queue<Packet> {
    queue(discipline.parse().unwrap(), PolicyConfig::DropTail, Limit::Packets(100_000))
}

fn put(queue: &mut Queue<Packet>, flow: u32, packet: Packet) {
    assert_eq!(queue.enqueue(Time::ZERO, FlowNumber(flow), packet), Admit::Queued);
}

/// Takes all out: flows, in order.
fn order(queue: &mut Queue<Packet>) -> Vec<u32> {
    std::iter::from_fn(|| {
        let first = queue.peek().map(|entry| entry.packet);
        let entry = queue.dequeue(Time::ZERO);
        assert_eq!(first, entry.map(|entry| entry.packet), "what was to be next is next");
        entry.map(|entry| entry.flow.0)
    })
    .collect()
}

#[test]
fn a_host_with_three_flows_gets_no_more_than_one_with_one() {
    let mut queue = open("hosts:quantum=500");
    // Host 0 has flows 0, 1, 2; host 1 has flow 3. By hand: a turn is one packet of 500, flows of host 0 take theirs in turn.
    for number in 0..3 {
        for (flow, host) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
            put(&mut queue, flow, Packet { number, size: 500, host, class: 0 });
        }
    }
    assert_eq!(order(&mut queue), [0, 3, 1, 3, 2, 3, 0, 1, 2, 0, 1, 2]);
    // DRR gives each flow a turn, and so host 0 three.
    let mut queue = open("drr:quantum=500");
    for number in 0..3 {
        for (flow, host) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
            put(&mut queue, flow, Packet { number, size: 500, host, class: 0 });
        }
    }
    assert_eq!(order(&mut queue)[..8], [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn hosts_are_those_of_the_end_that_is_asked_for() {
    // Two hosts by source, and one destination.
    let mut queue = open("hosts:by=source,quantum=250");
    for (flow, host) in [(0, 1), (1, 1), (2, 3), (2, 3)] {
        put(&mut queue, flow, Packet { number: 0, size: 250, host, class: 0 });
    }
    assert_eq!(order(&mut queue), [0, 2, 1, 2]);
    let mut queue = open("hosts:by=destination,quantum=250");
    for (flow, host) in [(0, 1), (1, 1), (2, 3), (2, 3)] {
        put(&mut queue, flow, Packet { number: 0, size: 250, host, class: 0 });
    }
    assert_eq!(order(&mut queue), [0, 1, 2, 2], "one destination: flows in turn");
}

#[test]
fn classes_share_by_weights_and_a_higher_priority_goes_before_all() {
    let fill = |text: &str| {
        let mut queue = open(text);
        for number in 0..4 {
            for (flow, class) in [(0, 0), (1, 5), (2, 5)] {
                put(&mut queue, flow, Packet { number, size: 500, host: 0, class });
            }
        }
        order(&mut queue)
    };
    // Class 5 has two turns for one of class 0.
    assert_eq!(fill("classes:weights=1-1-1-1-1-2-1-1,quantum=500"), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
    assert_eq!(fill("classes:quantum=500"), [0, 1, 0, 2, 0, 1, 0, 2, 1, 2, 1, 2]);
    assert_eq!(fill("priority:quantum=500"), [1, 2, 1, 2, 1, 2, 1, 2, 0, 0, 0, 0]);
}

/// Two levels of deficit round robin as they are written on paper: lists that are searched.
struct Model {
    discipline: DisciplineConfig,
    waiting: Vec<(u32, Packet)>,
    groups: VecDeque<Group>,
    visiting: bool,
}

struct Group {
    number: u8,
    deficit: i64,
    flows: VecDeque<(u32, i64)>,
    visiting: bool,
}

impl Model {
    fn head(&self, flow: u32) -> Packet {
        self.waiting.iter().find(|(of, _)| *of == flow).unwrap().1
    }

    fn group(&self, packet: &Packet) -> u8 {
        if let DisciplineConfig::Hosts { .. } = self.discipline { packet.host } else { packet.class }
    }

    fn enqueue(&mut self, flow: u32, packet: Packet) {
        let is_new = !self.waiting.iter().any(|(of, _)| *of == flow);
        self.waiting.push((flow, packet));
        if !is_new {
            return;
        }
        let number = self.group(&packet);
        if !self.groups.iter().any(|group| group.number == number) {
            self.groups.push_back(Group { number, deficit: 0, flows: VecDeque::new(), visiting: false });
        }
        self.groups.iter_mut().find(|group| group.number == number).unwrap().flows.push_back((flow, 0));
    }

    fn remove(&mut self, number: usize) -> Packet {
        let at = self.waiting.iter().position(|(_, packet)| packet.number == number).unwrap();
        let (flow, packet) = self.waiting.remove(at);
        if self.waiting.iter().any(|(of, _)| *of == flow) {
            return packet;
        }
        for group in &mut self.groups {
            if group.flows.front().is_some_and(|(of, _)| *of == flow) {
                group.visiting = false;
            }
            group.flows.retain(|(of, _)| *of != flow);
        }
        if self.groups.front().is_some_and(|group| group.flows.is_empty()) {
            self.visiting = false;
        }
        self.groups.retain(|group| !group.flows.is_empty());
        packet
    }

    /// The flow that the group at `at` sends of next.
    fn select(&mut self, at: usize, quantum: i64) -> u32 {
        loop {
            let flow = self.groups[at].flows[0].0;
            let size = i64::from(self.head(flow).size);
            let group = &mut self.groups[at];
            if !std::mem::replace(&mut group.visiting, true) {
                group.flows[0].1 += quantum;
            }
            if size <= group.flows[0].1 {
                return flow;
            }
            group.flows.rotate_left(1);
            group.visiting = false;
        }
    }

    fn dequeue(&mut self) -> Option<Packet> {
        if self.groups.is_empty() {
            return None;
        }
        let (quantum, weights, is_strict) = match self.discipline {
            DisciplineConfig::Hosts { quantum, .. } => (quantum, Weights::EQUAL, false),
            DisciplineConfig::Classes { weights, quantum } => (quantum, weights, false),
            DisciplineConfig::Priority { quantum } => (quantum, Weights::EQUAL, true),
            _ => unreachable!("of two levels"),
        };
        let quantum = quantum.as_u64() as i64;
        if is_strict {
            let highest = self.groups.iter().map(|group| group.number).max().unwrap();
            let at = self.groups.iter().position(|group| group.number == highest).unwrap();
            let flow = self.select(at, quantum);
            let packet = self.head(flow);
            self.groups[at].flows[0].1 -= i64::from(packet.size);
            return Some(self.remove(packet.number));
        }
        loop {
            let flow = self.select(0, quantum);
            let packet = self.head(flow);
            let size = i64::from(packet.size);
            let group = &mut self.groups[0];
            if !std::mem::replace(&mut self.visiting, true) {
                let weight = if group.number < CLASSES as u8 { weights.of(group.number.into()) } else { 1 };
                group.deficit += quantum * i64::from(weight);
            }
            if size <= group.deficit {
                group.deficit -= size;
                group.flows[0].1 -= size;
                return Some(self.remove(packet.number));
            }
            self.groups.rotate_left(1);
            self.visiting = false;
        }
    }
}

fn any_levels() -> impl Strategy<Value = DisciplineConfig> {
    let weights = proptest::array::uniform8(1u16..9).prop_map(|weights| Weights::new(weights).unwrap());
    prop_oneof![
        (1u64..2000).prop_map(|n| DisciplineConfig::Hosts { by: End::Source, quantum: Bytes::new(n) }),
        (weights, 1u64..2000).prop_map(|(weights, n)| DisciplineConfig::Classes { weights, quantum: Bytes::new(n) }),
        (1u64..2000).prop_map(|n| DisciplineConfig::Priority { quantum: Bytes::new(n) }),
    ]
}

fn any_policy() -> impl Strategy<Value = PolicyConfig> {
    proptest::sample::select(PolicyConfig::MEMBERS.iter().map(|member| (member.plain)()).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_of_two_levels_does_what_a_slow_model_does_under_every_policy(
        discipline in any_levels(), policy in any_policy(), most in 2u32..20, seed: u64, flows in 1u64..12,
    ) {
        let mut rng = Rng::new(seed);
        let mut queue = queue(discipline, policy, Limit::Packets(most));
        let mut model = Model { discipline, waiting: vec![], groups: VecDeque::new(), visiting: false };
        for number in 0..400 {
            let now = Time::from_millis(number as u64);
            if rng.below(100) < 55 {
                let flow = rng.below(flows) as u32;
                // Three hosts and three classes; a flow may change both, which counts once it is empty.
                let (host, class) = (((flow + (rng.below(8) == 0) as u32) % 3) as u8, (flow % 3 * 3) as u8);
                let packet = Packet { number, size: 1 + rng.below(1500) as u32, host, class };
                if queue.enqueue(now, FlowNumber(flow), packet) == Admit::Queued {
                    model.enqueue(flow, packet);
                }
                while let Some(dropped) = queue.poll_dropped() {
                    model.remove(dropped.packet.number);
                }
            } else {
                // CoDel and PIE are asked of what goes: it is not for the order what they drop.
                let next = queue.peek().map(|entry| entry.packet);
                let got = queue.take(now).map(|entry| entry.packet);
                prop_assert_eq!(next, got, "what was to be next is next");
                prop_assert_eq!(got, model.dequeue());
            }
            prop_assert_eq!(queue.packets(), model.waiting.len());
            prop_assert_eq!(queue.active_flows(), model.groups.iter().map(|group| group.flows.len()).sum::<usize>());
        }
    }

    #[test]
    fn groups_and_flows_of_a_group_differ_by_at_most_the_bound_over_any_interval(
        groups in proptest::collection::vec(
            (proptest::collection::vec((proptest::collection::vec(1u32..=1500, 1..4), 1u32..5), 1..4), 1u16..9), 2..5
        ),
        by_class: bool,
    ) {
        let mut weights = [1; CLASSES];
        for (class, (_, weight)) in groups.iter().enumerate() {
            weights[class] = if by_class { *weight } else { 1 };
        }
        let quantum = Bytes::new(1500);
        let discipline = if by_class {
            DisciplineConfig::Classes { weights: Weights::new(weights).unwrap(), quantum }
        } else {
            DisciplineConfig::Hosts { by: End::Source, quantum }
        };
        // Quantum + 2 Max, as of DRR: over the weights.
        let bound = 3.0 * 1500.0 + 1e-6;
        let (of_groups, of_flows) = worst_differences(discipline, &groups, &weights);
        prop_assert!(of_groups <= bound, "groups: {of_groups}");
        prop_assert!(of_flows <= bound, "flows: {of_flows}");
    }

    #[test]
    fn nothing_goes_while_a_higher_priority_waits(
        steps in proptest::collection::vec((0u32..12, 0u8..8, 1u32..1500, any::<bool>()), 1..300),
    ) {
        let mut queue = open("priority");
        let mut waiting: Vec<(usize, u8)> = vec![];
        let mut class_of = std::collections::BTreeMap::new();
        for (number, (flow, class, size, comes)) in steps.into_iter().enumerate() {
            if comes {
                // A flow has one class, as long as it waits.
                let class = *class_of.entry(flow).or_insert(class);
                put(&mut queue, flow, Packet { number, size, host: 0, class });
                waiting.push((number, class));
            } else if let Some(entry) = queue.dequeue(Time::ZERO) {
                let highest = waiting.iter().map(|(_, class)| *class).max();
                prop_assert_eq!(Some(entry.packet.class), highest);
                waiting.retain(|(number, _)| *number != entry.packet.number);
            }
        }
    }
}

/// The flows of a group, each with its sizes and its weight; and the group's weight.
type Flows = (Vec<(Vec<u32>, u32)>, u16);

/// The most that what two groups, and two flows of one group, were served over their weights differs over any interval in which all are backlogged.
fn worst_differences(discipline: DisciplineConfig, groups: &[Flows], weights: &[u16]) -> (f64, f64) {
    let mut queue = queue(discipline, PolicyConfig::DropTail, Limit::Packets(100_000));
    let flows: Vec<(usize, &Vec<u32>, u32)> = groups
        .iter()
        .enumerate()
        .flat_map(|(group, (flows, _))| flows.iter().map(move |(sizes, weight)| (group, sizes, *weight)))
        .collect();
    for (flow, (_, _, weight)) in flows.iter().enumerate() {
        queue.set_weight(FlowNumber(flow as u32), *weight);
    }
    let mut next = vec![0; flows.len()];
    let mut feed = |queue: &mut Queue<Packet>, flow: usize| {
        let (group, sizes, _) = flows[flow];
        let size = sizes[next[flow] % sizes.len()];
        next[flow] += 1;
        put(queue, flow as u32, Packet { number: flow, size, host: group as u8, class: group as u8 });
    };
    (0..flows.len()).chain(0..flows.len()).for_each(|flow| feed(&mut queue, flow));
    let mut of_group = Extremes::new(groups.len());
    let mut of_flow = Extremes::new(flows.len());
    for _ in 0..1500 {
        let entry = queue.dequeue(Time::ZERO).unwrap();
        let flow = entry.packet.number;
        let (group, _, weight) = flows[flow];
        feed(&mut queue, flow);
        of_group.serve(group, f64::from(entry.size) / f64::from(weights[group]));
        of_flow.serve(flow, f64::from(entry.size) / f64::from(weight));
    }
    (of_group.worst(|_, _| true), of_flow.worst(|a, b| flows[a].0 == flows[b].0))
}

/// What each was served, and the least and the greatest difference of each pair so far.
struct Extremes {
    served: Vec<f64>,
    pairs: Vec<(f64, f64)>,
}

impl Extremes {
    fn new(count: usize) -> Extremes {
        Extremes { served: vec![0.0; count], pairs: vec![(0.0, 0.0); count * count] }
    }

    fn serve(&mut self, who: usize, amount: f64) {
        self.served[who] += amount;
        let count = self.served.len();
        for (at, (low, high)) in self.pairs.iter_mut().enumerate() {
            let difference = self.served[at / count] - self.served[at % count];
            (*low, *high) = (low.min(difference), high.max(difference));
        }
    }

    fn worst(&self, counts: impl Fn(usize, usize) -> bool) -> f64 {
        let count = self.served.len();
        let pairs = self.pairs.iter().enumerate().filter(|(at, _)| counts(at / count, at % count));
        pairs.map(|(_, (low, high))| high - low).fold(0.0, f64::max)
    }
}

#[test]
fn a_million_hosts_leave_nothing_behind_and_places_are_used_again() {
    let mut queue = open("hosts");
    for number in 0..1_000_000u32 {
        let host = (number % 251) as u8;
        put(&mut queue, number, Packet { number: number as usize, size: 100, host, class: 0 });
        if number >= 7 {
            assert!(queue.dequeue(Time::ZERO).is_some());
        }
    }
    assert_eq!(queue.active_flows(), 7);
    assert_eq!(order(&mut queue).len(), 7);
    assert_eq!((queue.active_flows(), queue.packets(), queue.bytes()), (0, 0, 0));
}

#[test]
fn a_call_of_one_host_waits_for_one_turn_of_another_host_with_a_hundred_downloads() {
    let mut queue = open("hosts");
    for number in 0..100 {
        for _ in 0..10 {
            put(&mut queue, number, Packet { number: 0, size: 1500, host: 1, class: 0 });
        }
    }
    // The download has begun its turns; then the call's packet comes.
    for _ in 0..37 {
        let _ = queue.dequeue(Time::ZERO);
    }
    put(&mut queue, 1000, Packet { number: 1, size: 200, host: 2, class: 0 });
    let before = order(&mut queue).iter().position(|flow| *flow == 1000).unwrap();
    assert!(before <= 1, "{before} packets went before it");
}

/// Host 0 with 200 flows and host 1 with one, each of which sends more than the link carries, with packets of 1000 bytes. Returns the bytes
/// that each has waiting, as a mean over arrivals, and whether host 1 lost a packet while it had less waiting than host 0.
fn many_beside_one(discipline: &str, policy: PolicyConfig, limit: Limit) -> ([f64; 2], bool) {
    let mut queue = queue(discipline.parse().unwrap(), policy, limit);
    let (mut waiting, mut sums, mut wronged) = ([0u64; 2], [0.0; 2], false);
    for number in 0..40_000usize {
        let now = Time::from_millis(number as u64);
        let host = (number % 2) as u8;
        let flow = if host == 0 { (number / 2 % 200) as u32 } else { 1000 };
        let packet = Packet { number, size: 1000, host, class: 5 * host };
        if queue.enqueue(now, FlowNumber(flow), packet) == Admit::Queued {
            waiting[usize::from(host)] += 1000;
        }
        while let Some(dropped) = queue.poll_dropped() {
            wronged |= dropped.packet.host == 1 && waiting[1] < waiting[0];
            waiting[usize::from(dropped.packet.host)] -= 1000;
        }
        if number % 4 == 3 {
            let gone = queue.dequeue(now).expect("there is one").packet;
            waiting[usize::from(gone.host)] -= 1000;
        }
        if number >= 20_000 {
            (0..2).for_each(|host| sums[host] += waiting[host] as f64 / 20_000.0);
        }
    }
    assert_eq!(queue.bytes(), waiting[0] + waiting[1]);
    (sums, wronged)
}

#[test]
fn a_host_with_many_short_flows_holds_no_more_of_a_buffer_than_one_with_a_single_long_one() {
    let all = [
        "longest-queue",
        "longest-queue-front",
        "random-longest",
        "largest-finish",
        "pfd",
        "pfd:quasi=on",
        "pfd-adaptive",
    ];
    for limit in [Limit::Packets(100), Limit::Bytes(100_000)] {
        for policy in all {
            let exact = policy != "pfd:quasi=on";
            for discipline in ["hosts", "classes"] {
                let ([many, one], wronged) = many_beside_one(discipline, policy.parse().unwrap(), limit);
                // They have the same but for the packet that came last; by a guess they do so on the whole.
                let near = if exact { 1000.0 } else { 0.1 * (many + one) };
                assert!((many - one).abs() <= near, "{discipline}, {policy}, {limit:?}: {many} and {one}");
                assert!(!exact || !wronged, "{discipline}, {policy}, {limit:?}: the smaller one paid");
            }
            // Where flows come first, the long one is the longest as long as it has more than a packet or two.
            let ([many, one], _) = many_beside_one("drr", policy.parse().unwrap(), limit);
            assert!(one < 0.2 * many, "drr, {policy}, {limit:?}: {many} and {one}");
        }
    }
    // A class of three times the weight may have three times as much.
    let ([many, one], _) =
        many_beside_one("classes:weights=1-1-1-1-1-3-1-1", PolicyConfig::LongestQueue, Limit::Packets(100));
    assert!((one / many - 3.0).abs() < 0.1, "{many} and {one}");
}

proptest! {
    #[test]
    fn who_pays_is_the_longest_flow_of_the_host_that_has_the_most(most in 2u32..20, seed: u64, flows in 1u64..16, bytes: bool) {
        let mut rng = Rng::new(seed);
        let limit = if bytes { Limit::Bytes(u64::from(most) * 700) } else { Limit::Packets(most) };
        let mut queue = queue("hosts".parse().unwrap(), PolicyConfig::LongestQueueFront, limit);
        // Flow, host and what it counts of each packet that waits, in the order of arrival.
        let mut waiting: Vec<(u32, Packet)> = vec![];
        let count = |packet: &Packet| if bytes { u64::from(packet.size) } else { 1 };
        let rooms: Vec<u32> = (0..flows).map(|_| 1 << rng.below(3)).collect();
        for (flow, room) in rooms.iter().enumerate() {
            queue.set_room(FlowNumber(flow as u32), *room);
        }
        for number in 0..300 {
            if rng.below(100) < 65 {
                let flow = rng.below(flows) as u32;
                let packet = Packet { number, size: 1 + rng.below(1500) as u32, host: (flow % 3) as u8, class: 0 };
                if queue.enqueue(Time::ZERO, FlowNumber(flow), packet) == Admit::Queued {
                    waiting.push((flow, packet));
                }
                while let Some(dropped) = queue.poll_dropped() {
                    let length = |is_of: &dyn Fn(u32, &Packet) -> bool| -> u64 {
                        let of = |flow: u32| waiting.iter().filter(move |(of, packet)| *of == flow && is_of(*of, packet));
                        (0..flows as u32).map(|flow| {
                            let length: u64 = of(flow).map(|(_, packet)| count(packet)).sum();
                            (length << 20) / u64::from(rooms[flow as usize])
                        }).sum()
                    };
                    let of_host = |host: u8| length(&|_, packet| packet.host == host);
                    let of_flow = |flow: u32| length(&|of, _| of == flow);
                    let (host, flow) = (dropped.packet.host, dropped.flow.0);
                    prop_assert_eq!(of_host(host), (0..3).map(of_host).max().unwrap());
                    let of_its_host = (0..flows as u32).filter(|flow| (flow % 3) as u8 == host);
                    prop_assert_eq!(of_flow(flow), of_its_host.map(of_flow).max().unwrap());
                    let place = waiting.iter().position(|(of, _)| *of == flow).unwrap();
                    prop_assert_eq!(waiting.remove(place).1, dropped.packet);
                }
            } else if let Some(gone) = queue.dequeue(Time::ZERO) {
                waiting.retain(|(_, packet)| packet.number != gone.packet.number);
            }
            prop_assert_eq!(queue.packets(), waiting.len());
        }
    }
}
