//! The daemon of `fairspan ring up`: a node of a packet ring, with a TUN interface as its station and two neighbours.
//!
//! It decides nothing about the protocol: [`fairspan_core::ring::node`] and the sessions ([`crate::secure`]) do. It reads,
//! hands over, drains the polls, and writes; control frames leave at once, data in batches.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | opening, the way of a packet |
//! | `links` | links that connect, fill up, fail and come back |
//! | `neighbour` | one link, what carries it, and what waits to leave |
//! | `stations`, `announcement` | what lies behind which node, and how nodes tell |
//! | `claims` | what each node may tell |
//! | `routes` | the kernel's routes into the ring |
//! | `classes` | DiffServ codepoints and service classes |
//! | `capacity` | a link over another daemon's bond |
//! | `report` | log and status |
//!
//! **Frames.** In a session, or behind a length of two bytes on Ethernet in the clear: either a control frame, or the
//! head of a data frame and an IP packet. The first byte tells which.
//!
//! **Who a neighbour is.** On an encrypted link its key says so, and the link's number, which both ends count alike: what is
//! sealed with the key of the east neighbour counts as coming from the east, whichever socket it came by.

mod announcement;
mod capacity;
mod claims;
mod classes;
mod links;
mod neighbour;
mod report;
mod routes;
mod stations;

use super::host::{Host, TUN_BURST};
use super::network;
use crate::channel::ethernet::{Codepoint, Mac};
use crate::channel::udp::Datagram;
use crate::config::{Config, Ring, RingSide};
use crate::netlink::LinkChange;
use crate::pool::PacketBuf;
use crate::secure::{self, Data, Entropy, OsEntropy};
use crate::shell::error::DaemonError;
use crate::shell::machine::{Machine, Order, TimerName};
use crate::shell::poller::{Poller, Token, Turn};
use crate::sockets::transport::{self, PathOwners, Receiver, Transport};
use crate::sockets::{Carrier, Sockets, USUAL_MTU};
use crate::status::Status;
use capacity::Follower;
use classes::Classes;
use fairspan_core::flow::{FlowHash, Frame, Layer};
use fairspan_core::ip;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::ring::frame::{DATA, HEAD};
use fairspan_core::ring::node::{self, Node};
use fairspan_core::ring::{NodeId, Side};
use fairspan_core::units::{FlowNumber, Span, Time};
use neighbour::Neighbour;
use routes::Routes;
use stations::Stations;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// How often a refused network is logged at most; all are counted.
const REFUSALS_EVERY: Span = Span::from_secs(10);

/// A node of a ring. Dropping it undoes all that it did to the host's network.
pub(super) struct RingNode {
    host: Host,
    transport: Transport,
    node: Node<PacketBuf>,
    /// By [`Side::index`].
    neighbours: [Option<Neighbour>; 2],
    followers: [Option<(Token, Follower)>; 2],
    paths: PathOwners<Side>,
    stations: Stations,
    routes: Routes,
    classes: Classes,
    /// Tells flows apart, where the station's discipline does.
    flows: Option<FlowHash>,
    /// Control frames that came with data which the node is to count before it computes.
    controls: Vec<(Side, PacketBuf)>,
    /// For sealing control frames.
    scratch: Vec<u8>,
    /// There was input since the polls were last drained.
    dirty: bool,
    counters: Counters,
    /// When the next refused network may be logged.
    next_refusal: Option<Time>,
    config: Config,
    settings: Ring,
}

/// What is counted here.
#[derive(Debug, Default)]
struct Counters {
    /// Packets from the host whose destination lies behind no other node.
    host_no_node: u64,
    /// Packets from an address that does not lie behind the node where they entered.
    spoofed: u64,
    /// Packets from the ring that are no IP packets.
    not_ip: u64,
    /// Sessions of a neighbour's other link, or of a number that is no link of ours.
    wrong_link: u64,
    /// Announcements that were not understood.
    odd_announcement: u64,
    /// Networks that a node announced and may not.
    refused_network: u64,
}

