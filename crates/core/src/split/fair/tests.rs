//! Tests of the fair-queueing subsystem.

use super::*;
use crate::buffer::PolicyConfig;
use crate::queue::{DisciplineConfig, Opaque};
use proptest::prelude::*;
use std::collections::BTreeMap as Map;
use std::vec::Vec;

type Packet = Opaque<(u32, u32)>;

fn config(matching: Matching) -> Config {
    let discipline = DisciplineConfig::Drr { quantum: Bytes::new(1500) };
    Config { matching, discipline, buffer: PolicyConfig::LongestQueueFront, ..Config::default() }
}

fn packet(flow: u32, number: u32) -> Packet {
    Opaque { packet: (flow, number), size: 1500 }
}

/// A right-hand send buffer that drains at a rate.
#[derive(Default)]
struct Buffer {
    rate: u64,
    unsent: u64,
    sent: u64,
    owed: u64,
    /// Its packets in the subsystem.
    inside: usize,
}

/// Runs for `span`: each flow of `buffers` keeps `ahead` packets here, and what is served goes to its buffer.
fn run(
    fair: &mut Fair<Packet>,
    buffers: &mut Map<u32, Buffer>,
    now: &mut Time,
    span: Span,
    ahead: usize,
) -> Map<u32, u64> {
    const STEP: Span = Span::from_micros(500);
    let before: Map<u32, u64> = buffers.iter().map(|(flow, buffer)| (*flow, buffer.sent)).collect();
    let until = *now + span;
    while *now < until {
        *now += STEP;
        for (flow, buffer) in buffers.iter_mut() {
            while buffer.inside < ahead {
                fair.enqueue(*now, FlowNumber(*flow), 1460, packet(*flow, 0)).unwrap();
                buffer.inside += 1;
            }
            buffer.owed += buffer.rate * STEP.as_nanos();
            let bytes = (buffer.owed / 1_000_000_000).min(buffer.unsent);
            buffer.owed %= 1_000_000_000;
            buffer.unsent -= bytes;
            buffer.sent += bytes;
            fair.on_level(*now, FlowNumber(*flow), buffer.unsent, buffer.sent, Span::from_millis(200), false);
        }
        while let Some((flow, _)) = fair.serve(*now) {
            let buffer = buffers.get_mut(&flow.0).unwrap();
            buffer.inside -= 1;
            buffer.unsent += 1460;
            fair.on_level(*now, flow, buffer.unsent, buffer.sent, Span::from_millis(200), false);
        }
        while let Some((dropped, _)) = fair.poll_dropped() {
            buffers.get_mut(&dropped.packet.0).unwrap().inside -= 1;
        }
    }
    buffers.iter().map(|(flow, buffer)| (*flow, buffer.sent - before[flow])).collect()
}

fn matched(rates: &[u64]) -> (Fair<Packet>, Map<u32, Buffer>) {
    let mut fair = Fair::new(&config(Matching::Auto), 1).unwrap();
    let buffers = (1..).zip(rates).map(|(flow, rate)| (flow, Buffer { rate: *rate, ..Buffer::default() })).collect();
    for flow in 1..=rates.len() as u32 {
        fair.open(Time::ZERO, FlowNumber(flow));
    }
    (fair, buffers)
}

#[test]
fn connections_with_different_bottlenecks_are_each_matched_by_themselves() {
    let rates = [50_000, 400_000, 1_500_000, 4_000_000];
    let (mut fair, mut buffers) = matched(&rates);
    let mut now = Time::ZERO;
    run(&mut fair, &mut buffers, &mut now, Span::from_secs(5), 20);
    let drained = run(&mut fair, &mut buffers, &mut now, Span::from_secs(10), 20);
    for (flow, rate) in (1..).zip(rates) {
        // 10 s at its own rate, but for what the steps round away.
        assert!(drained[&flow] >= rate * 10 - rate / 10, "flow {flow}: {} B of {}", drained[&flow], rate * 10);
        let (unsent, target) = (buffers[&flow].unsent, fair.gate(FlowNumber(flow)).unwrap().target());
        assert!(unsent <= 2 * target + 1460, "flow {flow}: {unsent} B wait, {target} B should");
    }
}

