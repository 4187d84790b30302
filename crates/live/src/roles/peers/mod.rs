//! The daemon of `fairspan up` with peers: it moves packets between the host, the bonds and the links.
//!
//! It decides nothing about the protocol: bonds (`fairspan_core::bond`) and sessions ([`crate::secure`]) do. It reads,
//! hands over, drains the polls, and writes, in batches; per packet it makes no system call, takes no lock and allocates
//! nothing.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | opening, the way of a packet |
//! | `side`, `port` | the host's side, or an Ethernet port in its place |
//! | `fallback`, `ways` | when a channel goes over TCP and back; how |
//! | `links`, `eager` | sockets that fill up, fail, vanish and come back; when what failed is tried again |
//! | `sessions` | channels that connect, move and are lost |
//! | `reload` | another configuration, while it runs |
//! | `change`, `told` | channels that are removed, or changed; what the peer is told of them |
//! | `peer` | one bond and what carries its channels |
//! | `domains` | names whose addresses go through the bond, or past it |
//! | `quota`, `metered` | what channels may carry in a month, and have carried; what follows |
//! | `guests`, `joins` | invited sites; how they join |
//! | `names`, `lookups` | endpoints that are names; when they are asked for |
//! | `recording` | the file of a recorded run |
//! | `report` | log and status |

mod change;
mod domains;
mod eager;
mod fallback;
mod guests;
mod joins;
mod links;
mod lookups;
mod metered;
mod names;
mod peer;
mod port;
mod quota;
mod recording;
mod reload;
mod report;
mod sessions;
mod side;
mod told;
mod ways;

use super::domains::Domains;
use super::hello::Hello;
use super::host::TUN_BURST;
use super::masquerade::Masquerade;
use super::network::IPV6_MTU;
use crate::allowed::Allowed;
use crate::channel::ethernet::Mac;
use crate::channel::udp::{Datagram, Destination};
use crate::config::{self, Channel, ChannelKind, Config};
use crate::confinement::Needs;
use crate::netlink::LinkChange;
use crate::offload;
use crate::pool::PacketBuf;
use crate::reloaded::Reloaded;
use crate::secure::{self, Data, Endpoint, FLAG_CHECKSUM_PARTIAL, PeerConfig, PeerId, SocketId};
use crate::shell::error::DaemonError;
use crate::shell::machine::{Machine, Order, TimerName};
use crate::shell::poller::{Poller, Token};
use crate::sockets::outbox::Frame;
use crate::sockets::transport::{self, PathOwners, Receiver, Transport};
use crate::sockets::{Carrier, Room, sealed_frame};
use crate::status::Status;
use eager::Eager;
use fairspan_core::bond::{self, Codepoint, Event, Link, Transmit};
use fairspan_core::ip;
use fairspan_core::packet::Packet;
use fairspan_core::units::{ChannelId, Time};
use guests::Guests;
use lookups::Lookups;
use peer::{Joining, PeerState, random_seed};
use quota::Quotas;
use recording::Recording;
use side::Side;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The peers of a daemon, each with its bond. Dropping them undoes all that was done to the host's network.
pub(super) struct Peers {
    /// Undone before the interface goes.
    masquerade: Option<Masquerade>,
    /// Likewise.
    domains: Option<Domains>,
    poller: Poller,
    side: Side,
    transport: Transport,
    peers: Vec<PeerState>,
    allowed: Allowed,
    paths: PathOwners<(usize, ChannelId)>,
    counters: Counters,
    config: Config,
    /// What it was confined for.
    needs: Needs,
    eager: Option<Eager>,
    lookups: Lookups,
    quotas: Quotas,
    guests: Guests,
}

/// What is counted here.
#[derive(Debug, Default)]
struct Counters {
    /// Packets from the host that belong to no peer.
    host_no_peer: u64,
    /// Packets from a peer with a source address that is not allowed to it.
    spoofed: u64,
    /// Frames that could not be sealed or queued for sending.
    send_refused: u64,
}

