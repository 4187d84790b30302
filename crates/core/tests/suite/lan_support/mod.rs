//! A bond of Ethernet links for tests: its stations, its frames, and its polls drained.

use fairspan_core::lan::{Condition, Config, Event, Lan, LinkConfig, Received, Transmit};
use fairspan_core::units::{ChannelId, Rate, Time};
use fairspan_core::wire::mac::Mac;
use std::net::Ipv4Addr;

pub(crate) const BOND: Mac = Mac([2, 0xb0, 0, 0, 0, 0]);
pub(crate) const PEER: Mac = Mac([2, 0xcc, 0, 0, 0, 1]);
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 3, 31, 194);
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 3, 31, 1);

pub(crate) fn link_mac(n: u8) -> Mac {
    Mac([2, 0xaa, 0, 0, 0, n])
}

pub(crate) fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

pub(crate) fn link(n: u8) -> ChannelId {
    ChannelId(n)
}

pub(crate) fn up(mbit: u64) -> Condition {
    Condition { carrier: true, rate: Some(Rate::from_mbit(mbit)), full_duplex: true }
}

pub(crate) fn down() -> Condition {
    Condition { carrier: false, ..up(1000) }
}

/// A bond of `n` links of 1 Gbit/s, all up at 0 ms.
pub(crate) fn bond(policy: &str, n: u8, change: impl FnOnce(&mut Config)) -> Lan<Vec<u8>> {
    bond_of(policy, (0..n).map(|n| LinkConfig::new(format!("eth{n}"), link_mac(n))).collect(), change)
}

pub(crate) fn bond_of(policy: &str, links: Vec<LinkConfig>, change: impl FnOnce(&mut Config)) -> Lan<Vec<u8>> {
    let mut config = Config::new(policy.parse().expect("a policy"), BOND);
    change(&mut config);
    let n = links.len() as u8;
    let mut bond = Lan::new(config, links, 7).expect("a bond");
    bond.set_addresses(&[HOST.into()]);
    (0..n).for_each(|n| bond.set_link(at(0), link(n), up(1000)));
    bond
}

pub(crate) fn drain(bond: &mut Lan<Vec<u8>>) -> Vec<Transmit<Vec<u8>>> {
    std::iter::from_fn(|| bond.poll_transmit()).collect()
}

pub(crate) fn events(bond: &mut Lan<Vec<u8>>) -> Vec<Event> {
    std::iter::from_fn(|| bond.poll_event()).collect()
}

/// Everything due until `end`.
pub(crate) fn run(bond: &mut Lan<Vec<u8>>, end: Time) -> Vec<(Time, Transmit<Vec<u8>>)> {
    let mut sent = Vec::new();
    while let Some(due) = bond.poll_timeout().filter(|due| *due <= end) {
        bond.handle_timeout(due);
        sent.extend(drain(bond).into_iter().map(|transmit| (due, transmit)));
    }
    sent
}

/// A UDP packet in a frame, from the host to the peer.
pub(crate) fn udp(destination: Mac, source: Mac, port: u16) -> Vec<u8> {
    let mut frame = [&destination.0[..], &source.0, &[8, 0]].concat();
    let mut ip = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 3, 31, 194, 10, 3, 31, 1];
    ip.extend(port.to_be_bytes());
    ip.extend([0, 80, 0, 26, 0, 0]);
    ip.resize(46, 0);
    frame.extend(ip);
    frame
}

pub(crate) fn delivered(received: Received) -> bool {
    matches!(received, Received::Deliver { .. })
}
