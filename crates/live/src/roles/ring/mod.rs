//! The daemon of `fairspan ring up`: a node of a packet ring, with a TUN interface as its station and two neighbours.
//!
//! It decides nothing about the protocol: [`fairspan_core::ring::node`] and the sessions ([`crate::secure`]) do. It waits,
//! reads, hands over, drains the polls, and writes; control frames leave at once, data in batches.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | opening, the loop, the way of a packet |
//! | `links` | links that connect, fill up, fail and come back |
//! | `neighbour` | one link, what carries it, and what waits to leave |
//! | `stations`, `announcement` | what lies behind which node, and how nodes tell |
//! | `routes` | the kernel's routes into the ring |
//! | `classes` | DiffServ codepoints and service classes |
//! | `capacity` | a link over another daemon's bond |
//! | `report` | log, status, metrics |
//!
//! **Frames.** In a session, or behind a length of two bytes on Ethernet in the clear: either a control frame, or the
//! head of a data frame and an IP packet. The first byte tells which.
//!
//! **Who a neighbour is.** On an encrypted link its key says so, and the link's number, which both ends count alike: what is
//! sealed with the key of the east neighbour counts as coming from the east, whichever socket it came by.

mod announcement;
mod capacity;
mod classes;
mod links;
mod neighbour;
mod report;
mod routes;
mod stations;

use crate::channel::ethernet::{Codepoint, Mac};
use crate::channel::udp::{Datagram, Receive, ReceiveBatch};
use crate::clock::{Clock, until};
use crate::config::{Config, Ring, RingSide};
use crate::control::Control;
use crate::metrics;
use crate::netlink::{Guard, Monitor};
use crate::pool::PacketBuf;
use crate::roles::network;
use crate::secure::{self, Entropy, OsEntropy, Received, Sessions, SocketId};
use crate::shell::DaemonError;
use crate::sockets::outbox;
use crate::sockets::socket::{self, Kind, Socket};
use crate::sockets::{Carrier, Sockets, TOKEN_SOCKETS, sealed_frame};
use crate::tun::{self, Tun};
use capacity::Follower;
use classes::Classes;
use fairspan_core::ip;
use fairspan_core::ring::discovery;
use fairspan_core::ring::frame::{DATA, HEAD};
use fairspan_core::ring::node::{self, Node};
use fairspan_core::ring::{NodeId, Side};
use fairspan_core::units::{Bytes, Span, Time};
use neighbour::Neighbour;
use routes::Routes;
use rustix::event::{Timespec, epoll};
use stations::Stations;
use std::os::fd::{AsFd, BorrowedFd};

/// TUN units read in a row before the links get their turn: 8 units of 64 kB are about 4 ms at 1 Gbit/s.
const TUN_BURST: usize = 8;
/// Receives in a row on one socket before others get their turn.
const RECEIVE_BURST: usize = 4;
/// Frames taken from one Ethernet socket before others get their turn.
const FRAME_BURST: usize = 256;
/// Longest sleep; nothing depends on it.
const LONGEST_WAIT: Span = Span::from_secs(1);
/// Wait while a client of the control socket is being served, or an interface's queue is full.
const SHORT_WAIT: Span = Span::from_millis(1);
/// How often links that failed are tried again, and the metrics are made anew.
const HOUSEKEEPING: Span = Span::from_secs(1);
/// The MTU of a link that nobody tells.
const USUAL_MTU: usize = 1500;

const TOKEN_STOP: u64 = 0;
const TOKEN_TUN: u64 = 1;
const TOKEN_MONITOR: u64 = 2;
const TOKEN_CONTROL: u64 = 3;
/// And the side's number.
const TOKEN_CAPACITY: u64 = 4;

