//! Distributed virtual-time scheduling in rings: every link's fair rate from byte counts, in one message that circles.
//!
//! Source: rings paper, V; Table I and equations (8), (9) with the errata.
//!
//! | symbol | here |
//! |---|---|
//! | l_i | `arrivals`, by ingress: [`Meter`] |
//! | T | the time since the last computation, about `interval` |
//! | b | 1 while transit waits, else what the loads fill |
//! | F^n | the node's rate in the message: [`fair_rate`] |
//! | rho_ij | `limits`: [`Suballocator`] |
//!
//! At every message the node measures, puts in its own F, and sets the limiters of its flows at once.
//!
//! Departures, and why:
//! - Counts are taken over windows that grow while a source is steady (see [`super::estimate`]): one T is too few packets.
//! - The node's own load is what its flows would send if the multiplexer let them in, since it makes them wait while transit is
//!   before them; else a queue would tell of little demand where there is most.
//! - Capacity is C less what the other ringlet's control messages take of it, less `spare`: limited flows fill a link exactly, and
//!   what queued while they converged would stay for ever.
//!   While more than a few packets of each ingress wait in transit, up to 0.3 % more is held back.
//! - F is for an ingress of the least weight of the ring, as a share of the nominal rate: unlike links and weights need
//!   no table. The heaviest ingress thus reaches all of a link too.
//! - With `start`, a link that comes up gives each ingress its least part, C over all weights, for so many intervals: with 3 all have been counted
//!   once round the ring. Else all would flood before the first message is round, and fill transit queues from end to end.
//! - With `start` too: while transit waits, an ingress that was counted meanwhile and is not any more counts as held back on its way, not as one that
//!   stopped. Else the others are given its part, and the queue that shuts it out stays.
//! - A message that comes within half an interval of the last computation is passed on with the rate as it is: whoever
//!   sends many does not shorten the counts.
//!
//! Cost: per packet an array addition. Per interval see `benches/ring.rs`.
//!
//! Invariants: F >= C/N; a node's limits are set from messages that were not refused, and from its own F.

use super::circulation::Circulation;
use super::estimate::Meter;
use super::fair_rate::{Load, fair_rate};
use super::fairness::{Fairness, Refused, View};
pub use super::message::Bits;
use super::message::Kind;
use super::suballocation::Suballocator;
use super::{NodeId, Ringlet};
use crate::options::{Kind as Takes, Share, Table, Words, option, words};
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// How a node shares its rate on a link among its own flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suballocation {
    /// Max-min over each flow's path; what a flow does not want, its siblings get.
    #[default]
    MaxMin,
    /// Equation (9): equal parts at each link.
    Equal,
}

words!(Suballocation { MaxMin = "max-min", Equal = "equal" });

/// Settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Size of a fair rate in control messages.
    pub bits: Bits,
    /// How a node shares its rate among its own flows.
    pub suballocation: Suballocation,
    /// Most intervals over which a steady rate is measured.
    pub window: u32,
    /// Share of a link that is not given away.
    pub spare: Share,
    /// Intervals for which a link that comes up gives each ingress its least part.
    pub start: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            bits: Bits::default(),
            suballocation: Suballocation::default(),
            window: 256,
            spare: Share::from_millionths(100),
            start: 0,
        }
    }
}

/// The options.
#[rustfmt::skip]
pub const OPTIONS: Table<Config> = Table(&[
    option!(bits: Takes::Choice(Bits::WORDS), "size of a fair rate in control messages"),
    option!(suballocation: Takes::Choice(Suballocation::WORDS), "how a node shares its rate on a link among its flows to several nodes: what each can use, or equal parts whether used or not"),
    option!(window: Takes::Count(1, 1024, None), "most intervals over which a steady rate is measured; 1: the last interval alone"),
    option!(spare: Takes::Share(Share::from_millionths(0), Share::from_millionths(100_000)), "share of a link that is not given away, so that queues drain"),
    option!(start: Takes::Count(0, 16, None), "intervals for which a link that comes up gives each node its least part; 0: all of it from the first instant, as in the paper"),
]);

