//! What a ring has to tell: drops by place and reason, series, and the result of a run.

use super::life::changes;
use super::watch::{Limit, Window, effect};
use super::{CUT, FAILED, Ring, UNTOLD, link_of};
use crate::model::{Hop, Scenario};
use crate::results::{ControlResult, Dropped, Refusals, RingLinkResult, RingResult};
use fairspan_core::ring::algorithm::Algorithm;
use fairspan_core::ring::node::Stats;
use fairspan_core::ring::topology::Topology;
use fairspan_core::ring::{NodeId, Ringlet};
use std::collections::BTreeSet;

impl Ring {
    /// Packets dropped, by place and reason, nodes by their names.
    pub(crate) fn dropped(&self) -> Vec<Dropped> {
        let mut list = Vec::new();
        let mut count = |place: &dyn Fn() -> String, reason: &str, packets: u64| {
            if packets > 0 {
                list.push(Dropped { place: place(), reason: reason.to_owned(), packets });
            }
        };
        let name = &self.model.name;
        for (station, node) in self.stations.iter().zip(&self.names) {
            let place = || format!("{name}: {node}");
            for ((reason, _), packets) in Stats::default().drops().iter().zip(station.dropped) {
                count(&place, reason, packets);
            }
            count(&place, FAILED, station.failed);
        }
        for (number, way) in self.ways.iter().enumerate() {
            let link = self.way_name(number);
            count(&|| format!("{name}: link {link}"), CUT, way.lost);
        }
        list
    }

    /// What a way is called: its link's number, and the ringlet where that is not 0.
    fn way_name(&self, number: usize) -> String {
        let ringlet = Ringlet::BOTH[number % 2];
        let link = link_of(number / 2, ringlet, self.stations.len()) + 1;
        if ringlet == Ringlet::Zero { link.to_string() } else { format!("{link}/1") }
    }

    /// Control frames that nodes refused. Not every one is told by a node that refuses many.
    fn refused(&self) -> Vec<Refusals> {
        let mut list = self.control.refused.clone();
        let alive = self.stations.iter().filter_map(|station| station.node.as_ref());
        let all = self.control.refused_before + alive.map(|node| node.stats().control_refused).sum::<u64>();
        let told: u64 = list.iter().map(|refused| refused.messages).sum();
        if all > told {
            list.push(Refusals { reason: UNTOLD.into(), messages: all - told });
        }
        list
    }

    /// Names of its series, with their units; whether each is a level.
    pub(crate) fn series(&self) -> impl Iterator<Item = (String, &'static str, bool)> + '_ {
        let name = &self.model.name;
        let limits =
            self.limits.list.iter().map(move |limit| (format!("ring {name} limit {}", limit.name), "bit/s", true));
        let used = self.present();
        limits
            .chain(used.map(move |way| (format!("ring {name} link {} throughput", self.way_name(way)), "bit/s", false)))
    }

    /// Values of its series now.
    pub(crate) fn sample(&self) -> impl Iterator<Item = f64> + '_ {
        let limits = self.limits.list.iter().map(Limit::value);
        limits.chain(self.present().map(|way| self.ways[way].carried as f64 * 8.0))
    }

    fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ways.len()).filter(|way| self.ways[*way].is_present())
    }

    /// The result of the measured time, which ends now.
    pub(crate) fn result(&mut self) -> RingResult {
        let (window, nominal) = (self.window, self.nominal.as_bits_per_sec() as f64);
        let nanos = (window.until.since(window.from).as_nanos() as f64).max(1.0);
        let link = |number: usize| {
            let (way, ringlet) = (&self.ways[number], Ringlet::BOTH[number % 2]);
            let meter = way.meter;
            RingLinkResult {
                name: self.way_name(number),
                link: link_of(number / 2, ringlet, self.stations.len()) as u8 + 1,
                ringlet: ringlet.index() as u8,
                packets: meter.packets,
                bytes: meter.bytes,
                load: meter.busy as f64 / nanos,
                control_load: meter.control_busy as f64 / nanos,
                control: meter.control,
                transit_max: self.stations[number / 2].transit_max[ringlet.index()],
                ahead_max: way.rate().bytes_in(meter.ahead).as_u64(),
            }
        };
        let links = self.present().map(link).collect();
        let limits = self.limits.list.iter_mut().map(|limit| limit.result(window, nominal)).collect();
        let control = &self.control;
        RingResult {
            name: self.model.name.clone(),
            algorithm: self.model.algorithm.to_string(),
            nominal,
            interval_s: self.model.interval.as_secs_f64(),
            limits,
            links,
            control: ControlResult {
                sent: control.sent,
                copies: control.copies,
                taken: control.taken,
                corrupted: control.corrupted,
                lost: control.lost,
                unheard: control.unheard,
                in_flight: self.ways.iter().map(|way| way.in_flight().1).sum(),
                refused: self.refused(),
            },
            dropped: self.dropped(),
            restored_s: self.failures.restored(),
            events: std::mem::take(&mut self.failures.events),
        }
    }
}

/// The limiters between nodes that flows join, by node.
pub(super) fn limits(scenario: &Scenario, number: usize, whole: &Topology, window: Window) -> Vec<Limit> {
    let model = &scenario.rings[number];
    if model.algorithm == Algorithm::Fifo {
        return Vec::new();
    }
    let fails = !changes(model).is_empty();
    let mut pairs = BTreeSet::new();
    for hop in scenario.flows.iter().flat_map(|flow| flow.path.iter().chain(&flow.back)) {
        let Hop::Ring(ring, way) = *hop else { continue };
        if ring as usize != number || usize::from(way.from.max(way.to)) >= model.nodes.len() {
            continue;
        }
        let usual = whole.route(NodeId::at(way.from.into()), NodeId::at(way.to.into())).map(|route| route.ringlet);
        for ringlet in Ringlet::BOTH {
            if way.ringlet.or(usual) == Some(ringlet) || fails {
                pairs.insert((way.from, way.to, ringlet, usual == Some(ringlet)));
            }
        }
    }
    let count = pairs.len();
    let limit = |(from, to, ringlet, usual): (u8, u8, Ringlet, bool)| {
        let pair = format!("{}-{}", u16::from(from) + 1, u16::from(to) + 1);
        let name = if usual { pair } else { format!("{pair}/{}", ringlet.index()) };
        let link = whole.way(NodeId::at(from.into()), ringlet).capacity;
        Limit::new(name, [from, to], ringlet, effect(None, link), window, count)
    };
    pairs.into_iter().map(limit).collect()
}
