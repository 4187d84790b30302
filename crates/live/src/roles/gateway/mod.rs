//! The daemon of `fairspan up` with a `[gateway]`: a host before a long link, which ends TCP connections on one side and carries
//! them on with its own on the other, and shares the long link fairly among all that goes there.
//!
//! It decides little: core's [`split`](fairspan_core::split) says what is done with the two ends of a connection and which packet is next, the
//! kernel has TCP, and moves the bytes.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | opening, what is ready, timers, another configuration |
//! | `rules`, `ranges` | what the kernel hands over, and what it leads to the gateway's sockets; which addresses lie behind a peer |
//! | `numbers` | marks, tables and queues of gateways beside this one, and of those that were killed |
//! | `headers` | what is read in a packet |
//! | `intake` | packets that wait their turn, in the kernel |
//! | `bypass` | connections that are not split |
//! | `connections`, `connection`, `half`, `leavers` | all connections, one, one end of one, and those that are over while the kernel still sends |
//! | `socket`, `pipes` | sockets, and moving bytes between them |
//! | `proxy`, `request`, `reach`, `names` | clients that ask for a connection themselves, what they say, where they may be led, and by which names |
//! | `budget` | the memory of all sockets |
//! | `report`, `changed` | status, and what a reload changed |
//! | `doctor`, `offloads` | why traffic is not seen or not split, and what devices do to it before |
//!
//! **How a connection comes to be.** Its SYN waits in the kernel's queue while the far end is called in the caller's name. When that
//! answers, the SYN goes to the gateway's listening socket, and the kernel answers the caller. So nobody hears of a connection
//! that is none.
//!
//! **It fails open.** Where something cannot be had (memory, descriptors, an address), the SYN goes on, and the connection is as
//! without a gateway. Where the process is gone, that is so for all.

mod budget;
mod bypass;
mod changed;
mod connection;
mod connections;
pub mod doctor;
mod half;
mod headers;
mod intake;
mod leavers;
mod names;
mod numbers;
mod offloads;
mod pipes;
mod proxy;
pub(crate) mod ranges;
mod reach;
mod report;
mod request;
mod rules;
mod socket;

use crate::config::{Config, Gateway};
use crate::netlink::nftables::OwnedTable;
use crate::netlink::queue::PacketQueue;
use crate::netlink::{Guard, Interface, LinkChange, Windows};
use crate::reloaded::Reloaded;
use crate::shell::error::DaemonError;
use crate::shell::machine::{Machine, Order, TimerName};
use crate::shell::poller::{Interest, Poller, Token, Turn, Watched};
use crate::status::Status;
use budget::{Budget, Weight};
use bypass::{Bypass, Why};
use connection::Held;
use connections::{Connections, News, Place};
use fairspan_core::flow::FlowHash;
use fairspan_core::split::Side;
use fairspan_core::units::{Span, Time};
use headers::Segment;
use intake::{Arrival, BATCH, Intake, keeps_units};
use names::Names;
use netlink_packet_route::route::RouteMessage;
use proxy::{Proxy, say};
use reach::Reach;
use request::{Failure, Host};
use rules::Marks;
use rustix::io::Errno;
use socket::Sockets;
use socket2::Socket;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// Bytes of a packet that are looked at: all headers of most.
const HEADERS: u32 = 160;
/// Packets in the kernel's queue: more than wait here, so that what is dropped is dropped by the policy.
const KERNEL_QUEUE: u32 = 65_536;
/// How often connections are looked after.
const LOOK: Span = Span::from_millis(100);
/// How often the send buffers behind closed gates are looked at, at least.
const LEVELS: Span = Span::from_millis(2);
/// And how much longer for each of them.
const A_LEVEL: Span = Span::from_micros(20);

/// A caller who asks again when its SYN has been held for so long has the connection unsplit: all answers but the slowest, and one of a
/// SYN that had to be sent again, would have come.
const ANSWERS_WITHIN: Span = Span::from_millis(2_500);