/// Bits per second of a byte per nanosecond.
const BITS: f64 = 8e9;
/// Intervals in which a transit queue drains, if it is short. In the paper's parking lot 1 to 20 come to the same, since [`MOST_DRAIN`] bounds
/// them; with 40 limiters follow the queue packet by packet, to and fro.
const DRAIN: u64 = 10;
/// Loads of so many times a link's capacity are much too much. With 1 to 1.2 parking lots converge within a round of a cold start; from 1.3
/// on in three to five, since what their sources send while others are in their way counts as what they want.
const OVERLOAD: f64 = 1.1;
/// The most of a link that is held back for that: limiters stay within a percent of where they belong.
const MOST_DRAIN: f64 = 0.003;

/// DVSR for one ringlet at one node.
#[derive(Clone, Debug)]
pub struct Dvsr {
    node: NodeId,
    ringlet: Ringlet,
    suballocation: Suballocation,
    bits: Bits,
    /// 1 less the spare share.
    given: f64,
    circulation: Circulation,
    /// At the multiplexer of the outgoing link, by ingress.
    arrivals: Meter,
    /// From the host, by egress.
    offered: Meter,
    /// By node; the lightest has 1.
    weights: Vec<f64>,
    loads: Vec<Load>,
    suballocator: Suballocator,
    /// By links downstream, in bytes per nanosecond.
    shares: Vec<f64>,
    demands: Vec<f64>,
    limits: Vec<f64>,
    draining: bool,
    /// Whether an ingress was counted while transit waited.
    waited: Vec<bool>,
    /// Which nodes' links of the ringlet were up when it looked last.
    up: Vec<bool>,
    /// For so long a link that comes up gives its least part, and until when this node's does.
    start: Span,
    begins_until: Time,
    /// The last of its fair rates: a rate takes up to an interval to get to a source, and its packets as long to get here, so what
    /// is measured may have been held at any of these.
    held: [f64; 3],
    weighed: bool,
}

impl Dvsr {
    /// For the data of `ringlet` at `node` of a ring of `nodes`; a message every `interval`.
    pub fn new(config: &Config, node: NodeId, ringlet: Ringlet, nodes: usize, interval: Span, now: Time) -> Dvsr {
        let links = nodes.saturating_sub(1);
        Dvsr {
            node,
            ringlet,
            suballocation: config.suballocation,
            bits: config.bits,
            given: 1.0 - config.spare.as_f64(),
            circulation: Circulation::new(Kind::Dvsr, config.bits, node, ringlet, nodes, interval, now),
            arrivals: Meter::new(nodes, config.window, now),
            offered: Meter::new(links, config.window, now),
            weights: alloc::vec![1.0; nodes],
            loads: Vec::with_capacity(nodes),
            suballocator: Suballocator::new(nodes),
            shares: alloc::vec![f64::INFINITY; links],
            demands: alloc::vec![0.0; links],
            limits: alloc::vec![f64::INFINITY; links],
            draining: false,
            waited: alloc::vec![false; nodes],
            up: alloc::vec![false; nodes],
            start: interval.times(config.start.into()),
            begins_until: now,
            held: [f64::INFINITY; 3],
            weighed: false,
        }
    }

    fn weigh(&mut self, view: &View<'_>) {
        self.weighed = true;
        let weight = |index| view.topology.weight(NodeId::at(index)).max(1);
        let lightest = (0..self.weights.len()).map(weight).min().unwrap_or(1);
        for (index, relative) in self.weights.iter_mut().enumerate() {
            *relative = f64::from(weight(index)) / f64::from(lightest);
        }
    }

