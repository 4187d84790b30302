//! `balance-alb`: as `balance-tlb`, and what is received is balanced too.

use super::active_backup::PrimaryReselect;
use super::options::LinkRef;
use super::{Frame, LinkSet, Links, Select};
use crate::units::Span;
use crate::units::Time;

/// The settings of `balance-alb`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The link that carries what is not balanced, whenever it can. Default none.
    pub primary: Option<LinkRef>,
    /// When it is used again after it came back. Default always.
    pub primary_reselect: PrimaryReselect,
    /// How often learning packets tell the switch where addresses are. Default 1 s.
    pub lp_interval: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config { primary: None, primary_reselect: PrimaryReselect::Always, lp_interval: Span::from_secs(1) }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct BalanceAlb;

impl BalanceAlb {
    /// With these settings.
    pub fn new(_config: Config) -> BalanceAlb {
        BalanceAlb
    }
}

impl Select for BalanceAlb {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
