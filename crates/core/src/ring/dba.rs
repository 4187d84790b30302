//! Distributed bandwidth allocation: a link's fair rate from the sum of what comes, in constant time.
//!
//! Source: F. Alharbi and N. Ansari, "Distributed bandwidth allocation for resilient packet ring networks", Computer
//! Networks 49(2), 2005, as publicly described.
//!
//! | symbol | here |
//! |---|---|
//! | A, arrivals of an interval | the sum of `arrivals` |
//! | F, fair rate | `fair` |
//! | M, effective number of flows | A / F |
//!
//! Every interval F += (C - A) / M: if all that comes is of flows limited to F, the next A is C; flows that send less make M
//! smaller than their number, so that the others get what they leave. A flow is limited to the least F on its path.
//!
//! Departures: F stays between C/N and C. M is at least a tenth of a flow, or an idle link would divide by nothing.
//! Rates circle in DVSR's message.
//!
//! Cost: per packet an array addition; per interval a sum over the ingresses (which a counter for all would save).

use super::circulation::Circulation;
use super::estimate::Meter;
use super::fairness::{Fairness, Refused, View};
use super::message::{Bits, Kind};
use super::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// The least effective number of flows.
const LEAST_FLOWS: f64 = 0.1;

/// Distributed bandwidth allocation for one ringlet at one node.
#[derive(Clone, Debug)]
pub struct Dba {
    circulation: Circulation,
    arrivals: Meter,
    /// As a share of the link.
    fair: f64,
    limits: Vec<Option<Rate>>,
}

impl Dba {
    /// For the data of `ringlet` at `node` of a ring of `nodes`; a message every `interval`.
    pub fn new(node: NodeId, ringlet: Ringlet, nodes: usize, interval: Span, now: Time) -> Dba {
        Dba {
            circulation: Circulation::new(Kind::Dba, Bits::Sixteen, node, ringlet, nodes, interval, now),
            arrivals: Meter::new(nodes, 1, now),
            fair: 1.0,
            limits: alloc::vec![None; nodes],
        }
    }

    /// The node's fair rate after this interval, as a share of the nominal rate.
    fn share(&mut self, view: &View<'_>) -> f64 {
        let line = view.capacity.as_bits_per_sec() as f64 / 8e9;
        let sent = self.arrivals.estimates()[view.node.index()].rate;
        let own = self.circulation.own_load(view, sent, self.fair * line);
        let sum = self.arrivals.total() - sent + own;
        let arrivals = sum / line.max(1e-12);
        let flows = (arrivals / self.fair).max(LEAST_FLOWS);
        let least = 1.0 / view.topology.nodes() as f64;
        self.fair = (self.fair + (1.0 - arrivals) / flows).clamp(least, 1.0);
        self.fair * view.capacity.as_bits_per_sec() as f64 / view.nominal.as_bits_per_sec().max(1) as f64
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

impl Fairness for Dba {
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