impl RingNode {
    /// Opens everything that `config` names; the interface is up when this returns.
    ///
    /// # Errors
    /// The first thing that failed; what was done by then is undone. [`DaemonError::Setting`] too where there is no
    /// `[ring]`.
    pub(super) fn start(config: Config, now: Time, poller: &Poller) -> Result<RingNode, DaemonError> {
        let Some(settings) = config.ring.clone() else {
            return Err(DaemonError::setting("ring", "the configuration has no [ring]"));
        };
        let host = Host::open(&config.interface, poller)?;
        let mut transport = Transport::new(&config.interface, poller, now, true)?;
        let mut neighbours = [None, None];
        let mut paths = PathOwners::new();
        let seal = secure::overhead(config.interface.padding);
        for side in Side::BOTH {
            let Some(config_of_side) = &settings.sides[side.index()] else { continue };
            let (mut neighbour, socket) = open_side(&settings, side, config_of_side, seal, &mut transport.sockets)?;
            if let Some(sessions) = &mut transport.sessions {
                links::call(now, &mut neighbour, config_of_side, &settings, socket, sessions, &mut paths)?;
            }
            neighbours[side.index()] = Some(neighbour);
        }
        let stations = Stations::new(&config.interface, &settings);
        let mut seed = [0; 8];
        OsEntropy::new().fill(&mut seed);
        let seed = u64::from_ne_bytes(seed);
        let node = open_node(&settings, &neighbours, now, seed)?;

        let mut machine = RingNode {
            host,
            transport,
            node,
            neighbours,
            followers: [None, None],
            paths,
            stations,
            routes: Routes::new(&config.interface),
            classes: Classes::of(&settings.reservations),
            flows: (settings.station_discipline != DisciplineConfig::Fifo).then(|| FlowHash::new(seed)),
            controls: Vec::with_capacity(64),
            scratch: Vec::with_capacity(2048),
            dirty: true,
            counters: Counters::default(),
            next_refusal: None,
            config,
            settings,
        };
        machine.configure(now)?;
        machine.wait_for_all(poller)?;
        for side in Side::BOTH {
            machine.tell_link(now, side);
        }
        Ok(machine)
    }

    /// Gives the interface its place in the host's network, and the kernel its routes into the ring.
    fn configure(&mut self, now: Time) -> Result<(), DaemonError> {
        let mtu = self.fitting_mtu();
        let interface = &self.config.interface;
        if mtu < network::IPV6_MTU && interface.addresses.iter().any(|net| net.addr().is_ipv6()) {
            let least = network::IPV6_MTU;
            let problem = format!(
                "the interface would have an MTU of {mtu}, and its IPv6 address needs {least}: raise that of the links \
                 and `interface.mtu`, or leave IPv6 out of `interface.address`"
            );
            return Err(DaemonError::setting("ring", problem));
        }
        let networks = self.settings.stations.iter().flat_map(|station| &station.networks);
        let channels = self.settings.sides.iter().flatten().filter_map(|side| side.channel.as_ref());
        let links = channels.filter_map(|channel| channel.device.as_deref());
        self.host.configure(interface, networks, links, mtu)?;
        self.announce(now);
        Ok(())
    }

    fn wait_for_all(&mut self, poller: &Poller) -> Result<(), DaemonError> {
        self.transport.sockets.watch_all();
        self.host.watch()?;
        for side in Side::BOTH {
            let Some(config) = &self.settings.sides[side.index()] else { continue };
            let Some(bond) = config.bond.clone() else { continue };
            let follower = Follower::start(bond, config.rate).map_err(DaemonError::Poll)?;
            self.followers[side.index()] = Some((poller.watch(follower.as_fd(), Turn::Others)?, follower));
        }
        Ok(())
    }

