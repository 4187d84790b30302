//! `traffic_meter`: the link with the lowest traffic meter.

use super::{Frame, LinkSet, Links, Select};
use crate::units::Span;
use crate::units::Time;

/// The settings of `traffic_meter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The time constant of the meters. Default 10 ms.
    pub window: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config { window: Span::from_millis(10) }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct TrafficMeter;

impl TrafficMeter {
    /// With these settings.
    pub fn new(_config: Config) -> TrafficMeter {
        TrafficMeter
    }
}

impl Select for TrafficMeter {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
