//! A line of nodes as plain as it can be: packets, queues and links apart from the ring's own node. The tests' model.

use crate::ring::fairness::{Fairness, Station, View};
use crate::ring::rpr::message::LENGTH;
use crate::ring::rpr::{Config, Mode, Queue, Rpr};
use crate::ring::topology::{Topology, Way};
use crate::ring::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

pub(super) const PACKET: u32 = 1000;
pub(super) const BUFFER: u64 = 200_000;
const DELAY: Span = Span::from_micros(100);
pub(super) const C: f64 = 622e6;

#[derive(Clone, Debug)]
enum Event {
    Offer(usize),
    Sent(usize),
    Arrive(usize, NodeId, NodeId, u32),
    Control(usize, [u8; LENGTH]),
    Timer(usize),
    Release(usize),
}

struct Flow {
    from: usize,
    to: usize,
    rate: f64,
    bytes: u32,
    due: f64,
    waiting: u32,
    credit: f64,
    credited: Time,
    received: u64,
}

pub(super) struct Line {
    pub(super) topology: Topology,
    pub(super) agents: Vec<Rpr>,
    flows: Vec<Flow>,
    transit: Vec<VecDeque<(NodeId, NodeId, u32)>>,
    depth: Vec<u64>,
    busy: Vec<bool>,
    /// The flow of each station that sent last.
    served: Vec<usize>,
    transit_turn: Vec<bool>,
    stations: Vec<Vec<Station>>,
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
    now: Time,
    pub(super) lost: u64,
    /// From which on transit goes before the station.
    pub(super) threshold: u64,
}

pub(super) fn node(n: usize) -> NodeId {
    NodeId::at(n - 1)
}

impl Line {
    /// Flows as (from, to, Mbit/s, packet, start in ms).
    pub(super) fn new(mode: Mode, config: &Config, nodes: usize, flows: &[(usize, usize, f64, u32, u64)]) -> Line {
        let mut topology = Topology::ring(nodes, Rate::from_bits_per_sec(C as u64));
        for (at, ringlet) in [(nodes, Ringlet::Zero), (1, Ringlet::One)] {
            let way = topology.way(node(at), ringlet);
            topology.set_way(node(at), ringlet, Way { up: false, ..way });
        }
        let agent = |n| Rpr::new(mode, config, node(n), Ringlet::Zero, nodes, Span::ZERO, Time::ZERO);
        let mut line = Line {
            topology,
            agents: (1..=nodes).map(agent).collect(),
            flows: Vec::new(),
            transit: alloc::vec![VecDeque::new(); nodes],
            depth: alloc::vec![0; nodes],
            busy: alloc::vec![false; nodes],
            served: alloc::vec![0; nodes],
            transit_turn: alloc::vec![false; nodes],
            stations: alloc::vec![alloc::vec![Station::default(); nodes]; nodes],
            events: BTreeMap::new(),
            count: 0,
            now: Time::ZERO,
            lost: 0,
            threshold: BUFFER / 4,
        };
        for (index, (from, to, mbit, bytes, start)) in flows.iter().enumerate() {
            let start = Time::from_millis(*start);
            line.flows.push(Flow {
                from: from - 1,
                to: to - 1,
                rate: mbit * 1e6,
                bytes: *bytes,
                due: start.as_nanos() as f64,
                waiting: 0,
                credit: 0.0,
                credited: start,
                received: 0,
            });
            line.at(start, Event::Offer(index));
        }
        for n in 0..nodes {
            line.at(Time::ZERO, Event::Timer(n));
        }
        line
    }

    fn at(&mut self, time: Time, event: Event) {
        self.count += 1;
        self.events.insert((time, self.count), event);
    }