    /// Hands the host's packets to the node.
    fn read_host(&mut self, now: Time) -> Result<(), DaemonError> {
        for _ in 0..TUN_BURST {
            let (node, stations, counters) = (&mut self.node, &mut self.stations, &mut self.counters);
            let (classes, flows, own) = (self.classes, &self.flows, self.settings.node);
            let mut sink = |packet: PacketBuf| {
                let to = ip::destination(packet.as_slice()).and_then(|to| stations.node_of(to));
                match to.filter(|to| *to != own) {
                    Some(to) => {
                        let bytes = packet.as_slice();
                        let frame = Frame { bytes, len: bytes.len(), layer: Layer::Ip };
                        let flow = flows.as_ref().map_or(FlowNumber::default(), |flows| flows.flow(&frame).number());
                        node.handle_station(now, to, classes.class(bytes), flow, packet);
                    }
                    None => counters.host_no_node += 1,
                }
            };
            if self.host.tun.recv(&mut sink)?.is_none() {
                break;
            }
            self.dirty = true;
        }
        Ok(())
    }

    /// Hands the node what came from a neighbour.
    fn handle_frame(&mut self, now: Time, side: Side, mut frame: PacketBuf) {
        let Some(neighbour) = &mut self.neighbours[side.index()] else { return };
        self.dirty = true;
        if frame.as_slice().first() != Some(&DATA) {
            neighbour.counters.control_received += 1;
            self.controls.push((side, frame));
            return;
        }
        let Some(head) = frame.as_slice().first_chunk::<HEAD>().copied() else {
            self.transport.counts.malformed_frame += 1;
            return;
        };
        frame.strip(HEAD);
        neighbour.counters.data_received += 1;
        neighbour.counters.data_received_bytes += frame.len() as u64;
        self.node.handle_data(now, side, head, frame);
    }

    /// Moves the node's frames to the links, until it has none.
    fn transmit(&mut self, now: Time) {
        while let Some((side, frame)) = self.node.poll_control(now) {
            let Some(neighbour) = &mut self.neighbours[side.index()] else { continue };
            let Some(carrier) = neighbour.carrier else { continue };
            let socket = &mut self.transport.sockets[carrier.socket()];
            neighbour.send_control(now, socket, self.transport.sessions.as_mut(), &mut self.scratch, frame);
        }
        while let Some(frame) = self.node.poll_transmit(now) {
            if let Some(neighbour) = &mut self.neighbours[frame.side.index()] {
                neighbour.push(now, &mut self.transport.pool, self.transport.sessions.as_mut(), frame);
            }
        }
        for side in Side::BOTH {
            if self.neighbours[side.index()].as_ref().is_some_and(|n| n.is_waiting() && !n.blocked) {
                self.flush(now, side);
            }
        }
    }

    /// Gives the node's packets to the host: only from addresses behind the node where they entered the ring.
    fn deliver(&mut self) -> Result<(), DaemonError> {
        while let Some(delivery) = self.node.poll_deliver() {
            match ip::source(delivery.packet.as_slice()).map(|from| self.stations.node_of(from)) {
                Some(Some(node)) if node == delivery.from => self.host.push(delivery.packet),
                Some(_) => self.counters.spoofed += 1,
                None => self.counters.not_ip += 1,
            }
        }
        Ok(self.host.deliver()?)
    }

    fn handle_event(&mut self, now: Time, event: node::Event) {
        report::log_event(&self.settings, &event);
        if let node::Event::Link { side, up: false } = event {
            self.forget_address(side);
        }
        if matches!(event, node::Event::Topology | node::Event::Announcement) {
            self.learn(now);
        }
    }

    /// Follows what the other nodes tell of their stations.
    fn learn(&mut self, now: Time) {
        let mut changed = false;
        for node in (0..self.settings.nodes).map(NodeId::at) {
            match self.stations.learn(node, self.node.announced(node)) {
                Ok(new) => changed |= new,
                Err(error) => {
                    self.counters.odd_announcement += 1;
                    tracing::warn!(node = node.number(), %error, "the node's announcement is odd");
                    changed = true;
                }
            }
        }
        if changed {
            self.tell_refusals(now);
            self.follow_routes();
            self.fit_mtu(now);
        }
    }

