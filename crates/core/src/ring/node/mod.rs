//! A node of a ring: what the station and the neighbours give it, and what it gives them.
//!
//! ```text
//!               station                                    per ringlet, r = 0 to the east, r = 1 to the west:
//!          handle_station  poll_deliver
//!                 |             ^                          handle_station -> queue per egress -> limiter -+
//!                 v             |                                                                         v
//!  neighbour -> handle_data -> fate -> neighbour           handle_data -> fate -> transit ----------> multiplexer -> link
//!               (strip, deliver, on)                                                     counts ^        | counts
//!                                                                     fairness agent -----------+--------+
//! ```
//!
//! Source: rings §II, Figure 3. The parts: `station` queues and limiters, `multiplexer`
//! transit queues and scheduling, [`protection`](super::protection) what becomes of a frame,
//! [`discovery`] who is there, [`algorithm`](super::algorithm) the limits.
//!
//! All rates and byte counts are those of the wire: a packet and its link's `overhead`.
//!
//! Classes: class A has its reserved rate and goes first; what all nodes reserve of a link is kept out of what is shared.
//! Class B within its committed rate is kept out too, as far as it is used, and does not count as shared; beyond it, it is
//! shared as class C is.
//!
//! Cost: constant per packet, besides a heap of the queues that wait for a limiter. Invariant: every packet is delivered,
//! dropped under a name, or held.

mod change;
mod config;
mod control;
mod control_load;
mod stats;

pub use super::frame::HEAD;
pub use config::{Config, ConfigError};
pub use control_load::ControlLoad;
pub use stats::Stats;

use super::algorithm::Agent;
use super::control as wire;
use super::discovery::{self, Discovery};
use super::fairness::{Fairness, Refused};
use super::frame::Head;
use super::meter::Meter;
use super::multiplexer::{Multiplexer, Settings};
use super::output_queue::Held;
use super::protection::{Fate, Path, Stripped, fate};
use super::topology::{Topology, Way};
use super::{Class, NodeId, Ringlet, Side};
use crate::packet::Packet;
use crate::units::{Bytes, FlowNumber, Rate, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Events kept for a driver that does not ask.
const MOST_EVENTS: usize = 256;
/// Windows of the measure of committed traffic, in control intervals.
const METER_INTERVALS: u64 = 4;

/// A data frame for a neighbour: `head`, then the packet's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<P> {
    /// Over which link.
    pub side: Side,
    /// The bytes in front of the packet.
    pub head: [u8; HEAD],
    /// The packet, as the station gave it.
    pub packet: P,
}

/// A packet for the station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The node where it entered.
    pub from: NodeId,
    /// Its class.
    pub class: Class,
    /// As the station there gave it.
    pub packet: P,
}

/// What happened, for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A link carries packets both ways, or does not any more.
    Link {
        /// Which.
        side: Side,
        /// Whether it does.
        up: bool,
    },
    /// The ring as this node knows it has changed: routes may be others.
    Topology,
    /// What another node tells of its station is something else now, or nothing any more: [`Node::announced`].
    Announcement,
    /// A neighbour sent a fairness message that was refused.
    Refused {
        /// Over which link it came.
        side: Side,
        /// Why.
        reason: Refused,
    },
    /// A neighbour sent another control frame that was refused, or one that is none.
    Control {
        /// Over which link it came.
        side: Side,
        /// Why.
        reason: discovery::Refused,
    },
    /// Nodes reserve more of this node's link than it carries: nothing is left to share.
    Overbooked {
        /// Which link.
        side: Side,
        /// How much they reserve.
        reserved: Rate,
        /// What it carries.
        capacity: Rate,
    },
}

/// Where the node's knowledge of the ring comes from.
#[derive(Debug)]
enum Known {
    /// From the driver.
    Told(Topology),
    /// From the other nodes.
    Discovered(Box<Discovery>),
}

impl Known {
    fn topology(&self) -> &Topology {
        match self {
            Known::Told(topology) => topology,
            Known::Discovered(discovery) => discovery.topology(),
        }
    }

