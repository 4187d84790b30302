//! What goes before all others, where it is more than the channel carries that brings it first.

use crate::bond_explain::joined;
use crate::bond_network::{Net, check_once, identity, packet};
use fairspan_core::units::{Span, Time};

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
