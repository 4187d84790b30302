//! A ring's nodes begin, fail and come back; its links are cut and mended.
//!
//! What is true of the ring is compared with what each node knows whenever either changes: the time until they agree is what
//! protection takes.

use super::way::Load;
use super::{Output, REASONS, Ring, way_of};
use crate::model;
use fairspan_core::link::Outage;
use fairspan_core::ring::control::Reservation;
use fairspan_core::ring::node::{self, Node};
use fairspan_core::ring::protection::Protection;
use fairspan_core::ring::topology::Way as Known;
use fairspan_core::ring::{NodeId, Ringlet, Side, discovery};
use fairspan_core::units::Time;

/// Something that will fail or come back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    at: Time,
    what: What,
    outage: Outage,
    /// It fails; else it comes back.
    fails: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The link of this place.
    Link(u8),
    /// The node of this place.
    Node(u8),
}

impl Ring {
    /// The settings of the node of a place.
    fn config(&self, place: usize) -> node::Config {
        let (count, id) = (self.stations.len(), NodeId::at(place));
        let mut config = node::Config::new(id, count, self.nominal);
        config.algorithm = self.model.algorithm.clone();
        config.protection = match self.model.protection {
            model::Protection::Wrap => Protection::Wrap,
            model::Protection::Steer | model::Protection::None => Protection::Steer,
        };
        if self.watches() {
            // The run begins in the midst of the ring's life.
            let mut discovery = discovery::Config::new(id, count, self.nominal);
            discovery.assume = true;
            config.discovery = Some(discovery);
        }
        config.capacity = Side::BOTH.map(|side| self.ways[way_of(place, side.ringlet())].rate());
        config.overhead = [self.model.overhead as usize; 2];
        config.transit_limit = self.model.transit;
        config.station_threshold = self.model.threshold;
        config.station_limit = self.model.station;
        config.station_discipline = self.model.station_discipline;
        config.station_policy = self.model.station_policy;
        config.interval = self.model.interval;
        config.weight = self.model.weights[place];
        let own = self.model.reservations.iter().filter(|reserved| usize::from(reserved.from) == place);
        let reserved =
            own.map(|one| Reservation { to: Some(NodeId::at(one.to.into())), class: one.class, rate: one.rate });
        config.reservations = reserved.collect();
        config
    }

    /// Whether nodes watch their neighbours.
    fn watches(&self) -> bool {
        self.model.discovery && self.model.protection != model::Protection::None
    }