/// A running node of a ring. Dropping it undoes all that it did to the host's network.
pub struct RingDaemon {
    clock: Clock,
    /// Undone before the interface goes with `tun`.
    network: Option<Guard>,
    tun: Tun,
    monitor: Monitor,
    control: Option<Control>,
    sessions: Option<Sessions>,
    sockets: Sockets,
    node: Node<PacketBuf>,
    /// By [`Side::index`].
    neighbours: [Option<Neighbour>; 2],
    followers: [Option<Follower>; 2],
    /// Whose path: by [`secure::PathId::index`].
    paths: Vec<Option<Side>>,
    stations: Stations,
    routes: Routes,
    classes: Classes,
    /// Lent to each receive; only absent meanwhile.
    received: Option<ReceiveBatch>,
    pool: outbox::Pool,
    to_host: Vec<PacketBuf>,
    /// Sealed frames on their way from a receive ring to the sessions, with who sent them.
    frames: Vec<(Mac, PacketBuf)>,
    /// Control frames that came with data which the node is to count before it computes.
    controls: Vec<(Side, PacketBuf)>,
    /// For sealing control frames.
    scratch: Vec<u8>,
    /// A queue was full, and no poll tells when there is room: try again soon.
    congested: bool,
    /// There was input since the polls were last drained.
    dirty: bool,
    shared: Option<metrics::Shared>,
    housekeeping: Time,
    mtu: usize,
    counters: Counters,
    config: Config,
    settings: Ring,
}

/// What the daemon itself counts.
#[derive(Debug, Default)]
struct Counters {
    /// Packets from the host whose destination lies behind no other node.
    host_no_node: u64,
    /// Frames from a station that is no neighbour.
    stranger: u64,
    /// Frames in the clear where only sealed ones count, or of the EtherType that nothing here uses.
    plain_frame: u64,
    /// Frames that are too short, or whose length points behind their end.
    malformed_frame: u64,
    /// Packets from an address that does not lie behind the node where they entered.
    spoofed: u64,
    /// Packets from the ring that are no IP packets.
    not_ip: u64,
    /// Sessions of a neighbour's other link, or of a number that is no link of ours.
    wrong_link: u64,
    /// Announcements that were not understood.
    odd_announcement: u64,
    /// Frames dropped because their link was down.
    send_down: u64,
    /// MTUs that the kernel did not accept.
    mtu_refused: u64,
}

impl RingDaemon {
    /// Opens everything that `config` names; the interface is up when this returns.
    ///
    /// # Errors
    /// The first thing that failed; what was done by then is undone. [`DaemonError::Setting`] too where there is no
    /// `[ring]`.
    pub fn start(config: Config) -> Result<RingDaemon, DaemonError> {
        let Some(settings) = config.ring.clone() else {
            return Err(setting("ring", "the configuration has no [ring]"));
        };
        let clock = Clock::start();
        let now = clock.now();
        let control = Control::open(&config.interface.control_socket)?;
        // Opened before any device is looked at, so that no change is missed.
        let monitor = Monitor::open()?;
        let mut tun_config = tun::Config::new(&config.interface.name);
        tun_config.offload = config.interface.offload;
        tun_config.keep_partial = config.interface.offload;
        let tun = Tun::open(&tun_config)?;
        let mut sessions = open_sessions(&config, now)?;
        let mut sockets = Sockets::new()?;
        if let Some(port) = config.interface.listen_port {
            sockets.extend(Socket::listen(port, config.interface.fwmark)?);
        }
        let mut neighbours = [None, None];
        let mut paths = Vec::new();
        for side in Side::BOTH {
            let Some(config_of_side) = &settings.sides[side.index()] else { continue };
            let fwmark = config.interface.fwmark;
            let (mut neighbour, socket) = open_side(&settings, side, config_of_side, fwmark, &mut sockets)?;
            if let Some(sessions) = &mut sessions {
                links::call(now, &mut neighbour, config_of_side, &settings, socket, sessions, &mut paths)?;
            }
            neighbours[side.index()] = Some(neighbour);
        }
        let stations = Stations::new(&config.interface, &settings);
        let node = open_node(&settings, &neighbours, now)?;

        let mut daemon = RingDaemon {
            clock,
            network: None,
            tun,
            monitor,
            control: Some(control),
            sessions,
            sockets,
            node,
            neighbours,
            followers: [None, None],
            paths,
            stations,
            routes: Routes::new(&config.interface),
            classes: Classes::of(&settings.reservations),
            received: Some(ReceiveBatch::new()),
            pool: outbox::Pool::new(),
            to_host: Vec::with_capacity(1024),
            frames: Vec::with_capacity(FRAME_BURST),
            controls: Vec::with_capacity(64),
            scratch: Vec::with_capacity(2048),
            congested: false,
            dirty: true,
            shared: None,
            housekeeping: now + HOUSEKEEPING,
            mtu: 0,
            counters: Counters::default(),
            config,
            settings,
        };
        daemon.mtu = daemon.fitting_mtu();
        if daemon.mtu < network::IPV6_MTU && daemon.config.interface.addresses.iter().any(|net| net.addr().is_ipv6()) {
            let (mtu, least) = (daemon.mtu, network::IPV6_MTU);
            let problem = format!(
                "the interface would have an MTU of {mtu}, and its IPv6 address needs {least}: raise that of the links \
                 and `interface.mtu`, or leave IPv6 out of `interface.address`"
            );
            return Err(setting("ring", problem));
        }
        daemon.announce(now);
        daemon.network = Some(daemon.configure()?);
        if let Some(address) = daemon.config.interface.metrics {
            let shared = metrics::Shared::default();
            metrics::serve(address, shared.clone()).map_err(|source| DaemonError::Metrics { address, source })?;
            daemon.shared = Some(shared);
        }
        daemon.wait_for_all()?;
        for side in Side::BOTH {
            daemon.tell_link(now, side);
        }
        daemon.publish();
        Ok(daemon)
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        self.tun.name()
    }