impl Peers {
    /// Opens everything that `config` names; the interface is up when this returns.
    ///
    /// # Errors
    /// The first thing that failed; what was done by then is undone.
    pub(super) fn start(mut config: Config, now: Time, poller: &Poller) -> Result<Peers, DaemonError> {
        let mut guests = Guests::open(&config.interface, now);
        guests.joined.resolve(&mut config);
        guests.follow(&config);
        let seal = secure::overhead(config.interface.padding);
        let mut peers = Peers {
            side: Side::open(&config.interface, poller)?,
            transport: Transport::new(&config.interface, poller, now, false)?,
            peers: Vec::new(),
            allowed: Allowed::default(),
            paths: PathOwners::new(),
            counters: Counters::default(),
            needs: Needs::of(&config),
            eager: None,
            lookups: Lookups::default(),
            quotas: Quotas::open(&config.interface, now),
            guests,
            masquerade: None,
            domains: None,
            poller: poller.clone(),
            config,
        };
        for number in 0..peers.config.peers.len() {
            let record = peers.config.interface.record.as_deref();
            let config = &peers.config.peers[number];
            let peer = Peers::make_peer(now, config, &mut peers.transport, (seal, record))?;
            peers.peers.push(peer);
            peers.open_peer(now, number)?;
        }
        peers.route_to_peers();
        let mtu = peers.fitting_mtu();
        let configured = &peers.config.peers;
        let nets = configured.iter().flat_map(|peer| &peer.allowed_ips);
        let links = configured.iter().flat_map(|peer| &peer.channels).filter_map(|channel| channel.device.as_deref());
        match &mut peers.side {
            Side::Host(host) => host.configure(&peers.config.interface, nets, links, mtu)?,
            Side::Port(port) => port.compare(mtu),
        }
        peers.masquerade = Masquerade::start(&peers.config)?;
        peers.domains = Domains::start(&peers.config, poller)?;
        peers.transport.sockets.watch_all();
        peers.side.watch()?;
        peers.follow_names(now);
        peers.follow_quotas(now);
        Ok(peers)
    }

    /// A peer that is known from then on, with no channel yet. `seal` is what sealing adds; a recording goes to `record`.
    fn make_peer(
        now: Time,
        config: &config::Peer,
        transport: &mut Transport,
        (seal, record): (usize, Option<&Path>),
    ) -> Result<PeerState, DaemonError> {
        let recording = match record {
            Some(path) => {
                Some(Recording::create(path).map_err(|source| DaemonError::Record { path: path.to_owned(), source })?)
            }
            None => None,
        };
        let mut peer = PeerState::new(now, config, seal, recording)?;
        peer.id = Peers::know(config, transport)?;
        Ok(peer)
    }

    /// Makes a peer known to the sessions, if it has a key.
    fn know(config: &config::Peer, transport: &mut Transport) -> Result<Option<PeerId>, DaemonError> {
        let (Some(key), Some(sessions)) = (config.public_key, transport.sessions.as_mut()) else { return Ok(None) };
        // What channels that the peer opens are told in our answer.
        let answer = Hello {
            mode: Some(config.bond.mode),
            scheduler: Some(config.bond.scheduler),
            cuts: config.bond.fragment_delay.is_some(),
            ..Hello::default()
        };
        let mut known = PeerConfig::new(key);
        known.preshared_key.clone_from(&config.preshared_key);
        known.hello = answer.encode();
        sessions.add_peer(known).map(Some).map_err(|e| DaemonError::setting(&config.name, e))
    }

    /// Opens all configured channels of a peer, which is the last one.
    fn open_peer(&mut self, now: Time, number: usize) -> Result<(), DaemonError> {
        let channels = self.config.peers[number].channels.clone();
        let numbered = || channels.iter().enumerate().map(|(id, channel)| (ChannelId(id as u8), channel));
        self.peers[number].listed.channels = told::listed(numbered());
        for (id, channel) in numbered() {
            self.open_channel(now, number, id, channel)?;
        }
        Ok(())
    }

