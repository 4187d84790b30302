//! The fairness algorithm of IEEE 802.17 (RPR), in aggressive and conservative mode.
//!
//! A congested node tells its neighbour upstream a fair rate, in a control message every interval. Who sends through its
//! link throttles to that rate; who hears that nothing is congested grows again.
//!
//! Source: the rings paper (Gambiroza et al. 2004), section II-B to II-D, which describes draft 1.0 of the standard;
//! constants of IEEE 802.17, clause 10.2.2. [`config`] tells where each comes from.
//!
//! | paper, 802.17 | here |
//! |---|---|
//! | add_rate, lpAddRate | [`Rpr::add_rate`] |
//! | forward_rate, lpFwRate | [`Rpr::forward_rate`] |
//! | aging_interval | [`Config::aging`] |
//! | local_fair_rate\[n] | `fair` |
//! | allowed_rate\[i]\[j] | `allowed` |
//! | STQ_depth, STQ size | [`View::transit`], [`View::transit_limit`] |
//! | unreserved_rate, C | [`View::capacity`] |
//! | active stations | `seen` within the window |
//! | access timer | `starved` |
//!
//! What the descriptions leave open, and departures:
//! - A received rate sets the allowed rate, up as well as down, as in RFC 2892 and the standard; the paper only says that
//!   it reduces it. It holds for egresses beyond the congested node's link; the others grow.
//! - Rates in messages are for a weight of one: a node divides its own by its weight, a reader multiplies by its own. The
//!   forwarding rule compares forward_rate with the received rate times the ring's least weight, so that a node of little
//!   weight hears of congestion too. All weights being one, this is the paper's.
//! - An aggressive node whose station adds nothing would advertise 0 and stop everybody upstream. It divides its link among
//!   the active nodes instead; that is the case of a slower link behind a faster one.
//! - forward_rate + add_rate must exceed the capacity by more than one packet's count: an interval that is no multiple of
//!   a packet's time holds one packet more now and then, on a link that is full and not overloaded.
//! - The access timer is the aggressive mode's too: a transit queue that stops the station below the threshold would stop
//!   it for good.
//! - A node whose station waits counts as active itself, even if transit lets none of its packets through.
//! - A message whose origin is its reader, or the neighbour it would go to, has been all around the ring: it says nothing.
//! - A rate that is not renewed for ten intervals is forgotten, and so is the neighbour's sequence number: lost, forged or
//!   stale messages are over then.
//! - A conservative node waits for a round trip between two changes of its fair rate, as in the standard; the paper says
//!   "periodically". Changed every interval it falls far below what is fair before the filtered rates show it.
//!
//! Cost: a packet O(1); an interval O(nodes), and O(egresses in use) more for each congested node at hand.
//!
//! Invariants: limits are at most the link's capacity; no message without an interval's end; what a message says lasts ten
//! intervals at most.

mod allowed;
pub mod config;
#[cfg(test)]
mod line;
pub mod message;
mod meter;
#[cfg(test)]
mod tests;

pub use config::{AGGRESSIVE_OPTIONS, CONSERVATIVE_OPTIONS, Config, LEAST_INTERVAL, LONGEST_INTERVAL, Mode, Queue};

/// Bytes of a message.
pub(super) const MESSAGE: usize = LENGTH;

use self::allowed::Allowed;
use self::message::{LENGTH, Message, WHOLE};
use self::meter::Meter;
use super::fairness::{Fairness, Refused, View};
use super::topology::Topology;
use super::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// Intervals for which a message counts that no other one follows.
const LASTS: u64 = 10;
/// Most intervals that are made up for when the timer was late.
const MOST_LATE: u64 = 64;

/// What was heard of congestion downstream.
#[derive(Clone, Copy, Debug)]
struct Received {
    origin: NodeId,
    /// For a weight of one, in the message's unit.
    rate: u16,
    at: Time,
}