    /// A new node begins its life.
    pub(super) fn start(&mut self, now: Time, place: usize) -> Result<(), String> {
        let lives = self.stations[place].lives;
        let seed = self.seed ^ (lives << 32 | place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut node = Node::new(self.config(place), now, seed).map_err(|error| error.to_string())?;
        if self.watches() {
            // A driver knows which devices it has, and of a cut where light tells.
            for side in Side::BOTH {
                let way = &self.ways[way_of(place, side.ringlet())];
                let seen = !self.model.carrier || self.light(place, side);
                node.set_link(now, side, way.is_present() && seen);
            }
        } else {
            // As it was laid: what fails later nobody tells.
            let mut laid = self.truth.clone();
            for (number, way) in self.ways.iter().enumerate() {
                let (id, ringlet) = (NodeId::at(number / 2), Ringlet::BOTH[number % 2]);
                laid.set_way(id, ringlet, Known { up: way.is_present(), capacity: way.rate() });
            }
            node.set_topology(now, &laid);
        }
        let station = &mut self.stations[place];
        station.lives += 1;
        station.explained = [0; REASONS];
        station.node = Some(node);
        station.fresh = true;
        self.limits.forget(place);
        Ok(())
    }

    /// Whether there is light on a link, as a node sees it: not cut, and the neighbour alive.
    fn light(&self, place: usize, side: Side) -> bool {
        let neighbour = self.neighbour(place, side);
        self.ways[way_of(place, side.ringlet())].is_up() && self.stations[neighbour].failures == 0
    }

    /// Compares what the node of a place knows with the truth.
    pub(super) fn judge(&mut self, place: usize) {
        let agrees = match &self.stations[place].node {
            None => true,
            Some(node) if self.model.protection == model::Protection::Wrap => Side::BOTH.iter().all(|side| {
                let (id, ringlet) = (NodeId::at(place), side.ringlet());
                node.topology().way(id, ringlet).up == self.truth.way(id, ringlet).up
            }),
            Some(node) => (0..self.stations.len()).map(NodeId::at).all(|to| {
                let way = self.truth.route(NodeId::at(place), to);
                way.is_none() || way == node.topology().route(NodeId::at(place), to)
            }),
        };
        self.failures.judge(place, agrees);
    }

    /// Something fails or comes back now: tells the places where there may be something to poll.
    pub(crate) fn handle_change(&mut self, now: Time) -> Vec<usize> {
        let mut touched = Vec::new();
        while let Some(next) = self.changes.iter_mut().filter(|change| change.at <= now).min_by_key(|change| change.at)
        {
            let Change { what, fails, outage, .. } = *next;
            if fails {
                next.at += outage.length;
            } else if let Some(every) = outage.every {
                next.at += every - outage.length;
            } else {
                next.at = Time::MAX;
            }
            next.fails = !fails;
            match what {
                What::Link(link) => self.change_link(now, link.into(), fails),
                What::Node(node) => self.change_node(now, node.into(), fails, &mut touched),
            }
            let count = self.stations.len();
            let places = match what {
                What::Link(link) => [usize::from(link), (usize::from(link) + 1) % count],
                What::Node(node) => [Side::East, Side::West].map(|side| self.neighbour(node.into(), side)),
            };
            for place in places {
                self.show_light(now, place);
                touched.push(place);
            }
            self.compare(now, fails);
        }
        touched
    }

    /// When something fails or comes back next.
    pub(crate) fn next_change(&self) -> Option<Time> {
        self.changes.iter().map(|change| change.at).min().filter(|at| *at < Time::MAX)
    }

    fn change_link(&mut self, now: Time, link: usize, fails: bool) {
        let next = (link + 1) % self.stations.len();
        for number in [way_of(link, Ringlet::Zero), way_of(next, Ringlet::One)] {
            if !fails {
                self.ways[number].mend();
                continue;
            }
            self.ways[number].cut();
            while let Some(load) = self.ways[number].poll_lost() {
                match load {
                    Load::Data(_, ticket) => {
                        self.ways[number].lost += 1;
                        self.inside -= 1;
                        self.outputs.extend(ticket.redeem().map(Output::Dropped));
                    }
                    Load::Control(frame, _) => {
                        self.control.unheard += 1;
                        self.buffers.push(frame);
                    }
                }
            }
        }
        let what = if fails { "link cut" } else { "link mended" };
        self.failures.tell(now, || format!("link {}", link + 1), what);
    }

    fn change_node(&mut self, now: Time, place: usize, fails: bool, touched: &mut Vec<usize>) {
        let station = &mut self.stations[place];
        let before = station.failures;
        station.failures = if fails { before + 1 } else { before.saturating_sub(1) };
        if fails && before == 0 {
            // Its packets are gone with it.
            if let Some(node) = station.node.take() {
                self.control.refused_before += node.stats().control_refused;
            }
            station.wanted = None;
            self.settle(place);
            self.failures.tell(now, || NodeId::at(place).to_string(), "node failed");
        } else if !fails && before == 1 {
            // With the settings with which it began before.
            if self.start(now, place).is_err() {
                return;
            }
            self.failures.tell(now, || NodeId::at(place).to_string(), "node back");
            touched.push(place);
        }
    }

    /// A node sees whether there is light on its links.
    fn show_light(&mut self, now: Time, place: usize) {
        if !self.model.carrier || self.model.protection == model::Protection::None {
            return;
        }
        for side in Side::BOTH {
            let light = self.light(place, side);
            if let Some(node) = &mut self.stations[place].node {
                node.set_link(now, side, light);
            }
        }
        self.stations[place].fresh = true;
        self.settle(place);
    }

    /// The truth is another: every node's knowledge is compared with it anew.
    fn compare(&mut self, now: Time, fails: bool) {
        let count = self.stations.len();
        for (number, way) in self.ways.iter().enumerate() {
            let (place, ringlet) = (number / 2, Ringlet::BOTH[number % 2]);
            let other = if ringlet == Ringlet::Zero { (place + 1) % count } else { (place + count - 1) % count };
            let alive = self.stations[place].failures == 0 && self.stations[other].failures == 0;
            let known = Known { up: way.is_up() && alive, capacity: way.rate() };
            self.truth.set_way(NodeId::at(place), ringlet, known);
        }
        let were_astray = self.failures.any_astray();
        if fails {
            self.failures.fail(now);
        }
        for place in 0..count {
            self.judge(place);
        }
        self.failures.settle(now, were_astray);
    }
}

/// What fails and comes back, each with its first time.
pub(super) fn changes(model: &model::Ring) -> Vec<Change> {
    let first = |what: What| {
        move |outage: &Outage| Change { at: Time::ZERO + outage.start, what, outage: *outage, fails: true }
    };
    let links = model.links.iter().enumerate().filter(|(_, link)| link.present);
    let links = links.flat_map(|(place, link)| link.outages.iter().map(first(What::Link(place as u8))));
    let nodes = model.node_outages.iter().flat_map(|one| one.outages.iter().map(first(What::Node(one.node))));
    links.chain(nodes).collect()
}