    fn discovered(&mut self) -> Option<&mut Discovery> {
        match self {
            Known::Told(_) => None,
            Known::Discovered(discovery) => Some(discovery),
        }
    }
}

/// One ringlet at this node: its outgoing link and its agent.
#[derive(Debug)]
struct Exit<P> {
    mux: Multiplexer<P>,
    agent: Agent,
    /// Of class B within its committed rate.
    committed: Meter,
    /// By class A of all nodes.
    reserved: Rate,
    /// That is more than the link carries.
    overbooked: bool,
    /// Whether data frames leave here.
    up: bool,
    /// Links that are up from here on, without a gap.
    reach: usize,
}

/// A node of a ring: sans IO. After any input, drain the polls, in the order in which they stand here.
#[derive(Debug)]
pub struct Node<P> {
    config: Config,
    known: Known,
    exits: [Exit<P>; 2],
    /// By the index of the egress.
    routes: Vec<Option<Ringlet>>,
    deliveries: VecDeque<Delivery<P>>,
    events: VecDeque<Event>,
    stats: Stats,
    limits_version: u64,
    /// The control frame that was polled last.
    sent: Vec<u8>,
}

impl<P: Packet> Node<P> {
    /// A node. Without discovery its links are up; with it they are down until [`Node::set_link`] says otherwise and the
    /// neighbours are heard. `seed` tells its process from others.
    ///
    /// # Errors
    /// The setting that is wrong.
    pub fn new(config: Config, now: Time, seed: u64) -> Result<Node<P>, ConfigError> {
        config.check()?;
        let known = match &config.discovery {
            None => {
                let mut topology = Topology::ring(config.nodes, config.nominal);
                topology.set_weight(config.node, config.weight);
                for side in Side::BOTH {
                    let way = Way { up: true, capacity: config.capacity[side.index()] };
                    topology.set_way(config.node, side.ringlet(), way);
                }
                Known::Told(topology)
            }
            Some(settings) => {
                let mut settings = settings.clone();
                settings.node = config.node;
                settings.nodes = config.nodes;
                settings.nominal = config.nominal;
                settings.settings = wire::digest(&alloc::format!(
                    "{} {:?} {}",
                    config.algorithm,
                    config.protection,
                    config.interval.as_nanos()
                ));
                settings.capacity = config.capacity;
                settings.weight = config.weight;
                settings.reservations.clone_from(&config.reservations);
                settings.announcement.clone_from(&config.announcement);
                Known::Discovered(Box::new(Discovery::new(settings, now, seed)?))
            }
        };
        let scheduling = config.scheduling();
        let exit = |side: Side| -> Result<Exit<P>, ConfigError> {
            let settings = Settings {
                scheduling,
                capacity: config.capacity[side.index()],
                burst: config.burst,
                overhead: config.overhead[side.index()],
                transit_limit: config.transit_limit,
                threshold: config.station_threshold,
                carrier: config.discovery.is_none(),
            };
            let (algorithm, interval) = (&config.algorithm, config.interval);
            let queue = config.waiting(seed);
            Ok(Exit {
                mux: Multiplexer::new(settings, config.nodes, &queue, &config.reservations)?,
                agent: Agent::new(algorithm, config.node, side.ringlet(), config.nodes, interval, now),
                committed: Meter::new(interval.times(METER_INTERVALS), now),
                reserved: Rate::default(),
                overbooked: false,
                up: false,
                reach: 0,
            })
        };
        let exits = [exit(Side::East)?, exit(Side::West)?];
        let mut node = Node {
            known,
            exits,
            routes: alloc::vec![None; config.nodes],
            deliveries: VecDeque::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
            limits_version: 0,
            sent: Vec::new(),
            config,
        };
        node.on_topology(now);
        node.events.clear();
        Ok(node)
    }

    /// A packet of `flow` from the station for the node `to`. Flows are told apart only by a discipline other than `fifo`.
    pub fn handle_station(&mut self, now: Time, to: NodeId, class: Class, flow: FlowNumber, packet: P) {
        let ringlet = self.routes.get(to.index()).copied().flatten();
        self.enter(now, to, ringlet, class, flow, packet);
    }

