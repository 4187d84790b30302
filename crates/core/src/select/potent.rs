//! `potent`: the few heavy flows moved on purpose, the rest by burst.

use super::{Frame, LinkSet, Links, Select};
use crate::units::Span;
use crate::units::Time;

/// The settings of `potent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The burst threshold of the flows that are not heavy; `None`: adaptive. Default 12 ms.
    pub threshold: Option<Span>,
    /// Most flows that are remembered. Default 65,536.
    pub flows: u32,
    /// A flow without packets for this long is forgotten. Default 60 s.
    pub expiry: Span,
    /// How many flows at most count as heavy. Default 16.
    pub heavy: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: Some(Span::from_millis(12)), flows: 65_536, expiry: Span::from_secs(60), heavy: 16 }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Potent;

impl Potent {
    /// With these settings; `seed` keys the flow table's hash.
    pub fn new(_config: Config, _seed: u64) -> Potent {
        Potent
    }
}

impl Select for Potent {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
