//! The mean length of the packets of each queue.
//!
//! What it is: an exponential mean that gives the newest packet an eighth, of the packets that came since the queue was empty.
//! For disciplines that count packets and are to share bytes (weighted round robin, randomised fair queueing). Cost: O(1) a
//! packet, 8 bytes a queue.

use alloc::vec::Vec;

/// Places behind the point of a mean.
const PLACES: u32 = 8;

/// Mean lengths by queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Means(Vec<u64>);

impl Means {
    /// A packet of `size` bytes came to `queue`; `first`, which was empty.
    #[inline]
    pub(super) fn note(&mut self, queue: u32, size: u32, first: bool) {
        if self.0.len() <= queue as usize {
            self.0.resize(queue as usize + 1, 0);
        }
        let (mean, size) = (&mut self.0[queue as usize], u64::from(size) << PLACES);
        *mean = if first { size } else { (*mean * 7 + size) / 8 };
    }

    /// The mean of `queue` in bytes, at least one.
    #[inline]
    pub(super) fn of(&self, queue: u32) -> u64 {
        self.0.get(queue as usize).map_or(1, |mean| (mean >> PLACES).max(1))
    }
}
