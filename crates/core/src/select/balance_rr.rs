//! `balance-rr`: each link in turn.

use super::{Frame, LinkSet, Links, Select};
use crate::units::Time;

/// The settings of `balance-rr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Packets on a link before the next one's turn; 0: a random link for each. Default 1.
    pub packets_per_slave: u16,
}

impl Default for Config {
    fn default() -> Config {
        Config { packets_per_slave: 1 }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct BalanceRr;

impl BalanceRr {
    /// With these settings; `seed` for random links.
    pub fn new(_config: Config, _seed: u64) -> BalanceRr {
        BalanceRr
    }
}

impl Select for BalanceRr {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