/// A gateway. Dropping it undoes all that it did to the host's network.
pub(super) struct SplitGateway {
    /// Reset before the rules go, by which connection tracking does not see the resets to callers: it would call them invalid.
    connections: Connections,
    /// Undone before the sockets go that listen: then packets pass as they are.
    table: Option<OwnedTable>,
    /// Why the rules are not as they should be.
    problem: Option<String>,
    guard: Guard,
    config: Config,
    poller: Poller,
    intake: Intake,
    queue: Watched,
    listeners: Vec<(Socket, Watched)>,
    /// Nobody is accepted until there are descriptors again.
    paused: bool,
    proxy: Option<Proxy>,
    names: Names,
    bypass: Bypass,
    bypassed: BTreeMap<Why, u64>,
    hash: FlowHash,
    /// The long link's device, where it is there.
    long: Option<Interface>,
    /// The routing table with larger initial windows, and the routes that it was made from.
    windows: Option<(Windows, Vec<RouteMessage>)>,
    arrivals: Vec<Arrival>,
    touched: Vec<u32>,
    /// Ends whose gates were closed when they were last looked at.
    closed: HashSet<Place>,
    next_look: Time,
    next_levels: Time,
}

impl SplitGateway {
    /// Sets the rules, and begins to split.
    ///
    /// # Errors
    /// What the kernel refuses; what was done by then is undone.
    pub(super) fn start(config: Config, now: Time, poller: &Poller) -> Result<SplitGateway, DaemonError> {
        let name = config.interface.name.clone();
        let Some(settings) = &config.gateway else {
            return Err(DaemonError::setting(&name, "the configuration has no [gateway]"));
        };
        raise_descriptors();
        let marks = Marks::of(&config);
        let mut guard = Guard::new()?;
        // The queue comes first: who has it has all the numbers.
        let kernel = PacketQueue::open(marks.queue(), KERNEL_QUEUE, HEADERS, keeps_units(settings));
        let kernel = kernel.map_err(|error| match error.errno() {
            Some(libc::EBUSY) => DaemonError::setting(&name, format!("{error}: {}", numbers::TAKEN)),
            _ => error.into(),
        })?;
        numbers::clear(guard.netlink(), &name, marks)?;
        let sockets = Sockets::new(settings, marks);
        sockets.look_for_congestion_control();
        let io = |source| DaemonError::Device { device: settings.long.clone(), source };
        let (port, opened) = if settings.transparent {
            let first = Budget::new(settings).share(Weight::of(Span::ZERO));
            let (port, opened) = sockets.listen_for_all(first).map_err(io)?;
            rules::lead_home(&mut guard, marks)?;
            (Some(port), opened)
        } else {
            (None, Vec::new())
        };
        let mut listeners = Vec::new();
        for socket in opened {
            let watched = poller.watched(socket.as_fd(), Turn::Others)?;
            listeners.push((socket, watched));
        }
        let proxy = match settings.proxy {
            Some(address) => {
                let opened = Proxy::open(address, &sockets, settings, poller);
                Some(opened.map_err(|source| DaemonError::Listen { address, source })?)
            }
            None => None,
        };
        let windows = rules::windows(&config, marks);
        if let Some(windows) = &windows {
            guard.widen_windows(windows)?;
        }
        let queue = poller.watched(kernel.as_fd(), Turn::Links)?;
        let intake =
            Intake::new(kernel, settings, marks, random()).map_err(|error| DaemonError::setting(&name, error))?;
        // The rules come last: from here on packets are handed over.
        let table = Some(rules::set(&config, marks, port)?);
        let mut machine = SplitGateway {
            table,
            problem: None,
            guard,
            poller: poller.clone(),
            intake,
            queue,
            listeners,
            paused: false,
            proxy,
            names: Names::default(),
            connections: Connections::new(settings, sockets, Reach::new(settings, marks)?, poller),
            bypass: Bypass::new(settings),
            bypassed: BTreeMap::new(),
            hash: FlowHash::new(random()),
            long: None,
            windows: windows.map(|windows| (windows, Vec::new())),
            arrivals: Vec::with_capacity(BATCH),
            touched: Vec::new(),
            closed: HashSet::new(),
            next_look: now + LOOK,
            next_levels: now + LEVELS,
            config,
        };
        machine.find_long();
        machine.follow_routes();
        let inside = machine.settings().inside.clone();
        let missing = inside.iter().filter(|device| machine.guard.netlink().interface(device).is_err());
        let missing: Vec<&String> = missing.collect();
        for device in machine.long.is_none().then_some(&machine.settings().long).into_iter().chain(missing) {
            tracing::warn!(device, "there is no such interface: waiting for it");
        }
        Ok(machine)
    }

