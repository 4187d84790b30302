//! The rates that a node allows its own packets, one for each egress, and what of them each limiter gets.
//!
//! The paper (II-B) has `allowed_rate[i][j]` for each egress j. Taken literally, a node with packets for two nodes beyond
//! a congested link would send at twice the fair rate; but the fair rate is one of an ingress ("the fair rate that an
//! ingress-based flow can transmit"), and 802.17 counts all that a station adds beyond the congestion point. So egresses
//! that are held by the same congested node share their rate: max-min by what each has to send.

use crate::ring::NodeId;
use crate::ring::fairness::Station;
use alloc::vec::Vec;

/// A rate this close to the capacity is the capacity: growth by a share of what lacks never ends.
const CLOSE: f64 = 1e-4;
/// Offered rates are averaged over this many intervals.
const DEMAND_INTERVALS: f64 = 64.0;

/// What one egress is allowed.
#[derive(Clone, Copy, Debug)]
struct Egress {
    /// allowed_rate\[i]\[j], bit/s; infinite while nothing ever held it back.
    rate: f64,
    /// The node whose congestion holds it back, or held it back last while it grows.
    held_by: Option<NodeId>,
    /// What its limiter gets of `rate`.
    limit: f64,
    /// Bytes offered when it was last looked at.
    offered: u64,
    /// Offered, bit/s, averaged.
    demand: f64,
    /// Has packets that wait.
    hungry: bool,
}

/// The rates of one ringlet.
#[derive(Clone, Debug)]
pub(super) struct Allowed {
    egresses: Vec<Egress>,
    /// What all of the node's packets together may take of its own link, bit/s.
    own: f64,
    /// Without limiters for each egress: the least rate is for all packets together.
    together: bool,
}

impl Allowed {
    pub(super) fn new(nodes: usize, together: bool) -> Allowed {
        let free =
            Egress { rate: f64::INFINITY, held_by: None, limit: f64::INFINITY, offered: 0, demand: 0.0, hungry: false };
        Allowed { egresses: alloc::vec![free; nodes], own: f64::INFINITY, together }
    }

    /// Holds an egress to the fair rate of `by`: at once where that is less; up to it where `by` held it already.
    pub(super) fn hold(&mut self, egress: usize, by: NodeId, rate: f64) {
        let Some(egress) = self.egresses.get_mut(egress) else { return };
        egress.rate = if egress.held_by == Some(by) { rate } else { egress.rate.min(rate) };
        egress.held_by = Some(by);
    }

    /// Lets an egress grow towards `capacity`.
    pub(super) fn grow(&mut self, egress: usize, capacity: f64, coefficient: f64) {
        let Some(egress) = self.egresses.get_mut(egress) else { return };
        egress.rate = grown(egress.rate, capacity, coefficient);
        if egress.rate >= capacity {
            egress.held_by = None;
        }
    }

    /// Holds all packets of the node together to the fair rate of its own link.
    pub(super) fn hold_own(&mut self, rate: f64) {
        self.own = rate;
    }

    /// Lets the node's share of its own link grow.
    pub(super) fn grow_own(&mut self, capacity: f64, coefficient: f64) {
        self.own = grown(self.own, capacity, coefficient);
    }

    /// Lets nothing go faster than the link.
    pub(super) fn cap(&mut self, capacity: f64) {
        self.own = self.own.min(capacity);
        for egress in &mut self.egresses {
            egress.rate = if egress.held_by.is_none() { capacity } else { egress.rate.min(capacity) };
        }
    }

    /// An interval of `seconds` ended in which the station offered what it did.
    pub(super) fn observe(&mut self, station: &[Station], seconds: f64) {
        for (egress, now) in self.egresses.iter_mut().zip(station) {
            let bytes = now.offered.saturating_sub(egress.offered);
            egress.offered = now.offered;
            egress.demand += (bytes as f64 * 8.0 / seconds - egress.demand) / DEMAND_INTERVALS;
            egress.hungry = now.waiting > 0;
        }
    }

    /// Divides the rates among the limiters.
    pub(super) fn share(&mut self, capacity: f64) {
        for at in 0..self.egresses.len() {
            let Egress { held_by, rate, .. } = self.egresses[at];
            self.egresses[at].limit = if held_by.is_none() {
                rate
            } else if let Some(first) = self.egresses[..at].iter().find(|other| other.held_by == held_by) {
                first.limit
            } else {
                let members = || self.egresses.iter().filter(|other| other.held_by == held_by);
                let total = members().map(|other| other.rate).fold(f64::INFINITY, f64::min);
                level(total, || members().map(|other| other.wants(f64::INFINITY)))
            };
        }
        let least = self.egresses.iter().map(|egress| egress.rate).fold(f64::INFINITY, f64::min);
        let total = if self.together { self.own.min(least) } else { self.own };
        // A whole link is shared by the scheduler.
        if total < capacity {
            let level = level(total, || self.egresses.iter().map(|egress| egress.wants(egress.limit)));
            for egress in &mut self.egresses {
                egress.limit = egress.limit.min(level);
            }
        }
    }

    pub(super) fn limit(&self, egress: usize) -> f64 {
        self.egresses.get(egress).map_or(f64::INFINITY, |egress| egress.limit)
    }

    /// The least rate at which a packet that waits may enter.
    pub(super) fn slowest_hungry(&self) -> Option<f64> {
        self.egresses.iter().filter(|egress| egress.hungry).map(|egress| egress.limit).reduce(f64::min)
    }
}

