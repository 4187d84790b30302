//! The stripe with GRR and RR (striping Table I has both with logical reception), and markers elsewhere in a round.

use crate::striping::{World, config, ms, set_of};
use fairspan_core::causal::{Causal, ChannelSet, Grr, Rr, SetError, Srr, Unit};
use fairspan_core::rng::Rng;
use fairspan_core::stripe::MarkerPlace;
use fairspan_core::units::{Bytes, ChannelId, Span};
use fairspan_core::wire::marker::{Control, DecodeError, Plan};
use proptest::prelude::*;

fn quanta() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(1500u64..20_000, 2..8)
}

/// GRR's set, or RR's.
fn in_packets(quanta: &[u64], rr: bool) -> ChannelSet {
    if rr { Rr::set(&set_of(quanta)) } else { Grr::set(&set_of(quanta)) }.unwrap()
}

const PLACES: [MarkerPlace; 3] = [MarkerPlace::End, MarkerPlace::Start, MarkerPlace::Middle];

fn world(set: &ChannelSet, place: MarkerPlace, seed: u64, jitter: Span) -> World {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let delays: Vec<Span> = set.channels().map(|_| Span::from_micros(rng.below(50_000))).collect();
    let (mut config, receiver) = config();
    config.marker_place = place;
    let mut world = World::with((config, receiver), set, &delays, seed);
    for link in world.link.iter_mut().flatten() {
        link.jitter = jitter;
    }
    world
}

#[test]
fn a_set_in_packets_makes_srr_send_in_the_order_of_grr_and_of_rr() {
    let bytes = set_of(&[17_700, 6000, 1500]);
    let (mut grr, mut rr) = (Grr::new(&bytes).unwrap(), Rr::new(&bytes).unwrap());
    let mut as_grr = Srr::new(&Grr::set(&bytes).unwrap()).unwrap();
    let mut as_rr = Srr::new(&Rr::set(&bytes).unwrap()).unwrap();
    let mut rng = Rng::new(1);
    for _ in 0..1000 {
        assert_eq!((as_grr.select(), as_rr.select()), (grr.select(), rr.select()));
        let len = Bytes::new(rng.below(9000));
        grr.update(len);
        rr.update(len);
        as_grr.update(len);
        as_rr.update(len);
    }
    assert_eq!(as_grr.unit(), Unit::Packets);
}

#[test]
fn a_set_in_packets_is_checked_like_one_in_bytes() {
    let c = ChannelId;
    assert_eq!(ChannelSet::of_packets(&[]), Err(SetError::Empty));
    assert_eq!(ChannelSet::of_packets(&[(c(3), 1), (c(3), 1)]), Err(SetError::Twice { channel: c(3) }));
    assert_eq!(ChannelSet::of_packets(&[(c(64), 1)]), Err(SetError::Channel { channel: c(64) }));
    assert_eq!(ChannelSet::of_packets(&[(c(1), 0)]), Err(SetError::Quantum { channel: c(1), quantum: 0, least: 1 }));
    let many: Vec<_> = (0..80).map(|n| (c(n % 64), 1)).collect();
    assert_eq!(ChannelSet::of_packets(&many), Err(SetError::Twice { channel: c(0) }));
    let one_each = ChannelSet::of_packets(&[(c(0), 1500), (c(1), 1500)]).unwrap();
    assert_ne!(one_each, set_of(&[1500, 1500]), "the unit is part of the set");
}

