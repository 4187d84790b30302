//! Buffers, credits and bandwidths: claims striping.credits, striping.skew-buffer, striping.rated-vs-actual.

use crate::striping::{World, config, ms};
use fairspan_core::stripe::quanta;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span};
use proptest::prelude::*;

const MAX: u64 = 1500;

/// Channels with these rates in Mbit/s and delays in ms; quanta from `rated`.
fn world(rated: &[u64], actual: &[u64], delays: &[u64], credits: Option<u64>, seed: u64) -> World {
    let rates: Vec<_> = rated.iter().enumerate().map(|(i, &r)| (ChannelId(i as u8), Rate::from_mbit(r))).collect();
    let set = quanta::from_rates(&rates, Bytes::new(MAX), Bytes::new(1 << 24)).unwrap();
    let (mut sender, mut receiver) = config();
    if let Some(buffer) = credits {
        sender.credits = true;
        receiver.credits = true;
        receiver.buffer_bytes = Bytes::new(buffer);
    }
    let delays: Vec<Span> = delays.iter().map(|&d| ms(d)).collect();
    let mut world = World::with((sender, receiver), &set, &delays, seed);
    for (link, &rate) in world.link[0].iter_mut().zip(actual) {
        link.rate = Some(Rate::from_mbit(rate));
    }
    // A transmit queue of a quantum a link, and a packet: the paper's Figure 1 has one so that the sender can go on to
    // the next channel (§6.3.5).
    for (link, channel) in world.link[0].iter_mut().zip(set.channels()) {
        link.queue = Bytes::new(u64::from(set.quantum(channel)) + MAX);
    }
    world
}

/// Bytes a second that leave over all links, with a sender that always has packets.
fn throughput(world: &mut World) -> f64 {
    let lengths = world.random_lengths(30_000);
    world.offer(lengths, Span::ZERO);
    world.run_for(ms(500));
    let sum = |w: &World| w.link[0].iter().map(|l| l.data_bytes).sum::<u64>();
    let before = sum(world);
    world.run_for(Span::from_secs(1));
    assert!(world.backlog() > 0);
    (sum(world) - before) as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_channel_furthest_below_its_rating_holds_the_others_to_the_same_share(
        rated in proptest::collection::vec(2u64..20, 2..5), cut in proptest::collection::vec(40u64..=100, 5), seed: u64
    ) {
        // Actual rates in Mbit/s are rated * cut / 100, kept whole by counting in 1/100.
        let actual: Vec<u64> = rated.iter().zip(&cut).map(|(r, c)| r * c).collect();
        let rated: Vec<u64> = rated.iter().map(|r| r * 100).collect();
        let mut world = world(&rated, &actual, &vec![1; rated.len()], None, seed);
        for (link, &a) in world.link[0].iter_mut().zip(&actual) {
            link.rate = Some(Rate::from_bits_per_sec(a * 10_000));
        }
        let measured = throughput(&mut world);
        let share = actual.iter().zip(&rated).map(|(&a, &r)| a as f64 / r as f64).fold(1.0, f64::min);
        let predicted = share * rated.iter().map(|&r| r as f64 * 10_000.0 / 8.0).sum::<f64>();
        // Above by no more than a round's grain in one second. Below by the markers' bytes (half a percent of a small
        // quantum), and where two channels are equally short each sometimes waits for the other.
        let ratio = measured / predicted;
        prop_assert!((0.95..1.02).contains(&ratio), "{measured} against {predicted}");
    }

    #[test]
    fn the_buffer_needed_is_rate_times_skew_and_at_most_a_quantum_and_a_packet_more(
        rates in proptest::collection::vec(5u64..40, 2..6), delays in proptest::collection::vec(0u64..60, 6), seed: u64
    ) {
        let delays = &delays[..rates.len()];
        let mut world = world(&rates, &rates, delays, None, seed);
        world.run_for(ms(300));
        let lengths = world.random_lengths(12_000);
        world.offer(lengths, Span::ZERO);
        let slowest = *delays.iter().max().unwrap();
        let mut most = vec![0u64; rates.len()];
        for _ in 0..1500 {
            world.run_for(Span::from_micros(200));
            for (i, most) in most.iter_mut().enumerate() {
                *most = (*most).max(world.end[1].receiver.buffered(ChannelId(i as u8)).1.as_u64());
            }
        }
        let set = world.end[0].sender.channels().clone();
        for (i, most) in most.into_iter().enumerate() {
            let fluid = Rate::from_mbit(rates[i]).bytes_in(ms(slowest - delays[i])).as_u64();
            let quantum = u64::from(set.quantum(ChannelId(i as u8)));
            // The claim's quantum and packet, and as much again because each link's queue may hold that.
            let bound = fluid + 2 * (quantum + MAX);
            prop_assert!(most <= bound, "channel {i}: {most} bytes, fluid {fluid}, quantum {quantum}");
            // And it is needed indeed, but for the same grain.
            prop_assert!(most + 2 * (quantum + MAX) >= fluid, "channel {i}: {most} bytes only, fluid {fluid}");
        }
        prop_assert_eq!(world.end[1].receiver.stats().overflow, 0);
    }

    #[test]
    fn credits_remove_all_overflow_and_survive_the_loss_of_credits_and_data(
        rates in proptest::collection::vec(5u64..40, 2..5), buffer in 6000u64..60_000, loss in 0.0f64..0.4, seed: u64
    ) {
        // One channel is 50 ms behind: without credits the others overflow their small buffers.
        let mut delays = vec![1; rates.len()];
        delays[0] = 51;
        let run = |credits: bool| {
            let mut world = world(&rates, &rates, &delays, Some(buffer), seed);
            if !credits {
                let (sender, mut receiver) = config();
                receiver.buffer_bytes = Bytes::new(buffer);
                let set = world.end[0].sender.channels().clone();
                let links = world.link.clone();
                world = World::with((sender, receiver), &set, &vec![Span::ZERO; rates.len()], seed);
                world.link = links;
            }
            world.run_for(ms(400));
            for link in world.link.iter_mut().flatten() {
                link.loss = loss;
            }
            let lengths = world.random_lengths(3000);
            world.offer(lengths, Span::ZERO);
            world.run_for(ms(300));
            world
        };
        let without = run(false);
        prop_assume!(without.end[1].receiver.stats().overflow > 0);
        let mut with = run(true);
        prop_assert_eq!(with.end[1].receiver.stats().overflow, 0);
        let early = with.end[1].receiver.stats().delivered;
        with.run_for(ms(500));
        prop_assert_eq!(with.end[1].receiver.stats().overflow, 0);
        // Lost credits and lost data leak no credit: it goes on, and with the losses over all of it comes.
        prop_assert!(with.end[1].receiver.stats().delivered > early);
        for link in with.link.iter_mut().flatten() {
            link.loss = 0.0;
        }
        with.settle();
        with.run_for(Span::from_secs(1));
        let lost: u64 = with.link[0].iter().map(|l| l.data_lost).sum();
        prop_assert_eq!(with.end[1].receiver.stats().delivered + lost, 3000);
        prop_assert_eq!(with.end[1].receiver.stats().overflow, 0);
    }
}
