//! Max-min with explicit rates: the last interval's counts, Table I, and the least rate on the path. Nothing else.
//!
//! Source: what explicit rate control of ABR did (E. Hahne's max-min by links, A. Charny's marking): every link advertises its
//! max-min fair rate, every ingress keeps to the least one on the way.
//!
//! It is what DVSR is without its parts: no windows, so that rates are as coarse as counts; no suballocation, so that an ingress
//! gets its rate once for every egress; nothing spare, so that queues stay.
//!
//! Cost: as DVSR's without suballocation.

use super::circulation::Circulation;
use super::estimate::Meter;
use super::fair_rate::{Load, fair_rate};
use super::fairness::{Fairness, Refused, View};
use super::message::{Bits, Kind};
use super::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// Max-min with explicit rates for one ringlet at one node.
#[derive(Clone, Debug)]
pub struct Explicit {
    circulation: Circulation,
    arrivals: Meter,
    loads: Vec<Load>,
    limits: Vec<Option<Rate>>,
}

impl Explicit {
    /// For the data of `ringlet` at `node` of a ring of `nodes`; a message every `interval`.
    pub fn new(node: NodeId, ringlet: Ringlet, nodes: usize, interval: Span, now: Time) -> Explicit {
        Explicit {
            circulation: Circulation::new(Kind::Explicit, Bits::Sixteen, node, ringlet, nodes, interval, now),
            arrivals: Meter::new(nodes, 1, now),
            loads: Vec::with_capacity(nodes),
            limits: alloc::vec![None; nodes],
        }
    }

    /// The node's fair rate after this interval, as a share of the nominal rate.
    fn share(&mut self, view: &View<'_>) -> f64 {
        let line = view.capacity.as_bits_per_sec() as f64 / 8e9;
        let nominal = view.nominal.as_bits_per_sec() as f64 / 8e9;
        self.loads.clear();
        for (index, estimate) in self.arrivals.estimates().iter().enumerate() {
            let here = index == view.node.index();
            let fair = self.circulation.share(view.node) * nominal;
            let rate = if here { self.circulation.own_load(view, estimate.rate, fair) } else { estimate.rate };
            if rate > 0.0 {
                self.loads.push(Load { rate, tolerance: 0.0, weight: 1.0 });
            }
        }
        let rate = fair_rate(&mut self.loads, line, false, f64::INFINITY);
        rate * 8e9 / view.nominal.as_bits_per_sec().max(1) as f64
    }

    fn act(&mut self, now: Time, view: &View<'_>) {
        if now.since(self.arrivals.measured_at()).times(2) >= self.circulation.interval() {
            self.arrivals.measure(now);
            let share = self.share(view);
            self.circulation.set_share(share);
        }
        self.circulation.limit_by_path(view, &mut self.limits);
    }
}

impl Fairness for Explicit {
    #[inline]
    fn on_arrival(&mut self, now: Time, ingress: NodeId, bytes: u32) {
        self.arrivals.count(now, ingress.index(), bytes);
    }

    #[inline]
    fn on_sent(&mut self, _: Time, _: NodeId, _: NodeId, _: u32) {}

    fn handle_control(&mut self, now: Time, view: &View<'_>, message: &[u8]) -> Result<(), Refused> {
        let goes_on = self.circulation.receive(now, view.topology, message)?;
        self.act(now, view);
        self.circulation.answer(now, goes_on);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, view: &View<'_>) {
        if self.circulation.handle_timeout(now, view.topology) {
            self.act(now, view);
            self.circulation.answer(now, false);
        }
    }

    fn handle_change(&mut self, now: Time, view: &View<'_>) {
        self.circulation.handle_change(now, view.topology);
        self.circulation.limit_by_path(view, &mut self.limits);
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.circulation.poll_timeout())
    }

    fn poll_control(&mut self) -> Option<&[u8]> {
        self.circulation.poll()
    }

    fn limit(&self, egress: NodeId) -> Option<Rate> {
        *self.limits.get(egress.index())?
    }

    fn fair(&self, node: NodeId) -> Option<f64> {
        self.limits.get(node.index()).map(|_| self.circulation.share(node))
    }
}
