use super::*;
use crate::ring::Ringlet;
use crate::ring::frame::Head;
use crate::ring::protection::Path;
use crate::units::{FlowNumber, Span};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;

impl Waiting {
    /// As without settings.
    pub(in crate::ring) fn fifo(room: Bytes) -> Waiting {
        Waiting { discipline: DisciplineConfig::Fifo, policy: PolicyConfig::DropTail, room, seed: 1 }
    }
}

/// A packet that is its number.
impl Packet for u32 {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn size(&self) -> Bytes {
        Bytes::ZERO
    }

    fn strip(&mut self, _: usize) {}

    fn truncate(&mut self, _: usize) {}

    fn duplicate(&self) -> Option<u32> {
        Some(*self)
    }

    fn from_bytes(_: &[u8]) -> Option<u32> {
        None
    }
}

fn node(n: u8) -> NodeId {
    NodeId::new(n).unwrap()
}

fn held(to: u8, class: Class, wire: u32, packet: u32) -> Held<u32> {
    let path = Path { ingress: node(1), egress: node(to), ringlet: Ringlet::Zero, wrapped: false, ttl: 8 };
    Held { head: Head { path, class, shares: class != Class::A }, wire, flow: FlowNumber(0), packet }
}

fn station(reservations: &[Reservation]) -> Station<u32> {
    Station::new(8, &Waiting::fifo(Bytes::new(20_000)), Bytes::ZERO, reservations).unwrap()
}

fn mbit(rate: u64) -> Option<Rate> {
    Some(Rate::from_mbit(rate))
}

/// Bytes that wait, by egress.
fn waiting(station: &Station<u32>) -> Vec<u64> {
    station.counts().iter().map(|counts| counts.waiting).collect()
}

/// Where first in goes first out, nothing depends on when.
const NOW: Time = Time::ZERO;
const US: fn(u64) -> Time = |us| Time::from_nanos(us * 1000);

#[test]
fn packets_pass_their_limiter_one_by_one_and_wait_for_no_other_egress() {
    let mut station = station(&[]);
    let mut arrived = 0;
    // 1000 bytes take 1 ms at 8 Mbit/s.
    station.set_limits(US(0), |to| if to == node(3) { mbit(8) } else { None }, |_| {});
    for number in 0..3 {
        station.enqueue(US(0), held(3, Class::C, 1000, number), |bytes| arrived += bytes).unwrap();
    }
    station.enqueue(US(0), held(4, Class::C, 1000, 10), |bytes| arrived += bytes).unwrap();
    assert_eq!(arrived, 2000);
    assert_eq!(station.take(NOW).map(|held| held.packet), Some(0));
    assert_eq!(station.take(NOW).map(|held| held.packet), Some(10));
    assert!(station.take(NOW).is_none());
    assert_eq!(station.counts()[2], Counts { offered: 3000, waiting: 2000 });
    assert_eq!(station.due(), Some(US(1000)));
    station.release_due(US(999), |_| panic!("early"));
    station.release_due(US(1000), |bytes| arrived += bytes);
    assert_eq!(station.take(NOW).map(|held| held.packet), Some(1));
    assert_eq!((arrived, station.due()), (3000, Some(US(2000))));
    station.set_limits(US(1500), |_| mbit(80), |_| {});
    assert_eq!(station.due(), Some(US(1550)), "half of what is owed is left, at ten times the rate");
    station.set_limits(US(1500), |_| Some(Rate::default()), |_| {});
    assert_eq!(station.due(), None, "nothing passes at zero");
    station.set_limits(US(1600), |_| None, |bytes| arrived += bytes);
    assert_eq!((station.take(NOW).map(|held| held.packet), arrived, station.packets()), (Some(2), 4000, 0));
}

#[test]
fn demand_is_counted_while_the_multiplexer_takes_nothing_and_what_was_released_is_held_again_by_a_new_limit() {
    let mut station = station(&[]);
    let mut arrived = 0;
    for number in 0..20 {
        station.enqueue(US(0), held(3, Class::C, 1000, number), |bytes| arrived += bytes).unwrap();
    }
    assert_eq!(arrived, 20_000);
    assert!(station.enqueue(US(0), held(3, Class::C, 1000, 20), |bytes| arrived += bytes).is_err());
    assert_eq!(arrived, 21_000, "its limiter would have let it pass: it is demand");
    assert!(station.set_limits(US(0), |_| mbit(8), |_| panic!("counted already")));
    let passed: Vec<u32> = core::iter::from_fn(|| station.take(NOW)).map(|held| held.packet).collect();
    assert_eq!(passed, [0, 1, 2], "two that were released, and the first that the limiter lets pass");
    station.enqueue(US(0), held(3, Class::C, 1000, 21), |_| panic!("18 are before it")).unwrap();
    for ms in 1..=18 {
        station.release_due(US(ms * 1000), |bytes| arrived += bytes);
        assert!(station.take(NOW).is_some() && station.take(NOW).is_none());
    }
    assert_eq!(arrived, 22_000, "nothing is counted twice, and the new one once");
    assert!(!station.set_limits(US(20_000), |_| mbit(8), |_| {}), "the same limits");
}

