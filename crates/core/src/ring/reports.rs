//! What the nodes of a ring tell of themselves, how that spreads, and the topology that comes of it.
//!
//! Source: IEEE 802.17, clause 11 (topology discovery): every station keeps what all stations told last. How reports are told apart follows
//! link-state routing (ISO/IEC 10589, 7.3): the larger sequence number is the newer, and who hears a newer report in
//! its own name than it ever sent goes beyond it.
//!
//! | rule | why |
//! |---|---|
//! | a report goes out both ways round; who takes it sends it on as it travels, who has it does not | N to 2 N frames for all |
//! | of one instance a larger sequence number is taken, less than 2^32 ahead | a forged one cannot use up the numbers |
//! | of two that differ under one number every node takes the same | it reaches the node itself, which outdoes it |
//! | another instance is taken if a neighbour hears it, or hears the old one no more | a second node with a taken number is refused, a restarted one is not |
//! | who is told something older than it knows tells what it knows | what was forged or lost at one node is mended by the next |
//! | what was not told again for three and a half times as long as it is told is forgotten | |
//! | a link is up if both ends say so and mean one another, or one does and nothing is known of the other | all compute the same |
//! | who hears a neighbour anew tells it all reports | rings that join are one at once |
//!
//! Departures: a link is up or down both ways, as 802.17's spans. Reservations go with the route: a rate is reserved on the
//! links that its packets cross, so that it moves when they are steered.
//!
//! Cost: constant for a report, where nobody reserves anything; else linear in nodes and the hops of all reservations. Memory: one
//! report a node. Invariant: equal reports at two nodes give equal topologies.

use super::control::{Link, Report, Reservation};
use super::refusal::Refused;
use super::topology::{Route, Topology, UNIT_WEIGHT, Way};
use super::{Class, NodeId, Ringlet, Side};
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// How far ahead of the one that is known a sequence number may be.
pub(super) const AHEAD: u64 = 1 << 32;
/// So many reports may come by the short way while one comes by the long way; what is further behind is played again.
const LATE: u64 = 32;
/// Sequence numbers stay below; a node that gets there begins anew as another instance.
pub(super) const MOST: u64 = 1 << 48;

/// What every node told last.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    entries: Vec<Option<Box<Entry>>>,
    /// Of which nodes the report is to be sent over the links east and west, a bit each.
    pending: [[u64; 4]; 2],
    /// Whether anybody ever reserved anything.
    reserving: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    report: Report,
    told: Time,
}

/// What became of a report that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was known, or a newer one.
    Known,
    /// It is newer, and says the same.
    Renewed,
    /// It says something else.
    Changed,
}

impl Reports {
    pub(super) fn new(nodes: usize) -> Reports {
        Reports { entries: (0..nodes).map(|_| None).collect(), pending: [[0; 4]; 2], reserving: false }
    }

    pub(super) fn of(&self, node: NodeId) -> Option<&Report> {
        self.entries.get(node.index())?.as_ref().map(|entry| &entry.report)
    }

    /// The node's own report from now on, to be sent when it is flooded.
    pub(super) fn set_own(&mut self, now: Time, report: Report) {
        let at = report.node.index();
        self.unmark(at);
        self.reserving |= !report.reservations.is_empty();
        self.entries[at] = Some(Box::new(Entry { report, told: now }));
    }

    /// The node's own report says the same under another number.
    pub(super) fn renew_own(&mut self, now: Time, node: NodeId, sequence: u64) {
        if let Some(entry) = &mut self.entries[node.index()] {
            entry.told = now;
            entry.report.sequence = sequence;
        }
    }

    /// The report of `node` is to be sent over both links.
    pub(super) fn flood(&mut self, node: NodeId) {
        for side in Side::BOTH {
            self.mark(side, node.index());
        }
    }

    fn mark(&mut self, side: Side, at: usize) {
        self.pending[side.index()][at / 64] |= 1 << (at % 64);
    }

