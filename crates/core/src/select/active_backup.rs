//! `active-backup`: one link; another one when it fails.

use super::options::LinkRef;
use super::{Frame, LinkSet, Links, Select};
use crate::units::Time;

/// When the primary link is used again after it came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryReselect {
    /// At once.
    #[default]
    Always,
    /// If it is faster than the one in use, or as fast and full duplex where that is not.
    Better,
    /// Only when the one in use fails.
    Failure,
}

/// Whose Ethernet address a bond of Ethernet links sends from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOverMac {
    /// The bond's own, on all links.
    #[default]
    None,
    /// That of the link in use; the bond's changes with it.
    Active,
    /// The bond's, given to the link in use only.
    Follow,
}

/// The settings of `active-backup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The link that is used whenever it can be. Default none.
    pub primary: Option<LinkRef>,
    /// When it is used again after it came back. Default always.
    pub primary_reselect: PrimaryReselect,
    /// Whose address an Ethernet bond sends from. Default the bond's own on all links.
    pub fail_over_mac: FailOverMac,
}

/// The selector.
#[derive(Clone, Debug)]
pub struct ActiveBackup;

impl ActiveBackup {
    /// With these settings.
    pub fn new(_config: Config) -> ActiveBackup {
        ActiveBackup
    }
}

impl Select for ActiveBackup {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