#[test]
fn a_plan_in_packets_is_flagged_and_one_in_bytes_is_as_it_always_was() {
    let plan = |set| Plan { epoch: 7, channel: ChannelId(1), generation: 1, base: 1, start: 1, set, dead: 0 };
    let encode = |set| {
        let mut bytes = vec![];
        Control::Plan(Box::new(plan(set))).encode(&mut bytes);
        bytes
    };
    let packets = ChannelSet::of_packets(&[(ChannelId(0), 3), (ChannelId(1), 1)]).unwrap();
    let bytes = encode(packets.clone());
    assert_eq!(bytes[9], 16);
    assert_eq!(Control::decode(&bytes), Ok(Control::Plan(Box::new(plan(packets)))));
    let bytes = encode(set_of(&[3000, 1500]));
    assert_eq!(bytes[9], 0);
    // Quanta below 64 are of packets only.
    let mut small = encode(ChannelSet::of_packets(&[(ChannelId(0), 3)]).unwrap());
    small[9] = 0;
    assert!(matches!(Control::decode(&small), Err(DecodeError::Set(SetError::Quantum { quantum: 3, .. }))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn without_loss_the_order_is_kept_for_any_lengths_and_skews(
        quanta in quanta(), rr: bool, place in 0usize..3, seed: u64, jitter in 0u64..30, gap in 0u64..400,
        n in 1usize..1500
    ) {
        let mut world = world(&in_packets(&quanta, rr), PLACES[place], seed, ms(jitter));
        let lengths = world.random_lengths(n);
        world.offer(lengths, Span::from_micros(gap));
        world.settle();
        world.run_for(ms(300));
        world.assert_all_in_order();
        let stats = world.end[1].receiver.stats();
        prop_assert_eq!((stats.lost, stats.stale, stats.ahead, stats.unknown, stats.overflow), (0, 0, 0, 0, 0));
        prop_assert_eq!(world.end[0].sender.stats().epochs, 1);
    }

    #[test]
    fn order_is_back_one_marker_per_channel_after_the_last_loss_wherever_it_stands(
        quanta in quanta(), what in 0usize..3, place in 0usize..3, seed: u64, loss in 0.01f64..0.8
    ) {
        let set = if what == 2 { set_of(&quanta) } else { in_packets(&quanta, what == 1) };
        let mut world = world(&set, PLACES[place], seed, ms(3));
        world.run_for(ms(400));
        prop_assert!(world.end[0].sender.is_established());
        for link in &mut world.link[0] {
            link.loss = loss;
        }
        let n = 400 + world.rng.below(600) as usize;
        let lengths = world.random_lengths(n);
        world.offer(lengths, Span::from_micros(200));
        world.run_for(Span::from_micros(200 * n as u64 - 100));
        for link in &mut world.link[0] {
            link.loss = 0.0;
        }
        let lengths = world.random_lengths(2000);
        world.offer(lengths, Span::from_micros(200));
        // The timer's period is the longest without markers.
        world.run_for(ms(20));
        let after_markers = world.offered[0];
        world.settle();
        world.run_for(ms(300));
        let tail: Vec<u64> = world.numbers().into_iter().filter(|&n| n >= after_markers).collect();
        prop_assert!(tail.iter().copied().eq(after_markers..world.offered[0]), "{} packets from {after_markers}", tail.len());
        prop_assert_eq!(world.end[1].receiver.stats().ahead, 0, "loss never makes the receiver go ahead");
    }

    #[test]
    fn sets_and_units_change_while_data_flows(quanta in quanta(), seed: u64) {
        let mut world = world(&set_of(&quanta), MarkerPlace::End, seed, ms(2));
        world.settle();
        for set in [in_packets(&quanta, false), in_packets(&quanta, true), set_of(&quanta), set_of(&quanta[1..])] {
            let lengths = world.random_lengths(600);
            world.offer(lengths, Span::from_micros(100));
            world.run_for(ms(20));
            let now = world.now;
            world.end[0].sender.set_channels(now, &set).unwrap();
            world.settle();
            prop_assert_eq!(world.end[0].sender.channels(), &set);
        }
        world.run_for(ms(300));
        world.assert_all_in_order();
        prop_assert_eq!(world.end[0].sender.stats().epochs, 1);
        prop_assert_eq!(world.end[1].receiver.stats().unknown, 0);
    }
}

#[test]
fn markers_stand_where_they_are_set_to() {
    for (place, expected) in [
        (MarkerPlace::End, [false, false]),
        // After the first packet of a round the pointer is still on channel 0; in the middle it has just left it.
        (MarkerPlace::Start, [false, false]),
        (MarkerPlace::Middle, [true, false]),
    ] {
        let mut world = world(&set_of(&[6000, 6000]), place, 3, Span::ZERO);
        world.settle();
        let end = &mut world.end[0];
        let now = world.now + ms(1);
        let mut seen = 0;
        let mut in_round = 0;
        for _ in 0..400 {
            let round = end.sender.discipline().round();
            end.sender.on_sent(now, Bytes::new(1000));
            in_round = if end.sender.discipline().round() == round { in_round + 1 } else { 0 };
            let mut passed = vec![];
            while let Some((_, control)) = end.poll_control(now) {
                if let Control::Marker(marker) = control {
                    passed.push(marker.passed);
                }
            }
            if !passed.is_empty() {
                assert_eq!(passed, expected, "{place:?}");
                let packets = match place {
                    MarkerPlace::End => 0,
                    MarkerPlace::Start => 1,
                    MarkerPlace::Middle => 6,
                };
                assert_eq!(in_round, packets, "{place:?}");
                seen += 1;
            }
        }
        assert_eq!(seen, 4, "400 packets make 33 rounds, and every eighth has markers: {place:?}");
    }
}