    /// Takes away what killed gateways left, where none begins.
    pub(super) fn clear_killed() {
        numbers::clear_killed();
    }

    /// Whether `token` is of one of its descriptors.
    pub(super) fn has(&self, token: Token) -> bool {
        token == self.queue.token()
            || self.listeners.iter().any(|(_, listener)| listener.token() == token)
            || self.connections.has(token)
    }

    fn settings(&self) -> &Gateway {
        // There is one, or it would not have started; and reloads keep it.
        self.config.gateway.as_ref().expect("a gateway's configuration has a [gateway]")
    }

    /// The port of the listening sockets.
    fn port(&self) -> Option<u16> {
        let (listener, _) = self.listeners.first()?;
        listener.local_addr().ok()?.as_socket().map(|address| address.port())
    }

    fn find_long(&mut self) {
        let name = self.settings().long.clone();
        self.long = self.guard.netlink().interface(&name).ok();
    }

    /// Has the initial windows follow the main routing table.
    fn follow_routes(&mut self) {
        let Some((windows, before)) = &mut self.windows else { return };
        if let Err(error) = self.guard.netlink().follow_main(windows, before) {
            tracing::debug!(%error, "the initial window is the kernel's for some routes");
        }
    }

    /// Takes what the kernel hands over.
    fn receive(&mut self, now: Time) {
        let (long, hash, arrivals) = (self.long.as_ref().map(|long| long.index), &self.hash, &mut self.arrivals);
        let received = self.intake.kernel().receive(|packet| {
            let from_long = long == Some(packet.arrived_by);
            arrivals.push(Arrival::of(&packet, from_long, hash));
        });
        if let Err(error) = received {
            tracing::debug!(%error, "the kernel hands over no packets");
        }
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for arrival in arrivals.drain(..) {
            self.take(now, arrival);
        }
        self.arrivals = arrivals;
    }

    fn take(&mut self, now: Time, arrival: Arrival) {
        let known = arrival.segment.and_then(|segment| Some((segment, self.connections.find(segment.way)?)));
        let Some((segment, place)) = known else {
            if let Some(syn) = arrival.segment.filter(Segment::is_opening)
                && self.listens_for(&syn)
            {
                return self.begin(now, arrival, &syn);
            }
            return self.intake.pass(now, arrival, None);
        };
        self.connections.on_packet(place, arrival.dscp);
        let Some(connection) = self.connections.get(place.number) else {
            return self.intake.pass(now, arrival, None);
        };
        if let Some(held) = connection.held.filter(|_| place.side == Side::Caller) {
            let waits = now.since(connection.since);
            self.hear(now, arrival, &segment, place.number, held, waits);
        } else if segment.is_opening() && connection.awaits_caller() {
            let waits = connection.answered.map_or(Span::ZERO, |answered| now.since(answered));
            self.hear_again(now, arrival, &segment, place.number, waits);
        } else {
            let flow = connection.flows[place.side as usize];
            self.intake.pass(now, arrival, Some((flow, place)));
        }
    }