    /// Whose packets are whose.
    fn route_to_peers(&mut self) {
        self.allowed = Allowed::default();
        for (number, peer) in self.config.peers.iter().enumerate() {
            peer.allowed_ips.iter().for_each(|net| self.allowed.insert(*net, number));
        }
        for (net, number) in self.domains.iter().flat_map(Domains::of_peers) {
            self.allowed.insert(net, number);
        }
    }

    /// Opens the socket of a configured channel; begins its handshake, or puts it to use at once where it has none.
    fn open_channel(&mut self, now: Time, peer: usize, id: ChannelId, channel: &Channel) -> Result<(), DaemonError> {
        self.make_way(now, (peer, id), channel);
        let number = self.transport.sockets.open_channel(channel)?;
        let socket = &mut self.transport.sockets[number];
        socket.add_owner((peer, id), channel)?;
        let mtu = told::link_mtu(socket, channel);
        let follows_device = channel.follows_device();
        let running = !socket.absent && socket.is_running();
        let remote = match &channel.kind {
            ChannelKind::Udp { endpoint, .. } | ChannelKind::Tcp { endpoint, .. } => Some(*endpoint),
            ChannelKind::Ethernet { secure: true, peer_mac, .. } => {
                Some(sealed_frame::address_of(peer_mac.map_or(Mac::BROADCAST, Mac)))
            }
            ChannelKind::Ethernet { secure: false, .. } => None,
        };
        let carrier = match remote {
            Some(remote) => {
                let sessions = self.transport.sessions.as_mut().expect("the configuration has a private key");
                let state = &self.peers[peer];
                let id_of_peer = state.id.expect("the configuration has the peer's public key");
                let hello = told::hello_of(state, channel, mtu);
                let path = sessions
                    .connect(now, id_of_peer, id, SocketId(number as u32), remote, hello.encode())
                    .map_err(|e| DaemonError::setting(&self.peers[peer].name, e))?;
                self.paths.note(path, (peer, id));
                self.transport.sockets.carrier(path, Endpoint { socket: SocketId(number as u32), address: remote })
            }
            None => Carrier::Plain { socket: number },
        };
        let joining = Joining {
            name: channel.name.clone(),
            rate: channel.rate,
            priority: channel.priority,
            weight: channel.weight,
            framing: channel.overhead,
            mtu,
            configured: Some(Box::new(channel.clone())),
            follows_device,
        };
        self.peers[peer].join(now, id, joining, carrier)?;
        if let (Some(to), Some(path)) = (channel.tcp_endpoint, carrier.path()) {
            self.open_fallback(now, (peer, id), channel, path, to)?;
        }
        match (remote, running) {
            (None, true) => self.peers[peer].set_link(now, id, Link::Up),
            (_, true) => {}
            (_, false) => self.peers[peer].fail(now, id),
        }
        Ok(())
    }

    /// Hands the host's packets to their peers' bonds. `at_all_events`: also when they have no room.
    fn read_host(&mut self, now: Time, at_all_events: bool) -> Result<(), DaemonError> {
        for burst in 0..TUN_BURST {
            if !at_all_events && !self.wants_host() {
                break;
            }
            let (peers, allowed, counters) = (&mut self.peers, &mut self.allowed, &mut self.counters);
            let some = match &mut self.side {
                Side::Host(host) => {
                    let mut sink =
                        |packet: PacketBuf| match ip::destination(packet.as_slice()).and_then(|to| allowed.owner(to)) {
                            Some(peer) => peers[peer].handle_host(now, packet),
                            None => counters.host_no_peer += 1,
                        };
                    host.tun.recv(&mut sink)?.is_some()
                }
                Side::Port(port) => {
                    // A cable has one other end.
                    let [peer] = peers.as_mut_slice() else { break };
                    let fits = peer.bond.mtu();
                    // Where no channel ever joined, there is nothing that a packet could fit.
                    let some = port.read(fits, |packet| match fits {
                        0 => counters.host_no_peer += 1,
                        _ => peer.handle_host(now, packet),
                    }) > 0;
                    if !some && burst == 0 {
                        // Readable without a frame: an error is pending.
                        port.follow();
                    }
                    some
                }
            };
            if !some {
                break;
            }
            self.transmit(now);
        }
        Ok(())
    }

