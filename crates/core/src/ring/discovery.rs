//! Who is there: the neighbours, and the whole ring.
//!
//! Source: IEEE 802.17, clause 11. The rules stand in `keepalive` (is a link well, and the right neighbour at its end) and
//! `reports` (what nodes tell of themselves, and the topology that comes of it). Here they meet: what a neighbour is to this node
//! goes into the node's own report, and the report goes round.
//!
//! Pace: a report is flooded at once when what it says changes, eight in a row at most and then one every 4 ms; five times
//! more by a tenth of `refresh` after the topology changed; else every `refresh`.
//!
//! Departures from 802.17: no checksum over the whole ring's state is compared between neighbours; who hears a neighbour
//! anew tells it everything instead.
//!
//! Hostile input: every frame is checked for its sum, the ring it is from, its sender's place and its age, and counted under a reason
//! where it is refused ([`Refused`]). A report in this node's name that it did not make is outdone within a ring time.
//! What nobody here can tell is whether a neighbour lies: links over which strangers can write need a channel that
//! authenticates.
//!
//! Invariant: once frames get through again, all nodes that reach one another compute the same topology.

pub(super) mod config;

pub use self::config::Config;
use super::control::{Link, MOST_ANNOUNCED, MOST_RESERVATIONS, Message, Report, Reservation, open};
use super::keepalive::Neighbour;
pub use super::refusal::{REASONS, Refused};
pub use super::reports::Reserved;
use super::reports::{AHEAD, MOST, Reports, Taken, same};
use super::topology::{Topology, Way};
use super::{Class, MOST_NODES, NodeId, Ringlet, Side};
use crate::rng::Rng;
use crate::units::{Rate, Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What discovery did, for logs and for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A link may carry packets from now on, or no more, as far as this node can tell.
    Link {
        /// Which.
        side: Side,
        /// Whether it may.
        up: bool,
    },
    /// The topology, weights, capacities or reservations changed.
    Topology,
    /// What another node tells of its station is something else now, or nothing any more.
    Announcement,
    /// Control frames are refused. Told when the reason changes, and at most once a second while it does not.
    Refused {
        /// Over which link they come.
        side: Side,
        /// Why.
        reason: Refused,
    },
}

/// What discovery counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keepalives and reports sent, reports of others sent on among them.
    pub sent: u64,
    /// Keepalives and reports taken.
    pub taken: u64,
    /// Reports that were known, or newer ones: each comes by both ways round.
    pub known: u64,
    /// Times that a link in use failed.
    pub failures: u64,
    /// Control frames refused, by [`Refused::index`].
    pub refused: [u64; REASONS.len()],
}

impl Stats {
    /// Every counter by name but those of refused frames, whose names are [`REASONS`].
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [("sent", self.sent), ("taken", self.taken), ("known", self.known), ("failures", self.failures)].into_iter()
    }
}

/// Reports in a row that a node may make without a pause, while the ring changes.
const BURST: u64 = 8;
/// Time between reports when more are due.
const PACE: Span = Span::from_millis(4);
/// Reports after a change that follow one another faster, by a tenth of the usual time: some may be lost.
const REPEATS: u32 = 5;
/// After so many halves of `refresh` without a report, what a node told is forgotten.
const HALVES: u64 = 7;
/// How long a reason to refuse frames is not told again.
const TELL_AGAIN: Span = Span::from_secs(1);

/// Discovery at one node, sans IO. After any input, drain the polls.
#[derive(Clone, Debug)]
pub struct Discovery {
    config: Config,
    rng: Rng,
    instance: u32,
    /// Of the own report, and of the one flooded last.
    sequence: u64,
    flooded: u64,
    neighbours: [Neighbour; 2],
    reports: Reports,
    topology: Topology,
    reserved: [Vec<Reserved>; 2],
    /// Whether the own report is to be flooded as soon as the pace allows it.
    unsent: bool,
    /// The pace: when the reports sent so far would have been sent one every [`PACE`].
    paced: Time,
    /// When the own report is told again.
    refresh: Time,
    /// How many more times that is soon.
    repeats: u32,
    /// Of the latest input.
    awake: Time,
    due: Time,
    told: [[Option<Time>; REASONS.len()]; 2],
    events: VecDeque<Event>,
    stats: Stats,
}

