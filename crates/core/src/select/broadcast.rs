//! `broadcast`: every packet on every link.

use super::PolicyConfig;
use super::{Frame, Links, Select};
use crate::options::Table;
use crate::set::LinkSet;
use crate::units::Time;

/// The settings: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config;

impl PolicyConfig for Config {
    const NAME: &'static str = "broadcast";
    const MODE: Option<u8> = Some(3);
    const HELP: &'static str = "every packet on every link";
    const OPTIONS: Table<Config> = Table(&[]);
    const LOOKS_AT_QUEUES: bool = false;
    type Selector = Broadcast;

    fn selector(&self, _seed: u64) -> Broadcast {
        Broadcast
    }
}

/// The selector.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast;

impl Select for Broadcast {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, links: &Links) -> LinkSet {
        links.usable()
    }
}
