//! Nodes of a ring joined by links with a rate and a delay, with sources and an exact account of every packet.
//!
//! Nodes and links count from 1 as everywhere. A frame arrives when its last bit has crossed: transmission, then delay.

#![allow(dead_code, reason = "each test file uses some of it")]

use crate::network::Network as UnderWay;
use fairspan_core::packet::Packet;
use fairspan_core::ring::node::{Config, Event, HEAD, Node};
use fairspan_core::ring::{Class, NodeId, Ringlet, Side};
use fairspan_core::units::{Bytes, FlowNumber, Rate, Span, Time};

/// A packet that is mostly its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Which source it is from.
    pub(crate) flow: u32,
    /// Counts the source's packets.
    pub(crate) number: u32,
    pub(crate) size: u32,
}

impl Packet for Load {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }

    fn strip(&mut self, _: usize) {}

    fn truncate(&mut self, n: usize) {
        self.size = self.size.min(n as u32);
    }

    fn duplicate(&self) -> Option<Load> {
        Some(*self)
    }

    fn from_bytes(_: &[u8]) -> Option<Load> {
        None
    }
}

/// Sends packets of one size at one rate, of packet bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) by: Option<Ringlet>,
    pub(crate) class: Class,
    pub(crate) size: u32,
    pub(crate) rate: Rate,
    pub(crate) start: Time,
    pub(crate) end: Time,
}

/// What became of a source's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    /// Packet bytes.
    pub(crate) bytes: u64,
    /// Deliveries of a packet that a later one of the source had overtaken, or of a second copy.
    pub(crate) disordered: u64,
    /// The last and the longest time from offer to delivery.
    pub(crate) latest: Span,
    pub(crate) longest: Span,
    next: u32,
}

#[derive(Clone)]
enum Content {
    Data([u8; HEAD], Load),
    Control(Vec<u8>),
}

/// A ring at work.
pub(crate) struct Network {
    pub(crate) now: Time,
    /// `None`: killed.
    pub(crate) nodes: Vec<Option<Node<Load>>>,
    pub(crate) configs: Vec<Config>,
    /// Of each link.
    pub(crate) delay: Vec<Span>,
    /// Nothing crosses these links.
    pub(crate) cut: Vec<bool>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) events: Vec<(Time, NodeId, Event)>,
    /// Data frames that were on a link when it was cut, or went to a node that was killed, or with it.
    pub(crate) lost: u64,
    pub(crate) control_bytes: u64,
    /// Drops one control frame in so many.
    pub(crate) lose_control: Option<u64>,
    sources: Vec<(Source, Time)>,
    timeouts: Vec<Option<Time>>,
    wires: UnderWay<(usize, NodeId, Side, Content)>,
    /// When packets were offered, by flow.
    pub(crate) offered: Vec<Vec<Time>>,
    /// How often they were delivered.
    pub(crate) copies: Vec<Vec<u8>>,
    control_frames: u64,
}

pub(crate) fn node(n: usize) -> NodeId {
    NodeId::at(n - 1)
}

/// Settings for simulated rings: packets have no head, so that rates are those of the packets.
pub(crate) fn config(n: usize, nodes: usize, rate: Rate) -> Config {
    let mut config = Config::new(node(n), nodes, rate);
    config.overhead = [0; 2];
    config
}

impl Network {
    /// `nodes` nodes with equal links; `set` changes the settings of each.
    pub(crate) fn new(nodes: usize, rate: Rate, delay: Span, set: impl Fn(&mut Config)) -> Network {
        let configs = (1..=nodes).map(|n| {
            let mut config = config(n, nodes, rate);
            set(&mut config);
            config
        });
        Network::of(configs.collect(), delay)
    }

    pub(crate) fn of(configs: Vec<Config>, delay: Span) -> Network {
        let nodes = configs.len();
        let mut network = Network {
            now: Time::ZERO,
            nodes: configs.iter().map(|_| None).collect(),
            configs,
            delay: vec![delay; nodes],
            cut: vec![false; nodes],
            accounts: vec![],
            events: vec![],
            lost: 0,
            control_bytes: 0,
            lose_control: None,
            sources: vec![],
            timeouts: vec![None; nodes],
            wires: UnderWay::new(),
            offered: vec![],
            copies: vec![],
            control_frames: 0,
        };
        for n in 1..=nodes {
            network.start(n);
        }
        network
    }