    /// With one peer, its bond says whether there is room; with several, none may hold up the others, and a full bond
    /// drops. So does one without a channel: what stood in the interface's queue would be old when there is one again.
    fn wants_host(&self) -> bool {
        match self.peers.as_slice() {
            [peer] => peer.bond.wants_host() || !peer.bond.has_channel(),
            _ => true,
        }
    }

    /// Moves the bonds' frames to the links, until the bonds have none.
    fn transmit(&mut self, now: Time) {
        for number in 0..self.peers.len() {
            while self.peers[number].take_dirty() {
                while let Some(frame) = self.peers[number].poll_transmit(now) {
                    self.dispatch(now, number, frame);
                }
                self.flush_peer(now, number);
            }
        }
    }

    /// Puts a frame into its channel's outbox, sealed where the channel is.
    fn dispatch(&mut self, now: Time, peer: usize, mut frame: Transmit<PacketBuf>) {
        let wants_back = self.peers[peer].bond.wants_back();
        if self.peers[peer].channel(frame.channel).is_some_and(|channel| channel.outbox.is_full() && !channel.blocked) {
            self.flush_channel(now, peer, frame.channel);
        }
        let Some(channel) = self.peers[peer].channel_mut(frame.channel) else {
            self.counters.send_refused += 1;
            return;
        };
        let body = frame.body();
        let partial = frame.packet.as_ref().is_some_and(|packet| packet.checksum_partial);
        let flags = if partial { FLAG_CHECKSUM_PARTIAL } else { 0 };
        let head = frame.head.as_slice();
        channel.carried += (head.len() + body.len() + channel.overhead()) as u64;
        let mut back = None;
        let taken = match (channel.carrier, &mut self.transport.sessions) {
            (Carrier::Sealed { path, stream: true, .. }, Some(sessions)) => {
                let len = sessions.sealed_len(head.len() + body.len());
                let taken = channel.outbox.push_to_stream(&mut self.transport.pool, len, |out| {
                    sessions.seal(now, path, flags, head, body, out).ok()
                });
                back = frame.packet;
                taken
            }
            (Carrier::Sealed { path, remote, .. }, Some(sessions)) => {
                let Transmit { tos, handling, .. } = frame;
                let destination = Destination { address: remote, source: channel.local, tos, handling };
                let len = sessions.sealed_len(head.len() + body.len());
                let taken = channel.outbox.push_sealed(&mut self.transport.pool, destination, len, |out| {
                    sessions.seal(now, path, flags, head, body, out).ok()
                });
                back = frame.packet;
                taken
            }
            (Carrier::Sealed { .. }, None) => false,
            (Carrier::Plain { .. }, _) => {
                // Nothing here carries the flag of a partial checksum.
                let complete = frame.packet.as_mut().is_none_or(offload::complete_checksum);
                if wants_back {
                    // The frame leaves with its packet: what is kept is a copy.
                    back = frame.packet.as_ref().and_then(Packet::duplicate);
                }
                if let Some(packet) = &mut frame.packet {
                    packet.strip(frame.skip);
                }
                complete
                    && channel.outbox.push_frame(Frame {
                        codepoint: frame.codepoint,
                        head: frame.head,
                        packet: frame.packet,
                    })
            }
        };
        if !taken {
            self.counters.send_refused += 1;
        }
        if let Some(packet) = back.filter(|_| wants_back) {
            self.peers[peer].bond.give_back(packet);
        }
    }

