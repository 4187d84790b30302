//! Logical reception without loss and with it: claims striping.fifo, striping.marker-recovery, striping.80-percent-loss.

use crate::striping::{World, ms, set_of};
use fairspan_core::units::Span;
use proptest::prelude::*;

fn quanta() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        4 => proptest::collection::vec(1500u64..20_000, 2..8),
        1 => proptest::collection::vec(1500u64..6000, 8..=64),
    ]
}

fn delays(n: usize, rng: &mut fairspan_core::rng::Rng) -> Vec<Span> {
    (0..n).map(|_| Span::from_micros(rng.below(50_000))).collect()
}

fn world(quanta: &[u64], seed: u64, jitter: Span) -> World {
    let mut rng = fairspan_core::rng::Rng::new(seed ^ 0x5eed);
    let mut world = World::new(&set_of(quanta), &delays(quanta.len(), &mut rng), seed);
    for link in world.link.iter_mut().flatten() {
        link.jitter = jitter;
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn without_loss_the_order_is_kept_for_any_lengths_and_skews(
        quanta in quanta(), seed: u64, jitter in 0u64..30, gap in 0u64..400, n in 1usize..1500
    ) {
        let mut world = world(&quanta, seed, ms(jitter));
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
    fn order_is_back_one_marker_per_channel_after_the_last_loss(
        quanta in quanta(), seed: u64, jitter in 0u64..10, loss in 0.01f64..0.8
    ) {
        let mut world = world(&quanta, seed, ms(jitter));
        world.run_for(ms(400));
        prop_assert!(world.end[0].sender.is_established());
        for link in &mut world.link[0] {
            link.loss = loss;
        }
        let n = 400 + world.rng.below(600) as usize;
        let lengths = world.random_lengths(n);
        world.offer(lengths, Span::from_micros(200));
        world.run_for(Span::from_micros(200 * n as u64 - 100));
        // Loss stops. The claim's bound: one marker period (the timer's at most), plus the slowest one-way delay.
        for link in &mut world.link[0] {
            link.loss = 0.0;
        }
        let stopped = world.now;
        let period = ms(20);
        let lengths = world.random_lengths(2000);
        world.offer(lengths, Span::from_micros(200));
        world.run_for(period);
        let after_markers = world.offered[0];
        world.settle();
        world.run_for(ms(300));
        // Everything sent after that is delivered, in order, and it was in time.
        let tail: Vec<u64> = world.numbers().into_iter().filter(|&n| n >= after_markers).collect();
        prop_assert!(tail.iter().copied().eq(after_markers..world.offered[0]), "{} packets from {after_markers}", tail.len());
        let latest = world.delivered[1].iter().filter(|&&(n, _)| n == after_markers).map(|&(_, t)| t).next().unwrap();
        prop_assert!(latest.since(stopped) <= period + ms(60 + jitter) + period, "{:?}", latest.since(stopped));
        prop_assert_eq!(world.end[1].receiver.stats().ahead, 0, "loss never makes the receiver go ahead");
    }

    #[test]
    fn at_most_one_round_trip_of_packets_strands_behind_a_lost_tail(quanta in quanta(), seed: u64, loss in 0.0f64..0.8) {
        let mut world = world(&quanta, seed, ms(1));
        world.run_for(ms(400));
        for link in &mut world.link[0] {
            link.loss = loss;
            link.loss_of_control = false;
        }
        let lengths = world.random_lengths(300);
        world.offer(lengths, Span::ZERO);
        // The sender falls idle at once; its markers arrive; the slowest channel takes 51 ms.
        world.run_for(ms(60));
        let lost: u64 = world.link[0].iter().map(|l| l.data_lost).sum();
        prop_assert_eq!(world.delivered[1].len() as u64 + lost, 300);
        prop_assert_eq!(world.end[1].receiver.buffered_packets(), 0);
    }
}

/// By how many packets a delivery falls behind the highest number so far, in the mean of 20,000 packets of which 80, 60
/// and 70 % are lost on three channels, as are the markers.
fn mean_displacement_at_eighty_percent(marker_rounds: u32, interval: Span) -> u64 {
    let (mut config, receiver) = crate::striping::config();
    // The source is slower than the sender, which would mark each of its many idle moments.
    (config.marker_rounds, config.marker_interval, config.idle_gap) = (marker_rounds, interval, interval);
    let mut world = World::with((config, receiver), &set_of(&[3000, 1500, 6000]), &[ms(5), ms(20), ms(1)], 80);
    world.run_for(ms(400));
    for (link, loss) in world.link[0].iter_mut().zip([0.8, 0.6, 0.7]) {
        (link.loss, link.jitter) = (loss, ms(2));
    }
    let lengths = world.random_lengths(20_000);
    world.offer(lengths, Span::from_micros(100));
    // Once the sender is idle its markers repeat until one has come through on every channel.
    world.run_for(Span::from_secs(60));
    let lost: u64 = world.link[0].iter().map(|l| l.data_lost).sum();
    let stats = *world.end[1].receiver.stats();
    // Nothing but what the channels lost is missing, even with four markers of five lost.
    assert_eq!(stats.delivered + lost, 20_000, "{stats:?}");
    assert_eq!(world.end[0].sender.stats().epochs, 1, "loss alone forces no reset");
    let mut highest = 0;
    let mut behind = 0;
    for n in world.numbers() {
        highest = highest.max(n);
        behind += highest - n;
    }
    behind / stats.delivered
}

#[test]
fn resynchronisation_works_at_eighty_percent_loss_of_data_and_markers() {
    // The receiver is never long out of step with a marker every round, though four of five are lost: packets stray by
    // the few rounds between two markers that arrive (a round is about 14 packets). Without markers they stray without
    // bound, by the difference of the channels' losses.
    let every_round = mean_displacement_at_eighty_percent(1, ms(20));
    let hardly_ever = mean_displacement_at_eighty_percent(1_000_000, Span::from_secs(1));
    assert!(every_round < 3 * 14 && hardly_ever > 10 * every_round, "{every_round} and {hardly_ever} packets");
}

#[test]
fn rounds_wrap_around_unnoticed() {
    let mut world = world(&[1500, 3000], 5, ms(3));
    world.settle();
    // The sender may skip any number of rounds below 2^31, as it does when idle; its markers take the receiver along.
    for round in [0x7000_0000, 0xe000_0000, u32::MAX - 20] {
        world.end[0].sender.discipline_mut().jump(round);
        world.run_for(Span::from_secs(11));
    }
    let lengths = world.random_lengths(1000);
    world.offer(lengths, Span::from_micros(50));
    world.settle();
    world.run_for(ms(200));
    world.assert_all_in_order();
    assert!((10..1000).contains(&world.end[0].sender.discipline().round()));
    assert_eq!(world.end[0].sender.stats().epochs, 1);
}

#[test]
fn a_quiet_sender_sends_few_markers() {
    let mut world = world(&[1500, 3000], 5, Span::ZERO);
    world.settle();
    let before = world.end[0].sender.stats().markers;
    world.run_for(Span::from_secs(3600));
    let sent = world.end[0].sender.stats().markers - before;
    // One per channel every 5 s, and the few on the way there.
    assert!((1438..1480).contains(&sent), "{sent}");
}
