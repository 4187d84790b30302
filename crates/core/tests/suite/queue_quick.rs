//! Quick fair queueing: an order by hand, its bounds beside the fluid, and what it does that weighted fair queueing does not.

use crate::fluid::{Arrival, NANOS, any_arrivals, arrival, departures, fluid, queue};
use fairspan_core::queue::{DisciplineConfig, Opaque};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, FlowNumber, Time};
use proptest::prelude::*;

const LARGEST: u32 = 1500;

fn qfq(largest: u32) -> DisciplineConfig {
    DisciplineConfig::Qfq { largest: Bytes::new(largest.into()) }
}

/// phi_k sigma_i in bytes: the power of two that holds the largest packet over the weight, times the weight, in 256ths.
fn rounded(largest: u32, weight: u32) -> f64 {
    let over = (u64::from(largest) * 256).div_ceil(weight.into()).next_power_of_two();
    over as f64 / 256.0 * f64::from(weight)
}

/// The bandwidth worst-case fair index in bytes: 3 phi sigma + 2 L phi / (sum of phi).
fn index(largest: u32, weight: u32, sum: u32) -> f64 {
    3.0 * rounded(largest, weight) + 2.0 * f64::from(largest) * f64::from(weight) / f64::from(sum)
}

#[test]
fn flows_of_unlike_weights_take_turns_as_rounded_timestamps_say() {
    // Weights 10 and ten times 1, packets of 1000 bytes: sigma of the first is 2^15 (25,600 a packet), of the others 2^18.
    // V goes on by 12,800 a packet. By hand: the first goes while its start, rounded down to 2^15, is not beyond V.
    let weights: Vec<u32> = std::iter::once(10).chain(std::iter::repeat_n(1, 10)).collect();
    let mut queue = queue(qfq(1000), &weights);
    for flow in std::iter::repeat_n(0, 20).chain((1..11).flat_map(|flow| [flow; 2])) {
        let _ = queue.enqueue(Time::ZERO, FlowNumber(flow), Opaque { packet: 0, size: 1000 });
    }
    let order: Vec<u32> = (0..20).map_while(|_| queue.dequeue(Time::ZERO)).map(|entry| entry.flow.0).collect();
    assert_eq!(order, [0, 0, 1, 0, 2, 3, 0, 4, 0, 0, 5, 0, 6, 0, 7, 8, 0, 9, 0, 0]);
    // Weighted fair queueing, without rounding and without a look at who has begun, serves the first ten at a stretch.
    let arrivals: Vec<Arrival> = std::iter::repeat_n(0, 20).chain(1..11).map(|flow| arrival(0, flow, 1000)).collect();
    let gone = departures(DisciplineConfig::Wfq { rate: None }, &weights, &arrivals);
    let stretch = gone[..20].iter().filter(|gone| **gone <= 10_000 * NANOS).count();
    assert!(stretch >= 9, "{stretch}");
}

