//! What a packet costs a selector: one that remembers flows, and those that look at headers only (`headers_*`).
//!
//! Figures are per packet: a sample runs 1024, and the item counter gives packets a second. A million flows are in the
//! table of those that remember them, each with two packets so far, and packets come from them at random. The packets of a
//! sample are written before its clock starts and lie in the cache, as what has just been read does; in `chained` each
//! packet waits for the link of the one before it, so that no two lookups overlap: that is latency, the other is what a
//! batch of packets costs.

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

/// The first bytes of a TCP packet over IPv4 on Ethernet.
type Head = [u8; 64];

/// Of `flow`.
fn packet(flow: u32) -> Head {
    let mut bytes = [0; 64];
    bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, 6]);
    bytes[26..30].copy_from_slice(&(flow >> 8).to_be_bytes());
    bytes[34..36].copy_from_slice(&(flow as u16).to_be_bytes());
    bytes
}

struct Load {
    selector: Selector,
    links: Links,
    now: Time,
}

impl Load {
    fn new(policy: &str) -> Load {
        let settings: Settings = policy.parse().unwrap();
        let state = LinkState { rate: Some(Rate::from_mbit(1000)), delay: Some(Span::ZERO), ..LinkState::default() };
        let links = Links::new([state; 4]);
        let selector = Selector::new(&settings, &links, 1).unwrap();
        let mut load = Load { selector, links, now: Time::ZERO };
        for flow in (0..FLOWS).chain(0..FLOWS) {
            load.send(&packet(flow));
        }
        load
    }

    #[inline]
    fn send(&mut self, bytes: &Head) -> u64 {
        self.now += Span::from_nanos(100);
        let frame = Frame { bytes, len: 1500, layer: Layer::Ethernet };
        self.selector.select(self.now, &frame, &self.links).bits()
    }

    fn run(&mut self, packets: &[Head], chained: bool) {
        let mut last = 0;
        for n in 0..packets.len() {
            // The same packet as without the last link, which is nowhere above 16.
            let chain = if chained { (black_box(last) >> 32) as usize } else { 0 };
            last = self.send(&packets[n ^ chain]);
        }
        black_box(last);
    }
}

fn random(bencher: Bencher, policy: &str, chained: bool) {
    let (mut load, mut rng) = (Load::new(policy), Rng::new(2));
    let packets = || (0..PACKETS).map(|_| packet(rng.below(u64::from(FLOWS)) as u32)).collect::<Vec<_>>();
    bencher
        .counter(ItemsCount::new(PACKETS))
        .with_inputs(packets)
        .bench_local_refs(|packets| load.run(packets, chained));
}

/// 2^21 places: a table twice the flows that it is to remember. Within bursts (1 s) and at the start of one each (1 us).
const POLICIES: [&str; 5] = [
    "brr:1s,flows=2097152",
    "brr:1us,flows=2097152",
    "brr:adaptive,flows=2097152",
    "flowlet:1s,flows=2097152",
    "potent:1s,flows=2097152",
];

#[divan::bench(args = POLICIES, sample_count = 500, sample_size = 1)]
fn million_flows(bencher: Bencher, policy: &str) {
    random(bencher, policy, false);
}

#[divan::bench(args = POLICIES, sample_count = 500, sample_size = 1)]
fn million_flows_chained(bencher: Bencher, policy: &str) {
    random(bencher, policy, true);
}

#[divan::bench(sample_count = 500, sample_size = 1)]
fn new_flows_only(bencher: Bencher) {
    let (mut load, mut flow) = (Load::new("brr:12ms"), FLOWS);
    let packets = || {
        flow += PACKETS as u32;
        (0..PACKETS as u32).map(|n| packet(flow.wrapping_add(n))).collect::<Vec<_>>()
    };
    bencher.counter(ItemsCount::new(PACKETS)).with_inputs(packets).bench_local_refs(|packets| load.run(packets, false));
}

/// What the machine asks for alone: reads at random in 16 MB, as much as the table has, each of which waits for the one before it.
#[divan::bench(sample_count = 500, sample_size = 1)]
fn reads_in_sixteen_megabytes_chained(bencher: Bencher) {
    let lines: Vec<[u64; 8]> = (0..1u64 << 18).map(|n| [n; 8]).collect();
    let (mut rng, mut last) = (Rng::new(3), 0);
    let places = || (0..PACKETS).map(|_| rng.below(1 << 18) as usize).collect::<Vec<_>>();
    bencher.counter(ItemsCount::new(PACKETS)).with_inputs(places).bench_local_refs(|places| {
        for place in places.iter() {
            // No line holds a number as large as that.
            last = lines[place ^ (last >> 40) as usize][last as usize & 7];
        }
        black_box(last);
    });
}

/// Policies that remember no flows, and the frames that show what they look at.
const STATELESS: [&str; 10] = [
    "balance-rr",
    "active-backup",
    "balance-xor:layer2",
    "balance-xor:layer2+3",
    "balance-xor:layer3+4",
    "balance-xor:encap2+3",
    "balance-xor:encap3+4",
    "balance-xor:vlan+srcmac",
    "layer34-xor",
    "balance-tlb",
];

/// A TCP packet over IPv4 or IPv6, or one over IPv4 in Ethernet in GRE in IPv4.
#[derive(Clone, Copy, Debug)]
enum Headers {
    V4,
    V6,
    Tunnel,
}

impl Headers {
    /// The frame, its length, and where the ports lie.
    fn frame(self) -> ([u8; 128], usize, usize) {
        let ipv4 = |protocol: u8| [0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let mut bytes = Vec::from([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        match self {
            Headers::V4 => bytes.extend(ipv4(6)),
            Headers::V6 => {
                bytes[12..].copy_from_slice(&[0x86, 0xdd]);
                bytes.extend([0x60, 0, 0, 0, 5, 180, 6, 64]);
                bytes.extend([7; 32]);
            }
            Headers::Tunnel => {
                let inner = bytes.clone();
                bytes.extend(ipv4(47));
                bytes.extend([0x20, 0, 0x65, 0x58, 0, 0, 0, 1]);
                bytes.extend(inner);
                bytes.extend(ipv4(6));
            }
        }
        let (mut frame, ports) = ([0; 128], bytes.len());
        frame[..ports].copy_from_slice(&bytes);
        (frame, ports + 20, ports)
    }
}

fn headers(bencher: Bencher, policy: &str, kind: Headers) {
    let (mut bytes, cut, ports) = kind.frame();
    let links = Links::new([LinkState { rate: Some(Rate::from_mbit(1000)), ..LinkState::default() }; 4]);
    let mut selector = Selector::new(&policy.parse().unwrap(), &links, 1).unwrap();
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for n in 0..PACKETS as u16 {
            bytes[ports..ports + 2].copy_from_slice(&n.to_be_bytes());
            let frame = Frame { bytes: black_box(&bytes[..cut]), len: 1514, layer: Layer::Ethernet };
            black_box(selector.select(Time::ZERO, &frame, &links));
        }
    });
}

#[divan::bench(args = STATELESS)]
fn headers_v4(bencher: Bencher, policy: &str) {
    headers(bencher, policy, Headers::V4);
}

#[divan::bench(args = STATELESS)]
fn headers_v6(bencher: Bencher, policy: &str) {
    headers(bencher, policy, Headers::V6);
}

#[divan::bench(args = STATELESS)]
fn headers_tunnel(bencher: Bencher, policy: &str) {
    headers(bencher, policy, Headers::Tunnel);
}
