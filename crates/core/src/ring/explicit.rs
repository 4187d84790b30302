//! Max-min with explicit rates.

use super::fairness::{Fairness, Refused, View};
use super::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};

/// Max-min with explicit rates, for one ringlet at one node.
#[derive(Clone, Debug)]
pub struct Explicit {}

impl Explicit {
    /// For `ringlet` at `node`.
    pub fn new(node: NodeId, ringlet: Ringlet, nodes: usize, interval: Span, now: Time) -> Explicit {
        let _ = (node, ringlet, nodes, interval, now);
        Explicit {}
    }
}

impl Fairness for Explicit {
    fn on_arrival(&mut self, now: Time, ingress: NodeId, bytes: u32) {
        let _ = (now, ingress, bytes);
        todo!()
    }

    fn on_sent(&mut self, now: Time, ingress: NodeId, egress: NodeId, bytes: u32) {
        let _ = (now, ingress, egress, bytes);
        todo!()
    }

    fn handle_control(&mut self, now: Time, view: &View<'_>, message: &[u8]) -> Result<(), Refused> {
        let _ = (now, view, message);
        todo!()
    }

    fn handle_timeout(&mut self, now: Time, view: &View<'_>) {
        let _ = (now, view);
        todo!()
    }

    fn handle_change(&mut self, now: Time, view: &View<'_>) {
        let _ = (now, view);
        todo!()
    }

    fn poll_timeout(&self) -> Option<Time> {
        todo!()
    }

    fn poll_control(&mut self) -> Option<&[u8]> {
        todo!()
    }

    fn limit(&self, egress: NodeId) -> Option<Rate> {
        let _ = egress;
        todo!()
    }
}
