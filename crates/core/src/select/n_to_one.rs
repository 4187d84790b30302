//! `n_to_one` and `n_to_one_primary`: N packets on the fast link for each on a slow one.

use super::options::LinkRef;
use super::{Frame, LinkSet, Links, Select};
use crate::units::Bytes;
use crate::units::Time;

/// The settings of `n_to_one`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Packets on the fastest link for each on a slow one; `None` (the default): the ratio of rates or weights.
    pub n: Option<u32>,
}

/// The settings of `n_to_one_primary`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrimaryConfig {
    /// As [`Config::n`].
    pub n: Option<u32>,
    /// Packets above this size go to the primary link. Default 512.
    pub size: Bytes,
    /// The primary link. Default the fastest.
    pub primary: Option<LinkRef>,
}

impl Default for PrimaryConfig {
    fn default() -> PrimaryConfig {
        PrimaryConfig { n: None, size: Bytes::new(512), primary: None }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct NToOne;

impl NToOne {
    /// `n_to_one`.
    pub fn new(_config: Config) -> NToOne {
        NToOne
    }

    /// `n_to_one_primary`.
    pub fn primary(_config: PrimaryConfig) -> NToOne {
        NToOne
    }
}

impl Select for NToOne {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
