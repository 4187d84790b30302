//! `fastest_transmit`: the link that will have transmitted the packet first.

use super::{Frame, LinkSet, Links, Select};
use crate::units::Time;

/// The selector.
#[derive(Clone, Debug)]
pub struct FastestTransmit;

impl FastestTransmit {
    /// The selector.
    #[allow(clippy::new_without_default)]
    pub fn new() -> FastestTransmit {
        FastestTransmit
    }
}

impl Select for FastestTransmit {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
