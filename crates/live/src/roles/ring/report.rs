//! What a ring's node tells: events to the log, and its part of the status.

use super::RingNode;
use super::neighbour::{Neighbour, name};
use crate::config::Ring;
use crate::quantity::show_rate;
use crate::status::{
    Counters, RingFairStatus, RingLimitStatus, RingLinkStatus, RingNetworkStatus, RingStationStatus, RingStatus,
    RingletStatus, State, Status,
};
use fairspan_core::ring::discovery::REASONS;
use fairspan_core::ring::node::Event;
use fairspan_core::ring::protection::Protection;
use fairspan_core::ring::topology::UNIT_WEIGHT;
use fairspan_core::ring::{NodeId, Ringlet, Side};
use fairspan_core::units::Rate;

impl RingNode {
    /// Fills in what there is to tell, now.
    pub(super) fn tell(&self, status: &mut Status) {
        let counters = &mut status.counters;
        counters.insert("host_no_node".into(), self.counters.host_no_node);
        counters.insert("spoofed_source".into(), self.counters.spoofed);
        counters.insert("ring_not_ip".into(), self.counters.not_ip);
        counters.insert("wrong_link".into(), self.counters.wrong_link);
        counters.insert("odd_announcement".into(), self.counters.odd_announcement);
        counters.insert("refused_network".into(), self.counters.refused_network);
        self.host.count(counters);
        self.transport.count(counters);
        status.listen_port = self.config.interface.listen_port;
        status.ring = Some(self.ring_status());
    }

    fn ring_status(&self) -> RingStatus {
        let ring = &self.settings;
        let stations: Vec<_> = (0..ring.nodes).map(|node| self.station_status(NodeId::at(node))).collect();
        RingStatus {
            node: ring.node.number(),
            nodes: ring.nodes,
            nominal_mbit: mbit(ring.rate),
            algorithm: ring.algorithm.to_string(),
            interval_ms: ring.interval.as_secs_f64() * 1e3,
            protection: match ring.protection {
                Protection::Steer => "steer",
                Protection::Wrap => "wrap",
            }
            .into(),
            weight: weight(ring.weight),
            whole: stations.iter().all(|station| station.east_up && station.west_up),
            counters: self.node_counters(),
            links: self.neighbours.iter().flatten().map(|neighbour| self.link_status(neighbour)).collect(),
            stations,
            ringlets: Ringlet::BOTH.map(|ringlet| self.ringlet_status(ringlet)).into(),
        }
    }

    fn node_counters(&self) -> Counters {
        let mut counters: Counters = self.node.stats().each().map(|(name, n)| (name.to_owned(), n)).collect();
        if let Some(discovery) = self.node.discovery().map(|discovery| discovery.stats()) {
            counters.extend(discovery.each().map(|(name, n)| (format!("discovery_{name}"), n)));
            counters.extend(REASONS.iter().zip(discovery.refused).map(|(name, n)| (format!("refused_{name}"), n)));
        }
        counters
    }

    fn link_status(&self, neighbour: &Neighbour) -> RingLinkStatus {
        let side = neighbour.side;
        let state = match neighbour {
            _ if self.node.is_up(side) => State::Up,
            n if n.failed || n.starved => State::Failed,
            n if n.connected => State::Down,
            _ => State::Connecting,
        };
        let owner = neighbour.owner();
        let remote = neighbour.carrier.and_then(|carrier| self.transport.sockets.show_remote(carrier, owner));
        let trouble = |carrier| self.transport.trouble(carrier, neighbour.failed);
        RingLinkStatus {
            side: neighbour.name().into(),
            neighbour: neighbour.node.number(),
            kind: neighbour.carrier.map_or("udp", |carrier| carrier.kind()).into(),
            state,
            reason: if neighbour.connected { None } else { neighbour.carrier.and_then(trouble) },
            remote,
            rate_mbit: mbit(neighbour.capacity),
            overhead: neighbour.overhead(),
            mtu: neighbour.packet_mtu(),
            counters: neighbour.counters.each().map(|(name, n)| (name.to_owned(), n)).collect(),
        }
    }

    fn station_status(&self, node: NodeId) -> RingStationStatus {
        let topology = self.node.topology();
        let [east, west] = Side::BOTH.map(|side| topology.way(node, side.ringlet()));
        let own = self.settings.node;
        RingStationStatus {
            number: node.number(),
            east_up: east.up,
            west_up: west.up,
            east_mbit: mbit(east.capacity),
            west_mbit: mbit(west.capacity),
            weight: weight(topology.weight(node)),
            reachable: node == own || topology.route(own, node).is_some(),
            networks: self
                .stations
                .networks(node)
                .map(|(net, learnt)| RingNetworkStatus { network: net.to_string(), learnt })
                .collect(),
            refused: self.stations.refused(node).map(|net| net.to_string()).collect(),
        }
    }

    fn ringlet_status(&self, ringlet: Ringlet) -> RingletStatus {
        let own = self.settings.node;
        let nodes = || (0..self.settings.nodes).map(NodeId::at);
        let topology = self.node.topology();
        let fair = |node: NodeId| {
            let share = self.node.fair(ringlet, node)?;
            Some(RingFairStatus {
                node: node.number(),
                share,
                byte: (share * 255.0).round() as u8,
                rate_mbit: share * mbit(self.settings.rate),
            })
        };
        let limit = |to: NodeId| {
            let backlog_bytes = self.node.backlog(ringlet, to).as_u64();
            let used = topology.route(own, to).is_some_and(|route| route.ringlet == ringlet);
            (to != own && (used || backlog_bytes > 0)).then(|| RingLimitStatus {
                to: to.number(),
                rate_mbit: self.node.limit(ringlet, to).map(mbit),
                backlog_bytes,
            })
        };
        RingletStatus {
            ringlet: ringlet.index() as u8,
            fair: nodes().filter_map(fair).collect(),
            limits: nodes().filter_map(limit).collect(),
        }
    }
}

fn mbit(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64 / 1e6
}

fn weight(thousandths: u32) -> f64 {
    f64::from(thousandths) / f64::from(UNIT_WEIGHT)
}

/// A line in the log for a change in the ring.
pub(super) fn log_event(ring: &Ring, event: &Event) {
    let link = |side: &Side| (name(*side), ring.neighbour(*side).number());
    match event {
        Event::Link { side, up: true } => {
            let (link, node) = link(side);
            tracing::info!(link, node, "link up");
        }
        Event::Link { side, up: false } => {
            let (link, node) = link(side);
            tracing::warn!(link, node, "link down");
        }
        Event::Topology => tracing::debug!("the ring has changed"),
        Event::Announcement => tracing::debug!("a node tells something else of its networks"),
        Event::Refused { side, reason } => {
            let (link, node) = link(side);
            tracing::debug!(link, node, %reason, "a message about fair rates is refused");
        }
        Event::Control { side, reason } => {
            let (link, node) = link(side);
            tracing::warn!(link, node, %reason, "control frames are refused");
        }
        Event::Overbooked { side, reserved, capacity } => {
            let (link, node) = link(side);
            let (reserved, capacity) = (show_rate(*reserved), show_rate(*capacity));
            tracing::warn!(
                link,
                node,
                reserved,
                capacity,
                "more is reserved than the link carries: nothing is left to share"
            );
        }
        other => tracing::info!(event = ?other, "ring"),
    }
}
