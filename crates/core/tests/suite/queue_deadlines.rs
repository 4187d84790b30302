//! Delay-EDD: an order by hand, its deadlines beside flows that send what they like, and what a flow that breaks its word costs.

use crate::fluid::{Arrival, NANOS, RATE, arrival};
use fairspan_core::buffer::Limit;
use fairspan_core::queue::{Config, DisciplineConfig, Opaque, Queue};
use fairspan_core::rng::Rng;
use fairspan_core::units::{FlowNumber, Rate, Span, Time};
use proptest::prelude::*;

fn queue(rate: Rate, delays: &[u64]) -> Queue<Opaque<usize>> {
    let mut config = Config::default();
    config.discipline = DisciplineConfig::DelayEdd { rate, delay: Span::from_millis(20) };
    config.limit = Limit::Packets(100_000);
    let mut queue = Queue::new(&config, 1).unwrap();
    for (flow, delay) in delays.iter().enumerate() {
        queue.set_delay(FlowNumber(flow as u32), Span::from_micros(*delay));
    }
    queue
}

/// When each packet has gone, over a link of [`RATE`]; arrivals in order.
fn departures(queue: &mut Queue<Opaque<usize>>, arrivals: &[Arrival]) -> Vec<u64> {
    let mut gone = vec![0; arrivals.len()];
    let (mut now, mut next) = (0, 0);
    loop {
        while let Some(a) = arrivals.get(next).filter(|a| a.at <= now) {
            let packet = Opaque { packet: next, size: a.size };
            let _ = queue.enqueue(Time::from_nanos(a.at), FlowNumber(a.flow), packet);
            next += 1;
        }
        match queue.dequeue(Time::from_nanos(now)) {
            Some(entry) => {
                now += u64::from(entry.size) * NANOS;
                gone[entry.packet.packet] = now;
            }
            None if next == arrivals.len() => return gone,
            None => now = arrivals[next].at,
        }
    }
}

#[test]
fn the_earliest_deadline_goes_first_and_who_sends_too_much_has_later_ones() {
    // 1 Mbit/s a flow: a packet of 1000 bytes is expected each 8 ms. Delays of 9.9 ms, 3 ms and the default of 20 ms.
    let arrivals: Vec<Arrival> = [0, 0, 1, 1, 2].map(|flow| arrival(0, flow, 1000)).to_vec();
    let gone = departures(&mut queue(Rate::from_mbit(1), &[9_900, 3_000]), &arrivals);
    // Deadlines: 9.9, 17.9; 3, 11; 20 ms. A packet takes 1 ms.
    assert_eq!(gone.iter().map(|t| t / 1_000_000).collect::<Vec<_>>(), [2, 4, 1, 3, 5]);
    // A weight of 8 makes a packet be expected each 1 ms: 9.9, 10.9.
    let mut weighted = queue(Rate::from_mbit(1), &[9_900, 3_000]);
    weighted.set_weight(FlowNumber(0), 8);
    let gone = departures(&mut weighted, &arrivals);
    assert_eq!(gone.iter().map(|t| t / 1_000_000).collect::<Vec<_>>(), [2, 3, 1, 4, 5]);
}

#[test]
fn a_delay_of_its_own_holds_for_a_flow_that_comes_later_and_for_one_that_is_there() {
    // At this rate packets are expected at once, and deadlines differ by the delays alone. All others have 20 ms.
    let fast = Rate::from_mbit(100_000);
    let arrivals: Vec<Arrival> = [0, 1].map(|flow| arrival(0, flow, 1000)).to_vec();
    for (delay, first) in [(15_000, 1), (25_000, 2)] {
        assert_eq!(departures(&mut queue(fast, &[delay]), &arrivals)[0], first * 1_000_000, "{delay}");
    }
    // What is at the head keeps its deadline; the second packet of flow 0 has the new one.
    for (delay, order) in [(15_000, [0, 0, 1]), (25_000, [0, 1, 0])] {
        let mut queue = queue(fast, &[]);
        let put = |queue: &mut Queue<Opaque<usize>>, flow: usize| {
            let _ = queue.enqueue(Time::ZERO, FlowNumber(flow as u32), Opaque { packet: flow, size: 1000 });
        };
        put(&mut queue, 0);
        queue.set_delay(FlowNumber(0), Span::from_micros(delay));
        [1, 0].iter().for_each(|flow| put(&mut queue, *flow));
        let went: Vec<usize> = std::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|e| e.packet.packet).collect();
        assert_eq!(went, order, "{delay}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_goes_by_its_deadline_where_the_flows_were_to_be_admitted(
        more in proptest::collection::vec(0u64..40_000, 2..7), seed: u64, greed in 0u64..100,
    ) {
        let flows = more.len() as u64;
        let mut rng = Rng::new(seed);
        // The rates sum up to the link's. What one largest packet of each and one more take on the link, and some more.
        let rate = Rate::from_bits_per_sec(RATE.as_bits_per_sec() / flows);
        let least = (flows + 1) * 1500 * NANOS / 1000;
        let delays: Vec<u64> = more.iter().map(|more| least + more).collect();
        let mut arrivals: Vec<Arrival> = vec![];
        for flow in 0..flows {
            let mut at = 0;
            for _ in 0..60 {
                // Some send all at once, some less than they may.
                at += if rng.below(100) < greed { 0 } else { rng.below(2 * flows * 1500) * NANOS };
                arrivals.push(arrival(at, flow as u32, 1 + rng.below(1500) as u32));
            }
        }
        arrivals.sort_by_key(|a| a.at);
        let gone = departures(&mut queue(rate, &delays), &arrivals);
        let mut expected = vec![0; flows as usize];
        for (a, gone) in arrivals.iter().zip(gone) {
            let start = &mut expected[a.flow as usize];
            *start = a.at.max(*start);
            let deadline = *start + delays[a.flow as usize] * 1000;
            prop_assert!(gone <= deadline, "{a:?} has gone at {gone}, its deadline was {deadline}");
            *start += u64::from(a.size) * 8_000_000_000 / rate.as_bits_per_sec();
        }
    }
}