/// The intervals, once the ring's rate is known.
#[derive(Clone, Copy, Debug)]
struct Clock {
    aging: Span,
    advertisement: Span,
    /// The last interval's end.
    aged: Time,
    next_aging: Time,
    next_advertisement: Time,
}

/// The algorithm for one ringlet at one node.
#[derive(Clone, Debug)]
pub struct Rpr {
    mode: Mode,
    config: Config,
    node: NodeId,
    ringlet: Ringlet,
    nodes: usize,
    started: Time,
    clock: Option<Clock>,
    /// Intervals so far.
    tick: u64,
    add: Meter,
    forward: Meter,
    /// By node, the interval after that in which a packet of it left; 0: none did.
    seen: Vec<u64>,
    /// The station's last packet.
    sent: Time,
    /// The largest packet so far.
    largest: u32,
    /// Since when its packets have been waiting.
    waiting_since: Option<Time>,
    congested: bool,
    /// local_fair_rate for a weight of one, bit/s, while congested.
    fair: f64,
    /// When it was set last (conservative mode).
    changed: Time,
    received: Option<Received>,
    /// The neighbour's last sequence number, and when it came.
    heard: Option<(u32, Time)>,
    allowed: Allowed,
    sequence: u32,
    message: [u8; LENGTH],
    pending: bool,
    /// The nominal rate, bit/s, as last seen.
    nominal: f64,
}