impl Discovery {
    /// At a node whose links are down until the driver says otherwise. `seed` makes the instance: another one at every start.
    ///
    /// # Errors
    /// Which setting is wrong.
    pub fn new(config: Config, now: Time, seed: u64) -> Result<Discovery, ConfigError> {
        config.validate()?;
        let mut topology = Topology::ring(config.nodes, config.nominal);
        for node in (0..config.nodes).map(NodeId::at) {
            for ringlet in Ringlet::BOTH {
                topology.set_way(node, ringlet, Way { up: config.assume, capacity: config.nominal });
            }
        }
        let reserved = [(); 2].map(|()| alloc::vec![Reserved::default(); config.nodes]);
        let mut discovery = Discovery {
            rng: Rng::new(seed),
            instance: 0,
            sequence: 0,
            flooded: 0,
            neighbours: Side::BOTH.map(Neighbour::new),
            reports: Reports::new(config.nodes),
            topology,
            reserved,
            unsent: false,
            paced: Time::ZERO,
            refresh: config.refresh.map_or(Time::MAX, |span| now + span),
            repeats: 0,
            awake: now,
            due: Time::MAX,
            told: [[None; REASONS.len()]; 2],
            events: VecDeque::new(),
            stats: Stats::default(),
            config,
        };
        discovery.begin_anew(now);
        discovery.finish(now);
        discovery.events.clear();
        Ok(discovery)
    }

    /// A control frame came from the neighbour at `side`: a keepalive or a report.
    ///
    /// # Errors
    /// Why it was refused; counted and told already.
    pub fn handle_frame(&mut self, now: Time, side: Side, frame: &[u8]) -> Result<(), Refused> {
        self.wake(now);
        let taken = self.take(now, side, frame);
        match taken {
            Ok(()) => self.stats.taken += 1,
            Err(reason) => {
                self.stats.refused[reason.index()] += 1;
                let told = &mut self.told[side.index()][reason.index()];
                if told.is_none_or(|at| now.since(at) >= TELL_AGAIN) {
                    *told = Some(now);
                    self.events.push_back(Event::Refused { side, reason });
                }
            }
        }
        self.finish(now);
        taken
    }

    fn take(&mut self, now: Time, side: Side, frame: &[u8]) -> Result<(), Refused> {
        let message = open(frame).and_then(|(kind, node, body)| Message::decode(kind, node, body));
        match message.map_err(Refused::Malformed)? {
            Message::Keepalive(message) => {
                let instance = self.instance;
                self.change(now, side, |neighbour, config| neighbour.handle(now, config, instance, &message))
            }
            Message::Report(report) => self.take_report(now, side, report),
        }
    }

    fn take_report(&mut self, now: Time, side: Side, report: Report) -> Result<(), Refused> {
        let neighbour = &self.neighbours[side.index()];
        if !neighbour.is_known(&self.config) {
            return Err(if neighbour.has_carrier() { Refused::Stranger } else { Refused::Down });
        }
        if usize::from(report.nodes) != self.config.nodes {
            return Err(Refused::Nodes { found: report.nodes });
        }
        if report.node == self.config.node {
            return self.take_own(now, &report);
        }
        let node = report.node;
        let tells_the_same = self.reports.of(node).is_some_and(|known| known.announcement == report.announcement);
        match self.reports.take(now, side, report)? {
            Taken::Known => self.stats.known += 1,
            Taken::Renewed => {}
            Taken::Changed => {
                self.compute(now, Some(node));
                if !tells_the_same {
                    self.push_once(Event::Announcement);
                }
            }
        }
        Ok(())
    }

