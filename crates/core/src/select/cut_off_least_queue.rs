//! `cut_off_least_queue`: large packets on the fastest link, small ones to the shortest queue.

use super::options::LinkRef;
use super::{Frame, LinkSet, Links, Select};
use crate::units::Bytes;
use crate::units::Time;

/// The settings of `cut_off_least_queue`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Packets above this size go to the primary link. Default 512.
    pub size: Bytes,
    /// The primary link. Default the fastest.
    pub primary: Option<LinkRef>,
}

impl Default for Config {
    fn default() -> Config {
        Config { size: Bytes::new(512), primary: None }
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct CutOffLeastQueue;

impl CutOffLeastQueue {
    /// With these settings.
    pub fn new(_config: Config) -> CutOffLeastQueue {
        CutOffLeastQueue
    }
}

impl Select for CutOffLeastQueue {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
