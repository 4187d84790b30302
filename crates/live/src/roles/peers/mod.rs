//! The daemon of `fairspan up`: one thread that moves packets between the host, the bonds and the links.
//!
//! It decides nothing about the protocol: bonds (`fairspan_core::bond`) and sessions ([`crate::secure`]) do. It waits,
//! reads, hands over, drains the polls, and writes, in batches; per packet it makes no system call, takes no lock and
//! allocates nothing.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | opening, the loop, the way of a packet |
//! | `links` | sockets that fill up, fail, vanish and come back |
//! | `sessions` | channels that connect, move and are lost |
//! | `peer` | one bond and what carries its channels |
//! | `recording` | the file of a recorded run |
//! | `report` | log, status, metrics |

mod links;
mod peer;
mod recording;
pub(crate) mod report;
mod sessions;

use crate::allowed::Allowed;
use crate::channel::ethernet::Mac;
use crate::channel::udp::{Datagram, Destination, Receive, ReceiveBatch};
use crate::clock::{Clock, until};
use crate::config::{Channel, ChannelKind, Config};
use crate::control::Control;
use crate::metrics;
use crate::netlink::{Guard, Monitor};
use crate::offload;
use crate::pool::PacketBuf;
use crate::roles::hello::Hello;
use crate::roles::network;
use crate::secure::{self, OVERHEAD, PathId, PeerConfig, Received, Sessions, SocketId};
use crate::shell::DaemonError;
use crate::sockets::outbox::{self, Frame};
use crate::sockets::socket::{self, Kind, Socket};
use crate::sockets::{Carrier, Sockets, TOKEN_SOCKETS, sealed_frame};
use crate::tun::{self, Tun};
use fairspan_core::bond::{Codepoint, Event, Link, Transmit};
use fairspan_core::ip;
use fairspan_core::units::{ChannelId, Span, Time};
use peer::{Joining, PeerState};
use recording::Recording;
use rustix::event::{Timespec, epoll};
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
/// The interface's MTU while no channel is known: what IPv6 asks for.
const LEAST_MTU: usize = 1280;
/// The MTU of a link that nobody tells.
const USUAL_MTU: usize = 1500;

const TOKEN_STOP: u64 = 0;
const TOKEN_TUN: u64 = 1;
const TOKEN_MONITOR: u64 = 2;
const TOKEN_CONTROL: u64 = 3;

/// A running daemon. Dropping it undoes all that it did to the host's network.
pub struct Daemon {
    clock: Clock,
    /// Undone before the interface goes with `tun`.
    network: Option<Guard>,
    tun: Tun,
    tun_watched: bool,
    monitor: Monitor,
    control: Option<Control>,
    sessions: Option<Sessions>,
    sockets: Sockets,
    peers: Vec<PeerState>,
    allowed: Allowed,
    /// Whose path: by [`PathId::index`].
    paths: Vec<Option<(usize, ChannelId)>>,
    /// Lent to each receive; only absent meanwhile.
    received: Option<ReceiveBatch>,
    pool: outbox::Pool,
    to_host: Vec<PacketBuf>,
    /// Sealed frames on their way from a receive ring to the sessions, with who sent them.
    frames: Vec<(Mac, PacketBuf)>,
    /// A queue was full, and no poll tells when there is room: try again soon.
    congested: bool,
    shared: Option<metrics::Shared>,
    housekeeping: Time,
    mtu: usize,
    counters: Counters,
    config: Config,
}

/// What the daemon itself counts.
#[derive(Debug, Default)]
struct Counters {
    /// Packets from the host that belong to no peer.
    host_no_peer: u64,
    /// Frames from a station that is no peer.
    stranger: u64,
    /// Frames in the clear where only sealed ones count.
    plain_frame: u64,
    /// Sealed frames whose length points behind their end.
    malformed_frame: u64,
    /// Packets from a peer with a source address that is not allowed to it.
    spoofed: u64,
    /// Frames that could not be sealed or queued for sending.
    send_refused: u64,
    /// Frames dropped because their link was down.
    send_down: u64,
    /// MTUs that the kernel did not accept.
    mtu_refused: u64,
}