#[test]
fn a_receiver_that_stops_holds_its_part_of_the_room_and_delays_nobody() {
    let (mut fair, mut buffers) = matched(&[0, 1_000_000, 1_000_000]);
    let mut now = Time::ZERO;
    run(&mut fair, &mut buffers, &mut now, Span::from_secs(5), 300);
    let drained = run(&mut fair, &mut buffers, &mut now, Span::from_secs(10), 300);
    assert!(drained[&2] >= 9_900_000 && drained[&3] >= 9_900_000, "{drained:?}");
    assert!(buffers[&1].unsent < 40 * 1460, "{} B", buffers[&1].unsent);
}

#[test]
fn a_fixed_rate_counts_every_packet_alike() {
    let mut fair = Fair::new(&config(Matching::Packets(500)), 1).unwrap();
    fair.open(Time::ZERO, FlowNumber(1));
    for number in 0..100 {
        let size = if number % 2 == 0 { 1500 } else { 40 };
        fair.enqueue(Time::ZERO, FlowNumber(number % 3), 0, Opaque { packet: (number % 3, number), size }).unwrap();
    }
    let mut served = Vec::new();
    let mut now = Time::ZERO;
    while let Some(at) = fair.poll_timeout() {
        now = now.max(at);
        let (flow, _) = fair.serve(now).unwrap();
        served.push((flow, now));
    }
    assert_eq!(served.len(), 100);
    assert_eq!(served[99].1, Time::from_millis(198), "one each 2 ms, the first at once");
}

#[test]
fn a_ceiling_is_shared_by_the_discipline_whatever_is_matched() {
    let mut settings = config(Matching::Auto);
    settings.ceiling = Some(Rate::from_mbit(8));
    let mut fair = Fair::new(&settings, 1).unwrap();
    fair.open(Time::ZERO, FlowNumber(1));
    // Flow 2 is not split, and takes whatever it gets; flow 1 drains faster than its share.
    let mut buffers = Map::from([(1, Buffer { rate: 10_000_000, ..Buffer::default() }), (2, Buffer::default())]);
    let mut now = Time::ZERO;
    let drained = run(&mut fair, &mut buffers, &mut now, Span::from_secs(10), 20);
    // 10 s of 8 Mbit/s, of which half is its own, with 1460 of 1500 bytes as payload.
    let share = 10_000_000 / 2 * 1460 / 1500;
    assert!(drained[&1].abs_diff(share) < share / 100, "{} B of {share}", drained[&1]);
}

#[test]
fn under_a_ceiling_no_connection_goes_out_of_turn_whatever_is_aside() {
    let mut settings = config(Matching::Auto);
    settings.ceiling = Some(Rate::from_mbit(12));
    let mut fair = Fair::new(&settings, 1).unwrap();
    let mut buffers = Map::new();
    for flow in 1..=4 {
        fair.open(Time::ZERO, FlowNumber(flow));
        // The first is slow at first, so that it has packets aside; then all drain faster than their shares.
        buffers.insert(flow, Buffer { rate: if flow == 1 { 20_000 } else { 5_000_000 }, ..Buffer::default() });
    }
    let mut now = Time::ZERO;
    run(&mut fair, &mut buffers, &mut now, Span::from_secs(5), 40);
    buffers.get_mut(&1).unwrap().rate = 5_000_000;
    run(&mut fair, &mut buffers, &mut now, Span::from_secs(2), 40);
    let drained = run(&mut fair, &mut buffers, &mut now, Span::from_secs(10), 40);
    let share = 15_000_000 / 4 * 1460 / 1500;
    for (flow, bytes) in drained {
        assert!(bytes.abs_diff(share) < share / 50, "flow {flow}: {bytes} B of {share}");
    }
}

#[test]
fn a_driver_that_comes_a_little_late_loses_no_rate_and_gains_none() {
    let mut fair = Fair::new(&config(Matching::Bits(Rate::from_mbit(12))), 1).unwrap();
    for number in 0..1000 {
        // 1 ms each.
        fair.enqueue(Time::ZERO, FlowNumber(1), 0, packet(1, number)).unwrap();
    }
    let (mut now, mut late) = (Time::ZERO, 0);
    for _ in 0..500 {
        now = now.max(fair.poll_timeout().unwrap()) + Span::from_micros(late % 300);
        late += 97;
        assert!(fair.serve(now).is_some());
    }
    assert!(now.since(Time::ZERO) < Span::from_millis(500), "{now:?}");
    // Long lateness is no credit: at most one more goes at once.
    now += Span::from_millis(100);
    let at_once = core::iter::from_fn(|| fair.serve(now)).count();
    assert!((1..=2).contains(&at_once), "{at_once}");
    while let Some(at) = fair.poll_timeout() {
        now = now.max(at);
        fair.serve(now).unwrap();
    }
    // Nor is the time in which nothing waited.
    now += Span::from_secs(1);
    for number in 0..10 {
        fair.enqueue(now, FlowNumber(1), 0, packet(1, number)).unwrap();
    }
    assert_eq!(core::iter::from_fn(|| fair.serve(now)).count(), 1);
}

