//! Paths that carry less than their links say: noticed while data flows, answered, and fragmented where there is no other way.

use crate::bond_network::{Net, Wire, config, identity, packet};
use fairspan_core::bond::{Config, Event};
use fairspan_core::ip::{Header, Piece};
use fairspan_core::units::{ChannelId, Rate, Span, Time};

const MS: fn(u64) -> Span = Span::from_millis;

/// As the daemon has it: path MTUs are confirmed while large frames go.
fn confirming(wires: usize) -> Config {
    let mut config = config(wires);
    config.probe_mtu = true;
    config.confirm_mtu = MS(100);
    config
}

/// When the bond of end 0 found each path MTU of a channel, from `from` on.
fn path_mtus(
    net: &mut Net,
    channel: u8,
    from: Time,
    until: Time,
    mut traffic: impl FnMut(&mut Net),
) -> Vec<(Span, usize)> {
    let mut found = Vec::new();
    net.events[0].clear();
    while net.now < until {
        traffic(net);
        for event in std::mem::take(&mut net.events[0]) {
            if let Event::PathMtu { channel: of, mtu } = event
                && of == ChannelId(channel)
            {
                found.push((net.now.since(from), mtu));
            }
        }
    }
    found
}

/// An IPv6 UDP datagram of `size` bytes in all.
fn packet6(number: u32, size: usize) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    p[4..6].copy_from_slice(&(size as u16 - 40).to_be_bytes());
    p.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    p.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    p.extend([3, 232, 0, 53]);
    p.extend((size as u16 - 40).to_be_bytes());
    p.extend([0, 0]);
    p.extend(number.to_be_bytes());
    p.resize(size, number as u8);
    p
}

#[test]
fn a_path_that_narrows_under_bulk_data_is_found_at_once_alone_and_in_a_bond_and_the_rest_is_answered() {
    for (wires, narrow) in [(1, 0), (2, 0), (2, 1)] {
        let mut net = Net::settled(confirming(wires), vec![Wire::new(15); wires], 7);
        let mut number = 0;
        let mut bulk = |net: &mut Net| {
            number += 1;
            net.host(0, packet(1, number, 1480));
            net.run(Span::from_micros(400));
        };
        let settled = net.now + MS(2000);
        let before = path_mtus(&mut net, narrow, settled, settled, &mut bulk);
        assert!(before.iter().all(|(_, mtu)| *mtu == 1500), "{before:?}");
        net.wires[usize::from(narrow)].largest = 1400;
        let (from, until) = (net.now, net.now + MS(30_000));
        let found = path_mtus(&mut net, narrow, from, until, &mut bulk);
        let (took, first) = found[0];
        assert!(took <= MS(350) && first == 1280, "{found:?}");
        let (_, last) = *found.last().expect("a path MTU");
        assert!((1397..=1400).contains(&last), "{found:?}");
        // What is too long now is answered with what fits.
        let answers = net.delivered[0].iter().filter(|(_, p)| p[9] == 1 && p[20..22] == [3, 4]).collect::<Vec<_>>();
        let told = answers.last().map(|(_, p)| usize::from(u16::from_be_bytes([p[26], p[27]])));
        assert_eq!(told, Some(net.ends[0].mtu()));
        assert!((1380..=1400).contains(&net.ends[0].mtu()), "{}", net.ends[0].mtu());
    }
}

#[test]
fn a_link_whose_queue_is_full_keeps_its_path_mtu() {
    let narrow = Some((Rate::from_mbit(5), 20_000));
    let mut net = Net::settled(confirming(1), vec![Wire { narrow, ..Wire::new(10) }], 3);
    let mut number = 0;
    let until = net.now + MS(60_000);
    let found = path_mtus(&mut net, 0, Time::ZERO, until, |net| {
        number += 1;
        net.host(0, packet(1, number, 1480));
        net.run(MS(2));
    });
    assert!(net.delivered[1].len() < number as usize * 99 / 100, "packets are lost");
    assert!(found.iter().all(|(_, mtu)| *mtu == 1500), "{found:?}");
}

#[test]
fn a_path_that_widens_again_is_used_again() {
    let mut net = Net::settled(confirming(1), vec![Wire { largest: 1400, ..Wire::new(10) }], 3);
    net.run(MS(30_000));
    assert!((1380..=1400).contains(&net.ends[0].mtu()), "{}", net.ends[0].mtu());
    net.wires[0].largest = 1500;
    net.run(MS(700_000));
    assert!(net.ends[0].mtu() >= 1480, "{}", net.ends[0].mtu());
}

#[test]
fn ipv6_passes_a_path_that_is_too_narrow_for_it_in_fragments_and_hears_of_no_less_than_1280() {
    let mut settings = confirming(1);
    settings.channels[0].mtu = 700;
    let mut net = Net::settled(settings, vec![Wire { largest: 700, ..Wire::new(10) }], 3);
    assert!(net.ends[0].mtu() < 700);
    let sent: Vec<Vec<u8>> = (0..20).map(|n| packet6(n, 1280 - 60 * n as usize)).collect();
    for packet in &sent {
        net.host(0, packet.clone());
    }
    net.run(MS(100));
    let delivered: Vec<Vec<u8>> = net.delivered[1].drain(..).map(|(_, packet)| packet).collect();
    assert_eq!(delivered, sent);

    net.host(0, packet6(77, 1281));
    let (_, answer) = net.delivered[0].pop().expect("an answer");
    assert_eq!((answer[40], &answer[44..48]), (2, &1280u32.to_be_bytes()[..]), "packet too big");

    // IPv4: what may be fragmented is, and the other is answered.
    net.host(0, packet(1, 5, 1200));
    let (_, answer) = net.delivered[0].pop().expect("an answer");
    assert_eq!(usize::from(u16::from_be_bytes([answer[26], answer[27]])), net.ends[0].mtu());
    let mut divisible = packet(1, 6, 1200);
    divisible[6] = 0;
    divisible[10..12].copy_from_slice(&[0, 0]);
    let sum = fairspan_core::ip::checksum::of(&divisible[..20]);
    divisible[10..12].copy_from_slice(&sum.to_be_bytes());
    net.host(0, divisible);
    net.run(MS(100));
    let parts: Vec<Vec<u8>> = net.delivered[1].drain(..).map(|(_, packet)| packet).collect();
    assert_eq!(identity(&parts[0]), (1, 6));
    let pieces: Vec<Piece> = parts.iter().map(|p| Header::parse(p, p.len()).expect("IPv4").piece).collect();
    assert_eq!(pieces.len(), 2);
    assert!(parts.iter().all(|p| p.len() <= net.ends[0].mtu()));
}