    /// The interface's MTU now, in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Moves packets until `stop` becomes readable.
    ///
    /// # Errors
    /// What leaves the daemon without its purpose: the TUN interface deleted by someone else.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<(), DaemonError> {
        self.sockets.watch(stop, TOKEN_STOP)?;
        let mut events = Vec::with_capacity(64);
        self.drain(self.clock.now())?;
        loop {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.sockets.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let now = self.clock.now();
            // First all that came, then the timers and the control frames, at which the node computes: what waited here while
            // the process did not run belongs to the time before, which would else look idle. Links before the host: what is in
            // transit is not to wait for what may still be held back.
            for event in events.iter().filter(|event| event.data.u64() >= TOKEN_SOCKETS) {
                let number = (event.data.u64() - TOKEN_SOCKETS) as usize;
                let flags = event.flags;
                if flags.contains(epoll::EventFlags::OUT) {
                    self.flush_socket(now, number);
                }
                if flags != epoll::EventFlags::OUT {
                    self.read_socket(now, number);
                }
            }
            for event in &events {
                match event.data.u64() {
                    TOKEN_STOP => return Ok(()),
                    TOKEN_TUN => self.read_host(now)?,
                    TOKEN_MONITOR => self.follow_interfaces(now)?,
                    TOKEN_CONTROL => self.serve_control(),
                    token @ TOKEN_CAPACITY..TOKEN_SOCKETS => {
                        if let Some(side) = Side::BOTH.get((token - TOKEN_CAPACITY) as usize) {
                            self.follow_capacity(now, *side);
                        }
                    }
                    _ => {}
                }
            }
            self.handle_timeouts(now);
            self.handle_controls(now);
            if self.control.as_ref().is_some_and(Control::is_busy) {
                self.serve_control();
            }
            self.drain(now)?;
        }
    }

    /// Gives the interface its place in the host's network, and the kernel its routes into the ring.
    fn configure(&mut self) -> Result<Guard, DaemonError> {
        let networks: Vec<_> = self.settings.stations.iter().flat_map(|station| &station.networks).collect();
        let channels = self.settings.sides.iter().flatten().filter_map(|side| side.channel.as_ref());
        let links = channels.filter_map(|channel| channel.device.as_deref());
        let interface = &self.config.interface;
        let guard = network::configure(interface, networks.into_iter(), links, self.tun.name(), self.mtu)?;
        Ok(guard)
    }

    fn wait_for_all(&mut self) -> Result<(), DaemonError> {
        for number in 0..self.sockets.len() {
            self.sockets.watch_socket(number);
        }
        self.sockets.watch(self.tun.as_fd(), TOKEN_TUN)?;
        self.sockets.watch(self.monitor.as_fd(), TOKEN_MONITOR)?;
        if let Some(control) = &self.control {
            self.sockets.watch(control.as_fd(), TOKEN_CONTROL)?;
        }
        for side in Side::BOTH {
            let Some(config) = &self.settings.sides[side.index()] else { continue };
            let Some(bond) = config.bond.clone() else { continue };
            let follower = Follower::start(bond, config.rate).map_err(DaemonError::Poll)?;
            self.sockets.watch(follower.as_fd(), TOKEN_CAPACITY + side.index() as u64)?;
            self.followers[side.index()] = Some(follower);
        }
        Ok(())
    }

    fn timeout(&self) -> Timespec {
        let now = self.clock.now();
        let mut next = self.housekeeping.min(now + LONGEST_WAIT);
        if self.congested || self.control.as_ref().is_some_and(Control::is_busy) {
            next = next.min(now + SHORT_WAIT);
        }
        next = next.min(self.sessions.as_ref().and_then(Sessions::poll_timeout).unwrap_or(Time::MAX));
        until(now, next.min(self.node.poll_timeout().unwrap_or(Time::MAX)))
    }

    fn handle_timeouts(&mut self, now: Time) {
        if let Some(sessions) = &mut self.sessions
            && sessions.poll_timeout().is_some_and(|due| due <= now)
        {
            sessions.handle_timeout(now);
        }
        if self.node.poll_timeout().is_some_and(|due| due <= now) {
            self.node.handle_timeout(now);
            self.dirty = true;
        }
        if std::mem::take(&mut self.congested) {
            for number in 0..self.sockets.len() {
                self.flush_socket(now, number);
            }
        }
        if self.housekeeping <= now {
            self.housekeeping = now + HOUSEKEEPING;
            self.retry_links(now);
            // What a node told is forgotten some time after it is gone: no change of the topology.
            self.learn(now);
            self.publish();
        }
    }

    /// Hands the host's packets to the node.
    fn read_host(&mut self, now: Time) -> Result<(), DaemonError> {
        for _ in 0..TUN_BURST {
            let (node, stations, counters) = (&mut self.node, &mut self.stations, &mut self.counters);
            let (classes, own) = (self.classes, self.settings.node);
            let mut sink = |packet: PacketBuf| {
                let to = ip::destination(packet.as_slice()).and_then(|to| stations.node_of(to));
                match to.filter(|to| *to != own) {
                    Some(to) => node.handle_station(now, to, classes.class(packet.as_slice()), packet),
                    None => counters.host_no_node += 1,
                }
            };
            if self.tun.recv(&mut sink)?.is_none() {
                break;
            }
            self.dirty = true;
        }
        Ok(())
    }

    fn read_socket(&mut self, now: Time, number: usize) {
        let Some(socket) = self.sockets.get_mut(number) else { return };
        match (&mut socket.kind, &mut socket.segment) {
            (Kind::Udp(_), _) => self.read_datagrams(now, number),
            (Kind::Ethernet(socket), segment) => {
                let (frames, counters) = (&mut self.frames, &mut self.counters);
                let taken =
                    socket.receive(FRAME_BURST, |frame| match (frame.codepoint, sealed_frame::datagram(frame.bytes)) {
                        (Codepoint::Raw, _) => counters.plain_frame += 1,
                        (Codepoint::Envelope, None) => counters.malformed_frame += 1,
                        (Codepoint::Envelope, Some(bytes)) => frames.push((frame.source, PacketBuf::copy_from(bytes))),
                    });
                let stations = segment
                    .as_mut()
                    .filter(|segment| !segment.secure)
                    .map(|segment| std::mem::take(&mut segment.stations));
                self.handle_frames(now, number, stations);
                if taken == 0 {
                    // Readable without a frame: an error is pending.
                    self.socket_down(now, number);
                }
            }
            (Kind::Missing(..), _) => {}
        }
    }

    /// Hands on what came from a receive ring: to the sessions, or, where there are `stations`, to the node.
    fn handle_frames(&mut self, now: Time, number: usize, mut stations: Option<Vec<socket::Station>>) {
        let mut frames = std::mem::take(&mut self.frames);
        for (from, frame) in frames.drain(..) {
            let Some(stations) = &mut stations else {
                let from = sealed_frame::address_of(from);
                let datagram = Datagram { source: from, destination: None, ecn: 0, bytes: frame.as_slice() };
                self.handle_datagram(now, number, &datagram);
                continue;
            };
            match socket::owner_of(stations, from, Codepoint::Envelope) {
                Some(((side, _), learnt)) => {
                    let side = Side::BOTH[side];
                    if learnt {
                        tracing::info!(link = neighbour::name(side), mac = %from, "neighbour's address learnt");
                    }
                    self.handle_frame(now, side, frame);
                }
                None => self.counters.stranger += 1,
            }
        }
        self.frames = frames;
        if let (Some(stations), Some(segment)) = (stations, &mut self.sockets[number].segment) {
            segment.stations = stations;
        }
    }

    fn read_datagrams(&mut self, now: Time, number: usize) {
        let mut received = self.received.take().unwrap_or_default();
        for _ in 0..RECEIVE_BURST {
            let Kind::Udp(socket) = &mut self.sockets[number].kind else { break };
            match socket.receive(&mut received) {
                Receive::Messages(_) => {}
                Receive::Empty => break,
                Receive::Down => {
                    self.socket_down(now, number);
                    break;
                }
            }
            for datagram in received.datagrams() {
                self.handle_datagram(now, number, &datagram);
            }
        }
        self.received = Some(received);
    }

    fn handle_datagram(&mut self, now: Time, number: usize, datagram: &Datagram<'_>) {
        let Some(sessions) = &mut self.sessions else { return };
        // Opened straight into the slot that is sent on, or goes to the host: decryption is the copy.
        let mut slot = PacketBuf::with_len(datagram.bytes.len());
        let socket = SocketId(number as u32);
        match sessions.handle_datagram(now, socket, datagram.source, datagram.bytes, slot.as_mut_slice()) {
            Received::Data(data) => {
                if self.paths.get(data.path.index()).copied().flatten().is_none() {
                    // The first packet of a link may confirm its handshake.
                    self.handle_session_events(now);
                }
                let Some(Some(side)) = self.paths.get(data.path.index()).copied() else {
                    self.counters.wrong_link += 1;
                    return;
                };
                slot.truncate(data.len);
                slot.checksum_partial = data.flags & secure::FLAG_CHECKSUM_PARTIAL != 0;
                if let Some(neighbour) = &mut self.neighbours[side.index()] {
                    neighbour.local = datagram.destination;
                }
                self.handle_frame(now, side, slot);
            }
            Received::Control => {
                // A link that connected just now is to be known before its first packet.
                self.handle_session_events(now);
                self.send_session_messages(Some(datagram));
            }
            Received::Dropped(reason) => tracing::trace!(from = %datagram.source, ?reason, "datagram dropped"),
        }
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
            self.counters.malformed_frame += 1;
            return;
        };
        frame.strip(HEAD);
        neighbour.counters.data_received += 1;
        neighbour.counters.data_received_bytes += frame.len() as u64;
        self.node.handle_data(now, side, head, frame);
    }

    /// Hands the node the control frames that came since.
    fn handle_controls(&mut self, now: Time) {
        for (side, frame) in self.controls.drain(..) {
            self.node.handle_control(now, side, frame.as_slice());
        }
    }

    /// Sends what the sessions themselves have to say; false when a link is down.
    fn send_session_messages(&mut self, asked: Option<&Datagram<'_>>) -> bool {
        let failed = self.sessions.as_mut().map_or(0, |sessions| self.sockets.send_messages(sessions, asked));
        self.counters.send_down += failed;
        failed == 0
    }

    /// Drains everything that the sessions and the node have to say, until they say nothing more.
    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        self.handle_session_events(now);
        self.send_session_messages(None);
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

    /// Moves the node's frames to the links, until it has none.
    fn transmit(&mut self, now: Time) {
        while let Some((side, frame)) = self.node.poll_control(now) {
            let Some(neighbour) = &mut self.neighbours[side.index()] else { continue };
            let Some(carrier) = neighbour.carrier else { continue };
            let socket = &mut self.sockets[carrier.socket()];
            neighbour.send_control(now, socket, self.sessions.as_mut(), &mut self.scratch, frame);
        }
        while let Some(frame) = self.node.poll_transmit(now) {
            if let Some(neighbour) = &mut self.neighbours[frame.side.index()] {
                neighbour.push(now, &mut self.pool, self.sessions.as_mut(), frame);
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
                Some(Some(node)) if node == delivery.from => self.to_host.push(delivery.packet),
                Some(_) => self.counters.spoofed += 1,
                None => self.counters.not_ip += 1,
            }
        }
        if !self.to_host.is_empty() {
            self.tun.send(&mut self.to_host)?;
        }
        Ok(())
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
            if let Some(guard) = &mut self.network {
                self.routes.follow(guard.netlink(), self.tun.name(), self.stations.elsewhere());
            }
            self.fit_mtu(now);
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
        if mtu == self.mtu {
            return;
        }
        match self.tun.set_mtu(mtu as u32) {
            Ok(()) => {
                tracing::info!(interface = self.tun.name(), mtu, "interface MTU");
                let before = std::mem::replace(&mut self.mtu, mtu);
                self.follow_mtu(before);
            }
            Err(error) => {
                self.counters.mtu_refused += 1;
                tracing::warn!(interface = self.tun.name(), mtu, %error, "the kernel refuses this MTU");
            }
        }
    }

    /// Gives the kernel its IPv6 back when the MTU allows it again.
    fn follow_mtu(&mut self, before: usize) {
        let Some(guard) = &mut self.network else { return };
        let networks = self.settings.stations.iter().flat_map(|station| &station.networks);
        let (interface, device, mtus) = (&self.config.interface, self.tun.name(), [before, self.mtu]);
        if network::follow_mtu(guard.netlink(), interface, networks, device, mtus) {
            self.routes.forget_v6();
            self.routes.follow(guard.netlink(), device, self.stations.elsewhere());
        }
    }
}

