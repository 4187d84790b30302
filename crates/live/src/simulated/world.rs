//! Several hosts with a daemon each, and time: one thread, and one order of everything that happens.

use super::host::{Host, Killed};
use super::kept::Kept;
use super::network::{Arrival, Network, address};
use super::sabotage::{Sabotage, Spoiling};
use super::scene::{Scene, between, chance};
use super::traffic::{Flow, Judged, Violation, What, judge, packets_of};
use crate::config::Config;
use crate::roles::Daemon;
use crate::system::enter;
use fairspan_core::rng::Rng;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;

pub(super) const MILLI: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;
/// From the moment that something is ready to the daemon's next turn.
const WAKING: u64 = 20_000;
/// Turns of one daemon, each at once after the one before, that take and give nothing.
const IDLE_TURNS: u32 = 1_000;
/// How long a packet may be outside of the bonds: delays, queues, jitter, what overtakes it, a process that does not run, a
/// socket that takes nothing.
const OUTSIDE: u64 = 12 * SECOND;

/// A host and its daemon.
pub(super) struct Node {
    pub(super) host: Rc<Host>,
    pub(super) daemon: Option<Daemon>,
    /// When the daemon has its next turn.
    wake: u64,
    /// Its process does not run before then.
    pub(super) frozen_until: u64,
    pub(super) control_socket: PathBuf,
    /// Where it keeps what outlives a process.
    kept: Kept,
    /// A start is due.
    starting: bool,
    /// It was killed once, or a call failed as it ended: settings which only an orderly end restores may differ.
    unrestored: bool,
    /// When its last turn was, how much its host had moved then, and how many turns at once moved nothing.
    turns: (u64, u64, u32),
    hoard: Vec<Vec<u8>>,
    /// The channels as they were told last.
    pub(super) shown: Vec<String>,
}

/// The end of something that went wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mend {
    /// A way carries again.
    Way(usize, usize, usize),
    /// A link's interface is there and switched on, with its usual MTU.
    Interface(usize, usize),
}

#[derive(Debug)]
pub(super) enum Happening {
    Arrives(Box<Arrival>),
    Burst,
    Trouble,
    Mends(Mend),
    Starts(usize),
}

struct Entry {
    at: u64,
    order: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest: it comes out first.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Things that went wrong, in all.
    pub(super) faults: u64,
    /// A digest of everything that happened, in its order.
    pub(super) log: u64,
    pub(super) delivered: u64,
    /// In nanoseconds.
    pub(super) virtual_time: u64,
    /// Of the packets delivered, the longest that one was under way.
    pub(super) oldest: u64,
}

pub(super) struct World {
    pub(super) scene: Scene,
    pub(super) now: u64,
    queue: BinaryHeap<Entry>,
    order: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) network: Network,
    pub(super) flows: Vec<Flow>,
    pub(super) rng: Rng,
    traffic: Rng,
    pub(super) phase: usize,
    /// Packets flow, and things go wrong.
    pub(super) busy: bool,
    pub(super) troubled: bool,
    pub(super) faults: u64,
    pub(super) memory: i64,
    sabotage: Option<Sabotage>,
    spoiling: Option<Spoiling>,
    outcome: Outcome,
    /// What happens is printed.
    pub(super) tells: bool,
    arrivals: Vec<Arrival>,
    _folder: tempfile::TempDir,
}

impl World {
    pub(super) fn new(seed: u64, sabotage: Option<Sabotage>) -> World {
        World::of(Scene::draw(seed), seed, sabotage)
    }

