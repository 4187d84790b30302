//! What stands beside the delay lines: it leaves when it is due, whatever is before it on its channel.

use crate::units::{ChannelId, Time};
use core::cmp::Ordering;

/// A packet that those behind it on its channel do not wait for.
#[derive(Debug)]
pub(super) struct Aside<A> {
    pub(super) due: Time,
    /// Of those that are due at one time, the first that came is the first that leaves.
    pub(super) order: u64,
    pub(super) channel: ChannelId,
    pub(super) arrival: A,
}

impl<A> Ord for Aside<A> {
    /// The greatest is the one that is due first: what a heap gives.
    fn cmp(&self, other: &Aside<A>) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl<A> PartialOrd for Aside<A> {
    fn partial_cmp(&self, other: &Aside<A>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<A> PartialEq for Aside<A> {
    fn eq(&self, other: &Aside<A>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<A> Eq for Aside<A> {}