impl Rpr {
    /// For the data of `ringlet` at `node` of a ring of `nodes` nodes, from `now` on. The standard fixes the interval of
    /// control messages; `interval` is not used.
    pub fn new(
        mode: Mode,
        config: &Config,
        node: NodeId,
        ringlet: Ringlet,
        nodes: usize,
        interval: Span,
        now: Time,
    ) -> Rpr {
        let _ = interval;
        Rpr {
            mode,
            config: config.clone(),
            node,
            ringlet,
            nodes,
            started: now,
            clock: None,
            tick: 0,
            add: Meter::default(),
            forward: Meter::default(),
            seen: alloc::vec![0; nodes],
            sent: now,
            largest: 0,
            waiting_since: None,
            congested: false,
            fair: 0.0,
            changed: now,
            received: None,
            heard: None,
            allowed: Allowed::new(nodes, !config.destination_queues),
            sequence: 0,
            message: [0; LENGTH],
            pending: false,
            nominal: 0.0,
        }
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether this node finds its outgoing link congested.
    pub fn is_congested(&self) -> bool {
        self.congested
    }

    /// The filtered rate of what the station added, bit/s.
    pub fn add_rate(&self) -> f64 {
        self.add.rate()
    }

    /// The filtered rate of what was forwarded in transit, bit/s.
    pub fn forward_rate(&self) -> f64 {
        self.forward.rate()
    }

    /// The intervals, from the first view on.
    fn clock(&mut self, now: Time, view: &View<'_>) -> Clock {
        self.nominal = view.nominal.as_bits_per_sec() as f64;
        let (aging, advertisement) = (self.config.aging(view.nominal), self.config.advertisement(view.nominal));
        match self.clock {
            Some(clock) if (clock.aging, clock.advertisement) == (aging, advertisement) => clock,
            _ => {
                let clock = Clock {
                    aging,
                    advertisement,
                    aged: now,
                    next_aging: now + aging,
                    next_advertisement: now + advertisement,
                };
                self.clock = Some(clock);
                self.allowed.cap(capacity(view));
                self.allowed.share(capacity(view));
                clock
            }
        }
    }

    /// How long a message counts.
    fn lasts(&self) -> Span {
        self.clock.map_or(LONGEST_INTERVAL, |clock| clock.advertisement.max(clock.aging)).times(LASTS)
    }

    /// The fair rate that was received, for a weight of one, bit/s, and whose it is.
    fn received(&self) -> Option<(NodeId, f64)> {
        self.received.map(|received| (received.origin, f64::from(received.rate) / WHOLE * self.nominal))
    }

    /// An aging interval of `seconds` ends.
    fn age(&mut self, now: Time, view: &View<'_>, seconds: f64, added: f64, forwarded: f64) {
        let (age, low_pass) = (f64::from(self.config.age_coef), f64::from(self.config.lp_coef));
        self.add.tick(added, seconds, age, low_pass);
        self.forward.tick(forwarded, seconds, age, low_pass);
        match self.mode {
            Mode::Aggressive => self.aggressive(now, view),
            Mode::Conservative => self.conservative(now, view),
        }
        self.allow(view);
    }

    /// II-C: congestion, and the rate that the station itself gets.
    fn aggressive(&mut self, now: Time, view: &View<'_>) {
        let threshold = self.config.queue_threshold.as_f64() * view.transit_limit as f64;
        let rate = self.add.rate() + self.forward.rate();
        let overloaded = rate > capacity(view) + self.grain(view);
        self.congested = view.transit as f64 > threshold || overloaded || self.starved(now);
        if self.congested {
            let own = self.add.rate() / weight(view.topology, self.node);
            let nothing = own * WHOLE < self.nominal;
            self.fair = if nothing { capacity(view) / self.active_weights(view) } else { own };
        }
    }

    /// What counting whole packets may add to a filtered rate: one packet more in an interval than the link really carries.
    fn grain(&self, view: &View<'_>) -> f64 {
        let coefficients = f64::from(self.config.age_coef) * f64::from(self.config.lp_coef);
        f64::from(self.largest) * 8.0 / (self.config.aging(view.nominal).as_secs_f64() * coefficients)
    }

    /// II-D: congestion, and the link divided among the active nodes, then up or down with the link's load.
    fn conservative(&mut self, now: Time, view: &View<'_>) {
        let capacity = capacity(view);
        let rate = self.add.rate() + self.forward.rate();
        let low = self.config.low_threshold.as_f64() * capacity;
        let before = self.congested;
        self.congested = rate > low || self.starved(now);
        if !self.congested {
            return;
        }
        let seen = now.since(self.changed) >= self.config.round_trip(view.nominal, self.nodes);
        if !before {
            self.fair = capacity / self.active_weights(view);
        } else if rate < low && seen {
            self.fair += (capacity - self.fair) / f64::from(self.config.ramp_up_coef);
        } else if rate > self.config.high_threshold.as_f64() * capacity && seen {
            self.fair -= self.fair / f64::from(self.config.ramp_down_coef);
        } else {
            return;
        }
        self.changed = now;
    }

    /// The sum of the weights of nodes that sent through this node's link lately, or want to; this node's own if none did.
    fn active_weights(&self, view: &View<'_>) -> f64 {
        let window = u64::from(self.config.active_window);
        let active = |seen: u64| seen > 0 && self.tick - (seen - 1) < window;
        let waits = |index: usize| index == self.node.index() && self.waiting_since.is_some();
        let sum: f64 = (self.seen.iter().enumerate())
            .filter(|(index, seen)| active(**seen) || waits(*index))
            .map(|(index, _)| weight(view.topology, NodeId::at(index)))
            .sum();
        if sum > 0.0 { sum } else { weight(view.topology, self.node) }
    }

    /// Whether packets of the station have been waiting for longer than the access timer, and than their limiter is for.
    fn starved(&self, now: Time) -> bool {
        let Some(since) = self.waiting_since else { return false };
        let waited = now.since(since.max(self.sent));
        let limit = self.allowed.slowest_hungry().unwrap_or(0.0);
        let could = limit * waited.as_secs_f64() / 8.0;
        waited > self.config.access_timer && could > 2.0 * f64::from(self.largest)
    }

    /// Sets what each egress is allowed: a fair rate where one holds, else more than before.
    fn allow(&mut self, view: &View<'_>) {
        let (capacity, weight) = (capacity(view), weight(view.topology, self.node));
        let ramp = f64::from(self.config.ramp_up_coef);
        // The aggressive node's own rate is what its scheduler leaves it.
        if self.mode == Mode::Conservative {
            if self.congested {
                self.allowed.hold_own((self.fair * weight).min(capacity));
            } else {
                self.allowed.grow_own(capacity, ramp);
            }
        }
        let received = self.received();
        for index in (0..self.nodes).filter(|index| *index != self.node.index()) {
            match received.filter(|(origin, _)| self.is_beyond(view.topology, NodeId::at(index), *origin)) {
                // It is held already, since the message came.
                Some((origin, rate)) => self.allowed.hold(index, origin, (rate * weight).min(capacity)),
                None => self.allowed.grow(index, capacity, ramp),
            }
        }
        self.allowed.share(capacity);
    }

    /// Whether packets to `egress` cross the link that leaves `origin`.
    fn is_beyond(&self, topology: &Topology, egress: NodeId, origin: NodeId) -> bool {
        let distance = |to| topology.distance(self.node, to, self.ringlet);
        distance(egress) > distance(origin)
    }

    /// II-B: what the neighbour upstream is to know.
    fn advertise(&mut self, view: &View<'_>) {
        // Messages travel against the data: over the other ringlet's way to the neighbour upstream.
        let upstream = view.topology.next(self.node, self.ringlet.other());
        if !view.topology.way(self.node, self.ringlet.other()).up || upstream == self.node {
            return;
        }
        let own = self.congested.then_some((self.node, self.fair));
        let told = match (own, self.received()) {
            (Some(own), Some(received)) => Some(if received.1 < own.1 { received } else { own }),
            (None, Some(received)) => {
                let least = (0..self.nodes).map(|index| view.topology.weight(NodeId::at(index))).min();
                let share = received.1 * f64::from(least.unwrap_or(super::topology::UNIT_WEIGHT).max(1)) / UNIT;
                Some(received).filter(|_| self.forward.rate() > share)
            }
            (own, None) => own,
        };
        let told = told.filter(|(origin, _)| *origin != upstream);
        let unit = |rate: f64| (rate / self.nominal.max(1.0) * WHOLE).clamp(1.0, WHOLE) as u16;
        self.sequence = self.sequence.wrapping_add(1);
        let message = Message {
            nodes: u8::try_from(self.nodes).unwrap_or(u8::MAX),
            origin: told.map_or(self.node, |(origin, _)| origin),
            sequence: self.sequence,
            rate: told.map(|(_, rate)| unit(rate)),
        };
        self.message = message.write();
        self.pending = true;
    }

    /// Forgets what nobody renews.
    fn expire(&mut self, now: Time) {
        let lasts = self.lasts();
        self.received = self.received.filter(|received| now.since(received.at) <= lasts);
        self.heard = self.heard.filter(|(_, at)| now.since(*at) <= lasts);
    }

    /// Whether `origin`'s messages can reach this node: every link from here to beyond it carries packets.
    fn hears(&self, topology: &Topology, origin: NodeId) -> bool {
        let hops = topology.distance(self.node, origin, self.ringlet);
        (0..=hops).all(|hop| topology.way(topology.after(self.node, self.ringlet, hop), self.ringlet).up)
    }
}

/// Thousandths of a weight.
const UNIT: f64 = super::topology::UNIT_WEIGHT as f64;

fn capacity(view: &View<'_>) -> f64 {
    view.capacity.as_bits_per_sec() as f64
}

fn weight(topology: &Topology, node: NodeId) -> f64 {
    f64::from(topology.weight(node).max(1)) / UNIT
}

impl Fairness for Rpr {
    fn on_arrival(&mut self, _: Time, _: NodeId, _: u32) {}