    /// A process starts at this place.
    pub(crate) fn start(&mut self, n: usize) {
        let config = self.configs[n - 1].clone();
        let discovers = config.discovery.is_some();
        let mut started = Node::new(config, self.now, n as u64 + self.now.as_nanos()).unwrap();
        for side in Side::BOTH.into_iter().filter(|_| discovers) {
            started.set_link(self.now, side, true);
        }
        self.nodes[n - 1] = Some(started);
        self.drive(n);
    }

    /// A process ends: nobody is told.
    pub(crate) fn kill(&mut self, n: usize) {
        // What it had dropped is not counted by it any more.
        let gone = self.nodes[n - 1].take().map_or(0, |node| node.held() as u64 + node.stats().dropped());
        self.lost += gone;
        self.timeouts[n - 1] = None;
    }

    /// Packets of a node that was there all the time.
    pub(crate) fn at(&mut self, n: usize) -> &mut Node<Load> {
        self.nodes[n - 1].as_mut().unwrap()
    }

    /// The number of the flow.
    pub(crate) fn source(&mut self, source: Source) -> usize {
        self.sources.push((source, source.start));
        self.accounts.push(Account::default());
        self.offered.push(vec![]);
        self.copies.push(vec![]);
        self.sources.len() - 1
    }

    /// Class C, 1000 bytes, from now on.
    pub(crate) fn flow(&mut self, from: usize, to: usize, rate: Rate) -> usize {
        let (from, to) = (node(from), node(to));
        let (class, size, start, end) = (Class::C, 1000, self.now, Time::MAX);
        self.source(Source { from, to, by: None, class, size, rate, start, end })
    }

    /// Cuts link n, or joins it; `told`: nodes at its ends see their carrier change.
    pub(crate) fn set_link(&mut self, link: usize, up: bool, told: bool) {
        self.cut[link - 1] = !up;
        if told {
            let next = link % self.nodes.len() + 1;
            let now = self.now;
            for (n, side) in [(link, Side::East), (next, Side::West)] {
                if let Some(node) = &mut self.nodes[n - 1] {
                    node.set_link(now, side, up);
                    self.drive(n);
                }
            }
        }
    }

    /// Changes a node from outside.
    pub(crate) fn with<R>(&mut self, n: usize, act: impl FnOnce(&mut Node<Load>, Time) -> R) -> R {
        let now = self.now;
        let result = act(self.at(n), now);
        self.drive(n);
        result
    }

    pub(crate) fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// One instant: whether there was one by `end`.
    fn step(&mut self, end: Time) -> bool {
        let wire = self.wires.next();
        let source = self.sources.iter().filter(|(source, next)| *next < source.end).map(|(_, next)| *next).min();
        let timeout = self.timeouts.iter().flatten().min().copied();
        let Some(next) = [wire, source, timeout].into_iter().flatten().min() else { return false };
        if next > end {
            return false;
        }
        assert!(next >= self.now || timeout == Some(next), "time goes back");
        self.now = self.now.max(next);
        if wire == Some(next) {
            let Some((link, to, side, content)) = self.wires.take() else { return false };
            self.arrive(link, to, side, content);
        } else if source == Some(next) {
            for at in 0..self.sources.len() {
                let (source, time) = self.sources[at];
                if time == next && time < source.end {
                    self.offer(at);
                }
            }
        } else {
            for n in 1..=self.nodes.len() {
                if self.timeouts[n - 1].is_some_and(|time| time <= next) {
                    self.at(n).handle_timeout(next);
                    self.drive(n);
                }
            }
        }
        true
    }

    fn arrive(&mut self, link: usize, to: NodeId, side: Side, content: Content) {
        let data = matches!(content, Content::Data(..));
        let now = self.now;
        let Some(node) = self.nodes[to.index()].as_mut().filter(|_| !self.cut[link - 1]) else {
            self.lost += u64::from(data);
            return;
        };
        match content {
            Content::Data(head, packet) => node.handle_data(now, side, head, packet),
            Content::Control(frame) => node.handle_control(now, side, &frame),
        }
        self.drive(to.index() + 1);
    }

    /// A packet of a source now, whatever its rate.
    pub(crate) fn offer(&mut self, at: usize) {
        let (source, time) = &mut self.sources[at];
        *time += source.rate.transmit_time(Bytes::new(u64::from(source.size)));
        let source = *source;
        let account = &mut self.accounts[at];
        let flow = FlowNumber(at as u32);
        let packet = Load { flow: at as u32, number: account.sent as u32, size: source.size };
        let now = self.now;
        if let Some(node) = &mut self.nodes[source.from.index()] {
            account.sent += 1;
            self.offered[at].push(now);
            self.copies[at].push(0);
            match source.by {
                None => node.handle_station(now, source.to, source.class, flow, packet),
                Some(ringlet) => node.handle_station_by(now, source.to, ringlet, source.class, flow, packet),
            }
            self.drive(source.from.index() + 1);
        }
    }