    /// Counts what nodes announced and may not, and logs one of it.
    fn tell_refusals(&mut self, now: Time) {
        let refusals = self.stations.take_refusals();
        self.counters.refused_network += refusals.len() as u64;
        if let Some((node, net, why)) = refusals.first()
            && self.next_refusal.is_none_or(|next| next <= now)
        {
            self.next_refusal = Some(now + REFUSALS_EVERY);
            let (node, more) = (node.number(), refusals.len() - 1);
            tracing::warn!(node, %net, %why, more, "a node announces a network that it may not");
        }
    }

    /// Gives the kernel its routes into the ring as they are now.
    fn follow_routes(&mut self) {
        let name = self.host.name().to_owned();
        if let Some(netlink) = self.host.netlink() {
            self.routes.follow(netlink, &name, self.stations.elsewhere());
        }
    }

    /// Tells the other nodes what lies behind this one and what fits its links.
    fn announce(&mut self, now: Time) {
        let (bytes, left_out) = self.stations.announcement(self.own_mtu()).encode();
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "there are more networks than one announcement holds: configure the others elsewhere"
            );
        }
        self.node.announce(now, &bytes);
        self.dirty = true;
    }

    /// The largest packet that fits this node's links.
    fn own_mtu(&self) -> usize {
        self.neighbours.iter().flatten().map(Neighbour::packet_mtu).min().unwrap_or(USUAL_MTU)
    }

    /// The largest packet that fits all of the ring.
    fn fitting_mtu(&self) -> usize {
        let fits = self.stations.mtu().map_or(self.own_mtu(), |others| others.min(self.own_mtu()));
        self.config.interface.mtu.map_or(fits, |set| fits.min(set.into()))
    }

    /// Keeps the interface's MTU at what fits.
    fn fit_mtu(&mut self, now: Time) {
        self.announce(now);
        let mtu = self.fitting_mtu();
        let networks = self.settings.stations.iter().flat_map(|station| &station.networks);
        if self.host.fit_mtu(&self.config.interface, networks, mtu) {
            self.routes.forget_v6();
            self.follow_routes();
        }
    }
}

impl Machine for RingNode {
    /// The node computes at its timers and at control frames, so both come after what was received.
    fn order(&self) -> Order {
        Order::InputFirst
    }

    fn handle_readable(&mut self, now: Time, token: Token) -> Result<(), DaemonError> {
        if self.host.is(token) {
            return self.read_host(now);
        }
        if let Some(number) = self.transport.sockets.find(token) {
            transport::receive(self, now, number, token);
            return Ok(());
        }
        if self.transport.is_worker(token) {
            transport::receive_work(self, now);
            return Ok(());
        }
        for side in Side::BOTH {
            if self.followers[side.index()].as_ref().is_some_and(|(of, _)| *of == token) {
                self.follow_capacity(now, side);
            }
        }
        Ok(())
    }

    fn handle_writable(&mut self, now: Time, token: Token) {
        if let Some(number) = self.transport.sockets.find(token) {
            self.flush_socket(now, number);
        }
    }

    fn handle_link_change(&mut self, now: Time, change: LinkChange) -> Result<(), DaemonError> {
        let change = self.host.on_link_change(change)?;
        self.follow_interface(now, &change);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.transport.handle_timeout(now);
        if self.node.poll_timeout().is_some_and(|due| due <= now) {
            self.node.handle_timeout(now);
            self.dirty = true;
        }
        if self.transport.take_retry() {
            for number in 0..self.transport.sockets.len() {
                self.flush_socket(now, number);
            }
        }
    }