#[test]
fn egresses_share_the_multiplexer_by_bytes() {
    let mut station = station(&[]);
    let mut sent = BTreeMap::new();
    for number in 0..40_000 {
        for (to, wire) in [(2, 100), (3, 1500), (4, 700)] {
            let _ = station.enqueue(US(0), held(to, Class::C, wire, number), |_| {});
        }
        if number % 2 == 0
            && let Some(held) = station.take(NOW)
        {
            *sent.entry(held.head.path.egress).or_insert(0u64) += u64::from(held.wire);
        }
    }
    let (least, most) = (sent.values().min().unwrap(), sent.values().max().unwrap());
    assert!(sent.len() == 3 && most - least <= 3_000, "{sent:?}");
}

#[test]
fn class_a_has_its_bucket_and_class_b_its_bucket_or_else_the_limiter_in_turn_with_class_c() {
    let reserve = |to, class, rate| Reservation { to, class, rate: Rate::from_mbit(rate) };
    let mut station = station(&[
        reserve(Some(node(3)), Class::A, 4),
        reserve(Some(node(3)), Class::A, 4),
        reserve(None, Class::B, 8),
    ]);
    station.set_limits(US(0), |_| mbit(16), |_| {});
    let mut shared = 0u64;
    let mut demoted = 0;
    let mut sent: BTreeMap<(u8, Class, bool), u32> = BTreeMap::new();
    for us in (0..1_000_000).step_by(250) {
        station.release_due(US(us), |bytes| shared += u64::from(bytes));
        for (to, class) in [(3, Class::A), (3, Class::B), (3, Class::C), (4, Class::A)] {
            // 32 Mbit/s each.
            let result = station.enqueue(US(us), held(to, class, 1000, 0), |bytes| shared += u64::from(bytes));
            demoted += u64::from(result.is_ok_and(|demoted| demoted));
        }
        let urgent: Vec<_> = core::iter::from_fn(|| station.take_urgent(NOW)).collect();
        for held in urgent.into_iter().chain(core::iter::from_fn(|| station.take(NOW))) {
            let Head { path, class, shares } = held.head;
            *sent.entry((path.egress.number(), class, shares)).or_insert(0) += held.wire;
        }
    }
    // 1 MB is 8 Mbit/s for this second; a burst of one packet and the last millisecond are the tolerance.
    let near = |to, class, shares, bytes: u32| {
        let found = sent.get(&(to, class, shares)).copied().unwrap_or(0);
        assert!(found.abs_diff(bytes) <= 2_000, "{class:?} to {to}, shares {shares}: {found}, not {bytes}");
    };
    near(3, Class::A, false, 1_000_000);
    near(3, Class::B, false, 1_000_000);
    near(3, Class::B, true, 1_000_000);
    near(3, Class::C, true, 1_000_000);
    near(4, Class::C, true, 2_000_000);
    assert_eq!(sent.len(), 5, "class A without a reservation is class C: {sent:?}");
    assert!(shared.abs_diff(4_000_000) <= 25_000 && demoted > 1900, "{shared} {demoted}");
}

#[test]
fn what_is_refused_is_demand_only_where_its_limiter_would_have_let_it_pass() {
    let reserve = Reservation { to: Some(node(4)), class: Class::A, rate: Rate::from_mbit(8) };
    let mut station = station(&[reserve]);
    station.set_limits(US(0), |to| if to == node(3) { mbit(8) } else { None }, |_| {});
    for number in 0..20 {
        station.enqueue(US(0), held(3, Class::C, 1000, number), |_| {}).unwrap();
        station.enqueue(US(0), held(4, Class::A, 1000, number), |_| panic!("it does not share")).unwrap();
    }
    for us in [0, 5000] {
        let waits = station.enqueue(US(us), held(3, Class::C, 1000, 20), |_| panic!("others wait for the limiter"));
        let reserved = station.enqueue(US(us), held(4, Class::A, 1000, 20), |_| panic!("it would not share"));
        assert!(waits.is_err() && reserved.is_err());
    }
}

#[test]
fn what_waits_for_an_egress_can_be_taken_out_and_leaves_the_others_as_they_are() {
    let reserve = |to: Option<u8>, class| Reservation { to: to.map(node), class, rate: Rate::from_mbit(8) };
    let mut station = station(&[reserve(Some(3), Class::A), reserve(Some(4), Class::A), reserve(None, Class::B)]);
    station.set_limits(US(0), |_| mbit(8), |_| {});
    assert!(!station.has(node(3)) && station.limit(node(3)) == mbit(8));
    for (number, class) in [(0, Class::B), (1, Class::B), (2, Class::C), (3, Class::A), (4, Class::A)] {
        for to in [3, 4] {
            let wire = if to == 3 { 1 } else { 1000 };
            station.enqueue(US(0), held(to, class, wire, number), |_| {}).unwrap();
            assert!(station.has(node(to)));
        }
    }
    let taken = |station: &mut Station<u32>, to: u8| -> Vec<u32> {
        station.drain(US(0), node(to)).map(|held| held.packet).collect()
    };
    assert_eq!(taken(&mut station, 3), [3, 4, 0, 1, 2], "class by class");
    assert_eq!((station.packets(), station.has(node(3)), station.has(node(4))), (5, false, true));
    assert_eq!(waiting(&station), [0, 0, 0, 5000, 0, 0, 0, 0]);
    // What is left goes when it would have gone.
    let mut left = Vec::new();
    for us in (0..=10_000).step_by(500) {
        station.release_due(US(us), |_| {});
        while let Some(held) = station.take_urgent(US(us)).or_else(|| station.take(US(us))) {
            left.push(held.packet);
        }
    }
    left.sort_unstable();
    assert_eq!((left, station.packets(), station.due()), (vec![0, 1, 2, 3, 4], 0, None));
    assert_eq!(waiting(&station), [0; 8]);
}

