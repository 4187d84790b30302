//! Flow random early drop: what must be dropped and what may not be, beside its pseudo-code over lists; and what it is for.

use fairspan_core::buffer::{Limit, Reason};
use fairspan_core::queue::{Admit, Config, Opaque, Parcel, Queue};
use fairspan_core::rng::Rng;
use fairspan_core::units::{FlowNumber, Span, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn queue<P: Parcel>(discipline: &str, buffer: &str, packets: u32) -> Queue<P> {
    let mut config = Config::default();
    (config.discipline, config.buffer) = (discipline.parse().unwrap(), buffer.parse().unwrap());
    config.limit = Limit::Packets(packets);
    Queue::new(&config, 3).unwrap()
}

const MILLISECOND: Span = Span::from_millis(1);

/// Lin and Morris's figure 4, but for its draws: what a packet may meet.
#[derive(Debug, PartialEq)]
enum Fate {
    Drops,
    Passes,
    Either,
}

/// Lengths in packets, the average in packets, a sample's weight.
struct Model {
    most: f64,
    least: f64,
    weight: f64,
    many: bool,
    average: f64,
    waiting: BTreeMap<u32, (u32, u32)>,
}

impl Model {
    fn sample(&mut self) {
        let length: u32 = self.waiting.values().map(|(length, _)| length).sum();
        self.average += self.weight * (f64::from(length) - self.average);
    }

    fn arrive(&mut self, flow: u32) -> Fate {
        self.sample();
        let total: u32 = self.waiting.values().map(|(length, _)| length).sum();
        if f64::from(total) + 1.0 > self.most {
            return Fate::Drops;
        }
        let active = self.waiting.len().max(1) as f64;
        let part = (self.average / active).max(1.0);
        let (length, strikes) = self.waiting.get(&flow).copied().unwrap_or_default();
        let (held, twice) = (f64::from(length), 2.0 * self.least);
        let is_full = self.average >= twice;
        let most = if is_full && self.many { 2.0 } else { self.least };
        if held >= most || (is_full && held > 2.0 * part) || (held >= part && strikes > 1) {
            if let Some((_, strikes)) = self.waiting.get_mut(&flow) {
                *strikes += 1;
            }
            return Fate::Drops;
        }
        match self.average {
            average if average >= twice => {
                if self.many {
                    Fate::Passes
                } else {
                    Fate::Drops
                }
            }
            average if average < self.least => Fate::Passes,
            _ if held < 2.0_f64.max(part) => Fate::Passes,
            _ => Fate::Either,
        }
    }

    fn came(&mut self, flow: u32) {
        self.waiting.entry(flow).or_default().0 += 1;
    }

    fn left(&mut self, flow: u32) {
        let length = &mut self.waiting.get_mut(&flow).unwrap().0;
        *length -= 1;
        if *length == 0 {
            self.waiting.remove(&flow);
        }
        self.sample();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_packet_is_dropped_and_passes_where_the_pseudo_code_says_so(
        seed: u64, many: bool, flows in 1u64..30, packets in 8u32..60, load in 45u64..70,
        discipline in proptest::sample::select(vec!["fifo", "drr", "sfq"]),
    ) {
        let switch = if many { "on" } else { "off" };
        let buffer = format!("fred:weight=0.05,probability=0.2,least=0.25,many={switch}");
        let mut queue = queue(discipline, &buffer, packets);
        let most = f64::from(packets);
        let mut model =
            Model { most, least: most / 4.0, weight: 0.05, many, average: 0.0, waiting: BTreeMap::new() };
        let mut rng = Rng::new(seed);
        // Never idle, so that the average depends on samples alone.
        for number in 0..800u32 {
            let now = Time::ZERO + MILLISECOND.times(number.into());
            if queue.packets() < 2 || rng.below(100) < load {
                // The first flow sends a third of all.
                let flow = rng.below(flows * 3 / 2) as u32 % flows as u32;
                let fate = model.arrive(flow);
                let queued = queue.enqueue(now, FlowNumber(flow), Opaque { packet: number, size: 1000 }) == Admit::Queued;
                prop_assert!(fate == Fate::Either || queued == (fate == Fate::Passes), "{number}: {fate:?} {queued}");
                if queued {
                    model.came(flow);
                }
            } else if let Some(entry) = queue.dequeue(now) {
                model.left(entry.flow.0);
            }
            prop_assert!(queue.poll_dropped().is_none());
        }
    }
}

#[test]
fn a_flow_that_never_slows_down_gets_little_more_than_its_share_of_one_queue_for_all_and_with_red_most() {
    // Over a link that sends one packet a millisecond, five flows offer 0.3 each, and one 2.
    let share = |buffer: &str| {
        let mut queue = queue("fifo", buffer, 100);
        let mut rng = Rng::new(9);
        let mut served = [0u32; 6];
        for n in 0..40_000u64 {
            let now = Time::ZERO + MILLISECOND.times(n);
            for flow in 0..6 {
                let thousandths = if flow == 5 { 2000 } else { 300 };
                for _ in 0..thousandths / 1000 + u64::from(rng.below(1000) < thousandths % 1000) {
                    match queue.enqueue(now, FlowNumber(flow), Opaque { packet: flow, size: 1000 }) {
                        Admit::Queued => {}
                        Admit::Refused(_, reason) => {
                            assert!([Reason::Early, Reason::Average, Reason::Full].contains(&reason))
                        }
                    }
                }
            }
            if let Some(entry) = queue.dequeue(now) {
                served[entry.flow.0 as usize] += 1;
            }
        }
        f64::from(served[5]) / f64::from(served.iter().sum::<u32>())
    };
    // A sixth would be fair; of what is offered it has 2 of 3.5.
    let (fred, red) = (share("fred"), share("red"));
    assert!(red > 0.5 && fred < 0.3, "{red} {fred}");
}

#[test]
fn beyond_the_upper_threshold_a_flow_may_have_two_packets_where_that_is_set_and_none_where_it_is_not() {
    for (switch, passed) in [("off", 0), ("on", 2)] {
        let mut queue = queue("fifo", &format!("fred:weight=1,least=0.1,many={switch}"), 100);
        // 25 flows with one packet: beyond twice a tenth of 100.
        for flow in 0..25 {
            let _ = queue.enqueue(Time::ZERO, FlowNumber(flow), Opaque { packet: 0, size: 1000 });
        }
        let before = queue.packets();
        assert!(before >= 20, "{before}");
        let put = |queue: &mut Queue<Opaque<u32>>| {
            queue.enqueue(Time::ZERO, FlowNumber(99), Opaque { packet: 0, size: 1000 }) == Admit::Queued
        };
        let queued = (0..5).filter(|_| put(&mut queue)).count();
        assert_eq!(queued, passed, "many={switch}");
    }
}

/// A packet that can be marked.
struct Capable;

impl Parcel for Capable {
    fn size(&self) -> u32 {
        1000
    }

    fn mark(&mut self) -> bool {
        true
    }
}

#[test]
fn what_would_be_dropped_at_random_is_marked_if_it_can_be() {
    let mut queue = queue("fifo", "fred:weight=1,probability=1,least=0.35", 100);
    // 30 and 10 of 100: between the thresholds; the first flow has more than its part of 20.
    for n in 0..40 {
        assert!(matches!(queue.enqueue(Time::ZERO, FlowNumber(n / 30), Capable), Admit::Queued));
    }
    assert_eq!(queue.marked(), 0);
    // The probability is a seventh or more: of 25 packets three at least.
    for _ in 0..25 {
        assert!(matches!(queue.enqueue(Time::ZERO, FlowNumber(0), Capable), Admit::Queued));
        assert!(queue.dequeue(Time::ZERO).is_some());
    }
    assert!((3..=20).contains(&queue.marked()), "{}", queue.marked());
}
