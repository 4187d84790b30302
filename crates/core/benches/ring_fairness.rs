//! What DVSR costs: a packet's accounting, and one interval with all that belongs to it (message in, measurement, fair rate,
//! limits, message out) in a ring of 64 nodes.
//!
//! `idle`: nobody sends. `half`: as many ingresses as cross a link at most where packets take the shorter way. `all`: every
//! ingress does, at a rate of its own. The node sends to one egress, or `egresses`; all sources are steady. `changing`: every
//! ingress sends another amount in each interval.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairspan_core::ring::algorithm::{Agent, Algorithm};
use fairspan_core::ring::fairness::{Fairness, Station, View};
use fairspan_core::ring::topology::Topology;
use fairspan_core::ring::{NodeId, Ringlet};
use fairspan_core::units::{Rate, Span, Time};

fn main() {
    divan::main();
}

const NODES: usize = 64;
const PACKETS: u64 = 1024;
const INTERVAL: Span = Span::from_micros(6400);

struct Load {
    topology: Topology,
    agent: Agent,
    station: Vec<Station>,
    message: Vec<u8>,
    now: Time,
    sequence: u32,
    egresses: usize,
}

impl Load {
    fn new(algorithm: &str, egresses: usize) -> Load {
        let topology = Topology::ring(NODES, Rate::from_mbit(1000));
        let algorithm: Algorithm = algorithm.parse().unwrap();
        let node = NodeId::at(40);
        let agent = Agent::new(&algorithm, node, Ringlet::Zero, NODES, INTERVAL, Time::ZERO);
        let mut station = vec![Station::default(); NODES];
        for hops in 1..=egresses {
            // One of them wants all.
            station[(40 + hops) % NODES].waiting = if hops == 1 { 100_000 } else { 0 };
        }
        let kind = if matches!(agent, Agent::Dba(_)) { 2 } else { 1 };
        let mut message = vec![0x12, kind, 1, NODES as u8, 0, 0, 0, 0];
        message.extend(std::iter::repeat_n([0x80, 0], NODES).flatten());
        let mut load = Load { topology, agent, station, message, now: Time::ZERO, sequence: 0, egresses };
        load.ask(|agent, now, view| agent.handle_change(now, view));
        load
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut Agent, Time, &View<'_>) -> T) -> T {
        let capacity = Rate::from_mbit(1000);
        let view = View {
            topology: &self.topology,
            node: NodeId::at(40),
            ringlet: Ringlet::Zero,
            capacity,
            nominal: capacity,
            transit: 0,
            transit_limit: 200_000,
            station: &self.station,
        };
        ask(&mut self.agent, self.now, &view)
    }

    /// What comes in an interval: `extra` packets more for every ingress.
    fn arrive(&mut self, sources: usize, extra: u64) {
        self.now += INTERVAL;
        for n in 0..sources {
            for _ in 0..1 + n as u64 % 7 + extra {
                self.agent.on_arrival(self.now, NodeId::at(n), 1500);
            }
        }
        for station in (1..=self.egresses).map(|hops| (40 + hops) % NODES) {
            self.station[station].offered += 6000;
        }
        self.sequence += 1;
        self.message[4..8].copy_from_slice(&self.sequence.to_be_bytes());
    }

    fn interval(&mut self) {
        let message = std::mem::take(&mut self.message);
        self.ask(|agent, now, view| agent.handle_control(now, view, &message)).unwrap();
        black_box(self.agent.poll_control());
        self.message = message;
    }
}

fn measure(bencher: Bencher, algorithm: &str, sources: usize, egresses: usize, changing: bool) {
    let load = std::cell::RefCell::new(Load::new(algorithm, egresses));
    let round = std::cell::Cell::new(0u64);
    bencher
        .with_inputs(|| {
            round.set(round.get() + 1);
            let extra = if changing { 4 * (round.get() % 2) } else { 0 };
            load.borrow_mut().arrive(sources, extra);
        })
        .bench_local_values(|()| load.borrow_mut().interval());
}

#[divan::bench(args = ["dvsr", "dba"], sample_count = 2000, sample_size = 1)]
fn interval_idle(bencher: Bencher, algorithm: &str) {
    measure(bencher, algorithm, 0, 0, false);
}

#[divan::bench(args = ["dvsr", "dba"], sample_count = 2000, sample_size = 1)]
fn interval_half(bencher: Bencher, algorithm: &str) {
    measure(bencher, algorithm, NODES / 2, 1, false);
}

#[divan::bench(args = ["dvsr", "dba"], sample_count = 2000, sample_size = 1)]
fn interval_all(bencher: Bencher, algorithm: &str) {
    measure(bencher, algorithm, NODES, 1, false);
}

#[divan::bench(args = [4, 32], sample_count = 2000, sample_size = 1)]
fn interval_egresses(bencher: Bencher, egresses: usize) {
    measure(bencher, "dvsr", NODES, egresses, false);
}

#[divan::bench(sample_count = 2000, sample_size = 1)]
fn interval_changing(bencher: Bencher) {
    measure(bencher, "dvsr", NODES, 1, true);
}

#[divan::bench(args = ["dvsr", "dba", "fifo"], sample_count = 500)]
fn packet(bencher: Bencher, algorithm: &str) {
    let mut load = Load::new(algorithm, 1);
    let mut now = Time::ZERO;
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for n in 0..PACKETS {
            now += Span::from_nanos(1);
            let ingress = NodeId::at(black_box(n as usize * 7 % NODES));
            load.agent.on_arrival(now, ingress, 1500);
            load.agent.on_sent(now, ingress, NodeId::at(41), 1500);
        }
    });
}