    /// A caller whose SYN is held asks again, takes it back, or shows that the far end's answer came to it by another way.
    fn hear(&mut self, now: Time, arrival: Arrival, segment: &Segment, number: u32, held: Held, waits: Span) {
        let why = if segment.denies_answer(held.sequence) {
            self.bypass.note_one_way(now, segment.way);
            Why::OneWay
        } else if segment.is_opening() && waits >= ANSWERS_WITHIN {
            self.bypass.note_unanswered(now, segment.way);
            Why::Unanswered
        } else {
            self.intake.forget(arrival.id);
            if segment.is_reset() {
                self.connections.give_up(number);
            }
            return;
        };
        *self.bypassed.entry(why).or_default() += 1;
        if self.connections.let_pass(number).is_none() {
            return self.intake.forget(arrival.id);
        }
        match why {
            // The far end forgets the gateway's SYN by the reset, and then hears the caller's own.
            Why::OneWay => [arrival.id, held.id].into_iter().for_each(|id| self.intake.leave(id)),
            _ => {
                self.intake.forget(held.id);
                self.intake.leave(arrival.id);
            }
        }
    }

    /// A caller asks again whose far end has answered. Either the kernel's answer was lost, or the caller's SYN does not come to the socket.
    fn hear_again(&mut self, now: Time, arrival: Arrival, segment: &Segment, number: u32, waits: Span) {
        if waits < ANSWERS_WITHIN {
            return self.intake.split(arrival.id);
        }
        if self.bypass.note_filtered(now, segment.way) {
            tracing::warn!(
                "a caller does not come to the gateway's own socket, although the far end has answered, and passes unsplit: {}",
                Why::Filtered.remedy()
            );
        }
        *self.bypassed.entry(Why::Filtered).or_default() += 1;
        // The far end is reset, and then hears the caller's own SYN.
        self.connections.give_up(number);
        self.intake.leave(arrival.id);
    }

    /// Whether a socket could accept its connection: there may be none for IPv6.
    fn listens_for(&self, syn: &Segment) -> bool {
        let sockets = if syn.way.destination.is_ipv6() { 2 } else { 1 };
        self.listeners.len() >= sockets
    }

    /// A SYN: whether its connection is split.
    fn begin(&mut self, now: Time, arrival: Arrival, syn: &Segment) {
        let full = if !self.connections.budget().has_room() {
            Some(Why::Memory)
        } else if self.connections.half_open() >= self.settings().half_open {
            Some(Why::HalfOpen)
        } else {
            None
        };
        let why = self.bypass.why(now, syn, arrival.from_long).or(full);
        let called = match why {
            None => {
                let held = Held { id: arrival.id, sequence: syn.sequence };
                self.connections.call(now, syn.way, arrival.from_long, arrival.dscp, held).map_err(|error| {
                    tracing::debug!(%error, to = %syn.way.destination, "a connection is not split");
                    Why::Call
                })
            }
            Some(why) => Err(why),
        };
        if let Err(why) = called {
            *self.bypassed.entry(why).or_default() += 1;
            self.intake.pass(now, arrival, None);
        }
    }

    /// A client of the proxy has said something.
    fn ask(&mut self, now: Time, token: Token) {
        let most = self.settings().half_open as usize;
        let Some(proxy) = &mut self.proxy else { return };
        if proxy.on_readable(now, token).is_err() {
            return self.pause(true);
        }
        for wanted in std::mem::take(&mut proxy.wanted) {
            match &wanted.host {
                Host::Ip(address) => {
                    let address = SocketAddr::new(*address, wanted.port);
                    self.connections.call_for(now, wanted, vec![address]);
                }
                Host::Name(_) if self.names.len() >= most => {
                    say(&wanted.socket, &wanted.request.failure(Failure::General));
                    proxy.turned_away += 1;
                }
                Host::Name(name) => {
                    let name = name.clone();
                    self.names.wait_for(now, &name, wanted);
                }
            }
        }
    }

