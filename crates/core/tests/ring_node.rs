//! Nodes of a ring as a whole: no packet is lost without a name, transit loses nothing, flows keep their order.

mod ring_network;

use fairspan_core::units::{Rate, Span};
use ring_network::{Network, node};

const MBIT: fn(u64) -> Rate = Rate::from_mbit;

#[test]
fn a_packet_crosses_the_ring_in_its_transmissions_and_delays() {
    let mut ring = Network::new(8, MBIT(80), Span::from_micros(100), |config| {
        config.algorithm = "fifo".parse().unwrap();
    });
    // 1000 bytes take 100 us at 80 Mbit/s; three links.
    let flow = ring.flow(1, 4, MBIT(1));
    ring.run(Span::from_micros(599));
    assert_eq!(ring.accounts[flow].delivered, 0);
    ring.run(Span::from_micros(1));
    assert_eq!(ring.accounts[flow].delivered, 1);
    assert_eq!(ring.accounts[flow].latest, Span::from_micros(600));
    let back = ring.flow(1, 7, MBIT(1));
    ring.run(Span::from_millis(7));
    assert_eq!(ring.accounts[back].latest, Span::from_micros(400), "the shorter way: 1, 8, 7");
    ring.assert_conserved();
    assert_eq!(ring.at(8).stats().sent, 1);
    let _ = node(1);
}

#[test]
fn a_parking_lot_is_fair_with_dvsr_and_without_loss_in_transit() {
    let mut ring = Network::new(10, MBIT(100), Span::from_micros(100), |_| {});
    for n in 1..=4 {
        ring.flow(n, 5, MBIT(99));
    }
    ring.run(Span::from_millis(200));
    let rates = ring.received(Span::from_secs(1));
    assert!(rates.iter().all(|rate| (rate - 25.0).abs() < 0.5), "{rates:?}");
    assert_eq!(ring.transit_drops(), 0);
    ring.assert_conserved();
}
