//! `least_queue`: the link with the shortest queue; of equals the fastest.

use super::{Frame, LinkSet, Links, Select};
use crate::units::Time;

/// The selector.
#[derive(Clone, Copy, Debug)]
pub struct LeastQueue;

impl Select for LeastQueue {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