    /// Acts on what became of connections.
    fn follow(&mut self, now: Time) {
        for news in std::mem::take(&mut self.connections.news) {
            match news {
                News::Opened(flows) => self.intake.open(now, flows),
                News::Closed(flows) => self.intake.close(flows),
                News::Answered(held) => self.intake.split(held),
                News::Abandoned(held) => self.intake.forget(held),
                News::Refused(held, Errno::CONNREFUSED) => self.intake.refuse(held),
                News::Refused(held, Errno::TIMEDOUT) => self.intake.forget(held),
                News::Refused(held, errno) => {
                    // The way back tells the caller better than the gateway could.
                    tracing::debug!(%errno, "the far end was not reached");
                    *self.bypassed.entry(Why::Call).or_default() += 1;
                    self.intake.leave(held);
                }
                News::Measured(way, from_long, longer) => self.bypass.learn(now, way, from_long, longer),
            }
        }
    }

    /// Tells the gates of connections that something happened to.
    fn tell_levels(&mut self, now: Time) {
        let mut touched = std::mem::take(&mut self.touched);
        self.connections.take_touched(&mut touched);
        if self.intake.fair().is_some() {
            for number in touched.drain(..) {
                // What comes by the long link does not wait here.
                let side = self.connections.get(number).map(|connection| connection.inside());
                side.into_iter().for_each(|side| self.tell_level(now, Place { number, side }));
            }
        }
        touched.clear();
        self.touched = touched;
    }

    fn tell_level(&mut self, now: Time, place: Place) {
        let level = self.connections.level(place);
        let is_closed = level.is_some_and(|(flow, level)| self.intake.on_level(now, flow, &level));
        if is_closed {
            self.closed.insert(place);
        } else {
            self.closed.remove(&place);
        }
    }

    fn move_packets(&mut self, now: Time) {
        let closed = &mut self.closed;
        self.intake.drain(now, |place| {
            closed.insert(place);
        });
    }

    fn look_after(&mut self, now: Time) {
        if now >= self.next_look {
            self.next_look = now + LOOK;
            self.connections.look(now);
            if let Some((least, wait)) = self.connections.wait {
                self.intake.on_wait(now, least, wait);
            }
            self.bypass.forget_old(now);
            for wanted in self.names.take_late(now) {
                self.connections.call_for(now, wanted, Vec::new());
            }
            self.proxy.iter_mut().for_each(|proxy| proxy.look(now));
            self.pause(false);
        }
        if now >= self.next_levels {
            let places: Vec<Place> = self.closed.iter().copied().collect();
            places.into_iter().for_each(|place| self.tell_level(now, place));
            self.next_levels = now + LEVELS.max(A_LEVEL.times(self.closed.len() as u64));
        }
    }

    /// Accepts nobody for now, or again.
    fn pause(&mut self, paused: bool) {
        if self.paused != paused {
            self.paused = paused;
            let interest = if paused { Interest::Nothing } else { Interest::Read };
            for (socket, watched) in &self.listeners {
                let _ = self.poller.set_interest(watched.token(), socket.as_fd(), interest);
            }
            self.proxy.iter().for_each(|proxy| proxy.pause(paused));
        }
    }
}

impl Machine for SplitGateway {
    /// What is in transit on sockets comes before what waits to be let in.
    fn order(&self) -> Order {
        Order::InputFirst
    }

    fn handle_readable(&mut self, now: Time, token: Token) -> Result<(), DaemonError> {
        if token == self.queue.token() {
            self.receive(now);
        } else if let Some(at) = self.listeners.iter().position(|(_, listener)| listener.token() == token) {
            if self.connections.accept(now, &self.listeners[at].0).is_err() {
                self.pause(true);
            }
        } else if !self.connections.on_ready(now, token, false) {
            self.ask(now, token);
        }
        self.follow(now);
        Ok(())
    }

