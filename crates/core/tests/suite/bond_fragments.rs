//! Mode `stripe` with `fragment_delay`: long packets in fragments, urgent ones ahead of them.

use crate::bond_network::{Flight, Net, Wire, check_once, config, identity, packet};
use fairspan_core::bond::{Config, Mode, Scheduler};
use fairspan_core::congestion::Algorithm;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use proptest::prelude::*;

const MS: fn(u64) -> Span = Span::from_millis;
/// DSCP EF.
const EF: u8 = 46 << 2;

/// Channels of these rates in kbit/s.
fn cuts(rates: &[u64], delay: Span) -> Config {
    let mut settings = config(rates.len());
    (settings.mode, settings.fragment_delay) = (Mode::Stripe, Some(delay));
    // What would disturb the counts; and room for what is sent at once.
    (settings.probe_mtu, settings.queue_time) = (false, Span::from_secs(10));
    for (channel, kbit) in settings.channels.iter_mut().zip(rates) {
        channel.rate = Some(Rate::from_bits_per_sec(kbit * 1000));
    }
    settings
}

/// Links that carry just these rates, and hold whatever they are given.
fn wires(rates: &[u64], delays: &[u64]) -> Vec<Wire> {
    let wire = |(kbit, delay): (&u64, &u64)| Wire {
        narrow: Some((Rate::from_bits_per_sec(kbit * 1000), usize::MAX / 2)),
        ..Wire::new(*delay)
    };
    rates.iter().zip(delays).map(wire).collect()
}