    /// A scene, in which `seed` draws what the scene does not say.
    pub(super) fn of(scene: Scene, seed: u64, sabotage: Option<Sabotage>) -> World {
        // In memory where there is such a place: what daemons keep is brought to the disk.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        let mut network = Network::new(seed ^ 0xe7, scene.hosts, scene.links.len());
        if !scene.patient {
            network.memory = SECOND;
        }
        for (place, _) in scene.translated.iter().enumerate().filter(|(_, translated)| **translated) {
            network.translate(place % scene.links.len(), place / scene.links.len());
        }
        let nodes = (0..scene.hosts).map(|host| {
            let addresses =
                scene.links.iter().enumerate().map(|(link, drawn)| address(link, host, drawn.six)).collect();
            Node {
                host: Host::new(seed.wrapping_mul(31).wrapping_add(host as u64), addresses),
                daemon: None,
                wake: u64::MAX,
                frozen_until: 0,
                control_socket: folder.path().join(format!("host{host}.sock")),
                kept: Kept::new(folder.path().join(format!("host{host}"))),
                starting: false,
                unrestored: false,
                turns: (0, 0, 0),
                hoard: Vec::new(),
                shown: Vec::new(),
            }
        });
        let nodes = nodes.collect();
        let mut flows = Vec::new();
        for pair in &scene.pairs {
            for (from, to) in [(pair.calls, pair.listens), (pair.listens, pair.calls)] {
                for number in 0..3 {
                    flows.push(Flow::new(from, to, number, number == 2 && scene.has_six(), pair.ordered));
                }
            }
        }
        let mut world = World {
            rng: Rng::new(seed ^ 0xfa17),
            traffic: Rng::new(seed ^ 0x7aff1c),
            scene,
            now: 0,
            queue: BinaryHeap::new(),
            order: 0,
            nodes,
            network,
            flows,
            phase: 0,
            busy: false,
            troubled: false,
            faults: 0,
            memory: 0,
            sabotage,
            spoiling: sabotage.map(Spoiling::new),
            outcome: Outcome::default(),
            tells: false,
            arrivals: Vec::new(),
            _folder: folder,
        };
        world.mend_links();
        world
    }

    /// All of it: the phases, and an orderly end.
    pub(super) fn run(&mut self) -> Result<Outcome, Violation> {
        for host in 0..self.nodes.len() {
            self.tell(|| format!("host {host}:\n{}", self.file(host)));
            self.start(host)?;
        }
        for phase in 0..self.scene.phases.len() {
            self.phase = phase;
            (self.busy, self.troubled) = (true, true);
            self.tell(|| format!("phase {:?}, links {:?}", self.scene.phases[phase], self.scene.links));
            self.worsen();
            self.push(self.now, Happening::Burst);
            self.push(self.now, Happening::Trouble);
            self.advance(self.now + self.scene.phases[phase].troubled)?;
            self.mend()?;
            self.advance(self.healed())?;
            self.prove()?;
        }
        for host in 0..self.nodes.len() {
            self.stop(host)?;
        }
        self.outcome.faults = self.faults + self.network.faults;
        self.outcome.faults += self.nodes.iter().map(|node| node.host.state().failed).sum::<u64>();
        self.outcome.virtual_time = self.now;
        Ok(self.outcome)
    }

    pub(super) fn push(&mut self, at: u64, what: Happening) {
        self.order += 1;
        self.queue.push(Entry { at, order: self.order, what });
    }

    /// Mixes into the log what happened.
    pub(super) fn note(&mut self, words: [u64; 3]) {
        for word in words {
            let wide = u128::from(self.outcome.log ^ word ^ self.now) * 0xa076_1d64_78bd_642f_u128;
            self.outcome.log = (wide as u64 ^ (wide >> 64) as u64).wrapping_add(0xe703_7ed1_a0b4_28db);
        }
    }