    /// Gives the bonds' packets to the host: only from addresses that the peer may use. To a port it gives all frames.
    fn deliver(&mut self, now: Time) -> Result<(), DaemonError> {
        match &mut self.side {
            Side::Host(host) => {
                for (number, peer) in self.peers.iter_mut().enumerate() {
                    while let Some(packet) = peer.poll_deliver() {
                        match ip::source(packet.as_slice()).and_then(|from| self.allowed.owner(from)) {
                            Some(owner) if owner == number => host.push(packet),
                            _ => self.counters.spoofed += 1,
                        }
                    }
                }
                Ok(host.deliver()?)
            }
            Side::Port(port) => {
                for peer in &mut self.peers {
                    while let Some(packet) = peer.poll_deliver() {
                        port.push(now, packet);
                    }
                }
                port.flush();
                Ok(())
            }
        }
    }

    /// The largest packet that fits every peer that is there, and no less than IPv6 needs: no peer takes that from the others.
    /// What is too long for its own peer is answered, or fragmented, by that peer's bond.
    fn fitting_mtu(&self) -> usize {
        let least = |of: fn(&PeerState) -> bool| {
            let mtus = self.peers.iter().filter(|peer| of(peer)).map(|peer| peer.bond.mtu());
            mtus.filter(|mtu| *mtu > 0).min()
        };
        let fits = least(PeerState::is_up).or_else(|| least(|_| true)).unwrap_or(0).max(IPV6_MTU);
        self.config.interface.mtu.map_or(fits, |set| fits.min(set.into()))
    }

    /// Keeps the interface's MTU at what fits.
    fn fit_mtu(&mut self) {
        let mtu = self.fitting_mtu();
        let nets = self.config.peers.iter().flat_map(|peer| &peer.allowed_ips);
        match &mut self.side {
            Side::Host(host) => {
                if host.fit_mtu(&self.config.interface, nets, mtu) {
                    self.domains.iter_mut().for_each(Domains::restore);
                }
            }
            Side::Port(port) => port.compare(mtu),
        }
    }
}

impl Machine for Peers {
    fn order(&self) -> Order {
        Order::TimersFirst
    }

    fn handle_readable(&mut self, now: Time, token: Token) -> Result<(), DaemonError> {
        if self.side.is(token) {
            // While nothing is wanted from the host, this is an error.
            return self.read_host(now, !self.side.is_wanted());
        }
        if self.domains.as_ref().is_some_and(|domains| domains.is(token)) {
            self.hear_names(now);
        } else if let Some(number) = self.transport.sockets.find(token) {
            transport::receive(self, now, number, token);
        } else if self.transport.is_worker(token) {
            transport::receive_work(self, now);
        }
        Ok(())
    }

    fn handle_writable(&mut self, now: Time, token: Token) {
        if let Some(number) = self.transport.sockets.find(token) {
            let room = self.transport.sockets.on_writable(number, token);
            if room == Room::Call {
                self.look_at_socket(now, number);
                self.follow_fallbacks(now);
            }
            self.flush_socket(now, number, room);
        }
    }

    fn handle_link_change(&mut self, now: Time, change: LinkChange) -> Result<(), DaemonError> {
        let change = self.side.change(change)?;
        self.follow_interface(now, &change);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.transport.handle_timeout(now);
        self.try_eagerly(now);
        for peer in &mut self.peers {
            peer.handle_timeout(now);
        }
        if self.transport.take_retry() {
            for number in 0..self.transport.sockets.len() {
                self.flush_socket(now, number, Room::Socket);
            }
        }
    }

