//! The fairness algorithm of IEEE 802.17, in aggressive and conservative mode.

use super::fairness::{Fairness, Refused, View};
use super::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};

/// Transit queues of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// One, which goes before the station.
    Single,
    /// A primary and a secondary one; the secondary one in turn with the station.
    Dual,
}

/// How congestion is found and what is advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The congested node's own rate.
    Aggressive,
    /// The link divided among active nodes.
    Conservative,
}

/// Settings of either mode.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Transit queues.
    pub queue: Queue,
}

impl Config {
    /// The defaults of aggressive mode.
    pub fn aggressive() -> Config {
        Config { queue: Queue::Dual }
    }

    /// The defaults of conservative mode.
    pub fn conservative() -> Config {
        Config { queue: Queue::Single }
    }
}

/// The algorithm for one ringlet at one node.
#[derive(Clone, Debug)]
pub struct Rpr {}

impl Rpr {
    /// For `ringlet` at `node`.
    pub fn new(
        mode: Mode,
        config: &Config,
        node: NodeId,
        ringlet: Ringlet,
        nodes: usize,
        interval: Span,
        now: Time,
    ) -> Rpr {
        let _ = (mode, config, node, ringlet, nodes, interval, now);
        Rpr {}
    }
}

impl Fairness for Rpr {
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
