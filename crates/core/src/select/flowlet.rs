//! `flowlet`: each flowlet to a link chosen anew.

use super::{Frame, LinkSet, Links, Select};
use crate::units::Span;
use crate::units::Time;

/// The settings of `flowlet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// A packet that comes this long after the one before it starts a new flowlet; `None`: adaptive. Default 50 ms.
    pub timeout: Option<Span>,
    /// Most flows that are remembered. Default 65,536.
    pub flows: u32,
    /// A flow without packets for this long is forgotten. Default 60 s.
    pub expiry: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config { timeout: Some(Span::from_millis(50)), flows: 65_536, expiry: Span::from_secs(60) }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Flowlet;

impl Flowlet {
    /// With these settings; `seed` keys the flow table's hash and draws links.
    pub fn new(_config: Config, _seed: u64) -> Flowlet {
        Flowlet
    }
}

impl Select for Flowlet {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
