//! A sender that lets little wait is made to wait, until a far channel is called: nothing is lost, left behind or out of order meanwhile.

use crate::bond_explain::{carriers, explained, joined, number};
use crate::bond_network::{Net, check_ordered, packet};
use fairspan_core::bond::Explanation;
use fairspan_core::units::Span;

const WORDS: &str = "before they are sent, and ever longer, until b is called";

/// Two channels of which the far one is in reserve, with nothing under way.
fn near_and_far() -> Net {
    let mut net = joined(&[(50_000, 40), (50_000, 300)], &|_| {});
    net.run(Span::from_secs(1));
    net.delivered[1].clear();
    net
}

fn is_made_to_wait(net: &Net) -> bool {
    explained(net, "all else").because.iter().any(|text| text.contains(WORDS))
}

/// A sender that keeps no queue: bursts of 4 ms, each gone before the next one comes, fill the near channel.
fn burst(net: &mut Net, sent: &mut Vec<Vec<u8>>) {
    for _ in 0..20 {
        let packet = packet(2, sent.len() as u32, 1250);
        net.host(0, packet.clone());
        sent.push(packet);
    }
    net.run(Span::from_micros(4_150));
}

#[test]
fn who_lets_little_wait_is_made_to_and_the_others_are_told_for_how_long_and_all_is_delivered_in_order() {
    let mut net = near_and_far();
    let mut sent = Vec::new();
    let mut waits = Vec::new();
    while carriers(&net, "all else") == [0] {
        assert!(sent.len() < 200_000, "b is never called: {waits:?}");
        (0..240).for_each(|_| burst(&mut net, &mut sent));
        let Explanation { because, .. } = explained(&net, "all else");
        if because.iter().any(|text| text.contains(WORDS)) {
            waits.push(number(&because, WORDS, "ms"));
        }
    }
    assert!(waits.len() > 10 && waits.is_sorted() && waits.last().is_some_and(|ms| *ms > 200.0), "{waits:?}");
    // All that waited goes, in its place.
    (0..240).for_each(|_| burst(&mut net, &mut sent));
    net.run(Span::from_secs(2));
    check_ordered(&sent, &net.delivered[1]).unwrap();
    assert_eq!(net.delivered[1].len(), sent.len());
}

#[test]
fn who_stops_before_has_nothing_left_behind() {
    let mut net = near_and_far();
    let mut sent = Vec::new();
    (0..15 * 240).for_each(|_| burst(&mut net, &mut sent));
    assert!(is_made_to_wait(&net));
    net.run(Span::from_secs(4));
    assert_eq!((net.delivered[1].len(), net.ends[0].waiting().0), (sent.len(), 0));
    check_ordered(&sent, &net.delivered[1]).unwrap();
    assert!(!is_made_to_wait(&net));
}

#[test]
fn what_comes_as_the_wait_ends_overtakes_nothing_that_waits() {
    let mut net = near_and_far();
    let mut sent = Vec::new();
    (0..20 * 240).for_each(|_| burst(&mut net, &mut sent));
    assert!(net.ends[0].waiting().0 > 20, "{:?}", net.ends[0].waiting());
    // The process stood still. Its timers run out late, and packets have come before it sends anything.
    net.now += Span::from_secs(5);
    net.ends[0].handle_timeout(net.now);
    burst(&mut net, &mut sent);
    net.run(Span::from_secs(1));
    check_ordered(&sent, &net.delivered[1]).unwrap();
    assert_eq!(net.delivered[1].len(), sent.len());
}

/// Segment `n` of a TCP connection, of so many bytes; without any it acknowledges.
fn segment(n: u32, payload: usize) -> Vec<u8> {
    let mut p = packet(2, n, 40 + payload);
    p.truncate(24);
    p[9] = 6;
    p[10..12].fill(0);
    let sum = fairspan_core::ip::checksum::of(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend(n.to_be_bytes());
    p.extend([0, 0, 0, 1, 0x50, 0x10, 1, 245, 0, 0, 0, 0]);
    p.resize(40 + payload, n as u8);
    p
}

#[test]
fn an_acknowledgment_overtakes_nothing_of_its_own_connection_that_is_made_to_wait() {
    let mut net = near_and_far();
    let mut sent = Vec::new();
    for _ in 0..15 * 240 {
        for payload in [1200; 20].into_iter().chain([0]) {
            let packet = segment(sent.len() as u32, payload);
            net.host(0, packet.clone());
            sent.push(packet);
        }
        net.run(Span::from_micros(4_150));
    }
    assert!(is_made_to_wait(&net));
    net.run(Span::from_secs(2));
    let delivered: Vec<&[u8]> = net.delivered[1].iter().map(|(_, packet)| &packet[..]).collect();
    assert!(delivered == sent, "{} of {}", delivered.len(), sent.len());
}
