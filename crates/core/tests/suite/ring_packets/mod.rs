//! One ringlet of packets around fairness agents, without the nodes' own data path: sources by rate, limiters, a FIFO
//! multiplexer that lets station packets in only while it is short, links with delay.

use fairspan_core::ring::algorithm::{Agent, Algorithm};
use fairspan_core::ring::fairness::{Fairness, Station, View};
use fairspan_core::ring::topology::{Topology, Way};
use fairspan_core::ring::{NodeId, Ringlet};
use fairspan_core::units::{Rate, Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// All traffic from a node to another one.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) from: u8,
    pub(crate) to: u8,
    /// Bytes of a packet.
    pub(crate) size: u32,
    /// Since when the host offers how many bits per second.
    pub(crate) offered: Vec<(Time, f64)>,
}

impl Flow {
    pub(crate) fn new(from: u8, to: u8, rate: f64) -> Flow {
        Flow { from, to, size: 1000, offered: vec![(Time::ZERO, rate)] }
    }

    pub(crate) fn of_size(mut self, size: u32) -> Flow {
        self.size = size;
        self
    }

    pub(crate) fn then(mut self, at: Time, rate: f64) -> Flow {
        self.offered.push((at, rate));
        self
    }
}

/// A ring and what it carries.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) topology: Topology,
    pub(crate) nominal: Rate,
    pub(crate) delay: Span,
    pub(crate) interval: Span,
    pub(crate) algorithm: Algorithm,
    pub(crate) ringlet: Ringlet,
    pub(crate) flows: Vec<Flow>,
    /// One message in 37 is lost.
    pub(crate) lossy: bool,
}

pub(crate) const OC12: u64 = 622_000_000;

impl Setup {
    /// The paper's: 622 Mbit/s, 0.1 ms, T = 0.1 N ms.
    pub(crate) fn new(nodes: usize, flows: Vec<Flow>) -> Setup {
        let nominal = Rate::from_bits_per_sec(OC12);
        Setup {
            topology: Topology::ring(nodes, nominal),
            nominal,
            delay: Span::from_micros(100),
            interval: Span::from_micros(100 * nodes as u64),
            algorithm: Algorithm::default(),
            ringlet: Ringlet::Zero,
            flows,
            lossy: false,
        }
    }

    pub(crate) fn with(mut self, algorithm: &str) -> Setup {
        self.algorithm = algorithm.parse().unwrap();
        self
    }

    pub(crate) fn capacity(mut self, node: u8, rate: Rate) -> Setup {
        self.topology.set_way(NodeId::new(node).unwrap(), self.ringlet, Way { up: true, capacity: rate });
        self
    }

    pub(crate) fn weight(mut self, node: u8, thousandths: u32) -> Setup {
        self.topology.set_weight(NodeId::new(node).unwrap(), thousandths);
        self
    }

    pub(crate) fn run(self, until: Time) -> Outcome {
        let mut net = Net::new(self);
        net.run(until);
        net.outcome(until)
    }
}

const ROOM: u64 = 200_000;
/// A station packet enters while less than this waits.
const GATE: u64 = 16_000;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive { node: usize, flow: usize },
    Release { flow: usize, version: u64 },
    Control { node: usize, message: Vec<u8> },
    Timer { node: usize },
    Change { flow: usize },
}

struct Source {
    /// The rate's beginning, and the packets that had come by then.
    epoch: (u64, u64),
    gap: f64,
    /// Which change of rate is next.
    next: usize,
    taken: u64,
    dropped: u64,
    released_at: Option<u64>,
    version: u64,
    received: u64,
    received_half: u64,
    limits: Vec<(Time, Option<Rate>)>,
}

struct Link {
    free_at: u64,
    transit: VecDeque<(u64, u32)>,
    most: u64,
}

pub(crate) struct Net {
    setup: Setup,
    pub(crate) agents: Vec<Agent>,
    pub(crate) now: u64,
    number: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sources: Vec<Source>,
    links: Vec<Link>,
    half: u64,
    pub(crate) refused: u64,
    messages: u64,
}