    fn with_view<T>(&mut self, n: usize, run: impl FnOnce(&mut Rpr, &View<'_>) -> T) -> T {
        let rate = Rate::from_bits_per_sec(C as u64);
        let view = View {
            topology: &self.topology,
            node: NodeId::at(n),
            ringlet: Ringlet::Zero,
            capacity: rate,
            nominal: rate,
            transit: self.depth[n],
            transit_limit: BUFFER,
            station: &self.stations[n],
        };
        run(&mut self.agents[n], &view)
    }

    /// Credit of the flow's limiter at its present rate.
    fn credit(&mut self, flow: usize) {
        let (from, to) = (self.flows[flow].from, self.flows[flow].to);
        let limit = self.agents[from].limit(NodeId::at(to)).map_or(C, |rate| rate.as_bits_per_sec() as f64);
        let flow = &mut self.flows[flow];
        let more = self.now.since(flow.credited).as_secs_f64() * limit / 8.0;
        flow.credit = (flow.credit + more).min(f64::from(flow.bytes));
        flow.credited = self.now;
    }

    fn transmit(&mut self, n: usize) {
        if self.busy[n] {
            return;
        }
        let ready = |line: &Line| {
            let count = line.flows.len();
            (1..=count).map(|step| (line.served[n] + step) % count).find(|f| {
                let flow = &line.flows[*f];
                flow.from == n && flow.waiting > 0 && flow.credit >= 0.0
            })
        };
        for flow in 0..self.flows.len() {
            if self.flows[flow].from == n {
                self.credit(flow);
            }
        }
        let config = self.agents[n].config();
        let first = match config.queue {
            Queue::Single => true,
            Queue::Dual => self.transit_turn[n] || self.depth[n] >= self.threshold,
        };
        let station = ready(self);
        let (ingress, egress, bytes) = match (station, self.transit[n].is_empty()) {
            (Some(flow), empty) if empty || !first => {
                self.served[n] = flow;
                let flow = &mut self.flows[flow];
                flow.credit -= f64::from(flow.bytes);
                flow.waiting -= 1;
                self.stations[n][flow.to].waiting -= u64::from(flow.bytes);
                self.transit_turn[n] = true;
                (NodeId::at(n), NodeId::at(flow.to), flow.bytes)
            }
            (_, false) => {
                self.transit_turn[n] = false;
                let packet = self.transit[n].pop_front().unwrap();
                self.depth[n] -= u64::from(packet.2);
                packet
            }
            _ => {
                // A limiter that holds packets back opens later.
                let wait = (self.flows.iter().filter(|f| f.from == n && f.waiting > 0))
                    .map(|f| {
                        let limit = self.agents[n].limit(NodeId::at(f.to)).map_or(C, |r| r.as_bits_per_sec() as f64);
                        -f.credit * 8e9 / limit.max(1.0)
                    })
                    .fold(f64::INFINITY, f64::min);
                if wait.is_finite() {
                    let wait = Span::from_nanos(wait.min(1e6) as u64 + 1);
                    self.at(self.now + wait, Event::Release(n));
                }
                return;
            }
        };
        self.agents[n].on_sent(self.now, ingress, egress, bytes);
        self.busy[n] = true;
        let wire = Span::from_nanos((f64::from(bytes) * 8e9 / C) as u64);
        self.at(self.now + wire, Event::Sent(n));
        self.at(self.now + wire + DELAY, Event::Arrive(n + 1, ingress, egress, bytes));
    }

    pub(super) fn run(&mut self, until: Time) {
        while let Some(((time, _), event)) = self.events.pop_first() {
            if time > until {
                self.at(time, event);
                break;
            }
            self.now = time;
            match event {
                Event::Offer(index) => {
                    let flow = &mut self.flows[index];
                    let station = &mut self.stations[flow.from][flow.to];
                    station.offered += u64::from(flow.bytes);
                    if flow.waiting < 100 {
                        flow.waiting += 1;
                        station.waiting += u64::from(flow.bytes);
                    }
                    flow.due += f64::from(flow.bytes) * 8e9 / flow.rate;
                    let (due, from) = (Time::from_nanos(flow.due as u64), flow.from);
                    self.at(due, Event::Offer(index));
                    self.transmit(from);
                }
                Event::Sent(n) => {
                    self.busy[n] = false;
                    self.transmit(n);
                }
                Event::Release(n) => self.transmit(n),
                Event::Arrive(n, ingress, egress, bytes) if egress.index() == n => {
                    let flow = self.flows.iter_mut().find(|f| f.from == ingress.index() && f.to == n);
                    flow.unwrap().received += u64::from(bytes);
                }
                Event::Arrive(n, ingress, egress, bytes) => {
                    if self.depth[n] + u64::from(bytes) > BUFFER {
                        self.lost += 1;
                    } else {
                        self.transit[n].push_back((ingress, egress, bytes));
                        self.depth[n] += u64::from(bytes);
                        self.transmit(n);
                    }
                }
                Event::Control(n, message) => {
                    let now = self.now;
                    self.with_view(n, |agent, view| agent.handle_control(now, view, &message)).unwrap();
                    self.transmit(n);
                }
                Event::Timer(n) => {
                    let now = self.now;
                    for flow in 0..self.flows.len() {
                        self.credit(flow);
                    }
                    self.with_view(n, |agent, view| agent.handle_timeout(now, view));
                    if let Some(message) = self.agents[n].poll_control() {
                        let message = message.try_into().unwrap();
                        self.at(now + DELAY, Event::Control(n - 1, message));
                    }
                    let due = self.agents[n].poll_timeout().unwrap();
                    assert!(due > now);
                    self.at(due, Event::Timer(n));
                    self.transmit(n);
                }
            }
        }
        self.now = until;
    }

    /// Mbit/s received by each flow from now until `until`.
    pub(super) fn rates(&mut self, until: Time) -> Vec<f64> {
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.received).collect();
        let seconds = until.since(self.now).as_secs_f64();
        self.run(until);
        (self.flows.iter().zip(before)).map(|(flow, before)| (flow.received - before) as f64 * 8e-6 / seconds).collect()
    }
}