    /// A packet of `flow` from the station for the node `to` that goes round by `ringlet`, while that way is whole.
    pub fn handle_station_by(
        &mut self,
        now: Time,
        to: NodeId,
        ringlet: Ringlet,
        class: Class,
        flow: FlowNumber,
        packet: P,
    ) {
        let route = self.routes.get(to.index()).copied().flatten();
        let ringlet = route.map(|route| if self.is_whole(to, ringlet) { ringlet } else { route });
        self.enter(now, to, ringlet, class, flow, packet);
    }

    fn enter(&mut self, now: Time, to: NodeId, ringlet: Option<Ringlet>, class: Class, flow: FlowNumber, packet: P) {
        self.stats.station += 1;
        let Some(ringlet) = ringlet else {
            let reason = if to == self.config.node {
                &mut self.stats.to_itself
            } else if to.index() >= self.config.nodes {
                &mut self.stats.unknown
            } else {
                &mut self.stats.unreachable
            };
            *reason += 1;
            return;
        };
        self.send(now, to, ringlet, class, flow, packet);
    }

    /// Puts an own packet into the queue of its egress on `ringlet`, whose way is whole.
    fn send(&mut self, now: Time, to: NodeId, ringlet: Ringlet, class: Class, flow: FlowNumber, packet: P) {
        let Config { node, nodes, .. } = self.config;
        // One is taken off for each link, the first one included.
        let path = Path { ingress: node, egress: to, ringlet, wrapped: false, ttl: nodes as u8 - 1 };
        let Exit { mux, agent, .. } = &mut self.exits[ringlet.index()];
        let wire = mux.wire(packet.size());
        let held = Held { head: Head { path, class, shares: class != Class::A }, wire, flow, packet };
        match mux.station_in(now, held, |bytes| agent.on_arrival(now, node, bytes)) {
            Ok(demoted) => self.stats.demoted += u64::from(demoted),
            Err(_) => self.stats.station_full += 1,
        }
    }

    /// A data frame came from the neighbour at `side`, without its head.
    pub fn handle_data(&mut self, now: Time, side: Side, head: [u8; HEAD], packet: P) {
        self.stats.received += 1;
        let Ok(head) = Head::decode(head) else {
            self.stats.malformed += 1;
            return;
        };
        if head.path.ringlet.way_out() == side {
            self.stats.wrong_side += 1;
            return;
        }
        let accepted = match &self.known {
            Known::Told(_) => self.exits[side.index()].mux.carrier(),
            Known::Discovered(discovery) => discovery.accepts(side),
        };
        if !accepted {
            self.stats.stranger += 1;
            return;
        }
        let Config { node, nodes, protection, .. } = self.config;
        match fate(protection, node, nodes, self.ups(), head.path) {
            Fate::Deliver => {
                self.stats.delivered += 1;
                self.deliveries.push_back(Delivery { from: head.path.ingress, class: head.class, packet });
            }
            Fate::Send(path) => self.forward(now, Head { path, ..head }, packet),
            Fate::Strip(reason) => self.strip(reason),
        }
    }

    fn ups(&self) -> [bool; 2] {
        [self.exits[0].up, self.exits[1].up]
    }

    fn forward(&mut self, now: Time, head: Head, packet: P) {
        let Exit { mux, agent, .. } = &mut self.exits[head.path.ringlet.index()];
        let wire = mux.wire(packet.size());
        if head.shares {
            agent.on_arrival(now, head.path.ingress, wire);
        }
        if mux.transit_in(Held { head, wire, flow: FlowNumber::default(), packet }).is_err() {
            self.stats.transit_full += 1;
        }
    }

    fn strip(&mut self, reason: Stripped) {
        let count = match reason {
            Stripped::Foreign => &mut self.stats.foreign,
            Stripped::Own => &mut self.stats.own,
            Stripped::Expired => &mut self.stats.expired,
            Stripped::Cut => &mut self.stats.cut,
        };
        *count += 1;
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() < MOST_EVENTS {
            self.events.push_back(event);
        }
    }