/// What came of a run.
pub(crate) struct Outcome {
    /// Bits per second over the second half, by flow.
    pub(crate) received: Vec<f64>,
    pub(crate) limits: Vec<Limits>,
    /// Most bytes that waited for a link.
    pub(crate) queued: Vec<u64>,
    /// What waits at the end.
    pub(crate) waiting: Vec<u64>,
}

/// A limiter's rate over time.
pub(crate) struct Limits {
    pub(crate) steps: Vec<(Time, f64)>,
    until: Time,
}

impl Limits {
    /// Mean over the last half, in bits per second.
    pub(crate) fn mean(&self) -> f64 {
        self.mean_from(Time::from_nanos(self.until.as_nanos() / 2), self.until)
    }

    pub(crate) fn mean_from(&self, from: Time, until: Time) -> f64 {
        let mut sum = 0.0;
        for (n, (at, rate)) in self.steps.iter().enumerate() {
            let end = self.steps.get(n + 1).map_or(until, |next| next.0).min(until);
            sum += rate * end.since((*at).max(from)).as_nanos() as f64;
        }
        sum / until.since(from).as_nanos() as f64
    }

    /// Difference of the extremes from `from` on.
    pub(crate) fn swing_from(&self, from: Time) -> f64 {
        let ends =
            self.steps.iter().enumerate().filter(|(n, _)| self.steps.get(n + 1).is_none_or(|next| next.0 > from));
        let (low, high) =
            ends.fold((f64::INFINITY, 0.0f64), |(low, high), (_, (_, rate))| (low.min(*rate), high.max(*rate)));
        high - low
    }

    pub(crate) fn swing(&self) -> f64 {
        self.swing_from(Time::from_nanos(self.until.as_nanos() / 2))
    }

    /// The last time before `until` at which it was more than a hundredth off what it is around `until`.
    pub(crate) fn settled_at(&self, until: Time) -> Time {
        let last: Vec<_> = self.steps.iter().filter(|step| step.0 <= until).collect();
        let target = self.mean_from(Time::from_nanos(until.as_nanos() * 9 / 10), until);
        let off = |rate: f64| (rate - target).abs() > 0.01 * target;
        match last.iter().rposition(|step| off(step.1)) {
            Some(n) => last.get(n + 1).map_or(until, |step| step.0),
            None => Time::ZERO,
        }
    }
}