    #[inline]
    fn on_sent(&mut self, now: Time, ingress: NodeId, _: NodeId, bytes: u32) {
        self.largest = self.largest.max(bytes);
        if let Some(seen) = self.seen.get_mut(ingress.index()) {
            *seen = self.tick + 1;
        }
        if ingress == self.node {
            self.add.count(bytes);
            self.sent = now;
        } else {
            self.forward.count(bytes);
        }
    }

    fn handle_control(&mut self, now: Time, view: &View<'_>, message: &[u8]) -> Result<(), Refused> {
        let message = Message::read(message)?;
        if usize::from(message.nodes) != self.nodes {
            return Err(Refused::Nodes);
        }
        let downstream = view.topology.next(self.node, self.ringlet);
        let possible = match message.rate {
            Some(_) => view.topology.has(message.origin) && self.hears(view.topology, message.origin),
            None => message.origin == downstream,
        };
        if !possible {
            return Err(Refused::Sender);
        }
        self.clock(now, view);
        self.expire(now);
        if self.heard.is_some_and(|(last, _)| (message.sequence.wrapping_sub(last) as i32) <= 0) {
            return Err(Refused::Stale);
        }
        self.heard = Some((message.sequence, now));
        self.received = (message.rate.filter(|_| message.origin != self.node)).map(|rate| Received {
            origin: message.origin,
            rate,
            at: now,
        });
        if let Some((origin, rate)) = self.received() {
            // Throttling does not wait for the interval's end; growing does.
            let rate = (rate * weight(view.topology, self.node)).min(capacity(view));
            for index in 0..self.nodes {
                if index != self.node.index() && self.is_beyond(view.topology, NodeId::at(index), origin) {
                    self.allowed.hold(index, origin, rate);
                }
            }
            self.allowed.share(capacity(view));
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, view: &View<'_>) {
        let mut clock = self.clock(now, view);
        self.expire(now);
        if now >= clock.next_aging {
            let hungry = view.station.iter().any(|egress| egress.waiting > 0);
            self.waiting_since = hungry.then(|| self.waiting_since.unwrap_or(now));
            let elapsed = now.since(clock.aged).as_nanos().max(1);
            let ticks = (elapsed / clock.aging.as_nanos()).clamp(1, MOST_LATE);
            let seconds = elapsed as f64 / ticks as f64 / 1e9;
            let (added, forwarded) = (self.add.take() / ticks as f64, self.forward.take() / ticks as f64);
            self.allowed.observe(view.station, seconds * ticks as f64);
            for _ in 0..ticks {
                self.age(now, view, seconds, added, forwarded);
            }
            self.tick += 1;
            clock.aged = now;
            clock.next_aging = after(clock.next_aging, clock.aging, now);
        }
        if now >= clock.next_advertisement {
            self.advertise(view);
            clock.next_advertisement = after(clock.next_advertisement, clock.advertisement, now);
        }
        self.clock = Some(clock);
    }

    fn handle_change(&mut self, now: Time, view: &View<'_>) {
        self.clock(now, view);
        let reachable = self.received.is_some_and(|received| self.hears(view.topology, received.origin));
        self.received = self.received.filter(|_| reachable);
        // The neighbour may be another one now, or have begun again.
        self.heard = None;
        self.allowed.cap(capacity(view));
        self.allowed.share(capacity(view));
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.clock.map_or(self.started, |clock| clock.next_aging.min(clock.next_advertisement)))
    }

    fn poll_control(&mut self) -> Option<&[u8]> {
        core::mem::take(&mut self.pending).then_some(&self.message[..])
    }

    fn limit(&self, egress: NodeId) -> Option<Rate> {
        let limit = self.allowed.limit(egress.index());
        limit.is_finite().then(|| Rate::from_bits_per_sec(limit as u64))
    }

    fn fair(&self, node: NodeId) -> Option<f64> {
        if node == self.node {
            return Some(if self.congested { self.fair / self.nominal.max(1.0) } else { 1.0 });
        }
        let received = self.received.filter(|received| received.origin == node)?;
        Some(f64::from(received.rate) / WHOLE)
    }
}

/// The next end of an interval after `now`, in step with `due`.
fn after(due: Time, interval: Span, now: Time) -> Time {
    let passed = now.since(due).as_nanos() / interval.as_nanos();
    due + interval.times(passed + 1)
}