impl Daemon {
    /// Opens everything that `config` names; the interface is up when this returns.
    ///
    /// # Errors
    /// The first thing that failed; what was done by then is undone.
    pub fn start(config: Config) -> Result<Daemon, DaemonError> {
        let clock = Clock::start();
        let now = clock.now();
        let control = Control::open(&config.interface.control_socket)?;
        // Opened before any device is looked at, so that no change is missed.
        let monitor = Monitor::open()?;
        let mut tun_config = tun::Config::new(&config.interface.name);
        tun_config.offload = config.interface.offload;
        tun_config.keep_partial = config.interface.offload;
        let tun = Tun::open(&tun_config)?;
        let sessions = open_sessions(&config, now)?;

        let mut daemon = Daemon {
            clock,
            network: None,
            tun,
            tun_watched: true,
            monitor,
            control: Some(control),
            sessions,
            sockets: Sockets::new()?,
            peers: Vec::new(),
            allowed: Allowed::default(),
            paths: Vec::new(),
            received: Some(ReceiveBatch::new()),
            pool: outbox::Pool::new(),
            to_host: Vec::with_capacity(1024),
            frames: Vec::with_capacity(FRAME_BURST),
            congested: false,
            shared: None,
            housekeeping: now + HOUSEKEEPING,
            mtu: 0,
            counters: Counters::default(),
            config,
        };
        if let Some(port) = daemon.config.interface.listen_port {
            daemon.sockets.extend(Socket::listen(port, daemon.config.interface.fwmark)?);
        }
        for number in 0..daemon.config.peers.len() {
            daemon.open_peer(now, number)?;
        }
        daemon.mtu = daemon.fitting_mtu();
        let peers = &daemon.config.peers;
        let nets = peers.iter().flat_map(|peer| &peer.allowed_ips);
        let links = peers.iter().flat_map(|peer| &peer.channels).filter_map(|channel| channel.device.as_deref());
        daemon.network =
            Some(network::configure(&daemon.config.interface, nets, links, daemon.tun.name(), daemon.mtu)?);
        if let Some(address) = daemon.config.interface.metrics {
            let shared = metrics::Shared::default();
            metrics::serve(address, shared.clone()).map_err(|source| DaemonError::Metrics { address, source })?;
            daemon.shared = Some(shared);
        }
        for number in 0..daemon.sockets.len() {
            daemon.sockets.watch_socket(number);
        }
        daemon.sockets.watch(daemon.tun.as_fd(), TOKEN_TUN)?;
        daemon.sockets.watch(daemon.monitor.as_fd(), TOKEN_MONITOR)?;
        if let Some(control) = &daemon.control {
            daemon.sockets.watch(control.as_fd(), TOKEN_CONTROL)?;
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
            self.handle_timeouts(now);
            for event in &events {
                match event.data.u64() {
                    TOKEN_STOP => return Ok(()),
                    TOKEN_TUN => {
                        // An error is reported also while nothing is wanted from the host.
                        let flags = event.flags;
                        let failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
                        self.read_host(now, failed)?;
                    }
                    TOKEN_MONITOR => self.follow_interfaces(now)?,
                    TOKEN_CONTROL => self.serve_control(),
                    token => {
                        let number = (token - TOKEN_SOCKETS) as usize;
                        let flags = event.flags;
                        if flags.contains(epoll::EventFlags::OUT) {
                            self.flush_socket(now, number);
                        }
                        if flags != epoll::EventFlags::OUT {
                            self.read_socket(now, number);
                        }
                    }
                }
            }
            if self.control.as_ref().is_some_and(Control::is_busy) {
                self.serve_control();
            }
            self.drain(now)?;
        }
    }

    fn open_peer(&mut self, now: Time, number: usize) -> Result<(), DaemonError> {
        let config = &self.config.peers[number];
        let recording = match self.config.interface.record.as_deref() {
            Some(path) => {
                Some(Recording::create(path).map_err(|source| DaemonError::Record { path: path.to_owned(), source })?)
            }
            None => None,
        };
        let mut peer = PeerState::new(now, config, recording)?;
        // What channels that the peer opens are told in our answer.
        let answer = Hello { mode: Some(config.mode), scheduler: Some(config.scheduler), ..Hello::default() };
        for net in &config.allowed_ips {
            self.allowed.insert(*net, number);
        }
        if let (Some(key), Some(sessions)) = (config.public_key, self.sessions.as_mut()) {
            let mut known = PeerConfig::new(key);
            known.preshared_key.clone_from(&config.preshared_key);
            known.hello = answer.encode();
            let id = sessions.add_peer(known).map_err(|e| setting(&config.name, e))?;
            peer.id = Some(id);
        }
        self.peers.push(peer);
        for (id, channel) in self.config.peers[number].channels.clone().iter().enumerate() {
            self.open_channel(now, number, ChannelId(id as u8), channel)?;
        }
        Ok(())
    }

