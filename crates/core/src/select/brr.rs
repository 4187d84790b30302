//! `brr`: burst round robin.

use super::{Frame, LinkSet, Links, Select};
use crate::units::Span;
use crate::units::Time;

/// The settings of `brr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// A packet that comes this long after the one before it starts a new burst; `None`: adaptive. Default 12 ms.
    pub threshold: Option<Span>,
    /// Most flows that are remembered. Default 65,536.
    pub flows: u32,
    /// A flow without packets for this long is forgotten. Default 60 s.
    pub expiry: Span,
    /// Whether links of higher rate or weight get bursts in proportion. Default true.
    pub weighted: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: Some(Span::from_millis(12)), flows: 65_536, expiry: Span::from_secs(60), weighted: true }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Brr;

impl Brr {
    /// With these settings; `seed` keys the flow table's hash.
    pub fn new(_config: Config, _seed: u64) -> Brr {
        Brr
    }
}

impl Select for Brr {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
