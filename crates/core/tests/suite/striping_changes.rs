//! The channel set and the quanta change while data flows; either end restarts; either end's state is corrupted.

use crate::striping::{World, config, ms};
use fairspan_core::causal::ChannelSet;
use fairspan_core::stripe::Endpoint;
use fairspan_core::units::{Bytes, ChannelId, Span};
use proptest::prelude::*;

fn set(pairs: &[(u8, u64)]) -> ChannelSet {
    let pairs: Vec<_> = pairs.iter().map(|&(c, q)| (ChannelId(c), Bytes::new(q))).collect();
    ChannelSet::new(&pairs, Bytes::new(1500)).unwrap()
}

/// Six channels, of which the first three take part at first.
fn six(seed: u64) -> World {
    let mut world =
        World::new(&set(&[(0, 1500), (1, 4000), (2, 9000)]), &[ms(3), ms(25), ms(9), ms(1), ms(40), ms(14)], seed);
    for link in world.link.iter_mut().flatten() {
        link.jitter = ms(4);
    }
    world
}

fn subset() -> impl Strategy<Value = ChannelSet> {
    proptest::collection::btree_map(0u8..6, 1500u64..12_000, 1..=6)
        .prop_map(|m| set(&m.into_iter().collect::<Vec<_>>()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changes_of_set_and_quanta_keep_the_order_without_loss(
        seed: u64, changes in proptest::collection::vec((subset(), 0u64..150), 1..6), gap in 20u64..500
    ) {
        let mut world = six(seed);
        world.settle();
        let lengths = world.random_lengths(3000);
        world.offer(lengths, Span::from_micros(gap));
        for (set, pause) in &changes {
            world.run_for(ms(*pause));
            world.end[0].sender.set_channels(world.now, set).unwrap();
        }
        world.settle();
        world.run_for(ms(300));
        world.assert_all_in_order();
        let last = &changes.last().unwrap().0;
        prop_assert_eq!(world.end[0].sender.channels(), last);
        prop_assert_eq!(world.end[1].receiver.generation(), world.end[0].sender.generation());
        prop_assert_eq!(world.end[0].sender.stats().epochs, 1, "a change is no reset");
    }

    #[test]
    fn changes_come_through_on_lossy_channels_and_order_comes_back(
        seed: u64, changes in proptest::collection::vec((subset(), 0u64..150), 1..4), loss in 0.0f64..0.5
    ) {
        let mut world = six(seed);
        world.settle();
        for link in world.link.iter_mut().flatten() {
            link.loss = loss;
        }
        let lengths = world.random_lengths(4000);
        world.offer(lengths, Span::from_micros(200));
        for (set, pause) in &changes {
            world.run_for(ms(*pause));
            world.end[0].sender.set_channels(world.now, set).unwrap();
        }
        world.settle();
        for link in world.link.iter_mut().flatten() {
            link.loss = 0.0;
        }
        prop_assert_eq!(world.end[1].receiver.generation(), world.end[0].sender.generation());
        world.run_for(Span::from_secs(6));
        let from = world.offered[0];
        let lengths = world.random_lengths(500);
        world.offer(lengths, Span::from_micros(100));
        world.settle();
        world.run_for(ms(300));
        let tail: Vec<u64> = world.numbers().into_iter().filter(|&n| n >= from).collect();
        prop_assert!(tail.iter().copied().eq(from..world.offered[0]), "{} of 500", tail.len());
    }

    #[test]
    fn a_dead_channel_costs_its_own_packets_only(seed: u64, dead in 0u8..3, notice in 1u64..200, gap in 50u64..400) {
        let mut world = six(seed);
        world.settle();
        let lengths = world.random_lengths(3000);
        world.offer(lengths, Span::from_micros(gap));
        world.run_for(ms(20));
        for way in 0..2 {
            world.link[way][usize::from(dead)].up = false;
        }
        world.run_for(ms(notice));
        world.end[0].sender.remove_dead(world.now, ChannelId(dead));
        world.settle();
        world.run_for(ms(300));
        let lost = world.link[0][usize::from(dead)].data_lost;
        // What was on its way there when it was given up, and came all the same, came too late.
        let lost = lost + world.end[1].receiver.stats().stale;
        prop_assert!(lost > 0 || notice < 40);
        prop_assert_eq!(world.delivered[1].len() as u64 + lost, 3000);
        world.assert_in_order_from(0);
        prop_assert_eq!(world.end[0].sender.stats().epochs, 1);
        // It recovers, and joins again.
        for way in 0..2 {
            world.link[way][usize::from(dead)].up = true;
        }
        let all = set(&[(0, 1500), (1, 4000), (2, 9000)]);
        world.end[0].sender.set_channels(world.now, &all).unwrap();
        let lengths = world.random_lengths(1000);
        world.offer(lengths, Span::from_micros(gap));
        world.settle();
        world.run_for(ms(300));
        prop_assert_eq!(world.delivered[1].len() as u64 + lost, 4000);
        world.assert_in_order_from(0);
        prop_assert_eq!(world.end[0].sender.channels(), &all);
    }

    #[test]
    fn corrupt_receiver_state_heals_by_itself(seed: u64, rounds in -1000i64..1000, deficit in -3000i64..20_000, which in 0u8..3) {
        let mut world = six(seed);
        world.settle();
        let lengths = world.random_lengths(2000);
        world.offer(lengths, Span::from_micros(100));
        world.run_for(ms(50));
        let srr = world.end[1].receiver.discipline_mut();
        let round = srr.round().wrapping_add(rounds as u32);
        srr.jump(round);
        srr.set_deficit(ChannelId(which), deficit);
        heals(&mut world);
    }

    #[test]
    fn corrupt_sender_state_heals_by_itself(seed: u64, rounds in -1000i64..1000, deficit in -100_000i64..100_000, which in 0u8..3) {
        let mut world = six(seed);
        world.settle();
        let lengths = world.random_lengths(2000);
        world.offer(lengths, Span::from_micros(100));
        world.run_for(ms(50));
        let srr = world.end[0].sender.discipline_mut();
        let round = srr.round().wrapping_add(rounds as u32);
        srr.jump(round);
        srr.set_deficit(ChannelId(which), deficit);
        heals(&mut world);
    }

    #[test]
    fn either_end_restarts_without_state_and_traffic_goes_on(seed: u64, side in 0usize..2, when in 0u64..150, loss in 0.0f64..0.3) {
        let mut world = six(seed);
        let lengths = world.random_lengths(2000);
        world.offer(lengths, Span::from_micros(100));
        for link in world.link.iter_mut().flatten() {
            link.loss = loss;
        }
        world.run_for(ms(when));
        let (config, receiver) = config();
        let three = set(&[(0, 1500), (1, 4000), (2, 9000)]);
        world.end[side] = Endpoint::new(config, receiver, &three, world.now, 0x7777_0000 + side as u32).unwrap();
        for link in world.link.iter_mut().flatten() {
            link.loss = 0.0;
        }
        heals(&mut world);
    }
}

/// Whatever happened: within seconds, and without anybody's help, all that is sent arrives, in order.
fn heals(world: &mut World) {
    world.run_for(Span::from_secs(3));
    world.settle();
    world.run_for(Span::from_secs(6));
    let from = world.offered[0];
    let lengths = world.random_lengths(500);
    world.offer(lengths, Span::from_micros(100));
    world.run_for(ms(200));
    let tail: Vec<u64> = world.numbers().into_iter().filter(|&n| n >= from).collect();
    assert!(
        tail.iter().copied().eq(from..world.offered[0]),
        "{} of 500 after {from}: {:?} {:?}",
        tail.len(),
        world.end[0].sender.stats(),
        world.end[1].receiver.stats()
    );
    assert_eq!(world.end[1].receiver.buffered_packets(), 0);
}

#[test]
fn a_receiver_that_is_ahead_asks_for_a_new_epoch() {
    let mut world = six(1);
    world.settle();
    let round = world.end[1].receiver.discipline().round() + 50;
    world.end[1].receiver.discipline_mut().jump(round);
    world.run_for(Span::from_secs(11));
    assert_eq!(world.end[0].sender.stats().epochs, 2);
    assert!(world.end[1].receiver.stats().ahead > 0);
}

#[test]
fn a_channel_that_never_answers_is_left_out_and_the_others_go_on() {
    let mut world = six(2);
    for way in 0..2 {
        world.link[way][1].up = false;
    }
    let lengths = world.random_lengths(500);
    world.offer(lengths, Span::from_micros(100));
    world.run_for(Span::from_secs(3));
    world.assert_all_in_order();
    assert_eq!(world.end[0].sender.channels().mask(), 0b101);
    // Asked for again while still deaf, it holds nothing up; when it hears, it joins.
    let all = set(&[(0, 1500), (1, 4000), (2, 9000)]);
    world.end[0].sender.set_channels(world.now, &all).unwrap();
    let lengths = world.random_lengths(500);
    world.offer(lengths, Span::from_micros(100));
    world.run_for(Span::from_secs(3));
    world.assert_all_in_order();
    assert_eq!(world.end[0].sender.channels().mask(), 0b101);
    for way in 0..2 {
        world.link[way][1].up = true;
    }
    world.end[0].sender.set_channels(world.now, &all).unwrap();
    world.settle();
    assert_eq!(world.end[0].sender.channels().mask(), 0b111);
    assert_eq!(world.end[0].sender.stats().epochs, 2);
}

#[test]
fn all_channels_may_die_and_the_stripe_comes_back() {
    let mut world = six(3);
    world.settle();
    for c in [1, 0, 2] {
        world.end[0].sender.remove_dead(world.now, ChannelId(c));
    }
    assert!(world.end[0].sender.channels().is_empty());
    let lengths = world.random_lengths(100);
    world.offer(lengths, Span::ZERO);
    world.run_for(Span::from_secs(1));
    assert_eq!(world.backlog(), 100);
    world.end[0].sender.set_channels(world.now, &set(&[(4, 2000), (5, 3000)])).unwrap();
    world.settle();
    world.run_for(ms(100));
    world.assert_all_in_order();
    assert_eq!(world.end[1].receiver.stats().delivered, 100);
}