    /// A report about this node came round, or is none of its.
    fn take_own(&mut self, now: Time, report: &Report) -> Result<(), Refused> {
        if report.instance != self.instance {
            // Of the instance before this one, or of a second node: the ring must hear who is there now.
            self.unsent = true;
            return Err(Refused::Taken { node: report.node });
        }
        let ahead = report.sequence.saturating_sub(self.sequence);
        let own = self.reports.of(self.config.node);
        if ahead == 0 && (report.sequence < self.sequence || own.is_some_and(|own| same(own, report))) {
            return Ok(());
        }
        // Go beyond what was said in this node's name; what is too far ahead nobody took who knows this node.
        if ahead < AHEAD {
            self.sequence = report.sequence;
            if self.sequence < MOST - 1 { self.tell(now) } else { self.begin_anew(now) }
        }
        Err(Refused::Forged)
    }

    /// What the driver knows of a link.
    pub fn set_link(&mut self, now: Time, side: Side, up: bool) {
        self.wake(now);
        self.change(now, side, |neighbour, config| neighbour.set_carrier(now, config, up));
        self.finish(now);
    }

    /// A link carries this much from now on.
    pub fn set_capacity(&mut self, now: Time, side: Side, rate: Rate) {
        self.wake(now);
        if core::mem::replace(&mut self.config.capacity[side.index()], rate) != rate {
            self.tell(now);
        }
        self.finish(now);
    }

    /// The node weighs this many thousandths from now on, one at least.
    pub fn set_weight(&mut self, now: Time, thousandths: u32) {
        self.wake(now);
        let weight = thousandths.max(1);
        if core::mem::replace(&mut self.config.weight, weight) != weight {
            self.tell(now);
        }
        self.finish(now);
    }

    /// The node reserves this for its own traffic from now on.
    ///
    /// # Errors
    /// Which reservation cannot be; then the old ones stay.
    pub fn reserve(&mut self, now: Time, reservations: &[Reservation]) -> Result<(), ConfigError> {
        check_reservations(&self.config, reservations)?;
        self.wake(now);
        if self.config.reservations != reservations {
            self.config.reservations = reservations.to_vec();
            self.tell(now);
        }
        self.finish(now);
        Ok(())
    }

    /// Other nodes are told this of the station from now on; what is beyond 512 bytes is not told.
    pub fn announce(&mut self, now: Time, announcement: &[u8]) {
        self.wake(now);
        let announcement = &announcement[..announcement.len().min(MOST_ANNOUNCED)];
        if self.config.announcement != announcement {
            self.config.announcement = announcement.to_vec();
            self.tell(now);
        }
        self.finish(now);
    }

