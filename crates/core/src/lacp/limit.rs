//! How many frames of a protocol a port may send in a second (IEEE 802.1AX-2014, 6.4.16; Slow Protocols: ten).

use super::FAST_PERIODIC_TIME;
use crate::units::Time;

/// When the last `N` frames left: no more than `N` in any second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit<const N: usize> {
    times: [Option<Time>; N],
    next: usize,
}

impl<const N: usize> Default for Limit<N> {
    fn default() -> Self {
        Limit { times: [None; N], next: 0 }
    }
}

impl<const N: usize> Limit<N> {
    /// When the next one may leave.
    pub(super) fn free(&self) -> Time {
        self.times[self.next].map_or(Time::ZERO, |oldest| oldest + FAST_PERIODIC_TIME)
    }

    pub(super) fn take(&mut self, now: Time) {
        self.times[self.next] = Some(now);
        self.next = (self.next + 1) % N;
    }
}