    fn handle_writable(&mut self, now: Time, token: Token) {
        self.connections.on_ready(now, token, true);
        self.follow(now);
    }

    fn handle_link_change(&mut self, _now: Time, change: LinkChange) -> Result<(), DaemonError> {
        match change {
            LinkChange::Address { .. } => {}
            LinkChange::Changed(_) | LinkChange::Removed { .. } | LinkChange::Missed => self.find_long(),
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.look_after(now);
        self.follow(now);
    }

    /// Looks whether the rules are there still.
    fn handle_housekeeping(&mut self, _now: Time) {
        self.follow_routes();
        if self.table.as_ref().is_some_and(|table| table.is_there() == Ok(false)) {
            tracing::warn!("another program removed the gateway's packet rules: they are set again");
            self.table = None;
        }
        if self.table.is_none() {
            match rules::set(&self.config, Marks::of(&self.config), self.port()) {
                Ok(table) => (self.table, self.problem) = (Some(table), None),
                Err(error) => {
                    let why = error.to_string();
                    if self.problem.as_ref() != Some(&why) {
                        tracing::warn!(%error, "the gateway's packet rules cannot be set: all passes unsplit, and they are tried again");
                    }
                    self.problem = Some(why);
                }
            }
        }
    }

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let levels = (!self.closed.is_empty()).then_some((self.next_levels, TimerName("levels")));
        let queue = self.intake.poll_timeout().map(|at| (at, TimerName("queue")));
        let look = Some((self.next_look, TimerName("connections")));
        [queue, levels, look].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        self.connections.begin_turn();
        self.tell_levels(now);
        self.move_packets(now);
        Ok(())
    }

    fn interface(&self) -> &str {
        &self.config.interface.name
    }

    /// It has no interface of its own.
    fn mtu(&self) -> usize {
        0
    }

    fn poll_lookup(&mut self) -> Option<String> {
        self.names.poll()
    }

    fn handle_addresses(&mut self, now: Time, host: &str, found: Result<Vec<IpAddr>, String>) {
        let found = found.unwrap_or_default();
        for wanted in self.names.take(host) {
            let addresses = found.iter().map(|address| SocketAddr::new(*address, wanted.port)).collect();
            self.connections.call_for(now, wanted, addresses);
        }
        self.follow(now);
    }

    fn reload(&mut self, now: Time, config: Config) -> Reloaded {
        let needs: Vec<String> = self.config.needing_restart(&config).into_iter().collect();
        if !needs.is_empty() {
            return Reloaded { needs_restart: needs, ..Reloaded::default() };
        }
        let port = self.port();
        let Some(settings) = &config.gateway else { return Reloaded::impossible("the file has no [gateway]") };
        if self.settings().of_peer != settings.of_peer
            && let Some(table) = &mut self.table
            && let Err(error) = rules::change(table, &config, Marks::of(&config), port)
        {
            return Reloaded { failed: vec![error.to_string()], ..Reloaded::default() };
        }
        match self.intake.change(now, settings) {
            Ok(()) => {
                self.connections.change(settings);
                self.proxy.iter_mut().for_each(|proxy| proxy.change(settings));
                self.bypass.change(settings);
                let changed = changed::changed(self.settings(), settings);
                self.config = config;
                Reloaded { ok: true, changed, ..Reloaded::default() }
            }
            Err(problem) => Reloaded { failed: vec![problem.to_string()], ..Reloaded::default() },
        }
    }

    fn report(&self, now: Time, status: &mut Status) {
        status.gateway = Some(self.gateway_status(now));
    }
}

/// As many descriptors as this process may have: a connection takes two, and some a pipe.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of descriptors stays");
        }
    }
}

/// For keys of hashes that strangers must not foresee, and what policies draw.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