fn wander(flow: usize, packet: u64) -> f64 {
    let mut x = packet.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (flow as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 32;
    (x >> 11) as f64 / (1u64 << 53) as f64
}

impl Source {
    fn comes_at(&self, flow: usize, packet: u64) -> Option<u64> {
        let since = (packet.saturating_sub(self.epoch.1)) as f64 + 0.5 * wander(flow, packet);
        let at = self.epoch.0 as f64 + since * self.gap;
        (at < 1e18).then_some(at as u64)
    }

    fn come(&self, flow: usize, now: u64) -> u64 {
        if !self.gap.is_finite() {
            return self.epoch.1;
        }
        let mut count = self.epoch.1 + ((now - self.epoch.0) as f64 / self.gap) as u64 + 1;
        while count > self.epoch.1 && self.comes_at(flow, count - 1).is_none_or(|at| at > now) {
            count -= 1;
        }
        count
    }

    fn tail_drop(&mut self, flow: usize, now: u64, size: u32) -> u64 {
        let room = ROOM / u64::from(size);
        let waiting = self.come(flow, now).saturating_sub(self.taken + self.dropped);
        self.dropped += waiting.saturating_sub(room);
        waiting.min(room)
    }
}

impl Net {
    pub(crate) fn new(setup: Setup) -> Net {
        let nodes = setup.topology.nodes();
        let agent =
            |index| Agent::new(&setup.algorithm, NodeId::at(index), setup.ringlet, nodes, setup.interval, Time::ZERO);
        let source = |_: &Flow| Source {
            epoch: (0, 0),
            gap: f64::INFINITY,
            next: 0,
            taken: 0,
            dropped: 0,
            released_at: None,
            version: 0,
            received: 0,
            received_half: 0,
            limits: Vec::new(),
        };
        let mut net = Net {
            agents: (0..nodes).map(agent).collect(),
            now: 0,
            number: 0,
            events: BinaryHeap::new(),
            sources: setup.flows.iter().map(source).collect(),
            links: (0..nodes).map(|_| Link { free_at: 0, transit: VecDeque::new(), most: 0 }).collect(),
            half: u64::MAX,
            refused: 0,
            messages: 0,
            setup,
        };
        for flow in 0..net.sources.len() {
            let at = net.setup.flows[flow].offered[0].0.as_nanos();
            net.at(at, Event::Change { flow });
        }
        for node in 0..nodes {
            net.talk(node, |agent, now, view| agent.handle_change(now, view));
        }
        net
    }

    fn at(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    fn bits(&self, node: usize) -> f64 {
        self.setup.topology.way(NodeId::at(node), self.setup.ringlet).capacity.as_bits_per_sec() as f64
    }

    fn waiting(&self, node: usize) -> u64 {
        (self.links[node].free_at.saturating_sub(self.now) as f64 * self.bits(node) / 8e9) as u64
    }

    /// Asks the agent something, then sends what it says and sets the limiters.
    pub(crate) fn talk<T>(&mut self, node: usize, ask: impl FnOnce(&mut Agent, Time, &View<'_>) -> T) -> T {
        let nodes = self.setup.topology.nodes();
        let mut station = vec![Station::default(); nodes];
        for (flow, (spec, source)) in self.setup.flows.iter().zip(&mut self.sources).enumerate() {
            if usize::from(spec.from) - 1 == node {
                let waiting = source.tail_drop(flow, self.now, spec.size);
                let egress = &mut station[usize::from(spec.to) - 1];
                egress.offered += source.come(flow, self.now) * u64::from(spec.size);
                egress.waiting += waiting * u64::from(spec.size);
            }
        }
        let link = &mut self.links[node];
        while link.transit.front().is_some_and(|(at, _)| *at <= self.now) {
            link.transit.pop_front();
        }
        let transit = link.transit.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        let view = View {
            topology: &self.setup.topology,
            node: NodeId::at(node),
            ringlet: self.setup.ringlet,
            capacity: self.setup.topology.way(NodeId::at(node), self.setup.ringlet).capacity,
            nominal: self.setup.nominal,
            transit,
            transit_limit: ROOM,
            station: &station,
        };
        let now = Time::from_nanos(self.now);
        let answer = ask(&mut self.agents[node], now, &view);
        while let Some(message) = self.agents[node].poll_control().map(<[u8]>::to_vec) {
            self.messages += 1;
            if self.setup.lossy && self.messages.is_multiple_of(37) {
                continue;
            }
            let from = NodeId::at(node);
            let to = self.setup.topology.next(from, self.setup.ringlet.other()).index();
            let way = self.setup.topology.way(from, self.setup.ringlet.other());
            if way.up {
                let takes = way.capacity.transmit_time((message.len() + 20).into()).as_nanos();
                self.at(self.now + takes + self.setup.delay.as_nanos(), Event::Control { node: to, message });
            }
        }
        if let Some(due) = self.agents[node].poll_timeout() {
            self.at(due.as_nanos().max(self.now), Event::Timer { node });
        }
        for flow in 0..self.sources.len() {
            let spec = &self.setup.flows[flow];
            if usize::from(spec.from) - 1 == node {
                let limit = self.agents[node].limit(NodeId::new(spec.to).unwrap());
                let source = &mut self.sources[flow];
                if source.limits.last().is_none_or(|last| last.1 != limit) {
                    source.limits.push((now, limit));
                    self.schedule(flow);
                }
            }
        }
        answer
    }

    /// When the flow's next packet enters.
    fn schedule(&mut self, flow: usize) {
        let spec = &self.setup.flows[flow];
        let node = usize::from(spec.from) - 1;
        let gate = self.links[node].free_at.saturating_sub((GATE as f64 * 8e9 / self.bits(node)) as u64);
        let source = &mut self.sources[flow];
        source.tail_drop(flow, self.now, spec.size);
        source.version += 1;
        let limit =
            source.limits.last().and_then(|last| last.1).map_or(f64::INFINITY, |rate| rate.as_bits_per_sec() as f64);
        let spacing = f64::from(spec.size) * 8e9 / limit;
        let allowed = source.released_at.map_or(0, |at| at + spacing as u64);
        let Some(comes) = source.comes_at(flow, source.taken + source.dropped) else { return };
        let (at, version) = (comes.max(allowed).max(gate).max(self.now), source.version);
        self.at(at, Event::Release { flow, version });
    }

    fn multiplex(&mut self, node: usize, flow: usize, transit: bool) {
        let (now, size) = (Time::from_nanos(self.now), self.setup.flows[flow].size);
        let ingress = NodeId::new(self.setup.flows[flow].from).unwrap();
        let egress = NodeId::new(self.setup.flows[flow].to).unwrap();
        self.agents[node].on_arrival(now, ingress, size);
        self.agents[node].on_sent(now, ingress, egress, size);
        let takes = (f64::from(size) * 8e9 / self.bits(node)) as u64;
        let link = &mut self.links[node];
        link.free_at = link.free_at.max(self.now) + takes;
        let free_at = link.free_at;
        if transit {
            link.transit.push_back((free_at, size));
        }
        let waiting = self.waiting(node);
        self.links[node].most = self.links[node].most.max(waiting);
        let next = self.setup.topology.next(NodeId::at(node), self.setup.ringlet).index();
        self.at(free_at + self.setup.delay.as_nanos(), Event::Arrive { node: next, flow });
    }

    pub(crate) fn run(&mut self, until: Time) {
        self.half = until.as_nanos() / 2;
        let mut halved = false;
        while let Some(Reverse((at, ..))) = self.events.peek() {
            if *at > until.as_nanos() {
                break;
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            if at >= self.half && !halved {
                halved = true;
                self.sources.iter_mut().for_each(|source| source.received_half = source.received);
            }
            self.now = at;
            self.handle(event);
        }
        self.now = until.as_nanos();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Change { flow } => {
                let (spec, now) = (&self.setup.flows[flow], self.now);
                let source = &mut self.sources[flow];
                let come = source.come(flow, now);
                source.epoch = (now, come);
                source.gap = f64::from(spec.size) * 8e9 / spec.offered[source.next].1;
                source.next += 1;
                if let Some((at, _)) = spec.offered.get(source.next) {
                    self.at(at.as_nanos(), Event::Change { flow });
                }
                self.schedule(flow);
            }
            Event::Release { flow, version } => {
                if self.sources[flow].version != version {
                    return;
                }
                let node = usize::from(self.setup.flows[flow].from) - 1;
                if self.waiting(node) <= GATE {
                    self.sources[flow].taken += 1;
                    self.sources[flow].released_at = Some(self.now);
                    self.multiplex(node, flow, false);
                }
                self.schedule(flow);
            }
            Event::Arrive { node, flow } => {
                if usize::from(self.setup.flows[flow].to) - 1 == node {
                    self.sources[flow].received += u64::from(self.setup.flows[flow].size);
                } else {
                    self.multiplex(node, flow, true);
                }
            }
            Event::Control { node, message } => {
                let taken = self.talk(node, |agent, now, view| agent.handle_control(now, view, &message));
                self.refused += u64::from(taken.is_err());
            }
            Event::Timer { node } => {
                if self.agents[node].poll_timeout().is_some_and(|due| due.as_nanos() <= self.now) {
                    self.talk(node, |agent, now, view| agent.handle_timeout(now, view));
                }
            }
        }
    }

    pub(crate) fn outcome(self, until: Time) -> Outcome {
        let seconds = (until.as_nanos() - self.half) as f64 / 1e9;
        let waiting = (0..self.links.len()).map(|node| self.waiting(node)).collect();
        let rate = |limit: Option<Rate>| limit.map_or(self.setup.nominal, |rate| rate).as_bits_per_sec() as f64;
        Outcome {
            received: self.sources.iter().map(|s| (s.received - s.received_half) as f64 * 8.0 / seconds).collect(),
            limits: self
                .sources
                .iter()
                .map(|source| Limits {
                    steps: source.limits.iter().map(|(at, limit)| (*at, rate(*limit))).collect(),
                    until,
                })
                .collect(),
            queued: self.links.iter().map(|link| link.most).collect(),
            waiting,
        }
    }
}
