//! Mode `stripe` with `confirm_order`: numbers confirm what logical reception gives, and keep the order where it cannot.

use crate::bond_network::{Net, Wire, check_once, config, identity, packet};
use fairspan_core::bond::{Config, Mode};
use fairspan_core::units::{ChannelId, Rate, Span};
use proptest::prelude::*;

const MS: fn(u64) -> Span = Span::from_millis;

fn stripe(wires: usize, raw: bool, confirm: bool) -> Config {
    let mut settings = config(wires);
    (settings.mode, settings.confirm_order) = (Mode::Stripe, confirm);
    for (n, channel) in settings.channels.iter_mut().enumerate() {
        channel.raw = raw;
        channel.rate = Some(Rate::from_mbit(100 / (1 + n as u64 % 4)));
    }
    settings
}

/// Packets numbered from 0 on, five a millisecond, and two seconds for them to arrive. Where much is lost the ends agree on their channels only
/// after a while, and packets wait until then.
fn send(net: &mut Net, count: u32) -> Vec<Vec<u8>> {
    let mut sent = vec![];
    for n in 0..count {
        let size = 60 + net.rng.below(1300) as usize;
        sent.push(packet((n % 5) as u16, n, size));
        net.host(0, sent[sent.len() - 1].clone());
        net.run(Span::from_micros(200));
    }
    for _ in 0..30 {
        net.run(Span::from_secs(2));
        if left(net) == u64::from(count) {
            break;
        }
    }
    net.run(Span::from_secs(2));
    sent
}

/// Data frames that left the sender.
fn left(net: &Net) -> u64 {
    (0..8).filter_map(|n| net.ends[0].channel_stats(ChannelId(n))).map(|stats| stats.sent_packets).sum()
}

/// The numbers of what was delivered, in its order.
fn delivered(net: &Net) -> Vec<u32> {
    net.delivered[1].iter().map(|(_, packet)| identity(packet).1).collect()
}

fn is_rising(numbers: &[u32]) -> bool {
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

/// Data frames that arrived at the receiver.
fn arrived(net: &Net, wires: usize) -> u64 {
    (0..wires as u8).filter_map(|n| net.ends[1].channel_stats(ChannelId(n))).map(|stats| stats.received_packets).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// All flows together, whatever is lost, and nothing that arrived is dropped for it.
    #[test]
    fn nothing_is_delivered_out_of_order_whatever_is_lost(
        delays in proptest::collection::vec(0u64..60, 2..6), loss in 0.0..0.4f64, raw: bool, seed: u64,
    ) {
        let wires: Vec<_> = delays.into_iter().map(|d| Wire { loss, ..Wire::new(d) }).collect();
        let count = wires.len();
        let mut net = Net::settled(stripe(count, raw, true), wires, seed);
        let sent = send(&mut net, 300);
        prop_assert_eq!(left(&net), 300);
        check_once(&sent, &net.delivered[1]).map_err(TestCaseError::fail)?;
        let numbers = delivered(&net);
        prop_assert!(is_rising(&numbers), "{numbers:?}");
        let given = net.ends[1].stripe_stats().map_or(0, |(_, stats)| stats.overflow + stats.stale);
        let late = net.ends[1].stats().late;
        prop_assert_eq!(numbers.len() as u64 + given + late, arrived(&net, count));
        prop_assert!(late * 50 <= numbers.len() as u64, "{late} of {}", numbers.len());
    }

    #[test]
    fn without_loss_logical_reception_is_confirmed_for_every_packet(
        delays in proptest::collection::vec(0u64..150, 1..9), seed: u64,
    ) {
        let wires: Vec<_> = delays.into_iter().map(Wire::new).collect();
        let mut net = Net::settled(stripe(wires.len(), true, true), wires, seed);
        send(&mut net, 300);
        prop_assert_eq!(delivered(&net), (0..300).collect::<Vec<_>>());
        prop_assert_eq!(net.ends[1].stats().stripe_misplaced, 0);
    }
}

/// The same losses with numbers and without: markers alone bring the order back only after a while.
#[test]
fn without_the_setting_the_same_losses_put_packets_out_of_order() {
    let run = |confirm: bool| {
        let wires = [5, 20, 35].map(|d| Wire { loss: 0.05, ..Wire::new(d) });
        let mut net = Net::settled(stripe(3, true, confirm), wires.to_vec(), 7);
        send(&mut net, 600);
        (is_rising(&delivered(&net)), net.delivered[1].len(), net.ends[1].stats().stripe_misplaced)
    };
    let ((plain, before, _), (ordered, after, misplaced)) = (run(false), run(true));
    assert!(!plain && ordered && misplaced > 0, "{misplaced} misplaced");
    assert!(before > 500 && after > 500, "{before} and {after} of 600");
}

/// No later packet tells that a channel has passed what was lost: the heartbeat that follows the last one does.
#[test]
fn the_last_packet_does_not_wait_for_the_deadline() {
    let mut net = Net::settled(stripe(2, true, true), vec![Wire::new(5), Wire::new(30)], 3);
    send(&mut net, 50);
    (0..2).for_each(|wire| net.wires[wire].loss = 1.0);
    net.host(0, packet(0, 50, 1200));
    (0..2).for_each(|wire| net.wires[wire].loss = 0.0);
    let begun = net.now;
    net.host(0, packet(0, 51, 1200));
    net.run(Span::from_secs(1));
    let (last, packet) = net.delivered[1].last().expect("delivered");
    assert_eq!(identity(packet).1, 51);
    assert!(last.since(begun) < MS(150), "{:?}", last.since(begun));
}

/// Seen once: a peer with which nothing was agreed for two seconds, as of five channels that lose four frames of ten.
#[test]
fn what_waits_until_the_ends_agree_goes_then_and_arrives_in_order() {
    let wires: Vec<_> = [55, 3, 23, 28, 25].into_iter().map(|d| Wire { loss: 0.3828, ..Wire::new(d) }).collect();
    let mut net = Net::settled(stripe(5, false, true), wires, 15_670_028_124_612_915_504);
    let sent = send(&mut net, 300);
    check_once(&sent, &net.delivered[1]).unwrap();
    let numbers = delivered(&net);
    assert!(is_rising(&numbers) && left(&net) == 300, "{numbers:?}");
    assert_eq!(numbers.len() as u64 + net.ends[1].stats().late, arrived(&net, 5));
}
