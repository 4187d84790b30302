//! `802.3ad`: a hash chooses among the links of the active aggregator.

use super::xor::HashPolicy;
use super::{Frame, LinkSet, Links, Select};
use crate::units::Time;
use crate::wire::mac::Mac;

/// How often the partner is asked to send LACPDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LacpRate {
    /// Every 30 s.
    #[default]
    Slow,
    /// Every second.
    Fast,
}

/// Which aggregator is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdSelect {
    /// The best one, until it has no link left.
    #[default]
    Stable,
    /// That of the highest rate.
    Bandwidth,
    /// That of the most links.
    Count,
}

/// The settings of `802.3ad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Which headers choose the link. Default layer 2.
    pub xmit_hash_policy: HashPolicy,
    /// How often the partner is asked to send LACPDUs. Default slow.
    pub lacp_rate: LacpRate,
    /// Whether LACPDUs are sent to a partner that sends none. Default true.
    pub lacp_active: bool,
    /// Which aggregator is used. Default stable.
    pub ad_select: AdSelect,
    /// Fewer links than this in the aggregator: none is used. Default 0.
    pub min_links: u16,
    /// The system priority in LACPDUs. Default 65535.
    pub ad_actor_sys_prio: u16,
    /// The upper ten bits of the ports' key. Default 0.
    pub ad_user_port_key: u16,
    /// The system's address in LACPDUs. Default `None`: the bond's own address.
    pub ad_actor_system: Option<Mac>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            xmit_hash_policy: HashPolicy::Layer2,
            lacp_rate: LacpRate::Slow,
            lacp_active: true,
            ad_select: AdSelect::Stable,
            min_links: 0,
            ad_actor_sys_prio: 65_535,
            ad_user_port_key: 0,
            ad_actor_system: None,
        }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Ieee8023ad;

impl Ieee8023ad {
    /// With these settings.
    pub fn new(_config: Config) -> Ieee8023ad {
        Ieee8023ad
    }
}

impl Select for Ieee8023ad {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
