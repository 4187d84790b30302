//! `broadcast`: every packet on every link.

use super::{Frame, Links, Select};
use crate::set::LinkSet;
use crate::units::Time;

/// The selector.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast;

impl Select for Broadcast {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, links: &Links) -> LinkSet {
        links.usable()
    }
}