    /// [`Discovery::poll_timeout`] is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.wake(now);
        for side in Side::BOTH {
            self.change(now, side, |neighbour, config| neighbour.handle_timeout(now, config));
        }
        if let Some(refresh) = self.config.refresh.filter(|_| now >= self.refresh) {
            self.repeats = self.repeats.saturating_sub(1);
            self.unsent = true;
            self.refresh = Time::MAX;
            let age = Span::from_nanos(refresh.as_nanos() / 2).times(HALVES);
            if self.reports.forget(now, age, self.config.node) {
                self.compute(now, None);
                self.push_once(Event::Announcement);
            }
        }
        self.finish(now);
    }

    /// A whole control frame to be sent now over the link, written into `out`, which is emptied first.
    pub fn poll_control(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Side> {
        out.clear();
        for side in Side::BOTH {
            if let Some(message) = self.neighbours[side.index()].poll(now, &self.config, self.instance) {
                message.encode(out);
                self.stats.sent += 1;
                self.schedule();
                return Some(side);
            }
        }
        for side in Side::BOTH {
            if !self.neighbours[side.index()].is_known(&self.config) {
                continue;
            }
            if let Some(report) = self.reports.poll(side) {
                report.encode(out);
                self.stats.sent += 1;
                return Some(side);
            }
        }
        None
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When there is something to do next without input.
    pub fn poll_timeout(&self) -> Option<Time> {
        Some(self.due).filter(|&due| due < Time::MAX)
    }

    /// The ring as this node knows it. The ways out of this node are up only if both ends say so.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether the link may carry packets, as far as this node can tell. What the neighbour says is in the topology.
    pub fn is_up(&self, side: Side) -> bool {
        self.neighbours[side.index()].is_up()
    }

    /// Whether data frames that come over this link are from the neighbour that should be there.
    pub fn accepts(&self, side: Side) -> bool {
        self.neighbours[side.index()].is_known(&self.config)
    }

    /// Whether `node` has told anything of itself lately.
    pub fn is_heard(&self, node: NodeId) -> bool {
        self.reports.of(node).is_some()
    }

    /// What `node` tells of its station.
    pub fn announced(&self, node: NodeId) -> Option<&[u8]> {
        self.reports.of(node).map(|report| report.announcement.as_slice())
    }

    /// What is reserved of the way that leaves `node` on `ringlet`.
    pub fn reserved(&self, node: NodeId, ringlet: Ringlet) -> Reserved {
        self.reserved[ringlet.index()][node.index()]
    }

    /// This process's random number, which tells it from the one before.
    pub fn instance(&self) -> u32 {
        self.instance
    }

    /// What was counted.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Input came: from a sleep the neighbours' silence is no sign.
    fn wake(&mut self, now: Time) {
        let slept = now.since(self.awake);
        self.awake = now;
        if self.config.keepalive.is_some_and(|interval| slept.times(2) > interval.times(3)) {
            self.neighbours.iter_mut().for_each(|neighbour| neighbour.on_sleep(now, &self.config, slept));
        }
    }

    /// Something happens to a neighbour: what follows from it follows.
    fn change<T>(&mut self, now: Time, side: Side, act: impl FnOnce(&mut Neighbour, &Config) -> T) -> T {
        let neighbour = &mut self.neighbours[side.index()];
        let (was_up, was_known, was_heard) = (neighbour.is_up(), neighbour.is_known(&self.config), neighbour.heard());
        let result = act(neighbour, &self.config);
        let (up, known, heard) = (neighbour.is_up(), neighbour.is_known(&self.config), neighbour.heard());
        if known && (!was_known || heard != was_heard) {
            self.reports.tell_all(side, neighbour.expected(&self.config));
        }
        if up != was_up {
            self.stats.failures += u64::from(was_up);
            self.events.push_back(Event::Link { side, up });
        }
        if up != was_up || heard != was_heard {
            self.tell(now);
        }
        result
    }

    /// This node has another instance from now on.
    fn begin_anew(&mut self, now: Time) {
        self.instance = (self.rng.next_u64() as u32).max(1);
        self.sequence = 0;
        self.tell(now);
    }

    /// What this node says of itself is something else now.
    fn tell(&mut self, now: Time) {
        self.sequence += 1;
        let link = |side: Side| {
            let neighbour = &self.neighbours[side.index()];
            Link { up: neighbour.is_up(), heard: neighbour.heard(), capacity: self.config.capacity[side.index()] }
        };
        let report = Report {
            node: self.config.node,
            nodes: self.config.nodes as u8,
            ttl: self.config.nodes as u8,
            instance: self.instance,
            sequence: self.sequence,
            links: Side::BOTH.map(link),
            weight: self.config.weight,
            reservations: self.config.reservations.clone(),
            announcement: self.config.announcement.clone(),
        };
        self.reports.set_own(now, report);
        self.unsent = true;
        self.compute(now, Some(self.config.node));
    }

    fn compute(&mut self, now: Time, one: Option<NodeId>) {
        let Config { nominal, assume, refresh, .. } = self.config;
        if self.reports.compute(one, nominal, assume, &mut self.topology, &mut self.reserved) {
            self.repeats = REPEATS;
            if let Some(refresh) = refresh {
                self.refresh = self.refresh.min(now + soon(refresh));
            }
            self.push_once(Event::Topology);
        }
    }

    fn push_once(&mut self, event: Event) {
        if self.events.back() != Some(&event) {
            self.events.push_back(event);
        }
    }

    /// After any input: what is due of the own report, and when there is more to do.
    fn finish(&mut self, now: Time) {
        if self.unsent && now >= self.may_send() {
            if self.sequence == self.flooded {
                self.sequence += 1;
                self.reports.renew_own(now, self.config.node, self.sequence);
            }
            self.flooded = self.sequence;
            self.reports.flood(self.config.node);
            self.unsent = false;
            self.paced = self.paced.max(now) + PACE;
            if let Some(refresh) = self.config.refresh {
                self.refresh = now + if self.repeats > 0 { soon(refresh) } else { refresh };
            }
        }
        self.schedule();
    }

    /// When the pace allows another report.
    fn may_send(&self) -> Time {
        Time::ZERO + self.paced.since(Time::ZERO + PACE.times(BURST - 1))
    }

    fn schedule(&mut self) {
        let [east, west] = [0, 1].map(|side| self.neighbours[side].due(&self.config));
        let report = if self.unsent { self.may_send() } else { Time::MAX };
        self.due = east.min(west).min(report).min(self.refresh);
    }
}

fn soon(refresh: Span) -> Span {
    Span::from_nanos((refresh.as_nanos() / 10).max(1))
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Less than 2 nodes, or more than 255.
    #[error("a ring has 2 to 255 nodes, not {found}")]
    Nodes {
        /// How many.
        found: usize,
    },
    /// A number beyond the ring's.
    #[error("node {node} in a ring of {nodes} nodes")]
    Node {
        /// The number.
        node: NodeId,
        /// How many there are.
        nodes: usize,
    },
    /// A setting out of its range.
    #[error("{setting}: {right}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it may be.
        right: &'static str,
    },
}

