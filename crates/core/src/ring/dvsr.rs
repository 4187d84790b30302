//! Distributed virtual-time scheduling in rings.

use super::fairness::{Fairness, Refused, View};
use super::options::Share;
use super::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};

/// Size of a fair rate in control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bits {
    /// One byte, as in the testbed.
    Eight,
    /// Two bytes.
    #[default]
    Sixteen,
}

/// How a node shares its rate on a link among its own flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suballocation {
    /// Max-min over each flow's path; what a flow does not want, its siblings get.
    #[default]
    MaxMin,
    /// Equation (9): equal parts at each link.
    Equal,
}

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
}

impl Default for Config {
    fn default() -> Config {
        Config {
            bits: Bits::default(),
            suballocation: Suballocation::default(),
            window: 64,
            spare: Share::from_millionths(300),
        }
    }
}

/// DVSR for one ringlet at one node.
#[derive(Clone, Debug)]
pub struct Dvsr {}

impl Dvsr {
    /// For `ringlet` at `node`.
    pub fn new(config: &Config, node: NodeId, ringlet: Ringlet, nodes: usize, interval: Span, now: Time) -> Dvsr {
        let _ = (config, node, ringlet, nodes, interval, now);
        Dvsr {}
    }
}

impl Fairness for Dvsr {
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