#[test]
fn other_settings_keep_what_waits_in_the_order_of_its_flow() {
    let mut fair = Fair::new(&config(Matching::Auto), 1).unwrap();
    let flow = FlowNumber(1);
    fair.open(Time::ZERO, flow);
    // Its gate is closed; another flow makes the server put its packets aside.
    fair.on_level(Time::ZERO, flow, 1_000_000, 0, Span::from_millis(100), false);
    for number in 0..5 {
        fair.enqueue(Time::ZERO, flow, 1460, packet(1, number)).unwrap();
        fair.enqueue(Time::ZERO, FlowNumber(2), 0, packet(2, number)).unwrap();
    }
    while let Some((served, _)) = fair.serve(Time::ZERO) {
        assert_eq!(served, FlowNumber(2));
    }
    for number in 5..8 {
        fair.enqueue(Time::ZERO, flow, 1460, packet(1, number)).unwrap();
    }
    assert!(fair.serve(Time::ZERO).is_none(), "the gate is closed");
    let waiting = fair.waiting();
    let mut other = config(Matching::Unlimited);
    other.discipline = "drr".parse().unwrap();
    fair.reconfigure(Time::ZERO, &other).unwrap();
    assert_eq!(fair.waiting(), waiting);
    let order: std::vec::Vec<u32> =
        core::iter::from_fn(|| fair.serve(Time::ZERO)).map(|(_, packet)| packet.packet.1).collect();
    assert_eq!(order, (0..8).collect::<std::vec::Vec<u32>>());
}

/// A subsystem in which datagrams follow, and a connection, flow 1, that drains at `rate` bytes a second.
fn following(rate: u64) -> (Fair<Packet>, FlowNumber) {
    let settings = Config { datagrams: Datagrams::Follow, ..config(Matching::Auto) };
    let (mut fair, flow) = (Fair::new(&settings, 1).unwrap(), FlowNumber(1));
    fair.open(Time::ZERO, flow);
    for second in 0..3 {
        fair.on_level(Time::from_millis(second * 1000), flow, 10_000, rate * second, Span::from_millis(500), false);
    }
    (fair, flow)
}

/// Bytes of each flow of `flows` that go within four seconds from the third on, when each has a packet every millisecond.
fn offered(fair: &mut Fair<Packet>, flows: &[u32], mut each: impl FnMut(&mut Fair<Packet>, Time)) -> Map<u32, u64> {
    let mut went: Map<u32, u64> = flows.iter().map(|flow| (*flow, 0)).collect();
    for milli in 3000..7000 {
        let now = Time::from_millis(milli);
        each(fair, now);
        for flow in flows {
            let _ = fair.enqueue(now, FlowNumber(*flow), 0, packet(*flow, milli as u32));
        }
        while let Some((flow, packet)) = fair.serve(now) {
            *went.get_mut(&flow.0).unwrap() += u64::from(packet.size);
        }
        while fair.poll_dropped().is_some() {}
    }
    went
}

#[test]
fn datagrams_go_as_they_come_until_the_link_holds_back_a_connection_and_then_each_flow_as_fast_as_that_one() {
    let (mut fair, flow) = following(100_000);
    let went = offered(&mut fair, &[7, 8], |_, _| {});
    assert_eq!(went[&7], 4000 * 1500, "all of it");
    let (mut fair, _) = following(100_000);
    let went = offered(&mut fair, &[7, 8], |fair, now| {
        let sent = 100_000 * now.as_nanos() / 1_000_000_000;
        fair.on_level(now, flow, 10_000, sent, Span::from_millis(500), true);
    });
    // 100 kB/s for 4 s, and what may go at once; before the bound begins, a millisecond's packets.
    for flow in [7, 8] {
        assert!((395_000..420_000).contains(&went[&flow]), "{went:?}");
    }
    // A ceiling bounds all by itself, and a connection that is not held back by the link says nothing.
    for (ceiling, held_back) in [(Some(Rate::from_mbit(100)), true), (None, false)] {
        let (mut fair, _) = following(100_000);
        let settings = Config { ceiling, datagrams: Datagrams::Follow, ..config(Matching::Auto) };
        fair.reconfigure(Time::from_millis(2000), &settings).unwrap();
        let went = offered(&mut fair, &[7], |fair, now| {
            fair.on_level(now, flow, 10_000, 0, Span::from_millis(500), held_back);
        });
        assert!(went[&7] > 5_900_000, "{went:?}");
    }
}