/// What every flow is served until each moment at which a packet has gone: (time in bytes, flow, bytes).
fn services(weights: &[u32], arrivals: &[Arrival]) -> Vec<(u64, u32, u32)> {
    let gone = departures(qfq(LARGEST), weights, arrivals);
    let mut list: Vec<_> = arrivals.iter().zip(gone).map(|(a, gone)| (gone / NANOS, a.flow, a.size)).collect();
    list.sort_unstable();
    list
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_backlogged_flow_is_never_behind_its_share_by_more_than_the_worst_case_fair_index(
        (weights, arrivals) in any_arrivals()
    ) {
        let gone = departures(qfq(LARGEST), &weights, &arrivals);
        let sum: u32 = weights.iter().sum();
        for flow in 0..weights.len() as u32 {
            let own: Vec<(u64, u64, u32)> = arrivals
                .iter()
                .zip(&gone)
                .filter(|(a, _)| a.flow == flow)
                .map(|(a, gone)| (a.at, *gone, a.size))
                .collect();
            let weight = weights[flow as usize];
            let (share, most) = (f64::from(weight) / f64::from(sum), index(LARGEST, weight, sum));
            // Its backlogged times: from a packet that finds none of it until the last has gone that came meanwhile.
            let mut first = 0;
            while first < own.len() {
                let mut last = first;
                while last + 1 < own.len() && own[last + 1].0 < own[last].1 {
                    last += 1;
                }
                // From any packet's start of service (or the first's arrival) to just before any later one's end.
                for from in first..=last {
                    let begin = if from == first { own[first].0 } else { own[from - 1].1 };
                    let mut served = 0.0;
                    for (_, end, size) in &own[from..=last] {
                        let work = end.saturating_sub(begin) as f64 / NANOS as f64;
                        prop_assert!(work * share - served <= most + 1.0, "flow {flow}: {work} {served} {most}");
                        served += f64::from(*size);
                    }
                }
                first = last + 1;
            }
        }
    }

    #[test]
    fn a_packet_leaves_soon_after_it_has_left_the_fluid_while_all_flows_have_packets(
        weights in proptest::collection::vec(1u32..40, 2..7), seed: u64,
    ) {
        let mut rng = Rng::new(seed);
        let sum: u32 = weights.iter().sum();
        // Each has what it is served in the same time, so that none is empty before the others are nearly so.
        let mut arrivals = vec![];
        for (flow, weight) in weights.iter().enumerate() {
            let mut bytes = 0;
            while bytes < 6000 * weight {
                let size = 1 + rng.below(LARGEST.into()) as u32;
                bytes += size;
                arrivals.push(arrival(0, flow as u32, size));
            }
        }
        let (of_fluid, _) = fluid(&weights, &arrivals);
        let gone = departures(qfq(LARGEST), &weights, &arrivals);
        // The index over the flow's share is a time; the bound holds up to when the fluid first has a flow less.
        let busy = u64::from(sum) * 6000 * NANOS;
        for ((a, fluid), gone) in arrivals.iter().zip(of_fluid).zip(gone) {
            let weight = weights[a.flow as usize];
            let bound = index(LARGEST, weight, sum) * f64::from(sum) / f64::from(weight) * NANOS as f64;
            if gone <= busy {
                prop_assert!(gone as f64 <= fluid + bound, "{a:?} has gone at {gone}, in the fluid at {fluid}");
            }
        }
    }

    #[test]
    fn a_flow_is_never_far_ahead_of_its_share_whatever_its_weight(weight in 1u32..1024, others in 1u32..40) {
        // Weighted fair queueing may serve a heavy flow all that it is to have while the others are served once.
        let weights: Vec<u32> = std::iter::once(weight).chain(std::iter::repeat_n(1, others as usize)).collect();
        let mut arrivals: Vec<Arrival> = (0..3000).map(|_| arrival(0, 0, 1000)).collect();
        arrivals.extend((1..=others).flat_map(|flow| std::iter::repeat_n(arrival(0, flow, 1000), 40)));
        let share = f64::from(weight) / f64::from(weight + others);
        let mut served = 0.0;
        // As long as all have packets.
        let until = (36_000.0 * f64::from(weight + others)).min(2_900_000.0 / share);
        for (at, flow, size) in services(&weights, &arrivals).into_iter().take_while(|(at, ..)| (*at as f64) < until) {
            if flow == 0 {
                served += f64::from(size);
                // Its start is at most sigma beyond V when it goes, and V is that of the share.
                let ahead = served - share * at as f64;
                prop_assert!(ahead <= rounded(LARGEST, weight) + f64::from(size) + 1.0, "{ahead}");
            }
        }
    }

    #[test]
    fn packets_larger_than_expected_and_weights_that_change_cost_nobody_a_packet(
        steps in proptest::collection::vec((0u32..8, 1u32..200_000, 1u32..2000, 0u8..10), 1..400), largest in 1u32..3000,
    ) {
        let mut queue = queue(qfq(largest), &[]);
        let mut waiting: Vec<Vec<usize>> = vec![vec![]; 8];
        for (number, (flow, size, weight, what)) in steps.into_iter().enumerate() {
            match what {
                0..5 => {
                    let _ = queue.enqueue(Time::ZERO, FlowNumber(flow), Opaque { packet: number, size });
                    waiting[flow as usize].push(number);
                }
                5 => queue.set_weight(FlowNumber(flow), weight),
                _ => {
                    let first = queue.peek().map(|entry| entry.packet.packet);
                    let entry = queue.dequeue(Time::ZERO);
                    prop_assert_eq!(first, entry.map(|entry| entry.packet.packet), "what was to be next is next");
                    if let Some(entry) = entry {
                        prop_assert_eq!(entry.packet.packet, waiting[entry.flow.0 as usize].remove(0));
                    }
                }
            }
            prop_assert_eq!(queue.packets(), waiting.iter().map(Vec::len).sum::<usize>());
            prop_assert_eq!(queue.active_flows(), waiting.iter().filter(|list| !list.is_empty()).count());
        }
    }
}