impl Egress {
    /// What it would send at most, with a limiter at `limit`.
    fn wants(&self, limit: f64) -> f64 {
        if self.hungry { limit } else { self.demand.min(limit) }
    }
}

/// `rate` with its share of what it lacks.
fn grown(rate: f64, capacity: f64, coefficient: f64) -> f64 {
    let rate = rate.min(capacity);
    let rate = rate + (capacity - rate) / coefficient;
    if rate >= capacity * (1.0 - CLOSE) { capacity } else { rate }
}

/// The level up to which demands are met when `total` is shared max-min; `total` itself where they ask for less.
fn level<I: Iterator<Item = f64>>(total: f64, demands: impl Fn() -> I) -> f64 {
    let mut level = 0.0;
    loop {
        let (mut met, mut more) = (0.0, 0_u32);
        for demand in demands() {
            if demand > level {
                more += 1;
            } else {
                met += demand;
            }
        }
        if more == 0 {
            // Nobody asks for more: what is left is everybody's.
            return level.max(total - met);
        }
        let next = (total - met) / f64::from(more);
        // Levels only rise, and each step meets at least one demand more.
        if next <= level {
            return level;
        }
        level = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    /// Four egresses; two of them with packets waiting, one that offers 100 bytes in 100 us (8 Mbit/s) and no more.
    fn busy(together: bool) -> Allowed {
        let mut allowed = Allowed::new(4, together);
        for n in 1..=2000 {
            let station = [
                Station::default(),
                Station { offered: n * 9000, waiting: 5000 },
                Station { offered: n * 100, waiting: 0 },
                Station { offered: n * 9000, waiting: 5000 },
            ];
            allowed.observe(&station, 1e-4);
        }
        allowed
    }

    #[test]
    fn what_one_congested_node_holds_is_shared_by_what_there_is_to_send() {
        let mut allowed = busy(false);
        allowed.cap(100e6);
        for egress in [1, 2, 3] {
            allowed.hold(egress, node(4), 28e6);
        }
        allowed.share(100e6);
        for egress in [1, 3] {
            assert!((allowed.limit(egress) - 10e6).abs() < 1e3, "{}", allowed.limit(egress));
        }
        assert_eq!(allowed.limit(0), 100e6, "not beyond the congested node");
    }

    #[test]
    fn egresses_held_by_different_nodes_do_not_share_but_for_the_own_link() {
        let mut allowed = busy(false);
        allowed.cap(100e6);
        allowed.hold(1, node(2), 50e6);
        allowed.hold(3, node(4), 20e6);
        allowed.share(100e6);
        assert_eq!([1, 3].map(|egress| allowed.limit(egress)), [50e6, 20e6]);
        allowed.hold_own(68e6);
        allowed.share(100e6);
        assert!((allowed.limit(1) - 40e6).abs() < 1e3, "{}", allowed.limit(1));
        assert_eq!(allowed.limit(3), 20e6, "8 of the 68 are another egress's, 20 this one's");
    }

    #[test]
    fn without_limiters_for_each_egress_the_slowest_rate_is_for_all() {
        let mut allowed = busy(true);
        allowed.cap(100e6);
        allowed.hold(3, node(4), 28e6);
        allowed.share(100e6);
        assert!((allowed.limit(1) - 10e6).abs() < 1e3, "{}", allowed.limit(1));
        assert!((allowed.limit(3) - 10e6).abs() < 1e3);
    }

    #[test]
    fn a_rate_grows_by_a_share_of_what_lacks_and_ends_at_the_capacity() {
        let mut allowed = Allowed::new(2, false);
        allowed.hold(1, node(1), 36e6);
        allowed.grow(1, 100e6, 64.0);
        allowed.share(100e6);
        assert_eq!(allowed.limit(1), 37e6);
        for _ in 0..1000 {
            allowed.grow(1, 100e6, 64.0);
        }
        allowed.share(100e6);
        assert_eq!(allowed.limit(1), 100e6);
    }

    #[test]
    fn who_held_an_egress_may_raise_its_rate_and_another_node_may_not() {
        let mut allowed = Allowed::new(2, false);
        for (by, rate, expected) in [(1, 36e6, 36e6), (1, 50e6, 50e6), (2, 60e6, 50e6), (1, 10e6, 10e6)] {
            allowed.hold(1, node(by), rate);
            allowed.share(100e6);
            assert_eq!(allowed.limit(1), expected);
        }
    }

    #[test]
    fn who_held_an_egress_may_raise_its_rate_while_it_grows_too() {
        let mut allowed = Allowed::new(2, false);
        allowed.hold(1, node(1), 36e6);
        allowed.grow(1, 100e6, 64.0);
        allowed.hold(1, node(1), 50e6);
        allowed.share(100e6);
        assert_eq!(allowed.limit(1), 50e6);
    }

    #[test]
    fn a_level_meets_small_demands_and_leaves_the_rest_to_the_others() {
        let level = |total, demands: &[f64]| level(total, || demands.iter().copied());
        assert_eq!(level(90.0, &[f64::INFINITY, 10.0, f64::INFINITY]), 40.0);
        assert_eq!(level(90.0, &[f64::INFINITY, f64::INFINITY, f64::INFINITY]), 30.0);
        assert_eq!(level(90.0, &[10.0, 20.0]), 60.0, "one that asks for more later finds what is left");
        assert_eq!(level(90.0, &[]), 90.0);
        assert_eq!(level(0.0, &[f64::INFINITY]), 0.0);
    }
}