#[test]
fn what_a_policy_evicts_waits_no_more_and_what_is_left_shares_fairly() {
    let queue = Waiting {
        discipline: DisciplineConfig::Sfq,
        policy: PolicyConfig::LongestQueue,
        room: Bytes::new(20_000),
        seed: 1,
    };
    let mut station = Station::new(8, &queue, Bytes::ZERO, &[]).unwrap();
    station.set_limits(US(0), |_| mbit(8), |_| {});
    for number in 0..25 {
        let _ = station.enqueue(US(0), held(3, Class::C, 1000, number), |_| {});
    }
    let (dropped, marked) = station.policy();
    assert_eq!((station.packets(), station.counts()[2].waiting, marked), (20, 20_000, 0));
    assert_eq!((dropped.full + dropped.standing, dropped.standing), (5, 0));
    assert!(station.take(US(0)).is_some_and(|held| held.head.shares));
}

proptest! {
    /// Against an obvious model: queues as lists, each limiter an instant, everything looked at in every step.
    #[test]
    fn packets_leave_in_order_at_their_limit_and_none_is_lost(
        steps in proptest::collection::vec((0u8..8, 2u8..6, 64u32..2000, 0u64..2000), 1..300),
    ) {
        let mut station = station(&[]);
        let mut model: BTreeMap<u8, Vec<(u32, u32)>> = BTreeMap::new();
        let mut limits: BTreeMap<u8, (Rate, Time, u64)> = BTreeMap::new();
        let mut now = Time::ZERO;
        let mut number = 0;
        for (what, to, wire, ns) in steps {
            now += Span::from_nanos(ns * 1000);
            station.release_due(now, |_| {});
            match what {
                0..=4 => {
                    let queue = model.entry(to).or_default();
                    let room = queue.iter().map(|(_, wire)| wire).sum::<u32>() + wire <= 20_000;
                    let taken = station.enqueue(now, held(to, Class::C, wire, number), |_| {}).is_ok();
                    prop_assert_eq!(taken, room);
                    if taken {
                        queue.push((number, wire));
                    }
                    number += 1;
                }
                5 => {
                    station.set_limits(now, |_| None, |_| {});
                    limits.clear();
                }
                6 => {
                    station.set_limits(now, |one| if one == node(to) { mbit(u64::from(wire)) } else { None }, |_| {});
                    limits.clear();
                    limits.insert(to, (Rate::from_mbit(u64::from(wire)), now, 0));
                }
                _ => {
                    // All that may go goes. A limited egress: no faster than its rate since the limit was set.
                    while let Some(held) = station.take(NOW) {
                        let to = held.head.path.egress.number();
                        let queue = model.get_mut(&to).unwrap();
                        prop_assert_eq!(queue.remove(0), (held.packet, held.wire));
                        if let Some((rate, since, left)) = limits.get_mut(&to) {
                            *left += u64::from(held.wire);
                            // What was released before, and the packet with which the time begins.
                            let most = rate.bytes_in(now.since(*since)).as_u64() + (KEPT as u64 + 1) * 2000;
                            prop_assert!(*left <= most, "{} left where {} may", left, most);
                        }
                    }
                    for (to, queue) in &model {
                        prop_assert!(limits.contains_key(to) || queue.is_empty(), "{} waits without a limit", to);
                    }
                }
            }
            let waiting: usize = model.values().map(Vec::len).sum();
            prop_assert_eq!(station.packets(), waiting);
            for (to, queue) in &model {
                let bytes: u64 = queue.iter().map(|(_, wire)| u64::from(*wire)).sum();
                prop_assert_eq!(station.counts()[node(*to).index()].waiting, bytes);
            }
            let limited: usize = model.iter().filter(|(to, _)| limits.contains_key(to)).map(|(_, q)| q.len()).sum();
            prop_assert!(station.due().is_none() || limited > 0);
        }
        let mut left: Vec<u32> = (2..6).flat_map(|to| station.drain(NOW, node(to)).map(|held| held.packet).collect::<Vec<_>>()).collect();
        let mut expected: Vec<u32> = model.values().flatten().map(|(number, _)| *number).collect();
        left.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(left, expected);
        prop_assert!(station.packets() == 0 && station.due().is_none() && !station.has_released());
    }
}