    /// Drains a node's polls, in their order.
    pub(crate) fn drive(&mut self, n: usize) {
        let now = self.now;
        let Network { nodes, configs, delay, wires, accounts, offered, copies, events, .. } = self;
        let count = nodes.len();
        let Some(node) = nodes[n - 1].as_mut() else { return };
        let from = configs[n - 1].node;
        let mut wire = |side: Side, bytes: usize, capacity: Rate, content| {
            let (link, to) = match side {
                Side::East => (n, n % count + 1),
                Side::West => ((n + count - 2) % count + 1, (n + count - 2) % count + 1),
            };
            let arrival = now + capacity.transmit_time(Bytes::from(bytes)) + delay[link - 1];
            wires.put(arrival, (link, NodeId::at(to - 1), side.other(), content));
        };
        loop {
            let mut idle = true;
            while let Some((side, frame)) = node.poll_control(now) {
                idle = false;
                let frame = frame.to_vec();
                self.control_frames += 1;
                self.control_bytes += frame.len() as u64;
                let bytes = frame.len() + configs[n - 1].overhead[side.index()].saturating_sub(HEAD);
                let capacity = node.topology().way(from, side.ringlet()).capacity;
                if self.lose_control.is_none_or(|every| !self.control_frames.is_multiple_of(every)) {
                    wire(side, bytes, capacity, Content::Control(frame));
                }
            }
            while let Some(sent) = node.poll_transmit(now) {
                idle = false;
                let bytes = sent.packet.size as usize + configs[n - 1].overhead[sent.side.index()];
                let capacity = node.topology().way(from, sent.side.ringlet()).capacity;
                wire(sent.side, bytes, capacity, Content::Data(sent.head, sent.packet));
            }
            while let Some(delivery) = node.poll_deliver() {
                idle = false;
                let Load { flow, number, size } = delivery.packet;
                let Some(account) = accounts.get_mut(flow as usize) else { continue };
                account.delivered += 1;
                copies[flow as usize][number as usize] += 1;
                account.bytes += u64::from(size);
                account.disordered += u64::from(number < account.next);
                account.next = account.next.max(number + 1);
                account.latest = now.since(offered[flow as usize][number as usize]);
                account.longest = account.longest.max(account.latest);
            }
            while let Some(event) = node.poll_event() {
                events.push((now, from, event));
            }
            if idle {
                break;
            }
        }
        self.timeouts[n - 1] = node.poll_timeout();
    }

    /// Packets under way on links.
    pub(crate) fn on_wires(&self) -> u64 {
        self.wires.frames().filter(|(.., content)| matches!(content, Content::Data(..))).count() as u64
    }

    /// Rates at which sources were received in this time, in Mbit/s of packet bytes.
    pub(crate) fn received(&mut self, span: Span) -> Vec<f64> {
        let before: Vec<u64> = self.accounts.iter().map(|account| account.bytes).collect();
        self.run(span);
        let bits = self.accounts.iter().zip(before).map(|(account, before)| (account.bytes - before) as f64 * 8.0);
        bits.map(|bits| bits / span.as_secs_f64() / 1e6).collect()
    }

    /// Every packet that was offered is delivered, dropped under a name, lost with a link or node, or somewhere.
    pub(crate) fn assert_conserved(&self) {
        let offered: u64 = self.accounts.iter().map(|account| account.sent).sum();
        let delivered: u64 = self.accounts.iter().map(|account| account.delivered).sum();
        let dropped: u64 = self.nodes.iter().flatten().map(|node| node.stats().dropped()).sum();
        let held: u64 = self.nodes.iter().flatten().map(|node| node.held() as u64).sum();
        let accounted = delivered + dropped + held + self.on_wires() + self.lost;
        assert_eq!(
            offered,
            accounted,
            "{delivered} delivered, {dropped} dropped, {held} held, {} on wires, {} lost",
            self.on_wires(),
            self.lost
        );
    }

    /// Packets dropped in transit by all nodes.
    pub(crate) fn transit_drops(&self) -> u64 {
        self.nodes.iter().flatten().map(|node| node.stats().transit_full).sum()
    }
}