    fn handle_housekeeping(&mut self, now: Time) {
        self.retry_links(now);
        // What a node told is forgotten some time after it is gone: no change of the topology.
        self.learn(now);
        self.transport.handle_housekeeping(now);
    }

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let node = self.node.poll_timeout().map(|due| (due, TimerName("node")));
        node.into_iter().chain(self.transport.poll_timeout()).min_by_key(|(due, _)| *due)
    }

    /// Drains everything that the sessions and the node have to say, until they say nothing more.
    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        for (side, frame) in self.controls.drain(..) {
            self.node.handle_control(now, side, frame.as_slice());
        }
        self.follow_sessions(now);
        self.transport.send_messages(None);
        while std::mem::take(&mut self.dirty) {
            self.transmit(now);
            self.deliver()?;
            while let Some(event) = self.node.poll_event() {
                self.dirty = true;
                self.handle_event(now, event);
            }
        }
        Ok(())
    }

    fn interface(&self) -> &str {
        self.host.name()
    }

    fn mtu(&self) -> usize {
        self.host.mtu()
    }

    fn report(&self, _: Time, status: &mut Status) {
        self.tell(status);
    }
}

impl Receiver for RingNode {
    fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    fn handle_opened(&mut self, now: Time, data: &Data, packet: PacketBuf, datagram: &Datagram<'_>) {
        if self.paths.owner(data.path).is_none() {
            // The first packet of a link may confirm its handshake.
            self.follow_sessions(now);
        }
        let Some(side) = self.paths.owner(data.path) else {
            self.counters.wrong_link += 1;
            return;
        };
        if let Some(neighbour) = &mut self.neighbours[side.index()] {
            neighbour.local = datagram.destination;
        }
        self.handle_frame(now, side, packet);
    }

    fn handle_plain(&mut self, now: Time, socket: usize, source: Mac, codepoint: Codepoint, frame: PacketBuf) {
        let Some(((side, _), learnt)) = self.transport.sockets[socket].owner_of(source, codepoint) else {
            self.transport.counts.stranger += 1;
            return;
        };
        let side = Side::BOTH[side];
        if learnt {
            tracing::info!(link = neighbour::name(side), mac = %source, "neighbour's address learnt");
        }
        self.handle_frame(now, side, frame);
    }

    fn handle_session_events(&mut self, now: Time) {
        self.follow_sessions(now);
    }

    fn handle_down(&mut self, now: Time, socket: usize) {
        self.socket_down(now, socket);
    }

    /// Nobody connects to a node of a ring.
    fn handle_closed(&mut self, _: Time, _: usize, _: SocketAddr) {}
}

/// Opens the socket of a link, or lets it share one: its number, where the neighbour is not the one to call.
fn open_side(
    ring: &Ring,
    side: Side,
    config: &RingSide,
    seal: usize,
    sockets: &mut Sockets,
) -> Result<(Neighbour, Option<usize>), DaemonError> {
    let Some(channel) = &config.channel else {
        return Ok((Neighbour::new(ring, side, config, config.mtu.map_or(USUAL_MTU, usize::from), seal), None));
    };
    let number = sockets.open_channel(channel)?;
    let socket = &mut sockets[number];
    let mtu = config.mtu.map_or_else(|| socket.device_mtu().unwrap_or(USUAL_MTU), usize::from);
    let mut neighbour = Neighbour::new(ring, side, config, mtu, seal);
    socket.add_owner(neighbour.owner(), channel)?;
    if config.public_key.is_none() {
        neighbour.carrier = Some(Carrier::Plain { socket: number });
        neighbour.connected = true;
    }
    neighbour.failed = !sockets.is_usable(number);
    Ok((neighbour, Some(number)))
}

fn open_node(
    ring: &Ring,
    neighbours: &[Option<Neighbour>; 2],
    now: Time,
    seed: u64,
) -> Result<Node<PacketBuf>, DaemonError> {
    let mut config = ring.node_config();
    for neighbour in neighbours.iter().flatten() {
        config.capacity[neighbour.side.index()] = neighbour.capacity;
        config.overhead[neighbour.side.index()] = neighbour.overhead();
    }
    Node::new(config, now, seed).map_err(|e| DaemonError::setting("ring", e))
}