    /// Looks at the topology: weights, and links that came up since. Those begin with what they can give to everybody at once.
    fn look(&mut self, now: Time, view: &View<'_>) {
        self.weigh(view);
        let all = self.weights.iter().sum::<f64>() * view.nominal.as_bits_per_sec() as f64;
        for (index, was_up) in self.up.iter_mut().enumerate() {
            let (node, here) = (NodeId::at(index), index == self.node.index());
            let way = view.topology.way(node, self.ringlet);
            let came_up = way.up && !*was_up;
            *was_up = way.up;
            if came_up && self.start > Span::ZERO {
                let capacity = if here { view.capacity } else { way.capacity };
                self.circulation.begin(node, capacity.as_bits_per_sec() as f64 / all);
                if here {
                    self.begins_until = now + self.start;
                }
            }
        }
    }

    /// Measures what came since the last time, if that is long enough ago.
    fn measure(&mut self, now: Time, view: &View<'_>) {
        if now.since(self.arrivals.measured_at()).times(2) < self.circulation.interval() {
            return;
        }
        self.arrivals.measure(now);
        let largest = match self.arrivals.largest(self.node.index()) {
            0 => 1500,
            bytes => bytes,
        };
        let (mut egress, nodes) = (self.node.index(), self.weights.len());
        for (hops, demand) in self.demands.iter_mut().enumerate() {
            egress = self.ringlet.onward(egress, nodes);
            let station = view.station.get(egress).copied().unwrap_or_default();
            self.offered.set_total(hops, station.offered, largest);
            *demand = if station.waiting > 2 * u64::from(largest) { f64::INFINITY } else { 0.0 };
        }
        self.offered.measure(now);
        for (demand, estimate) in self.demands.iter_mut().zip(self.offered.estimates()) {
            *demand = demand.max(estimate.rate);
        }
    }

    /// Computes this node's F from what was measured last. // rings Table I
    fn compute(&mut self, now: Time, view: &View<'_>) {
        let nominal = view.nominal.as_bits_per_sec() as f64 / BITS;
        let quantum = 2.0 / f64::from(self.bits.whole()) * nominal;
        let own: f64 = self.demands.iter().zip(&self.limits).map(|(demand, limit)| demand.min(*limit)).sum();
        let line = view.capacity.as_bits_per_sec() as f64 / BITS;
        let (here, estimates) = (self.node.index(), self.arrivals.estimates());
        let own = estimates[here].rate.max(own.min(line));
        let sum = self.arrivals.total() - estimates[here].rate + own;
        // Sources that change on a link with much too much to carry change because of that, or others on their way keep
        // them from it: what they sent in this interval is not what they want.
        let overloaded = sum > OVERLOAD * line;
        let mut packets = 0;
        self.loads.clear();
        for (index, (estimate, weight)) in estimates.iter().zip(&self.weights).enumerate() {
            let (rate, unsure) = if index == here {
                (own, false)
            } else {
                let shut_out = self.start > Span::ZERO && self.waited[index] && estimate.rate <= 0.0;
                (estimate.rate, overloaded && estimate.fresh || shut_out)
            };
            // Where an interval has less than a packet of a source, one without is no sign that it stopped.
            if rate > 0.0 || unsure || index != here && estimate.tolerance > 0.0 {
                packets += if rate > 0.0 || unsure { u64::from(self.arrivals.largest(index)) } else { 0 };
                let tolerance = if unsure { f64::INFINITY } else { estimate.tolerance + quantum * weight };
                self.loads.push(Load { rate, tolerance, weight: *weight });
            }
        }
        // Below where stations have to wait, which is a quarter of the room: a queue that shuts them out counts as one, however many they are.
        let most = if self.start > Span::ZERO { view.transit_limit * 3 / 16 } else { view.transit_limit / 4 };
        self.draining = view.transit > (packets * if self.draining { 2 } else { 4 }).min(most);
        for (waited, estimate) in self.waited.iter_mut().zip(estimates) {
            *waited = self.draining && (*waited || estimate.rate > 0.0);
        }
        let control = self.circulation.frame_length() as f64 / self.circulation.interval().as_nanos() as f64;
        let mut capacity = (line * self.given - control).max(line / 2.0);
        if self.draining {
            let excess = view.transit.saturating_sub(packets.min(most)) as f64;
            let within = self.circulation.interval().times(DRAIN).as_nanos() as f64;
            capacity -= (excess / within).min(line * MOST_DRAIN);
        }
        let mut rate =
            fair_rate(&mut self.loads, capacity, self.draining, self.held.into_iter().fold(f64::INFINITY, f64::min));
        if now < self.begins_until {
            rate = rate.min(line / self.weights.iter().sum::<f64>());
        }
        // What messages do not show changes nothing.
        if (rate - self.held[0]).abs() > quantum {
            let (was, own) = (self.held[0], self.node.index());
            for (index, weight) in self.weights.iter().enumerate().filter(|(index, _)| *index != own) {
                self.arrivals.expect(index, was * weight, rate * weight);
            }
        }
        self.held = [rate, self.held[0], self.held[1]];
        self.circulation.set_share(rate / nominal);
    }

