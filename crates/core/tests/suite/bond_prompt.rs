//! What goes before all others, where it is more than the channel carries that brings it first.

use crate::bond_explain::joined;
use crate::bond_network::{Net, check_once, identity, packet};
use fairspan_core::units::{ChannelId, Span, Time};

const MS: fn(u64) -> Span = Span::from_millis;

/// A packet of DSCP EF, with the header's checksum made anew.
fn urgent(number: u32) -> Vec<u8> {
    let mut packet = packet(3, number, 200);
    (packet[1], packet[10], packet[11]) = (46 << 2, 0, 0);
    let sum = fairspan_core::ip::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// For how long each of 2500 urgent packets is under way, of which 4 Mbit/s come from the host for one second.
fn delays(net: &mut Net) -> Vec<Span> {
    net.run(MS(200));
    let before = net.delivered[1].len();
    let mut sent: Vec<(Time, Vec<u8>)> = Vec::new();
    for number in 0..2500 {
        sent.push((net.now, urgent(number)));
        net.host(0, urgent(number));
        net.run(Span::from_micros(400));
    }
    net.run(MS(500));
    let delivered = &net.delivered[1][before..];
    let packets: Vec<Vec<u8>> = sent.iter().map(|(_, packet)| packet.clone()).collect();
    check_once(&packets, delivered).unwrap();
    assert_eq!(delivered.len(), sent.len(), "none is lost");
    delivered.iter().map(|(at, packet)| at.since(sent[identity(packet).1 as usize].0)).collect()
}

#[test]
fn what_is_too_much_for_the_near_channel_goes_by_the_far_one_at_once_and_not_when_it_has_waited() {
    let mut net = joined(&[(2_000, 10), (100_000, 50)], &|config| {
        (config.spare_copies, config.parity) = (false, false);
    });
    let mut delays = delays(&mut net);
    delays.sort();
    let most = delays[delays.len() * 99 / 100];
    // The far one's 50 ms, and what the first wait until it is clear that it is too much. Whoever waited for the near one first, for as long as the far one takes
    // longer, would come after 90 and more.
    assert!(most <= MS(80), "the hundredth takes {most:?}");
    assert!(delays[0] < MS(15), "the near one is used: {:?}", delays[0]);
}

/// An acknowledgement of this connection, without options.
fn ack(connection: u8, number: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, connection, 10, 0, 1, 1];
    let sum = fairspan_core::ip::checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&[0, 80, 1, connection, 0, 0, 0, 9]);
    packet.extend_from_slice(&number.to_be_bytes());
    packet.extend_from_slice(&[0x50, 0x10, 2, 0, 0, 0, 0, 0]);
    packet
}

/// Of each connection the numbers that arrived, in their order.
fn told(delivered: &[(Time, Vec<u8>)], connection: u8) -> Vec<u32> {
    let of = delivered.iter().filter(|(_, packet)| packet[9] == 6 && packet[15] == connection);
    of.map(|(_, packet)| ack_number(packet)).collect()
}

fn ack_number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[28..32].try_into().unwrap())
}

#[test]
fn acknowledgements_leave_room_on_a_channel_and_what_they_tell_arrives() {
    for filter in [true, false] {
        let mut net = joined(&[(1_000, 10)], &|config| config.ack_filter = filter);
        net.run(MS(300));
        let (before, sent) = (net.delivered[1].len(), net.ends[0].channel_stats(ChannelId(0)).unwrap().sent_bytes);
        // Four connections, each with a segment acknowledged every millisecond, and one of a hundred three times more, as where one is lost.
        for number in 1..=2000u32 {
            for connection in 1..=4 {
                for _ in 0..if number % 100 == 0 { 4 } else { 1 } {
                    net.host(0, ack(connection, 1000 * number));
                }
            }
            net.run(MS(1));
        }
        let bits = 8 * (net.ends[0].channel_stats(ChannelId(0)).unwrap().sent_bytes - sent);
        net.run(MS(500));
        let superseded = net.ends[0].stats().acks_superseded;
        if !filter {
            assert!(superseded == 0 && bits > 1_800_000, "the check sees the difference: {bits} bits in 2 s");
            continue;
        }
        // Four fifths of 1 Mbit/s, and 10 ms at once.
        assert!((1_500_000..=1_620_000).contains(&bits), "{bits} bits in 2 s over 1 Mbit/s");
        assert!(superseded > 3_000, "{superseded}");
        for connection in 1..=4 {
            let numbers = told(&net.delivered[1][before..], connection);
            assert!(numbers.is_sorted(), "{numbers:?}");
            let last = numbers.iter().filter(|told| **told == 2_000_000).count();
            assert_eq!(last, 4, "the last one, which tells of all, and its duplicates: {numbers:?}");
        }
    }
}

/// How long acknowledgements take on average beside data that are more than these channels carry.
fn beside_data(links: &[(u64, u64)]) -> Span {
    let mut net = joined(links, &|config| (config.reserve, config.sparse) = (false, false));
    let before = net.delivered[1].len();
    let mut sent = Vec::new();
    for number in 0..4000u32 {
        net.host(0, packet(5, number, 1200));
        if number % 10 == 9 {
            sent.push(net.now);
            net.host(0, ack(1, number));
        }
        net.run(MS(2));
    }
    net.run(MS(1000));
    let acks = net.delivered[1][before..].iter().filter(|(_, packet)| packet[9] == 6);
    let took: Vec<Span> = acks.map(|(at, packet)| at.since(sent[ack_number(packet) as usize / 10])).collect();
    assert_eq!(took.len(), sent.len(), "none is lost");
    Span::from_nanos(took.iter().map(|span| span.as_nanos()).sum::<u64>() / took.len() as u64)
}

#[test]
fn acknowledgements_pass_data_by_the_nearest_channel() {
    for links in [&[(4_000, 10)][..], &[(2_000, 10), (2_000, 100)]] {
        let took = beside_data(links);
        assert!(took < MS(25), "by a channel of 10 ms, where data wait: {took:?}");
    }
}