    /// What the driver knows of a link: its carrier, its session.
    pub fn set_link(&mut self, now: Time, side: Side, up: bool) {
        let ringlet = side.ringlet();
        self.exits[ringlet.index()].mux.set_carrier(up);
        match &mut self.known {
            Known::Discovered(discovery) => {
                discovery.set_link(now, side, up);
                self.on_discovery(now);
            }
            Known::Told(topology) => {
                let node = self.config.node;
                let neighbour = topology.next(node, ringlet);
                let mut changed = false;
                for (node, ringlet) in [(node, ringlet), (neighbour, ringlet.other())] {
                    let way = topology.way(node, ringlet);
                    changed |= topology.set_way(node, ringlet, Way { up, ..way });
                }
                if changed {
                    self.tell(Event::Link { side, up });
                    self.on_topology(now);
                }
            }
        }
    }

    /// The ring is like this from now on. Not for nodes with discovery: there it has no effect.
    pub fn set_topology(&mut self, now: Time, topology: &Topology) {
        let Known::Told(known) = &mut self.known else { return };
        if known == topology || topology.nodes() != self.config.nodes {
            return;
        }
        known.clone_from(topology);
        for side in Side::BOTH {
            let way = topology.way(self.config.node, side.ringlet());
            let mux = &mut self.exits[side.index()].mux;
            mux.set_carrier(way.up);
            mux.set_capacity(now, way.capacity);
        }
        self.on_topology(now);
    }

    /// A link carries this much from now on. A rate of zero is not taken: a link that carries nothing is down.
    pub fn set_capacity(&mut self, now: Time, side: Side, rate: Rate) {
        let ringlet = side.ringlet();
        let mux = &mut self.exits[ringlet.index()].mux;
        if rate == mux.capacity() || rate.as_bits_per_sec() == 0 {
            return;
        }
        mux.set_capacity(now, rate);
        match &mut self.known {
            Known::Discovered(discovery) => {
                discovery.set_capacity(now, side, rate);
                self.on_discovery(now);
            }
            Known::Told(topology) => {
                let way = topology.way(self.config.node, ringlet);
                topology.set_way(self.config.node, ringlet, Way { capacity: rate, ..way });
                self.on_topology(now);
            }
        }
    }

    /// A link adds this much to each packet from now on, head and encapsulation. Of what waits, the accounts keep the old one.
    pub fn set_overhead(&mut self, side: Side, overhead: usize) {
        self.exits[side.index()].mux.set_overhead(overhead);
    }

    /// The socket of a link takes nothing for now.
    pub fn set_blocked(&mut self, now: Time, side: Side, blocked: bool) {
        let _ = now;
        self.exits[side.index()].mux.set_blocked(blocked);
    }