    fn handle_housekeeping(&mut self, now: Time) {
        self.retry_links(now);
        self.follow_leaving(now);
        self.follow_names(now);
        self.follow_quotas(now);
        self.expire_connections(now);
        self.follow_fallbacks(now);
        if let Side::Port(port) = &mut self.side {
            port.follow();
        }
        // A peer that was silent before its last channel was given up makes no event then.
        self.fit_mtu();
        if let Some(masquerade) = &mut self.masquerade {
            masquerade.keep(&self.config);
        }
        self.expire_domains(now);
        self.transport.handle_housekeeping(now);
    }

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let bonds = self.peers.iter().filter_map(|peer| peer.bond.poll_timeout());
        let bonds = bonds.map(|(due, why)| (due, timer_name(why)));
        let eager = self.eager.map(|eager| (eager.due, TimerName("another address")));
        bonds.chain(self.transport.poll_timeout()).chain(eager).min_by_key(|(due, _)| *due)
    }

    /// Drains everything that the bonds and sessions have to say, until they say nothing more.
    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        self.handle_session_events(now);
        self.transport.send_messages(None);
        self.transmit(now);
        self.deliver(now)?;
        for number in 0..self.peers.len() {
            self.peers[number].compare_fragments(now);
            while let Some(event) = self.peers[number].bond.poll_event() {
                report::log_bond_event(&self.peers[number], event);
                if let Event::ChannelDown { channel, .. } = event {
                    self.forget_address(number, channel);
                }
                if matches!(event, Event::Mtu { .. } | Event::ChannelUp { .. } | Event::ChannelDown { .. }) {
                    self.fit_mtu();
                }
            }
        }
        let wanted = self.wants_host();
        self.side.set_wanted(wanted)
    }

    fn interface(&self) -> &str {
        self.side.name()
    }

    fn mtu(&self) -> usize {
        self.side.mtu()
    }

    fn report(&self, now: Time, status: &mut Status) {
        self.tell(now, status);
    }

    fn take_out(&mut self, now: Time, of: &str, name: &str, out: bool) -> Result<(), String> {
        self.take_channel_out(now, of, name, out)
    }

    fn poll_lookup(&mut self) -> Option<String> {
        self.lookups.poll()
    }

    fn handle_addresses(&mut self, now: Time, host: &str, found: Result<Vec<IpAddr>, String>) {
        self.name_found(now, host, found);
    }

    fn reload(&mut self, now: Time, config: Config) -> Reloaded {
        self.take_over(now, config)
    }
}

impl Receiver for Peers {
    fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    fn handle_opened(&mut self, now: Time, data: &Data, packet: PacketBuf, datagram: &Datagram<'_>) {
        if self.paths.owner(data.path).is_none() {
            // The first packet of a channel may confirm its handshake.
            self.handle_session_events(now);
        }
        let Some((peer, channel)) = self.paths.owner(data.path) else { return };
        let peer = &mut self.peers[peer];
        if let Some(channel) = peer.channel_mut(channel) {
            channel.local = datagram.destination;
        }
        peer.handle_channel(now, channel, Codepoint::Envelope, packet, datagram.ecn);
    }

    fn handle_plain(&mut self, now: Time, socket: usize, source: Mac, codepoint: Codepoint, frame: PacketBuf) {
        let Some(((peer, id), learnt)) = self.transport.sockets[socket].owner_of(source, codepoint) else {
            self.transport.counts.stranger += 1;
            return;
        };
        let peer = &mut self.peers[peer];
        if learnt {
            tracing::info!(peer = peer.name, channel = peer.channel_name(id), mac = %source, "peer's address learnt");
        }
        peer.handle_channel(now, id, codepoint, frame, 0);
    }

    fn handle_question(&mut self, now: Time, socket: usize, datagram: &Datagram<'_>) -> bool {
        self.hear_question(now, socket, datagram)
    }

    fn handle_session_events(&mut self, now: Time) {
        self.follow_sessions(now);
    }

    fn handle_down(&mut self, now: Time, socket: usize) {
        self.socket_down(now, socket);
    }

    fn handle_closed(&mut self, now: Time, socket: usize, remote: SocketAddr) {
        self.connection_closed(now, socket, remote);
    }
}

/// What a bond's timer is for.
fn timer_name(name: bond::TimerName) -> TimerName {
    TimerName(match name {
        bond::TimerName::Pacing => "pacing",
        bond::TimerName::Equalize => "delay line",
        bond::TimerName::Deadline => "deadline",
        bond::TimerName::Heartbeat => "heartbeat",
        bond::TimerName::Liveness => "silence",
        bond::TimerName::Stall => "stall",
        bond::TimerName::Echo => "round trip",
        bond::TimerName::Probe => "path MTU",
        bond::TimerName::Stripe => "marker",
        bond::TimerName::Select => "choice of channels",
        _ => "bond",
    })
}
