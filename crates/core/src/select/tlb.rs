//! `balance-tlb`: each destination to the link with the most room.

use super::active_backup::PrimaryReselect;
use super::options::LinkRef;
use super::xor::HashPolicy;
use super::{Frame, LinkSet, Links, Select};
use crate::units::Span;
use crate::units::Time;

/// The settings of `balance-tlb`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Whether flows move as loads change; off: the hash alone chooses. Default true.
    pub tlb_dynamic_lb: bool,
    /// Which headers choose the link where flows do not move. Default layer 2.
    pub xmit_hash_policy: HashPolicy,
    /// The link that carries what is not balanced, whenever it can. Default none.
    pub primary: Option<LinkRef>,
    /// When it is used again after it came back. Default always.
    pub primary_reselect: PrimaryReselect,
    /// How often learning packets tell the switch where addresses are. Default 1 s.
    pub lp_interval: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            tlb_dynamic_lb: true,
            xmit_hash_policy: HashPolicy::Layer2,
            primary: None,
            primary_reselect: PrimaryReselect::Always,
            lp_interval: Span::from_secs(1),
        }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct BalanceTlb;

impl BalanceTlb {
    /// With these settings.
    pub fn new(_config: Config) -> BalanceTlb {
        BalanceTlb
    }
}

impl Select for BalanceTlb {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
