//! What a packet costs a queue: in and out, with 10, 10,000 and 1,000,000 flows that always have packets waiting.
//!
//! Figures are per 1024 packets, each of which goes in and comes out once; the item counter gives packets a second. Each flow
//! has two packets waiting, of 40 to 1500 bytes. For a packet that goes, one comes of the flow that was served 64 packets
//! before (5, with ten flows), whose state so has to be found again. Time goes on by what a packet takes at 10 Gbit/s.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairspan_core::buffer::Limit;
use fairspan_core::options::Family;
use fairspan_core::queue::{Config, DisciplineConfig, Opaque, Queue};
use fairspan_core::rng::Rng;
use fairspan_core::units::{FlowNumber, Span, Time};

fn main() {
    divan::main();
}

const PACKETS: u32 = 1024;
const FLOWS: [u32; 3] = [10, 10_000, 1_000_000];

struct Load {
    queue: Queue<Opaque<u32>>,
    sizes: Vec<u32>,
    served: Vec<u32>,
    at: usize,
    now: Time,
    waiting: usize,
}

impl Load {
    fn new(discipline: &str, buffer: &str, flows: u32) -> Load {
        let mut config = Config::default();
        (config.discipline, config.buffer) = (discipline.parse().unwrap(), buffer.parse().unwrap());
        config.limit = Limit::Packets(4 * flows);
        let mut rng = Rng::new(7);
        let mut load = Load {
            queue: Queue::new(&config, 1).unwrap(),
            sizes: (0..PACKETS).map(|_| 40 + rng.below(1461) as u32).collect(),
            served: Vec::new(),
            at: 0,
            now: Time::ZERO,
            waiting: 2 * flows as usize,
        };
        // In no order of theirs, as flows come.
        let mut order: Vec<u32> = (0..flows).collect();
        for place in (1..order.len()).rev() {
            order.swap(place, rng.below(place as u64 + 1) as usize);
        }
        load.served = order.iter().take(64.min(flows as usize / 2)).copied().collect();
        for _ in 0..2 {
            order.iter().for_each(|flow| load.put(*flow));
        }
        for _ in 0..4 * flows {
            load.pass();
        }
        load
    }

    #[inline]
    fn put(&mut self, flow: u32) {
        let size = self.sizes[self.at % PACKETS as usize];
        let _ = self.queue.enqueue(self.now, FlowNumber(flow), Opaque { packet: flow, size });
        while self.queue.poll_dropped().is_some() {}
    }

    /// A packet goes, and comes.
    #[inline]
    fn pass(&mut self) {
        let Some(entry) = self.queue.dequeue(self.now) else { return };
        self.now += Span::from_nanos(u64::from(entry.size) * 8 / 10);
        let place = self.at % self.served.len();
        self.at += 1;
        let flow = core::mem::replace(&mut self.served[place], entry.flow.0);
        self.put(flow);
        // What a policy drops is made up for.
        while self.queue.packets() + 1 < self.waiting {
            self.put(flow);
        }
    }

    fn bench(mut self, bencher: Bencher) {
        bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| (0..PACKETS).for_each(|_| self.pass()));
    }
}

fn disciplines() -> impl Iterator<Item = (&'static str, u32)> {
    DisciplineConfig::MEMBERS.iter().flat_map(|member| FLOWS.map(|flows| (member.name, flows)))
}

/// Each discipline, with drop-tail.
#[divan::bench(args = disciplines().map(|(name, flows)| format!("{name} {flows}")))]
fn discipline(bencher: Bencher, case: &str) {
    let (name, flows) = case.split_once(' ').unwrap();
    Load::new(name, "drop-tail", flows.parse().unwrap()).bench(bencher);
}

fn policies() -> impl Iterator<Item = String> {
    let names = ["drop-tail", "longest-queue", "pfd", "pfd:quasi=on", "codel", "pie", "red"];
    names.into_iter().flat_map(|name| FLOWS.map(|flows| format!("{name} {flows}")))
}

/// Policies over deficit round robin, half of whose buffer is taken: PFD drops one in fifty.
#[divan::bench(args = policies())]
fn policy(bencher: Bencher, case: &str) {
    let (name, flows) = case.split_once(' ').unwrap();
    Load::new("drr", name, flows.parse().unwrap()).bench(bencher);
}

/// The same over hosts, of which there is one.
#[divan::bench(args = ["drop-tail", "pfd", "pfd:quasi=on"].into_iter().flat_map(|name| FLOWS.map(|flows| format!("{name} {flows}"))))]
fn policy_of_hosts(bencher: Bencher, case: &str) {
    let (name, flows) = case.split_once(' ').unwrap();
    Load::new("hosts", name, flows.parse().unwrap()).bench(bencher);
}

/// A packet in and out that finds nothing else waiting, of 64 flows in turn.
#[divan::bench(args = ["fifo drop-tail", "drr drop-tail", "hosts drop-tail", "hosts pfd-adaptive"])]
fn alone(bencher: Bencher, case: &str) {
    let (discipline, buffer) = case.split_once(' ').unwrap();
    let mut config = Config::default();
    (config.discipline, config.buffer) = (discipline.parse().unwrap(), buffer.parse().unwrap());
    let mut queue = Queue::new(&config, 1).unwrap();
    let mut now = Time::ZERO;
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for packet in 0..PACKETS {
            now += Span::from_micros(1);
            let _ = queue.enqueue(now, FlowNumber(packet % 64), Opaque { packet, size: 1400 });
            black_box(queue.dequeue(now));
        }
    });
}