fn open_sessions(config: &Config, now: Time) -> Result<Option<Sessions>, DaemonError> {
    let Some(key) = config.interface.private_key.clone() else { return Ok(None) };
    Sessions::new(secure::Config::default(), key, Box::new(OsEntropy::new()), now)
        .map(Some)
        .map_err(|e| setting("interface", e))
}

/// Opens the socket of a link, or lets it share one: its number, where the neighbour is not the one to call.
fn open_side(
    ring: &Ring,
    side: Side,
    config: &RingSide,
    fwmark: u32,
    sockets: &mut Sockets,
) -> Result<(Neighbour, Option<usize>), DaemonError> {
    let Some(channel) = &config.channel else {
        return Ok((Neighbour::new(ring, side, config, config.mtu.map_or(USUAL_MTU, usize::from)), None));
    };
    let number = match sockets.iter().position(|socket| socket.serves(channel)) {
        Some(number) => number,
        None => {
            sockets.push(Socket::open(channel, fwmark)?);
            sockets.len() - 1
        }
    };
    let socket = &mut sockets[number];
    let mtu = config.mtu.map_or_else(|| socket.device_mtu().unwrap_or(USUAL_MTU), usize::from);
    let mut neighbour = Neighbour::new(ring, side, config, mtu);
    socket.add_owner(neighbour.owner(), channel)?;
    if config.public_key.is_none() {
        neighbour.carrier = Some(Carrier::Plain { socket: number });
        neighbour.connected = true;
    }
    neighbour.failed = !sockets.is_usable(number);
    Ok((neighbour, Some(number)))
}