    /// [`Node::poll_timeout`] is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if let Known::Discovered(discovery) = &mut self.known
            && due(discovery.poll_timeout())
        {
            discovery.handle_timeout(now);
            self.on_discovery(now);
        }
        let node = self.config.node;
        for ringlet in Ringlet::BOTH {
            let Exit { mux, agent, .. } = &mut self.exits[ringlet.index()];
            mux.release_due(now, |bytes| agent.on_arrival(now, node, bytes));
            if due(self.exits[ringlet.index()].agent.poll_timeout()) {
                self.consult(now, ringlet, |agent, view| agent.handle_timeout(now, view));
            }
        }
    }

    /// A data frame whose transmission begins now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<P>> {
        for side in Side::BOTH {
            let Exit { mux, agent, committed, up, .. } = &mut self.exits[side.index()];
            if !*up {
                continue;
            }
            let Some(Held { head, wire, packet, .. }) = mux.poll_transmit(now) else { continue };
            let Path { ingress, egress, wrapped, .. } = head.path;
            if head.shares {
                agent.on_sent(now, ingress, egress, wire);
            } else if head.class == Class::B {
                committed.on_sent(wire);
            }
            self.stats.sent += 1;
            self.stats.sent_bytes += u64::from(wire);
            self.stats.wrapped += u64::from(wrapped);
            return Some(Transmit { side, head: head.encode(), packet });
        }
        None
    }

    /// A packet for the station.
    pub fn poll_deliver(&mut self) -> Option<Delivery<P>> {
        self.deliveries.pop_front()
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When there is something to do next without input.
    pub fn poll_timeout(&self) -> Option<Time> {
        // Asked after every packet.
        let mut first = match &self.known {
            Known::Told(_) => None,
            Known::Discovered(discovery) => discovery.poll_timeout(),
        }
        .unwrap_or(Time::MAX);
        for exit in &self.exits {
            first = first.min(exit.mux.poll_timeout(exit.up).unwrap_or(Time::MAX));
            first = first.min(exit.agent.poll_timeout().unwrap_or(Time::MAX));
        }
        Some(first).filter(|first| *first < Time::MAX)
    }

    /// The ring as this node knows it.
    pub fn topology(&self) -> &Topology {
        self.known.topology()
    }

    /// What `node` tells of its station.
    pub fn announced(&self, node: NodeId) -> Option<&[u8]> {
        match &self.known {
            Known::Discovered(discovery) => discovery.announced(node),
            Known::Told(_) => (node == self.config.node).then_some(self.config.announcement.as_slice()),
        }
    }

    /// Other nodes are told this of the station from now on; at most 512 bytes.
    pub fn announce(&mut self, now: Time, announcement: &[u8]) {
        match &mut self.known {
            Known::Discovered(discovery) => {
                discovery.announce(now, announcement);
                self.on_discovery(now);
            }
            Known::Told(_) => {
                let most = announcement.len().min(wire::MOST_ANNOUNCED);
                self.config.announcement.clear();
                self.config.announcement.extend_from_slice(&announcement[..most]);
            }
        }
    }

    /// What waits here for its limiter and for the multiplexer, for `to` on `ringlet`.
    pub fn backlog(&self, ringlet: Ringlet, to: NodeId) -> Bytes {
        let waiting = self.exits[ringlet.index()].mux.station.counts().get(to.index());
        Bytes::new(waiting.map_or(0, |counts| counts.waiting))
    }

    /// Bytes in the transit queue of `ringlet` that shared traffic passes.
    pub fn transit(&self, ringlet: Ringlet) -> Bytes {
        Bytes::new(self.exits[ringlet.index()].mux.transit())
    }

    /// Packets that the node holds: in its queues, and for the station to take.
    pub fn held(&self) -> usize {
        self.exits.iter().map(|exit| exit.mux.packets()).sum::<usize>() + self.deliveries.len()
    }

    /// The fair share of the nominal rate that `node` tells for its outgoing link of `ringlet`, where the algorithm has it.
    pub fn fair(&self, ringlet: Ringlet, node: NodeId) -> Option<f64> {
        self.exits[ringlet.index()].agent.fair(node)
    }

    /// The rate at which packets to `to` may enter `ringlet`.
    pub fn limit(&self, ringlet: Ringlet, to: NodeId) -> Option<Rate> {
        self.exits[ringlet.index()].mux.station.limit(to)
    }

    /// Grows whenever a limit may have changed: while it stays the same, so do all of [`Node::limit`].
    pub fn limits_version(&self) -> u64 {
        self.limits_version
    }

    /// Discovery, where the node has it: who is heard, and what was refused.
    pub fn discovery(&self) -> Option<&Discovery> {
        match &self.known {
            Known::Discovered(discovery) => Some(discovery),
            Known::Told(_) => None,
        }
    }

    /// Whether data frames leave by this link.
    pub fn is_up(&self, side: Side) -> bool {
        self.exits[side.index()].up
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        for exit in &self.exits {
            let (dropped, marked) = exit.mux.station.policy();
            stats.station_full += dropped.full;
            stats.station_standing += dropped.standing;
            stats.station_marked += marked;
        }
        stats
    }
}

#[cfg(test)]
mod tests;