impl Config {
    fn validate(&self) -> Result<(), ConfigError> {
        let (node, nodes) = (self.node, self.nodes);
        let setting = |setting, right, is_right: bool| {
            if is_right { Ok(()) } else { Err(ConfigError::Setting { setting, right }) }
        };
        if !(2..=MOST_NODES).contains(&nodes) {
            return Err(ConfigError::Nodes { found: nodes });
        }
        if node.index() >= nodes {
            return Err(ConfigError::Node { node, nodes });
        }
        setting("nominal", "more than 0 bit/s", self.nominal.as_bits_per_sec() > 0)?;
        setting("weight", "one thousandth at least", self.weight > 0)?;
        setting("announcement", "512 bytes at most", self.announcement.len() <= MOST_ANNOUNCED)?;
        setting("keepalive", "more than 0 s", self.keepalive != Some(Span::ZERO))?;
        let silence = self.keepalive.is_none_or(|interval| self.silence >= interval.times(2));
        setting("silence", "twice the time between keepalives at least", silence)?;
        setting("refresh", "1 ms at least", self.refresh.is_none_or(|span| span >= Span::from_millis(1)))?;
        check_reservations(self, &self.reservations)
    }
}

fn check_reservations(config: &Config, reservations: &[Reservation]) -> Result<(), ConfigError> {
    let right = |one: &Reservation| {
        one.class != Class::C && one.to.is_none_or(|to| to.index() < config.nodes && to != config.node)
    };
    if reservations.len() > MOST_RESERVATIONS || !reservations.iter().all(right) {
        let right = "64 at most, of class A or B, to other nodes of the ring";
        return Err(ConfigError::Setting { setting: "reservations", right });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