    fn unmark(&mut self, at: usize) {
        self.pending.iter_mut().for_each(|pending| pending[at / 64] &= !(1 << (at % 64)));
    }

    /// Another node's report, from `side`.
    pub(super) fn take(&mut self, now: Time, side: Side, mut report: Report) -> Result<Taken, Refused> {
        let at = report.node.index();
        let mut taken = Taken::Changed;
        if report.sequence >= MOST {
            return Err(Refused::Stale);
        }
        match self.of(report.node) {
            None => {}
            Some(known) if known.instance == report.instance => {
                let order = report.sequence.cmp(&known.sequence).then_with(|| said(&report).cmp(&said(known)));
                let (ahead, behind) =
                    (report.sequence.saturating_sub(known.sequence), known.sequence.saturating_sub(report.sequence));
                match order {
                    Ordering::Equal => return Ok(Taken::Known),
                    Ordering::Less if (1..LATE).contains(&behind) => return Ok(Taken::Known),
                    Ordering::Less => {
                        self.answer(side, at);
                        return Err(Refused::Stale);
                    }
                    Ordering::Greater if ahead >= AHEAD => return Err(Refused::Stale),
                    Ordering::Greater if same(known, &report) => taken = Taken::Renewed,
                    Ordering::Greater => {}
                }
            }
            Some(known) => {
                let heard = |instance| self.is_heard(report.node, instance);
                if heard(known.instance) && !heard(report.instance) {
                    self.answer(side, at);
                    return Err(Refused::Taken { node: report.node });
                }
            }
        }
        report.ttl = report.ttl.min(self.entries.len() as u8).saturating_sub(1);
        self.unmark(at);
        if report.ttl > 0 {
            self.mark(side.other(), at);
        }
        self.reserving |= !report.reservations.is_empty();
        self.entries[at] = Some(Box::new(Entry { report, told: now }));
        Ok(taken)
    }

    /// Whether a neighbour of `node` says that it hears this instance of it.
    fn is_heard(&self, node: NodeId, instance: u32) -> bool {
        let (at, nodes) = (node.index(), self.entries.len());
        let by = |neighbour: usize, side: Side| {
            let report = self.of(NodeId::at(neighbour % nodes));
            report.is_some_and(|report| report.links[side.index()].heard == Some(instance))
        };
        by(at + 1, Side::West) || by(at + nodes - 1, Side::East)
    }

    /// Everything is to be sent over the link at `side`, but what its neighbour told itself.
    pub(super) fn tell_all(&mut self, side: Side, neighbour: NodeId) {
        let nodes = self.entries.len();
        (0..nodes).filter(|&at| at != neighbour.index()).for_each(|at| self.answer(side, at));
    }

    /// Who is at `side` is told what is known of the node at this index, if anything is.
    fn answer(&mut self, side: Side, at: usize) {
        let nodes = self.entries.len();
        if let Some(entry) = &mut self.entries[at] {
            entry.report.ttl = nodes as u8;
            self.mark(side, at);
        }
    }

    /// A report to be sent over the link at `side`.
    pub(super) fn poll(&mut self, side: Side) -> Option<&Report> {
        let pending = &mut self.pending[side.index()];
        let word = pending.iter().position(|&word| word != 0)?;
        let at = word * 64 + pending[word].trailing_zeros() as usize;
        pending[word] &= pending[word] - 1;
        self.entries[at].as_ref().map(|entry| &entry.report)
    }

    /// Forgets what was told before `oldest`, except of `own`: whether there was any.
    pub(super) fn forget(&mut self, now: Time, age: Span, own: NodeId) -> bool {
        let mut any = false;
        for at in (0..self.entries.len()).filter(|&at| at != own.index()) {
            if self.entries[at].as_ref().is_some_and(|entry| now.since(entry.told) > age) {
                self.entries[at] = None;
                self.unmark(at);
                any = true;
            }
        }
        any
    }

