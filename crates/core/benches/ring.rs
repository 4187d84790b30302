//! What a packet costs a node of a ring of 64: in transit, from the station, for the station.
//!
//! Figures are per packet, of which a sample runs 1024, with all calls that a driver makes for one: the input, and every poll
//! until there is nothing. Packets come as fast as the link carries them, from and for all nodes in turn.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairspan_core::packet::Packet;
use fairspan_core::ring::control::Reservation;
use fairspan_core::ring::frame::Head;
use fairspan_core::ring::node::{Config, Node};
use fairspan_core::ring::protection::Path;
use fairspan_core::ring::{Class, NodeId, Ringlet, Side};
use fairspan_core::units::{Bytes, FlowNumber, Rate, Span, Time};

fn main() {
    divan::main();
}

const PACKETS: u64 = 1024;
const NODES: usize = 64;
const SIZE: u32 = 1250;
/// A packet takes 1 us.
const RATE: Rate = Rate::from_mbit(10_000);

#[derive(Clone, Copy)]
struct Length;

impl Packet for Length {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn size(&self) -> Bytes {
        Bytes::new(u64::from(SIZE))
    }

    fn strip(&mut self, _: usize) {}

    fn truncate(&mut self, _: usize) {}

    fn duplicate(&self) -> Option<Length> {
        Some(Length)
    }

    fn from_bytes(_: &[u8]) -> Option<Length> {
        Some(Length)
    }
}

/// Node 32, whose packets to the east take 1 us.
struct At {
    node: Node<Length>,
    now: Time,
    number: usize,
}

impl At {
    fn new(algorithm: &str, set: impl Fn(&mut Config)) -> At {
        let mut config = Config::new(NodeId::at(31), NODES, RATE);
        config.algorithm = algorithm.parse().unwrap();
        config.overhead = [0; 2];
        set(&mut config);
        let node = Node::new(config, Time::ZERO, 1).unwrap();
        At { node, now: Time::ZERO, number: 0 }
    }

    #[inline]
    fn data(&mut self, deliver: bool) {
        self.number += 1;
        let ingress = NodeId::at(self.number % 31);
        let egress = NodeId::at(if deliver { 31 } else { 32 + self.number % 8 });
        let path = Path { ingress, egress, ringlet: Ringlet::Zero, wrapped: false, ttl: 40 };
        let head = Head { path, class: Class::C, shares: true }.encode();
        self.node.handle_data(self.now, Side::West, black_box(head), Length);
    }

    #[inline]
    fn station(&mut self, class: Class) {
        self.number += 1;
        self.node.handle_station(self.now, NodeId::at(32 + self.number % 31), class, FlowNumber(0), Length);
    }

    /// All polls, and the next microsecond.
    #[inline]
    fn drain(&mut self) -> u64 {
        let mut left = 0;
        while self.node.poll_control(self.now).is_some() {}
        while let Some(sent) = self.node.poll_transmit(self.now) {
            left += u64::from(sent.head[2]);
        }
        while let Some(delivery) = self.node.poll_deliver() {
            left += u64::from(delivery.from.number());
        }
        self.now += Span::from_micros(1);
        if self.node.poll_timeout().is_some_and(|time| time <= self.now) {
            self.node.handle_timeout(self.now);
        }
        left
    }

    fn bench(mut self, bencher: Bencher<'_, '_>, mut packet: impl FnMut(&mut At)) {
        for _ in 0..100_000 {
            packet(&mut self);
            self.drain();
        }
        bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
            let mut left = 0;
            for _ in 0..PACKETS {
                packet(&mut self);
                left += self.drain();
            }
            left
        });
    }
}

#[divan::bench(args = ["fifo", "dvsr", "dba", "explicit", "rpr-am", "rpr-cm"])]
fn node_transit(bencher: Bencher<'_, '_>, algorithm: &str) {
    At::new(algorithm, |_| {}).bench(bencher, |at| at.data(false));
}

#[divan::bench(args = ["fifo", "dvsr"])]
fn node_delivers(bencher: Bencher<'_, '_>, algorithm: &str) {
    At::new(algorithm, |_| {}).bench(bencher, |at| at.data(true));
}

/// To 31 egresses whose limiters let everything pass.
#[divan::bench(args = ["fifo", "dvsr"])]
fn node_station(bencher: Bencher<'_, '_>, algorithm: &str) {
    At::new(algorithm, |_| {}).bench(bencher, |at| at.station(Class::C));
}

/// To 31 egresses with a bucket each, all of which hold packets back; every microsecond one lets one pass.
#[divan::bench]
fn node_station_limited(bencher: Bencher<'_, '_>) {
    let at = At::new("dvsr", |config| {
        let rate = Rate::from_bits_per_sec(RATE.as_bits_per_sec() / 32);
        let reservation = |index| Reservation { to: Some(NodeId::at(index)), class: Class::A, rate };
        config.reservations = (32..63).map(reservation).collect();
    });
    at.bench(bencher, |at| at.station(Class::A));
}