    /// Sets the limits of the node's flows by the rates of all links as they are known.
    fn limit_flows(&mut self, view: &View<'_>) {
        let nominal = view.nominal.as_bits_per_sec() as f64 / BITS * self.weights[self.node.index()];
        let scale = nominal / f64::from(self.bits.whole());
        let mut at = self.node.index();
        for share in &mut self.shares {
            let line = view.topology.way(NodeId::at(at), self.ringlet).capacity.as_bits_per_sec() as f64 * (1.0 / BITS);
            *share = (f64::from(self.circulation.code(NodeId::at(at))) * scale).min(line);
            at = self.ringlet.onward(at, self.weights.len());
        }
        let (shares, demands, limits) = (&self.shares, &self.demands, &mut self.limits);
        match self.suballocation {
            Suballocation::MaxMin => self.suballocator.max_min(shares, demands, limits),
            Suballocation::Equal => self.suballocator.equal(shares, demands, limits),
        }
    }

    /// The first that it sees of the ring.
    fn begin(&mut self, now: Time, view: &View<'_>) {
        if !self.weighed {
            self.look(now, view);
            self.limit_flows(view);
        }
    }

    fn act(&mut self, now: Time, view: &View<'_>) {
        self.measure(now, view);
        self.compute(now, view);
        self.limit_flows(view);
    }
}

impl Fairness for Dvsr {
    #[inline]
    fn on_arrival(&mut self, now: Time, ingress: NodeId, bytes: u32) {
        self.arrivals.count(now, ingress.index(), bytes);
    }

    #[inline]
    fn on_sent(&mut self, _: Time, _: NodeId, _: NodeId, _: u32) {}

    fn handle_control(&mut self, now: Time, view: &View<'_>, message: &[u8]) -> Result<(), Refused> {
        self.begin(now, view);
        let goes_on = self.circulation.receive(now, view.topology, message)?;
        self.act(now, view);
        self.circulation.answer(now, goes_on);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, view: &View<'_>) {
        self.begin(now, view);
        if self.circulation.handle_timeout(now, view.topology) {
            self.act(now, view);
            self.circulation.answer(now, false);
        }
    }

    fn handle_change(&mut self, now: Time, view: &View<'_>) {
        self.circulation.handle_change(now, view.topology);
        self.look(now, view);
        self.act(now, view);
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.circulation.poll_timeout())
    }

    fn poll_control(&mut self) -> Option<&[u8]> {
        self.circulation.poll()
    }

    fn limit(&self, egress: NodeId) -> Option<Rate> {
        let nodes = self.weights.len();
        let hops = match self.ringlet {
            Ringlet::Zero => egress.index() + nodes - self.node.index(),
            Ringlet::One => self.node.index() + nodes - egress.index(),
        };
        let limit = *self.limits.get((hops % nodes).checked_sub(1)?)?;
        limit.is_finite().then(|| Rate::from_bits_per_sec((limit * BITS) as u64))
    }
    fn fair(&self, node: NodeId) -> Option<f64> {
        (node.index() < self.weights.len()).then(|| self.circulation.share(node))
    }
}