#[test]
fn a_flow_of_datagrams_below_the_bound_waits_for_nothing() {
    let (mut fair, flow) = following(100_000);
    for call in 0..200 {
        // 75 kB/s, in pairs.
        let now = Time::from_millis(3000 + call * 40);
        let sent = 100_000 * now.as_nanos() / 1_000_000_000;
        fair.on_level(now, flow, 10_000, sent, Span::from_millis(500), true);
        for number in 0..2 {
            fair.enqueue(now, FlowNumber(9), 0, packet(9, number)).unwrap();
            assert!(fair.serve(now).is_some(), "call {call}");
        }
    }
}

#[test]
fn a_flow_that_was_taken_for_datagrams_has_a_gate_once_it_is_a_connection() {
    let (mut fair, flow) = following(100_000);
    let (now, other) = (Time::from_millis(3000), FlowNumber(9));
    fair.on_level(now, flow, 10_000, 300_000, Span::from_millis(500), true);
    fair.enqueue(now, other, 0, packet(9, 0)).unwrap();
    assert!(fair.gate(other).is_none() && fair.paced == 1);
    fair.open(now, other);
    assert!(fair.gate(other).is_some() && fair.paced == 0);
    fair.close(other);
    assert_eq!(fair.serve(now).map(|(flow, _)| flow), Some(other), "what waited goes");
}

#[test]
fn flows_of_datagrams_leave_nothing_behind_and_have_a_bound() {
    let (mut fair, flow) = following(100_000);
    for number in 0..5000u32 {
        let now = Time::from_millis(3000 + u64::from(number) / 100);
        fair.on_level(now, flow, 10_000, 0, Span::from_millis(500), true);
        let _ = fair.enqueue(now, FlowNumber(1000 + number), 0, packet(number, 0));
        while fair.serve(now).is_some() {}
        assert!(fair.paced <= PACED && fair.lanes.len() == fair.paced + 1, "{}", fair.paced);
    }
    let now = Time::from_millis(4000);
    fair.enqueue(now, FlowNumber(9), 0, packet(9, 0)).unwrap();
    while fair.serve(now).is_some() {}
    assert!(fair.paced <= 1, "{} are left", fair.paced);
    fair.close(flow);
    assert_eq!(fair.datagram_rate(Time::from_millis(60_000)), None);
}

proptest! {
    #[test]
    fn each_packet_comes_out_once_and_in_the_order_of_its_flow(
        steps in proptest::collection::vec((0u32..6, 0u8..5, 0u64..20_000), 1..400), room in 4u32..60,
    ) {
        let mut settings = config(Matching::Auto);
        settings.queue = Limit::Packets(room);
        settings.datagrams = if room % 2 == 0 { Datagrams::Follow } else { Datagrams::Pass };
        let mut fair = Fair::new(&settings, 7).unwrap();
        let (mut now, mut number, mut out, mut refused) = (Time::ZERO, 0, 0, 0);
        let mut last: Map<u32, u32> = Map::new();
        for (flow, action, value) in steps {
            now += Span::from_micros(value);
            let id = FlowNumber(flow);
            match action {
                0 | 1 => {
                    number += 1;
                    let packet = packet(flow, number);
                    refused += u64::from(fair.enqueue(now, id, 1460, packet).is_err());
                }
                2 => fair.on_level(now, id, value * 3, value * 100, Span::from_millis(20), value % 2 == 0),
                3 if value % 4 == 0 => fair.close(id),
                3 => fair.open(now, id),
                _ => {
                    while let Some((flow, packet)) = fair.serve(now) {
                        out += 1;
                        prop_assert_eq!(flow.0, packet.packet.0);
                        let before = last.insert(flow.0, packet.packet.1);
                        prop_assert!(before.is_none_or(|before| before < packet.packet.1), "{} is out of order", flow.0);
                    }
                }
            }
            while fair.poll_dropped().is_some() {
                out += 1;
            }
            prop_assert!(fair.waiting().0 <= u64::from(room) + 1, "{} packets wait in a room of {room}", fair.waiting().0);
            prop_assert_eq!(out + refused + fair.held(), u64::from(number));
        }
    }
}