    /// Brings `topology` and `reserved` to what the reports say, of which that of `one` is another now (`None`: several
    /// are): whether anything changed.
    pub(super) fn compute(
        &self,
        one: Option<NodeId>,
        nominal: Rate,
        assume: bool,
        topology: &mut Topology,
        reserved: &mut [Vec<Reserved>; 2],
    ) -> bool {
        let nodes = self.entries.len();
        let of = |at: usize| self.of(NodeId::at(at % nodes));
        let mut changed = false;
        // A report tells of the links on both sides of its node: those that begin there and one before.
        let links = one.map_or(0..nodes, |node| node.index() + nodes - 1..node.index() + nodes + 1);
        for at in links.map(|link| link % nodes) {
            let (node, next) = (NodeId::at(at), NodeId::at((at + 1) % nodes));
            let (near, far) = (of(at), of(at + 1));
            let up = agree(near, far, assume);
            let capacity =
                |report: Option<&Report>, side: Side| report.map_or(nominal, |r| r.links[side.index()].capacity);
            changed |= topology.set_way(node, Ringlet::Zero, Way { up, capacity: capacity(near, Side::East) });
            changed |= topology.set_way(next, Ringlet::One, Way { up, capacity: capacity(far, Side::West) });
            changed |= topology.set_weight(node, near.map_or(UNIT_WEIGHT, |report| report.weight));
        }
        if !self.reserving {
            return changed;
        }
        let mut sums = [alloc::vec![Reserved::default(); nodes], alloc::vec![Reserved::default(); nodes]];
        for report in (0..nodes).filter_map(of) {
            for one in &report.reservations {
                let mut add = |ringlet: Ringlet, at: NodeId| sums[ringlet.index()][at.index()].add(one.class, one.rate);
                match one.to {
                    Some(to) => {
                        if let Some(route) = topology.route(report.node, to) {
                            topology.along(report.node, route).for_each(|at| add(route.ringlet, at));
                        }
                    }
                    None => {
                        for ringlet in Ringlet::BOTH {
                            let all = Route { ringlet, hops: nodes };
                            topology.along(report.node, all).for_each(|at| add(ringlet, at));
                        }
                    }
                }
            }
        }
        changed |= *reserved != sums;
        *reserved = sums;
        changed
    }
}

/// Whether the link between two neighbours is up, `near` its western end.
fn agree(near: Option<&Report>, far: Option<&Report>, assume: bool) -> bool {
    let (east, west) = (near.map(|report| report.links[0]), far.map(|report| report.links[1]));
    let means = |link: Link, report: Option<&Report>| {
        link.heard.is_none() || report.is_none_or(|report| link.heard == Some(report.instance))
    };
    match (east, west) {
        (None, None) => assume,
        (east, west) => {
            east.is_none_or(|link| link.up && means(link, far)) && west.is_none_or(|link| link.up && means(link, near))
        }
    }
}

/// What a report says, whenever it was made.
fn said(report: &Report) -> (&[Link; 2], u32, &[Reservation], &[u8]) {
    (&report.links, report.weight, &report.reservations, &report.announcement)
}

/// Whether two reports of one instance say the same, whenever they were made.
pub(super) fn same(one: &Report, other: &Report) -> bool {
    said(one) == said(other)
}

/// What is reserved of one way of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// By class A.
    pub a: Rate,
    /// By class B.
    pub b: Rate,
}

impl Reserved {
    fn add(&mut self, class: Class, rate: Rate) {
        let sum = |old: Rate| Rate::from_bits_per_sec(old.as_bits_per_sec().saturating_add(rate.as_bits_per_sec()));
        match class {
            Class::A => self.a = sum(self.a),
            Class::B => self.b = sum(self.b),
            Class::C => {}
        }
    }
}

#[cfg(test)]
mod tests;