    /// Opens the socket of a configured channel; begins its handshake, or puts it to use at once where it has none.
    fn open_channel(&mut self, now: Time, peer: usize, id: ChannelId, channel: &Channel) -> Result<(), DaemonError> {
        let shared = self.sockets.iter().position(|socket| socket.serves(channel));
        let number = match shared {
            Some(number) => number,
            None => {
                self.sockets.push(Socket::open(channel, self.config.interface.fwmark)?);
                self.sockets.len() - 1
            }
        };
        let socket = &mut self.sockets[number];
        socket.add_owner((peer, id), channel)?;
        let mtu = channel.mtu.map_or_else(|| socket.device_mtu().unwrap_or(USUAL_MTU), usize::from);
        let running = !socket.absent && socket.is_running();
        let remote = match &channel.kind {
            ChannelKind::Udp { endpoint, .. } => Some(*endpoint),
            ChannelKind::Ethernet { secure: true, peer_mac, .. } => {
                Some(sealed_frame::address_of(peer_mac.map_or(Mac::BROADCAST, Mac)))
            }
            ChannelKind::Ethernet { secure: false, .. } => None,
        };
        let carrier = match remote {
            Some(remote) => {
                let sessions = self.sessions.as_mut().expect("the configuration has a private key");
                let state = &self.peers[peer];
                let id_of_peer = state.id.expect("the configuration has the peer's public key");
                let hello = Hello {
                    name: Some(channel.name.clone()),
                    rate: channel.peer_rate,
                    priority: Some(channel.priority),
                    overhead: Some(channel.overhead),
                    mtu: Some(mtu.min(usize::from(u16::MAX)) as u16),
                    mode: Some(state.mode),
                    scheduler: Some(state.scheduler),
                    weight: Some(channel.weight.min(u32::from(u16::MAX)) as u16),
                };
                let path = sessions
                    .connect(now, id_of_peer, id, SocketId(number as u32), remote, hello.encode())
                    .map_err(|e| setting(&self.peers[peer].name, e))?;
                note_path(&mut self.paths, path, peer, id);
                Carrier::Sealed { path, socket: number, remote }
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
            configured: true,
            follows_device: channel.mtu.is_none(),
        };
        self.peers[peer].join(now, id, joining, carrier)?;
        match (remote, running) {
            (None, true) => self.peers[peer].set_link(now, id, Link::Up),
            (_, true) => {}
            (_, false) => self.peers[peer].fail(now, id),
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
        for peer in &self.peers {
            next = next.min(peer.bond.poll_timeout().map_or(Time::MAX, |(due, _)| due));
        }
        until(now, next)
    }

    fn handle_timeouts(&mut self, now: Time) {
        if let Some(sessions) = &mut self.sessions
            && sessions.poll_timeout().is_some_and(|due| due <= now)
        {
            sessions.handle_timeout(now);
        }
        for peer in &mut self.peers {
            peer.handle_timeout(now);
        }
        if std::mem::take(&mut self.congested) {
            for number in 0..self.sockets.len() {
                self.flush_socket(now, number);
            }
        }
        if self.housekeeping <= now {
            self.housekeeping = now + HOUSEKEEPING;
            self.retry_links(now);
            self.publish();
        }
    }

    /// Hands the host's packets to their peers' bonds. `at_all_events`: also when they have no room.
    fn read_host(&mut self, now: Time, at_all_events: bool) -> Result<(), DaemonError> {
        for _ in 0..TUN_BURST {
            if !at_all_events && !self.wants_host() {
                break;
            }
            let (peers, allowed, counters) = (&mut self.peers, &mut self.allowed, &mut self.counters);
            let mut sink = |packet: PacketBuf| match ip::destination(packet.as_slice()).and_then(|to| allowed.owner(to))
            {
                Some(peer) => peers[peer].handle_host(now, packet),
                None => counters.host_no_peer += 1,
            };
            if self.tun.recv(&mut sink)?.is_none() {
                break;
            }
            self.transmit(now);
        }
        Ok(())
    }

    /// With one peer, its bond says whether there is room; with several, none may hold up the others, and a full bond
    /// drops.
    fn wants_host(&self) -> bool {
        match self.peers.as_slice() {
            [peer] => peer.bond.wants_host(),
            _ => true,
        }
    }

    fn read_socket(&mut self, now: Time, number: usize) {
        let Some(socket) = self.sockets.get_mut(number) else { return };
        match (&mut socket.kind, &mut socket.segment) {
            (Kind::Udp(_), _) => self.read_datagrams(now, number),
            (Kind::Ethernet(socket), Some(segment)) if !segment.secure => {
                let (peers, counters) = (&mut self.peers, &mut self.counters);
                let taken = socket.receive(FRAME_BURST, |frame| {
                    let owner = socket::owner_of(&mut segment.stations, frame.source, frame.codepoint);
                    let Some(((peer, id), learnt)) = owner else {
                        counters.stranger += 1;
                        return;
                    };
                    let peer = &mut peers[peer];
                    if learnt {
                        let channel = peer.channel_name(id);
                        tracing::info!(peer = peer.name, channel, mac = %frame.source, "peer's address learnt");
                    }
                    peer.handle_channel(now, id, frame.codepoint, PacketBuf::copy_from(frame.bytes), 0);
                });
                self.after_frames(now, number, taken);
            }
            (Kind::Ethernet(socket), _) => {
                let (frames, counters) = (&mut self.frames, &mut self.counters);
                let taken =
                    socket.receive(FRAME_BURST, |frame| match (frame.codepoint, sealed_frame::datagram(frame.bytes)) {
                        (Codepoint::Raw, _) => counters.plain_frame += 1,
                        (Codepoint::Envelope, None) => counters.malformed_frame += 1,
                        (Codepoint::Envelope, Some(bytes)) => frames.push((frame.source, PacketBuf::copy_from(bytes))),
                    });
                let mut frames = std::mem::take(&mut self.frames);
                for (source, bytes) in frames.drain(..) {
                    let source = sealed_frame::address_of(source);
                    let datagram = Datagram { source, destination: None, ecn: 0, bytes: bytes.as_slice() };
                    self.handle_datagram(now, number, &datagram);
                }
                self.frames = frames;
                self.after_frames(now, number, taken);
            }
            (Kind::Missing(..), _) => {}
        }
    }

    fn after_frames(&mut self, now: Time, number: usize, taken: usize) {
        if taken == 0 {
            // Readable without a frame: an error is pending.
            self.socket_down(now, number);
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
        // Opened straight into the slot that goes to the host: decryption is the copy.
        let mut slot = PacketBuf::with_len(datagram.bytes.len());
        let socket = SocketId(number as u32);
        match sessions.handle_datagram(now, socket, datagram.source, datagram.bytes, slot.as_mut_slice()) {
            Received::Data(data) => {
                if self.paths.get(data.path.index()).copied().flatten().is_none() {
                    // The first packet of a channel may confirm its handshake.
                    self.handle_session_events(now);
                }
                let Some(Some((peer, channel))) = self.paths.get(data.path.index()).copied() else { return };
                slot.truncate(data.len);
                slot.checksum_partial = data.flags & secure::FLAG_CHECKSUM_PARTIAL != 0;
                let peer = &mut self.peers[peer];
                if let Some(channel) = peer.channel_mut(channel) {
                    channel.local = datagram.destination;
                }
                peer.handle_channel(now, channel, Codepoint::Envelope, slot, datagram.ecn);
            }
            Received::Control => {
                // A channel that connected just now is to be known before its first packet.
                self.handle_session_events(now);
                self.send_session_messages(Some(datagram));
            }
            Received::Dropped(reason) => tracing::trace!(from = %datagram.source, ?reason, "datagram dropped"),
        }
    }

    /// Sends what the sessions themselves have to say; false when a link is down.
    fn send_session_messages(&mut self, asked: Option<&Datagram<'_>>) -> bool {
        let failed = self.sessions.as_mut().map_or(0, |sessions| self.sockets.send_messages(sessions, asked));
        self.counters.send_down += failed;
        failed == 0
    }

    /// Drains everything that the bonds and sessions have to say, until they say nothing more.
    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        self.handle_session_events(now);
        self.send_session_messages(None);
        self.transmit(now);
        self.deliver()?;
        for number in 0..self.peers.len() {
            while let Some(event) = self.peers[number].bond.poll_event() {
                report::log_bond_event(&self.peers[number], event);
                if matches!(event, Event::Mtu { .. }) {
                    self.fit_mtu();
                }
            }
        }
        let wanted = self.wants_host();
        if wanted != self.tun_watched {
            let flags = if wanted { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
            epoll::modify(&self.sockets.epoll, self.tun.as_fd(), epoll::EventData::new_u64(TOKEN_TUN), flags)?;
            self.tun_watched = wanted;
        }
        Ok(())
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
        let Some(channel) = self.peers[peer].channel_mut(frame.channel) else {
            self.counters.send_refused += 1;
            return;
        };
        let body = frame.packet.as_ref().map_or(&[][..], PacketBuf::as_slice);
        let partial = frame.packet.as_ref().is_some_and(|packet| packet.checksum_partial);
        let flags = if partial { secure::FLAG_CHECKSUM_PARTIAL } else { 0 };
        let head = frame.head.as_slice();
        let len = OVERHEAD + head.len() + body.len();
        let taken = match (channel.carrier, &mut self.sessions) {
            (Carrier::Sealed { path, remote, .. }, Some(sessions)) => {
                let destination = Destination { address: remote, source: channel.local, tos: frame.tos };
                channel.outbox.push_sealed(&mut self.pool, destination, len, |out| {
                    sessions.seal(now, path, flags, head, body, out).ok()
                })
            }
            (Carrier::Sealed { .. }, None) => false,
            (Carrier::Plain { .. }, _) => {
                // Nothing here carries the flag of a partial checksum.
                frame.packet.as_mut().is_none_or(offload::complete_checksum)
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
    }

    /// Gives the bonds' packets to the host: only from addresses that the peer may use.
    fn deliver(&mut self) -> Result<(), DaemonError> {
        for (number, peer) in self.peers.iter_mut().enumerate() {
            while let Some(packet) = peer.poll_deliver() {
                match ip::source(packet.as_slice()).and_then(|from| self.allowed.owner(from)) {
                    Some(owner) if owner == number => self.to_host.push(packet),
                    _ => self.counters.spoofed += 1,
                }
            }
        }
        if !self.to_host.is_empty() {
            self.tun.send(&mut self.to_host)?;
        }
        Ok(())
    }

    /// The largest packet that fits every peer.
    fn fitting_mtu(&self) -> usize {
        let fits = self.peers.iter().map(|peer| peer.bond.mtu()).filter(|mtu| *mtu > 0).min().unwrap_or(LEAST_MTU);
        self.config.interface.mtu.map_or(fits, |set| fits.min(set.into()))
    }

    /// Keeps the interface's MTU at what fits.
    fn fit_mtu(&mut self) {
        let mtu = self.fitting_mtu();
        if mtu == self.mtu {
            return;
        }
        match self.tun.set_mtu(mtu as u32) {
            Ok(()) => {
                tracing::info!(interface = self.tun.name(), mtu, "interface MTU");
                let before = std::mem::replace(&mut self.mtu, mtu);
                if let Some(guard) = &mut self.network {
                    let (interface, mtus) = (&self.config.interface, [before, mtu]);
                    let nets = self.config.peers.iter().flat_map(|peer| &peer.allowed_ips);
                    network::follow_mtu(guard.netlink(), interface, nets, self.tun.name(), mtus);
                }
            }
            Err(error) => {
                self.counters.mtu_refused += 1;
                tracing::warn!(interface = self.tun.name(), mtu, %error, "the kernel refuses this MTU");
            }
        }
    }
}

fn open_sessions(config: &Config, now: Time) -> Result<Option<Sessions>, DaemonError> {
    let Some(key) = config.interface.private_key.clone() else { return Ok(None) };
    let entropy = Box::new(secure::OsEntropy::new());
    Sessions::new(secure::Config::default(), key, entropy, now).map(Some).map_err(|e| setting("", e))
}

fn setting(peer: &str, problem: impl ToString) -> DaemonError {
    DaemonError::Setting { peer: peer.to_owned(), problem: problem.to_string() }
}

fn note_path(paths: &mut Vec<Option<(usize, ChannelId)>>, path: PathId, peer: usize, channel: ChannelId) {
    if paths.len() <= path.index() {
        paths.resize(path.index() + 1, None);
    }
    paths[path.index()] = Some((peer, channel));
}