fn open_node(ring: &Ring, neighbours: &[Option<Neighbour>; 2], now: Time) -> Result<Node<PacketBuf>, DaemonError> {
    let mut config = node::Config::new(ring.node, ring.nodes, ring.rate);
    config.algorithm = ring.algorithm.clone();
    config.interval = ring.interval;
    config.protection = ring.protection;
    config.weight = ring.weight;
    config.reservations.clone_from(&ring.reservations);
    let mut discovery = discovery::Config::new(ring.node, ring.nodes, ring.rate);
    discovery.keepalive = Some(ring.keepalive);
    discovery.silence = ring.silence;
    discovery.hold_off = ring.hold_off;
    discovery.wait_to_restore = ring.restore_after;
    config.discovery = Some(discovery);
    config.transit_limit = ring.transit_buffer;
    config.station_threshold = Bytes::new(ring.transit_buffer.as_u64() / 4);
    config.station_limit = ring.station_buffer;
    config.burst = ring.burst;
    for neighbour in neighbours.iter().flatten() {
        config.capacity[neighbour.side.index()] = neighbour.capacity;
        config.overhead[neighbour.side.index()] = neighbour.overhead();
    }
    let mut seed = [0; 8];
    OsEntropy::new().fill(&mut seed);
    Node::new(config, now, u64::from_ne_bytes(seed)).map_err(|e| setting("ring", e))
}

fn setting(peer: &str, problem: impl ToString) -> DaemonError {
    DaemonError::Setting { peer: peer.to_owned(), problem: problem.to_string() }
}