    /// Says what happens, where someone reads it.
    pub(super) fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            println!("{:>12.6} {}", self.now as f64 / 1e9, what());
        }
    }

    pub(super) fn violation<T>(&self, what: What, host: usize, detail: impl Into<String>) -> Result<T, Violation> {
        Err(Violation { what, host, at: self.now, detail: detail.into() })
    }

    /// Everything that happens up to `until`.
    pub(super) fn advance(&mut self, until: u64) -> Result<(), Violation> {
        loop {
            let first = (0..self.nodes.len()).min_by_key(|host| self.nodes[*host].wake);
            let host = first.expect("there are hosts");
            let wake = self.nodes[host].wake;
            let at = self.queue.peek().map_or(u64::MAX, |entry| entry.at);
            if wake.min(at) > until {
                self.now = until;
                return Ok(());
            }
            if at <= wake {
                let Some(entry) = self.queue.pop() else { continue };
                self.now = self.now.max(entry.at);
                self.happen(entry.what)?;
            } else {
                self.now = self.now.max(wake);
                self.turn(host)?;
            }
        }
    }

    fn happen(&mut self, what: Happening) -> Result<(), Violation> {
        match what {
            Happening::Arrives(arrival) => self.arrive(*arrival),
            Happening::Burst if self.busy => self.burst(),
            Happening::Trouble if self.troubled => self.make_trouble()?,
            Happening::Burst | Happening::Trouble => {}
            Happening::Mends(mend) => self.mend_one(mend),
            Happening::Starts(host) => {
                if std::mem::take(&mut self.nodes[host].starting) {
                    self.start(host)?;
                }
            }
        }
        Ok(())
    }

    fn arrive(&mut self, arrival: Arrival) {
        let host = arrival.host;
        let mut state = self.nodes[host].host.state();
        state.deliver(arrival.link, arrival.datagram);
        drop(state);
        self.wake_if_ready(host);
    }

    pub(super) fn wake_if_ready(&mut self, host: usize) {
        let node = &mut self.nodes[host];
        let mut state = node.host.state();
        state.now = self.now;
        if node.daemon.is_some() {
            let ready = if state.is_ready() { self.now + WAKING } else { state.next_room().unwrap_or(u64::MAX) };
            node.wake = node.wake.min(ready).max(node.frozen_until);
        }
    }

    /// Some host sends some packets to another.
    fn burst(&mut self) {
        let rng = &mut self.traffic;
        // While nothing goes wrong there is less to see.
        let (bursts, burst) = if self.troubled { (self.scene.bursts, self.scene.burst) } else { (5, 1) };
        let pause = between(rng, 0, 2 * SECOND / bursts);
        let place = rng.below(self.flows.len() as u64) as usize;
        let count = between(rng, 1, burst) as usize;
        let (small, whole) = (chance(rng, 30), chance(rng, 50));
        let (drawn, segments, partial) = (between(rng, 64, 1500), chance(rng, 50), chance(rng, 50));
        let len = if small {
            64 + drawn % 64
        } else if whole {
            9000
        } else {
            drawn
        };
        self.send(place, len as usize, count, segments, partial);
        self.push(self.now + pause, Happening::Burst);
    }

    /// Hands packets of a flow to its host's interface.
    pub(super) fn send(&mut self, place: usize, len: usize, count: usize, segments: bool, partial: bool) {
        let flow = &mut self.flows[place];
        let from = flow.from;
        let mut state = self.nodes[from].host.state();
        let Some(tun) = state.routing.tun.as_ref().filter(|tun| tun.up && (!flow.is_six() || tun.mtu >= 1280)) else {
            return;
        };
        let len = len.min(tun.mtu as usize);
        let headers = state.tun.as_ref().is_some_and(|tun| tun.has_headers());
        let segments = segments && state.tun.as_ref().is_some_and(|tun| tun.segments);
        for unit in flow.send(place, len, count, segments, partial && headers) {
            self.faults += u64::from(!state.offer(unit));
        }
        drop(state);
        self.wake_if_ready(from);
    }

    /// Starts a host's daemon; one that could not start because a call failed is started again a second later.
    pub(super) fn start(&mut self, host: usize) -> Result<(), Violation> {
        if self.nodes[host].daemon.is_some() {
            return Ok(());
        }
        let text = self.file(host);
        let config = match Config::parse("simulated.toml".as_ref(), &text) {
            Ok(config) => config,
            Err(error) => return self.violation(What::Blocked, host, format!("{error}\n{text}")),
        };
        let failed = {
            let mut state = self.nodes[host].host.state();
            (state.now, state.dead) = (self.now, false);
            state.failed
        };
        self.note([1, host as u64, 0]);
        self.tell(|| format!("host {host} starts"));
        match self.inside(host, || Daemon::start(config, None, None)) {
            Ok(Ok(daemon)) => {
                let node = &mut self.nodes[host];
                node.daemon = Some(daemon);
                node.wake = (self.now + WAKING).max(node.frozen_until);
                self.collect(host)
            }
            Ok(Err(error)) => {
                let excused = self.nodes[host].host.state().failed > failed;
                self.nodes[host].host.state().end_process();
                if !excused {
                    return self.violation(What::Blocked, host, error.to_string());
                }
                self.nodes[host].unrestored = true;
                self.start_in(host, SECOND);
                Ok(())
            }
            Err(Some(panic)) => self.violation(What::Ended, host, panic),
            Err(None) => self.killed(host),
        }
    }

    fn file(&self, host: usize) -> String {
        self.scene.file(host, &self.nodes[host].control_socket, self.nodes[host].kept.folder())
    }

    /// What a host keeps of former processes is lost.
    pub(super) fn lose_kept(&mut self, host: usize) {
        self.nodes[host].kept.lose();
    }

    pub(super) fn start_in(&mut self, host: usize, span: u64) {
        self.nodes[host].starting = true;
        self.push(self.now + span, Happening::Starts(host));
    }

    /// Runs `work` as the host's process, and counts the memory that it takes. `Err(None)` when it was killed meanwhile,
    /// otherwise what it panicked with.
    fn inside<R>(&mut self, host: usize, work: impl FnOnce() -> R) -> Result<R, Option<String>> {
        if self.nodes[host].host.state().kill_in.is_some() {
            self.nodes[host].kept.remember();
        }
        let before = enter(self.nodes[host].host.clone());
        let mut result = None;
        let used = allocation_counter::measure(|| {
            result = Some(catch_unwind(AssertUnwindSafe(work)));
        });
        enter(before);
        self.memory += used.bytes_current;
        result.expect("it ran").map_err(|payload| {
            if payload.is::<Killed>() {
                return None;
            }
            let text = payload.downcast_ref::<String>().cloned();
            Some(text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
        })
    }

    /// One turn of a daemon's loop.
    fn turn(&mut self, host: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[host];
        node.wake = u64::MAX;
        let Some(mut daemon) = node.daemon.take() else { return Ok(()) };
        let (last, before, idle) = node.turns;
        let moved = node.host.state().moved;
        let goes_on = self.now - last <= WAKING && moved == before;
        node.turns = (self.now, moved, if goes_on { idle + 1 } else { 0 });
        if node.turns.2 > IDLE_TURNS {
            return self.violation(What::Spins, host, "its loop goes on and does nothing");
        }
        node.host.state().now = self.now;
        let mut hoard = std::mem::take(&mut node.hoard);
        let sabotage = self.sabotage;
        let result = self.inside(host, || {
            let turned = match sabotage {
                Some(sabotage) => sabotage.turn(&mut daemon, &mut hoard),
                None => daemon.turn(),
            };
            (daemon, hoard, turned)
        });
        match result {
            Ok((daemon, hoard, Ok(next))) => {
                let node = &mut self.nodes[host];
                (node.daemon, node.hoard) = (Some(daemon), hoard);
                node.wake = self.now.saturating_add(next.as_nanos().max(1)).max(node.frozen_until);
                self.collect(host)?;
                self.wake_if_ready(host);
                self.tell_channels(host);
                self.weigh(host)
            }
            Ok((daemon, _, Err(error))) => {
                let excused = self.nodes[host].host.state().routing.tun.is_none();
                let failed = self.nodes[host].host.state().failed;
                let ended = self.inside(host, || drop(daemon));
                let node = &mut self.nodes[host];
                node.host.state().end_process();
                node.unrestored |= node.host.state().failed > failed;
                match ended {
                    Err(Some(panic)) => self.violation(What::Ended, host, panic),
                    _ if !excused => self.violation(What::Ended, host, error.to_string()),
                    _ => {
                        self.collect(host)?;
                        self.start_in(host, SECOND);
                        Ok(())
                    }
                }
            }
            Err(Some(panic)) => self.violation(What::Ended, host, panic),
            Err(None) => self.killed(host),
        }
    }

    /// A process was killed, and what it had is gone; its control socket's file stays. Another one starts later.
    fn killed(&mut self, host: usize) -> Result<(), Violation> {
        self.note([2, host as u64, 0]);
        self.tell(|| format!("host {host} was killed"));
        self.collect(host)?;
        let node = &mut self.nodes[host];
        node.host.state().end_process();
        node.unrestored = true;
        node.kept.restore();
        let path = &node.control_socket;
        let _ = std::fs::remove_file(path);
        if self.sabotage == Some(Sabotage::Blocks) {
            std::fs::write(path, "in the way").expect("written");
        } else {
            drop(std::os::unix::net::UnixListener::bind(path).expect("a socket's file"));
        }
        let after = self.rng.below(3 * SECOND);
        self.start_in(host, after);
        Ok(())
    }

    /// Stops a daemon in order, unless it is killed while it does.
    pub(super) fn stop(&mut self, host: usize) -> Result<(), Violation> {
        let Some(daemon) = self.nodes[host].daemon.take() else { return Ok(()) };
        self.nodes[host].wake = u64::MAX;
        self.note([3, host as u64, 0]);
        let failed = self.nodes[host].host.state().failed;
        match self.inside(host, || drop(daemon)) {
            Ok(()) => {}
            Err(None) => return self.killed(host),
            Err(Some(panic)) => return self.violation(What::Ended, host, panic),
        }
        self.collect(host)?;
        let node = &mut self.nodes[host];
        let mut state = node.host.state();
        state.end_process();
        let excused = state.failed > failed;
        if self.sabotage == Some(Sabotage::Litters) {
            state.settings.insert("litter".to_owned(), "1".to_owned());
        }
        let routing = &state.routing;
        let changed = state.settings.iter().filter(|(path, value)| *value != Host::usual_setting(path));
        let settings: Vec<_> = changed.filter(|_| !node.unrestored).collect();
        let left = format!("{:?}", (&routing.addresses, &routing.routes, &routing.rules, settings));
        drop(state);
        if !excused && left != "([], [], [], [])" {
            return self.violation(What::Leftover, host, left);
        }
        Ok(())
    }

    /// Takes what a daemon sent and delivered.
    fn collect(&mut self, host: usize) -> Result<(), Violation> {
        let (sent, read, written) = {
            let mut state = self.nodes[host].host.state();
            (std::mem::take(&mut state.sent), std::mem::take(&mut state.read), std::mem::take(&mut state.written))
        };
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for (link, datagram) in sent {
            self.note([4, (host << 8 | link) as u64, datagram.bytes.len() as u64]);
            self.network.send(self.now, link, host, datagram, &mut arrivals);
        }
        for arrival in arrivals.drain(..) {
            self.push(arrival.at, Happening::Arrives(Box::new(arrival)));
        }
        self.arrivals = arrivals;
        for (flow, numbers) in read {
            self.flows[flow].on_read(self.now, numbers);
        }
        let mut packets: Vec<Vec<u8>> = written.iter().flat_map(|(header, unit)| packets_of(header, unit)).collect();
        if let Some(spoiling) = self.spoiling.as_mut().filter(|_| !packets.is_empty() && self.outcome.delivered > 20) {
            spoiling.spoil(self.now, host, &self.flows, &mut packets);
        }
        for packet in packets {
            self.deliver(host, &packet)?;
        }
        Ok(())
    }

    fn deliver(&mut self, host: usize, packet: &[u8]) -> Result<(), Violation> {
        let bonds = self.scene.pairs.iter().filter(|pair| pair.calls == host || pair.listens == host);
        let age = bonds.map(|pair| pair.bond.age()).max().unwrap_or(0).saturating_add(OUTSIDE);
        let age = if self.scene.patient { u64::MAX } else { age };
        match judge(&mut self.flows, host, self.now, age, packet) {
            Judged::Own => Ok(()),
            Judged::Fine(flow, number, age) => {
                self.note([5, flow as u64, number]);
                self.outcome.delivered += 1;
                self.outcome.oldest = self.outcome.oldest.max(age);
                Ok(())
            }
            Judged::Broken(what, detail) => self.violation(what, host, detail),
        }
    }

    /// All that went wrong ends now.
    fn mend(&mut self) -> Result<(), Violation> {
        self.tell(|| "all is mended".to_owned());
        self.troubled = false;
        self.mend_links();
        self.mend_hosts();
        for host in 0..self.nodes.len() {
            self.start(host)?;
            self.wake_if_ready(host);
        }
        if self.sabotage == Some(Sabotage::Parts) {
            for link in 0..self.scene.links.len() {
                self.network.way(link, 0, 1).cut = true;
            }
        }
        Ok(())
    }
}
