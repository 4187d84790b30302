//! What an acceptable segment acknowledges, in positions.
//!
//! Source: RFC 9293, 3.10.7.4 (fifth); RFC 2018, 3 (blocks); RFC 2883, 4 (duplicates); RFC 7323, 3 (the timestamp clock).

use fairspan_core::units::Time;

/// An acceptable acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledgment {
    /// What it acknowledges, as a position: SEG.ACK.
    pub position: u64,
    /// Whether it could be a duplicate ACK: no payload, no SYN, no FIN, and the window as before.
    pub bare: bool,
    /// Blocks, as positions; `count` count. The duplicate is not among them.
    pub blocks: [(u64, u64); 4],
    pub count: usize,
    /// RFC 2883: a duplicate that it reports.
    pub duplicate: Option<(u64, u64)>,
    /// TSecr, where timestamps are in use.
    pub echo: Option<u32>,
}

impl Acknowledgment {
    /// Without SACK.
    #[inline]
    pub(super) fn new(position: u64, bare: bool, echo: Option<u32>) -> Acknowledgment {
        Acknowledgment { position, bare, blocks: [(0, 0); 4], count: 0, duplicate: None, echo }
    }

    /// Takes the blocks of the option, at most four; `unwrap` tells the position of a sequence number.
    pub(super) fn take_blocks(&mut self, blocks: &[(u32, u32)], unwrap: impl Fn(u32) -> u64) {
        for (index, (left, right)) in blocks.iter().enumerate() {
            let (left, right) = (unwrap(*left), unwrap(*right));
            if index == 0 && left < right {
                // RFC 2883 §4: a first block below the ACK, or inside the second, is a duplicate.
                let inside = blocks.get(1).is_some_and(|(l, r)| unwrap(*l) <= left && right <= unwrap(*r));
                if right <= self.position || inside {
                    self.duplicate = Some((left, right));
                    continue;
                }
            }
            self.blocks[self.count] = (left, right);
            self.count += 1;
        }
    }
}

/// The timestamp clock: milliseconds.
pub(super) fn stamp(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}