fn urgent(number: u32, size: usize) -> Vec<u8> {
    let mut packet = packet(9, number, size);
    (packet[1], packet[10], packet[11]) = (EF, 0, 0);
    let sum = fairspan_core::ip::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The numbers of one flow's packets as they were delivered.
fn delivered(net: &Net, flow: u16) -> Vec<u32> {
    net.delivered[1].iter().map(|(_, packet)| identity(packet)).filter(|of| of.0 == flow).map(|of| of.1).collect()
}

/// Keeps the queue full for `ms` milliseconds and sends an urgent packet of 200 bytes each 47 ms: what was sent, and when each of those.
fn load(net: &mut Net, ms: u64) -> (Vec<Vec<u8>>, Vec<Time>) {
    let (mut sent, mut times) = (vec![], vec![]);
    for at in 0..ms {
        while net.ends[0].waiting().0 < 3 {
            let size = 100 + net.rng.below(1300) as usize;
            sent.push(packet(0, sent.len() as u32, size));
            net.host(0, sent[sent.len() - 1].clone());
        }
        if at % 47 == 46 {
            sent.push(urgent(times.len() as u32, 200));
            times.push(net.now);
            net.host(0, sent[sent.len() - 1].clone());
        }
        net.run(MS(1));
    }
    (sent, times)
}

/// The longest that an urgent packet took beyond the way of the only link and its own transmission.
fn longest_wait(net: &Net, times: &[Time], rate: Rate, delay: Span) -> Span {
    let urgent = net.delivered[1].iter().filter(|(_, packet)| packet[1] == EF);
    let own = rate.transmit_time(Bytes::new(202));
    urgent.map(|(at, packet)| at.since(times[identity(packet).1 as usize]) - delay - own).max().expect("some arrived")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn without_loss_every_packet_arrives_once_and_in_order(
        rates in proptest::collection::vec(300u64..4000, 1..5), delays in proptest::collection::vec(0u64..60, 5),
        ms in 8u64..40, feedback: bool, seed: u64,
    ) {
        let mut settings = cuts(&rates, MS(ms));
        settings.feedback = feedback;
        let mut net = Net::settled(settings, wires(&rates, &delays), seed);
        let (sent, times) = load(&mut net, 800);
        net.run(Span::from_secs(3));
        check_once(&sent, &net.delivered[1]).map_err(TestCaseError::fail)?;
        prop_assert_eq!(net.delivered[1].len(), sent.len());
        let bulk = delivered(&net, 0);
        prop_assert!(bulk.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", bulk);
        prop_assert_eq!(delivered(&net, 9).len(), times.len());
        let (here, there) = (net.ends[0].fragment_counts().unwrap(), net.ends[1].fragment_counts().unwrap());
        prop_assert_eq!(there.joined, bulk.len() as u64);
        prop_assert_eq!((there.lost, there.discarded), (0, 0));
        prop_assert!(here.sent >= there.joined);
        prop_assert_eq!(net.ends[1].resequencing_bytes(), 0);
    }

    #[test]
    fn what_is_lost_costs_its_own_packets_and_neither_the_order_nor_a_wait_without_end(
        rates in proptest::collection::vec(300u64..4000, 1..5), delays in proptest::collection::vec(0u64..60, 5),
        loss in 0.01f64..0.3, seed: u64,
    ) {
        let mut net = Net::settled(cuts(&rates, MS(10)), wires(&rates, &delays), seed);
        net.wires.iter_mut().for_each(|wire| wire.loss = loss);
        let (mut sent, _) = load(&mut net, 800);
        net.wires.iter_mut().for_each(|wire| wire.loss = 0.0);
        // Of what was lost at the very end a receiver knows by what comes later only.
        sent.push(packet(0, sent.len() as u32, 100));
        net.host(0, sent[sent.len() - 1].clone());
        net.run(Span::from_secs(3));
        check_once(&sent, &net.delivered[1]).map_err(TestCaseError::fail)?;
        let bulk = delivered(&net, 0);
        prop_assert!(bulk.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", bulk);
        prop_assert_eq!(net.ends[1].resequencing_bytes(), 0, "nothing is left behind");
        // What nothing of was lost is delivered: as many fragments as are missing cost as many packets at most.
        let counts = net.ends[1].fragment_counts().unwrap();
        let bulk_sent = sent.iter().filter(|packet| packet[1] != EF).count() as u64;
        prop_assert_eq!(counts.joined, bulk.len() as u64);
        prop_assert!(bulk_sent - counts.joined <= counts.lost + net.ends[0].stats().memory_refused, "{:?} of {}", counts, bulk_sent);
    }
}

#[test]
fn an_urgent_packet_waits_at_most_the_fragment_delay_and_longer_where_packets_go_whole() {
    let (rate, delay) = (Rate::from_bits_per_sec(1_000_000), MS(5));
    for ms in [3, 5, 8] {
        let mut net = Net::settled(cuts(&[1000], MS(ms)), wires(&[1000], &[5]), 3);
        let (_, times) = load(&mut net, 4000);
        let wait = longest_wait(&net, &times, rate, delay);
        // And the bond's own messages that left meanwhile: a heartbeat, an echo request and a reply, of 72 bytes together.
        assert!(wait <= MS(ms) + rate.transmit_time(Bytes::new(72)), "{wait:?} of {ms} ms");
        // The link is kept busy, so some packet waits for most of it.
        assert!(wait.times(2) > MS(ms), "{wait:?} of {ms} ms");
    }
    let mut whole = cuts(&[1000], MS(5));
    (whole.fragment_delay, whole.mode) = (None, Mode::Reliable);
    let mut net = Net::settled(whole, wires(&[1000], &[5]), 3);
    let (_, times) = load(&mut net, 4000);
    let wait = longest_wait(&net, &times, rate, delay);
    assert!(wait > MS(10), "a packet of 1400 bytes takes 11 ms: {wait:?}");
}

#[test]
fn links_are_shared_by_their_rates_and_kept_busy() {
    let rates = [2000, 1000, 500];
    let mut net = Net::settled(cuts(&rates, MS(10)), wires(&rates, &[10, 20, 30]), 5);
    load(&mut net, 1000);
    let bytes = |n: u8| net.ends[0].channel_stats(ChannelId(n)).unwrap().sent_bytes;
    let before = [0, 1, 2].map(bytes);
    let mut net = net;
    load(&mut net, 4000);
    for (n, rate) in rates.into_iter().enumerate() {
        let sent = net.ends[0].channel_stats(ChannelId(n as u8)).unwrap().sent_bytes - before[n];
        let carries = rate * 1000 / 8 * 4;
        // Not less by more than a twentieth, as the next channel is waited for while others have run out of what they were given; and not more by
        // more than a quantum at the end.
        let (least, most) = (carries - carries / 20, carries + carries / 100);
        assert!((least..=most).contains(&sent), "channel {n}: {sent} of {carries}");
    }
}

#[test]
fn a_process_that_starts_again_is_understood_at_either_end() {
    for end in [0, 1] {
        let settings = cuts(&[2000, 1000], MS(10));
        let mut net = Net::settled(settings.clone(), wires(&[2000, 1000], &[5, 20]), 8);
        load(&mut net, 3000);
        net.restart(end, settings, 77);
        net.run(MS(1500));
        let before = net.delivered[1].len();
        let (sent, times) = load(&mut net, 1000);
        net.run(Span::from_secs(2));
        let after = &net.delivered[1][before..];
        check_once(&sent, after).unwrap();
        assert_eq!(after.len(), sent.len(), "end {end}");
        assert!(times.len() > 20);
    }
}

/// Where the peer has not said that it puts fragments together, packets go whole and are delivered as they come.
#[test]
fn a_peer_without_the_setting_gets_packets_whole() {
    let settings = cuts(&[2000, 1000], MS(10));
    let mut other = settings.clone();
    (other.mode, other.fragment_delay) = (Mode::Ordered, None);
    let mut net = Net::new([settings.clone(), other], wires(&[2000, 1000], &[5, 20]), 4);
    let joins = |net: &Net| net.ends.each_ref().map(|end| end.peer_joins());
    assert_eq!(joins(&net), [None, None], "nothing has come");
    net.run(MS(700));
    assert_eq!(joins(&net), [Some(false), Some(true)]);
    let (sent, _) = load(&mut net, 500);
    net.run(Span::from_secs(2));
    check_once(&sent, &net.delivered[1]).unwrap();
    assert_eq!(net.delivered[1].len(), sent.len());
    assert_eq!((net.ends[0].fragment_counts().unwrap().sent, net.ends[1].fragment_counts()), (0, None));
    net.restart(1, settings, 5);
    net.run(MS(700));
    assert_eq!(joins(&net), [Some(true), Some(true)], "what the process before said is forgotten");
}

/// RFC 3168 section 5.3.
#[test]
fn congestion_that_any_fragment_met_is_told_to_the_packet() {
    fn marks(flight: &mut Flight, _: &mut Rng) {
        // The last fragments of packets, as their flags say.
        if flight.bytes[0] & 15 == 15 && flight.bytes[2] == 0x43 {
            flight.tos |= 3;
        }
    }
    let mut net = Net::settled(cuts(&[1000], MS(5)), wires(&[1000], &[5]), 4);
    net.mangle = Some(marks);
    for (number, ecn, size) in [(0, 2, 1400), (1, 2, 100)] {
        let mut packet = packet(0, number, size);
        (packet[1], packet[10], packet[11]) = (ecn, 0, 0);
        let sum = fairspan_core::ip::checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        net.host(0, packet);
    }
    net.run(Span::from_secs(1));
    let marks: Vec<u8> = net.delivered[1].iter().map(|(_, packet)| packet[1] & 3).collect();
    assert_eq!(marks, [3, 2], "the long one met it with its last fragment, the short one had no such fragment");
}

/// A card fills what is shorter than 46 bytes up with zeros, and null fragments are; they are no packets for that.
#[test]
fn null_fragments_that_a_card_filled_up_are_null_fragments() {
    fn pad(flight: &mut Flight, _: &mut Rng) {
        let least = flight.bytes.len().max(46);
        flight.bytes.resize(least, 0);
    }
    let rates = [2000, 1000];
    let mut counted = vec![];
    for mangle in [None, Some(pad as fn(&mut Flight, &mut Rng))] {
        let mut net = Net::settled(cuts(&rates, MS(10)), wires(&rates, &[5, 20]), 6);
        net.mangle = mangle;
        for number in 0..20 {
            net.host(0, packet(0, number, 500));
            net.run(MS(100));
        }
        let (sent, there) = (net.ends[0].fragment_counts().unwrap().sent, net.ends[1].fragment_counts().unwrap());
        assert_eq!((net.ends[1].stats().bad_packet, delivered(&net, 0)), (0, (0..20).collect()));
        let received = [0, 1].map(|n| net.ends[1].channel_stats(ChannelId(n)).unwrap().received_packets);
        counted.push((sent, there.joined, there.lost, received));
    }
    assert_eq!(counted[0], counted[1]);
    assert_eq!(counted[0].1, 20);
}

/// No later fragment tells that a link has passed what was lost: the null fragment that follows does.
#[test]
fn the_last_packet_does_not_wait_for_the_deadline() {
    let mut net = Net::settled(cuts(&[4000, 4000], MS(10)), wires(&[4000, 4000], &[5, 30]), 3);
    load(&mut net, 200);
    // Between two heartbeats, so that the channels may send at once.
    net.run(Span::from_millis(1041));
    (0..2).for_each(|wire| net.wires[wire].loss = 1.0);
    net.host(0, packet(0, 5000, 500));
    (0..2).for_each(|wire| net.wires[wire].loss = 0.0);
    let begun = net.now;
    net.host(0, packet(0, 5001, 500));
    net.run(Span::from_secs(1));
    let (last, packet) = net.delivered[1].last().expect("delivered");
    assert_eq!(identity(packet).1, 5001);
    assert!(last.since(begun) < MS(100), "{:?}", last.since(begun));
    let ids: Vec<u32> = delivered(&net, 0).into_iter().filter(|number| *number >= 4999).collect();
    assert_eq!(
        net.ends[1].fragment_counts().unwrap().lost,
        1,
        "{ids:?} {:?} {:?}",
        net.ends[0].fragment_counts(),
        net.ends[1].fragment_counts()
    );
}

#[test]
fn what_cannot_work_together_is_refused_and_says_what_would() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut settings = cuts(&[1000, 1000], MS(10));
        settings.validate().unwrap();
        change(&mut settings);
        settings.validate().unwrap_err().to_string()
    };
    assert!(refused(&|c| c.mode = Mode::Ordered).contains("use mode stripe"));
    assert!(refused(&|c| c.scheduler = Scheduler::Rr).contains("use scheduler srr"));
    assert!(refused(&|c| c.credits = true).contains("leave them out"));
    assert!(refused(&|c| c.confirm_order = true).contains("leave them out"));
    assert!(refused(&|c| c.channels[1].rate = None).contains("give each channel its rate"));
    assert!(refused(&|c| c.channels[1].rate = Some(Rate::from_bits_per_sec(20_000))).contains("make it longer"));
    assert!(refused(&|c| c.congestion = Some(Algorithm::Cubic)).contains("leave congestion out"));
    assert!(refused(&|c| c.channels[0].burst = Some(Bytes::new(9000))).contains("leave burst out"));
    assert!(refused(&|c| c.fragment_delay = Some(Span::from_secs(2))).contains("fragment_delay"));
}
