//! What a packet costs a selector that remembers flows.
//!
//! Figures are per packet: a sample runs 1024, and the item counter gives packets a second. A million flows are in the
//! table, each with two packets so far, and packets come from them at random; `chained` has each packet wait for the link of the
//! one before it, so that no two lookups overlap. The packet lies in the cache, as one does that has just been read.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairspan_core::rng::Rng;
use fairspan_core::select::{Frame, Layer, LinkState, Links, Select, Selector, Settings};
use fairspan_core::units::{Rate, Span, Time};

fn main() {
    divan::main();
}

const PACKETS: u64 = 1024;
const FLOWS: u32 = 1_000_000;

/// The first bytes of a TCP packet of `flow` over IPv4 on Ethernet.
fn packet(bytes: &mut [u8; 54], flow: u32) {
    bytes[26..30].copy_from_slice(&(flow >> 8).to_be_bytes());
    bytes[34..36].copy_from_slice(&(flow as u16).to_be_bytes());
}

struct Load {
    selector: Selector,
    links: Links,
    bytes: [u8; 54],
    rng: Rng,
    now: Time,
}

impl Load {
    fn new(policy: &str) -> Load {
        let settings: Settings = policy.parse().unwrap();
        let state = LinkState { rate: Some(Rate::from_mbit(1000)), delay: Some(Span::ZERO), ..LinkState::default() };
        let links = Links::new([state; 4]);
        let selector = Selector::new(&settings, &links, 1).unwrap();
        let mut bytes = [0u8; 54];
        bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, 6]);
        let mut load = Load { selector, links, bytes, rng: Rng::new(2), now: Time::ZERO };
        for flow in (0..FLOWS).chain(0..FLOWS) {
            load.send(flow);
        }
        load
    }

    #[inline]
    fn send(&mut self, flow: u32) -> u64 {
        self.now += Span::from_nanos(100);
        packet(&mut self.bytes, flow);
        let frame = Frame { bytes: &self.bytes, len: 1500, layer: Layer::Ethernet };
        self.selector.select(self.now, &frame, &self.links).bits()
    }

    fn run(&mut self, chained: bool) {
        let mut last = 0;
        for _ in 0..PACKETS {
            // The same flow as without the last link, which is nowhere above 16.
            let chain = if chained { (black_box(last) >> 32) as u32 } else { 0 };
            let flow = self.rng.below(u64::from(FLOWS)) as u32 ^ chain;
            last = self.send(flow);
        }
        black_box(last);
    }
}

/// 2^21 places: a table twice the flows that it is to remember. Within bursts (1 s) and at the start of one each (1 us).
const POLICIES: [&str; 5] = [
    "brr:1s,flows=2097152",
    "brr:1us,flows=2097152",
    "brr:adaptive,flows=2097152",
    "flowlet:1s,flows=2097152",
    "potent:1s,flows=2097152",
];

#[divan::bench(args = POLICIES)]
fn million_flows(bencher: Bencher, policy: &str) {
    let mut load = Load::new(policy);
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| load.run(false));
}

#[divan::bench(args = POLICIES)]
fn million_flows_chained(bencher: Bencher, policy: &str) {
    let mut load = Load::new(policy);
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| load.run(true));
}

#[divan::bench]
fn new_flows_only(bencher: Bencher) {
    let mut load = Load::new("brr:12ms");
    let mut flow = FLOWS;
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for _ in 0..PACKETS {
            flow = flow.wrapping_add(1);
            black_box(load.send(flow));
        }
    });
}
