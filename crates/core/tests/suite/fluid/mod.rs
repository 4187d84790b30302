//! Generalised processor sharing, packet by packet, slow and exact; and a link of constant rate that a discipline serves.

use fairspan_core::buffer::Limit;
use fairspan_core::queue::{Config, DisciplineConfig, Opaque, Queue};
use fairspan_core::units::{FlowNumber, Rate, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) flow: u32,
    pub(crate) size: u32,
}

pub(crate) const fn arrival(at: u64, flow: u32, size: u32) -> Arrival {
    Arrival { at, flow, size }
}

/// What a byte takes on the link, in nanoseconds: 8 Mbit/s.
pub(crate) const NANOS: u64 = 1000;
pub(crate) const RATE: Rate = Rate::from_mbit(8);

pub(crate) fn queue(discipline: DisciplineConfig, weights: &[u32]) -> Queue<Opaque<usize>> {
    let mut config = Config::default();
    (config.discipline, config.limit) = (discipline, Limit::Packets(100_000));
    let mut queue = Queue::new(&config, 1).unwrap();
    for (flow, weight) in weights.iter().enumerate() {
        queue.set_weight(FlowNumber(flow as u32), *weight);
    }
    queue
}

/// When each packet has gone, on a link of [`RATE`].
pub(crate) fn departures(discipline: DisciplineConfig, weights: &[u32], arrivals: &[Arrival]) -> Vec<u64> {
    let mut queue = queue(discipline, weights);
    let mut gone = vec![0; arrivals.len()];
    let (mut now, mut next) = (0, 0);
    loop {
        while let Some(a) = arrivals.get(next).filter(|a| a.at <= now) {
            let packet = Opaque { packet: next, size: a.size };
            let _ = queue.enqueue(Time::from_nanos(a.at), FlowNumber(a.flow), packet);
            next += 1;
        }
        let first = queue.peek().map(|entry| entry.packet.packet);
        match queue.dequeue(Time::from_nanos(now)) {
            Some(entry) => {
                assert_eq!(first, Some(entry.packet.packet), "what was to be next is next");
                now += u64::from(entry.size) * NANOS;
                gone[entry.packet.packet] = now;
            }
            None if next == arrivals.len() => return gone,
            None => now = arrivals[next].at,
        }
    }
}

/// Generalised processor sharing, packet by packet: when each has gone, and the virtual time when each came.
pub(crate) fn fluid(weights: &[u32], arrivals: &[Arrival]) -> (Vec<f64>, Vec<f64>) {
    let mut flows: BTreeMap<u32, VecDeque<(usize, f64)>> = BTreeMap::new();
    let (mut gone, mut came) = (vec![0.0; arrivals.len()], vec![0.0; arrivals.len()]);
    let (mut now, mut virtual_time, mut next) = (0.0f64, 0.0f64, 0);
    let weight = |flow: u32| f64::from(weights[flow as usize]);
    loop {
        let sum: f64 = flows.keys().map(|flow| weight(*flow)).sum();
        // Bytes of virtual time until a head is through.
        let until = |(flow, queue): (&u32, &VecDeque<(usize, f64)>)| queue[0].1 / weight(*flow);
        let through = flows.iter().map(until).min_by(f64::total_cmp);
        let end = through.map(|bytes| now + bytes * sum * NANOS as f64);
        match (end, arrivals.get(next)) {
            (None, None) => return (gone, came),
            (end, Some(a)) if end.is_none_or(|end| a.at as f64 <= end) => {
                serve(&mut flows, (a.at as f64 - now) / NANOS as f64, sum, weight);
                if sum > 0.0 {
                    virtual_time += (a.at as f64 - now) / NANOS as f64 / sum;
                }
                now = a.at as f64;
                came[next] = virtual_time;
                flows.entry(a.flow).or_default().push_back((next, f64::from(a.size)));
                next += 1;
            }
            (Some(end), _) => {
                serve(&mut flows, (end - now) / NANOS as f64, sum, weight);
                virtual_time += (end - now) / NANOS as f64 / sum;
                now = end;
                for queue in flows.values_mut() {
                    while let Some((packet, _)) = queue.front().filter(|(_, left)| *left < 1e-6) {
                        gone[*packet] = now;
                        queue.pop_front();
                    }
                }
                flows.retain(|_, queue| !queue.is_empty());
            }
            (None, Some(_)) => unreachable!("an arrival comes before no end"),
        }
    }
}

/// Takes `bytes` out of the heads by weight; no head has less.
fn serve(flows: &mut BTreeMap<u32, VecDeque<(usize, f64)>>, bytes: f64, sum: f64, weight: impl Fn(u32) -> f64) {
    for (flow, queue) in flows.iter_mut() {
        queue[0].1 -= bytes * weight(*flow) / sum;
    }
}

pub(crate) fn any_arrivals() -> impl Strategy<Value = (Vec<u32>, Vec<Arrival>)> {
    let weights = proptest::collection::vec(prop_oneof![Just(1u32), 1..20u32], 2..6);
    weights.prop_flat_map(|weights| {
        let gap = prop_oneof![3 => Just(0u64), 3 => 0..1_500_000u64, 1 => 0..8_000_000u64];
        let size = prop_oneof![Just(1500u32), Just(40), 1..1500u32];
        let arrivals = proptest::collection::vec((gap, 0..weights.len() as u32, size), 1..150);
        (Just(weights), arrivals).prop_map(|(weights, list)| {
            let mut at = 0;
            let each = list.into_iter().map(|(gap, flow, size)| {
                at += gap;
                arrival(at, flow, size)
            });
            let all = each.collect();
            (weights, all)
        })
    })
}
